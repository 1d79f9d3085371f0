// What every command needs: the client, the resource, the scope.
#pragma once

#include "command_line.hpp"
#include "terminal.hpp"

#include <informer/cache/shared_informer.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/runtime.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <memory>
#include <string>

namespace informerctl {

namespace asio = boost::asio;

/// One run of the program. Shared by the coroutines of a command.
struct session {
    session(command_line c, informer::runtime r, informer::kubernetes::client k)
        : line(std::move(c)), runtime(std::move(r)), client(std::move(k)) {}

    command_line line;
    informer::runtime runtime;
    informer::kubernetes::client client;
    informer::api_resource resource;
    output out;

    /// "" for all namespaces and for cluster-scoped resources.
    std::string name_space() const;
    /// The resource's, "pods" or "pods in ns1", for messages.
    std::string describe() const;
    std::string field_selector() const; ///< with metadata.name=NAME when a name was given
    /// What the user asked of the informer of `watch` and `sync`.
    informer::informer_options informer_options() const;
};

/// Finds what `line.resource` names; throws `informer::error`.
asio::awaitable<void> find_resource(std::shared_ptr<session> s);

asio::awaitable<int> run_get(std::shared_ptr<session> s);
asio::awaitable<int> run_watch(std::shared_ptr<session> s);
asio::awaitable<int> run_sync(std::shared_ptr<session> s);
asio::awaitable<int> run_resources(std::shared_ptr<session> s);

/// One clear line on stderr; returns 1.
int complain(const std::string& what);

} // namespace informerctl
