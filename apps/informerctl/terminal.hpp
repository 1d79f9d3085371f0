// stdout for use in pipes: whole lines, flushed; it waits for a slow reader, and is silent when the reader is gone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace informerctl {

/// Writes to stdout. Blocking on purpose: while the reader is slow nothing is read from the network either, and no
/// event is dropped. A signal ends the wait.
class output {
public:
    output();
    /// Appends to the buffer.
    void write(std::string_view s) { buffer_ += s; }
    void line(std::string_view s) {
        buffer_ += s;
        buffer_ += '\n';
    }
    /// Hands everything to the kernel. False when nothing more can be written: the reader is gone, the disk is full.
    bool flush();
    /// For long output, part by part: hands the buffer over when it is full. False if the rest is not wanted: nothing
    /// more can be written, or a signal came.
    bool put(std::string_view s) {
        buffer_ += s;
        return go_on();
    }
    bool go_on(); ///< the same, for what was written already
    bool closed() const noexcept { return closed_; }
    /// errno of a write that failed for another reason than that the reader of stdout is gone; 0: none did.
    int error() const noexcept { return error_; }
    std::size_t buffered() const noexcept { return buffer_.size(); }

private:
    std::string buffer_;
    bool closed_ = false;
    int error_ = 0;
};

/// Installs handlers for SIGINT and SIGTERM (flag and self-pipe), ignores SIGPIPE.
void install_signals();
int signalled() noexcept; ///< the signal that came last, or 0
/// Readable once a signal came; for poll and for Asio.
int signal_descriptor() noexcept;

/// For Asio: a descriptor that becomes readable once nobody reads our stdout, a pipe, any more. -1: stdout is no pipe.
/// Asio makes the descriptors that it is given non-blocking; as we share stdout's open file with others, Asio must
/// never be given stdout or a duplicate of it.
int reader_gone_descriptor() noexcept;

/// Text from others, made fit for people to read: control characters, which would command the terminal, become "\x1b"
/// or "\n".
std::string visible(std::string_view text);

/// A line on stderr that redraws itself, on a terminal only, and only for work that lasts over 2 s.
class progress {
public:
    explicit progress(std::string what);
    ~progress();
    /// Call often; draws at most ten times a second. `total` 0: unknown.
    void show(std::uint64_t done, std::uint64_t total, std::string_view unit);
    void clear();

private:
    std::string what_;
    double started_, last_ = 0;
    bool terminal_, drawn_ = false;
};

struct process_figures {
    double wall_s = 0, user_s = 0, sys_s = 0, rss_mb = 0, peak_rss_mb = 0;
};
/// `wall_s` counts from the first call.
process_figures measure_process();

} // namespace informerctl
