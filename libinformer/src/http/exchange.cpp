#include "http/exchange.hpp"

#include "root/quietly.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/string.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace informer::http::detail {

namespace {

// Cancellation is checked after each step, so that callers get a failure and not an exception.
using informer::detail::quietly;

/// Stores a failure; without memory for its text, the code alone.
template <class Make>
void note(failure& to, const error_code& code, Make make) noexcept {
    try {
        to = make();
    } catch (const std::bad_alloc&) {
        to = failure(code, std::string());
    }
}

} // namespace

exchange::exchange(asio::any_io_executor executor, std::shared_ptr<pool> p, prepared_request r)
    : executor_(executor), pool_(std::move(p)), request_(std::move(r)),
      timer_(std::make_shared<phase_timer>(executor, request_.plan.limits.request_)) {}

exchange::~exchange() {
    timer_->cancel();
}

asio::awaitable<void> exchange::start(std::shared_ptr<exchange> self, failure& f) {
    return quietly(begin(std::move(self), f));
}

asio::awaitable<void> exchange::begin(std::shared_ptr<exchange> self, failure& f) {
    f = failure();
    self->busy_ = true;
    const auto cancellation = co_await asio::this_coro::cancellation_state;
    if (cancellation.cancelled() != asio::cancellation_type::none)
        f = failure(errc::cancelled, self->request_.doing);
    else
        co_await self->perform(f);
    self->busy_ = false;
    if (f) {
        self->fail(f);
        self->timer_->cancel();
    }
}

asio::awaitable<void> exchange::perform(failure& f) {
    bool fresh_only = false;
    for (;;) {
        if (!fresh_only) connection_ = pool_->take();
        reused_ = connection_ != nullptr;
        if (!reused_) {
            failure opening;
            auto stream = co_await open(executor_, request_.plan, timer_, opening);
            if (opening) {
                f = opening;
                co_return;
            }
            ++pool_->figures.connections_opened;
            connection_ = std::make_unique<connection>();
            connection_->stream = std::move(stream);
            connection_->generation = request_.plan.generation;
        }
        timer_->on_late([stream = connection_->stream] { stream->close(); });
        reader_.emplace(request_.no_response_body);
        any_byte_ = false;
        f = failure();
        co_await send(f);
        // A server that refuses a long body answers and closes before it has read the body: look for that answer, or
        // for the alert by which the server refuses our certificate. But if a GET, which has no body, could not be
        // written on a reused connection, the connection is dead.
        if (!f || (f == errc::write_failed && !(reused_ && request_.get))) {
            failure reading;
            co_await read_header(reading);
            if (!f || !reading || reading == errc::cancelled || reading == errc::tls_failed ||
                reading == errc::connect_failed)
                f = reading;
        }
        // A connection that served requests before has given not one byte: something on the way may have dropped it
        // silently, and with it the other connections that were idle at the time. Each of them would cost its next
        // request the whole time-out.
        if (f && reused_ && !any_byte_) pool_->close_idle();
        // The peer may close an idle connection at the moment we use it. A GET can be sent twice without harm.
        const bool unlucky =
            reused_ && request_.get && !any_byte_ && (f == errc::connection_lost || f == errc::write_failed);
        if (!unlucky) break;
        connection_.reset();
        fresh_only = true;
    }
    if (f) co_return;
    if (reader_->done()) {
        complete();
        co_return;
    }
    const auto encoding = reader_->field("Content-Encoding");
    if (boost::beast::iequals(encoding, "gzip") || boost::beast::iequals(encoding, "x-gzip"))
        inflater_ = std::make_unique<inflater>();
}

bool exchange::interrupted(asio::cancellation_type cancelled, std::string_view doing, failure& f) const {
    const std::string what = request_.doing + std::string(doing);
    if (cancelled != asio::cancellation_type::none)
        f = failure(errc::cancelled, what);
    else if (const auto late = timer_->late())
        f = failure(*late, what);
    else if (closed_)
        f = failure(errc::cancelled, what + " (closed)");
    else
        return false;
    return true;
}

failure exchange::lost(std::string_view doing, const error_code& ec) const {
    std::string what = request_.doing + std::string(doing);
    // After a handshake that succeeded on our side, a server may still refuse our certificate (TLS 1.3): it sends an
    // alert instead of the first byte of the first answer. In the same way a proxy may refuse because we have none. An
    // error that our own side finds says nothing of the kind.
    if (!reused_ && !any_byte_ && is_tls_alert(ec)) {
        if (request_.plan.to.tls) return failure(errc::tls_failed, what + ": " + ec.message());
        return failure(errc::connect_failed,
                       what + ": the proxy " + request_.plan.way->through.url() + " (" + ec.message() + ")");
    }
    if (ec) what += " (" + ec.message() + ")";
    return failure(errc::connection_lost, what);
}

asio::awaitable<void> exchange::send(failure& f) {
    ++pool_->figures.requests;
    co_await send_all(request_.head, f);
    if (!f && !request_.body.empty()) co_await send_all(request_.body, f);
}

// lint: law2 the bytes are the request's, which the exchange owns
asio::awaitable<void> exchange::send_all(std::string_view bytes, failure& f) {
    while (!bytes.empty()) {
        error_code ec;
        timer_->begin(request_.plan.limits.body_idle_, errc::body_idle_timeout);
        const asio::const_buffer rest(bytes.data(), bytes.size());
        const std::size_t n = co_await connection_->stream->write_some(rest, ec);
        timer_->end();
        pool_->figures.bytes_sent += n;
        const auto cancellation = co_await asio::this_coro::cancellation_state;
        if (interrupted(cancellation.cancelled(), ": send the request", f)) co_return;
        if (ec) {
            f = failure(errc::write_failed, request_.doing + " (" + ec.message() + ")");
            co_return;
        }
        bytes.remove_prefix(n);
    }
}

asio::awaitable<std::size_t> exchange::fill(std::chrono::milliseconds limit, errc late, error_code& ec) {
    input_buffer& in = connection_->in;
    timer_->begin(limit, late);
    const auto room = in.prepare();
    const auto before = std::chrono::steady_clock::now();
    const std::size_t n = co_await connection_->stream->read_some(room, ec);
    timer_->end();
    in.commit(n, std::chrono::steady_clock::now() - before >= std::chrono::seconds(1));
    pool_->figures.bytes_received += n;
    any_byte_ = any_byte_ || n > 0;
    co_return n;
}

asio::awaitable<void> exchange::read_header(failure& f) {
    static constexpr std::string_view doing = ": wait for the response";
    // One limit for the whole header, however slowly it arrives.
    const auto limit = request_.plan.limits.header_;
    const auto start = std::chrono::steady_clock::now();
    input_buffer& in = connection_->in;
    for (;;) {
        error_code ec;
        in.consume(reader_->header(in.view(), ec));
        if (ec) {
            f = failure(errc::bad_response, request_.doing + ": not an HTTP response (" + ec.message() + ")");
            co_return;
        }
        if (reader_->header_done()) co_return;
        auto left = limit;
        if (limit.count() > 0) {
            left -= std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
            if (left.count() <= 0) {
                f = failure(errc::header_timeout, request_.doing + std::string(doing));
                co_return;
            }
        }
        const std::size_t n = co_await fill(left, errc::header_timeout, ec);
        const auto cancellation = co_await asio::this_coro::cancellation_state;
        if (interrupted(cancellation.cancelled(), doing, f)) co_return;
        if (n == 0) {
            f = lost(doing, ec);
            co_return;
        }
    }
}

asio::awaitable<std::size_t> exchange::read_some(std::shared_ptr<exchange> self, asio::mutable_buffer to, failure& f) {
    return quietly(read_body(std::move(self), to, nullptr, f));
}

asio::awaitable<std::size_t> exchange::receive(std::shared_ptr<exchange> self, body_parts& parts, failure& f) {
    parts.clear();
    return quietly(read_body(std::move(self), asio::mutable_buffer(), &parts, f));
}

/// One step through the body: copied into `to`, or handed out in `parts` where it was received.
asio::awaitable<std::size_t> exchange::read_body(std::shared_ptr<exchange> self, asio::mutable_buffer to,
                                                 body_parts* parts, failure& f) {
    f = self->failure_;
    if (f || (self->complete_ && !self->inflater_) || (!parts && to.size() == 0)) co_return 0;
    const auto cancellation = co_await asio::this_coro::cancellation_state;
    std::size_t n = 0;
    self->busy_ = true;
    if (cancellation.cancelled() != asio::cancellation_type::none)
        f = failure(errc::cancelled, self->request_.doing + ": read the response");
    else if (parts)
        n = co_await self->receive_parts(*parts, f);
    else if (self->inflater_)
        n = co_await self->read_decoded(to, f);
    else
        n = co_await self->read_raw(to, f);
    self->busy_ = false;
    if (f) {
        self->fail(f);
        if (n > 0) f = failure(); // reported by the next call
    }
    co_return n;
}

/// Finds the next part of the body in what was received; false when there is none yet, at the end, or if it is broken.
bool exchange::next_part() {
    if (!part_.empty()) return true;
    if (complete_ || broken_ || !connection_) return false;
    input_buffer& in = connection_->in;
    error_code ec;
    in.consume(reader_->body(in.view(), part_, ec));
    if (ec) broken_ = failure(errc::bad_response, request_.doing + ": broken response body (" + ec.message() + ")");
    // What the parser leaves is an unfinished chunk header or trailer; such lines are short.
    else if (part_.empty() && !reader_->done() && in.size() > max_header)
        broken_ = failure(errc::bad_response, request_.doing + ": endless chunk header");
    return !part_.empty();
}

/// Reads until there is a part; false at the end of the body, and on error.
asio::awaitable<bool> exchange::wait_for_part(failure& f) {
    static constexpr std::string_view doing = ": read the response";
    while (!complete_ && !next_part()) {
        f = broken_;
        if (f) co_return false;
        if (reader_->done()) {
            complete();
            break;
        }
        error_code ec;
        const std::size_t n = co_await fill(request_.plan.limits.body_idle_, errc::body_idle_timeout, ec);
        const auto cancellation = co_await asio::this_coro::cancellation_state;
        if (interrupted(cancellation.cancelled(), doing, f)) co_return false;
        if (n > 0) continue;
        // Over TLS, too, some servers end a body by closing the connection, and do not announce it. As in Go, that
        // counts as an end if no record is cut and nothing else ends the body. An attacker who can cut the connection
        // can shorten such a body, as without TLS; but what is read is JSON or gzip, which have an end of their own.
        const bool ended =
            ec == asio::error::eof || (ec == asio::ssl::error::stream_truncated && !connection_->stream->pending());
        error_code incomplete;
        if (ended) reader_->end_of_stream(incomplete);
        if (!ended || incomplete) {
            f = lost(doing, ec);
            co_return false;
        }
        complete();
    }
    co_return !part_.empty();
}

asio::awaitable<std::size_t> exchange::read_raw(asio::mutable_buffer to, failure& f) {
    const bool some = co_await wait_for_part(f);
    if (!some) co_return 0;
    std::size_t n = 0;
    while (n < to.size() && next_part()) {
        const std::size_t copied = asio::buffer_copy(to + n, asio::const_buffer(part_.data(), part_.size()));
        part_.remove_prefix(copied);
        n += copied;
    }
    if (part_.empty() && !broken_ && reader_->done()) complete();
    co_return n;
}

asio::awaitable<std::size_t> exchange::read_decoded(asio::mutable_buffer to, failure& f) {
    const std::uint64_t received = pool_->figures.bytes_received;
    for (;;) {
        bool bad = false;
        const std::size_t n = inflater_->inflate(part_, to, bad);
        if (bad) f = failure(errc::bad_response, request_.doing + ": the body is not gzip");
        if (n > 0 || bad) {
            // A few received bytes may inflate to many: without this post a caller that reads them all would not
            // suspend meanwhile.
            if (pool_->figures.bytes_received == received) co_await asio::post(executor_, asio::use_awaitable);
            co_return n;
        }
        const bool some = co_await wait_for_part(f);
        if (some) continue;
        if (!f && !inflater_->at_end())
            f = failure(errc::bad_response, request_.doing + ": the gzip'd body ends too early");
        if (!f) inflater_.reset();
        co_return 0;
    }
}

asio::awaitable<std::size_t> exchange::receive_parts(body_parts& parts, failure& f) {
    if (inflater_) {
        inflated_.resize(input_buffer::piece);
        const asio::mutable_buffer room(inflated_.data(), inflated_.size());
        const std::size_t n = co_await read_decoded(room, f);
        if (n > 0) parts.emplace_back(inflated_.data(), n);
        co_return n;
    }
    const bool some = co_await wait_for_part(f);
    std::size_t n = 0;
    while (some && next_part()) {
        n += part_.size();
        parts.push_back(std::exchange(part_, {}));
    }
    co_return n;
}

void exchange::complete() noexcept {
    complete_ = true;
    timer_->cancel();
    if (reader_->keep_alive() && !closed_) pool_->give(std::move(connection_));
    connection_.reset();
}

void exchange::fail(const failure& f) noexcept {
    note(failure_, f.code(), [&] { return f; });
    timer_->cancel();
    connection_.reset();
}

void exchange::close() noexcept {
    closed_ = true;
    timer_->cancel();
    if (!complete_ && !failure_)
        note(failure_, errc::cancelled, [&] { return failure(errc::cancelled, request_.doing + " (closed)"); });
    if (!connection_) return;
    connection_->stream->close();
    if (!busy_) connection_.reset();
}

} // namespace informer::http::detail
