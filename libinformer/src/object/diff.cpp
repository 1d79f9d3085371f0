#include <informer/object/diff.hpp>

#include "detail/reading.hpp"

#include <algorithm>

namespace informer {

using namespace detail;

namespace {

class differ {
public:
    explicit differ(std::vector<change>& out) : out_(out) {}

    void compare(const value& a, const value& b) {
        if (a.same_as(b)) return;
        const value_kind k = a.kind();
        if (k == b.kind() && k == value_kind::object) return objects(a, b);
        if (k == b.kind() && k == value_kind::array) return arrays(a, b);
        if (!(a == b)) add(a, b);
    }

private:
    void add(const value& before, const value& after) { out_.push_back(change{pointer_, before, after}); }

    template <class Act>
    void within(std::string_view token, const Act& act) {
        const std::size_t size = pointer_.size();
        append_token(token, pointer_);
        act();
        pointer_.resize(size);
    }

    void objects(const value& a, const value& b) {
        const children ca = children_of(a.generation(), a.handle()), cb = children_of(b.generation(), b.handle());
        member_finder in_a(a.generation(), ca), in_b(b.generation(), cb);
        std::uint32_t guess = 0;
        for (std::uint32_t i = 0; i < cb.n; ++i) {
            const std::uint32_t k = in_a.find(b.generation(), cb.keys[i], guess);
            const value before = k < ca.n ? value(a.generation(), ca.values[k]) : value();
            const value after(b.generation(), cb.values[i]);
            if (k < ca.n) guess = k + 1;
            if (before.same_as(after)) continue;
            const text key = string_of(b.generation(), cb.keys[i]);
            within(key.view(), [&] { before.exists() ? compare(before, after) : add(before, after); });
        }
        guess = 0;
        for (std::uint32_t i = 0; i < ca.n; ++i) {
            const std::uint32_t k = in_b.find(a.generation(), ca.keys[i], guess);
            if (k < cb.n) {
                guess = k + 1;
                continue;
            }
            const text key = string_of(a.generation(), ca.keys[i]);
            within(key.view(), [&] { add(value(a.generation(), ca.values[i]), value()); });
        }
    }

    void arrays(const value& a, const value& b) {
        const std::size_t n = std::max(a.size(), b.size());
        for (std::size_t i = 0; i < n; ++i) {
            const value before = a[i], after = b[i];
            if (before.same_as(after)) continue;
            const bool both = before.exists() && after.exists();
            within(std::to_string(i), [&] { both ? compare(before, after) : add(before, after); });
        }
    }

    std::vector<change>& out_;
    std::string pointer_;
};

} // namespace

std::vector<change> diff(const value& a, const value& b) {
    std::vector<change> changes;
    differ(changes).compare(a, b);
    return changes;
}

std::vector<change> diff(const object& a, const object& b) {
    return diff(a.value(), b.value());
}

} // namespace informer
