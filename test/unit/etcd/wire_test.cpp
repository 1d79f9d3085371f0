// The gateway's frames, step by step and in pieces.
#include "bench.hpp"
#include "etcd/wire.hpp"

#include "support/fuzz.hpp"

#include <random>

using namespace etcd_test;
using namespace informer::etcd::detail;
using found = message_reader::found;

namespace {

/// What the reader finds, as text; the error last.
lines read(message_reader::kind k, const std::string& text, std::size_t piece, std::size_t max_object = 1000) {
    message_reader r(k, max_object);
    lines out;
    failure f;
    for (std::size_t at = 0; at < text.size() && !f; at += piece) {
        r.feed(std::string_view(text).substr(at, piece), f);
        for (found what = r.next(); what != found::nothing; what = r.next()) {
            if (what == found::message) {
                const message& m = r.message();
                std::string s = "message " + std::to_string(m.revision) + " of " + m.cluster + " entries " +
                                std::to_string(m.entries);
                if (m.created) s += " created";
                if (m.canceled) s += " canceled " + m.cancel_reason;
                if (m.fragment) s += " fragment";
                if (m.more) s += " more";
                if (m.count) s += " count " + std::to_string(m.count);
                if (m.compact_revision) s += " compact " + std::to_string(m.compact_revision);
                if (m.failed)
                    s += " failed " + std::to_string(m.code) + "/" + std::to_string(m.http_code) + " " + m.error;
                out.push_back(s);
                continue;
            }
            const entry& e = r.current();
            const auto shown = [](const key_value& kv) {
                return kv.key + "=" + (kv.oversized ? "(too large)" : kv.value) + " " +
                       std::to_string(kv.create_revision) + "/" + std::to_string(kv.mod_revision) + "/" +
                       std::to_string(kv.version);
            };
            out.push_back((e.deleted ? "delete " : "put ") + shown(e.kv) +
                          (e.previous ? " was " + shown(*e.previous) : ""));
        }
    }
    if (f)
        out.push_back(f.what());
    else if (!r.idle())
        out.push_back("not idle");
    return out;
}

constexpr auto whole = std::size_t(-1);
constexpr auto watches = message_reader::kind::watch;
constexpr auto ranges = message_reader::kind::range;

} // namespace

TEST_CASE("frames: a range and a watch as etcd writes them, in pieces of every size") {
    // Copied from etcd 3.6.8 and 3.4.23; the latter has other blanks.
    const std::string list =
        R"({"header":{"cluster_id":"9151734699010623715", "member_id":"3153101805118352275", "revision":"5", "raft_term":"2"}, "kvs":[{"key":"L3MvYQ==", "create_revision":"2", "mod_revision":"3", "version":"2", "value":"eyJ4IjoyfQ=="}, {"key":"L3MvYw==", "create_revision":"5", "mod_revision":"5", "version":"1"}], "more":true, "count":"3"})";
    const std::string stream =
        R"({"result":{"header":{"cluster_id":"9","revision":"5"},"created":true}})"
        "\n"
        R"({"result":{"header":{"revision":"5","cluster_id":"9"},"fragment":true,"events":[{"kv":{"key":"L3MvYQ==","create_revision":"2","mod_revision":"3","version":"2","value":"eyJ4IjoyfQ=="},"prev_kv":{"key":"L3MvYQ==","create_revision":"2","mod_revision":"2","version":"1","value":"eyJ4IjoxfQ=="}}]}})"
        R"({"result":{"header":{"cluster_id":"9","revision":"5"},"events":[{"type":"DELETE","kv":{"key":"L3MvYg==","mod_revision":"5"}}]}})"
        "\n\n"
        R"({"result":{"header":{"cluster_id":"9","revision":"7"}}})"
        "\n"
        R"({"result":{"header":{"cluster_id":"9"},"canceled":true,"compact_revision":"4","cancel_reason":"no\u0020reason"}})"
        R"({"error":{"code":14,"message":"etcdserver: no leader","details":[{"a":[1]}]}})"
        R"({"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader","http_status":"Service Unavailable"}})";
    const lines items{R"(put /s/a={"x":2} 2/3/2)", "put /s/c= 5/5/1",
                      "message 5 of 9151734699010623715 entries 2 more count 3"};
    const lines messages{"message 5 of 9 entries 0 created",
                         R"(put /s/a={"x":2} 2/3/2 was /s/a={"x":1} 2/2/1)",
                         "message 5 of 9 entries 1 fragment",
                         "delete /s/b= 0/5/0",
                         "message 5 of 9 entries 1",
                         "message 7 of 9 entries 0",
                         "message 0 of 9 entries 0 canceled no reason compact 4",
                         "message 0 of  entries 0 failed 14/0 etcdserver: no leader",
                         "message 0 of  entries 0 failed 14/503 etcdserver: no leader"};
    for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
        CAPTURE(piece);
        REQUIRE(read(ranges, list, piece) == items);
        REQUIRE(read(watches, stream, piece) == messages);
    }
}

TEST_CASE("frames: unknown members are skipped, and so is null") {
    CHECK(
        read(
            ranges,
            R"({"new":[{"key":1}],"kvs":[{"lease":"5","x":{"key":2},"key":"YQ==","mod_revision":7,"value":null}],"header":{"x":[],"revision":9},"more":null})",
            whole) == lines{"put a= 0/7/0", "message 9 of  entries 1"});
}

TEST_CASE("frames: invalid content is an error that says what is wrong") {
    const auto last = [](message_reader::kind k, const std::string& text) { return read(k, text, whole).back(); };
    CHECK(last(ranges, "[]").find("it is no object") != std::string::npos);
    CHECK(last(ranges, "7 ").find("it is no object") != std::string::npos);
    CHECK(last(ranges, "\"begun").find("it is no object") != std::string::npos); // this is no gap between two messages
    CHECK(last(ranges, "7").find("it is no object") != std::string::npos);
    CHECK(last(ranges, R"({"kvs":{}})").find("kvs is no array") != std::string::npos);
    CHECK(last(ranges, R"({"kvs":[7]})").find("an element is no object") != std::string::npos);
    CHECK(last(ranges, R"({"kvs":[{"key":"!","mod_revision":"1"}]})").find("key is no base64") != std::string::npos);
    CHECK(last(ranges, R"({"kvs":[{"key":"YQ==","mod_revision":"1","value":"YQ="}]})").find("value is no base64") !=
          std::string::npos);
    CHECK(last(ranges, R"({"kvs":[{"key":"YQ==","mod_revision":"x"}]})").find("mod_revision is no integer") !=
          std::string::npos);
    CHECK(last(ranges, R"({"kvs":[{"key":"YQ==","mod_revision":"-1"}]})").find("mod_revision is negative") !=
          std::string::npos);
    CHECK(last(ranges, R"({"kvs":[{"key":"YQ==","mod_revision":"9223372036854775808"}]})").find("no integer") !=
          std::string::npos);
    CHECK(last(ranges, R"({"kvs":[{"key":"YQ==","mod_revision":1.5}]})").find("no integer") != std::string::npos);
    CHECK(last(ranges, R"({"kvs":[{"key":"YQ=="}]})").find("without mod_revision") != std::string::npos);
    CHECK(last(ranges, R"({"kvs":[{"mod_revision":"1"}]})").find("a key that is not there") != std::string::npos);
    CHECK(last(watches, R"({"result":{"events":[{}]}})").find("a key that is not there") != std::string::npos);
    CHECK(last(watches, R"({"result":{"events":[{"type":"MOVE"}]}})").find("neither PUT nor DELETE") !=
          std::string::npos);
    CHECK(last(watches, R"({"result":{"created":"yes"}})").find("created is no boolean") != std::string::npos);
    CHECK(last(watches, R"({"result":true})").find("result is no object") != std::string::npos);
    CHECK(last(watches, R"({"result":{}} x)").find("syntax") != std::string::npos);
    CHECK(last(watches, R"({"result":{"x":)" + std::string(50, '[')).find("deep") != std::string::npos);
    // An entry that was complete before the error is handed out.
    CHECK(read(ranges, R"({"kvs":[{"key":"YQ==","mod_revision":"1"},7]})", whole).front() == "put a= 0/1/0");
}

TEST_CASE("frames: a value over the limit is not kept, its neighbours are; a key over it ends the request") {
    const std::string large(2000, 'x');
    for (const std::size_t piece : {std::size_t(1), std::size_t(100), whole}) {
        CHECK(read(ranges, range(9, {pair("a", "1", 2, 3), pair("b", large, 2, 4), pair("c", "3", 2, 5)}), piece) ==
              lines{"put a=1 2/3/1", "put b=(too large) 2/4/1", "put c=3 2/5/1", "message 9 of 77 entries 3"});
        CHECK(read(ranges, range(9, {pair(large, "1", 2, 3)}), piece).back().find("a key over the limit") !=
              std::string::npos);
    }
}

// The same fault as with slices in sliced_decode_test.cpp: boostorg/json#876. (Without NDEBUG an assertion fails;
// otherwise it may go unnoticed.)
TEST_CASE("frames: a piece may end within a character or an escape, and much follow") {
    const std::string head = R"({"error":{"message":")";
    for (const std::string what : {"\xe4\xb8\xad", "\xf0\x9f\x98\x80", "\\u4e2d"}) {
        std::string text = head;
        for (int i = 0; i < 5'000; ++i) text += what;
        text += "\"}}";
        const lines expected = read(watches, text, whole);
        REQUIRE(expected.front().find(" failed ") != std::string::npos);
        for (std::size_t piece = head.size() + 6'000; piece < head.size() + 6'008; ++piece)
            CHECK(read(watches, text, piece) == expected);
    }
}

TEST_CASE("frames: however the input is cut, the reader finds the same, and never more than was sent") {
    std::mt19937 random(testing::fuzz_seed(20261123));
    const std::string good = created(5) +
                             events(6, {put(pair("/s/a", "{}", 2, 6), pair("/s/a", "[1]", 2, 3)), gone("/s/b", 6)}) +
                             progress(7) + range(9, {pair("/s/a", "{}", 2, 6)}, R"(,"more":true)");
    const auto pick = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
    const std::string alphabet = R"({}[]",:\ntrue0-"keyvalue")";
    for (std::size_t round = 0; round < testing::fuzz_rounds(4000); ++round) {
        std::string text = good;
        for (std::size_t changes = pick(5); changes != 0; --changes) {
            const std::size_t at = pick(text.size());
            switch (pick(4)) {
            case 0: text[at] = static_cast<char>(pick(256)); break;
            case 1: text.erase(at, pick(20) + 1); break;
            case 2: text.insert(at, 1, alphabet[pick(alphabet.size())]); break;
            default: text.insert(at, good.substr(pick(good.size()), pick(60))); break;
            }
            if (text.empty()) text = "x";
        }
        const auto kind = pick(2) == 0 ? watches : ranges;
        lines at_once = read(kind, text, whole), pieces = read(kind, text, pick(40) + 1);
        const auto comparable = [](lines& all) { // where an error is noticed depends on the pieces
            if (all.empty()) return;
            const auto where = all.back().find(" before byte ");
            if (where != std::string::npos) all.back().resize(0);
        };
        comparable(at_once);
        comparable(pieces);
        CAPTURE(text);
        REQUIRE(at_once == pieces);
        REQUIRE(at_once.size() <= text.size());
    }
}
