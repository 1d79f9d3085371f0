#include "private_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace devserver {

namespace {

[[noreturn]] void cannot_write(const std::string& path, int error) {
    throw std::system_error(error, std::generic_category(), "cannot write " + path);
}

/// Writes everything and closes `fd`; returns 0 or errno.
int write_and_close(int fd, std::string_view text) {
    int error = 0;
    while (!text.empty() && error == 0) {
        const auto written = ::write(fd, text.data(), text.size());
        if (written > 0)
            text.remove_prefix(static_cast<std::size_t>(written));
        else if (written == 0)
            error = ENOSPC; // it would go on like this for ever
        else if (errno != EINTR)
            error = errno;
    }
    if (::close(fd) != 0 && error == 0) error = errno; // where a full disk may be reported
    return error;
}

/// The file that symbolic links lead to. The last one may lead to a file that does not exist yet, which realpath
/// refuses.
std::filesystem::path behind_links(std::filesystem::path path) {
    std::error_code ec;
    for (int links = 0; std::filesystem::is_symlink(path, ec); ++links) {
        if (links == 40) cannot_write(path.string(), ELOOP);
        const auto target = std::filesystem::read_symlink(path);
        path = path.parent_path() / target; // an absolute target stands for itself
    }
    return path;
}

} // namespace

void write_private(const std::string& path, const std::string& text) {
    struct stat there {};
    if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
        const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
        const int error = fd < 0 ? errno : write_and_close(fd, text);
        if (error != 0) cannot_write(path, error);
        return;
    }
    const std::string file = behind_links(path).string();
    std::string temporary = file + ".XXXXXX"; // a new file of a name that nobody can foresee, so no link to elsewhere
    const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
    if (fd < 0) cannot_write(path, errno);
    int error = write_and_close(fd, text);
    if (error == 0 && std::rename(temporary.c_str(), file.c_str()) != 0) error = errno;
    if (error == 0) return;
    ::unlink(temporary.c_str());
    cannot_write(path, error);
}

} // namespace devserver
