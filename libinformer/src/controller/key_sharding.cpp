#include <informer/controller/key_sharding.hpp>

#include "controller/lease_call.hpp"
#include "controller/lease_errors.hpp"
#include "controller/rendezvous.hpp"
#include "controller/shard_logic.hpp"
#include "object/label_syntax.hpp"
#include "root/add_weak.hpp"
#include "root/fnv1a.hpp"
#include "root/quietly.hpp"
#include "root/series.hpp"

#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <list>
#include <optional>

namespace informer {

using detail::shard_logic;

std::size_t rendezvous_owner(const std::vector<std::string>& members, std::string_view key) {
    std::vector<std::uint64_t> weights;
    weights.reserve(members.size());
    for (const auto& m : members) weights.push_back(detail::fnv1a(m));
    return detail::heaviest(weights, detail::fnv1a(key),
                            [&](std::size_t a, std::size_t b) { return members[a] < members[b]; });
}

bool shard_view::active() const noexcept {
    return data_ && data_->active;
}

bool shard_view::owns(std::string_view key) const noexcept {
    if (!active()) return false;
    const auto& d = *data_;
    return detail::heaviest(d.weights, detail::fnv1a(key), [](std::size_t a, std::size_t b) { return a < b; }) ==
           d.self;
}

const std::vector<std::string>& shard_view::members() const noexcept {
    static const std::vector<std::string> none;
    return data_ ? data_->members : none;
}

std::uint64_t shard_view::generation() const noexcept {
    return data_ ? data_->generation : 0;
}

failure shard_group_options::check() const {
    std::string wrong;
    if (name_space_.empty())
        wrong = "the namespace is empty";
    else if (!detail::is_dns_label(group_))
        wrong = "the group must be a part of a DNS name";
    else if (!identity_.empty() && !detail::is_dns_label(identity_))
        wrong = "the identity must be a part of a DNS name";
    else
        wrong = detail::wrong_times(lease_duration_, renew_deadline_, retry_period_, request_timeout_);
    if (wrong.empty()) return {};
    return failure(errc::bad_configuration, "shard group: " + wrong);
}

std::chrono::nanoseconds shard_group_options::effective_request_timeout() const {
    if (request_timeout_.count() > 0) return request_timeout_;
    return std::max<std::chrono::nanoseconds>(renew_deadline_ / 4, std::chrono::seconds(1));
}

namespace {

/// Work that run_owned runs.
struct held_work {
    held_work(std::string k, const asio::any_io_executor& e) : key(std::move(k)), wake(e) {}
    std::string key;
    detail::async_event wake;
    clock::time_point owned_until{};
    bool begun = false, finished = false;
    std::exception_ptr failed;

    static asio::awaitable<void> carry(std::shared_ptr<held_work> h, asio::awaitable<void> work) {
        h->begun = true;
        try {
            co_await std::move(work);
        } catch (...) {
            h->failed = std::current_exception();
        }
        h->finished = true;
        h->wake.notify();
    }
};

} // namespace

struct shard_group::impl {
    impl(runtime r, kubernetes::client c, shard_group_options o)
        : rt(std::move(r)), client(std::move(c)), options(std::move(o)) {
        if (options.identity_.empty()) options.identity_ = detail::host_label();
        throw_on(options.check());
        series = detail::series_share(rt.metrics(), "shards", options.group_);
    }
    ~impl() {
        constexpr std::array gauges = {"informer_shard_members", "informer_shard_active"};
        if (series.leave()) detail::end_gauges(*rt.metrics(), gauges, {{"group", options.group_}});
    }
    impl(const impl&) = delete;
    impl& operator=(const impl&) = delete;

    runtime rt;
    kubernetes::client client;
    shard_group_options options;
    detail::series_share series;

    // State of one run.
    bool running = false, stopping = false;
    std::optional<shard_logic> logic;
    std::shared_ptr<detail::async_event> wake;
    std::optional<detail::lease_call> call;
    object own; ///< our Lease as read or written last

    shard_view view;
    resource_version token;
    std::string member;
    detail::lease_errors<shard_logic::action> errors;
    std::list<std::shared_ptr<held_work>> held;
    using listener = std::function<void(const shard_change&)>;
    std::vector<std::weak_ptr<listener>> listeners;

    clock::time_point now() const { return rt.clock().now(); }
    std::string where() const { return "shard group " + options.name_space_ + "/" + options.group_; }
    bool owns(std::string_view key) const noexcept;
    clock::duration hand_over() const {
        return std::chrono::duration_cast<clock::duration>(options.lease_duration_ - options.renew_deadline_);
    }
    void gauge(const char* name, double value) {
        if (auto* m = rt.metrics()) m->set(name, value, {{"group", options.group_}});
    }
    void note_error(shard_logic::action a, const failure& f);
    void look();
    void publish(const shard_view& now_seen);
    void tell(const listener& f, const shard_change& change);
    void begin(const shard_logic::step& s);
    void settle(const shard_logic::step& s, clock::time_point sent);
    std::vector<detail::listed_lease> listed();

    static asio::awaitable<void> request(std::shared_ptr<impl> self, shard_logic::step s);
    static asio::awaitable<void> drive(std::shared_ptr<impl> self);
    static asio::awaitable<void> run(std::shared_ptr<impl> self);
    static asio::awaitable<owned_end> run_owned(std::shared_ptr<impl> self, std::string key,
                                                asio::awaitable<void> work);
    static asio::awaitable<owned_end> guard(std::shared_ptr<impl> self, std::shared_ptr<held_work> h,
                                            asio::awaitable<void> work);
};

bool shard_group::impl::owns(std::string_view key) const noexcept {
    return running && logic->active(now()) && view.owns(key);
}

void shard_group::impl::note_error(shard_logic::action a, const failure& f) {
    if (errors.note(a, f)) rt.log(log_level::warning, where() + ": " + f.what());
}

void shard_group::impl::publish(const shard_view& seen) {
    const shard_change change(view, seen);
    view = seen;
    gauge("informer_shard_members", double(view.members().size()));
    gauge("informer_shard_active", view.active() ? 1 : 0);
    std::string line = where() + ": " + member + (view.active() ? " owns keys" : " owns nothing") + "; live members:";
    for (const auto& m : view.members()) line += " " + m;
    rt.log(log_level::info, line);
    for (const auto& h : held) h->wake.notify();
    if (options.on_change_) tell(options.on_change_, change);
    std::erase_if(listeners, [](const auto& l) { return l.expired(); });
    const auto told = listeners; // a copy, as a listener may add another
    for (const auto& l : told)
        if (const auto f = l.lock()) tell(*f, change);
}

void shard_group::impl::tell(const listener& f, const shard_change& change) {
    try {
        f(change);
    } catch (...) {
        rt.log(log_level::error, where() + ": on_change threw: " + detail::what_is_wrong());
    }
}

void shard_group::impl::look() {
    if (stopping) {
        logic->stop(now());
        if (held.empty()) logic->drained();
    }
    const shard_view seen = logic->view(now());
    if (!(seen == view)) publish(seen);
}

void shard_group::impl::begin(const shard_logic::step& s) {
    using action = shard_logic::action;
    const object_key key(options.name_space_, member);
    const std::map<std::string, std::string> labels{{std::string(shard_group_options::label_key), options.group_}};
    const auto wall = rt.clock().wall();
    switch (s.what) {
    case action::create: call->create(detail::make_lease(key, labels, logic->desired(wall))); break;
    case action::update: call->update(detail::change_lease(own, labels, logic->desired(wall))); break;
    case action::list: {
        list_options all;
        all.labels(std::string(shard_group_options::label_key) + "=" + options.group_)
            .limit(shard_group_options::most_members);
        call->list(options.name_space_, all);
        break;
    }
    case action::collect: {
        kubernetes::delete_options only_that;
        only_that.precondition_uid(s.target.uid).precondition_resource_version(s.target.version);
        call->remove(object_key(options.name_space_, s.target.name), only_that);
        break;
    }
    case action::leave: {
        const kubernetes::delete_options plain;
        call->remove(key, plain);
        break;
    }
    case action::wait:
    case action::over: break;
    }
}

/// The Leases of the page. Ours becomes `own`.
std::vector<detail::listed_lease> shard_group::impl::listed() {
    std::vector<detail::listed_lease> leases;
    for (const auto& o : call->page().items) {
        leases.emplace_back(o);
        if (leases.back().name == member) own = o;
    }
    return leases;
}

void shard_group::impl::settle(const shard_logic::step& s, clock::time_point sent) {
    using action = shard_logic::action;
    failure f = call->why();
    const bool has_page = !f && s.what == action::list;
    const bool crowded = has_page && !call->page().continue_token.empty();
    if (crowded || (has_page && !call->page().bad.empty()))
        f = failure(errc::too_large, "list leases: more than " + std::to_string(shard_group_options::most_members) +
                                         " Leases, or some that cannot be read, have the label of this group");
    // The Lease was renewed after all, or another member deleted it.
    const bool spared = s.what == action::collect && (f == errc::conflict || f == errc::not_found);
    if (!logic->abandon(now()) || !f) note_error(s.what, spared ? failure() : f);
    if (crowded) {
        logic->overcrowded(sent, now(), listed());
        return;
    }
    if (f) {
        logic->failed(now(), f);
        return;
    }
    switch (s.what) {
    case action::create:
    case action::update:
        own = call->lease();
        logic->written(sent, now(), detail::lease_record(own));
        break;
    case action::list:
        logic->listed(sent, now(), listed(), call->page().version);
        token = logic->token();
        break;
    case action::collect:
        rt.log(log_level::info, where() + ": deleted the Lease of the dead member " + s.target.name);
        [[fallthrough]];
    case action::leave: logic->removed(now()); break;
    case action::wait:
    case action::over: break;
    }
}

asio::awaitable<void> shard_group::impl::request(std::shared_ptr<impl> self, shard_logic::step s) {
    const auto sent = self->now();
    self->begin(s);
    while (!self->call->finished() && self->now() < s.until && !self->logic->abandon(self->now())) {
        const auto until = std::min(s.until, self->logic->next_change(self->now()));
        co_await self->wake->wait_until(self->rt.clock(), until);
        self->look();
    }
    co_await self->call->abandon();
    self->settle(s, sent);
}

asio::awaitable<void> shard_group::impl::drive(std::shared_ptr<impl> self) {
    for (;;) {
        self->look();
        const shard_logic::step s = self->logic->next(self->now());
        self->look(); // publish what next() noticed
        if (s.what == shard_logic::action::over) break;
        if (s.what == shard_logic::action::wait) {
            self->errors.round_over();
            const auto until = std::min(s.until, self->logic->next_change(self->now()));
            co_await self->wake->wait_until(self->rt.clock(), until);
        } else {
            co_await request(self, s);
        }
    }
}

asio::awaitable<void> shard_group::impl::run(std::shared_ptr<impl> self) {
    if (self->running) throw error(errc::already_running, self->where());
    // A name that no other process has ever had, so that a Lease of this name can only be ours.
    self->member = self->options.group_ + "-" + self->options.identity_ + "-" + detail::random_digits(16);
    self->logic.emplace(self->options, self->member, self->rt.draw_seed());
    self->wake = std::make_shared<detail::async_event>(self->rt.executor());
    self->call.emplace(self->rt.executor(), self->client, self->wake, self->options.effective_request_timeout());
    self->own = object();
    self->stopping = false;
    self->running = true;
    // A cancellation of run() must reach neither the renewals that running work needs nor the deletion of our Lease.
    std::function<void()> ask_to_end = [self] {
        self->stopping = true;
        self->wake->notify();
    };
    auto driving = detail::run_to_end(self->rt.executor(), drive(self), std::move(ask_to_end));
    const std::exception_ptr broken = co_await std::move(driving);
    self->running = false;
    if (broken) { // the Lease is not renewed any more
        for (const auto& h : self->held) h->wake.notify();
        co_await self->call->abandon();
    }
    if (broken) std::rethrow_exception(broken);
}

asio::awaitable<owned_end> shard_group::impl::guard(std::shared_ptr<impl> self, std::shared_ptr<held_work> h,
                                                    asio::awaitable<void> work) {
    const auto whole = self->hand_over();
    std::optional<clock::time_point> lost_at;
    bool told = false, overdue = false;
    auto end = owned_end::done;
    std::exception_ptr broken;
    task_group group(self->rt.executor());
    group.on_error([h](std::exception_ptr e) { // the work could not be started
        h->failed = std::move(e);
        h->finished = true;
        h->wake.notify();
    });
    group.spawn(held_work::carry(h, std::move(work)));
    while (!h->finished) {
        const auto now = self->now();
        if (told) {
            // The work has to end, whatever the group looks like now.
        } else if (self->owns(h->key)) {
            h->owned_until = self->logic->valid_until();
            // No other replica can have owned the key meanwhile: that takes longer than the work may go on after a
            // loss.
            lost_at.reset();
        } else if (!lost_at) {
            lost_at = std::min(now, h->owned_until);
        }
        const auto asked = co_await asio::this_coro::cancellation_state;
        const bool cancelled = asked.cancelled() != asio::cancellation_type::none;
        if (cancelled || (!told && lost_at && now >= *lost_at + whole / 2)) {
            if (!told) end = cancelled ? owned_end::cancelled : owned_end::lost;
            told = true;
            group.stop();
        }
        if (cancelled || (told && !h->begun)) break; // work that has not begun never will
        if (told && !overdue && now >= *lost_at + whole) {
            overdue = true;
            self->rt.log(log_level::error, self->where() + ": the work for " + h->key +
                                               " outlives our ownership; another may own the key");
        }
        auto until = h->owned_until;
        if (lost_at) until = overdue ? clock::time_point::max() : *lost_at + (told ? whole : whole / 2);
        try {
            co_await h->wake.wait_until(self->rt.clock(), until);
        } catch (...) { // an exception of the clock
            broken = std::current_exception();
        }
        if (!broken) continue;
        group.stop();
        break;
    }
    co_await group.join();
    if (broken) std::rethrow_exception(broken);
    if (h->failed && !(told && detail::is_cancellation(h->failed))) std::rethrow_exception(h->failed);
    co_return end;
}

asio::awaitable<owned_end> shard_group::impl::run_owned(std::shared_ptr<impl> self, std::string key,
                                                        asio::awaitable<void> work) {
    if (!self->owns(key)) co_return owned_end::not_owned;
    const auto h = std::make_shared<held_work>(std::move(key), self->rt.executor());
    const auto at = self->held.insert(self->held.end(), h);
    std::exception_ptr failed;
    auto end = owned_end::done;
    try {
        end = co_await guard(self, h, std::move(work));
    } catch (...) {
        failed = std::current_exception();
    }
    self->held.erase(at);
    if (self->stopping && self->held.empty()) self->wake->notify();
    if (failed) std::rethrow_exception(failed);
    co_return end;
}

shard_group::shard_group(runtime r, kubernetes::client c, shard_group_options options)
    : impl_(std::make_shared<impl>(std::move(r), std::move(c), std::move(options))) {}

shard_group::~shard_group() = default;

asio::awaitable<void> shard_group::run() {
    return detail::quietly(impl::run(impl_));
}

bool shard_group::owns(std::string_view key) const noexcept {
    return impl_->owns(key);
}

const shard_view& shard_group::view() const noexcept {
    return impl_->view;
}

std::shared_ptr<void> shard_group::listen(std::function<void(const shard_change&)> f) {
    auto kept = std::make_shared<impl::listener>(std::move(f));
    detail::add_weak(impl_->listeners, kept);
    return kept;
}

const resource_version& shard_group::token() const noexcept {
    return impl_->token;
}

const std::string& shard_group::member() const noexcept {
    return impl_->member;
}

const failure& shard_group::last_error() const noexcept {
    return impl_->errors.last();
}

asio::awaitable<owned_end> shard_group::run_owned(std::string key, asio::awaitable<void> work) {
    return detail::quietly(impl::run_owned(impl_, std::move(key), std::move(work)));
}

} // namespace informer
