#include "refusal.hpp"

#include "json_tools.hpp"
#include "resource_types.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

namespace informer::testing::detail {

namespace json = boost::json;

namespace {

std::string quoted(std::string_view s) {
    std::string out = "\"";
    out.append(s);
    out += '"';
    return out;
}

refusal about(const resource_type& type, std::string_view name, int code, std::string reason, std::string message) {
    api_status s;
    s.code = code;
    s.reason = std::move(reason);
    s.message = std::move(message);
    s.details_name = name;
    s.details_group = type.api.group;
    s.details_kind = type.api.plural;
    return refusal(std::move(s));
}

} // namespace

refusal refused(int code, std::string reason, std::string message) {
    api_status s;
    s.code = code;
    s.reason = std::move(reason);
    s.message = std::move(message);
    return refusal(std::move(s));
}

refusal bad_request(std::string message) {
    return refused(400, "BadRequest", std::move(message));
}

refusal not_found(const resource_type& type, std::string_view name) {
    return about(type, name, 404, "NotFound", type.api.group_resource() + " " + quoted(name) + " not found");
}

refusal already_exists(const resource_type& type, std::string_view name) {
    return about(type, name, 409, "AlreadyExists", type.api.group_resource() + " " + quoted(name) + " already exists");
}

refusal conflict(const resource_type& type, std::string_view name, std::string_view why) {
    std::string message = "Operation cannot be fulfilled on " + type.api.group_resource() + " " + quoted(name) + ": ";
    message.append(why);
    return about(type, name, 409, "Conflict", std::move(message));
}

refusal forbidden(const resource_type& type, std::string_view name, std::string_view why) {
    std::string message = type.api.group_resource() + " " + quoted(name) + " is forbidden: ";
    message.append(why);
    return about(type, name, 403, "Forbidden", std::move(message));
}

causes one_cause(std::string reason, std::string field, std::string message) {
    api_status::cause c;
    c.reason = std::move(reason);
    c.field = std::move(field);
    c.message = std::move(message);
    causes all;
    all.push_back(std::move(c));
    return all;
}

refusal invalid(std::string_view group, std::string_view kind, std::string_view name, causes why) {
    api_status s;
    s.code = 422;
    s.reason = "Invalid";
    s.message = std::string(kind);
    if (!group.empty()) s.message += "." + std::string(group);
    s.message += " " + quoted(name) + " is invalid: ";
    for (std::size_t i = 0; i < why.size(); ++i) {
        if (i != 0) s.message += ", ";
        s.message += why[i].field + ": " + why[i].message;
    }
    s.details_name = name;
    s.details_group = group;
    s.details_kind = kind;
    s.causes = std::move(why);
    return refusal(std::move(s));
}

refusal invalid(const resource_type& type, std::string_view name, causes why) {
    return invalid(type.api.group, type.api.kind, name, std::move(why));
}

refusal expired(std::string message) {
    return refused(410, "Expired", std::move(message));
}

refusal version_too_large(std::string_view asked, std::string_view current) {
    api_status s;
    s.code = 504;
    s.reason = "Timeout";
    s.message = "Timeout: Too large resource version: " + std::string(asked) + ", current: " + std::string(current);
    s.retry_after = std::chrono::seconds(1);
    api_status::cause c;
    c.reason = "ResourceVersionTooLarge";
    c.message = "Too large resource version";
    s.causes.push_back(std::move(c));
    return refusal(std::move(s));
}

std::string status_text(const api_status& status) {
    json::object metadata;
    if (!status.continue_token.empty()) metadata["continue"] = status.continue_token;
    json::object o;
    o["kind"] = "Status";
    o["apiVersion"] = "v1";
    o["metadata"] = std::move(metadata);
    o["status"] = "Failure";
    o["message"] = status.message;
    if (!status.reason.empty()) o["reason"] = status.reason;
    json::object details;
    if (!status.details_name.empty()) details["name"] = status.details_name;
    if (!status.details_group.empty()) details["group"] = status.details_group;
    if (!status.details_kind.empty()) details["kind"] = status.details_kind;
    if (!status.causes.empty()) {
        json::array list;
        for (const auto& c : status.causes) {
            json::object cause;
            if (!c.reason.empty()) cause["reason"] = c.reason;
            if (!c.message.empty()) cause["message"] = c.message;
            if (!c.field.empty()) cause["field"] = c.field;
            list.emplace_back(std::move(cause));
        }
        details["causes"] = std::move(list);
    }
    if (status.retry_after) details["retryAfterSeconds"] = status.retry_after->count();
    if (!details.empty()) o["details"] = std::move(details);
    o["code"] = status.code;
    return valid_utf8(json::serialize(o)); // the message may quote what a client sent
}

std::string error_event(const api_status& status) {
    return R"({"type":"ERROR","object":)" + status_text(status) + "}\n";
}

} // namespace informer::testing::detail
