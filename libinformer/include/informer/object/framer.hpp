// Cuts whole objects out of a JSON byte stream, wherever its chunks break. Sans-io.
#pragma once

#include <informer/error.hpp>
#include <informer/object/object_key.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace informer {

inline constexpr std::size_t default_max_object = std::size_t(64) << 20;

/// Cuts a list response: one JSON object whose member "items" is an array. Each element is handed out as text. All
/// other members form the envelope ({"kind":..,"apiVersion":..,"metadata":..}, items left out), which is complete at
/// the end, wherever it stands in the text. A `Status` or any object without items comes out as envelope alone.
///
/// Bytes are scanned once, string- and brace-aware; memory is bounded by the largest item plus the envelope.
///
/// List items resemble each other. After `guess()` an item is cut where the next one seems to begin, without a look
/// into it, and is `unproven()`. If it reads as one JSON object the cut is right, since a value has only one end. If
/// not, `look_again()` lets `next()` hand out the same item again, cut by its braces. *Errors*: `next` reports
/// `syntax_error` (cannot be framed, with offset), or `too_large` for an envelope of over 256 KiB (or over
/// `max_object`), since it is parsed in one step. An item over `max_object` is skipped and handed out as `oversized()`
/// with its beginning as text (to name its key). After feeding everything, check `done()`. std::bad_alloc is thrown,
/// and ends the framer: bytes may be lost.
/// *Lifetime*: `item()` is valid until the next call of `next()` or `feed()`.
class list_framer {
public:
    explicit list_framer(std::size_t max_object = default_max_object);
    ~list_framer();
    list_framer(list_framer&&) noexcept;
    list_framer& operator=(list_framer&&) noexcept;
    /// Adds bytes; then call `next()` until false.
    void feed(std::string_view bytes);
    /// Adds bytes, without a copy where possible: they must stay in place until `next()` has returned false.
    void lend(std::string_view bytes);
    /// Advances to the next whole item; false when more bytes are needed, at the end, or on error (`f`, else cleared).
    bool next(failure& f);
    void guess() noexcept;
    bool unproven() const noexcept;
    void look_again(); ///< only where the current item is unproven
    std::string_view item() const noexcept;
    bool oversized() const noexcept;
    std::size_t position() const noexcept; ///< of the current item, from 0
    /// Whether there was a member "items", an array or null.
    bool has_items() const noexcept;
    /// The text is complete (its last brace was seen); `envelope()` may be parsed.
    bool done() const noexcept;
    const std::string& envelope() const noexcept;

private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

/// Cuts a watch stream: JSON objects one after the other, each {"type":T,"object":O} in any order of members.
/// Same promises as `list_framer`; an event over `max_object` is skipped and reported as `oversized()`.
///
/// API servers write an event as one line. A line that begins and ends as they write it is cut there without a look
/// into it, and its object is `unproven()`. If it reads as one JSON object the cut is right, since a value has only one
/// end. If not, `look_again()` lets `next()` hand out the same event again, cut by its braces.
///
/// An event with a missing quote or bracket has no end of its own. The stream is a `syntax_error` as soon as a line
/// feed shows it, so that the event does not swallow those behind it. Nobody can tell what it was, perhaps a deletion,
/// so the reader has to ask for it again.
class watch_framer {
public:
    explicit watch_framer(std::size_t max_object = default_max_object);
    ~watch_framer();
    watch_framer(watch_framer&&) noexcept;
    watch_framer& operator=(watch_framer&&) noexcept;
    void feed(std::string_view bytes);
    void lend(std::string_view bytes);
    bool next(failure& f);
    bool unproven() const noexcept;
    void look_again();                        ///< only where the current event is unproven
    std::string_view type() const noexcept;   ///< unescaped, "" when absent or not a string
    std::string_view object() const noexcept; ///< text of the member "object", "" when absent
    bool oversized() const noexcept;
    bool idle() const noexcept; ///< between two events: the stream may end here
    std::size_t position() const noexcept;

private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

/// Reads `metadata.namespace` and `metadata.name` from the text of an object (or of its beginning) without parsing the
/// rest. Empty when they are not found, and when one of them, a key before them or a run of white space is over 64 KiB.
/// For finding the previous version before parsing, and for naming bad objects.
object_key peek_key(std::string_view json);

/// The same for `metadata.uid`; empty when it is not found, or twice. Tells whether a bad object is another one than
/// that known.
std::string peek_uid(std::string_view json);

/// `peek_key` in steps, for a long text, which must stay where it is.
class key_peek {
public:
    explicit key_peek(std::string_view json);
    ~key_peek();
    /// Continues over about `bytes`. True when `key()` is what `peek_key` returns.
    bool step(std::size_t bytes);
    const object_key& key() const noexcept;

private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

} // namespace informer
