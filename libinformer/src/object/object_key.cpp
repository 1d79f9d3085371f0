#include <informer/object/object_key.hpp>

#include <informer/detail/text_hash.hpp>

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
    // The two parts must not be interchangeable.
    return informer::detail::text_hash(k.name) + informer::detail::text_hash(k.name_space) * 0x9e3779b97f4a7c15U;
}
