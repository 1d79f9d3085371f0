// The floor for all figures about reading JSON: Boost.JSON's SAX parser with a handler that does nothing.
#pragma once

#include <boost/json/basic_parser_impl.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace informer::bench {

struct empty_handler {
    static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
    static constexpr std::size_t max_object_size = max_array_size;
    static constexpr std::size_t max_string_size = max_array_size;
    static constexpr std::size_t max_key_size = max_array_size;
    using view = boost::json::string_view;
    using code = boost::json::error_code;
    bool on_document_begin(code&) { return true; }
    bool on_document_end(code&) { return true; }
    bool on_object_begin(code&) { return true; }
    bool on_object_end(std::size_t, code&) { return true; }
    bool on_array_begin(code&) { return true; }
    bool on_array_end(std::size_t, code&) { return true; }
    bool on_key_part(view, std::size_t, code&) { return true; }
    bool on_key(view, std::size_t, code&) { return true; }
    bool on_string_part(view, std::size_t, code&) { return true; }
    bool on_string(view, std::size_t, code&) { return true; }
    bool on_number_part(view, code&) { return true; }
    bool on_int64(std::int64_t, view, code&) { return true; }
    bool on_uint64(std::uint64_t, view, code&) { return true; }
    bool on_double(double, view, code&) { return true; }
    bool on_bool(bool, code&) { return true; }
    bool on_null(code&) { return true; }
    bool on_comment_part(view, code&) { return true; }
    bool on_comment(view, code&) { return true; }
};

/// True when the text is JSON.
inline bool walk_by_sax(std::string_view text) {
    boost::json::parse_options options;
    options.max_depth = 1000;
    options.numbers = boost::json::number_precision::none;
    boost::json::basic_parser<empty_handler> parser(options);
    boost::json::error_code ec;
    parser.write_some(false, text.data(), text.size(), ec);
    return !ec;
}

} // namespace informer::bench
