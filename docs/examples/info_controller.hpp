// A controller: every Deployment gets a ConfigMap "<name>-info" that says how many replicas it wants.
#pragma once

#include <informer/controller/controller.hpp>
#include <informer/controller/owner_reference.hpp>
#include <informer/kubernetes/client.hpp>

#include <boost/json.hpp>

inline const informer::api_resource deployments("apps", "v1", "deployments", "Deployment");
inline const informer::api_resource config_maps("", "v1", "configmaps", "ConfigMap");

inline informer::controller make_info_controller(informer::runtime runtime, informer::kubernetes::client client,
                                                 informer::informer_factory& factory,
                                                 informer::controller_options tuning = {}) {
    auto reconcile =
        [client,
         &factory](informer::reconcile_request request) mutable -> boost::asio::awaitable<informer::reconcile_result> {
        // 1. What is? Read the caches; they are in sync before the first call.
        const auto deployment = factory.lister(deployments).find(request.key);
        if (!deployment) co_return informer::reconcile_result::done(); // its ConfigMap goes by garbage collection
        const auto [name_space, name] = request.key;
        const auto info = factory.lister(config_maps).find(name_space + "/" + name + "-info");

        // 2. What should be?
        const std::string replicas = std::to_string(deployment.at_pointer("/spec/replicas").int64_or(1));
        if (info && info.at_pointer("/data/replicas") == replicas) co_return informer::reconcile_result::done();
        boost::json::value wanted = {{"apiVersion", "v1"},
                                     {"kind", "ConfigMap"},
                                     {"metadata", {{"namespace", name_space}, {"name", name + "-info"}}},
                                     {"data", {{"replicas", replicas}}}};
        informer::failure f;
        informer::set_controller_reference(wanted, deployment, f);

        // 3. Make it so. What fails is tried again, later and later; what somebody breaks brings us back.
        const informer::kubernetes::write_options options;
        if (!f && !info) co_await client.create(config_maps, std::move(wanted), options, f);
        if (!f && info) co_await client.update(config_maps, std::move(wanted), options, f);
        co_return f ? informer::reconcile_result::error(f) : informer::reconcile_result::done();
    };
    return informer::controller_builder(runtime, factory, "info")
        .for_(deployments)
        .owns(config_maps)
        .options(std::move(tuning))
        .build(std::move(reconcile));
}
