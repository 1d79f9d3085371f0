#include <informer/cache/event.hpp>

namespace informer {

std::string_view to_string(event_kind k) noexcept {
    switch (k) {
    case event_kind::added: return "ADDED";
    case event_kind::updated: return "MODIFIED";
    case event_kind::deleted: return "DELETED";
    case event_kind::synced: return "SYNCED";
    }
    return "?";
}

std::string_view to_string(event_reason r) noexcept {
    switch (r) {
    case event_reason::snapshot: return "snapshot";
    case event_reason::watch: return "watch";
    case event_reason::relist: return "relist";
    case event_reason::resync: return "resync";
    }
    return "?";
}

} // namespace informer
