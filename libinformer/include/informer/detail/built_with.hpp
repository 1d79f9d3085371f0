// Part of other headers, not of the API.
#pragma once

#include <boost/asio/detail/config.hpp>
#include <boost/asio/detail/thread_info_base.hpp>
#include <boost/version.hpp>

#include <type_traits>

namespace informer::detail {

#if defined(BOOST_ASIO_ENABLE_HANDLER_TRACKING) || defined(BOOST_ASIO_CUSTOM_HANDLER_TRACKING)
using tracks_handlers = std::true_type;
#else
using tracks_handlers = std::false_type;
#endif
#if defined(_GLIBCXX_DEBUG)
using checks_containers = std::true_type;
#else
using checks_containers = std::false_type;
#endif
#if defined(BOOST_ASIO_NO_TYPEID)
using knows_types = std::false_type;
#else
using knows_types = std::true_type;
#endif
#if defined(BOOST_ASIO_DISABLE_THREADS)
using knows_threads = std::false_type;
#else
using knows_threads = std::true_type;
#endif
#if defined(BOOST_ASIO_HAS_IO_URING_AS_DEFAULT)
using waits_by = std::integral_constant<char, 'u'>;
#elif defined(BOOST_ASIO_HAS_EPOLL)
using waits_by = std::integral_constant<char, 'e'>;
#else
using waits_by = std::integral_constant<char, 'o'>;
#endif

/// The settings that change the layout of classes of Boost and of the standard library. A program that was compiled
/// with other settings than the library would link, and crash; therefore it does not link. The name of the missing
/// symbol says how the program was compiled: Boost's version; whether BOOST_ASIO_ENABLE_HANDLER_TRACKING and
/// _GLIBCXX_DEBUG were defined; whether there were types at run time (not with -fno-rtti) and threads (not with
/// BOOST_ASIO_DISABLE_THREADS); whether Asio waits by epoll ('e'), io_uring ('u') or otherwise ('o'); and
/// BOOST_ASIO_RECYCLING_ALLOCATOR_CACHE_SIZE. Compile the library with the same settings.
template <int boost, bool handler_tracking, bool checked_containers, bool types, bool threads, char reactor,
          int recycled_blocks>
struct built_with {
    static const char and_so_was_the_library;
};
using built_here = built_with<BOOST_VERSION, tracks_handlers::value, checks_containers::value, knows_types::value,
                              knows_threads::value, waits_by::value, BOOST_ASIO_RECYCLING_ALLOCATOR_CACHE_SIZE>;
extern template struct built_with<BOOST_VERSION, tracks_handlers::value, checks_containers::value, knows_types::value,
                                  knows_threads::value, waits_by::value, BOOST_ASIO_RECYCLING_ALLOCATOR_CACHE_SIZE>;

} // namespace informer::detail
