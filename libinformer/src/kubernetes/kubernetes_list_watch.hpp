// List and watch requests of the Kubernetes API, streamed into a sink.
#pragma once

#include "kubernetes/client_impl.hpp"
#include "kubernetes/json_tools.hpp"

#include <memory>
#include <string>

namespace informer::kubernetes::detail {

std::shared_ptr<list_watch> make_list_watch(std::shared_ptr<client::impl> c, api_resource r, std::string name_space);

/// One page. Cancellation comes as a failure if the caller runs it `quietly`.
asio::awaitable<list_result> list_into(std::shared_ptr<client::impl> c, api_resource r, std::string name_space,
                                       list_options options, object_sink& sink, failure& f);
asio::awaitable<void> watch_into(std::shared_ptr<client::impl> c, api_resource r, std::string name_space,
                                 watch_options options, object_sink& sink, failure& f);

/// Gives the executor a turn; returns true.
asio::awaitable<bool> take_turn(asio::any_io_executor executor);

/// The time limits of a watch that is asked to last for `lasts`: the server ends it, and if the server does not, we do,
/// a little later. The header may take half a minute, or (`late_header`) all of that time.
http::timeouts watch_times(http::timeouts t, std::chrono::seconds lasts, bool late_header = false);

/// The query part of a request, "?" included; parameters in client-go's (alphabetical) order.
std::string list_query(const list_options& o);
std::string watch_query(const watch_options& o);

} // namespace informer::kubernetes::detail
