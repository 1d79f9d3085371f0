// Indexes that are added to an informer whose cache is full already.
#include "informer_fixture.hpp"
#include "support/cpu_time.hpp"

#include <informer/cache/informer_factory.hpp>

#include <boost/asio/co_spawn.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <stdexcept>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

struct outcome {
    bool done = false;
    error_code code;
};
std::shared_ptr<outcome> spawn(asio::io_context& context, asio::awaitable<void> work) {
    auto o = std::make_shared<outcome>();
    asio::co_spawn(context, std::move(work), [o](std::exception_ptr e) {
        o->done = true;
        if (!e) return;
        try {
            std::rethrow_exception(e);
        } catch (const error& x) {
            o->code = x.code();
        }
    });
    return o;
}

std::string name(int i) {
    return "p" + std::to_string(i);
}

std::vector<std::string> pods(int n) {
    std::vector<std::string> texts;
    for (int i = 0; i < n; ++i) texts.push_back(pod(name(i), 5, "n" + std::to_string(i % 10)));
    return texts;
}

/// Takes its time, so that many slices are needed however fast the machine is.
index_function slow_index(std::string pointer) {
    return [by = index_by_pointer(std::move(pointer))](const object& o) {
        const auto until = std::chrono::steady_clock::now() + 100us;
        while (std::chrono::steady_clock::now() < until) {
        }
        return by(o);
    };
}

errc read_error(const shared_informer& from, std::string_view index) {
    try {
        from.snapshot().by_index(index, "n1");
    } catch (const error& e) {
        return static_cast<errc>(e.code().value());
    }
    return errc{};
}

} // namespace

TEST_CASE("add_index on a full cache: in slices, complete once it is visible, changes meanwhile included",
          "[informer][index]") {
    constexpr int n = 3000;
    bench b;
    const auto w = b.sync_with(pods(n), 10);
    REQUIRE(b.pods.snapshot().size() == n);
    CHECK(read_error(b.pods, "note") == errc::unknown_index);

    b.pods.add_index("note", slow_index("/spec/note"));
    b.pods.add_index("name", index_by_pointer("/metadata/name"));
    CHECK(read_error(b.pods, "note") == errc::not_synced);
    CHECK_THROWS_WITH(b.pods.lister().by_index("note", "n1"), ContainsSubstring("still being built"));
    CHECK_THROWS_AS(b.pods.add_index("note", index_by_pointer("/spec/note")), error);
    const auto ready = spawn(b.context, b.pods.index_ready("note", 1min)),
               both = spawn(b.context, b.pods.index_ready("name", 1min));
    const auto unknown = spawn(b.context, b.pods.index_ready("other", 1min)),
               early = spawn(b.context, b.pods.index_ready("name", 0s));

    // Step by step: other handlers run in between, and a part of the index is never visible.
    w->modified(pod(name(0), 20, "n1")).deleted(pod(name(1), 21, "n1")).added(pod("new", 22, "n1"));
    b.context.restart();
    int steps = 0, changed_before = 0;
    while (read_error(b.pods, "note") != errc{}) {
        REQUIRE(b.context.poll_one() != 0);
        ++steps;
        if (b.pods.get("default/new")) ++changed_before;
    }
    CHECK(steps > 10);
    CHECK(changed_before > 0); // the watch went on
    CHECK(b.pods.snapshot().by_index("note", "n1").size() == n / 10 + 1);
    CHECK(b.pods.snapshot().by_index("note", "n0").size() == n / 10 - 1);
    b.settle();
    CHECK(ready->done);
    CHECK_FALSE(ready->code);
    CHECK(both->done);
    CHECK_FALSE(both->code);
    CHECK(unknown->code == errc::unknown_index);
    CHECK(early->code == errc::deadline_exceeded);
    CHECK(b.pods.lister().by_index("name", "new").size() == 1);
    const auto again = spawn(b.context, b.pods.index_ready("note", 0s));
    b.settle();
    CHECK(again->done);
    CHECK_FALSE(again->code);
    // It is kept up to date like any other.
    w->deleted(pod("new", 30, "n1"));
    b.settle();
    CHECK(b.pods.snapshot().by_index("note", "n1").size() == n / 10);
}

TEST_CASE("add_index on a small or an empty cache is there at once", "[informer][index]") {
    bench b;
    b.pods.add_index("early", index_by_pointer("/spec/note"));
    CHECK(b.pods.snapshot().has_index("early"));
    b.sync_with(pods(250), 10);
    b.pods.add_index("late", index_by_pointer("/spec/note"));
    CHECK(b.pods.snapshot().by_index("late", "n1").size() == 25);
    CHECK(b.pods.snapshot().by_index("early", "n1").size() == 25);
}

TEST_CASE("index_ready: an index of the options is ready once the cache is filled", "[informer][index]") {
    for (const bool answers : {true, false}) {
        bench b(informer_options().index("note", index_by_pointer("/spec/note")));
        const auto ready = spawn(b.context, b.pods.index_ready("note", 1h)),
                   early = spawn(b.context, b.pods.index_ready("note", 1s));
        const auto unknown = spawn(b.context, b.pods.index_ready("other", 1h));
        b.settle();
        CHECK_FALSE(ready->done);
        CHECK(unknown->code == errc::unknown_index);
        b.pass(2s);
        CHECK(early->code == errc::deadline_exceeded);
        if (answers) {
            b.sync_with(pods(20), 10);
            CHECK(ready->done);
            CHECK_FALSE(ready->code);
            CHECK(b.pods.lister().by_index("note", "n1").size() == 2);
        }
        b.pods.stop();
        b.settle();
        const auto late = spawn(b.context, b.pods.index_ready("note", 0s));
        b.settle();
        CAPTURE(answers);
        REQUIRE((ready->done && late->done));
        const error_code is = answers ? error_code() : make_error_code(errc::stopped);
        CHECK(ready->code == is);
        CHECK(late->code == is);
    }
}

TEST_CASE("informer_factory: an index that a later request brings is built in slices too", "[factory][index]") {
    asio::io_context context{1};
    runtime rt(context.get_executor());
    rt.with_clock(std::make_shared<manual_clock>()).with_seed(1);
    const auto source = std::make_shared<scripted_list_watch>(context.get_executor());
    informer_factory factory(rt, [source](const api_resource&, const std::string&) { return source; });
    const auto settle = [&] {
        context.restart();
        while (context.poll() != 0) context.restart();
    };
    const auto w = source->on_watch();
    for (auto& text : pods(1000)) w->added(std::move(text));
    w->bookmark("10", true);
    const auto first = factory.get(source->resource());
    settle();
    REQUIRE(first->snapshot().size() == 1000);

    const auto with_index = informer_options().index("note", index_by_pointer("/spec/note"));
    const auto second = factory.get(source->resource(), "", with_index),
               third = factory.get(source->resource(), "", with_index);
    CHECK(read_error(*second, "note") == errc::not_synced);
    const auto ready = spawn(context, second->index_ready("note", 1min));
    settle();
    CHECK(ready->done);
    CHECK_FALSE(ready->code);
    CHECK(third->lister().by_index("note", "n1").size() == 100);
    const auto down = spawn(context, factory.shutdown());
    settle();
    CHECK(down->done);
    CHECK(context.stopped());
}

TEST_CASE("an index that is being built when the informer stops: the wait ends, nothing is left", "[informer][index]") {
    bench b;
    b.sync_with(pods(5000), 10);
    b.pods.add_index("note", slow_index("/spec/note"));
    const auto ready = spawn(b.context, b.pods.index_ready("note", 1min));
    b.context.restart();
    for (int i = 0; i < 5; ++i) b.context.poll_one();
    b.pods.stop();
    b.settle();
    REQUIRE(ready->done);
    CHECK(ready->code == errc::stopped);
    b.pods.add_index("after", index_by_pointer("/spec/note")); // built from the cache, at once
    CHECK(b.pods.snapshot().by_index("after", "n1").size() == 500);
}

TEST_CASE("an index added to a large cache holds the executor no longer than a slice", "[informer][index]") {
    constexpr int n = 50'000; // the length of a slice does not depend on it
    bench b(informer_options().watch_list(false).page_size(0));
    list_script all;
    all.items(pods(n)).version("10");
    b.source->on_list(all);
    b.source->on_watch();
    b.start();
    REQUIRE(b.pods.snapshot().size() == n);
    b.pods.add_index("note", index_by_pointer("/spec/note"));
    const auto ready = spawn(b.context, b.pods.index_ready("note", 1h));
    std::vector<std::chrono::nanoseconds> slices;
    b.context.restart();
    while (!ready->done) {
        const auto start = cpu_time();
        REQUIRE(b.context.poll_one() != 0);
        slices.push_back(cpu_time() - start);
    }
    std::sort(slices.begin(), slices.end(), std::greater<>());
    REQUIRE(slices.size() > 2); // a fast machine needs few
    CAPTURE(slices.size(), slices[0].count(), slices[1].count());
    CHECK(slices[slices.size() / 50] < 5ms); // except for a page fault or two
    CHECK(slices[0] < 50ms);
    CHECK(b.pods.snapshot().by_index("note", "n3").size() == n / 10);
}

TEST_CASE("nothing hides: an index function that throws is counted in status() and logged once for each index",
          "[informer][index]") {
    const auto angry_at = [](std::string what) -> index_function {
        return [what = std::move(what)](const object& o) -> std::vector<std::string> {
            if (o.at_pointer("/spec/note").string_or_empty() == what) throw std::runtime_error("no " + what);
            return {"v"};
        };
    };
    bench b(informer_options().index("one", angry_at("bad")));
    const auto w = b.sync_with({pod("a", 1, "bad"), pod("b", 2)}, 5);
    CHECK(b.pods.status().index_errors == 1);
    CHECK(b.pods.status().last_index_error == errc::index_function_failed);
    CHECK_THAT(b.pods.status().last_index_error.what(), ContainsSubstring("index \"one\", default/a: no bad"));
    CHECK(b.pods.snapshot().by_index("one", "v").size() == 1);
    w->modified(pod("a", 6, "bad"));
    b.settle();
    CHECK(b.pods.status().index_errors == 2);
    CHECK(b.log.count("no bad") == 1);
    b.pods.add_index("two", angry_at("bad"));
    CHECK(b.pods.status().index_errors == 3);
    CHECK(b.log.count("index \"one\"") == 1);
    CHECK(b.log.count("index \"two\"") == 1);
    w->modified(pod("a", 7, "good"));
    b.settle();
    CHECK(b.pods.status().index_errors == 3);
}

TEST_CASE("add_index after a stop amid a relist: indexes the state that readers see", "[informer][index]") {
    bool stopped = false;
    std::function<void()> stop;
    bench b(informer_options().watch_list(false).index("stops", [&](const object& o) -> std::vector<std::string> {
        if (!stopped && o.at_pointer("/spec/note").string_or_empty() == "stop") {
            stopped = true;
            stop();
        }
        return {"v"};
    }));
    stop = [&b] { b.pods.stop(); };
    const auto w = b.list_with({pod("a", 1, "old"), pod("b", 2, "old"), pod("c", 3, "old")}, 5);
    b.source->on_list(list_of({pod("a", 11, "stop"), pod("b", 12, "stop"), pod("c", 13, "stop"), pod("d", 14)}, "20"));
    w->fail(status_failure(410, "Expired"));
    b.settle();
    b.clock->advance(2s);
    for (int i = 0; !stopped && i < 10'000; ++i) {
        b.context.restart();
        b.context.poll_one();
    }
    REQUIRE(stopped);
    b.pods.add_index("early", index_by_pointer("/metadata/name"));
    b.settle();
    REQUIRE(b.finished);
    CHECK(b.pods.snapshot().resource_version().str() == "5");
    b.pods.add_index("late", index_by_pointer("/spec/note"));
    CHECK(b.pods.snapshot().by_index("early", "a").size() == 1);
    CHECK(b.pods.snapshot().by_index("early", "d").size() == 0);
    CHECK(b.pods.snapshot().by_index("late", "old").size() == 3);
    CHECK(b.pods.snapshot().by_index("stops", "v").size() == 3);
    CHECK(b.pods.snapshot().list_namespace("default").size() == 3);
    const auto ready = spawn(b.context, b.pods.index_ready("late", 1s));
    b.settle();
    CHECK((ready->done && !ready->code));
}
