// gzip, decoded from pieces of any size into buffers of any size.
#include "http/inflater.hpp"

#include <catch2/catch_test_macros.hpp>

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

using informer::http::detail::inflater;

namespace {

std::string gzip(const std::string& text) {
    z_stream z{};
    REQUIRE(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    std::string out(text.size() + 200, '\0'), in = text;
    z.next_in = reinterpret_cast<Bytef*>(in.data());
    z.avail_in = static_cast<uInt>(in.size());
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    z.avail_out = static_cast<uInt>(out.size());
    REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
    out.resize(z.total_out);
    deflateEnd(&z);
    return out;
}

struct result {
    std::string text;
    bool bad = false, at_end = false, stuck = false;
};

result inflated(std::string_view all, std::size_t piece, std::size_t room) {
    inflater from;
    result r;
    std::vector<char> out(room);
    while (!all.empty() && !r.bad) {
        std::string_view in = all.substr(0, piece);
        all.remove_prefix(in.size());
        for (std::size_t n = room; n == room && !r.bad;) { // a full buffer: there may be more
            n = from.inflate(in, {out.data(), out.size()}, r.bad);
            r.text.append(out.data(), n);
        }
        r.stuck = r.stuck || (!in.empty() && !r.bad);
    }
    r.at_end = from.at_end();
    return r;
}

std::string some_text() {
    std::string s;
    for (int i = 0; i < 300; ++i) s += "item " + std::to_string(i * 7919 % 1000) + (i % 5 == 0 ? "\n" : ", ");
    return s + std::string(3000, 'x');
}

} // namespace

TEST_CASE("gzip comes out the same in pieces of any size, into buffers of any size, in one member or several") {
    const std::string text = some_text(), one = gzip(text), several = one + gzip("") + gzip("b") + one;
    for (const std::size_t piece : {1U, 2U, 7U, 18U, 100U, 100'000U})
        for (const std::size_t room : {1U, 3U, 100U, 4096U, 100'000U}) {
            CAPTURE(piece, room);
            const result r = inflated(one, piece, room);
            CHECK((r.text == text && r.at_end && !r.bad && !r.stuck));
            const result all = inflated(several, piece, room);
            CHECK((all.text == text + "b" + text && all.at_end && !all.bad && !all.stuck));
        }
}
