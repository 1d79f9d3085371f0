#include "api_server_impl.hpp"

#include "json_tools.hpp"
#include "object_rules.hpp"
#include "refusal.hpp"

#include "http/host_text.hpp"
#include "object/group_version.hpp"

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <algorithm>

namespace informer::testing {

namespace json = boost::json;
using namespace detail;

namespace {

rest_options rest_options_of(const api_server_options& o) {
    rest_options r;
    r.watch_list_ = o.watch_list_;
    r.sharding_ = o.sharding_;
    r.history_ = o.history_;
    r.first_version_ = o.first_version_;
    r.continue_for_ = o.continue_for_;
    r.max_object_ = o.max_object_;
    return r;
}

asio::awaitable<void> nothing() {
    co_return;
}

write_by directly() {
    write_by by;
    by.direct = true;
    return by;
}

// Where an object belongs by its own apiVersion, kind and metadata; without a namespace it goes to "default".
target target_of(const type_registry& types, const json::value& o) {
    if (!o.is_object()) throw bad_request("the object is no JSON object");
    const auto& body = o.get_object();
    check_metadata_types(body);
    const auto api_version = string_at(body, {"apiVersion"});
    const auto kind = string_at(body, {"kind"});
    const informer::detail::group_version said(api_version);
    target t;
    t.type = types.find_kind(said.group, said.version, kind);
    if (!t.type) throw bad_request("no kind \"" + kind + "\" in version \"" + api_version + "\"");
    t.name = string_at(body, {"metadata", "name"});
    if (!t.type->api.namespaced) return t;
    t.name_space = string_at(body, {"metadata", "namespace"});
    if (t.name_space.empty()) t.name_space = "default";
    return t;
}

// Runs a direct write; refusals become the error that a client would see.
template <typename Work>
auto as_client(std::string_view doing, Work work) {
    try {
        return work();
    } catch (const refusal& no) {
        throw error(failure(no.status(), std::string(doing)));
    }
}

} // namespace

api_server::impl::impl(runtime r, api_server_options o)
    : runtime_(std::move(r)), options_(std::move(o)),
      api_(std::make_shared<rest_api>(runtime_.shared_clock(), runtime_.draw_seed(), rest_options_of(options_))) {
    api_->store().on_change([this](table& t) {
        for (const auto& w : watches_) {
            if (w->rows() == &t) w->wake();
        }
    });
}

std::string api_server::impl::server_address() const {
    const auto port = server_ ? server_->port() : options_.port_;
    return http::detail::in_url(options_.address_) + ":" + std::to_string(port);
}

std::vector<kubeconfig_user> api_server::impl::users() const {
    std::vector<kubeconfig_user> users;
    for (const auto& t : options_.tokens_) {
        const auto same = [&t](const kubeconfig_user& u) { return u.context == t.user; };
        if (std::any_of(users.begin(), users.end(), same)) continue; // one context per user
        kubeconfig_user u;
        u.context = t.user;
        u.token = t.token;
        users.push_back(std::move(u));
    }
    if (users.empty()) {
        kubeconfig_user u;
        u.context = "admin";
        if (admin_) {
            u.certificate_pem = admin_->certificate_pem;
            u.key_pem = admin_->key_pem;
        }
        users.push_back(std::move(u));
    }
    return users;
}

type_ptr api_server::impl::type_named(std::string_view resource) const {
    auto type = api_->types().find(resource);
    if (!type) throw error(errc::unknown_resource, "no resource \"" + std::string(resource) + "\" on this server");
    return type;
}

api_server::api_server(runtime r, api_server_options options)
    : impl_(std::make_shared<impl>(std::move(r), std::move(options))) {}

api_server::~api_server() {
    if (impl_->server_) impl_->server_->stop_listening(true);
}

void api_server::start() {
    auto& s = *impl_;
    if (s.server_) throw error(errc::already_running, "the embedded API server has been started before");
    http::server_options o;
    o.address(s.options_.address_).port(s.options_.port_);
    if (s.options_.tls_) {
        s.authority_.emplace("libinformer embedded API server CA");
        std::vector<std::string> names = {"127.0.0.1", "::1", "localhost", "kubernetes", "kubernetes.default.svc"};
        if (s.options_.address_ != "127.0.0.1" && s.options_.address_ != "::1") names.push_back(s.options_.address_);
        auto pair = s.authority_->server(std::move(names));
        http::server_tls tls;
        tls.certificate_pem_ = std::move(pair.certificate_pem);
        tls.key_pem_ = std::move(pair.key_pem);
        tls.client_ca_pem_ = s.authority_->certificate_pem();
        o.tls(std::move(tls));
        s.admin_ = s.authority_->client("kubernetes-admin", {"system:masters"});
    }
    const std::weak_ptr<impl> weak = impl_;
    http::server_handler handler = [weak](impl::request_ptr request, impl::response_ptr response) {
        auto self = weak.lock();
        return self ? impl::handle(std::move(self), std::move(request), std::move(response)) : nothing();
    };
    s.server_ = std::make_shared<http::server>(s.runtime_, std::move(o), std::move(handler));
    failure f;
    s.server_->listen(f);
    if (f) s.server_.reset();
    throw_on(f);
}

asio::awaitable<void> api_server::stop() {
    const auto server = impl_->server_;
    if (server) co_await server->stop();
}

std::string api_server::url() const {
    return (impl_->options_.tls_ ? "https://" : "http://") + impl_->server_address();
}

std::uint16_t api_server::port() const noexcept {
    return impl_->server_ ? impl_->server_->port() : 0;
}

const std::string& api_server::ca_pem() const noexcept {
    return impl_->authority_ ? impl_->authority_->certificate_pem() : impl_->no_ca_;
}

std::string api_server::kubeconfig() const {
    return kubeconfig_text(url(), ca_pem(), impl_->users());
}

kubernetes::client_config api_server::config() const {
    kubernetes::client_config c;
    c.server = url();
    c.origin = "the embedded API server";
    c.tls.ca(ca_pem());
    const kubeconfig_user who = impl_->users().front();
    c.credentials.token = who.token;
    if (!who.certificate_pem.empty()) c.tls.certificate(who.certificate_pem, who.key_pem);
    return c;
}

// ---- the machine room

void api_server::stop_listening(bool drop) {
    if (impl_->server_) impl_->server_->stop_listening(drop);
}

void api_server::start_listening() {
    if (!impl_->server_ || impl_->server_->listening()) return;
    failure f;
    impl_->server_->listen(f);
    throw_on(f);
}

void api_server::drop_connections() {
    if (!impl_->server_) return;
    const bool listening = impl_->server_->listening();
    impl_->server_->stop_listening(true);
    if (listening) start_listening();
}

void api_server::inject(fault f) {
    impl_->faults_.add(std::move(f));
}

void api_server::clear_faults() {
    impl_->faults_.clear();
}

std::size_t api_server::pending_faults() const noexcept {
    return impl_->faults_.size();
}

void api_server::compact() {
    impl_->api_->store().compact();
}

void api_server::send_bookmarks() {
    for (const auto& w : impl_->watches_) w->bookmark();
}

void api_server::end_watches() {
    for (const auto& w : impl_->watches_) w->finish();
}

void api_server::expire_watches() {
    for (const auto& w : impl_->watches_) w->expire();
}

std::uint64_t api_server::checkpoint() {
    return impl_->api_->checkpoint();
}

void api_server::restore(std::uint64_t checkpoint) {
    if (!impl_->api_->restore(checkpoint)) {
        throw error(errc::bad_configuration, "there is no checkpoint " + std::to_string(checkpoint));
    }
    // A restored server is a new process: no watch survives it.
    const auto streams = impl_->streams_;
    for (const auto& s : streams) s->reset();
}

// ---- direct writes

json::value api_server::create(json::value o) {
    return as_client("create an object directly", [&]() -> json::value {
        auto t = target_of(impl_->api_->types(), o);
        const auto now = impl_->api_->create(t, std::move(o.get_object()), directly());
        return tree(*t.type, *now);
    });
}

json::value api_server::update(json::value o) {
    return as_client("update an object directly", [&]() -> json::value {
        auto t = target_of(impl_->api_->types(), o);
        const auto now = impl_->api_->update(t, std::move(o.get_object()), directly());
        return tree(*t.type, *now);
    });
}

json::value api_server::merge_patch(std::string_view resource, std::string_view name_space, std::string_view name,
                                    const json::value& patch) {
    target t;
    t.type = impl_->type_named(resource);
    t.name_space = name_space;
    t.name = name;
    return as_client("patch an object directly", [&]() -> json::value {
        const auto now = impl_->api_->merge_patch(t, patch, directly());
        return tree(*t.type, *now);
    });
}

void api_server::remove(std::string_view resource, std::string_view name_space, std::string_view name) {
    target t;
    t.type = impl_->type_named(resource);
    t.name_space = name_space;
    t.name = name;
    as_client("delete an object directly", [&] {
        bool gone = false;
        impl_->api_->remove(t, json::object(), directly(), gone);
    });
}

json::value api_server::get(std::string_view resource, std::string_view name_space, std::string_view name) const {
    target t;
    t.type = impl_->type_named(resource);
    t.name_space = name_space;
    t.name = name;
    const auto key = t.name_space.empty() ? t.name : t.name_space + "/" + t.name;
    const auto o = t.type->rows->find(key);
    if (!o) return nullptr;
    return tree(*t.type, *o);
}

std::vector<json::value> api_server::list(std::string_view resource, std::string_view name_space) const {
    const auto type = impl_->type_named(resource);
    std::vector<json::value> out;
    for (const auto& [key, o] : type->rows->objects) {
        if (name_space.empty() || o->name_space == name_space) out.emplace_back(tree(*type, *o));
    }
    return out;
}

std::string api_server::current_resource_version() const {
    return std::to_string(impl_->api_->store().current());
}

// ---- what was asked

std::vector<request_info> api_server::requests() const {
    return {impl_->requests_.begin(), impl_->requests_.end()};
}

void api_server::forget_requests() {
    impl_->requests_.clear();
}

std::size_t api_server::open_watches() const noexcept {
    return impl_->watches_.size();
}

} // namespace informer::testing
