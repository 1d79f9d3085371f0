// The same history, read in two of three ways (by differences, by our reader, by Boost.JSON's parser): the same
// documents, the same errors.
#include "text_difference_scene.hpp"

#include "object/detail/text_difference.hpp"
#include "support/fuzz.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

using namespace text_difference_test;
using informer::testing::drain;
using informer::testing::fuzz_rounds;
using informer::testing::fuzz_seed;

namespace {

enum class ways { difference_and_reader, reader_and_parser };

/// The same history in a pool with templates and in one without, or in one without and in one that uses the parser
/// only.
class pair_of_pools {
public:
    explicit pair_of_pools(ways w, const decode_options& options, std::size_t slots)
        : with_(make_pool(w == ways::difference_and_reader, options)),
          without_(w == ways::difference_and_reader ? make_pool(false, options) : make_parser_pool(options)), a_(slots),
          b_(slots), texts_(slots) {}

    void decode(std::size_t slot, const std::string& json, bool with_previous) {
        failure f, g;
        const object none;
        object x = with_->decode(json, with_previous ? a_[slot] : none, f);
        object y = without_->decode(json, with_previous ? b_[slot] : none, g);
        if (f.code() != g.code() || f.message() != g.message() || bool(x) != bool(y) ||
            (x && x.to_json() != y.to_json())) {
            UNSCOPED_INFO("text " << json);
            UNSCOPED_INFO("with: " << f.message() << " " << (x ? x.to_json() : std::string()));
            UNSCOPED_INFO("without: " << g.message() << " " << (y ? y.to_json() : std::string()));
            FAIL("the ways differ");
        }
        if (!x) return;
        ++decoded_;
        // (With fillers each pool decides by itself what to intern at the moment: then one of them may share more.)
        if (with_previous && a_[slot] && x && fillers_.empty() && ++checked_ % 4 == 0) {
            const std::uint64_t with = apart(a_[slot].value(), x.value()), without = apart(b_[slot].value(), y.value());
            if (with > without) {
                UNSCOPED_INFO("text " << json << " after " << texts_[slot]);
                FAIL("versions share less: " << with << " places, without " << without);
            }
        }
        if (with_previous && x.same_as(a_[slot]) != y.same_as(b_[slot])) {
            UNSCOPED_INFO("text " << json << " after " << texts_[slot]);
            FAIL("one way calls it unchanged, the other does not");
        }
        a_[slot] = std::move(x);
        b_[slot] = std::move(y);
        texts_[slot] = json;
    }
    void drop(std::size_t slot) { a_[slot] = b_[slot] = object(); }
    /// Adds a document that stays: in a large pool paths stop being interned, and begin again.
    void fill(const std::string& json) {
        failure f;
        fillers_.push_back(with_->decode(json, object(), f));
        fillers_.push_back(without_->decode(json, object(), f));
        if (fillers_.size() > 40'000) fillers_.erase(fillers_.begin(), fillers_.begin() + 20'000);
    }
    void begin_generation() {
        with_->begin_generation();
        without_->begin_generation();
    }
    void finish() {
        std::fill(a_.begin(), a_.end(), object());
        std::fill(b_.begin(), b_.end(), object());
        fillers_.clear();
        drain(*with_);
        CHECK(with_->statistics().nodes == 0);
        CHECK(with_->statistics().referenced_nodes == 0);
        CHECK(with_->statistics().objects == 0);
    }
    const std::string& text(std::size_t slot) const { return texts_[slot]; }
    std::size_t slots() const { return texts_.size(); }
    std::uint64_t decoded() const { return decoded_; }
    document_pool& with() { return *with_; }
    document_pool& without() { return *without_; }

private:
    std::shared_ptr<document_pool> with_, without_;
    std::vector<object> a_, b_;
    std::vector<std::string> texts_;
    std::vector<object> fillers_;
    /// Places at which two versions read alike and are not the same.
    static std::uint64_t apart(value a, value b) {
        if (a.same_as(b)) return 0;
        std::uint64_t n = 0;
        if (a.kind() == value_kind::object && b.kind() == value_kind::object) {
            for (auto [key, member] : b.members())
                if (const value old = a[key.view()]; old.exists()) n += apart(old, member);
        } else if (a.kind() == value_kind::array && b.kind() == value_kind::array) {
            for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) n += apart(a[i], b[i]);
        }
        return n + (n == 0 && a.to_json() == b.to_json() ? 1 : 0);
    }
    std::uint64_t decoded_ = 0, checked_ = 0;
};

class mutator {
public:
    explicit mutator(unsigned seed) : random_(seed) {}
    std::size_t pick(std::size_t n) { return n == 0 ? 0 : random_() % n; }

    /// Small documents in which everything occurs.
    std::string document() {
        std::string s = "{";
        if (pick(3) > 0) s += R"("kind":"K","apiVersion":"v1",)";
        s += R"("metadata":{"name":")" + std::to_string(pick(50)) + R"(-name","labels":{"app":)" + scalar() +
             R"(,"k":)" + scalar() + "}";
        if (pick(2))
            s += R"(,"managedFields":[{"manager":)" + scalar() + R"(,"fieldsV1":{"f:a":{"k:{\"uid\":\")" +
                 std::to_string(pick(1000)) + R"(\"}":{}},"f:b":[1,)" + scalar() + R"(]}}])";
        s += R"(},"spec":{"a":)" + value(3) + R"(,"b":[)" + value(2) + "," + value(2) + R"(],"n":)" + scalar() +
             R"(},"status":)" + value(3) + R"(,"last":)" + scalar() + "}";
        return s;
    }
    std::string change_scalars(std::string s) {
        for (std::size_t n = pick(6); n > 0; --n) {
            const auto v = a_value(s);
            if (v.second > v.first && s[v.first] != '{' && s[v.first] != '[')
                s.replace(v.first, v.second - v.first, good_scalar());
        }
        if (pick(8) == 0) spell_otherwise(s);
        return s;
    }
    std::string change(std::string s, const std::string& other) {
        for (std::size_t n = 1 + pick(pick(4) == 0 ? 12 : 3); n > 0; --n) change_once(s, other);
        return s;
    }

    /// The same text, with a letter as its escape.
    void spell_otherwise(std::string& s) {
        const std::size_t at = s.find_first_of("aeinotu", pick(s.size()));
        if (at == std::string::npos || s[at - 1] == '\\' || s.rfind('"', at) == std::string::npos) return;
        const char* const digits = "0123456789abcdef";
        const auto c = static_cast<unsigned char>(s[at]);
        s.replace(at, 1, std::string("\\u00") + digits[c >> 4] + digits[c & 15]);
    }

private:
    void change_once(std::string& s, const std::string& other) {
        if (s.empty()) s = "{}";
        switch (pick(16)) {
        case 0: s[pick(s.size())] = byte(); return;
        case 1: s.insert(s.begin() + static_cast<std::ptrdiff_t>(pick(s.size() + 1)), byte()); return;
        case 2: s.erase(pick(s.size()), 1); return;
        case 3:
            if (pick(8) == 0) s.resize(pick(s.size()));
            return;
        case 4: s.insert(token(s), pick(2) ? " " : "\n\t"); return;
        case 5: { // a piece of another text
            const std::size_t from = pick(other.size()), n = pick(40);
            s.insert(pick(s.size()), other.substr(from, n));
            return;
        }
        case 6: { // a member twice, or another order
            const auto m = member(s);
            if (m.second > m.first) s.insert(m.first, s.substr(m.first, m.second - m.first) + ",");
            return;
        }
        case 7: {
            const auto m = member(s);
            if (m.second > m.first)
                s.erase(m.first, m.second - m.first + (m.second < s.size() && s[m.second] == ',' ? 1 : 0));
            return;
        }
        case 8: {
            const auto m = member(s);
            s.insert(m.first, "\"new" + std::to_string(pick(4)) + "\":" + value(2) + ",");
            return;
        }
        case 9: { // inside of a string
            const auto v = a_value(s);
            if (v.second > v.first + 1 && s[v.first] == '"')
                s.insert(v.first + 1 + pick(v.second - v.first - 1), piece());
            return;
        }
        default: { // the value of a member
            const auto v = a_value(s);
            if (v.second > v.first) s.replace(v.first, v.second - v.first, pick(6) == 0 ? value(2) : scalar());
        }
        }
    }
    char byte() {
        static constexpr std::string_view likely = "\"\\{}[],:0123456789-+.eEtfn u/\n\x01\x7f\xc3\xa4\xff";
        return pick(4) ? likely[pick(likely.size())] : static_cast<char>(pick(256));
    }
    std::size_t token(const std::string& s) {
        const std::size_t at = s.find_first_of("{}[],:", pick(s.size()));
        return at == std::string::npos ? s.size() : at + pick(2);
    }
    /// From the quote of a key to behind its value, roughly.
    std::pair<std::size_t, std::size_t> member(const std::string& s) {
        const auto v = a_value(s);
        const std::size_t colon = v.first == 0 ? std::string::npos : s.rfind(':', v.first);
        const std::size_t key = colon == std::string::npos || colon < 2 ? std::string::npos : s.rfind('"', colon - 2);
        return key == std::string::npos ? std::pair(v.first, v.first) : std::pair(key, v.second);
    }
    std::pair<std::size_t, std::size_t> a_value(const std::string& s) {
        std::size_t at = s.find_first_of(":[,", pick(s.size()));
        if (at == std::string::npos || ++at >= s.size()) return {0, 0};
        std::size_t end = at;
        if (s[at] == '"') {
            for (++end; end < s.size() && s[end] != '"'; ++end)
                if (s[end] == '\\') ++end;
            ++end;
        } else if (s[at] == '{' || s[at] == '[') {
            int depth = 0;
            do {
                depth += s[end] == '{' || s[end] == '[' ? 1 : s[end] == '}' || s[end] == ']' ? -1 : 0;
                ++end;
            } while (depth > 0 && end < s.size());
        } else {
            end = std::min(s.find_first_of(",]}", at), s.size());
        }
        return {at, std::min(end, s.size())};
    }
    std::string piece() {
        static const char* const pieces[] = {"a",
                                             "xyz",
                                             "\\n",
                                             "\\\"",
                                             "\\u00e4",
                                             "\\ud83d\\ude00",
                                             "\\ud800",
                                             "\\udc00",
                                             "\\x",
                                             "\\u12",
                                             "ä",
                                             "日本",
                                             "😀",
                                             "\xc3",
                                             "\xed\xa0\x80",
                                             "\xf4\x90\x80\x80",
                                             "\x1f",
                                             "\t",
                                             "\\/",
                                             "\\\\",
                                             "a rather long piece of text that goes over sixteen bytes",
                                             "\\u0000",
                                             "\x7f"};
        return pieces[pick(std::size(pieces))];
    }
    std::string scalar() {
        static const char* const scalars[] = {
            "0",
            "-0",
            "1",
            "12",
            "123456789",
            "268435456",
            "-268435457",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551616",
            "1.5",
            "1.50",
            "-1e3",
            "1E+05",
            "1e400",
            "1e-400",
            "0.1e1",
            "01",
            "1.",
            ".5",
            "-",
            "+1",
            "1e",
            "1e+",
            "0x1",
            "1a",
            "true",
            "false",
            "null",
            "True",
            "tru",
            "nulll",
            "NaN",
            "Infinity",
            "\"\"",
            "\"a\"",
            "\"ab\"",
            "\"abc\"",
            "\"abcd\"",
            "\"2024-05-06T07:08:09Z\"",
            "\"2024-02-30T07:08:09Z\"",
            "\"123e4567-e89b-12d3-a456-426614174000\"",
            "\"123E4567-e89b-12d3-a456-426614174000\"",
            "{}",
            "[]",
            "{ }",
            "[ ]",
            "\"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"",
            "1e99999999999999999999",
            "123456789012345678.5"};
        if (pick(3) == 0) return "\"" + piece() + (pick(2) ? piece() : "") + "\"";
        if (pick(3) == 0) return "\"text number " + std::to_string(pick(300)) + "\"";
        if (pick(3) == 0) return std::to_string(pick(1000));
        return scalars[pick(std::size(scalars))];
    }
    std::string good_scalar() {
        return pick(2) ? std::to_string(pick(100)) : "\"value " + std::to_string(pick(100)) + "\"";
    }
    std::string value(int depth) {
        if (depth == 0 || pick(3) == 0) return pick(12) ? good_scalar() : scalar();
        std::string s;
        if (pick(2)) {
            for (std::size_t n = pick(4); n > 0; --n) s += (s.empty() ? "" : ",") + value(depth - 1);
            return "[" + s + "]";
        }
        static const char* const keys[] = {"a", "name", "long key", "k\\u0065y", "ü", "x", "metadata", "managedFields"};
        for (std::size_t n = pick(4); n > 0; --n)
            s += (s.empty() ? "\"" : ",\"") + std::string(keys[pick(std::size(keys))]) + "\":" + value(depth - 1);
        return "{" + s + "}";
    }
    std::mt19937 random_;
};

void fuzz(const decode_options& options, unsigned with_seed, std::size_t n, bool pods,
          ways w = ways::difference_and_reader) {
    const tireless tries;
    pair_of_pools pools(w, options, 12);
    mutator m(fuzz_seed(with_seed));
    std::vector<std::string> sources;
    for (unsigned i = 0; sources.size() < 4; ++i) {
        const std::string json = pods ? pod(i * 7, i % 3, i % 2 == 0, i % 4 != 0) : m.document();
        failure f;
        if (pools.without().decode(json, object(), f)) sources.push_back(json);
    }
    for (std::size_t i = 0; i < fuzz_rounds(n); ++i) {
        // One error hides all others, so good documents come in between.
        const std::size_t slot = m.pick(pools.slots());
        const std::string& source = sources[m.pick(sources.size())];
        if (i % 2 == 0) {
            pools.decode(slot, m.change_scalars(source), m.pick(5) != 0);
        } else {
            const std::string& from = m.pick(4) == 0 && !pools.text(slot).empty() ? pools.text(slot) : source;
            const std::string json = m.change(from, sources[m.pick(sources.size())]);
            if (json.size() < 20'000) pools.decode(slot, json, m.pick(5) != 0);
        }
        if (m.pick(40) == 0) pools.drop(m.pick(pools.slots()));
        if (m.pick(2000) == 0) pools.begin_generation();
        if (m.pick(200) == 0) drain(pools.with());
    }
    const pool_statistics s = pools.with().statistics();
    CHECK(pools.decoded() > fuzz_rounds(n) / 3);
    if (w == ways::difference_and_reader && !std::getenv("INFORMER_FUZZ_SEED"))
        CHECK(s.template_hits > fuzz_rounds(n) / 15); // chance decides how alike they are
    CHECK(s.templates <= 8);
    CHECK(pools.without().statistics().template_hits == 0);
    pools.finish();
}

} // namespace

TEST_CASE("by differences or not: the same documents and the same errors", "[pool][difference]") {
    SECTION("small documents") {
        fuzz(decode_options(), 1, 12'000, false);
    }
    SECTION("pods") {
        fuzz(decode_options().type("v1", "Pod"), 2, 3'000, true);
    }
    SECTION("managedFields kept") {
        fuzz(decode_options().keep_managed_fields(), 3, 6'000, false);
    }
    SECTION("hardly any depth") {
        fuzz(decode_options().max_depth(5), 4, 6'000, false);
    }
    SECTION("a projection that drops") {
        fuzz(decode_options().project(
                 projection::drop({"/spec/a", "/status", "/metadata/labels/k", "/spec/b/*/name", "/last"})),
             5, 6'000, false);
        fuzz(decode_options().project(
                 projection::drop({"/spec/containers/*/env", "/metadata/annotations", "/status/conditions"})),
             6, 1'000, true);
    }
    SECTION("a projection that keeps") {
        fuzz(
            decode_options().type("v1", "K").project(projection::keep({"/spec/a/name", "/metadata/labels", "/spec/n"})),
            7, 6'000, false);
        fuzz(decode_options().project(
                 projection::keep({"/spec/nodeName", "/status/phase", "/status/conditions/*/type"})),
             8, 1'000, true);
    }
}

// Where interning stops and begins again, equal values exist twice. Keys that no other document has are not interned,
// nor are objects with such keys. Objects with very many members are searched in another way. And a text may be spelled
// in several ways.
TEST_CASE("by differences or not, while interning stops and begins: the same documents, and nothing is left",
          "[pool][difference]") {
    const tireless tries;
    const unsigned seed = GENERATE(31u, 32u, 33u, 34u);
    pair_of_pools pools(ways::difference_and_reader, decode_options(), 24);
    mutator m(fuzz_seed(seed));
    std::uint64_t made = 0;
    const auto value = [&](std::size_t kinds) {
        std::string s = "\"a value of some length, number " + std::to_string(m.pick(kinds)) + '"';
        if (m.pick(3) == 0) m.spell_otherwise(s);
        return s;
    };
    const auto members = [&](std::size_t n) {
        std::string s;
        const bool own = m.pick(4) == 0; // keys that nobody else has
        for (std::size_t i = 0; i < n; ++i)
            s += (s.empty() ? "\"" : ",\"") + (own ? "own-" + std::to_string(++made) : "k" + std::to_string(i)) +
                 "\":" + (m.pick(4) == 0 && n < 10 ? "{\"k0\":" + value(20) + "}" : value(20));
        return s;
    };
    std::string data = members(2);
    for (std::size_t i = 0; i < fuzz_rounds(1'200); ++i) {
        if (i % 100 == 0) {
            const std::size_t kinds = m.pick(2) ? 100 : 1'000'000; // of values: they repeat, or they do not
            for (unsigned n = 0; n < 4'000; ++n)
                pools.fill(R"({"metadata":{"name":"f)" + std::to_string(++made) + R"("},"data":{"k0":)" + value(kinds) +
                           "}}");
        }
        const std::size_t slot = m.pick(pools.slots());
        if (m.pick(3) == 0) data = members(std::array<std::size_t, 5>{1, 2, 3, 20, 300}[m.pick(5)]);
        std::string text = R"({"metadata":{"name":"n)" + std::to_string(slot) + R"("},"data":{)" + data + "}" +
                           (m.pick(2) ? R"(,"g":1)" : "") + (m.pick(4) == 0 ? R"(,"h":[1,2])" : "") + "}";
        if (m.pick(3) == 0) m.spell_otherwise(text);
        pools.decode(slot, text, m.pick(5) != 0);
        if (m.pick(40) == 0) pools.drop(m.pick(pools.slots()));
        if (m.pick(100) == 0) drain(pools.with());
    }
    CHECK(pools.with().statistics().template_hits > fuzz_rounds(1'200) / 4);
    pools.finish();
}

// managedFields are kept: text that is skipped is checked less strictly.
TEST_CASE("by our reader or by the parser: the same documents and the same errors", "[pool]") {
    const auto fuzz_both = [](decode_options options, unsigned seed, std::size_t n, bool pods) {
        fuzz(options.keep_managed_fields(), seed, n, pods, ways::reader_and_parser);
    };
    SECTION("small documents") {
        fuzz_both(decode_options(), 11, 12'000, false);
    }
    SECTION("pods") {
        fuzz_both(decode_options().type("v1", "Pod"), 12, 2'000, true);
    }
    SECTION("hardly any depth") {
        fuzz_both(decode_options().max_depth(4), 13, 6'000, false);
    }
    SECTION("projections") {
        fuzz_both(decode_options().project(projection::drop({"/spec/a", "/status", "/metadata/labels/k", "/last"})), 14,
                  4'000, false);
        fuzz_both(decode_options().project(projection::keep({"/spec/a/name", "/metadata/labels", "/spec/n"})), 15,
                  4'000, false);
    }
}
