// Exec plugins that misbehave, and what is left of a run when nobody wants it any more.
#include "exec_scene.hpp"

#include "kubernetes/child_process.hpp"
#include "support/signal_storm.hpp"

#include <informer/cache/reflector.hpp>

#include <boost/asio/strand.hpp>

#include <stdexcept>
#include <thread>

using namespace kubernetes_test;
using namespace std::chrono_literals;

TEST_CASE("exec plugin: the error says how it ended, with its last words") {
    informer::testing::need_pidfd_open(); // not from within a CHECK
    CHECK(complaint_of("exit 0") == "wrote nothing to stdout");
    CHECK(complaint_of("cat $D/answer; exit 255") == "exited with status 255");
    CHECK(complaint_of("kill -SEGV $$") == "died of signal 11");
    CHECK(complaint_of("for i in 1 2 3 4 5 6; do echo line $i >&2; done; echo >&2; exit 1") ==
          "exited with status 1, saying: line 3 line 4 line 5 line 6");
    CHECK(complaint_of("printf 'a\\033[2Jb\\377c' >&2; exit 1") == "exited with status 1, saying: a [2Jb?c");
    // Only whole lines are shown: a part of a line may be a part of a secret.
    const std::string much = "head -c 100000 /dev/zero | tr '\\0' x >&2; ";
    CHECK(complaint_of(much + "exit 1") == "exited with status 1");
    CHECK(complaint_of(much + "sleep 0.1; echo rest >&2; echo last >&2; exit 1") ==
          "exited with status 1, saying: last");
    CHECK(complaint_of("echo first >&2; head -c 4096 /dev/zero | tr '\\0' x >&2; echo >&2; echo last >&2; exit 1") ==
          "exited with status 1, saying: last");
}

TEST_CASE("exec plugin: output that is no credential is refused, and not shown") {
    informer::testing::need_pidfd_open(); // not from within a CHECK
    const std::string head = R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1")",
                      pem = "-----BEGIN X-----";
    const std::string no_object = "what it wrote to stdout is no JSON or YAML object";
    CHECK(complaint_of("echo s3cret") == no_object);
    CHECK(complaint_of("echo '{s3cret'") == no_object);
    CHECK(complaint_of("echo 'a: s3cret: b'") == no_object);
    CHECK(complaint_of("echo 'a: *s3cret'") == no_object);
    CHECK(complaint_of("echo '- s3cret'") == no_object);
    CHECK(complaint_of("echo 'a: {<<: s3cret}'") == no_object);
    CHECK(complaint_of("echo 'kind: s3cret'") == "what it wrote to stdout is no ExecCredential");
    CHECK(complaint_of("echo 'kind: ExecCredential'; head -c 70000 /dev/zero | tr '\\0' '#'") ==
          "what it wrote to stdout is no JSON object, and too large for YAML");
    CHECK(complaint_of(answering(R"({"kind":"s3cret"})")) == "what it wrote to stdout is no ExecCredential");
    CHECK(complaint_of("sed s,/v1,/v1beta1, $D/answer") ==
          "asked for client.authentication.k8s.io/v1, it answered with client.authentication.k8s.io/v1beta1");
    CHECK(complaint_of("sed s,/v1,/s3cret, $D/answer") ==
          "asked for client.authentication.k8s.io/v1, it answered with another apiVersion");
    CHECK(complaint_of(answering(head + "}")) == "its ExecCredential has no status");
    CHECK(complaint_of(answering(head + R"(,"status":{}})")) ==
          "its ExecCredential has neither a token nor a client certificate");
    CHECK(complaint_of(answering(head + R"(,"status":{"token":["s3cret"]}})")) ==
          "status.token of its ExecCredential is no string");
    CHECK(complaint_of(answering(head + R"(,"status":{"token":"s3\ncret"}})")) ==
          "the token of its ExecCredential has a character that no header can carry");
    CHECK(complaint_of(answering(head + R"(,"status":{"token":"t","clientKeyData":"s3cret"}})")) ==
          "its ExecCredential has a client key, but no certificate");
    CHECK(complaint_of(answering(head + R"(,"status":{"clientCertificateData":"s3cret","clientKeyData":")" + pem +
                                 R"("}})")) == "the client certificate or key of its ExecCredential is no PEM");
    CHECK(complaint_of(answering(head + R"(,"status":{"token":"t","expirationTimestamp":"s3cret"}})")) ==
          "expirationTimestamp of its ExecCredential is no time");
}

TEST_CASE("exec plugin: a missing plugin is reported with its install hint") {
    informer::testing::need_pidfd_open(); // not from within a CHECK
    const auto named = [](const std::string& command) {
        return [command](kubernetes::exec_plugin& p) {
            p.command = command;
            p.install_hint = "\nGet it at https://example.org/\nand be happy\n";
        };
    };
    const std::string hint = " (Get it at https://example.org/ and be happy)";
    CHECK(complaint_of("", named("no-such-plugin-of-libinformer")) == "is not on $PATH" + hint);
    CHECK(complaint_of("", named("/no/such/plugin")) == "is not there" + hint);
    CHECK(complaint_of("", named("/etc/passwd/x")) == "is not there" + hint);
    CHECK(complaint_of("", named("/etc/passwd")) == "cannot be run: Permission denied");
}

TEST_CASE("exec plugin: if the system cannot run it, the error says why") {
    const plugin_folder other;
    const auto named = [&](const std::string& text) {
        const std::string file = other.write("bad", text);
        REQUIRE(::chmod(file.c_str(), 0700) == 0);
        return [file](kubernetes::exec_plugin& p) { p.command = file; };
    };
    CHECK(complaint_of("", named("#!/no/such/shell\n")) ==
          "cannot be run: the program that its first line names does not exist");
    CHECK(complaint_of("", named("echo no first line\n")) ==
          "cannot be run: Exec format error"); // a shell would run it
}

TEST_CASE("exec plugin: a system without pidfd_open to watch a process by is reported") {
    informer::testing::need_pidfd_open();
    std::string text;
    bool lost = false;
    std::thread([&] { // only this thread loses pidfd_open
        lost = informer::testing::lose_system_call(SYS_pidfd_open);
        if (lost) text = complaint_of(answers_at_once);
    })
        .join();
    if (!lost) SKIP("this system lets nobody be without a system call");
    CHECK(text == "cannot be run: the system has nothing to watch it by (pidfd_open, of Linux 5.4 and later): "
                  "Function not implemented");
}

TEST_CASE("exec plugin: its runs are counted by how they ended, as client-go counts them") {
    informer::testing::need_pidfd_open(); // not from within a CHECK
    const auto told = std::make_shared<totals>();
    const auto run = [&](const std::string& body, const std::function<void(kubernetes::exec_plugin&)>& change = {}) {
        exec_scene s(body, change);
        if (change) change(s.b.config.credentials.exec);
        s.b.api.emplace(runtime(s.b.rt).with_metrics(told), s.b.config);
        s.get();
        s.get(); // not run again
        std::map<std::string, double> counted;
        for (const auto& [name, n] : std::exchange(told->sums, {}))
            if (name.starts_with("rest_client_exec_plugin_call_total")) counted[name.substr(name.find(' ') + 1)] = n;
        return counted;
    };
    using counts = std::map<std::string, double>;
    const auto named = [](const std::string& command) {
        return [command](kubernetes::exec_plugin& p) { p.command = command; };
    };
    CHECK(run(answers_at_once) == counts{{"0 no_error", 1}});
    CHECK(run("echo nonsense") == counts{{"0 no_error", 1}}); // the call went well
    CHECK(run("exit 7") == counts{{"7 plugin_execution_error", 1}});
    CHECK(run("kill -SEGV $$") == counts{{"-1 plugin_execution_error", 1}});
    CHECK(run("read x < $D/go", limit(100ms)) == counts{{"-1 plugin_execution_error", 1}});
    CHECK(run("", named("/no/such/plugin")) == counts{{"1 plugin_not_found_error", 1}});
    CHECK(run("", named("/etc/passwd")) == counts{{"1 plugin_not_found_error", 1}});
}

TEST_CASE("exec plugin: a command without a slash is looked for on $PATH, never in the current folder") {
    const plugin_folder here;
    here.answer_token("t1");
    here.script(answers_at_once, "a-plugin");
    const std::string old = ::getenv("PATH"), folder = here.path("");
    const auto by_name = [](kubernetes::exec_plugin& p) { p.command = "a-plugin"; };
    ::setenv("PATH", (":.:" + old).c_str(), 1);
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(folder);
    CHECK(complaint_of("", by_name) == "is not on $PATH");
    std::filesystem::current_path(before);
    ::setenv("PATH", (old + ":" + folder).c_str(), 1);
    {
        exec_scene s("", by_name);
        CHECK_FALSE(s.get());
        CHECK(s.who() == "Bearer t1");
    }
    ::setenv("PATH", old.c_str(), 1);
}

TEST_CASE("exec plugin: one that takes too long is killed, with all that it started") {
    exec_scene s("sleep 1000 & echo $! > $D/other; echo thinking >&2; wait", limit(1s));
    const failure f = s.get();
    CHECK(f == errc::exec_plugin_failed);
    CHECK(has(f.what(), "did not end within 1 s and was killed, saying: thinking"));
    s.b.until([&] { return dead(s.dir.lines("runs").at(0)) && dead(s.dir.lines("other").at(0)); });
    s.b.until(childless);
}

TEST_CASE("exec plugin: one that stops itself or ignores signals is killed as well") {
    informer::testing::need_pidfd_open(); // not from within a CHECK
    CHECK(has(complaint_of("kill -STOP $$", limit(100ms)), "did not end within 100 ms"));
    CHECK(has(complaint_of("trap '' TERM INT HUP; read x < $D/go", limit(100ms)), "did not end within 100 ms"));
}

TEST_CASE("exec plugin: one that floods stdout is killed at 1 MiB") {
    exec_scene s("exec cat /dev/zero");
    const failure f = s.get();
    CHECK(has(f.what(), "wrote more than 1 MiB to stdout and was killed"));
    s.b.until(childless);
}

TEST_CASE(
    "exec plugin: a program that sets on_stderr gets each line of stderr unchanged, and none of them is in the log") {
    std::vector<std::string> told;
    exec_scene s(
        "echo 'open https://login.test/?state=Zx81aB55cD77eF99gH11' >&2; echo >&2; printf 'a\\033[2Jb\\377c\\n' >&2; "
        "head -c 9000 /dev/zero | tr '\\0' y >&2; echo >&2; printf 'code A1' >&2; read x < $D/go; "
        "for i in $(seq 100); do echo $i >&2; done; cat $D/answer",
        [&told](kubernetes::exec_plugin& p) {
            p.on_stderr = [&told](std::string_view line) {
                told.emplace_back(line);
                if (line.empty()) throw std::runtime_error("what it throws is dropped");
            };
        });
    s.prepare();
    auto& r = s.start();
    s.b.until([&] { return told.size() == 4; });
    CHECK_FALSE(r.done);
    s.dir.go();
    s.wait(r);
    CHECK_FALSE(r.f);
    REQUIRE(told.size() == 104);
    CHECK(told[0] == "open https://login.test/?state=Zx81aB55cD77eF99gH11");
    CHECK(told[1].empty());
    CHECK(told[2] == "a\033[2Jb\377c");
    CHECK(told[3] == std::string(4096, 'y'));
    CHECK(told[4] == "code A11");
    CHECK(told[103] == "100");
    CHECK_FALSE(s.b.log.contains("login.test"));
    CHECK_FALSE(s.b.log.contains("\": 9"));
}

TEST_CASE("exec plugin: a process that it starts and that keeps its stdout open holds up nobody, and lives") {
    exec_scene s("sleep 1000 & echo $! > $D/other; cat $D/answer", limit(20s));
    CHECK_FALSE(s.get());
    CHECK(s.who() == "Bearer t1");
    const std::string other = s.dir.lines("other").at(0);
    CHECK_FALSE(dead(other));
    ::kill(std::stoi(other), SIGKILL);
}

TEST_CASE("exec plugin: one that closes its streams has not ended until its process has") {
    exec_scene s("cat $D/answer; exec >&- 2>&-; read x < $D/go");
    s.prepare();
    auto& r = s.start();
    s.b.until([&] { return s.dir.runs() == 1; });
    CHECK_FALSE(r.done);
    s.dir.go();
    s.wait(r);
    CHECK_FALSE(r.f);
}

TEST_CASE("exec plugin: cancelling the only request that waits ends the wait at once, and the run") {
    exec_scene s("sleep 1000 & echo $! > $D/other; wait");
    auto& r = s.start();
    s.b.until([&] { return s.dir.lines("other").size() == 1; });
    r.cancel.emit(asio::cancellation_type::terminal);
    s.wait(r);
    CHECK(r.f == errc::cancelled);
    s.b.until([&] { return childless() && dead(s.dir.lines("other").at(0)); });
    // That is no failure: the next request runs the plugin again.
    s.dir.script(answers_at_once);
    CHECK_FALSE(s.get());
    CHECK(s.dir.runs() == 2);
}

TEST_CASE("exec plugin: a request that keeps timing out before the run ends gets the credential in the end") {
    exec_scene s(answers_later);
    s.b.config.time_limit = 5s; // requests of a leader election are bounded like this
    s.b.api.emplace(s.b.rt, s.b.config);
    s.prepare();
    for (int i = 0; i < 3; ++i) {
        auto& r = s.start();
        s.b.until([&] { return s.dir.runs() == 1; });
        s.b.io.restart();
        while (s.b.io.poll_one() != 0) { // the request begins to wait
        }
        s.b.clock->advance(5s);
        s.wait(r);
        CHECK(r.f == errc::deadline_exceeded);
        s.b.clock->advance(2s);
    }
    s.dir.go();
    s.b.until(childless);
    CHECK_FALSE(s.get());
    CHECK(s.dir.runs() == 1);
}

TEST_CASE("a child process is killed if its waiter has timed out and no other one comes") {
    asio::io_context io(1);
    testing::manual_clock clock;
    const plugin_folder dir;
    kubernetes::detail::program what;
    what.path = dir.script("sleep 1000 & echo $! > $D/other; wait");
    what.arguments = {what.path};
    what.environment = {"PATH=/usr/bin:/bin"};
    what.time_limit = 1h;
    what.patience = 50ms;
    int error = 0;
    std::string doing;
    const auto run = kubernetes::detail::child_process::start(io.get_executor(), what, error, doing);
    REQUIRE(run);
    asio::cancellation_signal cancel;
    const auto settle = [&] {
        while (io.poll_one() != 0) {
        }
    };
    bool left = false;
    const auto begin = [&] {
        left = false;
        asio::co_spawn(io, kubernetes::detail::child_process::wait(run, &clock, clock.now() + 5s),
                       asio::bind_cancellation_slot(cancel.slot(), [&](std::exception_ptr, bool) { left = true; }));
        settle();
        CHECK_FALSE(left);
    };
    const auto give_up = [&] {
        clock.advance(5s);
        while (!left) io.run_one();
    };
    while (dir.lines("other").empty()) io.run_one_for(10ms);
    SECTION("not before there was a waiter") {
        io.run_for(100ms);
        CHECK_FALSE(run->ended());
        begin();
        give_up();
    }
    SECTION("not while another one waits, but at once when that one is cancelled") {
        begin();
        give_up();
        begin();
        io.run_for(100ms);
        CHECK_FALSE(run->ended());
        cancel.emit(asio::cancellation_type::terminal);
        while (!left) io.run_one();
        CHECK(run->ended());
    }
    SECTION("not after keep(), whichever waiter leaves") {
        begin();
        give_up();
        run->keep();
        begin();
        cancel.emit(asio::cancellation_type::terminal);
        while (!left) io.run_one();
        io.run_for(100ms);
        CHECK_FALSE(run->ended());
        run->abandon();
    }
    io.run(); // until it is reaped
    CHECK(run->how() == kubernetes::detail::child_process::ending::abandoned);
    CHECK(childless());
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (!dead(dir.lines("other").at(0)) && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    CHECK(dead(dir.lines("other").at(0))); // the whole process group is killed
}

TEST_CASE("exec plugin: a list gives up a long run before the informer gives up the list; the next one joins it") {
    exec_scene s(answers_later);
    s.b.answers->next.emplace_back(
        200, R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[]})");
    failure f;
    bool done = false;
    const auto list = [&] {
        done = false;
        asio::co_spawn(s.b.io, s.b.api->list(pods(), "default", list_options(), f),
                       [&](std::exception_ptr, const kubernetes::object_list&) { done = true; });
        s.b.until([&] { return s.dir.runs() == 1; });
        s.b.io.restart();
        while (s.b.io.poll_one() != 0) {
        }
    };
    list();
    CHECK_FALSE(done);
    s.b.clock->advance(reflector::no_progress - 1s);
    s.b.until([&] { return done; });
    CHECK(f == errc::deadline_exceeded);
    s.b.clock->advance(1s);
    list();
    s.dir.go();
    s.b.until([&] { return done; });
    CHECK_FALSE(f);
    CHECK(s.dir.runs() == 1);
    CHECK(s.who() == "Bearer t1");
}

TEST_CASE("exec plugin: a cancelled request leaves the run to the requests that still wait for it") {
    exec_scene s(answers_later);
    s.prepare();
    auto& first = s.start();
    s.b.until([&] { return s.dir.runs() == 1; });
    auto& second = s.start();
    s.b.io.restart();
    while (s.b.io.poll_one() != 0) {
    } // the second waits, too
    first.cancel.emit(asio::cancellation_type::terminal);
    s.wait(first);
    CHECK(first.f == errc::cancelled);
    CHECK_FALSE(second.done);
    s.dir.go();
    s.wait(second);
    CHECK_FALSE(second.f);
    CHECK(s.dir.runs() == 1);
}

TEST_CASE("exec plugin: the time limit of a verb bounds the wait for it") {
    exec_scene s(answers_later);
    s.b.config.time_limit = 5s;
    s.b.api.emplace(s.b.rt, s.b.config);
    auto& r = s.start();
    s.b.until([&] { return s.dir.runs() == 1; });
    CHECK_FALSE(r.done);
    s.b.clock->advance(5s);
    s.wait(r);
    CHECK(r.f == errc::deadline_exceeded);
    CHECK(has(r.f.what(), "still runs: the time limit passed"));
    CHECK_FALSE(childless()); // the next request may use its answer
    s.b.api.reset();
    s.b.until(childless);
}

TEST_CASE("exec plugin: a client that is destroyed during a run leaves nothing") {
    exec_scene s("read x < $D/go");
    auto& r = s.start();
    s.b.until([&] { return s.dir.runs() == 1; });
    s.b.api.reset();
    r.cancel.emit(asio::cancellation_type::terminal);
    s.wait(r);
    s.b.until(childless);
}

TEST_CASE("exec plugin: a run that nobody waits for ends with the client") {
    exec_scene s(at_once_then_later);
    s.dir.answer_token("t1", "2024-01-01T01:00:00Z");
    CHECK_FALSE(s.get());
    s.b.clock->advance(59min);
    CHECK_FALSE(s.get());
    s.b.until([&] { return s.dir.runs() == 2; });
    CHECK_FALSE(childless());
    s.b.api.reset();
    s.b.until(childless);
}

TEST_CASE("exec plugin: a run that nobody waits for has its time limit") {
    exec_scene s(at_once_then_later, limit(1s));
    s.dir.answer_token("t1", "2024-01-01T01:00:00Z");
    CHECK_FALSE(s.get());
    s.b.clock->advance(59min);
    CHECK_FALSE(s.get());
    s.b.until(
        [&] { return s.b.log.contains("did not end within 1 s and was killed; the old credential stays in use"); });
    s.b.until(childless);
    CHECK_FALSE(s.get());
    CHECK(s.who() == "Bearer t1");
}

TEST_CASE("exec plugin: an io_context that is destroyed during a run kills the plugin") {
    const plugin_folder dir;
    client_config c;
    c.server = "http://127.0.0.1:1";
    c.credentials.exec.command = dir.script("sleep 1000 & echo $! > $D/other; wait");
    std::size_t before = 0;
    {
        failure f;
        std::optional<kubernetes::client> kept; // may outlive its context
        before = descriptors();
        {
            asio::io_context io(1);
            kept.emplace(runtime(io.get_executor()), c);
            asio::co_spawn(io, kept->get(pods(), object_key("default", "a"), f),
                           [](std::exception_ptr, const object&) {});
            while (dir.lines("other").size() != 1) io.run_one_for(10ms);
            CHECK_FALSE(childless());
        }
        CHECK(childless());
    }
    CHECK(descriptors() == before);
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (!dead(dir.lines("other").at(0)) && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    CHECK(dead(dir.lines("other").at(0)));
}

TEST_CASE("exec plugin: an io_context that is destroyed during a run leaves no zombie, even if signals come") {
    const plugin_folder dir;
    client_config c;
    c.server = "http://127.0.0.1:1";
    c.credentials.exec.command = dir.script("echo x >> $D/begun; exec sleep 1000");
    const informer::testing::signal_storm signals;
    for (std::size_t i = 1; i <= 20; ++i) {
        failure f;
        std::optional<kubernetes::client> kept;
        asio::io_context io(1);
        kept.emplace(runtime(io.get_executor()), c);
        asio::co_spawn(io, kept->get(pods(), object_key("default", "a"), f), [](std::exception_ptr, const object&) {});
        while (dir.lines("begun").size() != i) io.run_one_for(10ms);
    }
    CHECK(childless());
}

TEST_CASE("exec plugin: a program that ignores SIGCHLD gets the credential all the same") {
    const auto before = std::signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i < 20; ++i) { // the plugin may be gone before it is watched, or later
        exec_scene s;
        CHECK(s.get().what() == "success");
        exec_scene bad("exit 1");
        CHECK(has(bad.get().what(), "wrote nothing to stdout"));
    }
    std::signal(SIGCHLD, before);
}

TEST_CASE("exec plugin: children that others have started are not reaped") {
    exec_scene s;
    const pid_t other = ::fork();
    if (other == 0) ::_exit(7);
    REQUIRE(other > 0);
    siginfo_t about{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(other), &about, WEXITED | WNOWAIT) == 0); // it has ended
    CHECK_FALSE(s.get());
    int how = 0;
    CHECK(::waitpid(other, &how, 0) == other);
    CHECK(WEXITSTATUS(how) == 7);
}

TEST_CASE("exec plugin: runs leave no descriptor, however they end") {
    exec_scene s("case $(wc -l < $D/runs) in *1) cat $D/answer;; *2) exit 1;; *3) exec cat /dev/zero;; *4) exec sleep "
                 "1000;; *) kill $$;; esac",
                 limit(1s));
    s.prepare(401);
    CHECK(s.get(401));
    const std::size_t before = descriptors();
    for (int i = 0; i < 8; ++i) {
        s.b.clock->advance(10s);
        CHECK(s.get(401));
        s.b.until(childless);
    }
    CHECK(s.dir.runs() == 9);
    CHECK(descriptors() == before);
}

TEST_CASE("exec plugin: a strand on several threads is as good as one thread") {
    const plugin_folder dir;
    dir.answer_token("t1");
    asio::io_context io;
    client_config c;
    c.server = "http://127.0.0.1:1"; // nobody is there
    c.credentials.exec.command = dir.script("echo hello >&2; cat $D/answer");
    const auto strand = asio::make_strand(io);
    constexpr int most = 8;
    std::vector<failure> ends(most);
    {
        kubernetes::client api(runtime(strand), c);
        for (auto& f : ends)
            asio::co_spawn(strand, api.get(pods(), object_key("default", "a"), f),
                           [](std::exception_ptr, const object&) {});
    }
    std::thread other([&io] { io.run_for(20s); });
    io.run_for(20s);
    other.join();
    for (const auto& f : ends) CHECK(f == errc::connection_refused);
    CHECK(dir.runs() == 1);
    CHECK(childless());
}
