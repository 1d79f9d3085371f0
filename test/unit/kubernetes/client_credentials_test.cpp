// How a client authenticates: tokens and their files, passwords, impersonation; and that none of it leaks.
#include "bench.hpp"
#include "support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <filesystem>

#include <sys/stat.h>

using namespace kubernetes_test;
using namespace std::chrono_literals;

TEST_CASE("client: a bearer token, basic authentication and impersonation are sent") {
    kubernetes::credentials who;
    who.token = "t0";
    who.impersonate_user = "jane";
    who.impersonate_uid = "7";
    who.impersonate_groups = {"a", "b"};
    who.impersonate_extra = {{"scopes", {"x", "y"}}, {"example.com/why%", {"z"}}, {"none", {}}};
    bench b(who);
    failure f;
    b.answers->next.emplace_back(pod("a"));
    get(b, "a", f);
    CHECK(header(b, "Authorization") == "Bearer t0");
    CHECK(header(b, "Impersonate-User") == "jane");
    CHECK(header(b, "Impersonate-Uid") == "7");
    CHECK(header(b, "Impersonate-Group") == "a");
    std::vector<std::string> scopes;
    for (const auto& [name, value] : b.answers->requests.back().headers)
        if (name == "Impersonate-Extra-scopes") scopes.push_back(value);
    CHECK(scopes == std::vector<std::string>{"x", "y"});
    CHECK(header(b, "Impersonate-Extra-example.com%2Fwhy%25") == "z");
    CHECK(header(b, "Impersonate-Extra-none").empty());

    kubernetes::credentials basic;
    basic.username = "Aladdin";
    basic.password = "open sesame";
    bench c(basic);
    c.answers->next.emplace_back(pod("a"));
    get(c, "a", f);
    CHECK(header(c, "Authorization") == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
}

TEST_CASE("client: the token file is read again every minute, a bad one leaves the old token in use") {
    const testing::temporary_folder folder;
    const std::string file = folder.write("token", "one\n");
    kubernetes::credentials who;
    who.token_file = file;
    bench b(who);
    failure f;
    const auto sent = [&] {
        b.answers->next.emplace_back(pod("a"));
        get(b, "a", f);
        return header(b, "Authorization");
    };
    CHECK(sent() == "Bearer one");
    folder.write("token", "two");
    b.clock->advance(59s);
    CHECK(sent() == "Bearer one");
    b.clock->advance(1s);
    CHECK(sent() == "Bearer two");
    folder.write("token", "");
    b.clock->advance(1min);
    CHECK(sent() == "Bearer two");
    folder.write("token", "t\nsecond line");
    b.clock->advance(1min);
    CHECK(sent() == "Bearer two");
    std::filesystem::remove(file);
    b.clock->advance(1min);
    CHECK(sent() == "Bearer two");
    CHECK(b.log.count("the old token stays in use") == 1);
    REQUIRE(::mkfifo(file.c_str(), 0600) == 0); // a pipe without a writer is not waited for
    b.clock->advance(1min);
    CHECK(sent() == "Bearer two");
    std::filesystem::remove(file);
    folder.write("token", "three");
    b.clock->advance(1min);
    CHECK(sent() == "Bearer three");
}

TEST_CASE("client: after a 401 the token file is read again before the next request") {
    const testing::temporary_folder folder;
    const std::string file = folder.write("token", "one");
    kubernetes::credentials who;
    who.token_file = file;
    bench b(who);
    failure f;
    b.answers->next.emplace_back(401, status(401, "Unauthorized", "Unauthorized"));
    get(b, "a", f);
    CHECK(f == errc::unauthorized);
    folder.write("token", "two");
    b.answers->next.emplace_back(pod("a"));
    get(b, "a", f);
    CHECK(header(b, "Authorization") == "Bearer two");
}

TEST_CASE("client: secrets never reach failures or the log") {
    kubernetes::credentials who;
    who.token = "s3cret-token-of-some-length";
    bench b(who);
    failure f;
    std::string all;
    b.answers->next.push_back(
        reply(500, "you sent Authorization: Bearer s3cret-token-of-some-length").type("text/plain"));
    get(b, "a", f);
    all += f.what() + f.status()->message;
    b.answers->next.emplace_back(403, status(403, "Forbidden", "Bearer s3cret-token-of-some-length is not enough"));
    get(b, "a", f);
    all += f.what() + f.status()->message;
    kubernetes::credentials broken;
    broken.token = "s3cret\r\nX-Evil: 1";
    bench c(broken);
    get(c, "a", f);
    CHECK(f == errc::bad_configuration);
    all += f.what();
    b.run(b.api->raw("GET", "/api/v1/namespaces/x/pods/y/proxy/?key=s3cret", "", f));
    all += f.what();
    for (const auto& line : b.log.lines()) all += line.text;
    for (const auto& line : c.log.lines()) all += line.text;
    CHECK(all.find("s3cret") == std::string::npos);
    CHECK(c.answers->lines.empty());
}
