// A random run of a factory, its informers and their listeners, which come and go, against a server that fails in every
// way it can. In the end, when nothing fails any more, all caches and listeners must have what the server has.
#include <informer/cache/informer_factory.hpp>
#include <informer/detail/async.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/object/json.hpp>
#include <informer/testing/api_server.hpp>
#include <informer/testing/manual_clock.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;
namespace json = boost::json;

namespace {

const std::vector<api_resource> kinds = {
    api_resource("", "v1", "configmaps", "ConfigMap"), api_resource("", "v1", "nodes", "Node", false),
    api_resource("apps", "v1", "deployments", "Deployment"), api_resource("samples.io", "v1", "foos", "Foo")};
const std::string definition = R"({"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"foos.samples.io"},"spec":{"group":"samples.io","scope":"Namespaced",
"names":{"kind":"Foo","plural":"foos"},"versions":[{"name":"v1","served":true,"storage":true}]}})";

using state = std::map<std::string, json::value>;

/// Builds its own state from the events that it gets, each of which must fit the state so far.
struct listener {
    void tell(event_kind kind, const object& now, const object* before) {
        if (gone) FAIL_CHECK(to_string(kind) << " was told to a listener that had left");
        if (kind == event_kind::synced) return;
        const std::string key = now.key().str();
        const auto there = known.find(key);
        if ((kind == event_kind::added) != (there == known.end()) || (before && !(*before == there->second))) {
            FAIL_CHECK(to_string(kind) << " does not fit to what was told before: " << now.to_json());
        }
        known.erase(key);
        if (kind != event_kind::deleted) known.emplace(key, now);
    }
    state knowledge() const {
        state all;
        for (const auto& [key, o] : known) all.emplace(key, to_value(o));
        return all;
    }

    std::map<std::string, object> known;
    std::optional<subscription> from; ///< empty: this listener is a handler
    std::optional<shared_informer::handler_handle> handle;
    bool filtered = false; ///< is told only of objects whose note is "1"
    bool gone = false;     ///< has left, and may be told nothing more
    asio::cancellation_signal stop;
    bool reading = false, begun = false, over = false; ///< `begun`: its coroutine may be cancelled
};
using listener_ptr = std::shared_ptr<listener>;

asio::awaitable<void> read(listener_ptr l, std::shared_ptr<informer::clock> clock, std::uint64_t seed) {
    const auto pause = std::chrono::milliseconds(seed % 3 == 0 ? seed % 800 : 0);
    const std::size_t most = seed % 2 == 0 ? 1 + seed % 5 : 0;
    l->begun = true;
    try {
        while (!l->over) {
            std::vector<event> events;
            if (most != 0)
                events = co_await l->from->next_batch(most);
            else if (auto one = co_await l->from->next())
                events.push_back(std::move(*one));
            for (const event& e : events)
                l->tell(e.kind, e.current, e.kind == event_kind::added ? nullptr : &e.previous);
            l->over = events.empty();
            if (pause > 0ms) co_await clock->sleep_for(pause);
        }
    } catch (const error& e) {
        if (e.code() != errc::cancelled) throw;
    }
}

class simulation {
public:
    explicit simulation(std::uint64_t seed) : random_(seed) {
        rt_.with_clock(clock_).with_seed(seed);
        server_.emplace(rt_, api_server_options().watch_list(chance(75)).history(chance(30) ? 20 : 1000));
        server_->start();
        factory_.emplace(rt_, kubernetes::client(rt_, server_->config()).list_watches());
        for (const char* ns : {"a", "b"}) {
            json::object name{{"name", ns}};
            server_->create(json::object{{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", std::move(name)}});
        }
    }

    void live(int steps) {
        for (int i = 0; i < steps; ++i) {
            step();
            for (std::uint64_t turns = chance(30) ? 10'000 : below(60); turns > 0 && turn(); --turns) continue;
        }
    }

    /// Ends all faults, and lets time pass until all caches and listeners are up to date, or two of the longest
    /// back-offs have passed.
    void settle() {
        server_->clear_faults();
        server_->start_listening();
        define(true);
        const auto end = clock_->now() + 150s;
        std::string wrong = "?";
        for (int patience = 100; !wrong.empty() && patience > 0;) {
            for (auto& h : held_)
                for (auto& l : h.listeners) start_reading(l);
            while (turn() || turn()) continue;
            wrong = difference();
            // a busy machine may need real time to carry a byte
            if (clock_->now() >= end && --patience > 0) context_.run_for(10ms);
            clock_->advance(500ms); // and what arrived late may wait for our clock
        }
        CHECK(wrong == "");
    }

    void end() {
        if (chance(50))
            factory_.reset();
        else
            asio::co_spawn(context_, factory_->shutdown(), [](std::exception_ptr e) { CHECK_FALSE(e); });
        if (chance(50)) held_.clear();
        asio::co_spawn(context_, server_->stop(), [](std::exception_ptr e) { CHECK_FALSE(e); });
        context_.restart();
        for (int i = 0; i < 500 && !context_.stopped(); ++i, clock_->advance(1s)) context_.run_for(1ms);
        CHECK(context_.stopped()); // nothing of ours is left
        for (auto& h : held_)
            for (auto& l : h.listeners) CHECK((!l->reading || l->over));
    }

private:
    struct held {
        informer_handle informer;
        api_resource kind;
        std::string name_space, selector;
        std::vector<listener_ptr> listeners;
    };

    std::uint64_t below(std::uint64_t n) { return random_() % n; }
    bool chance(unsigned percent) { return below(100) < percent; }
    bool turn() { return context_.restart(), context_.poll_one() != 0; }

    void step() {
        const auto what = below(100);
        if (what < 45)
            write();
        else if (what < 60)
            trouble();
        else if (what < 68)
            obtain();
        else if (what < 72 && !held_.empty())
            held_.erase(held_.begin() + std::ptrdiff_t(below(held_.size())));
        else if (what < 80 && !held_.empty())
            listen(held_[below(held_.size())]);
        else if (what < 84)
            interrupt_reader();
        else if (what < 88)
            leave();
        else if (what < 89)
            factory_->retry_now();
        else if (what < 90 && !held_.empty())
            index_later(held_[below(held_.size())]);
        else if (what < 93)
            define(chance(60));
        else
            clock_->advance(std::chrono::milliseconds(below(chance(80) ? 1500 : 40'000)));
    }

    void write() {
        const api_resource& kind = kinds[below(kinds.size())];
        const std::string ns = kind.namespaced ? std::string(1, char('a' + below(2))) : "";
        const std::string name = "n" + std::to_string(below(5));
        if (kind.kind == "Foo" && !defined_) return;
        const bool there = !server_->get(kind.group_resource(), ns, name).is_null();
        if (there && chance(40)) return server_->remove(kind.group_resource(), ns, name);
        json::object o{{"apiVersion", kind.api_version()}, {"kind", kind.kind}};
        o["metadata"] = {{"name", name}, {"labels", {{"app", chance(50) ? "x" : "y"}}}};
        if (kind.namespaced) o["metadata"].as_object()["namespace"] = ns;
        o["spec"] = {{"note", std::to_string(below(4))}};
        there ? server_->update(o) : server_->create(o);
    }

    void trouble() {
        static const int codes[] = {401, 403, 404, 410, 422, 429, 500, 503};
        using enum fault::kind;
        static const fault::kind how[] = {refuse, reset_after, cut_after,   gone,     delay,
                                          status, status,      error_event, end_watch};
        switch (below(8)) {
        case 0: return server_->compact();
        case 1: return server_->drop_connections();
        case 2: return server_->expire_watches();
        case 3: return server_->stop_listening();
        case 4: return server_->start_listening();
        default: break;
        }
        fault f(how[below(std::size(how))]);
        f.after_bytes(below(2000))
            .for_(std::chrono::milliseconds(below(4000)))
            .with_code(codes[below(std::size(codes))]);
        if (chance(50)) f.verb(chance(50) ? "list" : "watch");
        server_->inject(f.repeat(1 + below(3)).skipping(below(3)));
    }

    void obtain() {
        held h;
        h.kind = kinds[below(kinds.size())];
        informer_options options;
        if (chance(25)) h.selector = "app=x";
        options.labels(h.selector).page_size(below(4)).watch_list(chance(80)).queue_capacity(1 + below(4));
        if (chance(50)) options.index("note", index_by_pointer("/spec/note"));
        h.name_space = chance(30) && h.kind.namespaced ? "a" : "";
        h.informer = factory_->get(h.kind, h.name_space, options);
        listen(h);
        held_.push_back(std::move(h));
    }

    void listen(held& h) {
        subscription_options options;
        options.capacity(1 + below(4)).policy(chance(30) ? overflow_policy::back_pressure : overflow_policy::coalesce);
        if (chance(30)) options.resync(std::chrono::seconds(1 + below(5)));
        auto l = std::make_shared<listener>();
        if (chance(50)) {
            shared_informer::filter_function of;
            l->filtered = chance(40);
            if (l->filtered) of = [](const object& o) { return o.at_pointer("/spec/note") == "1"; };
            l->handle = h.informer->add_event_handler(
                std::move(of), [l](const object& now, bool) { l->tell(event_kind::added, now, nullptr); },
                [l](const object& before, const object& now) { l->tell(event_kind::updated, now, &before); },
                [l](const object& last, bool) { l->tell(event_kind::deleted, last, nullptr); }, options);
        } else {
            l->from.emplace(h.informer->subscribe(options.sync_marks(chance(50))));
            start_reading(l);
        }
        h.listeners.push_back(std::move(l));
    }
    void start_reading(const listener_ptr& l) {
        if (!l->from || l->over || std::exchange(l->reading, true)) return;
        auto done = asio::bind_cancellation_slot(l->stop.slot(), [l](std::exception_ptr e) {
            l->reading = l->begun = false;
            if (e && !informer::detail::is_cancellation(e)) std::rethrow_exception(e);
        });
        asio::co_spawn(context_, read(l, clock_, random_()), std::move(done));
    }
    /// Cancels the read of a listener, or lets it go on: no event may be lost.
    void interrupt_reader() {
        if (held_.empty()) return;
        const auto& all = held_[below(held_.size())].listeners;
        if (all.empty()) return;
        const listener_ptr& l = all[below(all.size())];
        if (l->reading && l->begun)
            l->stop.emit(asio::cancellation_type::terminal);
        else
            start_reading(l);
    }

    /// A listener is removed while anything may be on its way to it. One that drains gets the rest, in order.
    void leave() {
        if (held_.empty()) return;
        auto& all = held_[below(held_.size())].listeners;
        if (all.empty()) return;
        const auto who = all.begin() + std::ptrdiff_t(below(all.size()));
        const listener_ptr l = *who;
        all.erase(who);
        if (l->handle) {
            l->handle->remove();
            l->gone = true;
            return;
        }
        l->gone = chance(60);
        l->from->close(l->gone ? subscription::pending_events::discard : subscription::pending_events::drain);
        start_reading(l);
    }
    void index_later(held& h) {
        try {
            h.informer->add_index("note", index_by_pointer("/spec/note"));
        } catch (const error& e) {
            CHECK(e.code() == errc::duplicate_index);
        }
    }

    void define(bool there) {
        if (there == std::exchange(defined_, there)) return;
        if (there)
            server_->create(json::parse(definition));
        else
            server_->remove("customresourcedefinitions.apiextensions.k8s.io", "", "foos.samples.io");
    }

    std::string difference() {
        for (held& h : held_) {
            if (!h.informer->has_synced()) return h.kind.plural + ": not synced";
            const cache_snapshot cache = h.informer->snapshot();
            state there, listed, heard, chosen; // heard: by listeners of this handle; chosen: by those with a filter
            std::map<std::string, std::set<std::string>> notes;
            const std::string name_space = h.informer->status().resource.ends_with(" in a") ? "a" : "";
            for (json::value o : server_->list(h.kind.group_resource(), name_space)) {
                o.at("metadata").as_object().erase("managedFields");
                const object as_read = from_value(o);
                if (!label_selector::parse(h.selector).matches(as_read)) continue;
                there.emplace(as_read.key().str(), std::move(o));
            }
            for (const object& o : cache.list()) {
                listed.emplace(o.key().str(), to_value(o));
                if (h.name_space.empty() || o.name_space() == h.name_space) {
                    heard.emplace(o.key().str(), to_value(o));
                    if (o.at_pointer("/spec/note") == "1") chosen.emplace(o.key().str(), to_value(o));
                }
                notes[o.at_pointer("/spec/note").string_or_empty().str()].insert(o.key().str());
            }
            if (there != listed) return h.kind.plural + ": the cache differs from the server";
            for (const auto& l : h.listeners)
                if (l->knowledge() != (l->filtered ? chosen : heard))
                    return h.kind.plural + ": a listener differs from the cache";
            if (!cache.has_index("note")) continue;
            for (const auto& [note, keys] : notes)
                if (cache.index_keys("note", note).size() != keys.size()) return h.kind.plural + ": the index is wrong";
            if (cache.index_values("note").size() != notes.size()) return h.kind.plural + ": the index has too much";
        }
        return {};
    }

    std::mt19937_64 random_;
    asio::io_context context_{1};
    std::shared_ptr<manual_clock> clock_ = std::make_shared<manual_clock>();
    runtime rt_{context_.get_executor()};
    std::optional<api_server> server_;
    std::optional<informer_factory> factory_;
    std::vector<held> held_;
    bool defined_ = false;
};

} // namespace

TEST_CASE("whatever fails, in the end all caches and listeners have what the server has", "[factory][simulation]") {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        CAPTURE(seed);
        simulation s(seed);
        s.live(120);
        s.settle();
        s.live(40);
        s.settle();
        s.end();
    }
}
