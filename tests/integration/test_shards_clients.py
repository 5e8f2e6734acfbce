# SPDX-License-Identifier: Apache-2.0
"""What the command line and the gateway make of shards: they are given one broker, and reach all."""

import contextlib
import hashlib
import http.client
import json
import os
import signal
import subprocess
import unittest
import urllib.parse

import harness
from shards_stage import Shards

RULES = {"acme": 'match = { tenant = "acme*" }', "chat": 'match = { service = "openai" }', "rest": ""}
TENANTS = '[clients.alice]\ntenant = "acme-eu"\n'
UPSTREAM_KEY = "sk-test-upstream"


class Case(harness.Case):
    arguments = None
    rules, tenants = RULES, TENANTS

    def setUp(self):
        super().setUp()
        self.shards = Shards(self.room, self.rules, self.tenants).start()
        self.addCleanup(self.shards.close)

    def clients(self, name):
        return self.shards.endpoints[name]["clients"]

    def work(self, name, *services):
        """A worker program at that shard's broker."""
        process = self.room.start(harness.Process(
            harness.program("lanemq-worker"), "--broker", self.shards.endpoints[name]["workers"], "--capacity", "8",
            *(word for service in services for word in ("--service", service)),
            env={**os.environ, "OPENAI_API_KEY": UPSTREAM_KEY}))
        self.assertTrue(process.line().startswith("ready"), process.stderr())
        return process

    def lose(self, name):
        self.shards.brokers[name].kill()

    def accepted(self, name, figure="accepted"):
        """How many jobs that broker has taken, or another figure of its lanes."""
        asker = self.shards.client(name)
        try:
            lanes = asker.ask("stats", expect="stats").fields["lanes"]
        finally:
            asker.close()
        return sum(lane[figure] for lane in lanes.values())


class CommandLine(Case):
    def lanemq(self, *words, home="rest", code=0, **how):
        done = subprocess.run([harness.program("lanemq"), "--broker", self.clients(home), "--connect-timeout", "1s", *words],
                              capture_output=True, text=True, timeout=harness.PATIENCE * 3, **how)
        self.assertEqual(done.returncode, code, done)
        return done

    def submit(self, *words, **how):
        return self.lanemq("submit", *words, **how)

    def test_a_job_goes_to_its_shard_and_is_found_there_by_another_process(self):
        for name, service in (("acme", "openai"), ("chat", "openai"), ("rest", "echo")):
            self.work(name, f"{service}=echo")
        for words, shard in ((("--service", "openai"), "chat"), (("--service", "openai", "--client", "alice"), "acme"),
                             (("--service", "echo"), "rest")):
            with self.subTest(shard):
                name = f"job-of-{shard}"
                self.assertEqual(self.submit(*words, "hello").stdout, "hello")
                self.submit(*words, "--id", name, "--delay", "60s", "--no-wait", "later")
                here = self.shards.client(shard)
                # Ids of a tenant without keys are everybody's.
                self.assertEqual(here.status(name)["state"], "delayed")
                here.close()
                for home in RULES:
                    self.assertIn("delayed", self.lanemq("status", name, home=home).stdout)
                    self.assertIn(f"{name} is delayed", self.lanemq("fetch", "--wait", "10ms", name, home=home, code=1).stderr)
                self.assertIn("cancelled", self.lanemq("cancel", name).stdout)
                self.assertIn("cancelled", self.lanemq("status", name).stdout)
        self.assertIn("unknown", self.lanemq("status", "nobodys", code=1).stdout)
        self.assertEqual([self.accepted(name) for name in RULES], [2, 2, 2])

    def test_jobs_of_a_run_go_where_they_belong(self):
        for name, service in (("chat", "openai"), ("rest", "echo")):
            self.work(name, f"{service}=echo")
        source = os.path.join(self.shards.folder.name, "in.jsonl")
        with open(source, "w") as file:
            file.writelines(json.dumps({"n": i}) + "\n" for i in range(200))
        for service, shard in (("openai", "chat"), ("echo", "rest")):
            self.lanemq("run", "--service", service, "--out", source + service, source)
            with open(source + service) as file:
                self.assertEqual(len(file.readlines()), 200)
            self.assertEqual(self.accepted(shard), 200)

    def test_ping_and_stats_show_each_shard(self):
        ping = self.lanemq("ping", "--json").stdout
        document = json.loads(ping)
        self.assertEqual(ping.count("\n"), 1)
        self.assertEqual(document["broker"], self.clients("rest"))
        self.assertEqual([shard["shard"] for shard in document["shards"]], ["rest", "acme", "chat"])
        self.assertTrue(all(shard["round_trip_ms"] > 0 for shard in document["shards"]))
        lines = self.lanemq("ping").stdout.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertTrue(lines[1].startswith(f"pong from shard acme at {self.clients('acme')} version="), lines)
        text = self.lanemq("stats").stdout
        self.assertEqual([line for line in text.splitlines() if line.startswith("shard ")], ["shard rest", "shard acme", "shard chat"])
        self.assertEqual(text.count("LANE"), 3)
        shards = json.loads(self.lanemq("stats", "--json").stdout)["shards"]
        self.assertEqual([(shard["shard"], shard["stats"]["shard"]) for shard in shards],
                         [(name, name) for name in ("rest", "acme", "chat")])
        both = ",".join(self.clients(name) for name in ("acme", "rest"))
        lines = subprocess.run([harness.program("lanemq"), "--broker", both, "ping"], capture_output=True, text=True,
                               timeout=harness.PATIENCE).stdout.splitlines()
        self.assertEqual([line.split()[3:6] for line in lines], [[name, "at", self.clients(name)] for name in ("acme", "chat", "rest")])
        alone = subprocess.run([harness.program("lanemq"), "--admin", self.shards.endpoints["acme"]["admin"], "stats", "--json"],
                               capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(json.loads(alone.stdout)["shard"], "acme")

    def test_a_job_that_is_sent_on_is_no_refusal(self):
        self.submit("--service", "openai", "--client", "alice", "--id", "a", "--no-wait", "x")  # the rules know no tenant of alice
        self.assertEqual([self.accepted(name) for name in RULES], [1, 0, 0])
        self.assertEqual(sum(self.accepted(name, "sent_on") for name in RULES), 1)
        self.assertEqual([self.accepted(name, "refused") for name in RULES], [0, 0, 0])

    def test_a_command_that_waits_names_the_shard_that_is_silent(self):
        self.lose("chat")
        waits = self.room.start(harness.Process(harness.program("lanemq"), "--broker", self.clients("rest"), "submit", "--service",
                                                "openai", "x"))
        harness.wait_until(lambda: "has answered for" in waits.stderr(), "that it says so")
        self.assertRegex(waits.stderr(), f'no broker of shard "chat" has answered for [5-9].* at {self.clients("chat")}; ')

    def test_a_shard_that_is_away_is_named(self):
        self.lose("acme")
        words = f'no broker of shard "acme" answers at {self.clients("acme")} within 1s'
        self.assertIn(words, self.lanemq("ping", code=3).stdout)
        shards = json.loads(self.lanemq("stats", "--json", code=3).stdout)["shards"]
        self.assertIn(words, shards[1]["error"]["message"])
        self.assertEqual(shards[2]["stats"]["shard"], "chat")
        self.submit("--service", "openai", "--id", "kept", "--no-wait", "x")
        self.assertIn("queued", self.lanemq("status", "kept").stdout)  # acme is not waited for
        unknown = self.lanemq("status", "nobodys", code=1)
        self.assertIn('no answer from shard "acme"', unknown.stderr)

    def test_cluster_status_counts_a_broker_once_by_its_endpoint_and_its_http(self):
        self.lose("rest")
        self.shards.arguments = ("--http", "127.0.0.1:0")
        self.shards.start("rest")
        good = json.loads(self.lanemq("cluster", "status", "--json", "--http", self.shards.brokers["rest"].http).stdout)
        self.assertIn('shard "rest": one broker serves from its own store', good["says"])
        second = self.room.start(harness.Broker("--config", self.shards.config, "--shard", "rest", "--store", "memory",
                                                **harness.fixed_endpoints()))
        both = f"{self.clients('rest')},{second.clients}"
        done = subprocess.run([harness.program("lanemq"), "--broker", both, "cluster", "status"], capture_output=True, text=True,
                              timeout=harness.PATIENCE)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn('shard "rest": 2 brokers serve shard rest, each from a store of its own\n', done.stdout)

    def test_cluster_status_finds_the_brokers_of_all_shards(self):
        self.lose("chat")
        done = self.lanemq("cluster", "status", code=1)
        table, verdict = done.stdout.splitlines()[:4], done.stdout.splitlines()[4:]
        self.assertEqual(table[0].split()[:2], ["ENDPOINT", "shard"])
        self.assertEqual({tuple(line.split()[:2]) for line in table[1:]}, {(self.clients(name), name) for name in RULES})
        self.assertEqual(verdict, ['shard "acme": one broker serves from its own store', 'shard "chat": no broker answers',
                                   'shard "rest": one broker serves from its own store'])
        self.shards.start("chat")
        document = json.loads(self.lanemq("cluster", "status", "--json").stdout)
        self.assertTrue(document["good"])
        self.assertEqual({member["shard"] for member in document["members"]}, set(RULES))

    def test_what_waits_at_a_shard_waits_there_though_another_one_was_named_too(self):
        self.submit("--service", "echo", "--id", "kept", "--delay", "4s", "--no-wait", "answer")
        asker = self.shards.operator("rest")
        for seconds in (0.5, 2, 8):  # no word comes to who waits but that of its first ping, 0.3 s later, which leaves no trace
            waits = self.room.start(harness.Process(harness.program("lanemq"), "--broker", f"{self.clients('rest')},{self.clients('acme')}",
                                                    "--connect-timeout", "1s", "fetch", "--wait", "60s", "kept"))
            harness.wait_until(lambda: asker.ask("admin", {"do": "job", "id": "kept"}).fields.get("waiters") == 1, "that it waits")
            harness.pace(seconds)
            self.lose("rest")
            noticed = lambda waits=waits: "has answered for" in waits.stderr()
            harness.wait_until(lambda waits=waits: noticed() or waits.process.poll() is not None, "that it has noticed")
            self.shards.start("rest")
            if noticed():
                break
        self.work("rest", "echo=echo")
        self.assertEqual(waits.wait(), 0, waits.stderr())
        self.assertNotIn(self.clients("acme"), waits.stderr())

    def test_a_watch_is_at_all_shards(self):
        watch = self.room.start(harness.Process(harness.program("lanemq"), "--broker", self.clients("rest"), "watch", "--json"))
        begun = {json.loads(watch.line()).get("shard") for _ in RULES}
        self.assertLessEqual({"acme", "chat"}, begun)
        self.submit("--service", "openai", "--id", "a", "--no-wait", "x")
        self.submit("--service", "echo", "--id", "b", "--no-wait", "x")
        told = {}
        while len(told) < 2:
            change = json.loads(watch.line())
            if change["what"] in ("accepted", "queued"):
                told[change["id"]] = change["shard"]
        self.assertEqual(told, {"a": "chat", "b": "rest"})


class GatewayCase(Case):
    def url(self, process):
        line = process.line()
        self.assertTrue(line.startswith("ready http"), line + process.stderr())
        return line.removeprefix("ready ").strip()

    def begin(self, *brokers, config=""):
        path = os.path.join(self.shards.folder.name, "gateway.toml")
        with open(path, "w") as file:
            file.write(config)
        gateway = self.room.start(harness.Process(
            harness.program("lanemq-gateway"), "--broker", ",".join(self.clients(name) for name in brokers or ["rest"]),
            "--listen", "127.0.0.1:0", "--broker-wait", "5s", "--state", os.path.join(self.shards.folder.name, "state"), "--config", path))
        self.base = self.url(gateway)
        return gateway

    def ask(self, method, path, document=None, key=None, headers=None):
        host = urllib.parse.urlsplit(self.base)
        headers = {**(headers or {}), **({"authorization": f"Bearer {key}"} if key else {})}
        with contextlib.closing(http.client.HTTPConnection(host.hostname, host.port, timeout=harness.PATIENCE)) as connection:
            connection.request(method, path, None if document is None else json.dumps(document), headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def chat(self, key=None, headers=None):
        return self.ask("POST", "/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "hi"}]}, key,
                        headers)

    def upstream(self):
        return self.url(self.room.start(harness.Process(harness.program("lanemq-upstream"), "--latency-ms", "1", "--keys",
                                                        UPSTREAM_KEY)))


class Gateway(GatewayCase):
    def setUp(self):
        super().setUp()
        self.work("chat", f"openai=openai:{self.upstream()}/v1")
        self.work("rest", "echo=echo")
        self.gateway = self.begin()

    def leave(self, service, body="x"):
        status, text = self.ask("POST", "/v1/jobs", {"service": service, "body": body})
        self.assertEqual(status, 202, text)
        return json.loads(text)["id"]

    def test_requests_go_to_their_shards_and_left_jobs_outlive_the_gateway(self):
        self.assertEqual(self.chat()[0], 200)
        self.assertEqual(self.accepted("chat"), 1)
        kept = self.leave("echo")
        other = json.loads(self.ask("POST", "/v1/jobs", {"request": {"endpoint": "/v1/chat/completions", "body": {
            "model": "m", "messages": [{"role": "user", "content": "hi"}]}}})[1])["id"]
        self.assertEqual(self.accepted("chat"), 2)
        self.gateway.kill()
        self.begin()
        for name in (kept, other):
            harness.wait_until(lambda name=name: json.loads(self.ask("GET", f"/v1/jobs/{name}")[1]).get("state") == "succeeded", name)
        self.assertEqual(self.ask("GET", "/v1/jobs/nobodys")[0], 404)

    def test_it_goes_on_while_the_shard_of_its_own_endpoint_is_away(self):
        self.assertEqual(self.chat()[0], 200)
        for name in RULES:
            harness.wait_until(lambda name=name: f"shard {name} answers\n" in self.ask("GET", "/readyz")[1], name)
        self.lose("rest")
        harness.wait_until(lambda: "no answer from shard rest\n" in self.ask("GET", "/readyz")[1], "that it is noticed")
        status, ready = self.ask("GET", "/readyz")
        self.assertEqual((status, "shard chat answers\n" in ready), (200, True), ready)
        self.assertEqual(self.chat()[0], 200)
        status, text = self.ask("POST", "/v1/jobs", {"service": "echo", "body": "x"})
        self.assertEqual((status, 'shard \\"rest\\"' in text), (503, True), text)
        metrics = self.ask("GET", "/metrics")[1]
        for shard, value in (("acme", 1), ("chat", 1), ("rest", 0)):
            self.assertIn(f'lanemq_gateway_broker_connected{{shard="{shard}"}} {value}', metrics)
        self.lose("chat")
        self.lose("acme")
        harness.wait_until(lambda: self.ask("GET", "/readyz")[0] == 503, "that all are away")
        self.assertEqual(self.chat()[0], 503)
        self.shards.start()
        harness.wait_until(lambda: self.chat()[0] == 200, "that chat is back")
        harness.wait_until(lambda: "no answer" not in self.ask("GET", "/readyz")[1], "that all are back")
        name = self.leave("echo")
        harness.wait_until(lambda: json.loads(self.ask("GET", f"/v1/jobs/{name}")[1]).get("state") == "succeeded", name)

    def test_one_endpoint_of_each_shard_is_enough_to_start(self):
        self.gateway.kill()
        self.lose("acme")
        self.begin("acme", "rest")
        harness.wait_until(lambda: self.ask("GET", "/readyz")[0] == 200, "that it is ready")
        self.assertEqual(self.chat()[0], 200)
        name = self.leave("echo")
        harness.wait_until(lambda: json.loads(self.ask("GET", f"/v1/jobs/{name}")[1]).get("state") == "succeeded", name)

    def test_a_shard_that_is_away_holds_up_its_own_requests_alone(self):
        self.assertEqual(self.chat()[0], 200)
        self.lose("chat")
        status, text = self.chat()
        self.assertEqual(status, 503, text)
        self.assertIn('shard \\"chat\\"', text)
        self.assertIn('"unavailable"', text)
        status, ready = self.ask("GET", "/readyz")
        self.assertEqual((status, "no answer from shard chat" in ready), (200, True), ready)
        metrics = self.ask("GET", "/metrics")[1]
        for shard, value in (("acme", 1), ("chat", 0), ("rest", 1)):
            self.assertIn(f'lanemq_gateway_broker_connected{{shard="{shard}"}} {value}', metrics)
        name = self.leave("echo")
        harness.wait_until(lambda: json.loads(self.ask("GET", f"/v1/jobs/{name}")[1]).get("state") == "succeeded", name)
        self.shards.start("chat")
        harness.wait_until(lambda: self.chat()[0] == 200, "that it is back")


def key_of(client, more=""):
    return (f'[[key]]\nname = "{client}"\nsha256 = "{hashlib.sha256(client.encode()).hexdigest()}"\n'
            f'client = "{client}"\n{more}\n')


class GatewayOfTenants(GatewayCase):
    """Brokers alone know the tenants of the gateway's clients, and the shard that the rules lead it to is away."""

    rules = {"one": 'match = { tenant = "zeta" }', "two": ""}
    tenants = '[clients."zeta-*"]\ntenant = "zeta"\n'

    def setUp(self):
        super().setUp()
        self.work("one", f"openai=openai:{self.upstream()}/v1", "echo=echo")
        self.shards.brokers["two"].signal(signal.SIGSTOP)
        self.addCleanup(self.shards.brokers["two"].signal, signal.SIGCONT)
        self.begin("one", config=key_of("zeta-2", 'services = ["openai", "echo"]') + key_of("other") + key_of("zeta-3", "requests_per_minute = 60"))
        harness.wait_until(lambda: "no answer from shard two\n" in self.ask("GET", "/readyz")[1], "that it is noticed")

    def test_a_shard_that_answers_takes_the_jobs_of_a_client_that_was_never_heard_of(self):
        for _ in range(2):
            status, text = self.chat("zeta-2")
            self.assertEqual(status, 200, text)
        status, text = self.ask("POST", "/v1/jobs", {"service": "echo", "body": "x"}, "zeta-2")
        self.assertEqual(status, 202, text)
        for _ in range(2):
            status, text = self.chat("zeta-2", {"idempotency-key": "k"})
            self.assertEqual(status, 200, text)
        self.assertEqual(self.accepted("one"), 4)

    def test_a_client_whose_shard_is_the_silent_one_is_told_so(self):
        for _ in range(2):
            status, text = self.chat("other")
            self.assertEqual((status, 'shard \\"two\\"' in text), (503, True), text)
        self.assertEqual(self.accepted("one", "sent_on"), 1)
        self.shards.brokers["two"].signal(signal.SIGCONT)
        self.work("two", f"openai=openai:{self.upstream()}/v1")
        harness.wait_until(lambda: self.chat("other")[0] == 200, "that it is back")

    def test_calls_of_a_key_with_limits_name_the_shard_that_has_them(self):
        status, text = self.chat("zeta-3")
        self.assertEqual((status, 'shard \\"two\\"' in text), (503, True), text)


if __name__ == "__main__":
    unittest.main()
