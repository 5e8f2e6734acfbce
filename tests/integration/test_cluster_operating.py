# SPDX-License-Identifier: Apache-2.0
"""Operating several brokers on one store in PostgreSQL: what a broker that waits tells, who is told who owns the store, and
that it changes hands when an operator says so. test_cluster.py has what nobody asked for."""

import http.client
import json
import os
import signal
import socket
import subprocess
import unittest

import harness
import kill_broker
import test_cluster
from ports import free_port
from proxy import Proxy
from test_broker import OF_SHARED_STORES, names_on_the_page
from test_cluster import ClusterCase

# One that waited for a lease would wait for minutes: it goes on since the owner before it has ended, or has lost the store.
PATIENT = ("--set", "store_lease=300s")


def setUpModule():
    test_cluster.setUpModule()


def database():
    return test_cluster.DATABASE


class Seat:
    """Where one member listens: a machine of its own, as it were."""

    def __init__(self):
        self.endpoints = harness.fixed_endpoints()
        self.http = f"127.0.0.1:{free_port()}"

    def ask(self, path, method="GET", **headers):
        """Status and text; None while nothing listens."""
        connection = http.client.HTTPConnection(self.http, timeout=harness.PATIENCE)
        try:
            connection.request(method, path, None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except ConnectionRefusedError:
            return None
        finally:
            connection.close()

    def lines(self):
        """What /readyz says, by name."""
        status, text = self.ask("/readyz")
        return {"status": status, **dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)}


class OperatingCase(ClusterCase):
    def setUp(self):
        super().setUp()
        self.seats = {name: Seat() for name in "ab"}

    def sit(self, instance, **how):
        """A member in its own seat."""
        seat = self.seats[instance]
        return self.member(instance, endpoints=seat.endpoints, arguments=("--http", seat.http, *how.pop("arguments", ())), **how)

    def sit_as_owner(self, instance, **how):
        member = self.sit(instance, **how)
        self.serves(member)
        return member

    def sit_as_candidate(self, instance, **how):
        member = self.sit(instance, **how)
        self.room.pump(member.waits, f"that {instance} waits")
        return member

    def lanemq(self, *words, admin=None, brokers=None, **environment):
        brokers = brokers or ",".join(seat.endpoints["clients"] for seat in self.seats.values())
        return subprocess.run([harness.program("lanemq"), "--broker", brokers, *(("--admin", admin) if admin else ()),
                               "--connect-timeout", "1s", *words], capture_output=True, text=True,
                              timeout=harness.PATIENCE * 3, env={**os.environ, **environment})

    def status(self, *words, seats="ab"):
        """Exit code, and the document of `cluster status`; members by where they were asked."""
        http = ",".join("http://" + self.seats[seat].http for seat in seats)
        done = self.lanemq("cluster", "status", "--http", http, "--json", *words)
        document = json.loads(done.stdout)
        return done.returncode, document, {member["at"]: member for member in document["members"]}


class Health(OperatingCase):
    def test_a_candidate_answers_probes_and_refuses_all_else(self):
        owner = self.sit_as_owner("a")
        waiting, seat = self.sit_as_candidate("b"), self.seats["b"]

        self.assertEqual(seat.ask("/healthz"), (200, "ok\n"))
        said = harness.wait_until(lambda: (lines := seat.lines()).get("epoch") and lines, "that it has looked")
        self.assertEqual({name: said[name] for name in ("status", "role", "instance", "owner", "epoch")},
                         {"status": 503, "role": "candidate", "instance": "b", "owner": "a", "epoch": "1"})
        self.assertIn('"a" owns the store', said["waits"])
        self.assertLess(int(said["since_commit_ms"]), 1000 * self.lease_s)
        for method, path in (("GET", "/metrics"), ("GET", "/v1/stats"), ("POST", "/v1/handover"), ("GET", "/"),
                             ("GET", "/v1/events"), ("POST", "/v1/cancel")):
            with self.subTest(path):
                status, text = seat.ask(path, method)
                error = json.loads(text)["error"]
                self.assertEqual((status, error["code"]), (503, "not_owner"))
                self.assertIn("owns the store", error["message"])

        mine = harness.wait_until(lambda: (lines := self.seats["a"].lines())["status"] == 200 and lines, "readiness")
        self.assertEqual((mine["role"], mine["instance"], mine["epoch"]), ("owner", "a", "1"))
        self.assertLess(int(mine["since_commit_ms"]), 1000 * self.lease_s)
        store = self.room.stats()["store"]
        self.assertEqual((store["role"], store["instance"], store["epoch"]), ("owner", "a", 1))
        self.assertGreaterEqual(store["since_commit_ms"], 0)

        owner.kill()
        self.serves(waiting)
        now = harness.wait_until(lambda: (lines := seat.lines())["status"] == 200 and lines, "readiness of the next owner")
        self.assertEqual((now["role"], now["instance"], now["epoch"]), ("owner", "b", "2"))
        self.assertEqual(seat.ask("/v1/stats")[0], 200)

    def test_a_candidate_says_that_it_does_not_reach_its_database(self):
        waiting = self.sit_as_candidate("b", conninfo="host=/nowhere dbname=lanemq")

        said = harness.wait_until(lambda: "/nowhere" in (lines := self.seats["b"].lines())["waits"] and lines, "the look")

        self.assertEqual((said["status"], said["role"]), (503, "candidate"))
        self.assertNotIn("owner", said)
        self.assertNotIn("epoch", said)
        lines = [line for line in waiting.stderr().splitlines() if "store.waits" in line]
        self.assertTrue(lines and all(" warning " in line for line in lines), waiting.stderr())
        self.room.keep_alive(1.5)
        self.assertEqual(waiting.stderr().count("store.waits"), len(lines), "it is told once, and rarely again")

    def test_an_address_that_is_taken_is_refused_at_once(self):
        self.sit_as_owner("a")
        with socket.create_server(("127.0.0.1", int(self.seats["b"].http.rsplit(":", 1)[1]))):
            other = self.sit("b")
            self.assertEqual(self.ends_early(other), 3)
        self.assertIn("cannot bind http", other.stderr())

    def ends_early(self, member):
        self.room.pump(member.has_ended, "its end")
        return member.process.returncode

    def test_a_candidate_hears_signals(self):
        self.sit_as_owner("a")
        config = self.config + ".b"
        with open(self.config) as file, open(config, "w") as copy:
            copy.write(text := file.read())
        waiting = self.sit_as_candidate("b", config=config)
        with open(config, "w") as file:
            file.write('log_level = "debug"\n' + text)
        waiting.signal(signal.SIGHUP)
        self.room.pump(lambda: "config.reloaded" in waiting.stderr(), "the reload")
        with open(config, "w") as file:
            file.write("no = toml = at all\n")
        waiting.signal(signal.SIGHUP)
        self.room.pump(lambda: "config.reload_failed" in waiting.stderr(), "that it is refused")
        self.assertEqual((waiting.process.poll(), self.seats["b"].lines()["role"]), (None, "candidate"))

        waiting.signal(signal.SIGTERM)

        self.assertEqual(self.ends(waiting, 1.0), 0)
        self.assertEqual(self.seats["b"].ask("/healthz"), None)
        self.assertEqual(self.row()[::2], (1, "a"))


class Status(OperatingCase):
    def test_it_says_who_owns_the_store_and_who_waits(self):
        first, second = self.sit_as_owner("a"), self.sit_as_candidate("b")
        harness.wait_until(lambda: self.seats["a"].lines()["status"] == 200, "readiness")
        clients = {name: seat.endpoints["clients"] for name, seat in self.seats.items()}
        code, document, members = self.status()
        self.assertEqual((code, document["good"]), (0, True))
        self.assertIn('"a" (epoch 1) owns the store', document["says"])
        owner, silent = members[clients["a"]], members[clients["b"]]
        self.assertEqual((owner["role"], owner["instance"], owner["epoch"]), ("owner", "a", 1))
        self.assertLess(owner["since_commit_ms"], 1000 * self.lease_s)
        self.assertFalse(silent["answers"])
        waits = members["http://" + self.seats["b"].http]
        self.assertEqual((waits["role"], waits["instance"], waits["owner"], waits["epoch"]), ("candidate", "b", "a", 1))
        text = self.lanemq("cluster", "status", LANEMQ_CLUSTER_HTTP="http://" + self.seats["b"].http)
        self.assertEqual(text.returncode, 0)
        self.assertRegex(text.stdout, r'(?m)^http://\S+ +candidate +b +1 .* waits: "a" owns the store \(epoch 1\)$')

        second.signal(signal.SIGTERM)
        self.assertEqual(self.ends(second), 0)
        first.signal(signal.SIGSTOP)  # it owns the store, and says nothing
        self.addCleanup(first.signal, signal.SIGCONT)
        other = self.sit_as_candidate("b")
        harness.wait_until(lambda: self.seats["b"].lines().get("owner") == "a", "its look")
        code, document, _ = self.status(seats="b")
        self.assertEqual((code, document["good"]), (1, False))
        self.assertIn('"a" (epoch 1) owned the store last', document["says"])
        other.kill()
        self.assertEqual(self.status(seats="b")[0], 3)

    def test_a_store_that_is_not_shared_is_told(self):
        broker = self.room.start(harness.Broker("--http", "127.0.0.1:0"))
        done = self.lanemq("cluster", "status", "--json", "--http", broker.http, brokers=broker.clients)
        self.assertEqual(done.returncode, 1)
        self.assertIn("its store is memory, which no other broker shares", done.stdout)
        for words in (("cluster", "handover"), ("cluster", "handover", "--dry-run")):
            refused = self.lanemq(*words, admin=broker.admin)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("the store is memory, with which no other broker can go on", refused.stderr)
        self.assertEqual(broker.process.poll(), None)


class Handover(OperatingCase):
    def test_a_candidate_goes_on_at_once_and_nothing_is_lost(self):
        self.seats["b"].endpoints = self.seats["a"].endpoints  # of one machine, so that peers find the next owner
        first, second = self.sit_as_owner("a"), self.sit_as_candidate("b", arguments=PATIENT)
        self.load()
        self.goes_on()
        self.sees_candidates(1, first)
        dry = self.lanemq("cluster", "handover", "--dry-run", admin=first.admin)
        self.assertEqual((dry.returncode, dry.stdout), (0, "would be: a (epoch 1) gives its store back and ends; the broker that "
                                                           "waits for it goes on within half a second\n"))

        done = self.lanemq("cluster", "handover", admin=first.admin)

        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("a (epoch 1) gives its store back and ends", done.stdout)
        after = self.serves(second)
        self.assertEqual(self.ends(first), 75, first.stderr())
        self.book.ended("stops")
        self.assertRegex(first.stderr(), r"admin\.handover epoch=1 by=.*\n(.*\n)*.*store\.handed_over to=b epoch=2")
        self.goes_on()
        self.finish()
        self.assertEqual(self.row()[::2], (2, "b"))
        print(f"served {after:.2f} s after the handover", flush=True)

    def test_one_that_is_started_again_at_once_does_not_take_it_back(self):
        first = self.sit_as_owner("a")
        second = self.sit_as_candidate("b", arguments=PATIENT)
        self.assertEqual(self.seats["a"].ask("/v1/handover", "POST", **{"content-type": "application/json"})[0], 200)
        self.assertEqual(self.ends(first), 75)
        again = self.sit("a")  # as a supervisor without a pause does
        self.serves(second)
        self.room.pump(again.waits, "that it waits")
        self.assertIn('"b\\" owns the store (epoch 2)', again.stderr())
        self.assertEqual(self.row()[::2], (2, "b"))

    def sees_candidates(self, count, owner):
        def seen():
            stats = self.lanemq("stats", "--json", brokers=owner.clients)
            return stats.returncode == 0 and json.loads(stats.stdout)["store"].get("candidates") == count
        harness.wait_until(seen, f"that the owner sees {count} waiting")

    def test_candidates_of_another_store_and_those_that_stand_still_are_none(self):
        first = self.sit_as_owner("a")
        self.sit_as_candidate("b").signal(signal.SIGSTOP)
        self.schema += " x"
        self.serves(self.member("x", endpoints=harness.fixed_endpoints()))
        self.candidate("y", endpoints=harness.fixed_endpoints())
        self.sees_candidates(0, first)

    def test_without_a_candidate_it_must_be_forced_and_whoever_starts_goes_on(self):
        first = self.sit_as_owner("a")
        self.sees_candidates(0, first)
        refused = self.lanemq("cluster", "handover", admin=first.admin)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("no broker waits for the store", refused.stderr)
        self.assertIsNone(first.process.poll())
        done = self.lanemq("cluster", "handover", "--force", admin=first.admin)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no broker waits for it: nobody serves until one starts", done.stdout)
        self.assertEqual(self.ends(first), 75)
        self.assertIn("store.not_taken", first.stderr())
        self.assertEqual(self.row()[2], "")
        self.serves(self.sit("a", arguments=PATIENT))

    def test_it_is_refused_while_what_waits_could_not_be_committed(self):
        way = Proxy(f"tcp://127.0.0.1:{database().port}")
        self.addCleanup(way.close)
        port = way.endpoint.rsplit(":", 1)[1]
        owner = self.sit_as_owner("a", conninfo=f"host=127.0.0.1 port={port} user=lanemq dbname=postgres")
        client = self.room.client()
        held = database().hold(f'LOCK TABLE "{self.schema}".job IN SHARE MODE')
        self.addCleanup(held.end)
        client.submit(id="waits", body=b"x", reply="accepted")
        self.room.pump(lambda: "store.stands_still" in owner.stderr(), "that the store stands still")

        refused = self.lanemq("cluster", "handover", admin=owner.admin)

        self.assertEqual(refused.returncode, 1)
        self.assertIn("the store is stalled", refused.stderr)
        held.end()
        self.assertTrue(client.get("accepted").fields["durable"])
        self.assertEqual((self.row()[::2], owner.process.poll()), ((1, "a"), None))


class Replication(OperatingCase):
    def set_standbys(self, names):
        self.addCleanup(database().set, "synchronous_standby_names", None)
        database().set("synchronous_standby_names", names)

    def test_without_a_standby_durable_jobs_are_refused_and_all_else_goes_on(self):
        owner = self.sit_as_owner("a", replication="standby")
        client, worker = self.room.client(), self.room.worker(capacity=4)
        refused = client.ask("submit", {"id": "kept", "service": "echo"})
        self.assertEqual((refused.op, refused.fields["code"], refused.fields["limiter"]),
                         ("error", "unavailable", "store_replication"))
        self.assertGreater(refused.fields["retry_after_ms"], 0)
        client.submit(id="light", durable=False)
        worker.echo(worker.get("job"))
        self.assertEqual(client.get("result").fields["id"], "light")
        said = [line for line in owner.stderr().splitlines() if "store.unsafe" in line]
        self.assertEqual(len(said), 1, owner.stderr())
        for part in ("synchronous_standby_names is empty", 'store_replication = \\"provider\\"', '\\"none\\"'):
            self.assertIn(part, said[0])
        harness.wait_until(lambda: self.seats["a"].lines().get("store") == "unsafe", "the probe")
        self.assertEqual(self.seats["a"].lines()["status"], 503)

        self.set_standbys("nobody")
        database().psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lanemq-broker'")
        self.room.pump(lambda: "store.safe" in owner.stderr(), "that the owner has looked")
        client.submit(id="kept", reply="accepted")
        self.assertTrue(client.silent(0.3), "it waits for the standby")
        database().set("synchronous_standby_names", None)
        self.assertTrue(client.get("accepted").fields["durable"])

    def test_who_says_that_nothing_replicates_is_told_once_and_served(self):
        owner = self.sit_as_owner("a", replication="none")
        client = self.room.client()
        client.submit(id="kept", service="nobody", reply="accepted")
        self.assertTrue(client.get("accepted").fields["durable"])
        self.assertEqual(owner.stderr().count("store.unreplicated"), 1)
        harness.wait_until(lambda: self.seats["a"].lines()["status"] == 200, "readiness")
        stats = self.room.stats_when(lambda stats: {"standbys", "candidates"} <= set(stats["store"]), "the first look at the database")
        self.assertEqual(stats["store"]["replication"], "none")
        self.assertEqual(OF_SHARED_STORES - set(stats["store"]), set())
        on_the_page = {path[1] for path in names_on_the_page() if path[0] == "store"}
        self.assertEqual(set(stats["store"]) - on_the_page, set())
        metrics = lambda: self.seats["a"].ask("/metrics")[1]
        harness.wait_until(lambda: "\nlanemq_store_candidates " in metrics(), "the metrics of that look")
        text = metrics()
        self.assertIn('lanemq_store_replication{replication="none"} 1', text)
        for name in ("epoch 1", "since_commit_seconds", "transactions_total", "transaction_writes_total",
                     "transaction_bytes_total", "transaction_seconds_total", "doubts_resolved_total 0",
                     "candidates 0"):
            self.assertRegex(text, rf"(?m)^lanemq_store_{name}")

    def test_a_word_that_is_none_is_refused(self):
        done = subprocess.run([harness.program("lanemq-broker"), "--check", "--set", "store_replication=maybe"],
                              capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(done.returncode, 2)
        self.assertIn("write standby, provider or none", done.stderr)


class Fence(OperatingCase):
    def fence(self, *arguments):
        store = () if "--store" in arguments else ("--store", "postgres:" + database().conninfo())
        return subprocess.run([harness.program("lanemq-broker"), "--fence", *store, "--set", f"store_schema={self.schema}", *arguments],
                              capture_output=True, text=True, timeout=harness.PATIENCE)

    def test_owners_from_before_a_restore_are_kept_out(self):
        first = self.sit_as_owner("a")
        client = self.room.client()
        client.submit(id="kept", body=b"x", reply="accepted")
        self.assertTrue(client.get("accepted").fields["durable"])
        second = self.sit_as_candidate("b", arguments=PATIENT)

        done = self.fence()

        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r'^postgres:.*host=.* \(schema lanemq \d+\): epoch 1 of "a" is \d{10} now;')
        self.assertEqual(self.ends(first), 75)
        self.serves(second)
        self.assertGreater(self.row()[0], 1_700_000_000)
        self.assertEqual(self.room.client().ask("status", {"id": "kept"}, expect="status").fields["state"], "queued")
        second.signal(signal.SIGTERM)
        self.assertEqual(self.ends(second), 0)
        offline = self.fence()
        self.assertEqual(offline.returncode, 0, offline.stderr)
        self.assertRegex(offline.stdout, r": epoch \d{10} is \d{10} now;")

    def test_what_cannot_be_fenced_is_told(self):
        for arguments, code, part in (((), 2, "there is no store"), (("--store", "memory"), 2, "memory has no epoch"),
                                      (("--store", "sqlite:/nowhere/x.db"), 2, "sqlite:/nowhere/x.db has no epoch"),
                                      (("--store", "postgres:host=/nowhere"), 4, "cannot be reached"),
                                      (("--store", "postgres:password=geheim"), 2, "it holds a password")):
            with self.subTest(arguments):
                done = self.fence(*arguments)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(part, done.stderr)
                self.assertNotIn("geheim", done.stderr)


if __name__ == "__main__":
    unittest.main()
