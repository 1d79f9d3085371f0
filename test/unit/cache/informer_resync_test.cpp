// When an informer repeats what is in its cache.
#include "informer_fixture.hpp"

#include <string>
#include <utility>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;

TEST_CASE("R19 a resync due before the first state is complete is skipped, even while it is put into the cache",
          "[informer]") {
    bench b;
    auto events = b.pods.subscribe(subscription_options().resync(2s));
    const auto mine = b.pods.observe(informer_observer().on_bad_object([&b](const bad_object&) {
        CHECK_FALSE(b.pods.has_synced());
        b.clock->advance(2s);
        while (b.context.poll_one() != 0) {
        }
    }));
    const auto w = b.source->on_watch();
    w->added(pod("a", 1)).added(R"({"metadata":{"namespace":"default","name":"bad"},"spec":})");
    b.start();
    b.pass(2s);
    CHECK(read_all(events).empty());
    w->bookmark("5", true);
    words told;
    b.context.restart();
    while (b.context.poll_one() != 0) {
        for (std::string& one : read_all(events)) told.push_back(std::move(one));
        b.context.restart();
    }
    CHECK(told == words{"+a:1!"});
    b.pass(2s);
    CHECK(read_all(events) == words{"~a:1@"});
}
