#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests of many callers, pipelined and cut at random places: nobody gets a byte of another one's answer.

    tests/integration/split_http.py [--requests 20000] [--callers 32] [--seed 1]

Each request has a mark of its own, which its answer says again: the path that is not there, the job that is not known, the body
that a worker gives back. A part of the callers sends something spoilt in between; what they get must be theirs, too. Exit 1 if
a mark comes to another caller, an answer is missing or out of order, or the gateway ends.
"""
import argparse
import os
import random
import re
import selectors
import socket
import tempfile
import time

import bad_http
import harness

PER_CONNECTION = 50
PIECES_PER_REQUEST = 3
# Of a spoilt request the last answers may never come.
SILENCE = 0.3


class Stage(harness.Case):
    """A gateway whose upstream gives back what it gets."""

    def setUp(self):
        super().setUp()
        worker = self.room.start(harness.Process(harness.program("lanemq-worker"), "--broker", self.room.broker.workers,
                                                 "--service", "echo=echo", "--capacity", "256"))
        self.assertTrue(worker.line().startswith("ready"), worker.stderr())
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.gateway = self.room.start(harness.Process(
            harness.program("lanemq-gateway"), "--broker", self.room.broker.clients, "--listen", "127.0.0.1:0", "--hosts", "*",
            "--openai-service", "echo", "--state", os.path.join(folder, "state")))
        line = self.gateway.line()
        self.assertTrue(line.startswith("ready http://"), line + self.gateway.stderr())
        host, port = line.removeprefix("ready http://").split(":")
        self.address = host, int(port)

    def runTest(self):
        pass


def chunked(chance, body):
    out = b""
    while body:
        size = chance.randrange(1, 30)
        out += b"%x%s\r\n%s\r\n" % (len(body[:size]), chance.choice((b"", b"", b";a=b")), body[:size])
        body = body[size:]
    return out + chance.choice((b"0\r\n\r\n", b"0\r\nx-t: 1\r\n\r\n", b"00\r\n\r\n"))


def request(chance, mark, last):
    close = b"connection: close\r\n" if last else b""
    kind = chance.randrange(10)
    if kind < 5:
        return b"GET /nothing/%s HTTP/1.1\r\nhost: g\r\n%s\r\n" % (mark, close)
    if kind < 7:
        return b"GET /v1/jobs/%s HTTP/1.1\r\nhost: g\r\n%s\r\n" % (mark.rstrip(b";"), close)
    body = b'{"model":"m","messages":[{"role":"user","content":"%s%s"}]}' % (mark, b"x" * chance.randrange(100))
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\n" + close
    if kind < 9:
        return head + b"content-length: %d\r\n\r\n" % len(body) + body
    return head + b"transfer-encoding: chunked\r\n\r\n" + chunked(chance, body)


class Caller:
    def __init__(self, address, number, count, chance):
        # A name that no spoilt byte makes of another one's.
        self.number, self.count, self.name = number, count, b"%012x" % chance.getrandbits(48)
        self.spoilt = chance.random() < 0.2
        requests = [request(chance, b"mark-%s-%d;" % (self.name, i), i + 1 == count) for i in range(count)]
        if self.spoilt:
            at = chance.randrange(count)
            requests[at] = bad_http.spoilt(chance, requests[at])
        data = b"".join(requests)
        cuts = sorted({chance.randrange(len(data)) for _ in range(count * PIECES_PER_REQUEST)})
        self.pieces = [data[begin:end] for begin, end in zip([0] + cuts, cuts + [len(data)])][::-1]
        self.refused = 0
        self.seen, self.over, self.heard = bytearray(), False, time.monotonic()
        self.connection = socket.create_connection(address, timeout=60)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection.setblocking(False)

    def send(self):
        piece = self.pieces.pop()
        try:
            sent = self.connection.send(piece)
            if sent < len(piece):
                self.pieces.append(piece[sent:])
        except BlockingIOError:
            self.pieces.append(piece)
        except (BrokenPipeError, ConnectionResetError):
            self.pieces.clear()

    def read(self):
        try:
            while piece := self.connection.recv(1 << 18):
                self.seen += piece
                self.heard = time.monotonic()
            self.over = True
        except BlockingIOError:
            if self.spoilt and not self.pieces and time.monotonic() - self.heard > SILENCE:
                self.over = True
            elif time.monotonic() - self.heard > harness.PATIENCE:
                raise AssertionError(f"caller {self.number} has waited for {harness.PATIENCE} s: {bytes(self.seen[-300:])}")
        except ConnectionResetError:
            self.over = True

    def marks(self):
        """Of the answers, in the order in which they came; a mark may stand several times in one."""
        # A job's name ends where its sentence goes on.
        found = [(name, int(i)) for name, i in re.findall(rb"mark-([0-9a-f]{12})-(\d+)", bytes(self.seen))]
        return [mark for at, mark in enumerate(found) if at == 0 or found[at - 1] != mark]

    def check(self, names):
        found = self.marks()
        others = [mark for mark in found if mark[0] != self.name and mark[0] in names]
        if others:
            raise AssertionError(f"caller {self.number} has got what is another's: {others[:5]}")
        if self.spoilt:
            return len(found)
        # What the queue or the gateway refuses on a busy machine has no mark; its place is that of its status.
        answers = bytes(self.seen).split(b"HTTP/1.1 ")[1:]
        for number, answer in enumerate(answers):
            marked = re.search(rb"mark-%s-%d(?!\d)" % (self.name, number), answer) is not None
            if not marked and answer[:3] not in (b"429", b"503"):
                raise AssertionError(f"caller {self.number} has asked for {number} and got {answer[:600]}")
            self.refused += not marked
        if len(answers) != self.count:
            raise AssertionError(f"caller {self.number} has got {len(answers)} answers to {self.count} requests")
        return len(found)


def run(stage, options):
    chance = random.Random(options.seed)
    made = done = answers = spoilt = refused = 0
    running, names = [], set()
    while done < options.requests:
        while len(running) < options.callers and made < options.requests:
            count = min(PER_CONNECTION, options.requests - made)
            running.append(Caller(stage.address, made // PER_CONNECTION, count, chance))
            names.add(running[-1].name)
            made += count
        with selectors.DefaultSelector() as any_of:
            for caller in running:
                any_of.register(caller.connection, selectors.EVENT_READ | (selectors.EVENT_WRITE if caller.pieces else 0))
            any_of.select(0.05)
        for caller in running:
            if caller.pieces:
                caller.send()
            caller.read()
        for caller in [caller for caller in running if caller.over]:
            answers += caller.check(names)
            spoilt += caller.spoilt
            refused += caller.refused
            done += caller.count
            running.remove(caller)
            caller.connection.close()
        if stage.gateway.process.poll() is not None:
            raise AssertionError(f"the gateway ended after {done} requests")
    return answers, spoilt, refused


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--callers", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    stage = Stage()

    def work():
        began = time.monotonic()
        answers, spoilt, refused = run(stage, options)
        print(f"requests={options.requests} marks_checked={answers} spoilt_callers={spoilt} refused={refused} seed={options.seed} "
              f"seconds={time.monotonic() - began:.0f} of_another=0")

    harness.run_alone(stage, work)


if __name__ == "__main__":
    main()
