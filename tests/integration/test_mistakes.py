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
import time
import unittest

import harness

# What each program needs besides the mistake.
BASE = {"lanemq-broker": ("--store", "memory", "--clients", "tcp://127.0.0.1:*", "--workers", "tcp://127.0.0.1:*", "--admin",
                          "tcp://127.0.0.1:*"),
        "lanemq-worker": (), "lanemq-gateway": ("--listen", "127.0.0.1:0"), "lanemq": ()}

# How long a program may take to settle, and how long it is watched then.
SETTLES_S, MEASURED_S, MEASURED_TIMES = 3, float(os.environ.get("LANEMQ_TEST_SPIN_SECONDS", "8")), 3
SHARE_MAX = 0.02 * harness.MEMORY_FACTOR  # of a processor, by a program that waits; beside others each of its turns costs more

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
    Mistake("lanemq", "submit --servce echo x", 2, ("unknown flag \"--servce\" of lanemq submit", "did you mean \"--service\"")),
    Mistake("lanemq", "submit --hlep", 2, ("unknown flag \"--hlep\"", "did you mean \"--help\"")),
    Mistake("lanemq", "--broekr tcp://h:1 stats", 2, ("unknown flag \"--broekr\"", "did you mean \"--broker\"")),
    Mistake("lanemq", "submit --frobnicate=7 --service x", 2, ("unknown flag \"--frobnicate\"", "lanemq submit --help")),
    Mistake("lanemq", "submit --service x hello world", 2, ("no place for \"world\"", "quotes")),
    Mistake("lanemq", "limits sett openai", 2, ("no command \"sett\" of lanemq limits", "did you mean \"set\"")),
    Mistake("lanemq", "help sumbit", 2, ("no command \"sumbit\"", "did you mean \"submit\"")),
    Mistake("lanemq", "--broker tcp://127.0.0.1:99999 stats", 2, ("--broker", "tcp://127.0.0.1:99999", "1 to 65535")),
    Mistake("lanemq", "--admin tcp://127.0.0.1:65536 jobs", 2, ("--admin", "tcp://127.0.0.1:65536", "1 to 65535")),
    Mistake("lanemq", "--broker {clients} check ready --workers tcp://127.0.0.1:70000", 2, ("--workers", "1 to 65535")),
    Mistake("lanemq-gateway", "--broker tcp://127.0.0.1:99999", 2, ("tcp://127.0.0.1:99999", "1 to 65535")),
    Mistake("lanemq-gateway", "--lanes critical,normal,critical", 2, ("lanes", "\"critical\" twice")),
    Mistake("lanemq-gateway", "gateway.toml", 2, ("\"gateway.toml\"", "--config")),
    Mistake("lanemq-gateway", "--config {file}", 2, ("{file}:2: [[key]]: key \"a\": lane \"chat\"", "critical, high, normal, low, batch"),
            '\n[[key]]\nname = "a"\nsha256 = "' + "0" * 64 + '"\nlane = "chat"\n'),
    Mistake("lanemq-gateway", "--config {file}", 2, ("{file}:1: ", "closing quote is missing"), 'broker = "tcp://127.0.0.1:5570\n'),
    Mistake("lanemq-broker", "--config {file}", 2, ("{file}:4", "\"limit.requests_per_minute\"", "did you mean \"limits\""),
            '[[budget]]\nname = "x"\nlimits = { requests_per_day = 5 }\nlimit = { requests_per_minute = 4 }\n'),
    Mistake("lanemq-worker", "--config {file}", 2, ("{file}:1: service", "must be a list, as in [[service]]"), '[service]\nname = "x"\n'),
    Mistake("lanemq-worker", "--service x=openai:api.openai.com/v1", 2, ("\"x\"", "its scheme is missing", "https://")),
    Mistake("lanemq-worker", "--service llama=http://127.0.0.1:8000/v1", 2, ("name a handler", "llama=openai:http://127.0.0.1:8000/v1")),
    Mistake("lanemq-worker", "--service x=openai:https://h/v1/chat/completions", 2, ("must not have /chat/completions", "write https://h/v1")),
    Mistake("lanemq-worker", "--service x=echo --http-ca-file {file}", 2, ("http_ca_file", "{file}", "no certificate in PEM"), "no\n"),
    Mistake("lanemq-worker", "--service x=echo --broker tcp://127.0.0.1:{http} --connect-timeout 2s", 3,
            ("an HTTP server answers there", "--broker")),
    Mistake("lanemq-worker", "--service x=echo --service x=echo:20ms", 2, ("--service", "\"x\" twice")),
    Mistake("lanemq-gateway", "--listen http://127.0.0.1:8092", 2, ("--listen", "http://127.0.0.1:8092")),
    Mistake("lanemq", "stat", 2, ("no command \"stat\"", "did you mean \"stats\"")),
    Mistake("lanemq", "frobnicate", 2, ("no command \"frobnicate\"", "--help")),
    Mistake("lanemq", "--admin {admin} limits set openai requests_per_minute 5", 1, ("no budget \"openai\"", "lanemq limits")),
    Mistake("lanemq", "--admin {admin} drain nobody", 1, ("no worker", "lanemq workers")),
    Mistake("lanemq", "--broker {workers} stats", 1, ("\"stats\"", "for workers", "clients_endpoint")),
    Mistake("lanemq", "--broker {workers} submit --service x hello", 1, ("\"submit\"", "for workers", "clients_endpoint")),
    Mistake("lanemq", "--broker tcp://127.0.0.1:{http} --connect-timeout 2s stats", 3, ("{http}", "HTTP server", "--broker")),
    Mistake("lanemq", "--broker tcp://127.0.0.1:{free} --connect-timeout 500ms stats", 3,
            ("{free}", "nothing listens there", "start lanemq-broker")),
    Mistake("lanemq", "--broker tcp://no-such-host.invalid:5570 --connect-timeout 500ms stats", 3,
            ("no-such-host.invalid", "not known")),
    Mistake("lanemq", "--broker {clients} submit --service x --timeout 100 hello", 2, ("--timeout", "unit")),
    Mistake("lanemq-broker", "--clients tcp://127.0.0.1:{free} --workers tcp://127.0.0.1:{free}", 2,
            ("tcp://127.0.0.1:{free}", "for clients and for workers")),
    Mistake("lanemq-broker", "--store sqlite:/no/such/folder/a.db", 4, ("/no/such/folder/a.db", "the folder must exist", "--store")),
    Mistake("lanemq-broker", "--store oracle://x", 2, ("oracle://x", "sqlite:PATH", "postgres:CONNINFO")),
    Mistake("lanemq-broker", "--store postgres:hast=x", 2, ("hast",)),
    Mistake("lanemq-broker", "--store postgres://u:geheim@h/d", 2, ("password", "passfile=PATH")),
    Mistake("lanemq-broker", "--store postgres:host=h --set store_schema=pg_x", 2, ("store_schema", "pg_x")),
    Mistake("lanemq-broker", "--store sqlite:{file}", 4, ("{file}", "not a database", "restore a backup"), "x" * 8192),
    Mistake("lanemq-broker", "--set heartbeat=abc", 2, ("heartbeat", "30s", "\"abc\"")),
    Mistake("lanemq-broker", "--set lane.normal.share_min=2", 2, ("lane.normal.share_min", "0.2", "\"2\"")),
    Mistake("lanemq-broker", "--set lane.normal.depth_max=-1", 2, ("lane.normal.depth_max", "at least 1")),
    Mistake("lanemq-broker", "--set lane=3", 2, ("lane is a table", "lane.NAME.OPTION=VALUE")),
    Mistake("lanemq-broker", "--set nonsense", 2, ("nonsense", "key=value")),
    Mistake("lanemq-broker", "--set memory_max=10", 2, ("memory_max", "64MiB")),
    Mistake("lanemq-broker", "--log-level loud", 2, ("--log-level", "warning", "\"loud\"")),
    Mistake("lanemq-broker", "--frobnicate", 2, ("--frobnicate", "--help")),
    Mistake("lanemq-broker", "--config {folder}", 2, ("{folder}", "Is a directory")),
    Mistake("lanemq-broker", "--config {file}", 2, ("2 default lanes", "exactly one"),
            '[[lane]]\nname = "a"\ndefault = true\n[[lane]]\nname = "b"\ndefault = true\n'),
    Mistake("lanemq-worker", "--broker {workers}", 2, ("nothing to serve", "--service")),
    Mistake("lanemq-worker", "--broker {workers} --service chat=frob", 2, ("no handler \"frob\"", "openai")),
    Mistake("lanemq-worker", "--broker {workers} --service chat=openai", 2, ("needs a URL", "chat=openai:https://")),
    Mistake("lanemq-worker", "--broker {workers} --service chat=openai:htp://x", 2, ("\"chat\"", "http or https")),
    Mistake("lanemq-worker", "--broker {workers} --service x=echo --capacity 0", 2, ("--capacity", "1..1024")),
    Mistake("lanemq-worker", "--broker {workers} --service x=echo --lanes nosuch", 2, ("unknown lane", "nosuch", "--lanes")),
    Mistake("lanemq-worker", "--broker {clients} --service x=echo", 2, ("{clients}", "does not take this worker", "--broker")),
    Mistake("lanemq-worker", "--broker 127.0.0.1:5571 --service x=echo", 2, ("127.0.0.1:5571", "tcp://HOST:PORT")),
    Mistake("lanemq-gateway", "--listen 127.0.0.1:{taken}", 3, ("127.0.0.1:{taken}", "in use", "another address")),
    Mistake("lanemq-gateway", "--listen 0.0.0.0:0", 2, ("0.0.0.0", "without keys", "[[key]]")),
    Mistake("lanemq-gateway", "--auth keys", 2, ("auth is \"keys\"", "[[key]]")),
    Mistake("lanemq-gateway", "--config {file}", 2, ("{file}", "\"a\"", "env:VARIABLE"), '[[key]]\nname = "a"\nsecret = "x"\n'),
    Mistake("lanemq-gateway", "--config {folder}", 2, ("{folder}", "Is a directory")),
    Mistake("lanemq", "--broker {clients} submit hello", 2, ("--service is required",)),
    Mistake("lanemq", "--broker {clients} submit --service x --lane nosuch hello", 1, ("unknown lane \"nosuch\"", "critical")),
    Mistake("lanemq", "--broker {clients} submit --service x --meta nope hello", 2, ("--meta", "nope")),
    Mistake("lanemq", "--broker {clients} submit --service x --timeout 0s hello", 2, ("--timeout", "1ms..365d")),
    Mistake("lanemq", "--broker {clients} run /no/such.jsonl --service x", 2, ("/no/such.jsonl", "No such file")),
    Mistake("lanemq", "--broker {clients} run {file} --service x", 1, ("line 1 is no JSON",), "not json\n"),
    Mistake("lanemq", "--broker {clients} fetch unknown-id", 1, ("unknown-id", "no job with id")),
    Mistake("lanemq", "--admin {admin} pause lane nosuch", 1, ("unknown lane \"nosuch\"", "critical")),
    Mistake("lanemq", "--admin {admin} redrive", 2, ("which dead jobs?", "--all")),
    Mistake("lanemq", "--admin {admin} backup copy.db", 1, ("the store is memory", "--store")),
    Mistake("lanemq", "--admin tcp://127.0.0.1:{http} --connect-timeout 2s lanes", 3, ("HTTP server", "operators", "--admin")),
)


# States that last: what a program does while nothing happens, or while what it needs is not there.
STATES = (
    "lanemq-worker --broker {workers} --service idle=echo",
    "lanemq-worker --broker tcp://127.0.0.1:{free} --service x=echo --connect-timeout 1h",
    "lanemq-worker --broker tcp://127.0.0.1:{http} --service x=echo --connect-timeout 1h",
    "lanemq-worker --broker tcp://no-such-host.invalid:5571 --service x=echo --connect-timeout 1h",
    "lanemq-gateway --listen 127.0.0.1:0 --broker {clients}",
    "lanemq-gateway --listen 127.0.0.1:0 --broker {workers}",
    "lanemq-gateway --listen 127.0.0.1:0 --broker tcp://127.0.0.1:{free}",
    "lanemq-gateway --listen 127.0.0.1:0 --broker tcp://127.0.0.1:{http}",
    "lanemq --broker {clients} submit --service nobody --timeout 1h hello",
    "lanemq --broker {clients} submit --service nobody --timeout 1h --stream hello",
    "lanemq --broker {clients} run {file} --service nobody --out {file}.out",
    "lanemq --broker {clients} bench --service nobody --timeout 1h",
    "lanemq --broker {clients} stats --watch 5",
    "lanemq --broker tcp://127.0.0.1:{free} --connect-timeout 1h stats",
    "lanemq --broker tcp://127.0.0.1:{http} --connect-timeout 1h stats",
    "lanemq --admin tcp://127.0.0.1:{free} --connect-timeout 1h lanes",
    "lanemq-upstream",
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
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def serve_http(self):
        server = HttpServer()
        self.addCleanup(server.close)
        return server

    def test_each_is_named_with_what_to_do(self):
        places = self.places()
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

    def places(self):
        """What the words in braces stand for."""
        broker = self.room.start_broker()
        taken, free = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        with free:
            nobody = free.getsockname()[1]
        return {"clients": broker.clients, "workers": broker.workers, "admin": broker.admin,
                "taken": taken.getsockname()[1], "free": nobody, "http": self.serve_http().port,
                "file": os.path.join(self.folder, "wrong.toml"), "folder": self.folder}

    def test_nobody_spins(self):
        places = self.places()
        with open(places["file"], "w", encoding="utf-8") as file:
            file.write('{"messages": []}\n')
        states = {"lanemq-broker": self.room.broker}
        for state in STATES:
            program, *arguments = state.format(**places).split()
            states[state] = self.room.start(harness.Process(harness.program(program), *arguments))

        def cpu_seconds():
            seconds = {}
            for state, program in states.items():
                self.assertIsNone(program.process.poll(), f"{state} has ended: {program.stderr()}")
                spent = 0
                for thread in os.listdir(f"/proc/{program.pid}/task"):
                    with contextlib.suppress(FileNotFoundError), open(f"/proc/{program.pid}/task/{thread}/schedstat") as file:
                        spent += int(file.read().split()[0]) / 1e9
                seconds[state] = spent
            return seconds

        # What it costs to start, and to find that nobody is there, and once more where a busy machine made that take longer: who spins
        # does so each time.
        share = dict.fromkeys(states, 1.0)
        for _ in range(MEASURED_TIMES):
            self.room.keep_alive(SETTLES_S)
            before, began = cpu_seconds(), time.monotonic()
            self.room.keep_alive(MEASURED_S)
            after, passed = cpu_seconds(), time.monotonic() - began
            share = {state: min(share[state], (after[state] - before[state]) / passed) for state in states}
            if max(share.values()) < SHARE_MAX:
                break
        self.assertEqual({state: spent for state, spent in share.items() if spent >= SHARE_MAX}, {})

    def test_nobody_connects_to_an_http_server_without_a_pause(self):
        server = self.serve_http()
        endpoint = f"tcp://127.0.0.1:{server.port}"
        gateway = self.room.start(harness.Process(harness.program("lanemq-gateway"), "--broker", endpoint, "--listen", "127.0.0.1:0"))
        harness.wait_until(lambda: "is no broker's endpoint for clients, perhaps" in gateway.stderr(), "the gateway says who is there",
                           patience=harness.PATIENCE * 2)
        # Pauses double: the first second has five connections, and each of three more seconds one.
        connections = server.connections
        self.assertLess(connections, 50)

    def test_a_gateway_at_the_workers_endpoint_says_so(self):
        broker = self.room.start_broker()
        gateway = self.room.start(harness.Process(harness.program("lanemq-gateway"), "--broker", broker.workers, "--listen", "127.0.0.1:0"))
        said = harness.wait_until(lambda: gateway.stderr(), "the gateway says who is there")
        self.assertRegex(said, "error broker.refused .*for workers.*clients_endpoint")

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
        environment = {name: value for name, value in os.environ.items() if name not in ("XDG_STATE_HOME", "STATE_DIRECTORY")}
        environment["HOME"] = "none"
        gateway = self.room.start(harness.Process(harness.program("lanemq-gateway"), "--listen", "127.0.0.1:0", env=environment))
        self.assertTrue(gateway.line().startswith("ready"))
        self.assertRegex(gateway.stderr(), r"batches\.unavailable .*--state")


if __name__ == "__main__":
    unittest.main()
