// Limits of phases and of the whole request, on one timer that is armed as seldom as possible.
#include "http/phase_timer.hpp"

#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <memory>
#include <optional>

using namespace informer;
using namespace std::chrono_literals;
using http::detail::phase_timer;

namespace {

struct scene {
    explicit scene(std::chrono::milliseconds whole = 0ms)
        : timer(std::make_shared<phase_timer>(context.get_executor(), whole)) {
        timer->on_late([this] { ++aborted; });
    }
    /// Lets all timers ring that are armed; why the phase was aborted, if it was.
    std::optional<errc> run() {
        context.restart();
        context.run_for(10s);
        CHECK(context.stopped());
        return timer->late();
    }
    asio::io_context context;
    std::shared_ptr<phase_timer> timer;
    int aborted = 0;
};

} // namespace

TEST_CASE("a phase that is too long is aborted with its own code, also if the whole request has more time") {
    for (const auto whole : {0ms, 3'600'000ms}) {
        scene s(whole);
        s.timer->begin(5ms, errc::header_timeout);
        CHECK(s.run() == errc::header_timeout);
        CHECK(s.aborted == 1);
        s.timer->begin(5ms, errc::body_idle_timeout); // of the next operation, if there is one
        CHECK_FALSE(s.timer->late());
        CHECK(s.run() == errc::body_idle_timeout);
    }
}

TEST_CASE("the whole request ends in time, whatever its phases are allowed") {
    for (const auto phase : {0ms, 3'600'000ms}) {
        scene s(5ms);
        s.timer->begin(phase, errc::header_timeout);
        CHECK(s.run() == errc::request_timeout);
        CHECK(s.aborted == 1);
    }
}

TEST_CASE("a phase has its full time though the timer was armed for one before it") {
    scene s;
    s.timer->begin(3'600'000ms, errc::header_timeout);
    s.timer->begin(5ms, errc::body_idle_timeout); // earlier
    CHECK(s.run() == errc::body_idle_timeout);
    s.timer->begin(5ms, errc::header_timeout);
    const auto begun = phase_timer::clock::now();
    s.timer->begin(50ms, errc::body_idle_timeout); // later
    CHECK(s.run() == errc::body_idle_timeout);
    CHECK(phase_timer::clock::now() - begun >= 50ms);
    CHECK(s.aborted == 2);
}

TEST_CASE("a timer that rings between two phases aborts nothing, and the next phase has its limit all the same") {
    scene s;
    s.timer->begin(5ms, errc::header_timeout);
    s.timer->end();
    CHECK_FALSE(s.run());
    CHECK(s.aborted == 0);
    s.timer->begin(5ms, errc::body_idle_timeout);
    CHECK(s.run() == errc::body_idle_timeout);
    CHECK(s.aborted == 1);
}

TEST_CASE("a timer that is cancelled leaves no work, and can be used again") {
    scene s;
    s.timer->begin(3'600'000ms, errc::header_timeout);
    s.timer->cancel();
    CHECK_FALSE(s.run());
    int again = 0;
    s.timer->on_late([&again] { ++again; });
    s.timer->begin(5ms, errc::body_idle_timeout);
    CHECK(s.run() == errc::body_idle_timeout);
    CHECK(again == 1);
    CHECK(s.aborted == 0);
}
