// What lists and watches of etcd have in common: entries on their way into the sink.
#pragma once

#include "etcd/document.hpp"
#include "etcd/gateway.hpp"
#include "etcd/wire.hpp"
#include "root/turn_watch.hpp"

#include <informer/object/selector.hpp>
#include <informer/source/list_watch.hpp>

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace informer::etcd::detail {

/// Which objects the selectors choose, by the values as they were received: the cache may keep less of them.
class selection {
public:
    /// `f`: bad_selector.
    selection(const std::string& labels, const std::string& fields, failure& f);
    bool everything() const noexcept { return !pool_; }
    bool matches(const object& o) const { return labels_.matches(o) && fields_.matches(o); }
    /// Null if everything is chosen.
    const std::shared_ptr<document_pool>& pool() const noexcept { return pool_; }

private:
    label_selector labels_;
    field_selector fields_;
    std::shared_ptr<document_pool> pool_;
};

/// The state of one request. Lives as long as its coroutine.
struct reading {
    reading(std::shared_ptr<gateway> g, mapping m, object_sink& s, std::string d, selection c, message_reader::kind k)
        : members(std::move(g)), rules(std::move(m)), sink(&s), doing(std::move(d)), chosen(std::move(c)),
          reader(k, members->options().max_object_) {}
    virtual ~reading() = default;

    std::shared_ptr<gateway> members;
    mapping rules;
    object_sink* sink;
    std::string doing;
    selection chosen;
    message_reader reader;
    informer::detail::turn_watch pace{1};
    document text;
    std::size_t position = 0; ///< of the current entry
    std::uint64_t bytes = 0;  ///< received
    bool enough = false;      ///< the sink has seen enough

    /// A value that was received, as an object.
    struct made {
        object o;
        bool matches = true; ///< also if it is bad, as nobody knows then
        failure bad;
    };
    static asio::awaitable<made> make(std::shared_ptr<reading> r, std::shared_ptr<const key_value> kv, named_key name,
                                      std::int64_t resource_version, bool only_match, failure& f);
    static asio::awaitable<bool> turn(std::shared_ptr<reading> r, failure& f);
    /// Reads the body of an answer slice by slice, up to its end. If that fails, or there is `enough`, the answer is
    /// closed.
    static asio::awaitable<void> read_body(std::shared_ptr<reading> r, std::shared_ptr<http::response> answer,
                                           failure& f);

private:
    /// Handles what the reader has found.
    virtual asio::awaitable<void> take_found(std::shared_ptr<reading> self, failure& f) = 0;
    static asio::awaitable<object> decode(std::shared_ptr<reading> r, std::shared_ptr<document_pool> own,
                                          object previous, failure& why, failure& f);
};

/// Whether the running request has been cancelled; then `f` says so.
asio::awaitable<bool> stopped(std::string doing, failure& f);

} // namespace informer::etcd::detail
