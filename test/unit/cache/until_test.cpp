// Waiting for a state of one object.
#include "informer_fixture.hpp"

#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <optional>
#include <stdexcept>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A wait beside the informer, and how it ended.
struct waiting {
    std::optional<object> got;
    std::string what;
    error_code code;
};

std::shared_ptr<waiting> begin(bench& b, std::string key, std::function<bool(const object&)> condition,
                               clock::duration at_most = 1h) {
    auto w = std::make_shared<waiting>();
    asio::co_spawn(b.context, b.pods.until(std::move(key), std::move(condition), at_most),
                   [w](std::exception_ptr e, object o) {
                       if (!e) {
                           w->got = std::move(o);
                           return;
                       }
                       try {
                           std::rethrow_exception(e);
                       } catch (const error& x) {
                           w->what = x.what();
                           w->code = x.code();
                       } catch (const std::exception& x) {
                           w->what = x.what();
                       }
                   });
    b.settle();
    return w;
}

bool ready(const object& o) {
    return o.at_pointer("/spec/note").string_or_empty() == "ready";
}

bool gone(const object& o) {
    return !o;
}

} // namespace

TEST_CASE("until: waits for a state of one object, or for its absence", "[informer]") {
    bench b;
    const auto early = begin(b, "default/a", gone); // nothing is known yet
    CHECK_FALSE(early->got);
    const auto w = b.sync_with({pod("a", 1)}, 1);
    CHECK_FALSE(early->got);
    const auto a = begin(b, "default/a", ready), later = begin(b, "default/new", ready);
    CHECK(begin(b, "default/new", gone)->got);
    w->modified(pod("a", 2, "almost")).added(pod("new", 3));
    b.settle();
    CHECK_FALSE(a->got);
    w->modified(pod("a", 4, "ready"));
    b.settle();
    REQUIRE(a->got);
    CHECK(a->got->resource_version().str() == "4");
    CHECK_FALSE(later->got);
    w->modified(pod("new", 5, "ready")).deleted(pod("a", 6));
    b.settle();
    CHECK(later->got);
    REQUIRE(early->got);
    CHECK_FALSE(*early->got);
    CHECK(begin(b, "default/new", ready, 0s)->got); // a state that is already there needs no time
}

TEST_CASE("until: the error that ends a wait says for what and why", "[informer]") {
    bench b;
    b.sync_with({pod("a", 1)}, 1);
    const auto late = begin(b, "default/a", ready, 5s);
    b.pass(5s);
    CHECK(late->code == errc::deadline_exceeded);
    CHECK_THAT(late->what, ContainsSubstring("pods") && ContainsSubstring("wait for a state of default/a"));
    CHECK(begin(b, "default/a", nullptr)->code == errc::bad_configuration);
    const auto thrown = begin(b, "default/a", [](const object&) -> bool { throw std::runtime_error("no such note"); });
    CHECK(thrown->what == "no such note");
    const auto cut = begin(b, "default/a", ready);
    b.pods.stop();
    b.settle();
    CHECK(cut->code == errc::stopped);
    CHECK(begin(b, "default/a", ready)->code == errc::stopped);
}
