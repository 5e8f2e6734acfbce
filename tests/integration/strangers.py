# SPDX-License-Identifier: Apache-2.0
"""Strangers at the broker's own sockets: half-open connections, floods, messages without an end, readers that do not read.

Meanwhile an honest client asks for jobs of an honest worker. Asserted is that each of its jobs is answered, that a new honest
client gets in, that the broker's resident memory stays within its bounds, and the p99 of the honest jobs, beside what it is when
nobody else is there: docs/operate/security.md has these bounds. The stranger is a process of its own, with an address of its
own, 127.0.0.2, on the same machine: it takes the processor, too.

    strangers.py --seconds 2 --connections 2000          as in CI
    strangers.py --seconds 30 --connections 10000 --reconnects 100000     by hand
    strangers.py Open.test_reconnects                    some of it
"""

import argparse
import collections
import contextlib
import ctypes
import math
import multiprocessing
import os
import pathlib
import random
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import warnings

import zmq
from msgpack import packb

import harness
from test_peer_keys import Keys

FORK = multiprocessing.get_context("fork")
MIB = 1 << 20
ELSEWHERE = "127.0.0.2"
PAUSE_S = 0.005  # of the honest client
P99_MAX_S = 1.0  # of the honest client's jobs, while a stranger does the worst; all programs on two cores
QUIET_P99_S = 0.03  # alone, on a machine for which that holds; where it is more, others keep the machine busy
GIVE_UP_S = 60
NULL_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
LONG, COMMAND = 0x02, 0x04  # flags of ZMTP's frames
READY = b"\x05READY" + b"\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
PING = b"\x04\x07\x04PING\x00\x64"  # ZeroMQ's own, with a time to live of 10 s


class Broker:
    """Where the noise goes; made before the process that makes it."""

    def __init__(self, endpoint, stopping, acts, connections):
        host, port = endpoint.removeprefix("tcp://").rsplit(":", 1)
        self.address, self.stopping, self.acts, self.connections = (host, int(port)), stopping, acts, connections

    def over(self):
        return self.stopping.is_set()

    def did(self, count=1):
        with self.acts:
            self.acts.value += count

    def connect(self, source=ELSEWHERE):
        connection = socket.socket()
        connection.settimeout(2)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or a reset takes with it what was sent
        connection.bind((source, 0))
        connection.connect(self.address)
        return connection

    def speak(self):
        """A connection that has shaken hands without a key, as a DEALER."""
        connection = self.connect()
        connection.sendall(NULL_GREETING)
        self.read(connection, 64)
        connection.sendall(b"\x04" + bytes([len(READY)]) + READY)
        self.frame(connection)
        return connection

    @staticmethod
    def read(connection, count):
        read = b""
        while len(read) < count:
            more = connection.recv(count - len(read))
            if not more:
                raise ConnectionError("closed")
            read += more
        return read

    def frame(self, connection):
        """Reads one frame or command; returns its flags."""
        flags = self.read(connection, 1)[0]
        size = struct.unpack(">Q", self.read(connection, 8))[0] if flags & LONG else self.read(connection, 1)[0]
        self.read(connection, size)
        return flags

    def answer(self, connection):
        """Reads the first frame of an answer: the broker has heard the connection then."""
        while self.frame(connection) & COMMAND:
            pass

    def message(self, op, fields):
        header = packb(["LMQ1", op, fields])
        return b"\x00" + bytes([len(header)]) + header


# ---- the stranger: each act goes on until it is told to stop


def make_noise(act, broker):
    warnings.simplefilter("ignore", ResourceWarning)  # it ends with all that it holds
    act(broker)


def half_open(broker, says=b""):
    """As many connections as it may, each silent behind what it says; those that are closed are made anew."""
    held = []
    while not broker.over():
        with contextlib.suppress(OSError):
            held.append(broker.connect())
            held[-1].sendall(says)
            broker.did()
        if len(held) > broker.connections:
            for connection in held[: len(held) // 2]:
                connection.close()
            del held[: len(held) // 2]


def half_open_behind_a_greeting(broker):
    half_open(broker, NULL_GREETING)


def half_open_of_many_addresses(broker):
    addresses = random.Random(1)
    held = []
    while not broker.over():
        with contextlib.suppress(OSError):
            held.append(broker.connect(f"127.{addresses.randrange(1, 255)}.{addresses.randrange(1, 255)}.{addresses.randrange(1, 255)}"))
            broker.did()
        if len(held) > broker.connections:
            held.pop(0).close()


def reconnects(broker):
    while not broker.over():
        with contextlib.suppress(OSError):
            connection = broker.connect()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
            broker.did()


def reconnects_that_speak(broker):
    while not broker.over():
        with contextlib.suppress(OSError):
            with broker.speak() as connection:
                connection.sendall(broker.message("ping", {}))
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            broker.did()


def connections_that_speak(broker):
    """Takes all places, by connections that have said something."""
    held = []
    while not broker.over():
        with contextlib.suppress(OSError):
            held.append(broker.speak())
            held[-1].sendall(broker.message("ping", {}))
            broker.answer(held[-1])
            broker.did()


def endless_message(broker):
    """Frame after frame, each with the mark that another one follows."""
    frame = b"\x03" + struct.pack(">Q", MIB) + bytes(MIB)
    while not broker.over():
        with contextlib.suppress(OSError):
            connection = broker.speak()
            while not broker.over():
                connection.sendall(frame)
                broker.did()


def endless_small_frames(broker):
    """Each frame takes libzmq many times its bytes."""
    frames = 4096 * b"\x01\x01x"
    while not broker.over():
        with contextlib.suppress(OSError):
            connection = broker.speak()
            while not broker.over():
                connection.sendall(frames)
                broker.did()


def messages_that_do_not_end(broker):
    """Many connections, each with most of a large frame, and then nothing."""
    held = []
    while not broker.over():
        with contextlib.suppress(OSError):
            connection = broker.speak()
            connection.sendall(b"\x02" + struct.pack(">Q", 60 * MIB))
            for _ in range(40):
                connection.sendall(bytes(MIB))
            held.append(connection)
            broker.did()
        if len(held) > 30:
            held.pop(0).close()


def flood(broker):
    """Messages as fast as they go, and nothing is read."""
    messages = 1000 * broker.message("ping", {})
    while not broker.over():
        with contextlib.suppress(OSError):
            connection = broker.speak()
            while not broker.over():
                connection.sendall(messages)
                broker.did(1000)


def asks_and_does_not_read(broker):
    """Large answers, on a window that is closed."""
    messages = 100 * broker.message("stats", {})
    held = []
    while not broker.over():
        with contextlib.suppress(OSError):
            connection = broker.speak()
            held.append(connection)
            for _ in range(100):
                connection.sendall(messages)
                broker.did(100)
        if len(held) > 100:
            held.pop(0).close()


# ---- the honest ones


class Quiet(harness.Case):
    resident_max = 300 * MIB  # above what the broker has before
    p99_max = P99_MAX_S
    keys = None

    def setUp(self):
        self.arguments = (*harness.STEADY, *self.broker_arguments())
        super().setUp()
        worker = harness.Process(harness.program("lanemq-worker"), "--broker", self.room.broker.workers, "--service", "echo=echo",
                                 *self.worker_arguments())
        self.room.start(worker)
        self.assertTrue(worker.line().startswith("ready"), worker.stderr())

    def broker_arguments(self):
        return ()

    def worker_arguments(self):
        return ()

    def client(self):
        return self.room.client()

    def ask(self, client):
        began = time.monotonic()
        client.submit("echo", body=b"x")
        client.get("result", GIVE_UP_S)
        return time.monotonic() - began

    def count(self, what):
        return self.room.operator().ask("stats", expect="stats").fields["counters"][what]

    def quiet_while(self, act, seconds, acts_min=1, until=""):
        """How long the honest client's jobs take, and the most that the broker has, while the act goes on: for longer where it has not
        come to so many acts, or to what the broker counts as `until`."""
        stopping, acts = FORK.Event(), FORK.Value("i", 0)
        broker = Broker(self.room.broker.clients, stopping, acts, SETTINGS.connections)
        noisy = FORK.Process(target=make_noise, args=(act, broker)) if act else None
        client, times, resident = self.client(), [], 0
        self.ask(client)
        if noisy:
            noisy.start()
            self.addCleanup(stopping.set)  # else this program would wait for it without end
        end = time.monotonic() + seconds
        enough = lambda: acts.value >= acts_min and (not until or self.count(until) > 0)
        while time.monotonic() < end or (noisy and not enough() and time.monotonic() < end + harness.PATIENCE + acts_min / 500):
            times.append(self.ask(client))
            resident = max(resident, self.room.broker.resident_bytes())
            harness.pace(PAUSE_S)
        began = time.monotonic()
        newcomer = self.client()
        self.ask(newcomer)
        got_in = time.monotonic() - began
        stopping.set()
        if noisy:
            noisy.join(GIVE_UP_S)
            self.assertEqual(noisy.exitcode, 0)
        for peer in (client, newcomer):
            peer.close()
        times.sort()
        return times[math.ceil(0.99 * len(times)) - 1], resident, got_in, acts.value, len(times)

    def holds(self, act, acts_min=1, until=""):
        alone, before, _, _, _ = self.quiet_while(None, SETTINGS.seconds / 2)
        during, resident, got_in, acts, count = self.quiet_while(act, SETTINGS.seconds, acts_min, until)
        self.counters = self.room.operator().ask("stats", expect="stats").fields["counters"]
        print(f"{type(self).__name__:9} {act.__name__:28} {acts:8} acts, {count:5} jobs, p99 {1000 * during:7.1f} ms; alone {1000 * alone:6.1f} ms; "
              f"a newcomer's job {1000 * got_in:7.1f} ms; resident {before / MIB:4.0f} -> {resident / MIB:4.0f} MiB; "
              f"gave way {self.counters['connections_gave_way']}, refused {self.counters['connections_refused']}, "
              f"cut {self.counters['connections_cut']}", file=sys.stderr)
        self.assertGreaterEqual(acts, acts_min)
        if until:
            self.assertGreater(self.counters[until], 0)
        if not harness.MEMORY_FACTOR > 1:
            self.assertLess(resident - before, self.resident_max)
            self.assertLess(during, self.p99_max * max(1, alone / QUIET_P99_S))


class Open(Quiet):
    """A broker without keys: whoever reaches it may speak."""

    def test_half_open(self):
        self.holds(half_open)

    def test_half_open_behind_a_greeting(self):
        self.holds(half_open_behind_a_greeting)

    def test_reconnects(self):
        self.holds(reconnects, SETTINGS.reconnects)

    def test_reconnects_that_speak(self):
        self.holds(reconnects_that_speak)

    def test_connections_that_speak(self):
        self.holds(connections_that_speak)

    def test_an_endless_message(self):
        self.holds(endless_message, until="connections_cut")

    def test_an_endless_message_of_small_frames(self):
        self.resident_max = 4096 * MIB
        self.holds(endless_small_frames)

    def test_messages_that_do_not_end(self):
        self.resident_max = 900 * MIB  # receiving_bytes_max, a message more, and what comes between two looks
        self.p99_max = 5 * P99_MAX_S  # all of it has to be read and let go
        self.holds(messages_that_do_not_end)

    def test_a_flood(self):
        self.holds(flood)

    def test_answers_that_nobody_reads(self):
        self.resident_max = 512 * MIB  # backlog_bytes_max, and what libzmq has of each connection
        self.p99_max = 5 * P99_MAX_S  # the broker's time goes into documents, for a hundred connections in turn
        self.holds(asks_and_does_not_read)


def reset(connections):
    for connection in connections:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()


class Stopped:
    """Stops one thread of a process, as a machine does that has no time for it; all others go on."""

    SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17

    def __init__(self, tid):
        self.tid = tid
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

    def ask(self, request):
        if self.libc.ptrace(request, self.tid, None, None) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace of thread {self.tid}")

    def __enter__(self):
        self.ask(self.SEIZE)
        self.ask(self.INTERRUPT)
        os.waitpid(self.tid, 0x40000000)  # __WALL

    def __exit__(self, *_):
        with contextlib.suppress(OSError):  # the process has ended
            self.ask(self.DETACH)


class Reset(Quiet):
    """A connection is reset while its messages wait to be read: more than libzmq takes (client_receive_hwm)."""

    def broker_arguments(self):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        return ("--keep-cores", "--set", "client_receive_hwm=16")  # without it nobody but root may stop a thread

    def libzmq(self):
        """The thread that reads connections."""
        tasks = f"/proc/{self.room.broker.pid}/task"
        [tid] = [tid for tid in os.listdir(tasks) if pathlib.Path(tasks, tid, "comm").read_text().startswith("ZMQbg/IO")]
        return int(tid)

    def has_read(self, connections, sent):
        """Waits until libzmq has read some of what was sent on each, and its thread sleeps: it waits for room then, or for nothing."""
        harness.wait_until(lambda: max(harness.unread(connections)) < sent, "that libzmq reads")
        self.sleeps()

    def sleeps(self):
        stat = pathlib.Path(f"/proc/{self.room.broker.pid}/task/{self.libzmq()}/stat")
        harness.wait_until(lambda: stat.read_text().rsplit(") ", 1)[1][0] == "S", "that libzmq's thread has done all")

    def goes_on(self):
        with contextlib.suppress(harness.Timeout):
            self.ask(self.client())
            return
        self.fail(f"no answer; the broker: {self.room.broker.process.poll()}, {self.room.broker.stderr()}")

    def test_with_a_ping_of_zeromq_behind_the_messages(self):
        broker = Broker(self.room.broker.clients, FORK.Event(), FORK.Value("i", 0), SETTINGS.connections)
        with Stopped(self.room.broker.pid):
            connections = [broker.speak() for _ in range(20)]
            sent = 200 * broker.message("ping", {}) + PING
            for connection in connections:
                connection.sendall(sent)
            self.has_read(connections, len(sent))
            reset(connections)
            self.sleeps()
        self.goes_on()

    def test_when_messages_and_reset_come_together(self):
        broker = Broker(self.room.broker.clients, FORK.Event(), FORK.Value("i", 0), SETTINGS.connections)
        connections = [broker.speak() for _ in range(20)]
        with Stopped(self.room.broker.pid):
            with Stopped(self.libzmq()):
                for connection in connections:
                    connection.sendall(200 * broker.message("ping", {}) + PING)
                reset(connections)
            self.sleeps()
        self.goes_on()

    def test_a_connection_that_is_reset_behind_a_full_queue(self):
        """The loop takes nothing for longer than libzmq's heartbeat would be: what was sent waits, and its connection is gone."""
        broker = Broker(self.room.broker.clients, FORK.Event(), FORK.Value("i", 0), SETTINGS.connections)
        with Stopped(self.room.broker.pid):
            connections = [broker.speak() for _ in range(20)]
            sent = 200 * broker.message("ping", {})
            for connection in connections:
                connection.sendall(sent)
            self.has_read(connections, len(sent))
            reset(connections)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.room.broker.wait(12)  # unless it dies of it
        self.goes_on()


class Ahead(Quiet):
    """An honest client that sends without waiting, far more than anybody reads for a while."""

    JOBS = 100_000

    def broker_arguments(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        config = pathlib.Path(room.name, "broker.toml")
        config.write_text(f'keep_cores = true\n[[lane]]\nname = "normal"\ndepth_max = {2 * self.JOBS}\ndefault = true\n')
        return ("--config", str(config))

    def test_nothing_is_lost_and_nobody_is_cut(self):
        client = self.room.client(options=((zmq.SNDHWM, 0),))
        with Stopped(self.room.broker.pid):
            for job in range(self.JOBS):
                client.submit("echo", ref=str(job))
            harness.pace(5)
        answers = collections.Counter((answer.op, int(answer.fields["ref"])) for answer in (client.get(patience=GIVE_UP_S) for _ in range(self.JOBS)))
        self.assertEqual(answers, collections.Counter(("result", job) for job in range(self.JOBS)))
        counters = self.room.operator().ask("stats", expect="stats").fields["counters"]
        self.assertEqual((counters["connections_cut"], counters["connections_gave_way"], counters["connections_refused"]), (0, 0, 0))


class Full(Quiet):
    """So few places that a stranger fills them at once."""

    def broker_arguments(self):
        return ("--set", "connections_max=40")

    def test_half_open_of_many_addresses(self):
        self.holds(half_open_of_many_addresses, until="connections_gave_way")

    def test_one_address_has_its_share_alone(self):
        self.holds(connections_that_speak, until="connections_refused")
        self.assertLessEqual(self.counters["connections"], 20)


class Keyed(Quiet):
    """Who has no key never gets further than the handshake."""

    def broker_arguments(self):
        self.keys = Keys()
        self.addCleanup(self.keys.room.cleanup)
        for name, role in (("carl", "client"), ("work", "worker")):
            self.keys.add(name, role)
        self.keys.write("work.key", self.keys.pairs["work"][1].decode())
        return self.keys.arguments()

    def worker_arguments(self):
        return ("--broker-key", self.keys.broker.decode(), "--secret-key", f"file:{self.keys.room.name}/work.key")

    def client(self):
        return self.room.client(options=self.keys.options("carl"))

    def test_half_open(self):
        self.holds(half_open)

    def test_reconnects(self):
        self.holds(reconnects, SETTINGS.reconnects)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="of each act")
    parser.add_argument("--connections", type=int, default=10000, help="that a stranger holds at once")
    parser.add_argument("--reconnects", type=int, default=1, help="at the least, however long they take")
    SETTINGS, rest = parser.parse_known_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard < SETTINGS.connections + 500:
        sys.exit(f"strangers.py: {SETTINGS.connections + 500} open files are needed, and the system grants {hard}")
    unittest.main(argv=[sys.argv[0], *rest])
