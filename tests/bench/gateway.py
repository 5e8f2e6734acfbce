#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the front door costs: the upstream double with nothing, LaneMQ (gateway, broker, worker) or Portkey's gateway
between, in turns on one machine.

    tests/bench/gateway.py [--rounds 3] [--seconds 3] [--streams 1000] [--events 100] [--without-portkey] [--keys]

one      one call at a time on one connection: what is added to p50 and p99
many     64 connections, each with one call at a time: calls a second
streams  so many streams at once whose events the double makes every 20 ms: how late they are, and whether all came
--keys adds calls by a key with limits, which the broker shares out: `key`, of which the gateway takes slices ahead, and `few`, with so
small a limit that it asks the broker for each call.
Memory is that of each program after its last round. Every figure is the median over the rounds. Exit 1 if an answer was
wrong or an event was lost.
"""
import argparse
import hashlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))
import harness  # noqa: E402
from ports import free_port  # noqa: E402

CADENCE_MS = 20
MANY = 64
CAPACITY = 1024
SECRET = "sk-bench"  # what bench_http shows


class Peer:
    """A way to the upstream: where calls go, what they say besides, and which processes it is made of."""

    def __init__(self, name, port, headers=(), processes=None):
        self.name, self.port, self.headers, self.processes = name, port, headers, processes or {}
        self.seen = {}

    def load(self, mode, **options):
        command = [harness.program("bench_http"), mode, "--port", str(self.port)]
        for header in self.headers:
            command += ["--header", header]
        for key, value in options.items():
            command += ["--" + key.replace("_", "-"), str(value)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        return json.loads(done.stdout)

    def note(self, what, measured):
        self.seen.setdefault(what, []).append(measured)
        print(f"{self.name:8} {what:8} {json.dumps(measured)}", file=sys.stderr, flush=True)

    def median(self, what, figure):
        return statistics.median(run[figure] for run in self.seen[what])


def port_of(url):
    return int(url.rsplit(":", 1)[1])


def ready_url(process):
    return process.line().removeprefix("ready ").strip()


def resident_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def start_upstream(room):
    return ready_url(room.start(harness.Process(harness.program("lanemq-upstream"), "--latency-ms", "0",
                                                "--token-ms", str(CADENCE_MS))))


def start_keys(room, folder):
    """Two more gateways of the same broker, one with a key that has large limits and one whose key has a small one."""
    limits = {"key": "requests_per_minute = 60000000\ntokens_per_minute = 6000000000\nconcurrency = 4096", "few": "concurrency = 15"}
    peers = []
    for name, lines in limits.items():
        config = pathlib.Path(folder, name + ".toml")
        config.write_text(f'[[key]]\nname = "{name}"\nsha256 = "{hashlib.sha256(SECRET.encode()).hexdigest()}"\n{lines}\n')
        gateway = room.start(harness.Process(harness.program("lanemq-gateway"), "--broker", room.broker.clients,
                                             "--listen", "127.0.0.1:0", "--config", str(config)))
        peers.append(Peer(name, port_of(ready_url(gateway)), processes={"gateway": gateway.pid}))
    return peers


def start_lanemq(room, upstream):
    room.start_broker("--store", "memory")
    worker = room.start(harness.Process(harness.program("lanemq-worker"), "--broker", room.broker.workers, "--service",
                                        f"openai=openai:{upstream}/v1", "--capacity", str(CAPACITY)))
    worker.line()
    gateway = room.start(harness.Process(harness.program("lanemq-gateway"), "--broker", room.broker.clients,
                                         "--listen", "127.0.0.1:0"))
    return Peer("lanemq", port_of(ready_url(gateway)),
                processes={"gateway": gateway.pid, "broker": room.broker.pid, "worker": worker.pid})


def start_portkey(room, upstream):
    program = HERE / "portkey/node_modules/@portkey-ai/gateway/build/start-server.js"
    port = free_port()
    node = room.start(harness.Process("env", "NODE_ENV=production", "node", str(program), "--headless",
                                      f"--port={port}"))

    def answers():
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True

    harness.wait_until(answers, "Portkey's gateway answers")
    return Peer("portkey", port, ("x-portkey-provider: openai", f"x-portkey-custom-host: {upstream}/v1"),
                {"gateway": node.pid})


def report(peers):
    direct, lanemq = peers[0], peers[1]
    print(f"{'':8} {'p50 us':>9} {'p99 us':>9} {'added p50':>10} {'added p99':>10} {f'calls/s at {MANY}':>15}"
          f" {'late p50 us':>12} {'late p99 us':>12} {'added p99':>10} {'lost':>5}  resident MiB")
    for peer in peers:
        one = [peer.median("one", figure) for figure in ("p50_us", "p99_us")]
        added = [one[i] - direct.median("one", figure) for i, figure in enumerate(("p50_us", "p99_us"))]
        line = f"{peer.name:8} {one[0]:9.0f} {one[1]:9.0f} {added[0]:10.0f} {added[1]:10.0f} "
        line += f"{peer.median('many', 'rate'):15.0f}" if "many" in peer.seen else " " * 15
        if "streams" in peer.seen:
            late = [peer.median("streams", figure) for figure in ("late_p50_us", "late_p99_us")]
            lost = sum(run["bad"] for run in peer.seen["streams"])
            line += f" {late[0]:12.0f} {late[1]:12.0f} {late[1] - direct.median('streams', 'late_p99_us'):10.0f} {lost:5}"
        else:
            line += " " * 43
        memory = ", ".join(f"{name} {resident_mib(pid):.0f}" for name, pid in peer.processes.items())
        print(line + "  " + memory)
    if len(peers) > 2 and peers[2].name == "portkey":
        print(f"lanemq makes {lanemq.median('many', 'rate') / peers[2].median('many', 'rate'):.1f} x the calls of Portkey's"
              f" gateway at {MANY} connections")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--without-portkey", action="store_true")
    parser.add_argument("--keys", action="store_true")
    arguments = parser.parse_args()
    room, folder = harness.Room(), tempfile.TemporaryDirectory()
    wrong = 0
    try:
        upstream = start_upstream(room)
        peers = [Peer("direct", port_of(upstream)), start_lanemq(room, upstream)]
        if not arguments.without_portkey:
            peers.append(start_portkey(room, upstream))
        if arguments.keys:
            peers += start_keys(room, folder.name)
        for _ in range(arguments.rounds):
            for peer in peers:
                peer.note("one", peer.load("calls", connections=1, seconds=arguments.seconds))
            for peer in peers:
                if peer.name == "few":  # 64 at once are more than it may
                    continue
                peer.note("many", peer.load("calls", connections=MANY, seconds=arguments.seconds))
            for peer in peers[:2]:
                peer.note("streams", peer.load("streams", connections=arguments.streams, events=arguments.events,
                                               cadence_ms=CADENCE_MS, model=f"gpt-x+tokens={arguments.events}"))
        report(peers)
        wrong = sum(run["bad"] for peer in peers for runs in peer.seen.values() for run in runs)
        events = {run["events"] for peer in peers for run in peer.seen.get("streams", [])}
        if len(events) > 1:
            print("not all streams had all events:", sorted(events))
            wrong += 1
    finally:
        room.close()
        folder.cleanup()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
