# SPDX-License-Identifier: Apache-2.0
"""Shows LaneMQ's main job: bulk work and interactive requests share one upstream and its rate limit.

Starts a stand-in for a model API (or uses a real one), the broker, general workers and one reserved for the critical
lane; then several processes send at once: one a bulk file through `lanemq run`, others single requests. A table tells
what each lane saw and what the upstream saw. Then the same through the HTTP front door, as AI SDKs use it: answers are
read along as they stream while a batch of prompts runs behind them. Nothing is left running.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import front_door
import serve
from programs import BIN, Programs

FRONT_DOOR_RPM = 6000  # what the stand-in behind the front door allows
FRONT_DOOR_PROMPTS = 1319


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/run", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true",
                        help="start one of each program, print what to type in a second terminal, and stop at Ctrl-C")
    parser.add_argument("--free-ports", action="store_true", help="with --serve: on free ports, not on 5570, 5571 and 8080")
    parser.add_argument("--rpm", type=int, default=600, help="the upstream's requests per minute (600)")
    parser.add_argument("--bulk", type=int, default=None, help="jobs in the bulk file (200; 10 with a real upstream)")
    parser.add_argument("--interactive", type=int, default=None,
                        help="critical and normal requests beside it (30 each; 3 with a real upstream)")
    parser.add_argument("--prompts", metavar="FILE.jsonl",
                        help="the batch behind the streams: lines with a `question` (1319 made-up ones; 10 with a real "
                             "upstream)")
    parser.add_argument("--keep", metavar="DIR",
                        help="keep the logs, the bulk file and its answers here; with --serve jobs, batches and logs "
                             "(~/.local/state/lanemq-serve)")
    parser.epilog = ("With LANEMQ_UPSTREAM_URL (an OpenAI-compatible .../v1/chat/completions) or OPENAI_API_KEY set, the "
                     "real upstream is called instead of the stand-in; LANEMQ_MODEL names the model (gpt-4o-mini).")
    return parser.parse_args()


class Upstream:
    """What the workers call: the stand-in, or a real API."""

    def __init__(self, programs, options):
        self.base = self.streaming = None
        self.model = os.environ.get("LANEMQ_MODEL", "gpt-4o-mini")
        self.headers = []
        self.url = os.environ.get("LANEMQ_UPSTREAM_URL", "")
        if os.environ.get("OPENAI_API_KEY"):
            self.url = self.url or "https://api.openai.com/v1/chat/completions"
            self.headers = ["--http-header", "Authorization: Bearer env:OPENAI_API_KEY"]
        self.real = bool(self.url)
        if not self.real:
            self.base = programs.start("upstream", BIN / "lanemq-upstream", "--rpm", options.rpm, "--window", "sliding",
                                       "--latency-ms", "200..900", "--log", programs.folder / "upstream.jsonl")
            self.url = self.base + "/v1/chat/completions"
            # What streams is another account, with more calls a minute.
            self.streaming = programs.start("upstream-2", BIN / "lanemq-upstream", "--rpm", FRONT_DOOR_RPM, "--window",
                                            "sliding", "--latency-ms", "200..900", "--token-ms", "20")
            self.streaming_base = self.streaming + "/v1"
        else:
            self.streaming_base = self.url.removesuffix("/chat/completions")

    def view(self, base):
        """The stand-in's own figures; none of a real API."""
        if self.real:
            return None
        with urllib.request.urlopen(base + "/stats", timeout=5) as answer:
            return json.load(answer)


def chat_body(model, text, tokens):
    return {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": tokens}


def write_bulk_file(path, count, model):
    """A file in OpenAI's batch format."""
    with open(path, "w") as out:
        for number in range(count):
            body = chat_body(model, f"Summarise document {number} in one sentence.", 32)
            line = {"custom_id": f"document-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}
            out.write(json.dumps(line) + "\n")


def send_interactive(broker, lane, count, model, seed, failures):
    """Single requests, a process each, as a web server's workers would send them."""
    pauses = random.Random(seed)
    for number in range(count):
        time.sleep(pauses.uniform(0.1, 0.6))  # as users come
        body = json.dumps(chat_body(model, f"Question {number} of a user who waits.", 16))
        command = [BIN / "lanemq", "--broker", broker, "submit", "--service", "chat", "--lane", lane,
                   "--model", model, body]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            failures.append(f"{lane}: {result.stderr.strip()}")


def read_stats(broker):
    result = subprocess.run([BIN / "lanemq", "--broker", broker, "stats", "--json"], capture_output=True, text=True)
    return json.loads(result.stdout) if result.returncode == 0 else None


def show_progress(broker, begun):
    stats = read_stats(broker)
    if stats is None or not sys.stderr.isatty():
        return
    lanes = stats["lanes"]
    parts = [f"{name} {lane['succeeded']} done {lane['queued'] + lane['delayed']} waiting {lane['running']} running"
             for name, lane in lanes.items() if lane["accepted"]]
    sys.stderr.write(f"\r\x1b[K{time.monotonic() - begun:5.1f} s   " + "   ".join(parts))
    sys.stderr.flush()


def milliseconds(value):
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def print_table(stats):
    columns = ("lane", "done", "failed", "wait p50 ms", "wait p99 ms", "wait max ms", "run p50 ms")
    rows = [columns]
    for name, lane in stats["lanes"].items():
        wait, run = lane["wait_ms"], lane["run_ms"]
        rows.append((name, lane["succeeded"], lane["failed"], milliseconds(wait["p50"]), milliseconds(wait["p99"]),
                     milliseconds(wait["max"]), milliseconds(run["p50"])))
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(columns))]
    for row in rows:
        print(f"{row[0]:<{widths[0]}}" + "".join(f"  {str(cell):>{width}}" for cell, width in zip(row[1:], widths[1:])))


def print_upstream(view, rpm):
    if view is None:
        print("upstream: a real API; it keeps its own figures")
        return
    print(f"upstream: {view['calls']} calls, {view['rejected_429']} 429s, "
          f"peak {view['peak_calls_60s']} calls in a minute, limit {rpm}")


def show(programs, upstream, broker, options):
    bulk = options.bulk if options.bulk is not None else (10 if upstream.real else 200)
    interactive = options.interactive if options.interactive is not None else (3 if upstream.real else 30)
    bulk_file = programs.folder / "bulk.jsonl"
    write_bulk_file(bulk_file, bulk, upstream.model)
    print(f"sending at once: {bulk} bulk jobs in lane batch, {interactive} requests each in lanes critical and normal; "
          f"{'a real upstream' if upstream.real else f'the upstream allows {options.rpm} calls a minute'}", flush=True)
    failures = []
    begun = time.monotonic()
    run = subprocess.Popen([BIN / "lanemq", "--broker", broker, "run", bulk_file, "--service", "chat", "--lane", "batch",
                            "--window", "200", "--quiet", "--out", programs.folder / "bulk.out.jsonl"],
                           stderr=subprocess.PIPE, text=True)
    senders = [threading.Thread(target=send_interactive, args=(broker, lane, interactive, upstream.model, seed, failures))
               for seed, lane in enumerate(("critical", "normal"))]
    for sender in senders:
        sender.start()
    while run.poll() is None or any(sender.is_alive() for sender in senders):
        show_progress(broker, begun)
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.wait(0.25)
        for sender in senders if run.poll() is not None else ():
            sender.join(0.25)
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    if run.returncode != 0:
        failures.append("batch: " + run.stderr.read().strip())
    print(f"took {time.monotonic() - begun:.1f} s\n")
    print_table(read_stats(broker))
    print_upstream(upstream.view(upstream.base), options.rpm)
    for failure in failures[:5]:
        print("failed: " + failure, file=sys.stderr)
    return 1 if failures else 0


def show_front_door(upstream, gateway, options):
    if options.prompts:
        prompts = front_door.prompts_of(options.prompts)
    else:
        prompts = front_door.made_up_prompts(10 if upstream.real else FRONT_DOOR_PROMPTS)
    failures = front_door.show(gateway, upstream.model, prompts)
    print_upstream(upstream.view(upstream.streaming), FRONT_DOOR_RPM)
    for failure in failures:
        print("failed: " + failure, file=sys.stderr)
    return 1 if failures else 0


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.serve:
        return serve.serve(options)
    folder = pathlib.Path(options.keep or tempfile.mkdtemp(prefix="lanemq-run-"))
    folder.mkdir(parents=True, exist_ok=True)
    programs = Programs(folder)
    try:
        upstream = Upstream(programs, options)
        ready = programs.start("broker", BIN / "lanemq-broker", "--clients", "tcp://127.0.0.1:*",
                               "--workers", "tcp://127.0.0.1:*", "--admin", "tcp://127.0.0.1:*", "--store", "memory",
                               "--set", "budget.upstream.match.service=chat",
                               "--set", f"budget.upstream.requests_per_minute={options.rpm}",
                               "--set", "budget.front-door.match.service=openai",
                               "--set", f"budget.front-door.requests_per_minute={FRONT_DOOR_RPM}")
        endpoints = dict(part.split("=", 1) for part in ready.split())
        worker = [BIN / "lanemq-worker", "--broker", endpoints["workers"], "--service", f"chat=http:{upstream.url}",
                  *upstream.headers]
        for number in (1, 2):
            programs.start(f"general-{number}", *worker, "--name", f"general-{number}", "--capacity", "16")
        programs.start("reserved", *worker, "--name", "reserved", "--capacity", "8", "--lanes", "critical")
        programs.start("front-door", BIN / "lanemq-worker", "--broker", endpoints["workers"], "--name", "front-door",
                       "--service", f"openai=openai:{upstream.streaming_base}", "--capacity", "64")
        gateway = programs.start("gateway", BIN / "lanemq-gateway", "--broker", endpoints["clients"], "--listen",
                                 "127.0.0.1:0", "--state", folder / "gateway")
        return show(programs, upstream, endpoints["clients"], options) or show_front_door(upstream, gateway, options)
    finally:
        programs.stop()
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
