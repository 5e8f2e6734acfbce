# SPDX-License-Identifier: Apache-2.0
"""What a handler raises where it has no answer: a class for each class of the protocol ("Worker to broker", `error`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar


class Failure(Exception):
    """The base. `code`: the upstream's, or one of the handler's own. `retry_after`: seconds before which there is no new
    attempt. `body`, `upstream_status`: the upstream's answer, for the client. `usage`, `limits`: as the protocol names them."""

    error_class: ClassVar[str] = "retry"

    def __init__(self, message: str = "", *, code: str | None = None, retry_after: float | None = None, body: bytes = b"",
                 upstream_status: int | None = None, usage: Mapping[str, int] | None = None,
                 limits: Mapping[str, int] | None = None) -> None:
        super().__init__(message)
        self.message, self.code, self.retry_after, self.body = message, code, retry_after, body
        self.upstream_status, self.usage, self.limits = upstream_status, usage, limits


class Retry(Failure):
    """Transient: the broker tries again after a pause; costs an attempt."""


class Overloaded(Failure):
    """The upstream is short of capacity: the same, and fewer run at once where a budget has a `concurrency`."""

    error_class = "overloaded"


class Limited(Failure):
    """The upstream's rate is used up: its budgets pause for `retry_after`; costs no attempt. `limited_by`: which kind of limit
    refused, where that is known: rate, concurrency (too many calls at once), slope or day."""

    error_class = "limited"

    def __init__(self, message: str = "", *, code: str | None = None, retry_after: float | None = None, body: bytes = b"",
                 upstream_status: int | None = None, usage: Mapping[str, int] | None = None,
                 limits: Mapping[str, int] | None = None, limited_by: str | None = None) -> None:
        super().__init__(message, code=code, retry_after=retry_after, body=body, upstream_status=upstream_status, usage=usage,
                         limits=limits)
        self.limited_by = limited_by


class Quota(Failure):
    """The upstream key is spent or refused: it rests, and the job goes on with another."""

    error_class = "quota"


class Permanent(Failure):
    """Never tried again: the client gets UpstreamRejectedError."""

    error_class = "permanent"


class OutOfTime(Failure):
    """The job's own time was over before the upstream had answered; says nothing of the upstream."""

    error_class = "deadline"


class Released(Failure):
    """Handed back untouched: costs no attempt, and goes to another worker."""

    error_class = "released"


class BadJob(Permanent, ValueError):
    """Raised where a handler asks for a field of its job that cannot be read."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem, code="bad_job")


class JobCancelled(Exception):
    """Raised in a handler by `job.chunk()` and `job.check()`: nobody wants the answer any more."""
