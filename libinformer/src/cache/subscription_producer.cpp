// The informer's side of a subscription: what comes into the queue, and what is merged there. No coroutine in here.
#include "subscription_aftermath.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <new>
#include <utility>

namespace informer {

namespace {

bool same_uid(const object& a, const object& b) noexcept {
    const text x = a.meta().uid(), y = b.meta().uid();
    return x == y;
}

} // namespace

/// The walk of what is wanted of a state; null if that is nothing.
std::unique_ptr<detail::object_cursor>
subscription::state::walk_of(const cache_snapshot& initial, std::shared_ptr<const detail::arrivals> order) const {
    if (options_.name_space_.empty())
        return initial.size() > 0 ? std::make_unique<detail::object_cursor>(initial, std::move(order)) : nullptr;
    detail::object_cursor first(initial, options_.name_space_);
    const object* o = first.next();
    while (o && !wants(*o)) o = first.next();
    return o ? std::make_unique<detail::object_cursor>(initial, options_.name_space_) : nullptr;
}

void subscription::state::start(cache_snapshot initial, informer::resource_version version,
                                std::shared_ptr<const detail::arrivals> order) {
    auto walk = walk_of(initial, std::move(order));
    {
        const guard lock(mutex_);
        if (closed_ || ended_) return;
        assert(!initial_ && nothing_pending());
        initial_ = std::move(walk);
        note_drained();
    }
    initial_complete(std::move(version));
}

void subscription::state::push(event e) {
    assert(e.kind != event_kind::synced);
    if (!e.current) e.current = e.previous;
    if (!wants(e.current)) return;
    entries one;
    one.emplace_back(std::move(e));
    aftermath a;
    const guard lock(mutex_);
    if (closed_ || ended_) return;
    unfold(a);
    if (!merge(one.front(), a)) append(one);
    pass_hidden_marks(a);
    wake_consumer(a);
}

/// The events of the namespace that was asked for; null if there are none.
subscription::state::shared_events subscription::state::wanted(const shared_events& events) const {
    const auto is_wanted = [this](const event& e) { return wants(e.current ? e.current : e.previous); };
    const auto n = static_cast<std::size_t>(std::count_if(events->begin(), events->end(), is_wanted));
    if (n == 0) return nullptr;
    if (n == events->size()) return events;
    auto some = std::make_shared<std::vector<event>>();
    some->reserve(n);
    std::copy_if(events->begin(), events->end(), std::back_inserter(*some), is_wanted);
    return some;
}

bool subscription::state::queue_wanted(const shared_events& events, detail::wake_list& to_wake) {
    const shared_events some = closed() ? nullptr : wanted(events);
    if (!some) return true;
    const guard lock(mutex_);
    return give(some, to_wake) || queue(some, to_wake);
}

bool subscription::state::queue(const shared_events& events, detail::wake_list& to_wake) {
    assert(events && !events->empty());
    const std::size_t n = events->size();
    if (closed_ || ended_) return true;
    if (n > options_.capacity_ || queued_ > options_.capacity_ - n) return false;
    // Room for one more than are queued: a gift may come back.
    if (segments_.capacity() - segments_.size() < 2) segments_.reserve(2 * segments_.size() + 2);
    if (consumer_) to_wake.add(*consumer_);
    segments_.push_back(segment{events});
    queued_ += n;
    peak_ = std::max(peak_, queued_);
    drained_.store(false, std::memory_order_relaxed);
    return true;
}

/// Puts a gift back to the front of the queue, where its events would still be.
void subscription::state::give_back(shared_events events) noexcept {
    aftermath a;
    const guard lock(mutex_);
    delivered_ -= events->size();
    given_ = false;
    if (discarded_) {
        a.drop(std::move(events));
        return;
    }
    queued_ += events->size();
    if (pending_.empty()) {
        segments_.insert(segments_.begin(), segment{std::move(events)}); // there is room
    } else {
        returned_ = std::move(events);
        try {
            restore_returned(a);
        } catch (const std::bad_alloc&) { // NOLINT(bugprone-empty-catch) whoever takes it does that
        }
    }
    wake_consumer(a); // the next consumer, which may wait already
}

/// Turns a gift that came back, in front of other entries, into entries.
void subscription::state::restore_returned(aftermath& a) {
    entries all;
    std::uint64_t sequence = gift_sequence_;
    for (const event& e : *returned_) {
        entry& one = all.emplace_back(e);
        one.sequence = sequence++;
        one.self = std::prev(all.end());
    }
    pending_.splice(pending_.begin(), all);
    by_key_.reset(); // it does not have the new entries
    a.drop(std::move(returned_));
}

void subscription::state::initial_complete(informer::resource_version version) {
    mark(std::move(version), true);
}

void subscription::state::relisted(informer::resource_version version) {
    mark(std::move(version), false);
}

void subscription::state::mark(informer::resource_version version, bool completes_initial) {
    entries one;
    one.emplace_back(event(event_kind::synced, object(), object(),
                           completes_initial ? event_reason::snapshot : event_reason::relist));
    one.front().what.initial = completes_initial;
    one.front().what.version = std::move(version);
    one.front().completes_initial = completes_initial;
    aftermath a;
    const guard lock(mutex_);
    if (closed_ || ended_) return;
    if (!completes_initial && !options_.sync_marks_) return;
    if (!completes_initial && queued_ >= options_.capacity_ && marks_ >= 2) {
        // The first mark stays where it is, so that a slow consumer still gets to it; the last one moves to the end.
        a.drop(pending_, last_mark_);
        --marks_;
        --queued_;
        ++coalesced_;
    }
    unfold(a);
    append(one);
    pass_hidden_marks(a);
    wake_consumer(a);
}

bool subscription::state::over_locked() const noexcept {
    return options_.policy_ == overflow_policy::back_pressure && queued_ >= options_.capacity_ && !closed_ && !ended_;
}

bool subscription::state::over() const {
    const guard lock(mutex_);
    return over_locked();
}

// ---- queue ----------------------------------------------------------------------------------------------------------

void subscription::state::append(entries& one) {
    entry& e = one.front();
    e.sequence = next_sequence_++;
    e.self = one.begin();
    pending_.splice(pending_.end(), one);
    if (e.mark()) {
        ++marks_;
        last_mark_ = e.self;
    } else if (by_key_) {
        remember(e);
    }
    if (hidden(e)) return;
    ++queued_;
    peak_ = std::max(peak_, queued_);
}

/// Turns shared events into entries of this queue, which can be merged, and behind which others can be queued.
void subscription::state::unfold(aftermath& a) {
    if (segments_.empty()) return;
    entries all;
    for (const segment& s : segments_)
        for (std::size_t i = s.at; i < s.events->size(); ++i) all.emplace_back((*s.events)[i]);
    queued_ -= all.size();
    for (segment& s : segments_) a.drop(std::move(s.events)); // the entries hold the events now
    segments_.clear();
    while (!all.empty()) {
        entries one;
        one.splice(one.end(), all, all.begin());
        append(one);
    }
}

void subscription::state::remember(entry& e) {
    hash(e);
    const auto [there, fresh] = by_key_->insert(&e);
    if (fresh) return;
    e.before = *there;
    e.before_sequence = e.before->sequence;
    by_key_->erase(there);
    by_key_->insert(&e);
}

void subscription::state::hash(entry& e) const noexcept {
    if (e.hash == 0) e.hash = detail::object_traits{hash_seed_}.hash(e.what.current);
}

subscription::state::entry* subscription::state::last_of_key(entry& like) {
    hash(like);
    if (!by_key_) {
        by_key_.emplace(pending_.size());
        for (entry& e : pending_) {
            e.before = nullptr;
            if (!e.mark()) remember(e);
        }
    }
    const auto found = by_key_->find(&like);
    return found == by_key_->end() ? nullptr : *found;
}

/// Removes an event, the last one of its key, from the middle of the queue.
void subscription::state::drop(entry& e, aftermath& a) {
    by_key_->erase(&e);
    if (e.before && e.before_sequence >= pending_.front().sequence) by_key_->insert(e.before);
    a.drop(pending_, e.self);
    --queued_;
    if (pending_.empty()) by_key_.reset();
}

/// Implements the table of the public header. True: the incoming event needs no entry of its own.
bool subscription::state::merge(entry& incoming, aftermath& a) {
    event& e = incoming.what;
    const bool resync = e.reason == event_reason::resync;
    if (resync && initial_) {
        ++coalesced_;
        return true;
    }
    const bool full = options_.policy_ == overflow_policy::coalesce && queued_ >= options_.capacity_;
    if ((!full && !resync) || pending_.empty()) return false;
    entry* const last = last_of_key(incoming);
    if (!last) return false;
    event& p = last->what;
    const bool created_anew = p.kind == event_kind::deleted && e.kind == event_kind::added;
    if (!resync && created_anew && !same_uid(p.current, e.current)) return false;
    ++coalesced_;
    if (resync) return true;
    if (p.kind == event_kind::added && e.kind == event_kind::deleted) {
        drop(*last, a);
        return true;
    }
    if (p.kind != event_kind::added) {
        p.reason = e.reason;
        p.final_state_known = e.final_state_known;
        if (e.kind == event_kind::deleted) {
            p.kind = event_kind::deleted;
        } else if (p.kind == event_kind::deleted) {
            p.kind = event_kind::updated;
            if (!p.previous) p.previous = p.current;
        }
    }
    using std::swap;
    swap(p.current, e.current); // the old state is destroyed with `incoming`, outside of the lock
    p.version = std::move(e.version);
    return true;
}

} // namespace informer
