// Small files: kubeconfigs, certificates, tokens, passwords.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace informer::detail {

/// Nothing here is ever larger than this.
inline constexpr std::size_t largest_file = std::size_t(16) << 20;

enum class waiting {
    may,   ///< a pipe is read to its end, as programs do when they start
    never, ///< while others wait for us: what is no regular file is refused
};
/// The whole file; nullopt and the reason in `why` ("no such file", "permission denied", "larger than 16 MiB") otherwise.
std::optional<std::string> read_file(const std::string& path, std::string& why, waiting how = waiting::may);

/// A pipe or the like, as a shell's <(…): read once, at the start, there is nothing more to come.
bool is_read_once(const std::string& path) noexcept;

/// Without white space at either end, as tokens in files are read.
std::string_view trimmed(std::string_view s) noexcept;

} // namespace informer::detail
