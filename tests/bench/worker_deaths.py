#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How soon is a killed worker's job handed over again, and does a worker whose connection is cut lose any?

    tests/bench/worker_deaths.py [--kills 20] [--cuts 20]

For each kill a lanemq-worker holds a job, another is idle; the time runs from SIGKILL until the idle one has the job.
Then a worker with four jobs is connected by a proxy that cuts its connection again and again. Exit 1 where the median
takes more than 5 ms, or where a cut has a job run again.
"""
import argparse
import pathlib
import signal
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import harness  # noqa: E402
from proxy import Proxy  # noqa: E402


def start_worker(room, endpoint, service, *arguments):
    worker = room.start(harness.Process(harness.program("lanemq-worker"), "--broker", endpoint, "--service", service,
                                        *arguments))
    if not worker.line().startswith("ready"):
        raise AssertionError("a worker did not start: " + worker.stderr())
    return worker


def running(room, count):
    room.stats_when(lambda stats: stats["lanes"]["normal"]["running"] == count, f"{count} running jobs")


def kills(room, count):
    """Milliseconds from each kill until the job is with another worker."""
    client, took = room.client(), []
    for i in range(count):
        doomed = start_worker(room, room.broker.workers, "echo=echo:1h")
        client.submit(id=f"kill-{i}", reply="accepted", timeout_ms=3_600_000)
        client.get("accepted")
        running(room, 1)
        spare = room.worker()
        doomed.signal(signal.SIGKILL)
        killed_at = time.monotonic()
        job = spare.get("job")
        took.append(1000 * (time.monotonic() - killed_at))
        spare.echo(job)
        spare.leave()
    return took


def cuts(room, count):
    """How many jobs were run again."""
    proxy, client = Proxy(room.broker.workers), room.client()
    start_worker(room, proxy.endpoint, "held=echo:1h", "--capacity", "4")
    for i in range(4):
        client.submit(service="held", id=f"cut-{i}", reply="accepted", timeout_ms=3_600_000)
        client.get("accepted")
    running(room, 4)
    for i in range(count):
        proxy.cut()
        room.stats_when(lambda stats: stats["counters"]["workers_returned"] > i, "the worker's return")
    again = [client.status(f"cut-{i}")["attempts"] - 1 for i in range(4)]
    proxy.close()
    return sum(again)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--cuts", type=int, default=20)
    options = parser.parse_args()
    room = harness.Room()
    try:
        room.start_broker("--set", "crash_max=1000")
        took = kills(room, options.kills)
        again = cuts(room, options.cuts)
    except BaseException:
        room.kill()
        room.show_errors()
        raise
    finally:
        room.close()
    middle = statistics.median(took)
    print(f"{options.kills} kills: the job was handed over again after p50 {middle:.1f} ms, at most {max(took):.1f} ms; "
          f"{options.cuts} cuts: {again} jobs run again")
    return 0 if middle <= 5 and again == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
