// The event recorder: what it writes, and what becomes of events that cannot be written.
#include "event_scene.hpp"

#include "support/log_capture.hpp"
#include "support/system_calls.hpp"
#include "support/temporary_folder.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <sys/stat.h>

using namespace server_test;

namespace {

asio::awaitable<void> on_the_server() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.config_map("a");
    event_recorder recorder(b.rt, b.client, event_recorder_options("sample-controller").instance("me"));
    task_group group(ex);
    group.spawn(recorder.run());
    const object a = b.read("a");
    recorder.event(a, event_type::normal, "Synced", "Sync", std::string(1000, 'x') + "ä" + std::string(1000, 'y'), a);
    const std::function<bool()> one = [&] { return b.server.list("events.events.k8s.io", "default").size() == 1; };
    bool ok = co_await eventually(one);
    REQUIRE(ok);
    json::value e = b.server.list("events.events.k8s.io", "default")[0];
    CHECK(e.at("reason") == "Synced");
    CHECK(e.at("action") == "Sync");
    CHECK(e.at("type") == "Normal");
    CHECK(e.at("reportingController") == "sample-controller");
    CHECK(e.at("reportingInstance") == "me");
    CHECK(e.at("eventTime") == "2024-01-01T00:00:00.000000Z");
    CHECK(e.at("note").as_string().size() <= 1024);
    CHECK(e.at("regarding").at("name") == "a");
    CHECK(e.at("regarding").at("uid").as_string() == a.uid());
    CHECK(e.at("regarding").at("resourceVersion").as_string() == a.resource_version().str());
    CHECK(e.at("related").at("kind") == "ConfigMap");
    CHECK_FALSE(e.as_object().contains("series"));
    b.clock->advance(1500ms);
    // Notes that differ only in what is cut off are the same event.
    recorder.event(a, event_type::normal, "Synced", "Sync", std::string(1000, 'x') + "ä" + std::string(1000, 'y') + "z",
                   a);
    const std::function<bool()> two = [&] {
        return b.server.list("events.events.k8s.io", "default")[0].as_object().contains("series");
    };
    ok = co_await eventually(two);
    REQUIRE(ok);
    e = b.server.list("events.events.k8s.io", "default")[0];
    CHECK(e.at("series").at("count") == 2);
    CHECK(e.at("series").at("lastObservedTime") == "2024-01-01T00:00:01.500000Z");
    // Events of cluster-scoped objects go to "default" (EV4).
    recorder.event(from_value(json::parse(R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"n","uid":"1"}})")),
                   event_type::warning, "NotReady", "", "gone");
    const std::function<bool()> node = [&] { return b.server.list("events.events.k8s.io", "default").size() == 2; };
    ok = co_await eventually(node);
    CHECK(ok);
    const std::function<bool()> sent = [&] { return recorder.figures().written == 3; };
    ok = co_await eventually(sent);
    CHECK(ok);
    CHECK(recorder.figures().failed == 0);
    group.stop();
    co_await group.join();
    co_await b.server.stop();
}

asio::awaitable<void> with_more_words() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    event_recorder recorder(b.rt, b.client, event_recorder_options("c"));
    task_group group(ex);
    group.spawn(recorder.run());
    for (const char* container : {"web", "log", "log"}) {
        event_record e = about("a");
        e.regarding.field_path = std::string("spec.containers{") + container + "}";
        e.annotations["trace"] = container;
        recorder.event(std::move(e));
    }
    const bool sent = co_await recorder.flush(std::chrono::nanoseconds::max());
    CHECK(sent);
    const auto events = b.server.list("events.events.k8s.io", "default");
    REQUIRE(events.size() == 2);
    for (const json::value& e : events) {
        const bool web = e.at("metadata").at("annotations").at("trace") == "web";
        CHECK(e.at("regarding").at("fieldPath") == (web ? "spec.containers{web}" : "spec.containers{log}"));
        CHECK(e.as_object().contains("series") == !web);
    }
    group.stop();
    co_await group.join();
    co_await b.server.stop();
}

asio::awaitable<void> with_too_long_words() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    event_recorder recorder(b.rt, b.client, event_recorder_options("c").instance(std::string(200, 'i')));
    task_group group(ex);
    group.spawn(recorder.run());
    event_record e = about("a", std::string(127, 'r') + "ä");
    e.action = std::string(129, 'a');
    recorder.event(std::move(e));
    const bool sent = co_await recorder.flush(std::chrono::nanoseconds::max());
    CHECK(sent);
    const auto events = b.server.list("events.events.k8s.io", "default");
    REQUIRE(events.size() == 1);
    CHECK(events[0].at("reason").as_string() == std::string(127, 'r'));
    CHECK(events[0].at("action").as_string() == std::string(128, 'a'));
    CHECK(events[0].at("reportingInstance").as_string() == std::string(128, 'i'));
    group.stop();
    co_await group.join();
    co_await b.server.stop();
}

asio::awaitable<void> where_nobody_reads_them() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.server.create(json::parse(R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"work"}})"));
    b.server.create(json::parse(
        R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"work","name":"a","finalizers":["x.io/y"]}})"));
    b.server.remove("namespaces", "", "work");
    informer::testing::log_capture log;
    b.rt.with_logger(log.logger(), log_level::debug);
    event_recorder recorder(b.rt, b.client, event_recorder_options("c"));
    task_group group(ex);
    group.spawn(recorder.run());
    event_record e = about("a");
    e.regarding.name_space = "work";
    recorder.event(std::move(e));
    const std::function<bool()> lost = [&] { return recorder.figures().failed == 1; };
    const bool ok = co_await eventually(lost);
    CHECK(ok);
    CHECK(log.count("is lost") == 1);
    CHECK(log.count(log_level::warning) == 0);
    group.stop();
    co_await group.join();
    co_await b.server.stop();
}

asio::awaitable<void> flush_for_ever(event_recorder* recorder, bool* over) {
    const bool flushed = co_await recorder->flush(std::chrono::nanoseconds::max());
    CHECK(flushed);
    *over = true;
}

asio::awaitable<void> flush_in_a_second(event_recorder* recorder, std::vector<bool>* answers) {
    const bool flushed = co_await recorder->flush(1s);
    answers->push_back(flushed);
}

asio::awaitable<void> flushed() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.config_map("a");
    const object a = b.read("a");
    event_recorder recorder(b.rt, b.client, event_recorder_options("c"));
    task_group group(ex);
    group.spawn(recorder.run());
    // The clock stands still.
    std::vector<bool> answers;
    for (const char* reason : {"One", "Two"}) recorder.event(a, event_type::normal, reason, "", "x");
    for (int i = 0; i < 2; ++i) group.spawn(flush_in_a_second(&recorder, &answers));
    const std::function<bool()> both = [&] { return answers.size() == 2; };
    bool ok = co_await eventually(both);
    CHECK(ok);
    CHECK(answers == std::vector<bool>{true, true});
    CHECK(recorder.figures().written == 2);
    // For an event that cannot be sent, a flush waits as long as it was told.
    b.server.stop_listening();
    recorder.event(a, event_type::normal, "Three", "", "x");
    group.spawn(flush_in_a_second(&recorder, &answers));
    co_await settle(100);
    CHECK(answers.size() == 2);
    b.clock->advance(1s);
    const std::function<bool()> third = [&] { return answers.size() == 3; };
    ok = co_await eventually(third);
    CHECK(ok);
    CHECK_FALSE(answers.back());
    group.stop();
    co_await group.join();
    co_await b.server.stop();
}

asio::awaitable<void> in_trouble() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.config_map("a");
    const object a = b.read("a");
    event_recorder recorder(b.rt, b.client, event_recorder_options("c").capacity(3).tries(3));
    task_group group(ex);
    group.spawn(recorder.run());
    // Refused: given up at once.
    b.server.inject(fault(fault::kind::status).with_code(403));
    recorder.event(a, event_type::normal, "Refused", "", "x");
    const std::function<bool()> refused = [&] {
        return recorder.figures().failed == 1 && recorder.figures().pending == 0;
    };
    bool ok = co_await eventually(refused);
    CHECK(ok);
    // Unreachable: tried again after ten seconds or a little more, then written.
    b.server.stop_listening();
    recorder.event(a, event_type::normal, "Unreachable", "", "x");
    const std::function<bool()> sleeping = [&] { return b.clock->waiters() != 0; };
    ok = co_await eventually(sleeping);
    CHECK(ok);
    for (int i = 0; i < 5; ++i) recorder.event(a, event_type::normal, "More" + std::to_string(i), "", "x");
    CHECK(recorder.figures().dropped == 3); // no room: capacity is three
    CHECK(recorder.figures().pending == 3);
    bool over = false;
    group.spawn(flush_for_ever(&recorder, &over));
    co_await settle();
    CHECK_FALSE(over);
    b.server.start_listening();
    b.clock->advance(13s);
    const std::function<bool()> through = [&] { return recorder.figures().written == 3; };
    ok = co_await eventually(through);
    CHECK(ok);
    const bool flushed = co_await recorder.flush(1s);
    CHECK(flushed);
    const std::function<bool()> ended = [&] { return over; };
    ok = co_await eventually(ended);
    CHECK(ok);
    // An event that was dropped for lack of room does not count as known.
    recorder.event(a, event_type::normal, "More4", "", "x");
    const std::function<bool()> four = [&] { return recorder.figures().written == 4; };
    ok = co_await eventually(four);
    CHECK(ok);
    CHECK(b.server.list("events.events.k8s.io", "default").size() == 4);
    group.stop();
    co_await group.join();
    co_await b.server.stop();
}

/// A namespace whose Events the server cannot store.
asio::awaitable<void> one_fails() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    const auto bad = [](const informer::testing::request_info& q) { return q.name_space == "bad"; };
    const auto tries = [&](std::string_view verb) {
        const auto all = b.server.requests();
        return std::count_if(all.begin(), all.end(), [&](const auto& q) { return bad(q) && q.verb == verb; });
    };
    b.server.inject(fault(fault::kind::status).with_code(500).on(bad).repeat(1000));
    event_recorder recorder(b.rt, b.client, event_recorder_options("c").tries(3));
    task_group group(ex);
    group.spawn(recorder.run());
    event_record first = about("a");
    first.regarding.name_space = "bad";
    recorder.event(first);
    recorder.event(first); // a series, which waits behind its first event
    for (int i = 0; i < 20; ++i) recorder.event(about("good" + std::to_string(i)));
    const std::function<bool()> good = [&] { return recorder.figures().written == 20; };
    bool ok = co_await eventually(good); // the clock stands still
    CHECK(ok);
    CHECK(recorder.figures().pending == 2);
    CHECK(tries("create") == 1);
    CHECK(tries("patch") == 0);
    const std::function<bool()> given_up = [&] {
        // while a request is under way, this is the deadline of the request, which is far off
        const auto next = b.clock->next_deadline();
        if (next && *next <= b.clock->now() + 13s) b.clock->advance(13s);
        return recorder.figures().failed == 2 && recorder.figures().pending == 0;
    };
    ok = co_await eventually(given_up);
    CHECK(ok);
    CHECK(tries("create") == 3);
    CHECK(tries("patch") == 3);
    CHECK(recorder.figures().written == 20);
    group.stop();
    co_await group.join();
    co_await b.server.stop();
}

/// If there is no credential to send an event with, or no answer in time, no server has refused the event.
asio::awaitable<void> unsent(bool credential) {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    const informer::testing::temporary_folder folder;
    kubernetes::client_config c;
    c.server = b.server.url();
    if (credential) {
        c.credentials.exec.command = folder.path("no-such-plugin");
    } else {
        c.time_limit = 200ms; // real time, and shorter than the time-outs of a single request
        b.server.inject(fault(fault::kind::stall_after));
    }
    event_recorder recorder(b.rt, kubernetes::client(b.rt, c), event_recorder_options("c"));
    task_group group(ex);
    group.spawn(recorder.run());
    for (int i = 0; i < 5; ++i) recorder.event(about("a" + std::to_string(i)));
    const std::function<bool()> tried = [&] { return b.clock->waiters() != 0; };
    bool ok = co_await eventually(tried);
    CHECK(ok);
    co_await settle();
    CHECK(recorder.figures().failed == 0);
    if (credential) {
        CHECK(recorder.figures().pending == 5);
        const std::string plugin =
            folder.write("no-such-plugin", "#!/bin/sh\necho '{\"kind\":\"ExecCredential\",\"apiVersion\":"
                                           "\"client.authentication.k8s.io/v1\",\"status\":{\"token\":\"t\"}}'\n");
        REQUIRE(::chmod(plugin.c_str(), 0700) == 0);
    }
    const std::function<bool()> written = [&] {
        if (const auto next = b.clock->next_deadline(); next && *next <= b.clock->now() + 13s) b.clock->advance(13s);
        return recorder.figures().written == 5;
    };
    ok = co_await eventually(written);
    CHECK(ok);
    CHECK(recorder.figures().failed == 0);
    group.stop();
    co_await group.join();
    co_await b.server.stop();
}

/// The server is there, but one event gets no answer in time.
asio::awaitable<void> one_times_out() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    kubernetes::client_config c;
    c.server = b.server.url();
    c.time.header(200ms); // real time
    b.server.inject(fault(fault::kind::stall_after).verb("create"));
    event_recorder recorder(b.rt, kubernetes::client(b.rt, c), event_recorder_options("c"));
    task_group group(ex);
    group.spawn(recorder.run());
    for (int i = 0; i < 6; ++i) recorder.event(about("a" + std::to_string(i)));
    const std::function<bool()> good = [&] { return recorder.figures().written == 5; };
    bool ok = co_await eventually(good); // the clock stands still
    CHECK(ok);
    CHECK(recorder.figures().pending == 1);
    CHECK(recorder.figures().failed == 0);
    b.clock->advance(13s);
    const std::function<bool()> all = [&] { return recorder.figures().written == 6; };
    ok = co_await eventually(all);
    CHECK(ok);
    CHECK(b.asked("create", "events") == 7);
    group.stop();
    co_await group.join();
    co_await b.server.stop();
}

/// A write of a series fails, and the next event of the series is recorded before the retry is due.
asio::awaitable<void> in_order(fault::kind how) {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    event_recorder recorder(b.rt, b.client, event_recorder_options("c").limits(event_limits().refresh(1s)));
    task_group group(ex);
    group.spawn(recorder.run());
    std::uint64_t writes = 1;
    const std::function<bool()> written = [&] { return recorder.figures().written == writes; };
    recorder.event(about("a"));
    bool ok = co_await eventually(written);
    REQUIRE(ok);
    b.server.inject(fault(how).verb("patch"));
    recorder.event(about("a"));
    const std::function<bool()> failed = [&] { return b.server.pending_faults() == 0; };
    ok = co_await eventually(failed);
    CHECK(ok);
    co_await settle(200);
    recorder.event(about("b"));
    b.clock->advance(2s);
    recorder.event(about("a"));
    recorder.event(about("c"));
    writes = 5;
    const std::function<bool()> all = [&] {
        // while a request is under way, this is the deadline of the request, which is far off
        const auto next = b.clock->next_deadline();
        if (next && *next <= b.clock->now() + 13s) b.clock->advance(13s);
        return written();
    };
    ok = co_await eventually(all);
    CHECK(ok);
    std::size_t series = 0;
    for (const auto& e : b.server.list("events.events.k8s.io", "default")) {
        if (!e.as_object().contains("series")) continue;
        ++series;
        CHECK(e.at("series").at("count") == 3);
    }
    CHECK(series == 1);
    group.stop();
    co_await group.join();
    co_await b.server.stop();
}

/// A recorder that slept until the series is over would write too late.
asio::awaitable<void> refreshed_in_time() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.config_map("a");
    event_recorder recorder(
        b.rt, b.client,
        event_recorder_options("sample-controller").limits(event_limits().refresh(10s).series_over(6min)));
    task_group group(ex);
    group.spawn(recorder.run());
    const object a = b.read("a");
    std::uint64_t writes = 0;
    const std::function<bool()> written = [&] { return recorder.figures().written == writes; };
    bool ok = true;
    for (writes = 1; writes <= 2; ++writes) {
        recorder.event(a, event_type::normal, "Synced", "Sync", "x");
        ok = co_await eventually(written);
        REQUIRE(ok);
    }
    co_await settle(50);
    recorder.event(a, event_type::normal, "Synced", "Sync", "x");
    co_await settle(50);
    CHECK(recorder.figures().written == 2);
    writes = 3;
    b.clock->advance(11s);
    ok = co_await eventually(written);
    CHECK(ok);
    CHECK(b.server.list("events.events.k8s.io", "default")[0].at("series").at("count") == 3);
    group.stop();
    co_await group.join();
    co_await b.server.stop();
}

asio::awaitable<void> pause_of_for_ever(fault::kind how) {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.config_map("a");
    event_recorder recorder(b.rt, b.client, event_recorder_options("c").retry_after(std::chrono::nanoseconds::max()));
    task_group group(ex);
    group.spawn(recorder.run());
    b.server.inject(fault(how).repeat(1000));
    recorder.event(b.read("a"), event_type::normal, "Unreachable", "", "x");
    const std::function<bool()> tried = [&] { return b.asked("create", "events") == 1; };
    const bool ok = co_await eventually(tried);
    CHECK(ok);
    for (int i = 0; i < 10; ++i) {
        co_await settle(100);
        b.clock->advance(24h * 365);
    }
    CHECK(b.asked("create", "events") == 1);
    CHECK(recorder.figures().failed == 0);
    CHECK(recorder.figures().pending == 1);
    group.stop();
    co_await group.join();
    co_await b.server.stop();
}

} // namespace

TEST_CASE("EV1 EV2 EV3 the constants are the contract's") {
    const event_recorder_options o("c");
    CHECK(o.tries_ == 12);
    CHECK(o.retry_after_ == 10s);
    CHECK(o.capacity_ == 1000);
    CHECK(o.limits_.burst_ == 25);
    CHECK(o.limits_.refill_ == 5min);
    CHECK(o.limits_.similar_ == 10);
    CHECK(o.limits_.similar_within_ == 10min);
    CHECK(o.limits_.refresh_ == 30min);
    CHECK(o.limits_.series_over_ == 6min);
    CHECK(o.limits_.memory_ == 4096);
}
TEST_CASE("events are stored with all that describes them, and series are written as patches") {
    run_test(on_the_server());
}
TEST_CASE("events name the part of their subject that they are about, and carry annotations") {
    run_test(with_more_words());
}
TEST_CASE("an event's reason, action and instance are cut to the server's 128 bytes, never within a character") {
    run_test(with_too_long_words());
}
TEST_CASE("events about objects in a namespace that is being deleted are lost without a warning") {
    run_test(where_nobody_reads_them());
}
TEST_CASE("a flush returns once nothing is pending, even if the clock stands still, or else when its time is over") {
    run_test(flushed());
}
TEST_CASE(
    "EV1 refused events are given up, an unreachable server is tried again, what has no room is dropped and counted") {
    run_test(in_trouble());
}
TEST_CASE("EV1 an event that could not be sent is tried again, and so are those behind it") {
    run_test(unsent(false));
    informer::testing::need_pidfd_open();
    run_test(unsent(true));
}
TEST_CASE("EV1 an event that the server fails to store is given up after its tries, and holds up only its series") {
    run_test(one_fails());
}
TEST_CASE("EV1 an event that got no answer in time is tried again, and holds up only its series") {
    run_test(one_times_out());
}
TEST_CASE("EV3 the writes of a series keep their order, even after one that failed") {
    run_test(in_order(fault::kind::refuse));
    run_test(in_order(fault::kind::status));
}
TEST_CASE("EV3 a series whose refresh is due before the series can be over is written in time") {
    run_test(refreshed_in_time());
}
TEST_CASE("an infinite pause between the tries of an event never ends") {
    run_test(pause_of_for_ever(fault::kind::refuse));
    run_test(pause_of_for_ever(fault::kind::status));
}
