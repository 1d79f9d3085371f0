// A real etcd, if there is one: INFORMER_ETCD, `etcd` on the PATH, or the one that `./dev apiserver` built. And an
// informer that follows it.
#pragma once

#include "support/process.hpp"
#include "support/temporary_folder.hpp"

#include "root/base64.hpp"

#include <informer/cache/shared_informer.hpp>
#include <informer/etcd/list_watch.hpp>
#include <informer/http/client.hpp>
#include <informer/task_group.hpp>
#include <informer/testing/certificates.hpp>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>

namespace informer::conformance {

inline std::string b64(std::string_view s) {
    return informer::detail::base64_encode(s);
}

/// The path of etcd; empty when there is none.
inline std::string etcd_program() {
    const auto is_program = [](const std::filesystem::path& p) { return ::access(p.c_str(), X_OK) == 0; };
    if (const char* named = std::getenv("INFORMER_ETCD")) return named;
    if (const char* path = std::getenv("PATH")) {
        for (std::string_view rest = path; !rest.empty();) {
            const auto end = std::min(rest.find(':'), rest.size());
            const auto candidate = std::filesystem::path(rest.substr(0, end)) / "etcd";
            if (is_program(candidate)) return candidate.string();
            rest.remove_prefix(std::min(end + 1, rest.size()));
        }
    }
    const char* const cache = std::getenv("XDG_CACHE_HOME");
    const char* const home = std::getenv("HOME");
    const auto folder =
        std::filesystem::path(cache ? cache : std::string(home ? home : "/nonexistent") + "/.cache") / "libinformer";
    std::error_code ec;
    std::vector<std::string> found;
    for (const auto& one : std::filesystem::directory_iterator(folder, ec))
        if (is_program(one.path() / "etcd")) found.push_back((one.path() / "etcd").string());
    std::sort(found.begin(), found.end());
    return found.empty() ? std::string() : found.back();
}

/// One etcd member on free loopback ports.
class real_etcd {
public:
    explicit real_etcd(asio::io_context& context, std::string name = "default",
                       const testing::certificate_authority* ca = nullptr)
        : name_(std::move(name)), program_(etcd_program()), runtime_(context.get_executor()), tls_(ca != nullptr) {
        if (program_.empty()) {
            static const bool told [[maybe_unused]] =
                std::puts("notice: no etcd on the PATH, and ./dev apiserver has built none: the cases with a real one "
                          "are skipped") != 0;
            SKIP("no etcd");
        }
        port_ = hold_port(context);
        peer_ = hold_port(context);
        http::tls_options trust;
        if (ca != nullptr) {
            const testing::key_pair own = ca->server({"127.0.0.1"});
            certificate_ = folder_.write("server.crt", own.certificate_pem);
            key_ = folder_.write("server.key", own.key_pem);
            trust.ca(ca->certificate_pem());
        }
        failure f;
        const auto to = http::endpoint::parse(url(), f);
        throw_on(f);
        http_ = std::make_unique<http::client>(runtime_, to, http::client_options().tls(trust), f);
        throw_on(f);
    }
    std::string url() const { return (tls_ ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(port_); }
    /// The member as `--initial-cluster` names it.
    std::string as_peer() const { return name_ + "=" + peer_url(); }
    const runtime& rt() const { return runtime_; }

    /// The variable that says how often etcd tells a watch its progress. The old name is refused from 3.7 on, the new one
    /// is not known before 3.6, and 3.6 refuses both at once.
    std::string progress_every_second() const {
        testing::process version({program_, "--version"});
        version.wait();
        const std::string mark = "Version: 3.";
        const auto at = version.out().find(mark);
        const bool old = at != std::string::npos && std::atoi(version.out().c_str() + at + mark.size()) < 6;
        return std::string(old ? "ETCD_EXPERIMENTAL_" : "ETCD_") + "WATCH_PROGRESS_NOTIFY_INTERVAL=1s";
    }

    /// `peers`: all members, including this one; "" for a single member.
    void launch(const std::string& peers = "") {
        std::vector<std::string> command{program_, "--name", name_, "--data-dir", folder_.path("data")};
        for (const auto& [flag, value] :
             std::vector<std::pair<std::string, std::string>>{{"--listen-client-urls", url()},
                                                              {"--advertise-client-urls", url()},
                                                              {"--listen-peer-urls", peer_url()},
                                                              {"--initial-advertise-peer-urls", peer_url()},
                                                              {"--initial-cluster", peers.empty() ? as_peer() : peers},
                                                              {"--log-level", "error"}}) {
            command.push_back(flag);
            command.push_back(value);
        }
        command.emplace_back("--unsafe-no-fsync");
        held_.clear();
        if (tls_) {
            command.push_back("--cert-file=" + certificate_);
            command.push_back("--key-file=" + key_);
        }
        process_.emplace(std::move(command), std::vector<std::string>{progress_every_second()});
    }
    static asio::awaitable<void> until_it_answers(real_etcd* e) {
        const auto executor = co_await asio::this_coro::executor;
        asio::steady_timer timer(executor);
        failure f;
        for (int i = 0; i < 300; ++i) {
            const std::string answer = co_await post(e, "/v3/kv/range", "{\"key\":\"YQ==\"}", &f);
            if (!f && answer.find("revision") != std::string::npos) co_return;
            timer.expires_after(std::chrono::milliseconds(50));
            co_await timer.async_wait(asio::use_awaitable);
        }
        const int code = e->process_->wait(std::chrono::milliseconds(100)); // also reads its output
        FAIL("etcd did not start: " << f.what() << "; "
                                    << (code < 0 ? "it runs" : "it ended with " + std::to_string(code)) << ": "
                                    << e->process_->err());
    }
    static asio::awaitable<void> start(real_etcd* e) {
        e->launch();
        return until_it_answers(e);
    }
    void kill() { process_.reset(); }

    /// The body of the answer. A status other than 200 fails the test; if `said` is given, it gets the failure instead.
    static asio::awaitable<std::string> post(real_etcd* e, std::string path, std::string body,
                                             failure* said = nullptr) {
        http::request r("POST", std::move(path));
        r.body(std::move(body), "application/json");
        if (!e->token.empty()) r.header("Authorization", e->token);
        failure f;
        http::response answer = co_await e->http_->send(std::move(r), f);
        std::string text;
        if (!f) text = co_await answer.read_all(std::size_t(64) << 20, f);
        if (!f && answer.status() != 200) f = failure(errc::unexpected_status, text);
        if (said)
            *said = f;
        else if (f)
            FAIL("etcd: " << f.what());
        co_return text;
    }
    /// Returns the revision of the change.
    static asio::awaitable<std::string> change(real_etcd* e, std::string path, std::string body) {
        const std::string text = co_await post(e, std::move(path), std::move(body));
        co_return std::string(boost::json::parse(text).at("header").at("revision").as_string());
    }
    static std::string put_of(const std::string& key, const std::string& value) {
        return R"({"key":")" + b64(key) + R"(","value":")" + b64(value) + "\"}";
    }
    static asio::awaitable<std::string> put(real_etcd* e, std::string key, std::string value) {
        std::string body = put_of(key, value);
        return change(e, "/v3/kv/put", std::move(body));
    }
    static asio::awaitable<std::string> remove(real_etcd* e, std::string key) {
        std::string body = R"({"key":")" + b64(key) + "\"}";
        return change(e, "/v3/kv/deleterange", std::move(body));
    }
    std::string token;

private:
    /// A free port. A bound socket keeps it for this member until its launch; members that are launched before do not
    /// inherit the socket.
    std::uint16_t hold_port(asio::io_context& context) {
        auto& bound = held_.emplace_back(context, asio::ip::tcp::v4());
        ::fcntl(bound.native_handle(), F_SETFD, FD_CLOEXEC);
        bound.bind(asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0));
        return bound.local_endpoint().port();
    }

    std::string peer_url() const { return "http://127.0.0.1:" + std::to_string(peer_); }

    testing::temporary_folder folder_;
    std::string name_, program_, certificate_, key_;
    runtime runtime_;
    bool tls_ = false;
    std::vector<asio::ip::tcp::acceptor> held_;
    std::uint16_t port_ = 0, peer_ = 0;
    std::unique_ptr<http::client> http_;
    std::optional<testing::process> process_;
};

/// An informer on etcd, and the events that a subscriber got.
class follower {
public:
    follower(real_etcd& e, etcd::mapping m, informer_options o = informer_options(), etcd::config c = etcd::config())
        : group_(e.rt().executor()) {
        if (c.endpoints_.empty()) c.endpoint(e.url());
        informer.emplace(e.rt(), etcd::make_list_watch(e.rt(), std::move(c), std::move(m)), std::move(o));
        group_.spawn(informer->run());
        group_.spawn(hear(this, informer->subscribe()));
    }
    static asio::awaitable<void> stop(follower* f) {
        f->informer->stop();
        co_await f->group_.join();
    }
    std::optional<shared_informer> informer;
    std::vector<std::string> told;

private:
    static asio::awaitable<void> hear(follower* f, subscription events) {
        for (;;) {
            const auto e = co_await events.next();
            if (!e) co_return;
            f->told.push_back(std::string(to_string(e->kind)) + " " + e->key().str());
        }
    }
    task_group group_;
};

} // namespace informer::conformance
