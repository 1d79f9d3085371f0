// Parts of a resource by hashes, selected by the server or by the informer.
#include "informer_fixture.hpp"
#include "pods.hpp"

#include <informer/cache/informer_factory.hpp>
#include <informer/error.hpp>
#include <informer/source/shard_selector.hpp>

#include <cstdint>
#include <limits>

using namespace informer;
using namespace informer::testing;

namespace {

using by = shard_selector::by;
constexpr std::uint64_t top = std::numeric_limits<std::uint64_t>::max(), half = std::uint64_t(1) << 63;

const shard_selector lower = shard_selector::part(0, 2), upper = shard_selector::part(1, 2);

/// A uid in that part.
std::string uid_in(const shard_selector& part, int skip = 0) {
    for (int i = 0;; ++i) {
        std::string uid = "uid-" + std::to_string(i);
        if (part.contains(uid) && skip-- == 0) return uid;
    }
}

} // namespace

TEST_CASE("a part is written as kube-apiserver reads it") {
    CHECK(shard_selector().str().empty());
    CHECK(shard_selector::part(0, 1).everything());
    CHECK(lower.str() == "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')");
    CHECK(upper.str() == "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')");
    CHECK(shard_selector::part(2, 4, by::name_space).str() ==
          "shardRange(object.metadata.namespace, '0x8000000000000000', '0xc000000000000000')");
    CHECK(shard_selector::of({{0, 15}, {half, top}}).str() ==
          "shardRange(object.metadata.uid, '0x0000000000000000', '0x0000000000000010') || "
          "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')");
    CHECK(upper.describe() == "uid hashes 8000000000000000-ffffffffffffffff");
}

TEST_CASE("parts of any number leave no hash out and share none") {
    for (const std::uint64_t count : {2ull, 3ull, 7ull, 1000ull, 1ull << 40, ~0ull}) {
        const std::uint64_t some = std::min<std::uint64_t>(count, 1000);
        std::string end = "0x0000000000000000";
        for (std::uint64_t i = 0; i < some; ++i) {
            const std::string s = shard_selector::part(i, count).str();
            CHECK(s.substr(s.find("'0x") + 1, 18) == end);
            end = s.substr(s.rfind("'0x") + 1, s.rfind('\'') - s.rfind("'0x") - 1);
        }
        if (some == count) CHECK(end == "0x10000000000000000");
        CHECK(shard_selector::part(count - 1, count).str().ends_with("'0x10000000000000000')"));
    }
}

TEST_CASE("an invalid part is refused") {
    CHECK_THROWS_AS(shard_selector::part(2, 2), error);
    CHECK_THROWS_AS(shard_selector::part(0, 0), error);
    CHECK_THROWS_AS(shard_selector::of({{1, 0}}), error);
}

TEST_CASE("the hash is FNV-1a, as the server's") {
    // The published values of "" and "a" (the draft of FNV, appendix C).
    CHECK(shard_selector::of({{0xcbf29ce484222325, 0xcbf29ce484222325}}).contains(""));
    CHECK(shard_selector::of({{0xaf63dc4c8601ec8c, 0xaf63dc4c8601ec8c}}).contains("a"));
    CHECK_FALSE(shard_selector::of({{0xaf63dc4c8601ec8c, 0xaf63dc4c8601ec8c}}).contains("b"));
    CHECK(shard_selector().contains("a"));
}

TEST_CASE("an object belongs to a part by its uid or its namespace") {
    const object o = make_pod("web", "a", "1", "33333333-4444-5555-6666-777777777777");
    CHECK(lower.contains(o) == lower.contains("33333333-4444-5555-6666-777777777777"));
    CHECK(lower.contains(o) != upper.contains(o));
    const auto spaces = shard_selector::part(0, 2, by::name_space);
    CHECK(spaces.contains(o) == spaces.contains("web"));
}

TEST_CASE("an informer of a part asks for it, and drops the rest if the server cannot select", "[informer]") {
    const std::string mine = uid_in(lower), other_mine = uid_in(lower, 1), foreign = uid_in(upper);
    bench b(informer_options().shard(lower));
    auto events = b.pods.subscribe();
    const auto w = b.sync_with({pod("a", 1, "", mine), pod("b", 2, "", foreign)}, 3);
    CHECK(b.source->calls().at(0).query.shard_ == lower);
    CHECK(b.pods.snapshot().size() == 1);
    w->added(pod("c", 4, "", foreign)).modified(pod("b", 5, "x", foreign)).deleted(pod("b", 6, "x", foreign));
    w->added(pod("d", 7, "", other_mine)).modified(pod("a", 8, "y", mine)).deleted(pod("d", 9, "", other_mine));
    b.settle();
    CHECK(read_all(events) == words{"+a:1!", "+d:7", "~a:8", "-d:9"});
    CHECK(b.log.count("the server sends all objects") == 1);
    CHECK(b.pods.status().name == "pods, uid hashes 0000000000000000-7fffffffffffffff");
}

TEST_CASE("an informer of a part resumes at the version of an object of another part, too", "[informer]") {
    const std::string mine = uid_in(lower), foreign = uid_in(upper);
    bench b(informer_options().shard(lower));
    const auto w = b.sync_with({pod("a", 1, "", mine)}, 3);
    w->added(pod("c", 7, "", foreign));
    b.source->on_watch();
    w->end();
    b.settle();
    b.pass(std::chrono::minutes(1));
    REQUIRE(b.source->calls().size() == 2);
    CHECK(b.source->calls()[1].query.resource_version_ == "7");
    CHECK(b.source->calls()[1].query.shard_ == lower);
}

TEST_CASE("a change or deletion of another part amid the initial events is no sign of a plain watch", "[informer]") {
    const std::string mine = uid_in(lower), foreign = uid_in(upper);
    bench b(informer_options().shard(lower));
    const auto w = b.source->on_watch();
    w->added(pod("a", 1, "", mine))
        .added(pod("b", 2, "", foreign))
        .modified(pod("b", 4, "", foreign))
        .deleted(pod("b", 5, "", foreign));
    w->bookmark("6", true);
    b.start();
    CHECK(b.pods.has_synced());
    CHECK(b.pods.snapshot().size() == 1);
    CHECK(b.source->calls().size() == 1);
}

TEST_CASE("an object that was created again with a uid of another part is gone", "[informer]") {
    const std::string mine = uid_in(lower), foreign = uid_in(upper);
    bench b(informer_options().watch_list(false).shard(lower));
    b.source->on_list(list_of({pod("a", 1, "", mine)}, "5"));
    const auto w = b.source->on_watch();
    auto events = b.pods.subscribe();
    b.start();
    CHECK(b.source->calls().at(0).list.shard_ == lower);
    // By the watch …
    w->deleted(pod("a", 6, "", mine))
        .added(pod("a", 7, "", foreign))
        .deleted(pod("a", 8, "", foreign))
        .added(pod("a", 9, "", mine));
    b.settle();
    CHECK(read_all(events) == words{"+a:1!", "-a:6", "+a:9"});
    // … and by a list that replaces all.
    b.source->on_list(list_of({pod("a", 11, "", foreign), pod("b", 12, "", foreign)}, "12"));
    b.source->on_watch();
    w->fail(status_failure(410, "Expired"));
    b.settle();
    b.pass(std::chrono::minutes(1));
    CHECK(read_all(events) == words{"-a:9?#"});
    CHECK(b.pods.snapshot().size() == 0);
}

TEST_CASE("a bad object that turns out to be of another part leaves the quarantine", "[informer]") {
    const std::string mine = uid_in(lower), foreign = uid_in(upper);
    const auto bad = [](const std::string& name, int version) {
        return R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":")" + name +
               R"(","resourceVersion":")" + std::to_string(version) + R"("},"spec":})";
    };
    bench b(informer_options().shard(lower));
    const auto w = b.source->on_watch();
    w->added(pod("a", 1, "", mine)).added(bad("b", 2)).added(bad("c", 2)).added(bad("d", 2)).added(bad("e", 2));
    w->modified(pod("b", 3, "", foreign)).deleted(pod("c", 4, "", foreign));
    w->bookmark("5", true);
    b.start();
    CHECK(b.pods.status().quarantined == 2);
    w->modified(pod("d", 6, "", foreign)).deleted(pod("e", 7, "", foreign));
    b.settle();
    CHECK(b.pods.status().quarantined == 0);
    CHECK(b.pods.snapshot().size() == 1);
}

TEST_CASE("an object of another part under the name of ours means that ours is gone", "[informer]") {
    const std::string mine = uid_in(lower), foreign = uid_in(upper);
    bench b(informer_options().shard(lower));
    auto events = b.pods.subscribe();
    const auto w = b.source->on_watch();
    w->added(pod("a", 1, "", mine)).added(pod("b", 2, "", mine)).added(pod("c", 3, "", mine));
    w->modified(pod("a", 4, "", foreign)); // the deletion of its predecessor is not reported
    w->bookmark("5", true);
    b.start();
    CHECK(read_all(events).size() == 2);
    CHECK_FALSE(b.pods.get("default/a"));
    w->modified(pod("b", 1, "", foreign)); // older than ours: a repetition
    b.settle();
    CHECK(read_all(events).empty());
    w->modified(pod("b", 6, "", foreign)).deleted(pod("c", 7, "", foreign));
    b.settle();
    CHECK(read_all(events) == words{"-b:2?", "-c:3?"});
    CHECK(b.pods.snapshot().size() == 0);
    // A deletion was not reported: a list shows what else was missed.
    b.source->on_watch();
    b.pass(std::chrono::minutes(5));
    REQUIRE(b.source->calls().size() == 2);
    CHECK(b.source->calls()[1].query.send_initial_events_);
}

TEST_CASE("events of another part move the version of the cache", "[informer]") {
    bench b(informer_options().shard(lower));
    const auto w = b.sync_with({pod("a", 1, "", uid_in(lower))}, 3);
    w->added(pod("c", 7, "", uid_in(upper)));
    b.settle();
    CHECK(b.pods.snapshot().resource_version().str() == "7");
}

TEST_CASE("a selector of everything is the same whatever it hashes") {
    CHECK(shard_selector::part(0, 1, by::name_space) == shard_selector());
    CHECK(shard_selector::of({}, by::name_space) == shard_selector::part(0, 1));
    CHECK_FALSE(shard_selector::part(0, 2, by::name_space) == shard_selector::part(0, 2));
}

TEST_CASE("a factory does not share an informer of a part with a request for all", "[informer]") {
    boost::asio::io_context context;
    int made = 0;
    informer_factory factory(runtime(context.get_executor()), [&](const api_resource& r, const std::string&) {
        ++made;
        auto source = std::make_shared<scripted_list_watch>(context.get_executor(), r);
        source->on_watch();
        return source;
    });
    const api_resource pods("", "v1", "pods", "Pod");
    const auto name_with = [&](informer_options options) {
        const informer_handle held = factory.get(pods, {}, std::move(options));
        return held->status().name;
    };
    {
        const informer_handle part = factory.get(pods, {}, informer_options().shard(lower));
        const informer_handle same = factory.get(pods, {}, informer_options().shard(lower));
        CHECK(made == 1);
        CHECK(name_with(informer_options()) == "pods");
        CHECK(name_with(informer_options().shard(upper)) != part->status().name);
    }
    boost::asio::co_spawn(context, factory.shutdown(), [](std::exception_ptr e) { CHECK_FALSE(e); });
    context.run_for(std::chrono::seconds(5));
    CHECK(context.stopped());
}
