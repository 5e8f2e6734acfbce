# SPDX-License-Identifier: Apache-2.0
"""A thread with a socket that drives a session: the input and output of clients and of workers."""

from __future__ import annotations

import errno
import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import zmq
from zmq.utils.monitor import parse_monitor_message

from .settings import Peer

#: In messages: what one side may queue while the other is busy. The bounds of the sessions count requests and bytes.
QUEUE_MESSAGES_MAX = 1000
RECEIVED_PER_TURN = 1000  # so that sending does not wait for all of them
RECONNECT_MS = 100
HANDSHAKE_MS = 5000
FRAME_SLACK_BYTES = 1024 * 1024
LONGEST_SLEEP = 60.0
EVENTS = (zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_AUTH
          | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
MECHANISM_MISMATCH = 0x11000002  # ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH


class Session(Protocol):
    """What a driver needs of a session; session.py and worker_session.py say what each means."""

    def connected(self) -> None: ...
    def disconnected(self, now: float) -> None: ...
    def refused(self, message: str, now: float) -> None: ...
    def received(self, frames: list[bytes], now: float) -> None: ...
    def advance(self, now: float) -> None: ...
    def next_wakeup(self) -> float | None: ...
    def next_message(self, now: float) -> list[bytes] | None: ...
    def take_reopen(self, now: float) -> bool: ...
    def reopen_failed(self, now: float) -> None: ...


class Link:
    """A DEALER socket, and the monitor that tells of its connection. Of one thread."""

    def __init__(self, context: zmq.Context[Any], peer: Peer, body_bytes_max: int) -> None:
        self._context, self._peer, self._frame_bytes_max = context, peer, body_bytes_max + FRAME_SLACK_BYTES
        self.open()

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
            self.socket.connect(self._peer.endpoint)
        except zmq.ZMQError as error:
            self.close()
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                raise OSError(error.errno, "cannot make a socket; raise the limit of open files") from None
            raise ValueError(f"{self._peer.endpoint!r} is no endpoint to connect to ({error}); give one such as "
                             "tcp://127.0.0.1:5570") from None

    def close(self, linger_ms: int = 0) -> None:
        if self.socket.closed:
            return
        if self.monitor is not None:
            self.socket.disable_monitor()
            self.monitor.close()
        self.socket.close(linger=linger_ms)


class Driver:
    """Runs a session on a thread of its own.

    `take_inbox(now)` is called at the begin of each turn, to tell the session what callers put into `inbox`; `after_turn()` at
    its end; both on the driver's thread. Whoever has put something into the inbox calls `wake()`, from any thread.
    """

    def __init__(self, name: str, peer: Peer, session: Session, body_bytes_max: int, log: logging.Logger,
                 inbox: deque[Any], take_inbox: Callable[[float], None], after_turn: Callable[[], None]) -> None:
        self._peer, self._session, self._log = peer, session, log
        self._inbox, self._take_inbox, self._after_turn = inbox, take_inbox, after_turn
        self._context: zmq.Context[Any] = zmq.Context()
        try:
            self._link = Link(self._context, peer, body_bytes_max)
        except BaseException:
            self._context.term()
            raise
        self._bell, self._clapper = socket.socketpair()
        self._bell.setblocking(False)
        self._clapper.setblocking(False)
        self._asleep = False
        self._ending = False
        self._linger_ms = 0
        self._unsent: list[bytes] | None = None
        self._silent_since: float | None = None  # told
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

    # ---- on the driver's thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._ending:
                if not self._turn() and not self._ending:
                    self._sleep()
        except BaseException as fault:  # a mistake of this package: nobody may wait for ever
            self.fault = fault
            self._log.exception("the input and output of LaneMQ failed")
        finally:
            self._link.close(self._linger_ms)
            self._bell.close()
            self._clapper.close()
            self._after_turn()
            self._context.term()

    def _turn(self) -> bool:
        """Whether there may be more to do at once."""
        now = time.monotonic()
        self._take_inbox(now)
        received = self._receive()  # first: what an old connection has said still counts, and what is said next knows of it
        self._session.advance(now)
        if self._session.take_reopen(now):
            self._reopen(now)
        sent = self._send(now)
        self._after_turn()
        return sent or received

    def _send(self, now: float) -> bool:
        sent = False
        while True:
            message = self._unsent or self._session.next_message(now)
            self._unsent = None
            if message is None:
                return sent
            try:
                self._link.socket.send_multipart(message, zmq.NOBLOCK)
            except zmq.Again:  # no room: its place is before all others
                self._unsent = message
                return sent
            sent = True

    def _receive(self) -> bool:
        if self._link.socket.closed:
            return False
        receive, now = self._link.socket.recv_multipart, time.monotonic()
        for count in range(RECEIVED_PER_TURN):
            try:
                frames = receive(zmq.NOBLOCK)
            except zmq.Again:
                break
            self._session.received(frames, now)
        else:
            count = RECEIVED_PER_TURN
        if count and self._silent_since is not None:
            self._silent_since = None
            self._log.info("the broker at %s answers again", self._peer.endpoint)
        return count > 0

    def _reopen(self, now: float) -> None:
        if self._silent_since is None:
            self._silent_since = now
            self._log.warning("no word from the broker at %s: connecting again", self._peer.endpoint)
        self._unsent = None
        self._link.close()
        try:
            self._link.open()
        except OSError as error:
            self._log.error("%s", error)
            self._session.reopen_failed(now)

    def _watch(self) -> None:
        while self._link.monitor is not None:
            try:
                event = parse_monitor_message(self._link.monitor.recv_multipart(zmq.NOBLOCK))
            except zmq.Again:
                return
            if event["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._session.connected()
            elif event["event"] == zmq.EVENT_DISCONNECTED:
                self._session.disconnected(time.monotonic())
            elif event["event"] == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                self._session.refused(f"the broker at {self._peer.endpoint} does not take this key; its operator puts the "
                                      "public key into the broker's keys_folder", time.monotonic())
            elif event["event"] == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL and event["value"] == MECHANISM_MISMATCH:
                self._session.refused(
                    f"the broker at {self._peer.endpoint} asks for no keys, and this peer shows one; leave the keys out"
                    if self._peer.broker_key else f"the broker at {self._peer.endpoint} asks for keys; give broker_key, the "
                    "broker's public key, and secret_key, a key of one's own", time.monotonic())

    def _sleep(self) -> None:
        self._asleep = True  # from here on who wants something rings; what was wanted before is looked for once more
        if self._inbox:
            self._asleep = False
            return
        poller = zmq.Poller()
        poller.register(self._bell, zmq.POLLIN)
        if not self._link.socket.closed and self._link.monitor is not None:
            poller.register(self._link.socket, zmq.POLLIN | (zmq.POLLOUT if self._unsent else 0))
            poller.register(self._link.monitor, zmq.POLLIN)
        due = self._session.next_wakeup()
        left = LONGEST_SLEEP if due is None else min(max(0.0, due - time.monotonic()), LONGEST_SLEEP)
        if self._ending:
            left = 0.0
        ready = dict(poller.poll(int(left * 1000) + (1 if left > 0 else 0)))
        self._asleep = False
        if self._bell.fileno() in ready:
            try:
                self._bell.recv(4096)
            except BlockingIOError:
                pass
        if not self._link.socket.closed and self._link.monitor in ready:
            self._watch()
