"""The report: tables, and the goals with what was measured."""
import os
import time

from driver import peers, text
from driver.text import Sample, number


class Figures:
    """Medians of what was measured under one key."""

    def __init__(self, results, key):
        self.runs = results.runs.get(key, [])

    def __bool__(self):
        return bool(self.runs)

    def of(self, name):
        return Sample([r.get(name) for r in self.runs])

    def per_object(self, name):
        return Sample([r[name] / r["objects"] for r in self.runs if name in r])

    def ratio(self, over, under):
        return Sample([r[over] / r[under] for r in self.runs if over in r and r.get(under)])

    def of_most_updates(self):
        """Only runs with all rounds of updates say how memory fares under them."""
        most = max((r.get("updates", 0) for r in self.runs), default=0)
        some = Figures.__new__(Figures)
        some.runs = [r for r in self.runs if r.get("updates", 0) == most]
        return some

    def sync(self):  # CPU seconds per 100,000
        return Sample([v * 1e5 for v in self.per_object("sync_cpu").values])


def write(results, found, missing, versions, scales, main, more, missed):
    """`missed` gets the goals that were."""
    parts = [_head(results, missing, versions), _checklist(results, found, main, more, missed)]
    sizes = {p.name: peers.binary_size(p.program) for p in found}
    for scale in scales:
        parts.append(_peer_table(results, found, scale, sizes))
    parts += [_curve(results, scales, more), _ways(results, main, more), _shapes(results, main, more), _kinds(results, more), _notes(results, scales)]
    return "\n\n".join(p for p in parts if p) + "\n"


def _head(results, missing, versions):
    made = {**text.versions(), **versions}
    lines = ["# Benchmarks", "",
             "Written by `./dev bench` on %s, after %.0f minutes, on %s." % (
                 text.today(), (_minutes(results)), text.machine()), "",
             "With " + ", ".join("%s %s" % (k, v) for k, v in made.items()) + ".", "",
             "All programs follow the same pods, of 10.6 KB as kube-apiserver writes them (a third of it `managedFields`), 20 to a Deployment,",
             "from the same server on the same machine over plain HTTP on loopback. Each keeps an index of pods by node (kube-rs has no",
             "indexes, and metadata have no node) and calls one handler that counts. All begin with a watch-list. JSON, but for client-go's",
             "typed client where nothing else is said, its metadata client and controller-runtime, which speak protobuf. *Stripped*: typed, and",
             "`managedFields` are dropped before an object is stored, as ours drops them by itself. CPU and memory are what the kernel counts of",
             "the process. Medians, with half the range in percent where there was more than one run."]
    load = os.getloadavg()[2]
    if load > 2 * os.cpu_count():
        lines += ["", "**The machine was busy with other work** (load average %.0f over 15 minutes on %d CPUs): events/s and latencies are those" % (load, os.cpu_count()),
                  "of a machine that has little time for them, CPU times are raised by shared caches; ratios within the run hold."]
    if missing:
        lines += ["", "Not measured here: " + "; ".join(missing) + "."]
    if results.skipped:
        lines += ["", "No time was left for %d of the measurements (`--minutes`): %s." % (len(results.skipped), "; ".join(results.skipped))]
    if results.problems:
        lines += ["", "**What failed:**", ""] + ["- " + p for p in results.problems]
    return "\n".join(lines)


def _minutes(results):
    return (time.monotonic() - results.started) / 60


def _peer_table(results, found, scale, sizes):
    header = ["peer", "first sync, CPU s per 100k", "KB per pod", "forced", "peak ÷ steady", "CPU µs per event", "CPU µs per event, 500/s", "events/s",
              "after updates ÷ before", "peak ÷ steady, updates", "relist, CPU s per 100k", "peak ÷ steady, relist", "p50 µs", "p99 µs", "binary MB"]
    rows = []
    for p in found:
        f = Figures(results, (scale, p.name))
        if not f:
            continue
        kb = 1e-3
        churn = f.of_most_updates()
        rows.append([p.name, f.sync().show(), f.per_object("sync_rss").show(kb), f.per_object("sync_forced").show(kb),
                     f.ratio("sync_peak", "sync_forced").show(), f.of("event_cpu").show(1e6), f.of("paced_cpu").show(1e6), f.of("event_rate").show(),
                     churn.ratio("churn_forced", "sync_forced").show(), churn.ratio("churn_peak", "churn_forced").show(),
                     Sample([v * 1e5 for v in f.per_object("relist_cpu").values]).show(), f.ratio("relist_peak", "relist_steady").show(),
                     f.of("latency_p50").show(1e6), f.of("latency_p99").show(1e6), number(sizes[p.name] / 1e6)])
    if not rows:
        return ""
    rounds = max((r.get("updates", 0) for p in found for r in Figures(results, (scale, p.name)).runs), default=0)
    server = Sample([r["server_cpu"] / r["sync_bytes"] * 1e9 for p in found for r in Figures(results, (scale, p.name)).runs if r.get("sync_bytes")])
    intro = "## %s pods\n\nUp to %s updates. " % (format(scale, ","), format(rounds, ","))
    total = sum(r["server_cpu"] for p in found for r in Figures(results, (scale, p.name)).runs)
    clients = sum(r["sync_cpu"] + r.get("event_cpu", 0) * r.get("updates", 0) for p in found for r in Figures(results, (scale, p.name)).runs)
    intro += "The server itself used %s s of CPU for all of this; its clients about %s s for the first syncs and the updates back to back.\n\n" % (
        number(total), number(clients)) if server else "\n\n"
    return intro + _table_of_measured(header, rows)


def _table_of_measured(header, rows):
    """Without the columns in which nothing was measured."""
    some = [any(row[i] != "–" for row in rows) for i in range(len(header))]
    header, *rows = [[cell for cell, has in zip(row, some) if has] for row in [header, *rows]]
    return text.table(header, rows)


def _curve(results, scales, more):
    rows = []
    for count in [*scales, *more.curve]:
        f = Figures(results, (count, "libinformer"))
        if f:
            rows.append([format(count, ","), f.sync().show(), f.per_object("sync_rss").show(1e-3), f.ratio("sync_peak", "sync_forced").show()])
    if len(rows) < 2:
        return ""
    return "## libinformer by the number of pods\n\n" + text.table(
        ["pods", "first sync, CPU s per 100k", "KB per pod", "peak ÷ steady"], rows)


names = {"watchlist": "watch-list", "paged": "list in pages of 500", "list": "list in one piece", "metadata": "metadata only, watch-list",
         "tls": "watch-list over TLS", "gzip": "list in one piece, gzip'd"}


def _by_watch_list(results, way):
    """CPU of a first sync by that of the watch-list in the same turn."""
    return Figures(results, ("way", way)).sync().over(Figures(results, ("way", "watchlist")).sync()).median


def _ways(results, main, more):
    rows = []
    for key in more.ways:
        f, times = Figures(results, key), _by_watch_list(results, key[1])
        if f:
            rows.append([names[key[1]], f.sync().show(), "%.2f" % times if times else "–",
                         f.per_object("sync_rss").show(1e-3), f.ratio("sync_peak", "sync_forced").show(), f.of("event_cpu").show(1e6), f.of("paced_cpu").show(1e6)])
    if not rows:
        return ""
    s = "## libinformer: ways to the first sync, %s pods\n\n" % format(main, ",")
    s += "Taken in turn. `÷ watch-list` is each by the watch-list of its turn, the median of them: when the machine is busy with other work, it is for both. What TLS and gzip add is taken by turns, too.\n\n"
    s += _table_of_measured(["way", "first sync, CPU s per 100k", "÷ watch-list", "KB per pod", "peak ÷ steady", "CPU µs per event",
                             "CPU µs per event, 500/s"], rows)
    if more.tls_floor:
        s += "\n\nReading the same bytes through OpenSSL and throwing them away costs %s s per 100,000 pods more than from a plain socket; " % number(more.tls_floor.median)
        s += "zlib alone takes %s s to inflate the gzip'd list (and the socket is read less)." % number(more.gzip_floor.median)
    return s


def _shapes(results, main, more):
    rows = []
    for key, item_bytes in more.shapes:
        f = Figures(results, key)
        if f:
            rows.append([key[1], number(item_bytes / 1e3), f.sync().show(), f.per_object("sync_rss").show(1e-3), f.of("event_cpu").show(1e6)])
    if not rows:
        return ""
    return "## libinformer: other pods, %s of them\n\n" % format(main, ",") + text.table(
        ["pods", "KB of JSON each", "first sync, CPU s per 100k", "KB per pod", "CPU µs per event"], rows)


def _kinds(results, more):
    rows = []
    for key, item_bytes, event_bytes in more.kinds:
        f = Figures(results, key)
        if not f:
            continue
        rows.append([key[1], format(int(f.of("objects").median), ","), number(item_bytes / 1e3), number(f.per_object("sync_rss").median / 1e3),
                     number(f.per_object("sync_rss").median / item_bytes), number(f.per_object("sync_cpu").median / item_bytes * 1e9),
                     number(f.of("event_cpu").median / event_bytes * 1e9), f.of("event_cpu").show(1e6),
                     f.ratio("churn_forced", "sync_forced").show()])
    if not rows:
        return ""
    s = "## Other kinds\n\n" + text.table(
        ["kind", "objects", "KB of JSON each", "KB in memory each", "memory ÷ JSON", "sync, ns per byte", "update, ns per byte", "CPU µs per event",
         "after updates ÷ before"], rows)
    s += _kinds_beside_peers(results, more)
    leases = {name: f for name, f in _of_kind(results, ("kind", "leases")).items() if f.of("latency_p50")}
    if "libinformer" in leases:
        s += "\n\n%s leases, each renewed every second. From the wire to the handler, and CPU of an event: " % format(int(leases["libinformer"].of("objects").median), ",")
        s += "; ".join("%s %s µs (p50), %s µs (p99), %s µs" % (name, *(f.of(what).show(1e6) for what in ("latency_p50", "latency_p99", "paced_cpu")))
                       for name, f in leases.items()) + "."
    return s


def _of_kind(results, key):
    """Who was measured on another kind, ours first."""
    found = {"libinformer": Figures(results, key), **{family: Figures(results, (*key, family)) for family in ("client-go", "kube-rs")}}
    return {name: f for name, f in found.items() if f}


def _kinds_beside_peers(results, more):
    header, rows = ["kind"], []
    all_of = {key[1]: (_of_kind(results, key), item_bytes) for key, item_bytes, _ in more.kinds}
    names = list(dict.fromkeys(name for found, _ in all_of.values() for name in found))
    if len(names) < 2:
        return ""
    for what in ("sync, ns per byte", "KB each, forced", "CPU µs per event"):
        header += ["%s: %s" % (what, names[0]), *names[1:]]
    for kind, (found, item_bytes) in all_of.items():
        figures = [lambda f: f.per_object("sync_cpu").median / item_bytes * 1e9, lambda f: f.per_object("sync_forced").median / 1e3,
                   lambda f: f.of("event_cpu").median * 1e6]
        rows.append([kind, *(number(of(found[name])) if name in found else "–" for of in figures for name in names)])
    return ("""

Beside the peers, after one run of each on the same objects: client-go's typed informer with protobuf and kube-rs's typed watcher, of custom resources
the dynamic ones of both, all without `managedFields`. A byte is one of JSON, in whatever form it came.

""" + text.table(header, rows))


def _checklist(results, found, main, more, missed):
    """The goals; what could not be measured says so."""
    f = {p.name: Figures(results, (main, p.name)) for p in found if Figures(results, (main, p.name))}
    ours = f.get("libinformer")
    if not ours:
        return ""
    whole = {p.name: f[p.name] for p in found if p.bar and p.family != "libinformer" and p.name in f}
    rows = []

    def goal(what, target, measured, most):
        met = "not measured" if measured is None else "yes" if measured <= most else "**no**"
        if met == "**no**":
            missed.append(what)
        rows.append([what, target, "–" if measured is None else format(measured, ".3g"), met])

    def over(figure, *names_of_peers):
        values = {n: figure(whole[n]).median for n in names_of_peers if n in whole and figure(whole[n])}
        mine = figure(ours).median
        if not values or mine is None:
            return None
        return mine / min(values.values())

    sync = Figures.sync
    goal("first sync, CPU s per 100,000 pods", "≤ 1.8", sync(ours).median, 1.8)
    goal("first sync ÷ client-go's default (protobuf)", "≤ 1/5", over(sync, "client-go typed protobuf"), 1 / 5)
    goal("first sync ÷ kube-rs's best", "≤ 1/4", over(sync, "kube-rs typed", "kube-rs stripped", "kube-rs dynamic"), 1 / 4)
    goal("first sync ÷ client-go JSON by watch-list", "≤ 1/20", over(sync, "client-go typed JSON"), 1 / 20)
    goal("CPU per event ÷ best peer with whole objects", "≤ 1/5", over(lambda x: x.of("event_cpu"), *whole), 1 / 5)
    goal("CPU per event at 500/s ÷ best peer with whole objects", "≤ 1/2", over(lambda x: x.of("paced_cpu"), *whole), 1 / 2)
    goal("RSS per pod ÷ best peer with whole objects, forced", "≤ 1/10", over(lambda x: x.per_object("sync_forced"), *whole), 1 / 10)
    churn = ours.of_most_updates()
    enough = churn.runs[0].get("updates", 0) >= 10 * main
    goal("RSS after 10 rounds of updates ÷ before", "≤ 1.06", churn.ratio("churn_forced", "sync_forced").median if enough else None, 1.06)
    goal("start-up peak ÷ steady", "≤ 1.15", ours.ratio("sync_peak", "sync_forced").median, 1.15)
    way = {key[1]: Figures(results, key) for key in more.ways if Figures(results, key)}
    three = [r for r in (_by_watch_list(results, w) for w in ("watchlist", "paged", "list")) if r]
    goal("watch-list, paged and one-piece list, dearest ÷ cheapest", "≤ 1.15", max(three) / min(three) if len(three) == 3 else None, 1.15)
    both = "metadata" in way and "watchlist" in way
    goal("metadata only ÷ full: first sync", "≤ 1/2", _by_watch_list(results, "metadata"), 1 / 2)
    goal("metadata only ÷ full: RSS per pod", "≤ 1/2",
         way["metadata"].per_object("sync_rss").median / way["watchlist"].per_object("sync_rss").median if both else None, 1 / 2)

    def extra(which, base, floor):
        """Each turn's difference: the cheapest of many runs is often one that had a quieter machine than all others."""
        if which not in way or base not in way or not floor or floor.median <= 0:
            return None
        return sync(way[which]).less(sync(way[base])).median / floor.median

    goal("what TLS adds ÷ OpenSSL's own cost for these bytes", "≤ 1.25", extra("tls", "watchlist", more.tls_floor), 1.25)
    goal("what gzip adds ÷ zlib's own cost for these bytes", "≤ 1.25", extra("gzip", "list", more.gzip_floor), 1.25)
    relist = ours.ratio("relist_peak", "relist_steady").median
    goal("relist peak ÷ steady", "≤ 1.1", relist, 1.1)
    # That it does not grow; what a process costs but once shows at 2,000 pods and is told by the curve.
    most = max(more.curve, default=None)
    goal("CPU per pod of the first sync, at the largest scale ÷ here", "≤ 1.25",
         sync(Figures(results, (most, "libinformer"))).over(sync(Figures(results, ("beside", most)))).median, 1.25)
    return "## Goals, at %s pods\n\n" % format(main, ",") + text.table(["goal", "target", "measured", "met"], rows)


def headline(results, found, main):
    """A few figures for the README: ours, client-go as it is by default, and the best that kube-rs has in each row."""
    f = {p.name: Figures(results, (main, p.name)) for p in found if p.bar}
    ours, go = f.get("libinformer"), f.get("client-go typed protobuf")
    rust = [f[p.name] for p in found if p.bar and p.family == "kube-rs" and f[p.name]]
    if not (ours and go and rust):
        return ""

    def row(what, figure, scale=1):
        def of(peer):
            sample = figure(peer)
            return sample.median * scale if sample else None

        best = [v for v in map(of, rust) if v is not None]
        return [what] + [number(v) if v is not None else "–" for v in (of(ours), of(go), min(best) if best else None)]

    rows = [row("first sync, CPU seconds per 100,000", Figures.sync),
            row("memory per pod, KB", lambda x: x.per_object("sync_forced"), 1e-3),
            row("CPU per update, µs", lambda x: x.of("event_cpu"), 1e6),
            row("CPU per update at 500 a second, µs", lambda x: x.of("paced_cpu"), 1e6),
            row("relist, CPU seconds per 100,000", lambda x: Sample([v * 1e5 for v in x.per_object("relist_cpu").values])),
            row("peak ÷ steady memory during a relist", lambda x: x.ratio("relist_peak", "relist_steady")),
            row("memory after up to ten updates of each ÷ before", lambda x: x.of_most_updates().ratio("churn_forced", "sync_forced"))]
    return "%s pods of 10.6 KB on %s, %s; the rest and how it was measured are in [docs/benchmarks.md](docs/benchmarks.md).\n\n" % (
        format(main, ","), text.machine(), text.today().split()[0]) + text.table(
            ["", "libinformer", "client-go (its default, protobuf)", "kube-rs (the best of its ways)"], rows)


def _notes(results, scales):
    return """## How to read this

- *First sync*: from the answer's first byte until the handler has seen all objects; background collections that follow are counted in.
- *KB per pod*: resident set at rest after the sync, less that of the same process connected and waiting, per object. *Forced*: after a
  forced collection and release to the system (Go), `malloc_trim` (C++), a purge of all of jemalloc's arenas (Rust).
- *Peak ÷ steady*: the highest resident set, until the sync, in updates or in a relist, by that after a forced collection. (What an allocator
  does not give back by itself stays at its peak: by the resident set at rest every peer would read 1.00 at the start.)
- *CPU µs per event*: the process's CPU from the first of a round of updates until it is idle again, per update; *events/s*: until the
  handler has seen the last. Each update differs from the version before in its resource version, times and container ids. Of updates back to
  back many are read at once; *500/s*: of 1,000 that come singly, so that the process wakes up for each. They follow a forced collection and
  are too few for another one: what collections cost Go is in the other column only.
- *Relist*: the server answers 410 to the open watch; nothing has changed when the list comes.
- *events/s*, *p50*, *p99* are wall times and mean little on a busy machine.
- *p50, p99*: from the write to the socket until the handler, 500 updates a second, by a stamp in the object.
- *Binary*: without symbols; ours links Boost and OpenSSL dynamically, Go and Rust programs are static.
- After each run the cache's keys and versions are compared with the server's; a peer that differs, or was told of another number of
  events, is a failure and not a figure."""
