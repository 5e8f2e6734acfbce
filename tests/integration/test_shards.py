# SPDX-License-Identifier: Apache-2.0
"""Several owners side by side, each of a shard: what docs/concepts/shards.md says of them, with real brokers."""

import pathlib
import signal
import subprocess
import tempfile
import textwrap
import time
import unittest
import urllib.error
import urllib.request

import harness
from postgres import Postgres
from postgres_pair import Pair
from shards_stage import RULES, Shards
from test_cluster import skip_without_postgres

TENANTS = '[clients.alice]\ntenant = "acme-eu"\n[clients.bob]\ntenant = "other"\n'


class Case(harness.Case):
    arguments = None
    more = TENANTS

    def setUp(self):
        super().setUp()
        self.shards = Shards(self.room, more=self.more)
        self.addCleanup(self.shards.close)


class Placement(Case):
    """A broker takes what its rules name, and says whose the rest is."""

    def test_a_submit_elsewhere_names_the_shard_that_takes_it(self):
        self.shards.start()
        here = self.shards.client("rest")
        for place, (fields, shard) in enumerate((({"service": "chat", "client": "alice"}, "acme"), ({"service": "speech", "client": "bob"}, "audio"),
                              ({"service": "speech", "client": "alice"}, "acme"), ({"service": "speech"}, "audio"))):
            refused = here.ask("submit", {"id": f"a{place}", "ref": 3, **fields}, b"x")
            self.assert_error(refused, "not_owner", shard)
            self.assertEqual(refused.fields["shard"], shard)
            self.assertEqual(refused.fields["endpoints"], [self.shards.endpoints[shard]["clients"]])
            self.assertNotIn("retry_after_ms", refused.fields)
            self.assertEqual(here.status(f"a{place}")["state"], "unknown")
            there = self.shards.client(shard)
            there.submit(id=f"a{place}", reply="accepted", body=b"x", **fields)
            self.assertEqual(there.get("accepted").fields["id"], f"a{place}")
            there.close()
        here.submit(id="a", service="chat", client="bob", reply="accepted")
        self.assertEqual(here.get("accepted").fields["id"], "a")

    def test_who_asks_is_told_of_all_shards(self):
        self.shards.start()
        pong = self.shards.client("audio").ask("ping", {"cluster": True, "ref": 1}).fields
        self.assertEqual(pong["shard"], "audio")
        self.assertEqual([shard["name"] for shard in pong["shards"]], list(RULES))
        self.assertEqual(pong["shards"][0]["tenants"], ["acme*"])
        self.assertEqual(pong["shards"][1]["services"], ["speech"])
        self.assertEqual(pong["shards"][2], {"name": "rest", "endpoints": [self.shards.endpoints["rest"]["clients"]]})
        self.assertEqual(pong["endpoints"], [self.shards.endpoints["audio"]["clients"]])
        self.assertNotIn("shards", self.shards.client("audio").ask("ping", {"ref": 1}).fields)
        worker = harness.Worker(self.room, self.shards.endpoints["audio"]["workers"], ["speech"], 1, cluster=True)
        welcome = worker.get("welcome").fields
        self.assertEqual(welcome["shard"], "audio")
        self.assertEqual(welcome["shards"], [{"name": name, "endpoints": [self.shards.endpoints[name]["workers"]]}
                                             for name in RULES])
        self.assertEqual(self.shards.operator("audio").ask("stats", {"ref": 1}).fields["shard"], "audio")

    def test_what_is_here_stays_when_the_rules_change(self):
        self.shards.start("rest")
        client = self.shards.client("rest")
        client.submit(id="kept", service="chat", client="bob", body=b"x", reply="accepted")
        client.get("accepted")
        self.assertEqual(self.shards.brokers["rest"].stop(), 0)
        self.shards.write(TENANTS, {"acme": 'match = { tenant = ["acme*", "other"] }', "audio": RULES["audio"], "rest": ""})
        self.shards.start("rest")
        again = self.shards.client("rest")
        again.submit(id="kept", service="chat", client="bob", body=b"x", reply="accepted")
        self.assertTrue(again.get("accepted").fields["duplicate"])
        self.assert_error(again.ask("submit", {"id": "new", "service": "chat", "client": "bob"}, b"x"), "not_owner", "acme")
        worker = self.shards.worker("rest", ["chat"])
        worker.hand_in(worker.get("job"), body=b"answer")
        self.assertEqual(again.ask("fetch", {"id": "kept", "wait_ms": 5000}, expect="result").body, b"answer")

    def test_a_store_goes_on_with_its_own_shard_alone(self):
        self.shards.start("acme")
        self.assertEqual(self.shards.brokers["acme"].stop(), 0)
        binary = harness.program("lanemq-broker")
        started = subprocess.run([binary, "--config", self.shards.config, "--shard", "rest", "--store",
                                  self.shards.store("acme"), *self.shards.flags("rest")],
                                 capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(started.returncode, 4, started.stderr)
        self.assertIn('the jobs of shard "acme"', started.stderr)
        checked = subprocess.run([binary, "--config", self.shards.config, "--shard", "rest", "--store", self.shards.store("acme"),
                                  *self.shards.flags("rest"), "--check"], capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(checked.returncode, 4, checked.stderr)
        self.assertIn('the jobs of shard "acme"', checked.stderr)
        alone = harness.Broker(store=self.shards.store("acme"))  # shards are given up
        self.room.start(alone)
        self.assertEqual(alone.stop(), 0)
        other = self.room.start(harness.Broker("--config", self.shards.config, "--shard", "rest",
                                               store=self.shards.store("acme")))
        self.assertEqual(other.stop(), 0)


    def test_a_broker_of_another_shard_is_no_candidate(self):
        skip_without_postgres()
        database = Postgres()
        self.addCleanup(database.close)
        store = ["--store", f"postgres:{database.conninfo()}", "--store-schema", "jobs_of_acme", "--set", "store_replication=none"]
        owner = self.room.start(harness.Broker("--config", self.shards.config, "--shard", "acme", *store, "--instance", "one",
                                               **self.shards.endpoints["acme"]))
        for more in ([], ["--check"]):
            other = subprocess.run([harness.program("lanemq-broker"), "--config", self.shards.config, "--shard", "rest", *store,
                                    "--instance", "two", *self.shards.flags("rest"), *more],
                                   capture_output=True, text=True, timeout=harness.PATIENCE)
            self.assertEqual(other.returncode, 4, other.stderr)
            self.assertIn('the jobs of shard "acme", and this broker owns shard "rest"', other.stderr)
        self.assertEqual(owner.stop(), 0)


class Spans(Case):
    """Budgets that count jobs of several shards."""

    def check(self, budget):
        self.shards.write(TENANTS + budget)
        return subprocess.run([harness.program("lanemq-broker"), "--config", self.shards.config, "--shard", "rest", "--store",
                               "memory", "--check", *self.shards.flags("rest")], capture_output=True, text=True,
                              timeout=harness.PATIENCE)

    def test_are_refused_with_the_shards_unless_each_has_its_part(self):
        limits = "limits = { requests_per_minute = 60 }\n"
        spans = '[[budget]]\nname = "model"\nmatch = { model = "gpt*" }\n' + limits
        refused = self.check(spans)
        self.assertEqual(refused.returncode, 2)
        for part in ("broker.toml:", '"model"', "acme, audio and rest", "per_shard = true"):
            self.assertIn(part, refused.stderr)
        self.assertEqual(self.check(spans + "per_shard = true\n").returncode, 0)
        self.assertEqual(self.check('[[budget]]\nname = "a"\nmatch = { tenant = "acme-eu" }\n' + limits).returncode, 0)
        self.assertEqual(self.check('[[budget]]\nname = "a"\nmatch = { service = "speech" }\n' + limits).returncode, 2)


class Mistakes(Case):
    """What a start, and --check, say of rules that are hardly meant."""

    def run_it(self, *arguments, more="", rules=None, endpoints=True, bank=""):
        self.shards.write(more, rules, bank)
        return subprocess.run([harness.program("lanemq-broker"), "--config", self.shards.config, "--shard", "rest", "--store",
                               "memory", *(self.shards.flags("rest") if endpoints else ()), *arguments], capture_output=True,
                              text=True, timeout=harness.PATIENCE)

    def both(self, code, *parts, **how):
        """A start and --check refuse alike."""
        for arguments in (("--check",), ()):
            done = self.run_it(*arguments, **how)
            self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
            for part in parts:
                self.assertIn(part, done.stderr)

    def told(self, *parts, **how):
        """--check says it and passes, and so does a start's log."""
        checked = self.run_it("--check", **how)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        broker = self.room.start(harness.Broker("--config", self.shards.config, "--shard", "rest",
                                                **self.shards.endpoints["rest"]))
        for part in parts:
            self.assertIn(part, checked.stderr)
            self.assertIn(part, broker.stderr())
        self.assertIn("config.doubtful", broker.stderr())
        self.assertEqual(broker.stop(), 0)

    def test_default_endpoints_that_no_peer_is_told_of(self):
        self.both(2, "clients of shard", self.shards.endpoints["rest"]["clients"], "binds tcp://127.0.0.1:5570",
                  "say --clients " + self.shards.endpoints["rest"]["clients"], endpoints=False)

    def test_chosen_endpoints_that_no_peer_is_told_of(self):
        other = harness.fixed_endpoints()
        self.shards.endpoints["rest"], told = other, self.shards.endpoints["rest"]
        flags = self.shards.flags("rest")
        self.shards.endpoints["rest"] = told
        checked = self.run_it("--check", *flags, endpoints=False)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertIn(f"this broker binds {other['workers']}", checked.stderr)
        broker = self.room.start(harness.Broker("--config", self.shards.config, "--shard", "rest", **other))
        self.assertIn("config.doubtful", broker.stderr())
        self.assertEqual(broker.stop(), 0)

    def test_rules_that_never_take_a_job(self):
        self.both(2, "broker.toml:", 'shard "acme": it takes every job',
                  rules={"acme": 'match = { service = "*" }', "audio": RULES["audio"], "rest": ""})
        self.both(2, 'shard "audio": it never takes a job, since acme takes all of its before',
                  rules={"acme": RULES["acme"], "audio": 'match = { tenant = "acme-eu", service = "speech" }', "rest": ""})
        self.told("of its match takes no job, since acme stands before it",
                  rules={"acme": RULES["acme"], "audio": 'match = { tenant = ["acme-eu", "other"] }', "rest": ""})

    def test_two_shards_at_one_endpoint(self):
        self.shards.endpoints["audio"]["workers"] = self.shards.endpoints["acme"]["workers"]
        self.both(2, 'workers of shard "acme" and for workers of shard "audio"')

    def test_a_bank_that_nothing_uses(self):
        self.told("the bank is used by no budget", bank="postgres:host=/nowhere",
                  more='[[budget]]\nname = "a"\nlimits = { concurrency = 5 }\nper_shard = true\n')
        alone = subprocess.run([harness.program("lanemq-broker"), "--set", "bank=postgres:host=/nowhere", "--check"],
                               capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(alone.returncode, 2)
        self.assertIn("no [[shard]]", alone.stderr)

    def test_the_schema_that_counts_is_shown(self):
        printed = self.run_it("--print-config", endpoints=False)
        self.assertIn('\nstore_schema = "lanemq_rest"\n', printed.stdout, printed.stderr)
        said = self.run_it("--print-config", "--store-schema", "lanemq", endpoints=False)
        self.assertIn('\nstore_schema = "lanemq"\n', said.stdout, said.stderr)


class BankCase(harness.Case):
    """A budget that shards share by a bank in PostgreSQL."""

    arguments = None
    LIMIT = 120  # a minute: bursts of 12, then 1.8 a second

    def make_database(self):
        """Returns the connection string of the bank."""
        self.database = Postgres()
        self.addCleanup(self.database.close)
        return self.database.conninfo()

    def setUp(self):
        super().setUp()
        skip_without_postgres()
        conninfo = self.make_database()
        self.shards = Shards(self.room, rules={"a": 'match = { service = ["sa", "free"] }', "b": ""},
                             more=f'[[budget]]\nname = "api"\nmatch = {{ service = "s*" }}\n'
                                  f'limits = {{ requests_per_minute = {self.LIMIT} }}\n', bank=f"postgres:{conninfo}")
        self.addCleanup(self.shards.close)
        self.offered = []  # when a worker was given a job of the budget, and of which shard

    def worker(self, name):
        return name, self.shards.worker(name, ["sa", "sb", "free"], 50)

    def serve(self, workers, seconds):
        """Workers answer all that they are given for so long."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            self.room.keep_alive(0.01)
            for name, worker in workers:
                while worker.inbox:
                    message = worker.inbox.popleft()
                    if message.op == "job":
                        self.offered.append((now, name))
                        worker.hand_in(message, body=b"done")

    def submit(self, name, count, service=None, begin=0):
        client = self.shards.client(name)
        for number in range(begin, begin + count):
            client.submit(service or "s" + name, b"x", id=f"{name}{number}", reply="accepted")
        return client

    def most_in_a_window(self):
        times = [at for at, _ in self.offered]
        return max(sum(1 for at in times if begin <= at < begin + 60) for begin in times)

    def allowed_since(self, began):
        """However late the jobs are seen, there were not more of them since the first could be handed over."""
        return 12 + (self.offered[-1][0] - began) * (self.LIMIT - 12) / 60 + 3

    def bank(self, name):
        return self.shards.operator(name).ask("stats", {"ref": 1}).fields["bank"]


class Bank(BankCase):
    def check(self, conninfo):
        self.shards.write(bank=f"postgres:{conninfo}")
        return subprocess.run([harness.program("lanemq-broker"), "--config", self.shards.config, "--shard", "a", "--store",
                               "memory", "--check", *self.shards.flags("a")], capture_output=True, text=True,
                              timeout=harness.PATIENCE)

    def test_check_looks_at_it(self):
        good = self.check(self.database.conninfo())
        self.assertEqual((good.returncode, good.stdout, good.stderr), (0, "", ""))
        self.assertEqual(self.database.value("SELECT count(*) FROM pg_namespace WHERE nspname = 'lanemq_bank'"), "0")
        away = self.check("host=/nowhere")
        self.assertEqual(away.returncode, 0)
        self.assertIn("was not reached", away.stderr)
        for conninfo, words in ((self.database.conninfo(database="nowhere"), 'database "nowhere" does not exist, SQLSTATE 3D000'),
                                (self.database.conninfo(user="nobody"), "SQLSTATE 28000")):
            refused = self.check(conninfo)
            self.assertEqual(refused.returncode, 2, refused)
            self.assertIn(words, refused.stderr)
        self.database.psql("CREATE ROLE weak LOGIN")
        weak = self.check(self.database.conninfo(user="weak"))
        self.assertEqual(weak.returncode, 2)
        self.assertIn('bank: ', weak.stderr)
        self.assertIn('its role may not make a schema in the database "postgres"', weak.stderr)

    def readiness(self, broker):
        try:
            with urllib.request.urlopen(f"{broker.http}/readyz", timeout=harness.PATIENCE) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:  # the loop has not answered yet
            with error:
                return error.read().decode()

    def test_one_that_is_away_is_known_before_the_first_job(self):
        self.database.crash()
        self.shards.arguments = ("--http", "127.0.0.1:0")
        self.shards.start("a")
        broker = self.shards.brokers["a"]
        harness.wait_until(lambda: "bank.away" in broker.stderr(), "the log to say so")
        harness.wait_until(lambda: "bank: away" in self.readiness(broker), "the probe to say so")
        self.assertTrue(self.readiness(broker).startswith("ready\n"))
        self.database.start()
        harness.wait_until(lambda: "bank.good" in broker.stderr(), "the log to take it back")
        harness.wait_until(lambda: "bank: away" not in self.readiness(broker), "the probe to take it back")
        stats = self.bank("a")
        self.assertEqual((stats["state"], stats["draws"], stats["lost"]), ("good", 0, 0))

    def test_the_limit_is_that_of_both_together(self):
        self.shards.start()
        workers, began = [self.worker("a"), self.worker("b")], time.monotonic()
        for name in "ab":
            self.submit(name, 60)
        # A burst of a tenth, and what a minute less that gives in the time; each by itself would have had as much.
        had = lambda name: sum(1 for _, who in self.offered if who == name)
        enough = lambda: len(self.offered) > 16 and min(had("a"), had("b")) >= 3
        harness.wait_until(lambda: self.serve(workers, 0.5) or (enough() and time.monotonic() > began + 6), "what both may have", pause=0)
        self.assertLessEqual(len(self.offered), self.allowed_since(began))
        stats = self.bank("a")
        self.assertEqual(stats["state"], "good")
        self.assertGreater(stats["draws"], 3)

    def test_a_broker_that_is_killed_again_and_again_gets_no_second_burst(self):
        self.shards.start()
        workers, began = [self.worker("a"), self.worker("b")], time.monotonic()
        self.submit("a", 100)
        self.submit("b", 20)
        for _ in range(4):
            self.serve(workers, 1)
            self.shards.brokers["a"].kill()
            self.shards.brokers["a"].wait()
            self.shards.start("a")
            workers[0] = self.worker("a")
        self.serve(workers, 2)
        self.assertLessEqual(len(self.offered), self.allowed_since(began))
        self.assertLessEqual(self.most_in_a_window(), self.LIMIT)

    def test_while_the_bank_is_away_other_jobs_go_on(self):
        self.shards.start("a")
        workers = [self.worker("a")]
        self.database.crash()
        client = self.submit("a", 1)
        client.get("accepted")
        self.submit("a", 1, service="free", begin=100).get("accepted")
        harness.wait_until(lambda: self.serve(workers, 0.1) or client.status("a100")["state"] == "succeeded", "the other job", pause=0)
        harness.wait_until(lambda: self.serve(workers, 0.1) or client.status("a0").get("blocked_by") == "budget api at the bank",
                           "that the bank holds up the first", pause=0)
        self.assertEqual(len(self.offered), 1)
        self.assertEqual(self.bank("a")["state"], "away")
        self.database.start()
        harness.wait_until(lambda: self.serve(workers, 0.2) or client.status("a0")["state"] == "succeeded", "that the bank is drawn from again")
        self.assertEqual(len(self.offered), 2)

    def test_a_process_that_stood_still_hands_over_nothing_of_what_it_had_drawn(self):
        self.shards.start()
        workers, began = [self.worker("a"), self.worker("b")], time.monotonic()
        self.submit("a", 100)
        self.serve(workers, 1)
        for _ in range(3):
            self.shards.brokers["a"].signal(signal.SIGSTOP)
            self.submit("b", 20, begin=100 * (_ + 1))
            self.serve(workers[1:], 2)
            self.shards.brokers["a"].signal(signal.SIGCONT)
            self.serve(workers, 1)
        self.assertLessEqual(len(self.offered), self.allowed_since(began))


class TwoPrimaries(BankCase):
    """A standby has been promoted, and the former primary takes writes as before: an operator has ended its wait for standbys."""

    def make_database(self):
        self.pair = Pair()
        self.addCleanup(self.pair.close)
        servers = self.pair.servers
        return " ".join((f"host={','.join(server.data for server in servers)}",
                         f"port={','.join(str(server.port) for server in servers)}", "user=lanemq", "dbname=postgres"))

    def drawers(self, server):
        return int(server.value("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lanemq-broker'"))

    def test_shards_go_to_the_later_one_and_the_former_one_grants_nothing(self):
        self.shards.start()
        workers = [self.worker("a"), self.worker("b")]
        for name in "ab":
            self.submit(name, 400)
        self.serve(workers, 3)
        former, later = self.pair.primary, self.pair.standby
        self.assertEqual(self.drawers(former), 2)
        later.promote()
        harness.wait_until(later.is_primary, "the promotion", 60, 0.02)
        former.set("synchronous_standby_names", "")

        def are_there():
            self.serve(workers, 0.5)
            return self.drawers(later) == 2 and self.drawers(former) == 0
        harness.wait_until(are_there, "all shards to draw at the server that was promoted", 60, 0)
        self.assertLessEqual(self.most_in_a_window(), self.LIMIT)
        # What was drawn at the former one since the promotion is not there.
        self.lack_draws(workers)
        later.crash()
        harness.wait_until(lambda: self.drawers(former) == 2, "all shards to draw at the former one", 60, 0.2)
        self.lack_draws(workers)

    def lack_draws(self, workers):
        """Nothing is granted, and brokers say why, until an operator has it go on."""
        client = self.shards.client("a")
        harness.wait_until(lambda: self.serve(workers, 0.5) or
                           client.status("a399")["blocked_by"] == "budget api at the bank, which has lost draws",
                           "that it is seen what is missing", 60, 0)
        self.assertIn("does not know of all draws", self.shards.brokers["a"].stderr())
        self.assertEqual(self.bank("a")["state"], "away")
        self.serve(workers, 1)
        before = len(self.offered)
        self.serve(workers, 3)
        self.assertEqual(len(self.offered), before, "nothing is granted")
        self.shards.operator("a").ask("admin", {"do": "resume", "what": "budget", "name": "api"}, expect="admin")
        harness.wait_until(lambda: self.serve(workers, 0.5) or len(self.offered) > before, "an operator has it go on", 30, 0)


class Workers(harness.Case):
    """A worker serves all shards with one capacity. Its program says in a folder that it runs, and waits until it may end."""

    arguments = None
    CAPACITY = 4

    def setUp(self):
        super().setUp()
        self.shards = Shards(self.room, {"a": 'match = { service = "sa" }', "b": ""},
                             arguments=("--set", f"heartbeat={harness.HEARTBEAT_MS}ms"))
        self.addCleanup(self.shards.close)
        self.shards.start()
        folder = tempfile.TemporaryDirectory(prefix="lanemq-runs-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.script = self.folder / "program"
        self.script.write_text(textwrap.dedent(f"""\
            #!/bin/sh
            cd {self.folder}
            body=$(cat)
            : > "runs.$LANEMQ_SERVICE.$body"
            set -- runs.*
            echo "$# $body" >> counts
            while [ ! -e "go.$LANEMQ_SERVICE" ]; do sleep 0.02; done
            rm "runs.$LANEMQ_SERVICE.$body"
            echo "$body"
            """))
        self.script.chmod(0o755)

    def start_worker(self, *arguments):
        worker = self.room.start(harness.Process(
            harness.program("lanemq-worker"), "--broker", self.shards.endpoints["a"]["workers"], "--capacity",
            str(self.CAPACITY), "--service", f"sa=exec:{self.script}", "--service", f"sb=exec:{self.script}", *arguments))
        self.assertTrue(worker.line().startswith("ready "), worker.stderr())
        harness.wait_until(lambda: worker.stderr().count("worker.connected") == 2, "the worker's second session")
        return worker

    def submit(self, shard, *names, durable=False):
        client = self.shards.client(shard)
        for name in names:
            client.submit(f"s{shard}", name.encode(), id=name, reply="both", durable=durable)
        accepted = lambda: [message for message in client.inbox if message.op == "accepted"]
        self.room.pump(lambda: len(accepted()) == len(names), "all jobs to be accepted")
        for message in accepted():
            client.inbox.remove(message)
        return client

    def running(self, shard):
        return len(list(self.folder.glob(f"runs.s{shard}.*")))

    def let_go(self, *shards):
        for shard in shards:
            (self.folder / f"go.s{shard}").touch()

    def starts(self):
        """How many ran when each began, its own included."""
        return [line.split() for line in (self.folder / "counts").read_text().splitlines()]

    def results(self, client, count):
        """The bodies that programs answered with, by id."""
        results = [client.get("result") for _ in range(count)]
        return {result.fields["id"]: result.body.decode().strip() for result in results}

    def test_places_go_where_jobs_wait_and_one_stays(self):
        self.start_worker()
        names = [f"b{place}" for place in range(8)]
        of_b = self.submit("b", *names)
        harness.wait_until(lambda: self.running("b") == self.CAPACITY - 1, "all places but one")

        late = self.submit("a", "a0", "a1", "a2")
        harness.wait_until(lambda: self.running("a") == 1, "the place that was kept")
        self.let_go("a", "b")

        self.assertEqual(self.results(of_b, 8), {name: name for name in names})
        self.assertEqual(self.results(late, 3), {name: name for name in ("a0", "a1", "a2")})
        self.assertLessEqual(max(int(count) for count, _ in self.starts()), self.CAPACITY)
        self.assertEqual(len(self.starts()), 11)

    def test_never_runs_more_than_its_capacity_under_load_from_both(self):
        self.start_worker()
        self.let_go("a", "b")
        clients = {shard: self.submit(shard, *(f"{shard}{place}" for place in range(100))) for shard in "ab"}
        for shard, client in clients.items():
            self.assertEqual(self.results(client, 100), {f"{shard}{place}": f"{shard}{place}" for place in range(100)})
        self.assertLessEqual(max(int(count) for count, _ in self.starts()), self.CAPACITY)
        self.assertEqual(len(self.starts()), 200)

    def test_a_killed_broker_leaves_the_other_shard_alone_and_is_served_again(self):
        self.start_worker()
        self.submit("a", "a0", durable=True)
        of_b = self.submit("b", "b0")
        harness.wait_until(lambda: self.running("a") == self.running("b") == 1, "a job of each")

        self.shards.brokers["a"].kill()
        self.let_go("b")
        self.assertEqual(self.results(of_b, 1), {"b0": "b0"})
        again = self.submit("b", "b1", "b2", "b3")
        self.assertEqual(self.results(again, 3), {name: name for name in ("b1", "b2", "b3")})
        self.assertEqual(self.running("a"), 1)
        self.shards.start("a")
        self.let_go("a")

        client = self.shards.client("a")
        result = client.ask("fetch", {"id": "a0", "wait_ms": 20000}, expect="result")
        self.assertEqual(result.body, b"a0\n")
        self.assertEqual([body for _, body in self.starts()].count("a0"), 1)  # it went on here
        more = self.submit("a", "a1")
        self.assertEqual(self.results(more, 1), {"a1": "a1"})

    def test_sigterm_finishes_what_runs_and_waits_for_no_shard_that_is_away(self):
        worker = self.start_worker("--drain-timeout", "60s")
        of_b = self.submit("b", "b0")
        harness.wait_until(lambda: self.running("b") == 1, "the job")
        self.shards.brokers["a"].kill()

        worker.signal(signal.SIGTERM)
        harness.wait_until(lambda: "worker.draining" in worker.stderr(), "the drain")
        self.let_go("b")

        self.assertEqual(self.results(of_b, 1), {"b0": "b0"})
        self.assertEqual(worker.wait(), 0)

    def test_one_place_goes_round(self):
        self.CAPACITY = 1
        self.let_go("a", "b")
        worker = self.start_worker()
        clients = {shard: self.submit(shard, *(f"{shard}{place}" for place in range(3))) for shard in "ab"}
        for shard, client in clients.items():
            self.assertEqual(len(self.results(client, 3)), 3)
        self.assertEqual(max(int(count) for count, _ in self.starts()), 1)
        self.assertIn("worker.fewer_places_than_shards", worker.stderr())


if __name__ == "__main__":
    unittest.main()
