#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""An account that is limited in some way, told of in some way and used by others, too: what do our callers get of it?

    account_cells.py                                             all 240 cells, 90 s each, four at a time: an hour and a half
    account_cells.py --cells 'fixed/*/greedy/sparse/*'           some of them
    account_cells.py --list --cells 'at-once/*'
    account_cells.py --smoke                                     one, in small, as CTest has it

A cell is LIMIT/TOLD/OTHERS/LOAD/KNOWN:
  LIMIT   bucket, fixed, sliding: 10 calls a second, counted so, by --period
          at-once: 20 calls under way, each of which lasts half a second
          slope: as sliding, and the pace of a second is at most 1.5 times that of the second before it, or 5
  TOLD    full: as OpenAI does it; retry-after: that alone, on refusals; none: nothing
  OTHERS  half: they ask for half the limit; greedy: for 1.2 times the limit; stop: the same until half of the time is over;
          change: nobody else is there, but for a third of the time the limit is half
  LOAD    bulk: forty callers, each with its next call at once; sparse: a call each two seconds
  KNOWN   configured: the broker has a budget with the limit; not: it has none

A row tells of a cell's time: `ours`, calls of ours that the upstream granted; `left`, what the limit is over that time less what others
were granted (a window that begins empty, or a bucket that is full, gives more in its first period); `share` of it that was ours, of
sparse callers the share of all calls that was answered within 20 s; `refused`, calls of ours that the upstream refused; the waits of
callers, in seconds. A call without an answer counts with how long it has waited. Nothing of it is judged, for its figures depend on
the machine, but by --smoke: that counts agree with each other.
"""

import argparse
import concurrent.futures
import contextlib
import fnmatch
import http.client
import itertools
import json
import os
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

import harness

LIMITS, TOLD = ("bucket", "fixed", "sliding", "at-once", "slope"), ("full", "retry-after", "none")
OTHERS, LOADS, KNOWN = ("half", "greedy", "stop", "change"), ("bulk", "sparse"), ("configured", "not")
PACE, PLACES, LASTS_S = 10, 20, 0.5  # of the limits; a call at once lasts so long
# No multiple of the time between their asks: else each of theirs began when another one ends, and no place were ever free.
OTHERS_LAST_S = 0.47
GREEDY = 1.2  # times the limit
CALLERS, SPARSE_EVERY_S, SOON_S = 40, 2, 20
CALL_S = 600  # after which a caller gives up
CHAT = json.dumps({"model": "m", "max_tokens": 8, "messages": [{"role": "user", "content": "hello"}]})
SMOKE = "fixed/full/half/bulk/configured"


class Cell:
    def __init__(self, name, options):
        self.name, self.seconds, self.period = name, options.seconds, options.period
        self.limit, self.told, self.others, self.load, self.known = name.split("/")
        self.most = PLACES if self.limit == "at-once" else round(PACE * self.period)

    def allowed(self):
        """The limit as the upstream has it: a number, or numbers in turn."""
        if self.others != "change":
            return str(self.most)
        return f"{self.most},{self.most // 2}@{self.seconds / 3:.3f},{self.most}@{self.seconds * 2 / 3:.3f}"

    def at_the_upstream(self):
        options = ["--tells", {"full": "all"}.get(self.told, self.told), "--speaks", "openai"]
        a_second = PLACES / LASTS_S if self.limit == "at-once" else PACE
        if self.others != "change":
            span = f"@0..{self.seconds / 2:.3f}" if self.others == "stop" else ""
            options += ["--others", f"{a_second * (0.5 if self.others == 'half' else GREEDY):g}/s{span}"]
        if self.limit == "at-once":
            return [*options, "--at-once", self.allowed(), "--others-ms", str(OTHERS_LAST_S * 1000), "--latency-ms", str(LASTS_S * 1000)]
        options += ["--rpm", self.allowed(), "--period", str(self.period), "--latency-ms", "20..200"]
        if self.limit == "slope":
            return [*options, "--window", "sliding", "--slope", "1.5", "--slope-floor", "5"]
        return [*options, "--window", self.limit]

    def at_the_broker(self):
        if self.known == "not":
            return []
        limit = f"concurrency={PLACES}" if self.limit == "at-once" else f"requests_per_minute={PACE * 60}"
        window = ["budget.b.window=bucket"] if self.limit == "bucket" else []
        return [word for setting in ("budget.b.match.service=openai", f"budget.b.{limit}", *window) for word in ("--set", setting)]

    def left(self, seconds, others):
        """Of the limit over that time, less what others were granted."""
        lowered = 5 / 6 if self.others == "change" else 1
        if self.limit == "at-once":
            return (PLACES * lowered * seconds - others * OTHERS_LAST_S) / LASTS_S
        return PACE * lowered * seconds - others


class Stack:
    """A broker, the upstream, a worker and a gateway, which end with the block."""

    def __init__(self, cell, folder, closing):
        def start(name, *arguments):
            process = harness.Process(harness.program(name), *arguments, env=env, cwd=folder)
            closing.callback(process.close)
            return process

        def ready(process):
            line = process.line()
            if not line.startswith("ready http://"):
                raise AssertionError(f"{line!r} {process.stderr()}")
            return line.removeprefix("ready ").strip()

        env = {**os.environ, "HOME": folder, "XDG_STATE_HOME": folder, "OPENAI_API_KEY": "k"}
        self.broker = harness.Broker(*cell.at_the_broker(), env=env)
        closing.callback(self.broker.close)
        self.upstream = ready(start("lanemq-upstream", *cell.at_the_upstream(), "--log", f"{folder}/calls"))
        start("lanemq-worker", "--broker", self.broker.workers, "--capacity", str(CALLERS), "--service", f"openai=openai:{self.upstream}/v1")
        self.gateway = ready(start("lanemq-gateway", "--listen", "127.0.0.1:0", "--broker", self.broker.clients))

    def stats(self):
        with urllib.request.urlopen(self.upstream + "/stats", timeout=harness.PATIENCE) as answer:
            return json.load(answer)


class Callers:
    """Who calls, and what came of it."""

    def __init__(self, gateway):
        self.address = urllib.parse.urlsplit(gateway)
        self.lock, self.over = threading.Lock(), False
        self.under_way, self.done, self.failures = {}, [], []  # when each began; waits; what was no 200
        self.numbers = itertools.count()

    def call(self):
        number, began = next(self.numbers), time.monotonic()
        with self.lock:
            self.under_way[number] = began
        connection = http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=CALL_S)
        try:
            connection.request("POST", "/v1/chat/completions", CHAT, {"content-type": "application/json"})
            answer = connection.getresponse()
            body, status = answer.read(), answer.status
        except (OSError, http.client.HTTPException) as error:
            body, status = repr(error).encode(), 0
        finally:
            connection.close()
        with self.lock:
            if self.over:
                return
            del self.under_way[number]
            self.done.append((time.monotonic() - began, status == 200))
            if status != 200:
                self.failures.append((status, body[:200]))
                harness.pace(0)  # A caller that fails at once goes on at once; others get their turn.

    def call_on(self):
        while not self.over:
            self.call()

    def start(self, what):
        threading.Thread(target=what, daemon=True).start()

    def stop(self):
        """-> waits of those that were answered, ages of those that were not."""
        with self.lock:
            self.over = True
            now = time.monotonic()
            return [wait for wait, good in self.done if good], [now - began for began in self.under_way.values()]


def offer_load(cell, stack, callers):
    """For as long as the cell lasts, and longer where nothing was granted yet: the machine does much else."""
    began = time.monotonic()
    if cell.load == "bulk":
        for _ in range(CALLERS):
            callers.start(callers.call_on)
    for turn in itertools.count(1):
        if cell.load == "sparse":
            callers.start(callers.call)
        harness.pace(min(began + turn * SPARSE_EVERY_S, max(began + cell.seconds, time.monotonic() + 0.1)) - time.monotonic())
        late = time.monotonic() - began - cell.seconds
        if late >= 0 and (late > harness.PATIENCE or stack.stats()["accepted"]):
            return


def quantile(waits, share):
    return sorted(waits)[min(len(waits) - 1, int(share * len(waits)))] if waits else float("nan")


def run(cell):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as closing:
        stack = Stack(cell, folder, closing)
        callers = Callers(stack.gateway)
        before = stack.stats()
        offer_load(cell, stack, callers)
        after = stack.stats()
        answered, waiting = callers.stop()
    seconds = (after["uptime_ms"] - before["uptime_ms"]) / 1000
    others = after["others"]["granted"] - before["others"]["granted"]
    left, ours, waits = cell.left(seconds, others), after["accepted"], answered + waiting
    if cell.load == "bulk":
        share = ours / left if left > 0 else float("nan")
    else:
        # Those who came too late to be answered soon tell nothing.
        judged = len(answered) + len(callers.failures) + sum(age > SOON_S for age in waiting)
        share = sum(wait <= SOON_S for wait in answered) / judged if judged else float("nan")
    return {"cell": cell.name, "seconds": seconds, "ours": ours, "left": left, "others": others, "share": share,
            "refused": after["rejected_429"], "answered": len(answered), "waiting": len(waiting), "failed": len(callers.failures),
            "p50": quantile(waits, 0.5), "p90": quantile(waits, 0.9), "max": max(waits, default=float("nan")),
            "failures": callers.failures[:3], "after": after}


HEAD = f"{'cell':40} {'ours':>5} {'left':>5} {'share':>6} {'refused':>7} {'failed':>6} {'p50':>6} {'p90':>6} {'max':>6}  waiting"


def line_of(row):
    return (f"{row['cell']:40} {row['ours']:5} {row['left']:5.0f} {100 * row['share']:5.0f}% {row['refused']:7} {row['failed']:6} "
            f"{row['p50']:6.1f} {row['p90']:6.1f} {row['max']:6.1f}  {row['waiting']}"
            + (f"  {row['failures'][0]}" if row["failures"] else ""))


def judge(row, cell):
    """Counts that agree however slow the machine is. Yields what does not."""
    after, granted = row["after"], row["ours"] + row["after"]["others"]["granted"]
    windows = after["uptime_ms"] / 1000 / cell.period + 1
    if not row["ours"]:
        yield "the upstream granted nothing"
    if granted > windows * cell.most:
        yield f"{granted} calls were granted in {windows:.1f} windows of {cell.most}"
    if row["answered"] > row["ours"]:
        yield f"{row['answered']} calls were answered, and {row['ours']} granted"
    if after["violations"] or after["bad_requests"]:
        yield f"{after['violations']} violations, {after['bad_requests']} bad requests"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default="*", metavar="GLOB", help="which; * also stands for /")
    parser.add_argument("--seconds", type=float, default=90, help="that each lasts")
    parser.add_argument("--period", type=float, default=60, help="of the windows, in seconds")
    parser.add_argument("--jobs", type=int, default=4, help="cells at a time")
    parser.add_argument("--list", action="store_true", help="only name the cells")
    parser.add_argument("--smoke", action="store_true", help=f"{SMOKE} for 8 s by periods of 5 s; exit 1 where its counts do not agree")
    options = parser.parse_args()
    if options.smoke:
        options.cells, options.seconds, options.period = SMOKE, 8, 5
    names = ["/".join(parts) for parts in itertools.product(LIMITS, TOLD, OTHERS, LOADS, KNOWN)]
    cells = [Cell(name, options) for name in names if fnmatch.fnmatchcase(name, options.cells)]
    if not cells:
        parser.error(f"no cell is named {options.cells}; --list names them")
    if options.list:
        print("\n".join(cell.name for cell in cells))
        return 0
    print(HEAD, flush=True)
    wrong = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for cell, row in zip(cells, pool.map(run, cells)):
            print(line_of(row), flush=True)
            if options.smoke:
                wrong += judge(row, cell)
    for what in wrong:
        print(what, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
