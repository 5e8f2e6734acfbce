# SPDX-License-Identifier: Apache-2.0
import unittest

from support import Inbox, outcomes, said, tell
from lanemq import errors
from lanemq.session import MARK_REF, Piece, Request, Session
from lanemq.types import Submit
from msgpack import packb


def job(id, body=b"", kind="submit", **options):
    more = {"stream": {"stream": True}, "leave": {"reply": "accepted"}}.get(kind, {})
    submit = Submit("s", options, **more)
    return Request(kind, id, submit=submit, body=body, sink=Inbox(), token=id,
                   timeout=None if submit.patience is None else submit.patience + 5)


class Case(unittest.TestCase):
    def setUp(self):
        self.session = Session(0.0, lambda: 0.0)

    def begin(self, *requests, now=0.0):
        for request in requests:
            self.session.begin(request, now)
        return said(self.session, now)

    def reopen(self, now):
        self.session.disconnected(now)
        self.assertTrue(self.session.take_reopen(now))
        return said(self.session, now)


class SeveralEndpoints(Case):
    def setUp(self):
        self.session = Session(0.0, lambda: 0.0, endpoints=2)

    def turns(self, now):
        """Whether the next endpoint's turn has come."""
        self.session.advance(now)
        return self.session.take_reopen(now)

    def test_silence_counts_from_the_end_of_a_look_up(self):
        self.begin(job("a"))
        self.session.found_address(0.9)
        self.assertFalse(self.turns(1.89))
        self.assertTrue(self.turns(1.9))

    def test_the_pause_comes_behind_all_addresses(self):
        self.begin(job("a"))
        self.session.go_round(3)
        for now in (0.1, 0.2):
            self.session.found_nobody(now)
            self.assertTrue(self.turns(now))
        self.session.found_nobody(0.3)
        self.assertFalse(self.turns(0.39))


class Submits(Case):
    def test_jobs_that_wait_together_go_in_one_message(self):
        shared = Submit("s", {"lane": "low"})
        requests = [Request("submit", f"j{n}", submit=shared, body=b"%d" % n, sink=Inbox()) for n in range(3)]
        [(op, maps, bodies)] = self.begin(*requests, job("other", b"x", lane="high"))
        self.assertEqual(op, "submit")
        self.assertEqual(maps, [{"service": "s", "lane": "low", "id": "j0", "ref": 1, "batch": 256}, {"id": "j1", "ref": 2},
                                {"id": "j2", "ref": 3}, {"lane": "high", "id": "other", "ref": 4}])
        self.assertEqual(bodies, [b"0", b"1", b"2", b"x"])

    def test_a_message_keeps_the_bounds_of_a_batch(self):
        messages = self.begin(*(job(f"j{n}", b"x" * 4096) for n in range(40)), job("large", b"x" * 4097))
        self.assertEqual(sum(len(maps) if isinstance(maps, list) else 1 for _, maps, _ in messages), 41)
        self.assertTrue(all(sum(map(len, bodies)) <= 64 * 1024 for _, maps, bodies in messages if isinstance(maps, list)))
        self.assertEqual(messages[-1][1]["id"], "large")
        messages = self.begin(*(job(f"{'i' * 100}{n}", b"") for n in range(300)))
        for _, maps, _ in messages:
            self.assertLessEqual(len(maps), 256)
            self.assertLess(sum(len(one["id"]) + 20 for one in maps), 16384)
        self.assertEqual(sum(len(maps) for _, maps, _ in messages), 300)

    def test_a_message_keeps_the_entries_of_a_map(self):
        wide = [{f"x-{turn}-{n}": n for n in range(40)} for turn in range(2)]
        messages = self.begin(*(job(f"j{n}", extra=wide[n % 2]) for n in range(4)))
        self.assertEqual([fields["id"] for _, fields, _ in messages], ["j0", "j1", "j2", "j3"])
        [(_, maps, _)] = self.begin(*(job(f"k{n}", extra=wide[0]) for n in range(4)))
        self.assertEqual([len(one) for one in maps], [43, 2, 2, 2])

    def test_an_answer_ends_its_request_once(self):
        self.begin(job("a"))
        tell(self.session, "result", {"ref": 1, "queued_ms": 1500}, b"yes")
        tell(self.session, "result", {"ref": 1}, b"again")
        [answer] = outcomes(self.session)
        self.assertEqual((answer.id, answer.body, answer.queued), ("a", b"yes", 1.5))
        self.assertEqual(self.session.counters.dropped_answers, 1)
        self.assertEqual((self.session.freed, self.session.pending), (1, 0))

    def test_an_error_is_of_the_class_of_its_code(self):
        for code, kind in (("conflict", errors.ConflictError), ("newer_than_this", errors.InternalError)):
            self.begin(job(code))
            ref = max(self.session._pending)
            tell(self.session, "error", {"ref": ref, "code": code, "message": "m", "retry_after_ms": 250, "upstream_status": 418}, b"why")
            [error] = outcomes(self.session)
            self.assertEqual((type(error), error.code, error.retry_after, error.upstream_status, error.body, error.id),
                             (kind, code, 0.25, 418, b"why", code))

    def test_a_deadline_without_an_answer_is_local(self):
        self.begin(job("a", timeout=1))
        self.session.advance(5.9)
        self.assertEqual(outcomes(self.session), [])
        self.session.advance(6.1)
        [error] = outcomes(self.session)
        self.assertIsInstance(error, TimeoutError)
        self.assertTrue(error.local)

    def test_nobody_waits_for_a_broker_that_is_away_or_silent(self):
        self.begin(job("a"))
        self.assertFalse(self.session.answers(0.0))  # not connected
        self.session.connected()
        self.assertTrue(self.session.answers(1.4))
        self.session.abandon(1, 1.4)
        self.assertFalse(self.session.answers(1.5))  # silence counts on, for the cancel
        tell(self.session, "pong", {"ref": 0}, now=2.0)
        self.assertTrue(self.session.answers(2.0))
        self.session.disconnected(2.0)
        self.assertFalse(self.session.answers(2.0))

    def test_who_is_abandoned_is_cancelled_if_it_was_sent(self):
        self.begin(job("sent"))
        self.session.begin(job("unsent"), 0.0)
        watched = Inbox()
        self.assertTrue(self.session.abandon(1, 0.0, watched))
        self.assertFalse(self.session.abandon(2, 0.0, watched))
        self.assertEqual(said(self.session, 0.0), [("cancel", {"id": "sent", "ref": 3}, b"")])
        tell(self.session, "error", {"ref": 1, "code": "cancelled"})
        tell(self.session, "status", {"ref": 3, "id": "sent", "state": "cancelled"})
        [status] = outcomes(self.session)
        self.assertEqual(status.state, "cancelled")
        self.assertEqual(self.session.freed, 2)

    def test_cancels_go_together(self):
        self.begin(*(job(f"j{n}") for n in range(100)))
        for ref in range(1, 101):
            self.session.abandon(ref, 0.0)
        messages = said(self.session, 0.0)
        self.assertEqual([len(maps) for _, maps, _ in messages], [64, 36])
        self.assertEqual([one["id"] for _, maps, _ in messages for one in maps], [f"j{n}" for n in range(100)])


class Refused(Case):
    """A broker that cannot read a message says so, and mostly does not know of which request it is."""

    def refuse(self, code="bad_request", **fields):
        tell(self.session, "error", {"code": code, "message": "broken", **fields})

    def mark(self):
        tell(self.session, "pong", {"ref": MARK_REF})

    def test_what_names_a_request_comes_first_in_its_message(self):
        self.session.begin(job("a", extra={"x-a": 1}), 0.0)
        [frame] = self.session.next_message(0.0)
        self.assertLess(frame.index(b"\xa3ref"), frame.index(b"\xa7service"))
        self.assertLess(frame.index(b"\xa2id"), frame.index(b"\xa7service"))

    def test_those_of_a_batch_that_was_refused_go_one_by_one_and_the_broken_one_fails_alone(self):
        for code in ("bad_request", "too_large"):
            self.setUp()
            [(_, maps, _)] = self.begin(*(job(name) for name in "abcd"))
            self.assertEqual(len(maps), 4)
            self.session.abandon(4, 0.0)
            self.refuse(code)
            self.assertEqual(outcomes(self.session), [])
            sent = [(op, fields.get("id"), fields["ref"]) for op, fields, _ in said(self.session, 0.0)]
            self.assertEqual(sent, [("ping", None, MARK_REF), ("submit", "a", 1), ("ping", None, MARK_REF), ("submit", "b", 2),
                                    ("ping", None, MARK_REF), ("submit", "c", 3), ("ping", None, MARK_REF), ("cancel", "d", 5)])
            tell(self.session, "status", {"ref": 5, "state": "unknown"})
            self.mark()
            self.mark()
            self.refuse(code)  # between the marks of a and b
            [error] = outcomes(self.session)
            self.assertEqual((error.code, error.id, error.message, error.local), (code, "b", "broken", False))
            self.mark()
            self.mark()
            for ref in (1, 3):
                tell(self.session, "result", {"ref": ref}, b"x")
            self.assertEqual([answer.id for answer in outcomes(self.session)], ["a", "c"])
            self.assertEqual(self.session.pending, 0)

    def test_a_second_refusal_of_a_batch_that_was_under_way_blames_nobody_of_the_first(self):
        self.begin(job("a"), job("b"))
        self.begin(job("c"), job("d"))
        self.refuse()
        self.refuse()  # of the second batch, before any mark is answered
        self.assertEqual([fields.get("id") for op, fields, _ in said(self.session, 0.0) if op == "submit"], ["a", "b", "c", "d"])
        for _ in range(2):
            self.mark()
        self.refuse()
        self.assertEqual([error.id for error in outcomes(self.session)], ["b"])

    def test_what_is_new_meanwhile_travels_together_behind_them(self):
        self.begin(job("a"), job("b"))
        self.refuse()
        *ones, (_, maps, _) = self.begin(job("c"), job("d"))
        self.assertEqual([fields["id"] for op, fields, _ in ones if op == "submit"], ["a", "b"])
        self.assertEqual([one["id"] for one in maps], ["c", "d"])

    def test_what_went_alone_is_said_again_and_what_is_named_is_not(self):
        self.begin(job("a"))
        self.refuse()
        self.assertEqual([(op, fields.get("id")) for op, fields, _ in said(self.session, 0.0)], [("ping", None), ("submit", "a"), ("ping", None)])
        self.mark()
        self.refuse()
        self.mark()
        self.assertEqual([error.id for error in outcomes(self.session)], ["a"])
        self.begin(job("b"), job("c"))
        self.refuse(ref=2)
        self.assertEqual([error.id for error in outcomes(self.session)], ["b"])
        self.refuse("forbidden")
        self.assertEqual(said(self.session, 0.0), [])

    def test_what_the_broker_has_read_is_not_said_again(self):
        self.begin(job("a"), job("b"))
        self.begin(job("c"), job("d"))
        self.begin(job("e"), job("f"))
        tell(self.session, "result", {"ref": 4}, b"d")
        self.refuse()
        self.assertEqual([fields["id"] for op, fields, _ in said(self.session, 0.0) if op == "submit"], ["e", "f"])
        for _ in range(3):
            self.mark()
        self.refuse()  # of nothing that is known
        self.assertEqual(said(self.session, 0.0), [])

    def test_an_answer_to_a_job_that_was_said_twice_tells_of_the_first_message_alone(self):
        self.begin(job("a"))
        self.session._to_send.append(1)  # as a probe does
        self.begin(job("b"))
        tell(self.session, "result", {"ref": 1}, b"a")
        self.refuse()
        self.assertEqual([fields["id"] for op, fields, _ in said(self.session, 0.0) if op == "submit"], ["b"])

    def test_cancels_of_a_batch_go_one_by_one_too(self):
        self.begin(job("a"))
        tell(self.session, "result", {"ref": 1})
        self.begin(*(Request("cancel", name, sink=Inbox(), timeout=10.0) for name in "bc"))
        self.refuse()
        self.assertEqual([(op, fields.get("id")) for op, fields, _ in said(self.session, 0.0) if op != "ping"], [("cancel", "b"), ("cancel", "c")])

    def test_messages_of_another_session_do_not_count(self):
        other, moved = Session(0.0, lambda: 0.0), job("m")
        for name in "abc":
            other.begin(job(name), 0.0)
            said(other, 0.0)
        other.begin(moved, 0.0)
        said(other, 0.0)
        del other._pending[moved.ref]
        self.session.adopt(moved, 0.0)
        said(self.session, 0.0)
        self.begin(job("a"))
        tell(self.session, "result", {"ref": moved.ref}, b"m")
        self.refuse()
        self.assertEqual([fields["id"] for op, fields, _ in said(self.session, 0.0) if op == "submit"], ["a"])

    def test_a_new_connection_forgets_who_was_suspected(self):
        self.begin(job("a"), job("b"))
        self.refuse()
        said(self.session, 0.0)  # the first mark, whose answer nobody will hear
        [(_, maps, _)] = self.reopen(1.0)
        self.assertEqual([one["id"] for one in maps], ["a", "b"])
        self.refuse()  # of this message, and of nothing that was said before a mark
        self.assertEqual([fields["id"] for op, fields, _ in said(self.session, 0.0) if op == "submit"], ["a", "b"])


class Connections(Case):
    def test_a_new_connection_sends_all_that_is_open_under_the_same_ids(self):
        [first] = self.begin(job("a", b"x"), job("b", b"y"), Request("fetch", "c", sink=Inbox(), timeout=None))[:1]
        tell(self.session, "result", {"ref": 1})
        again = self.reopen(1.0)
        self.assertEqual([(op, fields["id"], body) for op, fields, body in again], [("submit", "b", b"y"), ("fetch", "c", b"")])
        self.assertEqual(again[0][1]["batch"], 256)  # is said on each connection
        self.assertEqual(first[0], "submit")

    def test_nonsense_ends_nothing(self):
        self.begin(job("a"))
        self.session.received([b"\xff"], 0.0)
        tell(self.session, "result", {"ref": [1]})
        tell(self.session, "chunk", {"ref": 1, "seq": "x"})
        tell(self.session, "status", {"ref": 1})
        self.assertEqual((outcomes(self.session), self.session.pending), ([], 1))

    def test_what_cannot_be_read_of_an_answer_fails_its_request_alone(self):
        self.begin(job("a"), job("b"), job("c"), job("s", kind="stream"))
        self.session.received([packb(["LMQ1", "result", [{"ref": 1}, {"ref": 2}, {"ref": 3}], [b"x", "no bin", b"z"]])], 0.0)
        tell(self.session, "chunk", {"ref": 4, "seq": "x"})
        answer, error, other, broken = outcomes(self.session)
        self.assertEqual((answer.body, other.body), (b"x", b"z"))
        self.assertEqual((type(error), error.local, error.id, type(broken), broken.id), (errors.InternalError, True, "b", errors.InternalError, "s"))
        self.assertIn("seq is no whole number", broken.message)

    def test_an_optional_field_that_cannot_be_read_takes_no_answer_away(self):
        self.begin(job("a"), job("b"))
        self.session.received([packb(["LMQ1", "result", [{"ref": 1, "usage": {5: 1}}, {"ref": 2}], [b"x", b"y"]])], 0.0)
        answer, other = outcomes(self.session)
        self.assertEqual((answer.body, answer.usage, other.body, other.usage), (b"x", {}, b"y", {}))

    def test_an_optional_field_of_another_type_counts_as_absent(self):
        odd = {"queued_ms": "5", "ran_ms": -1, "attempts": 1.5, "usage": 5, "lane": 5, "chunks": "x", "message": 5, "limiter": [1],
               "upstream_status": 2**70 - 1 & 2**63 - 1, "retry_after_ms": "soon", "x-a": 1}
        self.begin(job("a"), job("b"), Request("status", "c", sink=Inbox()), Request("ping", sink=Inbox()), job("l", kind="leave"))
        tell(self.session, "result", {**odd, "ref": 1})
        tell(self.session, "error", {**odd, "ref": 2, "code": "conflict"})
        tell(self.session, "status", {**odd, "ref": 3, "error": 5, "eta_ms": "x", "pct": "y"})
        tell(self.session, "pong", {**odd, "ref": 4, "shards": [5, {"name": 5}, {"name": "s", "endpoints": 5}], "now_ms": "x"})
        tell(self.session, "accepted", {**odd, "ref": 5, "position": "x", "ignored": 5, "durable": 5})
        answer, error, status, pong, accepted = outcomes(self.session)
        self.assertEqual((answer.queued, answer.ran, answer.attempts, answer.usage, answer.lane, answer.chunks), (0, 0, 1, {}, None, 0))
        self.assertEqual((type(error), error.message, error.limiter, error.upstream_status, error.retry_after), (errors.ConflictError, "", None, None, None))
        self.assertEqual((status.state, status.error, status.eta, status.pct), ("unknown", {}, None, None))
        self.assertEqual((pong.shards, pong.broker_time), ({"s": ()}, 0))
        self.assertEqual((accepted.position, accepted.ignored, accepted.durable), (0, (), False))

    def test_an_upstream_s_status_is_one_of_http(self):
        for said, status in ((99, None), (100, 100), (418, 418), (599, 599), (600, None), ("teapot", None), (418.0, None)):
            self.begin(job(f"{said}"))
            tell(self.session, "error", {"ref": max(self.session._pending), "code": "upstream_rejected", "upstream_status": said})
            [error] = outcomes(self.session)
            self.assertEqual(error.upstream_status, status)

    def test_timers_of_requests_that_ended_do_not_pile_up(self):
        for number in range(5000):
            self.begin(job(f"j{number}", timeout=3600))
            tell(self.session, "result", {"ref": number + 1})
        self.assertLess(len(self.session._timers), 1100)


class Fetches(Case):
    def test_a_fetch_goes_on_until_its_wait_is_over(self):
        [(_, fields, _)] = self.begin(Request("fetch", "a", sink=Inbox(), timeout=90.0))
        self.assertEqual(fields["wait_ms"], 60_000)
        tell(self.session, "status", {"ref": 1, "id": "a", "state": "running"}, now=60.0)
        [(_, fields, _)] = said(self.session, 60.0)
        self.assertEqual(fields["wait_ms"], 30_000)
        tell(self.session, "status", {"ref": 1, "id": "a", "state": "running"}, now=90.0)
        [error] = outcomes(self.session)
        self.assertEqual((type(error), error.state), (errors.NotOverError, "running"))


class Streams(Case):
    def chunk(self, seq, now=0.0, body=b"x"):
        tell(self.session, "chunk", {"ref": 1, "seq": seq}, body, now)


class Watches(Case):
    def watch(self, **filter):
        self.request = Request("watch", sink=Inbox(), token="w", filter=filter)
        return self.begin(self.request)

    def hear(self, first, count=1, **more):
        for seq in range(first, first + count):
            tell(self.session, "event", {"ref": 1, "seq": seq, "what": "ended", "id": f"j{seq}", "state": "succeeded", "at_ms": 1500, **more})

    def came(self):
        """The events that wait for the reader."""
        return outcomes(self.session)

    def shown(self):
        return [(change.event.what, change.event.seq, change.event.gap, change.event.left_out) for change in self.came()]

    def test_a_watch_begins_says_what_comes_and_is_renewed(self):
        self.assertEqual(self.watch(client="me", lane="low"), [("watch", {"client": "me", "lane": "low", "ref": 1, "batch": 256}, b"")])
        self.hear(0)
        self.assertEqual(self.came(), [])  # nothing comes before `watching`
        tell(self.session, "watching", {"ref": 1, "seq": 0})
        self.hear(0, 2)
        first, *changes = self.came()
        self.assertEqual((first.event.what, first.event.gap), ("watching", False))
        self.assertEqual([(each.event.id, each.event.seq, each.event.at) for each in changes], [("j0", 0, 1.5), ("j1", 1, 1.5)])
        renewed = []
        for now in range(1, 25):
            tell(self.session, "pong", {"ref": 0}, now=now)  # the broker is there
            self.session.advance(now)
            renewed += [(now, fields) for op, fields, _ in said(self.session, now) if op == "watch"]
            tell(self.session, "watching", {"ref": 1, "seq": 2}, now=now)
        self.assertEqual(renewed, [(now, {"client": "me", "lane": "low", "ref": 1}) for now in (10, 20)])
        self.assertEqual(self.came(), [])

    def test_what_the_reader_took_is_confirmed_and_no_more(self):
        self.watch()
        tell(self.session, "watching", {"ref": 1, "seq": 0})
        self.hear(0, 600)
        changes = self.came()
        self.assertEqual(said(self.session, 0), [])
        for change in changes[:256]:  # `watching` and 255 events
            self.session.took(change)
        self.assertEqual(said(self.session, 0), [])
        self.session.took(changes[256])
        self.assertEqual(said(self.session, 0), [("seen", {"seq": 255, "ref": 1}, b"")])

    def test_a_reader_that_takes_nothing_has_a_bound(self):
        self.watch()
        for life in range(8):
            tell(self.session, "watching", {"ref": 1, "seq": 0})
            self.hear(0, 1024)
            self.reopen(life + 1.0)
        changes = self.came()
        self.assertEqual(len(changes), 4096)
        for change in changes:
            self.session.took(change)
        tell(self.session, "watching", {"ref": 1, "seq": 0})
        [change] = self.came()
        self.assertEqual((change.event.what, change.event.gap), ("watching", True))
        self.assertEqual(change.event.left_out, 8 * 1024 - (4096 - 4))


if __name__ == "__main__":
    unittest.main()
