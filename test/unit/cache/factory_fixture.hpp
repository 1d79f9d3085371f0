// A factory of informers on scripted sources, and a manual clock.
#pragma once

#include "informer_fixture.hpp"

#include <informer/cache/informer_factory.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace informer::testing {

inline const api_resource pods("", "v1", "pods", "Pod");
inline const api_resource nodes("", "v1", "nodes", "Node", false);
inline const std::string a_node =
    R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"a","uid":"u","resourceVersion":"1"}})";

/// The io_context, the clock, the sources made so far and the factory of one test; the destructor shuts it down.
struct workshop {
    workshop()
        : clock(std::make_shared<manual_clock>()), rt(make_runtime()),
          factory(rt, [this](const api_resource& r, std::string ns) { return make(r, std::move(ns)); }) {}
    ~workshop() {
        boost::asio::co_spawn(context, factory.shutdown(), [](std::exception_ptr) {});
        context.restart();
        context.run_for(std::chrono::seconds(5));
        CHECK(context.stopped());
    }

    runtime make_runtime() {
        runtime r(context.get_executor());
        r.with_clock(clock).with_seed(1);
        return r;
    }
    std::shared_ptr<list_watch> make(const api_resource& r, std::string ns) {
        auto s = std::make_shared<scripted_list_watch>(context.get_executor(), r);
        made.emplace_back(r.plural + "/" + ns, s);
        auto w = s->on_watch();
        if (!first_watch) first_watch = w;
        if (refuse) {
            w->fail(status_failure(403, "Forbidden"));
            s->on_list(list_script().fail(status_failure(403, "Forbidden")));
        } else if (answer) {
            for (int i = 0; i < more; ++i) w->added(pod("more-" + std::to_string(i), 1));
            w->added(r.namespaced ? pod("a", 1) : a_node).bookmark("5", true);
        }
        return s;
    }
    void settle() {
        context.restart();
        while (context.poll() != 0) context.restart();
    }
    std::shared_ptr<scripted_list_watch> source(std::size_t i) { return made.at(i).second.lock(); }

    boost::asio::io_context context{1};
    std::shared_ptr<manual_clock> clock;
    bool answer = true, refuse = false;
    int more = 0; ///< additional objects of each source
    std::vector<std::pair<std::string, std::weak_ptr<scripted_list_watch>>> made;
    std::shared_ptr<watch_script> first_watch; ///< of the first source
    runtime rt;
    informer_factory factory;
};

} // namespace informer::testing
