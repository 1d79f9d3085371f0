// The decisions of a work queue, key by key and at times that the test chooses.
#pragma once

#include <informer/queue/queue_state.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace queue_state_test {

using namespace informer;
using namespace std::chrono_literals;

using state = queue_state<std::string>;
using time_point = state::time_point;
inline constexpr time_point start = time_point(1000h);

inline state make(std::uint32_t ageing = 0, state::group_function group_by = nullptr) {
    return state(std::make_shared<exponential_limiter>(1s, 1000s), ageing, std::move(group_by), true);
}

/// The next key, still in processing; "-" when nothing is ready.
inline std::string take(state& s, time_point now = start) {
    const state::index i = s.take(now);
    return i == state::none ? "-" : s.key_of(i);
}
inline void finish(state& s, std::string_view key) {
    s.finish(s.find(key));
}
inline std::string pass(state& s) {
    const std::string k = take(s);
    if (k != "-") finish(s, k);
    return k;
}
inline std::string all(state& s) {
    std::string keys;
    for (std::string k = pass(s); k != "-"; k = pass(s)) keys += (keys.empty() ? "" : " ") + k;
    return keys;
}
inline bool add(state& s, std::string_view key, int priority = 0) {
    return s.add(key, priority, start);
}

} // namespace queue_state_test
