// How a reflector goes on when a list has failed or a watch has ended.
#include "failure_kind.hpp"

#include <informer/cache/reflector.hpp>

#include <algorithm>
#include <utility>

namespace informer {

using detail::code_of;
using detail::hard;
using detail::kind_of;
using kind = detail::failure_kind;

bool reflector::list_failed(time_point now, failure& f) {
    f = our_words(f);
    const kind k = kind_of(f);
    if (k == kind::cancelled) return false;
    if (goal_ == goal::check) {
        // The check failed. To watch again is right unless the server went back, and in that case the next silence
        // leads to another check.
        goal_ = goal::follow;
        last_sign_ = now; // the next check comes after a silence of the same length
        if (hard(k)) {
            away_ = polled_ = false;
            watch_refusals_ = 0; // lists are refused, too: it is not about watches
        }
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
    // Otherwise, a version that the server does not even accept would be requested again and again.
    if (k == kind::gone || (k == kind::rejected && request_.first_page)) consistent_ = true;
    paging_ = in_one_piece_ = doubtful_ = false;
    // After a list that failed for other reasons, it is still open why the watch-list was refused: the next list tells.
    if (!(refused_ && not_for_what_it_asked)) list_this_time_ = refused_ = false;
    return false;
}

failure reflector::ours(errc code, std::string_view verb, std::string_view what) const {
    std::string text(verb);
    if (!options_.of_.empty()) text.append(" ").append(options_.of_);
    return failure(code, text.append(": ").append(what));
}

failure reflector::our_words(const failure& f) const {
    switch (request_.why) {
    case cut::none: return f;
    case cut::silent: return ours(errc::bad_response, "watch-list", "opened, but nothing came; trying a list");
    case cut::plain_events:
        return ours(errc::bad_response, "watch-list", "events, but no end of the initial ones; trying a list");
    case cut::stalled:
        if (request_.watch && !request_.opened) return ours(errc::header_timeout, "watch-list", "no answer");
        return ours(errc::body_idle_timeout, request_.watch ? "watch-list" : "list", "no progress");
    case cut::quiet:
        return ours(errc::body_idle_timeout, "watch", "not even the bookmarks come any more; asking again");
    case cut::overdue: return ours(errc::request_timeout, "watch", "open long after its time-out");
    case cut::went_back:
        return ours(errc::bad_response, "watch",
                    "a bookmark is older than version " + last_.str() + ", which was seen");
    case cut::deletion_lost:
        return ours(errc::bad_response, "watch", "something was deleted, but what cannot be read; listing");
    case cut::unproven:
        return ours(errc::bad_response, "watch",
                    "the last list had objects that cannot be read, so what was deleted is not known; listing again");
    case cut::contradicted:
        return ours(errc::bad_response, "watch",
                    "an object is another one than before, and nothing told that that was deleted; listing again");
    }
    return f;
}

failure reflector::watch_done(time_point now, const failure& given) {
    const failure f = our_words(given);
    if (request_.why == cut::none && f == condition::cancelled) return f;
    // A proxy may hold back the header of a plain watch until its first event, and that of a watch-list until a few
    // events.
    if (!request_.opened) late_header_ = f == errc::header_timeout || request_.why == cut::stalled;
    // X1: health is time in which something was delivered, not time without attempts.
    if (request_.delivered || request_.seen != 0) {
        for (backoff* b : {&backoff_, &missing_, &expired_, &told_to_wait_}) b->healthy_for(now - request_.started);
    }
    if (request_.collecting) {
        initial_ended(now, f);
        if (!f) return ours(errc::connection_lost, "watch-list", "the stream ended before the initial events did");
        return f;
    }
    const bool very_short_one = !f && !request_.delivered && !request_.synced && now - request_.started < very_short;
    follow_ended(now, f);
    if (very_short_one) return ours(errc::connection_lost, "watch", "ended at once, without anything new");
    // Reported as the same failure as that of a watch with less time, with which it alternates, so that it is counted
    // and logged as one.
    if (!request_.opened && f == errc::request_timeout)
        return ours(errc::header_timeout, "watch", "no answer in all its time");
    return f;
}

/// `refused`: the server answered like one without watch-list. If it refuses the list, too, that was not the reason.
void reflector::list_instead(bool refused) noexcept {
    list_this_time_ = true;
    refused_ = refused;
}

/// A server that is known to have watch-list has only a bad moment, perhaps with all its clients: the list then comes
/// after a back-off.
void reflector::stalled(time_point now, const failure& f) {
    const bool known = support_ == watch_list_support::yes;
    list_instead(!known);
    if (known) failed(now, f, false);
}

// WL7, X5: the initial state did not come to its end.
void reflector::initial_ended(time_point now, const failure& f) {
    switch (request_.why) {
    case cut::silent: silent_ = true; return; // the list will tell what that means
    case cut::plain_events:                   // whatever the list tells
        support_ = watch_list_support::no;
        list_this_time_ = true;
        return;
    case cut::stalled: stalled(now, f); return;
    case cut::went_back: consistent_ = true; return;
    case cut::deletion_lost: failed(now, f, false); return;
    case cut::none:
    case cut::unproven:
    case cut::contradicted:
    case cut::quiet:
    case cut::overdue: break;
    }
    if (f == errc::header_timeout) {
        stalled(now, f);
        return;
    }
    const kind k = kind_of(f);
    switch (k) {
    case kind::gone:
    case kind::too_new:
        if (!request_.consistent) {
            consistent_ = true; // and asks again at once
        } else {
            failed(now, f, false);
        }
        return;
    case kind::unauthorized:
    case kind::missing: failed(now, f, true); return;
    case kind::forbidden: // "resourceVersionMatch is forbidden for watch", or the verb watch is: the list will tell
        doubtful_ = true;
        list_instead(false);
        return;
    case kind::unwatchable: // in any form; that says nothing about the server's other resources
        unwatchable_ = true;
        list_instead(false);
        return;
    case kind::rejected: list_instead(true); return;
    case kind::throttled: failed(now, f, false); return;
    case kind::none:
    case kind::cancelled:
    case kind::transport:
        // What was collected is dropped. If the stream breaks again and again before its end, lists are used instead.
        // The same holds if it is cut before its header: a proxy may hold that back, and give up before we do.
        if ((request_.opened || f == errc::connection_lost) && ++interrupted_ >= 2) list_this_time_ = true;
        failed(now, f, false);
        return;
    case kind::other:
        // An ERROR event with 5xx in the middle of the initial events is how servers without watch-list refuse it; from
        // a server that has watch-list, it only means a bad moment.
        list_instead(request_.opened && code_of(f) >= 500 && support_ != watch_list_support::yes);
        return;
    }
}

/// There is no version to resume at, or no watch: only the next fetch of the state shows what changes from now on.
void reflector::follow_by_fetching(time_point now, const failure& f) {
    const kind k = kind_of(f);
    const auto lived = now - request_.started;
    const bool was_there =
        k == kind::none || k == kind::gone || (request_.opened && (k == kind::transport || k == kind::cancelled));
    fetch_again(false);
    if (!was_there || lived < very_short) {
        polled_ = true;
        failed(now, f, false); // only an informer that can neither list nor watch is parked
    } else if (lived < shortest_unversioned) {
        delay(now, f);
    }
}

/// True for a watch that was ended because of what it, or the state before it, had shown.
bool reflector::ended_by_what_it_showed(time_point now, const failure& f) {
    switch (request_.why) {
    case cut::went_back:
        goal_ = goal::check;
        failed(now, f, false);
        return true;
    case cut::unproven:
    case cut::contradicted: fetch_again(false); return true;
    case cut::deletion_lost:
        fetch_again(true); // the deletion's version may be unreadable as well
        failed(now, f, false);
        return true;
    case cut::none:
    case cut::silent:
    case cut::plain_events:
    case cut::stalled:
    case cut::quiet:
    case cut::overdue: break;
    }
    return false;
}

/// A whole time-out without a sign, perhaps over several watches: the resource is quiet, or the server is behind the
/// version that the watch began at. Once the server has passed that version, the two look the same.
bool reflector::told_nothing(time_point now) const {
    const auto patience = away_ ? std::min(doubt, options_.watch_timeout_) : options_.watch_timeout_;
    return request_.opened && request_.seen == 0 && now - last_sign_ >= patience;
}

void reflector::follow_ended(time_point now, const failure& f) {
    if (ended_by_what_it_showed(now, f)) return;
    const auto& r = request_;
    const kind k = kind_of(f);
    unwatchable_ = k == kind::unwatchable;
    if (unversioned() || unwatchable_) {
        follow_by_fetching(now, f);
        return;
    }
    // A restore from a backup begins with a server that is out of reach.
    if (!r.opened && (k == kind::transport || code_of(f) >= 500)) away_ = true;
    if (!r.opened && f == errc::request_timeout) { // no header, for as long as the watch was to last and longer
        goal_ = goal::check;
        polled_ = true;
        failed(now, f, false);
        return;
    }
    if ((k == kind::none || k == kind::transport) && told_nothing(now)) {
        goal_ = goal::check;
        return;
    }
    const bool productive = r.delivered || r.synced || now - r.started >= very_short;
    switch (k) {
    case kind::none: // R12, R13; repeated events are no progress
        if (productive)
            succeeded(); // also if nothing has shown it before
        else
            failed(now, f, false);
        return;
    case kind::transport:
    case kind::cancelled: // R11
        if (r.opened && productive) return;
        failed(now, f, false);
        return;
    case kind::gone: // R14; the second time in a row, the server's watch cache is behind the server itself
        fetch_again(++stuck_ >= 2);
        if (!polled_) succeeded(); // whatever was wrong before, the server is there and lets us watch
        delay(now, f);
        return;
    case kind::too_new:
        goal_ = goal::check;
        failed(now, f, false);
        return;
    case kind::throttled: failed(now, f, false); return;
    case kind::unauthorized: failed(now, f, true); return;
    case kind::forbidden:
        // Perhaps the verb watch is forbidden, and list is not: then only lists are left.
        if (!r.opened && ++watch_refusals_ >= most_watch_refusals) goal_ = goal::check;
        failed(now, f, !polled_);
        return;
    case kind::missing: // its objects may have been deleted without an event
        refused_behind_a_list();
        fetch_again(false);
        failed(now, f, !polled_);
        return;
    case kind::unwatchable: return; // done above
    case kind::rejected:            // this version means nothing to the server
        refused_behind_a_list();
        fetch_again(!polled_);
        failed(now, f, false);
        return;
    case kind::other: failed_at_version(now, f); return;
    }
}

/// The same error at the same version does not go away by asking again.
void reflector::failed_at_version(time_point now, const failure& f) {
    failed(now, f, false);
    const bool corrupt = f.status() && f.status()->reason == "StorageReadError";
    if (request_.opened || code_of(f) == 500) ++stuck_;
    if (!corrupt && stuck_ < (request_.opened ? 2U : 5U)) return;
    stuck_ = 0;
    fetch_again(false);
}

/// For watches that are refused although each list between two of them works: after a few, only lists are left.
void reflector::refused_behind_a_list() {
    if (!request_.opened && ++watch_refusals_ >= most_watch_refusals) polled_ = true;
}

} // namespace informer
