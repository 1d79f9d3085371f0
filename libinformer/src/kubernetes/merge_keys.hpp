// YAML's merge keys: "<<: *base" stands for the members of another map.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <yaml-cpp/node/node.h>

namespace informer::kubernetes::detail {

/// Puts in place what the merge keys of a document stand for. A map's own members beat merged ones, even if they are
/// null, and in a list of maps the earlier ones beat the later ones. (That is YAML's rule, and client-go's if the merge
/// key comes first. Of a member that stands before the merge key client-go takes the merged value.) A quoted "<<" is a
/// key like any other.
class merge_keys {
public:
    /// To be called for each map before its members are read; other nodes stay as they are. The members are put into
    /// the node itself, so each map is resolved once, however many aliases it has: aliases of aliases multiply nothing.
    void resolve(const YAML::Node& map);

    /// What is wrong with the first bad merge key; empty: nothing. Nothing more is resolved then.
    const std::string& why() const noexcept { return why_; }
    /// The line of that key, from 1.
    int line() const noexcept { return line_; }

private:
    using names = std::unordered_set<std::string_view>;
    void take(YAML::Node& into, const YAML::Node& key, const YAML::Node& from, names& known);
    void refuse(const YAML::Node& key, std::string_view what);
    /// False, and refused: the maps that were merged have too many members all together.
    bool counted(const YAML::Node& key);

    std::vector<YAML::Node> open_; ///< the maps that are being resolved, each merged by the one before
    std::size_t taken_ = 0;
    std::string why_;
    int line_ = 0;
};

} // namespace informer::kubernetes::detail
