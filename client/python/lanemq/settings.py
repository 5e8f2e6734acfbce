# SPDX-License-Identifier: Apache-2.0
"""Endpoints and keys, from arguments and the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import zmq

CLIENTS_ENDPOINT = "tcp://127.0.0.1:5570"
WORKERS_ENDPOINT = "tcp://127.0.0.1:5571"
KEY_CHARS = 40


@dataclass(frozen=True)
class Peer:
    """Where a broker is, and what it is shown. `broker_key` empty: no keys."""

    endpoint: str
    broker_key: bytes = b""
    public_key: bytes = b""
    secret_key: bytes = b""


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


def peer(endpoint: str, broker_key: str | None, secret_key: str | None, environment: Mapping[str, str]) -> Peer:
    """Reads the keys. Raises ValueError for keys that are none, or where one of the two is missing."""
    if not broker_key and not secret_key:
        return Peer(endpoint)
    if not broker_key or not secret_key:
        raise ValueError("a broker that asks for keys needs both: its public key (broker_key) and a secret key of one's own "
                         "(secret_key)")
    broker, secret = (_key(what, read_secret(source, environment))
                      for what, source in (("broker_key", broker_key), ("secret_key", secret_key)))
    if not zmq.has("curve"):
        raise ValueError("this libzmq has no CURVE, so it can show no keys")
    return Peer(endpoint, broker, zmq.curve_public(secret), secret)


def _key(what: str, key: str) -> bytes:
    fault = ValueError(f"{what} is no key: a key has {KEY_CHARS} characters of Z85 (lanemq keygen makes one)")
    if len(key) != KEY_CHARS or not key.isascii():
        raise fault
    try:
        zmq.curve_public(key.encode())  # decodes it
    except (zmq.ZMQError, ValueError):
        raise fault from None
    return key.encode()
