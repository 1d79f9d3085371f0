// Reads from the API server how it describes a resource, and prints structs for it.
#include "described_types.hpp"
#include "identifiers.hpp"
#include "json_members.hpp"
#include "session.hpp"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include <string_view>

namespace informerctl {
namespace {

boost::json::value parse(const std::string& text, std::string_view path) {
    boost::json::parse_options options;
    options.max_depth = 1000; // schemas within schemas take four levels each
    boost::system::error_code ec;
    boost::json::value v = boost::json::parse(text, ec, {}, options);
    if (ec)
        throw informer::error(informer::errc::bad_response, "GET " + std::string(path) + ": no JSON: " + ec.message());
    return v;
}

/// Where the server's index says that the document of this group and version is.
std::string place_of(const boost::json::value& index, const informer::api_resource& r) {
    const std::string api = (r.group.empty() ? "api/" : "apis/" + r.group + "/") + r.version;
    const boost::json::object* found = object_at(object_at(index.if_object(), "paths"), api);
    const std::string_view url = found ? text_at(*found, "serverRelativeURL") : std::string_view();
    if (!url.starts_with('/'))
        throw informer::error(informer::errc::unknown_resource, "types of " + r.group_resource() +
                                                                    ": the server describes nothing of " +
                                                                    r.api_version());
    return std::string(url);
}

} // namespace

asio::awaitable<int> run_types(std::shared_ptr<session> s) {
    co_await find_resource(s);
    const informer::api_resource& r = s->resource;
    std::string path = "/openapi/v3";
    std::string text = co_await s->client->raw("GET", path);
    path = place_of(parse(text, path), r);
    text = co_await s->client->raw("GET", path);

    wanted_types wanted;
    wanted.group = r.group;
    wanted.version = r.version;
    wanted.kind = r.kind;
    wanted.by = "informerctl types " + r.group_resource();
    wanted.name_space = s->line.cpp_namespace;
    if (wanted.name_space.empty())
        wanted.name_space =
            type_identifier(r.group.empty() ? "core" : r.group.substr(0, r.group.find('.'))) + "_" + r.version;
    else
        wanted.by += " --cpp-namespace " + wanted.name_space;
    s->out.write(make_types(parse(text, path), wanted));
    s->out.flush();
    co_return 0;
}

} // namespace informerctl
