// A controller with scripted sources and a manual clock.
#pragma once

#include "support/run.hpp"

#include <informer/cache/informer_factory.hpp>
#include <informer/controller/controller.hpp>
#include <informer/detail/async.hpp>
#include <informer/task_group.hpp>
#include <informer/testing/manual_clock.hpp>
#include <informer/testing/scripted_list_watch.hpp>

#include <boost/asio/this_coro.hpp>
#include <catch2/catch_test_macros.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace controller_test {

namespace asio = boost::asio;
using namespace informer;
using namespace std::chrono_literals;
using informer::testing::eventually;
using informer::testing::list_script;
using informer::testing::manual_clock;
using informer::testing::run_test;
using informer::testing::scripted_list_watch;
using informer::testing::settle;
using informer::testing::watch_script;

inline const api_resource foos("samplecontroller.k8s.io", "v1alpha1", "foos", "Foo");
inline const api_resource deployments("apps", "v1", "deployments", "Deployment");

/// A Foo. `more` begins with a comma and holds further members of its metadata.
inline std::string foo(const std::string& name, int version, const std::string& more = {}) {
    return R"({"apiVersion":"samplecontroller.k8s.io/v1alpha1","kind":"Foo","metadata":{"namespace":"ns","name":")" +
           name + R"(","uid":"u-)" + name + R"(","resourceVersion":")" + std::to_string(version) + "\"" + more + "}}";
}
inline std::string deployment(const std::string& name, int version, const std::string& owner, bool controlling = true,
                              const std::string& owner_version = "samplecontroller.k8s.io/v1alpha1") {
    return R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"ns","name":")" + name +
           R"(","uid":"u-)" + name + R"(","resourceVersion":")" + std::to_string(version) +
           R"(","ownerReferences":[{"apiVersion":")" + owner_version + R"(","kind":"Foo","name":")" + owner +
           R"(","uid":"u-)" + owner + R"(","controller":)" + (controlling ? "true" : "false") + "}]}}";
}

/// Everything a test needs; to be made inside the coroutine of the test.
class bench {
public:
    explicit bench(asio::any_io_executor ex)
        : clock(std::make_shared<manual_clock>()), rt(with_clock(ex, clock, logged)),
          foo_source(std::make_shared<scripted_list_watch>(ex, foos)),
          deployment_source(std::make_shared<scripted_list_watch>(ex, deployments)),
          factory(rt,
                  [this](const api_resource& r, const std::string&) -> std::shared_ptr<list_watch> {
                      return r == foos ? foo_source : deployment_source;
                  }),
          group(ex) {}

    informer_options plain() const { return informer_options().watch_list(false); }
    source_options source() const { return source_options().informer(plain()); }
    controller_builder build() { return controller_builder(rt, factory, "foos"); }
    controller_builder of_foos() {
        auto b = build();
        b.for_(foos, source());
        return b;
    }

    /// A reconciler that notes the keys and returns the next of their `answers`, or `done` if there is none.
    reconciler noting() {
        return [this](reconcile_request q) -> asio::awaitable<reconcile_result> {
            seen.push_back(q.key.name);
            attempts.push_back(q.attempts);
            auto& mine = answers[q.key.name];
            if (mine.empty()) co_return reconcile_result::done();
            const auto next = mine.front();
            mine.erase(mine.begin());
            co_return next();
        };
    }
    /// Runs the controller beside the test, and keeps its error, if any.
    void start(controller c) { group.spawn(keep_error(c.run(), error_of_run, ended)); }
    static asio::awaitable<void> keep_error(asio::awaitable<void> run, std::shared_ptr<std::string> text,
                                            std::shared_ptr<bool> over) {
        try {
            co_await std::move(run);
        } catch (const std::exception& e) {
            *text = e.what();
        }
        *over = true;
    }
    /// Answers the lists of both resources with the given objects, and opens their watches.
    void serve(std::vector<std::string> f, std::vector<std::string> d = {}) {
        foo_source->on_list(list_script().items(std::move(f)).version("10"));
        deployment_source->on_list(list_script().items(std::move(d)).version("10"));
        foo_watch = foo_source->on_watch();
        foo_watch->open();
        deployment_watch = deployment_source->on_watch();
        deployment_watch->open();
    }
    asio::awaitable<void> finish(controller c) {
        c.stop();
        const auto over = ended;
        const std::function<bool()> done = [over] { return *over; };
        const bool ok = co_await eventually(done);
        CHECK(ok);
        co_await end();
    }
    asio::awaitable<void> end() {
        group.stop();
        co_await group.join();
        co_await factory.shutdown();
    }
    std::size_t count(const std::string& name) const {
        return static_cast<std::size_t>(std::count(seen.begin(), seen.end(), name));
    }
    bool has_logged(const std::string& part) const {
        return std::any_of(logged->begin(), logged->end(),
                           [&](const auto& line) { return line.find(part) != std::string::npos; });
    }

    std::shared_ptr<std::vector<std::string>> logged = std::make_shared<std::vector<std::string>>();
    std::shared_ptr<manual_clock> clock;
    runtime rt;
    std::shared_ptr<scripted_list_watch> foo_source, deployment_source;
    std::shared_ptr<watch_script> foo_watch, deployment_watch;
    informer_factory factory;
    task_group group;
    std::shared_ptr<std::string> error_of_run = std::make_shared<std::string>();
    std::shared_ptr<bool> ended = std::make_shared<bool>(false);
    std::vector<std::string> seen;
    std::vector<std::uint32_t> attempts;
    std::map<std::string, std::vector<std::function<reconcile_result()>>> answers;

private:
    static runtime with_clock(asio::any_io_executor ex, std::shared_ptr<manual_clock> c,
                              std::shared_ptr<std::vector<std::string>> lines) {
        runtime r(ex);
        r.with_clock(std::move(c)).with_seed(1);
        r.with_logger([lines](log_level, std::string_view line) { lines->emplace_back(line); });
        return r;
    }
};

/// A door that reconciles wait at.
class door {
public:
    explicit door(asio::any_io_executor ex) : opened_(ex) {}
    void open() { opened_.notify(); }
    asio::awaitable<bool> pass() { return opened_.wait(); }

private:
    detail::async_event opened_;
};

} // namespace controller_test
