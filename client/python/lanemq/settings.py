# SPDX-License-Identifier: Apache-2.0
"""Endpoints and keys, from arguments and the environment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Union

import zmq

CLIENTS_ENDPOINT = "tcp://127.0.0.1:5570"
WORKERS_ENDPOINT = "tcp://127.0.0.1:5571"
KEY_CHARS = 40
ENDPOINTS_MAX = 16
PORT_MAX = 65535

#: Where a broker is: an endpoint, or several, of which one is connected to at a time: a list, or a text with commas.
Brokers = Union[str, Iterable[str]]


@dataclass(frozen=True)
class Peer:
    """Where a broker is, and what it is shown. `broker_key` empty: no keys."""

    endpoints: tuple[str, ...]
    broker_key: bytes = b""
    public_key: bytes = b""
    secret_key: bytes = b""

    def __str__(self) -> str:
        return ", ".join(self.endpoints)

    def at(self, endpoints: Brokers) -> Peer:
        """The same keys, elsewhere."""
        return replace(self, endpoints=endpoints_of(endpoints))


def endpoints_of(brokers: Brokers) -> tuple[str, ...]:
    """Raises ValueError where there is none, too many, or what cannot be one; TypeError for what is no text."""
    give = f"give 1 to {ENDPOINTS_MAX} endpoints such as tcp://127.0.0.1:5570, a list or separated by commas"
    if isinstance(brokers, (bytes, bytearray)) or not isinstance(brokers, Iterable):
        raise TypeError(f"broker is {brokers!r}; {give}")
    texts = [brokers] if isinstance(brokers, str) else list(brokers)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"broker is {brokers!r}; {give}")
    endpoints = tuple(dict.fromkeys(part.strip() for text in texts for part in text.split(",")))
    if not 1 <= len(endpoints) <= ENDPOINTS_MAX:
        raise ValueError(f"broker is {brokers!r}, with {len(endpoints)} endpoints; {give}")
    if not all(endpoints):
        raise ValueError(f"broker is {brokers!r}, with an empty entry; {give}")
    for endpoint in endpoints:
        check_endpoint(endpoint)
    return endpoints


def check_endpoint(endpoint: str) -> None:
    """Raises ValueError for a port that cannot be; what else can be none says the connection."""
    port = endpoint.rpartition(":")[2]
    if endpoint.startswith("tcp://") and not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= PORT_MAX):
        raise ValueError(f"{endpoint!r} is no endpoint to connect to: its port is not from 1 to {PORT_MAX}; give one such as "
                         "tcp://127.0.0.1:5570")


def read_secret(source: str, environment: Mapping[str, str]) -> str:
    """A key itself, or from `file:PATH`, `env:VARIABLE` or systemd's `credential:NAME`.

    Raises ValueError, or OSError for the file; no message repeats a key.
    """
    kind, _, name = source.partition(":")
    if kind == "env" and name:
        if name not in environment:
            raise ValueError(f"the variable {name} of the key is not set")
        return environment[name].strip()
    if kind == "credential" and name:
        folder = environment.get("CREDENTIALS_DIRECTORY")
        if not folder:
            raise ValueError("credential:NAME needs $CREDENTIALS_DIRECTORY, which systemd sets")
        kind, name = "file", os.path.join(folder, name)
    if kind == "file" and name:
        with open(name, encoding="utf-8") as file:
            return file.read().strip()
    return source


def peer(brokers: Brokers, broker_key: str | None, secret_key: str | None, environment: Mapping[str, str]) -> Peer:
    """Reads endpoints and keys. Raises ValueError for endpoints or keys that are none, or where one of the two is missing."""
    if not broker_key and not secret_key:
        return Peer(endpoints_of(brokers))
    if not broker_key or not secret_key:
        raise ValueError("a broker that asks for keys needs both: its public key (broker_key) and a secret key of one's own "
                         "(secret_key)")
    broker, secret = (_key(what, read_secret(source, environment))
                      for what, source in (("broker_key", broker_key), ("secret_key", secret_key)))
    if not zmq.has("curve"):
        raise ValueError("this libzmq has no CURVE, so it can show no keys")
    return Peer(endpoints_of(brokers), broker, zmq.curve_public(secret), secret)


def _key(what: str, key: str) -> bytes:
    fault = ValueError(f"{what} is no key: a key has {KEY_CHARS} characters of Z85 (lanemq keygen makes one)")
    if len(key) != KEY_CHARS or not key.isascii():
        raise fault
    try:
        zmq.curve_public(key.encode())  # decodes it
    except (zmq.ZMQError, ValueError):
        raise fault from None
    return key.encode()
