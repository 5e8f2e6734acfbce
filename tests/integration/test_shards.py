# SPDX-License-Identifier: Apache-2.0
"""Several owners side by side, each of a shard: what docs/cluster.md says of them, with real brokers."""

import subprocess
import unittest

import harness
from shards_stage import RULES, Shards

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
                                  self.shards.store("acme"), "--admin", "tcp://127.0.0.1:*"],
                                 capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(started.returncode, 4, started.stderr)
        self.assertIn('the jobs of shard "acme"', started.stderr)
        alone = harness.Broker(store=self.shards.store("acme"))  # shards are given up
        self.room.start(alone)
        self.assertEqual(alone.stop(), 0)
        other = self.room.start(harness.Broker("--config", self.shards.config, "--shard", "rest",
                                               store=self.shards.store("acme")))
        self.assertEqual(other.stop(), 0)


class Spans(Case):
    """Budgets that count jobs of several shards."""

    def check(self, budget):
        self.shards.write(TENANTS + budget)
        return subprocess.run([harness.program("lanemq-broker"), "--config", self.shards.config, "--shard", "rest", "--store",
                               "memory", "--check"], capture_output=True, text=True, timeout=harness.PATIENCE)

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


if __name__ == "__main__":
    unittest.main()
