// The process around the controller.
#pragma once

#include "options.hpp"

namespace sample_controller {

/// Runs until a signal or an error; the exit code.
int run(const options& o);
/// One line on stderr.
int complain(const std::string& what);

} // namespace sample_controller
