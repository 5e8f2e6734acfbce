# SPDX-License-Identifier: Apache-2.0
"""What the sync and the asyncio client share: the session's driver, the inbox that callers fill, and the bounds."""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Any

from . import _tables, settings, wire
from .drive import Driver
from .errors import ClientFullError, LaneMQError, TooLargeError
from .session import CONTROL_TIMEOUT, Change, Counters, Request, Session, Sink, closed_error
from .shards import Shards

LOG = logging.getLogger("lanemq")
#: Requests without an answer, of one client.
PENDING_MAX = 10_000
#: The bytes of their bodies. A larger body is taken when nothing else is pending.
PENDING_BYTES_MAX = 256 * 1024 * 1024
#: How long close() waits until the broker has heard of what is cancelled, and how long where there is none that answers.
CLOSE_TIMEOUT = 3.0
AWAY_TIMEOUT = 0.3
LOOK_EVERY = 0.05  # whether it still answers
LINGER_MS = 500  # for the last messages to leave


def make_id() -> str:
    """An id that nobody guesses: whoever knows a job's id may read its answer."""
    return os.urandom(16).hex()


# A signal that comes just before the main thread waits is acted on when that wait ends: so none is longer.
SIGNALS_SECONDS = 1.0


class ThreadSink:
    """Outcomes for a thread that waits. `take()` returns those of a turn, at least one."""

    __slots__ = ("_queue", "_turn")

    def __init__(self) -> None:
        self._queue: SimpleQueue[list[tuple[Any, Any]]] = SimpleQueue()
        self._turn: list[tuple[Any, Any]] = []

    def put(self, token: Any, value: Any) -> None:
        self._turn.append((token, value))

    def flush(self) -> None:
        turn, self._turn = self._turn, []
        self._queue.put(turn)

    def take(self, timeout: float | None = None) -> list[tuple[Any, Any]]:
        """Raises queue.Empty after `timeout` seconds."""
        if timeout is not None or threading.current_thread() is not threading.main_thread():
            return self._queue.get(timeout=timeout)
        while True:
            try:
                return self._queue.get(timeout=SIGNALS_SECONDS)
            except Empty:
                pass

    def wake(self) -> None:
        """Has one take() return nothing, now or later."""
        self._queue.put([])


class Abandoned:
    """Requests that nobody waits for any more, until the broker has heard of it. A sink of their cancels' answers."""

    __slots__ = ("_left", "_settled")

    def __init__(self) -> None:
        self._left = 1  # the engine has not seen all of them yet
        self._settled = threading.Event()

    def add(self) -> None:
        self._left += 1

    def put(self, token: Any, value: Any) -> None:
        self._left -= 1

    def flush(self) -> None:
        if self._left == 0:
            self._settled.set()

    def settle(self) -> None:
        self._settled.set()

    def wait(self, timeout: float) -> bool:
        return self._settled.wait(timeout)


class Engine:
    """A client's thread, its bounds, and its inbox. All methods may be called from any thread."""

    def __init__(self, peer: settings.Peer, pending_max: int, pending_bytes_max: int) -> None:
        self.pending_max, self.pending_bytes_max = pending_max, pending_bytes_max
        self._process = os.getpid()
        #: Requests to begin, or pairs of a method and its argument. Bounded as requests are, and pieces of streams.
        self._inbox: deque[Request | tuple[Callable[[Any, float], None], Any]] = deque()
        self._peer, self._refs = peer, itertools.count(1)
        home = self._session_at(peer)
        self._lock = threading.Lock()  # guards the four below
        self._pending, self._pending_bytes = 0, 0
        self._room_wanted: deque[Callable[[], None]] = deque()  # one for each caller that waits for room
        self._closed = False
        self._idle = threading.Event()  # nothing is pending
        self._idle.set()
        self._driver = Driver("lanemq-client", peer, home, _tables.BODY_BYTES_MAX, LOG, self._inbox,
                              self._take_inbox, self._after_turn)
        self._shards = Shards(home, self._connect, self._inbox, self._driver)
        self._driver.start()
        _OPEN.add(self)

    @property
    def counters(self) -> dict[str, int]:
        counters = [session.counters for session in list(self._shards.sessions())]
        return {name: sum(getattr(each, name) for each in counters) for name in Counters.__slots__}

    def check_process(self) -> None:
        """Raises RuntimeError in the child of a fork: there is no thread here that would send anything."""
        if not self._is_own():
            raise RuntimeError(
                f"this client was made in the process {self._process}, and a fork takes neither its thread nor its connection along: "
                f"make a client in each process, behind the fork (this is the process {os.getpid()})")

    def _is_own(self) -> bool:
        return os.getpid() == self._process

    def has_place(self, request: Request) -> bool:
        """Counts a request, as take_place() does, if there is room and nothing speaks against it."""
        if request.body_bytes > _tables.BODY_BYTES_MAX:
            return False
        with self._lock:
            return not self._closed and self._driver.fault is None and self._count(request.body_bytes)

    def take_place(self, request: Request, when_room: Callable[[], None] | None) -> bool:
        """Counts a request. False: there is no room, and `when_room` is called once when there may be some, on the engine's
        thread; without it ClientFullError is raised. Raises TooLargeError for a body that no broker takes."""
        size = request.body_bytes
        if size > _tables.BODY_BYTES_MAX:
            raise TooLargeError(f"the body has {size} bytes, the limit is {_tables.BODY_BYTES_MAX} (body_bytes_max)",
                                id=request.id, local=True)
        with self._lock:
            if self._closed or self._driver.fault is not None:
                raise closed_error(request.id)
            if self._count(size):
                return True
            if when_room is not None:
                self._room_wanted.append(when_room)
                return False
        raise ClientFullError(
            f"this client waits for {self._pending} answers with {self._pending_bytes} bytes; the limits are "
            f"{self.pending_max} (pending_max) and {self.pending_bytes_max} (pending_bytes_max): wait for some first",
            id=request.id, local=True)

    def _count(self, size: int) -> bool:
        # Requires the lock.
        if self._pending >= self.pending_max or (self._pending_bytes and self._pending_bytes + size > self.pending_bytes_max):
            return False
        if self._pending == 0:
            self._idle.clear()
        self._pending += 1
        self._pending_bytes += size
        return True

    def begin(self, requests: Iterable[Request]) -> None:
        """Requires: take_place() for each."""
        self._inbox.extend(requests)
        self._driver.wake()

    def abandon(self, requests: Iterable[Request]) -> Abandoned:
        """Nobody waits for these any more: jobs among them are cancelled, where the broker may have them."""
        abandoned = Abandoned()
        if not self._driver.alive():  # it has cancelled all when it was closed
            abandoned.settle()
            return abandoned
        for request in requests:
            self._inbox.append((self._abandon, (request, abandoned)))
        self._inbox.append((self._abandoned, abandoned))
        self._driver.wake()
        return abandoned

    def seen(self, ref: int, seq: int) -> None:
        self._inbox.append((self._seen, (ref, seq)))
        self._driver.wake()

    def took(self, change: Change) -> None:
        self._inbox.append((self._took, change))
        self._driver.wake()

    def wait_until_idle(self, timeout: float) -> bool:
        """Until the broker has answered all there is: what was cancelled, mostly."""
        return self.wait_for_broker(self._idle, timeout)

    def wait_for_broker(self, heard: threading.Event | Abandoned, timeout: float) -> bool:
        """Until the broker has heard of something, up to `timeout` seconds, or AWAY_TIMEOUT while it does not answer."""
        begun = time.monotonic()
        while not heard.wait(LOOK_EVERY):
            now = time.monotonic()
            if not self._driver.alive():  # in the child of a fork, or closed
                return False
            # While the engine's own thread has not come to what it is told, nobody knows.
            answers = bool(self._inbox) or any(session.answers(now) for session in self._shards.sessions())
            if now - begun >= (timeout if answers else min(timeout, AWAY_TIMEOUT)):
                return False
        return True

    def stop_waiting(self) -> None:
        """Nothing new is taken any more; what is pending ends with `cancelled`, and its jobs are cancelled. All that is of the
        process that made the client: in the child of a fork this does nothing, and neither do the two around it."""
        if not self._is_own():
            return
        with self._lock:
            self._closed = True
            wanted, self._room_wanted = list(self._room_wanted), deque()
        for when_room in wanted:
            when_room()
        self._inbox.append((self._abandon_all, None))
        self._driver.wake()

    def end(self, patience: float = CLOSE_TIMEOUT) -> None:
        """Ends the thread, and waits for that up to `patience` seconds."""
        _OPEN.discard(self)
        if self._is_own():
            self._driver.end(LINGER_MS, patience)

    # ---- on the driver's thread -----------------------------------------------------------------------------------

    def _session_at(self, peer: settings.Peer) -> Session:
        return Session(time.monotonic(), random.random, endpoints=len(peer.endpoints), refs=self._refs)

    def _connect(self, endpoints: Iterable[str]) -> Session:
        """A session at another shard's endpoints. Raises ValueError, OSError."""
        peer = self._peer.at(endpoints)
        session = self._session_at(peer)
        self._driver.add(peer, session)
        return session

    def _take_inbox(self, now: float) -> None:
        self._shards.settle(now)
        inbox = self._inbox
        while inbox:
            item = inbox.popleft()
            if type(item) is Request:
                self._shards.begin(item, now)
            else:
                act, argument = item  # type: ignore[misc]
                act(argument, now)

    def _seen(self, said: tuple[int, int], now: float) -> None:
        self._shards.seen(*said, now)

    def _took(self, change: Change, _: float) -> None:
        self._shards.took(change)

    def _abandon(self, what: tuple[Request, Abandoned], now: float) -> None:
        request, abandoned = what
        if self._shards.abandon(request, now, abandoned):
            abandoned.add()

    @staticmethod
    def _abandoned(abandoned: Abandoned, _: float) -> None:
        abandoned.put(None, None)
        abandoned.flush()

    def _abandon_all(self, _: None, now: float) -> None:
        self._shards.abandon_all(now, closed_error)

    def _after_turn(self) -> None:
        if self._driver.fault is not None:
            fault = self._driver.fault
            self._shards.end_all(lambda id: LaneMQError(f"the client's thread failed: {fault!r}", id=id or None, local=True))
        sinks: dict[int, Sink] = {}
        for session in self._shards.sessions():
            if session.freed or session.freed_bytes:
                self._give_back(session)
            events, session.events = session.events, []
            for sink, token, value in events:
                sink.put(token, value)
                sinks[id(sink)] = sink
        for sink in sinks.values():
            sink.flush()

    def _give_back(self, session: Session) -> None:
        with self._lock:
            self._pending -= session.freed
            self._pending_bytes -= session.freed_bytes
            session.freed = session.freed_bytes = 0
            if self._pending == 0:
                self._idle.set()
            room = self.pending_max - self._pending
            wanted = [self._room_wanted.popleft() for _ in range(min(room, len(self._room_wanted)))]
        for when_room in wanted:
            when_room()


#: The engines of this process: at its end, while their threads still run, what is under way is cancelled.
_OPEN: weakref.WeakSet[Engine] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    engines = list(_OPEN)
    for engine in engines:
        engine.stop_waiting()
    until = time.monotonic() + CLOSE_TIMEOUT
    for engine in engines:
        engine.wait_until_idle(max(0.0, until - time.monotonic()))
        engine.end()


def control(kind: str, id: str = "", **more: Any) -> Request:
    """A question about a job."""
    more.setdefault("timeout", CONTROL_TIMEOUT)
    return Request(kind, id if kind == "ping" else wire.check_name("id", id), **more)
