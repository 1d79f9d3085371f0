// Lists and watches of pods from prepared answers.
#pragma once

#include "bench.hpp"

#include <informer/source/list_watch.hpp>

#include <cstddef>
#include <memory>
#include <string>

namespace kubernetes_test {

inline std::shared_ptr<list_watch> source(bench& b, const std::string& name_space = "") {
    return b.api->make_list_watch(pods(), name_space);
}

inline list_result list(bench& b, recorder& sink, failure& f, const list_options& o = list_options()) {
    const auto from = source(b);
    return b.run(from->list(o, sink, f));
}

inline void watch(bench& b, recorder& sink, failure& f, const watch_options& o = watch_options()) {
    const auto from = source(b);
    b.run(from->watch(o, sink, f));
}

inline std::string bookmark(const std::string& version, const std::string& annotations = "{}") {
    return watch_event("BOOKMARK", R"({"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":")" + version +
                                       R"(","creationTimestamp":null,"annotations":)" + annotations +
                                       R"(},"spec":{"containers":null}})");
}

inline std::string nested(int depth) {
    return R"({"metadata":{"name":"deep","namespace":"default"},"x":)" +
           std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']') + "}";
}

} // namespace kubernetes_test
