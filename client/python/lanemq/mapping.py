# SPDX-License-Identifier: Apache-2.0
"""The logic of `map`, without waiting: which item goes next, and which answer is handed out next."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any, TextIO, Union

from . import wire
from .errors import LaneMQError
from .session import Request, Sink
from .types import Answer, Body, Job, Submit, body_bytes

#: Jobs of one `map` that the broker has at once.
WINDOW = 256
#: Answers that wait for an earlier one, for each job of the window: then nothing new is begun.
AHEAD = 4

Outcome = Union[Answer, LaneMQError]


class MapRun:
    """One `map`. `feed()` says what to begin, `take()` is told what came, `ready()` hands out."""

    def __init__(self, service: str, bodies: Iterable[Body | Job], options: Mapping[str, Any], make_id: Any, sink: Sink, *,
                 ordered: bool, window: int, returns_errors: bool) -> None:
        if window < 1:
            raise ValueError(f"window is {window}; at least one job is under way")
        self._service, self._options, self._make_id, self._sink = service, options, make_id, sink
        self._shared = Submit(service, options)
        self._items: Iterator[Body | Job] = iter(bodies)
        self._ordered, self._window, self._returns_errors = ordered, window, returns_errors
        self.total = len(bodies) if isinstance(bodies, Sized) else None
        self.done = self.failed = 0
        self._begun = self._given = 0
        self._exhausted = False
        self._under_way: dict[int, Request] = {}
        self._waiting: dict[int, Outcome] = {}  # of an ordered one: by index
        self._ready: deque[Outcome] = deque()

    def feed(self) -> list[Request]:
        """Jobs to begin, as many as the window has room for. Reads the input; what that raises passes through."""
        new: list[Request] = []
        while (not self._exhausted and len(self._under_way) < self._window
               and self._begun - self._given < AHEAD * self._window):
            try:
                item = next(self._items)
            except StopIteration:
                self._exhausted = True
                break
            new.append(self._request(item))
        return new

    def _request(self, item: Body | Job) -> Request:
        submit, id = self._shared, None
        if isinstance(item, Job):
            id = None if item.id is None else wire.check_name("id", item.id)
            if item.options:
                submit = Submit(self._service, {**self._options, **item.options})
            item = item.body
        request = Request("submit", id or self._make_id(), submit=submit, body=body_bytes(item), sink=self._sink,
                          token=self._begun, timeout=None if submit.patience is None else submit.patience + 5.0)
        self._under_way[self._begun] = request
        self._begun += 1
        return request

    def take(self, outcomes: Iterable[tuple[int, Outcome]]) -> None:
        """What came of jobs. Raises the first error, where errors are not returned."""
        for index, outcome in outcomes:
            del self._under_way[index]
            outcome.index = index
            self.done += 1
            if isinstance(outcome, LaneMQError):
                self.failed += 1
                if not self._returns_errors:
                    raise outcome
            if self._ordered:
                self._waiting[index] = outcome
            else:
                self._ready.append(outcome)
        while self._ordered and (outcome_at := self._waiting.pop(self._given + len(self._ready), None)) is not None:
            self._ready.append(outcome_at)

    def ready(self) -> Outcome | None:
        """The next answer; None: none is there yet."""
        if not self._ready:
            return None
        self._given += 1
        return self._ready.popleft()

    @property
    def over(self) -> bool:
        return self._exhausted and not self._under_way and not self._ready

    def under_way(self) -> list[Request]:
        return list(self._under_way.values())


class Progress:
    """A line on a terminal that says how far a `map` is, at most ten times a second."""

    EVERY = 0.1
    WIDTH = 30

    def __init__(self, run: MapRun, wanted: bool | None, out: TextIO | None = None) -> None:
        self._run, self._out = run, out or sys.stderr
        self._on = self._out.isatty() if wanted is None else wanted
        self._begun, self._drawn = time.monotonic(), 0.0

    def draw(self, last: bool = False) -> None:
        now = time.monotonic()
        if not self._on or (not last and now - self._drawn < self.EVERY):
            return
        self._drawn = now
        self._out.write("\r\x1b[K" + self.text(now - self._begun) + ("\n" if last else ""))
        self._out.flush()

    def text(self, seconds: float) -> str:
        done, total, failed = self._run.done, self._run.total, self._run.failed
        rate = done / seconds if seconds > 0 else 0.0
        tail = f"{done}{f'/{total}' if total is not None else ''} done, {failed} failed, {rate:.0f}/s"
        if not total:
            return tail
        full = self.WIDTH * done // total
        left = f", {(total - done) / rate:.0f} s left" if rate and done < total else ""
        return f"[{'#' * full}{' ' * (self.WIDTH - full)}] {tail}{left}"
