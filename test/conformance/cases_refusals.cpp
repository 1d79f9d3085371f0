// What a server refuses, and with which messages: identity, deletion, finalizers, definitions, strategic patches.
#include "objects.hpp"

using namespace informer;
using namespace informer::conformance;
using informer::kubernetes::patch_type;
using informer::kubernetes::write_options;

namespace {

/// The HTTP code of a refusal; 200 when there was none.
int code_of(const failure& f) {
    return !f ? 200 : f.status() ? f.status()->code : 0;
}

std::string message_of(const failure& f) {
    return f.status() ? f.status()->message : std::string();
}

bool names_field(const failure& f, std::string_view field) {
    return f.status() && !f.status()->causes.empty() && f.status()->causes[0].field == field;
}

/// A PATCH with an object is a merge patch, one with a list is a JSON patch.
asio::awaitable<failure> ask(std::shared_ptr<cluster> c, std::string method, std::string path, std::string body) {
    failure f;
    co_await c->client().raw(std::move(method), std::move(path), std::move(body), f);
    co_return f;
}

std::string maps_of(const cluster& c) {
    return "/api/v1/namespaces/" + c.name_space() + "/configmaps";
}

asio::awaitable<void> means_objects(std::shared_ptr<cluster> c) {
    const auto made = with_data(*c, R"({"a":"1"})");
    co_await c->client().create(c->config_maps(), made);
    const std::string path = maps_of(*c) + "/a", put = R"({"metadata":{"name":"a","uid":"x"}})",
                      patch = R"({"metadata":{"uid":"x"}})";
    const auto conflict = co_await ask(c, "PUT", path, put);
    CHECK(code_of(conflict) == 409);
    const auto invalid = co_await ask(c, "PATCH", path, patch);
    CHECK(code_of(invalid) == 422);
    CHECK(names_field(invalid, "metadata.uid"));
    write_options me;
    me.field_manager("me");
    auto other = named(*c, "b", json::object());
    other.at("metadata").as_object()["uid"] = "0aa0";
    failure f;
    co_await c->client().apply(c->config_maps(), other, me, f);
    CHECK(code_of(f) == 409);
    CHECK(message_of(f).ends_with(
        "uid mismatch: the provided object specified uid 0aa0, and no existing object was found"));
    auto old = named(*c, "b", json::object());
    old.at("metadata").as_object()["resourceVersion"] = "1";
    co_await c->client().apply(c->config_maps(), old, me, f); // ignored: the object does not exist
    CHECK(code_of(f) == 200);
}

asio::awaitable<void> knows_versions(std::shared_ptr<cluster> c) {
    const std::string path = maps_of(*c), none = R"({"metadata":{"name":"a","resourceVersion":"0"}})";
    const auto made = co_await ask(c, "POST", path, none);
    CHECK(code_of(made) == 200);
    const std::string later = R"({"metadata":{"name":"b","resourceVersion":"5"}})",
                      odd = R"({"metadata":{"name":"a","resourceVersion":"abc"}})";
    const auto refused = co_await ask(c, "POST", path, later);
    CHECK(code_of(refused) == 500);
    const auto put = co_await ask(c, "PUT", path + "/a", odd);
    CHECK(code_of(put) == 500);
    const auto patched = co_await ask(c, "PATCH", path + "/a", odd);
    CHECK(code_of(patched) == 500);
}

asio::awaitable<void> deletes_alone(std::shared_ptr<cluster> c) {
    const std::string path = maps_of(*c) + "/a", held = R"({"metadata":{"name":"a","finalizers":["x.io/y"]}})", nothing;
    const std::string dated = R"({"metadata":{"deletionTimestamp":"2020-01-01T00:00:00Z"}})";
    co_await ask(c, "POST", maps_of(*c), held);
    const auto alive = co_await ask(c, "PATCH", path, dated);
    CHECK(code_of(alive) == 422);
    CHECK(names_field(alive, "metadata.deletionTimestamp"));
    const auto removed = co_await ask(c, "DELETE", path, nothing);
    CHECK(code_of(removed) == 200);
    const auto terminating = co_await ask(c, "PATCH", path, dated);
    CHECK(code_of(terminating) == 200); // has no effect
    const object now = co_await read(c, c->config_maps(), "a");
    CHECK_FALSE(now["metadata"]["deletionTimestamp"].to_json().starts_with("\"2020"));
    const auto again = co_await ask(c, "POST", maps_of(*c), held);
    CHECK(code_of(again) == 409);
    CHECK(message_of(again) == "object is being deleted: configmaps \"a\" already exists");
    const std::string free = R"({"metadata":{"finalizers":null}})";
    co_await ask(c, "PATCH", path, free);
}

asio::awaitable<void> reads_delete_options(std::shared_ptr<cluster> c) {
    const auto made = with_data(*c, R"({"a":"1"})");
    co_await c->client().create(c->config_maps(), made);
    const std::string path = maps_of(*c) + "/a", nothing;
    for (const std::string query : {"?propagationPolicy=Nope", "?propagationPolicy=Orphan&orphanDependents=true"}) {
        const auto f = co_await ask(c, "DELETE", path + query, nothing);
        CHECK(code_of(f) == 422);
        CHECK(names_field(f, "propagationPolicy"));
    }
    for (const std::string body : {R"({"kind":"ConfigMap","apiVersion":"v1"})", R"({"gracePeriodSeconds":"abc"})"}) {
        const auto f = co_await ask(c, "DELETE", path, body);
        const bool known = code_of(f) == 400 || (!c->embedded() && code_of(f) == 500); // as 1.34 says it
        CHECK(known);
    }
    const auto seconds = co_await ask(c, "DELETE", path + "?gracePeriodSeconds=abc", nothing);
    CHECK(code_of(seconds) == 400);
    for (const std::string name : {"default", "kube-system", "kube-public"}) {
        const auto f = co_await ask(c, "DELETE", "/api/v1/namespaces/" + name + "?dryRun=All", nothing);
        CHECK(code_of(f) == 403);
        CHECK(message_of(f).ends_with("this namespace may not be deleted"));
    }
    co_await read(c, c->config_maps(), "a"); // throws if it is gone
}

asio::awaitable<void> looks_at_finalizers(std::shared_ptr<cluster> c) {
    const std::string path = maps_of(*c) + "?dryRun=All";
    const auto with = [](std::string name) {
        return R"({"metadata":{"name":"a","finalizers":["x.io/y",")" + name + R"("]}})";
    };
    const std::string mine = with("mine"), known = with("orphan");
    const auto refused = co_await ask(c, "POST", path, mine);
    CHECK(code_of(refused) == 422);
    CHECK(names_field(refused, "metadata.finalizers[1]"));
    const auto taken = co_await ask(c, "POST", path, known);
    CHECK(code_of(taken) == 200);
    const auto widgets = co_await c->make_crd();
    json::object o;
    o["apiVersion"] = widgets.api_version();
    o["kind"] = widgets.kind;
    auto widget = named(*c, "w", std::move(o));
    widget.at("metadata").as_object()["finalizers"] = json::array{"mine"};
    const auto dry = write_options().dry_run();
    failure f;
    co_await c->client().create(widgets, widget, dry, f);
    CHECK(code_of(f) == 200);
}

asio::awaitable<void> keeps_definitions(std::shared_ptr<cluster> c) {
    const auto widgets = co_await c->make_crd();
    const std::string all = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                      path = all + "/" + widgets.group_resource();
    const std::pair<std::string, std::string> changes[] = {
        {"spec.scope", R"({"spec":{"scope":"Cluster"}})"},
        {"spec.group", R"({"spec":{"group":"x.io"}})"},
        {"spec.names.kind", R"({"spec":{"names":{"kind":"Gadget"}}})"}};
    for (const auto& [field, change] : changes) {
        const auto f = co_await ask(c, "PATCH", path, change);
        CHECK(code_of(f) == 422);
        CHECK(names_field(f, field));
    }
    const std::string schema = R"("served":true,"schema":{"openAPIV3Schema":{"type":"object"}})";
    const auto definition = [&widgets](const std::string& plural, const std::string& kind,
                                       const std::string& versions) {
        return R"({"metadata":{"name":")" + plural + "." + widgets.group + R"("},"spec":{"group":")" + widgets.group +
               R"(","scope":"Namespaced","names":{"plural":")" + plural + R"(","kind":")" + kind +
               R"("},"versions":[)" + versions + "]}}";
    };
    const auto version = [&schema](const std::string& name, const std::string& storage) {
        return R"({"name":")" + name + R"(","storage":)" + storage + "," + schema + "}";
    };
    for (const std::string& versions : {version("v1", "false"), version("v1", "true") + "," + version("v2", "true"),
                                        version("v1", "true") + "," + version("v1", "false")}) {
        const std::string bad = definition("gadgets", "Gadget", versions);
        const auto f = co_await ask(c, "POST", all, bad);
        CHECK(code_of(f) == 422);
        CHECK(names_field(f, "spec.versions"));
    }
    const std::string second = definition("things", "Widget", version("v1", "true"));
    const auto waits = co_await ask(c, "POST", all, second);
    CHECK(code_of(waits) == 200);
    const object_key key("", "things." + widgets.group);
    std::string names, established;
    const auto looked_at = [&]() -> asio::awaitable<bool> { // a real server does it later
        const object now = co_await c->client().get(definitions(), key);
        for (const value one : now["status"]["conditions"]) {
            auto& to = one["type"].as_string() == "NamesAccepted" ? names : established;
            to = one["status"].to_json() + " " + one["message"].to_json();
        }
        co_return !names.empty();
    };
    co_await eventually(looked_at, std::chrono::seconds(20));
    CHECK(names == R"("False" "\"Widget\" is already in use")");
    CHECK(established.starts_with("\"False\""));
    const std::string nothing;
    const auto not_served = co_await ask(c, "GET", "/apis/" + widgets.group + "/v1/things", nothing);
    CHECK(code_of(not_served) == 404);
    const kubernetes::delete_options how;
    co_await c->client().remove(definitions(), key, how);
}

asio::awaitable<void> merges_strategically(std::shared_ptr<cluster> c) {
    const api_resource pods("", "v1", "pods", "Pod", true);
    json::object o;
    o["spec"] = json::parse(
        R"({"containers":[{"name":"a","image":"i:1"}],"schedulingGates":[{"name":"x.y/a"},{"name":"x.y/b"}]})");
    const auto pod = named(*c, "p", std::move(o));
    failure f;
    co_await c->client().create(pods, pod, write_options(), f);
    if (!c->embedded() && f == errc::forbidden) co_return; // without controllers there is no service account
    REQUIRE(code_of(f) == 200);
    const object_key key(c->name_space(), "p");
    const write_options plain;
    const auto gone = json::parse(R"({"spec":{"schedulingGates":[{"name":"x.y/a","$patch":"delete"}]}})");
    const object left = co_await c->client().patch(pods, key, patch_type::strategic_merge, gone, plain);
    CHECK(left["spec"]["schedulingGates"].to_json() == R"([{"name":"x.y/b"}])");
    const auto nameless = json::parse(R"({"spec":{"containers":[{"image":"x"}]}})");
    co_await c->client().patch(pods, key, patch_type::strategic_merge, nameless, plain, f);
    CHECK(code_of(f) == 500);
    CHECK(message_of(f).ends_with("does not contain declared merge key: name"));
    const auto odd = json::parse(R"({"spec":{"containers":[{"name":"a","$patch":"zap"}]}})");
    co_await c->client().patch(pods, key, patch_type::strategic_merge, odd, plain, f);
    CHECK(code_of(f) == 500);
    const std::string path = "/api/v1/namespaces/" + c->name_space() + "/pods/p";
    const std::string replace = R"([{"op":"replace","path":"/metadata/labels","value":{"a":"b"}}])"; // it has none yet
    const auto added = co_await ask(c, "PATCH", path, replace);
    CHECK(code_of(added) == 200);
}

asio::awaitable<void> applies_no_doubles(std::shared_ptr<cluster> c) {
    write_options me;
    me.field_manager("me");
    const auto twice = deployment(*c, R"([{"name":"web","image":"i:1"},{"name":"web","image":"i:2"}])", 0);
    failure f;
    co_await c->client().apply(deployments(), twice, me, f);
    CHECK(code_of(f) == 500);
    CHECK(message_of(f).ends_with(R"(.spec.template.spec.containers: duplicate entries for key [name="web"])"));
    auto managed = with_data(*c, R"({"a":"1"})");
    managed.at("metadata").as_object()["managedFields"] = json::array();
    co_await c->client().apply(c->config_maps(), managed, me, f);
    CHECK(code_of(f) == 400);
}

} // namespace

TEST_CASE("a put of another uid is a conflict, a patch of it invalid, an apply to it creates nothing",
          "[conformance]") {
    run_case(means_objects);
}
TEST_CASE("an invalid resource version is an error and no conflict", "[conformance]") {
    run_case(knows_versions);
}
TEST_CASE("nothing but a delete sets the time of an object's deletion", "[conformance]") {
    run_case(deletes_alone);
}
TEST_CASE("a delete refuses invalid options, and namespaces of the cluster itself", "[conformance]") {
    run_case(reads_delete_options);
}
TEST_CASE("finalizers of built-in kinds have a domain, or are known", "[conformance]") {
    run_case(looks_at_finalizers);
}
TEST_CASE("a definition keeps its names and scope, and shares its kind with no other of its group", "[conformance]") {
    run_case(keeps_definitions);
}
TEST_CASE("a strategic patch merges by keys, and refuses items without a key", "[conformance]") {
    run_case(merges_strategically);
}
TEST_CASE("an apply with two items of one key, or with managedFields, is refused", "[conformance]") {
    run_case(applies_no_doubles);
}
