// Child processes in tests: started, read line by line, signalled, always reaped.
#pragma once

#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace informer::testing {

/// *Lifetime*: the destructor kills and reaps. Environment: that of the caller without KUBECONFIG, HOME, proxies and
/// ETCDCTL_… (tests only use servers on loopback), plus the given `NAME=value`.
class process {
    using clock = std::chrono::steady_clock;

public:
    explicit process(std::vector<std::string> command, std::vector<std::string> environment = {}) {
        int out[2], err[2], in[2];
        if (::pipe2(out, O_CLOEXEC) || ::pipe2(err, O_CLOEXEC) || ::pipe2(in, O_CLOEXEC))
            throw std::runtime_error("pipe");
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, in[0], 0);
        posix_spawn_file_actions_adddup2(&actions, out[1], 1);
        posix_spawn_file_actions_adddup2(&actions, err[1], 2);
        std::vector<char*> argv, envp;
        for (auto& a : command) argv.push_back(a.data());
        argv.push_back(nullptr);
        std::map<std::string, std::string> variables;
        const auto set = [&](std::string v) {
            auto name = v.substr(0, v.find('='));
            variables[std::move(name)] = std::move(v);
        };
        for (char** e = environ; *e; ++e) set(*e);
        for (const char* name :
             {"KUBECONFIG", "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"})
            variables.erase(name);
        std::erase_if(variables, [](const auto& v) { return v.first.starts_with("ETCDCTL_"); });
        set("HOME=/nonexistent"); // no ambient ~/.kube/config
        for (auto& e : environment) set(std::move(e));
        for (auto& v : variables) envp.push_back(v.second.data());
        envp.push_back(nullptr);
        const int failed = ::posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), envp.data());
        posix_spawn_file_actions_destroy(&actions);
        ::close(out[1]);
        ::close(err[1]);
        ::close(in[0]);
        ::close(in[1]);
        out_ = out[0];
        err_ = err[0];
        if (failed) {
            ::close(out_);
            ::close(err_);
            throw std::runtime_error("cannot start " + command[0] + ": " + std::strerror(failed));
        }
    }
    process(const process&) = delete;
    process& operator=(const process&) = delete;
    ~process() {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            reap(clock::now() + std::chrono::seconds(10));
        }
        close_out();
        ::close(err_);
    }

    /// The next line of stdout; nullopt at its end or when none comes in time.
    std::optional<std::string> line(std::chrono::milliseconds patience = std::chrono::seconds(20)) {
        const auto until = clock::now() + patience;
        for (;;) {
            if (const auto nl = out_text_.find('\n'); nl != std::string::npos) {
                auto l = out_text_.substr(0, nl);
                out_text_.erase(0, nl + 1);
                return l;
            }
            if (!pump(until)) return std::nullopt;
        }
    }
    /// Reads lines until `wanted` holds for one; nullopt when there is none in time.
    std::optional<std::string> line_where(const std::function<bool(const std::string&)>& wanted,
                                          std::chrono::milliseconds patience = std::chrono::seconds(20)) {
        const auto until = clock::now() + patience;
        while (clock::now() < until) {
            auto l = line(std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now()));
            if (!l || wanted(*l)) return l;
        }
        return std::nullopt;
    }
    /// Waits until stderr holds `part`.
    bool error_holds(std::string_view part, std::chrono::milliseconds patience = std::chrono::seconds(20)) {
        const auto until = clock::now() + patience;
        while (err_text_.find(part) == std::string::npos)
            if (!pump(until)) return err_text_.find(part) != std::string::npos;
        return true;
    }
    void signal(int s) { ::kill(pid_, s); }
    bool running() {
        if (pid_ <= 0) return false;
        int status = 0;
        const auto r = ::waitpid(pid_, &status, WNOHANG);
        if (r == pid_) finish(status);
        return pid_ > 0;
    }
    /// Stops reading stdout: the child gets EPIPE.
    void close_out() {
        if (out_ >= 0) ::close(out_);
        out_ = -1;
    }
    /// Reads everything and waits for the end; returns the exit code, 128 + signal, or -1 when it does not end in time.
    int wait(std::chrono::milliseconds patience = std::chrono::seconds(30)) {
        const auto until = clock::now() + patience;
        while (pump(until)) {
        }
        return reap(until);
    }
    const std::string& out() const { return out_text_; }
    const std::string& err() const { return err_text_; }
    pid_t pid() const { return pid_; }
    /// The descriptor of stdout, for callers that do not read it with `line()`.
    int out_descriptor() const { return out_; }

private:
    // Reads the available output; false when both streams have ended or time is up.
    bool pump(clock::time_point until) {
        pollfd fds[2] = {{out_ended_ ? -1 : out_, POLLIN, 0}, {err_ended_ ? -1 : err_, POLLIN, 0}};
        if ((out_ended_ || out_ < 0) && err_ended_) return false;
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now()).count();
        if (left <= 0 || ::poll(fds, 2, static_cast<int>(left)) <= 0) return false;
        char buffer[65536];
        const auto take = [&](pollfd& p, std::string& text, bool& ended) {
            if (!(p.revents & (POLLIN | POLLHUP | POLLERR))) return;
            const auto n = ::read(p.fd, buffer, sizeof buffer);
            if (n > 0)
                text.append(buffer, static_cast<std::size_t>(n));
            else
                ended = true;
        };
        take(fds[0], out_text_, out_ended_);
        take(fds[1], err_text_, err_ended_);
        return true;
    }
    void finish(int status) {
        code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        pid_ = -1;
    }
    int reap(clock::time_point until) {
        while (pid_ > 0) {
            if (!running()) break;
            if (clock::now() > until) return -1;
            ::poll(nullptr, 0, 2); // nothing here signals the end of a child; the wait is short and bounded
        }
        return code_;
    }

    pid_t pid_ = -1;
    int out_ = -1, err_ = -1, code_ = -1;
    bool out_ended_ = false, err_ended_ = false;
    std::string out_text_, err_text_;
};

} // namespace informer::testing
