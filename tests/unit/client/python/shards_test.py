# SPDX-License-Identifier: Apache-2.0
import itertools
import unittest
from collections import deque

from support import Inbox, outcomes, said, tell
from lanemq import errors
from lanemq.session import Request, Session
from lanemq.shards import MOVES_MAX, Shards
from lanemq.types import Submit


class Case(unittest.TestCase):
    """Sessions whose messages the test carries: `at` has them by their endpoint."""

    def setUp(self):
        self.refs, self.inbox, self.at = itertools.count(1), deque(), {}
        self.home = self.connect(["home"])
        self.shards = Shards(self.home, self.connect, self.inbox)

    def connect(self, endpoints):
        if not endpoints:
            raise ValueError("no endpoint")
        session = self.at[endpoints[0]] = Session(0.0, lambda: 0.0, refs=self.refs)
        return session

    def turn(self, now=0.0):
        """All that can be done without a word from a broker."""
        self.shards.settle(now)
        for session in self.shards.sessions():
            events, session.events = session.events, []
            for event in events:
                if event[0] is self.shards._later:
                    event[0].put(*event[1:])
                else:
                    session.events.append(event)
        while self.inbox:
            act, value = self.inbox.popleft()
            act(value, now)

    def submit(self, id, service="s", **options):
        self.shards.begin(Request("submit", id, submit=Submit(service, options), sink=Inbox(), token=id), 0.0)

    def status(self, id):
        self.shards.begin(Request("status", id, sink=Inbox(), token=id, timeout=10.0), 0.0)

    def asked(self, session, now=0.0):
        return [(op, fields.get("id"), fields["ref"]) for op, maps, _ in said(session, now)
                for fields in (maps if isinstance(maps, list) else [maps])]

    def send_on(self, session, shard, endpoint):
        for _, id, ref in self.asked(session):
            tell(session, "error", {"ref": ref, "id": id, "code": "not_owner", "shard": shard, "endpoints": [endpoint]})
        self.turn()

    def freed(self):
        return sum(session.freed for session in self.shards.sessions())


class Jobs(Case):
    def test_a_job_that_is_sent_on_goes_there_and_so_do_the_next_ones_of_its_kind(self):
        self.submit("a")
        self.send_on(self.home, "b", "there")
        self.submit("second")
        self.submit("others", "other")
        self.submit("clients", client="c")
        self.assertEqual([id for _, id, _ in self.asked(self.at["there"])], ["a", "second"])
        self.assertEqual([id for _, id, _ in self.asked(self.home)], ["others", "clients"])
        self.assertEqual(self.freed(), 0)

    def test_rules_that_point_in_a_circle_are_followed_a_few_times(self):
        self.submit("a")
        here = self.home
        for name in itertools.islice(itertools.cycle("bc"), MOVES_MAX):
            self.send_on(here, name, name)
            here = self.at[name]
        self.assertEqual(outcomes(self.home), [])
        self.send_on(here, "b", "b")
        [error] = outcomes(self.home)
        self.assertIsInstance(error, errors.NotOwnerError)
        self.assertEqual(self.freed(), 1)

    def test_a_shard_without_an_endpoint_cannot_be_reached(self):
        self.submit("a")
        [(_, _, ref)] = self.asked(self.home)
        tell(self.home, "error", {"ref": ref, "id": "a", "code": "not_owner", "shard": "b"})
        self.turn()
        [error] = outcomes(self.home)
        self.assertEqual((type(error), "'b' cannot be reached" in str(error)), (errors.UnavailableError, True))

    def test_what_was_learned_is_forgotten_when_the_home_broker_was_lost(self):
        self.submit("a")
        self.send_on(self.home, "b", "there")
        self.home.disconnected(1.0)
        self.home.take_reopen(1.0)
        self.turn(1.0)
        self.submit("second")
        self.assertEqual([id for _, id, _ in self.asked(self.home)], [], "while it is away what was learned counts")
        tell(self.home, "pong", {"ref": 0}, now=1.0)
        self.turn(1.0)
        self.submit("third")
        self.assertEqual([id for _, id, _ in self.asked(self.home)], ["third"])


class Questions(Case):
    SHARDS = [{"name": "a", "endpoints": ["home"]}, {"name": "b", "endpoints": ["there"]}, {"name": "c", "endpoints": ["far"]}]

    def seek(self, **more):
        """A question that the home broker does not know the job of, until all shards are asked."""
        self.status("j")
        [(_, _, ref)] = self.asked(self.home)
        tell(self.home, "status", {"ref": ref, "id": "j", "state": "unknown"})
        self.turn()
        [(op, _, ref)] = self.asked(self.home)
        self.assertEqual(op, "ping")
        tell(self.home, "pong", {"ref": ref, **more})
        self.turn()

    def answer(self, endpoint, state):
        session = self.home if endpoint == "home" else self.at[endpoint]
        for op, id, ref in self.asked(session):
            tell(session, "status", {"ref": ref, "id": id, "state": state})
        self.turn()

    def test_the_shard_that_knows_the_job_answers_and_is_remembered(self):
        self.seek(shard="a", shards=self.SHARDS)
        self.answer("home", "unknown")
        self.answer("there", "running")  # to the search
        self.answer("there", "running")  # to the caller
        [status] = outcomes(self.at["there"])
        self.assertEqual(status.state, "running")
        self.status("j")
        self.assertEqual([id for _, id, _ in self.asked(self.at["there"])], ["j"])
        self.assertEqual(self.freed(), 0)  # one has ended, and the search at `far` is open

    def test_what_nobody_knows_is_unknown(self):
        self.seek(shard="a", shards=self.SHARDS)
        for endpoint in ("home", "there", "far"):
            self.answer(endpoint, "unknown")
        self.assertEqual([status.state for status in outcomes(self.home)], ["unknown"])
        self.assertEqual(self.freed(), 1)

    def test_known_shards_are_asked_also_while_the_home_broker_is_away(self):
        self.submit("a")
        self.send_on(self.home, "b", "there")
        self.asked(self.at["there"])
        self.status("j")
        self.answer("there", "running")  # to the search, which the home broker does not answer
        self.answer("there", "running")
        self.assertEqual([status.state for status in outcomes(self.at["there"])], ["running"])
        self.status("a")  # it is remembered
        self.assertEqual([id for _, id, _ in self.asked(self.at["there"])], ["a"])

    def test_a_shard_that_is_silent_is_named(self):
        self.seek(shard="a", shards=self.SHARDS)
        for endpoint in ("home", "there"):
            self.answer(endpoint, "unknown")
        self.at["far"].advance(5.0)
        self.turn(5.0)
        [error] = outcomes(self.home)
        self.assertEqual((type(error), "from shard 'c' within" in str(error)), (errors.DeadlineError, True))

    def test_without_shards_the_first_answer_stands(self):
        self.seek()
        self.assertEqual([status.state for status in outcomes(self.home)], ["unknown"])
        self.assertEqual(self.freed(), 1)

    def test_closing_ends_what_is_sought(self):
        self.seek(shard="a", shards=self.SHARDS)
        self.shards.abandon_all(0.0, lambda id: errors.CancelledError("closed", id=id))
        self.assertIn(errors.CancelledError, [type(error) for error in outcomes(self.home)])


if __name__ == "__main__":
    unittest.main()
