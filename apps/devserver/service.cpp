#include "service.hpp"

#include "preload.hpp"
#include "private_file.hpp"
#include "simulator.hpp"

#include <informer/task_group.hpp>
#include <informer/testing/api_server.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

namespace devserver {

namespace asio = boost::asio;

namespace {

/// Until the server serves, nothing is open that must be closed.
void end_at_once(int signal) {
    std::_Exit(128 + signal);
}

/// Tells every two seconds how far the preloading is.
class preload_progress {
public:
    explicit preload_progress(std::size_t of) : of_(of), next_(clock::now() + interval) {}
    void operator()(std::size_t created) {
        const auto now = clock::now();
        if (now < next_) return;
        next_ = now + interval;
        std::cerr << "devserver: " << created << " of " << of_ << " pods\n";
    }

private:
    using clock = std::chrono::steady_clock;
    static constexpr std::chrono::seconds interval{2};

    std::size_t of_;
    clock::time_point next_;
};

/// A client may outlive us and follow our successor, in which its versions must be too old: nobody writes faster than
/// once in a microsecond, so the time of the start is above all versions of earlier starts.
std::uint64_t version_at_start(const informer::clock& clock) {
    const auto since_1970 = clock.wall().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(since_1970).count());
}

struct program {
    program(informer::runtime r, informer::testing::api_server_options so, const options& o)
        : server(r, std::move(so)), cluster(server, r.shared_clock(), o.seed), group(r.executor()), runtime(r) {}

    informer::testing::api_server server;
    simulator cluster;
    informer::task_group group;
    informer::runtime runtime;
};

asio::awaitable<void> until_signal(program* p, asio::signal_set* signals) {
    const auto [ec, number] = co_await signals->async_wait(asio::as_tuple(asio::use_awaitable));
    static_cast<void>(ec);
    static_cast<void>(number);
    p->group.stop();
    co_await p->group.join();
    co_await p->server.stop();
}

} // namespace

int serve(const options& o) {
    std::signal(SIGPIPE, SIG_IGN); // the reader of our log may go away
    for (const int number : {SIGINT, SIGTERM}) std::signal(number, end_at_once);
    asio::io_context io(1);
    informer::runtime runtime(io.get_executor());
    runtime.with_logger([](informer::log_level, std::string_view line) { std::cerr << line << '\n'; },
                        o.verbose ? informer::log_level::debug : informer::log_level::warning);

    informer::testing::api_server_options so;
    so.address(o.address).port(o.port).tls(o.tls);
    so.bookmark_every(std::chrono::milliseconds(static_cast<std::int64_t>(o.bookmark_every * 1000)));
    so.history(20'000); // the server runs for days: an old state for every change would add up
    so.first_version(version_at_start(runtime.clock()));
    if (!o.token.empty()) so.token(o.token, "admin");
    if (!o.forbidden_token.empty()) so.token(o.forbidden_token, "nobody", "none");

    program p(runtime, std::move(so), o);
    p.group.on_error([](std::exception_ptr e) { // the server goes on without the simulation, until a signal
        try {
            std::rethrow_exception(e);
        } catch (const std::exception& why) {
            std::cerr << "devserver: the simulated cluster has come to a halt: " << why.what() << '\n';
        }
    });
    p.server.start();
    if (o.pods > 0) preload_pods(p.server, o.pods, o.seed, preload_progress(o.pods));
    if (o.simulate) p.cluster.populate();
    if (!o.kubeconfig.empty()) write_private(o.kubeconfig, p.server.kubeconfig());
    asio::signal_set signals(io, SIGINT, SIGTERM);
    informer::task_group main(io.get_executor());
    if (!(std::cout << p.server.url() << std::endl)) // NOLINT: whoever started us waits for it
        throw std::runtime_error("stdout: " + std::string(std::strerror(errno)));
    main.spawn(until_signal(&p, &signals));
    if (o.simulate) p.group.spawn(simulator::run(&p.cluster, o.speed));
    io.run();
    return 0;
}

} // namespace devserver
