# SPDX-License-Identifier: Apache-2.0
"""Keys of an upstream: the broker names them, the worker alone knows their secrets, and they change without a stop."""

import json
import os
import signal
import tempfile
import unittest
import urllib.request

import zmq
from msgpack import packb, unpackb

import harness

BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Say something."}], "max_tokens": 8}).encode()
# Long and like nothing else, so that a search for them finds them and nothing else.
SECRETS = {name: f"sk-{name}-{'0123456789abcdef' * 2}" for name in ("env", "file", "credential", "newer", "unheard")}


class KeyBroker:
    """The workers' socket of a broker whose jobs, keys and all, the test makes up."""

    def __init__(self, context):
        self.socket = context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.endpoint = f"tcp://127.0.0.1:{self.socket.bind_to_random_port('tcp://127.0.0.1')}"
        self.worker = None
        self.handed_over = 0
        self.outcomes = {}  # job -> its message
        self.heard = b""  # every byte that a worker said

    def say(self, op, fields, *body):
        self.socket.send_multipart([self.worker, packb(["LMQ1", op, fields, *body])])

    def hand_over(self, **fields):
        self.handed_over += 1
        self.say("job", {"job": self.handed_over, "attempt": 1, "id": f"job-{self.handed_over}", **fields}, BODY)
        return self.handed_over

    def pump(self, happened, what):
        """Answers the worker until something has happened."""

        def turn():
            while not happened():
                if not self.socket.poll(50):
                    return False
                self.take_in(*self.socket.recv_multipart())
            return True

        harness.wait_until(turn, what, pause=0)

    def take_in(self, worker, header, *rest):
        self.heard += header + b"".join(rest)
        self.worker = worker
        _, op, fields, *inside = unpackb(header)
        if op == "ready":
            # It answers only while the test pumps: the worker has to bear its silence.
            self.say("welcome", {"heartbeat_ms": 20_000, "body_bytes_max": 1 << 20})
        elif op == "heartbeat":
            self.say("heartbeat", {})
        elif op in ("result", "error"):
            self.outcomes[fields["job"]] = harness.Message(op, fields, (inside or rest or [b""])[0], [], bool(inside))
            self.say("acked", {"jobs": [[fields["job"], fields.get("attempt", 1)]]})

    def outcome(self, job):
        self.pump(lambda: job in self.outcomes, f"the outcome of job {job}")
        return self.outcomes[job]


class Keys(harness.Case):
    arguments = None  # the broker is made up

    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.broker = KeyBroker(self.room.context)
        self.addCleanup(self.broker.socket.close)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        """As a file should be changed under a reader: whole, or not at all."""
        with open(self.path(name + ".new"), "w") as out:
            out.write(text)
        os.rename(self.path(name + ".new"), self.path(name))

    def start_upstream(self, *arguments):
        keys = ",".join(f"{name}={secret}" for name, secret in SECRETS.items())
        upstream = self.room.start(harness.Process(
            harness.program("lanemq-upstream"), "--keys", keys, "--log", self.path("calls"), *arguments))
        self.upstream = upstream.line().removeprefix("ready ").strip()
        return upstream

    def ask_upstream(self, path, document=None):
        body = None if document is None else json.dumps(document).encode()
        with urllib.request.urlopen(urllib.request.Request(self.upstream + path, body), timeout=harness.PATIENCE) as answer:
            return json.load(answer)

    def start_worker(self, *arguments, **variables):
        self.worker = self.room.start(harness.Process(
            harness.program("lanemq-worker"), "--broker", self.broker.endpoint, "--log-level", "debug", *arguments,
            env={**os.environ, **variables}))
        self.broker.pump(lambda: self.broker.worker, "a worker")
        self.assertTrue(self.worker.line().startswith("ready"))

    def start_with_file(self, *names):
        """A worker with a key a file each, which says the secret of that name."""
        for name in names:
            self.write(name, SECRETS[name] + "\n")
        keys = [word for name in names for word in ("--key", f"chat/{name}=file:{self.path(name)}")]
        self.start_worker("--service", f"chat=http:{self.upstream}/v1/chat/completions", "--capacity", "8",
                          "--http-header", "Authorization: Bearer {key}", *keys)

    def read_secrets_again(self):
        """Tells the worker to, and returns what it said of it."""
        before = len(self.worker.stderr())
        self.worker.signal(signal.SIGHUP)
        self.broker.pump(lambda: "secrets.read_again" in self.worker.stderr()[before:], "the secrets to be read")
        return self.worker.stderr()[before:]

    def accepted(self):
        return {name: key["accepted"] for name, key in self.ask_upstream("/stats")["keys"].items() if key["accepted"]}

    def assert_no_secret_was_said(self):
        self.worker.signal(signal.SIGTERM)
        self.assertEqual(self.worker.wait(), 0)
        for name, secret in SECRETS.items():
            self.assertNotIn(secret, self.worker.stderr(), f"the log tells the secret {name}")
            self.assertNotIn(secret.encode(), self.broker.heard, f"the broker was told the secret {name}")

    def assert_failed(self, outcome, error_class, code, *parts):
        self.assertEqual((outcome.op, outcome.fields.get("class"), outcome.fields.get("code")),
                         ("error", error_class, code), outcome)
        for part in parts:
            self.assertIn(part, outcome.fields["message"])

    def test_each_job_carries_the_secret_of_its_key(self):
        upstream = self.start_upstream("--latency-ms", "1..5")
        self.write("file", SECRETS["file"] + "\n")
        self.write("openai-3", SECRETS["credential"])
        with open(self.path("worker.toml"), "w") as out:
            out.write(f"""
[[service]]
name = "chat"
handler = "http:{self.upstream}/v1/chat/completions"
headers = {{ Authorization = "Bearer {{key}}" }}
keys = {{ env = "env:OPENAI_KEY_1", file = "file:{self.path("file")}", credential = "credential:openai-3" }}
""")
        self.start_worker("--config", self.path("worker.toml"), OPENAI_KEY_1=SECRETS["env"],
                          CREDENTIALS_DIRECTORY=self.folder)
        names = ("env", "file", "credential")

        jobs = {f"job-{self.broker.hand_over(key=name)}": name for _ in range(5) for name in names}

        self.broker.pump(lambda: len(self.broker.outcomes) == 15, "15 outcomes")
        self.assertEqual({outcome.op for outcome in self.broker.outcomes.values()}, {"result"})
        upstream.signal(signal.SIGTERM)
        upstream.wait()
        with open(self.path("calls")) as lines:
            self.assertEqual({call["job"]: call["key"] for call in map(json.loads, lines)}, jobs)
        self.assert_no_secret_was_said()

    def test_a_key_that_the_worker_lacks_fails_and_says_what_to_add(self):
        self.start_upstream("--latency-ms", "1")
        self.start_with_file("file", "credential")

        unknown = self.broker.outcome(self.broker.hand_over(key="env"))
        absent = self.broker.outcome(self.broker.hand_over())
        known = self.broker.outcome(self.broker.hand_over(key="file"))

        self.assert_failed(unknown, "retry", "unknown_key", '"env"', '"chat"', "--key chat/env=")
        self.assert_failed(absent, "permanent", "no_key", '"chat"', "budget")
        self.assertEqual(known.op, "result")
        self.assertEqual(self.accepted(), {"file": 1})
        self.assert_no_secret_was_said()

    def test_the_only_key_serves_a_job_that_names_none(self):
        self.start_upstream("--latency-ms", "1")
        self.start_with_file("file")
        self.assertEqual(self.broker.outcome(self.broker.hand_over()).op, "result")
        self.assertEqual(self.accepted(), {"file": 1})

    def test_a_dead_key_is_told_as_quota(self):
        self.start_upstream("--latency-ms", "1")
        self.start_with_file("file", "credential")
        self.ask_upstream("/admin/keys/file", {"dead": True})
        self.ask_upstream("/admin/keys/credential", {"dead": "quota"})

        revoked = self.broker.outcome(self.broker.hand_over(key="file"))
        spent = self.broker.outcome(self.broker.hand_over(key="credential"))

        self.assert_failed(revoked, "quota", "upstream_auth", "invalid_api_key")
        self.assert_failed(spent, "quota", "upstream_429", "insufficient_quota")
        self.assert_no_secret_was_said()

    def test_a_secret_changes_in_mid_stream_and_no_job_fails(self):
        self.start_upstream("--latency-ms", "20..60")
        self.start_with_file("file")
        running = set()

        def go_on_until(happened, what):
            """Keeps all places full."""

            def full_turn():
                running.difference_update(self.broker.outcomes)
                while len(running) < 8:
                    running.add(self.broker.hand_over(key="file"))
                return happened()

            self.broker.pump(full_turn, what)

        go_on_until(lambda: len(self.broker.outcomes) >= 50, "jobs with the old secret")
        self.write("file", SECRETS["newer"] + "\n")
        self.worker.signal(signal.SIGHUP)
        go_on_until(lambda: "secrets.read_again" in self.worker.stderr(), "the secret to be read again")
        with_old = set(running)
        go_on_until(lambda: not with_old & running, "the end of what ran with the old secret")
        self.ask_upstream("/admin/keys/file", {"dead": True})
        after = len(self.broker.outcomes)
        go_on_until(lambda: len(self.broker.outcomes) >= after + 50, "jobs with the new secret")
        self.broker.pump(lambda: len(self.broker.outcomes) == self.broker.handed_over, "the last outcomes")

        self.assertEqual({outcome.op for outcome in self.broker.outcomes.values()}, {"result"})
        accepted = self.accepted()
        self.assertGreaterEqual(accepted["file"], 50)
        self.assertGreaterEqual(accepted["newer"], 50)
        self.assertEqual(sum(accepted.values()), self.broker.handed_over)
        self.assertEqual(self.ask_upstream("/stats")["keys"]["file"]["refused_dead"], 0)
        self.assertIn('secret.changed service=chat secret="key file"', self.worker.stderr())
        self.assert_no_secret_was_said()

    def test_a_secret_that_cannot_be_read_again_stays_what_it_was(self):
        self.start_upstream("--latency-ms", "1")
        self.start_with_file("file", "credential")
        os.remove(self.path("file"))
        self.write("credential", SECRETS["newer"] + "\n")

        log = self.read_secrets_again()

        warning = next(line for line in log.splitlines() if "secret.kept" in line)
        self.assertIn('secret="key file"', warning)
        self.assertIn("cannot be read", warning)
        self.assertIn('secret.changed service=chat secret="key credential"', log)
        self.assertIn("secrets.read_again changed=1 kept=1", log)
        for name in ("file", "credential"):
            self.assertEqual(self.broker.outcome(self.broker.hand_over(key=name)).op, "result")
        self.assertEqual(self.accepted(), {"file": 1, "newer": 1})
        self.assert_no_secret_was_said()

    def test_a_secret_that_is_absent_at_the_start_ends_it_with_two(self):
        self.start_upstream()
        for source, part in (("env:LANEMQ_TEST_NOT_SET", "LANEMQ_TEST_NOT_SET"), ("file:/nowhere/at", "/nowhere/at"),
                             (SECRETS["unheard"], "must be SERVICE/NAME=env:VARIABLE")):
            with self.subTest(source=source):
                worker = self.room.start(harness.Process(
                    harness.program("lanemq-worker"), "--broker", self.broker.endpoint, "--service",
                    f"chat=http:{self.upstream}/", "--http-header", "Authorization: Bearer {key}", "--key", f"chat/k1={source}"))
                self.assertEqual(worker.wait(), 2)
                self.assertIn(part, worker.stderr())
                self.assertNotIn(SECRETS["unheard"], worker.stderr())


if __name__ == "__main__":
    unittest.main()
