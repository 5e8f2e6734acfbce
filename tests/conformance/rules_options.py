# SPDX-License-Identifier: Apache-2.0
"""What shows only with bounds, budgets and keys: each rule has a broker of its own with the configuration that it says."""

from time import monotonic

from kit import EARLY, expect, expect_error, expect_that, rule

CLIENTS = """
[clients."kit-*"]
in_flight_max = 1
depth_max = 2
lane_max = "normal"
"""
ONE_A_MINUTE = """
[[budget]]
name = "b"
match = { service = "*.limited" }
limits = { requests_per_minute = 1 }
"""
CLUSTER = """
cluster_clients = ["tcp://one:5570", "tcp://two:5570"]
cluster_workers = ["tcp://one:5571", "tcp://two:5571"]
"""
KEYS = """
[[budget]]
name = "pool"
keys = [{ name = "k1" }, { name = "k2" }]
"""


@rule("Error codes", config=CLIENTS)
def client_full(room):
    """client_full: the client holds its maximum of jobs, with retry_after_ms; others are not concerned."""
    client = room.client()
    for _ in range(2):
        client.accepted(client="kit-a")
    refused = expect_error(client.ask("submit", {"service": room.service, "client": "kit-a"}), "client_full", "kit-a")
    expect_that(refused.fields["retry_after_ms"] > 0, "retry_after_ms is 0")
    client.accepted(client="kit-b")
    client.accepted()


@rule("Error codes", config=CLIENTS)
def forbidden(room):
    """forbidden: the client may not use this lane."""
    answer = room.client().ask("submit", {"service": room.service, "client": "kit-a", "lane": "high"})
    expect_error(answer, "forbidden", "kit-a", "high", "normal")
    room.client().accepted(client="kit-a", lane="low")


@rule("Broker to client: status", config=CLIENTS)
def blocked_by_the_client(room):
    """blocked_by: client NAME in_flight_max, of a client that has as many at workers as it may."""
    client, worker = room.client(), room.worker(capacity=4)
    job = room.running(worker, client, client="kit-a", id=room.id("first"))
    client.accepted(client="kit-a", id=room.id("second"))
    expect(client.status(room.id("second")).get("blocked_by"), "client kit-a in_flight_max", "blocked_by")
    client.accepted(b"other", client="kit-b")
    expect([other.body for other in worker.jobs(1)], [b"other"], "the job of another client")
    worker.hand_in(job)
    expect(worker.get("job").fields["id"], room.id("second"), "the job behind it")


@rule("Broker to client: status", config=ONE_A_MINUTE)
def blocked_by_a_budget(room):
    """blocked_by: budget NAME LIMIT, where not enough is left, and eta_ms when it refills; other services go on."""
    client, worker = room.client(), room.worker(4, [room.service + ".limited", room.service])
    room.running(worker, client, service=room.service + ".limited")
    client.accepted(service=room.service + ".limited", id=room.id("a"))
    got = client.status(room.id("a"))
    expect((got["state"], got.get("blocked_by")), ("queued", "budget b requests_per_minute"), "the status")
    expect_that(0 < got.get("eta_ms", 0) <= 62_000, f"eta_ms is {got.get('eta_ms')}")
    worker.echo(room.running(worker, client))
    expect(client.get("result").op, "result", "the answer of a service that no budget matches")


@rule("The stats document", config=ONE_A_MINUTE)
def stats_have_budgets(room):
    """budgets.NAME.LIMIT has level, capacity and limit."""
    limit = room.stats()["budgets"]["b"]["requests_per_minute"]
    expect(limit["limit"], 1, "the limit")
    expect_that({"level", "capacity"} <= limit.keys(), f"the limit says {limit}")


@rule("Worker to broker: error", config=ONE_A_MINUTE.replace("minute = 1", "minute = 600"))
def limited_pauses_the_budget(room):
    """limited: the budgets that match the job pause until retry_after_ms; a pause is only ever lengthened."""
    client, worker = room.client(), room.worker(8, [room.service + ".limited", room.service])
    service = room.service + ".limited"
    jobs = [room.running(worker, client, service=service) for _ in range(2)]
    started = monotonic()
    worker.hand_in(jobs[0], "error", retry_after_ms=700, **{"class": "limited"})
    worker.hand_in(jobs[1], "error", retry_after_ms=1, **{"class": "limited"})
    worker.fence()
    client.accepted(b"other", service=service)
    worker.get("job")
    took = monotonic() - started
    expect_that(took >= 0.7 - EARLY, f"the budget gave a job after {took * 1000:.0f} ms of a pause of 700")


@rule("Client to broker: submit", config=ONE_A_MINUTE.replace("minute = 1", "minute = 600"))
def what_is_not_to_wait_is_refused_in_a_pause(room):
    """limited: a job that says end is refused with limited while a pause that the upstream asked for keeps its budgets from
    it; one that waits already goes on waiting."""
    client, worker = room.client(), room.worker(8, [room.service + ".limited", room.service])
    service = room.service + ".limited"
    job = room.running(worker, client, service=service)
    worker.hand_in(job, "error", retry_after_ms=60_000, **{"class": "limited"})
    worker.fence()
    answer = expect_error(client.ask("submit", {"service": service, "limited": "end"}), "limited")
    expect_that("budget b" in answer.fields.get("limiter", ""), f"limiter is {answer.fields.get('limiter')}")
    expect_that(0 < answer.fields.get("retry_after_ms", 0) <= 60_000, f"retry_after_ms is {answer.fields.get('retry_after_ms')}")
    client.accepted(service=service, limited="wait")


@rule("Worker to broker: error", config=KEYS)
def quota_lets_the_key_rest(room):
    """quota: the key rests, and the job goes on with another at no cost; upstream_quota when that one refuses it too, and
    that one does not rest; upstream_quota when none is left."""
    client, worker = room.client(), room.worker(2)
    first = room.running(worker, client, attempts_max=1)
    worker.hand_in(first, "error", **{"class": "quota"})
    second = worker.get("job")
    expect({first.fields["key"], second.fields["key"]}, {"k1", "k2"}, "the keys of both attempts")
    for _ in range(4):
        job = room.running(worker, client, ref="probe")
        expect(job.fields["key"], second.fields["key"], "the key of another job")
        worker.echo(job)
        client.answer("probe")
    states = {name: key["state"] for name, key in room.stats()["keys"]["pool"].items()}
    expect(states, {first.fields["key"]: "spent", second.fields["key"]: "active"}, "the keys in stats")
    worker.hand_in(second, "error", message="no money", **{"class": "quota"})
    answer = expect_error(client.get(), "upstream_quota", "no money")
    expect(answer.fields.get("attempts", 1), 1, "attempts")
    third = room.running(worker, client)
    expect(third.fields["key"], second.fields["key"], "the key of a job behind one that two keys refused")
    worker.hand_in(third, "error", message="no money", **{"class": "quota"})
    expect_error(client.get(), "upstream_quota", "no money")
    client.accepted(id=room.id("waits"))
    expect(client.status(room.id("waits")).get("blocked_by"), "budget pool keys", "blocked_by of a job that waits")


@rule("Worker to broker: ready", config="services_max = 2")
def bounds_of_the_broker_refuse_ready(room):
    """error full where a bound of the broker is reached; a submit hears bad_request."""
    room.worker(services=["a", "b"])
    answer = room.stranger().ask("ready", {"services": ["c"], "capacity": 1})
    expect_error(answer, "full", "services_max")
    expect_error(room.client().ask("submit", {"service": "c"}), "bad_request", "services_max")


@rule("Several brokers", config=CLUSTER)
def who_asks_is_told_where_the_brokers_are(room):
    """pong and welcome say the endpoints of all brokers to whoever asks with cluster, and to nobody else."""
    client = room.client()
    expect(client.ask("ping", {"cluster": True}).fields.get("endpoints"), ["tcp://one:5570", "tcp://two:5570"], "endpoints of pong")
    expect("endpoints" in client.ask("ping", {}).fields, False, "endpoints of pong where they were not asked for")
    welcome = room.worker(welcome=False, cluster=True).get("welcome")
    expect(welcome.fields.get("endpoints"), ["tcp://one:5571", "tcp://two:5571"], "endpoints of welcome")
    expect("endpoints" in room.worker(welcome=False).get("welcome").fields, False, "endpoints of welcome where they were not asked for")


@rule("Several brokers")
def a_broker_that_was_told_of_none_says_none(room):
    """endpoints is absent where the configuration names none."""
    expect("endpoints" in room.client().ask("ping", {"cluster": True}).fields, False, "endpoints of pong")
