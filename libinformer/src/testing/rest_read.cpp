#include "rest_api.hpp"

#include "json_tools.hpp"
#include "object_rules.hpp"
#include "refusal.hpp"
#include "root/ascii.hpp"
#include "root/base64.hpp"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <charconv>

namespace informer::testing::detail {

using informer::detail::lower;

namespace json = boost::json;

std::string_view parameter(const parameters& query, std::string_view name) {
    for (const auto& [key, value] : query) {
        if (key == name) return value;
    }
    return {};
}

bool has_parameter(const parameters& query, std::string_view name) {
    return std::any_of(query.begin(), query.end(), [&](const auto& p) { return p.first == name; });
}

bool truth(const parameters& query, std::string_view name) {
    const std::string v = lower(parameter(query, name));
    return has_parameter(query, name) && v != "false" && v != "0";
}

namespace {

template <typename Integer>
bool read_number(std::string_view s, Integer& out) {
    const auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), out);
    return ec == std::errc() && end == s.data() + s.size();
}

std::string no_version(std::string_view text) {
    return "strconv.ParseUint: parsing \"" + std::string(text) + "\": invalid syntax";
}

std::string invalid_version(std::string_view text) {
    return "resourceVersion: Invalid value: \"" + std::string(text) + "\": " + no_version(text);
}

/// The version that a get or a watch asks for. A list refuses another text with 400.
std::uint64_t version_of(std::string_view asked) {
    std::uint64_t v = 0;
    if (!read_number(asked, v)) throw refused(500, "", invalid_version(asked));
    return v;
}

/// A number of the query; 0 when it is absent. Refused in the words of the real server.
std::int64_t number_of(const parameters& query, std::string_view name) {
    if (!has_parameter(query, name)) return 0;
    const auto text = parameter(query, name);
    const auto digits = text.starts_with('+') && !text.starts_with("+-") ? text.substr(1) : text;
    std::int64_t n = 0;
    const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    const bool all_read = end == digits.data() + digits.size();
    if (ec == std::errc() && all_read) return n;
    throw bad_request("strconv.ParseInt: parsing \"" + std::string(text) + "\": " +
                      (ec == std::errc::result_out_of_range && all_read ? "value out of range" : "invalid syntax"));
}

[[noreturn]] void bad_list_options(std::string field, std::string message) {
    throw invalid("meta.k8s.io", "ListOptions", "",
                  one_cause("FieldValueForbidden", std::move(field), std::move(message)));
}

void check_list_options(const parameters& query) {
    const auto asked = parameter(query, "resourceVersion");
    const auto match = parameter(query, "resourceVersionMatch");
    if (!match.empty()) {
        if (asked.empty()) bad_list_options("resourceVersionMatch", "Forbidden: it needs a resourceVersion");
        if (!parameter(query, "continue").empty()) {
            bad_list_options("resourceVersionMatch", "Forbidden: it cannot go with continue");
        }
        if (match != "Exact" && match != "NotOlderThan") {
            bad_list_options("resourceVersionMatch", "Unsupported value: use Exact or NotOlderThan");
        }
        if (match == "Exact" && asked == "0") {
            bad_list_options("resourceVersionMatch", "Forbidden: Exact needs a resourceVersion other than 0");
        }
    }
    if (has_parameter(query, "sendInitialEvents")) {
        bad_list_options("sendInitialEvents", "Forbidden: it is for watches");
    }
}

struct list_token {
    std::int64_t version = 0; ///< -1: go on with the newest state
    std::string start;
    std::int64_t issued = 0; ///< seconds of the server's clock
};

// base64url without padding, as on the real server.
std::string url_base64(std::string_view bytes) {
    auto out = informer::detail::base64_encode(bytes);
    while (out.ends_with('=')) out.pop_back();
    for (char& c : out) c = c == '+' ? '-' : c == '/' ? '_' : c;
    return out;
}

std::optional<std::string> from_url_base64(std::string_view text) {
    std::string standard(text);
    for (char& c : standard) c = c == '-' ? '+' : c == '_' ? '/' : c;
    standard.append((4 - standard.size() % 4) % 4, '=');
    return informer::detail::base64_decode(standard);
}

list_token read_token(std::string_view text) {
    list_token t;
    const auto plain = from_url_base64(text);
    boost::system::error_code ec;
    const auto v = plain ? json::parse(*plain, ec) : json::value();
    const auto* o = ec ? nullptr : v.if_object();
    const auto* version = o == nullptr ? nullptr : o->if_contains("rv");
    const auto* issued = o == nullptr ? nullptr : o->if_contains("issued");
    if (version == nullptr || !version->is_int64() || issued == nullptr || !issued->is_int64()) {
        throw bad_request("continue key is not valid: it was not made by this server");
    }
    t.version = version->get_int64();
    t.issued = issued->get_int64();
    t.start = string_at(*o, {"start"});
    return t;
}

refusal form_does_not_fit(std::string_view kind, std::string_view what) {
    return refused(406, "NotAcceptable",
                   "you requested " + std::string(kind) + ", but the requested object is " + std::string(what));
}

std::int64_t seconds_of(const informer::clock& c) {
    return std::chrono::duration_cast<std::chrono::seconds>(c.now().time_since_epoch()).count();
}

} // namespace

std::uint64_t parse_version(std::string_view text) {
    std::uint64_t v = 0;
    if (!read_number(text, v)) throw refused(500, "", no_version(text));
    return v;
}

query_numbers::query_numbers(const parameters& query)
    : limit(number_of(query, "limit")), timeout_seconds(number_of(query, "timeoutSeconds")) {}

bool names_a_version(std::string_view text) {
    std::uint64_t v = 0;
    return read_number(text, v) && v != 0;
}

std::string rest_api::continue_token(std::int64_t version, std::string_view last_key) const {
    json::object o;
    o["v"] = "meta.k8s.io/v1";
    o["rv"] = version;
    o["start"] = last_key;
    o["issued"] = seconds_of(*clock_);
    return url_base64(json::serialize(o));
}

stored rest_api::must_find(const target& t) const {
    const auto key = t.name_space.empty() ? t.name : t.name_space + "/" + t.name;
    auto o = t.type->rows->find(key);
    if (!o) throw not_found(*t.type, t.name);
    return o;
}

stored rest_api::get(const target& t, const parameters& query) const {
    if (const auto asked = parameter(query, "resourceVersion"); !asked.empty()) {
        const std::uint64_t at_least = version_of(asked);
        if (at_least > store_.current()) throw version_too_large(asked, std::to_string(store_.current()));
    }
    return must_find(t);
}

std::string rest_api::text(const resource_type& type, const stored_object& o, answer_form form) const {
    if (form == answer_form::partial_list) throw form_does_not_fit("PartialObjectMetadataList", "no list");
    if (form == answer_form::partial) return std::string(partial_head) + partial_text(o.text);
    return type.head() + o.text;
}

list_answer empty_list(const resource_type& type, const json::object& metadata, answer_form form) {
    if (form == answer_form::partial) throw form_does_not_fit("PartialObjectMetadata", "a list");
    list_answer out;
    out.partial = form == answer_form::partial_list;
    out.head = R"({"kind":")" + (out.partial ? "PartialObjectMetadataList" : type.list_kind) + R"(","apiVersion":")" +
               (out.partial ? "meta.k8s.io/v1" : type.api_version()) + R"(","metadata":)" + json::serialize(metadata) +
               R"(,"items":[)";
    // As on the real server, items of built-in kinds lack kind and apiVersion, custom and partial items have them.
    out.item_head = out.partial ? std::string(partial_head) : type.custom ? type.head() : "{";
    out.tail = "]}\n";
    return out;
}

list_answer rest_api::list(const resource_type& type, std::string name_space, const parameters& query,
                           answer_form form) const {
    const auto asked = parameter(query, "resourceVersion");
    const auto match = parameter(query, "resourceVersionMatch");
    const auto token_text = parameter(query, "continue");
    std::size_t limit = static_cast<std::size_t>(std::max<std::int64_t>(query_numbers(query).limit, 0)); // 0: any
    check_list_options(query);
    const selection chosen(type, name_space, parameter(query, "labelSelector"), parameter(query, "fieldSelector"),
                           options_.sharding_ ? parameter(query, "shardSelector") : std::string_view());

    std::uint64_t at = store_.current();
    std::string start;
    if (!token_text.empty()) {
        if (!asked.empty() && asked != "0") {
            throw bad_request("specifying a resource version is not allowed together with continue");
        }
        const auto token = read_token(token_text);
        start = token.start;
        const bool stale = seconds_of(*clock_) - token.issued > options_.continue_for_.count();
        if (token.version >= 0) at = static_cast<std::uint64_t>(token.version);
        if (token.version >= 0 && (stale || at < store_.oldest(*type.rows) || at > store_.current())) {
            auto gone =
                expired("The provided continue parameter is too old to display a consistent list. Start again "
                        "without it, or go on with the token of this answer if a list that mixes states will do.");
            auto status = gone.status();
            status.continue_token = continue_token(-1, start);
            throw refusal(std::move(status));
        }
    } else if (!asked.empty()) {
        std::uint64_t version = 0;
        if (!read_number(asked, version)) throw bad_request("invalid resource version: " + invalid_version(asked));
        // Version 0 means any version: the real server answers from its watch cache, which has no pages. Events have no
        // watch cache.
        if (version == 0 && type.api.plural != "events") limit = 0;
        if (version > store_.current()) throw version_too_large(asked, std::to_string(store_.current()));
        // Without a match a limited list from a version means exactly that version.
        const bool exact = match == "Exact" || (match.empty() && limit != 0 && version != 0);
        if (exact) at = version;
    }

    const auto prefix = name_space.empty() ? std::string() : name_space + "/";
    auto objects = store_.state_at(*type.rows, at, prefix, start);
    if (!objects) {
        throw expired("The resource version " + std::to_string(at) + " is too old: its state is no longer known.");
    }
    std::vector<stored> items;
    std::size_t seen = 0;
    bool more = false;
    for (auto& o : *objects) {
        if (limit != 0 && items.size() == limit) {
            more = true;
            break;
        }
        ++seen;
        if (chosen.matches(*o)) items.push_back(std::move(o));
    }
    json::object metadata;
    metadata["resourceVersion"] = std::to_string(at);
    if (more) {
        metadata["continue"] = continue_token(static_cast<std::int64_t>(at), items.back()->key());
        if (chosen.everything()) metadata["remainingItemCount"] = objects->size() - seen;
    }
    if (!chosen.shard().everything()) metadata["shardInfo"] = json::object{{"selector", chosen.shard().str()}};
    auto out = empty_list(type, metadata, form);
    out.items = std::move(items);
    return out;
}

watch_plan rest_api::watch(type_ptr type, std::string name_space, const parameters& query, answer_form form) const {
    if (form == answer_form::partial_list) throw form_does_not_fit("PartialObjectMetadataList", "no list");
    const query_numbers numbers(query);
    const auto asked = parameter(query, "resourceVersion");
    const auto match = parameter(query, "resourceVersionMatch");
    const bool has_send_initial = has_parameter(query, "sendInitialEvents");
    const bool send_initial = truth(query, "sendInitialEvents");
    if (has_send_initial && !options_.watch_list_) {
        bad_list_options("sendInitialEvents", "Forbidden: streaming lists are switched off on this server");
    }
    if (has_send_initial && match != "NotOlderThan") {
        bad_list_options("resourceVersionMatch",
                         "Forbidden: sendInitialEvents requires resourceVersionMatch=NotOlderThan");
    }
    if (!has_send_initial && !match.empty()) {
        bad_list_options("resourceVersionMatch", "Forbidden: it is for watches with sendInitialEvents");
    }
    if (!parameter(query, "continue").empty()) bad_list_options("continue", "Forbidden: it is for lists");

    selection chosen(*type, name_space, parameter(query, "labelSelector"), parameter(query, "fieldSelector"),
                     options_.sharding_ ? parameter(query, "shardSelector") : std::string_view());
    watch_plan plan(std::move(chosen));
    plan.partial = form == answer_form::partial;
    plan.bookmarks = truth(query, "allowWatchBookmarks");
    if (numbers.timeout_seconds > 0)
        plan.time_out = std::chrono::seconds(std::min<std::int64_t>(numbers.timeout_seconds, 7 * 24 * 3600));
    const std::uint64_t from = asked.empty() ? 0 : version_of(asked);
    const table& rows = *type->rows;
    plan.position = rows.end();
    plan.after = store_.current();
    if (send_initial || (from == 0 && !has_send_initial)) {
        if (from > store_.current()) {
            plan.error = version_too_large(asked, std::to_string(store_.current())).status();
        } else {
            const auto prefix = name_space.empty() ? std::string() : name_space + "/";
            for (auto it = rows.objects.lower_bound(prefix); it != rows.objects.end() && it->first.starts_with(prefix);
                 ++it) {
                if (plan.chosen.matches(*it->second)) plan.initial.push_back(it->second);
            }
            plan.initial_version = store_.current();
            plan.mark_end_of_initial = send_initial && plan.bookmarks;
        }
    } else if (from != 0) {
        plan.after = from;
        if (from < store_.oldest(rows)) {
            plan.error = expired("too old resource version: " + std::to_string(from) + " (" +
                                 std::to_string(store_.oldest(rows)) + ")")
                             .status();
        } else {
            plan.position = rows.position_after(from);
        }
    }
    plan.type = std::move(type);
    return plan;
}

json::object rest_api::scale_of(const resource_type& type, const stored_object& o) const {
    const auto whole = tree(type, o);
    json::object metadata;
    for (const std::string_view key : {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}) {
        if (const auto* v = find_at(whole, {"metadata", key})) metadata[key] = *v;
    }
    json::object spec, status;
    const auto* wanted = find_at(whole, type.scale_wanted);
    const auto* present = find_at(whole, type.scale_present);
    if (wanted != nullptr)
        spec["replicas"] = *wanted;
    else if (!type.custom)
        spec["replicas"] = 0;
    status["replicas"] = present == nullptr ? json::value(0) : *present;
    const auto* selector = find_at(whole, type.scale_selector);
    if (selector != nullptr && selector->is_string()) status["selector"] = *selector;
    if (selector != nullptr && selector->is_object()) {
        std::string text;
        for (const auto& [k, v] : selector->get_object()) {
            if (!text.empty()) text += ',';
            text += std::string(k) + "=" + scalar_text(v);
        }
        status["selector"] = std::move(text);
    }
    json::object scale;
    scale["kind"] = "Scale";
    scale["apiVersion"] = "autoscaling/v1";
    scale["metadata"] = std::move(metadata);
    scale["spec"] = std::move(spec);
    scale["status"] = std::move(status);
    return scale;
}

std::string rest_api::scale_text(const resource_type& type, const stored_object& o) const {
    const auto scale = scale_of(type, o);
    if (find_at(scale, {"spec", "replicas"}) == nullptr) {
        std::string path;
        for (const auto& name : type.scale_wanted) path += "." + name;
        throw refused(500, "InternalError",
                      "Internal error occurred: the spec replicas field \"" + path + "\" does not exist");
    }
    return json::serialize(scale);
}

} // namespace informer::testing::detail
