// Base64 (RFC 4648, section 4): kubeconfig files, Basic authentication, etcd's gateway.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace informer::detail {

/// Decodes one text piece by piece. Strict: padding is required, and no other character may be in between. The bits
/// that the padding leaves over are ignored, as in Go.
class base64_decoder {
public:
    void begin() noexcept { *this = base64_decoder(); }
    /// Appends the decoded bytes. False: the text is not base64.
    bool feed(std::string_view piece, std::string& to);
    bool complete() const noexcept { return count_ == 0; }

private:
    std::uint32_t bits_ = 0;
    unsigned count_ = 0, padding_ = 0;
    bool ended_ = false;
};

std::string base64_encode(std::string_view bytes);
/// White space is skipped (YAML folds long lines); nullopt if the text is not base64.
std::optional<std::string> base64_decode(std::string_view text);

} // namespace informer::detail
