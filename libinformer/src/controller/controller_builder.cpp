#include "controller_impl.hpp"

#include <optional>
#include <set>
#include <string>
#include <utility>

namespace informer {

struct controller_builder::plan {
    struct planned {
        api_resource resource;
        source_options options;
        map_function map; ///< empty: maps to the owner
        bool of_main = false;
    };
    runtime rt;
    informer_factory* factory;
    std::string name;
    controller_options options;
    std::optional<api_resource> main;
    std::vector<planned> sources;
    std::vector<controller::impl::trigger> triggers;

    error bad(const std::string& why) const {
        return error(errc::bad_configuration, "controller " + name + ": " + why);
    }
};

controller_builder::controller_builder(runtime rt, informer_factory& factory, std::string name)
    : plan_(std::make_unique<plan>(plan{std::move(rt), &factory, std::move(name), {}, {}, {}, {}})) {}
controller_builder::~controller_builder() = default;
controller_builder::controller_builder(controller_builder&&) noexcept = default;
controller_builder& controller_builder::operator=(controller_builder&&) noexcept = default;

controller_builder& controller_builder::for_(api_resource resource, source_options options) {
    if (plan_->main) throw plan_->bad("for_ was called twice");
    plan_->main = resource;
    plan_->sources.push_back({std::move(resource), std::move(options), mapping::to_self(), true});
    return *this;
}

controller_builder& controller_builder::owns(api_resource resource, source_options options) {
    plan_->sources.push_back({std::move(resource), std::move(options), nullptr});
    return *this;
}

controller_builder& controller_builder::watches(api_resource resource, map_function map, source_options options) {
    if (!map) throw plan_->bad("watches " + resource.group_resource() + " without a mapping");
    plan_->sources.push_back({std::move(resource), std::move(options), std::move(map)});
    return *this;
}

controller_builder& controller_builder::triggered_by(std::string name, trigger_source source) {
    if (!source) throw plan_->bad("trigger " + name + " without a function");
    plan_->triggers.push_back({std::move(name), std::move(source)});
    return *this;
}

controller_builder& controller_builder::options(controller_options o) {
    plan_->options = std::move(o);
    return *this;
}

namespace {

/// Each namespace once. "" stands for all namespaces, and is then the only element.
std::set<std::string> name_spaces_of(const api_resource& resource, const source_options& options) {
    std::set<std::string> all(options.name_spaces_.begin(), options.name_spaces_.end());
    if (all.empty() || all.contains("") || !resource.namespaced) return {std::string()};
    return all;
}

} // namespace

controller controller_builder::build(reconciler reconcile) {
    const plan& p = *plan_;
    if (!reconcile) throw p.bad("there is no reconciler");
    if (p.sources.empty() && p.triggers.empty()) throw p.bad("there is no source");
    if (p.options.workers_ == 0) throw p.bad("there must be a worker");
    auto made = std::make_shared<controller::impl>(p.rt, p.name, p.options, std::move(reconcile));
    made->triggers = p.triggers;
    if (p.options.shards_) made->listen_to_shards();
    for (const plan::planned& from : p.sources) {
        controller::impl::source s;
        s.map = from.map;
        s.of_main = from.of_main;
        if (!s.map) {
            const std::string owns = "owns " + from.resource.group_resource();
            if (!p.main) throw p.bad(owns + " without for_");
            if (p.main->kind.empty()) throw p.bad(owns + ": the kind of " + p.main->group_resource() + " is not known");
            s.map = mapping::to_owner(*p.main, from.options.owners_);
        }
        s.when = from.options.when_;
        s.priority = from.options.priority_;
        // No merging: an addition and a deletion would merge to nothing, although a reconcile may have seen the object
        // in between.
        s.options.name(p.name).resync(from.options.resync_).policy(overflow_policy::back_pressure);
        for (const auto& [name, of] : from.options.informer_.indexes_) s.indexes.push_back(name);
        for (const std::string& name_space : name_spaces_of(from.resource, from.options)) {
            controller::impl::source& one = made->sources.emplace_back(s);
            one.name = from.resource.group_resource();
            if (!name_space.empty()) one.name += " in " + name_space;
            one.informer = p.factory->get(from.resource, name_space, from.options.informer_);
        }
    }
    return controller(std::move(made));
}

} // namespace informer
