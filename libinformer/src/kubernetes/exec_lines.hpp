// What an exec plugin says while it runs, told to the program or its log.
#pragma once

#include <informer/kubernetes/config.hpp>
#include <informer/runtime.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace informer::kubernetes::detail {

/// Of one run. Each line of stderr goes to `on_stderr` or the logger when it is complete: who is asked to open a page and enter a code
/// must see it before the plugin ends. In the log masked and printable; the first fifty, and of each its beginning.
class exec_lines {
public:
    exec_lines(runtime r, std::string name, const exec_plugin& p);

    /// As it comes, however it is cut; empty: that was all.
    void hear(std::string_view bytes);

    static constexpr std::size_t most_lines = 50, longest = 4 << 10, longest_shown = 512;

private:
    void tell();

    runtime runtime_;
    std::string name_;
    exec_plugin plugin_;
    std::string line_;    ///< as far as it came
    bool cut_ = false;    ///< there was more of it
    bool in_key_ = false; ///< between the lines that begin and end a private key
    std::size_t told_ = 0;
};

} // namespace informer::kubernetes::detail
