// The API server that the conformance cases run against: the embedded one, or the one that
// INFORMER_CONFORMANCE_KUBECONFIG names (./dev conformance).
#pragma once

#include "support/run.hpp"
#include "support/tcp_proxy.hpp"

#include <informer/cache/shared_informer.hpp>
#include <informer/http/url.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/task_group.hpp>
#include <informer/testing/api_server.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace informer::conformance {

namespace json = boost::json;

/// One server and one client, a namespace of its own for each case, and a proxy to cut connections.
///
/// *Lifetime*: `co_await open()` first, `co_await close()` last; `close()` stops the informers that `follow()` made.
class cluster {
public:
    explicit cluster(asio::io_context& context, testing::api_server_options options = default_options());

    static testing::api_server_options default_options();
    bool embedded() const noexcept { return server_ != nullptr; }
    asio::awaitable<void> open();
    asio::awaitable<void> close();

    kubernetes::client& client() { return *client_; }
    /// A client whose connections go through `proxy()`.
    kubernetes::client& fragile() { return *fragile_; }
    testing::tcp_proxy& proxy() { return *proxy_; }
    testing::api_server* server() noexcept { return server_.get(); }
    const informer::runtime& runtime() const { return runtime_; }
    const std::string& name_space() const { return name_space_; }
    const api_resource& config_maps() const { return config_maps_; }

    /// `labels` as "k=v,k=v".
    json::value config_map(std::string name, std::string data, std::string labels = {}) const;
    asio::awaitable<object> put(std::string name, std::string data, std::string labels = {}); ///< creates
    /// Writes data.value with a merge patch.
    asio::awaitable<object> change(std::string name, std::string data);
    asio::awaitable<void> drop(std::string name);

    /// A unique name: `prefix` and some random letters and digits.
    static std::string unique(std::string_view prefix);
    /// Posts a CustomResourceDefinition `widgets.<group>` (default: a unique one) and waits until it is served.
    asio::awaitable<api_resource> make_crd(std::string group = {});
    asio::awaitable<void> remove_crd(api_resource resource);

    /// A running informer, stopped by `close()`.
    std::shared_ptr<shared_informer> follow(std::shared_ptr<list_watch> from,
                                            informer_options options = informer_options());

private:
    informer::runtime runtime_;
    std::unique_ptr<testing::api_server> server_;
    testing::api_server_options options_;
    std::optional<kubernetes::client> client_, fragile_;
    std::unique_ptr<testing::tcp_proxy> proxy_;
    api_resource config_maps_, namespaces_, crds_;
    std::string name_space_;
    std::vector<std::shared_ptr<shared_informer>> followed_;
    std::vector<api_resource> made_;
    task_group group_;
};

/// All events of a subscription, and the state that they add up to.
struct replay {
    std::map<std::string, object> state;
    std::vector<event> log;
    std::size_t marks = 0; ///< synced marks
    std::size_t count(event_kind k) const;
    std::vector<event> of(std::string_view key) const;
};
asio::awaitable<void> collect(std::shared_ptr<subscription> from, std::shared_ptr<replay> into);

/// A list_watch in front of a real one that fails on demand, in ways in which a client cannot make a real server fail.
class faulty_list_watch : public list_watch {
public:
    explicit faulty_list_watch(std::shared_ptr<list_watch> real) : real_(std::move(real)) {}
    const api_resource& resource() const override { return real_->resource(); }
    std::string describe() const override { return real_->describe(); }
    asio::awaitable<list_result> list(list_options options, object_sink& sink, failure& f) override;
    asio::awaitable<void> watch(watch_options options, object_sink& sink, failure& f) override;

    bool refuse_watch_list = false; ///< 422, as with the feature off
    unsigned watches_gone = 0;      ///< this many plain watches are answered 410 next
    unsigned pages_gone = 0;        ///< this many continued pages are answered 410 next
    std::vector<list_options> lists;
    std::vector<watch_options> watches;

private:
    std::shared_ptr<list_watch> real_;
};

/// Runs one case on a fresh io_context against a fresh namespace.
void run_case(std::function<asio::awaitable<void>(std::shared_ptr<cluster>)> body,
              testing::api_server_options options = cluster::default_options(),
              std::chrono::seconds deadline = std::chrono::seconds(120));

} // namespace informer::conformance
