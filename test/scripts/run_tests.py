#!/usr/bin/env python3
"""Runs the test programs of a build tree and sums their test cases.

    run_tests.py [--check NAME=COMMAND]... [--only KIND]... [--timeout S] BUILD [FILTER [CATCH2-SPEC...]]
    run_tests.py --targets BUILD FILTER       what must be built before that

FILTER is the name of a program or check (test_cache, or short: cache); anything else is a Catch2 test specification for all
programs. A check is a command whose last line of output is "N passed, N failed". Progress goes to stderr, as do the logs of
what failed and the number of cases that were skipped, which are no failures; the last line of stdout is the total, "N passed,
N failed". Whatever ends without saying how many cases it ran (a crash, a time-out) counts as one failed case: nothing is passed
over in silence.
"""
import argparse
import atexit
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml


ends = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
all_skipped = 4  # Catch2's exit status
plain = ("example", "program")  # their exit status is their one case; all others are Catch2's


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command, log, timeout, environment):
    """The exit status, or None after a time-out. A process group of its own, so that nothing of it outlives us."""
    mask = lambda how: signal.pthread_sigmask(how, ends)
    with open(log, "wb") as out:
        mask(signal.SIG_BLOCK)  # a signal comes when we know whom to kill
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, start_new_session=True,
                preexec_fn=lambda: mask(signal.SIG_UNBLOCK)
            )
        except OSError as error:  # it was not built, or not for this machine
            mask(signal.SIG_UNBLOCK)
            out.write(f"{error}\n".encode())
            return 127
        try:
            mask(signal.SIG_UNBLOCK)
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:  # also when we are interrupted
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def catch2_cases(report):
    """(passed, failed, skipped) of a Catch2 XML report; None if there is no complete one."""
    try:
        cases = xml.parse(report).getroot().find("OverallResultsCases")
    except (OSError, xml.ParseError):
        return None
    if cases is None:
        return None
    number = lambda name: int(cases.get(name, "0"))
    # expectedFailures are cases tagged [!shouldfail] or [!mayfail]: they did what they say.
    return number("successes") + number("expectedFailures"), number("failures"), number("skips")


def check_cases(log):
    with open(log, errors="replace") as file:
        lines = file.read().strip().splitlines()
    found = re.fullmatch(r"(\d+) passed, (\d+) failed", lines[-1]) if lines else None
    return (int(found[1]), int(found[2]), 0) if found else None


def tail(path, lines):
    try:
        with open(path, errors="replace") as file:
            for line in file.read().splitlines()[-lines:]:
                say("    | " + line)
    except OSError:
        pass


class Cluster:
    """A simulated cluster (bin/devserver) for the examples and the package test: they use whatever KUBECONFIG names."""

    def __init__(self, build):
        self.program = os.path.join(build, "bin", "devserver")
        self.process = self.folder = self.kubeconfig = None

    def environment(self):
        if self.process is None and os.access(self.program, os.X_OK):
            self.folder = tempfile.TemporaryDirectory()
            self.kubeconfig = os.path.join(self.folder.name, "kubeconfig")
            command = [self.program, "--port", "0", "--kubeconfig", self.kubeconfig, "--simulate"]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
            if select.select([self.process.stdout], [], [], 30)[0]:
                self.process.stdout.readline()  # it says its address when it is ready
            else:
                say("    devserver does not answer: no cluster for the examples")
        # Never the cluster that happens to be configured: examples write.
        return dict(os.environ, KUBECONFIG=self.kubeconfig or "/nonexistent")

    def stop(self):
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGINT)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            self.folder.cleanup()


class Job:
    def __init__(self, kind, name, command):
        self.kind, self.name, self.command = kind, name, command

    def matches(self, text):
        return text in (self.name, re.sub("^(test|example)_", "", self.name), self.kind)


def read_jobs(path):
    with open(path) as file:
        return [Job(*line.rstrip("\n").split(" ", 2)) for line in file if line.strip()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="append", default=[])
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--targets", action="store_true")
    parser.add_argument("build")
    parser.add_argument("filter", nargs="*")
    options = parser.parse_args()

    logs = os.path.join(options.build, "test", "logs")
    os.makedirs(logs, exist_ok=True)
    programs = os.path.join(options.build, "test", "programs.txt")
    if options.targets:
        if os.path.exists(programs):
            print("".join(job.name + "\n" for job in read_jobs(programs) if job.matches(options.filter[0])), end="")
        return 0
    jobs = [Job("check", name, shlex.split(command)) for name, command in (c.split("=", 1) for c in options.check)]
    jobs += read_jobs(programs)
    if options.only:
        jobs = [job for job in jobs if job.kind in options.only]
    spec = options.filter
    if spec and any(job.matches(spec[0]) for job in jobs):
        jobs = [job for job in jobs if job.matches(spec[0])]
        spec = spec[1:]
    elif spec:
        jobs = [job for job in jobs if job.kind not in ("check", *plain)]

    # Nobody's real cluster: a test that wants one is given it by another variable.
    os.environ.pop("KUBECONFIG", None)
    cluster = Cluster(options.build)
    for number in ends - {signal.SIGINT}:  # so that what follows happens then too
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup wants it
            signal.signal(number, lambda n, _: sys.exit(128 + n))
    atexit.register(cluster.stop)

    total = [0, 0, 0]
    failed = []
    for index, job in enumerate(jobs, 1):
        log, report = os.path.join(logs, job.name + ".log"), os.path.join(logs, job.name + ".xml")
        if os.path.exists(report):
            os.remove(report)
        if job.kind == "check":
            command = job.command
        elif job.kind in plain:
            command = [job.command]
        else:
            command = [job.command, "-r", "console", "-r", "xml::out=" + report, "--allow-running-no-tests", *spec]
        say(f"[{index}/{len(jobs)}] {job.name}")
        start = time.monotonic()
        needs_cluster = job.kind == "example" or job.name == "package"
        status = run(command, log, options.timeout, cluster.environment() if needs_cluster else os.environ)
        if job.kind == "check":
            cases = check_cases(log)
        elif job.kind in plain:
            cases = (1, 0, 0) if status == 0 else None
        else:
            cases = catch2_cases(report)
        trouble = None
        if status is None:
            trouble = f"no end after {options.timeout:.0f} s (killed)"
        elif status < 0:
            trouble = f"killed by {signal.Signals(-status).name}"
        elif cases is None:
            trouble = f"exit status {status}" + ("" if job.kind in plain else ", no summary of its cases")
        elif status == all_skipped and cases[:2] == (0, 0) and cases[2]:
            pass  # what they need is not on this machine
        elif status != 0 and cases[1] == 0:
            trouble = f"exit status {status}, though no case failed"
        passed, bad, skipped = cases or (0, 0, 0)
        if trouble and not bad:  # a crash that Catch2 could still report is counted already
            bad = 1
        total = [total[0] + passed, total[1] + bad, total[2] + skipped]
        took = time.monotonic() - start
        say(f"    {passed} passed, {bad} failed" + (f", {skipped} skipped" if skipped else "") + f" ({took:.1f} s)")
        with open(log, errors="replace") as file:
            for line in file:
                if line.startswith("notice: "):
                    say("    " + line.rstrip())
        if bad:
            failed.append(job.name)
            if trouble:
                say("    " + trouble)
            tail(log, 80)
            say(f"    whole log: {log}")
    if failed:
        say("failed: " + " ".join(failed))
    if total[2]:
        say(f"{total[2]} skipped")
    if sum(total) == 0:
        say("no test ran" + (f": nothing matches {' '.join(options.filter)}" if options.filter else ""))
    print(f"{total[0]} passed, {total[1]} failed", flush=True)
    return 0 if total[1] == 0 and total[0] + total[2] > 0 else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
