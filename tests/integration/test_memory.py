# SPDX-License-Identifier: Apache-2.0
"""What a broker holds in memory, by the system's count, under those who try to make it hold more; and what goes on
while its disk stands still. The constants are those of docs/operate/capacity.md."""

import os
import tempfile
import unittest

import zmq

import harness

MIB = 1 << 20


class MemoryCase(harness.Case):
    arguments = None
    MEMORY_MAX, BACKLOG_MAX, BODY_MAX = 64 * MIB, 16 * MIB, 4 * MIB

    def setUp(self):
        super().setUp()
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="lanemq-memory-"))
        self.stall = os.path.join(folder, "stall")
        bounds = {"memory_max": self.MEMORY_MAX, "store_backlog_max": self.BACKLOG_MAX, "body_bytes_max": self.BODY_MAX}
        settings = {"heartbeat": f"{harness.HEARTBEAT_MS}ms", **{name: f"{bound}B" for name, bound in bounds.items()}}
        self.room.start_broker("--store", f"sqlite:{folder}/lanemq.db",
                               *(word for name, value in settings.items() for word in ("--set", f"{name}={value}")),
                               binary="lanemq-broker-failing", env={**os.environ, "LANEMQ_TEST_DISK_STALLS": self.stall})

    def stop_disk(self):
        open(self.stall, "w").close()
        self.addCleanup(lambda: os.path.exists(self.stall) and os.unlink(self.stall))

    def let_disk_go_on(self):
        os.unlink(self.stall)

    def most_allowed(self, connections):
        """What docs/operate/capacity.md says of connections that read what they get: the program, what waits for the disk, bodies
        read ahead, and of each connection what it is sending, what was read and what is let go of."""
        program, ahead = 64 * MIB + self.MEMORY_MAX // 4, 32 * MIB
        return (self.MEMORY_MAX + program + self.BACKLOG_MAX + self.BODY_MAX + ahead +
                connections * 4 * self.BODY_MAX) * harness.MEMORY_FACTOR


class StalledDisk(MemoryCase):
    def test_large_submits_are_refused_and_not_kept_in_the_sockets(self):
        flood, other = self.room.client(), self.room.client()
        other.ask("ping", expect="pong")
        self.stop_disk()

        body, jobs = os.urandom(self.BODY_MAX), 150
        for number in range(jobs):
            flood.submit("none", body, id=f"job-{number}", lane="batch", reply="accepted")
        flood.send("ping")
        other.ask("ping", expect="pong")
        refused = []
        while (message := flood.get()).op != "pong":
            refused.append(message)
        most = self.room.broker.most_resident_bytes()
        self.let_disk_go_on()
        for _ in range(jobs - len(refused)):
            flood.get("accepted")

        kept = self.BACKLOG_MAX // self.BODY_MAX
        self.assertIn(jobs - len(refused), (kept, kept + 1))
        for message in refused:
            self.assertEqual(message.op, "error")
            self.assertEqual((message.fields["code"], message.fields["limiter"]), ("store_full", "store_backlog_max"))
            self.assertGreater(message.fields["retry_after_ms"], 0)
        self.assertLess(most, self.most_allowed(connections=3))

    def test_what_needs_no_disk_goes_on(self):
        client, operator, worker = self.room.client(), self.room.operator(), self.room.worker(capacity=2)
        client.submit(body=b"on disk", id="before", reply="accepted")
        client.get("accepted")
        first = worker.get("job")
        self.stop_disk()
        client.submit("none", b"x", id="waits", reply="accepted")
        harness.wait_until(lambda: self.tick(client) and "store.stands_still" in self.room.broker.stderr(),
                           "the log says that the disk stands still")
        for number in range(10):
            client.submit(body=b"more", id=f"more-{number}", client="bulk", reply="accepted")

        for number in range(20):
            self.assertEqual(client.ask("ping", expect="pong").op, "pong")
            client.submit(body=b"now", lane="critical", durable=False, client="chat")
            job = worker.get("job")
            self.assertEqual(job.body, b"now")
            worker.hand_in(job, body=b"done")
            self.assertEqual(client.get("result").body, b"done")
        self.assertEqual(operator.ask("stats", expect="stats").op, "stats")

        self.let_disk_go_on()
        for _ in range(11):
            client.get("accepted")
        worker.hand_in(first)
        self.assertEqual([worker.get("job").body for _ in range(2)], [b"more", b"more"])
        harness.wait_until(lambda: "store.goes_on" in self.room.broker.stderr(), "the log says that the disk goes on")

    def tick(self, client):
        """Lets time pass at the broker: somebody asks it something."""
        return client.ask("ping", expect="pong")

    def test_answers_that_would_wait_are_refused_beyond_the_bound(self):
        client = self.room.client()
        client.submit("none", id="there", reply="accepted")
        client.get("accepted")
        self.stop_disk()
        for number in range(6):
            client.submit("none", bytes(self.BODY_MAX), id=f"job-{number}", lane="batch", reply="accepted")
        client.get("error")

        for number in range(2000):
            client.send("fetch", {"id": "there", "wait_ms": 0, "ref": number})
        refused = [client.get("error") for _ in range(2000)]

        self.assertEqual({(m.fields["code"], m.fields["limiter"]) for m in refused}, {("store_full", "store_backlog_max")})
        self.let_disk_go_on()


class Crowds(MemoryCase):
    def test_who_waits_for_a_job_is_counted_or_refused(self):
        JOBS, WAITERS = 1000, 64  # at each, the most that may wait
        client, crowd = self.room.client(), [self.room.client() for _ in range(4)]
        for number in range(JOBS):
            client.submit("none", b"x", id=f"job-{number}", lane="batch", reply="accepted")
        for _ in range(JOBS):
            client.get("accepted")

        # More than memory_max: 64,000 of 1 KiB, and what the broker needs to answer each.
        waiting = 0
        for turn in range(WAITERS):
            member = crowd[turn % len(crowd)]
            for number in range(JOBS):
                member.send("submit", {"service": "none", "id": f"job-{number}", "lane": "batch"}, b"x",
                            envelope=[b"e" * 240] * 4)
            member.send("ping")
            waiting += JOBS
            while (message := member.get()).op != "pong":
                self.assertEqual(message.op, "error")
                self.assertIn(message.fields["code"], ("bytes_full", "store_full"), message.fields)
                waiting -= 1

        stats = self.room.stats()
        self.assertGreater(waiting, 0)
        self.assertLess(waiting, JOBS * WAITERS)
        self.assertGreater(stats["memory_bytes"], waiting * 960)
        self.assertLessEqual(stats["memory_bytes"], self.MEMORY_MAX)
        self.assertLess(self.room.broker.most_resident_bytes(),
                        (self.MEMORY_MAX * 5 // 4 + 64 * MIB) * harness.MEMORY_FACTOR)

    def test_bodies_lent_to_a_worker_that_does_not_read_are_bounded(self):
        JOBS = 100
        client = self.room.client()
        for number in range(JOBS):
            client.submit("big", os.urandom(self.BODY_MAX // 2), id=f"job-{number}", lane="batch", reply="accepted")
            client.get("accepted")

        deaf = self.room.worker(services=["big"], capacity=JOBS, heartbeats=False,
                                options=((zmq.RCVHWM, 1), (zmq.RCVBUF, 65536)))
        deaf.say_heartbeat([])
        self.room.peers.remove(deaf)  # nobody reads it from here on
        self.addCleanup(deaf.socket.close)
        self.room.stats_when(lambda stats: stats["lanes"]["batch"]["running"] > 0, "jobs go to the worker")
        self.room.keep_alive(2 * harness.HEARTBEAT_MS / 1000)

        stats = self.room.stats()
        self.assertLess(stats["lanes"]["batch"]["running"], JOBS)
        self.assertLessEqual(stats["counters"]["lent_bytes"], self.MEMORY_MAX // 8 + self.BODY_MAX)
        self.assertLess(self.room.broker.most_resident_bytes(), self.most_allowed(connections=2))


class Counted(harness.Case):
    """memory_bytes of `stats` beside what the system counts."""
    arguments = None
    JOBS, IN_A_MESSAGE, TOLERANCE = 32_000, 50, 0.15

    def grown_by(self, fields_of):
        """How much memory_bytes and the resident bytes grow by a job, of many that wait. `fields_of`: a job's number to its fields."""
        broker = self.room.start_broker("--store", "memory", "--set", "client_share=0")
        client = self.room.client()
        client.submit("none", id="first", reply="accepted")
        client.get("accepted")
        before, counted_before = broker.resident_bytes(), self.room.stats()["memory_bytes"]
        for begin in range(0, self.JOBS, self.IN_A_MESSAGE):
            maps = [{"id": f"job-{number}", "service": "none", "lane": "batch", "reply": "accepted", "batch": self.IN_A_MESSAGE,
                     **fields_of(number)} for number in range(begin, begin + self.IN_A_MESSAGE)]
            client.send_batch("submit", maps)
            for _ in range(self.IN_A_MESSAGE):
                client.get("accepted")
        grown, counted = broker.resident_bytes() - before, self.room.stats()["memory_bytes"] - counted_before
        return counted / self.JOBS, grown / self.JOBS

    @unittest.skipIf(harness.SANITIZED, "a sanitizer's allocator takes more")
    def test_what_a_waiting_job_takes(self):
        long_name = lambda number: f"{number}".rjust(100, "c")
        for kind, fields_of in {"one client's": lambda number: {},
                                "of a client of its own": lambda number: {"client": long_name(number)},
                                "with a stated cost": lambda number: {"cost": {"input_tokens": 1}},
                                "that its client's end cancels": lambda number: {"orphan": "cancel"}}.items():
            with self.subTest(kind):
                counted, resident = self.grown_by(fields_of)
                self.assertLess(abs(resident - counted), self.TOLERANCE * resident,
                                f"a job {kind} counts {counted:.0f} bytes, and takes {resident:.0f}")


class Turns(MemoryCase):
    def test_the_longest_turn_is_told(self):
        client = self.room.client()
        client.ask("ping", expect="pong")

        turn = self.room.stats()["turn_ms"]

        self.assertGreater(turn["max"], 0)
        self.assertGreaterEqual(turn["max"], turn["last_minute"])


if __name__ == "__main__":
    unittest.main()
