// The consumer's end of a subscription: its coroutines.
#include "subscription_state.hpp"

#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <utility>

namespace informer {

namespace detail {

std::string name_of(const subscription_options& o) {
    return o.name_.empty() ? "subscription" : "subscription " + o.name_;
}

} // namespace detail

namespace {

[[noreturn]] void throw_cancelled(const subscription_options& o) {
    throw error(failure(errc::cancelled, detail::name_of(o)));
}

} // namespace

asio::awaitable<std::optional<event>> subscription::state::next_of(std::shared_ptr<state> s) {
    gift given(s.get(), 1);
    for (bool look = !s->drained();; look = true) {
        const asio::cancellation_state cancellation = co_await asio::this_coro::cancellation_state;
        // Before anything is taken: a cancelled consumer loses no event.
        if (cancellation.cancelled() != asio::cancellation_type::none) throw_cancelled(s->options_);
        if (given) {
            if (!s->closed()) co_return given.take_last();
            given.give_back();
        }
        if (look) {
            std::optional<event> one;
            const outcome found = s->poll(one, given.place());
            if (given) co_return given.take_last();
            if (found != outcome::nothing) co_return one;
        }
        auto here = detail::wait_in(event_wait(&given));
        const bool woken = co_await std::move(here);
        if (!woken) throw_cancelled(s->options_);
    }
}

asio::awaitable<std::vector<event>> subscription::state::next_batch_of(std::shared_ptr<state> s, std::size_t max) {
    max = std::max<std::size_t>(max, 1);
    gift given(s.get(), std::min(max, s->options_.capacity_));
    for (bool look = !s->drained();; look = true) {
        const asio::cancellation_state cancellation = co_await asio::this_coro::cancellation_state;
        // as in next_of
        if (cancellation.cancelled() != asio::cancellation_type::none) throw_cancelled(s->options_);
        if (given) {
            if (!s->closed()) co_return given.take_all();
            given.give_back();
        }
        if (look) {
            std::vector<event> events;
            const outcome found = s->poll(events, max);
            if (found != outcome::nothing) co_return events;
        }
        auto here = detail::wait_in(event_wait(&given));
        const bool woken = co_await std::move(here);
        if (!woken) throw_cancelled(s->options_);
    }
}

/// Waits with a gift that takes no events: what comes meanwhile stays in the queue.
asio::awaitable<void> subscription::state::ready_of(std::shared_ptr<state> s) {
    gift none(s.get(), 0);
    for (;;) {
        const asio::cancellation_state cancellation = co_await asio::this_coro::cancellation_state;
        if (cancellation.cancelled() != asio::cancellation_type::none) throw_cancelled(s->options_);
        if (s->has_something()) co_return;
        auto here = detail::wait_in(event_wait(&none));
        const bool woken = co_await std::move(here);
        if (!woken) throw_cancelled(s->options_);
    }
}

asio::awaitable<void> subscription::state::synced_of(std::shared_ptr<state> s) {
    for (;;) {
        const outcome now = s->poll_sync();
        if (now == outcome::taken) co_return;
        if (now == outcome::finished) {
            throw error(errc::stopped, s->why_not_synced());
        }
        const asio::cancellation_state cancellation = co_await asio::this_coro::cancellation_state;
        if (cancellation.cancelled() != asio::cancellation_type::none) throw_cancelled(s->options_);
        const parker park(s.get(), wait::synced);
        const bool woken = co_await detail::wait_parked(park);
        if (!woken) throw_cancelled(s->options_);
    }
}

asio::awaitable<void> subscription::state::room_of(std::shared_ptr<state> s) {
    while (s->over()) {
        const asio::cancellation_state cancellation = co_await asio::this_coro::cancellation_state;
        if (cancellation.cancelled() != asio::cancellation_type::none) co_return;
        const parker park(s.get(), wait::room);
        const bool woken = co_await detail::wait_parked(park);
        if (!woken) co_return;
    }
}

asio::awaitable<void> subscription::state::synced() {
    return synced_of(shared_from_this());
}
asio::awaitable<void> subscription::state::room() {
    return room_of(shared_from_this());
}

subscription::subscription(std::shared_ptr<state> s) noexcept : state_(std::move(s)) {}
subscription::subscription(subscription&&) noexcept = default;
subscription& subscription::operator=(subscription&& o) noexcept {
    if (this == &o) return *this;
    if (state_) state_->close(pending_events::discard);
    state_ = std::move(o.state_);
    return *this;
}
subscription::~subscription() {
    if (state_) state_->close(pending_events::discard);
}

asio::awaitable<std::optional<event>> subscription::next() {
    return state::next_of(state_);
}
asio::awaitable<std::vector<event>> subscription::next_batch(std::size_t max) {
    return state::next_batch_of(state_, max);
}
std::optional<event> subscription::try_next() {
    return state_->try_next();
}
asio::awaitable<void> subscription::ready() {
    return state::ready_of(state_);
}
bool subscription::finished() const {
    return state_->finished();
}
bool subscription::has_synced() const noexcept {
    return state_->has_synced();
}
asio::awaitable<void> subscription::synced() {
    return state_->synced();
}
void subscription::close(pending_events p) {
    state_->close(p);
}
subscription_figures subscription::figures() const {
    return state_->figures();
}

} // namespace informer
