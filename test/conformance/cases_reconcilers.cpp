// What reconcilers need from a server: finalizers, owner references, conflict retry, status patches, events.
#include "objects.hpp"

#include "support/finalizing.hpp"

#include <informer/controller/event_recorder.hpp>
#include <informer/controller/owner_reference.hpp>
#include <informer/controller/update.hpp>
#include <informer/object/json.hpp>

#include <algorithm>
#include <set>

using namespace informer;
using namespace informer::conformance;
using namespace std::chrono_literals;
using informer::testing::finalizers;
using informer::testing::finalizing;
using outcome = reconcile_result::outcome;

namespace {

constexpr auto patience = 60s;

api_resource events() {
    return api_resource("events.k8s.io", "v1", "events", "Event", true);
}

// --- finalizers

asio::awaitable<void> finalizer_life(std::shared_ptr<cluster> c) {
    const auto widgets = co_await c->make_crd();
    object w = co_await make_widget(c, widgets, "w", "1");
    finalizing f(c->client(), widgets, "example.com/cleanup");
    const object bare = w;
    auto r = co_await f.step(w);
    CHECK(r.what() == outcome::done);
    CHECK(f.applied == 1);
    CHECK(finalizers(f.applied_to) == std::vector<std::string>{"example.com/cleanup"}); // stored first
    w = co_await read(c, widgets, "w");
    CHECK(f.applied_to.resource_version() == w.resource_version());
    r = co_await f.step(w);
    CHECK(f.applied == 2);

    // Another client edits the list of finalizers: a write computed from the old list is refused, and the reconciler
    // asks to be called again.
    finalizing other(c->client(), widgets, "other.io/cleanup");
    r = co_await other.step(bare); // does not know the list yet
    CHECK(r.what() == outcome::requeue);
    r = co_await other.step(w);
    CHECK(r.what() == outcome::done);
    r = co_await other.step(w); // the list is longer by now
    CHECK(r.what() == outcome::requeue);
    w = co_await read(c, widgets, "w");
    CHECK(finalizers(w) == std::vector<std::string>{"example.com/cleanup", "other.io/cleanup"});
    const object alive = w;

    co_await drop(c, widgets, "w");
    w = co_await read(c, widgets, "w");
    REQUIRE(w.meta().value()["deletionTimestamp"].exists());
    f.cleanup_says = reconcile_result::requeue_after(1min);
    r = co_await f.step(w);
    CHECK(r.what() == outcome::requeue_after);
    CHECK(f.cleaned == 1);
    // A third finalizer that does not know of the deletion is refused: it asks to be called again, and then there is
    // nothing to do.
    finalizing third(c->client(), widgets, "third.io/cleanup");
    r = co_await third.step(alive);
    CHECK(r.what() == outcome::requeue);
    r = co_await third.step(w);
    CHECK(r.what() == outcome::done);
    CHECK(third.applied + third.cleaned == 0);

    f.cleanup_says = reconcile_result::done();
    r = co_await f.step(w);
    CHECK(r.what() == outcome::done);
    r = co_await other.step(w); // its place in the list has changed
    CHECK(r.what() == outcome::requeue);
    w = co_await read(c, widgets, "w");
    CHECK(finalizers(w) == std::vector<std::string>{"other.io/cleanup"});
    r = co_await other.step(w);
    CHECK(r.what() == outcome::done);
    const bool away = co_await gone(c, widgets, "w");
    CHECK(away);
    r = co_await other.step(w); // a late event
    CHECK(r.what() == outcome::done);
}

asio::awaitable<void> bad_finalizer(std::shared_ptr<cluster> c) {
    const object o = co_await c->put("a", "1");
    finalizing f(c->client(), c->config_maps(), "no name, this");
    const auto r = co_await f.step(o);
    CHECK(r.what() == outcome::error); // quiet retries would never end
    CHECK(r.why() == errc::invalid);
}

asio::awaitable<void> protected_groups(std::shared_ptr<cluster> c) {
    const std::string group = cluster::unique("g") + ".k8s.io";
    json::value crd =
        json::parse(R"({"spec":{"scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget"},
        "versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}})");
    crd.at("spec").as_object()["group"] = group;
    crd.as_object()["metadata"] = json::object{{"name", "widgets." + group}};
    const kubernetes::write_options dry = kubernetes::write_options().dry_run();
    failure f;
    co_await c->client().create(definitions(), crd, dry, f);
    CHECK(f == errc::invalid);
    crd.at("metadata").as_object()["annotations"] = json::object{{"api-approved.kubernetes.io", "unapproved, a test"}};
    co_await c->client().create(definitions(), crd, dry, f);
    CHECK_FALSE(f);
}

// --- owner references

asio::awaitable<void> owners(std::shared_ptr<cluster> c) {
    const auto widgets = co_await c->make_crd();
    const object owner = co_await make_widget(c, widgets, "owner", "1");
    const object second = co_await make_widget(c, widgets, "second", "1");
    json::value d = json::parse(R"({"spec":{"replicas":0,"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":
        {"labels":{"app":"x"}},"spec":{"containers":[{"name":"a","image":"i:1"}]}}}})");
    d.as_object()["metadata"] = json::object{{"name", "d"}, {"namespace", c->name_space()}};
    failure f;
    set_controller_reference(d, owner, f);
    REQUIRE_FALSE(f);
    set_owner_reference(d, second, f);
    REQUIRE_FALSE(f);
    const kubernetes::write_options plain;
    const object made = co_await c->client().create(deployments(), d, plain);
    CHECK(is_controlled_by(made, owner));
    CHECK(is_owned_by(made, second));
    CHECK_FALSE(is_controlled_by(made, second));
    const auto reference = controller_of(made);
    REQUIRE(reference);
    CHECK(reference->api_version == widgets.group + "/v1");
    CHECK(reference->kind == "Widget");
    CHECK(reference->uid == owner.meta().uid().str());
    CHECK(reference->block_owner_deletion);
    // An object has one controller: the library refuses a second one, and so does the server.
    set_controller_reference(d, second, f);
    CHECK(f == errc::conflict);
    auto& both = d.at("metadata").at("ownerReferences").as_array();
    both[1].as_object()["controller"] = true;
    d.at("metadata").as_object()["name"] = "two-controllers";
    co_await c->client().create(deployments(), d, plain, f);
    CHECK(f == errc::invalid);
    both[1].as_object()["controller"] = false;
    both[1].as_object()["uid"] = "";
    co_await c->client().create(deployments(), d, plain, f);
    CHECK(f == errc::invalid);
}

// --- conflict retry and status

asio::awaitable<void> retries(std::shared_ptr<cluster> c) {
    const auto widgets = co_await c->make_crd();
    co_await make_widget(c, widgets, "w", "0");
    // Ten coroutines at once, each of which adds 1: no addition is lost.
    task_group adding(c->runtime().executor());
    const auto done = std::make_shared<int>(0);
    const auto add = [](std::shared_ptr<cluster> on, api_resource r, std::shared_ptr<int> n) -> asio::awaitable<void> {
        const object_key key(on->name_space(), "w");
        object_change change = [](json::value& o) {
            auto& v = o.at("spec").at("value").as_string();
            v = std::to_string(std::stoi(std::string(v)) + 1);
            return true;
        };
        for (;;) { // five attempts are not always enough for ten at once
            failure f;
            const kubernetes::write_options plain;
            co_await update_with_retry(on->runtime(), on->client(), r, key, change, plain, f);
            if (!f) break;
            CHECK(f == errc::conflict);
        }
        ++*n;
    };
    for (int i = 0; i < 10; ++i) adding.spawn(add(c, widgets, done));
    co_await adding.join();
    CHECK(*done == 10);
    object w = co_await read(c, widgets, "w");
    CHECK(w["spec"]["value"].as_string() == "10");

    // A write to the subresource changes only status.
    const object_key key(c->name_space(), "w");
    object_change to_status = [](json::value& o) {
        o.as_object()["status"] = json::object{{"seen", "10"}, {"phase", "new"}};
        o.at("spec").as_object()["value"] = "not this";
        return true;
    };
    kubernetes::write_options status;
    status.subresource("status");
    w = co_await update_with_retry(c->runtime(), c->client(), widgets, key, to_status, status);
    CHECK(w["status"]["seen"].as_string() == "10");
    CHECK(w["spec"]["value"].as_string() == "10");

    // patch_status writes the difference from the last known status: members that others wrote stay, unwanted ones go.
    const std::string theirs = R"({"status":{"theirs":true}})";
    const object_key same = key;
    auto change = json::parse(theirs);
    co_await c->client().patch(widgets, same, kubernetes::patch_type::merge, std::move(change), status);
    json::value wanted = json::object{{"seen", "11"}};
    const object patched = co_await patch_status(c->client(), widgets, w, wanted);
    CHECK(to_value(patched).at("status") == json::parse(R"({"seen":"11","theirs":true})"));
    json::value now = to_value(patched).at("status");
    const object again = co_await patch_status(c->client(), widgets, patched, now);
    CHECK(again.resource_version() == patched.resource_version());
    const object stored = co_await read(c, widgets, "w");
    CHECK(stored.resource_version() == patched.resource_version()); // nothing was written
}

asio::awaitable<void> deployment_status(std::shared_ptr<cluster> c) {
    json::value d = json::parse(R"({"spec":{"replicas":2,"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":
        {"labels":{"app":"x"}},"spec":{"containers":[{"name":"a","image":"i:1"}]}}}})");
    d.as_object()["metadata"] = json::object{{"name", "d"}, {"namespace", c->name_space()}};
    const kubernetes::write_options plain;
    const object made = co_await c->client().create(deployments(), d, plain);
    json::value status = json::parse(R"({"replicas":2,"updatedReplicas":2,"readyReplicas":1,"availableReplicas":1,
        "conditions":[{"type":"Available","status":"False","reason":"R","message":"m","lastUpdateTime":"2024-01-01T00:00:00Z",
        "lastTransitionTime":"2024-01-01T00:00:00Z"}]})");
    const object told = co_await patch_status(c->client(), deployments(), made, status);
    CHECK(told["status"]["availableReplicas"].as_int64() == 1);
    CHECK(told["status"]["conditions"].size() == 1);
    CHECK(told["spec"]["replicas"].as_int64() == 2);
    CHECK(told.meta().value()["generation"].as_int64() == made.meta().value()["generation"].as_int64());
}

// --- events

asio::awaitable<std::vector<object>> events_about(std::shared_ptr<cluster> c, std::string where, std::string uid) {
    const list_options all;
    const auto found = co_await c->client().list(events(), where, all);
    std::vector<object> about;
    for (const auto& e : found.items)
        if (e["regarding"]["uid"].string_or_empty() == uid) about.push_back(e);
    co_return about;
}

std::string text(const object& e, std::string_view field) {
    return e[field].string_or_empty().str();
}

asio::awaitable<void> recorded_events(std::shared_ptr<cluster> c) {
    const object subject = co_await c->put("a", "1");
    const object related = co_await c->put("b", "1");
    const api_resource namespaces("", "v1", "namespaces", "Namespace", false);
    const object_key ns("", c->name_space());
    const object everywhere = co_await c->client().get(namespaces, ns);
    event_recorder recorder(c->runtime(), c->client(), event_recorder_options("example.com/conformance"));
    task_group sending(c->runtime().executor());
    sending.spawn(recorder.run());

    recorder.event(subject, event_type::normal, "Synced", "Sync", "all is well", related);
    bool told = co_await recorder.flush(patience);
    REQUIRE(told);
    auto found = co_await events_about(c, c->name_space(), subject.meta().uid().str());
    REQUIRE(found.size() == 1);
    CHECK(text(found[0], "reason") == "Synced");
    CHECK(text(found[0], "action") == "Sync");
    CHECK(text(found[0], "note") == "all is well");
    CHECK(text(found[0], "type") == "Normal");
    CHECK(text(found[0], "reportingController") == "example.com/conformance");
    CHECK(found[0]["regarding"]["kind"].as_string() == "ConfigMap");
    CHECK(found[0]["related"]["name"].as_string() == "b");
    CHECK_FALSE(found[0]["series"].exists());
    // The same again makes it a series.
    recorder.event(subject, event_type::normal, "Synced", "Sync", "all is well", related);
    told = co_await recorder.flush(patience);
    REQUIRE(told);
    found = co_await events_about(c, c->name_space(), subject.meta().uid().str());
    REQUIRE(found.size() == 1);
    CHECK(found[0]["series"]["count"].as_int64() == 2);
    CHECK_FALSE(found[0]["series"]["lastObservedTime"].string_or_empty().empty());

    // Too long: cut, and not in the middle of a character.
    std::string note = "x";
    for (int i = 0; i < 600; ++i) note += "\u00e4";
    const std::string reason(200, 'R'), action(200, 'A');
    recorder.event(related, event_type::warning, reason, action, note);
    recorder.event(related, event_type::warning, "NoAction", "", "");
    // The Event of a cluster-scoped object is in "default". The name of an Event is made from that of its object; where
    // that is not allowed, a similar one is used.
    recorder.event(everywhere, event_type::normal, "Seen", "See", "a namespace");
    event_record odd;
    odd.reason = "Seen";
    odd.note = "a name with colons, and one that is as long as can be";
    odd.regarding.api_version = "rbac.authorization.k8s.io/v1";
    odd.regarding.kind = "ClusterRole";
    odd.regarding.name = "system:Basic_User." + std::string(230, 'y');
    odd.regarding.uid = "odd-" + c->name_space();
    recorder.event(odd);
    told = co_await recorder.flush(patience);
    CHECK(told);
    found = co_await events_about(c, c->name_space(), related.meta().uid().str());
    REQUIRE(found.size() == 2);
    const bool first_long = text(found[0], "reason") != "NoAction";
    const object& longest = first_long ? found[0] : found[1];
    const object& shortest = first_long ? found[1] : found[0];
    CHECK(text(longest, "reason") == reason.substr(0, 128));
    CHECK(text(longest, "action") == action.substr(0, 128));
    CHECK(text(longest, "note") == note.substr(0, 1023));
    CHECK(text(longest, "type") == "Warning");
    CHECK(text(shortest, "action") == "NoAction");
    found = co_await events_about(c, "default", everywhere.meta().uid().str());
    REQUIRE(found.size() == 1);
    CHECK(text(found[0], "note") == "a namespace");
    auto odd_ones = co_await events_about(c, "default", odd.regarding.uid);
    CHECK(odd_ones.size() == 1);
    CHECK(recorder.figures().failed == 0);
    CHECK(recorder.figures().dropped == 0);

    // The Event of a series is gone (Events live for an hour): it is created again with the whole series.
    const auto before = co_await events_about(c, c->name_space(), subject.meta().uid().str());
    co_await drop(c, events(), before[0].key().name);
    event_record again;
    again.reason = "Seen";
    again.note = "again";
    again.regarding = event_subject(subject);
    recorder.event(again);
    told = co_await recorder.flush(patience);
    const auto once = co_await events_about(c, c->name_space(), subject.meta().uid().str());
    REQUIRE(once.size() == 1);
    co_await drop(c, events(), once[0].key().name);
    recorder.event(again);
    told = co_await recorder.flush(patience);
    CHECK(told);
    const auto anew = co_await events_about(c, c->name_space(), subject.meta().uid().str());
    REQUIRE(anew.size() == 1);
    CHECK(anew[0]["series"]["count"].as_int64() == 2);
    CHECK(recorder.figures().failed == 0);

    found.insert(found.end(), odd_ones.begin(), odd_ones.end()); // these are not in the namespace of the case
    for (const object& e : found) {
        failure ignored;
        const object_key key = e.key();
        const kubernetes::delete_options plain;
        co_await c->client().remove(events(), key, plain, ignored);
    }
    sending.stop();
    co_await sending.join();
}

} // namespace

TEST_CASE("a finalizer is stored before the work and removed after the clean-up, and edits of others are never undone",
          "[conformance][controller]") {
    run_case(finalizer_life);
}
TEST_CASE("a finalizer whose name the server refuses is an error, not something to try again quietly",
          "[conformance][controller]") {
    run_case(bad_finalizer);
}
TEST_CASE("a definition in one of Kubernetes' own groups needs an approval annotation", "[conformance][controller]") {
    run_case(protected_groups);
}
TEST_CASE("owner references are as the server wants them, and it allows one controller", "[conformance][controller]") {
    run_case(owners);
}
TEST_CASE("conflict retry loses no update, status patches write what differs", "[conformance][controller]") {
    run_case(retries);
}
TEST_CASE("the status of a Deployment is patched", "[conformance][controller]") {
    run_case(deployment_status);
}
TEST_CASE("events are accepted: series, cluster-scoped subjects, too long notes, odd names",
          "[conformance][controller]") {
    run_case(recorded_events);
}
