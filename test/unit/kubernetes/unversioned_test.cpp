// Informers of resources that real servers serve without resource versions or without a watch: OpenShift's projects,
// metrics-server, Antrea.
#include "bench.hpp"

#include <informer/cache/shared_informer.hpp>

#include <catch2/catch_test_macros.hpp>

using namespace kubernetes_test;
using namespace std::chrono_literals;

namespace {

std::string object_of(const api_resource& r, const std::string& name, const std::string& version,
                      const std::string& more = "") {
    const std::string rv = version.empty() ? "" : R"(,"resourceVersion":")" + version + "\"";
    return R"({"kind":")" + r.kind + R"(","apiVersion":")" + r.api_version() + R"(","metadata":{"name":")" + name +
           "\"" + rv + "}" + more + "}";
}

/// `metadata`: the member with its name and the comma before it, or nothing.
std::string list_of(const api_resource& r, const std::string& metadata, const std::vector<std::string>& items) {
    std::string all;
    for (const auto& i : items) all += (all.empty() ? "" : ",") + i;
    return R"({"kind":")" + r.kind + R"(List","apiVersion":")" + r.api_version() + "\"" + metadata + R"(,"items":[)" +
           all + "]}";
}

const std::string no_version = R"(,"metadata":{})";

/// An informer on the scripted server.
struct scene {
    explicit scene(api_resource r, informer_options o = informer_options())
        : here(b.rt, b.api->make_list_watch(std::move(r)), std::move(o)),
          events(here.subscribe(subscription_options().sync_marks())) {}
    ~scene() {
        here.stop();
        b.until([&] { return ended; });
    }
    void start() {
        asio::co_spawn(b.io, here.run(), [this](std::exception_ptr) { ended = true; });
    }
    /// The events so far: "+a" added, "~a" updated, "-a" deleted, "!" behind initial ones; "*5" is a sync mark at 5.
    std::string told() {
        std::vector<std::string> all;
        while (auto e = events.try_next()) {
            const char* sign = e->kind == event_kind::added ? "+" : e->kind == event_kind::updated ? "~" : "-";
            const bool mark = e->kind == event_kind::synced;
            all.push_back(mark ? "*" + e->version.str() : sign + e->key().name + (e->initial ? "!" : ""));
        }
        std::string text;
        for (const auto& one : all) text += (text.empty() ? "" : " ") + one;
        return text;
    }
    const std::string& line(std::size_t i) const { return b.answers->lines.at(i); }
    std::deque<reply>& next() { return b.answers->next; }
    /// How a `wait_until` that begins now ends after `passes`.
    error_code end_of_wait(const std::string& version, std::chrono::seconds passes = 0s) {
        std::optional<error_code> end;
        asio::co_spawn(b.io, here.wait_until(resource_version(version), 1s), [&](std::exception_ptr e) {
            try {
                if (e) std::rethrow_exception(e);
                end = error_code();
            } catch (const error& wrong) {
                end = wrong.code();
            }
        });
        b.io.poll();
        b.clock->advance(passes);
        b.until([&] { return end.has_value(); });
        return *end;
    }

    bench b;
    shared_informer here;
    subscription events;
    bool ended = false;
};

} // namespace

TEST_CASE(
    "a resource whose lists have no resource version syncs, follows its watch, and is listed again when that ends") {
    const api_resource projects("project.openshift.io", "v1", "projects", "Project", false);
    const auto project = [&](const std::string& name, const std::string& version) {
        return object_of(projects, name, version);
    };
    scene s(projects);
    s.next().push_back(reply().streamed({}, reply::stall)); // the server ignores sendInitialEvents, and sends no event
    s.start();
    s.b.until([&] { return s.here.status().last_contact != std::chrono::system_clock::time_point(); });
    s.next().emplace_back(list_of(projects, no_version, {project("a", "10"), project("b", "9")}));
    s.next().push_back(
        reply().streamed({watch_event("ADDED", project("a", "10")), watch_event("ADDED", project("b", "9")),
                          watch_event("MODIFIED", project("a", "12")), watch_event("ADDED", project("c", "13")),
                          watch_event("DELETED", project("b", ""))},
                         reply::stall));
    s.b.clock->advance(2s);
    s.b.until([&] { return s.here.get("c") && !s.here.get("b"); });
    CHECK(s.line(1) == "GET /apis/project.openshift.io/v1/projects?limit=500");
    CHECK(s.line(2).find("watch=true") != std::string::npos);
    CHECK(s.line(2).find("resourceVersion") == std::string::npos);
    CHECK(s.line(2).find("sendInitialEvents") == std::string::npos);
    const std::string told = s.told();
    CHECK((told == "+a! +b! *10 ~a +c -b" || told == "+b! +a! *10 ~a +c -b")); // nothing twice
    informer_status now = s.here.status();
    CHECK(now.synced);
    CHECK(now.phase == informer_phase::watching);
    CHECK_FALSE(now.last_error);
    CHECK(now.attempts == 0);
    CHECK(s.here.snapshot().resource_version().str() == "13");
    CHECK_FALSE(s.end_of_wait("13"));
    CHECK(s.end_of_wait("14", 1s) == errc::deadline_exceeded);

    // The next list shows what happened while there was no watch.
    s.next().emplace_back(list_of(projects, no_version, {project("a", "12"), project("d", "15")}));
    s.next().push_back(reply().streamed(
        {watch_event("ADDED", project("a", "12")), watch_event("ADDED", project("d", "15"))}, reply::stall));
    s.b.clock->advance(11min);
    s.b.until([&] { return s.here.get("d") && s.b.answers->lines.size() == 5; });
    CHECK(s.line(3) == "GET /apis/project.openshift.io/v1/projects?limit=500");
    CHECK(s.line(4).find("resourceVersion") == std::string::npos);
    CHECK(s.told() == "-c +d *15");
    now = s.here.status();
    CHECK(now.relists == 1);
    CHECK(now.epoch == 1);
    CHECK(now.phase == informer_phase::watching);
    CHECK_FALSE(s.end_of_wait("15"));
}

TEST_CASE("a resource that can be listed but not watched is listed again and again, at the pace of the back-off") {
    const api_resource metrics("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", false);
    const auto node = [&](const std::string& name, const std::string& cpu) {
        return object_of(metrics, name, "", R"(,"usage":{"cpu":")" + cpu + "\"}");
    };
    const reply no_watch(
        405, status(405, "MethodNotAllowed", "watch is not supported on resources of kind nodes.metrics.k8s.io"));
    scene s(metrics);
    s.next().push_back(no_watch); // the watch-list
    s.next().emplace_back(list_of(metrics, "", {node("n1", "1"), node("n2", "1")}));
    s.next().push_back(no_watch);
    s.start();
    s.b.until([&] { return s.here.status().attempts == 1 && s.here.has_synced(); });
    const std::string first = s.told();
    CHECK((first == "+n1! +n2! *" || first == "+n2! +n1! *"));
    s.next().emplace_back(list_of(metrics, no_version, {node("n1", "1"), node("n3", "1")}));
    s.next().push_back(no_watch);
    for (int i = 0; i < 100; ++i) { // not before its time
        s.b.io.restart();
        s.b.io.poll();
    }
    CHECK(s.b.answers->lines.size() == 3);
    s.b.clock->advance(2s);
    s.b.until([&] { return s.here.status().attempts == 2 && s.here.get("n3"); });
    CHECK(s.told() == "-n2 +n3 *");

    for (unsigned poll = 3; poll < 8; ++poll) {
        s.next().emplace_back(list_of(metrics, no_version, {node("n1", std::to_string(poll)), node("n3", "1")}));
        s.next().push_back(no_watch);
        s.b.clock->advance(61s);
        s.b.until([&] {
            const object n1 = s.here.get("n1");
            return s.here.status().attempts == poll && n1["usage"]["cpu"].string_or_empty() == std::to_string(poll);
        });
        CHECK(s.told() == "~n1 *");
    }
    CHECK(s.b.answers->lines.size() == 15);
    CHECK(s.line(13) == "GET /apis/metrics.k8s.io/v1beta1/nodes?limit=500");
    const informer_status now = s.here.status();
    CHECK(now.synced);
    CHECK(now.relists == 6);
    CHECK(now.phase == informer_phase::backing_off);
    CHECK(now.last_error.what().find("watch is not supported") != std::string::npos);
    CHECK(now.last_error_phase == "open");
    CHECK(s.b.log.count(log_level::warning) == 1); // of the first watch
    CHECK(s.b.log.count(log_level::info) == 2);    // no watch-list; synced
    CHECK(s.here.snapshot().resource_version().empty());
    CHECK(s.end_of_wait("1", 1s) == errc::deadline_exceeded);
}

TEST_CASE(
    "a bookmark without a resource version can end the initial events; other bookmarks without a version are ignored") {
    const api_resource groups("controlplane.antrea.io", "v1beta2", "addressgroups", "AddressGroup", false);
    const auto group = [&](const std::string& name) { return object_of(groups, name, ""); };
    const std::string bare = R"({"kind":"AddressGroup","apiVersion":"controlplane.antrea.io/v1beta2","metadata":{)";
    scene s(groups);
    s.next().push_back(reply().streamed(
        {watch_event("ADDED", group("a")), watch_event("BOOKMARK", bare + "}}"), watch_event("ADDED", group("b")),
         watch_event("BOOKMARK", bare + R"("annotations":{"k8s.io/initial-events-end":"true"}}})"),
         watch_event("BOOKMARK", bare + "}}"), watch_event("DELETED", group("a"))},
        reply::stall));
    s.start();
    s.b.until([&] { return s.here.has_synced() && !s.here.get("a"); });
    const informer_status now = s.here.status();
    CHECK(now.quarantined == 0);
    CHECK(now.watch_lists == 1);
    CHECK(now.lists == 0);
    CHECK(s.b.answers->lines.size() == 1);
    s.next().push_back(
        reply().streamed({watch_event("ADDED", group("c")),
                          watch_event("BOOKMARK", bare + R"("annotations":{"k8s.io/initial-events-end":"true"}}})")},
                         reply::stall));
    s.b.clock->advance(11min);
    s.b.until([&] { return s.here.get("c") && !s.here.get("b"); });
    CHECK(s.line(1).find("sendInitialEvents=true") != std::string::npos);
    CHECK(s.here.status().phase == informer_phase::watching);
}
