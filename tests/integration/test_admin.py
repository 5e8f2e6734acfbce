# SPDX-License-Identifier: Apache-2.0
"""What operators ask of the broker, through its admin endpoint and through `lanemq`."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import termios
import time
import unittest

import zmq

import harness


def broker_that_ends(*arguments, **environment):
    """Runs a broker that is not expected to serve; tells exit code and stderr."""
    done = subprocess.run([harness.program("lanemq-broker"), *arguments],
                          env={**os.environ, "LANEMQ_STORE": "memory", **environment}, capture_output=True, text=True, timeout=harness.PATIENCE)
    return done.returncode, done.stderr


class Endpoint(harness.Case):
    arguments = None

    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def test_a_socket_file_is_for_owner_and_group(self):
        path = os.path.join(self.folder, "admin.sock")
        self.room.start_broker(admin="ipc://" + path)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o660)
        self.assertEqual(self.room.operator().ask("admin", {"do": "jobs"}, expect="admin").fields, {"jobs": []})

    def test_the_default_is_a_file_in_the_runtime_directory(self):
        command = [harness.program("lanemq-broker"), "--clients", "tcp://127.0.0.1:*", "--workers", "tcp://127.0.0.1:*",
                   "--store", "memory"]
        broker = self.room.start(harness.Process(*command, env={**os.environ, "RUNTIME_DIRECTORY": self.folder}))
        self.assertIn(f" admin=ipc://{self.folder}/admin.sock", broker.line())
        broker.signal(signal.SIGHUP)
        harness.wait_until(lambda: "config.reloaded" in broker.stderr(), "the reload")
        self.assertNotIn("config.needs_restart", broker.stderr(), "nothing was changed")

    def test_a_default_that_is_taken_is_a_warning_and_a_named_one_an_error(self):
        path = os.path.join(self.folder, "lanemq", "admin.sock")
        os.mkdir(os.path.dirname(path), 0o700)
        with socket.socket(socket.AF_UNIX) as taken:
            taken.bind(path)
            taken.listen()
            command = [harness.program("lanemq-broker"), "--clients", "tcp://127.0.0.1:*", "--workers",
                       "tcp://127.0.0.1:*", "--store", "memory"]
            broker = self.room.start(harness.Process(*command, env={**os.environ, "XDG_STATE_HOME": self.folder}))
            self.assertNotIn("admin=", broker.line())
            self.assertIn(f"admin.unavailable endpoint=ipc://{path}", broker.stderr())
            code, errors = broker_that_ends(*command[1:], "--admin", "ipc://" + path)
            self.assertEqual(code, 3, errors)
            self.assertIn("--admin", errors)

    def test_started_by_hand_it_is_a_file_of_the_users_own_which_the_command_line_finds(self):
        command = [harness.program("lanemq-broker"), "--clients", "tcp://127.0.0.1:*", "--workers", "tcp://127.0.0.1:*",
                   "--store", "memory"]
        for variable, folder in (("XDG_STATE_HOME", "state"), ("XDG_RUNTIME_DIR", "runtime")):
            base = os.path.join(self.folder, folder)
            os.mkdir(base, 0o700)
            environment = {**os.environ, "XDG_STATE_HOME": os.path.join(self.folder, "state"), variable: base}
            broker = self.room.start(harness.Process(*command, env=environment))
            path = os.path.join(base, "lanemq", "admin.sock")
            self.assertIn(f" admin=ipc://{path}", broker.line())
            self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode), 0o700)
            lanemq = [harness.program("lanemq"), "pause", "lane", "batch", "--reason", "found by itself"]
            done = subprocess.run(lanemq, env=environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            broker.kill()
            # Its file is still there, and nobody listens at it.
            self.assertTrue(os.path.exists(path))
            done = subprocess.run([harness.program("lanemq"), "--connect-timeout", "1ms", "pauses"], env=environment,
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertNotIn(path, done.stderr)

    def test_without_a_folder_there_is_none_and_the_log_says_so(self):
        environment = {**os.environ, "XDG_STATE_HOME": os.path.join(self.folder, "x" * 110)}
        broker = self.room.start(harness.Process(
            harness.program("lanemq-broker"), "--clients", "tcp://127.0.0.1:*", "--workers", "tcp://127.0.0.1:*",
            "--store", "memory", env=environment))
        self.assertNotIn("admin=", broker.line())
        self.assertIn("admin.unavailable endpoint=none", broker.stderr())

    def test_other_machines_are_kept_out_even_with_insecure(self):
        code, errors = broker_that_ends("--admin", "tcp://0.0.0.0:*", "--insecure")
        self.assertEqual(code, 2)
        self.assertIn("admin_endpoint tcp://0.0.0.0:* can be reached from other machines", errors)
        self.assertIn("ssh", errors)


class Cancel(harness.Case):
    """`lanemq cancel` of many jobs."""

    def cancel(self, *arguments):
        done = subprocess.run([harness.program("lanemq"), "--admin", self.room.broker.admin, "cancel", *arguments],
                              capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def test_filters_choose_which_jobs(self):
        client = self.room.client()
        for number in range(600):
            client.submit(id=f"a{number}", client="team-a", lane="batch" if number % 2 else "normal")
        client.submit(id="b", client="team-b")
        self.room.stats_when(lambda stats: sum(lane["queued"] for lane in stats["lanes"].values()) == 601, "all jobs")
        self.assertEqual(self.cancel("--client", "team-a", "--lane", "batch", "--dry-run")[:2], (0, "300 jobs would be cancelled\n"))
        self.assertEqual(self.cancel("--client", "team-*", "--lane", "batch")[:2], (0, "300 jobs cancelled\n"))
        self.assertEqual(self.cancel("--ids", "a1?", "--json")[:2], (0, '{"cancelled":5,"refused":0}\n'))
        self.assertEqual(self.cancel("--client", "nobody")[:2], (0, "0 jobs cancelled\n"))
        self.assertEqual(self.cancel("--all", "--state", "queued")[:2], (0, "296 jobs cancelled\n"))
        self.assertEqual(client.status("b")["state"], "cancelled")

    def test_what_is_asked_has_to_be_said(self):
        for arguments, words in (((), "an ID, a filter such as --client, or --all"), (("a", "--all"), "id excludes --all"),
                                 (("--client", ""), "--client: is empty"), (("--ids", ""), "is empty"), (("--lane", ""), "is empty"),
                                 (("--service", "x", "--model", ""), "--model: is empty"), (("--state", "succeeded"), "--state"), (("a", "--dry-run"), "id excludes --dry-run")):
            code, _, errors = self.cancel(*arguments)
            self.assertEqual((code, words in errors), (2, True), errors)


class Socket(harness.Case):
    def test_the_clients_socket_refuses_operators_and_theirs_refuses_jobs(self):
        refused = self.room.client().ask("admin", {"do": "jobs", "ref": "r"})
        self.assert_error(refused, "forbidden", "admin_endpoint")
        self.assertEqual(refused.fields["ref"], "r")
        operator = self.room.operator()
        self.assert_error(operator.ask("submit", {"service": "echo", "ref": 1}), "forbidden", "clients_endpoint")
        self.assert_error(operator.ask("fetch", {"id": "a"}), "forbidden")

    def test_it_answers_what_an_operator_needs_besides(self):
        client, operator = self.room.client(), self.room.operator(zmq.REQ)
        ask = lambda op, fields: self.ask_req(operator, op, fields)
        client.submit(service="nobody", id="a")
        client.status("a")
        self.assertIn("version", ask("ping", {})[1])
        self.assertEqual(ask("stats", {})[1]["lanes"]["normal"]["queued"], 1)
        self.assertEqual(ask("status", {"id": "a"})[1]["state"], "queued")
        self.assertEqual(ask("admin", {"do": "jobs"})[1]["jobs"][0]["id"], "a")
        self.assertEqual(ask("cancel", {"id": "a"})[1]["state"], "cancelled")
        self.assertIn("by an operator", client.get("error").fields["message"])
        self.assertEqual(ask("nonsense", {})[1]["code"], "bad_request")

    @staticmethod
    def ask_req(peer, op, fields):
        peer.send(op, fields)
        answer = peer.get()
        return answer.op, answer.fields

    def test_a_list_of_many_jobs_comes_in_pages_and_each_job_once(self):
        client, operator = self.room.client(), self.room.operator()
        for number in range(5000):
            client.submit(service="nobody", id=f"job-{number}", lane="batch" if number % 100 == 0 else "normal",
                          reply="accepted")
        for _ in range(5000):
            client.get("accepted")
        self.assertEqual(len(self.all_jobs(operator)), 5000)
        self.assertEqual(set(self.all_jobs(operator)), {f"job-{number}" for number in range(5000)})
        batch = self.all_jobs(operator, lane="batch", limit=7)
        self.assertEqual(sorted(batch), sorted(f"job-{number}" for number in range(0, 5000, 100)))

    def all_jobs(self, operator, **filters):
        found, start = [], 0
        while start is not None:
            answer = operator.ask("admin", {"do": "jobs", "from": start, **filters}, expect="admin").fields
            self.assertLessEqual(len(answer["jobs"]), filters.get("limit", 100))
            found += [job["id"] for job in answer["jobs"]]
            start = answer.get("next")
        return found


class Pauses(harness.Case):
    def setUp(self):
        super().setUp()
        file = tempfile.NamedTemporaryFile("w", suffix=".toml")
        self.addCleanup(file.close)
        file.write(f'heartbeat = "10s"\n')
        file.flush()
        self.room.broker.stop()
        self.room.start_broker("--config", file.name)

    def test_a_pause_outlives_a_reload_and_stands_in_the_log_and_the_stats(self):
        worker, client, operator = self.room.worker(), self.room.client(), self.room.operator()
        answer = operator.ask("admin", {"do": "pause", "what": "lane", "name": "batch", "reason": "disk"}, expect="admin")
        self.assertEqual(answer.fields, {"what": "lane", "name": "batch", "paused": True, "reason": "disk", "changed": True})
        client.submit(lane="batch", id="a")
        self.assertEqual(client.status("a")["blocked_by"], "paused lane batch: disk")
        self.room.broker.signal(signal.SIGHUP)
        harness.wait_until(lambda: "config.reloaded" in self.room.broker.stderr(), "the reload")
        self.assertEqual(client.status("a")["blocked_by"], "paused lane batch: disk")
        self.assertEqual(self.room.stats()["paused"], ["lane batch"])
        self.assertIn("admin.pause what=lane name=batch how=disk by=127.0.0.1", self.room.broker.stderr())
        operator.ask("admin", {"do": "resume", "what": "lane", "name": "batch"}, expect="admin")
        worker.echo(worker.get("job"))
        client.get("result")
        self.assertEqual(self.room.stats()["paused"], [])


class Acts(harness.Case):
    """The log says who did what."""

    def log(self, *parts):
        """The line of the log that has all of these."""
        lines = lambda: [line for line in self.room.broker.stderr().splitlines() if all(part in line for part in parts)]
        harness.wait_until(lines, f"a line with {parts}")
        return lines()[0]

    def test_changes_and_refusals_are_told_with_their_author(self):
        operator = self.room.operator()
        operator.ask("admin", {"do": "pause", "what": "lane", "name": "normal"}, expect="admin")
        self.assertIn("by=127.0.0.1", self.log("admin.pause", "what=lane", "name=normal"))
        self.assert_error(operator.ask("admin", {"do": "pause", "what": "lane", "name": "none\x1b[2J"}), "not_found")
        line = self.log("operator.refused", "verb=pause")
        self.assertIn("by=127.0.0.1", line)
        self.assertNotIn("\x1b", line)
        operator.ask("admin", {"do": "lanes"}, expect="admin")
        client = self.room.client()
        client.submit("nobody", id="victim", reply="accepted")
        client.get("accepted")
        operator.ask("cancel", {"id": "victim"})
        self.assertIn("by=127.0.0.1", self.log("admin.cancel", "name=victim"))
        self.assertNotIn("admin.lanes", self.room.broker.stderr())

    def test_a_flood_of_refusals_does_not_fill_the_log(self):
        operator = self.room.operator()
        for _ in range(300):
            operator.ask("admin", {"do": "nonsense"}, expect="error")
        lines = [line for line in self.room.broker.stderr().splitlines() if "operator.refused" in line]
        self.assertLess(len(lines), 300)

    def test_at_a_socket_file_the_author_is_a_user_and_a_process(self):
        self.room.broker.stop()
        with tempfile.TemporaryDirectory() as folder:
            broker = self.room.start_broker(admin=f"ipc://{folder}/admin")
            self.assertEqual(self.room.run(harness.program("lanemq"), "--broker", broker.clients, "--admin", broker.admin, "pause", "lane",
                                           "normal").returncode, 0)
            self.assertRegex(self.log("admin.pause"), f'by="uid {os.getuid()}, pid [0-9]+"')
            broker.stop()


class Settings(harness.Case):
    arguments = (*harness.STEADY, "--set", "budget.api.concurrency=1")

    def test_a_file_that_cannot_be_used_ends_no_broker(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('heartbeat = "10s"\n')
            file.flush()
            self.room.broker.stop()
            self.room.start_broker("--config", file.name)
            operator = self.room.operator()
            for value in ("ftp://h", "http://u:pw@h:1", "http://10.1.2.3:4318"):
                file.seek(0)
                file.truncate()
                file.write(f'heartbeat = "10s"\notlp = "{value}"\n')
                file.flush()
                for dry in (True, False):
                    with self.subTest(otlp=value, dry_run=dry):
                        refused = operator.ask("admin", {"do": "reload", **({"dry_run": True} if dry else {})}, expect="error")
                        self.assertIn("otlp", refused.fields["message"])
                        self.assertNotIn("pw@", refused.fields["message"])
            self.assertEqual(operator.ask("admin", {"do": "jobs"}, expect="admin").fields, {"jobs": []}, "it lives")

    def test_a_limit_that_is_changed_holds_until_the_next_reload(self):
        worker, client, operator = self.room.worker(capacity=4), self.room.client(), self.room.operator()
        for _ in range(2):
            client.submit()
        worker.get("job")
        answer = operator.ask("admin", {"do": "limit", "name": "api", "setting": "concurrency", "value": "2"})
        self.assertTrue(answer.fields["changed"], answer)
        worker.get("job")
        self.assertEqual(self.room.stats()["budgets"]["api"]["concurrency"]["limit"], 2)
        self.room.broker.signal(signal.SIGHUP)
        self.room.stats_when(lambda stats: stats["budgets"]["api"]["concurrency"]["limit"] == 1, "the limit of the file")
        self.assertIn("admin.limit what=budget name=api how=\"concurrency=2\" by=127.0.0.1", self.room.broker.stderr())


class Reload(harness.Case):
    arguments = None

    def setUp(self):
        super().setUp()
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.path = os.path.join(folder, "broker.toml")
        self.write('jobs_max = 100\n[[budget]]\nname = "api"\nlimits = { concurrency = 2 }\nkeys = [{ name = "k1" }]\n')
        self.room.start_broker("--config", self.path, *harness.STEADY)
        self.operator = self.room.operator()

    def write(self, text):
        with open(self.path, "w") as file:
            file.write(text)

    def ask(self, **fields):
        return self.operator.ask("admin", {"do": "reload", **fields})

    def run_reload(self, *arguments):
        return self.room.run(harness.program("lanemq"), "--admin", self.room.broker.admin, "reload", *arguments)

    def concurrency(self):
        return self.room.stats()["budgets"]["api"]["concurrency"]["limit"]

    def test_the_answer_is_what_changed_and_what_waits_for_a_restart(self):
        self.assertEqual(self.ask().fields, {"reload": [], "changed": False})
        self.write('jobs_max = 200\n[[budget]]\nname = "api"\nlimits = { concurrency = 5 }\nkeys = [{ name = "k2" }]\n'
                   '[clients.team]\nweight = 3\n')
        expected = [{"what": "budget.api.limits.concurrency", "how": "changed", "from": "2", "to": "5", "counts": "now"},
                    {"what": "budget.api.keys.k1", "how": "removed", "counts": "now"},
                    {"what": "budget.api.keys.k2", "how": "added", "counts": "now"},
                    {"what": "clients.team", "how": "added", "counts": "now"},
                    {"what": "jobs_max", "how": "changed", "from": "100", "to": "200", "counts": "after a restart"}]
        self.assertEqual(self.ask(dry_run=True).fields, {"reload": expected, "changed": True, "dry_run": True})
        self.assertEqual(self.concurrency(), 2)
        self.assertNotIn("config.changed", self.room.broker.stderr())
        self.assertEqual(self.ask(ref="r").fields, {"reload": expected, "changed": True, "ref": "r"})
        self.assertEqual(self.concurrency(), 5)
        log = self.room.broker.stderr()
        for line in ("config.changed key=budget.api.limits.concurrency from=2 to=5", "config.removed key=budget.api.keys.k1",
                     "config.added key=clients.team", "config.needs_restart key=jobs_max how=changed from=100 to=200",
                     "admin.reload changes=5 by=127.0.0.1"):
            self.assertIn(line, log)
        # What needs a restart is told again, for as long as it does.
        self.assertEqual([row["what"] for row in self.ask().fields["reload"]], ["jobs_max"])

    def test_a_file_that_cannot_be_used_changes_nothing_and_the_answer_says_where(self):
        for text, *words in (('jobs_max = 100\n[[budget]]\nname = "api"\nlimits = { concurrenzy = 5 }\n', ":4:", "concurrenzy"),
                             ("jobs_max = = 1\n", ":1:"), ("", "nothing"), ('[[lane]]\nname = "x"\n', "default"),
                             ('clients_endpoint = "tcp://0.0.0.0:1"\n', "")):
            self.write(text)
            with self.subTest(text=text):
                answer = self.ask()
                if words == [""]:  # a flag stands on top of the file, so that it changes nothing
                    self.assertEqual(answer.op, "admin")
                    continue
                self.assert_error(answer, "bad_request", *words, "nothing has changed")
                self.assertEqual(self.concurrency(), 2)
                self.assertEqual(self.ask(dry_run=True).fields["message"], answer.fields["message"])
        os.remove(self.path)
        self.assert_error(self.ask(), "bad_request", self.path)

    def test_what_operators_changed_goes_back_and_is_told(self):
        self.operator.ask("admin", {"do": "limit", "name": "api", "setting": "concurrency", "value": "9"}, expect="admin")
        self.operator.ask("admin", {"do": "lane", "name": "low", "setting": "depth_max", "value": "77"}, expect="admin")
        rows = self.ask().fields["reload"]
        self.assertEqual([(row["what"], row["from"]) for row in rows],
                         [("lane.low.depth_max", "77"), ("budget.api.limits.concurrency", "9")])
        self.assertEqual(self.concurrency(), 2)

    def test_many_changes_are_told_in_part_and_the_rest_is_counted(self):
        self.write("".join(f'[clients."{"c" * 100}{number}"]\nweight = 2\n' for number in range(3000)) +
                   '[[budget]]\nname = "api"\nlimits = { concurrency = 2 }\nkeys = [{ name = "k1" }]\n')
        fields = self.ask().fields
        self.assertEqual(len(fields["reload"]) + fields["more"], 3001)
        self.assertGreater(len(fields["reload"]), 30)
        self.assertEqual(self.room.broker.stderr().count("config.added"), 100)

    def test_the_command_prints_a_table_or_the_complaint(self):
        self.write('[[budget]]\nname = "api"\nlimits = { concurrency = 3 }\nkeys = [{ name = "k1" }]\n')
        done = self.run_reload("--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("this would change; nothing has\n", done.stdout)
        self.assertRegex(done.stdout, r"budget\.api\.limits\.concurrency +changed +2 +3 +now\n")
        self.assertEqual(json.loads(self.run_reload("--json").stdout)["changed"], True)
        self.assertIn("after a restart", self.run_reload().stdout)
        self.write("nonsense\n")
        done = self.run_reload()
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{self.path}:", done.stderr)
        self.assertIn("nothing has changed", done.stderr)


class Budgets(harness.Case):
    arguments = [word for i in range(100) for word in (
        "--set", f"budget.number-{i}.requests_per_minute={i + 1}", "--set", f"budget.number-{i}.keys=a,b,c",
        "--set", f"budget.number-{i}.match.service=service-{i % 10}")]

    def entries(self, **filters):
        found, start, operator = [], 0, self.room.operator()
        while start is not None:
            answer = operator.ask("admin", {"do": "budgets", "from": start, **filters}, expect="admin").fields
            self.assertLessEqual(len(answer["budgets"]), filters.get("limit", 100))
            found += [(row["name"], row.get("key")) for row in answer["budgets"]]
            start = answer.get("next")
        return found

    def test_many_come_in_pages_and_each_once_and_filters_choose(self):
        everything = [(f"number-{i}", key) for i in range(100) for key in (None, "a", "b", "c")]
        self.assertEqual(self.entries(), everything)
        self.assertEqual(self.entries(limit=7), everything)
        self.assertEqual(self.entries(name="number-7*", key="b", limit=4),
                         [(f"number-{i}", "b") for i in (7, *range(70, 80))])
        self.assertEqual(self.entries(service="service-3", name="number-1*"), everything[13 * 4:14 * 4])
        self.assertEqual(self.entries(state="spent"), [])


class Drain(harness.Case):
    def test_a_worker_that_is_drained_is_taken_back(self):
        worker, client, operator = self.room.worker(name="w1", capacity=2), self.room.client(), self.room.operator()
        operator.ask("admin", {"do": "drain", "name": "w1"}, expect="admin")
        worker.get("drain")
        client.submit(id="a")
        self.assertEqual(client.status("a")["blocked_by"], "no worker echo lane=normal draining")
        operator.ask("admin", {"do": "resume", "what": "worker", "name": "w1"}, expect="admin")
        worker.get("welcome")
        worker.echo(worker.get("job"))
        client.get("result")


class Commands(harness.Case):
    arguments = (*harness.STEADY, "--set", "budget.api.concurrency=8", "--set", "budget.api.keys=k1,k2")

    def lanemq(self, *arguments, **environment):
        """Exit code, stdout and stderr of a command that knows the operators' endpoint alone."""
        variables = [f"{name}={value}" for name, value in {"LANEMQ_ADMIN": self.room.broker.admin, **environment}.items()]
        done = self.room.run("env", "-u", "LANEMQ_BROKER", *variables, harness.program("lanemq"), *arguments)
        return done.returncode, done.stdout, done.stderr

    def does(self, *arguments):
        code, output, errors = self.lanemq(*arguments)
        self.assertEqual((code, errors), (0, ""), (arguments, output))
        return output

    def rows(self, *arguments):
        return [line.split() for line in self.does(*arguments).splitlines()]

    def test_a_service_without_a_worker_is_said_wherever_an_operator_looks(self):
        client = self.room.client()
        client.submit(id="a", service="nobody")
        client.submit(id="b", service="nobody")
        client.settled()
        self.assertEqual(self.room.stats()["unserved"], {"nobody": {"queued": 2}})
        self.assertIn("\nno worker serves nobody (queued: 2)\n", self.does("stats"))
        said = harness.wait_until(lambda: "service.without_worker service=nobody jobs=2" in self.room.broker.stderr(), "a line in the log")
        self.assertTrue(said)
        worker = self.room.worker(services=("nobody",), capacity=2)
        worker.get("job")
        self.assertEqual(self.room.stats()["unserved"], {})
        self.assertNotIn("no worker serves", self.does("stats"))

    def test_of_many_services_without_a_worker_it_says_how_many_others_there_are(self):
        client = self.room.client()
        for number in range(11):
            client.submit(id=f"job-{number}", service=f"nobody-{number}")
        client.settled()
        stats = self.room.stats()
        self.assertEqual((len(stats["unserved"]), stats["unserved_left_out"]), (8, 3))
        self.assertIn("\nand 3 others that no worker serves; lanemq services lists all\n", self.does("stats"))

    def test_what_was_cancelled_is_told_from_what_failed(self):
        client = self.room.client()
        client.submit(id="a", service="nobody")
        client.submit(id="b")
        client.settled()
        self.does("cancel", "a")
        worker = self.room.worker()
        worker.hand_in(worker.get("job"), "error", **{"class": "permanent", "code": "bad", "message": "no"})
        lane = self.room.stats_when(lambda stats: stats["lanes"]["normal"]["failed"] == 2, "both ends")["lanes"]["normal"]
        self.assertEqual(lane["cancelled"], 1)
        rows = self.rows("stats")
        table = next(at for at, row in enumerate(rows) if row[:1] == ["LANE"])
        told = dict(zip(rows[table], rows[table + 1]))
        self.assertEqual((told["LANE"], told["failed"], told["cancelled"]), ("normal", "1", "1"))

    def test_a_lane_that_no_worker_takes_is_said_wherever_an_operator_looks(self):
        client = self.room.client()
        worker = self.room.worker(services=("echo",), capacity=8, lanes=["critical"], name="w1")
        client.submit(id="a")
        client.settled()
        self.assertEqual(client.status("a")["blocked_by"], "no worker echo lane=normal")
        self.assertEqual(self.room.stats()["unserved"], {"echo": {"queued": 1, "lane": "normal"}})
        self.assertIn("\nno worker serves echo in lane normal (queued: 1)\n", self.does("stats"))
        harness.wait_until(lambda: 'service.without_worker service=echo jobs=1 lane=normal workers="take other lanes"'
                           in self.room.broker.stderr(), "a line in the log")
        client.submit(id="b", lane="critical")
        worker.get("job")
        self.does("drain", "w1")
        client.submit(id="c", lane="critical")
        client.settled()
        self.assertEqual(client.status("c")["blocked_by"], "no worker echo lane=critical draining")
        self.assertEqual(self.room.stats()["unserved"], {"echo": {"queued": 2, "lane": "critical", "draining": True}})
        self.assertIn("\nno worker serves echo in lane critical (all that do drain) (queued: 2)\n", self.does("stats"))

    def test_lists_are_tables_or_json(self):
        client, worker = self.room.client(), self.room.worker(name="w1", capacity=2)
        client.submit(id="a", client="team-a")
        worker.get("job")
        client.submit(id="b", service="nobody", lane="batch")
        client.status("b")
        self.assertEqual([row[:5] for row in self.rows("jobs")],
                         [["JOB", "state", "lane", "service", "client"], ["a", "running", "normal", "echo", "team-a"],
                          ["b", "queued", "batch", "nobody", "connection-1"]])
        self.assertEqual([row[0] for row in self.rows("jobs", "--lane", "batch")], ["JOB", "b"])
        self.assertEqual(self.does("jobs", "--service", "ghost*"), "no jobs\n")
        self.assertEqual([job["id"] for job in json.loads(self.does("jobs", "--json", "--state", "running"))["jobs"]], ["a"])
        code, output, errors = self.lanemq("jobs", "-n", "1")
        self.assertEqual((code, len(output.splitlines())), (0, 2))
        self.assertIn("--limit 0 lists all", errors)
        self.assertIn("blocked_by    no worker nobody", self.does("job", "b"))
        self.assertEqual(json.loads(self.does("job", "a", "--json"))["worker"], "w1")
        self.assertEqual(self.rows("workers")[1][:4:2], ["w1", "ready"])
        self.assertEqual(self.rows("clients")[1][:3], ["team-a", "0", "1"])
        self.assertEqual([row[0] for row in self.rows("services")], ["SERVICE", "echo", "nobody"])
        self.assertEqual([row[0] for row in self.rows("lanes")], ["LANE", "critical", "high", "normal", "low", "batch"])

    def test_changes_say_what_they_did(self):
        client, worker = self.room.client(), self.room.worker(name="w1", capacity=1)
        self.assertEqual(self.does("pause", "lane", "batch", "--reason", "disk", "--dry-run"),
                         "would be: lane batch is paused: disk\n")
        self.assertEqual(self.does("pauses"), "no pauses\n")
        self.assertEqual(self.does("pause", "lane", "batch", "--reason", "disk"), "lane batch is paused: disk\n")
        self.assertEqual(self.rows("pauses")[1][:2], ["lane", "batch"])
        client.submit(id="a", lane="batch")
        client.status("a")
        self.assertIn("because an operator paused lane \"batch\": disk", self.does("explain", "a"))
        self.assertEqual(self.does("move", "a", "normal"), "job a waits in lane normal\n")
        worker.echo(worker.get("job"))
        client.get("result")
        self.assertEqual(self.does("resume", "lane", "batch"), "lane batch goes on\n")
        self.assertEqual(self.does("resume", "lane", "batch"), "lane batch goes on (as it was before)\n")
        self.assertIn("worker w1 is draining", self.does("drain", "w1"))
        worker.get("drain")
        self.assertIn("worker w1 takes jobs again", self.does("resume", "worker", "w1"))
        self.assertIn("budget api: concurrency is 4 until", self.does("limits", "set", "api", "concurrency", "4"))
        self.assertIn("budget api key k2: requests_per_minute is 60 until",
                      self.does("limits", "set", "api", "requests_per_minute", "60", "--key", "k2"))
        self.assertEqual(json.loads(self.does("limits", "--json"))["budgets"]["api"]["concurrency"]["limit"], 4)
        self.assertEqual(self.rows("limits", "--budget", "ap?", "--key", "*2")[1][:3], ["api/k2", "requests_per_minute", "60"])
        self.assertEqual(self.does("limits", "--state", "spent"), "no such budget or key has limits\n")
        every = json.loads(self.does("limits", "--json", "--service", "echo"))
        self.assertEqual((every["budgets"]["api"]["concurrency"]["limit"], list(every["keys"]["api"])), (4, ["k1", "k2"]))
        self.assertEqual(every, json.loads(self.does("limits", "--json")))
        self.assertIn("lane batch: depth_max is 5 until", self.does("lanes", "set", "batch", "depth_max", "5"))
        client.submit(id="b", service="nobody")
        client.status("b")
        self.assertIn("b cancelled", self.does("cancel", "b"))
        self.assertIn("by an operator", client.get("error").fields["message"])

    def test_what_cannot_be_is_one_clear_line(self):
        for arguments, part in ((("pause", "lane", "express"), "the lanes are critical, high"),
                                (("job", "ghost"), 'no job with id "ghost" is known'),
                                (("limits", "set", "api", "concurrency", "none"), "must be a whole number"),
                                (("drain", "ghost"), "no worker with the name")):
            code, output, errors = self.lanemq(*arguments)
            self.assertEqual((code, output, errors.count("\n")), (1, "", 1), errors)
            self.assertIn(part, errors)
        code, _, errors = self.lanemq("--admin", "tcp://127.0.0.1:9", "--connect-timeout", "300ms", "jobs")
        self.assertEqual(code, 3)
        self.assertIn("--admin or LANEMQ_ADMIN", errors)
        self.assertEqual(self.lanemq("pause", "lane")[0], 2)
        self.assertEqual(self.lanemq("limits", "set", "api")[0], 2)
        self.assertEqual(self.lanemq("jobs", "-n", "-1")[0], 2)

    def test_an_endpoint_that_is_typed_counts_more_than_a_variable(self):
        nobody = "tcp://127.0.0.1:9"
        typed = self.lanemq("--admin", self.room.broker.admin, "stats", LANEMQ_BROKER=nobody, LANEMQ_ADMIN=nobody)
        self.assertEqual((typed[0], typed[2]), (0, ""))
        self.assertEqual(self.lanemq("--connect-timeout", "300ms", "stats", LANEMQ_BROKER=nobody)[0], 3)

    def test_dead_jobs_are_shown_run_again_and_forgotten(self):
        client, worker = self.room.client(), self.room.worker(name="w1", capacity=4)
        for name in ("a", "b", "c"):
            client.submit(id=name, model="m" if name == "a" else "n", body=name.encode(), attempts_max=1)
            worker.hand_in(worker.get("job"), "error", **{"class": "permanent"}, code="400", message="no")
            client.get("error")
        self.assertEqual([row[:2] for row in self.rows("dead")],
                         [["DEAD", "JOB"], ["a", "upstream_rejected"], ["b", "upstream_rejected"], ["c", "upstream_rejected"]])
        self.assertEqual(self.does("dead", "--code", "deadline"), "no dead\n")
        shown = self.does("job", "a")
        self.assertRegex(shown, r"(?m)^ATTEMPT +worker +ago +ran +class +code +message$")
        self.assertRegex(shown, r"(?m)^1 +w1 +\S+ +\S+ +permanent +400 +no$")
        self.assertEqual(self.lanemq("redrive")[0], 2)
        self.assertEqual(self.lanemq("purge", "a", "--all")[0], 2)
        self.assertEqual(self.does("redrive", "--model", "n", "--dry-run"), "would be: 2 jobs run again: b c\n")
        self.assertEqual(self.does("redrive", "--model", "n"), "2 jobs run again: b c\n")
        for name in (b"b", b"c"):
            job = worker.get("job")
            self.assertEqual(job.body, name)
            worker.echo(job)
        self.assertEqual(client.ask("fetch", {"id": "c", "wait_ms": 10000}, expect="result").body, b"c")
        code, _, errors = self.lanemq("redrive", "b")
        self.assertEqual(code, 1)
        self.assertIn("no dead job has id", errors)
        self.assertEqual(json.loads(self.does("purge", "--all", "--json"))["purged"], 1)
        self.assertEqual(self.does("dead"), "no dead\n")
        log = self.room.broker.stderr()
        self.assertRegex(log, r'admin\.redrive what=dead name="" how="redriven 2, model n" by=127\.0\.0\.1')
        self.assertRegex(log, r'admin\.purge what=dead name="" how="purged 1" by=127\.0\.0\.1')
        self.assertEqual(log.count("admin.redrive") + log.count("admin.purge"), 2)  # neither what was tried nor what was refused

    def test_more_dead_jobs_than_one_answer_has_are_each_counted_once(self):
        client, count = self.room.client(), 230  # an answer covers 100
        for number in range(count):
            client.submit(id=f"dead {number}", service="nobody", timeout_ms=1)
        for _ in range(count):
            client.get("error")
        for command, counter in (("redrive --all --dry-run", "redriven"), ("purge --all --dry-run", "purged"), ("purge --all", "purged")):
            self.assertEqual(json.loads(self.does(*command.split(), "--json"))[counter], count, command)
        self.assertEqual(self.does("dead"), "no dead\n")

    def test_lists_are_tables(self):
        self.does("pause", "lane", "batch", "--reason", "why not")
        for verb in ("jobs", "workers", "clients", "services", "lanes", "pauses", "dead", "changes", "plugin"):
            text = self.does(verb)
            self.assertNotIn("until", text.splitlines()[0], verb)  # the sentence about a change
            self.assertTrue(text.startswith("no ") or text.split()[0].isupper(), (verb, text))
        self.assertRegex(self.does("changes"), r"(?m)^pause +lane +batch +why not")

    def test_nobody_watches_all_by_a_slip(self):
        code, output, errors = self.lanemq("watch", "")
        self.assertEqual((code, output), (2, ""))
        self.assertIn("leave it out", errors)

    def test_top_prints_one_picture_where_there_is_no_terminal(self):
        self.room.worker(name="w1")
        self.room.client().submit(lane="batch", service="nobody", id="a")
        self.room.stats_when(lambda stats: stats["lanes"]["batch"]["queued"] == 1, "the job")
        picture = self.does("top")
        self.assertRegex(picture, r"(?m)^batch +1 ")
        self.assertRegex(picture, r"(?m)^w1 ")
        self.assertRegex(picture, r"wait p99 1m")
        self.assertNotIn("\x1b", picture)


class Top(harness.Case):
    """In a terminal of its own."""

    def start(self, rows, columns):
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        self.addCleanup(os.close, slave)
        self.resize(master, rows, columns)
        self.settings = termios.tcgetattr(slave)
        process = subprocess.Popen([harness.program("lanemq"), "--admin", self.room.broker.admin, "top"], stdin=slave,
                                   stdout=slave, stderr=subprocess.DEVNULL, preexec_fn=os.setsid)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.slave, self.seen = slave, b""
        return master, process

    @staticmethod
    def resize(terminal, rows, columns):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_until(self, master, happened, what):
        deadline = time.monotonic() + harness.PATIENCE
        while not happened(self.seen):
            left = deadline - time.monotonic()
            if left < 0 or not select.select([master], [], [], left)[0]:
                raise harness.Timeout(f"{what}; there was {self.seen!r}")
            self.seen += os.read(master, 65536)

    def assert_restored(self, master, process):
        self.read_until(master, lambda seen: seen.endswith(b"\x1b[?25h\x1b[?1049l"), "the screen as it was")
        self.assertEqual(process.wait(harness.PATIENCE), 0)
        self.assertEqual(termios.tcgetattr(self.slave), self.settings)

    def test_q_ends_it_and_the_terminal_is_as_it_was(self):
        master, process = self.start(40, 120)
        # The end of the second picture: it refreshes.
        self.read_until(master, lambda seen: seen.count(b"\x1b[J") >= 2 and b"batch" in seen, "two pictures")
        self.assertNotEqual(termios.tcgetattr(self.slave), self.settings)
        os.write(master, b"q")
        self.assert_restored(master, process)

    def test_an_interrupt_ends_it_too(self):
        master, process = self.start(40, 120)
        self.read_until(master, lambda seen: b"\x1b[J" in seen, "a picture")
        process.send_signal(signal.SIGINT)
        self.assert_restored(master, process)

    def test_an_interrupt_ends_it_while_the_broker_is_silent(self):
        master, process = self.start(40, 120)
        self.read_until(master, lambda seen: b"\x1b[J" in seen, "a picture")
        self.room.broker.signal(signal.SIGSTOP)
        self.room.keep_alive(1.5)  # By then it asks for the next picture, and waits; if not, it is the other interrupt again.
        process.send_signal(signal.SIGINT)
        self.assert_restored(master, process)

    def test_it_fits_the_window_as_it_changes(self):
        master, process = self.start(4, 20)
        self.read_until(master, lambda seen: b"\x1b[J" in seen, "a picture")
        picture = self.seen.split(b"\x1b[H", 1)[1].split(b"\x1b[J")[0]
        lines = re.sub(rb"\x1b\[[0-9;]*[a-zA-Z]", b"", picture).split(b"\r\n")
        self.assertEqual((len(lines), max(map(len, lines))), (4, 20))
        self.resize(master, 40, 120)
        process.send_signal(signal.SIGWINCH)
        self.read_until(master, lambda seen: b"batch" in seen, "the lanes below")
        os.write(master, b"q")
        self.assert_restored(master, process)


if __name__ == "__main__":
    unittest.main()
