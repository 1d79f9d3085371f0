// The decisions of key sharding, step by step.
#include "controller/shard_logic.hpp"
#include "lease_scene.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace informer;
using namespace informer::detail;
using namespace informer::testing;
using action = shard_logic::action;

namespace {

shard_group_options group() {
    shard_group_options o("ns", "g");
    o.identity("me");
    return o;
}

listed_lease lease(const std::string& name, int renewed = 0, std::chrono::seconds d = 15s) {
    listed_lease l;
    l.name = l.uid = name;
    l.version = std::to_string(100 + renewed);
    l.record.holder = name;
    l.record.duration = d;
    l.record.renew_time = std::to_string(renewed);
    return l;
}

struct bench {
    bench() : logic(group(), "me", 1) {}
    shard_logic logic;
    clock::time_point now = start;
    int version = 1;

    action next() { return logic.next(now).what; }
    /// One round at this instant: writes, lists `others`, and rests.
    void round(std::vector<listed_lease> others) {
        const auto what = next();
        REQUIRE((what == action::create || what == action::update));
        logic.written(now, now, logic.desired(wall));
        REQUIRE(next() == action::list);
        others.push_back(lease("me"));
        logic.listed(now, now, others, resource_version(std::to_string(version++)));
        while (next() == action::collect) logic.removed(now);
        REQUIRE(next() == action::wait);
    }
    void rest() {
        const auto s = logic.next(now);
        REQUIRE(s.what == action::wait);
        CHECK(s.until - now <= 2400ms);
        now = s.until;
    }
    std::vector<std::string> members() { return logic.view(now).members(); }
};

} // namespace

TEST_CASE("sharding: an infinite request time-out cuts no request short") {
    auto o = group();
    o.request_timeout(std::chrono::nanoseconds::max());
    REQUIRE_FALSE(o.check());
    shard_logic logic(o, "me", 1);
    CHECK(logic.next(start).until == clock::time_point::max());
}

TEST_CASE("sharding: if the wall clock stands still, each renewal still writes another time") {
    bench b;
    std::set<std::string> said;
    for (int i = 0; i < 10; ++i) {
        const auto what = b.next();
        REQUIRE((what == action::create || what == action::update));
        const auto r = b.logic.desired(wall);
        said.insert(r.renew_time);
        if (i == 0) // it was stored, but the answer was lost
            b.logic.failed(b.now, refused(500, "InternalError"));
        else
            b.logic.written(b.now, b.now, r);
        REQUIRE(b.next() == action::list);
        b.logic.listed(b.now, b.now, {lease("me", i)}, resource_version(std::to_string(i + 1)));
        b.rest();
    }
    CHECK(said.size() == 10);
}

TEST_CASE("sharding: rendezvous hashing is the same everywhere and for ever") {
    const std::vector<std::string> members{"alpha", "beta", "gamma"};
    std::string owners;
    for (int i = 0; i < 24; ++i) owners += "abg"[rendezvous_owner(members, "ns/key-" + std::to_string(i))];
    // Replicas of another release must agree: if this fails, do not change the expectation.
    CHECK(owners == "agabgbbabgbaggbbgbbggbbg");
    CHECK(rendezvous_owner({}, "x") == 0);
    CHECK(rendezvous_owner({"gamma", "alpha", "beta"}, "ns/key-0") == (rendezvous_owner(members, "ns/key-0") + 1) % 3);
}

TEST_CASE("sharding: keys are spread evenly, and a member that comes or goes moves only its own") {
    std::vector<std::string> members;
    for (int i = 0; i < 10; ++i) members.push_back("replica-" + std::to_string(i));
    std::vector<std::string> fewer(members.begin(), members.end() - 1);
    std::map<std::size_t, int> share;
    int moved = 0;
    for (int k = 0; k < 20000; ++k) {
        const auto key = "namespace-" + std::to_string(k % 7) + "/object-" + std::to_string(k);
        const auto with = rendezvous_owner(members, key);
        const auto without = rendezvous_owner(fewer, key);
        ++share[with];
        if (with != 9)
            CHECK(with == without);
        else
            ++moved;
    }
    for (const auto& [who, n] : share) {
        CHECK(n > 1800);
        CHECK(n < 2200);
    }
    CHECK(moved == share[9]);
}

TEST_CASE("sharding: options are checked, and the failure says what is wrong") {
    CHECK_FALSE(group().check());
    const auto wrong = [](shard_group_options o) {
        const failure f = o.check();
        CHECK(f == errc::bad_configuration);
        return f.message();
    };
    CHECK(wrong(group().renew_deadline(15s)).find("lease duration") != std::string::npos);
    CHECK(wrong(group().retry_period(9s)).find("1.2") != std::string::npos);
    CHECK(wrong(group().retry_period(0s)).find("retry period") != std::string::npos);
    CHECK(wrong(group().identity("Not a name")).find("identity") != std::string::npos);
    CHECK_FALSE(group().identity("").check()); // there is a default
    CHECK(wrong(shard_group_options("ns", "-g").identity("me")).find("group") != std::string::npos);
    CHECK(wrong(shard_group_options("", "g").identity("me")).find("namespace") != std::string::npos);
    CHECK(group().effective_request_timeout() == 2500ms);
}

TEST_CASE("sharding: a replica that is alone owns everything as soon as a list has shown that") {
    bench b;
    CHECK(b.next() == action::create);
    b.logic.written(b.now, b.now, b.logic.desired(wall));
    CHECK_FALSE(b.logic.active(b.now));
    CHECK(b.next() == action::list);
    b.logic.listed(b.now, b.now, {lease("me")}, resource_version("7"));
    CHECK(b.logic.active(b.now));
    CHECK(b.logic.view(b.now).owns("any"));
    CHECK(b.members() == std::vector<std::string>{"me"});
    CHECK(b.logic.token() == resource_version("7"));
    // Members that join later wait for us; we do not wait for them.
    CHECK(b.next() == action::wait);
    b.rest();
    b.round({lease("you")});
    CHECK(b.logic.active(b.now));
    CHECK(b.members() == std::vector<std::string>{"me", "you"});
}

TEST_CASE("sharding: a replica that joins others waits for the longest of their lease durations") {
    bench b;
    const auto joined = b.now;
    int n = 0;
    while (!b.logic.active(b.now)) {
        b.round({lease("a", n), lease("b", n, 20s)});
        ++n;
        REQUIRE(b.now - joined < 25s);
        const auto change = b.logic.next_change(b.now);
        if (!b.logic.active(b.now)) CHECK(change == joined + 20s);
        b.rest();
    }
    CHECK(b.now - joined >= 20s);
    CHECK(b.now - joined <= 22400ms);
}

TEST_CASE("sharding: another replica is a member until a list sent after its lease duration shows no change") {
    bench b;
    b.round({lease("a")});
    const auto seen = b.now;
    b.rest();
    while (b.now - seen < 15s) {
        b.round({lease("a")});
        CHECK_FALSE(b.logic.active(b.now));
        b.rest();
    }
    // This list was sent too early, however late its answer comes.
    REQUIRE(b.next() == action::update);
    b.logic.written(b.now, b.now, b.logic.desired(wall));
    REQUIRE(b.next() == action::list);
    b.logic.listed(seen + 15s - 1ms, b.now, {lease("a"), lease("me")}, resource_version("9"));
    CHECK(b.members() == std::vector<std::string>{"a", "me"});
    b.rest();
    b.round({lease("a")});
    CHECK(b.members() == std::vector<std::string>{"me"});
    // It is a member again as soon as its Lease changes.
    b.rest();
    b.round({lease("a", 1)});
    CHECK(b.members().size() == 2);
}

TEST_CASE("sharding: a replica that cannot renew, or cannot list, owns nothing from the renew deadline on") {
    for (const bool renews : {false, true}) {
        bench b;
        b.round({});
        REQUIRE(b.logic.active(b.now));
        const auto last = b.now;
        CHECK(b.logic.valid_until() == last + 10s);
        b.rest();
        while (b.now < last + 9900ms) {
            REQUIRE(b.next() == action::update);
            if (renews)
                b.logic.written(b.now, b.now, b.logic.desired(wall));
            else
                b.logic.failed(b.now, refused(500, "InternalError"));
            REQUIRE(b.next() == action::list);
            if (renews)
                b.logic.failed(b.now, refused(500, "InternalError"));
            else
                b.logic.listed(b.now, b.now, {lease("me")}, resource_version("8"));
            CHECK(b.logic.active(b.now));
            CHECK(b.logic.next_change(b.now) == last + 10s);
            b.rest();
        }
        b.now = last + 10s;
        CHECK_FALSE(b.logic.active(b.now));
        CHECK_FALSE(b.logic.view(b.now).owns("any"));
    }
}

TEST_CASE("sharding: validity counts from the sending of renewals and lists, not from their answers") {
    bench b;
    b.round({});
    b.rest();
    const auto sent = b.now;
    REQUIRE(b.next() == action::update);
    b.now += 2s;
    b.logic.written(sent, b.now, b.logic.desired(wall));
    REQUIRE(b.next() == action::list);
    b.now += 2s;
    b.logic.listed(b.now - 1s, b.now, {lease("me")}, resource_version("9"));
    CHECK(b.logic.valid_until() == sent + 10s);
    b.rest();
    REQUIRE(b.next() == action::update);
    b.logic.written(b.now, b.now, b.logic.desired(wall));
    CHECK(b.logic.valid_until() == sent + 3s + 10s);
}

TEST_CASE("sharding: a replica whose renewal comes after the lapse joins anew") {
    bench b;
    b.round({lease("a")});
    b.now += 15s;
    b.round({lease("a", 1)});
    REQUIRE(b.logic.joined());
    REQUIRE_FALSE(b.logic.active(b.now)); // 15 s without a renewal
    const auto joined = b.now;
    int n = 2;
    while (!b.logic.active(b.now)) {
        b.rest();
        b.round({lease("a", n++)});
    }
    CHECK(b.now - joined >= 15s);
    // Sent in time, answered after the lapse.
    b.rest();
    REQUIRE(b.next() == action::update);
    const auto sent = b.now;
    b.now += 9s;
    b.logic.written(sent, b.now, b.logic.desired(wall));
    REQUIRE(b.next() == action::list);
    b.logic.listed(b.now, b.now, {lease("a", n), lease("me")}, resource_version("50"));
    CHECK_FALSE(b.logic.active(b.now));
    CHECK(b.logic.joined());
}

TEST_CASE("sharding: a Lease that somebody deleted or took ends the ownership, and is created again") {
    bench b;
    b.round({});
    b.rest();
    SECTION("a list shows it") {
        REQUIRE(b.next() == action::update);
        b.logic.written(b.now, b.now, b.logic.desired(wall));
        REQUIRE(b.next() == action::list);
        b.logic.listed(b.now, b.now, {}, resource_version("9"));
    }
    SECTION("the renewal shows it") {
        REQUIRE(b.next() == action::update);
        b.logic.failed(b.now, refused(404, "NotFound"));
    }
    SECTION("it has another holder") {
        REQUIRE(b.next() == action::update);
        b.logic.written(b.now, b.now, b.logic.desired(wall));
        REQUIRE(b.next() == action::list);
        auto stolen = lease("me");
        stolen.record.holder = "thief";
        b.logic.listed(b.now, b.now, {stolen}, resource_version("9"));
    }
    CHECK_FALSE(b.logic.active(b.now));
    CHECK_FALSE(b.logic.joined());
    if (b.next() == action::list) b.logic.listed(b.now, b.now, {}, resource_version("10"));
    b.rest();
    CHECK(b.next() == action::create);
}

TEST_CASE("sharding: a leaving replica owns nothing at once, renews until its work is over, then deletes its Lease") {
    bench b;
    b.round({});
    b.logic.stop(b.now);
    CHECK_FALSE(b.logic.active(b.now));
    CHECK_FALSE(b.logic.view(b.now).owns("any"));
    for (int i = 0; i < 10; ++i) {
        b.rest();
        b.round({});
    }
    b.logic.drained();
    CHECK(b.next() == action::leave);
    b.logic.failed(b.now, refused(500, "InternalError"));
    CHECK(b.next() == action::wait);
    b.now += 2s;
    CHECK(b.next() == action::leave);
    b.logic.removed(b.now);
    CHECK(b.next() == action::over);
}

TEST_CASE("sharding: leaving takes the renew deadline at most") {
    bench b;
    b.round({});
    b.logic.stop(b.now);
    b.logic.drained();
    const auto from = b.now;
    while (b.next() != action::over) {
        const auto s = b.logic.next(b.now);
        b.now = s.until;
        REQUIRE(b.now - from < 11s);
        if (s.what != action::wait) b.logic.failed(b.now, failure(errc::request_timeout, "test"));
    }
    CHECK(b.now - from == 10s);
}

TEST_CASE("sharding: a replica stopped before it asked for a Lease is over at once; later it takes the Lease back") {
    bench never;
    never.logic.stop(never.now);
    CHECK(never.next() == action::over);
    bench asked;
    REQUIRE(asked.next() == action::create);
    asked.logic.stop(asked.now);
    asked.logic.drained();
    CHECK(asked.logic.abandon(asked.now));
    asked.logic.failed(asked.now, failure(errc::request_timeout, "test"));
    CHECK(asked.next() == action::leave);
    asked.logic.failed(asked.now, refused(404, "NotFound"));
    CHECK(asked.next() == action::over);
}

TEST_CASE("sharding: Leases of dead members are deleted after three durations, at the version that was seen") {
    bench b;
    const auto seen = b.now;
    b.round({lease("dead")});
    for (;;) {
        b.rest();
        REQUIRE(b.next() == action::update);
        b.logic.written(b.now, b.now, b.logic.desired(wall));
        REQUIRE(b.next() == action::list);
        b.logic.listed(b.now, b.now, {lease("dead"), lease("me")}, resource_version("5"));
        const auto s = b.logic.next(b.now);
        if (s.what == action::collect) {
            CHECK(b.now - seen >= 45s);
            CHECK(s.target.name == "dead");
            CHECK(s.target.version == "100");
            break;
        }
        REQUIRE(b.now - seen < 50s);
    }
    // A refused deletion is tried again in the next round, not at once.
    b.logic.failed(b.now, refused(403, "Forbidden"));
    CHECK(b.next() == action::wait);
}

TEST_CASE("sharding: the Leases of several dead members are deleted in one round, each once") {
    bench b;
    const auto list_both = [&] {
        REQUIRE(b.next() == action::list);
        b.logic.listed(b.now, b.now, {lease("dead"), lease("gone"), lease("me")}, resource_version("5"));
    };
    b.round({lease("dead"), lease("gone")});
    std::vector<std::string> deleted;
    for (int i = 0; i < 40 && deleted.empty(); ++i) {
        b.rest();
        REQUIRE(b.next() == action::update);
        b.logic.written(b.now, b.now, b.logic.desired(wall));
        list_both();
        for (auto s = b.logic.next(b.now); s.what == action::collect && deleted.size() < 5; s = b.logic.next(b.now)) {
            deleted.push_back(s.target.name);
            b.logic.removed(b.now);
        }
    }
    CHECK(deleted == std::vector<std::string>{"dead", "gone"});
    CHECK(b.members() == std::vector<std::string>{"me"});
}

TEST_CASE("sharding: if a list is cut off, members own nothing, and delete the dead Leases that it shows") {
    bench b;
    std::vector<std::string> deleted;
    const auto began = b.now;
    for (int i = 0; i < 100 && deleted.empty(); ++i) {
        const auto what = b.next();
        REQUIRE((what == action::create || what == action::update));
        b.logic.written(b.now, b.now, b.logic.desired(wall));
        REQUIRE(b.next() == action::list);
        b.logic.overcrowded(b.now, b.now, {lease("alive", i), lease("dead"), lease("gone"), lease("me")});
        CHECK_FALSE(b.logic.active(b.now));
        for (auto s = b.logic.next(b.now); s.what == action::collect && deleted.size() < 5; s = b.logic.next(b.now)) {
            CHECK(b.now - began >= 45s);
            CHECK(s.target.version == "100");
            deleted.push_back(s.target.name);
            b.logic.removed(b.now);
        }
        b.rest();
    }
    CHECK(b.now - began < 50s);
    CHECK(std::set<std::string>(deleted.begin(), deleted.end()) == std::set<std::string>{"dead", "gone"});
    CHECK(deleted.size() == 2);
    b.round({});
    CHECK(b.logic.active(b.now));
}

TEST_CASE("sharding: the deletion of dead Leases does not hold up the renewal") {
    bench b;
    std::vector<listed_lease> many;
    for (int i = 0; i < 100; ++i) many.push_back(lease("dead-" + std::to_string(i)));
    b.round(many);
    std::size_t most = 0;
    for (int round = 0; round < 40; ++round) {
        b.rest();
        const auto began = b.now;
        REQUIRE(b.next() == action::update);
        b.logic.written(b.now, b.now, b.logic.desired(wall));
        REQUIRE(b.next() == action::list);
        auto listed = many;
        listed.push_back(lease("me"));
        b.logic.listed(b.now, b.now, listed, resource_version("5"));
        std::size_t deleted = 0;
        for (auto s = b.logic.next(b.now); s.what == action::collect; s = b.logic.next(b.now), ++deleted) {
            b.now += 100ms;
            std::erase_if(many, [&](const auto& l) { return l.name == s.target.name; });
            b.logic.removed(b.now);
        }
        CHECK(b.now - began <= 2100ms);
        most = std::max(most, deleted);
        if (many.empty()) break;
    }
    CHECK(most > 10);
    CHECK(many.empty());
    CHECK(b.logic.active(b.now));
}
