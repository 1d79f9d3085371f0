// Objects that an informer cannot use.
#include "informer_fixture.hpp"
#include "support/recording_sink.hpp"

#include <algorithm>
#include <map>

#include <catch2/generators/catch_generators.hpp>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;

TEST_CASE("X7 a bad event is quarantined, its last good version stays, a good one clears it", "[informer]") {
    bench b;
    auto events = b.pods.subscribe();
    const auto w = b.sync_with({pod("a", 1), pod("b", 2)}, 5);
    read_all(events);
    const std::string head = R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"a")";
    w->modified(head + R"(,"resourceVersion":"6"},"spec":{"note":})");
    w->modified(R"({"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"7"}})");
    w->modified(R"({"apiVersion":"meta.k8s.io/v1","kind":"Table","metadata":{"namespace":"default","name":"t"}})");
    w->modified(pod("b", 9, "fine"));
    b.settle();
    CHECK(read_all(events) == words{"~b:9"}); // everything else goes on
    CHECK(b.pods.get("default/a").resource_version().str() == "1");
    auto s = b.pods.status();
    CHECK(s.quarantined == 3);
    REQUIRE(s.quarantine.size() == 3);
    bool named = false, nameless = false, table = false;
    for (const auto& q : s.quarantine) {
        named = named || (q.key.str() == "default/a" && q.why);
        nameless = nameless || q.why == errc::no_metadata;
        table = table || (q.key.name == "t" && q.why == errc::not_an_object);
    }
    CHECK(named);
    CHECK(nameless);
    CHECK(table);
    w->modified(pod("a", 10, "good again"));
    b.settle();
    CHECK(b.pods.status().quarantined == 2);
    CHECK(b.note("a") == "good again");
}

TEST_CASE("X7 a nameless object that comes once a second does not fill the log", "[informer]") {
    bench b;
    const auto w = b.sync_with({pod("a", 1)}, 5);
    const auto said = [&] {
        std::size_t n = 0;
        for (const auto& line : b.log.lines()) n += line.text.find("cannot be used") != std::string::npos;
        return n;
    };
    for (int i = 0; i < 100; ++i) w->modified(R"({"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"7"}})");
    b.settle();
    CHECK(b.pods.status().quarantined == 100);
    CHECK(said() > 0);
    CHECK(said() < 20);
}

TEST_CASE("X7 a bad object that a relist brings again is not logged again, unless it was good meanwhile",
          "[informer]") {
    bench b(informer_options().watch_list(false));
    const auto bad = [](const std::string& name) {
        return R"({"metadata":{"namespace":"default","name":")" + name + R"("},"spec":})";
    };
    const std::string nameless = R"({"metadata":)";
    const auto relist = [&](const std::vector<std::string>& items) {
        b.source->on_list(list_of(items, "9"));
        auto w = b.source->on_watch();
        return w;
    };
    auto w = relist({bad("a"), bad("b"), nameless});
    b.start();
    CHECK(b.log.count("cannot be used") == 3);
    const auto again = [&](const std::vector<std::string>& items) {
        auto next = relist(items);
        w->fail(status_failure(410, "Expired"));
        b.settle();
        b.pass(1min);
        w = next;
    };
    again({bad("a"), bad("b"), nameless});
    CHECK(b.log.count("cannot be used") == 3);
    CHECK(b.pods.status().quarantined == 3);
    again({bad("a"), pod("b", 7), bad("c"), nameless, nameless});
    CHECK(b.log.count("cannot be used") == 5);
    CHECK(b.log.count("default/c cannot be used") == 1);
    again({bad("a"), bad("b"), pod("c", 8)});
    CHECK(b.log.count("default/a cannot be used") == 1);
    CHECK(b.log.count("default/b cannot be used") == 2);
    std::vector<std::string> many;
    for (int i = 0; i < 100; ++i) many.push_back(bad("n" + std::to_string(i)));
    again(many);
    CHECK(b.log.count("100 objects of the list cannot be used in all") == 1);
    const auto lines = b.log.count("cannot be used");
    again(many);
    CHECK(b.log.count("cannot be used") == lines);
    CHECK(b.pods.status().quarantined == 100);
}

TEST_CASE("X7 a repetition neither clears a newer bad object nor counts as one", "[informer]") {
    bench b;
    auto events = b.pods.subscribe();
    const auto w = b.sync_with({pod("a", 5)}, 5);
    read_all(events);
    const auto table = [](int version) {
        return R"({"apiVersion":"meta.k8s.io/v1","kind":"Table","metadata":{"namespace":"default","name":"a","resourceVersion":")" +
               std::to_string(version) + R"("}})";
    };
    w->modified(table(3));
    b.settle();
    CHECK(b.pods.status().quarantined == 0);
    w->deleted(table(4));
    b.settle();
    CHECK(b.pods.snapshot().size() == 1);
    w->modified(table(9)).modified(pod("a", 5)).modified(pod("a", 8, "older than the bad one"));
    b.settle();
    CHECK(b.pods.status().quarantined == 1);
    CHECK(read_all(events) == words{"~a:8"});
    w->modified(pod("a", 10));
    b.settle();
    CHECK(b.pods.status().quarantined == 0);
    w->deleted(table(12));
    b.settle();
    CHECK(read_all(events) == words{"~a:10", "-a:12?"});
}

TEST_CASE("a deletion whose object cannot be read still deletes", "[informer]") {
    bench b;
    auto events = b.pods.subscribe();
    const auto w = b.sync_with({pod("a", 1)}, 5);
    read_all(events);
    w->deleted(R"({"metadata":{"namespace":"default","name":"a","resourceVersion":"7"},"spec":})");
    b.settle();
    CHECK(read_all(events) == words{"-a:1?"});
    CHECK(b.pods.snapshot().size() == 0);
}

TEST_CASE("a deletion that does not name its object is found by a list", "[informer]") {
    bench b(informer_options().watch_list(false));
    auto events = b.pods.subscribe();
    const auto w = b.list_with({pod("a", 1), pod("b", 2)}, 5);
    read_all(events);
    b.source->on_list(list_of({pod("b", 2)}, "9"));
    const auto again = b.source->on_watch();
    const std::string nameless =
        GENERATE(Catch::Generators::as<std::string>(), R"({"metadata":)", R"({"metadata":{"resourceVersion":"8"}})");
    w->deleted(nameless);
    b.settle();
    CHECK(b.pods.status().phase == informer_phase::backing_off);
    CHECK(b.pods.status().quarantined == 1);
    b.pass(2s);
    CHECK(read_all(events) == words{"-a:1?#"});
    CHECK(b.pods.status().quarantined == 0);
    CHECK(b.source->calls()[b.source->calls().size() - 2].list.resource_version_.empty()); // the newest state
    // A change that cannot be read, unlike a deletion, does not make the informer list again.
    again->modified(nameless);
    b.settle();
    CHECK(b.source->lists() == 2);
    CHECK(b.pods.status().quarantined == 1);
}

TEST_CASE("WL7 a deletion amid the initial events that does not name its object begins them anew", "[informer]") {
    bench b;
    auto events = b.pods.subscribe();
    const auto w = b.source->on_watch();
    const auto again = b.source->on_watch();
    b.start();
    w->added(pod("a", 1)).added(pod("b", 2)).deleted(R"({"metadata":)").bookmark("9", true);
    b.settle();
    CHECK(b.pods.snapshot().size() == 0);
    again->added(pod("b", 2)).bookmark("9", true);
    b.pass(2s);
    CHECK(read_all(events) == words{"+b:2!"});
}

TEST_CASE("bad objects in a relist: an object that may still exist is not deleted", "[informer]") {
    bench b(informer_options().watch_list(false));
    auto events = b.pods.subscribe();
    const auto w = b.list_with({pod("a", 1), pod("b", 2), pod("c", 3)}, 5);
    read_all(events);
    const std::string bad_a = R"({"metadata":{"namespace":"default","name":"a"},"spec":})";
    const auto again = b.source->on_watch();
    SECTION("named: it alone stays") {
        b.source->on_list(list_of({bad_a, pod("b", 2)}, "9"));
        w->fail(status_failure(410, "Expired"));
        b.settle();
        b.pass(2s);
        CHECK(read_all(events) == words{"-c:3?#"});
        CHECK(b.pods.get("default/a").resource_version().str() == "1");
        CHECK(b.pods.status().quarantined == 1);
        SECTION("and the next clean list clears it") {
            b.source->on_list(list_of({pod("b", 2)}, "12"));
            again->fail(status_failure(410, "Expired"));
            b.settle();
            b.pass(5s);
            CHECK(b.pods.status().quarantined == 0);
            CHECK(b.pods.snapshot().size() == 1);
        }
    }
    SECTION("named, and another object than before: that one is gone") {
        const std::string identity = R"("metadata":{"namespace":"default","name":"a","uid":"another"})";
        const std::string other = GENERATE_COPY(R"({"kind":"Node","apiVersion":"v1",)" + identity + "}",
                                                R"({"spec":tru,)" + identity + "}", "{" + identity + R"(,"spec":})");
        b.source->on_list(list_of({other, pod("b", 2), pod("c", 3)}, "9"));
        w->fail(status_failure(410, "Expired"));
        b.settle();
        b.pass(2s);
        CHECK(read_all(events) == words{"-a:1?#"});
        CHECK(b.pods.snapshot().size() == 2);
        CHECK(b.pods.status().quarantined == 1);
        CHECK(b.pods.status().unproven == 0);
    }
    SECTION("unnamed: nothing is known to be absent") {
        b.source->on_list(list_of({R"({"metadata":)", pod("b", 2)}, "9"));
        w->fail(status_failure(410, "Expired"));
        b.settle();
        b.pass(2s);
        CHECK(read_all(events).empty());
        CHECK(b.pods.snapshot().size() == 3);
        CHECK(b.pods.status().quarantined == 1);
        CHECK(b.pods.status().unproven == 2);
        SECTION("so it is listed again, later each time, until a list proves what is gone") {
            b.source->on_list(list_of({R"({"metadata":)", pod("b", 2), pod("c", 3)}, "10"));
            b.source->on_watch();
            b.pass(1min);
            CHECK(b.pods.status().relists == 2);
            CHECK(b.pods.status().unproven == 1);
            CHECK(b.pods.snapshot().size() == 3);
            b.source->on_list(list_of({pod("b", 2), pod("d", 4)}, "12"));
            b.source->on_watch();
            b.pass(59s);
            CHECK(b.pods.status().relists == 2);
            b.pass(61s);
            CHECK(b.pods.status().relists == 3);
            CHECK(b.pods.status().unproven == 0);
            words told = read_all(events);
            std::sort(told.begin(), told.end());
            CHECK(told == words{"+d:4#", "-a:1?#", "-c:3?#"});
            b.pass(4min);
            CHECK(b.pods.status().lists == 4); // and then no more
        }
    }
}

TEST_CASE("a bad object of a relist does not replace one that came without a uid", "[informer]") {
    bench b(informer_options().watch_list(false));
    const std::string head = R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"a")";
    const auto w = b.list_with({head + "}}"}, 5);
    b.source->on_list(list_of({head + R"(,"uid":"uid-a"},"spec":})"}, "9"));
    b.source->on_watch();
    w->fail(status_failure(410, "Expired"));
    b.settle();
    b.pass(2s);
    CHECK(b.pods.status().relists == 1);
    CHECK(b.pods.status().quarantined == 1);
    CHECK(b.pods.snapshot().size() == 1);
}

TEST_CASE("a bad event of another object than the cached one leads to a list, which tells", "[informer]") {
    bench b(informer_options().watch_list(false));
    auto events = b.pods.subscribe();
    const auto w = b.list_with({pod("a", 1), pod("b", 2)}, 5);
    read_all(events);
    const std::string bad = R"({"metadata":{"namespace":"default","name":"a","uid":"another"},"spec":})";
    const bool deleted = GENERATE(false, true);
    if (deleted)
        w->deleted(bad);
    else
        w->added(bad);
    b.settle();
    CHECK(read_all(events).empty());
    CHECK(b.pods.status().quarantined == (deleted ? 0 : 1));
    const bool gone = GENERATE(true, false); // else the event was a repetition
    b.source->on_list(gone ? list_of({bad, pod("b", 2)}, "9") : list_of({pod("a", 1), pod("b", 2)}, "9"));
    b.source->on_watch();
    b.pass(5s);
    CHECK(b.pods.status().lists == 2);
    CHECK(read_all(events) == (gone ? words{"-a:1?#"} : words{}));
    CHECK(b.pods.snapshot().size() == (gone ? 1 : 2));
    CHECK(b.pods.status().quarantined == (gone ? 1 : 0));
}

TEST_CASE("bad objects of a page that broke and was asked for again do not count", "[informer]") {
    bench b(informer_options().watch_list(false));
    auto events = b.pods.subscribe();
    const auto w = b.list_with({pod("a", 1), pod("b", 2), pod("c", 3)}, 5);
    read_all(events);
    list_script first, broken, second;
    b.source->on_list(first.item(pod("a", 1)).version("9").continue_token("t"));
    broken.item(R"({"metadata":)").item(R"({"metadata":{"namespace":"default","name":"c"},"spec":})");
    b.source->on_list(broken.fail(failure(errc::connection_lost, "test")));
    b.source->on_list(second.item(pod("b", 2)).version("9"));
    b.source->on_watch();
    w->fail(status_failure(410, "Expired"));
    b.settle();
    for (int i = 0; i < 3; ++i) b.pass(5s);
    CHECK(b.pods.status().relists == 1);
    CHECK(read_all(events) == words{"-c:3?#"});
    CHECK(b.pods.status().quarantined == 0);
}

TEST_CASE("WL6 bad objects before the end bookmark: the last event of a key counts", "[informer]") {
    bench b;
    auto events = b.pods.subscribe();
    const auto w = b.sync_with({pod("a", 1), pod("b", 2)}, 5);
    read_all(events);
    const std::string bad_a = R"({"metadata":{"namespace":"default","name":"a","resourceVersion":"7"},"spec":})";
    const auto again = b.source->on_watch();
    w->fail(status_failure(410, "Expired"));
    b.settle();
    b.pass(2s);
    REQUIRE(again->taken());
    SECTION("bad, then deleted: it is gone") {
        again->added(bad_a).added(pod("b", 2)).deleted(bad_a).bookmark("9", true);
        b.settle();
        CHECK(read_all(events) == words{"-a:1?#"});
        CHECK(b.pods.snapshot().size() == 1);
        CHECK(b.pods.status().quarantined == 0);
    }
    SECTION("bad, then deleted with a text that can be read") {
        again->added(bad_a).added(pod("b", 2)).deleted(pod("a", 8)).bookmark("9", true);
        b.settle();
        CHECK(read_all(events) == words{"-a:1?#"});
        CHECK(b.pods.status().quarantined == 0);
    }
    SECTION("bad, then good: no reason to doubt that the server knows watch-list") {
        again->added(bad_a).added(pod("b", 2)).modified(pod("a", 8, "good")).bookmark("9", true);
        b.settle();
        CHECK(read_all(events) == words{"~a:8#"});
        CHECK(b.pods.status().quarantined == 0);
        CHECK(b.source->watch_list() == watch_list_support::yes);
    }
    SECTION("good, then bad: the good version stays, and status says that it is not the last") {
        again->added(pod("a", 1)).added(pod("b", 2)).modified(bad_a).bookmark("9", true);
        b.settle();
        CHECK(read_all(events).empty());
        CHECK(b.pods.snapshot().size() == 2);
        CHECK(b.pods.status().quarantined == 1);
    }
    CHECK(b.source->lists() == 0);
}

TEST_CASE("X7 observers get every bad object of a list and the reason; the log gets some, and how many there are",
          "[informer]") {
    const auto told = std::make_shared<recording_sink>();
    asio::io_context context;
    log_capture log;
    runtime rt(context.get_executor());
    rt.with_metrics(told).with_logger(log.logger(), log_level::info);
    const auto source = std::make_shared<scripted_list_watch>(context.get_executor());
    shared_informer pods(rt, source, informer_options().watch_list(false));
    std::map<std::string, failure> heard;
    std::size_t nameless = 0;
    pods.on_bad_object([&](const bad_object& b) {
        if (b.key.empty())
            ++nameless;
        else
            heard[b.key.name] = b.why;
    });
    std::vector<std::string> items;
    for (int i = 0; i < 40; ++i) {
        items.push_back(R"({"metadata":{"namespace":"default","name":"bad-)" + std::to_string(i) + R"("},"spec":})");
        items.push_back(R"({"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"7"}})");
    }
    source->on_list(list_of(std::move(items), "5"));
    source->on_watch();
    asio::co_spawn(context, pods.run(), [](std::exception_ptr) {});
    context.poll();
    CHECK(nameless == 40);
    CHECK(heard.size() == 40);
    for (const auto& [name, why] : heard) {
        INFO(name);
        CHECK(why);
    }
    CHECK(told->counters["informer_bad_objects_total resource=pods"] == 80);
    CHECK(pods.status().quarantined == 80);
    for (const bad_object& b : pods.status().quarantine) CHECK(b.why);
    CHECK(log.count("cannot be used: ") == 16);
    CHECK(log.contains("80 objects of the list cannot be used"));
    pods.stop();
    context.restart();
    context.run();
}

TEST_CASE("X7 all bad objects of a list are in quarantine, also those that status does not show", "[informer]") {
    const auto bad_one = [](int i) {
        return R"({"metadata":{"namespace":"default","name":"bad-)" + std::to_string(i) + R"("},"spec":})";
    };
    const int many = 40; // more than status() describes
    bench b(informer_options().watch_list(false));
    std::vector<std::string> items;
    for (int i = 0; i < many; ++i) items.push_back(bad_one(i));
    b.source->on_list(list_of(std::move(items), "5"));
    const auto w = b.source->on_watch();
    b.start();
    CHECK(b.pods.status().quarantined == many);
    CHECK(b.pods.status().quarantine.size() == 16);
    for (int i = 0; i < many; ++i) {
        w->modified(pod("bad-" + std::to_string(i), 10 + i));
        b.settle();
        CHECK(b.pods.status().quarantined == static_cast<std::size_t>(many - i - 1));
    }
    CHECK(b.pods.snapshot().size() == many);
}

TEST_CASE("X7 a deleted object is no longer in quarantine, even if it was never good", "[informer]") {
    bench b;
    const auto w = b.sync_with({pod("a", 1)}, 5);
    const std::string bad = R"({"metadata":{"namespace":"default","name":"x","resourceVersion":"7"},"spec":})";
    w->added(bad);
    b.settle();
    REQUIRE(b.pods.status().quarantined == 1);
    SECTION("by a text that can be read") {
        w->deleted(pod("x", 8));
    }
    SECTION("by one that cannot") {
        w->deleted(bad);
    }
    b.settle();
    CHECK(b.pods.status().quarantined == 0);
    CHECK(b.pods.status().quarantine.empty());
    w->deleted(bad); // of an unknown object
    b.settle();
    CHECK(b.pods.status().quarantined == 0);
}

TEST_CASE("X7 bad objects without a name count once, by watch-list as by list", "[informer]") {
    const std::string nameless = R"({"metadata":{"resourceVersion":"4"}})";
    SECTION("by watch-list") {
        bench b;
        const auto w = b.sync_with({pod("a", 1), nameless, nameless}, 5);
        CHECK(b.pods.status().quarantined == 2);
        w->added(nameless);
        b.settle();
        CHECK(b.pods.status().quarantined == 3);
    }
    SECTION("by list") {
        bench b(informer_options().watch_list(false));
        b.source->on_list(list_of({pod("a", 1), nameless, nameless}, "5"));
        const auto w = b.source->on_watch();
        b.start();
        CHECK(b.pods.status().quarantined == 2);
    }
}

TEST_CASE("X7 a bad object of a server that went back in time does not hide the object's later events", "[informer]") {
    bench b(informer_options().watch_list(false));
    auto events = b.pods.subscribe();
    const auto before = b.list_with({pod("x", 1000), pod("y", 1001)}, 1001);
    b.settle();
    read_all(events);
    before->bookmark("500"); // a restored backup
    b.source->on_list(list_of({}, "505"));
    b.source->on_list(list_of({R"({"metadata":{"namespace":"default","name":"x"},"spec":})", pod("y", 400)}, "505"));
    const auto w = b.source->on_watch();
    b.settle();
    b.pass(1min);
    REQUIRE(b.pods.status().epoch == 2);
    CHECK(read_all(events) == words{"~y:400#"});
    CHECK(b.pods.get("default/x").resource_version().str() == "1000");
    SECTION("an update") {
        w->modified(pod("x", 510));
        b.settle();
        CHECK(read_all(events) == words{"~x:510"});
        w->modified(pod("x", 509)); // from now on an older version is a repetition
        b.settle();
        CHECK(read_all(events).empty());
        w->deleted(pod("x", 520));
        b.settle();
        CHECK(read_all(events) == words{"-x:520"});
    }
    SECTION("a deletion") {
        w->deleted(pod("x", 520));
        b.settle();
        CHECK(read_all(events) == words{"-x:520"});
    }
    SECTION("a deletion that cannot be read") {
        w->deleted(
            R"({"apiVersion":"meta.k8s.io/v1","kind":"Table","metadata":{"namespace":"default","name":"x","resourceVersion":"520"}})");
        b.settle();
        CHECK(read_all(events) == words{"-x:520?"});
    }
    SECTION("another bad list of the same epoch, and a deletion") {
        w->fail(status_failure(410, "Expired"));
        b.source->on_list(
            list_of({R"({"metadata":{"namespace":"default","name":"x"},"spec":})", pod("y", 400)}, "515"));
        const auto next = b.source->on_watch();
        b.settle();
        b.pass(1min);
        next->deleted(pod("x", 520));
        b.settle();
        CHECK(read_all(events) == words{"-x:520"});
    }
}

TEST_CASE("X7 X14 an event that cannot be used still moves the version of the cache, and so ends waits for it",
          "[informer]") {
    bench b;
    const auto w = b.sync_with({pod("a", 1), pod("b", 2)}, 5);
    const std::string table = R"({"apiVersion":"meta.k8s.io/v1","kind":"Table",)"
                              R"("metadata":{"namespace":"default","name":"a","resourceVersion":"7"}})";
    SECTION("a change") {
        w->modified(table);
    }
    SECTION("a change that does not name its object") {
        w->modified(R"({"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"7"}})");
    }
    SECTION("a deletion") {
        w->deleted(table);
    }
    std::string waited = "waits";
    asio::co_spawn(b.context, b.pods.wait_until(resource_version("7"), 1h),
                   [&waited](std::exception_ptr e) { waited = e ? "failed" : "there"; });
    b.settle();
    CHECK(waited == "there");
    CHECK(b.pods.snapshot().resource_version().str() == "7");
    CHECK(b.pods.status().resource_version.str() == "7");
}
TEST_CASE("a bad deletion of another uid ends the object at once if its version is newer", "[informer]") {
    bench b(informer_options().watch_list(false));
    auto events = b.pods.subscribe();
    const auto w = b.list_with({pod("a", 1), pod("b", 2)}, 5);
    read_all(events);
    w->deleted(R"({"kind":"Node","apiVersion":"v1","metadata":{"namespace":"default","name":"a","uid":"another",)"
               R"("resourceVersion":"9"}})");
    b.settle();
    CHECK(b.pods.snapshot().size() == 1);
    CHECK(read_all(events) == words{"-a:9?"});
}
TEST_CASE("an object that holds its uid twice is not taken for another one when it is bad", "[informer]") {
    bench b(informer_options().watch_list(false));
    const std::string head = R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"a",)"
                             R"("uid":"x","uid":"uid-a","resourceVersion":"1"})";
    auto events = b.pods.subscribe();
    const auto w = b.list_with({head + "}"}, 5);
    read_all(events);
    b.source->on_list(list_of({head + R"(,"spec":})"}, "9"));
    b.source->on_watch();
    w->fail(status_failure(410, "Expired"));
    b.settle();
    b.pass(2s);
    REQUIRE(b.pods.status().relists == 1);
    CHECK(read_all(events).empty());
    CHECK(b.pods.snapshot().size() == 1);
}
TEST_CASE("a bad object of another uid amid the initial events shows that the good one before is gone", "[informer]") {
    const std::string bad =
        R"({"metadata":{"namespace":"default","name":"a","uid":"another","resourceVersion":"4"},"spec":})";
    for (const bool same : {false, true}) {
        CAPTURE(same);
        bench b;
        const auto w = b.source->on_watch();
        w->added(pod("a", 1)).added(pod("b", 2));
        w->modified(same ? std::string(bad).replace(bad.find("another"), 7, "uid-a") : bad);
        w->bookmark("5", true);
        b.start();
        CHECK(b.pods.has_synced());
        CHECK(static_cast<bool>(b.pods.get("default/a")) == same);
        CHECK(b.pods.get("default/b"));
        CHECK(b.pods.status().quarantined == 1);
    }
}
