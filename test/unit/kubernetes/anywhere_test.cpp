// Verbs of a client, and calls that wait for an informer, awaited outside the strand that they belong to.
#include <informer/cache/informer_factory.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/task_group.hpp>
#include <informer/testing/api_server.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/json/parse.hpp>
#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace informer;
using namespace std::chrono_literals;

namespace {

const api_resource config_maps("", "v1", "configmaps", "ConfigMap");

std::string name_of(int i) {
    return "c" + std::to_string(i);
}

boost::json::value config_map(int i) {
    return boost::json::parse(R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":")" +
                              name_of(i) + R"("},"data":{"n":")" + std::to_string(i) + "\"}}");
}

/// A server with a thread of its own, and a client on a strand of an io_context that three threads run.
class pool_of_threads {
public:
    pool_of_threads() {
        server.start();
        for (int i = 0; i < objects; ++i) server.create(config_map(i));
        serving_ = std::thread([this] { server_io_.run(); });
        client.emplace(rt, server.config());
        factory.emplace(rt, client->list_watches());
        for (int i = 0; i < 3; ++i) running_.emplace_back([this] { io.run(); });
    }
    ~pool_of_threads() {
        asio::co_spawn(strand, shut_down(&*factory), asio::use_future).get();
        busy_.reset();
        for (auto& t : running_) t.join();
        asio::co_spawn(server_io_, server.stop(), asio::use_future).get();
        server_busy_.reset();
        serving_.join();
    }
    pool_of_threads(const pool_of_threads&) = delete;
    pool_of_threads& operator=(const pool_of_threads&) = delete;

    void inject(testing::fault f) {
        asio::post(server_io_, asio::use_future([this, f = std::move(f)]() mutable { server.inject(std::move(f)); }))
            .get();
    }

    std::size_t requests() {
        return asio::post(server_io_, asio::use_future([this] { return server.requests().size(); })).get();
    }

    /// Called on the strand, as a factory must be.
    static asio::awaitable<void> shut_down(informer_factory* f) { co_await f->shutdown(); }

    static constexpr int objects = 200;
    asio::io_context io;

private:
    asio::io_context server_io_{1};
    asio::executor_work_guard<asio::io_context::executor_type> busy_ = asio::make_work_guard(io),
                                                               server_busy_ = asio::make_work_guard(server_io_);

public:
    asio::strand<asio::io_context::executor_type> strand = asio::make_strand(io);
    runtime rt{strand};
    testing::api_server server{runtime(server_io_.get_executor())};
    std::optional<kubernetes::client> client;
    std::optional<informer_factory> factory;

private:
    std::thread serving_;
    std::vector<std::thread> running_;
};

/// Runs on `here`, a strand of its own that is not the client's.
asio::awaitable<void> asks(pool_of_threads* p, asio::any_io_executor here, int i, std::atomic<int>* right) {
    failure f;
    const object o = co_await p->client->get(config_maps, object_key("default", name_of(i)), f);
    if (!f && o["data"]["n"].string_or_empty() == std::to_string(i) && !p->strand.running_in_this_thread()) ++*right;
    const auto executor = co_await asio::this_coro::executor;
    if (executor == here) ++*right;
    const object missing = co_await p->client->get(config_maps, object_key("default", "none"), f);
    if (f == condition::not_found && !missing) ++*right;
}

asio::awaitable<void> waits(pool_of_threads* p, shared_informer pods, std::atomic<int>* right) {
    co_await pods.synced(20s);
    if (!p->strand.running_in_this_thread()) ++*right;
    boost::json::value changed = config_map(0);
    changed.at("data").as_object()["n"] = "changed";
    const object written = co_await p->client->update(config_maps, std::move(changed));
    co_await pods.wait_until(written.resource_version(), 20s);
    const object now = pods.get("default/c0");
    if (now["data"]["n"].string_or_empty() == "changed") ++*right;
    std::function<bool(const object&)> there = [](const object& o) { return static_cast<bool>(o); };
    const object found = co_await pods.until(object_key("default", "c1"), std::move(there), 20s);
    if (found.name() == "c1" && !p->strand.running_in_this_thread()) ++*right;
    try {
        co_await pods.wait_until(resource_version("999999999"), 10ms);
    } catch (const error& e) {
        if (e.code() == errc::deadline_exceeded) ++*right;
    }
}

} // namespace

TEST_CASE("anywhere: verbs may be awaited on any executor, and come back to it") {
    pool_of_threads p;
    std::atomic<int> right = 0;
    std::vector<std::future<void>> all;
    for (int i = 0; i < p.objects; ++i) {
        const asio::any_io_executor own = asio::make_strand(p.io);
        all.push_back(asio::co_spawn(own, asks(&p, own, i, &right), asio::use_future));
    }
    for (auto& one : all) one.get();
    CHECK(right == 3 * p.objects);
}

TEST_CASE("anywhere: calls that wait for an informer may be awaited on any executor") {
    pool_of_threads p;
    std::atomic<int> right = 0;
    const informer_handle pods =
        asio::post(p.strand, asio::use_future([&] { return p.factory->get(config_maps); })).get();
    std::vector<std::future<void>> all;
    all.push_back(asio::co_spawn(p.io, waits(&p, *pods, &right), asio::use_future));
    for (auto& one : all) one.get();
    CHECK(right == 4);
}

TEST_CASE("anywhere: a verb is cancelled from the executor where it is awaited") {
    pool_of_threads p;
    p.inject(testing::fault(testing::fault::kind::stall_after));
    asio::cancellation_signal stop;
    std::promise<std::string> told;
    const auto own = asio::make_strand(p.io);
    asio::co_spawn(own, p.client->get(config_maps, object_key("default", "c0")),
                   asio::bind_cancellation_slot(stop.slot(), [&](std::exception_ptr e, const object&) {
                       try {
                           if (e) std::rethrow_exception(e);
                           told.set_value("");
                       } catch (const std::exception& x) {
                           told.set_value(x.what());
                       }
                   }));
    while (p.requests() == 0) std::this_thread::yield();
    asio::post(own, [&] { stop.emit(asio::cancellation_type::terminal); });
    const std::string why = told.get_future().get();
    CHECK_FALSE(why.empty());
}
