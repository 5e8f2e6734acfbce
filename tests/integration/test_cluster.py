# SPDX-License-Identifier: Apache-2.0
"""Several brokers that wait for one store in PostgreSQL: what docs/reference/cluster.md says happens when the owner, its connection
or the database ends. Under load by the clients, workers and counters of kill_broker.py."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import harness
import kill_broker
from postgres import Postgres
from proxy import Proxy, TransactionPooler

LARGE = 5 << 20
# This program starts others and asks the database while its workers are silent.
HEARTBEAT_MS = 4 * kill_broker.HEARTBEAT_MS


def skip_without_postgres():
    asked = subprocess.run([harness.program("lanemq-broker"), "--check", "--store", "postgres:host=/nowhere"],
                           capture_output=True, text=True, timeout=harness.PATIENCE)
    if "built without PostgreSQL" in asked.stderr:
        raise unittest.SkipTest("this build has no PostgreSQL (LANEMQ_POSTGRES=OFF)")


def setUpModule():
    global DATABASE
    skip_without_postgres()
    DATABASE = Postgres()
    unittest.addModuleCleanup(DATABASE.close)


class Member(harness.Process):
    """A broker that is ready when it owns the store. It has a state folder of its own, as on a machine of its own."""

    def __init__(self, instance, arguments, endpoints, binary="lanemq-broker", **environment):
        self.clients, self.workers, self.admin = endpoints["clients"], endpoints["workers"], endpoints["admin"]
        self.instance, self.said = instance, ""
        self.state = tempfile.TemporaryDirectory(prefix="lanemq-member-")
        super().__init__(harness.program(binary), *arguments, "--instance", instance,
                         *(word for name, endpoint in endpoints.items() for word in ("--" + name, endpoint)),
                         env={**os.environ, "XDG_STATE_HOME": self.state.name, **environment})
        os.set_blocking(self.process.stdout.fileno(), False)

    def is_ready(self):
        try:
            self.said += os.read(self.process.stdout.fileno(), 4096).decode()
        except BlockingIOError:
            pass
        if self.process.poll() is not None and not self.said:
            raise AssertionError(f"{self.instance} ended with {self.process.returncode} before it was ready\n{self.stderr()}")
        return self.said.startswith("ready ")

    def waits(self):
        return "store.waits" in self.stderr()

    def has_ended(self):
        return self.process.poll() is not None

    def close(self):
        super().close()
        self.state.cleanup()


class Book(kill_broker.Book):
    """Finds as well who runs again what was answered."""

    # A hand-over may be read after the answer that another one's outcome made, if that was at about the same time.
    AT_THE_SAME_TIME = 2.0

    def __init__(self, seed):
        super().__init__(seed)
        self.answered_at = {}

    def take_answer(self, job, op, code, body):
        first = super().take_answer(job, op, code, body)
        if first and job.durable:
            self.answered_at[job.id] = time.monotonic()
        return first

    def take_lease(self, message):
        super().take_lease(message)
        at = self.answered_at.get(message.fields.get("id"))
        if at is not None and time.monotonic() - at > self.AT_THE_SAME_TIME:
            self.fault("duplicated", f"{message.fields['id']} runs again after it was answered")


class ClusterCase(harness.Case):
    arguments = None  # no broker but those that a test starts
    heartbeat_ms = HEARTBEAT_MS
    lease_s = 3.0  # how long a takeover may last is not judged here: the campaign does
    schemas = 0

    def setUp(self):
        super().setUp()
        ClusterCase.schemas += 1
        self.schema = f"lanemq {self.schemas}"
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="lanemq-cluster-"))
        self.config = os.path.join(folder, "broker.toml")
        with open(self.config, "w") as file:
            file.write(kill_broker.CONFIG.format(heartbeat_ms=self.heartbeat_ms))
        self.endpoints = harness.fixed_endpoints()

    def member(self, instance, conninfo=None, endpoints=None, arguments=(), config=None, replication="none", **how):
        arguments = ("--config", config or self.config, "--store", f"postgres:{conninfo or DATABASE.conninfo()}",
                     "--set", f"store_schema={self.schema}", "--set", f"store_lease={self.lease_s:.0f}s",
                     "--set", f"store_replication={replication}", *arguments)
        return self.room.start(Member(instance, arguments, endpoints or self.endpoints, **how))

    def owner(self, instance="a", **how):
        member = self.member(instance, **how)
        self.serves(member)
        return member

    def candidate(self, instance, **how):
        member = self.member(instance, **how)
        self.room.pump(member.waits, f"that {instance} waits")
        return member

    def serves(self, member, patience=harness.PATIENCE):
        """Waits until this member serves; how long it took."""
        began = time.monotonic()
        self.room.pump(member.is_ready, f"that {member.instance} serves", patience)
        self.room.broker = member
        return time.monotonic() - began

    def ends(self, member, patience=harness.PATIENCE):
        self.room.pump(member.has_ended, f"the end of {member.instance}", patience)
        return member.process.returncode

    def row(self):
        """The owner's: epoch, ticket, instance."""
        epoch, ticket, instance = DATABASE.value(f'SELECT epoch, ticket, instance FROM "{self.schema}".owner').split("|")
        return int(epoch), int(ticket), instance

    # ---- load, and what came of it ----

    def load(self):
        self.book = Book(1)
        self.submitters = [kill_broker.Submitter(self.room, self.book, number, batch=64 if number % 2 else 0)
                           for number in range(kill_broker.CLIENTS)]
        self.echoes = [kill_broker.Echo(self.room, self.book, batch=64 if number % 2 else 0)
                       for number in range(kill_broker.WORKERS)]
        for submitter in self.submitters:
            submitter.going = True

    def goes_on(self, patience=harness.PATIENCE):
        """Waits until jobs are answered that were submitted from now on."""
        newest = [(submitter.number, submitter.made) for submitter in self.submitters]

        def answered():
            return all((job := self.book.jobs.get(f"{number}-{made + 1}")) and job.answer for number, made in newest)
        self.room.pump(answered, "the answers of new jobs", patience)

    def finish(self):
        """Everything is answered as it must be, once, and is kept so."""
        book, room = self.book, self.room
        for submitter in self.submitters:
            submitter.going = False
        room.pump(lambda: book.open == 0, "the answer of every job", max(30, harness.PATIENCE))
        kill_broker.check_balance(book, room)
        kept = kill_broker.fetch_all(book, room, self.submitters)
        print(f"{self.id().split('.', 1)[1]}: {book.line()}", flush=True)

        self.assertEqual(book.faults, [])
        self.assertGreater(kept, 500, "too few jobs to show anything")


class Failover(ClusterCase):
    def test_a_candidate_leaves_the_living_alone_and_follows_who_is_killed_or_ends(self):
        first = self.owner("a")
        second = self.candidate("b")
        self.load()
        self.goes_on()
        for submitter in self.submitters:
            submitter.going = False
        self.room.pump(lambda: self.book.open == 0, "the answer of every job")
        self.room.keep_alive(self.lease_s + 1.0)  # what is idle is alive as well
        self.assertEqual((self.row()[0], self.row()[2], second.said), (1, "a", ""))
        self.assertIn('"a\\" owns the store (epoch 1)', second.stderr())

        for submitter in self.submitters:
            submitter.going = True
        self.goes_on()
        first.kill()
        self.book.ended("kills")
        after_kill = self.serves(second)
        self.goes_on()

        # It would wait for a lease of minutes, and the one before has ended: it does not wait.
        third = self.candidate("c", arguments=("--set", "store_lease=300s"))
        second.signal(signal.SIGTERM)
        after_end = self.serves(third)
        self.assertEqual(self.ends(second), 0, second.stderr())
        self.book.ended("stops")
        self.goes_on()

        # One that is killed when it has committed and told nobody.
        self.assertEqual(self.row()[::2], (3, "c"))
        third.kill()
        self.book.ended("kills")
        failing = self.member("c", binary="lanemq-broker-failing", LANEMQ_TEST_FAILPOINT="store.after_commit:100")
        self.serves(failing)
        last = self.candidate("a")
        self.assertEqual(self.ends(failing), -signal.SIGKILL)
        self.book.ended("kills")
        self.serves(last)
        self.finish()
        self.assertEqual(self.row()[::2], (5, "a"))
        self.assertEqual(last.process.poll(), None)
        self.assertEqual((last.signal(signal.SIGTERM), self.ends(last)), (None, 0))
        self.assertEqual(self.row()[2], "")
        print(f"served {after_kill:.1f} s after a kill, {after_end:.1f} s after SIGTERM", flush=True)

    def test_an_owner_that_stood_still_commits_nothing_when_it_wakes(self):
        # A stopped process keeps its ports, so the other one has the same ports of another address.
        elsewhere = {name: endpoint.replace("127.0.0.1", "127.0.0.2") for name, endpoint in self.endpoints.items()}
        first = self.owner("a")
        second = self.candidate("b", endpoints=elsewhere)
        self.load()
        self.goes_on()
        first.signal(signal.SIGSTOP)
        self.addCleanup(first.signal, signal.SIGCONT)
        self.book.ended("kills")
        self.serves(second)
        for peer in (*self.submitters, *self.echoes):  # as a load balancer does: the address leads to the owner
            kind = "workers" if peer in self.echoes else "clients"
            peer.socket.disconnect(self.endpoints[kind])
            peer.socket.connect(elsewhere[kind])
        self.goes_on()

        before = self.row()
        first.signal(signal.SIGCONT)
        self.assertEqual(self.ends(first, 2.0), 75, first.stderr())
        self.goes_on()

        self.assertIn("store.deposed", first.stderr())
        self.assertIn('"b\\" has taken the store', first.stderr().replace('\\\\"', '\\"'))
        after = self.row()
        self.assertEqual((before[0], before[2], after[0], after[2]), (2, "b", 2, "b"))
        self.assertGreater(after[1], before[1])
        self.finish()
        self.assertNotIn("store.failed", second.stderr())

    def test_an_owner_that_is_gone_in_the_middle_of_a_transaction_holds_nobody_up(self):
        first, second = self.owner("a"), self.candidate("b")
        # What a machine that dies leaves behind: a session that has the row, and waits for its client.
        held = DATABASE.hold(f'UPDATE "{self.schema}".owner SET ticket = ticket')
        self.addCleanup(held.end)
        first.kill()

        self.serves(second)

        self.assertIn("its owner says nothing: it was ended", second.stderr())
        self.assertEqual(self.row()[::2], (2, "b"))

    def test_large_bodies_and_answers_survive_a_kill(self):
        first = self.owner("a")
        client = self.room.client(options=kill_broker.RECONNECT)
        worker = self.room.worker(options=kill_broker.RECONNECT)
        kept, waiting = os.urandom(LARGE), os.urandom(LARGE)
        client.submit(id="kept", body=kept)
        worker.echo(worker.get("job"))
        self.assertEqual(client.get("result").body, kept)
        worker.answered()
        client.submit(id="waiting", service="later", body=waiting, reply="accepted")
        self.assertTrue(client.get("accepted").fields["durable"])

        first.kill()
        worker.close()
        self.owner("a")

        self.assertEqual(client.ask("fetch", {"id": "kept", "wait_ms": 10_000}, expect="result").body, kept)
        later = self.room.worker(services=("later",), options=kill_broker.RECONNECT)
        job = later.get("job")
        self.assertEqual(job.body, waiting)
        later.echo(job)
        self.assertEqual(client.ask("fetch", {"id": "waiting", "wait_ms": 10_000}, expect="result").body, waiting)


class Trouble(ClusterCase):
    """Of the database, or on the way to it: the owner goes on, and nobody takes its store."""

    lease_s = 8.0  # the owner has to come back within it, however busy the machine is

    def setUp(self):
        super().setUp()
        self.member_a = self.owner("a")

    def test_a_server_that_crashes_and_comes_back_loses_nothing(self):
        waiting = self.candidate("b")
        self.load()
        self.goes_on()
        DATABASE.crash()
        self.room.keep_alive(self.lease_s + 0.5)
        self.room.pump(lambda: "store.stands_still" in self.member_a.stderr(), "that it says so")
        # Not in this thread: it starts as fast as it can while everybody asks.
        starting = threading.Thread(target=DATABASE.start)
        starting.start()
        self.room.pump(lambda: not starting.is_alive(), "the start of the database", 60)
        self.goes_on()
        # Hand-overs that waited for a commit were not taken for lost, and made twice.
        self.assertEqual(self.room.stats()["counters"]["jobs_requeued_missing"], 0)
        self.finish()
        self.assertEqual((self.row()[::2], self.member_a.process.poll(), waiting.said), ((1, "a"), None, ""))

    def test_what_a_candidate_could_not_see_does_not_count(self):
        waiting = self.candidate("b")
        self.member_a.signal(signal.SIGSTOP)
        self.addCleanup(self.member_a.signal, signal.SIGCONT)
        self.room.keep_alive(1.2)  # the candidate sees the last of its commits
        DATABASE.crash()
        self.room.keep_alive(self.lease_s)
        DATABASE.start()
        self.room.keep_alive(1.0)  # it looks twice a second

        before = self.row()
        self.assertEqual(before[::2], (1, "a"))
        self.member_a.signal(signal.SIGCONT)
        harness.wait_until(lambda: self.row()[1] > before[1], "that the owner commits again")
        self.assertEqual((self.row()[::2], waiting.said), ((1, "a"), ""))

    def test_sessions_that_are_ended_again_and_again_lose_and_double_nothing(self):
        self.load()
        self.goes_on()
        ended, began = 0, time.monotonic()
        while time.monotonic() < began + (4 if ended > 20 else harness.PATIENCE):  # longer where the machine is busy
            ended += DATABASE.end_sessions()
            self.room.keep_alive(0.1)
        self.goes_on()
        self.finish()
        self.assertGreater(ended, 20)
        self.assertEqual((self.row()[::2], self.member_a.process.poll()), ((1, "a"), None))

    def test_an_owner_is_refused_for_its_epoch_alone(self):
        DATABASE.psql(f'UPDATE "{self.schema}".owner SET epoch = 2, instance = \'b\'')
        before = self.row()

        self.assertEqual(self.ends(self.member_a), 75)

        self.assertEqual(self.row(), before)

    def test_a_database_that_has_lost_commits_ends_the_owner(self):
        DATABASE.psql(f'UPDATE "{self.schema}".owner SET ticket = ticket - 5 WHERE epoch = 1')

        self.assertEqual(self.ends(self.member_a), 74)

        self.assertIn("database has lost commits", self.member_a.stderr())

    def test_backups_are_the_databases(self):
        done = self.room.run(harness.program("lanemq"), "--admin", self.member_a.admin, "backup", "/tmp/copy")

        self.assertNotEqual(done.returncode, 0)
        self.assertIn("pg_basebackup", done.stderr)


class Doubt(ClusterCase):
    """A commit of which nobody has heard whether it is in."""

    def in_wait(self, kind):
        return int(DATABASE.value("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lanemq-broker' "
                                  f"AND {kind}"))

    def test_a_transaction_that_its_first_session_makes_late_is_not_made_twice(self):
        way = Proxy(f"tcp://127.0.0.1:{DATABASE.port}")
        self.addCleanup(way.close)
        port = way.endpoint.rsplit(":", 1)[1]
        owner = self.owner("a", conninfo=f"host=127.0.0.1 port={port} user=lanemq dbname=postgres")
        client = self.room.client()
        held = DATABASE.hold(f'LOCK TABLE "{self.schema}".job IN SHARE MODE')
        self.addCleanup(held.end)
        client.submit(id="once", body=b"x", reply="accepted")
        locked = "wait_event_type = 'Lock'"
        harness.wait_until(lambda: self.in_wait(locked) == 1, "that the commit waits for the table")
        way.cut()  # the session does not hear of it, and has the whole transaction
        harness.wait_until(lambda: self.in_wait(locked) == 2, "that the same commit is sent again")
        self.assertTrue(client.silent(0.2))
        held.end()

        self.assertTrue(client.get("accepted").fields["durable"])
        self.assertEqual(DATABASE.value(f'SELECT count(*) FROM "{self.schema}".job'), "1")
        worker = self.room.worker()
        worker.echo(worker.get("job"))
        self.assertEqual(client.ask("fetch", {"id": "once", "wait_ms": 10_000}, expect="result").body, b"x")
        worker.answered()
        self.assertEqual((worker.inbox, owner.process.poll()), (type(worker.inbox)(), None))

    def test_what_the_standby_has_not_got_is_told_to_nobody(self):
        self.owner("a")
        client = self.room.client()
        self.addCleanup(DATABASE.set, "synchronous_standby_names", None)
        DATABASE.set("synchronous_standby_names", "nobody")
        behind = "wait_event = 'SyncRep'"
        harness.wait_until(lambda: self.in_wait(behind) == 1, "that the owner waits for the standby")
        client.submit(id="a", body=b"x", reply="accepted")
        for by in ("pg_cancel_backend", "pg_terminate_backend") * 3:
            harness.wait_until(lambda: DATABASE.end_sessions(behind, by), "a commit that waits for the standby")
            self.assertTrue(client.silent(0.1), client.inbox)

        DATABASE.set("synchronous_standby_names", None)

        self.assertTrue(client.get("accepted").fields["durable"])


class Rights(ClusterCase):
    """What somebody takes away at the database, and gives back: who owns the store goes on, and who waits goes on waiting."""

    def setUp(self):
        super().setUp()
        if DATABASE.value("SELECT count(*) FROM pg_roles WHERE rolname = 'member'") == "0":
            DATABASE.psql("CREATE ROLE member LOGIN; GRANT CREATE ON DATABASE postgres TO member")
        self.as_member = DATABASE.conninfo(user="member")

    def says(self, member, words):
        self.room.pump(lambda: words in member.stderr(), f"{member.instance} to say {words!r}")

    def test_an_owner_that_may_not_write_for_a_while_goes_on(self):
        owner, waiting = self.owner("a", conninfo=self.as_member), self.candidate("b", conninfo=self.as_member)
        client, worker = self.room.client(), self.room.worker(capacity=4)
        client.submit(id="runs")
        job = worker.get("job")
        DATABASE.psql(f'REVOKE INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "{self.schema}" FROM member')
        worker.hand_in(job)
        self.says(owner, "store.away")
        self.says(waiting, "its role may not write the table")
        self.assertIn("permission denied for table", owner.stderr())

        DATABASE.psql(f'GRANT ALL ON ALL TABLES IN SCHEMA "{self.schema}" TO member')

        self.assertEqual(client.get("result", patience=harness.PATIENCE).fields["id"], "runs")
        self.says(owner, "store.owned")
        self.assertEqual((self.row()[::2], owner.has_ended(), waiting.has_ended()), ((1, "a"), False, False))

    def test_a_candidate_waits_for_what_is_not_there_and_makes_nothing_in_its_place(self):
        back = f'ALTER TABLE "{self.schema}".{{0}}_away RENAME TO {{0}}'
        for number, (away, again, words) in enumerate((
                (f'ALTER TABLE "{self.schema}".job RENAME TO job_away', back.format("job"), 'finds no table \\"job\\"'),
                (f'ALTER TABLE "{self.schema}".owner RENAME TO owner_away', back.format("owner"), "were there and are gone"),
                (f'ALTER SCHEMA "{self.schema}" RENAME TO "away {self.schema}"',
                 f'ALTER SCHEMA "away {self.schema}" RENAME TO "{self.schema}"', "were there and are gone"))):
            with self.subTest(away):
                owner = self.owner(f"a{number}", conninfo=self.as_member)
                client = self.room.client()
                client.submit(id=f"kept {number}", reply="accepted")
                client.get("accepted")
                waiting = self.candidate(f"b{number}", conninfo=self.as_member)
                DATABASE.psql(away)
                owner.kill()
                self.says(waiting, words)

                DATABASE.psql(again)

                self.serves(waiting)
                state = self.room.client().ask("status", {"id": f"kept {number}"}, expect="status").fields["state"]
                self.assertEqual(state, "queued")
                waiting.signal(signal.SIGTERM)
                self.assertEqual(self.ends(waiting), 0, waiting.stderr())

    def test_a_role_that_may_not_is_waited_for_from_the_start(self):
        DATABASE.psql("CREATE ROLE newcomer LOGIN")
        self.addCleanup(DATABASE.psql, "DROP OWNED BY newcomer; DROP ROLE newcomer")
        waiting = self.candidate("a", conninfo=DATABASE.conninfo(user="newcomer"))
        self.says(waiting, "its role may not make a schema")
        DATABASE.psql("GRANT CREATE ON DATABASE postgres TO newcomer")
        self.serves(waiting)
        waiting.kill()

    def test_a_pooler_in_transaction_mode_is_named_and_owns_nothing(self):
        pooler = TransactionPooler(os.path.join(DATABASE.data, f".s.PGSQL.{DATABASE.port}"))
        self.addCleanup(pooler.close)
        conninfo = f"host=127.0.0.1 port={pooler.port} user=lanemq dbname=postgres"
        for member in (self.candidate("a", conninfo=conninfo), self.candidate("b", conninfo=conninfo)):
            self.says(member, "a pooler in transaction mode")
            self.assertFalse(member.is_ready())
        self.assertEqual(self.row()[::2], (0, ""))
        done = subprocess.run([harness.program("lanemq-broker"), "--check", "--store", f"postgres:{conninfo}"], capture_output=True,
                              text=True, timeout=harness.PATIENCE)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("a pooler in transaction mode", done.stderr)


class Names(ClusterCase):
    def refused(self, *arguments, **environment):
        done = subprocess.run([harness.program("lanemq-broker"), *arguments], capture_output=True, text=True,
                              timeout=harness.PATIENCE, env={**os.environ, **environment})
        return done.returncode, done.stderr

    def test_check_looks_at_the_rights_of_the_role_and_changes_nothing(self):
        DATABASE.psql("CREATE ROLE weak LOGIN")
        for prepare, part in (
                ("", 'may not make a schema in the database "postgres"'),
                ("CREATE SCHEMA weak", 'may not use the schema "weak"'),
                ("GRANT USAGE ON SCHEMA weak TO weak", 'may not make tables in the schema "weak"'),
                ("GRANT CREATE ON SCHEMA weak TO weak", ""),
                ("CREATE TABLE weak.owner (x int); GRANT SELECT, INSERT, DELETE ON weak.owner TO weak",
                 'may not write the table "owner" of the schema "weak"')):
            with self.subTest(prepare=prepare):
                if prepare:
                    DATABASE.psql(prepare)
                code, said = self.refused("--check", "--store", "postgres:" + DATABASE.conninfo(user="weak"), "--set",
                                          "store_schema=weak")
                self.assertEqual(code, 4 if part else 0, said)
                self.assertIn(part, said)
                self.assertEqual(said == "", part == "")
        self.assertEqual(DATABASE.value("SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
                                        "WHERE n.nspname = 'weak'"), "1")

    def test_check_says_where_it_has_reached_no_database(self):
        code, said = self.refused("--check", "--store", "postgres:host=/nowhere")
        self.assertEqual(code, 0, said)
        self.assertIn("was not reached", said)

    def test_check_refuses_a_database_or_a_role_that_is_not_there(self):
        for where, words in (({"database": "nowhere"}, 'database "nowhere" does not exist'), ({"user": "nobody"}, "SQLSTATE 28000")):
            code, said = self.refused("--check", "--store", "postgres:" + DATABASE.conninfo(**where))
            self.assertEqual(code, 4, said)
            self.assertIn(words, said)

    def test_check_makes_nothing_and_refuses_what_a_start_refuses(self):
        store = ("--store", "postgres:" + DATABASE.conninfo())
        self.assertEqual(self.refused("--check", *store, "--set", "store_schema=never made"), (0, ""))
        self.assertEqual(DATABASE.value("SELECT count(*) FROM pg_namespace WHERE nspname = 'never made'"), "0")
        for arguments, part in (
                (("--store", "postgres:hst=a"), 'invalid connection option "hst"'),
                (("--store", "postgres:dbname=x password=geheim"), "it holds a password"),
                (("--store", "postgres:dbname=x sslpassword=geheim"), "it holds a password"),
                (("--store", "postgres:password=sehr geheim dbname=x"), "it is neither words"),
                (("--store", "postgres://x:geheim@127.0.0.1/y"), "it holds a password"),
                (("--store", "postgres://x:geheim@[::1/y"), "it holds a password"),
                (("--store", "postgres://x@[::1/y"), "it is neither words"),
                (("--store", "postgres:postgresql://x:geheim@127.0.0.1/y?no=1"), "it holds a password"),
                (("--store", "postgres:postgresql://x:ge/he/im@127.0.0.1/y"), "it holds a password"),
                (("--store", "postgres:x:geheim@127.0.0.1/y"), "it is neither words"),
                (("--store", "postgres:host=h port=geheim"), "its port is no number"),
                ((*store, "--set", "store_schema=" + "x" * 64), "store_schema has 64 bytes"),
                ((*store, "--set", "store_schema=pg_x"), '"pg_x" is a name that PostgreSQL keeps'),
                ((*store, "--set", "store_schema=$user"), '"$user" is a name that PostgreSQL keeps')):
            for check in (("--check",), ()):
                with self.subTest(arguments=arguments, check=check):
                    code, said = self.refused(*check, *arguments)
                    self.assertEqual(code, 2, said)
                    self.assertIn(part, said)
                    self.assertNotIn("geheim", said)

    def test_a_password_is_not_printed_with_the_configuration(self):
        for store, shown in (("postgres:dbname=x password='sehr geheim' user=y", "postgres:dbname=x password=... user=y"),
                             ("postgres://y:geheim@127.0.0.1/x?sslpassword=geheim", "postgres://y:...@127.0.0.1/x?sslpassword=...")):
            done = subprocess.run([harness.program("lanemq-broker"), "--print-config", "--store", store], capture_output=True,
                                  text=True, timeout=harness.PATIENCE)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f'store = "{shown}"', done.stdout)
            self.assertNotIn("geheim", done.stdout + done.stderr)

    def test_variables_of_libpq_do_not_count(self):
        user = self.member("a", conninfo=DATABASE.conninfo() + " sslmode=disable", PGOPTIONS="-c no.such=1 -x", PGSSLMODE="rubbish",
                           PGSERVICE="nobody")
        self.serves(user)
        elsewhere = self.candidate("b", conninfo="user=lanemq dbname=postgres host=/nowhere", PGHOSTADDR="127.0.0.1",
                                   PGPORT=DATABASE.port)
        self.assertIn("/nowhere/.s.PGSQL.5432", elsewhere.stderr())

    def test_a_password_file_that_others_may_read_is_named_once_and_waited_for(self):
        rules = os.path.join(DATABASE.data, "pg_hba.conf")
        with open(rules) as file:
            before = file.read()
        with open(rules, "w") as file:
            file.write("host postgres asks 127.0.0.1/32 scram-sha-256\n" + before)
        DATABASE.psql("CREATE ROLE asks LOGIN PASSWORD 'geheim'; GRANT CREATE ON DATABASE postgres TO asks")
        DATABASE.set("log_connections", "on")
        self.addCleanup(DATABASE.set, "log_connections", None)
        passfile = os.path.join(os.path.dirname(self.config), "pgpass")
        with open(passfile, "w") as file:
            file.write("*:*:*:asks:geheim\n")
        os.chmod(passfile, 0o644)

        waits = self.candidate("a", conninfo=f"host=127.0.0.1 port={DATABASE.port} user=asks dbname=postgres passfile={passfile}")
        looks = DATABASE.said().count("connection received: host=127.0.0.1")
        self.room.pump(lambda: DATABASE.said().count("connection received: host=127.0.0.1") > looks + 2, "that it looks again")

        self.assertEqual(waits.stderr().count("chmod 600"), 1, waits.stderr())
        self.assertNotIn("WARNING", waits.stderr())
        os.chmod(passfile, 0o600)
        self.serves(waits)

    def test_tables_that_were_changed_are_an_error_and_no_other_job(self):
        self.owner("a")
        client = self.room.client()
        client.submit(id="a", body=b"x", reply="accepted")
        client.get("accepted")
        self.room.broker.signal(signal.SIGTERM)
        self.assertEqual(self.ends(self.room.broker), 0)
        for damage, mended, part in (
                ("UPDATE job SET body = 'y'", "UPDATE job SET body = 'x'", "is not what was written"),
                ("UPDATE owner SET format = 2, readable_by = 2", "UPDATE owner SET format = 1, readable_by = 1",
                 "start that version"),
                ("DELETE FROM owner", "", "`owner` does not have one row; restore the database's backup")):
            with self.subTest(damage=damage):
                DATABASE.psql(f'SET search_path = "{self.schema}"; {damage}')
                member = self.member("a")
                self.assertEqual(self.ends(member), 4)
                self.assertIn(part, member.stderr())
                if mended:
                    DATABASE.psql(f'SET search_path = "{self.schema}"; {mended}')


class Ahead(ClusterCase):
    """A large body goes to the database ahead of its turn: nobody waits for it but those who ask for that job."""

    heartbeat_ms = 4000  # workers say nothing while the test makes bodies and asks the database: lost ones are other tests'
    lease_s = 8.0  # nor does the owner commit while it writes them on a busy machine

    def test_a_large_body_holds_nobody_up_and_nobody_overtakes_it(self):
        owner = self.owner("a")
        large, other, worker = self.room.client(), self.room.client(), self.room.worker(capacity=4)
        body = os.urandom(1 << 20) * 40
        large.submit(id="large", body=body, reply="accepted", service="later")
        large.submit(id="large", body=body, reply="accepted", service="later", ref="again")
        large.send("fetch", {"id": "large", "ref": "asks"})
        other.submit(id="small", reply="accepted")
        self.assertEqual(other.get("accepted").fields["id"], "small")
        self.assertFalse(large.inbox, "the large one was first")
        small = worker.get("job")  # before its broker dies

        answers = [large.get() for _ in range(3)]
        self.assertEqual([(answer.op, answer.fields.get("ref")) for answer in answers],
                         [("accepted", None), ("accepted", "again"), ("status", "asks")])
        self.assertEqual([answer.fields.get("duplicate", False) for answer in answers[:2]], [False, True])
        self.assertEqual(int(DATABASE.value(f'SELECT count(*) FROM "{self.schema}".body WHERE number < 0')), 40)
        large.submit(id="gone", body=body, reply="accepted", service="later")
        cancelled = large.ask("cancel", {"id": "gone", "ref": "cancels"})
        self.assertEqual((cancelled.op, cancelled.fields["id"]), ("accepted", "gone"))
        self.assertEqual(large.get("status").fields["state"], "cancelled")

        owner.kill()
        self.owner("a")
        doer = self.room.worker(services=("later",))
        job = doer.get("job", patience=harness.PATIENCE)
        self.assertEqual((job.fields["id"], job.body == body), ("large", True))
        worker.hand_in(small)
        doer.hand_in(job)

    def parts(self):
        return int(DATABASE.value(f'SELECT count(*) FROM "{self.schema}".body'))

    def runs(self, worker, job_id="asks"):
        """A client whose job that worker has."""
        client = self.room.client()
        client.submit(id=job_id, service="late")
        return client, worker.get("job", patience=harness.PATIENCE)

    def test_a_large_answer_holds_nobody_up_and_outlives_its_owner(self):
        owner = self.owner("a")
        asker, job = self.runs(worker := self.room.worker(services=("late",), capacity=2))
        other = self.room.client()
        body = os.urandom(1 << 20) * 40

        worker.hand_in(job, body=body)
        worker.say_heartbeat()
        other.submit(id="small", reply="accepted")
        self.assertEqual(other.get("accepted").fields["id"], "small")
        self.assertFalse(asker.inbox, "the large one was first")
        self.assertEqual(other.status("asks")["state"], "running", "until its answer is kept")

        answer = asker.get("result", patience=harness.PATIENCE)
        self.assertEqual((answer.body == body, answer.fields.get("attempts", 1)), (True, 1))
        self.room.pump(lambda: worker.acked, "that the outcome is kept")
        self.assertEqual(self.parts(), 40)
        owner.kill()
        self.owner("a")
        again = self.room.client()
        again.send("fetch", {"id": "asks"})
        self.assertTrue(again.get("result", patience=harness.PATIENCE).body == body)

    def leaves_behind_an_answer(self, leave):
        """`leave(worker, session)`: right behind its large answer."""
        self.owner("a")
        body = os.urandom(1 << 20) * 40
        worker = self.room.worker(services=("late",), welcome=False)
        session = worker.get("welcome").fields["session"]
        client, job = self.runs(worker)
        waits = self.room.worker(services=("late",))

        worker.hand_in(job, body=body)
        leave(worker, session)

        answer = client.get("result", patience=harness.PATIENCE)
        self.assertEqual((answer.body == body, answer.fields.get("attempts", 1)), (True, 1))
        self.assertEqual(waits.held, {}, "nobody else has run it")

    def test_a_worker_that_says_bye_behind_a_large_answer_has_given_it(self):
        self.leaves_behind_an_answer(lambda worker, session: worker.send("bye"))

    def test_a_worker_that_comes_back_by_another_connection_has_given_its_large_answer(self):
        def comes_back(worker, session):
            self.room.pump(lambda: self.parts() > 0, "that the database is given the answer")
            self.room.worker(services=("late",), session=session)

        self.leaves_behind_an_answer(comes_back)

    def test_a_worker_need_not_list_what_it_has_handed_in(self):
        self.owner("a")
        client, job = self.runs(worker := self.room.worker(services=("late",)))
        # From then on a job that two inventories lack is missing.
        young_until = time.monotonic() + 4 * self.heartbeat_ms / 1000
        self.room.pump(lambda: time.monotonic() > young_until, "that the hand-over is no young one", 2 * harness.PATIENCE)
        body, worker.heartbeats = os.urandom(LARGE), False

        with self.no_room():
            worker.hand_in(job, body=body)
            self.waits()
            for _ in range(3):
                worker.send("heartbeat", {"jobs": []})
            self.assertEqual(self.room.client().ask("status", {"id": "asks"}).fields["state"], "running")

        answer = client.get("result", patience=harness.PATIENCE)
        self.assertEqual((answer.body == body, answer.fields.get("attempts", 1)), (True, 1))

    def test_an_answer_to_what_was_cancelled_meanwhile_leaves_nothing_behind(self):
        self.owner("a")
        client, job = self.runs(worker := self.room.worker(services=("late",)))

        worker.hand_in(job, body=os.urandom(1 << 20) * 40)
        self.assertEqual(self.room.client().ask("cancel", {"id": "asks"}).fields["state"], "cancelled")
        self.assert_error(client.get(), "cancelled")

        self.room.pump(lambda: worker.acked or worker.stale, "that the outcome was heard")
        self.room.pump(lambda: self.parts() == 0, "that its body is gone", harness.PATIENCE)

    # ---- while the database takes no large body ----

    def puts(self):
        """Statements that wait for the end of no_room(): one by the connection of what goes ahead, one more where a turn has parts."""
        return int(DATABASE.value("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lanemq-broker' "
                                  "AND wait_event_type = 'Lock'"))

    @contextlib.contextmanager
    def no_room(self):
        """The database takes no part of a body, and gives none up; all else it does."""
        held = DATABASE.hold(f'LOCK TABLE "{self.schema}".body IN SHARE MODE')
        try:
            yield
        finally:
            held.end()

    def waits(self, count=1):
        self.room.pump(lambda: self.puts() == count, f"that {count} wait for the table of parts")

    def test_a_large_body_may_come_inside_the_header(self):
        owner = self.owner("a")
        client, worker = self.room.client(), self.room.worker()
        body, answer = os.urandom(LARGE), os.urandom(LARGE)

        client.send("submit", {"service": "echo", "id": "inside", "reply": "both", "ref": 7}, body, inside=True)
        accepted = client.get()
        self.assertEqual((accepted.op, accepted.fields.get("ref"), self.parts()), ("accepted", 7, 5))
        job = worker.get("job")
        self.assertTrue(job.body == body)
        worker.send(*worker.outcome(job, "result", answer), inside=True)
        self.assertTrue(client.get("result").body == answer)
        self.room.pump(lambda: worker.acked, "that the outcome is kept")

        for way in ("bye", "another connection", "its end"):
            with self.subTest(way=way):
                leaves = self.room.worker(services=("late",), welcome=False)
                session = leaves.get("welcome").fields["session"]
                client, job = self.runs(leaves, way)
                with self.no_room():
                    leaves.send(*leaves.outcome(job, "result", answer), inside=True)
                    self.waits()
                    if way == "bye":
                        leaves.send("bye")
                    elif way == "another connection":
                        self.room.worker(services=("late",), session=session)
                    else:
                        leaves.close()
                    self.waits(2)
                said = client.get("result", patience=harness.PATIENCE)
                self.assertEqual((said.body == answer, said.fields.get("attempts", 1)), (True, 1))
        self.assertEqual(owner.process.poll(), None)

    def test_bodies_stand_in_either_place_whatever_the_store(self):
        """By the kit's rule, on stores that its own broker has not."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        kit = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../conformance/run")
        for store, broker in (("postgres", self.owner("a")), ("sqlite", self.room.start_broker("--store", f"sqlite:{folder}/store.db"))):
            with self.subTest(store=store):
                done = subprocess.run([sys.executable, kit, "--clients", broker.clients, "--workers", broker.workers,
                                       "--only", "messages.body_stands_in_either_place"], capture_output=True, text=True)
                self.assertEqual((done.returncode, "2 pass, 0 fail, 0 skipped" in done.stdout), (0, True), done.stdout)

    def test_batches_may_come_behind_a_submit_that_says_so_and_is_held(self):
        self.owner("a")
        client = self.room.client()
        with self.no_room():
            client.submit(id="large", body=os.urandom(LARGE), batch=64, service="later", reply="accepted")
            client.send_batch("submit", [{"service": "later", "id": "first", "reply": "accepted"}, {"id": "second"}])

            self.assertEqual([client.get("accepted").fields["id"] for _ in range(2)], ["first", "second"])
            client.send_batch("submit", [{"service": "later", "id": str(number)} for number in range(65)])
            self.assert_error(client.get(), "bad_request", "a batch of 65 maps", "is 64")

        self.assertEqual(client.get("accepted").fields["id"], "large")

    def test_no_batch_overtakes_a_submit_that_it_names(self):
        self.owner("a")
        client, other = self.room.client(), self.room.client()
        client.submit(id="small", service="later", batch=64, reply="accepted")
        client.get("accepted")
        with self.no_room():
            for name in ("one", "two"):
                client.submit(id=name, body=os.urandom(LARGE), service="later", reply="accepted")
            client.send("status", {"ids": ["small", "two"], "ref": "asks"})
            client.send_batch("cancel", [{"id": "one", "ref": 1}, {"id": "two", "ref": 2}, {"id": "small", "ref": 3}])
            client.send("fetch", {"id": "small", "ref": "behind"})
            self.waits()
            self.assertEqual(other.status("nobody's")["state"], "unknown")
            self.assertFalse(client.inbox, "what names a submit that is held waits for it")

        answers = [(answer.op, answer.fields.get("ref"), answer.fields.get("id"), answer.fields.get("state"))
                   for answer in (client.get() for _ in range(7))]
        self.assertEqual([(op, job) for op, _, job, _ in answers if op == "accepted"], [("accepted", "one"), ("accepted", "two")])
        said = {ref: state for op, ref, _, state in answers if op == "status"}
        self.assertEqual({ref: said.get(ref) for ref in (1, 2, 3)}, dict.fromkeys((1, 2, 3), "cancelled"))

    def test_a_job_is_cancelled_whose_client_left_before_its_body_was_in(self):
        self.owner("a")
        client, other = self.room.client(), self.room.client()
        with self.no_room():
            client.submit(id="orphan", body=os.urandom(LARGE), service="later", orphan="cancel")
            client.submit(id="kept", body=os.urandom(LARGE), service="later")
            self.waits()
            connected = self.room.stats()["counters"]["connections"]
            client.close()
            self.room.stats_when(lambda stats: stats["counters"]["connections"] < connected, "that its client is gone")

        self.room.pump(lambda: other.status("orphan")["state"] == "cancelled", "that nobody's job is cancelled")
        self.assertEqual(other.status("kept")["state"], "queued")

    def test_an_answer_that_came_in_time_counts_however_long_its_body_takes(self):
        self.owner("a", arguments=("--set", "lane.normal.stall_timeout=1s"))
        body = os.urandom(LARGE)
        for name in ("deadline", "stall", "silence"):
            with self.subTest(name=name):
                client, worker = self.room.client(), self.room.worker(services=(name,))
                with self.no_room():
                    client.submit(id=name, service=name, **({"timeout_ms": 1500} if name == "deadline" else {}))
                    job = worker.get("job")
                    if name == "stall":
                        worker.send("progress", {"job": job.fields["job"], "attempt": job.fields["attempt"], "pct": 99})
                    worker.hand_in(job, body=body)
                    worker.heartbeats = name != "silence"
                    self.waits()
                    self.waits(2)  # it goes with its turn
                answer = client.get("result", patience=harness.PATIENCE)
                self.assertEqual((answer.body == body, answer.fields.get("attempts", 1)), (True, 1))
                worker.close()

    def test_an_answer_that_came_before_the_end_of_its_owner_counts(self):
        owner = self.owner("a", arguments=("--set", "drain_timeout=500ms"))
        client, job = self.runs(worker := self.room.worker(services=("late",)))
        body = os.urandom(LARGE)
        with self.no_room():
            worker.hand_in(job, body=body)
            self.waits()
            owner.signal(signal.SIGTERM)
            self.waits(2)

        self.assertEqual(self.ends(owner), 0)
        worker.close()
        self.owner("a")
        again = self.room.client()
        again.send("fetch", {"id": "asks"})
        answer = again.get("result", patience=harness.PATIENCE)
        self.assertEqual((answer.body == body, answer.fields.get("attempts", 1)), (True, 1))

    def test_what_the_database_takes_no_part_of_goes_with_its_turn(self):
        self.owner("a")
        client = self.room.client()
        with self.no_room():
            client.submit(id="large", body=os.urandom(LARGE), service="later", reply="accepted")
            client.send("status", {"id": "large"})
            self.waits()
            self.waits(2)

        self.assertEqual([client.get().op for _ in range(2)], ["accepted", "status"])
        self.room.pump(lambda: self.parts() == 5, "that what was put for nothing is gone")

    def test_a_worker_that_says_ready_again_does_not_leave(self):
        self.owner("a")
        worker = self.room.worker(services=("late",), welcome=False)
        session = worker.get("welcome").fields["session"]
        client, job = self.runs(worker)
        other, liar, body = self.room.client(), self.room.worker(services=("none",)), os.urandom(LARGE)
        with self.no_room():
            liar.send("result", {"job": job.fields["job"], "attempt": job.fields["attempt"]}, body)
            self.room.pump(lambda: liar.stale, "that another one's job is nothing to hold")

            worker.hand_in(job, body=body)
            self.waits()
            worker.send("ready", {**worker.ready, "session": session, "capacity": 2})
            worker.get("welcome")
            other.submit(id="small", reply="accepted")
            self.assertEqual((other.get("accepted").fields["id"], self.puts()), ("small", 1))

        self.assertTrue(client.get("result", patience=harness.PATIENCE).body == body)


class Away(ClusterCase):
    def test_an_owner_that_cannot_commit_sends_its_clients_to_the_others_until_it_can(self):
        told = ["tcp://one:5570", "tcp://two:5570"]
        owner = self.owner("a", arguments=("--set", "cluster_clients=" + ",".join(told)))
        client, worker = self.room.client(), self.room.worker(capacity=4)
        client.submit(id="runs")
        job = worker.get("job")
        with DATABASE.stopped():
            self.room.pump(lambda: "store.away" in owner.stderr(), "that the owner knows that it may be none")
            for op, fields in (("submit", {"service": "echo"}), ("submit", {"service": "echo", "durable": False}),
                               ("status", {"id": "runs"}), ("fetch", {"id": "runs"}), ("cancel", {"id": "runs"})):
                answer = client.ask(op, fields)
                self.assertEqual((answer.op, answer.fields["code"], answer.fields["endpoints"]), ("error", "not_owner", told))
            worker.hand_in(job)  # what runs is not lost
        self.assertEqual(client.get("result", patience=harness.PATIENCE).fields["id"], "runs")
        self.room.pump(lambda: "store.owned" in owner.stderr(), "that the owner is sure again")
        client.submit(id="later")
        self.assertEqual(worker.get("job").fields["id"], "later")


class Gateways(ClusterCase):
    """Callers of a gateway that is given two brokers, all the time: they wait, and nobody sees an error."""

    lease_s = 5.0  # the default
    callers = 4

    def setUp(self):
        super().setUp()
        elsewhere = harness.fixed_endpoints()
        self.first = self.owner("a")
        self.second = self.candidate("b", endpoints=elsewhere)
        both = {kind: f"{self.endpoints[kind]},{elsewhere[kind]}" for kind in ("clients", "workers")}
        upstream = self.room.start(harness.Process(harness.program("lanemq-upstream"), "--latency-ms", "100"))
        url = self.ready(upstream)
        self.room.start(harness.Process(harness.program("lanemq-worker"), "--broker", both["workers"], "--capacity", "16",
                                        "--service", f"openai=openai:{url}/v1")).line()
        self.gateway = self.room.start(harness.Process(harness.program("lanemq-gateway"), "--broker", both["clients"], "--listen",
                                                       "127.0.0.1:0"))
        self.address = self.ready(self.gateway).removeprefix("http://").split(":")
        self.answers = [[] for _ in range(self.callers)]
        self.over = False
        self.threads = [threading.Thread(target=self.call, args=(number,)) for number in range(self.callers)]
        for thread in self.threads:
            thread.start()
        self.addCleanup(self.stop)

    def ready(self, process):
        line = process.line()
        self.assertTrue(line.startswith("ready http://"), line + process.stderr())
        return line.removeprefix("ready ").strip()

    def call(self, number):
        """Every second caller reads a stream."""
        body = {"model": "gpt-x", "max_tokens": 20, "messages": [{"role": "user", "content": "x"}], "stream": number % 2 == 1}
        while not self.over:
            connection = http.client.HTTPConnection(*self.address, timeout=60)
            with contextlib.closing(connection):
                connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
                response = connection.getresponse()
                said = response.read()
            whole = not body["stream"] or b"data: [DONE]" in said
            self.answers[number].append((response.status, whole, b"" if response.status == 200 and whole else said))

    def stop(self):
        self.over = True
        for thread in self.threads:
            thread.join()

    def all_are_answered(self):
        """Waits until each caller has had an answer to what it asked from now on, and looks at all answers."""
        before = [len(answers) for answers in self.answers]
        self.room.pump(lambda: all(len(now) > count + 1 for now, count in zip(self.answers, before)), "an answer of each caller", 60)
        bad = [answer for answers in self.answers for answer in answers if answer[:2] != (200, True)]
        self.assertEqual(bad, [])

    def test_they_wait_while_another_broker_takes_over(self):
        self.all_are_answered()
        self.first.kill()
        self.serves(self.second)
        self.all_are_answered()

    def test_they_wait_while_the_database_is_away_and_its_owner_goes_on(self):
        self.all_are_answered()
        DATABASE.crash()
        self.room.pump(lambda: "store.away" in self.first.stderr(), "that the owner knows that it may be none")
        self.room.keep_alive(6.0)  # longer than a broker waits for a client that is gone
        DATABASE.start()
        self.room.pump(lambda: "store.owned" in self.first.stderr(), "that the owner is sure again")
        self.all_are_answered()
        self.assertEqual((self.row()[::2], self.second.said), ((1, "a"), ""))


class Peers(ClusterCase):
    def test_who_was_given_one_broker_finds_the_one_that_goes_on(self):
        elsewhere = harness.fixed_endpoints()
        told = [argument for kind in ("clients", "workers")
                for argument in ("--set", f"cluster_{kind}={self.endpoints[kind]},{elsewhere[kind]}")]
        first = self.owner("a", arguments=told)
        second = self.candidate("b", endpoints=elsewhere, arguments=told)
        worker = self.room.start(harness.Process(
            harness.program("lanemq-worker"), "--broker", self.endpoints["workers"], "--service", "late=echo:10s"))
        asks = self.room.start(harness.Process(
            harness.program("lanemq"), "--broker", self.endpoints["clients"], "submit", "--service", "late", "--id", "late", "words"))
        watched = self.room.client()
        self.room.pump(lambda: watched.status("late").get("state") == "running", "that the job runs")

        first.kill()
        self.serves(second)

        self.room.pump(lambda: asks.process.poll() is not None, "the answer at the other broker")
        self.assertEqual((asks.process.returncode, asks.process.stdout.read()), (0, "words"))
        self.assertEqual(worker.process.poll(), None)


class Waiting(ClusterCase):
    def test_a_host_that_closes_what_it_accepts_is_passed_over(self):
        """As a load balancer or a tunnel before a server that is gone: libpq would not go on to the next host."""
        gone = Proxy(f"tcp://127.0.0.1:{DATABASE.port}")
        self.addCleanup(gone.close)
        gone.refuse()

        self.owner("a", conninfo=f"host=127.0.0.1,127.0.0.1 port={gone.port},{DATABASE.port} user=lanemq dbname=postgres")

    def test_a_database_that_is_away_is_waited_for_until_the_broker_is_ended(self):
        member = self.candidate("a", conninfo="host=/nowhere dbname=lanemq")
        self.assertIn("the database cannot be used now", member.stderr())
        member.signal(signal.SIGHUP)
        self.room.keep_alive(0.2)
        self.assertEqual(member.process.poll(), None)

        member.signal(signal.SIGTERM)

        self.assertEqual(self.ends(member), 0)
        self.assertEqual(member.said, "")

    def test_a_candidate_that_is_ended_leaves_the_store_as_it_is(self):
        owner, member = self.owner("a"), self.candidate("b")
        before = self.row()

        member.signal(signal.SIGTERM)

        self.assertEqual(self.ends(member, 1.0), 0)
        self.assertEqual((before[::2], self.row()[::2], owner.process.poll()), ((1, "a"), (1, "a"), None))


if __name__ == "__main__":
    unittest.main()
