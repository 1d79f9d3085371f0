// Base64, in pieces and whole.
#include "root/base64.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <string>
#include <string_view>

using informer::detail::base64_decode;
using informer::detail::base64_decoder;
using informer::detail::base64_encode;

namespace {

std::string in_pieces(std::string_view text, std::size_t piece) {
    base64_decoder d;
    std::string out;
    for (; !text.empty(); text.remove_prefix(std::min(piece, text.size())))
        if (!d.feed(text.substr(0, piece), out)) return "none";
    return d.complete() ? out : "none";
}

} // namespace

TEST_CASE("base64: encoded text decodes to what it was, in pieces of every size") {
    // RFC 4648, section 10
    CHECK(base64_encode("") == "");
    CHECK(base64_encode("f") == "Zg==");
    CHECK(base64_encode("fo") == "Zm8=");
    CHECK(base64_encode("foobar") == "Zm9vYmFy");
    std::string all = "any carnal pleas";
    for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
    for (std::size_t n = 0; n <= all.size(); ++n) {
        const std::string part = all.substr(0, n), text = base64_encode(part);
        CHECK(base64_decode(text) == part);
        for (std::size_t piece = 1; piece <= 5; ++piece) CHECK(in_pieces(text, piece) == part);
    }
}

TEST_CASE("base64: text that is not base64 is refused") {
    for (const char* bad : {"YQ", "YQ=", "YQ===", "YQ==YQ==", "Y=Q=", "====", "YW-_", "YWI", "Y"}) {
        CAPTURE(bad);
        CHECK(in_pieces(bad, 9) == "none");
        CHECK_FALSE(base64_decode(bad));
    }
    CHECK(in_pieces("YW J", 9) == "none");
}

TEST_CASE("base64: the lines of a whole text may be folded, as in files") {
    CHECK(base64_decode("  Zm9v\r\n\tYmFy\n") == "foobar");
    CHECK(base64_decode(" \n") == "");
    CHECK_FALSE(base64_decode("Zg==\nZg=="));
}
