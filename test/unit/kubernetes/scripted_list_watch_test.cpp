// What tests of others rest on: the scripted source behaves as the real one.
#include "bench.hpp"

#include <informer/testing/scripted_list_watch.hpp>

#include <catch2/catch_test_macros.hpp>

using namespace kubernetes_test;

TEST_CASE("a list whose sink has seen enough ends without failure, scripted as real") {
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

TEST_CASE("two that wait for one scripted source are both answered, in their order") {
    bench b;
    testing::scripted_list_watch scripted(b.io.get_executor(), pods());
    recorder sinks[2];
    failure why[2];
    std::vector<std::string> lists;
    int watches = 0;
    for (int i = 0; i < 2; ++i) {
        asio::co_spawn(b.io, scripted.list(list_options(), sinks[i], why[i]),
                       [&lists](std::exception_ptr, list_result r) { lists.push_back(r.resource_version.str()); });
        asio::co_spawn(b.io, scripted.watch(watch_options(), sinks[i], why[i]), [&watches](std::exception_ptr) { ++watches; });
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
