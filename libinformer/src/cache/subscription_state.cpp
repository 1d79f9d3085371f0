// The queue of a subscription: order, coalescing, sync. No coroutine in here.
#include "../object/detail/reading.hpp"
#include "subscription_state.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <limits>
#include <utility>

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
        if (consumer) consumer->wake_claimed();
        detail::wake(producer);
        if (more) detail::wake_all(more->sync_waiters);
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

namespace {

bool same_uid(const object& a, const object& b) noexcept {
    const text x = a.meta().uid(), y = b.meta().uid();
    return x == y;
}

} // namespace

subscription::state::state(subscription_options options) : options_([&] {
    options.capacity_ = std::max<std::size_t>(options.capacity_, 1);
    return std::move(options);
}()) {}

subscription::state::~state() = default;

// ---- producer -------------------------------------------------------------------------------------------------------

void subscription::state::start(cache_snapshot initial, informer::resource_version version,
                                std::shared_ptr<const detail::arrivals> order) {
    {
        const guard lock(mutex_);
        if (closed_ || ended_) return;
        assert(!initial_ && nothing_pending());
        if (initial.size() > 0) initial_ = std::make_unique<detail::object_cursor>(initial, std::move(order));
    }
    mark(std::move(version), true);
}

void subscription::state::push(event e) {
    assert(e.kind != event_kind::synced);
    if (!e.current) e.current = e.previous;
    entries one;
    one.emplace_back(std::move(e));
    aftermath a;
    const guard lock(mutex_);
    if (closed_ || ended_) return;
    unfold();
    if (!merge(one.front(), a)) append(one);
    pass_hidden_marks(a);
    wake_consumer(a);
}

bool subscription::state::push_all(const shared_events& events, detail::wake_list& to_wake) {
    assert(events && !events->empty());
    const std::size_t n = events->size();
    const guard lock(mutex_);
    if (closed_ || ended_) return true;
    if (n > options_.capacity_ || queued_ > options_.capacity_ - n) return false;
    if (consumer_ && to_wake.add(*consumer_) && nothing_pending() && n <= gift_->most_) {
        gift_->events_ = events;
        given_ = true;
        gift_sequence_ = next_sequence_;
        next_sequence_ += n;
        peak_ = std::max(peak_, n);
        delivered_ += n;
        in_hand_ = true;
        note_drained();
        return true;
    }
    segments_.push_back(segment{events});
    queued_ += n;
    peak_ = std::max(peak_, queued_);
    drained_.store(false, std::memory_order_relaxed);
    return true;
}

/// To the front, where it would still be.
void subscription::state::give_back(shared_events events) {
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
        segments_.insert(segments_.begin(), segment{std::move(events)});
    } else {
        entries all;
        for (const event& e : *events) {
            entry& one = all.emplace_back(e);
            one.sequence = gift_sequence_++;
            one.self = std::prev(all.end());
        }
        pending_.splice(pending_.begin(), all);
        by_key_.reset(); // it does not know them
        a.drop(std::move(events));
    }
    wake_consumer(a); // the next one, who may wait already
}

void subscription::state::initial_complete(informer::resource_version version) { mark(std::move(version), true); }

void subscription::state::relisted(informer::resource_version version) { mark(std::move(version), false); }

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
        // The first one stays where it is, so that a slow consumer still comes to it; the last one moves back.
        a.drop(pending_, last_mark_);
        --marks_;
        --queued_;
        ++coalesced_;
    }
    unfold();
    append(one);
    pass_hidden_marks(a);
    wake_consumer(a);
}

void subscription::state::end(std::shared_ptr<const std::string> why) {
    aftermath a;
    const guard lock(mutex_);
    if (!ended_) why_ended_.swap(why);
    ended_ = true;
    wake_consumer(a);
    a.producer = std::move(producer_);
    if (sync_is_hopeless()) wake_sync_waiters(a);
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

/// Shared events become entries of our own, which can be merged, and behind which others can stand.
void subscription::state::unfold() {
    if (segments_.empty()) return;
    entries all;
    for (const segment& s : segments_)
        for (std::size_t i = s.at; i < s.events->size(); ++i) all.emplace_back((*s.events)[i]);
    queued_ -= all.size();
    segments_.clear(); // never the last to hold them: the producer does while it pushes
    while (!all.empty()) {
        entries one;
        one.splice(one.end(), all, all.begin());
        append(one);
    }
}

void subscription::state::remember(entry& e) {
    const auto [there, fresh] = by_key_->insert(&e);
    if (fresh) return;
    e.before = *there;
    e.before_sequence = e.before->sequence;
    by_key_->erase(there);
    by_key_->insert(&e);
}

subscription::state::entry* subscription::state::last_of_key(entry& like) {
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

/// Takes an event out of the middle: the last one of its key.
void subscription::state::drop(entry& e, aftermath& a) {
    by_key_->erase(&e);
    if (e.before && e.before_sequence >= pending_.front().sequence) by_key_->insert(e.before);
    a.drop(pending_, e.self);
    --queued_;
    if (pending_.empty()) by_key_.reset();
}

/// The table of the public header. True: the incoming event is in a pending one now.
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
    swap(p.current, e.current); // what was there goes with `incoming`, outside of the lock
    p.version = std::move(e.version);
    return true;
}

// ---- consumer -------------------------------------------------------------------------------------------------------

void subscription::state::pass_hidden_marks(aftermath& a) {
    while (!initial_ && !in_hand_ && !pending_.empty() && hidden(pending_.front())) {
        if (pending_.front().completes_initial) set_synced(a);
        a.drop(pending_, pending_.begin());
        --marks_;
    }
    if (pending_.empty()) by_key_.reset();
}

/// Of the initial state of a late subscriber; null at its end.
const object* subscription::state::next_initial(aftermath& a) {
    const object* const o = initial_->next();
    if (o) {
        in_hand_ = true;
        ++delivered_;
    } else {
        a.rest().walked = std::move(initial_);
    }
    return o;
}

bool subscription::state::take(event& into, aftermath& a) {
    if (initial_) {
        if (const object* o = next_initial(a)) {
            into = event(event_kind::added, *o, object(), event_reason::snapshot);
            into.initial = true;
            return true;
        }
    }
    pass_hidden_marks(a);
    if (pending_.empty()) {
        if (segments_.empty()) return false;
        segment& s = segments_.front();
        into = (*s.events)[s.at++];
        if (s.at == s.events->size()) {
            a.drop(std::move(s.events));
            segments_.erase(segments_.begin());
        }
        counted_out(1, a);
        return true;
    }
    entry& e = pending_.front();
    if (e.mark()) {
        // Not in one batch with what it completes: the consumer must have come back.
        if (in_hand_) return false;
        --marks_;
        if (e.completes_initial) set_synced(a);
    } else if (by_key_) {
        const auto found = by_key_->find(&e);
        if (found != by_key_->end() && *found == &e) by_key_->erase(found);
    }
    into = std::move(e.what);
    a.drop(pending_, pending_.begin());
    if (pending_.empty()) by_key_.reset();
    counted_out(1, a);
    return true;
}

void subscription::state::counted_out(std::size_t n, aftermath& a) {
    queued_ -= n;
    delivered_ += n;
    in_hand_ = true;
    if (queued_ <= options_.capacity_ / 2 && producer_) a.producer = std::move(producer_);
}

subscription::state::outcome subscription::state::nothing_taken() const {
    if (closed_ || ended_) return outcome::finished;
    if (detail::is_waiting(consumer_)) {
        throw error(errc::already_running, "subscription " + options_.name_ + ": two consumers at once");
    }
    return outcome::nothing;
}

namespace {

void complete(event& e) {
    if (e.version.empty() && e.current) e.version = e.current.resource_version();
}

/// All of them are held meanwhile, and most are of a few shapes.
void complete(std::vector<event>& events) {
    detail::member_reader metadata("metadata"), version("resourceVersion");
    for (event& e : events) {
        if (!e.version.empty() || !e.current) continue;
        const text t = version(metadata(e.current.value())).string_or_empty();
        e.version = informer::resource_version(t.view());
    }
}

} // namespace

/// What can be taken without an aftermath, by the caller: copies are made outside of the lock. Null: there is more to it.
subscription::state::share subscription::state::take_share(std::size_t max) {
    share taken;
    const guard lock(mutex_);
    if (!plain()) return taken;
    segment& s = segments_.front();
    taken.from = s.at;
    taken.until = s.at += std::min(max, s.events->size() - s.at);
    if (s.at == s.events->size()) {
        taken.events = std::move(s.events);
        segments_.erase(segments_.begin());
    } else {
        taken.events = s.events;
    }
    queued_ -= taken.until - taken.from;
    delivered_ += taken.until - taken.from;
    in_hand_ = true;
    taken.more = !segments_.empty();
    note_drained();
    return taken;
}

/// The same for one. The last one stays where it is, so that it is copied but once and outside of the lock.
bool subscription::state::take_plain(std::optional<event>& into, shared_events& last) {
    const guard lock(mutex_);
    if (!plain()) return false;
    segment& s = segments_.front();
    if (s.at + 1 == s.events->size()) {
        last = std::move(s.events);
        segments_.erase(segments_.begin());
        note_drained();
    } else {
        into.emplace((*s.events)[s.at++]);
    }
    --queued_;
    ++delivered_;
    in_hand_ = true;
    return true;
}

/// `into` is empty.
subscription::state::outcome subscription::state::poll(std::vector<event>& into, std::size_t max, bool versions) {
    outcome result = outcome::taken;
    for (bool more = true; more && into.size() < max;) {
        const share some = take_share(max - into.size());
        if (!some.events) break;
        const event* const all = some.events->data();
        into.insert(into.end(), all + some.from, all + some.until);
        more = some.more;
    }
    if (!into.empty()) return result;
    std::size_t until = 0;
    do { // the producer spins for the lock, so it is given back between two portions
        until = into.size() + std::min(max - into.size(), portion_size);
        if (!into.empty() && into.capacity() < until) into.reserve(std::max(until, 2 * into.size()));
        aftermath a;
        const guard lock(mutex_);
        if (into.empty()) {
            if (in_flight()) return outcome::nothing;
            in_hand_ = false;
            if (initial_ || !nothing_pending()) into.reserve(initial_ ? until : std::min(until, queued_ + 1));
        }
        while (initial_ && into.size() < until) {
            const object* const o = next_initial(a);
            if (o) into.emplace_back(event_kind::added, *o, object(), event_reason::snapshot).initial = true;
        }
        event e;
        while (into.size() < until && take(e, a)) {
            into.push_back(std::move(e));
        }
        if (into.empty()) result = nothing_taken();
        note_drained();
    } while (into.size() == until && until < max);
    if (versions) complete(into);
    return result;
}

subscription::state::portion subscription::state::poll_portion() {
    portion into;
    share all = take_share(std::numeric_limits<std::size_t>::max());
    if (all.events) {
        into.shared = std::move(all.events);
        into.from = all.from;
        into.more = all.more;
    } else {
        into.more = poll(into.own, portion_size, false) == outcome::taken;
    }
    return into;
}

subscription::state::outcome subscription::state::poll(std::optional<event>& into, shared_events& last) {
    if (take_plain(into, last)) return outcome::taken;
    {
        aftermath a;
        const guard lock(mutex_);
        if (in_flight()) return outcome::nothing;
        in_hand_ = false;
        if (!take(into.emplace(), a)) {
            into.reset();
            return nothing_taken();
        }
        note_drained();
    }
    complete(*into);
    return outcome::taken;
}

std::optional<event> subscription::state::try_next() {
    std::optional<event> one;
    shared_events last;
    poll(one, last);
    if (last) return last->back();
    return one;
}

void subscription::state::wake_consumer(aftermath& a) {
    drained_.store(false, std::memory_order_relaxed);
    if (!consumer_ || (!initial_ && nothing_pending() && !closed_ && !ended_)) return;
    if (consumer_->claim()) a.consumer = consumer_.get();
}

void subscription::state::wake_sync_waiters(aftermath& a) {
    for (detail::waiter_ptr& w : sync_waiters_) a.rest().sync_waiters.push_back(std::move(w));
    sync_waiters_.clear();
}

void subscription::state::set_synced(aftermath& a) {
    synced_.store(true, std::memory_order_release);
    wake_sync_waiters(a);
}

bool subscription::state::sync_is_hopeless() const noexcept {
    if (synced_) return false;
    const bool may_still_come = initial_ || std::any_of(pending_.begin(), pending_.end(), [](const entry& e) {
        return e.completes_initial;
    });
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
    std::string text = options_.name_.empty() ? "subscription" : "subscription " + options_.name_;
    text += closed ? ": closed" : ": ended";
    text += " before its initial state was complete";
    if (!closed && why) text += ": " + *why;
    return text;
}

void subscription::state::close(pending_events p) {
    // Destructors come here, also where there is no memory: so these are not of the aftermath.
    entries gone;
    std::vector<segment> segments;
    std::unique_ptr<detail::object_cursor> walked;
    aftermath a;
    const guard lock(mutex_);
    closed_.store(true, std::memory_order_release);
    if (p == pending_events::discard) {
        discarded_ = true;
        by_key_.reset();
        gone.swap(pending_);
        segments.swap(segments_);
        walked = std::move(initial_);
        queued_ = marks_ = 0;
    }
    wake_consumer(a);
    a.producer = std::move(producer_);
    if (sync_is_hopeless()) wake_sync_waiters(a);
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

/// Without having looked, it may be.
void subscription::state::come_back() {
    aftermath a;
    const guard lock(mutex_);
    in_hand_ = false;
    if (!pending_.empty()) pass_hidden_marks(a);
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
