#include "support/cpu_time.hpp"

#include <informer/error.hpp>

#include <catch2/catch_test_macros.hpp>

#include <initializer_list>
#include <set>
#include <string>
#include <vector>

using namespace informer;

namespace {

constexpr int last_errc = static_cast<int>(errc::new_epoch);

std::set<errc> members_of(condition c) {
    std::set<errc> found;
    for (int i = 1; i <= last_errc; ++i)
        if (make_error_code(static_cast<errc>(i)) == c) found.insert(static_cast<errc>(i));
    return found;
}

api_status status(int code, std::string reason = {}, std::string message = {}) {
    api_status s;
    s.code = code;
    s.reason = std::move(reason);
    s.message = std::move(message);
    return s;
}

} // namespace

TEST_CASE("conditions hold exactly the errors of their class", "[error]") {
    const std::set<errc> phases{errc::resolve_failed, errc::resolve_timeout,   errc::connection_refused,
                                errc::connect_failed, errc::connect_timeout,   errc::tls_failed,
                                errc::tls_timeout,    errc::connection_lost,   errc::write_failed,
                                errc::header_timeout, errc::body_idle_timeout, errc::request_timeout};
    CHECK(members_of(condition::transport) == phases);
    auto retryable = phases;
    retryable.insert({errc::too_many_requests, errc::server_error, errc::resource_version_too_large});
    CHECK(members_of(condition::retryable) == retryable);
    CHECK(members_of(condition::timed_out) ==
          std::set<errc>{errc::resolve_timeout, errc::connect_timeout, errc::tls_timeout, errc::header_timeout,
                         errc::body_idle_timeout, errc::request_timeout, errc::deadline_exceeded});
    CHECK(members_of(condition::protocol) == std::set<errc>{errc::bad_response, errc::too_large,
                                                            errc::unexpected_status, errc::syntax_error, errc::bad_utf8,
                                                            errc::too_deep, errc::not_an_object, errc::no_metadata});
    CHECK(members_of(condition::gone) == std::set<errc>{errc::gone});
    CHECK(members_of(condition::conflict) == std::set<errc>{errc::conflict});
    CHECK(members_of(condition::not_found) == std::set<errc>{errc::not_found});
    CHECK(members_of(condition::unauthorized) == std::set<errc>{errc::unauthorized});
    CHECK(members_of(condition::forbidden) == std::set<errc>{errc::forbidden});
    CHECK(members_of(condition::cancelled) == std::set<errc>{errc::cancelled});
}

TEST_CASE("Asio's operation_aborted is a cancellation too", "[error]") {
    const error_code aborted(ECANCELED, boost::system::system_category());
    CHECK(aborted == condition::cancelled);
    CHECK(aborted != condition::retryable);
    CHECK_FALSE(error_code() == condition::cancelled);
}

TEST_CASE("an error is compared as its failure is", "[error]") {
    const error e(errc::not_found, "get pods ns/a");
    CHECK(e == errc::not_found);
    CHECK(e == condition::not_found);
    CHECK(condition::not_found == e);
    CHECK(e != errc::conflict);
    CHECK(e != condition::retryable);
}

TEST_CASE("every error has a sentence of its own", "[error]") {
    std::set<std::string> sentences;
    for (int i = 1; i <= last_errc; ++i) {
        const auto text = make_error_code(static_cast<errc>(i)).message();
        CHECK(text != "unknown error");
        CHECK(sentences.insert(text).second);
    }
    CHECK(make_error_code(errc::connection_refused).message() == "connection refused");
    CHECK(error_code(9999, error_category()).message() == "unknown error");
}

TEST_CASE("errc_of follows the code and refines it by the reason", "[error]") {
    struct row {
        int code;
        const char* reason;
        errc expected;
    };
    const std::vector<row> rows{
        {400, "", errc::bad_request},
        {400, "BadRequest", errc::bad_request},
        {401, "Unauthorized", errc::unauthorized},
        {401, "", errc::unauthorized},
        {403, "", errc::forbidden},
        {404, "NotFound", errc::not_found},
        {404, "", errc::not_found},
        {405, "MethodNotAllowed", errc::bad_request},
        {406, "", errc::bad_request},
        {408, "", errc::server_error},
        {409, "Conflict", errc::conflict},
        {409, "", errc::conflict},
        {409, "AlreadyExists", errc::already_exists},
        {410, "", errc::gone},
        {410, "Gone", errc::gone},
        {410, "Expired", errc::gone},
        {200, "Expired", errc::gone},
        {0, "Expired", errc::gone},
        {0, "NotFound", errc::not_found},
        {415, "", errc::bad_request},
        {422, "Invalid", errc::invalid},
        {422, "", errc::invalid},
        {429, "", errc::too_many_requests},
        {429, "TooManyRequests", errc::too_many_requests},
        {500, "", errc::server_error},
        {500, "InternalError", errc::server_error},
        {500, "ServerTimeout", errc::server_error},
        {503, "", errc::server_error},
        {504, "Timeout", errc::server_error},
        {504, "", errc::server_error},
        {599, "", errc::server_error},
        {418, "", errc::unexpected_status},
        {302, "", errc::unexpected_status},
        {0, "", errc::unexpected_status},
        {-1, "", errc::unexpected_status},
        {600, "", errc::unexpected_status},
    };
    for (const auto& r : rows) {
        CAPTURE(r.code, r.reason);
        CHECK(errc_of(status(r.code, r.reason)) == r.expected);
    }
}

TEST_CASE("a too large resource version is recognised by its cause or, from old servers, by its message", "[error]") {
    auto by_cause = status(504, "Timeout", "Too large");
    api_status::cause cause;
    cause.reason = "ResourceVersionTooLarge";
    by_cause.causes.push_back(cause);
    CHECK(errc_of(by_cause) == errc::resource_version_too_large);
    CHECK(errc_of(status(504, "Timeout", "Timeout: Too large resource version: 9, current: 5")) ==
          errc::resource_version_too_large);
    CHECK(errc_of(status(504, "", "Timeout: Too large resource version: 9, current: 5")) ==
          errc::resource_version_too_large);
    // Not in a status that is no time-out.
    CHECK(errc_of(status(400, "BadRequest", "Too large resource version")) == errc::bad_request);
}

TEST_CASE("a failure says in one line what was attempted, what went wrong and what the server said", "[error]") {
    const failure plain(errc::connection_refused, "list pods: connect 127.0.0.1:6443");
    CHECK(plain.what() == "list pods: connect 127.0.0.1:6443: connection refused");
    const failure served(status(404, "NotFound", "pods \"x\"\nnot found\x1b[2J"), "get pod x");
    CHECK(served.what() == "get pod x: not found: pods \"x\" not found [2J");
    CHECK(served == errc::not_found);
    CHECK(served == condition::not_found);
    REQUIRE(served.status() != nullptr);
    CHECK(served.status()->reason == "NotFound");
    CHECK(served.within("informer pods").what() == "informer pods: get pod x: not found: pods \"x\" not found [2J");
    CHECK(served.within("informer pods").status() == served.status());
    CHECK(failure(status(418), "get /").what() == "get /: unexpected HTTP status 418");
    CHECK_FALSE(failure());
    CHECK(failure().what() == "success");
}

TEST_CASE("an error carries its failure through throw and copy", "[error]") {
    const failure f(status(409, "Conflict", "changed"), "update pod x");
    try {
        throw_on(f);
        FAIL("did not throw");
    } catch (const boost::system::system_error& e) {
        CHECK(e.code() == condition::conflict);
        CHECK(std::string(e.what()) == f.what());
        const auto* ours = dynamic_cast<const informer::error*>(&e);
        REQUIRE(ours != nullptr);
        const informer::error copy = *ours;
        CHECK(copy.status() == f.status());
        CHECK(std::string(copy.what()) == f.what());
    }
    CHECK_NOTHROW(throw_on(failure()));
}

TEST_CASE("secrets never stay in a failure", "[error]") {
    const std::string token = "eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmF0dXJl";
    std::vector<failure> failures;
    failures.emplace_back(errc::unauthorized, "get / with Authorization: Bearer " + token);
    failures.emplace_back(errc::unauthorized, "sent bearer " + token + " to it");
    failures.emplace_back(errc::connect_failed, "connect https://admin:" + token + "@host:6443/api");
    failures.emplace_back(errc::connect_failed, "proxy http://" + token + "@proxy: refused");
    failures.emplace_back(status(400, "", "bad header\r\nauthorization: Basic " + token + "\r\nHost: x"), "get /");
    failures.push_back(failure(errc::unauthorized, "x").within("Bearer " + token));
    for (const auto& f : failures) {
        CAPTURE(f.what());
        CHECK(f.what().find(token) == std::string::npos);
        CHECK(f.what().find("[redacted]") != std::string::npos);
        CHECK(f.message().find(token) == std::string::npos);
        if (f.status()) CHECK(f.status()->message.find(token) == std::string::npos);
    }
    // Text that only looks like a secret stays readable.
    CHECK(failure(errc::unauthorized, "the bearer token expired").message() == "the bearer token expired");
    CHECK(failure(errc::bad_request, "get https://host/a@b").message() == "get https://host/a@b");
}

TEST_CASE("a message made of addresses is scanned once, not once for each address") {
    const double growth = testing::growth(std::size_t(32) << 10, [](std::size_t size) {
        std::string many = "a@b ";
        while (many.size() < size) many += "x://y ";
        return [many] { CHECK(failure(errc::bad_request, many).message() == many); };
    });
    CHECK(growth < testing::linear);
}

TEST_CASE("a message full of secrets is rewritten once, not once for each secret") {
    for (const std::string one : {"://x@/", "authorization:\n", "bearer 0123456789abcdef "}) {
        CAPTURE(one);
        failure f;
        const double growth = testing::growth(std::size_t(32) << 10, [&](std::size_t size) {
            std::string many;
            while (many.size() < size) many += one;
            return [many, &f] { f = failure(errc::bad_request, many); };
        });
        CHECK(growth < testing::linear);
        CHECK(f.message().substr(0, 40).find("[redacted]") != std::string::npos);
        CHECK(f.message().size() > std::size_t(128) << 10);
        CHECK(f.message().find("x@") == std::string::npos);
        CHECK(f.message().find("0123") == std::string::npos);
    }
}

TEST_CASE("secrets are masked and nothing else") {
    const auto shown = [](const char* text) { return failure(errc::bad_request, text).message(); };
    CHECK(shown("a://u:p@h b://@h c://v@w@h://x@y d") == "a://[redacted]@h b://@h c://[redacted]@h://[redacted]@y d");
    CHECK(shown("Bearer bearer 0123456789abcdef, BEARER x bearer ") == "Bearer bearer [redacted], BEARER x bearer ");
    CHECK(shown("Authorization:\r\nauthorization: Basic x\r\n\"authorization: y\" z") ==
          "Authorization: [redacted]\r\nauthorization: [redacted]\r\n\"authorization: [redacted]\" z");
    CHECK(shown("authorization: Bearer 0123456789abcdef authorization: x") == "authorization: [redacted]");
}
