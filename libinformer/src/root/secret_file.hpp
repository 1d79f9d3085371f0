// A token or a password in a file, which may be replaced there.
#pragma once

#include "root/file.hpp"

#include <informer/runtime.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace informer::detail {

/// Why a header cannot carry this; empty if it can.
std::string unfit_for_a_header(std::string_view secret);

/// If the file cannot be read, is empty or holds what cannot be sent, the old secret stays in use, and that is logged
/// once. A pipe is read once; later its absence is no error.
class secret_file {
public:
    enum class goes { anywhere, into_a_header };
    /// For messages: `what` is in the file ("token"), and `of` whom ("etcd: ", or empty). `content` returns the secret
    /// from the file's text, without what is around it.
    secret_file(std::string path, std::string of, std::string what, std::string_view (*content)(std::string_view),
                goes where = goes::anywhere)
        : path_(std::move(path)), of_(std::move(of)), what_(std::move(what)), content_(content), where_(where) {}

    /// No file is named, or it was a pipe that has been read.
    bool empty() const noexcept { return path_.empty(); }
    /// At the start. If the file cannot be used, `why` says so, with its name.
    std::optional<std::string> read_first(std::string& why);
    /// Later, on an executor that others need. Nullopt if the old secret stays in use.
    std::optional<std::string> read_again(const runtime& log_to);

private:
    std::optional<std::string> read(waiting how, std::string& why) const;

    std::string path_, of_, what_;
    std::string_view (*content_)(std::string_view);
    goes where_;
    bool complained_ = false;
};

} // namespace informer::detail
