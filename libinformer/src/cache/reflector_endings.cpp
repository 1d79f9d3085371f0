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
        // Not found out; watching again is right unless the server went back, and then the next silence tells.
        goal_ = goal::follow;
        last_sign_ = now; // which is not before it has lasted as long again
        if (hard(k)) {
            away_ = polled_ = false;
            watch_refusals_ = 0; // it is not about watches
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
    // A version that the server does not even read would be asked for again and again.
    if (k == kind::gone || (k == kind::rejected && request_.first_page)) consistent_ = true;
    paging_ = in_one_piece_ = doubtful_ = false;
    // What the refusal before it meant, the next list will tell.
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
    // Of a plain watch it may be held back with the first event, of a watch-list with a few.
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
    // The same to who counts and logs as one that was given less time, which comes in turn with it.
    if (!request_.opened && f == errc::request_timeout)
        return ours(errc::header_timeout, "watch", "no answer in all its time");
    return f;
}

/// `refused`: it looks like a server without watch-list. If the list is refused, too, it was not about that.
void reflector::list_instead(bool refused) noexcept {
    list_this_time_ = true;
    refused_ = refused;
}

/// A server that is known for watch-list can, but not just now: it has a bad moment, perhaps with all who follow it.
void reflector::stalled(time_point now, const failure& f) {
    const bool known = support_ == watch_list_support::yes;
    list_instead(!known);
    if (known) failed(now, f, false);
}

// WL7, X5: the initial state did not come to its end.
void reflector::initial_ended(time_point now, const failure& f) {
    switch (request_.why) {
    case cut::silent: silent_ = true; return; // what it means the list will tell
    case cut::plain_events:                   // whatever the list says
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
        // So is one that is cut before its header: a proxy may hold that back, and give up before we do.
        if ((request_.opened || f == errc::connection_lost) && ++interrupted_ >= 2) list_this_time_ = true;
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
    const bool was_there =
        k == kind::none || k == kind::gone || (request_.opened && (k == kind::transport || k == kind::cancelled));
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
    if (r.why == cut::unproven || r.why == cut::contradicted) {
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
    if (told_nothing && (k == kind::none || k == kind::transport)) {
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
        if (!polled_) succeeded(); // whatever was wrong before, it is there and lets us watch
        delay(now, f);
        return;
    case kind::too_new:
        goal_ = goal::check;
        failed(now, f, false);
        return;
    case kind::throttled: failed(now, f, false); return;
    case kind::unauthorized: failed(now, f, true); return;
    case kind::forbidden:
        // Perhaps the verb watch is, and list is not: then lists are all there is.
        if (!r.opened && ++watch_refusals_ >= most_watch_refusals) goal_ = goal::check;
        failed(now, f, !polled_);
        return;
    case kind::missing: // while it was away its objects may have gone without an event
        refused_behind_a_list();
        fetch_again(false);
        failed(now, f, !polled_);
        return;
    case kind::unwatchable: return; // seen to
    case kind::rejected:            // this version means nothing to the server
        refused_behind_a_list();
        fetch_again(!polled_);
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

/// Each time a list works between two of them: then lists are all there is.
void reflector::refused_behind_a_list() {
    if (!request_.opened && ++watch_refusals_ >= most_watch_refusals) polled_ = true;
}

} // namespace informer
