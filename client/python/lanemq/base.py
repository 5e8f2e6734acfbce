# SPDX-License-Identifier: Apache-2.0
"""What both clients are made of: the arguments of a connection, and requests from the arguments of calls."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NoReturn

from . import settings, wire
from .engine import PENDING_BYTES_MAX, PENDING_MAX, Engine, make_id
from .session import GRACE, Request, Sink
from .types import Body, Submit, body_bytes


class ClientBase:
    """Not for direct use: Client and AsyncClient derive from it."""

    def __init__(self, broker: settings.Brokers | None = None, *, broker_key: str | None = None, secret_key: str | None = None,
                 pending_max: int = PENDING_MAX, pending_bytes_max: int = PENDING_BYTES_MAX) -> None:
        """Connects to the broker; that never fails, and requests are sent once it is there.

        `broker`: its endpoint for clients; without it LANEMQ_BROKER, else tcp://127.0.0.1:5570. Where other brokers go on in its
        place the endpoints of all, a list or separated by commas: it is connected to one at a time. Of several shards it stays with
        the first that answers.
        `broker_key`, `secret_key`: for a broker that asks for keys its public key, and a key of one's own: 40 characters, or
        `file:PATH`, `env:VARIABLE`, `credential:NAME`; without them LANEMQ_BROKER_KEY and LANEMQ_CLIENT_KEY.
        `pending_max`, `pending_bytes_max`: bounds of requests without an answer, and of their bodies.

        Raises ValueError or TypeError for an endpoint, a key or a bound that is none, OSError where no descriptors are left. A
        client is of the process that made it: in the child of a fork its calls raise RuntimeError.
        """
        environment = os.environ
        for what, bound in (("pending_max", pending_max), ("pending_bytes_max", pending_bytes_max)):
            if bound < 1:
                raise ValueError(f"{what} is {bound}; a client with no room takes nothing")
        peer = settings.peer(broker if broker is not None and broker != "" else environment.get("LANEMQ_BROKER") or settings.CLIENTS_ENDPOINT,
                             broker_key or environment.get("LANEMQ_BROKER_KEY"),
                             secret_key or environment.get("LANEMQ_CLIENT_KEY"), environment)
        self._engine = Engine(peer, pending_max, pending_bytes_max)

    def __del__(self) -> None:
        if (engine := getattr(self, "_engine", None)) is not None:  # streams and `map`s hold the client: nothing is under way
            engine.end(patience=0)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client is of the process that made it: make one in each, also behind multiprocessing's spawn")

    @property
    def counters(self) -> dict[str, int]:
        """Figures since the client was made: `sent`, `resent`, `answered`, `expired`, `reconnected` and others."""
        return self._engine.counters


def submit_request(kind: str, service: str, body: Body, id: str | None, options: Mapping[str, Any], sink: Sink, token: Any,
                   timeout: float | None = None) -> Request:
    """A job's request. `kind`: submit, stream or leave. Raises TypeError or ValueError for what no job can be."""
    more: dict[str, Any] = {}
    if kind == "leave":
        more["reply"] = "accepted"
    if kind == "stream" or options.get("stream"):
        more["stream"] = True
    options = {name: value for name, value in options.items() if name != "stream"}
    submit = Submit(service, options, **more)
    if timeout is None and submit.patience is not None:
        timeout = submit.patience + GRACE
    if id is not None:
        wire.check_name("id", id)
    return Request(kind, id or make_id(), submit=submit, body=body_bytes(body), sink=sink, token=token, timeout=timeout)


def watch_request(filter: Mapping[str, str | None], sink: Sink, token: Any) -> Request:
    """Raises TypeError or ValueError for what is no name."""
    fields = {name: wire.check_name(name, value) for name, value in filter.items() if value is not None}
    return Request("watch", sink=sink, token=token, filter=fields)
