// Whether the pages of a list lead anywhere.
#pragma once

#include <cstdint>
#include <string>

namespace informer::detail {

/// Watches the continue tokens of one list: R. P. Brent's algorithm (1980) finds any circle, and keeps one token.
class page_circle {
public:
    /// `token`: that of the next page, on the page that `last` asked for. False: it was there before.
    bool goes_on(const std::string& last, const std::string& token) {
        if (token == last || token == milestone_) return false;
        if (++pages_ == milestone_at_) {
            milestone_ = token;
            milestone_at_ *= 2;
            pages_ = 0;
        }
        return true;
    }

private:
    std::string milestone_;
    std::uint64_t pages_ = 0, milestone_at_ = 1; // since the milestone, and when the next one is taken
};

} // namespace informer::detail
