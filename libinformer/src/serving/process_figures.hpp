// What the process uses: the figures that Prometheus' clients have.
#pragma once

#include <optional>

namespace informer::serving::detail {

struct process_figures {
    double cpu_seconds = 0, resident_bytes = 0, virtual_bytes = 0, open_fds = 0, max_fds = 0, start_time = 0;
};
/// From /proc; empty if there is none.
std::optional<process_figures> read_process_figures();

} // namespace informer::serving::detail
