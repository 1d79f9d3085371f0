// A list in pages.
#pragma once

#include <informer/error.hpp>
#include <informer/object/api_resource.hpp>
#include <informer/object/document_pool.hpp>
#include <informer/object/object.hpp>
#include <informer/object/resource_version.hpp>
#include <informer/source/list_watch.hpp>

#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace informer::kubernetes {

class client;

/// One page of a list, or all of it.
struct object_list {
    std::vector<object> items;
    resource_version version;
    std::string continue_token;  ///< of the next page; empty on the last one
    std::vector<bad_object> bad; ///< items that could not be used
};

/// Lists page by page (client-go's pager), for programs that go through many objects once. What follows changes is an
/// informer.
///
///     list_pager pods(client, {"", "v1", "pods", "Pod"});
///     while (auto page = co_await pods.next())
///         for (const object& pod : page->items) …
///
/// A page has the `limit` of the options, or 500 objects. A resource version in the options goes with the first page;
/// the others are of the same version. Where the server no longer has it (kube-apiserver keeps five minutes), it
/// answers 410, errc::gone: `begin_anew`, or go on in another version with a pager that has the token of the failure's
/// `status()`, if there is one. `all` begins anew by itself.
///
/// *Thread safety*, *Executor*: as the client's verbs, one call at a time. *Cancellation*: as theirs. *Errors*: those
/// of `client::list`; errc::bad_response if pages go round in a circle. After a failure, the same page is asked for
/// again. *Lifetime*: holds what a copy of the client holds; copies of a pager are one pager. Its objects share
/// memory: what several pages have in common is stored once, and what is dropped serves the next page.
class list_pager {
public:
    static constexpr std::uint64_t page_size = 500; ///< client-go's

    explicit list_pager(const client& c, api_resource resource, std::string name_space = {},
                        list_options options = list_options());

    /// The next page, perhaps without items; nothing after the last.
    asio::awaitable<std::optional<object_list>> next();
    asio::awaitable<std::optional<object_list>> next(failure& f);
    /// All that is left, with the version of its first page. If it began at the beginning and a later page has expired,
    /// it lists once more, in one piece. After a failure it begins where it began.
    asio::awaitable<object_list> all();
    asio::awaitable<object_list> all(failure& f);
    /// From the beginning, in one piece, where pages expire before they are read. Not while a call is under way.
    void begin_anew();

private:
    struct impl;
    std::shared_ptr<impl> impl_;
};

} // namespace informer::kubernetes
