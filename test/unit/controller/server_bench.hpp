// A client and an embedded API server on one io_context.
#pragma once

#include "support/run.hpp"

#include <informer/controller/reconcile.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/object/json.hpp>
#include <informer/task_group.hpp>
#include <informer/testing/api_server.hpp>
#include <informer/testing/manual_clock.hpp>

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json.hpp>
#include <catch2/catch_test_macros.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace server_test {

namespace asio = boost::asio;
namespace json = boost::json;
using namespace informer;
using namespace std::chrono_literals;
using informer::testing::eventually;
using informer::testing::fault;
using informer::testing::run_test;
using informer::testing::settle;

inline const api_resource config_maps("", "v1", "configmaps", "ConfigMap");
inline const api_resource deployments("apps", "v1", "deployments", "Deployment");

/// Everything a test needs; to be made inside the coroutine of the test.
class bench {
public:
    explicit bench(asio::any_io_executor ex)
        : clock(std::make_shared<informer::testing::manual_clock>()), rt(turned_by_hand(ex, clock)),
          server(runtime(ex)), client(rt, at(server)) {}

    json::value config_map(const std::string& name, const std::string& more = {}) {
        return server.create(
            json::parse(R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":")" + name +
                        "\"" + more + "}}"));
    }
    object read(const std::string& name) const { return from_value(server.get("configmaps", "default", name)); }
    std::size_t asked(std::string_view verb, std::string_view resource) const {
        std::size_t n = 0;
        for (const auto& q : server.requests()) n += q.verb == verb && q.resource == resource ? 1 : 0;
        return n;
    }

    std::shared_ptr<informer::testing::manual_clock> clock;
    runtime rt;
    informer::testing::api_server server;
    kubernetes::client client;

private:
    static runtime turned_by_hand(asio::any_io_executor ex, std::shared_ptr<informer::testing::manual_clock> c) {
        runtime r(ex);
        r.with_clock(std::move(c)).with_seed(1);
        return r;
    }
    static kubernetes::client_config at(informer::testing::api_server& s) {
        s.start();
        return s.config();
    }
};

} // namespace server_test
