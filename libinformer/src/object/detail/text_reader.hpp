// Feeds a document_reader from JSON text that is there as a whole.
//
// Boost.JSON's parser takes text in pieces that end anywhere, so it keeps its place within every token, gathers what it may have to
// put together, and goes through the bytes of a string before its reader compares them with what it expects. A document's text is in
// one piece, and nearly all of its strings are plain: here they are cut sixteen bytes at a time and handed on where they lie.
//
// What is taken here is what the parser would take, and says the same; but in `managedFields` that are skipped only strings and the
// balance of brackets count. What is refused goes to the parser, which says what is wrong and where: json_reader.hpp.
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
    /// `max_depth` is at most `deepest`. `room` is for strings with escapes; it keeps its memory.
    text_reader(document_reader& to, std::string_view text, std::size_t max_depth, std::string& room) noexcept;
    text_reader(const text_reader&) = delete;
    text_reader& operator=(const text_reader&) = delete;

    static constexpr std::size_t deepest = 1024;
    enum class outcome : unsigned char {
        more,
        whole,
        refused, ///< the reader holds a part that must be aborted
    };
    /// Reads on over about `bytes`: plain strings are not divided, nor what is closed in a row. Nor are white space, numbers and keys with
    /// escapes, which are refused where they are long.
    outcome read(std::size_t bytes);
    /// All that is left of it.
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
    bool in_object_ = false; ///< of the container open innermost
    enum class inside : unsigned char { nothing, skipped, string };
    inside inside_ = inside::nothing; ///< a value that the next step goes on with
    char skipped_to_ = ' ';           ///< what managedFields end in
    value_scanner scanner_;           ///< of them
    string_part part_;                ///< of a string that is not plain
    /// of each container around it, whether that is an object; of others not written
    std::array<bool, deepest> objects_;
};

} // namespace informer::detail
