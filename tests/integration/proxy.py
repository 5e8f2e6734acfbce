# SPDX-License-Identifier: Apache-2.0
"""What stands between two programs, and fails."""

import contextlib
import socket
import threading
import time

from waits import pace


class Proxy:
    """Passes bytes to `endpoint` and back until it is told to do worse: to cut connections, to refuse them, to be late, or to
    let nothing through. A direction is "up", towards the endpoint, or "down"."""

    def __init__(self, endpoint):
        host, port = endpoint.removeprefix("tcp://").rsplit(":", 1)
        self.target, self.pairs = (host, int(port)), []
        self.gates = {"up": threading.Event(), "down": threading.Event()}
        self.delay = 0.0  # seconds by which each piece is late
        self.bytes_per_second = None  # what goes each way; None: as much as there is
        self.up_bytes_left = None  # what still goes up before its gate closes; None: it stays open
        self.refuses = False
        self.heal()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self.server.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def port(self):
        return self.endpoint.rsplit(":", 1)[1]

    def accept(self):
        while True:
            try:
                near = self.server.accept()[0]
            except OSError:
                return  # closed
            try:
                if self.refuses:
                    raise ConnectionRefusedError
                far = socket.create_connection(self.target)
            except OSError:
                near.close()  # as from a host on which nothing listens
                continue
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = Pair(near, far)
            self.pairs = [*(other for other in self.pairs if other.pumps), pair]
            for way, source, sink in (("up", near, far), ("down", far, near)):
                threading.Thread(target=self.pump, args=(pair, way, source, sink), daemon=True).start()

    def pump(self, pair, way, source, sink):
        begun, gone = time.monotonic(), 0
        try:
            while data := source.recv(65536):
                pace(self.delay)
                if way == "up" and (left := self.up_bytes_left) is not None and left < len(data):
                    self.gates["up"].clear()
                    sink.sendall(data[:left])
                    self.up_bytes_left, data = None, data[left:]
                elif way == "up" and left is not None:
                    self.up_bytes_left = left - len(data)
                self.gates[way].wait()
                sink.sendall(data)
                gone += len(data)
                if self.bytes_per_second:
                    pace(begun + gone / self.bytes_per_second - time.monotonic())
        except OSError:
            pass
        pair.end()

    def swallow(self, *ways):
        """Nothing goes on in these directions, as where a network drops each packet: nobody hears of it, and what was on its way
        comes after heal(), even where its sender has ended."""
        for way in ways:
            self.gates[way].clear()

    def hold_after(self, count):
        """So many bytes go up, then none until heal()."""
        self.up_bytes_left = count

    def refuse(self):
        """All connections are cut, and those that are made, until heal()."""
        self.refuses = True
        self.cut()

    def heal(self):
        self.refuses, self.up_bytes_left = False, None
        for gate in self.gates.values():
            gate.set()

    def cut(self):
        """Both ends of all connections hear that they are over."""
        for pair in self.pairs:
            pair.shut()

    def close(self):
        self.server.close()
        self.refuse()
        self.heal()


class Pair:
    """The two sockets of one connection. They are closed when nobody reads from either."""

    def __init__(self, near, far):
        self.sockets, self.pumps, self.lock = (near, far), 2, threading.Lock()

    def shut(self):
        for one in self.sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def end(self):
        """One direction is over, and so is the other one."""
        self.shut()
        with self.lock:
            self.pumps -= 1
            if self.pumps == 0:
                for one in self.sockets:
                    one.close()


class TransactionPooler:
    """Lends each transaction of its clients a session of PostgreSQL at `path`, as a pooler in transaction mode does: the one
    that was given back last."""

    def __init__(self, path):
        self.path, self.idle, self.lock = path, [], threading.Lock()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.server.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=(self.server.accept()[0],), daemon=True).start()

    def serve(self, client):
        with contextlib.suppress(OSError, EOFError), client:
            while True:  # until it asks for no encryption
                start = self.exactly(client, int.from_bytes(length := self.exactly(client, 4), "big") - 4)
                if int.from_bytes(start[:4], "big") == 196608:
                    break
                client.sendall(b"N")
            session = socket.socket(socket.AF_UNIX)
            session.connect(self.path)
            session.sendall(length + start)
            self.answer(session, client)
            self.give(session)
            while True:
                session, status = None, b"T"
                while status != b"I":
                    kind, body = self.message(client)
                    if kind == b"X":
                        return
                    session = session or self.take()
                    session.sendall(kind + (len(body) + 4).to_bytes(4, "big") + body)
                    if kind in b"QS":  # what else there is waits for a sync
                        status = self.answer(session, client)
                self.give(session)

    def answer(self, session, client):
        """Passes on what the server says, up to its being ready; in which state."""
        while True:
            kind, body = self.message(session)
            if kind == b"K":  # what a cancel would name: its own, as sessions change
                body = b"\0\0\0\1" + body[4:]
            client.sendall(kind + (len(body) + 4).to_bytes(4, "big") + body)
            if kind == b"Z":
                return body

    def take(self):
        with self.lock:
            return self.idle.pop()

    def give(self, session):
        with self.lock:
            self.idle.append(session)

    @classmethod
    def message(cls, of):
        kind, length = cls.exactly(of, 1), int.from_bytes(cls.exactly(of, 4), "big")
        return kind, cls.exactly(of, length - 4)

    @staticmethod
    def exactly(of, count):
        data = b""
        while len(data) < count:
            if not (piece := of.recv(count - len(data))):
                raise EOFError
            data += piece
        return data
