"""What a server could send that an informer does not see every day: huge, tiny, and hostile."""
import json
import pathlib
import statistics
import subprocess

from driver import programs, sections
from driver.text import number, table

summary = "a 300 MB list, an object of 50 MB, a million tiny ones, hostile keys: cost per byte and memory beside what the pool says"
most_times, most_off, tiny_most, step_most = 4, 0.10, 200, 5


def arguments(parser):
    parser.add_argument("--runs", type=int, default=3, help="runs; the median counts (3)")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE", help="where the figures go (docs/benchmarks.md)")


def run(options):
    program, = programs.build("edges")
    runs, broken = {}, 0
    for turn in range(max(options.runs, 1)):
        programs.log("run %d of %d" % (turn + 1, max(options.runs, 1)))
        done = subprocess.run([program], stdout=subprocess.PIPE, text=True)
        broken += done.returncode != 0
        for line in map(json.loads, done.stdout.splitlines()):
            runs.setdefault(line["name"], []).append(line)

    def median(name, what):
        return statistics.median(r[what] for r in runs[name])

    measure, parsed, rows, missed = median("pods", "cpu_ns_per_byte"), median("pods_parsed", "cpu_ns_per_byte"), [], []
    for name, lines in runs.items():
        first = lines[0]
        cost, resident, accounted = (median(name, w) for w in ("cpu_ns_per_byte", "resident", "accounted"))
        off, step = accounted / resident - 1 if resident else 0, median(name, "longest_ms")
        wrong = ["cost"] if cost > most_times * measure else []
        if abs(off) > most_off and abs(accounted - resident) > 1e6: # below a megabyte it is the allocator's own
            wrong.append("memory")
        if step > step_most:
            wrong.append("step")
        if name == "tiny" and accounted / first["items"] > tiny_most:
            wrong.append("bytes an object")
        missed += ["%s: %s" % (name, w) for w in wrong]
        rows.append([first["about"], number(first["bytes"] / 1e6), number(cost), "%.1f" % (cost / measure), "%.1f" % (cost / parsed), "%.1f" % (cost / median(name, "sax_ns_per_byte")),
                     number(cost * first["bytes"] / first["items"] / 1000), number(accounted / first["items"]), number(resident / 1e6), "%+.0f %%" % (100 * off),
                     "%.1f" % (median(name, "peak") / resident if resident else 0), "%.1f" % step, "MISSED: " + ", ".join(wrong) if wrong else "met"])
    report = "\n".join([
        "## Edges", "",
        sections.written_by("edges"), "",
        "Lists of what an informer does not see every day, through framer, pool and cache, the way of a first list; CPU time of the thread, the median of %d runs, each" % max(options.runs, 1),
        "case in a process of its own. The normal case is pods read as an informer reads them: a third, `managedFields`, is skipped, and nearly all the",
        "rest is told from the text before (`× pods`; where every pod goes through the parser it costs as much as `× parsed` is measured by; an empty",
        "handler under the parser is `× SAX`). Goals: cost per byte at most %d times that of pods, the pool's own figures within %d %% of the resident set, at most %d bytes for a tiny object," % (most_times, 100 * most_off, tiny_most),
        "no step of the executor over %d ms." % step_most, "",
        table(["", "MB", "ns/byte", "× pods", "× parsed", "× SAX", "us/object", "bytes/object", "resident MB", "accounted", "peak ÷ steady", "longest ms", "goals"], rows)])
    print(report)
    sections.keep("edges", report, options.runs >= 3, options.report)
    for m in missed:
        programs.log("missed: " + m)
    if broken:
        programs.log("error: a case did not come through whole")
    return 1 if missed or broken else 0
