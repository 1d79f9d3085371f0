// Lists, cut into their items.
#include "framer_scene.hpp"

#include <boost/json/parse.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace informer;
using namespace informer::testing;

namespace {

listing list_of(std::string_view s, std::size_t limit = default_max_object) {
    return cut_everywhere(s, [limit](const std::vector<std::string_view>& p) { return cut(p, limit); });
}

constexpr std::string_view recorded_list =
    "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"4711\",\"continue\":\"abc\","
    "\"remainingItemCount\":3},\"items\":[\n"
    "{\"metadata\":{\"name\":\"a\",\"namespace\":\"ns\",\"annotations\":{\"k\":\"{\\\"x\\\":[1,2,{}],\\\\\"}},\"spec\":"
    "{}},\n"
    "{\"metadata\":{\"name\":\"b\\u007d\"},\"spec\":{\"x\":[[],[{}],\"]}\"]}} , {} ]}\n";

} // namespace

TEST_CASE("list framer cuts a recorded list the same at every byte", "[framer]") {
    const auto l = list_of(recorded_list);
    CHECK_FALSE(l.failed);
    CHECK(l.done);
    REQUIRE(l.items.size() == 3);
    CHECK(l.items[0] ==
          "{\"metadata\":{\"name\":\"a\",\"namespace\":\"ns\",\"annotations\":{\"k\":\"{\\\"x\\\":[1,2,{}],\\\\\"}},"
          "\"spec\":{}}");
    CHECK(l.items[1] == "{\"metadata\":{\"name\":\"b\\u007d\"},\"spec\":{\"x\":[[],[{}],\"]}\"]}}");
    CHECK(l.items[2] == "{}");
    const auto envelope = boost::json::parse(l.envelope).as_object();
    CHECK(envelope.size() == 3);
    CHECK(envelope.at("metadata").at("continue") == "abc");
}

TEST_CASE("a list that ends early is not done", "[framer]") {
    const std::string_view text = recorded_list.substr(0, recorded_list.size() - 1);
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto l = cut({text.substr(0, i)});
        CHECK_FALSE(l.failed);
        CHECK_FALSE(l.done);
    }
    CHECK(cut({text}).done);
}

TEST_CASE("items may stand before, between or without metadata", "[framer]") {
    const auto before = list_of(R"({"items":[{"a":1}],"metadata":{"resourceVersion":"5"}})");
    CHECK(before.items == std::vector<std::string>{R"({"a":1})"});
    CHECK(before.envelope == R"({"metadata":{"resourceVersion":"5"}})");
    const auto between = list_of(R"({"kind":"L","items":[1,2],"metadata":{}})");
    CHECK(between.items.size() == 2);
    CHECK(between.envelope == R"({"kind":"L","metadata":{}})");
    const auto alone = list_of(R"({"items":[]})");
    CHECK(alone.done);
    CHECK(alone.items.empty());
    CHECK(alone.envelope == "{}");
    CHECK(list_of(R"({"\u0069tems":[7]})").items == std::vector<std::string>{"7"});
}

TEST_CASE("items that are null or missing give an empty list", "[framer]") {
    const auto null = list_of(R"({"metadata":{},"items":null})");
    CHECK(null.done);
    CHECK(null.envelope == R"({"metadata":{}})");
    const auto status = list_of(R"({"kind":"Status","status":"Failure","code":410,"reason":"Expired"} )");
    CHECK(status.done);
    CHECK(status.items.empty());
    CHECK(boost::json::parse(status.envelope).at("code") == 410);
    // Something else under that name belongs to the object itself.
    CHECK(list_of(R"({"items":{"a":[1]}})").envelope == R"({"items":{"a":[1]}})");
    CHECK(list_of(R"({"items":"null"})").envelope == R"({"items":"null"})");
    CHECK(list_of("{}").done);
    CHECK(list_of(" { } ").envelope == "{}");
}

TEST_CASE("items that are no objects are handed out too", "[framer]") {
    const auto l = list_of("{\"items\":[ 1 , -2.5e3,\"x]\\\"\",null,true,[1,[2]],{}\n]}");
    CHECK_FALSE(l.failed);
    CHECK(l.items == std::vector<std::string>{"1", "-2.5e3", "\"x]\\\"\"", "null", "true", "[1,[2]]", "{}"});
}

TEST_CASE("nesting is counted, not followed", "[framer]") {
    constexpr std::size_t depth = 1'000'000;
    const std::string deep = std::string(depth, '[') + std::string(depth, ']');
    const auto l = cut({"{\"items\":[", deep, ",1]}"});
    CHECK(l.done);
    REQUIRE(l.items.size() == 2);
    CHECK(l.items[0] == deep);
}

TEST_CASE("a mismatched bracket spoils its item alone", "[framer]") {
    const auto l = list_of(R"({"items":[{"a":[1}},{"b":2}]})");
    REQUIRE(l.items.size() == 2);
    CHECK(l.items[1] == R"({"b":2})");
}

TEST_CASE("text that cannot be framed is a syntax error with its offset", "[framer]") {
    struct row {
        const char* text;
        const char* where;
    };
    const std::vector<row> rows{
        {"<html>", "byte 0: expected '{'"},
        {"[]", "byte 0: expected '{'"},
        {"\"x\"", "byte 0: expected '{'"},
        {"{x:1}", "byte 1: expected a key or '}'"},
        {"{\"a\" 1}", "byte 5: expected ':'"},
        {"{\"a\":}", "byte 5: expected a value"},
        {"{\"a\":1 2}", "byte 7: expected ',' or '}'"},
        {"{\"a\":1,}", "byte 7: expected a key"},
        {"{\"a\":1]", "byte 6: expected ',' or '}'"},
        {"{\"a\":t{}}", "byte 6: expected the end of a value"},
        {"{\"items\":[1,]}", "byte 12: expected a value"},
        {"{\"items\":[,1]}", "byte 10: expected a value"},
        {"{\"items\":[1 2]}", "byte 12: expected ',' or ']'"},
        {"{\"items\":[1}", "byte 11: expected ',' or ']'"},
        {"{\"items\":[1:2]}", "byte 11: expected the end of an item"},
        {"{\"items\":[]]", "byte 11: expected ',' or '}'"},
        {"{} x", "byte 3: expected nothing more"},
        {"{}{}", "byte 2: expected nothing more"},
    };
    for (const auto& r : rows) {
        CAPTURE(r.text);
        const auto l = list_of(r.text);
        CHECK(l.failed == errc::syntax_error);
        CHECK(l.failed.what() == "list, " + std::string(r.where) + ": JSON syntax error");
        CHECK_FALSE(l.done);
    }
}

TEST_CASE("a failed framer stays failed", "[framer]") {
    list_framer framer;
    failure f;
    framer.feed("nonsense");
    CHECK_FALSE(framer.next(f));
    framer.feed("{}");
    failure again;
    CHECK_FALSE(framer.next(again));
    CHECK(again == errc::syntax_error);
}

TEST_CASE("an item over the limit is skipped with its beginning kept", "[framer]") {
    const std::string big = R"({"metadata":{"name":"big","namespace":"ns"},"x":")" + std::string(300, 'y') + "\"}";
    const auto l = list_of(R"({"items":[{"a":1},)" + big + R"(,{"b":2}],"metadata":{}})", 100);
    CHECK_FALSE(l.failed);
    REQUIRE(l.items.size() == 3);
    CHECK(l.oversized == std::vector<bool>{false, true, false});
    CHECK(l.items[1] == big);
    CHECK(peek_key(l.items[1]) == object_key("ns", "big"));
    CHECK(l.items[2] == R"({"b":2})");
    CHECK(l.done);
}

TEST_CASE("of a giant only 64 KiB are kept", "[framer]") {
    list_framer framer(1 << 20);
    failure f;
    framer.feed(R"({"items":[{"metadata":{"name":"giant"}},{"metadata":{"name":"giant","namespace":"ns"},"x":")");
    CHECK(framer.next(f));
    const std::string chunk(1 << 16, 'z');
    for (int i = 0; i < 1024; ++i) { // 64 MiB
        framer.feed(chunk);
        CHECK_FALSE(framer.next(f));
    }
    framer.feed("\"},3]}");
    REQUIRE(framer.next(f));
    CHECK(framer.oversized());
    CHECK(framer.item().size() == 65536);
    CHECK(peek_key(framer.item()) == object_key("ns", "giant"));
    REQUIRE(framer.next(f));
    CHECK(framer.item() == "3");
    CHECK_FALSE(framer.oversized());
    CHECK_FALSE(framer.next(f));
    CHECK(framer.done());
}

TEST_CASE("of an item over the limit no more is kept than its beginning, however long it is", "[framer]") {
    list_framer framer(1 << 20);
    failure f;
    CHECK(growth_by_space(framer, R"({"items":[{"metadata":{"name":"giant"},"x":)", f) < (std::size_t(64) << 20));
    framer.feed("1},2]}");
    REQUIRE(framer.next(f));
    CHECK(framer.oversized());
    CHECK(framer.item().size() == 65536);
}

TEST_CASE("an item as large as the limit is whole, and one byte more is over it, also where items are guessed",
          "[framer]") {
    const std::string head = R"({"metadata":{"name":"a"},"x":")", end = "\"}";
    const auto item = [&](std::size_t size) { return head + std::string(size - head.size() - end.size(), 'x') + end; };
    const auto l = list_of(
        R"({"items":[)" + item(80) + "," + item(100) + "," + item(101) + "," + item(300) + "," + item(90) + "]}", 100);
    CHECK(l.done);
    CHECK(l.oversized == std::vector<bool>{false, false, true, true, false});
}

TEST_CASE("only the member items has items: other arrays, and other nulls, belong to the envelope", "[framer]") {
    const auto l = list_of(R"({"columns":[{"name":"a"},{"name":"b"}],"items":[1],"rows":[2]})");
    CHECK(l.items == std::vector<std::string>{"1"});
    CHECK(l.envelope == R"({"columns":[{"name":"a"},{"name":"b"}],"rows":[2]})");
    const auto has_items = [](std::string_view text) {
        list_framer framer;
        failure f;
        framer.feed(text);
        while (framer.next(f)) {
        }
        CHECK(framer.done());
        return framer.has_items();
    };
    CHECK(has_items(R"({"items":[]})"));
    CHECK(has_items(R"({"items":null})"));
    CHECK_FALSE(has_items(R"({"metadata":{"remainingItemCount":null},"kind":null,"x":null})"));
    CHECK_FALSE(has_items(R"({"rows":[1]})"));
    CHECK_FALSE(has_items(R"({"items":{}})"));
}

TEST_CASE("an envelope over the limit is an error", "[framer]") {
    const auto one = list_of(R"({"metadata":{"continue":")" + std::string(200, 'c') + "\"}}", 100);
    CHECK(one.failed == errc::too_large);
    std::string many = "{";
    for (int i = 0; i < 50; ++i) many += "\"k" + std::to_string(i) + "\":0,";
    CHECK(cut({many}, 100).failed == errc::too_large);
    CHECK(cut(bytes_of("{\"" + std::string(200, 'k')), 100).failed == errc::too_large);
    // It is parsed in one step, so it never is as large as an object may be.
    const std::string before = R"({"kind":"List","metadata":{"continue":")";
    CHECK_FALSE(cut({before + std::string(250'000, 'c') + R"("},"items":[1]})"}, 1'000'000).failed);
    CHECK(cut({before + std::string(270'000, 'c') + R"("},"items":[1]})"}, 1'000'000).failed == errc::too_large);
    // The same holds however the envelope is cut, and whatever else is wrong with it.
    for (const std::string member :
         {R"("items":[1])", R"("items"    :[1])", R"("items":   [1])", R"("items"   x)", "\"a\":12345:"})
        for (std::size_t limit = 1; limit < 16; ++limit) {
            CAPTURE(member, limit);
            list_of("{" + member + "}", limit);
        }
}

TEST_CASE("list framer moves", "[framer]") {
    list_framer a;
    a.feed(R"({"items":[1,2)");
    failure f;
    REQUIRE(a.next(f));
    list_framer b = std::move(a);
    b.feed("]}");
    REQUIRE(b.next(f));
    CHECK(b.item() == "2");
    list_framer c;
    c = std::move(b);
    CHECK_FALSE(c.next(f));
    CHECK(c.done());
}

// ---- items whose end is guessed ----

TEST_CASE("space between the tokens of a list is not kept past the limit", "[framer]") {
    for (const std::string head :
         {"{", R"({"kind":"PodList",)", R"({"items":[)", R"({"items":[{"a":1})", R"({"items":[{"a":1}])"}) {
        CAPTURE(head);
        list_framer framer(1 << 20);
        failure f;
        const bool has_item = head.find('1') != std::string::npos;
        if (has_item) {
            framer.feed(head);
            REQUIRE(framer.next(f));
        }
        CHECK(growth_by_space(framer, has_item ? "" : head, f) < (std::size_t(64) << 20));
        CHECK_FALSE(f);
    }
    for (const char* head : {R"({"kind")", R"({"kind":)"}) {
        CAPTURE(head);
        list_framer framer(1 << 20);
        failure f;
        CHECK(growth_by_space(framer, head, f) < (std::size_t(64) << 20));
        CHECK(f == errc::too_large);
    }
}

TEST_CASE("an item is cut where one like it begins, and is the same item when it is looked at again", "[framer]") {
    const std::string item = R"({"metadata":{"name":"a"},"x":["}\"{",{},{"metadata":1}]})";
    const std::string text = R"({"items":[)" + item + "," + item + "," + item + "]}";
    list_framer framer;
    framer.guess();
    failure f;
    framer.lend(text);
    REQUIRE(framer.next(f));
    CHECK_FALSE(framer.unproven()); // nothing is known of the list yet
    REQUIRE(framer.next(f));
    CHECK(framer.unproven());
    CHECK(framer.item().data() == text.data() + 10 + item.size() + 1); // not copied
    CHECK(framer.position() == 1);
    // In its middle begins an object that looks like another item, and there it was cut.
    CHECK(framer.item().size() < item.size());
    framer.look_again();
    REQUIRE(framer.next(f));
    CHECK_FALSE(framer.unproven());
    CHECK(framer.item() == item);
    CHECK(framer.position() == 1);
    REQUIRE(framer.next(f));
    CHECK(framer.item() == item);
    CHECK_FALSE(framer.next(f));
    CHECK(framer.done());
}

TEST_CASE("all but the first and last item of a list are guessed, and soon again after a wrong guess", "[framer]") {
    for (const std::string head :
         {R"({"metadata":{"name":")", R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")"})
        for (const bool whole : {true, false}) {
            CAPTURE(head, whole);
            std::vector<std::string> items;
            for (int i = 0; i < 50; ++i) {
                const std::string inner = i == 10 ? "," + head + "no\"}}" : "";
                items.push_back(head + std::to_string(i) + R"("},"x":[{"b":[]})" + inner + R"(],"y":[1,"}"]})");
            }
            std::string text = R"({"items":[)" + items[0];
            for (std::size_t i = 1; i < items.size(); ++i) text += "," + items[i];
            text += "]}";
            list_framer framer;
            framer.guess();
            failure f;
            std::vector<std::string> got;
            std::size_t guessed = 0;
            for (std::string_view rest = text; !rest.empty();) {
                const std::string_view piece = rest.substr(0, whole ? text.size() : 1000);
                rest.remove_prefix(piece.size());
                framer.lend(piece);
                while (framer.next(f)) {
                    if (framer.unproven() && !is_json(framer.item())) {
                        framer.look_again();
                        continue;
                    }
                    guessed += framer.unproven() ? 1U : 0U;
                    got.emplace_back(framer.item());
                }
            }
            CHECK(framer.done());
            CHECK(got == items);
            CHECK(guessed >= (whole ? 47U : 40U)); // not the first, the last, and the one that misled
        }
}

TEST_CASE("an item too long to be guessed is handed out when it is whole, though the next one is not", "[framer]") {
    const std::string small = R"({"metadata":{"name":"a"}})";
    const std::string large = R"({"metadata":{"name":"b"},"x":")" + std::string(400'000, 'x') + "\"}";
    list_framer framer;
    framer.guess();
    failure f;
    const std::string text = R"({"items":[)" + small + "," + large + "," + small.substr(0, 10);
    framer.lend(text);
    REQUIRE(framer.next(f));
    REQUIRE(framer.next(f));
    CHECK(framer.item() == large);
    CHECK_FALSE(framer.unproven());
}

TEST_CASE("a list framer does not guess unless it is told to", "[framer]") {
    list_framer framer;
    failure f;
    framer.feed(R"({"items":[{"a":1},{"a":2},{"a":3},{"a":4}]})");
    for (int i = 0; i < 4; ++i) {
        REQUIRE(framer.next(f));
        CHECK_FALSE(framer.unproven());
    }
}

TEST_CASE("misleading lists are cut like others", "[framer]") {
    const std::vector<std::string_view> lists{
        R"({"items":[{"a":1,"b":[{"a":1},{"a":2}]},{"a":1,"b":[{"a":1},{"a":2}]},{"a":3}]})",
        R"({"items":[{"a":"},{"},{"a":"},{\"a\":"},{"a":"x},{"},{"a":"},{"a":""}]})",
        R"({"items":[{"a":1},{"a":2},{"b":3},{"b":4},{"a":5},{"b":6},{"a":7}]})",
        R"({"items":[{"a":1},{"a":2} , {"a":3},{"a":4},5,{"a":6},[{"a":1},{"a":2}],{"a":7}],"x":[{"a":1},{"a":2}]})",
        R"({"items":[{"a":1},{"a":2]},{"a":3},{"a":[4},{"a":5},{"a":6}]})",
        R"({"items":[{"k":"v","a":1},{"k":"v","a":2},{"k":"w","a":3},{"k":"w","a":4},{"k":"w","a":5}]})",
        R"({"items":[{"a":{}},{"a":{}},{"a":{}}],"items":[{"a":{}},{"a":{}},{"b":{}}],"y":{"a":{}}})",
        R"({"items":[{"a":1},{"a":2},{"a":3},]})",
        R"({"items":[{"a":1},{"a":2},{"a":3}}})",
    };
    for (const auto list : lists) {
        CAPTURE(list);
        const auto l = list_of(list);
        CHECK(l.items.size() >= 2);
        list_of(list, 20);
    }
}

TEST_CASE("wrong guesses cost a quarter of a list at most", "[framer]") {
    const std::string item = R"({"metadata":{"name":"a"},"x":[{"a":1},{"metadata":1}]})";
    std::string text = R"({"items":[)" + item;
    for (int i = 0; i < 10'000; ++i) text += "," + item;
    text += "]}";
    list_framer framer;
    framer.guess();
    listing l;
    framer.feed(text);
    const std::size_t wrong = drain(framer, l);
    CHECK(l.items.size() == 10'001);
    CHECK(wrong > 0);
    CHECK(wrong < text.size() / 4 + 100);
}

// ---- lent pieces ----

TEST_CASE("a lent item that is complete is cut in place", "[framer]") {
    const std::string text = R"({"items":[{"a":1},{"b":2},{"c)";
    list_framer framer;
    failure f;
    framer.lend(text);
    REQUIRE(framer.next(f));
    CHECK(framer.item().data() == text.data() + 10);
    REQUIRE(framer.next(f));
    CHECK(framer.item().data() == text.data() + 18);
    CHECK_FALSE(framer.next(f));
    const std::string rest = R"(":3},{"d":4}]})";
    framer.lend(rest);
    REQUIRE(framer.next(f));
    CHECK(framer.item() == R"({"c":3})");
    REQUIRE(framer.next(f));
    CHECK(framer.item().data() == rest.data() + 5); // and so is an item behind one that came in two pieces
    CHECK_FALSE(framer.next(f));
    CHECK(framer.done());
}

TEST_CASE("lists and watches lent in pieces of any size come out as if they were fed whole", "[framer]") {
    std::mt19937 random(11);
    for (int round = 0; round < 60; ++round) {
        std::string list = R"({"kind":"List","items":[)", watch;
        const std::size_t largest = round % 3 == 0 ? 300 : round % 3 == 1 ? 30'000 : 400'000;
        for (int i = 0; i < 25; ++i) {
            std::string o = R"({"metadata":{"name":"o)" + std::to_string(i) + R"("},"x":")";
            for (std::size_t n = random() % largest; n > 0; --n) o += static_cast<char>('#' + random() % 56);
            o += R"(","y":[{},"}\"{"]})";
            list += (i ? "," : "") + o;
            watch += R"({"type":"MODIFIED","object":)" + o + (random() % 8 ? "}\n" : random() % 2 ? "}" : "} \r\n");
        }
        list += "],\"metadata\":{}}\n";
        const auto pieces = [&](std::string_view s) {
            std::vector<std::string_view> all;
            const std::size_t most = random() % 4 == 0 ? 700'000 : random() % 2 ? 40'000 : 3'000;
            while (!s.empty()) {
                all.push_back(s.substr(0, 1 + random() % most));
                s.remove_prefix(all.back().size());
            }
            return all;
        };
        const listing l = cut({list}, default_max_object, way::feeding);
        REQUIRE(l.items.size() == 25);
        const bool list_is_same = cut(pieces(list), default_max_object, way::lending) == l;
        CHECK(list_is_same);
        const bool guessed_is_same = cut(pieces(list), default_max_object, way::guessing) == l;
        CHECK(guessed_is_same);
        const stream w = cut_stream({watch}, default_max_object, false);
        REQUIRE(w.events.size() == 25);
        const bool watch_is_same = cut_stream(pieces(watch), default_max_object, true) == w;
        CHECK(watch_is_same);
    }
}
