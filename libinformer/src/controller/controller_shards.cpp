// Keys that come to this replica and go from it.
#include "controller_impl.hpp"

#include <boost/asio/this_coro.hpp>

#include <exception>
#include <utility>

namespace informer {

std::string controller::impl::shard_text(const object_key& key) const {
    return options.shard_text_ ? options.shard_text_(key) : key.str();
}

/// Goes through one source again, as a late subscriber does.
asio::awaitable<void> controller::impl::replay(std::shared_ptr<impl> s, source_ptr of,
                                               std::optional<shard_change> change) {
    source& from = *of;
    if (!from.has_synced()) co_return; // its initial state is still to come anyway
    subscription_options options;
    options.name(s->name + "-again").sync_marks();
    const shard_change* const only = change ? &*change : nullptr;
    subscription events = from.informer->subscribe(options);
    detail::turn_watch turn;
    for (bool going = true; going;) {
        const bool asked = co_await detail::cancelled();
        if (asked || s->stops != 0 || from.removed) break;
        std::vector<event> some;
        try {
            some = co_await events.next_batch(batch);
        } catch (const error&) { // cancelled
        }
        if (some.empty()) break;
        bool complete = false;
        for (const event& e : some) {
            if (e.kind == event_kind::synced) complete = true;
            // deletions are reported to the source's own subscription
            else if (e.kind != event_kind::deleted && !s->handle(from, e, only))
                going = co_await handle_later(s, of, e, only);
            if (going && turn.over()) going = co_await step_aside(s);
            if (!going || from.removed) break;
        }
        if (complete) break;
    }
    events.close();
}

asio::awaitable<void> controller::impl::replay_all(std::shared_ptr<impl> s, std::optional<shard_change> change) {
    const auto all = s->sources;
    for (const source_ptr& from : all) co_await replay(s, from, change);
}

void controller::impl::listen_to_shards() {
    shards.listening = options.shards_->listen([weak = weak_from_this()](const shard_change& change) {
        const auto self = weak.lock();
        if (!self) return;
        // If several changes wait, every key that is ours now counts as gained: it may have been lost and regained.
        self->shards.before = self->shards.before ? shard_view() : change.before;
        self->shards.wake.notify();
    });
}

asio::awaitable<void> controller::impl::follow_shards(std::shared_ptr<impl> s) {
    co_await asio::this_coro::throw_if_cancelled(false);
    for (;;) {
        const bool asked = co_await detail::cancelled();
        if (asked || s->stops != 0) break;
        if (!s->shards.before) {
            co_await s->shards.wake.wait();
            continue;
        }
        const shard_change change(*std::exchange(s->shards.before, std::nullopt), s->options.shards_->view());
        if (!change.after.active()) continue;
        co_await replay_all(s, change);
    }
}

} // namespace informer
