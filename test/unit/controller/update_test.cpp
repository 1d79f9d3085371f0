// Conflict retry and status patches, against the embedded API server.
#include "server_bench.hpp"

#include <informer/controller/update.hpp>

using namespace server_test;

namespace {

/// Somebody else writes in between, `times` times.
object_change with_rival(bench& b, int times) {
    const auto left = std::make_shared<int>(times);
    return [&b, left](json::value& o) {
        if (*left > 0) {
            --*left;
            b.server.merge_patch("configmaps", "default", "a",
                                 json::parse("{\"data\":{\"rival\":\"" + std::to_string(*left) + "\"}}"));
        }
        auto& data = o.as_object()["data"];
        if (!data.is_object()) data.emplace_object();
        data.as_object()["mine"] = "yes";
        return true;
    };
}

/// Advances the clock all the time, so that every sleep ends soon.
asio::awaitable<void> keep_turning(std::shared_ptr<informer::testing::manual_clock> clock) {
    const auto ex = co_await asio::this_coro::executor;
    for (;;) {
        clock->advance(20ms);
        co_await asio::post(ex, asio::use_awaitable);
    }
}

asio::awaitable<void> conflicts() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.config_map("a");
    task_group clockwork(ex);
    clockwork.spawn(keep_turning(b.clock));
    const object stored =
        co_await update_with_retry(b.rt, b.client, config_maps, object_key("default", "a"), with_rival(b, 4));
    CHECK(stored.at_pointer("/data/mine").string_or_empty() == "yes");
    CHECK(stored.at_pointer("/data/rival").string_or_empty() == "0"); // the rival's work is kept
    CHECK(b.asked("update", "configmaps") == 5);
    failure f;
    const kubernetes::write_options plain;
    co_await update_with_retry(b.rt, b.client, config_maps, object_key("default", "a"), with_rival(b, 100), plain, f);
    CHECK(f == errc::conflict);
    CHECK(b.asked("update", "configmaps") == 10); // five attempts, no more
    // Other errors end the attempts at once, as does a change that changes nothing.
    co_await update_with_retry(b.rt, b.client, config_maps, object_key("default", "none"), with_rival(b, 0), plain, f);
    CHECK(f == errc::not_found);
    object_change nothing = [](json::value&) { return false; };
    const object same =
        co_await update_with_retry(b.rt, b.client, config_maps, object_key("default", "a"), nothing, plain, f);
    CHECK_FALSE(f);
    CHECK(same.key() == object_key("default", "a"));
    CHECK(b.asked("update", "configmaps") == 10);
    int attempts = 0;
    std::function<asio::awaitable<void>()> conflicting = [&]() -> asio::awaitable<void> {
        if (++attempts < 3) throw error(errc::conflict, "write");
        co_return;
    };
    co_await retry_on_conflict(b.rt, conflicting);
    CHECK(attempts == 3);
    bool thrown = false;
    std::function<asio::awaitable<void>()> failing = [&]() -> asio::awaitable<void> {
        ++attempts;
        throw error(errc::forbidden, "write");
        co_return;
    };
    try {
        co_await retry_on_conflict(b.rt, failing);
    } catch (const error& e) {
        thrown = e.failure() == errc::forbidden;
    }
    CHECK(thrown);
    CHECK(attempts == 4);
    clockwork.stop();
    co_await clockwork.join();
    co_await b.server.stop();
}

asio::awaitable<void> made_anew() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.config_map("a");
    b.config_map("b");
    task_group clockwork(ex);
    clockwork.spawn(keep_turning(b.clock));
    const object_change rival = with_rival(b, 1);
    const object_change fresh = [&rival](json::value& o) {
        rival(o);
        json::value made = json::parse(R"({"metadata":{"namespace":"default","name":"a"}})");
        made.as_object()["data"] = o.at("data");
        o = std::move(made);
        return true;
    };
    const object stored = co_await update_with_retry(b.rt, b.client, config_maps, object_key("default", "a"), fresh);
    CHECK(stored.at_pointer("/data/rival").string_or_empty() == "0"); // written between the first read and its write
    CHECK(b.asked("update", "configmaps") == 2);
    for (const char* not_it : {R"({"metadata":{"namespace":"default","name":"b"},"data":{"of":"a"}})", "{}", "7",
                               R"({"metadata":{"name":"a"}})", R"({"metadata":"a"})"}) {
        const object_change other = [not_it](json::value& o) {
            o = json::parse(not_it);
            return true;
        };
        failure f;
        const kubernetes::write_options plain;
        co_await update_with_retry(b.rt, b.client, config_maps, object_key("default", "a"), other, plain, f);
        CHECK(f == errc::bad_configuration);
    }
    CHECK(b.asked("update", "configmaps") == 2);
    clockwork.stop();
    co_await clockwork.join();
    co_await b.server.stop();
}

asio::awaitable<void> status() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.server.create(
        json::parse(R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"default","name":"d"},
        "spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}},
        "status":{"replicas":2,"observedGeneration":1}})"));
    object now = from_value(b.server.get("deployments.apps", "default", "d"));
    // Somebody else writes another part of the status meanwhile.
    b.server.merge_patch("deployments.apps", "default", "d", json::parse(R"({"status":{"collisionCount":7}})"));
    json::value wanted = json::parse(R"({"replicas":2,"availableReplicas":2})");
    now = co_await patch_status(b.client, deployments, now, wanted);
    CHECK(now.at_pointer("/status/availableReplicas").int64_or(0) == 2);
    CHECK(now.at_pointer("/status/replicas").int64_or(0) == 2);
    CHECK_FALSE(now.at_pointer("/status/observedGeneration").exists()); // the wanted status is without it
    CHECK(now.at_pointer("/status/collisionCount").int64_or(0) == 7);   // another writer's
    const std::size_t patches = b.asked("patch", "deployments");
    wanted.as_object()["collisionCount"] = 7;
    now = co_await patch_status(b.client, deployments, now, wanted);
    CHECK(b.asked("patch", "deployments") == patches); // nothing differs, so no request is made
    failure f;
    const kubernetes::write_options plain;
    json::value nothing; // as in a variable that was never filled
    co_await patch_status(b.client, deployments, now, nothing, plain, f);
    CHECK(f == errc::bad_configuration);
    CHECK(b.asked("patch", "deployments") == patches);
    b.server.remove("deployments.apps", "default", "d");
    wanted.as_object()["replicas"] = 3;
    co_await patch_status(b.client, deployments, now, wanted, plain, f);
    CHECK(f == errc::not_found);
    co_await b.server.stop();
}

asio::awaitable<void> parts() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.server.create(
        json::parse(R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"default","name":"d"},
        "spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}})"));
    const object_key d("default", "d");
    const object_change three = [](json::value& scale) {
        CHECK(scale.at("kind").as_string() == "Scale");
        scale.at("spec").as_object()["replicas"] = 3;
        return true;
    };
    const auto to_scale = kubernetes::write_options().subresource("scale");
    const object scale = co_await update_with_retry(b.rt, b.client, deployments, d, three, to_scale);
    CHECK(scale.at_pointer("/spec/replicas").int64_or(0) == 3);
    const object_change seen = [](json::value& whole) {
        CHECK(whole.at("kind").as_string() == "Deployment");
        whole.as_object()["status"] = json::object{{"observedGeneration", 2}};
        return true;
    };
    const auto to_status = kubernetes::write_options().subresource("status");
    const object stored = co_await update_with_retry(b.rt, b.client, deployments, d, seen, to_status);
    CHECK(stored.at_pointer("/spec/replicas").int64_or(0) == 3);
    CHECK(stored.at_pointer("/status/observedGeneration").int64_or(0) == 2);
    co_await b.server.stop();
}

asio::awaitable<void> told_to_stop() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.config_map("a");
    failure f;
    const auto updating = [&]() -> asio::awaitable<void> {
        const kubernetes::write_options plain;
        co_await update_with_retry(b.rt, b.client, config_maps, object_key("default", "a"), with_rival(b, 100), plain,
                                   f);
    };
    std::function<asio::awaitable<void>()> conflicting = []() -> asio::awaitable<void> {
        throw error(errc::conflict, "write");
        co_return;
    };
    int wrong = 0;
    task_group group(ex);
    group.on_error([&](std::exception_ptr) { ++wrong; }); // a cancelled coroutine need not report an error
    group.spawn(updating());
    group.spawn(retry_on_conflict(b.rt, conflicting));
    const std::function<bool()> both_wait = [&] { return b.clock->waiters() >= 2 && f == errc::conflict; };
    const bool waiting = co_await eventually(both_wait);
    CHECK(waiting);
    group.stop();
    co_await group.join();
    CHECK(f == errc::cancelled);
    CHECK(wrong == 0);
    co_await b.server.stop();
}

asio::awaitable<void> pause_of_for_ever() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    int attempts = 0;
    std::function<asio::awaitable<void>()> conflicting = [&]() -> asio::awaitable<void> {
        ++attempts;
        throw error(errc::conflict, "write");
        co_return;
    };
    task_group group(ex);
    group.on_error([](std::exception_ptr) {});
    group.spawn(retry_on_conflict(b.rt, conflicting, conflict_retry().delay(std::chrono::nanoseconds::max())));
    co_await settle(100);
    CHECK(attempts == 1);
    CHECK(group.size() == 1);
    group.stop();
    co_await group.join();
    co_await b.server.stop();
}

asio::awaitable<void> nothing_to_do() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex);
    b.config_map("a");
    const object_key key("default", "a");
    const kubernetes::write_options plain;
    failure f;
    co_await update_with_retry(b.rt, b.client, config_maps, key, nullptr, plain, f);
    CHECK(f == errc::bad_configuration);
    error_code code;
    try {
        co_await retry_on_conflict(b.rt, nullptr);
    } catch (const error& e) {
        code = e.code();
    }
    CHECK(code == errc::bad_configuration);
    CHECK(b.server.requests().empty());
    co_await b.server.stop();
}

} // namespace

TEST_CASE("a missing change or attempt function is an error before any request") {
    run_test(nothing_to_do());
}
TEST_CASE("an object that a change makes anew replaces what was read, at that version, and nothing else") {
    run_test(made_anew());
}
TEST_CASE("a conflicting write reads again and is tried again, at most five times, and keeps the other change") {
    run_test(conflicts());
}
TEST_CASE("a status patch sends the differences, removes what is not wanted, and sends nothing if nothing differs") {
    run_test(status());
}
TEST_CASE("a subresource is written as what it is: a scale as a scale, a status with its object") {
    run_test(parts());
}
TEST_CASE("a cancellation between two attempts is reported as such, not as a conflict") {
    run_test(told_to_stop());
}
TEST_CASE("an infinite pause between attempts never ends") {
    run_test(pause_of_for_ever());
}
