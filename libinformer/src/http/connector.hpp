// From an endpoint to a connection: resolve, connect, through the proxy, TLS; each phase with its own time-out and
// error.
#pragma once

#include "http/phase_timer.hpp"
#include "http/resolve.hpp"
#include "http/transport.hpp"
#include "http/tunnel.hpp"

#include <informer/http/client.hpp>

#include <memory>
#include <string>

namespace informer::http::detail {

class connect_plan {
public:
    connect_plan() {}
    endpoint to;
    std::shared_ptr<const route> way; ///< through a proxy; null: directly
    std::shared_ptr<name_desk> names; ///< the client's
    std::shared_ptr<tls_context> tls; ///< if `to.tls`
    std::uint64_t generation = 0;     ///< of `tls`, in the client's pool
    std::string certificate_name;     ///< replaces the host's name; empty: none
    timeouts limits;
};

/// Opens a connection. Null and `f` on failure. Cancellation: terminal, at once. A name is looked up once for all
/// connections that want it at the same time; the result is not kept for later ones.
asio::awaitable<std::shared_ptr<transport>> open(asio::any_io_executor executor, connect_plan plan,
                                                 std::shared_ptr<phase_timer> timer, failure& f);

} // namespace informer::http::detail
