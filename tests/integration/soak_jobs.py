# SPDX-License-Identifier: Apache-2.0
"""Those of the soak who speak to the broker itself: jobs, bulk jobs, cancels, streams, and who comes and goes."""

import collections
import contextlib
import os
import random
import threading
import time

import zmq

import harness
from soak_book import BACK_S

RECONNECT = ((zmq.RECONNECT_IVL, 20), (zmq.RECONNECT_IVL_MAX, 200))
ASK_AGAIN_S = 4.0
FETCH_MS = 5000
SEND_MS = 1000  # more than this no send waits: libzmq has given the connection up
FORGET_S = 120  # after which no second answer to a request of an answered job is looked for
BULK, BULK_EVERY_S = 32, 2.0
SEEN_EVERY, SEEN_SLOWLY_S = 8, 1.5
# Refusals that say "later" of a broker that stops, or has just come back.
LATER = ("draining", "store_full", "bytes_full", "lane_full", "client_full")

# What is asked for each second, in the mean.
PACES = {"result": 15, "both": 8, "left": 5, "slept": 3, "cancelled": 3, "delayed": 2, "stream": 1.5, "slow stream": 0.4, "left stream": 0.5}


class Job:
    __slots__ = ("id", "kind", "fields", "body", "wanted", "acked", "answer", "fetched", "began", "due", "cancel_at", "chunks", "seen",
                 "reader", "requests")

    def __init__(self, name, kind, fields, body, wanted):
        self.id, self.kind, self.body, self.wanted = name, kind, body, wanted
        self.fields = {"id": name, "durable": True, **fields}
        self.acked, self.answer, self.fetched = False, None, 0
        self.began, self.due, self.cancel_at = time.time(), 0.0, None
        self.chunks, self.seen, self.reader, self.requests = [], 0.0, 0, 0


class Submitter(harness.Client):
    """Asks at an even pace, whatever is answered; asks again for what it has heard nothing of; and counts the answers."""

    def __init__(self, room, stage, number, retain_ms):
        self.stage, self.book, self.number, self.retain_ms = stage, stage.book, number, retain_ms
        self.chance = random.Random(f"{stage.seed} jobs {number}")
        self.open, self.asked, self.made, self.refs = {}, {}, 0, 0
        self.going, now = True, time.monotonic()
        self.next = {kind: now + self.chance.expovariate(pace) for kind, pace in PACES.items()}
        self.next_bulk, self.next_forget = now + 1, now + FORGET_S
        super().__init__(room, zmq.DEALER, stage.endpoints["clients"], (*stage.keys.options("jobs"), *RECONNECT))

    # ---- asking

    def on_idle(self, now):
        for kind, pace in PACES.items():
            while self.going and self.next[kind] <= now:
                self.next[kind] += self.chance.expovariate(pace)
                self.begin(self.make(kind), now)
        if self.going and self.next_bulk <= now:
            self.next_bulk = now + BULK_EVERY_S
            self.begin_bulk(now)
        for job in list(self.open.values()):
            if job.cancel_at is not None and job.cancel_at <= now:
                job.cancel_at = None
                self.send("cancel", {"id": job.id, "ref": self.ref(job, "cancel")})
            if job.kind == "slow stream" and job.chunks and now - job.seen > SEEN_SLOWLY_S:
                self.say_seen(job, now)
            if job.due <= now:
                self.ask_again(job, now)
        if self.next_forget <= now:
            self.next_forget = now + FORGET_S / 4
            self.asked = {ref: asked for ref, asked in self.asked.items() if asked[0].id in self.open or asked[3] > now - FORGET_S}
        return now + 0.02

    def make(self, kind):
        self.made += 1
        name = f"{self.number}-{self.made}"
        if kind.endswith("stream"):
            model, body, wanted = self.stage.answers.stream(self.chance, long=kind != "stream")
            return Job(name, kind, {"service": "openai", "model": model, "stream": True, "retain_ms": self.retain_ms,
                                    "lane": "high"}, body, wanted)
        body = f"{name} ".encode().ljust(self.chance.choices((0, 200, 3000, 40000), (30, 50, 17, 3))[0], b".")
        fields = {"service": "sleep" if kind in ("slept", "cancelled") else "echo", "retain_ms": self.retain_ms,
                  "lane": self.chance.choice(("critical", "high", "normal", "low"))}
        if kind == "delayed":
            fields["delay_ms"] = self.chance.randrange(1, 3000)
        job = Job(name, kind, fields, body, body)
        if kind == "cancelled":
            job.cancel_at = time.monotonic() + self.chance.uniform(0, 0.15)
        return job

    def begin(self, job, now):
        self.open[job.id] = job
        self.book.count(f"direct: {job.kind}")
        self.submit_job(job, {"left": "accepted", "both": "both"}.get(job.kind, "result"), now)

    def begin_bulk(self, now):
        jobs = [self.make("bulk") for _ in range(BULK)]
        for job in jobs:
            job.fields["lane"] = "batch"
            self.open[job.id] = job
            job.due = now + ASK_AGAIN_S
        self.book.count("direct: bulk", BULK)
        maps = [{**job.fields, "ref": self.ref(job, "result")} for job in jobs]
        maps[0]["batch"] = BULK
        self.send_batch("submit", maps, [job.body for job in jobs], in_frame=True)

    def submit_job(self, job, reply, now):
        job.due = now + ASK_AGAIN_S
        fields = {**job.fields, "ref": self.ref(job, reply)}
        if reply != "result":
            fields["reply"] = reply
        if job.fields.get("stream"):
            job.chunks, job.reader = [], fields["ref"]
        self.send("submit", fields, job.body)

    def fetch(self, job, now):
        job.due = now + FETCH_MS / 1000 + ASK_AGAIN_S
        self.send("fetch", {"id": job.id, "wait_ms": FETCH_MS, "ref": self.ref(job, "fetch")})

    def ask_again(self, job, now):
        if job.kind == "left" and job.acked:
            return self.fetch(job, now)
        self.book.count("direct: asked again")
        self.submit_job(job, "result" if job.fields.get("stream") else "both", now)

    def ref(self, job, what):
        self.refs += 1
        self.asked[self.refs] = [job, what, 0, time.monotonic()]
        return self.refs

    def say_seen(self, job, now):
        job.seen = now
        self.send("seen", {"id": job.id, "seq": len(job.chunks) - 1})

    # ---- hearing

    def take(self, message):
        fields, now = message.fields, time.monotonic()
        asked = self.asked.get(fields.get("ref"))
        if asked is None:
            return self.book.fault("unexpected", f"an answer to nothing: {message.op} {fields}")
        job, what = asked[:2]
        if fields.get("id", job.id) != job.id:
            return self.book.fault("unexpected", f"an answer for {fields['id']} to what was asked of {job.id}")
        if message.op == "chunk":
            return self.take_chunk(job, fields, message.body, now)
        if message.op == "accepted":
            return self.take_accepted(job, what, fields, now)
        if message.op == "status":
            return self.take_status(job, what, fields, now)
        if message.op == "error" and fields["code"] in LATER:
            job.due = now + min(5.0, fields.get("retry_after_ms", 1000) / 1000)
            return self.book.count("direct: refused for now")
        if message.op == "error" and fields["code"] in ("not_found", "gone"):
            if self.may_be_broken(job):  # what a reader had missed of it when the broker died may not be kept
                return self.finish(job, "direct: streams that a death broke")
            return self.lose(job, f"the broker says {fields['code']}")
        asked[2] += 1
        if asked[2] > 1:
            return self.book.fault("answered twice", f"{job.id} ({job.kind}): two terminal messages for one {what}")
        if job.fields.get("stream") and message.op == "result" and fields["ref"] != job.reader:
            return  # its chunks came to the request before; those of the newer one are what is looked at
        self.take_answer(job, message, now)

    def take_accepted(self, job, what, fields, now):
        if not fields.get("durable"):
            self.book.fault("unexpected", f"{job.id} was accepted, and not as durable")
        if job.acked and not fields.get("duplicate"):
            self.lose(job, "it was acknowledged, and its id was unknown when it was submitted again")
        if not job.acked:
            job.acked = True
            self.book.count("durable jobs acknowledged")
        if what == "accepted" and job.answer is None:
            self.fetch(job, now)

    def take_status(self, job, what, fields, now):
        if fields["state"] == "unknown" and job.acked and job.answer is None:
            self.lose(job, "its status is unknown")
        elif what == "fetch" and job.answer is None:
            self.fetch(job, now)

    def take_chunk(self, job, fields, body, now):
        if job.id not in self.open or fields["ref"] != job.reader:
            return  # of a request that was made again since: its chunks come to the newer one from the first on
        if fields["seq"] != len(job.chunks):
            return self.book.fault("unexpected", f"{job.id}: chunk {fields['seq']} where {len(job.chunks)} was due")
        job.chunks.append(body)
        # A stream that is read slowly takes as long as it takes.
        job.due = now + 3 * ASK_AGAIN_S
        if job.kind == "left stream" and len(job.chunks) == 5:
            self.send("cancel", {"id": job.id, "ref": self.ref(job, "cancel")})
        if job.kind != "slow stream" and len(job.chunks) % SEEN_EVERY == 0:
            self.say_seen(job, now)

    def take_answer(self, job, message, now):
        body = b"".join(job.chunks) + message.body if job.fields.get("stream") else message.body
        answer = (message.op, message.fields.get("code"), hash(message.body))
        if job.answer is not None:
            if answer != job.answer:
                self.book.fault("answered twice", f"{job.id} ({job.kind}): {job.answer}, then {message.op} {message.fields}")
            job.fetched += 1
            if job.id in self.open and (job.kind != "left" or job.fetched > 1):
                del self.open[job.id]
            return
        job.answer, job.fetched = answer, 1
        self.judge(job, message, body)
        job.chunks.clear()
        self.book.count("durable jobs answered")
        if job.kind == "left":  # the answer is there as often as it is asked for
            self.fetch(job, now)
        else:
            del self.open[job.id]

    def judge(self, job, message, body):
        code = message.fields.get("code")
        if message.op == "result":
            if body != job.wanted:
                self.book.fault("wrong answer", f"{job.id} ({job.kind}): {len(body)} bytes, and not the {len(job.wanted)} that are its own")
            if job.fields["service"] == "openai":
                self.book.made_by_the_double(job.id)
        elif code == "cancelled" and job.kind in ("cancelled", "left stream"):
            self.book.count("direct: cancelled in time")
        elif self.may_be_broken(job):
            self.book.count("direct: streams that a death broke")
        else:
            self.book.fault("failed", f"{job.id} ({job.kind}): {code}: {message.fields.get('message')}")

    def may_be_broken(self, job):
        """What has begun to answer is not handed over again."""
        return job.fields.get("stream") and self.book.excused(job.began, "worker", "broker")

    def finish(self, job, what):
        self.open.pop(job.id, None)
        self.book.count(what)

    def lose(self, job, how):
        if job.id in self.open:
            del self.open[job.id]
            self.book.fault("lost", f"{job.id} ({job.kind}): {how}")


def speak(stage):
    """A thread's work: two clients until the soak stops, then until all is answered."""
    room = harness.Room()
    try:
        clients = [Submitter(room, stage, f"j{number}", stage.retain_ms) for number in range(2)]
        while not stage.book.stopping.is_set():
            room.keep_alive(0.5)
        for client in clients:
            client.going = False
        try:
            room.pump(lambda: stage.book.given_up.is_set() or not any(client.open for client in clients), "all answers", 2 * BACK_S + harness.PATIENCE)
        except harness.Timeout:
            for client in clients:
                for job in list(client.open.values()):
                    client.lose(job, "no answer when all was over" + (", although it was acknowledged" if job.acked else ""))
    finally:
        room.close()


# ---- who comes and goes


def visit(stage):
    """Connections with a good key that come, ask and go; with a wrong one, and with none; and a guest whose key comes and goes."""
    chance = random.Random(f"{stage.seed} visits")
    room, acts = harness.Room(), collections.deque(("good", "good", "wrong", "good", "none", "guest"))
    try:
        while not stage.book.stopping.is_set():
            acts.rotate(-1)
            {"good": come_and_go, "wrong": come_with_a_wrong_key, "none": come_without_a_key, "guest": be_a_guest}[acts[0]](stage, room)
            stage.book.stopping.wait(chance.uniform(0.05, 0.3))
    finally:
        room.close()


def connect(stage, room, options):
    return harness.Client(room, zmq.DEALER, stage.endpoints["clients"], (*options, (zmq.SNDTIMEO, SEND_MS)))


def ping(client):
    """False: its key was refused, and libzmq has given the connection up and takes nothing more for it."""
    try:
        client.send("ping")
        return True
    except zmq.Again:
        return False


def come_and_go(stage, room):
    began = time.time()
    for _ in range(3):
        client = connect(stage, room, stage.keys.options("jobs"))
        try:
            client.ask("ping", expect="pong")
            stage.book.count("visits")
        except (harness.Timeout, zmq.Again):
            if not stage.book.excused(began, "broker"):
                stage.book.fault("failed", "a client with a good key got no answer to its ping")
        finally:
            client.close()


def come_with_a_wrong_key(stage, room):
    stage.keys.pairs["stranger"] = zmq.curve_keypair()
    knock(stage, room, stage.keys.options("stranger"))


def come_without_a_key(stage, room):
    knock(stage, room, ())


def knock(stage, room, options):
    client = connect(stage, room, options)
    if ping(client) and not client.silent(0.3):
        stage.book.fault("let in", f"a stranger was answered: {client.inbox}")
    stage.book.count("strangers kept out")
    client.close()


def be_a_guest(stage, room):
    """Its key comes with one reload, and goes with another one, while it is connected."""
    began, book = time.time(), stage.book
    stage.keys.add("guest", "client", depth_max=100)
    stage.reload_broker()
    client = None
    try:
        deadline = time.monotonic() + harness.PATIENCE
        while client is None:  # a socket that was refused does not try again
            client = connect(stage, room, stage.keys.options("guest"))
            if not ping(client) or client.silent(0.3):
                client.close()
                client = None
            if time.monotonic() > deadline:
                raise harness.Timeout("a guest was not let in")
        client.get("pong")
        take_guests_key(stage)
        stage.reload_broker()
        # Who has nothing under way is told when it says something.
        while (message := client.ask("ping")).op == "pong":
            stage.book.stopping.wait(0.05)
        if message.fields["code"] != "unauthorized":
            book.fault("unexpected", f"a guest whose key went was told {message}")
        book.count("guests let in and out")
    except (harness.Timeout, zmq.Again) as timeout:
        if not book.excused(began, "broker"):
            book.fault("failed", f"a guest: {timeout}")
    finally:
        if client is not None:
            client.close()
        take_guests_key(stage)


def take_guests_key(stage):
    with contextlib.suppress(FileNotFoundError):
        os.remove(stage.keys.path("guest"))


def threads(stage):
    return [threading.Thread(target=stage.guarded(work), args=(stage,), name=work.__name__) for work in (speak, visit)]
