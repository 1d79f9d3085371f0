// metadata.managedFields is passed over: only there, wherever it stands, whatever it holds.
#include "support/pool.hpp"

#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <string_view>
#include <vector>

#include <sys/mman.h>

using namespace informer;

namespace {

std::string stored(std::string_view json) {
    return parse_object(json).to_json();
}

failure refusal(std::string_view json) {
    failure f;
    const object o = parse_object(json, f);
    CHECK(bool(o) != bool(f));
    return f;
}

const std::vector<std::string> hostile = {
    "[]",
    "{}",
    "[[[[[[[[]]]]]]]]",
    R"([{"f:x":{"k:{\"name\":\"a\"}":{}}}])",
    R"(["]", "}", "{", "[", "\"", "\\", "\\\"", "\\\\", "]\"]", "\\\"}"])",
    R"({"managedFields":[{"metadata":{"managedFields":[]}}],"\\":"\\\\\"}]"})",
    "[\n\t {\r\n \"a\" : [ 1 , -2.5e3, true ,null ] } ]",
    "[\"" + std::string(200, '\\') + "\",\"" + std::string(63, 'x') + "\\\"]\"]",
    "[\"" + std::string(61, 'x') + "\\\\\"," + std::string(130, ' ') + "{}]",
};

} // namespace

TEST_CASE("managedFields is passed over wherever it stands in the metadata and whatever it holds", "[pool]") {
    unsigned wrong = 0;
    for (const std::string& value : hostile) {
        for (unsigned shift = 0; shift < 70; ++shift) { // against every place in a block of the scanner
            const std::string pad = "\"p\":\"" + std::string(shift, '#') + "\"", member = "\"managedFields\":" + value;
            const std::string spaced = "\"managedFields\" \t:\n " + value + "  ";
            const std::string rest = ",\"spec\":{\"a\":[1,2]}}";
            const std::string expected = "{\"metadata\":{" + pad + ",\"q\":{}}" + rest;
            for (const std::string& m : {member, spaced}) {
                wrong += stored("{\"metadata\":{" + m + "," + pad + ",\"q\":{}}" + rest) != expected;
                wrong += stored("{\"metadata\":{" + pad + "," + m + ",\"q\":{}}" + rest) != expected;
                wrong += stored("{\"metadata\":{" + pad + ",\"q\":{}," + m + "}" + rest) != expected;
            }
            // Twice, and at the end of the document.
            wrong += stored("{\"metadata\":{" + member + "," + pad + "," + member + ",\"q\":{}}" + rest) != expected;
            wrong += stored("{\"spec\":1,\"metadata\":{" + pad + "," + member + "}}") !=
                     "{\"spec\":1,\"metadata\":{" + pad + "}}";
            const std::string all = "{\"metadata\":{" + pad + ",\"managedFields\":[7]}" + rest;
            wrong += parse_object(all, decode_options().keep_managed_fields()).to_json() != all;
        }
    }
    CHECK(wrong == 0);
}

TEST_CASE("a member or text that is only called managedFields stays", "[pool]") {
    const char* const same[] = {
        R"({"managedFields":[{"a":1}],"metadata":{"name":"x"}})",
        R"({"spec":{"managedFields":[1]},"metadata":{"labels":{"managedFields":"yes"},"name":"managedFields"}})",
        R"({"metadata":{"a":"managedFields"},"list":["managedFields","managedFields","managedFields"],"managedFields":{}})",
        R"({"metadata":{"a":"\"managedFields\":[","b":"\\","c":"x,\"managedFields\""},"metadata2":{"managedFields":[1]}})",
        R"({"metadata":[{"managedFields":[1]}],"a":{"metadata":{"managedFields":[2]}}})",
    };
    for (const char* json : same) CHECK(stored(json) == json);
    // Many of them before the real one.
    std::string before =
        R"({"a":["managedFields","managedFields","managedFields","managedFields","managedFields"],"metadata":{"n":1)";
    CHECK(stored(before + R"(,"managedFields":[{"x":"]"}]},"z":1})") == before + R"(},"z":1})");
    // A key may be written with escapes.
    CHECK(stored(R"({"metadata":{"managed\u0046ields":[1],"a":1}})") == R"({"metadata":{"a":1}})");
    CHECK(stored(R"({"meta\u0064ata":{"managedFields":[1],"a":1}})") == R"({"metadata":{"a":1}})");
    // One that is no list is skipped as well.
    for (const char* v : {"1", "-1.5e3", "\"s\"", "\"]\"", "null", "true", "false"})
        CHECK(stored("{\"metadata\":{\"managedFields\":" + std::string(v) + ",\"a\":1}}") == R"({"metadata":{"a":1}})");
}

TEST_CASE("a text that is cut short or malformed around managedFields is refused", "[pool]") {
    for (const std::string& value : hostile) {
        const std::string json = "{\"metadata\":{\"name\":\"x\",\"managedFields\":" + value + ",\"a\":1},\"b\":2}";
        REQUIRE(stored(json) == R"({"metadata":{"name":"x","a":1},"b":2})");
        unsigned accepted = 0;
        for (std::size_t n = 0; n < json.size(); ++n) accepted += refusal(json.substr(0, n)) ? 0 : 1;
        CHECK(accepted == 0);
    }
    const char* const bad[] = {
        R"({"metadata":{"managedFields":[}})",          R"({"metadata":{"managedFields":[}]}})",
        R"({"metadata":{"managedFields":[{]}}})",       R"({"metadata":{"managedFields":[]]}})",
        R"({"metadata":{"managedFields":[]})",          R"({"metadata":{"managedFields":[]"a":1}})",
        R"({"metadata":{"managedFields":["]}})",        R"({"metadata":{"managedFields":["\"]}})",
        R"({"metadata":{"managedFields"[]}})",          R"({"metadata":{"managedFields",[]}})",
        R"({"metadata":{"managedFields":,"a":1}})",     R"({"metadata":{"managedFields":[]:[]}})",
        R"({"metadata":{"managedFields":[],}})",        R"({"metadata":{,"managedFields":[]}})",
        R"({"metadata":{"a":1 "managedFields":[]}})",   R"({"metadata":{"a,"managedFields":[]}})",
        R"({"metadata":{","managedFields":[],"b":1}})", R"({"metadata":{"a":","managedFields":[]}})",
        R"({"metadata":{"a":"managedFields":[]}})",     R"({"metadata":{"a":["managedFields":[]]}})",
        R"({"metadata":{"managedFields":[]}}x)",
    };
    for (const char* json : bad) {
        INFO(json);
        CHECK(refusal(json) == errc::syntax_error);
    }
    // The place of an error behind it counts from the beginning of the text.
    const std::string wrong = R"({"metadata":{"managedFields":[{"a":[1,2,3]}]},"b":x})";
    CHECK(refusal(wrong).message().find("byte " + std::to_string(wrong.find('x'))) != std::string::npos);
    CHECK(refusal("{\"metadata\":{\"managedFields\":[1]},\"b\":\"\xff\"}") == errc::bad_utf8);
}

namespace {

/// A text with unreadable memory behind it.
class text_at_an_end {
public:
    explicit text_at_an_end(std::string_view text)
        : size_(text.size()), map_(::mmap(nullptr, 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        REQUIRE(text.size() <= page);
        REQUIRE(map_ != MAP_FAILED);
        REQUIRE(::mprotect(map_, page, PROT_READ | PROT_WRITE) == 0);
        text.copy(begin(), size_);
    }
    text_at_an_end(const text_at_an_end&) = delete;
    text_at_an_end& operator=(const text_at_an_end&) = delete;
    ~text_at_an_end() { ::munmap(map_, 2 * page); }
    std::string_view view() const { return {begin(), size_}; }

private:
    static constexpr std::size_t page = 64 * 1024; // no processor has larger ones
    char* begin() const { return static_cast<char*>(map_) + page - size_; }
    std::size_t size_;
    void* map_;
};

} // namespace

TEST_CASE("managedFields are passed over in slices that end anywhere, and never beyond the end of the text", "[pool]") {
    const std::string json = R"({"metadata":{"managedFields" : [{"a":["]"]},{"b":{}}],"n":1},"x":[1]})";
    const auto pool = document_pool::make();
    unsigned wrong = 0;
    for (std::size_t n = 1; n <= json.size(); ++n) {
        const text_at_an_end part(std::string_view(json).substr(0, n));
        failure at_once;
        wrong += static_cast<bool>(pool->decode(part.view(), object(), at_once)) != (n == json.size());
        for (std::size_t bytes = 1; bytes < n; ++bytes) {
            failure sliced;
            const object o = informer::testing::in_slices(*pool, part.view(), object(), sliced, bytes);
            wrong += informer::testing::said(at_once) != informer::testing::said(sliced);
            wrong += o && o.to_json() != R"({"metadata":{"n":1},"x":[1]})";
        }
    }
    CHECK(wrong == 0);
}
