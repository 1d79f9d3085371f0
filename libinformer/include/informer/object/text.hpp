// A string read from a document.
#pragma once

#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace informer {

/// A string of a document: a view into the pool, or a small buffer of its own where the pool stores a packed form
/// (timestamps, short strings, UUIDs).
///
/// *Lifetime*: valid as long as the `object` it was read from is held, like any view. `str()` copies.
class text {
public:
    static constexpr std::size_t buffer_size = 39;
    text() noexcept : size_(0), in_buffer_(true) {}
    /// A view; `s` must outlive it.
    explicit text(std::string_view s) noexcept
        : data_(s.data()), size_(static_cast<std::uint32_t>(s.size())), in_buffer_(false) {}
    /// A copy in the text's own buffer; `s.size() <= buffer_size`.
    static text packed(std::string_view s) noexcept;

    /// These two refuse temporaries, whose buffer would be gone: name the text first.
    const char* data() const& noexcept { return in_buffer_ ? buffer_ : data_; }
    const char* data() const&& = delete;
    std::string_view view() const& noexcept { return {data(), size_}; }
    std::string_view view() const&& = delete;
    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    std::string str() const { return std::string(data(), size_); }
    explicit operator std::string() const { return str(); }
    bool starts_with(std::string_view s) const noexcept { return view().starts_with(s); }
    bool ends_with(std::string_view s) const noexcept { return view().ends_with(s); }

    friend bool operator==(const text& a, const text& b) noexcept { return a.view() == b.view(); }
    friend bool operator==(const text& a, std::string_view b) noexcept { return a.view() == b; }
    friend auto operator<=>(const text& a, const text& b) noexcept { return a.view() <=> b.view(); }
    friend auto operator<=>(const text& a, std::string_view b) noexcept { return a.view() <=> b; }
    friend std::ostream& operator<<(std::ostream& o, const text& t) { return o << t.view(); }
    friend std::string& operator+=(std::string& s, const text& t) { return s.append(t.data(), t.size()); }
    friend std::string operator+(std::string s, const text& t) { return std::move(s += t); }
    friend std::string operator+(const text& t, std::string_view s) { return t.str().append(s); }
    friend std::string operator+(const text& a, const text& b) { return a.str().append(b.data(), b.size()); }

private:
    union {
        const char* data_;
        char buffer_[buffer_size + 1];
    };
    std::uint32_t size_;
    bool in_buffer_;
};

} // namespace informer

template <>
struct std::hash<informer::text> {
    std::size_t operator()(const informer::text& t) const noexcept { return std::hash<std::string_view>()(t.view()); }
};
