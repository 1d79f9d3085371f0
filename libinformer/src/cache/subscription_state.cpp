// The life of a subscription's queue, which both sides share: sync, end, close, and the waiters that these wake. No
// coroutine in here.
#include "subscription_aftermath.hpp"

#include <algorithm>
#include <utility>

namespace informer {

subscription::state::state(subscription_options options, std::uint64_t hash_seed)
    : wants_all_(options.name_space_.empty()), options_([&] {
          options.capacity_ = std::max<std::size_t>(options.capacity_, 1);
          return std::move(options);
      }()),
      hash_seed_(hash_seed) {}

subscription::state::~state() = default;

void subscription::state::wake_consumer(aftermath& a) {
    drained_.store(false, std::memory_order_relaxed);
    if (!consumer_ || (!initial_ && nothing_pending() && !closed_ && !ended_)) return;
    if (consumer_->claim()) a.consumer = consumer_.get();
}

void subscription::state::wake_sync_waiters(aftermath& a) {
    if (!sync_waiters_.empty()) a.sync_waiters.swap(sync_waiters_);
}

void subscription::state::wake_all_at_the_end(aftermath& a) {
    wake_consumer(a);
    a.producer = std::move(producer_);
    if (sync_is_hopeless()) wake_sync_waiters(a);
}

void subscription::state::pass_hidden_marks(aftermath& a) {
    while (!initial_ && !in_hand_ && !returned_ && !pending_.empty() && hidden(pending_.front())) {
        if (pending_.front().completes_initial) set_synced(a);
        a.drop(pending_, pending_.begin());
        --marks_;
    }
    if (pending_.empty()) by_key_.reset();
}

void subscription::state::set_synced(aftermath& a) {
    synced_.store(true, std::memory_order_release);
    wake_sync_waiters(a);
}

bool subscription::state::sync_is_hopeless() const noexcept {
    if (synced_) return false;
    const bool may_still_come =
        initial_ || std::any_of(pending_.begin(), pending_.end(), [](const entry& e) { return e.completes_initial; });
    return (closed_ || ended_) && !may_still_come;
}

subscription::state::outcome subscription::state::poll_sync() {
    const guard lock(mutex_);
    if (synced_) return outcome::taken;
    return sync_is_hopeless() ? outcome::finished : outcome::nothing;
}

std::string subscription::state::why_not_synced() const {
    std::shared_ptr<const std::string> why;
    bool closed = false;
    {
        const guard lock(mutex_);
        closed = closed_;
        why = why_ended_;
    }
    std::string text = detail::name_of(options_);
    text += closed ? ": closed" : ": ended";
    text += " before its initial state was complete";
    if (!closed && why) text += ": " + *why;
    return text;
}

void subscription::state::end(std::shared_ptr<const std::string> why) {
    aftermath a;
    const guard lock(mutex_);
    if (!ended_) why_ended_.swap(why);
    ended_ = true;
    wake_all_at_the_end(a);
}

void subscription::state::close(pending_events p) {
    // Destructors call this, also when there is no memory, so these are locals and not parts of the aftermath.
    entries gone;
    std::vector<segment> segments;
    shared_events returned;
    std::unique_ptr<detail::object_cursor> walked;
    aftermath a;
    const guard lock(mutex_);
    closed_.store(true, std::memory_order_release);
    if (p == pending_events::discard) {
        discarded_ = true;
        by_key_.reset();
        gone.swap(pending_);
        segments.swap(segments_);
        returned.swap(returned_);
        walked = std::move(initial_);
        queued_ = marks_ = 0;
    }
    wake_all_at_the_end(a);
}

subscription_figures subscription::state::figures() const {
    const guard lock(mutex_);
    subscription_figures f;
    f.pending = queued_;
    f.delivered = delivered_;
    f.coalesced = coalesced_;
    f.peak_pending = peak_;
    return f;
}

void subscription::state::make_waiter() {
    auto made = std::make_shared<detail::waiter>();
    const guard lock(mutex_);
    segments_.reserve(2); // a gift may come back
    if (!consumer_) consumer_ = std::move(made);
    can_wait_.store(true, std::memory_order_relaxed);
}

void subscription::state::make_room_for_sync_waiter() {
    const guard lock(mutex_);
    sync_waiters_.reserve(sync_waiters_.size() + 1);
}

void subscription::state::park(wait w, detail::waiter_ptr p) {
    {
        const guard lock(mutex_);
        switch (w) {
        case wait::room:
            if (!over_locked()) break;
            producer_ = std::move(p);
            return;
        case wait::synced:
            if (synced_ || sync_is_hopeless()) break;
            std::erase_if(sync_waiters_, [](const detail::waiter_ptr& other) { return !detail::is_waiting(other); });
            sync_waiters_.push_back(std::move(p));
            return;
        }
    }
    detail::wake(p);
}

} // namespace informer
