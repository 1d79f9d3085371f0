// A value inside an immutable document.
#pragma once

#include <informer/object/text.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace informer {

namespace detail {
class generation; // one generation of a document pool: chunks of nodes
}

enum class value_kind : std::uint8_t {
    missing, ///< the path does not exist; what is read from it is missing, too
    null,
    boolean,
    int64,
    uint64,
    floating,
    number, ///< a number that is neither int64, uint64 nor a double that prints back exactly: its text is kept
    string,
    array,
    object,
};
std::string_view to_string(value_kind k) noexcept;

/// A view of one value of a document: two words, copied freely.
///
/// *Lifetime*: valid as long as the `object` it comes from is held (objects refuse to give views from temporaries).
/// *Thread safety*: reads from any thread. *Errors*: `as_*` throw `error(errc::wrong_type)` that names what was found;
/// `[]` and `at_pointer` do not throw but return a missing value (`at_pointer` may throw std::bad_alloc if a long token
/// has escapes). *Complexity*: member look-up passes over one byte for each member of the object and compares few keys;
/// in objects of more than 256 members, and in those whose keys hardly repeat, it is O(1). Everything else is O(1)
/// unless it says otherwise.
class value {
public:
    value() noexcept = default;
    value(const detail::generation* g, std::uint32_t handle) noexcept : generation_(g), handle_(handle) {}

    value_kind kind() const noexcept;
    bool exists() const noexcept { return generation_ != nullptr; }
    explicit operator bool() const = delete; // exists(), or bool_or(false): a value that is there may be false
    bool is_null() const noexcept { return kind() == value_kind::null; }
    bool is_string() const noexcept { return kind() == value_kind::string; }
    bool is_array() const noexcept { return kind() == value_kind::array; }
    bool is_object() const noexcept { return kind() == value_kind::object; }
    bool is_number() const noexcept;

    bool as_bool() const;
    /// Any whole number that fits, whatever its spelling.
    std::int64_t as_int64() const;
    std::uint64_t as_uint64() const;
    /// Any number, rounded to double.
    double as_double() const;
    text as_string() const;
    /// The text of a number as it would be serialised.
    std::string number_text() const;

    bool bool_or(bool fallback) const noexcept;
    std::int64_t int64_or(std::int64_t fallback) const noexcept;
    /// The string, or empty when missing or of another type.
    text string_or_empty() const noexcept;

    /// Members or elements; 0 for scalars and missing.
    std::size_t size() const noexcept;
    bool empty() const noexcept { return size() == 0; }
    /// A member; missing when there is none or this is not an object.
    value operator[](std::string_view key) const noexcept;
    value operator[](const char* key) const noexcept { return (*this)[std::string_view(key)]; }
    /// An element; missing beyond the end, and below zero.
    template <std::integral Index>
        requires(!std::same_as<Index, bool> && !std::same_as<Index, char>)
    value operator[](Index index) const noexcept {
        return index < 0 ? value() : element(static_cast<std::size_t>(index));
    }
    bool contains(std::string_view key) const noexcept { return (*this)[key].exists(); }
    /// JSON pointer (RFC 6901): "/spec/containers/0/image", "" is this value, "~1" is "/", "~0" is "~".
    value at_pointer(std::string_view pointer) const;

    /// The i-th member of an object, in document order.
    text member_key(std::size_t i) const noexcept;
    value member_value(std::size_t i) const noexcept;

    class iterator; ///< over the elements of an array
    iterator begin() const noexcept;
    iterator end() const noexcept;
    class member_range;
    /// `for (auto [key, v] : obj.members())`
    member_range members() const noexcept;

    /// Deep equality. The order of members does not count, nor does the spelling of numbers if both are exact. Equal
    /// handles are a short cut, so equal versions of one object compare in O(1).
    friend bool operator==(const value& a, const value& b);
    /// Whether this is that string: `pod["status"]["phase"] == "Running"`. What is missing or no string equals no text,
    /// not even an empty one.
    friend bool operator==(const value& v, std::string_view s) noexcept;
    friend bool operator==(const value& v, const text& s) noexcept { return v == s.view(); }
    friend bool operator==(const value& v, std::nullptr_t) = delete; // is_null(), or exists()
    /// O(1) identity: true implies equal. If of two versions of one object the second was decoded with the first as its
    /// `previous`, in one generation of the pool, then values at the same place are identical exactly where they read
    /// alike. This does not hold where members changed their order or numbers their spelling, where a key came twice,
    /// or across a compaction.
    bool same_as(const value& other) const noexcept {
        return generation_ == other.generation_ && handle_ == other.handle_;
    }

    /// Compact JSON. Complexity: size of the text.
    std::string to_json() const;
    void to_json(std::string& append_to) const;
    /// Indented by `indent` blanks a level.
    std::string to_pretty_json(int indent = 2) const;
    /// Compact JSON, so a string has its quotes (`string_or_empty()` has none); nothing for a missing value.
    friend std::ostream& operator<<(std::ostream& o, const value& v);

    const detail::generation* generation() const noexcept { return generation_; }
    std::uint32_t handle() const noexcept { return handle_; }

private:
    value element(std::size_t index) const noexcept;

    const detail::generation* generation_ = nullptr;
    std::uint32_t handle_ = 0;
};

struct member {
    text key;
    informer::value value;
};

class value::iterator {
public:
    using iterator_category = std::input_iterator_tag;
    using value_type = value;
    using difference_type = std::ptrdiff_t;
    using reference = value;
    using pointer = void;
    iterator() noexcept = default;
    iterator(value of, std::size_t i) noexcept : of_(of), i_(i) {}
    value operator*() const noexcept { return of_[i_]; }
    // clang-format off
    iterator& operator++() noexcept { ++i_; return *this; }
    // clang-format on
    iterator operator++(int) noexcept {
        auto c = *this;
        ++i_;
        return c;
    }
    friend bool operator==(const iterator& a, const iterator& b) noexcept { return a.i_ == b.i_; }

private:
    value of_;
    std::size_t i_ = 0;
};

class value::member_range {
public:
    class iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = member;
        using difference_type = std::ptrdiff_t;
        using reference = member;
        using pointer = void;
        iterator() noexcept = default;
        iterator(value of, std::size_t i) noexcept : of_(of), i_(i) {}
        member operator*() const noexcept { return member{of_.member_key(i_), of_.member_value(i_)}; }
        // clang-format off
        iterator& operator++() noexcept { ++i_; return *this; }
        // clang-format on
        iterator operator++(int) noexcept {
            auto c = *this;
            ++i_;
            return c;
        }
        friend bool operator==(const iterator& a, const iterator& b) noexcept { return a.i_ == b.i_; }

    private:
        value of_;
        std::size_t i_ = 0;
    };
    explicit member_range(value of) noexcept : of_(of) {}
    iterator begin() const noexcept { return {of_, 0}; }
    iterator end() const noexcept { return {of_, of_.is_object() ? of_.size() : 0}; }

private:
    value of_;
};

inline value::iterator value::begin() const noexcept {
    return {*this, 0};
}
inline value::iterator value::end() const noexcept {
    return {*this, is_array() ? size() : 0};
}
inline value::member_range value::members() const noexcept {
    return member_range(*this);
}

} // namespace informer
