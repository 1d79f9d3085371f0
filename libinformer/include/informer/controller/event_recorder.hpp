// Writes Events (events.k8s.io/v1), which `kubectl describe` shows with an object.
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
    /// `controller`: the reporting controller, a qualified name ("sample-controller", "example.com/foo").
    explicit event_recorder_options(std::string controller) : controller_(std::move(controller)) {}
    /// The reporting replica; default: the names of the controller and the host.
    event_recorder_options& instance(std::string s) {
        instance_ = std::move(s);
        return *this;
    }
    event_recorder_options& limits(event_limits l) {
        limits_ = l;
        return *this;
    }
    /// How many events may wait to be sent; beyond that, new ones are dropped and counted. client-go: 1000.
    event_recorder_options& capacity(std::size_t n) {
        capacity_ = n;
        return *this;
    }
    /// How often a write is tried. client-go: 12 tries, 10 s apart (and up to a quarter more).
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
    std::uint64_t dropped = 0;  ///< over the spam limit or the capacity
    std::uint64_t failed = 0;   ///< given up
    std::size_t pending = 0;
};

/// Records events and sends them in the background. It never waits and never throws for the sake of an event: events
/// inform people, and a controller does not depend on them.
///
/// `event_correlator` decides which events are written. Events of cluster-scoped objects go to the namespace "default".
/// A write that the server refuses is not retried, except after 429 and 5xx. A write that got no answer, or none in
/// time, or had no credential (an exec plugin fails) is retried. (client-go gives up on whatever was answered.) While
/// an event waits for its next try, the others go on, except later writes of its own series. If the server cannot be
/// reached at all, or there is no credential, all of them wait. A series whose event is gone is created anew. Notes are
/// cut at 1,024 bytes, reason, action and instance at 128 (the server's limits).
///
/// *Thread safety*: `event()` and `figures()` on the runtime's executor. *Lifetime*: `run()` keeps what it needs.
/// Copies are the same recorder; like the client, they must not outlive the execution context. *Cancellation*: terminal
/// cancellation ends `run()`; what is pending is lost unless `flush()` came before.
class event_recorder {
public:
    event_recorder(runtime r, kubernetes::client c, event_recorder_options options);

    /// `action`: what was done or tried ("Scaling"); if empty, the reason is used. `regarding`: what the event is
    /// about. `related`: another object that matters.
    void event(const object& regarding, event_type type, std::string_view reason, std::string_view action,
               std::string note, const object& related = object());
    /// The same for a subject whose object is not at hand.
    void event(event_record e);

    /// Sends until cancelled. Only one may run: a second call during the first throws `error(errc::already_running)`.
    asio::awaitable<void> run();
    /// Waits until nothing is pending (`run()` must be running); false if that takes longer than `at_most`. The growth
    /// of a series since its last write is not pending, and is lost if `run()` ends before it is due. *Cancellation*:
    /// any type; ends the wait.
    asio::awaitable<bool> flush(std::chrono::nanoseconds at_most);
    event_recorder_figures figures() const;

private:
    struct impl;
    std::shared_ptr<impl> impl_;
};

} // namespace informer
