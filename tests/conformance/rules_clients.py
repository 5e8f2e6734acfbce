# SPDX-License-Identifier: Apache-2.0
"""What a client asks and is told."""

import re
import time

from kit import EARLY, brief, expect, expect_error, expect_that, rule, skip
from page import Raw, is_int, pack_header, wrong_values

FAR = 3_600_000
LANES = ("critical", "high", "normal", "low", "batch")

# ---- the fields of every request, by their tables -----------------------------------------------------------


def fields_are_checked(room, op, required, answers):
    """Every field of an op with every value that its table forbids, and without those that it requires.
    `required` are good fields to stand beside; `answers` the ops that answer the request when all is well."""
    client = room.client()
    for field in room.page.fields("Client to broker", op).values():
        for what, value, named in wrong_values(field):
            with room.case(f"{field.name}: {what}"):
                client.send_raw(pack_header(op, {**required, field.name: value}))
                expect_error(client.get(), "bad_request", named)
        if field.required:
            for fields in ({**required, field.name: None}, {k: v for k, v in required.items() if k != field.name}):
                with room.case(f"{field.name}: absent"):
                    client.send(op, fields)
                    expect_error(client.get(), "bad_request", field.name)
    expect(client.fence(), [], "what came behind the refusals")
    if answers:
        message = client.ask(op, required)
        expect_that(message.op in answers, f"the answer to good fields is {brief(message)}")


@rule("Client to broker: submit")
def fields_of_submit(room):
    """submit: every field has its type and limit; service is required."""
    fields_are_checked(room, "submit", {"service": room.service, "reply": "accepted"}, ["accepted"])


@rule("Client to broker: cancel")
def fields_of_cancel(room):
    """cancel: every field has its type and limit; id is required."""
    fields_are_checked(room, "cancel", {"id": room.id("a")}, ["status"])


@rule("Client to broker: status")
def fields_of_status(room):
    """status: every field has its type and limit."""
    fields_are_checked(room, "status", {"id": room.id("a")}, ["status"])


@rule("Client to broker: fetch")
def fields_of_fetch(room):
    """fetch: every field has its type and limit; id is required."""
    fields_are_checked(room, "fetch", {"id": room.id("a")}, ["error"])


@rule("Client to broker: seen")
def fields_of_seen(room):
    """seen: every field has its type and limit; seq is required."""
    fields_are_checked(room, "seen", {"id": room.id("a"), "seq": 1}, [])


@rule("Client to broker: stats")
def fields_of_stats(room):
    """stats: every field has its type and limit."""
    fields_are_checked(room, "stats", {}, ["stats"])


@rule("Client to broker: ping")
def fields_of_ping(room):
    """ping: every field has its type and limit."""
    fields_are_checked(room, "ping", {}, ["pong"])


@rule("Client to broker: spend")
def fields_of_spend(room):
    """spend: every field has its type and limit; key and session are required."""
    fields_are_checked(room, "spend", {"key": room.id("key"), "session": room.id("session")}, ["spent"])


@rule("Client to broker: spend")
def gateways_share_a_key(room):
    """spend: what one session takes another does not get, what it does not want any more it gets, and to say it again changes nothing."""
    limits = {"key": room.id("key"), "requests_per_minute": 10, "concurrency": 2}
    one, other = ({**limits, "session": room.id(name)} for name in ("one", "other"))
    client = room.client()
    spent = lambda fields, **more: client.ask("spend", {**fields, **more}).fields
    for _ in range(2):
        granted = spent(one, requests_ahead=8, places_ahead=2)
        expect((granted["key"], granted["requests"], granted["places"]), (limits["key"], 8, 2), "what the first session is given")
    granted = spent(other, requests_ahead=8, places_ahead=2)
    expect_that(granted["requests"] < 8, "the second session is given what is left")
    expect_that(granted["requests_wait_ms"] > 0, "the second session is told when there is more")
    expect(granted.get("places", 0), 0, "the places of the second session")
    spent(one, requests=1, places=1)
    granted = spent(other, requests_ahead=8, places_ahead=2)
    expect((granted["requests"], granted["places"]), (8, 1), "what the second session is given of what the first one does not want")


@rule("Client to broker")
def every_answer_carries_the_ref(room):
    """Every request may carry ref, and every answer to that request carries it back as it was."""
    client, worker = room.client(), room.worker()
    for ref in (0, 7, -5, 2**64 - 1, "", "text"):
        with room.case(f"ref {ref!r}"):
            client.submit(ref=ref, reply="both")
            expect(client.get("accepted").fields.get("ref"), ref, "of accepted")
            worker.echo(worker.get("job"))
            expect(client.get("result").fields.get("ref"), ref, "of result")
            for op, fields in (("ping", {}), ("stats", {}), ("status", {"id": "-"}), ("cancel", {"id": "-"}),
                               ("fetch", {"id": "-"}), ("submit", {}), ("no-such-op", {})):  # fmt: skip
                expect(client.ask(op, {**fields, "ref": ref}).fields.get("ref"), ref, f"of the answer to {op}")


@rule("Client to broker")
def refs_come_back_in_their_format(room):
    """A ref comes back as it was, byte for byte."""
    client = room.client()
    for ref in (b"\xcc\x05", b"\xd3" + bytes(7) + b"\x05", b"\xd9\x01r", b"\xdb\0\0\0\x01r"):
        client.send_raw(pack_header("ping", {"ref": Raw(ref)}))
        client.get("pong")
        expect_that(b"\xa3ref" + ref in client.frames[-1], f"{ref.hex(' ')} is not in {client.frames[-1].hex(' ')}")


# ---- submit -------------------------------------------------------------------------------------------------


@rule("Client to broker: submit")
def service_chooses_the_worker(room):
    """service: what does the work; workers say which services they serve."""
    client, ours = room.client(), room.worker()
    theirs = room.worker(services=[room.service + "-2"])
    client.accepted(b"1")
    client.accepted(b"2", service=room.service + "-2")
    expect([job.body for job in ours.jobs(1)], [b"1"], "the jobs of the first service")
    expect([job.body for job in theirs.jobs(1)], [b"2"], "the jobs of the second")


@rule("Client to broker: submit")
def unknown_lanes_are_refused_with_the_list(room):
    """lane: an unknown one is bad_request and the message lists them."""
    lanes = room.stats()["lanes"]
    expect_error(room.client().ask("submit", {"service": room.service, "lane": "no-such-lane"}), "bad_request", *lanes)


@rule("Client to broker: submit")
def lane_defaults_to_the_default_lane(room):
    """lane: the default lane where it is absent, `normal` unless configured."""
    needs_lanes(room)
    client = room.client()
    client.accepted(id=room.id("a"))
    client.accepted(id=room.id("b"), lane="normal")
    for name in ("a", "b"):
        expect(client.status(room.id(name)).get("lane"), None, "the lane that status says")


@rule("Client to broker: submit")
def broker_makes_an_id(room):
    """id: the broker makes one, a ULID, where it is absent."""
    ids = [room.client().accepted()["id"] for _ in range(3)]
    for job_id in ids:
        expect_that(re.fullmatch("[0-7][0-9A-HJKMNP-TV-Z]{25}", job_id), f"{job_id!r} is no ULID")
    expect(len(set(ids)), 3, "the different ids")


@rule("Client to broker: submit")
def the_worker_gets_what_the_client_said(room):
    """model, client and cost go to the worker as the client said."""
    client, worker = room.client(), room.worker()
    said = {"model": "m", "client": "c", "cost": {"input_tokens": 3, "output_tokens": 4}}
    got = room.running(worker, client, **said).fields
    expect({name: got.get(name) for name in said}, said, "what the worker got")
    bare = room.running(room.worker(services=[room.service + "-2"]), client, service=room.service + "-2").fields
    expect_that(not said.keys() & bare.keys(), f"fields that nobody said: {bare}")


@rule("Client to broker: submit", slow=True)
def attempts_max_bounds_the_hand_overs(room):
    """attempts_max: how many hand-overs that cost an attempt the job may have; 3 where it is absent."""
    client, worker = room.client(), room.worker()
    for attempts_max, expected in ((1, 1), (2, 2), (None, 3)):
        client.submit(attempts_max=attempts_max)
        for _ in range(expected):
            worker.hand_in(worker.get("job"), "error", **{"class": "retry"})
        answer = expect_error(client.get(), "upstream_failed")
        expect(answer.fields.get("attempts", 1), expected, f"the attempts with attempts_max {attempts_max}")


@rule("Client to broker: submit")
def retain_ms_0_keeps_no_answer(room):
    """retain_ms: how long the answer is kept for fetch; 0: not at all."""
    client, worker = room.client(), room.worker()
    client.submit(id=room.id("a"), retain_ms=0)
    worker.echo(worker.get("job"))
    client.get("result")
    expect_that(client.fetch(room.id("a")).fields.get("code") in ("not_found", "gone"), "the answer is still kept")
    expect(client.status(room.id("a"))["state"], "unknown", "the state")


@rule("Client to broker: submit", slow=True)
def retain_ms_is_the_time_that_answers_are_kept(room):
    """retain_ms: afterwards the answer is no longer kept; before it is."""
    client, worker = room.client(), room.worker(2)
    started = time.monotonic()
    client.submit(id=room.id("short"), retain_ms=700)
    client.submit(id=room.id("long"))
    for _ in range(2):
        worker.echo(worker.get("job"))
    client.get("result"), client.get("result")
    op = client.fetch(room.id("short")).op
    expect_that(op == "result" or time.monotonic() - started > 0.7 - EARLY, "the answer was not kept for retain_ms")
    while client.fetch(room.id("short")).op == "result":
        expect_that(time.monotonic() - started < 20, "the answer is still there after 20 s")
        room.keep_alive(0.05)
    expect(client.fetch(room.id("long")).op, "result", "the answer that is kept for longer")


@rule("Client to broker: submit")
def reply_says_what_is_answered(room):
    """reply: result is the terminal message, accepted is `accepted` at once and the result by fetch, both is
    both."""
    client, worker = room.client(), room.worker()
    for reply, before, after in ((None, [], ["result"]), ("result", [], ["result"]), ("accepted", ["accepted"], []),
                                 ("both", ["accepted"], ["result"])):  # fmt: skip
        with room.case(f"reply {reply}"):
            client.submit(reply=reply)
            job = worker.get("job")
            expect([message.op for message in client.fence()], before, "answers while it runs")
            worker.echo(job)
            expect(client.fetch(job.fields["id"]).op, "result", "what is fetched")
            expect([message.op for message in client.fence()], after, "answers at its end")
    expect_error(client.ask("submit", {"service": room.service, "reply": "maybe"}), "bad_request", "reply")


@rule("Client to broker: submit")
def orphan_is_keep(room):
    """orphan: keep is taken, a word that nobody knows is not."""
    room.client().accepted(orphan="keep")
    answer = room.client().ask("submit", {"service": room.service, "orphan": "adopt"})
    expect_error(answer, "bad_request", "orphan")


@rule("Client to broker: submit")
def durable_is_a_wish(room):
    """durable: a wish; accepted says whether it is granted."""
    room.client().accepted(durable=True)
    expect(room.client().accepted(durable=False).get("durable"), None, "durable of a job that need not be")


@rule("Client to broker: submit")
def batch_is_taken(room):
    """batch: taken, and a job submitted with it is a job as every other."""
    client, worker = room.client(), room.worker()
    client.submit(b"x", batch=4)
    worker.echo(worker.get("job"))
    expect(client.get("result").body, b"x", "the answer")


# ---- cancel -------------------------------------------------------------------------------------------------


@rule("Client to broker: cancel")
def cancel_ends_a_job_that_waits(room):
    """A job that waits is over at once, answered by status, and its client gets error cancelled."""
    client, other = room.client(), room.client()
    client.submit(id=room.id("a"), ref=1)
    client.submit(b"b", id=room.id("b"))
    client.fence()
    expect(other.ask("cancel", {"id": room.id("a")}, expect="status").fields["state"], "cancelled", "the state")
    expect(expect_error(client.get(), "cancelled").fields.get("ref"), 1, "the ref of the cancelled submit")
    expect(room.worker().get("job").body, b"b", "the only job that is left")


@rule("Client to broker: cancel")
def cancel_ends_a_job_that_runs_for_its_clients(room):
    """A job that runs is over for its clients at once, while its worker is told and keeps the place until it
    hands in an outcome."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, id=room.id("a"))
    client.accepted(b"next", id=room.id("b"))
    client.send("cancel", {"id": room.id("a"), "ref": "c"})
    expect(client.answer("c").fields["state"], "cancelled", "the state")
    expect_error(client.get(), "cancelled")
    told = worker.get("cancel").fields
    expect((told["job"], told["attempt"], told.get("reason")), (job.fields["job"], 1, "cancelled"), "the cancel")
    worker.jobs(0)  # the place is taken
    worker.hand_in(job, body=b"late")
    expect(worker.get("job").body, b"next", "the job that takes the place")
    expect(client.fetch(room.id("a")).fields.get("code"), "cancelled", "what is kept of the cancelled job")


@rule("Client to broker: cancel")
def cancel_changes_nothing_that_is_over(room):
    """A job that is over stays what it is."""
    client, worker = room.client(), room.worker()
    client.submit(b"x", id=room.id("a"))
    worker.echo(worker.get("job"))
    client.get("result")
    expect(client.ask("cancel", {"id": room.id("a")}, expect="status").fields["state"], "succeeded", "the state")
    expect(client.fetch(room.id("a")).body, b"x", "the answer that is kept")


@rule("Client to broker: cancel")
def cancel_of_an_unknown_id(room):
    """An id that nobody knows: status with the state unknown."""
    got = room.client().ask("cancel", {"id": room.id("a")}, expect="status").fields
    expect((got.get("id"), got["state"]), (room.id("a"), "unknown"), "the status")


# ---- status -------------------------------------------------------------------------------------------------


@rule("Client to broker: status")
def status_of_an_unknown_id(room):
    """The state is unknown for an id that nobody knows."""
    got = room.client().ask("status", {"id": room.id("a")}, expect="status").fields
    expect((got.get("id"), got["state"]), (room.id("a"), "unknown"), "the status")


@rule("Client to broker: status")
def status_says_what_a_job_waits_for(room):
    """A job that waits is queued, and blocked_by says for what: no worker SERVICE, worker SERVICE (no free
    place)."""
    client = room.client()
    client.accepted(id=room.id("a"))
    got = client.status(room.id("a"))
    expect((got["state"], got.get("blocked_by"), got["attempts"]), ("queued", f"no worker {room.service}", 0), "first")
    worker = room.worker()
    worker.get("job")
    client.accepted(id=room.id("b"))
    got = client.status(room.id("b"))
    expect((got["state"], got.get("blocked_by")), ("queued", f"worker {room.service}"), "with a worker that is full")


@rule("Client to broker: status")
def status_of_a_running_job(room):
    """A job that runs is running; worker is the name of its worker where it has one, attempts how many it
    cost."""
    client = room.client()
    room.running(room.worker(name="anna"), client, id=room.id("a"))
    got = client.status(room.id("a"))
    expect((got["state"], got.get("worker"), got["attempts"]), ("running", "anna", 1), "with a name")
    service = room.service + "-2"
    room.running(room.worker(services=[service]), client, id=room.id("b"), service=service)
    expect(client.status(room.id("b"))["state"], "running", "the state without a name")


@rule("Client to broker: status")
def status_of_a_delayed_job(room):
    """A job that waits for a retry is delayed; blocked_by is retry, and eta_ms says when it may be over."""
    client, worker = room.client(), room.worker()
    worker.hand_in(room.running(worker, client, id=room.id("a")), "error", retry_after_ms=FAR, **{"class": "retry"})
    worker.fence()
    got = client.status(room.id("a"))
    expect((got["state"], got.get("blocked_by"), got["attempts"]), ("delayed", "retry", 1), "the status")
    expect_that(FAR - 60_000 < got.get("eta_ms", 0) <= FAR, f"eta_ms is {got.get('eta_ms')} of {FAR}")


@rule("Client to broker: status")
def status_of_what_has_ended(room):
    """A job that is over is succeeded, failed, cancelled or expired; of one that failed, error says code and
    message."""
    client, worker = room.client(), room.worker()
    client.submit(id=room.id("succeeded"))
    worker.echo(worker.get("job"))
    client.submit(id=room.id("failed"))
    worker.hand_in(worker.get("job"), "error", message="why", **{"class": "permanent"})
    worker.answered()
    client.accepted(id=room.id("cancelled"), service=room.service + "-2")
    client.send("cancel", {"id": room.id("cancelled")})
    client.submit(id=room.id("expired"), service=room.service + "-2", timeout_ms=1, ref="expired")
    expect_error(client.answer("expired"), "deadline")
    for state in ("succeeded", "failed", "cancelled", "expired"):
        with room.case(state):
            got = client.status(room.id(state))
            expect(got["state"], state, "the state")
            if state == "failed":
                expect(got["error"].get("code"), "upstream_rejected", "the code of its error")
                expect_that("why" in got["error"].get("message", ""), f"its error says {got['error']}")
            if state == "succeeded":
                expect_that("error" not in got, f"it says an error: {got}")


# ---- fetch --------------------------------------------------------------------------------------------------


@rule("Client to broker: fetch")
def fetch_gives_the_answer_as_often_as_asked(room):
    """The answer of a job, as often as it is asked for while it is kept: the terminal message."""
    client, worker = room.client(), room.worker()
    client.submit(b"x", id=room.id("a"))
    worker.hand_in(worker.get("job"), body=b"answer", usage={"input_tokens": 3})
    client.submit(b"x", id=room.id("b"))
    worker.hand_in(worker.get("job"), "error", b"why", code="400", message="m", **{"class": "permanent"})
    told = {message.fields["id"]: message for message in (client.get(), client.get())}
    for name in ("a", "b", "a", "b"):
        got, first = room.client().fetch(room.id(name)), told[room.id(name)]
        got.fields.pop("ref")
        expect((got.op, got.fields, got.body), (first.op, first.fields, first.body), "what is fetched")


@rule("Client to broker: fetch")
def fetch_answers_status_when_the_job_is_not_over(room):
    """fetch is answered by status when the job is not over after wait_ms; 0 is at once."""
    client = room.client()
    client.accepted(id=room.id("a"))
    expect(client.fetch(room.id("a"), wait_ms=0).op, "status", "the answer at once")
    started = time.monotonic()
    answer = client.fetch(room.id("a"), wait_ms=400)
    took = time.monotonic() - started
    expect((answer.op, answer.fields.get("state")), ("status", "queued"), "the answer after 400 ms")
    expect_that(took >= 0.4 - EARLY, f"the answer came after {took * 1000:.0f} ms")
    expect(client.ask("fetch", {"id": room.id("a")}).op, "status", "the answer without wait_ms")


@rule("Client to broker: fetch")
def fetch_waits_for_the_end(room):
    """wait_ms: how long to wait for the job's end; its answer comes when it ends."""
    client, asker, worker = room.client(), room.client(), room.worker()
    job = room.running(worker, client, id=room.id("a"))
    asker.send("fetch", {"id": room.id("a"), "wait_ms": 60000, "ref": 1})
    expect(asker.fence(), [], "answers while the job runs")
    worker.hand_in(job, body=b"answer")
    expect(asker.get("result").body, b"answer", "the answer at the end")


@rule("Client to broker: fetch")
def fetch_of_an_unknown_id(room):
    """error not_found for an id that nobody knows."""
    answer = room.client().ask("fetch", {"id": room.id("a"), "wait_ms": 60000})
    expect(expect_error(answer, "not_found", room.id("a")).fields.get("id"), room.id("a"), "the id")


# ---- stats, ping --------------------------------------------------------------------------------------------


@rule("The stats document")
def stats_have_what_the_page_lists(room):
    """The document has version, uptime_ms, lanes, workers, results, counters and bytes, as listed."""
    client, worker = room.client(), room.worker()
    client.submit()
    worker.echo(worker.get("job"))
    client.get("result")
    stats = room.stats()
    expect_that(isinstance(stats["version"], str) and is_int(stats["uptime_ms"]), "version and uptime_ms")
    expect_that(stats["lanes"], "there are no lanes")
    for name, lane in stats["lanes"].items():
        with room.case(f"lane {name}"):
            numbers = ["queued", "delayed", "running", "accepted", "succeeded", "failed", "refused", "duplicates"]
            for field in [*numbers, "requeued", "bytes", "oldest_ms"]:
                expect_that(is_int(lane.get(field)), f"{field} is {lane.get(field)!r}")
            for field in ("wait_ms", "run_ms"):
                expect_that({"p50", "p99", "max"} <= lane[field].keys(), f"{field} is {lane[field]}")
    for field in ("connected", "reserved", "capacity", "running", "lost"):
        expect_that(is_int(stats["workers"].get(field)), f"workers.{field} is {stats['workers'].get(field)!r}")
    expect_that(stats["workers"]["connected"] >= 1 and stats["workers"]["capacity"] >= 1, "our worker is not counted")
    expect_that(is_int(stats["results"]["kept"]) and isinstance(stats["counters"], dict), "results.kept and counters")
    expect_that(is_int(stats["memory_bytes"]) and is_int(stats["resident_bytes"]), "memory_bytes and resident_bytes")


@rule("The stats document")
def stats_count_jobs(room):
    """Counters count since the broker's start: accepted and succeeded of the lane grow with each job, never
    shrink."""
    needs_lanes(room)
    client, worker = room.client(), room.worker()
    before = room.stats()["lanes"]["low"]
    for _ in range(5):
        client.submit(lane="low")
        worker.echo(worker.get("job"))
        client.get("result")
    after = room.stats()["lanes"]["low"]
    for field in ("accepted", "succeeded"):
        grown = after[field] - before[field]
        expect_that(grown >= 5, f"{field} of lane low grew by {grown}")


@rule("Client to broker: ping")
def pong_says_time_and_version(room):
    """Answered by pong: the broker's clock in milliseconds since 1970, and its version."""
    pongs = [room.client().ask("ping", expect="pong").fields for _ in range(2)]
    expect_that(1_500_000_000_000 < pongs[0]["now_ms"] <= pongs[1]["now_ms"], f"now_ms is {pongs}")
    expect(pongs[0].get("version"), room.stats()["version"], "the version")


# ---- Same id ------------------------------------------------------------------------------------------------


@rule("Same id")
def same_id_and_content_is_the_same_job(room):
    """A second submit with the id and the content (service, lane, model and body) of a known job is the same
    job and runs no second time: while it waits, while it runs and while its answer is kept."""
    client, other = room.client(), room.client()
    client.submit(b"x", id=room.id("a"), model="m")
    client.fence()
    again = lambda: other.accepted(b"x", id=room.id("a"), model="m")
    expect(again().get("duplicate"), True, "duplicate, while it waits")
    worker = room.worker(capacity=4)
    job = worker.get("job")
    expect(again().get("duplicate"), True, "duplicate, while it runs")
    worker.hand_in(job, body=b"answer")
    client.get("result")
    got = again()
    expect((got.get("duplicate"), got["position"]), (True, 0), "duplicate and position, while it is kept")
    worker.jobs(0)


@rule("Same id")
def each_submit_gets_its_answer(room):
    """The second submit gets its own answer by its own reply; the first submit gets its answer too."""
    client, worker = room.client(), room.worker()
    for ref, reply in enumerate(("result", "result", "both", "accepted")):
        client.submit(b"x", id=room.id("a"), ref=ref, reply=reply)
    early = [(message.op, message.fields["ref"]) for message in client.fence()]
    expect(early, [("accepted", 2), ("accepted", 3)], "answers while it runs")
    worker.hand_in(worker.get("job"), body=b"answer")
    got = sorted(client.get("result").fields["ref"] for _ in range(3))
    expect(got, [0, 1, 2], "the refs of the results")
    client.submit(b"x", id=room.id("a"), ref=9)
    expect(client.get("result").body, b"answer", "the answer to one more, when it is over")
    expect(client.fence(), [], "what came behind")


@rule("Same id")
def same_id_with_other_content_is_a_conflict(room):
    """Other content (service, lane, model or body) is error conflict, and the known job goes on."""
    needs_lanes(room)
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, id=room.id("a"), model="m", body=b"x")
    for change in ({"service": room.service + "-2"}, {"lane": "high"}, {"model": "n"}, {"model": None}, {"body": b"y"}):
        with room.case(f"{change}"):
            body = change.get("body", b"x")
            fields = {"id": room.id("a"), "model": "m", **{k: v for k, v in change.items() if k != "body"}}
            client.submit(body, **fields)
            expect(expect_error(client.get(), "conflict").fields.get("id"), room.id("a"), "the id")
    for same in ({"meta": 1}, {"attempts_max": 9}, {"client": "c"}, {"timeout_ms": 77_777}, {"lane": "normal"}):
        with room.case(f"{same}"):
            expect(client.accepted(b"x", id=room.id("a"), **{"model": "m", **same}).get("duplicate"), True, "duplicate")
    worker.hand_in(job, body=b"answer")
    expect(client.get("result").body, b"answer", "the answer of the known job")


@rule("Same id")
def an_id_that_the_broker_made_is_no_key(room):
    """A job whose id the broker made can be asked for by that id, but a submit with it is a conflict."""
    client = room.client()
    job_id = client.accepted(b"x")["id"]
    expect(client.status(job_id)["state"], "queued", "its state")
    client.submit(b"x", id=job_id)
    expect_error(client.get(), "conflict")


# ---- Broker to client ---------------------------------------------------------------------------------------


@rule("Broker to client")
def one_terminal_message_for_each_submit(room):
    """For every submit there is exactly one terminal message; with reply accepted exactly one accepted or
    error."""
    client, worker = room.client(), room.worker(capacity=16)
    replies = ["result", "accepted", "both", None] * 4
    for ref, reply in enumerate(replies):
        client.submit(b"%d" % ref, ref=ref, reply=reply)
    jobs = [worker.get("job") for _ in replies]
    for job in reversed(jobs):
        worker.hand_in(job, "error" if int(job.body) % 3 == 0 else "result", **{"class": "permanent"})
    worker.answered()
    answers = client.fence()
    for ref, reply in enumerate(replies):
        ops = [message.op for message in answers if message.fields["ref"] == ref]
        terminal = ["error" if ref % 3 == 0 else "result"]
        wanted = {"accepted": ["accepted"], "both": ["accepted", *terminal]}.get(reply, terminal)
        expect(ops, wanted, f"the answers to a submit with reply {reply}")


@rule("Broker to client")
def terminal_messages_carry_ref_and_id(room):
    """Terminal messages carry ref where the request had one, and id where the client gave the job its id or the
    request had no ref."""
    client, worker = room.client(), room.worker()
    for ref in (None, 5):
        for given in (None, room.id(f"{ref}")):
            for op in ("result", "error"):
                with room.case(f"{op}, ref {ref}, id {given}"):
                    client.submit(ref=ref, id=given and f"{given} {op}")
                    job = worker.get("job")
                    worker.hand_in(job, op, **{"class": "permanent"})
                    got = client.get(op).fields
                    expect(got.get("ref"), ref, "the ref")
                    expect(got.get("id"), job.fields["id"] if given or ref is None else None, "the id")


@rule("Broker to client: accepted")
def accepted_and_status_always_carry_id(room):
    """accepted and status always carry id, also beside a ref."""
    client = room.client()
    job_id = client.accepted()["id"]  # asks with a ref
    expect(client.status(job_id).get("id"), job_id, "the id of a status with a ref")


@rule("Broker to client: accepted")
def position_counts_the_jobs_before(room):
    """position: jobs of the same lane and service that waited before it; 0 for a duplicate."""
    needs_lanes(room)
    client = room.client()
    got = [client.accepted(id=room.id(f"{number}"))["position"] for number in range(3)]
    expect(got, [0, 1, 2], "the positions in one lane")
    expect(client.accepted(lane="high")["position"], 0, "the position in another lane")
    expect(client.accepted(service=room.service + "-2")["position"], 0, "the position for another service")
    expect(client.accepted(id=room.id("2"))["position"], 0, "the position of a duplicate")


@rule("Broker to client: result")
def result_says_times_attempts_and_usage(room):
    """result says queued_ms, ran_ms, attempts and lane where they are not their defaults, and usage as the
    worker did."""
    needs_lanes(room)
    client = room.client()
    client.accepted(b"x", id=room.id("a"), lane="high", attempts_max=2)
    started = time.monotonic()
    room.keep_alive(0.25)
    queued = (time.monotonic() - started) * 1000
    worker = room.worker()
    job = worker.get("job")
    started = time.monotonic()
    room.keep_alive(0.25)
    ran = (time.monotonic() - started) * 1000
    usage = {"requests": 1, "input_tokens": 10, "output_tokens": 20, "cached_tokens": 5, "reasoning_tokens": 1}
    worker.hand_in(job, usage=usage, limits={"remaining_requests": 5})
    got = client.fetch(room.id("a")).fields
    for name, least in (("queued_ms", queued), ("ran_ms", ran)):
        expect_that(got.get(name, 0) >= least - 1000 * EARLY, f"{name} is {got.get(name)}, and was {least:.0f} at least")
    expect(got.get("usage"), usage, "the usage")
    expect(got.get("lane"), "high", "the lane")
    expect_that("attempts" not in got and "limits" not in got, f"it says {got}")


@rule("Broker to client: error")
def error_brings_the_upstreams_body(room):
    """A body, if any, is the upstream's, as the worker handed it in; the worker's code stands in front of the
    message."""
    client, worker = room.client(), room.worker()
    for body in (b"", b"why", bytes(5000)):
        client.submit()
        worker.hand_in(worker.get("job"), "error", body, code="400", message="no such model", **{"class": "permanent"})
        answer = expect_error(client.get(), "upstream_rejected", "400", "no such model")
        expect(answer.body, body, "the body")
        text = answer.fields["message"]
        expect_that(text.index("400") < text.index("no such model"), f"the message is {text!r}")


@rule("Broker to client: error")
def error_says_how_long_the_job_waited(room):
    """error of a job that ran says the time to its last hand-over, of one that waited the time to its end, and of
    a refusal none; status says it, too."""
    client = room.client()
    client.accepted(b"x", id=room.id("a"), attempts_max=1)
    started = time.monotonic()
    room.keep_alive(0.05)
    queued = (time.monotonic() - started) * 1000
    worker = room.worker()
    job = worker.get("job")
    ref = room.new_ref()
    client.send("status", {"id": room.id("a"), "ref": ref})
    running = client.answer(ref).fields
    room.keep_alive(0.05)
    worker.hand_in(job, "error", code="400", message="no", **{"class": "permanent"})
    failed = expect_error(client.fetch(room.id("a")), "upstream_rejected").fields
    expect_that(failed.get("queued_ms", 0) >= queued - 2, f"queued_ms is {failed}, and was {queued:.0f} at least")
    expect(running.get("queued_ms"), failed["queued_ms"], "the status while it ran")
    client.accepted(id=room.id("b"), service=room.service + "-2", timeout_ms=50)
    expired = expect_error(client.fetch(room.id("b"), wait_ms=10000), "deadline").fields
    expect_that(expired.get("queued_ms", 0) >= 50, f"queued_ms is {expired}, and its time was 50 ms")
    expect_that("queued_ms" not in expect_error(client.fetch(room.id("c")), "not_found").fields, "a refusal waits")


@rule("Error codes", broker=("--set", "lane.normal.depth_max=2", "--set", "heartbeat=2s"))
def lane_full(room):
    """lane_full: the lane holds its maximum of jobs; retry_after_ms says when to come again."""
    client = room.client()
    client.accepted(id=room.id("a")), client.accepted()
    refused = expect_error(client.ask("submit", {"service": room.service}), "lane_full", "normal", "depth_max")
    expect_that(refused.fields["retry_after_ms"] > 0, "retry_after_ms is 0")
    expect(client.accepted(id=room.id("a")).get("duplicate"), True, "duplicate, of a known job in a full lane")
    client.accepted(lane="high")


@rule("Error codes", broker=("--set", "memory_max=1MiB"))
def bytes_full(room):
    """bytes_full: the broker holds its maximum of bytes, with retry_after_ms."""
    client = room.client()
    client.accepted(bytes(600_000))
    refused = client.ask("submit", {"service": room.service}, bytes(600_000))
    expect_that(expect_error(refused, "bytes_full", "memory_max").fields["retry_after_ms"] > 0, "retry_after_ms is 0")


@rule("Error codes", broker=("--set", "budget.b.tokens_per_minute=100"))
def unsatisfiable(room):
    """unsatisfiable: it costs more than a budget can ever hold."""
    cost = {"input_tokens": 1000, "output_tokens": 0}
    answer = room.client().ask("submit", {"service": room.service, "cost": cost})
    expect_error(answer, "unsatisfiable", "b", 100)


@rule("Error codes", broker=("--set", "body_bytes_max=100KiB"))
def too_large(room):
    """too_large: body or header over its limit; the message names the limit. body_bytes_max is configurable."""
    worker = room.worker(welcome=False)
    expect(worker.get("welcome").fields["body_bytes_max"], 102_400, "what welcome says")
    client = room.client()
    client.accepted(bytes(102_400))
    for inside in (True, False):
        client.send("submit", {"service": room.service}, bytes(102_401), inside=inside)
        expect_error(client.get(), "too_large", "body_bytes_max", 102_400)


def needs_lanes(room):
    if not set(LANES) <= room.stats()["lanes"].keys():
        skip(f"needs the lanes {', '.join(LANES)}, normal being the default")
