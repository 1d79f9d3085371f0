#include "http/server_connection.hpp"

#include <boost/asio/this_coro.hpp>

#include <exception>
#include <utility>

namespace informer::http::detail {

server_connection::server_connection(runtime rt, std::shared_ptr<transport> s, std::uint64_t number,
                                     std::chrono::milliseconds patience)
    : rt_(std::move(rt)), stream_(std::move(s)), number_(number), patience_(patience), arrived_(rt_.executor()),
      consumed_(rt_.executor()), left_(rt_.executor()) {}

void server_connection::expect_peer() {
    if (patience_.count() <= 0 || closed_) return;
    if (!timer_) {
        timer_ = std::make_shared<phase_timer>(rt_.executor(), std::chrono::milliseconds(0));
        timer_->on_late([weak = weak_from_this()] {
            if (const auto self = weak.lock()) self->close(ending::reset);
        });
    }
    timer_->begin(patience_, errc::request_timeout);
}

void server_connection::expect_request() {
    if (!expects_request_since_) expects_request_since_ = rt_.clock().now();
    expect_peer();
}

void server_connection::peer_delivered() noexcept {
    expects_request_since_.reset();
    if (timer_) timer_->end();
}

asio::awaitable<void> server_connection::pump(std::shared_ptr<server_connection> self) {
    return read_all(reader(std::move(self)));
}

asio::awaitable<void> server_connection::read_all(reader r) {
    co_await asio::this_coro::throw_if_cancelled(false);
    const auto self = std::move(r).begin();
    std::exception_ptr failed;
    try {
        while (!self->closed_) {
            if (self->in.size() >= read_ahead) {
                const bool go_on = co_await self->consumed_.wait();
                if (!go_on) break;
                continue;
            }
            error_code ec;
            const auto room = self->in.prepare();
            const std::size_t n = co_await self->stream_->read_some(room, ec);
            self->in.commit(n);
            if (n == 0) break;
            self->arrived_.notify();
        }
    } catch (...) { // nobody reads any more: a coroutine that waits for bytes must be woken
        failed = std::current_exception();
    }
    self->ended_ = true;
    self->leave();
    self->arrived_.notify();
    if (failed) std::rethrow_exception(failed);
}

asio::awaitable<bool> server_connection::more_than(std::size_t n) {
    while (in.size() <= n && !ended_ && !closed_) {
        const bool notified = co_await arrived_.wait();
        if (!notified) co_return false;
    }
    co_return in.size() > n && !closed_;
}

void server_connection::consume(std::size_t n) {
    in.consume(n);
    if (in.size() < read_ahead) consumed_.notify();
}

// lint: law2 the caller keeps the bytes while it awaits
asio::awaitable<bool> server_connection::write(std::string_view bytes) {
    while (!bytes.empty() && !closed_) {
        error_code ec;
        const asio::const_buffer rest(bytes.data(), bytes.size());
        expect_peer();
        const std::size_t n = co_await stream_->write_some(rest, ec);
        peer_delivered();
        bytes.remove_prefix(n);
        if (ec) {
            leave();
            close(ending::fin);
        }
    }
    co_return !closed_;
}

// lint: law2 the caller keeps the bytes while it awaits
asio::awaitable<bool> server_connection::write_body(std::string_view before, std::string_view body,
                                                    std::string_view after) {
    const bool cut = cut_after_ && *cut_after_ <= body.size();
    if (cut) {
        body = body.substr(0, static_cast<std::size_t>(*cut_after_));
        after = {};
    } else if (cut_after_) {
        *cut_after_ -= body.size();
    }
    if (body.size() <= one_packet) {
        std::string together;
        together.reserve(before.size() + body.size() + after.size());
        together.append(before).append(body).append(after);
        co_await write(together);
    } else {
        co_await write(before);
        co_await write(body);
        co_await write(after);
    }
    if (cut) close(cut_resets_ ? ending::reset : ending::fin);
    co_return !closed_;
}

void server_connection::cut_after(std::uint64_t n, bool reset) {
    cut_after_ = n;
    cut_resets_ = reset;
}

void server_connection::close(ending how) noexcept {
    if (closed_) return;
    closed_ = true;
    if (timer_) timer_->cancel();
    if (how == ending::reset) {
        stream_->reset();
    } else {
        stream_->finish_sending();
        stream_->close();
    }
    leave();
    arrived_.notify();
    consumed_.notify();
}

void server_connection::leave() noexcept {
    if (gone_) return;
    gone_ = true;
    left_.notify();
    const auto calls = std::exchange(on_gone_, {});
    for (const auto& call : calls) call_back(call);
}

void server_connection::call_back(const std::function<void()>& f) const noexcept {
    try {
        f();
    } catch (...) {
        try {
            rt_.log(log_level::error, "http server: what a handler wanted called when the peer is gone threw: " +
                                          informer::detail::what_is_wrong());
        } catch (...) { // NOLINT(bugprone-empty-catch) not even for words
        }
    }
}

void server_connection::on_gone(std::function<void()> f) {
    if (!f) return;
    if (gone_)
        call_back(f);
    else
        on_gone_.push_back(std::move(f));
}

void server_connection::forget_request() noexcept {
    on_gone_.clear();
    cut_after_.reset();
}

asio::awaitable<void> server_connection::wait_gone(std::shared_ptr<server_connection> self) {
    while (!self->gone_) {
        const bool notified = co_await self->left_.wait();
        if (!notified) break;
    }
}

} // namespace informer::http::detail
