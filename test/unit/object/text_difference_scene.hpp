// Pools that read by differences, pools that do not, and pools that use Boost.JSON's parser only.
#pragma once

#include "support/pod_generator.hpp"
#include "support/pool.hpp"

#include "object/detail/text_difference.hpp"

#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace text_difference_test {

using namespace informer;

inline std::string pod(unsigned index, unsigned revision = 0, bool type = false, bool managed_fields = true) {
    informer::testing::pod_options o(index);
    o.revision = revision;
    o.type = type;
    o.managed_fields = managed_fields;
    return make_pod_json(o);
}

inline std::shared_ptr<document_pool> make_pool(bool difference, decode_options options = decode_options(),
                                                std::uint32_t from = 1) {
    detail::pool_limits limits;
    limits.template_documents = from;
    return detail::make_pool(options.text_difference(difference), limits);
}

inline std::shared_ptr<document_pool> make_parser_pool(decode_options options = decode_options()) {
    detail::pool_limits limits;
    limits.parser_only = true;
    return detail::make_pool(options.text_difference(false), limits);
}

inline std::string replaced(std::string s, std::string_view what, std::string_view by) {
    const auto at = s.find(what);
    REQUIRE(at != std::string::npos);
    return s.replace(at, what.size(), by);
}

/// While an object of it lives, texts are compared whether that pays or not, and each one is learned from.
class tireless {
public:
    tireless() noexcept { informer::detail::text_difference::tireless = true; }
    tireless(const tireless&) = delete;
    tireless& operator=(const tireless&) = delete;
    ~tireless() { informer::detail::text_difference::tireless = false; }
};

} // namespace text_difference_test
