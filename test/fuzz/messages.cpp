// HTTP answers, whole and in pieces: header, body and error must be the same. If an option says so, the bytes are
// inflated as gzip instead.
//
// The input is a byte of options, two bytes that determine the pieces, and the bytes of the connection.
#include "input.hpp"
#include "targets.hpp"

#include "http/inflater.hpp"
#include "http/response_reader.hpp"

#include <boost/asio/buffer.hpp>

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace informer::fuzz {
namespace {

using http::detail::inflater;
using http::detail::response_reader;

struct answer {
    int status = 0;
    std::string type, body;
    std::vector<std::string> warnings;
    bool header_done = false, done = false, failed = false, keep_alive = false;
    bool operator==(const answer&) const = default;
};

/// Reads as a connection does: bytes that are not used yet are offered again with more.
answer read(const std::vector<std::string_view>& pieces, bool head) {
    response_reader reader(head);
    answer a;
    std::string kept;
    error_code ec;
    const auto offer = [&] {
        for (;;) {
            const exact bytes(kept);
            std::size_t used = 0;
            if (!reader.header_done()) {
                used = reader.header(bytes.view(), ec);
            } else if (!reader.done()) {
                std::string_view part;
                used = reader.body(bytes.view(), part, ec);
                a.body += part;
            }
            expect(used <= kept.size(), "more used than there was");
            kept.erase(0, used);
            if (ec || used == 0 || reader.done()) return;
        }
    };
    for (const std::string_view piece : pieces) {
        kept += piece;
        offer();
        if (ec || reader.done()) break;
    }
    if (!ec && !reader.done()) reader.end_of_stream(ec);
    a.failed = bool(ec);
    a.header_done = reader.header_done();
    a.done = reader.done();
    if (a.header_done) {
        a.status = reader.status();
        a.type = reader.field("Content-Type");
        a.warnings = reader.fields("Warning");
        a.keep_alive = reader.keep_alive();
    }
    return a;
}

struct inflated {
    std::string text;
    bool bad = false, at_end = false;
    bool operator==(const inflated&) const = default;
};

inflated inflate(const std::vector<std::string_view>& pieces, std::size_t room) {
    inflater i;
    inflated result;
    std::array<char, 64> to{};
    for (const std::string_view piece : pieces) {
        const exact bytes(piece);
        for (std::string_view in = bytes.view();;) {
            const std::size_t before = in.size();
            const std::size_t n = i.inflate(in, boost::asio::buffer(to.data(), room), result.bad);
            expect(n <= room, "more inflated than there is room for");
            result.text.append(to.data(), n);
            if (result.bad || result.text.size() > 1'000'000) return result;
            if (n == 0 && in.empty()) break;
            expect(n > 0 || in.size() < before, "no progress");
        }
    }
    result.at_end = i.at_end();
    return result;
}

} // namespace

void messages(std::string_view bytes) {
    input in(bytes);
    const std::uint8_t choice = in.byte();
    const std::uint32_t seed = in.number();
    const std::string_view text = in.rest();
    const std::vector<std::string_view> whole{text}, cut_up = pieces(text, seed);
    if (choice & 1) {
        const inflated at_once = inflate(whole, 64);
        if (at_once.text.size() <= 1'000'000) {
            const inflated other = inflate(cut_up, 1 + choice / 4);
            expect(other == at_once, "in pieces something else is inflated");
        }
        return;
    }
    const answer at_once = read(whole, choice & 2), other = read(cut_up, choice & 2);
    expect(other.header_done == at_once.header_done && other.status == at_once.status && other.type == at_once.type &&
               other.warnings == at_once.warnings,
           "in pieces it is another header");
    // An error behind a part of the body is reported together with that part, or later.
    expect(other.failed == at_once.failed && other.done == at_once.done && other.body == at_once.body,
           "in pieces it is another body");
}

} // namespace informer::fuzz
