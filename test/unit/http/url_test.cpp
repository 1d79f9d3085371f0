#include <informer/http/url.hpp>

#include <catch2/catch_test_macros.hpp>

using namespace informer;

namespace {

http::endpoint good(std::string_view url) {
    failure f;
    auto e = http::endpoint::parse(url, f);
    INFO(f.what());
    CHECK_FALSE(f);
    return e;
}

failure bad(std::string_view url) {
    failure f;
    http::endpoint::parse(url, f);
    return f;
}

} // namespace

TEST_CASE("an endpoint has scheme, host, port and prefix") {
    const auto e = good("https://10.0.0.1:6443/k8s/clusters/c1/");
    CHECK(e.tls);
    CHECK(e.host == "10.0.0.1");
    CHECK(e.port == 6443);
    CHECK(e.prefix == "/k8s/clusters/c1");
    CHECK(e.host_is_ip());
    CHECK(e.url() == "https://10.0.0.1:6443/k8s/clusters/c1");
    CHECK(e.host_header() == "10.0.0.1:6443");
}

TEST_CASE("a missing port is the scheme's and is left out of the Host header") {
    CHECK(good("https://api.example").port == 443);
    CHECK(good("http://api.example").port == 80);
    CHECK(good("https://api.example").host_header() == "api.example");
    CHECK(good("http://api.example:443").host_header() == "api.example:443");
    CHECK(good("http://api.example/").prefix.empty());
}

TEST_CASE("an address without scheme is plain HTTP") {
    const auto e = good("localhost:8080");
    CHECK_FALSE(e.tls);
    CHECK(e.host == "localhost");
    CHECK(e.port == 8080);
    CHECK_FALSE(e.host_is_ip());
}

TEST_CASE("an IPv6 literal loses its brackets in the host and keeps them in URLs") {
    const auto e = good("http://[::1]:8080");
    CHECK(e.host == "::1");
    CHECK(e.host_is_ip());
    CHECK(e.url() == "http://[::1]:8080");
    CHECK(good("https://[fd00::1]").host_header() == "[fd00::1]");
}

TEST_CASE("an address that is no endpoint is refused with a reason") {
    for (const auto* url :
         {"", "ftp://x", "http://", "http://host:0", "http://host:70000", "http://a b", "https://h?x=1", "https://h#f",
          "http://h:port", "http://%00", "http://a%40b", "http://a%3a80", "http://a%2fb", "http://a,b",
          "http://m%c3%bcnchen.example", "http://[v1.x]"}) {
        INFO(url);
        const failure f = bad(url);
        CHECK(f == errc::bad_configuration);
        CHECK_FALSE(f.message().empty());
    }
}

TEST_CASE("a host may be percent-encoded, and its written form is read as the same address") {
    const auto e = good("https://api%2Dserver_1.example:6443/a%20b");
    CHECK(e.host == "api-server_1.example");
    CHECK(good(e.url()).url() == e.url());
}

TEST_CASE("a refused address is shown on one line") {
    CHECK(bad("http://a\nb").message().find('\n') == std::string::npos);
}

TEST_CASE("a password in an address is refused and never repeated") {
    const failure f = bad("https://admin:hunter2@host");
    CHECK(f == errc::bad_configuration);
    CHECK(f.what().find("hunter2") == std::string::npos);
}

TEST_CASE("percent-encoding keeps unreserved characters and comes back") {
    CHECK(http::percent_encode("a-b._~1") == "a-b._~1");
    CHECK(http::percent_encode("a=b,c/d e\xc3\xa9") == "a%3Db%2Cc%2Fd%20e%C3%A9");
    std::string all;
    for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
    CHECK(http::percent_decode(http::percent_encode(all)) == all);
    CHECK(http::percent_decode("100%") == "100%");
    CHECK(http::percent_decode("%zz%4") == "%zz%4");
    CHECK(http::percent_decode("a%2fb") == "a/b");
}

TEST_CASE("a server is on loopback by its name or its address, without a look-up") {
    const auto on_loopback = [](const std::string& url) {
        failure f;
        const auto e = http::endpoint::parse(url, f);
        REQUIRE_FALSE(f);
        return e.is_loopback();
    };
    for (const char* url : {"http://localhost:1", "http://127.0.0.1", "http://127.9.9.9", "http://[::1]"}) {
        CAPTURE(url);
        CHECK(on_loopback(url));
    }
    for (const char* url : {"http://10.0.0.1", "http://localhost.example", "http://127.0.0.1.example", "http://[::2]",
                            "http://[::ffff:127.0.0.1]"}) {
        CAPTURE(url);
        CHECK_FALSE(on_loopback(url));
    }
}
