// How a proxy is named.
#include <informer/http/client.hpp>
#include <informer/http/proxy.hpp>

#include <boost/asio/io_context.hpp>

#include <catch2/catch_test_macros.hpp>

#include <string>

using namespace informer;

namespace {

http::proxy good(std::string_view url) {
    failure f;
    auto p = http::proxy::parse(url, f);
    INFO(url << ": " << f.what());
    CHECK_FALSE(f);
    CHECK(p);
    return p;
}

std::string refusal(std::string_view url) {
    failure f;
    const auto p = http::proxy::parse(url, f);
    INFO(url);
    CHECK(f == errc::bad_configuration);
    CHECK_FALSE(p);
    return f.message();
}

bool has(const std::string& text, std::string_view part) {
    UNSCOPED_INFO(text);
    return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a proxy has a protocol, host and port, and its URL says them all") {
    CHECK(good("http://proxy.example:3128").url() == "http://proxy.example:3128");
    CHECK(good("http://proxy.example").url() == "http://proxy.example:80");
    CHECK(good("HTTP://10.0.0.1:8080/").url() == "http://10.0.0.1:8080");
    CHECK(good("http://proxy:1/some/path?x=1#y").url() == "http://proxy:1"); // as Go, which ignores it
    CHECK(good("https://proxy.example").url() == "https://proxy.example:443");
    CHECK(good("Https://[::1]:3129").url() == "https://[::1]:3129");
    CHECK(good("socks5://proxy").url() == "socks5://proxy:1080");
    CHECK(good("socks5h://[::1]:9").url() == "socks5://[::1]:9");
    CHECK(good("socks5://[fd00::1]").url() == "socks5://[fd00::1]:1080");
    CHECK(good("proxy:3128").url() == "http://proxy:3128");
    CHECK(good("localhost").url() == "http://localhost:80");
    CHECK(http::proxy().url().empty());
    CHECK_FALSE(http::proxy());
}

TEST_CASE("a proxy's user and password are percent-decoded") {
    auto p = good("http://us%40er:p%3Ass%2F@proxy:1");
    CHECK(p.user == "us@er");
    CHECK(p.password == "p:ss/");
    CHECK(p.authenticates());
    CHECK(p.url() == "http://proxy:1");
    p = good("http://me:a@b:c@proxy"); // up to the last '@', as Go has it
    CHECK(p.user == "me");
    CHECK(p.password == "a@b:c");
    CHECK(p.host == "proxy");
    CHECK(good("socks5://me@proxy").user == "me");
    CHECK_FALSE(good("http://@proxy").authenticates());
    CHECK_FALSE(good("http://proxy").authenticates());
    CHECK(good("http://:token@proxy").password == "token");
}

TEST_CASE("a proxy that cannot be used is refused with the reason, and no password is repeated") {
    CHECK(has(refusal("ftp://me:s3cret@proxy:3128"),
              "'ftp://proxy:3128' is no proxy that can be used: the scheme must be http, https or socks5"));
    CHECK(has(refusal("socks4://proxy"), "the scheme must be http, https or socks5"));
    for (const auto* url : {"", "http://", "http://:80", "http://proxy:0", "http://proxy:70000", "http://proxy:x",
                            "http://a b", "http://[::1", "socks5://", "http:///x", "http://h\r\nost"})
        refusal(url);
    for (const auto* url :
         {"http://me:s3cret@", "http://me:s3cret@proxy:x", "ftp://me:s3cret@proxy", "me:s3cret://x@proxy",
          "http://me:s3cret/s3cret@proxy", "http://me:1?s3cret@proxy", "http://me:1#s3cret@proxy:1", "http://s3cret@h@",
          "me:s3cret@:x", "http://me:s3cret", "socks5://:s3cret@proxy"}) {
        const auto text = refusal(url);
        CHECK_FALSE(has(text, "s3cret"));
    }
    const std::string longest(255, 'x');
    good("socks5://" + longest + ":" + longest + "@proxy");
    CHECK_FALSE(has(refusal("socks5://" + longest + "x@proxy"), "xx"));
    refusal("socks5://me:" + longest + "x@proxy");
    good("http://me:" + longest + "x@proxy");
}

TEST_CASE("an unusable proxy, or a host that a proxy cannot be told, is a configuration error of the client") {
    asio::io_context io;
    http::endpoint to;
    to.host = "127.0.0.1";
    to.port = 1;
    http::proxy p;
    p.speaks = http::proxy::protocol::http;
    failure f;
    http::client none(runtime(io.get_executor()), to, http::client_options().proxy(p), f);
    CHECK(f == errc::bad_configuration);
    CHECK(f.message() == "the proxy has no host or no port");
    p = good("socks5://proxy");
    to.host = std::string(256, 'x');
    http::client wide(runtime(io.get_executor()), to, http::client_options().proxy(p), f);
    CHECK(f == errc::bad_configuration);
    to.host = "a\r\nb";
    http::client broken(runtime(io.get_executor()), to, http::client_options().proxy(p), f);
    CHECK(f.message() == "the server's host cannot be said to the proxy socks5://proxy:1080");
}
