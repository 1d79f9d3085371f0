// What a subscription's queue releases and wakes when its lock has been given back.
#pragma once

#include "subscription_state.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace informer {

// Declare one before taking the mutex: its destructor does its work after the mutex was released. What is released
// moves in here without needing memory: if that could fail, an event might be neither in the queue nor handed out.
struct subscription::state::aftermath {
    aftermath() = default;
    aftermath(const aftermath&) = delete;
    aftermath& operator=(const aftermath&) = delete;
    ~aftermath() {
        if (consumer) detail::wake_soon([this] { consumer->wake_claimed(); });
        if (producer) detail::wake_soon([this] { detail::wake(producer); });
        if (!sync_waiters.empty()) detail::wake_soon([this] { detail::wake_all(sync_waiters); });
    }
    void drop(shared_events&& e) noexcept {
        if (!taken) {
            taken = std::move(e);
            return;
        }
        const shared_events here = std::move(e);
        try {
            more.push_back(here);
        } catch (...) { // NOLINT(bugprone-empty-catch) no memory: then here, under the lock
        }
    }
    void drop(entries& from, entries::iterator which) noexcept { gone.splice(gone.end(), from, which); }

    shared_events taken;
    detail::waiter* consumer = nullptr; // already claimed
    detail::waiter_ptr producer;
    entries gone;
    std::vector<shared_events> more;
    std::unique_ptr<detail::object_cursor> walked;
    std::vector<detail::waiter_ptr> sync_waiters;
};

} // namespace informer
