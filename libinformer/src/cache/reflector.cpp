// What a reflector requests, and what it makes of the answers. See reflector_endings.cpp for what follows the end of a
// request.
#include "failure_kind.hpp"

#include <informer/cache/reflector.hpp>
#include <informer/detail/async.hpp>

#include <algorithm>
#include <random>
#include <utility>

namespace informer {

namespace {

/// The delays before a state is fetched again although the watch works: jittered like the others, but at most doubled.
backoff_options in_between(std::chrono::seconds initial, const backoff_options& rest) {
    return backoff_options().initial(initial).cap(reflector::longest_unproven).jitter(std::min(rest.jitter_, 1.0));
}

/// Which objects are requested, and how much of each: the same in all requests.
template <class Query>
Query& select(Query& q, const reflector_options& o) {
    return q.labels(o.labels_).fields(o.fields_).shard(o.shard_).metadata_only(o.metadata_only_);
}

/// A watch from version 0 reports what exists now but not what was deleted since the list, so 0 counts as no version.
resource_version meant(const resource_version& v) {
    return v.view() == "0" ? resource_version() : v;
}

} // namespace

reflector::reflector(reflector_options options, watch_list_support support)
    : options_(std::move(options)), support_(support), backoff_(options_.backoff_, options_.seed_),
      missing_(options_.backoff_, options_.seed_ + 2), expired_(options_.backoff_, options_.seed_ + 4),
      told_to_wait_(options_.backoff_, options_.seed_ + 5),
      until_proven_(in_between(unproven, options_.backoff_), options_.seed_ + 1),
      contradictions_(in_between(contradiction, options_.backoff_), options_.seed_ + 3), random_(options_.seed_ + 6) {
    // A time-out of zero would also be the patience with a silent server.
    options_.watch_timeout_ = std::clamp(options_.watch_timeout_, std::chrono::seconds(1), longest_watch);
}

bool reflector::by_watch_list() const noexcept {
    return options_.watch_list_ && support_ != watch_list_support::no && !list_this_time_ && !silent_ && !unwatchable_;
}

void reflector::doubt_support(time_point now) noexcept {
    if (support_ != watch_list_support::no) {
        believed_until_.reset();
    } else if (!believed_until_) {
        believed_until_ = detail::later(now, list_watch::watch_list_belief);
    } else if (now >= *believed_until_) {
        support_ = watch_list_support::unknown;
        believed_until_.reset();
        doubts_ = 0;
    }
}

// R3, WL2, with our default: the first state is a consistent read; later ones are never older than what was seen.
std::string reflector::fetch_version() const {
    if (consistent_) return {};
    if (last_.empty()) return options_.any_version_ ? "0" : "";
    return last_.str();
}

reflector::action reflector::next(time_point now) {
    action a;
    if (wait_) {
        a.what = step::wait;
        a.until = *wait_;
        return a;
    }
    if (goal_ == goal::follow && again_ && now >= again_->when) fetch_again(false);
    if (!paging_) doubt_support(now);
    request_ = request();
    request_.started = request_.last_progress = now;

    if (goal_ == goal::check) {
        // A consistent read of one item: what counts is the version of the list.
        a.what = step::list;
        a.check = true;
        select(a.list, options_).limit(1);
        return a;
    }
    if (goal_ == goal::fetch && !by_watch_list()) {
        a.what = step::list;
        select(a.list, options_);
        if (paging_) {
            a.list.limit(page_size()).continue_token(continue_); // X18: without a version
            request_.continue_token = continue_;
            return a;
        }
        const std::string version = fetch_version();
        a.fresh = request_.first_page = true;
        request_.consistent = version.empty();
        request_.any_version = version == "0";
        const bool at_version = !version.empty() && !request_.any_version;
        // R4: a list at a version is served from the server's cache only when it is not paged. But a page size that was
        // asked for applies, and a server that paged a list at version 0 has no such cache.
        const bool paged = !in_one_piece_ && (!at_version || options_.page_size_ || paged_at_any_);
        a.list.resource_version(version).limit(paged ? page_size() : 0);
        // Without this, a page is of exactly that version, and the server no longer has the changes since that one.
        if (paged && at_version && page_size() != 0) a.list.resource_version_match("NotOlderThan");
        return a;
    }

    a.what = step::watch;
    request_.watch = true;
    const auto least = options_.watch_timeout_.count();
    request_.timeout = std::chrono::seconds(std::uniform_int_distribution<std::int64_t>(least, 2 * least)(random_));
    if (goal_ == goal::follow && (away_ || late_header_)) {
        std::uniform_int_distribution<std::int64_t> shorter(doubt.count(), 2 * doubt.count());
        request_.timeout = std::min(request_.timeout, std::chrono::seconds(shorter(random_)));
    }
    select(a.watch, options_).timeout(request_.timeout);
    if (goal_ == goal::fetch) {
        const std::string version = fetch_version();
        a.fresh = request_.collecting = true;
        request_.consistent = version.empty();
        a.watch.resource_version(version).send_initial_events();
    } else {
        a.watch.resource_version(last_.str()).late_header(late_header_);
    }
    return a;
}

void reflector::slept() {
    wait_.reset();
}

void reflector::opened(time_point now) {
    if (request_.opened) return;
    request_.opened = true;
    if (request_.watch) {
        unwatchable_ = false;
        watch_refusals_ = 0;
    }
    if (request_.watch && now < request_.started + header_in_time) late_header_ = false;
    request_.opened_at = request_.last_progress = now;
}

void reflector::progress(time_point now) {
    request_.last_progress = now;
}

/// The server showed that it is not behind the cache; `confirmed`: nor is the cache behind the server.
void reflector::sign(time_point now, bool confirmed) noexcept {
    last_sign_ = now;
    if (confirmed) confirmed_ = now;
    away_ = false;
}

/// How long an open watch may be silent; empty if the server is not known to send bookmarks regularly.
std::optional<clock::duration> reflector::quiet_patience() const {
    if (rhythm_seen_ < 2) return {};
    const clock::duration p = rhythm_ * quiet_halves / 2;
    return std::max<clock::duration>(p, shortest_quiet) * (1U << std::min(quiet_cuts_, 4U));
}

/// The time to the first bookmark of a watch counts, too: when the rhythm has become slower, nothing else of it is
/// seen, because the watch is given up before the second bookmark.
void reflector::learn_rhythm(time_point now) {
    auto& r = request_;
    if (r.last_bookmark || (r.opened && !r.synced)) {
        rhythm_ = std::max<clock::duration>(now - r.last_bookmark.value_or(r.opened_at), rhythm_ - rhythm_ / 8);
        if (r.last_bookmark) ++rhythm_seen_;
    }
    r.last_bookmark = now;
}

void reflector::advance(const resource_version& v) {
    // An event carries the version of its object. If lists have no version, no watch can resume at that one.
    if (v.empty() || unversioned()) return;
    if ((v <=> last_) <= 0) return;
    last_ = v;
    stuck_ = 0;
    request_.delivered = true;
}

bool reflector::below(const resource_version& v) const {
    return v < last_;
}

reflector::verdict reflector::event_seen(time_point now, watch_event_type type, const resource_version& version,
                                         bool known) {
    if (request_.why != cut::none) return verdict::end;
    request_.last_progress = now;
    ++request_.seen;
    if (!request_.collecting) {
        sign(now);
        advance(version);
        if (!unversioned()) succeeded(); // else it begins with what exists, and perhaps nothing follows
        return verdict::apply;
    }
    if (type != watch_event_type::added) {
        // A change of an object that was not reported: the server gives us a plain watch that begins now.
        if (!known) {
            request_.why = cut::plain_events;
            return verdict::end;
        }
        if (!request_.changes_since) request_.changes_since = now;
    }
    return verdict::collect; // R18, WL5: versions of initial events are not recorded
}

void reflector::deletion_lost() noexcept {
    if (request_.why == cut::none) request_.why = cut::deletion_lost;
}

reflector::verdict reflector::bookmark_seen(time_point now, const resource_version& version, bool initial_events_end) {
    if (request_.why != cut::none) return verdict::end;
    request_.last_progress = now;
    ++request_.seen;
    if (!request_.collecting) {
        if (below(version)) {
            request_.why = cut::went_back;
            return verdict::end;
        }
        quiet_cuts_ = 0;
        learn_rhythm(now);
        sign(now);
        advance(version);
        succeeded();
        return verdict::apply;
    }
    if (!initial_events_end) return verdict::ignore; // WL4
    if (below(version) && !request_.consistent) {
        request_.why = cut::went_back;
        return verdict::end;
    }
    complete(now, meant(version));
    succeeded(); // the watch works, too
    support_ = watch_list_support::yes;
    doubts_ = 0;
    request_.collecting = false;
    request_.synced = request_.delivered = true;
    request_.seen = 0;
    return verdict::complete;
}

reflector::time_point reflector::deadline() const {
    const auto& r = request_;
    if (!r.watch) return r.last_progress + list_patience;
    time_point first = r.started + r.timeout + overtime;
    if (r.collecting) {
        first = std::min(first, r.last_progress + no_progress);
        if (r.opened && support_ == watch_list_support::unknown) {
            first = std::min(first, r.last_progress + (r.seen == 0 ? silence : pause));
            if (r.changes_since) first = std::min(first, *r.changes_since + no_progress);
        }
    } else if (r.opened) {
        if (!r.proven) first = std::min(first, r.opened_at + very_short);
        if (const auto p = quiet_patience()) first = std::min(first, r.last_progress + *p);
    }
    if (!r.collecting && again_) first = std::min(first, again_->when);
    return first;
}

bool reflector::tick(time_point now) {
    auto& r = request_;
    if (r.why != cut::none) return true;
    if (!r.watch) {
        if (now < r.last_progress + list_patience) return false;
        r.why = cut::stalled;
        return true;
    }
    if (now >= r.started + r.timeout + overtime) {
        r.why = cut::overdue;
        return true;
    }
    if (r.collecting) {
        if (now >= r.last_progress + no_progress) {
            r.why = cut::stalled;
        } else if (r.opened && support_ == watch_list_support::unknown) {
            if (r.seen == 0 && now >= r.last_progress + silence) r.why = cut::silent;
            if (r.seen != 0 && now >= r.last_progress + pause) r.why = cut::plain_events;
            if (r.changes_since && now >= *r.changes_since + no_progress) r.why = cut::plain_events;
        }
        return r.why != cut::none;
    }
    if (again_ && now >= again_->when) {
        r.why = again_->why;
        return true;
    }
    if (r.opened && !r.proven && now >= r.opened_at + very_short) {
        // A watch that stays open is an attempt that succeeded, however quiet the resource is.
        r.proven = true;
        succeeded();
    }
    const auto patience = quiet_patience();
    if (!r.opened || !patience || now < r.last_progress + *patience) return false;
    ++quiet_cuts_;
    r.why = cut::quiet;
    return true;
}

void reflector::succeeded() noexcept {
    attempts_ = 0;
    parked_ = polled_ = false;
}

void reflector::delay(time_point now, const failure& f) {
    const detail::failure_kind k = detail::kind_of(f);
    const bool missing = k == detail::failure_kind::missing;
    const auto backoff_of = [&]() -> backoff& {
        if (missing) return missing_;
        if (k == detail::failure_kind::gone) return expired_;
        return k == detail::failure_kind::throttled && f.status() && f.status()->retry_after ? told_to_wait_ : backoff_;
    };
    auto d = std::chrono::duration_cast<clock::duration>(backoff_of().next());
    if (missing) {
        // Its CustomResourceDefinition may come at any moment.
        std::uniform_real_distribution<double> factor(0.8, 1.0);
        d = std::min(d, std::chrono::duration_cast<clock::duration>(missing_retry * factor(random_)));
    }
    if (f.status() && f.status()->retry_after) {
        const auto told = std::min<std::chrono::seconds>(*f.status()->retry_after, longest_retry_after);
        d = std::max<clock::duration>(d, told);
    }
    wait_ = detail::later(now, d);
}

void reflector::failed(time_point now, const failure& f, bool parked) {
    ++attempts_;
    parked_ = parked;
    delay(now, f);
}

void reflector::fetch_again(bool consistent) {
    goal_ = goal::fetch;
    paging_ = in_one_piece_ = list_this_time_ = false;
    consistent_ = consistent_ || consistent;
}

void reflector::absence(time_point now, bool proven) {
    again_.reset();
    if (proven)
        until_proven_.reset();
    else
        again_ = {detail::later(now, until_proven_.next()), cut::unproven};
}

void reflector::contradicted(time_point now) {
    if (again_ && again_->why == cut::contradicted) return;
    // Only uninterrupted time counts; a back-off would add up several times.
    if (now - last_contradiction_ >= no_contradiction) contradictions_.reset();
    last_contradiction_ = now;
    const auto then = detail::later(now, contradictions_.next());
    if (!again_ || then < again_->when) again_ = {then, cut::contradicted};
}

void reflector::complete(time_point now, const resource_version& v) {
    if (below(v)) ++epoch_; // a consistent read: the server really is older than what it reported before
    last_ = v;
    again_.reset();
    goal_ = goal::follow;
    paging_ = in_one_piece_ = consistent_ = list_this_time_ = silent_ = false;
    interrupted_ = 0;
    sign(now);
    if (!polled_) succeeded();
}

reflector::page_verdict reflector::page_done(time_point now, const list_result& r, failure& f) {
    if (goal_ == goal::check) {
        if (watch_refusals_ >= most_watch_refusals) {
            polled_ = true;
            parked_ = false;
        }
        const resource_version& theirs = r.resource_version;
        const bool newer = !(theirs <= last_); // or of another form, of which it cannot be told
        // If a watch tells all, what it does not report has not happened. But a server that was away may have been
        // restored to another state, whose version is already past ours.
        const bool doubtful = options_.tells_all_ ? away_ : now - *confirmed_ >= options_.watch_timeout_;
        if (below(theirs) || theirs.empty()) { // without a version it tells nothing; a list does
            fetch_again(true);
            list_this_time_ = theirs.empty();
        } else if (newer && (polled_ || doubtful)) {
            // Newer perhaps by objects that are not ours, or because the watch fails to report something. For as long
            // as a watch lasts, that is left open; but a server whose watch cache stands still would never report it.
            fetch_again(!polled_);
            list_this_time_ = true;
        } else {
            goal_ = goal::follow;
            sign(now, !newer);
        }
        if (!polled_) succeeded();
        return page_verdict::checked;
    }
    page_failures_ = 0;
    if (request_.first_page) {
        if (request_.any_version && !r.continue_token.empty()) paged_at_any_ = true;
        first_page_ = meant(r.resource_version);
        listed_ = false;
        circle_ = detail::page_circle();
    }
    listed_ = listed_ || r.items != 0;
    if (first_page_.empty()) first_page_ = meant(r.resource_version); // PG2: that of the first page that has one
    if (!r.continue_token.empty()) {
        if (circle_.goes_on(request_.continue_token, r.continue_token)) {
            continue_ = r.continue_token;
            paging_ = true;
            return page_verdict::more;
        }
        f = ours(errc::bad_response, "list", "the same continue token twice");
        paging_ = false;
        list_failed(now, f);
        return page_verdict::failed;
    }
    if ((below(first_page_) || first_page_.empty()) && !consistent_ && !last_.empty()) {
        // The list is older than requested, or suddenly without a version. Only the newest state can tell whether the
        // server went back in time, or something else answered.
        fetch_again(true);
        list_this_time_ = true;
        return page_verdict::more;
    }
    // One refusal (`doubtful_`) may be chance: a server that starts forbids everything for a moment. Silence says
    // nothing if the resource is empty: a server that knows watch-list then only sends the end bookmark, which may take
    // its time.
    if (doubtful_ && ++doubts_ >= 2) support_ = watch_list_support::no;
    if (refused_ || (silent_ && listed_)) support_ = watch_list_support::no;
    doubtful_ = refused_ = false;
    complete(now, first_page_);
    return page_verdict::complete;
}

informer_phase reflector::phase() const noexcept {
    if (attempts_ != 0) return parked_ ? informer_phase::parked : informer_phase::backing_off;
    return goal_ == goal::fetch ? informer_phase::listing : informer_phase::watching;
}

std::string_view reflector::request_phase() const noexcept {
    if (!request_.watch) return "list";
    if (request_.collecting) return "watch-list";
    return request_.opened ? "stream" : "open";
}

} // namespace informer
