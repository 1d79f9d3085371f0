// Small objects for the tests of the cache.
#pragma once

#include <informer/object/document_pool.hpp>

#include <string>
#include <string_view>

namespace informer::testing {

inline object make_pod(std::string_view name_space, std::string_view name, std::string_view version = "1",
                       std::string_view uid = "u", std::string_view node = "n1", std::string_view app = "") {
    std::string json = R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")";
    json.append(name).append("\"");
    if (!name_space.empty()) json.append(R"(,"namespace":")").append(name_space).append("\"");
    json.append(R"(,"uid":")").append(uid).append(R"(","resourceVersion":")").append(version).append("\"");
    if (!app.empty()) json.append(R"(,"labels":{"app":")").append(app).append("\"}");
    json.append(R"(},"spec":{"nodeName":")").append(node).append("\"}}");
    return parse_object(json);
}

} // namespace informer::testing
