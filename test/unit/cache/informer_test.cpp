// The informer on a scripted source.
#include "informer_fixture.hpp"

#include <catch2/matchers/catch_matchers_string.hpp>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("WL1 an informer syncs by watch-list and follows the same stream", "[informer]") {
    bench b;
    auto events = b.pods.subscribe(subscription_options().sync_marks());
    const auto w = b.sync_with({pod("a", 5), pod("b", 6)}, 7);
    REQUIRE(b.pods.has_synced());
    CHECK(b.source->lists() == 0);
    CHECK(b.source->watches() == 1);
    CHECK(b.source->calls()[0].query.send_initial_events_);
    CHECK(b.pods.snapshot().size() == 2);
    CHECK(b.pods.snapshot().resource_version().str() == "7");

    auto got = read_all(events);
    REQUIRE(got.size() == 3);
    std::sort(got.begin(), got.end());
    CHECK(got == words{"*7", "+a:5!", "+b:6!"});

    w->modified(pod("a", 8, "x")).deleted(pod("b", 9)).added(pod("c", 10)).bookmark("12");
    b.settle();
    CHECK(read_all(events) == words{"~a:8", "-b:9", "+c:10"});
    CHECK(b.note("a") == "x");
    CHECK(b.note("b") == "(absent)");
    CHECK(b.pods.snapshot().resource_version().str() == "12");
    CHECK(b.pods.status().phase == informer_phase::watching);

    b.pods.stop();
    b.settle();
    CHECK(b.finished);
    CHECK_FALSE(b.failed);
    CHECK(b.pods.status().phase == informer_phase::stopped);
    CHECK(b.source->under_way() == 0);
    CHECK_FALSE(events.try_next());
}
