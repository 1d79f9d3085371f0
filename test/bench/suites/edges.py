"""What a server could send that an informer does not see every day: huge, tiny, and hostile."""
import statistics

from driver import measure, peers, programs, sections
from driver.arguments import count, file
from driver.corpora import Corpus
from driver.processes import Failed, Server, answers
from driver.text import Sample, number, table

summary = "a 300 MB list, an object of 50 MB, a million tiny ones, hostile keys: cost per byte and memory beside what the pool says"
normal, parsed = "pods", "pods_parsed"  # the same texts; of these each is read token by token
most_times, most_off, least_off, tiny_most, step_most = 4, 0.10, 1e6, 200, 5


def arguments(parser):
    parser.add_argument("--runs", type=count, default=3, help="runs; the median counts (3), from a server of two more")
    parser.add_argument("--report", type=file, metavar="FILE", help="where the figures go (docs/benchmarks.md)")


def run(options):
    program = programs.build("edges", "corpus", "canned_server", "libinformer")[0]
    runs, broken, times = {}, [], max(options.runs, 1)
    for turn in range(times):
        programs.log("run %d of %d" % (turn + 1, times))
        lines, status = answers([program], any_status=True)
        if status != 0:
            broken.append("a case did not come through whole")
        for line in lines:
            runs.setdefault(line["name"], []).append(line)
    served = _from_server({n: r[0]["about"] for n, r in runs.items()}, times + 2, broken)

    beside = [r[0].get("client_go") for name, r in served.items() if name != parsed]  # {} of one that failed
    missed = []
    report = "\n".join([
        "## Edges", "",
        sections.written_by("edges", {"client-go": peers.go_versions()["client-go"]} if any(beside) else None), "",
        "Lists of what an informer does not see every day. Goals: a byte costs at most %d times as much CPU as a byte of the normal case, memory is what the pool says" % most_times,
        "within %d %% of the resident set, a tiny object takes at most %d bytes, no step of the executor is over %d ms." % (100 * most_off, tiny_most, step_most),
        "Differences in memory of less than %d MB are not judged: they are the allocator's own." % (least_off / 1e6), "",
        "**From a server**: one list in one piece over plain HTTP, from the socket to the cache, its index and a handler; each object with the uid, resource version",
        "and time that an API server gives it. CPU of the whole process, the least of %d runs; the ratios are of pods measured right before, the median." % (times + 2),
        "Of a pod, a third is skipped (`managedFields`) and nearly all the rest is told from the text before: `× pods`, by which the goal is judged. Where every pod is",
        "read token by token it costs as much as `× parsed` is measured by. `client-go`: its dynamic informer, which follows any kind, on the same list, once, right after ours:",
        "its CPU, and its resident set after a forced collection, by ours.", "",
        _server_table(served, missed), "",
        "**In memory**: framer, pool and cache alone, the way of a first list; CPU time of the thread, the median of %d runs, each case in a process of its own." % times,
        "`× pods` and `× parsed` as above; an empty handler under the parser is `× SAX`.", "",
        _memory_table(runs, missed)])
    print(report)
    whole = options.runs >= 3 and all(beside) and not broken
    sections.keep("edges", report, whole, options.report)
    sections.tell_missed(missed)
    for b in broken:
        programs.log("error: " + b)
    return 1 if missed or broken else 0


def _from_server(names, times, broken):
    """{name: figures of each run}; the cases, of which `names` tells what they are, take turns. Right before each of them pods are
    measured anew, by which it is judged: what slows the machine for a while slows both. The first run has client-go's figures too."""
    plan = measure.Plan(rounds=0, paced=0, relist=False, accounted=True)
    found, pods = {}, Corpus(edge=normal)
    corpora = {normal: pods, parsed: pods}
    try:
        theirs = peers.client_go_dynamic()
    except programs.Unavailable as why:
        programs.log(str(why))
        theirs = None

    def figures(peer, corpus, server):
        got = measure.run(peer, corpus, server, plan)
        return {**got, **corpus.meta, "per_byte": got["sync_cpu"] / corpus.meta["item_bytes"]}

    with Server(pods) as beside:
        for turn in range(times):
            programs.log("from a server, run %d of %d" % (turn + 1, times))
            for name, about in names.items():
                programs.log("    " + about)
                try:
                    if name not in corpora:
                        corpora[name] = Corpus(edge=name)
                    peer = peers.ours("list", options=["--parser"] if name == parsed else [])
                    with Server(corpora[name]) as server:
                        before = figures(peers.ours("list"), pods, beside)["per_byte"]
                        got = figures(peer, corpora[name], server)
                        if theirs and turn == 0 and name != parsed:
                            got["client_go"] = _beside(got, theirs, corpora[name], server)
                    found.setdefault(name, []).append({**got, "times": got["per_byte"] / before, "about": about})
                except Failed as why:
                    broken.append("%s from a server: %s" % (name, why))
    for corpus in corpora.values():
        corpus.remove()
    return found


def _beside(ours, theirs, corpus, server):
    """What theirs costs, by ours."""
    try:
        other = measure.run(theirs, corpus, server, measure.Plan(rounds=0, paced=0, relist=False))
        return {what: other[what] / ours[what] for what in ("sync_cpu", "sync_forced")}
    except Failed as why:
        programs.log(str(why))
        return {}


def _server_table(served, missed):
    def of(name, what):
        return Sample([r[what] for r in served.get(name, [])])

    rows = []
    for name, runs in served.items():
        times, times_parsed = of(name, "times").median, of(parsed, "times").median
        resident, accounted = of(name, "sync_forced").median, of(name, "accounted").median
        wrong = ["cost"] if times > most_times else []
        missed += ["%s from a server: %s" % (name, w) for w in wrong]
        theirs = runs[0].get("client_go", {})
        rows.append([runs[0]["about"], number(runs[0]["item_bytes"] / 1e6), number(of(name, "per_byte").least * 1e9), "%.1f" % times,
                     "%.1f" % (times / times_parsed) if times_parsed else "–", number(of(name, "sync_cpu").least / runs[0]["count"] * 1e6),
                     number(resident / 1e6), number(accounted / 1e6), "%.2f" % (of(name, "sync_peak").median / resident),
                     number(theirs.get("sync_cpu")), number(theirs.get("sync_forced")), "MISSED: " + ", ".join(wrong) if wrong else "met"])
    return table(["", "MB", "ns/byte", "× pods", "× parsed", "us/object", "resident MB", "of it by its own count", "peak ÷ steady", "client-go: CPU", "client-go: memory",
                  "cost"], rows)


def _memory_table(runs, missed):
    def median(name, what):
        return statistics.median(r[what] for r in runs[name])

    of_normal, of_parsed, rows = median(normal, "cpu_ns_per_byte"), median(parsed, "cpu_ns_per_byte"), []
    for name, lines in runs.items():
        first = lines[0]
        cost, resident, accounted = (median(name, w) for w in ("cpu_ns_per_byte", "resident", "accounted"))
        off, step = accounted / resident - 1 if resident else 0, median(name, "longest_ms")
        wrong = []
        if abs(off) > most_off and abs(accounted - resident) > least_off:
            wrong.append("memory")
        if step > step_most:
            wrong.append("step")
        if name == "tiny" and accounted / first["items"] > tiny_most:
            wrong.append("bytes an object")
        missed += ["%s: %s" % (name, w) for w in wrong]
        rows.append([first["about"], number(first["bytes"] / 1e6), number(cost), "%.1f" % (cost / of_normal), "%.1f" % (cost / of_parsed),
                     "%.1f" % (cost / median(name, "sax_ns_per_byte")), number(cost * first["bytes"] / first["items"] / 1000),
                     number(accounted / first["items"]), number(resident / 1e6), "%+.0f %%" % (100 * off),
                     "%.1f" % (median(name, "peak") / resident if resident else 0), "%.1f" % step, "MISSED: " + ", ".join(wrong) if wrong else "met"])
    return table(["", "MB", "ns/byte", "× pods", "× parsed", "× SAX", "us/object", "bytes/object", "resident MB", "accounted", "peak ÷ steady", "longest ms",
                  "memory and steps"], rows)
