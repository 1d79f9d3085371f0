// The Authorization header, with tokens that are replaced on disk.
#pragma once

#include "root/secret_file.hpp"

#include <informer/kubernetes/config.hpp>
#include <informer/runtime.hpp>

#include <string>

namespace informer::kubernetes::detail {

/// Re-reads a token file once a minute (client-go's interval; a projected service account token lives ten minutes at
/// least). If the file cannot be read or is empty, the old token stays in use, and that is logged once.
class token_source {
public:
    /// `f`: errc::bad_configuration when there is a token file, but no token at all.
    token_source(const credentials& c, runtime r, failure& f);

    /// The value of the Authorization header; empty for none.
    const std::string& header();
    /// The server answered 401: look at the file before the next request.
    void refused() noexcept { next_read_ = clock::time_point::min(); }

    static constexpr std::chrono::minutes interval = std::chrono::minutes(1);

private:
    runtime runtime_;
    informer::detail::secret_file file_;
    std::string header_;
    clock::time_point next_read_ = clock::time_point::max();
};

} // namespace informer::kubernetes::detail
