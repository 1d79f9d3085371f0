// Part of other headers, not of the API.
#pragma once

#include <boost/version.hpp>

#include <type_traits>

namespace informer::detail {

#if defined(BOOST_ASIO_ENABLE_HANDLER_TRACKING)
using tracks_handlers = std::true_type;
#else
using tracks_handlers = std::false_type;
#endif
#if defined(_GLIBCXX_DEBUG)
using checks_containers = std::true_type;
#else
using checks_containers = std::false_type;
#endif

/// What makes classes of Boost and of the standard library look otherwise. A program that was compiled otherwise than the library
/// would link, and crash; so it does not link. The name of what it misses says how it was compiled: Boost's version, then whether
/// BOOST_ASIO_ENABLE_HANDLER_TRACKING and _GLIBCXX_DEBUG were defined. Compile the library alike.
template <int boost, bool handler_tracking, bool checked_containers>
struct built_with {
    static const char and_so_was_the_library;
};
using built_here = built_with<BOOST_VERSION, tracks_handlers::value, checks_containers::value>;
extern template struct built_with<BOOST_VERSION, tracks_handlers::value, checks_containers::value>;

} // namespace informer::detail
