// An immutable Kubernetes object.
#pragma once

#include <informer/object/object_key.hpp>
#include <informer/object/resource_version.hpp>
#include <informer/object/value.hpp>

#include <chrono>
#include <iosfwd>
#include <memory>
#include <optional>
#include <utility>

namespace informer {

namespace detail {
struct root; // a reference-counted root of a document
void retain(root* r) noexcept;
void release(root* r) noexcept; // on the last one: onto the pool's lock-free retire list
} // namespace detail

/// The metadata of an object: a view with the lifetime of `value`.
class object_meta {
public:
    explicit object_meta(informer::value metadata) noexcept
        : document_(metadata.generation()), handle_(metadata.handle()) {}
    text name() const noexcept { return value()["name"].string_or_empty(); }
    text name_space() const noexcept { return value()["namespace"].string_or_empty(); }
    text uid() const noexcept { return value()["uid"].string_or_empty(); }
    informer::resource_version resource_version() const;
    std::int64_t generation() const noexcept { return value()["generation"].int64_or(0); }
    informer::value labels() const noexcept { return value()["labels"]; }
    informer::value annotations() const noexcept { return value()["annotations"]; }
    text label(std::string_view key) const noexcept { return labels()[key].string_or_empty(); }
    text annotation(std::string_view key) const noexcept { return annotations()[key].string_or_empty(); }
    informer::value owner_references() const noexcept { return value()["ownerReferences"]; }
    informer::value finalizers() const noexcept { return value()["finalizers"]; }
    std::optional<std::chrono::system_clock::time_point> creation_time() const noexcept;
    std::optional<std::chrono::system_clock::time_point> deletion_time() const noexcept;
    informer::value value() const noexcept { return {document_, handle_}; }

private:
    // The words of a `value` instead of a `value`: newer g++ then sees that this is a view, and does not warn
    // (-Wdangling-reference) about `for (const value one : o.meta().finalizers())`.
    const detail::generation* document_ = nullptr;
    std::uint32_t handle_ = 0;
};

/// A handle on an immutable document in a `document_pool`: one pointer, with an atomic count behind it.
///
/// *Thread safety*: copies may be read, copied and dropped on any thread. *Lifetime*: a handle may outlive its pool, of
/// whose memory it then keeps little more than its document needs; views (`value`, `text`) are valid while a handle on
/// this document is held, and temporaries refuse to give views: name the object first. *Complexity*: copying is one
/// relaxed increment; the last handles of a pool that is gone free its memory when they are dropped.
class object {
public:
    object() noexcept = default;
    /// Adopts one count.
    explicit object(detail::root* adopt) noexcept : root_(adopt) {}
    object(const object& o) noexcept : root_(o.root_) {
        if (root_) detail::retain(root_);
    }
    object(object&& o) noexcept : root_(std::exchange(o.root_, nullptr)) {}
    object& operator=(object o) noexcept {
        std::swap(root_, o.root_);
        return *this;
    }
    ~object() {
        if (root_) detail::release(root_);
    }

    explicit operator bool() const noexcept { return root_ != nullptr; }

    informer::value value() const& noexcept;
    informer::value value() const&& = delete;
    informer::value operator[](std::string_view key) const& noexcept { return value()[key]; }
    // name the object first: the value would outlive it
    informer::value operator[](std::string_view key) const&& = delete;
    informer::value at_pointer(std::string_view pointer) const& { return value().at_pointer(pointer); }
    informer::value at_pointer(std::string_view pointer) const&& = delete;
    object_meta meta() const& noexcept { return object_meta(value()["metadata"]); }
    object_meta meta() const&& = delete;

    text kind() const& noexcept;
    text api_version() const& noexcept;
    /// Whether apiVersion and kind are these.
    bool has_type(std::string_view api_version, std::string_view kind) const noexcept;
    /// As in `meta()`, without walking to it.
    text name() const& noexcept;
    text name_space() const& noexcept;
    /// False for objects that no cache can hold.
    bool has_name() const noexcept;
    text kind() const&& = delete;
    text api_version() const&& = delete;
    text name() const&& = delete;
    text name_space() const&& = delete;
    // By value: fine on temporaries.
    object_key key() const;
    bool has_key(std::string_view name_space, std::string_view name) const noexcept;
    std::string uid() const;
    informer::resource_version resource_version() const;
    std::string to_json() const;

    /// The same document (one root), or equal handles within one pool: O(1).
    bool same_as(const object& o) const noexcept;
    /// Deep equality, O(1) where `same_as`.
    friend bool operator==(const object& a, const object& b);
    /// Compact JSON; nothing for an empty handle.
    friend std::ostream& operator<<(std::ostream& o, const object& of);

    detail::root* root() const noexcept { return root_; }

private:
    detail::root* root_ = nullptr;
};

} // namespace informer
