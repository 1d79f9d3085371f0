// Strings and numbers that have a shorter form than their text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace informer::detail {

/// "YYYY-MM-DDTHH:MM:SSZ" of a real moment from 2000 on whose seconds fit 31 bits (January 2068): true and the seconds
/// since 2000. Anything else stays text, so what comes out is what went in.
bool pack_timestamp(std::string_view s, std::uint32_t& seconds) noexcept;
inline constexpr std::size_t timestamp_size = 20;
void unpack_timestamp(std::uint32_t seconds, char* out) noexcept;
inline constexpr std::int64_t timestamp_epoch = 946'684'800; // 2000-01-01T00:00:00Z in Unix time

/// A UUID in lower case with dashes.
inline constexpr std::size_t uuid_text_size = 36;
bool pack_uuid(std::string_view s, unsigned char* out16) noexcept;
void unpack_uuid(const unsigned char* in16, char* out) noexcept;

/// How the text of a JSON number is stored: binary where that prints back exactly the same characters.
struct number_form {
    enum class type { int64, uint64, floating, text } type = type::text;
    union { // by `type`; a struct this small is returned in registers
        std::int64_t i = 0;
        std::uint64_t u;
        double d;
    };
};
number_form classify_number(std::string_view text) noexcept;
/// The shortest text that reads back as `d`, and reads as a floating-point number ("1.0"); "null" when not finite.
std::string print_double(double d);
inline constexpr std::size_t number_buffer_size = 32;
/// Prints exactly the text that `classify_number` compares with.
std::size_t print_shortest(double d, char* out) noexcept;

/// The value of a decimal number: 0.d1d2d3… × 10^exponent, digits without zeros at either end. A view of its text.
struct decimal {
    bool negative = false;
    bool huge = false;       ///< the exponent is too large to compute with; only the texts are compared
    std::string_view digits; ///< includes the point if it lies between digits
    std::int64_t exponent = 0;
    explicit decimal(std::string_view text) noexcept;
    bool zero() const noexcept { return digits.empty(); }
    /// True and the value if it is a whole number that fits.
    bool to_int64(std::int64_t& out) const noexcept;
    bool to_uint64(std::uint64_t& out) const noexcept;
    friend bool operator==(const decimal& a, const decimal& b) noexcept {
        if (a.zero() || b.zero()) return a.zero() && b.zero();
        return !a.huge && !b.huge && a.negative == b.negative && a.exponent == b.exponent &&
               same_digits(a.digits, b.digits);
    }

private:
    static bool same_digits(std::string_view a, std::string_view b) noexcept;
};
bool same_number(std::string_view a, std::string_view b) noexcept;
/// The nearest double; ±infinity beyond the range, as strtod.
double to_double(std::string_view text) noexcept;

} // namespace informer::detail
