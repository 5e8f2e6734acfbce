#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Workers are restarted in turn and the broker is killed, at full load: did the upstream see more than its limit?

    tests/bench/strict_restarts.py [--seconds 150] [--rpm 300] [--window sliding|bucket] [--roll 4] [--kill-every 2]

Four workers call a strict upstream that counts for itself and answers slowly, so that each restart comes while calls
are under way. `--roll` times, over the time that it lasts, all workers are restarted one after the other (SIGTERM, and
`bye` with calls under way 0.2 s later); every `--kill-every` seconds the broker is killed (SIGKILL) and started again on
its store. 0 leaves out the one or the other. In the end `lanemq-upstream --check` reads the log of the calls. Exit 1
where any window of the upstream's had more calls than its limit (of a bucket: and its burst), where it refused one, or
where less than a quarter of the limit was used: then this proves nothing.
"""
import argparse
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import harness  # noqa: E402

WORKERS, CAPACITY, WAITING = 4, 32, 200
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Say something."}], "max_tokens": 8}).encode()


class Stage:
    """An upstream, workers that can be restarted, and a broker that can be killed."""

    def __init__(self, room, folder, options):
        self.room, self.folder, self.options = room, folder, options
        self.log = f"{folder}/calls.jsonl"
        self.limits = ["--rpm", str(options.rpm), "--window", options.window]
        upstream = room.start(harness.Process(harness.program("lanemq-upstream"), *self.limits, "--log", self.log,
                                              "--latency-ms", "500..20000"))
        self.base = upstream.line().removeprefix("ready ").strip()
        self.upstream = upstream
        self.endpoints = harness.fixed_endpoints()
        self.kills = self.restarts = 0
        self.start_broker()
        self.workers = [self.start_worker() for _ in range(WORKERS)]

    def start_broker(self):
        self.room.start_broker("--store", f"sqlite:{self.folder}/store.db",
                               "--set", f"budget.api.requests_per_minute={self.options.rpm}",
                               "--set", f"budget.api.window={self.options.window}", "--set", "crash_max=1000",
                               **self.endpoints)

    def kill_broker(self):
        self.room.broker.kill()
        self.kills += 1
        self.start_broker()

    def start_worker(self):
        return self.room.start(harness.Process(
            harness.program("lanemq-worker"), "--broker", self.endpoints["workers"], "--capacity", str(CAPACITY),
            "--drain-timeout", "200ms", "--service", f"chat=http:{self.base}/v1/chat/completions"))

    def restart_worker(self):
        worker = self.workers.pop(0)
        worker.signal(signal.SIGTERM)
        worker.wait()
        self.restarts += 1
        self.workers.append(self.start_worker())

    def calls(self):
        with urllib.request.urlopen(self.base + "/stats", timeout=harness.PATIENCE) as answer:
            return json.load(answer)


def run(stage, options):
    """Keeps the broker full while it all happens."""
    client = stage.room.client()
    began = time.monotonic()
    end = began + options.seconds
    rolled = WORKERS * options.roll
    restarts = [began + (i + 1) * options.seconds / (rolled + 1) for i in range(rolled)]
    kills = [began + (i + 1) * options.kill_every
             for i in range(int(options.seconds / options.kill_every))] if options.kill_every else []
    sent, asked_at = 0, 0.0
    while (now := time.monotonic()) < end:
        if restarts and now >= restarts[0]:
            restarts.pop(0)
            stage.restart_worker()
        if kills and now >= kills[0]:
            kills.pop(0)
            stage.kill_broker()
        if now - asked_at > 0.5:  # a broker that was killed may have heard of none of them
            asked_at = now
            lane = stage.room.stats()["lanes"]["normal"]
            for _ in range(max(0, WAITING - lane["queued"] - lane["delayed"])):
                sent += 1
                client.send("submit", {"service": "chat", "id": f"j{sent}", "reply": "accepted", "durable": True,
                                       "timeout_ms": 3_600_000, "attempts_max": 1000}, BODY)
        stage.room.keep_alive(0.05)
        client.inbox.clear()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--rpm", type=int, default=300)
    parser.add_argument("--window", choices=("sliding", "bucket"), default="sliding")
    parser.add_argument("--roll", type=int, default=4)
    parser.add_argument("--kill-every", type=float, default=2)
    options = parser.parse_args()
    room = harness.Room()
    with tempfile.TemporaryDirectory() as folder:
        try:
            stage = Stage(room, folder, options)
            run(stage, options)
            stats = stage.calls()
        except BaseException:
            room.kill()
            room.show_errors()
            raise
        finally:
            room.close()
        # In any minute a bucket lets its burst through besides, a tenth.
        most = options.rpm if options.window == "sliding" else options.rpm * 11 // 10
        check = subprocess.run([harness.program("lanemq-upstream"), "--check", stage.log, "--rpm", str(most)],
                               capture_output=True, text=True, timeout=60)
    used = stats["calls"] / (options.rpm * max(options.seconds, 60) / 60)
    print(check.stdout + check.stderr, end="")
    print(f"{options.seconds:.0f} s at {options.rpm} calls a minute ({options.window}): {stats['calls']} calls, "
          f"{stats['rejected_429']} refused, {stage.restarts} restarts of workers, {stage.kills} kills of the broker, "
          f"{100 * used:.0f} % of the limit used")
    return 0 if check.returncode == 0 and stats["rejected_429"] == 0 and used >= 0.25 else 1


if __name__ == "__main__":
    sys.exit(main())
