// The factory of shared informers.
#include "support/run.hpp"

#include "informer_fixture.hpp"

#include <informer/cache/informer_factory.hpp>

#include <boost/asio/strand.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_predicate.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <malloc.h>

#include <atomic>
#include <map>
#include <memory>
#include <thread>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

const api_resource pods("", "v1", "pods", "Pod");
const api_resource nodes("", "v1", "nodes", "Node", false);
const std::string a_node = R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"a","uid":"u","resourceVersion":"1"}})";

/// For co_spawn: what it throws.
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

struct workshop {
    workshop()
        : clock(std::make_shared<manual_clock>()), rt(make_runtime()),
          factory(rt, [this](const api_resource& r, std::string ns) { return make(r, std::move(ns)); }) {}
    ~workshop() {
        asio::co_spawn(context, factory.shutdown(), [](std::exception_ptr) {});
        context.restart();
        context.run_for(5s);
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

    asio::io_context context{1};
    std::shared_ptr<manual_clock> clock;
    bool answer = true, refuse = false;
    int more = 0; ///< objects
    std::vector<std::pair<std::string, std::weak_ptr<scripted_list_watch>>> made;
    runtime rt;
    informer_factory factory;
};

} // namespace

TEST_CASE("one copy per kind: equal requests share one informer", "[factory][promise]") {
    workshop w;
    auto a = w.factory.get(pods);
    auto b = w.factory.get(pods);
    w.settle();
    REQUIRE(w.made.size() == 1);
    CHECK(w.source(0)->watches() == 1);
    CHECK(a->snapshot().size() == 1);
    CHECK(b->get("default/a"));
    CHECK(w.factory.status().size() == 1);

    auto labelled = w.factory.get(pods, "", informer_options().labels("x=y"));
    auto fields = w.factory.get(pods, "", informer_options().fields("x=y"));
    decode_options d;
    d.project(projection::drop({"/spec"}));
    auto projected = w.factory.get(pods, "", informer_options().decode(d));
    auto managed = w.factory.get(pods, "", informer_options().decode(decode_options().keep_managed_fields()));
    auto metadata = w.factory.get(pods, "", informer_options().metadata_only());
    auto same = w.factory.get(pods, "", informer_options().labels("x=y").page_size(7));
    auto metadata_again = w.factory.get(pods, "", informer_options().metadata_only().page_size(7));
    CHECK(w.made.size() == 6);
    w.settle();
}

TEST_CASE("one copy per kind: a wider one that may not be read is not reused for a namespace that may", "[factory]") {
    workshop w;
    w.refuse = true;
    const auto all = w.factory.get(pods);
    w.settle();
    REQUIRE(all->status().phase == informer_phase::parked);
    w.refuse = false;
    const auto one = w.factory.get(pods, "default");
    w.settle();
    REQUIRE(w.made.size() == 2);
    CHECK(w.made[1].first == "pods/default");
    CHECK(one->has_synced());
    CHECK(w.factory.lister(pods, "default").list().size() == 1);
}

TEST_CASE("one copy per kind: a narrower request reuses a live wider one, never the reverse", "[factory][promise]") {
    workshop w;
    auto narrow = w.factory.get(pods, "kube-system");
    auto wide = w.factory.get(pods);
    REQUIRE(w.made.size() == 2);
    CHECK(w.made[0].first == "pods/kube-system");
    CHECK(w.made[1].first == "pods/");
    auto other = w.factory.get(pods, "default");
    CHECK(w.made.size() == 2);
    w.settle();
    CHECK(other->lister().list().size() == 1);
    CHECK(other->lister().get("a"));
    auto elsewhere = w.factory.get(pods, "elsewhere");
    CHECK(w.made.size() == 2);
    CHECK(elsewhere->lister().list().empty());
    CHECK(wide->lister().list().size() == 1);
    // What is exactly there is preferred.
    auto again = w.factory.get(pods, "kube-system");
    CHECK(w.made.size() == 2);
    wide.release();
    other.release();
    elsewhere.release();
    w.settle();
    CHECK_FALSE(w.source(1));
    CHECK(w.source(0));
}

TEST_CASE("one copy per kind: the last release stops the watch and frees the memory", "[factory][promise]") {
    workshop w;
    auto a = w.factory.get(pods);
    auto b = w.factory.get(pods);
    auto c = b;
    w.settle();
    REQUIRE(w.source(0)->under_way() == 1);
    a.release();
    b.release();
    w.settle();
    CHECK(w.source(0)->under_way() == 1);
    const auto lister = c->lister();
    c.release();
    w.settle();
    CHECK_FALSE(w.source(0)); // the source, and with it everything the informer held
    CHECK(lister.get("default/a")); // what a reader holds stays
    CHECK(w.factory.status().empty());
    // And a new request starts anew.
    auto d = w.factory.get(pods);
    w.settle();
    CHECK(w.made.size() == 2);
    CHECK(d->has_synced());
}

TEST_CASE("an informer that somebody stopped is not handed out again, not even in the same turn", "[factory]") {
    workshop w;
    auto a = w.factory.get(pods);
    w.settle();
    a->stop();
    CHECK_THROWS_AS(w.factory.lister(pods), error);
    auto b = w.factory.get(pods);
    auto c = w.factory.get(pods, "default");
    b->stop(); // before it began
    auto d = w.factory.get(pods);
    w.settle();
    CHECK(w.made.size() == 3);
    CHECK(d->has_synced());
    CHECK(d->status().phase == informer_phase::watching);
    CHECK(w.factory.lister(pods).get("default/a"));
    CHECK(w.factory.status().size() == 1);
}

TEST_CASE("nothing starts by itself: a lister of what is not cached is an error", "[factory][promise]") {
    workshop w;
    CHECK_THROWS_WITH(w.factory.lister(pods), ContainsSubstring("pods"));
    CHECK(w.made.empty());
    auto selected = w.factory.get(pods, "", informer_options().labels("x=y"));
    CHECK_THROWS_WITH(w.factory.lister(pods), ContainsSubstring("selection"));
    auto narrow = w.factory.get(pods, "default");
    CHECK_THROWS_AS(w.factory.lister(pods), error);
    CHECK_THROWS_AS(w.factory.lister(nodes), error);
    w.settle();
    CHECK(w.factory.lister(pods, "default").get("a"));
    narrow.release();
    w.settle();
    try {
        w.factory.lister(pods, "default");
        FAIL("a lister of what was released");
    } catch (const error& e) {
        CHECK(e.code() == errc::not_cached);
    }
}

TEST_CASE("a lister of what is not cached says what is: other namespaces, or a selection and how to read that", "[factory]") {
    workshop w;
    const auto prod = w.factory.get(pods, "prod");
    CHECK_THROWS_WITH(w.factory.lister(pods), ContainsSubstring("only cached in prod: name it") && ContainsSubstring("all namespaces"));
    CHECK_THROWS_WITH(w.factory.lister(pods, "test"), ContainsSubstring("pods in test: only cached in prod"));
    std::vector<informer_handle> more;
    for (const char* ns : {"a", "b", "c", "d", "e", "f"}) more.push_back(w.factory.get(pods, ns));
    CHECK_THROWS_WITH(w.factory.lister(pods), ContainsSubstring("in a, b, c, d, e and 2 more namespaces:"));
    const auto metadata = w.factory.get(nodes, "", informer_options().metadata_only());
    CHECK_THROWS_WITH(w.factory.lister(nodes), ContainsSubstring("only a selection is cached") && ContainsSubstring("the same options"));
    w.settle();
}

template <class Handle>
concept usable = requires(Handle&& h) { std::forward<Handle>(h)->snapshot(); } || requires(Handle&& h) { *std::forward<Handle>(h); };

TEST_CASE("a handle that nobody keeps cannot be used: its informer would stop at the end of the statement", "[factory]") {
    STATIC_CHECK(usable<informer_handle&>);
    STATIC_CHECK(usable<const informer_handle&>);
    STATIC_CHECK_FALSE(usable<informer_handle>);
    STATIC_CHECK_FALSE(usable<const informer_handle>);
}

TEST_CASE("indexes of later requests are added", "[factory]") {
    workshop w;
    auto a = w.factory.get(pods);
    w.settle();
    auto b = w.factory.get(pods, "", informer_options().index("note", index_by_pointer("/metadata/name")));
    auto c = w.factory.get(pods, "", informer_options().index("note", index_by_pointer("/metadata/name")));
    CHECK(a->lister().by_index("note", "a").size() == 1);
}

TEST_CASE("who waits for the factory's informers waits for their indexes, also those that came to a full cache", "[factory]") {
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

TEST_CASE("selectors that nobody can parse are refused when the informer is asked for", "[factory]") {
    workshop w;
    for (const auto& o : {informer_options().labels("a in ("), informer_options().fields("a")}) {
        try {
            static_cast<void>(w.factory.get(pods, "", o));
            FAIL("not refused");
        } catch (const error& e) {
            CHECK(e.code() == errc::bad_selector);
            CHECK_THAT(e.what(), ContainsSubstring("pods"));
        }
    }
}

TEST_CASE("who waits for an informer that nobody runs is told so", "[factory]") {
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

TEST_CASE("a cluster-scoped resource has no namespaces to tell apart", "[factory]") {
    workshop w;
    auto a = w.factory.get(nodes);
    auto b = w.factory.get(nodes, "default");
    CHECK(w.made.size() == 1);
    w.settle();
    CHECK(w.factory.lister(nodes, "default").list().size() == 1);
    CHECK(b->lister().list().size() == 1);
}

TEST_CASE("requests with a transform are not shared", "[factory]") {
    workshop w;
    decode_options d;
    d.transform_with([](boost::json::value&) {});
    auto a = w.factory.get(pods, "", informer_options().decode(d));
    auto b = w.factory.get(pods, "", informer_options().decode(d));
    auto c = w.factory.get(pods);
    CHECK(w.made.size() == 3);
    w.settle();
}

TEST_CASE("informers that are never shared leave nothing behind", "[factory]") {
    workshop w;
    informer_options with;
    with.decode(decode_options().transform_with([](boost::json::value&) {}));
    const auto rounds = [&](int n) {
        for (int i = 0; i < n; ++i) {
            w.factory.get(pods, "", with).release();
            w.settle();
            w.made.clear();
        }
        return mallinfo2().uordblks; // nothing under the sanitizers
    };
    const std::size_t before = rounds(100);
    CHECK(rounds(1000) < before + 50'000);
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

TEST_CASE("who waits for the factory's informers does not hear of one that is released meanwhile", "[factory]") {
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

TEST_CASE("who waits for the factory's informers hears of one that ended by itself", "[factory]") {
    /// As if there were no memory for a sleep, here the one before the next attempt.
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

TEST_CASE("the factory's informers do not pass for synced because they are over", "[factory]") {
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

TEST_CASE("after shutdown nothing runs and nothing can be started; handles may go later", "[factory]") {
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

TEST_CASE("shutdown stops the informers also for who was cancelled and cannot wait", "[factory]") {
    workshop w;
    const auto kept = w.factory.get(pods);
    w.settle();
    CHECK(kept->status().phase == informer_phase::watching);
    {
        const auto not_awaited = w.factory.shutdown();
    }
    w.settle();
    CHECK(kept->status().phase == informer_phase::stopped);
    CHECK_FALSE(w.source(0));
    CHECK_THROWS_AS(w.factory.get(pods), error);
    bool done = false;
    asio::co_spawn(w.context, w.factory.shutdown(), [&done](std::exception_ptr e) { done = !e; });
    w.settle();
    CHECK(done);
}

TEST_CASE("what an observer asks for while its factory shuts down is refused, rather than an informer that never runs", "[factory]") {
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

TEST_CASE("a factory that cannot make sources, and an informer without one, or of no kind, are refused when they are made", "[factory]") {
    asio::io_context context(1);
    const runtime rt(context.get_executor());
    const auto refused = [](const error& e) { return e.code() == errc::bad_configuration; };
    CHECK_THROWS_MATCHES(informer_factory(rt, nullptr), error, Catch::Matchers::Predicate<error>(refused));
    CHECK_THROWS_MATCHES(shared_informer(rt, nullptr), error, Catch::Matchers::Predicate<error>(refused));
    // Lists do not say the kind of their items, and watches do: without ours one object would be two.
    const auto kindless = std::make_shared<scripted_list_watch>(context.get_executor(), api_resource("", "v1", "pods"));
    CHECK_THROWS_MATCHES(shared_informer(rt, kindless), error, Catch::Matchers::Predicate<error>(refused));
    CHECK_THROWS_WITH(shared_informer(rt, kindless), ContainsSubstring("pods, whose kind is not said"));
}

TEST_CASE("what waits for informers that are shut down before they began is told", "[factory]") {
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

TEST_CASE("a factory and its context destroyed without shutdown are safe, before and after their handles", "[factory]") {
    for (int k = 0; k < 40; ++k) {
        informer_handle kept;
        auto context = std::make_unique<asio::io_context>(1);
        auto factory = std::make_unique<informer_factory>(
            runtime(context->get_executor()), [&context](const api_resource&, std::string) {
                auto source = std::make_shared<scripted_list_watch>(context->get_executor());
                source->on_watch()->added(pod("a", 1)).bookmark("5", true);
                return source;
            });
        kept = factory->get(pods);
        for (int i = 0; i < k; ++i) context->poll_one();
        if (k % 2 == 0) kept.release();
        factory.reset();
        if (k % 3 == 0) kept.release();
        context.reset();
    }
    SUCCEED();
}

TEST_CASE("handles may go after their context, and while it goes, also on a strand", "[factory]") {
    const bool on_strand = GENERATE(false, true);
    for (int k = 0; k < 50; ++k) {
        auto context = std::make_unique<asio::io_context>(1);
        const asio::any_io_executor plain = context->get_executor();
        auto factory = std::make_unique<informer_factory>(
            runtime(on_strand ? asio::any_io_executor(asio::make_strand(plain)) : plain),
            [&context](const api_resource&, std::string) {
                auto source = std::make_shared<scripted_list_watch>(context->get_executor());
                source->on_watch()->added(pod("a", 1)).bookmark("5", true);
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
        if (k % 2 == 0) last.release(); // else what is released elsewhere is not the last one
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
    }
    SUCCEED();
}

TEST_CASE("what caches metadata only is not read as if it had everything", "[factory]") {
    workshop w;
    auto metadata = w.factory.get(pods, "", informer_options().metadata_only());
    CHECK_THROWS_WITH(w.factory.lister(pods), ContainsSubstring("only a selection is cached"));
    auto whole = w.factory.get(pods);
    w.settle();
    const object a = w.factory.lister(pods).get("default/a");
    CHECK(a["spec"].exists());
}

TEST_CASE("who knows that the server is there again tells all informers of a factory at once", "[factory]") {
    workshop w;
    w.refuse = true;
    auto a = w.factory.get(pods);
    auto b = w.factory.get(nodes);
    w.settle();
    CHECK(a->status().phase == informer_phase::parked);
    CHECK(b->status().phase == informer_phase::parked);
    w.source(0)->on_watch()->added(pod("a", 1)).bookmark("5", true);
    w.source(1)->on_watch()->added(a_node).bookmark("5", true);
    w.settle();
    CHECK_FALSE(a->has_synced());
    w.factory.retry_now();
    w.settle();
    CHECK(a->has_synced());
    CHECK(b->has_synced());
}

TEST_CASE("a lister reads whole objects where somebody caches them", "[factory]") {
    workshop w;
    decode_options projected, transformed;
    projected.project(projection::drop({"/spec"}));
    transformed.transform_with([](boost::json::value& v) { v.as_object().erase("spec"); });
    auto first = w.factory.get(pods, "", informer_options().decode(projected));
    auto second = w.factory.get(pods, "", informer_options().decode(transformed));
    w.settle();
    const object part = w.factory.lister(pods).get("default/a");
    CHECK_FALSE(part["spec"].exists());
    auto whole = w.factory.get(pods);
    w.settle();
    const object a = w.factory.lister(pods).get("default/a");
    CHECK(a["spec"].exists());
}
