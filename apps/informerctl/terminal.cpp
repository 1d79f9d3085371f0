#include "terminal.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace informerctl {
namespace {

constexpr std::size_t enough = std::size_t(64) << 10; // for a write

volatile std::sig_atomic_t got_signal = 0;
int self_pipe[2] = {-1, -1};

void on_signal(int signal) {
    const int saved = errno;
    got_signal = signal;
    [[maybe_unused]] const auto n = ::write(self_pipe[1], "s", 1);
    errno = saved;
}

double seconds(clockid_t which) {
    timespec t{};
    clock_gettime(which, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double seconds(const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

} // namespace

void install_signals() {
    if (::pipe2(self_pipe, O_CLOEXEC | O_NONBLOCK) != 0) return;
    struct sigaction act {};
    act.sa_handler = on_signal; // no SA_RESTART: a blocked write returns
    sigemptyset(&act.sa_mask);
    sigaction(SIGINT, &act, nullptr);
    sigaction(SIGTERM, &act, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
}

int signalled() noexcept {
    return got_signal;
}
int signal_descriptor() noexcept {
    return self_pipe[0];
}

int reader_gone_descriptor() noexcept {
    struct stat kind {};
    if (::fstat(STDOUT_FILENO, &kind) != 0 || !S_ISFIFO(kind.st_mode)) return -1;
    const int fd = ::epoll_create1(EPOLL_CLOEXEC);
    epoll_event errors_only{};
    if (fd != -1 && ::epoll_ctl(fd, EPOLL_CTL_ADD, STDOUT_FILENO, &errors_only) == 0) return fd;
    if (fd != -1) ::close(fd);
    return -1;
}

output::output() {
    buffer_.reserve(enough);
}

bool output::flush() {
    std::size_t done = 0;
    // After a signal a reader that does not read any more gets one more second.
    double patience = 0;
    while (!closed_ && done < buffer_.size()) {
        pollfd fds[2] = {{STDOUT_FILENO, POLLOUT, 0}, {self_pipe[0], POLLIN, 0}};
        const bool stopping = signalled() != 0;
        const int ready = ::poll(fds, stopping ? 1 : 2, stopping ? 100 : -1);
        if (ready < 0 && errno != EINTR) break;
        if (fds[0].revents & (POLLERR | POLLNVAL)) {
            closed_ = true;
            if (fds[0].revents & POLLNVAL) error_ = EBADF;
            break;
        }
        if (ready <= 0 || !(fds[0].revents & (POLLOUT | POLLHUP))) {
            if (stopping && (patience += 0.1) > 1.0) break;
            continue;
        }
        // A pipe reports room for PIPE_BUF at least; larger writes would block past the signal.
        const auto n =
            ::write(STDOUT_FILENO, buffer_.data() + done, std::min<std::size_t>(buffer_.size() - done, 4096));
        if (n > 0)
            done += static_cast<std::size_t>(n);
        else if (n < 0 && errno != EINTR && errno != EAGAIN) {
            closed_ = true;
            if (errno != EPIPE && errno != ECONNRESET) error_ = errno;
        }
    }
    buffer_.clear();
    return !closed_;
}

bool output::go_on() {
    if (buffer_.size() >= enough) flush();
    return !closed_ && signalled() == 0;
}

std::string visible(std::string_view text) {
    const auto hex = [](unsigned char c) {
        static constexpr char digits[] = "0123456789abcdef";
        return std::string("\\x") + digits[c >> 4] + digits[c & 15];
    };
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto c = static_cast<unsigned char>(text[i]);
        const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
        if (c == '\n')
            out += "\\n";
        else if (c < 0x20 || c == 0x7f)
            out += hex(c);
        else if (c == 0xc2 && next >= 0x80 && next < 0xa0) { // U+0080 to U+009F
            out += hex(next);
            ++i;
        } else
            out += text[i];
    }
    return out;
}

progress::progress(std::string what)
    : what_(std::move(what)), started_(seconds(CLOCK_MONOTONIC)), terminal_(::isatty(STDERR_FILENO) == 1) {}

progress::~progress() {
    clear();
}

void progress::show(std::uint64_t done, std::uint64_t total, std::string_view unit) {
    if (!terminal_) return;
    const double now = seconds(CLOCK_MONOTONIC);
    if (now - started_ < 2 || now - last_ < 0.1) return;
    last_ = now;
    drawn_ = true;
    std::string bar;
    if (total) {
        const auto filled = static_cast<std::size_t>(30 * std::min(done, total) / total);
        bar = " [" + std::string(filled, '#') + std::string(30 - filled, ' ') + "]";
    }
    std::fprintf(stderr, "\r\x1b[K%s%s %llu%s%s %.*s, %.0f s", what_.c_str(), bar.c_str(),
                 static_cast<unsigned long long>(done), total ? " of " : "", total ? std::to_string(total).c_str() : "",
                 static_cast<int>(unit.size()), unit.data(), now - started_);
    std::fflush(stderr);
}

void progress::clear() {
    if (!drawn_) return;
    std::fputs("\r\x1b[K", stderr);
    std::fflush(stderr);
    drawn_ = false;
}

process_figures measure_process() {
    process_figures p;
    static const double started = seconds(CLOCK_MONOTONIC);
    p.wall_s = seconds(CLOCK_MONOTONIC) - started;
    rusage u{};
    getrusage(RUSAGE_SELF, &u);
    p.user_s = seconds(u.ru_utime);
    p.sys_s = seconds(u.ru_stime);
    if (FILE* f = std::fopen("/proc/self/statm", "r")) {
        unsigned long long size = 0, resident = 0;
        if (std::fscanf(f, "%llu %llu", &size, &resident) == 2)
            p.rss_mb = static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
        std::fclose(f);
    }
    // The kernel counts the peak less exactly, and notes it only now and then.
    p.peak_rss_mb = std::max(static_cast<double>(u.ru_maxrss) * 1024 / 1e6, p.rss_mb);
    return p;
}

} // namespace informerctl
