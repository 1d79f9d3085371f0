// What is left to Boost.JSON: to say why a text is refused, and DOM values.
#pragma once

#include "document_reader.hpp"

#include <boost/json/fwd.hpp>

#include <cstddef>
#include <memory>
#include <string_view>

namespace informer::detail {

/// Looks for the fault of a text that is not one JSON object, at once or in slices.
class fault_finder {
public:
    fault_finder(std::string_view text, std::size_t max_depth);
    ~fault_finder();
    /// Looks on, over about `bytes`. True when it is found.
    bool look(std::size_t bytes, failure& f);

private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

failure fault_of(std::string_view text, std::size_t max_depth);

bool read_value(document_reader& to, const boost::json::value& v, std::size_t max_depth, failure& f);
/// Parses and rewrites; `to` is then read by `read_value`. What the transform throws is a failure.
bool parse_transformed(boost::json::value& to, std::string_view json, std::size_t max_depth, const transform& rewrite,
                       failure& f);

} // namespace informer::detail
