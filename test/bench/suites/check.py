"""Instructions of the hot paths against the recorded ones: what a change makes dearer is seen before it is merged."""
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
import pathlib

from driver import programs
from driver.arguments import amount
from driver.processes import Failed, answers
from driver.text import number, table, versions

summary = "counts the instructions of load, relist, events, reads and queue; fails when they rise over the recorded ones"
recorded = pathlib.Path(__file__).resolve().parents[1] / "instructions.json"

what = {
    "load": "first list: framer, pool, cache with an index",
    "relist": "the same list again",
    "events": "a MODIFIED event of each pod",
    "load_parsed": "first list, all of it parsed",
    "relist_parsed": "the same list again, parsed",
    "events_parsed": "MODIFIED events, parsed",
    "get": "get by key, read one string",
    "list": "by index; 1/10 a namespace, 1/100 by selector",
    "queue": "add, add again, get, done",
}


def arguments(parser):
    parser.add_argument("--record", action="store_true", help="writes test/bench/instructions.json anew")
    parser.add_argument("--tolerance", type=amount, default=10, metavar="PERCENT", help="how far a part may rise (10)")


def valgrind():
    """Its path, or None; installed if that is possible."""
    if not shutil.which("valgrind"):
        script = programs.repository / "test/scripts/deps.sh"
        subprocess.run([script, "valgrind"], stdout=subprocess.DEVNULL)
    return shutil.which("valgrind")


def toolchain():
    return {k: v for k, v in versions().items() if k != "OpenSSL"}


def count(program, tool):
    """Instructions of each part: callgrind writes its counters to a file whenever `measured` is left."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        command = [tool, "--tool=callgrind", "--toggle-collect=measured", "--dump-after=measured", "--callgrind-out-file=%s" % out, program]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise Failed("%s under valgrind ended with status %d:\n%s" % (program.name, done.returncode, done.stderr[-2000:]))
        parts = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        for i, part in enumerate(parts, 1):
            text = pathlib.Path("%s.%d" % (out, i)).read_text()
            part["instructions"] = int(re.search(r"^totals: (\d+)", text, re.M).group(1))
    missing = what.keys() - {part["part"] for part in parts}
    if missing:
        raise Failed("%s under valgrind did not come to %s" % (program.name, ", ".join(sorted(missing))))
    return {part["part"]: part for part in parts}


def what_is_recorded():
    if not recorded.exists():
        return {"parts": {}}
    try:
        found = json.loads(recorded.read_text())
        if all(part[figure] > 0 for part in found["parts"].values() for figure in ("ratio", "instructions")) and found["machine"] and dict(found["toolchain"]):
            return found
        problem = "a part of no cost"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        problem = repr(error)
    raise Failed("%s is damaged (%s); ./dev bench check --record writes it anew" % (recorded, problem))


def run(options):
    try:
        return judge(options)
    except (Failed, programs.Unavailable, subprocess.CalledProcessError, OSError) as problem:
        programs.log("error: %s" % problem)
        print("0 passed, 1 failed")
        return 1


def judge(options):
    before = {"parts": {}} if options.record else what_is_recorded()
    program, = programs.build("guard")
    programs.log("timing")
    times = {part["part"]: part for part in answers([program, 5], lambda part: part["part"])[0]}
    machine = platform.machine()
    if before.get("machine", machine) != machine: # other instructions, other counts
        programs.log("note: recorded on %s, and this is %s: nothing is judged" % (before["machine"], machine))
        before, judged = {"parts": {}}, False
    else:
        judged = True
    # Other instructions excuse, and so does a machine without valgrind, but for one of a CI: there nobody would see that nothing is
    # guarded. A count that fails where it should come about does not.
    tool, parts, why, uncounted = valgrind(), {}, "valgrind is not here and could not be installed", 0
    if tool:
        programs.log("counting instructions")
        try:
            parts = count(program, tool)
        except (Failed, OSError, AttributeError, ValueError, KeyError) as problem:
            tool, why, uncounted = None, str(problem), int(judged)
    elif os.environ.get("CI") not in (None, "", "0", "false"):
        uncounted = int(judged)
    if not tool and options.record:
        programs.log("error: %s: nothing to record" % why)
        return 1
    here = toolchain()
    same = all(before.get("toolchain", {}).get(made_with) == here.get(made_with) for made_with in ("compiler", "Boost"))
    rows, failed, passed, record, stale = [], [], 0, {}, []
    for name in what:
        time = times[name]["cpu_ns_per_op"]
        row = [what[name], "–", "–", "–", "–", "–", number(time), "%.2f" % (time / times[times[name]["floor"]]["cpu_ns_per_op"]), ""]
        if name in parts:
            part, floor = parts[name], parts[parts[name]["floor"]]
            each = [p["instructions"] / p["operations"] for p in (part, floor)]
            ratio = each[0] / each[1]
            record[name] = {"floor": part["floor"], "ratio": round(ratio, 4), "instructions": round(each[0])}
            row[1], row[3], row[4] = number(each[0]), number(each[1]), "%.3f" % ratio
            old = before["parts"].get(name)
            if old:
                # The ratio tells on every toolchain. On the recorded one the count itself tells, too: a floor that became dearer
                # (a build without -O2 or NDEBUG) hides nothing there.
                changes = [100 * (ratio / old["ratio"] - 1)] + ([100 * (each[0] / old["instructions"] - 1)] if same else [])
                row[5] = "%+.1f %%" % changes[0]
                row[2] = "%+.1f %%" % changes[1] if same else "–"
                rose, fell = max(changes) > options.tolerance, min(changes) < -options.tolerance
                row[8] = "ROSE" if rose else "fell: record it" if fell else "ok"
                if rose:
                    failed.append("%s costs over %g %% more instructions than recorded (with %s)" % (
                        name, options.tolerance, before.get("toolchain", {}).get("compiler", "another compiler")))
                else:
                    passed += 1
                if fell:
                    stale.append(name)
            elif judged and not options.record:
                row[8] = "NOT RECORDED"
                failed.append("%s is not recorded" % name)
        rows.append(row)
    print(table(["per operation", "instructions", "change", "floor", "ratio", "change", "CPU ns", "× floor's", ""], rows))
    print("\nFloors: Boost.JSON's SAX parser with an empty handler on the same texts; find in, and insert into and erase from, the")
    print("standard library's hash tables. The ratio of instructions counts, and with the recorded compiler and Boost they themselves")
    print("do; times are only told.")
    if not tool:
        programs.log("%s: %s: no instructions were counted, nothing is judged" % ("error" if uncounted else "note", why))
    if options.record:
        recorded.write_text(json.dumps({"machine": machine, "toolchain": here, "parts": record}, indent=2) + "\n")
        programs.log("written to %s" % recorded)
        passed = len(record)
    for problem in failed:
        programs.log("error: %s; if that has to be: ./dev bench check --record" % problem)
    if stale and not failed:
        programs.log("note: cheaper than recorded: %s; ./dev bench check --record keeps it so" % ", ".join(stale))
    bad = len(failed) + uncounted
    print("%d passed, %d failed" % (passed, bad))
    return 1 if bad else 0
