#include <informer/object/object.hpp>

#include <informer/object/rfc3339.hpp>

#include "detail/pool_core.hpp"
#include "detail/reading.hpp"

namespace informer {

informer::value object::value() const& noexcept {
    return root_ ? informer::value(root_->generation, root_->document) : informer::value();
}

namespace {

// A pool stores apiVersion and kind as the first two members of what it has read.
[[gnu::always_inline]] inline detail::handle api_version_of(const detail::generation* g,
                                                            const detail::children& c) noexcept {
    return detail::member_at(g, c, 0, "apiVersion");
}
[[gnu::always_inline]] inline detail::handle kind_of(const detail::generation* g, const detail::children& c) noexcept {
    return detail::member_at(g, c, 1, "kind");
}

detail::children members_of(const detail::root* r) noexcept {
    return r ? detail::children_of(r->generation, r->document) : detail::children();
}

} // namespace

text object::api_version() const& noexcept {
    const detail::generation* const g = root_ ? root_->generation : nullptr;
    return detail::string_of(g, api_version_of(g, members_of(root_)));
}

text object::kind() const& noexcept {
    const detail::generation* const g = root_ ? root_->generation : nullptr;
    return detail::string_of(g, kind_of(g, members_of(root_)));
}

bool object::has_type(std::string_view api_version, std::string_view kind) const noexcept {
    const detail::generation* const g = root_ ? root_->generation : nullptr;
    const detail::children c = members_of(root_);
    return detail::is_text(g, api_version_of(g, c), api_version) && detail::is_text(g, kind_of(g, c), kind);
}

bool object::has_name() const noexcept {
    return root_ && !detail::is_text(root_->generation, root_->key.name, {});
}

text object::name() const& noexcept {
    return root_ ? detail::string_of(root_->generation, root_->key.name) : text();
}

text object::name_space() const& noexcept {
    return root_ ? detail::string_of(root_->generation, root_->key.name_space) : text();
}

object_key object::key() const {
    return object_key(this->name_space().str(), this->name().str());
}

bool object::has_key(std::string_view name_space, std::string_view name) const noexcept {
    if (!root_) return name_space.empty() && name.empty();
    const detail::generation* g = root_->generation;
    return detail::is_text(g, root_->key.name, name) && detail::is_text(g, root_->key.name_space, name_space);
}

std::string object::uid() const {
    return this->meta().uid().str();
}

informer::resource_version object::resource_version() const {
    return this->meta().resource_version();
}

std::string object::to_json() const {
    return this->value().to_json();
}

bool object::same_as(const object& o) const noexcept {
    if (root_ == o.root_) return true;
    return root_ && o.root_ && root_->generation == o.root_->generation && root_->document == o.root_->document;
}

bool operator==(const object& a, const object& b) {
    return a.same_as(b) || a.value() == b.value();
}

std::ostream& operator<<(std::ostream& o, const object& of) {
    return o << of.value();
}

informer::resource_version object_meta::resource_version() const {
    const text t = value()["resourceVersion"].string_or_empty();
    return informer::resource_version(t.view());
}

namespace {

std::optional<std::chrono::system_clock::time_point> time_of(const value& v) noexcept {
    const text t = v.string_or_empty();
    return parse_rfc3339(t.view());
}

} // namespace

std::optional<std::chrono::system_clock::time_point> object_meta::creation_time() const noexcept {
    return time_of(value()["creationTimestamp"]);
}

std::optional<std::chrono::system_clock::time_point> object_meta::deletion_time() const noexcept {
    return time_of(value()["deletionTimestamp"]);
}

} // namespace informer
