// Times, and refusals of a server, for the tests of the decisions of leader election and key sharding.
#pragma once

#include "support/refusal.hpp"

#include <informer/runtime.hpp>

#include <chrono>

namespace informer::testing {

using namespace std::chrono_literals;

inline const auto start = clock::time_point(1000h);
inline const auto wall = std::chrono::system_clock::time_point(std::chrono::seconds(1'700'000'000));

} // namespace informer::testing
