# SPDX-License-Identifier: Apache-2.0
"""Batches: several jobs in one message, both ways, with peers that know nothing of each other's."""

import unittest

import zmq
from msgpack import packb

import harness


class Batches(harness.Case):
    arguments = harness.QUICK

    def setUp(self):
        super().setUp()
        self.client = self.room.client()

    def submit_all(self, maps, bodies=None, **how):
        maps[0].setdefault("batch", 16)
        self.client.send_batch("submit", maps, bodies, **how)

    def answers(self, count):
        return {answer.fields.get("id"): answer for answer in (self.client.get() for _ in range(count))}

    def test_jobs_and_answers_go_both_ways_in_groups(self):
        worker = self.room.worker(capacity=16, batch=16)
        ids = [f"job-{number}" for number in range(12)]
        self.submit_all([{"service": "echo", "lane": "high", "id": ids[0]}, *({"id": job} for job in ids[1:])],
                        [job.encode() for job in ids])

        jobs = [worker.get("job") for _ in ids]
        self.assertEqual([job.fields["id"] for job in jobs], ids)
        self.assertEqual([job.body for job in jobs], [job.encode() for job in ids])
        self.assertEqual({job.fields["lane"] for job in jobs}, {"high"})
        self.assertEqual({job.batch for job in jobs}, {12}, "what came together leaves together")
        worker.hand_in_all(jobs)

        answers = self.answers(12)
        self.assertEqual(sorted(answers), sorted(ids))
        for job, answer in answers.items():
            self.assertEqual((answer.op, answer.body, answer.batch), ("result", job.encode(), 12))
        worker.answered()

    def test_bodies_may_come_in_a_frame_of_their_own_and_be_large(self):
        worker = self.room.worker(capacity=16, batch=16)
        bodies = [b"small", b"l" * 200_000, b"", b"m" * 5000]
        self.submit_all([{"service": "echo", "id": "0"}, {"id": "1"}, {"id": "2"}, {"id": "3"}], bodies, in_frame=True)

        jobs = [worker.get("job") for _ in bodies]
        self.assertEqual([job.body for job in jobs], bodies)
        self.assertEqual([job.batch for job in jobs if len(job.body) > harness.INLINE_MAX], [0, 0])
        worker.hand_in_all(jobs)

        answers = self.answers(4)
        self.assertEqual([answers[str(number)].body for number in range(4)], bodies)

    def test_a_bad_item_fails_alone(self):
        worker = self.room.worker(capacity=16)
        self.submit_all([
            {"service": "echo", "id": "good", "timeout_ms": 60000},
            {"id": "wrong type", "ref": 7, "timeout_ms": "soon"},
            {"id": "no service", "service": None},
            {"id": "no such lane", "lane": "express"},
            {"id": "also good", "timeout_ms": None},
        ], [b"a", b"b", b"c", b"d", b"e"])

        for expected in (b"a", b"e"):
            job = worker.get("job")
            self.assertEqual(job.body, expected)
            self.assertEqual("timeout_ms" in job.fields, expected == b"a", "a nil takes an inherited field away")
            worker.echo(job)
        answers = self.answers(5)
        self.assertEqual({job: answer.op for job, answer in answers.items()}, {
            "good": "result", "also good": "result", "wrong type": "error", "no service": "error", "no such lane": "error"})
        self.assert_error(answers["wrong type"], "bad_request", "item 1 of the batch", "timeout_ms")
        self.assertEqual(answers["wrong type"].fields["ref"], 7)
        self.assert_error(answers["no service"], "bad_request", "item 2 of the batch", "service")
        self.assert_error(answers["no such lane"], "bad_request", "express")

    def test_nothing_of_a_broken_batch_counts(self):
        worker = self.room.worker(capacity=16)
        maps = [{"service": "echo", "batch": 16}, {}]
        broken = [
            (packb(["LMQ1", "submit", maps, [b"a"]]), "2 maps and 1 bodies"),
            (packb(["LMQ1", "submit", maps, b"a"]), "list of bin"),
            (packb(["LMQ1", "submit", maps, [b"a", "b"]]), "list of bin"),
            (packb(["LMQ1", "submit", []]), "0 maps"),
            (packb(["LMQ1", "submit", maps * 150]), "batch_items_max"),
            (packb(["LMQ1", "submit", [*maps, 1]]), "list of maps"),
            (packb(["LMQ1", "submit", maps])[:-1], "ends too early"),
            (packb(["LMQ1", "submit", [{"service": "echo", "batch": 16, "meta": "m" * 17000}, {}]]), "header_bytes_max"),
            (packb(["LMQ1", "ping", [{}, {}]]), "cannot be batched"),
        ]
        for frame, part in broken:
            self.client.send_frames(frame)
            code = "too_large" if "bytes_max" in part else "bad_request"
            self.assert_error(self.client.get(), code, part)
        self.client.send_frames(packb(["LMQ1", "submit", maps]), packb([b"a"]))
        self.assert_error(self.client.get(), "bad_request", "2 maps and 1 bodies")
        self.assertTrue(worker.silent(0.05))

    def test_a_batch_has_to_be_agreed(self):
        pair = [{"service": "echo"}, {}]
        self.client.send_batch("submit", pair)
        self.assert_error(self.client.get(), "bad_request", "batch of 2 maps", "said is 0")
        self.client.submit(batch=2, id="first", reply="accepted")
        self.client.get("accepted")
        self.client.send_batch("submit", [{"service": "echo", "id": "a", "reply": "accepted"}, {"id": "b"}])
        self.assertEqual([self.client.get("accepted").fields["id"] for _ in "ab"], ["a", "b"])
        self.client.send_batch("cancel", [{"id": "a"}, {"id": "b"}, {"id": "first"}])
        self.assert_error(self.client.get(), "bad_request", "batch of 3 maps", "said is 2")
        self.client.send_batch("cancel", [{"id": "a"}, {"id": "b"}])
        self.assertEqual([self.client.get("status").fields["state"] for _ in "ab"], ["cancelled"] * 2)

        worker = self.room.worker(capacity=2)
        job = worker.get("job")
        worker.hand_in_all([job])
        self.assert_error(worker.get(), "bad_request", "ready has said 0")
        worker.send("ready", {**worker.ready, "batch": 4})
        self.assertEqual(worker.get("welcome").fields["batch"], 4)
        worker.hand_in_all([job])
        worker.answered()

    def test_a_req_socket_sends_no_batch(self):
        req = self.room.client(zmq.REQ)
        req.send_batch("submit", [{"service": "echo", "batch": 2}, {}])
        self.assert_error(req.get(), "bad_request", "REQ")
        self.room.worker(batch=2, capacity=2)
        req.submit(batch=16, reply="accepted")
        self.assertEqual(req.get("accepted").batch, 0)

    def test_a_worker_that_is_not_known_hears_so_for_each_outcome(self):
        worker = self.room.worker(capacity=4, batch=4)
        self.submit_all([{"service": "echo"}, {}, {}], [b"a", b"b", b"c"])
        jobs = [worker.get("job") for _ in "abc"]
        worker.send("bye")
        worker.hand_in_all(jobs)
        for _ in jobs:
            self.assertEqual(worker.get("error").fields["code"], "unknown_session")

    def test_who_asked_for_no_batch_gets_none(self):
        worker, plain = self.room.worker(capacity=16), self.room.client()
        self.submit_all([{"service": "echo", "id": "0"}, *({"id": str(number)} for number in range(1, 8))])
        plain.submit(id="plain")
        jobs = [worker.get("job") for _ in range(9)]
        self.assertEqual({job.batch for job in jobs}, {0})
        for job in jobs:
            worker.echo(job)
        self.assertEqual(plain.get("result").batch, 0)
        self.assertEqual(sorted(self.answers(8)), [str(number) for number in range(8)])

    def test_x_fields_are_inherited_and_passed_through(self):
        worker = self.room.worker(capacity=16, batch=16)
        self.submit_all([{"service": "echo", "x-a": 1, "x-b": [2]}, {}, {"x-b": 3}, {"x-a": None}])
        jobs = [worker.get("job").fields for _ in range(4)]
        extras = [{name: value for name, value in job.items() if name.startswith("x-")} for job in jobs]
        self.assertEqual(extras, [{"x-a": 1, "x-b": [2]}, {"x-a": 1, "x-b": [2]}, {"x-a": 1, "x-b": 3}, {"x-b": [2]}])


if __name__ == "__main__":
    unittest.main()
