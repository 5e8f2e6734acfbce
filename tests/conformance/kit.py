# SPDX-License-Identifier: Apache-2.0
"""What rules are written with: the list of rules, a room for each with honest peers, and the verdicts.

A rule is a function that is given a Room, with what docs/protocol/ says, in a sentence, as its docstring. It returns when what
it saw is right, raises when not, and calls skip() where the broker cannot show it. Nothing sleeps and hopes: a rule
waits for what must come, and what must not come is looked for behind an answer to something asked later.
"""

import collections
import concurrent.futures
import contextlib
import dataclasses
import itertools
import os
import re
import secrets
import sys
import tempfile
import threading
import time
import traceback

import zmq
from msgpack import packb, unpackb

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
import harness  # noqa: E402: the peers are those of the integration tests
from page import MAGIC, inheriting  # noqa: E402

PASS, FAIL, SKIPPED = "pass", "FAIL", "skipped"
# How much too early something may come, in seconds. A broker may take the time once for many messages: what came while it
# was held up counts from a moment before it was sent. Sanitized programs on a busy machine are held up for longer.
EARLY = 0.2 if harness.SANITIZED else 0.03
# For the first word of a broker at an endpoint that was given: a wrong one is told within 3 s.
FIRST_WORD_S = 2
# A job number that no broker comes to.
NO_JOB = 2**53 - 1


@dataclasses.dataclass(frozen=True)
class Rule:
    name: str
    section: str  # a heading of docs/protocol/, with its direction where it is an op: "Client to broker: submit"
    text: str
    run: collections.abc.Callable
    broker: tuple  # arguments of a broker of its own; empty: any will do
    config: str  # likewise, its configuration file
    feature: str  # what the broker has to understand, see FEATURES
    hostile: bool  # honest peers are looked after when it has run
    slow: bool  # waits for the broker's clock: started first


RULES = []
FEATURES = {}


def rule(section, broker=(), config="", feature=None, hostile=False, slow=False):
    """Makes a function the check of one rule; its name and its docstring are the rule's."""

    def add(run):
        slug = re.sub(r"\W+", "-", section.lower()).strip("-")
        text = " ".join(run.__doc__.split())
        RULES.append(Rule(f"{slug}.{run.__name__}", section, text, run, tuple(broker), config, feature, hostile, slow))
        return run

    return add


def feature(name):
    """Makes a function the probe of a feature: it tells why the broker has it not, or nothing where it has."""

    def add(probe):
        FEATURES[name] = probe
        return probe

    return add


class Skip(Exception):
    pass


def skip(why):
    raise Skip(why)


def expect(actual, wanted, what):
    if actual != wanted:
        raise AssertionError(f"{what}: expected {wanted!r}, got {actual!r}")


def expect_that(holds, what):
    if not holds:
        raise AssertionError(what)


def expect_error(message, code, *parts):
    """An error with that code, whose message names every part."""
    expect((message.op, message.fields.get("code")), ("error", code), f"the answer {brief(message)}")
    for part in parts:
        text = message.fields.get("message", "")
        expect_that(str(part) in text, f"error {code} says {text!r}, which does not name {part}")
    return message


def brief(message):
    body = f" + {len(message.body)} bytes" if message.body else ""
    text = str(message.fields)
    return f"{message.op} {text if len(text) < 300 else text[:300] + '…'}{body}"


# ---- peers --------------------------------------------------------------------------------------------------


class Judged:
    """A peer that compares every message of the broker with the tables of the page, and takes batches apart."""

    direction = None

    def take_in(self, frames):
        self.frames = frames
        self.room.findings += self.room.page.faults(self.direction, frames)
        for single in singles(frames):
            super().take_in(single)

    def send_raw(self, header, *behind, envelope=()):
        self.send_frames(*envelope, header, *behind)

    def fence(self):
        """What the broker has said until now; so what is not in it was not said.

        Two questions, one after the other: when the first is answered the broker has seen all that was sent before, and
        when the second is, it has done what follows from that."""
        said = []
        for _ in range(2):
            is_answer = self.ask_behind(self.room.new_ref())
            self.room.pump(lambda: any(map(is_answer, self.inbox)), "the answer to a question behind")
            while not is_answer(message := self.inbox.popleft()):
                said.append(message)
        return said


def singles(frames):
    """A message as the messages of its batch, or as it is: a later map inherits all but id, ids, ref and job."""
    at = next((i for i, frame in enumerate(frames) if frame[:6] in MAGIC), None)
    if at is None:
        raise AssertionError(f"a message of the broker has no header: {[frame[:40] for frame in frames]}")
    _, op, fields, *inside = unpackb(frames[at])
    if not isinstance(fields, list):
        return [frames]
    bodies = inside[0] if inside else unpackb(frames[at + 1]) if frames[at + 1 :] else [b""] * len(fields)
    whole = [{**inherited, **one} for one, inherited in inheriting(fields)]
    return [[*frames[:at], packb(["LMQ1", op, one, body])] for one, body in zip(whole, bodies, strict=True)]


class Client(Judged, harness.Client):
    direction = "Broker to client"

    def submit(self, body=b"", **fields):
        self.send("submit", {"service": self.room.service, **fields}, body)

    def accepted(self, body=b"", **fields):
        """Submits and waits until the job is taken; the fields of `accepted`."""
        ref = self.room.new_ref()
        self.submit(body, reply="accepted", ref=ref, **fields)
        message = self.answer(ref)
        expect(message.op, "accepted", f"the answer to a submit ({brief(message)})")
        return message.fields

    def answer(self, ref):
        """The next message with that ref; others stay where they are."""
        mine = lambda: next((message for message in self.inbox if message.fields.get("ref") == ref), None)
        self.room.pump(mine, f"an answer with the ref {ref!r}")
        message = mine()
        self.inbox.remove(message)
        return message

    def fetch(self, job_id, wait_ms=60000):
        ref = self.room.new_ref()
        self.send("fetch", {"id": job_id, "wait_ms": wait_ms, "ref": ref})
        return self.answer(ref)

    def ask_behind(self, ref):
        self.send("ping", {"ref": ref})
        return lambda message: message.fields.get("ref") == ref


class WorkerFenced:
    def ask_behind(self, ref):
        self.send("no-such-op", envelope=[ref.encode()])
        return lambda message: message.envelope == [ref.encode()]


class Worker(WorkerFenced, Judged, harness.Worker):
    direction = "Broker to worker"
    said_at = None
    silence = 0.0  # the longest, in intervals, while it should have sent heartbeats

    def send_frames(self, *frames):
        self.note_silence()
        super().send_frames(*frames)
        self.said_at = time.monotonic()

    def note_silence(self):
        welcomed = self.next_heartbeat != float("inf")
        if self.heartbeats and welcomed and self.said_at is not None:
            self.silence = max(self.silence, (time.monotonic() - self.said_at) / self.interval)

    def jobs(self, count=0):
        """So many jobs; one more, or anything else, is a fault."""
        jobs = [self.get("job") for _ in range(count)]
        expect([brief(message) for message in self.fence()], [], f"messages behind {count} jobs")
        return jobs


class Stranger(WorkerFenced, Judged, harness.Peer):
    """A connection to the workers' socket that does only what the rule says."""

    direction = "Broker to worker"

    def ask(self, op, fields=None, body=None, **how):
        self.send(op, fields, body, **how)
        return self.get()

    def get(self, op=None, **how):
        while (message := super().get(**how)).op == "heartbeat" and op != "heartbeat":
            pass
        if op and message.op != op:
            raise AssertionError(f"expected {op}, got {brief(message)}")
        return message


class Room(harness.Room):
    """A broker, and peers for one rule: its services and ids are nobody else's."""

    def __init__(self, page, broker, label=""):
        super().__init__()
        self.page, self.broker = page, broker
        self.service = f"{label[-60:]}.{secrets.token_hex(4)}"
        self.findings, self.faults = [], []
        self.refs = itertools.count(1)

    def new_ref(self):
        return f"kit {next(self.refs)}"

    def id(self, name):
        return f"{self.service}.{name}"

    def client(self, kind=zmq.DEALER, options=()):
        return Client(self, kind, self.broker.clients, options)

    def worker(self, capacity=1, services=None, welcome=True, **fields):
        worker = Worker(self, self.broker.workers, services or [self.service], capacity, **fields)
        if welcome:
            worker.get("welcome")
        return worker

    def stranger(self):
        return Stranger(self, zmq.DEALER, self.broker.workers)

    def broker_of_its_own(self, rule):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(rule.config)
            file.flush()
            self.start_broker(*(("--config", file.name) if rule.config else ()), *rule.broker)

    def operator(self, kind=zmq.DEALER):
        return Client(self, kind, self.broker.admin)

    @contextlib.contextmanager
    def case(self, what):
        """One of several cases of a rule: when it fails the others are tried all the same."""
        try:
            yield
        except AssertionError as error:
            self.faults.append(f"{what}: {error}")

    def stood_still(self):
        """Whether a worker of this rule said nothing for so long that the broker had to take it for dead: this machine's
        fault, and no verdict about the broker."""
        workers = [peer for peer in self.peers if isinstance(peer, Worker)]
        for worker in workers:
            worker.note_silence()
        return any(worker.silence > 2.5 for worker in workers)

    def running(self, worker, client, /, **fields):
        """A job that the worker holds."""
        before = len(client.inbox)
        client.submit(**fields)
        refused = lambda: [m for m in list(client.inbox)[before:] if m.fields.get("code") == "bad_request"]
        self.pump(lambda: worker.inbox or refused(), "a job at the worker")
        expect([brief(message) for message in refused()], [], "refusals of a submit")
        return worker.get("job")

    def honest_peers(self):
        """A new client and a new worker do a job each way, as if nothing had happened."""
        service = f"honest.{secrets.token_hex(4)}"
        worker, dealer, req = self.worker(2, [service]), self.client(), self.client(zmq.REQ)
        for client in (dealer, req):
            client.send("submit", {"service": service}, b"question")
            job = worker.get("job")
            expect(job.body, b"question", "the body of an honest client's job")
            worker.hand_in(job, body=b"answer")
            expect(client.get("result").body, b"answer", "the body of an honest worker's answer")
        worker.answered()
        worker.send("bye")
        for peer in (worker, dealer, req):
            peer.close()


# ---- verdicts -----------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Verdict:
    rule: Rule
    kind: str
    seen: list  # what was seen, or why it was skipped
    findings: list  # what was wrong with messages on the way, by the tables of the page


class Runner:
    """Runs rules against one broker, several at a time. `endpoints` has clients, workers and admin, the last one None
    where there is none; without endpoints it starts a broker of its own."""

    # The broker's heartbeat where the kit starts it: a machine that stands still for six seconds changes no verdict.
    ARGUMENTS = ("--set", "heartbeat=2s", "--log-level", "warning")
    AT_ONCE = 4

    def __init__(self, page, endpoints=None):
        self.page = page
        self.own = None if endpoints else harness.Broker(*self.ARGUMENTS)
        self.broker = endpoints or self.own
        self.features, self.features_lock = {}, threading.Lock()

    def wrong_endpoint(self):
        """What is wrong with the endpoints, as a sentence, told within 3 s; nothing where a broker answers at each as it has to."""
        room = Room(self.page, self.broker)
        asked = [("--clients", room.client(), "ping", "pong"), ("--workers", room.stranger(), "heartbeat", "unknown_session")]
        if getattr(self.broker, "admin", None):
            asked.append(("--admin", room.operator(), "ping", "pong"))
        patience = FIRST_WORD_S if self.own is None else harness.PATIENCE
        try:
            for _, peer, op, _ in asked:
                peer.send(op)
            with contextlib.suppress(harness.Timeout):
                room.pump(lambda: all(peer.inbox for _, peer, _, _ in asked), "an answer at each endpoint", patience)
            for option, peer, op, wanted in asked:
                if not peer.inbox:
                    return f"{option}: nobody answers the op {op} there within {patience:g} s; name the endpoint of a broker"
                said = peer.inbox.popleft()
                if wanted not in (said.op, said.fields.get("code")):
                    return f"{option}: what is there answers the op {op} with {brief(said)}; name the endpoint that is for it"
            return None
        except AssertionError as error:
            return f"what answers there is no broker: {error}"
        finally:
            room.close()

    def run(self, rules):
        """Verdicts in the order of the rules, each as soon as those before it are known."""
        waiting = concurrent.futures.ThreadPoolExecutor(max(1, sum(rule.slow for rule in rules)))
        busy = concurrent.futures.ThreadPoolExecutor(self.AT_ONCE)
        try:
            verdicts = {rule.name: (waiting if rule.slow else busy).submit(self.judge, rule) for rule in rules}
            for rule in rules:
                yield verdicts[rule.name].result()
        finally:
            for pool in (waiting, busy):
                pool.shutdown(cancel_futures=True)

    def judge(self, rule):
        if (rule.broker or rule.config) and self.own is None:
            options = " ".join(rule.broker) or "the configuration " + " ".join(rule.config.split())
            return Verdict(rule, SKIPPED, [f"needs a broker started with {options}"], [])
        if rule.section not in self.page.sections:
            return Verdict(rule, SKIPPED, ["the page has no such section"], [])
        if self.own and self.own.process.poll() is not None:
            return Verdict(rule, SKIPPED, ["the broker has ended"], [])
        room = Room(self.page, self.broker, rule.name)
        try:
            if rule.feature and (why := self.why_not(rule.feature)):
                return Verdict(rule, SKIPPED, [f"{rule.feature}: {why}"], [])
            if rule.broker or rule.config:
                room.broker_of_its_own(rule)
            rule.run(room)
            if rule.hostile:
                with room.case("honest peers afterwards"):
                    room.honest_peers()
            return self.failed(rule, room) if room.faults else Verdict(rule, PASS, [], room.findings)
        except Skip as why:
            return Verdict(rule, SKIPPED, [str(why)], room.findings)
        except AssertionError as error:
            return self.failed(rule, room, f"{error} ({place_of(error)})")
        except Exception:  # what a broken answer did to the rule is a verdict too
            return self.failed(rule, room, traceback.format_exc().rstrip())
        finally:
            room.close()

    def failed(self, rule, room, *last):
        if room.stood_still():
            return Verdict(rule, SKIPPED, ["this machine was too slow for the rule's worker", *room.faults, *last], [])
        return Verdict(rule, FAIL, [*room.faults, *last], room.findings)

    def why_not(self, name):
        with self.features_lock:
            if name not in self.features:
                room = Room(self.page, self.broker, "probe." + name)
                try:
                    self.features[name] = FEATURES[name](room)
                finally:
                    room.close()
            return self.features[name]

    def close(self):
        """Ends the kit's own broker. Returns what is wrong with how it ended, or nothing."""
        if self.own is None:
            return None
        try:
            ended = self.own.process.poll()
            code = self.own.stop() if ended is None else ended
            if ended is None and code == 0:
                return None
            return f"the broker {'ended by itself' if ended is not None else 'was stopped'}, exit code {code}\n" + (
                self.own.stderr()[-4000:]
            )
        finally:
            self.own.close()


def place_of(error):
    """Where in the rule it failed."""
    frames = traceback.extract_tb(error.__traceback__)
    here = [frame for frame in frames if os.path.basename(frame.filename).startswith("rules_")]
    return f"{os.path.basename(here[-1].filename)}:{here[-1].lineno}" if here else "kit"
