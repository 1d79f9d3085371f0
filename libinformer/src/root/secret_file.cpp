#include "root/secret_file.hpp"

#include "root/one_line.hpp"

namespace informer::detail {

std::string unfit_for_a_header(std::string_view secret) {
    return has_controls(secret) ? "it has more than one line, or another character that no header can carry" : "";
}

std::optional<std::string> secret_file::read(waiting how, std::string& why) const {
    auto text = read_file(path_, why, how);
    std::string_view content;
    if (text) {
        content = content_(*text);
        if (content.empty()) why = "the file is empty";
        if (const auto unfit = unfit_for_a_header(content); where_ == goes::into_a_header && !unfit.empty()) {
            why = unfit;
            content = {};
        }
    }
    if (!content.empty()) return std::string(content);
    why = of_ + what_ + " file " + path_ + ": " + why;
    return std::nullopt;
}

std::optional<std::string> secret_file::read_first(std::string& why) {
    auto secret = read(waiting::may, why);
    if (is_read_once(path_)) path_.clear();
    return secret;
}

std::optional<std::string> secret_file::read_again(const runtime& log_to) {
    std::string why;
    auto secret = read(waiting::never, why);
    if (!secret && !complained_) log_to.log(log_level::warning, why + "; the old " + what_ + " stays in use");
    complained_ = !secret;
    return secret;
}

} // namespace informer::detail
