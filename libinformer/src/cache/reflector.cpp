#include <informer/cache/reflector.hpp>
#include <informer/detail/async.hpp>

#include <algorithm>
#include <utility>

namespace informer {

namespace {

using time_point = reflector::time_point;

/// What a failure means for the next step.
enum class kind {
    none,
    cancelled,
    gone,
    too_new,
    throttled,
    unauthorized,
    forbidden,
    missing,
    unwatchable,
    rejected,
    transport,
    other
};

int code_of(const failure& f) noexcept {
    return f.status() ? f.status()->code : 0;
}

kind kind_of(const failure& f) {
    if (!f) return kind::none;
    if (f == condition::cancelled) return kind::cancelled;
    if (f == condition::gone) return kind::gone;
    if (f == errc::resource_version_too_large) return kind::too_new;
    if (f == errc::unauthorized) return kind::unauthorized;
    if (f == errc::forbidden) return kind::forbidden;
    if (f == errc::not_found) return kind::missing;
    if (f == errc::too_many_requests || (f.status() && f.status()->retry_after)) return kind::throttled;
    if (code_of(f) == 405 || code_of(f) == 501) return kind::unwatchable;
    if (f == errc::bad_request || f == errc::invalid) return kind::rejected;
    if (f == condition::transport) return kind::transport;
    return kind::other;
}

bool hard(kind k) noexcept {
    return k == kind::unauthorized || k == kind::forbidden || k == kind::missing;
}

} // namespace

reflector::reflector(reflector_options options, watch_list_support support)
    : options_(std::move(options)), support_(support), backoff_(options_.backoff_, options_.seed_),
      until_proven_(backoff_options().initial(unproven).cap(longest_unproven).jitter(std::min(options_.backoff_.jitter_, 1.0)),
                    options_.seed_ + 1),
      random_(options_.seed_ ^ 0x9e3779b97f4a7c15U) {
    // None at all would also be the patience with a silent server.
    options_.watch_timeout_ = std::clamp(options_.watch_timeout_, std::chrono::seconds(1), longest_watch);
}

bool reflector::by_watch_list() const noexcept {
    return options_.watch_list_ && support_ != watch_list_support::no && !list_this_time_ && !silent_ && !unwatchable_;
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
    if (goal_ == goal::follow && again_ && now >= *again_) fetch_again(false);
    request_ = request();
    request_.started = request_.last_progress = now;

    if (goal_ == goal::check) {
        // A consistent read of one item: what counts is the version of the list.
        a.what = step::list;
        a.check = true;
        a.list.labels(options_.labels_).fields(options_.fields_).limit(1).metadata_only(options_.metadata_only_);
        request_.consistent = request_.first_page = true;
        return a;
    }
    if (goal_ == goal::fetch && !by_watch_list()) {
        a.what = step::list;
        a.list.labels(options_.labels_).fields(options_.fields_).metadata_only(options_.metadata_only_);
        if (paging_) {
            a.list.limit(page_size()).continue_token(continue_); // X18: and no version
            request_.continue_token = continue_;
            return a;
        }
        const std::string version = fetch_version();
        a.fresh = request_.first_page = true;
        request_.consistent = version.empty();
        request_.any_version = version == "0";
        const bool at_version = !version.empty() && !request_.any_version;
        // R4: a list at a version is served from the server's cache only when it is not paged. A size that was asked for
        // counts all the same, and a server that paged a list at 0 has no such cache.
        const bool paged = !in_one_piece_ && (!at_version || options_.page_size_ || paged_at_any_);
        a.list.resource_version(version).limit(paged ? page_size() : 0);
        // Without it a page is of exactly that version, which is the one that the server no longer has the changes since.
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
    a.watch.labels(options_.labels_).fields(options_.fields_).timeout(request_.timeout);
    a.watch.metadata_only(options_.metadata_only_);
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
    if (request_.watch) unwatchable_ = false;
    if (request_.watch && now < request_.started + header_in_time) late_header_ = false;
    request_.opened_at = request_.last_progress = now;
}

void reflector::progress(time_point now) {
    request_.last_progress = now;
}

/// The server is as new as we are.
void reflector::sign(time_point now) noexcept {
    last_sign_ = now;
    away_ = false;
}

void reflector::advance(const resource_version& v) {
    // What an event carries is its object's version. Where lists have none nobody can resume there.
    if (v.empty() || unversioned_) return;
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
        if (!unversioned_) succeeded(); // else it tells first what there is, and may have nothing more to say
        return verdict::apply;
    }
    if (type != watch_event_type::added) {
        // A change of something we were not told of: this server gives a plain watch from now on.
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
    complete(now, version);
    succeeded(); // the watch, too
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
    } else if (r.opened && !r.proven) {
        first = std::min(first, r.opened_at + very_short);
    }
    if (!r.collecting && again_) first = std::min(first, *again_);
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
    if (again_ && now >= *again_) {
        r.why = cut::unproven;
        return true;
    }
    if (r.opened && !r.proven && now >= r.opened_at + very_short) {
        // A watch that stays open is an attempt that succeeded, however quiet the resource is.
        r.proven = true;
        succeeded();
    }
    return false;
}

void reflector::succeeded() noexcept {
    attempts_ = 0;
    failing_ = parked_ = polled_ = false;
}

void reflector::delay(time_point now, const failure& f) {
    auto d = std::chrono::duration_cast<clock::duration>(backoff_.next());
    if (kind_of(f) == kind::missing) {
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
    failing_ = true;
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
        again_ = detail::later(now, until_proven_.next());
}

void reflector::complete(time_point now, const resource_version& v) {
    if (below(v)) ++epoch_; // a consistent read: the server really is older than what it told us before
    last_ = v;
    unversioned_ = v.empty();
    again_.reset();
    goal_ = goal::follow;
    paging_ = in_one_piece_ = consistent_ = list_this_time_ = silent_ = false;
    interrupted_ = 0;
    sign(now);
    if (!polled_) succeeded();
}

reflector::page_verdict reflector::page_done(time_point now, const list_result& r, failure& f) {
    if (goal_ == goal::check) {
        if (below(r.resource_version)) {
            fetch_again(true);
        } else if (polled_ && last_ < r.resource_version) { // and no watch tells of it
            fetch_again(false);
            list_this_time_ = true;
        } else {
            goal_ = goal::follow;
            sign(now);
        }
        if (!polled_) succeeded();
        return page_verdict::checked;
    }
    page_failures_ = 0;
    if (request_.first_page) {
        if (request_.any_version && !r.continue_token.empty()) paged_at_any_ = true;
        first_page_ = r.resource_version;
        listed_ = false;
        milestone_.clear();
        pages_ = 0;
        milestone_at_ = 1;
    }
    listed_ = listed_ || r.items != 0;
    if (first_page_.empty()) first_page_ = r.resource_version; // PG2: the first one that there is
    if (!r.continue_token.empty()) {
        if (r.continue_token != request_.continue_token && r.continue_token != milestone_) {
            if (++pages_ == milestone_at_) { // R. P. Brent's way to find any cycle
                milestone_ = r.continue_token;
                milestone_at_ *= 2;
                pages_ = 0;
            }
            continue_ = r.continue_token;
            paging_ = true;
            return page_verdict::more;
        }
        f = failure(errc::bad_response, "list: the same continue token twice");
        paging_ = false;
        list_failed(now, f);
        return page_verdict::failed;
    }
    if ((below(first_page_) || first_page_.empty()) && !consistent_ && !last_.empty()) {
        // Older than what we asked for, or suddenly without a version: only the newest state can tell whether the server went back in
        // time, or somebody else answered.
        fetch_again(true);
        list_this_time_ = true;
        return page_verdict::more;
    }
    // Of an empty resource a server that knows watch-list has nothing to send but the end bookmark, which may take its time.
    // Once may be chance: a server that starts forbids everything for a moment.
    if (doubtful_ && ++doubts_ >= 2) support_ = watch_list_support::no;
    if (refused_ || (silent_ && listed_)) support_ = watch_list_support::no;
    doubtful_ = refused_ = false;
    complete(now, first_page_);
    return page_verdict::complete;
}

bool reflector::list_failed(time_point now, failure& f) {
    f = our_words(f);
    const kind k = kind_of(f);
    if (k == kind::cancelled) return false;
    if (goal_ == goal::check) {
        // Not found out; watching again is right unless the server went back, and then the next silence tells.
        goal_ = goal::follow;
        last_sign_ = now; // which is not before it has lasted as long again
        if (hard(k)) away_ = false;
        failed(now, f, hard(k));
        return false;
    }
    if (k == kind::gone && !request_.first_page && !in_one_piece_) {
        // PG3. The fresh token that the server offers would give an inconsistent list.
        paging_ = false;
        in_one_piece_ = true;
        return false;
    }
    if ((k == kind::gone || k == kind::too_new) && request_.first_page && !request_.consistent) {
        consistent_ = true; // R5
        return false;
    }
    const bool not_for_what_it_asked = k == kind::transport || k == kind::throttled || code_of(f) >= 500;
    const bool same_page =
        paging_ && !request_.first_page && page_failures_ < most_page_failures && not_for_what_it_asked;
    failed(now, f, hard(k));
    if (same_page) {
        ++page_failures_;
        return true;
    }
    page_failures_ = 0;
    if (k == kind::gone) consistent_ = true;
    paging_ = in_one_piece_ = doubtful_ = false;
    // What the refusal before it meant, the next list will tell.
    if (!(refused_ && not_for_what_it_asked)) list_this_time_ = refused_ = false;
    return false;
}

failure reflector::our_words(const failure& f) const {
    switch (request_.why) {
    case cut::none: return f;
    case cut::silent: return failure(errc::bad_response, "watch-list: opened, but nothing came; trying a list");
    case cut::plain_events:
        return failure(errc::bad_response, "watch-list: events, but no end of the initial ones; trying a list");
    case cut::stalled:
        return failure(errc::body_idle_timeout, request_.watch ? "watch-list: no progress" : "list: no progress");
    case cut::overdue: return failure(errc::request_timeout, "watch: open long after its time-out");
    case cut::went_back:
        return failure(errc::bad_response,
                       "watch: a bookmark is older than version " + last_.str() + ", which was seen");
    case cut::deletion_lost:
        return failure(errc::bad_response, "watch: something was deleted, but what cannot be read; listing");
    case cut::unproven:
        return failure(errc::bad_response,
                       "the last list had objects that cannot be read, so what was deleted is not known; listing again");
    }
    return f;
}

failure reflector::watch_done(time_point now, const failure& given) {
    const failure f = our_words(given);
    if (request_.why == cut::none && f == condition::cancelled) return f;
    // Of a plain watch it may be held back with the first event, of a watch-list with a few.
    if (!request_.opened) late_header_ = f == errc::header_timeout || request_.why == cut::stalled;
    // X1: health is time in which something was delivered, not time without attempts.
    if (request_.delivered || request_.seen != 0) backoff_.healthy_for(now - request_.started);
    if (request_.collecting) {
        initial_ended(now, f);
        if (!f) return failure(errc::connection_lost, "watch-list: the stream ended before the initial events did");
        return f;
    }
    const bool very_short_one = !f && !request_.delivered && !request_.synced && now - request_.started < very_short;
    follow_ended(now, f);
    if (very_short_one) return failure(errc::connection_lost, "watch: ended at once, without anything new");
    // The same to who counts and logs as one that was given less time, which comes in turn with it.
    if (!request_.opened && f == errc::request_timeout) return failure(errc::header_timeout, "watch: no answer in all its time");
    return f;
}

/// `refused`: it looks like a server without watch-list. If the list is refused, too, it was not about that.
void reflector::list_instead(bool refused) noexcept {
    list_this_time_ = true;
    refused_ = refused;
}

// WL7, X5: the initial state did not come to its end.
void reflector::initial_ended(time_point now, const failure& f) {
    switch (request_.why) {
    case cut::silent: silent_ = true; return; // what it means the list will tell
    case cut::plain_events: // whatever the list says
        support_ = watch_list_support::no;
        list_this_time_ = true;
        return;
    case cut::stalled: list_instead(support_ != watch_list_support::yes); return; // it can, but not just now
    case cut::went_back: consistent_ = true; return;
    case cut::deletion_lost: failed(now, f, false); return;
    case cut::none:
    case cut::unproven:
    case cut::overdue: break;
    }
    if (f == errc::header_timeout) { // as stalled
        list_instead(support_ != watch_list_support::yes);
        return;
    }
    const kind k = kind_of(f);
    switch (k) {
    case kind::gone:
    case kind::too_new:
        if (!request_.consistent) {
            consistent_ = true; // at once
        } else {
            failed(now, f, false);
        }
        return;
    case kind::unauthorized:
    case kind::missing: failed(now, f, true); return;
    case kind::forbidden: // "resourceVersionMatch is forbidden for watch", or the verb is: the list will tell
        doubtful_ = true;
        list_instead(false);
        return;
    case kind::unwatchable: // in whatever way; it says nothing of the server's other resources
        unwatchable_ = true;
        list_instead(false);
        return;
    case kind::rejected: list_instead(true); return;
    case kind::throttled: failed(now, f, false); return;
    case kind::none:
    case kind::cancelled:
    case kind::transport:
        // What was collected is dropped. A stream that breaks again and again before its end is not for us.
        if (request_.opened && ++interrupted_ >= 2) list_this_time_ = true;
        failed(now, f, false);
        return;
    case kind::other:
        // An ERROR event with 5xx in the middle of the initial events is how servers without watch-list refuse it; from one
        // that has it, it is a bad moment.
        list_instead(request_.opened && code_of(f) >= 500 && support_ != watch_list_support::yes);
        return;
    }
}

/// There is nothing to resume at, or no watch: what changes now only the next state tells.
void reflector::follow_by_fetching(time_point now, const failure& f) {
    const kind k = kind_of(f);
    const auto lived = now - request_.started;
    const bool was_there = k == kind::none || k == kind::gone || (request_.opened && (k == kind::transport || k == kind::cancelled));
    fetch_again(false);
    if (!was_there || lived < very_short) {
        polled_ = true;
        failed(now, f, false); // parked is who can neither list nor watch
    } else if (lived < shortest_unversioned) {
        delay(now, f);
    }
}

void reflector::follow_ended(time_point now, const failure& f) {
    const auto& r = request_;
    const auto lived = now - r.started;
    if (r.why == cut::went_back) {
        goal_ = goal::check;
        failed(now, f, false);
        return;
    }
    if (r.why == cut::unproven) {
        fetch_again(false);
        return;
    }
    if (r.why == cut::deletion_lost) {
        fetch_again(true); // its version may be unreadable as well
        failed(now, f, false);
        return;
    }
    const kind k = kind_of(f);
    unwatchable_ = k == kind::unwatchable;
    if (unversioned_ || unwatchable_) {
        follow_by_fetching(now, f);
        return;
    }
    // A server that was restored from a backup begins by being away.
    if (!r.opened && (k == kind::transport || code_of(f) >= 500)) away_ = true;
    if (!r.opened && f == errc::request_timeout) { // for as long as it wanted, and longer
        goal_ = goal::check;
        polled_ = true;
        failed(now, f, false);
        return;
    }
    // A whole time-out without a sign, be it in several watches: quiet, or the server is behind the version that we wait
    // for. Once it is past that, nobody can tell.
    const auto patience = away_ ? std::min(doubt, options_.watch_timeout_) : options_.watch_timeout_;
    const bool told_nothing = r.opened && r.seen == 0 && now - last_sign_ >= patience;
    if (told_nothing && (k == kind::none || k == kind::transport || r.why == cut::overdue)) {
        goal_ = goal::check;
        return;
    }
    const bool productive = r.delivered || r.synced || lived >= very_short;
    switch (k) {
    case kind::none: // R12, R13; what is repeated is no progress
        if (productive)
            succeeded(); // also where nothing told so before
        else
            failed(now, f, false);
        return;
    case kind::transport:
    case kind::cancelled: // R11
        if (r.opened && productive) return;
        failed(now, f, false);
        return;
    case kind::gone: // R14; a second time in a row the server's cache is behind itself
        fetch_again(++stuck_ >= 2);
        delay(now, f);
        return;
    case kind::too_new:
        goal_ = goal::check;
        failed(now, f, false);
        return;
    case kind::throttled: failed(now, f, false); return;
    case kind::unauthorized:
    case kind::forbidden: failed(now, f, true); return;
    case kind::missing: // while it was away its objects may have gone without an event
        fetch_again(false);
        failed(now, f, true);
        return;
    case kind::unwatchable: return; // seen to
    case kind::rejected: // this version means nothing to the server
        fetch_again(true);
        failed(now, f, false);
        return;
    case kind::other: {
        failed(now, f, false);
        const bool corrupt = f.status() && f.status()->reason == "StorageReadError";
        if (r.opened || code_of(f) == 500) ++stuck_;
        // The same error at the same version: it will not go away by asking again.
        if (corrupt || stuck_ >= (r.opened ? 2U : 5U)) {
            stuck_ = 0;
            fetch_again(false);
        }
        return;
    }
    }
}

informer_phase reflector::phase() const noexcept {
    if (failing_) return parked_ ? informer_phase::parked : informer_phase::backing_off;
    return goal_ == goal::fetch ? informer_phase::listing : informer_phase::watching;
}

std::string_view reflector::request_phase() const noexcept {
    if (!request_.watch) return "list";
    if (request_.collecting) return "watch-list";
    return request_.opened ? "stream" : "open";
}

} // namespace informer
