// Feeds a document_reader from JSON text or from a boost::json value.
#pragma once

#include "document_reader.hpp"

#include <boost/json/fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace informer::detail {

/// False and `f` if the text is not one JSON object; the reader then holds a part that must be aborted.
/// `scratch` keeps its memory between calls.
bool read_json(document_reader& to, std::string_view json, std::size_t max_depth, std::string& scratch, failure& f);

class text_reader;

/// The same in slices, with a scratch of its own.
class json_slices {
public:
    json_slices(document_reader& to, std::string_view text, std::size_t max_depth);
    ~json_slices();
    /// Reads on, about `bytes`. True when there is nothing more to read; `f` then as of `read_json`.
    bool read(std::size_t bytes, failure& f);

private:
    std::string_view text_;
    std::string scratch_;
    std::unique_ptr<text_reader> reader_;
};

bool read_value(document_reader& to, const boost::json::value& v, std::size_t max_depth, failure& f);
/// Parses and rewrites; `to` is then read by `read_value`. What the transform throws is a failure.
bool parse_transformed(boost::json::value& to, std::string_view json, std::size_t max_depth, const transform& rewrite,
                       failure& f);

} // namespace informer::detail
