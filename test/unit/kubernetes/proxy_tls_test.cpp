// A cluster by way of a TLS proxy that the kubeconfig or the environment names.
#include "support/http_proxy.hpp"
#include "support/log_capture.hpp"
#include "support/run.hpp"
#include "support/temporary_folder.hpp"
#include "support/tls_front.hpp"

#include <informer/cache/shared_informer.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/task_group.hpp>
#include <informer/testing/api_server.hpp>

#include <boost/json/value.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstdlib>
#include <optional>
#include <string>

using namespace informer;
using namespace std::chrono_literals;
using informer::testing::eventually;
using informer::testing::http_proxy;
using informer::testing::run_test;
using informer::testing::tls_front;

namespace {

const api_resource maps("", "v1", "configmaps", "ConfigMap", true);

boost::json::value map_named(const std::string& name) {
    return {{"apiVersion", "v1"},
            {"kind", "ConfigMap"},
            {"metadata", {{"name", name}, {"namespace", "default"}}},
            {"data", {{"text", std::string(10'000, 'x')}}}};
}

testing::api_server_options serving(bool tls) {
    testing::api_server_options o;
    if (tls) o.tls().token("t0", "admin");
    return o;
}

/// The CA that signed the proxy's certificate: it is among the system's roots, and is not the cluster's CA.
const testing::certificate_authority& corporate() {
    static const testing::certificate_authority ca("corporate CA");
    return ca;
}

const testing::key_pair& proxy_pair() {
    static const auto pair = corporate().server({"localhost"});
    return pair;
}

/// A server, a proxy in front of it, TLS in front of that, and a client that knows all of it from a kubeconfig and the
/// environment.
class scene {
public:
    enum class from { kubeconfig, environment };
    scene(asio::any_io_executor ex, bool tls, from where, bool trusted = true)
        : rt(ex), server(rt, serving(tls)), proxy(ex), front(ex, proxy_pair(), proxy.port()) {
        rt.with_logger(log.logger(), log_level::debug);
        server.start();
        proxy.demand("Basic bWU6czNjcmV0", "", "");
        const std::string url = "https://me:s3cret@localhost:" + std::to_string(front.port());
        // The server has a name that only the proxy can resolve.
        std::string cluster =
            "{server: '" + std::string(tls ? "https" : "http") + "://api.test:" + std::to_string(server.port()) + "'";
        if (tls)
            cluster +=
                ", tls-server-name: 127.0.0.1, certificate-authority: '" + dir.write("ca", server.ca_pem()) + "'";
        if (where == from::kubeconfig) cluster += ", proxy-url: '" + url + "'";
        const auto file = dir.write("config", "current-context: c\nclusters:\n- {name: k, cluster: " + cluster +
                                                  "}}\nusers:\n- {name: u, user: {" + (tls ? "token: t0" : "") +
                                                  "}}\ncontexts:\n- {name: c, context: {cluster: k, user: u}}\n");
        auto options = kubernetes::kubeconfig_options().environment(file, "");
        if (where == from::environment) options.variable(tls ? "HTTPS_PROXY" : "HTTP_PROXY", url);
        failure f;
        const auto config = kubernetes::load_kubeconfig(options, f);
        INFO(f.what());
        REQUIRE_FALSE(f);
        if (trusted) ::setenv("SSL_CERT_FILE", dir.write("roots", corporate().certificate_pem()).c_str(), 1);
        api.emplace(rt, config);
        ::unsetenv("SSL_CERT_FILE");
    }
    asio::awaitable<void> stop() {
        api.reset();
        co_await server.stop();
        co_await front.stop();
        co_await proxy.stop();
    }

    const testing::temporary_folder dir;
    runtime rt;
    testing::log_capture log;
    testing::api_server server;
    http_proxy proxy;
    tls_front front;
    std::optional<kubernetes::client> api;
};

asio::awaitable<void> make(scene* s, std::string name) {
    boost::json::value body = map_named(name);
    const kubernetes::write_options plain;
    co_await s->api->create(maps, std::move(body), plain);
}

asio::awaitable<void> informed(bool tls, scene::from where) {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex, tls, where);
    constexpr int many = 200; // 2 MB: a list of many TLS records
    for (int i = 0; i < many; ++i) co_await make(&s, "a" + std::to_string(i));
    CHECK(s.front.accepted() == 1);
    const auto fast = informer_options().backoff(backoff_options().initial(1ms).cap(20ms));
    shared_informer all(s.rt, s.api->make_list_watch(maps), fast);
    task_group group(ex);
    group.spawn(all.run());
    co_await all.synced(10s);
    CHECK(all.snapshot().size() == many);

    const std::function<bool()> came = [&] { return bool(all.get("default/last")); };
    const std::size_t connections = s.front.accepted();
    for (int i = 0; i < many; ++i) {
        const std::string name = "b" + std::to_string(i);
        co_await make(&s, name);
        const std::function<bool()> it_came = [&] { return bool(all.get("default/" + name)); };
        const bool ok = co_await eventually(it_came);
        REQUIRE(ok);
    }
    CHECK(s.front.accepted() <= connections + 1); // one watch for all events; the creates share a connection
    CHECK_FALSE(all.status().last_error);

    s.front.cut_all();
    co_await make(&s, "last");
    const bool ok = co_await eventually(came);
    CHECK(ok);
    for (const auto& line : s.proxy.asked()) CHECK(line.starts_with("CONNECT api.test:") == tls);
    CHECK(s.front.heard().find("Bearer") == std::string::npos); // the token is for the server alone
    CHECK_FALSE(s.log.contains("s3cret"));
    CHECK(s.log.contains("by way of the proxy https://localhost:" + std::to_string(s.front.port())));
    all.stop();
    group.stop();
    co_await group.join();
    co_await s.stop();
}

asio::awaitable<void> not_trusted() {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex, true, scene::from::kubeconfig, false);
    shared_informer all(s.rt, s.api->make_list_watch(maps));
    task_group group(ex);
    group.spawn(all.run());
    const std::function<bool()> told = [&] { return bool(all.status().last_error); };
    const bool ok = co_await eventually(told);
    CHECK(ok);
    const failure why = all.status().last_error;
    CHECK(why == errc::connect_failed);
    INFO(why.what());
    CHECK(why.what().find("the proxy https://localhost:" + std::to_string(s.front.port()) +
                          ": TLS handshake: unable to get local issuer certificate") != std::string::npos);
    CHECK(s.front.heard().empty());
    all.stop();
    group.stop();
    co_await group.join();
    co_await s.stop();
}

} // namespace

TEST_CASE("an informer works by way of a TLS proxy of the kubeconfig or the environment") {
    run_test(informed(true, scene::from::kubeconfig));
    run_test(informed(true, scene::from::environment));
    run_test(informed(false, scene::from::kubeconfig));
    run_test(informed(false, scene::from::environment));
}
TEST_CASE("a TLS proxy whose certificate is not trusted is told nothing, and the informer says why") {
    run_test(not_trusted());
}
