// The implementation of the embedded server: it connects the transport to the sans-io API.
#pragma once

#include "access.hpp"
#include "fault_plan.hpp"
#include "kubeconfig_text.hpp"
#include "outgoing.hpp"
#include "request_route.hpp"
#include "rest_api.hpp"
#include "reviews.hpp"
#include "watch_session.hpp"

#include <informer/http/server/server.hpp>
#include <informer/testing/api_server.hpp>
#include <informer/testing/certificates.hpp>

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace informer::testing {

struct api_server::impl : std::enable_shared_from_this<api_server::impl> {
    using request_ptr = std::shared_ptr<http::server_request>;
    using response_ptr = std::shared_ptr<http::server_response>;

    impl(runtime r, api_server_options o);

    /// A whole answer (`body`), a list or a watch.
    struct answer {
        int status = 200;
        std::string type = "application/json";
        std::string body;
        detail::header_list headers;
        std::optional<detail::list_answer> list;
        std::optional<detail::watch_plan> watch;
    };

    static asio::awaitable<void> handle(std::shared_ptr<impl> self, request_ptr request, response_ptr response);
    static asio::awaitable<bool> play_fault(std::shared_ptr<impl> self, std::shared_ptr<fault> f, request_info info,
                                            response_ptr response);
    static asio::awaitable<void> send_list(std::shared_ptr<detail::outgoing> out, detail::list_answer list);
    static asio::awaitable<void> send_watch(std::shared_ptr<impl> self, std::shared_ptr<detail::outgoing> out,
                                            detail::watch_plan plan);

    answer answer_to(const http::server_request& request, const detail::route& r);
    answer answer_object(const http::server_request& request, const detail::route& r);
    answer answer_write(const http::server_request& request, const detail::route& r, const detail::target& t,
                        detail::answer_form form);
    answer answer_review(const http::server_request& request, const request_info& what) const;
    answer request_token(const http::server_request& request, const detail::target& account);
    answer answer_discovery(const http::server_request& request, const detail::route& r) const;
    static answer of_refusal(const api_status& status);

    void note(request_info info);
    std::string server_address() const;
    /// Who may come in: each user that has a token, or else the administrator. The first one is the default.
    std::vector<detail::kubeconfig_user> users() const;
    detail::type_ptr type_named(std::string_view resource) const;

    runtime runtime_;
    api_server_options options_;
    std::shared_ptr<detail::rest_api> api_;
    detail::reviews reviews_;
    detail::fault_plan faults_;
    std::deque<request_info> requests_;
    std::uint64_t request_count_ = 0;
    std::set<std::shared_ptr<detail::watch_session>> watches_;
    std::set<response_ptr> streams_; ///< responses of open watches, to reset them
    std::optional<certificate_authority> authority_;
    std::string no_ca_;
    std::optional<key_pair> admin_;
    std::shared_ptr<http::server> server_;
};

} // namespace informer::testing
