#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of the handler exec while everything about them is killed: each job is answered once, and nothing is left.

    tests/integration/exec_storm.py [--jobs 10000] [--seed 1]

A worker runs a program for each job, with a child in the program's group and one in a session of its own, and a pool of
processes. While jobs are under way SIGKILL goes to programs, to what they have started, to guards and the keeper, and to
the worker itself. This process is the subreaper of them all: who loses its parent is seen below it.
"""
import argparse
import collections
import os
import random
import signal
import sys

import harness
from test_exec import Exec, ExecWorker, descendants, parents, reap

AT_ONCE = 48
JOB = 'sleep 1000 & setsid sleep 1000 & sleep 0.0$((LANEMQ_JOB % 5)); exec cat'
POOL = """import json, signal, subprocess, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a child of its own that is killed is no zombie
subprocess.Popen(["sleep", "1000"], start_new_session=True)
for line in sys.stdin:
    job = json.loads(line)
    if job["op"] == "job":
        print(json.dumps({"op": "result", "job": job["job"], "attempt": job["attempt"], "body": job["body"]}), flush=True)
"""
SERVICES = {"program": f"argv = [\"sh\", \"-c\", '''{JOB}''']", "pool": f"argv = [\"/usr/bin/python3\", \"-c\", '''{POOL}''']\nprocesses = 4"}


def state_of(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


class Storm(Exec):
    # A job may be run as often as it takes, and a service tried as often: what ends a job here is its answer.
    arguments = (*harness.STEADY, "--set", "crash_max=1000000", "--set", "workers_max=100000")

    def start_worker(self):
        self.worker = ExecWorker(self.room, SERVICES, "--capacity", str(AT_ONCE))

    def strike(self, chance):
        """Kills one of the worker's processes, or the worker."""
        known = parents()
        below = sorted(descendants(self.worker.pid))
        kind = chance.choices(("any below it", "eight of the programs", "worker"), (90, 6, 4))[0]
        if kind == "worker" or not below:
            self.worker.signal(signal.SIGKILL)
            self.worker.wait()
            self.room.processes.remove(self.worker)
            self.worker.close()
            reap.known.discard(self.worker.pid)
            self.start_worker()
            return "worker"
        programs = sorted(self.worker.programs())
        victims = chance.sample(programs, min(len(programs), 8)) if kind == "eight of the programs" else [chance.choice(below)]
        for victim in victims:
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                continue
            if known.get(victim) == self.worker.pid:
                # Nobody is promised anything where keeper and guard are killed at once: its guards have seen it.
                guards = {child for child, parent in known.items() if parent == victim}
                harness.wait_until(lambda: (reap(), not guards & set(parents()))[1], "the end of a killed keeper's guards")
                kind = "keeper"
        reap()
        return kind

    def settle(self):
        """Waits until the worker's programs and orphans are gone: keeper, guards and the pool are left, none of them dead."""
        pool = 8  # four processes, and what each has started
        guards = lambda: descendants(self.worker.pid) - self.worker.programs()
        strays = lambda: descendants(os.getpid(), reap.known | descendants(self.worker.pid))
        try:
            harness.wait_until(lambda: (reap(), len(self.worker.programs()) <= pool and not strays())[1], "the end of the jobs' processes")
        except harness.Timeout as late:
            os.system("ps -eo pid,ppid,sid,stat,comm,args --forest | tail -80 >&2")
            raise AssertionError(f"{late}: {self.worker.programs()} of the worker, {strays()} of nobody") from late
        dead = [process for process in descendants(self.worker.pid) if state_of(process) == "Z"]
        self.assertEqual(dead, [], "zombies")
        return len(guards())

    def storm(self, jobs, seed, every):
        chance, self.answers = random.Random(seed), collections.Counter()
        self.start_worker()
        kills, ends, sent, answered, wrong = collections.Counter(), collections.Counter(), 0, 0, []
        while answered < jobs:
            while sent < jobs and sent - answered < AT_ONCE:
                service = "pool" if sent % 4 == 3 else "program"
                self.client.submit(service, b"body %d" % sent, id=f"job-{sent}", attempts_max=1000)
                sent += 1
            message = self.client.get(patience=5 * harness.PATIENCE)
            answered += 1
            self.answers[message.fields["id"]] += 1
            ends[message.op if message.op == "result" else message.fields["code"]] += 1
            if message.op == "result" and message.body != b"body " + message.fields["id"].removeprefix("job-").encode():
                wrong.append(message)
            if answered % every == 0:
                kills[self.strike(chance)] += 1
        self.assertEqual(wrong, [])
        self.assertEqual(len(self.answers), jobs)
        self.assertEqual(set(self.answers.values()), {1})
        self.assertTrue(self.client.silent(0.2), "an answer came twice")
        self.assertLessEqual(set(ends), {"result", "upstream_failed", "worker_lost"})
        return kills, ends

    def same_descriptors(self, rounds):
        """A worker whose guards are all there has as many descriptors after so many jobs, and kills, as before."""
        def all_at_once(count, kill):
            for i in range(count):
                self.client.submit("program", b"x", id=f"{kill}-{i}-{os.urandom(4).hex()}", attempts_max=1)
            for i in range(count):
                self.client.get(patience=5 * harness.PATIENCE)
                if kill and i % 10 == 0:
                    for victim in sorted(self.worker.programs())[:3]:
                        try:
                            os.kill(victim, signal.SIGKILL)
                        except ProcessLookupError:
                            pass
        all_at_once(3 * AT_ONCE, False)
        self.settle()
        before = self.worker.descriptors()
        all_at_once(rounds, True)
        self.settle()
        harness.wait_until(lambda: self.worker.descriptors() <= before, f"{before} descriptors, as before")
        return before, self.worker.descriptors()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10000)
    parser.add_argument("--every", type=int, default=8, help="answers between two kills")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    case = Storm()

    def work():
        kills, ends = case.storm(options.jobs, options.seed, options.every)
        guards = case.settle()
        before, after = case.same_descriptors(options.jobs // 10)
        case.worker.signal(signal.SIGTERM)
        case.assertEqual(case.worker.wait(), 0)
        case.nothing_is_left()
        print(f"seed {options.seed}: {options.jobs} jobs answered once each ({', '.join(f'{count} {what}' for what, count in sorted(ends.items()))}); "
              f"{sum(kills.values())} kills ({', '.join(f'{count} {what}' for what, count in sorted(kills.items()))}); 0 zombies, 0 survivors; "
              f"{guards} of keeper and guards; descriptors {before} before, {after} after")

    harness.run_alone(case, work)


if __name__ == "__main__":
    sys.exit(main())
