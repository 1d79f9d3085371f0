#include <informer/cache/shared_informer.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/task_group.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <iostream>

namespace asio = boost::asio;

asio::awaitable<void> follow(informer::shared_informer pods) {
    auto events = pods.subscribe();
    co_await pods.synced(std::chrono::seconds(30));
    std::cout << pods.snapshot().size() << " pods\n";
    for (int i = 0; i < 10; ++i) { // a service would go on for ever
        auto event = co_await events.next();
        if (!event) break;
        std::cout << to_string(event->kind) << ' ' << event->key() << " on "
                  << event->current["spec"]["nodeName"].string_or_empty() << '\n';
    }
    pods.stop();
}

int main() try {
    asio::io_context io;
    informer::runtime runtime(io.get_executor()); // one thread runs it; of several give a strand: asio::make_strand(io)
    runtime.with_logger([](informer::log_level, std::string_view line) { std::cerr << line << '\n'; });
    informer::kubernetes::client client(runtime, informer::kubernetes::default_config());
    informer::shared_informer pods(runtime, client.make_list_watch({"", "v1", "pods", "Pod"}));
    informer::task_group tasks(io.get_executor());
    tasks.spawn(pods.run());
    asio::co_spawn(io, follow(pods), [](std::exception_ptr e) {
        if (e) std::rethrow_exception(e); // out of io.run()
    });
    io.run();
} catch (const std::exception& e) { // no configuration, or no first state in 30 seconds: it says why
    std::cerr << e.what() << '\n';
    return 1;
}
