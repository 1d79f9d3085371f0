// Running the server until a signal comes.
#pragma once

#include "options.hpp"

namespace devserver {

/// Serves until SIGINT or SIGTERM; 0 then. Throws what prevents it.
int serve(const options& o);

} // namespace devserver
