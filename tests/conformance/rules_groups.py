# SPDX-License-Identifier: Apache-2.0
"""Groups: when they are over, and who hears of it."""

from kit import brief, expect, expect_error, feature, rule
from rules_watches import follow

ENDS = ("succeeded", "failed", "cancelled", "expired", "died")


@feature("groups")
def groups(room):
    """A broker that does not know the field takes no notice of it."""
    client = room.client()
    answer = client.ask("submit", {"service": room.service, "group_size": 2})
    return None if answer.op == "error" else f"a group_size without a group is answered by {brief(answer)}"


def submit(room, client, job, **fields):
    client.submit(id=room.id(job), group=room.id("g"), reply="accepted", **fields)
    return client.get("accepted")


def next_over(follower):
    """How the group's jobs ended; what is told of them before that is left out."""
    while (event := follower.get("event").fields)["what"] != "group_over":
        pass
    return event["group"], {name: event[name] for name in ENDS if event.get(name)}


@rule("Groups", feature="groups")
def a_group_is_over_each_time_that_no_job_is_open(room):
    """A group without a size is over each time that no job of it is open, and told behind their ends; the next job begins another
    life with counts of its own."""
    follower, worker, client = follow(room, group=room.id("g")), room.worker(capacity=4), room.client()
    for job in ("a", "b"):
        submit(room, client, job)
    first, second = worker.get("job"), worker.get("job")
    worker.echo(first)
    worker.hand_in(second, "error", **{"class": "permanent", "message": "no"})
    whole = [follower.get("event").fields for _ in range(7)]
    expect([event["what"] for event in whole][-3:], ["ended", "ended", "group_over"], "the last of what is told")
    expect((whole[-1]["group"], whole[-1]["succeeded"], whole[-1]["failed"]), (room.id("g"), 1, 1), "the counts")
    submit(room, client, "c")
    client.ask("cancel", {"id": room.id("c")})
    expect(next_over(follower), (room.id("g"), {"cancelled": 1}), "the second life")


@rule("Groups", feature="groups")
def a_size_holds_the_group_open(room):
    """A group with a size is over when so many of its jobs have ended. One that states another size, and one beyond it, is
    refused."""
    follower, worker, client = follow(room, group=room.id("g")), room.worker(), room.client()
    submit(room, client, "a", group_size=2)
    worker.echo(worker.get("job"))
    expect([follower.get("event").fields["what"] for _ in range(3)], ["accepted", "started", "ended"], "the first job")
    expect(follower.fence(), [], "what is told of the group before")
    submit(room, client, "b")
    for fields in ({"group_size": 3}, {"group_size": 2}, {}):
        client.submit(id=room.id("c"), group=room.id("g"), **fields)
        expect_error(client.get(), "bad_request", "group_size")
    worker.echo(worker.get("job"))
    expect(next_over(follower), (room.id("g"), {"succeeded": 2}), "the counts")


@rule("Groups", feature="groups")
def who_comes_late_hears_at_once(room):
    """A watch with a group that is over hears so at once, and its renewal does not."""
    client = room.client()
    submit(room, client, "a")
    client.ask("cancel", {"id": room.id("a")})
    follower = follow(room, group=room.id("g"))
    expect(next_over(follower), (room.id("g"), {"cancelled": 1}), "what is told at once")
    follower.send("watch", {"ref": "w", "group": room.id("g")})
    expect(follower.get().op, "watching", "the answer to a renewal")
    expect(follower.fence(), [], "what is told again")


@rule("Groups", feature="groups")
def a_submit_of_a_known_id_is_no_further_job(room):
    """A submit of a known id is no further job of its group."""
    follower, client = follow(room, group=room.id("g")), room.client()
    submit(room, client, "a", group_size=2)
    submit(room, client, "a", group_size=2)
    client.ask("cancel", {"id": room.id("a")})
    submit(room, client, "b", group_size=2)
    client.ask("cancel", {"id": room.id("b")})
    expect(next_over(follower), (room.id("g"), {"cancelled": 2}), "the counts")
