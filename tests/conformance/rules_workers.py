# SPDX-License-Identifier: Apache-2.0
"""What a worker says and is told."""

from time import monotonic

from kit import EARLY, NO_JOB, expect, expect_error, expect_that, rule, skip
from page import pack_header, wrong_values
from rules_clients import FAR, needs_lanes

# ---- the fields of every message, by their tables -----------------------------------------------------------


def fields_are_checked(room, op, required):
    """As for clients: every field with every value that its table forbids, and without those that it
    requires."""
    stranger = room.stranger()
    for field in room.page.fields("Worker to broker", op).values():
        for what, value, named in wrong_values(field):
            with room.case(f"{field.name}: {what}"):
                stranger.send_raw(pack_header(op, {**required, field.name: value}))
                expect_error(stranger.get(), "bad_request", named)
        if field.required:
            for fields in ({**required, field.name: None}, {k: v for k, v in required.items() if k != field.name}):
                with room.case(f"{field.name}: absent"):
                    stranger.send(op, fields)
                    expect_error(stranger.get(), "bad_request", field.name)
    expect(stranger.fence(), [], "what came behind the refusals")


@rule("Worker to broker: ready")
def fields_of_ready(room):
    """ready: every field has its type and limit; services and capacity are required."""
    fields_are_checked(room, "ready", {"services": [room.service], "capacity": 1})


@rule("Worker to broker: chunk")
def fields_of_chunk(room):
    """chunk: every field has its type and limit; job and seq are required."""
    fields_are_checked(room, "chunk", {"job": 1, "seq": 0})


@rule("Worker to broker: progress")
def fields_of_progress(room):
    """progress: every field has its type and limit; job is required."""
    fields_are_checked(room, "progress", {"job": 1})


@rule("Worker to broker: result")
def fields_of_result(room):
    """result: every field has its type and limit; job is required."""
    fields_are_checked(room, "result", {"job": 1})


@rule("Worker to broker: error")
def fields_of_error(room):
    """error: every field has its type and limit; job and class are required."""
    fields_are_checked(room, "error", {"job": 1, "class": "retry"})


@rule("Worker to broker: heartbeat")
def fields_of_heartbeat(room):
    """heartbeat: jobs is a list of pairs of int within the limits of job and attempt."""
    fields_are_checked(room, "heartbeat", {})


# ---- ready --------------------------------------------------------------------------------------------------


@rule("Broker to worker: welcome")
def ready_is_answered_by_welcome(room):
    """ready is answered by welcome, with heartbeat_ms and body_bytes_max; a new worker gets jobs at once."""
    client = room.client()
    client.accepted(b"x")
    worker = room.worker(welcome=False, name="anna", version="1", labels={"rack": [1, 2.0]})
    welcome = worker.get("welcome").fields
    expect_that(welcome["heartbeat_ms"] >= 1 and welcome["body_bytes_max"] >= 0, f"welcome says {welcome}")
    expect(worker.get("job").body, b"x", "the job that waited")


@rule("Worker to broker: ready")
def capacity_is_the_most_jobs_at_once(room):
    """capacity: the most jobs it holds at once; each outcome frees one place."""
    client, worker = room.client(), room.worker(capacity=3)
    for number in range(6):
        client.accepted(b"%d" % number)
    jobs = worker.jobs(3)
    for freed in (1, 2):
        for _ in range(freed):
            worker.echo(jobs.pop(0))
        jobs += worker.jobs(freed)


@rule("Worker to broker: ready")
def capacity_over_1024_counts_as_1024(room):
    """capacity: over 1024 counts as 1024."""
    client, worker = room.client(), room.worker(capacity=2**62)
    for _ in range(1030):
        client.submit(reply="accepted")
    client.fence()
    worker.jobs(1024)
    worker.send("bye")


@rule("Worker to broker: ready")
def the_newest_ready_replaces_the_older(room):
    """The newest ready replaces the older: services and capacity are absolute, whatever runs."""
    client, worker = room.client(), room.worker(capacity=2)
    jobs = [room.running(worker, client) for _ in range(2)]
    client.accepted(b"third")
    worker.send("ready", {"services": [room.service], "capacity": 1})
    worker.get("welcome")
    worker.echo(jobs[0])
    worker.jobs(0)  # it holds as many as its new capacity
    worker.echo(jobs[1])
    third = worker.get("job")
    expect(third.body, b"third", "the job after that")
    worker.send("ready", {"services": [room.service + "-2"], "capacity": 2})
    worker.get("welcome")
    client.accepted(b"old service")
    client.accepted(b"new service", service=room.service + "-2")
    expect([job.body for job in worker.jobs(1)], [b"new service"], "jobs by the new list of services")
    worker.echo(third)
    worker.answered()
    expect(worker.stale, [], "outcomes that were stale")


@rule("Worker to broker: ready")
def unknown_lanes_change_nothing(room):
    """error bad_request where ready names an unknown lane; the worker then stays what it was."""
    client, worker = room.client(), room.worker()
    worker.send("ready", {"services": [room.service + "-2"], "capacity": 2, "lanes": ["no-such-lane"]})
    expect_error(worker.get(), "bad_request", "no-such-lane")
    client.accepted(b"other", service=room.service + "-2")
    client.accepted(b"old")
    expect([job.body for job in worker.jobs(1)], [b"old"], "jobs of the worker that stayed what it was")
    stranger = room.stranger()
    refused = {"services": [room.service + "-2"], "capacity": 1, "lanes": ["no-such-lane"]}
    expect_error(stranger.ask("ready", refused), "bad_request", "no-such-lane")
    expect(stranger.fence(), [], "what a refused stranger got")


@rule("Worker to broker: ready")
def reserved_workers_serve_their_lanes_only_and_first(room):
    """lanes: a reserved worker gets jobs of these lanes only, and gets them before a worker of all lanes
    does."""
    needs_lanes(room)
    client, general, reserved = room.client(), room.worker(capacity=2), room.worker(capacity=1, lanes=["critical"])
    for lane, body in (("normal", b"n"), ("critical", b"c1"), ("critical", b"c2"), ("normal", b"n2")):
        client.accepted(body, lane=lane)
    expect([job.body for job in reserved.jobs(1)], [b"c1"], "jobs of the reserved worker")
    expect([job.body for job in general.jobs(2)], [b"n", b"c2"], "jobs of the general worker")
    reserved.echo(next(iter(reserved.held.values())))
    reserved.jobs(0)  # only a normal one waits


# ---- job ----------------------------------------------------------------------------------------------------


@rule("Broker to worker: job")
def job_says_what_it_is_about(room):
    """job: the number below 2^53, attempt from 1, id; service and lane only where they are not the worker's
    only one and the default."""
    needs_lanes(room)
    client, single = room.client(), room.worker()
    several = room.worker(services=[room.service + "-2", room.service + "-3"])
    got = room.running(single, client, id=room.id("a")).fields
    expect_that(0 <= got["job"] < 2**53, f"job is {got['job']}")
    expect((got["attempt"], got["id"]), (1, room.id("a")), "attempt and id")
    expect(got.keys() & {"service", "lane", "stream", "timeout_ms"}, set(), "fields that say a default")
    got = room.running(several, client, service=room.service + "-3", lane="low", timeout_ms=60_000).fields
    expect((got.get("service"), got.get("lane")), (room.service + "-3", "low"), "service and lane")
    expect_that(0 < got["timeout_ms"] <= 60_000, f"timeout_ms is {got['timeout_ms']}")


@rule("Broker to worker: job")
def timeout_ms_is_what_is_left(room):
    """timeout_ms of a job: what is left of the client's timeout_ms."""
    client = room.client()
    client.accepted(timeout_ms=60_000)
    room.keep_alive(0.05)
    left = room.worker().get("job").fields["timeout_ms"]
    expect_that(0 < left <= 60_000 - 49, f"timeout_ms is {left} of 60000 after 50 ms")


@rule("Broker to worker: job")
def numbers_are_never_used_twice(room):
    """job is the broker's number for the job: no two have the same."""
    client, worker = room.client(), room.worker(capacity=1)
    numbers = set()
    for _ in range(50):
        job = room.running(worker, client)
        numbers.add(job.fields["job"])
        worker.echo(job)
    expect(len(numbers), 50, "different numbers of 50 jobs")


# ---- outcomes -----------------------------------------------------------------------------------------------


@rule("Worker to broker: result")
def attempt_is_1_where_it_is_left_out(room):
    """attempt of an outcome: 1 where it is left out."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client)
    worker.held.clear()
    worker.send("result", {"job": job.fields["job"]}, b"answer")
    expect(client.get("result").body, b"answer", "the answer")


@rule("Worker to broker: result")
def usage_and_limits_are_taken(room):
    """usage and limits are maps of ints; what they hold beside the known names is ignored."""
    client, worker = room.client(), room.worker()
    limits = {
        f"{part}{of}{end}": 7
        for part, end in (("remaining_", ""), ("limit_", ""), ("reset_", "_ms"))
        for of in ("requests", "tokens", "input_tokens", "output_tokens")
    }
    usage = {"requests": 1, "input_tokens": 2, "output_tokens": 3, "unknown": "x"}
    worker.hand_in(room.running(worker, client), usage=usage, limits={**limits, "unknown": [1]})
    usage.pop("unknown")
    expect(client.get("result").fields.get("usage"), usage, "the usage")


def fail(room, error_class, **fields):
    """A worker that failed a job that may be tried twice. The job's message, the worker and the client."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, id=room.id(error_class), body=b"x", attempts_max=2)
    worker.hand_in(job, "error", b"why", message="m", **{"class": error_class}, **fields)
    return job, worker, client


@rule("Worker to broker: error", slow=True)
def retry_and_overloaded_try_again(room):
    """retry and overloaded: tries again after a pause; upstream_failed when the attempts are spent. A class
    that the broker does not know is taken for retry."""
    for error_class in ("retry", "overloaded", "from-the-future"):
        with room.case(error_class):
            job, worker, client = fail(room, error_class)
            again = worker.get("job")
            expect((again.fields["job"], again.fields["attempt"]), (job.fields["job"], 2), "job and attempt")
            expect(again.body, b"x", "the body")
            worker.hand_in(again, "error", b"why", message="m", code="500", **{"class": error_class})
            answer = expect_error(client.get(), "upstream_failed", "500", "m")
            expect((answer.fields["attempts"], answer.body), (2, b"why"), "attempts and body")
            worker.send("bye")
            worker.fence()


@rule("Worker to broker: error", slow=True)
def retry_waits_for_retry_after_ms(room):
    """retry_after_ms: no new attempt before."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client)
    started = monotonic()
    worker.hand_in(job, "error", retry_after_ms=900, **{"class": "retry"})
    expect(worker.get("job").fields["attempt"], 2, "the attempt")
    took = monotonic() - started
    expect_that(took >= 0.9 - EARLY, f"the job came back after {took * 1000:.0f} ms")


@rule("Worker to broker: error")
def limited_costs_no_attempt(room):
    """limited: costs no attempt; where no budget matches, the job itself waits until retry_after_ms, and others
    go on."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, id=room.id("a"), attempts_max=1)
    for attempt in (2, 3):
        started = monotonic()
        worker.hand_in(job, "error", retry_after_ms=400, **{"class": "limited"})
        job = worker.get("job")
        expect(job.fields["attempt"], attempt, "the attempt, which rises with every hand-over")
        expect_that(monotonic() - started >= 0.4 - EARLY, "it came back before retry_after_ms")
    worker.echo(job)
    expect(client.get("result").fields.get("attempts", 1), 1, "attempts")


@rule("A model that is limited")
def limited_for_longer_than_its_time_ends_a_job(room):
    """A job that is refused so, and whose timeout_ms is over before the pause is, ends with limited and the upstream's status."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, timeout_ms=5_000)
    worker.hand_in(job, "error", retry_after_ms=20_000, upstream_status=429, message="m", **{"class": "limited"})
    answer = expect_error(client.get(), "limited", "m")
    expect((answer.fields.get("retry_after_ms"), answer.fields.get("upstream_status")), (20_000, 429),
           "retry_after_ms and upstream_status")
    worker.jobs(0)


@rule("Error codes")
def limited_ends_a_job_that_is_not_to_wait(room):
    """limited: the upstream's rate is used up, and the job said limited: end; a word that nobody knows is refused."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, limited="end")
    worker.hand_in(job, "error", b"why", retry_after_ms=400, upstream_status=429, message="m", **{"class": "limited"})
    answer = expect_error(client.get(), "limited", "m")
    expect((answer.body, answer.fields.get("retry_after_ms"), answer.fields.get("upstream_status")), (b"why", 400, 429),
           "body, retry_after_ms and upstream_status")
    worker.jobs(0)
    expect_error(client.ask("submit", {"service": room.service, "limited": "sometimes"}), "bad_request", "limited")


@rule("Worker to broker: error")
def quota_without_a_key_ends_the_job(room):
    """quota: ends with upstream_quota where the job had no key."""
    _, _, client = fail(room, "quota")
    expect_error(client.get(), "upstream_quota", "m")


@rule("Worker to broker: error")
def permanent_is_never_tried_again(room):
    """permanent: never tried again, ends with upstream_rejected; status and body are passed on."""
    _, worker, client = fail(room, "permanent", code="400")
    answer = expect_error(client.get(), "upstream_rejected", "400", "m")
    expect((answer.body, answer.fields.get("attempts", 1)), (b"why", 1), "body and attempts")
    worker.jobs(0)


@rule("Worker to broker: error")
def released_costs_no_attempt_and_keeps_its_place(room):
    """released: handed back untouched; costs no attempt and comes back to its old place."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, id=room.id("a"), body=b"a", attempts_max=1)
    client.accepted(b"b")
    client.accepted(b"c")
    worker.hand_in(job, "error", **{"class": "released"})
    order = []
    while len(order) < 3:
        job = worker.get("job")
        order.append(job.body)
        if order == [b"b"]:  # the released one was away for a moment
            wait_for_state(room, client, room.id("a"), "queued")
        worker.echo(job)
    expect_that(order in ([b"a", b"b", b"c"], [b"b", b"a", b"c"]), f"the order is {order}")
    expect(client.get("result").fields.get("attempts", 1), 1, "attempts of the released job")


@rule("Worker to broker: error")
def a_worker_that_takes_nothing_rests(room):
    """released, one job after the other: no job for 10 ms, then for twice as long each time, up to 1 s."""
    client, worker = room.client(), room.worker()
    for _ in range(20):
        client.accepted()
    began = monotonic()
    for _ in range(8):
        worker.hand_in(worker.get("job"), "error", **{"class": "released"})
    # Before the second none, before the others 10 + 20 + 40 + 80 + 160 + 320 ms.
    expect_that(monotonic() - began >= 0.6, "eight jobs came and went within 600 ms")
    worker.get("job")


@rule("Failing upstreams")
def retries_of_a_service_are_bounded(room):
    """Of a service's jobs 10 may be tried again; a job that would be the next ends with upstream_failed."""
    client, worker = room.client(), room.worker(capacity=11)
    jobs = [room.running(worker, client, id=room.id(str(i)), attempts_max=9) for i in range(11)]
    for job in jobs:
        worker.hand_in(job, "error", retry_after_ms=FAR, **{"class": "retry"})
    last = expect_error(client.get(), "upstream_failed")
    expect(last.fields["id"], room.id("10"), "the job that is not tried again")
    expect_that(last.fields["retry_after_ms"] > 0, "retry_after_ms is 0")
    expect({client.status(room.id(str(i)))["state"] for i in range(10)}, {"delayed"}, "the states of the others")


@rule("Failing upstreams", slow=True)
def an_upstream_that_fails_is_left_alone_and_tried_again(room):
    """When half of its last 10 calls failed, a service's jobs wait: for 5 s, give or take a fifth. Then one job
    is handed over, then three more; when all four were answered it is as before."""
    client, worker = room.client(), room.worker(capacity=16)
    for job in [room.running(worker, client, attempts_max=1) for _ in range(10)]:
        started = monotonic()
        worker.hand_in(job, "error", **{"class": "retry"})
        expect_error(client.get(), "upstream_failed")
    client.accepted(id=room.id("0"))
    got = client.status(room.id("0"))
    if monotonic() - started < 3.9:
        expect(got["state"], "queued", "the state of a job")
        # It failed for this client alone, as far as is known: nobody else has called.
        expect(str(got.get("blocked_by")).split(" client=")[0], f"upstream {room.service}", "blocked_by")
        expect_that(0 < got.get("eta_ms", 0) <= 6000, f"eta_ms is {got.get('eta_ms')}")
    for number in range(1, 8):
        client.accepted(id=room.id(str(number)))
    first = worker.get("job")
    waited = monotonic() - started
    expect_that(waited >= 4 - EARLY, f"it was tried again after {waited:.1f} s")
    for after, jobs in ((3, [first]), (4, None)):
        worker.jobs(0)  # beside those that it is tried with
        for job in jobs or list(worker.held.values()):
            worker.echo(job)
        for _ in range(after):
            worker.get("job")


@rule("Failing upstreams")
def no_connection_counts_after_five(room):
    """5 calls in a row that ended with retry and the code connect, resolve or tls are enough."""
    client, worker = room.client(), room.worker(capacity=16)
    for code in ("connect", "resolve", "tls", "connect", "connect"):
        started = monotonic()
        worker.hand_in(room.running(worker, client, attempts_max=1), "error", code=code, **{"class": "retry"})
        expect_error(client.get(), "upstream_failed", code)
    client.accepted(id=room.id("a"))
    got = client.status(room.id("a"))
    if monotonic() - started < 3.9:
        expect(got["state"], "queued", "the state of a job")
        # It failed for this client alone, as far as is known: nobody else has called.
        expect(str(got.get("blocked_by")).split(" client=")[0], f"upstream {room.service}", "blocked_by")


@rule("Failing upstreams")
def own_deadlines_are_no_failures(room):
    """deadline: never tried again, ends with deadline, and says nothing of the upstream."""
    client, worker = room.client(), room.worker()
    for _ in range(16):
        worker.hand_in(room.running(worker, client, timeout_ms=60_000), "error", code="deadline", **{"class": "deadline"})
        expect_error(client.get(), "deadline")
    worker.jobs(0)
    worker.echo(room.running(worker, client))
    client.get("result")


@rule("Failing upstreams")
def answers_are_no_failures(room):
    """Every other outcome is an answer, and opens nothing: permanent, quota, limited."""
    client, worker = room.client(), room.worker()
    for error_class in ("permanent", "quota") * 8:
        worker.hand_in(room.running(worker, client), "error", **{"class": error_class})
        client.get("error")
    worker.echo(room.running(worker, client))
    client.get("result")


# ---- heartbeats and inventories -----------------------------------------------------------------------------


@rule("Broker to worker: heartbeat", slow=True)
def the_broker_sends_heartbeats(room):
    """A sign of life, every heartbeat_ms; its jobs are empty."""
    stranger = room.stranger()
    started = monotonic()
    interval = stranger.ask("ready", {"services": [room.service], "capacity": 1}).fields["heartbeat_ms"] / 1000
    for number in (1, 2):
        expect(stranger.get("heartbeat").fields.get("jobs", []), [], "jobs of the broker's heartbeat")
        stranger.send("heartbeat")
    took = monotonic() - started
    expect_that(took >= interval * 0.95 - EARLY, f"two heartbeats came within {took:.2f} s; the interval is {interval} s")


@rule("The life of a worker")
def jobs_that_are_not_this_workers_are_cancelled(room):
    """A job that is listed and is not this worker's is cancelled with the reason unknown."""
    client, owner, other = room.client(), room.worker(), room.worker(services=[room.service + "-2"])
    job = room.running(owner, client).fields["job"]
    for what, worker, lease in (("a number that never was", other, [NO_JOB, 3]), ("another worker's", other, [job, 1]),
                                ("another attempt", owner, [job, 2])):  # fmt: skip
        with room.case(what):
            worker.say_heartbeat([*map(list, worker.held), lease])
            got = worker.get("cancel").fields
            expect((got["job"], got["attempt"], got.get("reason")), (*lease, "unknown"), "the cancel")
    owner.echo(next(iter(owner.held.values())))
    client.get("result")


@rule("The life of a worker")
def listed_jobs_are_left_alone(room):
    """A job that an inventory lists, and an outcome that is not answered yet, is left alone."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client)
    for _ in range(5):
        worker.say_heartbeat()
    lease = [job.fields["job"], 1]
    worker.echo(job)
    worker.say_heartbeat([lease])
    expect(worker.fence(), [], "what the worker is told")
    client.get("result")


@rule("The life of a worker", slow=True)
def jobs_that_never_arrived_go_back(room):
    """A job that was handed over at least 3 intervals ago and that two inventories in a row do not list never
    arrived: it goes back, at no cost. Before that it stays."""
    client, worker = room.client(), room.worker(heartbeats=False)
    started = monotonic()
    job = room.running(worker, client, id=room.id("a"), body=b"x", attempts_max=1)
    for _ in range(3):
        worker.say_heartbeat([])
    early = worker.fence()
    if monotonic() - started > 3 * worker.interval:
        skip("this machine needed three intervals for a few messages")
    expect(early, [], "what inventories do that may have crossed the job")
    worker.heartbeats = True  # which list it
    worker.next_heartbeat = monotonic()
    room.keep_alive(3 * worker.interval)
    worker.heartbeats = False
    worker.say_heartbeat([])
    expect(worker.fence(), [], "what one inventory without it does")
    worker.held.clear()
    worker.say_heartbeat([])
    again = worker.get("job")
    expect((again.body, again.fields["job"], again.fields["attempt"]), (b"x", job.fields["job"], 2), "the job again")
    worker.echo(again)
    expect(client.get("result").fields.get("attempts", 1), 1, "attempts")


# ---- answers to outcomes ------------------------------------------------------------------------------------


@rule("The life of a worker")
def each_outcome_is_answered_exactly_once(room):
    """Outcomes are each answered by exactly one of acked, stale and unknown_session."""
    client, worker = room.client(), room.worker(capacity=100)
    jobs = [room.running(worker, client) for _ in range(100)]
    for number, job in enumerate(jobs):
        worker.hand_in(job, "error" if number % 5 == 0 else "result", **{"class": "permanent"})
    worker.answered()
    expect(worker.fence(), [], "what else the worker is told")
    expect(sorted(worker.acked), sorted((job.fields["job"], 1) for job in jobs), "what is acked")
    expect(worker.stale, [], "what is stale")


@rule("Broker to worker: acked")
def acked_is_said_at_64(room):
    """acked is collected, and said when there are 64 and with every heartbeat."""
    client, worker = room.client(), room.worker(capacity=64, heartbeats=False)
    jobs = [room.running(worker, client) for _ in range(64)]
    for job in jobs:
        worker.echo(job)
    worker.fence()
    expect(len(worker.acked), 64, "outcomes that are acked behind the 64th")
    worker.heartbeats, worker.next_heartbeat = True, monotonic()
    worker.echo(room.running(worker, client))
    worker.answered()
    expect(len(worker.acked), 65, "outcomes that are acked with the heartbeat")


@rule("The life of a worker")
def repeated_outcomes_are_acked_again(room):
    """An outcome that comes again, of the attempt with which the job ended, is acked again while the job's
    answer is kept, also from another connection, and stale later."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, id=room.id("a"))
    worker.hand_in(job, body=b"once")
    worker.hand_in(job, body=b"twice")
    worker.answered()
    room.pump(lambda: len(worker.acked) == 2, "the second acked")
    other = room.worker(services=[room.service + "-2"])
    other.hand_in(job, body=b"from another connection")
    other.answered()
    expect((len(other.acked), other.stale), (1, []), "what is acked and what is stale from another connection")
    expect(client.get("result").body, b"once", "the answer")
    expect(client.fetch(room.id("a")).body, b"once", "the answer that is kept")
    job = room.running(worker, client, retain_ms=0)
    worker.hand_in(job)
    client.get("result")
    worker.hand_in(job)
    room.pump(lambda: worker.stale, "stale, where no answer is kept")


@rule("The life of a worker")
def only_the_holder_ends_a_job(room):
    """Only the worker that holds a job, with the attempt it was given, can end it. Any other outcome changes
    nothing and is answered stale, with its job and attempt."""
    client, owner, thief = room.client(), room.worker(), room.worker(services=[room.service + "-2"])
    job = room.running(owner, client)
    number = job.fields["job"]
    for worker, lease in ((thief, (number, 1)), (owner, (number, 2)), (owner, (NO_JOB, 1))):
        for op in ("result", "error"):
            worker.stale.clear()
            worker.send(op, {"job": lease[0], "attempt": lease[1], "class": "permanent"}, b"wrong")
            room.pump(lambda: worker.stale, f"stale for {op} of {lease}")
            expect(worker.stale, [lease], "what is stale")
    expect(client.fence(), [], "what the client got")
    owner.hand_in(job, body=b"right")
    expect(client.get("result").body, b"right", "the answer")


# ---- leaving and dying --------------------------------------------------------------------------------------


@rule("Worker to broker: bye")
def bye_gives_jobs_back(room):
    """bye: what the worker holds goes back to its old place and costs no attempt. Not answered."""
    client, leaver = room.client(), room.worker(capacity=2)
    for number in range(4):
        client.accepted(b"%d" % number, id=room.id(str(number)), attempts_max=1)
    leaver.jobs(2)
    leaver.heartbeats = False
    leaver.send("bye")
    expect(leaver.fence(), [], "what the leaver is told")
    leaver.send("heartbeat")
    expect_error(leaver.get(), "unknown_session")
    stayer = room.worker()
    order = []
    for _ in range(4):
        job = stayer.get("job")
        order.append((job.body, job.fields["attempt"]))
        stayer.echo(job)
    expect(order, [(b"0", 2), (b"1", 2), (b"2", 1), (b"3", 1)], "the order and the attempts")
    expect(client.fetch(room.id("0")).fields.get("attempts", 1), 1, "attempts of a job that was given back")


@rule("The life of a worker", slow=True)
def silent_workers_are_gone_after_three_intervals(room):
    """A worker that was silent for 3 intervals is gone: its jobs go back to their old places, at the cost of an
    attempt; what it says later is answered unknown_session."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, id=room.id("a"), body=b"x")
    client.accepted(b"behind")
    worker.heartbeats = False
    silent_since = monotonic()
    worker.say_heartbeat()
    worker.fence()
    other = room.worker(services=[room.service + "-2"])
    while client.status(room.id("a"))["state"] == "running":
        room.keep_alive(0.05)
    took = monotonic() - silent_since
    expect_that(took >= 2.95 * worker.interval - EARLY, f"gone after {took:.2f} s; the interval is {worker.interval} s")
    other.send("ready", {"services": [room.service], "capacity": 1})
    again = (other.get("welcome"), other.get("job"))[1]
    expect((again.body, again.fields["attempt"]), (b"x", 2), "the job at another worker")
    worker.hand_in(job, body=b"late")
    expect_error(worker.get(), "unknown_session")
    other.hand_in(again, body=b"right")
    got = client.get("result")
    expect((got.body, got.fields.get("attempts")), (b"right", 2), "the answer and its attempts")


@rule("The life of a worker")
def unknown_sessions_are_asked_to_say_ready(room):
    """A broker that does not know a worker answers its heartbeats and outcomes with unknown_session."""
    stranger = room.stranger()
    for op, fields in (("heartbeat", {}), ("result", {"job": 1}), ("error", {"job": 1, "class": "retry"})):
        expect_error(stranger.ask(op, fields), "unknown_session")


@rule("The life of a worker")
def after_unknown_session_jobs_come_behind_the_inventory(room):
    """The worker then says ready, a heartbeat with all it holds, and its unanswered outcomes again. It gets no
    job before that heartbeat; each job of it that is not known is cancelled with the reason unknown and takes a
    place until its outcome comes, which is stale."""
    client, stranger = room.client(), room.stranger()
    client.accepted(b"x")
    expect_error(stranger.ask("heartbeat", {"jobs": [[NO_JOB, 1]]}), "unknown_session")
    expect(stranger.ask("ready", {"services": [room.service], "capacity": 1}).op, "welcome", "the answer to ready")
    expect([m.op for m in stranger.fence() if m.op != "heartbeat"], [], "what comes before the inventory")
    stranger.send("heartbeat", {"jobs": [[NO_JOB, 1]]})
    cancel = stranger.get("cancel").fields
    expect((cancel["job"], cancel.get("reason")), (NO_JOB, "unknown"), "the cancel")
    expect([m.op for m in stranger.fence() if m.op != "heartbeat"], [], "what comes while it holds another job")
    stranger.send("result", {"job": NO_JOB, "attempt": 1})
    got = {message.op: message.fields for message in (stranger.get(), stranger.get())}
    expect(got.keys(), {"error", "job"}, "what follows the outcome")
    expect(got["error"]["code"], "stale", "the answer to the outcome")
    stranger.send("result", {"job": got["job"]["job"]}, b"answer")
    expect(client.fetch(got["job"]["id"]).body, b"answer", "the answer to its job")


# ---- connections that are lost ------------------------------------------------------------------------------


@rule("A connection that is lost")
def a_session_brings_its_worker_back(room):
    """A ready that states the session of a worker that the broker knows, from a connection that has no worker, is
    that worker's: its jobs go on, what is over is cancelled again, and nothing counts as a death."""
    client, first, second = room.client(), room.stranger(), room.stranger()
    for name in ("a", "b"):
        client.accepted(name.encode(), id=room.id(name), attempts_max=1)
    ready = {"services": [room.service], "capacity": 2, "resumes": True}
    session = first.ask("ready", ready).fields["session"]
    jobs = {job.body: job.fields["job"] for job in (first.get("job"), first.get("job"))}
    client.send("cancel", {"id": room.id("b")})
    expect(first.get("cancel").fields["job"], jobs[b"b"], "the first cancel")
    welcome = second.ask("ready", {**ready, "session": session})
    expect((welcome.op, welcome.fields["session"]), ("welcome", session), "the answer to its ready")
    expect(second.get("cancel").fields["job"], jobs[b"b"], "the job that is cancelled again")
    second.send("heartbeat", {"jobs": [[number, 1] for number in jobs.values()]})
    expect_error(first.ask("heartbeat", {"jobs": []}), "unknown_session")
    second.send("result", {"job": jobs[b"a"]}, b"answer")
    answer = client.fetch(room.id("a"))
    expect((answer.body, answer.fields.get("attempts", 1)), (b"answer", 1), "the answer and its attempts")
    second.send("bye")


@rule("A connection that is lost")
def a_session_that_is_not_known_makes_a_new_worker(room):
    """A session that is not known makes a new worker, which gets no job before its heartbeat. A ready by a
    connection that has a worker is that worker's, whatever session it states."""
    client, owner, stranger = room.client(), room.stranger(), room.stranger()
    ready = {"services": [room.service], "capacity": 1, "resumes": True}
    session = owner.ask("ready", {**ready, "services": [room.service + "-2"]}).fields["session"]
    client.accepted(b"x")
    fresh = stranger.ask("ready", {**ready, "session": "0123456789abcdef"}).fields["session"]
    expect_that(fresh not in (session, "0123456789abcdef"), f"the new worker's session is {fresh}")
    expect([m.op for m in stranger.fence() if m.op != "heartbeat"], [], "what comes before its inventory")
    stranger.send("heartbeat", {"jobs": []})
    job = stranger.get("job")
    expect(stranger.ask("ready", {**ready, "session": session}).fields["session"], fresh, "its session after that")
    stranger.send("result", {"job": job.fields["job"]}, b"answer")
    expect(client.fetch(job.fields["id"]).body, b"answer", "the answer to its job")
    for peer in (owner, stranger):
        peer.send("bye")


@rule("The life of a job")
def what_no_worker_could_read_is_refused(room):
    """A submit whose offer would be larger than a header, or would have more fields than a map, is refused with
    too_large."""
    client, worker = room.client(), room.worker()
    for fields in ({"meta": b"m" * 16200}, {f"x-{number}": 1 for number in range(60)}):
        client.submit(b"x", **fields)
        expect_error(client.get(), "too_large")
    client.submit(b"x", meta=b"m" * 15000)
    worker.echo(worker.get("job"))
    expect(client.get("result").body, b"x", "the answer to one that fits")


def wait_for_state(room, client, job_id, state):
    while (got := client.status(job_id)["state"]) != state:
        expect_that(got in ("queued", "delayed", "running"), f"the job is {got}, and should come to be {state}")
        room.keep_alive(0.01)
