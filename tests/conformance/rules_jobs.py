# SPDX-License-Identifier: Apache-2.0
"""The life of a job, a broker that stops, and the programs of the page."""

import os
import signal
import sys
import tempfile
from time import monotonic

from kit import EARLY, brief, expect, expect_error, expect_that, harness, rule, skip
from rules_clients import LANES, needs_lanes


def work_off(worker, count):
    """Answers so many jobs one after the other; their bodies in that order."""
    bodies = []
    for _ in range(count):
        job = worker.get("job")
        bodies.append(job.body)
        worker.echo(job)
    return bodies


@rule("The life of a job")
def lanes_are_served_in_their_order(room):
    """Lanes are served strictly in their order; within a lane, jobs leave in the order in which they came."""
    needs_lanes(room)
    client = room.client()
    for lane in reversed(LANES):
        for number in range(3):
            client.accepted(f"{lane} {number}".encode(), lane=lane)
    wanted = [f"{lane} {number}".encode() for lane in LANES for number in range(3)]
    expect(work_off(room.worker(), 15), wanted, "the order")


@rule("The life of a job")
def a_higher_job_that_comes_later_goes_next(room):
    """A job of a higher lane goes before those of lower lanes that came earlier."""
    needs_lanes(room)
    client, worker = room.client(), room.worker()
    first = room.running(worker, client, lane="batch")
    client.accepted(b"batch", lane="batch")
    client.accepted(b"critical", lane="critical")
    worker.echo(first)
    expect(work_off(worker, 2), [b"critical", b"batch"], "the order")


@rule("The life of a job")
def a_job_that_cannot_run_holds_up_no_other(room):
    """A job that cannot run now (no free place for its service) holds up no other."""
    needs_lanes(room)
    client = room.client()
    client.accepted(b"nobody serves it", service=room.service + "-2", lane="critical")
    client.accepted(b"x", lane="batch")
    expect(work_off(room.worker(), 1), [b"x"], "the job that can run")


@rule("The life of a job")
def deadlines_end_jobs_wherever_they_are(room):
    """timeout_ms after acceptance the job ends with error deadline, wherever it is, and never before; a worker
    that runs it gets cancel."""
    client, worker, other = room.client(), room.worker(), room.worker(services=[room.service + "-2"])
    started = monotonic()
    client.submit(id=room.id("waits"), service=room.service + "-3", timeout_ms=300)
    delayed = room.running(other, client, id=room.id("delayed"), service=room.service + "-2", timeout_ms=301)
    other.hand_in(delayed, "error", retry_after_ms=60_000, **{"class": "retry"})
    job = room.running(worker, client, id=room.id("runs"), timeout_ms=302)
    ended = {}
    for _ in range(3):
        answer = expect_error(client.get(), "deadline", "timeout_ms")
        ended[answer.fields["id"]] = (monotonic() - started) * 1000
    expect(ended.keys(), {room.id(name) for name in ("waits", "delayed", "runs")}, "what ended")
    expect_that(min(ended.values()) >= 300 - 1000 * EARLY, f"jobs ended after {ended} ms")
    told = worker.get("cancel").fields
    expect((told["job"], told["attempt"], told.get("reason")), (job.fields["job"], 1, "deadline"), "the cancel")
    client.accepted(b"next")
    worker.jobs(0)  # the place is taken until the worker's outcome
    worker.echo(job)
    expect(worker.get("job").body, b"next", "the job that takes the place")
    expect(client.status(room.id("runs"))["state"], "expired", "the state")


@rule("The life of a job")
def deadlines_fire_in_their_order(room):
    """Jobs end in the order of their deadlines."""
    client = room.client()
    started = monotonic()
    for timeout_ms in (900, 600, 300):
        client.submit(timeout_ms=timeout_ms, ref=timeout_ms)
    client.status(room.id("any"))  # the broker has seen them all
    if monotonic() - started > 0.25:
        skip("this machine needed 250 ms for a few messages")
    expect([expect_error(client.get(), "deadline").fields["ref"] for _ in range(3)], [300, 600, 900], "the order")


@rule("The life of a job", broker=("--set", "lane.normal.timeout=400ms"))
def lanes_have_a_timeout(room):
    """timeout_ms: the lane's where the job states none; the worker is not told of that one."""
    client, worker = room.client(), room.worker()
    started = monotonic()
    expect(room.running(worker, client).fields.get("timeout_ms"), None, "timeout_ms of the job")
    expect_error(client.get(), "deadline")
    expect_that(monotonic() - started >= 0.4 - EARLY, "it ended before its time")


@rule("The life of a job", slow=True)
def attempts_count_what_costs_one(room):
    """attempts counts the hand-overs that cost one: retry does; bye, released and limited do not. attempt, the
    number that a worker sees, rises with every hand-over."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, id=room.id("a"))
    steps = (("released", 1), ("limited", 1), ("retry", 1), ("limited", 2))
    for attempt, (error_class, attempts) in enumerate(steps, 2):
        expect(client.status(room.id("a"))["attempts"], attempts, f"attempts while it runs, before {error_class}")
        worker.hand_in(job, "error", retry_after_ms=1, **{"class": error_class})
        job = worker.get("job")
        expect(job.fields["attempt"], attempt, "the attempt")
    worker.send("bye")
    worker.held.clear()
    other = room.worker()
    job = other.get("job")
    expect(job.fields["attempt"], 6, "the attempt after bye")
    other.echo(job)
    expect(client.get("result").fields.get("attempts"), 2, "attempts in the end")


@rule("The life of a job", slow=True)
def two_deaths_end_a_job(room):
    """A job under which workers died twice fails with worker_lost, and retry_after_ms."""
    client = room.client()
    client.accepted(id=room.id("a"), attempts_max=10)
    for _ in range(2):
        worker = room.worker()
        worker.get("job")
        worker.close()
    answer = expect_error(client.fetch(room.id("a")), "worker_lost")
    expect(answer.fields.get("attempts"), 2, "attempts")


@rule("The life of a job", slow=True)
def death_at_the_last_attempt_ends_a_job(room):
    """A job whose last attempt ended by a worker's death fails with worker_lost."""
    client, worker = room.client(), room.worker()
    room.running(worker, client, attempts_max=1)
    worker.close()
    expect_error(client.get(), "worker_lost")


@rule("The life of a job")
def answers_are_kept_when_the_client_is_gone(room):
    """An answer that cannot be delivered, because the client is gone, can be fetched."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, id=room.id("a"))
    client.close()
    worker.hand_in(job, body=b"answer")
    expect(room.client().fetch(room.id("a")).body, b"answer", "the answer")


@rule("The life of a job")
def many_requests_wait_together(room):
    """Any number of requests may wait for the end of one job; nobody who waits makes way."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, id=room.id("a"), body=b"x", ref="first")
    for ref in range(200):
        if ref % 2:
            client.submit(b"x", id=room.id("a"), ref=ref)
        else:
            client.send("fetch", {"id": room.id("a"), "wait_ms": 60000, "ref": ref})
    expect(client.fence(), [], "answers while it runs")
    worker.hand_in(job)
    worker.fence()
    refs = {message.fields["ref"] for message in client.fence()}
    expect(refs, {"first", *range(200)}, "the refs that are answered")


@rule("The life of a job", broker=("--set", "results_max=2"))
def answers_are_kept_within_bounds(room):
    """Answers are kept within the broker's bounds of number and bytes: the oldest go first."""
    client, worker = room.client(), room.worker()
    for number in range(3):
        worker.echo(room.running(worker, client, id=room.id(str(number))))
        client.get("result")
    expect_that(client.fetch(room.id("0")).fields.get("code") in ("not_found", "gone"), "the oldest is still kept")
    for number in (1, 2):
        expect(client.fetch(room.id(str(number))).op, "result", "what is fetched of a younger one")


@rule("When the broker stops", broker=("--set", "drain_timeout=30s"))
def draining(room):
    """SIGTERM drains: new submits get draining, what waits ends with error draining, what runs may finish,
    everything else is answered as always; then the broker exits with 0."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, id=room.id("runs"))
    client.submit(id=room.id("waits"))
    client.fence()
    room.broker.signal(signal.SIGTERM)
    waited = expect_error(client.get(), "draining")
    expect_that(waited.fields["id"] == room.id("waits") and waited.fields["retry_after_ms"] > 0, brief(waited))
    expect_error(client.ask("submit", {"service": room.service}), "draining")
    client.ask("ping", expect="pong")
    expect(client.status(room.id("runs"))["state"], "running", "the state of the one that runs")
    worker.hand_in(job, body=b"answer")
    expect(client.get("result").body, b"answer", "the answer of the one that runs")
    expect(room.broker.wait(), 0, "the exit code")


@rule("When the broker stops", broker=("--set", "drain_timeout=100ms"))
def draining_has_an_end(room):
    """What runs and does not finish within drain_timeout ends with error draining too."""
    client, worker = room.client(), room.worker()
    room.running(worker, client, ref=1)
    room.broker.signal(signal.SIGINT)
    expect(expect_error(client.get(), "draining").fields.get("ref"), 1, "the ref")
    expect(room.broker.wait(), 0, "the exit code")


@rule("When the broker stops", broker=("--set", "drain_timeout=300s"))
def a_second_signal_ends_it_at_once(room):
    """A second signal ends the broker at once, whatever runs."""
    client, worker = room.client(), room.worker()
    room.running(worker, client)
    room.broker.signal(signal.SIGTERM)
    expect_error(client.ask("submit", {"service": room.service}), "draining")
    room.broker.signal(signal.SIGTERM)
    room.broker.wait()  # for much less than 300 s


@rule("The smallest client")
def the_programs_of_the_pages_work(room):
    """The smallest client and worker do a job, but for their endpoints and their service as they stand."""
    if not room.page.programs:
        skip("the pages have no programs in Python")
    with tempfile.TemporaryDirectory() as folder:
        run = {}
        for name, text in room.page.programs.items():
            text = text.replace("tcp://127.0.0.1:5570", room.broker.clients).replace('"echo"', f'"{room.service}"')
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text.replace("tcp://127.0.0.1:5571", room.broker.workers))
            run[name] = room.start(harness.Process(sys.executable, os.path.join(folder, name)))
        expect(run["smallest_client.py"].wait(), 0, "the client's exit code")
        expect(run["smallest_client.py"].line().split()[0], "result", "what the client prints")
        expect(run["smallest_worker.py"].process.poll(), None, "the exit code of the worker, which goes on")
