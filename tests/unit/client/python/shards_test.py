# SPDX-License-Identifier: Apache-2.0
import itertools
import unittest
from collections import deque

from support import Inbox, outcomes, said, tell
from lanemq import errors
from lanemq.session import Request, Session
from lanemq.shards import MOVES_MAX, Shards
from lanemq.types import Submit


class Place:
    """Where the home session is: moved by the test."""

    def __init__(self, endpoints):
        self.endpoints, self.endpoint = tuple(endpoints), endpoints[0]

    def go_round(self, endpoints):
        self.endpoints = tuple(endpoints)


class Case(unittest.TestCase):
    """Sessions whose messages the test carries: `at` has them by their endpoint."""

    GIVEN = ["home"]

    def setUp(self):
        self.refs, self.inbox, self.at = itertools.count(1), deque(), {}
        self.home = self.connect(["home"])
        self.place = Place(self.GIVEN)
        self.shards = Shards(self.home, self.connect, self.inbox, self.place)

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

    def test_a_home_broker_whose_shard_is_not_known_is_named_by_its_endpoint(self):
        self.submit("a")
        self.send_on(self.home, "b", "there")
        self.asked(self.at["there"])
        self.status("j")
        self.answer("there", "unknown")
        self.home.advance(5.0)
        self.turn(5.0)
        [error] = outcomes(self.home)
        self.assertIn("no answer from the broker at home within 5 s", str(error))

    def fetch(self, **more):
        self.shards.begin(Request("fetch", "j", sink=Inbox(), token="j", **more), 0.0)
        self.answer("there", "unknown")
        for now in (5.0, 10.0):
            for session in (self.home, self.at["there"]):
                session.advance(now)
                self.turn(now)

    def test_who_waits_for_the_end_of_a_job_waits_for_a_shard_that_is_away(self):
        self.submit("a")
        self.send_on(self.home, "b", "there")
        self.asked(self.at["there"])
        self.fetch()
        self.assertEqual(outcomes(self.home), [])
        questions = [ref for op, id, ref in self.asked(self.home, 10.0) if (op, id) == ("status", "j")]
        tell(self.home, "status", {"ref": questions[-1], "id": "j", "state": "running"}, now=10.0)
        self.turn(10.0)
        self.assertIn(("fetch", "j"), [(op, id) for op, id, _ in self.asked(self.home, 10.0)])

    def test_as_long_as_he_said(self):
        self.submit("a")
        self.send_on(self.home, "b", "there")
        self.asked(self.at["there"])
        self.fetch(timeout=7.0)
        [error] = outcomes(self.home)
        self.assertIn("within 10 s", str(error))

    def test_without_shards_the_first_answer_stands(self):
        self.seek()
        self.assertEqual([status.state for status in outcomes(self.home)], ["unknown"])
        self.assertEqual(self.freed(), 1)

    def test_closing_ends_what_is_sought(self):
        self.seek(shard="a", shards=self.SHARDS)
        self.shards.abandon_all(0.0, lambda id: errors.CancelledError("closed", id=id))
        self.assertIn(errors.CancelledError, [type(error) for error in outcomes(self.home)])


class Home(Case):
    """A client that is given the endpoints of brokers of three shards."""

    GIVEN = ["home", "there", "far"]
    RULES = [{"name": "a", "endpoints": ["home", "home2"]}, {"name": "b", "endpoints": ["there"]}, {"name": "c", "endpoints": ["far"]}]

    def hear_rules(self, shard="a", rules=None, now=0.0):
        """Answers the first question of a connection; returns what else is asked on it."""
        (op, fields, _), *rest = said(self.home, now)
        self.assertEqual((op, fields["cluster"]), ("ping", True))
        more = {} if shard is None else {"shard": shard, "shards": self.RULES if rules is None else rules}
        tell(self.home, "pong", {"ref": fields["ref"], **more}, now=now)
        return [op for op, _, _ in rest]

    def lose(self, now, at):
        self.home.disconnected(now)
        self.home.take_reopen(now)
        self.place.endpoint = at

    def test_it_stays_with_its_shard_and_learns_the_brokers_of_it(self):
        self.submit("a")
        self.hear_rules()
        self.turn()
        self.assertEqual(self.place.endpoints, ("home", "home2"))

    def test_other_rules_count_from_the_next_connection_on(self):
        self.submit("a")
        self.hear_rules()
        self.turn()
        self.lose(1.0, "home2")
        self.hear_rules(rules=[{"name": "a", "endpoints": ["home2"]}, {"name": "b", "endpoints": ["there", "home"]}], now=1.0)
        self.turn(1.0)
        self.assertEqual(self.place.endpoints, ("far", "home2"), "`far` is nobody's any more")

    def test_without_shards_what_was_given_counts(self):
        self.submit("a")
        self.hear_rules(shard=None)
        self.turn()
        self.assertEqual(self.place.endpoints, ("home", "there", "far"))

    def test_the_list_is_never_empty(self):
        self.submit("a")
        self.hear_rules(rules=[{"name": "b", "endpoints": self.GIVEN}])
        self.turn()
        self.assertEqual(self.place.endpoints, ("home",))

    def test_the_list_is_bounded(self):
        self.submit("a")
        self.hear_rules(rules=[{"name": "a", "endpoints": [f"home{number}" for number in range(40)]}])
        self.turn()
        self.assertEqual(len(self.place.endpoints), 16)

    def test_nothing_of_a_broker_of_another_shard_is_believed(self):
        self.shards.begin(Request("follow", "j", sink=Inbox(), token="j"), 0.0)
        self.hear_rules()
        self.turn()
        self.place.endpoints = ("home", "alias")
        self.home.go_round(2)
        self.lose(1.0, "alias")
        self.hear_rules(shard="b", now=1.0)
        tell(self.home, "error", {"ref": 1, "id": "j", "code": "not_found"}, now=1.0)
        self.turn(1.0)
        self.assertEqual((outcomes(self.home), self.place.endpoints), ([], ("home", "home2")))
        self.assertTrue(self.home.take_reopen(1.0), "to the next one, at once")
        self.assertEqual(self.hear_rules(now=1.0), ["fetch"])

    def test_a_shard_that_has_another_name_now_is_the_same(self):
        self.submit("a")
        self.hear_rules()
        self.turn()
        self.lose(1.0, "home")
        self.hear_rules("renamed", [{"name": "renamed", "endpoints": ["home"]}], now=1.0)
        self.turn(1.0)
        self.assertEqual(self.place.endpoints, ("home", "there", "far"))
        self.assertFalse(self.home.take_reopen(1.0))


if __name__ == "__main__":
    unittest.main()
