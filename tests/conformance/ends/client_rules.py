# SPDX-License-Identifier: Apache-2.0
"""What a client does, whatever its broker does. The kit is the broker; README.md has what the client under test reads and
prints."""

import collections
import time

from msgpack import packb
from trial import PATIENCE, TELL_S, Broken, Rules, Trial, expect, expect_that, skip
from page import ODD_VALUES, Raw, as_packed, pack_header  # behind trial, which makes its folder known

RULES = Rules()
rule = RULES.rule

EARLY = 0.05  # what a clock read before a message may make of the time between two
ASKED_AGAIN_S = 20.0  # within which a client asks for an answer that does not come
HELLO = '"hello"'


class ClientTrial(Trial):
    direction = "Client to broker"
    placeholder = "{clients}"
    pongs = True

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.batch_max = {}  # by connection, as its client has said

    def took(self, message):
        if "batch" in message.fields:
            self.batch_max[message.peer] = message.fields["batch"]
        if message.batch > self.batch_max.get(message.peer, 0):
            raise Broken(f"a batch of {message.batch}, and on this connection the client has said that {self.batch_max.get(message.peer, 0)} go")
        self.peer = message.peer
        if message.op == "ping":
            if self.pongs:
                self.answer(message, "pong", {"now_ms": 1, "version": "kit", "default_lane": "normal"})
            return not self.pongs
        return True

    def answer(self, request, op, fields=None, body=None, behind=False):
        """Answers a request as a broker does: with its envelope, its ref, and its job's id."""
        names = ("ref",) if op == "pong" else ("ref", "id")
        said = {name: request.fields[name] for name in names if name in request.fields}
        self.say(op, {**said, **(fields or {})}, body, behind, request.peer, request.envelope)

    def submitted(self, *lines):
        """Starts the client with these lines; its first submit."""
        self.start(lines)
        return self.submit()

    def submit(self, what="a submit", which=lambda m: True, within=PATIENCE):
        return self.expect(what, lambda m: m.op == "submit" and which(m), within)

    def prints(self, *lines, within=PATIENCE):
        """The client prints these lines, in any order, and ends well."""
        self.may_end = True
        self.pump(lambda: len(self.lines) >= len(lines), within, f"{len(lines)} lines of output")
        self.pump(lambda: self.process.poll() is not None, PATIENCE, "the client's end")
        for reader in self.readers:
            reader.join(PATIENCE)
        expect(sorted(self.lines), sorted(lines), "what the client prints")
        expect(self.process.returncode, 0, "the client's exit code")

    def again(self, first, within, what):
        """The same submit once more."""
        second = self.submit(f"the submit again, {what}", lambda m: m.fields.get("id") == first.fields.get("id"), within)
        return self.same(first, second)

    def same(self, first, second):
        content = lambda m: (m.fields.get("service"), m.fields.get("lane"), m.fields.get("model"), m.body)
        expect(content(second), content(first), "service, lane, model and body of the submit that comes again")
        return second

    def stream(self, within=PATIENCE):
        """A submit that asks for a stream."""
        self.may_end = True
        self.start([f"stream {HELLO}"])
        self.pump(lambda: self.inbox or self.process.poll() is not None, within, "a submit")
        if not self.inbox or not self.inbox[0].fields.get("stream"):
            skip("the client asks for no stream")
        self.may_end = False
        return self.inbox.popleft()

    def chunks(self, request, numbers):
        for number in numbers:
            self.answer(request, "chunk", {"seq": number}, b"piece %d;" % number)


def pieces(numbers):
    return "".join(f"piece {number};" for number in numbers)


# ---- messages -----------------------------------------------------------------------------------------------


@rule("Client to broker: submit")
def submits(t):
    """A submit names its service, makes its id, and carries the body; its terminal message ends it."""
    request = t.submitted(f"echo {HELLO}")
    expect((request.fields["service"], request.body), ("echo", HELLO.encode()), "service and body")
    expect_that(request.fields.get("id"), f"the submit has no id: {request.fields}")
    t.answer(request, "result", {}, b'"answer"')
    t.prints('result "answer"')


@rule("Messages")
def body_inside_and_behind(t):
    """A body is the fourth element of the header, or a frame behind it, whatever its size; the receiver takes either."""
    large = b'"' + b"z" * 100_000 + b'"'
    bodies = ((b'"small inside"', False), (b'"small behind"', True), (large, False), (large, True))
    t.start([f"echo {HELLO}"] * len(bodies))
    for body, behind in bodies:
        t.answer(t.submit(), "result", {}, body, behind)
    t.prints(*("result " + body.decode() for body, _ in bodies))


@rule("Messages")
def unknown_ops_are_ignored(t):
    """An end ignores an op that it does not know, a message that it cannot read, an answer to what it has not asked; it goes on."""
    request = t.submitted(f"echo {HELLO}")
    if not request.envelope:  # a REQ socket takes one answer, and would take these for it
        t.answer(request, "no-such-op", {"job": 1}, b"body")
        for frames in ([b"no header"], [b"\x93\xa4LMQ1\xa6result\xc1"], [b"\x93\xa4LMQ1\xa7welcome\x80"]):
            t.send(frames, request.peer)
        t.say("result", {"ref": 2**40 + 7, "id": "another"}, b'"not yours"')
        t.say("error", {"ref": "another ref", "code": "internal"})
        t.say("status", {"id": "another", "state": "running", "attempts": 1})
    t.answer(request, "result", {}, b'"answer"')
    t.prints('result "answer"')


@rule("Messages")
def unknown_fields_are_ignored(t):
    """Unknown fields are ignored, whatever they hold; a field that is nil is absent."""
    request = t.submitted(f"echo {HELLO}")
    t.answer(request, "result", {"colour": {"deep": [1.5, None]}, "usage": None, "lane": None, "queued_ms": 7}, b'"answer"')
    t.prints('result "answer"')


@rule("Messages")
def batches(t):
    """A client that says batch takes arrays of answers, whose later maps inherit from the first."""
    t.start([f"echo {HELLO}"] * 2)
    first = t.submit()
    if first.fields.get("batch", 0) < 2:
        skip("the client says no batch")
    second = t.submit()
    if second.peer != first.peer:
        skip("the client has one job on a connection")
    maps = [{"ref": m.fields["ref"], "id": m.fields["id"]} for m in (first, second)]
    maps[0] |= {"lane": "low", "queued_ms": 3}
    maps[1] |= {"lane": None}
    t.send([*first.envelope, packb(["LMQ1", "result", maps, [b'"one"', b'"two"']])])
    t.prints('result "one"', 'result "two"')


@rule("Messages")
def odd_values_take_no_other_answer_with_them(t):
    """A client that says batch has its answers, whatever stands in a field of another one of the batch."""
    t.start([f"echo {HELLO}"] * (len(ODD_VALUES) + 1))
    first = t.submit()
    if first.fields.get("batch", 0) < 3:
        skip("the client says no batch")
    named = lambda request: {"ref": request.fields["ref"], "id": request.fields["id"]}
    for value in ODD_VALUES.values():
        request = t.submit()
        if request.peer != first.peer:
            skip("the client has one job on a connection")
        # The odd map answers nothing that is open: what a client makes of it is its own affair.
        odd = {"ref": "nobody's", "id": "nobody's", "news": Raw(as_packed(value)), "meta": Raw(as_packed(value))}
        maps = [{"ref": "nobody's", "id": "nobody's"}, odd, named(request)]
        t.send([*first.envelope, pack_header("result", maps, [b'"x"', b'"odd"', b'"fine"'])])
    t.answer(first, "result", {}, b'"fine"')
    t.prints(*['result "fine"'] * (len(ODD_VALUES) + 1))


@rule("Client to broker")
def refs_are_unique_while_open(t):
    """A ref is unique among the requests of its connection that are open."""
    t.start([f'echo "{number}"' for number in range(6)])
    t.inbox.append(t.submit())
    open_ = {m.fields["id"]: m for m in t.for_a_while(1) if m.op == "submit"}
    if len(open_) < 2:
        skip("the client has one request open at a time")
    refs, beside = {}, collections.Counter(request.peer for request in open_.values())
    if max(beside.values()) < 2:
        skip("the client has one request open at a time on a connection")
    for name, request in open_.items():
        ref = request.fields.get("ref")
        if ref is None and beside[request.peer] == 1:
            continue
        expect_that(ref is not None, f"{beside[request.peer]} requests are open, and one has no ref: {request.fields}")
        expect(refs.setdefault((request.peer, ref), name), name, f"the request that has the ref {ref!r}")
    for request in reversed(open_.values()):
        t.answer(request, "result", {}, request.body)
    for _ in range(6 - len(open_)):
        request = t.submit(which=lambda m: m.fields["id"] not in open_)
        t.answer(request, "result", {}, request.body)
    t.prints(*(f'result "{number}"' for number in range(6)))


@rule("Broker to client: error")
def an_unknown_code_is_internal(t):
    """A client takes an unknown code for internal."""
    request = t.submitted(f"echo {HELLO}")
    t.answer(request, "error", {"code": "from-the-future", "message": "why"})
    t.may_end = True
    t.pump(lambda: t.lines, PATIENCE, "a line of output")
    expect_that(t.lines[0] in ("error internal", "error from-the-future"), f"the client prints {t.lines[0]!r}")


@rule("Broker to client")
def a_second_end_is_ignored(t):
    """For every submit there is one terminal message; one that comes again, as after a submit that was sent twice, is ignored."""
    t.start([f"echo {HELLO}"] * 2)
    first = t.submit()
    for _ in range(1 if first.envelope else 2):
        t.answer(first, "result", {}, b'"one"')
    t.answer(t.submit(), "result", {}, b'"two"')
    t.prints('result "one"', 'result "two"')


# ---- a broker that is gone, or silent -----------------------------------------------------------------------


@rule("Same id")
def gone_in_mid_job(t):
    """A client whose connection is lost connects again and submits again, with the same id and the same content."""
    first = t.submitted(f"echo {HELLO}")
    t.for_a_while(t.interval)
    t.vanish()
    t.for_a_while(t.interval)
    t.come_back()
    second = t.again(first, 15, "when the broker is back")
    t.answer(second, "result", {}, b'"answer"')
    t.prints('result "answer"')


@rule("When nothing comes", slow=True)
def a_silent_broker_gets_a_new_connection(t):
    """A client with open requests that has heard nothing for 2 to 3 s makes a new connection and submits again with the same id."""
    first = t.submitted(f"echo {HELLO}")
    t.for_a_while(t.interval)
    t.pongs, began = False, time.monotonic()
    second = t.submit("the submit again, by a new connection",
                      lambda m: m.fields.get("id") == first.fields.get("id") and m.peer != first.peer, 10)
    t.same(first, second)
    expect_that(second.at - began > 1, f"the new connection came after {second.at - began:.1f} s")
    t.answer(second, "result", {}, b'"answer"')
    t.pongs = True
    t.prints('result "answer"')


@rule("When nothing comes", slow=True)
def a_broker_that_answers_is_waited_for(t):
    """A client that waits asks with ping when it has heard nothing for 1 s; a broker that answers is not silent, however long a
    job takes."""
    first = t.submitted(f"echo {HELLO}")
    came = t.for_a_while(5)
    expect_that(t.process.poll() is None and not t.lines, f"the client has given up: {t.lines}")
    asked = [line for line in t.said if "<- ping" in line]
    expect_that(asked or t.peer != first.peer, "the client has asked nothing for 5 s")
    last = first
    for message in came:
        last = message if message.op == "submit" else last
    t.answer(last, "result", {}, b'"answer"')
    t.prints('result "answer"')


@rule("When nothing comes", slow=True)
def a_lost_answer_is_asked_for(t):
    """An answer can be lost on a connection that lives: a client asks for a job that it has waited for over 10 s, by status or by
    its submit again."""
    first = t.submitted(f"echo {HELLO}")
    name, known = first.fields["id"], {"state": "succeeded", "attempts": 1}
    deadline = time.monotonic() + ASKED_AGAIN_S + PATIENCE
    while True:
        asked = t.expect("a question for the job, or its submit again",
                         lambda m: m.op in ("submit", "status", "fetch") and name in (m.fields.get("id"), *m.fields.get("ids", ())),
                         deadline - time.monotonic())
        if asked.op != "status":
            break
        t.answer(asked, "status", {"jobs": [{"id": name, **known}]} if "ids" in asked.fields else known)
    t.answer(asked, "result", {}, b'"answer"')
    t.prints('result "answer"')


# ---- refusals -----------------------------------------------------------------------------------------------


@rule("Same id", slow=True)
def a_refused_submit_may_come_again(t):
    """A submit that was refused for want of room may be submitted again with the same id, not before retry_after_ms; or the client
    tells the code."""
    request = t.submitted(f"echo {HELLO}")
    refused = time.monotonic()
    t.answer(request, "error", {"code": "lane_full", "message": "full", "retry_after_ms": 1500, "attempts": 0})
    t.may_end = True
    t.pump(lambda: t.lines or any(m.op == "submit" for m in t.inbox), PATIENCE, "the code, or the submit again")
    if t.lines:
        return t.prints("error lane_full")
    second = t.submit()
    expect(second.fields.get("id"), request.fields["id"], "the id of the submit that comes again")
    t.same(request, second)
    expect_that(second.at - refused >= 1.5 - EARLY, f"it came again after {second.at - refused:.2f} s of 1.5 s")
    t.answer(second, "result", {}, b'"answer"')
    return t.prints('result "answer"')


@rule("Broker to client: error")
def an_error_ends_its_request_alone(t):
    """error ends its request; others go on."""
    t.start([f"echo {HELLO}"] * 2)
    t.answer(t.submit(), "error", {"code": "upstream_rejected", "message": "no", "upstream_status": 400}, b'{"why": "no"}')
    t.answer(t.submit(), "result", {}, b'"answer"')
    t.prints("error upstream_rejected", 'result "answer"')


@rule("Keys")
def unauthorized_ends_all_requests(t):
    """unauthorized without ref and id ends all requests of the client."""
    request = t.submitted(f"echo {HELLO}")
    t.say("error", {"code": "unauthorized", "message": "the key does not count any more"}, peer=request.peer, envelope=request.envelope)
    t.may_end = True
    t.pump(lambda: t.lines or t.process.poll() not in (None, 0), PATIENCE, "a line of output, or an exit code")
    expect_that(not t.lines or t.lines[0] == "error unauthorized", f"the client prints {t.lines}")


# ---- streams ------------------------------------------------------------------------------------------------


@rule("Streams")
def chunks_are_seen(t):
    """A client takes the chunks in their order, and says seen at the latest for half a window."""
    request = t.stream()
    t.chunks(request, range(32))
    mine = lambda m: m.op == "seen" and (m.fields.get("ref") == request.fields.get("ref") or m.fields.get("id") == request.fields["id"])
    seen = t.expect("seen, after half a window", mine)
    expect_that(0 <= seen.fields["seq"] < 32, f"seen says {seen.fields}, and 32 chunks were sent")
    t.chunks(request, range(32, 40))
    t.answer(request, "result", {"chunks": 40}, b"")
    t.prints("result " + pieces(range(40)))


@rule("Streams")
def a_gap_is_fetched(t):
    """A gap in seq says that chunks were dropped: the client fetches from there, and no chunk counts twice."""
    request = t.stream()
    t.chunks(request, (0, 1, 3))
    fetch = t.expect("a fetch from the gap, or the submit again",
                     lambda m: m.op == "fetch" and m.fields.get("from_seq", 9) <= 2 or m.op == "submit")
    begin = fetch.fields.get("from_seq", 0) if fetch.op == "fetch" else 0
    expect(fetch.fields["id"], request.fields["id"], "the id that is fetched")
    t.chunks(fetch, range(begin, 6))
    t.answer(fetch, "result", {"chunks": 6}, b"")
    t.prints("result " + pieces(range(6)))


@rule("Streams")
def gone_in_mid_stream(t):
    """A reader whose connection is lost fetches from what it has; no chunk counts twice."""
    request = t.stream()
    t.chunks(request, range(5))
    t.for_a_while(t.interval)
    t.vanish()
    t.come_back()
    mine = lambda m: m.op in ("fetch", "submit") and m.fields.get("id") == request.fields["id"]
    fetch = t.expect("a fetch from what it has, or the submit again", mine, 15)
    begin = fetch.fields.get("from_seq", 0) if fetch.op == "fetch" else 0
    expect_that(begin <= 5, f"it fetches from {begin}, and has 5")
    t.chunks(fetch, range(begin, 8))
    t.answer(fetch, "result", {"chunks": 8}, b"")
    t.prints("result " + pieces(range(8)))


@rule("Streams")
def a_stream_that_breaks(t):
    """A stream that breaks ends with an error that says chunks; it is told, and not begun anew."""
    request = t.stream()
    t.chunks(request, range(3))
    t.answer(request, "error", {"code": "worker_lost", "message": "lost", "retry_after_ms": 1, "chunks": 3})
    t.prints("error worker_lost")


# ---- wrong endpoints ----------------------------------------------------------------------------------------


@rule("Transport", slow=True)
def nobody_listens_is_told(t):
    """Where nobody answers at its endpoint an end says so within 3 s, to whoever started it."""
    t.measure_start([f"echo {HELLO}"])
    t.vanish()
    t.start([f"echo {HELLO}"])
    t.tells_within(TELL_S, "nobody listens at the endpoint")


@rule("Transport", slow=True)
def nobody_answers_is_told(t):
    """Where nobody answers at its endpoint an end says so within 3 s: also where a socket is there that says nothing."""
    t.measure_start([f"echo {HELLO}"])
    t.pongs = False
    t.start([f"echo {HELLO}"])
    t.tells_within(TELL_S, "nobody answers at the endpoint")


@rule("Transport")
def the_workers_endpoint_is_told(t):
    """A client at the workers' endpoint is answered with bad_request, and says so within 3 s."""
    t.measure_start([f"echo {HELLO}"])
    t.pongs = False
    t.start([f"echo {HELLO}"])
    answered = set()

    def told():
        while t.inbox:
            request = t.inbox.popleft()
            if request.op != "seen":
                said = {"ref": request.fields["ref"]} if "ref" in request.fields else {}
                t.say("error", {"code": "bad_request", "message": f'unknown op "{request.op}"; this endpoint is for workers', **said},
                      peer=request.peer, envelope=request.envelope)
                answered.add(request.op)
        return t.told()

    t.tells_within(TELL_S, "the endpoint is that for workers", told)
