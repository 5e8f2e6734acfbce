# SPDX-License-Identifier: Apache-2.0
"""A check that cannot fail proves nothing: a broker whose answers are falsified on their way has to be found out."""

import sys
import unittest

sys.dont_write_bytecode = True

import kit
from msgpack import packb, unpackb
from page import Page
from rules import RULES


def falsified(peer, frames, lie):
    """The messages that a peer sees in the place of one. `lie` is told op, fields and body, and gives back fields, or a
    list of (op, fields, body)."""
    at = next(i for i, frame in enumerate(frames) if frame[:6] in kit.MAGIC)
    _, op, fields, *inside = unpackb(frames[at])
    body = (inside or frames[at + 1 :] or [b""])[0]
    told = lie(peer, op, fields, body)
    for op, fields, body in told if isinstance(told, list) else [(op, told, body)]:
        small = len(body) <= 4096
        yield [*frames[:at], packb(["LMQ1", op, fields, *([body] if small else [])]), *([] if small else [body])]


class Lies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runner = kit.Runner(Page())
        cls.addClassCleanup(cls.runner.close)

    def verdict(self, name, lie=None):
        rule = next(rule for rule in RULES if rule.name == name)
        honest = kit.Judged.take_in
        if lie:

            def take_in(peer, frames):
                for message in falsified(peer, frames, lie):
                    honest(peer, message)

            kit.Judged.take_in = take_in
        try:
            return self.runner.judge(rule)
        finally:
            kit.Judged.take_in = honest

    def found_out(self, name, lie, seen=""):
        self.assertEqual(self.verdict(name).kind, kit.PASS)
        verdict = self.verdict(name, lie)
        self.assertEqual(verdict.kind, kit.FAIL)
        self.assertIn(seen, " ".join(verdict.seen))

    def told_by_tables(self, lie, finding):
        verdict = self.verdict("client-to-broker-status.status_of_a_running_job", lie)
        self.assertIn(finding, " ".join(verdict.findings))

    def test_a_ref_that_is_another(self):
        lie = lambda peer, op, fields, body: {**fields, "ref": 8} if op == "stats" else fields
        self.found_out("client-to-broker.every_answer_carries_the_ref", lie, "stats")

    def test_two_terminal_messages(self):
        lie = lambda peer, op, fields, body: [(op, fields, body)] * (2 if op == "result" else 1)
        self.found_out("broker-to-client.one_terminal_message_for_each_submit", lie)

    def test_an_error_with_another_code(self):
        lie = lambda peer, op, fields, body: {**fields, "code": "internal"} if op == "error" else fields
        for name in ("limits.header_has_16384_bytes", "same-id.same_id_with_other_content_is_a_conflict"):
            self.found_out(name, lie, "internal")

    def test_a_refusal_that_does_not_name_the_field(self):
        lie = lambda peer, op, fields, body: {**fields, "message": "no"} if op == "error" else fields
        self.found_out("client-to-broker-submit.fields_of_submit", lie, "does not name attempts_max")
        self.found_out("worker-to-broker-result.fields_of_result", lie, "does not name job")

    def test_a_refusal_that_is_none(self):
        lie = lambda peer, op, fields, body: [("pong", {}, b"")] if op == "error" else fields
        self.found_out("messages.keys_come_once", lie)
        self.found_out("messages.texts_are_utf8", lie)

    def test_stale_outcomes_that_are_taken(self):
        def lie(peer, op, fields, body):
            if op == "error" and fields["code"] == "stale":
                return [("acked", {"jobs": [[fields["job"], fields.get("attempt", 1)]]}, b"")]
            return fields

        self.found_out("the-life-of-a-worker.hostile_results_for_others", lie)

    def test_jobs_that_come_twice(self):
        lie = lambda peer, op, fields, body: [(op, fields, body)] * (2 if op == "job" else 1)
        self.found_out("worker-to-broker-ready.capacity_is_the_most_jobs_at_once", lie)
        self.found_out("the-life-of-a-job.lanes_are_served_in_their_order", lie)

    def test_a_body_that_is_another(self):
        lie = lambda peer, op, fields, body: [(op, fields, body[:-1])]
        self.found_out("transport.jobs_survive_their_connection", lie, "b'answe'")

    def test_a_duplicate_that_is_none(self):
        lie = lambda peer, op, fields, body: {k: v for k, v in fields.items() if k != "duplicate"}
        self.found_out("same-id.same_id_and_content_is_the_same_job", lie)

    def test_what_the_tables_forbid(self):
        say = lambda **more: lambda peer, op, fields, body: {**fields, **more}
        self.told_by_tables(say(lane="normal"), "job.lane is 'normal', its default")
        self.told_by_tables(say(attempts="2"), "status.attempts is '2', and should be int")
        self.told_by_tables(say(job=2**63), f"job.job is {2**63}")
        drop = lambda peer, op, fields, body: {k: v for k, v in fields.items() if k != "position"}
        verdict = self.verdict("same-id.an_id_that_the_broker_made_is_no_key", drop)
        self.assertIn("accepted.position is missing", verdict.findings)


if __name__ == "__main__":
    unittest.main()
