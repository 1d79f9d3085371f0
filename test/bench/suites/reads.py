"""Reads of a full cache beside client-go's lister and controller-runtime's reader, and readers beside a writer."""
import statistics

from driver import peers, programs, sections
from driver.arguments import amount, count, file
from driver.processes import answers
from driver.text import number, table

summary = "get, list, index and selector reads beside client-go's and controller-runtime's; readers on 1 to 4 threads beside a writer"

# what it is, our case, client-go's (pointers into its store), controller-runtime's (copies, its default)
rows = [
    ("get by namespace and name", "get_by_parts", "indexer/lister_get", "cache/get"),
    ("get by key", "get", "indexer/get", None),
    ("the same from a snapshot taken for it", "get_of_new_snapshot", "indexer/get", None),
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
    ("a snapshot, of a cache of 200 objects", "snapshot_of_200", None, None),
    ("the same of 200,000", "snapshot_of_200000", None, None),
]

rounds = 5  # of each case in a run, on both sides: of more rounds the best is better

# who reads beside a writer
readers = {"together": "libinformer", "together/client-go": "client-go", "together/controller-runtime": "controller-runtime"}


def arguments(parser):
    parser.add_argument("--runs", type=count, default=3, help="runs of all programs, in turn; the median counts (3)")
    parser.add_argument("--seconds", type=amount, default=2, help="how long readers and the writer run together, for each number of threads (2)")
    parser.add_argument("--report", type=file, metavar="FILE", help="where the figures go (docs/benchmarks.md)")


def run(options):
    ours, = programs.build("reads")
    try:
        theirs = peers.go_program("micro")
    except programs.Unavailable as why:
        theirs = None
        programs.log("note: %s: libinformer alone" % why)
    found, together = {}, {}  # together: by who reads and the number of threads

    def keep(line):
        if line["name"] in readers:
            together.setdefault((readers[line["name"]], line["threads"]), []).append(line)
        else:
            found.setdefault(line["name"], []).append(line["cpu_ns_per_op"])

    for turn in range(max(options.runs, 1)):
        programs.log("run %d of %d" % (turn + 1, max(options.runs, 1)))
        for line in answers([ours, rounds, options.seconds])[0]:
            keep(line)
        if theirs:
            for line in answers([theirs, "--only", "indexer,cache,together", "--rounds", rounds, "--seconds", options.seconds])[0]:
                keep(line)

    def median(name):
        return statistics.median(found[name]) if name in found else None

    reads = []
    for what, our, lister, reader in rows:
        mine, pointer, copy = median(our), median(lister), median(reader)
        reads.append([what, number(mine), number(pointer), number(copy), "%.2f" % (pointer / mine) if pointer else "–",
                      "%.1f" % (copy / mine) if copy else "–"])
    beside = []
    for (who, threads), runs in sorted(together.items(), key=lambda one: (one[0][1], list(readers.values()).index(one[0][0]))):
        def middle(what):
            return statistics.median(r[what] for r in runs)
        locks = "–" if who == "libinformer" else number(1000 * middle("lock_wait_s_per_s"))
        beside.append([threads, who, number(middle("events_per_s")), number(middle("writer_ns_per_event")), number(middle("batch_p99_us")),
                       number(max(r["batch_max_us"] for r in runs)), number(middle("objects_per_cpu_s") / 1e6) if threads else "–", locks])
    ours_together = [r for (who, _), runs in together.items() if who == "libinformer" for r in runs]
    decoding = statistics.median(r["decode_ns_per_event"] for r in ours_together)

    def total(what):
        return sum(r[what] for r in ours_together)
    waits, wrong = total("writer_waits"), total("wrong")
    report = "\n".join([
        "## Reads", "",
        sections.written_by("reads", peers.go_versions() if theirs else None), "",
        "A cache of 10,000 pods on 100 nodes in 20 namespaces. CPU nanoseconds an operation, all threads, the median of %d runs, of each the" % max(options.runs, 1),
        "best of %d rounds. client-go" % rounds,
        "hands out pointers into its store; controller-runtime copies, as it does by default; libinformer reads a snapshot that does not",
        "change meanwhile: `get` hands out a counted handle, `find` and the lists lend what the snapshot holds, which a list keeps alive.",
        "Ratios: theirs by ours, above one we are faster.", "",
        table(["", "libinformer", "client-go", "controller-runtime", "by client-go", "by c.-runtime"], reads), "",
        "Readers beside a writer of 20,000 MODIFIED events a second in batches of 100, each reader in rounds: it walks the whole cache,",
        "gets 1,000 objects by key one by one, and lists by index (100), a namespace (500) and by labels (20). libinformer's takes a",
        "snapshot for each of these; client-go's reads its indexer by `List`, `GetByKey` and `ByIndex`, and the lister over it;",
        "controller-runtime's reads the cache, with copies. libinformer's writer decodes each event from JSON (%s ns, not in the figures)," % number(decoding),
        "puts a batch and publishes it; the others' call `Update` of their indexer with ready objects. A batch is its wall time, without",
        "decoding: the 99th of a hundred (median of %d runs), and the longest of all; where threads outnumber processors, it holds the" % max(options.runs, 1),
        "time others run. Objects read are by CPU second of all threads but the writer's. On locks: what all goroutines waited for mutexes,",
        "readers too, as Go's runtime samples it. libinformer's read has no loop and no lock; its writer would have to wait if 31 threads were stopped amid",
        "taking a snapshot: of %s states published, readers were taking %s when they were replaced (%s snapshots in all), and it waited" % (
            format(total("published"), ","), format(total("overlapping"), ","), format(total("snapshots"), ",")),
        "%d times." % waits, "",
        table(["reading threads", "", "events/s", "writer's ns an event", "a batch, p99 µs", "longest µs", "million objects read by CPU s",
               "on locks, ms a second"], beside)])
    print(report)
    usual = options.runs == 3 and options.seconds == 2 and theirs and not (waits or wrong)
    sections.keep("reads", report, usual, options.report)
    if waits or wrong:
        programs.log("error: the writer waited %d times; %d reads were wrong" % (waits, wrong))
    return 1 if waits or wrong else 0
