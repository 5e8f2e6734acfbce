#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Kills a broker that keeps its jobs on disk, again and again, and counts what came of every job.

Clients submit jobs under ids of their own and ask again until they have the answer; workers hand in outcomes until they
are answered; a broker is killed (kill -9) at random moments and at every named failpoint, or stopped (SIGTERM), and
started again on the same file and ports. The last line counts as RabbitMQ's Jepsen tests do:

  attempt    ids submitted
  acked      durable ones that the broker has said are taken, or has answered
  ok         ids that got the answer they must get
  lost       acknowledged, and not known any more when asked for
  recovered  not acknowledged when the broker ended, and known when asked again
  unexpected answers and jobs that nobody submitted, or not so
  duplicated two terminal messages for one submit, or another answer for an id that was answered
  stale      outcomes that came too late
  exec_dup   hand-overs of durable jobs beyond the first

Exit 1 where anything was lost, unexpected or duplicated, or a broker that was stopped leaves a store that is not whole.
"""

import argparse
import collections
import heapq
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import zmq

import harness

CONFIG = """
heartbeat = "{heartbeat_ms}ms"
# That a machine is too busy for a worker to be heard is not what this is about.
crash_max = 1000
attempts_max = 1000
jobs_max = 4000000
results_max = 1000000
results_bytes_max = "1GiB"
dead_max = 100000
retain = "1h"
[[lane]]
name = "urgent"
durable = false
timeout = "1h"
[[lane]]
name = "normal"
default = true
timeout = "1h"
[[lane]]
name = "batch"
timeout = "1h"
"""
LANES = {"urgent": False, "normal": True, "batch": True}  # whether a job of it is durable that says nothing

FAILPOINTS = ("store.before_write", "store.mid_batch", "store.after_commit", "store.in_checkpoint",
              "loop.after_dispatch", "loop.after_result", "loop.before_reply")
# A failpoint is armed for its n-th passing, n up to this: some are passed with each job, some once in a thousand.
PASSINGS = {"store.in_checkpoint": 1, "store.mid_batch": 400}
PASSINGS_USUAL = 60
# How long a broker may run before it passes its failpoint; then it is killed anyway and does not count.
FAILPOINT_PATIENCE = 5.0
# How much a random kill comes after the broker is ready; some come while it starts.
LIFE_MAX = 0.5
# Of all clients together, new jobs a second: what is kept of them has to be looked at in the end.
JOBS_PER_SECOND = 1500
CLIENTS, WORKERS = 4, 3
WINDOW = 100  # jobs of one client that are not over


class Job:
    """What a client knows of a job of its own."""

    __slots__ = ("id", "lane", "fields", "body", "wanted", "durable", "reply", "cancel_at", "cancelled", "acked",
                 "in_doubt", "answer", "asks", "due")

    def __init__(self, name, rng):
        self.id = name
        self.lane = rng.choices(list(LANES), (3, 5, 2))[0]
        said = rng.choices((None, True, False), (8, 1, 1))[0]
        self.durable = LANES[self.lane] if said is None else said
        self.fields = {"lane": self.lane, "service": "echo", "id": name}
        if said is not None:
            self.fields["durable"] = said
        if rng.random() < 0.1:
            self.fields["delay_ms"] = rng.randrange(1, 300)
        self.wanted = "refused" if rng.random() < 0.03 else "echo"
        size = rng.choices((0, 100, 1000, 20000), (30, 50, 17, 3))[0]
        self.body = f"{self.wanted} {name} ".encode().ljust(size, b".")
        self.reply = rng.choice(("result", "both", "accepted"))
        self.cancel_at = time.monotonic() + rng.uniform(0, 0.1) if rng.random() < 0.05 else None
        self.cancelled = False  # the broker has said so
        self.acked = self.in_doubt = False
        self.answer = None  # (op, code, body)
        self.asks = 0
        self.due = 0.0  # when it is asked for again


class Book:
    """What all clients and workers have seen, and what of it must not be."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.jobs = {}
        self.open = 0
        self.counts = collections.Counter()
        self.faults = []
        self.executed = set()  # ids
        self.leases = set()
        self.lost = set()
        self.unheard, self.reconnects, self.started_at = set(), [], 0.0

    def heard(self, peer):
        """What tells how long after a start each peer is answered."""
        if peer in self.unheard:
            self.unheard.remove(peer)
            self.reconnects.append(time.monotonic() - self.started_at)

    def fault(self, kind, text):
        self.counts[kind] += 1
        if len(self.faults) < 20:
            self.faults.append(f"{kind}: {text}")

    def lose(self, job, how):
        if job.id not in self.lost:
            self.lost.add(job.id)
            self.fault("lost", f"{job.id} in lane {job.lane}: {how}")

    def ended(self, how):
        """A broker was ended: killed, or stopped."""
        self.counts[how] += 1
        for job in self.jobs.values():
            if job.durable and not job.acked and job.answer is None:
                job.in_doubt = True

    def acknowledge(self, job):
        if job.durable and not job.acked:
            job.acked = True
            self.counts["acked"] += 1

    def known_again(self, job):
        if job.in_doubt:
            self.counts["recovered"] += 1
            job.in_doubt = False

    def take_answer(self, job, op, code, body):
        """A terminal message of a job. Returns whether it was the first."""
        answer = (op, code, body)
        if job.answer is not None:
            # What memory alone kept may have run again in another life of the broker.
            if answer != job.answer and job.durable:
                self.fault("duplicated", f"{job.id} was answered {show(job.answer)}, then {show(answer)}")
            return False
        wanted = {("result", None, job.body)} if job.wanted == "echo" else {("error", "upstream_rejected", job.body)}
        if job.cancel_at is not None:
            wanted.add(("error", "cancelled", b""))
        if answer not in wanted:
            self.fault("unexpected", f"{job.id} ({job.wanted}) was answered {show(answer)}")
        if job.cancelled and code != "cancelled" and job.durable:
            self.fault("duplicated", f"{job.id} was cancelled, then answered {show(answer)}")
        self.acknowledge(job)
        job.answer = answer
        job.in_doubt = False
        self.open -= 1
        self.counts["ok"] += 1
        return True

    def take_lease(self, message):
        fields = message.fields
        lease = (fields["job"], fields["attempt"])
        job = self.jobs.get(fields.get("id"))
        if job is None or job.body != message.body:
            return self.fault("unexpected", f"a worker got {fields}, which nobody has submitted so")
        if lease in self.leases:
            self.fault("duplicated", f"job {lease[0]} was handed out twice as attempt {lease[1]} ({job.id})")
        self.leases.add(lease)
        if job.durable and job.id in self.executed:
            self.counts["exec_dup"] += 1
        self.executed.add(job.id)

    def line(self):
        counts = self.counts
        return (f"attempt {len(self.jobs)} acked {counts['acked']} ok {counts['ok']} lost {counts['lost']} "
                f"recovered {counts['recovered']} unexpected {counts['unexpected']} duplicated {counts['duplicated']} "
                f"stale {counts['stale']} exec_dup {counts['exec_dup']}")

    def good(self):
        return not self.faults


def show(answer):
    op, code, body = answer
    return f"{op}{' ' + code if code else ''} of {len(body)} bytes {body[:40]!r}"


class Submitter(harness.Client):
    """Submits new jobs up to its window, and asks again for those that it has heard nothing of."""

    def __init__(self, room, book, number, batch, jobs_per_second=JOBS_PER_SECOND / CLIENTS):
        super().__init__(room, zmq.DEALER, room.broker.clients, RECONNECT)
        self.book, self.number, self.batch, self.jobs_per_second = book, number, batch, jobs_per_second
        self.going = False
        self.made = 0
        self.refs = 0
        self.asked_by = {}  # ref -> (job, what, terminal messages so far)
        self.mine = 0
        self.due, self.cancels = [], []
        self.next_new = 0.0

    def on_idle(self, now):
        rng = self.book.random
        while self.going and self.mine < WINDOW and now >= self.next_new:
            self.next_new = max(self.next_new, now - 0.05) + rng.expovariate(self.jobs_per_second)
            self.submit_new(now)
        while self.due and self.due[0][0] <= now:
            at, name = heapq.heappop(self.due)
            job = self.book.jobs[name]
            if job.answer is None and job.due == at:
                self.ask_again(job, now)
        while self.cancels and self.cancels[0][0] <= now:
            job = self.book.jobs[heapq.heappop(self.cancels)[1]]
            if job.answer is None:
                self.send("cancel", {"id": job.id, "ref": self.ref(job, "cancel")})
        return now + 0.004

    def submit_new(self, now):
        self.made += 1
        job = Job(f"{self.number}-{self.made}", self.book.random)
        self.book.jobs[job.id] = job
        self.book.open += 1
        self.mine += 1
        if job.cancel_at is not None:
            heapq.heappush(self.cancels, (job.cancel_at, job.id))
        self.say_submit(job, job.reply, now)

    def say_submit(self, job, reply, now):
        fields = {**job.fields, "ref": self.ref(job, reply)}
        if reply != "result":
            fields["reply"] = reply
        if self.batch:
            fields["batch"] = self.batch
        self.send("submit", fields, job.body)
        self.ask_later(job, now)

    def ask_later(self, job, now):
        job.due = now + self.book.random.uniform(0.15, 0.4) * min(1 + job.asks, 4)
        heapq.heappush(self.due, (job.due, job.id))

    def ask_again(self, job, now):
        job.asks += 1
        if job.reply == "accepted" and job.acked and self.book.random.random() < 0.7:
            self.send("fetch", {"id": job.id, "wait_ms": 300, "ref": self.ref(job, "fetch")})
            self.ask_later(job, now)
        else:
            self.say_submit(job, "both", now)

    def ref(self, job, what):
        self.refs += 1
        self.asked_by[self.refs] = [job, what, 0]
        return self.refs

    def take(self, message):
        fields, book = message.fields, self.book
        book.heard(self)
        asked = self.asked_by.get(fields.get("ref"))
        if asked is None:
            return book.fault("unexpected", f"an answer to nothing: {message.op} {fields}")
        job, what, _ = asked
        if fields.get("id", job.id) != job.id:
            return book.fault("unexpected", f"an answer for {fields['id']} to what was asked of {job.id}")
        if message.op == "accepted":
            return self.take_accepted(job, fields)
        if message.op == "status":
            return self.take_status(job, what, fields)
        code = fields.get("code")
        if code == "not_owner":
            return None  # nothing was taken; whoever owns the store is asked again
        if code == "draining":
            if job.durable and job.acked:
                book.lose(job, "it was acknowledged, and then handed back by a broker that stops")
            job.reply = "both"  # refused, or of memory alone and handed back: once more
            return None
        if code in ("not_found", "gone"):
            if job.durable and job.acked:
                book.lose(job, f"the broker says {code}")
            job.reply = "both"  # in memory alone, and forgotten: once more
            return None
        asked[2] += 1
        if asked[2] > 1:
            return book.fault("duplicated", f"{job.id}: two terminal messages for one {what}")
        if what == "accepted":
            return book.fault("unexpected", f"{job.id}: {message.op} {fields} where only accepted was asked for")
        if book.take_answer(job, message.op, code, message.body):
            self.mine -= 1

    def take_accepted(self, job, fields):
        book = self.book
        if fields.get("durable", False) != job.durable:
            book.fault("unexpected", f"{job.id}: accepted with {fields}, and durable is {job.durable}")
        if fields.get("duplicate", False):
            book.known_again(job)
        elif job.acked:
            book.lose(job, "it was acknowledged, and its id was unknown when it was submitted again")
        job.in_doubt = False
        book.acknowledge(job)

    def take_status(self, job, what, fields):
        state = fields["state"]
        if what == "cancel" and state == "cancelled":
            job.cancelled = True
        if state == "unknown" and job.durable and job.acked:
            self.book.lose(job, "its status is unknown")


class Echo(harness.Worker):
    """Answers each job with its body, some after a while; refuses those that ask for it."""

    def __init__(self, room, book, batch):
        self.book = book
        self.batch = batch
        self.waiting = []  # (when, how many before, job's message)
        self.count = 0
        self.introduced_at = 0.0
        super().__init__(room, room.broker.workers, ("echo",), 64, options=RECONNECT,
                         **({"batch": batch} if batch else {}))

    def take(self, message):
        op, fields = message.op, message.fields
        self.book.heard(self)
        if op == "error" and fields["code"] == "unknown_session":
            return self.introduce()
        if op == "error" and fields["code"] == "stale":
            self.book.counts["stale"] += 1
        super().take(message)
        if op == "job":
            self.book.take_lease(message)
            rng = self.book.random
            pause = 0 if rng.random() < 0.7 else rng.uniform(0, 0.15)
            self.count += 1
            heapq.heappush(self.waiting, (time.monotonic() + pause, self.count, message))
        elif op == "error" and fields["code"] not in ("stale",):
            self.book.fault("unexpected", f"a worker was told {fields}")
        self.inbox.clear()

    def introduce(self):
        """Several answers say it, one for each message that the broker had: one introduction is enough for them."""
        now = time.monotonic()
        if now < self.introduced_at + HEARTBEAT_MS / 1000:
            return
        self.introduced_at = now
        self.send("ready", self.ready)
        self.say_heartbeat()
        for outcome in self.outcomes.values():
            self.send(*outcome)

    def on_idle(self, now):
        due = []
        while self.waiting and self.waiting[0][0] <= now:
            due.append(heapq.heappop(self.waiting)[2])
        echoes = [job for job in due if job.body.startswith(b"echo")]
        if self.batch and 1 < len(echoes) <= self.batch and all(len(job.body) < 200 for job in echoes):
            self.hand_in_all(echoes)
        else:
            for job in echoes:
                self.echo(job)
        for job in due:
            if not job.body.startswith(b"echo"):
                self.hand_in(job, "error", job.body, **{"class": "permanent", "message": "no"})
        wake = super().on_idle(now)
        return min(wake, self.waiting[0][0]) if self.waiting else wake


HEARTBEAT_MS = 600 if harness.SANITIZED else 150
RECONNECT = ((zmq.RECONNECT_IVL, 10),)


class Lives:
    """A broker, started again and again on one file and the same ports."""

    def __init__(self, room, folder, broker_arguments):
        self.room, self.folder = room, folder
        self.store = os.path.join(folder, "lanemq.db")
        self.arguments = broker_arguments
        self.endpoints = None
        self.workers_lost = 0
        self.starts = []  # how long each took until it was ready

    def start(self, failpoint=None):
        if self.endpoints is None:
            self.endpoints = harness.fixed_endpoints()
        environment = {**os.environ, **({"LANEMQ_TEST_FAILPOINT": failpoint} if failpoint else {})}
        began = time.monotonic()
        broker = harness.Broker("--store", f"sqlite:{self.store}", *self.arguments, **self.endpoints,
                                binary="lanemq-broker-failing" if failpoint else "lanemq-broker", env=environment)
        self.starts.append(time.monotonic() - began)
        self.room.broker = self.room.start(broker)
        return broker

    def start_and_kill(self, after):
        """One that is killed while it starts."""
        command = [harness.program("lanemq-broker"), "--store", f"sqlite:{self.store}", *self.arguments]
        for name, endpoint in self.endpoints.items():
            command += ["--" + name, endpoint]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.room.keep_alive(after)
        process.kill()
        process.wait()

    def forget(self, broker):
        self.workers_lost += broker.stderr().count(" worker.lost ")
        self.room.processes.remove(broker)
        broker.close()

    def check(self, book):
        """What --check-store says of the file as the broker left it."""
        done = subprocess.run([harness.program("lanemq-broker"), "--check-store", "--store", f"sqlite:{self.store}"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            book.fault("store", f"--check-store ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout.strip()


def check_balance(book, room):
    """All that came is somewhere: of one answer, which is one moment of the broker."""
    for name, lane in room.stats()["lanes"].items():
        came = lane["accepted"] + lane["restored"]
        are = {key: lane[key] for key in ("succeeded", "failed", "queued", "delayed", "running")}
        if came != sum(are.values()):
            book.fault("balance", f"lane {name}: accepted {lane['accepted']} + restored {lane['restored']}, but {are}")


def kill_at_failpoint(book, room, life, name):
    """Whether the broker came as far as that; it may have while it started."""
    passing = book.random.randrange(1, PASSINGS.get(name, PASSINGS_USUAL) + 1)
    try:
        broker = life.start(f"{name}:{passing}")
    except harness.NotReady as early:
        if early.exit_code != -signal.SIGKILL:
            raise
        book.ended("kills")
        return True
    try:
        room.pump(lambda: broker.process.poll() is not None, name, FAILPOINT_PATIENCE)
        if broker.process.returncode != -signal.SIGKILL:
            raise AssertionError(f"the broker ended with {broker.process.returncode} at {name}:{passing}\n"
                                 + broker.stderr())
        return True
    except harness.Timeout:
        return False
    finally:
        broker.kill()
        book.ended("kills")
        life.forget(broker)


def kill_at_random(book, room, life):
    rng = book.random
    if rng.random() < 0.1:
        life.start_and_kill(rng.uniform(0, 0.03))
        return book.ended("kills")
    broker = life.start()
    room.keep_alive(rng.uniform(0, LIFE_MAX))
    if rng.random() < 0.3:
        check_balance(book, room)
    if broker.process.poll() is not None:
        raise AssertionError(f"the broker ended with {broker.process.returncode}\n{broker.stderr()}")
    broker.kill()
    book.ended("kills")
    life.forget(broker)


def stop(book, room, life):
    """One that is asked to stop under load, and followed by another at once."""
    broker = life.start()
    room.keep_alive(book.random.uniform(0.1, LIFE_MAX))
    broker.signal(signal.SIGTERM)
    room.pump(lambda: broker.process.poll() is not None, "the end of a broker that was asked to stop")
    if broker.process.returncode != 0:
        raise AssertionError(f"the broker ended with {broker.process.returncode}\n{broker.stderr()}")
    book.ended("stops")
    life.forget(broker)
    broker = life.start()
    book.started_at = time.monotonic()
    book.unheard = {peer for peer in room.peers if isinstance(peer, (Submitter, Echo))}
    room.pump(lambda: not book.unheard, "that all peers are answered again")
    broker.kill()
    book.ended("kills")
    life.forget(broker)


def finish(book, room, life, clients):
    """Everything is answered, and what is kept of it on disk says the same."""
    life.start()
    for client in clients:
        client.going = False
    try:
        room.pump(lambda: book.open == 0, "the answer of every job", max(60, harness.PATIENCE))
    except harness.Timeout as timeout:
        print(timeout, file=sys.stderr)
    for job in book.jobs.values():
        if job.answer is None:
            if job.durable and job.acked:
                book.lose(job, f"it has not ended: {clients[0].status(job.id)}")
            else:
                book.fault("unexpected", f"{job.id} in lane {job.lane} got no answer")
    check_balance(book, room)


def fetch_all(book, room, clients):
    """The answers of all durable jobs are what they were, in another life of the broker."""
    asker = clients[0]
    durable = [job for job in book.jobs.values() if job.durable and job.answer is not None]
    for start in range(0, len(durable), 500):
        part = durable[start:start + 500]
        asked = [asker.ref(job, "fetch") for job in part]
        for job, ref in zip(part, asked):
            asker.send("fetch", {"id": job.id, "ref": ref})
        answered = lambda: all(asker.asked_by[ref][2] or asker.asked_by[ref][0].id in book.lost for ref in asked)
        room.pump(answered, "what is kept", max(60, harness.PATIENCE))
    return len(durable)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=80, help="kills at random moments")
    parser.add_argument("--each", type=int, default=20, help="kills at each failpoint")
    parser.add_argument("--stops", type=int, default=5, help="brokers that are asked to stop")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--failpoint", choices=FAILPOINTS, help="only this one")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    began = time.monotonic()
    book, room = Book(options.seed), harness.Room()
    with tempfile.TemporaryDirectory(prefix="lanemq-kill-") as folder:
        try:
            reached = run(book, room, folder, options)
        except Exception:
            room.show_errors()
            raise
        finally:
            room.close()
    print(f"{book.counts['kills']} kills with seed {options.seed} in {time.monotonic() - began:.0f} s; "
          + ", ".join(f"{name} {count}" for name, count in sorted(reached.items())))
    for fault in book.faults:
        print(fault, file=sys.stderr)
    print(json.dumps({**book.counts, "attempt": len(book.jobs)}) if options.json else book.line())
    return 0 if book.good() else 1


def run(book, room, folder, options):
    config = os.path.join(folder, "broker.toml")
    with open(config, "w") as file:
        file.write(CONFIG.format(heartbeat_ms=HEARTBEAT_MS))
    life = Lives(room, folder, ("--config", config, "--log-level", "warning"))
    life.forget(life.start())
    clients = [Submitter(room, book, number, batch=64 if number % 2 else 0) for number in range(CLIENTS)]
    for number in range(WORKERS):
        Echo(room, book, batch=64 if number % 2 else 0)
    for client in clients:
        client.going = True

    points = [options.failpoint] if options.failpoint else FAILPOINTS
    plan = [None] * options.rounds + ["stop"] * options.stops + [point for point in points for _ in range(options.each)]
    book.random.shuffle(plan)
    reached = collections.Counter()
    for number, point in enumerate(plan, 1):
        if point is None:
            kill_at_random(book, room, life)
            reached["random"] += 1
        elif point == "stop":
            stop(book, room, life)
        elif kill_at_failpoint(book, room, life, point):
            reached[point] += 1
        if number % 50 == 0:
            life.check(book)
    if book.reconnects:
        times = sorted(book.reconnects)
        print(f"{book.counts['stops']} stops; after each all peers were answered again, the median after "
              f"{times[len(times) // 2] * 1000:.0f} ms of the new broker, the last after {times[-1] * 1000:.0f} ms")
    for point in points:
        if options.each and reached[point] < max(1, options.each // 2):
            book.fault("failpoint", f"{point} was reached {reached[point]} times of {options.each}")

    finish(book, room, life, clients)
    book.ended("kills")
    room.broker.kill()
    life.forget(room.broker)
    print(f"the store: {life.check(book)}")
    life.start()
    kept = fetch_all(book, room, clients)
    check_balance(book, room)
    print(f"workers were taken for lost {life.workers_lost} times")
    print(f"{kept} answers are kept as they were given; the broker was ready within {max(life.starts) * 1000:.0f} ms, "
          f"the median {sorted(life.starts)[len(life.starts) // 2] * 1000:.0f} ms")
    if room.broker.stop() != 0:
        book.fault("store", "the broker did not end with 0 at SIGTERM\n" + room.broker.stderr())
    life.check(book)
    return reached


if __name__ == "__main__":
    sys.exit(main())
