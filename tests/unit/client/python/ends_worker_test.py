# SPDX-License-Identifier: Apache-2.0
"""The transcripts of tests/ends for workers, played against this package's session."""

import unittest

from support import tell
from ends import cases, items_of, wakeups
from lanemq.outcomes import Outcome
from lanemq.worker_session import WorkerSession
from msgpack import ExtType, packb, unpackb

SHOWN = {"ready": ("capacity", "session", "lanes"), "result": (), "error": ("class", "code"), "chunk": ("seq",), "progress": ("pct", "note")}


class Gate:
    def taken(self, count, size):
        pass

    def close(self):
        pass


def lease_of(word):
    job, _, attempt = word.partition("/")
    return int(job), int(attempt or 1)


def name_of(job, attempt):
    return str(job) if attempt == 1 else f"{job}/{attempt}"


class Worker:
    def __init__(self, of):
        self.ms, self.now, self.lives = 0, 0.0, False
        self.session = WorkerSession(of.fields.get("services", "s").split(","), int(of.fields.get("capacity", 2)), 0.0,
                                     lanes=of.fields["lanes"].split(",") if "lanes" in of.fields else None,
                                     endpoints=int(of.fields.get("endpoints", 1)))
        self.said, self.told = [], []
        if "unconnected" not in of.words:
            self.session.connected()

    def happens(self, lines):
        self.said, self.told = [], []
        for line in lines:
            getattr(self, line.words[0])(line)
        self.turn()
        return self.said, self.told

    def start(self, line):
        pass  # it greets by itself

    def advance(self, line):
        self.ms += line.milliseconds(line.words[1])
        for self.now in wakeups(self.session, self.now, self.ms / 1000):
            self.turn()

    def turn(self):
        self.session.advance(self.now)
        if self.session.take_reopen(self.now):
            self.said.append("reconnect")
        while (frames := self.session.next_message(self.now)) is not None:
            _, op, fields, *inside = unpackb(frames[0])
            items = items_of(fields, (inside or frames[1:] or [None])[0])
            for at, (fields, body) in enumerate(items):
                self.hear_of(op, fields, body, f"{at + 1}/{len(items)} " if len(items) > 1 else "")
        effects, self.session.effects = self.session.effects, []
        for what, *more in effects:
            if what == "start" and more[1].get("stream"):
                self.session.watch(more[0], Gate())
            name = f" {name_of(*more[0])}" if what in ("start", "cancel") else ""
            self.told.append(f"told {'stop' if what == 'cancel' else what}{name}" + (" ever=true" if what == "refused" and more[1] else ""))

    def hear_of(self, op, fields, body, mark):
        if op == "heartbeat":
            self.said.append(" ".join(["heartbeat", *(name_of(*lease) for lease in fields.get("jobs", ()))]))
            if self.lives:
                self.session.received([b"\xff"], self.now)
            return
        assert op != "ready" or fields["resumes"] is True
        shown = {key: fields[key] for key in SHOWN.get(op, ()) if key in fields}
        if "lanes" in shown:
            shown["lanes"] = ",".join(shown["lanes"])
        if body and len(body) < 100:
            shown["body"] = body.decode()
        name = f" {name_of(fields['job'], fields['attempt'])}" if "job" in fields else ""
        self.said.append(" ".join([mark + op + name, *(f"{key}={shown[key]}" for key in sorted(shown))]))

    # ---- what its handlers and its operator do ----

    def done(self, line):
        body = b"x" * int(line.fields["body_bytes"]) if "body_bytes" in line.fields else line.fields.get("body", "").encode()
        self.session.finish(lease_of(line.words[1]), Outcome("result", {}, body), self.now)

    def fail(self, line):
        self.session.finish(lease_of(line.words[1]), Outcome("error", {"class": line.fields["class"], "code": line.fields["code"]}), self.now)

    def piece(self, line):
        body = b"x" * int(line.fields["body_bytes"]) if "body_bytes" in line.fields else line.fields.get("body", "").encode()
        for _ in range(int(line.fields.get("count", 1))):
            self.session.piece(lease_of(line.words[1]), body, self.now)

    def progress(self, line):
        word = {key: int(value) if key == "pct" else value for key, value in line.fields.items()}
        self.session.progress(lease_of(line.words[1]), word, self.now)

    def drain(self, line):
        self.session.drain(self.now + line.milliseconds(line.words[1]) / 1000, self.now)

    def leave(self, line):
        self.session.leave(self.now)

    # ---- what the network and the broker do ----

    def connected(self, line):
        self.session.connected()

    def disconnected(self, line):
        self.session.disconnected(self.now)

    def nobody(self, line):
        if self.session._rounds.places > 1:  # the driver tells of no other
            self.session.found_nobody(self.now)

    def broker(self, line):
        _, op, *names = line.words
        if op in ("lives", "silent"):
            self.lives = op == "lives"
            return
        if op == "noise":
            return self.session.received([b"\xff"], self.now)
        fields = {key: int(value) if value.isdigit() else True if value == "true" else value for key, value in line.fields.items()}
        if op == "welcome":
            fields = {"session": "s", "heartbeat_ms": 1000, "body_bytes_max": 1_000_000, **fields}
        elif op == "acked":
            fields["jobs"] = [list(lease_of(name)) for name in names]
        elif names:
            fields["job"], fields["attempt"] = lease_of(names[0])
        if op == "unreadable":  # a job with a field that is none
            frame = packb(["LMQ1", "job", {**fields, "model": ExtType(5, b"")}, b"body"])
            return self.session.received([frame.replace(packb(ExtType(5, b"")), b"\xc7\x00\xff")], self.now)
        body = b"body" if op == "job" else None
        tell(self.session, op, fields, body, self.now)


WorkerEnds = cases("worker", Worker, "python")

if __name__ == "__main__":
    unittest.main()
