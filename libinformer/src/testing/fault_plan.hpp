// The planned faults, and which of them hit a request.
#pragma once

#include <informer/testing/api_server.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace informer::testing::detail {

/// The faults that hit one request: a delay first, then at most one other fault.
struct misfortune {
    std::chrono::milliseconds delay{};
    std::optional<fault> what;
};

class fault_plan {
public:
    void add(fault f) {
        if (f.times > 0) faults_.push_back(std::make_shared<fault>(std::move(f)));
    }
    void clear() { faults_.clear(); }
    /// Faults that have not hit as often as they should.
    std::size_t size() const noexcept { return faults_.size(); }
    /// The faults for `request`, in the order of injection: all delays up to the first other fault, which ends the
    /// search. `error_event` and `end_watch` hit watches only.
    misfortune take(const request_info& request);

private:
    bool has(const std::shared_ptr<fault>& f) const {
        return std::find(faults_.begin(), faults_.end(), f) != faults_.end();
    }

    std::vector<std::shared_ptr<fault>> faults_;
};

/// The reason that goes with an HTTP code in a Status.
std::string_view reason_of(int code);

} // namespace informer::testing::detail
