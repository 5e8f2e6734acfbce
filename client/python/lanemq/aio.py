# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio: the same session and thread as Client's, and outcomes that come to the loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import Any, Literal, Self, Unpack, overload

from .base import ClientBase, submit_request, watch_request
from .engine import CLOSE_TIMEOUT, control, make_id
from .errors import LaneMQError
from .explain import explain
from .mapping import WINDOW, MapRun, Outcome, Progress
from .session import Change, Piece, Request
from .settings import Brokers
from .types import Accepted, Answer, Body, Event, Explanation, Job, JobOptions, Pong, Status


class LoopSink:
    """Outcomes for a loop: those of a turn of the engine come in one call. A token is called with its outcome."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._turn: list[tuple[Any, Any]] = []

    def put(self, token: Any, value: Any) -> None:
        self._turn.append((token, value))

    def flush(self) -> None:
        turn, self._turn = self._turn, []
        try:
            self._loop.call_soon_threadsafe(self._tell, turn)
        except RuntimeError:  # the loop is closed: nobody waits any more
            pass

    @staticmethod
    def _tell(turn: list[tuple[Callable[[Any], None], Any]]) -> None:
        for token, value in turn:
            token(value)


class Mailbox:
    """What came for one reader, on its loop."""

    def __init__(self) -> None:
        self._came: deque[Any] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def put(self, value: Any) -> None:
        self._came.append(value)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def take(self) -> list[Any]:
        if not self._came:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        came = list(self._came)
        self._came.clear()
        return came


class AsyncClient(ClientBase):
    """A connection to a broker, for any number of jobs at once, used from one loop.

    The methods are those of Client, to be awaited. A task that is cancelled while it waits cancels the job that it submitted.
    """

    def __init__(self, broker: Brokers | None = None, **arguments: Any) -> None:
        """As Client's. Requires: nothing of a loop; the first call binds it to the running one."""
        super().__init__(broker, **arguments)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sink: LoopSink | None = None

    __init__.__doc__ = ClientBase.__init__.__doc__

    async def submit(self, service: str, body: Body = b"", *, id: str | None = None, **options: Unpack[JobOptions]) -> Answer:
        """As Client.submit."""
        future = self._future()
        request = submit_request("submit", service, body, id, options, self._bound(), _setter(future))
        answer: Answer = await self._ask(request, future, options.get("when_full") == "raise")
        return answer

    async def leave(self, service: str, body: Body = b"", *, id: str | None = None, stream: bool = False,
                    **options: Unpack[JobOptions]) -> Accepted:
        """As Client.leave."""
        future = self._future()
        request = submit_request("leave", service, body, id, {**options, "stream": stream}, self._bound(), _setter(future))
        accepted: Accepted = await self._ask(request, future, options.get("when_full") == "raise")
        return accepted

    async def fetch(self, id: str, *, wait: float | None = None) -> Answer:
        """As Client.fetch."""
        if wait is not None and wait < 0:
            raise ValueError(f"wait is {wait} s; it is at least 0")
        answer: Answer = await self._control("fetch", id, timeout=wait)
        return answer

    async def status(self, id: str) -> Status:
        """As Client.status."""
        status: Status = await self._control("status", id)
        return status

    async def explain(self, id: str) -> Explanation:
        """As Client.explain."""
        return explain(await self.status(id))

    async def cancel(self, id: str) -> Status:
        """As Client.cancel."""
        status: Status = await self._control("cancel", id)
        return status

    async def ping(self) -> Pong:
        """As Client.ping."""
        pong: Pong = await self._control("ping", filter={"cluster": True})
        return pong

    def stream(self, service: str, body: Body = b"", *, id: str | None = None, **options: Unpack[JobOptions]) -> AsyncStream:
        """As Client.stream; `async for` reads the pieces. The job is submitted when the first one is asked for."""
        mailbox = Mailbox()
        return AsyncStream(self, submit_request("stream", service, body, id, options, self._bound(), mailbox.put), mailbox,
                           options.get("when_full") == "raise")

    def follow(self, id: str, *, first: int = 0) -> AsyncStream:
        """As Client.follow."""
        mailbox = Mailbox()
        return AsyncStream(self, control("follow", id, sink=self._bound(), token=mailbox.put, from_seq=first, timeout=None),
                           mailbox, False)

    def watch(self, *, id: str | None = None, client: str | None = None, lane: str | None = None,
              service: str | None = None, group: str | None = None) -> AsyncWatch:
        """As Client.watch; `async for` reads the events. It begins when the first one is asked for."""
        mailbox = Mailbox()
        filter = {"id": id, "client": client, "lane": lane, "service": service, "group": group}
        return AsyncWatch(self, watch_request(filter, self._bound(), mailbox.put), mailbox, True)

    @overload
    def map(self, service: str, bodies: Iterable[Body | Job], *, ordered: bool = ..., window: int = ...,
            progress: bool | None = ..., errors: Literal["raise"] = ...,
            **options: Unpack[JobOptions]) -> AsyncIterator[Answer]: ...

    @overload
    def map(self, service: str, bodies: Iterable[Body | Job], *, ordered: bool = ..., window: int = ...,
            progress: bool | None = ..., errors: Literal["return"],
            **options: Unpack[JobOptions]) -> AsyncIterator[Answer | LaneMQError]: ...

    def map(self, service: str, bodies: Iterable[Body | Job], *, ordered: bool = True, window: int = WINDOW,
            progress: bool | None = None, errors: Literal["raise", "return"] = "raise",
            **options: Unpack[JobOptions]) -> AsyncIterator[Any]:
        """As Client.map; `async for` reads the answers."""
        sink = _Tagged(self._bound())
        run = MapRun(service, bodies, options, make_id, sink, ordered=ordered, window=window,
                     returns_errors=errors == "return")
        return self._map(run, sink, Progress(run, progress), options.get("when_full") == "raise")

    async def close(self) -> None:
        """As Client.close; the loop goes on meanwhile."""
        self._engine.stop_waiting()
        await asyncio.to_thread(self._engine.wait_until_idle, CLOSE_TIMEOUT)
        await asyncio.to_thread(self._engine.end)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, value: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.close()

    # ---- how calls wait -------------------------------------------------------------------------------------------

    def _bound(self) -> LoopSink:
        loop = asyncio.get_running_loop()
        if self._sink is None or self._loop is not loop:
            if self._loop is not None and not self._loop.is_closed():
                raise RuntimeError("an AsyncClient is for one loop; make another one here")
            self._loop, self._sink = loop, LoopSink(loop)
        return self._sink

    def _future(self) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()

    async def _begin(self, requests: list[Request], raises: bool = False) -> None:
        self._engine.check_process()
        ready: list[Request] = []
        try:
            for request in requests:
                while not self._engine.has_place(request):
                    room = self._future()
                    if self._engine.take_place(request, None if raises else _ringer(room)):
                        break
                    self._engine.begin(ready)
                    ready = []
                    await room
                ready.append(request)
        finally:
            if ready:
                self._engine.begin(ready)

    async def _ask(self, request: Request, future: asyncio.Future[Any], raises: bool = False) -> Any:
        try:
            await self._begin([request], raises)
            outcome = await future
        except LaneMQError:
            raise
        except BaseException:
            self._engine.abandon([request])
            raise
        if isinstance(outcome, LaneMQError):
            raise outcome
        return outcome

    async def _control(self, kind: str, id: str = "", **more: Any) -> Any:
        future = self._future()
        return await self._ask(control(kind, id, sink=self._bound(), token=_setter(future), **more), future)

    async def _map(self, run: MapRun, sink: _Tagged, progress: Progress, raises: bool) -> AsyncIterator[Any]:
        try:
            while True:
                await self._begin(run.feed(), raises)
                if (outcome := run.ready()) is not None:
                    yield outcome
                    continue
                if run.over:
                    return
                run.take(await sink.mailbox.take())
                progress.draw()
        finally:
            progress.draw(last=True)
            if left := run.under_way():
                self._engine.abandon(left)


class _AsyncReader:
    """As _Reader, for `async for`."""

    def __init__(self, client: AsyncClient, request: Request, mailbox: Mailbox, raises: bool) -> None:
        self._client, self._request, self._mailbox, self._raises = client, request, mailbox, raises
        self._events: deque[Any] = deque()
        self._begun = self._over = False

    async def _next_event(self) -> Any:
        """Raises StopAsyncIteration where it is over, or is closed meanwhile."""
        if self._over:
            raise StopAsyncIteration
        self._client._engine.check_process()
        try:
            if not self._begun:
                self._begun = True
                await self._client._begin([self._request], self._raises)
            if not self._events:
                self._events.extend(await self._mailbox.take())
                if self._over:  # closed by another task
                    raise StopAsyncIteration
        except BaseException:
            self._leave()
            raise
        return self._events.popleft()

    def _leave(self) -> None:
        if not self._over:
            self._over = True
            if self._begun:
                self._client._engine.abandon([self._request])

    async def aclose(self) -> None:
        """Reads no more. Ends the iteration of a task that waits."""
        self._leave()
        self._mailbox.put(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, value: BaseException | None,
                        trace: TracebackType | None) -> None:
        self._leave()

    def __del__(self) -> None:
        if hasattr(self, "_over"):
            self._leave()


class AsyncStream(_AsyncReader):
    """As Stream, for `async for`."""

    def __init__(self, client: AsyncClient, request: Request, mailbox: Mailbox, raises: bool) -> None:
        super().__init__(client, request, mailbox, raises)
        self.id = request.id
        self.answer: Answer | None = None

    def __aiter__(self) -> AsyncStream:
        return self

    async def __anext__(self) -> bytes:
        event = await self._next_event()
        if isinstance(event, Piece):
            self._client._engine.seen(event.ref, event.seq)
            return event.body
        self._over = True
        if isinstance(event, LaneMQError):
            raise event
        self.answer = event
        raise StopAsyncIteration


class AsyncWatch(_AsyncReader):
    """As Watch, for `async for`."""

    def __aiter__(self) -> AsyncWatch:
        return self

    async def __anext__(self) -> Event:
        event = await self._next_event()
        if isinstance(event, Change):
            self._client._engine.took(event)
            return event.event
        self._over = True
        raise event


class _Tagged:
    """The sink of a `map`: pairs of an index and an outcome, into one mailbox."""

    def __init__(self, sink: LoopSink) -> None:
        self.mailbox = Mailbox()
        self._sink = LoopSink(sink._loop)

    def put(self, token: int, value: Outcome) -> None:
        self._sink.put(self.mailbox.put, (token, value))

    def flush(self) -> None:
        self._sink.flush()


def _setter(future: asyncio.Future[Any]) -> Callable[[Any], None]:
    def set_outcome(outcome: Any) -> None:
        if not future.done():
            future.set_result(outcome)

    return set_outcome


def _ringer(room: asyncio.Future[Any]) -> Callable[[], None]:
    loop = room.get_loop()

    def ring() -> None:
        try:
            loop.call_soon_threadsafe(_setter(room), None)
        except RuntimeError:  # the loop is closed
            pass

    return ring
