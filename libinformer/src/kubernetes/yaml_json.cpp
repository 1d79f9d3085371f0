#include "kubernetes/yaml_json.hpp"

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include <yaml-cpp/yaml.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace informer::kubernetes::detail {

namespace {

namespace json = boost::json;

class translation {
public:
    std::string why;

    json::value of(const YAML::Node& n, int depth = 0) {
        constexpr std::size_t largest = std::size_t(64) << 10;
        constexpr int deepest = 30;
        ++size_;
        if (depth > deepest) why = "nested too deeply";
        if (n.IsScalar()) size_ += n.Scalar().size();
        if (size_ > largest) why = "larger than 64 KiB";
        if (!why.empty()) return nullptr;
        if (n.IsMap()) {
            json::object o;
            for (const auto& entry : n) {
                if (!why.empty()) break;
                if (!entry.first.IsScalar()) {
                    why = "a key that is no string";
                    break;
                }
                size_ += entry.first.Scalar().size();
                o[entry.first.Scalar()] = of(entry.second, depth + 1);
            }
            return o;
        }
        if (n.IsSequence()) {
            json::array a;
            for (const auto& entry : n) {
                if (!why.empty()) break;
                a.push_back(of(entry, depth + 1));
            }
            return a;
        }
        if (!n.IsScalar()) return nullptr;
        if (n.Tag() != "?") return json::string(n.Scalar()); // quoted, or said to be one
        bool b = false;
        if (YAML::convert<bool>::decode(n, b)) return b;
        std::int64_t i = 0;
        if (YAML::convert<std::int64_t>::decode(n, i)) return i;
        double d = 0;
        if (YAML::convert<double>::decode(n, d) && std::isfinite(d)) return d;
        return json::string(n.Scalar());
    }

private:
    std::size_t size_ = 0;
};

} // namespace

std::string yaml_to_json(const YAML::Node& n, std::string& why) {
    translation t;
    const json::value v = t.of(n);
    why = std::move(t.why);
    return why.empty() ? json::serialize(v) : std::string();
}

} // namespace informer::kubernetes::detail
