# SPDX-License-Identifier: Apache-2.0
"""Real processes for tests: a broker on free ports, clients and workers that speak LMQ1 as docs/protocol/ says.

A test waits for what it expects, with a deadline; nothing sleeps and hopes. One thread does everything: while a test
waits for one peer, all peers are read and all workers send their heartbeats.

Two connections have no order between them. What one peer sends is there before what another sends only when an answer
has shown it: Client.settled(), Worker.leave(), Room.stats_when().

Any process may be held up for seconds at any point, this one too. What has to happen first is waited for, by what tells
of it, and what has to last is held until the test lets it go on: an upstream's `+hold` and `+pause`, see release().
"""

import collections
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import zmq
from msgpack import packb, unpackb

from ports import free_port
from waits import PATIENCE, SANITIZED, Timeout, pace, wait_until  # noqa: F401: as harness.wait_until and so on

# What programs keep where nobody says: not in the home of whoever runs the tests.
STATE = tempfile.TemporaryDirectory()
os.environ["XDG_STATE_HOME"] = STATE.name
for name in ("STATE_DIRECTORY", "RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"):
    os.environ.pop(name, None)
PROGRAMS = os.environ.get("LANEMQ_BIN", os.path.join(os.path.dirname(__file__), "../../build/bin"))
# So long a program that asks the broker something looks for it.
os.environ["LANEMQ_CONNECT_TIMEOUT"] = f"{PATIENCE if SANITIZED else 20:.0f}s"
# A worker that is silent for three heartbeats is lost. Workers of the harness are silent while a test waits for anything but
# messages, as for a program that starts on a busy machine; so heartbeats are rare, but where a test is about them.
HEARTBEAT_MS = 2000 if SANITIZED else 1000
STEADY = ("--set", "heartbeat=10s")
QUICK = ("--set", f"heartbeat={HEARTBEAT_MS}ms")
# A sanitizer keeps a shadow of what a program touches, several bytes for each: bounds of resident memory are so many
# times as wide for one.
MEMORY_FACTOR = 5 if SANITIZED else 1
INLINE_MAX = 4096

# `batch`: how many came in the same message; 0 where it was no array.
Message = collections.namedtuple("Message", "op fields body envelope inside batch", defaults=(0,))


def program(name):
    path = os.path.join(PROGRAMS, name)
    if not os.path.exists(path):
        raise RuntimeError(f"{path} is missing: build it, or set LANEMQ_BIN to the folder of the programs")
    return path


def unread(connections):
    """How many of the bytes that were sent on each of these connections, over IPv4 on this machine, its other end has not read: they are
    in the kernel, on either side."""
    in_hex = lambda address: f"{int.from_bytes(socket.inet_aton(address[0]), sys.byteorder):08X}:{address[1]:04X}"
    sending, reading = {}, {}
    with open("/proc/net/tcp") as file:
        for _, here, there, _, queues, *_ in map(str.split, file):
            if ":" in queues:
                sending[here, there], reading[there, here] = (int(count, 16) for count in queues.split(":"))
    ways = [(in_hex(connection.getsockname()), in_hex(connection.getpeername())) for connection in connections]
    return [sending.get(way, 0) + reading.get(way, 0) for way in ways]


def fixed_endpoints():
    """Endpoints for a broker that is started later, or again. While there is none nobody else has them: see ports.py."""
    return {name: f"tcp://127.0.0.1:{free_port()}" for name in ("clients", "workers", "admin")}


def release(upstream, model):
    """Lets the double's calls for a model `…+hold` or `…+pause=K` go on, those that it has and those to come. `upstream`
    is its URL."""
    request = urllib.request.Request(f"{upstream}/admin/release", json.dumps({"model": model}).encode())
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        answer.read()


class Process:
    """A child that is killed at the end, and whose stderr is shown when a test fails."""

    def __init__(self, *command, **options):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors, text=True, **options)

    @property
    def pid(self):
        return self.process.pid

    def line(self):
        """The next line of stdout; empty when the child has closed it."""
        return self.process.stdout.readline().rstrip("\n")

    def wait(self, patience=PATIENCE):
        return self.process.wait(patience)

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def resident_bytes(self):
        with open(f"/proc/{self.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def close(self):
        self.kill()
        self.process.stdout.close()
        self.errors.close()

    def stderr(self):
        # Not by reading on: where the child writes next is the same place in the same file.
        file = self.errors.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")


class NotReady(AssertionError):
    """A broker that ended before it was ready."""

    def __init__(self, line, errors, exit_code):
        super().__init__(f"the broker said {line!r} and ended with {exit_code}\n{errors}")
        self.exit_code = exit_code


class Broker(Process):
    def __init__(self, *arguments, clients="tcp://127.0.0.1:*", workers="tcp://127.0.0.1:*", admin="tcp://127.0.0.1:*",
                 store="memory", binary="lanemq-broker", **options):
        endpoints = ("--clients", clients, "--workers", workers, "--admin", admin)
        if "--store" not in arguments:
            arguments = ("--store", store, *arguments)
        super().__init__(program(binary), *endpoints, *arguments, **options)
        line = self.line()
        words = dict(word.split("=", 1) for word in line.split()[1:])
        if not line.startswith("ready ") or set(words) - {"http"} != {"clients", "workers", "admin"}:
            if line:
                self.kill()
            exit_code, text = self.wait(), self.stderr()
            self.close()
            raise NotReady(line, text, exit_code)
        self.clients, self.workers, self.admin = words["clients"], words["workers"], words["admin"]
        self.http = words.get("http")
        self.ready_line = line

    def stop(self):
        """Asks the broker to stop and waits for its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def most_resident_bytes(self):
        """The most that it had at any time."""
        with open(f"/proc/{self.pid}/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))


class Peer:
    """One connection to the broker. Made by Room."""

    def __init__(self, room, kind, endpoint, options=()):
        self.room = room
        self.socket = room.context.socket(kind)
        # No send waits for ever: libzmq gives up a connection whose key was refused, and makes no other.
        for option, value in ((zmq.LINGER, 0), (zmq.SNDTIMEO, int(1000 * PATIENCE)), *options):
            self.socket.setsockopt(option, value)
        self.socket.connect(endpoint)
        self.inbox = collections.deque()
        room.peers.append(self)

    def send_frames(self, *frames):
        self.socket.send_multipart(frames)

    def send(self, op, fields=None, body=None, inside=None, envelope=()):
        """One message. A body is inside the header when it is small, or as `inside` says."""
        header = ["LMQ1", op, fields if fields is not None else {}]
        frames = []
        if body is not None:
            if inside if inside is not None else len(body) <= INLINE_MAX:
                header.append(body)
            else:
                frames = [body]
        self.send_frames(*envelope, packb(header), *frames)

    def send_batch(self, op, maps, bodies=None, in_frame=False):
        """Several messages in one; what the maps inherit is the caller's to leave out."""
        if bodies is None:
            self.send_frames(packb(["LMQ1", op, maps]))
        elif in_frame:
            self.send_frames(packb(["LMQ1", op, maps]), packb(bodies))
        else:
            self.send_frames(packb(["LMQ1", op, maps, bodies]))

    def take_in(self, frames):
        at = next(i for i, frame in enumerate(frames) if frame[:6] in (b"\x93\xa4LMQ1", b"\x94\xa4LMQ1"))
        _, op, fields, *inside = unpackb(frames[at])
        body = (inside or frames[at + 1 :] or [b""])[0]
        if isinstance(fields, dict):
            return self.take(Message(op, fields, body, frames[:at], bool(inside)))
        bodies = (body if inside else unpackb(body)) if body else [b""] * len(fields)
        assert len(bodies) == len(fields), frames
        shared = {name: value for name, value in fields[0].items() if name not in ("id", "ids", "ref", "job")}
        for item, body in zip(fields, bodies):
            # The first map has all of its own; a nil takes away what would be inherited.
            whole = {name: value for name, value in {**shared, **item}.items() if value is not None}
            self.take(Message(op, whole, body, frames[:at], bool(inside), len(fields)))

    def take(self, message):
        self.inbox.append(message)

    def on_idle(self, now):
        """When this peer next has something to do by itself."""
        return None

    def get(self, op=None, patience=PATIENCE):
        """The next message, which must say `op`."""
        self.room.pump(lambda: self.inbox, f"a message{f' that says {op}' if op else ''}", patience)
        message = self.inbox.popleft()
        if op and message.op != op:
            raise AssertionError(f"expected {op}, got {message}")
        return message

    def silent(self, seconds):
        """Whether nothing arrives for so long. For what must not happen; never to wait for what must."""
        try:
            self.room.pump(lambda: self.inbox, "silence", seconds)
            return False
        except Timeout:
            return True

    def close(self):
        if self in self.room.peers:
            self.room.peers.remove(self)
            self.socket.close()


class Client(Peer):
    def ask(self, op, fields=None, body=None, expect=None, **how):
        self.send(op, fields, body, **how)
        return self.get(expect)

    def submit(self, service="echo", body=b"", **fields):
        self.send("submit", {"service": service, **fields}, body)

    def status(self, job_id):
        """Asks behind what was sent before, and leaves other answers where they are."""
        self.room.asked += 1
        ref = f"status {self.room.asked}"
        self.send("status", {"id": job_id, "ref": ref})
        mine = lambda: next((message for message in self.inbox if message.fields.get("ref") == ref), None)
        self.room.pump(mine, "a status")
        message = mine()
        self.inbox.remove(message)
        return message.fields

    def settled(self):
        """Waits until the broker has acted on all that this client sent: what another peer sends now comes after it."""
        self.status("any")


class Worker(Peer):
    """A worker whose jobs the test answers. It sends heartbeats with its inventory while anybody waits."""

    def __init__(self, room, endpoint, services, capacity, heartbeats=True, options=(), **fields):
        super().__init__(room, zmq.DEALER, endpoint, options)
        self.ready = {"services": list(services), "capacity": capacity, **fields}
        self.heartbeats = heartbeats
        self.held = {}  # (job, attempt) -> the job's message
        self.outcomes = {}  # handed in and not answered: (job, attempt) -> (op, fields, body)
        self.handed_in = set()
        self.acked, self.stale = [], []
        self.interval, self.next_heartbeat = 1.0, float("inf")
        self.send("ready", self.ready)

    def take(self, message):
        super().take(message)
        op, fields = message.op, message.fields
        if op == "heartbeat":
            self.inbox.pop()
        elif op == "acked":
            self.inbox.pop()
            for lease in map(tuple, fields["jobs"]):
                self.acked.append(lease)
                self.outcomes.pop(lease, None)
        elif op == "welcome":
            self.interval = fields["heartbeat_ms"] / 1000
            self.next_heartbeat = time.monotonic() + self.interval / 2
        elif op == "job":
            self.held[(fields["job"], fields["attempt"])] = message
        elif op == "cancel" and (fields["job"], fields["attempt"]) in self.handed_in:
            self.inbox.pop()  # the outcome crossed an inventory: nothing is left to stop
        elif op == "error" and fields["code"] == "stale":
            self.inbox.pop()
            lease = (fields["job"], fields["attempt"])
            self.stale.append(lease)
            self.outcomes.pop(lease, None)

    def on_idle(self, now):
        if self.heartbeats and now >= self.next_heartbeat:
            self.say_heartbeat()
            self.next_heartbeat = now + self.interval / 2
        return self.next_heartbeat if self.heartbeats else None

    def say_heartbeat(self, jobs=None):
        inventory = [list(lease) for lease in (*self.held, *self.outcomes)] if jobs is None else jobs
        self.send("heartbeat", {"jobs": inventory} if inventory else {})

    def hand_in(self, job, op="result", body=None, **fields):
        self.send(*self.outcome(job, op, body, **fields))

    def hand_in_all(self, jobs, **fields):
        """The results of several jobs in one message, each with its body."""
        outcomes = [self.outcome(job, "result", job.body, **fields) for job in jobs]
        self.send_batch("result", [fields for _, fields, _ in outcomes], [body for _, _, body in outcomes])

    def outcome(self, job, op, body, **fields):
        lease = (job.fields["job"], job.fields["attempt"])
        self.held.pop(lease, None)
        self.outcomes[lease] = (op, {"job": lease[0], "attempt": lease[1], **fields}, body)
        self.handed_in.add(lease)
        return self.outcomes[lease]

    def echo(self, job):
        self.hand_in(job, body=job.body)

    def introduce_again(self):
        """Says ready to a broker that no longer knows this worker. The heartbeat that has to follow is the test's."""
        while self.get().fields.get("code") != "unknown_session":
            pass
        self.heartbeats = False
        self.send("ready", self.ready)
        while (message := self.get()).op != "welcome":
            if message.fields.get("code") != "unknown_session":
                raise AssertionError(f"expected welcome, got {message}")

    def leave(self):
        """Says bye and waits until the broker has seen it. Requires: no other worker is connected."""
        self.heartbeats = False
        self.send("bye")
        self.room.stats_when(lambda stats: stats["workers"]["connected"] == 0, "the leaving")

    def answered(self, patience=PATIENCE):
        """Waits until the broker has answered all outcomes."""
        self.room.pump(lambda: not self.outcomes, "the answer to every outcome", patience)


class Room:
    """A broker and those who talk to it."""

    def __init__(self):
        self.context = zmq.Context()
        self.peers, self.processes = [], []
        self.asked = 0
        self.broker = None

    def start_broker(self, *arguments, **endpoints):
        self.broker = self.start(Broker(*arguments, **endpoints))
        return self.broker

    def start(self, process):
        self.processes.append(process)
        return process

    def client(self, kind=zmq.DEALER, options=()):
        return Client(self, kind, self.broker.clients, options)

    def operator(self, kind=zmq.DEALER):
        return Client(self, kind, self.broker.admin)

    def worker(self, services=("echo",), capacity=1, welcome=True, **fields):
        worker = Worker(self, self.broker.workers, services, capacity, **fields)
        if welcome:
            worker.get("welcome")
        return worker

    def pump(self, happened, what, patience=PATIENCE):
        """Reads everybody's messages until something has happened."""
        deadline = time.monotonic() + patience
        while not happened():
            now = time.monotonic()
            if now > deadline:
                raise Timeout(f"{what}: not within {patience} s")
            due = [due for peer in self.peers if (due := peer.on_idle(now)) is not None]
            left = min(max(0, min([deadline, *due]) - time.monotonic()), 0.05)  # what happens may be no message
            if not self.peers:  # A poll of nothing returns at once, and its loop would keep the test's other threads from running.
                pace(left)
                continue
            poller = zmq.Poller()
            for peer in self.peers:
                poller.register(peer.socket, zmq.POLLIN)
            for ready, _ in poller.poll(left * 1000 + 1):
                peer = next(peer for peer in self.peers if peer.socket is ready)
                peer.take_in(ready.recv_multipart())

    def stats(self):
        asker = self.client()
        try:
            return asker.ask("stats", expect="stats").fields
        finally:
            asker.close()

    def stats_when(self, holds, what):
        """The stats of the first moment at which they hold."""
        deadline = time.monotonic() + PATIENCE
        while not holds(stats := self.stats()):
            if time.monotonic() > deadline:
                raise Timeout(f"{what}: not within {PATIENCE} s; the stats are {stats}")
            self.keep_alive(0.005)
        return stats

    def keep_alive(self, seconds):
        """Lets time go by while messages are read and heartbeats are sent."""
        try:
            self.pump(lambda: False, "nothing", seconds)
        except Timeout:
            pass

    def run(self, *command):
        """Runs a program to its end while messages are read and heartbeats are sent; its exit code and what it said."""
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(command, stdout=output, stderr=errors)
            try:
                deadline = time.monotonic() + max(PATIENCE, 60)
                while process.poll() is None:
                    if time.monotonic() > deadline:
                        raise Timeout(f"the end of {command}: not within {max(PATIENCE, 60)} s")
                    self.keep_alive(0.005)
            finally:
                process.kill()
                process.wait()
            for file in (output, errors):
                file.seek(0)
            return subprocess.CompletedProcess(command, process.returncode, output.read(), errors.read())

    def kill(self):
        """Ends all connections and processes; what they said can still be shown."""
        for peer in list(self.peers):
            peer.close()
        for process in self.processes:
            process.kill()

    def show_errors(self):
        for process in self.processes:
            print(f"--- stderr of {process.process.args}:\n{process.stderr()}", file=sys.stderr)

    def close(self):
        self.kill()
        self.context.term()
        for process in self.processes:
            process.close()
        self.processes = []


def run_alone(case, work, files=0):
    """For programs that are no suite of tests: sets the case up, does the work, and shows what all processes said where an
    assertion fails. With as many open files as the system grants; ends where these are fewer than `files`."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard < files:
        sys.exit(f"{os.path.basename(sys.argv[0])}: {files} open files are needed, and the system grants {hard}")
    case.setUp()
    try:
        work()
    except AssertionError:
        case.room.show_errors()
        raise
    finally:
        case.doCleanups()


class Case(unittest.TestCase):
    """A test with a room of its own. `arguments` are the broker's."""

    arguments = STEADY

    def setUp(self):
        self.room = Room()
        self.addCleanup(self.clean_up)
        if self.arguments is not None:
            self.room.start_broker(*self.arguments)

    def clean_up(self):
        self.room.kill()
        outcome = getattr(self._outcome, "result", None)
        if outcome and any(test is self for test, _ in (*outcome.errors, *outcome.failures)):
            self.room.show_errors()
        self.room.close()

    def assert_error(self, message, code, *parts):
        self.assertEqual((message.op, message.fields.get("code")), ("error", code), message)
        for part in parts:
            self.assertIn(part, message.fields["message"])
