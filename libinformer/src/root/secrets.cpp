#include "secrets.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

namespace informer::detail {

namespace {

constexpr auto npos = std::string_view::npos;
constexpr std::size_t shortest_mixed = 24; // shortest word that looks like a secret by itself
constexpr std::string_view mask = "[redacted]", blank = " \t";

bool in(char c, char first, char last) noexcept {
    return c >= first && c <= last;
}
bool digit(char c) noexcept {
    return in(c, '0', '9');
}
char lower(char c) noexcept {
    return in(c, 'A', 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
}
bool letter(char c) noexcept {
    return in(lower(c), 'a', 'z');
}
bool one_of(char c, std::string_view these) noexcept {
    return these.find(c) != npos;
}
bool token_char(char c) noexcept {
    return letter(c) || digit(c) || one_of(c, "-_.~+/=");
}
bool name_char(char c) noexcept {
    return letter(c) || digit(c) || one_of(c, "-_");
}

std::size_t find_no_case(std::string_view text, std::string_view word, std::size_t from) noexcept {
    if (from > text.size()) return npos;
    const auto hit = std::search(text.begin() + static_cast<std::ptrdiff_t>(from), text.end(), word.begin(), word.end(),
                                 [](char a, char b) { return lower(a) == lower(b); });
    return hit == text.end() ? npos : static_cast<std::size_t>(hit - text.begin());
}

/// A text in which parts are masked. It is copied once, however many parts there are.
class masking {
public:
    explicit masking(std::string text) : text_(std::move(text)) {}

    std::string_view text() const noexcept { return text_; }
    /// Must be called from left to right.
    void hide(std::size_t begin, std::size_t end, std::string_view instead = mask) {
        masked_.append(text_, shown_, begin - shown_).append(instead);
        shown_ = end;
    }
    std::string result() && {
        if (shown_ == 0) return std::move(text_);
        masked_.append(text_, shown_);
        return std::move(masked_);
    }

private:
    std::string text_, masked_;
    std::size_t shown_ = 0; ///< up to here `text_` is in `masked_`
};

std::string without_keys(masking m) {
    constexpr std::string_view begin = "-----BEGIN ", kind = "PRIVATE KEY-----", end = "-----END ";
    constexpr std::size_t longest_kind = 48;
    const std::string_view text = m.text();
    for (std::size_t at = 0; (at = text.find(begin, at)) != npos;) {
        at += begin.size();
        const std::size_t told = text.substr(at, longest_kind).find(kind);
        if (told == npos) continue;
        at += told + kind.size();
        const std::size_t last = std::min(text.find(end, at), text.size());
        m.hide(at, last);
        at = last;
    }
    return std::move(m).result();
}

std::string without_bearers(masking m) {
    constexpr std::size_t shortest_token = 16; // "Bearer token expired" is prose
    const std::string_view text = m.text();
    for (std::size_t at = 0; (at = find_no_case(text, "bearer ", at)) != npos;) {
        at += 7;
        std::size_t end = at;
        while (end < text.size() && token_char(text[end])) ++end;
        if (end - at < shortest_token) continue;
        m.hide(at, end);
        at = end;
    }
    return std::move(m).result();
}

std::string without_header(masking m, std::string_view header) {
    const std::string_view text = m.text();
    for (std::size_t at = 0; (at = find_no_case(text, header, at)) != npos;) {
        at += header.size();
        const std::size_t end = std::min(text.find_first_of("\r\n\"", at), text.size());
        m.hide(at, end, " [redacted]");
        at = end;
    }
    return std::move(m).result();
}

std::string without_logins(masking m) {
    const std::string_view text = m.text();
    for (std::size_t at = 0; (at = text.find("://", at)) != npos;) {
        at += 3;
        const std::size_t end = std::min(text.find_first_of("/?# \t\r\n\"'", at), text.size());
        const std::size_t sign = text.substr(at, end - at).rfind('@');
        if (sign == npos || sign == 0) continue;
        m.hide(at, at + sign);
        at += sign;
    }
    return std::move(m).result();
}

/// What a name says about the value behind it.
enum class meaning {
    nothing,
    perhaps, ///< a secret, or a word about one
    secret,
};

meaning meaning_of(std::string_view name, bool strictly) {
    constexpr std::size_t longest = 64;
    static constexpr std::array<std::string_view, 16> sure = {
        "password",     "passwd",   "passphrase",  "clientsecret", "sharedsecret", "accesstoken",
        "refreshtoken", "idtoken",  "bearertoken", "sessiontoken", "accesskey",    "accountkey",
        "apikey",       "apitoken", "privatekey",  "clientkeydata"};
    static constexpr std::array<std::string_view, 7> known = {
        "token", "secret", "credential", "credentials", "cookie", "authorization", "proxyauthorization"};
    static constexpr std::array<std::string_view, 9> parts = {
        "token", "secret", "credential", "cookie", "authorization", "passwd", "apikey", "password", "passphrase"};
    static constexpr std::array<std::string_view, 10> about = {"file", "path", "uri", "url",    "endpoint",
                                                               "type", "name", "dir", "expiry", "expiration"};
    std::string plain; // clientSecret, client_secret and CLIENT-SECRET are the same
    for (const char c : name.substr(name.size() - std::min(name.size(), longest)))
        if (!one_of(c, "-_")) plain += lower(c);
    const std::string_view p = plain;
    const auto ends = [p](std::string_view end) { return p.ends_with(end); };
    const auto holds = [p](std::string_view part) { return p.find(part) != npos; };
    if (std::any_of(sure.begin(), sure.end(), ends)) return meaning::secret;
    if (std::find(known.begin(), known.end(), p) != known.end()) return meaning::perhaps;
    if (!strictly || std::any_of(about.begin(), about.end(), ends)) return meaning::nothing;
    return std::any_of(parts.begin(), parts.end(), holds) ? meaning::perhaps : meaning::nothing;
}

bool mixed(std::string_view word) noexcept {
    const auto some = [word](char first, char last) {
        return std::any_of(word.begin(), word.end(), [=](char c) { return in(c, first, last); });
    };
    return some('a', 'z') && some('A', 'Z') && some('0', '9');
}

/// "token: expired", "token: 401", "secret: /run/x: no such file": words about a secret, not the secret.
bool plain_word(std::string_view value) {
    constexpr std::size_t longest = 40, longest_head = 16, shortest_secret = 6;
    if (value.size() > longest) return false;
    // One base64 text in 64 begins with a slash, too; one as long as an AWS key (40) mostly mixes cases and digits.
    if (value.starts_with('/') && value.size() >= shortest_mixed && mixed(value)) return false;
    if (value.starts_with('/') || value.starts_with("./") || value.starts_with("~/") || value.find("://") != npos)
        return true;
    const bool head = value.ends_with(':'); // "oauth2: cannot fetch token: x509: …"
    const std::size_t last = value.find_last_not_of(".,:;!?)");
    value = value.substr(0, last == npos ? 0 : last + 1);
    if (value.size() < shortest_secret || (head && value.size() < longest_head)) return true;
    return std::all_of(value.begin(), value.end(), [](char c) { return letter(c) || one_of(c, "-'/"); });
}

/// Authorization=Basic abc: the secret is the word behind the scheme.
bool is_scheme(std::string_view value) noexcept {
    static constexpr std::array<std::string_view, 4> all = {"basic", "bearer", "digest", "negotiate"};
    return std::any_of(all.begin(), all.end(), [value](std::string_view s) {
        return value.size() == s.size() && find_no_case(value, s, 0) == 0;
    });
}

struct name_before {
    std::string_view name;
    bool quoted = false;  ///< a key of JSON
    bool chained = false; ///< behind another colon: arn:aws:secretsmanager:…
};

/// The name that ends before `sign`, which is '=' or ':'.
name_before name_of(std::string_view text, std::size_t sign) {
    name_before n;
    std::size_t end = sign;
    while (end > 0 && one_of(text[end - 1], blank)) --end;
    const char quote = end > 0 && one_of(text[end - 1], "\"'") ? text[end - 1] : 0;
    if (quote != 0) --end;
    while (quote != 0 && end > 0 && text[end - 1] == '\\') --end;
    std::size_t begin = end;
    while (begin > 0 && name_char(text[begin - 1])) --begin;
    n.quoted = quote != 0;
    // In '.../token": dial tcp' this is not a key but the end of a URL.
    if (n.quoted && (begin == 0 || text[begin - 1] != quote)) return n;
    n.chained = begin > 0 && text[begin - 1] == ':';
    n.name = text.substr(begin, end - begin);
    return n;
}

struct range {
    std::size_t begin = 0, end = 0;
};

/// The value that begins at `at`: in quotes, escaped or not, or up to a blank.
range value_at(std::string_view text, std::size_t at, bool& quoted) {
    constexpr std::string_view quotes = "\"'`";
    std::size_t escapes = 0;
    while (at + escapes < text.size() && text[at + escapes] == '\\') ++escapes;
    const std::size_t open = at + escapes;
    quoted = open < text.size() && one_of(text[open], quotes);
    if (!quoted) return {at, std::min(text.find_first_of(" \t\r\n\"'", at), text.size())};
    const char quote = text[open];
    std::size_t end = open + 1, seen = 0;
    for (; end < text.size(); ++end) {
        if (text[end] == quote && seen <= escapes) break;
        seen = text[end] == '\\' ? seen + 1 : 0;
    }
    return {open + 1, end - (end < text.size() ? seen : 0)};
}

/// Where the value begins, behind the bracket of a list if there is one. The end of the text if there is no value to
/// hide.
std::size_t begin_of_value(std::string_view text, std::size_t at, std::string_view skipped) {
    const std::size_t first = std::min(text.find_first_not_of(skipped, at), text.size());
    at = std::min(text.find_first_not_of("[(", first), text.size());
    if (at > first && text.substr(at - 1, mask.size()) == mask) return text.size();
    return at < text.size() && text[at] == '{' ? text.size() : at;
}

std::string without_values(masking m, bool strictly) {
    const std::string_view text = m.text();
    for (std::size_t at = 0; (at = text.find_first_of("=:", at)) != npos;) {
        const bool colon = text[at] == ':';
        const name_before n = name_of(text, at++);
        const meaning what = n.name.empty() ? meaning::nothing : meaning_of(n.name, strictly);
        if (what == meaning::nothing || (colon && n.chained && at < text.size() && !one_of(text[at], blank))) continue;
        // A colon may as well end a part of a sentence.
        const bool word = colon && what == meaning::perhaps && !strictly;
        // Decided before the value is searched: in a text full of names the value may be all the rest.
        if (word && !n.quoted) continue;
        const std::size_t begin = begin_of_value(text, at, colon ? " \t" : " \t=");
        bool quoted = false;
        range v = value_at(text, begin, quoted);
        if (v.begin >= v.end || (word && !quoted)) continue;
        const bool said = colon && !(n.quoted && quoted);
        const std::string_view value = text.substr(v.begin, v.end - v.begin);
        if (said && !quoted && !(strictly && what == meaning::secret) && plain_word(value)) continue;
        if (!quoted && is_scheme(value))
            if (const std::size_t next = begin_of_value(text, v.end, blank); next != text.size())
                v.end = value_at(text, next, quoted).end;
        m.hide(v.begin, v.end);
        at = v.end;
    }
    return std::move(m).result();
}

/// --client-secret abc
std::string without_flags(masking m) {
    const std::string_view text = m.text();
    for (std::size_t at = 0; (at = text.find("--", at)) != npos;) {
        std::size_t end = at;
        while (end < text.size() && name_char(text[end])) ++end;
        const std::string_view name = text.substr(at, end - at);
        at = end;
        if (end == text.size() || !one_of(text[end], blank) || meaning_of(name, true) == meaning::nothing) continue;
        const std::size_t begin = begin_of_value(text, end, blank);
        if (begin == text.size() || text[begin] == '-') continue;
        bool quoted = false;
        const range v = value_at(text, begin, quoted);
        if (v.begin >= v.end || (!quoted && plain_word(text.substr(v.begin, v.end - v.begin)))) continue;
        m.hide(v.begin, v.end);
        at = v.end;
    }
    return std::move(m).result();
}

std::string without_long_words(masking m) {
    constexpr std::size_t shortest_run = 32;
    const auto of_word = [](char c) { return letter(c) || digit(c) || one_of(c, "-_.+="); };
    const auto of_run = [](char c) { return letter(c) || digit(c); };
    const std::string_view text = m.text();
    const auto end_of = [text](std::size_t at, std::size_t end, const auto& member) {
        while (at < end && member(text[at])) ++at;
        return at;
    };
    for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
        end = end_of(at, text.size(), of_word);
        if (end - at >= shortest_mixed && mixed(text.substr(at, end - at))) {
            m.hide(at, end);
            continue;
        }
        for (std::size_t last = at; at < end; at = last + 1) {
            last = end_of(at, end, of_run);
            const std::string_view run = text.substr(at, last - at);
            if (run.size() >= shortest_run && std::any_of(run.begin(), run.end(), digit)) m.hide(at, last);
        }
    }
    return std::move(m).result();
}

std::string masked(std::string text, bool strictly) {
    text = without_keys(masking(std::move(text)));
    text = without_bearers(masking(std::move(text)));
    for (const std::string_view header : {"authorization:", "cookie:"})
        text = without_header(masking(std::move(text)), header);
    text = without_logins(masking(std::move(text)));
    return without_values(masking(std::move(text)), strictly);
}

} // namespace

std::string without_secrets(std::string text) {
    return masked(std::move(text), false);
}

std::string without_likely_secrets(std::string text) {
    text = masked(std::move(text), true);
    text = without_flags(masking(std::move(text)));
    return without_long_words(masking(std::move(text)));
}

} // namespace informer::detail
