#include <informer/kubernetes/discovery.hpp>

#include <catch2/catch_test_macros.hpp>

using namespace informer;
using informer::kubernetes::discovery;
namespace format = informer::kubernetes::discovery_format;

namespace {

discovery sample() {
    failure f;
    discovery d;
    d.resources = format::aggregated(
        R"({"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[
        {"metadata":{"creationTimestamp":null},"versions":[{"version":"v1","freshness":"Current","resources":[
          {"resource":"pods","responseKind":{"group":"","version":"","kind":"Pod"},"scope":"Namespaced","singularResource":"pod",
           "verbs":["get","list","watch"],"shortNames":["po"],"categories":["all"],
           "subresources":[{"subresource":"status","responseKind":{"group":"","version":"","kind":"Pod"},"verbs":["get"]}]},
          {"resource":"nodes","responseKind":{"group":"","version":"","kind":"Node"},"scope":"Cluster","singularResource":"node",
           "verbs":["list"],"shortNames":["no"]},
          {"resource":"events","responseKind":{"group":"","version":"","kind":"Event"},"scope":"Namespaced","singularResource":"event",
           "verbs":["list"],"shortNames":["ev"]},
          {"resource":"bindings","scope":"Namespaced","singularResource":"binding","verbs":["create"]}]}]},
        {"metadata":{"name":"apps"},"versions":[{"version":"v1","resources":[
          {"resource":"deployments","responseKind":{"group":"","version":"","kind":"Deployment"},"scope":"Namespaced",
           "singularResource":"deployment","verbs":["list"],"shortNames":["deploy"]}]},
          {"version":"v1beta1","resources":[
          {"resource":"deployments","responseKind":{"group":"","version":"","kind":"Deployment"},"scope":"Namespaced",
           "singularResource":"deployment","verbs":["list"]}]}]},
        {"metadata":{"name":"events.k8s.io"},"versions":[{"version":"v1","resources":[
          {"resource":"events","responseKind":{"group":"","version":"","kind":"Event"},"scope":"Namespaced",
           "singularResource":"event","verbs":["list"],"shortNames":["ev"]}]}]},
        {"metadata":{"name":"samplecontroller.k8s.io"},"versions":[{"version":"v1alpha1","resources":[
          {"resource":"foos","responseKind":{"group":"samplecontroller.k8s.io","version":"v1alpha1","kind":"Foo"},
           "scope":"Namespaced","singularResource":"foo","verbs":["list"],"shortNames":["pods2","no"]}]}]},
        {"metadata":{"name":"metrics.k8s.io"},"versions":[{"version":"v1beta1","freshness":"Stale","resources":[]}]}]})",
        f, &d.problems);
    INFO(f.what());
    REQUIRE_FALSE(f);
    return d;
}

std::string found(const discovery& d, std::string_view name) {
    failure f;
    const auto r = d.find(name, f);
    return f ? f.message() : r.plural + "/" + r.api_version();
}

} // namespace

TEST_CASE("discovery: the aggregated form is read, sub-resources and kindless resources left out") {
    const auto d = sample();
    REQUIRE(d.resources.size() == 7);
    const auto* pods = d.find("", "v1", "pods");
    REQUIRE(pods);
    CHECK(pods->kind == "Pod");
    CHECK(pods->singular == "pod");
    CHECK(pods->namespaced);
    CHECK(pods->verbs == std::vector<std::string>{"get", "list", "watch"});
    CHECK(pods->short_names == std::vector<std::string>{"po"});
    CHECK(pods->categories == std::vector<std::string>{"all"});
    CHECK_FALSE(d.find("", "v1", "nodes")->namespaced);
    CHECK(d.find("", "v1", "bindings") == nullptr);
    CHECK(d.problems == std::vector<std::string>{"metrics.k8s.io/v1beta1: the server behind it cannot be asked now"});
}

TEST_CASE("discovery: names are found by plural, singular, kind and short name in any case") {
    const auto d = sample();
    for (const auto* name : {"pods", "pod", "Pod", "po", "PODS", "pods.", "pods.v1", "pods.v1."})
        CHECK(found(d, name) == "pods/v1");
    for (const auto* name :
         {"deployments", "deploy", "deploy.apps", "Deployment.apps", "deployments.v1.apps", "deployments.app"})
        CHECK(found(d, name) == "deployments/apps/v1");
    CHECK(found(d, "deployments.v1beta1.apps") == "deployments/apps/v1beta1");
    CHECK(found(d, "foos.samplecontroller.k8s.io") == "foos/samplecontroller.k8s.io/v1alpha1");
    CHECK(found(d, "foos.v1alpha1.samplecontroller.k8s.io") == "foos/samplecontroller.k8s.io/v1alpha1");
}

TEST_CASE("discovery: ambiguous names mean the core group first, then the server's order") {
    const auto d = sample();
    CHECK(found(d, "events") == "events/v1");
    CHECK(found(d, "ev") == "events/v1");
    CHECK(found(d, "no") == "nodes/v1");
    CHECK(found(d, "events.events.k8s.io") == "events/events.k8s.io/v1");
}

TEST_CASE("discovery: an unknown name is answered with the nearest ones") {
    const auto d = sample();
    CHECK(found(d, "pdos") ==
          "the server has no resource \"pdos\" (did you mean pods?) (could not read metrics.k8s.io/v1beta1: "
          "the server behind it cannot be asked now)");
    CHECK(found(d, "deploymnts").find("did you mean deployments.apps?") != std::string::npos);
    CHECK(found(d, "deployments.extensions").find("did you mean deployments.apps?") != std::string::npos);
    CHECK(found(d, "deplyo").find("did you mean deployments.apps?") != std::string::npos); // nearest to the short name
    CHECK(found(d, "quite-something-else").find("did you mean") == std::string::npos);
    CHECK(found(d, "pods.v2.").find("the server has no resource") == 0);
    CHECK(found(d, "").find("the server has no resource \"\"") == 0);
    failure f;
    d.find(std::string(100000, 'a'), f);
    CHECK(f == errc::unknown_resource);
    CHECK(f.message().size() < 1000);
}

TEST_CASE("discovery: an empty name finds nothing, not even a resource without a singular name") {
    failure f;
    discovery d;
    d.resources = format::api_resources(R"({"kind":"APIResourceList","groupVersion":"x.io/v1","resources":[
        {"name":"foos","singularName":"","namespaced":true,"kind":"Foo","shortNames":[""]}]})",
                                        f);
    const auto core = format::api_resources(R"({"kind":"APIResourceList","groupVersion":"v1","resources":[
        {"name":"bars","namespaced":true,"kind":"Bar"}]})",
                                            f);
    d.resources.insert(d.resources.begin(), core.begin(), core.end());
    REQUIRE(d.resources.size() == 2);
    for (const std::string name : {"", ".", ".x.io", ".v1", ".v1.x.io", ".x"})
        CHECK(found(d, name).starts_with("the server has no resource \"" + name + "\""));
    CHECK(found(d, "foo.x") == "foos/x.io/v1");
}

TEST_CASE("discovery: kinds are found as objects name them") {
    const auto d = sample();
    REQUIRE(d.find_kind("apps/v1", "Deployment"));
    CHECK(d.find_kind("apps/v1", "Deployment")->plural == "deployments");
    CHECK(d.find_kind("apps/v1", "deployment") == nullptr);
    CHECK(d.find_kind("v1", "Deployment") == nullptr);
}

TEST_CASE("discovery: the plain forms are read") {
    failure f;
    CHECK(format::api_versions(R"({"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[]})", f) ==
          std::vector<std::string>{"v1"});
    CHECK_FALSE(f);
    const auto groups = format::api_groups(R"({"kind":"APIGroupList","apiVersion":"v1","groups":[
        {"name":"apps","versions":[{"groupVersion":"apps/v1beta1","version":"v1beta1"},{"groupVersion":"apps/v1","version":"v1"}],
         "preferredVersion":{"groupVersion":"apps/v1","version":"v1"}},{"name":"batch","versions":[{"version":"v1"}]}]})",
                                           f);
    CHECK_FALSE(f);
    REQUIRE(groups.size() == 2);
    CHECK(groups[0].name == "apps");
    CHECK(groups[0].versions == std::vector<std::string>{"v1", "v1beta1"});
    const auto resources =
        format::api_resources(R"({"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":[
        {"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment","verbs":["list"],"shortNames":["deploy"]},
        {"name":"deployments/scale","singularName":"","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get"]}]})",
                              f);
    CHECK_FALSE(f);
    REQUIRE(resources.size() == 1);
    CHECK(resources[0].group == "apps");
    CHECK(resources[0].version == "v1");
    CHECK(resources[0].plural == "deployments");
    CHECK(resources[0].short_names == std::vector<std::string>{"deploy"});
}

TEST_CASE("discovery: answers of another kind, wrong types and garbage are refused or skipped, never trusted") {
    failure f;
    format::api_versions(R"({"kind":"APIGroupList"})", f);
    CHECK(f == errc::bad_response);
    CHECK(f.message() == "the answer is no APIVersions but a APIGroupList");
    format::aggregated("<html>", f);
    CHECK(f == errc::syntax_error);
    format::api_groups("[]", f);
    CHECK(f == errc::bad_response);
    format::api_groups(std::string(1000, '['), f);
    CHECK(f == errc::too_deep);
    CHECK(format::api_resources(
              R"({"kind":"APIResourceList","groupVersion":7,"resources":[1,{"name":1},{"name":"a"}]})", f)
              .empty());
    CHECK_FALSE(f);
    CHECK(
        format::aggregated(
            R"({"kind":"APIGroupDiscoveryList","items":[null,{"versions":[3,{"version":"v1","resources":["x",{"responseKind":{}}]}]}]})",
            f)
            .empty());
    CHECK_FALSE(f);
}
