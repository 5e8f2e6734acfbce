#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays a trace of real chat requests through the real programs, faster than it happened, as mixed load.

    tests/bench/trace_replay.py TRACE.csv [--speed 20] [--rows 2000] [--rpm 6000]

The trace has a line for each request: TIMESTAMP,ContextTokens,GeneratedTokens (the Azure LLM inference trace of 2023).
Every fourth request is interactive (lane critical), the others are bulk (lane batch); each carries a prompt and a
max_tokens of its real size. Prints what each lane waited and what the upstream saw.
"""
import argparse
import csv
import datetime
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import shared_limit  # noqa: E402
from shared_limit import harness  # noqa: E402

INTERACTIVE_EVERY = 4
BYTES_PER_TOKEN = 4


def read_trace(path, rows):
    """(seconds since the first, prompt tokens, answer tokens) of the first rows."""
    requests, first = [], None
    with open(path) as file:
        for row in csv.DictReader(file):
            when = datetime.datetime.fromisoformat(row["TIMESTAMP"][:26])
            first = first or when
            requests.append(((when - first).total_seconds(), int(row["ContextTokens"]), int(row["GeneratedTokens"])))
            if len(requests) == rows:
                break
    return requests


def body_of(prompt_tokens, answer_tokens):
    text = "lorem " * (prompt_tokens * BYTES_PER_TOKEN // 6 + 1)
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": text}],
                       "max_tokens": max(answer_tokens, 1)}).encode()


def replay(room, requests, speed):
    client = room.client()
    begun = time.monotonic()
    done, failed = 0, {}
    for number, (when, prompt, answer) in enumerate(requests):
        while (left := begun + when / speed - time.monotonic()) > 0:
            room.keep_alive(min(left, 0.02))
        lane = "critical" if number % INTERACTIVE_EVERY == 0 else "batch"
        client.send("submit", {"service": "chat", "lane": lane, "ref": number}, body_of(prompt, answer))
    while done < len(requests):
        message = client.get(patience=600)
        done += 1
        if message.op != "result":
            failed[message.fields.get("code")] = failed.get(message.fields.get("code"), 0) + 1
    return time.monotonic() - begun, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--speed", type=float, default=20, help="times faster than it happened")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--rpm", type=int, default=6000)
    options = parser.parse_args()
    requests = read_trace(options.trace, options.rows)
    room = harness.Room()
    try:
        base = shared_limit.start_upstream(room, "--rpm", str(options.rpm), "--latency-ms", "100..900")
        room.start_broker("--set", f"budget.api.requests_per_minute={options.rpm}")
        for _ in range(2):
            shared_limit.start_worker(room, f"chat=http:{base}/v1/chat/completions", "--capacity", "64")
        shared_limit.start_worker(room, f"chat=http:{base}/v1/chat/completions", "--capacity", "32", "--lanes", "critical")
        seconds, failed = replay(room, requests, options.speed)
        stats, upstream = room.stats(), shared_limit.upstream_stats(base)
    finally:
        room.close()
    print(f"{len(requests)} requests of {requests[-1][0]:.0f} s of trace in {seconds:.1f} s (speed {options.speed:g}), "
          f"failed {sum(failed.values())} {failed or ''}")
    print("lane       done  wait p50 ms  wait p99 ms  wait max ms  run p50 ms")
    for lane in ("critical", "batch"):
        row = stats["lanes"][lane]
        print(f"{lane:<9} {row['succeeded']:>5}  {row['wait_ms']['p50']:>11.1f}  {row['wait_ms']['p99']:>11.1f}  "
              f"{row['wait_ms']['max']:>11.1f}  {row['run_ms']['p50']:>10.1f}")
    print(f"upstream: {upstream['calls']} calls, {upstream['rejected_429']} 429s, "
          f"peak {upstream['peak_calls_60s']} in a minute, limit {options.rpm}")
    return 1 if failed or upstream["rejected_429"] else 0


if __name__ == "__main__":
    sys.exit(main())
