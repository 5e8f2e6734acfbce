# SPDX-License-Identifier: Apache-2.0
"""Why a request was refused, or a job did not succeed: a class for each code of the protocol's table."""

from __future__ import annotations

from typing import Any, ClassVar

from ._tables import ERRORS, REFUSALS as _REFUSALS

_ROWS = {code: (status, says_when) for code, status, says_when in ERRORS}


class LaneMQError(Exception):
    """The base of all errors that the broker says, or that this package says in its place.

    `code` is the word on the wire. An unknown code, of a broker that is newer than this package, is an InternalError
    whose `code` is that word.
    """

    code: str = "internal"
    #: The status of HTTP that the gateway answers with.
    http_status: ClassVar[int] = 500
    #: Whether the broker says when to come again (`retry_after`).
    says_when_to_retry: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if (row := _ROWS.get(cls.__dict__.get("code", ""))) is not None:
            cls.http_status, cls.says_when_to_retry = row

    def __init__(self, message: str = "", *, id: str | None = None, retry_after: float | None = None, attempts: int = 0,
                 queued: float = 0.0, limiter: str | None = None, chunks: int = 0, upstream_status: int | None = None,
                 body: bytes = b"", local: bool = False) -> None:
        super().__init__(message)
        #: For people: what, which limit, what to do.
        self.message = message
        #: The job's id; None: the request was about no job.
        self.id = id
        #: Seconds after which to come again; None: the broker says none.
        self.retry_after = retry_after
        #: Hand-overs that cost an attempt.
        self.attempts = attempts
        #: Seconds that the job waited.
        self.queued = queued
        #: The bound that stood in the way, by its name in the configuration.
        self.limiter = limiter
        #: Pieces of a streamed answer before it broke.
        self.chunks = chunks
        #: The status that the upstream answered with over HTTP, where it did.
        self.upstream_status = upstream_status
        #: The upstream's answer, if any.
        self.body = body
        #: Said by this package, not by the broker: whether the job ran is not known.
        self.local = local
        #: The job's place in the input of `map`; None: it is of no `map`.
        self.index: int | None = None

    def __str__(self) -> str:
        name = f" (job {self.id})" if self.id else ""
        return f"{self.code}: {self.message}{name}"


class BadRequestError(LaneMQError):
    """Malformed message, unknown lane or bad field; the message names it."""

    code = "bad_request"


class UnauthorizedError(LaneMQError):
    """The connection's key is unknown or revoked."""

    code = "unauthorized"


class ForbiddenError(LaneMQError):
    """The client may not use this lane, service or operation."""

    code = "forbidden"


class NotFoundError(LaneMQError):
    """Never known."""

    code = "not_found"


class GoneError(LaneMQError):
    """No longer kept; of a submit: its job succeeded and was evicted."""

    code = "gone"


class ConflictError(LaneMQError):
    """The id is in use with other content."""

    code = "conflict"


class TooLargeError(LaneMQError, ValueError):
    """Body or header over its limit; the message names it."""

    code = "too_large"


class UnsatisfiableError(LaneMQError):
    """Can never run: it costs more than a budget can ever hold."""

    code = "unsatisfiable"


class LaneFullError(LaneMQError):
    """The lane holds its maximum of jobs or bytes."""

    code = "lane_full"


class ClientFullError(LaneMQError):
    """The client or its tenant holds its maximum of jobs, or its share (`client_share`)."""

    code = "client_full"


class BytesFullError(LaneMQError):
    """The broker holds its maximum of jobs or bytes."""

    code = "bytes_full"


class CancelledError(LaneMQError):
    """By the client or an operator."""

    code = "cancelled"


class SlowReaderError(LaneMQError):
    """A stream's chunks were not taken for 30 s, or too many of them; the job goes on. Of a watch: not
    renewed for 30 s."""

    code = "slow_reader"


class InternalError(LaneMQError):
    """A fault of the broker."""

    code = "internal"


class UpstreamRejectedError(LaneMQError):
    """The upstream's permanent error; its status and body are passed on."""

    code = "upstream_rejected"


class UpstreamFailedError(LaneMQError):
    """The attempts, or the retries of the service, are spent."""

    code = "upstream_failed"


class UpstreamQuotaError(LaneMQError):
    """Every key rests for longer than the job's time, or the job said `spent: end`; or two keys refused it."""

    code = "upstream_quota"


class LimitedError(LaneMQError):
    """The upstream's rate is used up, and the job said `limited: end`, or its time is over before that is."""

    code = "limited"


class WorkerLostError(LaneMQError):
    """Workers died under the job, or its last attempt did."""

    code = "worker_lost"


class StalledError(LaneMQError):
    """No progress for `stall_timeout`, in the last attempt or in a stream that had begun."""

    code = "stalled"


class DrainingError(LaneMQError):
    """The broker is stopping and takes no work."""

    code = "draining"


class PausedError(LaneMQError):
    """A plugin that judges submits is off, and its `when_off` is `refuse`; jobs of what an operator paused
    wait instead."""

    code = "paused"


class StoreFullError(LaneMQError):
    """The store's disk has no room for new jobs (`limiter` is `store_reserve`), or too much waits for it
    (`store_backlog_max`); running jobs, and those that are not durable, go on."""

    code = "store_full"


class NotOwnerError(LaneMQError):
    """Another broker may own the store: nothing was taken. Ask at `endpoints`, if said (several brokers).
    With `shard`: that shard takes such jobs."""

    code = "not_owner"


class UnavailableError(LaneMQError):
    """The store cannot make jobs durable now: nothing was taken."""

    code = "unavailable"


class DeadlineError(LaneMQError, TimeoutError):
    """`timeout_ms` is over."""

    code = "deadline"


class NotOverError(LaneMQError, TimeoutError):
    """`fetch` waited as long as it was told to, and the job goes on. `state` says how far it is. No code of the wire."""

    code = "not_over"
    http_status = 202

    def __init__(self, message: str = "", *, state: str = "", **fields: Any) -> None:
        super().__init__(message, **fields)
        self.state = state


_CLASSES = {row.code: row for row in LaneMQError.__subclasses__()}
#: Each code of the protocol's table, in its order, with its class.
BY_CODE: dict[str, type[LaneMQError]] = {code: _CLASSES[code] for code in _ROWS}

#: What refuses a job for want of room, or while the broker stops: the same job may be sent again later.
REFUSALS = frozenset(_REFUSALS)


def error_of(code: str, message: str = "", **fields: Any) -> LaneMQError:
    """The error of a code; `fields` are LaneMQError's."""
    known = BY_CODE.get(code)
    error = (known or InternalError)(message, **fields)
    if known is None:
        error.code = code
    return error
