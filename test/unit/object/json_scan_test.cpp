// The block scan against the plainest scan there is: byte by byte, one flag, one counter.
#include "object/json_block.hpp"
#include "object/json_scan.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace informer::detail;

namespace {

std::optional<std::string> content_of(std::string_view literal, std::string& room) {
    std::string_view content;
    const char* const end = literal.data() + literal.size();
    if (read_string(literal.data() + 1, end, room, content) != end) return std::nullopt;
    return std::string(content);
}

/// Where the container that begins at the first byte ends; npos when it does not.
std::size_t reference_end(std::string_view s) {
    std::size_t depth = 0;
    bool in_string = false;
    for (std::size_t i = 0; i < s.size(); ++i) {
        const char c = s[i];
        if (in_string) {
            if (c == '\\')
                ++i;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            ++depth;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            return i + 1;
        }
    }
    return std::string_view::npos;
}

/// Feeds the pieces one after the other, each from memory of exactly its size, so that ASan sees a read beyond it.
std::size_t scanned_end(const std::vector<std::string_view>& pieces) {
    value_scanner scanner;
    std::size_t before = 0;
    bool begun = false;
    for (const std::string_view piece : pieces) {
        if (piece.empty()) continue;
        const std::vector<char> exact(piece.begin(), piece.end());
        if (!begun) begun = scanner.begin(exact.front());
        const char* const end = exact.data() + exact.size();
        const char* const stop = scanner.scan(exact.data(), end);
        if (scanner.complete()) return before + static_cast<std::size_t>(stop - exact.data());
        if (stop != end) return 0; // never right
        before += piece.size();
    }
    return std::string_view::npos;
}

constexpr std::string_view structural = "\"\"\"\"\\\\\\{}[]{}[],:{[";

/// Text of bytes that matter, in runs, with stretches of others between them.
std::string hostile_text(std::mt19937& random, std::size_t size) {
    std::string s = random() % 2 ? "{" : "[";
    while (s.size() < size) {
        switch (random() % 6) {
        case 0: s.append(random() % 5, '\\'); break;
        case 1: s.append(random() % 70, static_cast<char>(random() % 256)); break;
        case 2: s += "\"\\\\\\\"\""; break;
        case 3: s += "\"{[\\\\\""; break;
        default: s += structural[random() % structural.size()];
        }
    }
    s.resize(size);
    return s;
}

/// What documents look like: balanced, with everything that misleads inside of its strings.
std::string document(std::mt19937& random, unsigned depth) {
    std::string s = random() % 2 ? "{" : "[";
    const char close = s[0] == '{' ? '}' : ']';
    for (unsigned n = static_cast<unsigned>(random() % 5); n > 0; --n) {
        if (depth > 0 && random() % 2) {
            s += document(random, depth - 1);
        } else {
            s += '"';
            for (unsigned k = static_cast<unsigned>(random() % 40); k > 0; --k) {
                switch (random() % 8) {
                case 0: s += "\\\""; break;
                case 1: s += "\\\\"; break;
                case 2: s += "}]{["[random() % 4]; break;
                default: s += static_cast<char>('a' + random() % 26);
                }
            }
            s += '"';
        }
        s += ',';
    }
    return s + close;
}

block_bits reference_bits(const char* p) {
    block_bits b;
    for (std::size_t i = 0; i < block_size; ++i) {
        const std::uint64_t bit = std::uint64_t(1) << i;
        if (p[i] == '"') b.quotes |= bit;
        if (p[i] == '\\') b.backslashes |= bit;
        if (p[i] == '{' || p[i] == '[') b.opening |= bit;
        if (p[i] == '}' || p[i] == ']') b.closing |= bit;
    }
    return b;
}

bool wide() {
#if defined(INFORMER_AVX2)
    return scan_with_avx2;
#else
    return false;
#endif
}

block_bits bits_avx2(const char* p) {
#if defined(INFORMER_AVX2)
    return avx2_blocks::bits(p);
#else
    return plain_blocks::bits(p);
#endif
}

/// While an object of it lives, scans use only what every machine of the architecture has.
class plainly {
public:
    explicit plainly([[maybe_unused]] bool really) {
#if defined(INFORMER_AVX2)
        if (really) scan_with_avx2 = false;
#endif
    }
    ~plainly() {
#if defined(INFORMER_AVX2)
        scan_with_avx2 = before_;
#endif
    }

private:
    bool before_ = wide();
};

} // namespace

TEST_CASE("every byte has its place in a block, on every machine", "[scan]") {
    std::mt19937 random(1);
    std::vector<char> bytes(block_size * 2);
    for (int round = 0; round < 2000; ++round) {
        for (char& c : bytes)
            c = static_cast<char>(random() % 2 ? random() % 256
                                               : static_cast<unsigned char>(structural[random() % structural.size()]));
        // Each value at each place comes up; alignment changes with the offset.
        bytes[static_cast<std::size_t>(round) % block_size] = static_cast<char>(round / 7 % 256);
        const char* const p = bytes.data() + round % static_cast<int>(block_size);
        REQUIRE(block_bits_portable(p) == reference_bits(p));
        REQUIRE(plain_blocks::bits(p) == reference_bits(p));
        if (wide()) REQUIRE(bits_avx2(p) == reference_bits(p));
    }
    for (unsigned value = 0; value < 256; ++value) {
        std::fill(bytes.begin(), bytes.end(), static_cast<char>(value));
        REQUIRE(block_bits_portable(bytes.data()) == reference_bits(bytes.data()));
        REQUIRE(plain_blocks::bits(bytes.data()) == reference_bits(bytes.data()));
        if (wide()) REQUIRE(bits_avx2(bytes.data()) == reference_bits(bytes.data()));
    }
}

TEST_CASE("escapes, string insides and counts of a block are those of a walk over its bits", "[scan]") {
    std::mt19937_64 random(2);
    for (int round = 0; round < 20'000; ++round) {
        // Dense, sparse, and long runs.
        std::uint64_t bits = random();
        if (round % 3 == 1) bits &= random() & random();
        if (round % 3 == 2) bits |= random() | random() | random();
        const bool carry_in = random() % 2 != 0;
        std::uint64_t escaped = 0, inside = 0;
        bool escapes = carry_in, in = false;
        unsigned count = 0;
        for (unsigned i = 0; i < 64; ++i) {
            const bool set = bits >> i & 1;
            if (escapes) escaped |= std::uint64_t(1) << i;
            escapes = set && !escapes;
            in ^= set;
            if (in) inside |= std::uint64_t(1) << i;
            count += set;
        }
        bool carry = carry_in;
        REQUIRE(escaped_bytes(bits, carry) == escaped);
        REQUIRE(carry == escapes);
        REQUIRE(prefix_parity(bits) == inside);
        REQUIRE(count_bits(bits) == count);
#if defined(INFORMER_AVX2)
        if (wide()) REQUIRE(avx2_blocks::parity(bits) == inside);
        if (wide()) REQUIRE(avx2_blocks::ones(bits) == count);
#endif
    }
}

TEST_CASE("the block scan ends where the byte-wise one does, at every split", "[scan]") {
    const plainly processor(GENERATE(false, true));
    std::mt19937 random(3);
    for (int round = 0; round < 400; ++round) {
        std::string text = round % 2 ? hostile_text(random, random() % 260 + 1) : document(random, 4);
        text.resize(std::min<std::size_t>(text.size(), 400));
        text += "}]\"}]} \\\"]}";
        const std::size_t end = reference_end(text);
        REQUIRE(scanned_end({text}) == end);
        const std::string_view s = text;
        for (std::size_t i = 1; i < s.size(); ++i) {
            const std::size_t k = i + random() % (s.size() - i);
            const bool same = scanned_end({s.substr(0, i), s.substr(i)}) == end &&
                              scanned_end({s.substr(0, i), s.substr(i, k - i), s.substr(k)}) == end;
            if (!same) FAIL("split at " << i << " and " << k << " of " << text);
        }
    }
}

TEST_CASE("the block scan ends where the byte-wise one does, at every alignment", "[scan]") {
    const plainly processor(GENERATE(false, true));
    std::mt19937 random(4);
    std::vector<char> room(1024 + block_size);
    for (int round = 0; round < 300; ++round) {
        std::string text = round % 2 ? hostile_text(random, random() % 900 + 1) : document(random, 5);
        text.resize(std::min<std::size_t>(text.size(), 900));
        text += "\"}]}]}]}]";
        const std::size_t end = reference_end(text);
        for (std::size_t offset = 0; offset < block_size; ++offset) {
            std::memcpy(room.data() + offset, text.data(), text.size());
            value_scanner scanner;
            REQUIRE(scanner.begin(text.front()));
            const char* const from = room.data() + offset;
            const char* const stop = scanner.scan(from, from + text.size());
            const std::size_t found =
                scanner.complete() ? static_cast<std::size_t>(stop - from) : std::string_view::npos;
            if (found != end) FAIL("at offset " << offset << ": " << text);
        }
    }
}

TEST_CASE("the depth of a container has no limit in the scan", "[scan]") {
    for (const std::size_t depth : {1u, 63u, 64u, 65u, 200u, 100'000u}) {
        const std::string text = std::string(depth, '[') + std::string(depth, ']') + "]]]]";
        CHECK(scanned_end({text}) == 2 * depth);
        CHECK(scanned_end({std::string_view(text).substr(0, depth + 1), std::string_view(text).substr(depth + 1)}) ==
              2 * depth);
    }
}

TEST_CASE("escapes are read wherever they stand", "[json_scan]") {
    const std::pair<std::string_view, std::string_view> parts[] = {
        {"a", "a"},
        {"words without any", "words without any"},
        {R"(\")", "\""},
        {R"(\\)", "\\"},
        {R"(\/)", "/"},
        {R"(\n)", "\n"},
        {R"(\b\f\r\t)", "\b\f\r\t"},
        {R"(\u003c)", "<"},
        {R"(\u00e9)", "\xc3\xa9"},
        {R"(\u20AC)", "\xe2\x82\xac"},
        {R"(\ud83d\ude00)", "\xf0\x9f\x98\x80"},
        {"\xc3\xa9", "\xc3\xa9"},
    };
    std::mt19937 random(11);
    std::string room;
    for (int i = 0; i < 20'000; ++i) {
        std::string literal = "\"", text;
        for (auto n = random() % 24; n > 0; --n) {
            const auto& [written, meant] = parts[random() % std::size(parts)];
            literal.append(written);
            text.append(meant);
        }
        literal += '"';
        REQUIRE(unescape(literal) == text);
        REQUIRE(content_of(literal, room) == text);
        // Invalid escapes, anywhere.
        for (const std::string_view wrong :
             {R"(\x)", R"(\)", R"(\u12)", R"(\u12g4)", R"(\ud83d)", R"(\ude00)", R"(\ud83d\u0041)"}) {
            const std::string broken = literal.substr(0, literal.size() - 1) + std::string(wrong) + '"';
            REQUIRE_FALSE(unescape(broken));
            REQUIRE_FALSE(content_of(broken, room));
        }
    }
}
