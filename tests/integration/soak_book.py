# SPDX-License-Identifier: Apache-2.0
"""The soak's own account: what it asked for, what it got, and what of it must not be. It asks no program what that counts."""

import collections
import json
import threading
import time

CLOCKS_S = 0.5  # by which the soak's clock and the double's may tell a moment differently
BACK_S = 15  # after the death of a broker or a gateway, until all who spoke to it are answered again


class Book:
    """Used by all threads of the soak."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.faults = collections.Counter()
        self.told = []  # the first faults, in words
        self.deaths = []  # (time.time(), program) of what was killed or stopped, `worker`, `broker` or `gateway`
        self.called = set()  # jobs whose answers must have been made by the double
        self.stopping = threading.Event()  # nothing new is asked for
        self.given_up = threading.Event()  # a program is not there any more: nothing is waited for

    def count(self, what, number=1):
        with self.lock:
            self.counts[what] += number

    def fault(self, kind, text):
        with self.lock:
            self.faults[kind] += 1
            if len(self.told) < 30:
                self.told.append(f"{time.strftime('%H:%M:%S')} {kind}: {text}")

    def dies(self, program):
        with self.lock:
            self.deaths.append((time.time(), program))

    def excused(self, since, *programs):
        """Whether what began then may have failed since one of these programs died. A broker and a gateway are missed for a while
        by who comes after their death, too."""
        return any(program in programs and at >= since - (0 if program == "worker" else BACK_S) for at, program in self.deaths)

    def made_by_the_double(self, job):
        with self.lock:
            self.called.add(job)

    def check_calls(self, path, began_at):
        """What the double saw: a call for each job that was answered, and another one only where one who had the job had died.
        `began_at`: the double's start by the soak's clock."""
        calls = collections.defaultdict(list)
        with open(path) as lines:
            for line in lines:
                call = json.loads(line)
                calls[call.get("job", "")].append(began_at + call["t_ms"] / 1000)
                self.count("double: calls")
                self.count("double: hung up on", call["end"] == "hung_up")
                if "leaks" in call:
                    self.fault("leaked to the upstream", line)
        for job in self.called - calls.keys():
            self.fault("answered by nobody", f"{job}: the double saw no call for it")
        for job, times in calls.items():
            times.sort()
            for earlier, later in zip(times, times[1:]):
                if not job:
                    continue
                self.count("double: called again after a death")
                if not any(program != "gateway" and earlier - CLOCKS_S <= at <= later + CLOCKS_S for at, program in self.deaths):
                    self.fault("run twice", f"{job}: called {later - earlier:.1f} s after its last call, and nobody had died")
        return self.called & calls.keys()
