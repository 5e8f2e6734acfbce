# SPDX-License-Identifier: Apache-2.0
"""What a broker may refuse by name because its version has it not, and what it does where it has it.

A probe asks once for each feature. A broker that says "not in this version" is not asked again: its rules are skipped.
"""

from functools import reduce
from time import monotonic

import zmq
from msgpack import ExtType, packb

from kit import EARLY, NO_JOB, brief, expect, expect_error, expect_that, feature, rule
from page import BATCH_INHERITED_BYTES_MAX
from rules_clients import needs_lanes


def refusal(message):
    """Why the broker has a feature not, or nothing where it took it."""
    if message.op == "error" and message.fields["code"] == "bad_request":
        text = message.fields.get("message", "")
        return f"the broker says {text!r}" if "this version" in text else None
    return None


@rule("Messages")
def what_is_refused_is_bad_request(room):
    """What is not in this version is refused or answered honestly, never ignored in silence."""
    client, service = room.client(), room.service
    for what, op, fields in (
        ("stream", "submit", {"service": service, "stream": True, "reply": "both"}),
        ("delay_ms", "submit", {"service": service, "delay_ms": 60_000, "reply": "accepted"}),
        ("orphan", "submit", {"service": service, "orphan": "cancel", "reply": "accepted"}),
        ("ids", "status", {"ids": ["a", "b"]}),
        ("from_seq", "fetch", {"id": room.id("a"), "from_seq": 1}),
    ):
        with room.case(what):
            message = client.ask(op, fields)
            if op == "fetch":
                expect((message.op, message.fields["code"] in ("bad_request", "not_found")), ("error", True), "fetch")
            elif message.op == "error":
                expect_error(message, "bad_request", what)
            elif what == "ids":
                expect_that("jobs" in message.fields, f"ids are ignored in silence: {brief(message)}")
            else:
                expect(message.op, "accepted", "the answer where it is in this version")


# ---- delay_ms -----------------------------------------------------------------------------------------------


@feature("delay_ms")
def has_delay(room):
    return refusal(room.client().ask("submit", {"service": room.service, "delay_ms": 60_000, "reply": "accepted"}))


@rule("Client to broker: submit", feature="delay_ms")
def delayed_jobs_wait_their_time(room):
    """delay_ms: the job is delayed for so long, and runs then, not before; others do not wait for it."""
    client, worker = room.client(), room.worker(capacity=2)
    started = monotonic()
    client.accepted(b"later", id=room.id("a"), delay_ms=400)
    if (state := client.status(room.id("a"))["state"]) != "delayed":
        expect_that(monotonic() - started > 0.4 - EARLY, f"the state is {state}")
    client.submit(b"now")
    came = {}
    for _ in range(2):
        job = worker.get("job")
        came[job.body] = (monotonic() - started) * 1000
        expect(job.fields["attempt"], 1, "the attempt")
        worker.echo(job)
    expect(came.keys(), {b"now", b"later"}, "the jobs")
    expect_that(came[b"later"] >= 400 - 1000 * EARLY, f"it came after {came[b'later']:.0f} ms")
    expect(client.fetch(room.id("a")).fields.get("attempts", 1), 1, "attempts")


@rule("Client to broker: submit", feature="delay_ms")
def delayed_jobs_can_be_cancelled_and_expire(room):
    """A job that is delayed can be cancelled, and ends at its deadline; its id is taken meanwhile."""
    client = room.client()
    client.accepted(b"x", id=room.id("a"), delay_ms=3_600_000)
    expect(client.accepted(b"x", id=room.id("a"), delay_ms=3_600_000).get("duplicate"), True, "duplicate")
    client.submit(b"y", id=room.id("a"))
    expect_error(client.get(), "conflict")
    expect(client.status(room.id("a"))["state"], "delayed", "the state")
    expect(client.ask("cancel", {"id": room.id("a")}, expect="status").fields["state"], "cancelled", "after cancel")
    client.submit(delay_ms=3_600_000, timeout_ms=200)
    expect_error(client.get(), "deadline")


@rule("Client to broker: submit", feature="delay_ms")
def delayed_jobs_become_due_each_at_its_time(room):
    """Delayed jobs become due each at its time, not in the order in which they came."""
    client, worker = room.client(), room.worker()
    started = monotonic()
    for delay_ms in (900, 600, 300):
        client.accepted(b"%d" % delay_ms, delay_ms=delay_ms)
    for _ in range(3):
        job = worker.get("job")
        took = (monotonic() - started) * 1000
        expect_that(took >= int(job.body) - 1000 * EARLY, f"a job with a delay of {int(job.body)} ms came after {took:.0f} ms")
        worker.echo(job)


# ---- status of many -----------------------------------------------------------------------------------------


@feature("ids")
def has_ids(room):
    return refusal(room.client().ask("status", {"ids": [room.id("a")]}))


@rule("Client to broker: status", feature="ids")
def status_of_many_ids(room):
    """ids: answered by one status whose jobs are the status of each, unknown ones too."""
    client = room.client()
    room.running(room.worker(name="anna"), client, id=room.id("running"))
    client.accepted(id=room.id("queued"))
    ids = [room.id(name) for name in ("queued", "no such job", "running")]
    answer = client.ask("status", {"ids": ids, "ref": 5}, expect="status").fields
    expect(answer.get("ref"), 5, "the ref")
    expect([job["id"] for job in answer["jobs"]], ids, "the ids of jobs")
    expect([job["state"] for job in answer["jobs"]], ["queued", "unknown", "running"], "the states")
    expect(answer["jobs"][2].get("worker"), "anna", "the worker of the one that runs")


@rule("Client to broker: status", feature="ids")
def status_of_256_ids(room):
    """ids: up to 256; none at all is an empty answer or bad_request."""
    client = room.client()
    ids = [f"{number}" for number in range(256)]
    answer = client.ask("status", {"ids": ids}, expect="status")
    expect([job["id"] for job in answer.fields["jobs"]], ids, "the ids of jobs")
    empty = client.ask("status", {"ids": []})
    expect_that(empty.op == "error" or empty.fields.get("jobs", []) == [], f"the answer to no ids: {brief(empty)}")


# ---- orphans ------------------------------------------------------------------------------------------------


@feature("orphan: cancel")
def has_orphan_cancel(room):
    fields = {"service": room.service, "orphan": "cancel", "reply": "accepted"}
    return refusal(room.client().ask("submit", fields))


@rule("Client to broker: submit", feature="orphan: cancel", slow=True)
def orphans_are_cancelled(room):
    """orphan cancel: the job is cancelled 5 s after the client's connection is gone, also while it runs; keep
    keeps it."""
    leaver, watcher, worker = room.client(), room.client(), room.worker()
    job = room.running(worker, leaver, id=room.id("runs"), orphan="cancel")
    leaver.accepted(id=room.id("waits"), orphan="cancel")
    leaver.accepted(id=room.id("kept"))
    started = monotonic()
    leaver.close()
    for name in ("runs", "waits"):
        while (state := watcher.status(room.id(name))["state"]) != "cancelled":
            expect_that(state in ("running", "queued"), f"the state is {state}")
            expect_that(monotonic() - started < 60, f"job {name} is {state}, 60 s after its client left")
            room.keep_alive(0.05)
        expect_that(monotonic() - started >= 4.9 - EARLY, f"job {name} was cancelled after {monotonic() - started:.1f} s")
    expect(worker.get("cancel").fields["job"], job.fields["job"], "the job that its worker is told to stop")
    expect(watcher.status(room.id("kept"))["state"], "queued", "the state of the job that is kept")


@rule("Client to broker: submit", feature="orphan: cancel", slow=True)
def jobs_of_clients_that_stay_are_no_orphans(room):
    """orphan cancel: a job whose client is there is not cancelled."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, orphan="cancel")
    room.keep_alive(6)
    worker.hand_in(job, body=b"answer")
    expect(client.get("result").body, b"answer", "the answer")


# ---- gone ---------------------------------------------------------------------------------------------------


@rule("Same id", broker=("--set", "results_max=2"))
def what_made_way_does_not_run_again(room):
    """A submit with the id of a job that succeeded, and whose answer made way before its time, is error gone, and
    nothing runs."""
    client, worker = room.client(), room.worker()
    for number in range(3):
        worker.echo(room.running(worker, client, id=room.id(str(number))))
        client.get("result")
    expect_error(client.ask("submit", {"service": room.service, "id": room.id("0")}), "gone")
    expect([message for message in worker.fence() if message.op == "job"], [], "what the worker is given")


@rule("Error codes")
def gone_is_not_not_found(room):
    """gone: known once and no longer kept; not_found: never known. An id that is gone may be used for a new
    job."""
    client, worker = room.client(), room.worker()
    for number in range(2):
        worker.echo(room.running(worker, client, id=room.id(str(number)), retain_ms=0))
        client.get("result")
    expect_error(client.fetch(room.id("never")), "not_found")
    worker.hand_in(room.running(worker, client, id=room.id("0"), body=b"other"), body=b"new answer")
    expect(client.get("result").body, b"new answer", "the answer of a new job with an id that is gone")
    expect(client.fetch(room.id("1")).fields.get("code"), "gone", "the code of an answer that is no longer kept")


# ---- batches ------------------------------------------------------------------------------------------------


def batch(op, maps, bodies=None, inside=True):
    """Frames of a message whose fields are a list of maps and whose body is a list of bin: the fourth element, or
    packed in a frame of its own."""
    if bodies is None:
        return [packb(["LMQ1", op, maps])]
    return [packb(["LMQ1", op, maps, bodies])] if inside else [packb(["LMQ1", op, maps]), packb(bodies)]


@feature("batch")
def has_batches(room):
    client = room.client()
    client.accepted(batch=8)
    maps = [{"service": room.service, "reply": "accepted", "ref": 1}, {"ref": 2}]
    client.send_frames(*batch("submit", maps, [b"", b""]))
    message = client.get()
    text = message.fields.get("message", "")
    return f"the broker says {text!r}" if "none was agreed" in text or "this version" in text else None


def batching_client(room, size=8):
    client = room.client()
    client.accepted(service=room.service + "-agreed", batch=size)
    return client


@rule("Messages")
def a_batch_that_was_not_agreed_is_refused(room):
    """fields as a list of maps is bad_request where none was agreed on the connection."""
    client = room.client()
    client.send_frames(*batch("submit", [{"service": room.service}, {}], [b"", b""]))
    expect_error(client.get(), "bad_request")
    expect(client.fence(), [], "what came behind")
    worker = room.worker()
    worker.send_frames(*batch("result", [{"job": 1}, {"job": 2}], [b"", b""]))
    expect_error(worker.get(), "bad_request")
    worker.jobs(0)


@rule("Client to broker: submit", feature="batch")
def batches_of_submits(room):
    """After a submit with batch n, fields may be a list of up to n maps, and the body a msgpack array of bin,
    one for each map, inside the header or in a frame of its own; each is a job."""
    client, worker = batching_client(room), room.worker(capacity=64)
    for inside in (True, False):
        for size in (1, 2, 8):
            with room.case(f"{size} jobs, bodies {'inside' if inside else 'behind'}"):
                maps = [{"service": room.service, "ref": i} for i in range(size)]
                client.send_frames(*batch("submit", maps, [b"%d" % i for i in range(size)], inside))
                for job in [worker.get("job") for _ in range(size)]:
                    worker.hand_in(job, body=b"answer " + job.body)
                got = {(m := client.get("result")).fields["ref"]: m.body for _ in range(size)}
                expect(got, {i: b"answer %d" % i for i in range(size)}, "the answers by their refs")


@rule("Client to broker: submit", feature="batch")
def later_maps_inherit(room):
    """A later map inherits from the first the fields that it does not name, except id, ids, ref and job."""
    needs_lanes(room)
    client, worker = batching_client(room), room.worker(capacity=8)
    first = {"service": room.service, "lane": "high", "model": "m", "meta": {"k": 1}, "x-a": 5, "reply": "both"}
    maps = [{**first, "ref": 1, "id": room.id("a")}, {"ref": 2}, {"lane": "low", "ref": 3, "model": "n"}]
    client.send_frames(*batch("submit", maps, [b"1", b"2", b"3"]))
    jobs = {(job := worker.get("job")).body: job.fields for _ in range(3)}
    named = lambda job: (job.get("lane"), job.get("model"), job.get("meta"), job.get("x-a"))
    expect(named(jobs[b"1"]), ("high", "m", {"k": 1}, 5), "the first job")
    expect(named(jobs[b"2"]), ("high", "m", {"k": 1}, 5), "the second, which names nothing")
    expect(named(jobs[b"3"]), ("low", "n", {"k": 1}, 5), "the third, which names lane and model")
    expect_that(jobs[b"2"]["id"] != room.id("a"), "the id was inherited")
    accepted = [client.get("accepted").fields["ref"] for _ in range(3)]
    expect(sorted(accepted), [1, 2, 3], "the refs of accepted, as reply is inherited")


@rule("Client to broker: submit", feature="batch")
def odd_maps_fail_alone(room):
    """In a batch a map with an ext, too many entries, too much nesting or a key that is no string fails alone."""
    client, worker = batching_client(room), room.worker(capacity=8)
    deep = reduce(lambda inner, _: [inner], range(20))
    for what, odd in (("an ext", {"meta": ExtType(5, b"abc")}), ("80 fields", {f"x-{i}": i for i in range(80)}),
                      ("80 entries", {"meta": {f"k{i}": i for i in range(80)}}), ("nesting", {"meta": deep}),
                      ("a key that is an int", {"meta": {1: 1}}), ("a key that is a list", {"meta": {(1, 2): 1}})):
        with room.case(what):
            maps = [{"service": room.service, "ref": 1}, {**odd, "ref": 2}, {"ref": 3}]
            client.send_frames(*batch("submit", maps, [b"1", b"2", b"3"]))
            for job in [worker.get("job") for _ in range(2)]:
                worker.hand_in(job, body=job.body)
            said = {(answer := client.get()).fields.get("ref"): answer for _ in maps}
            expect_error(said[2], "bad_request")
            expect([said[1].body, said[3].body], [b"1", b"3"], "the answers to the others of the batch")


@rule("Client to broker: submit", feature="batch")
def inheriting_has_a_limit(room):
    """What the maps of a batch inherit has at most batch_inherited_bytes_max; a map beyond it fails alone."""
    client = batching_client(room, 256)
    first = {"service": room.service, "meta": {"k": "m" * 12000}, "reply": "accepted", "ref": 0}
    inherited = len(packb(first["meta"])) + len("accepted") + len(room.service)
    maps = [first] + [{"ref": i} for i in range(1, 200)]
    client.send_frames(*batch("submit", maps, [b""] * len(maps)))
    said = {(m := client.get()).fields["ref"]: m for _ in maps}
    refused = [i for i in range(len(maps)) if said[i].op == "error"]
    most = BATCH_INHERITED_BYTES_MAX // inherited + 1
    expect(refused, list(range(most, len(maps))), "the maps that are refused")
    expect_error(said[refused[0]], "too_large", "batch_inherited_bytes_max")


@rule("Client to broker: submit", feature="batch")
def ids_are_not_inherited(room):
    """A later map of a batch does not inherit ids."""
    client = batching_client(room)
    client.send_frames(*batch("status", [{"ids": ["no-job"], "ref": 1}, {"id": "no-job", "ref": 2}]))
    said = {(m := client.get()).fields["ref"]: m for _ in range(2)}
    expect({ref: m.op for ref, m in said.items()}, {1: "status", 2: "status"}, "the answers")


@rule("Client to broker: submit", feature="batch")
def a_bad_item_fails_alone(room):
    """A bad item of a batch fails alone, with its own ref and id."""
    client, worker = batching_client(room), room.worker(capacity=8)
    maps = [{"service": room.service, "ref": 1}, {"lane": "no-such-lane", "ref": 2}]
    maps += [{"attempts_max": 0, "ref": 3, "id": room.id("c")}, {"ref": 4}]
    client.send_frames(*batch("submit", maps, [b"1", b"2", b"3", b"4"]))
    errors = {(m := client.get("error")).fields["ref"]: m for _ in range(2)}
    expect(errors.keys(), {2, 3}, "the refs that are refused")
    expect_error(errors[2], "bad_request", "no-such-lane")
    expect(expect_error(errors[3], "bad_request", "attempts_max").fields.get("id"), room.id("c"), "the id")
    expect({worker.get("job").body for _ in range(2)}, {b"1", b"4"}, "the jobs")
    worker.jobs(0)


@rule("Client to broker: submit", feature="batch")
def broken_batches_are_refused(room):
    """A batch over its n, an empty one, and one whose bodies are not one bin for each map are refused."""
    client, worker = batching_client(room, 4), room.worker(capacity=64)
    one = {"service": room.service}
    for what, frames in {
        "five where four were agreed": batch("submit", [one] * 5, [b""] * 5),
        "an empty list": batch("submit", [], []),
        "fewer bodies than maps": batch("submit", [one] * 2, [b""]),
        "more bodies than maps": batch("submit", [one] * 2, [b""] * 3),
        "bodies that are texts": batch("submit", [one] * 2, ["a", "b"]),
        "bodies that are no array": [packb(["LMQ1", "submit", [one] * 2, b"x"])],
        "items that are no maps": batch("submit", [one, 7], [b""] * 2),
        "a list in the list": batch("submit", [one, [one]], [b""] * 2),
    }.items():
        with room.case(what):
            client.send_frames(*frames)
            expect_error(client.get(), "bad_request")
            client.fence()
    expect([job for job in worker.fence() if job.op != "job"], [], "what else the worker is told")


@rule("Worker to broker: ready", feature="batch")
def batches_of_jobs_and_outcomes(room):
    """After a ready with batch n, jobs and outcomes may go in lists of up to n; each job is handed out once,
    each outcome answered."""
    client, worker = room.client(), room.worker(capacity=16, batch=8)
    for number in range(16):
        client.accepted(b"%d" % number, id=room.id(str(number)))
    jobs = worker.jobs(16)
    expect({job.body for job in jobs}, {b"%d" % number for number in range(16)}, "the jobs")
    for part in (jobs[:8], jobs[8:]):
        leases = [(job.fields["job"], job.fields["attempt"]) for job in part]
        for lease in leases:
            worker.outcomes[lease] = worker.held.pop(lease)
        maps = [{"job": job, "attempt": attempt} for job, attempt in leases]
        worker.send_frames(*batch("result", maps, [b"answer " + job.body for job in part]))
    for number in range(16):
        expect(client.fetch(room.id(str(number))).body, b"answer %d" % number, "an answer")
    worker.answered()
    expect(worker.stale, [], "what is stale")


@rule("Worker to broker: result", feature="batch")
def outcomes_of_a_batch_inherit_all_but_job(room):
    """Of outcomes, too, a later map inherits what it does not name, but job; a wrong one is stale alone."""
    client, worker = room.client(), room.worker(capacity=4, batch=4)
    jobs = [room.running(worker, client, id=room.id(str(number))) for number in range(2)]
    first, second = (job.fields["job"] for job in jobs)
    maps = [{"job": first, "attempt": 1, "usage": {"input_tokens": 7}}, {"job": NO_JOB}, {"job": second}]
    worker.held.clear()
    worker.send_frames(*batch("result", maps, [b"1", b"wrong", b"2"]))
    for number in range(2):
        got = client.fetch(room.id(str(number)))
        expect((got.op, got.fields.get("usage")), ("result", {"input_tokens": 7}), f"the result of job {number}")
    room.pump(lambda: worker.stale, "stale for the wrong one")
    expect(worker.stale, [(NO_JOB, 1)], "what is stale")


# ---- streams ------------------------------------------------------------------------------------------------


@feature("stream")
def has_streams(room):
    return refusal(room.client().ask("submit", {"service": room.service, "stream": True, "reply": "both"}))


def chunk(worker, job, seq, body):
    worker.send("chunk", {"job": job.fields["job"], "attempt": job.fields["attempt"], "seq": seq}, body)


@rule("Client to broker: submit", feature="stream")
def streams_come_before_the_result(room):
    """stream: chunks with seq from 0 come before the terminal message, which says how many there were."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, stream=True, ref=7)
    expect(job.fields.get("stream"), True, "stream, as the worker is told")
    for seq, body in enumerate((b"a", b"", b"c" * 5000)):
        chunk(worker, job, seq, body)
        got = client.get("chunk")
        expect((got.fields["seq"], got.fields.get("ref"), got.body), (seq, 7, body), "the chunk")
    worker.hand_in(job, body=b"end")
    got = client.get("result")
    expect((got.fields.get("chunks"), got.fields.get("ref"), got.body), (3, 7, b"end"), "the result")


@rule("Client to broker: submit", feature="stream")
def streams_are_not_for_req(room):
    """stream is bad_request from a REQ socket, which gets exactly one answer."""
    answer = room.client(zmq.REQ).ask("submit", {"service": room.service, "stream": True})
    expect_error(answer, "bad_request", "stream")


@rule("Client to broker: fetch", feature="stream")
def streams_can_be_fetched_again(room):
    """from_seq: chunks that are kept come again from there, then the terminal message."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, stream=True, id=room.id("a"))
    for seq in range(4):
        chunk(worker, job, seq, b"%d" % seq)
        client.get("chunk")
    worker.hand_in(job)
    client.get("result")
    client.send("fetch", {"id": room.id("a"), "from_seq": 2, "wait_ms": 60000})
    got = [client.get() for _ in range(3)]
    told = [(message.op, message.fields.get("seq")) for message in got]
    expect(told, [("chunk", 2), ("chunk", 3), ("result", None)], "what is fetched")


@rule("Worker to broker: chunk", feature="stream", hostile=True)
def hostile_chunks(room):
    """Chunks of jobs that the worker does not hold, of another attempt, and of jobs that asked for no stream,
    reach nobody."""
    client, owner, thief = room.client(), room.worker(capacity=2), room.worker(services=[room.service + "-2"])
    job = room.running(owner, client, stream=True, id=room.id("a"))
    for worker, number, attempt in ((thief, job.fields["job"], 1), (owner, job.fields["job"], 2), (owner, NO_JOB, 1)):
        worker.send("chunk", {"job": number, "attempt": attempt, "seq": 0}, b"wrong")
        worker.fence()
    expect(client.fence(), [], "what the client got")
    chunk(owner, job, 0, b"right")
    expect(client.get("chunk").body, b"right", "the first chunk")
    owner.hand_in(job)
    client.get("result")


@rule("Broker to client: error", feature="stream")
def a_stream_that_breaks_says_how_much_was_sent(room):
    """A stream that breaks after content ends in error with chunks, the number sent, and is not tried again."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, stream=True, attempts_max=5)
    for seq in range(2):
        chunk(worker, job, seq, b"x")
        client.get("chunk")
    worker.hand_in(job, "error", **{"class": "retry"})
    answer = client.get("error")
    expect(answer.fields.get("chunks"), 2, "chunks")
    worker.jobs(0)


@rule("Streams", feature="stream")
def a_worker_is_a_window_ahead_at_most(room):
    """A worker sends at most 64 chunks beyond the last window; one more is refused and may come again. The broker says
    window when half of it has been taken."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, stream=True, id=room.id("a"))
    for seq in range(64):
        chunk(worker, job, seq, b"x")
    expect([client.get("chunk").fields["seq"] for _ in range(64)], list(range(64)), "the chunks")
    chunk(worker, job, 64, b"early")
    refused = expect_error(worker.get("error"), "bad_request")
    expect((refused.fields.get("job"), refused.fields.get("attempt")), (job.fields["job"], 1), "which chunk's job")
    client.send("seen", {"id": room.id("a"), "seq": 40})
    expect(worker.get("window").fields["seq"], 40, "the window")
    chunk(worker, job, 64, b"late")
    expect(client.get("chunk").body, b"late", "the chunk that was refused before")
    worker.hand_in(job)
    expect(client.get("result").fields.get("chunks"), 65, "chunks")


@rule("Streams", feature="stream")
def chunks_that_leave_a_gap_are_refused(room):
    """A chunk that leaves a gap, or is of a job without stream, gets bad_request, and the right one may follow."""
    client, worker = room.client(), room.worker(capacity=2)
    job, whole = room.running(worker, client, stream=True, id=room.id("a")), room.running(worker, client)
    for of, seq in ((job, 1), (whole, 0)):
        chunk(worker, of, seq, b"wrong")
        expect_error(worker.get("error"), "bad_request")
    for seq, body in enumerate((b"right", b"next")):
        chunk(worker, job, seq, body)
        expect(client.get("chunk").body, body, f"chunk {seq}")
    worker.hand_in(job)
    expect(client.get("result").fields.get("chunks"), 2, "chunks")


@rule("Streams", feature="stream")
def an_answer_with_a_hole_is_no_result(room):
    """Where a chunk that was refused never comes, the worker's result ends the job with upstream_rejected."""
    client, worker = room.client(), room.worker()
    for sent in (64, 0):  # beyond the window, and with a gap before any content
        job = room.running(worker, client, stream=True)
        for seq in range(sent):
            chunk(worker, job, seq, b"x")
            client.get("chunk")
        chunk(worker, job, sent or 1, b"refused")
        expect_error(worker.get("error"), "bad_request")
        worker.hand_in(job)
        expect(expect_error(client.get(), "upstream_rejected").fields.get("chunks", 0), sent, "chunks")


@rule("Streams", feature="stream")
def who_comes_late_gets_all_of_it(room):
    """A second submit with stream gets the chunks from the first on, a fetch from from_seq on, and then what comes; who
    does not ask for chunks gets the terminal message alone."""
    client, late, follower, waiter, worker = *(room.client() for _ in range(4)), room.worker()
    job = room.running(worker, client, stream=True, id=room.id("a"), body=b"q")
    chunk(worker, job, 0, b"0")
    client.get("chunk")
    late.submit(b"q", stream=True, id=room.id("a"), reply="both")
    expect(late.get("accepted").fields.get("duplicate"), True, "duplicate")
    expect(late.get("chunk").body, b"0", "what was there")
    follower.send("fetch", {"id": room.id("a"), "from_seq": 1, "wait_ms": 60000})
    waiter.send("fetch", {"id": room.id("a"), "wait_ms": 60000})
    for peer in (follower, waiter):
        peer.status(room.id("a"))
    chunk(worker, job, 1, b"1")
    for reader in (client, late, follower):
        expect(reader.get("chunk").body, b"1", "what came")
    worker.hand_in(job)
    for reader in (client, late, follower, waiter):
        expect(reader.get("result").fields.get("chunks"), 2, "chunks")


@rule("Streams", feature="stream")
def before_the_first_chunk_a_stream_is_tried_again(room):
    """Before the first chunk everything is tried again, unseen by the client; the first chunk says the attempts."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, stream=True)
    worker.hand_in(job, "error", **{"class": "released"})
    again = worker.get("job")
    expect((again.fields["job"], again.fields["attempt"]), (job.fields["job"], 2), "the second hand-over")
    chunk(worker, again, 0, b"x")
    first = client.get("chunk")
    expect((first.fields["seq"], first.fields.get("attempts", 1)), (0, 1), "the first chunk")
    chunk(worker, job, 1, b"of the first attempt")
    chunk(worker, again, 1, b"y")
    expect(client.get("chunk").body, b"y", "the second chunk")
    worker.hand_in(again)
    client.get("result")


@rule("Client to broker: seen", feature="stream")
def seen_names_a_stream(room):
    """seen without id and ref is bad_request; one for no stream is not answered."""
    client = room.client()
    expect_error(client.ask("seen", {"seq": 1}), "bad_request")
    client.send("seen", {"id": room.id("nothing"), "seq": 1})
    expect(client.fence(), [], "the answer to seen")
