#include "request_route.hpp"

#include <informer/http/url.hpp>

namespace informer::testing::detail {

namespace {

std::vector<std::string> segments_of(std::string_view path) {
    std::vector<std::string> out;
    while (path.starts_with('/')) {
        path.remove_prefix(1);
        const auto end = path.find('/');
        const auto part = path.substr(0, end);
        if (!part.empty()) out.push_back(http::percent_decode(part));
        path.remove_prefix(part.size());
    }
    return out;
}

// `rest` begins after the version. namespaces/N is an object; if more segments follow, it is their namespace.
bool place(std::vector<std::string> rest, request_info& info) {
    const bool subresource_of_namespace = rest.size() == 3 && (rest[2] == "status" || rest[2] == "finalize");
    if (rest.size() >= 3 && rest[0] == "namespaces" && !subresource_of_namespace) {
        info.name_space = rest[1];
        rest.erase(rest.begin(), rest.begin() + 2);
    }
    if (rest.empty() || rest.size() > 3) return false;
    info.resource = rest[0];
    if (rest.size() > 1) info.name = rest[1];
    if (rest.size() > 2) info.subresource = rest[2];
    return true;
}

std::string verb_of(std::string_view method, const request_info& info, const parameters& query) {
    const bool one = !info.name.empty();
    if (method == "GET") { // not HEAD
        if (one) return "get";
        return truth(query, "watch") ? "watch" : "list";
    }
    if (method == "POST") return "create";
    if (method == "PUT") return "update";
    if (method == "PATCH") return "patch";
    if (method == "DELETE") return one ? "delete" : "deletecollection";
    return "other";
}

} // namespace

route route_of(std::string_view method, std::string_view path, const parameters& query) {
    route r;
    r.info.verb = "other";
    r.info.method = method;
    auto parts = segments_of(path);
    if (parts.empty()) return r;
    const auto discovery = [&r](route_kind kind) {
        r.kind = kind;
        r.info.verb = "discovery";
        return r;
    };
    if (parts[0] == "version" && parts.size() == 1) {
        r.kind = route_kind::version;
        return r;
    }
    if (parts[0] == "healthz" || parts[0] == "livez" || parts[0] == "readyz") {
        r.kind = route_kind::health;
        return r;
    }
    const bool core = parts[0] == "api";
    if (!core && parts[0] != "apis") return r;
    if (parts.size() == 1) return discovery(core ? route_kind::core : route_kind::groups);
    std::size_t at = 1;
    if (!core) r.info.group = parts[at++];
    if (at == parts.size()) return discovery(route_kind::group);
    r.info.version = parts[at++];
    if (at == parts.size()) return discovery(route_kind::resources);
    parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(at));
    if (!place(std::move(parts), r.info)) return r;
    r.kind = route_kind::object;
    r.info.verb = verb_of(method, r.info, query);
    return r;
}

} // namespace informer::testing::detail
