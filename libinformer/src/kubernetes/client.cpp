#include <informer/kubernetes/client.hpp>

#include "kubernetes/client_impl.hpp"
#include "kubernetes/json_as_yaml.hpp"
#include "kubernetes/json_tools.hpp"
#include "kubernetes/kubernetes_list_watch.hpp"
#include "kubernetes/list_page.hpp"
#include "kubernetes/or_throw.hpp"
#include "kubernetes/query.hpp"
#include "kubernetes/status.hpp"
#include "root/at_home.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

namespace informer::kubernetes {

namespace json = boost::json;

namespace {

using detail::call;
using detail::or_throw;
using detail::or_throw_only;

std::string_view content_type(patch_type t) noexcept {
    switch (t) {
    case patch_type::merge: return "application/merge-patch+json";
    case patch_type::json: return "application/json-patch+json";
    case patch_type::strategic_merge: return "application/strategic-merge-patch+json";
    case patch_type::apply: return "application/apply-patch+yaml"; // JSON is nearly YAML: see json_as_yaml
    }
    return "application/json";
}

/// For a patch whose type the caller did not name: servers take no patch as plain JSON. The body shows the type, since
/// a JSON patch is a list of steps.
patch_type patch_type_of(std::string_view body) noexcept {
    const auto begin = body.find_first_not_of(" \t\r\n");
    return begin != std::string_view::npos && body[begin] == '[' ? patch_type::json : patch_type::merge;
}

std::string query(const write_options& o, bool apply) {
    detail::query_builder q;
    if (o.dry_run_) q.add("dryRun", "All");
    // The server requires a field manager for an apply.
    q.add("fieldManager", o.field_manager_.empty() && apply ? "libinformer" : std::string_view(o.field_manager_));
    q.add("fieldValidation", o.field_validation_);
    if (apply && o.force_) q.add("force", "true");
    return q.take();
}

std::string body_of(const delete_options& o) {
    json::object body{{"kind", "DeleteOptions"}, {"apiVersion", "v1"}};
    if (o.dry_run_) body["dryRun"] = json::array{"All"};
    if (o.grace_seconds_ >= 0) body["gracePeriodSeconds"] = o.grace_seconds_;
    if (!o.propagation_.empty()) body["propagationPolicy"] = o.propagation_;
    json::object preconditions;
    if (!o.uid_.empty()) preconditions["uid"] = o.uid_;
    if (!o.resource_version_.empty()) preconditions["resourceVersion"] = o.resource_version_;
    if (!preconditions.empty()) body["preconditions"] = std::move(preconditions);
    return json::serialize(body);
}

/// Decodes a large answer in slices, so that others have their turns meanwhile.
asio::awaitable<object> decode(std::shared_ptr<client::impl> self, std::shared_ptr<const std::string> body,
                               api_resource r, std::string doing, failure& f) {
    doing += ": decode";
    object o;
    if (body->size() <= detail::large_text) {
        o = parse_object(*body, f, detail::options_for(*self, r));
    } else {
        const auto steps = document_pool::make(detail::options_for(*self, r))->begin_decode(*body, object());
        while (!steps->step()) {
            co_await detail::take_turn(self->rt.executor());
            const auto asked = co_await asio::this_coro::cancellation_state;
            if (asked.cancelled() == asio::cancellation_type::none) continue;
            f = failure(errc::cancelled, std::move(doing));
            co_return object();
        }
        o = steps->finish(f);
    }
    if (f) {
        f = f.within(doing);
        co_return object();
    }
    co_return o;
}

/// Carries out a call whose answer is an object: one of the resource's kind, of a subresource's own kind, or a Status
/// of success.
asio::awaitable<object> fetch(std::shared_ptr<client::impl> self, api_resource r, call c, failure& f) {
    const std::string doing = c.doing;
    c.largest = self->config.max_object;
    const auto body = std::make_shared<std::string>();
    *body = co_await client::impl::perform(self, std::move(c), f);
    if (f) co_return object();
    object o = co_await decode(self, body, r, doing, f);
    if (!f && o.kind() == "Status" && o["status"].string_or_empty() == "Failure") {
        f = detail::refused_in_stream(*body, doing);
        co_return object();
    }
    co_return o;
}

asio::awaitable<void> perform_only(std::shared_ptr<client::impl> self, call c, failure& f) {
    c.body_wanted = false;
    c.largest = std::size_t(1) << 20; // enough to keep the connection after most answers
    const std::string ignored = co_await client::impl::perform(self, std::move(c), f);
}

asio::awaitable<object> refuse(failure bad, failure& f) {
    f = std::move(bad);
    co_return object();
}

asio::awaitable<void> refuse_only(failure bad, failure& f) {
    f = std::move(bad);
    co_return;
}

std::shared_ptr<client::impl> make_impl(runtime r, client_config config, failure& f) {
    return std::make_shared<client::impl>(std::move(r), std::move(config), f);
}

} // namespace

client::client(runtime r, client_config config, failure& f) : impl_(make_impl(std::move(r), std::move(config), f)) {}

client::client(runtime r, client_config config) {
    failure f;
    impl_ = make_impl(std::move(r), std::move(config), f);
    throw_on(f);
}

client::~client() = default;
client::client(const client&) = default;
client& client::operator=(const client&) = default;

void client::keep_managed_fields(bool on) noexcept {
    impl_->keep_managed_fields = on;
}

client client::without_retries() const {
    client c = *this;
    c.retry_ = false;
    return c;
}

const client_config& client::config() const noexcept {
    return impl_->config;
}

asio::awaitable<object> client::get(api_resource resource, object_key key, failure& f) {
    return get(std::move(resource), std::move(key), get_options(), f);
}

asio::awaitable<object> client::get(api_resource resource, object_key key, get_options options, failure& f) {
    std::string doing = detail::sentence("get", resource, key, options.subresource_);
    if (auto bad = detail::check_path(resource, key, options.subresource_, doing)) return refuse(std::move(bad), f);
    detail::query_builder q;
    q.add("resourceVersion", options.resource_version_);
    call c("GET", resource.path(key.name_space, key.name, options.subresource_) + q.take(), std::move(doing));
    c.time_limit = options.time_limit_;
    c.retry = retry_;
    return informer::detail::quietly_at_home(impl_->rt, fetch(impl_, std::move(resource), std::move(c), f));
}

asio::awaitable<object_list> client::list(api_resource resource, std::string name_space, list_options options,
                                          failure& f) {
    auto pool = detail::pool_for(*impl_, resource, options);
    auto work = detail::list_page(impl_, std::move(resource), std::move(name_space), std::move(options),
                                  std::move(pool), retry_, f);
    return informer::detail::quietly_at_home(impl_->rt, std::move(work));
}

asio::awaitable<object> client::create(api_resource resource, json::value o, write_options options, failure& f) {
    const object_key key = detail::key_of(o);
    std::string doing = detail::sentence("create", resource, key, options.subresource_);
    auto bad = detail::check_path(resource, key.name_space, doing);
    if (!bad) bad = detail::check_in_namespace(resource, key.name_space, doing);
    const bool part = !options.subresource_.empty(); // pods/eviction, serviceaccounts/token: below an object
    if (!bad && part) bad = detail::check_path(resource, key, options.subresource_, doing);
    if (bad) return refuse(std::move(bad), f);
    call c("POST",
           resource.path(key.name_space, part ? key.name : std::string(), options.subresource_) + query(options, false),
           std::move(doing));
    c.body = json::serialize(o);
    c.content_type = "application/json";
    c.time_limit = options.time_limit_;
    c.retry = retry_;
    return informer::detail::quietly_at_home(impl_->rt, fetch(impl_, std::move(resource), std::move(c), f));
}

asio::awaitable<object> client::update(api_resource resource, json::value o, write_options options, failure& f) {
    const object_key key = detail::key_of(o);
    std::string doing = detail::sentence("update", resource, key, options.subresource_);
    if (auto bad = detail::check_path(resource, key, options.subresource_, doing)) return refuse(std::move(bad), f);
    call c("PUT", resource.path(key.name_space, key.name, options.subresource_) + query(options, false),
           std::move(doing));
    c.body = json::serialize(o);
    c.content_type = "application/json";
    c.time_limit = options.time_limit_;
    c.retry = retry_;
    return informer::detail::quietly_at_home(impl_->rt, fetch(impl_, std::move(resource), std::move(c), f));
}

asio::awaitable<object> client::patch(api_resource resource, object_key key, patch_type type, json::value body,
                                      write_options options, failure& f) {
    const bool apply = type == patch_type::apply;
    std::string doing = detail::sentence(apply ? "apply" : "patch", resource, key, options.subresource_);
    if (auto bad = detail::check_path(resource, key, options.subresource_, doing)) return refuse(std::move(bad), f);
    call c("PATCH", resource.path(key.name_space, key.name, options.subresource_) + query(options, apply),
           std::move(doing));
    c.body = json::serialize(body);
    if (apply) c.body = detail::json_as_yaml(std::move(c.body));
    c.content_type = content_type(type);
    c.time_limit = options.time_limit_;
    c.retry = retry_;
    return informer::detail::quietly_at_home(impl_->rt, fetch(impl_, std::move(resource), std::move(c), f));
}

asio::awaitable<object> client::apply(api_resource resource, json::value o, write_options options, failure& f) {
    object_key key = detail::key_of(o);
    if (auto* whole = o.if_object()) { // an apply must name its type; a subresource's object (a Scale) brings its own
        if (!whole->contains("apiVersion")) (*whole)["apiVersion"] = resource.api_version();
        if (!whole->contains("kind")) (*whole)["kind"] = resource.kind;
    }
    return patch(std::move(resource), std::move(key), patch_type::apply, std::move(o), std::move(options), f);
}

asio::awaitable<object> client::remove(api_resource resource, object_key key, delete_options options, failure& f) {
    std::string doing = detail::sentence("delete", resource, key);
    if (auto bad = detail::check_path(resource, key, {}, doing)) return refuse(std::move(bad), f);
    call c("DELETE", resource.path(key.name_space, key.name), std::move(doing));
    c.body = body_of(options);
    c.content_type = "application/json";
    c.time_limit = options.time_limit_;
    c.retry = retry_;
    const api_resource anything; // no type is demanded: the answer is the whole object or a Status
    return informer::detail::quietly_at_home(impl_->rt, fetch(impl_, anything, std::move(c), f));
}

asio::awaitable<void> client::remove_collection(api_resource resource, std::string name_space, list_options which,
                                                delete_options options, failure& f) {
    std::string doing = "delete all " + detail::describe(resource, name_space);
    auto bad = detail::check_path(resource, name_space, doing);
    if (!bad) bad = detail::check_in_namespace(resource, name_space, doing);
    // The path of a cluster-scoped resource has no namespace, so the request would mean all objects in the cluster.
    if (!bad && !resource.namespaced && !name_space.empty())
        bad = failure(errc::bad_request, doing + ": " + resource.group_resource() + " are in no namespace");
    if (!bad && !which.shard_.everything())
        bad = failure(errc::bad_request, doing + ": a part of them; a server that cannot choose would delete all");
    if (bad) return refuse_only(std::move(bad), f);
    call c("DELETE", resource.path(name_space) + detail::list_query(which), std::move(doing));
    c.body = body_of(options);
    c.content_type = "application/json";
    c.time_limit = options.time_limit_;
    c.retry = retry_;
    return informer::detail::quietly_at_home(impl_->rt, perform_only(impl_, std::move(c), f));
}

asio::awaitable<std::string> client::raw(std::string method, std::string path_and_query, std::string body, failure& f) {
    std::string doing = method + " " + path_and_query.substr(0, path_and_query.find('?'));
    call c(std::move(method), std::move(path_and_query), std::move(doing));
    c.accept = "application/json, */*";
    c.secret_query = true; // it may hold anything
    if (!body.empty()) c.content_type = c.method == "PATCH" ? content_type(patch_type_of(body)) : "application/json";
    c.body = std::move(body);
    c.largest = std::size_t(1) << 30;
    c.retry = retry_;
    return informer::detail::quietly_at_home(impl_->rt, impl::perform(impl_, std::move(c), f));
}

asio::awaitable<discovery> client::discover(failure& f) {
    return informer::detail::quietly_at_home(impl_->rt, impl::discover(impl_, f));
}

asio::awaitable<api_resource> client::find_resource(std::string name, failure& f) {
    return informer::detail::quietly_at_home(impl_->rt, impl::find_resource(impl_, std::move(name), f));
}

std::shared_ptr<list_watch> client::make_list_watch(api_resource resource, std::string name_space) const {
    return detail::make_list_watch(impl_, std::move(resource), std::move(name_space));
}

list_watch_factory client::list_watches() const {
    return [c = impl_](const api_resource& resource, std::string name_space) {
        return detail::make_list_watch(c, resource, std::move(name_space));
    };
}

// ---- the throwing twins ---------------------------------------------------------------------------------------------

asio::awaitable<object> client::get(api_resource resource, object_key key) {
    return or_throw<object>([c = *this, r = std::move(resource), k = std::move(key)](failure& f) mutable {
        return c.get(std::move(r), std::move(k), f);
    });
}

asio::awaitable<object> client::get(api_resource resource, object_key key, get_options options) {
    return or_throw<object>([c = *this, r = std::move(resource), k = std::move(key), o = std::move(options)](
                                failure& f) mutable { return c.get(std::move(r), std::move(k), std::move(o), f); });
}

asio::awaitable<object_list> client::list(api_resource resource, std::string name_space, list_options options) {
    return or_throw<object_list>(
        [c = *this, r = std::move(resource), n = std::move(name_space), o = std::move(options)](failure& f) mutable {
            return c.list(std::move(r), std::move(n), std::move(o), f);
        });
}

asio::awaitable<object> client::create(api_resource resource, json::value o, write_options options) {
    return or_throw<object>([c = *this, r = std::move(resource), v = std::move(o), w = std::move(options)](
                                failure& f) mutable { return c.create(std::move(r), std::move(v), std::move(w), f); });
}

asio::awaitable<object> client::update(api_resource resource, json::value o, write_options options) {
    return or_throw<object>([c = *this, r = std::move(resource), v = std::move(o), w = std::move(options)](
                                failure& f) mutable { return c.update(std::move(r), std::move(v), std::move(w), f); });
}

asio::awaitable<object> client::patch(api_resource resource, object_key key, patch_type type, json::value body,
                                      write_options options) {
    return or_throw<object>([c = *this, r = std::move(resource), k = std::move(key), type, b = std::move(body),
                             w = std::move(options)](failure& f) mutable {
        return c.patch(std::move(r), std::move(k), type, std::move(b), std::move(w), f);
    });
}

asio::awaitable<object> client::remove(api_resource resource, object_key key, delete_options options) {
    return or_throw<object>([c = *this, r = std::move(resource), k = std::move(key), o = std::move(options)](
                                failure& f) mutable { return c.remove(std::move(r), std::move(k), std::move(o), f); });
}

asio::awaitable<object> client::apply(api_resource resource, json::value o, write_options options) {
    return or_throw<object>([c = *this, r = std::move(resource), v = std::move(o), w = std::move(options)](
                                failure& f) mutable { return c.apply(std::move(r), std::move(v), std::move(w), f); });
}

asio::awaitable<void> client::remove_collection(api_resource resource, std::string name_space, list_options which,
                                                delete_options options) {
    return or_throw_only([c = *this, r = std::move(resource), n = std::move(name_space), w = std::move(which),
                          o = std::move(options)](failure& f) mutable {
        return c.remove_collection(std::move(r), std::move(n), std::move(w), std::move(o), f);
    });
}

asio::awaitable<std::string> client::raw(std::string method, std::string path_and_query, std::string body) {
    return or_throw<std::string>(
        [c = *this, m = std::move(method), p = std::move(path_and_query), b = std::move(body)](failure& f) mutable {
            return c.raw(std::move(m), std::move(p), std::move(b), f);
        });
}

asio::awaitable<discovery> client::discover() {
    return or_throw<discovery>([c = *this](failure& f) mutable { return c.discover(f); });
}

asio::awaitable<api_resource> client::find_resource(std::string name) {
    return or_throw<api_resource>(
        [c = *this, n = std::move(name)](failure& f) mutable { return c.find_resource(std::move(n), f); });
}

} // namespace informer::kubernetes
