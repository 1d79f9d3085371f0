// Refusals of the embedded server: each is a Kubernetes Status, thrown as an exception and rendered where the request
// is answered.
#pragma once

#include <informer/error.hpp>

#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace informer::testing::detail {

struct resource_type;

/// The exception for every refusal.
class refusal : public std::exception {
public:
    explicit refusal(api_status status) : status_(std::move(status)) {}
    const api_status& status() const noexcept { return status_; }
    const char* what() const noexcept override { return status_.message.c_str(); }

private:
    api_status status_;
};

using causes = std::vector<api_status::cause>;
/// The usual case: a single cause.
causes one_cause(std::string reason, std::string field, std::string message);

/// A Status without details.
[[nodiscard]] refusal refused(int code, std::string reason, std::string message);
[[nodiscard]] refusal bad_request(std::string message);
[[nodiscard]] refusal not_found(const resource_type& type, std::string_view name);
[[nodiscard]] refusal already_exists(const resource_type& type, std::string_view name);
[[nodiscard]] refusal conflict(const resource_type& type, std::string_view name, std::string_view why);
[[nodiscard]] refusal forbidden(const resource_type& type, std::string_view name, std::string_view why);
/// 422; each cause is a field, a reason ("FieldValueInvalid", …) and a sentence.
[[nodiscard]] refusal invalid(std::string_view group, std::string_view kind, std::string_view name, causes why);
[[nodiscard]] refusal invalid(const resource_type& type, std::string_view name, causes why);
/// 410 for watches and lists from forgotten versions.
[[nodiscard]] refusal expired(std::string message);
/// 504 with the cause clients look for.
[[nodiscard]] refusal version_too_large(std::string_view asked, std::string_view current);

/// The JSON text of a Status that reports a failure.
std::string status_text(const api_status& status);
/// The ERROR event of a watch with this Status.
std::string error_event(const api_status& status);

} // namespace informer::testing::detail
