// Subresources, apply, delete collection, time limits and the server's warnings.
#include "bench.hpp"

#include "kubernetes/warning.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <catch2/catch_test_macros.hpp>

#include <stdexcept>

using namespace kubernetes_test;
using namespace std::chrono_literals;
using informer::kubernetes::delete_options;
using informer::kubernetes::field_conflicts;
using informer::kubernetes::get_options;
using informer::kubernetes::patch_type;
using informer::kubernetes::server_warning;
using informer::kubernetes::write_options;
namespace json = boost::json;

namespace {

const object_key a("default", "a");

const http::server_request& last(const bench& b) {
    return b.answers->requests.back();
}

/// A client whose options `change` sets.
client with(bench& b, const std::function<void(client_config&)>& change) {
    client_config c = b.config;
    change(c);
    return client(b.rt, std::move(c));
}

} // namespace

TEST_CASE("client: no verb needs options") {
    bench b;
    const json::value o = json::parse(pod("a"));
    for (int i = 0; i < 4; ++i) b.answers->next.emplace_back(pod("a"));
    b.run(b.api->create(pods(), o));
    b.run(b.api->update(pods(), o));
    b.run(b.api->patch(pods(), a, patch_type::merge, json::object()));
    b.run(b.api->remove(pods(), a));
    b.answers->next.emplace_back(
        R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[]})");
    CHECK(b.run(b.api->list(pods())).items.empty());
    b.answers->next.emplace_back("ok");
    CHECK(b.run(b.api->raw("GET", "/readyz")) == "ok");
    const std::string one = "/api/v1/namespaces/default/pods/a";
    CHECK(b.answers->lines == lines{"POST /api/v1/namespaces/default/pods", "PUT " + one, "PATCH " + one,
                                    "DELETE " + one, "GET /api/v1/pods", "GET /readyz"});
}

// ---- subresources ---------------------------------------------------------------------------------------------------

TEST_CASE("client: a subresource answers with an object of its own kind") {
    bench b;
    b.answers->next.emplace_back(
        R"({"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"a","namespace":"default"},"spec":{"replicas":3}})");
    failure f;
    const object scale =
        b.run(b.api->get(deployments(), a, get_options().subresource("scale").resource_version("0"), f));
    REQUIRE_FALSE(f);
    CHECK(scale.kind() == "Scale");
    CHECK(scale.api_version() == "autoscaling/v1");
    CHECK(b.answers->lines == lines{"GET /apis/apps/v1/namespaces/default/deployments/a/scale?resourceVersion=0"});
}

TEST_CASE("client: an eviction is answered with a Status of success, which is no failure") {
    bench b;
    b.answers->next.emplace_back(201,
                                 R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201})");
    failure f;
    const json::value eviction = json::parse(
        R"({"kind":"Eviction","apiVersion":"policy/v1","metadata":{"name":"a","namespace":"default"},"deleteOptions":{"gracePeriodSeconds":0}})");
    const object done = b.run(b.api->create(pods(), eviction, write_options().subresource("eviction"), f));
    CHECK_FALSE(f);
    CHECK(done.kind() == "Status");
    CHECK(b.answers->lines == lines{"POST /api/v1/namespaces/default/pods/a/eviction"});
    CHECK(json::parse(last(b).body) == eviction);
    b.answers->next.emplace_back(
        429, status(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget."));
    b.run(b.api->create(pods(), eviction, write_options().subresource("eviction"), f));
    CHECK(f == errc::too_many_requests);
    CHECK(f.message() == "create pods/eviction default/a");
}

TEST_CASE("client: a token request is answered with its token") {
    bench b;
    b.answers->next.emplace_back(
        201,
        R"({"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","metadata":{"name":"a"},"status":{"token":"t"}})");
    failure f;
    const api_resource accounts("", "v1", "serviceaccounts", "ServiceAccount", true);
    const json::value request = json::parse(
        R"({"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","metadata":{"name":"a","namespace":"default"},"spec":{"audiences":["x"]}})");
    const object o = b.run(b.api->create(accounts, request, write_options().subresource("token"), f));
    CHECK_FALSE(f);
    CHECK(o["status"]["token"].as_string() == "t");
    CHECK(b.answers->lines == lines{"POST /api/v1/namespaces/default/serviceaccounts/a/token"});
}

TEST_CASE("client: a subresource that no path can hold is refused before anything is sent") {
    bench b;
    failure f;
    for (const char* name : {"..", "a/b", "a%2fb"}) {
        b.run(b.api->get(pods(), a, get_options().subresource(name), f));
        CHECK(f == errc::bad_request);
        b.run(b.api->patch(pods(), a, patch_type::merge, json::object(), write_options().subresource(name), f));
        CHECK(f == errc::bad_request);
    }
    CHECK(b.answers->lines.empty());
}

// ---- apply ----------------------------------------------------------------------------------------------------------

TEST_CASE("client: apply says what the object is, who applies, and whether by force") {
    bench b;
    failure f;
    b.answers->next.emplace_back(pod("a"));
    const json::value o = json::parse(R"({"metadata":{"name":"a","namespace":"default"},"spec":{"replicas":2}})");
    b.run(b.api->apply(deployments(), o,
                       write_options().field_manager("me").force().field_validation("Strict").dry_run(), f));
    CHECK_FALSE(f);
    CHECK(b.answers->lines == lines{"PATCH "
                                    "/apis/apps/v1/namespaces/default/deployments/"
                                    "a?dryRun=All&fieldManager=me&fieldValidation=Strict&force=true"});
    CHECK(last(b).header("Content-Type") == "application/apply-patch+yaml");
    const json::value sent = json::parse(last(b).body);
    CHECK(sent.at("apiVersion").as_string() == "apps/v1");
    CHECK(sent.at("kind").as_string() == "Deployment");
    CHECK(sent.at("spec") == o.at("spec"));

    b.answers->next.emplace_back(pod("a"));
    b.run(b.api->apply(deployments(), o, write_options().subresource("status"), f));
    CHECK(b.answers->lines.back() ==
          "PATCH /apis/apps/v1/namespaces/default/deployments/a/status?fieldManager=libinformer");
    b.run(b.api->apply(deployments(), json::parse(R"({"spec":{}})"), write_options(), f));
    CHECK(f == errc::bad_request);
    CHECK_THROWS_AS(b.run(b.api->apply(deployments(), json::value(nullptr), write_options())), error);
}

TEST_CASE("client: the body of an apply reads the same as JSON and as YAML") {
    bench b;
    failure f;
    // Characters that YAML refuses or takes for line breaks; then their neighbours, and text that only looks like them.
    const std::string special = "\x7f\u0080\u0085\u009f\u2028\u2029\ufffe\uffff",
                      plain = "~\u00a0\u00c2\u2027\u202a\ufffd\U0001f600\U0001ffff/\\u2028";
    json::value o = json::parse(pod("a"));
    o.as_object()["data"] = json::object{{"k" + special, special + " " + special + plain}, {"plain", plain}};
    const auto sent = [&](patch_type type) {
        b.answers->next.emplace_back(pod("a"));
        b.run(b.api->patch(pods(), a, type, o, write_options(), f));
        CHECK_FALSE(f);
        CHECK(json::parse(last(b).body) == o);
        return last(b).body;
    };
    const std::string escaped = R"(\u007f\u0080\u0085\u009f\u2028\u2029\ufffe\uffff)", body = sent(patch_type::apply);
    CHECK(body.find("\"k" + escaped + "\":\"" + escaped + " " + escaped + "~\u00a0\u00c2") != std::string::npos);
    CHECK(body.find("\"plain\":" + json::serialize(plain)) != std::string::npos);
    for (const char* raw : {"\x7f", "\u0080", "\u0085", "\u009f", "\u2028", "\u2029", "\ufffe", "\uffff", "\\/"})
        CHECK(body.find(raw) == std::string::npos);
    CHECK(sent(patch_type::merge) == json::serialize(o)); // read as JSON
}

TEST_CASE("client: the conflicts of an apply name fields and managers") {
    bench b;
    failure f;
    b.answers->next.emplace_back(
        409, R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Conflict","code":409,
        "message":"Apply failed with 2 conflicts: conflict with \"kubectl\" using apps/v1: .spec.replicas","details":{"causes":[
        {"reason":"FieldManagerConflict","message":"conflict with \"kubectl\" using apps/v1","field":".spec.replicas"},
        {"reason":"FieldManagerConflict","message":"conflict with \"odd \\\"one\\\"\" with subresource \"status\" using apps/v1 at 2026-11-21T09:00:00Z","field":".status.x"},
        {"reason":"FieldManagerConflict","message":"who knows","field":".y"},
        {"reason":"Other","message":"no \"conflict\"","field":".z"}]}})");
    b.run(b.api->apply(pods(), json::parse(pod("a")), write_options(), f));
    CHECK(f == errc::conflict);
    CHECK(f.what().find("conflict with \"kubectl\" using apps/v1: .spec.replicas") != std::string::npos);
    const auto found = field_conflicts(f);
    REQUIRE(found.size() == 3);
    CHECK(found[0].field == ".spec.replicas");
    CHECK(found[0].manager == "kubectl");
    CHECK(found[1].manager == "odd \"one\"");
    CHECK(found[2].manager.empty());
    CHECK(found[2].message == "who knows");
    CHECK(field_conflicts(failure()).empty());
    CHECK(field_conflicts(failure(errc::conflict, "x")).empty());
}

TEST_CASE("client: the conflicts of an apply are as many as its refusal holds") {
    bench b;
    failure f;
    for (const std::size_t n : {std::size_t(150), std::size_t(1500)}) {
        json::object refusal = json::parse(status(409, "Conflict", "Apply failed")).as_object();
        json::array causes;
        for (std::size_t i = 0; i < n; ++i)
            causes.push_back(json::object{{"reason", "FieldManagerConflict"},
                                          {"message", "conflict with \"kubectl-client-side-apply\" using v1"},
                                          {"field", ".data.key-" + std::to_string(i)}});
        refusal["details"] = json::object{{"causes", std::move(causes)}};
        b.answers->next.emplace_back(409, json::serialize(refusal));
        b.run(b.api->apply(pods(), json::parse(pod("a")), write_options(), f));
        const auto found = field_conflicts(f);
        REQUIRE(found.size() == n);
        CHECK(found.back().field == ".data.key-" + std::to_string(n - 1));
    }
    // Of 256 KiB of empty causes only 4,096 are kept: they must not take more memory than the text did.
    std::string empty = R"({"kind":"Status","code":409,"reason":"Conflict","details":{"causes":[{})";
    for (int i = 0; i < 80'000; ++i) empty += ",{}";
    b.answers->next.emplace_back(409, empty + "]}}");
    b.run(b.api->apply(pods(), json::parse(pod("a")), write_options(), f));
    CHECK(f == errc::conflict);
    CHECK(f.status()->causes.size() == 4096);
}

// ---- delete ---------------------------------------------------------------------------------------------------------

TEST_CASE("client: a delete may be a dry run") {
    bench b;
    failure f;
    b.answers->next.emplace_back(pod("a"));
    b.run(b.api->remove(pods(), a, delete_options().dry_run(), f));
    CHECK_FALSE(f);
    CHECK(json::parse(last(b).body) == json::parse(R"({"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]})"));
}

TEST_CASE("client: a collection is deleted by selectors, and the body of the answer is ignored") {
    bench b;
    failure f;
    const auto remove = [&](const std::string& name_space) {
        b.run(b.api->remove_collection(pods(), name_space,
                                       list_options().labels("app=web,x!=y").fields("spec.nodeName=n"),
                                       delete_options().propagation("Background"), f));
    };
    b.answers->next.emplace_back(pod_list({pod("a")}));
    remove("default");
    CHECK_FALSE(f);
    CHECK(b.answers->lines ==
          lines{"DELETE "
                "/api/v1/namespaces/default/pods?fieldSelector=spec.nodeName%3Dn&labelSelector=app%3Dweb%2Cx%21%3Dy"});
    CHECK(json::parse(last(b).body) ==
          json::parse(R"({"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"})"));
    // An answer too long to keep, and one that is cut: the collection was deleted all the same.
    b.answers->next.push_back(reply("").streamed({std::string(std::size_t(3) << 20, ' ')}));
    remove("default");
    CHECK_FALSE(f);
    b.answers->next.push_back(reply("").streamed({"{"}, reply::cut));
    remove("default");
    CHECK_FALSE(f);
    b.answers->next.emplace_back(403, status(403, "Forbidden", "not you"));
    remove("default");
    CHECK(f == errc::forbidden);
    CHECK(f.message() == "delete all pods in default");
    const auto sent = b.answers->lines.size();
    remove(""); // no server deletes in all namespaces
    CHECK(f == errc::bad_request);
    CHECK_THROWS_AS(b.run(b.api->remove_collection(pods(), "", list_options(), delete_options())), error);
    CHECK(b.answers->lines.size() == sent);
}

TEST_CASE("client: deleting a cluster-scoped collection in a namespace is refused") {
    bench b;
    failure f;
    // The path has no place for the namespace: all nodes would be deleted.
    b.run(b.api->remove_collection(nodes(), "it-42", list_options(), delete_options(), f));
    CHECK(f == errc::bad_request);
    CHECK(f.message() == "delete all nodes in it-42: nodes are in no namespace");
    CHECK_THROWS_AS(b.run(b.api->remove_collection(nodes(), "it-42", list_options(), delete_options())), error);
    CHECK(b.answers->lines.empty());
    b.answers->next.emplace_back(pod_list({}));
    b.run(b.api->remove_collection(nodes(), "", list_options(), delete_options(), f));
    CHECK_FALSE(f);
    CHECK(b.answers->lines == lines{"DELETE /api/v1/nodes"});
}

// ---- time limits ----------------------------------------------------------------------------------------------------

TEST_CASE("client: no wait begins that would end after the time limit") {
    bench b;
    failure f;
    for (int i = 0; i < 9; ++i) b.answers->next.push_back(reply(429, "slow down").header("Retry-After", "3"));
    b.run(b.api->get(pods(), a, get_options().time_limit(10s), f));
    CHECK(f == errc::too_many_requests);
    CHECK(f.status()->retry_after == 3s);
    CHECK(b.slept == std::vector<std::chrono::nanoseconds>{3s, 3s, 3s});
    b.slept.clear();
    auto impatient = with(b, [](client_config& c) { c.time_limit = 2s; });
    b.run(impatient.update(pods(), json::parse(pod("a")), write_options(), f));
    CHECK(f == errc::too_many_requests);
    CHECK(b.slept.empty());
    b.run(impatient.update(pods(), json::parse(pod("a")), write_options().time_limit(4s), f));
    CHECK(f == errc::too_many_requests);
    CHECK(b.slept == std::vector<std::chrono::nanoseconds>{3s});
}

TEST_CASE("client: a time limit of milliseconds::max() never passes") {
    bench b;
    failure f;
    auto patient = with(b, [](client_config& c) { c.time_limit = std::chrono::milliseconds::max(); });
    for (int i = 0; i < 2; ++i) b.answers->next.push_back(reply(429, "slow down").header("Retry-After", "3"));
    b.answers->next.emplace_back(pod("a"));
    b.run(patient.get(pods(), a, get_options(), f));
    CHECK_FALSE(f);
    CHECK(b.slept == std::vector<std::chrono::nanoseconds>{3s, 3s});
}

TEST_CASE("client: an attempt that is under way when the time limit passes ends with an error that says so") {
    bench b;
    failure f;
    b.answers->next.push_back(reply("").streamed({"{"}, reply::stall));
    b.run(b.api->get(pods(), a, get_options().time_limit(50ms), f));
    CHECK(f == errc::deadline_exceeded);
    CHECK(f.message() == "get pods default/a: the time limit passed");
    CHECK(b.answers->lines.size() == 1);
}

// ---- warnings -------------------------------------------------------------------------------------------------------

TEST_CASE("client: a warning handler gets every warning, and what was requested") {
    bench b;
    failure f;
    std::vector<server_warning> told;
    auto c = with(
        b, [&](client_config& config) { config.on_warning = [&](const server_warning& w) { told.push_back(w); }; });
    for (int i = 0; i < 2; ++i) {
        b.answers->next.push_back(reply(pod("a")).header(
            "Warning", R"(299 - "unknown field \"spec.x\"", 199 me "odd" "Sat, 21 Nov 2026 09:00:00 GMT")"));
        b.run(c.update(pods(), json::parse(pod("a")), write_options(), f));
    }
    CHECK_FALSE(f);
    REQUIRE(told.size() == 4);
    CHECK(told[0].code == 299);
    CHECK(told[0].agent == "-");
    CHECK(told[0].text == "unknown field \"spec.x\"");
    CHECK(told[0].doing == "update pods default/a");
    CHECK(told[1].code == 199);
    CHECK(told[1].agent == "me");
    CHECK(told[1].text == "odd");
    CHECK(b.log.count(log_level::warning) == 0);
}

TEST_CASE("client: warnings of a refusal are delivered, too; a handler that throws does no harm") {
    bench b;
    failure f;
    int told = 0;
    auto c = with(b, [&](client_config& config) {
        config.on_warning = [&](const server_warning&) {
            ++told;
            throw std::runtime_error("no");
        };
    });
    b.answers->next.push_back(
        reply(404, status(404, "NotFound", "none")).header("Warning", R"(299 - "v1beta1 is deprecated")"));
    b.run(c.get(pods(), a, f));
    CHECK(f == errc::not_found);
    CHECK(told == 1);
    CHECK(b.log.count("the handler of the server's warnings threw: no") == 1);
}

TEST_CASE("client: the number of warnings that are logged is limited") {
    bench b;
    failure f;
    for (int i = 0; i < 1200; ++i) {
        b.answers->next.push_back(reply(pod("a")).header("Warning", "299 - \"number " + std::to_string(i) + "\""));
        b.run(b.api->get(pods(), a, f));
    }
    CHECK(b.log.count("the server warns: number 999") == 1);
    CHECK(b.log.count("the server warns: number 1000") == 0);
    CHECK(b.log.count(log_level::warning) == 1001);
    CHECK(b.log.count("no more of the server's warnings are logged") == 1);
}

TEST_CASE("warnings: the first invalid warning ends the line, and those before it are kept") {
    const auto texts = [](std::string_view line) {
        std::vector<std::string> out;
        for (const auto& w : informer::kubernetes::detail::parse_warnings(line)) out.push_back(w.text);
        return out;
    };
    using list = std::vector<std::string>;
    CHECK(texts(R"(299 - "a")") == list{"a"});
    CHECK(texts(R"(299 - "a","b")") == list{"a"});
    CHECK(texts(R"(299 - "a, 299 - b",299 - "c")") == list{"a, 299 - b", "c"});
    CHECK(texts(R"(299 - "a" "date",  299 - "b")") == list{"a", "b"});
    CHECK(texts(R"(299 - "a" "no end)") == list{"a"});
    CHECK(texts(R"(299 - "no end)").empty());
    CHECK(texts(R"(299 - "no end\)").empty());
    CHECK(texts(R"(299 - "")").empty());
    CHECK(texts("299 -").empty());
    CHECK(texts("299").empty());
    CHECK(texts("29 - \"a\"").empty());
    CHECK(texts("2990 - \"a\"").empty());
    CHECK(texts("-29 - \"a\"").empty());
    CHECK(texts("").empty());
    CHECK(texts(", ,").empty());
    CHECK(texts("299 - \"line\nbreak\"") == list{"line break"});
}
