#include "root/file.hpp"

#include "root/descriptor.hpp"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace informer::detail {

std::optional<std::string> read_file(const std::string& path, std::string& why, waiting how) {
    const bool waits = how == waiting::may;
    const auto refuse = [&why](int code) {
        why = code == ENOENT ? "no such file" : std::generic_category().message(code);
        return std::nullopt;
    };
    const int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | (waits ? 0 : O_NONBLOCK);
    const descriptor file(uninterrupted([&] { return ::open(path.c_str(), flags); }));
    if (!file) return refuse(errno);
    struct stat about {};
    if (::fstat(file.get(), &about) != 0) return refuse(errno);
    if (S_ISDIR(about.st_mode)) return refuse(EISDIR);
    if (!waits && !S_ISREG(about.st_mode)) {
        why = "no regular file";
        return std::nullopt;
    }
    // Read to the end rather than by the size: it may be a pipe.
    std::string text;
    char block[16 * 1024];
    for (;;) {
        const ssize_t n = uninterrupted([&] { return ::read(file.get(), block, sizeof block); });
        if (n < 0) return refuse(errno);
        if (n == 0) return text;
        text.append(block, static_cast<std::size_t>(n));
        if (text.size() > largest_file) {
            why = "larger than 16 MiB";
            return std::nullopt;
        }
    }
}

bool is_read_once(const std::string& path) noexcept {
    struct stat about {};
    return ::stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode);
}

} // namespace informer::detail
