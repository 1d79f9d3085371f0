// What requests about Leases fail with, kind by kind: rounds mix kinds, and one that is refused for ever is to be logged once.
#pragma once

#include <informer/error.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace informer::detail {

/// A success ends what its own kind failed with. A round with successes only ends all: what failed is not asked for any more.
template <class Kind>
class lease_errors {
public:
    /// True when it is news: its kind did not fail like this before, or has succeeded since.
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
    /// The latest of those that stand.
    const failure& last() const noexcept { return last_; }

private:
    void choose() { last_ = failing_.empty() ? failure() : failing_.back().second; }

    std::vector<std::pair<Kind, failure>> failing_; ///< the latest last
    failure last_;
    bool succeeded_ = false, failed_ = false; ///< in this round
};

} // namespace informer::detail
