# SPDX-License-Identifier: Apache-2.0
"""A thread with sockets that drives sessions: the input and output of clients and of workers."""

from __future__ import annotations

import errno
import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import zmq
from zmq.utils.monitor import parse_monitor_message

from . import names
from .settings import ENDPOINTS_MAX, Peer, check_endpoint

#: In messages: what one side may queue while the other is busy. The bounds of the sessions count requests and bytes.
QUEUE_MESSAGES_MAX = 1000
RECEIVED_PER_TURN = 1000  # so that sending does not wait for all of them
RECONNECT_MS = 100
HANDSHAKE_MS = 5000
FRAME_SLACK_BYTES = 1024 * 1024
LONGEST_SLEEP = 60.0
EVENTS = (zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CONNECT_RETRIED | zmq.EVENT_HANDSHAKE_FAILED_AUTH
          | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
MECHANISM_MISMATCH = 0x11000002  # ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH


class Session(Protocol):
    """What a driver needs of a session; session.py and worker_session.py say what each means."""

    def connected(self) -> None: ...
    def disconnected(self, now: float) -> None: ...
    def found_nobody(self, now: float) -> None: ...
    def found_address(self, now: float) -> None: ...
    def go_round(self, places: int) -> None: ...
    def refused(self, message: str, now: float) -> None: ...
    def received(self, frames: list[bytes], now: float) -> None: ...
    def advance(self, now: float) -> None: ...
    def next_wakeup(self) -> float | None: ...
    def next_message(self, now: float) -> list[bytes] | None: ...
    def take_told(self) -> list[str]: ...
    def take_reopen(self, now: float) -> bool: ...
    def reopen_failed(self, now: float) -> None: ...


class Link:
    """A DEALER socket that is connected to one of the peer's endpoints, and the monitor that tells of it. Of one thread.

    An endpoint with a name is as many places as the name has addresses: they are looked up when its turn comes, and have theirs
    before the next endpoint. `ring` is called when a look-up has ended, on another thread."""

    def __init__(self, context: zmq.Context[Any], peer: Peer, body_bytes_max: int, ring: Callable[[], None]) -> None:
        self._context, self._peer, self._frame_bytes_max = context, peer, body_bytes_max + FRAME_SLACK_BYTES
        self._ring = ring
        self.endpoints = peer.endpoints
        self.endpoint = self.endpoints[0]  # where it is connected to, or about to be
        self._lookup: names.Lookup | None = None  # that it waits for, until `look_until`
        self.look_until = float("inf")
        self._further: deque[str] = deque()  # places of this endpoint whose turn comes before the next endpoint's
        self._places_of: dict[str, int] = {}  # how many each name had at its last look-up
        self._place = ""  # what the socket is connected to; empty: nothing
        self.reached = False  # a handshake has succeeded, and the connection is not lost since
        for endpoint in self.endpoints[1:]:  # a slip in one would show only when it is needed
            self._probe(endpoint)
        self.open()

    def go_round(self, endpoints: Iterable[str]) -> None:
        """Later connections are to these. What is no endpoint is left out; where none is left all stays as it is."""
        endpoints = tuple(endpoints)
        if endpoints != self.endpoints:
            self.endpoints = tuple(each for each in endpoints if self._is_endpoint(each)) or self.endpoints
        if self.endpoint not in self.endpoints:
            self._further.clear()

    @property
    def places(self) -> int:
        """How many there are, as far as names were looked up."""
        return sum(self._places_of.get(endpoint, 1) for endpoint in self.endpoints)

    @property
    def leads_on(self) -> bool:
        """Whether there is another place to go to where nobody is at this one: a name may have another address by now."""
        return self.places > 1 or names.named(self.endpoint) is not None

    def _is_endpoint(self, text: str) -> bool:
        try:
            check_endpoint(text)
            self._probe(text)
        except (ValueError, zmq.ZMQError):
            return False
        return True

    def _probe(self, endpoint: str) -> None:
        if names.named(endpoint) is not None:  # its form is right
            return
        with self._context.socket(zmq.DEALER) as probe:
            probe.linger = 0
            self._connect(probe, endpoint)

    def open(self) -> None:
        """Raises ValueError for an endpoint that is none, OSError where no descriptors are left."""
        self.monitor: zmq.Socket[Any] | None = None
        self.socket = self._context.socket(zmq.DEALER)
        try:
            for option, value in ((zmq.LINGER, 0), (zmq.SNDHWM, QUEUE_MESSAGES_MAX), (zmq.RCVHWM, QUEUE_MESSAGES_MAX),
                                  (zmq.MAXMSGSIZE, self._frame_bytes_max), (zmq.RECONNECT_IVL, RECONNECT_MS),
                                  (zmq.HANDSHAKE_IVL, HANDSHAKE_MS), (zmq.TCP_KEEPALIVE, 1), (zmq.IPV6, 1)):
                self.socket.setsockopt(option, value)
            if self._peer.broker_key:
                self.socket.curve_serverkey = self._peer.broker_key
                self.socket.curve_publickey, self.socket.curve_secretkey = self._peer.public_key, self._peer.secret_key
            self.monitor = self.socket.get_monitor_socket(EVENTS)
            if self._further:
                self._go_to(self._further.popleft())
            elif (name := names.named(self.endpoint)) is not None:
                self._lookup, self.look_until = names.look_up(name.host, self._ring), time.monotonic() + names.LOOKUP_WITHIN
            else:
                self._go_to(self.endpoint)
        except zmq.ZMQError as error:
            self.close()
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                raise OSError(error.errno, "cannot make a socket; raise the limit of open files") from None
            raise
        except ValueError:
            self.close()
            raise

    @staticmethod
    def _connect(to: zmq.Socket[Any], endpoint: str) -> None:
        try:
            to.connect(endpoint)
        except zmq.ZMQError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                raise
            raise ValueError(f"{endpoint!r} is no endpoint to connect to ({error}); give one such as tcp://127.0.0.1:5570") from None

    @property
    def looked_up(self) -> bool:
        """Whether settle() has something to do."""
        return self._lookup is not None and self._lookup.addresses is not None

    def settle(self, now: float) -> bool | None:
        """Connects when the name was looked up: True. False: it has no address, or does not answer. None: nothing to do."""
        if self._lookup is None or (self._lookup.addresses is None and now < self.look_until):
            return None
        name, addresses = names.named(self.endpoint), self._lookup.addresses or ()
        assert name is not None
        self._lookup, self.look_until = None, float("inf")
        self._further = deque(name.at(address) for address in addresses)
        self._places_of = {each: count for each, count in self._places_of.items() if each in self.endpoints}
        self._places_of[self.endpoint] = max(len(addresses), 1)
        if not self._further:
            return False
        self._go_to(self._further.popleft())
        return True

    def _go_to(self, place: str) -> None:
        self._connect(self.socket, place)
        self._place = place

    def let_go(self) -> None:
        """A connection is lost that was there, and what it has brought is read. libzmq would make a new one, on which it says what
        the old one had not said; the session makes its own, and the broker would hear all of that twice. Where there was no
        handshake nothing was said, and libzmq goes on trying: the session takes what it comes to."""
        place, self._place = self._place, ""
        if place and not self.socket.closed:
            self.socket.disconnect(place)

    def turn(self) -> None:
        """Opens it anew, at the next place. Raises as open()."""
        self.close()
        if not self._further:
            after = self.endpoints.index(self.endpoint) + 1 if self.endpoint in self.endpoints else 0
            self.endpoint = self.endpoints[after % len(self.endpoints)]
        self.open()

    def close(self, linger_ms: int = 0) -> None:
        self._lookup, self.look_until, self.reached, self._place = None, float("inf"), False, ""
        if self.socket.closed:
            return
        if self.monitor is not None:
            self.socket.disable_monitor()
            self.monitor.close()
        self.socket.close(linger=linger_ms)


class Line:
    """A session and the link that it speaks by. Of one thread."""

    def __init__(self, context: zmq.Context[Any], peer: Peer, session: Session, body_bytes_max: int, log: logging.Logger,
                 ring: Callable[[], None]) -> None:
        """Raises as Link.open(). `ring`: as Link's."""
        self._peer, self.session, self._log = peer, session, log
        self.link = Link(context, peer, body_bytes_max, ring)
        self._unsent: list[bytes] | None = None
        self._lost = False  # the connection, and what it has brought may not all be read
        self._reopened = 0  # since the last word

    def turn(self, now: float) -> bool:
        """Whether there may be more to do at once."""
        received = self._receive()  # first: what an old connection has said still counts, and what is said next knows of it
        if self._lost and not received:
            self._lost = False
            self.link.let_go()
        self._settle(now)
        self.session.advance(now)
        if told := self.session.take_told():
            self.go_round(list(dict.fromkeys([*self.link.endpoints, *told]))[:ENDPOINTS_MAX])
        if self.session.take_reopen(now):
            self._reopen(now)
        return self._send(now) or received

    def _settle(self, now: float) -> None:
        connects = self.link.settle(now)
        if connects is None:
            return
        self.session.go_round(self.link.places)
        if connects:
            self.session.found_address(now)
        else:
            self.session.found_nobody(now)

    def next_wakeup(self) -> float:
        due = self.session.next_wakeup()
        return self.link.look_until if due is None else min(due, self.link.look_until)

    def go_round(self, endpoints: Iterable[str]) -> None:
        """Later connections are to these. See Link."""
        self.link.go_round(endpoints)
        self.session.go_round(self.link.places)

    def close(self, linger_ms: int) -> None:
        """Messages have `linger_ms` to leave, where there is a connection."""
        self.link.close(linger_ms if self.link.reached else 0)

    def _send(self, now: float) -> bool:
        sent = False
        while True:
            message = self._unsent or self.session.next_message(now)
            self._unsent = None
            if message is None:
                return sent
            try:
                self.link.socket.send_multipart(message, zmq.NOBLOCK)
            except zmq.Again:  # no room: its place is before all others
                self._unsent = message
                return sent
            sent = True

    def _receive(self) -> bool:
        if self.link.socket.closed:
            return False
        receive, now = self.link.socket.recv_multipart, time.monotonic()
        for count in range(RECEIVED_PER_TURN):
            try:
                frames = receive(zmq.NOBLOCK)
            except zmq.Again:
                break
            self.session.received(frames, now)
        else:
            count = RECEIVED_PER_TURN
        if count and self._reopened:
            if self._reopened >= self.link.places:
                self._log.info("the broker at %s answers again", self.link.endpoint)
            self._reopened = 0
        return count > 0

    def _reopen(self, now: float) -> None:
        self._reopened += 1
        if self._reopened == self.link.places:  # each of them was tried
            self._log.warning("no word from the broker at %s: connecting again", ", ".join(self.link.endpoints))
        self._unsent, self._lost = None, False
        try:
            self.link.turn()
        except OSError as error:
            self._log.error("%s", error)
            self.session.reopen_failed(now)

    def watch(self) -> None:
        """Takes in what the monitor tells."""
        while self.link.monitor is not None:
            try:
                event = parse_monitor_message(self.link.monitor.recv_multipart(zmq.NOBLOCK))
            except zmq.Again:
                return
            now = time.monotonic()
            if event["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.link.reached = True
                self.session.connected()
            elif event["event"] == zmq.EVENT_DISCONNECTED:
                self._lost = self._lost or self.link.reached
                self.link.reached = False
                self.session.disconnected(now)
            elif event["event"] == zmq.EVENT_CONNECT_RETRIED and self.link.leads_on:
                self.session.found_nobody(now)
            elif event["event"] == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                self.session.refused(f"the broker at {self.link.endpoint} does not take this key; its operator puts the public key "
                                     "into the broker's keys_folder", now)
            elif event["event"] == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL and event["value"] == MECHANISM_MISMATCH:
                self.session.refused(
                    f"the broker at {self.link.endpoint} asks for no keys, and this peer shows one; leave the keys out"
                    if self._peer.broker_key else f"the broker at {self.link.endpoint} asks for keys; give broker_key, the "
                    "broker's public key, and secret_key, a key of one's own", now)

    def register(self, poller: zmq.Poller) -> None:
        if not self.link.socket.closed and self.link.monitor is not None:
            poller.register(self.link.socket, zmq.POLLIN | (zmq.POLLOUT if self._unsent else 0))
            poller.register(self.link.monitor, zmq.POLLIN)


class Driver:
    """Runs sessions on a thread of its own.

    `take_inbox(now)` is called at the begin of each turn, to tell the sessions what callers put into `inbox`; `after_turn()` at
    its end; both on the driver's thread. Whoever has put something into the inbox calls `wake()`, from any thread.
    """

    def __init__(self, name: str, peer: Peer, session: Session, body_bytes_max: int, log: logging.Logger,
                 inbox: deque[Any], take_inbox: Callable[[float], None], after_turn: Callable[[], None]) -> None:
        self._body_bytes_max, self._log = body_bytes_max, log
        self._inbox, self._take_inbox, self._after_turn = inbox, take_inbox, after_turn
        self._context: zmq.Context[Any] = zmq.Context()
        self._lines: list[Line] = []
        self._asleep = False
        try:
            self.add(peer, session)
        except BaseException:
            self._context.term()
            raise
        self._bell, self._clapper = socket.socketpair()
        self._bell.setblocking(False)
        self._clapper.setblocking(False)
        self._ending = False
        self._linger_ms = 0
        self.fault: BaseException | None = None  # what ended the thread, where it was no end()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        if self._asleep:
            try:
                self._clapper.send(b"!")
            except OSError:  # it has rung already, or the driver is gone
                pass

    def end(self, linger_ms: int = 0, patience: float | None = None) -> None:
        """Ends the thread, from any other one or from its own; messages that were sent have `linger_ms` to leave."""
        self._linger_ms = linger_ms
        self._ending = True
        self.wake()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(patience)

    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def endpoint(self) -> str:
        """Where the first session's link is, or is about to be."""
        return self._lines[0].link.endpoint

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Where it may be."""
        return self._lines[0].link.endpoints

    # ---- on the driver's thread ---------------------------------------------------------------------------------

    def add(self, peer: Peer, session: Session) -> None:
        """Runs one more session. Raises as Link.open()."""
        self._lines.append(Line(self._context, peer, session, self._body_bytes_max, self._log, self.wake))

    def go_round(self, endpoints: Iterable[str]) -> None:
        """The first session's later connections are to these. See Link."""
        self._lines[0].go_round(endpoints)

    def _run(self) -> None:
        try:
            while not self._ending:
                if not self._turn() and not self._ending:
                    self._sleep()
            if self._inbox:  # what was said before the end
                self._turn()
        except BaseException as fault:  # a mistake of this package: nobody may wait for ever
            self.fault = fault
            self._log.exception("the input and output of LaneMQ failed")
        finally:
            for line in self._lines:
                line.close(self._linger_ms)
            self._bell.close()
            self._clapper.close()
            self._after_turn()
            self._context.term()

    def _turn(self) -> bool:
        """Whether there may be more to do at once."""
        now = time.monotonic()
        self._take_inbox(now)
        more = [line.turn(now) for line in self._lines]
        self._after_turn()
        return any(more)

    def _sleep(self) -> None:
        self._asleep = True  # from here on who wants something rings; what was wanted before is looked for once more
        if self._inbox or any(line.link.looked_up for line in self._lines):
            self._asleep = False
            return
        poller = zmq.Poller()
        poller.register(self._bell, zmq.POLLIN)
        for line in self._lines:
            line.register(poller)
        due = min(line.next_wakeup() for line in self._lines)
        left = min(max(0.0, due - time.monotonic()), LONGEST_SLEEP)
        if self._ending:
            left = 0.0
        ready = dict(poller.poll(int(left * 1000) + (1 if left > 0 else 0)))
        self._asleep = False
        if self._bell.fileno() in ready:
            try:
                self._bell.recv(4096)
            except BlockingIOError:
                pass
        for line in self._lines:
            if not line.link.socket.closed and line.link.monitor in ready:
                line.watch()
