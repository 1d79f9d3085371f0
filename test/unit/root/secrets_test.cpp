// What messages must not show, and what they must.
#include "root/secrets.hpp"
#include "support/cpu_time.hpp"

#include <informer/error.hpp>

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <utility>
#include <vector>

using namespace informer;
using informer::detail::without_likely_secrets;
using informer::detail::without_secrets;

namespace {

const std::string hex = "9f8e7d6c5b4a39281706f5e4d3c2b1a0";

using pairs = std::vector<std::pair<std::string, std::string>>;

} // namespace

TEST_CASE("secrets: no failure keeps the value of a name that can only be a secret", "[error]") {
    const pairs table{
        {"password=hunter2pass x", "password=[redacted] x"},
        {"DB_PASSWORD = hunter2 x", "DB_PASSWORD = [redacted] x"},
        {"passwd: hunter2 x", "passwd: [redacted] x"},
        {"?access_token=abc", "?access_token=[redacted]"},
        {"client_secret: " + hex, "client_secret: [redacted]"},
        {R"({"clientSecret": "a b", "x": 1})", R"({"clientSecret": "[redacted]", "x": 1})"},
        {R"({\"refresh-token\":\"a\",\"x\":1})", R"({\"refresh-token\":\"[redacted]\",\"x\":1})"},
        {R"({"apiKey":"a\"b","x":1})", R"({"apiKey":"[redacted]","x":1})"},
        {R"({"token":"abc","secret":["abc"]})", R"({"token":"[redacted]","secret":["[redacted]"]})"},
        {"token='abc d' x", "token='[redacted]' x"},
        {"map[Password:hunter2 User:me]", "map[Password:[redacted] User:me]"},
        {"AWS_SECRET_ACCESS_KEY=wJalr/K7M x", "AWS_SECRET_ACCESS_KEY=[redacted] x"},
        {"Cookie: a=b; c=d\r\nHost: h", "Cookie: [redacted]\r\nHost: h"},
        {"-----BEGIN RSA PRIVATE KEY-----\nMII/x\n-----END RSA PRIVATE KEY-----",
         "-----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA PRIVATE KEY-----"},
        {"password=\"no end", "password=\"[redacted]"},
        {"Authorization=Basic dXM6cHc= x", "Authorization=[redacted] x"},
        {"Proxy-Authorization=\"Basic dXM6cHc=\" x", "Proxy-Authorization=\"[redacted]\" x"},
        {"password=[hunter2] x", "password=[[redacted] x"},
        {"secret_access_key: /K7MDENG/bPxRfiCYEXAMPLEKEYwJalrXUtnFE x", "secret_access_key: [redacted] x"},
        {"client-key-data: LS0tLS1/CRU+dJ x", "client-key-data: [redacted] x"},
    };
    for (const auto& [text, shown] : table) {
        CHECK(failure(errc::bad_request, text).message() == shown);
        CHECK(without_likely_secrets(text) == shown);
        CHECK(without_secrets(shown) == shown);
        CHECK(without_likely_secrets(shown) == shown);
    }
    api_status s;
    s.code = 422;
    s.message = "password=hunter2";
    s.causes.emplace_back();
    s.causes.back().message = "password=hunter2";
    const failure f(s, "x");
    CHECK(f.status()->message == "password=[redacted]");
    CHECK(f.status()->causes.at(0).message == "password=[redacted]");
}

TEST_CASE("secrets: names of objects, fields, files and digests stay in failures", "[error]") {
    for (const std::string text :
         {R"(secrets "db-password" not found)", R"(secrets "token": not found)",
          R"(Secret "x" is invalid: data[password]: Invalid value: "a b": no)", "spec.password: Required value",
          "couldn't find key token in Secret: default/db-token-2x9", "secretName: tls-2024", "token-type=jwt-2024",
          R"(User "system:serviceaccount:ns:token-2" cannot list resource "secrets")",
          "involvedObject.kind=Secret,metadata.name=token-1", "type=kubernetes.io/service-account-token",
          "tokenFile: cannot read /var/run/secrets/kubernetes.io/serviceaccount/token: no such file",
          "pod 8f3c9a7e-1111-2222-3333-444455556666 was image@sha256:9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c5b4a3928",
          R"(Post "https://login.example/oauth2/v2.0/token": dial tcp 10.0.0.1:443: connection refused)",
          "oauth2: cannot fetch token: 401 Unauthorized", "a.test/password: x",
          "password=", "password: ", "{\"token\":{}}"})
        CHECK(failure(errc::bad_request, text).message() == text);
}

TEST_CASE("secrets: more is masked in the output of a program that handles secrets") {
    const pairs table{
        {"password=hunter2pass refresh_token=abcdef0123456789abcdef0123456789 client_secret: " + hex,
         "password=[redacted] refresh_token=[redacted] client_secret: [redacted]"},
        {"it is " + hex + ".", "it is [redacted]."},
        {"dop_v1_" + hex + hex, "dop_v1_[redacted]"},
        {"my-token: ab12cd34 x", "my-token: [redacted] x"},
        {"token: " + hex, "token: [redacted]"},
        {"password: swordfish", "password: [redacted]"},
        {"session_cookie=a1", "session_cookie=[redacted]"},
        {"credential: abc.def-123", "credential: [redacted]"},
        {"run: tool --client-secret abc123def --verbose", "run: tool --client-secret [redacted] --verbose"},
        {"Authorization: Basic x", "Authorization: [redacted]"},
        {"eyJhbGciOiJSUzI1NiIsImtpZCI6Ik1 x", "[redacted] x"},
    };
    for (const auto& [text, shown] : table) {
        CHECK(without_likely_secrets(text) == shown);
        CHECK(without_likely_secrets(shown) == shown);
        CHECK(without_secrets(shown) == shown);
    }
}

TEST_CASE("secrets: text that explains why a program gave no credential stays readable") {
    for (const std::string text :
         {"error: get-token: authentication error: exit status 1",
          "could not get token: oauth2: cannot fetch token: 400 Bad Request",
          "error getting credentials: NoCredentialProviders: no valid providers in chain",
          "credentials: /home/u/.aws/credentials: no such file", "--token-file=/run/token",
          R"(Get "https://sts.example/token": dial tcp 10.0.0.1:443: i/o timeout)",
          "To sign in open https://example.org/device and enter the code ABCD-EFGH",
          "request 8f3c9a7e-1111-2222-3333-444455556666 at 2024-01-01T00:00:00Z",
          "arn:aws:secretsmanager:us-east-1:123456789012:secret:prod/db", "invalid token: expired at 2024-01-01",
          "token: 401 Unauthorized", "usage: tool --token string", "Secret \"token-1\" in namespace default-2",
          "/usr/lib/python3/dist-packages/Foo1/credentials.py: line 12"})
        CHECK(without_likely_secrets(text) == text);
}

TEST_CASE("secrets: a text full of names is scanned once, not once for each name") {
    for (const std::string one : {"token:", "token:,", "token:\\", "/token:(", "token=", "token:[{", "\"token\":{",
                                  "password: x ", "--token ", "token='", "\\\\\"", "a=b:"}) {
        CAPTURE(one);
        const double growth = testing::growth(std::size_t(32) << 10, [&](std::size_t size) {
            std::string many;
            while (many.size() < size) many += one;
            return [many] {
                without_secrets(many);
                without_likely_secrets(many);
            };
        });
        CHECK(growth < testing::linear);
    }
}
