// The producer: makes the informer, and carries out what the reflector decides.
#include "shared_informer_sink.hpp"

#include <boost/asio/this_coro.hpp>

#include <exception>
#include <utility>

namespace informer {

namespace {

/// No server could make sense of a selector that cannot be parsed, and it would be sent again for ever.
void check_selectors(const informer_options& o, const std::string& name) {
    failure f;
    static_cast<void>(label_selector::parse(o.label_selector_, f));
    if (!f) static_cast<void>(field_selector::parse(o.field_selector_, f));
    throw_on(f ? f.within(name) : f);
}

std::shared_ptr<list_watch> existing(std::shared_ptr<list_watch> source) {
    if (!source) throw error(errc::bad_configuration, "an informer without a source");
    // A watch states the kind of each object and a list does not, so an object from a list would differ from the same
    // object from a watch.
    const api_resource& r = source->resource();
    if (r.kind.empty()) {
        throw error(errc::bad_configuration, "an informer of " + r.group_resource() +
                                                 ", whose kind is not said: name it in its "
                                                 "api_resource, or ask discovery");
    }
    return source;
}

/// The user's name for it, or else what tells it from other informers of its resource in logs and metrics.
std::string name_of(const list_watch& from, const informer_options& o) {
    if (!o.name_.empty()) return o.name_;
    std::string out = from.describe();
    if (!o.label_selector_.empty()) out += ", labels " + o.label_selector_;
    if (!o.field_selector_.empty()) out += ", fields " + o.field_selector_;
    if (!o.shard_.everything()) out += ", " + o.shard_.describe();
    if (o.metadata_only_) out += ", metadata only";
    return out;
}

} // namespace

shared_informer::impl::impl(runtime r, std::shared_ptr<list_watch> source, informer_options o)
    : rt(std::move(r)), from(existing(std::move(source))), resource(from->resource()), options(std::move(o)),
      name(name_of(*from, options)), store(std::make_shared<detail::cache_store>(*from, rt.draw_seed())),
      machine(reflector_options()), into(std::make_unique<sink>(*this)) {
    check_selectors(options, name);
    decode_options decode = options.decode_;
    api_version = resource.api_version();
    decode.type(api_version, resource.kind);
    if (options.metadata_only_ && decode.projection_.empty()) decode.project(projection::keep({"/metadata"}));
    pool = document_pool::make(std::move(decode));
    for (auto& [index, function] : options.indexes_) store->index.add_index(index, function);
    figures.resource = from->describe();
    figures.name = name;
    figures.since = rt.clock().wall();
}

shared_informer::impl::~impl() {
    end_subscribers(); // not told yet if run() was not called, or its context was destroyed
}

bool shared_informer::impl::collecting() const noexcept {
    return into->collecting();
}

void shared_informer::impl::replace_by(std::shared_ptr<detail::replacement> all) {
    if (!all) return;
    all->version = machine.version();
    all->epoch = machine.epoch();
    all->routine = machine.relists();
    delta d(delta::kind::replace);
    d.all = std::move(all);
    if (live->queue.push(std::move(d))) ++live->replacing;
}

/// Until the last whole state is in the cache and delivered. What the queue holds is counted in deltas, and a whole
/// state is one of them: without this, hundreds would pile up behind a listener that holds up the consumer, one for
/// each list. False when cancelled.
asio::awaitable<bool> shared_informer::impl::wait_until_replaced(self s) {
    while (s->live->replacing != 0) {
        if (s->consumer_held_up) s->refresh_figures(); // of what waits
        const bool told = co_await s->live->replaced.wait();
        if (!told) co_return false;
    }
    co_return true;
}

void shared_informer::impl::tell_absence(bool proven) {
    machine.absence(now(), proven);
    if (!proven) into->recheck();
}

/// What a watch has just reported cannot follow what the cache holds: something was not reported.
void shared_informer::impl::doubt_state() {
    machine.contradicted(now());
    into->recheck();
}

asio::awaitable<void> shared_informer::impl::produce(self s) {
    co_await asio::this_coro::throw_if_cancelled(false);
    for (;;) {
        const auto asked = co_await asio::this_coro::cancellation_state;
        if (asked.cancelled() != asio::cancellation_type::none || s->stopping) co_return;
        reflector::action a = s->machine.next(s->now());
        s->note_phase();
        if (a.what == reflector::step::wait) {
            auto& hurry = s->live->hurry.emplace(s->rt.executor());
            const bool hurried = co_await hurry.wait_until(s->rt.clock(), a.until);
            s->live->hurry.reset();
            if (hurried || s->now() >= a.until) s->machine.slept(); // else cancelled, or a clock that wakes too early
            continue;
        }
        if (a.fresh && s->live->replacing != 0) {
            const bool told = co_await wait_until_replaced(s);
            if (!told) co_return;
            continue; // time has passed: the reflector begins anew
        }
        const bool go_on = co_await carry_out(s, std::move(a));
        if (!go_on) co_return;
    }
}

/// Holds the source: if the context is destroyed, the source's coroutine is destroyed before the source.
asio::awaitable<void> shared_informer::impl::perform(self s, std::shared_ptr<list_watch> from, reflector::action a,
                                                     std::shared_ptr<request> r) {
    co_await asio::this_coro::throw_if_cancelled(false);
    failure why;
    try {
        if (a.what == reflector::step::list) {
            r->result = co_await from->list(std::move(a.list), *s->into, why);
        } else {
            co_await from->watch(std::move(a.watch), *s->into, why);
        }
    } catch (const error& e) {
        why = e.failure();
    } catch (const std::bad_alloc&) {
        why = s->out_of_memory();
        r->broken = true;
    } catch (...) {
        // A source that throws breaks its promise; the informer goes on all the same.
        why = failure(errc::bad_response, s->name + ": " + detail::what_is_wrong());
        r->broken = true;
    }
    s->reading.end();
    r->why = std::move(why);
    r->returned = true;
    r->done.notify();
}

/// Ends the request when the reflector's patience does.
asio::awaitable<void> shared_informer::impl::guard(self s, std::shared_ptr<request> r) {
    co_await asio::this_coro::throw_if_cancelled(false);
    while (!r->returned) {
        const auto when = s->held_up ? clock::time_point::max() : s->machine.deadline();
        const bool changed = co_await r->recheck.wait_until(s->rt.clock(), when);
        const auto asked = co_await asio::this_coro::cancellation_state;
        if (asked.cancelled() != asio::cancellation_type::none || r->returned) co_return;
        if (changed || s->held_up) continue;
        const bool enough = s->machine.tick(s->now());
        s->note_phase();
        if (enough) {
            r->done.notify();
            co_return;
        }
    }
}

void shared_informer::impl::count_request(const reflector::action& a) {
    const bool list = a.what == reflector::step::list;
    {
        const std::lock_guard lock(mutex);
        if (list) {
            if (a.fresh || a.check) ++figures.lists;
        } else if (a.watch.send_initial_events_) {
            ++figures.watch_lists;
        } else {
            ++figures.watches;
        }
    }
    count(list ? "informer_list_requests_total" : "informer_watch_requests_total", 1);
}

/// Until the request has returned or its time is up. False when the informer is to stop.
asio::awaitable<bool> shared_informer::impl::until_done(self s, reflector::action a, std::shared_ptr<request> r) {
    // In a group of its own, so that it can be ended without ending the producer.
    task_group group(s->rt.executor());
    std::exception_ptr broke; // no memory to begin, or the clock threw
    group.on_error([r, &broke](std::exception_ptr e) {
        broke = std::move(e);
        r->done.notify();
    });
    group.spawn(perform(s, s->live->from, std::move(a), r));
    group.spawn(guard(s, r));
    const bool told = co_await r->done.wait();
    const bool returned = r->returned;
    group.stop();
    co_await group.join();
    try {
        if (broke) std::rethrow_exception(broke);
    } catch (const std::bad_alloc&) { // treated like one that the source threw
        r->why = s->out_of_memory();
        r->returned = r->broken = true;
    }
    // Nobody cancelled the request: as a cancellation, it would be repeated at once and without a pause.
    if (returned && r->why == condition::cancelled) r->why = failure(errc::connection_lost, r->why.what());
    if (!returned && !r->why) r->why = failure(errc::cancelled, s->name); // ended by the guard
    co_return told && !s->stopping;
}

/// Tells the reflector how a list went, and takes or drops what came. Returns what is to be reported.
failure shared_informer::impl::list_ended(failure why, const list_result& result) {
    if (!why && !result.continue_token.empty() && into->leads_nowhere())
        why = failure(errc::bad_response, "list " + name + ": page after page, and nothing new in them");
    if (!why) {
        const auto verdict = machine.page_done(now(), result, why);
        if (verdict == reflector::page_verdict::complete) replace_by(into->take());
    } else if (machine.list_failed(now(), why)) {
        into->forget_page();
    } else {
        into->forget_all();
    }
    return why;
}

/// `broken`: what was seen last may not have arrived.
failure shared_informer::impl::watch_ended(const failure& why, bool broken) {
    failure told = machine.watch_done(now(), why);
    if (broken) machine.lost_track();
    into->forget_all();
    return told;
}

/// If this reflector does not know, another informer may have learnt it. That the server has no watch-list is reported
/// when that is found, and believed for a time.
void shared_informer::impl::tell_source(watch_list_support known_before) {
    const auto known = machine.support();
    if (known == live->from->watch_list()) return;
    if (known == watch_list_support::yes || (known == watch_list_support::no && known != known_before))
        live->from->learnt(known);
}

/// One request from its beginning to its end; false when the informer is to stop.
asio::awaitable<bool> shared_informer::impl::carry_out(self s, reflector::action a) {
    const auto r = std::make_shared<request>(s->rt.executor());
    const bool list = a.what == reflector::step::list;
    s->into->begin(a, r);
    s->count_request(a);
    const bool go_on = co_await until_done(s, std::move(a), r);
    if (!go_on) {
        s->into->forget_all();
        s->into->end();
        co_return false;
    }
    const auto known_before = s->machine.support();
    const std::string phase(s->machine.request_phase());
    const failure why = list ? s->list_ended(r->why, r->result) : s->watch_ended(r->why, r->broken);
    if (why) s->report(phase, why);
    s->into->end();
    s->tell_source(known_before);
    s->note_phase();
    co_return true;
}

} // namespace informer
