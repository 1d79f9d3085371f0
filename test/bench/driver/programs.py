"""Where things are, and how they are built."""
import os
import pathlib
import subprocess
import sys

repository = pathlib.Path(__file__).resolve().parents[3]
folder = repository / "build" / "bench"  # programs of ours; peers' below it
cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path(os.environ.get("HOME", "/tmp")) / ".cache") / "libinformer"


class Unavailable(Exception):
    """Something cannot be measured here; the message says why."""


def log(*words):
    print(*words, file=sys.stderr, flush=True)


def build(*names):
    """Builds the benchmark programs test/bench/NAME.cpp, optimised; returns their paths."""
    targets = ["bench_" + name for name in names]
    subprocess.run(["./dev", "build", *targets], cwd=repository, check=True, stdout=sys.stderr)
    return [folder / target for target in targets]
