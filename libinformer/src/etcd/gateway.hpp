// Requests to etcd's members: which one is asked, who asks, and what their refusals mean.
#pragma once

#include <informer/etcd/list_watch.hpp>
#include <informer/http/client.hpp>
#include <informer/runtime.hpp>

#include "http/tls_source.hpp"
#include "root/secret_file.hpp"

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace informer::etcd::detail {

/// gRPC's code and etcd's sentence as the error of the API that it is like. `http_status`: 0 within a stream.
failure refused(int http_status, std::int64_t grpc_code, std::string_view text, std::string doing);
/// Another member may do better.
bool is_members_fault(const failure& f);
/// The token is not, or no longer, known.
bool is_tokens_fault(const failure& f);

/// gRPC has no message of more than 2 GiB: fewer keys are to be asked for.
bool too_large_an_answer(const failure& f);

/// One request. They all only read, so that each may be sent again.
class call {
public:
    call(std::string path_, std::string body_, std::string doing_)
        : path(std::move(path_)), body(std::move(body_)), doing(std::move(doing_)) {}
    std::string path, body, doing;
    http::timeouts time;
    /// A member that was cut off from the others is to say so, and not to serve its old state in silence.
    bool needs_leader = true;
    /// For all attempts together, in real time as `time`.
    std::optional<std::chrono::steady_clock::time_point> deadline;
};

class gateway {
public:
    gateway(runtime r, config c, failure& f);

    /// An answer and who gave it.
    class opened {
    public:
        opened() {}
        http::response answer;
        std::size_t member = 0;
    };
    /// Waits for the header of a 200. A member that cannot answer is passed over once round; a token that is refused is replaced once.
    static asio::awaitable<opened> open(std::shared_ptr<gateway> self, call c, failure& f);
    /// What it began to answer it did not end: the next request goes to the next one.
    void fails(std::size_t member) noexcept;
    /// Within a stream that was opened with it.
    void token_refused() noexcept { token_.clear(); }

    const config& options() const noexcept { return config_; }
    runtime rt;

private:
    static asio::awaitable<http::response> send(std::shared_ptr<gateway> self, std::shared_ptr<const call> c,
                                                failure& f);
    static asio::awaitable<void> authenticate(std::shared_ptr<gateway> self, std::shared_ptr<const call> c, failure& f);

    /// Logged when a member is passed over, and when it answers again: not for each time that it is tried meanwhile.
    void note_passed_over(std::size_t member, const failure& f);
    void note_answer(std::size_t member);

    config config_;
    http::detail::tls_source tls_;
    informer::detail::secret_file password_file_;
    std::vector<std::unique_ptr<http::client>> members_;
    std::vector<bool> passed_over_; ///< of the members: the last time that it was asked
    std::size_t current_ = 0;
    std::string token_;
    bool authentication_off_ = false; ///< etcd's; found out
};

} // namespace informer::etcd::detail
