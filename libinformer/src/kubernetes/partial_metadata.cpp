#include "kubernetes/partial_metadata.hpp"

#include "kubernetes/json_tools.hpp"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

namespace informer::kubernetes::detail {

std::string_view without_partial_type(std::string_view text, std::string& scratch) {
    // Servers in Go always write it this way.
    static constexpr std::string_view usual = R"({"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",)";
    if (text.starts_with(usual)) {
        scratch.assign(1, '{').append(text.substr(usual.size()));
        return scratch;
    }
    // A longer text that is written otherwise keeps its type, which says nothing about the object.
    if (text.size() > large_text || text.find("PartialObjectMetadata") == std::string_view::npos) return text;
    failure why;
    boost::json::value v = parse_small(text, why);
    auto* o = why ? nullptr : v.if_object();
    if (!o || string_member(*o, "kind") != "PartialObjectMetadata" ||
        string_member(*o, "apiVersion") != "meta.k8s.io/v1")
        return text;
    o->erase("kind");
    o->erase("apiVersion");
    scratch = boost::json::serialize(v);
    return scratch;
}

} // namespace informer::kubernetes::detail
