// List and watch requests of etcd, streamed into a sink.
#pragma once

#include "etcd/gateway.hpp"

#include <informer/error.hpp>
#include <informer/etcd/list_watch.hpp>
#include <informer/source/list_watch.hpp>

#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace informer::etcd::detail {

/// What one source keeps between its requests.
class source {
public:
    source(std::shared_ptr<gateway> g, mapping m) : members(std::move(g)), rules(std::move(m)) {}
    std::string describe() const;

    std::shared_ptr<gateway> members;
    mapping rules;
    std::uint64_t next_page = 0; ///< number of keys in the next page; 0 before the first one
    std::string cluster;         ///< the one whose revisions watches follow; "" before the first watch
    /// The revision that the last list was pinned to, and the cluster that answered. A watch from that revision on
    /// follows that cluster. A list that no watch goes on from (a look at the newest revision) does not hide that
    /// another cluster answers.
    std::int64_t listed_at = 0;
    std::string listed_by;

    /// Counts a key of the list under way, over its pages. `why`: the reason if the key cannot be used.
    void count_key(const failure& why);
    /// A new list begins, or its last page has ended.
    void list_begins() noexcept { keys_ = unusable_ = 0; }
    void list_ends();

private:
    std::uint64_t keys_ = 0, unusable_ = 0;
    failure first_unusable_;
    bool none_usable_ = false; ///< in the last list, and this was logged
};

/// A revision as the API writes it: "" and "0" are 0; nullopt if it is no revision.
std::optional<std::int64_t> revision_of(std::string_view text) noexcept;

/// The failure if another cluster answers: the revisions that we know belong to another history.
failure another_cluster(std::string_view answers, std::string_view instead_of, std::string doing);
/// The failure if the revision that is asked for is newer than the newest one there is.
failure not_there_yet(std::int64_t asked, std::int64_t newest, std::string doing);

/// The newest revision that the members agree on (a linearizable read).
asio::awaitable<std::int64_t> newest_revision(std::shared_ptr<source> s, std::string doing, failure& f);

/// One page, or all of them. Cancellation comes as a failure if the caller runs it `quietly`.
asio::awaitable<list_result> list_into(std::shared_ptr<source> s, list_options options, object_sink& sink, failure& f);
asio::awaitable<void> watch_into(std::shared_ptr<source> s, watch_options options, object_sink& sink, failure& f);

} // namespace informer::etcd::detail
