// Objects that take long to decode: other work on the executor gets its turns meanwhile.
#include "bench.hpp"

#include <informer/cache/shared_informer.hpp>
#include <informer/detail/async.hpp>
#include <informer/task_group.hpp>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <ctime>
#include <functional>

using namespace kubernetes_test;
using namespace std::chrono_literals;

namespace {

/// An object of some MB of small values: decoding takes tens of milliseconds.
std::string large(const std::string& version, const std::string& last = "0") {
    std::string s =
        R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"large","namespace":"default","resourceVersion":")" +
        version + R"("},"list":[)";
    for (int i = 0; i < 120'000; ++i)
        s += R"({"name":"entry-)" + std::to_string(i) + R"(","tags":["a","b"],"n":)" + std::to_string(i * 7) + "},";
    return s + last + "]}";
}

/// Counts the turns of other work between the last byte of an object and its arrival.
class watcher final : public object_sink {
public:
    explicit watcher(asio::any_io_executor executor) : executor_(std::move(executor)) {}

    document_pool& pool() override { return *pool_; }
    object previous(const object_key& key, std::size_t) override {
        asked.push_back(key.str());
        return last;
    }
    void received(std::size_t) override { at_last_byte_ = ticks; }
    void item(object o) override { came(std::move(o)); }
    void event(watch_event_type, object o) override { came(std::move(o)); }
    void bookmark(resource_version, bool) override {}
    void quarantine(bad_object b) override {
        meanwhile.push_back(ticks - at_last_byte_);
        bad.push_back(std::move(b));
    }
    asio::awaitable<bool> ready() override { return a_turn(executor_, true); }
    asio::awaitable<bool> turn() override {
        ++turns;
        if (on_turn) on_turn();
        return a_turn(executor_, turns < enough);
    }

    unsigned ticks = 0, turns = 0, enough = ~0u;
    std::function<void()> on_turn;
    object last;
    std::vector<unsigned> meanwhile;
    std::vector<bad_object> bad;
    std::vector<std::string> asked; ///< keys

private:
    void came(object o) {
        meanwhile.push_back(ticks - at_last_byte_);
        last = std::move(o);
    }
    static asio::awaitable<bool> a_turn(asio::any_io_executor executor, bool wanted) {
        co_await asio::post(executor, asio::use_awaitable);
        co_return wanted;
    }
    asio::any_io_executor executor_;
    std::shared_ptr<document_pool> pool_ = document_pool::make(decode_options().type("v1", "Pod"));
    unsigned at_last_byte_ = 0;
};

/// Other work on the same io_context.
asio::awaitable<void> tick(asio::any_io_executor executor, watcher* w, const bool* done) {
    while (!*done) {
        ++w->ticks;
        co_await asio::post(executor, asio::use_awaitable);
    }
}

asio::awaitable<void> list(std::shared_ptr<list_watch> from, watcher* to, failure* f, bool* done) {
    const list_options o;
    co_await from->list(o, *to, *f);
    *done = true;
}

asio::awaitable<void> watch(std::shared_ptr<list_watch> from, watcher* to, failure* f, bool* done) {
    const watch_options o;
    co_await from->watch(o, *to, *f);
    *done = true;
}

asio::awaitable<void> get_large(client* c, object* to, failure* f, bool* done) {
    object_key key("default", "large");
    *to = co_await c->get(pods(), std::move(key), *f);
    *done = true;
}

double processor_time() { // other processes may be busy
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

/// Measures the longest time between two turns of other work.
asio::awaitable<void> longest_gap(asio::any_io_executor executor, double* gap, const bool* done) {
    for (double last = processor_time(); !*done;) {
        co_await asio::post(executor, asio::use_awaitable);
        const double now = processor_time();
        *gap = std::max(*gap, now - last);
        last = now;
    }
}

using verb = asio::awaitable<void> (*)(std::shared_ptr<list_watch>, watcher*, failure*, bool*);

failure carry_out(bench& b, watcher& w, verb what) {
    failure f;
    bool done = false;
    const auto executor = b.io.get_executor();
    task_group group(executor);
    group.spawn(what(b.api->make_list_watch(pods()), &w, &f, &done));
    group.spawn(tick(executor, &w, &done));
    b.run(group.join());
    return f;
}

} // namespace

TEST_CASE("large objects: other work gets its turns while one is decoded, in a list and in a watch") {
    bench b;
    watcher w(b.io.get_executor());
    b.answers->next.emplace_back(pod_list({pod("a"), large("5"), pod("z")}));
    CHECK_FALSE(carry_out(b, w, list));
    REQUIRE(w.meanwhile.size() == 3);
    CHECK(w.meanwhile[1] >= 4);
    CHECK(w.turns >= 4);
    CHECK(w.last.meta().name() == "z");

    w.meanwhile.clear();
    b.answers->next.push_back(
        reply().streamed({watch_event("ADDED", large("6")), watch_event("MODIFIED", large("7", "1")),
                          watch_event("DELETED", large("8", "1"))}));
    CHECK_FALSE(carry_out(b, w, watch));
    REQUIRE(w.meanwhile.size() == 3);
    for (const unsigned ticks : w.meanwhile) CHECK(ticks >= 2);
    CHECK(w.last == parse_object(large("8", "1")));
}

TEST_CASE("large objects: if metadata come last, the key is looked for step by step") {
    // Some tools and proxies write objects like this. The key says which object this is a new version of.
    const auto turned = [](const std::string& version) {
        std::string s = large(version);
        const std::size_t from = s.find(R"("metadata")"), to = s.find(R"("list")");
        const std::string metadata = s.substr(from, to - from - 1);
        s.erase(from, to - from);
        s.insert(s.size() - 1, "," + metadata);
        return s;
    };
    bench b;
    watcher w(b.io.get_executor());
    b.answers->next.emplace_back(pod_list({pod("a"), turned("5")}));
    CHECK_FALSE(carry_out(b, w, list));
    CHECK(w.bad.empty());
    CHECK(w.last == parse_object(turned("5")));
    CHECK(w.asked.back() == "default/large");
    w.asked.clear();
    b.answers->next.push_back(reply().streamed({watch_event("MODIFIED", turned("6"))}));
    CHECK_FALSE(carry_out(b, w, watch));
    CHECK(w.last == parse_object(turned("6")));
    CHECK(w.asked == std::vector<std::string>{"default/large"});
}

TEST_CASE("large objects: other work gets its turns while the answer of a verb is decoded") {
    bench b;
    const std::string text = large("5");
    const double begun = processor_time();
    const object whole = parse_object(text);
    const double at_once = processor_time() - begun;
    double longest = at_once;
    for (int i = 0; i < 3; ++i) {
        b.answers->next.emplace_back(text);
        object got;
        failure f;
        double gap = 0;
        bool done = false;
        const auto executor = b.io.get_executor();
        task_group group(executor);
        group.spawn(get_large(&*b.api, &got, &f, &done));
        group.spawn(longest_gap(executor, &gap, &done));
        b.run(group.join());
        CHECK_FALSE(f);
        CHECK(got == whole);
        longest = std::min(longest, gap);
    }
    CHECK(longest < at_once / 2);
}

TEST_CASE("large objects: if the answer of a verb cannot be read, the error says why") {
    bench b;
    b.answers->next.emplace_back(large("5", "nul"));
    object got;
    failure f, why;
    bool done = false;
    b.run(get_large(&*b.api, &got, &f, &done));
    CHECK(f == errc::syntax_error);
    parse_object(large("5", "nul"), why);
    CHECK(f.message() == "get pods default/large: decode: " + why.message());
    CHECK_FALSE(got);
}

TEST_CASE("large objects: one that cannot be read is quarantined, with the place of the error") {
    bench b;
    watcher w(b.io.get_executor());
    std::string bad = large("5", "nul");
    b.answers->next.emplace_back(pod_list({bad, pod("z")}));
    CHECK_FALSE(carry_out(b, w, list));
    REQUIRE(w.bad.size() == 1);
    failure f;
    parse_object(bad, f);
    CHECK(w.bad[0].why.message() == "list pods: decode default/large: " + f.message());
    CHECK(w.bad[0].key == object_key("default", "large"));
    CHECK(w.bad[0].from_list);
    CHECK(w.meanwhile[0] >= 4);
    CHECK(w.last.meta().name() == "z");
}

TEST_CASE("large objects: a sink can end the request in the middle of one, and nothing is left") {
    bench b;
    watcher w(b.io.get_executor());
    w.enough = 2;
    b.answers->next.emplace_back(pod_list({large("5"), pod("z")}));
    CHECK_FALSE(carry_out(b, w, list));
    CHECK(w.turns == 2);
    CHECK(w.meanwhile.empty());
    while (!w.pool().collect()) {
    }
    CHECK(w.pool().statistics().nodes == 0);
}

TEST_CASE("large objects: a request that is cancelled in the middle of one ends there, and nothing is left") {
    for (const verb what : {verb(list), verb(watch)}) {
        bench b;
        watcher w(b.io.get_executor());
        if (what == verb(list))
            b.answers->next.emplace_back(pod_list({large("5"), pod("z")}));
        else
            b.answers->next.push_back(reply().streamed({watch_event("ADDED", large("6"))}, reply::stall));
        failure f;
        bool done = false;
        task_group group(b.io.get_executor());
        w.on_turn = [&] {
            if (w.turns == 2) group.stop();
        };
        group.spawn(what(b.api->make_list_watch(pods()), &w, &f, &done));
        b.run(group.join());
        CHECK(done);
        CHECK(f == errc::cancelled);
        CHECK(w.turns == 2);
        CHECK(w.meanwhile.empty());
        while (!w.pool().collect()) {
        }
        CHECK(w.pool().statistics().nodes == 0);
    }
}

TEST_CASE("large objects: an informer lists and follows one, and stops in the middle of the next") {
    bench b;
    b.answers->next.emplace_back(pod_list({pod("a"), large("5")}));
    b.answers->next.push_back(reply().streamed(
        {watch_event("MODIFIED", large("105", "1")), watch_event("MODIFIED", large("106", "2"))}, reply::stall));
    shared_informer pods_here(b.rt, b.api->make_list_watch(pods()), informer_options().watch_list(false));
    bool ended = false;
    asio::co_spawn(b.io, pods_here.run(), [&](std::exception_ptr) { ended = true; });
    const auto version = [&] {
        const object o = pods_here.get("default/large");
        return o ? o.resource_version().str() : "absent";
    };
    b.until([&] { return version() == "5"; });
    b.until([&] { return version() == "105"; });
    CHECK(pods_here.get("default/large") == parse_object(large("105", "1")));
    const std::uint64_t size = large("5").size();
    b.until([&] { return pods_here.status().bytes_received > 3 * size; });
    pods_here.stop();
    b.until([&] { return ended; });
}
