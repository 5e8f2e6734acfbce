# SPDX-License-Identifier: Apache-2.0
"""What ends rely on without asking: the default lane's name, ids after an error, a later LMQ, endpoints that are mixed up."""

import zmq
from kit import expect, expect_error, expect_that, rule
from rules_later import chunk

OTHER_DEFAULT = '[[lane]]\nname = "fast"\n[[lane]]\nname = "usual"\ndefault = true\n'
WINDOW_BYTES = 262144


def default_lane_is(room, named):
    """The lane that the broker names as its default is where jobs go that name none."""
    client, worker = room.client(), room.worker(welcome=False, capacity=2)
    expect(worker.get("welcome").fields.get("default_lane"), named, "the default lane that welcome names")
    for fields in ({}, {"lane": named}):
        job = room.running(worker, client, **fields)
        expect(job.fields.get("lane"), None, "the lane that the job says")
        worker.echo(job)
        expect(client.get("result").fields.get("lane"), None, "the lane that the result says")
    expect_that(room.stats()["lanes"][named]["accepted"] >= 2, "the jobs are in another lane")


@rule("Broker to client: pong")
def the_default_lane_has_a_name(room):
    """pong and welcome name the default lane, which other messages leave out."""
    named = room.client().ask("ping", expect="pong").fields.get("default_lane")
    expect_that(named in room.stats()["lanes"], f"pong names the default lane {named!r}")
    default_lane_is(room, named)


@rule("Broker to worker: welcome", config=OTHER_DEFAULT)
def another_default_lane_has_its_name(room):
    """The default lane is the one of the configuration, not a name that ends would know."""
    expect(room.client().ask("ping", expect="pong").fields.get("default_lane"), "usual", "the default lane that pong names")
    default_lane_is(room, "usual")


@rule("Same id")
def a_refused_id_is_free(room):
    """A submit that was refused leaves nothing behind: its id is free, also for other content."""
    client = room.client()
    for number, (code, fields) in enumerate((("bad_request", {"lane": "no-such-lane"}), ("too_large", {"meta": b"m" * 16200}))):
        name = room.id(str(number))
        expect_error(client.ask("submit", {"service": room.service, "id": name, **fields}, b"refused"), code)
        expect(client.status(name)["state"], "unknown", "the state of a refused id")
        expect_that("duplicate" not in client.accepted(b"other content", id=name), "the job was known")


@rule("Same id", broker=("--set", "lane.normal.depth_max=1", "--set", "heartbeat=2s"))
def a_submit_without_room_may_come_again(room):
    """After lane_full the same submit is right, with its id; and so is another one."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client)
    client.accepted(id=room.id("first"))
    for body in (b"same", b"same", b"other"):
        expect_error(client.ask("submit", {"service": room.service, "id": room.id("second")}, body), "lane_full")
    worker.echo(job)
    client.get("result")
    worker.get("job")  # there is room now
    expect_that("duplicate" not in client.accepted(b"other", id=room.id("second")), "the refused job was known")


@rule("Same id")
def what_failed_is_answered_again(room):
    """The submit of a job that failed gets the same error again, and runs nothing, for as long as the answer is kept."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, body=b"x", id=room.id("a"))
    worker.hand_in(job, "error", b"why", message="m", **{"class": "permanent"})
    expect_error(client.get(), "upstream_rejected", "m")
    client.submit(b"x", id=room.id("a"))
    expect(expect_error(client.get(), "upstream_rejected", "m").body, b"why", "the body that comes again")
    worker.jobs(0)


@rule("Broker to worker: cancel")
def any_outcome_answers_a_cancel(room):
    """Any outcome answers a cancel and frees the place; none of a job that is over says how its upstream is."""
    client, worker = room.client(), room.worker()
    outcomes = [("error", {"class": "retry", "code": "cancelled"})] * 12
    outcomes += [("result", {}), ("error", {"class": "permanent"}), ("error", {"class": "released"}), ("error", {"class": "deadline"})]
    for number, (op, fields) in enumerate(outcomes):
        job = room.running(worker, client, id=room.id(str(number)))
        client.send("cancel", {"id": room.id(str(number))})
        worker.get("cancel")
        worker.hand_in(job, op, b"", **fields)
        worker.answered()
        got = {client.get().op, client.get().op}
        expect(got, {"error", "status"}, "what the client is told")
    worker.echo(room.running(worker, client, body=b"still served"))
    expect(client.get("result").body, b"still served", "the answer to a job behind them")


@rule("Streams", feature="stream")
def a_window_counts_the_bytes_of_bodies(room):
    """A worker sends another chunk while fewer than 262144 bytes of bodies are under way: the last may go beyond them."""
    client, worker = room.client(), room.worker()
    job = room.running(worker, client, stream=True, id=room.id("a"))
    for seq, size in enumerate((WINDOW_BYTES - 1, 100_000)):
        chunk(worker, job, seq, bytes(size))
        expect(len(client.get("chunk").body), size, "the bytes of the chunk")
    chunk(worker, job, 2, b"")
    expect_error(worker.get("error"), "bad_request", "window")
    client.send("seen", {"id": room.id("a"), "seq": 0})
    worker.get("window")
    chunk(worker, job, 2, b"later")
    expect(client.get("chunk").body, b"later", "the chunk that was refused before")
    worker.hand_in(job)
    client.get("result")


@rule("Messages")
def a_later_lmq_is_not_agreed_on(room):
    """lmq in ping and ready says that its sender speaks a later version; a broker that speaks LMQ1 alone says no lmq."""
    pong = room.client().ask("ping", {"lmq": 2}, expect="pong").fields
    welcome = room.stranger().ask("ready", {"services": [room.service], "capacity": 1, "lmq": 2}).fields
    for said in (pong, welcome):
        expect_that(said.get("lmq", 1) in (1, 2), f"the broker agrees on {said.get('lmq')!r}, and 2 was asked for")


@rule("Transport")
def the_wrong_endpoint_is_told(room):
    """A client's op at the workers' socket, and a worker's at the clients', is bad_request, with the ref and the right socket."""
    for kind in (zmq.DEALER, zmq.REQ):
        client = room.client(kind)
        client.send("ready", {"services": [room.service], "capacity": 1, "ref": 3})
        refused = expect_error(client.get(), "bad_request", "ready", "workers")
        expect(refused.fields.get("ref"), 3, "the ref")
    worker = room.stranger()
    for op, fields in (("submit", {"service": room.service}), ("ping", {})):
        refused = expect_error(worker.ask(op, {**fields, "ref": "mine"}), "bad_request", op, "clients")
        expect(refused.fields.get("ref"), "mine", "the ref")
