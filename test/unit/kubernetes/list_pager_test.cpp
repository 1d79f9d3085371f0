// Lists in pages.
#include "bench.hpp"

#include <informer/kubernetes/list_pager.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>

#include <catch2/generators/catch_generators.hpp>

#include <algorithm>

using namespace kubernetes_test;
using informer::kubernetes::list_pager;
using informer::kubernetes::object_list;

namespace {

/// A page of these pods, at a version; behind it `token`, or nothing.
std::string page(const std::vector<std::string>& names, const std::string& version, const std::string& token = {}) {
    std::vector<std::string> items;
    for (const auto& n : names) items.push_back(pod(n));
    std::string metadata = R"({"resourceVersion":")" + version + '"';
    if (!token.empty()) metadata += R"(,"continue":")" + token + '"';
    return pod_list(items, metadata + "}");
}

reply expired() {
    return reply(410, status(410, "Expired", "too old"));
}

std::vector<std::string> names(const object_list& l) {
    std::vector<std::string> all;
    for (const auto& o : l.items) all.push_back(o.key().name);
    return all;
}

const std::string path = "GET /api/v1/namespaces/default/pods?";

} // namespace

TEST_CASE("list pager: pages of 500 in order, and nothing after the last") {
    bench b;
    b.answers->next.emplace_back(page({"a", "b"}, "7", "t1"));
    b.answers->next.emplace_back(page({}, "7", "t2"));
    b.answers->next.emplace_back(page({"c"}, "7"));
    list_pager pods_of(*b.api, pods(), "default");
    auto one = b.run(pods_of.next());
    REQUIRE(one);
    CHECK(names(*one) == lines{"a", "b"});
    CHECK(one->version.str() == "7");
    CHECK(one->continue_token == "t1");
    CHECK(b.answers->lines.size() == 1); // nobody asked for more yet
    auto two = b.run(pods_of.next());
    REQUIRE(two);
    CHECK(two->items.empty());
    const auto three = b.run(pods_of.next());
    REQUIRE(three);
    CHECK(names(*three) == lines{"c"});
    CHECK_FALSE(b.run(pods_of.next()));
    CHECK_FALSE(b.run(pods_of.next()));
    CHECK(b.run(pods_of.all()).items.empty());
    failure of_before(errc::gone, "before");
    CHECK_FALSE(b.run(pods_of.next(of_before)));
    CHECK_FALSE(of_before);
    of_before = failure(errc::gone, "before");
    CHECK(b.run(pods_of.all(of_before)).items.empty());
    CHECK_FALSE(of_before);
    CHECK(b.answers->lines ==
          lines{path + "limit=500", path + "continue=t1&limit=500", path + "continue=t2&limit=500"});
}

TEST_CASE("list pager: all pages are asked as the first, but without its version") {
    bench b;
    b.answers->next.emplace_back(page({"a"}, "7", "t1"));
    b.answers->next.emplace_back(page({"b"}, "7"));
    list_options options;
    options.limit(1).labels("x=y").resource_version("5").resource_version_match("NotOlderThan");
    list_pager pods_of(*b.api, pods(), "default", options);
    CHECK(names(b.run(pods_of.all())) == lines{"a", "b"});
    CHECK_FALSE(b.run(pods_of.next())); // nothing is left
    CHECK(b.answers->lines == lines{path + "labelSelector=x%3Dy&limit=1&resourceVersion=5&"
                                           "resourceVersionMatch=NotOlderThan",
                                    path + "continue=t1&labelSelector=x%3Dy&limit=1"});
}

TEST_CASE("list pager: all in one has the version of the first page, and what could not be used") {
    bench b;
    b.answers->next.emplace_back(page({"a"}, "7", "t1"));
    b.answers->next.emplace_back(pod_list({pod("b"), R"({"metadata":{}})"}, R"({"resourceVersion":"9"})"));
    const object_list all = b.run(list_pager(*b.api, pods(), "default").all());
    CHECK(names(all) == lines{"a", "b"});
    CHECK(all.version.str() == "7");
    CHECK(all.continue_token.empty());
    REQUIRE(all.bad.size() == 1);
    CHECK(all.bad.front().why == errc::no_metadata);
}

TEST_CASE("list pager: all is listed anew, once and in one piece, when a later page has expired") {
    bench b;
    list_options options;
    options.resource_version("5").resource_version_match("Exact");
    b.answers->next.emplace_back(page({"old"}, "5", "t1"));
    b.answers->next.emplace_back(expired());
    b.answers->next.emplace_back(page({"a", "b"}, "9"));
    const object_list all = b.run(list_pager(*b.api, pods(), "default", options).all());
    CHECK(names(all) == lines{"a", "b"});
    CHECK(all.version.str() == "9");
    const std::string at = "resourceVersion=5&resourceVersionMatch=Exact";
    CHECK(b.answers->lines == lines{path + "limit=500&" + at, path + "continue=t1&limit=500", path + at});

    // A server that makes pages of what was asked for in one piece, and lets them expire, too.
    b.answers->next.emplace_back(page({"old"}, "5", "t1"));
    b.answers->next.emplace_back(expired());
    b.answers->next.emplace_back(page({"a"}, "9", "t2"));
    b.answers->next.emplace_back(expired());
    failure f;
    CHECK(b.run(list_pager(*b.api, pods(), "default").all(f)).items.empty());
    CHECK(f == errc::gone);
    CHECK(b.answers->next.empty());
}

TEST_CASE("list pager: a list is not begun anew where objects would come twice, or where nothing has expired") {
    bench b;
    failure f;
    const auto refuses = [&](list_pager& p) {
        b.answers->next.emplace_back(expired());
        b.answers->next.emplace_back(page({"anew"}, "9"));
        b.run(p.all(f));
        CHECK(f == errc::gone);
        CHECK(b.answers->next.size() == 1);
        b.answers->next.clear();
    };
    SECTION("the first page") {
        list_pager p(*b.api, pods());
        refuses(p);
    }
    SECTION("after pages that were handed out") {
        list_pager p(*b.api, pods());
        b.answers->next.emplace_back(page({"a"}, "7", "t1"));
        b.run(p.next());
        b.answers->next.emplace_back(page({"b"}, "7", "t2"));
        b.run(p.next());
        refuses(p);
    }
    SECTION("from the token of another list") {
        list_pager p(*b.api, pods(), {}, list_options().continue_token("t0"));
        refuses(p);
        CHECK(b.answers->lines == lines{"GET /api/v1/pods?continue=t0&limit=500"});
        b.answers->next.emplace_back(page({"a"}, "7", "t1"));
        refuses(p);
    }
}

TEST_CASE("list pager: after a failure the same page is asked for again") {
    bench b;
    failure f;
    list_pager p(*b.api, pods(), "default");
    b.answers->next.emplace_back(page({"a"}, "7", "t1"));
    b.run(p.next());
    b.answers->next.emplace_back(500, status(500, "InternalError", "no"));
    CHECK_FALSE(b.run(p.next(f)));
    CHECK(f == errc::server_error);
    CHECK(f.message() == "list pods in default");
    b.answers->next.emplace_back(500, status(500, "InternalError", "no"));
    CHECK_THROWS_AS(b.run(p.next()), error);
    b.answers->next.emplace_back(page({"b"}, "7"));
    const auto again = b.run(p.next(f));
    CHECK_FALSE(f);
    REQUIRE(again);
    CHECK(names(*again) == lines{"b"});
    CHECK(std::count(b.answers->lines.begin(), b.answers->lines.end(), path + "continue=t1&limit=500") == 3);
    CHECK_FALSE(b.run(p.next(f)));
}

TEST_CASE("list pager: all that failed begins where it began") {
    bench b;
    failure f;
    list_pager p(*b.api, pods(), "default");
    b.answers->next.emplace_back(page({"a"}, "7", "t1"));
    b.answers->next.emplace_back(500, status(500, "InternalError", "no"));
    CHECK(b.run(p.all(f)).items.empty());
    CHECK(f == errc::server_error);
    b.answers->next.emplace_back(page({"a"}, "8", "t1"));
    b.answers->next.emplace_back(page({"b"}, "8"));
    CHECK(names(b.run(p.all(f))) == lines{"a", "b"});
    CHECK_FALSE(f);
}

TEST_CASE("list pager: pages that expired can be given up for the whole list in one piece") {
    bench b;
    failure f;
    list_pager p(*b.api, pods(), "default", list_options().limit(1).resource_version("5"));
    b.answers->next.emplace_back(page({"a"}, "7", "t1"));
    b.run(p.next());
    b.answers->next.emplace_back(expired());
    CHECK_FALSE(b.run(p.next(f)));
    CHECK(f == condition::gone);
    p.begin_anew();
    b.answers->next.emplace_back(page({"a", "b"}, "9"));
    const auto whole = b.run(p.next(f));
    REQUIRE(whole);
    CHECK(names(*whole) == lines{"a", "b"});
    CHECK(b.answers->lines.back() == path + "resourceVersion=5");
    CHECK_FALSE(b.run(p.next(f)));
}

TEST_CASE("list pager: pages that go round in a circle are a failure") {
    const int length = GENERATE(1, 2, 3, 7);
    bench b;
    failure f;
    list_pager p(*b.api, pods());
    int pages = 0;
    for (; !f && pages < 100; ++pages) {
        b.answers->next.emplace_back(page({"a"}, "7", "t" + std::to_string(pages % length)));
        b.run(p.next(f));
    }
    CHECK(pages > length);
    CHECK(pages < 5 * length);
    CHECK(f == errc::bad_response);
    CHECK(f.message() == "list pods: the same continue token twice");
}

TEST_CASE("list pager: a page that leads to itself is noticed at once, however many came before") {
    bench b;
    failure f;
    list_pager p(*b.api, pods());
    for (int n = 0; n < 40; ++n) {
        b.answers->next.emplace_back(page({"a"}, "7", "t" + std::to_string(n)));
        b.run(p.next(f));
        REQUIRE_FALSE(f);
    }
    b.answers->next.emplace_back(page({"a"}, "7", "t39"));
    b.run(p.next(f));
    CHECK(f == errc::bad_response);
}

TEST_CASE("list pager: what pages have in common is stored once") {
    bench b;
    const auto of_node = [](const std::string& name) {
        return R"({"metadata":{"name":")" + name + R"("},"spec":{"nodeName":"the-same-node-of-both-pages"}})";
    };
    b.answers->next.emplace_back(pod_list({of_node("a")}, R"({"resourceVersion":"7","continue":"t1"})"));
    b.answers->next.emplace_back(pod_list({of_node("b")}, R"({"resourceVersion":"7"})"));
    const object_list all = b.run(list_pager(*b.api, pods()).all());
    REQUIRE(all.items.size() == 2);
    const auto node = [&](std::size_t i) { return all.items[i].at_pointer("/spec/nodeName"); };
    CHECK(node(0) == "the-same-node-of-both-pages");
    CHECK(node(0).same_as(node(1)));
}

TEST_CASE("list pager: a page that is cancelled is no page, and can be asked for again") {
    bench b;
    failure f;
    list_pager p(*b.api, pods());
    b.answers->next.emplace_back().streamed({R"({"kind":"PodList",)"}, reply::stall);
    asio::cancellation_signal stop;
    std::optional<object_list> got;
    bool done = false;
    auto ask = [](list_pager* from, std::optional<object_list>* to, failure* why) -> asio::awaitable<void> {
        *to = co_await from->next(*why);
    };
    asio::co_spawn(b.io, ask(&p, &got, &f),
                   asio::bind_cancellation_slot(stop.slot(), [&](std::exception_ptr) { done = true; }));
    b.until([&] { return b.answers->written == 1; });
    stop.emit(asio::cancellation_type::terminal);
    b.until([&] { return done; });
    CHECK_FALSE(got);
    CHECK(f == condition::cancelled);
    b.answers->next.emplace_back(page({"a"}, "7"));
    got = b.run(p.next(f));
    REQUIRE(got);
    CHECK(names(*got) == lines{"a"});
}
