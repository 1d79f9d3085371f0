// The client's verbs against a server: subresources, dry runs, preconditions, collections, warnings.
#include "objects.hpp"

#include <informer/object/json.hpp>

#include <chrono>
#include <set>

using namespace informer;
using namespace informer::conformance;
using informer::kubernetes::delete_options;
using informer::kubernetes::get_options;
using informer::kubernetes::write_options;

namespace {

asio::awaitable<void> scales(std::shared_ptr<cluster> c) {
    const auto o = deployment(*c, R"([{"name":"web","image":"i:1"}])", 1);
    const write_options plain;
    co_await c->client().create(deployments(), o, plain);
    const object_key key(c->name_space(), "d");
    get_options how;
    how.subresource("scale");
    const object scale = co_await c->client().get(deployments(), key, how);
    CHECK(scale.kind() == "Scale");
    CHECK(scale["spec"]["replicas"].as_int64() == 1);
    auto wanted = to_value(scale);
    wanted.at("spec").as_object()["replicas"] = 3;
    write_options to_scale;
    to_scale.subresource("scale");
    const object scaled = co_await c->client().update(deployments(), wanted, to_scale);
    CHECK(scaled["spec"]["replicas"].as_int64() == 3);
    const object now = co_await c->client().get(deployments(), key);
    CHECK(now["spec"]["replicas"].as_int64() == 3);
    write_options to_status;
    to_status.subresource("status");
    const auto change = json::parse(R"({"status":{"replicas":2},"spec":{"replicas":9}})");
    const object told =
        co_await c->client().patch(deployments(), key, kubernetes::patch_type::merge, change, to_status);
    CHECK(told["status"]["replicas"].as_int64() == 2);
    CHECK(told["spec"]["replicas"].as_int64() == 3);
}

asio::awaitable<void> scales_elsewhere(std::shared_ptr<cluster> c) {
    const write_options plain;
    get_options how;
    how.subresource("scale");
    write_options to_scale;
    to_scale.subresource("scale");
    // The selector of a ReplicationController has only labels.
    const api_resource controllers("", "v1", "replicationcontrollers", "ReplicationController", true);
    json::object controller;
    controller["spec"] = deployment(*c, R"([{"name":"web","image":"i:1"}])", 2).at("spec");
    controller["spec"].as_object()["selector"] = json::object{{"app", "x"}};
    co_await c->client().create(controllers, named(*c, "r", std::move(controller)), plain);
    const object_key key(c->name_space(), "r");
    const object of_controller = co_await c->client().get(controllers, key, how);
    CHECK(of_controller["spec"]["replicas"].as_int64() == 2);
    CHECK(of_controller["status"]["selector"].as_string() == "app=x");

    // A definition says in which fields the scale is.
    const auto widgets = co_await c->make_crd();
    const object_key definition("", widgets.group_resource());
    const auto elsewhere = json::parse(R"({"spec":{"versions":[{"name":"v1","served":true,"storage":true,
        "subresources":{"status":{},"scale":{"specReplicasPath":".spec.size","statusReplicasPath":".status.count","labelSelectorPath":".status.labels"}},
        "schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}})");
    co_await c->client().patch(definitions(), definition, kubernetes::patch_type::merge, elsewhere, plain);
    co_await make_widget(c, widgets, "w", "1");
    const object_key widget(c->name_space(), "w");
    failure f;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    do { // the change takes effect a little later
        co_await c->client().get(widgets, widget, how, f);
    } while (f == errc::not_found && std::chrono::steady_clock::now() < until);
    CHECK(f == errc::server_error); // spec.size is absent
    const auto four = json::parse(R"({"spec":{"replicas":4}})");
    const object set = co_await c->client().patch(widgets, widget, kubernetes::patch_type::merge, four, to_scale);
    CHECK(set["spec"]["replicas"].as_int64() == 4);
    write_options to_status;
    to_status.subresource("status");
    const auto present = json::parse(R"({"status":{"count":3,"labels":"a=b"}})");
    const object now = co_await c->client().patch(widgets, widget, kubernetes::patch_type::merge, present, to_status);
    CHECK(now["spec"]["size"].as_int64() == 4);
    CHECK_FALSE(now["spec"]["replicas"].exists());
    const object scale = co_await c->client().get(widgets, widget, how);
    CHECK(scale["spec"]["replicas"].as_int64() == 4);
    CHECK(scale["status"]["replicas"].as_int64() == 3);
    CHECK(scale["status"]["selector"].as_string() == "a=b");
}

asio::awaitable<void> generations(std::shared_ptr<cluster> c) {
    const write_options plain;
    const object_key key(c->name_space(), "d");
    const auto note = json::parse(R"({"metadata":{"annotations":{"a":"b"}}})");
    const auto labels = json::parse(R"({"metadata":{"labels":{"a":"b"}}})");
    for (const char* kind : {"Deployment", "ReplicaSet"}) {
        const bool counts = kind[0] == 'D';
        const api_resource resource("apps", "v1", counts ? "deployments" : "replicasets", kind, true);
        const auto o = deployment(*c, R"([{"name":"web","image":"i:1"}])", 1);
        const object made = co_await c->client().create(resource, o, plain);
        CHECK(made.meta().generation() == 1);
        const object noted = co_await c->client().patch(resource, key, kubernetes::patch_type::merge, note, plain);
        CHECK(noted.meta().generation() == (counts ? 2 : 1));
        const object labelled = co_await c->client().patch(resource, key, kubernetes::patch_type::merge, labels, plain);
        CHECK(labelled.meta().generation() == (counts ? 2 : 1));
    }
}

asio::awaitable<void> secrets_of_strings(std::shared_ptr<cluster> c) {
    const api_resource secrets("", "v1", "secrets", "Secret", true);
    const write_options plain;
    json::object rest;
    rest["data"] = json::object{{"a", "AAAA"}, {"b", "Qg=="}};
    rest["stringData"] = json::object{{"a", "x"}, {"c", "\u00e9"}};
    const object made = co_await c->client().create(secrets, named(*c, "s", std::move(rest)), plain);
    CHECK_FALSE(made["stringData"].exists());
    CHECK(made["data"].to_json() == R"({"a":"eA==","b":"Qg==","c":"w6k="})");
    const object_key key(c->name_space(), "s");
    const auto change = json::parse(R"({"stringData":{"b":"","d":"dd"}})");
    const object changed = co_await c->client().patch(secrets, key, kubernetes::patch_type::merge, change, plain);
    CHECK_FALSE(changed["stringData"].exists());
    CHECK(changed["data"].to_json() == R"({"a":"eA==","b":"","c":"w6k=","d":"ZGQ="})");
    const object again = co_await c->client().patch(secrets, key, kubernetes::patch_type::merge, change, plain);
    CHECK(again == changed);
    json::object bad;
    bad["stringData"] = json::object{{"n", 1}};
    failure f;
    co_await c->client().create(secrets, named(*c, "t", std::move(bad)), plain, f);
    CHECK(f == errc::bad_request);
}

asio::awaitable<void> runs_dry(std::shared_ptr<cluster> c) {
    write_options dry;
    dry.dry_run();
    auto o = c->config_map("a", "1");
    const object would = co_await c->client().create(c->config_maps(), o, dry);
    CHECK(would["data"]["value"].as_string() == "1");
    const object_key key(c->name_space(), "a");
    failure f;
    co_await c->client().get(c->config_maps(), key, f);
    CHECK(f == errc::not_found);
    const object made = co_await c->put("a", "1");
    delete_options dry_delete;
    dry_delete.dry_run();
    co_await c->client().remove(c->config_maps(), key, dry_delete);
    const object still = co_await c->client().get(c->config_maps(), key);
    CHECK(still == made);
}

// A misspelt dry run must be refused, not executed. If a deletion has a body, the server ignores the query.
asio::awaitable<void> refuses_dry_runs(std::shared_ptr<cluster> c) {
    const auto maps = "/api/v1/namespaces/" + c->name_space() + "/configmaps";
    co_await c->put("there", "1");
    struct attempt {
        const char *method, *target, *body, *options;
    };
    const attempt attempts[] = {
        {"POST", "?dryRun=all", R"({"metadata":{"name":"new"}})", "CreateOptions"},
        {"POST", "?dryRun=All&dryRun=x", R"({"metadata":{"name":"new"}})", "CreateOptions"},
        {"PUT", "/there?dryRun=all", R"({"metadata":{"name":"there"}})", "UpdateOptions"},
        {"DELETE", "/there?dryRun=all", "", "DeleteOptions"},
        {"DELETE", "/there?dryRun=", "", "DeleteOptions"},
        {"DELETE", "/there", R"({"dryRun":["all"]})", "DeleteOptions"},
        {"DELETE", "/there?dryRun=All", R"({"dryRun":["All","x"]})", "DeleteOptions"},
        {"DELETE", "?dryRun=all", "", "DeleteOptions"},
    };
    for (const auto& a : attempts) {
        INFO(a.method << ' ' << a.target << ' ' << a.body);
        std::string body = a.body;
        if (!body.empty() && a.method[0] == 'P') body.insert(1, R"("kind":"ConfigMap","apiVersion":"v1",)");
        failure f;
        co_await c->client().raw(a.method, maps + a.target, std::move(body), f);
        CHECK(f == errc::invalid);
        const auto* status = f.status();
        REQUIRE(status);
        CHECK(status->details_kind == a.options);
        REQUIRE(status->causes.size() == 1);
        CHECK(status->causes[0].field == "dryRun");
        CHECK(status->causes[0].reason == "FieldValueNotSupported");
    }
    const bool still = !co_await gone(c, c->config_maps(), "there");
    CHECK(still);
    const bool none = co_await gone(c, c->config_maps(), "new");
    CHECK(none);
    co_await c->client().raw("DELETE", maps + "/there?dryRun=All", R"({"dryRun":[]})");
    const bool deleted = co_await gone(c, c->config_maps(), "there");
    CHECK(deleted);
}

asio::awaitable<void> preconditions_hold(std::shared_ptr<cluster> c) {
    const object made = co_await c->put("a", "1");
    const object_key key(c->name_space(), "a");
    failure f;
    delete_options other_uid, old_version, right;
    other_uid.precondition_uid("00000000-0000-4000-8000-000000000000");
    co_await c->client().remove(c->config_maps(), key, other_uid, f);
    CHECK(f == errc::conflict);
    const object changed = co_await c->change("a", "2");
    old_version.precondition_resource_version(made.resource_version().str());
    co_await c->client().remove(c->config_maps(), key, old_version, f);
    CHECK(f == errc::conflict);
    right.precondition_uid(made.meta().uid().str()).precondition_resource_version(changed.resource_version().str());
    co_await c->client().remove(c->config_maps(), key, right, f);
    CHECK_FALSE(f);
    co_await c->client().get(c->config_maps(), key, f);
    CHECK(f == errc::not_found);
}

asio::awaitable<void> deletes_collections(std::shared_ptr<cluster> c) {
    co_await c->put("a", "1", "app=x");
    co_await c->put("b", "1", "app=x,keep=yes");
    co_await c->put("c", "1", "app=y");
    list_options which;
    which.labels("app=x,!keep");
    const delete_options how;
    co_await c->client().remove_collection(c->config_maps(), c->name_space(), which, how);
    const list_options all;
    const auto left = co_await c->client().list(c->config_maps(), c->name_space(), all);
    std::set<std::string> names;
    for (const auto& o : left.items) names.insert(o.key().name);
    names.erase("kube-root-ca.crt"); // where a controller-manager puts one
    CHECK(names == std::set<std::string>{"b", "c"});
}

asio::awaitable<void> real_subresources(std::shared_ptr<cluster> c) {
    if (c->embedded()) co_return; // it has neither admission nor tokens
    const api_resource accounts("", "v1", "serviceaccounts", "ServiceAccount", true),
        pods("", "v1", "pods", "Pod", true);
    const write_options plain;
    const auto account = named(*c, "robot", json::object());
    co_await c->client().create(accounts, account, plain);
    write_options to_token;
    to_token.subresource("token");
    json::object request;
    request["apiVersion"] = "authentication.k8s.io/v1";
    request["kind"] = "TokenRequest";
    request["spec"] = json::parse(R"({"expirationSeconds":600})");
    const auto wanted = named(*c, "robot", request);
    const object granted = co_await c->client().create(accounts, wanted, to_token);
    CHECK(granted.kind() == "TokenRequest");
    CHECK(granted["status"]["token"].as_string().size() > 100);

    json::object o;
    o["spec"] = json::parse(R"({"containers":[{"name":"web","image":"i:1"}]})");
    const auto pod = named(*c, "p", o);
    co_await c->client().create(pods, pod, plain);
    json::object eviction;
    eviction["apiVersion"] = "policy/v1";
    eviction["kind"] = "Eviction";
    write_options to_eviction;
    to_eviction.subresource("eviction");
    const auto out = named(*c, "p", eviction);
    const object done = co_await c->client().create(pods, out, to_eviction);
    CHECK(done.kind() == "Status");
    const object_key key(c->name_space(), "p");
    failure f;
    co_await c->client().get(pods, key, f);
    CHECK(f == errc::not_found);
}

asio::awaitable<void> puts_objects(std::shared_ptr<cluster> c) {
    const api_resource leases("coordination.k8s.io", "v1", "leases", "Lease", true);
    const api_resource roles("rbac.authorization.k8s.io", "v1", "roles", "Role", true);
    const write_options plain;
    failure f;
    const auto map = with_data(*c, R"({"a":"1"})");
    co_await c->client().update(c->config_maps(), map, plain, f);
    CHECK(f == errc::not_found);
    json::object o;
    o["spec"] = json::parse(R"({"holderIdentity":"me"})");
    const auto lease = named(*c, "a", o);
    co_await c->client().update(leases, lease, plain, f); // PUT creates it
    CHECK_FALSE(f);
    co_await c->client().update(leases, lease, plain, f); // without a version
    REQUIRE(f.status());
    CHECK(f.status()->code == 422);
    REQUIRE(f.status()->causes.size() == 1);
    CHECK(f.status()->causes[0].field == "metadata.resourceVersion");
    auto version_0 = lease; // is no version
    version_0.at("metadata").as_object()["resourceVersion"] = "0";
    co_await c->client().update(leases, version_0, plain, f);
    REQUIRE(f.status());
    CHECK(f.status()->code == 422);
    auto large = named(*c, "large", json::object());
    large.at("metadata").as_object()["annotations"] = json::object{{"a", std::string(200'000, 'x')}};
    large.as_object()["rules"] = json::array();
    for (int i = 0; i < 16; ++i)
        large.as_object()["rules"].as_array().push_back(
            json::object{{"apiGroups", {""}}, {"verbs", {"get"}}, {"resources", {std::string(100'000, 'x')}}});
    co_await c->client().create(roles, large, plain, f);
    REQUIRE(f.status());
    CHECK(f.status()->code == 500);
    CHECK(f.status()->message == "etcdserver: request is too large");
    const auto role = named(*c, "a", json::object());
    co_await c->client().update(roles, role, plain, f);
    CHECK_FALSE(f);
    co_await c->client().update(roles, role, plain, f);
    CHECK_FALSE(f);
    auto stale = lease;
    stale.at("metadata").as_object()["name"] = "b";
    stale.at("metadata").as_object()["resourceVersion"] = "1"; // ignored: the object does not exist
    co_await c->client().update(leases, stale, plain, f);
    CHECK_FALSE(f);
}

asio::awaitable<void> validates_metadata(std::shared_ptr<cluster> c) {
    const write_options plain;
    failure f;
    for (const std::string field : {"labels", "annotations"}) {
        auto o = with_data(*c, R"({"a":"1"})");
        o.at("metadata").as_object()[field] =
            json::parse(field == "labels" ? R"({"a":"two words"})" : R"({"a b":"x"})");
        co_await c->client().create(c->config_maps(), o, plain, f);
        REQUIRE(f.status());
        CHECK(f.status()->code == 422);
        REQUIRE(f.status()->causes.size() == 1);
        CHECK(f.status()->causes[0].field == "metadata." + field);
    }
    const auto path = "/api/v1/namespaces/" + c->name_space() + "/configmaps";
    const auto body = json::serialize(with_data(*c, R"({"a":"1"})"));
    co_await c->client().raw("POST", path + "?fieldManager=a%0Ab", body, f);
    REQUIRE(f.status());
    CHECK(f.status()->code == 422);
    co_await c->client().raw("DELETE", "/api/v1/configmaps", std::string(), f);
    REQUIRE(f.status());
    CHECK(f.status()->code == 405);
    co_await c->client().raw("DELETE", "/api/v1/namespaces", std::string(), f);
    REQUIRE(f.status());
    CHECK(f.status()->code == 405);
}

asio::awaitable<void> definitions_wait(std::shared_ptr<cluster> c) {
    const api_resource crds("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition",
                            false);
    const auto widgets = co_await c->make_crd();
    const object_key definition("", widgets.group_resource()), key(c->name_space(), "held");
    const write_options plain;
    const delete_options how;
    json::object widget;
    widget["apiVersion"] = widgets.api_version();
    widget["kind"] = widgets.kind;
    auto held = named(*c, "held", widget);
    held.at("metadata").as_object()["finalizers"] = json::parse(R"(["x.io/y"])");
    co_await c->client().create(widgets, held, plain);
    co_await c->client().remove(crds, definition, how);
    const auto is_deleted = [&]() -> asio::awaitable<bool> { // a real server does it later
        const object now = co_await c->client().get(widgets, key);
        co_return now["metadata"]["deletionTimestamp"].exists();
    };
    const bool deleted = co_await eventually(is_deleted, std::chrono::seconds(20));
    REQUIRE(deleted);
    const object waiting = co_await c->client().get(crds, definition);
    CHECK(waiting["metadata"]["finalizers"].to_json() == R"(["customresourcecleanup.apiextensions.k8s.io"])");
    failure f;
    const auto late = named(*c, "late", widget);
    co_await c->client().create(widgets, late, plain, f);
    const bool refused = f == errc::forbidden || (!c->embedded() && f == errc::bad_request); // 405 in 1.30
    CHECK(refused);
    const auto free = json::parse(R"({"metadata":{"finalizers":null}})");
    co_await c->client().patch(widgets, key, kubernetes::patch_type::merge, free, plain);
    const bool went = co_await until_gone(c, "", crds, definition.name, std::chrono::seconds(20));
    CHECK(went);
}

asio::awaitable<void> warns(std::shared_ptr<cluster> c) {
    if (c->embedded()) co_return; // it has no schemas
    auto told = std::make_shared<std::vector<kubernetes::server_warning>>();
    auto config = c->client().config();
    config.on_warning = [told](const kubernetes::server_warning& w) { told->push_back(w); };
    kubernetes::client listener(c->runtime(), config);
    json::object o;
    o["data"] = json::parse(R"({"k":"v"})");
    o["datta"] = json::parse(R"({"k":"v"})");
    const auto odd = named(*c, "a", o);
    const write_options plain;
    co_await listener.create(c->config_maps(), odd, plain);
    REQUIRE(told->size() == 1);
    CHECK(told->front().code == 299);
    CHECK(told->front().text == "unknown field \"datta\"");
    CHECK(told->front().doing == "create configmaps " + c->name_space() + "/a");
    write_options strict;
    strict.field_validation("Strict").dry_run();
    const auto refused = named(*c, "b", o);
    failure f;
    co_await listener.create(c->config_maps(), refused, strict, f);
    CHECK(f == errc::bad_request);
}

} // namespace

TEST_CASE("scale and status are read and written by themselves", "[conformance]") {
    run_case(scales);
}
TEST_CASE("scale lies where the kind or its definition says", "[conformance]") {
    run_case(scales_elsewhere);
}
TEST_CASE("the generation of a Deployment counts annotations, not labels; that of others neither", "[conformance]") {
    run_case(generations);
}
TEST_CASE("a secret's strings become data", "[conformance]") {
    run_case(secrets_of_strings);
}
TEST_CASE("a dry run stores and deletes nothing", "[conformance]") {
    run_case(runs_dry);
}
TEST_CASE("a dry run that is misspelt is refused, not done", "[conformance]") {
    run_case(refuses_dry_runs);
}
TEST_CASE("a delete with preconditions hits the object that was meant, or nothing", "[conformance]") {
    run_case(preconditions_hold);
}
TEST_CASE("a collection is deleted by its labels", "[conformance]") {
    run_case(deletes_collections);
}
TEST_CASE("PUT creates some kinds, and needs a resource version for some", "[conformance]") {
    run_case(puts_objects);
}
TEST_CASE("metadata, managers and methods that break the rules are refused", "[conformance]") {
    run_case(validates_metadata);
}
TEST_CASE("a definition that is deleted waits for the finalizers of its objects", "[conformance]") {
    run_case(definitions_wait);
}
TEST_CASE("tokens are granted and pods evicted by subresources", "[conformance]") {
    run_case(real_subresources);
}
TEST_CASE("the server's warnings reach the handler", "[conformance]") {
    run_case(warns);
}
