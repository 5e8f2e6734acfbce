# SPDX-License-Identifier: Apache-2.0
"""What a worker says and is told: places, liveness, inventory, outcomes, and what happens to jobs it does not finish."""

import os
import signal
import sys
import time
import unittest
import urllib.request

from msgpack import packb

import harness
from proxy import Proxy


class Work(harness.Case):
    arguments = harness.QUICK

    def setUp(self):
        super().setUp()
        self.client = self.room.client()

    # ---- readiness

    def test_welcome_tells_the_terms(self):
        worker = self.room.worker(welcome=False)

        fields = worker.get("welcome").fields

        self.assertTrue(fields["session"])
        self.assertEqual((fields["heartbeat_ms"], fields["body_bytes_max"]), (harness.HEARTBEAT_MS, 64 * 1024 * 1024))

    def test_capacity_is_the_most_jobs_at_once(self):
        worker = self.room.worker(capacity=3)
        for _ in range(10):
            self.client.submit()
        held = [worker.get("job") for _ in range(3)]
        self.assertTrue(worker.silent(0.05))
        for _ in range(7):
            worker.echo(held.pop(0))
            held.append(worker.get("job"))
        self.assertTrue(worker.silent(0.05))

    def test_the_newest_ready_replaces_the_older(self):
        worker = self.room.worker(["a"], capacity=1)
        self.client.submit("b")
        self.assertTrue(worker.silent(0.05))

        worker.send("ready", {"services": ["b"], "capacity": 2})

        self.assertTrue(worker.get("welcome").fields["session"])
        worker.echo(worker.get("job"))
        self.client.get("result")

    def test_a_worker_of_several_services_is_told_which(self):
        both = self.room.worker(["a", "b"], capacity=2)
        self.client.submit("a")
        self.client.submit("b")
        self.assertEqual([both.get("job").fields["service"] for _ in range(2)], ["a", "b"])
        one = self.room.worker(["c"])
        self.client.submit("c")
        self.assertNotIn("service", one.get("job").fields)

    def test_jobs_are_spread_over_the_workers(self):
        workers = [self.room.worker(capacity=4) for _ in range(2)]
        for _ in range(4):
            self.client.submit()
        self.room.pump(lambda: sum(len(worker.held) for worker in workers) == 4, "four jobs")
        self.assertEqual([len(worker.held) for worker in workers], [2, 2])

    def test_attempt_is_said_with_every_job(self):
        worker = self.room.worker()
        self.client.submit()
        fields = worker.get("job").fields
        self.assertEqual(fields["attempt"], 1)
        self.assertTrue(0 < fields["job"] < 2**53)

    def test_a_ready_that_cannot_be_is_refused(self):
        for fields, parts in (
            ({"services": ["echo"], "capacity": 1, "lanes": ["express"]}, ["express"]),
            ({"services": [], "capacity": 1}, ["services", "1 to 256"]),
            ({"services": ["echo"]}, ["capacity"]),
            ({"services": ["echo"], "capacity": -1}, ["capacity"]),
            ({"capacity": 1}, ["services"]),
        ):
            with self.subTest(fields=fields):
                worker = self.room.worker(welcome=False)
                worker.get("welcome")
                worker.send("ready", fields)
                self.assert_error(worker.get(), "bad_request", *parts)
                worker.close()

    # ---- reserved workers

    def test_a_reserved_worker_takes_its_lanes_only_and_first(self):
        general = self.room.worker(capacity=1)
        reserved = self.room.worker(capacity=1, lanes=["critical"])
        self.client.submit(lane="critical", body=b"1")
        self.assertEqual(reserved.get("job").body, b"1")
        self.client.submit(lane="critical", body=b"2")
        self.assertEqual(general.get("job").body, b"2")
        self.client.submit(lane="high", body=b"3")
        self.client.submit(lane="critical", body=b"4")
        reserved.echo(next(iter(reserved.held.values())))
        self.assertEqual(reserved.get("job").body, b"4")
        general.echo(next(iter(general.held.values())))
        self.assertEqual(general.get("job").body, b"3")

    # ---- outcomes

    def test_acked_comes_by_the_heartbeat(self):
        worker = self.room.worker()
        self.client.submit()
        job = worker.get("job")

        worker.echo(job)
        worker.answered()

        self.assertEqual(worker.acked, [(job.fields["job"], 1)])

    def test_many_outcomes_are_acked_at_once(self):
        worker = self.room.worker(capacity=64, heartbeats=True)
        for _ in range(64):
            self.client.submit()
        for _ in range(64):
            worker.echo(worker.get("job"))
        worker.answered()
        self.assertEqual(len(worker.acked), 64)

    def test_an_outcome_handed_in_twice_is_acked_twice_and_counted_once(self):
        worker = self.room.worker()
        self.client.submit()
        job = worker.get("job")
        worker.echo(job)
        worker.echo(job)
        worker.answered()
        self.room.pump(lambda: len(worker.acked) == 2, "the second acked")
        self.client.get("result")
        self.assertTrue(self.client.silent(0.05))
        self.assertEqual(self.room.stats()["counters"]["outcomes_repeated"], 1)

    def test_an_outcome_of_another_attempt_is_stale_and_changes_nothing(self):
        worker = self.room.worker()
        self.client.submit(body=b"right")
        job = worker.get("job")
        for number, attempt in ((job.fields["job"], 2), (job.fields["job"] + 1, 1), (2**62, 1), (0, 1)):
            worker.send("result", {"job": number, "attempt": attempt}, b"wrong")
        self.room.pump(lambda: len(worker.stale) == 4, "four times stale")
        worker.echo(job)
        self.assertEqual(self.client.get("result").body, b"right")

    def test_an_outcome_of_a_job_that_another_worker_holds_is_stale(self):
        owner, thief = self.room.worker(), self.room.worker(["other"])
        self.client.submit(body=b"right")
        job = owner.get("job")
        thief.hand_in(job, body=b"wrong")
        self.room.pump(lambda: thief.stale, "stale")
        owner.echo(job)
        self.assertEqual(self.client.get("result").body, b"right")

    def test_the_attempt_may_be_left_out_where_it_is_the_first(self):
        worker = self.room.worker()
        self.client.submit(body=b"x")
        job = worker.get("job")
        worker.held.clear()
        worker.send("result", {"job": job.fields["job"]}, job.body)
        self.assertEqual(self.client.get("result").body, b"x")

    # ---- classes of errors

    def fail(self, error_class, tries=1, **fields):
        worker = self.room.worker()
        self.client.submit(body=b"x", attempts_max=2)
        for _ in range(tries):
            worker.hand_in(worker.get("job"), "error", b"why", **{"class": error_class}, message="m", **fields)
        return worker

    def test_a_permanent_error_is_passed_on_at_once(self):
        self.fail("permanent", code="400")
        answer = self.client.get()
        self.assert_error(answer, "upstream_rejected", "400", "m")
        self.assertEqual(answer.body, b"why")
        self.assertEqual(answer.fields.get("attempts", 1), 1)

    def test_a_spent_key_is_passed_on_at_once(self):
        self.fail("quota")
        self.assert_error(self.client.get(), "upstream_quota", "m")

    def test_a_transient_error_is_tried_again_until_the_attempts_are_spent(self):
        for error_class in ("retry", "overloaded", "from-the-future"):
            with self.subTest(error_class=error_class):
                worker = self.fail(error_class, tries=2)
                answer = self.client.get()
                self.assert_error(answer, "upstream_failed", "m")
                self.assertEqual(answer.fields["attempts"], 2)
                self.assertGreater(answer.fields["retry_after_ms"], 0)
                worker.leave()
                worker.close()

    def test_a_retry_waits_as_long_as_the_upstream_said(self):
        began = time.monotonic()
        worker = self.fail("retry", retry_after_ms=1000)
        self.assertEqual(worker.get("job").fields["attempt"], 2)
        # From the first attempt, which may have begun in a turn of the broker that was held up.
        self.assertGreaterEqual(time.monotonic() - began, 0.95)

    def test_a_job_that_waits_for_its_retry_has_no_place(self):
        self.fail("retry", retry_after_ms=600_000)
        stats = self.room.stats_when(lambda stats: stats["lanes"]["normal"]["delayed"], "the pause")
        self.assertEqual(stats["lanes"]["normal"]["running"], 0)

    def test_a_limited_job_costs_no_attempt(self):
        worker = self.fail("limited", tries=4, retry_after_ms=10)
        worker.echo(worker.get("job"))
        self.assertEqual(self.client.get("result").fields.get("attempts", 1), 1)

    def test_a_released_job_costs_no_attempt_and_keeps_its_place(self):
        worker = self.room.worker()
        for number in range(3):
            self.client.submit(body=b"%d" % number)
        self.client.settled()
        worker.hand_in(worker.get("job"), "error", **{"class": "released"})
        other = worker.get("job")  # while the first one waits its moment
        self.room.stats_when(lambda s: s["lanes"]["normal"]["queued"] == 2, "the return of the first")
        worker.echo(other)
        again = worker.get("job")
        self.assertEqual((again.body, again.fields["attempt"]), (b"0", 2))
        worker.echo(again)
        self.assertEqual({self.client.get("result").fields.get("attempts", 1) for _ in range(2)}, {1})

    # ---- leaving, dying, falling silent

    def test_bye_gives_jobs_back_to_their_place_at_no_cost(self):
        leaver = self.room.worker(capacity=2)
        for number in range(4):
            self.client.submit(body=b"%d" % number, attempts_max=1)
        for _ in range(2):
            leaver.get("job")
        self.client.settled()
        leaver.leave()
        stayer = self.room.worker(capacity=1)
        order = []
        for _ in range(4):
            job = stayer.get("job")
            order.append((job.body, job.fields["attempt"]))
            stayer.echo(job)
        self.assertEqual(order, [(b"0", 2), (b"1", 2), (b"2", 1), (b"3", 1)])
        self.assertEqual([self.client.get("result").fields.get("attempts", 1) for _ in range(4)], [1] * 4)

    def test_a_killed_worker_loses_its_job_to_another(self):
        holder = self.room.start(harness.Process(sys.executable, "-c", HOLDER, self.room.broker.workers))
        self.client.submit(body=b"x")
        self.assertEqual(holder.line(), "holding")
        worker = self.room.worker()

        holder.signal(signal.SIGKILL)

        job = worker.get("job")
        self.assertEqual((job.body, job.fields["attempt"]), (b"x", 2))
        worker.echo(job)
        self.assertEqual(self.client.get("result").fields["attempts"], 2)
        self.assertEqual(self.room.stats()["workers"]["lost"], 1)

    def test_a_job_under_which_workers_die_twice_fails(self):
        self.client.submit(body=b"x", attempts_max=10)
        for _ in range(2):
            holder = self.room.start(harness.Process(sys.executable, "-c", HOLDER, self.room.broker.workers))
            self.assertEqual(holder.line(), "holding")
            holder.signal(signal.SIGKILL)
        answer = self.client.get()
        self.assert_error(answer, "worker_lost", "2")
        self.assertGreater(answer.fields["retry_after_ms"], 0)

    def test_a_job_whose_last_attempt_dies_fails(self):
        worker = self.room.worker()
        self.client.submit(attempts_max=1)
        worker.get("job")
        worker.heartbeats = False
        self.assert_error(self.client.get(), "worker_lost")

    def test_a_silent_worker_is_gone_and_comes_back_as_a_stranger(self):
        worker = self.room.worker()
        self.client.submit(body=b"x")
        job = worker.get("job")
        worker.heartbeats = False
        self.room.stats_when(lambda s: s["workers"]["connected"] == 0, "the loss")

        worker.heartbeats = True
        worker.echo(job)

        worker.introduce_again()
        self.assertTrue(worker.silent(0.05))  # no job before its inventory
        worker.say_heartbeat()
        worker.heartbeats = True
        self.assertTrue(worker.silent(0.05))  # it still has the one that it lists
        worker.send("result", {"job": job.fields["job"], "attempt": 1}, b"late")
        self.room.pump(lambda: (job.fields["job"], 1) in worker.stale, "stale")
        again = worker.get("job")
        self.assertEqual((again.body, again.fields["attempt"]), (b"x", 2))
        worker.echo(again)
        self.assertEqual(self.client.get("result").body, b"x")

    def test_any_message_is_a_sign_of_life(self):
        worker = self.room.worker(heartbeats=False)
        for _ in range(20):  # over four heartbeats; after three silent ones it would be gone
            worker.send("nonsense")
            self.assert_error(worker.get(), "bad_request")
            self.room.keep_alive(harness.HEARTBEAT_MS / 4000)
        self.assertEqual(self.room.stats()["workers"]["lost"], 0)

    # ---- inventory

    def test_a_job_that_two_inventories_do_not_list_goes_to_another(self):
        worker = self.room.worker(heartbeats=False, capacity=2)
        self.client.submit(body=b"x", attempts_max=1)
        held = worker.get("job").fields
        # It may have been on its way when these were said.
        for _ in range(3):
            worker.say_heartbeat([])
        self.assertTrue(worker.silent(0.05))
        for _ in range(7):  # over three intervals
            worker.say_heartbeat([[held["job"], 1]])
            self.room.keep_alive(harness.HEARTBEAT_MS / 2000)
        worker.say_heartbeat([])
        self.assertTrue(worker.silent(0.05))
        worker.say_heartbeat([])
        job = worker.get("job")
        self.assertEqual((job.body, job.fields["attempt"]), (b"x", 2))
        worker.echo(job)
        self.assertEqual(self.client.get("result").fields.get("attempts", 1), 1)
        self.assertEqual(self.room.stats()["counters"]["jobs_requeued_missing"], 1)

    def test_a_listed_job_that_is_not_known_is_cancelled(self):
        worker = self.room.worker(heartbeats=False)
        worker.say_heartbeat([[12345, 3]])
        cancel = worker.get("cancel").fields
        self.assertEqual((cancel["job"], cancel["attempt"], cancel["reason"]), (12345, 3, "unknown"))

    def test_a_listed_job_is_left_alone(self):
        worker = self.room.worker()
        self.client.submit()
        job = worker.get("job")
        for _ in range(5):
            worker.say_heartbeat()
        self.assertTrue(worker.silent(0.05))
        worker.echo(job)
        self.client.get("result")

    # ---- strangers and nonsense

    def test_who_never_said_ready_is_unknown(self):
        stranger = harness.Peer(self.room, harness.zmq.DEALER, self.room.broker.workers)
        for op, fields in (
            ("heartbeat", {}),
            ("result", {"job": 1}),
            ("error", {"job": 1, "class": "retry"}),
        ):
            stranger.send(op, fields)
            self.assert_error(stranger.get(), "unknown_session", "ready")

    def test_broken_messages_are_refused_and_the_worker_goes_on(self):
        worker = self.room.worker()
        for frames, code, part in (
            ([b"garbage"], "bad_request", "header"),
            ([packb(["LMQ1", "result", {}])], "bad_request", "job"),
            ([packb(["LMQ1", "result", {"job": "1"}])], "bad_request", "integer"),
            ([packb(["LMQ1", "submit", {"service": "echo"}])], "bad_request", "clients_endpoint"),
            ([packb(["LMQ1", "chunk", {"job": 1}])], "bad_request", "seq"),
            ([packb(["LMQ1", "heartbeat", {"jobs": [[1]]}])], "bad_request", "jobs"),
            ([packb(["LMQ1", "error", {"job": 1}])], "bad_request", "class"),
            ([packb(["LMQ1", "heartbeat", {"x": "y" * 17000}])], "too_large", "16384"),
            ([packb(["LMQ1", "result", {"job": 1}, b"a"]), b"b"], "bad_request", "body"),
        ):
            with self.subTest(frames=[frame[:30] for frame in frames]):
                worker.send_frames(*frames)
                self.assert_error(worker.get(), code, part)
        self.client.submit(body=b"x")
        worker.echo(worker.get("job"))
        self.assertEqual(self.client.get("result").body, b"x")


HOLDER = """
import sys, zmq
from msgpack import packb, unpackb
worker = zmq.Context().socket(zmq.DEALER)
worker.connect(sys.argv[1])
worker.send(packb(["LMQ1", "ready", {"services": ["echo"], "capacity": 1}]))
jobs = []
while True:
    if worker.poll(50):
        message = unpackb(worker.recv_multipart()[0])
        if message[1] == "job":
            jobs.append([message[2]["job"], message[2]["attempt"]])
            print("holding", flush=True)
    worker.send(packb(["LMQ1", "heartbeat", {"jobs": jobs}]))
"""


class Restart(harness.Case):
    arguments = None

    def setUp(self):
        super().setUp()
        self.endpoints = harness.fixed_endpoints()
        self.room.start_broker(*harness.QUICK, **self.endpoints)

    def restart(self):
        self.room.broker.kill()
        self.room.start_broker(*harness.QUICK, **self.endpoints)

    def test_a_worker_goes_on_with_a_broker_that_was_restarted(self):
        worker, client = self.room.worker(), self.room.client()
        client.submit(body=b"old")
        old = worker.get("job")

        self.restart()
        worker.introduce_again()
        worker.say_heartbeat()
        cancel = worker.get("cancel").fields
        self.assertEqual((cancel["job"], cancel["reason"]), (old.fields["job"], "unknown"))
        worker.heartbeats = True
        worker.hand_in(old, body=b"old")
        self.room.pump(lambda: worker.stale, "stale")

        client = self.room.client()
        client.submit(body=b"new")
        worker.echo(worker.get("job"))
        self.assertEqual(client.get("result").body, b"new")

    def test_no_job_is_given_before_the_inventory(self):
        worker = self.room.worker()
        self.restart()
        client = self.room.client()
        client.submit(body=b"new")
        client.settled()
        worker.introduce_again()
        self.assertTrue(worker.silent(0.05))
        worker.say_heartbeat()
        worker.heartbeats = True
        worker.echo(worker.get("job"))
        client.get("result")

    def test_an_outcome_from_before_the_restart_ends_no_job_of_after_it(self):
        worker, client = self.room.worker(), self.room.client()
        client.submit(body=b"old")
        old = worker.get("job")

        self.restart()
        client = self.room.client()
        client.submit(body=b"new")
        worker.introduce_again()
        worker.say_heartbeat()
        worker.get("cancel")
        worker.held.clear()
        worker.heartbeats = True
        new = worker.get("job")
        worker.send("result", {"job": old.fields["job"], "attempt": old.fields["attempt"]}, b"answer to old")
        self.room.pump(lambda: worker.stale or client.inbox, "the answer")
        worker.send("result", {"job": new.fields["job"], "attempt": new.fields["attempt"]}, b"answer to new")

        self.assertEqual(client.get("result").body, b"answer to new")


class Lost(harness.Case):
    """Real workers whose processes, connections or brokers are lost. Silence tells nothing here: it would take minutes."""

    arguments = ("--set", "heartbeat=60s")

    def start_worker(self, endpoint, service, *arguments):
        worker = self.room.start(harness.Process(harness.program("lanemq-worker"), "--broker", endpoint, "--service",
                                                 f"{service}=echo:1h", *arguments))
        self.ready = worker.line()
        self.assertTrue(self.ready.startswith("ready"), worker.stderr())
        return worker

    def submit(self, client, service, count):
        for number in range(count):
            client.submit(service, id=f"{service}-{number}", reply="accepted", timeout_ms=3_600_000, attempts_max=1)
            client.get("accepted")
        self.room.stats_when(lambda stats: stats["lanes"]["normal"]["running"] == count, f"{count} running jobs")

    def test_the_job_of_a_process_that_was_killed_goes_to_another_worker(self):
        client = self.room.client()
        doomed = self.start_worker(self.room.broker.workers, "echo")
        client.submit(reply="accepted", timeout_ms=3_600_000)
        client.get("accepted")
        self.room.stats_when(lambda stats: stats["lanes"]["normal"]["running"] == 1, "the job's worker")
        spare = self.room.worker()

        doomed.signal(signal.SIGKILL)

        self.assertEqual(spare.get("job").fields["attempt"], 2)

    def test_a_worker_whose_connection_is_cut_loses_nothing(self):
        client, proxy = self.room.client(), Proxy(self.room.broker.workers)
        self.start_worker(proxy.endpoint, "held", "--capacity", "4", "--metrics", "127.0.0.1:0")
        self.submit(client, "held", 4)
        # What is on the way when the connection is cut has not reached the worker, and is lost.
        metrics = self.ready.split("metrics=")[1].strip() + "/metrics"
        harness.wait_until(lambda: b"\nlanemq_worker_jobs_running 4\n" in urllib.request.urlopen(metrics).read(), "jobs that are held")

        for cuts in range(1, 6):
            proxy.cut()
            stats = self.room.stats_when(lambda stats: stats["counters"]["workers_returned"] >= cuts, "its return")

        self.assertEqual([client.status(f"held-{number}")["state"] for number in range(4)], ["running"] * 4)
        self.assertEqual((stats["workers"]["connected"], stats["workers"]["lost"]), (1, 0))
        proxy.close()


class StoodStill(Lost):
    """A broker that is stopped for longer than its workers wait for it."""

    arguments = harness.QUICK
    test_the_job_of_a_process_that_was_killed_goes_to_another_worker = None
    test_a_worker_whose_connection_is_cut_loses_nothing = None

    def test_nothing_is_handed_over_again(self):
        client = self.room.client()
        workers = [self.start_worker(self.room.broker.workers, "held", "--capacity", "4") for _ in range(2)]
        self.submit(client, "held", 8)

        self.room.broker.signal(signal.SIGSTOP)
        for worker in workers:
            harness.wait_until(lambda worker=worker: "worker.reconnecting" in worker.stderr(), "that it has noticed")
        self.room.broker.signal(signal.SIGCONT)
        stats = self.room.stats_when(lambda stats: stats["counters"]["workers_returned"] >= 2, "their return")

        self.assertEqual([client.status(f"held-{number}")["state"] for number in range(8)], ["running"] * 8)
        self.assertEqual((stats["workers"]["connected"], stats["workers"]["lost"]), (2, 0))


if __name__ == "__main__":
    unittest.main()
