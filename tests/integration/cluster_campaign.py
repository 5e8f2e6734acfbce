#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Two brokers on one store in PostgreSQL, a primary and its synchronous standby, and trouble of each kind, again and again.

Each round brings one trouble (cluster_troubles.py) under load, waits until everything goes on, and starts again what has
ended. Ten rounds are an act, which begins with an empty store and ends when the answer of each job was fetched again. Counted is
as kill_broker.py does: attempt, acked, ok, lost, recovered, unexpected, duplicated, stale, exec_dup. Besides: `late`,
hand-overs of a former owner that were on their way when it stood still, of jobs that the new owner had handed over again; `audit`, by the
database's word alone, commits that are missing from an epoch or come after a later one; `broken`, an act that came to no end.

Exit 1 where anything was lost, unexpected or duplicated, or of these; and where half of a kind took longer than is promised,
unless a busy machine is to be forgiven (--any-time).
"""

import argparse
import collections
import os
import random
import signal
import statistics
import sys
import time
import unittest

import cluster_troubles
import test_cluster
from cluster_stage import Stage
from postgres_pair import Pair

SKIPPED = 77
ROUNDS_IN_ACT = 10
# Threads of the proxies take turns with those who count: a commit passes by two of them each way.
SWITCH_SECONDS = 0.0005


def plan(rounds, kinds, chance):
    """Each kind once, in any order, and so on."""
    drawn = []
    while len(drawn) < rounds:
        drawn += chance.sample(kinds, len(kinds))
    return drawn[:rounds]


def act(pair, number, kinds, options, times, counts):
    """Returns the faults."""
    stage = Stage(pair, number, options.seed * 1000 + number, options)
    began, kind = time.monotonic(), "the beginning"
    try:
        stage.begin()
        for kind in kinds:
            since = time.monotonic()
            delay = stage.random.choice((0, 0, 0.001, 0.004))
            for way in (way for machine in stage.machines for way in machine.ways):
                way.delay = delay
            cluster_troubles.KINDS[kind](stage)
            stage.end_round()
            if options.verbose:
                said = ", ".join(f"{what} {seconds:.2f} s" for what, seconds, _ in stage.times[-2:])
                print(f"  {kind}: {time.monotonic() - since:.1f} s; {said}", flush=True)
        kind = "the end"
        kept = stage.finish()
        print(f"act {number}: {len(kinds)} rounds in {time.monotonic() - began:.0f} s; {stage.audit.commits} commits, "
              f"{stage.audit.last.epoch} epochs, {kept} answers are kept; {stage.book.line()}", flush=True)
    except Exception as error:
        stage.book.fault("broken", f"{kind}: {type(error).__name__}: {error}")
    finally:
        counts.update(stage.book.counts)
        counts["attempt"] += len(stage.book.jobs)
        times += stage.times
        if stage.book.faults:
            print(f"act {number} ({', '.join(kinds)}) has faults: ", *stage.book.faults, sep="\n", flush=True)
            stage.show()
        stage.close()
    return stage.book.faults


def table(times):
    """Lines, and what took longer than is promised in half of the cases."""
    by_kind = collections.defaultdict(list)
    for what, seconds, bound in times:
        by_kind[what, bound].append(seconds)
    lines, late = ["| event: answered | times | p50 s | max s | promised s |", "| --- | --- | --- | --- | --- |"], []
    for (what, bound), seconds in sorted(by_kind.items()):
        half = statistics.median(seconds)
        lines.append(f"| {what} | {len(seconds)} | {half:.2f} | {max(seconds):.2f} | {'' if bound is None else f'{bound:g}'} |")
        if bound is not None and half > bound:
            late.append(f"{what}: half of them took longer than {half:.2f} s, and {bound:g} s is promised")
    return lines, late


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=sorted(cluster_troubles.KINDS), help="only these")
    parser.add_argument("--queued", type=int, default=1000, metavar="JOBS", help="durable jobs that wait all the time")
    parser.add_argument("--lease", type=float, default=3.0, metavar="SECONDS")
    parser.add_argument("--stop-max", type=float, default=30.0, metavar="SECONDS", help="how long an owner stands still at the most")
    parser.add_argument("--any-time", action="store_true", help="tell times, and judge none of them")
    parser.add_argument("--log", metavar="FOLDER", help="where what the brokers say is kept")
    parser.add_argument("--verbose", action="store_true", help="a line for each round")
    options = parser.parse_args()
    if options.log:
        os.makedirs(options.log, exist_ok=True)
    sys.setswitchinterval(SWITCH_SECONDS)

    began, chance = time.monotonic(), random.Random(options.seed)
    times, counts, faults = [], collections.Counter(), []
    kinds = plan(options.rounds, options.kind or sorted(cluster_troubles.KINDS), chance)
    try:
        test_cluster.skip_without_postgres()
    except unittest.SkipTest as reason:
        print(f"skipped: {reason}")
        return SKIPPED
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    pair = Pair()
    try:
        for number, at in enumerate(range(0, len(kinds), ROUNDS_IN_ACT), 1):
            found = act(pair, number, kinds[at:at + ROUNDS_IN_ACT], options, times, counts)
            faults += found
            if found and at + ROUNDS_IN_ACT < len(kinds):  # the servers are in whatever state
                pair.close()
                pair = Pair()
    except KeyboardInterrupt:
        faults.append("interrupted")
        print("interrupted", flush=True)
    finally:
        pair.close()
    lines, late = table(times)
    print(*lines, sep="\n")
    print(f"{len(kinds)} rounds{' at the most' if 'interrupted' in faults else ''} with seed {options.seed} in {time.monotonic() - began:.0f} s")
    print(*late, sep="\n", end="\n" if late else "")
    print(" ".join(f"{name} {counts[name]}" for name in ("attempt", "acked", "ok", "lost", "recovered", "unexpected", "duplicated",
                                                         "stale", "exec_dup", "late", "audit", "broken", "balance")))
    return 1 if faults or (late and not options.any_time) else 0


if __name__ == "__main__":
    sys.exit(main())
