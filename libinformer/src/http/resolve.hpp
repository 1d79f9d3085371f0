// From a name to addresses.
#pragma once

#include "http/phase_timer.hpp"

#include <informer/http/client.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <memory>
#include <vector>

namespace informer::http::detail {

class look_up;

/// At most as many names are looked up at the same time in a process, each on a thread; later ones wait for their turn.
/// It is more than the clusters and proxies of most programs, so that some that do not answer cannot hold up the rest.
inline constexpr std::size_t most_look_ups = 32;

/// All connections of a client go to one name. Here they find the look-up of it that is under way.
struct name_desk {
    std::weak_ptr<look_up> under_way;
};

/// The addresses of `to`, in the system resolver's order; none, and `f`, on failure. A literal address and "localhost"
/// need no look-up.
///
/// getaddrinfo blocks, for a minute if name servers are away, and cannot be interrupted. It therefore runs on a thread
/// of its own, for which nobody has to wait: neither the caller who is cancelled or late, nor the io_context, nor the
/// look-ups of other clients. One look-up serves all who wait for it, and none begins beside it for the same desk,
/// however long it takes. If nobody waits for it when its turn comes it does not begin.
///
/// *Cancellation*: terminal, at once. *Errors*: resolve_failed, resolve_timeout, and those of the timer.
asio::awaitable<std::vector<asio::ip::tcp::endpoint>> resolve(endpoint to, std::shared_ptr<name_desk> names,
                                                              std::chrono::milliseconds limit,
                                                              std::shared_ptr<phase_timer> timer, failure& f);

} // namespace informer::http::detail
