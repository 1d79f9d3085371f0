// What an informer reports to its metrics sink.
#include "informer_fixture.hpp"
#include "support/recording_sink.hpp"

#include <informer/cache/informer_factory.hpp>

#include <boost/asio/post.hpp>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;

namespace {

/// Any number of informers that report to one sink.
class measured {
public:
    measured() : told(std::make_shared<recording_sink>()), rt(here.rt) { rt.with_metrics(told); }
    ~measured() {
        for (shared_informer& one : informers) one.stop();
        here.settle();
    }
    shared_informer& add(informer_options options, std::vector<std::string> objects) {
        const auto source = std::make_shared<scripted_list_watch>(here.context.get_executor());
        shared_informer& one = informers.emplace_back(rt, source, std::move(options));
        watches.push_back(source->on_watch());
        for (std::string& o : objects) watches.back()->added(std::move(o));
        watches.back()->bookmark("9", true);
        boost::asio::co_spawn(here.context, one.run(), [](std::exception_ptr) {});
        here.settle();
        return one;
    }
    std::map<std::string, double> gauges_of(std::string_view name) const {
        std::map<std::string, double> out;
        for (const auto& [series, value] : told->gauges)
            if (series.starts_with(std::string(name) + " ")) out.emplace(series.substr(name.size() + 1), value);
        return out;
    }

    bench here;
    std::shared_ptr<recording_sink> told;
    runtime rt;
    std::deque<shared_informer> informers;
    std::vector<std::shared_ptr<watch_script>> watches;
};
using series = std::map<std::string, double>;

} // namespace

TEST_CASE("informers of one resource with different selectors or names have series of their own",
          "[informer][metrics]") {
    measured m;
    const shared_informer all = m.add(informer_options(), {pod("a", 1), pod("b", 2), pod("c", 3)});
    const shared_informer web = m.add(informer_options().labels("app=web"), {pod("a", 1), pod("b", 2)});
    m.add(informer_options().labels("app=web").fields("spec.nodeName=n1"), {pod("a", 1)});
    m.add(informer_options().metadata_only(), {pod("a", 1), pod("b", 2), pod("c", 3), pod("d", 4)});
    const shared_informer east = m.add(informer_options().labels("app=web").name("pods in east"), {});
    CHECK(m.gauges_of("informer_objects") == series{{"resource=pods", 3},
                                                    {"resource=pods, labels app=web", 2},
                                                    {"resource=pods, labels app=web, fields spec.nodeName=n1", 1},
                                                    {"resource=pods, metadata only", 4},
                                                    {"resource=pods in east", 0}});
    CHECK(all.status().name == "pods");
    CHECK(web.status().name == "pods, labels app=web");
    CHECK(east.status().name == "pods in east");
    CHECK(east.status().resource == "pods");
}

TEST_CASE("the gauges of an informer that is gone are 0", "[informer][metrics]") {
    const std::vector<std::string> names = {"informer_objects", "informer_bytes", "informer_queue_depth",
                                            "informer_listener_pending"};
    measured m;
    SECTION("stopped") {
        shared_informer& pods = m.add(informer_options(), {pod("a", 1)});
        CHECK(m.gauges_of("informer_objects") == series{{"resource=pods", 1}});
        CHECK(m.gauges_of("informer_bytes").at("resource=pods") > 0);
        pods.stop();
        m.here.settle();
        CHECK(pods.status().objects == 1); // its cache can still be read
        for (const std::string& name : names) CHECK(m.gauges_of(name) == series{{"resource=pods", 0}});
    }
    SECTION("with its context") {
        {
            boost::asio::io_context context;
            runtime rt(context.get_executor());
            rt.with_metrics(m.told);
            const auto source = std::make_shared<scripted_list_watch>(context.get_executor());
            source->on_watch()->added(pod("a", 1)).bookmark("1", true);
            shared_informer pods(rt, source);
            boost::asio::co_spawn(context, pods.run(), [](std::exception_ptr) {});
            context.poll();
            CHECK(m.gauges_of("informer_objects") == series{{"resource=pods", 1}});
        }
        for (const std::string& name : names) CHECK(m.gauges_of(name) == series{{"resource=pods", 0}});
    }
    SECTION("one that never ran reports none") {
        shared_informer pods(m.rt, std::make_shared<scripted_list_watch>(m.here.context.get_executor()));
        static_cast<void>(pods.run());
        pods.stop();
        CHECK(m.told->gauges.empty());
    }
}

TEST_CASE("an informer that stops leaves no series in its sink", "[informer][metrics]") {
    measured m;
    const auto source = std::make_shared<scripted_list_watch>(m.here.context.get_executor());
    shared_informer& pods = m.informers.emplace_back(m.rt, source, informer_options().watch_list(false));
    source->on_list(list_of({pod("a", 1), pod("b", 1)}, "1"));
    const auto w = source->on_watch();
    boost::asio::co_spawn(m.here.context, pods.run(), [](std::exception_ptr) {});
    m.here.settle();
    w->added(pod("c", 2)).modified(pod("a", 3)).deleted(pod("b", 4));
    m.here.settle();
    const std::size_t all = 5 + 1 + 3 + 5 + 6; // gauges, lag, events, restarts, counters: what docs/metrics.md lists
    CHECK(m.told->live.size() == all);
    SECTION("stopped") {
        pods.stop();
        m.here.settle();
        CHECK(m.told->live == std::set<std::string>());
    }
    SECTION("others stay") {
        m.add(informer_options().labels("app=web"), {});
        const auto both = m.told->live.size();
        pods.stop();
        m.here.settle();
        CHECK(m.told->live.size() == both - all);
    }
}

TEST_CASE("an informer that stops leaves the series of another one of its name alone; the last one ends them",
          "[informer][metrics]") {
    measured m;
    std::vector<std::shared_ptr<scripted_list_watch>> sources;
    informer_factory factory(m.rt, [&](const api_resource& r, const std::string&) {
        const auto s = std::make_shared<scripted_list_watch>(m.here.context.get_executor(), r);
        s->on_watch()->added(pod("a", 1)).bookmark("5", true);
        sources.push_back(s);
        return s;
    });
    const api_resource resource("", "v1", "pods", "Pod");
    informer_handle h = factory.get(resource);
    m.here.settle();
    const std::set<std::string> all = m.told->live;
    CHECK_FALSE(all.empty());
    h.release(); // not ended yet
    h = factory.get(resource);
    m.here.settle();
    REQUIRE(sources.size() == 2);
    CHECK(h->has_synced());
    CHECK(m.told->live == all);
    CHECK(m.told->gauges.at("informer_objects resource=pods") == 1);
    CHECK(m.told->counters.at("informer_watch_requests_total resource=pods") == 2);
    h.release();
    m.here.settle();
    CHECK(m.told->live.empty());
    CHECK(m.told->gauges.at("informer_objects resource=pods") == 0);
}

TEST_CASE("counters of failures begin at 0, so that the first failure is growth", "[informer][metrics]") {
    measured m;
    m.add(informer_options(), {});
    const series none = {{"informer_bad_objects_total resource=pods", 0},
                         {"informer_handler_exceptions_total resource=pods", 0},
                         {"informer_relists_total resource=pods", 0},
                         {"informer_restarts_total resource=pods reason=list", 0},
                         {"informer_restarts_total resource=pods reason=watch-list", 0},
                         {"informer_restarts_total resource=pods reason=open", 0},
                         {"informer_restarts_total resource=pods reason=stream", 0},
                         {"informer_restarts_total resource=pods reason=decode", 0}};
    for (const auto& [name, value] : none) {
        INFO(name);
        REQUIRE(m.told->counters.contains(name));
        CHECK(m.told->counters.at(name) == value);
    }
    m.watches[0]->added(R"({"apiVersion":"v1","kind":"Pod"})");
    m.here.settle();
    CHECK(m.told->counters.at("informer_bad_objects_total resource=pods") == 1);
}

namespace {

/// One informer, and the sink that it reports to.
struct metered {
    explicit metered(informer_options options = informer_options())
        : told(std::make_shared<recording_sink>()),
          source(std::make_shared<scripted_list_watch>(here.context.get_executor())),
          pods(telling(), source, std::move(options)) {}
    ~metered() {
        pods.stop();
        here.settle();
    }
    void start() {
        boost::asio::co_spawn(here.context, pods.run(), [](std::exception_ptr) {});
        here.settle();
    }
    /// A subscriber with room for one event, which holds up the informer.
    subscription slow_one(subscription_options options = subscription_options()) {
        return pods.subscribe(options.capacity(1).policy(overflow_policy::back_pressure));
    }

    bench here;
    std::shared_ptr<recording_sink> told;
    std::shared_ptr<scripted_list_watch> source;
    shared_informer pods;

private:
    runtime telling() const {
        runtime rt = here.rt;
        rt.with_metrics(told);
        return rt;
    }
};

} // namespace

TEST_CASE("requests, bytes, relists and the events of each type are counted", "[informer][metrics]") {
    metered m(informer_options().watch_list(false));
    std::uint64_t bytes = 0;
    const auto counted = [&bytes](std::string text) {
        bytes += text.size();
        return text;
    };
    m.source->on_list(list_of({counted(pod("a", 1)), counted(pod("b", 2))}, "2"));
    const auto w = m.source->on_watch();
    m.start();
    w->added(counted(pod("c", 3))).modified(counted(pod("a", 4))).modified(counted(pod("a", 5)));
    m.here.settle();
    w->deleted(counted(pod("b", 6)));
    m.here.settle();
    // The relist finds d, and a and c gone.
    m.source->on_list(list_of({counted(pod("d", 8))}, "9"));
    m.source->on_watch();
    w->fail(status_failure(410, "Expired"));
    m.here.settle();
    m.here.pass(2s);
    REQUIRE(m.pods.snapshot().size() == 1);
    const auto counter = [&m](const std::string& name) { return m.told->counters["informer_" + name]; };
    CHECK(counter("events_total resource=pods type=ADDED") == 2);
    CHECK(counter("events_total resource=pods type=MODIFIED") == 2);
    CHECK(counter("events_total resource=pods type=DELETED") == 3);
    CHECK(counter("list_requests_total resource=pods") == 2);
    CHECK(counter("watch_requests_total resource=pods") == 2);
    CHECK(counter("relists_total resource=pods") == 1);
    CHECK(counter("received_bytes_total resource=pods") >= static_cast<double>(bytes));
    CHECK(counter("received_bytes_total resource=pods") == static_cast<double>(m.pods.status().bytes_received));
}

TEST_CASE("the lag from a change's arrival until every subscriber has it is a metric", "[informer][metrics]") {
    metered m;
    const auto w = m.source->on_watch();
    w->bookmark("1", true);
    auto events = m.slow_one();
    m.start();
    const std::vector<double>& lags = m.told->samples["informer_lag_seconds resource=pods"];
    CHECK(lags.empty()); // the initial state is no change
    w->added(pod("a", 2)).added(pod("b", 3)).added(pod("c", 4));
    m.here.settle();
    CHECK(std::count(lags.begin(), lags.end(), 3.0) == 0); // a subscriber holds it up
    m.here.pass(3s);
    for (int i = 0; i < 3; ++i) {
        CHECK(events.try_next());
        m.here.settle();
    }
    CHECK(std::count(lags.begin(), lags.end(), 3.0) >= 1);
    CHECK(std::all_of(lags.begin(), lags.end(), [](double lag) { return lag >= 0 && lag <= 3; }));
}

TEST_CASE("while a subscriber holds an informer up, the depth of its queue and its status show that",
          "[informer][metrics]") {
    metered m(informer_options().queue_capacity(4));
    const auto w = m.source->on_watch();
    w->bookmark("1", true);
    auto events = m.slow_one();
    m.start();
    const auto depth = [&m] { return m.told->gauges.at("informer_queue_depth resource=pods"); };
    CHECK(depth() == 0);
    w->added(pod("a", 2));
    m.here.settle();
    w->added(pod("b", 3));
    m.here.settle(); // the informer waits for room for this one
    CHECK(m.pods.status().objects == 2);
    CHECK(m.pods.status().resource_version.str() == "3");
    CHECK(m.told->gauges.at("informer_objects resource=pods") == 2);
    for (int i = 0; i < 3; ++i) {
        w->added(pod("c" + std::to_string(i), 4 + i));
        m.here.settle();
        CHECK(depth() == i + 1);
    }
    for (int i = 0; i < 9; ++i) w->added(pod("d" + std::to_string(i), 10 + i));
    m.here.settle();
    CHECK(depth() >= 4); // full
    int delivered = 0;
    while (events.try_next()) {
        ++delivered;
        m.here.settle();
    }
    CHECK(delivered == 14);
    CHECK(depth() == 0);
    CHECK(m.pods.status().objects == 14);
}

TEST_CASE("a metric says how much waits for the slowest listener, each half minute, also while it holds up the others",
          "[informer][metrics]") {
    metered m;
    const auto w = m.source->on_watch();
    w->bookmark("1", true);
    auto quick = m.pods.subscribe();
    auto slow = m.pods.subscribe(subscription_options().capacity(4));
    std::optional<subscription> stuck;
    m.start();
    read_all(quick);
    read_all(slow);
    const auto pending = [&m] { return m.told->gauges.at("informer_listener_pending resource=pods"); };
    const auto change = [&](int from, int n) {
        for (int i = from; i < from + n; ++i) w->added(pod("a" + std::to_string(i), i));
        m.here.settle();
        read_all(quick);
    };
    CHECK(pending() == 0);
    change(2, 3);
    CHECK(pending() == 0); // not yet looked at
    m.here.pass(30s);
    CHECK(pending() == 3);
    change(5, 6); // past its capacity
    m.here.pass(30s);
    CHECK(pending() == 9);
    SECTION("it catches up") {
        read_all(slow);
        m.here.pass(30s);
        CHECK(pending() == 0);
    }
    SECTION("it leaves") {
        slow.close();
        m.here.pass(30s);
        CHECK(pending() == 0);
    }
    SECTION("it holds up the others") {
        read_all(slow);
        stuck.emplace(m.slow_one());
        read_all(*stuck);
        change(20, 5);
        m.here.pass(30s);
        CHECK(pending() >= 1);
        CHECK(pending() < 5);
    }
}

TEST_CASE("events that a handler has in hand wait for it, too, in the metric of the slowest listener",
          "[informer][metrics]") {
    metered m;
    const auto w = m.source->on_watch();
    w->bookmark("1", true);
    m.start();
    std::size_t calls = 0;
    const auto slow = [&calls](const object&, bool) {
        ++calls;
        const auto end = std::chrono::steady_clock::now() + 300us;
        while (std::chrono::steady_clock::now() < end) {
        }
    };
    const auto h = m.pods.add_event_handler(slow, nullptr, nullptr);
    m.here.settle();
    w->begin_change(); // all in one piece
    for (int i = 0; i < 199; ++i) w->added(pod("a" + std::to_string(i), 2));
    w->end_change();
    double most = 0;
    std::function<void()> look = [&] { // between two slices of calls
        most = std::max(most, m.told->gauges.at("informer_listener_pending resource=pods"));
        if (calls != 0 && most == 0) m.here.clock->advance(30s);
        if (calls < 199) boost::asio::post(m.here.context, look);
    };
    boost::asio::post(m.here.context, look);
    m.here.settle();
    CHECK(calls == 199);
    CHECK(most > 100);
    m.here.pass(30s);
    CHECK(m.told->gauges.at("informer_listener_pending resource=pods") == 0);
}

TEST_CASE("while a resync waits for its subscriber, the depth of the queue is reported", "[informer][metrics]") {
    metered m;
    const auto w = m.source->on_watch();
    for (int i = 0; i < 5; ++i) w->added(pod("a" + std::to_string(i), 1));
    w->bookmark("5", true);
    auto events = m.slow_one(subscription_options().resync(10s));
    m.start();
    while (events.try_next()) m.here.settle();
    m.here.pass(13s);
    w->added(pod("b", 6));
    m.here.settle();
    CHECK(m.told->gauges.at("informer_queue_depth resource=pods") == 1);
}

TEST_CASE(
    "a metric says when the cache was last known to be up to date; it stands still while a subscriber holds that up",
    "[informer][metrics]") {
    metered m;
    const auto w = m.source->on_watch();
    w->added(pod("a", 1)).bookmark("1", true);
    CHECK(m.told->gauges.count("informer_confirmed_timestamp_seconds resource=pods") == 0);
    m.start();
    const auto age = [&m] {
        const std::chrono::duration<double> now = m.here.clock->wall().time_since_epoch();
        return now.count() - m.told->gauges.at("informer_confirmed_timestamp_seconds resource=pods");
    };
    CHECK(age() == 0);
    auto slow = m.slow_one();
    read_all(slow);
    m.here.pass(10s);
    CHECK(age() == 10);
    for (int i = 2; i < 6; ++i) {
        w->modified(pod("a", i));
        m.here.pass(10s);
    }
    CHECK(age() >= 30); // there was room for one; the others wait
    while (slow.figures().pending != 0) {
        read_all(slow);
        m.here.settle();
    }
    w->bookmark("7", false);
    m.here.settle();
    CHECK(age() == 0);
}

TEST_CASE("the cache is confirmed as not behind the server once a state is in it, not while it is put there",
          "[informer][metrics]") {
    bench b;
    const auto w = b.sync_with({pod("a", 1)}, 5);
    const auto confirmed = b.pods.status().confirmed;
    b.pass(10s);
    w->fail(status_failure(410, "Expired"));
    const auto next = b.source->on_watch();
    for (int i = 0; i < 100'000; ++i) next->added(pod("b" + std::to_string(i), 10));
    b.settle();
    for (int i = 0; i < 5; ++i) b.pass(2s);
    REQUIRE(next->pending() == 0);
    next->bookmark("20", true);
    // One handler at a time, with time going by, so that the guard of the watch runs, too.
    std::size_t meanwhile = 0;
    b.context.restart();
    while (b.context.poll_one() != 0) {
        const auto now = b.pods.status();
        if (now.objects == 1) { // the old state
            ++meanwhile;
            REQUIRE(now.confirmed == confirmed);
        }
        if (meanwhile != 0) b.clock->advance(100ms);
        b.context.restart();
    }
    CHECK(meanwhile > 10);
    CHECK(b.pods.status().objects == 100'000);
    CHECK(b.pods.status().confirmed > confirmed);
}

TEST_CASE("each exception of a handler or of its filter is counted, also those that are not logged again",
          "[informer][metrics]") {
    metered m;
    const auto w = m.source->on_watch();
    w->added(pod("a", 1)).bookmark("1", true);
    const auto throws = [](const object&, const object&) { throw std::runtime_error("always the same"); };
    const auto odd = [](const object& o) -> bool {
        if (o.name() == "odd") throw 1;
        return true;
    };
    const auto one = m.pods.add_event_handler(nullptr, throws, nullptr);
    const auto other = m.pods.add_event_handler(odd, nullptr, throws, nullptr);
    m.start();
    const auto counted = [&m] { return m.told->counters.at("informer_handler_exceptions_total resource=pods"); };
    CHECK(counted() == 0);
    for (int v = 2; v < 5; ++v) w->modified(pod("a", v));
    m.here.settle();
    CHECK(counted() == 6);
    w->added(pod("odd", 9));
    m.here.settle();
    CHECK(counted() == 7);
    CHECK(one.exceptions() + other.exceptions() == 7);
}
