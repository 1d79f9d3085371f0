// The listener's side of a subscription: what is taken out of the queue. No coroutine in here.
#include "../object/detail/reading.hpp"
#include "subscription_aftermath.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

namespace informer {

/// The next object of a late subscriber's initial state; null at its end.
const object* subscription::state::next_initial(aftermath& a) {
    const object* o = initial_->next();
    while (o && !wants(*o)) o = initial_->next(); // few: the walk is of one sub-trie
    if (o) {
        in_hand_ = true;
        ++delivered_;
    } else {
        a.walked = std::move(initial_);
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
    if (returned_) restore_returned(a);
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
        // A mark does not come in one batch with what it completes: the consumer must have come back.
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
        throw error(errc::already_running, detail::name_of(options_) + ": two consumers at once");
    }
    return outcome::nothing;
}

namespace {

/// Empty for an uncommonly long version for which there is no memory: the event is already taken, and an exception
/// would lose it.
template <class Read>
informer::resource_version version_by(Read read) noexcept {
    try {
        return read();
    } catch (const std::bad_alloc&) {
        return {};
    }
}

void complete(event& e) noexcept {
    if (e.version.empty() && e.current) e.version = version_by([&] { return e.current.resource_version(); });
}

/// The two readers look for a member only once per shape: most objects have one of a few shapes, which stay while all
/// the objects are held.
void complete(std::vector<event>& events) noexcept {
    detail::member_reader metadata("metadata"), version("resourceVersion");
    for (event& e : events) {
        if (!e.version.empty() || !e.current) continue;
        const text t = version(metadata(e.current.value())).string_or_empty();
        e.version = version_by([&t] { return informer::resource_version(t.view()); });
    }
}

} // namespace

/// How many events `take_share` would take; 0 if it would take none.
std::size_t subscription::state::next_share(std::size_t max) {
    const guard lock(mutex_);
    return plain() ? std::min(max, segments_.front().events->size() - segments_.front().at) : 0;
}

/// Takes events that need no aftermath; the caller copies them outside of the lock. Null: not only such are pending.
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

/// The same for one event. The last one of a segment is not copied here but returned in `last`, so that it is copied
/// only once and outside of the lock.
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

namespace {

/// Makes room for `n` events. False: there is no memory, and the caller returns what it has. If it has nothing, throws.
bool has_room(std::vector<event>& into, std::size_t n) {
    if (into.capacity() >= n) return true;
    try {
        into.reserve(std::max(n, 2 * into.size()));
        return true;
    } catch (const std::bad_alloc&) {
        if (into.empty()) throw;
        return false;
    }
}

} // namespace

/// `into` must be empty. Room is made before events are taken: otherwise an exception would lose them.
subscription::state::outcome subscription::state::poll(std::vector<event>& into, std::size_t max, bool versions) {
    outcome result = outcome::taken;
    for (bool more = true; more && into.size() < max;) {
        const std::size_t n = next_share(max - into.size());
        if (n == 0 || !has_room(into, into.size() + n)) break;
        const share some = take_share(n);
        if (!some.events) break;
        const event* const all = some.events->data();
        into.insert(into.end(), all + some.from, all + some.until);
        more = some.more;
    }
    if (!into.empty()) return result;
    std::size_t until = 0;
    do { // the producer spins for the lock, so the lock is released between two portions
        until = into.size() + std::min(max - into.size(), portion_size);
        if (!into.empty() && !has_room(into, until)) break;
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

/// True if there is something to take, or if nothing more will come.
bool subscription::state::has_something() {
    aftermath a;
    const guard lock(mutex_);
    if (in_flight()) return false;
    in_hand_ = false;
    pass_hidden_marks(a);
    return initial_ || !nothing_pending() || nothing_taken() == outcome::finished;
}

bool subscription::state::finished() const {
    const guard lock(mutex_);
    return (closed_ || ended_) && !initial_ && nothing_pending() && !in_flight();
}

/// The consumer comes back, perhaps without having looked for events.
void subscription::state::come_back() {
    aftermath a;
    const guard lock(mutex_);
    in_hand_ = false;
    if (!pending_.empty()) pass_hidden_marks(a);
}

} // namespace informer
