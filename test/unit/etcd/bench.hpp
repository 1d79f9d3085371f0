// A scripted gateway and a source on one io_context, driven from synchronous tests.
#pragma once

#include "root/base64.hpp"

#include <informer/etcd/list_watch.hpp>
#include <informer/http/server/server.hpp>
#include <informer/testing/manual_clock.hpp>

#include "support/drive.hpp"
#include "support/log_capture.hpp"
#include "support/object_recorder.hpp"
#include "support/run.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include <catch2/catch_test_macros.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace etcd_test {

namespace asio = boost::asio;
using namespace informer;
using informer::etcd::config;
using informer::etcd::mapping;
using informer::etcd::wrap;

inline std::string b64(std::string_view s) {
    return informer::detail::base64_encode(s);
}

/// One answer.
struct reply {
    enum ending { complete, cut, stall };

    reply() {}
    explicit reply(std::string body_) : body(std::move(body_)) {}
    reply(int status_, std::string body_) : status(status_), body(std::move(body_)) {}
    /// Sends the body chunked; `how` says how it ends, `bytes` after how many bytes.
    reply& streamed(ending how = complete, std::size_t bytes = std::size_t(-1)) {
        whole = false;
        end = how;
        most = bytes;
        return *this;
    }
    reply& type(std::string t) {
        content_type = std::move(t);
        return *this;
    }

    int status = 200;
    std::string content_type = "application/json", body;
    bool whole = true;
    ending end = complete;
    std::size_t most = std::size_t(-1), piece = std::size_t(-1);
};

/// A member of etcd.
class member {
public:
    explicit member(const runtime& rt, http::server_options options = http::server_options()) {
        server = std::make_unique<http::server>(
            rt, std::move(options),
            [this](std::shared_ptr<http::server_request> q, std::shared_ptr<http::server_response> a) {
                return serve(this, std::move(q), std::move(a));
            });
        failure f;
        server->listen(f);
        throw_on(f);
    }
    std::string url() const { return "http://127.0.0.1:" + std::to_string(server->port()); }

    std::function<reply(const http::server_request&)> answer; ///< used if `next` is empty
    std::deque<reply> next;
    std::vector<http::server_request> requests;
    std::unique_ptr<http::server> server;

    std::vector<std::string> lines() const {
        std::vector<std::string> all;
        for (const auto& q : requests) all.push_back(q.path + " " + q.body);
        return all;
    }

private:
    static asio::awaitable<void> serve(member* m, std::shared_ptr<http::server_request> q,
                                       std::shared_ptr<http::server_response> a) {
        m->requests.push_back(*q);
        reply r(404, "404 page not found");
        r.type("text/plain");
        if (!m->next.empty()) {
            r = m->next.front();
            m->next.pop_front();
        } else if (m->answer) {
            r = m->answer(*q);
        }
        if (r.whole) {
            co_await a->send(r.status, r.content_type, r.body);
            co_return;
        }
        co_await a->begin(r.status, r.content_type);
        const std::string text = r.body.substr(0, r.most);
        for (std::size_t at = 0; at < text.size(); at += std::min(r.piece, text.size() - at)) {
            std::string some = text.substr(at, r.piece);
            co_await a->write(std::move(some));
        }
        if (r.end == reply::complete)
            co_await a->end();
        else if (r.end == reply::cut)
            a->close();
        else
            co_await a->wait_gone();
    }
};

class bench {
public:
    explicit bench(std::size_t n = 1) : clock(std::make_shared<testing::manual_clock>()), rt(io.get_executor()) {
        rt.with_clock(clock).with_logger(log.logger(), log_level::debug);
        for (std::size_t i = 0; i < n; ++i) {
            members.push_back(std::make_unique<member>(runtime(io.get_executor())));
            where.endpoint(members.back()->url());
        }
    }
    ~bench() {
        from.reset();
        if (testing::leaving_failed()) return;
        try {
            testing::run_test(io, stop(this));
        } catch (...) {
            UNSCOPED_INFO("a server did not stop");
        }
    }
    bench(const bench&) = delete;
    bench& operator=(const bench&) = delete;

    member& etcd() { return *members.front(); }
    list_watch& source(const mapping& m = mapping("/s/")) {
        if (!from) from = informer::etcd::make_list_watch(rt, where, m);
        return *from;
    }

    template <class T>
    T run(asio::awaitable<T> work) {
        return testing::driven(io, std::move(work), [&](const auto& done) { until(done); });
    }
    /// Runs until `there` returns true; the clock stands still unless a test advances it.
    void until(const std::function<bool()>& there) { testing::step_until(io, there); }

    asio::io_context io{1};
    std::shared_ptr<testing::manual_clock> clock;
    testing::log_capture log;
    runtime rt;
    std::vector<std::unique_ptr<member>> members;
    config where;
    std::shared_ptr<list_watch> from;

private:
    static asio::awaitable<void> stop(bench* b) {
        for (auto& m : b->members) co_await m->server->stop();
    }
};

/// Notes also the version of bad objects.
class recorder final : public testing::object_recorder {
public:
    explicit recorder(decode_options o = decode_options())
        : recorder(document_pool::make(std::move(o.type("etcd/v3", "KeyValue")))) {}
    explicit recorder(std::shared_ptr<document_pool> pool) : object_recorder(std::move(pool)) {}

private:
    std::string name(const bad_object& b) const override { return b.key.str() + " " + b.resource_version.str(); }
};

using lines = std::vector<std::string>;

/// A key and its value as the gateway writes them: zero and empty members are left out.
inline std::string pair(const std::string& key, const std::string& value, int created, int modified, int version = 1) {
    std::string s = R"({"key":")" + b64(key) + '"';
    if (created) s += R"(,"create_revision":")" + std::to_string(created) + '"';
    s += R"(,"mod_revision":")" + std::to_string(modified) + '"';
    if (version) s += R"(,"version":")" + std::to_string(version) + '"';
    if (!value.empty()) s += R"(,"value":")" + b64(value) + '"';
    return s + '}';
}
inline std::string put(const std::string& kv, const std::string& before = "") {
    return R"({"kv":)" + kv + (before.empty() ? "" : R"(,"prev_kv":)" + before) + '}';
}
inline std::string gone(const std::string& key, int modified, const std::string& before = "") {
    return R"({"type":"DELETE","kv":)" + pair(key, "", 0, modified, 0) +
           (before.empty() ? "" : R"(,"prev_kv":)" + before) + '}';
}
inline std::string header(int revision, const std::string& cluster = "77") {
    return R"("header":{"cluster_id":")" + cluster + R"(","member_id":"8","revision":")" + std::to_string(revision) +
           R"(","raft_term":"2"})";
}
inline std::string joined(const std::vector<std::string>& all) {
    std::string s;
    for (const auto& one : all) s += (s.empty() ? "" : ",") + one;
    return s;
}
inline std::string range(int revision, const std::vector<std::string>& kvs, const std::string& more = "") {
    return "{" + header(revision) + (kvs.empty() ? "" : R"(,"kvs":[)" + joined(kvs) + "]") + more + "}";
}
inline std::string result(const std::string& members) {
    return R"({"result":{)" + members + "}}\n";
}
inline std::string created(int revision) {
    return result(header(revision) + R"(,"created":true)");
}
inline std::string events(int revision, const std::vector<std::string>& all, bool fragment = false) {
    return result(header(revision) + (fragment ? R"(,"fragment":true)" : "") + R"(,"events":[)" + joined(all) + "]");
}
inline std::string progress(int revision) {
    return result(header(revision));
}

/// A number of a request's body, wherever it stands in it; 0 when it is not there.
inline int number_in(const std::string& body, const std::string& name) {
    const auto at = body.find('"' + name + "\":\"");
    return at == std::string::npos ? 0 : std::stoi(body.substr(at + name.size() + 4));
}

inline list_result list(bench& b, recorder& sink, failure& f, const list_options& o = list_options()) {
    return b.run(b.source().list(o, sink, f));
}
inline void watch(bench& b, recorder& sink, failure& f, const watch_options& o = watch_options()) {
    b.run(b.source().watch(o, sink, f));
}

} // namespace etcd_test
