// Other tests rely on this: the scripted source behaves like the real one.
#include "bench.hpp"

#include <informer/detail/async.hpp>
#include <informer/task_group.hpp>
#include <informer/testing/scripted_list_watch.hpp>

#include <catch2/catch_test_macros.hpp>

using namespace kubernetes_test;

namespace {

/// A sink that is behind until its `ready` is cancelled.
class behind final : public object_sink {
public:
    explicit behind(asio::any_io_executor executor) : room_(std::move(executor)) {}
    document_pool& pool() override { return *pool_; }
    object previous(const object_key&, std::size_t) override { return {}; }
    void item(object) override {}
    void event(watch_event_type, object) override {}
    void bookmark(resource_version, bool) override {}
    void quarantine(bad_object) override {}
    asio::awaitable<bool> ready() override {
        waits = true;
        return room_.wait();
    }
    bool waits = false;

private:
    std::shared_ptr<document_pool> pool_ = document_pool::make();
    detail::async_event room_;
};

asio::awaitable<void> list_into(list_watch* from, object_sink* to, failure* f, bool* ended) {
    const list_options o;
    co_await from->list(o, *to, *f);
    *ended = true;
}

asio::awaitable<void> watch_into(list_watch* from, object_sink* to, failure* f, bool* ended) {
    const watch_options o;
    co_await from->watch(o, *to, *f);
    *ended = true;
}

} // namespace

TEST_CASE("a list whose sink has seen enough ends without failure, scripted or real") {
    bench b;
    testing::scripted_list_watch scripted(b.io.get_executor(), pods());
    scripted.on_list(testing::list_script().items({pod("a"), pod("b")}).version("100").slice(1));
    b.answers->next.push_back(reply().streamed({pod_list({pod("a")}).substr(0, 90)}, reply::stall));
    const auto real = b.api->make_list_watch(pods(), "");
    for (list_watch* from : {static_cast<list_watch*>(&scripted), real.get()}) {
        recorder sink;
        sink.enough = 0;
        failure f;
        const auto result = b.run(from->list(list_options(), sink, f));
        CHECK_FALSE(f);
        CHECK(result.resource_version.empty());
    }
}

TEST_CASE("two callers that wait for one scripted source are both answered, in their order") {
    bench b;
    testing::scripted_list_watch scripted(b.io.get_executor(), pods());
    recorder sinks[2];
    failure why[2];
    std::vector<std::string> lists;
    int watches = 0;
    for (int i = 0; i < 2; ++i) {
        asio::co_spawn(b.io, scripted.list(list_options(), sinks[i], why[i]),
                       [&lists](std::exception_ptr, list_result r) { lists.push_back(r.resource_version.str()); });
        asio::co_spawn(b.io, scripted.watch(watch_options(), sinks[i], why[i]),
                       [&watches](std::exception_ptr) { ++watches; });
    }
    const auto settle = [&b] {
        b.io.restart();
        b.io.poll();
    };
    settle();
    for (const char* version : {"1", "2"}) {
        scripted.on_list(testing::list_script().version(version));
        scripted.on_watch()->end();
        settle();
    }
    CHECK(lists == std::vector<std::string>{"1", "2"});
    CHECK(watches == 2);
    CHECK(scripted.under_way() == 0);
}

TEST_CASE("a list or watch that is cancelled while its sink is behind says so, scripted or real") {
    for (const auto verb : {list_into, watch_into}) {
        bench b;
        testing::scripted_list_watch scripted(b.io.get_executor(), pods());
        scripted.on_list(testing::list_script().item(pod("a")).version("100").slice(1));
        scripted.on_watch()->added(pod("a"));
        const bool list = verb == list_into;
        const std::string some = list ? pod_list({pod("a")}).substr(0, 90) : watch_event("ADDED", pod("a"));
        b.answers->next.push_back(reply().streamed({some}, reply::stall));
        const auto real = b.api->make_list_watch(pods());
        for (list_watch* from : {static_cast<list_watch*>(&scripted), real.get()}) {
            behind sink(b.io.get_executor());
            failure f;
            bool ended = false;
            task_group group(b.io.get_executor());
            group.spawn(verb(from, &sink, &f, &ended));
            b.until([&] { return sink.waits; });
            group.stop();
            b.run(group.join());
            CHECK(ended);
            CHECK(f == errc::cancelled);
        }
        CHECK(scripted.cancelled() == 1);
    }
}

TEST_CASE("an object without a name is quarantined, and a full pool ends the request, scripted or real") {
    const std::string nameless = R"({"metadata":{"namespace":"default","resourceVersion":"7"}})";
    const auto small = [] {
        informer::detail::pool_limits limits;
        limits.max_bytes = 8 * 1024;
        return informer::detail::make_pool(decode_options().type("v1", "Pod"), limits);
    };
    const std::string large =
        R"({"metadata":{"name":"large","namespace":"default"},"v":")" + std::string(20'000, 'x') + "\"}";
    for (const bool list : {true, false}) {
        bench b;
        testing::scripted_list_watch scripted(b.io.get_executor(), pods());
        const auto real = b.api->make_list_watch(pods());
        for (list_watch* from : {static_cast<list_watch*>(&scripted), real.get()}) {
            for (const bool full : {false, true}) {
                const std::string& odd = full ? large : nameless;
                if (list) {
                    scripted.on_list(testing::list_script().items({odd, pod("a")}).version("100"));
                    b.answers->next.emplace_back(pod_list({odd, pod("a")}));
                } else {
                    scripted.on_watch()->added(odd).added(pod("a")).end();
                    b.answers->next.push_back(
                        reply().streamed({watch_event("ADDED", odd), watch_event("ADDED", pod("a"))}));
                }
                recorder sink(full ? small() : document_pool::make(decode_options().type("v1", "Pod")));
                failure f;
                if (list)
                    b.run(from->list(list_options(), sink, f));
                else
                    b.run(from->watch(watch_options(), sink, f));
                CAPTURE(list, full, f.what());
                if (full) {
                    CHECK(f == errc::pool_full);
                    CHECK(sink.lines == lines{"opened"});
                } else {
                    CHECK_FALSE(f);
                    REQUIRE(sink.bad.size() == 1);
                    CHECK(sink.bad[0].why == errc::no_metadata);
                    CHECK(sink.bad[0].resource_version.str() == "7");
                    CHECK(sink.bad[0].from_list == list);
                    CHECK(sink.lines == lines{"opened", "bad 0", list ? "item default/a 1" : "added default/a 1"});
                }
                b.answers->next.clear();
            }
        }
    }
}
