// The real clock. It has a named type so that a wait can recognize it and use a single timer.
#pragma once

#include <informer/runtime.hpp>

namespace informer::detail {

class real_clock final : public informer::clock {
public:
    time_point now() const override { return std::chrono::steady_clock::now(); }
    std::chrono::system_clock::time_point wall() const override { return std::chrono::system_clock::now(); }
    asio::awaitable<bool> sleep_until(time_point when) override;
};

} // namespace informer::detail
