"""The work queue beside client-go's and controller-runtime's, in one run."""
from driver import peers, programs, sections
from driver.arguments import count
from driver.processes import answers
from driver.text import number, table
from suites import fanout

summary = "add, get, done; delays, rate limits, priorities: the work queue beside client-go's and controller-runtime's; then fanout"

# what it is, our case, theirs, how many times less CPU time (the goal; none: only told)
rows = [
    ("add + get + done", "add_get_done", "add_get_done", 2),
    ("the same, a producer and a worker: coroutines, goroutines", "add_get_done_coroutines", "add_get_done_goroutines", 2),
    ("the same, the producer in another thread", "add_get_done_threads", "add_get_done_goroutines", 2),
    ("the same, always co_await get()", "add_get_done_plain_get", "add_get_done_goroutines", None),
    ("the same, every get() has to wait", "add_get_done_one_by_one", None, None),
    ("add of a key that waits already", "duplicate_add", "duplicate_add", None),
    ("add_after to done", "add_after_done", "add_after_done", 3),
    ("add_rate_limited to done", "rate_limited_done", "rate_limited_done", 3),
    ("priority queue: add + get + done", "priority_add_get_done", "priority_add_get_done", 5),
    ("priority queue: 100,000 added, then got and done", "priority_backlog_add_get_done", "priority_backlog_add_get_done", 5),
    ("the same on ten levels", "priority_ten_levels", None, None),
]


def arguments(parser):
    parser.add_argument("--runs", type=count, default=3, help="runs of both programs, in turn; the best counts (3)")
    parser.add_argument("--rounds", type=count, default=5, help="how often a run repeats each case; the best counts (5)")


def by_name(command):
    return {line["name"].removeprefix("queue/"): line for line in answers(command)[0]}


def run(options):
    ours, = programs.build("queue")
    theirs = None
    try:
        theirs = peers.go_program("micro")
    except programs.Unavailable as why:
        programs.log("note: %s: libinformer alone" % why)
    results = {"ours": [], "theirs": []}
    for turn in range(max(options.runs, 1)):
        programs.log("run %d of %d" % (turn + 1, max(options.runs, 1)))
        results["ours"].append(by_name([ours, options.rounds]))
        if theirs:
            results["theirs"].append(by_name([theirs, "--only", "queue", "--rounds", options.rounds]))

    def best(side, name, what):  # a case takes less than a second, and a machine may be slow for longer
        return min((r[name][what] for r in results[side] if name in r), default=None)

    lines, missed = [], []
    for what, our_name, their_name, goal in rows:
        our, their = best("ours", our_name, "cpu_ns_per_op"), best("theirs", their_name, "cpu_ns_per_op")
        ratio = their / our if our and their else None
        met = ""
        if goal and ratio:
            met = ">= %d: %s" % (goal, "met" if ratio >= goal else "MISSED")
            missed += [what] if ratio < goal else []
        sizes = [best("ours", our_name, "bytes_per_item") or None, best("theirs", their_name, "bytes_per_item") or None]
        lines.append([what, number(our), number(best("ours", our_name, "ns_per_op")), number(their),
                      number(best("theirs", their_name, "ns_per_op")), "%.1f" % ratio if ratio else "–", met, *map(number, sizes)])
    report = "\n".join([
        "## Work queue", "",
        sections.written_by("queue", peers.go_versions() if theirs else None), "",
        "Nanoseconds for the whole way of one key, of both programs the best of %d runs in turn; CPU is that of all threads, garbage" % max(options.runs, 1),
        "collection included. Bytes are those held for each of 100,000 waiting keys: ours with its own copy of the key, Go's without the",
        "text, which its caller keeps.", "",
        table(["", "CPU ns", "wall ns", "Go CPU ns", "Go wall ns", "ratio (CPU)", "goal", "bytes", "Go bytes"], lines)])
    print(report)
    print()
    sections.keep("queue", report, theirs and options.runs == 3 and options.rounds == 5)
    sections.tell_missed(missed)
    listeners = fanout.run(options)
    return 1 if missed or listeners else 0
