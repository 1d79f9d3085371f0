// informerctl types: structs from what a server says of its kinds.
#include "gadget_types.hpp"
#include "plain_server.hpp"
#include "programs.hpp"

#include "informerctl/described_types.hpp"
#include "informerctl/identifiers.hpp"

#include <informer/object/document_pool.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <catch2/catch_test_macros.hpp>

#include <fstream>
#include <iterator>
#include <string>

using namespace programs;
using informerctl::make_types;
using informerctl::member_identifier;
using informerctl::type_identifier;

namespace {

// What test/apps/gadget_types.hpp is made of.
constexpr const char* gadgets = R"({"openapi":"3.0.0","components":{"schemas":{
"com.example.v1.Gadget":{"description":"A Gadget turns. So do others.","type":"object","required":["spec"],"properties":{
  "apiVersion":{"type":"string"},"kind":{"type":"string"},
  "metadata":{"default":{},"allOf":[{"$ref":"#/components/schemas/io.k8s.meta.v1.ObjectMeta"}]},
  "spec":{"description":"What is\nwanted: one of the largest sentences that has ever been read by a test, so that it needs two lines and not one only.","type":"object","required":["size","weight","on","parts","free"],"properties":{
    "size":{"description":"How large.\\\n","type":"integer","format":"int32"},
    "limit":{"type":"integer","format":"int64"},
    "weight":{"type":"number","format":"double"},
    "on":{"type":"boolean"},
    "since":{"type":"string","format":"date-time"},
    "podIP":{"type":"string"},"clusterIPs":{"type":"array","items":{"type":"string"}},
    "namespace":{"type":"string"},"foo_bar":{"type":"string"},"x-y":{"type":"string"},"$ref2":{"type":"string"},
    "maxUnavailable":{"allOf":[{"$ref":"#/components/schemas/io.k8s.util.intstr.IntOrString"}]},
    "target":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]},
    "limits":{"type":"object","additionalProperties":{"allOf":[{"$ref":"#/components/schemas/io.k8s.api.resource.Quantity"}]}},
    "labels":{"$ref":"#/components/schemas/com.example.v1.Labels"},
    "free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
    "either":{"oneOf":[{"type":"string"},{"type":"boolean"}]},
    "lost":{"$ref":"#/components/schemas/no.such.Thing"},
    "part":{"default":{},"allOf":[{"$ref":"#/components/schemas/com.example.v1.Part"}]},
    "parts":{"type":"array","items":{"allOf":[{"$ref":"#/components/schemas/com.example.v1.Part"}]}},
    "template":{"type":"object","additionalProperties":{"type":"object","properties":{"names":{"type":"array","items":{"type":"object","properties":{"first":{"type":"string"}}}}}}}}}},
 "x-kubernetes-group-version-kind":[{"group":"example.com","kind":"Gadget","version":"v1"}]},
"com.example.v1.Labels":{"type":"object","additionalProperties":{"type":"string"}},
"com.example.v1.Part":{"type":"object","required":["name","within"],"properties":{
  "name":{"type":"string"},"part":{"type":"string"},
  "within":{"allOf":[{"$ref":"#/components/schemas/com.example.v1.Part"}]},
  "below":{"type":"array","items":{"$ref":"#/components/schemas/com.example.v1.Part"}}}},
"io.k8s.meta.v1.ObjectMeta":{"type":"object","properties":{"name":{"type":"string"}}},
"io.k8s.util.intstr.IntOrString":{"format":"int-or-string","oneOf":[{"type":"integer"},{"type":"string"}]},
"io.k8s.api.resource.Quantity":{"oneOf":[{"type":"string"},{"type":"number"}]}
}}})";

informerctl::wanted_types wanted(std::string kind = "Gadget") {
    informerctl::wanted_types w;
    w.group = "example.com";
    w.version = "v1";
    w.kind = std::move(kind);
    w.name_space = "example_v1";
    w.by = "informerctl types gadgets.example.com";
    return w;
}

std::string document(const std::string& properties, const std::string& more = {}) {
    return R"({"components":{"schemas":{"Gadget":{"type":"object","properties":{)" + properties +
           R"(},"x-kubernetes-group-version-kind":[{"group":"example.com","kind":"Gadget","version":"v1"}]})" + more +
           "}}}";
}

std::size_t count(const std::string& in, const std::string& what) {
    std::size_t n = 0;
    for (auto at = in.find(what); at != std::string::npos; at = in.find(what, at + 1)) ++n;
    return n;
}

} // namespace

TEST_CASE("types: the header of a kind is as expected") {
    std::ifstream file(INFORMER_TEST_DIR "/apps/gadget_types.hpp");
    const std::string expected{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    CHECK(make_types(boost::json::parse(gadgets), wanted()) == expected);
}

TEST_CASE("types: an object that is read as the struct and written is the same") {
    const auto o =
        informer::parse_object(R"({"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"g"},"spec":{
        "size":3,"limit":9007199254740993,"weight":0.5,"on":true,"since":"2026-11-30T12:00:00Z","podIP":"10.0.0.1",
        "clusterIPs":["a","b"],"namespace":"n","foo_bar":"f","maxUnavailable":"25%","target":80,"limits":{"cpu":"500m"},
        "labels":{"a":"b"},"free":{"any":[1]},"either":true,"lost":1,"part":{"name":"p","part":"q","within":null},
        "parts":[{"name":"p","within":{"name":"r"},"below":[{"name":"s"}]}],
        "template":{"t":{"names":[{"first":"x"}]}}}})");
    const auto g = informer::as<example_v1::gadget>(o);
    CHECK(g.spec.pod_IP == "10.0.0.1");
    CHECK(std::get<std::string>(*g.spec.max_unavailable) == "25%");
    CHECK(std::get<std::int64_t>(*g.spec.target) == 80);
    CHECK(informer::to_value(g) == informer::to_value(o.value()));
}

TEST_CASE("types: a struct that is made anew is of its kind, and only what is required is in it") {
    example_v1::gadget g;
    g.metadata.name = "g";
    CHECK(boost::json::serialize(informer::to_value(g)) ==
          R"({"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"g"},"spec":{"size":0,"weight":0E0,)"
          R"("on":false,"free":null,"part":{"name":"","within":null},"parts":[]}})");
}

TEST_CASE("types: a member's name is read back as that of the document") {
    CHECK(member_identifier("name") == "name");
    CHECK(member_identifier("nodeName") == "node_name");
    CHECK(member_identifier("podIP") == "pod_IP");
    CHECK(member_identifier("clusterIPs") == "cluster_IPs");
    CHECK(member_identifier("podIPAddress") == "pod_IPAddress");
    CHECK(member_identifier("APIVersion") == "APIVersion");
    CHECK(member_identifier("planB") == "plan_b");
    CHECK(member_identifier("ipv6Address2") == "ipv6_address2");
    CHECK(member_identifier("foo_bar") == "foo__bar");
    CHECK(member_identifier("foo_Bar_") == "foo__Bar__");
    CHECK(member_identifier("_id") == "_id");
    CHECK(member_identifier("template") == "template_");
    CHECK(member_identifier("xor_eq") == "xor__eq");
    for (const char* none : {"", "a-b", "$ref", "1st", "a b",
                             "gr\xc3\xb6\xc3\x9f"
                             "e",
                             "a.b"})
        CHECK(member_identifier(none) == "");
}

TEST_CASE("types: a struct's name is what others would call it") {
    CHECK(type_identifier("PodSpec") == "pod_spec");
    CHECK(type_identifier("CSIVolumeSource") == "csi_volume_source");
    CHECK(type_identifier("HTTPGetAction") == "http_get_action");
    CHECK(type_identifier("JSON") == "json");
    CHECK(type_identifier("spec_nodeName") == "spec_node_name");
    CHECK(type_identifier("a-b.c") == "a_b_c");
    CHECK(type_identifier("Union") == "union_");
    CHECK(type_identifier("3D") == "type_3_d");
    CHECK(type_identifier("") == "type_");
}

TEST_CASE("types: more members than can be described at once are inherited") {
    std::string many;
    for (int i = 100; i < 205; ++i)
        many += (many.empty() ? "\"m" : ",\"m") + std::to_string(i) + R"(":{"type":"string"})";
    const std::string made = make_types(boost::json::parse(document(many)), wanted());
    CHECK(count(made, "struct ") == 3);
    CHECK(made.find("struct gadget_base2 : gadget_base {") != std::string::npos);
    CHECK(made.find("struct gadget : gadget_base2 {\n    std::optional<std::string> m204;\n};") != std::string::npos);
    CHECK(count(made, "optional<std::string> m") == 105);
}

TEST_CASE("types: nothing that a server says becomes code") {
    const std::string evil = R"("a":{"type":"string","description":"one\nint x;\r\nint y; \\"},)"
                             R"("b;int z":{"type":"string"},"c\n}; int w":{"type":"string"},)"
                             R"("d":{"$ref":"#/components/schemas/int v;}"})";
    const std::string made = make_types(
        boost::json::parse(document(evil, R"(,"int v;}":{"type":"object","properties":{"e":{"type":"string"}}})")),
        wanted());
    for (std::size_t at = 0; at < made.size();) {
        const std::size_t end = made.find('\n', at);
        const std::string line = made.substr(at, end - at);
        at = end + 1;
        INFO(line);
        if (line.find("int ") != std::string::npos) CHECK(line.find("//") < line.find("int "));
        CHECK_FALSE(line.ends_with('\\'));
    }
    CHECK(made.find("::example_v1::int_v") != std::string::npos);

    auto w = wanted("Gadget\nint x;");
    CHECK_THROWS_AS(make_types(boost::json::parse(gadgets), w), informer::error);
}

TEST_CASE("types: however deep or often types refer to each other, the header stays small") {
    // Each is made of twice the next one: 2^60 structs, were each one made for itself.
    std::string chain;
    for (int i = 0; i < 60; ++i) {
        const std::string next = R"({"$ref":"#/components/schemas/T)" + std::to_string(i + 1) + "\"}";
        chain += ",\"T" + std::to_string(i) + R"(":{"type":"array","items":{"type":"object","properties":{"a":)" +
                 next + ",\"b\":" + next + "}}}";
    }
    chain += R"(,"T60":{"type":"string"})";
    const std::string made =
        make_types(boost::json::parse(document(R"("t":{"$ref":"#/components/schemas/T0"})", chain)), wanted());
    CHECK(count(made, "struct ") == 61);

    std::string deep = R"({"type":"string"})";
    for (int i = 0; i < 400; ++i) deep = R"({"type":"array","items":)" + deep + "}";
    boost::json::parse_options options;
    options.max_depth = 1000;
    const std::string cut = make_types(boost::json::parse(document("\"t\":" + deep), {}, options), wanted());
    CHECK(cut.find("std::vector<boost::json::value>") != std::string::npos);

    const std::string itself = R"(,"L":{"type":"array","items":{"$ref":"#/components/schemas/L"}})";
    const std::string list =
        make_types(boost::json::parse(document(R"("l":{"$ref":"#/components/schemas/L"})", itself)), wanted());
    CHECK(list.find("std::optional<std::vector<boost::json::value>> l;") != std::string::npos);
}

TEST_CASE("types: a server that does not describe the kind is an error that says so") {
    try {
        make_types(boost::json::parse(gadgets), wanted("Other"));
        FAIL("made");
    } catch (const informer::error& e) {
        CHECK(e.failure() == informer::errc::unknown_resource);
        CHECK(std::string(e.what()).find("types of Other: the server describes none in example.com/v1") == 0);
    }
    for (const char* none : {"{}", "[]", R"({"components":{"schemas":[]}})"}) {
        try {
            make_types(boost::json::parse(none), wanted());
            FAIL("made");
        } catch (const informer::error& e) {
            CHECK(e.failure() == informer::errc::bad_response);
        }
    }
}

TEST_CASE("informerctl types asks the server where the description is, and prints the header") {
    plain_server::script says;
    says.documents["/openapi/v3"] =
        R"({"paths":{"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1?hash=12"},"apis/x/v1":{}}})";
    says.documents["/openapi/v3/api/v1?hash=12"] =
        R"({"components":{"schemas":{"io.k8s.api.core.v1.ConfigMap":{"type":"object","properties":{"data":)"
        R"({"type":"object","additionalProperties":{"type":"string"}}},)"
        R"("x-kubernetes-group-version-kind":[{"group":"","kind":"ConfigMap","version":"v1"}]}}}})";
    const plain_server s(says);
    const auto r = run({"types", "cm", "--server", s.url});
    CHECK(r.err == "");
    CHECK(r.code == 0);
    CHECK(r.out.find("// Made by `informerctl types configmaps`.\n") != std::string::npos);
    CHECK(r.out.find("\nnamespace core_v1 {\n") != std::string::npos);
    CHECK(r.out.find("\nstruct config_map {\n    std::optional<std::map<std::string, std::string>> data;\n};\n") !=
          std::string::npos);
    CHECK(r.out.ends_with("\n} // namespace core_v1\n"));

    const auto named = run({"types", "cm", "--server", s.url, "--cpp-namespace", "kube::v1"});
    CHECK(named.code == 0);
    CHECK(named.out.find("\nnamespace kube::v1 {\n") != std::string::npos);
}

TEST_CASE("informerctl types: what is wrong is said in a line") {
    const auto line_of = [](std::vector<std::string> arguments, int code) {
        const auto r = run(std::move(arguments));
        CHECK(r.code == code);
        CHECK(r.out == "");
        return r.err;
    };
    plain_server::script says;
    says.documents["/openapi/v3"] = R"({"paths":{}})";
    const plain_server none(says);
    CHECK(line_of({"types", "cm", "--server", none.url}, 1)
              .find("types of configmaps: the server describes nothing of v1") != std::string::npos);
    says.documents["/openapi/v3"] = "<html>";
    const plain_server other(says);
    CHECK(line_of({"types", "cm", "--server", other.url}, 1).find("GET /openapi/v3: no JSON") != std::string::npos);
    for (const std::string bad : {"a-b", "a::", "class", "1"})
        CHECK(line_of({"types", "cm", "--cpp-namespace", bad}, 2).find("--cpp-namespace " + bad + ": expected") !=
              std::string::npos);
    CHECK(line_of({"types", "cm/x"}, 2).find("no name") != std::string::npos);
}
