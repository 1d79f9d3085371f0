// What a subscription's queue lets go of, and whom it wakes, once its lock is given back.
#pragma once

#include "subscription_state.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace informer {

// Declare one before taking the mutex: it settles when it goes out of scope, after the mutex was released.
// What every event goes through has none; made often all the same, so what is seldom needed is made when it is.
struct subscription::state::aftermath {
    struct seldom {
        entries gone;
        std::vector<shared_events> taken;
        std::unique_ptr<detail::object_cursor> walked;
        std::vector<detail::waiter_ptr> sync_waiters;
    };
    aftermath() = default;
    aftermath(const aftermath&) = delete;
    aftermath& operator=(const aftermath&) = delete;
    ~aftermath() {
        // No memory: with the next who is woken.
        const auto each = [](auto wakes) noexcept {
            try {
                wakes();
            } catch (...) { // NOLINT(bugprone-empty-catch)
            }
        };
        if (consumer) each([&] { consumer->wake_claimed(); });
        if (producer) each([&] { detail::wake(producer); });
        if (more) each([&] { detail::wake_all(more->sync_waiters); });
    }
    seldom& rest() {
        if (!more) more = std::make_unique<seldom>();
        return *more;
    }
    void drop(shared_events&& e) {
        if (!taken)
            taken = std::move(e);
        else
            rest().taken.push_back(std::move(e));
    }
    void drop(entries& from, entries::iterator which) {
        entries& gone = rest().gone;
        gone.splice(gone.end(), from, which);
    }

    shared_events taken;
    detail::waiter* consumer = nullptr; // claimed
    detail::waiter_ptr producer;
    std::unique_ptr<seldom> more;
};

} // namespace informer
