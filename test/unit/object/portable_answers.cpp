// The scans a second time, in a namespace of their own: a form that is not compiled here would rot until somebody comes
// with another processor.
#include "scan_answers.hpp"

#include "object/detail/node.hpp"
#include "root/utf8.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace informer::portable_detail {
using namespace informer::detail;
}

#define INFORMER_PORTABLE 1
#define detail portable_detail // except in the names of files
#include "object/json_scan.cpp"
#include "object/packed.cpp"

#include "object/detail/fingerprints.hpp"
#include "scan_answers.ipp"
#undef detail

#if defined(INFORMER_SSE2) || defined(INFORMER_AVX2)
#error "these are not the portable forms"
#endif

std::string informer::portable_answers(std::string_view text, std::size_t cut) {
    return portable_detail::all_answers(text, cut);
}
