// A failure with the Status of a server's refusal.
#pragma once

#include <informer/error.hpp>

#include <string>
#include <utility>

namespace informer::testing {

inline failure refused(int code, std::string reason) {
    api_status s;
    s.code = code;
    s.reason = std::move(reason);
    return failure(std::move(s), "test");
}

} // namespace informer::testing
