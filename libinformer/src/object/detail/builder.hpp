// Turns a sequence of JSON events into interned nodes, with the previous version of the document walked alongside.
#pragma once

#include "generation.hpp"

#include <string_view>
#include <vector>

namespace informer::detail {

/// Every handle on its stacks owns one count, so that `abort` after any error gives back exactly what was taken.
class builder {
public:
    /// `previous` is a document of the same generation, or missing.
    void start(generation& g, handle previous) noexcept {
        generation_ = &g;
        root_previous_ = previous;
    }
    /// The finished document; its count goes to the caller.
    handle finish() noexcept;
    void abort() noexcept;

    void begin_object() { begin(true); }
    void begin_array() { begin(false); }
    void end_object();
    void end_array();
    void key(std::string_view k);
    void drop_key() noexcept; ///< the value of the last key does not come
    void string(std::string_view s);
    void number(std::string_view text);
    void integer(std::int64_t v);
    void integer(std::uint64_t v);
    void floating(double d);
    void literal(handle h) { push(h); } ///< null, true, false
    /// A value of any document, copied iteratively.
    void copy(const generation& from, handle h);

    std::size_t depth() const noexcept { return frames_.size(); }
    /// Before `end_object` of the outermost object: apiVersion and kind first, the given ones where there are none.
    void put_type_first(std::string_view api_version, std::string_view kind);
    /// Memory held for the next document.
    std::uint64_t bytes() const noexcept {
        return (values_.capacity() + keys_.capacity()) * 4 + frames_.capacity() * sizeof(frame);
    }

private:
    struct frame {
        std::uint32_t values, keys; ///< where its part of the stacks begins
        handle previous;            ///< the container at this place in the previous version
        std::uint32_t previous_size;
        std::uint32_t previous_at;  ///< the next key expected
        const handle* previous_values;
        const handle* previous_keys;
        bool object;
        bool fresh; ///< holds a node made just now, so it is new itself
    };
    void begin(bool object);
    handle take_previous() noexcept;
    void push(handle h) { values_.push_back(h); }
    void leaf(std::uint32_t header, const void* data, std::size_t bytes);
    handle intern_key(std::string_view k);
    void container(std::uint32_t header, const handle* children, std::uint32_t n, bool known_new, handle previous);
    bool key_is(handle h, std::string_view k) const noexcept;
    handle shape_of_top();
    void remove_duplicates();

    generation* generation_ = nullptr;
    handle root_previous_ = missing_handle;
    handle value_previous_ = missing_handle; ///< of the key just read
    std::vector<handle> values_, keys_;
    std::vector<frame> frames_;
};

} // namespace informer::detail
