# SPDX-License-Identifier: Apache-2.0
"""What people read never stops what machines wait for: programs whose log nobody reads, and programs without a log. And what
the log says of the clock."""

import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import unittest
import urllib.request

import zmq

import harness


class Unread:
    """A pipe for a log that is full already, as one whose reader stands still."""

    def __init__(self):
        self.reads, self.writes = os.pipe()
        os.set_blocking(self.writes, False)
        try:
            while os.write(self.writes, b"-" * 4096):
                pass
        except BlockingIOError:
            # Whether a descriptor waits belongs to all who have the pipe.
            os.set_blocking(self.writes, True)

    def close_writes(self):
        os.close(self.writes)
        self.writes = None

    def read_until(self, *words):
        text = b""
        while not all(word in text for word in words):
            piece = os.read(self.reads, 1 << 16)
            if not piece:
                raise AssertionError(f"the log ended without {words}: {text[-2000:]}")
            text += piece.strip(b"-")
        return text

    def close(self):
        os.close(self.reads)
        if self.writes is not None:
            os.close(self.writes)


class StartedWith(subprocess.Popen):
    """A program whose stdout and stderr are the test's."""

    def end(self):
        if self.poll() is None:
            self.kill()
        self.wait()
        if self.stdout:
            self.stdout.close()


class NobodyReads(harness.Case):
    arguments = harness.STEADY

    def unread(self):
        pipe = Unread()
        self.addCleanup(pipe.close)
        return pipe

    def start(self, name, *arguments, **streams):
        process = StartedWith([harness.program(name), *arguments], **{"stdout": subprocess.PIPE, **streams})
        self.addCleanup(process.end)
        return process

    def start_broker(self, pipe):
        broker = self.start("lanemq-broker", "--clients", "tcp://127.0.0.1:*", "--workers", "tcp://127.0.0.1:*", "--admin",
                            "tcp://127.0.0.1:*", "--store", "memory", *harness.STEADY, stderr=pipe.writes)
        words = dict(word.split(b"=", 1) for word in broker.stdout.readline().split()[1:])
        broker.clients, broker.workers = words[b"clients"].decode(), words[b"workers"].decode()
        return broker

    def test_a_broker_goes_on_and_its_log_comes_when_somebody_reads(self):
        pipe = self.unread()
        broker = self.start_broker(pipe)
        client = harness.Client(self.room, zmq.DEALER, broker.clients)
        for number in range(20):
            worker = harness.Worker(self.room, broker.workers, ("echo",), 1, name=f"w{number}")
            worker.get("welcome")
            self.assertEqual(client.ask("ping", expect="pong").op, "pong")
            worker.heartbeats = False
            worker.send("bye")
            worker.close()

        pipe.close_writes()
        text = pipe.read_until(b"worker.left name=w19")

        for number in range(20):
            self.assertIn(b"worker.ready name=w%d " % number, text)
        broker.send_signal(signal.SIGTERM)
        pipe.read_until(b"broker.stopped")
        self.assertEqual(broker.wait(harness.PATIENCE), 0)

    def test_a_broker_ends_though_nobody_reads(self):
        broker = self.start_broker(self.unread())
        client = harness.Client(self.room, zmq.DEALER, broker.clients)
        client.ask("ping", expect="pong")

        broker.send_signal(signal.SIGTERM)

        self.assertEqual(broker.wait(harness.PATIENCE), 0)

    def test_a_program_says_why_it_cannot_start_to_nobody_and_ends(self):
        for name, arguments in (("lanemq-broker", ("--store", "nonsense")), ("lanemq-worker", ("--service", "=")),
                                ("lanemq-gateway", ("--listen", "nonsense"))):
            with self.subTest(name):
                self.assertEqual(self.start(name, *arguments, stderr=self.unread().writes).wait(harness.PATIENCE), 2)

    def test_a_worker_goes_on_though_its_output_is_not_read_either(self):
        pipe = self.unread()
        worker = self.start("lanemq-worker", "--broker", self.room.broker.workers, "--service", "echo=echo", "--log-level", "debug",
                            stdout=pipe.writes, stderr=pipe.writes)
        client = self.room.client()
        for number in range(20):
            client.submit(id=f"job-{number}", body=b"%d" % number)
            self.assertEqual(client.get("result").body, b"%d" % number)

        pipe.close_writes()
        pipe.read_until(b"worker.connected", b"ready name=", b"job.started")
        worker.send_signal(signal.SIGTERM)
        pipe.read_until(b"worker.left")
        self.assertEqual(worker.wait(harness.PATIENCE), 0)

    def test_a_gateway_answers_and_keeps_what_it_says_of_requests(self):
        pipe = self.unread()
        gateway = self.start("lanemq-gateway", "--broker", self.room.broker.clients, "--listen", "127.0.0.1:0", "--auth", "none",
                             "--access-log", stderr=pipe.writes)
        url = gateway.stdout.readline().decode().split()[1]
        for _ in range(100):
            with urllib.request.urlopen(f"{url}/healthz", timeout=harness.PATIENCE) as answer:
                self.assertEqual(answer.status, 200)

        pipe.close_writes()
        text = b""
        while text.count(b"request.answered") < 100:
            text += pipe.read_until(b"\n")
        gateway.send_signal(signal.SIGTERM)
        self.assertEqual(gateway.wait(harness.PATIENCE), 0)


class Journal(harness.Case):
    """Under systemd JOURNAL_STREAM names the file to which stderr leads: there each line has its priority, and the journal has its time."""

    arguments = None

    def said(self, name, *arguments, journal="{stream}", until=b"\n"):
        """What a program has written to such a pipe, with the line that `until` is in."""
        reads, writes = os.pipe()
        self.addCleanup(os.close, reads)
        about = os.fstat(writes)
        stream = journal.format(stream=f"{about.st_dev}:{about.st_ino}")
        process = StartedWith([harness.program(name), *arguments], stdout=subprocess.PIPE, stderr=writes,
                              env={**os.environ, "JOURNAL_STREAM": stream})
        os.close(writes)
        self.addCleanup(process.end)
        text = b""
        while until not in text or not text.endswith(b"\n"):
            piece = os.read(reads, 1 << 16)
            self.assertTrue(piece, f"the log ended without {until}: {text}")
            text += piece
        return text.decode()

    def worker(self, *arguments, **how):
        with socket.create_server(("127.0.0.1", 0)) as nobody:
            endpoint = f"tcp://127.0.0.1:{nobody.getsockname()[1]}"
        return self.said("lanemq-worker", "--broker", endpoint, "--service", "x=echo", *arguments, until=b"worker.waiting_for_broker", **how)

    def test_each_line_begins_with_its_priority_and_has_no_time(self):
        self.assertRegex(self.worker(), r"(?m)^<4>warning worker\.waiting_for_broker ")

    def test_an_object_keeps_its_time(self):
        self.assertRegex(self.worker("--log-format", "json"),
                         r'(?m)^<4>\{"time":"[0-9T:.+-]+","level":"warning","event":"worker\.waiting_for_broker"')

    def test_why_a_program_cannot_start_is_an_error_line_by_line(self):
        for name, arguments in (("lanemq-broker", ("--store", "nonsense")), ("lanemq-worker", ("--service", "=")),
                                ("lanemq-gateway", ("--listen", "nonsense"))):
            with self.subTest(name):
                for line in self.said(name, *arguments).splitlines():
                    self.assertRegex(line, "^<3>")

    def test_another_file_is_no_journal(self):
        for journal in ("1{stream}", "{stream}1", "x"):
            with self.subTest(journal):
                self.assertRegex(self.worker(journal=journal), r"(?m)^[0-9-]+T[0-9:.]+[+-][0-9:]+ warning worker\.waiting_for_broker ")


class Clock(harness.Case):
    arguments = None

    def test_it_says_when_the_wall_clock_is_set_and_in_the_next_life_that_it_is_behind(self):
        library = os.path.join(harness.PROGRAMS, "set_clock.so")
        if not os.path.exists(library):
            self.skipTest("there is none where a sanitizer has to be loaded first")
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="lanemq-clock-"))
        clock = os.path.join(folder, "clock")

        def set_clock(ahead):
            with open(clock, "r+b" if os.path.exists(clock) else "wb") as file:
                file.write(struct.pack("=q", ahead))

        def start():
            return self.room.start_broker(store=f"sqlite:{folder}/lanemq.db",
                                          env={**os.environ, "LD_PRELOAD": library, "SET_CLOCK_FILE": clock})

        set_clock(0)
        broker = start()
        set_clock(3600)
        harness.wait_until(lambda: re.search(r" info clock.set by_ms=(3600|3599)\d\d\d", broker.stderr()), "that the clock was set")
        broker.stop()
        set_clock(-3600)

        self.assertRegex(start().stderr(), r" warning clock.behind by_ms=7[12]\d\d\d\d\d ")


class WithoutDescriptors(harness.Case):
    """A supervisor may close what it needs no more: then nothing that a program opens is its standard output."""

    def test_what_a_program_opens_is_none_of_its_standard_descriptors(self):
        broker = self.room.broker
        for name, arguments in (("lanemq-broker", ("--clients", "tcp://127.0.0.1:*", "--workers", "tcp://127.0.0.1:*", "--admin",
                                                   "tcp://127.0.0.1:*", "--store", "memory")),
                                ("lanemq-worker", ("--broker", broker.workers, "--service", "closed=echo")),
                                ("lanemq-gateway", ("--broker", broker.clients, "--listen", "127.0.0.1:0", "--auth", "none")),
                                ("lanemq", ("--broker", broker.clients, "submit", "--service", "nobody", "--timeout", "60s"))):
            with self.subTest(name):
                process = StartedWith([harness.program(name), *arguments],
                                      preexec_fn=lambda: os.closerange(0, 3))
                self.addCleanup(process.end)

                # Whoever has sockets has opened all that it opens at its start.
                def opened():
                    return len(os.listdir(f"/proc/{process.pid}/fd")) > 6

                harness.wait_until(opened, f"the descriptors of {name}")
                for descriptor in range(3):
                    self.assertEqual(os.readlink(f"/proc/{process.pid}/fd/{descriptor}"), "/dev/null")


if __name__ == "__main__":
    unittest.main()
