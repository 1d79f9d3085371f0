// One page of a list in memory.
#pragma once

#include "kubernetes/client_impl.hpp"

#include <memory>
#include <string>

namespace informer::kubernetes::detail {

/// What an answer about `r` is decoded with.
decode_options options_for(const client::impl& c, const api_resource& r);
/// For the objects of a list with these options.
std::shared_ptr<document_pool> pool_for(const client::impl& c, const api_resource& r, const list_options& options);

/// Cancellation comes as a failure if the caller runs it `quietly`.
asio::awaitable<object_list> list_page(std::shared_ptr<client::impl> c, api_resource r, std::string name_space,
                                       list_options options, std::shared_ptr<document_pool> pool, bool retry,
                                       failure& f);

} // namespace informer::kubernetes::detail
