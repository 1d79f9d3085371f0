#include <informer/controller/leader_election.hpp>

#include "controller/election_logic.hpp"
#include "controller/lease_call.hpp"
#include "controller/lease_errors.hpp"
#include "root/quietly.hpp"
#include "root/series.hpp"
#include "root/while_it_lasts.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <optional>

namespace informer {

using detail::election_logic;

std::string_view to_string(election_end e) noexcept {
    switch (e) {
    case election_end::stopped: return "stopped";
    case election_end::finished: return "finished";
    case election_end::lost: return "lost";
    }
    return "unknown";
}

failure leader_election_options::check() const {
    std::string wrong;
    if (name_space_.empty() || name_.empty())
        wrong = "the Lease needs a namespace and a name";
    else
        wrong = detail::wrong_times(lease_duration_, renew_deadline_, retry_period_, request_timeout_);
    if (wrong.empty()) return {};
    return failure(errc::bad_configuration, "leader election: " + wrong);
}

std::chrono::nanoseconds leader_election_options::effective_request_timeout() const {
    if (request_timeout_.count() > 0) return request_timeout_;
    return std::max<std::chrono::nanoseconds>(renew_deadline_ / 2, std::chrono::seconds(1));
}

struct leadership::term {
    term(std::shared_ptr<clock> c, fencing_token t, std::string id)
        : time(std::move(c)), token(std::move(t)), identity(std::move(id)) {}
    std::shared_ptr<clock> time;
    fencing_token token;
    std::string identity;
    std::atomic<clock::duration::rep> until{clock::duration::min().count()};
};

bool leadership::held() const noexcept {
    return term_->time->now().time_since_epoch().count() < term_->until.load(std::memory_order_relaxed);
}

const fencing_token& leadership::token() const noexcept {
    return term_->token;
}

const std::string& leadership::identity() const noexcept {
    return term_->identity;
}

namespace {

using leading_work = std::function<asio::awaitable<void>(const leadership&)>;
using leading_work_ptr = std::shared_ptr<const leading_work>;

/// One call of run(). It does not hold the work: the elector keeps this object after the call has ended, for what was
/// seen last, and the work may own the elector.
struct election : std::enable_shared_from_this<election> {
    election(const runtime& r, const kubernetes::client& c, leader_election_options o)
        : rt(r), options(std::move(o)), logic(options, rt.draw_seed()),
          wake(std::make_shared<detail::async_event>(rt.executor())),
          call(rt.executor(), c, wake, options.effective_request_timeout()) {}

    runtime rt;
    leader_election_options options;
    election_logic logic;
    std::shared_ptr<detail::async_event> wake;
    detail::lease_call call;
    object lease; ///< as read or written last

    std::shared_ptr<leadership::term> term;
    std::unique_ptr<task_group> work;
    bool work_told = false, work_begun = false, work_ended = false, overdue_said = false;
    std::exception_ptr work_failed;
    std::string reported;
    std::uint64_t slow_paths = 0;
    detail::lease_errors<election_logic::action> errors;

    clock::time_point now() const { return rt.clock().now(); }
    std::string where() const { return "leader election " + options.name_space_ + "/" + options.name_; }
    void gauge(double value) {
        if (auto* m = rt.metrics()) m->set("leader_election_master_status", value, {{"name", options.name_}});
    }
    void announce(const char* what);
    void report_holder();
    void attend(const leading_work_ptr& lead);
    void start_work();
    void begin(election_logic::action a);
    void settle(election_logic::action a, clock::time_point sent);
    void note_error(election_logic::action a, const failure& f);

    static asio::awaitable<void> run_work(std::shared_ptr<election> e, leading_work_ptr lead, leadership l);
    static asio::awaitable<void> join_work(std::shared_ptr<election> e);
    static asio::awaitable<void> give_up(std::shared_ptr<election> e);
    static asio::awaitable<void> request(std::shared_ptr<election> e, election_logic::step s, leading_work_ptr lead);
    static asio::awaitable<void> drive(std::shared_ptr<election> e, leading_work_ptr lead);
};

void election::announce(const char* what) {
    rt.log(log_level::info, where() + ": " + options.identity_ + " " + what);
    if (!options.on_event_) return;
    try {
        options.on_event_(lease, options.identity_ + " " + what);
    } catch (...) {
        rt.log(log_level::error, where() + ": on_event threw: " + detail::what_is_wrong());
    }
}

void election::report_holder() {
    if (!logic.round_over() || logic.holder() == reported) return;
    reported = logic.holder();
    rt.log(log_level::info,
           where() + ": " + (reported.empty() ? std::string("nobody leads") : "the leader is " + reported));
    if (!options.on_new_leader_) return;
    try {
        options.on_new_leader_(reported);
    } catch (...) {
        rt.log(log_level::error, where() + ": on_new_leader threw: " + detail::what_is_wrong());
    }
}

void election::note_error(election_logic::action a, const failure& f) {
    const bool news = errors.note(a, f);
    // Each failure is logged once, but no conflicts: a replica that waits for its turn meets them as a matter of
    // course.
    if (news && f != errc::conflict && f != errc::already_exists) rt.log(log_level::warning, where() + ": " + f.what());
}

void election::start_work() {
    term = std::make_shared<leadership::term>(rt.shared_clock(), logic.token(), options.identity_);
    work = std::make_unique<task_group>(rt.executor());
    work_told = work_begun = work_ended = overdue_said = false;
    announce("became leader");
    gauge(1);
}

void election::attend(const leading_work_ptr& lead) {
    if (logic.work_wanted() && !work) {
        start_work();
        logic.work_started();
        const leadership ours(term);
        work->spawn(run_work(shared_from_this(), lead, ours));
    }
    if (term) {
        const auto until = logic.holding(now()) ? logic.valid_until() : clock::time_point::min();
        term->until.store(until.time_since_epoch().count(), std::memory_order_relaxed);
    }
    if (work && !logic.work_wanted() && !std::exchange(work_told, true)) {
        if (logic.lost()) rt.log(log_level::error, where() + ": lost: " + logic.why_lost());
        gauge(0);
        work->stop();
        if (!work_begun) work_ended = true; // it will never begin
    }
    if (work && logic.overdue(now()) && !std::exchange(overdue_said, true))
        rt.log(log_level::error, where() + ": the leading work outlives its Lease; another may lead");
}

asio::awaitable<void> election::run_work(std::shared_ptr<election> e, leading_work_ptr lead, leadership l) {
    e->work_begun = true;
    try {
        auto work = (*lead)(l);
        co_await std::move(work);
    } catch (...) {
        const auto failed = std::current_exception();
        if (!e->work_told || !detail::is_cancellation(failed)) e->work_failed = failed;
    }
    e->work_ended = true;
    e->wake->notify();
}

asio::awaitable<void> election::join_work(std::shared_ptr<election> e) {
    co_await e->work->join();
    e->work.reset();
    e->term->until.store(clock::duration::min().count(), std::memory_order_relaxed);
    e->term.reset();
    e->gauge(0);
    e->announce("stopped leading");
    e->logic.work_over(e->now());
    if (e->work_failed) e->logic.stop(); // also after a loss: work that failed is not elected again
}

/// The Lease is not renewed any more, so the work has to end.
asio::awaitable<void> election::give_up(std::shared_ptr<election> e) {
    e->rt.log(log_level::error, e->where() + ": broken off by an exception");
    if (e->work) {
        e->work_told = true;
        e->term->until.store(clock::duration::min().count(), std::memory_order_relaxed);
        e->work->stop();
        co_await join_work(e);
    }
    co_await e->call.abandon();
}

void election::begin(election_logic::action a) {
    using action = election_logic::action;
    const auto wall = rt.clock().wall();
    const object_key key(options.name_space_, options.name_);
    switch (a) {
    case action::get: call.get(key); break;
    case action::create: call.create(detail::make_lease(key, options.labels_, logic.desired(wall))); break;
    case action::update: call.update(detail::change_lease(lease, options.labels_, logic.desired(wall))); break;
    case action::wait:
    case action::over: break;
    }
}

void election::settle(election_logic::action a, clock::time_point sent) {
    const failure& f = call.why();
    const bool absent = a == election_logic::action::get && f == errc::not_found;
    if (!logic.abandon(now()) || !f) note_error(a, absent ? failure() : f);
    if (absent) {
        logic.missing();
    } else if (f) {
        logic.failed(now(), f);
    } else {
        lease = call.lease();
        const detail::lease_record record(lease);
        if (a == election_logic::action::get)
            logic.found(now(), record);
        else
            logic.written(sent, now(), record, fencing_token(lease.resource_version(), record.transitions));
    }
    report_holder();
    if (logic.slow_paths() != std::exchange(slow_paths, logic.slow_paths()))
        if (auto* m = rt.metrics()) m->add("leader_election_slowpath_total", 1, {{"name", options.name_}});
}

asio::awaitable<void> election::request(std::shared_ptr<election> e, election_logic::step s, leading_work_ptr lead) {
    const auto sent = e->now();
    e->begin(s.what);
    while (!e->call.finished() && e->now() < s.until && !e->logic.abandon(e->now())) {
        co_await e->wake->wait_until(e->rt.clock(), s.until);
        e->attend(lead);
        if (e->work && e->work_ended) co_await join_work(e);
    }
    co_await e->call.abandon();
    e->settle(s.what, sent);
}

asio::awaitable<void> election::drive(std::shared_ptr<election> e, leading_work_ptr lead) {
    for (;;) {
        const election_logic::step s = e->logic.next(e->now());
        e->attend(lead);
        if (e->work && e->work_ended) {
            co_await join_work(e);
        } else if (s.what == election_logic::action::over) {
            break;
        } else if (s.what == election_logic::action::wait) {
            e->errors.round_over();
            co_await e->wake->wait_until(e->rt.clock(), s.until);
        } else {
            co_await request(e, s, lead);
        }
    }
}

} // namespace

struct leader_elector::impl {
    impl(runtime r, kubernetes::client c, leader_election_options o)
        : rt(std::move(r)), client(std::move(c)), options(std::move(o)) {
        if (options.identity_.empty()) options.identity_ = detail::host_label() + "_" + detail::random_digits(16);
        throw_on(options.check());
    }

    runtime rt;
    kubernetes::client client;
    leader_election_options options;
    bool running = false;
    std::shared_ptr<election> latest; ///< kept after its end, for what was seen last
    detail::series_share series;      ///< from the first run on

    ~impl() {
        if (!series.leave()) return;
        auto* m = rt.metrics();
        constexpr std::array gauges = {"leader_election_master_status"}, counters = {"leader_election_slowpath_total"};
        const metrics_sink::label of("name", options.name_);
        detail::end_gauges(*m, gauges, {of});
        detail::end_series(*m, counters, {of});
    }
    impl(const impl&) = delete;
    impl& operator=(const impl&) = delete;

    static asio::awaitable<election_end> run(std::shared_ptr<impl> self, leading_work lead);
};

asio::awaitable<election_end> leader_elector::impl::run(std::shared_ptr<impl> self, leading_work lead) {
    if (self->running)
        throw error(errc::already_running, "leader election " + self->options.name_space_ + "/" + self->options.name_);
    if (!lead)
        throw error(errc::bad_configuration,
                    "leader election " + self->options.name_space_ + "/" + self->options.name_ + ": no leading work");
    const detail::while_it_lasts running(self->running);
    const auto e = std::make_shared<election>(self->rt, self->client, self->options);
    self->latest = e;
    if (!self->series) self->series = detail::series_share(self->rt.metrics(), "election", self->options.name_);
    e->gauge(0);
    // A cancellation of run() must reach neither the renewals that the work needs until its end nor the release of the
    // Lease.
    std::function<void()> ask_to_end = [e] {
        e->logic.stop();
        e->wake->notify();
    };
    auto drive = election::drive(e, std::make_shared<const leading_work>(std::move(lead)));
    auto driving = detail::run_to_end(self->rt.executor(), std::move(drive), std::move(ask_to_end));
    const std::exception_ptr broken = co_await std::move(driving);
    if (broken) co_await election::give_up(e);
    if (broken) std::rethrow_exception(broken);
    if (e->work_failed) std::rethrow_exception(e->work_failed);
    co_return e->logic.end();
}

leader_elector::leader_elector(runtime r, kubernetes::client c, leader_election_options options)
    : impl_(std::make_shared<impl>(std::move(r), std::move(c), std::move(options))) {}

leader_elector::~leader_elector() = default;

asio::awaitable<election_end> leader_elector::run(std::function<asio::awaitable<void>(const leadership&)> lead) {
    return detail::quietly(impl::run(impl_, std::move(lead)));
}

bool leader_elector::is_leader() const noexcept {
    return impl_->running && impl_->latest->logic.holding(impl_->rt.clock().now());
}

const std::string& leader_elector::leader() const noexcept {
    static const std::string nobody;
    return impl_->latest ? impl_->latest->logic.holder() : nobody;
}

const std::string& leader_elector::identity() const noexcept {
    return impl_->options.identity_;
}

failure leader_elector::check(std::chrono::nanoseconds tolerance) const {
    if (!impl_->running) return {};
    return impl_->latest->logic.check(impl_->rt.clock().now(), std::chrono::duration_cast<clock::duration>(tolerance));
}

const failure& leader_elector::last_error() const noexcept {
    static const failure none;
    return impl_->latest ? impl_->latest->errors.last() : none;
}

} // namespace informer
