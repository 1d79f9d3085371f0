// What informers promise, on etcd.
#include "bench.hpp"

#include "support/recording_sink.hpp"
#include "support/temporary_folder.hpp"

#include <informer/cache/shared_informer.hpp>

#include <map>
#include <set>

using namespace etcd_test;
using namespace std::chrono_literals;

namespace {

/// One change of one key, as a store remembers it.
struct change {
    int revision;
    std::string key, value; ///< "": it is deleted
};

/// A store with a history: "/s/…" keys only.
class store {
public:
    explicit store(std::vector<change> all) : history_(std::move(all)) {}

    /// Key: value and its revisions, after all that happened up to `revision`.
    struct state {
        std::string value;
        int created, modified, version;
    };
    std::map<std::string, state> at(int revision) const {
        std::map<std::string, state> now;
        for (const change& c : history_) {
            if (c.revision > revision) break;
            if (c.value.empty()) {
                now.erase(c.key);
            } else if (const auto found = now.find(c.key); found != now.end()) {
                found->second = {c.value, found->second.created, c.revision, found->second.version + 1};
            } else {
                now[c.key] = {c.value, c.revision, c.revision, 1};
            }
        }
        return now;
    }
    int newest() const { return history_.back().revision; }
    /// The states at all revisions from this one on, as `followed::all()` writes them.
    std::set<std::string> states_from(int revision) const {
        std::set<std::string> all;
        for (; revision <= newest(); ++revision) {
            const auto now = at(revision);
            std::string s;
            for (const char* name : {"a", "b", "c", "d"}) {
                const auto found = now.find(std::string("/s/") + name);
                s += name + (found == now.end() ? "" : found->second.value.substr(5, 1)) + " ";
            }
            all.insert(s);
        }
        return all;
    }
    std::string list(int revision) const {
        std::vector<std::string> kvs;
        for (const auto& [key, s] : at(revision)) kvs.push_back(pair(key, s.value, s.created, s.modified, s.version));
        return range(revision, kvs);
    }
    /// A message for each revision; one of several keys comes in fragments.
    std::string watch(int start) const {
        std::string text = created(newest());
        for (std::size_t i = 0; i < history_.size(); ++i) {
            const change& c = history_[i];
            if (c.revision < start) continue;
            const auto before = at(c.revision - 1), now = at(c.revision);
            const auto was = before.find(c.key);
            const std::string prev = was == before.end() ? ""
                                                         : pair(c.key, was->second.value, was->second.created,
                                                                was->second.modified, was->second.version);
            const bool more = i + 1 < history_.size() && history_[i + 1].revision == c.revision;
            if (c.value.empty()) {
                text += events(newest(), {gone(c.key, c.revision, prev)}, more);
            } else {
                const state& s = now.at(c.key);
                text += events(newest(), {put(pair(c.key, s.value, s.created, s.modified, s.version), prev)}, more);
            }
        }
        return text;
    }

private:
    std::vector<change> history_;
};

const std::vector<change> history{
    {2, "/s/a", R"({"v":1})"}, {3, "/s/b", R"({"v":1})"}, // the list
    {4, "/s/a", R"({"v":2})"}, {5, "/s/c", R"({"v":1})"},
    {5, "/s/d", R"({"v":1})"}, {5, "/s/b", ""}, // a transaction
    {6, "/s/b", R"({"v":2})"}, {7, "/s/c", ""},
    {7, "/s/a", R"({"v":3})"}, {8, "/s/c", R"({"v":3})"}, // created again
};

/// An informer, and the events that a subscriber got.
class followed {
public:
    explicit followed(bench& on, informer_options o = informer_options(), const mapping& m = mapping("/s/"))
        : b(on), metrics(std::make_shared<testing::recording_sink>()) {
        on.source(m);
        runtime rt = on.rt;
        rt.with_metrics(metrics);
        informer = std::make_unique<shared_informer>(rt, on.from, std::move(o));
        asio::co_spawn(on.io, informer->run(), [this](std::exception_ptr) { ended = true; });
        asio::co_spawn(on.io, hear(this, informer->subscribe()), [this](std::exception_ptr) { heard_all = true; });
    }
    ~followed() {
        informer->stop();
        b.until([&] { return ended && heard_all; });
    }
    /// If the informer waits before its next attempt, advances the clock to that.
    void wait_out() {
        const auto until = informer->status().next_attempt;
        if (until > b.clock->wall()) b.clock->advance(until - b.clock->wall());
    }
    std::string value(const std::string& name) const {
        const object o = informer->get(name);
        return o ? std::to_string(o["v"].int64_or(0)) : "";
    }
    std::string all() const {
        std::string s;
        for (const char* name : {"a", "b", "c", "d"}) s += name + value(name) + " ";
        return s;
    }

    bench& b;
    std::shared_ptr<testing::recording_sink> metrics;
    std::unique_ptr<shared_informer> informer;
    lines told;
    bool ended = false, heard_all = false;

private:
    static asio::awaitable<void> hear(followed* f, subscription events) {
        for (;;) {
            const auto e = co_await events.next();
            if (!e) co_return;
            const object& o = e->current ? e->current : e->previous;
            f->told.push_back(std::string(to_string(e->kind)) + " " + e->key().name + " " +
                              std::to_string(o["v"].int64_or(0)));
        }
    }
};

} // namespace

TEST_CASE("etcd informer: wherever a watch is cut, nothing is lost or doubled, and no revision is seen in part") {
    const store s(history);
    std::set<std::string> states = s.states_from(3);
    states.insert("a b c d "); // not synced
    const std::string whole = s.watch(4);
    const lines expected{"ADDED a 1",   "ADDED b 1", "MODIFIED a 2", "ADDED c 1",    "ADDED d 1",
                         "DELETED b 1", "ADDED b 2", "DELETED c 1",  "MODIFIED a 3", "ADDED c 3"};
    for (std::size_t n = 0; n < whole.size(); n += 1) {
        bench b;
        bool cut = false;
        b.etcd().answer = [&](const http::server_request& q) {
            if (q.path == "/v3/kv/range") return reply(s.list(3));
            const int start = number_in(q.body, "start_revision");
            if (std::exchange(cut, true)) return reply(s.watch(start)).streamed(reply::stall);
            return reply(s.watch(start)).streamed(reply::cut, n);
        };
        CAPTURE(n);
        followed f(b);
        b.until([&] {
            f.wait_out();
            REQUIRE(states.contains(f.all()));
            return f.told.size() >= expected.size();
        });
        b.io.poll(); // and no further events
        REQUIRE(f.told == expected);
        REQUIRE(f.all() == "a3 b2 c3 d1 ");
        REQUIRE(f.informer->status().resource_version.str() == "8");
        REQUIRE(f.informer->status().relists == 0);
    }
}

TEST_CASE("etcd informer: after a compaction the state is listed again, and the difference is reported") {
    const store s(history);
    bench b;
    bool compacted = false;
    b.etcd().answer = [&](const http::server_request& q) {
        if (q.path == "/v3/kv/range") return reply(s.list(compacted ? 8 : 3));
        const int start = number_in(q.body, "start_revision");
        if (!std::exchange(compacted, true))
            return reply(created(8) + result(R"("header":{"cluster_id":"77"},"canceled":true,"compact_revision":"7")"))
                .streamed(reply::stall);
        CHECK(start == 8);
        return reply(created(8)).streamed(reply::stall);
    };
    followed f(b);
    b.until([&] { return compacted; });
    b.until([&] {
        f.wait_out();
        return f.all() == "a3 b2 c3 d1 ";
    });
    b.until([&] { return f.told.size() == 7; });
    // b was deleted and created again meanwhile: its uid says so.
    CHECK(std::multiset<std::string>(f.told.begin() + 2, f.told.end()) ==
          std::multiset<std::string>{"MODIFIED a 3", "DELETED b 1", "ADDED b 2", "ADDED c 3", "ADDED d 1"});
    CHECK(f.informer->status().relists == 1);
}

TEST_CASE("etcd informer: a bad value keeps the last good version, is named in the status, and neighbours go on") {
    const store s({{2, "/s/a", R"({"v":1})"},
                   {3, "/s/b", R"({"v":1})"},
                   {4, "/s/a", "{]"},
                   {5, "/s/b", R"({"v":2})"},
                   {6, "/s/c", R"({"v":1})"}});
    bench b;
    b.etcd().answer = [&](const http::server_request& q) {
        if (q.path == "/v3/kv/range") return reply(s.list(3));
        return reply(s.watch(number_in(q.body, "start_revision"))).streamed(reply::stall);
    };
    followed f(b);
    b.until([&] { return f.value("c") == "1"; });
    CHECK(f.all() == "a1 b2 c1 d ");
    CHECK(f.informer->status().quarantined == 1);
}

TEST_CASE("etcd informer: a deletion that fell into a gap is found, also if the key has a bad value since") {
    const store s({{2, "/s/a", R"({"v":1})"},
                   {3, "/s/b", R"({"v":1})"},
                   {4, "/s/a", ""}, // from here on it is not reported
                   {5, "/s/a", "{]"},
                   {6, "/s/b", "{]"}});
    bool compacted = false;
    bench b;
    b.etcd().answer = [&](const http::server_request& q) {
        if (q.path == "/v3/kv/range") return reply(s.list(compacted ? 6 : 3));
        if (!std::exchange(compacted, true))
            return reply(created(6) + result(R"("header":{"cluster_id":"77"},"canceled":true,"compact_revision":"6")"))
                .streamed(reply::stall);
        return reply(created(6)).streamed(reply::stall);
    };
    followed f(b);
    b.until([&] {
        f.wait_out();
        return f.informer->status().relists == 1;
    });
    b.io.poll();
    CHECK(f.told == lines{"ADDED a 1", "ADDED b 1", "DELETED a 1"});
    CHECK(f.all() == "a b1 c d "); // b is the same object still: its last good version stays
    CHECK(f.informer->status().quarantined == 2);
}

TEST_CASE("etcd informer: if no key can be used, the status says so") {
    bench b;
    b.etcd().answer = [&](const http::server_request& q) {
        if (q.path == "/v3/kv/range") return reply(range(9, {pair("/t/n/a", "{}", 2, 2), pair("/t/n/b", "{}", 3, 3)}));
        return reply(created(9)).streamed(reply::stall);
    };
    followed f(b, informer_options(), mapping("/t").namespaced());
    b.until([&] { return f.informer->status().phase == informer_phase::watching; });
    const informer_status s = f.informer->status();
    CHECK(s.synced);
    CHECK(s.objects == 0);
    CHECK(s.quarantined == 2);
    REQUIRE(s.quarantine.size() == 2);
    CHECK(s.quarantine[0].why.what().find("is /t/ meant?") != std::string::npos);
    CHECK(b.log.count("so it is with all keys of the list") == 1);
}

TEST_CASE("etcd informer: a changed password parks it until the password file is right, and no longer") {
    const store s(history);
    const testing::temporary_folder dir;
    bench b;
    b.where.user("me").password_file(dir.write("password", "old\n"));
    std::string password = "old", token = "t1";
    bool changed = false;
    b.etcd().answer = [&](const http::server_request& q) {
        if (q.path == "/v3/auth/authenticate") {
            if (q.body == R"({"name":"me","password":")" + password + "\"}")
                return reply(R"({"token":")" + token + "\"}");
            return reply(400,
                         R"({"code":3,"message":"etcdserver: authentication failed, invalid user ID or password"})");
        }
        if (q.header("Authorization") != token)
            return reply(401, R"({"code":16,"message":"etcdserver: invalid auth token"})");
        if (q.path == "/v3/kv/range") return reply(s.list(3));
        if (!std::exchange(changed, true)) { // from now on no old token is accepted
            password = "new";
            token = "t2";
            return reply(created(8)).streamed(reply::cut);
        }
        return reply(s.watch(number_in(q.body, "start_revision"))).streamed(reply::stall);
    };
    followed f(b);
    const auto parked = [&] {
        f.wait_out();
        return f.informer->status().phase == informer_phase::parked && f.informer->status().attempts > 2;
    };
    b.until(parked); // it is tried again and again
    CHECK(f.informer->status().last_error == errc::unauthorized);
    dir.write("password", "new\r\n");
    b.until([&] {
        f.wait_out();
        return f.all() == "a3 b2 c3 d1 ";
    });
    CHECK(f.informer->status().phase == informer_phase::watching);
    CHECK_FALSE(f.informer->status().last_error);
    CHECK_FALSE(b.log.contains("new\""));
}

TEST_CASE("etcd informer: read your writes by the revision of the write") {
    const store s(history);
    bench b;
    b.etcd().answer = [&](const http::server_request& q) {
        if (q.path == "/v3/kv/range") return reply(s.list(3));
        return reply(s.watch(number_in(q.body, "start_revision"))).streamed(reply::stall);
    };
    followed f(b);
    b.run(f.informer->wait_until(resource_version("8"), 10s));
    CHECK(f.value("c") == "3");
}

TEST_CASE("etcd informer: a transaction of thousands of keys is seen at once, also by a wait for its revision") {
    constexpr int n = 20'000; // handed on in several turns, applied in twenty
    bench b;
    std::vector<std::string> there, deleted;
    for (int i = 0; i < n; ++i) {
        const std::string key = "/s/" + std::to_string(100'000 + i); // in ascending order
        there.push_back(pair(key, "{}", 2, 2));
        deleted.push_back(gone(key, 3, there.back()));
    }
    const std::string all = range(2, there);
    std::string stream = created(3);
    for (int i = 0; i < n; i += 100) stream += events(3, {deleted.begin() + i, deleted.begin() + i + 100}, i + 100 < n);
    b.etcd().answer = [&](const http::server_request& q) {
        if (q.path == "/v3/kv/range") return reply(all);
        return reply(stream).streamed(reply::stall);
    };
    followed f(b);
    b.run(f.informer->synced(10s));
    bool waited = false;
    std::set<std::size_t> sizes;
    asio::co_spawn(b.io, f.informer->wait_until(resource_version("3"), 10s), [&](std::exception_ptr e) {
        waited = !e;
        sizes.insert(f.informer->snapshot().size());
    });
    b.until([&] {
        sizes.insert(f.informer->snapshot().size());
        return waited;
    });
    CHECK(sizes == std::set<std::size_t>{n, 0});
}

TEST_CASE("etcd informer: a store that was restored from a backup is noticed") {
    const store s(history);
    bench b;
    bool restored = false;
    b.etcd().answer = [&](const http::server_request& q) {
        if (q.path == "/v3/kv/range") {
            std::string answer = s.list(restored ? 3 : 8);
            if (restored) answer.replace(answer.find("\"77\""), 4, "\"78\"");
            return reply(answer);
        }
        if (!restored && b.etcd().requests.size() == 2) {
            restored = true;
            return reply(created(8)).streamed(reply::cut);
        }
        return reply(result(header(3, "78") + R"(,"created":true)")).streamed(reply::stall);
    };
    followed f(b);
    b.until([&] {
        f.wait_out();
        return restored && f.all() == "a1 b1 c d ";
    });
    CHECK(f.informer->status().resource_version.str() == "3");
    CHECK(f.informer->status().epoch == 2);
}

TEST_CASE("etcd informer: indexes and selectors work on the labels in the values") {
    bench b;
    const auto labelled = [](const char* l) {
        return R"({"v":1,"metadata":{"labels":{"zone":")" + std::string(l) + "\"}}}";
    };
    const store s({{2, "/s/a", labelled("x")},
                   {3, "/s/b", labelled("y")},
                   {4, "/s/b", labelled("x")},
                   {5, "/s/a", labelled("y")}});
    b.etcd().answer = [&](const http::server_request& q) {
        if (q.path == "/v3/kv/range") return reply(s.list(3));
        return reply(s.watch(number_in(q.body, "start_revision"))).streamed(reply::stall);
    };
    followed f(b, informer_options().labels("zone=x"));
    b.until([&] { return f.told.size() == 3; });
    CHECK(f.told == lines{"ADDED a 1", "ADDED b 1", "DELETED a 1"});
    CHECK(f.all() == "a b1 c d ");
}

TEST_CASE("etcd informer: it may be stopped, or its context destroyed, after any number of steps") {
    const std::string large = R"({"v":1,"metadata":{"labels":{"l":"1"}},"x":")" + std::string(300'000, 'x') + "\"}";
    const store s({{2, "/s/a", large}, {3, "/s/b", "{}"}, {4, "/s/a", "{}"}, {4, "/s/b", large}, {5, "/s/b", ""}});
    for (const bool stops : {true, false}) {
        bool all_done = false;
        for (std::size_t n = 0; !all_done; ++n) {
            CAPTURE(stops, n);
            REQUIRE(n < 5000);
            bench b;
            b.where.user("me", "p");
            b.etcd().answer = [&](const http::server_request& q) {
                if (q.path == "/v3/auth/authenticate") return reply(R"({"token":"t"})");
                if (q.path == "/v3/kv/range") return reply(s.list(3));
                return reply(s.watch(number_in(q.body, "start_revision"))).streamed(reply::stall);
            };
            auto io = std::make_unique<asio::io_context>(1);
            const runtime rt(io->get_executor());
            shared_informer informer(rt, informer::etcd::make_list_watch(rt, b.where, mapping("/s/")),
                                     informer_options().labels("l=1"));
            bool ended = false;
            asio::co_spawn(*io, informer.run(), [&](std::exception_ptr) { ended = true; });
            const auto step = [&] {
                b.io.restart();
                b.io.poll();
                io->restart();
                return io->run_one_for(std::chrono::microseconds(200));
            };
            const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
            for (std::size_t steps = 0; steps < n && !all_done;) {
                steps += step();
                all_done = informer.status().resource_version.str() == "5";
                REQUIRE(std::chrono::steady_clock::now() < end);
            }
            if (stops) {
                informer.stop();
                while (!ended) {
                    step();
                    REQUIRE(std::chrono::steady_clock::now() < end);
                }
            }
            io.reset();
        }
    }
}
