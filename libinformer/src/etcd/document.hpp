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

/// The prefix of the keys that are requested.
std::string asked_prefix(const mapping& m);
/// The range of all keys that begin with `prefix`, as etcd writes it: an end of "\0" means no upper bound, and the
/// range from "\0" to "\0" is all keys (prefix "").
std::string range_begin(std::string_view prefix);
std::string range_end(std::string_view prefix);

/// An etcd key as the key of an object. If it cannot be that (`fits` is false), `key` is one that no object of this
/// mapping has, so that the etcd key can be reported.
struct named_key {
    object_key key;
    bool fits = true;
};
named_key name_of(const mapping& m, std::string_view key);
/// Why a key does not fit.
std::string why_unfit(const mapping& m, std::string_view key);

/// Identifies an object: a key that was deleted and created again is another one. In the form of a UUID, because the
/// pool keeps that in 16 bytes.
std::string uid_of(std::string_view key, std::int64_t create_revision);

/// How the value goes into the document.
enum class form { as_it_is, json_value, text_value, base64_value };

/// The text of the object that a value stands for. `f`: not_an_object, no_metadata, syntax_error; a fault that only a
/// parser finds is left to the parser. `resource_version`: kv's own, or that of its deletion.
class document {
public:
    bool make(const mapping& m, const named_key& name, const key_value& kv, std::int64_t resource_version, failure& f);
    /// The object of a deleted key whose last value is not known: only its identity.
    void make_bare(const mapping& m, const named_key& name, const key_value& kv);
    const std::string& text() const noexcept { return text_; }
    /// For a value that the parser found to be no JSON: it may be a text. True: `text()` is the object with the value
    /// as a text.
    bool try_as_text(const mapping& m, const named_key& name, const key_value& kv, std::int64_t resource_version);

private:
    void write(form how, const mapping& m, const named_key& name, const key_value& kv, std::int64_t resource_version);
    bool splice(const mapping& m, const named_key& name, const key_value& kv, std::int64_t resource_version,
                failure& f);
    std::string text_;
    form form_ = form::as_it_is;
};

/// Whether the object has this key and this version: its value may name itself otherwise, in whatever notation.
bool is_the_one(const object& o, const named_key& name, std::int64_t resource_version);

} // namespace informer::etcd::detail
