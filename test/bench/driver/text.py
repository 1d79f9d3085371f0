"""Numbers and tables for people."""
import datetime
import os
import platform
import re
import statistics
import subprocess

from driver import programs


def number(value):
    """Three digits that matter."""
    if value is None:
        return "–"
    magnitude = abs(value)
    if magnitude >= 1000:
        return format(round(value, -1 if magnitude >= 10000 else 0), ",.0f")
    return format(value, ".0f" if magnitude >= 100 else ".1f" if magnitude >= 10 else ".2f")


class Sample:
    """The values of one figure in several runs."""

    def __init__(self, values):
        self.values = [v for v in values if v is not None]

    def __bool__(self):
        return bool(self.values)

    @property
    def median(self):
        return statistics.median(self.values) if self.values else None

    @property
    def least(self):
        return min(self.values, default=None)

    def over(self, other):
        """Each value by that of the same turn: what slows the machine for a while slows both."""
        return Sample([mine / its for mine, its in zip(self.values, other.values) if its])

    def less(self, other):
        """Each value less that of the same turn."""
        return Sample([mine - its for mine, its in zip(self.values, other.values)])

    def show(self, scale=1.0):
        """Median, with half the range in percent where there is one."""
        if not self.values:
            return "–"
        text = number(self.median * scale)
        if len(self.values) > 1 and self.median:
            text += " ±%.0f%%" % (50 * (max(self.values) - min(self.values)) / abs(self.median))
        return text


def table(header, rows):
    """Markdown, aligned so that it can be read as it is."""
    rows = [[str(c) for c in row] for row in [header, *rows]]
    width = [max(len(r[i]) for r in rows) for i in range(len(header))]

    def line(row):
        return "| " + " | ".join(c.ljust(width[i]) if i == 0 else c.rjust(width[i]) for i, c in enumerate(row)) + " |"

    ruler = "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(width)) + "|"
    return "\n".join([line(rows[0]), ruler, *map(line, rows[1:])])


def machine():
    model = "unknown processor"
    try:
        with open("/proc/cpuinfo") as file:
            model = re.search(r"model name\s*: (.*)", file.read()).group(1)
    except (OSError, AttributeError):
        model = platform.machine()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = platform.system() + " " + platform.release()
    return "%s, %d CPUs, %.0f GiB, %s" % (" ".join(model.split()), os.cpu_count(), memory, system)


def _first_line(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=programs.repository, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return ""


def _configured(entry):
    """What the build tree was configured with."""
    try:
        cache = (programs.folder.parent / "CMakeCache.txt").read_text()
        return re.search(r"^%s:\w+=(.+)$" % entry, cache, re.M).group(1)
    except (OSError, AttributeError):
        return ""


def _boost():
    """As BOOST_LIB_VERSION has it, in which a patch level of 0 is not told."""
    try:
        with open(os.path.join(_configured("Boost_DIR"), "BoostConfigVersion.cmake")) as file:
            return re.search(r"PACKAGE_VERSION (\d+\.\d+(?:\.[1-9]\d*)?)", file.read()).group(1)
    except (OSError, AttributeError):
        return ""


def versions():
    """Of what our program is made with; what builds it may be another one than that of the PATH."""
    found = {"libinformer": _first_line("git", "describe", "--always", "--dirty", "--tags"),
             "compiler": _first_line(_configured("CMAKE_CXX_COMPILER") or "c++", "--version"), "Boost": _boost()}
    found["OpenSSL"] = _first_line("openssl", "version").replace("OpenSSL ", "").split(" (")[0].rsplit(" ", 3)[0]
    return {k: v for k, v in found.items() if v}


def today():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
