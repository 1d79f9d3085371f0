// Writing a file that holds secrets.
#pragma once

#include <string>

namespace devserver {

/// Writes `text` where `path` leads, through symbolic links. A regular file is replaced, or made, as a whole: readable
/// by its owner alone, and never seen half written. A pipe, a terminal or a device is written to and stays what it is.
/// Throws std::system_error.
void write_private(const std::string& path, const std::string& text);

} // namespace devserver
