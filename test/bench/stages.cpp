// Where an informer spends CPU time between the socket and the handler: each stage by itself, then all together, over
// plain HTTP on loopback from a canned server in a process of its own. One JSON line per figure.
//
//   bench_stages [pods = 20000] [rounds of updates = 3] [whole: only the informer] [parser: without text difference]
#include "support/pod_generator.hpp"
#include "support/process_memory.hpp"

#include <informer/cache/shared_informer.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/object/document_pool.hpp>
#include <informer/object/framer.hpp>
#include <informer/task_group.hpp>

#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace {

using namespace informer;

double cpu_seconds() {
    timespec t{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void forget_peak() {
    std::ofstream("/proc/self/clear_refs") << "5";
}

std::string pod_text(unsigned index, unsigned revision, bool typed) {
    informer::testing::pod_options o(index);
    o.type = typed;
    o.revision = revision;
    return make_pod_json(o);
}

std::string event_text(unsigned index, unsigned revision, std::string_view type) {
    std::string s = "{\"type\":\"";
    s.append(type).append("\",\"object\":").append(pod_text(index, revision, true)).append("}\n");
    return s;
}

/// The version of pod `index` is 1'000'000 + index * 37 + revision * 100'003.
std::string version_after(unsigned pods, unsigned revision) {
    return std::to_string(1'000'000 + std::uint64_t{pods} * 37 + revision * 100'003ULL);
}

// ---- the canned server ---------------------------------------------------------------------------------------------

/// Makes all texts before it serves, and sends only pieces of them.
class canned {
public:
    canned(unsigned pods, unsigned rounds) : pods_(pods) {
        for (unsigned i = 0; i < pods; ++i) {
            items_.push_back(pod_text(i, 0, false));
            added_.push_back(event_text(i, 0, "ADDED"));
        }
        for (unsigned r = 1; r <= rounds; ++r) {
            std::vector<std::string> round;
            for (unsigned i = 0; i < pods; ++i) round.push_back(event_text(i, r, "MODIFIED"));
            bursts_.push_back(std::move(round));
        }
    }

    /// Serves one connection after another, and one request at a time, until it is killed.
    void serve(int listener, int control) {
        for (;;) {
            const int s = ::accept(listener, nullptr, nullptr);
            if (s < 0) continue;
            const int one = 1;
            ::setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            while (answer(s, control)) {
            }
            ::close(s);
        }
    }

private:
    bool send(int s, std::string_view text) {
        while (!text.empty()) {
            const ssize_t n = ::send(s, text.data(), text.size(), MSG_NOSIGNAL);
            if (n <= 0) return false;
            text.remove_prefix(static_cast<std::size_t>(n));
        }
        return true;
    }
    bool chunk(int s, std::string_view text) {
        char size[32];
        const int n = std::snprintf(size, sizeof size, "%zx\r\n", text.size());
        piece_.assign(size, static_cast<std::size_t>(n)).append(text).append("\r\n");
        return send(s, piece_);
    }
    bool answer(int s, int control) {
        std::string request;
        char buffer[4096];
        while (request.find("\r\n\r\n") == std::string::npos) {
            const ssize_t n = ::recv(s, buffer, sizeof buffer, 0);
            if (n <= 0) return false;
            request.append(buffer, static_cast<std::size_t>(n));
        }
        if (!send(s, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"))
            return false;
        if (request.find("watch=true") != std::string::npos) return watch(s, request, control);
        return list(s, request);
    }
    static std::uint64_t number_after(const std::string& request, std::string_view name) {
        const auto at = request.find(name);
        return at == std::string::npos ? 0 : std::strtoull(request.c_str() + at + name.size(), nullptr, 10);
    }
    bool list(int s, const std::string& request) {
        const auto limit = number_after(request, "limit=");
        const auto first = number_after(request, "continue=");
        const auto last = limit ? std::min<std::uint64_t>(pods_, first + limit) : pods_;
        std::string head = "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"" +
                           version_after(pods_, 0) + "\"";
        if (last < pods_) head += ",\"continue\":\"" + std::to_string(last) + "\"";
        head += "},\"items\":[";
        std::string out = head;
        for (auto i = first; i < last; ++i) {
            if (i != first) out += ',';
            out += items_[i];
            if (out.size() < 32768) continue;
            if (!chunk(s, out)) return false;
            out.clear();
        }
        out += "]}\n";
        return chunk(s, out) && send(s, "0\r\n\r\n");
    }
    bool watch(int s, const std::string& request, int control) {
        if (request.find("sendInitialEvents=true") != std::string::npos) {
            for (const std::string& e : added_)
                if (!chunk(s, e)) return false;
            if (!chunk(s, "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{"
                          "\"resourceVersion\":\"" +
                              version_after(pods_, 0) +
                              "\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n"))
                return false;
        }
        for (;;) {
            pollfd both[2] = {{control, POLLIN, 0}, {s, POLLIN, 0}};
            if (::poll(both, 2, -1) < 0 || both[1].revents) return false;
            char which = 0;
            if (::read(control, &which, 1) != 1) std::exit(0);
            for (const std::string& e : bursts_[static_cast<unsigned char>(which)])
                if (!chunk(s, e)) return false;
        }
    }

    unsigned pods_;
    std::vector<std::string> items_, added_;
    std::vector<std::vector<std::string>> bursts_;
    std::string piece_;
};

// ---- the stages ----------------------------------------------------------------------------------------------------

void print(const char* what, unsigned pods, double seconds) {
    std::printf("{\"stage\":\"%s\",\"us_per_object\":%.2f}\n", what, seconds / pods * 1e6);
    std::fflush(stdout);
}

double least(const std::function<void()>& work, int times = 3) {
    double best = 1e9;
    for (int i = 0; i < times; ++i) {
        const double start = cpu_seconds();
        work();
        best = std::min(best, cpu_seconds() - start);
    }
    return best;
}

/// Reads a list and throws it away: here with a raw socket, in `client_floor` with the library's HTTP client.
double socket_floor(unsigned short port) {
    return least([port] {
        const int s = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(port);
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::connect(s, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) std::exit(1);
        const char request[] = "GET /api/v1/pods HTTP/1.1\r\nHost: x\r\n\r\n";
        if (::send(s, request, sizeof request - 1, 0) <= 0) std::exit(1);
        static char buffer[65536];
        std::string end;
        for (;;) {
            const ssize_t n = ::recv(s, buffer, sizeof buffer, 0);
            if (n <= 0) break;
            end.append(buffer + std::max<ssize_t>(0, n - 5), static_cast<std::size_t>(std::min<ssize_t>(n, 5)));
            if (end.ends_with("0\r\n\r\n")) break;
            end.erase(0, end.size() > 5 ? end.size() - 5 : 0);
        }
        ::close(s);
    });
}

asio::awaitable<void> read_through(runtime rt, unsigned short port, std::size_t* bytes) {
    failure f;
    const http::endpoint to = http::endpoint::parse("http://127.0.0.1:" + std::to_string(port), f);
    http::client_options options;
    http::client c(rt, to, options, f);
    http::request r("GET", "/api/v1/pods");
    http::response answer = co_await c.send(std::move(r), f);
    std::vector<char> buffer(65536);
    for (;;) {
        const std::size_t n = co_await answer.read_some(asio::buffer(buffer), f);
        if (n == 0) break;
        *bytes += n;
    }
}

double client_floor(unsigned short port) {
    return least([port] {
        asio::io_context io;
        runtime rt(io.get_executor());
        std::size_t bytes = 0;
        task_group group(io.get_executor());
        group.spawn(read_through(rt, port, &bytes));
        io.run();
        if (bytes == 0) std::exit(1);
    });
}

struct results {
    double sync = 0, events = 0, longest_slice = 0;
    double rss_peak = 0, rss_steady = 0, rss_churned = 0;
    std::uint64_t seen = 0;
};

asio::awaitable<void> count_events(std::shared_ptr<subscription> s, std::uint64_t* seen) {
    for (;;) {
        const std::vector<event> batch = co_await s->next_batch(1000);
        if (batch.empty()) co_return;
        *seen += batch.size();
    }
}

asio::awaitable<void> drive(shared_informer i, unsigned pods, unsigned rounds, int control, results* r, double before,
                            double empty) {
    co_await i.synced(std::chrono::minutes(5));
    r->sync = cpu_seconds() - before;
    r->rss_peak = bench::peak_bytes() - empty;
    r->rss_steady = bench::resident_bytes() - empty;
    const double start = cpu_seconds();
    for (unsigned round = 0; round < rounds; ++round) {
        const char which = static_cast<char>(round);
        if (::write(control, &which, 1) != 1) std::exit(1);
        const resource_version last(
            std::to_string(1'000'000 + std::uint64_t{pods - 1} * 37 + (round + 1) * 100'003ULL));
        co_await i.wait_until(last, std::chrono::minutes(5));
    }
    r->events = (cpu_seconds() - start) / std::max(1u, rounds);
    r->rss_churned = bench::resident_bytes() - empty;
    r->longest_slice = std::chrono::duration<double>(i.status().longest_slice).count();
    i.stop();
}

results whole(unsigned short port, unsigned pods, unsigned rounds, int control, informer_options options) {
    results r;
    asio::io_context io(1);
    runtime rt(io.get_executor());
    kubernetes::client_config config;
    config.server = "http://127.0.0.1:" + std::to_string(port);
    kubernetes::client c(rt, config);
    options.index("node", index_by_pointer("/spec/nodeName"));
    ::malloc_trim(0);
    const double empty = bench::resident_bytes();
    forget_peak();
    {
        shared_informer i(rt, c.make_list_watch(api_resource("", "v1", "pods", "Pod")), options);
        auto s = std::make_shared<subscription>(i.subscribe());
        task_group group(io.get_executor());
        const double before = cpu_seconds();
        group.spawn(i.run());
        group.spawn(count_events(s, &r.seen));
        group.spawn(drive(i, pods, rounds, control, &r, before, empty));
        io.run();
        s.reset();
    }
    return r;
}

} // namespace

int main(int argc, char** argv) {
    const auto pods = static_cast<unsigned>(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 20'000);
    const auto rounds = static_cast<unsigned>(argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 3);
    const bool whole_only = argc > 3;
    const bool difference = argc < 5;

    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    int control[2];
    if (::bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 || ::listen(listener, 16) != 0 ||
        ::getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size) != 0 || ::pipe(control) != 0)
        return 1;
    const unsigned short port = ntohs(at.sin_port);
    const pid_t child = ::fork();
    if (child == 0) {
        ::close(control[1]);
        canned server(pods, rounds);
        server.serve(listener, control[0]);
    }
    ::close(control[0]);
    ::close(listener);

    if (!whole_only) {
        socket_floor(port); // waits until the server is ready
        print("raw socket", pods, socket_floor(port));
        print("http client", pods, client_floor(port));
        std::string list = "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{},\"items\":[";
        std::string stream;
        std::vector<std::string> texts, events;
        for (unsigned i = 0; i < pods; ++i) {
            texts.push_back(pod_text(i, 0, false));
            events.push_back(pod_text(i, 1, true));
            if (i) list += ',';
            list += texts.back();
            stream += event_text(i, 1, "MODIFIED");
        }
        list += "]}";
        const auto frame = [](auto framer, std::string_view text, auto add) {
            failure f;
            std::size_t n = 0;
            while (!text.empty()) {
                add(framer, text.substr(0, 65536));
                text.remove_prefix(std::min<std::size_t>(text.size(), 65536));
                while (framer.next(f)) ++n;
            }
            if (f || n == 0) std::exit(1);
        };
        double s =
            least([&] { frame(list_framer(), list, [](list_framer& f, std::string_view part) { f.feed(part); }); });
        print("list framer", pods, s);
        std::printf("{\"stage\":\"list framer\",\"gb_per_s\":%.2f}\n", static_cast<double>(list.size()) / s * 1e-9);
        s = least([&] { frame(watch_framer(), stream, [](watch_framer& f, std::string_view part) { f.lend(part); }); });
        print("watch framer", pods, s);
        print("peek_key", pods, least([&] {
                  for (const std::string& t : texts)
                      if (peek_key(t).empty()) std::exit(1);
              }));
        print("copy once", pods, least([&] {
                  static char buffer[65536];
                  for (std::size_t p = 0; p + 65536 < list.size(); p += 65536) {
                      std::memcpy(buffer, list.data() + p, 65536);
                      __asm__ volatile("" : : "r"(buffer) : "memory");
                  }
              }));
        failure f;
        const auto pool = document_pool::make(decode_options().type("v1", "Pod").text_difference(difference));
        std::vector<object> objects(pods);
        s = cpu_seconds();
        for (unsigned i = 0; i < pods; ++i) objects[i] = pool->decode(texts[i], object(), f);
        print("pool, first load", pods, cpu_seconds() - s);
        s = cpu_seconds();
        for (unsigned i = 0; i < pods; ++i) objects[i] = pool->decode(events[i], objects[i], f);
        print("pool, events", pods, cpu_seconds() - s);
    } else {
        socket_floor(port);
    }
    const auto run = [&](const char* name, informer_options options, unsigned n) {
        options.decode(decode_options().text_difference(difference));
        const results r = whole(port, pods, n, control[1], std::move(options));
        std::printf(
            "{\"stage\":\"informer, %s\",\"sync_us_per_pod\":%.2f,\"us_per_event\":%.2f,\"events_seen\":%llu,"
            "\"longest_slice_ms\":%.2f,\"rss_per_pod\":%.0f,\"rss_per_pod_churned\":%.0f,\"peak_to_steady\":%.2f}\n",
            name, r.sync / pods * 1e6, r.events / pods * 1e6, static_cast<unsigned long long>(r.seen),
            r.longest_slice * 1e3, r.rss_steady / pods, r.rss_churned / pods, r.rss_peak / r.rss_steady);
        std::fflush(stdout);
    };
    for (int i = 0; i < 2; ++i) {
        run("watch-list", informer_options(), rounds);
        run("list of pages", informer_options().watch_list(false), 0);
        run("list in one piece", informer_options().watch_list(false).page_size(0), 0);
    }
    ::kill(child, SIGTERM);
    ::waitpid(child, nullptr, 0);
    return 0;
}
