"""In the real world: thousands of pods of a living cluster are rolled out anew while libinformer and client-go follow."""
import base64
import hashlib
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time

from driver import peers, programs, sections, text
from driver.arguments import count, file
from driver.processes import Failed, Program
from driver.text import number

summary = "a roll-out of 5,000 pods on a real cluster (./dev cluster), followed by libinformer and client-go over TLS (needs Go)"
patience = 600  # seconds for a roll-out; the cluster shares the machine
marker_rate = 20
client_go_ways = ("typed-protobuf", "typed-json", "dynamic", "controller-runtime")


def arguments(parser):
    parser.add_argument("--deployments", type=count, default=10, metavar="N", help="Deployments (10)")
    parser.add_argument("--replicas", type=count, default=500, metavar="N", help="replicas of each (500)")
    parser.add_argument("--rollouts", type=count, default=1, metavar="N", help="roll-outs, one after the other (1)")
    parser.add_argument("--nodes", type=count, default=50, metavar="N", help="nodes (50)")
    parser.add_argument("--peer", action="append", choices=client_go_ways, metavar="NAME",
                        help="client-go's way: %s; the first where nothing is said" % ", ".join(client_go_ways))
    parser.add_argument("--report", type=file, metavar="FILE",
                        help="where the figures go; docs/benchmarks.md at the default size, else build/bench/cluster.md")


class Cluster:
    """A cluster of its own, for as long as the context lasts."""

    def __init__(self, nodes):
        self.instance, self.nodes = "bench-%d-%d" % (os.getpid(), time.time()), nodes
        self.folder = tempfile.TemporaryDirectory(prefix="informer-bench-")

    def _dev(self, *words, **how):
        return subprocess.run(["./dev", "cluster", words[0], "--instance", self.instance, *words[1:]], cwd=programs.repository,
                              check=True, text=True, **how)

    def kubectl(self, *words, body=None):
        return self._dev("kubectl", *words, input=body, stdout=subprocess.PIPE).stdout

    def items(self, *words):
        return json.loads(self.kubectl("get", *words, "-o", "json"))["items"]

    def __enter__(self):
        try:
            self.kubeconfig = self._dev("up", "--nodes", str(self.nodes), stdout=subprocess.PIPE).stdout.strip()
            config = json.loads(self.kubectl("config", "view", "--raw", "-o", "json"))
            cluster = config["clusters"][0]["cluster"]
            self.url = cluster["server"]
            self.ca = os.path.join(self.folder.name, "ca.crt")
            with open(self.ca, "wb") as file:
                file.write(base64.b64decode(cluster["certificate-authority-data"]))
            self.token = next(u["user"]["token"] for u in config["users"] if u["name"] == "token")
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        subprocess.run(["./dev", "cluster", "down", "--instance", self.instance], cwd=programs.repository)
        self.folder.cleanup()


def deployment(name, replicas):
    labels = {"app": name, "tier": "web", "team": "platform"}
    env = [{"name": "VARIABLE_%d" % i, "value": "value %d of %s" % (i, name)} for i in range(12)]
    env += [{"name": n, "valueFrom": {"fieldRef": {"fieldPath": p}}} for n, p in
            (("POD_NAME", "metadata.name"), ("POD_NAMESPACE", "metadata.namespace"), ("NODE_NAME", "spec.nodeName"))]
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10, "timeoutSeconds": 2}
    container = {"name": "web", "image": "registry.example.com/team/%s:v1.2.3" % name, "args": ["--listen=:8080", "--log-level=info"], "env": env,
                 "ports": [{"containerPort": 8080, "name": "http"}], "livenessProbe": probe, "readinessProbe": probe,
                 "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}}}
    template = {"metadata": {"labels": labels, "annotations": {"example.com/owner": "platform"}}, "spec": {"containers": [container]}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template,
        "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}}}


def rolled_out(cluster, options):
    """Are all replicas of the newest kind, available, and the old ones gone?"""
    for d in cluster.items("deployments"):
        status, wanted = d.get("status", {}), d["spec"]["replicas"]
        if status.get("observedGeneration", 0) < d["metadata"]["generation"] or status.get("replicas") != wanted:
            return False
        if status.get("updatedReplicas") != wanted or status.get("availableReplicas") != wanted:
            return False
    pods = cluster.kubectl("get", "pods", "-l", "tier=web", "-o", "name").count("\n")
    return pods == options.deployments * options.replicas


def wait_for_rollout(cluster, options):
    deadline = time.monotonic() + patience
    while not rolled_out(cluster, options):
        if time.monotonic() > deadline:
            raise Failed("the roll-out did not end within %d s" % patience)
        time.sleep(1)


class Marker(threading.Thread):
    """Writes the time into an annotation of a pod that nobody else touches, again and again: whoever follows sees how late it is."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.host = cluster.url.removeprefix("https://")
        self.token, self.context = cluster.token, ssl.create_default_context(cafile=cluster.ca)
        self.ended, self.written, self.failed = threading.Event(), 0, 0
        cluster.kubectl("create", "-f", "-", body=json.dumps({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "marker"},
            "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]}}))

    def run(self):
        connection, due = None, time.monotonic()
        while not self.ended.is_set():
            try:
                connection = connection or http.client.HTTPSConnection(self.host, context=self.context, timeout=30)
                body = json.dumps({"metadata": {"annotations": {"bench/sent": "%020d" % time.time_ns()}}})
                connection.request("PATCH", "/api/v1/namespaces/default/pods/marker", body, {
                    "Authorization": "Bearer " + self.token, "Content-Type": "application/merge-patch+json"})
                answer = connection.getresponse()
                answer.read()
                self.written += answer.status == 200
                self.failed += answer.status != 200
            except (OSError, http.client.HTTPException):
                self.failed, connection = self.failed + 1, None
            due = max(due + 1 / marker_rate, time.monotonic() - 1)
            self.ended.wait(max(0.0, due - time.monotonic()))

    def stop(self):
        self.ended.set()
        self.join()


def counts(program):
    program.say("count")
    return program.wait_for(lambda a: a.get("at") == "events" and "adds" in a, 120)[1]


def settled_counts(program):
    """Once they no longer change."""
    before = counts(program)
    while True:
        time.sleep(1)
        now = counts(program)
        if now == before:
            return now
        before = now


def servers_digest(cluster):
    lines = ["%s/%s %s\n" % (o["metadata"]["namespace"], o["metadata"]["name"], o["metadata"]["resourceVersion"]) for o in cluster.items("pods", "-A")]
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


class Follower:
    """One peer on the cluster."""

    def __init__(self, name, command, cluster):
        self.name, self.figures = name, {}
        self.program = Program([*command, "--server", cluster.url, "--ca", cluster.ca, "--token", cluster.token, "--resource", "pods"])
        self.meter = self.program.meter

    def synced(self):
        _, answer = self.program.wait_at("synced", 120)
        self.figures["objects"] = answer["objects"]
        self.figures["sync_cpu"] = self.meter.settle()
        self.program.ask("force", "forced")
        self.figures["sync_rss"] = self.meter.resident()
        self.meter.reset_peak()

    def begin(self):
        self.program.ask("latency", "latency") # from here on
        self.before, self.cpu = counts(self.program), self.meter.cpu()

    def end(self, written):
        after = settled_counts(self.program)
        f = self.figures
        f["cpu"] = self.meter.cpu() - self.cpu
        f["adds"], f["updates"], f["deletes"] = (after.get(k, 0) - self.before.get(k, 0) for k in ("adds", "count", "deletes"))
        f["events"] = f["adds"] + f["updates"] + f["deletes"]
        f["peak"], f["rss"] = self.meter.peak(), self.meter.resident()
        self.program.ask("force", "forced")
        f["forced"] = self.meter.resident()
        answer = self.program.ask("latency", "latency")
        f["markers"], f["markers_written"] = answer["count"], written
        f["p50"], f["p99"] = answer["p50_us"] * 1e-6, answer["p99_us"] * 1e-6


def compare(cluster, followers):
    """All caches hold what the server has (nothing changes any more, so this comes true within moments)."""
    deadline = time.monotonic() + 60
    while True:
        expected = servers_digest(cluster)
        answers = {f.name: f.program.ask("digest", "digest", 120) for f in followers}
        if all(a["sha256"] == expected for a in answers.values()):
            return next(iter(answers.values()))["objects"]
        if time.monotonic() > deadline:
            raise Failed("caches differ from the server's %s: %s" % (expected[:12], {n: a["sha256"][:12] for n, a in answers.items()}))
        time.sleep(1)


def table_of(followers):
    ms, mb = 1e3, 1e-6
    header = ["", *[f.name for f in followers]]
    rows = [["first sync, CPU s", *[number(f.figures["sync_cpu"]) for f in followers]],
            ["RSS after sync, MB", *[number(f.figures["sync_rss"] * mb) for f in followers]],
            ["roll-out, CPU s", *[number(f.figures["cpu"]) for f in followers]],
            ["CPU µs per event", *[number(f.figures["cpu"] / max(1, f.figures["events"]) * 1e6) for f in followers]],
            ["peak RSS, MB", *[number(f.figures["peak"] * mb) for f in followers]],
            ["RSS after it, MB", *[number(f.figures["rss"] * mb) for f in followers]],
            ["… after a forced collection", *[number(f.figures["forced"] * mb) for f in followers]],
            ["lag p50, ms", *[number(f.figures["p50"] * ms) for f in followers]],
            ["lag p99, ms", *[number(f.figures["p99"] * ms) for f in followers]],
            ["events: added", *[format(f.figures["adds"], ",d") for f in followers]],
            ["events: updated", *[format(f.figures["updates"], ",d") for f in followers]],
            ["events: deleted", *[format(f.figures["deletes"], ",d") for f in followers]]]
    return text.table(header, rows)


def difference(followers):
    """Sentences, where the peers were not told of as many events as the first; each has a watch and a queue of its own."""
    first, sentences = followers[0], []
    for other in followers[1:]:
        differ = ["%+d %s" % (other.figures[key] - first.figures[key], key) for key in ("adds", "updates", "deletes") if other.figures[key] != first.figures[key]]
        if differ:
            sentences.append("%s was told of another number of events than %s: %s." % (other.name, first.name, ", ".join(differ)))
    return sentences


def report_of(options, followers, versions, seconds, objects):
    return "\n".join([
        "## In the real world", "",
        sections.written_by("cluster", versions), "",
        "A whole Kubernetes %s on the same machine (`./dev cluster`: API server, etcd, controllers, scheduler, %d nodes by kwok). %d Deployments of" % (
            os.environ.get("INFORMER_KUBERNETES_VERSION", "1.36.3"), options.nodes, options.deployments),
        "%d replicas are restarted at once%s, while both programs follow all pods over TLS side by side, each with its defaults, an index by" % (
            options.replicas, "" if options.rollouts == 1 else ", %d times" % options.rollouts),
        "node and a counting handler. The roll-out took %.0f s. CPU and RSS are whole processes. Lag: from the moment a client writes an annotation" % seconds,
        "of a pod (%d times a second) to the handler that sees it; the way through the API server and etcd, busy with the roll-out, is in it, the" % marker_rate,
        "same for both. At the end the caches were equal: the same %s pods in the same versions as the server's own list." % format(objects, ",d"), "",
        table_of(followers), *["\n" + d for d in difference(followers)]])


def is_usual(options):
    return (options.deployments, options.replicas, options.rollouts, options.nodes, options.peer) == (10, 500, 1, 50, None)


def run(options):
    try:
        program = peers.go_program("peer")
    except programs.Unavailable as why:
        programs.log("error: the roll-out needs client-go and a cluster: %s" % why)
        return 1
    programs.build("libinformer")
    ways = options.peer or client_go_ways[:1]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)) # the cluster goes with us
    with Cluster(options.nodes) as cluster:
        programs.log("creating %d Deployments of %d replicas" % (options.deployments, options.replicas))
        made = [deployment("web-%d" % i, options.replicas) for i in range(options.deployments)]
        cluster.kubectl("create", "-f", "-", body=json.dumps({"apiVersion": "v1", "kind": "List", "items": made}))
        wait_for_rollout(cluster, options)
        marker = Marker(cluster)
        followers = []
        try:
            programs.log("following them")
            commands = {"libinformer": [programs.folder / "bench_libinformer", "--mode", "watchlist"],
                        **{"client-go " + w.replace("-", " "): [program, "--mode", w] for w in ways}}
            for name, command in commands.items(): # one after the other: each has the machine for its first sync
                followers.append(Follower(name, command, cluster))
                followers[-1].synced()
            for f in followers:
                f.begin()
            marker.start()
            began = time.monotonic()
            for n in range(options.rollouts):
                programs.log("roll-out %d of %d" % (n + 1, options.rollouts))
                cluster.kubectl("rollout", "restart", "deployment")
                wait_for_rollout(cluster, options)
            seconds = time.monotonic() - began
            marker.stop()
            for f in followers:
                f.end(marker.written)
            objects = compare(cluster, followers)
            problems = check(followers)
            report = report_of(options, followers, peers.versions_of(program), seconds, objects)
        finally:
            if marker.is_alive():
                marker.stop()
            for f in followers:
                f.program.stop()
    print(report)
    sections.keep("cluster", report, is_usual(options) and not problems, options.report)
    for d in difference(followers):
        programs.log("note: " + d)
    for p in problems:
        programs.log("error: " + p)
    return 1 if problems else 0


def check(followers):
    """What must hold whatever the speed."""
    problems = []
    for f in followers:
        if f.figures["adds"] != f.figures["deletes"]:
            problems.append("%s saw %d pods come and %d go" % (f.name, f.figures["adds"], f.figures["deletes"]))
        if f.figures["markers"] == 0:
            problems.append("%s saw no marker of %d" % (f.name, f.figures["markers_written"]))
    return problems
