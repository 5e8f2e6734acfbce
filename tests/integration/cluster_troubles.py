# SPDX-License-Identifier: Apache-2.0
"""What may happen to an owner, its candidate and their database. Each trouble begins with two brokers that work and two servers
of which one is a synchronous standby, and leaves to Stage.end_round() to start again what has ended."""

import signal
import time

import harness
from cluster_stage import PATIENCE

# Seconds for which an owner may be away without being taken for dead, and after which it has certainly been, beyond the lease.
SHORT, CERTAIN = (0.3, 1.2), (1.5, 4.0)
AWAY_MAX = 10.0  # beyond the lease, then an owner ends by itself
DIRECTIONS = ("up down", "up", "down", "refuse")
# What is promised, in seconds: a new owner serves behind the loss of one, behind a handover, and the same one behind a promotion.
SERVES, HANDED_OVER, PROMOTED = 10.0, 1.0, 1.0


def kill(stage):
    began = stage.loses_its_owner()
    stage.kill(stage.owner)
    stage.times.append(("killed: by the candidate", stage.answered_by_another() - began, SERVES))


def stop(stage):
    """The owner stands still, and goes on: within the lease, or long after another one has taken the store."""
    owner, chance = stage.owner, stage.random
    began = stage.loses_its_owner()
    owner.member.signal(signal.SIGSTOP)
    if chance.random() < 0.3:
        stage.room.keep_alive(chance.uniform(*SHORT))
        owner.member.signal(signal.SIGCONT)
        return still_owns(stage, "stopped shortly: by the same one")
    until = began + chance.uniform(stage.options.lease + CERTAIN[1], max(stage.options.stop_max, stage.options.lease + CERTAIN[1]))
    stage.times.append(("stopped: by the candidate", stage.answered_by_another() - began, SERVES))
    stage.room.keep_alive(max(0, until - time.monotonic()))
    owner.member.signal(signal.SIGCONT)
    return is_deposed(stage, owner)


def still_owns(stage, what):
    """After a trouble that is over and that was shorter than the lease."""
    over = time.monotonic()
    stage.times.append((what, stage.answered(over) - over, None))
    keeps(stage)


def is_deposed(stage, owner):
    """A former owner that wakes is refused by the fence, and ends."""
    stage.ends(owner, 75)
    stage.gather()


def stop_in_transaction(stage):
    """The owner has the row's lock, and stands still."""
    owner = stage.owner
    began = stage.loses_its_owner()
    hold_in_transaction(stage, owner)
    owner.member.signal(signal.SIGSTOP)
    stage.times.append(("stopped in a transaction: by the candidate", stage.answered_by_another() - began, SERVES))
    owner.heal()
    owner.member.signal(signal.SIGCONT)
    is_deposed(stage, owner)


def hold_in_transaction(stage, owner):
    """Lets a part of a transaction through, with the fence in it, and the rest not."""
    held = ("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lanemq-broker' AND state = 'active' "
            "AND wait_event = 'ClientRead' AND backend_xid IS NOT NULL")
    for count in (170, 210, 250) * 20:
        for way in owner.ways:
            way.hold_after(count)
        stage.room.keep_alive(0.15)
        if stage.pair.primary.value(held) == "1":
            return
        owner.heal()
        stage.room.keep_alive(0.05)
    raise harness.Timeout("no transaction was held in its middle")


def cut_short(stage):
    """The owner does not reach the database for a while, which is over before it would end by itself."""
    owner, chance, lease = stage.owner, stage.random, stage.options.lease
    how = chance.choice(DIRECTIONS)
    began = stage.loses_its_owner()
    owner.cut(how)
    if chance.random() < 0.4:
        stage.room.keep_alive(chance.uniform(*SHORT))
        owner.heal()
        return still_owns(stage, "cut shortly: by the same one")
    until = began + lease + chance.uniform(CERTAIN[0], min(AWAY_MAX - 2, stage.options.stop_max))
    stage.times.append(("cut: by the candidate", stage.answered_by_another() - began, SERVES))
    stage.room.keep_alive(max(0, until - time.monotonic()))
    owner.heal()
    return is_deposed(stage, owner)


def cut_long(stage):
    """The owner does not reach the database, and ends by itself. What it had sent last arrives long after."""
    owner = stage.owner
    began = stage.loses_its_owner()
    owner.cut(stage.random.choice(DIRECTIONS))
    stage.times.append(("cut: by the candidate", stage.answered_by_another() - began, SERVES))
    is_deposed(stage, owner)
    stage.times.append(("cut: its own end", time.monotonic() - began, stage.options.lease + AWAY_MAX + 6))
    owner.heal()
    stage.room.keep_alive(0.5)


def promote(stage):
    """Returns when it is done."""
    stage.beside(stage.pair.standby.promote)
    stage.beside(lambda: harness.wait_until(stage.pair.is_promoted, "the promotion", PATIENCE, 0.01))
    return time.monotonic()


def kill_primary(stage):
    stage.loses_its_owner()
    stage.pair.primary.crash()
    stage.room.keep_alive(stage.random.uniform(0, 1))
    done = promote(stage)
    stage.times.append(("primary killed: after the promotion", stage.answered(done) - done, PROMOTED))
    keeps(stage)
    stage.beside(stage.pair.join)


def stop_primary(stage, besides=None):
    """It hangs, a standby is promoted in its place, and then it lives on for a while, and takes connections as before. The owner
    loses its own meanwhile, or dies, or has died before the promotion."""
    former, chance = stage.pair.primary, stage.random
    besides = besides or chance.choice(("nothing", "cut", "kill", "kill before"))
    began = stage.loses_its_owner()
    former.stop()
    stage.room.keep_alive(chance.uniform(0, 1))
    if besides == "kill before":
        stage.kill(stage.owner)
    done = promote(stage)
    if besides != "kill before":
        stage.times.append(("primary hangs: after the promotion", stage.answered(done) - done, SERVES))
    former.go_on()
    if besides == "kill before":
        stage.times.append(("primary hangs, owner killed: by the candidate", stage.answered_by_another() - began, None))
    else:
        stage.room.keep_alive(chance.uniform(0.5, 2.5))
        beside_former_primary(stage, besides)
    stage.goes_on()
    stage.beside(stage.pair.join)


def beside_former_primary(stage, besides):
    if besides == "kill":
        began = stage.loses_its_owner()
        stage.kill(stage.owner)
        stage.times.append(("killed beside a former primary: by the candidate", stage.answered_by_another() - began, SERVES))
        return
    if besides == "cut":
        for way in stage.owner.ways:
            way.cut()
        stage.room.keep_alive(0.2)  # what was told before is heard
        cut = time.monotonic()
        stage.times.append(("cut beside a former primary: by the same one", stage.answered(cut) - cut, SERVES))
    keeps(stage)


def keeps(stage):
    """Nobody has taken the store from an owner that is alive."""
    if stage.candidate.has_become_owner():
        raise AssertionError(f"{stage.candidate.name} has taken the store from {stage.owner.name}, which was alive")


def stop_standby(stage):
    """Commits wait for it, and an operator cancels the wait: what the standby has not got is told to nobody."""
    chance, pair = stage.random, stage.pair
    stage.loses_its_owner()
    pair.standby.stop()
    newest = dict(stage.newest())  # what is submitted from now on cannot be at the standby
    harness.wait_until(pair.sessions_that_wait, "a commit that waits for the standby")
    stage.room.keep_alive(0.5)
    cancelled = 0
    for _ in range(chance.randrange(1, 4)):
        cancelled += pair.sessions_that_wait(chance.choice(("pg_cancel_backend", "pg_cancel_backend", "pg_terminate_backend")))
        stage.room.keep_alive(chance.uniform(0.2, 0.8))
    later = [job for job in stage.book.jobs.values() if job.durable and later_than(newest, job)]
    if told := [job.id for job in later if job.acked]:
        stage.book.fault("unexpected", f"{told} were acknowledged without the standby")
    if not cancelled or len(later) < 10:
        stage.book.fault("unexpected", f"{cancelled} waits for the standby were cancelled, and {len(later)} jobs submitted meanwhile")
    pair.standby.go_on()
    over = time.monotonic()
    stage.times.append(("standby stopped: after its return", stage.answered(over) - over, None))
    keeps(stage)


def later_than(newest, job):
    client, number = map(int, job.id.split("-"))
    return number > newest[client]


def hand_over(stage):
    owner = stage.owner
    began = stage.loses_its_owner()
    owner.member.signal(signal.SIGTERM)
    took = stage.answered_by_another() - began
    stage.times.append(("handed over: by the candidate, without its load", took - stage.load_seconds(), HANDED_OVER))
    stage.ends(owner, 0)
    stage.gather()


def kill_all(stage):
    stage.loses_its_owner()
    for machine in stage.machines:
        stage.kill(machine)
    stage.room.keep_alive(stage.random.uniform(0, 0.5))
    began = time.monotonic()
    stage.start(stage.random.choice(stage.machines))
    stage.times.append(("both killed, one started: by it", stage.answered_by_another() - began, SERVES))


KINDS = {what.__name__: what for what in (kill, stop, stop_in_transaction, cut_short, cut_long, kill_primary, stop_primary,
                                          stop_standby, hand_over, kill_all)}
