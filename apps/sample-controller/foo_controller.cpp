#include "foo_controller.hpp"

#include <informer/controller/owner_reference.hpp>
#include <informer/controller/update.hpp>
#include <informer/object/typed.hpp>

#include <boost/json.hpp>

#include <optional>
#include <string>
#include <utility>

namespace sample_controller {

namespace json = boost::json;
using namespace informer;

// The fields of a Foo that we read.
struct foo_spec {
    std::string deployment_name;
    std::optional<std::int64_t> replicas;
};
BOOST_DESCRIBE_STRUCT(foo_spec, (), (deployment_name, replicas))

struct foo_wanted {
    foo_spec spec;
};
BOOST_DESCRIBE_STRUCT(foo_wanted, (), (spec))

namespace {

constexpr const char* by_owner = "by-owner"; ///< index: uid of the controlling owner → Deployment

kubernetes::write_options ours() {
    return kubernetes::write_options().field_manager("sample-controller");
}

} // namespace

const api_resource& foos() {
    static const api_resource r("samplecontroller.k8s.io", "v1alpha1", "foos", "Foo");
    return r;
}

const api_resource& deployments() {
    static const api_resource r("apps", "v1", "deployments", "Deployment");
    return r;
}

foo_controller::foo_controller(kubernetes::client client, event_recorder recorder)
    : client_(std::move(client)), recorder_(std::move(recorder)) {}

controller foo_controller::make(std::shared_ptr<foo_controller> self, runtime rt, informer_factory& factory,
                                std::string name_space, std::size_t workers) {
    informer_options owned;
    owned.index(by_owner, [](const object& d) {
        const auto owner = controller_of(d);
        return owner ? std::vector<std::string>{owner->uid} : std::vector<std::string>();
    });
    // No deadline for the sync: while the CRD is absent we stay up, are not ready, and say so.
    auto made = controller_builder(std::move(rt), factory, "foos")
                    .for_(foos(), source_options().name_space(name_space))
                    .owns(deployments(), source_options().name_space(name_space).informer(owned))
                    .options(controller_options().workers(workers).sync_timeout(std::chrono::seconds(0)))
                    .build([self](reconcile_request request) { return self->reconcile(std::move(request)); });
    self->foos_ = std::make_shared<const lister>(factory.lister(foos(), name_space));
    self->deployments_ = std::make_shared<const lister>(factory.lister(deployments(), name_space));
    return made;
}

json::value new_deployment(const object& foo, const std::string& name, std::int64_t replicas, failure& f) {
    const object_meta meta = foo.meta();
    const json::value labels = {{"app", "nginx"}, {"controller", meta.name().str()}};
    json::value d = {{"apiVersion", "apps/v1"},
                     {"kind", "Deployment"},
                     {"metadata", {{"namespace", meta.name_space().str()}, {"name", name}}},
                     {"spec",
                      {{"replicas", replicas},
                       {"selector", {{"matchLabels", labels}}},
                       {"template",
                        {{"metadata", {{"labels", labels}}},
                         {"spec", {{"containers", json::array{{{"name", "nginx"}, {"image", "nginx:latest"}}}}}}}}}}};
    set_controller_reference(d, foo, f);
    return d;
}

asio::awaitable<object> foo_controller::deployment_for(object foo, std::string name, std::int64_t replicas,
                                                       failure& f) { // lint: law2 the caller keeps it
    const object_key key(foo.meta().name_space().str(), name);
    object d = deployments_->find(key);
    if (d) co_return d;
    json::value wanted = new_deployment(foo, name, replicas, f);
    if (f) co_return object();
    const auto options = ours();
    d = co_await client_.create(deployments(), std::move(wanted), options, f);
    if (!(f == errc::already_exists)) co_return d;
    d = co_await client_.get(deployments(), key, f); // made a moment ago, by us or by somebody else
    co_return d;
}

asio::awaitable<void> foo_controller::remove_others(object foo, std::string name,
                                                    failure& f) { // lint: law2 the caller keeps it
    const std::vector<object> mine = deployments_->by_index(by_owner, foo.uid());
    for (const object& d : mine) {
        if (d.meta().name() == name) continue;
        const object_key key = d.key();
        kubernetes::delete_options options;
        options.precondition_uid(d.uid()).propagation("Background");
        co_await client_.remove(deployments(), key, options, f);
        if (f == condition::not_found || f == errc::conflict) f = failure(); // gone, or another one by now
        if (f) co_return;
        recorder_.event(foo, event_type::normal, "Deleted", "Delete",
                        "Deployment " + key.name + " is not named by the Foo any more", d);
    }
}

asio::awaitable<reconcile_result> foo_controller::reconcile(reconcile_request request) {
    const object foo = foos_->find(request.key);
    if (!foo) co_return reconcile_result::done(); // the garbage collector removes its Deployment
    if (foo.meta().value()["deletionTimestamp"].exists()) co_return reconcile_result::done();
    failure f;
    const foo_spec spec = as<foo_wanted>(foo, f).spec;
    if (!f && spec.deployment_name.empty()) f = failure(errc::invalid, "/spec/deploymentName: must not be empty");
    if (f) { // no retry until the spec changes
        recorder_.event(foo, event_type::warning, "ErrInvalidFoo", "Sync", f.message());
        co_return reconcile_result::terminal(f);
    }
    const std::string name = spec.deployment_name;
    const std::int64_t replicas = spec.replicas.value_or(1);

    object d = co_await deployment_for(foo, name, replicas, f);
    if (f) co_return reconcile_result::error(f);
    if (!is_controlled_by(d, foo)) {
        const std::string text = "Resource \"" + name + "\" already exists and is not managed by Foo";
        recorder_.event(foo, event_type::warning, "ErrResourceExists", "Sync", text, d);
        co_return reconcile_result::error(failure(errc::conflict, text));
    }
    const kubernetes::write_options options = ours();
    if (spec.replicas && d.at_pointer("/spec/replicas").int64_or(1) != replicas) {
        // With the uid, the patch fails if the Deployment has been replaced by another one.
        json::value patch = {{"metadata", {{"uid", d.uid()}}}, {"spec", {{"replicas", replicas}}}};
        const object_key key = d.key();
        d = co_await client_.patch(deployments(), key, kubernetes::patch_type::merge, std::move(patch), options, f);
        if (f) co_return reconcile_result::error(f);
    }
    co_await remove_others(foo, name, f);
    if (f) co_return reconcile_result::error(f);

    json::value status = {{"availableReplicas", d.at_pointer("/status/availableReplicas").int64_or(0)}};
    // We need not wait for the write in the cache: no predicate of ours hides its event, which leads to a reconcile
    // that compares with the new status.
    co_await patch_status(client_, foos(), foo, std::move(status), options, f);
    // the Foo was deleted meanwhile, or its definition has no status subresource: servers answer both alike
    if (f == condition::not_found) {
        failure missing;
        co_await client_.get(foos(), request.key, missing);
        if (missing == condition::not_found) co_return reconcile_result::done();
        if (missing) co_return reconcile_result::error(missing); // unknown which of the two it was
        f = f.within("the Foo is there and its status is not: has its definition the status subresource?");
    }
    if (f) co_return reconcile_result::error(f);
    recorder_.event(foo, event_type::normal, "Synced", "Sync", "Foo synced successfully");
    co_return reconcile_result::done();
}

} // namespace sample_controller
