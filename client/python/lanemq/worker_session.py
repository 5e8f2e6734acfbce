# SPDX-License-Identifier: Apache-2.0
"""A worker's side of the protocol, without a socket, a clock or a thread: ready, jobs, heartbeats, reconnects, drain.

It is told messages and times; it says what to send, and in `effects` what the worker is to do. It knows the jobs that run and
the outcomes that the broker has not answered, and sends these again after each loss of the connection or of the broker. Not
thread-safe. All times are seconds of one monotonic clock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol

from . import outcomes, unpacking, wire
from ._tables import (BATCH_BYTES_MAX, BODY_BYTES_MAX, CAPACITY_MAX, HEADER_BYTES_MAX, HEARTBEAT_MAX, HEARTBEAT_MIN, INLINE_BYTES_MAX,
                      OUTCOME_BYTES_MAX, OUTCOMES_MAX, PARTING_MAX, PROGRESS_EVERY, REOPEN_FAILED_PAUSE, REOPEN_PAUSE, REOPEN_PAUSE_MAX,
                      SILENT_INTERVALS, WORKER_FIRST_WORD_WITHIN)
from .failures import BadJob
from .outcomes import MESSAGE_CHARS_MAX, Outcome
from .session import Rounds

INVENTORY_MAX = CAPACITY_MAX  # so many fit a header
BATCH_MAX = 64
REFUSED_PAUSE = 5.0  # `ready` again later
SHRUNK_FOR = 5.0  # places that were not real are offered again later

Lease = tuple[int, int]  # job, attempt


class Gate(Protocol):
    """The window of one stream, shared with the handler's thread."""

    def taken(self, count: int, size: int) -> None: ...

    def close(self) -> None: ...


@dataclass
class Held:
    """What the session knows of a lease. `phase`: running; dropped (its handler runs, and nobody wants its outcome); finished
    (its outcome is not answered)."""

    lease: Lease
    phase: str = "running"
    gate: Gate | None = None
    kept: deque[bytes] = field(default_factory=deque)  # pieces that no window covered; bounded by the gate
    first: int = 0  # the number of the first kept piece
    outcome: Outcome | None = None
    word: wire.Fields | None = None  # the last of its progress
    word_at: float = 0.0  # when it was sent
    word_unsent: bool = False  # it came too soon behind the one before

    def size(self) -> int:
        return len(self.outcome.body) if self.outcome else 0


class WorkerSession:
    """See the module. Requires: 1 to 256 services, 1 <= capacity <= 1024."""

    def __init__(self, services: list[str], capacity: int, now: float, *, lanes: list[str] | None = None, name: str = "",
                 version: str = "", process: str = "", body_bytes_max: int = BODY_BYTES_MAX, endpoints: int = 1) -> None:
        self._rounds = Rounds(endpoints)
        self._connected = self._heard_here = False
        self._services, self._capacity, self._body_bytes_max = services, capacity, body_bytes_max
        self._places, self._shrunk_until = capacity, float("inf")  # what it offers
        self._ready: wire.Fields = {"services": services, "resumes": True}
        for field_name, value in (("lanes", lanes), ("name", name), ("version", version), ("process", process)):
            if value:
                self._ready[field_name] = value
        if capacity > 1:
            self._ready["batch"] = BATCH_MAX
        self._held: dict[Lease, Held] = {}  # those that have finished in the order of their ends, as they are put in anew
        self._outcomes = self._outcome_bytes = 0
        self.running = 0
        #: What the worker is to do, in order: ("start", lease, fields, body), ("cancel", lease), ("welcomed",),
        #: ("refused", message, ever), ("left",).
        self.effects: list[tuple[Any, ...]] = []
        self._outbox: deque[tuple[str, wire.Fields, bytes]] = deque()
        self._batch_max = 0
        self._state = "greeting"  # greeting, serving, parting, left
        self._session: str | None = None
        self._heartbeat = 1.0
        self._met_before = self._leaving = self._told_to_drain = self._parted_again = False
        self._heard_at = self._said_heartbeat_at = now
        self._heard_heartbeat_at = float("-inf")
        self._drain_deadline = self._parting_until = self._words_due = float("inf")
        self._reopen_at: float | None = None
        self._unmet = False  # as a client's session
        self._lost = 0
        self.outcomes_dropped = self.stale = self.undecodable = 0
        self._greet(now)

    # ---- what the worker does ---------------------------------------------------------------------------------

    def piece(self, lease: Lease, body: bytes, now: float) -> None:
        """A piece of a streamed answer. Ignored for a lease that nobody wants any more."""
        held = self._held.get(lease)
        if held is None or held.phase != "running":
            return
        if len(body) > self._body_bytes_max:
            return self._break_off(held, "too_large", f"a piece of the answer has {len(body)} bytes, over body_bytes_max "
                                   f"{self._body_bytes_max}; send smaller ones", now)
        held.kept.append(body)
        self._say_piece(held, held.first + len(held.kept) - 1, body)

    def progress(self, lease: Lease, word: wire.Fields, now: float) -> None:
        """How far a job is. Ignored for a lease that nobody wants any more."""
        held = self._held.get(lease)
        if held is None or held.phase != "running":
            return
        first, held.word = held.word is None, word
        if first or now >= held.word_at + PROGRESS_EVERY:
            return self._say_word(held, now)
        held.word_unsent = True
        self._words_due = min(self._words_due, held.word_at + PROGRESS_EVERY)

    def finish(self, lease: Lease, outcome: Outcome, now: float) -> None:
        """A handler is done; its outcome goes behind its pieces."""
        held = self._held.get(lease)
        if held is None or held.phase == "finished":
            return
        if held.phase == "dropped":
            del self._held[lease]
            return
        self.running -= 1
        if len(outcome.body) > self._body_bytes_max:
            outcome = Outcome("error", {"class": "permanent", "code": "too_large", "message": (
                f"the answer has {len(outcome.body)} bytes, over body_bytes_max {self._body_bytes_max}; ask for less or raise "
                "the limit of the broker")})
        # Before the outcome, so that the broker does not fill the freed place again.
        if self._leaving and self.running > 0 and self._state == "serving":
            self._say_ready()
        self._keep(held, outcome)
        self._say_outcome(held)  # behind a greeting that is under way, too: its inventory lists the job
        if self._leaving and self.running == 0 and self._state == "serving":
            self._part(now)

    def shrink(self, places: int, now: float) -> None:
        """Only so many places are real: it offers no more, for a time."""
        self._places, self._shrunk_until = min(places, self._capacity), now + SHRUNK_FOR
        if self._state == "serving" and not self._leaving:
            self._say_ready()

    def drain(self, deadline: float, now: float) -> None:
        """Takes no more jobs; leaves when the last one is over, at `deadline` in any case."""
        if self._leaving or self._state == "left":
            return
        self._leaving, self._drain_deadline = True, deadline
        if self.running == 0:
            self._part(now)
        elif self._state == "serving":
            self._say_ready()

    def leave(self, now: float) -> None:
        """Leaves now; the broker gives what runs to other workers."""
        if self._state == "left":
            return
        self._leaving = True
        for held in self._held.values():
            if held.phase != "finished":
                self._cancel(held)
        if self._state != "parting":
            self._outbox.append(("bye", {}, b""))
        self._depart()

    def _part(self, now: float) -> None:
        self._outbox.append(("bye", {}, b""))
        if self._outcomes == 0:
            return self._depart()
        self._state = "parting"
        self._parting_until = now + min(self._heartbeat, PARTING_MAX)

    def _depart(self) -> None:
        self._state = "left"
        self.effects.append(("left",))

    # ---- the connection ---------------------------------------------------------------------------------------

    def connected(self) -> None:
        """As a client's session."""
        if self._unmet:
            self._unmet, self._reopen_at = False, None
        self._connected = True  # the greeting waits in the socket

    def found_nobody(self, now: float) -> None:
        """As a client's session."""
        if not self._connected and self._reopen_at is None:
            self._reopen_at = self._rounds.found_nobody(now)

    def found_address(self, now: float) -> None:
        """As a client's session."""
        self._heard_at = now

    def go_round(self, places: int) -> None:
        """As a client's session."""
        self._rounds.places = places

    def take_told(self) -> list[str]:
        """As a client's session. No broker tells a worker that does not ask."""
        return []

    def disconnected(self, now: float) -> None:
        if self._reopen_at is None:
            self._unmet = not self._connected
            self._connected = False
            self._lost += 1
            pause = REOPEN_PAUSE * 2 ** min(self._lost - 2, 10) if self._lost > 1 else 0.0
            self._reopen_at = now + min(pause, REOPEN_PAUSE_MAX)

    def refused(self, message: str, now: float) -> None:
        """The broker does not take this worker's key: it asks again later, by a new connection."""
        self._unmet = False
        self.effects.append(("refused", message, False))
        self._reopen_at = now + REFUSED_PAUSE

    def take_reopen(self, now: float) -> bool:
        if self._reopen_at is None or self._reopen_at > now:
            return False
        self._reopen_at = None
        self._connected = self._heard_here = self._unmet = False
        self._greet(now)
        return True

    def reopen_failed(self, now: float) -> None:
        self._reopen_at = now + REOPEN_FAILED_PAUSE

    def _greet(self, now: float) -> None:
        self._state = "greeting"
        self._told_to_drain = False
        self._heard_at = self._said_heartbeat_at = now
        self._outbox.clear()
        self._batch_max = 0  # until the broker says that it takes them
        self._say_ready()
        if not self._met_before:
            return
        self._say_inventory(now)
        for held in self._held.values():
            if held.phase == "running" and held.word is not None:
                self._say_word(held, now)
            for seq, body in enumerate(held.kept, held.first):
                self._say_piece(held, seq, body)
            if held.phase == "finished":
                self._say_outcome(held)

    # ---- time -------------------------------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        if self._state == "left":
            return
        if self._state == "parting":
            if self._outcomes == 0 or now >= self._parting_until:
                self._depart()
            return
        if self._leaving and now >= self._drain_deadline:
            return self.leave(now)
        if self._reopen_at is None and now >= self._silent_at():
            self._reopen_at = now
        if now >= self._words_due:
            self._say_words_due(now)
        if now >= self._shrunk_until:
            self._places, self._shrunk_until = self._capacity, float("inf")
            if self._state == "serving" and not self._leaving:
                self._say_ready()
        if self._state == "serving" and now >= self._heartbeat_due():
            self._say_inventory(now)

    def next_wakeup(self) -> float | None:
        if self._state == "left":
            return None
        if self._state == "parting":
            return self._parting_until
        due = self._reopen_at if self._reopen_at is not None else self._silent_at()
        if self._state == "serving":
            due = min(due, self._heartbeat_due())
        due = min(due, self._words_due, self._shrunk_until)
        return min(due, self._drain_deadline) if self._leaving else due

    def _silent_at(self) -> float:
        first = not self._heard_here and (self._rounds.places > 1 or not self._met_before)
        return self._heard_at + (WORKER_FIRST_WORD_WITHIN if first else SILENT_INTERVALS * self._heartbeat)

    def _heartbeat_due(self) -> float:
        # It leaves that to a broker that sends heartbeats, and answers them: two inventories close together could both miss
        # a job on its way, and the broker would take it for lost.
        return max(self._said_heartbeat_at + self._heartbeat, self._heard_heartbeat_at + self._heartbeat * 1.25)

    # ---- what to send -----------------------------------------------------------------------------------------

    def next_message(self, now: float) -> list[bytes] | None:
        if self._reopen_at is not None or not self._outbox:
            return None
        op, fields, body = self._outbox.popleft()
        if self._batch_max < 2 or op not in ("result", "error") or len(body) > INLINE_BYTES_MAX:
            return wire.encode(op, fields, body)
        maps, bodies = [fields], [body]
        header, total = wire.packed_bytes(fields), len(body)
        while self._outbox and len(maps) < self._batch_max:
            next_op, next_fields, next_body = self._outbox[0]
            if next_op != op or len(next_body) > INLINE_BYTES_MAX:
                break
            said = wire.differences(fields, next_fields)
            said["job"] = next_fields["job"]
            header += wire.packed_bytes(said)
            total += len(next_body)
            if header + 64 > HEADER_BYTES_MAX or header + total > BATCH_BYTES_MAX:
                break
            self._outbox.popleft()
            maps.append(said)
            bodies.append(next_body)
        return wire.encode(op, fields, body) if len(maps) == 1 else wire.encode_batch(op, maps, bodies)

    def _say_ready(self) -> None:
        ready: wire.Fields = {**self._ready, "capacity": max(self.running, 1) if self._leaving else self._places}
        if self._session is not None:
            ready["session"] = self._session
        self._outbox.append(("ready", ready, b""))

    def _say_inventory(self, now: float) -> None:
        """What runs, and the newest outcomes, as far as they fit."""
        running = [list(lease) for lease, held in self._held.items() if held.phase == "running"]
        finished = [list(lease) for lease, held in reversed(self._held.items()) if held.phase == "finished"]
        jobs = (running + finished)[:INVENTORY_MAX]
        self._outbox.append(("heartbeat", {"jobs": jobs} if jobs else {}, b""))
        self._said_heartbeat_at = now

    def _say_word(self, held: Held, now: float) -> None:
        assert held.word is not None
        held.word_unsent, held.word_at = False, now
        self._outbox.append(("progress", {"job": held.lease[0], "attempt": held.lease[1], **held.word}, b""))

    def _say_words_due(self, now: float) -> None:
        """Sends the words that came too soon before. A job that is over says none."""
        self._words_due = float("inf")
        for held in self._held.values():
            if held.phase != "running" or not held.word_unsent:
                continue
            if now >= held.word_at + PROGRESS_EVERY:
                self._say_word(held, now)
            else:
                self._words_due = min(self._words_due, held.word_at + PROGRESS_EVERY)

    def _say_piece(self, held: Held, seq: int, body: bytes) -> None:
        self._outbox.append(("chunk", {"job": held.lease[0], "attempt": held.lease[1], "seq": seq}, body))

    def _say_outcome(self, held: Held) -> None:
        assert held.outcome is not None
        op, fields, body = held.outcome
        self._outbox.append((op, {"job": held.lease[0], "attempt": held.lease[1], **fields}, body))

    # ---- what the broker says ---------------------------------------------------------------------------------

    def received(self, frames: list[bytes], now: float) -> None:
        self._heard_at, self._heard_here = now, True
        self._lost = 0
        if self._state == "left":
            return
        try:
            op, items = unpacking.decode(frames)
        except unpacking.MalformedError:
            self.undecodable += 1
            return
        for fields, body in items:
            try:
                self._hear(op, fields, body, now)
            except (TypeError, ValueError, KeyError, AttributeError):  # a field of another type than the page says
                self.undecodable += 1

    def _hear(self, op: str, fields: wire.Fields, body: bytes, now: float) -> None:
        if op == "job":
            self._on_job(_lease_of(fields), fields, body)
        elif op == "acked":
            for job, attempt in fields["jobs"]:
                self._forget_outcome((job, attempt))
            self._part_if_settled()
        elif op == "heartbeat":
            self._heard_heartbeat_at = now
            if self._state == "serving":
                self._say_inventory(now)
        elif op == "window":
            self._on_window(_lease_of(fields), unpacking.required_number(fields, "seq"))
        elif op == "cancel":
            held = self._held.get(_lease_of(fields))
            if held is not None and held.phase == "running":
                self._cancel(held)
        elif op == "welcome":
            self._on_welcome(fields, now)
        elif op == "drain":
            self._told_to_drain = True
        elif op == "bye":
            if self._state == "parting":
                return self._depart()
            self._reopen_at = now + self._heartbeat
        elif op == "error":
            self._on_error(fields, now)

    def _on_welcome(self, fields: wire.Fields, now: float) -> None:
        self._session = unpacking.optional_text(fields, "session") or self._session
        self._heartbeat = min(max(unpacking.required_number(fields, "heartbeat_ms") / 1000, HEARTBEAT_MIN), HEARTBEAT_MAX)
        self._told_to_drain = False
        self._body_bytes_max = min(self._body_bytes_max, unpacking.whole_number(fields, "body_bytes_max") or self._body_bytes_max)
        self._batch_max = min(unpacking.whole_number(fields, "batch"), BATCH_MAX)
        if self._state != "greeting":
            return
        self._state = "serving"
        self._met_before = True
        self._said_heartbeat_at, self._heard_heartbeat_at = now, float("-inf")
        self.effects.append(("welcomed",))
        if self._leaving and self.running == 0:
            self._part(now)

    def _on_job(self, lease: Lease, fields: wire.Fields, body: bytes) -> None:
        if self._state == "parting":
            return  # the `bye` gives it back
        held = self._held.get(lease)
        if held is not None:
            if held.phase == "finished":  # the broker offers again what it has had the outcome of: that was lost
                self._say_outcome(held)
            return
        self._drop_older(lease)
        fields.setdefault("service", self._services[0])
        refusal = self._why_not(fields)
        if refusal is not None:
            held = self._held[lease] = Held(lease)
            self._keep(held, Outcome("error", refusal))
            self._say_outcome(held)
            return
        self._held[lease] = Held(lease)
        self.running += 1
        self.effects.append(("start", lease, fields, body))

    def _why_not(self, fields: wire.Fields) -> wire.Fields | None:
        if self._leaving or self._told_to_drain:
            return {"class": "released", "code": "draining", "message": "the worker takes no more jobs"}
        dropped = sum(held.phase == "dropped" for held in self._held.values()) if len(self._held) > self._capacity else 0
        if self.running >= self._capacity or dropped >= self._capacity:
            return {"class": "released", "code": "full", "message": (
                f"the worker holds {self.running} jobs, and {dropped} that do not end though they are cancelled "
                f"(capacity {self._capacity})")}
        if type(fields) is unpacking.PartlyRead:
            return outcomes.of_fault(BadJob(fields.problem)).fields
        if fields["service"] not in self._services:
            return {"class": "permanent", "code": "unknown_service",
                    "message": f"the worker does not serve {str(fields['service'])[:64]!r}"}
        return None

    def _drop_older(self, lease: Lease) -> None:
        """A newer attempt came: older ones of the job that run here are over."""
        for held in list(self._held.values()):
            if held.lease[0] == lease[0] and held.lease[1] < lease[1] and held.phase == "running":
                self._drop(held)

    def _drop(self, held: Held) -> None:
        held.phase = "dropped"
        held.kept.clear()
        self.running -= 1
        self._cancel(held)

    def _cancel(self, held: Held) -> None:
        if held.gate is not None:
            held.gate.close()
        self.effects.append(("cancel", held.lease))

    def watch(self, lease: Lease, gate: Gate) -> None:
        """The window of a job's stream, right after its start."""
        if (held := self._held.get(lease)) is not None:
            held.gate = gate

    def _on_window(self, lease: Lease, seq: int) -> None:
        held = self._held.get(lease)
        if held is None or held.gate is None:
            return
        count = size = 0
        while held.kept and held.first <= seq:
            size += len(held.kept.popleft())
            held.first += 1
            count += 1
        held.gate.taken(count, size)

    def _on_error(self, fields: wire.Fields, now: float) -> None:
        code, job = unpacking.text(fields, "code"), unpacking.optional_number(fields, "job")
        if not code:
            raise unpacking.MalformedError("code is no text")
        message = f"{code}: {unpacking.text(fields, 'message')}"
        held = None if job is None else self._held.get((job, unpacking.whole_number(fields, "attempt", 1)))
        if code == "stale":
            self.stale += held is not None
            if held is not None and held.phase == "running":
                self._drop(held)
            elif held is not None:
                self._forget_outcome(held.lease)
            self._part_if_settled()
        elif code == "unknown_session":
            # A greeting under way covers all earlier messages, each of which causes one of these.
            if self._state == "serving":
                self._greet(now)
            elif self._state == "parting" and not self._parted_again and self._outcomes:
                self._parted_again = True
                self._greet(now)
                self._part(now)
        elif job is None:
            self.effects.append(("refused", message, code == "bad_request" and self._state == "greeting"))
            if self._state == "greeting":
                self._reopen_at = now + REFUSED_PAUSE
        elif held is not None and held.phase == "running":  # a piece was not taken, so all that follows would leave a hole
            self._break_off(held, "chunk_refused", message, now)
        elif held is not None and held.phase == "finished" and code in ("bad_request", "too_large"):
            self._say_otherwise(held, f"the broker cannot read the outcome: {message}")

    def _break_off(self, held: Held, code: str, message: str, now: float) -> None:
        """A stream cannot go on."""
        self._cancel(held)
        self.finish(held.lease, Outcome("error", {"class": "permanent", "code": code, "message": message[:MESSAGE_CHARS_MAX]}), now)

    # ---- outcomes ---------------------------------------------------------------------------------------------

    def _say_otherwise(self, held: Held, problem: str) -> None:
        """The broker cannot read an outcome, and says of which job: it hears what any broker reads, once."""
        assert held.outcome is not None
        if outcomes.is_bad(held.outcome):
            return self._forget_outcome(held.lease)
        self._outcome_bytes -= held.size()
        held.outcome = outcomes.unreadable(problem)
        self._say_outcome(held)

    def _keep(self, held: Held, outcome: Outcome) -> None:
        held.phase, held.outcome = "finished", outcome
        del self._held[held.lease]
        self._held[held.lease] = held  # behind those that ended before
        self._outcomes += 1
        self._outcome_bytes += held.size()
        # Beyond this the oldest is dropped: the broker then misses the job in the inventory and runs it again, so nothing is lost.
        while self._outcomes > OUTCOMES_MAX or (self._outcome_bytes > OUTCOME_BYTES_MAX and self._outcomes > 1):
            oldest = next(each for each in self._held.values() if each.phase == "finished")
            self.outcomes_dropped += 1
            self._forget_outcome(oldest.lease)

    def _forget_outcome(self, lease: Lease) -> None:
        held = self._held.get(lease)
        if held is not None and held.phase == "finished":
            self._outcomes -= 1
            self._outcome_bytes -= held.size()
            del self._held[lease]

    def _part_if_settled(self) -> None:
        if self._state == "parting" and self._outcomes == 0:
            self._depart()


def _lease_of(fields: wire.Fields) -> Lease:
    return unpacking.required_number(fields, "job"), unpacking.required_number(fields, "attempt")
