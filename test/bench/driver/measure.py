"""One peer on one corpus: what it costs to come up, to follow updates, and to list anew."""
import statistics
import time

from driver.processes import Failed, Program


class Plan:
    """What to measure of a run. Updates go out in rounds of `round_size`; past `update_seconds` there is no other."""

    def __init__(self, rounds=2, round_size=20000, paced=1000, rate=500, relist=True, update_seconds=40, accounted=False):
        self.accounted = accounted  # what it says that it holds; only libinformer does
        self.rounds, self.round_size, self.paced, self.rate, self.relist = rounds, round_size, paced, rate, relist
        self.update_seconds = update_seconds


def run(peer, corpus, server, plan):
    """Figures by name: seconds and bytes of the whole process unless said otherwise."""
    count = corpus.count
    patience = 60 + count * 0.004
    figures = {"objects": count}
    stats = server.tell("stats")
    server_cpu = server.meter.cpu()
    server.tell("hold")
    program = Program(peer.command(server, corpus))
    meter = program.meter
    try:
        # Empty: connected, its first request on the way, nothing of the answer there.
        program.wait_at("empty", 60)
        server.wait_until(lambda s: s["waiting"] > 0, 60, "list or watch by " + peer.name)
        empty_cpu, empty = meter.settle(), meter.resident()
        figures["empty_rss"] = empty
        meter.reset_peak()

        start = time.monotonic()
        server.tell("release")
        end, answer = program.wait_at("synced", patience)
        if answer["objects"] != count:
            raise Failed("%s has %d objects of %d after its sync" % (peer.name, answer["objects"], count))
        if peer.protobuf and not answer["content_type"].startswith("application/vnd.kubernetes.protobuf"):
            raise Failed("%s was to speak protobuf and was answered in '%s'" % (peer.name, answer["content_type"]))
        server.wait_until(lambda s: s["watches"] > 0, 60, "watch by " + peer.name)
        figures["sync_cpu"] = meter.settle() - empty_cpu
        figures["sync_wall"] = end - start
        figures["sync_rss"] = meter.resident() - empty
        figures["sync_peak"] = meter.peak() - empty
        program.ask("force", "forced")
        figures["sync_forced"] = meter.resident() - empty
        if plan.accounted:
            figures["accounted"] = program.ask("statistics", "statistics")["bytes"]
        figures["sync_bytes"] = server.tell("stats")["bytes"] - stats["bytes"]

        if plan.rounds:
            rounds, size = [], min(plan.round_size, count)
            size -= size % 1000 if size >= 1000 else 0
            meter.reset_peak()
            seen, last = 0, time.monotonic() + plan.update_seconds
            for _ in range(plan.rounds):
                if rounds and time.monotonic() > last:
                    break
                before, start = meter.cpu(), time.monotonic()
                server.tell("burst %d" % size, patience)
                seen += size
                if seen % 1000 == 0:
                    end, _ = program.wait_for(lambda a: a.get("at") == "events" and a.get("count", 0) >= seen, patience)
                else:
                    end = _poll(program, seen, patience)
                rounds.append(((meter.settle(0.1) - before) / size, size / (end - start)))
            answer = _count(program)
            if answer["count"] != seen:
                raise Failed("%s was told of %d updates, %d were sent" % (peer.name, answer["count"], seen))
            figures["event_cpu"], figures["event_rate"] = map(statistics.median, zip(*rounds))
            figures["updates"] = seen
            figures["churn_rss"] = meter.resident() - empty
            program.ask("force", "forced")
            figures["churn_forced"] = meter.resident() - empty
            figures["churn_peak"] = meter.peak() - empty

        if plan.paced:
            program.ask("latency", "latency")
            before = meter.settle()
            server.tell("paced %d %d" % (plan.paced, plan.rate), plan.paced / plan.rate + 60)
            _poll(program, figures.get("updates", 0) + plan.paced, 60)
            figures["paced_cpu"] = (meter.settle(0.1) - before) / plan.paced
            answer = program.ask("latency", "latency")
            if answer["count"] != plan.paced:
                raise Failed("%s timed %d updates of %d" % (peer.name, answer["count"], plan.paced))
            figures["latency_p50"], figures["latency_p99"] = answer["p50_us"] * 1e-6, answer["p99_us"] * 1e-6

        if plan.relist:
            program.ask("force", "forced")
            steady = meter.resident() - empty
            meter.reset_peak()
            stats = server.tell("stats")
            before = meter.settle()
            server.tell("expire")
            done = stats["lists"] + stats["watch_lists"]
            server.wait_until(lambda s: s["lists"] + s["watch_lists"] > done and s["watches"] > 0, patience, "relist by " + peer.name)
            figures["relist_cpu"] = meter.settle(0.5, 20) - before
            figures["relist_steady"] = steady
            figures["relist_peak"] = meter.peak() - empty
            answer = _count(program)
            if answer.get("deletes", 0) or answer.get("adds", count) != count:
                raise Failed("%s: a relist without changes was told as %s" % (peer.name, answer))
        if program.ask("digest", "digest")["sha256"] != server.tell("digest")["sha256"]:
            raise Failed("the cache of %s is not what the server has" % peer.name)
        figures["server_cpu"] = server.meter.cpu() - server_cpu
        return figures
    finally:
        program.stop()
        server.tell("release")
        server.wait_until(lambda s: s["watches"] == 0, 60, "end of the watch of " + peer.name)


def _count(program):
    program.say("count")
    return program.wait_for(lambda a: a.get("at") == "events" and "adds" in a, 60)[1]


def _poll(program, seen, patience):
    deadline = time.monotonic() + patience
    while _count(program)["count"] < seen:
        if time.monotonic() > deadline:
            raise Failed("%s stopped short of %d updates" % (program.name, seen))
        time.sleep(0.002)
    return time.monotonic()
