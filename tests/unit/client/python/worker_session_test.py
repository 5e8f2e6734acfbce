# SPDX-License-Identifier: Apache-2.0
import unittest

from msgpack import ExtType, packb
from support import said, tell
from lanemq.worker_session import OUTCOMES_MAX, Outcome, WorkerSession


class Gate:
    def __init__(self):
        self.covered, self.closed = [], False

    def taken(self, count, size):
        self.covered.append((count, size))

    def close(self):
        self.closed = True


class Case(unittest.TestCase):
    capacity = 2

    def setUp(self):
        self.session = WorkerSession(["s"], self.capacity, 0.0)

    def welcome(self, now=0.0, **fields):
        tell(self.session, "welcome", {"session": "one", "heartbeat_ms": 1000, "body_bytes_max": 1000, **fields}, now=now)
        said(self.session, now)
        return self.effects()

    def job(self, number, attempt=1, now=0.0, **fields):
        tell(self.session, "job", {"job": number, "attempt": attempt, **fields}, b"body", now)

    def effects(self):
        effects, self.session.effects = self.session.effects, []
        return effects

    def ops(self, now=0.0):
        return [op for op, _, _ in said(self.session, now)]


class SeveralEndpoints(Case):
    def setUp(self):
        self.session = WorkerSession(["s"], 2, 0.0, endpoints=2)

    def turns(self, now):
        self.session.advance(now)
        return self.session.take_reopen(now)

    def test_silence_counts_from_the_end_of_a_look_up(self):
        self.session.go_round(1)
        self.session.found_nobody(0.0)
        self.assertFalse(self.turns(0.09))  # behind a round, of one place
        self.assertTrue(self.turns(0.1))
        self.session.found_address(1.0)
        self.session.go_round(2)
        self.assertFalse(self.turns(2.99))
        self.assertTrue(self.turns(3.0))


class Greeting(Case):
    def test_it_says_what_it_offers(self):
        [(op, fields, _)] = said(self.session, 0.0)
        self.assertEqual((op, fields), ("ready", {"services": ["s"], "resumes": True, "batch": 64, "capacity": 2}))
        self.assertEqual(self.welcome(), [("welcomed",)])

    def test_a_refused_ready_is_said_again_later_or_never(self):
        said(self.session, 0.0)
        tell(self.session, "error", {"code": "full", "message": "m"})
        self.assertEqual(self.effects(), [("refused", "full: m", False)])
        self.assertFalse(self.session.take_reopen(4.9))
        self.assertTrue(self.session.take_reopen(5.0))
        tell(self.session, "error", {"code": "bad_request", "message": "m"})
        self.assertEqual(self.effects(), [("refused", "bad_request: m", True)])


class Progress(Case):
    def setUp(self):
        super().setUp()
        said(self.session, 0.0)
        self.welcome()
        self.job(1)

    def words(self, now):
        self.session.advance(now)
        return [fields for op, fields, _ in said(self.session, now) if op == "progress"]

    def test_what_is_over_or_not_wanted_says_none(self):
        self.session.progress((1, 1), {"pct": 10}, 0.0)
        self.session.progress((1, 1), {"pct": 11}, 0.1)
        self.session.finish((1, 1), Outcome("result", {}, b""), 0.1)
        self.session.progress((1, 1), {"pct": 12}, 0.1)
        self.session.progress((7, 1), {"pct": 12}, 0.1)
        said(self.session, 0.1)
        self.assertEqual(self.words(0.5), [])


class Jobs(Case):
    def setUp(self):
        super().setUp()
        said(self.session, 0.0)
        self.welcome()

    def test_places_that_are_not_real_are_not_offered_for_a_time(self):
        offered = lambda now: [fields["capacity"] for op, fields, _ in said(self.session, now) if op == "ready"]
        self.session.shrink(1, 0.0)
        self.assertEqual(offered(0.0), [1])
        self.session.disconnected(0.5)
        self.assertTrue(self.session.take_reopen(0.5))
        self.assertEqual(offered(0.5), [1])
        self.welcome(0.5)
        for now in (1.0, 2.0, 3.0, 4.0, 4.99):
            tell(self.session, "heartbeat", {}, now=now)
            self.session.advance(now)
            self.assertEqual(offered(now), [])
        self.assertLessEqual(self.session.next_wakeup(), 5.0)
        self.session.advance(5.0)
        self.assertEqual(offered(5.0), [2])
        self.session.shrink(0, 6.0)
        self.assertEqual(offered(6.0), [0])

    def test_more_than_its_capacity_and_strange_services_are_handed_back(self):
        for number in range(3):
            self.job(number)
        self.job(9, service="t")
        classes = [fields["class"] for _, fields, _ in said(self.session, 0.0)]
        self.assertEqual((len(self.effects()), classes), (2, ["released", "released"]))
        self.session.finish((0, 1), Outcome("result", {}), 0.0)
        self.job(10, service="t")
        self.assertEqual([fields.get("class") for _, fields, _ in said(self.session, 0.0)], [None, "permanent"])

    def test_a_job_that_cannot_be_read_fails_at_once_and_takes_no_other_with_it(self):
        maps = [{"job": 1, "attempt": 1, "service": "s"}, {"job": 2, "model": ExtType(5, b"")}, {"job": 3}]
        frame = packb(["LMQ1", "job", maps, [b"a", b"b", b"c"]]).replace(packb(ExtType(5, b"")), b"\xc7\x00\xff")
        self.session.received([frame], 0.0)
        self.assertEqual([effect[:2] for effect in self.effects()], [("start", (1, 1)), ("start", (3, 1))])
        [(op, fields, _)] = said(self.session, 0.0)
        self.assertEqual((op, fields["job"], fields["class"], fields["code"]), ("error", 2, "permanent", "bad_job"))
        self.assertIn("model cannot be read", fields["message"])
        self.assertEqual(self.session.running, 2)
        tell(self.session, "acked", {"jobs": [[2, 1]]})
        tell(self.session, "heartbeat", {}, now=1.0)
        self.assertEqual(said(self.session, 1.0), [("heartbeat", {"jobs": [[1, 1], [3, 1]]}, b"")])

    def test_a_job_of_which_nobody_knows_which_it_is_is_left_out(self):
        for fields in ({"job": "1", "attempt": 1}, {"job": 1}, {"job": 1, "attempt": 1.0}, {"attempt": 1}):
            tell(self.session, "job", fields, b"body")
        self.assertEqual((self.effects(), said(self.session, 0.0), self.session.undecodable), ([], [], 4))

    def test_what_is_for_the_handler_alone_is_not_looked_at(self):
        frame = b"\x93\xa4LMQ1\xa3job" + b"\x84" + packb("job") + packb(1) + packb("attempt") + packb(1) + packb("meta") + b"\xd4\xff\x00" + packb("x-a") + b"\xa1\xff"
        self.session.received([frame], 0.0)
        [(what, lease, fields, _)] = self.effects()
        self.assertEqual((what, lease, sorted(fields)), ("start", (1, 1), ["attempt", "job", "meta", "service", "x-a"]))

    def test_cancel_and_stale_reach_the_handler_and_shut_its_window(self):
        gates = Gate(), Gate()
        for number, gate in enumerate(gates):
            self.job(number, stream=True)
            self.session.watch((number, 1), gate)
        self.effects()
        tell(self.session, "cancel", {"job": 0, "attempt": 1, "reason": "cancelled"})
        tell(self.session, "error", {"code": "stale", "job": 1, "attempt": 1})
        self.assertEqual(self.effects(), [("cancel", (0, 1)), ("cancel", (1, 1))])
        self.assertTrue(gates[0].closed and gates[1].closed)
        self.session.finish((0, 1), Outcome("error", {"class": "permanent"}), 0.0)
        self.session.finish((1, 1), Outcome("result", {}), 0.0)
        self.assertEqual(self.ops(), ["error"])  # the one frees its place, the other is dropped

    def test_a_window_covers_pieces(self):
        gate = Gate()
        self.job(1, stream=True)
        self.session.watch((1, 1), gate)
        for size in (1, 2, 3):
            self.session.piece((1, 1), b"x" * size, 0.0)
        tell(self.session, "window", {"job": 1, "attempt": 1, "seq": 1})
        tell(self.session, "window", {"job": 1, "attempt": 1, "seq": 1})
        self.assertEqual(gate.covered, [(2, 3), (0, 0)])

    def test_outcomes_that_are_never_answered_are_bounded(self):
        for number in range(OUTCOMES_MAX + 5):
            self.job(number)
            self.session.finish((number, 1), Outcome("result", {}), 0.0)
        self.assertEqual((self.session.outcomes_dropped, len(self.session._held)), (5, OUTCOMES_MAX))
        self.assertNotIn((0, 1), self.session._held)


if __name__ == "__main__":
    unittest.main()
