# SPDX-License-Identifier: Apache-2.0
"""The client for programs with threads. aio.py has the same for asyncio."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Literal, Self, Unpack, overload

from .base import ClientBase, submit_request, watch_request
from .engine import CLOSE_TIMEOUT, ThreadSink, control, make_id
from .errors import LaneMQError
from .explain import explain
from .mapping import WINDOW, MapRun, Progress
from .session import Change, Piece, Request
from .types import Accepted, Answer, Body, Event, Explanation, Job, JobOptions, Pong, Status

#: How long a call that is interrupted waits until the broker has heard that its jobs are cancelled.
INTERRUPTED_TIMEOUT = 3.0


class Client(ClientBase):
    """A connection to a broker, for any number of jobs at once.

    All methods may be called from any thread; a thread of the client's own does input and output, and jobs that threads
    submit at the same time travel together. Each call ends once: with the broker's answer, or with a LaneMQError. When the
    connection breaks, or is silent for 3 s, a new one is made and all that is open is sent again under the same ids; the
    broker joins it to what it has. Ctrl-C in a call, and a stream or `map` that is left before its end, cancels the jobs that
    it submitted.
    """

    def submit(self, service: str, body: Body = b"", *, id: str | None = None, **options: Unpack[JobOptions]) -> Answer:
        """Has a job done, and waits for its answer.

        `id`: the job's name. Submitted again with it, also by another process and after a crash, the job does not run a
        second time and the answer is the same. Without it the client makes one, for its own repetitions.
        """
        sink = ThreadSink()
        answer: Answer = self._ask(submit_request("submit", service, body, id, options, sink, None), sink,
                                   options.get("when_full") == "raise")
        return answer

    def leave(self, service: str, body: Body = b"", *, id: str | None = None, stream: bool = False,
              **options: Unpack[JobOptions]) -> Accepted:
        """Leaves a job with the broker, and returns when it is accepted. Any client can `fetch` its answer by the id, for as
        long as the broker keeps it (`retain`). `stream`: the answer is made in pieces, for `follow`."""
        sink = ThreadSink()
        request = submit_request("leave", service, body, id, {**options, "stream": stream}, sink, None)
        accepted: Accepted = self._ask(request, sink, options.get("when_full") == "raise")
        return accepted

    def fetch(self, id: str, *, wait: float | None = None) -> Answer:
        """The answer of a job of any client. `wait`: seconds for which to wait for its end; None: for as long as it takes.
        Raises NotOverError after that time, NotFoundError, GoneError, or the error that the job ended with."""
        if wait is not None and wait < 0:
            raise ValueError(f"wait is {wait} s; it is at least 0")
        sink = ThreadSink()
        answer: Answer = self._ask(control("fetch", id, sink=sink, timeout=wait), sink)
        return answer

    def status(self, id: str) -> Status:
        """How far a job is; its state is `unknown` where nobody knows the id."""
        sink = ThreadSink()
        status: Status = self._ask(control("status", id, sink=sink), sink)
        return status

    def explain(self, id: str) -> Explanation:
        """What a job waits for, and what would help, in sentences."""
        return explain(self.status(id))

    def cancel(self, id: str) -> Status:
        """Ends a job, and says how far it is then. A job that is over stays what it is."""
        sink = ThreadSink()
        status: Status = self._ask(control("cancel", id, sink=sink), sink)
        return status

    def ping(self) -> Pong:
        """Asks whether the broker is there. Raises DeadlineError after 10 s."""
        sink = ThreadSink()
        pong: Pong = self._ask(control("ping", filter={"cluster": True}, sink=sink), sink)
        return pong

    def stream(self, service: str, body: Body = b"", *, id: str | None = None, **options: Unpack[JobOptions]) -> Stream:
        """Has a job done whose answer comes in pieces, and returns the iterator of its pieces."""
        sink = ThreadSink()
        return Stream(self, submit_request("stream", service, body, id, options, sink, None), sink,
                      options.get("when_full") == "raise")

    def follow(self, id: str, *, first: int = 0) -> Stream:
        """The pieces of a job of any client that was submitted as a stream, from the piece `first` on: what the broker keeps,
        and then what comes. A stream that is followed is not cancelled when it is left."""
        sink = ThreadSink()
        return Stream(self, control("follow", id, sink=sink, from_seq=first, timeout=None), sink, False)

    def watch(self, *, id: str | None = None, client: str | None = None, lane: str | None = None,
              service: str | None = None, group: str | None = None) -> Watch:
        """Follows what becomes of jobs: those that all of this fits, of any client. An iterator of events without an end.

        The first event is `watching`: from then on no change goes untold. It comes again, with `gap`, after each connection that
        was lost; ask `status` of what you have to know then. A reader that is 1024 events behind misses some, and the next one
        it gets says so (`gap`, `left_out`). Ends with a LaneMQError where the broker refuses the watch, or the client is closed.
        """
        sink = ThreadSink()
        return Watch(self, watch_request({"id": id, "client": client, "lane": lane, "service": service, "group": group}, sink, None), sink, True)

    @overload
    def map(self, service: str, bodies: Iterable[Body | Job], *, ordered: bool = ..., window: int = ...,
            progress: bool | None = ..., errors: Literal["raise"] = ..., **options: Unpack[JobOptions]) -> Iterator[Answer]: ...

    @overload
    def map(self, service: str, bodies: Iterable[Body | Job], *, ordered: bool = ..., window: int = ...,
            progress: bool | None = ..., errors: Literal["return"],
            **options: Unpack[JobOptions]) -> Iterator[Answer | LaneMQError]: ...

    def map(self, service: str, bodies: Iterable[Body | Job], *, ordered: bool = True, window: int = WINDOW,
            progress: bool | None = None, errors: Literal["raise", "return"] = "raise",
            **options: Unpack[JobOptions]) -> Iterator[Any]:
        """Has a job done for each body, up to `window` of them at once, and yields the answers.

        In the order of the bodies, or as they come where `ordered` is False; `Answer.index` is the place in the input.
        `bodies` is read as answers are taken, on the caller's thread; an item that is a `Job` has an id or options of its own.
        `progress`: a line on stderr that says how far it is; None: where stderr is a terminal.
        `errors`: `raise` ends it with the first job that failed, and cancels the others; `return` yields the errors in the
        place of answers. An iterator that is closed or forgotten cancels what is under way.
        """
        sink = ThreadSink()
        run = MapRun(service, bodies, options, make_id, sink, ordered=ordered, window=window,
                     returns_errors=errors == "return")
        return self._map(run, sink, Progress(run, progress), options.get("when_full") == "raise")

    def close(self) -> None:
        """Cancels what is under way, and ends the connection. Waits up to 3 s for the broker to hear of it, and a moment where
        there is none that answers."""
        self._engine.stop_waiting()
        self._engine.wait_until_idle(CLOSE_TIMEOUT)
        self._engine.end()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # ---- how calls wait -------------------------------------------------------------------------------------------

    def _begin(self, requests: list[Request], raises: bool = False) -> None:
        """Takes places for requests, waits for them where there are none, and begins them."""
        self._engine.check_process()
        ready: list[Request] = []
        try:
            for request in requests:
                while not self._engine.has_place(request):
                    room = threading.Event()
                    if self._engine.take_place(request, None if raises else room.set):
                        break
                    self._engine.begin(ready)  # those whose ends make room
                    ready = []
                    room.wait()
                ready.append(request)
        finally:
            if ready:
                self._engine.begin(ready)

    def _ask(self, request: Request, sink: ThreadSink, raises: bool = False) -> Any:
        try:
            self._begin([request], raises)
            outcome = sink.take()[0][1]
        except LaneMQError:
            raise
        except BaseException:
            self._give_up([request])
            raise
        if isinstance(outcome, LaneMQError):
            raise outcome
        return outcome

    def _give_up(self, requests: list[Request]) -> None:
        """Cancels what nobody waits for any more, and sees that the broker has heard of it: the process may end now."""
        self._engine.wait_for_broker(self._engine.abandon(requests), INTERRUPTED_TIMEOUT)

    def _map(self, run: MapRun, sink: ThreadSink, progress: Progress, raises: bool) -> Iterator[Any]:
        try:
            while True:
                self._begin(run.feed(), raises)
                if (outcome := run.ready()) is not None:
                    yield outcome
                    continue
                if run.over:
                    return
                run.take(sink.take())
                progress.draw()
        finally:
            progress.draw(last=True)
            if left := run.under_way():
                self._give_up(left)


class _Reader:
    """What a thread reads of one request: events, until one of them is the end. Of one thread, but any may close() it."""

    def __init__(self, client: Client, request: Request, sink: ThreadSink, raises: bool) -> None:
        self._client, self._request, self._sink = client, request, sink
        self._events: deque[tuple[Any, Any]] = deque()  # bounded: of a stream by the protocol's window, of a watch by UNREAD_EVENTS_MAX
        self._over = False
        try:
            client._begin([request], raises)
        except BaseException:
            self._over = True
            raise

    def _next_event(self) -> Any:
        """Raises StopIteration where it is over, or is closed meanwhile."""
        if self._over:
            raise StopIteration
        self._client._engine.check_process()
        try:
            while not self._events:
                self._events.extend(self._sink.take())
                if self._over:  # closed by another thread
                    self._sink.wake()  # for whoever waits besides
                    raise StopIteration
        except BaseException:
            self.close()
            raise
        return self._events.popleft()[1]

    def close(self) -> None:
        """Reads no more. Ends the iteration of a thread that waits."""
        if not self._over:
            self._over = True
            self._sink.wake()
            self._client._give_up([self._request])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_over", True):
            self._over = True
            self._client._engine.abandon([self._request])


class Stream(_Reader):
    """An answer that comes in pieces: an iterator of bytes. Of one thread, but any may close() it.

    The broker holds its upstream back where this reader is 64 pieces or 256 KiB behind; a reader that takes no piece for 30 s
    ends with SlowReaderError. Closed before its end, it cancels the job that it submitted.
    """

    def __init__(self, client: Client, request: Request, sink: ThreadSink, raises: bool) -> None:
        #: The job's id.
        self.id = request.id
        #: What a job is when it is over: its usage, times, and the part of its body that no piece carried.
        self.answer: Answer | None = None
        super().__init__(client, request, sink, raises)

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> bytes:
        event = self._next_event()
        if isinstance(event, Piece):
            self._client._engine.seen(event.ref, event.seq)
            return event.body
        self._over = True
        if isinstance(event, LaneMQError):
            raise event
        self.answer = event
        raise StopIteration


class Watch(_Reader):
    """Events of jobs, as Client.watch() says: an iterator. Of one thread, but any may close() it."""

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> Event:
        event = self._next_event()
        if isinstance(event, Change):
            self._client._engine.took(event)
            return event.event
        self._over = True
        raise event
