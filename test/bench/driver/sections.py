"""docs/benchmarks.md has several authors: a suite's part stands between two marks, and others leave it alone."""
import re

from driver import programs
from driver.text import machine, today, versions


def _marked(name, text):
    return "<!-- begin %s -->\n%s\n<!-- end %s -->" % (name, text.strip(), name)


def _pattern(name=r"[a-z-]+"):
    return re.compile(r"<!-- begin (%s) -->\n.*?<!-- end \1 -->" % name, re.DOTALL)


def put(path, name, text):
    """Writes the part `name` of the file: in its place, or at the end."""
    old = path.read_text(encoding="utf-8") if path.exists() else "# Benchmarks\n"
    new = _pattern(name).sub(lambda _: _marked(name, text), old)
    if not _pattern(name).search(old):
        new = old.rstrip("\n") + "\n\n" + _marked(name, text) + "\n"
    _write(path, new)


def rewrite(path, text):
    """Writes the whole file anew, but keeps the marked parts, at its end."""
    kept = [m.group(0) for m in _pattern().finditer(path.read_text(encoding="utf-8"))] if path.exists() else []
    _write(path, "\n\n".join([text.rstrip("\n"), *kept]) + "\n")


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def written_by(suite, peers=None):
    """The sentence that begins a part: when, where and with what it was measured."""
    made = {**versions(), **(peers or {})}
    return "Written by `./dev bench %s` on %s, on %s. With %s." % (suite, today(), machine(), ", ".join("%s %s" % p for p in made.items()))


def tell_missed(goals):
    for goal in goals:
        programs.log("missed: " + goal)


def keep(name, report, usual, path=None):
    """Writes the part to docs/benchmarks.md, or beside the programs where the run was not the usual one."""
    path = path or (programs.repository / "docs/benchmarks.md" if usual else programs.folder / (name + ".md"))
    put(path, name, report)
    programs.log("written to %s" % path)
