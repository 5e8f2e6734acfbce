# SPDX-License-Identifier: Apache-2.0
"""A worker's own metrics and probes: what they count, whom they answer, and what they say of a worker that hangs."""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

import harness
from test_admin_http import Http
from test_metrics import series_of
from test_plugins import plugin
from test_tls import make_certificate

SECRET = "scrape-0123456789abcdef"
PROMTOOL = shutil.which("promtool")
# Fails for good where it does not read "good".
TRY = ("--service", "try=exec", *(word for part in ("/bin/sh", "-c", 'read x; [ "$x" = good ] || exit 1') for word in ("--exec", f"try.argv={part}")))


class WorkerMetrics(harness.Case):
    arguments = harness.STEADY

    def start_worker(self, *arguments, env={}):
        worker = self.room.start(harness.Process(
            harness.program("lanemq-worker"), "--broker", self.room.broker.workers, "--metrics", "127.0.0.1:0", "--capacity", "7",
            "--service", "echo=echo", *arguments, env={**os.environ, **env}))
        return worker, worker.line()

    def url(self, line):
        return re.search(r"metrics=(\S+)", line)[1]

    def text(self, http, **headers):
        status, headers, body = http.ask("GET", "/metrics", **headers)
        self.assertEqual(status, 200, body)
        self.assertTrue(headers["content-type"].startswith("text/plain; version=0.0.4"), headers)
        return body.decode()

    def value(self, http, name, **labels):
        return series_of(self.text(http)).get((name, frozenset(labels.items())))

    def when(self, http, expected, name, **labels):
        harness.wait_until(lambda: self.value(http, name, **labels) == expected, f"{name} {labels} of {expected}", pause=0.05)

    def test_calls_are_counted_by_service(self):
        _, line = self.start_worker(*TRY)
        http = Http(self.url(line))
        client = self.room.client()
        for number in range(20):
            client.submit("echo", b"x", ref=number)
        for body in (b"good\n", b"bad\n"):
            client.submit("try", body, id=body.decode().strip())
        ends = [client.get().op for _ in range(22)]
        self.assertEqual(ends.count("error"), 1)
        self.when(http, 20, "lanemq_worker_calls_succeeded_total", service="echo")
        self.when(http, 20, "lanemq_worker_call_seconds_count", service="echo")
        self.when(http, 1, "lanemq_worker_calls_succeeded_total", service="try")
        failed = {dict(labels)["code"]: value for (name, labels), value in series_of(self.text(http)).items()
                  if name == "lanemq_worker_calls_failed_total"}
        self.assertEqual(sum(failed.values()), 1, failed)
        self.assertEqual(self.value(http, "lanemq_worker_capacity"), 7)
        self.when(http, 1, "lanemq_worker_connected")  # the loop tells it twice a second
        self.when(http, 1, "lanemq_worker_welcomes_total")

    @unittest.skipUnless(PROMTOOL, "promtool is not installed")
    def test_promtool_finds_nothing(self):
        _, line = self.start_worker()
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=self.text(Http(self.url(line))), capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_what_runs_is_seen_while_it_runs(self):
        _, line = self.start_worker("--service", "slow=echo:10m")
        http = Http(self.url(line))
        client = self.room.client()
        client.submit("slow", b"x", id="one", stream=True)
        self.when(http, 1, "lanemq_worker_calls_running", service="slow")
        self.when(http, 1, "lanemq_worker_jobs_running")
        client.send("cancel", {"id": "one"})
        self.when(http, 0, "lanemq_worker_calls_running", service="slow")

    def test_a_broker_that_is_gone_makes_it_not_ready(self):
        endpoints = harness.fixed_endpoints()
        self.room.broker.kill()
        self.room.start_broker(*harness.STEADY, **endpoints)
        _, line = self.start_worker("--drain-timeout", "1s")
        http = Http(self.url(line))
        ready = lambda: http.ask("GET", "/readyz")[0]
        harness.wait_until(lambda: ready() == 200, "a worker that is ready", pause=0.05)
        self.room.broker.kill()
        harness.wait_until(lambda: ready() == 503, "a worker that is not", patience=3 * harness.PATIENCE, pause=0.05)
        # It is well all the same, and tells its figures: nobody should restart it for its broker.
        self.assertEqual(http.ask("GET", "/healthz")[0], 200)
        self.assertEqual(self.value(http, "lanemq_worker_connected"), 0)
        self.room.start_broker(*harness.STEADY, **endpoints)
        harness.wait_until(lambda: ready() == 200, "a worker that is ready again", patience=3 * harness.PATIENCE, pause=0.05)
        self.assertGreaterEqual(self.value(http, "lanemq_worker_welcomes_total"), 2)

    def test_a_loop_that_a_handler_blocks_is_not_healthy(self):
        _, line = self.start_worker("--service", "blocks=" + plugin("hostile"))
        http = Http(self.url(line))
        self.assertEqual(http.ask("GET", "/healthz")[0], 200)
        end = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "end")
        os.mkfifo(end)
        client = self.room.client()
        client.submit("blocks", f"until {end}".encode(), id="one")
        harness.wait_until(lambda: http.ask("GET", "/healthz")[0] == 503, "a worker that is not well", patience=2 * harness.PATIENCE, pause=0.1)
        status, _, body = http.ask("GET", "/metrics")
        self.assertEqual(status, 503)
        self.assertIn(b"has not turned for", body)
        with open(end, "w"):
            pass
        self.assertEqual(client.get("result").body, b"it is there")
        harness.wait_until(lambda: http.ask("GET", "/healthz")[0] == 200, "a worker that is well again", pause=0.1)

    def test_keys_and_tls(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        certificate, key = make_certificate(folder, "worker")
        _, line = self.start_worker("--metrics-key", "env:SCRAPER", "--metrics-tls-certificate", certificate, "--metrics-tls-key", key,
                                    env={"SCRAPER": SECRET})
        url = self.url(line)
        self.assertTrue(url.startswith("https://"), url)
        http = Http(url.replace("127.0.0.1", "localhost"), certificate)
        self.assertEqual(http.ask("GET", "/metrics")[0], 401)
        self.assertEqual(http.ask("GET", "/metrics", authorization="Bearer " + "x" * 30)[0], 401)
        self.text(http, authorization=f"Bearer {SECRET}")
        self.assertEqual(http.ask("GET", "/healthz")[0], 200)

    def test_a_rotated_key_and_certificate_are_read_again(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        secret = os.path.join(folder, "secret")
        certificate, key = make_certificate(folder, "worker")
        with open(secret, "w") as file:
            file.write(SECRET)
        worker, line = self.start_worker("--metrics-key", f"file:{secret}", "--metrics-tls-certificate", certificate, "--metrics-tls-key", key)
        url = self.url(line).replace("127.0.0.1", "localhost")
        self.text(Http(url, certificate), authorization=f"Bearer {SECRET}")
        with open(secret, "w") as file:
            file.write(SECRET + "-new")
        new, new_key = make_certificate(folder, "renewed")
        os.replace(new, certificate)
        os.replace(new_key, key)
        worker.signal(signal.SIGHUP)
        harness.wait_until(lambda: "secrets.read_again" in worker.stderr(), "the reload")
        http = Http(url, certificate)  # which trusts the new one alone
        harness.wait_until(lambda: http.ask("GET", "/metrics", authorization=f"Bearer {SECRET}")[0] == 401, "the old key's end", pause=0.05)
        self.text(http, authorization=f"Bearer {SECRET}-new")
        # What cannot be read changes nothing.
        os.remove(secret)
        worker.signal(signal.SIGHUP)
        harness.wait_until(lambda: "secret.kept" in worker.stderr(), "the complaint")
        self.text(http, authorization=f"Bearer {SECRET}-new")

    def test_neighbours_that_say_nothing_shut_nobody_out(self):
        _, line = self.start_worker()
        http = Http(self.url(line))
        held = [socket.create_connection((http.at.hostname, http.at.port)) for _ in range(300)]
        self.addCleanup(lambda: [one.close() for one in held])

        def answers():
            try:
                return http.ask("GET", "/healthz")[0] == 200
            except OSError:
                return False
        harness.wait_until(answers, "an answer once those who came have been looked at", pause=0.05)
        for _ in range(20):
            self.assertTrue(answers())

    def test_other_pages_reach_nothing_without_a_key(self):
        _, line = self.start_worker()
        http = Http(self.url(line))
        self.assertEqual(http.ask("GET", "/metrics", host="evil.example")[0], 403)
        self.assertEqual(http.ask("GET", "/metrics", origin="http://evil.example")[0], 403)
        self.assertEqual(http.ask("GET", "/nothing")[0], 404)
        status, headers, _ = http.ask("DELETE", "/metrics")
        self.assertEqual((status, headers["allow"]), (405, "GET, HEAD, OPTIONS"))

    def test_an_open_door_is_refused_at_the_start(self):
        for arguments, said in ((("--metrics", "0.0.0.0:0"), "metrics_key"), (("--metrics", "nowhere"), "metrics"),
                                (("--metrics", "127.0.0.1:0", "--metrics-key", "env:MISSING_SCRAPER"), "MISSING_SCRAPER"),
                                (("--metrics", "127.0.0.1:0", "--metrics-tls-key", "/nowhere"), "belong together"),
                                (("--metrics-key", "env:HOME"), "not set"),
                                (("--metrics", "127.0.0.1:0", "--metrics-tls-key", "/nowhere", "--metrics-tls-certificate", "/nowhere"),
                                 "/nowhere")):
            for check in ((), ("--check",)):
                done = self.room.run(harness.program("lanemq-worker"), "--service", "echo=echo", *arguments, *check)
                self.assertEqual(done.returncode, 2, (arguments, check, done.stderr))
                self.assertIn(said, done.stderr)

    def test_a_taken_address_is_told(self):
        _, line = self.start_worker()
        place = self.url(line).removeprefix("http://")
        done = self.room.run(harness.program("lanemq-worker"), "--service", "echo=echo", "--metrics", place)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(place, done.stderr)


if __name__ == "__main__":
    unittest.main()
