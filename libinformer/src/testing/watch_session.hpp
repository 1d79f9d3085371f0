// One open watch: sends a table's history from its position on, in order, as fast as the peer reads.
#pragma once

#include "outgoing.hpp"
#include "rest_api.hpp"

#include <informer/detail/async.hpp>

#include <chrono>
#include <memory>
#include <string>

namespace informer::testing::detail {

class watch_session {
public:
    watch_session(runtime r, watch_plan plan, std::chrono::milliseconds bookmark_every,
                  std::chrono::milliseconds default_time_out);

    const table* rows() const noexcept { return plan_.type->rows.get(); }
    void wake() { wake_.notify(); }
    /// Sends a bookmark if the peer asked for bookmarks.
    void bookmark();
    /// Ends the stream cleanly after all pending changes are sent.
    void finish();
    /// Sends an ERROR event 410, then ends the stream.
    void expire();

    /// Runs until the time-out, until the peer leaves, or until `finish` or `expire`.
    static asio::awaitable<void> run(std::shared_ptr<watch_session> self, std::shared_ptr<outgoing> out,
                                     std::shared_ptr<const rest_api> api);

private:
    using time_point = informer::clock::time_point;

    static asio::awaitable<bool> send_initial(std::shared_ptr<watch_session> self, std::shared_ptr<outgoing> out);
    /// The next piece of the stream; empty when there is nothing to send.
    std::string next_piece(const rest_api& api);
    void append(std::string& piece, std::string_view type, std::string_view text) const;
    void append_object(std::string& piece, std::string_view type, const std::string& text) const;
    void append_change(std::string& piece, const change& c);
    std::string bookmark_event(std::uint64_t version, bool end_of_initial) const;
    void append_bookmarks_due(std::string& piece, const rest_api& api);
    bool served(const rest_api& api) const;
    time_point next_wake() const;

    runtime runtime_;
    watch_plan plan_;
    informer::detail::async_event wake_;
    std::string head_;
    std::chrono::milliseconds bookmark_every_;
    time_point deadline_, next_bookmark_, last_bookmark_;
    std::uint64_t announced_ = 0; ///< the highest version that was sent to the peer
    bool last_bookmark_due_ = false;
    bool bookmark_now_ = false, finishing_ = false, expiring_ = false, over_ = false;
};

} // namespace informer::testing::detail
