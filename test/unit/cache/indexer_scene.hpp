// An index of several values, and what a cache answers, as text.
#pragma once

#include "pods.hpp"

#include <informer/cache/indexer.hpp>
#include <informer/error.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace indexer_test {

using namespace informer;
using informer::testing::make_pod;

inline errc code_of(const error& e) {
    return static_cast<errc>(e.code().value());
}

template <class F>
errc thrown_by(F f) {
    try {
        f();
    } catch (const error& e) {
        return code_of(e);
    }
    return errc();
}

inline std::vector<std::string> names(const std::vector<object>& objects) {
    std::vector<std::string> n;
    for (const object& o : objects) n.push_back(o.key().str());
    std::sort(n.begin(), n.end());
    return n;
}

// An index function: each word of the label.
inline std::vector<std::string> words(const object& o) {
    std::vector<std::string> values;
    std::string label = o.meta().label("app").str();
    while (!label.empty()) {
        const auto end = label.find('.');
        values.push_back(label.substr(0, end));
        label = end == std::string::npos ? "" : label.substr(end + 1);
    }
    return values;
}

} // namespace indexer_test
