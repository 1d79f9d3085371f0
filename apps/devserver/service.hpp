// Running the server until a signal comes.
#pragma once

#include "options.hpp"

namespace devserver {

/// Serves until SIGINT or SIGTERM, then returns 0. Throws if it cannot serve.
int serve(const options& o);

} // namespace devserver
