# SPDX-License-Identifier: Apache-2.0
"""A whole worker in Python: every rule that docs/protocol/ has for workers, in one thread.

worker.py ENDPOINT serves `echo`, which answers with the body (a stream line by line), and `wait`, which does so after 3 s.
It needs pyzmq and msgpack. `run --worker` tests it."""

import sys
import time

import zmq
from msgpack import packb, unpackb

WINDOW_CHUNKS, WINDOW_BYTES = 64, 262144
WAIT_S = 3
FIRST_WORD_S = 2  # of a broker that has not said how often it sends heartbeats
MAGIC = (b"\x93\xa4LMQ1", b"\x94\xa4LMQ1")


class Stream:
    """An answer in pieces: what no window has covered is sent again."""

    def __init__(self, pieces):
        self.pieces, self.covered, self.sent = pieces, 0, 0

    def may_send(self):
        under_way = self.pieces[self.covered : self.sent]
        return self.sent < len(self.pieces) and len(under_way) < WINDOW_CHUNKS and sum(map(len, under_way)) < WINDOW_BYTES


class Worker:
    def __init__(self, endpoint):
        self.endpoint, self.context, self.socket = endpoint, zmq.Context(), None
        self.interval, self.session, self.draining = None, None, False
        self.waiting = {}  # (job, attempt) -> when it is done, and the body
        self.streams = {}  # (job, attempt) -> Stream, until its outcome is answered
        self.outcomes = {}  # (job, attempt) -> op, fields and body, until it is answered
        self.connect()

    # ---- to the broker

    def connect(self):
        if self.socket:
            print(f"worker: no word from the broker at {self.endpoint}: connecting again", file=sys.stderr, flush=True)
            self.socket.close(linger=0)
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.connect(self.endpoint)
        self.greet()

    def greet(self):
        ready = {"services": ["echo", "wait"], "capacity": 8, "resumes": True}
        if self.session:
            ready["session"] = self.session
        self.say("ready", ready)
        self.heard_at, self.ready_again = time.monotonic(), None
        self.draining = False
        if self.interval is None:  # nobody knows of a job here
            self.heartbeat_at = float("inf")
            return
        self.heartbeat()
        for lease, stream in self.streams.items():
            stream.sent = stream.covered
            self.say_chunks(lease, stream)
        for lease, outcome in list(self.outcomes.items()):
            if lease not in self.streams:  # a stream's outcome goes behind its last chunk
                self.say(*outcome)

    def say(self, op, fields, *body):
        self.socket.send(packb(["LMQ1", op, fields, *body]))

    def heartbeat(self):
        self.say("heartbeat", {"jobs": [list(lease) for lease in {**self.waiting, **self.streams, **self.outcomes}]})
        self.heartbeat_at = time.monotonic() + self.interval

    def say_chunks(self, lease, stream):
        while stream.may_send():
            self.say("chunk", {"job": lease[0], "attempt": lease[1], "seq": stream.sent}, stream.pieces[stream.sent])
            stream.sent += 1
        if stream.sent < len(stream.pieces):
            return
        if lease in self.outcomes:
            self.say(*self.outcomes[lease])
        else:
            self.hand_in(lease, "result", {}, b"")

    def hand_in(self, lease, op, fields, body=b""):
        self.outcomes[lease] = op, {"job": lease[0], "attempt": lease[1], **fields}, body
        self.say(*self.outcomes[lease])

    # ---- from the broker

    def take(self, op, fields, body):
        lease = fields.get("job"), fields.get("attempt")
        if op == "welcome":
            self.interval, self.session = fields["heartbeat_ms"] / 1000, fields.get("session")
            self.draining = False
            self.heartbeat_at = min(self.heartbeat_at, time.monotonic() + self.interval)
        elif op == "job":
            self.start(lease, fields, body)
        elif op == "cancel":
            if self.drop(lease):
                self.hand_in(lease, "error", {"class": "retry", "code": "cancelled", "message": "cancelled while it ran"})
        elif op == "window" and lease in self.streams:
            self.streams[lease].covered = max(self.streams[lease].covered, fields["seq"] + 1)
            self.say_chunks_if_open(lease)
        elif op == "acked":
            for job, attempt in fields["jobs"]:
                self.forget((job, attempt))
        elif op == "drain":
            self.draining = True
        elif op == "bye":
            self.connect()
        elif op == "error":
            self.take_error(fields.get("code"), lease, fields.get("message", ""))

    def take_error(self, code, lease, message):
        if code == "unknown_session":
            self.greet()
        elif code == "stale":
            self.drop(lease)
            self.forget(lease)
        elif code == "bad_request" and self.interval is None:
            sys.exit(f"worker: the broker at {self.endpoint} does not take this worker: {message}")
        else:
            print(f"worker: the broker says {code}: {message}", file=sys.stderr, flush=True)
            if code in ("full", "unauthorized"):
                self.ready_again = time.monotonic() + 1

    def start(self, lease, fields, body):
        if lease in self.waiting or lease in self.streams or lease in self.outcomes:
            return  # it is held already
        for older in [one for one in {**self.waiting, **self.streams} if one[0] == lease[0] and one[1] < lease[1]]:
            self.drop(older)
        if self.draining:
            self.hand_in(lease, "error", {"class": "released", "message": "the worker takes no more jobs"})
        elif fields.get("service") == "wait":
            self.waiting[lease] = time.monotonic() + WAIT_S, body
        elif fields.get("stream"):
            self.streams[lease] = Stream(body.splitlines(keepends=True))
            self.say_chunks(lease, self.streams[lease])
        else:
            self.hand_in(lease, "result", {}, body)

    def say_chunks_if_open(self, lease):
        stream = self.streams[lease]
        if stream.sent < len(stream.pieces):
            self.say_chunks(lease, stream)

    def drop(self, lease):
        """Stops working on a job. False where it is not worked on."""
        at_work = lease in self.waiting or (lease in self.streams and lease not in self.outcomes)
        if at_work:
            self.waiting.pop(lease, None)
            self.streams.pop(lease, None)
        return at_work

    def forget(self, lease):
        self.outcomes.pop(lease, None)
        self.streams.pop(lease, None)

    # ---- its loop

    def run(self):
        while True:
            now = time.monotonic()
            silent_at = self.heard_at + (3 * self.interval if self.interval else FIRST_WORD_S)
            due = min([silent_at, self.heartbeat_at, self.ready_again or silent_at, *(at for at, _ in self.waiting.values())])
            if self.socket.poll(1000 * max(0, due - now)):
                self.heard_at = silent_at = time.monotonic()
                silent_at += FIRST_WORD_S  # not silent in this turn
                self.read(self.socket.recv_multipart())
            now = time.monotonic()
            for lease, (at, body) in list(self.waiting.items()):
                if at <= now:
                    del self.waiting[lease]
                    self.hand_in(lease, "result", {}, body)
            if self.ready_again and now >= self.ready_again:
                self.greet()
            elif now >= silent_at:
                self.connect()
            elif now >= self.heartbeat_at:
                self.heartbeat()

    def read(self, frames):
        if not frames[0].startswith(MAGIC):
            return
        try:
            _, op, fields, *inside = unpackb(frames[0])
        except ValueError:  # what cannot be read is ignored
            return
        if isinstance(op, str) and isinstance(fields, dict):
            said = {name: value for name, value in fields.items() if value is not None}
            self.take(op, said, (inside or frames[1:] or [b""])[0])


if __name__ == "__main__":
    Worker(sys.argv[1]).run()
