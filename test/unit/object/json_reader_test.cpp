// The reader takes the texts that Boost.JSON's parser takes, and nothing else.
#include "support/json_mutator.hpp"

#include <informer/object/document_pool.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

using namespace informer;
namespace json = boost::json;

namespace {

constexpr std::size_t depth = 9;

/// Whether the parser takes the text as one object; `v` is that.
bool parser_takes(const std::string& text, json::value& v) {
    json::parse_options o;
    o.max_depth = depth;
    error_code ec;
    v = json::parse(text, ec, {}, o);
    return !ec && v.is_object();
}

/// Reads it with one pool for all, so that there is something alongside.
class both {
public:
    /// What is wrong with our answer, if anything.
    std::string check(const std::string& text) {
        json::value expected, ours;
        failure f;
        const object o = pool_->decode(text, object(), f);
        const bool taken = parser_takes(text, expected);
        ++(taken ? taken_ : refused_);
        if (taken != bool(o) || taken == bool(f)) return o ? "taken: " + text : "refused: " + text + ": " + f.message();
        if (!taken || (parser_takes(o.to_json(), ours) && ours == expected)) return {};
        return text + " became " + o.to_json();
    }
    unsigned taken() const { return taken_; }
    unsigned refused() const { return refused_; }

private:
    const std::shared_ptr<document_pool> pool_ =
        document_pool::make(decode_options().keep_managed_fields().max_depth(depth).text_difference(false));
    unsigned taken_ = 0, refused_ = 0;
};

} // namespace

TEST_CASE("reader: a text is taken exactly if the parser takes it, and for what it says", "[reader]") {
    testing::json_mutator m(11);
    both readers;
    for (int i = 0; i < 40'000; ++i) {
        const std::string wrong = readers.check(m.text());
        REQUIRE(wrong == "");
    }
    CHECK(readers.taken() > 5000);
    CHECK(readers.refused() > 10'000);
}

TEST_CASE("reader: values in every spelling and out of it, wherever the text ends", "[reader]") {
    const std::vector<std::string> values = {
        "0",      "-0",    "00",     "01",     "-",      "-01",     "1.",      ".1",      "1.5",     "-1.5e3",      "1e",         "1e+",     "1e-0",
        "1E5",    "1e5.0", "1.e1",   "+1",     "0x1",    "1a",      "0e",      "9e99999", "--1",     "1 2",         "true",       "tru",     "trues",
        "false",  "fals",  "null",   "nul",    "nulls",  "True",    "NaN",     "[]",      "[ ]",     "[,]",         "[1,]",       "[1 2]",   "[1,,2]",
        "[[]",    "[}",    "{}",     "{ }",    "{,}",    "{1:2}",   "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{\"a\" : 1}", "{\"a\":1 \"b\":2}", "{]", "\"\"",
        "\"a",    "\"\t\"", "\"\\\"", "\"\\x\"", "\"\\u12\"", "\"\\u0000\"", "\"\\ud800\"", "\"\\ud83d\\ude00\"", "\"\\/\\b\\f\\n\\r\\t\"",
        "\"\x7f\"", "\"\xc3\xa4\"", "\"\xc3\"", "\"\xed\xa0\x80\"", "\"\\\xc3\xa4\"", "\"a\\\nb\"", "", " ", ":", "}", "]", "/**/1"};
    both readers;
    for (const std::string& v : values) {
        for (const std::string pad : {"", "0123456789abcdef"}) { // short of what is looked at in one go, and not
            const std::vector<std::string> texts = {"{\"k\":" + v + "}",
                                                    "{\"k\":[" + v + "]}",
                                                    " {\"k\" : " + v + " , \"l\":\"" + pad + "\"} \n",
                                                    "{\"p\":\"" + pad + "\",\"k\":[1," + v + ",2],\"l\":{}}",
                                                    "{" + v + ":1}",
                                                    "{\"k\":1}" + v,
                                                    v};
            for (const std::string& text : texts) {
                for (std::size_t n = 0; n <= text.size(); ++n) {
                    const std::string wrong = readers.check(text.substr(0, n));
                    REQUIRE(wrong == "");
                }
            }
        }
    }
    CHECK(readers.taken() > 200);
}

TEST_CASE("reader: what is nested deeper than allowed is refused, and nothing else", "[reader]") {
    both readers;
    for (std::size_t n = 1; n < 2 * depth; ++n)
        for (const std::string open : {"[", "{\"a\":"}) {
            std::string text = "{\"a\":";
            for (std::size_t i = 1; i < n; ++i) text += open;
            text += "1";
            text.append(n - 1, open == "[" ? ']' : '}');
            CHECK(readers.check(text + "}") == "");
        }
    CHECK(readers.taken() == 2 * depth);
}
