#include "info_controller.hpp"

#include <informer/task_group.hpp>
#include <informer/testing/api_server.hpp>
#include <informer/testing/eventually.hpp>

#include <boost/asio/io_context.hpp>

#include <exception>
#include <functional>
#include <iostream>
#include <string>

namespace asio = boost::asio;
namespace json = boost::json;
using informer::testing::eventually;
using informer::testing::fault;

asio::awaitable<void> test(informer::runtime runtime) {
    informer::testing::api_server server(runtime); // a real one as far as clients can tell: lists, watches, conflicts
    server.start();
    informer::kubernetes::client client(runtime, server.config());
    informer::informer_factory factory(runtime, client.list_watches());
    auto controller = make_info_controller(runtime, client, factory);
    informer::task_group tasks(runtime.executor());
    tasks.spawn(controller.run());

    const auto replicas = [&](const char* name) {
        const auto info = server.get("configmaps", "default", name);
        return info.is_null() ? std::string() : std::string(info.at_pointer("/data/replicas").as_string());
    };
    // Named first: no capturing lambda in a statement with co_await.
    const std::function<bool()> three = [&] { return replicas("web-info") == "3"; };
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
    const std::function<bool()> five = [&] { return replicas("web-info") == "5"; };
    co_await eventually("a change comes through in spite of failures", five);

    controller.stop();
    co_await tasks.join();
    co_await factory.shutdown();
    co_await server.stop();
    std::cout << "ok\n";
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
