// What looks at a request before it is served.
#pragma once

#include <informer/http/server/server.hpp>

#include <boost/asio/awaitable.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace informer::http {

/// The answer to a request that is not served. The text is shown to whoever asks: no secrets.
class refusal {
public:
    refusal(int status, std::string text) : status_(status), text_(std::move(text)) {}
    refusal& header(std::string name, std::string value) {
        headers_.emplace_back(std::move(name), std::move(value));
        return *this;
    }

    int status_;
    std::string text_;
    std::vector<std::pair<std::string, std::string>> headers_;
};

/// Decides whether a request may be served: nothing lets it pass.
///
/// *Executor*: called and awaited on the server's, for several requests at a time. *Errors*: a request whose filter
/// throws is answered 500. *Cancellation*: terminal, when the server stops.
using request_filter = std::function<asio::awaitable<std::optional<refusal>>(std::shared_ptr<const server_request>)>;

} // namespace informer::http
