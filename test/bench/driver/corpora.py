"""The bytes that are served: written once for each set of options, and kept in build/bench/corpus until the end of a run."""
import json
import shutil
import subprocess

from driver import programs


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
        if not (self.folder / "meta.json").exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            subprocess.run([programs.folder / "bench_corpus", "--out", self.folder, *options], check=True)
        self.meta = json.loads((self.folder / "meta.json").read_text())
        self.item_bytes = self.meta["item_bytes"] / count
        self.event_bytes = self.meta["event_bytes"] / count

    def render(self, program):
        """Adds protobuf, by the Go program that knows how kube-apiserver writes it."""
        if not (self.folder / "initial.pb").exists():
            subprocess.run([program, self.folder], check=True)

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
