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

    def test_the_next_one_s_turn_comes_at_once_where_nobody_listens_and_after_two_seconds_without_a_word(self):
        self.session.found_nobody(0.0)
        self.assertTrue(self.turns(0.0))
        self.assertEqual(self.ops(), ["ready"])
        self.assertFalse(self.turns(1.99))
        self.assertTrue(self.turns(2.0))
        self.welcome(2.5)
        self.session.connected()
        self.session.found_nobody(2.5)  # said of an earlier one
        self.assertFalse(self.turns(5.49))
        self.assertTrue(self.turns(5.5))

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

    def test_a_new_connection_names_the_session_and_all_it_holds(self):
        said(self.session, 0.0)
        self.welcome()
        self.job(1, stream=True)
        self.job(2)
        self.session.watch((1, 1), Gate())
        self.session.piece((1, 1), b"piece", 0.0)
        self.session.finish((2, 1), Outcome("result", {}, b"done"), 0.0)
        said(self.session, 0.0)
        self.session.disconnected(1.0)
        self.assertTrue(self.session.take_reopen(1.0))
        ready, heartbeat, chunk, result = said(self.session, 1.0)
        self.assertEqual(ready[1]["session"], "one")
        self.assertEqual(heartbeat[:2], ("heartbeat", {"jobs": [[1, 1], [2, 1]]}))
        self.assertEqual(chunk, ("chunk", {"job": 1, "attempt": 1, "seq": 0}, b"piece"))
        self.assertEqual(result, ("result", {"job": 2, "attempt": 1}, b"done"))

    def test_a_try_of_libzmq_that_comes_through_is_the_connection_that_was_due(self):
        self.assertEqual(self.ops(0.0), ["ready"])  # it waits in the socket
        for lost in range(3):
            self.session.disconnected(float(lost))  # before any handshake
            self.session.take_reopen(float(lost))
        self.session.connected()
        self.assertFalse(self.session.take_reopen(60.0))  # else the broker would have two workers
        self.session.disconnected(3.0)
        self.session.connected()
        self.assertTrue(self.session.take_reopen(60.0))  # one that was there and is lost is replaced

    def test_unknown_session_is_greeted_once_on_the_same_connection(self):
        said(self.session, 0.0)
        self.welcome()
        self.job(1)
        for _ in range(3):
            tell(self.session, "error", {"code": "unknown_session"}, now=1.0)
        self.assertEqual(self.ops(1.0), ["ready", "heartbeat"])
        self.assertFalse(self.session.take_reopen(1.0))

    def test_an_outcome_during_a_greeting_is_said_behind_it(self):
        said(self.session, 0.0)
        self.welcome()
        self.job(1)
        self.session.disconnected(1.0)
        self.session.take_reopen(1.0)
        self.assertEqual(self.ops(1.0), ["ready", "heartbeat"])
        self.session.finish((1, 1), Outcome("result", {}, b"x"), 1.0)
        self.assertEqual(self.ops(1.0), ["result"])

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

    def test_the_last_word_is_said_a_few_times_a_second(self):
        self.session.progress((1, 1), {"pct": 10, "note": "reads"}, 0.0)
        self.assertEqual(self.words(0.0), [{"job": 1, "attempt": 1, "pct": 10, "note": "reads"}])
        self.session.progress((1, 1), {"pct": 11}, 0.1)
        self.session.progress((1, 1), {"pct": 12}, 0.2)
        self.assertEqual(self.session.next_wakeup(), 0.25)
        self.assertEqual(self.words(0.24), [])
        self.assertEqual(self.words(0.25), [{"job": 1, "attempt": 1, "pct": 12}])
        self.assertEqual(self.words(0.9), [])

    def test_it_is_said_again_behind_the_inventory(self):
        self.session.progress((1, 1), {"pct": 10}, 0.0)
        self.session.progress((1, 1), {"pct": 11}, 0.1)
        said(self.session, 0.1)
        tell(self.session, "error", {"code": "unknown_session"}, now=0.2)
        self.assertEqual([(op, fields.get("pct")) for op, fields, _ in said(self.session, 0.2)],
                         [("ready", None), ("heartbeat", None), ("progress", 11)])

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

    def test_an_outcome_is_kept_until_it_is_answered(self):
        self.job(1)
        [(what, lease, fields, body)] = self.effects()
        self.assertEqual((what, lease, fields["service"], body), ("start", (1, 1), "s", b"body"))
        self.session.finish((1, 1), Outcome("result", {"usage": {"requests": 1}}, b"x"), 0.0)
        self.assertEqual(said(self.session, 0.0), [("result", {"job": 1, "attempt": 1, "usage": {"requests": 1}}, b"x")])
        tell(self.session, "heartbeat", {}, now=1.0)
        self.assertEqual(said(self.session, 1.0), [("heartbeat", {"jobs": [[1, 1]]}, b"")])
        tell(self.session, "acked", {"jobs": [[1, 1], [7, 7]]}, now=1.0)
        tell(self.session, "heartbeat", {}, now=2.0)
        self.assertEqual(said(self.session, 2.0), [("heartbeat", {}, b"")])

    def test_a_lease_is_started_once_and_its_lost_outcome_is_said_again(self):
        self.job(1)
        self.job(1)
        self.assertEqual(len(self.effects()), 1)
        self.session.finish((1, 1), Outcome("result", {}), 0.0)
        self.assertEqual(self.ops(), ["result"])
        self.job(1)
        self.assertEqual((self.ops(), self.effects()), (["result"], []))

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

    def test_an_outcome_that_the_broker_cannot_read_is_said_otherwise_once(self):
        self.welcome(batch=16)
        for number in range(2):
            self.job(number)
        for number in range(2):
            self.session.finish((number, 1), Outcome("result", {"usage": {"requests": number}}, b"body"), 0.0)
        said(self.session, 0.0)
        tell(self.session, "error", {"code": "bad_request", "message": "item 1 of the batch: no", "job": 1, "attempt": 1})
        [(op, fields, body)] = said(self.session, 0.0)
        self.assertEqual((op, fields["job"], fields["class"], fields["code"], body), ("error", 1, "permanent", "bad_outcome", b""))
        self.assertIn("item 1 of the batch: no", fields["message"])
        tell(self.session, "error", {"code": "bad_request", "message": "again", "job": 1, "attempt": 1})
        self.assertEqual(said(self.session, 0.0), [])
        tell(self.session, "heartbeat", {}, now=1.0)
        self.assertEqual(said(self.session, 1.0), [("heartbeat", {"jobs": [[0, 1]]}, b"")])

    def test_a_piece_over_the_broker_s_limit_ends_its_job(self):
        gate = Gate()
        self.job(1, stream=True)
        self.session.watch((1, 1), gate)
        self.session.piece((1, 1), b"x" * 1001, 0.0)
        [(op, fields, _)] = said(self.session, 0.0)
        self.assertEqual((op, fields["code"], gate.closed), ("error", "too_large", True))
        self.assertEqual([effect[0] for effect in self.effects()], ["start", "cancel"])

    def test_a_newer_attempt_ends_the_older_one(self):
        self.job(1)
        self.job(1, attempt=2)
        self.assertEqual([effect[:2] for effect in self.effects()], [("start", (1, 1)), ("cancel", (1, 1)), ("start", (1, 2))])
        self.session.finish((1, 1), Outcome("result", {}), 0.0)  # nobody wants it
        self.assertEqual(self.ops(), [])
        self.assertEqual(self.session.running, 1)

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

    def test_an_answer_over_the_broker_s_limit_is_a_failure_that_says_so(self):
        self.job(1)
        self.session.finish((1, 1), Outcome("result", {}, b"x" * 1001), 0.0)
        [(op, fields, _)] = said(self.session, 0.0)
        self.assertEqual((op, fields["class"], fields["code"]), ("error", "permanent", "too_large"))
        self.assertIn("1001 bytes, over body_bytes_max 1000", fields["message"])

    def test_outcomes_that_are_never_answered_are_bounded(self):
        for number in range(OUTCOMES_MAX + 5):
            self.job(number)
            self.session.finish((number, 1), Outcome("result", {}), 0.0)
        self.assertEqual((self.session.outcomes_dropped, len(self.session._held)), (5, OUTCOMES_MAX))
        self.assertNotIn((0, 1), self.session._held)

    def test_outcomes_of_a_turn_go_together_where_the_broker_takes_batches(self):
        self.welcome(batch=16)
        for number in range(2):
            self.job(number)
        for number in range(2):
            self.session.finish((number, 1), Outcome("result", {"usage": {"requests": number}}, b"%d" % number), 0.0)
        [(op, maps, bodies)] = said(self.session, 0.0)
        self.assertEqual((op, [one["job"] for one in maps], bodies), ("result", [0, 1], [b"0", b"1"]))
        self.assertEqual(maps[1]["usage"], {"requests": 1})


class Time(Case):
    def setUp(self):
        super().setUp()
        said(self.session, 0.0)
        self.welcome()

    def test_it_answers_heartbeats_and_says_its_own_where_none_comes(self):
        tell(self.session, "heartbeat", {}, now=0.9)
        self.assertEqual(self.ops(0.9), ["heartbeat"])
        self.session.advance(1.5)
        self.assertEqual(self.ops(1.5), [])
        self.session.advance(2.2)
        self.assertEqual(self.ops(2.2), ["heartbeat"])

    def test_a_silent_broker_is_connected_to_anew(self):
        self.session.advance(2.9)
        self.assertFalse(self.session.take_reopen(2.9))
        self.session.advance(3.0)
        self.assertTrue(self.session.take_reopen(3.0))


class Leaving(Case):
    def setUp(self):
        super().setUp()
        said(self.session, 0.0)
        self.welcome()

    def test_a_drain_finishes_what_runs_takes_no_more_and_says_bye(self):
        for number in range(2):
            self.job(number)
        self.effects()
        self.session.drain(10.0, 0.0)
        self.assertEqual([(op, fields["capacity"]) for op, fields, _ in said(self.session, 0.0)], [("ready", 2)])
        self.session.finish((0, 1), Outcome("result", {}), 1.0)
        self.job(5, now=1.0)
        ready, result, released = said(self.session, 1.0)
        self.assertEqual((ready[1]["capacity"], result[0], released[1]["class"]), (1, "result", "released"))
        self.session.finish((1, 1), Outcome("result", {}), 2.0)
        self.assertEqual(self.ops(2.0), ["result", "bye"])
        self.assertEqual(self.effects(), [])
        tell(self.session, "acked", {"jobs": [[0, 1], [1, 1], [5, 1]]}, now=2.1)
        self.assertEqual(self.effects(), [("left",)])

    def test_a_drain_of_an_idle_worker_is_over_at_once(self):
        self.session.drain(10.0, 0.0)
        self.assertEqual((self.ops(), self.effects()), (["bye"], [("left",)]))

    def test_a_drain_ends_at_its_deadline(self):
        self.job(1)
        self.effects()
        self.session.drain(10.0, 0.0)
        said(self.session, 0.0)
        tell(self.session, "heartbeat", {}, now=9.0)
        self.session.advance(10.0)
        self.assertEqual(self.effects(), [("cancel", (1, 1)), ("left",)])
        self.assertIn("bye", self.ops(10.0))

    def test_a_goodbye_waits_for_answers_no_longer_than_an_interval(self):
        self.job(1)
        self.session.finish((1, 1), Outcome("result", {}), 0.0)
        self.effects()
        self.session.drain(10.0, 0.0)
        self.session.advance(0.9)
        self.assertEqual(self.effects(), [])
        self.session.advance(1.0)
        self.assertEqual(self.effects(), [("left",)])

    def test_an_operator_s_drain_is_taken_back_by_welcome(self):
        tell(self.session, "drain", {})
        self.job(1)
        self.assertEqual([fields["class"] for _, fields, _ in said(self.session, 0.0)], ["released"])
        self.welcome()
        self.job(2)
        self.assertEqual([effect[0] for effect in self.effects()], ["start"])


if __name__ == "__main__":
    unittest.main()
