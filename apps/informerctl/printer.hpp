// Objects as lines, tables, YAML.
#pragma once

#include <informer/object/api_resource.hpp>
#include <informer/object/diff.hpp>
#include <informer/object/object.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace informerctl {

/// "5s", "3m10s", "4h", "3d4h", "12d", "2y10d", as kubectl.
std::string age(std::chrono::milliseconds d);
/// The age of an object, or "<unknown>".
std::string age(const informer::object& o, std::chrono::system_clock::time_point now);
/// "pod/nginx", "deployment.apps/web".
std::string resource_name(const informer::api_resource& r, const informer::object& o);
/// "a=b,c=d" or "<none>".
std::string labels(const informer::object& o);
/// The state at a glance: the phase, the number of ready replicas, or the last true condition.
std::string glance(const informer::object& o);
/// The value as somebody wrote it to etcd, on one line, cut after at most `most` bytes.
std::string plain_value(const informer::object& o, std::size_t most);
/// YAML of one object, indented by two blanks, strings quoted where YAML would read them as something else.
std::string yaml(const informer::value& v);
/// Lines like "    .spec.replicas: 1 → 3"; resourceVersion is left out, as it is in the event's line.
std::string diff_lines(const informer::object& before, const informer::object& after);

/// Columns padded to the widest cell.
class table {
public:
    explicit table(std::vector<std::string> header, bool show_header = true);
    void row(std::vector<std::string> cells);
    /// Hands over one line after the other, until `to` wants no more.
    void print(const std::function<bool(std::string_view)>& to) const;

private:
    std::vector<std::vector<std::string>> rows_;
};

} // namespace informerctl
