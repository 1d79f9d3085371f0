// What the scans of JSON text say of a text, compiled twice: as they are on this machine, and as they are on one that has
// nothing but words of eight bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace informer {

/// Each answer with its name, as a line. `cut`: a place within the text.
std::string usual_answers(std::string_view text, std::size_t cut);
std::string portable_answers(std::string_view text, std::size_t cut);

} // namespace informer
