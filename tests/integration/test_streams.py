# SPDX-License-Identifier: Apache-2.0
"""Answers in pieces, through the programs: the worker's and the client's library against each other and against Python,
readers that are slow, and processes that die in mid-stream."""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import harness

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
import shared_limit  # noqa: E402

CHUNKS_MAX, BYTES_MAX = 64, 256 * 1024
WINDOW = CHUNKS_MAX
PIPE_BYTES = 64 * 1024


def lines(count):
    return [b"%d\n" % number for number in range(count)]


class Way:
    """A way to the broker that can be cut: whoever came by it has lost its connection, and may come again."""

    def __init__(self, case, endpoint):
        self.target = int(endpoint.rsplit(":", 1)[1])
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        self.ends, self.lock = [], threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()
        case.addCleanup(self.cut)
        case.addCleanup(self.listener.close)
        case.addCleanup(lambda: self.listener.shutdown(socket.SHUT_RDWR))

    def accept(self):
        while True:
            try:
                here, _ = self.listener.accept()
            except OSError:
                return
            there = socket.create_connection(("127.0.0.1", self.target))
            for end in (here, there):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.ends += [here, there]
            for source, sink in ((here, there), (there, here)):
                threading.Thread(target=self.forward, args=(source, sink), daemon=True).start()

    @staticmethod
    def forward(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass

    def cut(self):
        with self.lock:
            for end in self.ends:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                end.close()
            self.ends = []


class StreamCase(harness.Case):
    def start_worker(self, service="echo=echo"):
        return shared_limit.start_worker(self.room, service)

    def start_reader(self, *arguments, broker=None):
        """`lanemq`, whose output is read in bytes."""
        process = subprocess.Popen([harness.program("lanemq"), "--broker", broker or self.room.broker.clients, *arguments],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        os.set_blocking(process.stdout.fileno(), False)
        return process

    def submit(self, *arguments, body=b"x"):
        return self.start_reader("submit", "--stream", "--service", "echo", *arguments, body.decode())

    def read_some(self, reader, size_max=1 << 20):
        """What there is of a program's output, after a moment in which everybody's messages are read; None at its end."""
        self.room.keep_alive(0.002)
        try:
            return os.read(reader.stdout.fileno(), size_max) or None
        except BlockingIOError:
            return b""

    def read(self, reader, size):
        """So many bytes of a program's output."""
        got = b""
        deadline = time.monotonic() + harness.PATIENCE
        while len(got) < size:
            piece = self.read_some(reader, size - len(got))
            if piece is None or time.monotonic() > deadline:
                raise harness.Timeout(f"{size} bytes of output: {got[-200:]}")
            got += piece
        return got

    def read_all(self, reader):
        """What is left of a program's output, and its exit code and words."""
        got = b""
        deadline = time.monotonic() + harness.PATIENCE
        while (piece := self.read_some(reader)) is not None:
            if time.monotonic() > deadline:
                raise harness.Timeout(f"the end of the output: {got[-200:]}")
            got += piece
        return got, reader.wait(harness.PATIENCE), reader.stderr.read().decode()


class Source:
    """A worker in Python that streams what it is told, no faster than the broker lets it."""

    def __init__(self, worker, job):
        self.worker, self.job = worker, job
        self.lease = {"job": job.fields["job"], "attempt": job.fields["attempt"]}
        self.sent, self.taken, self.sizes = 0, 0, []

    def ahead(self):
        return self.sent - self.taken

    def may_send(self):
        self.hear()
        return self.ahead() < CHUNKS_MAX and sum(self.sizes[self.taken:]) < BYTES_MAX

    def hear(self):
        for message in list(self.worker.inbox):
            if message.op == "window" and message.fields["job"] == self.lease["job"]:
                self.taken = message.fields["seq"] + 1
                self.worker.inbox.remove(message)

    def send(self, piece):
        self.worker.room.pump(self.may_send, "the window")
        self.worker.send("chunk", {**self.lease, "seq": self.sent}, piece)
        self.sizes.append(len(piece))
        self.sent += 1

    def send_while_possible(self, piece, count_max, seconds=0.5):
        """Sends until the window stays shut for so long; how many went."""
        count = 0
        try:
            while count < count_max:
                self.worker.room.pump(self.may_send, "the window", seconds)
                self.send(piece)
                count += 1
        except harness.Timeout:
            pass
        return count

    def end(self, op="result", **fields):
        self.worker.hand_in(self.job, op, **fields)


class Reading(StreamCase):
    """A worker in Python streams to the client of this project."""

    def setUp(self):
        super().setUp()
        self.worker = self.room.worker(capacity=4)

    def test_pieces_are_printed_as_they_come(self):
        reader = self.submit("--id", "mine", "--meta", '{"http": {"path": "/x"}}')
        job = self.worker.get("job")
        self.assertTrue(job.fields["stream"])
        self.assertEqual(job.fields["meta"], {"http": {"path": "/x"}})
        source = Source(self.worker, job)

        for piece in (b"data: a\n\n", b"\x00\xff", b"z" * 100_000):
            source.send(piece)
            self.assertEqual(self.read(reader, len(piece)), piece)
        source.end(body=b"rest")

        output, code, words = self.read_all(reader)
        self.assertEqual((output, code), (b"rest", 0), words)

    def test_long_streams_pass_the_window_many_times(self):
        reader = self.submit()
        source = Source(self.worker, self.worker.get("job"))
        for line in lines(1000):
            source.send(line)
        source.end()

        output, code, words = self.read_all(reader)
        self.assertEqual((output, code), (b"".join(lines(1000)), 0), words)

    def test_a_stream_that_breaks_says_what_came_and_why(self):
        reader = self.submit()
        source = Source(self.worker, self.worker.get("job"))
        source.send(b"half ")
        source.end("error", **{"class": "retry"}, code="stream_broken", message="the upstream went away")

        output, code, words = self.read_all(reader)
        self.assertEqual((output, code), (b"half ", 1))
        self.assertIn("upstream_failed", words)
        self.assertIn("stream_broken", words)

    def test_whoever_reads_slowly_stops_the_upstream_and_loses_nothing(self):
        reader = self.submit()
        source = Source(self.worker, self.worker.get("job"))
        piece = b"p" * 32 * 1024
        bound = (PIPE_BYTES + 3 * BYTES_MAX) // len(piece)

        sent = source.send_while_possible(piece, 10 * bound)
        self.assertLessEqual(sent, bound, "the worker was let go on while nobody read")
        self.assertGreaterEqual(sent, BYTES_MAX // len(piece))
        output = b""
        while source.sent < 10 * bound:
            if source.may_send():
                source.send(piece)
            else:
                output += self.read_some(reader)
        source.end()

        rest, code, words = self.read_all(reader)
        self.assertEqual(code, 0, words)
        self.assertEqual(output + rest, piece * source.sent)

    def test_a_stream_can_be_joined_late_and_read_again(self):
        accepted = self.room.run(harness.program("lanemq"), "--broker", self.room.broker.clients, "submit", "--no-wait",
                                 "--stream", "--service", "echo", "x")
        job_id = accepted.stdout.strip()
        source = Source(self.worker, self.worker.get("job"))
        source.send(b"a")
        source.send(b"b")
        reader = self.start_reader("fetch", job_id, "--from-seq", "1")
        self.assertEqual(self.read(reader, 1), b"b")
        source.send(b"c")
        source.end()

        self.assertEqual(self.read_all(reader)[:2], (b"c", 0))
        again = self.start_reader("fetch", job_id, "--from-seq", "0")
        self.assertEqual(self.read_all(again)[:2], (b"abc", 0))

    def test_lost_connections_lose_no_piece(self):
        way = Way(self, self.room.broker.clients)
        reader = self.start_reader("submit", "--stream", "--service", "echo", "x", broker=way.endpoint)
        source = Source(self.worker, self.worker.get("job"))
        sent = output = b""
        for number, line in enumerate(lines(1000)):
            source.send(line)
            sent += line
            if number % 100 == 50:
                way.cut()
                output += self.read_some(reader)
            if number % 200 == 199:
                output += self.read(reader, len(sent) - len(output))
        source.end()

        rest, code, words = self.read_all(reader)
        self.assertEqual((output + rest, code), (sent, 0), words)
        self.assertIn("connecting again", words)


class Making(StreamCase):
    """The worker of this project streams to a client in Python."""

    def setUp(self):
        super().setUp()
        self.start_worker()
        self.client = self.room.client()

    def take(self, count, seen=True, first=0):
        pieces = []
        for seq in range(first, first + count):
            chunk = self.client.get("chunk")
            self.assertEqual(chunk.fields["seq"], seq)
            pieces.append(chunk.body)
            if seen and seq % 10 == 9:
                self.client.send("seen", {"id": "mine", "seq": seq})
        return pieces

    def test_all_pieces_come_in_order(self):
        self.client.submit(id="mine", body=b"".join(lines(500)), stream=True)

        self.assertEqual(self.take(500), lines(500))
        self.assertEqual(self.client.get("result").fields["chunks"], 500)

    def test_a_reader_that_takes_nothing_gets_a_window(self):
        self.client.submit(id="mine", body=b"".join(lines(500)), stream=True)

        self.assertEqual(self.take(WINDOW, seen=False), lines(WINDOW))
        self.assertTrue(self.client.silent(0.5), "more than the window was sent")
        self.client.send("seen", {"id": "mine", "seq": WINDOW - 1})
        self.assertEqual(self.take(500 - WINDOW, first=WINDOW), lines(500)[WINDOW:])
        self.client.get("result")

    def test_a_cancelled_stream_stops(self):
        self.client.submit(id="mine", body=b"".join(lines(500)), stream=True)
        self.take(WINDOW, seen=False)

        self.client.send("cancel", {"id": "mine", "ref": 1})

        replies = [self.client.get(), self.client.get()]
        self.assertEqual({reply.op for reply in replies}, {"error", "status"})
        self.room.stats_when(lambda stats: stats["workers"]["running"] == 0, "the end of the cancelled job")


class Deaths(StreamCase):
    arguments = None

    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.endpoints = harness.fixed_endpoints()

    def start_broker(self, store):
        return self.room.start_broker("--store", store, *harness.STEADY, **self.endpoints)

    def test_a_durable_stream_goes_on_when_the_broker_is_killed_and_comes_back(self):
        store = f"sqlite:{os.path.join(self.folder, 'lanemq.db')}"
        self.start_broker(store)
        self.start_worker("echo=echo:5ms")
        everything = b"".join(lines(400))
        reader = self.submit(body=everything)
        began = self.read(reader, 150)

        self.room.broker.kill()
        self.start_broker(store)

        rest, code, words = self.read_all(reader)
        self.assertEqual(code, 0, words)
        self.assertEqual(began + rest, everything)

    def test_a_stream_whose_worker_dies_ends_with_what_came(self):
        self.start_broker("memory")
        worker = self.start_worker("echo=echo:5ms")
        everything = b"".join(lines(10_000))
        reader = self.submit(body=everything)
        began = self.read(reader, 150)

        worker.kill()

        rest, code, words = self.read_all(reader)
        self.assertEqual(code, 1)
        self.assertIn("worker_lost", words)
        self.assertTrue(everything.startswith(began + rest))


if __name__ == "__main__":
    unittest.main()
