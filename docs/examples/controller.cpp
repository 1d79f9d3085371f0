#include "info_controller.hpp"

#include <informer/task_group.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>

namespace asio = boost::asio;

// Runs until stop(), or until the controller fails. In either case the factory is shut down: otherwise its informers
// would go on, and so would io.run().
asio::awaitable<void> run(informer::informer_factory* factory, informer::controller controller,
                          informer::task_group* others) {
    std::exception_ptr failed;
    try {
        co_await controller.run();
    } catch (...) {
        failed = std::current_exception();
    }
    co_await factory->shutdown();
    others->stop();
    if (failed) std::rethrow_exception(failed);
}

// The first signal lets running reconciles finish, the second one cancels them.
asio::awaitable<void> stop_on_signals(informer::controller controller) {
    asio::signal_set signals(co_await asio::this_coro::executor, SIGINT, SIGTERM);
    for (;;) {
        const auto [error, number] = co_await signals.async_wait(asio::as_tuple(asio::use_awaitable));
        if (error) co_return;
        controller.stop();
    }
}

asio::awaitable<void> stop_after(std::chrono::seconds time, informer::controller controller) {
    asio::steady_timer end(co_await asio::this_coro::executor, time);
    const auto [error] = co_await end.async_wait(asio::as_tuple(asio::use_awaitable));
    if (!error) controller.stop();
}

// usage: example_controller [seconds to wait for the caches]
int main(int argc, char** argv) {
    asio::io_context io;
    informer::runtime runtime(io.get_executor());
    runtime.with_logger([](informer::log_level, std::string_view line) { std::cerr << line << '\n'; });
    informer::kubernetes::client client(runtime, informer::kubernetes::default_config());
    informer::informer_factory factory(runtime, client.list_watches());
    informer::controller_options options;
    if (argc > 1) options.sync_timeout(std::chrono::seconds(std::atoi(argv[1])));
    informer::controller controller = make_info_controller(runtime, client, factory, options);

    bool failed = false;
    informer::task_group tasks(io.get_executor()), others(io.get_executor());
    tasks.on_error([&](std::exception_ptr) { failed = true; }); // the controller has logged why
    tasks.spawn(run(&factory, controller, &others));
    others.spawn(stop_on_signals(controller));
    others.spawn(stop_after(std::chrono::seconds(5), controller)); // a service would go on for ever
    io.run();
    std::cout << controller.figures().succeeded << " reconciles\n";
    return failed ? 1 : 0;
}
