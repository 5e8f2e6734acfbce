#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What does the Node package cost, compared with the same loop in bare zeromq.js and msgpack?

    tests/bench/node_sdk.py [--jobs 20000] [--rounds 5] [--window 256]

Starts one broker with one echo worker; node_sdk.mjs, which says how, compares the loops there. Exit 1 where the package has
less than 0.7 of the bare loop's jobs a second."""
import argparse
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))
import harness  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--window", type=int, default=256)
    options = parser.parse_args()
    room = harness.Room()
    try:
        room.start_broker(*harness.STEADY)
        worker = room.start(harness.Process(harness.program("lanemq-worker"), "--broker", room.broker.workers, "--service",
                                            "echo=echo", "--capacity", "512"))
        assert worker.line().startswith("ready"), worker.stderr()
        numbers = map(str, (options.jobs, options.rounds, options.window))
        return subprocess.run(["node", HERE / "node_sdk.mjs", room.broker.clients, *numbers]).returncode
    finally:
        room.close()


if __name__ == "__main__":
    sys.exit(main())
