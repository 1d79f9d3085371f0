// Requests of an election whose outcome is unknown, and how they are settled at the end.
#include "election_logic_scene.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace election_logic_test;

TEST_CASE("a candidate whose read of the Lease failed has acquired nothing: it is over at once when it is stopped") {
    bench b;
    REQUIRE(b.next() == action::get);
    b.logic.failed(b.now, broken);
    REQUIRE(b.next() == action::wait);
    b.logic.stop();
    CHECK(b.next() == action::over);
}

TEST_CASE("an acquisition that the server broke off with a 5xx may have succeeded: it is undone") {
    bench b;
    REQUIRE(b.next() == action::get);
    b.logic.missing();
    REQUIRE(b.next() == action::create);
    b.logic.failed(b.now, broken); // 500: also the answer when etcd did not answer in time
    b.logic.stop();
    CHECK(b.next() == action::get);
}

TEST_CASE("an acquisition of unknown outcome does not matter any more once another replica holds the Lease") {
    bench b;
    REQUIRE(b.next() == action::get);
    b.logic.missing();
    REQUIRE(b.next() == action::create);
    b.logic.failed(b.now, silent);
    b.now += b.wait();
    REQUIRE(b.next() == action::get);
    b.logic.found(b.now, held_by("you"));
    b.logic.stop();
    CHECK(b.next() == action::over); // without another request
}

TEST_CASE("an acquisition of unknown outcome does not matter any more once a later one has succeeded") {
    bench b(me().re_elect());
    REQUIRE(b.next() == action::get);
    b.logic.missing();
    REQUIRE(b.next() == action::create);
    b.logic.failed(b.now, silent);
    b.now += b.wait();
    b.lead();
    b.now += 10s;
    REQUIRE(b.next() == action::wait);
    REQUIRE(b.logic.lost());
    b.logic.work_over(b.now);
    REQUIRE(b.next() == action::get);
    b.logic.stop();
    CHECK(b.logic.abandon(b.now));
    b.logic.failed(b.now, silent);
    CHECK(b.next() == action::over);
}

TEST_CASE("re-election: a candidate that stands again and is then stopped ends as stopped, not as lost") {
    bench b(me().re_elect());
    b.lead();
    b.now += 10s;
    REQUIRE(b.next() == action::wait);
    REQUIRE(b.logic.lost());
    b.logic.work_over(b.now);
    REQUIRE(b.next() == action::get);
    b.logic.found(b.now, held_by("you"));
    b.logic.stop();
    REQUIRE(b.next() == action::over);
    CHECK(b.logic.end() == election_end::stopped);
}

TEST_CASE("LE4 each request of an attempt has its own time-out; the retry period counts from the attempt's beginning") {
    bench b;
    const auto asked = b.logic.next(b.now);
    REQUIRE(asked.what == action::get);
    b.now += 4s;
    b.logic.found(b.now, held_by(""));
    const auto taken = b.logic.next(b.now);
    REQUIRE(taken.what == action::update);
    CHECK(taken.until - b.now == 5s);
    b.write();
    b.logic.work_started();
    b.now += b.wait();
    REQUIRE(b.next() == action::update);
    b.now += 1s;
    b.logic.failed(b.now, broken);
    REQUIRE(b.next() == action::get);
    b.now += 500ms;
    b.logic.failed(b.now, broken);
    CHECK(b.wait() == 500ms); // the retry period counts from the beginning of the attempt
}
