"""Reads of a full cache beside client-go's lister and controller-runtime's reader, and readers beside a writer."""
import json
import pathlib
import statistics
import subprocess

from driver import peers, programs, sections
from driver.arguments import amount, count
from driver.text import number, table

summary = "get, list, index and selector reads beside client-go's and controller-runtime's; readers on 1 to 4 threads beside a writer"

# what it is, our case, client-go's (pointers into its store), controller-runtime's (copies, its default)
rows = [
    ("get by namespace and name", "get_by_parts", "indexer/lister_get", "cache/get"),
    ("get by key", "get", "indexer/get", None),
    ("the same from a snapshot held", "get_of_held_snapshot", "indexer/get", None),
    ("the same, lent by it (`find`)", "find_in_held_snapshot", "indexer/get", None),
    ("the same, 100 keys that the processor's cache holds", "get_same_100", None, None),
    ("a string by JSON pointer", "at_pointer", None, None),
    ("the same of 100 objects", "at_pointer_same_100", None, None),
    ("by index: 100", "by_index_100", "indexer/by_index_100", "cache/list_by_index_100"),
    ("list of a namespace: 500", "namespace_500", "indexer/lister_namespace_500", "cache/list_namespace_500"),
    ("list by labels: 20 of 10,000", "selector_20_of_10000", "indexer/lister_selector_20_of_10000", "cache/list_selector_20_of_10000"),
    ("list: 10,000", "list_10000", "indexer/list_10000", "cache/list_10000"),
    ("visit 10,000", "for_each_10000", None, None),
    ("a snapshot", "snapshot", None, None),
]


def arguments(parser):
    parser.add_argument("--runs", type=count, default=3, help="runs of all programs, in turn; the median counts (3)")
    parser.add_argument("--seconds", type=amount, default=2, help="how long readers and the writer run together, for each number of threads (2)")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE", help="where the figures go (docs/benchmarks.md)")


def lines(command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def run(options):
    ours, = programs.build("reads")
    try:
        theirs = peers.go_program("micro")
    except programs.Unavailable as why:
        theirs = None
        programs.log("note: %s: libinformer alone" % why)
    found, together = {}, {}
    for turn in range(max(options.runs, 1)):
        programs.log("run %d of %d" % (turn + 1, max(options.runs, 1)))
        for line in lines([ours, 5, options.seconds]):
            if line["name"] == "together":
                together.setdefault(line["threads"], []).append(line)
            else:
                found.setdefault(line["name"], []).append(line["cpu_ns_per_op"])
        if theirs:
            for line in lines([theirs, "--only", "indexer,cache", "--rounds", 3]):
                found.setdefault(line["name"], []).append(line["cpu_ns_per_op"])

    def median(name):
        return statistics.median(found[name]) if name in found else None

    reads = []
    for what, our, lister, reader in rows:
        mine, pointer, copy = median(our), median(lister), median(reader)
        reads.append([what, number(mine), number(pointer), number(copy), "%.2f" % (pointer / mine) if pointer else "–",
                      "%.1f" % (copy / mine) if copy else "–"])
    beside, waits, wrong = [], 0, 0
    for threads, runs in sorted(together.items()):
        def middle(what):
            return statistics.median(r[what] for r in runs)
        waits += sum(r["writer_waits"] for r in runs)
        wrong += sum(r["wrong"] for r in runs)
        beside.append([threads, number(middle("events_per_s")), number(middle("writer_ns_per_event")), number(middle("objects_per_cpu_s") / 1e6) if threads else "–",
                       format(sum(r["snapshots"] for r in runs), ","), format(sum(r["published"] for r in runs), ","),
                       format(sum(r["overlapping"] for r in runs), ","), sum(r["writer_waits"] for r in runs)])
    report = "\n".join([
        "## Reads", "",
        sections.written_by("reads", peers.go_versions() if theirs else None), "",
        "A cache of 10,000 pods on 100 nodes in 20 namespaces. CPU nanoseconds an operation, all threads, the median of %d runs. client-go" % max(options.runs, 1),
        "hands out pointers into its store; controller-runtime copies, as it does by default; libinformer reads a snapshot that does not",
        "change meanwhile: `get` hands out a counted handle, `find` and the lists lend what the snapshot holds, which a list keeps alive.",
        "Ratios: theirs by ours, above one we are faster.", "",
        table(["", "libinformer", "client-go", "controller-runtime", "by client-go", "by c.-runtime"], reads), "",
        "Readers walk the whole cache and get 1,000 keys, each from a snapshot of its own, again and again, while a thread writes 20,000",
        "MODIFIED events a second in batches of 100. A read has no loop and no lock, so there is nothing to retry; the writer would have to",
        "wait if 31 threads were stopped amid taking a snapshot. Overlapping: states replaced while a reader was taking them.", "",
        table(["reading threads", "events/s", "writer's ns an event", "million objects read by CPU s", "snapshots taken", "states published",
               "overlapping", "writer's waits"], beside)])
    print(report)
    usual = options.runs == 3 and options.seconds == 2 and theirs and not (waits or wrong)
    sections.keep("reads", report, usual, options.report)
    if waits or wrong:
        programs.log("error: the writer waited %d times; %d reads were wrong" % (waits, wrong))
    return 1 if waits or wrong else 0
