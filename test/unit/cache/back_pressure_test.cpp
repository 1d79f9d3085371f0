// What an informer promises about a subscriber under back-pressure; each test bears the name of its promise
// (docs/promises.md).
#include "informer_fixture.hpp"

#include <memory>
#include <string>
#include <utility>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;

TEST_CASE("back_pressure: the watch waits for the subscriber, and nothing is merged", "[informer][promise]") {
    bench b(informer_options().queue_capacity(8));
    auto s = b.pods.subscribe(subscription_options().capacity(4).policy(overflow_policy::back_pressure).name("slow"));
    const auto w = b.sync_with({}, 5);
    CHECK(b.pods.status().held_up_by.empty());
    constexpr int n = 200;
    for (int i = 0; i < n; ++i) w->modified(pod("a", 10 + i, std::to_string(i)));
    b.settle();
    CHECK(s.figures().pending <= 5);
    CHECK(w->pending() > n - 40); // the stream is not read
    CHECK(b.pods.status().held_up_by == "subscription slow");
    int expected = 0;
    for (int round = 0; round < n && expected < n; ++round) {
        while (auto e = s.try_next()) {
            CHECK(e->current.at_pointer("/spec/note").string_or_empty() == std::to_string(expected));
            ++expected;
        }
        b.settle();
    }
    CHECK(expected == n);
    CHECK(s.figures().coalesced == 0);
    CHECK(w->pending() == 0);
    CHECK(b.pods.status().held_up_by.empty());
}

TEST_CASE("back_pressure: while the informer waits, events of one batch are all delivered, one by one",
          "[informer][promise]") {
    bench b;
    auto s = b.pods.subscribe(subscription_options().capacity(4).policy(overflow_policy::back_pressure));
    const auto w = b.sync_with({}, 5);
    w->begin_change();
    for (int i = 0; i < 4; ++i) w->added(pod("p" + std::to_string(i), 6 + i));
    w->end_change();
    w->added(pod("last", 11));
    b.settle();
    REQUIRE_FALSE(b.pods.status().held_up_by.empty());
    auto told = read_all(s);
    b.settle();
    for (auto& one : read_all(s)) told.push_back(std::move(one));
    CHECK(told == words{"+p0:6", "+p1:7", "+p2:8", "+p3:9", "+last:11"});
}

TEST_CASE("back_pressure: a subscriber that closes lets the watch go on", "[informer][promise]") {
    bench b(informer_options().queue_capacity(8));
    auto s = b.pods.subscribe(subscription_options().capacity(4).policy(overflow_policy::back_pressure));
    const auto w = b.sync_with({}, 5);
    for (int i = 0; i < 100; ++i) w->modified(pod("a", 10 + i));
    b.settle();
    CHECK(w->pending() > 0);
    s.close();
    b.settle();
    CHECK(w->pending() == 0);
    CHECK(b.pods.get("default/a").resource_version().str() == "109");
}

namespace {

/// Each list brings a new version of all objects; no watch lasts.
class ever_new final : public list_watch {
public:
    static constexpr int objects = 20;
    ever_new(failure end, bool versions) : end_(std::move(end)), versions_(versions) {}
    const api_resource& resource() const override { return resource_; }
    std::string describe() const override { return "pods"; }
    asio::awaitable<list_result> list(list_options, object_sink& sink, failure&) override { return give(this, &sink); }
    asio::awaitable<void> watch(watch_options, object_sink&, failure& f) override { return end(this, &f); }

    int lists = 0;
    document_pool* pool = nullptr; ///< the informer's

private:
    static asio::awaitable<list_result> give(ever_new* s, object_sink* sink) {
        sink->opened();
        ++s->lists;
        s->pool = &sink->pool();
        list_result all;
        for (int i = 0; i < objects; ++i) {
            failure f;
            const std::string text = pod("p" + std::to_string(i), s->lists, std::to_string(s->lists));
            sink->item(sink->pool().decode(text, object(), f));
            const bool go_on = co_await sink->ready();
            if (!go_on) co_return all;
        }
        if (s->versions_) all.resource_version = resource_version(std::to_string(s->lists));
        all.items = objects;
        co_return all;
    }
    static asio::awaitable<void> end(ever_new* s, failure* f) {
        *f = s->end_;
        co_return;
    }

    api_resource resource_{"", "v1", "pods", "Pod"};
    failure end_;
    bool versions_;
};

} // namespace

TEST_CASE("back_pressure: states that are fetched again and again do not pile up behind the subscriber",
          "[informer][promise]") {
    for (const int code : {405, 410, 0}) {
        CAPTURE(code);
        bench b;
        const auto source = std::make_shared<ever_new>(code != 0 ? status_failure(code, "No") : failure(), code != 0);
        shared_informer pods(b.rt, source, informer_options().watch_list(false));
        auto stuck = pods.subscribe(subscription_options().capacity(2).policy(overflow_policy::back_pressure));
        auto other = pods.subscribe();
        bool finished = false;
        asio::co_spawn(b.context, pods.run(), [&finished](std::exception_ptr) { finished = true; });
        b.settle();
        for (int i = 0; i < 50; ++i) b.pass(61s);
        CHECK(source->lists <= 3); // in the cache, on its way to the subscriber, and what was waited for
        const informer_status held = pods.status();
        CHECK_FALSE(held.held_up_by.empty());
        CHECK(held.pool.objects == source->pool->statistics().objects); // nothing that waits is hidden
        CHECK(held.pool.objects <= 3 * ever_new::objects);

        const int before = source->lists;
        read_all(stuck);
        for (int i = 0; i < ever_new::objects; ++i) {
            b.settle();
            read_all(stuck);
        }
        if (source->lists == before) b.pass(61s);
        CHECK(source->lists > before);
        stuck.close();
        b.settle();
        for (int i = 0; i < 10; ++i) b.pass(61s);
        CHECK(source->lists > before + 5);
        const std::string newest = std::to_string(source->lists);
        const object there = pods.get("default/p7");
        CHECK(there.at_pointer("/spec/note").string_or_empty() == newest);
        std::string told;
        while (const auto e = other.try_next())
            if (e->key().name == "p7") told = e->current.at_pointer("/spec/note").string_or_empty().str();
        CHECK(told == newest);

        auto again = pods.subscribe(subscription_options().capacity(2).policy(overflow_policy::back_pressure));
        for (int i = 0; i < 5; ++i) b.pass(61s);
        CHECK_FALSE(pods.status().held_up_by.empty());
        pods.stop(); // amid the wait
        b.settle();
        CHECK(finished);
    }
}
