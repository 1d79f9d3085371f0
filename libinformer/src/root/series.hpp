// The end of series. There is no limit to the names of informers, queues, controllers and groups, but there is one to a
// sink's memory: who reports series under such a name ends them.
#pragma once

#include <informer/runtime.hpp>

#include <span>

namespace informer::detail {

using series_names = std::span<const char* const>;

inline void end_series(metrics_sink& sink, series_names names, metrics_sink::labels of) {
    for (const char* name : names) sink.forget(name, of);
}

/// The last value is zero: a sink that keeps it would go on reporting what is gone.
inline void end_gauges(metrics_sink& sink, series_names names, metrics_sink::labels of) {
    for (const char* name : names) sink.set(name, 0, of);
    end_series(sink, names, of);
}

} // namespace informer::detail
