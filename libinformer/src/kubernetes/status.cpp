#include "kubernetes/status.hpp"

#include "kubernetes/json_tools.hpp"
#include "root/ascii.hpp"
#include "root/one_line.hpp"

#include <algorithm>
#include <charconv>

namespace informer::kubernetes::detail {

namespace json = boost::json;

namespace {

using informer::detail::printable;

constexpr std::size_t largest_message = std::size_t(64) << 10;
/// More than the conflicts of an apply that an answer of `large_text` bytes can hold (at least 80 bytes each): a bound
/// for an answer that is full of empty causes.
constexpr std::size_t most_causes = 4096;

std::optional<std::chrono::seconds> seconds_of(std::string_view text) {
    // The header may hold a date, too; like client-go we take numbers only.
    long long n = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (ec != std::errc() || end != text.data() + text.size() || n < 0 || n > 1'000'000'000) return std::nullopt;
    return std::chrono::seconds(n);
}

/// A URL without what may be secret: user, query and fragment.
std::string place_of(std::string_view location) {
    const std::string_view path = location.substr(0, location.find_first_of("?#"));
    const std::string cut = path.size() < location.size() ? "?…" : "";
    const auto slashes = path.find("//");
    if (slashes == std::string_view::npos) return printable(path, 256) + cut;
    const std::string_view after = path.substr(slashes + 2), authority = after.substr(0, after.find_first_of("/\\"));
    const auto at = authority.rfind('@');
    const std::string_view rest = at == std::string_view::npos ? after : after.substr(at + 1);
    return printable(std::string(path.substr(0, slashes + 2)).append(rest), 256) + cut;
}

} // namespace

bool is_status(const json::object& o) noexcept {
    return string_member(o, "kind") == "Status";
}

api_status read_status(const json::object& o) {
    api_status s;
    const auto code = int_member(o, "code").value_or(0);
    s.code = code > 0 && code < 1000 ? static_cast<int>(code) : 0;
    s.reason = string_member(o, "reason").substr(0, 256);
    s.message = printable(string_member(o, "message"), largest_message);
    if (const auto* details = object_member(o, "details")) {
        s.details_name = string_member(*details, "name").substr(0, 1024);
        s.details_group = string_member(*details, "group").substr(0, 1024);
        s.details_kind = string_member(*details, "kind").substr(0, 1024);
        const auto wait = int_member(*details, "retryAfterSeconds").value_or(0);
        if (wait > 0 && wait <= 1'000'000'000) s.retry_after = std::chrono::seconds(wait);
        for (const auto& each : array_member(*details, "causes")) {
            const auto* c = each.if_object();
            if (!c || s.causes.size() == most_causes) continue;
            s.causes.push_back(api_status::cause{printable(string_member(*c, "reason")),
                                                 printable(string_member(*c, "message")),
                                                 printable(string_member(*c, "field"))});
        }
    }
    // The refusal of an expired `continue` comes with a fresh one, which goes on at the same key, but not in the same
    // state.
    if (const auto* metadata = object_member(o, "metadata")) s.continue_token = text_member(*metadata, "continue");
    return s;
}

failure refused(int http_status, std::string_view body, std::string_view retry_after, std::string_view location,
                std::string doing) {
    failure ignored;
    const json::value v = parse_small(body, ignored);
    const auto* o = ignored ? nullptr : v.if_object();
    api_status s;
    if (o && is_status(*o))
        s = read_status(*o);
    else if (http_status >= 300 && http_status < 400 && !location.empty())
        s.message = "redirects to " + place_of(location) + ", which is not followed";
    else
        s.message = printable(body);
    s.code = http_status; // what was answered, whatever the body says
    if (s.message.empty()) s.message = "HTTP " + std::to_string(http_status);
    if (const auto told = seconds_of(informer::detail::trimmed(retry_after))) s.retry_after = told;
    return failure(std::move(s), std::move(doing));
}

failure refused_in_stream(std::string_view object, std::string doing) {
    failure bad;
    const json::value v = parse_small(object, bad);
    const auto* o = bad ? nullptr : v.if_object();
    if (!o || !is_status(*o))
        return failure(errc::bad_response, doing + ": an error that is no Status: " + printable(object, 256));
    return failure(read_status(*o), std::move(doing));
}

} // namespace informer::kubernetes::detail
