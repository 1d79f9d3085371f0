"""One informer's changes to 1 … 1,000 listeners, beside client-go's shared informer, in one run."""
import json
import subprocess

from driver import peers, programs, sections
from driver.text import number, table

summary = "one informer's changes to 1 to 1,000 listeners beside client-go's shared informer: CPU an event and listener, bytes"
goal = 5  # times less than client-go, by CPU and by bytes


def arguments(parser):
    del parser


def lines_of(command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def run(options):
    del options
    ours, = programs.build("fanout")
    theirs = {}
    try:
        for line in lines_of([peers.go_program("micro"), "--only", "fanout"]):
            theirs[int(line["name"].removeprefix("fanout/"))] = line
    except programs.Unavailable as why:
        programs.log("note: %s: libinformer alone" % why)
    rows, missed = [], 0
    for line in lines_of([ours]):
        listeners = line["listeners"]
        peer = theirs.get(listeners)
        if peer: # by the listeners alone, as ours: without what the informer costs that has none
            peer = dict(peer, cpu_ns_per_op=peer["cpu_ns_per_op"] - theirs[0]["cpu_ns_per_op"] / listeners)
        cpu, size = line["ns_per_event_and_listener"], line["bytes_per_idle_listener"]
        row = [line["by"], line["events_a_slice"], "{:,}".format(listeners), number(cpu), number(size)]
        if peer:
            # What the listeners add is a difference: of a few, it may be lost in what the rest of the run varies by.
            ratios = [peer["cpu_ns_per_op"] / cpu if cpu > 0 and peer["cpu_ns_per_op"] > 0 else None, peer["bytes_per_item"] / size if size else None]
            met = all(r is None or r >= goal for r in ratios)
            # Handlers are what client-go has; the rest is told beside.
            counts = line["by"] == "handlers" and line["events_a_slice"] > 1
            missed += counts and not met
            row += [number(peer["cpu_ns_per_op"]), number(peer["bytes_per_item"]), *("%.1f" % r if r else "–" for r in ratios),
                    "met" if met else "MISSED" if counts else "missed"]
        rows.append(row + [""] * (10 - len(row)))
    report = "\n".join([
        "## Fan-out", "",
        sections.written_by("fanout", peers.go_versions() if theirs else None), "",
        "CPU nanoseconds for one event at one listener, without what an informer costs that has no listener (measured in turn, of",
        "both), and bytes an idle listener costs. A slice is what the executor handles at once; with one event in it every",
        "listener is woken for each event. Goal: a %dth of client-go's." % goal, "",
        table(["listeners by", "events a slice", "listeners", "CPU ns", "bytes", "Go CPU ns", "Go bytes", "ratio (CPU)", "ratio (bytes)", "goal"], rows)])
    print(report)
    sections.keep("fanout", report, theirs)
    return 1 if missed else 0
