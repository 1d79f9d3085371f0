#include <informer/object/framer.hpp>

#include <catch2/catch_test_macros.hpp>

#include <boost/json/parse.hpp>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

using namespace informer;

namespace {

struct listing {
    std::vector<std::string> items;
    std::vector<bool> oversized;
    std::string envelope;
    bool done = false;
    failure failed;
    friend bool operator==(const listing& a, const listing& b) {
        return a.items == b.items && a.oversized == b.oversized && a.envelope == b.envelope && a.done == b.done &&
               a.failed.what() == b.failed.what();
    }
};

/// What is cut at a guess is looked at again where it is no JSON object. Returns how much of that there was.
std::size_t drain(list_framer& framer, listing& to) {
    std::size_t wrong = 0;
    while (framer.next(to.failed)) {
        if (framer.unproven()) {
            boost::system::error_code no_json;
            boost::json::parse(framer.item(), no_json);
            if (no_json) {
                wrong += framer.item().size();
                framer.look_again();
                continue;
            }
        }
        CHECK(framer.position() == to.items.size());
        to.items.emplace_back(framer.item());
        to.oversized.push_back(framer.oversized());
    }
    return wrong;
}

/// Hands over a copy of exact size that is gone afterwards, so that ASan sees reads beyond the piece and after its time.
template <class Framer, class Drain>
void hand_over(Framer& framer, std::string_view piece, bool lending, const Drain& drain) {
    const std::vector<char> exact(piece.begin(), piece.end());
    const std::string_view bytes(exact.data(), exact.size());
    if (lending)
        framer.lend(bytes);
    else
        framer.feed(bytes);
    drain();
}

enum class way { feeding, lending, guessing };

listing cut(const std::vector<std::string_view>& pieces, std::size_t limit, way how) {
    list_framer framer(limit);
    if (how == way::guessing) framer.guess();
    listing l;
    for (const auto& p : pieces) hand_over(framer, p, how != way::feeding, [&] { drain(framer, l); });
    l.done = framer.done();
    l.envelope = framer.envelope();
    return l;
}

listing cut(const std::vector<std::string_view>& pieces, std::size_t limit = default_max_object) {
    const listing l = cut(pieces, limit, way::feeding);
    const bool lent_is_same = cut(pieces, limit, way::lending) == l;
    CHECK(lent_is_same);
    listing guessed = cut(pieces, limit, way::guessing);
    if (!l.done && guessed.items.size() + 1 == l.items.size()) { // where a text breaks off, the last item may wait for more
        guessed.items.push_back(l.items.back());
        guessed.oversized.push_back(l.oversized.back());
    }
    const bool guessed_is_same = guessed == l;
    CHECK(guessed_is_same);
    return l;
}

std::vector<std::string_view> bytes_of(std::string_view s) {
    std::vector<std::string_view> pieces;
    for (std::size_t i = 0; i < s.size(); ++i) pieces.push_back(s.substr(i, 1));
    return pieces;
}

// However it is cut, the result is that of the whole.
template <class Cut>
auto cut_everywhere(std::string_view s, Cut one) {
    const auto whole = one({s});
    for (std::size_t i = 0; i <= s.size(); ++i) {
        const bool same = one({s.substr(0, i), s.substr(i)}) == whole;
        if (!same) FAIL_CHECK("cut at byte " << i << " gives something else");
    }
    const bool same = one(bytes_of(s)) == whole;
    CHECK(same);
    return whole;
}

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

TEST_CASE("an envelope over the limit is an error", "[framer]") {
    const auto one = list_of(R"({"metadata":{"continue":")" + std::string(200, 'c') + "\"}}", 100);
    CHECK(one.failed == errc::too_large);
    std::string many = "{";
    for (int i = 0; i < 50; ++i) many += "\"k" + std::to_string(i) + "\":0,";
    CHECK(cut({many}, 100).failed == errc::too_large);
    CHECK(cut(bytes_of("{\"" + std::string(200, 'k')), 100).failed == errc::too_large);
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
    CHECK(framer.item().data() == text.data() + 10 + item.size() + 1); // where it lies
    CHECK(framer.position() == 1);
    // It has an object like itself in its middle, as far as anyone can see.
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

TEST_CASE("without being told to, a list framer guesses nothing", "[framer]") {
    list_framer framer;
    failure f;
    framer.feed(R"({"items":[{"a":1},{"a":2},{"a":3},{"a":4}]})");
    for (int i = 0; i < 4; ++i) {
        REQUIRE(framer.next(f));
        CHECK_FALSE(framer.unproven());
    }
}

TEST_CASE("lists that mislead are cut as others are", "[framer]") {
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

// ---- watches ----

namespace {

struct event {
    std::string type, object;
    bool oversized = false;
    friend bool operator==(const event&, const event&) = default;
};

struct stream {
    std::vector<event> events;
    bool idle = false;
    failure failed;
    friend bool operator==(const stream& a, const stream& b) {
        return a.events == b.events && a.idle == b.idle && a.failed.what() == b.failed.what();
    }
};

/// `lending`: the pieces are lent, and what is unproven is looked at again where it is not JSON.
stream cut_stream(const std::vector<std::string_view>& pieces, std::size_t limit, bool lending) {
    watch_framer framer(limit);
    stream s;
    const auto drain = [&] {
        while (framer.next(s.failed)) {
            if (framer.unproven()) {
                boost::system::error_code no_json;
                boost::json::parse(framer.object(), no_json);
                if (no_json) {
                    framer.look_again();
                    continue;
                }
            }
            CHECK(framer.position() == s.events.size());
            s.events.push_back({std::string(framer.type()), std::string(framer.object()), framer.oversized()});
        }
    };
    for (const auto& p : pieces) hand_over(framer, p, lending, drain);
    s.idle = framer.idle();
    return s;
}

stream cut_stream(const std::vector<std::string_view>& pieces, std::size_t limit = default_max_object) {
    const stream s = cut_stream(pieces, limit, false);
    CHECK(cut_stream(pieces, limit, true) == s);
    return s;
}

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

TEST_CASE("the end of a watch inside an event is told from one between events", "[framer]") {
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

TEST_CASE("past the limit a giant key ends the stream", "[framer]") {
    watch_framer framer(1000);
    failure f;
    framer.feed("{\"" + std::string(100'000, 'k'));
    CHECK_FALSE(framer.next(f));
    CHECK(f == errc::too_large);
}

// ---- keys ----

TEST_CASE("peek_key reads namespace and name wherever metadata stands", "[framer]") {
    CHECK(peek_key(R"({"metadata":{"name":"n","namespace":"ns"}})") == object_key("ns", "n"));
    CHECK(peek_key(
              R"( { "spec" : {"metadata":{"name":"no"}} , "metadata" : { "namespace" : "ns" , "labels":{"name":"x"},)"
              R"( "name" : "n" } } )") == object_key("ns", "n"));
    CHECK(peek_key(R"({"metadata":{"name":"n"}})") == object_key("", "n"));
    CHECK(peek_key(R"({"metadata":{"n\u0061me":"\u0061\n\"","namespace":"\ud83d\ude00"}})") ==
          object_key("\xF0\x9F\x98\x80", "a\n\""));
    for (const char* none : {"", "{", "{}", "[]", "7", "null", "garbage", R"({"metadata":null})", R"({"metadata":[]})",
                             R"({"metadata":{}})", R"({"metadata":{"name":5}})", R"({"metadata":{"name":"\ud800"}})",
                             R"({"a" "b"})", R"({"metadata"})", R"({"metadata":{"namespace":"ns"}})"})
        CHECK(peek_key(none).empty());
}

TEST_CASE("peek_key never takes half a key from a text that breaks off", "[framer]") {
    const std::string_view text =
        R"({"kind":"P","metadata":{"name":"n","labels":{"a":"b"},"namespace":"ns","uid":"u"},"spec":{}})";
    for (std::size_t i = 0; i <= text.size(); ++i) {
        const auto key = peek_key(text.substr(0, i));
        CHECK((key.empty() || key == object_key("ns", "n")));
    }
    const std::string_view cluster = R"({"metadata":{"name":"n","uid":"u"}})";
    CHECK(peek_key(cluster.substr(0, cluster.size() - 2)).empty());
    CHECK(peek_key(cluster.substr(0, cluster.size() - 1)) == object_key("", "n"));
}

// ---- lines ----

TEST_CASE("peek_key reads the same from a text as servers write it and from one with spaces, wherever it breaks off", "[framer]") {
    for (const std::string_view text :
         {R"({"kind":"P","apiVersion":"v1","metadata":{"name":"n","generateName":"g","namespace":"ns","uid":"u"}})",
          R"({"metadata":{"namespace":"ns","name":"n"},"spec":{}})", R"({"metadata":{"name":"n","uid":"u"}})",
          R"({"metadata":{"name":"n","name":"m","namespace":"ns"}})", R"({"metadata":{"name":"","namespace":"ns"}})",
          R"({"metadata":{"name":"n","namespace":""}})", R"({"metadata":{"name":"n\u0061","namespace":"ns"}})",
          R"({"metadata":{"name":"n","labels":{"name":"x"},"namespace":"ns"}})", R"({"metadata":{"name":"n","namespace":5}})",
          R"({"m\u0065tadata":{"name":"n","namespace":"ns"}})", R"({"metadata":"name","spec":{"name":"n"}})",
          R"({"a":"metadata","metadata":{"name":"n","namespace":"ns"}})", R"({"metadata":{"a":"name","name":"n"}})"}) {
        for (std::size_t i = 0; i <= text.size(); ++i) {
            const std::string_view part = text.substr(0, i);
            CAPTURE(part);
            CHECK(peek_key(part) == peek_key(" " + std::string(part)));
        }
    }
    const std::string long_name(5000, 'x');
    CHECK(peek_key(R"({"metadata":{"name":")" + long_name + R"(","namespace":"ns"}})") == object_key("ns", long_name));
}

TEST_CASE("a whole line is cut without a look into it, and is the same event when it is looked at again", "[framer]") {
    const std::string line = "{\"type\":\"MODIFIED\",\"object\":{\"a\":\"}\\\"{\"}}\n";
    const std::string both = line + line;
    watch_framer framer;
    failure f;
    framer.lend(both);
    REQUIRE(framer.next(f));
    CHECK(framer.unproven());
    CHECK(framer.object().data() == both.data() + 28); // where it lies
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
    const auto two = stream_of(R"({"type":"ADDED","object":{}}{"type":"DELETED","object":{}})" "\n");
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

// ---- what is lent ----

TEST_CASE("a lent item that is all there is cut where it lies", "[framer]") {
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
    CHECK(framer.item().data() == rest.data() + 5); // and so is what follows one that came in two pieces
    CHECK_FALSE(framer.next(f));
    CHECK(framer.done());
}

TEST_CASE("lent in pieces of any size, lists and watches come out as when they are fed whole", "[framer]") {
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
