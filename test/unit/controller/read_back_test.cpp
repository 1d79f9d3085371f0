// Status patches that wait until the cache has what they wrote.
#include "server_bench.hpp"

#include <informer/cache/informer_factory.hpp>
#include <informer/controller/controller.hpp>
#include <informer/controller/update.hpp>
#include <informer/testing/scripted_list_watch.hpp>

using namespace server_test;
using informer::testing::list_script;
using informer::testing::scripted_list_watch;
using informer::testing::watch_script;

namespace {

/// Writes go to the server; its Deployment "d" comes to the cache when the test says so.
class scene {
public:
    explicit scene(asio::any_io_executor ex)
        : b(ex), source(std::make_shared<scripted_list_watch>(ex, deployments)),
          factory(b.rt,
                  [this, ex](const api_resource& r, const std::string&) -> std::shared_ptr<list_watch> {
                      return r == deployments ? source : std::make_shared<scripted_list_watch>(ex, r);
                  }),
          group(ex) {
        b.server.create(json::parse(
            R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"default","name":"d"},"spec":{"replicas":1},
            "status":{"phase":"Ready"}})"));
        source->on_list(list_script().item(stored()).version(b.server.current_resource_version()));
        watch = source->on_watch();
        watch->open();
    }
    static informer_options plain() { return informer_options().watch_list(false); }
    std::string stored() const { return from_value(b.server.get("deployments.apps", "default", "d")).to_json(); }
    std::string phase() const {
        return std::string(b.server.get("deployments.apps", "default", "d").at_pointer("/status/phase").as_string());
    }
    void tell_cache() { watch->modified(stored()); }
    asio::awaitable<void> end() {
        group.stop();
        co_await group.join();
        co_await factory.shutdown();
        co_await b.server.stop();
    }

    bench b;
    std::shared_ptr<scripted_list_watch> source;
    std::shared_ptr<watch_script> watch;
    informer_factory factory;
    task_group group;
};

asio::awaitable<void> brought_in_line() {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex);
    std::string wanted = "Ready";
    int begun = 0, ended = 0;
    reconciler reconcile = [&](reconcile_request q) -> asio::awaitable<reconcile_result> {
        ++begun;
        const object d = s.factory.lister(deployments).find(q.key);
        json::value status = {{"phase", wanted}};
        const kubernetes::write_options options;
        failure f;
        co_await patch_status(s.b.client, deployments, d, std::move(status), s.factory.get(deployments), options, f);
        ++ended;
        co_return f ? reconcile_result::error(f) : reconcile_result::done();
    };
    const source_options main = source_options().informer(scene::plain()).when(predicates::generation_changed());
    controller c = controller_builder(s.b.rt, s.factory, "d").for_(deployments, main).build(reconcile);
    s.group.spawn(c.run());
    const std::function<bool()> first = [&] { return ended == 1; };
    bool ok = co_await eventually(first);
    CHECK(ok);
    CHECK(s.b.asked("patch", "deployments") == 0);
    // The key is asked for again before the cache has what was written.
    wanted = "NotReady";
    c.enqueue({"default", "d"});
    const std::function<bool()> written = [&] { return s.phase() == "NotReady"; };
    ok = co_await eventually(written);
    CHECK(ok);
    wanted = "Ready";
    c.enqueue({"default", "d"});
    co_await settle(100);
    CHECK(begun == 2);
    s.tell_cache(); // the predicate drops the event
    const std::function<bool()> right = [&] { return s.phase() == "Ready"; };
    ok = co_await eventually(right);
    CHECK(ok);
    CHECK(begun == 3);
    s.tell_cache();
    const std::function<bool()> third = [&] { return ended == 3; };
    ok = co_await eventually(third);
    CHECK(ok);
    CHECK(c.figures().succeeded == 3);
    c.stop();
    co_await s.end();
}

asio::awaitable<void> patch(scene* s, informer_handle cache, failure* f, bool* over) {
    json::value status = {{"phase", "NotReady"}};
    const kubernetes::write_options options;
    const object now = from_value(s->b.server.get("deployments.apps", "default", "d"));
    co_await patch_status(s->b.client, deployments, now, std::move(status), std::move(cache), options, *f);
    *over = true;
}

asio::awaitable<void> in_vain() {
    const auto ex = co_await asio::this_coro::executor;
    scene s(ex);
    const informer_handle cache = s.factory.get(deployments, "", scene::plain());
    const informer_handle others = s.factory.get(config_maps, "", scene::plain());
    failure f;
    bool over = false;
    co_await patch(&s, informer_handle(), &f, &over);
    CHECK(f == errc::bad_configuration);
    co_await patch(&s, others, &f, &over);
    CHECK(f == errc::bad_configuration);
    // An informer that was started only for this call: the object was read from another one, which the patch would not
    // wait for.
    co_await patch(&s, cache, &f, &over);
    CHECK(f == errc::bad_configuration);
    CHECK(f.what().find("give the one that the object was read from") != std::string::npos);
    CHECK(s.b.server.requests().empty());
    co_await cache->synced(1min);
    over = false;
    s.group.spawn(patch(&s, cache, &f, &over));
    const auto begun = s.b.clock->now();
    const std::function<bool()> waited = [&] {
        if (s.phase() == "NotReady" && !over) s.b.clock->advance(100ms);
        return over;
    };
    const bool ok = co_await eventually(waited);
    CHECK(ok);
    CHECK(f == errc::deadline_exceeded);
    CHECK(f.what().find("status of deployments.apps default/d: written, but not read back") != std::string::npos);
    CHECK(s.b.clock->now() - begun >= read_back_limit);
    CHECK(s.b.clock->now() - begun < 2 * read_back_limit);
    co_await s.end();
}

} // namespace

TEST_CASE("read your writes: no reconcile compares with a status from before the last write") {
    run_test(brought_in_line());
}
TEST_CASE(
    "a status that is not read back in time is an error that says it is written; without its cache none is written") {
    run_test(in_vain());
}
