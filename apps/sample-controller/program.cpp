#include "program.hpp"

#include "foo_controller.hpp"

#include <informer/controller/leader_election.hpp>
#include <informer/kubernetes/auth_filter.hpp>
#include <informer/serving/http_endpoint.hpp>
#include <informer/serving/prometheus_metrics.hpp>
#include <informer/task_group.hpp>
#include <informer/version.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

namespace sample_controller {

using namespace informer;

namespace {

void log_to_stderr(log_level level, std::string_view text) {
    static constexpr char letters[] = "EWID"; // klog's
    fmt::print(stderr, "{}{:%m%d %H:%M:%S} {}\n", letters[static_cast<int>(level)],
               fmt::localtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())), text);
}

std::chrono::nanoseconds seconds(double s) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(s));
}

leader_election_options election(const options& o, event_recorder recorder) {
    leader_election_options e(o.lease_namespace, o.lease_name);
    e.lease_duration(seconds(o.lease_duration))
        .renew_deadline(seconds(o.renew_deadline))
        .retry_period(seconds(o.retry_period))
        .on_event([recorder](const object& lease, const std::string& message) mutable {
            recorder.event(lease, event_type::normal, "LeaderElection", "LeaderElection", message);
        });
    if (!o.identity.empty()) e.identity(o.identity);
    return e;
}

/// The order of the members matters: they are constructed in this order and destroyed in the reverse one.
struct program {
    program(const options& what, runtime r, const kubernetes::client_config& config)
        : o(what), rt(std::move(r)), client(rt, config), lease_client(rt, config), factory(rt, client.list_watches()),
          recorder(rt, client, event_recorder_options("sample-controller")),
          foos_controller(std::make_shared<foo_controller>(client, recorder)),
          foo(foo_controller::make(foos_controller, rt, factory, o.name_space, o.workers)), background(rt.executor()),
          standing(rt.executor()) {}

    options o;
    runtime rt;
    kubernetes::client client;
    kubernetes::client lease_client; ///< separate: a renewal does not wait behind other requests
    informer_factory factory;
    event_recorder recorder;
    std::shared_ptr<foo_controller> foos_controller;
    controller foo;
    std::unique_ptr<leader_elector> elector;
    std::unique_ptr<serving::http_endpoint> endpoint;
    task_group background, standing;
    election_end end = election_end::stopped;
    bool leading = false;
    int signals = 0;
};

/// Runs until cancelled. The first signal lets running reconciles finish, the second one cancels them.
asio::awaitable<void> on_signals(program* p, asio::signal_set* signals) {
    for (;;) {
        const auto [ec, number] = co_await signals->async_wait(asio::as_tuple(asio::use_awaitable));
        if (ec) co_return;
        ++p->signals;
        p->rt.log(log_level::info, "signal " + std::to_string(number) + ": stopping");
        p->foo.stop();
        if (!p->leading || p->signals > 1) p->standing.stop();
    }
}

asio::awaitable<void> lead(program* p, leadership office) {
    p->leading = true;
    p->rt.log(log_level::info, "leading as " + office.identity());
    std::exception_ptr failed;
    try {
        co_await p->foo.run_workers();
    } catch (...) {
        failed = std::current_exception();
    }
    p->leading = false;
    if (failed) std::rethrow_exception(failed);
}

asio::awaitable<void> stand(program* p) {
    std::function<asio::awaitable<void>(leadership)> work = [p](leadership office) {
        return lead(p, std::move(office));
    };
    p->end = co_await p->elector->run(std::move(work));
}

asio::awaitable<void> work(program* p) {
    if (p->elector) {
        p->background.spawn(p->foo.run_sources()); // warm standby
        p->standing.spawn(stand(p));
    } else {
        p->standing.spawn(p->foo.run());
    }
    co_await p->standing.join();
    // After a signal, a lost Lease is no failure: a server that hangs holds reconciles up, and cannot be asked for a
    // renewal.
    if (p->elector && p->end == election_end::lost && p->signals == 0) throw std::runtime_error("the lease is lost");
}

asio::awaitable<void> serve(program* p, asio::signal_set* signals, std::exception_ptr* failed) {
    task_group listening(p->rt.executor());
    listening.spawn(on_signals(p, signals));
    p->background.spawn(p->recorder.run());
    try {
        co_await work(p);
    } catch (...) {
        *failed = std::current_exception();
    }
    if (!p->foo.stopping()) p->foo.stop();
    const bool told = co_await p->recorder.flush(std::chrono::seconds(2));
    if (!told) p->rt.log(log_level::warning, "some events were not sent");
    p->background.stop();
    try {
        co_await p->background.join();
    } catch (...) {
        if (!*failed) *failed = std::current_exception();
    }
    co_await p->factory.shutdown();
    if (p->endpoint) co_await p->endpoint->stop();
    signals->cancel();
    listening.stop();
    co_await listening.join();
}

void add_endpoint(program& p, std::shared_ptr<serving::prometheus_metrics> metrics) {
    serving::endpoint_options where;
    where.address(p.o.http_address).port(*p.o.http_port);
    if (!p.o.tls_cert_file.empty()) {
        http::server_tls tls;
        tls.files_.certificate = p.o.tls_cert_file;
        tls.files_.key = p.o.tls_private_key_file;
        where.tls(std::move(tls));
    }
    p.endpoint = std::make_unique<serving::http_endpoint>(p.rt, where);
    if (p.o.metrics_auth) p.endpoint->filter(kubernetes::make_auth_filter(p.rt, p.client));
    p.endpoint->metrics(std::move(metrics));
    p.endpoint->healthz("ping", [] { return std::string(); });
    p.endpoint->readyz("controller", [&p] { return p.foo.not_ready(); });
    p.endpoint->readyz("shutdown", [&p] { return p.foo.stopping() ? std::string("stopping") : std::string(); });
    if (p.elector)
        p.endpoint->healthz("leader-election", [&p] {
            const failure f = p.elector->check();
            return f ? f.what() : std::string();
        });
    failure f;
    p.endpoint->listen(f);
    throw_on(f);
    p.rt.log(log_level::info, "serving /metrics, /healthz and /readyz on port " + std::to_string(p.endpoint->port()));
}

} // namespace

int complain(const std::string& what) {
    std::string line = what;
    for (char& c : line)
        if (c == '\n' || c == '\r') c = ' ';
    std::fprintf(stderr, "sample-controller: %s\n", line.c_str());
    return 1;
}

int run(const options& o) {
    std::signal(SIGPIPE, SIG_IGN);
    asio::io_context io(1);
    const auto metrics = std::make_shared<serving::prometheus_metrics>();
    runtime rt(io.get_executor());
    rt.with_metrics(metrics).with_logger(log_to_stderr, o.verbosity > 1 ? log_level::debug : log_level::info);
    kubernetes::kubeconfig_options where;
    where.path(o.kubeconfig).context(o.context).cluster(o.cluster).user(o.user).server(o.server);
    kubernetes::client_config config = kubernetes::default_config(where);
    config.user_agent = "sample-controller/" INFORMER_VERSION_STRING " (linux)";

    asio::signal_set signals(io, SIGINT, SIGTERM);
    program p(o, rt, config);
    if (o.leader_elect) p.elector = std::make_unique<leader_elector>(p.rt, p.lease_client, election(o, p.recorder));
    if (o.http_port) add_endpoint(p, metrics);
    std::exception_ptr failed;
    task_group root(io.get_executor());
    root.spawn(serve(&p, &signals, &failed));
    io.run();
    if (failed) std::rethrow_exception(failed);
    return 0;
}

} // namespace sample_controller
