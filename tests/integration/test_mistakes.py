#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mistakes that people make first: each is answered by a line that names the thing, the reason and the next step."""
import collections
import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

import harness

# What each program needs besides the mistake.
BASE = {"lanemq-broker": ("--store", "memory", "--clients", "tcp://127.0.0.1:*", "--workers", "tcp://127.0.0.1:*", "--admin",
                          "tcp://127.0.0.1:*"),
        "lanemq-worker": (), "lanemq-gateway": ("--listen", "127.0.0.1:0"), "lanemq": ()}

# A mistake: who makes it, with which arguments; the exit code; the words that its line has. {taken} is a port that is
# taken, {http} one of an HTTP server, {clients}, {workers} and {admin} are a broker's endpoints, {file} a file with `text`.
Mistake = collections.namedtuple("Mistake", "program arguments code words text", defaults=("",))
MISTAKES = (
    Mistake("lanemq-broker", "--clients tcp://127.0.0.1:{taken}", 3, ("tcp://127.0.0.1:{taken}", "another program", "--clients")),
    Mistake("lanemq-broker", "--workers tcp://127.0.0.1:{taken}", 3, ("tcp://127.0.0.1:{taken}", "another program", "--workers")),
    Mistake("lanemq-broker", "--admin tcp://127.0.0.1:{taken}", 3, ("tcp://127.0.0.1:{taken}", "another program", "--admin")),
    Mistake("lanemq-broker", "--clients tcp://localhost:5579", 3, ("tcp://localhost:5579", "numeric address", "127.0.0.1")),
    Mistake("lanemq-broker", "--clients 5580", 2, ("5580", "tcp://HOST:PORT")),
    Mistake("lanemq-broker", "--clients 127.0.0.1:5580", 2, ("127.0.0.1:5580", "tcp://HOST:PORT")),
    Mistake("lanemq-broker", "--set budget.api.rpm=600", 2, ("budget.api.rpm", "did you mean", "requests_per_minute")),
    Mistake("lanemq-broker", "--config /no/such/file.toml", 2, ("/no/such/file.toml cannot be read: No such file",)),
    Mistake("lanemq-broker", "--config {file}", 2, ("{file}:3", "clients_endpoint"),
            'clients = "tcp://127.0.0.1:5570"\n[clients."team-a"]\nweight = 4\n'),
    Mistake("lanemq-broker", "--config {file}", 2, ("{file}:3: lane.a.reserve: must be a share", "not \"20\""),
            '[[lane]]\nname = "a"\nreserve = 20\n'),
    Mistake("lanemq-broker", "--config {file}", 2, ("{file}:1", "did you mean \"lane\""), '[[lanes]]\nname = "a"\n'),
    Mistake("lanemq-worker", "--service x=echo --service x=echo:20ms", 2, ("--service", "\"x\" twice")),
    Mistake("lanemq-gateway", "--listen http://127.0.0.1:8092", 2, ("--listen", "http://127.0.0.1:8092")),
    Mistake("lanemq", "stat", 2, ("no command \"stat\"", "did you mean \"stats\"")),
    Mistake("lanemq", "frobnicate", 2, ("no command \"frobnicate\"", "--help")),
    Mistake("lanemq", "--admin {admin} limits set openai requests_per_minute 5", 1, ("no budget \"openai\"", "lanemq limits")),
    Mistake("lanemq", "--admin {admin} drain nobody", 1, ("no worker", "lanemq workers")),
    Mistake("lanemq", "--broker {workers} --connect-timeout 2s stats", 3, ("{workers}", "ZeroMQ", "workers")),
    Mistake("lanemq", "--broker tcp://127.0.0.1:{http} --connect-timeout 2s stats", 3, ("{http}", "HTTP server", "--broker")),
    Mistake("lanemq", "--broker tcp://127.0.0.1:{free} --connect-timeout 500ms stats", 3,
            ("{free}", "nothing listens there", "start lanemq-broker")),
    Mistake("lanemq", "--broker tcp://no-such-host.invalid:5570 --connect-timeout 500ms stats", 3,
            ("no-such-host.invalid", "not known")),
    Mistake("lanemq", "--broker {clients} submit --service x --timeout 100 hello", 2, ("--timeout", "unit")),
)


class HttpServer:
    """Answers whatever comes as HTTP servers do, and counts who connects."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.connections = 0
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                self.connections += 1
                with contextlib.suppress(OSError), connection:
                    connection.settimeout(1)
                    connection.recv(100)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()


class Mistakes(harness.Case):
    arguments = None

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def serve_http(self):
        server = HttpServer()
        self.addCleanup(server.close)
        return server

    def test_each_is_named_with_what_to_do(self):
        broker = self.room.start_broker()
        taken, free = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        places = {"clients": broker.clients, "workers": broker.workers, "admin": broker.admin,
                  "taken": taken.getsockname()[1], "free": free.getsockname()[1], "http": self.serve_http().port,
                  "file": os.path.join(self.folder, "wrong.toml")}
        free.close()
        for mistake in MISTAKES:
            with self.subTest(program=mistake.program, arguments=mistake.arguments):
                with open(places["file"], "w", encoding="utf-8") as file:
                    file.write(mistake.text)
                done = subprocess.run([harness.program(mistake.program), *BASE[mistake.program],
                                       *mistake.arguments.format(**places).split()], capture_output=True, text=True,
                                      timeout=harness.PATIENCE * 3, check=False)
                self.assertEqual(done.returncode, mistake.code, done.stderr)
                for words in mistake.words:
                    self.assertIn(words.format(**places), done.stderr)

    def test_nobody_connects_to_an_http_server_without_a_pause(self):
        server = self.serve_http()
        endpoint = f"tcp://127.0.0.1:{server.port}"
        gateway = self.room.start(harness.Process(harness.program("lanemq-gateway"), "--broker", endpoint, "--listen", "127.0.0.1:0"))
        harness.wait_until(lambda: "is no broker's endpoint for clients, perhaps" in gateway.stderr(), "the gateway says who is there",
                           patience=harness.PATIENCE * 2)
        # Pauses double: the first second has five connections, and each of three more seconds one.
        connections = server.connections
        self.assertLess(connections, 50)

    def test_a_job_that_nobody_serves_says_so(self):
        broker = self.room.start_broker()
        for options in ((), ("--stream",)):
            submit = self.room.start(harness.Process(harness.program("lanemq"), "--broker", broker.clients, "submit",
                                                     "--service", "chat", *options, "hello"))
            said = harness.wait_until(lambda submit=submit: submit.stderr(), "the command line says what it waits for")
            self.assertRegex(said, 'no worker serves "chat".*lanemq-worker --service chat.*lanemq explain ')

    def test_an_interrupted_command_leaves_no_jobs(self):
        broker = self.room.start_broker()

        def queued(stats):
            return sum(lane["queued"] for lane in stats["lanes"].values())

        for command, left in (("submit --service nobody hello", 0), ("bench --service nobody -n 100", 0),
                              ("submit --service nobody --leave hello", 1)):
            with self.subTest(command=command):
                program = self.room.start(harness.Process(harness.program("lanemq"), "--broker", broker.clients, *command.split()))
                self.room.stats_when(queued, "its jobs are queued")
                program.signal(signal.SIGINT)
                self.assertIn(program.wait(), (128 + signal.SIGINT, -signal.SIGINT))
                # Where they stay they would have gone with the others before: the last command is the one with --leave.
                self.room.stats_when(lambda stats, left=left: queued(stats) == left, "nobody waits for them")

    def test_a_gateway_without_a_home_says_that_it_keeps_no_files(self):
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("HOME", "XDG_STATE_HOME", "STATE_DIRECTORY")}
        gateway = self.room.start(harness.Process(harness.program("lanemq-gateway"), "--listen", "127.0.0.1:0", env=environment))
        self.assertTrue(gateway.line().startswith("ready"))
        self.assertRegex(gateway.stderr(), r"batches\.unavailable .*--state")


if __name__ == "__main__":
    unittest.main()
