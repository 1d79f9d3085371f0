#!/usr/bin/env python3
"""What clang says of every source of a build folder made by g++: checks syntax and warnings, and makes nothing.

    clang.py BUILD [JOBS]

The second compiler that the README names. The usual tests know g++ only, and clang refuses what g++ takes.
"""
import concurrent.futures
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

with_an_argument = {"-o", "-MT", "-MF"}
without = {"-c", "-MD", "-Winvalid-pch", "-fpch-preprocess"}


def arguments(entry, program, folder):
    """The command of g++ as one of clang."""
    words = entry["arguments"] if "arguments" in entry else shlex.split(entry["command"])
    # Before the first option stand the compiler and what runs it.
    rest = iter(words[next(i for i, w in enumerate(words) if w.startswith("-") and w != "-E"):])
    made = [program, "-fsyntax-only"]
    for word in rest:
        if word in with_an_argument:
            next(rest)
        elif word == "-include":
            header = next(rest)  # beside it lies what g++ has made of it
            copy = os.path.join(folder, header.replace("/", "_"))
            if not os.path.exists(copy):
                shutil.copy(os.path.join(entry["directory"], header), copy)
            made += [word, copy]
        elif word not in without:
            made.append(word)
    return made


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.split("\n")[2].strip())
    build = sys.argv[1]
    jobs = int(sys.argv[2]) if len(sys.argv) > 2 else os.cpu_count()
    program = shutil.which("clang++-19") or shutil.which("clang++")
    if not program:
        sys.exit("clang is not installed here: apt-get install clang-19")
    with open(os.path.join(build, "compile_commands.json")) as f:
        entries = {e["file"]: e for e in json.load(f) if "cmake_pch" not in e["file"]}
    bad = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        work = {}
        for file, entry in sorted(entries.items()):
            command = arguments(entry, program, folder)
            work[pool.submit(subprocess.run, command, cwd=entry["directory"], capture_output=True, text=True)] = file
        for n, done in enumerate(concurrent.futures.as_completed(work), 1):
            result = done.result()
            if result.returncode != 0 or result.stderr.strip():
                bad += 1
                print("%s\n%s" % (work[done], result.stderr[:4000]), file=sys.stderr)
            if n % 50 == 0 or n == len(work):
                print("%d of %d sources" % (n, len(work)), file=sys.stderr)
    print("clang: %d passed, %d failed" % (len(entries) - bad, bad))
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
