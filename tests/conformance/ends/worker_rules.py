# SPDX-License-Identifier: Apache-2.0
"""What a worker does, whatever its broker does. The kit is the broker; README.md has what the worker under test serves."""

import time

from msgpack import packb
from trial import PATIENCE, TELL_S, Broken, Rules, Trial, expect, expect_that, skip
from page import ODD_VALUES, Raw, as_packed, pack_header  # behind trial, which makes its folder known

RULES = Rules()
rule = RULES.rule

WAIT_S = 3.0  # how long the service `wait` takes
SOON = WAIT_S / 2  # within which an outcome cannot be that of a job that ran to its end
WINDOW_CHUNKS, WINDOW_BYTES = 64, 262144


class WorkerTrial(Trial):
    direction = "Worker to broker"
    placeholder = "{workers}"

    def __init__(self, *args):
        super().__init__(*args)
        self.known = set()  # connections that have said ready
        self.welcomes, self.silent, self.acks = True, False, True
        self.welcome = {"body_bytes_max": 1 << 24}
        self.ready, self.sessions = {}, 0
        self.heartbeat_at = self.began
        self.heard_at, self.silence = None, 0.0
        self.number = 0
        self.given = {}  # lease -> fields of its job

    def forget_connections(self):
        super().forget_connections()
        self.known.clear()
        self.heard_at = None

    @property
    def session(self):
        return f"session-{self.sessions}"

    def tick(self, now):
        if self.silent or self.socket is None or now < self.heartbeat_at:
            return
        self.heartbeat_at = now + self.interval
        for peer in self.known:
            self.send([HEARTBEAT], peer)

    def took(self, message):
        if self.heard_at is not None and message.peer == self.peer:
            self.silence = max(self.silence, message.at - self.heard_at)
        if message.envelope:
            raise Broken(f"a worker sends no envelope: {message.envelope}")
        if message.batch > max(1, self.welcome.get("batch", 0)) or (message.batch and not self.welcome.get("batch")):
            raise Broken(f"a batch of {message.batch} {message.op}, and welcome said {self.welcome.get('batch', 0)}")
        self.peer, self.heard_at = message.peer, message.at
        if self.silent:
            return True
        if message.op == "ready":
            self.ready = message.fields
            if self.welcomes:
                self.known.add(message.peer)
                self.say_welcome()
        elif message.peer not in self.known:
            if self.welcomes:
                self.say("error", {"code": "unknown_session"}, peer=message.peer)
        elif message.op in ("result", "error") and self.acks:
            self.say("acked", {"jobs": [list(lease_of(message))]})
        return True

    def say_welcome(self):
        self.sessions += 1
        self.say("welcome", {"session": self.session, "heartbeat_ms": round(1000 * self.interval), **self.welcome})

    # ---- what rules say ---------------------------------------------------------------------------------

    def greeted(self):
        """Starts the worker; its ready was answered."""
        self.start()
        first = self.expect("ready", lambda _: True)
        expect(first.op, "ready", "the worker's first word")
        if "echo" not in self.ready["services"]:
            raise Broken(f"the worker serves {self.ready['services']}, and is to serve echo")
        return first

    def needs_wait(self):
        if "wait" not in self.ready["services"]:
            skip("the worker has no service wait")

    def job(self, body=b"", service="echo", number=None, attempt=1, behind=False, **more):
        if number is None:
            self.number += 1
            number = self.number
        fields = {"job": number, "attempt": attempt, "id": f"id-{number}", **more}
        if len(self.ready["services"]) > 1:
            fields["service"] = service
        self.given[number, attempt] = fields
        self.say("job", fields, body, behind)
        return number, attempt

    def outcome(self, lease, within=PATIENCE, what=""):
        return self.expect(f"the outcome of job {lease[0]}, attempt {lease[1]}{what}",
                           lambda m: m.op in ("result", "error") and lease_of(m) == lease, within)

    def result(self, lease, body, within=PATIENCE, what=""):
        outcome = self.outcome(lease, within, what)
        expect((outcome.op, outcome.body), ("result", body), f"the outcome of job {lease[0]}{what}")
        return outcome

    def still_works(self, what):
        self.result(self.job(b"still there"), b"still there", what=f", {what}")

    def unknown_session(self):
        """The broker has forgotten the worker. What it says from its ready on, until `self.inbox` is read further."""
        peer = self.peer
        self.known.discard(peer)
        self.say("error", {"code": "unknown_session", "message": "no worker is known here"})
        ready = self.expect("ready, after unknown_session", lambda m: m.op == "ready")
        expect(ready.peer, peer, "the connection of the ready after unknown_session")
        return ready

    def stream(self, body):
        """A job that asks for a stream; its first chunk has come."""
        lease = self.job(body, stream=True)
        first = self.expect("a chunk, or the outcome", lambda m: m.op == "chunk" or lease_of(m) == lease)
        if first.op != "chunk":
            skip("the worker answers streams whole")
        self.inbox.appendleft(first)
        return lease

    def lists(self, heartbeat, lease):
        return list(lease) in heartbeat.fields.get("jobs", [])

    def inventory(self, what="a heartbeat", within=PATIENCE, which=lambda m: True):
        return self.expect(what, lambda m: m.op == "heartbeat" and which(m), within)


HEARTBEAT = b"\x93\xa4LMQ1\xa9heartbeat\x80"


def lease_of(message):
    return message.fields.get("job"), message.fields.get("attempt", 1)


# ---- messages -----------------------------------------------------------------------------------------------


@rule("Worker to broker: ready")
def greets(t):
    """ready is the worker's first word; it says what it serves, and how many jobs it will hold."""
    first = t.greeted()
    expect_that(first.fields["capacity"] >= 1, f"ready says {first.fields}")
    t.still_works("its first job")


@rule("Messages")
def body_inside_and_behind(t):
    """A body is the fourth element of the header, or a frame behind it, whatever its size; the receiver takes either."""
    t.greeted()
    for body in (b"", b"x", b"y" * 5000, bytes(range(256)) * 4096):
        for behind in (False, True):
            t.result(t.job(body, behind=behind), body, what=f", of {len(body)} bytes {'behind' if behind else 'inside'}")
    lease = t.job()
    t.outcome(lease)
    t.say("job", {**t.given[lease], "job": 1000})
    t.result((1000, 1), b"", what=", without a body")


@rule("Messages")
def unknown_ops_are_ignored(t):
    """An end ignores an op that it does not know, and a message that it cannot read; it goes on, on the same connection."""
    t.greeted()
    peer = t.peer
    t.say("no-such-op", {"job": 1, "why": ["because"]}, b"body")
    t.say("submit", {"service": "echo"})
    t.send([b"no header"])
    t.send([b"\x93\xa4LMQ1\xa3job\xc1"])
    t.send([])
    t.still_works("behind what nobody can read")
    expect(t.peer, peer, "the connection")


@rule("Messages")
def unknown_fields_are_ignored(t):
    """Unknown fields are ignored, whatever they hold; a field that is nil is absent."""
    t.greeted()
    t.welcome["news"] = {"a": [1.5, None]}
    t.say_welcome()
    lease = t.job(b"x", colour="red", later={"deep": [[1]]}, model=None, timeout_ms=None, stream=None)
    t.result(lease, b"x")
    t.say("acked", {"jobs": [], "more": 1})
    t.still_works("after unknown fields")


@rule("Messages")
def batches(t):
    """A worker that says batch takes arrays of jobs, whose later maps inherit from the first, and hands in no more than
    welcome agreed to."""
    t.welcome["batch"] = 4
    t.greeted()
    if t.ready.get("batch", 0) < 2:
        skip("the worker says no batch")
    several = len(t.ready["services"]) > 1
    bodies = [b"one", b"", b"three"]
    for number, behind in ((100, False), (200, True)):
        first = {"job": number, "attempt": 1, "id": "a", "model": "m", **({"service": "echo"} if several else {})}
        maps = [first, {"job": number + 1, "id": "b"}, {"job": number + 2, "id": "c", "model": None}]
        t.send([packb(["LMQ1", "job", maps]), packb(bodies)] if behind else [packb(["LMQ1", "job", maps, bodies])])
        left = {number + i: body for i, body in enumerate(bodies)}
        while left:
            outcome = t.expect("the outcomes of a batch", lambda m, left=left: m.op in ("result", "error") and m.fields["job"] in left)
            expect((outcome.op, outcome.body), ("result", left.pop(outcome.fields["job"])), "an outcome of a batch")
    t.send([packb(["LMQ1", "job", [{**first, "job": 300}], [b"alone"]])])
    t.result((300, 1), b"alone", what=", a batch of one")


@rule("Messages")
def odd_values_take_no_other_job_with_them(t):
    """What stands in meta, trace or an x- field of one job of a batch is no other job's affair. That job has an outcome, too."""
    t.welcome["batch"] = 4
    t.greeted()
    if t.ready.get("batch", 0) < 3:
        skip("the worker says no batch")
    several = len(t.ready["services"]) > 1
    number = 1000
    for what, value in ODD_VALUES.items():
        for field in ("meta", "trace", "x-odd", "news"):
            number += 10
            first = {"job": number, "attempt": 1, "id": "a", **({"service": "echo"} if several else {})}
            maps = [first, {"job": number + 1, "id": "b", field: Raw(as_packed(value))}, {"job": number + 2, "id": "c"}]
            t.send([pack_header("job", maps, [b"one", b"odd", b"three"])])
            left = {number: b"one", number + 1: None, number + 2: b"three"}
            while left:
                outcome = t.expect(f"the outcomes of {sorted(left)}, beside {what} in {field}",
                                   lambda m, left=left: m.op in ("result", "error") and m.fields["job"] in left)
                body = left.pop(outcome.fields["job"])
                if body is not None:
                    expect((outcome.op, outcome.body), ("result", body), f"an outcome beside {what} in {field}")


# ---- heartbeats and inventories -----------------------------------------------------------------------------


@rule("Worker to broker: heartbeat")
def heartbeats_list_what_it_holds(t):
    """Heartbeats come every heartbeat_ms and list every job that the worker holds, none that is acked."""
    t.greeted()
    t.needs_wait()
    done = t.job(b"done")
    t.result(done, b"done")
    lease = t.job(b"long", "wait")
    t.for_a_while(t.interval / 2)
    for _ in range(3):
        heartbeat = t.inventory(within=3 * t.interval)
        expect_that(t.lists(heartbeat, lease), f"the inventory {heartbeat.fields} lacks the job {list(lease)} that runs")
        expect_that(not t.lists(heartbeat, done), f"the inventory {heartbeat.fields} lists {list(done)}, which was acked")
    t.result(lease, b"long")
    t.for_a_while(t.interval)
    heartbeat = t.inventory(within=3 * t.interval)
    expect(heartbeat.fields.get("jobs", []), [], "the inventory when all is acked")


@rule("The life of a worker")
def is_never_silent_for_three_intervals(t):
    """Both sides send a heartbeat every heartbeat_ms: a worker is never silent for 3 intervals, whether it has jobs or not."""
    t.greeted()
    t.silence = 0.0
    t.for_a_while(6 * t.interval)
    expect_that(t.silence < 3 * t.interval, f"the worker said nothing for {t.silence:.1f} s, an interval is {t.interval} s")
    expect_that(t.heard_at is not None and time.monotonic() - t.heard_at < 3 * t.interval, "the worker says nothing any more")


# ---- outcomes -----------------------------------------------------------------------------------------------


@rule("Broker to worker: job")
def an_outcome_has_its_jobs_attempt(t):
    """An outcome has the job and the attempt of its job message."""
    t.greeted()
    for number, attempt in ((2**53 - 1, 1), (77, 5), (77, 4294967295)):
        t.result(t.job(b"x", number=number, attempt=attempt), b"x")


@rule("The life of a worker")
def unknown_session_is_answered_in_order(t):
    """After unknown_session the worker says, on the same socket: ready; a heartbeat with all it holds; its unanswered outcomes
    again."""
    t.greeted()
    t.acks = False
    held = t.job(b"held", "wait") if "wait" in t.ready["services"] else None
    lost = [t.job(b"lost %d" % i) for i in range(3)]
    for i, lease in enumerate(lost):
        t.result(lease, b"lost %d" % i)
    t.unknown_session()
    behind = t.expect("what is behind the ready", lambda m: True)
    expect(behind.op, "heartbeat", "what is behind the ready")
    for lease in [*lost, *([held] if held else [])]:
        expect_that(t.lists(behind, lease), f"the inventory behind the ready, {behind.fields}, lacks the job {list(lease)}")
    again = {lease: b"lost %d" % i for i, lease in enumerate(lost)}
    while again:  # in any order
        outcome = t.expect(f"the outcomes of {sorted(again)}, handed in again", lambda m: m.op == "result" and lease_of(m) in again)
        expect(outcome.body, again.pop(lease_of(outcome)), f"the outcome of job {outcome.fields['job']}, handed in again")
    t.acks = True
    if held:
        t.result(held, b"held")


@rule("The life of a worker")
def an_acked_outcome_is_forgotten(t):
    """An outcome that was acked, or stale, is not handed in again."""
    t.greeted()
    acked = t.job(b"acked")
    t.result(acked, b"acked")
    t.acks = False
    stale = t.job(b"stale")
    t.result(stale, b"stale")
    t.say("error", {"code": "stale", "job": stale[0], "attempt": stale[1]})
    open_ = t.job(b"open")
    t.result(open_, b"open")
    t.unknown_session()
    behind = t.inventory("the inventory behind the ready")
    for lease in (acked, stale):
        expect_that(not t.lists(behind, lease), f"the inventory {behind.fields} lists {list(lease)}, which was answered")
    came = t.for_a_while(2 * t.interval)
    again = {lease_of(m) for m in came if m.op in ("result", "error")}
    expect(again, {open_}, "the outcomes that are handed in again")


@rule("Broker to worker: error")
def a_stale_job_is_dropped(t):
    """stale, of a job that still runs: the worker drops the attempt, and its place is free."""
    t.greeted()
    t.needs_wait()
    lease = t.job(b"x", "wait")
    t.for_a_while(t.interval / 2)
    t.say("error", {"code": "stale", "job": lease[0], "attempt": lease[1]})
    t.for_a_while(t.interval / 2)
    heartbeat = t.inventory(within=3 * t.interval)
    expect_that(not t.lists(heartbeat, lease), f"the inventory {heartbeat.fields} lists {list(lease)}, which is stale")
    t.still_works("after a stale job")


@rule("Broker to worker: job")
def a_job_twice_is_one_job(t):
    """A job with the number and attempt of one that the worker holds, or whose outcome is not answered, is no new job."""
    t.greeted()
    t.acks = False
    for _ in range(2):
        lease = t.job(b"again", number=1)
    t.result(lease, b"again")
    t.job(b"again", number=1)
    for outcome in [m for m in t.for_a_while(2 * t.interval) if m.op in ("result", "error")]:
        expect((lease_of(outcome), outcome.op, outcome.body), (lease, "result", b"again"), "an outcome that comes again")
    t.say("acked", {"jobs": [list(lease)]})
    if "wait" not in t.ready["services"]:
        return
    lease = t.job(b"long", "wait", number=2)
    t.for_a_while(t.interval)
    t.job(b"long", "wait", number=2)
    listed = t.inventory(within=3 * t.interval, which=lambda m: t.lists(m, lease))
    expect(listed.fields["jobs"].count(list(lease)), 1, "how often the inventory lists it")
    outcomes = [m for m in t.for_a_while(WAIT_S + 3 * t.interval) if m.op in ("result", "error") and lease_of(m) == lease]
    expect(len(outcomes), 1, "the outcomes of a job that came twice")


@rule("The life of a job")
def a_newer_attempt_replaces_an_older(t):
    """A job that comes again with a higher attempt is that attempt's to do: its outcome has it, and the older one is over."""
    t.greeted()
    t.needs_wait()
    old = t.job(b"x", "wait", number=5, attempt=1)
    t.for_a_while(t.interval)
    new = t.job(b"x", "echo", number=5, attempt=2)
    t.result(new, b"x")
    t.still_works("after a newer attempt")
    heartbeat = t.inventory(within=3 * t.interval)
    expect_that(not t.lists(heartbeat, new), f"the inventory {heartbeat.fields} lists {list(new)}, which was acked; older: {old}")


# ---- a broker that is gone, or silent -----------------------------------------------------------------------


@rule("A connection that is lost")
def gone_in_mid_job(t):
    """A worker whose connection is lost comes back, with the session of its last welcome where it resumes, and goes on: a heartbeat
    with all it holds, its unanswered outcomes, and the outcomes of what runs on."""
    t.greeted()
    t.acks = False
    held = t.job(b"held", "wait") if "wait" in t.ready["services"] else None
    lost = t.job(b"lost")
    t.result(lost, b"lost")
    session = t.session
    t.for_a_while(t.interval)
    t.vanish()
    t.for_a_while(t.interval)
    t.come_back()
    ready = t.expect("ready, when the broker is back", lambda m: m.op == "ready")
    if ready.fields.get("resumes"):
        expect(ready.fields.get("session"), session, "the session of its ready")
    again = t.inventory("its inventory", which=lambda m: t.lists(m, lost))
    if held:
        expect_that(t.lists(again, held), f"the inventory {again.fields} lacks the job {list(held)} that runs")
    t.result(lost, b"lost", what=", handed in again")
    t.acks = True
    if held:
        t.result(held, b"held", what=", which ran on")
    t.still_works("after the broker was gone")


@rule("A connection that is lost")
def the_newest_session_is_stated(t):
    """A worker that resumes states the session of its last welcome with every ready behind the first."""
    t.greeted()
    if not t.ready.get("resumes"):
        skip("the worker does not resume")
    expect_that("session" not in t.ready, f"the first ready states a session: {t.ready}")
    for _ in range(2):
        session = t.session
        ready = t.unknown_session()
        expect(ready.fields.get("session"), session, "the session of its ready")
        t.inventory()
    t.vanish()
    session = t.session
    t.come_back()
    ready = t.expect("ready, when the broker is back", lambda m: m.op == "ready")
    expect(ready.fields.get("session"), session, "the session of its ready by another connection")


@rule("The life of a worker", slow=True)
def a_silent_broker_gets_a_new_connection(t):
    """A worker that has heard nothing for 3 intervals makes a new connection and says ready again."""
    t.greeted()
    t.result(t.job(b"x"), b"x")
    t.for_a_while(t.interval)
    peer, began = t.peer, time.monotonic()
    t.silent = True
    t.inbox.clear()
    ready = t.expect("ready, by a new connection", lambda m: m.op == "ready" and m.peer != peer, 12 * t.interval)
    passed = ready.at - began
    expect_that(passed > 1.5 * t.interval, f"the new connection came after {passed:.1f} s, an interval is {t.interval} s")
    t.silent = False
    t.welcomes = True
    t.known.add(t.peer)
    t.say_welcome()
    t.still_works("after its broker was silent")


@rule("The life of a worker", slow=True)
def a_ready_without_an_answer_is_said_again(t):
    """A ready that is not answered for 2 to 3 s is said again, by a new connection."""
    t.silent = True
    t.start()
    first = t.expect("ready", lambda m: m.op == "ready")
    t.expect("another ready, by a new connection", lambda m: m.op == "ready" and m.peer != first.peer, 8)


@rule("Broker to worker: bye")
def bye_is_a_lost_connection(t):
    """A broker that says bye leaves: the worker takes it for a lost connection, and says ready again."""
    t.greeted()
    t.still_works("before bye")
    t.known.discard(t.peer)
    t.silent = True
    t.say("bye")
    t.inbox.clear()
    t.expect("ready, after bye", lambda m: m.op == "ready")


@rule("Broker to worker: error", slow=True)
def full_is_asked_again(t):
    """full: the worker says ready again later."""
    t.welcomes = False
    t.start()
    t.expect("ready", lambda m: m.op == "ready")
    t.say("error", {"code": "full", "message": "workers_max (1) workers are connected"})
    t.welcomes = True
    t.expect("ready again, after full", lambda m: m.op == "ready")
    t.still_works("after full")


# ---- cancel and drain ---------------------------------------------------------------------------------------


@rule("Broker to worker: cancel")
def cancel_before_the_outcome(t):
    """cancel: the worker stops working on the job and hands in an outcome, which frees the place."""
    t.greeted()
    t.needs_wait()
    for reason in ("cancelled", None):
        lease = t.job(b"x", "wait")
        t.for_a_while(t.interval / 2)
        t.say("cancel", {"job": lease[0], "attempt": lease[1], **({"reason": reason} if reason else {})})
        outcome = t.outcome(lease, SOON, ", which was cancelled")
        expect_that(outcome.op == "result" or outcome.fields["class"], "its class")
    t.still_works("after a cancel")


@rule("Broker to worker: cancel")
def cancel_behind_the_outcome(t):
    """A cancel of a job that the worker does not hold, because its outcome was on the way, is ignored."""
    t.greeted()
    lease = t.job(b"x")
    t.result(lease, b"x")
    t.say("cancel", {"job": lease[0], "attempt": lease[1], "reason": "unknown"})
    t.say("cancel", {"job": 4711, "attempt": 3})
    late = t.for_a_while(2 * t.interval)
    expect([m.op for m in late if m.op not in ("heartbeat",)], [], "what a cancel that comes too late makes the worker say")
    t.still_works("after a cancel that came too late")


@rule("Broker to worker: drain")
def drain_and_welcome(t):
    """drain: the worker finishes what it holds, and hands back a job that comes all the same as released; welcome takes it back."""
    t.greeted()
    held = t.job(b"held", "wait") if "wait" in t.ready["services"] else None
    t.say("drain")
    late = t.outcome(t.job(b"late"), SOON, ", which came behind drain")
    expect((late.op, late.fields.get("class")), ("error", "released"), "the outcome of a job behind drain")
    if held:
        t.result(held, b"held", what=", which ran when drain came")
    t.say_welcome()
    t.still_works("after drain was taken back")


# ---- streams ------------------------------------------------------------------------------------------------


LINES = [b"line %04d\n" % number for number in range(200)]


def chunks_until_quiet(t, lease, quiet, came):
    """Reads chunks until none has come for so long, or the outcome has; the outcome or None."""
    while True:
        behind = t.for_a_while(quiet)
        for message in behind:
            if message.op == "chunk" and lease_of(message) == lease:
                expect(message.fields["seq"], len(came), "the number of the next chunk")
                came.append(message.body)
            elif message.op in ("result", "error") and lease_of(message) == lease:
                return message
        if not any(message.op == "chunk" for message in behind):
            return None


@rule("Streams", slow=True)
def the_window_stays_shut(t):
    """A worker has at most 64 chunks under way that no window has covered; chunks go from 0 without a gap, the outcome behind them."""
    t.greeted()
    lease = t.stream(b"".join(LINES))
    came, covered = [], 0
    for _ in range(100):
        outcome = chunks_until_quiet(t, lease, t.interval, came)
        expect_that(len(came) - covered <= WINDOW_CHUNKS, f"{len(came) - covered} chunks are under way, {WINDOW_CHUNKS} may be")
        if outcome:
            break
        expect_that(len(came) > covered, "no chunk comes, though the window is open")
        covered = len(came)
        t.say("window", {"job": lease[0], "attempt": lease[1], "seq": covered - 1})
    expect(outcome.op, "result", "its outcome")
    expect(b"".join(came) + outcome.body, b"".join(LINES), "the answer")


@rule("Streams", slow=True)
def the_window_counts_bytes(t):
    """The bytes of a window are those of the chunks' bodies: another chunk goes while fewer than 262144 are not covered."""
    t.greeted()
    lines = [b"%03d" % number + b"x" * 9996 + b"\n" for number in range(80)]
    lease = t.stream(b"".join(lines))
    came, covered = [], 0
    for _ in range(100):
        outcome = chunks_until_quiet(t, lease, t.interval, came)
        before_last = sum(map(len, came[covered:-1]))
        expect_that(before_last < WINDOW_BYTES, f"a chunk came behind {before_last} bytes that no window has covered")
        if outcome:
            break
        expect_that(len(came) > covered, "no chunk comes, though the window is open")
        covered = len(came)
        t.say("window", {"job": lease[0], "attempt": lease[1], "seq": covered - 1})
    expect(b"".join(came) + outcome.body, b"".join(lines), "the answer")


@rule("Streams")
def chunks_are_said_again(t):
    """After unknown_session, and by a new connection, the chunks that no window covered come again, in their order, behind the
    inventory; the outcome behind them."""
    t.greeted()
    t.acks = False
    lease = t.stream(b"".join(LINES[:50]))
    came = []
    outcome = chunks_until_quiet(t, lease, t.interval, came)
    t.say("window", {"job": lease[0], "attempt": lease[1], "seq": 19})
    t.for_a_while(t.interval / 2)
    for lose in (t.unknown_session, t.vanish):
        lose()
        if t.socket is None:
            t.come_back()
            t.expect("ready", lambda m: m.op == "ready")
        inventory = t.inventory("the inventory behind the ready", which=lambda m: t.lists(m, lease))
        again = [m for m in t.for_a_while(3 * t.interval) if m.op != "heartbeat" and lease_of(m) == lease]
        chunks = [(m.fields["seq"], m.body) for m in again if m.op == "chunk"]
        expect(chunks, list(enumerate(came))[20:], f"the chunks behind the inventory {inventory.fields}")
        if outcome:
            expect([m.op for m in again[-1:]], [outcome.op], "what is behind the last chunk")


@rule("Streams")
def a_cancel_ends_a_stream_that_waits(t):
    """A cancel ends a stream also while its window is shut: the outcome comes, and no further chunk."""
    t.greeted()
    lease = t.stream(b"".join(LINES))
    came = []
    expect(chunks_until_quiet(t, lease, t.interval, came), None, "the outcome while the window is shut")
    t.say("cancel", {"job": lease[0], "attempt": lease[1], "reason": "cancelled"})
    behind = t.for_a_while(SOON)
    expect([m.op for m in behind if m.op == "chunk"], [], "chunks behind the cancel")
    outcomes = [m for m in behind if m.op in ("result", "error") and lease_of(m) == lease]
    expect(len(outcomes), 1, "the outcomes of a stream that was cancelled")


# ---- wrong endpoints ----------------------------------------------------------------------------------------


@rule("Transport", slow=True)
def nobody_listens_is_told(t):
    """Where nobody answers at its endpoint an end says so within 3 s, to whoever started it."""
    t.measure_start()
    t.vanish()
    t.start()
    t.tells_within(TELL_S, "nobody listens at the endpoint")


@rule("Transport", slow=True)
def nobody_answers_is_told(t):
    """Where nobody answers at its endpoint an end says so within 3 s: also where a socket is there that says nothing."""
    t.measure_start()
    t.silent = True
    t.start()
    t.tells_within(TELL_S, "nobody answers at the endpoint")


@rule("Transport")
def the_clients_endpoint_is_told(t):
    """A worker at the clients' endpoint is answered with bad_request, and says so within 3 s."""
    t.welcomes = False
    t.start()
    t.expect("ready", lambda m: m.op == "ready")
    t.may_end, t.start_s = True, time.monotonic() - t.began
    t.say("error", {"code": "bad_request", "message": 'unknown op "ready"; this endpoint is for clients'})
    t.tells_within(TELL_S, "the endpoint is that for clients")
