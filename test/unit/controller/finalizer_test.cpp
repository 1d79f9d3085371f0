// The finalizer's four states, against the embedded API server.
#include "server_bench.hpp"

#include "support/finalizing.hpp"

#include <informer/cache/informer_factory.hpp>
#include <informer/controller/controller.hpp>

using namespace server_test;
using informer::testing::finalizers;
using informer::testing::finalizing;

namespace {

constexpr const char* ours = "example.com/cleanup";

using outcome = reconcile_result::outcome;

asio::awaitable<void> life() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.config_map("a");
    finalizing f(b.client, config_maps, ours);
    // Not being deleted, without the finalizer: it is stored, and then the work begins on the stored object.
    reconcile_result r = co_await f.step(b.read("a"));
    CHECK(r.what() == outcome::done);
    CHECK(f.applied == 1);
    CHECK(f.applied_to.resource_version() == b.read("a").resource_version());
    CHECK(finalizers(b.read("a")) == std::vector<std::string>{ours});
    r = co_await f.step(b.read("a"));
    CHECK(f.applied == 2);
    // Being deleted: the clean-up comes first, and the finalizer stays until it is done.
    b.server.remove("configmaps", "default", "a");
    f.cleanup_says = reconcile_result::error(failure(errc::connection_lost, "the other system"));
    r = co_await f.step(b.read("a"));
    CHECK(r.what() == outcome::error);
    CHECK(f.cleaned == 1);
    CHECK(finalizers(b.read("a")) == std::vector<std::string>{ours});
    f.cleanup_says = reconcile_result::requeue_after(1min);
    r = co_await f.step(b.read("a"));
    CHECK(r.what() == outcome::requeue_after);
    CHECK(finalizers(b.read("a")) == std::vector<std::string>{ours});
    f.cleanup_says = reconcile_result::done();
    const object last = b.read("a");
    r = co_await f.step(last);
    CHECK(r.what() == outcome::done);
    CHECK(b.server.get("configmaps", "default", "a").is_null()); // gone
    CHECK(f.applied == 2);
    // A late event of the object: it is gone already, which is no error.
    r = co_await f.step(last);
    CHECK(r.what() == outcome::done);
    co_await b.server.stop();
}

asio::awaitable<void> neighbours() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.config_map("a", R"(,"finalizers":["other.io/x","other.io/y"])");
    finalizing f(b.client, config_maps, ours);
    const object old = b.read("a");
    reconcile_result r = co_await f.step(old);
    CHECK(r.what() == outcome::done);
    CHECK(finalizers(b.read("a")) == std::vector<std::string>{"other.io/x", "other.io/y", ours});
    // Changes of others are never undone: the same step from the old state is refused and asked for again.
    r = co_await f.step(old);
    CHECK(r.what() == outcome::requeue);
    CHECK(finalizers(b.read("a")).size() == 3);
    const object before = b.read("a");
    b.server.remove("configmaps", "default", "a");
    const object deleting = b.read("a");
    b.server.merge_patch("configmaps", "default", "a",
                         json::parse(R"({"metadata":{"finalizers":["other.io/y","example.com/cleanup"]}})"));
    r = co_await f.step(deleting); // the place of the finalizer in the list has changed
    CHECK(r.what() == outcome::requeue);
    CHECK(finalizers(b.read("a")) == std::vector<std::string>{"other.io/y", ours});
    r = co_await f.step(b.read("a"));
    CHECK(r.what() == outcome::done);
    CHECK(finalizers(b.read("a")) == std::vector<std::string>{"other.io/y"});
    // Being deleted, without our finalizer.
    const int cleaned = f.cleaned;
    r = co_await f.step(b.read("a"));
    CHECK(r.what() == outcome::done);
    CHECK(f.cleaned == cleaned);
    co_await b.server.stop();
}

asio::awaitable<void> first_of_two() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.config_map("a");
    finalizing f(b.client, config_maps, ours);
    const object bare = b.read("a");
    b.server.merge_patch("configmaps", "default", "a", json::parse(R"({"metadata":{"finalizers":["other.io/x"]}})"));
    reconcile_result r = co_await f.step(bare); // this state has no list, and must not replace the list that came since
    CHECK(r.what() == outcome::requeue);
    CHECK(finalizers(b.read("a")) == std::vector<std::string>{"other.io/x"});
    // The same name, but another object.
    const object stranger = b.read("a");
    b.server.merge_patch("configmaps", "default", "a", json::parse(R"({"metadata":{"finalizers":null}})"));
    b.server.remove("configmaps", "default", "a");
    b.config_map("a", R"(,"finalizers":["other.io/x"])");
    r = co_await f.step(stranger);
    CHECK(r.what() == outcome::requeue);
    CHECK(finalizers(b.read("a")) == std::vector<std::string>{"other.io/x"});
    co_await b.server.stop();
}

/// The object was deleted, and created again with our finalizer in the same place: the clean-up of the new object is
/// still to come.
asio::awaitable<void> made_anew() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    const std::string with_ours = R"(,"finalizers":["example.com/cleanup"])";
    b.config_map("a", with_ours);
    finalizing f(b.client, config_maps, ours);
    b.server.remove("configmaps", "default", "a");
    const object deleting = b.read("a");
    b.server.merge_patch("configmaps", "default", "a", json::parse(R"({"metadata":{"finalizers":null}})"));
    REQUIRE(b.server.get("configmaps", "default", "a").is_null());
    b.config_map("a", with_ours);
    const reconcile_result r = co_await f.step(deleting);
    CHECK(f.cleaned == 1);
    CHECK(r.what() == outcome::requeue);
    CHECK(finalizers(b.read("a")) == std::vector<std::string>{ours});
    co_await b.server.stop();
}

/// A webhook removes the finalizer: the patch succeeds, but the answer is without our finalizer.
asio::awaitable<void> stripped() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    const json::value bare = b.config_map("a");
    finalizing f(b.client, config_maps, ours);
    b.server.inject(fault(fault::kind::garbage_body).with_text(json::serialize(bare)).verb("patch"));
    reconcile_result r = co_await f.step(b.read("a"));
    CHECK(r.what() == outcome::requeue);
    CHECK(f.applied == 0);
    CHECK(b.server.pending_faults() == 0);
    r = co_await f.step(b.read("a")); // the webhook is gone
    CHECK(r.what() == outcome::done);
    CHECK(f.applied == 1);
    co_await b.server.stop();
}

asio::awaitable<void> conflicting() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.config_map("a");
    finalizing f(b.client, config_maps, ours);
    b.server.inject(fault(fault::kind::status).with_code(409).verb("patch"));
    reconcile_result r = co_await f.step(b.read("a"));
    CHECK(r.what() == outcome::requeue);
    CHECK(f.applied == 0);
    r = co_await f.step(b.read("a"));
    CHECK(f.applied == 1);
    b.server.remove("configmaps", "default", "a");
    b.server.inject(fault(fault::kind::status).with_code(409).verb("patch"));
    r = co_await f.step(b.read("a"));
    CHECK(r.what() == outcome::requeue);
    CHECK(finalizers(b.read("a")) == std::vector<std::string>{ours});
    CHECK(b.server.pending_faults() == 0);
    co_await b.server.stop();
}

/// The usual predicates for a kind with a spec drop the event that follows the addition.
asio::awaitable<void> with_predicates() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    const runtime rt(ex);
    const kubernetes::client client(rt, b.client.config());
    informer_factory factory(rt, client.list_watches());
    finalizing f(client, deployments, ours);
    reconciler reconcile = [&](reconcile_request q) -> asio::awaitable<reconcile_result> {
        const object current = factory.lister(deployments).find(q.key);
        if (!current) co_return reconcile_result::done();
        const reconcile_result r = co_await f.step(current);
        co_return r;
    };
    const predicate changed = predicates::generation_changed() || predicates::labels_changed();
    controller c =
        controller_builder(rt, factory, "d").for_(deployments, source_options().when(changed)).build(reconcile);
    task_group group(ex);
    group.spawn(c.run());
    b.server.create(json::parse(
        R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"default","name":"d"},"spec":{"replicas":1}})"));
    const std::function<bool()> applied = [&] { return f.applied == 1; };
    const bool ok = co_await eventually(applied);
    CHECK(ok);
    CHECK(finalizers(from_value(b.server.get("deployments.apps", "default", "d"))) == std::vector<std::string>{ours});
    c.stop();
    co_await group.join();
    co_await factory.shutdown();
    co_await b.server.stop();
}

asio::awaitable<void> refused() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.config_map("a");
    finalizing f(b.client, config_maps, ours);
    b.server.inject(fault(fault::kind::status).with_code(403));
    const reconcile_result r = co_await f.step(b.read("a"));
    CHECK(r.what() == outcome::error);
    CHECK(r.why() == errc::forbidden);
    co_await b.server.stop();
}

/// The server answers 422 to a patch that came too late, and also if a policy denies the patch.
asio::awaitable<void> invalid(std::string message, std::string causes, outcome expected) {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.config_map("a");
    finalizing f(b.client, config_maps, ours);
    const std::string body =
        R"({"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":")" + message +
        R"(","details":{"causes":)" + causes + "}}";
    b.server.inject(
        fault(fault::kind::garbage)
            .with_text("HTTP/1.1 422 Unprocessable Entity\r\nContent-Type: application/json\r\nContent-Length: " +
                       std::to_string(body.size()) + "\r\n\r\n" + body)
            .verb("patch"));
    const reconcile_result r = co_await f.step(b.read("a"));
    CHECK(r.what() == expected);
    if (expected == outcome::error) CHECK(r.why() == errc::invalid);
    CHECK(f.applied == 0);
    CHECK(b.server.pending_faults() == 0);
    co_await b.server.stop();
}

asio::awaitable<void> incomplete() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.config_map("a");
    finalizer f(b.client, config_maps, ours);
    const finalizer::work fine = [](object) -> asio::awaitable<reconcile_result> {
        co_return reconcile_result::done();
    };
    const std::vector<std::pair<finalizer::work, finalizer::work>> cases{{nullptr, fine}, {fine, nullptr}};
    for (const auto& [apply, cleanup] : cases) {
        error_code code;
        try {
            (void)co_await f.reconcile(b.read("a"), apply, cleanup);
        } catch (const error& e) {
            code = e.code();
        }
        CHECK(code == errc::bad_configuration);
    }
    CHECK(finalizers(b.read("a")).empty());
    co_await b.server.stop();
}

} // namespace

TEST_CASE("finalizer: without a function to apply or to clean up nothing is stored") {
    run_test(incomplete());
}
TEST_CASE("finalizer: stored before the work begins, removed only when the clean-up is done") {
    run_test(life());
}
TEST_CASE("finalizer: a list that was edited concurrently stays as it is, and the step is asked for again") {
    run_test(neighbours());
    run_test(first_of_two());
}
TEST_CASE("finalizer: it stays on an object that was created again during the clean-up of the old one") {
    run_test(made_anew());
}
TEST_CASE("finalizer: no work is done if a webhook removes it again, and the step is asked for again") {
    run_test(stripped());
}
TEST_CASE("finalizer: a step whose patch met a conflict is asked for again") {
    run_test(conflicting());
}
TEST_CASE("finalizer: the work begins even if predicates drop the event that follows the addition") {
    run_test(with_predicates());
}
TEST_CASE("finalizer: a patch that the server refuses is returned as an error") {
    run_test(refused());
}
TEST_CASE(
    "finalizer: a patch that admission denies as invalid is an error, a patch that came too late is asked for again") {
    const std::string words = "the server rejected our request due to an error in our request";
    const std::string deleting =
        R"({"reason":"FieldValueForbidden","field":"metadata.finalizers","message":"no new ones"})";
    const std::string frozen = R"({"reason":"FieldValueForbidden","field":"spec.name","message":"it is frozen"})";
    run_test(invalid(words, "[]", outcome::requeue)); // a `test` operation of the patch failed
    run_test(invalid("it is deleted", "[" + deleting + "]", outcome::requeue));
    run_test(invalid("a policy denied it", R"([{"message":"no owner label"}])", outcome::error));
    run_test(invalid("it is frozen", "[" + frozen + "]", outcome::error));
    run_test(invalid("both", "[" + deleting + "," + frozen + "]", outcome::error));
    run_test(invalid(R"(admission webhook \"a.b.c\" denied the request: no)", "[]", outcome::error));
}
