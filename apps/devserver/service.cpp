#include "service.hpp"

#include "preload.hpp"
#include "simulator.hpp"

#include <informer/task_group.hpp>
#include <informer/testing/api_server.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <system_error>

namespace devserver {

namespace asio = boost::asio;

namespace {

[[noreturn]] void cannot_write(const std::string& path, int error) {
    throw std::system_error(error, std::generic_category(), "cannot write " + path);
}

// Readable by its owner alone, and never seen half written.
void write_private(const std::string& path, const std::string& text) {
    const auto temporary = path + ".new";
    ::unlink(temporary.c_str()); // one that was left may be readable by others, or a link to somewhere else
    const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0) cannot_write(path, errno);
    const auto written = ::write(fd, text.data(), text.size());
    const int error = errno;
    ::close(fd);
    if (written != static_cast<ssize_t>(text.size())) {
        ::unlink(temporary.c_str());
        cannot_write(path, written < 0 ? error : ENOSPC);
    }
    if (std::rename(temporary.c_str(), path.c_str()) != 0) {
        const int refused = errno;
        ::unlink(temporary.c_str());
        cannot_write(path, refused);
    }
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
    asio::io_context io(1);
    informer::runtime runtime(io.get_executor());
    runtime.with_seed(o.seed);
    runtime.with_logger([](informer::log_level, std::string_view line) { std::cerr << line << '\n'; },
                        o.verbose ? informer::log_level::debug : informer::log_level::warning);

    informer::testing::api_server_options so;
    so.address(o.address).port(o.port).tls(o.tls);
    so.bookmark_every(std::chrono::milliseconds(static_cast<std::int64_t>(o.bookmark_every * 1000)));
    so.history(20'000); // the server runs for days: an old state for every change would add up
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
    asio::signal_set signals(io, SIGINT, SIGTERM);
    informer::task_group main(io.get_executor());
    p.server.start();
    if (o.pods > 0) preload_pods(p.server, o.pods, o.seed);
    if (o.simulate) p.cluster.populate();
    if (!o.kubeconfig.empty()) write_private(o.kubeconfig, p.server.kubeconfig());
    if (!(std::cout << p.server.url() << std::endl)) // NOLINT: whoever started us waits for it
        throw std::runtime_error("stdout: " + std::string(std::strerror(errno)));
    main.spawn(until_signal(&p, &signals));
    if (o.simulate) p.group.spawn(simulator::run(&p.cluster, o.speed));
    io.run();
    return 0;
}

} // namespace devserver
