// The end of series. There is no limit to the names of informers, queues, controllers and groups, but there is one to a
// sink's memory: who reports series under such a name ends them, if nobody else reports under it.
#pragma once

#include <informer/runtime.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace informer::detail {

/// How many report under each name, in all copies of a runtime.
struct series_users {
    std::mutex mutex;
    std::map<std::string, std::size_t> count;
};
/// `sink`: a runtime's.
std::shared_ptr<series_users> users_of(metrics_sink& sink) noexcept;

/// Held by one that reports series under a name. Others may have the same name, such as an informer that begins before
/// its predecessor has ended: they share the series, which end with the last of them.
///
/// *Thread safety*: shares of one name may be taken and left on any threads.
class series_share {
public:
    series_share() = default;
    /// `sink`: a runtime's, or null. `kind` keeps names of different kinds apart.
    series_share(metrics_sink* sink, std::string_view kind, std::string_view name) {
        if (sink == nullptr) return;
        const auto users = users_of(*sink);
        std::string key = std::string(kind).append(" ").append(name);
        const std::lock_guard lock(users->mutex);
        at_ = users->count.try_emplace(std::move(key), 0).first;
        ++at_->second;
        of_ = users;
    }
    series_share(series_share&& o) noexcept : of_(std::move(o.of_)), at_(o.at_) {}
    series_share& operator=(series_share&& o) noexcept {
        std::swap(of_, o.of_);
        std::swap(at_, o.at_);
        return *this;
    }
    ~series_share() { leave(); }

    explicit operator bool() const noexcept { return of_ != nullptr; }
    /// True if nobody has the name any more, so that the series must be ended. Needs no memory.
    bool leave() noexcept {
        const auto users = std::exchange(of_, nullptr);
        if (!users) return false;
        const std::lock_guard lock(users->mutex);
        if (--at_->second != 0) return false;
        users->count.erase(at_);
        return true;
    }

private:
    std::shared_ptr<series_users> of_;
    std::map<std::string, std::size_t>::iterator at_{};
};

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
