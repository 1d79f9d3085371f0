// From an endpoint to a connection: resolve, connect, through the proxy, TLS; each phase with its own time-out and error.
#pragma once

#include "http/phase_timer.hpp"
#include "http/transport.hpp"
#include "http/tunnel.hpp"

#include <informer/http/client.hpp>

#include <memory>
#include <string>

namespace informer::http::detail {

struct look_up;

/// Where the connections of a client, which all go to one name, find the look-up of it that is under way.
struct name_desk {
    std::weak_ptr<look_up> under_way;
};

class connect_plan {
public:
    connect_plan() {}
    endpoint to;
    std::shared_ptr<const route> way; ///< through a proxy; null: directly
    std::shared_ptr<name_desk> names; ///< the client's
    std::shared_ptr<tls_context> tls; ///< when `to.tls`
    std::uint64_t generation = 0;     ///< of that, in the client's pool
    std::string certificate_name;     ///< instead of the host's
    timeouts limits;
};

/// Opens a connection. Null and `f` on failure. Cancellation: terminal, at once. (A name that is being resolved keeps
/// the io_context busy until the system's resolver gives up, but not us.) A name is looked up once for all who want it at the
/// same time; what was found serves nobody else.
asio::awaitable<std::shared_ptr<transport>> open(asio::any_io_executor executor, connect_plan plan,
                                                 std::shared_ptr<phase_timer> timer, failure& f);

} // namespace informer::http::detail
