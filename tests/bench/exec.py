#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the handler exec costs, as ratios in one run: a process a job beside a bare loop of posix_spawn(), and a pool
beside echo.

    tests/bench/exec.py [--rounds 5] [--programs 3000] [--jobs 60000]

Broker, worker and client are processes of this machine; the bare loop has no broker, no client and nobody who cleans up
behind its programs. The two of a pair run in turn, and the median of the rounds' ratios counts. Exit 1 where a process a
job has less than 0.7 of the bare loop, or a pool less than 0.3 of echo.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import harness  # noqa: E402

PROGRAM = "/bin/cat"
AT_ONCE = 16  # programs of the bare loop and of the worker
SERVICES = {
    "echo": 'handler = "echo"',
    "process": f'handler = "exec"\nargv = ["{PROGRAM}"]\nstarts_per_second = 100000',
    "pool": f'handler = "exec"\nargv = ["{harness.program("bench_exec")}", "pool"]\nprocesses = 2\njobs_per_process = 512',
}
LEAST = {"process": 0.7, "pool": 0.3}


def said(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def bare(count):
    return float(said(harness.program("bench_exec"), "spawn", "--count", str(count), "--window", str(AT_ONCE), PROGRAM))


def by_lanemq(room, service, count, window):
    return json.loads(said(harness.program("lanemq"), "bench", "--broker", room.broker.clients, "--service", service, "--count",
                           str(count), "--window", str(window), "--json"))["per_second"]


def start_worker(room, folder, capacity, services):
    path = pathlib.Path(folder, f"{services[0]}.toml")
    path.write_text("".join(f'[[service]]\nname = "{name}"\n{SERVICES[name]}\n' for name in services))
    worker = room.start(harness.Process(harness.program("lanemq-worker"), "--broker", room.broker.workers, "--config", str(path),
                                        "--capacity", str(capacity)))
    if not worker.line().startswith("ready"):
        raise AssertionError("a worker did not start: " + worker.stderr())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", type=int, default=3000)
    parser.add_argument("--jobs", type=int, default=60000)
    options = parser.parse_args()
    room, ratios, rates = harness.Room(), {"process": [], "pool": []}, {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            room.start_broker()
            # A worker of as many places as the bare loop has programs, and one for the two others.
            start_worker(room, folder, AT_ONCE, ["process"])
            start_worker(room, folder, 1024, ["echo", "pool"])
            by_lanemq(room, "process", AT_ONCE, AT_ONCE)  # its guards are there
            for _ in range(options.rounds):
                for name, beside, measure in (
                        ("process", lambda: bare(options.programs), lambda: by_lanemq(room, "process", options.programs, 2 * AT_ONCE)),
                        ("pool", lambda: by_lanemq(room, "echo", options.jobs, 1000), lambda: by_lanemq(room, "pool", options.jobs, 1000))):
                    before, ours, after = beside(), measure(), beside()
                    ratios[name].append(2 * ours / (before + after))
                    rates.setdefault(name, []).append((ours, (before + after) / 2))
        except BaseException:
            room.kill()
            room.show_errors()
            raise
        finally:
            room.close()
    well = True
    for name, beside in (("process", "a bare loop of posix_spawn()"), ("pool", "echo")):
        ours, other = (statistics.median(pair[i] for pair in rates[name]) for i in (0, 1))
        ratio = statistics.median(ratios[name])
        well = well and ratio >= LEAST[name]
        print(f"{name}: {ours:.0f} jobs a second beside {other:.0f} of {beside}: {ratio:.2f} (rounds {min(ratios[name]):.2f} to "
              f"{max(ratios[name]):.2f}; at least {LEAST[name]})")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
