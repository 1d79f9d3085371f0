// What an informer's cache makes of things that come together, late, repeated or without what others have.
#include "informer_fixture.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;
namespace asio = boost::asio;

namespace {

subscription_options one_at_a_time() {
    return subscription_options().capacity(1).policy(overflow_policy::back_pressure);
}

/// Two events in a row fill the subscription, so that what comes then waits in the informer's queue.
void hold_up(bench& b, const std::shared_ptr<watch_script>& w, const std::string& name, int version) {
    w->modified(pod(name, version)).modified(pod(name, version + 1));
    b.settle();
    REQUIRE_FALSE(b.pods.status().held_up_by.empty());
}

void let_go(bench& b, subscription& held) {
    for (int i = 0; i < 100; ++i) {
        read_all(held);
        b.settle();
    }
    REQUIRE(b.pods.status().held_up_by.empty());
}

const std::string bad_x = R"({"metadata":{"namespace":"default","name":"x"},"spec":})";

/// The server goes back from version 1001 to 505, and its list has x in a form that cannot be read.
std::shared_ptr<watch_script> go_back(bench& b, const std::string& x = pod("x", 1000)) {
    const auto before = b.list_with({x, pod("y", 1001)}, 1001);
    before->bookmark("500");
    b.source->on_list(list_of({}, "505"));
    b.source->on_list(list_of({bad_x, pod("y", 400)}, "505"));
    auto w = b.source->on_watch();
    b.settle();
    b.pass(1min);
    REQUIRE(b.pods.status().epoch == 2);
    return w;
}

std::shared_ptr<watch_script> relist(bench& b, const std::shared_ptr<watch_script>& w, list_script l) {
    b.source->on_list(std::move(l));
    auto again = b.source->on_watch();
    w->fail(status_failure(410, "Expired"));
    b.settle();
    b.pass(10s);
    return again;
}

} // namespace

// ---- what waits together --------------------------------------------------------------------------------------------

TEST_CASE("a whole state takes its place among the changes that waited with it", "[informer]") {
    bench b;
    auto held = b.pods.subscribe(one_at_a_time());
    auto events = b.pods.subscribe();
    const auto w = b.sync_with({pod("a", 1), pod("b", 2)}, 5);
    read_all(held);
    hold_up(b, w, "a", 6);
    w->modified(pod("b", 8));
    const auto next = b.source->on_watch();
    next->added(pod("a", 7)).added(pod("c", 9)).bookmark("10", true);
    next->modified(pod("c", 11));
    w->fail(status_failure(410, "Expired"));
    b.settle();
    b.pass(10s);
    read_all(events);
    let_go(b, held);
    CHECK(read_all(events) == words{"~b:8", "-b:8?#", "+c:9#", "~c:11"});
    CHECK(b.pods.snapshot().size() == 2);
}

TEST_CASE("R19 a resync for a subscriber that has gone meanwhile is passed over", "[informer]") {
    bench b;
    auto held = b.pods.subscribe(one_at_a_time());
    std::optional<subscription> leaves = b.pods.subscribe(subscription_options().resync(1s));
    const auto w = b.sync_with({pod("a", 1)}, 5);
    read_all(held);
    hold_up(b, w, "a", 6);
    b.pass(1s);
    leaves.reset();
    b.pass(1s);
    w->modified(pod("b", 8));
    b.settle();
    let_go(b, held);
    CHECK(b.pods.get("default/b"));
}

TEST_CASE("a server that went back in time: changes of an object of its time before are applied though later ones wait",
          "[informer]") {
    bench b(informer_options().watch_list(false));
    auto held = b.pods.subscribe(one_at_a_time());
    auto w = go_back(b);
    if (GENERATE(false, true)) w = relist(b, w, list_of({bad_x, pod("y", 400)}, "505"));
    let_go(b, held);
    hold_up(b, w, "y", 506);
    w->modified(pod("x", 510)).modified(pod("y", 1200)); // that is later than x's version was
    b.settle();
    let_go(b, held);
    CHECK(b.pods.get("default/x").resource_version().str() == "510");
}

TEST_CASE("a server that went back in time: of an object that was made anew since, repetitions are known as such",
          "[informer]") {
    SECTION("after a deletion") {
        bench b(informer_options().watch_list(false));
        const auto w = go_back(b);
        w->deleted(pod("x", 520)).added(pod("x", 530)).modified(pod("x", 525));
        b.settle();
        CHECK(b.pods.get("default/x").resource_version().str() == "530");
    }
    SECTION("after one that only an object of another part shows") {
        const shard_selector lower = shard_selector::part(0, 2), upper = shard_selector::part(1, 2);
        const auto uid_in = [](const shard_selector& part) {
            for (int i = 0;; ++i) {
                std::string uid = "uid-" + std::to_string(i);
                if (part.contains(parse_object(pod("x", 1, "", uid)))) return uid;
            }
        };
        const std::string mine = uid_in(lower), foreign = uid_in(upper);
        bench b(informer_options().watch_list(false).shard(lower));
        const auto w = go_back(b, pod("x", 1000, "", mine));
        w->modified(pod("x", 520, "", foreign));
        b.settle();
        REQUIRE_FALSE(b.pods.get("default/x"));
        w->added(pod("x", 530, "", mine)).modified(pod("x", 525, "", mine));
        b.settle();
        CHECK(b.pods.get("default/x").resource_version().str() == "530");
    }
}

TEST_CASE("a list that has an object in a form that cannot be read does not make its old versions come back",
          "[informer]") {
    bench b(informer_options().watch_list(false));
    auto w = b.list_with({pod("x", 1000)}, 1001);
    w = relist(b, w, list_of({bad_x}, "1005"));
    w->modified(pod("x", 900));
    b.settle();
    CHECK(b.pods.get("default/x").resource_version().str() == "1000");
}

TEST_CASE("a batch holds at least one event, and each has the version of its object, in the initial state, too",
          "[informer]") {
    bench b;
    const auto w = b.sync_with({pod("a", 1), pod("b", 2)}, 5);
    auto events = b.pods.subscribe();
    std::set<std::string> versions;
    for (const std::size_t most : {std::size_t(0), std::size_t(5)}) {
        asio::co_spawn(b.context, events.next_batch(most), [&versions](std::exception_ptr, std::vector<event> batch) {
            for (const event& e : batch) versions.insert(e.version.str());
        });
        b.settle();
        CHECK(versions.size() == (most == 0 ? 1 : 2));
    }
    CHECK(versions == std::set<std::string>{"1", "2"});
}

TEST_CASE("a subscription without capacity holds one event all the same", "[informer]") {
    bench b;
    auto events = b.pods.subscribe(subscription_options().capacity(0).policy(overflow_policy::back_pressure));
    const auto w = b.sync_with({}, 5);
    w->added(pod("a", 6)).added(pod("b", 7));
    b.settle();
    CHECK(read_all(events) == words{"+a:6"});
    b.settle();
    CHECK(read_all(events) == words{"+b:7"});
}

TEST_CASE("a subscription's figures tell what waits, how much waited at most, and what was handed out", "[informer]") {
    bench b;
    auto events = b.pods.subscribe();
    const auto w = b.sync_with({}, 5);
    w->begin_change();
    for (int i = 0; i < 4; ++i) w->added(pod("p" + std::to_string(i), 6 + i));
    w->end_change();
    b.settle();
    CHECK(events.figures().pending == 4);
    CHECK(events.figures().peak_pending == 4);
    events.try_next();
    events.try_next();
    CHECK(events.figures().pending == 2);
    CHECK(events.figures().delivered == 2);
    events.close();
    CHECK(events.figures().pending == 0);
    CHECK(events.figures().peak_pending == 4);
}

TEST_CASE("a subscription that was moved away can be given another one", "[informer]") {
    bench b;
    auto first = b.pods.subscribe();
    const auto moved = std::move(first);
    first = b.pods.subscribe();
    b.sync_with({pod("a", 1)}, 5);
    CHECK(read_all(first) == words{"+a:1!"}); // NOLINT(bugprone-use-after-move) that is the point
}

// ---- time -----------------------------------------------------------------------------------------------------------

TEST_CASE("X5 two seconds after a watch-list was opened and nothing came, it is listed", "[informer]") {
    bench b;
    const auto w = b.source->on_watch();
    b.source->on_list(list_of({pod("a", 1)}, "5"));
    b.source->on_watch();
    b.start();
    b.pass(1s);
    w->open();
    b.settle();
    b.pass(1999ms);
    CHECK(b.source->lists() == 0);
    b.pass(1ms);
    CHECK(b.source->lists() == 1);
}

TEST_CASE("X5 a watch-list of which bytes keep coming is waited for", "[informer]") {
    bench b;
    const auto w = b.source->on_watch();
    w->open();
    b.start();
    for (int i = 0; i < 20; ++i) {
        b.pass(1900ms);
        w->bytes(1000);
        b.settle();
    }
    w->added(pod("a", 1)).bookmark("5", true);
    b.settle();
    CHECK(b.pods.has_synced());
    CHECK(b.source->lists() == 0);
}

TEST_CASE("a watch that a slow subscriber held up is not taken for silent", "[informer]") {
    bench b(informer_options().queue_capacity(1).watch_timeout(2h));
    auto held = b.pods.subscribe(one_at_a_time());
    const auto w = b.sync_with({pod("a", 1)}, 5);
    read_all(held);
    for (int i = 6; i < 9; ++i) { // then a minute's silence is usual, and three are not
        b.pass(1min);
        w->bookmark(std::to_string(i));
        b.settle();
    }
    hold_up(b, w, "a", 10);
    w->modified(pod("a", 12)); // and then nothing more
    b.settle();
    b.pass(1h);
    let_go(b, held);
    CHECK(b.pods.get("default/a").resource_version().str() == "12");
    CHECK(b.source->calls().size() == 1);
    CHECK_FALSE(b.pods.status().last_error);
    // From now on, silence counts.
    b.source->on_watch();
    b.pass(150s);
    CHECK(b.source->calls().size() == 2);
    CHECK(b.pods.status().last_error == errc::body_idle_timeout);
}

TEST_CASE("a state that a watch contradicts is fetched again within two seconds", "[informer]") {
    bench b;
    const auto w = b.sync_with({pod("a", 1)}, 5);
    b.pass(10s);
    w->modified(pod("a", 6, "", "another"));
    b.settle();
    const auto next = b.source->on_watch();
    b.pass(2s);
    CHECK(next->taken());
    CHECK(b.source->calls().back().query.send_initial_events_);
}

// ---- what is not enough to fetch the state again --------------------------------------------------------------------

TEST_CASE("a deletion or a change of the object that is there does not lead to a fetch of the state", "[informer]") {
    bench b;
    const auto w = b.sync_with({pod("a", 1), pod("b", 2)}, 5);
    w->deleted(pod("a", 6)).modified(pod("b", 7)).added(pod("a", 8, "", "another"));
    b.settle();
    b.pass(2min);
    CHECK(b.source->calls().size() == 1);
}

TEST_CASE("an object that cannot be read, but is named, leaves nothing unproven", "[informer]") {
    bench b(informer_options().watch_list(false));
    auto w = b.list_with({pod("x", 1), pod("y", 2)}, 5);
    w = relist(b, w, list_of({bad_x, pod("y", 2)}, "9"));
    CHECK(b.pods.get("default/x"));
    CHECK(b.pods.status().unproven == 0);
    const auto calls = b.source->calls().size();
    b.pass(2min);
    CHECK(b.source->calls().size() == calls);
}

TEST_CASE("a check of the newest version is one request, however many pages the list would have", "[informer]") {
    bench b(informer_options().watch_list(false));
    const auto w = b.list_with({pod("a", 1)}, 20);
    w->bookmark("19");
    b.source->on_list(list_of({pod("a", 1)}, "21", "more"));
    b.source->on_watch();
    b.settle();
    b.pass(10s);
    REQUIRE(b.source->calls().size() == 4);
    CHECK(b.source->calls().back().query.resource_version_ == "20");
    CHECK(b.pods.status().quarantined == 0);
}

// ---- what objects and lists may lack --------------------------------------------------------------------------------

TEST_CASE("an object that has no uid yet, or no longer, is not another one", "[informer]") {
    const std::string bare =
        R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"a","resourceVersion":"VERSION"}})";
    const auto without_uid = [&bare](int version) {
        std::string text = bare;
        return text.replace(text.find("VERSION"), 7, std::to_string(version));
    };
    bench b;
    auto events = b.pods.subscribe();
    const auto w = b.sync_with({without_uid(1)}, 5);
    read_all(events);
    w->modified(pod("a", 6)).modified(without_uid(7));
    b.settle();
    CHECK(read_all(events) == words{"~a:6", "~a:7"});
}

TEST_CASE("if lists have no version, that of the newest object counts, and one that is no number does not",
          "[informer]") {
    bench b(informer_options().watch_list(false));
    std::vector<std::string> pods;
    for (int i = 0; i < 40; ++i) pods.push_back(pod("p" + std::to_string(i), 100 + i));
    pods.push_back(R"({"metadata":{"namespace":"default","name":"q","resourceVersion":"new"}})");
    b.source->on_list(list_of(std::move(pods), ""));
    b.source->on_watch();
    b.start();
    CHECK(b.pods.snapshot().resource_version().str() == "139");
}

TEST_CASE("once lists have no version any more, the cache's version is that of its objects", "[informer]") {
    bench b(informer_options().watch_list(false));
    const auto w = b.list_with({pod("a", 7)}, 50);
    b.source->on_list(list_of({pod("a", 7)}, "")); // is asked for once more
    relist(b, w, list_of({pod("a", 7)}, ""));
    CHECK(b.pods.snapshot().resource_version().str() == "7");
}

// ---- quarantine -----------------------------------------------------------------------------------------------------

TEST_CASE("X7 an object that was good, then bad, then deleted, is in quarantine no more", "[informer]") {
    bench b;
    const auto w = b.sync_with({pod("a", 6)}, 6);
    w->modified(R"({"metadata":{"namespace":"default","name":"a","resourceVersion":"7"},"spec":})");
    b.settle();
    REQUIRE(b.pods.status().quarantined == 1);
    w->deleted(pod("a", 5)); // of its predecessor, repeated
    b.settle();
    CHECK(b.pods.status().quarantined == 1);
    w->deleted(pod("a", 8));
    b.settle();
    CHECK(b.pods.status().quarantined == 0);
}

TEST_CASE("X7 the repeated deletion of its predecessor does not take an object that was never good out of quarantine",
          "[informer]") {
    const auto table = [](int version) { // what cannot be parsed has no version to compare
        return R"({"apiVersion":"meta.k8s.io/v1","kind":"Table","metadata":{"namespace":"default","name":"x","resourceVersion":")" +
               std::to_string(version) + R"("}})";
    };
    bench b;
    const auto w = b.sync_with({pod("a", 1)}, 5);
    w->added(table(9));
    const bool readable = GENERATE(true, false);
    w->deleted(readable ? pod("x", 7) : table(7));
    b.settle();
    CHECK(b.pods.status().quarantined == 1);
    w->deleted(readable ? pod("x", 10) : table(10));
    b.settle();
    CHECK(b.pods.status().quarantined == 0);
}

TEST_CASE("X7 of bad objects without a name, status shows the first, counts all, and forgets them with the next list",
          "[informer]") {
    const std::string nameless = R"({"metadata":{"resourceVersion":"4"}})";
    bench b(informer_options().watch_list(false));
    const auto w = b.list_with({nameless}, 5);
    for (int i = 0; i < 100; ++i) w->added(nameless);
    b.settle();
    CHECK(b.pods.status().quarantined == 101);
    CHECK(b.pods.status().quarantine.size() <= 16);
    relist(b, w, list_of({pod("a", 1)}, "9"));
    CHECK(b.pods.status().quarantined == 0);
    CHECK(b.pods.status().quarantine.empty());
}

TEST_CASE("X7 an object that came and was deleted amid the initial events is gone, even if its last state is bad",
          "[informer]") {
    bench b;
    const auto w = b.source->on_watch();
    w->added(pod("a", 1)).added(pod("b", 2));
    w->deleted(R"({"metadata":{"namespace":"default","name":"a","resourceVersion":"3"},"spec":})").bookmark("5", true);
    b.start();
    CHECK(b.pods.snapshot().size() == 1);
    CHECK(b.pods.status().quarantined == 0);
}

// ---- status ---------------------------------------------------------------------------------------------------------

TEST_CASE("bookmarks, and requests of each kind, are counted", "[informer]") {
    bench b;
    const auto w = b.sync_with({pod("a", 1)}, 5);
    w->bookmark("6").bookmark("7").end();
    const auto next = b.source->on_watch();
    b.settle();
    b.pass(1s);
    next->bookmark("5"); // below the last: the newest version is asked for
    b.source->on_list(list_of({pod("a", 1)}, "8"));
    b.source->on_watch();
    b.settle();
    b.pass(10s);
    const informer_status s = b.pods.status();
    CHECK(s.bookmarks == 2);
    CHECK(s.watch_lists == 1);
    CHECK(s.watches == 2);
    CHECK(s.lists == 1);
}

TEST_CASE("a list whose answer is of no use is a failure, and says why", "[informer]") {
    bench b(informer_options().watch_list(false));
    b.source->on_list(list_of({pod("a", 1)}, "5", "again"));
    b.source->on_list(list_of({pod("b", 2)}, "5", "again"));
    b.start();
    CHECK(b.pods.status().phase == informer_phase::backing_off);
    CHECK(b.pods.status().last_error == errc::bad_response);
    CHECK_FALSE(b.pods.has_synced());
}
