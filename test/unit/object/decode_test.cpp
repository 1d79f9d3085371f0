// What goes into a pool comes out again: every form of JSON, every error, what is skipped and what is restored.
#include <informer/object/document_pool.hpp>
#include <informer/object/json.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cstdio>
#include <limits>
#include <random>
#include <string>

using namespace informer;

namespace {

boost::json::value dom(std::string_view text) {
    boost::json::parse_options options;
    options.max_depth = 1100;
    options.numbers = boost::json::number_precision::precise;
    return boost::json::parse(text, boost::json::storage_ptr(), options);
}

std::string round_trip(std::string_view json) {
    return parse_object(json).to_json();
}

failure failure_of(std::string_view json, decode_options options = decode_options()) {
    failure f;
    const object o = parse_object(json, f, std::move(options));
    CHECK(bool(o) != bool(f));
    return f;
}

class generator {
public:
    explicit generator(unsigned seed) : random_(seed) {}
    boost::json::object object(int depth) {
        boost::json::object o;
        const int n = pick(7);
        for (int i = 0; i < n; ++i) o[string()] = value(depth - 1);
        return o;
    }

private:
    int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
    std::string string() {
        static const char* pieces[] = {"a",
                                       "name",
                                       "ü",
                                       "\n",
                                       "\"",
                                       "\\",
                                       "/",
                                       "日本",
                                       "\x01",
                                       "😀",
                                       "metadata",
                                       "0",
                                       "",
                                       "2024-05-06T07:08:09Z",
                                       "123e4567-e89b-12d3-a456-426614174000",
                                       "\x7f"};
        std::string s;
        for (int n = pick(4); n >= 0; --n) s += pieces[pick(std::size(pieces))];
        return s;
    }
    boost::json::value value(int depth) {
        switch (pick(depth > 0 ? 11 : 8)) {
        case 0: return nullptr;
        case 1: return pick(2) == 0;
        case 2: return pick(1000) - 500;
        case 3: return static_cast<std::int64_t>(random_()) * 2'000'000'011 - 1'234'567;
        case 4: return ~std::uint64_t{0} - random_();
        case 5: return static_cast<double>(random_()) / 977.0 - 1e6;
        case 6:
        case 7: return boost::json::value(string());
        case 8: {
            boost::json::array a;
            for (int n = pick(6); n > 0; --n) a.push_back(value(depth - 1));
            return a;
        }
        default: return object(depth - 1);
        }
    }
    std::mt19937 random_;
};

} // namespace

TEST_CASE("every form of JSON comes out as it went in", "[pool]") {
    const char* same[] = {
        R"({})",
        R"({"a":null,"b":true,"c":false,"d":{},"e":[],"f":""})",
        R"({"":1,"x":[[],{},[[]],[{}],{"a":[]}]})",
        R"({"i":[0,-1,1,268435455,268435456,-268435456,-268435457,2147483648,9223372036854775807,-9223372036854775808]})",
        R"({"u":[9223372036854775808,18446744073709551615]})",
        R"({"d":[0.5,-0.25,3.14,1.7976931348623157e+308,5e-324,123456.789]})",
        R"({"s":["a","ab","abc","abcd","ü","日本","日本語","😀"]})",
        R"({"t":"tab\there","n":"a\nb","q":"\"\\/","c":"\u0001\u001f","b":"\b\f\r"})",
        R"({"a":{"b":{"c":{"d":[1,[2,[3,[4]]]]}}}})",
        R"({"same":["x1234","x1234",["y5678"],["y5678"],{"k":"v"},{"k":"v"}]})",
    };
    for (const char* json : same) CHECK(round_trip(json) == json);
    CHECK(round_trip(" \n{ \"a\" :\t[ 1 , 2 ] }\r\n") == R"({"a":[1,2]})");
    CHECK(round_trip(R"({"\u0061":"\u00fc\ud83d\ude00\/"})") == "{\"a\":\"ü😀/\"}");
    // The zero character is a character, in short strings and long ones.
    CHECK(round_trip(R"({"a\u0000b":"\u0000","c":"abc\u0000\u0000d"})") ==
          R"({"a\u0000b":"\u0000","c":"abc\u0000\u0000d"})");
}

TEST_CASE("numbers keep their text unless a binary form prints back exactly", "[pool]") {
    const char* texts[] = {"-0",
                           "-0.0",
                           "0.0",
                           "1.0",
                           "1e5",
                           "1E5",
                           "1e+5",
                           "1e400",
                           "-1e-400",
                           "12345678901234567890123",
                           "18446744073709551616",
                           "-9223372036854775809",
                           "0.1",
                           "0.10",
                           "0.30000000000000004",
                           "2.2250738585072014e-308",
                           "9007199254740993",
                           "9007199254740993.0",
                           "3.141592653589793238",
                           "1e99999999999999999999",
                           "1.7976931348623159e308",
                           "0.000001",
                           "100000.5",
                           "1e23",
                           "17.987654321012345",
                           "123456789012345678.5",
                           "0e0",
                           "1.5e-7"};
    for (const std::string text : texts) {
        CHECK(round_trip("{\"n\":" + text + "}") == "{\"n\":" + text + "}");
        CHECK(round_trip("{\"n\":[" + text + ",0]}") == "{\"n\":[" + text + ",0]}");
    }
    const object o = parse_object(
        R"({"i":7,"big":12345678901234567890123,"f":0.5,"one":1.0,"e":1e3,"u":18446744073709551615,"neg":-5})");
    CHECK(o["i"].kind() == value_kind::int64);
    CHECK(o["big"].kind() == value_kind::number);
    CHECK(o["big"].number_text() == "12345678901234567890123");
    CHECK(o["f"].kind() == value_kind::floating);
    CHECK(o["f"].as_double() == 0.5);
    CHECK(o["one"].as_int64() == 1);
    CHECK(o["e"].as_int64() == 1000);
    CHECK(o["e"].as_double() == 1000.0);
    CHECK(o["u"].kind() == value_kind::uint64);
    CHECK(o["u"].as_uint64() == ~std::uint64_t{0});
    CHECK(o["neg"].as_int64() == -5);
    CHECK_THROWS_AS(o["neg"].as_uint64(), error);
    CHECK_THROWS_AS(o["u"].as_int64(), error);
    CHECK_THROWS_AS(o["f"].as_int64(), error);
    CHECK(o["f"].int64_or(9) == 9);
    CHECK(o["big"].int64_or(9) == 9);
    const object extreme = parse_object(R"({"h":1e400,"n":-1e400,"t":1e-400})");
    CHECK(extreme["h"].as_double() == std::numeric_limits<double>::infinity());
    CHECK(extreme["n"].as_double() == -std::numeric_limits<double>::infinity());
    CHECK(extreme["t"].as_double() == 0.0);
}

TEST_CASE("whole numbers of every length are read exactly, wherever the text ends", "[pool]") {
    const std::string most = "98765432109876543210", least = "10000000000000000000";
    for (std::size_t n = 1; n <= most.size(); ++n) {
        for (const std::string& digits : {most.substr(0, n), least.substr(0, n), std::string(n, '9')}) {
            for (const std::string behind :
                 {"", " ", ",0", " ,\"0\"", ",[]", ",\"a text that is longer than what is read at once\""}) {
                const std::string text = "{\"n\":[" + digits + behind + "]}";
                INFO(text);
                const object o = parse_object(text);
                const value v = o["n"][0];
                if (n < 19) CHECK(v.kind() == value_kind::int64);
                CHECK(dom(o.to_json()) == dom(text));
                CHECK(to_value(o) == dom(text));
            }
            for (const std::string wrong : {"a", ":", "/", "-", "+", ".", "e", "\"", " 1", "\x01"})
                CHECK_THROWS_AS(parse_object("{\"n\":[" + digits + wrong + "]}"), error);
        }
        if (n > 1) CHECK_THROWS_AS(parse_object("{\"n\":[" + std::string(n, '0') + "]}"), error);
    }
}

TEST_CASE("random documents equal what a DOM parser makes of them", "[pool]") {
    const auto pool = document_pool::make(decode_options().keep_managed_fields());
    generator g(42);
    object previous;
    for (int i = 0; i < 3000; ++i) {
        const std::string json = boost::json::serialize(g.object(6));
        failure f;
        // Whatever the previous version is, the result is the document.
        const object o = pool->decode(json, previous, f);
        REQUIRE(!f);
        REQUIRE(dom(o.to_json()) == dom(json));
        REQUIRE(to_value(o) == dom(json));
        const object encoded = pool->encode(dom(json), i % 2 ? o : previous, f);
        REQUIRE(!f);
        REQUIRE(encoded == o);
        if (i % 3 == 0) previous = o;
    }
}

TEST_CASE("a document may be 1,000 deep and no deeper", "[pool]") {
    const auto nested = [](int depth, char open, char close) {
        std::string s = "{\"a\":";
        const std::string begin = open == '[' ? "[" : "{\"a\":";
        for (int i = 1; i < depth; ++i) s += begin;
        s += "1";
        s.append(static_cast<std::size_t>(depth - 1), close);
        return s + "}";
    };
    for (const char open : {'[', '{'}) {
        const char close = open == '[' ? ']' : '}';
        const std::string fits = nested(1000, open, close);
        const object o = parse_object(fits);
        CHECK(o.to_json() == fits);
        CHECK(o == parse_object(fits));
        CHECK(failure_of(nested(1001, open, close)) == errc::too_deep);
        CHECK(failure_of(nested(100'000, open, close)) == errc::too_deep);
    }
    CHECK(failure_of(nested(6, '[', ']'), decode_options().max_depth(5)) == errc::too_deep);
    CHECK_FALSE(failure_of(nested(5, '[', ']'), decode_options().max_depth(5)));
    boost::json::value v = nullptr;
    for (int i = 0; i < 1001; ++i) v = boost::json::object{{"a", std::move(v)}};
    failure f;
    CHECK_FALSE(document_pool::make()->encode(v, object(), f));
    CHECK(f == errc::too_deep);
}

TEST_CASE("bad input gets an error that says what and where, and the pool goes on", "[pool]") {
    CHECK(failure_of("") == errc::syntax_error);
    CHECK(failure_of("   ") == errc::syntax_error);
    CHECK(failure_of("{") == errc::syntax_error);
    CHECK(failure_of(R"({"a":1)") == errc::syntax_error);
    CHECK(failure_of(R"({"a":"unfinished)") == errc::syntax_error);
    CHECK(failure_of(R"({"a":1,})") == errc::syntax_error);
    CHECK(failure_of(R"({"a" 1})") == errc::syntax_error);
    CHECK(failure_of(R"({a:1})") == errc::syntax_error);
    CHECK(failure_of(R"({"a":01})") == errc::syntax_error);
    CHECK(failure_of(R"({"a":.5})") == errc::syntax_error);
    CHECK(failure_of(R"({"a":1.})") == errc::syntax_error);
    CHECK(failure_of(R"({"a":NaN})") == errc::syntax_error);
    CHECK(failure_of(R"({"a":Infinity})") == errc::syntax_error);
    CHECK(failure_of(R"({"a":"\x"})") == errc::syntax_error);
    CHECK(failure_of("{\"a\":\"\n\"}") == errc::syntax_error);
    CHECK(failure_of("{\"a\":/*c*/1}") == errc::syntax_error);
    CHECK(failure_of(R"({"a":1} x)") == errc::syntax_error);
    CHECK(failure_of(R"({"a":1}{})") == errc::syntax_error);
    CHECK(failure_of("\xef\xbb\xbf{}") == errc::syntax_error);
    for (const char* top : {"[]", "[{}]", "1", "-1.5", "\"text\"", "true", "null"})
        CHECK(failure_of(top) == errc::not_an_object);
    CHECK(failure_of(R"({"a":[1,2,x]})").message().find("byte 10") != std::string::npos);

    const auto pool = document_pool::make();
    failure f;
    const object good = pool->decode(R"({"keep":"this text"})", object(), f);
    for (int i = 0; i < 50; ++i) {
        CHECK_FALSE(
            pool->decode(R"({"keep":["some","thing","new)" + std::to_string(i) + R"(",{"a":1.5},{"b":)", good, f));
        CHECK(f == errc::syntax_error);
    }
    pool->collect();
    CHECK(good.to_json() == R"({"keep":"this text"})");
    CHECK(pool->statistics().objects == 1);
    CHECK(pool->statistics().nodes == 4); // object, shape, key, text: nothing of the bad ones stays
    CHECK(pool->decode(R"({"keep":"this text"})", good, f).same_as(good));
    CHECK(!f);
}

TEST_CASE("invalid UTF-8 is refused with its place", "[pool]") {
    const char* bad[] = {"\xff",
                         "\xc3(",
                         "\xc0\xaf",
                         "\xe2\x82",
                         "\xe2\x28\xa1",
                         "\xf0\x28\x8c\xbc",
                         "\xed\xa0\x80",
                         "\xf5\x80\x80\x80",
                         "\xf4\x90\x80\x80",
                         "\x80"};
    for (const std::string b : bad) {
        CHECK(failure_of("{\"a\":\"x" + b + "\",\"b\":\"long enough for the fast path of any parser\"}") ==
              errc::bad_utf8);
        CHECK(failure_of("{\"k" + b + "\":1}") == errc::bad_utf8);
    }
    CHECK(failure_of(R"({"a":"\ud800"})") == errc::bad_utf8);
    CHECK(failure_of(R"({"a":"\ud800\u0041"})") == errc::bad_utf8);
    CHECK(failure_of(R"({"a":"\uDBFF\n"})") == errc::bad_utf8);
    CHECK(failure_of(R"({"a":"\udc00"})") == errc::bad_utf8);
    CHECK(failure_of(R"({"a":"\u0041" x})") == errc::syntax_error);
    CHECK(failure_of("{\"abc\":\"\xff\"}").message().find("byte 8") != std::string::npos);
    CHECK(round_trip("{\"a\":\"\xf4\x8f\xbf\xbf\xef\xbf\xbd\"}") == "{\"a\":\"\xf4\x8f\xbf\xbf\xef\xbf\xbd\"}");
}

TEST_CASE("of duplicate keys the last value wins", "[pool]") {
    CHECK(round_trip(R"({"a":1,"b":2,"a":3})") == R"({"a":3,"b":2})");
    CHECK(round_trip(R"({"x":{"long key":"value one","long key":"value two","long key":["three"]}})") ==
          R"({"x":{"long key":["three"]}})");
    // A value that was replaced must not make its object count as new.
    const auto pool = document_pool::make();
    failure f;
    const object plain = pool->decode(R"({"x":{"a":1}})", object(), f);
    const object doubled = pool->decode(R"({"x":{"a":"something new","a":1}})", object(), f);
    CHECK(doubled.same_as(plain));
    std::string many = "{", expected = "{";
    for (int i = 0; i < 100; ++i) many += "\"key" + std::to_string(i % 40) + "\":" + std::to_string(i) + ",";
    for (int i = 0; i < 40; ++i)
        expected += "\"key" + std::to_string(i) + "\":" + std::to_string(i < 20 ? 80 + i : 40 + i) + ",";
    many.back() = expected.back() = '}';
    CHECK(round_trip(many) == expected);
    CHECK(round_trip(R"({"kind":"A","apiVersion":"v1","kind":"B"})") == R"({"apiVersion":"v1","kind":"B"})");
}

TEST_CASE("strings over 1 MB and arrays over 1 M elements are stored", "[pool]") {
    const auto pool = document_pool::make();
    failure f;
    const std::string big(2'000'000, 'x');
    std::string array = "[0";
    for (int i = 1; i < 1'200'000; ++i) array += "," + std::to_string(i & 1023);
    array += "]";
    std::string wide = "{";
    for (int i = 0; i < 300'000; ++i) wide += "\"member-" + std::to_string(i) + "\":" + std::to_string(i) + ",";
    wide.back() = '}';
    const std::string json = R"({"s":")" + big + R"(","a":)" + array + R"(,"o":)" + wide + "}";
    object o = pool->decode(json, object(), f);
    REQUIRE(!f);
    CHECK(o["s"].as_string().size() == big.size());
    CHECK(o["a"].size() == 1'200'000);
    CHECK(o["a"][1'199'999].as_int64() == (1'199'999 & 1023));
    CHECK(o["o"].size() == 300'000);
    CHECK(o["o"]["member-299999"].as_int64() == 299'999);
    CHECK(o.to_json() == json);
    CHECK(pool->decode(json, o, f).same_as(o));
    // Members in another order are the same object, found without quadratic time.
    std::string backwards = R"({"o":{)";
    for (int i = 300'000; i-- > 0;) backwards += "\"member-" + std::to_string(i) + "\":" + std::to_string(i) + ",";
    backwards.back() = '}';
    const object reversed = parse_object(backwards + "}");
    CHECK(reversed["o"] == o["o"]);
    const std::uint64_t full = pool->statistics().bytes;
    o = object();
    while (!pool->collect(1000)) {
    }
    // The memory of large values goes back to the system at once.
    CHECK(pool->statistics().bytes + 8'000'000 < full);
    CHECK(pool->statistics().nodes == 0);
}

TEST_CASE("a value that fits into no pool is too large, and the pool does not count as full", "[pool]") {
    const auto pool = document_pool::make();
    failure f;
    const object before = pool->decode(R"({"a":"some text"})", object(), f);
    const std::string text = R"({"a":"some text","b":")" + std::string(std::size_t{1} << 28, 'x') + "\"}";
    CHECK_FALSE(pool->decode(text, before, f));
    CHECK(f == errc::too_large);
    const auto sliced = pool->begin_decode(text, before);
    while (!sliced->step(std::size_t{1} << 26)) {
    }
    CHECK_FALSE(sliced->finish(f));
    CHECK(f == errc::too_large);
    CHECK(pool->decode(R"({"a":"some text"})", before, f).same_as(before));
    CHECK_FALSE(f);
}

TEST_CASE("managedFields is skipped at metadata.managedFields and nowhere else", "[pool]") {
    const std::string json =
        R"({"metadata":{"name":"a","managedFields":[{"fieldsV1":{"f:metadata":{}}},1],"z":1},)"
        R"("managedFields":[1],"spec":{"metadata":{"managedFields":[2]},"managedFields":3},"list":[{"managedFields":4}]})";
    const std::string without =
        R"({"metadata":{"name":"a","z":1},)"
        R"("managedFields":[1],"spec":{"metadata":{"managedFields":[2]},"managedFields":3},"list":[{"managedFields":4}]})";
    CHECK(round_trip(json) == without);
    CHECK(parse_object(json, decode_options().keep_managed_fields()).to_json() == json);
    CHECK(round_trip(R"({"metadata":{"managedFields":"scalar","a":1}})") == R"({"metadata":{"a":1}})");
    CHECK(round_trip(R"({"metadata":{"managedFields":null}})") == R"({"metadata":{}})");
    CHECK(round_trip(R"({"metadata":[{"managedFields":1}]})") == R"({"metadata":[{"managedFields":1}]})");
    CHECK(round_trip(R"({"metadata":{"a":{"managedFields":1}}})") == R"({"metadata":{"a":{"managedFields":1}}})");
    // What is skipped must still be JSON.
    CHECK(failure_of(R"({"metadata":{"managedFields":[}})") == errc::syntax_error);
}

TEST_CASE("the type of an object is found wherever it stands", "[object]") {
    failure f;
    const auto pool = document_pool::make();
    for (const char* text :
         {R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}})", R"({"kind":"Pod","apiVersion":"v1"})",
          R"({"metadata":{"name":"a"},"spec":{},"kind":"Pod","x":1,"apiVersion":"v1"})"}) {
        INFO(text);
        const object o = pool->decode(text, object(), f);
        CHECK(o.kind() == "Pod");
        CHECK(o.api_version() == "v1");
        CHECK(o.has_type("v1", "Pod"));
        CHECK_FALSE(o.has_type("v1", "Pods"));
        CHECK_FALSE(o.has_type("v2", "Pod"));
        CHECK_FALSE(o.has_type("v1", ""));
    }
    const object plain = pool->decode(R"({"metadata":{"name":"a"},"kin":"Pod","apiVersion":1})", object(), f);
    CHECK(plain.kind().empty());
    CHECK(plain.api_version().empty());
    CHECK_FALSE(plain.has_type("v1", "Pod"));
    CHECK_FALSE(plain.has_type("1", ""));
    CHECK(plain.has_type("", ""));
    CHECK_FALSE(object().has_type("v1", "Pod"));
}

TEST_CASE("an object has a name if metadata.name is a text and not empty", "[object]") {
    failure f;
    const auto pool = document_pool::make();
    const auto named = [&](const std::string& metadata) {
        const object o = pool->decode(R"({"kind":"Pod","metadata":)" + metadata + "}", object(), f);
        REQUIRE(o);
        CHECK(o.has_name() == !o.name().empty());
        return o.has_name();
    };
    for (const char* name : {"a", "abc", "abcd", "2026-11-01T08:00:00Z", "93d14f0e-93d1-4f0e-9a3c-161d100b05e5"}) {
        INFO(name);
        CHECK(named(R"({"name":")" + std::string(name) + R"("})"));
    }
    for (const char* metadata :
         {"{}", "[]", "null", R"({"name":""})", R"({"name":7})", R"({"name":{"name":"a"}})", R"({"name":null})"}) {
        INFO(metadata);
        CHECK_FALSE(named(metadata));
    }
    CHECK_FALSE(object().has_name());
}

TEST_CASE("apiVersion and kind come first and are restored when missing", "[pool]") {
    const auto pool = document_pool::make(decode_options().type("apps/v1", "Deployment"));
    failure f;
    const object item = pool->decode(R"({"metadata":{"name":"a"},"spec":{"x":[1,2,"long text"]}})", object(), f);
    CHECK(item.to_json() ==
          R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"x":[1,2,"long text"]}})");
    CHECK(item.kind() == "Deployment");
    CHECK(item.api_version() == "apps/v1");
    // A watch event carries them, in this order; it must be the same document, with and without the older version at
    // hand.
    const std::string event =
        R"({"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"a"},"spec":{"x":[1,2,"long text"]}})";
    const auto before = pool->statistics();
    CHECK(pool->decode(event, item, f).same_as(item));
    CHECK(pool->decode(event, object(), f).same_as(item));
    CHECK(pool->statistics().nodes == before.nodes);
    const object other = pool->decode(R"({"spec":1,"kind":"Other"})", object(), f);
    CHECK(other.to_json() == R"({"apiVersion":"apps/v1","kind":"Other","spec":1})");
    CHECK(pool->encode(dom(R"({"spec":1})"), object(), f).to_json() ==
          R"({"apiVersion":"apps/v1","kind":"Deployment","spec":1})");
    CHECK(round_trip(R"({"spec":1,"kind":"K"})") == R"({"kind":"K","spec":1})");
    CHECK(parse_object("{}", decode_options().type("v1", "Pod")).to_json() == R"({"apiVersion":"v1","kind":"Pod"})");
}

TEST_CASE("timestamps, UUIDs and short strings come back character for character", "[pool]") {
    const char* texts[] = {"2000-01-01T00:00:00Z",
                           "2000-02-29T23:59:59Z",
                           "2024-02-29T12:00:00Z",
                           "2065-12-31T23:59:59Z",
                           "2067-12-31T00:00:00Z",
                           "2068-01-19T03:14:07Z",
                           "2068-01-19T03:14:08Z",
                           "2099-01-01T00:00:00Z",
                           "1999-12-31T23:59:59Z",
                           "2023-02-29T00:00:00Z",
                           "2100-02-29T00:00:00Z",
                           "2024-13-01T00:00:00Z",
                           "2024-00-01T00:00:00Z",
                           "2024-01-00T00:00:00Z",
                           "2024-04-31T00:00:00Z",
                           "2024-01-01T24:00:00Z",
                           "2024-01-01T23:60:00Z",
                           "2024-06-30T23:59:60Z",
                           "2024-01-01t00:00:00z",
                           "2024-01-01 00:00:00Z",
                           "2024-01-01T00:00:0 Z",
                           "+024-01-01T00:00:00Z",
                           "2024-01-01T00:00:00.000000Z",
                           "123e4567-e89b-12d3-a456-426614174000",
                           "123E4567-E89B-12D3-A456-426614174000",
                           "123e4567-e89b-12d3-a456-42661417400g",
                           "123e4567e-89b-12d3-a456-426614174000",
                           "ffffffff-ffff-ffff-ffff-ffffffffffff",
                           "",
                           "a",
                           "ab",
                           "abc",
                           "abcd"};
    const auto pool = document_pool::make();
    failure f;
    for (const std::string s : texts) {
        const object o = pool->decode("{\"v\":\"" + s + "\",\"" + s + "\":1}", object(), f);
        CHECK(o["v"].as_string() == s);
        CHECK(o.to_json() == "{\"v\":\"" + s + "\",\"" + s + "\":1}");
        CHECK(o[s].as_int64() == 1);
        CHECK(o.value().member_key(1) == s);
    }
    const std::string uuid = "01234567-89ab-cdef-fedc-ba9876543210";
    for (std::size_t i = 0; i <= uuid.size(); ++i) { // the last round leaves it unchanged
        for (char c = ' '; c <= '~'; ++c) {
            if (c == '"' || c == '\\') continue;
            std::string s = uuid;
            if (i < s.size()) s[i] = c;
            const object o = pool->decode("{\"v\":\"" + s + "\"}", object(), f);
            CHECK(o["v"].as_string() == s);
        }
    }
    // Every day and some seconds of the packed range.
    std::string all;
    for (int year = 2000; year <= 2067; ++year) {
        for (int month = 1; month <= 12; ++month) {
            for (int day = 1; day <= 31; ++day) {
                char s[48]; // room for any int, as g++ 16 sees it
                std::snprintf(s, sizeof s, "%04d-%02d-%02dT%02d:%02d:%02dZ", year, month, day, day % 24, month * 5 - 1,
                              year % 60);
                all += all.empty() ? "{\"v\":[\"" : ",\"";
                all += s;
                all += '"';
            }
        }
    }
    all += "]}";
    CHECK(pool->decode(all, object(), f).to_json() == all);
    // Any other character at any place.
    all = "{\"v\":[0";
    for (const std::string right : {"2012-12-11T11:12:13Z", "2058-08-29T19:58:59Z"}) {
        for (std::size_t at = 0; at < right.size(); ++at) {
            for (int c = 0x20; c <= 0x7f; ++c) {
                if (c == '"' || c == '\\') continue;
                std::string s = right;
                s[at] = static_cast<char>(c);
                all += ",\"" + s + "\"";
            }
        }
    }
    all += "]}";
    CHECK(pool->decode(all, object(), f).to_json() == all);
    const object packed = pool->decode(R"({"t":"2024-05-06T07:08:09Z","s":"abc"})", object(), f);
    text t = packed["t"].as_string();
    const text copy = t;
    t = packed["s"].as_string();
    CHECK(copy == "2024-05-06T07:08:09Z");
    CHECK(t == "abc");
    CHECK(std::hash<text>()(copy) == std::hash<std::string_view>()("2024-05-06T07:08:09Z"));
}

TEST_CASE("a value that a duplicate key has replaced is not found again in its document", "[pool]") {
    const auto pool = document_pool::make();
    failure f;
    std::vector<object> held;
    for (int i = 0; i < 6000; ++i) {
        const std::string text = "\"a text that comes once, number " + std::to_string(i) + "\"";
        held.push_back(pool->decode(R"({"x":{"u":)" + text + R"(,"u":1},"y":)" + text + "}", object(), f));
        REQUIRE(!f);
    }
    for (int i = 0; i < 6000; ++i)
        REQUIRE(held[static_cast<std::size_t>(i)]["y"].as_string() ==
                "a text that comes once, number " + std::to_string(i));
    held.clear();
    while (!pool->collect()) {
    }
    CHECK(pool->statistics().nodes == 0);
}
