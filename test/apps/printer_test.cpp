// How informerctl prints values: ages, YAML, tables.
#include "informerctl/printer.hpp"

#include <informer/object/document_pool.hpp>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <catch2/catch_test_macros.hpp>
#include <yaml-cpp/yaml.h>

#include <chrono>

using namespace informerctl;
using namespace std::chrono_literals;

TEST_CASE("ages are printed as kubectl prints them") {
    CHECK(age(-1min) == "<invalid>");
    CHECK(age(-500ms) == "0s");
    CHECK(age(0s) == "0s");
    CHECK(age(119s) == "119s");
    CHECK(age(2min) == "2m");
    CHECK(age(2min + 5s) == "2m5s");
    CHECK(age(9min + 59s) == "9m59s");
    CHECK(age(10min + 5s) == "10m");
    CHECK(age(2h + 59min) == "179m");
    CHECK(age(3h) == "3h");
    CHECK(age(7h + 59min) == "7h59m");
    CHECK(age(8h + 59min) == "8h");
    CHECK(age(47h) == "47h");
    CHECK(age(48h) == "2d");
    CHECK(age(76h) == "3d4h");
    CHECK(age(24h * 8 - 1h) == "7d23h");
    CHECK(age(24h * 8 + 5h) == "8d");
    CHECK(age(24h * 729) == "729d");
    CHECK(age(24h * 730) == "2y");
    CHECK(age(24h * 740) == "2y10d");
    CHECK(age(24h * 365 * 8) == "8y");
    CHECK(age(24h * 365 * 8 + 24h * 100) == "8y");
}

TEST_CASE("an object is as old as its creation time says, even centuries") {
    const std::chrono::sys_days now = std::chrono::year(2024) / 1 / 1;
    const auto made = [&](const std::string& at) {
        return age(informer::parse_object(R"({"metadata":{"creationTimestamp":")" + at + "\"}}"), now);
    };
    CHECK(made("2023-12-31T23:59:55Z") == "5s");
    CHECK(made("2024-01-01T00:01:00Z") == "<invalid>");
    CHECK(made("1700-01-01T00:00:00Z") == "324y");
    CHECK(made("rubbish") == "<unknown>");
}

TEST_CASE("strings that YAML would read as numbers are quoted, others are not") {
    const auto printed = [](const std::string& s) {
        const auto o = informer::parse_object(R"({"a":")" + s + "\"}");
        return yaml(o.value());
    };
    for (const std::string number :
         {"1", "-1", "+1", ".5", "-.5", "+.5", "-.5e3", "1e3", "0x1f", "12:30", "2026-01-01"}) {
        CHECK(printed(number) == "a: \"" + number + "\"\n");
    }
    for (const std::string word : {"-x", ".x", "-.x", "v1", "a.5"}) CHECK(printed(word) == "a: " + word + "\n");
}

TEST_CASE("strings that would separate YAML documents are quoted") {
    const auto printed = [](const std::string& s) {
        const auto o = informer::parse_object("{\"" + s + "\":\"" + s + "\"}");
        return yaml(o.value());
    };
    for (const std::string mark : {"---", "--- a", "---a", "...", "... a"})
        CHECK(printed(mark) == '"' + mark + "\": \"" + mark + "\"\n");
    for (const std::string word : {"--", "--a", "..", "..a", "a---"}) CHECK(printed(word) == word + ": " + word + "\n");
}

TEST_CASE("characters that YAML cannot hold, or yaml-cpp cannot write, are escaped without a change of value") {
    const auto check = [](const std::string& s, const std::string& escaped) {
        const auto o = informer::parse_object(boost::json::serialize(boost::json::object{{s, s}, {"list", {s, 1}}}));
        CHECK(yaml(o.value()) == escaped + ": " + escaped + "\nlist:\n  - " + escaped + "\n  - 1\n");
        const auto back = YAML::Load(yaml(o.value()));
        CHECK(back[s].as<std::string>() == s);
    };
    check("x\ufffey", R"("x\uFFFEy")");
    check("\uffff", R"("\uFFFF")");
    check("\ufdd0\ufdef", R"("\uFDD0\uFDEF")");
    check("a: \U0001fffe", R"("a: \U0001FFFE")");
    check("\ufeff", R"("\uFEFF")");
    check("\x7f\u0080\u009f\u00a0", "\"\\u007F\\u0080\\u009F\u00a0\"");
    check("\u0085\u2028\u2029\u2027", "\"\\u0085\\u2028\\u2029\u2027\"");
    check("\"\\\n\t\r\x01 ä€😀\u2028", R"("\"\\\n\t\r\u0001 ä€😀\u2028")");
    const std::string longer(2000, 'x'); // longer than a plain key may be
    const auto o = informer::parse_object("{\"" + longer + "\uffff\":1}");
    CHECK(yaml(o.value()) == "? \"" + longer + "\\uFFFF\"\n: 1\n");
}

TEST_CASE("columns are aligned however many bytes their letters take") {
    table t({"NAME", "STATUS"});
    t.row({"ä€x", "one"});
    t.row({"plain", "two"});
    std::string all;
    const auto take = [&](std::string_view line) {
        all += line;
        return true;
    };
    t.print(take);
    CHECK(all == "NAME    STATUS\nä€x     one\nplain   two\n");
}
