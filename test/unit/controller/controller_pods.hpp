// A controller of Foos with pods of several namespaces beside it, whose sources come and go.
#pragma once

#include "controller_fixture.hpp"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace controller_test {

inline const api_resource pods("", "v1", "pods", "Pod");

inline std::string pod(const std::string& name_space, const std::string& name, int version) {
    return R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":")" + name_space + R"(","name":")" + name +
           R"(","uid":"u-)" + name_space + name + R"(","resourceVersion":")" + std::to_string(version) + "\"}}";
}

/// A bench with a second factory, whose pods have a scripted source for each namespace.
class pods_bench : public bench {
public:
    explicit pods_bench(asio::any_io_executor ex)
        : bench(ex), pod_factory(rt, [this, ex](const api_resource& r, const std::string& name_space) {
              auto made = std::make_shared<scripted_list_watch>(ex, r);
              by_namespace[name_space] = made;
              return std::static_pointer_cast<list_watch>(made);
          }) {}
    /// To be called when the source was added.
    std::shared_ptr<watch_script> serve_pods(const std::string& name_space, std::vector<std::string> items) {
        const auto& from = by_namespace.at(name_space);
        from->on_list(list_script().items(std::move(items)).version("10"));
        auto opened = from->on_watch();
        opened->open();
        return opened;
    }
    source_options in(const std::string& name_space) const { return source().name_space(name_space); }
    std::function<bool()> has_seen(const std::string& name, std::size_t times = 1) {
        return [this, name, times] { return count(name) == times; };
    }
    /// Runs the controller and waits until it is in sync.
    asio::awaitable<void> start_and_sync(controller c) {
        start(c);
        const std::function<bool()> ready = [c] { return c.not_ready().empty(); };
        const bool ok = co_await eventually(ready);
        CHECK(ok);
    }
    asio::awaitable<void> finish_all(controller c) {
        co_await finish(c);
        co_await pod_factory.shutdown();
    }

    std::map<std::string, std::shared_ptr<scripted_list_watch>> by_namespace;
    informer_factory pod_factory;
};

} // namespace controller_test
