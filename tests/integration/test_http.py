# SPDX-License-Identifier: Apache-2.0
"""The table of HTTP requests (tests/http/shapes.txt) against the gateway: whole, byte by byte, and cut at random."""

import os
import random
import re
import socket
import time
import unittest

import test_gateway as gateway
import harness

SHAPES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "http", "shapes.txt")
# Where the table says `/`: routes that take a body, whatever becomes of it.
ROUTES = ((b"GET / ", b"GET /healthz "), (b"POST / ", b"POST " + gateway.CHAT.encode() + b" "))


def unescaped(text):
    text = re.sub(r"\{([^{}]*)\*(\d+)\}", lambda m: m[1] * int(m[2]), text).replace("\u21b5", "\r\n")
    bytes_ = text.encode("latin-1", "backslashreplace")
    return re.sub(rb"\\(x[0-9a-f]{2}|.)", lambda m: bytes([int(m[1][1:], 16)]) if m[1][:1] == b"x" else
                  {b"r": b"\r", b"n": b"\n", b"t": b"\t"}.get(m[1], m[1]), bytes_)


def shapes():
    shape = {}
    with open(SHAPES, encoding="utf-8") as file:
        for line in file.read().split("\n"):
            if line.startswith("> "):
                shape["bytes"] = unescaped(line[2:])
                for plain, route in ROUTES:
                    shape["bytes"] = shape["bytes"].replace(plain, route)
            elif line.startswith("does "):
                yield shape["name"], shape["bytes"], line[5:].split()
            elif line and not line.startswith(("# ", "wants ", "why ")):
                shape = {"name": line}


class Answers:
    """What comes back on a connection, answer by answer."""

    def __init__(self, connection):
        self.connection, self.seen, self.statuses, self.closed = connection, b"", [], False

    def take(self):
        while True:
            head, end, rest = self.seen.partition(b"\r\n\r\n")
            if not end:
                return
            status = int(head.split(b" ", 2)[1])
            length = re.search(rb"\r\ncontent-length: (\d+)", head)
            size = int(length[1]) if length else 0
            if len(rest) < size:
                return
            if status >= 200:
                self.statuses.append(status)
            self.seen = rest[size:]

    def read(self, count, close, patience):
        """Until so many are there, and the end where that is to come."""
        until = time.monotonic() + patience
        while (len(self.statuses) < count or (close and not self.closed)) and not self.closed:
            self.connection.settimeout(max(until - time.monotonic(), 0.001))
            try:
                piece = self.connection.recv(65536)
            except socket.timeout:
                return
            except ConnectionResetError:
                piece = b""
            self.closed = not piece
            self.seen += piece
            self.take()


class Table(gateway.GatewayCase):
    flags = ("--body-bytes-max", "1000000B")

    def check(self, name, data, does, pieces):
        with self.subTest(shape=name), socket.create_connection(self.address(), timeout=harness.PATIENCE) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                for piece in pieces(data):
                    connection.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it was refused before its end
            refused = [int(word) for word in does if word.isdigit()]
            count = len([word for word in does if word not in ("waits", "close")])
            close = bool(refused) or "close" in does
            answers = Answers(connection)
            answers.read(count, close, harness.PATIENCE)
            if not close:
                answers.read(count + 1, False, 0.02)  # nothing more comes
            self.assertEqual(len(answers.statuses), count, answers.statuses)
            self.assertEqual(answers.statuses[-1:] if refused else [], refused)
            self.assertEqual(answers.closed, close)

    def all(self, pieces):
        count = 0
        for name, data, does in shapes():
            self.check(name, data, does, pieces)
            count += 1
        self.assertGreaterEqual(count, 120)
        self.assertIsNone(self.gateway.process.poll())
        self.assertEqual(self.metric("lanemq_gateway_failures_total"), 0)

    def test_whole(self):
        self.all(lambda data: [data])

    def test_byte_by_byte(self):
        self.all(lambda data: [data[at:at + 1] for at in range(min(len(data), 2000))] + [data[2000:]])

    def test_cut_at_random(self):
        chance = random.Random(5)

        def pieces(data):
            cuts = sorted({chance.randrange(len(data) + 1) for _ in range(3)})
            for begin, end in zip([0] + cuts, cuts + [len(data)]):
                yield data[begin:end]
                harness.pace(0.001)  # so that they come one by one, as a rule

        self.all(pieces)


if __name__ == "__main__":
    unittest.main()
