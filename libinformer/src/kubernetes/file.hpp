// Small files, under the names that this room uses.
#pragma once

#include "root/file.hpp"

namespace informer::kubernetes::detail {

using informer::detail::largest_file;
using informer::detail::read_file;
using informer::detail::trimmed;
using informer::detail::waiting;

} // namespace informer::kubernetes::detail
