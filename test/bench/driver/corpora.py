"""The bytes that are served: written once for each set of options, and kept in build/bench/corpus for the next run (the large ones are
removed)."""
import json
import shutil
import subprocess

from driver import programs
from driver.processes import Failed


class Corpus:
    def __init__(self, kind="pods", count=20000, replicas=20, shuffle=False, managed_fields=None, events=True):
        parts = [kind, str(count), "r%d" % replicas]
        options = ["--kind", kind, "--count", str(count), "--replicas", str(replicas)]
        if shuffle:
            parts.append("shuffled")
            options.append("--shuffle")
        if managed_fields is not None:
            parts.append("m%d" % managed_fields)
            options += ["--managed-fields", str(managed_fields)]
        if not events:
            parts.append("noevents")
            options.append("--no-events")
        self.kind, self.count = kind, count
        self.folder = programs.folder / "corpus" / "-".join(parts)
        self._write(programs.folder / "bench_corpus", ["--out", self.folder, *options])

    @classmethod
    def of_edge(cls, name):
        """A list that bench_edges makes."""
        self = cls.__new__(cls)
        self.folder = programs.folder / "corpus" / ("edge-" + name)
        self._write(programs.folder / "bench_edges", ["--corpus", name, self.folder])
        self.kind, self.count = name, self.meta["count"]
        return self

    def _write(self, program, options):
        meta = self.folder / "meta.json"  # that is written last
        if not meta.exists() or meta.stat().st_mtime < program.stat().st_mtime:
            self.remove()
            self.folder.mkdir(parents=True)
            self._run([program, *options])
        self.meta = json.loads(meta.read_text())
        self.item_bytes = self.meta["item_bytes"] / self.meta["count"]
        self.event_bytes = self.meta["event_bytes"] / self.meta["count"]

    def render(self, program):
        """Adds protobuf, by the Go program that knows how kube-apiserver writes it."""
        if not (self.folder / "initial.pb").exists():
            self._run([program, self.folder])

    @staticmethod
    def _run(command):
        if subprocess.run(command).returncode != 0:
            raise Failed("%s failed (above)" % command[0].name)

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
