// From an endpoint to a connection: resolve, connect, TLS; each phase with its own time-out and error.
#pragma once

#include "http/phase_timer.hpp"
#include "http/transport.hpp"

#include <informer/http/client.hpp>

#include <memory>
#include <string>

namespace informer::http::detail {

class connect_plan {
public:
    connect_plan() {}
    endpoint to;
    std::shared_ptr<tls_context> tls; ///< when `to.tls`
    std::string certificate_name;     ///< instead of the host's
    timeouts limits;
};

/// Opens a connection. Null and `f` on failure. Cancellation: terminal, at once. (A name that is being resolved keeps
/// the io_context busy until the system's resolver gives up, but not us.)
asio::awaitable<std::shared_ptr<transport>> open(asio::any_io_executor executor, connect_plan plan,
                                                 std::shared_ptr<phase_timer> timer, failure& f);

} // namespace informer::http::detail
