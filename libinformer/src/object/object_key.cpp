#include <informer/object/object_key.hpp>

namespace informer {

object_key object_key::parse(std::string_view s) {
    const auto slash = s.find('/');
    if (slash == std::string_view::npos) return object_key({}, std::string(s));
    return object_key(std::string(s.substr(0, slash)), std::string(s.substr(slash + 1)));
}

std::string object_key::str() const {
    if (name_space.empty()) return name;
    std::string s;
    s.reserve(name_space.size() + 1 + name.size());
    s.append(name_space).append(1, '/').append(name);
    return s;
}

} // namespace informer

std::size_t std::hash<informer::object_key>::operator()(const informer::object_key& k) const noexcept {
    const std::hash<std::string_view> of;
    const std::size_t a = of(k.name_space);
    // As boost::hash_combine: the two parts must not be interchangeable.
    return a ^ (of(k.name) + std::size_t(0x9e3779b97f4a7c15U) + (a << 6) + (a >> 2));
}
