# SPDX-License-Identifier: Apache-2.0
"""What callers give and get. All durations are seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, TypedDict, Union

from . import _tables, wire
from .errors import TooLargeError
from .unpacking import optional_number, optional_text, text, whole_number

#: Bytes go as they are, text as UTF-8, a dict or a list as JSON.
Body = Union[bytes, bytearray, memoryview, str, dict[str, Any], list[Any]]
Duration = Union[int, float, timedelta]


class Cost(TypedDict, total=False):
    """What budgets in tokens are debited with; without it the broker estimates."""

    input_tokens: int
    output_tokens: int


class JobOptions(TypedDict, total=False):
    """What a submit may say of its job. What is left out, or None, has the broker's default."""

    #: A configured lane.
    lane: str | None
    model: str | None
    #: Whom the job is for: who takes turns, and what budgets match.
    client: str | None
    cost: Cost | None
    #: The job's deadline, in seconds from its acceptance: it ends with DeadlineError.
    timeout: Duration | None
    #: Seconds before the job is queued.
    delay: Duration | None
    attempts_max: int | None
    #: Jobs of a group are counted together, and a watch of it hears when it is over: when so many have ended, or
    #: without a size when none is open.
    group: str | None
    group_size: int | None
    #: A URL that hears of the job's end, or of its group's, where the broker has workers for that.
    notify: str | None
    #: Seconds for which the answer is kept, and the id means this job.
    retain: Duration | None
    durable: bool | None
    #: `end`: LimitedError at once, where the upstream's rate is used up.
    when_limited: Literal["wait", "end"] | None
    #: `end`: UpstreamQuotaError at once, where every key rests.
    when_spent: Literal["wait", "end"] | None
    #: `wait`: a lane or a broker that is full is asked again, until `timeout`. `raise`: LaneFullError and the like.
    when_full: Literal["wait", "raise"] | None
    #: Whether the broker cancels the job when this process is gone for 5 s. Not for a client that may be cut off for longer.
    cancel_when_gone: bool | None
    #: Passed to the worker untouched; anything that msgpack can say.
    meta: Any
    trace: Any
    #: Further fields for the worker; their names begin with `x-`.
    extra: Mapping[str, Any] | None


class Job:
    """An item of `map` that says more than its body: an id of its own, or options that differ from the others'."""

    __slots__ = ("body", "id", "options")

    def __init__(self, body: Body, *, id: str | None = None, **options: Any) -> None:
        self.body, self.id, self.options = body, id, options


class Answer:
    """A job that succeeded."""

    __slots__ = ("id", "body", "index", "_fields")

    def __init__(self, id: str, body: bytes, fields: Mapping[str, Any]) -> None:
        self.id = id
        self.body = body
        #: The job's place in the input of `map`; None: it is of no `map`.
        self.index: int | None = None
        self._fields = fields

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lane(self) -> str | None:
        """None: the default lane."""
        return optional_text(self._fields, "lane")

    @property
    def attempts(self) -> int:
        """Hand-overs that cost an attempt."""
        return whole_number(self._fields, "attempts", 1)

    @property
    def queued(self) -> float:
        """Seconds from acceptance, or the end of the delay, to the last hand-over."""
        return whole_number(self._fields, "queued_ms") / 1000

    @property
    def ran(self) -> float:
        """Seconds from the last hand-over to the outcome."""
        return whole_number(self._fields, "ran_ms") / 1000

    @property
    def usage(self) -> Mapping[str, int]:
        """What the worker said; empty where it said nothing."""
        usage = self._fields.get("usage")
        return usage if isinstance(usage, dict) else {}

    @property
    def chunks(self) -> int:
        """Pieces of a streamed answer; the body is what none of them carried."""
        return whole_number(self._fields, "chunks")

    def __repr__(self) -> str:
        return f"Answer(id={self.id!r}, body={self.body[:40]!r}{'...' if len(self.body) > 40 else ''})"


@dataclass(frozen=True)
class Accepted:
    """A job that the broker has taken."""

    id: str
    lane: str | None = None
    #: It is on disk and outlives the broker.
    durable: bool = False
    #: The broker knew the job before.
    duplicate: bool = False
    position: int = 0
    #: Of a duplicate: `group` and `notify`, where the job that the broker knows has others. They count for nothing.
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Status:
    """How far a job is. `state`: delayed, queued, running, succeeded, failed, cancelled, expired or unknown."""

    id: str
    state: str
    lane: str | None = None
    attempts: int = 0
    queued: float = 0.0
    #: Seconds until it may go on, where the broker knows.
    eta: float | None = None
    #: Of a job that waits: for what.
    blocked_by: str | None = None
    #: Of a job that runs: where.
    worker: str | None = None
    #: Of a job that runs and whose worker says how far it is: in percent, and in words; and the seconds for which it has said nothing.
    pct: int | None = None
    note: str = ""
    silent: float | None = None
    #: Of a job that has not ended.
    group: str | None = None
    #: Of a job that failed: `code` and `message`.
    error: Mapping[str, Any] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return self.state not in ("delayed", "queued", "running")


@dataclass(frozen=True)
class Explanation:
    """What a job waits for, and what would help. As text it is both."""

    status: Status
    what: str
    help: str = ""

    def __str__(self) -> str:
        return f"{self.what}\n{self.help}" if self.help else self.what


@dataclass(frozen=True)
class Pong:
    """The broker answers."""

    #: Seconds.
    round_trip: float
    version: str | None
    #: The broker's clock, seconds since 1970.
    broker_time: float
    #: Where there are shards: the broker's own, and the endpoints of each.
    shard: str | None = None
    shards: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    """What has become of a job. docs/protocol/client.md says which fields go with which `what`."""

    #: accepted, queued, started, adopted, progress, requeued, moved, ended or redriven; `group_over`, of a group; or `watching`: from
    #: now on no change goes untold. That is the first one, and comes again, with `gap`, after each connection that was lost.
    what: str
    #: Its number since the last `watching`.
    seq: int
    id: str = ""
    #: Of the job from now on.
    state: str = ""
    lane: str | None = None
    service: str | None = None
    client: str | None = None
    model: str | None = None
    #: Of `moved`: the lane before.
    from_lane: str | None = None
    worker: str | None = None
    #: Of `requeued` why, of `ended` that of the error.
    code: str | None = None
    attempts: int = 0
    #: Seconds: of a job that is delayed how long it still is; of `ended` how long it waited and ran.
    delay: float | None = None
    queued: float | None = None
    ran: float | None = None
    #: Of `ended`: it is kept among the dead, and may be run again.
    dead: bool = False
    #: Of `progress`.
    pct: int | None = None
    note: str = ""
    #: The job's, where it has one; and of `group_over` how many of its jobs ended how.
    group: str | None = None
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    expired: int = 0
    #: Of these, how many were dead by then.
    died: int = 0
    #: The group went before it was over, and the broker counts its jobs no further.
    incomplete: bool = False
    #: When, by the broker's clock: seconds since 1970.
    at: float = 0.0
    #: Changes right before this one were left out; how many, where that is known.
    gap: bool = False
    left_out: int = 0

    @property
    def over(self) -> bool:
        return self.what == "ended"


def event_of(fields: Mapping[str, Any], gap: bool, left_out: int) -> Event:
    def seconds(name: str) -> float | None:
        return None if (ms := optional_number(fields, name)) is None else ms / 1000

    def name(field: str) -> str | None:
        return optional_text(fields, field)

    def count(field: str) -> int:
        return whole_number(fields, field)

    return Event(what=text(fields, "what"), seq=count("seq"), id=text(fields, "id"), state=text(fields, "state"),
                 lane=name("lane"), service=name("service"), client=name("client"), model=name("model"),
                 from_lane=name("from_lane"), worker=name("worker"), code=name("code"),
                 attempts=count("attempts"), delay=seconds("delay_ms"), queued=seconds("queued_ms"), ran=seconds("ran_ms"),
                 dead=fields.get("dead") is True, pct=optional_number(fields, "pct"), note=text(fields, "note"),
                 group=name("group"), succeeded=count("succeeded"), failed=count("failed"),
                 cancelled=count("cancelled"), expired=count("expired"), died=count("died"),
                 incomplete=fields.get("incomplete") is True, at=count("at_ms") / 1000, gap=gap, left_out=left_out)


def status_of(fields: Mapping[str, Any]) -> Status:
    eta, silent, error = optional_number(fields, "eta_ms"), optional_number(fields, "silent_ms"), fields.get("error")
    return Status(id=text(fields, "id"), state=text(fields, "state", "unknown"), lane=optional_text(fields, "lane"),
                  attempts=whole_number(fields, "attempts"), queued=whole_number(fields, "queued_ms") / 1000,
                  eta=None if eta is None else eta / 1000, blocked_by=optional_text(fields, "blocked_by"),
                  worker=optional_text(fields, "worker"), group=optional_text(fields, "group"),
                  pct=optional_number(fields, "pct"), note=text(fields, "note"),
                  silent=None if silent is None else silent / 1000, error=error if isinstance(error, dict) else {})


def body_bytes(body: Body) -> bytes:
    """What goes on the wire. Raises TypeError, and ValueError for what JSON cannot say (NaN, infinity)."""
    if type(body) is bytes:
        return body
    if isinstance(body, str):
        return str.encode(body)
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body)
    if isinstance(body, (dict, list)):
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    raise TypeError(f"a body is bytes, text, or a dict or list for JSON, not {type(body).__name__}")


def to_ms(what: str, value: Duration) -> int:
    """A duration in whole milliseconds, rounded up. Raises ValueError."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if not 0 <= seconds <= _tables.DURATION_MS_MAX / 1000:
        raise ValueError(f"{what} is {seconds} s; the limits are 0 and {_tables.DURATION_MS_MAX // 1000} s")
    return -int(-seconds * 1000 // 1)


_NAMES = ("lane", "model", "client", "group")
_WORDS = {"when_limited": ("limited", ("wait", "end")), "when_spent": ("spent", ("wait", "end")),
          "when_full": (None, ("wait", "raise"))}
_TIMES = {"timeout": "timeout_ms", "delay": "delay_ms", "retain": "retain_ms"}
#: Bytes of a header for what is not the options: id, ref, op of a submit; job, attempt, id, lane, key, times of what its worker is told.
_RESERVED = 512
#: Entries of a map for the same: id, ref, batch; job, attempt, id, service, lane, key.
_RESERVED_ENTRIES, _RESERVED_ENTRIES_OF_JOB = 3, 6
_TOLD_TO_WORKERS = frozenset(("model", "client", "timeout_ms", "cost", "stream", "meta", "trace"))


class Submit:
    """The fields that jobs of one call share, checked once and not changed afterwards."""

    __slots__ = ("fields", "size", "waits_when_full", "patience")

    def __init__(self, service: str, options: Mapping[str, Any], **more: Any) -> None:
        self.fields: wire.Fields = {"service": wire.check_name("service", service), **more}
        #: Whether a refusal for want of room is asked again.
        self.waits_when_full = options.get("when_full") != "raise"
        #: Seconds after which no answer is awaited any more, but for what the wire takes; None: no bound.
        self.patience: float | None = None
        for name, value in options.items():
            if value is not None:
                self._take(name, value)
        if "timeout_ms" in self.fields:
            self.patience = (self.fields["timeout_ms"] + self.fields.get("delay_ms", 0)) / 1000
        self.size = wire.packed_bytes(self.fields)
        if self.size > _tables.HEADER_BYTES_MAX - _RESERVED:
            raise TooLargeError(f"the fields of the job have {self.size} bytes, the limit is {_tables.HEADER_BYTES_MAX - _RESERVED} "
                                "(header_bytes_max); send less in meta", local=True)
        if len(self.fields) + _RESERVED_ENTRIES_OF_JOB > _tables.MAP_ENTRIES_MAX:
            self._check_entries()

    def _check_entries(self) -> None:
        """Of the submit, and of what the broker makes of it for a worker."""
        extras = sum(name.startswith("x-") for name in self.fields)
        told = _RESERVED_ENTRIES_OF_JOB + extras + len(_TOLD_TO_WORKERS & self.fields.keys())
        entries = max(len(self.fields) + _RESERVED_ENTRIES, told)
        if entries > _tables.MAP_ENTRIES_MAX:
            raise TooLargeError(f"the job has {extras} fields in extra and {entries - extras} others, the limit of both is "
                                f"{_tables.MAP_ENTRIES_MAX} (map_entries_max); send fewer, or put them into meta", local=True)

    def _take(self, name: str, value: Any) -> None:
        if name in _NAMES:
            self.fields[name] = wire.check_name(name, value)
        elif name in _TIMES:
            self.fields[_TIMES[name]] = to_ms(name, value)
        elif name in _WORDS:
            field, words = _WORDS[name]
            if value not in words:
                raise ValueError(f"{name} is one of {words}, not {value!r}")
            if field and value != words[0]:
                self.fields[field] = value
        elif name in ("meta", "trace"):
            wire.check_value(name, value)
            self.fields[name] = wire.copied(name, value)
        elif name == "cost":
            if set(value) - {"input_tokens", "output_tokens"} or any(type(each) is not int for each in value.values()):
                raise ValueError("cost is {'input_tokens': int, 'output_tokens': int}, or one of them")
            wire.check_value(name, value)
            self.fields["cost"] = dict(value)
        elif name == "notify":
            if not isinstance(value, str) or not 1 <= len(value.encode()) <= _tables.URL_BYTES_MAX:
                raise ValueError(f"notify is a URL of up to {_tables.URL_BYTES_MAX} bytes, as a str, not {value!r:.60}")
            self.fields[name] = value
        elif name in ("attempts_max", "group_size"):
            if type(value) is not int:
                raise TypeError(f"{name} is an int")
            wire.check_value(name, value)
            self.fields[name] = value
        elif name in ("durable", "cancel_when_gone"):
            if type(value) is not bool:
                raise TypeError(f"{name} is True or False")
            if name == "durable":
                self.fields[name] = value
            elif value:
                self.fields["orphan"] = "cancel"
        elif name == "extra":
            for extra, each in value.items():
                if not wire.check_name("a name in extra", extra).startswith("x-"):
                    raise ValueError(f"extra has {extra!r}; names begin with x-")
                wire.check_value(extra, each)
                self.fields[extra] = wire.copied(extra, each)
        else:
            raise TypeError(f"there is no option {name!r}; JobOptions lists them")
