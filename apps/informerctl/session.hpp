// What every command needs: the client or the source, the resource, the scope.
#pragma once

#include "command_line.hpp"
#include "terminal.hpp"

#include <informer/cache/shared_informer.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/runtime.hpp>
#include <informer/source/list_watch.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace informerctl {

namespace asio = boost::asio;

/// One run of the program. Shared by the coroutines of a command.
struct session {
    session(command_line c, informer::runtime r) : line(std::move(c)), runtime(std::move(r)) {}

    command_line line;
    informer::runtime runtime;
    // Exactly one of these two is set.
    std::optional<informer::kubernetes::client> client;
    std::shared_ptr<informer::list_watch> etcd;
    informer::api_resource resource;
    output out;

    /// "" for all namespaces and for cluster-scoped resources.
    std::string name_space() const;
    /// For messages: the resource ("pods", "pods in ns1") or the keys ("/services/", "all keys").
    std::string describe() const;
    std::string field_selector() const; ///< with metadata.name=NAME when a name was given
    /// The name as other programs take it: "pod/nginx", or the key in etcd.
    std::string name_of(const informer::object& o) const;
    /// For messages: the key, in etcd that of etcd, or "item 7" of a list.
    std::string name_of(const informer::bad_object& b) const;
    /// The options that the user asked for, for the informer of `watch` and `sync`.
    informer::informer_options informer_options() const;
};

/// Finds what `line.resource` names; throws `informer::error`.
asio::awaitable<void> find_resource(std::shared_ptr<session> s);
/// Finds the resource too, and returns the source that an informer reads it from; with etcd, just the source.
asio::awaitable<std::shared_ptr<informer::list_watch>> find_source(std::shared_ptr<session> s);
/// Sets the session up for the etcd of its line.
void use_etcd(session& s, informer::failure& f);
/// The key in etcd of an object or of a bad one.
std::string etcd_key(const command_line& line, const informer::object_key& key);
/// The object key that `name` stands for among keys in etcd: a name in the namespace asked for, or "namespace/name".
informer::object_key key_of(const command_line& line, const std::string& name);

asio::awaitable<int> run_get(std::shared_ptr<session> s);
asio::awaitable<int> run_get_keys(std::shared_ptr<session> s); ///< of etcd
asio::awaitable<int> run_watch(std::shared_ptr<session> s);
asio::awaitable<int> run_sync(std::shared_ptr<session> s);
asio::awaitable<int> run_resources(std::shared_ptr<session> s);
asio::awaitable<int> run_types(std::shared_ptr<session> s);

/// Reports, by its name, a key in etcd whose value is left out.
void skip(const session& s, const informer::bad_object& b);
/// What `get` prints. `single`: one object was asked for by its name. Returns the exit code.
int print_objects(session& s, const std::vector<informer::object>& items, bool single);

/// Writes one line to stderr; returns 1.
int complain(const std::string& what);

} // namespace informerctl
