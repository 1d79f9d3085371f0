#include "source/undecodable.hpp"

#include "root/one_line.hpp"

#include <string>

namespace informer::detail {

failure undecodable(const failure& why, std::string_view doing, std::string_view content_type) {
    std::string at(doing);
    at += ": decode";
    if (!content_type.empty() && content_type.find("json") == std::string_view::npos)
        at.append(" an answer of type ").append(printable(content_type, 100));
    return why.within(at);
}

} // namespace informer::detail
