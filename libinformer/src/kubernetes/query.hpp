// The query of a request's target.
#pragma once

#include <informer/http/url.hpp>

#include <string>
#include <string_view>
#include <utility>

namespace informer::kubernetes::detail {

/// "?a=b&c=d", percent-encoded; nothing when nothing was added.
class query_builder {
public:
    /// A parameter without a value is left out.
    void add(std::string_view key, std::string_view value) {
        if (value.empty()) return;
        text_ += text_.empty() ? '?' : '&';
        text_.append(key).append("=").append(http::percent_encode(value));
    }
    void add(std::string_view key, long long value) { add(key, std::to_string(value)); }
    std::string take() { return std::move(text_); }

private:
    std::string text_;
};

} // namespace informer::kubernetes::detail
