// Amounts as the API writes them: "500m", "1.5Gi", "2e3". What client-go calls resource.Quantity.
#pragma once

#include <informer/error.hpp>
#include <informer/object/typed.hpp>

#include <compare>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace informer {

/// An exact amount, in billionths, and the family of suffixes that it is written with. With this header, `as` and
/// `to_value` read and write a struct's members of this type.
///
/// From -(2^63 - 1) to 2^63 - 1; what is beyond, in a text or by calculation, becomes the nearest of these. (Go's
/// saturates for some texts and wraps for others.) What is more precise than a billionth is rounded away from zero, so
/// that little is never nothing. *Thread safety*: a value. *Complexity*: O(1); O(length) for texts.
class quantity {
public:
    enum class suffixes : std::uint8_t {
        decimal,  ///< "1500m", "12k": n, u, m, none, k, M, G, T, P, E
        binary,   ///< "1536Mi": Ki, Mi, Gi, Ti, Pi, Ei. What is no whole number, or below 1024, is written as decimal
        exponent, ///< "12e3"
    };

    quantity() = default; ///< 0
    explicit quantity(std::int64_t whole, suffixes s = suffixes::decimal);
    static quantity milli(std::int64_t thousandths, suffixes s = suffixes::decimal);
    /// A sign, digits with at most one point, and a suffix. On error, `errc::syntax_error` says what is wrong and where.
    static quantity parse(std::string_view text, failure& f);
    /// The same; throws `error`.
    static quantity parse(std::string_view text);

    /// Rounded away from zero; at most, and at least, what fits.
    std::int64_t value() const noexcept;
    std::int64_t milli_value() const noexcept;
    double approximate() const noexcept;
    suffixes written_with() const noexcept { return suffixes_; }
    /// The one form in which a server writes it: "1500m" for 1.5, "1Gi" for "1024Mi".
    std::string str() const;

    quantity& operator+=(const quantity& o) noexcept;
    quantity& operator-=(const quantity& o) noexcept;
    friend quantity operator+(quantity a, const quantity& b) noexcept { return a += b; }
    friend quantity operator-(quantity a, const quantity& b) noexcept { return a -= b; }
    quantity operator-() const noexcept;

    /// By the amount alone: "1Ki" equals "1024".
    friend bool operator==(const quantity& a, const quantity& b) noexcept {
        return a.whole_ == b.whole_ && a.billionths_ == b.billionths_;
    }
    friend std::strong_ordering operator<=>(const quantity& a, const quantity& b) noexcept {
        if (const auto c = a.whole_ <=> b.whole_; c != 0) return c;
        return a.billionths_ <=> b.billionths_;
    }
    friend std::ostream& operator<<(std::ostream& to, const quantity& q);

private:
    struct amount;
    void set(const amount& a) noexcept;
    amount get() const noexcept;

    std::int64_t whole_ = 0;
    std::int32_t billionths_ = 0; ///< of the sign of `whole_`
    suffixes suffixes_ = suffixes::decimal;
};

/// From a string, or from a number, as somebody may have written it into an object of a custom resource.
template <>
struct conversion<quantity> {
    static void read(const value& from, quantity& to, failure& f);
    static boost::json::value write(const quantity& from) { return boost::json::value(from.str()); }
};

} // namespace informer
