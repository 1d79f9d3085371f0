#include "access.hpp"

#include "refusal.hpp"

#include <algorithm>

namespace informer::testing::detail {

identity authenticate(const http::server_request& request, const std::vector<api_server_options::token_entry>& tokens) {
    identity who;
    const std::string_view given = request.header("Authorization");
    constexpr std::string_view scheme = "Bearer ";
    if (given.starts_with(scheme)) {
        const auto token = given.substr(scheme.size());
        for (const auto& t : tokens) {
            if (t.token != token) continue;
            who.user = t.user;
            who.admin = t.rights == "admin";
            return who;
        }
        if (!tokens.empty()) throw refused(401, "Unauthorized", "Unauthorized");
    }
    if (!request.client_common_name.empty()) {
        const auto& groups = request.client_organizations;
        who.user = request.client_common_name;
        who.admin = tokens.empty() || std::find(groups.begin(), groups.end(), "system:masters") != groups.end();
        return who;
    }
    if (!tokens.empty()) throw refused(401, "Unauthorized", "Unauthorized");
    who.user = "system:admin";
    who.admin = true;
    return who;
}

void authorize(const identity& who, const route& what) {
    if (who.admin || what.kind != route_kind::object) return;
    const auto& i = what.info;
    const auto quoted = [](const std::string& s) { return "\"" + s + "\""; };
    std::string resource = i.resource;
    if (!i.subresource.empty()) resource += "/" + i.subresource;
    api_status s;
    s.code = 403;
    s.reason = "Forbidden";
    s.details_name = i.name;
    s.details_group = i.group;
    s.details_kind = i.resource;
    s.message = i.group.empty() ? i.resource : i.resource + "." + i.group;
    if (!i.name.empty()) s.message += " " + quoted(i.name);
    s.message += " is forbidden: User " + quoted(who.user) + " cannot " + i.verb + " resource " + quoted(resource) +
                 " in API group " + quoted(i.group);
    s.message += i.name_space.empty() ? " at the cluster scope" : " in the namespace " + quoted(i.name_space);
    throw refusal(std::move(s));
}

} // namespace informer::testing::detail
