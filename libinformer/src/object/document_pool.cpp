#include <informer/object/document_pool.hpp>
#include <informer/object/json.hpp>

#include "detail/pool.hpp"
#include "detail/pool_slices.hpp"

#include <algorithm>
#include <utility>

namespace informer {
namespace detail {

std::unique_ptr<decoding> pool::begin_decode(std::string_view json, object previous) {
    return std::make_unique<text_slices>(shared_from_this(), json, std::move(previous));
}

std::unique_ptr<decoding> pool::begin_move(object o) {
    return std::make_unique<move_slices>(shared_from_this(), std::move(o));
}

std::shared_ptr<document_pool> make_pool(decode_options options, pool_limits limits) {
    return std::make_shared<pool>(std::move(options), limits);
}

/// For a pool of one document: a first chunk that the document nearly fills.
pool_limits limits_for(std::size_t text_size) {
    pool_limits l;
    l.first_chunk = static_cast<std::uint32_t>(std::clamp<std::size_t>(text_size / 2 + 256, 512, 64 * 1024));
    return l;
}

} // namespace detail

std::shared_ptr<document_pool> document_pool::make(decode_options options) {
    return detail::make_pool(std::move(options), detail::pool_limits());
}

object parse_object(std::string_view json, failure& f, decode_options options) {
    return detail::make_pool(std::move(options), detail::limits_for(json.size()))->decode(json, object(), f);
}

object parse_object(std::string_view json, decode_options options) {
    failure f;
    object o = parse_object(json, f, std::move(options));
    throw_on(f);
    return o;
}

object from_value(const boost::json::value& v) {
    failure f;
    object o = document_pool::make()->encode(v, object(), f);
    throw_on(f);
    return o;
}

} // namespace informer
