# SPDX-License-Identifier: Apache-2.0
"""What workers say of how far their jobs are, and what becomes of those that say no more."""

from time import monotonic

from kit import EARLY, expect, expect_error, expect_that, rule

STALL = 0.4  # seconds
STALLS = ("--set", f"lane.normal.stall_timeout={int(1000 * STALL)}ms", "--set", "heartbeat=30s")  # no inventory says in between that an attempt is over


def progress(worker, job, **fields):
    worker.send("progress", {"job": job.fields["job"], "attempt": job.fields["attempt"], **fields})


def seen(client, job):
    status = client.status(job)
    return {name: status.get(name) for name in ("pct", "note")}


@rule("Progress")
def the_last_word_stands_in_status(room):
    """The last word of a running job stands in status. Each takes the place of the one before, also where it says less. It goes
    with the attempt."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, id=room.id("a"))
    expect("silent_ms" in client.status(room.id("a")), False, "silent_ms of a job whose worker has said nothing")
    for fields in ({"pct": 0, "note": "begins"}, {"pct": 100}, {"note": "n" * 256}, {}):
        progress(worker, job, **fields)
        worker.fence()
        expect(seen(client, room.id("a")), {"pct": None, "note": None, **fields}, f"the status behind {fields}")
    expect_that(client.status(room.id("a"))["silent_ms"] >= 0, "silent_ms is negative")
    progress(worker, job, pct=50)
    worker.hand_in(job, "error", **{"class": "released"})
    job = worker.get("job")
    expect(seen(client, room.id("a")), {"pct": None, "note": None}, "the status of the next attempt")
    worker.echo(job)
    client.get("result")
    expect(seen(client, room.id("a")), {"pct": None, "note": None}, "the status of a job that is over")


@rule("Progress")
def progress_of_what_is_over_is_stale_or_ignored(room):
    """Progress of an attempt that is over gets error stale. Of a job that has just ended it is ignored."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, id=room.id("a"))
    client.ask("cancel", {"id": room.id("a")})
    worker.get("cancel")
    progress(worker, job, pct=1)
    expect(worker.fence(), [], "what a worker is told of a job that was cancelled")
    worker.hand_in(job, "error", **{"class": "retry", "code": "cancelled"})
    progress(worker, job, pct=2)
    room.pump(lambda: worker.stale, "stale")
    expect(worker.stale, [(job.fields["job"], job.fields["attempt"])], "what is stale")


@rule("Watches", feature="watches")
def progress_is_told_once_a_second(room):
    """Of one attempt at most one a second, and of several in between the last one."""
    follower, worker, client = room.client(), room.worker(), room.client()
    job = room.running(worker, client, id=room.id("a"))
    follower.send("watch", {"ref": "w", "id": room.id("a")})
    follower.get("watching")
    for pct in range(20):
        progress(worker, job, pct=pct, note=f"{pct}")
    first, last = (follower.get("event").fields for _ in range(2))
    expect([(event["what"], event["pct"], event["note"], event["state"]) for event in (first, last)],
           [("progress", 0, "0", "running"), ("progress", 19, "19", "running")], "the events")
    expect_that(last["at_ms"] - first["at_ms"] >= 1000 * (1 - EARLY), "two events of one job within a second")
    worker.echo(job)
    expect(follower.get("event").fields["what"], "ended", "the next event")


@rule("Progress", broker=STALLS)
def silence_ends_an_attempt(room):
    """From the first word on: where then neither progress nor a chunk comes for stall_timeout, the attempt is over. It counts as
    one, and the job goes back to its old place. Its worker gets cancel with the reason stalled, and its place is free when its
    outcome comes, which is stale."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, id=room.id("a"), attempts_max=2)
    progress(worker, job, pct=1)
    said = monotonic()
    cancel = worker.get("cancel")
    expect_that(monotonic() - said >= STALL - EARLY, "the attempt was over before its time")
    expect((cancel.fields["job"], cancel.fields["reason"]), (job.fields["job"], "stalled"), "the cancel")
    expect(worker.jobs(), [], "jobs of a worker whose place is not free")
    expect(client.status(room.id("a"))["state"], "queued", "the state")
    progress(worker, job, pct=2)
    expect(worker.fence(), [], "what is said to progress of an attempt that was cancelled")
    worker.hand_in(job, body=b"late")
    again = worker.get("job")
    expect(worker.stale, [(job.fields["job"], 1)], "what is stale")
    expect((again.fields["job"], again.fields["attempt"]), (job.fields["job"], 2), "the next attempt")
    progress(worker, again, note="again")
    answer = expect_error(client.get(), "stalled", "stall_timeout")
    expect((answer.fields.get("attempts"), answer.fields["retry_after_ms"] > 0), (2, True), "the end of the last attempt")


@rule("Progress", broker=STALLS)
def who_says_no_progress_is_not_held_to_it(room):
    """It is about attempts whose worker has said progress, from the first word on."""
    client, worker = room.client(), room.worker(2)
    quiet = room.running(worker, client, id=room.id("quiet"))
    spoke = room.running(worker, client, id=room.id("spoke"), attempts_max=1)
    progress(worker, spoke)
    worker.get("cancel")
    expect(expect_error(client.get(), "stalled").fields["id"], room.id("spoke"), "the job that stalled")
    expect(client.status(room.id("quiet"))["state"], "running", "the state of a job whose worker says nothing")
    worker.echo(quiet)
    expect(client.get("result").fields["id"], room.id("quiet"), "the answer")


@rule("Progress", broker=STALLS)
def chunks_are_life_too(room):
    """Where then neither progress nor a chunk comes. As a stream that had begun, it ends with error stalled."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, id=room.id("a"), stream=True)
    progress(worker, job, pct=1)
    said = monotonic()
    for seq in range(4):
        room.keep_alive(STALL / 2)
        worker.send("chunk", {"job": job.fields["job"], "attempt": 1, "seq": seq}, b"x")
        client.get("chunk")
        client.send("seen", {"id": room.id("a"), "seq": seq})
    answer = expect_error(client.get(), "stalled")
    expect_that(monotonic() - said >= 3 * STALL - EARLY, "it ended although chunks came")
    expect(answer.fields.get("chunks"), 4, "chunks")
