#include "http/proxy_dialogue.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/beast/http/status.hpp>

#include <algorithm>
#include <array>

namespace informer::http::detail {

namespace {

/// Reads the status line and looks for the end of the header. The fields do not matter: a length or a transfer coding
/// in a 2xx answer to CONNECT must be ignored (RFC 9110, 9.3.6).
class connect_dialogue final : public proxy_dialogue {
public:
    explicit connect_dialogue(std::string request) { words_ = std::move(request); }

    std::size_t hear(std::string_view bytes) override {
        std::size_t used = 0;
        while (used < bytes.size() && !open_ && !failed()) {
            if (++heard_ > longest_connect_answer)
                fail("answered with a header of more than 16 KiB");
            else
                take(bytes[used]);
            ++used;
        }
        return used;
    }

private:
    static constexpr std::string_view version = "HTTP/1.";
    static constexpr std::size_t status_at = 9, status_end = 12; // "HTTP/1.1 200"

    void take(char c) {
        if (c == '\n') { // a line may end without '\r' (RFC 9112, 2.2)
            if (line_ == 0)
                end();
            else if (std::exchange(in_first_, false) && status() == 0)
                fail(no_http);
            line_ = 0;
            return;
        }
        if (c == '\r') return;
        ++line_;
        if (!in_first_ || first_.size() > status_end) return;
        first_ += c;
        if (first_.size() <= version.size() && first_.back() != version[first_.size() - 1]) fail(no_http);
    }
    void end() {
        const int code = status();
        if (code >= 200 && code < 300) {
            open_ = true;
        } else if (code == 0) {
            fail(no_http);
        } else if (code < 200 && code != 101) { // an interim answer: another follows
            first_.clear();
            in_first_ = true;
        } else {
            std::string text = "answered " + std::to_string(code);
            const auto known = boost::beast::http::int_to_status(static_cast<unsigned>(code));
            // The proxy's own reason phrase may be anything, for example what we sent.
            if (known != boost::beast::http::status::unknown)
                text.append(" ").append(boost::beast::http::obsolete_reason(known));
            fail(std::move(text));
        }
    }
    int status() const noexcept {
        if (first_.size() < status_end || first_[status_at - 1] != ' ') return 0;
        if (first_.size() > status_end && first_[status_end] != ' ') return 0;
        int code = 0;
        for (std::size_t i = status_at; i < status_end; ++i) {
            if (first_[i] < '0' || first_[i] > '9') return 0;
            code = code * 10 + (first_[i] - '0');
        }
        return code >= 100 ? code : 0;
    }

    static constexpr const char* no_http = "does not answer in HTTP";
    std::string first_; ///< the beginning of the status line
    std::size_t heard_ = 0, line_ = 0;
    bool in_first_ = true;
};

constexpr char socks_version = 5, login_version = 1;
constexpr char no_login = 0, by_password = 2, no_method = char(0xff);
constexpr char type_v4 = 1, type_name = 3, type_v6 = 4;

class socks final : public proxy_dialogue {
public:
    socks(const proxy& p, const endpoint& to) {
        words_ = {socks_version, 1, no_login};
        if (p.authenticates()) {
            words_ = {socks_version, 2, no_login, by_password};
            login_ = {login_version, char(p.user.size())};
            login_.append(p.user).append(1, char(p.password.size())).append(p.password);
        }
        request_ = {socks_version, 1, 0}; // CONNECT
        error_code no_address;
        const auto address = boost::asio::ip::make_address(to.host, no_address);
        if (no_address) {
            request_.append(1, type_name).append(1, char(to.host.size())).append(to.host);
        } else if (address.is_v4()) {
            const auto bytes = address.to_v4().to_bytes();
            request_.append(1, type_v4).append(bytes.begin(), bytes.end());
        } else {
            const auto bytes = address.to_v6().to_bytes();
            request_.append(1, type_v6).append(bytes.begin(), bytes.end());
        }
        request_.append(1, char(to.port >> 8)).append(1, char(to.port & 0xff));
    }

    std::size_t hear(std::string_view bytes) override {
        std::size_t used = 0;
        while (used < bytes.size() && !open_ && !failed() && words_.empty()) {
            answer_ += bytes[used++];
            switch (awaited_) {
            case awaited::method: method(); break;
            case awaited::login: login(); break;
            case awaited::reply: reply(); break;
            }
        }
        return used;
    }

private:
    enum class awaited { method, login, reply };

    void say(std::string what, awaited then) {
        words_ = std::move(what);
        awaited_ = then;
        answer_.clear();
    }
    void method() {
        if (answer_[0] != socks_version) return fail(no_socks);
        if (answer_.size() < 2) return;
        if (answer_[1] == no_login) return say(request_, awaited::reply);
        if (answer_[1] == by_password && !login_.empty()) return say(login_, awaited::login);
        if (answer_[1] != no_method) return fail("chose a way to log in that was not offered");
        fail(login_.empty() ? "wants to know who we are" : "takes no user name and password");
    }
    void login() {
        if (answer_[0] != login_version) return fail(no_socks);
        if (answer_.size() < 2) return;
        if (answer_[1] != 0) return fail("refused the user name or the password");
        say(request_, awaited::reply);
    }
    void reply() {
        static constexpr std::size_t address_at = 4;
        if (answer_[0] != socks_version) return fail(no_socks);
        if (answer_.size() == 2 && answer_[1] != 0) return refused(static_cast<unsigned char>(answer_[1]));
        if (answer_.size() < address_at + 1) return;
        std::size_t length = 0; // of the bound address, which we do not need
        switch (answer_[address_at - 1]) {
        case type_v4: length = 4; break;
        case type_v6: length = 16; break;
        case type_name: length = 1 + std::size_t(static_cast<unsigned char>(answer_[address_at])); break;
        default: return fail(no_socks);
        }
        open_ = answer_.size() == address_at + length + 2;
    }
    void refused(unsigned char reply) {
        static constexpr std::array<const char*, 9> words = {"",
                                                             "general SOCKS server failure",
                                                             "connection not allowed by ruleset",
                                                             "network unreachable",
                                                             "host unreachable",
                                                             "connection refused",
                                                             "TTL expired",
                                                             "command not supported",
                                                             "address type not supported"}; // RFC 1928, 6
        static constexpr unsigned char nobody_listens = 5;
        std::string text = "answered " + std::to_string(reply);
        if (reply < words.size()) text.append(" (").append(words[reply]).append(")");
        fail(std::move(text), reply == nobody_listens ? errc::connection_refused : errc::connect_failed);
    }

    static constexpr const char* no_socks = "does not answer in SOCKS 5";
    std::string login_, request_, answer_;
    awaited awaited_ = awaited::method;
};

} // namespace

std::unique_ptr<proxy_dialogue> http_dialogue(std::string request) {
    return std::make_unique<connect_dialogue>(std::move(request));
}

std::unique_ptr<proxy_dialogue> socks_dialogue(const proxy& p, const endpoint& to) {
    return std::make_unique<socks>(p, to);
}

} // namespace informer::http::detail
