// Writes Events (events.k8s.io/v1), which `kubectl describe` shows beside an object.
#pragma once

#include <informer/controller/event_correlator.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/object/object.hpp>
#include <informer/runtime.hpp>

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace informer {

enum class event_type { normal, warning };

class event_recorder_options {
public:
    /// `controller`: who reports, a qualified name ("sample-controller", "example.com/foo").
    explicit event_recorder_options(std::string controller) : controller_(std::move(controller)) {}
    /// Which of its replicas; default: the controller's name and the host's.
    event_recorder_options& instance(std::string s) {
        instance_ = std::move(s);
        return *this;
    }
    event_recorder_options& limits(event_limits l) {
        limits_ = l;
        return *this;
    }
    /// Events that wait to be sent; beyond it new ones are dropped and counted. client-go: 1000.
    event_recorder_options& capacity(std::size_t n) {
        capacity_ = n;
        return *this;
    }
    /// client-go: 12 tries, 10 s apart (and up to a quarter more).
    event_recorder_options& tries(unsigned n) {
        tries_ = n;
        return *this;
    }
    event_recorder_options& retry_after(std::chrono::nanoseconds d) {
        retry_after_ = d;
        return *this;
    }

    std::string controller_, instance_;
    event_limits limits_;
    std::size_t capacity_ = 1000;
    unsigned tries_ = 12;
    std::chrono::nanoseconds retry_after_ = std::chrono::seconds(10);
};

class event_recorder_figures {
public:
    std::uint64_t recorded = 0; ///< calls of `event()`
    std::uint64_t written = 0;  ///< requests that succeeded
    std::uint64_t dropped = 0;  ///< over the spam limit, or no room
    std::uint64_t failed = 0;   ///< given up
    std::size_t pending = 0;
};

/// Records events, sends them in the background, never waits and never throws for the sake of one: events inform people, and a
/// controller does not depend on them.
///
/// Which are written, see `event_correlator`. Events of cluster-scoped objects go to the namespace "default". Refusals of the
/// server are not tried again but for 429 and 5xx; what was not answered is, or not in time, or had no credential (an exec plugin that
/// fails). (client-go gives up whatever was answered.) While an event
/// waits for its next try the others go on, but for later writes of its own series; where the server cannot be reached at all, or
/// there is no credential, all wait. A series whose event is gone is created anew.
/// Notes are cut at 1,024 bytes (the server's limit).
///
/// *Thread safety*: `event()` and `figures()` on the runtime's executor. *Lifetime*: `run()` keeps what it needs; copies are the
/// same recorder, and must not outlive the execution context, as the client must not. *Cancellation*: `run()` ends by terminal
/// cancellation; what is pending is lost unless `flush()` came before.
class event_recorder {
public:
    event_recorder(runtime r, kubernetes::client c, event_recorder_options options);

    /// `action`: what was done or tried ("Scaling"); empty: the reason. `regarding` is what it is about, `related` another object
    /// that matters.
    void event(const object& regarding, event_type type, std::string_view reason, std::string_view action,
               std::string note, const object& related = object());
    /// The same for a subject of which no object is at hand.
    void event(event_record e);

    /// Sends until cancelled. One at a time: while one runs, a second call throws `error(errc::already_running)`.
    asio::awaitable<void> run();
    /// Waits until nothing is pending (`run()` must be running); false when that takes longer. What a series has grown by since it
    /// was written last is not pending, and lost when `run()` ends before it is due. *Cancellation*: any type; ends the wait.
    asio::awaitable<bool> flush(std::chrono::nanoseconds at_most);
    event_recorder_figures figures() const;

private:
    struct impl;
    std::shared_ptr<impl> impl_;
};

} // namespace informer
