#include "info_controller.hpp"

#include <informer/task_group.hpp>
#include <informer/testing/api_server.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <functional>
#include <iostream>
#include <stdexcept>

namespace asio = boost::asio;
namespace json = boost::json;
using informer::testing::fault;

// Waits for a condition, at most ten seconds. The predicate has a name: no capturing lambda in a co_await expression.
asio::awaitable<void> eventually(const char* what, std::function<bool()> holds) {
    asio::steady_timer timer(co_await asio::this_coro::executor);
    for (int i = 0; i < 1000 && !holds(); ++i) {
        timer.expires_after(std::chrono::milliseconds(10));
        co_await timer.async_wait(asio::use_awaitable);
    }
    if (!holds()) throw std::runtime_error(std::string("never happened: ") + what);
    std::cout << "ok: " << what << '\n';
}

asio::awaitable<void> test(informer::runtime runtime) {
    informer::testing::api_server server(runtime); // a real one as far as clients can tell: lists, watches, conflicts
    server.start();
    informer::kubernetes::client_config config;
    config.server = server.url();
    informer::kubernetes::client client(runtime, config);
    std::function<std::shared_ptr<informer::list_watch>(const informer::api_resource&, std::string)> source =
        [client](const informer::api_resource& r, std::string ns) { return client.make_list_watch(r, ns); };
    informer::informer_factory factory(runtime, source);
    auto controller = make_info_controller(runtime, client, factory);
    informer::task_group tasks(runtime.executor());
    tasks.spawn(controller.run());

    const auto replicas = [&](const char* name) {
        const auto info = server.get("configmaps", "default", name);
        return info.is_null() ? std::string() : std::string(info.at_pointer("/data/replicas").as_string());
    };
    std::function<bool()> three = [&] { return replicas("web-info") == "3"; };
    server.create(json::parse(
        R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"default","name":"web"},"spec":{"replicas":3}})"));
    co_await eventually("a Deployment gets its ConfigMap", three);

    server.remove("configmaps", "default", "web-info");
    co_await eventually("a ConfigMap that was deleted comes back", three);

    // The server fails three times, the watches are cut, and history is gone: it still converges.
    server.inject(fault(fault::kind::status).verb("update").with_code(500).repeat(3));
    server.compact();
    server.expire_watches();
    server.merge_patch("deployments.apps", "default", "web", json::parse(R"({"spec":{"replicas":5}})"));
    std::function<bool()> five = [&] { return replicas("web-info") == "5"; };
    co_await eventually("a change comes through in spite of failures", five);

    controller.stop();
    co_await tasks.join();
    co_await factory.shutdown();
    co_await server.stop();
}

int main() {
    asio::io_context io;
    informer::task_group tasks(io.get_executor());
    bool failed = false;
    tasks.on_error([&](std::exception_ptr e) {
        try {
            std::rethrow_exception(e);
        } catch (const std::exception& x) {
            std::cerr << x.what() << '\n';
        }
        failed = true;
        io.stop();
    });
    tasks.spawn(test(informer::runtime(io.get_executor())));
    io.run();
    return failed ? 1 : 0;
}
