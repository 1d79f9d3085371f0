// Feeds a document_reader through Boost.JSON: from text whose errors are to be named, and from a boost::json value.
#pragma once

#include "document_reader.hpp"

#include <boost/json/fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace informer::detail {

/// The reference for what is JSON. It takes three to four times as much work as `text_reader`, which is tried first.
/// So this reads what `text_reader` refuses, and says what is wrong and where. (Skipped `managedFields` must be JSON
/// here.) False and `f` if the text is not one JSON object; the reader then holds a part that must be aborted.
bool read_by_parser(document_reader& to, std::string_view json, std::size_t max_depth, failure& f);

/// The same in slices. The errors and their places are the same, unless the 4 KiB behind the end of a slice are
/// nothing but escapes: a slice that ends among them may find another error, or the same error at another place.
class parser_slices {
public:
    parser_slices(document_reader& to, std::string_view text, std::size_t max_depth);
    ~parser_slices();
    /// Reads on over about `bytes`. True when there is nothing more to read; `f` is then as of `read_by_parser`.
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
/// Parses the text and applies the transform; `read_value` then reads `to`. An exception of the transform is a failure.
bool parse_transformed(boost::json::value& to, std::string_view json, const decode_options& options, failure& f);

} // namespace informer::detail
