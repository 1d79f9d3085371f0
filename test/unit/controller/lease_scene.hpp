// When it is, and what a server says, for the tests of what is decided over Leases: leader election and key sharding.
#pragma once

#include <informer/error.hpp>
#include <informer/runtime.hpp>

#include <chrono>
#include <string>
#include <utility>

namespace informer::testing {

using namespace std::chrono_literals;

inline const auto start = clock::time_point(1000h);
inline const auto wall = std::chrono::system_clock::time_point(std::chrono::seconds(1'700'000'000));

inline failure refused(int code, std::string reason) {
    api_status s;
    s.code = code;
    s.reason = std::move(reason);
    return failure(s, "test");
}

} // namespace informer::testing
