# SPDX-License-Identifier: Apache-2.0
"""A session that is told messages and times, and what it says, decoded by msgpack alone."""

import os
import sys

from msgpack import packb, unpackb

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../..")
sys.path.insert(0, os.path.join(ROOT, "client/python"))


class Inbox:
    """A sink that keeps what came."""

    def __init__(self):
        self.came, self.flushed = [], 0

    def put(self, token, value):
        self.came.append((token, value))

    def flush(self):
        self.flushed += 1


def said(session, now):
    """All that the session has to say: (op, fields or list of maps, body or bodies)."""
    messages = []
    while (frames := session.next_message(now)) is not None:
        _, op, fields, *inside = unpackb(frames[0])
        messages.append((op, fields, (inside or frames[1:] or [b""])[0]))
    return messages


def tell(session, op, fields, body=None, now=0.0):
    session.received([packb(["LMQ1", op, fields] + ([] if body is None else [body]))], now)


def outcomes(session):
    """What came of requests since it was asked last."""
    events, session.events = session.events, []
    return [value for _, _, value in events]
