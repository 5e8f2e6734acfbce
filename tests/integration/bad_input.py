# SPDX-License-Identifier: Apache-2.0
"""Runs bad_input against a broker of its own; the broker must live on, and stop as it should."""

import argparse
import subprocess
import sys

import harness


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000, help="messages in total, half of them at each socket")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    room = harness.Room()
    try:
        broker = room.start_broker("--log-level", "warning")
        command = [harness.program("bad_input"), "--clients", broker.clients, "--workers", broker.workers]
        command += ["--pid", str(broker.pid), "--frames", str(arguments.frames), "--seed", str(arguments.seed)]
        code = subprocess.run(command).returncode
        if code == 0:
            code = broker.stop()
        if code != 0:
            print(f"exit code {code}; the broker: {broker.process.poll()}\n{broker.stderr()[-4000:]}", file=sys.stderr)
        return code
    finally:
        room.close()


if __name__ == "__main__":
    sys.exit(main())
