// Helpers with which cases make, read and delete objects.
#pragma once

#include "cluster.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace informer::conformance {

using informer::testing::eventually;

inline api_resource definitions() {
    return api_resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", false);
}
inline api_resource deployments() {
    return api_resource("apps", "v1", "deployments", "Deployment", true);
}

inline json::value named(const cluster& c, std::string name, json::object rest) {
    rest["metadata"] = json::object{{"name", std::move(name)}, {"namespace", c.name_space()}};
    return rest;
}

inline json::value with_data(const cluster& c, std::string_view data) {
    json::object rest;
    rest["data"] = json::parse(data);
    return named(c, "a", std::move(rest));
}

inline json::value deployment(const cluster& c, std::string_view containers, int replicas) {
    json::object o;
    o["spec"] = json::parse(
        R"({"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},"spec":{}}})");
    if (replicas >= 0) o["spec"].as_object()["replicas"] = replicas;
    o["spec"].at("template").at("spec").as_object()["containers"] = json::parse(containers);
    return named(c, "d", std::move(o));
}

inline asio::awaitable<object> make_widget(std::shared_ptr<cluster> c, api_resource widgets, std::string name,
                                           std::string value) {
    json::object o;
    o["apiVersion"] = widgets.api_version();
    o["kind"] = widgets.kind;
    o["metadata"] = json::object{{"name", std::move(name)}, {"namespace", c->name_space()}};
    o["spec"] = json::object{{"value", std::move(value)}};
    const kubernetes::write_options plain;
    auto made = co_await c->client().create(widgets, std::move(o), plain);
    co_return made;
}

inline asio::awaitable<object> merge(std::shared_ptr<cluster> c, api_resource r, std::string name, std::string patch) {
    const object_key key(c->name_space(), std::move(name));
    const kubernetes::write_options plain;
    auto change = json::parse(patch);
    auto now = co_await c->client().patch(r, key, kubernetes::patch_type::merge, std::move(change), plain);
    co_return now;
}

inline asio::awaitable<object> read(std::shared_ptr<cluster> c, api_resource r, std::string name) {
    const object_key key(c->name_space(), std::move(name));
    auto now = co_await c->client().get(r, key);
    co_return now;
}

inline asio::awaitable<bool> gone(std::shared_ptr<cluster> c, api_resource r, std::string name) {
    const object_key key(c->name_space(), std::move(name));
    failure f;
    co_await c->client().get(r, key, f);
    co_return f == errc::not_found;
}
inline asio::awaitable<bool> until_gone(std::shared_ptr<cluster> c, std::string where, api_resource r, std::string name,
                                        std::chrono::seconds at_most) {
    const object_key key(std::move(where), std::move(name));
    const auto is_gone = [&]() -> asio::awaitable<bool> {
        failure f;
        co_await c->client().get(r, key, f);
        co_return f == errc::not_found;
    };
    const bool is_so = co_await eventually(is_gone, at_most);
    co_return is_so;
}

inline asio::awaitable<void> drop(std::shared_ptr<cluster> c, api_resource r, std::string name) {
    const object_key key(c->name_space(), std::move(name));
    const kubernetes::delete_options plain;
    co_await c->client().remove(r, key, plain);
}

} // namespace informer::conformance
