// A child process whose output is collected: what runs the exec plugins of kubeconfigs.
#pragma once

#include <informer/detail/async.hpp>
#include <informer/runtime.hpp>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace informer::kubernetes::detail {

/// What to run.
struct program {
    std::string path;
    std::vector<std::string> arguments;   ///< with the name it is called by
    std::vector<std::string> environment; ///< "NAME=value", all of it
    std::chrono::milliseconds time_limit; ///< real time
    /// How long it runs on, in real time, when the time of the last who waited for it was over: he may come back, and finds it
    /// where it was.
    std::chrono::milliseconds patience = std::chrono::seconds(10);
    /// Told what comes on stderr, when and as it comes, and at the end something empty; what it throws is lost. Not told of the end where
    /// the run was abandoned.
    std::function<void(std::string_view)> heard = {};
};

/// One run of a program, in a session of its own, with nothing on stdin and no other descriptor of ours; no shell. It has ended when the
/// process has: what it left on stdout by then is its output, also where something it started still holds that open. One that takes too
/// long or writes too much is killed, with its whole process group, and so is one for which somebody waited and nobody does any more.
///
/// The process is watched by a descriptor (pidfd): no SIGCHLD handler, no thread, and no wait() that could take somebody else's child.
///
/// *Executor*: one that runs one handler at a time; all calls there. *Lifetime*: handlers keep it, until the process is reaped: that, too,
/// after a kill, comes in a turn of the executor. Where the execution context goes first the process is killed and reaped then and there.
class child_process : public std::enable_shared_from_this<child_process> {
public:
    enum class ending {
        none,      ///< it runs
        exited,    ///< `code` is its exit status
        signalled, ///< `code` is the signal
        timed_out,
        too_much,  ///< on stdout
        abandoned, ///< nobody waited
        broken,    ///< we could not go on, for lack of memory
    };

    /// Null where it could not be started: `error` is the system's, and `doing` what failed where that is not the start itself. Returns
    /// when the program is loaded, which for one on a local disk is less than a millisecond.
    static std::shared_ptr<child_process> start(const asio::any_io_executor& executor, const program& what, int& error,
                                                std::string& doing);
    ~child_process();
    child_process(const child_process&) = delete;
    child_process& operator=(const child_process&) = delete;

    ending how() const noexcept { return how_; }
    bool ended() const noexcept { return how_ != ending::none; }
    int code() const noexcept { return code_; }
    const std::string& output() const noexcept { return out_.text; }
    /// The last of what it wrote to stderr, in whole lines: 4 KiB at most, and no part of one that is longer.
    const std::string& complaint() const noexcept { return err_.text; }

    /// Waits for its end, at most until `deadline` by `c`; false where that, or a cancellation of any type, came first. Who is
    /// cancelled and was the last to wait has it killed; where his time was over it runs on for `program::patience`, and is killed
    /// unless somebody waits again. Neither where it is to be kept.
    static asio::awaitable<bool> wait(std::shared_ptr<child_process> run, clock* c,
                                      std::optional<clock::time_point> deadline);

    /// Told once when it ends, unless abandoned. May destroy what it likes; what it throws is lost. Not told where the execution context
    /// goes first.
    void when_ended(std::function<void(child_process&)> told) { told_ = std::move(told); }
    /// It is wanted, though nobody waits.
    void keep() noexcept { kept_ = true; }
    /// Kills it if it runs and nobody waits.
    void abandon() noexcept;

    static constexpr std::size_t most_output = std::size_t(1) << 20, most_complaint = 4 << 10;

private:
    struct stream {
        explicit stream(const asio::any_io_executor& e) : from(e) {}
        asio::posix::stream_descriptor from;
        std::string text;
    };
    class seat;

    explicit child_process(const asio::any_io_executor& executor);
    int spawn(const program& what, std::string& doing);
    void undo() noexcept; ///< a start, where the process cannot be watched
    void begin();
    void watch_time(); ///< until the first of the times at which it would be killed
    bool forsaken() const noexcept { return left_ && waiting_.empty() && !kept_; }
    void read(stream& s);
    void take_all(stream& s);
    void collect(stream& s, const char* bytes, std::size_t n);
    void complain(std::string_view more);
    void hear(std::string_view bytes) noexcept;
    void await_exit();
    void leave() noexcept;
    bool reap() noexcept;
    void kill_group() noexcept;
    void kill_because(ending how) noexcept;
    void end(ending how) noexcept;

    stream out_, err_;
    asio::posix::stream_descriptor process_;
    asio::steady_timer late_;
    asio::any_io_executor executor_;
    using time_point = asio::steady_timer::time_point;
    std::chrono::milliseconds patience_{};
    time_point limit_;
    std::optional<time_point> left_; ///< when the last left who waited, his time being over
    bool kept_ = false;
    bool cut_ = false; ///< what comes on stderr is the rest of a line that was too long
    std::vector<informer::detail::async_event*> waiting_;
    std::function<void(child_process&)> told_;
    std::function<void(std::string_view)> heard_;
    pid_t pid_ = -1; ///< while it is ours to reap
    ending how_ = ending::none;
    int code_ = 0;
};

} // namespace informer::kubernetes::detail
