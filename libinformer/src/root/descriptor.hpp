// System calls on file descriptors: who closes one, and what a signal interrupts.
#pragma once

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace informer::detail {

/// Closes it, unless somebody takes it before. Negative, as from a call that failed: there is none.
class descriptor {
public:
    descriptor() = default;
    explicit descriptor(int fd) noexcept : fd_(fd) {}
    descriptor(descriptor&& other) noexcept : fd_(other.release()) {}
    descriptor& operator=(descriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    explicit operator bool() const noexcept { return fd_ >= 0; }
    int get() const noexcept { return fd_; }
    int release() noexcept { return std::exchange(fd_, -1); }
    /// A child's 0, 1 and 2 are made one after another: none of what they are made from may be in their place. False: errno says why.
    bool out_of_the_way() noexcept {
        if (fd_ > 2) return true;
        descriptor moved(::fcntl(fd_, F_DUPFD_CLOEXEC, 3));
        if (!moved) return false;
        *this = std::move(moved);
        return true;
    }

private:
    int fd_ = -1;
};

/// The call again where a signal came in between: of a pipe that is waited for, for instance.
template <class Call>
auto uninterrupted(const Call& call) {
    auto result = call();
    while (result < 0 && errno == EINTR) result = call();
    return result;
}

} // namespace informer::detail
