// A hash from which nobody gets back what was hashed, not even by trying what it might have been.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace informer::kubernetes::detail {

/// HMAC-SHA-256 under a random key, which is forgotten with the object. *Errors*: throws `error` (no random numbers, no
/// memory).
class keyed_hash {
public:
    keyed_hash();
    /// 32 bytes.
    std::string operator()(std::string_view text) const;

private:
    std::array<unsigned char, 32> key_;
};

} // namespace informer::kubernetes::detail
