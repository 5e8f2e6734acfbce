# SPDX-License-Identifier: Apache-2.0
"""A worker: handlers on threads of their own, heartbeats on another one."""

from __future__ import annotations

import inspect
import json
import logging
import numbers
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NoReturn, Union

from . import _tables, outcomes, settings, unpacking, wire
from .drive import Driver
from .errors import LaneMQError
from .failures import BadJob, Failure, JobCancelled
from .outcomes import Outcome, Result
from .types import Body, body_bytes
from .worker_session import Lease, WorkerSession

LOG = logging.getLogger("lanemq.worker")
DRAIN_TIMEOUT = 10.0
FAREWELL_MS = 1000  # for the goodbye to leave
NO_THREAD = Outcome("error", {"class": "released", "code": "no_thread", "message": "the worker's system gives it no thread for the job"})


class WorkerRefusedError(LaneMQError):
    """The broker refuses this worker, and would refuse it again: it names a lane that is not there, for example."""


class JobCall:
    """A job for a handler. Of the handler's thread; `cancelled` and `check` may be used from any."""

    def __init__(self, lease: Lease, fields: wire.Fields, body: bytes, send: Callable[[Lease, bytes], None],
                 say: Callable[[JobCall], None]) -> None:
        self._lease, self._fields, self._send, self._say = lease, fields, send, say
        self._word_lock = threading.Lock()
        self._word: wire.Fields | None = None  # of progress(), until the driver's thread takes it
        self._extra: Mapping[str, Any] | None = None  # once it was asked for
        self._cancelled = threading.Event()
        self._gate = StreamGate() if fields.get("stream") else None
        #: The request's bytes.
        self.body = body
        self.id: str = fields.get("id", "")
        self.service: str = fields["service"]
        self.lane: str | None = fields.get("lane")
        self.model: str | None = fields.get("model")
        self.client: str | None = fields.get("client")
        #: Which upstream key to use, by its name in the broker's configuration.
        self.key: str | None = fields.get("key")
        self.cost: Mapping[str, int] = fields.get("cost") or {}
        #: Which hand-over of the job this is, from 1.
        self.attempt = lease[1]
        #: Whether the answer is wanted in pieces.
        self.stream = self._gate is not None
        timeout_ms = fields.get("timeout_ms")
        self._ends_at = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000

    @property
    def meta(self) -> Any:
        """As the client said; None: it said none. Raises BadJob where it cannot be read."""
        return self._read("meta")

    @property
    def trace(self) -> Any:
        """The same."""
        return self._read("trace")

    @property
    def extra(self) -> Mapping[str, Any]:
        """Fields whose names begin with `x-`. Raises BadJob where one of them cannot be read."""
        if self._extra is None:
            self._extra = {name: self._read(name) for name in self._fields if name.startswith("x-")}
        return self._extra

    def _read(self, name: str) -> Any:
        value = self._fields.get(name)
        if type(value) is unpacking.Packed:
            try:
                value = self._fields[name] = unpacking.unpack(name, value)
            except unpacking.MalformedError as error:
                raise BadJob(str(error)) from None
        return value

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def time_left(self) -> float | None:
        """Seconds of the client's deadline; None: it gave none."""
        return None if self._ends_at is None else max(0.0, self._ends_at - time.monotonic())

    @property
    def cancelled(self) -> bool:
        """Whether nobody wants the answer any more: stop, and return or raise anything."""
        return self._cancelled.is_set()

    def wait_cancelled(self, timeout: float | None = None) -> bool:
        """Waits until the job is cancelled, up to `timeout` seconds."""
        return self._cancelled.wait(timeout)

    def check(self) -> None:
        """Raises JobCancelled where the job is cancelled."""
        if self._cancelled.is_set():
            raise JobCancelled(self.id)

    def progress(self, pct: float | None = None, note: str = "") -> None:
        """Says how far the job is, for who asks the broker: in percent, and in up to 256 bytes of words. Each word replaces the one
        before, and as often as wanted: of many a few a second are sent, the last among them. From the first one on the broker
        ends the attempt where neither a word nor a piece comes for its lane's `stall_timeout`. What is no number, and no text, is
        left out: no word about a job makes it fail."""
        word: wire.Fields = {}
        if isinstance(pct, numbers.Real) and pct == pct:  # a NaN equals nothing
            word["pct"] = int(min(max(pct, 0), 100))
        if isinstance(note, str) and note:
            word["note"] = note.encode(errors="replace")[:_tables.PROGRESS_NOTE_BYTES_MAX].decode(errors="ignore")
        with self._word_lock:
            waits, self._word = self._word is not None, word
        if not waits:  # else the driver's thread is told already
            self._say(self)

    def _take_word(self) -> wire.Fields | None:
        with self._word_lock:
            word, self._word = self._word, None
        return word

    def chunk(self, body: Body) -> None:
        """Sends a piece of the answer. Waits while the reader is 64 pieces or 256 KiB behind; raises JobCancelled where the
        job is cancelled meanwhile. Requires: `stream`. Once a piece was sent the job is not tried again."""
        if self._gate is None:
            raise ValueError("the client wants no pieces: chunk() is for jobs whose `stream` is True")
        piece = body_bytes(body)
        if not self._gate.enter(len(piece)):
            raise JobCancelled(self.id)
        self._send(self._lease, piece)


class StreamGate:
    """The window of one stream: how many pieces and bytes are under way that the broker has not taken."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._count = self._size = 0
        self._closed = False

    def enter(self, size: int) -> bool:
        """Counts a piece, waits for room before that. False: nobody wants more."""
        with self._change:
            while not self._closed and (self._count >= _tables.STREAM_CHUNKS_MAX or self._size >= _tables.STREAM_BYTES_MAX):
                self._change.wait()
            self._count += 1
            self._size += size
            return not self._closed

    def taken(self, count: int, size: int) -> None:
        with self._change:
            self._count -= count
            self._size -= size
            self._change.notify_all()

    def close(self) -> None:
        with self._change:
            self._closed = True
            self._change.notify_all()


Handler = Callable[[JobCall], Union[Body, Result, None]]


class Service:
    """A handler and the service it does, as `@worker` makes it. Called, it is the handler."""

    def __init__(self, name: str, handler: Handler, options: Mapping[str, Any]) -> None:
        """Raises TypeError for what is no handler."""
        _check_handler(name, handler)
        self.name, self.handler, self.options = name, handler, options
        self.__doc__ = handler.__doc__

    def __call__(self, job: JobCall) -> Union[Body, Result, None]:
        return self.handler(job)

    def run(self, **options: Any) -> bool:
        """Serves until SIGTERM or Ctrl-C: `Worker([self], ...).run()`. `options` go before those of the decorator."""
        return Worker([self], **{**self.options, **options}).run()


def worker(name: str, **options: Any) -> Callable[[Handler], Service]:
    """Makes a function the handler of a service. `options` are Worker's.

    The function gets a JobCall, and returns the answer: bytes, text, a dict or list (as JSON), None (empty), or a Result. Where
    it has none it raises one of lanemq.failures; any other exception is a `Retry`. It runs on one of `capacity` threads; so
    `async def` is refused with a TypeError: a handler calls `asyncio.run(...)` where it needs a loop.
    """
    return lambda handler: Service(name, handler, options)


def _check_handler(name: str, handler: Any) -> None:
    if not callable(handler):
        raise TypeError(f"the handler of {name!r} is {handler!r}; it is a function of a job")
    for function in (handler, getattr(handler, "__call__", None)):
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"the handler of {name!r} is an async function, and handlers run on threads: make it a plain one that says "
                            "`return asyncio.run(...)`")
        if inspect.isgeneratorfunction(function):
            raise TypeError(f"the handler of {name!r} is a generator: pieces of an answer are said by job.chunk(), and the answer is "
                            "returned")


class Worker:
    """Serves services at a broker.

    A thread of its own talks to the broker and sends heartbeats, so that a handler that computes keeps its session; a handler
    that holds Python's global lock for seconds without a break, in C, would not. Handlers run on up to `capacity` threads, all
    services together; a job that gets none is handed back, and none waits behind another one's handler. The worker comes back by itself after a lost connection or a restart of the broker, and hands in again
    what the broker has not answered.
    """

    def __init__(self, services: Iterable[Service] | Mapping[str, Handler], *, broker: settings.Brokers | None = None, capacity: int = 1,
                 lanes: Iterable[str] = (), name: str | None = None, broker_key: str | None = None,
                 secret_key: str | None = None, drain_timeout: float = DRAIN_TIMEOUT) -> None:
        """`broker`: its endpoint for workers; without it LANEMQ_WORKER_BROKER, else tcp://127.0.0.1:5571. Where other brokers go
        on in its place the endpoints of all, a list or separated by commas; they are brokers of one shard, where there are any.
        `capacity`: jobs that it holds at once, up to 1024. `lanes`: a worker for these alone, and before others.
        `broker_key`, `secret_key`: as Client's; without them LANEMQ_WORKER_BROKER_KEY and LANEMQ_WORKER_SECRET_KEY.
        `drain_timeout`: seconds that running jobs get when it is told to stop.

        Raises ValueError or TypeError for what no worker can be, OSError where no descriptors are left. A worker is of the process
        that made it: in the child of a fork it raises RuntimeError."""
        if isinstance(services, Mapping):
            services = [Service(service, handler, {}) for service, handler in services.items()]
        self._services = {wire.check_name("service", service.name): service for service in services}
        if not 1 <= len(self._services) <= _tables.LIST_ENTRIES_MAX:
            raise ValueError(f"a worker serves 1 to {_tables.LIST_ENTRIES_MAX} services, not {len(self._services)}")
        if type(capacity) is not int or not 1 <= capacity <= _tables.CAPACITY_MAX:
            raise ValueError(f"capacity is {capacity!r}; the limits are 1 and {_tables.CAPACITY_MAX}")
        environment = os.environ
        self._peer = settings.peer(broker if broker is not None and broker != "" else environment.get("LANEMQ_WORKER_BROKER") or settings.WORKERS_ENDPOINT,
                                   broker_key or environment.get("LANEMQ_WORKER_BROKER_KEY"),
                                   secret_key or environment.get("LANEMQ_WORKER_SECRET_KEY"), environment)
        #: For people.
        self.name = name or f"{socket.gethostname()[:100]}-{os.getpid()}"
        self.capacity = capacity
        self.drain_timeout = drain_timeout
        self._session = WorkerSession(
            list(self._services), capacity, time.monotonic(), lanes=[wire.check_name("lane", lane) for lane in lanes],
            name=wire.check_name("name", self.name), version=_version(), process=_process_name(),
            endpoints=len(self._peer.endpoints))
        self._inbox: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()  # bounded by capacity and windows
        self._calls: dict[Lease, JobCall] = {}  # of the driver's thread
        self._waiting: deque[JobCall] = deque()  # for a thread to take them; bounded by capacity
        self._work: SimpleQueue[None] = SimpleQueue()  # one for each of these, or more
        self._process = os.getpid()
        self._threads = self._busy = 0  # of the driver's thread, and of handlers that have ended
        self._welcomed, self._over = threading.Event(), threading.Event()
        self._refusal: str | None = None
        self._finished_all = True
        self._driver = Driver("lanemq-worker", self._peer, self._session, _tables.BODY_BYTES_MAX, LOG, self._inbox,
                              self._take_inbox, self._after_turn)
        self._started = False

    def run(self) -> bool:
        """Serves until SIGTERM or Ctrl-C, which drain: what runs may finish for `drain_timeout` seconds, nothing new is taken.
        A second one ends it at once; the broker gives what runs to others. Prints a line that begins with `ready` once the
        broker has taken it. True: everything was finished. Raises WorkerRefusedError. Requires: the main thread."""
        def stop(number: int, frame: Any) -> None:
            if os.getpid() != self._process:  # that a handler has forked: to it the signal means what it did before
                signal.signal(number, before[number] or signal.SIG_DFL)
                signal.raise_signal(number)
            elif self._stopping:
                self.leave()
            else:
                self.drain()

        self._check_process()
        self._stopping = False
        before: dict[int, Any] = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self.start()
            while not self._over.is_set() and not self._welcomed.wait(1.0):
                pass
            if self._welcomed.is_set():
                _print(f"ready name={self.name} services={','.join(self._services)} capacity={self.capacity}")
            return self.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def start(self) -> None:
        """Serves in the background, until drain() or leave()."""
        self._check_process()
        if self._started:
            raise RuntimeError("a worker runs once; make another one")
        self._started = True
        self._driver.start()

    def drain(self) -> None:
        """Takes no more jobs, and ends when those that run are over, after `drain_timeout` seconds in any case."""
        self._stopping = True
        self._tell(self._session.drain, time.monotonic() + self.drain_timeout)

    def leave(self) -> None:
        """Ends now. Handlers hear that they are cancelled; the broker gives their jobs to others, at no cost."""
        self._stopping = True
        self._tell(self._session.leave)

    def wait(self, timeout: float | None = None) -> bool:
        """Until it has ended. True: everything was finished. Raises WorkerRefusedError, TimeoutError after `timeout`."""
        self._check_process()
        if not self._over.wait(timeout):
            raise TimeoutError(f"the worker has not ended within {timeout} s")
        self._driver.end(FAREWELL_MS, patience=2 * FAREWELL_MS / 1000)
        if self._refusal is not None:
            raise WorkerRefusedError(self._refusal, local=True)
        return self._finished_all

    _stopping = False

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(
                f"this worker was made in the process {self._process}, and a fork does not take its connection along: make the worker "
                f"in the process that runs it (this is the process {os.getpid()})")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a worker is of the process that made it: make it in the one that runs it, also behind multiprocessing's spawn")

    def _tell(self, act: Callable[..., None], *arguments: Any) -> None:
        self._inbox.append((act, arguments))
        self._driver.wake()

    # ---- on the handlers' threads ---------------------------------------------------------------------------------

    def _handle_all(self) -> None:
        while True:
            try:
                self._handle_one()
            except BaseException as fault:
                # Of a time limit that raises into threads, and came when the handler was over. The next job waits in `_waiting`.
                LOG.warning("an exception was raised into a thread whose handler was over: %r", fault)

    def _handle_one(self) -> None:
        while not self._waiting:
            self._work.get()
        try:
            call = self._waiting.popleft()
        except IndexError:  # another thread was faster
            return
        try:
            outcome = self._outcome_of(call)
        except BaseException as fault:
            outcome = outcomes.of_fault(fault)
        self._tell(self._finish, call._lease, outcome)

    def _outcome_of(self, call: JobCall) -> Outcome:
        try:
            answer = self._services[call.service].handler(call)
            if os.getpid() != self._process:
                _end_child(None)
            outcome = outcomes.of_answer(answer)
        except BaseException as fault:
            if os.getpid() != self._process:
                _end_child(fault)
            outcome = outcomes.of_fault(fault)
            if not isinstance(fault, (Failure, JobCancelled)):
                with suppress(Exception):  # of a program's own handlers of logs
                    LOG.exception("the handler of %r failed at job %s", call.service, call.id)
        if outcomes.is_bad(outcome):
            with suppress(Exception):
                LOG.error("what the handler of %r says at job %s cannot be handed in: %s", call.service, call.id, outcome.fields["message"])
        return outcome

    def _send_piece(self, lease: Lease, body: bytes) -> None:
        self._tell(self._session.piece, lease, body)

    def _say_word(self, call: JobCall) -> None:
        self._tell(self._take_word, call)

    # ---- on the driver's thread -----------------------------------------------------------------------------------

    def _take_inbox(self, now: float) -> None:
        while self._inbox:
            act, arguments = self._inbox.popleft()
            act(*arguments, now)

    def _take_word(self, call: JobCall, now: float) -> None:
        if (word := call._take_word()) is not None:
            self._session.progress(call._lease, word, now)

    def _finish(self, lease: Lease, outcome: Outcome, now: float) -> None:
        self._busy -= 1
        self._calls.pop(lease, None)
        self._session.finish(lease, outcome, now)

    def _after_turn(self) -> None:
        if self._driver.fault is not None:
            self._refusal = f"the worker's thread failed: {self._driver.fault!r}"
            self._over.set()
        effects, self._session.effects = self._session.effects, []
        for what, *details in effects:
            if what == "start":
                self._start(*details)
            elif what == "cancel":
                if (call := self._calls.get(details[0])) is not None:
                    call._cancelled.set()
            elif what == "welcomed":
                LOG.info("the broker at %s has taken the worker %s", self._driver.endpoint, self.name)
                self._welcomed.set()
            elif what == "refused":
                LOG.warning("the broker at %s refused the worker: %s", self._driver.endpoint, details[0])
                if details[1]:
                    self._refusal = details[0]
                    self._over.set()
            elif what == "left":
                self._finished_all = self._session.running == 0
                self._over.set()

    def _start(self, lease: Lease, fields: wire.Fields, body: bytes) -> None:
        try:
            call = JobCall(lease, fields, body, self._send_piece, self._say_word)
        except Exception as error:  # a field of another type than the page says
            return self._tell(self._session.finish, lease, outcomes.of_fault(BadJob(f"the job cannot be read: {error}")))
        if call._gate is not None:
            self._session.watch(lease, call._gate)
        self._calls[lease] = call
        self._busy += 1
        # Each job has a thread from the start. Bounded: the session refuses what is over its capacity.
        if self._busy > self._threads and not self._add_thread():
            self._tell(self._session.shrink, self._threads)
            return self._tell(self._finish, lease, NO_THREAD)
        self._waiting.append(call)
        self._work.put(None)

    def _add_thread(self) -> bool:
        # They end with the process: a handler that does not hear that it is cancelled must not keep it.
        thread = threading.Thread(target=self._handle_all, name=f"lanemq-handler-{self._threads + 1}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            LOG.warning("a job is handed back, as the system gives no thread beside %d: %s", self._threads, error)
            return False
        self._threads += 1
        return True


def _print(line: str) -> None:
    """To stdout, where somebody reads it: a worker needs none."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # else the end of the program, which writes what is left, would be a failure
    except (OSError, ValueError):  # a full disk; it is closed
        pass


def _end_child(fault: BaseException | None) -> NoReturn:
    """Ends a process that a handler has forked, and that has left the handler: it has no broker, and nobody waits for its answer."""
    status = 0
    try:
        if isinstance(fault, SystemExit):
            status = fault.code if isinstance(fault.code, int) else 0 if fault.code is None else 1
            if fault.code is not None and not isinstance(fault.code, int):
                print(fault.code, file=sys.stderr)
        elif fault is not None:
            status = 1
            traceback.print_exception(fault)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(status & 0xFF)


def _version() -> str:
    from . import __version__

    return __version__


def _process_name() -> str:
    """This process, so that a broker on the same machine can see it end; empty where the system does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()}/{os.readlink('/proc/self/ns/pid')}/{os.getpid()}"
    except OSError:
        return ""
