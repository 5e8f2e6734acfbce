# SPDX-License-Identifier: Apache-2.0
"""The transcripts of tests/ends for clients, played against this package's session."""

import unittest

from support import Inbox, tell
from ends import cases, items_of, wakeups
from lanemq.errors import LaneMQError
from lanemq.session import MARK_REF, Change, Piece, Request, Session
from lanemq.types import Accepted, Answer, Pong, Status, Submit
from msgpack import unpackb

REPLIES = {"stream": {"stream": True}, "leave": {"reply": "accepted"}}


class Client:
    def __init__(self, of):
        self.ms, self.now, self.lives = 0, 0.0, False
        self.session = Session(0.0, lambda: 0.0, batch_max=256 if "batches" in of.words else 1, endpoints=int(of.fields.get("endpoints", 1)))
        self.requests, self.said, self.told, self.asked = {}, [], [], None
        if "unconnected" not in of.words:
            self.session.connected()

    def happens(self, lines):
        self.said, self.told = [], []
        for line in lines:
            getattr(self, line.words[0], self.ask)(line)
        self.turn(timed=False)
        return self.said, self.told

    # ---- time ----

    def advance(self, line):
        self.ms += line.milliseconds(line.words[1])
        for self.now in wakeups(self.session, self.now, self.ms / 1000):
            self.turn(timed=True)

    def turn(self, timed):
        self.session.advance(self.now)
        if endpoints := self.session.take_told():
            self.told.append(" ".join(["told endpoints", *endpoints]))
        if self.session.take_reopen(self.now):
            self.said.append("reconnect")
        self.drain(timed)

    def drain(self, timed):
        while (frames := self.session.next_message(self.now)) is not None:
            _, op, fields, *inside = unpackb(frames[0])
            items = items_of(fields, (inside or frames[1:] or [None])[0])
            for at, (fields, body) in enumerate(items):
                self.hear_of(op, fields, body, timed, f"{at + 1}/{len(items)} " if len(items) > 1 else "")
        events, self.session.events = self.session.events, []
        for _, name, value in events:
            self.told.append(f"told {name} {self.words(name, value)}")
        if any(isinstance(value, Change) for _, _, value in events):  # its reader has taken it
            self.drain(timed)

    def hear_of(self, op, fields, body, timed, mark):
        if op == "ping" and (fields["ref"] == 0 or fields["ref"] > MARK_REF - 10):  # its own
            if timed and self.lives:
                tell(self.session, "pong", {"ref": fields["ref"]}, now=self.now)
            elif timed and fields["ref"] == 0:
                self.said.append("ping")
            return
        if op == "status" and "ids" in fields:
            self.asked = fields["ref"]
            self.said.append(" ".join(["status", *fields["ids"]]))
            return
        unnamed = fields["id"] if op == "cancel" else "nobody"  # of what its session cancels itself
        name = next((name for name, request in self.requests.items() if request.ref == fields["ref"]), unnamed)
        assert fields.get("id", name) == name, f"{op} has the id {fields['id']} and the ref of {name}"
        shown = {key: str(fields[key]).lower() for key in ("from_seq", "seq", "stop", "stream", "reply") if key in fields}
        shown.update({"body": body.decode()} if body and len(body) < 100 else {})
        self.said.append(" ".join([mark + op, name, *(f"{key}={shown[key]}" for key in sorted(shown))]))

    def words(self, name, value):
        if isinstance(value, Piece):
            return f"piece seq={value.seq}"
        if isinstance(value, Change):
            self.session.took(value)
            event = value.event
            return event.what + (f" gap=true left_out={event.left_out}" if event.gap else "") + f" seq={event.seq}"
        if isinstance(value, Answer):
            return "answer" + (f" body={value.body.decode()}" if value.body else "")
        if isinstance(value, LaneMQError):
            return "error" + (f" chunks={value.chunks}" if value.chunks else "") + f" code={value.code}" + (" local=true" if value.local else "")
        if isinstance(value, Status):
            return f"status state={value.state}"
        return {Accepted: "accepted", Pong: "pong"}[type(value)]

    # ---- what the application does ----

    def ask(self, line):
        kind, name, *flags = line.words
        submit = None
        if kind in ("submit", "stream", "leave"):
            submit = Submit("s", {"when_full": "wait" if "waits" in flags else "raise"}, **REPLIES.get(kind, {}))
        timeout = line.milliseconds(line.fields["timeout"]) / 1000 if "timeout" in line.fields else None
        from_seq = int(line.fields["from_seq"]) if "from_seq" in line.fields else None
        body = b"x" * int(line.fields["body_bytes"]) if "body_bytes" in line.fields else line.fields.get("body", "").encode()
        request = Request(kind, "" if kind in ("watch", "ping") else name, submit=submit, body=body, sink=Inbox(), token=name,
                          from_seq=from_seq, timeout=timeout)
        self.requests[name] = request
        self.session.begin(request, self.now)

    def took(self, line):
        self.session.seen(self.requests[line.words[1]].ref, int(line.words[2]), self.now)

    def abandon(self, line):
        self.session.abandon(self.requests[line.words[1]].ref, self.now, Inbox())

    def close(self, line):
        self.session.abandon_all(self.now)

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
        elif op == "noise":
            self.session.received([b"\xff"], self.now)
        elif op == "states":
            jobs = [{"id": id, "state": state} for id, state in (name.split(":") for name in names)]
            tell(self.session, "status", {"ref": self.asked, "jobs": jobs}, now=self.now)
        else:
            fields = {key: int(value) if value.isdigit() else value == "true" if value in ("true", "false") else value
                      for key, value in line.fields.items() if key != "body"}
            if "endpoints" in fields:
                fields["endpoints"] = line.fields["endpoints"].split(",")
            body = b"x" * fields.pop("body_bytes") if "body_bytes" in fields else line.fields.get("body", "").encode()
            if names:
                fields["ref"] = self.asked if names[0] == "question" else self.requests[names[0]].ref
            elif op == "pong":
                fields["ref"] = 0
            tell(self.session, op, fields, body or None, self.now)


ClientEnds = cases("client", Client, "python")

if __name__ == "__main__":
    unittest.main()
