// When it is, and what a server says, for the tests of the decisions of key sharding.
#pragma once

#include "controller/shard_logic.hpp"

#include <chrono>
#include <string>
#include <utility>

namespace shard_test {

using namespace informer;
using namespace informer::detail;
using namespace std::chrono_literals;
using action = shard_logic::action;

inline const auto start = clock::time_point(1000h);
inline const auto wall = std::chrono::system_clock::time_point(std::chrono::seconds(1'700'000'000));

inline failure refused(int code, std::string reason) {
    api_status s;
    s.code = code;
    s.reason = std::move(reason);
    return failure(s, "test");
}

} // namespace shard_test
