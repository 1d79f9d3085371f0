// A client whose credentials come from shell scripts, on the scripted server.
#pragma once

#include "bench.hpp"
#include "support/system_calls.hpp"
#include "support/temporary_folder.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <list>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kubernetes_test {

using informer::testing::temporary_folder;

inline bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// This process has no child left, not even an unreaped one.
inline bool childless() {
    return ::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD;
}

inline std::size_t descriptors() {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
    return n;
}

/// The process is gone, or dead and waiting to be reaped by another process.
inline bool dead(const std::string& pid) {
    std::ifstream file("/proc/" + pid + "/stat");
    std::string number, name, state;
    return !(file >> number >> name >> state) || state == "Z" || state == "X";
}

/// The folder of a plugin: what it answers, what it leaves behind, and the pipe by which a test lets it go on.
class plugin_folder {
public:
    plugin_folder() {
        informer::testing::need_pidfd_open();
        REQUIRE(::mkfifo(path("go").c_str(), 0600) == 0);
        gate_ = ::open(path("go").c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
        REQUIRE(gate_ >= 0);
    }
    ~plugin_folder() { ::close(gate_); }
    plugin_folder(const plugin_folder&) = delete;
    plugin_folder& operator=(const plugin_folder&) = delete;

    std::string path(const std::string& name) const { return folder_.path(name); }
    std::string write(const std::string& name, const std::string& text) const { return folder_.write(name, text); }
    /// Writes a program in which `$D` is this folder. Each run first notes its process id in `runs`; `body` follows.
    std::string script(const std::string& body, const std::string& name = "plugin") const {
        const std::string file = write(name, "#!/bin/sh\nD=" + path("") + "\necho $$ >> $D/runs\n" + body + "\n");
        REQUIRE(::chmod(file.c_str(), 0700) == 0);
        return file;
    }
    std::string read(const std::string& name) const {
        std::ifstream file(path(name));
        std::stringstream all;
        all << file.rdbuf();
        return all.str();
    }
    std::vector<std::string> lines(const std::string& name) const {
        std::ifstream file(path(name));
        std::vector<std::string> all;
        for (std::string line; std::getline(file, line);) all.push_back(line);
        return all;
    }
    std::size_t runs() const { return lines("runs").size(); }
    /// Lets a program go on that waits in `read x < $D/go`.
    void go() const { REQUIRE(::write(gate_, "\n", 1) == 1); }
    /// Sets what `cat $D/answer` prints.
    void answer(const std::string& status) const {
        write("answer",
              R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":)" + status + "}");
    }
    void answer_token(const std::string& token, const std::string& expires = "") const {
        answer(R"({"token":")" + token + "\"" +
               (expires.empty() ? "" : R"(,"expirationTimestamp":")" + expires + "\"") + "}");
    }

private:
    temporary_folder folder_;
    int gate_ = -1;
};

inline const std::string answers_at_once = "cat $D/answer", answers_later = "read x < $D/go; cat $D/answer",
                         at_once_then_later = "[ $(wc -l < $D/runs) = 1 ] || read x < $D/go; cat $D/answer";

/// Each scene checks at its end that no run has left a child or work behind.
class exec_scene {
public:
    explicit exec_scene(const std::string& body = answers_at_once,
                        std::function<void(kubernetes::exec_plugin&)> change = {},
                        http::server_options serving = http::server_options(),
                        http::tls_options tls = http::tls_options())
        : b(config_of(dir.script(body), change, std::move(tls)), std::move(serving)) {
        dir.answer_token("t1");
    }
    ~exec_scene() {
        b.api.reset();
        if (testing::leaving_failed()) return;
        try {
            testing::run_test(b.io, b.server->stop()); // says where work is left
            CHECK(b.io.stopped());
            CHECK(childless());
        } catch (...) {
            CHECK(std::string("the scene did not end").empty());
        }
    }
    exec_scene(const exec_scene&) = delete;
    exec_scene& operator=(const exec_scene&) = delete;

    /// A request for a pod.
    class request {
    public:
        failure f;
        bool done = false;
        asio::cancellation_signal cancel;
    };
    request& start() {
        request& r = requests.emplace_back();
        const auto done = [&r](std::exception_ptr e, const object&) {
            CHECK_FALSE(e);
            r.done = true;
        };
        asio::co_spawn(b.io, b.api->get(pods(), object_key("default", "a"), r.f),
                       asio::bind_cancellation_slot(r.cancel.slot(), done));
        return r;
    }
    void wait(const request& r) {
        b.until([&r] { return r.done; });
    }
    /// Runs until the plugin has given the client `n` credentials.
    void given(std::size_t n) {
        b.until([&] { return b.log.count("gave a credential") >= n; });
    }
    /// Makes a request, which the server answers with `code`, 200 or 401; returns the request's failure.
    failure get(int code = 200) {
        prepare(code);
        request& r = start();
        wait(r);
        b.answers->next.clear();
        return r.f;
    }
    void prepare(int code = 200) {
        if (code == 200)
            b.answers->next.emplace_back(pod("a"));
        else
            b.answers->next.emplace_back(code, status(code, "Unauthorized", "Unauthorized"));
    }
    /// The Authorization header of the last request.
    std::string who() const { return std::string(b.answers->requests.back().header("Authorization")); }
    /// Whether the log or an error holds `secret`, which they must not.
    bool told(const std::string& secret) const {
        if (b.log.contains(secret)) return true;
        return std::any_of(requests.begin(), requests.end(), [&](const request& r) { return has(r.f.what(), secret); });
    }

    plugin_folder dir;
    std::list<request> requests;
    bench b;

private:
    static client_config config_of(const std::string& command,
                                   const std::function<void(kubernetes::exec_plugin&)>& change, http::tls_options tls) {
        client_config c;
        c.tls = std::move(tls);
        c.credentials.exec.command = command;
        c.time_limit = std::chrono::milliseconds(0);
        if (change) change(c.credentials.exec);
        return c;
    }
};

/// Changes a plugin: sets how long it may run.
inline const auto limit = [](std::chrono::milliseconds d) {
    return [d](kubernetes::exec_plugin& p) { p.time_limit = d; };
};

/// Makes one request with such a plugin; returns what the error says after the plugin's name.
inline std::string complaint_of(const std::string& body,
                                const std::function<void(kubernetes::exec_plugin&)>& change = {}) {
    exec_scene s(body, change);
    const std::string command = s.b.config.credentials.exec.command;
    const failure f = s.get();
    CHECK(f == errc::exec_plugin_failed);
    const std::string text = f.what(), head = "get pods default/a: exec plugin \"" + command + "\" ",
                      tail = ": no credential";
    INFO(text);
    REQUIRE(text.starts_with(head));
    REQUIRE(text.ends_with(tail));
    CHECK(text.find('\n') == std::string::npos);
    return text.substr(head.size(), text.size() - head.size() - tail.size());
}

inline std::string answering(const std::string& text) {
    return "printf %s '" + text + "'";
}

} // namespace kubernetes_test
