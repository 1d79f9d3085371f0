// Mappings that read caches which are not filled yet, and indexes that are still being built.
#include "controller_fixture.hpp"

#include <chrono>
#include <stdexcept>

using namespace controller_test;

namespace {

constexpr int many = 2000; // an index over them is built in slices

const api_resource secrets("", "v1", "secrets", "Secret");

std::string secret(const std::string& name, int version) {
    return R"({"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"ns","name":")" + name + R"(","uid":"u-)" +
           name + R"(","resourceVersion":")" + std::to_string(version) + "\"}}";
}

index_function slow_index() {
    return [](const object& o) -> std::vector<std::string> {
        const auto until = std::chrono::steady_clock::now() + 20us;
        while (std::chrono::steady_clock::now() < until) {
        }
        return {"of-" + o.name().str()};
    };
}

std::size_t lines_with(const bench& b, const std::string& part) {
    return static_cast<std::size_t>(std::count_if(
        b.logged->begin(), b.logged->end(), [&](const auto& line) { return line.find(part) != std::string::npos; }));
}

/// Another controller has filled both caches; this one comes with an index of its own.
asio::awaitable<void> index_in_the_making(bool by_mapping) {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.deployment_source = std::make_shared<scripted_list_watch>(ex, secrets);
    std::vector<std::string> all;
    for (int i = 0; i < many; ++i) all.push_back(foo("f" + std::to_string(i), 1));
    b.serve(std::move(all), {secret("f7", 2)});
    const informer_handle first = b.factory.get(foos, "", b.plain());
    const informer_handle second = b.factory.get(secrets, "", b.plain());
    const std::function<bool()> filled = [&] { return first->has_synced() && second->has_synced(); };
    bool ok = co_await eventually(filled);
    CHECK(ok);

    map_function by_index = [&b](const object& o) {
        std::vector<object_key> keys;
        for (const object& f : b.factory.lister(foos).by_index("by-secret", "of-" + o.name().str()))
            keys.push_back(f.key());
        return keys;
    };
    int unreadable = 0;
    reconciler f = [&](reconcile_request q) -> asio::awaitable<reconcile_result> {
        b.seen.push_back(q.key.name);
        try {
            static_cast<void>(b.factory.lister(foos).by_index("by-secret", "of-f7"));
        } catch (const error&) {
            ++unreadable;
        }
        co_return reconcile_result::done();
    };
    const predicate none([](const event&) { return false; });
    auto indexed = b.source().informer(b.plain().index("by-secret", slow_index()));
    auto builder = b.build();
    builder.for_(foos, by_mapping ? indexed.when(none) : indexed);
    if (by_mapping) builder.watches(secrets, by_index, b.source());
    controller c = builder.build(f);
    CHECK_FALSE(first->snapshot().has_index("by-secret"));
    b.start(c);
    const std::size_t expected = by_mapping ? 1 : many;
    const std::function<bool()> told = [&] {
        b.clock->advance(50ms);
        return b.seen.size() == expected;
    };
    ok = co_await eventually(told);
    CHECK(ok);
    CHECK(b.count("f7") == 1);
    CHECK(unreadable == 0);
    CHECK(c.figures().source_errors == 0);
    CHECK(lines_with(b, "its mapping waits") == (by_mapping ? 1 : 0));
    CHECK(lines_with(b, "its mapping goes on") == (by_mapping ? 1 : 0));
    CHECK(c.not_ready().empty());
    co_await b.finish(c);
}

/// The mapping reads the Deployments, which are no source of its controller.
controller reading(bench& b, controller_options o = controller_options(), bool throws = false) {
    map_function same_name = [&b](const object& f) -> std::vector<object_key> {
        if (!b.factory.lister(deployments).find(f.key().str())) return {};
        return {object_key("ns", "of-" + f.name().str())};
    };
    const predicate broken([](const event&) -> bool { throw std::runtime_error("broken"); });
    return b.build()
        .watches(foos, same_name, throws ? b.source().when(broken) : b.source())
        .options(std::move(o))
        .build(b.noting());
}

asio::awaitable<void> not_filled(bool initial, bool throws = false) {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    const informer_handle read = b.factory.get(deployments, "", b.plain());
    b.foo_source->on_list(initial ? list_script().item(foo("a", 1)).item(foo("b", 2)).version("10")
                                  : list_script().version("10"));
    b.foo_watch = b.foo_source->on_watch();
    b.foo_watch->open();
    controller c = reading(b, controller_options(), throws);
    b.start(c);
    if (!initial) {
        const std::function<bool()> synced = [&] { return c.has_synced(); };
        const bool ok = co_await eventually(synced);
        CHECK(ok);
        for (const char* name : {"a", "b"}) b.foo_watch->added(foo(name, 11));
    }
    const std::function<bool()> waits = [&] { return b.has_logged("its mapping waits"); };
    bool ok = co_await eventually(waits);
    CHECK(ok);
    for (int i = 0; i < 20; ++i) {
        b.clock->advance(50ms);
        co_await settle(20);
    }
    CHECK(b.seen.empty());
    CHECK(c.not_ready().find("its mapping waits") != std::string::npos);
    CHECK(lines_with(b, "its mapping waits") == 1);
    b.deployment_source->on_list(list_script().items({deployment("a", 3, "x"), deployment("b", 4, "x")}).version("10"));
    const std::function<bool()> told = [&] {
        b.clock->advance(50ms);
        return b.seen.size() == 2;
    };
    ok = co_await eventually(told);
    CHECK(ok);
    CHECK(b.count("of-a") == 1);
    CHECK(b.count("of-b") == 1);
    CHECK(c.not_ready().empty());
    CHECK(c.figures().source_errors == (throws ? 2U : 0U));
    co_await b.finish(c);
}

enum class ending { stop, cancel, time_out };

asio::awaitable<void> never_filled(ending how) {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    const informer_handle read = b.factory.get(deployments, "", b.plain());
    b.foo_source->on_list(list_script().item(foo("a", 1)).version("10"));
    controller c = reading(b);
    b.start(c);
    const std::function<bool()> waits = [&] { return b.has_logged("its mapping waits"); };
    bool ok = co_await eventually(waits);
    CHECK(ok);
    if (how == ending::stop) c.stop();
    if (how == ending::cancel) b.group.stop();
    if (how == ending::time_out) b.clock->advance(2min);
    const std::function<bool()> over = [&] { return *b.ended; };
    ok = co_await eventually(over);
    CHECK(ok);
    CHECK((b.error_of_run->find("its mapping waits") != std::string::npos) == (how == ending::time_out));
    CHECK(b.seen.empty());
    co_await b.end();
}

} // namespace

TEST_CASE("nothing lost: a mapping that reads an index which is still being built is called again") {
    run_test(index_in_the_making(true));
}
TEST_CASE("after the sync: no reconcile begins before the indexes of its sources are built") {
    run_test(index_in_the_making(false));
}
TEST_CASE("nothing lost: a mapping that reads a cache which is not filled yet is called again; this is logged once") {
    run_test(not_filled(true));
    run_test(not_filled(false));
}
TEST_CASE("an event whose mapping waits is handled again, and its predicate that throws is counted once") {
    run_test(not_filled(true, true));
}
TEST_CASE("a mapping that waits for a cache ends with its controller; the time-out of the sync names it as the cause") {
    run_test(never_filled(ending::stop));
    run_test(never_filled(ending::cancel));
    run_test(never_filled(ending::time_out));
}
