// Runs many pieces of work with a few coroutines.
#pragma once

#include <informer/runtime.hpp>

#include <boost/asio/awaitable.hpp>

#include <cstddef>
#include <functional>

namespace informer {

/// Calls `work(0) … work(pieces - 1)`, each exactly once, in this order, at most `workers` at a time, on the caller's
/// executor, and returns when all have ended (client-go's ParallelizeUntil; its chunks are for contended counters).
///
/// *Cancellation*: any type; the running pieces are cancelled and joined, no further piece is started, then
/// `error(errc::cancelled)` is thrown, unless all pieces had already finished. *Errors*: the first exception of a
/// piece; no further piece is started then, and the running ones go on to their end. bad_configuration at once if there
/// is no `work`. *Executor*: must be a serial one.
asio::awaitable<void> parallelize(std::size_t workers, std::size_t pieces,
                                  std::function<asio::awaitable<void>(std::size_t)> work);

} // namespace informer
