# SPDX-License-Identifier: Apache-2.0
"""Workers that lie and clients that attack. Each rule plays one, and afterwards honest peers have to be served."""

from functools import partial

import zmq
from msgpack import packb

from kit import NO_JOB, expect, expect_error, expect_that, rule
from page import INT_MAX, Raw, pack_header

hostile = partial(rule, hostile=True)

# ---- workers ------------------------------------------------------------------------------------------------


@hostile("The life of a worker")
def hostile_wrong_attempts(room):
    """Outcomes of every attempt but the right one are stale and end nothing."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client)
    number = job.fields["job"]
    for attempt in (2, 3, 2**32 - 1):
        worker.send("result", {"job": number, "attempt": attempt}, b"wrong")
    room.pump(lambda: len(worker.stale) == 3, "three times stale")
    for attempt in (0, -1, 2**32, 2**64 - 1):
        worker.send("result", {"job": number, "attempt": attempt}, b"wrong")
        expect_error(worker.get(), "bad_request", "attempt")
    expect(client.fence(), [], "what the client got")
    worker.hand_in(job, body=b"right")
    expect(client.get("result").body, b"right", "the answer")


@hostile("The life of a worker")
def hostile_double_outcomes(room):
    """A result, then an error, then another result of one job: the first one counts, the place is freed
    once."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client)
    for _ in range(3):
        client.accepted()
    worker.send("result", {"job": job.fields["job"]}, b"first")
    worker.send("error", {"job": job.fields["job"], "class": "retry"})
    worker.send("result", {"job": job.fields["job"]}, b"third")
    worker.held.clear()
    expect(client.get("result").body, b"first", "the answer")
    next_job = worker.jobs(1)[0]  # and not three
    expect(client.fence(), [], "what else the client got")
    worker.echo(next_job)


@hostile("The life of a worker")
def hostile_results_for_others(room):
    """Results for the jobs of other workers, guessed around a number that the thief knows, end nothing: those
    of jobs that run are stale, and each is answered."""
    client, owner, thief = room.client(), room.worker(capacity=8), room.worker(services=[room.service + "-2"])
    jobs = [room.running(owner, client) for _ in range(8)]
    numbers = {job.fields["job"] for job in jobs}
    known = min(numbers)
    guesses = numbers | set(range(max(0, known - 50), known + 51))
    for number in guesses:
        thief.send("result", {"job": number}, b"stolen")
    # A guess may be of a job that is over; its worker might say so again, and might have another connection by now.
    room.pump(lambda: len(thief.stale) + len(thief.acked) == len(guesses), "an answer to each guess")
    expect_that({(number, 1) for number in numbers} <= set(thief.stale), "stale does not name every running job")
    expect(client.fence(), [], "what the client got")
    for job in jobs:
        owner.hand_in(job, body=b"right")
    expect({client.get("result").body for _ in jobs}, {b"right"}, "the answers")


@hostile("The life of a worker")
def hostile_inventories(room):
    """Lies in the inventory: others' jobs, numbers that never were, the same pair many times, pairs without
    end."""
    client, owner, liar = room.client(), room.worker(), room.worker(services=[room.service + "-2"], heartbeats=False)
    job = room.running(owner, client)
    lease = [job.fields["job"], 1]
    for jobs in ([lease], [lease] * 100, [[NO_JOB - i, 1] for i in range(1000)], [[0, 1]], [[INT_MAX, 2**32 - 1]]):
        liar.say_heartbeat(jobs)
        told = liar.fence()
        expect({message.op for message in told} - {"cancel"}, set(), "ops that answer lies")
        expect_that(told, "nothing is cancelled")
    liar.send("heartbeat", {"jobs": [[NO_JOB, 1]] * 2000})
    expect_error(liar.get(), "too_large")
    expect(owner.fence(), [], "what the owner is told")
    owner.echo(job)
    client.get("result")


@hostile("The life of a worker")
def hostile_inventory_leaves_out_what_it_holds(room):
    """A worker that denies a job and hands in its outcome all the same."""
    client, worker = room.client(), room.worker(heartbeats=False)
    job = room.running(worker, client)
    for _ in range(5):
        worker.say_heartbeat([])
    worker.hand_in(job, body=b"answer")
    expect(client.get("result").body, b"answer", "the answer")


@hostile("The life of a worker", slow=True)
def hostile_silence(room):
    """A worker that takes a job and says nothing: the job goes to another, and its late outcome is not
    taken."""
    client, silent = room.client(), room.stranger()
    silent.ask("ready", {"services": [room.service], "capacity": 1})
    client.accepted(b"x", id=room.id("a"))
    job = silent.get("job").fields
    other = room.worker()
    again = other.get("job")
    silent.send("result", {"job": job["job"], "attempt": job["attempt"]}, b"late")
    expect_error(silent.get(), "unknown_session")
    expect(client.status(room.id("a"))["state"], "running", "the state")
    other.hand_in(again, body=b"right")
    expect(client.fetch(room.id("a")).body, b"right", "the answer")


@hostile("Worker to broker: ready")
def hostile_ready(room):
    """ready with absurd capacity, with 256 services, again and again, and with what no table allows."""
    worker = room.stranger()
    for capacity in (0, 1, 1024, 1025, 2**31, 2**32, INT_MAX):
        expect(worker.ask("ready", {"services": [room.service], "capacity": capacity}).op, "welcome", f"to {capacity}")
    for capacity in (-1, INT_MAX + 1, 1.5, "many", [1], True):
        expect_error(worker.ask("ready", {"services": [room.service], "capacity": capacity}), "bad_request", "capacity")
    for services in ([], ["x"] * 257, [""], ["x" * 129], "x", [["x"]], {"x": 1}):
        expect_error(worker.ask("ready", {"services": services, "capacity": 1}), "bad_request", "services")
    worker.ask("ready", {"services": [room.service] * 256, "capacity": 1})
    for _ in range(50):
        worker.send("ready", {"services": [room.service], "capacity": 1})
    expect({message.op for message in worker.fence()}, {"welcome"}, "the answers to 50 more")
    worker.send("bye")


@hostile("The life of a worker")
def hostile_capacity_without_work(room):
    """A worker that says an absurd capacity and gives everything back at once."""
    client, worker = room.client(), room.worker(capacity=INT_MAX)
    for number in range(20):
        client.accepted(id=room.id(str(number)))
    jobs = worker.jobs(20)
    for job in jobs:
        worker.hand_in(job, "error", **{"class": "released"})
    for job in [worker.get("job") for _ in jobs]:
        worker.echo(job)
    for number in range(20):
        expect(client.fetch(room.id(str(number))).op, "result", "what each job comes to")


@hostile("Worker to broker: result")
def hostile_job_zero(room):
    """Outcomes for job 0, and for numbers beyond any job."""
    worker = room.worker()
    for number in (0, NO_JOB, NO_JOB + 1, INT_MAX):
        for op in ("result", "error"):
            worker.stale.clear(), worker.acked.clear()
            worker.send(op, {"job": number, "class": "retry", "usage": {"input_tokens": INT_MAX}}, b"x")
            room.pump(lambda: worker.stale or worker.acked, f"an answer to {op} of {number}")
    for number in (-1, INT_MAX + 1, 2**64 - 1):
        worker.send("result", {"job": number})
        expect_error(worker.get(), "bad_request", "job")


@hostile("Messages")
def hostile_frames_from_a_worker(room):
    """Frames that are no messages: empty, random, huge, many, and a client's."""
    worker = room.stranger()
    for frames in ([b""], [b"", b""], [b"\x93"], [b"\x93\xa4LMQ1"], [b"\x00" * 100_000], [b"GET / HTTP/1.1\r\n\r\n"],
                   [b"x"] * 50, [packb(["LMQ1", "submit", {"service": room.service}])], [packb({})],
                   [packb(["LMQ1", "heartbeat", {}]), b"", b"", b""]):  # fmt: skip
        with room.case(f"{len(frames)} frames of {frames[0][:20]!r}"):
            worker.send_frames(*frames)
            expect_error(worker.get(), "bad_request")


@hostile("Worker to broker: error")
def hostile_errors(room):
    """An error with texts as long as they may be, with odd characters, and with a pause of a year."""
    client, worker = room.client(), room.worker(capacity=3)
    # The last one has time for a pause that counts as a day.
    jobs = [room.running(worker, client, id=room.id(str(i)), timeout_ms=2 * 86_400_000) for i in range(3)]
    worker.hand_in(jobs[0], "error", code="c" * 128, message="m" * 4096, **{"class": "permanent"})
    worker.hand_in(jobs[1], "error", message="\x00\x1b[31m\n\u202e\u2028", **{"class": "permanent"})
    worker.hand_in(jobs[2], "error", retry_after_ms=31_536_000_000, **{"class": "limited"})
    for _ in range(2):
        expect_error(client.get(), "upstream_rejected")
    worker.answered()
    expect(client.status(room.id("2"))["state"], "delayed", "the state of the one that waits a year")
    expect(client.ask("cancel", {"id": room.id("2"), "ref": 1}).op in ("error", "status"), True, "it can be cancelled")


@hostile("Worker to broker: result")
def hostile_usage(room):
    """usage and limits as large as an int may be end no broker."""
    client, worker = room.client(), room.worker()
    usage = dict.fromkeys(("requests", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"), INT_MAX)
    limits = dict.fromkeys(("remaining_requests", "limit_tokens", "reset_requests_ms", "reset_tokens_ms"), INT_MAX)
    worker.hand_in(room.running(worker, client), usage=usage, limits=limits)
    expect(client.get("result").fields.get("usage"), usage, "the usage")


# ---- clients ------------------------------------------------------------------------------------------------


@hostile("Messages")
def hostile_headers(room):
    """Huge headers, deep nesting, keys that come twice, maps and lists that claim millions of entries."""
    client = room.client()
    for what, value in {
        "16 KiB": "x" * 16384,
        "1 MiB": "x" * (1 << 20),
        "a million levels of lists": Raw(b"\x91" * 1_000_000 + b"\xc0"),
        "a thousand levels of maps": Raw(b"\x81\xa1k" * 1000 + b"\xc0"),
        "65535 entries": Raw(b"\xde\xff\xff" + b"\xa1k\xc0" * 65535),
        "4 billion entries": Raw(b"\xdd\xff\xff\xff\xff" + b"\xc0" * 1000),
        "a bin of 4 billion bytes": Raw(b"\xc6\xff\xff\xff\xff"),
        "the same key 60 times": Raw(b"\xde\x00\x3c" + b"\xa1k\xc0" * 60),
    }.items():
        with room.case(what):
            client.send_raw(pack_header("submit", {"service": room.service, "unknown": value}))
            message = client.get("error")
            expect_that(message.fields["code"] in ("bad_request", "too_large"), f"it says {message.fields}")
    expect(client.fence(), [], "what came behind")


@hostile("Messages")
def hostile_types(room):
    """A submit all of whose fields have wrong types, each alone and all together."""
    client = room.client()
    names = [name for name in room.page.fields("Client to broker", "submit") if not name.startswith("x-")]
    anything = [0, -1, 2**64 - 1, 1.5, True, "", "x" * 5000, b"\xff", [], [[]], {}, {"a": {}}]
    for value in anything:
        client.send("submit", dict.fromkeys(names, value))
        expect(client.get().op, "error", f"the answer where every field is {value!r:.40}")
        for name in names:
            client.send("submit", {"service": room.service, "reply": "accepted", name: value})
        client.fence()


@hostile("Messages")
def hostile_refs(room):
    """Oversize refs, and refs of every other type."""
    client = room.client()
    for ref in ("r" * 65, "r" * 16000, 1.0, True, [], {}, b"ref", ["r"], {"r": 1}):
        expect_error(client.ask("ping", {"ref": ref}), "bad_request", "ref")
    for op in ("submit", "status", "fetch", "cancel", "stats", "seen"):
        expect_error(client.ask(op, {"service": "x", "id": "x", "seq": 0, "ref": "r" * 65}), "bad_request", "ref")


@hostile("Messages")
def hostile_req_with_both(room):
    """A REQ socket that asks for two answers gets one, and can go on."""
    client, worker = room.client(zmq.REQ), room.worker()
    for _ in range(3):
        expect_error(client.ask("submit", {"service": room.service, "reply": "both"}), "bad_request", "reply")
    client.submit(b"x")
    worker.echo(worker.get("job"))
    expect(client.get("result").body, b"x", "the answer to a good submit")


@hostile("Messages")
def hostile_envelopes(room):
    """Foreign envelopes: many hops, huge hops, hops that look like headers, and no header behind them."""
    client = room.client()
    ping = packb(["LMQ1", "ping", {}])
    for envelope in ([b"hop"] * 6, [b"hop"] * 1000, [b"x" * 1100], [b"x" * 1_000_000], [b""] * 100):
        client.send_frames(*envelope, ping)
        expect_error(client.get(), "bad_request")
    for envelope in ([b"\x93\xa4LMQ"], [b"\x92\xa4LMQ1"], [b""] * 5, [bytes(range(256))]):
        client.send_frames(*envelope, ping)
        expect(client.get("pong").envelope, envelope, "the envelope")
    client.send_frames(ping, ping)  # the first is the header, the second its body
    expect(client.get().op, "pong", "the answer to a header with a header for its body")
    client.send_frames(ping, ping, ping)
    expect_error(client.get(), "bad_request")


@hostile("Messages")
def hostile_numbers(room):
    """Numbers at the ends of their ranges overflow nothing."""
    client, year = room.client(), 31_536_000_000
    for fields in (
        {"timeout_ms": year, "retain_ms": year, "attempts_max": 1000},
        {"cost": {"input_tokens": INT_MAX, "output_tokens": INT_MAX}},
        {"batch": INT_MAX},
    ):
        client.accepted(**fields)
    client.accepted(id=room.id("a"))
    client.send("fetch", {"id": room.id("a"), "wait_ms": 60000})
    expect(client.fence(), [], "the answer to a fetch that waits")
    expect_error(client.ask("stats", {"from": -1}), "bad_request", "from")
    expect(client.ask("stats", {"from": INT_MAX}).op, "stats", "the answer to stats from the end of all numbers")


@hostile("Client to broker")
def hostile_comings_and_goings(room):
    """Clients that connect, ask and leave without reading, and jobs whose clients are gone."""
    worker = room.worker(capacity=64)
    for _ in range(50):
        client = room.client(options=((zmq.LINGER, 1000),))
        client.submit(b"x")
        client.send("stats")
        client.close()
    jobs = [worker.get("job") for _ in range(50)]
    for job in jobs:
        worker.echo(job)
    worker.answered()


@hostile("Client to broker")
def hostile_clients_that_do_not_read(room):
    """A client that asks for much and reads nothing keeps nobody waiting."""
    greedy = room.client(options=((zmq.RCVHWM, 1),))
    for _ in range(3000):
        greedy.send("stats")
    client = room.client()
    client.ask("ping", expect="pong")
    greedy.close()
