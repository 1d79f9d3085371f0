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
    std::vector<std::string> arguments;   ///< argv, with the program's name
    std::vector<std::string> environment; ///< "NAME=value", all of it
    std::chrono::milliseconds time_limit; ///< real time
    /// How long the program may go on, in real time, after the deadline of the last waiter has passed: a waiter that
    /// comes back finds the run still under way.
    std::chrono::milliseconds patience = std::chrono::seconds(10);
    /// Called with each piece of stderr as soon as it arrives, and with an empty text at the end of the run. Its
    /// exceptions are dropped. The end of an abandoned run is not reported.
    std::function<void(std::string_view)> heard = {};
};

/// One run of a program: in a session of its own, without a shell, with nothing on stdin, and without any other
/// descriptor of ours. The run ends when the process ends: its output is what it left on stdout by then, even if
/// something that it started still holds stdout open. A program that takes too long or writes too much is killed with
/// its whole process group, and so is one whose last waiter has left.
///
/// The process is watched through a descriptor (pidfd): there is no SIGCHLD handler, no thread, and no wait() that
/// could reap somebody else's child.
///
/// *Executor*: one that runs one handler at a time; all calls are made there. *Lifetime*: pending handlers keep the
/// object alive until the process is reaped; after a kill, too, it is reaped in a later turn of the executor. If the
/// execution context is destroyed first, the process is killed and reaped right there.
class child_process : public std::enable_shared_from_this<child_process> {
public:
    enum class ending {
        none,      ///< it runs
        exited,    ///< `code` is its exit status
        signalled, ///< `code` is the signal
        timed_out,
        too_much,  ///< on stdout
        abandoned, ///< nobody waited any more
        broken,    ///< we could not go on, for lack of memory
    };

    /// Null if the program could not be started: `error` is the system's error number, and `doing` names the step that
    /// failed if that was not the start itself. Returns once the program is loaded, which takes less than a millisecond
    /// for one on a local disk.
    static std::shared_ptr<child_process> start(const asio::any_io_executor& executor, const program& what, int& error,
                                                std::string& doing);
    ~child_process();
    child_process(const child_process&) = delete;
    child_process& operator=(const child_process&) = delete;

    ending how() const noexcept { return how_; }
    bool ended() const noexcept { return how_ != ending::none; }
    int code() const noexcept { return code_; }
    const std::string& output() const noexcept { return out_.text; }
    /// The end of what the program wrote to stderr, in whole lines: at most 4 KiB, and nothing of a line that is
    /// longer.
    const std::string& complaint() const noexcept { return err_.text; }

    /// Waits for the run's end, at most until `deadline` by `c`; false if the deadline or a cancellation of any type
    /// came first. If the last waiter is cancelled, the run is killed. If its deadline passed, the run goes on for
    /// `program::patience`, and is killed then unless somebody waits again. After `keep()`, neither happens.
    static asio::awaitable<bool> wait(std::shared_ptr<child_process> run, clock* c,
                                      std::optional<clock::time_point> deadline);

    /// `told` is called once when the run ends, unless the run is abandoned or the execution context is destroyed
    /// first. It may destroy any object; its exceptions are dropped.
    void when_ended(std::function<void(child_process&)> told) { told_ = std::move(told); }
    /// The result is wanted even if nobody waits for it.
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
    void undo() noexcept; ///< undoes a start if the process cannot be watched
    void begin();
    void watch_time(); ///< arms the timer for the earliest time at which the run would be killed
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
    std::optional<time_point> left_; ///< when the last waiter left because its deadline had passed
    bool kept_ = false;
    bool cut_ = false; ///< what comes on stderr is the rest of a line that was too long
    std::vector<informer::detail::async_event*> waiting_;
    std::function<void(child_process&)> told_;
    std::function<void(std::string_view)> heard_;
    pid_t pid_ = -1; ///< -1: there is none that we have to reap
    ending how_ = ending::none;
    int code_ = 0;
};

} // namespace informer::kubernetes::detail
