// How text that others sent is shown.
#include "root/one_line.hpp"
#include "root/utf8.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>

using informer::detail::has_controls;
using informer::detail::one_line;
using informer::detail::printable;

TEST_CASE("one_line: each control character becomes a space, and nothing else changes") {
    CHECK(one_line("a\nb\r\tc\x1b[31m\x7f") == "a b  c [31m ");
    CHECK(one_line("über ✓") == "über ✓");
    CHECK(has_controls("a\x7f"));
    CHECK_FALSE(has_controls("über ✓"));
}

TEST_CASE("printable: each byte that is not UTF-8 becomes a question mark, and the text after it is shown") {
    CHECK(printable("a\xff\xfe"
                    "b\xc3") == "a??b?");
    CHECK(printable("\xed\xa0\x80") == "???"); // a surrogate
    CHECK(printable(" \r\n two\nlines \n") == "two lines");
}

TEST_CASE("printable: a text over the limit is cut between characters and ends in an ellipsis") {
    CHECK(printable("abcd", 4) == "abcd");
    CHECK(printable("abcde", 4) == "abcd…");
    CHECK(printable("abcü", 4) == "abc…"); // the ü has two bytes, and there is room for one
    CHECK(printable("ü", 0) == "…");
    CHECK(printable("", 0).empty());
    const std::string long_one(1 << 20, '\xff');
    CHECK(printable(long_one, 8) == "????????…");
    for (std::size_t n = 0; n < 12; ++n) {
        const std::string some = printable("aü✓😀b", n);
        CHECK(informer::detail::utf8_end(some) == some.size());
        CHECK(some.size() <= n + 3); // plus the ellipsis
    }
}
