#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client that has stopped reading, and 100,000 answers of 64 KiB for it: what is it to the broker and to others?

    tests/bench/slow_reader.py [--answers 100000] [--rate 2500] [--rounds 8]

Rounds take turns: nobody else asks anything, answers for a client that reads them, and as many at the same pace for
one that does not. All the while an honest client, in a process of its own, asks one thing after the other. Prints its
round trips, the median over the rounds of the p99 beside the lazy client by that beside the one that reads, and the
most memory that the broker had. Exit 1 if that was over what its bounds allow, or if a job failed.
"""
import argparse
import multiprocessing
import pathlib
import statistics
import sys
import time

import zmq

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import harness  # noqa: E402

BODY = bytes(64 * 1024)
SUBMIT = harness.packb(["LMQ1", "submit", {"service": "large"}])
MIB = 2**20
# The broker's configuration: kept results once, the others for each of the two clients that get large answers.
RESULTS = {"results_bytes_max": 128 * MIB}
CLIENT = {"client_large_bytes_max": 32 * MIB, "client_backlog_bytes_max": 16 * MIB}
SPARE = 32 * MIB  # for jobs on their way to a worker and back, and what the allocator keeps


def start_worker(room, service):
    worker = room.start(harness.Process(harness.program("lanemq-worker"), "--broker", room.broker.workers,
                                        "--service", f"{service}=echo", "--capacity", "64"))
    if not worker.line().startswith("ready"):
        raise AssertionError("a worker did not start: " + worker.stderr())


def be_honest(endpoint, begin, end, times):
    """Asks one thing after the other from `begin` to `end`, and hands over how long each took."""
    room = harness.Room()
    client = harness.Client(room, zmq.DEALER, endpoint)
    while True:
        begin.wait()
        begin.clear()
        took = []
        while not end.is_set():
            started = time.perf_counter()
            client.ask("submit", {"service": "quick", "lane": "critical"}, b"quick", expect="result")
            took.append(time.perf_counter() - started)
        end.clear()
        times.put(took)


class Load:
    """Submits what brings large answers, at an even pace. One that reads takes them as they come."""

    def __init__(self, room, reads):
        options = () if reads else ((zmq.RCVHWM, 1), (zmq.RCVBUF, 4096))
        self.room, self.reads = room, reads
        self.client = room.client(options=options)
        room.peers.remove(self.client)  # read by hand, or not at all
        self.taken = 0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.client.socket.close()

    def run(self, count, rate, look):
        """So many; `look` is called now and then. Done when the broker has all the results."""
        begun, done_before = time.monotonic(), self.done()
        for number in range(count):
            if number % 50 == 0:
                look()
                harness.pace(begun + number / rate - time.monotonic())
            self.client.socket.send_multipart([SUBMIT, BODY], copy=False)
            self.read()

        def all_done():
            self.read()
            look()
            return self.done() - done_before == count
        harness.wait_until(all_done, f"the end of {count} jobs")
        while self.reads and self.taken < count:
            if not self.client.socket.poll(harness.PATIENCE * 1000):
                raise harness.Timeout(f"{count - self.taken} answers did not come")
            self.read()

    def read(self):
        while self.reads and self.client.socket.poll(0):
            self.client.socket.recv_multipart(copy=False)
            self.taken += 1

    def done(self):
        return self.room.stats()["lanes"]["normal"]["succeeded"]


def percentile(values, part):
    return sorted(values)[int(part * len(values))]


class Honest:
    """The honest client's process; `during` measures it while something else goes on."""

    def __init__(self, room):
        context = multiprocessing.get_context("spawn")
        self.begin, self.end, self.times = context.Event(), context.Event(), context.Queue()
        self.process = context.Process(target=be_honest, daemon=True,
                                       args=(room.broker.clients, self.begin, self.end, self.times))
        self.process.start()

    def during(self, act):
        self.begin.set()
        act()
        self.end.set()
        return self.times.get(timeout=harness.PATIENCE)


def measure(room, answers, rate, rounds):
    """The honest client's p50 and p99 by kind of round; the resident bytes at the start, the most that there were,
    and the most held back at the end of a round; the stats."""
    settings = [f"{name}={value // MIB}MiB" for name, value in (RESULTS | CLIENT).items()]
    room.start_broker(*(word for setting in settings for word in ("--set", setting)))
    start_worker(room, "large")
    start_worker(room, "quick")
    honest = Honest(room)
    at_start = most = room.broker.resident_bytes()

    def look():
        nonlocal most
        most = max(most, room.broker.resident_bytes())

    held_back = 0
    seen = {"alone": [], "reads": [], "lazy": []}
    honest.during(lambda: harness.pace(1))  # everything warm
    for _ in range(rounds):
        times = {"alone": honest.during(lambda: harness.pace(2))}
        for kind in ("reads", "lazy"):
            # A new one each time: one that reads nothing for 20 s loses its connection.
            with Load(room, kind == "reads") as load:
                times[kind] = honest.during(lambda: load.run(answers // rounds, rate, look))
                held_back = max(held_back, room.stats()["counters"]["backlog_bytes"])
        for kind, took in times.items():
            seen[kind].append((percentile(took, 0.5), percentile(took, 0.99)))
    return seen, at_start, most, held_back, room.stats()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=100000)
    parser.add_argument("--rate", type=float, default=2500, help="answers a second")
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    room = harness.Room()
    try:
        seen, at_start, most, held_back, stats = measure(room, options.answers, options.rate, options.rounds)
    finally:
        room.close()
    for kind, rounds in seen.items():
        p50, p99 = (statistics.median(times) * 1000 for times in zip(*rounds))
        print(f"{kind:6} p50 {p50:.2f} ms  p99 {p99:.2f} ms, medians of {len(rounds)} rounds")
    ratios = sorted(lazy[1] / reads[1] for lazy, reads in zip(seen["lazy"], seen["reads"]))
    bound = at_start + sum(RESULTS.values()) + 2 * sum(CLIENT.values()) + SPARE
    print(f"p99 with the lazy client / with one that reads: median {statistics.median(ratios):.2f} "
          f"({ratios[0]:.2f} to {ratios[-1]:.2f})")
    print(f"broker: {most / MIB:.0f} MiB at most, {at_start / MIB:.0f} MiB at its start, "
          f"{bound / MIB:.0f} MiB allowed; "
          f"{stats['counters']['sends_dropped_slow']} answers not sent, {held_back / MIB:.0f} MiB held back")
    failed = stats["lanes"]["normal"]["failed"]
    return 0 if most <= bound and failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
