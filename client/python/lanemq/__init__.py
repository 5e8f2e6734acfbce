# SPDX-License-Identifier: Apache-2.0
"""LaneMQ from Python: a client (with threads, and for asyncio) and a worker.

    from lanemq import Client
    with Client() as client:
        print(client.submit("echo", "hello", lane="critical").text)

    from lanemq import worker
    @worker("shout")
    def shout(job):
        return job.text.upper()
    shout.run()

docs/guides/python.md is the guide, docs/protocol/ what goes over the wire.
"""

from .aio import AsyncClient, AsyncStream, AsyncWatch
from .client import Client, Stream, Watch
from .errors import (
    BadRequestError, BytesFullError, CancelledError, ClientFullError, ConflictError, DeadlineError,
    DrainingError, ForbiddenError, GoneError, InternalError, LaneFullError, LaneMQError, LimitedError,
    NotFoundError, NotOverError, NotOwnerError, PausedError, SlowReaderError, StoreFullError, TooLargeError,
    UnauthorizedError, UnavailableError, UnsatisfiableError, UpstreamFailedError, UpstreamQuotaError, UpstreamRejectedError, StalledError, WorkerLostError)
from .failures import (BadJob, Failure, JobCancelled, Limited, OutOfTime, Overloaded, Permanent, Quota, Released, Retry)
from .outcomes import Result
from .types import Accepted, Answer, Body, Cost, Duration, Event, Explanation, Job, JobOptions, Pong, Status
from .worker import JobCall, Service, Worker, WorkerRefusedError, worker

__all__ = [
    "Accepted", "Answer", "AsyncClient", "AsyncStream", "AsyncWatch", "BadJob", "BadRequestError", "Body", "BytesFullError",
    "CancelledError", "Client", "ClientFullError", "ConflictError", "Cost", "DeadlineError", "DrainingError",
    "Duration", "Event", "Explanation", "Failure", "ForbiddenError", "GoneError", "InternalError", "Job", "JobCall",
    "JobCancelled", "JobOptions", "LaneFullError", "LaneMQError", "Limited", "LimitedError", "NotFoundError",
    "NotOverError", "NotOwnerError", "OutOfTime", "Overloaded", "PausedError", "Permanent", "Pong", "Quota", "Released",
    "Result", "Retry", "Service", "SlowReaderError", "StalledError", "Status", "StoreFullError", "Stream", "TooLargeError",
    "UnauthorizedError", "UnavailableError", "UnsatisfiableError", "UpstreamFailedError", "UpstreamQuotaError",
    "UpstreamRejectedError", "Watch", "Worker", "WorkerLostError", "WorkerRefusedError", "worker",
]
__version__ = "0.3.0.dev0"
