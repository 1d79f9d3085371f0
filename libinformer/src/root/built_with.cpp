#include <informer/detail/built_with.hpp>

namespace informer::detail {

template <int boost, bool handler_tracking, bool checked_containers>
const char built_with<boost, handler_tracking, checked_containers>::and_so_was_the_library = 0;

template struct built_with<BOOST_VERSION, tracks_handlers::value, checks_containers::value>;

} // namespace informer::detail
