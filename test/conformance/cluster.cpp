#include "cluster.hpp"

#include <informer/object/json.hpp>

#include <chrono>
#include <random>

namespace informer::conformance {

std::string cluster::unique(std::string_view prefix) {
    static std::mt19937_64 random(std::random_device{}());
    static constexpr char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    std::string s(prefix);
    for (int i = 0; i < 8; ++i) s += letters[random() % (sizeof letters - 1)];
    return s;
}

testing::api_server_options cluster::default_options() {
    testing::api_server_options o;
    o.tls().token("conformance-admin", "admin").token("conformance-nobody", "nobody", "none");
    return o;
}

cluster::cluster(asio::io_context& context, testing::api_server_options options)
    : runtime_(context.get_executor()), options_(std::move(options)),
      config_maps_("", "v1", "configmaps", "ConfigMap", true), namespaces_("", "v1", "namespaces", "Namespace", false),
      crds_("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", false),
      group_(context.get_executor()) {}

asio::awaitable<void> cluster::open() {
    kubernetes::client_config config;
    failure f;
    if (const char* file = std::getenv("INFORMER_CONFORMANCE_KUBECONFIG"); file && *file) {
        kubernetes::kubeconfig_options where;
        where.path(file);
        config = kubernetes::load_kubeconfig(where, f);
    } else {
        server_ = std::make_unique<testing::api_server>(runtime_, options_);
        server_->start();
        const kubernetes::kubeconfig_options none;
        config = kubernetes::parse_kubeconfig(server_->kubeconfig(), "embedded", none, f);
    }
    throw_on(f);
    client_.emplace(runtime_, config);

    const auto target = http::endpoint::parse(config.server, f);
    throw_on(f);
    proxy_ = std::make_unique<testing::tcp_proxy>(runtime_.executor(), target.host, target.port);
    auto through = config;
    through.server = (target.tls ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(proxy_->port());
    fragile_.emplace(runtime_, through);

    name_space_ = unique("conformance-");
    json::value ns = {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", name_space_}}}};
    const kubernetes::write_options plain;
    co_await client_->create(namespaces_, std::move(ns), plain);
}

asio::awaitable<void> cluster::close() {
    for (const auto& i : followed_) i->stop();
    group_.stop();
    co_await group_.join();
    followed_.clear();
    for (const auto& r : made_) co_await remove_crd(r);
    failure ignored;
    const object_key key("", name_space_);
    const kubernetes::delete_options plain;
    co_await client_->remove(namespaces_, key, plain, ignored);
    co_await proxy_->stop();
    fragile_.reset();
    client_.reset();
    if (server_) co_await server_->stop();
}

json::value cluster::config_map(std::string name, std::string data, std::string labels) const {
    json::object meta{{"name", std::move(name)}, {"namespace", name_space_}};
    for (std::size_t at = 0; at < labels.size();) {
        const auto end = std::min(labels.find(',', at), labels.size());
        const auto eq = labels.find('=', at);
        auto& into = meta["labels"].is_object() ? meta["labels"].as_object() : meta["labels"].emplace_object();
        into[labels.substr(at, eq - at)] = labels.substr(eq + 1, end - eq - 1);
        at = end + 1;
    }
    return json::object{{"apiVersion", "v1"},
                        {"kind", "ConfigMap"},
                        {"metadata", std::move(meta)},
                        {"data", json::object{{"value", std::move(data)}}}};
}

asio::awaitable<object> cluster::put(std::string name, std::string data, std::string labels) {
    auto o = config_map(std::move(name), std::move(data), std::move(labels));
    const kubernetes::write_options plain;
    auto made = co_await client_->create(config_maps_, std::move(o), plain);
    co_return made;
}

asio::awaitable<object> cluster::change(std::string name, std::string data) {
    json::value patch = {{"data", {{"value", std::move(data)}}}};
    const object_key key(name_space_, std::move(name));
    const kubernetes::write_options plain;
    auto now = co_await client_->patch(config_maps_, key, kubernetes::patch_type::merge, std::move(patch), plain);
    co_return now;
}

asio::awaitable<void> cluster::drop(std::string name) {
    const object_key key(name_space_, std::move(name));
    const kubernetes::delete_options plain;
    co_await client_->remove(config_maps_, key, plain);
}

asio::awaitable<api_resource> cluster::make_crd(std::string group) {
    if (group.empty()) group = unique("g") + ".example.com";
    // The listKind does not end in "List": a definition may name it so.
    json::value crd =
        json::parse(R"({"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{},
        "spec":{"names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"Widgets","shortNames":["wdg"]},
        "versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},
        "schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}})");
    crd.at("metadata").as_object()["name"] = "widgets." + group;
    crd.at("spec").as_object()["group"] = group;
    crd.at("spec").as_object()["scope"] = "Namespaced";
    const kubernetes::write_options plain;
    co_await client_->create(crds_, std::move(crd), plain);
    api_resource resource(group, "v1", "widgets", "Widget");
    resource.singular = "widget";
    made_.push_back(resource);
    // The resource is served a moment after the definition was posted. Before that, the real server answers 404, then
    // perhaps 429.
    failure f;
    const auto is_served = [&]() -> asio::awaitable<bool> {
        const list_options all;
        const std::string everywhere;
        f = failure();
        co_await client_->list(resource, everywhere, all, f);
        co_return !f;
    };
    const bool served = co_await informer::testing::eventually(is_served, std::chrono::seconds(20));
    if (!served) throw_on(f);
    co_return resource;
}

asio::awaitable<void> cluster::remove_crd(api_resource resource) {
    failure ignored;
    const object_key key("", resource.group_resource());
    const kubernetes::delete_options plain;
    co_await client_->remove(crds_, key, plain, ignored);
}

std::shared_ptr<shared_informer> cluster::follow(std::shared_ptr<list_watch> from, informer_options options) {
    auto i = std::make_shared<shared_informer>(runtime_, std::move(from), std::move(options));
    followed_.push_back(i);
    group_.spawn(i->run());
    return i;
}

std::size_t replay::count(event_kind k) const {
    std::size_t n = 0;
    for (const auto& e : log) n += e.kind == k;
    return n;
}

std::vector<event> replay::of(std::string_view key) const {
    std::vector<event> v;
    for (const auto& e : log)
        if (e.kind != event_kind::synced && e.key().str() == key) v.push_back(e);
    return v;
}

asio::awaitable<void> collect(std::shared_ptr<subscription> from, std::shared_ptr<replay> into) {
    for (;;) {
        auto next = co_await from->next();
        if (!next) co_return;
        if (next->kind == event_kind::synced)
            ++into->marks;
        else if (next->kind == event_kind::deleted)
            into->state.erase(next->key().str());
        else
            into->state[next->key().str()] = next->current;
        into->log.push_back(std::move(*next));
    }
}

asio::awaitable<list_result> faulty_list_watch::list(list_options options, object_sink& sink, failure& f) {
    lists.push_back(options);
    if (!options.continue_.empty() && pages_gone > 0) {
        --pages_gone;
        f = failure(errc::gone, "list (a fault of the test)");
        co_return list_result();
    }
    auto r = co_await real_->list(std::move(options), sink, f);
    co_return r;
}

asio::awaitable<void> faulty_list_watch::watch(watch_options options, object_sink& sink, failure& f) {
    watches.push_back(options);
    if (options.send_initial_events_ && refuse_watch_list) {
        f = failure(errc::invalid, "watch-list (a fault of the test)");
        co_return;
    }
    if (!options.send_initial_events_ && watches_gone > 0) {
        --watches_gone;
        f = failure(errc::gone, "watch (a fault of the test)");
        co_return;
    }
    co_await real_->watch(std::move(options), sink, f);
}

namespace {

asio::awaitable<void> one_case(std::shared_ptr<cluster> c,
                               std::function<asio::awaitable<void>(std::shared_ptr<cluster>)> body) {
    co_await c->open();
    std::exception_ptr failed;
    try {
        co_await body(c);
    } catch (...) {
        failed = std::current_exception();
    }
    co_await c->close();
    if (failed) std::rethrow_exception(failed);
}

} // namespace

void run_case(std::function<asio::awaitable<void>(std::shared_ptr<cluster>)> body, testing::api_server_options options,
              std::chrono::seconds deadline) {
    asio::io_context context(1);
    {
        auto c = std::make_shared<cluster>(context, std::move(options));
        testing::run_test(context, one_case(c, std::move(body)), deadline);
    }
}

} // namespace informer::conformance
