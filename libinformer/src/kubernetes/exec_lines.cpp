#include "kubernetes/exec_lines.hpp"

#include "kubernetes/exec_credential.hpp"
#include "root/one_line.hpp"

#include <utility>

namespace informer::kubernetes::detail {

namespace {

using informer::detail::printable;

bool has(std::string_view text, std::string_view part) noexcept {
    return text.find(part) != std::string_view::npos;
}

} // namespace

exec_lines::exec_lines(runtime r, std::string name, const exec_plugin& p)
    : runtime_(std::move(r)), name_(std::move(name)), plugin_(p) {}

void exec_lines::hear(std::string_view bytes) {
    if (bytes.empty() && (!line_.empty() || cut_)) tell();
    while (!bytes.empty() && told_ <= most_lines) {
        const std::size_t end = bytes.find('\n');
        const std::string_view piece = bytes.substr(0, end), fits = piece.substr(0, longest - line_.size());
        line_ += fits;
        cut_ = cut_ || fits.size() < piece.size();
        if (end == std::string_view::npos) return;
        tell();
        bytes.remove_prefix(end + 1);
    }
}

void exec_lines::tell() {
    std::string line = std::exchange(line_, std::string());
    const bool cut = std::exchange(cut_, false);
    if (plugin_.on_stderr) {
        try {
            plugin_.on_stderr(line);
        } catch (...) { // the next line is passed on all the same
        }
        return;
    }
    const bool ends_key = has(line, "-----END ");
    if (in_key_) {
        in_key_ = !ends_key;
        return;
    }
    in_key_ = has(line, "-----BEGIN ") && has(line, "PRIVATE KEY-----") && !ends_key;
    // The last word was cut: half a secret does not look like one, but is one.
    if (cut) line.erase(line.find_last_of(" \t") + 1);
    std::string shown = printable(unsaid(std::move(line), plugin_), longest_shown);
    if (shown.empty() && !cut) return;
    if (cut && !shown.ends_with("…")) shown += "…";
    if (++told_ > most_lines)
        runtime_.log(log_level::info, name_ + " says more, which is not logged");
    else
        runtime_.log(log_level::info, name_ + ": " + shown);
}

} // namespace informer::kubernetes::detail
