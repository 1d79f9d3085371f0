#include <informer/controller/predicate.hpp>

#include <algorithm>
#include <memory>

namespace informer {

predicate operator&&(predicate a, predicate b) {
    return predicate([a = std::move(a), b = std::move(b)](const event& e) { return a(e) && b(e); });
}

predicate operator||(predicate a, predicate b) {
    return predicate([a = std::move(a), b = std::move(b)](const event& e) { return a(e) || b(e); });
}

predicate operator!(predicate p) {
    return predicate([p = std::move(p)](const event& e) { return !p(e); });
}

namespace predicates {

namespace {

template <class Part>
predicate changed(Part part) {
    return predicate([part](const event& e) {
        if (e.kind != event_kind::updated || !e.previous) return true;
        return !(part(e.previous.meta()) == part(e.current.meta()));
    });
}

} // namespace

predicate generation_changed() {
    return changed([](const object_meta& m) { return m.generation(); });
}

predicate resource_version_changed() {
    // Compared as text, as not every server's versions are numbers.
    return changed([](const object_meta& m) { return m.value()["resourceVersion"].string_or_empty().str(); });
}

predicate labels_changed() {
    return changed([](const object_meta& m) { return m.labels(); });
}

predicate annotations_changed() {
    return changed([](const object_meta& m) { return m.annotations(); });
}

predicate finalizers_changed() {
    return changed([](const object_meta& m) { return m.finalizers(); });
}

predicate matches(label_selector selector) {
    const auto shared = std::make_shared<const label_selector>(std::move(selector));
    return predicate(
        [shared](const event& e) { return shared->matches(e.current) || (e.previous && shared->matches(e.previous)); });
}

predicate in_namespaces(std::vector<std::string> names) {
    std::sort(names.begin(), names.end());
    return predicate([names = std::move(names)](const event& e) {
        return std::binary_search(names.begin(), names.end(), e.key().name_space);
    });
}

} // namespace predicates
} // namespace informer
