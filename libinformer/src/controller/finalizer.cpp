#include <informer/controller/finalizer.hpp>

#include <informer/object/json.hpp>

#include <boost/json.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace informer {

namespace json = boost::json;

namespace {

std::optional<std::size_t> position(const value& list, std::string_view finalizer) {
    for (std::size_t i = 0; i < list.size(); ++i)
        if (list[i].string_or_empty() == finalizer) return i;
    return std::nullopt;
}

json::object operation(std::string_view op, std::string path, json::value v) {
    json::object o;
    o["op"] = op;
    o["path"] = std::move(path);
    o["value"] = std::move(v);
    return o;
}

json::object test(const object& current, std::string_view field) {
    return operation("test", "/metadata/" + std::string(field),
                     json::value(json::string(current.meta().value()[field].string_or_empty().str())));
}

/// Whether to look at the object again: the patch's test failed (422 without a cause), or the patch met a newer object,
/// or one that is being deleted by now. Other refusals are 422, too, but permanent: a finalizer that the server does
/// not like, and what an admission policy (its causes have only a message) or an admission webhook (its causes may be
/// anything) refuses.
bool overtaken(const failure& f) {
    if (f == condition::conflict) return true;
    if (!(f == errc::invalid) || !f.status() || f.status()->message.starts_with("admission webhook ")) return false;
    const auto& causes = f.status()->causes;
    return std::all_of(causes.begin(), causes.end(), [](const api_status::cause& c) {
        return c.reason == "FieldValueForbidden" && c.field == "metadata.finalizers";
    });
}

} // namespace

finalizer_step next_step(const object& current, std::string_view finalizer) {
    const object_meta meta = current.meta();
    const bool ours = position(meta.finalizers(), finalizer).has_value();
    if (meta.value()["deletionTimestamp"].exists()) return ours ? finalizer_step::cleanup : finalizer_step::nothing;
    return ours ? finalizer_step::apply : finalizer_step::add;
}

json::value finalizer_addition(const object& current, std::string_view finalizer) {
    json::array patch;
    patch.push_back(test(current, "uid"));
    const value list = current.meta().finalizers();
    if (list.empty()) {
        // There is no list to compare with, and "add" of the whole list would replace one that was stored meanwhile.
        patch.push_back(test(current, "resourceVersion"));
        patch.push_back(operation("add", "/metadata/finalizers", json::array{json::string(finalizer)}));
    } else {
        patch.push_back(operation("test", "/metadata/finalizers", to_value(list)));
        patch.push_back(operation("add", "/metadata/finalizers/-", json::string(finalizer)));
    }
    return patch;
}

json::value finalizer_removal(const object& current, std::string_view finalizer) {
    const auto at = position(current.meta().finalizers(), finalizer);
    if (!at) return nullptr;
    const std::string path = "/metadata/finalizers/" + std::to_string(*at);
    json::array patch;
    patch.push_back(test(current, "uid"));
    patch.push_back(operation("test", path, json::string(finalizer)));
    json::object removal;
    removal["op"] = "remove";
    removal["path"] = path;
    patch.push_back(std::move(removal));
    return patch;
}

finalizer::finalizer(kubernetes::client c, api_resource resource, std::string name)
    : client_(std::move(c)), resource_(std::move(resource)), name_(std::move(name)) {}

asio::awaitable<reconcile_result> finalizer::run(kubernetes::client c, api_resource resource, std::string name,
                                                 object current, work apply, work cleanup) {
    // Checked before anything is stored: without a clean-up function the finalizer must not be added.
    if (!apply || !cleanup)
        throw error(errc::bad_configuration, "finalizer " + name + ": no function to apply or to clean up");
    const finalizer_step step = next_step(current, name);
    json::value patch;
    reconcile_result result;
    switch (step) {
    case finalizer_step::nothing: break;
    case finalizer_step::apply: {
        auto working = apply(current);
        result = co_await std::move(working);
        break;
    }
    case finalizer_step::add: patch = finalizer_addition(current, name); break;
    case finalizer_step::cleanup: {
        auto working = cleanup(current);
        result = co_await std::move(working);
        if (result.what() == reconcile_result::outcome::done) patch = finalizer_removal(current, name);
        break;
    }
    }
    if (patch.is_null()) co_return result;
    failure f;
    const object_key key = current.key();
    const kubernetes::write_options options;
    const object stored = co_await c.patch(resource, key, kubernetes::patch_type::json, std::move(patch), options, f);
    if (overtaken(f)) co_return reconcile_result::requeue();
    if (f && !(f == condition::not_found)) co_return reconcile_result::error(f);
    if (f || step != finalizer_step::add) co_return result;
    // Apply now, not at the event that follows: predicates may drop it, as generation and labels have not changed.
    if (next_step(stored, name) != finalizer_step::apply) co_return reconcile_result::requeue(); // a webhook changed it
    auto working = apply(stored);
    result = co_await std::move(working);
    co_return result;
}

asio::awaitable<reconcile_result> finalizer::reconcile(object current, work apply, work cleanup) {
    return run(client_, resource_, name_, std::move(current), std::move(apply), std::move(cleanup));
}

} // namespace informer
