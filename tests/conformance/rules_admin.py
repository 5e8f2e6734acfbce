# SPDX-License-Identifier: Apache-2.0
"""What operators ask of a broker that has an endpoint for them. Nothing here changes anything for anybody else."""

import zmq

from kit import brief, expect, expect_error, expect_that, feature, rule
from page import pack_header, wrong_values
from rules_clients import needs_lanes

SECTION = "Operating the broker"
BUDGETS = """
[[budget]]
name = "chat"
match = { service = "chat", model = "m-*" }
limits = { requests_per_minute = 60, concurrency = 4 }
window = "bucket"

[[budget]]
name = "pool"
keys = [{ name = "k1", limits = { concurrency = 2 } }, { name = "k2" }]
"""
LIMITED = """
[[budget]]
name = "b"
match = { service = "*.limited" }
limits = { requests_per_minute = 600 }
"""
GOOD = {"text": "x", "int": 1, "flag": True}


@feature("admin")
def has_an_endpoint_for_operators(room):
    if getattr(room.broker, "admin", None) is None:
        return "the broker has no endpoint for operators, or --admin does not name it"
    return None


def rows(room, verb, **filters):
    """All rows of a list, page by page."""
    operator, found, start = room.operator(), [], 0
    while start is not None:
        answer = operator.ask("admin", {"do": verb, "from": start, **filters}, expect="admin").fields
        found += answer[verb]
        expect_that(len(answer[verb]) <= filters.get("limit", 100), f"{len(answer[verb])} rows of {verb} at once")
        start = answer.get("next")
    return found


@rule(SECTION, feature="admin")
def operators_have_a_socket_of_their_own(room):
    """The clients' socket answers admin with forbidden; that for operators answers admin, stats, status, cancel and ping,
    and any other op with forbidden."""
    refused = expect_error(room.client().ask("admin", {"do": "jobs", "ref": "r"}), "forbidden")
    expect(refused.fields.get("ref"), "r", "the ref")
    for kind in (zmq.DEALER, zmq.REQ):
        operator = room.operator(kind)
        for op, fields in (("submit", {"service": room.service}), ("fetch", {"id": "a"})):
            expect_error(operator.ask(op, fields), "forbidden")
        for op, fields, answer in (("admin", {"do": "lanes"}, "admin"), ("status", {"id": room.id("a")}, "status"),
                                   ("stats", {}, "stats"), ("ping", {}, "pong")):  # fmt: skip
            expect(operator.ask(op, fields).op, answer, f"the answer to {op}")


@rule(SECTION, feature="admin")
def operators_can_cancel(room):
    """An operator's cancel ends a job, and its client is told."""
    client = room.client()
    client.submit(id=room.id("a"))
    client.fence()
    state = room.operator().ask("cancel", {"id": room.id("a")}, expect="status").fields["state"]
    expect(state, "cancelled", "the state")
    expect_error(client.get(), "cancelled")


@rule(SECTION, feature="admin")
def verbs_need_and_take_what_their_table_says(room):
    """A verb that lacks a field, or is given one that it does not take, gets bad_request, which lists what it takes."""
    operator, table = room.operator(), room.page.fields("Client to broker", "admin")
    expect_that(room.page.verbs, "the page lists no verbs")
    for verb, (needs, takes) in room.page.verbs.items():
        good = {"do": verb, **{name: GOOD[table[name].type] for name in needs}}
        for name in needs:
            with room.case(f"{verb} without {name}"):
                lacking = {key: value for key, value in good.items() if key != name}
                expect_error(operator.ask("admin", lacking), "bad_request", name)
        for name in table.keys() - {"do", "ref", *needs, *takes}:
            with room.case(f"{verb} with {name}"):
                refused = operator.ask("admin", {**good, name: GOOD[table[name].type]})
                expect_error(refused, "bad_request", name, *needs, *takes)
    expect_error(operator.ask("admin", {"do": "no-such-verb"}), "bad_request", "no-such-verb")


@rule(SECTION, feature="admin")
def fields_of_admin(room):
    """admin: every field has its type and limit; do is required."""
    operator = room.operator()
    for field in room.page.fields("Client to broker", "admin").values():
        for what, value, named in wrong_values(field):
            with room.case(f"{field.name}: {what}"):
                operator.send_raw(pack_header("admin", {"do": "jobs", field.name: value}))
                expect_error(operator.get(), "bad_request", named)
    expect_error(operator.ask("admin", {}), "bad_request", "do")
    expect(operator.ask("admin", {"do": "jobs", "ref": 5}, expect="admin").fields.get("ref"), 5, "the ref")


@rule(SECTION, feature="admin")
def jobs_are_listed(room):
    """jobs: those that are not over, or those of one state; what is there all the time is listed once, page by page."""
    needs_lanes(room)
    client, worker = room.client(), room.worker(name="anna")
    for number in range(7):
        client.accepted(id=room.id(str(number)), lane=None if number % 2 else "low", model=f"m{number}")
    job = worker.get("job")
    for limit in (1, 3, 256):
        listed = rows(room, "jobs", service=room.service, limit=limit)
        expect(sorted(row["id"] for row in listed), [room.id(str(n)) for n in range(7)], f"ids, {limit} at a time")
    mine = next(row for row in listed if row["id"] == job.fields["id"])
    expect((mine["state"], mine.get("worker"), mine["attempts"]), ("running", "anna", 1), "the row that runs")
    running = rows(room, "jobs", service=room.service, state="running")
    expect([row["id"] for row in running], [job.fields["id"]], "the rows that run")
    expect(len(rows(room, "jobs", service=room.service, lane="low")), 4, "rows of lane low")
    expect(len(rows(room, "jobs", service=room.service, model="m3")), 1, "rows of one model")
    worker.echo(job)
    client.fetch(job.fields["id"])
    over = rows(room, "jobs", service=room.service, state="succeeded")
    expect([row["id"] for row in over], [job.fields["id"]], "the row that is over")


@rule(SECTION, feature="admin")
def job_tells_all_of_one(room):
    """job: all that is known of one job."""
    client, worker = room.client(), room.worker(name="anna")
    job = room.running(worker, client, id=room.id("a"), body=b"12345", attempts_max=4)
    got = room.operator().ask("admin", {"do": "job", "id": room.id("a")}, expect="admin").fields
    got = got.get("job") if isinstance(got.get("job"), dict) else got
    wanted = {"id": room.id("a"), "state": "running", "job": job.fields["job"], "attempts_max": 4, "body_bytes": 5}
    expect({name: got.get(name) for name in wanted}, wanted, f"some of {got}")
    answer = room.operator().ask("admin", {"do": "job", "id": room.id("b")})
    expect_that(answer.op == "error" and answer.fields["code"] in ("not_found", "gone"), f"of none: {brief(answer)}")


@rule(SECTION, feature="admin")
def lanes_services_workers_and_clients_are_listed(room):
    """lanes, services, workers and clients list what there is, with what the page says of each."""
    client, worker = room.client(), room.worker(3, name="anna")
    room.running(worker, client, client=room.id("c"))
    client.accepted(client=room.id("c"), service=room.service + "-2")
    expect({row["name"] for row in rows(room, "lanes")}, set(room.stats()["lanes"]), "the lanes")
    service = next(row for row in rows(room, "services") if row["name"] == room.service)
    expect((service["workers"], service["free_places"]), (1, 2), "workers and free places of the service")
    workers = rows(room, "workers", service=room.service)
    expect([(row["name"], row["running"], row["capacity"]) for row in workers], [("anna", 1, 3)], "the worker")
    mine = next(row for row in rows(room, "clients") if row["name"] == room.id("c"))
    expect((mine["waiting"], mine["running"]), (1, 1), "jobs of the client")


@rule(SECTION, config=BUDGETS, feature="admin")
def budgets_are_listed_before_their_keys(room):
    """budgets: each before its keys, with the limits that the stats show; chosen by name, by key, by a key's state, or by
    what a job is."""
    every = [("chat", None), ("pool", None), ("pool", "k1"), ("pool", "k2")]

    def listed(**filters):
        return [(row["name"], row.get("key")) for row in rows(room, "budgets", **filters)]

    for limit in (1, 3, 256):
        expect(listed(limit=limit), every, f"the budgets and keys, {limit} at a time")
    for filters, wanted in (({"name": "ch*"}, every[:1]), ({"key": "k?"}, every[2:]), ({"key": "k1"}, every[2:3]),
                            ({"state": "active"}, every[2:]), ({"state": "spent"}, []), ({"service": "chat"}, every),
                            ({"service": "chats"}, every[1:]), ({"service": "chat", "model": "m-1"}, every),
                            ({"model": "other"}, every[1:]), ({"name": "pool", "lane": "low"}, every[1:])):  # fmt: skip
        expect(listed(**filters), wanted, f"those of {filters}")
    operator, shown = room.operator(), room.stats()
    operator.ask("admin", {"do": "pause", "what": "budget", "name": "chat"}, expect="admin")
    chat, pool, k1, _ = rows(room, "budgets")
    expect((chat["service"], chat["model"], chat["window"]), ("chat", "m-*", "bucket"), "what budget chat matches")
    expect((chat.get("paused"), pool.get("paused")), (True, None), "paused, of the one that is and of the other")
    expect(chat["limits"], shown["budgets"]["chat"], "the limits of budget chat")
    expect(pool["limits"], {}, "the limits of budget pool")
    expect((k1["state"], k1["running"], k1["jobs"]), ("active", 0, 0), "key k1")
    expect(k1["limits"].get("concurrency"), shown["keys"]["pool"]["k1"]["concurrency"], "the limit of key k1")
    expect_error(operator.ask("admin", {"do": "budgets", "state": "queued"}), "bad_request", "state")


@rule(SECTION, config=LIMITED, feature="admin")
def a_budget_that_is_resumed_forgets_what_its_upstream_said(room):
    """resume of a budget ends the pause that its upstream asked for and forgets the lower limits that it said; where there
    was any of that it is a change."""
    service = room.service + ".limited"
    client, worker, operator = room.client(), room.worker(8, [service]), room.operator()
    resume = lambda: operator.ask("admin", {"do": "resume", "what": "budget", "name": "b"}, expect="admin").fields
    expect(resume()["changed"], False, "changed, before its upstream said anything")
    job = room.running(worker, client, service=service)
    worker.hand_in(job, "error", retry_after_ms=86_400_000, limits={"limit_requests": 7}, **{"class": "limited"})
    worker.fence()
    row = rows(room, "budgets")[0]
    expect_that(row.get("paused_ms", 0) > 80_000_000, f"paused_ms is {row.get('paused_ms')}")
    expect(row["limits"]["requests_per_minute"].get("effective"), 7, "what counts of the limit")
    expect(resume()["changed"], True, "changed")
    worker.get("job")
    row = rows(room, "budgets")[0]
    expect((row.get("paused_ms"), row["limits"]["requests_per_minute"].get("effective")), (None, None), "what is left of it")
