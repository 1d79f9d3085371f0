#include "kubernetes/child_process.hpp"

#include "root/descriptor.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

namespace informer::kubernetes::detail {

namespace {

using informer::detail::descriptor;
using informer::detail::uninterrupted;

int open_process(pid_t pid) noexcept {
#ifdef SYS_pidfd_open
    return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
#else
    static_cast<void>(pid);
    errno = ENOSYS;
    return -1;
#endif
}

struct plumbing {
    descriptor nothing, out_read, out_write, err_read, err_write;

    /// 0, or the error.
    int lay() noexcept {
        nothing = descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        if (!nothing || !nothing.out_of_the_way()) return errno;
        return pipe(out_read, out_write) && pipe(err_read, err_write) ? 0 : errno;
    }

private:
    static bool pipe(descriptor& read, descriptor& write) noexcept {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) return false;
        read = descriptor(ends[0]);
        write = descriptor(ends[1]);
        return write.out_of_the_way();
    }
};

class spawn_plan {
public:
    spawn_plan() noexcept {
        posix_spawn_file_actions_init(&actions);
        posix_spawnattr_init(&attributes);
    }
    spawn_plan(const spawn_plan&) = delete;
    spawn_plan& operator=(const spawn_plan&) = delete;
    ~spawn_plan() {
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attributes);
    }
    int make(const plumbing& p) noexcept {
        const std::array<int, 3> streams{p.nothing.get(), p.out_write.get(), p.err_write.get()};
        for (int i = 0; i < 3; ++i)
            if (const int e = posix_spawn_file_actions_adddup2(&actions, streams[static_cast<std::size_t>(i)], i))
                return e;
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
        // Our own descriptors are close-on-exec; those of the program that embeds us may not be.
        if (const int e = posix_spawn_file_actions_addclosefrom_np(&actions, 3)) return e;
#endif
        // A session of its own: no terminal to prompt on, and a process group that can be killed as a whole. And no
        // signal stays blocked or ignored because our program blocks or ignores it.
        sigset_t none, all;
        sigemptyset(&none);
        sigfillset(&all);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        return posix_spawnattr_setflags(&attributes,
                                        POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }

    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> all;
    all.reserve(texts.size() + 1);
    for (const auto& t : texts)
        all.push_back(const_cast<char*>(t.c_str())); // NOLINT(cppcoreguidelines-pro-type-const-cast) exec's
    all.push_back(nullptr);
    return all;
}

} // namespace

/// The registration of one waiter. It is destroyed with the waiting coroutine, whether that was resumed or not.
class child_process::seat {
public:
    seat(child_process& run, informer::detail::async_event& wake) : run_(run), wake_(wake) {
        run_.waiting_.push_back(&wake_);
    }
    seat(const seat&) = delete;
    seat& operator=(const seat&) = delete;
    ~seat() {
        std::erase(run_.waiting_, &wake_);
        if (late)
            run_.leave();
        else if (!run_.kept_)
            run_.abandon();
    }
    bool late = false; ///< the waiter's deadline has passed; else it was cancelled, or the run has ended

private:
    child_process& run_;
    informer::detail::async_event& wake_;
};

child_process::child_process(const asio::any_io_executor& executor)
    : out_(executor), err_(executor), process_(executor), late_(executor), executor_(executor) {}

std::shared_ptr<child_process> child_process::start(const asio::any_io_executor& executor, const program& what,
                                                    int& error, std::string& doing) {
    const std::shared_ptr<child_process> run(new child_process(executor));
    error = run->spawn(what, doing);
    if (error != 0) return nullptr;
    run->heard_ = what.heard;
    run->patience_ = what.patience;
    run->limit_ = informer::detail::later(asio::steady_timer::clock_type::now(), what.time_limit);
    run->begin();
    return run;
}

int child_process::spawn(const program& what, std::string& doing) {
    // Check first whether a process can be watched: otherwise nothing is run.
    const descriptor self(open_process(::getpid()));
    if (const int e = self ? 0 : errno) {
        // A sandbox that is older than the system call may forbid it (EPERM), because it does not know it.
        const bool unknown = e == ENOSYS || e == EPERM;
        doing = "watch a process";
        if (unknown) doing = "the system has nothing to watch it by (pidfd_open, of Linux 5.4 and later)";
        return e;
    }
    plumbing pipes;
    doing = "make its pipes";
    if (const int e = pipes.lay()) return e;
    spawn_plan plan;
    if (const int e = plan.make(pipes)) return e;
    const std::vector<char*> arguments = pointers(what.arguments), environment = pointers(what.environment);
    error_code ec;
    out_.from.assign(pipes.out_read.get(), ec);
    if (!ec) pipes.out_read.release();
    if (!ec) err_.from.assign(pipes.err_read.get(), ec);
    if (!ec) pipes.err_read.release();
    if (!ec) out_.from.non_blocking(true, ec);
    if (!ec) err_.from.non_blocking(true, ec);
    if (ec) return ec.value();

    pid_t pid = -1;
    doing.clear();
    if (const int e =
            posix_spawn(&pid, what.path.c_str(), &plan.actions, &plan.attributes, arguments.data(), environment.data()))
        return e;
    pid_ = pid;
    descriptor watched(open_process(pid));
    int failed = watched ? 0 : errno;
    if (watched) {
        process_.assign(watched.get(), ec);
        if (!ec) watched.release();
        failed = ec.value();
    }
    if (failed == ESRCH) { // it ended, and somebody else or the system reaped it
        pid_ = -1;
        return 0;
    }
    if (failed != 0) { // no descriptor left: end it, as it has done nothing yet that is worth waiting for
        doing = "watch the process";
        undo();
    }
    return failed;
}

void child_process::undo() noexcept {
    if (::waitpid(pid_, nullptr, WNOHANG) == 0) {
        ::kill(-pid_, SIGKILL);
        uninterrupted([&] { return ::waitpid(pid_, nullptr, 0); });
    }
    pid_ = -1;
}

void child_process::begin() {
    try {
        if (pid_ < 0) {
            take_all(out_);
            take_all(err_);
            end(ending::exited);
            return;
        }
        await_exit();
        read(out_);
        read(err_);
        watch_time();
    } catch (...) {
        kill_because(ending::broken);
    }
}

void child_process::watch_time() {
    const auto until = forsaken() ? std::min(limit_, informer::detail::later(*left_, patience_)) : limit_;
    late_.expires_at(until);
    late_.async_wait([self = shared_from_this(), until](const error_code& ec) {
        if (ec || self->ended()) return;
        if (until == self->limit_) return self->kill_because(ending::timed_out);
        if (self->forsaken()) return self->kill_because(ending::abandoned);
        try {
            self->watch_time();
        } catch (...) {
            self->kill_because(ending::broken);
        }
    });
}

void child_process::leave() noexcept {
    if (!waiting_.empty() || ended()) return;
    left_ = asio::steady_timer::clock_type::now();
    try {
        watch_time();
    } catch (...) {
        kill_because(ending::broken);
    }
}

/// Waits until data is there, then reads it. This is no asynchronous read into a buffer: another thread could have
/// completed such a read already, and its bytes would be handled after those that are taken at the end of the run.
void child_process::read(stream& s) {
    s.from.async_wait(asio::posix::stream_descriptor::wait_read, [self = shared_from_this(), &s](const error_code& ec) {
        if (ec || self->ended()) return;
        try {
            self->take_all(s);
            if (!self->ended() && s.from.is_open()) self->read(s);
        } catch (...) {
            self->kill_because(ending::broken);
        }
    });
}

/// Reads what is there, but no more than a pipe can hold: the writer may go on for ever.
void child_process::take_all(stream& s) {
    std::array<char, std::size_t(16) << 10> block;
    for (std::size_t taken = 0; taken < most_output && !ended() && s.from.is_open();) {
        error_code ec;
        const std::size_t n = s.from.read_some(asio::buffer(block), ec);
        if (ec == asio::error::would_block || ec == asio::error::try_again) return;
        if (ec || n == 0) { // end of the stream
            s.from.close(ec);
            return;
        }
        collect(s, block.data(), n);
        taken += n;
    }
}

void child_process::collect(stream& s, const char* bytes, std::size_t n) {
    if (&s == &err_) {
        hear(std::string_view(bytes, n));
        complain(std::string_view(bytes, n));
        return;
    }
    s.text.append(bytes, n);
    if (s.text.size() > most_output) kill_because(ending::too_much);
}

/// Keeps whole lines only: the rest of a line that was cut may be half a secret, which nothing would recognize as one.
void child_process::complain(std::string_view more) {
    if (cut_) {
        const std::size_t end = more.find('\n');
        if (end == std::string_view::npos) return;
        more.remove_prefix(end + 1);
        cut_ = false;
    }
    err_.text.append(more);
    if (err_.text.size() <= most_complaint) return;
    const std::size_t end = err_.text.find('\n', err_.text.size() - most_complaint);
    cut_ = end == std::string::npos;
    err_.text.erase(0, cut_ ? err_.text.size() : end + 1);
}

void child_process::hear(std::string_view bytes) noexcept {
    try {
        if (heard_) heard_(bytes);
    } catch (...) { // NOLINT(bugprone-empty-catch) no memory: it is said to nobody
    }
}

void child_process::await_exit() {
    process_.async_wait(asio::posix::stream_descriptor::wait_read, [self = shared_from_this()](const error_code& ec) {
        if (ec) return;
        try {
            if (!self->ended()) { // all that it wrote before its end can be read now
                self->take_all(self->out_);
                self->take_all(self->err_);
            }
            if (!self->reap()) self->await_exit();
        } catch (...) {
            self->kill_because(ending::broken);
        }
    });
}

/// False: it still runs.
bool child_process::reap() noexcept {
    if (pid_ < 0) return true;
    siginfo_t about{};
    const int r = uninterrupted([&] {
        return ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(process_.native_handle()), &about,
                        WEXITED | WNOHANG);
    });
    if (r == 0 && about.si_pid == 0) return false;
    pid_ = -1;
    error_code ignored;
    process_.close(ignored);
    if (ended()) return true;
    // If somebody else reaps every child of the program, or SIGCHLD is ignored, there is no exit status: only the
    // output shows how the run ended.
    code_ = r == 0 ? about.si_status : 0;
    end(r != 0 || about.si_code == CLD_EXITED ? ending::exited : ending::signalled);
    return true;
}

/// Kills only while the process is not reaped: after that its number may belong to another one.
void child_process::kill_group() noexcept {
    if (pid_ < 0) return;
    siginfo_t about{};
    const int there = ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(process_.native_handle()), &about,
                               WEXITED | WNOHANG | WNOWAIT);
    if (there == 0) ::kill(-pid_, SIGKILL);
}

void child_process::kill_because(ending how) noexcept {
    kill_group(); // and await_exit() reaps it
    end(how);
}

void child_process::abandon() noexcept {
    if (waiting_.empty() && !ended()) kill_because(ending::abandoned);
}

void child_process::end(ending how) noexcept {
    if (ended()) return;
    how_ = how;
    error_code ignored;
    out_.from.close(ignored);
    err_.from.close(ignored);
    late_.cancel();
    if (how != ending::abandoned) hear({});
    for (auto* w : waiting_) {
        try {
            w->notify();
        } catch (...) { // NOLINT(bugprone-empty-catch) no memory: with the next who is woken
        }
    }
    const auto told = std::exchange(told_, nullptr);
    if (!told || how == ending::abandoned) return;
    try {
        told(*this);
    } catch (...) { // NOLINT(bugprone-empty-catch) no memory: it is as if it had not been run
    }
}

child_process::~child_process() {
    if (pid_ < 0) return;
    if (!process_.is_open()) { // there was no memory to watch the process
        undo();
        return;
    }
    // No handler will reap the process: the execution context is gone, or there was no memory for one.
    kill_group();
    pollfd gone{process_.native_handle(), POLLIN, 0};
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    while (::poll(&gone, 1, 1000) < 0 && errno == EINTR && std::chrono::steady_clock::now() < patience) {
    } // a killed process ends at once, unless the system itself is stuck
    siginfo_t about{};
    ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(process_.native_handle()), &about, WEXITED | WNOHANG);
}

asio::awaitable<bool> child_process::wait(std::shared_ptr<child_process> run, clock* c,
                                          std::optional<clock::time_point> deadline) {
    if (run->ended()) co_return true;
    informer::detail::async_event wake(run->executor_);
    seat here(*run, wake);
    if (deadline) {
        co_await wake.wait_until(*c, *deadline);
        const bool asked = co_await informer::detail::cancelled();
        here.late = !asked;
    } else {
        co_await wake.wait();
    }
    co_return run->ended();
}

} // namespace informer::kubernetes::detail
