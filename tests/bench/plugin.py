#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What does a plugin of the broker cost that does nothing?

    scripts/bench plugin [--rounds 9] [--jobs 100000] [--window 1000]

Two brokers, each with one echo worker; one of them asks the plugin `idle` for each submit, which says nothing of it.
`lanemq bench` measures round trips at both in turn, and the median of the rounds' ratios counts. Exit 1 where the broker with the
plugin has less than 0.95 of the other's. What a round trip takes of the broker's processor time is beside it: that says something on a
busy machine, too."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import harness  # noqa: E402

LEAST = 0.95
CONFIG = f"""
[[plugin]]
name = "idle"
file = "{os.path.join(os.path.abspath(harness.PROGRAMS), "plugins/idle.so")}"
"""


def start(*arguments):
    room = harness.Room()
    room.start_broker(*harness.STEADY, *arguments)
    worker = room.start(harness.Process(harness.program("lanemq-worker"), "--broker", room.broker.workers, "--service", "echo=echo",
                                        "--capacity", "1024"))
    assert worker.line().startswith("ready"), worker.stderr()
    return room


def rate(room, jobs, window):
    said = subprocess.run([harness.program("lanemq"), "--broker", room.broker.clients, "bench", "--service", "echo", "--count", str(jobs),
                           "--window", str(window), "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(said)["per_second"]


def used(room):
    """Seconds of the processor that the broker has had."""
    with open(f"/proc/{room.broker.pid}/stat") as file:
        user, system = file.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--window", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(CONFIG)
        file.flush()
        rooms = [start(), start("--config", file.name)]
    try:
        for room in rooms:
            rate(room, options.jobs, options.window)
        pairs, before = [], [used(room) for room in rooms]
        for at in range(options.rounds):
            order = (0, 1) if at % 2 else (1, 0)
            found = {which: rate(rooms[which], options.jobs, options.window) for which in order}
            pairs.append((found[0], found[1]))
        each_us = [1e6 * (used(room) - had) / (options.rounds * options.jobs) for room, had in zip(rooms, before)]
    finally:
        for room in rooms:
            room.close()
    ratios = sorted(guarded / bare for bare, guarded in pairs)
    bare, guarded = (statistics.median(each) for each in zip(*pairs))
    print(f"without {bare:.0f}, with a plugin {guarded:.0f} round trips a second: {statistics.median(ratios):.3f} "
          f"(rounds {ratios[0]:.2f} to {ratios[-1]:.2f}; at least {LEAST}); {each_us[0]:.2f} and {each_us[1]:.2f} us of the broker each")
    return 0 if statistics.median(ratios) >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
