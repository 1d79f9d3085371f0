// Requests in, answers out, on one connection of the server.
#pragma once

#include "http/server_connection.hpp"

#include <informer/http/server/server.hpp>

#include <cstddef>
#include <memory>
#include <string>

namespace informer::http::detail {

/// Serves requests, one after the other, until the connection ends. `pump` runs beside it.
asio::awaitable<void> serve(std::shared_ptr<server_connection> c, std::shared_ptr<const server_handler> handler,
                            std::size_t max_body, std::string peer, runtime rt);

} // namespace informer::http::detail
