#include "reviews.hpp"

#include "json_tools.hpp"
#include "object_rules.hpp"
#include "refusal.hpp"

#include <informer/object/rfc3339.hpp>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <algorithm>

namespace informer::testing::detail {

namespace json = boost::json;

namespace {

constexpr std::string_view rbac = "rbac.authorization.k8s.io";

/// The array at a path; empty when there is none.
json::array list_at(const json::object& o, std::initializer_list<std::string_view> path) {
    const auto* v = find_at(o, path);
    return v != nullptr && v->is_array() ? v->get_array() : json::array();
}

bool holds(const json::array& list, std::string_view text) {
    return std::any_of(list.begin(), list.end(),
                       [&](const json::value& v) { return v.is_string() && v.get_string() == text; });
}

bool covers(const json::array& urls, std::string_view path) {
    return holds(urls, path) || std::any_of(urls.begin(), urls.end(), [&](const json::value& v) {
               std::string_view url = v.is_string() ? std::string_view(v.get_string()) : std::string_view();
               if (!url.ends_with('*')) return false;
               url.remove_suffix(1);
               return path.starts_with(url);
           });
}

/// What a SubjectAccessReview asks about.
struct access_question {
    explicit access_question(const json::object& review)
        : user(string_at(review, {"spec", "user"})), groups(list_at(review, {"spec", "groups"})),
          path(string_at(review, {"spec", "nonResourceAttributes", "path"})),
          verb(string_at(review, {"spec", "nonResourceAttributes", "verb"})) {}

    bool is_about(const json::object& subject) const {
        const auto kind = string_at(subject, {"kind"}), name = string_at(subject, {"name"});
        if (kind == "Group") return holds(groups, name);
        if (kind == "User") return name == user;
        return kind == "ServiceAccount" &&
               user == "system:serviceaccount:" + string_at(subject, {"namespace"}) + ":" + name;
    }
    bool allowed_by(const json::object& role) const {
        const auto rules = list_at(role, {"rules"});
        return std::any_of(rules.begin(), rules.end(), [&](const json::value& rule) {
            if (!rule.is_object()) return false;
            const auto verbs = list_at(rule.get_object(), {"verbs"});
            return (holds(verbs, verb) || holds(verbs, "*")) &&
                   covers(list_at(rule.get_object(), {"nonResourceURLs"}), path);
        });
    }

    std::string user;
    json::array groups;
    std::string path, verb;
};

bool allowed(const rest_api& api, const access_question& q) {
    if (holds(q.groups, "system:masters")) return true;
    const auto roles = api.types().find(rbac, "v1", "clusterroles");
    const auto bindings = api.types().find(rbac, "v1", "clusterrolebindings");
    return std::any_of(bindings->rows->objects.begin(), bindings->rows->objects.end(), [&](const auto& row) {
        const json::object binding = tree(*bindings, *row.second);
        const auto subjects = list_at(binding, {"subjects"});
        if (std::none_of(subjects.begin(), subjects.end(),
                         [&](const json::value& s) { return s.is_object() && q.is_about(s.get_object()); }))
            return false;
        const auto role = roles->rows->find(string_at(binding, {"roleRef", "name"}));
        return role && q.allowed_by(tree(*roles, *role));
    });
}

} // namespace

bool is_review(const request_info& i) {
    return i.version == "v1" && ((i.group == "authentication.k8s.io" && i.resource == "tokenreviews") ||
                                 (i.group == "authorization.k8s.io" && i.resource == "subjectaccessreviews"));
}

json::object reviews::request_token(const rest_api& api, const target& account, json::object body, std::string token,
                                    time_point now) {
    const auto uid = api.get(account)->uid;
    const auto* asked = find_at(body, {"spec", "expirationSeconds"});
    const std::chrono::seconds life(asked != nullptr && asked->is_int64() ? asked->get_int64() : 3600);
    if (life < std::chrono::minutes(10) || life.count() > std::int64_t{1} << 32)
        throw invalid("authentication.k8s.io", "TokenRequest", "",
                      one_cause("FieldValueInvalid", "spec.expirationSeconds",
                                "Invalid value: " + std::to_string(life.count()) +
                                    ": may not specify a duration of less than 10 minutes or more than 2^32 seconds"));
    std::erase_if(given_, [&](const auto& old) { return old.second.until <= now; });
    given_.insert_or_assign(token, given{account, uid, std::to_string(next_id_++), now + life});
    object_at(body, "metadata") = {{"name", account.name}, {"namespace", account.name_space}};
    object_at(body, "spec")["expirationSeconds"] = life.count();
    body["status"] = json::object{{"token", token}, {"expirationTimestamp", rfc3339(now + life)}};
    return body;
}

json::object reviews::user_of(const std::vector<api_server_options::token_entry>& tokens, const std::string& token,
                              time_point now) const {
    for (const auto& t : tokens) {
        if (t.token != token) continue;
        json::array groups;
        if (t.rights == "admin") groups.emplace_back("system:masters");
        groups.emplace_back("system:authenticated");
        return {{"username", t.user}, {"groups", std::move(groups)}};
    }
    const auto found = given_.find(token);
    if (found == given_.end() || now >= found->second.until) return {};
    const target& account = found->second.account;
    const auto there = account.type->rows->find(account.key());
    if (!there || there->uid != found->second.uid) return {};
    const std::string all = "system:serviceaccounts", own = all + ":" + account.name_space;
    return {{"username", "system:serviceaccount:" + account.name_space + ":" + account.name},
            {"uid", there->uid},
            {"groups", json::array{all, own, "system:authenticated"}},
            {"extra", {{"authentication.kubernetes.io/credential-id", json::array{"JTI=" + found->second.id}}}}};
}

json::object reviews::answer(const rest_api& api, const std::vector<api_server_options::token_entry>& tokens,
                             const request_info& what, json::object body, time_point now) const {
    if (what.resource == "tokenreviews") {
        const auto token = string_at(body, {"spec", "token"});
        if (token.empty()) throw bad_request("token is required for TokenReview in authentication");
        auto user = user_of(tokens, token, now);
        body["status"] = user.empty() ? json::object{{"user", json::object()}, {"error", "invalid bearer token"}}
                                      : json::object{{"authenticated", true}, {"user", std::move(user)}};
        return body;
    }
    const access_question q(body);
    if (q.user.empty() && q.groups.empty())
        throw invalid("authorization.k8s.io", "SubjectAccessReview", "",
                      one_cause("FieldValueInvalid", "spec.user",
                                "Invalid value: \"\": at least one of user or group must be specified"));
    if (find_at(body, {"spec", "nonResourceAttributes"}) == nullptr)
        throw bad_request("this server reviews access to nonResourceAttributes alone");
    body["status"] = json::object{{"allowed", allowed(api, q)}};
    return body;
}

} // namespace informer::testing::detail
