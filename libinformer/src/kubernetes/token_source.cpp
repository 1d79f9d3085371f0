#include "kubernetes/token_source.hpp"

#include "root/ascii.hpp"
#include "root/base64.hpp"

namespace informer::kubernetes::detail {

using informer::detail::base64_encode;

token_source::token_source(const credentials& c, runtime r, failure& f)
    : runtime_(std::move(r)),
      file_(c.token_file, "", "token", informer::detail::trimmed, informer::detail::secret_file::goes::into_a_header) {
    f = failure();
    if (!c.token.empty())
        header_ = "Bearer " + c.token;
    else if (!c.username.empty())
        header_ = "Basic " + base64_encode(c.username + ":" + c.password);
    if (file_.empty()) return;
    std::string why;
    if (const auto token = file_.read_first(why))
        header_ = "Bearer " + *token;
    else if (header_.empty())
        f = failure(errc::bad_configuration, why);
    next_read_ = runtime_.clock().now() + interval;
}

const std::string& token_source::header() {
    if (file_.empty()) return header_;
    const auto now = runtime_.clock().now();
    if (now < next_read_) return header_;
    next_read_ = now + interval;
    if (const auto token = file_.read_again(runtime_)) header_ = "Bearer " + *token;
    return header_;
}

} // namespace informer::kubernetes::detail
