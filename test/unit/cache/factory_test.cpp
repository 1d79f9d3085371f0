// The factory of shared informers: what is shared, and what is refused.
#include "factory_fixture.hpp"

#include <boost/json/value.hpp>
#include <catch2/matchers/catch_matchers_predicate.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <malloc.h>

#include <memory>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

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

TEST_CASE("one copy per kind: a wider informer that is forbidden is not reused for a namespace that is allowed",
          "[factory]") {
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

TEST_CASE("one copy per kind: a wider informer that is forbidden is passed over even while the server is away",
          "[factory]") {
    workshop w;
    w.refuse = true;
    const auto all = w.factory.get(pods);
    w.settle();
    w.refuse = false;
    const auto one = w.factory.get(pods, "default");
    w.settle();
    REQUIRE(one->has_synced());
    w.source(0)->on_watch_fail(failure(errc::connection_refused, "watch pods"));
    w.clock->advance(5min);
    w.settle();
    REQUIRE(all->status().last_error == errc::connection_refused);
    CHECK(w.factory.lister(pods, "default").list().size() == 1);
    const auto other = w.factory.get(pods, "other");
    CHECK(w.made.size() == 3);
}

TEST_CASE("a lister reads a synced cache rather than a wider one that is not synced yet", "[factory]") {
    workshop w;
    const auto one = w.factory.get(pods, "default");
    w.settle();
    w.answer = false;
    const auto all = w.factory.get(pods);
    w.settle();
    REQUIRE_FALSE(all->has_synced());
    CHECK(w.factory.lister(pods, "default").list().size() == 1);
    CHECK(all->snapshot().size() == 0);
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
    // An exact match is preferred.
    auto again = w.factory.get(pods, "kube-system");
    CHECK(w.made.size() == 2);
    wide.release();
    other.release();
    elsewhere.release();
    w.settle();
    CHECK_FALSE(w.source(1));
    CHECK(w.source(0));
}

TEST_CASE("one copy per kind: a handle of one namespace is told nothing of others, although its informer has them",
          "[factory][promise]") {
    workshop w;
    const auto in = [](const std::string& name_space, const std::string& name, int version) {
        std::string text = pod(name, version);
        return text.replace(text.find("default"), 7, name_space);
    };
    const auto all = w.factory.get(pods);
    w.settle();
    REQUIRE(all->has_synced());
    const auto narrow = w.factory.get(pods, "mine");
    REQUIRE(w.made.size() == 1);

    subscription everything = all->subscribe();
    subscription early = narrow->subscribe(subscription_options().resync(60s));
    words handled;
    const auto h =
        narrow->add_event_handler([&](const object& o, bool) { handled.push_back("+" + o.name().str()); },
                                  [&](const object&, const object& o) { handled.push_back("~" + o.name().str()); },
                                  [&](const object& o, bool) { handled.push_back("-" + o.name().str()); });
    w.settle();
    CHECK(read_all(early).empty());
    CHECK(read_all(everything).size() == 1);
    CHECK(h.has_synced());

    watch_script& live = *w.first_watch;
    live.added(in("mine", "m", 11)).added(in("yours", "y", 12)).modified(in("yours", "y", 13));
    live.modified(in("mine", "m", 14)).deleted(in("yours", "y", 15)).added(in("mine", "n", 16));
    w.settle();
    CHECK(read_all(early) == words{"+m:11", "~m:14", "+n:16"});
    CHECK(read_all(everything).size() == 6);
    CHECK(handled == words{"+m", "~m", "+n"});

    subscription late = narrow->subscribe();
    words initial = read_all(late);
    std::sort(initial.begin(), initial.end());
    CHECK(initial == words{"+m:14!", "+n:16!"});

    w.clock->advance(60s);
    w.settle();
    words again = read_all(early);
    std::sort(again.begin(), again.end());
    CHECK(again == words{"~m:14@", "~n:16@"});

    CHECK(narrow->get("mine/m"));
    CHECK_FALSE(narrow->get("default/a"));
    CHECK_FALSE(narrow->get(object_key("default", "a")));
    CHECK(all->get("default/a"));
    shared_informer copy = *narrow;
    const auto initially = [](subscription s) { return read_all(s).size(); };
    CHECK(initially(copy.subscribe()) == 2);
    CHECK(initially(copy.subscribe(subscription_options().in("mine"))) == 2);
    CHECK(initially(all->subscribe(subscription_options().in("default"))) == 1);
    const auto own = w.factory.get(pods, "own", informer_options().labels("x"));
    for (const informer_handle* one : {&narrow, &own}) {
        try {
            (*one)->subscribe(subscription_options().in("yours"));
            FAIL("a subscription to another namespace than that of the handle");
        } catch (const error& e) {
            CHECK(e.code() == errc::not_cached);
        }
    }
    const auto cluster_wide = w.factory.get(nodes, "mine");
    w.settle();
    CHECK(initially(cluster_wide->subscribe(subscription_options().in("mine"))) == 1);
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
    CHECK_FALSE(w.source(0));       // the source, and with it everything the informer held
    CHECK(lister.get("default/a")); // what a reader holds stays
    CHECK(w.factory.status().empty());
    // And a new request starts anew.
    auto d = w.factory.get(pods);
    w.settle();
    CHECK(w.made.size() == 2);
    CHECK(d->has_synced());
}

TEST_CASE("a stopped informer is not handed out again, not even in the same turn", "[factory]") {
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

TEST_CASE("the error of a lister names what is cached instead: other namespaces, or a selection and how to read it",
          "[factory]") {
    workshop w;
    const auto prod = w.factory.get(pods, "prod");
    CHECK_THROWS_WITH(w.factory.lister(pods),
                      ContainsSubstring("only cached in prod: name it") && ContainsSubstring("all namespaces"));
    CHECK_THROWS_WITH(w.factory.lister(pods, "test"), ContainsSubstring("pods in test: only cached in prod"));
    std::vector<informer_handle> more;
    for (const char* ns : {"a", "b", "c", "d", "e", "f"}) more.push_back(w.factory.get(pods, ns));
    CHECK_THROWS_WITH(w.factory.lister(pods), ContainsSubstring("in a, b, c, d, e and 2 more namespaces:"));
    const auto metadata = w.factory.get(nodes, "", informer_options().metadata_only());
    CHECK_THROWS_WITH(w.factory.lister(nodes),
                      ContainsSubstring("only a selection is cached") && ContainsSubstring("the same options"));
    w.settle();
}

template <class Handle>
concept usable = requires(Handle&& h) {
    std::forward<Handle>(h)->snapshot();
}
|| requires(Handle&& h) {
    *std::forward<Handle>(h);
};

TEST_CASE("a temporary handle cannot be used: its informer would stop at the end of the statement", "[factory]") {
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

TEST_CASE("selectors that cannot be parsed are refused when the informer is requested", "[factory]") {
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
        return mallinfo2().uordblks; // 0 under the sanitizers
    };
    const std::size_t before = rounds(100);
    CHECK(rounds(1000) < before + 50'000);
}

TEST_CASE(
    "a factory that cannot make sources, and an informer without a source or a kind, are refused when they are made",
    "[factory]") {
    asio::io_context context(1);
    const runtime rt(context.get_executor());
    const auto refused = [](const error& e) { return e.code() == errc::bad_configuration; };
    CHECK_THROWS_MATCHES(informer_factory(rt, nullptr), error, Catch::Matchers::Predicate<error>(refused));
    CHECK_THROWS_MATCHES(shared_informer(rt, nullptr), error, Catch::Matchers::Predicate<error>(refused));
    // Items of lists do not say their kind, objects of watches do: without a known kind, one object would become two.
    const auto kindless = std::make_shared<scripted_list_watch>(context.get_executor(), api_resource("", "v1", "pods"));
    CHECK_THROWS_MATCHES(shared_informer(rt, kindless), error, Catch::Matchers::Predicate<error>(refused));
    CHECK_THROWS_WITH(shared_informer(rt, kindless), ContainsSubstring("pods, whose kind is not said"));
}

TEST_CASE("a cache of metadata only is not read as if it had whole objects", "[factory]") {
    workshop w;
    auto metadata = w.factory.get(pods, "", informer_options().metadata_only());
    CHECK_THROWS_WITH(w.factory.lister(pods), ContainsSubstring("only a selection is cached"));
    auto whole = w.factory.get(pods);
    w.settle();
    const object a = w.factory.lister(pods).get("default/a");
    CHECK(a["spec"].exists());
}

TEST_CASE("a cache of a part is not read as if it had all objects, even when it is synced", "[factory]") {
    workshop w;
    const auto part = w.factory.get(pods, "", informer_options().shard(shard_selector::part(0, 1000)));
    w.settle();
    REQUIRE(part->has_synced());
    CHECK_THROWS_WITH(w.factory.lister(pods), ContainsSubstring("only a selection is cached"));
    CHECK_THROWS_WITH(w.factory.lister(pods, "default"), ContainsSubstring("a part"));
    auto whole = w.factory.get(pods);
    CHECK_THROWS_WITH(w.factory.lister(pods).find("default/a"), ContainsSubstring("not synced"));
    w.settle();
    CHECK(w.factory.lister(pods).find("default/a"));
    whole.release();
    w.settle();
    CHECK_THROWS_AS(w.factory.lister(pods), error);
}

TEST_CASE("retry_now() of a factory makes all its informers try again at once", "[factory]") {
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

TEST_CASE("a lister reads whole objects if they are cached", "[factory]") {
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
