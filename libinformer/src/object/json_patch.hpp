// JSON patches by two sets of rules.
#pragma once

#include <informer/error.hpp>

#include <boost/json/fwd.hpp>

namespace informer::detail {

enum class json_patch_rules {
    rfc_6902,
    /// Those of kube-apiserver. Array indexes below zero count from the end, for `add` after the insertion. Absent
    /// members of an object and absent values of operations are null to `test`, `add`, `replace` and `copy`. The whole
    /// document cannot be patched.
    api_server,
};

/// As the public function, which follows RFC 6902.
bool apply_json_patch(boost::json::value& target, const boost::json::value& operations, json_patch_rules rules,
                      failure& f);

} // namespace informer::detail
