#include "../object/detail/pointer_reader.hpp"

#include <informer/cache/indexer.hpp>

#include <memory>
#include <utility>

namespace informer {

namespace {

index_function by_string(std::shared_ptr<const detail::pointer_reader> at) {
    return [at = std::move(at)](const object& o) {
        std::vector<std::string> values;
        const value v = (*at)(o.value());
        if (v.is_string()) values.push_back(v.as_string().str());
        return values;
    };
}

} // namespace

index_function index_by_pointer(std::string pointer) {
    auto at = std::make_shared<const detail::pointer_reader>(pointer);
    // The empty pointer is valid, but means the whole object, which is not a string.
    if (pointer.empty() || !at->valid())
        throw error(errc::bad_configuration,
                    "index by \"" + pointer + "\": not the JSON pointer of a member, as \"/spec/nodeName\" is");
    return by_string(std::move(at));
}

index_function index_by_label(std::string key) {
    const std::vector<std::string> keys{"metadata", "labels", std::move(key)};
    return by_string(std::make_shared<const detail::pointer_reader>(keys));
}

} // namespace informer
