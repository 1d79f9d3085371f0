#include <informer/cache/lister.hpp>

#include "object_map.hpp"

#include <algorithm>
#include <utility>

namespace informer {

lister::lister(std::shared_ptr<const source> s, std::string name_space)
    : source_(std::move(s)), name_space_(source_->namespaced() ? std::move(name_space) : std::string()) {
    elsewhere_ = !name_space_.empty() && !source_->has(name_space_);
}

bool lister::source::has(std::string_view name_space) const noexcept {
    const std::string_view only = this->name_space();
    return only.empty() || !namespaced() || name_space == only;
}

void lister::check(std::string_view doing) const {
    if (elsewhere_) {
        throw error(errc::not_cached,
                    std::string(doing) + " " + source_->describe() + ": namespace \"" + name_space_ + "\"");
    }
    if (!source_->has_synced()) throw error(errc::not_synced, std::string(doing) + " " + source_->describe());
}

cache_snapshot lister::filled(std::string_view doing) const {
    check(doing);
    return source_->snapshot();
}

lister lister::in(std::string name_space) const {
    return lister(source_, std::move(name_space));
}

object lister::find(const object_key& key) const {
    check("read");
    return name_space_.empty() || key.name_space == name_space_ ? source_->get(key.name_space, key.name) : object();
}

object lister::get(const object_key& key) const {
    object found = find(key);
    if (!found) not_found(key.str());
    return found;
}

object lister::find_by_text(std::string_view name_or_key) const {
    check("read");
    const auto key = detail::key_view::parse(name_or_key);
    if (name_space_.empty()) return source_->get(key.name_space, key.name);
    // on etcd, a name may itself have a slash
    if (object found = source_->get(name_space_, name_or_key)) return found;
    return key.name_space == name_space_ ? source_->get(name_space_, key.name) : object();
}

object lister::get_by_text(std::string_view name_or_key) const {
    object found = find_by_text(name_or_key);
    if (!found) not_found(std::string(name_or_key));
    return found;
}

void lister::not_found(std::string key) const {
    std::string what = "read " + source_->describe() + " \"" + std::move(key) + "\"";
    if (!name_space_.empty()) what += " in namespace \"" + name_space_ + "\"";
    throw error(errc::not_found, std::move(what));
}

lent_objects lister::list() const {
    return filled("list").list_namespace(name_space_);
}

lent_objects lister::list(const label_selector& selector) const {
    if (name_space_.empty()) return filled("list").list(selector);
    lent_objects found = list();
    if (!selector.everything()) erase_if(found, [&](const object& o) { return !selector.matches(o); });
    return found;
}

lent_objects lister::by_index(std::string_view index, std::string_view value) const {
    lent_objects found = filled("list").by_index(index, value);
    if (!name_space_.empty()) erase_if(found, [&](const object& o) { return !(o.name_space() == name_space_); });
    return found;
}

cache_snapshot lister::snapshot() const {
    return source_->snapshot();
}

} // namespace informer
