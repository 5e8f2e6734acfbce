# SPDX-License-Identifier: Apache-2.0
"""A tenant that moves from one shard to another (docs/concepts/shards.md): what its jobs, results and groups are there, that each
job runs at one place alone whatever ends the command, and what is refused."""

import os
import re
import shlex
import signal
import subprocess
import tempfile
import unittest

import zmq

import harness
from postgres import Postgres
from test_cluster import skip_without_postgres
from test_peer_keys import Keys

LARGE = b"L" * 700_000
CONFIG = """
heartbeat = "1s"
[[lane]]
name = "high"
[[lane]]
name = "normal"
default = true
[clients."acme-*"]
tenant = "acme"
[clients.exact]
tenant = "acme"
"""
# Where a move may be cut off, and which of the two stores a broker may serve then.
STEPS = {"move.begun": (True, False), "move.rows_in": (True, False), "move.decided": (False, False),
         "move.arrived": (False, True), "move.left": (True, True)}


class Shard:
    """A store, and the broker that serves it now and then."""

    def __init__(self, case, name, store, schema="lanemq"):
        self.case, self.name, self.store, self.schema = case, name, store, schema
        self.broker = None

    def words(self):
        return ("--store", self.store, *(("--store-schema", self.schema, "--set", "store_replication=none",
                                          "--set", "store_lease=3s") if self.store.startswith("postgres:") else ()))

    def start(self):
        self.broker = self.case.room.start(harness.Broker(*self.case.settings, *self.words()))
        return self

    def stop(self):
        self.case.assertEqual(self.broker.stop(), 0, self.broker.stderr())
        for peer in [peer for peer in self.case.room.peers if peer.endpoint in (self.broker.clients, self.broker.workers)]:
            peer.close()

    def client(self, who=None):
        return self.peer(harness.Client, self.broker.clients, zmq.DEALER, self.broker.clients, self.case.options(who))

    def worker(self, capacity=1, services=("echo",)):
        worker = self.peer(harness.Worker, self.broker.workers, self.broker.workers, services, capacity,
                           options=self.case.options("work"))
        worker.get("welcome")
        return worker

    def leaves(self, worker):
        """The worker says bye, and the broker has heard it."""
        worker.answered()
        worker.heartbeats = False
        worker.send("bye")
        operator = self.peer(harness.Client, self.broker.admin, zmq.DEALER, self.broker.admin)
        harness.wait_until(lambda: operator.ask("stats").fields["workers"]["connected"] == 0, "the leaving")
        worker.close()
        operator.close()

    def peer(self, kind, endpoint, *arguments, **how):
        peer = kind(self.case.room, *arguments, **how)
        peer.endpoint = endpoint
        return peer

    def refuses(self):
        """Why no broker serves it; empty: one does, and was ended."""
        try:
            self.start()
        except harness.NotReady as not_ready:
            self.case.assertEqual(not_ready.exit_code, 4, not_ready)
            return str(not_ready)
        self.stop()
        return ""

    def is_whole(self):
        done = subprocess.run([harness.program("lanemq-broker"), "--check-store", *self.words()], capture_output=True,
                              text=True, timeout=harness.PATIENCE)
        self.case.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return {kind: int(count) for kind, count in re.findall(r"^(\w+) +(\d+) +[\d.]+ \w+$", done.stdout, re.M)}


class MoveCase(harness.Case):
    arguments = None
    keys = None

    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="lanemq-move-"))
        self.config = os.path.join(self.folder, "broker.toml")
        with open(self.config, "w") as file:
            file.write(CONFIG)
        self.settings = ("--config", self.config, *(self.keys.arguments() if self.keys else ()))

    def options(self, who):
        return self.keys.options(who) if self.keys else ()

    def sqlite(self, name):
        return Shard(self, name, f"sqlite:{self.folder}/{name}.db")

    def order(self, source, target, what="tenant=acme", binary="lanemq-broker", **environment):
        to_schema = ("--to-schema", target.schema) if target.store.startswith("postgres:") else ()
        return subprocess.run([harness.program(binary), "--config", self.config, *source.words(), "--move", what,
                               "--to", target.store, *to_schema], capture_output=True, text=True,
                              timeout=6 * harness.PATIENCE, env={**os.environ, **environment})

    def move(self, source, target, what="tenant=acme"):
        done = self.order(source, target, what)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def refused(self, *arguments, parts):
        done = self.order(*arguments)
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)

    def submit(self, peer, /, *ids, body=b"", **fields):
        for name in ids:
            peer.submit(id=name, body=body or name.encode(), reply="accepted", **fields)
        for _ in ids:
            self.assertTrue(peer.get("accepted").fields["durable"])

    def run_all(self, shard, count, services=("echo",)):
        """Answers that many jobs, one after the other, and returns their ids."""
        worker, order = shard.worker(services=services), []
        for _ in range(count):
            job = worker.get("job")
            order.append(job.fields["id"])
            worker.echo(job)
        self.assertTrue(worker.silent(0.2), "there is a job more")
        shard.leaves(worker)
        return order


class Tenants(MoveCase):
    """With keys, between stores of every kind."""

    @classmethod
    def setUpClass(cls):
        skip_without_postgres()
        cls.database = Postgres()
        cls.addClassCleanup(cls.database.close)
        cls.keys = Keys()
        cls.addClassCleanup(cls.keys.room.cleanup)
        cls.keys.add("alice", "client", tenant='"acme"')
        cls.keys.add("bob", "client", tenant='"other"')
        cls.keys.add("work", "worker")

    def postgres(self, name):
        return Shard(self, name, f"postgres:{self.database.conninfo()}", f"{self._testMethodName[-30:]} {name}")

    def test_between_files(self):
        self.goes_over(self.sqlite("a"), self.sqlite("b"))

    def test_from_a_file_to_a_database(self):
        self.goes_over(self.sqlite("a"), self.postgres("b"))

    def test_from_a_database_to_a_file(self):
        self.goes_over(self.postgres("a"), self.sqlite("b"))

    def test_between_schemas_of_a_database(self):
        self.goes_over(self.postgres("a"), self.postgres("b"))

    def test_killed_between_schemas_of_a_database(self):
        """Whoever comes next waits out the lease of who was killed."""
        for point, served in STEPS.items():
            with self.subTest(point):
                source, target = self.postgres(f"a {point}"), self.postgres(f"b {point}")
                source.start()
                self.submit(source.client("alice"), "a1", "a2")
                self.submit(source.client("bob"), "b1")
                source.stop()
                target.start().stop()

                done = self.order(source, target, binary="lanemq-broker-failing", LANEMQ_TEST_FAILPOINT=f"{point}:1")

                self.assertEqual(done.returncode, -signal.SIGKILL, done.stdout + done.stderr)
                self.assertEqual((not source.refuses(), not target.refuses()), served)
                self.move(source, target)
                self.assertEqual((source.is_whole()["jobs"], target.is_whole()["jobs"]), (1, 2))
                target.start()
                self.assertEqual(self.run_all(target, 2), ["@acme/a1", "@acme/a2"])
                target.stop()

    def goes_over(self, source, target):
        self.fill(source)
        target.start()
        self.submit(target.client("bob"), "first", "b1", lane="normal")
        target.stop()

        said = self.move(source, target)

        self.assertIn("moved 26 jobs, 1 dead jobs, 3 results and 1 groups", said)
        self.assertEqual(self.move(source, target).split(";")[0],
                         'moved 0 jobs, 0 dead jobs, 0 results and 0 groups of tenant "acme"')
        source.is_whole(), target.is_whole()
        self.has_gone_from(source)
        self.is_at(target)
        source.is_whole(), target.is_whole()

    def fill(self, source):
        source.start()
        alice, bob = source.client("alice"), source.client("bob")
        # Answered and dead: what their ends are is kept.
        worker = source.worker()
        self.submit(alice, "answered", body=b"an answer")
        worker.echo(worker.get("job"))
        self.submit(alice, "large answer", body=LARGE)
        worker.echo(worker.get("job"))
        self.submit(alice, "dead", body=b"to the end", attempts_max=1)
        worker.hand_in(worker.get("job"), "error", **{"class": "retry", "code": "broken", "message": "it is"})
        self.submit(alice, "member", group="g", group_size=2)
        worker.echo(worker.get("job"))
        source.leaves(worker)
        # Two lanes, two tenants by turns, and one body that stays in the store.
        for number in range(12):
            self.submit(alice, f"n{number:02}", lane="normal")
            self.submit(bob, f"b{number:02}", lane="normal")
            self.submit(alice, f"h{number:02}", lane="high", **({"body": LARGE} if number == 5 else {}))
        self.submit(alice, "delayed", delay_ms=3000)
        self.submit(alice, "grouped", group="g", group_size=2)
        source.stop()

    def has_gone_from(self, source):
        source.start()
        self.assertEqual(source.client("alice").status("n00")["state"], "unknown")
        self.assert_error(source.client("alice").ask("fetch", {"id": "answered"}), "not_found")
        self.assertEqual(self.run_all(source, 12), [f"@other/b{number:02}" for number in range(12)])
        source.stop()

    def is_at(self, target):
        target.start()
        alice = target.client("alice")
        self.assertEqual(alice.status("n00")["state"], "queued")
        self.assertEqual(alice.ask("fetch", {"id": "answered"}, expect="result").body, b"an answer")
        self.assertEqual(alice.ask("fetch", {"id": "large answer"}, expect="result").body, LARGE)
        self.assert_error(alice.ask("fetch", {"id": "dead"}), "upstream_failed")
        # The same submit joins its job, and another one under its id does not.
        alice.submit(id="n00", body=b"n00", reply="accepted", lane="normal")
        self.assertTrue(alice.get("accepted").fields["duplicate"])
        alice.submit(id="n00", body=b"other", reply="accepted", lane="normal")
        self.assert_error(alice.get(), "conflict")
        alice.submit(id="answered", body=b"an answer")
        self.assertEqual(alice.get("result").body, b"an answer")
        order = self.run_all(target, 28)
        mine = [name.removeprefix("@acme/") for name in order if name.startswith("@acme/")]
        for lane in "hn":
            self.assertEqual([name for name in mine if re.fullmatch(lane + r"\d\d", name)],
                             [f"{lane}{number:02}" for number in range(12)])
        self.assertEqual(sorted(name for name in order if name.startswith("@other/")), ["@other/b1", "@other/first"])
        self.assertEqual(alice.ask("fetch", {"id": "h05", "wait_ms": 10_000}, expect="result").body, LARGE)
        self.assertEqual(alice.ask("fetch", {"id": "n11", "wait_ms": 10_000}, expect="result").body, b"n11")
        self.assertEqual(alice.ask("fetch", {"id": "grouped", "wait_ms": 10_000}, expect="result").body, b"grouped")
        target.stop()


class Killed(MoveCase):
    """Without keys: clients are a tenant's by their entries. The command is killed, as kill -9 does, at each of its steps, and
    at each commit to either store."""

    JOBS = 12

    def setUp(self):
        super().setUp()
        source, target = self.sqlite("full"), self.sqlite("there")
        source.start()
        client, worker = source.client(), source.worker()
        self.submit(client, "answered", client="exact")
        worker.echo(worker.get("job"))
        source.leaves(worker)
        for number in range(self.JOBS):
            self.submit(client, f"a{number:02}", client="acme-1" if number % 2 else "exact")
            self.submit(client, f"o{number:02}", client="other")
        source.stop()
        target.start()
        self.submit(target.client(), "t00")
        target.stop()
        self.count = 0

    def pair(self):
        """The two stores as they were before."""
        self.count += 1
        for name in ("full", "there"):
            with open(f"{self.folder}/{name}.db", "rb") as old, open(f"{self.folder}/{name}{self.count}.db", "wb") as new:
                new.write(old.read())
        return self.sqlite(f"full{self.count}"), self.sqlite(f"there{self.count}")

    def killed_at(self, source, target, point):
        done = self.order(source, target, binary="lanemq-broker-failing", LANEMQ_TEST_FAILPOINT=point)
        if done.returncode == 0:
            return False
        self.assertEqual(done.returncode, -signal.SIGKILL, done.stdout + done.stderr)
        return True

    def knows(self, shard):
        """Whether a broker serves the store, and knows the tenant's jobs; and if none does, the command that it says."""
        try:
            shard.start()
        except harness.NotReady as not_ready:
            self.assertEqual(not_ready.exit_code, 4, not_ready)
            return None, re.search(r"goes on with it: (lanemq-broker .*)$", str(not_ready), re.M).group(1)
        client = shard.client()
        states = {client.status(name)["state"] for name in ("a00", "a01", "answered")}
        shard.stop()
        self.assertIn(states, ({"unknown"}, {"queued", "succeeded"}))
        return states != {"unknown"}, None

    def goes_on(self, source, target, expected=None):
        """Looks at what was left, says it again, and runs all jobs."""
        (here, says), (there, says_too) = self.knows(source), self.knows(target)
        self.assertNotEqual((here, there), (True, True), "the jobs are in both")
        self.assertNotEqual((here, there), (False, False), "the jobs are in none")
        if expected:
            self.assertEqual((here is not None, there is not None), expected)
        self.assertIn(says_too, (says or says_too, None))
        command = says or says_too
        if command:
            words = shlex.split(command)
            done = subprocess.run([harness.program(words[0]), *words[1:]], capture_output=True, text=True,
                                  timeout=harness.PATIENCE, cwd="/")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(f"moved {self.JOBS} jobs, 0 dead jobs, 1 results", done.stdout)
        elif here:
            self.move(source, target)
        self.is_over(source, target)

    def is_over(self, source, target):
        self.assertEqual(source.is_whole()["jobs"], self.JOBS)
        self.assertEqual(target.is_whole()["jobs"], self.JOBS + 1)
        source.start()
        self.assertEqual(self.run_all(source, self.JOBS), [f"o{number:02}" for number in range(self.JOBS)])
        self.assertEqual(source.client().status("answered")["state"], "unknown")
        source.stop()
        target.start()
        order = self.run_all(target, self.JOBS + 1)
        for part in (0, 1):  # of one client each
            self.assertEqual([name for name in order if name[0] == "a" and int(name[1:]) % 2 == part],
                             [f"a{number:02}" for number in range(part, self.JOBS, 2)])
        answer = target.client().ask("fetch", {"id": "answered"}, expect="result")
        self.assertEqual(answer.body, b"answered")
        target.stop()

    def test_between_its_steps(self):
        for point, served in STEPS.items():
            with self.subTest(point):
                source, target = self.pair()
                self.assertTrue(self.killed_at(source, target, f"{point}:1"))
                self.goes_on(source, target, served)

    def test_at_each_commit(self):
        for point in ("store.before_write", "store.mid_batch", "store.after_commit"):
            kills = 0
            for passing in range(1, 60):
                with self.subTest(point, passing=passing):
                    source, target = self.pair()
                    if not self.killed_at(source, target, f"{point}:{passing}"):
                        break
                    kills += 1
                    # Every third is said again at once, as a script would.
                    if passing % 3 == 0:
                        self.move(source, target)
                        self.is_over(source, target)
                    else:
                        self.goes_on(source, target)
                if point == "store.mid_batch" and passing >= 24:
                    break
            self.assertGreater(kills, 5, point)

    def test_again_and_again(self):
        """No step of one that goes on may be killed to harm either."""
        for passing in range(1, 8):
            with self.subTest(passing=passing):
                source, target = self.pair()
                for _ in range(30):
                    if not self.killed_at(source, target, f"store.after_commit:{passing}"):
                        break
                    passing += 1
                self.is_over(source, target)


class Refusals(MoveCase):
    def shards(self):
        source, target = self.sqlite("a"), self.sqlite("b")
        for shard in (source, target):
            shard.start().stop()
        return source, target

    def test_running_jobs_are_waited_for(self):
        source, target = self.shards()
        source.start()
        self.submit(source.client(), "a", "b", client="exact")
        worker = source.worker()
        worker.get("job")
        source.broker.kill()

        self.refused(source, target, parts=['1 jobs of tenant "acme" run', "lanemq pause client", "Nothing was moved"])
        self.assertEqual((source.is_whole()["jobs"], target.is_whole()["jobs"]), (2, 0))
        other = self.order(source, target, "tenant=other")
        self.assertEqual(other.returncode, 2, other.stderr)
        self.assertIn('has nothing of tenant "other"', other.stderr)

    def test_a_service(self):
        source, target = self.shards()
        source.start()
        client = source.client()
        self.submit(client, "c1", "c2", service="chat-1")
        self.submit(client, "e1", service="embed")
        source.stop()

        self.assertIn('moved 2 jobs, 0 dead jobs, 0 results and 0 groups of service "chat*"',
                      self.move(source, target, "service=chat*"))

        target.start()
        self.assertEqual(self.run_all(target, 2, ("chat-1", "embed")), ["c1", "c2"])
        target.stop()

    def test_what_is_there_already(self):
        source, target = self.shards()
        for shard in (source, target):
            shard.start()
            self.submit(shard.client(), "same", client="exact")
            shard.stop()

        self.refused(source, target, parts=['id "same"', "Nothing was moved"])
        self.assertEqual((source.refuses(), target.refuses()), ("", ""))

    def test_a_store_that_a_broker_serves(self):
        source, target = self.shards()
        for one in (source, target):
            one.start()
            self.refused(source, target, parts=["store"])
            one.stop()

    def test_a_database_that_is_not_reached_is_not_taken_for_one_that_has_an_owner(self):
        skip_without_postgres()
        source, _ = self.shards()
        self.refused(source, Shard(self, "b", "postgres:host=/nowhere"), parts=["/nowhere", "look at that database"])

    def test_a_store_of_another_shard_than_the_rules_name(self):
        stores = {name: self.sqlite(name) for name in ("acme", "rest")}
        endpoints = {name: harness.fixed_endpoints() for name in stores}

        def write(match):
            with open(self.config, "w") as file:
                file.write(CONFIG + "".join(
                    f'[[shard]]\nname = "{name}"\n{match if name == "acme" else ""}\n'
                    f'clients = ["{endpoints[name]["clients"]}"]\nworkers = ["{endpoints[name]["workers"]}"]\n'
                    for name in stores))

        def move(shard):
            return subprocess.run([harness.program("lanemq-broker"), "--config", self.config, "--shard", shard, "--store",
                                   stores["rest"].store, "--move", "tenant=acme", "--to", stores["acme"].store],
                                  capture_output=True, text=True, timeout=harness.PATIENCE)

        write('match = { tenant = "umbrella" }')
        for name, store in stores.items():
            store.broker = self.room.start(harness.Broker("--config", self.config, "--shard", name, "--store", store.store,
                                                          **endpoints[name]))
        self.submit(stores["rest"].client(), "a", client="exact")
        for store in stores.values():
            store.stop()

        early = move("rest")
        self.assertEqual(early.returncode, 4, early.stderr)
        for part in ('tenant "acme" belong to shard "rest"', 'those of shard "acme"', "write the new rules"):
            self.assertIn(part, early.stderr)
        write('match = { tenant = "acme" }')
        self.assertIn('has the jobs of shard "rest", and --shard says "acme"',
                      move("acme").stderr)
        done = move("rest")
        self.assertEqual((done.returncode, done.stdout.split(",")[0]), (0, "moved 1 jobs"), done.stderr)
        again = move("rest")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("it has gone before: the store to move to has 1 of its jobs and results", again.stdout)

    def test_mistakes(self):
        source, target = self.shards()
        nowhere = self.sqlite("nowhere")
        for arguments, parts in (
                (("--move", "tenant=a"), ["--to"]),
                (("--to", target.store), ["without --move"]),
                (("--move", "acme", "--to", target.store), ["tenant=NAME", "service=NAME"]),
                (("--move", "tenant=", "--to", target.store), ["tenant=NAME"]),
                (("--move", "tenant=a", "--to", source.store), ["the store that they are in"]),
                (("--move", "tenant=a", "--to", nowhere.store), ["there is no store", "move to", "start the broker that is to"]),
                (("--move", "tenant=a", "--to", "junk.db"), ["--to", "as in --to sqlite:junk.db"]),
                (("--move", "tenant=acmee", "--to", target.store), ['has nothing of tenant "acmee"', "look at the name"]),
                (("--move", "tenant=a", "--to", "memory"), ["memory"])):
            done = subprocess.run([harness.program("lanemq-broker"), *source.words(), *arguments], capture_output=True,
                                  text=True, timeout=harness.PATIENCE)
            self.assertEqual(done.returncode, 2, (arguments, done.stderr))
            for part in parts:
                self.assertIn(part, done.stderr)
        self.assertFalse(os.path.exists(f"{self.folder}/nowhere.db"))


if __name__ == "__main__":
    unittest.main()
