#include <informer/detail/built_with.hpp>

namespace informer::detail {

template <int boost, bool handler_tracking, bool checked_containers, bool types, bool threads, char reactor,
          int recycled_blocks>
const char built_with<boost, handler_tracking, checked_containers, types, threads, reactor,
                      recycled_blocks>::and_so_was_the_library = 0;

template struct built_with<BOOST_VERSION, tracks_handlers::value, checks_containers::value, knows_types::value,
                           knows_threads::value, waits_by::value, BOOST_ASIO_RECYCLING_ALLOCATOR_CACHE_SIZE>;

} // namespace informer::detail
