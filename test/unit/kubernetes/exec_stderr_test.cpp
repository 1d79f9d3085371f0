// What exec plugins write to stderr.
#include "exec_scene.hpp"

using namespace kubernetes_test;
using namespace std::chrono_literals;

TEST_CASE("exec plugin: what looks like a secret, and what its environment holds, is not repeated") {
    const auto hidden = [](kubernetes::exec_plugin& p) { p.environment = {{"KEY", "pass word"}}; };
    const std::string text =
        complaint_of("echo \"$KEY: eyJhbGciOiJSUzI1NiIsImtpZCI6Ik1 for arn:aws:iam::123456789012:user/x, "
                     "request 8f3c9a7e-1111-2222-3333-444455556666\" >&2; exit 1",
                     hidden);
    CHECK(text == "exited with status 1, saying: [redacted]: [redacted] for arn:aws:iam::123456789012:user/x, "
                  "request 8f3c9a7e-1111-2222-3333-444455556666");
}

TEST_CASE("exec plugin: values after names that speak of secrets, and hex, are not repeated") {
    exec_scene s(
        "echo 'old password=swordfish' >&2; echo password=hunter2pass refresh_token=abcdef0123456789abcdef0123456789 "
        "client_secret: 9f8e7d6c5b4a39281706f5e4d3c2b1a0 /home/u/.kube/oidc_cache >&2; exit 1");
    const failure f = s.get();
    CHECK(has(f.what(), "saying: old password=[redacted] password=[redacted] refresh_token=[redacted] "
                        "client_secret: [redacted] /home/u/.kube/oidc_cache"));
    for (const char* const secret : {"hunter2", "swordfish", "abcdef0123", "9f8e7d6c"}) CHECK_FALSE(s.told(secret));
}

TEST_CASE("exec plugin: stderr is read however much it is, and does no harm") {
    exec_scene s("head -c 5000000 /dev/zero | tr '\\0' x >&2; cat $D/answer");
    CHECK_FALSE(s.get());
    CHECK(s.who() == "Bearer t1");
    CHECK_FALSE(s.b.log.contains("xxxx"));
}

TEST_CASE("exec plugin: what it says on stderr is logged while it runs, line by line and masked") {
    exec_scene s("echo 'open https://login.test/device and enter code ABCD-EFGH' >&2; echo >&2; printf 'pass' >&2; "
                 "echo 'word=hunter2 is old' >&2; printf 'a\\033[2Jb\\377c\\n' >&2; echo \"$KEY\" >&2; "
                 "printf 'no end' >&2; read x < $D/go; cat $D/answer",
                 [](kubernetes::exec_plugin& p) {
                     p.environment = {{"KEY", "first line\nof its own"}};
                 });
    s.prepare();
    auto& r = s.start();
    const std::string name = "exec plugin \"" + s.b.config.credentials.exec.command + "\": ";
    s.b.until([&] { return s.b.log.count(name) == 5; });
    CHECK_FALSE(r.done);
    s.dir.go();
    s.wait(r);
    CHECK_FALSE(r.f);
    std::vector<std::string> told;
    for (const auto& line : s.b.log.lines()) {
        if (!line.text.starts_with(name)) continue;
        CHECK(line.level == log_level::info);
        told.push_back(line.text.substr(name.size()));
    }
    CHECK(told == std::vector<std::string>{"open https://login.test/device and enter code ABCD-EFGH",
                                           "password=[redacted] is old", "a [2Jb?c", "[redacted]", "[redacted]",
                                           "no end"});
}

TEST_CASE("exec plugin: fifty lines of stderr are logged, and only the beginning of each") {
    exec_scene s("head -c 3000 /dev/zero | tr '\\0' x >&2; echo >&2; printf 'word ' >&2; head -c 9000 /dev/zero | tr "
                 "'\\0' y >&2; "
                 "echo ' tail' >&2; for i in $(seq 1000); do echo line $i >&2; done; cat $D/answer");
    CHECK_FALSE(s.get());
    CHECK(s.b.log.count("\": ") == 50);
    CHECK(s.b.log.contains("\": " + std::string(512, 'x') + "…"));
    CHECK_FALSE(s.b.log.contains(std::string(513, 'x')));
    CHECK(s.b.log.contains("\": word…"));
    CHECK(s.b.log.contains("\": line 48"));
    CHECK_FALSE(s.b.log.contains("line 49"));
    CHECK(s.b.log.count("says more, which is not logged") == 1);
}

TEST_CASE("exec plugin: a private key on stderr is neither logged nor reported") {
    exec_scene s("printf '%s\\n' begin '-----BEGIN PRIVATE KEY-----' first/half second/half '-----END PRIVATE "
                 "KEY-----' end >&2; exit 1");
    const failure f = s.get();
    CHECK(has(f.what(), "saying: begin -----BEGIN PRIVATE KEY-----[redacted]-----END PRIVATE KEY----- end"));
    CHECK(s.b.log.contains("\": end"));
    CHECK_FALSE(s.told("half"));
}

TEST_CASE("exec plugin: nothing of stderr is logged if the logger takes no info") {
    exec_scene s("echo hello >&2; cat $D/answer");
    s.b.rt.with_logger(s.b.log.logger(), log_level::warning);
    s.b.api.emplace(s.b.rt, s.b.config);
    CHECK_FALSE(s.get());
    CHECK_FALSE(s.b.log.contains("hello"));
}
