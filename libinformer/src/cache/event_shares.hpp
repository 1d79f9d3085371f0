// The events of a batch on their way to the subscribers.
#pragma once

#include <informer/cache/event.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace informer::detail {

/// Events in the shares in which subscribers get them. There may be one event for each object of a large cache, so
/// adding one never moves the others, and the events can be freed share by share.
class event_shares {
public:
    static constexpr std::size_t most = 256; ///< events of a share: a quarter of a subscription's default capacity

    explicit event_shares(std::size_t expected = 0) { last_.reserve(std::min(expected, most)); }

    void push_back(event e) {
        if (last_.size() == most) {
            full_.push_back(std::move(last_));
            last_ = std::vector<event>();
            last_.reserve(most);
        }
        last_.push_back(std::move(e));
    }
    void push_back(event_kind kind, object now, object before, const resource_version& version, event_reason why) {
        event e(kind, std::move(now), std::move(before), why);
        e.version = version;
        push_back(std::move(e));
    }
    /// The deletion of an object whose final state was not reported: it carries the last known state.
    void push_end_of(const object& last, const resource_version& version, event_reason why) {
        event e(event_kind::deleted, last, last, why);
        e.final_state_known = false;
        e.version = version;
        push_back(std::move(e));
    }
    std::size_t size() const noexcept { return full_.size() * most + last_.size(); }
    bool empty() const noexcept { return last_.empty(); }

    std::size_t shares() const noexcept { return full_.size() + !last_.empty(); }
    std::vector<event> take_share(std::size_t i) noexcept { return std::move(i < full_.size() ? full_[i] : last_); }

private:
    std::vector<std::vector<event>> full_;
    std::vector<event> last_;
};

} // namespace informer::detail
