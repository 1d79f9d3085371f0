// The controller itself: a Deployment for every Foo.
#pragma once

#include <informer/cache/informer_factory.hpp>
#include <informer/controller/controller.hpp>
#include <informer/controller/event_recorder.hpp>
#include <informer/kubernetes/client.hpp>

#include <boost/json/value.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace sample_controller {

namespace asio = boost::asio;

const informer::api_resource& foos();
const informer::api_resource& deployments();

/// Keeps for every Foo a Deployment with the name and the number of replicas of its spec, owned by the Foo, and writes
/// how many replicas are available into the Foo's status. A Deployment of that name that is not the Foo's is left alone
/// and reported by an event. When the Foo names another Deployment, the old one is deleted.
class foo_controller {
public:
    foo_controller(informer::kubernetes::client client, informer::event_recorder recorder);
    /// *Lifetime*: `self` lives as long as the controller.
    static informer::controller make(std::shared_ptr<foo_controller> self, informer::runtime rt,
                                     informer::informer_factory& factory, std::string name_space, std::size_t workers);

private:
    asio::awaitable<informer::reconcile_result> reconcile(informer::reconcile_request request);
    asio::awaitable<informer::object> deployment_for(informer::object foo, std::string name, std::int64_t replicas,
                                                     informer::failure& f);
    asio::awaitable<void> remove_others(informer::object foo, std::string name, informer::failure& f);

    informer::kubernetes::client client_;
    informer::event_recorder recorder_;
    std::shared_ptr<const informer::lister> foos_, deployments_;
};

/// The Deployment that a Foo wants.
boost::json::value new_deployment(const informer::object& foo, const std::string& name, std::int64_t replicas,
                                  informer::failure& f);

} // namespace sample_controller
