"""Processes, measured from outside: CPU time, resident set and its peak, as the kernel counts them."""
import atexit
import collections
import json
import os
import queue
import socket
import subprocess
import threading
import time
import weakref

from driver import programs


class Failed(Exception):
    """A program of the benchmark did not do what it should."""


class Meter:
    """What the kernel knows about a process."""

    def __init__(self, pid):
        self.pid = pid

    def cpu(self):
        """Seconds of CPU of all its threads, those that ended included."""
        return time.clock_gettime((~self.pid << 3) | 2)  # the clock id of clock_getcpuclockid(3)

    def resident(self):
        """Bytes; exact (the counters in /proc/PID/status may lag)."""
        with open("/proc/%d/smaps_rollup" % self.pid) as file:
            for line in file:
                if line.startswith("Rss:"):
                    return int(line.split()[1]) * 1024
        return 0

    def peak(self):
        with open("/proc/%d/status" % self.pid) as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
        return 0

    def reset_peak(self):
        with open("/proc/%d/clear_refs" % self.pid, "w") as file:
            file.write("5")

    def settle(self, quiet=0.3, at_most=8.0):
        """Waits until it does next to nothing (collections in the background come to their end); returns its CPU time."""
        deadline = time.monotonic() + at_most
        before = self.cpu()
        while time.monotonic() < deadline:
            time.sleep(quiet)
            now = self.cpu()
            if now - before < 0.02 * quiet:
                return now
            before = now
        programs.log("note: process %d was not quiet after %g s: its CPU time is that of until now" % (self.pid, at_most))
        return before


def answers(command, name=lambda line: line["name"], any_status=False):
    """The JSON lines of a program that needs no words from us, and its status. What takes long tells how far it is: by `name`."""
    found, told = [], time.monotonic()
    with subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, text=True) as process:
        for text in process.stdout:
            found.append(json.loads(text))
            if time.monotonic() - told > 2:
                told = time.monotonic()
                programs.log("    %s: done" % name(found[-1]))
    if process.returncode != 0 and not any_status:
        raise Failed("%s ended with status %d" % (os.path.basename(str(command[0])), process.returncode))
    return found, process.returncode


_started = weakref.WeakSet()


@atexit.register
def _kill_what_is_left():
    """However we end: what is in a session of its own hears of no signal from the terminal."""
    for process in list(_started):
        if process.poll() is None:
            process.kill()


class Program:
    """A process that prints JSON lines and takes commands on stdin."""

    def __init__(self, command, environment=None):
        self.name = os.path.basename(str(command[0]))
        self.errors = collections.deque(maxlen=20)
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})},
                                        start_new_session=True) # Ctrl-C is for us: the running measurement ends by itself
        _started.add(self.process)
        self.meter = Meter(self.process.pid)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            try:
                self.lines.put((time.monotonic(), json.loads(line)))
            except ValueError:
                self.errors.append(line)
        self.lines.put(None)

    def wait_for(self, wanted, seconds):
        """The first answer that `wanted` (a function of it) likes, as (time, answer); others are dropped."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                got = self.lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise Failed("%s: no answer within %d s%s" % (self.name, seconds, self._last_words())) from None
            if got is None:
                raise Failed("%s ended with status %s%s" % (self.name, self.process.wait(), self._last_words()))
            if wanted(got[1]):
                return got

    def wait_at(self, at, seconds):
        return self.wait_for(lambda answer: answer.get("at") == at, seconds)

    def _last_words(self):
        time.sleep(0.2)
        return ": " + " ".join(self.errors).strip()[-600:] if self.errors else ""

    def say(self, word):
        try:
            self.process.stdin.write(word + "\n")
            self.process.stdin.flush()
        except OSError:
            raise Failed("%s has ended%s" % (self.name, self._last_words())) from None

    def ask(self, word, at, seconds=60):
        self.say(word)
        return self.wait_at(at, seconds)[1]

    def stop(self):
        """Asks it to quit; by force when it does not."""
        try:
            self.say("quit")
            self.process.stdin.close()
            self.process.wait(10)
        except (Failed, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


class Server:
    """The canned server on one corpus. A context manager."""

    def __init__(self, corpus, tls=False, gzip=False):
        command = [programs.folder / "bench_canned_server", corpus.folder]
        if tls:
            command.append("--tls")
        if gzip:
            command.append("--gzip")
        self.program = Program(command)
        _, hello = self.program.wait_for(lambda answer: "port" in answer, 300)
        self.ca = hello.get("ca")
        self.protobuf = hello["protobuf"]
        self.meter = self.program.meter
        self.url = "%s://127.0.0.1:%d" % ("https" if tls else "http", hello["port"])
        self.connection = socket.create_connection(("127.0.0.1", hello["control"]))
        self.stream = self.connection.makefile("rw")

    def tell(self, command, seconds=60):
        self.connection.settimeout(seconds)
        try:
            self.stream.write(command + "\n")
            self.stream.flush()
            answer = json.loads(self.stream.readline() or "{}")
        except (OSError, ValueError) as error:
            raise Failed("the server does not answer '%s' (%s)" % (command, error)) from None
        if "done" not in answer:
            raise Failed("the server to '%s': %s" % (command, answer.get("error", "has ended")))
        return answer

    def wait_until(self, true_of_stats, seconds, what):
        deadline = time.monotonic() + seconds
        while True:
            stats = self.tell("stats")
            if true_of_stats(stats):
                return stats
            if time.monotonic() > deadline:
                raise Failed("within %d s there was no %s" % (seconds, what))
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.tell("quit", 5)
            self.program.process.wait(10)
        except (Failed, subprocess.TimeoutExpired):
            self.program.process.kill()
            self.program.process.wait()
        self.connection.close()
