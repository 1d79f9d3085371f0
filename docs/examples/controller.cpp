#include "info_controller.hpp"

#include <informer/task_group.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <csignal>
#include <iostream>

namespace asio = boost::asio;

asio::awaitable<void> run(informer::informer_factory* factory, informer::controller controller) {
    co_await controller.run(); // until stop()
    co_await factory->shutdown();
}

int main() {
    asio::io_context io;
    informer::runtime runtime(io.get_executor());
    runtime.with_logger([](informer::log_level, std::string_view line) { std::cerr << line << '\n'; });
    informer::kubernetes::client client(runtime, informer::kubernetes::default_config());
    informer::informer_factory factory(runtime, [&](const informer::api_resource& resource, const std::string& ns) {
        return client.make_list_watch(resource, ns);
    });
    informer::controller controller = make_info_controller(runtime, client, factory);

    informer::task_group tasks(io.get_executor());
    tasks.spawn(run(&factory, controller));
    asio::signal_set signals(io, SIGINT, SIGTERM);
    signals.async_wait([&](auto, int) { controller.stop(); });
    asio::steady_timer end(io, std::chrono::seconds(5)); // a service would go on for ever
    end.async_wait([&](auto) { signals.cancel(); });
    io.run();
    std::cout << controller.figures().succeeded << " reconciles\n";
}
