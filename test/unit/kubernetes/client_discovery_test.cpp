// Discovery through a client: how much is asked for, what is kept, what is an error.
#include "bench.hpp"

using namespace kubernetes_test;
using namespace std::chrono_literals;
using informer::kubernetes::discovery;

namespace {

void serve_core(bench& b) {
    b.answers->by_path["/api"] = reply(R"({"kind":"APIVersions","versions":["v1"]})");
    b.answers->by_path["/api/v1"] = reply(R"({"kind":"APIResourceList","groupVersion":"v1","resources":[
        {"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["list","watch"],"shortNames":["po"]}]})");
}

void serve_groups(bench& b) {
    b.answers->by_path["/apis"] = reply(R"({"kind":"APIGroupList","groups":[
        {"name":"apps","versions":[{"version":"v1"}],"preferredVersion":{"version":"v1"}},
        {"name":"batch","versions":[{"version":"v1"}]},{"name":"broken.io","versions":[{"version":"v1"}]}]})");
    b.answers->by_path["/apis/apps/v1"] = reply(R"({"kind":"APIResourceList","groupVersion":"apps/v1","resources":[
        {"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment","shortNames":["deploy"]}]})");
    b.answers->by_path["/apis/batch/v1"] = reply(R"({"kind":"APIResourceList","groupVersion":"batch/v1","resources":[
        {"name":"jobs","singularName":"job","namespaced":true,"kind":"Job"}]})");
    b.answers->by_path["/apis/broken.io/v1"] = reply(503, "gone fishing");
}

std::string find(bench& b, const std::string& name) {
    failure f;
    const api_resource r = b.run(b.api->find_resource(name, f));
    return f ? f.message() : r.plural + "/" + r.api_version();
}

} // namespace

TEST_CASE("discovery: a core resource needs no more than /api and /api/v1") {
    bench b;
    serve_core(b);
    CHECK(find(b, "pods") == "pods/v1");
    CHECK(b.answers->lines == lines{"GET /api", "GET /api/v1"});
    CHECK(std::string(b.answers->requests.back().header("Accept")) ==
          "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
          "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json");
    for (const char* name : {"PODS", "po.", "Pod.v1"}) CHECK(find(b, name) == "pods/v1");
    CHECK(b.answers->lines.size() == 2); // known by now
    CHECK(find(b, "pdos") == "the server has no resource \"pdos\" (did you mean pods?)");
    CHECK(b.answers->lines.back() == "GET /apis");
}

TEST_CASE("discovery: a qualified name reads its own group only") {
    bench b;
    serve_core(b);
    serve_groups(b);
    CHECK(find(b, "deploy.apps") == "deployments/apps/v1");
    CHECK(b.answers->lines == lines{"GET /api", "GET /api/v1", "GET /apis", "GET /apis/apps/v1"});
}

TEST_CASE("discovery: groups that are read one by one are all kept") {
    bench b;
    serve_core(b);
    serve_groups(b);
    CHECK(find(b, "deploy.apps") == "deployments/apps/v1");
    CHECK(find(b, "jobs.batch") == "jobs/batch/v1");
    const std::size_t asked = b.answers->lines.size();
    CHECK(find(b, "deploy.apps") == "deployments/apps/v1");
    CHECK(find(b, "jobs.batch") == "jobs/batch/v1");
    CHECK(find(b, "pods") == "pods/v1");
    CHECK(b.answers->lines.size() == asked);
}

TEST_CASE("discovery: a plural of any group beats a short name or kind of the core group, whatever was read before") {
    const auto serve = [](bench& b) {
        b.answers->by_path["/api"] = reply(R"({"kind":"APIVersions","versions":["v1"]})");
        b.answers->by_path["/api/v1"] = reply(R"({"kind":"APIResourceList","groupVersion":"v1","resources":[
            {"name":"resourcequotas","singularName":"resourcequota","namespaced":true,"kind":"ResourceQuota","shortNames":["quota","rq"]},
            {"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod"}]})");
        b.answers->by_path["/apis"] =
            reply(R"({"kind":"APIGroupList","groups":[{"name":"x.io","versions":[{"version":"v1"}]}]})");
        b.answers->by_path["/apis/x.io/v1"] = reply(R"({"kind":"APIResourceList","groupVersion":"x.io/v1","resources":[
            {"name":"quota","singularName":"aquota","namespaced":true,"kind":"Quota","shortNames":["pods","rq"]},
            {"name":"pod","singularName":"apod","namespaced":true,"kind":"APod"}]})");
    };
    const auto check = [](bench& b) {
        CHECK(find(b, "quota") == "quota/x.io/v1");
        CHECK(find(b, "Pod") == "pod/x.io/v1");
        CHECK(find(b, "pods") == "pods/v1");
        CHECK(find(b, "rq") == "resourcequotas/v1"); // fits both alike: the core group comes first
        CHECK(find(b, "quota.") == "resourcequotas/v1");
    };
    bench fresh, knows_core, knows_all;
    for (bench* b : {&fresh, &knows_core, &knows_all}) serve(*b);
    CHECK(find(knows_core, "resourcequotas") == "resourcequotas/v1");
    CHECK(knows_core.answers->lines.size() == 2);
    failure f;
    CHECK(knows_all.run(knows_all.api->discover(f)).resources.size() == 4);
    for (bench* b : {&fresh, &knows_core, &knows_all}) check(*b);
    CHECK(fresh.answers->lines == lines{"GET /api", "GET /api/v1", "GET /apis", "GET /apis/x.io/v1"});
}

TEST_CASE("discovery: of two partial results the later one is used") {
    bench b;
    serve_core(b);
    b.answers->by_path["/apis"] = reply(R"({"kind":"APIGroupList","groups":[
        {"name":"example.com","versions":[{"version":"v1"},{"version":"v1beta1"}]},{"name":"apps","versions":[{"version":"v1"}]}]})");
    const auto serve = [&b](const std::string& version, const std::string& plural, const std::string& kind) {
        b.answers->by_path["/apis/example.com/" + version] =
            reply(R"({"kind":"APIResourceList","groupVersion":"example.com/)" + version +
                  R"(","resources":[{"name":")" + plural + R"(","namespaced":true,"kind":")" + kind + R"("}]})");
    };
    serve("v1beta1", "foos", "Foo");
    b.answers->by_path["/apis/example.com/v1"] = reply(503, "not yet");
    CHECK(find(b, "foos.example.com") == "foos/example.com/v1beta1");
    serve("v1", "foos", "Foo");
    CHECK(find(b, "bars.example.com").starts_with("the server has no resource")); // so all of the group is read again
    CHECK(find(b, "foos.example.com") == "foos/example.com/v1");
}

TEST_CASE("discovery: a group that cannot be read is reported as a problem of that group only") {
    bench b;
    serve_core(b);
    serve_groups(b);
    failure f;
    const discovery d = b.run(b.api->discover(f));
    CHECK_FALSE(f);
    CHECK(d.resources.size() == 3);
    REQUIRE(d.problems.size() == 1);
    CHECK(d.problems[0].starts_with("broken.io/v1: "));
    CHECK(d.problems[0].find("gone fishing") != std::string::npos);
    CHECK(find(b, "jobs") == "jobs/batch/v1");
}

TEST_CASE("discovery: the aggregated form takes two requests") {
    bench b;
    b.answers->by_path["/api"] =
        reply(R"({"kind":"APIGroupDiscoveryList","items":[{"metadata":{},"versions":[{"version":"v1",
        "resources":[{"resource":"pods","responseKind":{"kind":"Pod"},"scope":"Namespaced","singularResource":"pod"}]}]}]})");
    b.answers->by_path["/apis"] =
        reply(R"({"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"apps"},"versions":[{"version":"v1",
        "resources":[{"resource":"deployments","responseKind":{"kind":"Deployment"},"scope":"Namespaced"}]}]}]})");
    failure f;
    const discovery d = b.run(b.api->discover(f));
    CHECK_FALSE(f);
    CHECK(d.resources.size() == 2);
    CHECK(b.answers->lines == lines{"GET /api", "GET /apis"});
}

TEST_CASE("discovery: a new resource is found, because an unknown name makes the client ask again") {
    bench b;
    serve_core(b);
    failure f;
    b.run(b.api->discover(f));
    CHECK_FALSE(f); // /apis is 404: tolerated
    serve_groups(b);
    CHECK(find(b, "jobs") == "jobs/batch/v1");
}

TEST_CASE("discovery: no server, no discovery and garbage are errors") {
    bench b;
    CHECK(find(b, "pods").starts_with("neither /api nor /apis is there"));
    b.answers->by_path["/api"] = reply("<html>");
    CHECK(find(b, "pods").find("discover") != std::string::npos);
    b.answers->by_path["/api"] = reply(R"({"kind":"Surprise"})");
    CHECK(find(b, "pods").find("the answer is no APIVersions but a Surprise") != std::string::npos);
    b.answers->by_path["/api"] = reply(403, status(403, "Forbidden", "not you"));
    failure f;
    b.run(b.api->discover(f));
    CHECK(f == errc::forbidden);
}

namespace {

/// Two groups with one plural; the preferred one comes first.
void serve_gateways(bench& b) {
    serve_core(b);
    b.answers->by_path["/apis"] = reply(R"({"kind":"APIGroupList","groups":[
        {"name":"gateway.networking.k8s.io","versions":[{"version":"v1"}]},{"name":"networking.istio.io","versions":[{"version":"v1"}]}]})");
    for (const std::string group : {"gateway.networking.k8s.io", "networking.istio.io"})
        b.answers->by_path["/apis/" + group + "/v1"] =
            reply(R"({"kind":"APIResourceList","groupVersion":")" + group + R"(/v1","resources":[
                {"name":"gateways","singularName":"gateway","namespaced":true,"kind":"Gateway"}]})");
}

} // namespace

TEST_CASE("discovery: a partial result does not answer for the whole") {
    bench b;
    serve_gateways(b);
    CHECK(find(b, "gateways.networking.istio.io") == "gateways/networking.istio.io/v1");
    CHECK(find(b, "gateways") == "gateways/gateway.networking.k8s.io/v1");
    CHECK(find(b, "gateways.networking.istio.io") == "gateways/networking.istio.io/v1");
    const std::size_t asked = b.answers->lines.size();
    CHECK(find(b, "gateways") == "gateways/gateway.networking.k8s.io/v1"); // all is known by now
    CHECK(b.answers->lines.size() == asked);
    // A group that appears later is kept, too.
    b.answers->by_path["/apis"] = reply(R"({"kind":"APIGroupList","groups":[
        {"name":"gateway.networking.k8s.io","versions":[{"version":"v1"}]},{"name":"networking.istio.io","versions":[{"version":"v1"}]},
        {"name":"example.com","versions":[{"version":"v1"}]}]})");
    b.answers->by_path["/apis/example.com/v1"] =
        reply(R"({"kind":"APIResourceList","groupVersion":"example.com/v1","resources":[
        {"name":"foos","singularName":"foo","namespaced":true,"kind":"Foo"}]})");
    CHECK(find(b, "foos.example.com") == "foos/example.com/v1");
    const std::size_t by_then = b.answers->lines.size();
    CHECK(find(b, "foos.example.com") == "foos/example.com/v1");
    CHECK(find(b, "gateways") == "gateways/gateway.networking.k8s.io/v1");
    CHECK(b.answers->lines.size() == by_then);
}

TEST_CASE("discovery: a preferred group that failed once is asked again") {
    bench b;
    serve_gateways(b);
    const auto good = b.answers->by_path["/apis/gateway.networking.k8s.io/v1"];
    b.answers->by_path["/apis/gateway.networking.k8s.io/v1"] = reply(500, "not now");
    failure f;
    CHECK(b.run(b.api->discover(f)).problems.size() == 1);
    b.answers->by_path["/apis/gateway.networking.k8s.io/v1"] = good;
    CHECK(find(b, "gateways") == "gateways/gateway.networking.k8s.io/v1");
}

TEST_CASE("discovery: a 401 or a lost connection fails the whole discovery, not one group") {
    bench b;
    serve_gateways(b);
    failure f;
    b.answers->by_path["/apis/networking.istio.io/v1"] = reply(401, status(401, "Unauthorized", "who are you"));
    b.run(b.api->discover(f));
    CHECK(f == errc::unauthorized);
    b.answers->by_path["/apis/networking.istio.io/v1"] = reply("").streamed({"{"}, reply::cut);
    b.run(b.api->discover(f));
    CHECK(f == errc::connection_lost);
}

TEST_CASE("discovery: all its requests together have the time limit of one verb") {
    client_config c;
    c.time_limit = 2s; // also in real time, as the time-out of a request
    bench b(c, http::server_options());
    serve_gateways(b);
    b.answers->by_path["/apis/gateway.networking.k8s.io/v1"] = reply("").streamed({"{"}, reply::stall);
    failure f;
    bool done = false;
    asio::co_spawn(b.io, b.api->discover(f), [&done](std::exception_ptr, discovery) { done = true; });
    b.until([&b] {
        return !b.answers->lines.empty() && b.answers->lines.back() == "GET /apis/gateway.networking.k8s.io/v1";
    });
    b.clock->advance(2s);
    b.until([&done] { return done; });
    CHECK(f == errc::deadline_exceeded);
    CHECK(b.answers->lines.back() == "GET /apis/gateway.networking.k8s.io/v1"); // the next group was not asked for
}
