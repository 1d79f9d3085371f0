// What the scans of JSON find in a text, compiled twice: in the forms for this machine, and in those for a machine that
// has nothing but words of eight bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace informer {

/// Each answer with its name, as a line. `cut`: a place within the text.
std::string usual_answers(std::string_view text, std::size_t cut);
std::string portable_answers(std::string_view text, std::size_t cut);

} // namespace informer
