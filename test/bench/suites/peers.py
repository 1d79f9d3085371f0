"""libinformer beside client-go, controller-runtime and kube-rs, on the same bytes from the same server."""
import pathlib
import sys
import time

from driver import extras, measure, peers, programs, report
from driver.corpora import Corpus
from driver.measure import Plan
from driver.processes import Failed, Server
from driver.text import number

summary = "libinformer, client-go, controller-runtime and kube-rs on the same pods (what ./dev bench does by default)"
main_scale = 20000


def arguments(parser):
    parser.add_argument("--scale", type=int, metavar="N", help="pods, instead of 2,000, 20,000 and 50,000")
    parser.add_argument("--only", metavar="PEER", help="peers whose name contains this")
    parser.add_argument("--runs", type=int, metavar="K", default=3, help="runs of which the median counts (3)")
    parser.add_argument("--quick", action="store_true", help="2,000 pods, one run, no other kinds: does it all work?")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE",
                        help="where the report goes; docs/benchmarks.md after a whole run, else build/bench/report.md")


class Results:
    """Figures of every (scale, peer), run by run; and what went wrong."""

    def __init__(self):
        self.runs, self.problems, self.started = {}, [], time.monotonic()

    def measure(self, title, peer, corpus, server, plan, key=None):
        begun = time.monotonic()
        try:
            figures = measure.run(peer, corpus, server, plan)
        except Failed as why:
            programs.log("[%4.0f s] %s: FAILED: %s" % (time.monotonic() - self.started, title, why))
            self.problems.append("%s: %s" % (title, why))
            return
        self.runs.setdefault(key or (corpus.count, peer.name), []).append(figures)
        parts = ["sync %s s/100k" % number(figures["sync_cpu"] / corpus.count * 1e5),
                 "%s KB/object" % number(figures["sync_rss"] / corpus.count / 1000)]
        if "event_cpu" in figures:
            parts.append("%s us/event" % number(figures["event_cpu"] * 1e6))
        programs.log("[%4.0f s] %s: %s (%.0f s)" % (time.monotonic() - self.started, title, ", ".join(parts), time.monotonic() - begun))


def plan_of(scale, run, quick):
    """The first run at the main scale does everything; the others say how far figures spread."""
    if quick:
        return Plan(rounds=2, round_size=scale)
    if scale == main_scale and run == 0:
        return Plan(rounds=10, round_size=scale)
    if scale > main_scale:
        return Plan(rounds=1, round_size=20000, paced=0)
    return Plan(rounds=2, round_size=scale, paced=0, relist=False)


def run(options):
    programs.build("corpus", "canned_server", "libinformer")
    found, missing, versions = peers.find_all(options.only)
    for why in missing:
        programs.log("note: " + why)
    if not found:
        programs.log("error: no peer is called like '%s'" % options.only)
        return 2
    render = None
    if any(p.protobuf for p in found):
        try:
            render = peers.go_program("render")
        except programs.Unavailable as why:
            programs.log("note: %s: JSON instead of protobuf" % why)

    scales = [options.scale] if options.scale else [2000] if options.quick else [2000, main_scale, 50000]
    results, whole = Results(), not (options.scale or options.only or options.quick)
    for scale in scales:
        corpus = Corpus("pods", scale)
        if render:
            corpus.render(render)
        runs = 1 if options.quick or (scale > main_scale and not options.scale) else options.runs
        with Server(corpus) as server:
            for n in range(runs):
                for i, peer in enumerate(found):
                    title = "%s pods, run %d of %d, %d of %d, %s" % (format(scale, ","), n + 1, runs, i + 1, len(found), peer.name)
                    results.measure(title, peer, corpus, server, plan_of(scale, n, options.quick or bool(options.scale) and n == 0))
        if scale > main_scale:
            corpus.remove()
    main = main_scale if main_scale in scales else scales[-1]
    more = extras.Extras()
    if not options.only or any(p.family == "libinformer" for p in found):
        more = extras.measure_all(results, main, options)

    text = report.write(results, found, missing, versions, scales, main, more)
    path = options.report or (programs.repository / "docs/benchmarks.md" if whole else programs.folder / "report.md")
    path.write_text(text)
    print(text)
    programs.log("written to %s after %.0f minutes" % (path, (time.monotonic() - results.started) / 60))
    for problem in results.problems:
        print("error: " + problem, file=sys.stderr)
    return 1 if results.problems else 0
