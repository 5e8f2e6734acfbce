#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What does the Node package cost, compared with the same loop in bare zeromq.js and msgpack?

    tests/bench/node_sdk.py [--jobs 20000] [--rounds 5] [--window 256]

Starts one broker with one echo worker; node_sdk.mjs, which says how, compares the loops there. Exit 1 where the package has
less than 0.7 of the bare loop's jobs a second."""
import pathlib
import subprocess
import sys

import echo_room

HERE = pathlib.Path(__file__).resolve().parent


def main():
    options = echo_room.options(__doc__)
    numbers = map(str, (options.jobs, options.rounds, options.window))
    with echo_room.echo_room() as room:
        return subprocess.run(["node", HERE / "node_sdk.mjs", room.broker.clients, *numbers]).returncode


if __name__ == "__main__":
    sys.exit(main())
