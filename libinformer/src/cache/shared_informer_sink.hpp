// What a request of the producer builds into: tells the reflector what comes, and turns it into deltas.
#pragma once

#include "shared_informer_impl.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace informer {

/// One request under way.
struct shared_informer::impl::request {
    explicit request(const asio::any_io_executor& executor) : done(executor), recheck(executor) {}
    detail::async_event done;    ///< the request returned, or its time is up
    detail::async_event recheck; ///< the deadline may have come closer
    bool returned = false;
    bool broken = false; ///< by an exception: what was seen last may not have arrived
    list_result result;
    failure why;
};

/// A change of several parts under way. Not within the class that has it as an optional: clang cannot make it there.
struct shared_informer::impl::change {
    std::size_t parts = 0;              ///< pushed so far
    informer::resource_version version; ///< of the last one
};

/// What the list_watch builds into.
class shared_informer::impl::sink final : public object_sink {
public:
    explicit sink(impl& owner) : owner_(owner) {}

    void begin(const reflector::action& a, const std::shared_ptr<request>& r) {
        request_ = r;
        ended_ = false;
        change_.reset();
        check_ = a.check;
        if (a.fresh) {
            indexer& index = owner_.store->index;
            const bool first = !owner_.store->has_synced() && index.current_size() == 0;
            collected_ = first ? std::make_shared<detail::replacement>(index)
                               : std::make_shared<detail::replacement>(index.seed()); // it is compared with the cache
            objects_ = 0;
            found_ = 0;
            fruitless_ = 0;
        }
        if (a.what != reflector::step::watch && collected_) collected_->begin_page();
    }
    void end() {
        request_.reset();
        if (collected_) collected_->end_page();
    }
    void forget_page() {
        if (collected_) collected_->take_back_page();
    }
    void forget_all() { collected_.reset(); }
    /// Called after each page. True: too many pages in a row had nothing new; such a list has no end.
    bool leads_nowhere() {
        if (!collected_) return false;
        const std::size_t found = collected_->objects().size() + collected_->bad_keys.size() + collected_->unnamed;
        fruitless_ = found > found_ ? 0 : fruitless_ + 1;
        found_ = found;
        return fruitless_ >= most_fruitless_pages;
    }
    void recheck() {
        if (const auto r = request_.lock()) r->recheck.notify();
    }
    std::shared_ptr<detail::replacement> take() {
        if (collected_) collected_->end_page();
        return std::exchange(collected_, nullptr);
    }
    bool collecting() const noexcept { return collected_ != nullptr; }

    document_pool& pool() override { return *owner_.pool; }

    bool has_previous() const override { return owner_.store->index.current_size() != 0; }
    object previous(const object_key& key, std::size_t) override {
        return key.empty() ? object() : owner_.store->index.current(key);
    }

    void opened() override {
        owner_.machine.opened(owner_.now());
        contact(0);
        recheck();
    }

    void received(std::size_t bytes) override {
        owner_.reading.begin();
        owner_.machine.progress(owner_.now());
        contact(bytes);
    }

    void item(object o) override {
        owner_.reading.begin();
        if (check_ || !collected_) return;
        ++objects_;
        if (!acceptable(o, watch_event_type::added, true) || foreign(o)) return;
        collected_->put(std::move(o));
    }

    void event(watch_event_type type, object o) override {
        owner_.reading.begin();
        ++objects_;
        if (ended_ || !acceptable(o, type, false)) return;
        // What only some events need is not looked up for each event of an initial state.
        const bool collecting = owner_.machine.collecting(), not_ours = foreign(o);
        const bool known =
            not_ours || (collecting && type != watch_event_type::added && collected_ &&
                         (collected_->objects().find(o) != nullptr || !collected_->proves_absence(o.key())));
        auto version = collecting ? informer::resource_version() : o.resource_version();
        switch (owner_.machine.event_seen(owner_.now(), type, known_by(version), known)) {
        case reflector::verdict::collect:
            if (!collected_) break;
            if (type == watch_event_type::deleted || not_ours) { // none of our objects has that name any more
                collected_->objects().erase(o);
                collected_->forgive(o.key());
            } else {
                collected_->put(std::move(o));
            }
            break;
        case reflector::verdict::apply: {
            delta d(not_ours                            ? delta::kind::foreign
                    : type == watch_event_type::deleted ? delta::kind::erase
                                                        : delta::kind::upsert);
            d.type = type;
            d.current = std::move(o);
            d.version = std::move(version);
            if (owner_.rt.metrics() != nullptr) d.received = owner_.rt.clock().now();
            push(std::move(d));
            break;
        }
        case reflector::verdict::end: ended_ = true; break;
        case reflector::verdict::complete:
        case reflector::verdict::ignore: break;
        }
    }

    void bookmark(informer::resource_version version, bool initial_events_end) override {
        owner_.reading.begin();
        if (ended_ || change_) return; // no version stands for half of a change
        switch (owner_.machine.bookmark_seen(owner_.now(), version, initial_events_end)) {
        case reflector::verdict::complete:
            owner_.replace_by(take());
            recheck();
            break;
        case reflector::verdict::apply: {
            delta d(delta::kind::bookmark);
            d.version = std::move(version);
            owner_.live->queue.push(std::move(d));
            recheck(); // a server that sends bookmarks is expected to go on
            break;
        }
        case reflector::verdict::end: ended_ = true; break;
        case reflector::verdict::collect:
        case reflector::verdict::ignore: break;
        }
    }

    void quarantine(bad_object b) override {
        owner_.reading.begin();
        if (check_ || ended_) return;
        if (b.from_list) {
            if (collected_) collected_->quarantine(std::move(b));
            return;
        }
        const auto verdict = owner_.machine.event_seen(owner_.now(), b.type, known_by(b.resource_version), true);
        if (b.type == watch_event_type::deleted && b.key.empty()) {
            owner_.machine.deletion_lost();
            ended_ = true;
        }
        switch (verdict) {
        case reflector::verdict::collect:
            if (!collected_) break;
            if (b.type == watch_event_type::deleted && !b.key.empty()) {
                collected_->objects().erase(detail::key_view::of(b.key));
                collected_->forgive(b.key);
            } else {
                // A good version that came before stays, unless it was another object.
                const object* const had = collected_->objects().find(detail::key_view::of(b.key));
                if (had && detail::is_another(b, *had)) collected_->objects().erase(detail::key_view::of(b.key));
                collected_->quarantine(std::move(b));
            }
            break;
        case reflector::verdict::apply: {
            delta d(delta::kind::bad);
            d.type = b.type;
            d.version = b.resource_version;
            d.bad = std::make_shared<const bad_object>(std::move(b));
            push(std::move(d));
            break;
        }
        case reflector::verdict::end: ended_ = true; break;
        case reflector::verdict::complete:
        case reflector::verdict::ignore: break;
        }
    }

    void begin_change() override { change_.emplace(); }
    void end_change() override {
        const auto whole = std::exchange(change_, std::nullopt);
        if (ended_ || !whole || whole->parts == 0) return;
        owner_.machine.change_ended(whole->version);
        owner_.live->queue.push(delta(delta::kind::whole));
    }

    asio::awaitable<bool> ready() override { return wait_until_ready(owner_.shared_from_this()); }
    asio::awaitable<bool> turn() override { return take_turn(owner_.shared_from_this()); }

private:
    static asio::awaitable<bool> wait_until_ready(self s) {
        s->note_phase();
        s->reading.end();
        co_await asio::post(s->rt.executor(), asio::use_awaitable);
        if (s->into->ended_) co_return false;
        delta_queue& queue = s->live->queue;
        s->held_up = queue.size() >= queue.capacity();
        if (s->consumer_held_up) s->refresh_figures(); // else the consumer does that, after its batch
        const bool room = co_await queue.room();
        if (!std::exchange(s->held_up, false)) co_return room;
        s->machine.progress(s->now()); // nothing could come while a slow subscriber held up the stream
        s->into->recheck();
        co_return room;
    }

    static asio::awaitable<bool> take_turn(self s) {
        s->reading.end();
        co_await asio::post(s->rt.executor(), asio::use_awaitable);
        s->reading.begin();
        co_return !s->into->ended_;
    }

    /// The version that the reflector may resume from after an event: none within a change.
    const informer::resource_version& known_by(const informer::resource_version& version) const {
        static const informer::resource_version none;
        return change_ ? none : version;
    }

    void push(delta d) {
        if (change_) {
            d.part = ++change_->parts;
            if (!d.version.empty()) change_->version = d.version;
        }
        owner_.live->queue.push(std::move(d));
    }

    void contact(std::size_t bytes) {
        const auto wall = owner_.rt.clock().wall();
        const std::lock_guard lock(owner_.mutex);
        owner_.figures.last_contact = wall;
        owner_.figures.bytes_received += bytes;
    }

    /// An object that the cache can hold: of our kind, with a name. Others go into quarantine.
    bool acceptable(const object& o, watch_event_type type, bool from_list) {
        const api_resource& expected = owner_.resource;
        const bool is_ours = o.has_type(owner_.api_version, expected.kind);
        if (is_ours && o.has_name()) [[likely]]
            return true;
        bad_object b;
        if (!o.has_name()) {
            b.why = failure(errc::no_metadata, "an object without metadata.name");
        } else {
            b.key = o.key();
            b.why = failure(errc::not_an_object, "a " + o.api_version().str() + " " + o.kind().str() + " where " +
                                                     owner_.api_version + " " + expected.kind + " belongs");
        }
        b.position = objects_ - 1;
        b.type = type;
        b.from_list = from_list;
        b.resource_version = o.resource_version();
        b.uid = o.uid();
        quarantine(std::move(b));
        return false;
    }

    /// An object of another part, from a server that does not select.
    bool foreign(const object& o) {
        if (owner_.options.shard_.contains(o)) [[likely]]
            return false;
        if (!std::exchange(told_foreign_, true)) {
            owner_.rt.log(log_level::info,
                          owner_.name + ": the server sends all objects; those of other parts are dropped here");
        }
        return true;
    }

    static constexpr unsigned most_fruitless_pages = 100;
    impl& owner_;
    std::size_t found_ = 0;
    unsigned fruitless_ = 0;
    std::weak_ptr<request> request_; ///< weak: it depends on the executor
    std::shared_ptr<detail::replacement> collected_;
    std::size_t objects_ = 0;
    bool ended_ = false, check_ = false, told_foreign_ = false;
    std::optional<change> change_;
};

} // namespace informer
