// A scripted HTTP server and a client on one io_context, driven step by step from synchronous tests.
#pragma once

#include <informer/http/server/server.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/testing/manual_clock.hpp>

#include "support/drive.hpp"
#include "support/log_capture.hpp"
#include "support/object_recorder.hpp"
#include "support/run.hpp"

#include <boost/asio/io_context.hpp>

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kubernetes_test {

namespace asio = boost::asio;
using namespace informer;
using informer::kubernetes::client;
using informer::kubernetes::client_config;

/// One answer.
struct reply {
    enum ending { complete, cut, stall };

    reply() {}
    explicit reply(std::string body_) : chunks{std::move(body_)} {}
    reply(int status_, std::string body_) : status(status_), chunks{std::move(body_)} {}
    // clang-format off
    reply& type(std::string t) { content_type = std::move(t); return *this; }
    reply& header(std::string name, std::string value) { headers.emplace_back(std::move(name), std::move(value)); return *this; }
    // clang-format on
    /// Sends the body in pieces, chunked; `how` says how it ends.
    reply& streamed(std::vector<std::string> pieces, ending how = complete) {
        chunks = std::move(pieces);
        whole = false;
        end = how;
        return *this;
    }
    /// Waits this long before each piece, or before the whole answer, on the manual clock.
    // clang-format off
    reply& every(std::chrono::milliseconds between) { pause = between; return *this; }
    // clang-format on

    int status = 200;
    std::string content_type = "application/json";
    std::vector<std::pair<std::string, std::string>> headers;
    std::vector<std::string> chunks;
    bool whole = true;
    ending end = complete;
    std::chrono::milliseconds pause{0};
};

struct script {
    std::deque<reply> next;               ///< in order, for any request
    std::map<std::string, reply> by_path; ///< used if `next` is empty
    std::vector<std::string> lines;       ///< "GET /api/v1/pods?limit=1"
    std::vector<http::server_request> requests;
    std::shared_ptr<testing::manual_clock> clock;
    std::size_t asleep = 0, written = 0; ///< pieces for which the wait has begun; pieces that were sent

    static asio::awaitable<void> serve(std::shared_ptr<script> s, std::shared_ptr<http::server_request> q,
                                       std::shared_ptr<http::server_response> a) {
        s->lines.push_back(q->method + " " + q->target);
        s->requests.push_back(*q);
        reply r(404, "no such path");
        r.type("text/plain");
        if (!s->next.empty()) {
            r = s->next.front();
            s->next.pop_front();
        } else if (const auto found = s->by_path.find(q->path); found != s->by_path.end()) {
            r = found->second;
        }
        if (r.whole) {
            if (r.pause.count() > 0) {
                ++s->asleep;
                co_await s->clock->sleep_for(r.pause);
            }
            std::string body;
            if (!r.chunks.empty()) body = r.chunks.front();
            co_await a->send(r.status, r.content_type, std::move(body), r.headers);
            co_return;
        }
        co_await a->begin(r.status, r.content_type);
        for (const auto& piece : r.chunks) {
            if (r.pause.count() > 0) {
                ++s->asleep;
                co_await s->clock->sleep_for(r.pause);
            }
            co_await a->write(piece);
            ++s->written;
        }
        if (r.end == reply::complete)
            co_await a->end();
        else if (r.end == reply::cut)
            a->close();
        else
            co_await a->wait_gone();
    }
};

/// Sums of counters and histograms by their name and labels, without the label that names the server.
class totals final : public metrics_sink {
public:
    void add(std::string_view name, double v, labels of) override { note(name, v, of); }
    void set(std::string_view, double, labels) override {}
    void observe(std::string_view name, double v, labels of) override { note(name, v, of); }
    std::map<std::string, double> sums;

private:
    void note(std::string_view name, double v, labels of) {
        std::string key(name);
        for (const auto& [which, value] : of)
            if (which != "host") key.append(" ").append(value);
        sums[key] += v;
    }
};

class bench {
public:
    bench() : bench(kubernetes::credentials()) {}
    explicit bench(kubernetes::credentials who) : bench(as(std::move(who)), http::server_options()) {}
    /// `c` is the configuration without the server's address.
    bench(client_config c, http::server_options serving)
        : clock(std::make_shared<testing::manual_clock>()), rt(io.get_executor()), answers(std::make_shared<script>()),
          config(std::move(c)) {
        rt.with_clock(clock).with_logger(log.logger(), log_level::debug);
        answers->clock = clock;
        const std::string scheme = serving.use_tls_ ? "https" : "http";
        server = std::make_unique<http::server>(
            runtime(io.get_executor()), std::move(serving),
            [s = answers](std::shared_ptr<http::server_request> q, std::shared_ptr<http::server_response> a) {
                return script::serve(s, std::move(q), std::move(a));
            });
        failure f;
        server->listen(f);
        throw_on(f);
        config.server = scheme + "://127.0.0.1:" + std::to_string(server->port());
        api.emplace(rt, config);
    }
    ~bench() {
        api.reset();
        if (testing::leaving_failed()) return;
        try {
            testing::run_test(io, server->stop());
        } catch (...) {
            UNSCOPED_INFO("the server did not stop");
        }
    }
    bench(const bench&) = delete;
    bench& operator=(const bench&) = delete;

    /// Runs until the coroutine has ended; whenever something sleeps, the clock is advanced to the end of the sleep.
    template <class T>
    T run(asio::awaitable<T> work) {
        return testing::driven(io, std::move(work),
                               [&](const auto& done) { testing::step_until(io, done, [&] { turn_the_clock(); }); });
    }

    /// Runs until `there` returns true; the clock stands still.
    void until(const std::function<bool()>& there) { testing::step_until(io, there); }

    asio::io_context io{1};
    std::shared_ptr<testing::manual_clock> clock;
    testing::log_capture log;
    runtime rt;
    std::shared_ptr<script> answers;
    std::unique_ptr<http::server> server;
    client_config config;
    std::optional<client> api;
    std::vector<std::chrono::nanoseconds> slept;

private:
    static client_config as(kubernetes::credentials who) {
        client_config c;
        c.credentials = std::move(who);
        return c;
    }
    /// Advances the clock to the end of the next sleep, if anything sleeps.
    void turn_the_clock() {
        const auto due = clock->next_deadline();
        if (!due) return;
        slept.push_back(*due - clock->now());
        clock->set(*due);
    }
};

inline api_resource pods() {
    return api_resource("", "v1", "pods", "Pod", true);
}
inline api_resource nodes() {
    return api_resource("", "v1", "nodes", "Node", false);
}
inline api_resource deployments() {
    return api_resource("apps", "v1", "deployments", "Deployment", true);
}

inline std::string pod(const std::string& name, const std::string& version = "1") {
    return R"({"metadata":{"name":")" + name + R"(","namespace":"default","resourceVersion":")" + version + R"("}})";
}

inline std::string pod_list(const std::vector<std::string>& items,
                            const std::string& metadata = R"({"resourceVersion":"100"})") {
    std::string s = R"({"kind":"PodList","apiVersion":"v1","metadata":)" + metadata + R"(,"items":[)";
    for (std::size_t i = 0; i < items.size(); ++i) s += (i ? "," : "") + items[i];
    return s + "]}";
}

inline std::string watch_event(const std::string& type, const std::string& object) {
    return R"({"type":")" + type + R"(","object":)" + object + "}\n";
}

inline std::string status(int code, const std::string& reason, const std::string& message,
                          const std::string& more = "") {
    return R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":")" + message +
           R"(","reason":")" + reason + R"(","code":)" + std::to_string(code) + more + "}";
}

inline object get(bench& b, const std::string& name, failure& f) {
    return b.run(b.api->get(pods(), object_key("default", name), f));
}

/// A header of the last request.
inline std::string header(const bench& b, std::string_view name) {
    return std::string(b.answers->requests.back().header(name));
}

class recorder final : public testing::object_recorder {
public:
    recorder() : recorder(document_pool::make(decode_options().type("v1", "Pod"))) {}
    using object_recorder::object_recorder;
};

using lines = std::vector<std::string>;

} // namespace kubernetes_test
