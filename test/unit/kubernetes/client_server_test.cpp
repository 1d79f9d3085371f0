// What a client makes of the server's address in its configuration: TLS or not, and which servers get credentials.
#include "bench.hpp"

#include <informer/testing/certificates.hpp>

#include <catch2/catch_test_macros.hpp>

using namespace kubernetes_test;

TEST_CASE("client: credentials go over TLS or to loopback only, wherever the configuration comes from") {
    kubernetes::credentials who;
    who.token = "s3cret";
    who.impersonate_user = "alice";
    bench b(who);
    failure f;
    b.answers->next.emplace_back(pod("a"));
    get(b, "a", f);
    CHECK_FALSE(f);
    CHECK(header(b, "Authorization") == "Bearer s3cret");

    // Not a loopback address, although it reaches this machine.
    b.config.server = "http://0.0.0.0:" + std::to_string(b.server->port());
    b.api.emplace(b.rt, b.config);
    b.answers->next.emplace_back(pod("a"));
    get(b, "a", f);
    CHECK_FALSE(f);
    CHECK(header(b, "Authorization").empty());
    CHECK(header(b, "Impersonate-User").empty());
    CHECK(b.log.count(b.config.server + " is not TLS: credentials are not sent") == 1);
    CHECK_FALSE(b.log.contains("s3cret"));
    // A token file is not even read.
    b.config.credentials.token_file = "/none";
    b.config.credentials.token.clear();
    b.api.emplace(b.rt, b.config);
    CHECK(b.api->config().credentials.token_file.empty());
}

TEST_CASE("client: a server without a scheme is reached over TLS if the configuration says anything about TLS") {
    bench b;
    failure f;
    const auto plain = b.config;
    const auto asked = [&](const http::tls_options& tls) {
        auto config = plain;
        config.server = "127.0.0.1:" + std::to_string(b.server->port());
        config.tls = tls;
        b.api.emplace(b.rt, config);
        b.answers->next.assign(1, reply(pod("a")));
        get(b, "a", f);
        return b.api->config().server;
    };
    const http::tls_options nothing;
    CHECK(asked(nothing).starts_with("http://"));
    CHECK_FALSE(f);
    http::tls_options no_look;
    no_look.insecure();
    CHECK(asked(no_look).starts_with("https://"));
    CHECK(f == errc::tls_failed);
    const informer::testing::certificate_authority authority;
    http::tls_options trusting;
    trusting.ca(authority.certificate_pem());
    CHECK(asked(trusting).starts_with("https://"));
    CHECK(f == errc::tls_failed);
    auto by_file = plain;
    by_file.server = "127.0.0.1:1";
    by_file.tls_files.ca = "/none";
    b.api.emplace(b.rt, by_file);
    CHECK(b.api->config().server.starts_with("https://"));
}
