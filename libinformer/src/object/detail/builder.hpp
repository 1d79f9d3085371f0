// Turns a sequence of JSON events into nodes, with another document walked alongside: the cursor.
//
// The cursor is the older version of the object or, if there is none, the document stored before it. As long as the
// members of a container are the cursor's, nothing is stored, counted or hashed; a container that is the cursor's to
// its end *is* that node. At the first difference the members passed so far are pushed onto the stack.
#pragma once

#include "generation.hpp"
#include "handle_stack.hpp"
#include "interning.hpp"
#include "json_tokens.hpp"
#include "packed.hpp"
#include "root/bytes.hpp"

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace informer::detail {

constexpr std::uint32_t size32(std::size_t n) noexcept {
    return static_cast<std::uint32_t>(n);
}

/// Thrown inside the pool only: the value is longer than any node can be, however much room there is.
struct value_is_too_long {};

inline void check_length(std::size_t n) {
    if (n > max_length) throw value_is_too_long();
}

/// How a string is stored: as a small value, or as a node of this content.
struct string_form {
    handle immediate = missing_handle;
    std::uint32_t header = 0;
    const void* data = nullptr;
    std::size_t bytes = 0;
    unsigned char uuid[16];

    /// Inlined: most strings have no other form.
    [[gnu::always_inline]] explicit string_form(std::string_view s) {
        if (s.size() <= 3) {
            immediate = make_small_string(s);
            return;
        }
        if ((s.size() == timestamp_size || s.size() == uuid_text_size) && pack(s)) return;
        check_length(s.size());
        header = make_header(node_kind::string, size32(s.size()));
        data = s.data();
        bytes = s.size();
    }
    string_form(const string_form&) = delete;
    string_form& operator=(const string_form&) = delete;

private:
    bool pack(std::string_view s) noexcept;
};

/// Every handle on its stacks owns one count, so that `abort` after any error gives back exactly what was taken.
class builder {
public:
    /// `cursor` is a document of the same generation that lives until `finish` or `abort`, or missing. `policy` is made
    /// when the generation is no longer small; before, everything is interned. `older`: the cursor is an older version
    /// of the object, so all that is equal in it must be found again, and it is probably not in the processor's caches.
    void start(generation& g, handle cursor, std::unique_ptr<interning_policy>& policy, bool older);
    /// Begins a document of which only nodes are made, by `make` and `make_container`, or parts are read, after
    /// `begin_parts`.
    void start_nodes(generation& g, std::unique_ptr<interning_policy>& policy) noexcept;
    /// Starts the same document again, after `abort` or `abandon`.
    void restart() { start(*generation_, root_cursor_, *policy_place_, older_); }
    /// The finished document; its count goes to the caller.
    handle finish() noexcept;
    void abort() noexcept;
    /// Goes on after others used the generation and the policy: values remembered of this document may be gone, and
    /// nodes that are new to it may be in use by other documents.
    void resume() noexcept;
    /// As `abort`, but hands the stacks with their counts to `to`, to be released later.
    void abandon(std::vector<handle_stack>& to) noexcept;
    /// As `abort`, but does not give the counts back: for a generation that goes as a whole.
    void forget() noexcept;
    /// The finished document before `finish`, without a count.
    handle built() const noexcept { return frames_.back().same_values ? root_cursor_ : values_.back(); }

    // ---- a document in parts, after `start_nodes`: for text_difference

    void begin_parts(bool older);
    /// Sets where the next value belongs, and the previous version's value there (`cursor`).
    void place(path_id container, handle key, handle cursor) noexcept;
    /// The value read since `place`, with its count, and whether it was made just now.
    handle take_part(std::uint8_t& fresh) noexcept;
    /// Finds or makes a node without children at this path, with one more count.
    generation::interned make(path_id path, std::uint32_t header, const void* data, std::size_t bytes);
    /// Finds or makes a container at this path; if it is fresh, it takes over one count of each child and of the shape.
    /// `fresh_child`: the `novelty` of the children together. `remembered`: the rest of the document may repeat it.
    generation::interned make_container(path_id path, std::uint8_t fresh_child, std::uint32_t header,
                                        const handle* children, std::uint32_t n, bool remembered = true);

    // ---- a document in sequence

    void begin_object() { begin(true); }
    void begin_array() { begin(false); }
    void end_object();
    void end_array();
    [[gnu::always_inline]] void key(std::string_view k) {
        const frame& f = frames_.back();
        if (f.same_keys && f.at < f.cursor_size && key_is(f.cursor_keys[f.at], k)) {
            value_cursor_ = f.cursor_values[f.at];
            return;
        }
        other_key(k);
    }
    /// `four`: four bytes can be read from the beginning of `s`, even if it has fewer.
    template <bool four = false>
    [[gnu::always_inline]] void string(std::string_view s) {
        if (s.size() <= 3)
            return immediate(four ? make_small_string_of_four(s.data(), static_cast<std::uint32_t>(s.size()))
                                  : make_small_string(s));
        if (const handle c = take_cursor(); is_node(c)) {
            const std::uint32_t* n = generation_->node(c);
            if (*n == make_header(node_kind::string, static_cast<std::uint32_t>(s.size())) && s.size() <= max_length &&
                same_bytes(n + 1, s.data(), s.size()))
                return same(c);
        }
        other_string(s);
    }
    void number(std::string_view text) {
        // Nearly all numbers have up to eight digits. The parser lets no leading zeros through.
        const char* const end = text.data() + text.size();
        std::int64_t v = 0;
        if (text.size() <= 8 && take_digits(text.data(), end, v) == end) return immediate(make_small_int(v));
        other_number(text);
    }
    void integer(std::int64_t v);
    void integer(std::uint64_t v);
    void floating(double d);
    void literal(handle h) { immediate(h); } ///< null, true, false

    std::size_t depth() const noexcept { return frames_.size() - 1; }
    /// Before `end_object` of the outermost object: moves apiVersion and kind to the front, and adds the given ones if
    /// missing.
    void put_type_first(std::string_view api_version, std::string_view kind);
    /// Memory held for the next document.
    std::uint64_t bytes() const noexcept {
        return (std::uint64_t{values_.capacity()} + keys_.capacity()) * 4 + frames_.capacity() * sizeof(frame) +
               (waiting_ ? sizeof *waiting_ : 0);
    }

private:
    struct frame {
        bool object = false;
        bool same_values = false; ///< all values so far are the cursor's: none is on the stack
        bool same_keys = false;   ///< likewise; true wherever same_values is
        std::uint8_t fresh = 0;   ///< `novelty` of its values: a container of a new node is new itself
        bool new_key = false;     ///< one of its keys was made just now
        /// one of its keys existed before and is not in its place in the cursor: it may be there twice
        bool known_key = false;
        bool loose = false;                    ///< one of its keys may not be interned
        bool loose_cursor = false;             ///< the same of the cursor's keys
        std::uint8_t strange = 0;              ///< keys in a row that the cursor lacks; counted up to `most_strange`
        std::uint16_t record = unknown_record; ///< that of its keys, once it was needed
        std::uint32_t at = 0;                  ///< complete members
        std::uint32_t shapes = 0;              ///< `shapes_` when it began
        std::uint32_t values = 0, keys = 0;    ///< where its part of the stacks begins, once it is there
        std::uint32_t cursor_size = 0;
        std::uint32_t cursor_at = 0; ///< the key expected next, once the keys are not the same
        path_id path = 0;
        handle cursor = missing_handle; ///< the container alongside, or missing
        const handle* cursor_values = nullptr;
        const handle* cursor_keys = nullptr;
    };
    void begin(bool object);
    frame& begin_document(handle cursor, bool older);
    /// The cursor's value beside the one about to come. Beyond the end of the cursor's array: the element before.
    handle take_cursor() const noexcept {
        const frame& f = frames_.back();
        if (f.object) return value_cursor_;
        if (f.at < f.cursor_size) return f.cursor_values[f.at];
        if (f.at == 0) return missing_handle;
        return f.same_values ? f.cursor_values[f.at - 1] : values_.back();
    }
    /// The key under which a value is about to come.
    handle key_of_next(const frame& f) const noexcept {
        return !f.object ? element_key : f.same_keys ? f.cursor_keys[f.at] : keys_.back();
    }
    bool is_expected(const frame& f, handle h) const noexcept {
        return f.same_values && f.at < f.cursor_size && f.cursor_values[f.at] == h;
    }
    void immediate(handle h) {
        frame& f = frames_.back();
        if (!is_expected(f, h)) {
            if (f.same_values) leave_values(f, 1);
            values_.need(1);
            values_.push(h);
        }
        ++f.at;
    }
    /// Adds a node of the cursor or of this document, with a count.
    void same(handle h) {
        frame& f = frames_.back();
        if (!is_expected(f, h)) {
            if (f.same_values) leave_values(f, 1);
            values_.need(1);
            generation_->retain(h);
            values_.push(h);
        }
        ++f.at;
    }
    void leave_values(frame& f, std::uint32_t more);
    void leave_keys(frame& f);
    void other_key(std::string_view k);
    void other_string(std::string_view s);
    void other_number(std::string_view text);
    void leaf_inline(std::uint32_t header, const void* data, std::size_t bytes);
    void leaf(std::uint32_t header, const void* data, std::size_t bytes);
    void leaf_of_eight(std::uint32_t header, const void* data);
    generation::interned make_findable(path_id path, std::uint8_t fresh_child, std::uint32_t header,
                                       const handle* children, std::uint32_t n);
    bool begin_policy();
    std::uint32_t find_in_cursor(const frame& f, std::string_view k);
    static std::uint32_t find_handle(const frame& f, handle key) noexcept;
    handle new_key(frame& f, std::string_view k);
    handle key_of_cursor(frame& f, handle key);
    void take_key_of_cursor(frame& f, std::uint32_t i);
    static constexpr std::uint16_t unknown_record = 0xffff;
    interning_record* key_record(frame& f) const noexcept {
        if (!policy_) return nullptr;
        if (f.record == unknown_record) f.record = interning_policy::place(child_path(f.path, keys_of_path));
        return &policy_->at(f.record);
    }
    bool let_wait(const frame& f, std::string_view k, std::uint64_t hash);
    void find_waiting();
    void container(std::uint32_t header);
    [[gnu::always_inline]] bool key_is(handle h, std::string_view k) const noexcept {
        if (k.size() <= 3) return h == make_small_string(k);
        if (!is_node(h)) return false;
        const std::uint32_t* n = generation_->node(h);
        return header_length(*n) == k.size() && same_bytes(n + 1, k.data(), k.size());
    }
    handle shape_of_top();
    handle loose_shape();
    void remove_duplicates();

    generation* generation_ = nullptr;
    interning_policy* policy_ = nullptr;
    std::unique_ptr<interning_policy>* policy_place_ = nullptr;
    handle root_cursor_ = missing_handle;
    handle value_cursor_ = missing_handle; ///< the cursor's value for the key just read
    bool older_ = false;
    std::uint32_t shapes_ = 0; ///< made in this document
    handle_stack values_, keys_;
    std::vector<frame> frames_; ///< the first one holds the document

    /// Keys that only the table can find. Each look-up would wait for memory twice, so these keys are looked up
    /// together. Until then their places on `keys_` are empty.
    struct waiting_keys {
        static constexpr std::uint32_t most = 32, longest = 64;
        struct one {
            std::uint64_t hash;
            std::uint32_t at, frame, size;
        };
        std::uint32_t n = 0;
        one keys[most];
        char text[most][longest];
    };
    std::unique_ptr<waiting_keys> waiting_; ///< made when needed

    /// The first 16 bits of the quick hashes of one frame's keys, taken from their text while it is at hand. They are
    /// kept only as long as each key of the frame comes by `other_key`. A later frame may have the same address: it
    /// begins anew or calls `forget`.
    class key_hashes {
    public:
        void forget() noexcept { of_ = nullptr; }
        void add(const frame& f, std::uint32_t at, std::uint64_t hash) noexcept {
            if (at == 0)
                of_ = &f;
            else if (of_ != &f || n_ != at)
                return;
            hashes_[at % most] = static_cast<std::uint16_t>(hash >> 48);
            n_ = at + 1;
        }
        /// Of all `n` keys, or null.
        const std::uint16_t* of(const frame& f, std::uint32_t n) const noexcept {
            return of_ == &f && n_ == n && n <= most ? hashes_ : nullptr;
        }

    private:
        static constexpr std::uint32_t most = 256; // larger shapes use other hashes
        const frame* of_ = nullptr;
        std::uint32_t n_ = 0;
        std::uint16_t hashes_[most];
    };
    key_hashes key_hashes_;
};

} // namespace informer::detail
