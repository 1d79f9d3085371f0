#include "detail/packed.hpp"

#include "detail/json_tokens.hpp"
#include "root/processor.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace informer::detail {

namespace {

bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}

/// Eight characters, the first one in the lowest byte.
std::uint64_t eight_at(std::string_view s, std::size_t at) noexcept {
    std::uint64_t v;
    std::memcpy(&v, s.data() + at, sizeof v);
    return std::endian::native == std::endian::little ? v : __builtin_bswap64(v);
}

struct pattern {
    std::uint64_t bytes = 0, carry = 0;
    consteval pattern(const char (&text)[9]) {
        for (unsigned i = 0; i < 8; ++i) {
            bytes |= std::uint64_t{static_cast<unsigned char>(text[i])} << 8 * i;
            carry |= std::uint64_t{text[i] == '0' ? 6u : 15u} << 8 * i;
        }
    }
};

/// Whether the characters are digits where the pattern has zeros, and the pattern's own characters elsewhere. Digits
/// become their values, the others zero. Any other character then has a bit in the upper half of its byte, or the
/// addition carries one into it.
template <pattern P>
bool take_pattern(std::uint64_t& characters) noexcept {
    characters ^= P.bytes;
    return ((characters | (characters + P.carry)) & 0xf0f0'f0f0'f0f0'f0f0) == 0;
}

void put(char* p, unsigned count, unsigned v) noexcept {
    for (unsigned i = count; i-- > 0; v /= 10) p[i] = static_cast<char>('0' + v % 10);
}

constexpr std::uint64_t whole_powers[] = {1,
                                          10,
                                          100,
                                          1000,
                                          10'000,
                                          100'000,
                                          1'000'000,
                                          10'000'000,
                                          100'000'000,
                                          1'000'000'000,
                                          10'000'000'000,
                                          100'000'000'000,
                                          1'000'000'000'000,
                                          10'000'000'000'000,
                                          100'000'000'000'000,
                                          1'000'000'000'000'000,
                                          10'000'000'000'000'000};

/// Appends the digits from `p` to `end` to `number`, which may have 19 digits at most. False: there is another
/// character among them. Eight characters before `end` must be readable.
bool append_digits(const char* p, const char* end, std::uint64_t& number) noexcept {
    for (; end - p > 8; p += 8) {
        std::uint64_t eight = eight_at({p, 8}, 0);
        if (!take_pattern<"00000000">(eight)) return false;
        number = number * whole_powers[8] + eight_digits(eight);
    }
    // The rest, with zeros in place of the characters before it.
    const std::ptrdiff_t n = end - p;
    if (n == 0) return true;
    const auto before = static_cast<unsigned>(64 - 8 * n);
    constexpr std::uint64_t zeros = 0x3030'3030'3030'3030;
    std::uint64_t rest = (eight_at({end - 8, 8}, 0) ^ zeros) >> before << before ^ zeros;
    if (!take_pattern<"00000000">(rest)) return false;
    number = number * whole_powers[n] + eight_digits(rest);
    return true;
}

#if defined(INFORMER_SSE2)
/// The same for at most 16 digits, in half the time; 16 characters before `end` must be readable.
bool append_sixteen(const char* p, const char* end, std::uint64_t& number) noexcept {
    alignas(16) static constexpr unsigned char kept[32] = {0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,
                                                           0,   0,   0,   0,   0,   255, 255, 255, 255, 255, 255,
                                                           255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    const std::ptrdiff_t n = end - p;
    const auto load = [](const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); };
    const __m128i digits = _mm_and_si128(_mm_sub_epi8(load(end - 16), _mm_set1_epi8('0')), load(kept + n));
    const __m128i nine = _mm_set1_epi8(9);
    if (_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(digits, nine), nine)) != 0xffff) return false;
    // Pairs, fours, eights: each is the sum of two neighbours, the first one multiplied by its power of ten.
    const __m128i pairs = _mm_add_epi16(
        _mm_mullo_epi16(_mm_and_si128(digits, _mm_set1_epi16(0xff)), _mm_set1_epi16(10)), _mm_srli_epi16(digits, 8));
    const __m128i fours = _mm_madd_epi16(pairs, _mm_set1_epi32(100 | 1 << 16));
    const __m128i eights = _mm_madd_epi16(_mm_packs_epi32(fours, fours), _mm_set1_epi32(10'000 | 1 << 16));
    const auto both = static_cast<std::uint64_t>(_mm_cvtsi128_si64(eights));
    number = number * whole_powers[n] + (both & 0xffff'ffff) * whole_powers[8] + (both >> 32);
    return true;
}
#else
bool append_sixteen(const char* p, const char* end, std::uint64_t& number) noexcept {
    return append_digits(p, end, number);
}
#endif

constexpr double powers_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8, 1e9,
                                    1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18};

/// Classifies numbers without an exponent: whole numbers of up to 18 digits and others of up to 15. No other text of
/// so few digits reads as the same double, so the double prints as this text, unless the last digit is a zero or an
/// exponent would be shorter: there is no need to print it. And the value is a whole number below 2^53 divided by an
/// exact power of ten, so one division rounds it correctly. False: the number is not that simple.
bool classify_simple(std::string_view text, number_form& form) noexcept {
    const bool negative = text.starts_with('-');
    const char* const first = text.data() + negative;
    const char* const end = text.data() + text.size();
    const std::ptrdiff_t size = end - first;
    if (size < 1 || size > 19) return false;
    std::uint64_t number = 0;
    const auto take = [&number](const char* p, const char* to) {
        for (unsigned d; p != to && (d = static_cast<unsigned char>(*p) - unsigned{'0'}) <= 9; ++p)
            number = number * 10 + d;
        return p;
    };
    const char* const point = take(first, end);
    if (point != end) {
        if (*point != '.') return false;
        const bool digits = size < 8                                     ? take(point + 1, end) == end
                            : text.size() >= 16 && end - point - 1 <= 16 ? append_sixteen(point + 1, end, number)
                                                                         : append_digits(point + 1, end, number);
        if (!digits) return false;
    }
    if (point == end) {
        if (size > 18 || (negative && number == 0)) return false;
        const auto i = static_cast<std::int64_t>(number);
        form.type = number_form::type::int64;
        form.i = negative ? -i : i;
        return true;
    }
    if (point == first || end - point < 2 || number > 999'999'999'999'999) return false;
    if (end[-1] == '0') return true; // no double prints like this
    if (*first == '0') {
        if (point != first + 1) return false;
        if (const char* digit = point + 1; *digit == '0') {
            while (*digit == '0') ++digit;
            if (digit - point - 1 > 2 + (end - digit > 1)) return false;
        }
    }
    const double d = static_cast<double>(number) / powers_of_ten[end - point - 1];
    form.type = number_form::type::floating;
    form.d = negative ? -d : d;
    return true;
}

/// Packs eight lower-case hexadecimal digits, the first one in the lowest byte, into four bytes. Sets bits of `wrong`
/// where there are other characters.
std::uint32_t four_bytes(std::uint64_t digits, std::uint64_t& wrong) noexcept {
    constexpr std::uint64_t each = 0x0101'0101'0101'0101;
    const std::uint64_t values = (digits & 0x0f * each) + (digits >> 6 & each) * 9; // letters have bit 6
    // A digit is valid if its value is below 16 and prints as the same character.
    wrong |= (values & 0xf0 * each) |
             (digits ^ (values + '0' * each + ((values + 6 * each) >> 4 & each) * ('a' - '0' - 10)));
    std::uint64_t pairs = (values << 4 | values >> 8) & 0x00ff'00ff'00ff'00ff;
    pairs = (pairs | pairs >> 8) & 0x0000'ffff'0000'ffff;
    return static_cast<std::uint32_t>(pairs | pairs >> 16);
}
/// Where each byte of a UUID begins in its text, and where the dashes between them are.
constexpr std::array<unsigned char, 16> uuid_digits{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34};
constexpr std::array<unsigned char, 4> uuid_dashes{8, 13, 18, 23};

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar (Howard Hinnant, "days_from_civil").
std::int64_t days_from_civil(std::int64_t year, unsigned month, unsigned day) noexcept {
    year -= month <= 2;
    const std::int64_t era = (year >= 0 ? year : year - 399) / 400;
    const auto yoe = static_cast<unsigned>(year - era * 400);
    const unsigned doy = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    const unsigned doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return era * 146'097 + static_cast<std::int64_t>(doe) - 719'468;
}

bool is_date(unsigned year, unsigned month, unsigned day) noexcept {
    static constexpr unsigned char lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (month < 1 || month > 12 || day < 1) return false;
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return day <= lengths[month - 1] + unsigned{month == 2 && leap};
}

} // namespace

bool pack_timestamp(std::string_view s, std::uint32_t& seconds) noexcept {
    if (s.size() != timestamp_size) return false;
    std::uint64_t date = eight_at(s, 0), time = eight_at(s, 8), end = eight_at(s, 12);
    if (!take_pattern<"0000-00-">(date) || !take_pattern<"00T00:00">(time) || !take_pattern<"0:00:00Z">(end))
        return false;
    // Each byte becomes the two-digit number that begins there.
    const auto pair = [](std::uint64_t digits, unsigned at) {
        return static_cast<unsigned>((digits * 10 + (digits >> 8)) >> 8 * at & 0xff);
    };
    const unsigned year = pair(date, 0) * 100 + pair(date, 2), month = pair(date, 5), day = pair(time, 0);
    const unsigned hour = pair(time, 3), minute = pair(time, 6), second = pair(end, 5);
    if (year < 2000 || !is_date(year, month, day) || hour > 23 || minute > 59 || second > 59) return false;
    const std::int64_t unix_time =
        days_from_civil(year, month, day) * 86'400 + std::int64_t{hour} * 3600 + minute * 60 + second;
    const std::int64_t since = unix_time - timestamp_epoch;
    if (since >= (std::int64_t{1} << 31)) return false;
    seconds = static_cast<std::uint32_t>(since);
    return true;
}

void unpack_timestamp(std::uint32_t seconds, char* out) noexcept {
    // Days since 0000-03-01, in years that begin in March, so that the leap day is the last one ("civil_from_days").
    const unsigned second_of_day = seconds % 86'400;
    const unsigned z = seconds / 86'400 + 730'425; // days from 0000-03-01 to 2000-01-01
    const unsigned era = z / 146'097;
    const unsigned doe = z - era * 146'097;
    const unsigned yoe = (doe - doe / 1460 + doe / 36'524 - doe / 146'096) / 365;
    const unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    const unsigned mp = (5 * doy + 2) / 153;
    const unsigned month = mp < 10 ? mp + 3 : mp - 9;
    put(out, 4, yoe + era * 400 + (month <= 2 ? 1 : 0));
    out[4] = '-';
    put(out + 5, 2, month);
    out[7] = '-';
    put(out + 8, 2, doy - (153 * mp + 2) / 5 + 1);
    out[10] = 'T';
    put(out + 11, 2, second_of_day / 3600);
    out[13] = ':';
    put(out + 14, 2, second_of_day / 60 % 60);
    out[16] = ':';
    put(out + 17, 2, second_of_day % 60);
    out[19] = 'Z';
}

bool pack_uuid(std::string_view s, unsigned char* out16) noexcept {
    const auto is_dash = [s](unsigned char at) { return s[at] == '-'; };
    if (s.size() != uuid_text_size || !std::all_of(uuid_dashes.begin(), uuid_dashes.end(), is_dash)) return false;
    const auto four_at = [s](std::size_t at) { return eight_at(s, at) & 0xffff'ffff; };
    std::uint64_t wrong = 0;
    const std::uint64_t digits[] = {eight_at(s, 0), four_at(9) | eight_at(s, 14) << 32,
                                    four_at(19) | eight_at(s, 24) << 32, eight_at(s, 28)};
    for (const std::uint64_t eight : digits) {
        std::uint32_t four = four_bytes(eight, wrong);
        if constexpr (std::endian::native == std::endian::big) four = __builtin_bswap32(four);
        std::memcpy(out16, &four, sizeof four);
        out16 += sizeof four;
    }
    return wrong == 0;
}

void unpack_uuid(const unsigned char* in16, char* out) noexcept {
    static constexpr char hex_digits[] = "0123456789abcdef";
    for (const unsigned char at : uuid_dashes) out[at] = '-';
    for (std::size_t n = 0; n < uuid_digits.size(); ++n) {
        out[uuid_digits[n]] = hex_digits[in16[n] >> 4];
        out[uuid_digits[n] + 1] = hex_digits[in16[n] & 15];
    }
}

std::size_t print_shortest(double d, char* out) noexcept {
    return static_cast<std::size_t>(std::to_chars(out, out + number_buffer_size, d).ptr - out);
}

number_form classify_number(std::string_view text) noexcept {
    number_form form;
    if (classify_simple(text, form)) return form;
    // 24 characters hold every integer, and every double in its shortest form.
    if (text.size() > 24) return form;
    const char* first = text.data();
    const char* last = first + text.size();
    bool whole = true;
    for (const char c : text) whole = whole && c != '.' && c != 'e' && c != 'E';
    if (whole) {
        if (text == "-0") return form; // an integer would lose the sign
        if (auto r = std::from_chars(first, last, form.i); r.ec == std::errc() && r.ptr == last)
            form.type = number_form::type::int64;
        else if (r = std::from_chars(first, last, form.u); r.ec == std::errc() && r.ptr == last)
            form.type = number_form::type::uint64;
        return form;
    }
    if (auto r = std::from_chars(first, last, form.d); r.ec != std::errc() || r.ptr != last) return form;
    char buffer[number_buffer_size];
    if (std::string_view(buffer, print_shortest(form.d, buffer)) == text) form.type = number_form::type::floating;
    return form;
}

std::string print_double(double d) {
    if (!std::isfinite(d)) return "null";
    char buffer[number_buffer_size];
    std::string s(buffer, print_shortest(d, buffer));
    if (s.find_first_of(".e") == std::string::npos) s += ".0";
    return s;
}

decimal::decimal(std::string_view text) noexcept {
    std::size_t i = 0, first = 0, end = 0; // [first, end): the digits
    if (i < text.size() && text[i] == '-') {
        negative = true;
        ++i;
    }
    bool fraction = false;
    for (; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '.') {
            fraction = true;
        } else if (c >= '0' && c <= '9') {
            if (end == 0 && c == '0') {
                exponent -= fraction ? 1 : 0;
                continue;
            }
            if (end == 0) first = i;
            if (c != '0') end = i + 1;
            exponent += fraction ? 0 : 1;
        } else {
            break;
        }
    }
    digits = text.substr(first, end - first);
    if (i < text.size()) { // e or E
        ++i;
        bool minus = false;
        if (i < text.size() && (text[i] == '+' || text[i] == '-')) minus = text[i++] == '-';
        std::int64_t e = 0;
        for (; i < text.size(); ++i) {
            if (e > std::numeric_limits<std::int64_t>::max() / 100) {
                huge = true;
                break;
            }
            e = e * 10 + (text[i] - '0');
        }
        exponent += minus ? -e : e;
    }
}

bool decimal::to_uint64(std::uint64_t& out) const noexcept {
    out = 0;
    if (zero()) return true;
    if (negative || huge || exponent > 20 ||
        exponent < static_cast<std::int64_t>(std::ranges::count_if(digits, is_digit)))
        return false;
    std::size_t i = 0;
    for (std::int64_t left = exponent; left > 0; ++i) {
        if (i < digits.size() && !is_digit(digits[i])) continue;
        const auto d = static_cast<std::uint64_t>(i < digits.size() ? digits[i] - '0' : 0);
        if (out > (std::numeric_limits<std::uint64_t>::max() - d) / 10) return false;
        out = out * 10 + d;
        --left;
    }
    return true;
}

bool decimal::same_digits(std::string_view a, std::string_view b) noexcept {
    auto i = a.begin(), j = b.begin();
    for (;; ++i, ++j) {
        i = std::find_if(i, a.end(), is_digit);
        j = std::find_if(j, b.end(), is_digit);
        if (i == a.end() || j == b.end()) return i == a.end() && j == b.end();
        if (*i != *j) return false;
    }
}

bool decimal::to_int64(std::int64_t& out) const noexcept {
    decimal magnitude = *this;
    magnitude.negative = false;
    std::uint64_t u;
    if (!magnitude.to_uint64(u)) return false;
    constexpr auto max = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (u > max + (negative ? 1 : 0)) return false;
    out = static_cast<std::int64_t>(negative ? 0 - u : u);
    return true;
}

bool same_number(std::string_view a, std::string_view b) noexcept {
    return a == b || decimal(a) == decimal(b);
}

double to_double(std::string_view text) noexcept {
    double d = 0;
    const auto r = std::from_chars(text.data(), text.data() + text.size(), d);
    if (r.ec != std::errc::result_out_of_range) return d;
    // from_chars does not say at which end the value leaves the range; the exponent of the decimal does.
    const decimal exact(text);
    const std::size_t e = text.find_first_of("eE");
    const bool tiny = exact.huge ? e + 1 < text.size() && text[e + 1] == '-' : exact.exponent < 0;
    const double magnitude = tiny || exact.zero() ? 0.0 : std::numeric_limits<double>::infinity();
    return exact.negative ? -magnitude : magnitude;
}

} // namespace informer::detail
