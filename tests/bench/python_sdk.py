#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What does the Python package cost, compared with the same loop in bare pyzmq and msgpack?

    tests/bench/python_sdk.py [--jobs 20000] [--rounds 5] [--window 256]

Both keep `--window` jobs of 100 bytes under way at one broker with one echo worker, and wait for all answers: the package
by `Client.map`, the bare loop by one DEALER socket, one message for each job, `ref`s and nothing else. They take turns,
`--rounds` each, and the medians are compared; a bare loop that makes batches by itself is shown beside them. Exit 1 where
the package has less than 0.7 of the bare loop's jobs a second.
"""
import asyncio
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client/python"))
import echo_room  # noqa: E402
import zmq  # noqa: E402
from lanemq import AsyncClient, Client  # noqa: E402
from msgpack import packb, unpackb  # noqa: E402

LEAST = 0.7
BODY = b"x" * 100


def bare(endpoint, jobs, window):
    """One message for each job."""
    socket = zmq.Context.instance().socket(zmq.DEALER)
    socket.connect(endpoint)
    begun, sent, answers = time.monotonic(), 0, {}
    while len(answers) < jobs:
        while sent < jobs and sent - len(answers) < window:
            socket.send(packb(("LMQ1", "submit", {"service": "echo", "id": f"{begun}-{sent}", "ref": sent}, BODY)))
            sent += 1
        header, *rest = socket.recv_multipart()
        _, op, fields, *inside = unpackb(header)
        assert op == "result", fields
        answers[fields["ref"]] = (inside or rest)[0]
    took = time.monotonic() - begun
    socket.close(linger=0)
    assert all(answers[ref] == BODY for ref in range(jobs))
    return jobs / took


def bare_batches(endpoint, jobs, window):
    """All that there is room for in one message."""
    socket = zmq.Context.instance().socket(zmq.DEALER)
    socket.connect(endpoint)
    begun, sent, answers = time.monotonic(), 0, {}
    while len(answers) < jobs:
        if room := min(jobs - sent, window - (sent - len(answers)), 256):
            maps = [{"id": f"{begun}-{sent + at}", "ref": sent + at} for at in range(room)]
            maps[0] |= {"service": "echo", "batch": 256}
            socket.send(packb(("LMQ1", "submit", maps, [BODY] * room)))
            sent += room
        header, *rest = socket.recv_multipart()
        _, op, fields, *inside = unpackb(header)
        if isinstance(fields, dict):
            fields, inside = [fields], [[(inside or rest)[0]]]
        for each, body in zip(fields, inside[0]):
            answers[each["ref"]] = body
    took = time.monotonic() - begun
    socket.close(linger=0)
    assert all(answers[ref] == BODY for ref in range(jobs))
    return jobs / took


def package(endpoint, jobs, window):
    with Client(endpoint) as client:
        begun, count = time.monotonic(), 0
        for answer in client.map("echo", (BODY for _ in range(jobs)), window=window, progress=False):
            assert answer.body == BODY
            count += 1
        assert count == jobs
        return jobs / (time.monotonic() - begun)


def package_asyncio(endpoint, jobs, window):
    async def run():
        async with AsyncClient(endpoint) as client:
            begun, count = time.monotonic(), 0
            async for answer in client.map("echo", (BODY for _ in range(jobs)), window=window, progress=False):
                assert answer.body == BODY
                count += 1
            assert count == jobs
            return jobs / (time.monotonic() - begun)

    return asyncio.run(run())


def main():
    options = echo_room.options(__doc__)
    loops = {"bare": bare, "bare, batches": bare_batches, "package": package, "package, asyncio": package_asyncio}
    rates = {name: [] for name in loops}
    with echo_room.echo_room() as room:
        for _ in range(options.rounds):
            for name, loop in loops.items():
                rates[name].append(loop(room.broker.clients, options.jobs, options.window))
    medians = {name: statistics.median(each) for name, each in rates.items()}
    for name, each in rates.items():
        print(f"{name:17} {medians[name]:8.0f} jobs/s   {medians[name] / medians['bare']:5.2f} of bare   "
              f"({min(each):.0f} to {max(each):.0f})")
    return 0 if medians["package"] >= LEAST * medians["bare"] else 1


if __name__ == "__main__":
    sys.exit(main())
