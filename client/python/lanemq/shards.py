# SPDX-License-Identifier: Apache-2.0
"""Where the requests of one client go: to the home session, at the endpoints that were given, or to that of another shard.

A client learns of shards as it meets them: a broker that does not take a job names the shard that does, and where it is; and where
a broker does not know a job it is asked which shards there are, and these are asked for the job. Without shards there is the home
session and nothing more. Of the driver's thread. All times are seconds of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

from .errors import DeadlineError, LaneMQError, NotOwnerError, UnavailableError
from .session import ABOUT_JOBS, Change, Request, Session, Sink
from .settings import ENDPOINTS_MAX
from .types import Pong, Status

HOME = ""  # the shard of the home session, where its name is not known
#: How often brokers may send one job on. Rules that are changed broker by broker may point in a circle.
MOVES_MAX = 4
SHARDS_MAX = 64
#: Services and clients that brokers have sent on; beyond that all of them begin anew.
SENT_ON_MAX = 4096
#: Jobs whose shards are remembered; the older half goes.
REMEMBERED_MAX = 131_072
#: How long brokers are waited for that are asked whether they know a job.
SEARCH_TIMEOUT = 5.0


class Later:
    """A sink of the shards' own questions: has `act(value, now)`, the token, called in the driver's next turn."""

    def __init__(self, inbox: Any) -> None:
        self._inbox = inbox

    def put(self, token: Any, value: Any) -> None:
        self._inbox.append((token, value))

    def flush(self) -> None:
        pass


class Place(Protocol):
    """Where the home session is connected to, and may be. go_round() tells the session how many places these are."""

    @property
    def endpoint(self) -> str: ...
    @property
    def endpoints(self) -> tuple[str, ...]: ...
    def go_round(self, endpoints: Iterable[str]) -> None: ...


def endpoints_of_shard(shard: str | None, rules: Pong, given: Iterable[str], here: str) -> tuple[str, ...]:
    """What was given, without what the rules name for other shards, and what they name for this one. `here`: where they were said."""
    if not rules.shards:
        return tuple(given)
    own = rules.shards.get(shard or "", ())
    foreign = {endpoint for endpoints in rules.shards.values() for endpoint in endpoints}.difference(own)
    if rules.shard != shard:
        foreign.add(here)
    endpoints = tuple(dict.fromkeys([*(each for each in given if each not in foreign), *own]))[:ENDPOINTS_MAX]
    return endpoints or (here,)


class Search:
    """A request about a job while shards are asked for it."""

    def __init__(self, request: Request, answer: Any) -> None:
        self.request = request
        self.answer = answer  # of the first that was asked, who does not know the job; None: nobody was asked yet
        self.open = 0
        self.silent: list[str] = []
        self.in_vain = False  # one of them cannot be asked again


class Shards:
    """See the module. `connect`: a running session at the endpoints of another shard; raises ValueError or OSError. `later`: the
    driver's inbox. `place`: where the home session is."""

    def __init__(self, home: Session, connect: Callable[[Iterable[str]], Session], later: Any, place: Place) -> None:
        self._home, self._connect, self._later, self._place = home, connect, Later(later), place
        self._given = place.endpoints
        home.asks_rules = len(self._given) > 1
        self._home_name: str | None = None  # of its shard; None: not known
        self._home_lives = 0
        self._others: dict[str, Session] = {}
        self._sent_on: dict[tuple[str, str], str] = {}
        self._young: dict[str, str] = {}  # shards by jobs' ids
        self._old: dict[str, str] = {}
        self._aside: set[Request] = set()  # those that no session has
        self._asking: list[Search] = []  # until the home broker has said which shards there are

    def sessions(self) -> Iterator[Session]:
        yield self._home
        yield from list(self._others.values())

    def begin(self, request: Request, now: float) -> None:
        shard: str | None = HOME
        if request.submit is not None:
            if self._others:
                shard = self._sent_on.get(_kind_of(request), HOME)
                self._remember(request.id, shard)
        elif request.kind in ABOUT_JOBS:
            shard = self._young.get(request.id, self._old.get(request.id))
            if shard is None and self._others:
                request.begin(now)
                self._aside.add(request)
                return self._seek(Search(request, None), {}, now)
        self._session_of(shard or HOME).begin(request, now)

    def abandon(self, request: Request, now: float, sink: Sink) -> bool:
        """As Session's."""
        if request in self._aside:
            request.sink = None
            self._finish(request, None)
            return False
        return any([session.abandon(request.ref, now, sink) for session in self.sessions()])

    def abandon_all(self, now: float, error: Callable[[str], LaneMQError]) -> None:
        for session in self.sessions():
            session.abandon_all(now)
        for request in list(self._aside):
            self._finish(request, error(request.id))

    def end_all(self, error: Callable[[str], LaneMQError]) -> None:
        for session in self.sessions():
            session.end_all(error)
        for request in list(self._aside):
            self._finish(request, error(request.id))

    def seen(self, ref: int, seq: int, now: float) -> None:
        for session in self.sessions():
            session.seen(ref, seq, now)

    def took(self, change: Change) -> None:
        for session in self.sessions():
            session.took(change)

    def settle(self, now: float) -> None:
        """Takes up what sessions have put aside. To be called at the begin of each turn."""
        if self._home.heard_here and self._home.counters.reconnected != self._home_lives:
            # Its broker may have other rules now, or be of another shard. While it is away what was learned counts.
            self._home_lives, self._home_name = self._home.counters.reconnected, self._home.shard
            self._sent_on.clear()
        if (rules := self._home.rules) is not None:
            self._home.rules = None
            self._stay(rules)
        for session in list(self.sessions()):
            moved, session.moved = session.moved, []
            for request, shard, endpoints in moved:
                self._aside.add(request)
                self._move(request, shard, endpoints, now)
            unknown, session.unknown = session.unknown, []
            for request, answer in unknown:
                self._aside.add(request)
                self._ask_for_shards(Search(request, answer), now)

    # ---- sessions ---------------------------------------------------------------------------------------------

    def _stay(self, rules: Pong) -> None:
        """The home session goes on at brokers of its own shard alone: the others do not have what is open at it."""
        self._home_name = shard = self._home.shard
        self._place.go_round(endpoints_of_shard(shard, rules, self._given, self._place.endpoint))

    def _session_of(self, shard: str) -> Session:
        return self._others.get(shard, self._home)

    def _open(self, shard: str, endpoints: Iterable[str]) -> Session | None:
        """The session of a shard, made where there is none; None: it cannot be made."""
        if shard in (HOME, self._home_name):
            return self._home
        if shard not in self._others:
            if len(self._others) >= SHARDS_MAX:
                return None
            try:
                self._others[shard] = self._connect(endpoints)
            except (ValueError, OSError):
                return None
        return self._others[shard]

    def _remember(self, id: str, shard: str) -> None:
        if len(self._young) >= REMEMBERED_MAX // 2:
            self._old, self._young = self._young, {}
        self._young[id] = shard

    def _hand_on(self, request: Request, session: Session, now: float) -> None:
        if request not in self._aside:
            return
        self._aside.discard(request)
        session.adopt(request, now)

    def _finish(self, request: Request, outcome: Any) -> None:
        if request in self._aside:
            self._aside.discard(request)
            self._home.finish(request, outcome)

    # ---- jobs that another shard takes ------------------------------------------------------------------------

    def _move(self, request: Request, shard: str, endpoints: Iterable[str], now: float) -> None:
        request.moves += 1
        if request.moves > MOVES_MAX:
            return self._finish(request, NotOwnerError(
                f"no shard takes the job: brokers have sent it on {MOVES_MAX} times, at last to shard {shard!r}; their rules (shard) "
                "differ, so submit it again once they are the same", id=request.id, retry_after=1.0, local=True))
        session = self._open(shard, endpoints)
        if session is None:
            return self._finish(request, UnavailableError(
                f"shard {shard!r} cannot be reached: the broker tells of no endpoint of it, or it cannot be connected to",
                id=request.id, local=True))
        if len(self._sent_on) >= SENT_ON_MAX:
            self._sent_on.clear()
        self._sent_on[_kind_of(request)] = shard
        self._remember(request.id, shard)
        self._hand_on(request, session, now)

    # ---- jobs that a broker does not know ---------------------------------------------------------------------

    def _ask(self, session: Session, kind: str, id: str, act: Callable[[Any, float], None], now: float) -> None:
        request = Request(kind, id, filter={"cluster": True} if kind == "ping" else None, sink=self._later, token=act,
                          timeout=SEARCH_TIMEOUT)
        request.sought = True
        session.begin(request, now)
        session.freed -= 1  # it is nobody's request

    def _ask_for_shards(self, search: Search, now: float) -> None:
        search.request.sought = True
        self._asking.append(search)
        if len(self._asking) == 1:
            self._ask(self._home, "ping", "", self._told_of_shards, now)

    def _told_of_shards(self, pong: Any, now: float) -> None:
        searches, self._asking = self._asking, []
        shards: dict[str, tuple[str, ...]] = {}
        if isinstance(pong, Pong):
            self._home_name, shards = pong.shard, dict(pong.shards)
        for search in searches:
            if isinstance(pong, Pong) or self._others:
                self._seek(search, shards, now)
            else:  # it was lost: asked anew, also for the job
                search.request.sought = False
                self._hand_on(search.request, self._home, now)

    def _seek(self, search: Search, shards: dict[str, tuple[str, ...]], now: float) -> None:
        """Asks all shards for the job's state; also those that have left the rules, which may have it still."""
        if not shards and not self._others:
            return self._finish(search.request, search.answer)
        names = dict.fromkeys([self._home_name or HOME, *shards, *self._others])
        self._question(search, names, shards, now)

    def _question(self, search: Search, names: Collection[str], shards: Mapping[str, tuple[str, ...]], now: float) -> None:
        search.open, search.silent = len(names), []
        for name in names:
            session = self._open(name, shards.get(name, ()))
            if session is None:
                self._heard(search, name, UnavailableError(), now)
            else:
                self._ask(session, "status", search.request.id, partial(self._heard, search, name), now)

    def _heard(self, search: Search, name: str, said: Any, now: float) -> None:
        """A shard has answered, or its time is over."""
        request = search.request
        search.open -= 1
        if isinstance(said, Status) and said.state != "unknown":
            self._remember(request.id, name)
            return self._hand_on(request, self._session_of(name), now)
        if isinstance(said, LaneMQError):
            search.silent.append(name)
            search.in_vain |= not isinstance(said, DeadlineError)
        if search.open > 0:
            return
        if search.silent and not search.in_vain and _waits_for_end(request, now):
            if request in self._aside:  # else its caller has gone
                self._question(search, search.silent, {}, now)
        elif search.silent:
            silent = ", ".join(f"shard {name!r}" if name else f"the broker at {self._place.endpoint}" for name in search.silent)
            self._finish(request, DeadlineError(
                f"no answer from {silent} within {now - request.asked:.0f} s, and no other one knows the job; ask again later",
                id=request.id, local=True))
        elif search.answer is None:  # none of those that are known: the home broker knows of others, or says what all would
            self._hand_on(request, self._home, now)
        else:
            self._finish(request, search.answer)


def _waits_for_end(request: Request, now: float) -> bool:
    """Whether its caller waits for the job's end, and so for a shard that is away; for how far it is nobody does."""
    return request.kind in ("fetch", "follow") and (request.wait_until is None or now < request.wait_until)


def _kind_of(request: Request) -> tuple[str, str]:
    """What the shard of a job follows from, as far as a client knows it."""
    assert request.submit is not None
    fields = request.submit.fields
    return fields["service"], fields.get("client", "")
