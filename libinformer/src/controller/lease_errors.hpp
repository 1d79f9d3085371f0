// The failures of requests about Leases, for each kind of request: a round mixes kinds, and a kind that is refused for
// ever must be logged only once.
#pragma once

#include <informer/error.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace informer::detail {

/// A success clears the failure of its own kind. A round of nothing but successes clears all failures: the kinds that
/// failed are not requested any more.
template <class Kind>
class lease_errors {
public:
    /// True if the failure is new: its kind did not fail with this code before, or has succeeded since.
    bool note(Kind what, const failure& f) {
        const auto at =
            std::find_if(failing_.begin(), failing_.end(), [&](const auto& one) { return one.first == what; });
        const bool again = f && at != failing_.end() && at->second.code() == f.code();
        if (at != failing_.end()) failing_.erase(at);
        if (f) failing_.emplace_back(what, f);
        (f ? failed_ : succeeded_) = true;
        choose();
        return f && !again;
    }
    void round_over() {
        if (succeeded_ && !failed_) failing_.clear();
        succeeded_ = failed_ = false;
        choose();
    }
    /// The latest failure that was not cleared.
    const failure& last() const noexcept { return last_; }

private:
    void choose() { last_ = failing_.empty() ? failure() : failing_.back().second; }

    std::vector<std::pair<Kind, failure>> failing_; ///< the latest last
    failure last_;
    bool succeeded_ = false, failed_ = false; ///< in this round
};

} // namespace informer::detail
