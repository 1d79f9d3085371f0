// Owner references.
#include <informer/controller/owner_reference.hpp>
#include <informer/object/document_pool.hpp>
#include <informer/object/json.hpp>

#include <boost/json.hpp>
#include <catch2/catch_test_macros.hpp>

#include <string>

using namespace informer;
namespace json = boost::json;

namespace {

object owner(const std::string& name, const std::string& uid, const std::string& name_space = "ns",
             const std::string& version = "v1alpha1") {
    const std::string space = name_space.empty() ? "" : R"("namespace":")" + name_space + "\",";
    return parse_object(R"({"apiVersion":"samplecontroller.k8s.io/)" + version + R"(","kind":"Foo","metadata":{)" +
                        space + R"("name":")" + name + R"(","uid":")" + uid + "\"}}");
}
json::value dependent(const std::string& name_space = "ns") {
    const std::string space = name_space.empty() ? "" : R"("namespace":")" + name_space + "\",";
    return json::parse(R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{)" + space + R"("name":"d"}})");
}
std::size_t references(const json::value& v) {
    return v.at_pointer("/metadata/ownerReferences").as_array().size();
}

} // namespace

TEST_CASE("the controlling owner is set once, and found again by uid") {
    json::value d = dependent();
    failure f;
    set_controller_reference(d, owner("a", "u1"), f);
    REQUIRE_FALSE(f);
    set_controller_reference(d, owner("a", "u1"), f);
    REQUIRE_FALSE(f);
    CHECK(references(d) == 1);
    const object o = from_value(d);
    const auto found = controller_of(o);
    REQUIRE(found);
    CHECK(found->api_version == "samplecontroller.k8s.io/v1alpha1");
    CHECK(found->kind == "Foo");
    CHECK(found->name == "a");
    CHECK(found->block_owner_deletion);
    CHECK(is_controlled_by(o, owner("a", "u1")));
    CHECK_FALSE(is_controlled_by(o, owner("a", "u2"))); // deleted and created again
}

TEST_CASE("an object that another owner controls is refused, and the failure names that owner") {
    json::value d = dependent();
    failure f;
    set_controller_reference(d, owner("a", "u1"), f);
    REQUIRE_FALSE(f);
    const json::value before = d;
    set_controller_reference(d, owner("b", "u2"), f);
    CHECK(f == errc::conflict);
    CHECK(f.what().find("Foo a") != std::string::npos);
    CHECK(d == before);
    set_owner_reference(d, owner("b", "u2"), f); // may own it all the same
    CHECK_FALSE(f);
    CHECK(references(d) == 2);
    CHECK(is_owned_by(from_value(d), owner("b", "u2")));
    CHECK(controller_of(from_value(d))->name == "a");
}

TEST_CASE("an owner of another version, or one created again, replaces its old reference") {
    json::value d = dependent();
    failure f;
    set_controller_reference(d, owner("a", "u1"), f);
    set_controller_reference(d, owner("a", "u1", "ns", "v1"), f);
    REQUIRE_FALSE(f);
    set_controller_reference(d, owner("a", "u2", "ns", "v1"), f);
    REQUIRE_FALSE(f);
    CHECK(references(d) == 1);
    CHECK(controller_of(from_value(d))->uid == "u2");
    CHECK(controller_of(from_value(d))->api_version == "samplecontroller.k8s.io/v1");
}

TEST_CASE("an owner reference set without control controls nothing, whatever reference it replaces") {
    json::value d = dependent();
    failure f;
    set_controller_reference(d, owner("a", "u1"), f);
    set_owner_reference(d, owner("a", "u2"), f); // created again
    REQUIRE_FALSE(f);
    CHECK(references(d) == 1);
    CHECK_FALSE(controller_of(from_value(d)));
    set_controller_reference(d, owner("b", "u3"), f);
    CHECK_FALSE(f);
    CHECK(controller_of(from_value(d))->name == "b");
}

TEST_CASE("of several references to one owner only one is left, in the place of the first") {
    json::value d = dependent();
    failure f;
    set_owner_reference(d, owner("a", "u1"), f);
    set_owner_reference(d, owner("b", "u2"), f);
    auto& all = d.at_pointer("/metadata/ownerReferences").as_array();
    const json::value twice = all[0];
    all.push_back(twice);
    all.back().at("uid") = "u3";
    set_controller_reference(d, owner("a", "u3"), f);
    REQUIRE_FALSE(f);
    REQUIRE(references(d) == 2);
    CHECK(all[0].at("uid") == "u3");
    CHECK(all[0].at("controller") == true);
    CHECK(all[1].at("uid") == "u2");
}

TEST_CASE("owners that the garbage collector would not find are refused") {
    failure f;
    json::value other = dependent("elsewhere");
    set_controller_reference(other, owner("a", "u1"), f);
    CHECK(f == errc::bad_configuration);
    json::value wide = dependent("");
    set_controller_reference(wide, owner("a", "u1"), f);
    CHECK(f == errc::bad_configuration);
    set_controller_reference(wide, owner("a", "u1", ""), f);
    CHECK_FALSE(f);
    json::value from_wide = dependent();
    set_controller_reference(from_wide, owner("a", "u1", ""), f);
    CHECK_FALSE(f);
    json::value nothing = dependent();
    set_controller_reference(nothing, owner("a", ""), f);
    CHECK(f == errc::bad_configuration);
}

TEST_CASE("a reference is removed by uid, and the list is removed with the last one") {
    json::value d = dependent();
    failure f;
    set_controller_reference(d, owner("a", "u1"), f);
    CHECK_FALSE(remove_owner_reference(d, owner("a", "u2")));
    CHECK(remove_owner_reference(d, owner("a", "u1")));
    CHECK_FALSE(d.at("metadata").as_object().contains("ownerReferences"));
    CHECK_FALSE(controller_of(from_value(d)));
    d.at("metadata").as_object()["ownerReferences"] = json::array(); // nothing is removed: nothing is changed
    CHECK_FALSE(remove_owner_reference(d, owner("a", "u1")));
    CHECK(d.at("metadata").as_object().contains("ownerReferences"));
}

TEST_CASE("no reference is removed for an owner without a uid") {
    json::value d = dependent();
    failure f;
    set_owner_reference(d, owner("a", "u1"), f);
    d.at_pointer("/metadata/ownerReferences/0").as_object().erase("uid"); // as an old writer may have left it
    const json::value before = d;
    CHECK_FALSE(remove_owner_reference(d, owner("b", "")));
    CHECK(d == before);
}
