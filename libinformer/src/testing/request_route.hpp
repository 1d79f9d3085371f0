// What a request is about, by its method, path and query.
#pragma once

#include "rest_api.hpp"

#include <informer/testing/api_server.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace informer::testing::detail {

enum class route_kind {
    object,    ///< one object or a collection; `info` tells which
    core,      ///< /api
    groups,    ///< /apis
    group,     ///< /apis/G
    resources, ///< /api/v1, /apis/G/V
    version,   ///< /version
    health,    ///< /healthz, /livez, /readyz and below
    unknown,
};

struct route {
    route_kind kind = route_kind::unknown;
    request_info info; ///< everything but `number`
};

/// `path` is raw (percent-encoded), without the query.
route route_of(std::string_view method, std::string_view path, const parameters& query);

} // namespace informer::testing::detail
