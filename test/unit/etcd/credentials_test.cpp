// Credentials of etcd's client, also in files, and proxies.
#include "bench.hpp"

#include "support/http_proxy.hpp"
#include "support/temporary_folder.hpp"
#include "support/tls_front.hpp"

#include <informer/testing/certificates.hpp>

#include <filesystem>

#include <sys/stat.h>
#include <unistd.h>

using namespace etcd_test;
using namespace std::chrono_literals;
using informer::testing::certificate_authority;
using informer::testing::http_proxy;
using informer::testing::key_pair;
using informer::testing::temporary_folder;
using informer::testing::tls_front;

namespace {

/// A member that demands a password, and gives a token for it.
class guarded_bench : public bench {
public:
    explicit guarded_bench(const std::string& password_file) {
        where.user("me").password_file(password_file);
        etcd().answer = [this](const http::server_request& q) {
            if (q.path != "/v3/auth/authenticate")
                return q.header("Authorization") == "t" + std::to_string(tokens)
                           ? reply(range(9, {}))
                           : reply(401, R"({"code":16,"message":"etcdserver: invalid auth token"})");
            if (q.body == R"({"name":"me","password":")" + password + "\"}")
                return reply(R"({"token":"t)" + std::to_string(++tokens) + "\"}");
            return reply(400,
                         R"({"code":3,"message":"etcdserver: authentication failed, invalid user ID or password"})");
        };
    }
    failure ask() {
        failure f;
        list(*this, sink, f);
        return f;
    }
    /// Asks with a token that the member no longer accepts.
    failure ask_anew() {
        tokens += 10;
        return ask();
    }

    std::string password = "old";
    int tokens = 0;
    recorder sink;
};

http::server_options serving(const certificate_authority& ca) {
    const key_pair own = ca.server({"127.0.0.1"});
    http::server_tls tls;
    tls.certificate_pem_ = own.certificate_pem;
    tls.key_pem_ = own.key_pem;
    tls.client_ca_pem_ = ca.certificate_pem();
    return http::server_options().tls(tls);
}

void write_pair(const temporary_folder& dir, const key_pair& p) {
    dir.write("me.crt", p.certificate_pem);
    dir.write("me.key", p.key_pem);
}

http::tls_files files_in(const temporary_folder& dir) {
    http::tls_files files;
    files.ca = dir.path("ca.crt");
    files.certificate = dir.path("me.crt");
    files.key = dir.path("me.key");
    return files;
}

/// Two members behind TLS.
class tls_bench : public bench {
public:
    explicit tls_bench(const certificate_authority& ca) : bench(0) {
        for (int i = 0; i < 2; ++i) {
            members.push_back(std::make_unique<etcd_test::member>(runtime(io.get_executor()), serving(ca)));
            members.back()->answer = [](const http::server_request&) { return reply(range(9, {})); };
            where.endpoint("https" + members.back()->url().substr(4));
        }
    }
    /// The user that the member takes us for, or the error if none answers.
    std::string seen_as(std::size_t member = 0) {
        recorder sink;
        failure f;
        list(*this, sink, f);
        return f ? f.what() : members[member]->requests.back().client_common_name;
    }
};

} // namespace

TEST_CASE("etcd credentials: the password's file is read before each authentication, and only then") {
    const temporary_folder dir;
    guarded_bench b(dir.write("password", "old\n"));
    REQUIRE_FALSE(b.ask());
    dir.write("password", "new");
    CHECK_FALSE(b.ask());
    CHECK(b.tokens == 1); // the token is good
    b.password = "new";
    b.tokens = 10; // changing a password ends its tokens
    CHECK_FALSE(b.ask());
    CHECK(b.tokens == 11);
    b.password = "newest";
    b.tokens = 20;
    for (int i = 0; i < 3; ++i) CHECK(b.ask() == errc::unauthorized);
    dir.write("password", "newest");
    CHECK_FALSE(b.ask());
    CHECK_FALSE(b.log.contains("newest"));
}

TEST_CASE("etcd credentials: a password file that cannot be read leaves the old one in use, and is logged once") {
    const temporary_folder dir;
    const std::string file = dir.write("password", "old");
    guarded_bench b(file);
    REQUIRE_FALSE(b.ask());
    dir.write("password", "\n");
    for (int i = 0; i < 3; ++i) CHECK_FALSE(b.ask_anew());
    CHECK(b.log.count("password file " + file + ": the file is empty; the old password stays in use") == 1);
    dir.write("password", "old");
    CHECK_FALSE(b.ask_anew());
    dir.write("password", "");
    CHECK_FALSE(b.ask_anew());
    CHECK(b.log.count("stays in use") == 2);
}

TEST_CASE("etcd credentials: a pipe or folder in the place of the password file is not waited for") {
    const temporary_folder dir;
    const std::string file = dir.write("password", "old");
    guarded_bench b(file);
    REQUIRE_FALSE(b.ask());
    std::filesystem::remove(file);
    REQUIRE(::mkfifo(file.c_str(), 0600) == 0); // nobody writes to it
    CHECK_FALSE(b.ask_anew());
    CHECK(b.log.count("no regular file; the old password stays in use") == 1);
    std::filesystem::remove(file);
    std::filesystem::create_directory(file);
    CHECK_FALSE(b.ask_anew());
    CHECK(b.log.count("stays in use") == 1);
}

TEST_CASE("etcd credentials: a password from a pipe is read once, and not missed later") {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    REQUIRE(::write(ends[1], "old\n", 4) == 4);
    ::close(ends[1]);
    guarded_bench b("/dev/fd/" + std::to_string(ends[0]));
    CHECK_FALSE(b.ask());
    CHECK_FALSE(b.ask_anew());
    CHECK_FALSE(b.log.contains("stays in use"));
    ::close(ends[0]);
}

TEST_CASE("etcd credentials: a file that cannot be used at the start is refused by name") {
    const temporary_folder dir;
    asio::io_context io;
    const runtime rt(io.get_executor());
    const auto told = [&](const config& c) {
        failure f;
        informer::etcd::make_list_watch(rt, c, mapping("/s/"), f);
        CHECK((!f || f == errc::bad_configuration));
        return f.message();
    };
    const std::string nowhere = dir.path("nowhere");
    const config where("https://127.0.0.1:1");
    CHECK(told(config(where).user("me").password_file(nowhere)) == "etcd: password file " + nowhere + ": no such file");
    CHECK(told(config(where).password_file(dir.write("p", "x"))) == "etcd: a password file, and no user");
    CHECK(told(config(where).user("me", "given").password_file(nowhere)).empty()); // the given password is used
    http::tls_files files;
    files.ca = nowhere;
    CHECK(told(config(where).tls_files(files)) == "etcd: " + nowhere + ": no such file");
    files.ca = dir.write("ca.crt", "nonsense");
    CHECK(told(config(where).tls_files(files)) == "etcd: " + files.ca + ": holds no PEM");
    files.ca = dir.write("ca.crt", "-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----\n");
    CHECK(told(config(where).tls_files(files)).starts_with("CA certificate of " + files.ca + " cannot be used: "));
}

TEST_CASE("etcd credentials: certificates on disk are read again every minute, for all members") {
    const certificate_authority ca;
    const key_pair alice = ca.client("alice", {}), bob = ca.client("bob", {});
    const temporary_folder dir;
    dir.write("ca.crt", ca.certificate_pem());
    write_pair(dir, alice);
    tls_bench b(ca);
    b.where.tls_files(files_in(dir));
    CHECK(b.seen_as() == "alice");
    dir.write("me.crt", bob.certificate_pem);
    b.clock->advance(1min);
    CHECK(b.seen_as() == "alice"); // the key has not come yet
    CHECK(b.log.count("those read before stay in use") == 1);
    dir.write("me.key", bob.key_pem);
    b.clock->advance(59s);
    CHECK(b.seen_as() == "alice");
    b.clock->advance(1s);
    CHECK(b.seen_as() == "bob");
    b.members[0]->server->stop_listening(true);
    CHECK(b.seen_as(1) == "bob");
}

TEST_CASE("etcd credentials: after a certificate was refused the files are read again before the next request") {
    const certificate_authority old, fresh;
    const temporary_folder dir;
    dir.write("ca.crt", old.certificate_pem());
    write_pair(dir, fresh.client("alice", {}));
    tls_bench b(fresh);
    b.where.tls_files(files_in(dir));
    recorder sink;
    failure f;
    list(b, sink, f);
    CHECK(f == errc::tls_failed);
    dir.write("ca.crt", fresh.certificate_pem());
    CHECK(b.seen_as() == "alice");
}

TEST_CASE("etcd: members are reached by way of the proxy, which resolves their names") {
    bench b;
    const auto proxy = std::make_unique<http_proxy>(b.io.get_executor());
    const std::string name = "etcd.test:" + std::to_string(b.etcd().server->port());
    failure f;
    b.where.endpoints_ = {"http://" + name};
    b.where.proxy(http::proxy::parse("socks5://127.0.0.1:" + std::to_string(proxy->port()), f));
    REQUIRE(!f);
    b.etcd().answer = [](const http::server_request& q) {
        return q.path == "/v3/watch" ? reply(created(9)).streamed() : reply(range(9, {}));
    };
    recorder sink;
    list(b, sink, f);
    CHECK(f.what() == "success");
    watch(b, sink, f, watch_options().resource_version("9"));
    CHECK(f.what() == "success");
    CHECK(b.etcd().requests.size() == 2);
    REQUIRE_FALSE(proxy->asked().empty());
    CHECK(proxy->asked().front() == "SOCKS " + name);
    b.run(proxy->stop());
}

TEST_CASE(
    "etcd: members are reached by way of a TLS proxy, which is verified even if the members' certificates are not") {
    const certificate_authority ca, corporate("corporate CA");
    tls_bench b(ca);
    const auto proxy = std::make_unique<http_proxy>(b.io.get_executor());
    const auto front = std::make_unique<tls_front>(b.io.get_executor(), corporate.server({"localhost"}), proxy->port());
    const std::string name = "localhost:" + std::to_string(b.members[0]->server->port());
    failure f;
    auto by = http::proxy::parse("https://localhost:" + std::to_string(front->port()), f);
    by.ca_pem = corporate.certificate_pem();
    b.where.endpoints_ = {"https://" + name};
    b.where.tls(http::tls_options().insecure()).proxy(by);
    recorder sink;
    list(b, sink, f);
    CHECK(f.what() == "success");
    CHECK(proxy->asked() == std::vector<std::string>{"CONNECT " + name});
    by.ca_pem = ca.certificate_pem(); // the CA of the members
    b.where.proxy(by);
    b.from.reset();
    list(b, sink, f);
    INFO(f.what());
    CHECK(f.what().find("the proxy " + by.url() + ": TLS handshake: unable to get local issuer certificate") !=
          std::string::npos);
    CHECK(proxy->asked().size() == 1);
    b.run(front->stop());
    b.run(proxy->stop());
}

TEST_CASE("etcd: a password is not sent to loopback by way of a proxy, whose loopback is its own") {
    bench b;
    failure f;
    b.where.user("me", "hunter2").proxy(http::proxy::parse("http://10.0.0.1:3128", f));
    REQUIRE(!f);
    informer::etcd::make_list_watch(b.rt, b.where, mapping("/s/"), f);
    CHECK(f == errc::bad_configuration);
    CHECK(f.what().find("by way of the proxy http://10.0.0.1:3128 is not TLS") != std::string::npos);
    CHECK(f.what().find("hunter2") == std::string::npos);
}
