// Who asks, and whether they may.
#pragma once

#include "request_route.hpp"

#include <informer/http/server/server.hpp>

#include <string>
#include <vector>

namespace informer::testing::detail {

struct identity {
    std::string user;
    bool admin = false;
};

/// By bearer token or verified client certificate (O=system:masters is admin). Refuses (401) unknown tokens, and
/// nobody at all where tokens are demanded.
identity authenticate(const http::server_request& request, const std::vector<api_server_options::token_entry>& tokens);
/// Refuses (403) objects to those without rights. Discovery is open to everybody who has a name.
void authorize(const identity& who, const route& what);

} // namespace informer::testing::detail
