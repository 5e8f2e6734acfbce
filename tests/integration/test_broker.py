# SPDX-License-Identifier: Apache-2.0
"""The program: what it prints, its exit codes, its configuration, its stats document, and how it stops."""

import os
import re
import signal
import subprocess
import tempfile
import unittest

import harness
from pages import text_of


def run(*arguments, **environment):
    """Runs a broker that is not expected to serve; tells exit code, stdout and stderr."""
    done = subprocess.run(
        [harness.program("lanemq-broker"), *arguments],
        env={**os.environ, "LANEMQ_STORE": "memory", **environment},
        capture_output=True,
        text=True,
        timeout=harness.PATIENCE,
    )
    return done.returncode, done.stdout, done.stderr


class Program(unittest.TestCase):
    def assert_refused(self, code, *parts, arguments=(), **environment):
        exit_code, output, errors = run(*arguments, **environment)
        self.assertEqual((exit_code, output), (code, ""), errors)
        for part in parts:
            self.assertIn(part, errors)

    def test_help_and_version_are_said_on_stdout(self):
        code, output, _ = run("--help")
        self.assertEqual(code, 0)
        for word in ("--clients", "--workers", "--store", "--set", "--config", "--log-level", "Exit codes"):
            self.assertIn(word, output)
        code, output, _ = run("--version")
        self.assertEqual(code, 0)
        self.assertRegex(output, r"^lanemq-broker \d+\.\d+\.\d+(?:[~+][\w.]+)?\n$")

    def test_wrong_usage_exits_with_2(self):
        for arguments, parts in (
            (["--no-such-flag"], ["--no-such-flag"]),
            (["positional"], ["positional"]),
            (["--set"], ["--set"]),
            (["--log-level", "loud"], ["loud", "debug, info"]),
            (["--store", "floppy"], ["floppy", "sqlite:PATH", "memory"]),
            (["--check-store"], ["memory", "sqlite:PATH"]),
            (["--config", "/no/such/file.toml"], ["/no/such/file.toml"]),
            (["--clients", "tcp://0.0.0.0:*"], ["tcp://0.0.0.0:*", "--insecure"]),
            (["--workers", "tcp://*:*"], ["--insecure"]),
        ):
            with self.subTest(arguments=arguments):
                self.assert_refused(2, *parts, arguments=arguments)

    def test_wrong_settings_exit_with_2_and_say_what_was_meant(self):
        for setting, *parts in (
            ("drain_timeout", "key=value"),
            ("drain_timeuot=1s", "drain_timeuot", 'did you mean "drain_timeout"?'),
            ("drain_timeout=1", '"1"', "unit"),
            ("drain_timeout=-1s", '"-1s"'),
            ("drain_timeout=", "unit"),
            ("attempts_max=0", "1..1000"),
            ("attempts_max=many", '"many"'),
            ("body_bytes_max=64", "unit"),
            ("lane.express.depth_max=5", "express"),
            ("lane.normal.depht_max=5", 'did you mean "depth_max"?'),
            ("lane.normal.depth_max=0", "at least 1"),
            ("lane.normal=5", "lane.normal"),
            ("lane.high.default=true", "default"),
            ("lane.normal.timeout=0s", "lane.normal.timeout"),
            ("budget.api.requests_per_fortnight=5", "requests_per_fortnight"),
            ("budget.api.window=round", "sliding or bucket"),
            ("budget.api.match.service=echo", '"api"', "limits"),
            ("budget.api.capacity.requests_per_minute=5", "limit"),
            ("heartbeat=1ms", "heartbeat"),
            ("insecure=maybe", "true or false"),
        ):
            with self.subTest(setting=setting):
                self.assert_refused(2, *parts, arguments=["--set", setting])

    def test_a_wrong_environment_exits_with_2(self):
        self.assert_refused(2, "LANEMQ_HEARTBEAT", LANEMQ_HEARTBEAT="often")

    def test_a_wrong_file_is_told_with_its_place(self):
        for text, *parts in (
            ("heartbeat = ", ":1:"),
            ("\nheartbeat = 5", ":2:", "heartbeat", "unit"),
            ('\n\nhartbeat = "1s"', ":3:", 'did you mean "heartbeat"?'),
            ('[[lane]]\ntimeout = "1s"', "name"),
            ('[[budget]]\nname = "b"\nlimits = { requests_per_minute = "x" }', '"x"'),
        ):
            with self.subTest(text=text), tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
                file.write(text)
                file.flush()
                self.assert_refused(2, file.name, *parts, arguments=["--config", file.name])

    def test_lanes_that_do_not_fit_together_exit_with_2(self):
        for text, *parts in (
            ('[[lane]]\nname = "a"', "default"),
            ('[[lane]]\nname = "a"\ndefault = true\n[[lane]]\nname = "b"\ndefault = true', "default"),
            ('[[lane]]\nname = "a"\ndefault = true\n[[lane]]\nname = "a"', '"a"', "twice"),
        ):
            with self.subTest(text=text), tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
                file.write(text)
                file.flush()
                self.assert_refused(2, *parts, arguments=["--config", file.name])

    def test_an_endpoint_in_use_exits_with_3(self):
        room = harness.Room()
        self.addCleanup(room.close)
        broker = room.start_broker()
        port = broker.clients.rsplit(":", 1)[1]

        self.assert_refused(3, "cannot bind", "--clients", arguments=["--clients", f"tcp://127.0.0.1:{port}"])

    def test_what_is_no_endpoint_exits_with_3_or_2(self):
        for endpoint in ("127.0.0.1:5570", "tcp://127.0.0.1", "smoke://signal", "tcp://no-such-interface:*",
                         "tcp://127.0.0.1:99999", "tcp://127.0.0.1:80x"):
            with self.subTest(endpoint=endpoint):
                code, output, errors = run("--clients", endpoint)
                self.assertIn(code, (2, 3), errors)
                self.assertEqual(output, "")
                self.assertTrue(errors)

    def test_the_configuration_it_prints_is_one_it_takes(self):
        code, printed, errors = run("--set", "heartbeat=250ms", "--set", "budget.api.requests_per_minute=5", "--print-config")
        self.assertEqual(code, 0, errors)
        self.assertIn('heartbeat = "250ms"', printed)
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(printed)
            file.flush()
            self.assertEqual(run("--config", file.name, "--print-config"), (0, printed, ""))
            self.assertEqual(run("--config", file.name, "--check")[0], 0)


class Settings(harness.Case):
    arguments = None

    def interval(self):
        return self.room.worker(welcome=False).get("welcome").fields["heartbeat_ms"]

    def test_come_from_file_then_environment_then_flags(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('heartbeat = "300ms"\nattempts_max = 1\n')
            file.flush()
            self.room.start_broker("--config", file.name)
            self.assertEqual(self.interval(), 300)
            os.environ["LANEMQ_HEARTBEAT"] = "400ms"
            self.addCleanup(os.environ.pop, "LANEMQ_HEARTBEAT")
            self.room.start_broker("--config", file.name)
            self.assertEqual(self.interval(), 400)
            self.room.start_broker("--config", file.name, "--set", "heartbeat=500ms")
            self.assertEqual(self.interval(), 500)

    def test_may_name_other_lanes(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('[[lane]]\nname = "fast"\n[[lane]]\nname = "slow"\ndefault = true\ntimeout = "100ms"\n')
            file.flush()
            self.room.start_broker("--config", file.name)
        client = self.room.client()
        self.assertEqual(list(self.room.stats()["lanes"]), ["fast", "slow"])
        client.submit()
        self.assert_error(client.get(), "deadline", "slow")
        client.submit(lane="normal")
        self.assert_error(client.get(), "bad_request", "fast, slow")


class Endpoints(harness.Case):
    arguments = None

    def test_that_are_printed_can_be_given_back(self):
        broker = self.room.start_broker()
        broker.stop()
        again = self.room.start_broker(clients=broker.clients, workers=broker.workers, admin=broker.admin)
        self.assertEqual(again.ready_line, broker.ready_line)

    def test_may_be_files(self):
        with tempfile.TemporaryDirectory() as folder:
            self.room.start_broker(clients=f"ipc://{folder}/clients", workers=f"ipc://{folder}/workers")
            worker, client = self.room.worker(), self.room.client()
            client.submit(body=b"x")
            worker.echo(worker.get("job"))
            self.assertEqual(client.get("result").body, b"x")
            self.room.kill()


class Stopping(harness.Case):
    arguments = (*harness.Case.arguments, "--set", "drain_timeout=600s")

    def test_an_idle_broker_stops_at_once(self):
        self.room.worker()
        for number in (signal.SIGTERM, signal.SIGINT):
            broker = self.room.start_broker()
            broker.signal(number)
            self.assertEqual(broker.wait(), 0)

    def test_a_drain_hands_back_what_waits_and_finishes_what_runs(self):
        worker, client = self.room.worker(), self.room.client()
        client.submit(body=b"running", ref="running")
        job = worker.get("job")
        for ref in range(3):
            client.submit(ref=ref)
        client.submit("none", ref=3)
        self.room.stats_when(lambda stats: stats["lanes"]["normal"]["queued"] == 4, "the queue")

        self.room.broker.signal(signal.SIGTERM)

        handed_back = [client.get() for _ in range(4)]
        for message in handed_back:
            self.assert_error(message, "draining", "submit")
            self.assertGreater(message.fields["retry_after_ms"], 0)
        self.assertEqual([message.fields["ref"] for message in handed_back], [0, 1, 2, 3])
        client.submit(ref="new")
        self.assert_error(client.get(), "draining")
        self.assertEqual(client.ask("ping").op, "pong")
        worker.echo(job)
        result = client.get("result")
        self.assertEqual((result.body, result.fields["ref"]), (b"running", "running"))
        self.assertEqual(self.room.broker.wait(), 0)

    def test_a_worker_learns_that_its_last_outcome_is_safe(self):
        worker, client = self.room.worker(), self.room.client()
        client.submit(body=b"x")
        job = worker.get("job")
        self.room.broker.signal(signal.SIGTERM)
        self.room.pump(lambda: "broker.draining" in self.room.broker.stderr(), "that it stops")
        worker.echo(job)
        client.get("result")
        self.assertEqual(self.room.broker.wait(), 0)

    def test_a_second_signal_stops_at_once(self):
        worker, client = self.room.worker(), self.room.client()
        client.submit()
        worker.get("job")
        self.room.broker.signal(signal.SIGTERM)
        self.room.stats_when(lambda stats: client.ask("submit", {"service": "x"}).fields["code"] == "draining", "a drain")
        self.room.broker.signal(signal.SIGTERM)
        self.assert_error(client.get(), "draining")
        self.assertEqual(self.room.broker.wait(), 0)


class ShortDrain(harness.Case):
    arguments = (*harness.Case.arguments, "--set", "drain_timeout=200ms")

    def test_gives_up_what_does_not_finish(self):
        worker, client = self.room.worker(), self.room.client()
        client.submit()
        job = worker.get("job")
        self.room.broker.signal(signal.SIGTERM)
        self.assert_error(client.get(), "draining", "drain_timeout")
        cancel = worker.get("cancel").fields
        self.assertEqual((cancel["job"], cancel["reason"]), (job.fields["job"], "draining"))
        self.assertEqual(self.room.broker.wait(), 0)


# Of brokers of shards alone (test_shards).
OF_SHARDS = ("shard", "bank", "sent_on")
# Only where more than 32 services fail.
OF_MANY_UPSTREAMS = ("upstreams_left_out",)
# Of `store`, where several brokers share it: test_cluster_operating.py looks for these.
OF_SHARED_STORES = {"role", "instance", "epoch", "since_commit_ms", "replication", "transactions", "transaction_writes",
                    "transaction_bytes", "transaction_ms", "doubts_resolved", "dead_rows", "oldest_snapshot_ms", "standbys",
                    "candidates"}


def names_on_the_page():
    """Every field of the stats document that the page lists, as paths."""
    chapter = text_of("docs/protocol/operating.md").split("## The stats document\n", 1)[1].split("\n## ", 1)[0].split("\n### ", 1)[0]
    for row in re.findall(r"^\| (`.*?) \|", chapter, re.MULTILINE):
        first, *more = re.findall(r"`([^`]+)`", row)
        yield first.split(".")
        for name in more:
            yield [*first.split(".")[:-1], name]


class Stats(harness.Case):
    arguments = (*harness.Case.arguments, "--set", "budget.api.requests_per_minute=5", "--set", "budget.api.match.service=x", "--set",
                 "budget.api.keys=k1")

    def test_have_every_field_that_the_page_lists(self):
        # Only a store on a disk tells of its room.
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.room.broker.stop()
        self.room.start_broker(*self.arguments, "--store", f"sqlite:{folder}/store.db")
        worker, client = self.room.worker(), self.room.client()
        of_budget = self.room.worker(name="x", services=["x"])
        client.submit(service="x", model="paused", timeout_ms=3_600_000)
        of_budget.hand_in(of_budget.get("job"), "error", **{"class": "limited", "code": "upstream_429"}, message="m", retry_after_ms=60_000)
        for _ in range(5):
            client.submit(attempts_max=1)
            worker.hand_in(worker.get("job"), "error", **{"class": "retry", "code": "connect"}, message="m")
            client.get("error")
        client.submit(service="nobody")
        self.room.worker(name="leaves", services=["leaves"])
        self.room.operator().ask("admin", {"do": "drain", "name": "leaves"}, expect="admin")
        client.submit(service="leaves")
        of_group = self.room.worker(name="of a group", services=["grouped"])
        for _ in range(2):
            client.submit(service="grouped", group="g", group_size=3)
        of_group.echo(of_group.get("job"))
        for number in range(9):  # of both lists 8 are told
            client.submit(service=f"nobody-{number}")
            client.settled()
            self.room.operator().ask("admin", {"do": "pause", "what": "service", "name": f"nobody-{number}"}, expect="admin")
        stats = self.room.stats_when(lambda stats: stats.get("unserved_left_out") == 3 and stats["groups"]["g"]["succeeded"] == 1,
                                     "the jobs that no worker serves, and one of a group that ended")
        paths = list(names_on_the_page())
        self.assertGreater(len(paths), 20)
        for path in paths:
            if path[0] in OF_MANY_UPSTREAMS or path[0] in OF_SHARDS or path[-1] in OF_SHARDS or (path[0] == "store" and path[1] in OF_SHARED_STORES):
                continue
            with self.subTest(path=".".join(path)):
                places = [stats]
                for name in path:
                    # A field may be there only where there is something to say: of some budgets, not of all.
                    places = [v for place in places for v in (place.values() if name.isupper() else [place[n] for n in place if n == name])]
                self.assertTrue(places)

    def test_count_what_happened(self):
        worker, client = self.room.worker(name="w", lanes=["low", "high"]), self.room.client()
        for number in range(3):
            client.submit(lane="low", body=b"x" * 100)
        for op in ("result", "result", "error"):
            job = worker.get("job")
            worker.hand_in(job, op, **({"class": "permanent"} if op == "error" else {}))
            client.get()
        client.submit(lane="high")
        client.submit(lane="high", body=b"x" * 1000)
        worker.get("job")
        stats = self.room.stats_when(lambda stats: stats["lanes"]["high"]["queued"] == 1, "a queued job")

        low, high = stats["lanes"]["low"], stats["lanes"]["high"]
        self.assertEqual([low[name] for name in ("accepted", "succeeded", "failed", "queued", "running")], [3, 2, 1, 0, 0])
        self.assertEqual([high[name] for name in ("accepted", "queued", "delayed", "running")], [2, 1, 0, 1])
        self.assertGreaterEqual(high["bytes"], 1000)
        for times in (low["wait_ms"], low["run_ms"]):
            self.assertLessEqual(0, times["p50"])
            self.assertLessEqual(times["p50"], times["p99"])
            self.assertLessEqual(times["p99"], times["max"] * 1.02 + 0.01)
        workers = stats["workers"]
        self.assertEqual([workers[n] for n in ("connected", "reserved", "capacity", "running")], [1, 1, 1, 1])
        self.assertEqual(stats["results"]["kept"], 3)
        self.assertGreater(stats["memory_bytes"], 1000)
        self.assertGreater(stats["resident_bytes"], stats["memory_bytes"])

    def test_memory_goes_back_when_jobs_are_forgotten(self):
        worker, client = self.room.worker(), self.room.client()
        for _ in range(10):
            client.submit(body=b"x" * 100000, retain_ms=0)
        self.assertGreater(self.room.stats_when(lambda s: s["memory_bytes"] > 10**6, "the jobs")["memory_bytes"], 10**6)
        for _ in range(10):
            worker.echo(worker.get("job"))
            client.get("result")
        self.assertEqual(self.room.stats()["memory_bytes"], 0)

    def test_oldest_tells_the_age_of_the_longest_wait(self):
        client = self.room.client()
        client.submit("none")
        stats = self.room.stats_when(lambda stats: stats["lanes"]["normal"]["oldest_ms"] >= 50, "an age of 50 ms")
        self.assertLessEqual(stats["lanes"]["normal"]["oldest_ms"], stats["uptime_ms"])


if __name__ == "__main__":
    unittest.main()
