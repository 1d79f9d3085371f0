// A server with plain discovery that answers lists and watches as a test wants.
#pragma once

#include <sys/socket.h>

#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace programs {

/// Blocking sockets on a thread of its own, one answer per connection; bodies end with the connection.
class plain_server {
public:
    struct script {
        std::string list; ///< body of each list
        std::string list_status = "200 OK";
        std::string watch_list_status = "400 Bad Request"; ///< answer to a watch with sendInitialEvents
        std::string silent;                                ///< requests that contain this are never answered
        std::string watch;                                 ///< body of the first watch; it stays open, as later ones do
        std::map<std::string, std::string> documents;      ///< bodies by path and query
    };

    explicit plain_server(script s) : script_(std::move(s)) {
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in a{};
        a.sin_family = AF_INET;
        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof a;
        auto* const address = reinterpret_cast<sockaddr*>(&a);
        if (::bind(listener_, address, size) != 0 || ::listen(listener_, 16) != 0 ||
            ::getsockname(listener_, address, &size) != 0)
            throw std::runtime_error("plain_server: no port");
        url = "http://127.0.0.1:" + std::to_string(ntohs(a.sin_port));
        thread_ = std::thread([this] { serve(); });
    }
    plain_server(const plain_server&) = delete;
    plain_server& operator=(const plain_server&) = delete;
    ~plain_server() {
        ending_ = true;
        thread_.join();
        for (const int fd : open_) ::close(fd);
        ::close(listener_);
    }
    std::vector<std::string> requests() const {
        const std::lock_guard lock(mutex_);
        return requests_;
    }

    std::string url;

private:
    void serve() {
        while (!ending_) {
            pollfd p{listener_, POLLIN, 0};
            if (::poll(&p, 1, 20) <= 0) continue;
            const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
            if (fd < 0) continue;
            std::string head;
            char buffer[4096];
            while (head.find("\r\n\r\n") == std::string::npos) {
                pollfd readable{fd, POLLIN, 0};
                if (::poll(&readable, 1, 5000) <= 0) break;
                const auto n = ::read(fd, buffer, sizeof buffer);
                if (n <= 0) break;
                head.append(buffer, static_cast<std::size_t>(n));
            }
            answer(fd, head.substr(0, head.find("\r\n")));
        }
    }
    void answer(int fd, const std::string& request) {
        {
            const std::lock_guard lock(mutex_);
            requests_.push_back(request);
        }
        const auto holds = [&](const char* s) { return request.find(s) != std::string::npos; };
        if (!script_.silent.empty() && holds(script_.silent.c_str())) {
            open_.push_back(fd);
            return;
        }
        const std::size_t path = request.find(' ') + 1;
        if (const auto d = script_.documents.find(request.substr(path, request.rfind(' ') - path));
            d != script_.documents.end())
            say(fd, "200 OK", d->second);
        else if (holds("sendInitialEvents"))
            say(fd, script_.watch_list_status, "{}");
        else if (holds("watch=true")) {
            say(fd, "200 OK", std::exchange(script_.watch, {}));
            open_.push_back(fd);
            return;
        } else if (holds("/configmaps"))
            say(fd, script_.list_status, script_.list);
        else if (holds(" /api/v1 "))
            say(fd, "200 OK", R"({"kind":"APIResourceList","groupVersion":"v1","resources":[
            {"name":"configmaps","singularName":"","namespaced":true,"kind":"ConfigMap","verbs":["list","watch"],"shortNames":["cm"]}]})");
        else if (holds(" /apis "))
            say(fd, "200 OK", R"({"kind":"APIGroupList","apiVersion":"v1","groups":[]})");
        else
            say(fd, "200 OK", R"({"kind":"APIVersions","versions":["v1"]})");
        ::close(fd);
    }
    static void say(int fd, const std::string& status, const std::string& body) {
        const std::string all =
            "HTTP/1.1 " + status + "\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + body;
        std::size_t done = 0;
        while (done < all.size()) {
            const auto n = ::send(fd, all.data() + done, all.size() - done, MSG_NOSIGNAL);
            if (n <= 0) return;
            done += static_cast<std::size_t>(n);
        }
    }

    script script_;
    int listener_ = -1;
    std::atomic<bool> ending_{false};
    mutable std::mutex mutex_;
    std::vector<std::string> requests_;
    std::vector<int> open_;
    std::thread thread_;
};

inline std::string config_map(const std::string& name, const std::string& version) {
    return R"({"metadata":{"name":")" + name + R"(","namespace":"d","resourceVersion":")" + version + R"("}})";
}
inline std::string config_map_list(const std::string& items, const std::string& more_metadata = {}) {
    return R"({"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"100")" + more_metadata +
           R"(},"items":[)" + items + "]}";
}

} // namespace programs
