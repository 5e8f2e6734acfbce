# SPDX-License-Identifier: Apache-2.0
"""Looks up the names of endpoints, each on a thread of its own.

libzmq would look them up on the one thread that moves all messages of its context: a DNS server that does not answer would hold
up each connection. It gets numbers instead.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

LOG = logging.getLogger("lanemq")
#: A name without an answer after this time counts as one where nobody is; its look-up goes on.
LOOKUP_WITHIN = 1.0
#: A look-up that takes longer has another one beside it: the server that does not answer may answer the next question at once.
AGAIN_AFTER = 6.0
#: Look-ups under way in this process, one for each name; beyond that a name counts as one where nobody is.
LOOKUPS_MAX = 64
#: For so long an answer that came too late serves those who ask next: where the first DNS server is dead, each takes 5 s.
LATE_KEPT = 30.0
ADDRESSES_MAX = 16  # of one name

_NAMED = re.compile(r"(tcp://(?:[^;]*;)?)([A-Za-z0-9][A-Za-z0-9._-]*):([0-9]+)")


class Named(NamedTuple):
    """An endpoint with a name in it."""

    before: str  # tcp://, and the source address where it has one
    host: str
    port: str

    def at(self, address: str) -> str:
        return f"{self.before}{address}:{self.port}"


def named(endpoint: str) -> Named | None:
    """None: there is no name in it to look up."""
    match = _NAMED.fullmatch(endpoint)
    if match is None:
        return None
    with suppress(OSError):
        socket.inet_pton(socket.AF_INET, match[2])
        return None
    return Named(*match.groups())


class Lookup:
    """One look-up. `addresses`: what it has found, as they stand in an endpoint; None: it is under way."""

    def __init__(self) -> None:
        self.addresses: tuple[str, ...] | None = None
        self.begun = time.monotonic()
        self.ended = 0.0
        self.rings: set[Callable[[], None]] = set()


_lock = threading.Lock()
_lookups: dict[str, Lookup] = {}  # by host: those under way, and answers that came late
_late: list[Lookup] = []  # under way, and another one beside each


def look_up(host: str, ring: Callable[[], None]) -> Lookup:
    """The look-up of a name, which others may have begun. `ring` is called when it ends, on another thread, where it has not yet."""
    with _lock:
        for name, old in list(_lookups.items()):
            if old.addresses is not None and time.monotonic() - old.ended > LATE_KEPT:
                del _lookups[name]
        lookup = _lookups.get(host)
        if lookup is not None and lookup.addresses is None and time.monotonic() - lookup.begun > AGAIN_AFTER:
            _late.append(lookup)
            lookup = None
        if lookup is None:
            lookup = Lookup()
            if len(_lookups) + len(_late) >= LOOKUPS_MAX:
                lookup.addresses = ()
                return lookup
            try:
                # It ends with the process, which must not wait for a DNS server.
                threading.Thread(target=_run, args=(host, lookup), name=f"lanemq-name-{host}", daemon=True).start()
            except RuntimeError:  # no more threads
                lookup.addresses = ()
                return lookup
            _lookups[host] = lookup
        if lookup.addresses is None:
            lookup.rings.add(ring)
        return lookup


def _run(host: str, lookup: Lookup) -> None:
    addresses: tuple[str, ...] = ()
    try:
        # As bytes, so that it goes to the system as it is.
        found = socket.getaddrinfo(host.encode(), None, type=socket.SOCK_STREAM)
        numbers = dict.fromkeys(str(where[0]) for *_, where in found)
        addresses = tuple(f"[{number}]" if ":" in number else number for number in numbers)[:ADDRESSES_MAX]
    except Exception as error:
        LOG.debug("the name %s cannot be looked up: %s", host, error)
    with _lock:
        answered = [lookup] if lookup.addresses is None else []
        if lookup in _late:
            _late.remove(lookup)
            beside = _lookups.get(host)
            if addresses and beside is not None and beside.addresses is None:  # it is the answer of that one, too
                answered.append(beside)
        rings: set[Callable[[], None]] = set()
        for one in answered:
            one.addresses, one.ended = addresses, time.monotonic()
            rings |= one.rings
            one.rings = set()
        if _lookups.get(host) is lookup and (not lookup.addresses or lookup.ended - lookup.begun < LOOKUP_WITHIN):
            del _lookups[host]  # who asks next asks anew
    for ring in rings:
        ring()


def _forget() -> None:
    """In the child of a fork: look-ups that were under way have no thread there."""
    global _lock
    _lock = threading.Lock()
    _lookups.clear()
    _late.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
