#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends a file of real prompts through `lanemq run`, in OpenAI's batch format, and shows what came of it.

    tests/bench/prompts.py PROMPTS.jsonl [--rpm 6000]     a line each with a `question` (GSM8K and the like)
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import shared_limit  # noqa: E402
from shared_limit import harness  # noqa: E402


def write_batch(prompts, path):
    """Writes the prompts in OpenAI's batch format and returns how many there are."""
    count = 0
    with open(prompts) as lines, open(path, "w") as out:
        for count, line in enumerate(lines, 1):
            body = {"model": "gpt-4o-mini", "max_tokens": 256,
                    "messages": [{"role": "user", "content": json.loads(line)["question"]}]}
            out.write(json.dumps({"custom_id": f"prompt-{count}", "method": "POST", "url": "/v1/chat/completions",
                                  "body": body}) + "\n")
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompts")
    parser.add_argument("--rpm", type=int, default=6000)
    options = parser.parse_args()
    room = harness.Room()
    try:
        with tempfile.TemporaryDirectory() as folder:
            batch, answers = f"{folder}/batch.jsonl", f"{folder}/answers.jsonl"
            count = write_batch(options.prompts, batch)
            base = shared_limit.start_upstream(room, "--rpm", str(options.rpm), "--latency-ms", "100..600")
            room.start_broker("--set", f"budget.api.requests_per_minute={options.rpm}")
            shared_limit.start_worker(room, f"chat=http:{base}/v1/chat/completions", "--capacity", "128")
            begun = time.monotonic()
            code = subprocess.run([harness.program("lanemq"), "--broker", room.broker.clients, "run", batch, "--service",
                                   "chat", "--lane", "batch", "--window", "256", "--out", answers]).returncode
            seconds = time.monotonic() - begun
            with open(answers) as lines:
                good = sum(json.loads(line)["error"] is None for line in lines)
            upstream = shared_limit.upstream_stats(base)
    finally:
        room.close()
    print(f"{count} prompts in {seconds:.1f} s: {good} answered, exit code {code}; upstream: {upstream['calls']} calls, "
          f"{upstream['rejected_429']} 429s, peak {upstream['peak_calls_60s']} in a minute, limit {options.rpm}")
    return 0 if code == 0 and good == count and upstream["rejected_429"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
