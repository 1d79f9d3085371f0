// Lists that an informer rarely sees: huge, tiny, and hostile ones.
#pragma once

#include "support/pod_generator.hpp"

#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace informer::bench {

using testing::pod_detail::hex;
using testing::pod_detail::mix;

/// Makes the text of item i.
using source = std::function<std::string(std::size_t)>;

inline std::string wrap(std::size_t i, const std::string& members) {
    return R"({"metadata":{"name":"o)" + std::to_string(i) + R"(","namespace":"n"})" + members + "}";
}

struct edge {
    const char* name;
    const char* about;
    std::size_t items;
    source text;
    bool text_difference = true;
};

inline std::string many(std::size_t n, const std::function<std::string(std::size_t)>& f) {
    std::string s;
    for (std::size_t i = 0; i < n; ++i) s.append(i ? "," : "").append(f(i));
    return s;
}

inline std::string data(std::string members) {
    return ",\"data\":{" + std::move(members) + "}";
}

inline const std::vector<edge>& edges() {
    const auto pod = [](std::size_t i) { return make_pod_json(testing::pod_options(static_cast<unsigned>(i))); };
    static const std::vector<edge> all{
        {"pods", "pods, the measure of the others", 10'000, pod},
        {"pods_parsed", "the same pods, each read token by token", 10'000, pod, false},
        {"list_300_mb", "a list of 300 MB in one piece, pods", 28'000, pod},
        {"object_50_mb_strings", "one object of 50 MB, 1 KB strings", 1,
         [](std::size_t i) {
             return wrap(i, data(many(50'000, [](std::size_t k) {
                             return "\"k" + std::to_string(k) + "\":\"" + hex(k, 1000) + "\"";
                         })));
         }},
        {"object_50_mb_tree", "one object of 50 MB, many small objects", 1,
         [](std::size_t i) {
             return wrap(i, ",\"list\":[" + many(700'000, [](std::size_t k) {
                                return R"({"name":"entry-)" + std::to_string(k) + R"(","value":)" +
                                       std::to_string(mix(k) % 1'000'000'000) + R"(,"tags":["a","b"],"on":true})";
                            }) + "]");
         }},
        {"tiny", "1,000,000 tiny objects", 1'000'000,
         [](std::size_t i) {
             return wrap(i, R"(,"spec":{"holder":")" + hex(i, 16) + R"(","n":)" + std::to_string(i % 7) + "}");
         }},
        {"shapes", "10,000 distinct shapes", 10'000,
         [](std::size_t i) {
             return wrap(i, data(many(100, [i](std::size_t k) {
                             return "\"f" + std::to_string(mix(i * 100 + k) % 5000) + "-" + std::to_string(k) +
                                    "\":\"v\"";
                         })));
         }},
        {"unique_keys", "every key unique", 5000,
         [](std::size_t i) {
             return wrap(i, data(many(200, [i](std::size_t k) { return "\"" + hex(i * 200 + k, 24) + "\":\"v\""; })));
         }},
        {"unique_strings", "every string unique", 5000,
         [](std::size_t i) {
             return wrap(i, ",\"list\":[" +
                                many(200, [i](std::size_t k) { return "\"" + hex(i * 200 + k, 40) + "\""; }) + "]");
         }},
        {"alike_keys", "keys that look alike to the look-up of members, 20,000 an object", 50,
         [](std::size_t i) {
             return wrap(i, data(many(20'000, [i](std::size_t k) {
                             return "\"abcd" + hex(i * 20'000 + k, 9) + "mmmm" + hex(k + 7, 9) + "wxyz\":1";
                         })));
         }},
        {"repeated_key", "one key 20,000 times in an object", 50,
         [](std::size_t i) {
             return wrap(i, data(many(20'000, [](std::size_t k) { return "\"the-same-key\":" + std::to_string(k); })));
         }},
        {"deep", "990 levels", 2000,
         [](std::size_t i) {
             std::string s = wrap(i, ",\"d\":");
             s.pop_back();
             for (int k = 0; k < 990; ++k) s += "{\"a\":";
             s += std::to_string(i);
             return s.append(990, '}') + "}";
         }},
        {"numbers", "unique numbers of 15 digits", 5000,
         [](std::size_t i) {
             return wrap(i, ",\"list\":[" + many(400, [i](std::size_t k) {
                                return "0." + std::to_string(1 + mix(i * 400 + k) % 999'999'999'999'999);
                            }) + "]");
         }},
    };
    return all;
}

/// The text of item i as an API server has it, which adds three members to the metadata of every object.
inline std::string served(const edge& e, std::size_t i) {
    std::string text = e.text(i);
    static constexpr std::string_view ours = R"("namespace":"n"})";
    const std::size_t at = text.find(ours);
    if (at >= 64) return text; // a pod has them already
    char more[160];
    std::snprintf(
        more, sizeof more,
        R"(,"uid":"%08zx-93d1-4f0e-9a3c-%012zx","resourceVersion":"%zu","creationTimestamp":"2026-11-%02zuT08:%02zu:00Z")",
        mix(i) & 0xffff'ffff, mix(i + 1) & 0xffff'ffff'ffff, 1'000'000'000 + i, 1 + i / 60 % 28, i % 60);
    return text.insert(at + ours.size() - 1, more);
}

} // namespace informer::bench
