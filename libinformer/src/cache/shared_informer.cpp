// An informer's life from run() to its end, the waits for a state of its cache, and the handle.
#include "root/add_weak.hpp"
#include "root/at_home.hpp"
#include "root/quietly.hpp"
#include "shared_informer_impl.hpp"

#include <boost/asio/this_coro.hpp>

#include <exception>
#include <string>
#include <utility>

namespace informer {

namespace {

reflector_options options_for(const informer_options& o, const list_watch& from, std::uint64_t seed) {
    reflector_options r;
    r.of_ = from.describe();
    r.tells_all_ = from.tells_all();
    r.labels_ = o.label_selector_;
    r.fields_ = o.field_selector_;
    r.shard_ = o.shard_;
    r.watch_list_ = o.watch_list_;
    r.any_version_ = o.any_version_;
    r.metadata_only_ = o.metadata_only_;
    r.page_size_ = o.page_size_;
    r.backoff_ = o.backoff_;
    r.watch_timeout_ = o.watch_timeout_;
    r.seed_ = seed;
    return r;
}

} // namespace

// ---- life -----------------------------------------------------------------------------------------------------------

asio::awaitable<void> shared_informer::impl::run(self s, std::shared_ptr<machinery> m) {
    if (!m) throw error(errc::already_running, "run " + s->name);
    m->going = true;
    s->begin_metrics();
    if (!s->stopping) {
        s->machine = reflector(options_for(s->options, *m->from, s->rt.draw_seed()), m->from->watch_list());
        s->note_phase();
        m->tasks.spawn(consume(s));
        m->tasks.spawn(keep_tidy(s));
        m->tasks.spawn(produce(s));
        s->start_waiting_children();
    }
    while (!s->stopping && !m->failed) { // without one of its coroutines, the informer would only look alive
        const bool told = co_await m->stop_asked.wait();
        if (!told) break; // cancelled
    }

    s->stopping = true;
    m->queue.close();
    m->tasks.stop();
    co_await m->tasks.join();
    s->ended = true;
    s->end_subscribers();
    // If it ends for lack of memory, there may be none for this either; and yet all that wait must be told.
    const auto try_to = [&m](auto last) {
        try {
            last();
        } catch (...) {
            if (!m->failed) m->failed = std::current_exception();
        }
    };
    try_to([&s] { s->store->index.revert(); });
    try_to([&s] { s->refresh_figures(); });
    try_to([&s] { s->note_phase(); });
    s->note_stopped();
    s->news();
    if (m->failed) std::rethrow_exception(m->failed);
}

void shared_informer::impl::stop() {
    if (stopping) return;
    const self keep = shared_from_this(); // an observer may drop the last handle
    stopping = true;
    if (live) live->stop_asked.notify();
    if (!started) {
        ended = true;
        try {
            note_phase();
        } catch (...) { // NOLINT(bugprone-empty-catch) no memory to tell observers; the rest needs none
        }
        end_early();
    }
    news();
}

/// Whatever else fails: needs no memory.
void shared_informer::impl::note_stopped() noexcept {
    const std::lock_guard lock(mutex);
    figures.phase = informer_phase::stopped;
}

/// Also called while a context is destroyed: only waiters are notified, no observers.
void shared_informer::impl::end_early() {
    stopping = ended = true;
    from.reset();
    end_subscribers();
    let_go();
    note_stopped();
    news();
}

void shared_informer::impl::end_subscribers() {
    std::shared_ptr<const std::string> why;
    try {
        if (!subscribers.empty() || !waiting.empty()) why = why_ended();
    } catch (...) { // NOLINT(bugprone-empty-catch) no memory for words
    }
    for (auto* list : {&subscribers, &waiting}) {
        for (const subscriber& one : *list) one->end(why);
        list->clear();
    }
}

/// Nothing is reported any more. Handlers and observers are released, because they may own this informer.
void shared_informer::impl::let_go() {
    for (const auto& h : std::exchange(handlers_waiting, {})) h->let_go();
    observer = informer_observer();
    for (const auto& weak : std::exchange(observers, {})) {
        if (const auto o = weak.lock()) *o = informer_observer();
    }
}

// ---- waiting --------------------------------------------------------------------------------------------------------

void shared_informer::impl::news() {
    if (waiters.empty()) return;
    for (const auto& weak : std::exchange(waiters, {})) {
        if (const auto waiter = weak.lock()) waiter->notify();
    }
}

asio::awaitable<void> shared_informer::impl::wait_for_news(self s, clock::time_point until) {
    const auto told = std::make_shared<detail::async_event>(s->rt.executor());
    detail::add_weak(s->waiters, told);
    const bool notified = co_await told->wait_until(s->rt.clock(), until);
    static_cast<void>(notified);
}

std::string shared_informer::impl::last_words() const {
    const std::lock_guard lock(mutex);
    if (!figures.last_error) {
        const bool asked_in_vain =
            figures.phase == informer_phase::listing && figures.last_contact == std::chrono::system_clock::time_point();
        return asked_in_vain ? " (asked, and nothing has come from the server)" : "";
    }
    return " (last error, " + figures.last_error_phase + ": " + figures.last_error.what() + ")";
}

std::shared_ptr<const std::string> shared_informer::impl::why_ended() const {
    return std::make_shared<const std::string>(name + last_words());
}

void shared_informer::impl::give_up(const std::string& doing, errc why) const {
    throw error(why, name + ": " + doing + (started ? last_words() : ": run() was not called"));
}

asio::awaitable<void> shared_informer::impl::wait_for(self s, std::string doing, clock::duration at_most, look at) {
    const auto until = detail::later(s->now(), at_most);
    std::optional<errc> end;
    for (;;) {
        end = at();
        if (end) break;
        const auto asked = co_await asio::this_coro::cancellation_state;
        if (asked.cancelled() != asio::cancellation_type::none) {
            end = errc::cancelled;
        } else if (s->stopping) {
            end = errc::stopped;
        } else if (s->now() >= until) {
            end = errc::deadline_exceeded;
        }
        if (end) break;
        co_await wait_for_news(s, until);
    }
    if (*end != errc{}) s->give_up(doing, *end);
}

asio::awaitable<void> shared_informer::impl::synced(self s, clock::duration at_most) {
    look at = [store = s->store]() -> std::optional<errc> {
        if (store->has_synced()) return errc{};
        return std::nullopt;
    };
    return wait_for(std::move(s), "wait for the first state", at_most, std::move(at));
}

asio::awaitable<void> shared_informer::impl::wait_until(self s, informer::resource_version version,
                                                        clock::duration at_most) {
    std::string doing = "wait for version " + version.str();
    if (!version.comparable()) doing += ": not a decimal number";
    // The coroutine holds `s` for as long as `look` is in use.
    look at = [i = s.get(), epoch = s->epoch, version = std::move(version)]() -> std::optional<errc> {
        if (!version.comparable()) return errc::bad_configuration;
        if (i->epoch != epoch) return errc::new_epoch;
        if (i->store->index.snapshot().resource_version() >= version) return errc{};
        return std::nullopt;
    };
    co_await wait_for(std::move(s), std::move(doing), at_most, std::move(at));
}

asio::awaitable<object> shared_informer::impl::until(self s, object_key key,
                                                     std::function<bool(const object&)> condition,
                                                     clock::duration at_most) {
    std::string doing = "wait for a state of " + key.str();
    if (!condition) throw error(errc::bad_configuration, s->name + ": " + doing + ": no condition");
    if (!s->store->has(key.name_space)) throw error(errc::not_cached, s->name + ": " + doing);
    const auto found = std::make_shared<object>();
    look at = [store = s->store, key = std::move(key), condition = std::move(condition),
               found]() -> std::optional<errc> {
        if (!store->has_synced()) return std::nullopt;
        *found = store->index.get(key);
        if (condition(*found)) return errc{};
        return std::nullopt;
    };
    co_await wait_for(std::move(s), std::move(doing), at_most, std::move(at));
    co_return *found;
}

// ---- the handle -----------------------------------------------------------------------------------------------------

shared_informer::shared_informer(runtime r, std::shared_ptr<list_watch> from, informer_options options)
    : impl_(std::make_shared<impl>(std::move(r), std::move(from), std::move(options))) {}
shared_informer::~shared_informer() = default;
shared_informer::shared_informer(const shared_informer&) = default;
shared_informer& shared_informer::operator=(const shared_informer&) = default;
shared_informer::shared_informer(shared_informer&&) noexcept = default;
shared_informer& shared_informer::operator=(shared_informer&&) noexcept = default;

asio::awaitable<void> shared_informer::run() {
    std::shared_ptr<impl::machinery> m;
    if (!impl_->started) m = std::make_shared<impl::machinery>(impl_);
    impl_->started = true;
    return detail::quietly(impl::run(impl_, std::move(m)));
}

void shared_informer::stop() {
    impl_->stop();
}

void shared_informer::retry_now() {
    if (!impl_->live || !impl_->machine.waits()) return;
    impl_->machine.slept();
    if (impl_->live->hurry) impl_->live->hurry->notify();
}

const api_resource& shared_informer::resource() const noexcept {
    return impl_->resource;
}

bool shared_informer::has_synced() const noexcept {
    return impl_->store->has_synced();
}

asio::awaitable<void> shared_informer::synced(clock::duration at_most) {
    return detail::quietly_at_home(impl_->rt, impl::synced(impl_, at_most));
}

asio::awaitable<void> shared_informer::wait_until(informer::resource_version version, clock::duration at_most) {
    return detail::quietly_at_home(impl_->rt, impl::wait_until(impl_, std::move(version), at_most));
}

asio::awaitable<object> shared_informer::until(object_key key, std::function<bool(const object&)> condition,
                                               clock::duration at_most) {
    return detail::quietly_at_home(impl_->rt, impl::until(impl_, std::move(key), std::move(condition), at_most));
}

informer_status shared_informer::status() const {
    return impl_->status();
}

std::shared_ptr<void> shared_informer::observe(informer_observer o) {
    // An observer that is never called must not keep alive what it owns.
    if (impl_->stopping) return std::make_shared<informer_observer>();
    auto kept = std::make_shared<informer_observer>(std::move(o));
    detail::add_weak(impl_->observers, kept);
    return kept;
}

void shared_informer::on_state_change(std::function<void(const informer_status&)> f) {
    if (!impl_->ended) impl_->observer.on_state_change(std::move(f));
}

void shared_informer::on_error(std::function<void(std::string_view phase, const failure& f)> f) {
    if (!impl_->ended) impl_->observer.on_error(std::move(f));
}

void shared_informer::on_bad_object(std::function<void(const bad_object& b)> f) {
    if (!impl_->ended) impl_->observer.on_bad_object(std::move(f));
}

/// A handle of one namespace may share an informer of all, which must not be noticed.
subscription_options shared_informer::narrowed(subscription_options options) const {
    const detail::cache_store& store = *impl_->store;
    std::string& wanted = options.name_space_;
    if (wanted.empty()) wanted = name_space_;
    if (!store.namespaced()) wanted.clear(); // its objects are in none
    const bool of_handle = name_space_.empty() || wanted == name_space_;
    if (!wanted.empty() && !(of_handle && store.has(wanted))) {
        throw error(errc::not_cached,
                    impl_->name + ": subscribe to namespace \"" + wanted + "\", which it does not have");
    }
    if (wanted == store.name_space()) wanted.clear(); // it is told of nothing else anyway
    return options;
}

subscription shared_informer::subscribe(subscription_options options) {
    return subscription(impl_->add_subscriber(narrowed(std::move(options))));
}

void shared_informer::add_index(std::string name, index_function f) {
    impl_->add_index(std::move(name), std::move(f));
}

asio::awaitable<void> shared_informer::index_ready(std::string name, clock::duration at_most) {
    return detail::quietly_at_home(impl_->rt, impl::index_ready(impl_, std::move(name), at_most));
}

informer::lister shared_informer::lister() const {
    return informer::lister(impl_->store, name_space_);
}

cache_snapshot shared_informer::snapshot() const {
    return impl_->store->index.snapshot();
}

object shared_informer::get(const object_key& key) const {
    return narrowed(impl_->store->index.get(key));
}

object shared_informer::get_by_text(std::string_view key) const {
    return narrowed(impl_->store->index.get(key));
}

} // namespace informer
