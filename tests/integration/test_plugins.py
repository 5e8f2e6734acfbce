# SPDX-License-Identifier: Apache-2.0
"""Handlers in shared libraries, loaded by the real worker: what they do, and what of theirs a worker outlives."""

import os
import subprocess
import sys
import tempfile
import unittest

import harness
from test_peer_keys import Keys

PLUGINS = os.path.join(harness.PROGRAMS, "plugins")


def plugin(name, argument=""):
    return f"plugin:{os.path.join(PLUGINS, name)}.so" + (f":{argument}" if argument else "")


class Plugins(harness.Case):
    arguments = ("--set", "crash_max=1")

    def setUp(self):
        super().setUp()
        self.client = self.room.client()

    def start(self, *services, config="", ready=True):
        arguments = [word for service in services for word in ("--service", service)]
        if config:
            folder = self.enterContext(tempfile.TemporaryDirectory())
            path = os.path.join(folder, "worker.toml")
            with open(path, "w") as file:
                file.write(config)
            arguments += ["--config", path]
        worker = self.room.start(harness.Process(harness.program("lanemq-worker"), "--broker", self.room.broker.workers, *arguments))
        if ready:
            self.assertTrue(worker.line().startswith("ready"), worker.stderr())
        return worker

    def answer(self, service, body, **fields):
        self.client.submit(service, body=body, **fields)
        return self.client.get()

    def test_plugins_in_c_and_cpp_answer_and_stream(self):
        self.start("back=" + plugin("reverse"), config=f"""
[[service]]
name = "words"
handler = "{plugin('word_count')}"
[service.plugin]
threads = 3
""")
        self.assertEqual(self.answer("back", b"lanes").body, b"senal")
        self.assertEqual(self.answer("words", b"a b  c").body, b"3\n")
        self.client.submit("words", body=b"one two", stream=True)
        pieces = b""
        while (message := self.client.get()).op == "chunk":
            pieces += message.body
        self.assertEqual((message.op, pieces), ("result", b"1 one\n2 two\n"))

    def test_a_thousand_jobs_each_get_their_own_answer(self):
        self.start("words=" + plugin("word_count"))
        for number in range(1, 1001):
            self.client.submit("words", id=f"job-{number}", body=b"w " * (number % 50))
        answers = {}
        while len(answers) < 1000:
            result = self.client.get("result")
            self.assertNotIn(result.fields["id"], answers)
            answers[result.fields["id"]] = int(result.body)
        self.assertEqual(answers, {f"job-{number}": number % 50 for number in range(1, 1001)})

    def test_what_cannot_be_used_is_left_out_and_the_others_go_on(self):
        worker = self.start("good=" + plugin("reverse"), "crashes=" + plugin("hostile", "crash"), "old=" + plugin("other_version"),
                            "none=" + plugin("missing"), "leaves=" + plugin("hostile", "exit_well"), "says_no=" + plugin("hostile", "null"))
        self.assertEqual(self.answer("good", b"ab").body, b"ba")
        said = worker.stderr()
        for service, reason in (("crashes", "it crashes: signal 6"), ("old", "version 99"), ("none", "No such file"), ("leaves", "with exit code 0"),
                                ("says_no", "create() gave no reason")):
            line = next(line for line in said.splitlines() if f"service={service} " in line)
            self.assertIn("plugin.refused", line)
            self.assertIn(reason, line)
        self.assertEqual(self.room.stats()["workers"]["connected"], 1)

    def test_check_and_a_worker_without_any_other_service_say_no(self):
        for arguments in (("--check", "--service", "good=" + plugin("reverse")), ()):
            done = subprocess.run([harness.program("lanemq-worker"), "--service", "bad=" + plugin("no_symbol"), *arguments],
                                  capture_output=True, text=True, timeout=harness.PATIENCE)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn('service "bad": the plugin', done.stderr)
            self.assertIn("exports no lanemq_get_handler_plugin()", done.stderr)
        good = subprocess.run([harness.program("lanemq-worker"), "--check", "--service", "good=" + plugin("reverse")],
                              capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(good.returncode, 0, good.stderr)

    def test_what_the_configuration_says_is_printed_as_it_is_read(self):
        said = f'[[service]]\nname = "words"\nhandler = "{plugin("word_count")}"\n[service.plugin]\nthreads = 3\nlist = ["a", "b"]\nin.side = true\n'
        with tempfile.TemporaryDirectory() as folder:
            for name in ("one.toml", "two.toml"):
                path = os.path.join(folder, name)
                with open(path, "w") as file:
                    file.write(said)
                printed = subprocess.run([harness.program("lanemq-worker"), "--config", path, "--print-config"], capture_output=True,
                                         text=True, timeout=harness.PATIENCE)
                self.assertEqual(printed.returncode, 0, printed.stderr)
                self.assertIn('[service.plugin]\nin.side = "true"\nlist = ["a", "b"]\nthreads = "3"\n', printed.stdout)
                said = printed.stdout

    def test_a_hostile_plugin_harms_its_own_job_alone(self):
        self.start("hostile=" + plugin("hostile"), "good=" + plugin("reverse"))
        for body, expected in ((b"twice", "once"), (b"invented", "mine"), (b"thread", "from a thread"), (b"throw_behind", "first")):
            self.assertEqual(self.answer("hostile", body).body.decode(), expected)
        for body in (b"huge", b"nowhere", b"piece"):
            refused = self.answer("hostile", body)
            self.assertEqual((refused.op, refused.fields["code"]), ("error", "upstream_rejected"))
            self.assertIn("the plugin", refused.fields["message"])
        self.assertEqual(self.answer("good", b"ab").body, b"ba")

    def test_a_plugin_that_ends_its_worker_costs_its_own_job_alone(self):
        workers = [self.start("hostile=" + plugin("hostile"), "good=" + plugin("reverse")) for _ in range(2)]
        died = self.answer("hostile", b"crash")
        self.assertEqual((died.op, died.fields["code"]), ("error", "worker_lost"))
        self.assertEqual(self.answer("good", b"ab").body, b"ba")
        self.assertEqual(sum(worker.process.poll() is None for worker in workers), 1)


class BrokerPlugins(harness.Case):
    """What a plugin of the broker says of submits, and what becomes of one that is too slow."""

    config = f"""
[[plugin]]
name = "guard"
file = "{os.path.join(PLUGINS, 'guard')}.so"
when_off = "refuse"
[plugin.settings]
client = "nightly"
lane = "batch"
bytes_max = 1000

[[plugin]]
name = "judge"
file = "{os.path.join(PLUGINS, 'judge')}.so"
"""

    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.path = os.path.join(folder, "broker.toml")
        with open(self.path, "w") as file:
            file.write(self.config)
        self.arguments = (*harness.Case.arguments, "--config", self.path)
        super().setUp()
        self.client = self.room.client()

    def plugins(self, **fields):
        answer = self.room.operator().ask("admin", {"do": "plugin", **fields})
        return {row["name"]: row for row in answer.fields["plugin"]} if answer.op == "admin" else answer

    def test_a_submit_goes_where_the_plugin_says(self):
        worker = self.room.worker()
        self.client.submit(client="nightly", body=b"x")
        job = worker.get("job")
        self.assertEqual((job.fields["lane"], job.fields["x-moved-by"]), ("batch", "guard"))
        worker.hand_in(job, body=b"")
        self.client.get("result")
        self.client.submit(client="daily", body=b"x", lane="high")
        job = worker.get("job")
        self.assertEqual((job.fields["lane"], "x-moved-by" in job.fields), ("high", False))

    def test_what_it_refuses_is_an_error_of_that_submit_alone(self):
        worker = self.room.worker()
        self.client.submit(body=b"y" * 1001, ref=7)
        refused = self.client.get()
        self.assertEqual((refused.op, refused.fields["code"], refused.fields["ref"]), ("error", "forbidden", 7))
        self.assertIn("too long for this broker", refused.fields["message"])
        self.client.submit(body=b"y" * 1001, id="by-id")
        self.assertEqual(self.client.get("error").fields["id"], "by-id")
        self.client.submit(body=b"unknown_lane")
        self.assert_error(self.client.get(), "bad_request", "nowhere")
        self.client.submit(body=b"fine")
        worker.echo(worker.get("job"))
        self.assertEqual(self.client.get("result").body, b"fine")
        self.assertEqual(self.plugins()["guard"]["refused"], 2)

    def test_one_that_is_slow_is_off_after_a_few_calls_and_on_when_an_operator_says_so(self):
        sent = 0
        while self.plugins()["judge"]["state"] == "on":
            self.client.submit(body=b"slow", reply="accepted")
            self.client.get("accepted")
            sent += 1
        self.assertLess(sent, 50)  # each holds the broker up for as long as it computes
        row = self.plugins()["judge"]
        self.assertIn("takes too long", row["reason"])
        self.assertEqual(self.plugins()["guard"]["state"], "on")
        self.assertIn("plugin.off plugin=judge", self.room.broker.stderr())
        self.client.submit(body=b"lane_full", reply="accepted")
        self.client.get("accepted")
        done = self.room.run(harness.program("lanemq"), "--admin", self.room.broker.admin, "plugin", "judge", "on")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("judge", done.stdout)
        self.client.submit(body=b"lane_full")
        self.assert_error(self.client.get(), "lane_full")
        self.assertIn("admin.plugin name=judge value=on", self.room.broker.stderr())

    def test_one_that_is_off_and_is_to_refuse_then_says_which_job_and_when_to_come_again(self):
        self.plugins(name="guard", value="off")
        self.client.submit(body=b"fine", id="by-id")
        refused = self.client.get("error")
        self.assertEqual((refused.fields["code"], refused.fields["id"]), ("paused", "by-id"))
        self.assertGreater(refused.fields["retry_after_ms"], 0)
        self.plugins(name="guard", value="on")
        self.client.submit(body=b"fine", id="by-id", reply="accepted")
        self.client.get("accepted")

    def test_the_verb_refuses_what_it_does_not_know(self):
        self.assertEqual(list(self.plugins()), ["guard", "judge"])
        self.assertEqual(list(self.plugins(name="guard")), ["guard"])
        self.assert_error(self.plugins(name="other"), "not_found")
        self.assert_error(self.plugins(name="guard", value="perhaps"), "bad_request")
        self.assert_error(self.plugins(value="on"), "bad_request")
        self.assertEqual(self.plugins(name="guard", value="off", dry_run=True)["guard"]["state"], "on")
        self.assertEqual(self.plugins(name="guard", value="off")["guard"]["state"], "off")

    def test_a_broker_does_not_start_with_one_that_crashes(self):
        with open(self.path, "a") as file:
            file.write('[plugin.settings]\nhow = "crash"\n')
        for arguments in (("--check",), ()):
            done = self.room.run(harness.program("lanemq-broker"), "--config", self.path, "--store", "memory", *arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn('the plugin "judge" cannot be used: it crashes: signal 6', done.stderr)

    def test_the_configuration_prints_itself(self):
        printed = self.room.run(harness.program("lanemq-broker"), "--config", self.path, "--print-config").stdout
        self.assertIn('name = "guard"', printed)
        self.assertIn('[plugin.settings]\nbytes_max = "1000"\nclient = "nightly"\nlane = "batch"\n', printed)


class PluginsAndTenants(harness.Case):
    arguments = None

    def test_what_is_refused_names_the_id_as_its_sender_knows_it(self):
        keys = Keys()
        self.addCleanup(keys.room.cleanup)
        keys.add("alice", "client", tenant='"acme"')
        path = os.path.join(keys.room.name, "broker.toml")
        with open(path, "w") as file:
            file.write(BrokerPlugins.config)
        self.room.start_broker(*harness.STEADY, "--config", path, *keys.arguments())
        alice = self.room.client(options=keys.options("alice"))
        alice.submit(body=b"y" * 1001, id="mine")
        refused = alice.get("error")
        self.assertEqual((refused.fields["code"], refused.fields["id"]), ("forbidden", "mine"))


if __name__ == "__main__":
    unittest.main(verbosity=2 if "-v" in sys.argv else 1)
