// Decides what to ask the server next: list, watch-list, watch, resume and relist, without any I/O.
#pragma once

#include <informer/backoff.hpp>
#include <informer/cache/status.hpp>
#include <informer/detail/page_circle.hpp>
#include <informer/detail/split_mix.hpp>
#include <informer/runtime.hpp>
#include <informer/source/list_watch.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace informer {

class reflector_options {
public:
    reflector_options() {}
    std::string of_; ///< names the resource in the reflector's own failures: "pods in ns1"
    std::string labels_, fields_;
    shard_selector shard_;
    bool watch_list_ = true, any_version_ = false, metadata_only_ = false;
    bool tells_all_ = false;                 ///< `list_watch::tells_all`
    std::optional<std::uint64_t> page_size_; ///< nullopt: `default_page_size`, but no paging for lists at a version
    backoff_options backoff_;
    std::chrono::seconds watch_timeout_ = std::chrono::minutes(5);
    std::uint64_t seed_ = 1;
};

/// The state machine behind an informer. The owner calls `next()`, carries out the action, reports what happens
/// meanwhile (`opened` … `tick`), and how it ended (`slept`, `page_done`, `list_failed`, `watch_done`). The contract
/// (client-go's reflector with this library's decisions) is kept here and nowhere else.
///
/// In short: the state is fetched by watch-list, or, if the server cannot do that, by a paged list. From then on
/// watches resume at the last resource version. The state is fetched again only for a 410, a removed resource, a
/// lasting refusal of that version, a server that went back in time or contradicts what it said before, or a watch that
/// was silent for its whole time if a check does not confirm that there is nothing newer.
///
/// If lists have no resource version, there is nothing to resume at: the watch has none either, and whatever ends it
/// causes a new fetch of the state. So does a watch that is refused with 405. Both are paced by the back-off unless the
/// watch has lasted a while. If watches are refused with 403 and lists are not, each refused watch leads to a check of
/// the newest version, and to a list if that is newer.
///
/// *Thread safety*: none. *Executor*: none. *Errors*: none thrown.
class reflector {
public:
    using time_point = clock::time_point;

    enum class step { wait, list, watch };
    class action {
    public:
        action() {}
        step what = step::wait;
        time_point until{};  ///< of wait
        list_options list;   ///< of list: one page
        watch_options watch; ///< of watch; `send_initial_events_` makes it a watch-list
        bool fresh = false;  ///< a new fetch of the whole state begins: forget what was collected
        bool check = false;  ///< a list whose items are not needed: only its resource version counts
    };

    /// What to do with an event or a bookmark.
    enum class verdict {
        collect,  ///< part of the initial state, which is not complete yet
        apply,    ///< a change to follow
        complete, ///< the initial state is complete: replace the cache by what was collected
        ignore,
        end, ///< end the request; then call `watch_done`
    };
    enum class page_verdict { more, complete, checked, failed };

    explicit reflector(reflector_options options, watch_list_support support = watch_list_support::unknown);

    /// What to do now. Calling it twice without a report in between returns the same step.
    action next(time_point now);
    void slept();

    // ---- while a request is under way ------------------------------------------------------------------------------
    void opened(time_point now);
    void progress(time_point now); ///< bytes arrived
    /// `known`: the key was collected before. Used only while the initial state is collected, for events other than
    /// added; `version` is used only when it is not.
    verdict event_seen(time_point now, watch_event_type type, const resource_version& version, bool known);
    /// The events that were seen without a version were one change, of this version.
    void change_ended(const resource_version& version) { advance(version); }
    /// The event seen last is a deletion that does not say of what. Only a list can tell; the request must be ended.
    void deletion_lost() noexcept;
    verdict bookmark_seen(time_point now, const resource_version& version, bool initial_events_end);
    /// When to call `tick()`; `time_point::max()` means never.
    time_point deadline() const;
    /// True: the request must be ended now; then call `list_failed` or `watch_done`.
    bool tick(time_point now);

    // ---- how it ended ----------------------------------------------------------------------------------------------
    /// One page has arrived. `failed`: the answer is of no use, `f` says why.
    page_verdict page_done(time_point now, const list_result& r, failure& f);
    /// A page failed. Returns true if the same page is requested again, so that the pages before it are kept. `f`
    /// becomes the failure to report ("no progress" instead of "cancelled").
    bool list_failed(time_point now, failure& f);
    /// The watch ended; `f` is empty after a clean end. Returns the failure to report, which may be the reflector's own
    /// ("no progress"), or an empty one if nothing is wrong.
    failure watch_done(time_point now, const failure& f);

    /// What was seen last may not have arrived: the state is fetched again, not older than that. Call it after
    /// `watch_done`.
    void lost_track() {
        if (goal_ != goal::fetch) fetch_again(false);
    }
    /// Whether the last fetched state proves what is gone. If it does not (an item could not be read, and does not say
    /// which object it is), the state is fetched again at growing intervals until one does. Until then, the cache may
    /// hold deleted objects.
    void absence(time_point now, bool proven);
    /// An event showed that another one was missed: an object was replaced, and no event reported the end of its
    /// predecessor. Only the state shows what else was missed, so it is fetched again, soon at first and then at
    /// growing intervals.
    void contradicted(time_point now);

    // ---- what is known ---------------------------------------------------------------------------------------------
    informer_phase phase() const noexcept;
    /// The resource version to resume from.
    const resource_version& version() const noexcept { return last_; }
    std::uint64_t epoch() const noexcept { return epoch_; }
    /// When the server last showed that `version()` is not behind it: an event, a bookmark, a state, or a check that found no newer one.
    std::optional<time_point> confirmed() const noexcept { return confirmed_; }
    std::uint64_t attempts() const noexcept { return attempts_; }      ///< failed in a row
    std::optional<time_point> waits() const noexcept { return wait_; } ///< nothing is requested until then
    /// The state is fetched again routinely: lists have no version, or there is no watch.
    bool relists() const noexcept { return unversioned() || polled_; }
    /// What was learnt about the server; to be remembered with the source.
    watch_list_support support() const noexcept { return support_; }
    /// The current watch still collects the initial state.
    bool collecting() const noexcept { return request_.collecting; }
    /// "list", "watch-list", "open" or "stream": the phase of the request, for the report of its failure.
    std::string_view request_phase() const noexcept;

    static constexpr std::uint64_t default_page_size = 500; ///< client-go's

    // This library's times. The rest are client-go's (see backoff_options).
    static constexpr unsigned most_page_failures = 5; ///< of one page, in a row; then the list starts over
    /// in a row; for 403, it is then checked whether lists are allowed
    static constexpr unsigned most_watch_refusals = 3;
    static constexpr std::chrono::seconds silence = std::chrono::seconds(2); ///< watch-list: nothing at all arrived
    static constexpr std::chrono::seconds pause = std::chrono::seconds(5);   ///< watch-list: events, but not their end
    /// Watch-list: this long without progress; also from the first change to the end, while it is not known whether the
    /// end comes at all.
    static constexpr std::chrono::seconds no_progress = std::chrono::seconds(30);
    static constexpr std::chrono::seconds list_patience = std::chrono::minutes(2);      ///< list without a byte
    static constexpr std::chrono::seconds overtime = list_watch::watch_overtime;        ///< a watch past its time-out
    static constexpr std::chrono::seconds longest_watch = std::chrono::hours(24 * 365); ///< upper limit of d in [d, 2d]
    /// A watch whose bookmarks came regularly is given up when nothing at all has come for this many halves of their
    /// longest interval, and not before `shortest_quiet`: HTTP/1.1 has no ping, and behind a proxy the connection stays
    /// up when the path is lost.
    static constexpr int quiet_halves = 5;
    static constexpr std::chrono::seconds shortest_quiet = std::chrono::seconds(60);
    static constexpr std::chrono::seconds very_short = std::chrono::seconds(1); ///< client-go's
    /// 404: the longest delay, drawn between four fifths of it and all of it. controller-runtime asks at this interval
    /// for a kind that is not installed.
    static constexpr std::chrono::seconds missing_retry = std::chrono::seconds(10);
    /// After the server could not be reached, a watch lasts this long, up to twice that: a restored backup shows itself
    /// by silence. So does a watch whose header is held back, as its events are until it ends.
    static constexpr std::chrono::seconds doubt = std::chrono::seconds(30);
    static constexpr std::chrono::seconds header_in_time = list_watch::watch_header_time;
    /// After a watch that cannot be resumed and lasted less than this, the state is fetched again only after a
    /// back-off.
    static constexpr std::chrono::seconds shortest_unversioned = std::chrono::seconds(30);
    /// The first delay before a state that does not prove what is gone is fetched again, doubled up to the longest.
    static constexpr std::chrono::seconds unproven = std::chrono::seconds(30),
                                          longest_unproven = std::chrono::minutes(15);
    /// The same for a contradicted state, doubled up to `longest_unproven`; forgotten after `no_contradiction` without
    /// one.
    static constexpr std::chrono::seconds contradiction = std::chrono::seconds(1),
                                          no_contradiction = std::chrono::hours(1);
    static constexpr std::chrono::seconds longest_retry_after = std::chrono::minutes(10);

private:
    enum class goal { fetch, follow, check };
    /// Why the reflector itself ended a request.
    enum class cut {
        none,
        silent,
        plain_events,
        stalled,
        quiet,
        overdue,
        went_back,
        deletion_lost,
        unproven,
        contradicted
    };
    struct request {
        bool watch = false, collecting = false, consistent = false, first_page = false, any_version = false;
        bool opened = false, proven = false, delivered = false, synced = false;
        std::uint64_t seen = 0; ///< events and bookmarks since the request (or since the initial state was complete)
        std::string continue_token;
        std::chrono::seconds timeout{};
        time_point started{}, opened_at{}, last_progress{};
        std::optional<time_point> last_bookmark; ///< after the initial events
        /// When the first change came, as opposed to initial events. Their end is not far behind the first change. If a
        /// server takes a watch-list for a plain watch, changes go on for ever, and a busy resource leaves no pause.
        std::optional<time_point> changes_since;
        cut why = cut::none;
    };

    void doubt_support(time_point now) noexcept;
    bool by_watch_list() const noexcept;
    std::string fetch_version() const;
    std::uint64_t page_size() const noexcept { return options_.page_size_.value_or(default_page_size); }
    void sign(time_point now, bool confirmed = true) noexcept;
    std::optional<clock::duration> quiet_patience() const;
    void learn_rhythm(time_point now);
    /// The state that was fetched last has no version. (Before the first one it does not matter.)
    bool unversioned() const noexcept { return last_.empty(); }
    void advance(const resource_version& v);
    bool below(const resource_version& v) const;
    void fetch_again(bool consistent);
    void complete(time_point now, const resource_version& v);
    void succeeded() noexcept;
    void failed(time_point now, const failure& f, bool parked);
    void delay(time_point now, const failure& f);
    void list_instead(bool refused) noexcept;
    void stalled(time_point now, const failure& f);
    void initial_ended(time_point now, const failure& f);
    void follow_by_fetching(time_point now, const failure& f);
    bool ended_by_what_it_showed(time_point now, const failure& f);
    bool told_nothing(time_point now) const;
    void failed_at_version(time_point now, const failure& f);
    void follow_ended(time_point now, const failure& f);
    void refused_behind_a_list();
    failure our_words(const failure& f) const;
    /// "watch pods: …"
    failure ours(errc code, std::string_view verb, std::string_view what) const;

    reflector_options options_;
    watch_list_support support_;
    std::optional<time_point> believed_until_; ///< until then, watch-list is believed to be missing
    backoff backoff_;
    /// A missing resource or version says nothing about the server's health, and a server that says when to come again
    /// is healthy enough.
    backoff missing_, expired_, told_to_wait_;
    backoff until_proven_, contradictions_;
    time_point last_contradiction_{};
    struct refetch {
        time_point when;
        cut why;
    };
    std::optional<refetch> again_; ///< the state proves too little, or is wrong
    detail::split_mix random_;

    goal goal_ = goal::fetch;
    request request_;
    std::optional<time_point> wait_;
    resource_version last_, first_page_;
    std::string continue_;        // of the next page
    detail::page_circle circle_;  // of this list's pages
    bool paging_ = false;         // between two pages of one list
    unsigned page_failures_ = 0;  // of the next page, in a row
    bool paged_at_any_ = false;   // a list at version 0 came in pages: no cache serves this server's lists
    bool in_one_piece_ = false;   // the continue token expired: list once without paging
    bool consistent_ = false;     // the last version was refused: read the newest
    bool list_this_time_ = false; // watch-list failed just now
    bool doubtful_ = false;       // refused with 403: if the list works, watch-list is what was refused
    unsigned doubts_ = 0;         // how often in a row
    bool refused_ = false;        // refused as by a server without watch-list: if the list works, it is one
    bool silent_ = false;         // nothing came: if the list has items, more than the end bookmark was missing
    bool listed_ = false;         // the list under way has items
    unsigned interrupted_ = 0;    // watch-lists that broke before their end, in a row
    clock::duration rhythm_{};    // of bookmarks: the longest recent interval
    unsigned rhythm_seen_ = 0;    // intervals seen
    unsigned quiet_cuts_ = 0;     // without a bookmark between: the path was not lost, the server sends none now
    unsigned watch_refusals_ = 0; // watches in a row that were forbidden, or refused though a list worked
    unsigned stuck_ = 0;          // watches in a row that the server ended with an error at the same version
    std::uint64_t epoch_ = 1, attempts_ = 0;
    bool parked_ = false;      // while attempts fail
    bool unwatchable_ = false; // the last watch was refused as such (405)
    bool late_header_ = false; // a watch got no header in time: a proxy may hold it back until more comes
    bool polled_ = false;      // watches fail, and only lists work: a list that works does not end this
    time_point last_sign_{};   // that the server is not behind us; also when we gave up waiting for one
    std::optional<time_point> confirmed_;
    bool away_ = false; // the server could not be reached since then
};

} // namespace informer
