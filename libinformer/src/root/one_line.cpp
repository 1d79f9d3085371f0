#include "root/one_line.hpp"

#include "root/ascii.hpp"
#include "root/utf8.hpp"

namespace informer::detail {

std::string printable(std::string_view text, std::size_t limit) {
    std::string out;
    std::string_view rest = trimmed(text).substr(0, limit + 4); // what is shown is as long, and no character longer
    for (std::size_t good = utf8_end(rest); !rest.empty();) {
        std::size_t n = 1; // bytes of this character
        while (n < good && (static_cast<unsigned char>(rest[n]) & 0xc0) == 0x80) ++n;
        const std::string_view piece = good == 0 ? "?" : is_control(rest.front()) ? " " : rest.substr(0, n);
        if (out.size() + piece.size() > limit) return out + "…";
        out += piece;
        rest.remove_prefix(n);
        good = good > n ? good - n : utf8_end(rest);
    }
    return out;
}

} // namespace informer::detail
