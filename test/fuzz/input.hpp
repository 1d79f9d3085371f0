// Makes choices and texts from the bytes of a fuzzer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace informer::fuzz {

/// Aborts if the condition does not hold, even where asserts are off.
inline void expect(bool holds, std::string_view what, std::source_location where = std::source_location::current()) {
    if (holds) return;
    std::fprintf(stderr, "%s:%u: %.*s\n", where.file_name(), static_cast<unsigned>(where.line()),
                 static_cast<int>(what.size()), what.data());
    std::abort();
}

class input {
public:
    explicit input(std::string_view bytes) : rest_(bytes) {}

    bool empty() const noexcept { return rest_.empty(); }
    /// A byte; 0 at the end.
    std::uint8_t byte() {
        if (rest_.empty()) return 0;
        const auto b = static_cast<std::uint8_t>(rest_.front());
        rest_.remove_prefix(1);
        return b;
    }
    /// A number of two bytes.
    std::uint32_t number() {
        const std::uint32_t high = byte();
        return high << 8 | byte();
    }
    std::string_view take(std::size_t n) {
        const std::string_view t = rest_.substr(0, n);
        rest_.remove_prefix(t.size());
        return t;
    }
    /// The bytes up to the next separator, which no text of interest contains.
    std::string_view part(char separator = '\x1e') {
        const std::string_view t = take(rest_.find(separator));
        byte();
        return t;
    }
    std::string_view rest() { return take(rest_.size()); }

private:
    std::string_view rest_;
};

/// `bytes` in pieces whose lengths follow from `seed`: one piece for 0.
inline std::vector<std::string_view> pieces(std::string_view bytes, std::uint32_t seed) {
    std::vector<std::string_view> all;
    if (seed == 0) return {bytes};
    const std::uint32_t most = 1 + seed % 64;
    for (std::uint32_t x = seed; !bytes.empty(); bytes.remove_prefix(all.back().size())) {
        x = x * 1'664'525 + 1'013'904'223;
        all.push_back(bytes.substr(0, 1 + (x >> 16) % most));
    }
    return all;
}

/// A copy of exact size, so that AddressSanitizer sees reads beyond its end.
class exact {
public:
    explicit exact(std::string_view bytes) : bytes_(bytes.begin(), bytes.end()) {}
    std::string_view view() const noexcept { return {bytes_.data(), bytes_.size()}; }

private:
    std::vector<char> bytes_;
};

} // namespace informer::fuzz
