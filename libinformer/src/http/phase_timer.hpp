// Time-outs by phase and for the whole request, on one timer.
#pragma once

#include <informer/detail/async.hpp>
#include <informer/error.hpp>
#include <informer/runtime.hpp>

#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

namespace informer::http::detail {

/// Aborts the running operation when its phase, or the whole request, takes too long. Real time.
///
/// The timer is armed lazily: while data flows, a phase only moves a time point, since a read is too short to pay for
/// two timer operations. Hence the timer may outlive a phase (harmlessly) until `cancel()`.
class phase_timer : public std::enable_shared_from_this<phase_timer> {
public:
    using clock = std::chrono::steady_clock;

    /// `whole`: limit for everything, from now; zero: none.
    phase_timer(asio::any_io_executor executor, std::chrono::milliseconds whole) : timer_(std::move(executor)) {
        if (whole.count() > 0) whole_ = informer::detail::later(clock::now(), whole);
    }

    /// The whole ends after `rest` from now, if not before.
    void finish_within(std::chrono::milliseconds rest) {
        const auto end = informer::detail::later(clock::now(), rest);
        whole_ = std::min(whole_.value_or(end), end);
    }

    /// What ends the running operation, from now on.
    void on_late(std::function<void()> abort) { abort_ = std::move(abort); }

    /// A phase begins. When it lasts longer than `limit` (zero: for ever) `late()` becomes `code`, or request_timeout
    /// when the whole request's limit comes first, and the operation is aborted.
    void begin(std::chrono::milliseconds limit, errc code) {
        late_.reset();
        code_ = code;
        due_.reset();
        const auto now = clock::now();
        if (limit.count() > 0) due_ = informer::detail::later(now, limit);
        if (whole_ && (!due_ || *whole_ <= *due_)) {
            due_ = whole_;
            code_ = errc::request_timeout;
        }
        if (!due_) return;
        if (*due_ <= now) // a stream that is always ready would never let the timer have its turn
            expired();
        else if (!armed_ || timer_.expiry() > *due_)
            arm();
    }
    void end() noexcept { due_.reset(); }
    /// Why the phase was aborted, if it was.
    std::optional<errc> late() const noexcept { return late_; }
    /// No phase will follow: leaves nothing in the io_context.
    void cancel() noexcept {
        due_.reset();
        abort_ = nullptr;
        ++round_;
        armed_ = false;
        timer_.cancel();
    }

private:
    void arm() {
        armed_ = true;
        timer_.expires_at(*due_);
        timer_.async_wait([weak = weak_from_this(), round = ++round_](error_code) {
            const auto self = weak.lock();
            if (!self || self->round_ != round) return;
            self->armed_ = false;
            self->expired();
        });
    }
    void expired() {
        if (!due_) return;
        if (clock::now() < *due_) return arm();
        due_.reset();
        late_ = code_;
        if (const auto abort = abort_) abort();
    }

    asio::steady_timer timer_;
    std::optional<clock::time_point> whole_, due_;
    std::optional<errc> late_;
    errc code_ = errc::request_timeout;
    std::function<void()> abort_;
    unsigned round_ = 0;
    bool armed_ = false;
};

} // namespace informer::http::detail
