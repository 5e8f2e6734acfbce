#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Four worker processes with 64 calls in flight each share one upstream's limit; what did the upstream see?

    tests/bench/shared_limit.py [--seconds 180] [--rpm 600] [--tpm 200000] [--window sliding|bucket]

The broker has the same limits as the strict upstream and nothing else to hold it back. With --tpm requests are of all
sizes, and the upstream charges a request's max_tokens at arrival; nobody tells the broker what a prompt has. Exit 1 if
the upstream refused a call, or if less than 95 % of what the limit that binds allowed in that time was used.
"""
import argparse
import json
import pathlib
import random
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import harness  # noqa: E402

WORKERS, CAPACITY, WINDOW = 4, 64, 400
WORDS = "Natalia sold clips to 48 of her friends in April and then she sold half as many clips in May".split()
SIZES = 200  # different requests


def body(prompt, max_tokens):
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": prompt}],
                       "max_tokens": max_tokens}).encode()


def bodies(tpm, seed=1):
    """What is asked, again and again: a short question, or texts of 1 to 800 words with answers of 16 to 512 tokens."""
    if tpm is None:
        return [body("Say something.", 8)]
    draw = random.Random(seed)
    return [body(" ".join(draw.choices(WORDS, k=round(800 ** draw.random()))), draw.randint(16, 512))
            for _ in range(SIZES)]


def upstream_stats(base):
    with urllib.request.urlopen(base + "/stats", timeout=harness.PATIENCE) as answer:
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


def measure(room, seconds, rpm, window, tpm=None):
    """Keeps the broker full for so long and returns the upstream's own figures."""
    limits = ["--rpm", str(rpm)] + (["--tpm", str(tpm)] if tpm else [])
    base = start_upstream(room, *limits, "--window", window, "--latency-ms", "50..400")
    settings = [f"requests_per_minute={rpm}", f"window={window}"]
    if tpm:
        settings += [f"tokens_per_minute={tpm}", "output=max_tokens"]
    room.start_broker(*(word for setting in settings for word in ("--set", f"budget.api.{setting}")))
    for _ in range(WORKERS):
        start_worker(room, f"chat=http:{base}/v1/chat/completions", "--capacity", str(CAPACITY))
    client = room.client()
    asked = bodies(tpm)
    sent = done = failed = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        while sent - done < WINDOW:
            client.send("submit", {"service": "chat", "lane": "batch", "ref": sent}, asked[sent % len(asked)])
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
    parser.add_argument("--tpm", type=int)
    parser.add_argument("--window", choices=("sliding", "bucket"), default="sliding")
    options = parser.parse_args()
    room = harness.Room()
    try:
        stats, failed = measure(room, options.seconds, options.rpm, options.window, options.tpm)
    finally:
        room.close()
    minutes = options.seconds / 60
    limits, peaks = f"{options.rpm} calls", f"{stats['peak_calls_60s']} calls"
    used = stats["ok"] / (options.rpm * minutes)
    if options.tpm:
        limits += f" and {options.tpm} tokens"
        peaks += f" and {stats['peak_tokens_60s']} tokens"
        used = max(used, stats["tokens"]["charged"] / (options.tpm * minutes))
    print(f"{options.seconds:.0f} s at {limits} a minute ({options.window}), {WORKERS} workers x {CAPACITY}: "
          f"{stats['calls']} calls, {stats['rejected_429']} refused, peak {peaks} in 60 s, "
          f"{100 * used:.1f} % of the limit used, {failed} jobs failed")
    return 0 if stats["rejected_429"] == 0 and used >= 0.95 and failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
