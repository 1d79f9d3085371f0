// Rules and rounding after k8s.io/apimachinery/pkg/api/resource.
#include <informer/object/quantity.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <ostream>

namespace informer {

namespace {

__extension__ typedef __int128 int128; // 2^63 billionths have 93 bits

constexpr std::int64_t billion = 1'000'000'000;
constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

constexpr std::int64_t far = std::int64_t{1} << 40; // a power of ten that no length of a text outweighs
constexpr int128 limit = int128{most} * billion;

int128 clamped(int128 billionths) noexcept {
    return std::clamp(billionths, -limit, limit);
}

/// Rounded away from zero.
int128 divided(int128 a, int128 by) noexcept {
    const int128 q = a / by, rest = a % by;
    return rest == 0 ? q : q + (a < 0 ? -1 : 1);
}

bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}

/// Digits with at most one point, as a number and a power of ten. What follows when the number is `full` only decides
/// about rounding.
struct decimal {
    int128 digits = 0;
    std::int64_t power = 0;
    bool more = false; ///< a little more than that
};

decimal read_digits(std::string_view s, int128 full) noexcept {
    decimal d;
    bool point = false;
    for (const char c : s) {
        if (c == '.') {
            point = true;
        } else if (d.digits < full) {
            d.digits = d.digits * 10 + (c - '0');
            d.power -= point;
        } else {
            d.more = d.more || c != '0';
            d.power += !point;
        }
    }
    return d;
}

struct suffix {
    std::string_view text;
    int power; ///< of ten, or of two
};
constexpr std::array<suffix, 10> decimals{
    {{"n", -9}, {"u", -6}, {"m", -3}, {"", 0}, {"k", 3}, {"M", 6}, {"G", 9}, {"T", 12}, {"P", 15}, {"E", 18}}};
constexpr std::array<suffix, 6> binaries{{{"Ki", 10}, {"Mi", 20}, {"Gi", 30}, {"Ti", 40}, {"Pi", 50}, {"Ei", 60}}};

template <class Suffixes>
const suffix* find(const Suffixes& in, std::string_view text) noexcept {
    const auto at = std::find_if(in.begin(), in.end(), [&](const suffix& s) { return s.text == text; });
    return at == in.end() ? nullptr : &*at;
}

/// The number × 10^power × 2^bits, in billionths.
int128 billionths_of(std::string_view number, std::int64_t power, int bits) noexcept {
    constexpr int128 ten_to_18 = int128{billion} * billion;
    const decimal d = read_digits(number, bits > 0 ? ten_to_18 : ten_to_18 * ten_to_18); // 19 digits have 64 bits
    int128 n = d.digits << bits;
    bool more = d.more;
    for (power += d.power + 9; power > 0 && n != 0 && n <= limit; --power) n *= 10;
    for (; power < 0 && n != 0; ++power) {
        more = more || n % 10 != 0;
        n /= 10;
    }
    return clamped(n + more);
}

std::string text_of(int128 n) {
    std::string s;
    const bool negative = n < 0;
    do s += static_cast<char>('0' + static_cast<int>(negative ? -(n % 10) : n % 10));
    while ((n /= 10) != 0);
    if (negative) s += '-';
    std::reverse(s.begin(), s.end());
    return s;
}

} // namespace

struct quantity::amount {
    int128 billionths;
};

void quantity::set(const amount& a) noexcept {
    const int128 n = clamped(a.billionths);
    whole_ = static_cast<std::int64_t>(n / billion);
    billionths_ = static_cast<std::int32_t>(n % billion);
}

quantity::amount quantity::get() const noexcept {
    return {int128{whole_} * billion + billionths_};
}

quantity::quantity(std::int64_t whole, suffixes s) : suffixes_(s) {
    set({int128{whole} * billion});
}

quantity quantity::milli(std::int64_t thousandths, suffixes s) {
    quantity q;
    q.suffixes_ = s;
    q.set({int128{thousandths} * (billion / 1000)});
    return q;
}

quantity quantity::parse(std::string_view text, failure& f) {
    f = failure();
    const auto wrong = [&](const std::string& why) {
        f = failure(errc::syntax_error, "quantity \"" + std::string(text.substr(0, 100)) + "\": " + why);
        return quantity();
    };
    std::string_view rest = text;
    const bool negative = rest.starts_with('-');
    if (negative || rest.starts_with('+')) rest.remove_prefix(1);
    const std::size_t end = std::min(rest.find_first_not_of("0123456789."), rest.size());
    const std::string_view number = rest.substr(0, end);
    rest.remove_prefix(end);
    if (std::none_of(number.begin(), number.end(), is_digit)) return wrong("no digits");
    if (std::count(number.begin(), number.end(), '.') > 1) return wrong("two points");

    quantity q;
    std::int64_t power = 0;
    int bits = 0;
    if (const suffix* s = find(decimals, rest)) {
        power = s->power;
    } else if (const suffix* b = find(binaries, rest)) {
        bits = b->power;
        q.suffixes_ = suffixes::binary;
    } else if (rest.front() == 'e' || rest.front() == 'E') {
        std::string_view digits = rest.substr(1);
        if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
        const char* const last = digits.data() + digits.size();
        const auto r = std::from_chars(digits.data(), last, power);
        if (r.ptr != last || r.ec == std::errc::invalid_argument)
            return wrong("\"" + std::string(rest.substr(0, 100)) + "\" is no exponent");
        if (r.ec == std::errc::result_out_of_range) power = digits.front() == '-' ? -far : far;
        q.suffixes_ = suffixes::exponent;
    } else {
        return wrong("there is no suffix \"" + std::string(rest.substr(0, 100)) + "\"");
    }
    const int128 n = billionths_of(number, std::clamp(power, -far, far), bits);
    q.set({negative ? -n : n});
    return q;
}

quantity quantity::parse(std::string_view text) {
    failure f;
    quantity q = parse(text, f);
    throw_on(f);
    return q;
}

std::int64_t quantity::value() const noexcept {
    return static_cast<std::int64_t>(divided(get().billionths, billion));
}

std::int64_t quantity::milli_value() const noexcept {
    return static_cast<std::int64_t>(
        std::clamp<int128>(divided(get().billionths, billion / 1000), std::numeric_limits<std::int64_t>::min(), most));
}

double quantity::approximate() const noexcept {
    return static_cast<double>(whole_) + static_cast<double>(billionths_) / static_cast<double>(billion);
}

std::string quantity::str() const {
    int128 n = get().billionths;
    if (n == 0) return "0";
    const bool large = whole_ >= 1024 || whole_ <= -1024;
    if (suffixes_ == suffixes::binary && large && billionths_ == 0) {
        std::int64_t whole = whole_;
        std::size_t level = 0;
        for (; whole % 1024 == 0 && level < binaries.size(); ++level) whole /= 1024;
        return std::to_string(whole) + std::string(level == 0 ? std::string_view() : binaries[level - 1].text);
    }
    std::size_t level = 0; // of thousands of billionths
    for (; n % 1000 == 0 && level + 1 < decimals.size(); ++level) n /= 1000;
    const suffix& s = decimals[level];
    if (suffixes_ != suffixes::exponent) return text_of(n) + std::string(s.text);
    return s.power == 0 ? text_of(n) : text_of(n) + 'e' + std::to_string(s.power);
}

quantity& quantity::operator+=(const quantity& o) noexcept {
    if (*this == quantity()) suffixes_ = o.suffixes_; // what is summed up is written as its parts are
    set({get().billionths + o.get().billionths});
    return *this;
}

quantity& quantity::operator-=(const quantity& o) noexcept {
    if (*this == quantity()) suffixes_ = o.suffixes_;
    set({get().billionths - o.get().billionths});
    return *this;
}

quantity quantity::operator-() const noexcept {
    quantity q = *this;
    q.set({-get().billionths});
    return q;
}

std::ostream& operator<<(std::ostream& to, const quantity& q) {
    return to << q.str();
}

void conversion<quantity>::read(const value& from, quantity& to, failure& f) {
    if (from.is_string()) {
        to = quantity::parse(from.string_or_empty().str(), f);
    } else if (from.is_number()) {
        to = quantity::parse(from.number_text(), f);
    } else {
        f = detail::unlike("a quantity", from);
        return;
    }
    if (f) f = failure(errc::wrong_type, f.message());
}

} // namespace informer
