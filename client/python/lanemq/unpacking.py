# SPDX-License-Identifier: Apache-2.0
"""LMQ1 messages as they come: docs/protocol/README.md, "Messages". Knows no socket.

What cannot be read takes nothing else with it: neither the other messages of its batch, nor the other fields of its own. What a
submit says for the worker alone (`meta`, `trace`, `x-…`) is read when somebody asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgpack import ExtType, Unpacker, unpackb

from .wire import OWN, Fields, printable

_MAGIC = (b"\x93\xa4LMQ1", b"\x94\xa4LMQ1")
_JOB = b"\xa3job"  # the op, behind these six bytes
_TIMESTAMP = re.compile(rb"[\xd4-\xd8]\xff|\xc7.\xff|\xc8..\xff|\xc9....\xff", re.DOTALL)  # or other bytes that look like one
_EXT_HEADS = {0xc7: 3, 0xc8: 4, 0xc9: 6, 0xd4: 2, 0xd5: 2, 0xd6: 2, 0xd7: 2, 0xd8: 2}  # bytes before its data, the last its type

Item = tuple[Fields, bytes]


class MalformedError(ValueError):
    """Bytes that are no LMQ1 message, or a field of another type than the page says."""


class Packed(bytes):
    """A value as it came. unpack() reads it."""


class PartlyRead(dict[str, Any]):
    """The fields of a message that could be read. `unread`: the names of the others, and why; `body` for the body."""

    def __init__(self, fields: Fields, unread: dict[str, str]) -> None:
        super().__init__(fields)
        self.unread = unread

    @property
    def problem(self) -> str:
        name, why = next(iter(self.unread.items()))
        return f"{name} cannot be read: {why}"


def decode(frames: list[bytes]) -> tuple[str, list[Item]]:
    """The op and its items, each with all its fields and its body. Raises MalformedError where nothing can be read.

    An envelope before the header is skipped, though nobody who sends none gets one.
    """
    for at, header in enumerate(frames):
        if header[:6] in _MAGIC:
            break
    else:
        raise MalformedError("no frame begins as a header of LMQ1 does")
    try:
        return _decode(header, frames[at + 1:])
    except MalformedError:
        raise
    except Exception as error:  # msgpack raises several kinds
        raise MalformedError(f"the message cannot be read: {error}") from None


def _decode(header: bytes, rest: list[bytes]) -> tuple[str, list[Item]]:
    _, op, fields, *inside = _read(header)
    if type(fields) is list:
        return op, _items(fields, inside[0] if inside else _bodies(rest[0]) if rest and rest[0] else [b""] * len(fields))
    body = inside[0] if inside else rest[0] if rest else b""
    if type(body) is not bytes:
        fields, body = PartlyRead(fields, {**getattr(fields, "unread", {}), "body": "it is no bin"}), b""
    return op, [(fields, body)]


def _read(header: bytes) -> list[Any]:
    """LMQ1, op, a map or a list of maps, and a body or a list of bodies, if any."""
    if not header.startswith(_JOB, 6) or not (b"meta" in header or b"trace" in header or b"x-" in header):
        try:
            message: list[Any] = unpackb(header)
        except Exception:
            message = []
        if 3 <= len(message) <= 4 and type(message[1]) is str and type(message[2]) in (dict, list):
            return message
    try:
        return _read_apart(header, _read_map)
    except Exception:  # some of it cannot be read
        return _read_apart(header, _read_partly)


def _items(maps: list[Any], bodies: Any) -> list[Item]:
    first = maps[0] if maps else None
    if not isinstance(first, dict) or type(bodies) is not list or len(bodies) != len(maps):
        raise MalformedError("a batch is an array of maps and an array of bin, as many, and at least one")
    shared = {name: value for name, value in first.items() if name not in OWN}
    items: list[Item] = []
    for fields, body in zip(maps, bodies):
        whole = fields
        if fields is not first and isinstance(fields, dict):
            whole = {**shared, **fields}
            if None in fields.values():  # a nil resets a field to its default
                whole = {name: value for name, value in whole.items() if value is not None}
        if type(fields) is not dict or type(first) is not dict or type(body) is not bytes:
            whole, body = _partly(first, fields, whole, body)
        items.append((whole, body))
    return items


def _partly(first: Fields, fields: Any, whole: Any, body: Any) -> Item:
    """An item of a batch of which something may be missing: its own, or what it inherits."""
    if not isinstance(fields, dict):
        return PartlyRead({}, {"an item of the batch": "it is no map"}), b""
    unread = {name: why for name, why in getattr(first, "unread", {}).items() if name not in fields and name not in OWN}
    unread |= getattr(fields, "unread", {})
    if type(body) is not bytes:
        body, unread["body"] = b"", "it is no bin"
    return (PartlyRead(whole, unread) if unread else whole), body


# ---- value by value --------------------------------------------------------------------------------------------------


def _read_apart(header: bytes, read_map: Callable[[Any, bytes], Any]) -> list[Any]:
    """The same, but what is for workers stays as it came. `read_map` reads the next map of what an unpacker has."""
    unpacker = _unpacker(header)
    size = unpacker.read_array_header()
    magic, op, fields = unpacker.unpack(), unpacker.unpack(), unpacker.tell()
    if type(op) is not str:
        raise MalformedError("the header is not [LMQ1, op, fields]")
    message = [magic, op, read_map(unpacker, header) if _is_map(header[fields]) else
               [read_map(unpacker, header) for _ in range(unpacker.read_array_header())]]
    if size > 3:
        message.append(_bodies(_next(unpacker, header)))
    if size > 4 or unpacker.tell() != len(header):
        raise MalformedError("there is more behind the header")
    return message


def _unpacker(packed: bytes) -> Any:
    unpacker = Unpacker(max_buffer_size=len(packed))
    unpacker.feed(packed)
    return unpacker


def _next(unpacker: Any, packed: bytes) -> bytes:
    """The next value of what the unpacker has, as it is."""
    begin = unpacker.tell()
    unpacker.skip()
    return packed[begin:unpacker.tell()]


def _is_map(head: int) -> bool:
    return 0x80 <= head <= 0x8f or head in (0xde, 0xdf)


def _is_list(head: int) -> bool:
    return 0x90 <= head <= 0x9f or head in (0xdc, 0xdd)


def _is_for_workers(name: str) -> bool:
    return name in ("meta", "trace") or name.startswith("x-")


def _read_map(unpacker: Any, packed: bytes) -> Fields:
    fields: Fields = {}
    for _ in range(unpacker.read_map_header()):
        name = unpacker.unpack()
        fields[name] = _later(_next(unpacker, packed)) if _is_for_workers(name) else unpacker.unpack()
    return fields


def _read_partly(unpacker: Any, packed: bytes) -> Any:
    """The same where some of it may be unreadable; None: it is no map."""
    packed = _next(unpacker, packed)
    if not _is_map(packed[0]):
        return None
    fields = PartlyRead({}, {})
    unpacker = _unpacker(packed)
    for _ in range(unpacker.read_map_header()):
        key, value = _next(unpacker, packed), _next(unpacker, packed)
        name = "the name of a field"
        try:
            name = _name(key)
            fields[name] = _later(value) if _is_for_workers(name) else unpackb(value)
        except Exception as error:
            fields.unread[name] = printable(str(error))
    return fields if fields.unread else dict(fields)


def _later(packed: bytes) -> Packed | None:
    return None if packed == b"\xc0" else Packed(packed)


def _name(packed: bytes) -> str:
    name = unpackb(packed)
    if type(name) is not str:
        raise MalformedError("it is no text")
    return name


def _bodies(packed: bytes) -> Any:
    """A body, or a list of bodies, in each of which None stands for what cannot be read."""
    try:
        return unpackb(packed)
    except Exception:
        if not _is_list(packed[0]):
            return None
    unpacker = _unpacker(packed)
    parts = [_next(unpacker, packed) for _ in range(unpacker.read_array_header())]
    return [unpackb(part) if 0xc4 <= part[0] <= 0xc6 else None for part in parts]  # a bin


# ---- what is read when somebody asks for it -------------------------------------------------------------------------------


def unpack(name: str, packed: bytes) -> Any:
    """A value that was kept as it came. Ext is msgpack.ExtType whatever it means, a timestamp, too; a str that is no UTF-8 has
    surrogates for its odd bytes, as os.fsdecode() makes them. Raises MalformedError."""
    try:
        if _TIMESTAMP.search(packed) is None:
            return unpackb(packed, strict_map_key=False, unicode_errors="surrogateescape", ext_hook=_ext)
        unpacker = Unpacker(max_buffer_size=len(packed), strict_map_key=False, unicode_errors="surrogateescape")
        unpacker.feed(packed)
        return _value(unpacker, packed)
    except Exception as error:
        raise MalformedError(f"{name} cannot be read: {printable(str(error))}") from None


def _value(unpacker: Any, packed: bytes) -> Any:
    """The same value by value: msgpack makes a Timestamp of what is said to be one, or raises."""
    head = packed[unpacker.tell()]
    if _is_list(head):
        return [_value(unpacker, packed) for _ in range(unpacker.read_array_header())]
    if _is_map(head):
        return {_value(unpacker, packed): _value(unpacker, packed) for _ in range(unpacker.read_map_header())}
    if head in _EXT_HEADS:
        ext, at = _next(unpacker, packed), _EXT_HEADS[head]
        return _ext(int.from_bytes(ext[at - 1:at], "big", signed=True), ext[at:])
    return unpacker.unpack()


def _ext(code: int, data: bytes) -> Any:
    return tuple.__new__(ExtType, (code, data))  # ExtType() refuses codes below 0


# ---- fields ---------------------------------------------------------------------------------------------------------------


def whole_number(fields: Mapping[str, Any], name: str, otherwise: int = 0) -> int:
    """A whole number of at least 0. What is none counts as absent."""
    value = fields.get(name)
    return value if type(value) is int and value >= 0 else otherwise


def optional_number(fields: Mapping[str, Any], name: str) -> int | None:
    return None if (value := whole_number(fields, name, -1)) < 0 else value


def required_number(fields: Mapping[str, Any], name: str) -> int:
    """Raises MalformedError where there is none."""
    if (value := whole_number(fields, name, -1)) < 0:
        raise MalformedError(f"{name} is no whole number")
    return value


def text(fields: Mapping[str, Any], name: str, otherwise: str = "") -> str:
    """What is no text counts as absent."""
    value = fields.get(name)
    return value if type(value) is str else otherwise


def optional_text(fields: Mapping[str, Any], name: str) -> str | None:
    return text(fields, name) or None


def texts(fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """What is no text is left out."""
    value = fields.get(name)
    return tuple(each for each in value if type(each) is str) if type(value) is list else ()


def maps(fields: Mapping[str, Any], name: str) -> list[Fields]:
    """What is no map is left out."""
    value = fields.get(name)
    return [each for each in value if isinstance(each, dict)] if type(value) is list else []
