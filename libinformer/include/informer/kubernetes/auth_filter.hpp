// Who may read the pages of this program: the API server says it.
#pragma once

#include <informer/http/server/request_filter.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/runtime.hpp>

namespace informer::kubernetes {

/// Delegated authentication and authorization, as controller-runtime's `WithAuthenticationAndAuthorization` protects
/// metrics: the bearer token of a request is sent to the API server in a TokenReview, and then a SubjectAccessReview
/// asks whether its user (with groups, uid and extra) may do the method (in lower case: get, head) on the path.
///
/// | | the answer |
/// |---|---|
/// | no bearer token, or one that the API server does not know | 401 |
/// | the user may not | 403, with user and path |
/// | the API server cannot be asked, or does not answer within ten seconds | 503 |
/// | it refuses the review, or its answer makes no sense | 500; the log says why |
///
/// This program needs the ClusterRole `system:auth-delegator` (to create tokenreviews and subjectaccessreviews), who
/// reads the pages one that allows their nonResourceURLs (for `/metrics`, `system:monitoring` is enough).
///
/// *Caching*: as in controller-runtime, an authenticated token is good for a minute, a permission for five minutes, and
/// a denial for thirty seconds, since somebody may be waiting for the permission. So a token that was revoked, or a
/// permission that was taken back, still works for that long. A token that is not authenticated is asked about each
/// time: strangers cannot fill the cache. There are at most 1,000 tokens and 1,000 decisions; beyond that those that
/// end first go. Tokens are kept as HMAC-SHA-256 with a key that is random and never leaves the process. Equal
/// questions at the same time are asked once.
///
/// *Security*: over a connection without TLS a token can be read, and used, by whoever is on the way. Client
/// certificates are not looked at.
///
/// *Retries*: the client's; a scrape that failed comes again by itself. *Executor*: the runtime's, which must be that
/// of the server. *Errors*: a failed review is logged once, until the next one works. Throws `error` if the system
/// has no random numbers. *Cancellation*: terminal; it ends the review, and the filter throws
/// `error(errc::cancelled)`. *Lifetime*: copies of the filter share all this, and connections with the client.
http::request_filter make_auth_filter(runtime r, client c);

} // namespace informer::kubernetes
