"""What is measured of libinformer alone (larger caches, other ways of the first sync, other corpora), and other kinds, beside two peers."""
import contextlib
import time
import urllib.request
import zlib

from driver import peers, programs
from driver.corpora import Corpus
from driver.measure import Plan
from driver.processes import Server, answers
from driver.text import Sample

curve = [100000, 200000]
kinds = [("configmaps", 400), ("secrets", 5000), ("events", 20000), ("crs", 5000), ("leases", 5000)]
turns_of_ways = 24
ways = ["watchlist", "paged", "list", "metadata", "tls", "gzip"]
paced_ways = ["watchlist", "tls"]  # the watch that follows is the same by all others, or as large as that of the metadata peers
shapes = {"3 replicas per Deployment": {"replicas": 3}, "shuffled": {"shuffle": True},
          "a structure for each Deployment": {"structures": 1 << 20}, "the same, 3 replicas": {"structures": 1 << 20, "replicas": 3},
          "the same, 20 replicas, shuffled": {"structures": 1 << 20, "shuffle": True},
          "no managedFields": {"managed_fields": 0}, "60 % managedFields": {"managed_fields": 60}}


class Extras:
    """Keys of the results, and figures that are not an informer's."""

    def __init__(self):
        self.curve, self.ways, self.shapes, self.kinds = [], [], [], []
        self.tls_floor, self.gzip_floor = Sample([]), Sample([])  # CPU seconds per 100,000 pods beside plain HTTP, by turn


def measure_all(results, extras, main, options, found, render):
    """`found`: the peers; `render`: the program that adds protobuf to a corpus, if there is one."""
    quick, runs = options.quick, 1 if options.quick else options.runs
    _ways(results, extras, main, options)
    if quick or options.scale:
        return
    only_sync = Plan(rounds=0, paced=0, relist=False)
    for count in curve:
        title = "%s pods, libinformer" % format(count, ",")
        if results.no_time_for(title):
            continue
        with results.surviving(title):
            small, corpus = Corpus("pods", main), Corpus("pods", count, events=False)
            with Server(small) as beside, Server(corpus) as server:
                for n in range(runs):
                    title = "%s pods, run %d of %d, libinformer" % (format(count, ","), n + 1, runs)
                    results.measure("beside " + title, peers.ours(), small, beside, only_sync, ("beside", count))
                    results.measure(title, peers.ours(), corpus, server, only_sync)
            corpus.remove()
        extras.curve.append(count)
    for name, how in shapes.items():
        key = ("shape", name)
        if results.no_time_for(name):
            continue
        with results.surviving(name):
            corpus = Corpus("pods", main, **how)
            extras.shapes.append((key, corpus.item_bytes))
            with Server(corpus) as server:
                for n in range(runs):
                    title = "%s, run %d of %d" % (name, n + 1, runs)
                    results.measure(title, peers.ours(), corpus, server, Plan(rounds=1, paced=0, relist=False), key)
            corpus.remove()
    for kind, count in kinds:
        key = ("kind", kind)
        if results.no_time_for(kind):
            continue
        with results.surviving(kind):
            corpus = Corpus(kind, count)
            extras.kinds.append((key, corpus.item_bytes, corpus.event_bytes))
            # Leases: each of them renewed every second.
            rate = count if kind == "leases" else 0
            plan = Plan(rounds=2, round_size=count, paced=5 * count if rate else 0, rate=rate or 500)
            with Server(corpus) as server:
                for n in range(runs):
                    results.measure("%s %s, run %d of %d" % (format(count, ","), kind, n + 1, runs), peers.ours(), corpus, server, plan, key)
            plan.relist = False
            _beside(results, corpus, plan, list(peers.beside(found, kind)), render)
            corpus.remove()


def _beside(results, corpus, plan, others, render):
    """A run of others on the same texts."""
    if any(p.protobuf for p in others):
        corpus.render(render)
    with Server(corpus) as server:
        for p in others:
            title = "%s %s, %s" % (format(corpus.count, ","), corpus.kind, p.name)
            results.measure(title, p, corpus, server, plan, ("kind", corpus.kind, p.family))


def _ways(results, extras, main, options):
    """The ways are compared with each other, at 15 %, each with the others of its turn, so they take many turns. Only the first are
    followed by updates."""
    if results.no_time_for("ways to the first sync"):
        return
    turns = 1 if options.quick else turns_of_ways
    tls_floor, gzip_floor = [], []
    with results.surviving("ways to the first sync"), contextlib.ExitStack() as stack:
        corpus = Corpus("pods", main)
        servers = {name: stack.enter_context(Server(corpus, **how)) for name, how in (("tls", {"tls": True}), ("gzip", {"gzip": True}), ("", {}))}
        body = _gzipped_list(servers["gzip"], corpus)
        for n in range(turns):
            if n > 0 and results.no_time_for("turn %d of the ways to the first sync" % (n + 1)):
                break
            for way in ways:
                updates = n < options.runs
                plan = Plan(rounds=1 if updates else 0, round_size=main, paced=1000 if updates and way in paced_ways else 0, relist=False)
                how = ["--gzip"] if way == "gzip" else []
                mode = {"tls": "watchlist", "gzip": "list"}.get(way, way)
                server = servers.get(way, servers[""])
                title = "%s pods, turn %d of %d, libinformer by %s" % (format(main, ","), n + 1, turns, way)
                results.measure(title, peers.ours(mode, options=how), corpus, server, plan, ("way", way))
            tls_floor.append((_read_all(servers["tls"], corpus) - _read_all(servers[""], corpus)) / corpus.count * 1e5)
            gzip_floor.append(_inflate(body) / corpus.count * 1e5)
    extras.tls_floor, extras.gzip_floor = Sample(tls_floor), Sample(gzip_floor)
    extras.ways = [("way", way) for way in ways]


def _read_all(server, corpus):
    """CPU seconds to read the whole list and throw it away: OpenSSL and the kernel."""
    path = "/api/%s/%s" % (corpus.meta["version"], corpus.meta["resource"])
    port, ca = server.url.rsplit(":", 1)[1], [server.ca] if server.ca else []
    (answer,), _ = answers([programs.folder / "bench_wire_floor", port, path, corpus.meta["item_bytes"]] + ca)
    return answer["seconds"]


def _gzipped_list(server, corpus):
    url = "%s/api/%s/%s" % (server.url, corpus.meta["version"], corpus.meta["resource"])
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # whatever proxy the environment names
    with direct.open(request) as answer:
        body = answer.read()
    programs.log("gzip: %.1f MB for %.1f MB" % (len(body) / 1e6, corpus.meta["item_bytes"] / 1e6))
    return body


def _inflate(body):
    """CPU seconds that zlib takes, in pieces as they come from a socket."""
    start, inflater, at = time.process_time(), zlib.decompressobj(31), 0
    while at < len(body):
        inflater.decompress(body[at:at + 16384])
        at += 16384
    return time.process_time() - start
