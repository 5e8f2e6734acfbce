# SPDX-License-Identifier: Apache-2.0
"""The examples in all languages, act by act: client/examples and worker/examples, by the commands of their READMEs. A language
whose packages are not installed is skipped by name, but not those that CI has. `test_examples.py Ruby` runs one."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import zmq

import harness
import test_peer_keys

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
NODE_MODULES = os.path.join(ROOT, "tests/integration/node/node_modules")
LIBRARY = "liblanemq-dev"
NO_LANGUAGES = ("node_modules", "plugins")
IN_CI_AT_LEAST = 8
WINDOW = 64


def rows_of(page, first_head):
    """The rows of the page's table that begins with this head, each by the heads of its columns."""
    with open(os.path.join(ROOT, page)) as file:
        lines = [[cell.strip().strip("`") for cell in line.split("|")[1:-1]] for line in file if line.startswith("|")]
    begin = next(number for number, cells in enumerate(lines) if cells[0] == first_head)
    found = []
    for cells in lines[begin + 2 :]:
        if len(cells) != len(lines[begin]):
            break
        found.append(dict(zip(lines[begin], cells)))
    return found


def languages():
    """By name, what the two tables say of each."""
    found = {row["language"]: row for row in rows_of("client/examples/README.md", "language")}
    for row in rows_of("worker/examples/README.md", "language"):
        found[row["language"]] |= {"build worker": row["build"], "worker": row["the worker"]}
    return found


def packages_of_ci():
    with open(os.path.join(ROOT, "scripts/lib/common.sh")) as file:
        lists = re.findall(r'^packages_(?:build|test|examples)="(.*?)"', file.read(), re.MULTILINE | re.DOTALL)
    # scripts/test installs what `node` and `npm` are where nobody else did.
    return {*" ".join(lists).split(), "nodejs", "npm", LIBRARY}


def is_there(package):
    if package == LIBRARY:  # it is built here
        return True
    said = subprocess.run(["dpkg-query", "-W", "-f", "${Status}", package], capture_output=True, text=True).stdout
    return said == "install ok installed" or package == "npm" and shutil.which("npm") is not None


class Language(harness.Case):
    """What every language does. The subclass says which."""

    name, says = None, None
    arguments = harness.QUICK

    @classmethod
    def setUpClass(cls):
        missing = [package for package in cls.says["packages"].split() if not is_there(package)]
        if missing and set(cls.says["packages"].split()) <= packages_of_ci():
            raise AssertionError(f"{cls.name}: {' '.join(missing)} is missing: run scripts/deps")
        if missing:
            raise unittest.SkipTest(f"{cls.name}: {' '.join(missing)} is not installed")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.environment = {name: value for name, value in os.environ.items() if not name.startswith("LANEMQ_")}
        cls.environment |= {"PATH": "/usr/bin:" + os.environ["PATH"]}
        if LIBRARY in cls.says["packages"]:
            cls.install_library()
        for end, build in (("client", "build"), ("worker", "build worker")):
            place = os.path.join(cls.folder, end)
            shutil.copytree(os.path.join(ROOT, end, "examples"), place, ignore=shutil.ignore_patterns("node_modules"))
            if cls.name == "Node":  # in place of the command, which fetches
                os.symlink(NODE_MODULES, os.path.join(place, "node_modules"))
            elif cls.says[build]:
                cls.build(place, cls.says[build])
        cls.unheard = [cls.start_client(kind, harness.fixed_endpoints()["clients"]) for kind in ("a request", "a stream")]

    @classmethod
    def install_library(cls):
        build, prefix = os.path.dirname(os.path.abspath(harness.PROGRAMS)), os.path.join(cls.folder, "prefix")
        cls.build(cls.folder, f"cmake --install {shlex.quote(build)} --prefix {prefix} --component dev")
        found = [path for path, _, files in os.walk(prefix) if "lanemq.pc" in files]
        cls.environment["PKG_CONFIG_PATH"] = found[0]

    @classmethod
    def start_client(cls, kind, endpoint, *arguments, keys={}):
        client = harness.Process(*shlex.split(cls.says[kind]), endpoint, *arguments, cwd=os.path.join(cls.folder, "client"),
                                 env={**cls.environment, **keys})
        cls.addClassCleanup(client.close)
        return client

    @classmethod
    def build(cls, place, command):
        done = subprocess.run(command, shell=True, cwd=place, env=cls.environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"{cls.name}: `{command}` ended with {done.returncode}\n{done.stdout}{done.stderr}")

    def start_worker(self, keys={}):
        worker = self.room.start(harness.Process(*shlex.split(self.says["worker"]), self.room.broker.workers, env={**self.environment, **keys},
                                                 cwd=os.path.join(self.folder, "worker")))
        if not keys:
            self.room.stats_when(lambda stats: stats["workers"]["connected"] == 1, "the worker")
        return worker

    def request(self, service, body, keys={}):
        return self.room.start(self.start_client("a request", self.room.broker.clients, service, body, keys=keys))

    def stream(self, service, body, keys={}):
        return self.room.start(self.start_client("a stream", self.room.broker.clients, service, body, keys=keys))

    def assert_ends(self, process, printed, code=0):
        self.room.pump(lambda: process.process.poll() is not None, "the end of the client", 2 * harness.PATIENCE)
        self.assertEqual((process.process.stdout.read(), process.process.returncode), (printed, code), process.stderr())

    def pause_stream(self, words):
        """A stream of the worker's that waits for its reader, who has read a window of it and said nothing."""
        reader = self.room.client()
        reader.submit("words", " ".join(words).encode(), id="paused", stream=True)
        for number in range(WINDOW):
            chunk = reader.get("chunk")
            self.assertEqual((chunk.fields["seq"], chunk.body.decode()), (number, words[number]))
        return reader

    def read_on(self, reader, words, begin=WINDOW):
        reader.send("seen", {"id": "paused", "seq": begin - 1})
        for number in range(begin, len(words)):
            chunk = reader.get("chunk")
            self.assertEqual((chunk.fields["seq"], chunk.body.decode()), (number, words[number]))
            reader.send("seen", {"id": "paused", "seq": number})
        self.assertEqual(reader.get("result").fields["chunks"], len(words))

    def restart_broker(self):
        self.room.broker.kill()
        self.room.start_broker(*self.on_disk, **self.endpoints)

    def use_disk(self):
        """A broker that keeps its jobs, and is found at the same place when it is back."""
        store = self.enterContext(tempfile.TemporaryDirectory())
        self.room.broker.kill()
        self.on_disk, self.endpoints = (*harness.QUICK, "--store", f"sqlite:{store}/jobs.db"), harness.fixed_endpoints()
        self.room.start_broker(*self.on_disk, **self.endpoints)

    # ---- clients

    def test_a_request_prints_its_answer(self):
        self.start_real_worker()
        self.assert_ends(self.request("echo", "grüße"), "grüße\n")
        self.assert_ends(self.request("echo", long := "x" * 9000), long + "\n")

    def start_real_worker(self):
        worker = self.room.start(harness.Process(harness.program("lanemq-worker"), "--broker", self.room.broker.workers,
                                                 "--service", "echo=echo"))
        self.assertTrue(worker.line().startswith("ready "))

    def test_a_stream_prints_its_pieces(self):
        self.start_real_worker()  # a line is a piece
        lines = [f"line {number}" for number in range(3 * WINDOW)]
        self.assert_ends(self.stream("echo", "\n".join(lines)), "\n\n".join(lines) + "\n")

    def test_errors_are_shown(self):
        worker = self.room.worker()
        for start in (self.request, self.stream):
            client = start("echo", "x")
            worker.hand_in(worker.get("job"), "error", **{"class": "permanent", "code": "400", "message": "not that"})
            self.assert_ends(client, "", 1)
            self.assertIn("upstream_rejected", client.stderr())
            self.assertIn("not that", client.stderr())

    def test_clients_outlive_the_broker(self):
        """Killed while jobs wait and while a stream is read, each job is answered, once."""
        self.use_disk()
        requests = [self.request("late", f"number {number}") for number in range(2)]
        stream = self.stream("late", "of pieces")
        self.room.stats_when(lambda stats: stats["lanes"]["normal"]["queued"] == 3, "the jobs")
        worker = self.room.worker(["late"], capacity=3)
        jobs = {job.body: job for job in (worker.get("job") for _ in range(3))}
        for seq, piece in enumerate((b"a", b"b")):
            self.say_piece(worker, jobs[b"of pieces"], seq, piece)
        self.assertEqual([stream.line(), stream.line()], ["a", "b"])
        # It took both; whether the broker has heard that, and told the worker, changes nothing.
        self.restart_broker()
        worker.introduce_again()
        worker.heartbeats = True
        worker.say_heartbeat()
        self.room.stats_when(lambda stats: stats["lanes"]["normal"]["running"] == 3, "the jobs that go on")
        for seq, piece in enumerate((b"a", b"b", b"c")):
            self.say_piece(worker, jobs[b"of pieces"], seq, piece)
        for job in jobs.values():
            worker.hand_in(job, body=b"" if job.body == b"of pieces" else job.body)
        self.assert_ends(stream, "c\n")
        for number, request in enumerate(requests):
            self.assert_ends(request, f"number {number}\n")

    def say_piece(self, worker, job, seq, piece):
        worker.send("chunk", {"job": job.fields["job"], "attempt": job.fields["attempt"], "seq": seq}, piece)

    def test_a_stream_asks_for_what_was_dropped(self):
        """A broker that leaves out a piece, forgets to end, and says what nobody knows."""
        if LIBRARY in self.says["packages"]:
            self.skipTest(f"{self.name}: its library asks in its own words, and has tests of its own")
        with zmq.Context() as context, context.socket(zmq.ROUTER) as broker:
            broker.linger = 0
            port = broker.bind_to_random_port("tcp://127.0.0.1")
            client = self.start_client("a stream", f"tcp://127.0.0.1:{port}")
            heard = self.hears(broker, "submit")
            self.assertEqual((heard[2]["service"], heard[2]["stream"], heard[3]), ("words", True, b"one two three"))
            say = lambda op, fields, *body: broker.send_multipart([heard[0], harness.packb(["LMQ1", op, fields, *body])])
            say("later", {"what": [None, {"x": 1.5}]})
            broker.send_multipart([heard[0], b"\xc1 is no msgpack"])
            say("chunk", {"seq": 0, "new": True}, b"one")
            self.assertEqual(self.hears(broker, "seen")[2]["seq"], 0)
            say("chunk", {"seq": 2}, b"three")
            heard = self.hears(broker, "fetch")
            self.assertEqual((heard[2]["from_seq"]), 1)
            say("status", {"state": "running", "attempts": 1})
            heard = self.hears(broker, "fetch")
            say("chunk", {"seq": 0}, b"one")
            say("chunk", {"seq": 1, "lane": None}, b"two")
            say("error", {"code": "slow_reader"})
            heard = self.hears(broker, "fetch")
            self.assertEqual((heard[2]["from_seq"]), 2)
            say("result", {"chunks": 3})
            heard = self.hears(broker, "fetch")
            broker.send_multipart([heard[0], harness.packb(["LMQ1", "chunk", {"seq": 2}]), b"three"])
            say("result", {"chunks": 3, "usage": None}, b"end")
            self.assert_ends(client, "one\ntwo\nthree\nend\n")

    def test_a_stream_waits_for_a_broker_that_answers(self):
        if LIBRARY in self.says["packages"]:
            self.skipTest(f"{self.name}: its library asks in its own words, and has tests of its own")
        with zmq.Context() as context, context.socket(zmq.ROUTER) as broker:
            broker.linger = 0
            port = broker.bind_to_random_port("tcp://127.0.0.1")
            client = self.start_client("a stream", f"tcp://127.0.0.1:{port}")
            peer = self.hears(broker, "submit")[0]
            for _ in range(3):  # no other submit comes between, and none by another connection
                heard = self.hears(broker, "ping")
                self.assertEqual(heard[0], peer)
                broker.send_multipart([peer, harness.packb(["LMQ1", "pong", {"now_ms": 1}])])
            broker.send_multipart([peer, harness.packb(["LMQ1", "result", {}, b"done"])])
            self.assert_ends(client, "done\n")

    def hears(self, broker, op):
        """The next message, which must say `op`: its connection, op, fields and body. `seen` and `ping` are left aside."""
        while True:
            if not broker.poll(1000 * harness.PATIENCE):
                raise harness.Timeout(f"the broker heard no {op}")
            peer, *frames = broker.recv_multipart()
            frames = frames[1:] if frames[0] == b"" else frames
            _, said, fields, *inside = harness.unpackb(frames[0])
            if said == op or said not in ("seen", "ping"):
                self.assertEqual(said, op, fields)
                return peer, said, fields, (inside or frames[1:] or [b""])[0]

    # ---- workers

    def test_the_worker_answers(self):
        self.start_worker()
        client = self.room.client()
        bodies = [b"", b"small", bytes(range(256)), bytes(range(256)) * 400]
        for number, body in enumerate(bodies * 20):
            client.submit(body=body, ref=number)
        for _ in bodies * 20:
            answer = client.get("result")
            self.assertEqual(answer.body, bodies[answer.fields["ref"] % len(bodies)])
        client.submit("words", b"two  words")
        self.assertEqual(client.get("result").body.split(), [b"two", b"words"])
        # Acknowledged, and listed in no inventory any more.
        self.room.stats_when(lambda stats: stats["uptime_ms"] > 4 * harness.HEARTBEAT_MS, "four heartbeats")
        stats = self.room.stats()
        self.assertEqual((stats["workers"]["lost"], stats["workers"]["connected"]), (0, 1))
        self.assertEqual([name for name in ("frames_refused", "outcomes_stale", "outcomes_repeated") if stats["counters"][name]], [])

    def test_the_worker_streams_within_the_window(self):
        self.start_worker()
        words = [f"word{number}" for number in range(5 * WINDOW)]
        reader = self.pause_stream(words)
        self.assertTrue(reader.silent(0.3))
        self.read_on(reader, words)
        large = [b"%d" % number * 100000 for number in range(5)]
        reader.submit("words", b" ".join(large), id="large", stream=True)
        for seq in range(3):  # after three it has said more than the bytes of a window
            self.assertEqual(reader.get("chunk").body, large[seq])
        self.assertTrue(reader.silent(0.3))
        reader.send("seen", {"id": "large", "seq": 2})
        for seq in range(3, 5):
            self.assertEqual(reader.get("chunk").body, large[seq])
        reader.send("seen", {"id": "large", "seq": 4})
        self.assertEqual(reader.get("result").fields["chunks"], 5)
        reader.submit("echo", b"one\n\ntwo", id="lines", stream=True)
        for line in (b"one\n", b"\n", b"two"):
            self.assertEqual(reader.get("chunk").body, line)
        self.assertEqual(reader.get("result").body, b"")
        reader.submit("words", b" \n ", id="none", stream=True)
        self.assertEqual(reader.get("result").fields.get("chunks", 0), 0)
        self.assertEqual(self.room.stats()["counters"]["chunks_refused"], 0)

    def test_a_cancel_reaches_the_worker(self):
        worker = self.start_worker()
        reader = self.pause_stream(["word"] * 1000)
        reader.send("cancel", {"id": "paused"})
        self.room.stats_when(lambda stats: stats["workers"]["running"] == 0, "the place that is free again")
        self.assertEqual(reader.status("paused")["state"], "cancelled")
        self.assertIsNone(worker.process.poll())

    def test_the_worker_drains_on_term(self):
        worker = self.start_worker()
        words = ["word"] * 300
        reader = self.pause_stream(words)
        worker.signal(signal.SIGTERM)
        another = self.room.client()
        # It may take a moment until it hears the signal; from then on nothing that comes is done.
        number = 0
        while self.answered_within(another, number, 2 * harness.HEARTBEAT_MS / 1000):
            number += 1
            self.assertLess(number, 1000, "it takes jobs after TERM")
        self.assertIsNone(worker.process.poll(), "it left its stream")
        self.read_on(reader, words)
        self.assertEqual(worker.wait(), 0, worker.stderr())
        self.room.stats_when(lambda stats: stats["workers"]["connected"] == 0, "the leaving")
        stats = self.room.stats()
        self.assertEqual((stats["workers"]["lost"], stats["lanes"]["normal"]["queued"]), (0, 1))
        self.assertEqual(another.status(f"job {number}")["attempts"], 0)

    def answered_within(self, client, number, seconds):
        client.submit(id=f"job {number}")
        try:
            client.get("result", seconds)
            return True
        except harness.Timeout:
            return False

    def test_an_idle_worker_leaves_on_term(self):
        worker = self.start_worker()
        worker.signal(signal.SIGTERM)
        self.assertEqual(worker.wait(), 0, worker.stderr())
        left = self.room.stats_when(lambda stats: stats["workers"]["connected"] == 0, "the leaving")
        self.assertEqual(left["workers"]["lost"], 0)

    def test_an_operator_drains_the_worker(self):
        self.start_worker()
        operator, client = self.room.operator(), self.room.client()
        row, = operator.ask("admin", {"do": "workers"}, expect="admin").fields["workers"]
        operator.ask("admin", {"do": "drain", "name": row["session"]}, expect="admin")
        client.submit(body=b"later")
        self.assertTrue(client.silent(0.3))
        operator.ask("admin", {"do": "resume", "what": "worker", "name": row["session"]}, expect="admin")
        self.assertEqual(client.get("result").body, b"later")

    def test_the_worker_outlives_the_broker(self):
        """Killed while a stream waits for its reader: the job goes on at its worker, and the reader lacks nothing."""
        self.use_disk()
        self.start_worker()
        words = [f"word{number}" for number in range(3 * WINDOW)]
        reader = self.pause_stream(words)
        self.restart_broker()
        self.room.stats_when(lambda stats: stats["counters"]["jobs_adopted"] == 1, "the job that goes on")
        reader.close()
        reader = self.room.client()
        reader.send("fetch", {"id": "paused", "from_seq": 0, "wait_ms": 60000})
        for number in range(len(words)):
            chunk = reader.get("chunk")
            self.assertEqual((chunk.fields["seq"], chunk.body.decode()), (number, words[number]))
            reader.send("seen", {"id": "paused", "seq": number})
        self.assertEqual(reader.get("result").fields["chunks"], len(words))
        reader.submit(body=b"after the restart")
        self.assertEqual(reader.get("result").body, b"after the restart")

    def test_the_worker_leaves_a_silent_broker(self):
        """A broker that stands still for more than three heartbeats finds the worker at another connection, with its job."""
        self.start_worker()
        words = [f"word{number}" for number in range(2 * WINDOW)]
        reader = self.pause_stream(words)
        connections = self.connections_of(self.room.broker)
        self.room.broker.signal(signal.SIGSTOP)
        try:
            harness.wait_until(lambda: self.connections_of(self.room.broker) - connections, "a new connection")
        finally:
            self.room.broker.signal(signal.SIGCONT)
        self.read_on(reader, words)
        self.assertEqual(self.room.stats()["lanes"]["normal"]["requeued"], 0)

    def connections_of(self, broker):
        """The far ports of all connections to the workers' endpoint, as the system knows them."""
        port = f"{int(broker.workers.rsplit(':', 1)[1]):04X}"
        with open("/proc/net/tcp") as file:
            rows = [line.split() for line in file.readlines()[1:]]
        return {row[2] for row in rows if row[1].endswith(f":{port}") and row[3] == "01"}

    # ---- both ends

    def test_both_ends_with_keys(self):
        if self.says["keys"] != "yes":
            self.skipTest(f"{self.name}: {self.says['keys']}")
        keys = test_peer_keys.Keys()
        self.addCleanup(keys.room.cleanup)
        keys.add("client", "client")
        keys.add("worker", "worker")
        self.room.broker.kill()
        self.room.start_broker(*harness.QUICK, *keys.arguments())
        asker = dict(kind=zmq.REQ, options=keys.options("client"))

        def of(name):
            public, secret = keys.pairs[name]
            return {"LANEMQ_BROKER_KEY": keys.broker.decode(), "LANEMQ_PUBLIC_KEY": public.decode(),
                    "LANEMQ_SECRET_KEY": secret.decode()}

        self.start_worker(of("worker"))
        self.assertEqual(self.room.client(**asker).ask("submit", {"service": "echo"}, b"encrypted").body, b"encrypted")
        self.assert_ends(self.request("echo", "hello", of("client")), "hello\n")
        self.assert_ends(self.stream("words", "one two three", of("client")), "one\ntwo\nthree\n")

    def test_they_give_up_when_nobody_answers(self):
        """Since the beginning of the class: it takes them 20 s."""
        for client, before in zip(self.unheard, ({"no answer yet"}, set())):
            code, lines = client.wait(2 * harness.PATIENCE), client.stderr().splitlines()
            self.assertEqual((code, set(lines[:-1]), lines[-1]), (3, before, "no answer"))


class Readme(unittest.TestCase):
    def test_ci_has_enough_languages(self):
        here = [name for name, says in languages().items() if set(says["packages"].split()) <= packages_of_ci()]
        self.assertGreaterEqual(len(here), IN_CI_AT_LEAST, here)

    def test_each_folder_of_a_language_is_in_the_tables(self):
        for end in ("client", "worker"):
            place = os.path.join(ROOT, end, "examples")
            folders = sorted(name for name in os.listdir(place) if os.path.isdir(os.path.join(place, name)) and name not in NO_LANGUAGES)
            commands = [says["worker" if end == "worker" else "a request"] for says in languages().values()]
            lacking = [folder for folder in folders if not any(f"{folder}/" in command for command in commands)]
            self.assertEqual((lacking, len(folders)), ([], len(commands)))


for name, says in languages().items():
    title = name.replace("+", "p")  # a name in Python, too
    globals()[title] = type(title, (Language,), {"name": name, "says": says})
del Language

if __name__ == "__main__":
    unittest.main()
