#include "config_maps.hpp"
#include "server_fixture.hpp"

#include <informer/http/url.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/kubernetes/config.hpp>
#include <informer/source/shard_selector.hpp>

#include <boost/asio/co_spawn.hpp>
#include <catch2/catch_test_macros.hpp>

#include <optional>

using namespace server_tests;

namespace {

std::vector<std::string> names_of(const json::value& list) {
    std::vector<std::string> out;
    for (const auto& o : list.at("items").as_array()) out.push_back(text_at(o, "/metadata/name"));
    return out;
}

using names = std::vector<std::string>;

} // namespace

TEST_CASE("a list is ordered by key and complete, and its items have no kind", "[api_server]") {
    server_fixture s;
    s.put("b", "1");
    s.put("a", "1");
    s.server.create(
        json::parse(R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"z","namespace":"kube-system"}})"));
    s.server.create(
        json::parse(R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"0","namespace":"kube-public"}})"));
    const auto all = s.ask("GET", "/api/v1/configmaps");
    REQUIRE(all.status == 200);
    CHECK(all.at("/kind") == "ConfigMapList");
    CHECK(all.at("/apiVersion") == "v1");
    CHECK(all.at("/metadata/resourceVersion") == s.server.current_resource_version());
    CHECK(all.at("/metadata/continue").empty());
    CHECK(names_of(all.json()) == names{"a", "b", "0", "z"});
    CHECK(all.at("/items/0/kind").empty());
    CHECK(all.at("/items/0/apiVersion").empty());
    CHECK(names_of(s.ask("GET", maps).json()) == names{"a", "b"});
    CHECK(names_of(s.ask("GET", "/api/v1/namespaces/def/configmaps").json()).empty());
}

TEST_CASE("an empty list has an empty array", "[api_server]") {
    server_fixture s;
    CHECK(s.ask("GET", maps).at("/items") == "[]");
}

TEST_CASE("pages of a list show one state, whatever happens in between", "[api_server]") {
    server_fixture s;
    for (const char* n : {"a", "b", "c", "d", "e"}) s.put(n, "1");
    const auto first = s.ask("GET", maps + "?limit=2");
    CHECK(names_of(first.json()) == names{"a", "b"});
    CHECK(first.at("/metadata/remainingItemCount") == "3");
    s.put("bb", "1");
    s.put("d", "2");
    s.server.remove("configmaps", "default", "c");
    const auto second = s.ask("GET", maps + "?limit=2&continue=" + first.at("/metadata/continue"));
    CHECK(names_of(second.json()) == names{"c", "d"});
    CHECK(second.at("/items/1/data/v") == "1");
    CHECK(second.at("/metadata/resourceVersion") == first.at("/metadata/resourceVersion"));
    CHECK(second.at("/metadata/remainingItemCount") == "1");
    const auto third = s.ask("GET", maps + "?limit=2&continue=" + second.at("/metadata/continue"));
    CHECK(names_of(third.json()) == names{"e"});
    CHECK(third.at("/metadata/continue").empty());
    CHECK(third.at("/metadata/remainingItemCount").empty());
}

TEST_CASE("a page that ends with the list has no continue token", "[api_server]") {
    server_fixture s;
    s.put("a", "1");
    s.put("b", "1");
    CHECK(s.ask("GET", maps + "?limit=2").at("/metadata/continue").empty());
}

TEST_CASE("an expired continue token is 410 with a token that goes on inconsistently", "[api_server]") {
    server_fixture s;
    for (const char* n : {"a", "b", "c"}) s.put(n, "1");
    const auto first = s.ask("GET", maps + "?limit=1");
    s.put("bb", "1");
    s.server.compact();
    const auto gone = s.ask("GET", maps + "?limit=1&continue=" + first.at("/metadata/continue"));
    CHECK(gone.status == 410);
    CHECK(gone.at("/reason") == "Expired");
    REQUIRE_FALSE(gone.at("/metadata/continue").empty());
    const auto rest = s.ask("GET", maps + "?continue=" + gone.at("/metadata/continue"));
    CHECK(rest.status == 200);
    CHECK(names_of(rest.json()) == names{"b", "bb", "c"});
    CHECK(rest.at("/metadata/resourceVersion") == s.server.current_resource_version());
}

TEST_CASE("continue tokens live as long as the option says", "[api_server]") {
    server_fixture s(api_server_options().continue_for(std::chrono::seconds(30)), true);
    for (const char* n : {"a", "b"}) s.put(n, "1");
    const auto token = s.ask("GET", maps + "?limit=1").at("/metadata/continue");
    s.advance(std::chrono::seconds(30));
    CHECK(s.ask("GET", maps + "?limit=1&continue=" + token).status == 200);
    s.advance(std::chrono::seconds(1));
    CHECK(s.ask("GET", maps + "?limit=1&continue=" + token).status == 410);
}

TEST_CASE("invalid list options are refused", "[api_server]") {
    server_fixture s;
    s.put("a", "1");
    s.put("b", "1");
    const auto token = s.ask("GET", maps + "?limit=1").at("/metadata/continue");
    const auto status = [&](const std::string& query) { return s.ask("GET", maps + "?" + query).status; };
    CHECK(status("resourceVersion=abc") == 400);
    CHECK(status("resourceVersion=-1") == 400);
    CHECK(status("limit=x") == 400);
    CHECK(status("continue=abc") == 400);
    CHECK(status("continue=%7B%7D") == 400);
    CHECK(status("limit=1&resourceVersion=5&continue=" + token) == 400);
    CHECK(status("resourceVersion=5&resourceVersionMatch=NotOlderThan&continue=" + token) == 422);
    CHECK(status("resourceVersionMatch=Exact") == 422);
    CHECK(status("resourceVersion=0&resourceVersionMatch=Exact") == 422);
    CHECK(status("resourceVersion=5&resourceVersionMatch=Nearly") == 422);
    CHECK(status("sendInitialEvents=true") == 422);
    CHECK(status("labelSelector=a%20in") == 400);
    CHECK(status("fieldSelector=a") == 400);
    CHECK(status("fieldSelector=data.k%3Dv") == 400);
    const auto many = s.ask("GET", maps + "?resourceVersionMatch=Exact");
    CHECK(many.at("/reason") == "Invalid");
    CHECK(many.at("/details/kind") == "ListOptions");
}

TEST_CASE("a list can be of an exact version, of one at least as new, or of any", "[api_server]") {
    server_fixture s;
    s.put("a", "1");
    const auto then = s.server.current_resource_version();
    s.put("a", "2");
    const auto now = s.server.current_resource_version();
    const auto exact = s.ask("GET", maps + "?resourceVersionMatch=Exact&resourceVersion=" + then);
    CHECK(exact.at("/items/0/data/v") == "1");
    CHECK(exact.at("/metadata/resourceVersion") == then);
    for (const auto& query : {"?resourceVersion=0", "?resourceVersion=", ""}) {
        CHECK(s.ask("GET", maps + query).at("/items/0/data/v") == "2");
    }
    const auto not_older = s.ask("GET", maps + "?resourceVersionMatch=NotOlderThan&resourceVersion=" + then);
    CHECK(not_older.at("/metadata/resourceVersion") == now);
    // With a limit, a version without a match means exactly that version.
    CHECK(s.ask("GET", maps + "?limit=5&resourceVersion=" + then).at("/items/0/data/v") == "1");
    s.server.compact();
    CHECK(s.ask("GET", maps + "?resourceVersionMatch=Exact&resourceVersion=" + then).status == 410);
    CHECK(s.ask("GET", maps + "?resourceVersionMatch=NotOlderThan&resourceVersion=" + then).status == 200);
}

TEST_CASE("a version in the future is a time-out with the cause clients look for", "[api_server]") {
    server_fixture s;
    const auto a = s.ask("GET", maps + "?resourceVersionMatch=NotOlderThan&resourceVersion=99999999");
    CHECK(a.status == 504);
    CHECK(a.retry_after == "1");
    CHECK(a.at("/reason") == "Timeout");
    CHECK(a.at("/details/causes/0/reason") == "ResourceVersionTooLarge");
}

TEST_CASE("lists are selected by labels and fields", "[api_server]") {
    server_fixture s;
    s.put("a", "1", {{"app", "x"}, {"tier", "1"}});
    s.put("b", "1", {{"app", "y"}});
    s.put("c", "1");
    const auto selected = [&](const std::string& query) { return names_of(s.ask("GET", maps + "?" + query).json()); };
    CHECK(selected("labelSelector=app%3Dx") == names{"a"});
    CHECK(selected("labelSelector=app") == names{"a", "b"});
    CHECK(selected("labelSelector=%21app") == names{"c"});
    CHECK(selected("labelSelector=app%20in%20(x,y),tier") == names{"a"});
    CHECK(selected("labelSelector=app%21%3Dx") == names{"b", "c"});
    CHECK(selected("fieldSelector=metadata.name%3Db") == names{"b"});
    CHECK(selected("fieldSelector=metadata.name%21%3Db,metadata.namespace%3Ddefault") == names{"a", "c"});
    // With selectors the server does not know how many remain.
    CHECK(s.ask("GET", maps + "?limit=1&labelSelector=app").at("/metadata/remainingItemCount").empty());
    for (int i = 0; i < 3; ++i) {
        const auto n = std::to_string(i);
        s.server.create(json::parse(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p)" + n +
                                    R"("},"spec":{"nodeName":"n)" + n + R"("},"status":{"phase":")" +
                                    (i == 2 ? "Failed" : "Running") + R"("}})"));
    }
    const std::string pods = "/api/v1/pods?fieldSelector=";
    CHECK(names_of(s.ask("GET", pods + "spec.nodeName%3Dn1").json()) == names{"p1"});
    CHECK(names_of(s.ask("GET", pods + "status.phase%21%3DFailed").json()) == names{"p0", "p1"});
    CHECK(s.ask("GET", pods + "spec.hostname%3Dx").status == 400);
}

TEST_CASE("a server with sharding lists the selected part, names it, and refuses invalid selectors", "[api_server]") {
    server_fixture s(api_server_options().sharding(true));
    for (int i = 0; i < 20; ++i) s.put("c" + std::to_string(i), "1");
    names all;
    for (std::uint64_t i = 0; i < 3; ++i) {
        const std::string part = informer::shard_selector::part(i, 3).str();
        const auto page = s.ask("GET", maps + "?shardSelector=" + informer::http::percent_encode(part));
        CHECK(page.at("/metadata/shardInfo/selector") == part);
        const names some = names_of(page.json());
        CHECK(some.size() < 20);
        all.insert(all.end(), some.begin(), some.end());
    }
    std::sort(all.begin(), all.end());
    CHECK(all.size() == 20);
    CHECK(std::unique(all.begin(), all.end()) == all.end());
    const std::string one = "shardRange(object.metadata.uid, '0x0000000000000000', '0x0000000000000001')";
    const auto status = [&](const std::string& text) {
        return s.ask("GET", maps + "?shardSelector=" + informer::http::percent_encode(text)).status;
    };
    CHECK(status(one + " || " + one) == 200);
    CHECK(status(one + " ||") == 500);
    CHECK(status(one + ")") == 500);
    CHECK(status("shardRange(object.metadata.name, '0x0000000000000000', '0x0000000000000001')") == 500);
    CHECK(status(one + " || shardRange(object.metadata.namespace, '0x0000000000000000', '0x0000000000000001')") == 500);
    CHECK(status("shardRange(object.metadata.uid, '0x0', '0x0000000000000001')") == 500);
    CHECK(status("shardRange(object.metadata.uid, '0x000000000000000A', '0x000000000000000B')") == 500);
    CHECK(status("shardRange(object.metadata.uid, '0x0000000000000001', '0x0000000000000001')") == 500);
    CHECK(status("shardRange(object.metadata.uid, '0x0000000000000000', '0x0000000000000000')") == 500);
    CHECK(status("shardRange(object.metadata.uid, 0x0000000000000000, '0x0000000000000001')") == 500);
    CHECK(status("x") == 500);

    server_fixture old; // as a real server with the gate off
    old.put("a", "1");
    const auto page = old.ask("GET", maps + "?shardSelector=x");
    CHECK(names_of(page.json()) == names{"a"});
    CHECK(page.at("/metadata/shardInfo/selector").empty());
}

TEST_CASE("to field selectors, absent numbers and flags have Go's zero value", "[api_server]") {
    server_fixture s;
    const auto make = [&](const std::string& kind, const std::string& version, const std::string& name,
                          const std::string& rest) {
        s.server.create(json::parse(R"({"apiVersion":")" + version + R"(","kind":")" + kind +
                                    R"(","metadata":{"name":")" + name + R"("})" + rest + "}"));
    };
    const auto selected = [&](const std::string& path, const std::string& selector) {
        return names_of(s.ask("GET", path + "?fieldSelector=" + selector).json());
    };
    make("Job", "batch/v1", "done", R"(,"status":{"succeeded":1})");
    make("Job", "batch/v1", "new", "");
    CHECK(selected("/apis/batch/v1/jobs", "status.successful=1") == names{"done"});
    CHECK(selected("/apis/batch/v1/jobs", "status.successful=0") == names{"new"});
    make("Node", "v1", "open", "");
    make("Node", "v1", "shut", R"(,"spec":{"unschedulable":true})");
    CHECK(selected("/api/v1/nodes", "spec.unschedulable=false") == names{"open"});
    CHECK(selected("/api/v1/nodes", "spec.unschedulable=true") == names{"shut"});
    make("Pod", "v1", "inside", "");
    make("Pod", "v1", "host", R"(,"spec":{"hostNetwork":true})");
    CHECK(selected("/api/v1/pods", "spec.hostNetwork=false") == names{"inside"});
    make("ReplicaSet", "apps/v1", "none", "");
    make("ReplicaSet", "apps/v1", "two", R"(,"status":{"replicas":2})");
    CHECK(selected("/apis/apps/v1/replicasets", "status.replicas=0") == names{"none"});
    CHECK(selected("/apis/apps/v1/replicasets", "status.replicas!=0") == names{"two"});
    make("Event", "v1", "e", R"(,"source":{"component":"me"})");
    CHECK(selected("/api/v1/events", "source=me") == names{"e"});
}

TEST_CASE("a large list arrives whole", "[api_server]") {
    server_fixture s;
    const std::string big(10'000, 'x');
    for (int i = 0; i < 200; ++i) s.put("m" + std::to_string(i), big);
    const auto all = s.ask("GET", maps);
    REQUIRE(all.status == 200);
    CHECK(all.body.size() > 2'000'000);
    CHECK(names_of(all.json()).size() == 200);
}

TEST_CASE("discovery names every resource, plainly and aggregated", "[api_server]") {
    server_fixture s;
    CHECK(s.ask("GET", "/api").at("/versions/0") == "v1");
    CHECK(s.ask("GET", "/apis").at("/kind") == "APIGroupList");
    CHECK(s.ask("GET", "/apis/apps").at("/preferredVersion/groupVersion") == "apps/v1");
    const auto core = s.ask("GET", "/api/v1").json();
    bool pods = false, pod_status = false;
    for (const auto& r : core.at("resources").as_array()) {
        pods = pods ||
               (text_at(r, "/name") == "pods" && text_at(r, "/kind") == "Pod" && text_at(r, "/shortNames/0") == "po");
        pod_status = pod_status || text_at(r, "/name") == "pods/status";
    }
    CHECK(pods);
    CHECK(pod_status);
    const std::string accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    const auto aggregated = s.ask(informer::http::request("GET", "/apis").header("Accept", accept));
    CHECK(aggregated.type == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    CHECK(aggregated.at("/kind") == "APIGroupDiscoveryList");
    const auto aggregated_core = s.ask(informer::http::request("GET", "/api").header("Accept", accept));
    CHECK(aggregated_core.at("/items/0/versions/0/version") == "v1");
    CHECK(s.ask("GET", "/version").at("/major") == "1");
    for (const auto* path : {"/healthz", "/livez", "/readyz"}) CHECK(s.ask("GET", path).body == "ok");
}

TEST_CASE("a server without aggregated discovery answers plainly", "[api_server]") {
    server_fixture s(api_server_options().aggregated_discovery(false));
    const auto a =
        s.ask(informer::http::request("GET", "/apis")
                  .header("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,*/*"));
    CHECK(a.type == "application/json");
    CHECK(a.at("/kind") == "APIGroupList");
}

TEST_CASE("HEAD is refused, and leaves the connection free", "[api_server]") {
    server_fixture s;
    CHECK(s.ask("HEAD", maps).status == 405);
    CHECK(s.ask("HEAD", maps + "?watch=1").status == 405);
    CHECK(s.ask("GET", maps).status == 200);
}

TEST_CASE("what does not exist is a 404 in the shape of the real server", "[api_server]") {
    server_fixture s;
    CHECK(s.ask("GET", "/api/v1/nope").at("/reason") == "NotFound");
    for (const auto* path : {"/apis/nope.io", "/apis/nope.io/v1", "/apis/nope.io/v1/things", "/foo"}) {
        const auto a = s.ask("GET", path);
        CHECK(a.status == 404);
        CHECK(a.body == "404 page not found\n");
        CHECK(a.type.starts_with("text/plain"));
    }
    const auto protobuf =
        s.ask(informer::http::request("GET", maps).header("Accept", "application/vnd.kubernetes.protobuf"));
    CHECK(protobuf.status == 406);
    const auto table = s.ask(informer::http::request("GET", maps)
                                 .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"));
    CHECK(table.at("/kind") == "ConfigMapList");
}

TEST_CASE("tokens are required, and rights are checked", "[api_server]") {
    server_fixture s(api_server_options().token("good", "admin").token("weak", "nobody", "none"));
    const auto with = [&](const std::string& token, const std::string& path) {
        informer::http::request r("GET", path);
        if (!token.empty()) r.header("Authorization", "Bearer " + token);
        return s.ask(std::move(r));
    };
    CHECK(with("good", maps).status == 200);
    for (const auto* token : {"", "bad"}) {
        const auto a = with(token, maps);
        CHECK(a.status == 401);
        CHECK(a.at("/reason") == "Unauthorized");
    }
    const auto forbidden = with("weak", "/api/v1/pods");
    CHECK(forbidden.status == 403);
    CHECK(forbidden.at("/message") ==
          "pods is forbidden: User \"nobody\" cannot list resource \"pods\" in API group \"\" "
          "at the cluster scope");
    CHECK(with("weak", "/apis/apps/v1/namespaces/default/deployments/d").at("/message") ==
          "deployments.apps \"d\" is forbidden: User \"nobody\" cannot get resource \"deployments\" in API group "
          "\"apps\" "
          "in the namespace \"default\"");
    CHECK(with("weak", "/api/v1").status == 200);
    CHECK(with("", "/readyz").status == 200);
}

TEST_CASE("over TLS the CA and the client certificate of the kubeconfig work", "[api_server]") {
    server_fixture s(api_server_options().tls());
    CHECK(s.server.url().starts_with("https://"));
    CHECK(s.ask("GET", maps).status == 200);
    const auto config = s.server.kubeconfig();
    CHECK(config.find("certificate-authority-data: ") != std::string::npos);
    CHECK(config.find("client-certificate-data: ") != std::string::npos);
    CHECK(config.find("server: " + s.server.url()) != std::string::npos);
    server_fixture other(api_server_options().tls());
    s.reconnect(informer::http::client_options().tls(informer::http::tls_options().ca(other.server.ca_pem())));
    CHECK(s.ask("GET", maps).f == informer::errc::tls_failed);
}

TEST_CASE("a kubeconfig has a context for each user", "[api_server]") {
    server_fixture s(api_server_options().token("good", "admin").token("weak", "nobody", "none"));
    const auto config = s.server.kubeconfig();
    CHECK(config.find("current-context: \"admin\"") != std::string::npos);
    CHECK(config.find("token: \"good\"") != std::string::npos);
    CHECK(config.find("- name: \"nobody\"") != std::string::npos);
}

TEST_CASE("a user with two tokens appears in the kubeconfig once, with the first token", "[api_server]") {
    server_fixture s(api_server_options().token("old", "sa").token("new", "sa").token("other", "nobody", "none"));
    informer::failure f;
    for (const auto& [context, token] : {std::pair("", "old"), std::pair("sa", "old"), std::pair("nobody", "other")}) {
        informer::kubernetes::kubeconfig_options options;
        options.context(context);
        const auto config = informer::kubernetes::parse_kubeconfig(s.server.kubeconfig(), "kubeconfig", options, f);
        INFO(f.what());
        CHECK_FALSE(f);
        CHECK(config.credentials.token == token);
    }
    CHECK(s.ask("GET", maps).status == 401);
    for (const char* token : {"old", "new"})
        CHECK(s.ask(informer::http::request("GET", maps).header("Authorization", std::string("Bearer ") + token))
                  .status == 200);
}

TEST_CASE("config() is what a client needs, also with TLS and with tokens", "[api_server]") {
    for (const auto& options :
         {api_server_options(), api_server_options().token("good", "sa").token("weak", "nobody", "none"),
          api_server_options().tls(), api_server_options().tls().token("good", "sa")}) {
        CAPTURE(options.tls_, options.tokens_.size());
        server_fixture s(options);
        s.put("a", "1");
        informer::kubernetes::client client(s.runtime, s.server.config());
        informer::failure f;
        std::optional<informer::object> got;
        const informer::api_resource config_maps("", "v1", "configmaps", "ConfigMap");
        boost::asio::co_spawn(s.io, client.get(config_maps, informer::object_key("default", "a"), f),
                              [&](std::exception_ptr, informer::object o) { got = std::move(o); });
        CHECK(s.run_until([&] { return got.has_value(); }));
        INFO(f.what());
        REQUIRE_FALSE(f);
        CHECK(got->at_pointer("/data/v") == "1");
        CHECK(client.config().warnings.empty());
    }
}

TEST_CASE("requests are recorded with what they asked for", "[api_server]") {
    server_fixture s;
    s.ask("GET", maps + "/a?x=y");
    s.ask("PATCH", "/apis/apps/v1/namespaces/n/deployments/d/status", "{}");
    s.ask("DELETE", maps);
    s.ask("GET", "/api/v1/namespaces/n");
    const auto asked = s.server.requests();
    REQUIRE(asked.size() == 4);
    CHECK(asked[0].verb == "get");
    CHECK(asked[0].resource == "configmaps");
    CHECK(asked[0].name_space == "default");
    CHECK(asked[0].name == "a");
    CHECK(asked[0].target == maps + "/a?x=y");
    CHECK(asked[0].number == 1);
    CHECK(asked[1].verb == "patch");
    CHECK(asked[1].group == "apps");
    CHECK(asked[1].version == "v1");
    CHECK(asked[1].subresource == "status");
    CHECK(asked[2].verb == "deletecollection");
    CHECK(asked[3].resource == "namespaces");
    CHECK(asked[3].name == "n");
    CHECK(asked[3].name_space.empty());
    CHECK(asked[0].body.empty());
    CHECK(asked[1].body == "{}");
    s.server.forget_requests();
    CHECK(s.server.requests().empty());
    s.ask("POST", maps, std::string(70'000, ' '));
    s.ask("POST", maps, "[]");
    for (int i = 0; i < 999; ++i) s.ask("GET", maps + "/a");
    CHECK(s.server.requests()[0].body.empty()); // too large to keep
    CHECK(s.server.requests()[1].body == "[]");
    s.ask("GET", maps + "/a");
    CHECK(s.server.requests()[1].body.empty());
}
