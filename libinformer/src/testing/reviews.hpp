// TokenReviews, SubjectAccessReviews and TokenRequests of the embedded server.
#pragma once

#include "request_route.hpp"
#include "rest_api.hpp"

#include <informer/testing/api_server.hpp>

#include <boost/json/fwd.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace informer::testing::detail {

/// Whether the request is about one of the two kinds of reviews, which are answered and not stored.
bool is_review(const request_info& i);

class reviews {
public:
    using time_point = std::chrono::system_clock::time_point;

    /// A TokenRequest: `token` is good until its time is over or the service account is deleted.
    boost::json::object request_token(const rest_api& api, const target& account, boost::json::object body,
                                      std::string token, time_point now);
    /// A review, answered. The tokens are those of the options and those that were requested; a user may do what a
    /// ClusterRole that is bound to the user or a group allows, and everything in the group system:masters.
    boost::json::object answer(const rest_api& api, const std::vector<api_server_options::token_entry>& tokens,
                               const request_info& what, boost::json::object body, time_point now) const;

private:
    struct given {
        target account;
        std::string uid, id; ///< of the account, and of the token
        time_point until;
    };
    /// UserInfo; empty if the token is no one's.
    boost::json::object user_of(const std::vector<api_server_options::token_entry>& tokens, const std::string& token,
                                time_point now) const;

    std::map<std::string, given> given_; ///< by token
    std::uint64_t next_id_ = 0;
};

} // namespace informer::testing::detail
