// Watches, cut into their events.
#include "framer_scene.hpp"
#include "object/framing.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

using namespace informer;
using namespace informer::testing;

namespace {

stream stream_of(std::string_view text, std::size_t limit = default_max_object) {
    return cut_everywhere(text, [limit](const std::vector<std::string_view>& p) { return cut_stream(p, limit); });
}

constexpr std::string_view recorded_watch =
    "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"},\"x\":\"}{\\\"\\\\\"}}\n"
    "{\"object\":{\"metadata\":{\"name\":\"b\"}},\"type\":\"MODIFIED\"}\r\n"
    "{ \"extra\" : [1,{\"type\":\"no\",\"object\":3}] , \"type\" : \"DELETED\" , \"object\" : { } }"
    "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}\n";

} // namespace

TEST_CASE("watch framer cuts a recorded watch the same at every byte", "[framer]") {
    const auto s = stream_of(recorded_watch);
    CHECK_FALSE(s.failed);
    CHECK(s.idle);
    REQUIRE(s.events.size() == 4);
    CHECK(s.events[0] == event{"ADDED", R"({"metadata":{"name":"a"},"x":"}{\"\\"})", false});
    CHECK(s.events[1] == event{"MODIFIED", R"({"metadata":{"name":"b"}})", false});
    CHECK(s.events[2] == event{"DELETED", "{ }", false});
    CHECK(s.events[3].type == "BOOKMARK");
}

TEST_CASE("the end of a watch inside an event is distinguished from one between events", "[framer]") {
    const std::string_view one = R"({"type":"ADDED","object":{}})";
    CHECK(cut_stream({}).idle);
    CHECK(cut_stream({"\n  "}).idle);
    for (std::size_t i = 1; i < one.size(); ++i) CHECK_FALSE(cut_stream({one.substr(0, i)}).idle);
    CHECK(cut_stream({one}).idle);
}

TEST_CASE("odd events come out as what they are", "[framer]") {
    const auto s = stream_of(R"({} {"type":null,"object":5} {"type":"A\u0044DED"} {"object":"x","object":{"a":1},)"
                             R"("type":"ERROR","type":"ADDED"} {"type":"\ud800","object":null})");
    CHECK_FALSE(s.failed);
    REQUIRE(s.events.size() == 5);
    CHECK(s.events[0] == event{"", "", false});
    CHECK(s.events[1] == event{"", "5", false});
    CHECK(s.events[2] == event{"ADDED", "", false});
    CHECK(s.events[3] == event{"ADDED", R"({"a":1})", false});
    CHECK(s.events[4] == event{"", "null", false});
}

TEST_CASE("a watch that cannot be framed is a syntax error with its offset", "[framer]") {
    struct row {
        const char* text;
        const char* where;
        std::size_t events;
    };
    const std::vector<row> rows{
        {"{}[", "byte 2: expected '{'", 1},
        {"garbage", "byte 0: expected '{'", 0},
        {"{\"type\":\"ADDED\" \"object\":{}}", "byte 16: expected ',' or '}'", 0},
        {"{\"type\":\"ADDED\",\"object\":{}}\n{]", "byte 30: expected a key or '}'", 1},
        {"{\"type\":,}", "byte 8: expected a value", 0},
        {"{\"type\" \"ADDED\"}", "byte 8: expected ':'", 0},
        {"{\"type\":\"ADDED\",\"object\":{},}", "byte 28: expected a key", 0},
    };
    for (const auto& r : rows) {
        CAPTURE(r.text);
        const auto s = stream_of(r.text);
        CHECK(s.failed == errc::syntax_error);
        CHECK(s.failed.what() == "watch, " + std::string(r.where) + ": JSON syntax error");
        CHECK(s.events.size() == r.events);
        CHECK_FALSE(s.idle);
    }
}

TEST_CASE("a malformed event does not swallow those behind it", "[framer]") {
    struct row {
        std::string event;
        std::string where;
        bool told_by_next = true; ///< the next event shows the fault, else its own line feed
    };
    const std::string good = R"({"type":"ADDED","object":{"metadata":{"name":"a"}}})"
                             "\n";
    const auto at = [&](std::size_t n) { return "byte " + std::to_string(good.size() + n) + ": expected "; };
    std::vector<row> rows;
    const auto quote = [&](const std::string& event) {
        rows.push_back({event, at(event.find('\n')) + "the end of a string", false});
    };
    const auto bracket = [&](const std::string& event) {
        rows.push_back({event, at(event.size()) + "the end of the event before"});
    };
    quote(R"({"type":"ADDED","object":{"metadata":{"name":"b},"x":1}})"
          "\n");
    quote(R"({"type":"ADDED","object":{"metadata":{"name":"b"},"x":"\"}})"
          "\n");
    quote(R"({"type":"ADDED","object":{"metadata":{"name":"b\)"
          "\n");
    quote(R"({"type":"ADDED","object":{"metadata":{"name")"
          "\"\n");
    quote(R"({"type":"DELETED,"object":{"metadata":{"name":"b"}}})"
          "\n");
    rows.back().where = at(18) + "',' or '}'";
    quote(R"({"type":"DELETED)"
          "\n");
    quote(R"({"ty)"
          "\n");
    quote("{\"type\":\"ADDED\",\"object\":{\"a\":\"\n\"}}\n");
    bracket(R"({"type":"ADDED","object":{"metadata":{"name":"b"}})"
            "\n");
    rows.back().where = at(rows.back().event.size()) + "',' or '}'";
    bracket(R"({"type":"ADDED","object":{"metadata":{"name":"b"})"
            "\n");
    bracket(R"({"type":"ADDED","object":{"metadata":{"name":"b")"
            "\r\n \n");
    bracket(R"({"type":"ADDED","object":{"metadata":{"name":"b"},"x":[1,2}}})"
            "\n");
    rows.back().where.clear(); // brackets are counted, not matched: an object for the parser
    bracket(R"({"type":"ADDED","object":{"metadata":{"name":"b"},"x":[[[1,2]}})"
            "\n");
    bracket(R"({"type":"ADDED","object":{"x":1)"
            "\n");
    bracket(R"({"type":"ADDED","object":{)"
            "\n");
    bracket(R"({"type":"ADDED","object":{"x":[{)"
            "\n");
    const std::string next = R"({"type":"DELETED","object":{"metadata":{"name":"a"}}})"
                             "\n";
    for (const std::string cut :
         {R"({"type":"ADDED","object":{"x":1,)", R"({"type":"ADDED","object":{"x":)", R"({"type":"ADDED","object":[)"})
        rows.push_back({cut + "\n", at(cut.size() + 1 + next.size()) + "the end of the event before"}); // may continue
    // Two in a row: the first one is reported.
    const std::string first = R"({"type":"ADDED","object":{"x":1)"
                              "\n";
    bracket(first + R"({"type":"ADDED","object":{"x":"1}})"
                    "\n");
    rows.back().where = at(first.size()) + "the end of the event before";
    for (const auto& r : rows) {
        CAPTURE(r.event);
        for (const std::size_t limit : {default_max_object, std::size_t(60)}) {
            const auto s = stream_of(good + r.event + next + next, limit);
            if (r.where.empty()) {
                CHECK_FALSE(s.failed);
                CHECK(s.events.size() == 4);
                continue;
            }
            CHECK(s.failed == errc::syntax_error);
            CHECK(s.failed.what() == "watch, " + r.where + ": JSON syntax error");
            CHECK(s.events.size() == 1);
            if (!r.told_by_next) CHECK(stream_of(good + r.event, limit).failed.what() == s.failed.what());
        }
    }
}

TEST_CASE("an event in many lines is one event", "[framer]") {
    const std::string object = "{\n\t\"a\" :\r\n {\n} ,\n\n \"b\": [\n {}\n,\n{ \"c, \" : \"[\"\n} ]\n\n}";
    const std::string text = "{\n\"type\"\n:\n\"ADDED\"\n,\n\"object\":\n" + object + "\n}\n";
    const auto s = stream_of(text + "\n" + text);
    CHECK_FALSE(s.failed);
    CHECK(s.idle);
    REQUIRE(s.events.size() == 2);
    CHECK(s.events[1] == event{"ADDED", object, false});
}

TEST_CASE("an event over the limit is skipped, with its type and the beginning of its object", "[framer]") {
    const std::string big = R"({"metadata":{"name":"big","namespace":"ns"},"x":")" + std::string(300, 'y') + "\"}";
    const std::string small = R"({"type":"ADDED","object":{"a":1}})";
    const auto check = [&](const std::string& text) {
        const auto s = stream_of(text + small, 100);
        CHECK_FALSE(s.failed);
        REQUIRE(s.events.size() == 2);
        CHECK(s.events[0] == event{"MODIFIED", big, true});
        CHECK(s.events[1] == event{"ADDED", R"({"a":1})", false});
        CHECK(s.idle);
    };
    check(R"({"type":"MODIFIED","object":)" + big + "}");
    check(R"({"object":)" + big + R"(,"type":"MODIFIED"})");
    const std::string filler = "\"" + std::string(150, 'f') + "\"";
    check(R"({"filler":)" + filler + R"(,"object":)" + big + R"(,"type":"MODIFIED"})");
    check(R"({)" + filler + R"(:0,"type":"MODIFIED","object":)" + big + "}");
}

TEST_CASE("of a giant event only 64 KiB are kept", "[framer]") {
    watch_framer framer(1 << 20);
    failure f;
    framer.feed(R"({"object":{"metadata":{"name":"giant","namespace":"ns"},"x":")");
    const std::string chunk(1 << 16, 'z');
    for (int i = 0; i < 512; ++i) {
        framer.feed(chunk);
        CHECK_FALSE(framer.next(f));
    }
    framer.feed("\"},\"type\":\"ADDED\"}{}");
    REQUIRE(framer.next(f));
    CHECK(framer.oversized());
    CHECK(framer.type() == "ADDED");
    CHECK(framer.object().size() == 65536);
    CHECK(peek_key(framer.object()) == object_key("ns", "giant"));
    REQUIRE(framer.next(f));
    CHECK(framer.idle());
}

TEST_CASE("space between the tokens of an event is not kept past the limit", "[framer]") {
    const std::string object = R"({"metadata":{"name":"a"}})";
    for (const std::string& head : {std::string("{"), std::string("{\"type\""), std::string("{\"type\":"),
                                    "{\"object\":" + object, "{\"object\":" + object + ","}) {
        CAPTURE(head);
        watch_framer framer(1 << 20);
        failure f;
        CHECK(growth_by_space(framer, head, f) < (std::size_t(64) << 20));
        CHECK_FALSE(f);
        framer.feed(head.ends_with("type\"") ? ":\"ADDED\"}"
                    : head.ends_with(":")    ? "\"ADDED\"}"
                    : head.ends_with("}")    ? ",\"type\":\"ADDED\"}"
                                             : "\"type\":\"ADDED\"}");
        REQUIRE(framer.next(f));
        CHECK(framer.oversized());
        CHECK(framer.type() == "ADDED");
        CHECK(framer.object() == (head.find("object") != std::string::npos ? object : ""));
    }
}

TEST_CASE("past the limit a giant key ends the stream", "[framer]") {
    watch_framer framer(1000);
    failure f;
    framer.feed("{\"" + std::string(100'000, 'k'));
    CHECK_FALSE(framer.next(f));
    CHECK(f == errc::too_large);
}

// ---- lines ----

TEST_CASE("a whole line is cut without a look into it, and is the same event when it is looked at again", "[framer]") {
    const std::string line = "{\"type\":\"MODIFIED\",\"object\":{\"a\":\"}\\\"{\"}}\n";
    const std::string both = line + line;
    watch_framer framer;
    failure f;
    framer.lend(both);
    REQUIRE(framer.next(f));
    CHECK(framer.unproven());
    CHECK(framer.object().data() == both.data() + 28); // not copied
    const std::string object(framer.object());
    framer.look_again();
    REQUIRE(framer.next(f));
    CHECK_FALSE(framer.unproven());
    CHECK(framer.type() == "MODIFIED");
    CHECK(framer.object() == object);
    CHECK(framer.position() == 0);
    REQUIRE(framer.next(f));
    CHECK(framer.unproven());
    CHECK(framer.position() == 1);
    CHECK_FALSE(framer.next(f));
    CHECK(framer.idle());
}

TEST_CASE("a line that is not one event is cut by its braces", "[framer]") {
    const auto twice = stream_of("{\"type\":\"ADDED\",\"object\":{\"a\":1},\"object\":{\"b\":2}}\n");
    REQUIRE(twice.events.size() == 1);
    CHECK(twice.events[0].object == R"({"b":2})");
    const auto more = stream_of("{\"type\":\"ADDED\",\"object\":{},\"x\":{}}\n");
    REQUIRE(more.events.size() == 1);
    CHECK(more.events[0].object == "{}");
    const auto two = stream_of(R"({"type":"ADDED","object":{}}{"type":"DELETED","object":{}})"
                               "\n");
    REQUIRE(two.events.size() == 2);
    CHECK(two.events[1] == event{"DELETED", "{}", false});
    const auto broken = stream_of("{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"ADDED\",\"object\":{\n}}\n}}\n");
    CHECK(broken.events.size() == 2);
    CHECK(broken.failed == errc::syntax_error); // at the same byte in all ways
}

TEST_CASE("a line over the limit is oversized", "[framer]") {
    const std::string line = "{\"type\":\"ADDED\",\"object\":{\"a\":\"" + std::string(100, 'x') + "\"}}\n";
    const auto s = cut_stream({line}, line.size() - 2);
    REQUIRE(s.events.size() == 1);
    CHECK(s.events[0].oversized);
    CHECK_FALSE(cut_stream({line}, line.size() - 1).events.at(0).oversized);
}

TEST_CASE("a line that is not all there waits for its end, but never when it may be whole", "[framer]") {
    const std::string line = "{\"type\":\"ADDED\",\"object\":{\"a\":{\"b\":1}}}\n";
    const std::string_view unfinished = std::string_view(line).substr(0, 35), rest = std::string_view(line).substr(35);
    const std::string_view without_end = std::string_view(line).substr(0, line.size() - 1);
    watch_framer framer;
    failure f;
    const auto hand = [&](std::string_view bytes) {
        framer.lend(bytes);
        return framer.next(f);
    };
    REQUIRE(hand(line));
    CHECK_FALSE(framer.next(f));
    CHECK_FALSE(hand(unfinished));
    CHECK_FALSE(framer.idle());
    REQUIRE(hand(rest));
    CHECK(framer.unproven()); // cut as a line all the same
    CHECK(framer.object() == R"({"a":{"b":1}})");
    CHECK_FALSE(framer.next(f));
    CHECK(framer.idle());
    REQUIRE(hand(without_end)); // its line feed may take a minute
    CHECK(framer.object() == R"({"a":{"b":1}})");
    CHECK_FALSE(framer.next(f));
    CHECK(framer.idle());
    REQUIRE(hand("\n" + line));
    CHECK_FALSE(framer.next(f));
    CHECK(framer.position() == 3);
    CHECK_FALSE(f);
}

TEST_CASE("what an item that came in pieces needed is given back when nothing had to be kept for a while", "[framer]") {
    informer::detail::framing_window text;
    const std::string half(200'000, 'x');
    text.lend(half);
    text.mark();
    text.take(half.size());
    text.lend("x"); // the item goes on
    CHECK(text.capacity() >= half.size());
    const auto whole = [&] {
        while (text.more()) {
        }
        text.take(text.rest().size());
        text.unmark();
    };
    whole();
    for (int i = 0; i < 20; ++i) {
        text.lend("a whole item");
        whole();
    }
    CHECK(text.capacity() >= half.size());
    for (int i = 0; i < 40; ++i) {
        text.lend("a whole item");
        whole();
    }
    CHECK(text.capacity() <= 64 * 1024);
    text.lend(half);
    text.mark();
    text.take(half.size() / 2);
    text.lend("x");
    CHECK(text.since_mark() == half.substr(0, half.size() / 2));
}
