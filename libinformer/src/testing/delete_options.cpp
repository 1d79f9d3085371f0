#include "delete_options.hpp"

#include "json_tools.hpp"
#include "refusal.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <charconv>

namespace informer::testing::detail {

namespace json = boost::json;

namespace {

json::object options_in(std::string_view body) {
    auto v = parse_any(body);
    if (v.is_null()) return {};
    if (!v.is_object()) throw bad_request("the DeleteOptions cannot be read: they are no JSON object");
    auto options = std::move(v.get_object());
    if (const auto kind = string_at(options, {"kind"}); !kind.empty() && kind != "DeleteOptions") {
        throw bad_request("no kind \"" + kind + "\" is registered for version \"" + string_at(options, {"apiVersion"}) +
                          "\" among the options of a DELETE");
    }
    const auto expect = [&options](std::string_view key, bool (*fits)(const json::value&), const char* what) {
        const auto* given = options.if_contains(key);
        if (given == nullptr) return;
        if (given->is_null())
            options.erase(key);
        else if (!fits(*given))
            throw bad_request("the DeleteOptions cannot be read: " + std::string(key) + " must be " + what);
    };
    expect(
        "gracePeriodSeconds", [](const json::value& x) { return x.is_int64(); }, "an integer");
    expect(
        "propagationPolicy", [](const json::value& x) { return x.is_string(); }, "a string");
    expect(
        "orphanDependents", [](const json::value& x) { return x.is_bool(); }, "true or false");
    expect(
        "preconditions", [](const json::value& x) { return x.is_object(); }, "an object");
    expect(
        "dryRun", [](const json::value& x) { return x.is_array(); }, "an array");
    return options;
}

json::object options_in(const parameters& query) {
    json::object options;
    json::array dry_run;
    for (const auto& [name, value] : query) {
        if (name == "dryRun") dry_run.emplace_back(valid_utf8(value));
    }
    if (!dry_run.empty()) options["dryRun"] = std::move(dry_run);
    if (has_parameter(query, "orphanDependents")) options["orphanDependents"] = truth(query, "orphanDependents");
    if (has_parameter(query, "propagationPolicy"))
        options["propagationPolicy"] = valid_utf8(parameter(query, "propagationPolicy"));
    if (has_parameter(query, "gracePeriodSeconds")) {
        const auto text = parameter(query, "gracePeriodSeconds");
        std::int64_t seconds = 0;
        const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), seconds);
        if (ec != std::errc() || end != text.data() + text.size()) {
            throw bad_request("strconv.ParseInt: parsing \"" + std::string(text) + "\": invalid syntax");
        }
        options["gracePeriodSeconds"] = seconds;
    }
    return options;
}

[[noreturn]] void bad_policy(std::string reason, std::string message) {
    throw invalid("meta.k8s.io", "DeleteOptions", "",
                  one_cause(std::move(reason), "propagationPolicy", std::move(message)));
}

} // namespace

json::object delete_options_of(std::string_view body, const parameters& query) {
    auto options = body.empty() ? options_in(query) : options_in(body);
    const auto* policy = options.if_contains("propagationPolicy");
    if (policy == nullptr) return options;
    const auto& name = policy->get_string();
    const auto quoted = json::serialize(*policy);
    if (options.contains("orphanDependents")) {
        bad_policy("FieldValueInvalid",
                   "Invalid value: " + quoted + ": orphanDependents and deletionPropagation cannot be both set");
    }
    if (name != "Foreground" && name != "Background" && name != "Orphan") {
        bad_policy("FieldValueNotSupported", "Unsupported value: " + quoted +
                                                 R"(: supported values: "Foreground", "Background", "Orphan", "nil")");
    }
    return options;
}

} // namespace informer::testing::detail
