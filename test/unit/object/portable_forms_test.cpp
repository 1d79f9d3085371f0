// The code for processors without SSE2 gives the same answers as the code that runs here.
#include "object/detail/fingerprints.hpp"
#include "object/detail/packed.hpp"
#include "object/detail/text_scan.hpp"
#include "object/json_block.hpp"
#include "object/json_scan.hpp"
#include "scan_answers.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "scan_answers.ipp"

namespace {

using namespace informer;

std::string answers(std::string_view text, std::size_t cut) {
    const std::vector<char> exact(text.begin(), text.end()); // ends where the sanitizer sees it
    const std::string_view there(exact.data(), exact.size());
    const std::string portable = portable_answers(there, cut);
    const std::string usual = detail::all_answers(there, cut);
    CAPTURE(text, cut);
    REQUIRE(portable == usual);
#if defined(INFORMER_AVX2)
    const bool before = std::exchange(detail::scan_with_avx2, false);
    const std::string plain = detail::all_answers(there, cut);
    detail::scan_with_avx2 = before;
    REQUIRE(plain == usual);
#endif
    return usual;
}

class text_maker {
public:
    std::string json_like(std::size_t most) {
        static constexpr std::string_view pieces[] = {"},{",
                                                      "}",
                                                      ",",
                                                      "{",
                                                      "[",
                                                      "]",
                                                      ":",
                                                      "\"",
                                                      "\"",
                                                      "\\\"",
                                                      "\\\\",
                                                      "\\",
                                                      "\\u00e9",
                                                      "\\ud83d\\ude00",
                                                      "\\n",
                                                      "\x01",
                                                      "\x1f",
                                                      "\x20",
                                                      "\x7f",
                                                      "\x80",
                                                      "\xff",
                                                      "\xc3\xa9",
                                                      "\xe2\x82\xac",
                                                      "\xf0\x9f\x98\x80",
                                                      "7"};
        std::string s;
        const std::size_t size = random_() % (most + 1), rare = 1 + random_() % 40;
        if (random_() % 4 != 0) s += "\"{["[random_() % 3];
        while (s.size() < size) {
            if (random_() % rare == 0)
                s += pieces[random_() % std::size(pieces)];
            else
                s += static_cast<char>('a' + random_() % 26);
        }
        if (random_() % 2) s += "\"}]"[random_() % 3];
        return s;
    }
    std::string number() {
        std::string s = random_() % 3 == 0 ? "-" : "";
        digits(s, random_() % 21);
        if (random_() % 2) {
            s += '.';
            digits(s, random_() % 20);
        }
        if (random_() % 8 == 0) {
            s += "eE"[random_() % 2];
            digits(s, random_() % 4);
        }
        return s;
    }
    /// Changes one byte, perhaps.
    std::string spoiled(std::string s) {
        if (random_() % 2) s[random_() % s.size()] = static_cast<char>(random_() % 256);
        return s;
    }
    std::string timestamp() {
        std::string s = "20";
        for (const char c : std::string_view("00-00-00T00:00:00Z")) s += c == '0' ? digit() : c;
        return s;
    }
    std::string uuid() {
        std::string s(36, '-');
        for (std::size_t i = 0; i < s.size(); ++i)
            if (i != 8 && i != 13 && i != 18 && i != 23) s[i] = "0123456789abcdef"[random_() % 16];
        return s;
    }
    std::size_t place(const std::string& s) { return random_() % (s.size() + 1); }

private:
    char digit() { return static_cast<char>('0' + random_() % 10); }
    void digits(std::string& s, std::size_t n) {
        for (; n > 0; --n) s += digit();
    }
    std::mt19937 random_{11};
};

} // namespace

TEST_CASE("portable forms say the same of JSON as those of this machine", "[scan][portable]") {
    text_maker make;
    for (int i = 0; i < 10'000; ++i) {
        const std::string text = make.json_like(i % 10 == 0 ? 400 : 60);
        answers(text, make.place(text));
    }
}

TEST_CASE("portable forms say the same of each byte at each place as those of this machine", "[scan][portable]") {
    const std::string text = "\"" + std::string(38, 'x') + "\"";
    for (std::size_t at = 1; at + 1 < text.size(); at += 3) {
        for (unsigned value = 0; value < 256; ++value) {
            std::string one = text;
            one[at] = static_cast<char>(value);
            answers(one, 1);
        }
    }
}

TEST_CASE("portable forms find what lies between objects at each place", "[scan][portable]") {
    for (std::size_t at = 0; at < 140; ++at) {
        for (const std::string_view what : {"},{", "}},{{", "},,{", "}{},{", "},"}) {
            const std::string text = std::string(at, 'x') + std::string(what) + std::string(at % 5, 'x');
            const std::string said = answers(text, 0);
            const std::size_t found = text.find("},{");
            const std::size_t expected = found == std::string::npos ? text.size() : found;
            REQUIRE(said.starts_with("between objects: " + std::to_string(expected) + "\n"));
        }
    }
}

TEST_CASE("portable forms read the numbers, timestamps and UUIDs that those of this machine read", "[scan][portable]") {
    text_maker make;
    for (int i = 0; i < 5'000; ++i) {
        const std::string number = make.number();
        answers(number, make.place(number));
        if (!number.empty()) answers(make.spoiled(number), 0);
        answers(make.spoiled(make.timestamp()), 0);
        answers(make.spoiled(make.uuid()), 0);
    }
}
