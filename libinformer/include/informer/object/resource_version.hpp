// Resource versions: opaque, except that they compare as decimal numbers of any length.
#pragma once

#include <informer/detail/shared_count.hpp>

#include <compare>
#include <cstddef>
#include <cstring>
#include <ostream>
#include <string>
#include <string_view>

namespace informer {

/// A resource version as the server wrote it. Two comparable ones order as decimal numbers of any length; one that is
/// not a decimal number is `unordered` with everything except an equal text. Never crashes (contract).
///
/// *Complexity*: copying one of up to 23 characters, as all from etcd are, copies three words; each event carries one
/// to each subscriber. Longer ones are shared. *Errors*: making a longer one throws std::bad_alloc if there is no
/// memory.
class resource_version {
public:
    resource_version() noexcept = default;
    explicit resource_version(std::string_view s) {
        if (s.size() > room) {
            make_far(s);
        } else {
            std::memcpy(bytes_, s.data() ? s.data() : "", s.size());
            bytes_[room] = static_cast<char>(s.size());
        }
    }
    resource_version(const resource_version& o) noexcept {
        std::memcpy(bytes_, o.bytes_, sizeof bytes_);
        if (is_far()) detail::count_up(far().holders);
    }
    resource_version(resource_version&& o) noexcept {
        std::memcpy(bytes_, o.bytes_, sizeof bytes_);
        o.bytes_[room] = 0;
    }
    resource_version& operator=(const resource_version& o) noexcept { return *this = resource_version(o); }
    resource_version& operator=(resource_version&& o) noexcept {
        if (this == &o) return *this;
        if (is_far()) leave_far();
        std::memcpy(bytes_, o.bytes_, sizeof bytes_);
        o.bytes_[room] = 0;
        return *this;
    }
    ~resource_version() {
        if (is_far()) leave_far();
    }

    /// A view; refuses temporaries, whose text would be gone.
    std::string_view view() const& noexcept { return text(); }
    std::string_view view() const&& = delete;
    std::string str() const { return std::string(text()); }
    bool empty() const noexcept { return bytes_[room] == 0; }
    bool comparable() const noexcept; ///< a non-empty decimal number
    friend bool operator==(const resource_version& a, const resource_version& b) noexcept { return (a <=> b) == 0; }
    friend std::partial_ordering operator<=>(const resource_version& a, const resource_version& b) noexcept;
    friend std::ostream& operator<<(std::ostream& o, const resource_version& v) { return o << v.text(); }

private:
    static constexpr std::size_t room = 23;
    static constexpr char elsewhere = room + 1;
    struct far_text {
        detail::shared_count holders{1};
        std::string text;
    };
    bool is_far() const noexcept { return bytes_[room] == elsewhere; }
    far_text& far() const noexcept {
        far_text* f = nullptr;
        std::memcpy(&f, bytes_, sizeof f);
        return *f;
    }
    std::string_view text() const noexcept {
        return is_far() ? std::string_view(far().text)
                        : std::string_view(bytes_, static_cast<std::size_t>(bytes_[room]));
    }
    void make_far(std::string_view s);
    void leave_far() noexcept;

    alignas(far_text*) char bytes_[room + 1] = {}; ///< the text and its length; or a pointer to it, and `elsewhere`
};

} // namespace informer
