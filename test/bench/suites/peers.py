"""libinformer beside client-go, controller-runtime and kube-rs, on the same bytes from the same server."""
import contextlib
import signal
import sys
import time

from driver import extras, measure, peers, programs, report, sections
from driver.arguments import amount, count, file
from driver.corpora import Corpus
from driver.measure import Plan
from driver.processes import Failed, Server
from driver.text import number

summary = "libinformer, client-go, controller-runtime and kube-rs on the same pods (what ./dev bench does by default)"
main_scale = 20000


def arguments(parser):
    parser.add_argument("--scale", type=count, metavar="N", help="pods, instead of 2,000, 20,000 and 50,000")
    parser.add_argument("--only", metavar="PEER", help="peers whose name contains this")
    parser.add_argument("--runs", type=count, metavar="K", default=3, help="runs of which the median counts (3)")
    parser.add_argument("--quick", action="store_true", help="2,000 pods, one run, no other kinds: does it all work? Goals are told, and fail nothing")
    parser.add_argument("--minutes", type=amount, default=40, help="after so many (40; about 30 are needed) nothing more is begun, building not counted")
    parser.add_argument("--report", type=file, metavar="FILE",
                        help="where the report goes; docs/benchmarks.md after three runs or more with all peers of which nothing was left out or failed, else "
                             "build/bench/report.md")


class Results:
    """Figures of every (scale, peer), run by run; what went wrong, and what there was no time for."""

    def __init__(self, minutes):
        self.runs, self.problems, self.skipped, self.signal = {}, [], [], 0
        self.started = time.monotonic()
        self.end = self.started + 60 * minutes

    def start(self):
        """Now that everything is built."""
        now = time.monotonic()
        self.end, self.started = self.end - self.started + now, now

        def finish_early(number, _):
            """The first signal lets the running measurement end and the report be written; the second is the usual one."""
            self.end, self.signal = 0, number
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            programs.log("writing the report after this measurement")

        signal.signal(signal.SIGINT, finish_early)
        signal.signal(signal.SIGTERM, finish_early)

    def no_time_for(self, what):
        if time.monotonic() < self.end:
            return False
        self.skipped.append(what)
        return True

    @contextlib.contextmanager
    def surviving(self, what):
        """What fails in it is told, and ends no more than it: what else was measured, and will be, counts."""
        try:
            yield
        except (Failed, OSError) as why: # OSError: a peer that was killed amid a look at it
            programs.log("[%4.0f s] %s: FAILED: %s" % (time.monotonic() - self.started, what, why))
            self.problems.append("%s: %s" % (what, why))

    def measure(self, title, peer, corpus, server, plan, key=None):
        if self.no_time_for(title):
            return
        begun, figures = time.monotonic(), None
        with self.surviving(title):
            figures = measure.run(peer, corpus, server, plan)
        if figures is None:
            return
        self.runs.setdefault(key or (corpus.count, peer.name), []).append(figures)
        parts = ["sync %s s/100k" % number(figures["sync_cpu"] / corpus.count * 1e5),
                 "%s KB/object" % number(figures["sync_rss"] / corpus.count / 1000)]
        if "event_cpu" in figures:
            parts.append("%s us/event" % number(figures["event_cpu"] * 1e6))
        programs.log("[%4.0f s] %s: %s (%.0f s)" % (time.monotonic() - self.started, title, ", ".join(parts), time.monotonic() - begun))


def plan_of(scale, run, quick):
    """The first run at the main scale does everything; the others say how far figures spread. At other scales nothing is paced: what a
    single update costs is mostly how its peer wakes up."""
    if quick:
        return Plan(rounds=2, round_size=scale)
    if scale >= main_scale and run == 0:
        return Plan(rounds=10, round_size=min(scale, 20000)) if scale == main_scale else Plan(rounds=1, paced=0)
    return Plan(rounds=2, round_size=scale, paced=1000 if scale == main_scale else 0, relist=False)


def measure_peers(results, found, scale, runs, quick, render):
    """Peers take turns, so that a noisy minute does not fall on one of them."""
    if results.no_time_for("%s pods, run %d" % (format(scale, ","), runs[0] + 1)):
        return
    with results.surviving("%s pods" % format(scale, ",")):
        corpus = Corpus("pods", scale)
        if render:
            corpus.render(render)
        with Server(corpus) as server:
            for n in runs:
                for i, peer in enumerate(found):
                    title = "%s pods, run %d, %d of %d, %s" % (format(scale, ","), n + 1, i + 1, len(found), peer.name)
                    results.measure(title, peer, corpus, server, plan_of(scale, n, quick))
        if scale > main_scale:
            corpus.remove()


def run(options):
    results = Results(options.minutes)
    programs.build("corpus", "canned_server", "libinformer", "wire_floor")
    found, missing, versions = peers.find_all(options.only)
    if not found: # of those that cannot run here only the ones that were asked for are missing
        programs.log("error: " + ("; ".join(missing) or "no peer is called like '%s'" % options.only))
        return 2
    for why in missing:
        programs.log("note: " + why)
    render = None
    if any(p.protobuf for p in found):
        try:
            render = peers.go_program("render")
        except programs.Unavailable as why:
            found = [p for p in found if not p.protobuf]
            missing.append(str(why))

    results.start()
    scales = [options.scale] if options.scale else [2000] if options.quick else [2000, main_scale, 50000]
    main = main_scale if main_scale in scales else scales[-1]
    runs = range(1 if options.quick else options.runs)
    more = extras.Extras()
    # What the goals need comes first: where time is short, repetitions are what is left out.
    measure_peers(results, found, main, runs[:1], options.quick, render)
    if any(p.family == "libinformer" for p in found):
        extras.measure_all(results, more, main, options, found, render)
    for scale in scales:
        if scale != main:
            measure_peers(results, [p for p in found if p.everywhere], scale, runs if scale < main_scale else runs[:1], options.quick, render)
    for n in runs[1:]:
        measure_peers(results, found, main, [n], options.quick, render)

    whole = options.runs >= 3 and not (options.scale or options.only or options.quick or missing or results.skipped or results.problems)
    missed = []
    text = report.write(results, found, missing, versions, scales, main, more, missed)
    path = options.report or (programs.repository / "docs/benchmarks.md" if whole else programs.folder / "report.md")
    print(text)
    sections.rewrite(path, text)
    short = report.headline(results, found, main)
    if short and whole and not options.report:
        sections.put(programs.repository / "README.md", "headline", short)
    programs.log("written to %s after %.0f minutes" % (path, (time.monotonic() - results.started) / 60))
    sections.tell_missed(missed)
    for problem in results.problems:
        print("error: " + problem, file=sys.stderr)
    failed = results.problems or missed and not options.quick  # which asks whether it works: 2,000 pods, once, judge nothing
    return 1 if failed else 128 + results.signal if results.signal else 0
