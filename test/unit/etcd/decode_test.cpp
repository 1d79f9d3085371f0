// Values on their way into the cache's pool: it may be full, and transforms see them.
#include "bench.hpp"

#include "object/detail/pool.hpp"

#include <stdexcept>
#include <string_view>

using namespace etcd_test;

namespace {

/// Counts how often a transform saw an object; refuses those with "bad", and wrapped values.
struct counting_transform {
    int seen = 0;
    decode_options options() {
        return decode_options().transform_with([this](boost::json::value& v) {
            ++seen;
            if (v.as_object().contains("bad") || v.as_object().contains("value")) throw std::runtime_error("refused");
        });
    }
};

} // namespace

TEST_CASE("etcd: a full pool fails the list or watch, and no object is blamed") {
    informer::detail::pool_limits limits;
    limits.max_bytes = 64 * 1024;
    limits.first_chunk = 1024;
    const std::string large = R"({"v":")" + std::string(100'000, 'x') + "\"}";
    const auto told = [&](auto act) {
        bench b;
        recorder sink(informer::detail::make_pool(decode_options().type("etcd/v3", "KeyValue"), limits));
        failure f;
        act(b, sink, f);
        INFO(f.what());
        CHECK(f == errc::pool_full);
        CHECK(sink.bad.empty());
        CHECK(f.message().find(" keyvalues.etcd below /s/: decode") != std::string::npos);
        return sink.lines;
    };
    const auto listed = told([&](bench& b, recorder& sink, failure& f) {
        b.etcd().next.emplace_back(
            range(9, {pair("/s/a", "{}", 3, 3), pair("/s/b", large, 4, 4), pair("/s/c", "{}", 5, 5)}));
        list(b, sink, f);
    });
    CHECK(listed == lines{"opened", "item a 3"});
    const auto watched = told([&](bench& b, recorder& sink, failure& f) {
        b.etcd().next.push_back(
            reply(created(5) + events(9, {put(pair("/s/a", "{}", 6, 6)), put(pair("/s/b", large, 7, 7)),
                                          put(pair("/s/c", "{}", 8, 8))}))
                .streamed());
        watch(b, sink, f, watch_options().resource_version("5"));
    });
    CHECK(watched == lines{"opened", "added a 6"});
    const auto deleted = told([&](bench& b, recorder& sink, failure& f) {
        b.etcd().next.push_back(
            reply(created(5) + events(9, {gone("/s/b", 7, pair("/s/b", large, 6, 6)), gone("/s/c", 8)})).streamed());
        watch(b, sink, f, watch_options().resource_version("5"));
    });
    CHECK(deleted == lines{"opened"});
}

TEST_CASE("etcd: a transform sees each object once, selected or not, and also one that it refuses") {
    const std::string good = R"({"metadata":{"labels":{"l":"1"}}})",
                      bad = R"({"metadata":{"labels":{"l":"1"}},"bad":1})";
    for (const char* labels : {"", "l=1"}) {
        CAPTURE(labels);
        counting_transform counts;
        bench b;
        recorder sink(counts.options());
        failure f;
        b.source(mapping("/s/").wrap_values());
        b.etcd().next.emplace_back(
            range(9, {pair("/s/a", good, 3, 3), pair("/s/b", bad, 4, 4), pair("/s/c", "7", 5, 5)}));
        list(b, sink, f, list_options().labels(labels));
        CHECK(!f);
        lines expected{"opened", "item a 3", "bad b 4"};
        if (std::string_view(labels).empty()) expected.push_back("bad c 5");
        CHECK(sink.lines == expected);
        CHECK(counts.seen == static_cast<int>(expected.size()) - 1);
    }
}
