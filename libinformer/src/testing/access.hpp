// Authentication and authorization of requests.
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

/// By bearer token or verified client certificate (O=system:masters is admin). If the server demands tokens, refuses
/// (401) unknown tokens and requests without any credentials; otherwise everybody is admin.
identity authenticate(const http::server_request& request, const std::vector<api_server_options::token_entry>& tokens);
/// Refuses (403) access to objects if the user has no rights. Discovery is open to every authenticated user.
void authorize(const identity& who, const route& what);

} // namespace informer::testing::detail
