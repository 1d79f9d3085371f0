#!/usr/bin/env python3
"""Tests of the scripts around the build. Ends with "N passed, N failed"."""
import argparse
import contextlib
import fnmatch
import glob
import http.server
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import types
import unittest
from unittest import mock

here = os.path.dirname(os.path.abspath(__file__))
repo = os.path.dirname(os.path.dirname(here))
sys.path.insert(0, os.path.join(repo, "test", "bench"))
sys.dont_write_bytecode = True

from check_setup import ApiserverBuild, Ci, Deps, script  # noqa: E402, F401 (its tests are found here)
from driver import corpora, extras, measure, processes, programs, report, text  # noqa: E402
from suites import check, cluster, edges, peers  # noqa: E402


class Ports(unittest.TestCase):
    """instance.sh: ports"""

    def draw(self, wanted, local_range, unprivileged):
        with tempfile.TemporaryDirectory() as settings:
            for name, text in (("ip_local_port_range", local_range), ("ip_unprivileged_port_start", unprivileged)):
                with open(os.path.join(settings, name), "w") as file:
                    file.write(text + "\n")
            script = f'cache=/nonexistent; source "{here}/instance.sh"; ports {wanted}'
            environment = dict(os.environ, INFORMER_IPV4_SETTINGS=settings)
            return subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60)

    def drawn(self, *arguments):
        result = self.draw(20, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        ports = [int(word) for word in result.stdout.split()]
        self.assertEqual(len(set(ports)), 20)
        return ports

    def test_below_the_clients_ports(self):
        for port in self.drawn("32768\t60999", "1024"):
            self.assertTrue(21000 < port < 32768, port)

    def test_clients_that_have_all_ports_leave_some(self):
        for unprivileged in ("0", "80", "1024"):
            for port in self.drawn("1024\t65535", unprivileged):
                self.assertTrue(10000 <= port < 32768, port)

    def test_never_privileged(self):
        for port in self.drawn("2048\t65535", "20000"):
            self.assertTrue(port >= 20000, port)

    def test_gives_up_in_one_line(self):
        result = self.draw(3, "1024\t65535", "65535")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout, "")
        self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertIn("no 3 free ports", result.stderr)


class Etcdctl(unittest.TestCase):
    """apiserver.sh etcdctl, on an etcd and with an etcdctl that are none"""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        cache = pathlib.Path(folder.name) / "libinformer"
        programs, state = cache / "apiserver-none", cache / "run" / "default"
        programs.mkdir(parents=True)
        state.mkdir(parents=True)
        for name in ("kube-apiserver", "kubectl"):
            script(programs / name, "exit 1")
        script(programs / "etcdctl", 'echo "$*"; env | grep ^ETCDCTL_; exit 0')
        etcd = subprocess.Popen([script(programs / "etcd", "read")], stdin=subprocess.PIPE)
        self.addCleanup(etcd.wait)
        self.addCleanup(etcd.stdin.close)  # comes first, and ends it
        (state / "etcd.pid").write_text(f"{etcd.pid}\n")
        (state / "etcd").write_text("http://127.0.0.1:1\n")
        self.environment = dict(os.environ, XDG_CACHE_HOME=folder.name, INFORMER_KUBERNETES_VERSION="none")

    def test_variables_of_another_etcd_are_not_for_this_one(self):
        for others in ({}, {"ETCDCTL_ENDPOINTS": "http://127.0.0.1:2379", "ETCDCTL_USER": "root", "ETCDCTL_API": "2"}):
            result = subprocess.run([os.path.join(here, "apiserver.sh"), "etcdctl", "get", "/a b"], env={**self.environment, **others},
                                    capture_output=True, text=True, timeout=60)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(result.stdout, "--endpoints http://127.0.0.1:1 get /a b\n")


class RunTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = folder.name
        os.mkdir(os.path.join(self.build, "test"))

    def programs(self, *lines):
        with open(os.path.join(self.build, "test", "programs.txt"), "w") as file:
            file.write("".join(line + "\n" for line in lines))

    def run_tests(self, *arguments, **how):
        return subprocess.run([os.path.join(here, "run_tests.py"), *arguments], capture_output=True, text=True, timeout=60, **how)

    def script(self, text):
        return script(os.path.join(self.build, "script"), text)

    def test_a_program_that_is_missing_is_a_failed_case_and_the_others_run(self):
        self.programs("program absent /nonexistent/absent", "program there /bin/true")
        result = self.run_tests(self.build)
        self.assertEqual(result.stdout.splitlines()[-1], "1 passed, 1 failed")
        self.assertEqual(result.returncode, 1)
        self.assertIn("/nonexistent/absent", result.stderr)

    def test_targets_are_what_a_filter_runs(self):
        self.programs("unit test_a /x", "example example_a /x", "unit test_b /x", "apps test_apps /x")
        targets = lambda word: self.run_tests("--targets", self.build, word).stdout.split()
        self.assertEqual(targets("a"), ["test_a", "example_a"])
        self.assertEqual(targets("example_a"), ["example_a"])
        self.assertEqual(targets("unit"), ["test_a", "test_b"])
        self.assertEqual(targets("apps"), ["test_apps"])
        self.assertEqual(targets("[relist]"), [])

    def test_an_unbuilt_tree_has_no_targets(self):
        result = self.run_tests("--targets", self.build, "a")
        self.assertEqual((result.returncode, result.stdout), (0, ""))

    def catch2(self, status, skipped):
        """A program that reports so many skipped cases as Catch2 does."""
        cases = f'<OverallResultsCases successes="0" failures="0" expectedFailures="0" skips="{skipped}"/>'
        return self.script(f"echo '<Catch2TestRun>{cases}</Catch2TestRun>' > \"${{4#xml::out=}}\"; exit {status}")

    def test_a_filter_of_which_all_cases_are_skipped_is_no_failure_and_says_so(self):
        self.programs(f"unit test_a {self.catch2(4, 3)}")
        result = self.run_tests(self.build, "[etcd]")
        self.assertEqual(result.stdout.splitlines()[-1], "0 passed, 0 failed")
        self.assertIn("3 skipped", result.stderr.splitlines())
        self.assertEqual(result.returncode, 0)

    def test_a_filter_that_matches_nothing_fails(self):
        self.programs(f"unit test_a {self.catch2(0, 0)}")
        result = self.run_tests(self.build, "[nothing]")
        self.assertIn("no test ran: nothing matches [nothing]", result.stderr)
        self.assertEqual(result.returncode, 1)

    def test_skipped_cases_excuse_no_other_end(self):
        self.programs(f"unit test_a {self.catch2(3, 3)}")
        result = self.run_tests(self.build, "[etcd]")
        self.assertEqual(result.stdout.splitlines()[-1], "0 passed, 1 failed")
        self.assertEqual(result.returncode, 1)

    def test_a_closed_terminal_leaves_nothing_behind(self):
        pid = os.path.join(self.build, "pid")
        self.programs(f"program slow {self.script(f'echo $$ > {pid}; kill -HUP $PPID; exec sleep 100')}")
        heeding = self.run_tests(self.build, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)) # we may be under nohup
        self.assertEqual(heeding.returncode, 128 + signal.SIGHUP)
        with open(pid) as file, self.assertRaises(ProcessLookupError):
            os.kill(int(file.read()), 0)

    def test_ctrl_c_is_no_error_of_ours(self):
        self.programs(f"program slow {self.script('kill -INT $PPID; exec sleep 100')}")
        result = self.run_tests(self.build, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.assertEqual((result.returncode, result.stdout), (128 + signal.SIGINT, ""))
        self.assertNotIn("Traceback", result.stderr)

    def test_nohup(self):
        self.programs(f"program quick {self.script('kill -HUP $PPID')}")
        result = self.run_tests(self.build, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.assertEqual(result.stdout.splitlines()[-1:], ["1 passed, 0 failed"])


class Dev(unittest.TestCase):
    """./dev, in a place of its own, with a cmake that only tells how it was called."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "a folder"
        (self.folder / "test" / "scripts").mkdir(parents=True)
        for name in ("dev", "CMakePresets.json", "test/scripts/common.sh"):
            shutil.copy(os.path.join(repo, name), self.folder / name)
        script(self.folder / "test/scripts/deps.sh", "")
        script(self.folder / "cmake", 'echo "$*" >>"$(dirname "$0")/called"')

    def dev(self, *words, folder=None):
        environment = dict(os.environ, PATH="%s:%s" % (self.folder, os.environ["PATH"]))
        return subprocess.run([self.folder / "dev", *words], env=environment, cwd=folder, capture_output=True, text=True, timeout=60)

    def configured(self, generator="Ninja", tests="ON", of=None, file="build.ninja"):
        """How ./dev build configures a tree in which this was found."""
        build = self.folder / "build"
        shutil.rmtree(build, ignore_errors=True)
        (self.folder / "called").unlink(missing_ok=True)
        build.mkdir()
        (build / file).touch()
        (build / "CMakeCache.txt").write_text("".join("%s:%s\n" % entry for entry in (
            ("CMAKE_GENERATOR", "INTERNAL=" + generator), ("CMAKE_HOME_DIRECTORY", "INTERNAL=%s" % (of or self.folder)),
            ("INFORMER_TESTS", "BOOL=" + tests), ("INFORMER_APPS", "BOOL=ON"), ("INFORMER_SERVING", "BOOL=ON"))))
        done = self.dev("build")
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line for line in (self.folder / "called").read_text().splitlines() if line.startswith("--preset")]

    def test_a_tree_of_its_own_is_left_as_it_is(self):
        self.assertEqual(self.configured(), [])

    def test_a_tree_of_the_library_alone_gets_the_rest(self):
        self.assertEqual(self.configured(tests="OFF"), ["--preset release"])
        with open(os.path.join(repo, "CMakePresets.json")) as file:
            release = json.load(file)["configurePresets"][0]["cacheVariables"]
        self.assertEqual([release["INFORMER_" + what] for what in ("TESTS", "APPS", "SERVING")], ["ON"] * 3)

    def test_a_tree_with_which_cmake_would_not_go_on_is_made_anew(self):
        anew = ["--preset release --fresh"]
        self.assertEqual(self.configured("Unix Makefiles", file="Makefile"), anew)
        self.assertEqual(self.configured("Ninja Multi-Config"), anew)
        self.assertEqual(self.configured(of="/somewhere/else"), anew)

    def test_the_report_of_a_benchmark_goes_where_its_caller_is(self):
        script(self.folder / "cmake", "")
        bench = self.folder / "test/bench"
        bench.mkdir()
        script(bench / "run", 'cd %s/test/bench; exec python3 -c "from driver.arguments import file; print(file(\'x.md\')); print(file(\'/x.md\'))"' % repo)
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        self.assertEqual(self.dev("bench", folder=elsewhere).stdout, "%s/x.md\n/x.md\n" % elsewhere)

    def test_a_path_with_a_space_does_not_end_the_sanitizers_options(self):
        script(self.folder / "test/scripts/run_tests.py", 'echo "$TSAN_OPTIONS"')
        options = self.dev("test", "--tsan").stdout
        self.assertTrue(options.startswith('suppressions="%s/test/scripts/tsan.supp":' % self.folder), options)


class BenchRun(unittest.TestCase):
    def test_nohup(self):
        loader = importlib.machinery.SourceFileLoader("bench_run", os.path.join(repo, "test", "bench", "run"))
        run = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_run", loader))
        loader.exec_module(run)
        for number in (signal.SIGHUP, signal.SIGTERM):
            self.addCleanup(signal.signal, number, signal.getsignal(number))
            signal.signal(number, signal.SIG_IGN)
        run.heed_signals()
        self.assertEqual(signal.getsignal(signal.SIGHUP), signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        run.heed_signals()
        with self.assertRaises(SystemExit):
            os.kill(os.getpid(), signal.SIGHUP)


class Guard(unittest.TestCase):
    """./dev bench check"""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def script(self, name, text):
        return script(os.path.join(self.folder, name), text)

    def judge(self, tool, machine=None, compiler="ours", damage=None, **environment):
        """(exit status, last line) with a guard that works and this script in place of valgrind (None: there is none). Recorded are
        1000 instructions for each part, ten times those of its floor."""
        names = [*check.what, "floor"]
        parts = "".join('{"part": "%s", "floor": "floor", "operations": 1, "cpu_ns_per_op": 1}\n' % name for name in names)
        guard = self.script("guard", "cat <<'END'\n%sEND\n" % parts)
        tool = tool and str(self.script("valgrind", tool))
        recorded = pathlib.Path(self.folder) / "recorded.json"
        recorded.write_text(json.dumps({"machine": "this", "toolchain": {"libinformer": "an older one", "compiler": "ours", "Boost": "1"},
                                        "parts": {name: {"ratio": 10, "instructions": 1000} for name in check.what}}))
        if damage:
            recorded.write_text(damage(recorded.read_text()))
        out = io.StringIO()
        with mock.patch.object(check.programs, "build", return_value=[guard]), mock.patch.object(check, "valgrind", return_value=tool), \
                mock.patch.object(check.platform, "machine", return_value=machine or "this"), mock.patch.object(check, "recorded", recorded), \
                mock.patch.object(check, "versions", return_value={"libinformer": "this one", "compiler": compiler, "Boost": "1"}), \
                mock.patch.dict(os.environ, {"CI": "", **environment}), \
                contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            status = check.run(types.SimpleNamespace(record=False, tolerance=10))
        return status, out.getvalue().splitlines()[-1]

    def counted(self, instructions, floor, **how):
        """With a valgrind that counted so many for one part and for its floor, and what is recorded for the others."""
        ratios = ["%d" % (instructions if i == 1 else 10 * floor) for i in range(len(check.what))] + ["%d" % floor]
        return self.judge('"${@: -1}"; for a; do case $a in --callgrind-out-file=*) out=${a#*=} ;; esac; done\n'
                          'n=0; for t in %s; do echo "totals: $t" >$out.$((n += 1)); done' % " ".join(ratios), **how)

    def test_a_part_may_rise_by_ten_percent(self):
        everything = len(check.what)
        self.assertEqual(self.counted(1000, 100), (0, "%d passed, 0 failed" % everything))
        self.assertEqual(self.counted(1090, 100), (0, "%d passed, 0 failed" % everything))
        self.assertEqual(self.counted(1110, 100), (1, "%d passed, 1 failed" % (everything - 1)))
        self.assertEqual(self.counted(800, 100), (0, "%d passed, 0 failed" % everything))

    def test_a_dearer_floor_hides_nothing_with_the_recorded_compiler(self):
        everything = len(check.what)
        self.assertEqual(self.counted(1090, 109), (0, "%d passed, 0 failed" % everything))
        self.assertEqual(self.counted(1200, 120), (1, "0 passed, %d failed" % everything))
        self.assertEqual(self.counted(1200, 120, compiler="another"), (0, "%d passed, 0 failed" % everything))
        self.assertEqual(self.counted(1400, 120, compiler="another"), (1, "%d passed, 1 failed" % (everything - 1)))

    def test_a_count_that_fails_is_a_failure(self):
        for tool in ("exit 1", "kill -SEGV $$", "true", "echo '{broken'", '"${@: -1}"'):
            with self.subTest(tool):
                self.assertEqual(self.judge(tool), (1, "0 passed, 1 failed"))

    def test_a_damaged_record_is_a_failure(self):
        for damage in (lambda t: t[:-9], lambda t: t.replace('"ratio": 10', '"ratio": 0'), lambda t: t.replace("ratio", "rate"), lambda t: "[]",
                       lambda t: t.replace('"toolchain"', '"chain"')):
            self.assertEqual(self.counted(1000, 100, damage=damage), (1, "0 passed, 1 failed"))
        self.assertEqual(self.counted(1000, 100, damage=lambda t: t), (0, "%d passed, 0 failed" % len(check.what)))

    def test_without_valgrind_or_on_another_architecture_nothing_is_judged(self):
        self.assertEqual(self.judge(None), (0, "0 passed, 0 failed"))
        self.assertEqual(self.judge("exit 1", "another"), (0, "0 passed, 0 failed"))

    def test_a_ci_must_have_valgrind(self):
        self.assertEqual(self.judge(None, CI="true"), (1, "0 passed, 1 failed"))
        self.assertEqual(self.judge(None, "another", CI="true"), (0, "0 passed, 0 failed"))


class Meters(unittest.TestCase):
    def test_what_does_not_settle_is_told(self):
        meter, spent, said = processes.Meter(os.getpid()), iter(range(1000)), io.StringIO()
        with mock.patch.object(meter, "cpu", lambda: next(spent)), contextlib.redirect_stderr(said):
            meter.settle(quiet=0.001, at_most=0.01)
        self.assertIn("was not quiet after 0.01 s", said.getvalue())


class Extras(unittest.TestCase):
    def test_a_proxy_of_the_environment_is_not_asked(self):
        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"body")

            def log_message(self, *_):
                pass

        with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
            threading.Thread(target=server.handle_request, daemon=True).start()
            served = types.SimpleNamespace(url="http://127.0.0.1:%d" % server.server_port)
            corpus = types.SimpleNamespace(meta={"version": "v1", "resource": "pods", "item_bytes": 1})
            with mock.patch.dict(os.environ, {"http_proxy": "http://127.0.0.1:1", "no_proxy": ""}), contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual(extras._gzipped_list(served, corpus), b"body")


class WhatFails(unittest.TestCase):
    """./dev bench: one program that fails costs its own figures and no others."""

    def setUp(self):
        self.results = peers.Results(1)
        self.enterContext(contextlib.redirect_stderr(io.StringIO()))

    def replace(self, module, **names):
        for name, value in names.items():
            self.enterContext(mock.patch.object(module, name, value))

    def test_a_server_that_does_not_start(self):
        def no_server(*_, **__):
            raise processes.Failed("no server")

        corpus = lambda kind, count=20000, **_: types.SimpleNamespace(kind=kind, count=count, item_bytes=1, event_bytes=1, remove=lambda: None)
        self.replace(peers, Server=no_server, Corpus=corpus)
        self.replace(extras, Server=no_server, Corpus=corpus)
        more = extras.Extras()
        peers.measure_peers(self.results, [], 2000, [0], False, None)
        extras.measure_all(self.results, more, 20000, types.SimpleNamespace(quick=False, scale=None, runs=1), [], None)
        self.assertEqual(len(self.results.problems), 1 + 1 + len(extras.curve) + len(extras.shapes) + len(extras.kinds))
        for problem in self.results.problems:
            self.assertTrue(problem.endswith(": no server"), problem)
        report._ways(self.results, 20000, more), report._kinds(self.results, more), report._curve(self.results, [2000], more)

    def test_a_peer_that_cannot_be_started(self):
        def run(*_):
            raise FileNotFoundError("no such program")

        self.replace(peers.measure, run=run)
        self.results.measure("one", None, None, None, None)
        self.assertEqual(self.results.problems, ["one: no such program"])


class Corpora(unittest.TestCase):
    def test_protobuf_is_rendered_anew_after_a_cut_and_by_another_program(self):
        with tempfile.TemporaryDirectory() as folder:
            corpus = corpora.Corpus.__new__(corpora.Corpus)
            corpus.folder = pathlib.Path(folder) / "corpus"
            corpus.folder.mkdir()

            def rendered(end, name="render"):
                """How often, with a program that ends so when it wrote its first file."""
                program = script(os.path.join(folder, name), 'touch $1/initial.pb; echo >>"%s/times"; %s' % (folder, end))
                with contextlib.suppress(processes.Failed):
                    corpus.render(program)
                return len((pathlib.Path(folder) / "times").read_text())

            self.assertEqual([rendered("exit 1"), rendered("exit 1"), rendered("true"), rendered("true"), rendered("exit 0")], [1, 2, 3, 3, 4])


class Measured(unittest.TestCase):
    """driver/measure.py, with a server and a peer that say what they are to"""

    def run_peer(self, content_type, rates=(), protobuf=True):
        now, seen = [0.0], [0]
        rates = list(rates)

        class Program:
            def __init__(self, _):
                self.meter = types.SimpleNamespace(settle=lambda *_: 0, resident=lambda: 0, peak=lambda: 0, reset_peak=lambda: None, cpu=lambda: 0)

            def wait_at(self, at, _):
                return now[0], {"objects": 1000, "content_type": content_type}

            def wait_for(self, wanted, _):
                return now[0], {"at": "events", "count": seen[0], "adds": 1000}

            def ask(self, *_):
                return {"sha256": "same"}

            def stop(self):
                pass

            def say(self, _):
                pass

        def tell(command, *_):
            if command.startswith("burst"):
                seen[0] += 1000
                now[0] += 1000 / rates.pop(0)
            return {"bytes": 0, "sha256": "same"}

        server = types.SimpleNamespace(tell=tell, meter=types.SimpleNamespace(cpu=lambda: 0), wait_until=lambda *_: None)
        peer = types.SimpleNamespace(name="a peer", protobuf=protobuf, command=lambda *_: [])
        plan = measure.Plan(rounds=len(rates), round_size=1000, paced=0, relist=False)
        with mock.patch.object(measure, "Program", Program), mock.patch.object(measure.time, "monotonic", lambda: now[0]):
            return measure.run(peer, types.SimpleNamespace(count=1000), server, plan)

    def test_a_peer_that_was_to_speak_protobuf_and_did_not(self):
        self.run_peer("application/vnd.kubernetes.protobuf;stream=watch")
        self.run_peer("application/json", protobuf=False)
        with self.assertRaisesRegex(processes.Failed, "a peer was to speak protobuf and was answered in 'application/json'"):
            self.run_peer("application/json")

    def test_of_two_rounds_none_is_their_median(self):
        self.assertAlmostEqual(self.run_peer("", (1000, 3000), protobuf=False)["event_rate"], 2000)
        self.assertAlmostEqual(self.run_peer("", (1000, 4000, 3000), protobuf=False)["event_rate"], 3000)


class Published(unittest.TestCase):
    """docs/benchmarks.md and README.md get the figures of whole runs only."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for number in (signal.SIGINT, signal.SIGTERM):
            self.addCleanup(signal.signal, number, signal.getsignal(number))

    def patched(self, stack, module, **names):
        for name, value in names.items():
            stack.enter_context(mock.patch.object(module, name, value))

    def written(self, suite, options, **names):
        """What the suite, of which these parts are replaced, writes into the repository."""
        with contextlib.ExitStack() as stack:
            self.patched(stack, suite, **names)
            self.patched(stack, programs, repository=self.folder, folder=self.folder / "build", build=lambda *names: [self.folder / n for n in names])
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            for folder in ("docs", "build"):
                (self.folder / folder).mkdir(exist_ok=True)
            self.status = suite.run(types.SimpleNamespace(report=None, **options))
        found = {p.name for p in self.folder.rglob("*.md") if "build" not in p.parts}
        shutil.rmtree(self.folder / "docs", ignore_errors=True)
        (self.folder / "README.md").unlink(missing_ok=True)
        return found

    def peers(self, spoil, runs=3, goals=(), quick=False):
        def write(*others):
            others[-1].extend(goals)
            return "all"

        found = types.SimpleNamespace(find_all=lambda only: ([types.SimpleNamespace(protobuf=False, family="", everywhere=True)], [], {}))
        report = types.SimpleNamespace(write=write, headline=lambda *_: "some")
        options = dict(minutes=40, scale=None, only=None, quick=quick, runs=runs)
        return self.written(peers, options, peers=found, report=report, measure_peers=lambda results, *_: spoil(results))

    def test_of_the_peers(self):
        self.assertEqual(self.peers(lambda results: None), {"benchmarks.md", "README.md"})
        self.assertEqual(self.peers(lambda results: None, runs=1), set())
        self.assertEqual(self.peers(lambda results: results.skipped.append("interrupted")), set())
        self.assertEqual(self.peers(lambda results: results.problems.append("FAILED")), set())

    def test_missed_goals_fail_a_run_that_judges(self):
        for goals, quick, status in (([], False, 0), (["a goal"], False, 1), (["a goal"], True, 0)):
            self.peers(lambda results: None, goals=goals, quick=quick)
            self.assertEqual(self.status, status)

    def test_of_the_cluster(self):
        parser = argparse.ArgumentParser()
        cluster.arguments(parser)
        for words, usual in (([], True), (["--nodes", "50"], True), (["--nodes", "5"], False), (["--rollouts", "2"], False), (["--peer", "dynamic"], False)):
            self.assertEqual(cluster.is_usual(parser.parse_args(words)), usual, words)

    def edges(self, served, broken=()):
        def from_server(names, times, into):
            into.extend(broken)
            return served

        return self.written(edges, dict(runs=3), answers=lambda *_, **__: ([], 0), _from_server=from_server, _server_table=lambda *_: "", _memory_table=lambda *_: "")

    def test_of_the_edges(self):
        both, ours = {"client_go": {"sync_cpu": 2}}, {}
        self.assertEqual(self.edges({"pods": [both, ours], "pods_parsed": [ours]}), {"benchmarks.md"})
        self.assertEqual(self.edges({"pods": [both], "tiny": [{"client_go": {}}]}), set())
        self.assertEqual(self.edges({"pods": [both]}, ["tiny from a server: no answer"]), set())


class Reports(unittest.TestCase):
    def test_the_peak_of_the_start_is_by_what_is_held_and_not_by_itself(self):
        run = dict(objects=1, sync_cpu=1, sync_rss=300, sync_peak=300, sync_forced=200)
        results = types.SimpleNamespace(runs={(scale, "libinformer"): [run] for scale in (1, 2)})
        table = report._curve(results, [1, 2], types.SimpleNamespace(curve=[]))
        self.assertEqual(table.count(" 1.50 |"), 2, table)

    def test_the_peak_of_an_edge_is_by_what_is_held_and_not_by_itself(self):
        run = dict(about="tiny", item_bytes=1, count=1, per_byte=1, times=1, sync_cpu=1, sync_rss=300, sync_peak=300, sync_forced=200, accounted=200)
        self.assertIn(" 1.50 |", edges._server_table({"tiny": [run], edges.parsed: [run]}, []))

    def test_the_compiler_and_boost_are_those_of_the_build(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(programs, "folder", pathlib.Path(folder) / "bench"):
            cache = pathlib.Path(folder) / "CMakeCache.txt"
            compiler = script(os.path.join(folder, "g++"), "echo g++ 99; echo more")
            cache.write_text("CMAKE_CXX_COMPILER:FILEPATH=%s\nBoost_DIR:PATH=%s\n" % (compiler, folder))
            for version, told in (("1.83.0", "1.83"), ("1.92.1", "1.92.1"), ("1.100.10", "1.100.10")):
                cache.with_name("BoostConfigVersion.cmake").write_text("# By Boost\nset(PACKAGE_VERSION %s)\n" % version)
                found = text.versions()
                self.assertEqual((found["compiler"], found["Boost"]), ("g++ 99", told))

    def test_a_goal_that_is_missed_is_told_and_one_that_is_not_measured_is_none(self):
        run = dict(objects=1, sync_cpu=1e-5, sync_rss=300, sync_peak=300, sync_forced=200)
        results, missed = types.SimpleNamespace(runs={(1, "libinformer"): [run]}), []
        found = [types.SimpleNamespace(name="libinformer", family="libinformer", bar=True)]
        table = report._checklist(results, found, 1, extras.Extras(), missed)
        self.assertEqual(missed, ["start-up peak ÷ steady"], table)

    def test_what_tls_adds_is_told_turn_by_turn(self):
        # The cheapest plain run had a quieter machine than its turn's other one; by the least of each it would be 8.
        turns = [(1, 9), (6, 10), (7, 11)]
        run = dict(objects=1, sync_rss=2, sync_peak=2, sync_forced=2)
        runs = {(1, "libinformer"): [{**run, "sync_cpu": 1e-5}]}
        for n, way in enumerate(("watchlist", "tls")):
            runs["way", way] = [{**run, "sync_cpu": turn[n] * 1e-5} for turn in turns]
        found = [types.SimpleNamespace(name="libinformer", family="libinformer", bar=True)]
        more = extras.Extras()
        more.ways, more.tls_floor = list(runs)[1:], text.Sample([1, 4, 40])
        table = report._checklist(types.SimpleNamespace(runs=runs), found, 1, more, [])
        self.assertRegex(table, r"what TLS adds .*\|\s+1 \|\s+yes \|")

    def test_peers_on_another_kind_stand_beside_ours(self):
        run = dict(objects=100, sync_cpu=1e-3, sync_rss=3e5, sync_forced=2e5, churn_forced=2e5, event_cpu=2e-6)
        paced = dict(latency_p50=4e-5, latency_p99=5e-5, paced_cpu=6e-6)
        results = types.SimpleNamespace(runs={("kind", "leases"): [{**run, **paced}], ("kind", "leases", "kube-rs"): [{**run, "sync_forced": 4e6, **paced}]})
        kinds = report._kinds(results, types.SimpleNamespace(kinds=[(("kind", "leases"), 1000, 1000)]))
        self.assertIn("| KB each, forced: libinformer | kube-rs |", kinds)
        self.assertIn("|                         2.00 |    40.0 |", kinds)
        self.assertIn("libinformer 40.0 µs (p50), 50.0 µs (p99), 6.00 µs; kube-rs 40.0 µs", kinds)
        del results.runs[("kind", "leases", "kube-rs")]
        self.assertNotIn("Beside the peers", report._kinds(results, types.SimpleNamespace(kinds=[(("kind", "leases"), 1000, 1000)])))

    def test_a_single_update_has_its_column_where_it_was_measured(self):
        run = dict(objects=1, sync_cpu=1, sync_rss=300, sync_peak=300, sync_forced=200, sync_bytes=1, server_cpu=1, event_cpu=2e-6)
        results = types.SimpleNamespace(runs={(1, "libinformer"): [run], (2, "libinformer"): [{**run, "paced_cpu": 7e-6}]})
        table = lambda scale: report._peer_table(results, [types.SimpleNamespace(name="libinformer")], scale, {"libinformer": 1})
        self.assertNotIn("500/s", table(1))
        self.assertIn("| CPU µs per event | CPU µs per event, 500/s |", table(2))
        self.assertIn("|             2.00 |                    7.00 |", table(2))

    def test_a_peer_that_cannot_run_here_is_not_unknown(self):
        for missing, said in ((["Cargo is not installed here"], "error: Cargo is not installed here\n"), ([], "error: no peer is called like 'kube-rs'\n")):
            err, find_all = io.StringIO(), lambda only: ([], missing, {})
            with mock.patch.object(peers.peers, "find_all", find_all), mock.patch.object(programs, "build"), contextlib.redirect_stderr(err):
                self.assertEqual(peers.run(types.SimpleNamespace(only="kube-rs", minutes=1)), 2)
            self.assertEqual(err.getvalue(), said)

    def test_followers_that_were_told_of_different_events(self):
        follower = lambda name, *events: types.SimpleNamespace(name=name, figures=dict(zip(("adds", "updates", "deletes"), events)))
        ours = follower("libinformer", 5, 20, 5)
        self.assertEqual(cluster.difference([ours, follower("client-go", 5, 20, 5)]), [])
        self.assertEqual(cluster.difference([ours, follower("client-go", 5, 23, 4)]),
                         ["client-go was told of another number of events than libinformer: +3 updates, -1 deletes."])


class Readme(unittest.TestCase):
    def test_the_first_program_is_the_example(self):
        with open(os.path.join(repo, "README.md")) as text, open(os.path.join(repo, "docs/examples/readme.cpp")) as program:
            self.assertIn("```cpp\n" + program.read() + "```", text.read())

    def test_the_soak_is_told_as_it_was_measured(self):
        with open(os.path.join(repo, "README.md")) as told, open(os.path.join(repo, "docs/benchmarks.md")) as measured:
            told, measured = " ".join(told.read().split()), measured.read()
        soak = measured[measured.index("<!-- begin soak -->"):measured.index("<!-- end soak -->")]
        held = [(line.split("|")[2].strip(), line.split("|")[6].strip()) for line in soak.splitlines() if line.startswith("| ")][1:] # day, RSS
        since = next(i for i in range(len(held)) if all(rss == held[-1][1] for _, rss in held[i:]))
        before = "as it has since day %s; until day %s it held %s MB" % (held[since][0], *held[since - 1]) if since else "as it always did"
        self.assertIn("holds %s MB, %s." % (held[-1][1], before), told)


class Image(unittest.TestCase):
    """What `COPY . .` takes along: every source, and nothing of the host's builds."""

    def test_dockerignore(self):
        with open(os.path.join(repo, ".dockerignore")) as file:
            patterns = [line.strip() for line in file if line.strip() and not line.startswith("#")]
        # Patterns stand for paths from the top, and `*` for no slash.
        ignored = lambda path: any("/" not in p and fnmatch.fnmatch(path.split("/")[0], p) for p in patterns)
        for path in ("build/build.ninja", "build-debug/x", "build-subproject/x", ".git/HEAD", ".cache/x"):
            self.assertTrue(ignored(path), path)
        wanted = ["dev", "CMakeLists.txt", "CMakePresets.json"]
        for top in ("libinformer", "apps", "test", "docs"):
            wanted += glob.glob(f"{top}/**/*", root_dir=repo, recursive=True)
        for path in wanted:
            self.assertFalse(ignored(path), path)


if __name__ == "__main__":
    result = unittest.TextTestRunner(stream=sys.stderr).run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
    bad = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - bad} passed, {bad} failed")
    sys.exit(1 if bad or result.testsRun == 0 else 0)
