// List and watch requests of etcd, streamed into a sink.
#pragma once

#include "etcd/gateway.hpp"

#include <informer/etcd/list_watch.hpp>
#include <informer/source/list_watch.hpp>

#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace informer::etcd::detail {

/// What one source keeps between its requests.
class source {
public:
    source(std::shared_ptr<gateway> g, mapping m) : members(std::move(g)), rules(std::move(m)) {}
    std::string describe() const;

    std::shared_ptr<gateway> members;
    mapping rules;
    std::uint64_t entry_bytes = 0; ///< of the text of a list, one key with another; 0 before the first page
    std::string cluster;           ///< whose revisions we know; "" before the first answer

    /// A request ended while the sink was told of these revisions: of each of them it may know a part.
    void torn(std::int64_t first, std::int64_t last);
    /// Where a watch begins that is to go on after this revision.
    std::int64_t start_after(std::int64_t revision) const noexcept;

private:
    struct range {
        std::int64_t first, last;
    };
    std::vector<range> torn_;
};

/// A revision as the API writes it: "" and "0" are 0; nullopt where it is none.
std::optional<std::int64_t> revision_of(std::string_view text) noexcept;

/// One page, or all of them. Cancellation comes as a failure if the caller runs it `quietly`.
asio::awaitable<list_result> list_into(std::shared_ptr<source> s, list_options options, object_sink& sink, failure& f);
asio::awaitable<void> watch_into(std::shared_ptr<source> s, watch_options options, object_sink& sink, failure& f);

} // namespace informer::etcd::detail
