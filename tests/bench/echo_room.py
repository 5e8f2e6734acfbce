# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of the packages share: their options, and a broker with a worker that echoes."""

import argparse
import contextlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness  # noqa: E402


def options(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--window", type=int, default=256)
    return parser.parse_args()


@contextlib.contextmanager
def echo_room():
    room = harness.Room()
    try:
        room.start_broker(*harness.STEADY)
        worker = room.start(harness.Process(harness.program("lanemq-worker"), "--broker", room.broker.workers, "--service",
                                            "echo=echo", "--capacity", "512"))
        assert worker.line().startswith("ready"), worker.stderr()
        yield room
    finally:
        room.close()
