// The end of a factory: its shutdown, and what happens if its context or its handles are destroyed first.
#include "factory_fixture.hpp"

#include <boost/asio/strand.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <atomic>
#include <memory>
#include <thread>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;

TEST_CASE("after shutdown nothing runs and nothing can be started; handles may be released later", "[factory]") {
    informer_handle kept;
    {
        workshop w;
        kept = w.factory.get(pods);
        w.settle();
        bool done = false;
        asio::co_spawn(w.context, w.factory.shutdown(), [&done](std::exception_ptr) { done = true; });
        w.settle();
        CHECK(done);
        CHECK_FALSE(w.source(0)); // gone, with its sockets
        CHECK_THROWS_AS(w.factory.get(pods), error);
        CHECK(kept->status().phase == informer_phase::stopped);
    }
    CHECK(kept->get("default/a"));
}

TEST_CASE("shutdown stops the informers even if nobody awaits it", "[factory]") {
    workshop w;
    const auto kept = w.factory.get(pods);
    w.settle();
    CHECK(kept->status().phase == informer_phase::watching);
    { const auto not_awaited = w.factory.shutdown(); }
    w.settle();
    CHECK(kept->status().phase == informer_phase::stopped);
    CHECK_FALSE(w.source(0));
    CHECK_THROWS_AS(w.factory.get(pods), error);
    bool done = false;
    asio::co_spawn(w.context, w.factory.shutdown(), [&done](std::exception_ptr e) { done = !e; });
    w.settle();
    CHECK(done);
}

TEST_CASE("an observer's request while its factory shuts down is refused: it would get an informer that never runs",
          "[factory]") {
    workshop w;
    std::vector<errc> refused;
    std::vector<informer_handle> kept;
    asio::post(w.context, [&] {
        kept.push_back(w.factory.get(pods));
        kept.front()->on_state_change([&](const informer_status&) {
            try {
                kept.push_back(w.factory.get(nodes));
            } catch (const error& e) {
                refused.push_back(static_cast<errc>(e.code().value()));
            }
        });
        asio::co_spawn(w.context, w.factory.shutdown(), [](std::exception_ptr) {});
    });
    w.settle();
    CHECK(refused == std::vector<errc>{errc::stopped});
    CHECK(kept.size() == 1);
}

TEST_CASE("a factory and its context destroyed without shutdown are safe, before and after their handles",
          "[factory]") {
    for (int k = 0; k < 40; ++k) {
        informer_handle kept;
        std::weak_ptr<scripted_list_watch> made;
        auto context = std::make_unique<asio::io_context>(1);
        auto factory = std::make_unique<informer_factory>(
            runtime(context->get_executor()), [&context, &made](const api_resource&, std::string) {
                auto source = std::make_shared<scripted_list_watch>(context->get_executor());
                source->on_watch()->added(pod("a", 1)).bookmark("5", true);
                made = source;
                return source;
            });
        kept = factory->get(pods);
        for (int i = 0; i < k; ++i) context->poll_one();
        if (k % 2 == 0) kept.release();
        factory.reset();
        if (k % 3 == 0) kept.release();
        context.reset();
        kept.release();
        CHECK(made.expired());
    }
}

TEST_CASE("handles may be released after their context's destruction, and during it, also on a strand", "[factory]") {
    const bool on_strand = GENERATE(false, true);
    for (int k = 0; k < 50; ++k) {
        std::weak_ptr<scripted_list_watch> made;
        auto context = std::make_unique<asio::io_context>(1);
        const asio::any_io_executor plain = context->get_executor();
        auto factory = std::make_unique<informer_factory>(
            runtime(on_strand ? asio::any_io_executor(asio::make_strand(plain)) : plain),
            [&context, &made](const api_resource&, std::string) {
                auto source = std::make_shared<scripted_list_watch>(context->get_executor());
                source->on_watch()->added(pod("a", 1)).bookmark("5", true);
                made = source;
                return source;
            });
        informer_handle kept = factory->get(pods), last = kept;
        context->poll();
        std::atomic<bool> go{false};
        std::thread elsewhere([&go, k, a = std::move(kept)]() mutable {
            while (!go) std::this_thread::yield();
            for (int i = 0; i < k * 20; ++i) static_cast<void>(go.load());
            a.release();
        });
        if (k % 2 == 0) last.release(); // else the handle released elsewhere is not the last one
        go = true;
        if (k % 3 != 0) {
            asio::co_spawn(*context, factory->shutdown(), [](std::exception_ptr) {});
            context->restart();
            context->run();
        }
        factory.reset();
        context.reset();
        elsewhere.join();
        last.release();
        CHECK(made.expired());
    }
}
