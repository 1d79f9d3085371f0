#include "base64.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace informer::detail {

namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t none = 0xff;

constexpr std::array<std::uint8_t, 256> make_values() {
    std::array<std::uint8_t, 256> t{};
    t.fill(none);
    for (std::size_t i = 0; i < alphabet.size(); ++i)
        t[static_cast<unsigned char>(alphabet[i])] = static_cast<std::uint8_t>(i);
    return t;
}
constexpr std::array<std::uint8_t, 256> values = make_values();

} // namespace

bool base64_decoder::feed(std::string_view piece, std::string& to) {
    for (const char c : piece) {
        if (ended_) return false;
        if (c == '=') {
            if (count_ < 2) return false;
            ++padding_;
            bits_ <<= 6;
        } else {
            const std::uint8_t v = values[static_cast<unsigned char>(c)];
            if (v == none || padding_ != 0) return false;
            bits_ = bits_ << 6 | v;
        }
        if (++count_ < 4) continue;
        const std::array<char, 3> three{static_cast<char>(bits_ >> 16), static_cast<char>(bits_ >> 8),
                                        static_cast<char>(bits_)};
        to.append(three.data(), 3 - padding_);
        ended_ = padding_ != 0;
        bits_ = 0;
        count_ = 0;
    }
    return true;
}

std::string base64_encode(std::string_view bytes) {
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const std::string_view some = bytes.substr(i, 3);
        std::uint32_t bits = 0;
        for (std::size_t k = 0; k < 3; ++k)
            bits = bits << 8 | (k < some.size() ? static_cast<unsigned char>(some[k]) : 0U);
        for (std::size_t k = 0; k < 4; ++k) out += k <= some.size() ? alphabet[bits >> (18 - 6 * k) & 63] : '=';
    }
    return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
    constexpr std::string_view space = " \n\r\t";
    std::string out;
    out.reserve(text.size() / 4 * 3);
    base64_decoder decoder;
    while (!text.empty()) {
        const std::string_view some = text.substr(0, text.find_first_of(space));
        if (!decoder.feed(some, out)) return std::nullopt;
        text.remove_prefix(some.size());
        text.remove_prefix(std::min(text.find_first_not_of(space), text.size()));
    }
    if (!decoder.complete()) return std::nullopt;
    return out;
}

} // namespace informer::detail
