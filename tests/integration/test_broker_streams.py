# SPDX-License-Identifier: Apache-2.0
"""Answers that come piece by piece, through a broker's sockets, across its death, and past clients that are gone."""

import json
import unittest

import zmq

import harness
from test_durable import DurableCase


def chunk(worker, job, seq, body, **fields):
    worker.send("chunk", {"job": job.fields["job"], "attempt": job.fields["attempt"], "seq": seq, **fields}, body)


def bodies(client, count, first=0):
    """The chunks that come next, which must be in order."""
    got = [client.get("chunk") for _ in range(count)]
    assert [message.fields["seq"] for message in got] == list(range(first, first + count)), got
    return [message.body for message in got]


class Streams(harness.Case):
    def setUp(self):
        super().setUp()
        self.room.start_broker("--store", "memory", *harness.STEADY)
        self.client, self.worker = self.room.client(), self.room.worker()

    def test_pieces_of_any_size_arrive_untouched_and_in_order(self):
        pieces = [b"", b"x", b"y" * 4095, b"z" * 4096, b"w" * 4097, b"\0" * 100_000, b"end"]
        self.client.submit(stream=True, ref=1)
        job = self.worker.get("job")
        self.assertTrue(job.fields["stream"])

        for seq, piece in enumerate(pieces):
            chunk(self.worker, job, seq, piece)
        self.assertEqual(bodies(self.client, len(pieces)), pieces)
        self.worker.hand_in(job)

        self.assertEqual(self.client.get("result").fields["chunks"], len(pieces))

    def test_how_long_first_pieces_take_is_told_of_their_lane(self):
        self.client.submit(stream=True, id="quick", lane="high")
        job = self.worker.get("job")
        for seq in range(3):
            chunk(self.worker, job, seq, b"x")
        self.worker.hand_in(job)
        self.client.submit(id="whole", lane="high")
        self.worker.hand_in(self.worker.get("job"))
        while self.client.get().fields.get("id") != "whole":
            pass
        rows = json.loads(self.room.run(harness.program("lanemq"), "--admin", self.room.broker.admin, "lanes", "--json").stdout)["lanes"]
        high, normal = (next(row for row in rows if row["name"] == name) for name in ("high", "normal"))
        self.assertEqual((high["first_piece_ms"]["count"], high["first_piece_ms"]["minute"]["count"], normal["first_piece_ms"]["count"]), (1, 1, 0))
        self.assertLessEqual(high["first_piece_ms"]["max"], high["run_ms"]["max"])

    def test_a_long_stream_goes_through_the_window(self):
        count, seen, sent, taken = 2000, -1, 0, -1
        self.client.submit(stream=True, id="long")
        job = self.worker.get("job")

        while seen < count - 1:
            while sent < count and sent - taken <= 64:
                chunk(self.worker, job, sent, b"%d" % sent)
                sent += 1
            behind = sent - seen - 1
            self.assertEqual(bodies(self.client, behind, seen + 1), [b"%d" % seq for seq in range(seen + 1, sent)])
            seen = sent - 1
            self.client.send("seen", {"id": "long", "seq": seen})
            if sent < count:
                taken = self.worker.get("window").fields["seq"]
                self.assertEqual(taken, seen)
        self.worker.hand_in(job)

        self.assertEqual(self.client.get("result").fields["chunks"], count)
        self.assertEqual(self.room.stats()["counters"]["chunks_in"], count)
        self.assertEqual(self.room.stats()["counters"]["chunks_refused"], 0)

    def test_a_client_that_is_gone_holds_up_nothing(self):
        self.client.submit(stream=True, id="left", orphan="keep")
        job = self.worker.get("job")
        for seq in range(64):
            chunk(self.worker, job, seq, b"x")
        bodies(self.client, 64)

        self.client.close()

        self.assertEqual(self.worker.get("window").fields["seq"], 63)
        chunk(self.worker, job, 64, b"last")
        self.worker.hand_in(job)
        other = self.room.client()
        other.send("fetch", {"id": "left", "from_seq": 63, "wait_ms": 10_000})
        self.assertEqual(bodies(other, 2, 63), [b"x", b"last"])
        self.assertEqual(other.get("result").fields["chunks"], 65)

    def test_the_status_of_the_upstream_is_passed_on(self):
        self.client.submit(id="a", attempts_max=1)
        self.worker.hand_in(self.worker.get("job"), "error", b"why", code="503", upstream_status=503,
                            **{"class": "retry"})

        for answer in (self.client.get("error"), self.client.ask("fetch", {"id": "a"})):
            self.assert_error(answer, "upstream_failed")
            self.assertEqual((answer.fields["upstream_status"], answer.body), (503, b"why"))


class StreamsOnDisk(DurableCase):
    def streaming(self, job_id, chunks):
        """A durable job that has sent so many chunks, which its client has."""
        client, worker = self.client(), self.worker()
        client.submit(id=job_id, stream=True, reply="both")
        self.assertTrue(client.get("accepted").fields["durable"])
        job = worker.get("job")
        for seq in range(chunks):
            chunk(worker, job, seq, b"%d" % seq)
        bodies(client, chunks)
        # What came with the first chunk is on disk with whatever is accepted later.
        client.submit("other", id=f"behind {job_id}", reply="accepted")
        client.get("accepted")
        return client, worker, job

    def test_a_stream_goes_on_after_the_brokers_death(self):
        client, worker, job = self.streaming("a", 3)

        self.kill_and_start()
        client.send("fetch", {"id": "a", "from_seq": 3, "wait_ms": 60_000})
        worker.introduce_again()
        worker.say_heartbeat()
        worker.heartbeats = True
        for seq in range(1, 6):  # from the first that no window covered
            chunk(worker, job, seq, b"%d" % seq)

        self.assertEqual(bodies(client, 3, 3), [b"3", b"4", b"5"])
        worker.hand_in(job)
        self.assertEqual(client.get("result").fields["chunks"], 6)
        self.assert_error(client.ask("fetch", {"id": "a", "from_seq": 0}), "gone", "the oldest is 1")

    def test_a_stream_whose_worker_died_with_the_broker_is_not_run_again(self):
        client, worker, _ = self.streaming("a", 3)

        self.kill_and_start(worker)
        fresh = self.worker()

        answer = client.ask("fetch", {"id": "a", "wait_ms": 60_000}, expect="error")
        self.assert_error(answer, "worker_lost", "not run again")
        self.assertGreaterEqual(answer.fields["chunks"], 1)
        self.assertTrue(fresh.silent(0.05))


if __name__ == "__main__":
    unittest.main()
