// A service that knows where pods run: its caches follow the cluster on one thread, its own threads read them.
#include <informer/cache/informer_factory.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/task_group.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <map>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;

const informer::api_resource pods("", "v1", "pods", "Pod");
const informer::api_resource nodes("", "v1", "nodes", "Node", false);

// May run on any thread. It reads one consistent state, and neither waits for the writer nor holds it up.
std::size_t running_on(const informer::lister& all, std::string_view node) {
    std::size_t running = 0;
    for (const informer::object& pod : all.by_index("node", node)) {
        if (pod["status"]["phase"] == "Running") ++running;
    }
    return running;
}

// Empty, or the reason why this replica should get no traffic. Whatever its phase, a cache is right as long as the
// server has confirmed it recently.
std::string not_ready(const informer::shared_informer& i) {
    const informer::informer_status now = i.status();
    if (!now.synced) return now.name + " is not in sync: " + now.last_error.what();
    if (std::chrono::system_clock::now() - now.confirmed < 15min) return {};
    return now.name + " may be out of date: " + now.last_error.what();
}

// Takes the changes in order. The queue of a slow listener does not grow: beyond its capacity, changes of one key are
// merged.
asio::awaitable<void> tell(informer::shared_informer from) {
    auto events = from.subscribe(informer::subscription_options().name("tell").capacity(256));
    std::map<std::string, int> seen;
    for (;;) {
        const auto event = co_await events.next();
        if (!event) break; // the informer has stopped
        if (!event->initial) ++seen[std::string(to_string(event->kind))];
    }
    for (const auto& [kind, n] : seen) std::cout << n << " times " << kind << '\n';
}

// Follows two at once. ready() takes nothing, so no event of either is lost.
asio::awaitable<void> tell_of_both(informer::shared_informer of_pods, informer::shared_informer of_nodes) {
    using namespace asio::experimental::awaitable_operators;
    auto pod_events = of_pods.subscribe(), node_events = of_nodes.subscribe();
    std::size_t states = 0;
    for (;;) {
        co_await (pod_events.ready() || node_events.ready());
        while (const auto event = pod_events.try_next()) ++states;
        while (const auto event = node_events.try_next()) ++states;
        if (pod_events.finished() || node_events.finished()) break; // its ready() returns at once, for ever
    }
    std::cout << states << " states of pods and nodes\n";
}

asio::awaitable<void> serve(informer::informer_factory* factory, informer::task_group* listeners) {
    const auto by_node = informer::informer_options().index("node", informer::index_by_pointer("/spec/nodeName"));
    // get() starts the informer; the handle is kept for as long as the cache is read
    const informer::informer_handle pod_cache = factory->get(pods, "", by_node);
    const informer::informer_handle node_cache = factory->get(nodes, "", informer::informer_options().metadata_only());
    co_await factory->synced(30s); // throws an error that says which did not sync, and why
    listeners->spawn(tell(*pod_cache));
    listeners->spawn(tell_of_both(*pod_cache, *node_cache));

    std::vector<std::string> names;
    for (const informer::object& node : node_cache->lister().list()) names.push_back(node.meta().name().str());
    std::cout << pod_cache->snapshot().size() << " pods on " << names.size() << " nodes\n";
    std::atomic<std::uint64_t> seen{0};
    const auto look = [&, all = pod_cache->lister()](std::stop_token stop) { // a lister may be used on any thread
        while (!stop.stop_requested()) {
            for (const std::string& node : names) seen += running_on(all, node);
        }
    };
    std::vector<std::jthread> readers;
    for (int i = 0; i < 2; ++i) readers.emplace_back(look);
    asio::steady_timer end(co_await asio::this_coro::executor, 1s); // a service would wait for a signal
    co_await end.async_wait(asio::use_awaitable);
    readers.clear(); // stopped and joined
    const std::string why = not_ready(*pod_cache);
    std::cout << (why.empty() ? "ready" : why) << "; running pods were seen " << seen << " times\n";
}

// On success and on failure alike, the watches are closed, the subscriptions end, and nothing of the library is left in
// the io_context.
asio::awaitable<void> run(informer::informer_factory* factory) {
    informer::task_group listeners(co_await asio::this_coro::executor);
    std::exception_ptr failed;
    try {
        co_await serve(factory, &listeners);
    } catch (...) {
        failed = std::current_exception();
    }
    co_await factory->shutdown();
    co_await listeners.join();
    if (failed) std::rethrow_exception(failed);
}

int main() try {
    asio::io_context io;
    informer::runtime runtime(io.get_executor());
    runtime.with_logger([](informer::log_level, std::string_view line) { std::cerr << line << '\n'; });
    informer::kubernetes::client client(runtime, informer::kubernetes::default_config());
    informer::informer_factory factory(runtime, client.list_watches());
    // exceptions leave through io.run()
    asio::co_spawn(io, run(&factory), [](std::exception_ptr e) {
        if (e) std::rethrow_exception(e);
    });
    io.run(); // this thread updates the caches
} catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
}
