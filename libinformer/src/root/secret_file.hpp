// A token or a password that stands in a file, and is replaced there.
#pragma once

#include "root/file.hpp"

#include <informer/runtime.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace informer::detail {

/// Why a header cannot carry this; empty where it can.
std::string unfit_for_a_header(std::string_view secret);

/// What cannot be read, is empty or cannot be sent leaves the old one in use, which is logged once. A pipe is read once, and not
/// missed later.
class secret_file {
public:
    enum class goes { anywhere, into_a_header };
    /// `what` stands there, for messages: "token", of whom: "etcd: " or none. `content`: the file's text without what is around it.
    secret_file(std::string path, std::string of, std::string what, std::string_view (*content)(std::string_view),
                goes where = goes::anywhere)
        : path_(std::move(path)), of_(std::move(of)), what_(std::move(what)), content_(content), where_(where) {}

    /// None is named, or it was a pipe.
    bool empty() const noexcept { return path_.empty(); }
    /// At the start; where it cannot be read `why` says so, with the file's name.
    std::optional<std::string> read_first(std::string& why);
    /// Later, on an executor that others wait for. Nothing where the old one stays in use.
    std::optional<std::string> read_again(const runtime& log_to);

private:
    std::optional<std::string> read(waiting how, std::string& why) const;

    std::string path_, of_, what_;
    std::string_view (*content_)(std::string_view);
    goes where_;
    bool complained_ = false;
};

} // namespace informer::detail
