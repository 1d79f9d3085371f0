// Certificates that are replaced on disk.
#include "bench.hpp"
#include "support/temporary_folder.hpp"

#include <informer/testing/certificates.hpp>

#include <chrono>
#include <filesystem>

#include <sys/stat.h>

using namespace kubernetes_test;
using namespace std::chrono_literals;
using informer::testing::certificate_authority;
using informer::testing::key_pair;
using informer::testing::temporary_folder;

namespace {

const std::string not_a_certificate = "-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----\n";

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

/// The configuration of a kubeconfig that names files.
client_config config_of(const temporary_folder& dir) {
    const std::string file =
        dir.write("config", "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
                            "clusters:\n- name: k\n  cluster: {server: 'https://h', certificate-authority: ca.crt}\n"
                            "users:\n- name: u\n  user: {client-certificate: me.crt, client-key: me.key}\n"
                            "contexts:\n- name: c\n  context: {cluster: k, user: u}\n");
    failure f;
    client_config c = kubernetes::load_kubeconfig(kubernetes::kubeconfig_options().path(file), f);
    throw_on(f);
    return c;
}

/// The user that the server takes us for, or the error if it does not answer.
std::string seen_as(bench& b) {
    b.answers->next.emplace_back(pod("a"));
    failure f;
    b.run(b.api->get(pods(), object_key("default", "a"), f));
    if (f) b.answers->next.clear();
    return f ? f.what() : b.answers->requests.back().client_common_name;
}

} // namespace

TEST_CASE("client: certificates on disk are read again every minute, what cannot be used leaves the old ones in use") {
    const certificate_authority ca;
    const key_pair alice = ca.client("alice", {}), bob = ca.client("bob", {});
    const temporary_folder dir;
    dir.write("ca.crt", ca.certificate_pem());
    write_pair(dir, alice);
    bench b(config_of(dir), serving(ca));
    const auto complaints = [&] { return b.log.count("those read before stay in use"); };
    CHECK(seen_as(b) == "alice");
    dir.write("me.crt", bob.certificate_pem);
    b.clock->advance(59s);
    CHECK(seen_as(b) == "alice");
    b.clock->advance(1s);
    CHECK(seen_as(b) == "alice"); // the key has not come yet
    CHECK(complaints() == 1);
    b.clock->advance(1min);
    CHECK(seen_as(b) == "alice");
    CHECK(complaints() == 1);
    dir.write("me.key", bob.key_pem);
    b.clock->advance(1min);
    CHECK(seen_as(b) == "bob");
    dir.write("ca.crt", "");
    b.clock->advance(1min);
    CHECK(seen_as(b) == "bob");
    CHECK(complaints() == 2);
    CHECK(b.log.count(dir.path("ca.crt") + ": holds no PEM") == 1);
    std::filesystem::remove(dir.path("ca.crt"));
    REQUIRE(::mkfifo(dir.path("ca.crt").c_str(), 0600) == 0); // a pipe without a writer is not waited for
    b.clock->advance(1min);
    CHECK(seen_as(b) == "bob");
    std::filesystem::remove(dir.path("ca.crt"));
    dir.write("ca.crt", ca.certificate_pem());
    b.clock->advance(1min);
    CHECK(seen_as(b) == "bob");
    CHECK(b.answers->requests.back().connection == 2);
}

TEST_CASE("client: after a certificate was refused the files are read again before the next request") {
    const certificate_authority old, fresh;
    const key_pair alice = fresh.client("alice", {}), bob = fresh.client("bob", {});
    const temporary_folder dir;
    dir.write("ca.crt", old.certificate_pem());
    write_pair(dir, alice);
    bench b(config_of(dir), serving(fresh));
    failure f;
    b.run(b.api->get(pods(), object_key("default", "a"), f));
    CHECK(f == errc::tls_failed);
    dir.write("ca.crt", fresh.certificate_pem());
    CHECK(seen_as(b) == "alice");

    write_pair(dir, bob);
    b.answers->next.emplace_back(401, status(401, "Unauthorized", "Unauthorized"));
    b.run(b.api->get(pods(), object_key("default", "a"), f));
    CHECK(f == errc::unauthorized);
    CHECK(seen_as(b) == "bob");
}

TEST_CASE("client: a CA certificate that cannot be parsed takes no other with it, and is warned about once") {
    const certificate_authority old, fresh;
    const key_pair alice = fresh.client("alice", {});
    const temporary_folder dir;
    dir.write("ca.crt", not_a_certificate + old.certificate_pem() + not_a_certificate);
    write_pair(dir, alice);
    bench b(config_of(dir), serving(fresh));
    const auto warned = [&](const std::string& how_many) {
        return b.log.count("CA certificates of " + dir.path("ca.crt") + ": " + how_many +
                           " cannot be read and are left out; the first: ");
    };
    failure f;
    b.run(b.api->get(pods(), object_key("default", "a"), f));
    CHECK(f == errc::tls_failed); // the old one was read, and did not sign
    CHECK(warned("2 of 3") == 1);

    dir.write("ca.crt", old.certificate_pem() + not_a_certificate + fresh.certificate_pem() +
                            "-----BEGIN CERTIFICATE-----\nMIIB"); // somebody is still writing
    CHECK(seen_as(b) == "alice");
    CHECK(b.log.count("certificates were replaced on disk") == 1);
    CHECK(warned("2 of 4") == 1);
    for (int i = 0; i < 3; ++i) {
        b.clock->advance(1min);
        CHECK(seen_as(b) == "alice");
    }
    CHECK(warned("2 of 4") == 1);
    CHECK(b.log.count("are left out") == 2);
    CHECK(b.log.count("those read before stay in use") == 0);
}

TEST_CASE("client: an error about a certificate, key or CA that cannot be used names its file") {
    const certificate_authority ca;
    const key_pair alice = ca.client("alice", {}), bob = ca.client("bob", {});
    const temporary_folder dir;
    const std::string& odd = not_a_certificate;
    asio::io_context io;
    const runtime rt(io.get_executor());
    const auto told = [&](const std::string& root, const key_pair& me) {
        dir.write("ca.crt", root);
        write_pair(dir, me);
        failure f;
        kubernetes::client(rt, config_of(dir), f);
        return f.message();
    };
    CHECK(told(odd, alice).find("CA certificate of " + dir.path("ca.crt") + " cannot be used: ") != std::string::npos);
    CHECK(told(ca.certificate_pem(), {odd, alice.key_pem})
              .find("client certificate of " + dir.path("me.crt") + " cannot") != std::string::npos);
    CHECK(told(ca.certificate_pem(), {alice.certificate_pem, bob.key_pem})
              .find("client key of " + dir.path("me.key") + " cannot") != std::string::npos);
    CHECK(told(ca.certificate_pem(), alice).empty());
}
