// Small files: kubeconfigs, certificates, tokens, passwords.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace informer::detail {

/// None of these files is ever larger than this; a larger one is refused.
inline constexpr std::size_t largest_file = std::size_t(16) << 20;

enum class waiting {
    may,   ///< a pipe is read to its end, as programs do when they start
    never, ///< on an executor that others need: refuses all but regular files
};
/// The whole file; nullopt and the reason in `why` ("no such file", "permission denied", "larger than 16 MiB")
/// otherwise.
std::optional<std::string> read_file(const std::string& path, std::string& why, waiting how = waiting::may);

/// Whether this is a pipe or the like, as a shell's <(…): it is read once, at the start; after that nothing more
/// comes.
bool is_read_once(const std::string& path) noexcept;

} // namespace informer::detail
