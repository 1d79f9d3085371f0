// Feeds a document_reader from JSON text that is complete in memory.
//
// Boost.JSON's parser takes text in pieces that end anywhere, so it keeps its place within every token, gathers the
// parts of tokens, and goes through the bytes of a string before its reader compares them with what it expects. A
// document's text is in one piece, and nearly all of its strings are plain: here they are cut sixteen bytes at a time
// and passed on where they lie.
//
// Every text accepted here is one that the parser would accept, with the same meaning; but in skipped `managedFields`
// only strings and the balance of brackets are checked. A refused text goes to the parser, which says what is wrong
// and where: json_reader.hpp.
#pragma once

#include "document_reader.hpp"
#include "object/json_scan.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace informer::detail {

class text_reader {
public:
    /// A `max_depth` above `deepest` counts as `deepest`. `room` is for strings with escapes; it keeps its memory.
    text_reader(document_reader& to, std::string_view text, std::size_t max_depth, std::string& room) noexcept;
    text_reader(const text_reader&) = delete;
    text_reader& operator=(const text_reader&) = delete;

    static constexpr std::size_t deepest = 1024;
    enum class outcome : unsigned char {
        more,
        whole,
        refused, ///< the reader holds a part that must be aborted
    };
    /// Reads on over about `bytes`. A step does not end within a plain string or a row of closing brackets, nor
    /// within white space, a number or a key with escapes, which are refused if they are long.
    outcome read(std::size_t bytes);
    /// Reads all that is left.
    bool read_all() { return read(static_cast<std::size_t>(end_ - at_)) == outcome::whole; }

private:
    const char* enter(const char* p);
    void close();
    const char* key(const char* p, bool& done);
    const char* colon(const char* p);
    const char* odd_key(const char* p);
    const char* value(const char* p);
    const char* bare(const char* p);
    const char* in_string(const char* p);
    const char* skip(const char* p);
    outcome pause(const char* p) noexcept;
    char closing() const noexcept { return in_object_ ? '}' : ']'; }

    document_reader& to_;
    std::string& room_;
    const char* at_;
    const char* stop_; ///< of this step
    const char* end_;  ///< behind the last bracket
    const std::size_t max_depth_;
    std::size_t depth_ = 0;
    bool in_object_ = false; ///< the innermost open container is an object
    enum class inside : unsigned char { nothing, skipped, string };
    inside inside_ = inside::nothing; ///< a value that the next step goes on with
    char skipped_to_ = ' ';           ///< the bracket in which managedFields must end
    value_scanner scanner_;           ///< of managedFields
    string_part part_;                ///< of a string that is not plain
    /// for each container around the innermost one, whether it is an object; the other elements are not written
    std::array<bool, deepest> objects_;
};

} // namespace informer::detail
