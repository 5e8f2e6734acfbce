#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Four worker processes with 64 calls in flight each share one upstream's limit; what did the upstream see?

    tests/bench/shared_limit.py [--seconds 180] [--rpm 600] [--window sliding|bucket]

The broker has the same limit as the strict upstream and nothing else to hold it back. Exit 1 if the upstream refused a
call, or if less than 95 % of what it allowed in that time was used.
"""
import argparse
import json
import pathlib
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import harness  # noqa: E402

WORKERS, CAPACITY, WINDOW = 4, 64, 400
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Say something."}], "max_tokens": 8}).encode()


def upstream_stats(base):
    with urllib.request.urlopen(base + "/stats", timeout=5) as answer:
        return json.load(answer)


def start_upstream(room, *arguments):
    upstream = room.start(harness.Process(harness.program("lanemq-upstream"), *arguments))
    return upstream.line().removeprefix("ready ").strip()


def start_worker(room, service, *arguments):
    worker = room.start(harness.Process(harness.program("lanemq-worker"), "--broker", room.broker.workers,
                                        "--service", service, *arguments))
    if not worker.line().startswith("ready"):
        raise AssertionError("a worker did not start: " + worker.stderr())
    return worker


def measure(room, seconds, rpm, window):
    """Keeps the broker full for so long and returns the upstream's own figures."""
    base = start_upstream(room, "--rpm", str(rpm), "--window", window, "--latency-ms", "50..400")
    room.start_broker("--set", f"budget.api.requests_per_minute={rpm}", "--set", f"budget.api.window={window}")
    for _ in range(WORKERS):
        start_worker(room, f"chat=http:{base}/v1/chat/completions", "--capacity", str(CAPACITY))
    client = room.client()
    sent = done = failed = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        while sent - done < WINDOW:
            client.send("submit", {"service": "chat", "lane": "batch", "ref": sent}, BODY)
            sent += 1
        room.keep_alive(0.05)
        while client.inbox:
            failed += client.inbox.popleft().op != "result"
            done += 1
    return upstream_stats(base), failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--rpm", type=int, default=600)
    parser.add_argument("--window", choices=("sliding", "bucket"), default="sliding")
    options = parser.parse_args()
    room = harness.Room()
    try:
        stats, failed = measure(room, options.seconds, options.rpm, options.window)
    finally:
        room.close()
    allowed = options.rpm * options.seconds / 60
    used = stats["ok"] / allowed
    print(f"{options.seconds:.0f} s at {options.rpm} calls a minute ({options.window}), {WORKERS} workers x {CAPACITY}: "
          f"{stats['calls']} calls, {stats['rejected_429']} refused, peak {stats['peak_calls_60s']} in 60 s, "
          f"{100 * used:.1f} % of the limit used, {failed} jobs failed")
    return 0 if stats["rejected_429"] == 0 and used >= 0.95 and failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
