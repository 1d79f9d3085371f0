// A cluster by way of a proxy: verbs, lists, watches, and an informer that outlives the proxy.
#include "support/http_proxy.hpp"
#include "support/log_capture.hpp"
#include "support/run.hpp"

#include <informer/cache/shared_informer.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/task_group.hpp>
#include <informer/testing/api_server.hpp>

#include <boost/json/value.hpp>

#include <catch2/catch_test_macros.hpp>

#include <optional>
#include <string>

using namespace informer;
using namespace std::chrono_literals;
using informer::testing::eventually;
using informer::testing::http_proxy;
using informer::testing::run_test;

namespace {

const api_resource maps("", "v1", "configmaps", "ConfigMap", true);

boost::json::value map_named(const std::string& name) {
    return {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"name", name}, {"namespace", "default"}}}};
}

testing::api_server_options serving(bool tls) {
    testing::api_server_options o;
    if (tls) o.tls().token("t0", "admin");
    return o;
}

/// A server, a proxy in front of it, and a client that names the server localhost and reaches it by way of the proxy.
class scene {
public:
    scene(asio::any_io_executor ex, const std::string& scheme, bool tls, const std::string& login = "")
        : rt(ex), server(rt, serving(tls)), proxy(ex) {
        rt.with_logger(log.logger(), log_level::debug);
        server.start();
        failure f;
        config = kubernetes::parse_kubeconfig(server.kubeconfig(), "embedded", kubernetes::kubeconfig_options(), f);
        REQUIRE_FALSE(f);
        config.server = std::string(tls ? "https" : "http") + "://localhost:" + std::to_string(server.port());
        config.proxy = http::proxy::parse(scheme + "://" + login + "127.0.0.1:" + std::to_string(proxy.port()), f);
        REQUIRE_FALSE(f);
        api.emplace(rt, config);
    }
    asio::awaitable<void> stop() {
        api.reset();
        co_await server.stop();
        co_await proxy.stop();
    }

    runtime rt;
    testing::log_capture log;
    testing::api_server server;
    http_proxy proxy;
    kubernetes::client_config config;
    std::optional<kubernetes::client> api;
};

asio::awaitable<void> make(scene* s, std::string name) {
    boost::json::value body = map_named(name);
    const kubernetes::write_options plain;
    co_await s->api->create(maps, std::move(body), plain);
}

asio::awaitable<void> informed(std::string scheme, bool tls) {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex, scheme, tls);
    co_await make(&s, "a");
    const auto fast = informer_options().backoff(backoff_options().initial(1ms).cap(20ms));
    shared_informer all(s.rt, s.api->make_list_watch(maps), fast);
    task_group group(ex);
    group.spawn(all.run());
    co_await all.synced(10s);
    CHECK(all.get("default/a"));

    co_await make(&s, "b");
    const std::function<bool()> b_came = [&] { return bool(all.get("default/b")); };
    bool ok = co_await eventually(b_came);
    CHECK(ok); // by a watch

    s.proxy.crash();
    const std::function<bool()> noticed = [&] { return bool(all.status().last_error); };
    ok = co_await eventually(noticed);
    CHECK(ok);
    s.proxy.start();
    co_await make(&s, "c");
    const std::function<bool()> c_came = [&] { return bool(all.get("default/c")); };
    ok = co_await eventually(c_came);
    CHECK(ok);
    CHECK(s.proxy.accepted() >= 2);
    all.stop();
    group.stop();
    co_await group.join();
    co_await s.stop();
}

asio::awaitable<void> refused_by_the_proxy(bool tls) {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex, "http", tls, "me:s3cret@");
    s.proxy.demand("Basic other", "", "");
    const auto fast = informer_options().backoff(backoff_options().initial(1ms).cap(20ms));
    shared_informer all(s.rt, s.api->make_list_watch(maps), fast);
    task_group group(ex);
    group.spawn(all.run());
    const std::function<bool()> several = [&] { return s.proxy.accepted() > 2; };
    bool ok = co_await eventually(several);
    CHECK(ok); // it tries again
    const auto status = all.status();
    REQUIRE(status.last_error);
    const std::string what = status.last_error.what();
    INFO(what);
    CHECK(what.find("the proxy http://127.0.0.1:" + std::to_string(s.proxy.port()) +
                    " answered 407 Proxy Authentication Required") != std::string::npos);
    CHECK(status.last_error == errc::connect_failed);
    for (const auto& line : s.proxy.asked()) // no list follows a watch-list that the proxy refused
        CHECK((tls || line.find("sendInitialEvents=true") != std::string::npos));
    CHECK_FALSE(s.log.contains("s3cret"));
    CHECK_FALSE(s.log.contains("bWU6czNjcmV0"));
    CHECK(s.log.contains("by way of the proxy http://127.0.0.1:"));
    s.proxy.demand("Basic bWU6czNjcmV0", "", ""); // from now on the proxy accepts the login
    co_await all.synced(10s);
    all.stop();
    group.stop();
    co_await group.join();
    co_await s.stop();
}

asio::awaitable<void> in_clear() {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex, "http", false);
    s.config.credentials.token = "t0";
    s.api.emplace(s.rt, s.config);
    CHECK(s.api->config().credentials.token.empty()); // also in a configuration that was made by hand
    CHECK(s.log.contains("is not TLS: credentials are not sent"));
    co_await s.stop();
}

} // namespace

TEST_CASE("an informer works by way of a proxy, and survives its restart") {
    run_test(informed("http", true));
    run_test(informed("http", false));
    run_test(informed("socks5", true));
    run_test(informed("socks5", false));
}
TEST_CASE("an informer that the proxy refuses says so and tries again") {
    run_test(refused_by_the_proxy(true));
    run_test(refused_by_the_proxy(false));
}
TEST_CASE("client: no credentials are sent in clear text to loopback by way of a proxy") {
    run_test(in_clear());
}
