// ConfigMaps, and how they are written and patched.
#pragma once

#include <string>

namespace server_tests {

inline const std::string maps = "/api/v1/namespaces/default/configmaps";
inline const std::string merge = "application/merge-patch+json";
inline const std::string operations = "application/json-patch+json";

inline std::string map_named(const std::string& name, const std::string& rest = R"("data":{"k":"v"})") {
    return R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":")" + name + R"("},)" + rest + "}";
}

} // namespace server_tests
