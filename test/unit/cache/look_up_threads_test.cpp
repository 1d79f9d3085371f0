// Look-ups of one object, without a snapshot, on threads while the cache changes: ThreadSanitizer must find nothing.
#include "informer_fixture.hpp"

#include <informer/cache/indexer.hpp>
#include <informer/object/document_pool.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

using namespace informer;
using namespace informer::testing;

namespace {

constexpr int pods = 40;       // one in four of them comes and goes
constexpr int states = 400;    // that are published at least
constexpr int enough = 20'000; // look-ups of each reader

std::string name_of(int i) {
    return "p" + std::to_string(i);
}

bool comes_and_goes(int i) {
    return i % 4 == 3;
}

/// What readers found; each of them looks for every pod in turn, until all have seen enough.
class readers {
public:
    /// `look_up(reader, pod)` gives the object that it finds.
    template <class F>
    readers(int n, F look_up) : seen_(static_cast<std::size_t>(n)) {
        for (int t = 0; t < n; ++t) threads_.emplace_back([this, t, look_up] { read(t, look_up); });
    }
    ~readers() { join(); }

    /// Of each reader; false when it is time to give up.
    bool wait_on() const {
        const auto few = [](const std::atomic<int>& n) { return n < enough; };
        return std::any_of(seen_.begin(), seen_.end(), few) && std::chrono::steady_clock::now() < deadline_;
    }
    void join() {
        stop_ = true;
        for (auto& t : threads_)
            if (t.joinable()) t.join();
    }
    void check() {
        join();
        CHECK(torn == 0);
        CHECK(older == 0);
        CHECK(lost == 0);
        for (const auto& n : seen_) CHECK(n >= enough);
    }

    std::atomic<int> torn{0};  ///< an object that was never published, or another one
    std::atomic<int> older{0}; ///< an object as it was before one that this reader has seen already
    std::atomic<int> lost{0};  ///< an object that was always there and was not found

private:
    template <class F>
    void read(int t, F look_up) {
        std::array<int, pods> newest{};
        std::vector<object> held(pods); // dropped here, after the cache dropped them
        for (int i = 0; !stop_; i = (i + 1) % pods) {
            const auto at = static_cast<std::size_t>(i);
            object o = look_up(t, i);
            if (!o) {
                lost += !comes_and_goes(i);
                continue;
            }
            const std::string version = o.resource_version().str();
            torn += o.key().name != name_of(i) || o.at_pointer("/spec/nodeName").string_or_empty() != "n" + version;
            older += std::stoi(version) < newest[at];
            newest[at] = std::stoi(version);
            held[at] = std::move(o);
            ++seen_[static_cast<std::size_t>(t)];
        }
    }

    std::atomic<bool> stop_{false};
    std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    std::vector<std::atomic<int>> seen_;
    std::vector<std::thread> threads_;
};

std::string text_of(int i, int version) {
    const std::string v = std::to_string(version);
    return R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":")" + name_of(i) +
           R"(","uid":"uid-)" + name_of(i) + R"(","resourceVersion":")" + v + R"("},"spec":{"nodeName":"n)" + v +
           "\"}}";
}

} // namespace

TEST_CASE("indexer: look-ups on threads find whole objects, in order, and hold them, while the cache changes") {
    indexer cache;
    const auto pool = document_pool::make();
    int version = 0;
    const auto write = [&](int i) {
        const object before = cache.current("default/" + name_of(i));
        failure f;
        const object after = pool->decode(text_of(i, ++version), before, f);
        REQUIRE_FALSE(f);
        if (comes_and_goes(i) && before) {
            cache.erase(object_key("default", name_of(i)));
        } else {
            cache.put(after);
        }
    };
    for (int i = 0; i < pods; ++i) write(i);
    cache.publish();
    readers all(3, [&cache](int reader, int i) {
        switch (reader) {
        case 0: return cache.get(object_key("default", name_of(i)));
        case 1: return cache.get("default", name_of(i));
        default: return cache.get("default/" + name_of(i));
        }
    });
    for (int n = 0; n < states || all.wait_on(); ++n) {
        write(n % pods);
        cache.publish();
        pool->collect(1000);
    }
    all.check();
}

TEST_CASE("an informer is read by key on threads while its watch goes on", "[informer]") {
    bench b;
    int version = 0;
    std::vector<std::string> first;
    for (int i = 0; i < pods; ++i) first.push_back(text_of(i, ++version));
    const auto w = b.sync_with(std::move(first), version);
    std::vector<bool> there(pods, true);
    readers all(3, [&b, lister = b.pods.lister()](int reader, int i) {
        switch (reader) {
        case 0: return b.pods.get(object_key("default", name_of(i)));
        case 1: return b.pods.get("default/" + name_of(i));
        default: return lister.find("default/" + name_of(i));
        }
    });
    for (int n = 0; n < states || all.wait_on(); ++n) {
        const int i = n % pods;
        const auto at = static_cast<std::size_t>(i);
        const std::string text = text_of(i, ++version);
        if (!there[at]) {
            w->added(text);
        } else if (comes_and_goes(i)) {
            w->deleted(text);
        } else {
            w->modified(text);
        }
        there[at] = !there[at] || !comes_and_goes(i);
        b.settle();
    }
    all.check();
}
