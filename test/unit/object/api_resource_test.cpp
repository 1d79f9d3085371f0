#include <informer/object/api_resource.hpp>

#include <catch2/catch_test_macros.hpp>

using informer::api_resource;

TEST_CASE("paths of core and named groups", "[api_resource]") {
    const api_resource pods("", "v1", "pods", "Pod");
    CHECK(pods.path() == "/api/v1/pods");
    CHECK(pods.path("ns") == "/api/v1/namespaces/ns/pods");
    CHECK(pods.path("ns", "x") == "/api/v1/namespaces/ns/pods/x");
    CHECK(pods.path("ns", "x", "status") == "/api/v1/namespaces/ns/pods/x/status");
    CHECK(pods.path("ns", "x", "proxy/a b/c") == "/api/v1/namespaces/ns/pods/x/proxy/a%20b/c");
    const api_resource deployments("apps", "v1", "deployments", "Deployment");
    CHECK(deployments.path("ns", "x") == "/apis/apps/v1/namespaces/ns/deployments/x");
    CHECK(deployments.api_version() == "apps/v1");
    CHECK(deployments.group_resource() == "deployments.apps");
    CHECK(pods.api_version() == "v1");
    CHECK(pods.group_resource() == "pods");
}

TEST_CASE("a cluster-scoped resource has no namespace in its path", "[api_resource]") {
    const api_resource nodes("", "v1", "nodes", "Node", false);
    CHECK(nodes.path("ns", "x") == "/api/v1/nodes/x");
    const api_resource namespaces("", "v1", "namespaces", "Namespace", false);
    CHECK(namespaces.path("", "x") == "/api/v1/namespaces/x");
}

TEST_CASE("no part of a path can become two", "[api_resource]") {
    const api_resource roles("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false);
    CHECK(roles.path("", "system:node/x?y#z%") ==
          "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode%2Fx%3Fy%23z%25");
    CHECK(roles.path("", "..") == "/apis/rbac.authorization.k8s.io/v1/clusterroles/%2E%2E");
    CHECK(roles.path("", ".") == "/apis/rbac.authorization.k8s.io/v1/clusterroles/%2E");
    CHECK(roles.path("", "\xc3\xa4\n") == "/apis/rbac.authorization.k8s.io/v1/clusterroles/%C3%A4%0A");
}

TEST_CASE("a resource is its group, version and plural", "[api_resource]") {
    api_resource a("g", "v1", "foos", "Foo");
    const api_resource b("g", "v1", "foos");
    CHECK(a == b);
    CHECK_FALSE(a == api_resource("g", "v2", "foos"));
    a.verbs = {"get", "list"};
    CHECK(a.has_verb("list"));
    CHECK_FALSE(a.has_verb("watch"));
}
