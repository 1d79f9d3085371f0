"""The bytes that are served: written once for each set of options, and kept in build/bench/corpus for the next run (the large ones are
removed)."""
import hashlib
import json
import shutil
import subprocess

from driver import programs
from driver.processes import Failed


class Corpus:
    def __init__(self, kind="pods", count=20000, replicas=20, structures=1, shuffle=False, managed_fields=None, events=True, edge=None):
        """`edge`: a list of bench_edges instead of all that."""
        parts = [kind, str(count), "r%d" % replicas]
        options = ["--kind", kind, "--count", str(count), "--replicas", str(replicas)]
        if structures != 1:
            parts.append("s%d" % structures)
            options += ["--structures", str(structures)]
        if shuffle:
            parts.append("shuffled")
            options.append("--shuffle")
        if managed_fields is not None:
            parts.append("m%d" % managed_fields)
            options += ["--managed-fields", str(managed_fields)]
        if not events:
            parts.append("noevents")
            options.append("--no-events")
        if edge:
            parts, options = ["edge", edge], ["--edge", edge]
        self.folder = programs.folder / "corpus" / "-".join(parts)
        program, meta = programs.folder / "bench_corpus", self.folder / "meta.json"  # that is written last
        if not meta.exists() or meta.stat().st_mtime < program.stat().st_mtime:
            self.remove()
            self.folder.mkdir(parents=True)
            self._run([program, "--out", self.folder, *options])
        self.meta = json.loads(meta.read_text())
        self.kind, self.count = kind, self.meta["count"]
        self.item_bytes = self.meta["item_bytes"] / self.count
        self.event_bytes = self.meta["event_bytes"] / max(1, self.meta["events"])

    def render(self, program):
        """Adds protobuf, by the Go program that knows how kube-apiserver writes it."""
        # Written when all of its files are. By what the program is and not by its age: Go's build sets that anew each time.
        stamp, version = self.folder / "rendered", hashlib.sha256(program.read_bytes()).hexdigest()
        if not stamp.exists() or stamp.read_text() != version:
            stamp.unlink(missing_ok=True)
            self._run([program, self.folder])
            stamp.write_text(version)

    @staticmethod
    def _run(command):
        if subprocess.run(command, start_new_session=True).returncode != 0:  # Ctrl-C is for us
            raise Failed("%s failed (above)" % command[0].name)

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
