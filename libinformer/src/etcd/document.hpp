// From keys and values to the text of objects. Sans-io.
#pragma once

#include "etcd/wire.hpp"

#include <informer/etcd/list_watch.hpp>
#include <informer/object/object.hpp>
#include <informer/object/object_key.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace informer::etcd::detail {

/// Where the keys begin that are asked for.
std::string asked_prefix(const mapping& m);
/// The end of the range of all keys that begin so; "" (with the key "\0") stands for all, as etcd writes it.
std::string range_begin(std::string_view prefix);
std::string range_end(std::string_view prefix);

/// A key as an object's. One that is none of an object gets a name that no object of this mapping has, so that it can be told of.
struct named_key {
    object_key key;
    bool fits = true;
};
named_key name_of(const mapping& m, std::string_view key);
/// Of one that does not fit.
std::string why_unfit(const mapping& m, std::string_view key);

/// What an object is told apart by; a UUID because the pool keeps one in 16 bytes.
std::string uid_of(std::string_view key, std::int64_t create_revision);

/// How the value goes into the document.
enum class form { as_it_is, json_value, text_value, base64_value };

/// The text of the object that this value is. `f`: not_an_object, no_metadata, syntax_error; what only a parser finds is left to it.
/// `resource_version`: kv's own, or that of its deletion.
class document {
public:
    bool make(const mapping& m, const named_key& name, const key_value& kv, std::int64_t resource_version, failure& f);
    /// Of a key of which only this is known: it is gone, and nobody says what it was.
    void make_bare(const mapping& m, const named_key& name, const key_value& kv);
    const std::string& text() const noexcept { return text_; }
    /// The value may be a text, and no JSON after all. True: `text()` is the object with it as a text.
    bool try_as_text(const mapping& m, const named_key& name, const key_value& kv, std::int64_t resource_version);

private:
    void write(form how, const mapping& m, const named_key& name, const key_value& kv, std::int64_t resource_version);
    bool splice(const mapping& m, const named_key& name, const key_value& kv, std::int64_t resource_version,
                failure& f);
    std::string text_;
    form form_ = form::as_it_is;
};

/// That it is the object of this key, at this version, whatever its value says in whichever way.
bool is_the_one(const object& o, const named_key& name, std::int64_t resource_version);

} // namespace informer::etcd::detail
