// Waiting for the informers of a factory.
#include "factory_fixture.hpp"

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <exception>
#include <memory>
#include <string>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A handler for co_spawn: keeps what the coroutine throws.
auto notes(error_code& code, std::string& what) {
    return [&code, &what](std::exception_ptr e) {
        try {
            if (e) std::rethrow_exception(e);
        } catch (const error& x) {
            code = x.code();
            what = x.what();
        }
    };
}

} // namespace

TEST_CASE("synced() of a factory waits for indexes, too, even those added to a full cache", "[factory]") {
    workshop w;
    w.more = 3000;
    auto a = w.factory.get(pods);
    w.settle();
    REQUIRE(a->snapshot().size() == 3001);
    auto b = w.factory.get(pods, "", informer_options().index("later", index_by_pointer("/metadata/name")));
    CHECK_THROWS_AS(b->lister().by_index("later", "more-7"), error);
    bool done = false;
    std::size_t found = 0;
    asio::co_spawn(w.context, w.factory.synced(10s), [&](std::exception_ptr e) {
        done = !e;
        found = b->lister().by_index("later", "more-7").size();
    });
    w.settle();
    CHECK(done);
    CHECK(found == 1);
}

TEST_CASE("an index that was refused is not waited for", "[factory]") {
    workshop w;
    auto a = w.factory.get(pods);
    w.settle();
    CHECK_THROWS_AS(w.factory.get(pods, "", informer_options().index("none", nullptr)), error);
    error_code code;
    std::string what = "not synced";
    asio::co_spawn(w.context, w.factory.synced(1s), [&](std::exception_ptr e) {
        what.clear();
        notes(code, what)(e);
    });
    w.settle();
    CHECK(what.empty());
}

TEST_CASE("synced() of an informer that does not run says so", "[factory]") {
    workshop w;
    shared_informer alone(w.rt, std::make_shared<scripted_list_watch>(w.context.get_executor(), pods));
    error_code code;
    std::string what;
    asio::co_spawn(w.context, alone.synced(1s), notes(code, what));
    w.settle();
    w.clock->advance(1s);
    w.settle();
    CHECK(code == errc::deadline_exceeded);
    CHECK_THAT(what, ContainsSubstring("run() was not called"));
}

TEST_CASE("the factory waits for all its informers and names those that failed", "[factory]") {
    workshop w;
    auto a = w.factory.get(pods);
    w.answer = false;
    auto b = w.factory.get(nodes);
    std::string what;
    bool done = false;
    asio::co_spawn(w.context, w.factory.synced(10s), [&](std::exception_ptr e) {
        done = true;
        try {
            if (e) std::rethrow_exception(e);
        } catch (const std::exception& x) {
            what = x.what();
        }
    });
    w.settle();
    CHECK_FALSE(done);
    w.clock->advance(10s);
    w.settle();
    REQUIRE(done);
    CHECK_THAT(what, ContainsSubstring("nodes") && !ContainsSubstring("pods"));
}

TEST_CASE("synced() of a factory does not name an informer that is released meanwhile", "[factory]") {
    workshop w;
    w.answer = false;
    auto released = w.factory.get(pods);
    auto late = w.factory.get(nodes);
    error_code code;
    std::string what;
    asio::co_spawn(w.context, w.factory.synced(10s), notes(code, what));
    w.settle();
    released.release();
    w.settle();
    w.clock->advance(10s);
    w.settle();
    CHECK(code == errc::deadline_exceeded);
    CHECK_THAT(what, ContainsSubstring("nodes") && !ContainsSubstring("pods"));
    CHECK(what.find("deadline exceeded") == what.rfind("deadline exceeded")); // once
}

TEST_CASE("synced() of a factory names an informer that ended by itself", "[factory]") {
    /// Throws as if there were no memory for a sleep, here for the one before the next attempt.
    class sleepless final : public informer::clock {
    public:
        time_point now() const override { return {}; }
        std::chrono::system_clock::time_point wall() const override { return {}; }
        asio::awaitable<bool> sleep_until(time_point) override { throw std::bad_alloc(); }
    };
    workshop w;
    runtime rt(w.context.get_executor());
    std::string logged;
    rt.with_clock(std::make_shared<sleepless>()).with_logger([&](log_level, std::string_view text) { logged += text; });
    informer_factory factory(rt, [&](const api_resource& r, const std::string&) {
        auto s = std::make_shared<scripted_list_watch>(w.context.get_executor(), r);
        s->on_watch_fail(failure(errc::connection_lost, "watch"));
        return s;
    });
    const auto kept = factory.get(pods);
    w.settle();
    CHECK_THAT(logged, ContainsSubstring("the informer ended"));
    std::string what;
    asio::co_spawn(w.context, factory.synced(10s), [&what](std::exception_ptr e) {
        try {
            if (e) std::rethrow_exception(e);
        } catch (const error& x) {
            what = x.what();
        }
    });
    w.settle();
    CHECK_THAT(what, ContainsSubstring("pods") && ContainsSubstring("the informer ended"));
    asio::co_spawn(w.context, factory.shutdown(), [](std::exception_ptr) {});
    w.settle();
}

TEST_CASE("the factory's informers do not count as synced merely because they have ended", "[factory]") {
    enum class end { stop, shutdown };
    const end by = GENERATE(end::stop, end::shutdown);
    const bool was_synced = GENERATE(true, false);
    workshop w;
    w.answer = was_synced;
    const auto kept = w.factory.get(pods);
    w.settle();
    if (by == end::shutdown) {
        asio::co_spawn(w.context, w.factory.shutdown(), [](std::exception_ptr) {});
    } else {
        kept->stop();
    }
    w.settle();
    error_code code;
    std::string what;
    asio::co_spawn(w.context, w.factory.synced(1s), notes(code, what));
    w.settle();
    CAPTURE(by == end::stop, was_synced, what);
    if (by == end::stop && was_synced) {
        CHECK_FALSE(code); // its cache is complete, and stays so
    } else {
        CHECK(code == errc::stopped);
        CHECK((by == end::shutdown || what.find("pods") != std::string::npos));
    }
}

TEST_CASE("waits on an informer that is shut down before it begins are ended", "[factory]") {
    workshop w;
    informer_handle kept;
    std::string told;
    asio::post(w.context, [&] {
        kept = w.factory.get(pods);
        auto events = std::make_shared<subscription>(kept->subscribe());
        asio::co_spawn(w.context, events->next(), [&told, events](std::exception_ptr e, std::optional<event> one) {
            told += e || one ? "?" : "end ";
        });
        asio::co_spawn(w.context, kept->synced(1h), [&told](std::exception_ptr e) { told += e ? "not synced " : "?"; });
        asio::co_spawn(w.context, w.factory.shutdown(), [](std::exception_ptr) {});
    });
    w.settle();
    CHECK(told == "end not synced ");
    CHECK(kept->status().phase == informer_phase::stopped);
}
