// The server and certificates that are replaced on disk.
#include "support.hpp"
#include "support/log_capture.hpp"
#include "support/temporary_folder.hpp"

#include <informer/testing/manual_clock.hpp>

#include <filesystem>

#include <sys/stat.h>

using namespace http_test;
using informer::testing::key_pair;

namespace {

/// A Secret as kubelet mounts it: the files are links into a folder, and that is itself a link, which is replaced.
class secret_volume {
public:
    secret_volume(const key_pair& p, const std::string& ca) {
        set(p, ca);
        for (const char* name : {"tls.crt", "tls.key", "ca.crt"})
            std::filesystem::create_symlink(std::string("..data/") + name, dir_.path(name));
    }
    void set(const key_pair& p, const std::string& ca = {}) {
        const std::string version = "..version" + std::to_string(++versions_);
        dir_.write(version + "/tls.crt", p.certificate_pem);
        dir_.write(version + "/tls.key", p.key_pem);
        if (!ca.empty()) dir_.write(version + "/ca.crt", ca);
        std::filesystem::create_directory_symlink(version, dir_.path("..next"));
        std::filesystem::rename(dir_.path("..next"), dir_.path("..data"));
    }
    std::string path(const std::string& name) const { return dir_.path(name); }

private:
    informer::testing::temporary_folder dir_;
    int versions_ = 0;
};

const key_pair& pair_of(const std::string& name) {
    static const key_pair first = authority().server({"first"}), second = authority().server({"second"}),
                          third = authority().server({"third"});
    return name == "first" ? first : name == "second" ? second : third;
}

/// The number of the connection, and the client's name.
asio::awaitable<void> tell(request_ptr q, response_ptr r) {
    co_await r->send(200, "text/plain", std::to_string(q->connection) + " " + q->client_common_name);
}

http::server_tls named(const secret_volume& files, bool ca = false) {
    http::server_tls t;
    t.files_.certificate = files.path("tls.crt");
    t.files_.key = files.path("tls.key");
    if (ca) t.files_.ca = files.path("ca.crt");
    return t;
}

struct scene {
    scene(asio::any_io_executor ex, const http::server_tls& t) : rt(on(ex)), server(rt, options(t), tell) {
        failure f;
        server.listen(f);
        INFO(f.what());
        REQUIRE_FALSE(f);
    }
    runtime on(const asio::any_io_executor& ex) const {
        runtime r(ex);
        r.with_clock(clock).with_logger(log.logger());
        return r;
    }
    static http::server_options options(const http::server_tls& t) { return http::server_options().tls(t); }
    std::shared_ptr<http::client> client(http::tls_options t) const {
        http::endpoint to;
        to.tls = true;
        to.host = "127.0.0.1";
        to.port = server.port();
        failure f;
        auto c = std::make_shared<http::client>(rt, to, http::client_options().tls(std::move(t)), f);
        REQUIRE_FALSE(f);
        return c;
    }
    std::size_t complaints() const { return log.count("those read before stay in use"); }

    std::shared_ptr<informer::testing::manual_clock> clock = std::make_shared<informer::testing::manual_clock>();
    informer::testing::log_capture log;
    runtime rt;
    http::server server;
};

http::tls_options expecting(std::string name) {
    return http::tls_options().ca(authority().certificate_pem()).server_name(std::move(name));
}

asio::awaitable<std::string> ask(std::shared_ptr<http::client> c) {
    failure f;
    http::request q("GET", "/");
    auto r = co_await c->send(std::move(q), f);
    std::string text;
    if (!f) text = co_await r.read_all(100, f);
    co_return f ? f.what() : text;
}

/// The name on the certificate that a new connection is shown.
asio::awaitable<std::string> shown(const scene* s) {
    for (const std::string name : {"first", "second", "third"}) {
        const std::string answer = co_await ask(s->client(expecting(name)));
        if (answer.find("only for") == std::string::npos) co_return answer.ends_with(' ') ? name : answer;
    }
    co_return "none of them";
}

asio::awaitable<void> replaced() {
    const auto ex = co_await asio::this_coro::executor;
    secret_volume files(pair_of("first"), authority().certificate_pem());
    scene s(ex, named(files));
    const auto early = s.client(expecting("first"));
    std::string answer = co_await ask(early);
    CHECK(answer == "1 ");
    files.set(pair_of("second"));
    s.clock->advance(10s);
    answer = co_await shown(&s);
    CHECK(answer == "second");
    answer = co_await ask(early);
    CHECK(answer == "1 "); // still the same connection
    CHECK(s.log.count("new connections use " + files.path("tls.crt") + ", " + files.path("tls.key")) == 1);
    CHECK(s.complaints() == 0);
    co_await s.server.stop();
}

asio::awaitable<void> unusable() {
    const auto ex = co_await asio::this_coro::executor;
    const informer::testing::temporary_folder dir;
    const std::string certificate = dir.write("tls.crt", pair_of("first").certificate_pem);
    const std::string key = dir.write("tls.key", pair_of("first").key_pem);
    http::server_tls t;
    t.files_.certificate = certificate;
    t.files_.key = key;
    scene s(ex, t);
    std::size_t problems = 0;
    const std::string broken = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
    const std::vector<std::pair<std::function<void()>, std::string>> steps = {
        {[&] { dir.write("tls.crt", pair_of("second").certificate_pem); },
         "server key of " + key + " cannot be used: "},
        {[&] { dir.write("tls.key", broken); }, "server key of " + key + " cannot be used: "},
        {[&] { dir.write("tls.crt", pair_of("second").certificate_pem.substr(0, 300)); },
         "server certificate of " + certificate + " cannot be used: "},
        {[&] { dir.write("tls.crt", ""); }, certificate + ": holds no PEM"},
        // A pipe that nobody writes to is not waited for.
        {[&] {
             std::filesystem::remove(certificate);
             REQUIRE(::mkfifo(certificate.c_str(), 0600) == 0);
         },
         certificate + ": no regular file"},
        {[&] { std::filesystem::remove(certificate); }, certificate + ": no such file"},
    };
    for (const auto& [spoil, says] : steps) {
        spoil();
        ++problems;
        for (int i = 0; i < 2; ++i) {
            s.clock->advance(10s);
            const std::string name = co_await shown(&s);
            CHECK(name == "first");
            REQUIRE(s.complaints() == problems);
        }
        CHECK(s.log.lines().back().text.find(says) != std::string::npos);
    }
    CHECK_FALSE(s.log.contains("c2VjcmV0"));
    dir.write("tls.crt", pair_of("second").certificate_pem);
    dir.write("tls.key", pair_of("second").key_pem);
    s.clock->advance(10s);
    std::string name = co_await shown(&s);
    CHECK(name == "second");
    std::filesystem::remove(certificate); // the same problem after a good time is a new one
    s.clock->advance(10s);
    name = co_await shown(&s);
    CHECK(name == "second");
    CHECK(s.complaints() == problems + 1);
    co_await s.server.stop();
}

asio::awaitable<void> flood() {
    const auto ex = co_await asio::this_coro::executor;
    secret_volume files(pair_of("first"), authority().certificate_pem());
    scene s(ex, named(files));
    const auto all_are_shown = [](const scene* of, std::string which) -> asio::awaitable<void> {
        for (int i = 0; i < 20; ++i) {
            const std::string name = co_await shown(of);
            CHECK(name == which);
        }
    };
    files.set(pair_of("second"));
    s.clock->advance(10s - 1ns);
    co_await all_are_shown(&s, "first"); // listen() has just read them
    s.clock->advance(1ns);
    std::string name = co_await shown(&s);
    CHECK(name == "second");
    files.set(pair_of("third"));
    s.clock->advance(10s - 1ns);
    co_await all_are_shown(&s, "second");
    const std::string away = files.path("..away");
    std::filesystem::rename(files.path("..data"), away);
    s.clock->advance(1ns);
    name = co_await shown(&s);
    CHECK(name == "second");
    CHECK(s.complaints() == 1);
    std::filesystem::rename(away, files.path("..data"));
    co_await all_are_shown(&s, "second"); // what could not be used is not tried any sooner
    s.clock->advance(10s);
    name = co_await shown(&s);
    CHECK(name == "third");
    co_await s.server.stop();
}

asio::awaitable<void> other_clients() {
    const auto ex = co_await asio::this_coro::executor;
    const informer::testing::certificate_authority old("old");
    secret_volume files(pair_of("first"), old.certificate_pem());
    scene s(ex, named(files, true));
    const key_pair alice = authority().client("alice", {});
    const http::tls_options as_alice = expecting("first").certificate(alice.certificate_pem, alice.key_pem);
    std::string answer = co_await ask(s.client(as_alice));
    CHECK(answer == "1 ");
    files.set(pair_of("first"), authority().certificate_pem());
    s.clock->advance(10s);
    answer = co_await ask(s.client(as_alice));
    CHECK(answer == "2 alice");
    co_await s.server.stop();
}

} // namespace

TEST_CASE("server files: a connection after the pair was replaced gets the new one, those before go on with the old") {
    run_test(replaced());
}
TEST_CASE("server files: a pair that cannot be used leaves the old one in use, is reported once, and is tried again") {
    run_test(unusable());
}
TEST_CASE("server files: however many connections come, the files are read once in ten seconds") {
    run_test(flood());
}
TEST_CASE("server files: the authorities of client certificates are replaced, too") {
    run_test(other_clients());
}
TEST_CASE("server files: what cannot be used at the start is an error that names its file, until it can") {
    const informer::testing::temporary_folder dir;
    http::server_tls t;
    t.files_.certificate = dir.path("tls.crt");
    t.files_.key = dir.write("tls.key", pair_of("second").key_pem);
    asio::io_context io;
    http::server server(runtime(io.get_executor()), http::server_options().tls(t), tell);
    const auto told = [&] {
        failure f;
        server.listen(f);
        CHECK((!f || f == errc::bad_configuration));
        CHECK(server.listening() == !f);
        return f.message();
    };
    CHECK(told() == t.files_.certificate + ": no such file");
    dir.write("tls.crt", pair_of("first").certificate_pem);
    CHECK(told().starts_with("server key of " + t.files_.key + " cannot be used: "));
    dir.write("tls.key", pair_of("first").key_pem);
    CHECK(told().empty());
}
