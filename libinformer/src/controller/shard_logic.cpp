#include "controller/shard_logic.hpp"

#include "controller/rendezvous.hpp"
#include "root/fnv1a.hpp"

#include <informer/detail/async.hpp>

#include <algorithm>
#include <random>
#include <set>

namespace informer::detail {

namespace {

constexpr auto never = clock::time_point::max();

} // namespace

listed_lease::listed_lease(const object& lease)
    : name(lease.key().name), version(lease.resource_version().str()), uid(lease.uid()), record(lease) {}

shard_logic::shard_logic(shard_group_options options, std::string member, std::uint64_t seed)
    : options_(std::move(options)), member_(std::move(member)), random_(seed) {}

void shard_logic::lapse() noexcept {
    joined_ = false;
    seen_ = false;
    activated_ = false;
}

void shard_logic::advance(time_point now) {
    if (joined_ && now >= renewed_ + ticks(options_.renew_deadline_)) lapse();
    if (joined_ && seen_ && now >= active_from() && now < valid_until()) activated_ = true;
    if (!leaving_ || over_) return;
    if (!tried_) {
        over_ = true; // no Lease was ever requested, so there is none to delete
    } else if (drained_ && pending_ != action::leave && leave_until_ == time_point()) {
        pending_ = action::wait;
        pause_until_ = now;
        leave_until_ = now + ticks(options_.renew_deadline_);
    }
    if (leave_until_ != time_point() && now >= leave_until_) over_ = true;
}

shard_logic::step shard_logic::request(time_point now, action what) {
    if (pending_ != what) {
        pending_ = what;
        request_until_ = detail::later(now, ticks(options_.effective_request_timeout()));
        if (what == action::leave) request_until_ = std::min(request_until_, leave_until_);
    }
    step s(what, request_until_);
    if (what == action::collect) s.target = *doomed_;
    return s;
}

shard_logic::step shard_logic::next(time_point now) {
    advance(now);
    if (over_) return step(action::over, now);
    if (leave_until_ != time_point())
        return pending_ != action::leave && now < pause_until_
                   ? step(action::wait, std::min(pause_until_, leave_until_))
                   : request(now, action::leave);
    if (stage_ == stage::pause) {
        if (now < pause_until_) return step(action::wait, pause_until_);
        stage_ = stage::write;
    }
    if (stage_ == stage::write) {
        if (pending_ == action::wait) round_at_ = now;
        tried_ = true;
        return request(now, pending_ != action::wait ? pending_ : exists_ ? action::update : action::create);
    }
    if (stage_ == stage::list) return request(now, action::list);
    if (pending_ != action::collect) {
        // Deleting many must not hold up the renewal.
        const bool in_time = now < detail::later(round_at_, ticks(options_.retry_period_));
        doomed_ = in_time ? garbage(now) : std::nullopt;
    }
    if (doomed_) return request(now, action::collect);
    stage_ = stage::pause;
    std::uniform_real_distribution<double> share(1.0, 1.0 + shard_group_options::jitter);
    const auto period =
        std::chrono::duration<double, std::nano>(double(options_.retry_period_.count()) * share(random_));
    pause_until_ = round_at_ + ticks(std::chrono::duration_cast<std::chrono::nanoseconds>(period));
    return step(action::wait, std::max(now, pause_until_));
}

bool shard_logic::abandon(time_point now) const noexcept {
    if (leave_until_ != time_point()) return now >= leave_until_;
    return leaving_ && (drained_ || !tried_);
}

void shard_logic::written(time_point sent, time_point now, const lease_record& r) {
    advance(now); // an answer after the lapse does not undo it: other members may have taken over
    pending_ = action::wait;
    stage_ = stage::list;
    own_ = r;
    exists_ = true;
    if (!joined_) {
        joined_ = true;
        joined_at_ = now;
        seen_ = false;
    }
    renewed_ = sent;
}

/// True if it has changed since it was noted last.
bool shard_logic::peer::note(const listed_lease& l, bool fresh, time_point now) {
    const bool changed = fresh || lease.record != l.record || lease.uid != l.uid;
    if (changed) seen_at = now;
    lease = l;
    return changed;
}

/// `unchanged_at`: when the last list was sent that shows it as it is.
bool shard_logic::peer::may_be_deleted(time_point unchanged_at, std::chrono::nanoseconds duration) const {
    return unchanged_at - seen_at >= 3 * lease.record.counts(duration);
}

void shard_logic::listed(time_point sent, time_point now, const std::vector<listed_lease>& leases,
                         resource_version version) {
    advance(now);
    pending_ = action::wait;
    stage_ = stage::collect;
    crowd_.clear();
    bool ours = false;
    std::set<std::string_view> there;
    for (const auto& l : leases) {
        if (l.name == member_) {
            ours = l.record.holder == member_;
            continue;
        }
        if (l.record.holder.empty()) continue;
        there.insert(l.name);
        const auto [at, fresh] = peers_.try_emplace(l.name);
        peer& p = at->second;
        const bool changed = p.note(l, fresh, now);
        // Only a list that was sent after the Lease's duration proves that the Lease did not change in that time.
        const bool live = changed || (p.live && sent - p.seen_at < l.record.counts(options_.lease_duration_));
        members_changed_ |= fresh || live != p.live;
        p.live = live;
    }
    const auto gone = std::erase_if(peers_, [&](const auto& p) { return !there.contains(p.first); });
    members_changed_ |= gone != 0;
    exists_ = ours;
    if (!ours) {
        lapse();
    } else if (joined_) {
        seen_ = true;
        seen_at_ = sent;
        token_ = std::move(version);
    }
    advance(now);
}

void shard_logic::overcrowded(time_point sent, time_point now, const std::vector<listed_lease>& some) {
    advance(now);
    pending_ = action::wait;
    stage_ = stage::collect;
    crowd_seen_at_ = sent;
    peers shown;
    for (const auto& l : some) {
        if (l.name == member_ || l.record.holder.empty()) continue;
        auto known = crowd_.extract(l.name);
        const bool fresh = known.empty();
        peer& p = fresh ? shown[l.name] : shown.insert(std::move(known)).position->second;
        p.note(l, fresh, now);
    }
    crowd_ = std::move(shown);
}

void shard_logic::removed(time_point now) {
    const auto what = std::exchange(pending_, action::wait);
    if (what == action::collect && doomed_) { // a dead Lease was no member
        peers_.erase(doomed_->name);
        crowd_.erase(doomed_->name);
    }
    doomed_.reset();
    if (what == action::leave) over_ = true;
    advance(now);
}

void shard_logic::failed(time_point now, const failure& why) {
    const auto what = std::exchange(pending_, action::wait);
    advance(now);
    switch (what) {
    case action::update:
        if (why == errc::not_found) {
            exists_ = false;
            lapse();
        }
        [[fallthrough]];
    case action::create: stage_ = stage::list; break; // the list shows whether the Lease exists
    case action::list: stage_ = stage::collect; break;
    case action::collect: doomed_.reset(); break;
    case action::leave:
        if (why == errc::not_found)
            over_ = true;
        else
            pause_until_ = now + ticks(options_.retry_period_);
        break;
    case action::wait:
    case action::over: break;
    }
    // Only one attempt to collect in each round.
    if (what == action::collect) {
        stage_ = stage::pause;
        pause_until_ = std::max(now, round_at_ + ticks(options_.retry_period_));
    }
}

void shard_logic::stop(time_point now) {
    leaving_ = true;
    advance(now);
}

lease_record shard_logic::desired(std::chrono::system_clock::time_point wall) {
    lease_record r;
    r.holder = member_;
    r.duration = whole_seconds(options_.lease_duration_);
    r.renew_time = times_.next(wall, own_.renew_time);
    r.acquire_time = own_.acquire_time.empty() ? r.renew_time : own_.acquire_time;
    return r;
}

shard_logic::time_point shard_logic::active_from() const noexcept {
    // A member that was active when we joined has a live Lease. Within its own lease duration after our Lease was
    // stored, it has seen our Lease or stopped. A member that died meanwhile has been inactive for as long.
    auto from = joined_at_;
    for (const auto& [name, p] : peers_) {
        if (!p.live) continue;
        from = std::max(from, joined_at_ + p.lease.record.counts(options_.lease_duration_));
    }
    return from;
}

shard_logic::time_point shard_logic::valid_until() const noexcept {
    return std::min(renewed_, seen_at_) + ticks(options_.renew_deadline_);
}

bool shard_logic::active(time_point now) const noexcept {
    return joined_ && seen_ && !leaving_ && now < valid_until() && (activated_ || now >= active_from());
}

shard_logic::time_point shard_logic::next_change(time_point now) const noexcept {
    if (!joined_ || !seen_ || leaving_ || now >= valid_until()) return never;
    const auto from = active_from();
    return !activated_ && now < from ? from : valid_until();
}

const shard_view& shard_logic::view(time_point now) {
    advance(now);
    const bool is = active(now);
    if (is == view_.active() && !members_changed_) return view_;
    members_changed_ = false;
    auto d = std::make_shared<shard_view::data>();
    for (const auto& [name, p] : peers_)
        if (p.live) d->members.push_back(name);
    if (is) d->members.insert(std::lower_bound(d->members.begin(), d->members.end(), member_), member_);
    if (is == view_.active() && d->members == view_.members()) return view_;
    for (const auto& m : d->members) d->weights.push_back(fnv1a(m));
    d->self = static_cast<std::size_t>(std::find(d->members.begin(), d->members.end(), member_) - d->members.begin());
    d->active = is;
    d->generation = ++generation_;
    view_ = shard_view(std::move(d));
    return view_;
}

std::optional<listed_lease> shard_logic::garbage(time_point now) {
    if (!crowd_.empty()) return garbage_of_crowd();
    const shard_view& seen = view(now);
    if (!seen.active()) return std::nullopt;
    for (const auto& [name, p] : peers_)
        if (!p.live && p.may_be_deleted(seen_at_, options_.lease_duration_) && seen.owns(name)) return p.lease;
    return std::nullopt;
}

/// Nobody owns its name: each member draws.
std::optional<listed_lease> shard_logic::garbage_of_crowd() {
    std::vector<const listed_lease*> dead;
    for (const auto& [name, p] : crowd_)
        if (p.may_be_deleted(crowd_seen_at_, options_.lease_duration_)) dead.push_back(&p.lease);
    if (dead.empty()) return std::nullopt;
    return *dead[std::uniform_int_distribution<std::size_t>(0, dead.size() - 1)(random_)];
}

} // namespace informer::detail
