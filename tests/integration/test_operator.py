# SPDX-License-Identifier: Apache-2.0
"""What an operator asks of `lanemq`: what a job waits for (explain), what is left (limits)."""

import json
import subprocess
import unittest

import harness



def lanemq(*arguments, **options):
    return subprocess.run([harness.program("lanemq"), *arguments], capture_output=True, text=True, timeout=60, **options)


class Explain(harness.Case):
    arguments = ("--set", "heartbeat=200ms", "--set", "budget.api.requests_per_minute=1", "--set",
                 "budget.api.match.service=dear")

    def explain(self, *arguments):
        return lanemq("--broker", self.room.broker.clients, "explain", *arguments)

    def test_names_the_one_thing_that_a_job_waits_for(self):
        client = self.room.client()
        client.submit(service="nobody", id="lonely")
        client.status("lonely")
        run = self.explain("lonely")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertIn('Job lonely waits for a free place at a worker that serves "nobody".\n', run.stdout)
        self.assertIn("--capacity", run.stdout)

    def test_names_the_budget_and_when_there_may_be_room(self):
        worker = self.room.worker(services=["dear"], capacity=4)
        client = self.room.client()
        client.submit(service="dear", id="first")
        client.submit(service="dear", id="second")
        worker.get("job")
        run = self.explain("second")
        self.assertEqual(run.returncode, 0)
        self.assertIn('waits for budget "api": not enough is left of its requests_per_minute; there may be in', run.stdout)
        facts = json.loads(self.explain("second", "--json").stdout)
        self.assertEqual((facts["state"], facts["blocked_by"]), ("queued", "budget api requests_per_minute"))
        self.assertGreater(facts["eta_ms"], 0)
        self.assertIn("first runs", self.explain("first").stdout)

    def test_a_job_that_nobody_knows_and_a_broker_that_is_not_there(self):
        run = self.explain("ghost")
        self.assertEqual(run.returncode, 1)
        self.assertIn("Job ghost is not known", run.stdout)
        gone = lanemq("--broker", "tcp://127.0.0.1:9", "--connect-timeout-ms", "300", "explain", "ghost")
        self.assertEqual((gone.returncode, gone.stdout), (3, ""))
        self.assertEqual(lanemq("explain").returncode, 2)


class Limits(harness.Case):
    arguments = ("--set", "heartbeat=200ms", "--set", "budget.api.requests_per_minute=600", "--set",
                 "budget.api.concurrency=4")

    def limits(self, *arguments):
        return lanemq("--broker", self.room.broker.clients, "limits", *arguments)

    def test_shows_what_is_left_and_what_is_in_use(self):
        worker = self.room.worker(capacity=4)
        self.room.client().submit()
        worker.get("job")
        run = self.limits()
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        rows = [line.split() for line in run.stdout.splitlines()]
        self.assertEqual([row[:2] for row in rows[1:]], [["api", "requests_per_minute"], ["api", "concurrency"]])
        self.assertEqual(rows[2][2:], ["4", "3", "-", "1", "-"])
        self.assertEqual(json.loads(self.limits("--json").stdout)["budgets"]["api"]["concurrency"]["level"], 3)

    def test_a_pause_is_shown(self):
        worker = self.room.worker(capacity=4)
        self.room.client().submit()
        worker.hand_in(worker.get("job"), op="error", **{"class": "limited", "retry_after_ms": 3_600_000})
        worker.answered()
        rows = [line.split() for line in self.limits().stdout.splitlines()]
        self.assertRegex(rows[1][-1], r"^(59m\d\ds|1h00m)$")

    def test_exit_codes(self):
        gone = lanemq("--broker", "tcp://127.0.0.1:9", "--connect-timeout-ms", "300", "limits")
        self.assertEqual((gone.returncode, gone.stdout), (3, ""))


if __name__ == "__main__":
    unittest.main()
