#include <informer/object/api_resource.hpp>

#include <algorithm>
#include <utility>

namespace informer {

namespace {

// Escapes everything but the unreserved characters of RFC 3986, so that no segment can become two.
void append_segment(std::string& path, std::string_view segment) {
    constexpr std::string_view hex = "0123456789ABCDEF";
    path += '/';
    const bool dots = segment == "." || segment == ".."; // would be resolved away on the way to the server
    for (const char c : segment) {
        const auto u = static_cast<unsigned char>(c);
        const bool unreserved = (u >= 'a' && u <= 'z') || (u >= 'A' && u <= 'Z') || (u >= '0' && u <= '9') ||
                                u == '-' || (u == '.' && !dots) || u == '_' || u == '~';
        if (unreserved) {
            path += c;
        } else {
            path += '%';
            path += hex[u >> 4];
            path += hex[u & 15];
        }
    }
}

} // namespace

api_resource::api_resource(std::string group_, std::string version_, std::string plural_, std::string kind_,
                           bool namespaced_)
    : group(std::move(group_)), version(std::move(version_)), plural(std::move(plural_)), kind(std::move(kind_)),
      namespaced(namespaced_) {}

std::string api_resource::api_version() const {
    return group.empty() ? version : group + "/" + version;
}

std::string api_resource::group_resource() const {
    return group.empty() ? plural : plural + "." + group;
}

std::string api_resource::path(std::string_view name_space, std::string_view name, std::string_view subresource) const {
    std::string p = group.empty() ? "/api" : "/apis";
    if (!group.empty()) append_segment(p, group);
    append_segment(p, version);
    if (namespaced && !name_space.empty()) {
        p += "/namespaces";
        append_segment(p, name_space);
    }
    append_segment(p, plural);
    if (!name.empty()) append_segment(p, name);
    // A subresource may itself have segments ("proxy/metrics").
    while (!subresource.empty()) {
        const auto slash = std::min(subresource.find('/'), subresource.size());
        if (slash != 0) append_segment(p, subresource.substr(0, slash));
        subresource.remove_prefix(std::min(slash + 1, subresource.size()));
    }
    return p;
}

bool api_resource::has_verb(std::string_view verb) const {
    return std::find(verbs.begin(), verbs.end(), verb) != verbs.end();
}

} // namespace informer
