#include <informer/cache/status.hpp>

namespace informer {

std::string_view to_string(informer_phase p) noexcept {
    switch (p) {
    case informer_phase::idle: return "idle";
    case informer_phase::listing: return "listing";
    case informer_phase::watching: return "watching";
    case informer_phase::backing_off: return "backing off";
    case informer_phase::parked: return "parked";
    case informer_phase::stopped: return "stopped";
    }
    return "unknown";
}

} // namespace informer
