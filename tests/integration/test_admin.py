# SPDX-License-Identifier: Apache-2.0
"""What operators ask of the broker, through its admin endpoint and through `lanemq`."""

import os
import signal
import socket
import stat
import subprocess
import tempfile
import unittest

import zmq

import harness


def broker_that_ends(*arguments, **environment):
    """Runs a broker that is not expected to serve; tells exit code and stderr."""
    done = subprocess.run([harness.program("lanemq-broker"), *arguments], env={**os.environ, **environment},
                          capture_output=True, text=True, timeout=harness.PATIENCE)
    return done.returncode, done.stderr


class Endpoint(harness.Case):
    arguments = None

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_a_socket_file_is_for_owner_and_group(self):
        path = os.path.join(self.folder, "admin.sock")
        self.room.start_broker(admin="ipc://" + path)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o660)
        self.assertEqual(self.room.operator().ask("admin", {"do": "jobs"}, expect="admin").fields, {"jobs": []})

    def test_the_default_is_a_file_in_the_runtime_directory(self):
        command = [harness.program("lanemq-broker"), "--clients", "tcp://127.0.0.1:*", "--workers", "tcp://127.0.0.1:*"]
        broker = self.room.start(harness.Process(*command, env={**os.environ, "RUNTIME_DIRECTORY": self.folder}))
        self.assertIn(f" admin=ipc://{self.folder}/admin.sock", broker.line())

    def test_a_default_that_is_taken_is_a_warning_and_a_named_one_an_error(self):
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                taken.bind(("127.0.0.1", 5572))
                taken.listen()
            except OSError:
                pass  # by somebody else: just as well
            command = [harness.program("lanemq-broker"), "--clients", "tcp://127.0.0.1:*", "--workers",
                       "tcp://127.0.0.1:*"]
            environment = {name: value for name, value in os.environ.items() if name != "RUNTIME_DIRECTORY"}
            broker = self.room.start(harness.Process(*command, env=environment))
            self.assertNotIn("admin=", broker.line())
            self.assertIn("admin.unavailable endpoint=tcp://127.0.0.1:5572", broker.stderr())
            code, errors = broker_that_ends(*command[1:], "--admin", "tcp://127.0.0.1:5572")
            self.assertEqual(code, 3, errors)
            self.assertIn("--admin", errors)

    def test_other_machines_are_kept_out_even_with_insecure(self):
        code, errors = broker_that_ends("--admin", "tcp://0.0.0.0:*", "--insecure")
        self.assertEqual(code, 2)
        self.assertIn("admin_endpoint tcp://0.0.0.0:* can be reached from other machines", errors)
        self.assertIn("ssh", errors)


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
        file.write('heartbeat = "200ms"\n')
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
        self.assertIn("admin.pause what=lane name=batch how=disk by=admin", self.room.broker.stderr())
        operator.ask("admin", {"do": "resume", "what": "lane", "name": "batch"}, expect="admin")
        worker.echo(worker.get("job"))
        client.get("result")
        self.assertEqual(self.room.stats()["paused"], [])


class Settings(harness.Case):
    arguments = ("--set", "heartbeat=200ms", "--set", "budget.api.concurrency=1")

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
        self.assertIn("admin.limit what=budget name=api how=\"concurrency=2\" by=admin", self.room.broker.stderr())


class Drain(harness.Case):
    def test_a_worker_that_is_drained_is_taken_back(self):
        worker, client, operator = self.room.worker(name="w1", capacity=2), self.room.client(), self.room.operator()
        operator.ask("admin", {"do": "drain", "name": "w1"}, expect="admin")
        worker.get("drain")
        client.submit(id="a")
        self.assertEqual(client.status("a")["blocked_by"], "worker echo")
        operator.ask("admin", {"do": "resume", "what": "worker", "name": "w1"}, expect="admin")
        worker.get("welcome")
        worker.echo(worker.get("job"))
        client.get("result")


if __name__ == "__main__":
    unittest.main()
