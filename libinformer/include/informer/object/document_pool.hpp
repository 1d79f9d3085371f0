// The store of all documents of one informer: hash-consed, immutable, 32-bit handles.
#pragma once

#include <informer/error.hpp>
#include <informer/object/object.hpp>

#include <boost/json/fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace informer {

/// Rewrites an object before it is stored, exactly once for each received object. It gets the object with apiVersion
/// and kind, however it came, without managedFields unless they are kept, and before any projection. Its name,
/// namespace, uid and resourceVersion are put back to what was received, whatever the transform did to them. An object
/// that is left without metadata, or with another apiVersion or kind, is quarantined. The transform should keep
/// deletionTimestamp, finalizers and generation, because controllers decide by them. It sees numbers as boost::json has
/// them: one that no int64, uint64 or double holds exactly becomes the nearest double. A double that is not finite
/// afterwards is stored as `encode` does.
using transform = std::function<void(boost::json::value&)>;

/// Which parts of objects to store. Paths are JSON pointers; "" is the whole object, and "*" stands for every element
/// or member. Always stored are apiVersion, kind and, in metadata, the identity (name, namespace, uid, resourceVersion)
/// and what controllers decide by: generation, deletionTimestamp and finalizers. To map objects to owners, keep
/// "/metadata/ownerReferences", too. Text that is not a pointer throws `error(errc::bad_configuration)`.
class projection {
public:
    projection() = default;
    /// Drops these sub-trees. With "" only what is always stored stays; without any pointer nothing is dropped.
    static projection drop(std::vector<std::string> pointers);
    /// Keeps only these sub-trees. With "" all is kept; without any pointer only what is always stored.
    static projection keep(std::vector<std::string> pointers);
    bool empty() const noexcept { return pointers_.empty() && !keep_; } ///< it leaves everything as it is
    bool keeps() const noexcept { return keep_; }
    const std::vector<std::string>& pointers() const noexcept { return pointers_; }
    friend bool operator==(const projection&, const projection&) = default;

private:
    projection(std::vector<std::string> pointers, bool keep);
    std::vector<std::string> pointers_;
    bool keep_ = false;
};

class decode_options {
public:
    decode_options() {}
    /// `metadata.managedFields` is skipped unless kept. If it is a list or an object, only its strings and the balance
    /// of its brackets are checked.
    // clang-format off
    decode_options& keep_managed_fields(bool on = true) { keep_managed_fields_ = on; return *this; }
    decode_options& project(projection p) { projection_ = std::move(p); return *this; }
    decode_options& transform_with(transform t) { transform_ = std::move(t); return *this; }
    // clang-format on
    /// The apiVersion and kind that list items lack on the wire; added as the first members when missing. (An informer
    /// uses those of its resource.)
    decode_options& type(std::string api_version, std::string kind) {
        api_version_ = std::move(api_version);
        kind_ = std::move(kind);
        return *this;
    }
    /// Maximum nesting, the object itself included; at most 1,000, because code that reads a document recurses.
    /// Informers do not recurse; `diff` takes 512 KB of stack at a thousand levels, `to_value` and `from_value` 384,
    /// `to_json` and patches 192. Lower it where threads have less.
    // clang-format off
    decode_options& max_depth(std::size_t d) { max_depth_ = d; return *this; }

    /// Reads documents by their differences from texts read before, if they are like these; otherwise, and in pools of
    /// few documents, token by token. The documents and the errors are the same. On by default.
    /// docs/design/text-difference.md.
    decode_options& text_difference(bool on = true) { text_difference_ = on; return *this; }
    // clang-format on

    bool keep_managed_fields_ = false;
    projection projection_;
    transform transform_;
    std::string api_version_, kind_;
    std::size_t max_depth_ = 1000;
    bool text_difference_ = true;
};

struct pool_statistics {
    std::uint64_t objects = 0;     ///< live roots
    std::uint64_t bytes = 0;       ///< all memory the pool has from the system: nodes, free room, tables, roots
    std::uint64_t node_bytes = 0;  ///< live nodes alone
    std::uint64_t free_bytes = 0;  ///< on free lists or not yet handed out
    std::uint64_t table_bytes = 0; ///< intern table and other side structures
    /// of node_bytes
    std::uint64_t string_bytes = 0, array_bytes = 0, object_bytes = 0, shape_bytes = 0, number_bytes = 0;
    std::uint64_t nodes = 0;
    std::uint64_t referenced_nodes = 0; ///< references to nodes from nodes and roots; sharing() = referenced / nodes
    std::uint64_t generations = 0;      ///< alive, old ones included
    std::uint64_t templates = 0;        ///< texts kept for comparison (`decode_options::text_difference`)
    std::uint64_t template_bytes = 0;   ///< of table_bytes
    std::uint64_t template_hits = 0;    ///< documents read by their differences, since the pool was made
    std::uint64_t template_misses = 0;  ///< documents that no template fitted
    double sharing() const noexcept {
        return nodes ? static_cast<double>(referenced_nodes) / static_cast<double>(nodes) : 1.0;
    }
};

/// One document being decoded, or moved, in slices, so that a large one does not hold its thread for long. If it is
/// dropped before its end, it leaves nothing behind but work for `collect`.
///
/// *Thread safety*: as the pool's writer. Between two steps all functions of the pool may be called, and those of other
/// decodings, too; if a new generation began, the decoding starts over in it. *Lifetime*: holds the pool, and
/// `previous` or what is moved; the text must stay where it is. *Errors*: those of `decode` or `move`, with the same
/// texts (but in a long row of escapes another error may be found); after an exception it is done, and `finish` reports
/// `stopped`. *Complexity*: that of `decode` or `move`. One step takes time for its bytes, for the rest of a string
/// without escapes that goes on behind them, and for the strings and the members of the containers that end in it.
class decoding {
public:
    static constexpr std::size_t slice = 64 * 1024;
    virtual ~decoding() = default;
    /// Continues over about `bytes` of the text, or of what is moved. True: it is done, call `finish`. A text that fits
    /// into the first step, or whose options have a `transform`, is decoded in this one.
    virtual bool step(std::size_t bytes = slice) = 0;
    /// What `decode` or `move` returns. Call it once, after `step` returned true.
    virtual object finish(failure& f) = 0;
};

/// Builds and owns documents. Keys and shapes (ordered key lists) are stored once; so are the strings, arrays and
/// objects of paths whose values repeat, and what a document has in common with its older version or with the document
/// stored before it. A document whose content did not change *is* its predecessor.
///
/// *Thread safety*: one writer at a time. All functions except `options`, and the steps and ends of a `decoding`, are
/// for the writer. Handles that the pool gave out may be read, copied and dropped on any thread, also after the pool's
/// owner is gone. *Executor*: none. *Errors*: `decode`, `encode` and `move` do not throw; a full generation (4 GiB) and
/// memory that the system refuses are `errc::pool_full`, before anything is lost. `begin_decode`, `begin_move` and
/// `begin_generation` throw std::bad_alloc, and have begun nothing then. *Complexity*: `decode` is linear in the text,
/// `collect` in what died since the last one, and `collect` needs no memory. For the layout and its figures see
/// docs/design/document-pool.md.
class document_pool {
public:
    static std::shared_ptr<document_pool> make(decode_options options = decode_options());
    virtual ~document_pool() = default;

    /// Parses one JSON object and interns it. `previous` is the older version of the same object, if any: it is walked
    /// alongside, so that equal parts are found without hashing. An object that did not change comes back as a handle
    /// `same_as(previous)` and costs nothing, unless `previous` is of an older generation or of another pool. On error
    /// returns an empty object and sets `f`: syntax_error (with offset), bad_utf8, too_deep, not_an_object, too_large
    /// (a value of 2^28 bytes or elements), pool_full, bad_configuration (the transform threw, or nested it too
    /// deeply). A missing metadata.name is not judged here.
    virtual object decode(std::string_view json, const object& previous, failure& f) = 0;
    /// The same in slices.
    virtual std::unique_ptr<decoding> begin_decode(std::string_view json, object previous) = 0;
    /// The same from a value in memory (the only options applied are `type` and `max_depth`). JSON has no text for a
    /// double that is not finite: infinity is stored as the largest one, NaN as null.
    virtual object encode(const boost::json::value& v, const object& previous, failure& f) = 0;

    /// Takes what other threads dropped and frees its nodes, at most about `budget` nodes; true when nothing is left.
    /// `decode` does a share of this by itself. It also ends a compaction: the pool forgets where `move` put what
    /// objects shared, so that this lives no longer than it is held.
    virtual bool collect(std::size_t budget = 1'000'000) = 0;
    virtual pool_statistics statistics() const = 0;

    /// True when a compaction would give a fair part of the memory back: dead room is over a quarter, and more than old
    /// generations hold already. An object that others hold stays where it is, so copying it is in vain. No more than a
    /// sixteenth of what is freed may be copied in vain, for the `kept` objects that others have handles of.
    virtual bool wants_compaction(std::uint64_t kept = 0) const = 0;
    /// Starts a new generation, into which everything is decoded from now on. `move()` copies a live object over; what
    /// objects shared they share again, unless a `collect` came between. The old generation is freed when its last
    /// handle is dropped; as soon as few are left, `collect` gives back what these do not need.
    virtual void begin_generation() = 0;
    virtual object move(const object& o, failure& f) = 0;
    /// The same in slices.
    virtual std::unique_ptr<decoding> begin_move(object o) = 0;

    virtual const decode_options& options() const noexcept = 0;
};

namespace detail {
/// Sizes of a pool that tests lower and small pools choose.
struct pool_limits {
    std::uint64_t max_bytes = std::uint64_t{1} << 32; ///< per generation; more than 4 GiB has no handles
    std::uint32_t first_chunk = 16 * 1024;            ///< bytes; each further chunk is four times larger, up to 1 MiB
    std::uint32_t template_documents = 64;            ///< live ones before `text_difference` keeps texts
    bool parser_only = false;                         ///< texts are read by Boost.JSON's parser: the reference
};
std::shared_ptr<document_pool> make_pool(decode_options options, pool_limits limits);
} // namespace detail

/// Parses one document outside of any cache (client answers, tests). Throws `error`; the overload with `failure&`
/// reports in `f`.
object parse_object(std::string_view json, decode_options options = decode_options());
object parse_object(std::string_view json, failure& f, decode_options options = decode_options());

} // namespace informer
