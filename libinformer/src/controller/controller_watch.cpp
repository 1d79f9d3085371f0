// Sources, as they are made, and as they come and go while the controller runs.
#include "controller_impl.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace informer {

/// Weak references: a handle keeps neither the controller nor an informer.
struct controller_source::state {
    std::weak_ptr<controller::impl> of;
    std::vector<std::weak_ptr<controller::impl::source>> all;

    ~state() { remove(); }
    void remove() noexcept {
        const auto c = of.lock();
        if (!c) return;
        for (const auto& one : all)
            if (const auto from = one.lock()) c->remove(from);
    }
    /// Those that have not been removed.
    std::vector<controller::impl::source_ptr> sources() const {
        std::vector<controller::impl::source_ptr> some;
        for (const auto& one : all)
            if (auto from = one.lock(); from && !from->removed) some.push_back(std::move(from));
        return some;
    }
};

namespace {

/// Each namespace once. "" stands for all namespaces, and is then the only element.
std::set<std::string> name_spaces_of(const api_resource& resource, const source_options& options) {
    std::set<std::string> all(options.name_spaces_.begin(), options.name_spaces_.end());
    if (all.empty() || all.contains("") || !resource.namespaced) return {std::string()};
    return all;
}

} // namespace

std::vector<controller::impl::source_ptr> controller::impl::make_sources(const std::string& name,
                                                                         informer_factory& factory,
                                                                         const api_resource& resource, map_function map,
                                                                         bool of_main, const source_options& how) {
    source s;
    s.map = std::move(map);
    s.of_main = of_main;
    s.when = how.when_;
    s.priority = how.priority_;
    // No merging: an addition and a deletion would merge to nothing, although a reconcile may have seen the object in
    // between.
    s.options.name(name).resync(how.resync_).policy(overflow_policy::back_pressure);
    for (const auto& [index, of] : how.informer_.indexes_) s.indexes.push_back(index);
    std::vector<source_ptr> made;
    for (const std::string& name_space : name_spaces_of(resource, how)) {
        source& one = *made.emplace_back(std::make_shared<source>(s));
        one.name = resource.group_resource();
        if (!name_space.empty()) one.name += " in " + name_space;
        one.informer = factory.get(resource, name_space, how.informer_);
    }
    return made;
}

void controller::impl::open(source& from) const {
    from.events = std::make_shared<subscription>(from.informer->subscribe(from.options));
}

void controller::impl::add(const std::vector<source_ptr>& some) {
    sources.insert(sources.end(), some.begin(), some.end());
    if (following != stage::now) return; // they begin with the others
    for (const source_ptr& from : some) {
        from->awaited = false;
        open(*from);
        followers->spawn(follow(shared_from_this(), from));
    }
}

/// `follow` ends by itself, and nobody else holds the source then.
void controller::impl::remove(const source_ptr& from) noexcept {
    from->removed = true;
    std::erase(sources, from);
    if (from->events) from->events->close();
    begun.cancel(); // somebody may wait for it
}

std::shared_ptr<controller_source::state> controller::impl::watch(informer_factory& factory,
                                                                  const api_resource& resource, map_function map,
                                                                  bool of_main, const source_options& how) {
    const std::string what = "controller " + name + ": watch " + resource.group_resource();
    if (!map) throw error(errc::bad_configuration, what + " without a mapping");
    if (stops != 0 || following == stage::no_more)
        throw error(errc::stopped, what + ": it follows its sources no more");
    const auto made = make_sources(name, factory, resource, std::move(map), of_main, how);
    const auto kept = std::make_shared<controller_source::state>();
    kept->of = weak_from_this();
    kept->all.assign(made.begin(), made.end());
    add(made); // if it throws, `kept` takes back what was added
    return kept;
}

asio::awaitable<void> controller::impl::added_synced(std::shared_ptr<impl> s, std::vector<source_ptr> added,
                                                     std::chrono::nanoseconds at_most) {
    if (added.empty()) throw error(errc::stopped, "controller source: it was removed, or its controller is gone");
    const waiting how(s->rt.clock().now(), at_most);
    for (const source_ptr& from : added) {
        co_await synced_in_time(s, from, how);
        if (from->removed) throw error(errc::stopped, "controller " + s->name + ": " + from->name + " was removed");
    }
}

// ---- the handles ----------------------------------------------------------------------------------------------------

controller_source controller::watch(informer_factory& factory, api_resource resource, source_options options) {
    return controller_source(impl_->watch(factory, resource, mapping::to_self(), true, options));
}

controller_source controller::watch(informer_factory& factory, api_resource resource, map_function map,
                                    source_options options) {
    return controller_source(impl_->watch(factory, resource, std::move(map), false, options));
}

bool controller_source::has_synced() const {
    if (!state_) return false;
    const auto all = state_->sources();
    return !all.empty() && std::all_of(all.begin(), all.end(), [](const auto& from) { return from->readable(); });
}

std::string controller_source::not_ready() const {
    const auto c = state_ ? state_->of.lock() : nullptr;
    const auto all = c ? state_->sources() : std::vector<controller::impl::source_ptr>();
    if (all.empty()) return "there is no source";
    for (const auto& from : all)
        if (auto why = c->why_not_ready(*from); !why.empty()) return why;
    return {};
}

asio::awaitable<void> controller_source::synced(std::chrono::nanoseconds at_most) const {
    auto c = state_ ? state_->of.lock() : nullptr;
    auto all = c ? state_->sources() : std::vector<controller::impl::source_ptr>();
    return controller::impl::added_synced(std::move(c), std::move(all), at_most);
}

void controller_source::remove() noexcept {
    if (state_) state_->remove();
}

} // namespace informer
