# SPDX-License-Identifier: Apache-2.0
"""What handlers return and raise, as outcomes that the broker can read: docs/protocol/worker.md, "Worker to broker".

What cannot be said becomes an `error` with the code `bad_outcome`, whose message names the field, what it was and what is
allowed. Its class is the one of what was raised. Of an answer it is `permanent`: the upstream was asked already, and the handler
would answer the same again.
"""

from __future__ import annotations

import inspect
import math
import numbers
import operator
import reprlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

from . import wire
from ._tables import DURATION_MS_MAX, LIMITED_BY, LIMITS, NAME_BYTES_MAX, USAGE
from .failures import Failure, JobCancelled
from .types import Body, body_bytes, to_ms
from .wire import printable

MESSAGE_CHARS_MAX = 1024
NAME_CHARS_MAX = 100  # of an exception's class, as a code
_FREE = ("limited", "quota", "released")  # cost no attempt: what cannot be said would come again and again
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


class Outcome(NamedTuple):
    """What a handler came to. `op`: result or error."""

    op: str
    fields: wire.Fields
    body: bytes = b""


class Result:
    """An answer that says more than its body. `usage`, `limits`: of the upstream, as the protocol names them."""

    def __init__(self, body: Body = b"", *, usage: Mapping[str, int] | None = None,
                 limits: Mapping[str, int] | None = None) -> None:
        self.body, self.usage, self.limits = body, usage, limits


class UnsayableError(Exception):
    """A part of an outcome that the broker would not read."""


def of_answer(answer: Any) -> Outcome:
    """What a handler returned."""
    try:
        if inspect.iscoroutine(answer):
            answer.close()
            raise UnsayableError("the handler returned a coroutine, which nobody runs: return asyncio.run(...) of it")
        if not isinstance(answer, Result):
            return Outcome("result", {}, _body(answer))
        return Outcome("result", _settled(answer), _body(answer.body))
    except BaseException as fault:
        return _bad("permanent", fault)


def of_fault(fault: BaseException) -> Outcome:
    """What a handler raised."""
    error_class = "retry"
    try:
        if isinstance(fault, JobCancelled):
            return Outcome("error", {"class": "permanent", "code": "cancelled", "message": "the job was cancelled"})
        if isinstance(fault, Failure):
            error_class = _text("error_class", fault.error_class, NAME_BYTES_MAX)
            return _failed(error_class, fault)
        code = printable(type(fault).__name__)[:NAME_CHARS_MAX].encode()[:NAME_BYTES_MAX].decode(errors="ignore")
        return Outcome("error", {"class": error_class, "code": code, "message": _message(fault)})
    except BaseException as bad:
        return _bad("permanent" if error_class in _FREE else error_class, bad)


def _bad(error_class: str, fault: BaseException) -> Outcome:
    problem = str(fault) if isinstance(fault, UnsayableError) else f"it cannot be read: {_shown(fault)}"
    return Outcome("error", {"class": error_class, "code": "bad_outcome", "message": problem[:MESSAGE_CHARS_MAX]})


def is_bad(outcome: Outcome) -> bool:
    return outcome.fields.get("code") == "bad_outcome"


def unreadable(problem: str) -> Outcome:
    """In the place of one that the broker could not read."""
    return _bad("permanent", UnsayableError(problem))


def _failed(error_class: str, failure: Failure) -> Outcome:
    fields: wire.Fields = {"class": error_class, **_settled(failure)}
    if failure.code:
        fields["code"] = _text("code", failure.code, NAME_BYTES_MAX)
    if failure.message:
        fields["message"] = _message(failure.message)
    if failure.retry_after is not None:
        fields["retry_after_ms"] = _pause_ms(failure.retry_after)
    if (kind := getattr(failure, "limited_by", None)) is not None:
        if kind not in LIMITED_BY:
            raise UnsayableError(f"limited_by is {_shown(kind)}; it is one of {', '.join(LIMITED_BY)}")
        fields["limited_by"] = kind
    if failure.upstream_status is not None:
        fields["upstream_status"] = _number("upstream_status", failure.upstream_status, *wire.UPSTREAM_STATUS)
    return Outcome("error", fields, _body(failure.body))


def _settled(said: Result | Failure) -> wire.Fields:
    fields = {"usage": _counts("usage", said.usage, USAGE), "limits": _counts("limits", said.limits, LIMITS)}
    return {name: value for name, value in fields.items() if value}


def _counts(what: str, said: Any, names: Iterable[str]) -> dict[str, int]:
    """The numbers that the protocol names; the broker ignores others."""
    if said is None:
        return {}
    if not isinstance(said, Mapping):
        raise UnsayableError(f"{what} is {_shown(said)}; it is a dict of names and whole numbers")
    return {name: _number(f"{what}.{name}", value, 0, wire.INT_MAX) for name in names if (value := said.get(name)) is not None}


def _number(what: str, said: Any, least: int, most: int) -> int:
    number = _whole(said)
    if number is None or not least <= number <= most:
        raise UnsayableError(f"{what} is {_shown(said)}; it is a whole number from {least} to {most}")
    return number


def _whole(said: Any) -> int | None:
    """A number of any type, numpy's for example, where it is a whole one."""
    if isinstance(said, bool):
        return None
    try:
        if not isinstance(said, numbers.Real) or isinstance(said, numbers.Integral):
            return operator.index(said)
        number = int(said)
        return number if number == said else None
    except Exception:
        return None


def _pause_ms(said: Any) -> int:
    seconds = math.nan
    if isinstance(said, timedelta):
        seconds = said.total_seconds()
    elif isinstance(said, numbers.Real) and not isinstance(said, bool):
        with suppress(Exception):
            seconds = float(said)
    if not math.isfinite(seconds):
        raise UnsayableError(f"retry_after is {_shown(said)}; it is a number of seconds, or a timedelta")
    return to_ms("retry_after", min(max(seconds, 0.0), DURATION_MS_MAX / 1000))


def _body(said: Any) -> bytes:
    try:
        return b"" if said is None else body_bytes(said)
    except Exception as error:
        raise UnsayableError(f"the body cannot be sent ({_shown(error)}); it is bytes, text, or a dict or list for JSON") from None


def _message(said: Any) -> str:
    return _text("message", said, None)[:MESSAGE_CHARS_MAX]


def _text(what: str, said: Any, bytes_max: int | None) -> str:
    kind = printable(type(said).__name__)
    try:
        text = str(said)
    except BaseException as error:
        raise UnsayableError(f"{what} is no text: str() of {kind} raised {printable(type(error).__name__)}") from None
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise UnsayableError(f"{what} is {_shown(text)} ({kind}); it is text that UTF-8 has") from None
    if bytes_max is not None and size > bytes_max:
        raise UnsayableError(f"{what} is {_shown(text)} and has {size} bytes; the limit is {bytes_max}")
    return text


def _shown(value: Any) -> str:
    """A value for people, whatever it is."""
    try:
        return printable(_SHORT.repr(value))
    except BaseException:
        return f"of the type {printable(type(value).__name__)}"
