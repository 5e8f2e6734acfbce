# SPDX-License-Identifier: Apache-2.0
"""Pools of keys and a configuration that changes, in a broker, a worker and an upstream of their own: nothing that the
operator does, and nothing that happens to a key, costs a job."""

import json
import os
import signal
import tempfile
import time
import urllib.error
import urllib.request

import harness

MODEL = "m+hold"
BODY = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "Say something."}], "max_tokens": 8}).encode()
SECRETS = {name: f"sk-{name}-{'0123456789abcdef' * 2}" for name in ("k1", "k2", "k3")}
CONFIG = """
[[budget]]
name = "up"
match = {{ service = "chat" }}
window = "bucket"
keys = [ {keys} ]
limits = {{ concurrency = {concurrency} }}

[clients.bulk]
in_flight_max = {in_flight}
"""
LIMITS = "limits = { requests_per_minute = 60000 }, capacity = { requests_per_minute = 6000 }"


class Pools(harness.Case):
    arguments = None  # each test starts its broker with a file

    def setUp(self):
        super().setUp()
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.path = os.path.join(folder, "broker.toml")
        self.done = 0

    def configure(self, *keys, concurrency=4, in_flight=100):
        with open(self.path + ".new", "w") as out:
            out.write(CONFIG.format(keys=", ".join(keys), concurrency=concurrency, in_flight=in_flight))
        os.rename(self.path + ".new", self.path)

    def key(self, name, more=""):
        return f'{{ name = "{name}", {LIMITS}{more} }}'

    def start(self, held=False):
        """`held`: the upstream answers no job before release()."""
        keys = ",".join(f"{name}={secret}" for name, secret in SECRETS.items())
        self.broker = self.room.start_broker("--config", self.path, "--log-level", "debug")
        process = self.room.start(harness.Process(harness.program("lanemq-upstream"), "--keys", keys, "--latency-ms",
                                                  "5"))
        self.upstream = process.line().removeprefix("ready ").strip()
        if not held:
            self.release()
        words = [word for name, secret in SECRETS.items() for word in ("--key", f"chat/{name}=env:{name.upper()}")]
        worker = self.room.start(harness.Process(
            harness.program("lanemq-worker"), "--broker", self.broker.workers, "--capacity", "16", "--service",
            f"chat=http:{self.upstream}/v1/chat/completions", "--http-header", "Authorization: Bearer {key}", *words,
            env={**os.environ, **{name.upper(): secret for name, secret in SECRETS.items()}}))
        self.assertTrue(worker.line().startswith("ready"))
        self.client = self.room.client()

    def ask_upstream(self, path, document=None):
        body = None if document is None else json.dumps(document).encode()
        with urllib.request.urlopen(urllib.request.Request(self.upstream + path, body), timeout=harness.PATIENCE) as answer:
            return json.load(answer)

    def release(self):
        harness.release(self.upstream, MODEL)

    def accepted(self):
        return {name: key["accepted"] for name, key in self.ask_upstream("/stats")["keys"].items()}

    def submit(self, count, **fields):
        for _ in range(count):
            self.client.submit("chat", BODY, **fields)

    def answers(self, count):
        """All of them are results."""
        for _ in range(count):
            answer = self.client.get()
            self.assertEqual(answer.op, "result", answer)
        self.done += count

    def reload(self, expected="config.reloaded"):
        before = self.broker.stderr().count("config.reload")
        self.broker.signal(signal.SIGHUP)
        harness.wait_until(lambda: self.broker.stderr().count("config.reload") > before, "the configuration to be read")
        self.assertIn(expected, self.broker.stderr())

    def test_keys_come_and_go_and_no_job_fails(self):
        self.configure(self.key("k1"), self.key("k2"))
        self.start()
        self.submit(100)
        self.answers(40)
        # k2 is drained and k3 comes, while jobs run.
        self.configure(self.key("k1"), self.key("k2", ", draining = true"), self.key("k3"))
        self.reload()
        self.answers(60)
        before = self.accepted()
        self.assertGreater(before["k1"], 10)
        self.assertGreater(before["k2"], 10)
        self.submit(60)
        self.answers(60)
        after = self.accepted()
        self.assertEqual(after["k2"], before["k2"])
        self.assertGreater(after["k3"], before["k3"] + 10)
        # k1 is not named any more.
        self.configure(self.key("k3"))
        self.reload()
        self.submit(20)
        self.answers(20)
        self.assertEqual(self.accepted()["k1"], after["k1"])
        states = {name: key["state"] for name, key in self.room.stats()["keys"]["up"].items()}
        self.assertEqual(states, {"k1": "draining", "k2": "draining", "k3": "active"})
        for secret in SECRETS.values():
            self.assertNotIn(secret, self.broker.stderr())

    def test_what_one_client_asks_for_takes_nothing_from_others(self):
        self.configure(self.key("k1"), self.key("k2"), self.key("k3"))
        self.start()

        def refused(model, count, code, **fields):
            body = json.dumps({**json.loads(BODY), "model": model}).encode()
            for _ in range(count):
                self.client.submit("chat", body, client="noisy", **fields)
            answers = [self.client.get() for _ in range(count)]
            self.assertEqual({(answer.op, answer.fields.get("code")) for answer in answers}, {("error", code)})
            return answers

        # What the account may not use is no matter of its keys, and a job's own time is no matter of the upstream.
        for answer in refused("m+status=403", 6, "upstream_rejected"):
            self.assertEqual(answer.fields.get("upstream_status"), 403)
        refused("m+delay=3000", 24, "deadline", timeout_ms=60)
        self.submit(6, client="other")
        self.answers(6)
        self.assertEqual({key["state"] for key in self.room.stats()["keys"]["up"].values()}, {"active"})
        self.assertNotIn("key.spent", self.broker.stderr())
        self.assertNotIn("upstream.opened", self.broker.stderr())

    def test_a_key_that_the_upstream_refuses_costs_no_job(self):
        self.configure(self.key("k1"), self.key("k2"), self.key("k3"))
        self.start()
        self.submit(60, attempts_max=1)
        self.answers(30)
        # Some jobs are under way, and there are more behind the key's death however fast those are.
        self.ask_upstream("/admin/keys/k1", {"dead": True})
        self.submit(60, attempts_max=1)
        self.answers(60)
        self.ask_upstream("/admin/keys/k2", {"dead": "quota"})
        self.submit(60, attempts_max=1)
        self.answers(90)
        keys = self.room.stats()["keys"]["up"]
        self.assertEqual([keys[name]["state"] for name in ("k1", "k2", "k3")], ["spent", "spent", "active"])
        self.assertEqual(self.broker.stderr().count("key.spent"), 2)
        # The account is in order again, and the operator says so.
        self.ask_upstream("/admin/keys/k1", {"dead": False})
        self.reload()
        before = self.accepted()["k1"]
        self.submit(30)
        self.answers(30)
        self.assertGreater(self.accepted()["k1"], before)

    def test_limits_and_clients_change_for_what_is_queued_already(self):
        self.configure(self.key("k1"), concurrency=8, in_flight=1)
        self.start(held=True)
        self.submit(40, client="bulk")
        self.room.stats_when(lambda stats: stats["lanes"]["normal"]["running"] == 1, "one at a time")
        self.configure(self.key("k1"), concurrency=6, in_flight=100)
        self.reload()
        self.room.stats_when(lambda stats: stats["lanes"]["normal"]["running"] == 6, "six at a time")
        self.release()
        self.answers(40)

    def test_a_file_that_cannot_be_used_changes_nothing(self):
        self.configure(self.key("k1"))
        self.start()
        with open(self.path, "w") as out:
            out.write("[[budget]]\nname = \"up\"\nlimits = { requests_per_minute = 0 }\n")
        self.reload("config.reload_failed")
        self.assertIn("broker.toml:3", self.broker.stderr())
        with open(self.path, "w") as out:
            out.write("\n")
        self.reload("broker.toml is empty")
        self.submit(5)
        self.answers(5)
        self.configure(self.key("k1"), concurrency=9)
        with open(self.path, "a") as out:
            out.write('[[budget]]\nname = "another"\nlimits = { concurrency = 1 }\n')
        self.reload()
        self.assertIn("config.needs_restart key=budget.another how=added", self.broker.stderr())
        self.assertEqual(self.room.stats()["budgets"]["up"]["concurrency"]["limit"], 9)


FALL_BACKS = """
[[budget]]
name = "first"
match = { service = "openai", model = "gpt-first*" }
keys = [ { name = "k1" }, { name = "k2" } ]
limits = { requests_per_minute = 60000 }
[[budget]]
name = "second"
match = { service = "openai", model = "gpt-second*" }
keys = [ { name = "k3" } ]
limits = { requests_per_minute = 60000 }
"""
DAY_IS_OVER = "+status=429+retry=7200"
ROUTES = f"""
[[model]]
name = "smart"
model = "gpt-first"
on = ["quota"]
[[model.fallback]]
model = "gpt-second"
[[model]]
name = "patient"
model = "gpt-first"
on = ["rate"]
[[model.fallback]]
model = "gpt-second"
[[model]]
name = "worn-out"
model = "gpt-first{DAY_IS_OVER}"
[[model.fallback]]
model = "gpt-second{DAY_IS_OVER}"
"""


class FallBacks(harness.Case):
    """A gateway's list of models, whose upstreams refuse all keys or all models."""

    arguments = None

    def setUp(self):
        super().setUp()
        folder = self.enterContext(tempfile.TemporaryDirectory())
        paths = {name: os.path.join(folder, name) for name in ("broker.toml", "gateway.toml")}
        for name, text in (("broker.toml", FALL_BACKS), ("gateway.toml", ROUTES)):
            with open(paths[name], "w") as out:
                out.write(text)
        broker = self.room.start_broker("--config", paths["broker.toml"])
        keys = ",".join(f"{name}={secret}" for name, secret in SECRETS.items())
        upstream = self.room.start(harness.Process(harness.program("lanemq-upstream"), "--keys", keys, "--latency-ms", "1"))
        self.upstream = upstream.line().removeprefix("ready ").strip()
        words = [word for name in SECRETS for word in ("--key", f"openai/{name}=env:{name.upper()}")]
        worker = self.room.start(harness.Process(
            harness.program("lanemq-worker"), "--broker", broker.workers, "--capacity", "16", "--service",
            f"openai=openai:{self.upstream}/v1", *words,
            env={**os.environ, **{name.upper(): secret for name, secret in SECRETS.items()}}))
        self.assertTrue(worker.line().startswith("ready"))
        gateway = self.room.start(harness.Process(
            harness.program("lanemq-gateway"), "--broker", broker.clients, "--listen", "127.0.0.1:0", "--hosts", "*",
            "--config", paths["gateway.toml"]))
        self.gateway = gateway.line().removeprefix("ready ").strip()

    def post(self, url, document, headers=None):
        request = urllib.request.Request(url, json.dumps(document).encode(), {"content-type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=harness.PATIENCE) as answer:
                return answer.status, answer.headers, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, json.load(error)

    def chat(self, model, timeout_ms=30000):
        """Status, code of the error or who answered, and how many calls the upstream had of it. At once."""
        before, began = self.calls(), time.monotonic()
        status, headers, body = self.post(self.gateway + "/v1/chat/completions", {**json.loads(BODY), "model": model},
                                          {"x-lanemq-timeout-ms": str(timeout_ms)})
        self.assertLess(time.monotonic() - began, timeout_ms / 2000, body)
        return status, body["error"]["code"] if status != 200 else headers["x-lanemq-served-by"], self.calls() - before

    def calls(self):
        with urllib.request.urlopen(self.upstream + "/stats", timeout=harness.PATIENCE) as answer:
            return json.load(answer)["calls"]

    def test_the_next_model_is_taken_while_all_keys_of_one_rest(self):
        self.post(self.upstream + "/admin/keys/k1", {"dead": True})
        self.post(self.upstream + "/admin/keys/k2", {"dead": "quota"})
        # One job takes one key out of use: the second is gone with the next one.
        self.assertEqual(self.chat("smart"), (200, "gpt-second", 3))
        self.assertEqual(self.chat("smart"), (200, "gpt-second", 2))
        self.assertEqual({key["state"] for key in self.room.stats()["keys"]["first"].values()}, {"spent"})
        # From now on nothing is asked in vain, whatever time there is.
        for timeout_ms in (30000, 600000):
            self.assertEqual(self.chat("smart", timeout_ms), (200, "gpt-second", 1))
        # Who has nowhere else to go, or not for this, hears it at once where its time is over before a key has rested.
        for model in ("gpt-first", "patient"):
            self.assertEqual(self.chat(model), (503, "upstream_quota", 0))

    def test_a_list_of_models_that_are_all_limited_ends_at_once(self):
        self.assertEqual(self.chat("worn-out"), (429, "upstream_limited", 3))
        self.assertEqual(self.chat("worn-out"), (429, "upstream_limited", 0))


if __name__ == "__main__":
    harness.unittest.main()
