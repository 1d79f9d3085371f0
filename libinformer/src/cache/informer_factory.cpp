#include "root/at_home.hpp"
#include "root/executor_home.hpp"
#include "shared_informer_impl.hpp"

#include <informer/cache/informer_factory.hpp>
#include <informer/detail/async.hpp>
#include <informer/task_group.hpp>

#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>

namespace informer {

namespace {

/// What makes two informers the same.
struct identity {
    api_resource resource;
    std::string labels, fields;
    shard_selector shard;
    projection kept;
    bool managed_fields = false, metadata_only = false;

    bool unfiltered() const noexcept {
        return labels.empty() && fields.empty() && shard.everything() && !metadata_only;
    }
    friend bool operator==(const identity& a, const identity& b) {
        return a.resource == b.resource && a.labels == b.labels && a.fields == b.fields && a.shard == b.shard &&
               a.kept == b.kept && a.managed_fields == b.managed_fields && a.metadata_only == b.metadata_only;
    }
};

/// Lives in the frame of the coroutine that runs an informer, and is gone when that is gone.
struct run_token {
    explicit run_token(shared_informer i) : informer(std::move(i)) {}
    shared_informer informer;
    std::atomic<bool> to_stop{false}; ///< its last handle is gone, and there was no memory to say so
};
/// The exception that ended an informer, if one did.
struct run_error {
    std::string text;
};

asio::awaitable<void> run_one(runtime rt, shared_informer informer, std::shared_ptr<run_token> token,
                              std::shared_ptr<run_error> e) {
    try {
        co_await informer.run();
    } catch (...) {
        e->text = "the informer ended: " + detail::what_is_wrong();
    }
    token.reset();
    if (!e->text.empty()) rt.log(log_level::error, informer.status().name + ": " + e->text);
}

/// Says why there is nothing to read, and what could be read.
std::string not_cached(const api_resource& resource, const std::string& name_space,
                       const std::set<std::string>& elsewhere, bool filtered) {
    std::string out = resource.group_resource();
    if (!name_space.empty()) out += " in " + name_space;
    if (!elsewhere.empty()) {
        out += ": only cached in";
        std::size_t named = 0;
        for (const std::string& one : elsewhere) {
            if (named == 5) {
                out += " and " + std::to_string(elsewhere.size() - named) + " more namespaces";
                break;
            }
            out += (named++ == 0 ? " " : ", ") + one;
        }
        return out + ": name it, or get() an informer of " + (name_space.empty() ? "all namespaces" : "this one") +
               " first";
    }
    if (filtered) {
        return out + ": only a selection is cached (labels, fields, a part or metadata): read that by the lister() of "
                     "the handle that get() "
                     "with the same options gives";
    }
    return out + ": get() an informer first";
}

/// What all handles of one informer share.
class lease {
public:
    lease(shared_informer i, identity what, std::string ns, bool shareable, runtime r)
        : informer(std::move(i)), of(std::move(what)), name_space(std::move(ns)), can_be_shared(shareable),
          rt_(std::move(r)), stop_([i = informer]() mutable { i.stop(); }) {}
    lease(const lease&) = delete;
    lease& operator=(const lease&) = delete;
    ~lease() {
        const auto token = running.lock();
        if (!token) return; // without a coroutine there is nothing to stop
        try {
            detail::home_of(rt_).dispatch(std::move(stop_)); // the context may be destroyed at this moment
        } catch (...) {
            token->to_stop = true; // the factory does it when it is used next
        }
    }

    shared_informer informer;
    identity of;
    std::string name_space;
    bool can_be_shared;
    std::set<std::string> indexes; ///< requested with this informer
    std::weak_ptr<run_token> running;
    const std::shared_ptr<run_error> error = std::make_shared<run_error>();

private:
    runtime rt_;
    std::function<void()> stop_; ///< made in advance: the last handle may be released when there is no memory
};

} // namespace

class informer_handle::entry {
public:
    entry(std::shared_ptr<lease> l, const std::string& name_space) : informer(l->informer), held(std::move(l)) {
        informer.name_space_ = name_space;
    }
    /// It was refused with 403 and may never sync, while a narrower informer would.
    static bool refused(const shared_informer& i) { return !i.has_synced() && i.impl_->forbidden; }
    static bool stopping(const shared_informer& i) noexcept { return i.impl_->stopping; }

    shared_informer informer; ///< its lister is narrowed to the namespace that was requested
    std::shared_ptr<lease> held;
};

shared_informer& informer_handle::operator*() const& noexcept {
    return entry_->informer;
}

shared_informer* informer_handle::operator->() const& noexcept {
    return &entry_->informer;
}

struct informer_factory::impl {
    impl(runtime r, list_watch_factory m)
        : rt(std::move(r)), make(std::move(m)), tasks(std::make_shared<task_group>(rt.executor())) {}

    std::vector<std::shared_ptr<lease>> live() {
        stop_released();
        std::erase_if(leases, [](const leased& one) { return one.by.expired() && one.running.expired(); });
        std::vector<std::shared_ptr<lease>> out;
        for (const leased& one : leases) {
            if (auto l = one.by.lock(); l && !l->running.expired()) out.push_back(std::move(l));
        }
        return out;
    }
    /// Without a list of them: there may be no memory for one, and what stop() notifies may call the factory.
    template <class Predicate>
    std::shared_ptr<run_token> first_running(Predicate which) const {
        for (const leased& one : leases) {
            if (auto token = one.running.lock(); token && which(*token)) return token;
        }
        return nullptr;
    }
    /// Stops those that were released when there was no memory to stop them.
    void stop_released() {
        const auto released = [](const run_token& t) { return t.to_stop.load(); };
        while (const auto token = first_running(released)) {
            token->informer.stop();
            token->to_stop = false;
        }
    }
    /// The live ones that are not stopping: an informer may have been stopped but not have ended yet.
    std::vector<std::shared_ptr<lease>> lasting() {
        auto out = live();
        std::erase_if(out, [](const auto& l) { return informer_handle::entry::stopping(l->informer); });
        return out;
    }
    /// The informers that run. The result does not keep them running: it holds no leases.
    std::vector<shared_informer> informers() {
        std::vector<shared_informer> out;
        for (const auto& l : live()) out.push_back(l->informer);
        return out;
    }
    /// Stops each informer directly: if its coroutine has not begun, it never runs, and nothing else would end the
    /// waits for that informer.
    void stop() {
        stopping = true; // first: what stop() notifies may call get()
        const auto runs_on = [](const run_token& t) { return !informer_handle::entry::stopping(t.informer); };
        while (const auto token = first_running(runs_on)) token->informer.stop();
        tasks->stop();
    }
    static asio::awaitable<void> synced(std::shared_ptr<impl> s, clock::duration at_most);
    static asio::awaitable<void> shutdown(std::shared_ptr<impl> s);

    runtime rt;
    list_watch_factory make;
    std::shared_ptr<task_group> tasks; ///< null after shutdown(): nothing depends on the executor any more
    struct leased {
        std::weak_ptr<lease> by;
        std::weak_ptr<run_token> running;
    };
    std::vector<leased> leases;
    bool stopping = false;
};

informer_factory::informer_factory(runtime r, list_watch_factory make)
    : impl_(std::make_shared<impl>(std::move(r), std::move(make))) {
    if (!impl_->make) throw error(errc::bad_configuration, "an informer factory without a function that makes sources");
}

informer_factory::~informer_factory() {
    if (impl_->tasks) impl_->stop();
}

informer_handle informer_factory::get(const api_resource& resource, std::string name_space, informer_options options) {
    if (impl_->stopping) throw error(errc::stopped, "get an informer of " + resource.group_resource());
    if (!resource.namespaced) name_space.clear();
    identity wanted;
    wanted.resource = resource;
    wanted.labels = options.label_selector_;
    wanted.fields = options.field_selector_;
    wanted.shard = options.shard_;
    wanted.kept = options.decode_.projection_;
    wanted.managed_fields = options.decode_.keep_managed_fields_;
    wanted.metadata_only = options.metadata_only_;
    const bool shareable = !options.decode_.transform_;

    std::shared_ptr<lease> found;
    for (auto& l : impl_->lasting()) { // called in any case: it drops expired leases
        if (!shareable || !l->can_be_shared || !(l->of == wanted)) continue;
        if (l->name_space == name_space) {
            found = std::move(l);
            break;
        }
        // A wider one will do; an exact one is better.
        if (l->name_space.empty() && !informer_handle::entry::refused(l->informer)) found = std::move(l);
    }
    if (found) {
        for (auto& [index, function] : options.indexes_) {
            try {
                found->informer.add_index(index, function);
            } catch (const error& e) {
                if (e.code() != errc::duplicate_index) throw;
            }
            found->indexes.insert(index); // not before it was added: synced() waits for it
        }
        return informer_handle(std::make_shared<informer_handle::entry>(std::move(found), name_space));
    }

    std::set<std::string> indexes;
    for (const auto& [index, function] : options.indexes_) indexes.insert(index);
    auto source = impl_->make(resource, name_space);
    if (!source) throw error(errc::bad_configuration, "no source for " + resource.group_resource());
    shared_informer informer(impl_->rt, std::move(source), std::move(options));
    auto fresh = std::make_shared<lease>(informer, std::move(wanted), name_space, shareable, impl_->rt);
    fresh->indexes = std::move(indexes);
    auto token = std::make_shared<run_token>(informer);
    fresh->running = token;
    impl_->leases.push_back({fresh, token});
    impl_->tasks->spawn(run_one(impl_->rt, informer, std::move(token), fresh->error));
    return informer_handle(std::make_shared<informer_handle::entry>(std::move(fresh), name_space));
}

informer::lister informer_factory::lister(const api_resource& resource, std::string name_space) const {
    if (!resource.namespaced) name_space.clear();
    bool filtered = false;
    std::set<std::string> elsewhere; // namespaces
    std::shared_ptr<lease> found;
    int best = -1; // whole objects count most, then a synced cache, then one of exactly this namespace
    for (auto& l : impl_->lasting()) {
        if (!(l->of.resource == resource)) continue;
        if (!l->of.unfiltered()) {
            filtered = true;
            continue;
        }
        if (!l->name_space.empty() && l->name_space != name_space) {
            elsewhere.insert(l->name_space);
            continue;
        }
        const bool whole = l->can_be_shared && l->of.kept.empty() && !informer_handle::entry::refused(l->informer);
        const int rank = 4 * whole + 2 * l->informer.has_synced() + (l->name_space == name_space);
        if (rank <= best) continue;
        best = rank;
        found = std::move(l);
    }
    if (found) return found->informer.lister().in(std::move(name_space));
    throw error(errc::not_cached, not_cached(resource, name_space, elsewhere, filtered));
}

asio::awaitable<void> informer_factory::impl::synced(std::shared_ptr<impl> s, clock::duration at_most) {
    if (s->stopping) throw error(errc::stopped, "wait for the informers of a factory that was shut down");
    const auto start = s->rt.clock().now();
    const bool bounded = at_most < clock::time_point::max() - start;
    const auto until = bounded ? start + at_most : clock::time_point::max();
    struct one {
        shared_informer informer;
        std::shared_ptr<const run_error> error;
        std::weak_ptr<lease> of;
        std::set<std::string> indexes;
    };
    std::vector<one> all; // without keeping them running
    for (const leased& each : s->leases)
        if (const auto l = each.by.lock()) all.push_back(one{l->informer, l->error, l, l->indexes});
    std::vector<std::pair<failure, std::string>> failed; // of each informer, and what ended it
    errc why = errc::deadline_exceeded;
    for (one& x : all) {
        try {
            co_await x.informer.synced(until - s->rt.clock().now());
            for (const std::string& index : x.indexes)
                co_await x.informer.index_ready(index, until - s->rt.clock().now());
        } catch (const error& e) {
            if (e.code() == errc::cancelled) throw;
            const bool stopped = e.code() == errc::stopped;
            const std::string& ended_by = x.error->text;
            // its last handle was released: nobody waits for this informer
            if (stopped && ended_by.empty() && x.of.expired() && !s->stopping) continue;
            if (stopped) why = errc::stopped;
            failed.emplace_back(e.failure(), ended_by);
        }
    }
    if (failed.empty()) co_return;
    std::string told;
    for (const auto& [f, ended_by] : failed) {
        if (!told.empty()) told += "; ";
        told += f == why ? f.message() : f.what(); // the words of `why` come at the end
        if (!ended_by.empty()) told += ": " + ended_by;
    }
    throw error(why, "not synced: " + told);
}

asio::awaitable<void> informer_factory::synced(clock::duration at_most) {
    return detail::at_home(impl_->rt.executor(), impl::synced(impl_, at_most));
}

std::vector<informer_status> informer_factory::status() const {
    std::vector<informer_status> out;
    for (const auto& one : impl_->informers()) out.push_back(one.status());
    return out;
}

void informer_factory::retry_now() {
    for (shared_informer& one : impl_->informers()) one.retry_now();
}

asio::awaitable<void> informer_factory::impl::shutdown(std::shared_ptr<impl> s) {
    const auto tasks = s->tasks; // a second call waits, too
    if (!tasks) co_return;
    co_await tasks->join();
    s->tasks.reset();
}

asio::awaitable<void> informer_factory::shutdown() {
    if (impl_->tasks) impl_->stop(); // not in the coroutine: a cancelled caller never starts that
    return impl::shutdown(impl_);
}

} // namespace informer
