#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several shards share one upstream's limit by a bank; what did the upstream see?

    tests/bench/shared_shards.py [--shards 4] [--seconds 180] [--rpm 600] [--tpm 200000] [--faults SECONDS] [--uneven]
                                 [--offline SHARE] [--candidates] [--database CONNINFO]

Each shard is a broker with a store of its own, a worker process with 64 calls in flight, and a client that keeps it full. With
--faults every so many seconds one of the brokers is killed and started again, or stopped for ten seconds. With --candidates each
shard has its store in PostgreSQL and a second broker, which goes on. With --uneven the first shard alone has work in every second
half minute. With --offline such a share of the limit is set aside for each shard. --top measures how long a job of the top lane
waits beside the bulk.
The bank is in a PostgreSQL that is started for it, unless --database names one. Exit 1 if the upstream refused a call, or if less
than 95 % (with faults 93 %) of what the limit that binds allowed in that time was used.
"""
import argparse
import os
import pathlib
import random
import signal
import statistics
import sys
import time

import zmq

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import harness  # noqa: E402
import shared_limit  # noqa: E402
from postgres import Postgres  # noqa: E402
from shards_stage import Shards  # noqa: E402
from test_cluster import Member  # noqa: E402

CAPACITY, WINDOW = 64, 200
STOPPED = 10.0
TOP_EVERY = 1.0
LEASE = 3


class Pair:
    """The owner of a shard's store in PostgreSQL, and a candidate. Who has ended is started again when there is an owner."""

    def __init__(self, shards, name, conninfo):
        self.shards, self.at = shards, 0
        self.endpoints = shards.seats[name]
        self.arguments = ("--config", shards.config, "--shard", name, "--store", f"postgres:{conninfo}",
                          *(word for option in (f"store_schema=shard {name}", "store_replication=none", f"store_lease={LEASE}s")
                            for word in ("--set", option)))
        self.members = []
        for place in range(2):
            self.members.append(self.member(place))
            self.shards.room.pump(lambda: self.members[-1].is_ready() or self.members[-1].waits(), "a broker")

    def member(self, place):
        return self.shards.room.start(Member(f"{'ab'[place]}", self.arguments, self.endpoints[place]))

    def owner(self):
        return self.members[self.at]

    def look(self):
        """Whether another broker owns the store."""
        other = 1 - self.at
        if not self.members[other].has_ended() and self.members[other].is_ready():
            self.at = other
            return True
        if self.owner().said and not self.owner().has_ended() and self.members[other].has_ended():
            self.members[other].close()
            self.members[other] = self.member(other)
        return False


class Trouble:
    """Kills and stops brokers, one after the other."""

    def __init__(self, shards, every, seed):
        self.shards, self.every, self.random = shards, every, random.Random(seed)
        self.next, self.stopped, self.done = time.monotonic() + every, None, []

    def look(self, now):
        if self.stopped and now >= self.stopped[1]:
            self.stopped[2].signal(signal.SIGCONT)
            self.stopped = None
        if self.every and not self.stopped and now >= self.next:
            self.next = now + self.every
            name = self.random.choice(list(self.shards.rules))
            pair = self.shards.pairs.get(name)
            broker = pair.owner() if pair else self.shards.brokers[name]
            if self.random.random() < 0.5:
                broker.signal(signal.SIGSTOP)
                self.stopped = (name, now + STOPPED, broker)
                self.done.append("stop")
            else:
                broker.kill()
                broker.wait()
                if not pair:
                    self.shards.start(name)
                self.done.append("kill")


class Caller:
    """Keeps one shard full, and sends a job of the top lane now and then."""

    def __init__(self, shards, name, bodies, top):
        self.pair = shards.pairs.get(name)
        self.clients = ([harness.Client(shards.room, zmq.DEALER, endpoints["clients"]) for endpoints in self.pair.endpoints]
                        if self.pair else [shards.client(name)])
        self.client, self.service, self.bodies = self.clients[0], f"chat-{name}", bodies
        self.sent, self.open, self.failed, self.done = 0, {}, 0, 0
        self.top_at = time.monotonic() + 15 if top else float("inf")
        self.waits = []

    def send(self, lane):
        self.open[self.sent] = (lane, time.monotonic())
        self.client.send("submit", {"service": self.service, "lane": lane, "ref": self.sent, "id": f"{self.service}-{self.sent}"},
                         self.bodies[self.sent % len(self.bodies)])
        self.sent += 1

    def look(self, now, works):
        if self.pair and self.pair.look():
            self.client.inbox.clear()
            self.client = self.clients[self.pair.at]
            self.again()
        while works and len(self.open) < WINDOW:
            self.send("batch")
        if now >= self.top_at:
            self.top_at = now + TOP_EVERY
            self.send("critical")
        while self.client.inbox:
            message = self.client.inbox.popleft()
            asked = self.open.pop(message.fields.get("ref"), None)
            if asked is None:
                continue
            self.done += 1
            self.failed += message.op != "result"
            if asked[0] == "critical" and message.op == "result":
                self.waits.append(message.fields.get("queued_ms", 0) / 1000)

    def again(self):
        """After a broker was killed: all that is open is asked for again, under the same ids."""
        for ref, (lane, _) in self.open.items():
            self.client.send("submit", {"service": self.service, "lane": lane, "ref": ref, "id": f"{self.service}-{ref}"},
                             self.bodies[ref % len(self.bodies)])


def measure(room, conninfo, options):
    limits = ["--rpm", str(options.rpm)] + (["--tpm", str(options.tpm)] if options.tpm else [])
    base = shared_limit.start_upstream(room, *limits, "--window", "sliding", "--latency-ms", "50..400")
    names = [f"s{place}" for place in range(options.shards)]
    rules = {name: f'match = {{ service = "chat-{name}" }}' for name in names[:-1]} | {names[-1]: ""}
    tokens = f", tokens_per_minute = {options.tpm}" if options.tpm else ""
    more = f'[[budget]]\nname = "api"\nlimits = {{ requests_per_minute = {options.rpm}{tokens} }}\noutput = "max_tokens"\n'
    if options.offline:
        more += f"offline_share = {options.offline}\n"
    if options.top:
        more += "".join(f'[[lane]]\nname = "{lane}"\n{rest}\n' for lane, rest in
                        (("critical", "reserve = 0.01"), ("normal", "default = true"), ("batch", "")))
    shards = Shards(room, rules=rules, more=more, bank=f"postgres:{conninfo}", seats=2 if options.candidates else 1)
    shards.pairs = {}
    if options.candidates:
        shards.pairs = {name: Pair(shards, name, conninfo) for name in names}
    else:
        shards.start()
    for name in names:
        brokers = ",".join(seat["workers"] for seat in shards.seats[name])
        worker = room.start(harness.Process(harness.program("lanemq-worker"), "--broker", brokers,
                                            "--service", f"chat-{name}=http:{base}/v1/chat/completions", "--capacity", str(CAPACITY)))
        if not worker.line().startswith("ready"):
            raise AssertionError("a worker did not start: " + worker.stderr())
    bodies = shared_limit.bodies(options.tpm)
    callers = [Caller(shards, name, bodies, options.top) for name in names]
    trouble = Trouble(shards, options.faults, options.seed)
    begun = time.monotonic()
    killed = 0
    while (now := time.monotonic()) < begun + options.seconds:
        trouble.look(now)
        if trouble.done.count("kill") > killed and not options.candidates:
            killed = trouble.done.count("kill")
            for caller in callers:
                caller.again()
        for place, caller in enumerate(callers):
            caller.look(now, not options.uneven or place == 0 or int((now - begun) / 30) % 2 == 0)
        room.keep_alive(0.05)
    owners = {name: shards.pairs[name].endpoints[shards.pairs[name].at] if shards.pairs else shards.endpoints[name] for name in names}
    draws = [harness.Client(room, zmq.DEALER, owner["admin"]).ask("stats", {"ref": 1}).fields.get("bank")
             for name, owner in owners.items() if not (trouble.stopped and trouble.stopped[0] == name)]
    if trouble.stopped:
        trouble.stopped[2].signal(signal.SIGCONT)
    shards.close()
    return shared_limit.upstream_stats(base), callers, trouble.done, draws


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--rpm", type=int, default=600)
    parser.add_argument("--tpm", type=int)
    parser.add_argument("--faults", type=float, default=0)
    parser.add_argument("--uneven", action="store_true")
    parser.add_argument("--offline", type=float)
    parser.add_argument("--candidates", action="store_true")
    parser.add_argument("--top", action="store_true")
    parser.add_argument("--database")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    room, server = harness.Room(), None
    try:
        if not options.database:
            server = Postgres()
        stats, callers, troubles, draws = measure(room, options.database or server.conninfo(), options)
    finally:
        if os.environ.get("LANEMQ_SHOW"):
            room.kill()
            room.show_errors()
        room.close()
        if server:
            server.close()
    minutes = options.seconds / 60
    used = stats["ok"] / (options.rpm * minutes)
    limits, peaks = f"{options.rpm} calls", f"{stats['peak_calls_60s']} calls"
    if options.tpm:
        limits += f" and {options.tpm} tokens"
        peaks += f" and {stats['peak_tokens_60s']} tokens"
        used = max(used, stats["tokens"]["charged"] / (options.tpm * minutes))
    failed = sum(caller.failed for caller in callers)
    print(f"{options.seconds:.0f} s at {limits} a minute over {options.shards} shards, {len(troubles)} faults: {stats['calls']} calls, "
          f"{stats['rejected_429']} refused, peak {peaks} in 60 s, {100 * used:.1f} % of the limit used, {failed} jobs failed")
    print("done by shard:", " ".join(str(caller.done) for caller in callers))
    print("draws:", sum(one["draws"] for one in draws if one), "lost:", sum(one["lost"] for one in draws if one), "ms each:",
          round(sum(one["draw_ms"] for one in draws if one) / max(1, sum(one["draws"] for one in draws if one)), 2))
    if options.top:
        waits = sorted(wait for caller in callers for wait in caller.waits)
        print(f"top lane: {len(waits)} jobs, queued p50 {1000 * statistics.median(waits):.0f} ms, "
              f"p99 {1000 * waits[int(len(waits) * 0.99)]:.0f} ms, max {1000 * waits[-1]:.0f} ms")
    return 0 if stats["rejected_429"] == 0 and used >= (0.93 if options.faults else 0.95) else 1


if __name__ == "__main__":
    sys.exit(main())
