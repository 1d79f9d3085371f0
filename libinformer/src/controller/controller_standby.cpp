// Keys that wait while no worker runs. A replica may stand by for months, and the number of names that come and go
// meanwhile has no bound.
#include "controller_impl.hpp"

#include "root/while_it_lasts.hpp"

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>

namespace informer {

namespace {

constexpr std::size_t few_keys = 4096;  // so many may wait, whether their objects exist or not
constexpr std::size_t gone_kept = 1024; // the newest keys of gone objects: the leader may die before it reconciles them

} // namespace

/// Whether more than `few_keys` wait, and more than twice as many as were left when keys were forgotten last.
bool controller::impl::waits_in_vain() const {
    if (workers_run || standby.forgetting || keys->size() <= std::max(few_keys, 2 * standby.waiting)) return false;
    const auto counts = [main = has_main()](const source_ptr& from) { return from->of_main || !main; };
    // a key may be forgotten only if there is a source that asks for it again
    return std::any_of(sources.begin(), sources.end(), counts) &&
           std::all_of(sources.begin(), sources.end(),
                       [&](const source_ptr& from) { return !counts(from) || !from->awaited || from->has_synced(); });
}

bool controller::impl::has_main() const {
    return std::any_of(sources.begin(), sources.end(), [](const source_ptr& from) { return from->of_main; });
}

/// Without a `for_` source, nothing tells which objects the keys belong to, so each may be gone.
bool controller::impl::is_gone(const object_key& key) const {
    return std::none_of(sources.begin(), sources.end(),
                        [&](const source_ptr& from) { return from->of_main && from->informer->snapshot().get(key); });
}

/// The next workers go through the sources again, as after a restart: a key need not belong to an object, and an object
/// may have been created again.
asio::awaitable<void> controller::impl::forget_what_is_gone(std::shared_ptr<impl> s) {
    const detail::while_it_lasts forgetting(s->standby.forgetting);
    detail::turn_watch turn(1);
    // All items are taken before one goes back, so that none comes twice. An item that is destroyed without having been
    // looked at gives its key back.
    std::deque<item> held;
    for (std::vector<item> some; s->keys->try_get_batch(some, batch) != 0; some.clear()) {
        std::move(some.begin(), some.end(), std::back_inserter(held));
        if (turn.over() && !co_await step_aside(s)) co_return;
    }
    // From here on the loops ignore a stop: the items have been looked at, so their destructors would not give the keys
    // back.
    std::vector<bool> gone;
    for (const item& it : held) {
        gone.push_back(s->is_gone(it.key()));
        if (turn.over()) co_await step_aside(s);
    }
    const auto all = static_cast<std::size_t>(std::count(gone.begin(), gone.end(), true));
    std::size_t to_forget = all - std::min(all, gone_kept);
    for (std::size_t i = 0; i < gone.size(); ++i) {
        if (gone[i] && to_forget > 0 && !s->workers_run) {
            --to_forget;
            s->standby.forgot = true;
            held.front().forget();
        } else {
            held.front().requeue();
        }
        held.front().done();
        held.pop_front();
        if (turn.over()) co_await step_aside(s);
    }
    s->standby.waiting = s->keys->size();
}

} // namespace informer
