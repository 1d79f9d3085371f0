#include <informer/object/json.hpp>

namespace informer {

boost::json::value to_value(const value& v) {
    switch (v.kind()) {
    case value_kind::missing:
    case value_kind::null: return nullptr;
    case value_kind::boolean: return v.as_bool();
    case value_kind::int64: return v.as_int64();
    case value_kind::uint64: return v.as_uint64();
    case value_kind::floating:
    case value_kind::number: return v.as_double();
    case value_kind::string: {
        const text t = v.as_string();
        return boost::json::value(boost::json::string_view(t.data(), t.size()));
    }
    case value_kind::array: {
        boost::json::array a;
        a.reserve(v.size());
        for (const value e : v) a.push_back(to_value(e));
        return a;
    }
    case value_kind::object: {
        boost::json::object o;
        o.reserve(v.size());
        for (const auto [key, m] : v.members())
            o.emplace(boost::json::string_view(key.data(), key.size()), to_value(m));
        return o;
    }
    }
    return nullptr;
}

boost::json::value to_value(const object& o) {
    return to_value(o.value());
}

} // namespace informer
