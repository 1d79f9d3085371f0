// Feeds a document_reader from JSON text.
//
// Boost.JSON's parser remains the reference for what JSON is: this reader takes what it takes (RFC 8259, UTF-8), and of a text
// that it cannot read the parser says why. It is three times as fast, as it has the whole text and looks sixteen bytes ahead.
#pragma once

#include "../json_scan.hpp"
#include "document_reader.hpp"
#include "json_parser.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>

namespace informer::detail {

/// No document is nested deeper.
inline constexpr std::size_t deepest = 1000;

/// Reads one text, at once or in slices. A third of an object is managedFields, with two thirds of its containers: of those
/// only strings and brackets are looked at.
class text_reader {
public:
    /// `max_depth`: at most `deepest`.
    text_reader(document_reader& to, std::string_view text, std::size_t max_depth) noexcept;

    enum class outcome : unsigned char { more, whole, fault };
    /// Reads on, about so many bytes. After a fault the document_reader holds a part that must be aborted.
    outcome read(std::size_t bytes);

private:
    bool key(const char*& at);
    bool value(const char*& at);
    bool number(const char*& at);
    bool skip(const char*& at, const char* until);
    bool literal(const char*& at, std::string_view word, handle h);
    void open(bool object) noexcept { is_object_[++depth_] = object; }

    document_reader& to_;
    const char* at_;
    const char* end_; ///< behind a closing bracket, or nothing is to be read: so whatever ends before one needs no look at it
    const std::size_t max_depth_;
    std::size_t depth_ = 0;
    bool begun_ = false;
    bool skipping_ = false; ///< amid managedFields
    value_scanner skipped_;
    char closing_ = ' '; ///< how they must end
    std::array<bool, deepest + 1> is_object_; ///< the containers around, from 1
};

/// False if the text is no object or array as the reader wants one.
inline bool read_json(document_reader& to, std::string_view json, std::size_t max_depth) {
    return text_reader(to, json, max_depth).read(json.size()) == text_reader::outcome::whole;
}

/// The same in slices, the search for a fault included.
class json_slices {
public:
    json_slices(document_reader& to, std::string_view text, std::size_t max_depth)
        : text_(text), max_depth_(max_depth), reader_(to, text, max_depth) {}
    /// Reads on, about `bytes`. True when there is nothing more to read; with `f` if the text cannot be.
    bool read(std::size_t bytes, failure& f);

private:
    const std::string_view text_;
    const std::size_t max_depth_;
    text_reader reader_;
    std::unique_ptr<fault_finder> faulty_;
};

} // namespace informer::detail
