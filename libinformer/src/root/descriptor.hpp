// File descriptors: an owner that closes them, and system calls that a signal may interrupt.
#pragma once

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace informer::detail {

/// Closes the descriptor, unless it was released. A negative number, as a failed call returns it, means none.
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
    /// Moves the descriptor above 2. A child's 0, 1 and 2 are set one after another, so none of the descriptors that
    /// they are copied from may have one of these numbers. False: errno says why.
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

/// Repeats the call as long as a signal interrupts it, for instance a read that waits for a pipe.
template <class Call>
auto uninterrupted(const Call& call) {
    auto result = call();
    while (result < 0 && errno == EINTR) result = call();
    return result;
}

} // namespace informer::detail
