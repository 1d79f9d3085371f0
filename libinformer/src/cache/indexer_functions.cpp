#include <informer/cache/indexer.hpp>

#include <utility>

namespace informer {

index_function index_by_pointer(std::string pointer) {
    return [pointer = std::move(pointer)](const object& o) {
        std::vector<std::string> values;
        const value v = o.at_pointer(pointer);
        if (v.is_string()) values.push_back(v.as_string().str());
        return values;
    };
}

index_function index_by_label(std::string key) {
    return [key = std::move(key)](const object& o) {
        std::vector<std::string> values;
        const value v = o.meta().labels()[key];
        if (v.is_string()) values.push_back(v.as_string().str());
        return values;
    };
}

} // namespace informer
