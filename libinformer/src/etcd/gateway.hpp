// Requests to etcd's members: which member is asked, with which credentials, and what its refusals mean.
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

/// gRPC's code and etcd's sentence as the HTTP error that they correspond to. `http_status`: 0 within a stream.
failure refused(int http_status, std::int64_t grpc_code, std::string_view text, std::string doing);
/// The failure may be this member's alone: another one may answer.
bool is_members_fault(const failure& f);
/// etcd does not know the token, or no longer.
bool is_tokens_fault(const failure& f);

/// The answer is over gRPC's limit of 2 GiB for a message: fewer keys must be requested.
bool too_large_an_answer(const failure& f);

/// One request. All requests only read, so each may be sent again.
class call {
public:
    call(std::string path_, std::string body_, std::string doing_)
        : path(std::move(path_)), body(std::move(body_)), doing(std::move(doing_)) {}
    std::string path, body, doing;
    http::timeouts time;
    /// Makes a member that was cut off from the others refuse the request, instead of silently serving its old state.
    bool needs_leader = true;
    /// For all attempts together, in real time like `time`.
    std::optional<std::chrono::steady_clock::time_point> deadline;
};

class gateway {
public:
    gateway(runtime r, config c, failure& f);

    /// An answer and the member that gave it.
    class opened {
    public:
        opened() {}
        http::response answer;
        std::size_t member = 0;
    };
    /// Returns when the header of a 200 is there. Members that cannot answer are passed over, each once; a token that
    /// is refused is replaced once.
    static asio::awaitable<opened> open(std::shared_ptr<gateway> self, call c, failure& f);
    /// The member did not end an answer that it began: the next request goes to the next member.
    void fails(std::size_t member) noexcept;
    /// The token was refused within a stream that had been opened with it.
    void token_refused() noexcept { token_.clear(); }

    const config& options() const noexcept { return config_; }
    runtime rt;

private:
    static asio::awaitable<http::response> send(std::shared_ptr<gateway> self, std::shared_ptr<const call> c,
                                                failure& f);
    static asio::awaitable<void> authenticate(std::shared_ptr<gateway> self, std::shared_ptr<const call> c, failure& f);

    /// Logs at info level that a member is passed over, and that it answers again; attempts in between, at debug level.
    void note_passed_over(std::size_t member, const failure& f);
    void note_answer(std::size_t member);

    config config_;
    http::detail::tls_source tls_;
    informer::detail::secret_file password_file_;
    std::vector<std::unique_ptr<http::client>> members_;
    std::vector<bool> passed_over_; ///< for each member: whether it was, when last asked
    std::size_t current_ = 0;
    std::string token_;
    bool authentication_off_ = false; ///< etcd has it off, according to its answer
};

} // namespace informer::etcd::detail
