// Which events become one series, and when a series is written: the correlator, step by step.
#include "event_scene.hpp"

#include <catch2/generators/catch_generators.hpp>

using namespace server_test;

namespace {

/// The time that the correlator is given.
struct timeline {
    clock::time_point now = clock::time_point(std::chrono::hours(1));
    std::chrono::system_clock::time_point wall = informer::testing::manual_clock::default_wall;
    void pass(clock::duration d) {
        now += d;
        wall += std::chrono::duration_cast<std::chrono::system_clock::duration>(d);
    }
    std::vector<event_correlator::write> record(event_correlator& c, event_record e) const {
        return c.record(std::move(e), now, wall);
    }
};

} // namespace

TEST_CASE("EV3 the first event is created, the second makes a series, written again as it goes on and when it ends") {
    event_correlator c;
    timeline t;
    auto w = t.record(c, about("a"));
    REQUIRE(w.size() == 1);
    CHECK(w[0].create);
    CHECK(w[0].count == 1);
    CHECK(w[0].name.starts_with("a."));
    const std::string name = w[0].name;
    t.pass(1s);
    w = t.record(c, about("a"));
    REQUIRE(w.size() == 1);
    CHECK_FALSE(w[0].create);
    CHECK(w[0].name == name);
    CHECK(w[0].count == 2);
    CHECK(w[0].last == t.wall);
    for (int i = 0; i < 30; ++i) { // every minute for half an hour: counted, not written
        t.pass(1min);
        w = t.record(c, about("a"));
        if (i < 29) {
            CHECK(w.empty());
        } else {
            REQUIRE(w.size() == 1);
            CHECK(w[0].count == 32);
        }
    }
    t.pass(1min);
    CHECK(t.record(c, about("a")).empty());
    CHECK(c.next_due() == t.now + 6min);
    t.pass(6min);
    w = c.tick(t.now);
    REQUIRE(w.size() == 1); // the final write
    CHECK(w[0].count == 33);
    CHECK(c.remembered() == 0);
    CHECK(c.next_due() == clock::time_point::max());
    w = t.record(c, about("a"));
    REQUIRE(w.size() == 1);
    CHECK(w[0].create); // a new event
    CHECK(w[0].name != name);
}

TEST_CASE("EV3 a series that was over before the next tick gets its final write all the same") {
    const bool room = GENERATE(true, false); // room for a new event
    event_correlator c(event_limits().burst(room ? 2 : 1).refill(1h));
    timeline t;
    const std::string name = t.record(c, about("a")).at(0).name;
    for (int i = 0; i < 2; ++i) t.record(c, about("a"));
    t.pass(7min); // without a tick: its caller waits for the server
    const auto w = t.record(c, about("a"));
    REQUIRE(w.size() == (room ? 2 : 1));
    CHECK(w[0].name == name);
    CHECK(w[0].count == 3);
    CHECK_FALSE(w[0].create);
    CHECK(w.back().create == room);
    CHECK(c.tick(t.now).empty()); // nothing is written twice
}

TEST_CASE("EV3 series that never end are never due") {
    const auto ever = std::chrono::nanoseconds::max();
    event_correlator c(event_limits().series_over(ever).refresh(ever));
    timeline t;
    for (int i = 0; i < 3; ++i) t.record(c, about("a"));
    CHECK(c.next_due() == clock::time_point::max());
    CHECK(c.tick(t.now).empty());
}

TEST_CASE(
    "events that differ in subject, reason, action, related object, part of these, type or note are different events") {
    event_correlator c;
    const timeline t;
    auto warning = about("a"), act = about("a"), part = about("a"), relative = about("a");
    warning.type = "Warning";
    act.action = "Watch";
    part.regarding.field_path = "data{key}";
    relative.related = about("b").regarding;
    auto part_of_relative = relative;
    part_of_relative.related.field_path = "data{key}";
    for (const auto& e : {about("a"), about("b"), about("a", "Failed"), warning, act, part, relative, part_of_relative,
                          about("a", "Synced", "another note")}) {
        const auto w = t.record(c, e);
        REQUIRE(w.size() == 1);
        CHECK(w[0].create);
    }
}

TEST_CASE("an object that was deleted and created again is another subject, with events and burst of its own") {
    event_correlator c(event_limits().burst(1));
    const timeline t;
    const auto name = t.record(c, about("a")).at(0).name;
    CHECK(t.record(c, about("a", "Failed")).empty()); // no room
    auto anew = about("a");
    anew.regarding.uid = "another";
    const auto w = t.record(c, anew);
    REQUIRE(w.size() == 1);
    CHECK(w[0].create);
    CHECK(w[0].name != name);
}

TEST_CASE("EV2 the tenth note is the first that is combined, and those written before go on as they are") {
    event_correlator c;
    timeline t;
    const auto note = [&](int i) {
        t.pass(10min); // the series before is over, but not the silence
        return t.record(c, about("a", "Synced", std::to_string(i))).at(0).event.note;
    };
    for (int i = 1; i <= 9; ++i) CHECK(note(i) == std::to_string(i));
    CHECK(note(10) == "(combined from similar events): 10");
    for (int i = 1; i <= 9; ++i) CHECK(note(i) == std::to_string(i));
    CHECK(note(10) == "(combined from similar events): 10");
}

TEST_CASE("EV2 many events that differ only in their notes become one series") {
    event_correlator c;
    timeline t;
    std::size_t created = 0;
    std::string last_note;
    std::uint64_t most = 0;
    for (int i = 0; i < 100; ++i) {
        for (const auto& w : t.record(c, about("a", "Synced", "attempt " + std::to_string(i)))) {
            created += w.create ? 1 : 0;
            last_note = w.event.note;
            most = std::max(most, w.count);
        }
    }
    CHECK(created == 10);
    CHECK(last_note == "(combined from similar events): attempt 9");
    CHECK(most == 2);
    t.pass(11min); // forgotten
    const auto w = t.record(c, about("a", "Synced", "attempt 1000"));
    REQUIRE(w.size() == 1);
    CHECK(w[0].event.note == "attempt 1000");
}

TEST_CASE(
    "EV2 a subject that floods is cut off after 25, and gets one more every five minutes; others are not touched") {
    event_correlator c;
    timeline t;
    std::size_t created = 0;
    for (int i = 0; i < 100; ++i) created += t.record(c, about("a", "Reason" + std::to_string(i))).size();
    CHECK(created == 25);
    CHECK(c.dropped() == 75);
    CHECK(t.record(c, about("b")).size() == 1);
    t.pass(5min);
    CHECK(t.record(c, about("a", "Later")).size() == 1);
    CHECK(t.record(c, about("a", "Later still")).empty());
}

TEST_CASE("EV2 normal events take no room from a subject's warnings") {
    event_correlator c(event_limits().burst(3));
    const timeline t;
    std::vector<std::size_t> written;
    for (const std::string type : {"Normal", "Warning"}) {
        std::size_t n = 0;
        for (int i = 0; i < 9; ++i) {
            auto e = about("a", "Reason" + std::to_string(i));
            e.type = type;
            n += t.record(c, e).size();
        }
        written.push_back(n);
    }
    CHECK(written == std::vector<std::size_t>{3, 3});
}

TEST_CASE("EV2 however long a subject was silent, no more than 25 of its events at once are written") {
    event_correlator c;
    timeline t;
    for (const clock::duration silence : {0h, 12h, 24h * 365}) {
        t.pass(silence);
        std::size_t created = 0;
        for (int i = 0; i < 100; ++i) created += t.record(c, about("a", "Reason" + std::to_string(i))).size();
        CHECK(created == 25);
    }
}

TEST_CASE("EV2 notes are combined until none comes for over ten minutes, however long they go on") {
    event_correlator c;
    timeline t;
    int n = 0;
    const auto note = [&] { return t.record(c, about("a", "Synced", std::to_string(n++))).at(0).event.note; };
    for (int i = 0; i < 9; ++i) CHECK(note() == std::to_string(i));
    for (int i = 9; i < 20; ++i) {
        CHECK(note().starts_with("(combined from similar events): "));
        t.pass(10min);
    }
    t.pass(1s);
    CHECK(note() == "20");
}

TEST_CASE("EV2 with a refill time of zero there is always room") {
    event_correlator c(event_limits().refill(0s));
    timeline t;
    for (int i = 0; i < 100; ++i) CHECK(t.record(c, about("a", "Reason" + std::to_string(i))).size() == 1);
    CHECK(c.dropped() == 0);
}

TEST_CASE("the memory for events is bounded") {
    event_correlator c(event_limits().memory(100));
    timeline t;
    for (int i = 0; i < 10'000; ++i) t.record(c, about("pod-" + std::to_string(i)));
    CHECK(c.remembered() == 100);
    CHECK(t.record(c, about("pod-9999"))[0].count == 2);
    CHECK(t.record(c, about("pod-0"))[0].create);
}

TEST_CASE("EV3 a series that is forgotten because memory is full is written once more, if it grew") {
    event_correlator c(event_limits().memory(2));
    timeline t;
    const std::string name = t.record(c, about("a")).at(0).name;
    for (int i = 0; i < 5; ++i) t.record(c, about("a"));
    CHECK(t.record(c, about("b")).size() == 1);
    auto w = t.record(c, about("c"));
    REQUIRE(w.size() == 2);
    CHECK(w[0].create);
    CHECK(w[1].name == name);
    CHECK(w[1].count == 6);
    CHECK_FALSE(w[1].create);
    CHECK(t.record(c, about("d")).size() == 1); // "b" was no series
}

TEST_CASE("forgetting the old name of a series that was begun anew does not touch the new series") {
    event_correlator c(event_limits().memory(2));
    const timeline t;
    const std::string old = t.record(c, about("a"))[0].name;
    t.record(c, about("b"));
    t.record(c, about("c"));
    REQUIRE(t.record(c, about("a"))[0].create);
    c.forget(old); // the request for the old name was under way for long, and failed
    const auto again = t.record(c, about("a"));
    REQUIRE(again.size() == 1);
    CHECK_FALSE(again[0].create);
}

TEST_CASE("an event's name is valid for the server, whatever its subject is called") {
    event_correlator c;
    const timeline t;
    const auto name = [&](const std::string& of) { return t.record(c, about(of))[0].name; };
    CHECK(name("system:node:X").starts_with("system-node-x."));
    CHECK(name("team:.reader").starts_with("team.reader."));
    CHECK(name("a.:b").starts_with("a.b."));
    CHECK(name(":..:x-.").starts_with("x."));
    CHECK(name("::").starts_with("event."));
    const std::string lengthy = name(std::string(229, 'a') + "." + std::string(20, 'b'));
    CHECK(lengthy.size() <= 253);
    CHECK(lengthy.starts_with(std::string(229, 'a') + "."));
    CHECK(lengthy.find("..") == std::string::npos);
}
