// An informer of one namespace: what it has, and what it refuses.
#include "support/run.hpp"

#include <informer/cache/shared_informer.hpp>
#include <informer/testing/scripted_list_watch.hpp>

#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

using namespace informer;
using namespace informer::testing;

namespace {

/// Says which namespace it reads, and never answers.
class source_of_one final : public list_watch {
public:
    source_of_one(asio::any_io_executor e, api_resource r, std::string only)
        : silent_(std::move(e), std::move(r)), only_(std::move(only)) {}
    const api_resource& resource() const override { return silent_.resource(); }
    std::string describe() const override { return silent_.describe(); }
    std::string name_space() const override { return only_; }
    asio::awaitable<list_result> list(list_options o, object_sink& sink, failure& f) override {
        return silent_.list(std::move(o), sink, f);
    }
    asio::awaitable<void> watch(watch_options o, object_sink& sink, failure& f) override {
        return silent_.watch(std::move(o), sink, f);
    }

private:
    scripted_list_watch silent_;
    std::string only_;
};

asio::awaitable<errc> how_it_ends(asio::awaitable<object> wait) {
    try {
        co_await std::move(wait);
    } catch (const error& e) {
        co_return e.code() == errc::not_cached ? errc::not_cached : errc{};
    }
    co_return errc{};
}

/// Which of the three ways to ask `informer` for a namespace refuse it: "l"ister, "s"ubscribe, "u"ntil.
asio::awaitable<std::string> refusals(shared_informer informer, std::string name_space) {
    std::string out;
    try {
        informer.lister().in(name_space).list();
    } catch (const error& e) {
        if (e.code() == errc::not_cached) out += 'l'; // else it has not synced
    }
    try {
        informer.subscribe(subscription_options().in(name_space));
    } catch (const error& e) {
        if (e.code() == errc::not_cached) out += 's';
    }
    const object_key key(name_space, "x");
    auto wait = informer.until(
        key, [](const object&) { return true; }, std::chrono::seconds(0));
    const errc end = co_await how_it_ends(std::move(wait));
    if (end == errc::not_cached) out += 'u';
    co_return out;
}

const api_resource pods("", "v1", "pods", "Pod"), nodes("", "v1", "nodes", "Node", false);

std::string refused(const api_resource& resource, std::string only, std::string asked) {
    asio::io_context context(1);
    std::string out;
    const auto all = [&]() -> asio::awaitable<void> {
        auto source = std::make_shared<source_of_one>(context.get_executor(), resource, std::move(only));
        shared_informer informer(runtime(context.get_executor()), std::move(source));
        auto asks = refusals(informer, std::move(asked));
        out = co_await std::move(asks);
        informer.stop();
    };
    run_test(context, all());
    return out;
}

} // namespace

TEST_CASE("an informer of one namespace refuses the others, whether it is read, subscribed to or waited for",
          "[informer]") {
    CHECK(refused(pods, "a", "b") == "lsu");
    CHECK(refused(pods, "a", "a").empty());
    CHECK(refused(pods, "a", "") == "u"); // all that it has; but a key without a namespace is of no object that it has
    CHECK(refused(pods, "", "b").empty());
    CHECK(refused(pods, "", "").empty());
}

TEST_CASE("a namespace is ignored where the resource has none, in each way to ask", "[informer]") {
    for (const char* only : {"", "a"}) {
        for (const char* asked : {"", "a", "b"}) CHECK(refused(nodes, only, asked).empty());
    }
}
