#include "kubernetes/token_source.hpp"

#include "root/base64.hpp"

namespace informer::kubernetes::detail {

using informer::detail::base64_encode;

token_source::token_source(const credentials& c, runtime r, failure& f) : runtime_(std::move(r)), file_(c.token_file) {
    f = failure();
    if (!c.token.empty())
        header_ = "Bearer " + c.token;
    else if (!c.username.empty())
        header_ = "Basic " + base64_encode(c.username + ":" + c.password);
    if (file_.empty()) return;
    std::string why;
    if (!read(waiting::may, why) && header_.empty())
        f = failure(errc::bad_configuration, "token file " + file_ + ": " + why);
    next_read_ = runtime_.clock().now() + interval;
    if (informer::detail::is_read_once(file_)) file_.clear();
}

const std::string& token_source::header() {
    if (file_.empty()) return header_;
    const auto now = runtime_.clock().now();
    if (now < next_read_) return header_;
    next_read_ = now + interval;
    std::string why;
    const bool good = read(waiting::never, why);
    if (!good && !complained_)
        runtime_.log(log_level::warning, "token file " + file_ + ": " + why + "; the old token stays in use");
    complained_ = !good;
    return header_;
}

bool token_source::read(waiting how, std::string& why) {
    const auto text = read_file(file_, why, how);
    if (!text) return false;
    const auto token = trimmed(*text);
    if (token.empty()) {
        why = "the file is empty";
        return false;
    }
    header_.assign("Bearer ").append(token);
    return true;
}

} // namespace informer::kubernetes::detail
