#include "controller_impl.hpp"

#include <optional>
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

controller controller_builder::build(reconciler reconcile) {
    const plan& p = *plan_;
    if (!reconcile) throw p.bad("there is no reconciler");
    if (p.sources.empty() && p.triggers.empty()) throw p.bad("there is no source");
    if (p.options.workers_ == 0) throw p.bad("there must be a worker");
    auto made = std::make_shared<controller::impl>(p.rt, p.name, p.options, std::move(reconcile));
    made->triggers = p.triggers;
    if (p.options.shards_) made->listen_to_shards();
    for (const plan::planned& from : p.sources) {
        map_function map = from.map;
        if (!map) {
            const std::string owns = "owns " + from.resource.group_resource();
            if (!p.main) throw p.bad(owns + " without for_");
            if (p.main->kind.empty()) throw p.bad(owns + ": the kind of " + p.main->group_resource() + " is not known");
            map = mapping::to_owner(*p.main, from.options.owners_);
        }
        made->add(controller::impl::make_sources(p.name, *p.factory, from.resource, std::move(map), from.of_main,
                                                 from.options));
    }
    return controller(std::move(made));
}

} // namespace informer
