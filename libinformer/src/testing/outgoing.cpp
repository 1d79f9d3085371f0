#include "outgoing.hpp"

namespace informer::testing::detail {

outgoing::outgoing(std::shared_ptr<http::server_response> response, std::optional<fault> f)
    : response_(std::move(response)) {
    if (!f) return;
    switch (f->what) {
    case fault::kind::reset_after: response_->cut_after(f->bytes, true); break;
    case fault::kind::cut_after: response_->cut_after(f->bytes, false); break;
    case fault::kind::stall_after:
    case fault::kind::garbage_body:
    case fault::kind::end_watch: fault_ = std::move(f); break;
    default: break; // these hit before the answer is made
    }
}

asio::awaitable<bool> outgoing::send(std::shared_ptr<outgoing> self, int status, std::string type, std::string body,
                                     header_list headers) {
    if (!self->fault_) {
        const bool sent = co_await self->response_->send(status, std::move(type), std::move(body), std::move(headers));
        co_return sent;
    }
    const bool begun = co_await begin(self, status, std::move(type));
    if (!begun) co_return false;
    const bool more = co_await emit(self, std::move(body));
    if (!more) co_return false;
    const bool ended = co_await end(self);
    co_return ended;
}

asio::awaitable<bool> outgoing::begin(std::shared_ptr<outgoing> self, int status, std::string type) {
    const bool begun = co_await self->response_->begin(status, std::move(type));
    if (!begun) co_return false;
    if (self->fault_ && self->fault_->bytes == 0) {
        const bool goes_on = co_await hit(self);
        co_return goes_on;
    }
    co_return true;
}

asio::awaitable<bool> outgoing::emit(std::shared_ptr<outgoing> self, std::string bytes) {
    if (bytes.empty()) co_return true; // an empty chunk would end the body
    if (self->fault_ && self->sent_ + bytes.size() >= self->fault_->bytes) {
        auto rest = bytes.substr(static_cast<std::size_t>(self->fault_->bytes - self->sent_));
        bytes.resize(bytes.size() - rest.size());
        if (!bytes.empty()) {
            const bool written = co_await self->response_->write(std::move(bytes));
            if (!written) co_return false;
        }
        const bool goes_on = co_await hit(self);
        if (!goes_on) co_return false;
        bytes = std::move(rest);
        if (bytes.empty()) co_return true;
    }
    self->sent_ += bytes.size();
    const bool written = co_await self->response_->write(std::move(bytes));
    co_return written;
}

asio::awaitable<bool> outgoing::end(std::shared_ptr<outgoing> self) {
    const bool ended = co_await self->response_->end();
    co_return ended;
}

asio::awaitable<bool> outgoing::hit(std::shared_ptr<outgoing> self) {
    auto f = std::move(*self->fault_);
    self->fault_.reset();
    if (f.what == fault::kind::garbage_body) {
        if (f.text.empty()) co_return true;
        const bool written = co_await self->response_->write(std::move(f.text));
        co_return written;
    }
    if (f.what == fault::kind::end_watch) {
        co_await self->response_->end();
        co_return false;
    }
    co_await self->response_->wait_gone();
    co_return false;
}

} // namespace informer::testing::detail
