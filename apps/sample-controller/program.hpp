// The process around the controller.
#pragma once

#include "options.hpp"

namespace sample_controller {

/// Runs until a signal or an error; returns the exit code.
int run(const options& o);
/// Writes one line to stderr; returns 1.
int complain(const std::string& what);

} // namespace sample_controller
