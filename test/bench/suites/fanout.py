"""One informer's changes to 1 … 1,000 listeners, beside client-go's shared informer, in one run."""
import statistics

from driver import peers, programs, sections
from driver.arguments import count
from driver.processes import answers
from driver.text import number, table

summary = "one informer's changes to 1 to 1,000 listeners beside client-go's shared informer: CPU an event and listener, bytes"
goal = 5  # times less than client-go, by CPU and by bytes
theirs_a_turn = 3  # one run of theirs is short, and woken singly its goroutines take now one way, now another: it varies threefold


def arguments(parser):
    parser.add_argument("--runs", type=count, default=3, help="runs of both programs, in turn; the median counts (3)")


def medians(runs):
    """Of the same lines of several runs, figure by figure. The Go program leaves out what is zero."""
    return [{k: statistics.median(line.get(k, 0) for line in same) if isinstance(v, (int, float)) else v
             for line in same for k, v in line.items()}
            for same in zip(*runs)]


def listeners_alone(lines):
    """Of client-go's: without what the informer costs that has none."""
    by_count = {}
    for line in lines:
        name, listeners = line["name"].split("/")
        by_count[name == "fanout-singly", int(listeners)] = line
    return [dict(line, listeners=n, singly=singly, cpu_ns_per_op=line["cpu_ns_per_op"] - by_count[singly, 0]["cpu_ns_per_op"] / n)
            for (singly, n), line in by_count.items() if n != 0]


def run(options):
    ours, = programs.build("fanout")
    go = None
    try:
        go = peers.go_program("micro")
    except programs.Unavailable as why:
        programs.log("note: %s: libinformer alone" % why)
    our_runs, their_runs = [], []
    for turn in range(options.runs):
        programs.log("run %d of %d" % (turn + 1, options.runs))
        if go:
            their_runs += [listeners_alone(answers([go, "--only", "fanout"])[0]) for _ in range(theirs_a_turn)]
        our_runs.append(answers([ours], lambda line: "%s, %d listeners" % (line["by"], line["listeners"]))[0])
    theirs = {(line["singly"], line["listeners"]): line for line in medians(their_runs)}
    rows, missed = [], []
    for line in medians(our_runs):
        listeners = int(line["listeners"])
        singly = line["events_a_slice"] == 1
        peer, idle = theirs.get((singly, listeners)), theirs.get((False, listeners))  # idle, both are the same
        cpu, size = line["ns_per_event_and_listener"], line["bytes_per_idle_listener"]
        row = [line["by"], "singly" if singly else "%d a slice" % line["events_a_slice"], "{:,}".format(listeners), number(cpu), number(size)]
        if peer:
            # What the listeners add is a difference: of a few, it may be lost in what the rest of the run varies by.
            ratios = [theirs_of / own if own > 0 and theirs_of > 0 else None
                      for theirs_of, own in ((peer["cpu_ns_per_op"], cpu), (idle["bytes_per_item"], size))]
            met = all(r is None or r >= goal for r in ratios)
            missed += [] if met else ["%s, %s, %s listeners" % tuple(row[:3])]
            row += [number(peer["cpu_ns_per_op"]), number(idle["bytes_per_item"]), *("%.1f" % r if r else "–" for r in ratios),
                    "met" if met else "MISSED"]
        rows.append(row + [""] * (10 - len(row)))
    report = "\n".join([
        "## Fan-out", "",
        sections.written_by("fanout", peers.go_versions() if theirs else None), "",
        "CPU nanoseconds for one event at one listener, without what an informer costs that has no listener (of both: ours the median",
        "difference of pairs of short runs, as that of a few listeners is small beside the rest), and bytes an idle listener costs; the",
        "median of %d runs of ours and %d of theirs, in turn. *Singly*: each listener is woken for each event; client-go gets the next one when all" % (options.runs, theirs_a_turn * options.runs),
        "handlers have seen the one before. Else events come back to back: to client-go as fast as it takes them, to ours 64 in a slice",
        "of the executor. Goal: a %dth of client-go's." % goal, "",
        table(["listeners by", "events", "listeners", "CPU ns", "bytes", "Go CPU ns", "Go bytes", "ratio (CPU)", "ratio (bytes)", "goal"], rows)])
    print(report)
    sections.keep("fanout", report, theirs and options.runs >= 3)
    sections.tell_missed(missed)
    return 1 if missed else 0
