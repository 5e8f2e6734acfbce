#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that connect, submit a job and leave, one after the other: what does the broker keep of them?

    tests/bench/churn.py [--cycles 100000]

Every second client leaves without its answer. Prints the broker's resident memory after a tenth, half and all of the
cycles. Until half the tables that are bounded in number fill up: the ids of results that are no longer kept
(gone_max) above all. Exit 1 if from there on it grew by more than a tenth.
"""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import harness  # noqa: E402

BODY = bytes(128)
WORKER_CAPACITY = 100


def cycle(room, number):
    """One client's life. Whether the broker has its job when it leaves is sure: it has said so."""
    client = room.client()
    stays = number % 2 == 0
    client.submit(body=BODY, reply="result" if stays else "both")
    client.get("result" if stays else "accepted")
    client.close()


def start_worker(room):
    worker = room.start(harness.Process(harness.program("lanemq-worker"), "--broker", room.broker.workers,
                                        "--service", "echo=echo", "--capacity", str(WORKER_CAPACITY)))
    if not worker.line().startswith("ready"):
        raise AssertionError("the worker did not start: " + worker.stderr())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=100000)
    cycles = parser.parse_args().cycles
    marks = {cycles // 10: 0, cycles // 2: 0, cycles: 0}
    room = harness.Room()
    try:
        room.start_broker()
        start_worker(room)
        for number in range(1, cycles + 1):
            cycle(room, number)
            if number in marks:
                marks[number] = room.broker.resident_bytes()
                stats = room.stats()
                print(f"{number} cycles: {marks[number] / 2**20:.1f} MiB resident, {stats['results']['kept']} results "
                      f"kept, {stats['memory_bytes'] / 2**20:.1f} MiB of jobs and results", flush=True)
    finally:
        room.close()
    _, half, whole = marks.values()
    print(f"from half to the end: {100 * (whole - half) / half:+.1f} %")
    return 0 if whole <= 1.1 * half else 1


if __name__ == "__main__":
    sys.exit(main())
