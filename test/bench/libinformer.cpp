// libinformer as one of the peers of the benchmark: an informer of all namespaces with an index by node and a handler
// that counts.
//
//   bench_libinformer --server URL [--mode watchlist|list|paged|metadata] [--token T] [--ca FILE] [--gzip] [--parser]
//                     [--resource pods] [--group G] [--version V] [--kind K]
//
// `--parser`: every text is parsed, none is read by its differences.
// Prints JSON lines: {"at":"empty"} before it connects, {"at":"synced","objects":N}, {"at":"events","count":K} after
// each thousand updates. Takes the commands "count", "force", "latency", "digest", "statistics" and "quit" on stdin.
#include "bench/support/digest.hpp"

#include <informer/cache/shared_informer.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/task_group.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <malloc.h>
#include <unistd.h>

namespace {

namespace asio = boost::asio;
constexpr auto as_result = asio::as_tuple(asio::use_awaitable);

struct options {
    std::string server, mode = "watchlist", token, ca, group, version = "v1", resource = "pods", kind = "Pod";
    bool gzip = false, parser = false;
};

void say(const std::string& line) {
    std::cout << line << '\n' << std::flush;
}

/// The counts of the handler.
struct counts {
    std::uint64_t adds = 0, updates = 0, deletes = 0;
    std::vector<std::int64_t> latencies; ///< ns

    void updated(const informer::object& o) {
        if (++updates % 1000 == 0) say("{\"at\":\"events\",\"count\":" + std::to_string(updates) + "}");
        const informer::text sent = o.meta().annotation("bench/sent");
        const std::string_view digits = sent.view();
        std::int64_t then = 0;
        std::from_chars(digits.data(), digits.data() + digits.size(), then);
        if (then == 0) return;
        timespec now{};
        ::clock_gettime(CLOCK_REALTIME, &now);
        latencies.push_back(now.tv_sec * 1'000'000'000 + now.tv_nsec - then);
    }
};

std::string latency(std::vector<std::int64_t>& of) {
    std::sort(of.begin(), of.end());
    const auto at = [&](double share) {
        return of.empty()
                   ? 0.0
                   : static_cast<double>(of[static_cast<std::size_t>(share * static_cast<double>(of.size() - 1))]) /
                         1e3;
    };
    const std::string line = "{\"at\":\"latency\",\"count\":" + std::to_string(of.size()) +
                             ",\"p50_us\":" + std::to_string(at(0.5)) + ",\"p99_us\":" + std::to_string(at(0.99)) + "}";
    of = {};
    return line;
}

std::string digest(const informer::cache_snapshot& of) {
    std::vector<std::string> lines;
    of.for_each([&](const informer::object& o) {
        lines.push_back(o.key().str() + " " + o.resource_version().str() + "\n");
        return true;
    });
    const std::string size = std::to_string(lines.size());
    return "{\"at\":\"digest\",\"objects\":" + size + ",\"sha256\":\"" + informer::bench::digest(std::move(lines)) +
           "\"}";
}

std::string statistics(const informer::informer_status& s) {
    return "{\"at\":\"statistics\",\"objects\":" + std::to_string(s.objects) + ",\"bytes\":" + std::to_string(s.bytes) +
           ",\"pool_bytes\":" + std::to_string(s.pool.bytes) + ",\"free_bytes\":" + std::to_string(s.pool.free_bytes) +
           ",\"template_hits\":" + std::to_string(s.pool.template_hits) +
           ",\"template_misses\":" + std::to_string(s.pool.template_misses) +
           ",\"relists\":" + std::to_string(s.relists) + ",\"quarantined\":" + std::to_string(s.quarantined) + "}";
}

asio::awaitable<void> report_sync(informer::shared_informer pods, informer::shared_informer::handler_handle handler) {
    co_await pods.synced(std::chrono::minutes(10));
    asio::steady_timer soon(co_await asio::this_coro::executor);
    while (!handler.has_synced()) { // the handler is called in later turns of the executor
        if (pods.status().phase == informer::informer_phase::stopped) co_return; // told to quit
        soon.expires_after(std::chrono::milliseconds(1));
        co_await soon.async_wait(as_result);
    }
    say("{\"at\":\"synced\",\"objects\":" + std::to_string(pods.snapshot().size()) + "}");
}

asio::awaitable<void> take_commands(informer::shared_informer pods, std::shared_ptr<counts> seen) {
    asio::posix::stream_descriptor in(co_await asio::this_coro::executor, ::dup(STDIN_FILENO));
    std::string text;
    for (;;) {
        auto into = asio::dynamic_buffer(text);
        const auto [ec, n] = co_await asio::async_read_until(in, into, '\n', as_result);
        if (ec) break;
        const std::string word = text.substr(0, n - 1);
        text.erase(0, n);
        if (word == "quit") break;
        if (word == "count")
            say("{\"at\":\"events\",\"count\":" + std::to_string(seen->updates) +
                ",\"adds\":" + std::to_string(seen->adds) + ",\"deletes\":" + std::to_string(seen->deletes) + "}");
        if (word == "force") {
            ::malloc_trim(0);
            say("{\"at\":\"forced\"}");
        }
        if (word == "latency") say(latency(seen->latencies));
        if (word == "digest") say(digest(pods.snapshot()));
        if (word == "statistics") say(statistics(pods.status()));
    }
    pods.stop();
}

int usage(const std::string& problem) {
    std::cerr << "bench_libinformer: " << problem
              << "\nusage: bench_libinformer --server URL [--mode watchlist|list|paged|metadata] [--token T] [--ca "
                 "FILE] [--gzip] [--parser]\n"
                 "                         [--resource pods] [--group G] [--version V] [--kind K]\n";
    return 2;
}

} // namespace

int main(int argc, char** argv) {
    options o;
    for (int i = 1; i < argc; ++i) {
        const std::string_view a = argv[i];
        if (a == "--gzip" || a == "--parser") {
            (a == "--gzip" ? o.gzip : o.parser) = true;
            continue;
        }
        if (i + 1 == argc) return usage("no value for " + std::string(a));
        const std::string value = argv[++i];
        if (a == "--server")
            o.server = value;
        else if (a == "--mode")
            o.mode = value;
        else if (a == "--token")
            o.token = value;
        else if (a == "--ca")
            o.ca = value;
        else if (a == "--resource")
            o.resource = value;
        else if (a == "--group")
            o.group = value;
        else if (a == "--version")
            o.version = value;
        else if (a == "--kind")
            o.kind = value;
        else
            return usage("unknown option " + std::string(a));
    }
    if (o.server.empty()) return usage("--server is needed");

    informer::kubernetes::client_config config;
    config.server = o.server;
    config.credentials.token = o.token;
    if (!o.ca.empty()) {
        std::ifstream file(o.ca);
        config.tls.ca(std::string(std::istreambuf_iterator<char>(file), {}));
    }
    config.gzip = o.gzip;
    informer::informer_options how;
    how.index("node", informer::index_by_pointer("/spec/nodeName"));
    if (o.parser) how.decode(informer::decode_options().text_difference(false));
    if (o.mode == "list")
        how.watch_list(false).page_size(0);
    else if (o.mode == "paged")
        how.watch_list(false).page_size(500);
    else if (o.mode == "metadata")
        how.metadata_only();
    else if (o.mode != "watchlist" && o.mode != "full")
        return usage("unknown mode " + o.mode);

    asio::io_context io(1);
    informer::runtime runtime(io.get_executor());
    runtime.with_logger([](informer::log_level, std::string_view line) { std::cerr << line << '\n'; },
                        informer::log_level::warning);
    informer::kubernetes::client client(runtime, config);
    const auto from = client.make_list_watch({o.group, o.version, o.resource, o.kind});
    informer::shared_informer pods(runtime, from, how);
    const auto seen = std::make_shared<counts>();
    const auto handler =
        pods.add_event_handler([seen](const informer::object&, bool) { ++seen->adds; },
                               [seen](const informer::object&, const informer::object& now) { seen->updated(now); },
                               [seen](const informer::object&, bool) { ++seen->deletes; });
    informer::task_group tasks(io.get_executor());
    say("{\"at\":\"empty\"}");
    tasks.spawn(pods.run());
    tasks.spawn(report_sync(pods, handler));
    tasks.spawn(take_commands(pods, seen));
    io.run();
    return 0;
}
