// A logger that keeps the lines it gets.
#pragma once

#include <informer/runtime.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace informer::testing {

/// *Thread safety*: all members from any thread. Loggers it gave out may outlive it.
class log_capture {
public:
    struct line {
        log_level level;
        std::string text;
    };

    informer::logger logger() const {
        return [s = state_](log_level level, std::string_view text) {
            const std::lock_guard lock(s->mutex);
            s->lines.push_back(line{level, std::string(text)});
        };
    }
    std::vector<line> lines() const {
        const std::lock_guard lock(state_->mutex);
        return state_->lines;
    }
    /// Lines that contain `part`.
    std::size_t count(std::string_view part) const {
        const std::lock_guard lock(state_->mutex);
        const auto hit = [part](const line& l) { return l.text.find(part) != std::string::npos; };
        return static_cast<std::size_t>(std::count_if(state_->lines.begin(), state_->lines.end(), hit));
    }
    std::size_t count(log_level level) const {
        const std::lock_guard lock(state_->mutex);
        const auto hit = [level](const line& l) { return l.level == level; };
        return static_cast<std::size_t>(std::count_if(state_->lines.begin(), state_->lines.end(), hit));
    }
    bool contains(std::string_view part) const { return count(part) != 0; }
    void clear() {
        const std::lock_guard lock(state_->mutex);
        state_->lines.clear();
    }

private:
    struct state {
        std::mutex mutex;
        std::vector<line> lines;
    };
    std::shared_ptr<state> state_ = std::make_shared<state>();
};

} // namespace informer::testing
