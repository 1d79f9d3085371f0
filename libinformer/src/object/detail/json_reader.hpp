// Feeds a document_reader by Boost.JSON: from text whose errors are to be named, and from a boost::json value.
#pragma once

#include "document_reader.hpp"

#include <boost/json/fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace informer::detail {

/// The reference for what is JSON. Three to four times as much work as `text_reader`, which is asked first and leaves to it what it
/// refuses: so it reads what is wrong, says what that is, and where. (What is skipped of `managedFields` must be JSON here.)
/// False and `f` if the text is not one JSON object; the reader then holds a part that must be aborted.
bool read_by_parser(document_reader& to, std::string_view json, std::size_t max_depth, failure& f);

/// The same in slices. The errors and their places are the same, but where 4 KiB behind the end of a slice are nothing but escapes: a
/// slice that ends among them may find another thing wrong, or the same elsewhere.
class parser_slices {
public:
    parser_slices(document_reader& to, std::string_view text, std::size_t max_depth);
    ~parser_slices();
    /// Reads on, about `bytes`. True when there is nothing more to read; `f` then as of `read_by_parser`.
    bool read(std::size_t bytes, failure& f);
    std::uint64_t bytes() const noexcept { return gathered_.capacity(); }

private:
    class parser;
    std::string_view text_;
    std::size_t done_ = 0;
    std::string gathered_;
    std::unique_ptr<parser> parser_;
};

bool read_value(document_reader& to, const boost::json::value& v, std::size_t max_depth, failure& f);
/// Parses and rewrites; `to` is then read by `read_value`. What the transform throws is a failure.
bool parse_transformed(boost::json::value& to, std::string_view json, std::size_t max_depth, const transform& rewrite,
                       failure& f);

} // namespace informer::detail
