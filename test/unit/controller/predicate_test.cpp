// Predicates and mappings.
#include <informer/controller/mapping.hpp>
#include <informer/controller/predicate.hpp>
#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <string>

using namespace informer;

namespace {

const api_resource foos("samplecontroller.k8s.io", "v1alpha1", "foos", "Foo");

object made(const std::string& metadata) {
    return parse_object(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"ns",)" + metadata +
                        "}}");
}
event update(const std::string& before, const std::string& now) {
    return event(event_kind::updated, made(now), made(before), event_reason::watch);
}

} // namespace

TEST_CASE("'changed' predicates compare the old and the new object, and let additions and deletions through") {
    struct {
        predicate p;
        std::string before, now;
    } const cases[] = {
        {predicates::generation_changed(), R"("generation":1)", R"("generation":2)"},
        {predicates::resource_version_changed(), R"("resourceVersion":"1")", R"("resourceVersion":"2")"},
        {predicates::labels_changed(), R"("labels":{"a":"1"})", R"("labels":{"a":"2"})"},
        {predicates::annotations_changed(), R"("annotations":{"a":"1"})", R"("annotations":{"a":"1","b":"2"})"},
        {predicates::finalizers_changed(), R"("finalizers":["x"])", R"("finalizers":[])"},
    };
    for (const auto& c : cases) {
        INFO(c.now);
        CHECK(c.p(update(c.before, c.now)));
        CHECK_FALSE(c.p(update(c.before, c.before)));
        CHECK_FALSE((!c.p)(update(c.before, c.now)));
        CHECK(c.p(event(event_kind::added, made(c.now), object(), event_reason::watch)));
        CHECK(c.p(event(event_kind::deleted, made(c.now), made(c.before), event_reason::watch)));
        // Other changes do not count.
        CHECK_FALSE(c.p(update(c.before + R"(,"uid":"1")", c.before + R"(,"uid":"2")")));
    }
}

TEST_CASE("and, or, not combine predicates; an empty one lets everything through") {
    const event e = update(R"("generation":1,"labels":{"a":"1"})", R"("generation":2,"labels":{"a":"1"})");
    const predicate yes = predicates::generation_changed(), no = predicates::labels_changed();
    CHECK(predicate()(e));
    CHECK_FALSE((yes && no)(e));
    CHECK((yes && yes)(e));
    CHECK((yes || no)(e));
    CHECK_FALSE((no || no)(e));
    CHECK((yes && !no)(e));
}

TEST_CASE("an object that leaves a selection passes once") {
    const predicate p = predicates::matches(label_selector::parse("app=web"));
    const std::string in = R"("labels":{"app":"web"})", out = R"("labels":{"app":"db"})";
    CHECK(p(update(out, in)));
    CHECK(p(update(in, in)));
    CHECK(p(update(in, out)));
    CHECK_FALSE(p(update(out, out)));
}

TEST_CASE("only objects in the listed namespaces pass") {
    const predicate p = predicates::in_namespaces({"x", "ns"});
    CHECK(p(update("\"uid\":\"1\"", "\"uid\":\"1\"")));
    CHECK_FALSE(predicates::in_namespaces({"x"})(update("\"uid\":\"1\"", "\"uid\":\"1\"")));
}

TEST_CASE(
    "an owner is found by group and kind in any version, in the object's namespace; by default the controlling one") {
    const object o = made(R"("ownerReferences":[
        {"apiVersion":"samplecontroller.k8s.io/v1","kind":"Foo","name":"one","controller":true},
        {"apiVersion":"samplecontroller.k8s.io/v1alpha1","kind":"Foo","name":"two"},
        {"apiVersion":"samplecontroller.k8s.io/v1","kind":"Foo","name":"three","controller":false},
        {"apiVersion":"other.io/v1alpha1","kind":"Foo","name":"other group","controller":true},
        {"apiVersion":"samplecontroller.k8s.io/v1","kind":"Bar","name":"other kind","controller":true},
        {"apiVersion":"v1","kind":"Foo","name":"core group","controller":true}])");
    CHECK(mapping::to_owner(foos)(o) == std::vector<object_key>{object_key("ns", "one")});
    CHECK(mapping::to_owner(foos, owner_kind::any)(o) ==
          std::vector<object_key>{object_key("ns", "one"), object_key("ns", "two"), object_key("ns", "three")});
    api_resource wide = foos;
    wide.namespaced = false;
    CHECK(mapping::to_owner(wide)(o) == std::vector<object_key>{object_key("", "one")});
    CHECK(mapping::to_owner(foos)(made("\"uid\":\"1\"")).empty());
    CHECK(mapping::to_owner(foos)(made("\"ownerReferences\":\"nonsense\"")).empty());
    CHECK(mapping::to_self()(o) == std::vector<object_key>{object_key("ns", "a")});
}

TEST_CASE("a mapping to owners without a kind is refused, because references name the kind") {
    CHECK_THROWS_AS(mapping::to_owner(api_resource("apps", "v1", "deployments")), error);
}

TEST_CASE("a key of a cluster is taken apart into what it was made of") {
    const object o = made(R"("ownerReferences":[
        {"apiVersion":"samplecontroller.k8s.io/v1","kind":"Foo","name":"one","controller":true}])");
    const auto back = [&](const map_function& map) {
        const auto keys = map(o);
        REQUIRE(keys.size() == 1);
        const cluster_key k = cluster_key::parse(keys.front());
        return k.cluster + " " + k.key.str();
    };
    CHECK(mapping::of_cluster("east")(o) == std::vector<object_key>{object_key("east:ns", "a")});
    CHECK(back(mapping::of_cluster("east")) == "east ns/a");
    CHECK(back(mapping::of_cluster("arn:aws:eks", mapping::to_owner(foos))) == "arn:aws:eks ns/one");
    api_resource wide = foos;
    wide.namespaced = false;
    CHECK(back(mapping::of_cluster("east", mapping::to_owner(wide))) == "east one");
    const cluster_key none = cluster_key::parse(object_key("ns", "a"));
    CHECK(none.cluster.empty());
    CHECK(none.key == object_key("ns", "a"));
}

TEST_CASE("keys of a cluster need a name without a slash, and a mapping") {
    CHECK_THROWS_AS(mapping::of_cluster(""), error);
    CHECK_THROWS_AS(mapping::of_cluster("a/b"), error);
    CHECK_THROWS_AS(mapping::of_cluster("a", map_function()), error);
}
