"""Weeks of an informer's life in minutes: what it holds must not grow."""
import json
import subprocess

from driver import programs, sections
from driver.arguments import count, file
from driver.processes import Failed
from driver.text import number, table

summary = "weeks of a cluster in minutes, on a clock turned by hand: what an informer holds after each day or so"
most_growth = 1.06


def arguments(parser):
    parser.add_argument("--pods", type=count, default=3000, help="by day, 50 or more; half as many at night (3,000)")
    parser.add_argument("--changes", type=count, default=4_000_000, help="one a second, of the turned clock, 320 or more (4,000,000)")
    parser.add_argument("--report", type=file, metavar="FILE", help="where the figures go (docs/benchmarks.md)")


def growth(reports, what):
    """The most in the last quarter by the most in the second, when all had its time to come about."""
    quarter = len(reports) // 4
    before, after = (max(r[what] for r in some) for some in (reports[quarter:2 * quarter], reports[-quarter:]))
    return after / before


def run(options):
    program, = programs.build("soak")
    reports, wrong = [], None
    with subprocess.Popen([program, str(options.pods), str(options.changes)], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            report = json.loads(line)
            if "wrong" in report:
                wrong = report["wrong"]
                continue
            reports.append(report)
            programs.log("%s changes, day %.1f: RSS %s MB" % (format(report["changes"], ","), report["hours"] / 24, number(report["rss_kb"] / 1024)))
    if process.returncode not in (0, 1) or wrong is None or len(reports) < 20:
        raise Failed("%s ended with status %d after %d reports" % (program.name, process.returncode, len(reports)))
    figures = [("resident set", growth(reports, "rss_kb")), ("heap", growth(reports, "heap_kb")), ("accounted", growth(reports, "accounted_kb"))]
    grew = [name for name, ratio in figures if ratio > most_growth]
    rows = [[format(r["changes"], ","), "%.1f" % (r["hours"] / 24), format(r["gone"], ","), format(r["watches"], ","), r["relists"],
             *(number(r[k] / 1024) for k in ("rss_kb", "heap_kb", "accounted_kb"))] for r in reports[1::2]]
    report = "\n".join([
        "## Weeks in minutes", "",
        sections.written_by("soak"), "",
        "An informer on a cluster in memory of %s pods by day and half as many at night, with an index by node; a change a second, on a clock" % format(options.pods, ","),
        "that is turned by hand, so that time-outs, collections and compactions come as often as they would. A fifth of the changes end a pod",
        "and begin another that was never there before; a tenth of the pods changes most. Watches end after five to ten minutes; every 50,000",
        "changes the server has forgotten what the next one asks for, and a fiftieth of the pods changed unseen. A handler keeps the last",
        "state of each pod, a listener sleeps for an hour at a time, another comes anew every six hours, a reader keeps each snapshot for ten",
        "minutes: all of that is in the figures. Heap: what is allocated; accounted: what pool and index say. At the end the cache and what the",
        "handler knows are compared with the cluster.", "",
        table(["changes", "days", "pods gone", "watches", "relists", "RSS MB", "heap MB", "accounted MB"], rows), "",
        "The most of the last quarter by the most of the second: %s. Goal: ≤ %.2f%s. Differences at the end: %d."
        % (", ".join("%s %.2f" % f for f in figures), most_growth, "" if not grew else ", **missed** by " + " and ".join(grew), wrong)])
    print(report)
    usual = options.pods == 3000 and options.changes == 4_000_000
    sections.keep("soak", report, usual and not wrong, options.report)
    if grew or wrong:
        programs.log("error: grew: %s; %d differences" % (", ".join(grew) or "nothing", wrong))
    return 1 if grew or wrong else 0
