// Follows the services that are registered in etcd: JSON below /services/<namespace>/<name>.
//     example_etcd [http://127.0.0.1:2379 [changes]]
#include <informer/cache/shared_informer.hpp>
#include <informer/etcd/list_watch.hpp>
#include <informer/task_group.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <iostream>

namespace asio = boost::asio;

asio::awaitable<void> follow(informer::shared_informer services, int changes) {
    auto events = services.subscribe();
    co_await services.synced(std::chrono::seconds(30));
    std::cout << services.snapshot().size() << " services" << std::endl;
    while (changes > 0) { // a service would go on for ever
        auto event = co_await events.next();
        if (!event) break;
        if (event->initial) continue; // what was there already
        --changes;
        std::cout << to_string(event->kind) << ' ' << event->key() << " at "
                  << event->current["address"].string_or_empty() << std::endl;
    }
    // Labels are in the value's own metadata, as in Kubernetes.
    std::cout << "in zone north: " << services.snapshot().by_index("zone", "north").size() << std::endl;
    services.stop();
}

int main(int argc, char** argv) try {
    asio::io_context io;
    informer::runtime runtime(io.get_executor());
    runtime.with_logger([](informer::log_level, std::string_view line) { std::cerr << line << '\n'; });
    informer::etcd::config etcd(argc > 1 ? argv[1] : "http://127.0.0.1:2379");
    auto source = informer::etcd::make_list_watch(runtime, etcd, informer::etcd::mapping("/services/").namespaced());
    informer::informer_options options;
    options.index("zone", informer::index_by_label("zone"));
    informer::shared_informer services(runtime, source, options);
    informer::task_group tasks(io.get_executor());
    tasks.spawn(services.run());
    asio::co_spawn(io, follow(services, argc > 2 ? std::stoi(argv[2]) : 10), [](std::exception_ptr e) {
        if (e) std::rethrow_exception(e);
    });
    io.run();
} catch (const std::exception& e) { // no etcd there, or no initial state in 30 seconds: the text says why
    std::cerr << e.what() << '\n';
    return 1;
}
