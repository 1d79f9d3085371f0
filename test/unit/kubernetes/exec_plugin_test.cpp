// Credentials from exec plugins: when plugins are run, what they are told, and how their answers are used.
#include "exec_scene.hpp"

#include <informer/cache/shared_informer.hpp>
#include <informer/testing/certificates.hpp>

#include <boost/json.hpp>

using namespace kubernetes_test;
using namespace std::chrono_literals;
using informer::testing::certificate_authority;
using informer::testing::key_pair;

TEST_CASE("exec plugin: the first request runs it, and the next ones use its token") {
    exec_scene s;
    s.b.until([] { return true; });
    CHECK(s.dir.runs() == 0);
    s.dir.answer_token("s3cret-token");
    CHECK_FALSE(s.get());
    CHECK(s.who() == "Bearer s3cret-token");
    s.b.clock->advance(24h);
    CHECK_FALSE(s.get());
    CHECK(s.dir.runs() == 1);
    CHECK_FALSE(s.told("s3cret-token"));
}

TEST_CASE("exec plugin: its credential may be YAML") {
    exec_scene s;
    const std::string head = "kind: ExecCredential\napiVersion: client.authentication.k8s.io/v1\n";
    s.dir.write("answer", "%YAML 1.2\n---\n# from a script\n" + head +
                              "status:\n  expirationTimestamp: 2024-01-01T01:00:00Z\n  token: yaml-token\n");
    REQUIRE_FALSE(s.get());
    CHECK(s.who() == "Bearer yaml-token");
    s.dir.write("answer", "\n" + head + "base: &b {token: t2}\nstatus: {<<: *b, expirationTimestamp: null}\n");
    s.b.clock->advance(1h); // it has ended, because its time was read
    REQUIRE_FALSE(s.get());
    CHECK(s.who() == "Bearer t2");
    CHECK(s.dir.runs() == 2);
}

TEST_CASE("exec plugin: requests at the same time share one run") {
    exec_scene s(answers_later);
    for (int i = 0; i < 5; ++i) {
        s.prepare();
        s.start();
    }
    s.b.until([&] { return s.dir.runs() == 1; });
    s.dir.go();
    for (const auto& r : s.requests) {
        s.wait(r);
        CHECK_FALSE(r.f);
    }
    CHECK(s.dir.runs() == 1);
    CHECK(s.b.answers->requests.size() == 5);
}

TEST_CASE("exec plugin: it gets its arguments and the environment, and neither a shell nor stdin") {
    ::setenv("INFORMER_TEST_OURS", "ours", 1);
    ::setenv("INFORMER_TEST_BOTH", "ours", 1);
    exec_scene s(
        "printf '%s\\n' \"$@\" > $D/args; cat > $D/stdin; env > $D/env; cat $D/answer", [](kubernetes::exec_plugin& p) {
            p.arguments = {"two words", "$HOME; `x`", ""};
            p.environment = {
                {"INFORMER_TEST_BOTH", "first"}, {"INFORMER_TEST_BOTH", "theirs"}, {"KUBERNETES_EXEC_INFO", "no"}};
        });
    CHECK_FALSE(s.get());
    CHECK(s.dir.read("args") == "two words\n$HOME; `x`\n\n");
    CHECK(s.dir.read("stdin").empty());
    const std::string env = "\n" + s.dir.read("env");
    CHECK(has(env, "\nINFORMER_TEST_OURS=ours\n"));
    CHECK(has(env, "\nINFORMER_TEST_BOTH=theirs\n"));
    CHECK(has(env,
              "\nKUBERNETES_EXEC_INFO={\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\","
              "\"spec\":{\"interactive\":false}}\n"));
    CHECK_FALSE(has(env, "=first"));
    CHECK_FALSE(has(env, "=no\n"));
}

TEST_CASE("exec plugin: it is told about the cluster if it asks for that") {
    http::tls_options tls;
    tls.ca("-----BEGIN X-----\n").server_name("k").insecure();
    const auto change = [](kubernetes::exec_plugin& p) {
        p.api_version = "client.authentication.k8s.io/v1beta1";
        p.provide_cluster_info = true;
        p.cluster_config = R"({"audience":["a",1],"share":1234.5678901234567})";
    };
    exec_scene s("echo \"$KUBERNETES_EXEC_INFO\" > $D/info; sed s,/v1,/v1beta1, $D/answer", change,
                 http::server_options(), tls);
    CHECK_FALSE(s.get());
    const auto info = boost::json::parse(s.dir.read("info"));
    CHECK(info.at("apiVersion") == "client.authentication.k8s.io/v1beta1");
    CHECK(info.at("spec").at("interactive") == false);
    const auto& cluster = info.at("spec").at("cluster");
    CHECK(cluster.at("server").as_string() == s.b.config.server.c_str());
    CHECK(cluster.at("tls-server-name") == "k");
    CHECK(cluster.at("insecure-skip-tls-verify") == true);
    CHECK(cluster.at("certificate-authority-data") == "LS0tLS1CRUdJTiBYLS0tLS0K");
    CHECK(cluster.at("config").at("audience").at(1) == 1);
    CHECK(has(s.dir.read("info"), "\"share\":1.2345678901234567E3")); // to the last digit
}

TEST_CASE("exec plugin: nothing of ours is inherited, no descriptor and no signal") {
    // The shell itself reads its status: while it starts another program it blocks signals.
    exec_scene s("while read -r l; do case $l in Sig[BI]*) echo $l >> $D/signals; esac; done < /proc/$$/status; "
                 "ls -l /proc/$$/fd > $D/fds; cat $D/answer");
    const int ours = ::fcntl(2, F_DUPFD, 50); // as if somebody forgot O_CLOEXEC
    REQUIRE(ours >= 50);
    const auto before = std::signal(SIGPIPE, SIG_IGN);
    CHECK_FALSE(s.get());
    std::signal(SIGPIPE, before);
    ::close(ours);
    INFO(s.dir.read("fds"));
    for (const char* const ours_alone : {"socket:", "eventpoll", "/go", " 50 ->"})
        CHECK_FALSE(has(s.dir.read("fds"), ours_alone));
    const auto signals = s.dir.lines("signals");
    REQUIRE(signals.size() == 2);
    CHECK(signals[0] == "SigBlk: 0000000000000000");
    CHECK((std::stoull(signals[1].substr(8), nullptr, 16) & 0x7fffffff) == 0); // 32 and 33 are the C library's own
}

TEST_CASE("exec plugin: its credential is renewed a minute before it ends") {
    exec_scene s;
    s.dir.answer_token("t1", "2024-01-01T01:00:00+00:00");
    CHECK_FALSE(s.get());
    s.dir.answer_token("t2", "2024-01-01T02:00:00Z");
    s.b.clock->advance(59min - 1s);
    CHECK_FALSE(s.get());
    CHECK(s.who() == "Bearer t1");
    s.b.clock->advance(1s);
    CHECK_FALSE(s.get());
    s.given(2);
    CHECK_FALSE(s.get());
    CHECK(s.who() == "Bearer t2");
    CHECK(s.dir.runs() == 2);
}

TEST_CASE("exec plugin: while the old credential is good no request waits for the next one") {
    exec_scene s(at_once_then_later);
    s.dir.answer_token("t1", "2024-01-01T01:00:00Z");
    CHECK_FALSE(s.get());
    s.dir.answer_token("t2", "2024-01-01T02:00:00Z");
    s.b.clock->advance(59min);
    for (int i = 0; i < 3; ++i) {
        CHECK_FALSE(s.get());
        CHECK(s.who() == "Bearer t1");
    }
    s.b.until([&] { return s.dir.runs() == 2; });
    s.dir.go();
    s.given(2);
    CHECK_FALSE(s.get());
    CHECK(s.who() == "Bearer t2");
    CHECK(s.dir.runs() == 2);
}

TEST_CASE("exec plugin: once the old credential has ended, requests wait for the renewal that is under way") {
    exec_scene s(at_once_then_later);
    s.dir.answer_token("t1", "2024-01-01T01:00:00Z");
    CHECK_FALSE(s.get());
    s.dir.answer_token("t2", "2024-01-01T02:00:00Z");
    s.b.clock->advance(59min);
    CHECK_FALSE(s.get());
    s.b.clock->advance(1min);
    s.prepare();
    auto& r = s.start();
    s.b.until([&] { return s.dir.runs() == 2; });
    CHECK_FALSE(r.done);
    s.dir.go();
    s.wait(r);
    CHECK_FALSE(r.f);
    CHECK(s.who() == "Bearer t2");
    CHECK(s.dir.runs() == 2);
}

TEST_CASE("exec plugin: after a 401 the next request waits for the renewal that is under way") {
    exec_scene s(at_once_then_later);
    s.dir.answer_token("t1", "2024-01-01T01:00:00Z");
    CHECK_FALSE(s.get());
    s.dir.answer_token("t2", "2024-01-01T02:00:00Z");
    s.b.clock->advance(59min);
    CHECK(s.get(401) == errc::unauthorized);
    s.prepare();
    auto& r = s.start();
    s.b.until([&] { return s.dir.runs() == 2; });
    s.dir.go();
    s.wait(r);
    CHECK_FALSE(r.f);
    CHECK(s.who() == "Bearer t2");
    CHECK(s.dir.runs() == 2);
}

TEST_CASE("exec plugin: a short-lived credential is renewed when a fifth of its life is left") {
    exec_scene s;
    s.dir.answer_token("t1", "2024-01-01T00:01:00Z");
    CHECK_FALSE(s.get());
    s.b.clock->advance(47s);
    CHECK_FALSE(s.get());
    CHECK(s.dir.runs() == 1);
    s.b.clock->advance(1s);
    CHECK_FALSE(s.get());
    s.given(2);
    CHECK(s.dir.runs() == 2);
}

TEST_CASE("exec plugin: a credential that has already ended is sent, and renewed after ten seconds") {
    exec_scene s;
    s.dir.answer_token("t1", "2023-12-31T00:00:00Z");
    for (int i = 0; i < 3; ++i) CHECK_FALSE(s.get());
    CHECK(s.dir.runs() == 1);
    s.b.clock->advance(10s);
    CHECK_FALSE(s.get());
    CHECK(s.dir.runs() == 2);
}

TEST_CASE("exec plugin: an expiry beyond all calendars counts as none") {
    for (const char* const end : {"9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"}) {
        exec_scene s;
        s.dir.answer_token("t1", end);
        CHECK_FALSE(s.get());
        s.b.clock->advance(1000h);
        CHECK_FALSE(s.get());
        CHECK(s.dir.runs() == 1);
    }
}

TEST_CASE("exec plugin: while the old credential is good a failed run does no harm, and is logged once") {
    exec_scene s;
    s.dir.answer_token("t1", "2024-01-01T01:00:00Z");
    CHECK_FALSE(s.get());
    s.dir.write("answer", "");
    const auto complaints = [&] {
        return s.b.log.count("wrote nothing to stdout; the old credential stays in use until it ends");
    };
    s.b.clock->advance(59min);
    CHECK_FALSE(s.get());
    CHECK(s.who() == "Bearer t1");
    s.b.until([&] { return complaints() == 1; });
    s.b.clock->advance(30s);
    CHECK_FALSE(s.get());
    CHECK(s.who() == "Bearer t1");
    s.b.clock->advance(30s);
    CHECK(s.get() == errc::exec_plugin_failed);
    CHECK(s.dir.runs() >= 3);
    CHECK(complaints() == 1);
    s.dir.answer_token("t2");
    s.b.clock->advance(10s);
    CHECK_FALSE(s.get());
    CHECK(s.who() == "Bearer t2");
    CHECK(s.b.log.count("gave a credential again") == 1);
}

TEST_CASE("exec plugin: a 401 makes the next request run it again") {
    exec_scene s;
    CHECK_FALSE(s.get());
    s.dir.answer_token("t2");
    s.b.clock->advance(1min);
    CHECK(s.get(401) == errc::unauthorized);
    CHECK(s.who() == "Bearer t1");
    CHECK(s.dir.runs() == 1); // the client does not repeat the refused request
    CHECK_FALSE(s.get());
    CHECK(s.who() == "Bearer t2");
    CHECK(s.dir.runs() == 2);
}

TEST_CASE("exec plugin: a server that always says 401 makes one run in ten seconds") {
    exec_scene s;
    for (int i = 0; i < 20; ++i) CHECK(s.get(401) == errc::unauthorized);
    CHECK(s.dir.runs() == 1);
    s.b.clock->advance(10s - 1ms);
    CHECK(s.get(401) == errc::unauthorized);
    CHECK(s.dir.runs() == 1);
    s.b.clock->advance(1ms);
    for (int i = 0; i < 20; ++i) CHECK(s.get(401) == errc::unauthorized);
    CHECK(s.dir.runs() == 2);
}

TEST_CASE("exec plugin: the refusal of a credential that has been replaced makes no run") {
    exec_scene s;
    CHECK_FALSE(s.get());
    s.b.clock->advance(1min);
    // Two requests are refused. The answer to the first one comes when the second one has led to a new credential.
    s.b.answers->next.push_back(reply(401, "").every(1s));
    auto& late = s.start();
    s.b.until([&] { return s.b.answers->asleep == 1; });
    CHECK(s.get(401) == errc::unauthorized);
    CHECK_FALSE(s.get());
    CHECK(s.dir.runs() == 2);
    s.b.clock->advance(1s);
    s.wait(late);
    CHECK(late.f == errc::unauthorized);
    s.b.clock->advance(1min);
    CHECK_FALSE(s.get());
    CHECK(s.dir.runs() == 2);
}

TEST_CASE("exec plugin: a failure is reported again for ten seconds, then the plugin is run again") {
    exec_scene s("echo no network >&2; exit 3");
    for (int i = 0; i < 3; ++i) {
        const failure f = s.get();
        CHECK(f == errc::exec_plugin_failed);
        CHECK_FALSE(f == condition::retryable);
        CHECK(f.what() == "get pods default/a: exec plugin \"" + s.dir.path("plugin") +
                              "\" exited with status 3, saying: no network: no credential");
    }
    CHECK(s.dir.runs() == 1);
    CHECK(s.b.answers->requests.empty());
    s.b.clock->advance(10s);
    s.dir.script(answers_at_once);
    CHECK_FALSE(s.get());
    CHECK(s.dir.runs() == 2);
}

TEST_CASE("exec plugin: a client certificate is used for new connections, and so is its successor") {
    const certificate_authority ca;
    const key_pair own = ca.server({"127.0.0.1"});
    http::server_tls serving;
    serving.certificate_pem_ = own.certificate_pem;
    serving.key_pem_ = own.key_pem;
    serving.client_ca_pem_ = ca.certificate_pem();
    http::tls_options tls;
    tls.ca(ca.certificate_pem());
    exec_scene s(answers_at_once, {}, http::server_options().tls(serving), tls);
    const auto give = [&](const key_pair& pair) {
        s.dir.answer(boost::json::serialize(
            boost::json::object{{"clientCertificateData", pair.certificate_pem}, {"clientKeyData", pair.key_pem}}));
    };
    const auto seen = [&] { return s.b.answers->requests.back().client_common_name; };
    give(ca.client("alice", {}));
    CHECK_FALSE(s.get());
    CHECK(seen() == "alice");
    CHECK(s.who().empty());
    give(ca.client("bob", {}));
    s.b.clock->advance(1min);
    CHECK(s.get(401) == errc::unauthorized);
    CHECK_FALSE(s.get());
    CHECK(seen() == "bob");
    CHECK(s.b.answers->requests.back().connection == 2);
    // A key that does not fit the certificate: the old pair stays, and the request fails with the reason.
    give(key_pair{ca.client("carol", {}).certificate_pem, ca.client("dave", {}).key_pem});
    s.b.clock->advance(1min);
    CHECK(s.get(401) == errc::unauthorized);
    const failure f = s.get();
    CHECK(f == errc::exec_plugin_failed);
    CHECK(has(f.what(), "its client certificate cannot be used"));
    CHECK_FALSE(has(f.what(), "PRIVATE"));
}

TEST_CASE("exec plugin: if TLS fails with its certificate, the next request runs it again") {
    const certificate_authority ca, other;
    const key_pair own = ca.server({"127.0.0.1"}), alice = ca.client("alice", {});
    http::server_tls serving;
    serving.certificate_pem_ = own.certificate_pem;
    serving.key_pem_ = own.key_pem;
    http::tls_options tls;
    tls.ca(other.certificate_pem());
    exec_scene s(answers_at_once, {}, http::server_options().tls(serving), tls);
    CHECK(s.get() == errc::tls_failed);
    s.b.clock->advance(1min);
    CHECK(s.get() == errc::tls_failed);
    CHECK(s.dir.runs() == 1); // a token cannot be the reason
    exec_scene c(answers_at_once, {}, http::server_options().tls(serving), tls);
    c.dir.answer(boost::json::serialize(
        boost::json::object{{"clientCertificateData", alice.certificate_pem}, {"clientKeyData", alice.key_pem}}));
    CHECK(c.get() == errc::tls_failed);
    c.b.clock->advance(1min);
    CHECK(c.get() == errc::tls_failed);
    CHECK(c.dir.runs() == 2);
}

TEST_CASE("exec plugin: it is not run if its credential could not be sent") {
    exec_scene s;
    s.b.config.server = "http://0.0.0.0:" + std::to_string(s.b.server->port()); // this machine, but no loopback address
    s.b.api.emplace(s.b.rt, s.b.config);
    CHECK_FALSE(s.get());
    CHECK(s.who().empty());
    CHECK(s.dir.runs() == 0);
    CHECK(s.b.log.count("is not TLS: credentials are not sent") == 1);
}

TEST_CASE("exec plugin: it is not run if a token, a user name or a certificate is given as well") {
    exec_scene s;
    s.b.config.credentials.token = "given";
    s.b.api.emplace(s.b.rt, s.b.config);
    CHECK_FALSE(s.get());
    CHECK(s.who() == "Bearer given");
    CHECK(s.dir.runs() == 0);
}

TEST_CASE("exec plugin: an invalid plugin is refused when the client is made") {
    exec_scene s;
    s.b.config.credentials.exec.api_version = "client.authentication.k8s.io/v1alpha1";
    failure f;
    s.b.api.emplace(s.b.rt, s.b.config, f);
    CHECK(f == errc::bad_configuration);
    CHECK(has(
        f.what(),
        "apiVersion \"client.authentication.k8s.io/v1alpha1\" is neither client.authentication.k8s.io/v1 nor v1beta1"));
}

TEST_CASE("exec plugin: an informer reports its failure in the status, and goes on once it works") {
    exec_scene s("echo no network >&2; exit 3");
    shared_informer here(s.b.rt, s.b.api->make_list_watch(pods()), informer_options().watch_list(false));
    bool ended = false;
    asio::co_spawn(s.b.io, here.run(), [&](std::exception_ptr) { ended = true; });
    s.b.until([&] { return here.status().phase == informer_phase::parked; });
    CHECK(here.status().last_error == errc::exec_plugin_failed);
    CHECK(has(here.status().last_error.what(), "saying: no network"));
    s.dir.script(answers_at_once);
    s.b.answers->next.emplace_back(pod_list({pod("a")}));
    reply quiet("");
    quiet.streamed({}, reply::stall);
    s.b.answers->next.push_back(quiet);
    s.b.clock->advance(10s);
    here.retry_now();
    s.b.until([&] { return here.status().phase == informer_phase::watching; });
    CHECK(here.status().objects == 1);
    here.stop();
    s.b.until([&] { return ended; });
}
