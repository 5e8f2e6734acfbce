# SPDX-License-Identifier: Apache-2.0
"""LMQ1 messages as frames of bytes: docs/protocol/README.md, "Messages" and "Limits". Knows no socket."""

from __future__ import annotations

from typing import Any

from msgpack import ExtType, Timestamp, packb, unpackb

from ._tables import HEADER_DEPTH_MAX, INLINE_BYTES_MAX, MAP_ENTRIES_MAX, NAME_BYTES_MAX

Fields = dict[str, Any]

INT_MAX = 2**63 - 1
UPSTREAM_STATUS = 100, 599  # the least and the most of HTTP

#: What a later map of a batch does not inherit.
OWN = ("id", "ids", "ref", "job")


def packed_bytes(value: Any) -> int:
    """What a value takes on the wire."""
    return len(packb(value))


def encode(op: str, fields: Fields, body: bytes = b"") -> list[bytes]:
    """One message."""
    if not body:
        return [packb(("LMQ1", op, fields))]
    if len(body) <= INLINE_BYTES_MAX:
        return [packb(("LMQ1", op, fields, body))]
    return [packb(("LMQ1", op, fields)), body]


def encode_batch(op: str, maps: list[Fields], bodies: list[bytes]) -> list[bytes]:
    """Several messages in one; the maps leave out already what they inherit."""
    if any(bodies):
        return [packb(("LMQ1", op, maps, bodies))]
    return [packb(("LMQ1", op, maps))]


def printable(text: str) -> str:
    """Surrogates, which UTF-8 does not have, as people read them: \\udc80."""
    return text.encode(errors="backslashreplace").decode()


def differences(first: Fields, later: Fields) -> Fields:
    """What a later map of a batch says, so that with what it inherits from the first it is whole."""
    said = {name: value for name, value in later.items() if not _same(value, first.get(name))}
    for name in first:
        if name not in later and name not in OWN:
            said[name] = None
    return said


def _same(one: Any, other: Any) -> bool:
    # Equal values of other types, such as 1 and 1.0 in `meta`, are not the same bytes.
    if one is other or type(one) is not type(other):
        return one is other
    return bool(one == other) if type(one) in (str, int) else bool(packb(one) == packb(other))


def check_value(name: str, value: Any, depth: int = 3) -> None:
    """Raises ValueError where a value of the caller's would have a whole message refused."""
    if isinstance(value, (ExtType, Timestamp)):
        raise ValueError(f"{name} has a {type(value).__name__} of msgpack; a header holds numbers, text, bytes, lists and dicts")
    if depth > HEADER_DEPTH_MAX and isinstance(value, (dict, list, tuple)):
        raise ValueError(f"{name} is nested deeper than a header may be ({HEADER_DEPTH_MAX}, header_depth_max)")
    if isinstance(value, dict):
        if len(value) > MAP_ENTRIES_MAX:
            raise ValueError(f"{name} has a map of {len(value)} entries, the limit is {MAP_ENTRIES_MAX} (map_entries_max)")
        for key, each in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{name} has the key {key!r}; keys are text")
            check_value(name, each, depth + 1)
    elif isinstance(value, (list, tuple)):
        for each in value:
            check_value(name, each, depth + 1)
    elif isinstance(value, int) and not -(2**63) <= value <= INT_MAX:
        raise ValueError(f"{name} has the number {value}; numbers are below 2^63")


def copied(name: str, value: Any) -> Any:
    """A checked value as it is now: the caller may change his own before it is sent. Raises TypeError or ValueError where it cannot be
    said."""
    try:
        return unpackb(packb(value))
    except UnicodeEncodeError:
        raise ValueError(f"{name} has text that is no UTF-8") from None


def check_name(what: str, name: Any) -> str:
    """A text of 1 to 128 bytes, as names and ids are; raises TypeError or ValueError."""
    if not isinstance(name, str):
        raise TypeError(f"{what} is text, not {type(name).__name__}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise ValueError(f"{what} {name!r} is no UTF-8") from None
    if not 1 <= size <= NAME_BYTES_MAX:
        raise ValueError(f"{what} has {size} bytes; the limits are 1 and {NAME_BYTES_MAX}")
    return name
