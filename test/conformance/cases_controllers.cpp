// What reconcilers need of a server: finalizers, owner references, conflict retry, status patches, events; whole controllers.
#include "cluster.hpp"

#include <informer/controller/controller.hpp>
#include <informer/controller/event_recorder.hpp>
#include <informer/controller/finalizer.hpp>
#include <informer/controller/owner_reference.hpp>
#include <informer/controller/update.hpp>
#include <informer/object/json.hpp>

#include <algorithm>
#include <set>

using namespace informer;
using namespace informer::conformance;
using namespace std::chrono_literals;
using outcome = reconcile_result::outcome;

namespace {

constexpr auto patience = 60s;

api_resource deployments() {
    return api_resource("apps", "v1", "deployments", "Deployment", true);
}
api_resource definitions() {
    return api_resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", false);
}
api_resource events() {
    return api_resource("events.k8s.io", "v1", "events", "Event", true);
}

asio::awaitable<object> make_widget(std::shared_ptr<cluster> c, api_resource widgets, std::string name,
                                    std::string value) {
    json::object o;
    o["apiVersion"] = widgets.api_version();
    o["kind"] = widgets.kind;
    o["metadata"] = json::object{{"name", std::move(name)}, {"namespace", c->name_space()}};
    o["spec"] = json::object{{"value", std::move(value)}};
    const kubernetes::write_options plain;
    auto made = co_await c->client().create(widgets, std::move(o), plain);
    co_return made;
}

asio::awaitable<object> merge(std::shared_ptr<cluster> c, api_resource r, std::string name, std::string patch) {
    const object_key key(c->name_space(), std::move(name));
    const kubernetes::write_options plain;
    auto change = json::parse(patch);
    auto now = co_await c->client().patch(r, key, kubernetes::patch_type::merge, std::move(change), plain);
    co_return now;
}

asio::awaitable<object> read(std::shared_ptr<cluster> c, api_resource r, std::string name) {
    const object_key key(c->name_space(), std::move(name));
    auto now = co_await c->client().get(r, key);
    co_return now;
}

asio::awaitable<bool> gone(std::shared_ptr<cluster> c, api_resource r, std::string name) {
    const object_key key(c->name_space(), std::move(name));
    failure f;
    co_await c->client().get(r, key, f);
    co_return f == errc::not_found;
}

asio::awaitable<void> drop(std::shared_ptr<cluster> c, api_resource r, std::string name) {
    const object_key key(c->name_space(), std::move(name));
    const kubernetes::delete_options plain;
    co_await c->client().remove(r, key, plain);
}

std::vector<std::string> finalizers(const object& o) {
    std::vector<std::string> all;
    for (const value one : o.meta().finalizers()) all.push_back(one.string_or_empty().str());
    return all;
}

// --- finalizers

struct finalizing {
    finalizing(const kubernetes::client& c, api_resource r, std::string name)
        : mine(c, std::move(r), std::move(name)) {}
    finalizer mine;
    int applied = 0, cleaned = 0;
    reconcile_result cleanup_says;
    asio::awaitable<reconcile_result> step(object current) {
        finalizer::work apply = [this](object) -> asio::awaitable<reconcile_result> {
            ++applied;
            co_return reconcile_result::done();
        };
        finalizer::work cleanup = [this](object) -> asio::awaitable<reconcile_result> {
            ++cleaned;
            co_return cleanup_says;
        };
        return mine.reconcile(std::move(current), std::move(apply), std::move(cleanup));
    }
};

asio::awaitable<void> finalizer_life(std::shared_ptr<cluster> c) {
    const auto widgets = co_await c->make_crd();
    object w = co_await make_widget(c, widgets, "w", "1");
    finalizing f(c->client(), widgets, "example.com/cleanup");
    const object bare = w;
    auto r = co_await f.step(w);
    CHECK(r.what() == outcome::done);
    CHECK(f.applied == 0); // stored first
    w = co_await read(c, widgets, "w");
    CHECK(finalizers(w) == std::vector<std::string>{"example.com/cleanup"});
    r = co_await f.step(w);
    CHECK(f.applied == 1);

    // Somebody else edits the list: what we computed from the old one is refused, and asked for again.
    finalizing other(c->client(), widgets, "other.io/cleanup");
    r = co_await other.step(bare); // knew of no list
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
    // A third one that did not hear of the deletion is refused: asked for again, and then there is nothing to do.
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
    CHECK(r.what() == outcome::error); // trying again quietly would go on for ever
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
    // One object has one controller: we say so, and the server would.
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
    // Ten at once, each adding one: none is lost.
    task_group adding(c->runtime().executor());
    const auto done = std::make_shared<int>(0);
    const auto add = [](std::shared_ptr<cluster> on, api_resource r, std::shared_ptr<int> n) -> asio::awaitable<void> {
        const object_key key(on->name_space(), "w");
        object_change change = [](json::value& o) {
            auto& v = o.at("spec").at("value").as_string();
            v = std::to_string(std::stoi(std::string(v)) + 1);
            return true;
        };
        for (;;) { // five tries do not always do for ten at once
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

    // By the subresource, status alone is written.
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

    // A patch of what differs, from what we knew: what others wrote stays, what is not wanted goes.
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
    // Cluster-scoped: in "default". Names that no Event may have: something like them.
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

    // The Event of a series is gone (they live for an hour): the series is created anew, whole.
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

    found.insert(found.end(), odd_ones.begin(), odd_ones.end()); // not in the namespace of the case
    for (const object& e : found) {
        failure ignored;
        const object_key key = e.key();
        const kubernetes::delete_options plain;
        co_await c->client().remove(events(), key, plain, ignored);
    }
    sending.stop();
    co_await sending.join();
}

// --- whole controllers

/// Keeps a ConfigMap for every Widget, with the Widget's value, and says in the Widget's status that it did.
struct copier {
    copier(cluster& on, api_resource what, std::size_t workers)
        : c(on), widgets(std::move(what)),
          factory(c.runtime(),
                  [this](const api_resource& r, const std::string& ns) { return c.fragile().make_list_watch(r, ns); }),
          self(controller_builder(c.runtime(), factory, "copier")
                   .for_(widgets, from())
                   .owns(c.config_maps(), from())
                   .options(controller_options().workers(workers).sync_timeout(0s))
                   .build([this](reconcile_request q) { return reconcile(std::move(q)); })) {}

    source_options from() const {
        // Where the resource is missing it is asked for each second, so that the case does not take long.
        return source_options()
            .name_space(c.name_space())
            .informer(informer_options().backoff(backoff_options().cap(1s)));
    }

    cluster& c;
    api_resource widgets;
    informer_factory factory;
    controller self;
    std::set<std::string> working;
    std::size_t most = 0;
    bool twice = false;
    std::map<std::string, std::string> done; ///< Widget → the value that was copied

    asio::awaitable<reconcile_result> reconcile(reconcile_request q) {
        const std::string name = q.key.name;
        twice |= !working.insert(name).second;
        most = std::max(most, working.size());
        const auto r = co_await copy(q.key);
        working.erase(name);
        co_return r;
    }

    asio::awaitable<reconcile_result> copy(object_key key) {
        const auto w = factory.lister(widgets, c.name_space()).find(key.str());
        if (!w) {
            done.erase(key.name);
            co_return reconcile_result::done();
        }
        failure f;
        const std::string value = w["spec"]["value"].string_or_empty().str();
        const auto had = factory.lister(c.config_maps(), c.name_space()).find(key.str());
        auto wanted = c.config_map(key.name, value);
        set_controller_reference(wanted, w, f);
        if (f) co_return reconcile_result::error(f);
        if (!had || had["data"]["value"].string_or_empty() != value) {
            const kubernetes::write_options mine = kubernetes::write_options().field_manager("copier").force();
            co_await c.client().apply(c.config_maps(), wanted, mine, f);
            if (f) co_return reconcile_result::error(f);
        }
        json::value status = json::object{{"copied", value}};
        const kubernetes::write_options plain;
        co_await patch_status(c.client(), widgets, w, std::move(status), plain, f);
        if (f == condition::not_found) co_return reconcile_result::done();
        if (f) co_return reconcile_result::error(f);
        done[key.name] = value;
        co_return reconcile_result::done();
    }
};

/// Is every Widget copied, by what the server says?
asio::awaitable<bool> all_copied(std::shared_ptr<cluster> c, api_resource widgets) {
    const list_options all;
    failure f;
    const auto wanted = co_await c->client().list(widgets, c->name_space(), all, f);
    if (f) co_return false;
    const auto have = co_await c->client().list(c->config_maps(), c->name_space(), all, f);
    if (f) co_return false;
    std::map<std::string, object> copies;
    for (const auto& o : have.items) copies[o.key().name] = o;
    for (const auto& w : wanted.items) {
        const auto copy = copies.find(w.key().name);
        const auto value = w["spec"]["value"].string_or_empty();
        if (copy == copies.end() || copy->second["data"]["value"].string_or_empty() != value) co_return false;
        if (!is_controlled_by(copy->second, w) || w["status"]["copied"].string_or_empty() != value) co_return false;
    }
    co_return true;
}

asio::awaitable<bool> copied(std::shared_ptr<cluster> c, api_resource widgets) {
    const auto until = std::chrono::steady_clock::now() + patience;
    for (;;) {
        const bool yes = co_await all_copied(c, widgets);
        if (yes || std::chrono::steady_clock::now() > until) co_return yes;
        co_await c->runtime().clock().sleep_for(20ms);
    }
}

asio::awaitable<void> whole_controller(std::shared_ptr<cluster> c) {
    const auto widgets = co_await c->make_crd();
    constexpr int n = 20;
    for (int i = 0; i < n; ++i) co_await make_widget(c, widgets, "w" + std::to_string(i), "1");
    copier it(*c, widgets, 4);
    task_group running(c->runtime().executor());
    running.spawn(it.self.run());
    bool yes = co_await copied(c, widgets);
    CHECK(yes);
    CHECK(it.most > 1); // several at once
    for (int round = 2; round < 5; ++round) {
        // While its watches break, Widgets change, copies are broken and deleted, Widgets go and come.
        c->proxy().cut_all(round % 2 == 0);
        for (int i = 0; i < n; i += round) {
            const std::string name = "w" + std::to_string(i), value = std::to_string(round * 100 + i);
            switch (i % 4) {
            case 0: co_await merge(c, widgets, name, R"({"spec":{"value":")" + value + "\"}}"); break;
            case 1: co_await c->change(name, "broken"); break;
            case 2: co_await c->drop(name); break;
            default:
                co_await drop(c, widgets, name);
                co_await make_widget(c, widgets, name, value);
                // No garbage collector here, perhaps: what is left of the old one is not the new one's.
                failure f;
                const object_key key(c->name_space(), name);
                const kubernetes::delete_options plain;
                co_await c->client().remove(c->config_maps(), key, plain, f);
            }
        }
        yes = co_await copied(c, widgets);
        CHECK(yes);
    }
    co_await drop(c, widgets, "w0");
    const std::function<bool()> heard = [&] { return !it.done.contains("w0"); };
    const bool deletion = co_await testing::eventually(heard, patience);
    CHECK(deletion);
    CHECK_FALSE(it.twice);
    CHECK(it.self.not_ready().empty());
    it.self.stop();
    co_await running.join();
    CHECK(it.self.figures().active == 0);
    CHECK(it.self.figures().panics == 0);
    co_await it.factory.shutdown();
}

asio::awaitable<bool> until_gone(std::shared_ptr<cluster> c, std::string where, api_resource r, std::string name) {
    const object_key key(std::move(where), std::move(name));
    const auto until = std::chrono::steady_clock::now() + patience;
    for (;;) {
        failure f;
        co_await c->client().get(r, key, f);
        if (f == errc::not_found || std::chrono::steady_clock::now() > until) co_return f == errc::not_found;
        co_await c->runtime().clock().sleep_for(20ms);
    }
}

asio::awaitable<void> later_crd(std::shared_ptr<cluster> c) {
    const std::string group = cluster::unique("later") + ".example.com";
    copier it(*c, api_resource(group, "v1", "widgets", "Widget", true), 1);
    task_group running(c->runtime().executor());
    running.spawn(it.self.run());
    const std::function<bool()> says_so = [&] {
        const auto why = it.self.not_ready();
        return why.find("widgets." + group) != std::string::npos && why.find("parked") != std::string::npos;
    };
    const bool parked = co_await testing::eventually(says_so, patience);
    CHECK(parked);
    CHECK_FALSE(it.self.has_synced());
    const auto widgets = co_await c->make_crd(false, group);
    co_await make_widget(c, widgets, "w", "1");
    const bool yes = co_await copied(c, widgets);
    CHECK(yes);
    CHECK(it.self.not_ready().empty());
    // It goes, and comes back.
    co_await c->remove_crd(widgets);
    const std::function<bool()> again = [&] { return says_so() && it.done.empty(); };
    const bool away = co_await testing::eventually(again, patience);
    CHECK(away);
    const bool removed = co_await until_gone(c, "", definitions(), widgets.group_resource());
    CHECK(removed);
    failure perhaps_collected;
    const object_key copy(c->name_space(), "w");
    const kubernetes::delete_options plain;
    co_await c->client().remove(c->config_maps(), copy, plain, perhaps_collected);
    const auto back = co_await c->make_crd(false, group);
    co_await make_widget(c, back, "w", "2");
    const bool returned = co_await copied(c, back);
    CHECK(returned);
    it.self.stop();
    co_await running.join();
    co_await it.factory.shutdown();
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
TEST_CASE("a definition in one of Kubernetes' own groups says who approved of it", "[conformance][controller]") {
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
TEST_CASE("a controller over a custom resource and what it owns converges while its watches break",
          "[conformance][controller]") {
    run_case(whole_controller);
}
TEST_CASE("a controller works on a resource that is installed later, and goes, and comes back",
          "[conformance][controller]") {
    run_case(later_crd);
}
