# SPDX-License-Identifier: Apache-2.0
"""Watches: what is told, in which order, and what is left out."""

import zmq
from kit import brief, expect, expect_error, expect_that, feature, rule


@feature("watches")
def watches(room):
    client = room.client()
    answer = client.ask("watch", {"ref": "probe", "service": room.service})
    return None if answer.op == "watching" else f"the op watch is answered by {brief(answer)}"


def follow(room, ref="w", **which):
    """A client with a watch of this rule's service, or of what `which` says."""
    follower = room.client()
    follower.send("watch", {"ref": ref, **(which or {"service": room.service})})
    expect(follower.get("watching").fields, {"seq": 0, "ref": ref}, "the answer to watch")
    return follower


def whats(events):
    return [event.fields["what"] for event in events]


@rule("Watches", feature="watches")
def the_life_of_a_job_is_told(room):
    """From watching on, the events of one watch are all changes of its jobs, in the order in which they happened, numbered
    without a gap."""
    follower, worker, client = follow(room), room.worker(), room.client()
    job = room.running(worker, client, id=room.id("a"))
    worker.hand_in(job, "error", **{"class": "released"})
    worker.echo(worker.get("job"))
    client.get("result")
    events = [follower.get("event") for _ in range(6)]
    expect([event.fields["seq"] for event in events], list(range(6)), "the numbers")
    expect(whats(events), ["accepted", "started", "requeued", "queued", "started", "ended"], "the changes")
    expect([event.fields["state"] for event in events], ["queued", "running", "delayed", "queued", "running", "succeeded"], "the states")
    expect(events[2].fields["code"], "released", "the code of requeued")
    expect({(event.fields["id"], event.fields["ref"]) for event in events}, {(room.id("a"), "w")}, "the job and the ref")
    expect(whats(follower.fence()), [], "further events")


@rule("Watches", feature="watches")
def the_end_is_the_one_that_clients_get(room):
    """Of ended state is how, code is the one that its clients get."""
    follower, worker, client = follow(room), room.worker(), room.client()
    worker.hand_in(room.running(worker, client, id=room.id("a")), "error", **{"class": "permanent", "message": "no"})
    said = expect_error(client.get(), "upstream_rejected")
    client.submit(id=room.id("b"), reply="accepted", delay_ms=60_000)
    client.get("accepted")
    client.ask("cancel", {"id": room.id("b")})
    ends = {}
    while len(ends) < 2:
        fields = follower.get("event").fields
        if fields["what"] == "ended":
            ends[fields["id"]] = (fields["state"], fields.get("code"))
    expect(ends, {room.id("a"): ("failed", said.fields["code"]), room.id("b"): ("cancelled", "cancelled")}, "the ends")


@rule("Client to broker: watch", feature="watches")
def a_watch_follows_what_it_names(room):
    """An event for each change of a job that all of this fits."""
    client = room.client()
    by_id = follow(room, id=room.id("b"))
    by_client = follow(room, service=room.service, client=room.id("team"))
    for name, fields in (("a", {"client": room.id("team")}), ("b", {"client": room.id("other")})):
        client.accepted(id=room.id(name), **fields)
    for follower, name in ((by_id, "b"), (by_client, "a")):
        expect([event.fields["id"] for event in follower.fence()], [room.id(name)], "the jobs that are followed")
    stranger = room.client()
    expect_error(stranger.ask("watch", {"ref": 1, "lane": "no-such-lane"}), "bad_request", "lane")
    expect_error(stranger.ask("watch", {}), "bad_request", "ref")
    expect_error(room.client(zmq.REQ).ask("watch", {"ref": 1}), "bad_request", "REQ")


@rule("Client to broker: watch", feature="watches")
def a_watch_is_renewed_replaced_and_stopped(room):
    """Said again with the same ref and the same jobs it renews that watch, with others it takes its place; with stop it is
    over."""
    follower, client = follow(room), room.client()
    client.accepted(id=room.id("a"))
    expect(follower.get("event").fields["id"], room.id("a"), "the job")
    follower.send("watch", {"ref": "w", "service": room.service})
    expect(follower.get("watching").fields["seq"], 1, "seq of a renewed watch")
    follower.send("watch", {"ref": "w", "id": room.id("c")})
    expect(follower.get("watching").fields["seq"], 0, "seq of another watch in its place")
    client.accepted(id=room.id("b"))
    client.accepted(id=room.id("c"))
    expect([event.fields["id"] for event in follower.fence()], [room.id("c")], "the jobs that are followed")
    follower.send("watch", {"ref": "w", "stop": True})
    expect_that(follower.get("watching").fields.get("stop") is True, "the end of a watch is not answered as such")
    client.ask("cancel", {"id": room.id("c")})
    expect(follower.fence(), [], "events of a watch that is over")


@rule("Watches", feature="watches")
def what_is_not_confirmed_is_bounded(room):
    """A watch has at most 1024 events under way that no seen has covered. Further changes are left out, and the first event
    for which there is room again says gap, and how many they were."""
    follower, client = follow(room), room.client()
    for number in range(600):
        client.submit(id=room.id(str(number)), reply="accepted")
        client.send("cancel", {"id": room.id(str(number))})
    client.fence()
    events = follower.fence()
    expect(len(events), 1024, "events that nobody confirmed")
    expect_that(not any(event.fields.get("gap") for event in events), "an event says gap where none was left out")
    follower.send("seen", {"ref": "w", "seq": 1023})
    follower.fence()
    client.accepted(id=room.id("after"))
    fields = follower.get("event").fields
    expect((fields["id"], fields["seq"], fields.get("gap"), fields.get("left_out")), (room.id("after"), 1024, True, 176), "the event behind the gap")
