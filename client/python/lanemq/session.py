# SPDX-License-Identifier: Apache-2.0
"""One client's side of the protocol, without a socket, a clock or a thread.

A session is told requests, messages and what happens to the connection; it says what to send, when to connect anew, and
which requests have ended. It keeps requests until they end, and sends them again, under the same ids, on each new
connection. The sync and the asyncio client are both driven by it. Not thread-safe. All times are seconds of one
monotonic clock.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from . import unpacking, wire
from ._tables import (BATCH_BYTES_MAX, BATCH_INHERITED_BYTES_MAX, BATCH_ITEMS_MAX, ENDS_WITHOUT_PIECES_MAX, FETCH_PAUSE, FETCH_WAIT_MAX,
                      FIRST_PING_AFTER, FIRST_WORD_WITHIN, FRUITLESS_MAX, HEADER_BYTES_MAX, INLINE_BYTES_MAX, MAP_ENTRIES_MAX, NOT_OWNER_PAUSE,
                      PING_AFTER, PROBE_AFTER, PROBE_EVERY, PROBE_TURN, PROBED_AT_ONCE, RENEW_EVERY, REOPEN_AFTER, REOPEN_FAILED_PAUSE,
                      REOPEN_PAUSE, REOPEN_PAUSE_MAX, ROUND_FORGOTTEN_AFTER, ROUND_PAUSE, ROUND_PAUSE_MAX, SEEN_AFTER, STREAM_BYTES_MAX,
                      STREAM_CHUNKS_MAX, WATCH_EVENTS_MAX)
from .errors import (REFUSALS, CancelledError, DeadlineError, GoneError, InternalError, LaneMQError, NotFoundError, NotOverError,
                     TooLargeError, UnauthorizedError, error_of)
from .types import Accepted, Answer, Event, Pong, Status, Submit, event_of, status_of

AWAY_AFTER = PING_AFTER + 0.5  # of silence: nobody who leaves waits for such a broker
#: What a reader has taken is said at a quarter of a window.
SEEN_CHUNKS = STREAM_CHUNKS_MAX // 4
SEEN_BYTES = STREAM_BYTES_MAX // 4
FETCH_WAIT_MS_MAX = int(1000 * FETCH_WAIT_MAX)
#: How long beyond a job's own deadline, or a fetch's wait, the broker's word of it is awaited.
GRACE = 5.0
CONTROL_TIMEOUT = 10.0  # of ping, status, cancel and leave
#: Before a refused job is sent again, where the broker does not say when (`retry_after_ms`); doubles with each refusal.
REFUSED_PAUSE = 0.25
REFUSED_SPREAD_MAX = 1.0  # so that those who were refused together do not come together

#: What a reader of a watch has taken is said so many events at a time: a quarter of what the broker sends ahead.
SEEN_EVENTS = WATCH_EVENTS_MAX // 4
#: Events that wait for a reader of a watch. The broker sends a quarter of that ahead on one connection; a reader that is behind over
#: several loses some.
UNREAD_EVENTS_MAX = 4 * WATCH_EVENTS_MAX

OWN_REF = 0  # of the session's pings
PROBE_REF = 2**53 - 1  # of its probes; refs of requests count from 1
RULES_REF = PROBE_REF - 1  # of its questions which shards there are
MARK_REF = PROBE_REF - 2  # of its pings between messages of which one may be broken
NOBODY = -1  # no request has this ref

OPS = {"submit": "submit", "stream": "submit", "leave": "submit", "fetch": "fetch", "follow": "fetch", "status": "status",
       "cancel": "cancel", "ping": "ping", "watch": "watch"}
ABOUT_JOBS = ("status", "cancel", "fetch", "follow")  # kinds of requests that go where the job is


class Rounds:
    """Paces who goes from place to place and finds nobody: at once to the next one, with a pause behind each round. A place is an
    endpoint, or one of the addresses of its name."""

    def __init__(self, places: int) -> None:
        self.places = places
        self._in_a_row, self._last_at = 0, 0.0

    def found_nobody(self, now: float) -> float:
        """Returns when the next one's turn is."""
        if now - self._last_at > ROUND_FORGOTTEN_AFTER:
            self._in_a_row = 0
        self._last_at = now
        self._in_a_row += 1
        rounds, rest = divmod(self._in_a_row, self.places)
        return now if rest else now + min(ROUND_PAUSE * float(2 ** min(rounds - 1, 8)), ROUND_PAUSE_MAX)


class Sink(Protocol):
    """Where outcomes go. `put` is called for each, `flush` once behind those of a turn."""

    def put(self, token: Any, value: Any) -> None: ...

    def flush(self) -> None: ...


class Piece:
    """A piece of a streamed answer, for the sink of its request. Its reader then says `seen(ref, seq)`."""

    __slots__ = ("ref", "seq", "body")

    def __init__(self, ref: int, seq: int, body: bytes) -> None:
        self.ref, self.seq, self.body = ref, seq, body


class Reading:
    """How far a stream has been read. All numbers are of pieces."""

    __slots__ = ("first", "next", "taken", "said", "sizes", "unsaid_bytes", "by_fetch", "seen_due", "seen_at", "fetch_at",
                 "heard_at", "ends_without_pieces")

    def __init__(self, first: int, by_fetch: bool) -> None:
        self.first = self.next = first  # the first one wanted, and the next to come
        self.taken = self.said = first  # the reader has all before `taken`; the broker knows of those before `said`
        self.sizes: deque[int] = deque()  # bytes of each piece from `said` on
        self.unsaid_bytes = 0
        self.by_fetch = by_fetch  # asked for by fetch, not by its submit
        self.seen_due = False
        self.seen_at: float | None = None
        self.fetch_at: float | None = None
        self.heard_at: float | None = None
        self.ends_without_pieces = 0


class Following:
    """How far a watch is on one connection. All numbers are of events."""

    __slots__ = ("begun", "next", "taken", "said", "seen_due", "lost", "left_out")

    def __init__(self, lost: bool) -> None:
        self.begun = self.seen_due = False
        self.next = self.taken = self.said = 0  # the next to come; the reader has all before `taken`, the broker knows before `said`
        self.lost, self.left_out = lost, 0  # what the next event has to tell: that some were left out, and how many


class Change:
    """An event of a watch, for the sink of its request. Its reader then says `took(change)`."""

    __slots__ = ("ref", "following", "event")

    def __init__(self, ref: int, following: Following, event: Event) -> None:
        self.ref, self.following, self.event = ref, following, event


class Request:
    """A request of a caller's; a session has it until it ends."""

    __slots__ = ("ref", "kind", "op", "id", "submit", "body", "body_bytes", "sink", "token", "asked", "deadline", "sent_at",
                 "probed_at", "refused_at", "refusals", "reading", "wait_until", "filter", "following", "unread", "moves", "sought", "begun",
                 "message", "first_message")

    def __init__(self, kind: str, id: str = "", *, submit: Submit | None = None, body: bytes = b"", sink: Sink | None = None,
                 token: Any = None, from_seq: int | None = None, timeout: float | None = None,
                 filter: wire.Fields | None = None) -> None:
        self.ref = 0
        self.kind, self.op = kind, OPS[kind]
        self.id, self.submit, self.body, self.sink, self.token = id, submit, body, sink, token
        self.body_bytes = len(body)  # as counted by the client's bounds
        self.asked = 0.0
        #: Seconds until it ends by this client's clock; of a fetch how long to wait. None: no bound.
        self.deadline = timeout
        self.wait_until: float | None = None
        self.sent_at: float | None = None
        self.probed_at = 0.0  # when its state was asked for
        self.refused_at: float | None = None  # when it is sent again
        self.refusals = 0
        self.reading = Reading(from_seq or 0, kind == "follow") if kind in ("stream", "follow") else None
        self.filter = filter  # of a watch: whose changes; of a ping: what else it asks
        self.following = Following(lost=False) if kind == "watch" else None
        self.unread = 0  # events that its reader has not taken
        self.moves, self.sought = 0, False  # how often its job was sent on; whether all shards were asked for it
        self.begun = False
        self.message = self.first_message = 0  # the numbers of the messages of this connection that said it last, and first; 0: none

    def begin(self, now: float) -> None:
        """From now on its time counts. Once, whatever sessions have it."""
        if self.begun:
            return
        self.begun, self.asked = True, now
        if self.kind == "fetch":
            self.wait_until = None if self.deadline is None else now + self.deadline
            self.deadline = None if self.wait_until is None else self.wait_until + GRACE
        elif self.deadline is not None:
            self.deadline += now


class Counters:
    """Since the session's begin."""

    __slots__ = ("sent", "resent", "answered", "expired", "dropped_answers", "undecodable", "reconnected", "messages")

    def __init__(self) -> None:
        self.sent = self.resent = self.answered = self.expired = 0
        self.dropped_answers = 0  # answers to no pending request: to a repetition, or late
        self.undecodable = self.reconnected = self.messages = 0


class Session:
    """See the module. `random`: numbers from 0 to 1, which spread what is sent again. `endpoints`: how many there are; each new
    connection goes to the next one. `refs`: of the sessions of one client, which then puts aside what others may do (`moved`,
    `unknown`)."""

    def __init__(self, now: float, random: Callable[[], float], batch_max: int = BATCH_ITEMS_MAX, endpoints: int = 1,
                 refs: Iterator[int] | None = None) -> None:
        self._random, self._batch_max = random, max(1, min(batch_max, BATCH_ITEMS_MAX))
        self._rounds = Rounds(endpoints)
        self._heard_here = False  # a word on this connection
        #: Whether it asks the broker of each connection, before all else, which shards there are. It stays with the shard of the
        #: first one that says its own, and leaves a broker of another one.
        self.asks_rules = False
        self.shard: str | None = None  # with which it stays
        self.rules: Pong | None = None  # the last answer, until it is taken from here
        self._asked_rules = self._astray = False  # on this connection; astray: its broker is of another shard
        self._pending: dict[int, Request] = {}
        self._to_send: deque[int] = deque()  # refs; those that are not pending are skipped
        self._own: deque[list[bytes]] = deque()  # messages of the session's own: at most one ping, one probe, ends of watches, marks
        self._seens: deque[int] = deque()  # refs of streams
        self._message = self._read_up_to = 0  # the numbers of the last message with requests, and of the last that the broker has read
        self._suspects: deque[int] = deque()  # refs of what is sent alone, since the broker could not read a message
        self._marks: deque[tuple[int, int]] = deque()  # pings without an answer: the last message before them, its ref where it is a suspect's
        self._timers: list[tuple[float, int, str]] = []  # (when, ref, which); some are out of date
        self._follows, self._refs = refs is not None, refs or itertools.count(1)
        self._said_batch = False  # on this connection
        self._quiet_since = self._pinged = now
        self._probe_at = now + PROBE_AFTER
        self._probes: dict[str, set[int]] = {}  # the ids of those asked for, with their refs; some have ended
        self._reopen_at: float | None = None
        self._told: list[str] = []
        self._unmet = False  # that is because of a connection that ended before the handshake: libzmq tries, too
        self._connected = False
        self._fruitless = self._lost = 0
        self.counters = Counters()
        #: What came of requests, for their sinks, in order: the driver takes it after each turn.
        self.events: list[tuple[Sink, Any, Any]] = []
        #: Requests, and bytes of their bodies, that have ended since the driver took these.
        self.freed, self.freed_bytes = 0, 0
        #: Put aside: jobs that belong to another shard, its name and its endpoints; and questions about jobs that the broker does
        #: not know, with its answers.
        self.moved: list[tuple[Request, str, list[str]]] = []
        self.unknown: list[tuple[Request, Any]] = []

    # ---- what callers want ------------------------------------------------------------------------------------

    def begin(self, request: Request, now: float) -> None:
        request.begin(now)
        self._take(request, now)

    def adopt(self, request: Request, now: float) -> None:
        """Goes on with a request that another session has put aside."""
        request.sent_at = request.refused_at = None
        request.message = request.first_message = 0
        self._take(request, now)

    def _take(self, request: Request, now: float) -> None:
        if not self._pending:  # from now on silence counts
            self._quiet_since = max(self._quiet_since, now)
            self._probe_at = max(self._probe_at, now + PROBE_AFTER)
        request.ref = ref = next(self._refs)
        if request.deadline is not None:
            self._at(request.deadline, ref, "deadline")
        if request.following is not None:
            self._at(now + RENEW_EVERY, ref, "renew")
        self._pending[ref] = request
        self._to_send.append(ref)

    def abandon(self, ref: int, now: float, sink: Sink | None = None) -> bool:
        """The caller has gone: no word about this request any more. True: its job is cancelled, since the broker may have it,
        and `sink` is told how that went."""
        request = self._pending.get(ref)
        if request is None:
            return False
        if request.following is not None and request.sent_at is not None:
            self._own.append(wire.encode("watch", {"stop": True, "ref": ref}))
        cancels = request.op == "submit" and request.sent_at is not None
        if cancels:
            # Before the other one is forgotten: silence goes on to count.
            self.begin(Request("cancel", request.id, timeout=CONTROL_TIMEOUT, sink=sink), now)
            self.freed -= 1  # it has the place of the one that it cancels
        self._forget(request)
        return cancels

    def abandon_all(self, now: float) -> None:
        """The client is closed: everybody hears so, and jobs that the broker may have are cancelled."""
        for request in list(self._pending.values()):
            if request.op == "cancel":
                continue
            self.abandon(request.ref, now)
            if request.sink is not None:
                self.events.append((request.sink, request.token, closed_error(request.id)))

    def seen(self, ref: int, seq: int, now: float) -> None:
        """A stream's reader has taken all pieces up to `seq`. Ignored for streams that have ended."""
        request = self._pending.get(ref)
        reading = request.reading if request else None
        if reading is None:
            return
        for _ in range(min(seq, reading.next - 1) + 1 - reading.taken):
            reading.unsaid_bytes += reading.sizes[reading.taken - reading.said]
            reading.taken += 1
        if reading.taken == reading.said or reading.seen_due:
            return
        if reading.taken - reading.said >= SEEN_CHUNKS or reading.unsaid_bytes >= SEEN_BYTES:
            reading.seen_due = True
            self._seens.append(ref)
        elif reading.seen_at is None:
            reading.seen_at = now + SEEN_AFTER
            self._at(reading.seen_at, ref, "seen")

    def took(self, change: Change) -> None:
        """The reader of a watch has taken an event, and with it all before."""
        request = self._pending.get(change.ref)
        if request is None:
            return
        request.unread -= 1
        following = change.following
        if following is not request.following or change.event.what == "watching":  # nobody asks about an earlier connection's
            return
        following.taken = change.event.seq + 1
        self._say_seen(request, following)

    def _say_seen(self, request: Request, following: Following) -> None:
        if following.taken - following.said >= SEEN_EVENTS and not following.seen_due:
            following.seen_due = True
            self._seens.append(request.ref)

    def end_all(self, error: Callable[[str], LaneMQError]) -> None:
        """Ends all requests, each with an error for its id."""
        for request in list(self._pending.values()):
            self._end(request, error(request.id))

    @property
    def pending(self) -> int:
        return len(self._pending)

    @property
    def heard_here(self) -> bool:
        """Whether a broker of its shard has spoken on this connection."""
        return self._heard_here and not self._astray

    def answers(self, now: float) -> bool:
        """Whether a broker is connected to that will probably answer what is pending, and something is."""
        return bool(self._pending) and self._connected and self._reopen_at is None and now - self._quiet_since < AWAY_AFTER

    def go_round(self, places: int) -> None:
        """So many there are to connect to from now on."""
        self._rounds.places = places

    # ---- the connection ---------------------------------------------------------------------------------------

    def connected(self) -> None:
        """A handshake has succeeded. Where the last connection had ended before its handshake this is libzmq's next try on the same
        socket: it is the new one that was due."""
        if self._unmet:
            self._unmet, self._reopen_at = False, None
        self._connected = True

    def disconnected(self, now: float) -> None:
        """The connection is gone. A new one is due at once, or after a pause where the last ones were fruitless."""
        if self._reopen_at is not None:
            return
        if self._connected:
            self._fruitless += 1
        self._unmet = not self._connected
        self._connected = False
        self._lost += 1
        if self._fruitless >= FRUITLESS_MAX:
            self._fruitless = 0
            if self._blame_largest_body():
                self._lost = 0
        pause = REOPEN_PAUSE * 2 ** min(self._lost - 2, 10) if self._lost > 1 else 0.0
        self._reopen_at = now + min(pause, REOPEN_PAUSE_MAX)

    def found_nobody(self, now: float) -> None:
        """Nobody listens at the place, or its name has no address: the next one's turn. Only told where there may be another."""
        if not self._connected and self._reopen_at is None:
            self._reopen_at = self._rounds.found_nobody(now)

    def found_address(self, now: float) -> None:
        """The name was looked up: from now on silence is the broker's."""
        self._quiet_since = self._pinged = now

    def refused(self, message: str, now: float) -> None:
        """The broker does not take this client's key."""
        self.end_all(lambda id: UnauthorizedError(message, id=id or None, local=True))

    def take_reopen(self, now: float) -> bool:
        """True, once per decision: replace the connection now. All that is pending is then sent on it, in its order."""
        if self._reopen_at is None or self._reopen_at > now:
            return False
        self._reopen_at, self._unmet = None, False
        self._connected = self._said_batch = self._heard_here = self._asked_rules = self._astray = False
        self._quiet_since = self._pinged = now
        self._probe_at = now + PROBE_AFTER
        self._own.clear()
        self._probes.clear()
        self._seens.clear()  # the fetches say it
        self._suspects.clear()
        self._marks.clear()
        self.counters.reconnected += 1
        for request in self._pending.values():
            request.refused_at, request.message, request.first_message = None, 0, 0
            if request.following is not None:
                self._follow_anew(request)
            if (reading := request.reading) is not None:
                # A job without any piece may be unknown to the broker, so it is submitted again.
                reading.by_fetch = request.kind == "follow" or reading.next > reading.first
                reading.seen_due, reading.seen_at, reading.fetch_at = False, None, None
        self._to_send = deque(self._pending)
        return True

    def reopen_failed(self, now: float) -> None:
        self._reopen_at = now + REOPEN_FAILED_PAUSE

    def _blame_largest_body(self) -> bool:
        largest = max((each for each in self._pending.values() if len(each.body) > INLINE_BYTES_MAX),
                      key=lambda each: len(each.body), default=None)
        if largest is None:
            return False
        self._end(largest, TooLargeError(
            f"the broker cut the connection {FRUITLESS_MAX} times without a word; a body of {len(largest.body)} bytes is "
            "probably over its body_bytes_max: send less or raise it", id=largest.id, local=True))
        return True

    # ---- time -------------------------------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """Does what is due."""
        timers = self._timers
        while timers and timers[0][0] <= now:
            when, ref, which = heapq.heappop(timers)
            request = self._pending.get(ref)
            if request is not None:
                self._ring(request, which, when, now)
        if not self._pending or self._reopen_at is not None:
            return
        ping_at, silent_at = self._silence()
        if now >= silent_at:
            self._reopen_at = now
        elif now >= ping_at:
            self._pinged = now
            self._own.append(wire.encode("ping", {"ref": OWN_REF}))
        elif now >= self._probe_at:
            self._probe(now)

    def next_wakeup(self) -> float | None:
        """When advance() has work at the latest; None: nothing is pending."""
        if not self._pending:
            return self._reopen_at
        due = self._reopen_at
        if due is None:
            due = min(*self._silence(), self._probe_at)
        return min(due, self._timers[0][0]) if self._timers else due

    def _silence(self) -> tuple[float, float]:
        """When the broker is asked for a word, and when it is given up."""
        first = self._rounds.places > 1 and not self._heard_here
        ping_after, reopen_after = (FIRST_PING_AFTER, FIRST_WORD_WITHIN) if first else (PING_AFTER, REOPEN_AFTER)
        return max(self._quiet_since, self._pinged) + ping_after, self._quiet_since + reopen_after

    def _at(self, when: float, ref: int, which: str) -> None:
        if len(self._timers) > 4 * len(self._pending) + 1024:  # most are of requests that have ended
            self._timers = [timer for timer in self._timers if timer[1] in self._pending]
            heapq.heapify(self._timers)
        heapq.heappush(self._timers, (when, ref, which))

    def _ring(self, request: Request, which: str, when: float, now: float) -> None:
        reading = request.reading
        if which == "deadline" and request.deadline == when:
            self.counters.expired += 1
            waited = int(1000 * (when - request.asked))
            self._end(request, DeadlineError(f"no answer from the broker within {waited} ms", id=request.id or None, local=True))
        elif which == "refused" and request.refused_at == when:
            request.refused_at = None
            self._to_send.append(request.ref)
        elif which == "seen" and reading is not None and reading.seen_at == when:
            reading.seen_at = None
            if not reading.seen_due:
                reading.seen_due = True
                self._seens.append(request.ref)
        elif which == "renew" and request.following is not None:
            self._at(now + RENEW_EVERY, request.ref, "renew")
            self._to_send.append(request.ref)
        elif which == "fetch" and reading is not None and reading.fetch_at == when:
            self._fetch(request)

    def _probe(self, now: float) -> None:
        """Asks for the states of jobs that were sent long ago, those first whose turn came first: a broker drops what a slow reader
        leaves unread. A job that is over is sent again, which brings its answer."""
        waiting = [request for request in self._pending.values() if _waits_long(request, now)]
        due = sorted((max(_waits_since(request) + PROBE_AFTER, request.probed_at + PROBE_EVERY), request.ref) for request in waiting)
        due = [(at, ref) for at, ref in due if at <= now]
        turn = max(PROBED_AT_ONCE, math.ceil(len(waiting) * PROBE_TURN / PROBE_EVERY))
        self._probe_at = now + (PROBE_TURN if len(due) > turn else PROBE_EVERY)
        asked = [self._pending[ref] for _, ref in due[:turn]]
        if len(self._probes) > 2 * len(self._pending) + 1024:  # questions that were not answered
            self._probes = {id: refs for id, refs in self._probes.items() if not refs.isdisjoint(self._pending)}
        for request in asked:
            request.probed_at = now
            self._probes.setdefault(request.id, set()).add(request.ref)
        for at in range(0, len(asked), PROBED_AT_ONCE):
            self._own.append(wire.encode("status", {"ids": [each.id for each in asked[at:at + PROBED_AT_ONCE]], "ref": PROBE_REF}))

    def _on_probed(self, fields: wire.Fields, now: float) -> None:
        for job in unpacking.maps(fields, "jobs"):
            for ref in self._probes.pop(unpacking.text(job, "id"), ()):
                request = self._pending.get(ref)
                if request is None or job.get("state") in ("queued", "delayed", "running") and request.kind != "leave":
                    continue
                self._to_send.append(ref)
                request.sent_at = now  # not probed while the answer is on its way
                self._probe_at = now  # where one answer was lost others may be

    # ---- what to send -----------------------------------------------------------------------------------------

    def next_message(self, now: float) -> list[bytes] | None:
        """The next message, which counts as sent; None: there is none."""
        if self._reopen_at is not None:
            return None  # the old connection is given up
        if self.asks_rules and not self._asked_rules and (self._own or self._to_send):
            self._asked_rules = True  # the first message: no answer about a job is believed before it is known whose it is
            return wire.encode("ping", {"cluster": True, "ref": RULES_REF})
        if self._own:
            return self._own.popleft()
        while self._seens:
            request = self._pending.get(self._seens.popleft())
            if request is not None and (following := request.following) is not None and following.seen_due:
                following.seen_due, following.said = False, following.taken
                return wire.encode("seen", {"seq": following.taken - 1, "ref": request.ref})
            if request is not None and request.reading is not None and request.reading.seen_due:
                self._said_all(request.reading)
                return wire.encode("seen", {"seq": request.reading.taken - 1, "ref": request.ref})
        while self._suspects:
            request = self._pending.get(self._suspects.popleft())
            if request is not None and request.refused_at is None:
                message = self._message_of(request, now, alone=True)
                self._mark(request.ref)
                return message
        while self._to_send:
            request = self._pending.get(self._to_send.popleft())
            if request is not None and request.refused_at is None:
                return self._message_of(request, now)
        return None

    def _message_of(self, request: Request, now: float, alone: bool = False) -> list[bytes]:
        self._message += 1
        if request.op == "submit" and not (request.reading is not None and request.reading.by_fetch):
            return self._submits(request, now, alone)
        self._mark_sent(request, now)
        if request.op == "cancel" and self._said_batch and not alone:
            return self._cancels(request, now)
        if request.kind == "fetch":
            left = FETCH_WAIT_MS_MAX if request.wait_until is None else int(1000 * max(0.0, request.wait_until - now))
            return wire.encode("fetch", {"id": request.id, "wait_ms": min(left, FETCH_WAIT_MS_MAX), "ref": request.ref})
        if request.reading is not None:
            # From what the reader has taken, not from what has come: so the broker knows how far it may send ahead.
            self._said_all(request.reading)
            return wire.encode("fetch", {"id": request.id, "wait_ms": FETCH_WAIT_MS_MAX, "from_seq": request.reading.taken,
                                         "ref": request.ref})
        fields: wire.Fields = {**(request.filter or {}), "ref": request.ref}
        if request.following is not None and not self._said_batch and self._batch_max > 1:
            self._said_batch = True
            fields["batch"] = self._batch_max
        if request.id:
            fields["id"] = request.id
        return wire.encode(request.op, fields)

    def _submits(self, first: Request, now: float, alone: bool) -> list[bytes]:
        """This job, and jobs behind it that join its batch."""
        self._mark_sent(first, now)
        assert first.submit is not None
        # First what an error names: the broker reads no further than to what is broken.
        fields = {"ref": first.ref, "id": first.id, **first.submit.fields}
        if not self._said_batch and self._batch_max > 1:
            self._said_batch = True
            fields["batch"] = self._batch_max
        if len(first.body) > INLINE_BYTES_MAX or not self._to_send or alone:
            return wire.encode("submit", fields, first.body)
        maps, bodies = [fields], [first.body]
        header, total = first.submit.size + _id_bytes(first) + 64, len(first.body)
        while self._to_send and len(maps) < self._batch_max:
            request = self._pending.get(self._to_send[0])
            if request is None or request.refused_at is not None:
                self._to_send.popleft()
                continue
            submit = request.submit
            if submit is None or len(request.body) > INLINE_BYTES_MAX or (request.reading and request.reading.by_fetch):
                break
            said = {} if submit is first.submit else wire.differences(first.submit.fields, submit.fields)
            header += _id_bytes(request) + 24 + (wire.packed_bytes(said) if said else 0)
            total += len(request.body)
            if (header > HEADER_BYTES_MAX or header + total > BATCH_BYTES_MAX
                    or len(said) + 2 > MAP_ENTRIES_MAX or (len(maps) + 1) * (first.submit.size + 16) > BATCH_INHERITED_BYTES_MAX):
                break
            self._to_send.popleft()
            self._mark_sent(request, now)
            said["id"], said["ref"] = request.id, request.ref
            maps.append(said)
            bodies.append(request.body)
        if len(maps) == 1:
            return wire.encode("submit", fields, first.body)
        return wire.encode_batch("submit", maps, bodies)

    def _cancels(self, first: Request, now: float) -> list[bytes]:
        maps: list[wire.Fields] = [{"id": first.id, "ref": first.ref}]
        while self._to_send and len(maps) < min(self._batch_max, 64):  # 64 ids of the largest size fit a header
            request = self._pending.get(self._to_send[0])
            if request is not None and request.op != "cancel":
                break
            self._to_send.popleft()
            if request is not None:
                self._mark_sent(request, now)
                maps.append({"id": request.id, "ref": request.ref})
        return wire.encode("cancel", maps[0]) if len(maps) == 1 else wire.encode_batch("cancel", maps, [])

    def _mark_sent(self, request: Request, now: float) -> None:
        self.counters.sent += 1
        if request.sent_at is not None:
            self.counters.resent += 1
        request.sent_at = now
        request.message = self._message
        request.first_message = request.first_message or self._message

    # ---- what the broker says ---------------------------------------------------------------------------------

    def received(self, frames: list[bytes], now: float) -> None:
        """A message. One that cannot be read proves nothing: the peer may be no broker."""
        self.counters.messages += 1
        try:
            op, items = unpacking.decode(frames)
        except unpacking.MalformedError:
            self.counters.undecodable += 1
            return
        self._quiet_since, self._heard_here = now, True
        self._fruitless = self._lost = 0
        for fields, body in items:
            try:
                if type(fields) is unpacking.PartlyRead and "body" in fields.unread:
                    raise unpacking.MalformedError(fields.problem)
                self._hear(op, fields, body, now)
            except (TypeError, ValueError, AttributeError, KeyError) as error:  # a field of another type than the page says
                self.counters.undecodable += 1
                if (request := self._request_of(fields)) is not None:
                    self._answer(request, InternalError(f"what the broker says of it cannot be read: {error}", id=request.id or None,
                                                        local=True))

    def _hear(self, op: str, fields: wire.Fields, body: bytes, now: float) -> None:
        ref = fields.get("ref")
        if self._astray:
            return None
        if op == "error" and fields.get("code") == "not_owner" and not unpacking.text(fields, "shard"):
            if self._looks_for_owner(fields, now):
                return None
        if ref == RULES_REF:
            if op == "pong":
                self._on_rules(_pong_of(fields, 0.0), now)
            return
        if ref == OWN_REF or ref == PROBE_REF:
            if op == "status":
                self._on_probed(fields, now)
            return
        if ref == MARK_REF:
            if self._marks:
                self._read_up_to, _ = self._marks.popleft()
            return
        request = self._request_of(fields)
        if request is None:
            self.counters.dropped_answers += 1
            if op == "error" and ref is None and fields.get("id") is None:
                self._on_error_of_nobody(fields, now)
            return
        if request.first_message > self._read_up_to:
            self._read_up_to = request.first_message
        if op == "result":
            if request.kind in ("submit", "stream", "follow", "fetch") and not self._lacks_pieces(request, fields):
                self._answer(request, Answer(request.id, body, fields))
        elif op == "event":
            self._on_event(request, fields)
        elif op == "watching":
            self._on_watching(request, fields)
        elif op == "chunk":
            self._on_chunk(request, fields, body, now)
        elif op == "error":
            self._on_error(request, fields, body, now)
        elif op == "status":
            self._on_status(request, fields, now)
        elif op == "accepted" and request.kind == "leave":
            self._answer(request, Accepted(request.id, unpacking.optional_text(fields, "lane"), fields.get("durable") is True,
                                           fields.get("duplicate") is True, unpacking.whole_number(fields, "position"),
                                           unpacking.texts(fields, "ignored")))
        elif op == "pong" and request.kind == "ping":
            self._answer(request, _pong_of(fields, now - request.asked))
        else:
            self.counters.dropped_answers += 1

    def _looks_for_owner(self, fields: wire.Fields, now: float) -> bool:
        """Nothing was taken, and the owner takes it: all that is open waits for another connection. False: there is no other broker
        to go to, and whoever wants the job would rather hear so."""
        endpoints = list(unpacking.texts(fields, "endpoints"))
        places = max(self._rounds.places, len(endpoints), 2 if endpoints else 1)
        request = self._request_of(fields)
        if places < 2 and request is not None and request.submit is not None and not request.submit.waits_when_full:
            return False
        if self._reopen_at is not None:  # said of an earlier request
            return True
        if endpoints:
            self._told, self._rounds.places, self.asks_rules = endpoints, places, True
        retry_ms = unpacking.optional_number(fields, "retry_after_ms")
        alone_at = now + (NOT_OWNER_PAUSE if retry_ms is None else retry_ms / 1000)
        self._reopen_at = self._rounds.found_nobody(now) if places > 1 else alone_at
        return True

    def take_told(self) -> list[str]:
        """Where other brokers are, as one has said since the last call."""
        told, self._told = self._told, []
        return told

    def _on_rules(self, pong: Pong, now: float) -> None:
        self.rules = pong
        if self.shard in pong.shards and pong.shard != self.shard:
            self._astray, self._reopen_at = True, self._rounds.found_nobody(now)
        else:
            self.shard = pong.shard

    def _request_of(self, fields: wire.Fields) -> Request | None:
        ref, id = fields.get("ref"), unpacking.text(fields, "id")
        if ref is not None:
            return self._pending.get(ref) if type(ref) is int else None
        # Each request has a ref, so the peer has lost it: rare enough for a search.
        return next((each for each in self._pending.values() if each.id == id), None) if id else None

    def _on_error(self, request: Request, fields: wire.Fields, body: bytes, now: float) -> None:
        code, retry_ms = unpacking.text(fields, "code", "internal"), unpacking.optional_number(fields, "retry_after_ms")
        by_fetch = request.reading is not None and request.reading.by_fetch
        shard = unpacking.text(fields, "shard")
        if self._follows and code == "not_owner" and shard and request.submit is not None and not by_fetch:
            del self._pending[request.ref]
            return self.moved.append((request, shard, list(unpacking.texts(fields, "endpoints"))))
        if (code in REFUSALS and request.submit is not None and request.submit.waits_when_full
                and not by_fetch):
            pause = REFUSED_PAUSE * 2 ** min(request.refusals, 10) if retry_ms is None else max(retry_ms / 1000, REFUSED_PAUSE / 10)
            request.refusals += 1
            due = now + pause + min(pause / 2, REFUSED_SPREAD_MAX) * self._random()
            request.refused_at = due
            self._at(due, request.ref, "refused")
            return
        if request.following is not None and code == "slow_reader":  # the broker has let go of it, and it begins anew
            self._follow_anew(request)
            return self._to_send.append(request.ref)
        if code != "gone" and self._lacks_pieces(request, fields):
            return
        status = unpacking.whole_number(fields, "upstream_status")
        least, most = wire.UPSTREAM_STATUS
        self._answer(request, error_of(
            code, unpacking.text(fields, "message"), id=unpacking.text(fields, "id") or request.id or None,
            retry_after=None if retry_ms is None else retry_ms / 1000, attempts=unpacking.whole_number(fields, "attempts", 1),
            queued=unpacking.whole_number(fields, "queued_ms") / 1000, limiter=unpacking.optional_text(fields, "limiter"),
            chunks=max(unpacking.whole_number(fields, "chunks"), request.reading.next if request.reading else 0),
            upstream_status=status if least <= status <= most else None, body=body))

    def _on_error_of_nobody(self, fields: wire.Fields, now: float) -> None:
        """An error without ref and id."""
        code, message = unpacking.text(fields, "code", "internal"), unpacking.text(fields, "message")
        if code == "unauthorized":
            return self.refused(message, now)  # the key was taken back
        if code not in ("bad_request", "too_large"):
            return
        if self._marks:  # it is about what was said before the first of them
            request = self._pending.get(self._marks[0][1])
            if request is not None:
                self._answer(request, error_of(code, message, id=request.id or None))
            return
        # One of these messages could not be read, and nobody knows which: all that they say is said again one by one.
        self._suspects.extend(request.ref for request in self._pending.values() if request.message > self._read_up_to)
        if self._suspects:
            self._mark(NOBODY)

    def _mark(self, ref: int) -> None:
        """A ping right behind what is sent now: what is said before its answer is about nothing that is sent later."""
        self._marks.append((self._message, ref))
        self._own.append(wire.encode("ping", {"ref": MARK_REF}))

    def _on_status(self, request: Request, fields: wire.Fields, now: float) -> None:
        if request.reading is not None:  # its fetch is over
            return self._fetch_later(request, now)
        if request.kind in ("status", "cancel"):
            return self._answer(request, status_of(fields))
        if request.kind != "fetch":
            self.counters.dropped_answers += 1
        elif request.wait_until is None or now < request.wait_until:
            self._to_send.append(request.ref)
        else:
            state = unpacking.text(fields, "state", "unknown")
            self._answer(request, NotOverError(f"the job is {state}; its answer did not come in time", state=state,
                                               id=request.id))

    # ---- watches ----------------------------------------------------------------------------------------------

    @staticmethod
    def _follow_anew(request: Request) -> Following:
        before = request.following
        assert before is not None
        request.following = Following(before.begun or before.lost)
        request.following.left_out = before.left_out
        return request.following

    def _on_watching(self, request: Request, fields: wire.Fields) -> None:
        following = request.following
        if following is None:
            self.counters.dropped_answers += 1
            return
        seq = unpacking.required_number(fields, "seq")
        if following.begun and seq == following.next and not following.lost:
            return  # a renewal
        if following.begun and seq < following.next:  # the broker had let go of it, and has it anew
            following = self._follow_anew(request)
        if following.begun:  # the last events found no room on their way
            following.lost, following.left_out = True, following.left_out + seq - following.next
        else:
            following.taken = following.said = seq
        following.begun, following.next = True, seq
        self._tell(request, following, {"what": "watching", "seq": seq})

    def _on_event(self, request: Request, fields: wire.Fields) -> None:
        following = request.following
        if following is None or not following.begun or (seq := unpacking.required_number(fields, "seq")) < following.next:
            self.counters.dropped_answers += 1
            return
        missing = unpacking.whole_number(fields, "left_out") + seq - following.next  # those in between found no room on their way
        if missing or fields.get("gap"):
            following.lost, following.left_out = True, following.left_out + missing
        following.next = seq + 1
        self._tell(request, following, fields)

    def _tell(self, request: Request, following: Following, fields: wire.Fields) -> None:
        """Hands an event to the reader, or leaves it out where too many wait for it."""
        if request.unread >= UNREAD_EVENTS_MAX:
            following.lost = True
            if fields.get("what") != "watching":
                following.left_out += 1
                following.taken = following.next
                self._say_seen(request, following)
            return
        event = event_of(fields, following.lost, following.left_out)
        following.lost, following.left_out = False, 0
        if request.sink is not None:
            request.unread += 1
            self.events.append((request.sink, request.token, Change(request.ref, following, event)))

    # ---- streams ----------------------------------------------------------------------------------------------

    def _on_chunk(self, request: Request, fields: wire.Fields, body: bytes, now: float) -> None:
        reading = request.reading
        if reading is None or (seq := unpacking.required_number(fields, "seq")) < reading.next:
            self.counters.dropped_answers += 1
            return
        reading.heard_at = now
        if seq > reading.next:  # the broker had no room for a piece in between
            self.counters.dropped_answers += 1
            return self._fetch_later(request, now)
        reading.fetch_at = None
        reading.ends_without_pieces = 0
        if reading.next == reading.first:  # from now on it is asked for with a fetch
            reading.by_fetch = True
            self.freed_bytes += request.body_bytes
            request.body, request.body_bytes = b"", 0
        reading.next += 1
        reading.sizes.append(len(body))
        if request.sink is not None:
            self.events.append((request.sink, request.token, Piece(request.ref, seq, body)))

    def _said_all(self, reading: Reading) -> None:
        """What the reader has taken is now known to the broker, or on its way there."""
        for _ in range(reading.taken - reading.said):
            reading.sizes.popleft()
        reading.said = reading.taken
        reading.unsaid_bytes, reading.seen_due, reading.seen_at = 0, False, None

    def _fetch(self, request: Request) -> None:
        assert request.reading is not None
        request.reading.fetch_at = None
        request.reading.by_fetch = True
        self._to_send.append(request.ref)

    def _fetch_later(self, request: Request, now: float) -> None:
        """Asks for the pieces from the next one on, but not while the answer to the last fetch may be on its way."""
        assert request.reading is not None
        if request.reading.fetch_at is not None:
            return
        if request.sent_at is None or now >= request.sent_at + FETCH_PAUSE:
            request.sent_at = now
            return self._fetch(request)
        due = now + FETCH_PAUSE
        request.reading.fetch_at = due
        self._at(due, request.ref, "fetch")

    def _lacks_pieces(self, request: Request, fields: wire.Fields) -> bool:
        """Whether a stream's end came without the pieces before it; asks for these and the end again."""
        reading, chunks = request.reading, unpacking.whole_number(fields, "chunks")
        if reading is None or chunks <= reading.next:
            return False
        reading.ends_without_pieces += 1
        if reading.ends_without_pieces < ENDS_WITHOUT_PIECES_MAX:
            self._fetch(request)
        else:
            self._end(request, GoneError(f"pieces {reading.next} to {chunks - 1} of the answer were lost, and the broker "
                                         "sends only its end", id=request.id, chunks=chunks, local=True))
        return True

    # ---- ends -------------------------------------------------------------------------------------------------

    def _answer(self, request: Request, outcome: Any) -> None:
        self.counters.answered += 1
        if self._follows and request.kind in ABOUT_JOBS and not request.sought and _is_unknown(outcome):
            del self._pending[request.ref]
            return self.unknown.append((request, outcome))
        self._end(request, outcome)

    def finish(self, request: Request, outcome: Any) -> None:
        """Ends a request that was put aside."""
        self._pending[request.ref] = request
        self._end(request, outcome)

    def _end(self, request: Request, outcome: Any) -> None:
        self._forget(request)
        if request.sink is not None:
            self.events.append((request.sink, request.token, outcome))

    def _forget(self, request: Request) -> None:
        del self._pending[request.ref]
        self.freed += 1
        self.freed_bytes += request.body_bytes


def _pong_of(fields: wire.Fields, round_trip: float) -> Pong:
    return Pong(round_trip, unpacking.optional_text(fields, "version"), unpacking.whole_number(fields, "now_ms") / 1000,
                unpacking.optional_text(fields, "shard"),
                {name: unpacking.texts(each, "endpoints") for each in unpacking.maps(fields, "shards")
                 if (name := unpacking.text(each, "name"))})


def _waits_since(request: Request) -> float:
    """Since when nothing was heard of it; requires that it was sent."""
    heard = request.reading.heard_at if request.reading else None
    return max(request.sent_at or 0.0, heard or 0.0)


def _waits_long(request: Request, now: float) -> bool:
    return (request.kind in ("submit", "stream", "follow", "leave") and request.sent_at is not None and request.refused_at is None
            and now - _waits_since(request) >= PROBE_AFTER)


def _id_bytes(request: Request) -> int:
    return len(request.id) * (1 if request.id.isascii() else 4)


def _is_unknown(outcome: Any) -> bool:
    return isinstance(outcome, NotFoundError) or isinstance(outcome, Status) and outcome.state == "unknown"


def closed_error(id: str) -> LaneMQError:
    return CancelledError("the client was closed before the answer came", id=id or None, local=True)
