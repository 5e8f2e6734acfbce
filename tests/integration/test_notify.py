# SPDX-License-Identifier: Apache-2.0
"""Ends that are told: each committed end has its job for the webhook's worker, exactly one, however the broker dies."""

import datetime
import json
import os
import random
import subprocess
import tempfile
import unittest

import harness
from test_durable import DurableCase

URL = "https://example.com/hook?token=planted"


def end_of(job):
    """The id of a job that tells of an end, without the time of the end."""
    told, _, time = job.fields["id"].rpartition(":")
    assert time.isdigit(), job
    return told


class Webhooks(DurableCase):
    settings = ("webhook_service=hook", "webhook_lane=low")

    def caller(self, capacity=8):
        """A worker of the webhook's service."""
        return self.worker(services=["hook"], capacity=capacity)

    def test_an_end_is_told_after_its_broker_was_killed(self):
        client, worker = self.client(), self.worker()
        client.submit(id="a", body=b"x", client="team", model="m", notify=URL, reply="accepted")
        client.get("accepted")
        worker.echo(worker.get("job"))
        client.ask("fetch", {"id": "a", "wait_ms": 10_000}, expect="result")
        self.kill_and_start(worker)

        caller = self.caller()
        told = caller.get("job")
        self.assertEqual((end_of(told), told.fields["x-webhook-url"], told.fields["lane"], told.fields["client"]),
                         ("webhook:a", URL, "low", "team"))
        body = json.loads(told.body)
        self.assertEqual((body["type"], body["data"]["id"], body["data"]["state"], body["data"]["model"]),
                         ("job.ended", "a", "succeeded", "m"))
        age = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(body["timestamp"].replace("Z", "+00:00"))
        self.assertLess(abs(age.total_seconds()), 60)
        caller.hand_in(told, "error", b"", **{"class": "retry", "code": "503", "message": "later"})
        again = caller.get("job")
        self.assertEqual((again.body, again.fields["attempt"]), (told.body, 2))
        caller.echo(again)
        caller.silent(0.5)  # nobody is told of that one's end
        self.assertNotIn("planted", self.room.broker.stderr())

    def test_each_end_that_clients_may_have_heard_of_is_told_once(self):
        """The broker is killed at random; jobs whose ends came before it or not are all told, one time each."""
        client, chance, told = self.client(), random.Random(7), {}
        jobs = [f"job-{number}" for number in range(120)]
        for number, job in enumerate(jobs):
            group = {"group": f"g-{number // 4}", "group_size": 4} if number >= 60 else {}
            client.submit(id=job, notify=f"http://h/{group.get('group', job)}", reply="accepted", **group)
        for _ in jobs:
            client.get("accepted")
        ended = 0
        while ended < len(jobs):
            worker = self.worker(capacity=8)
            for _ in range(chance.randrange(1, 40)):
                if ended == len(jobs):
                    break
                worker.echo(worker.get("job"))
                ended += 1
            if chance.random() < 0.5:
                worker.answered()
            states = self.kill_and_count(worker, client, jobs)
            ended = states
        caller = self.caller()
        wanted = {*(f"webhook:{job}" for job in jobs[:60]), *(f"webhook:group:g-{n}" for n in range(15, 30))}
        while len(told) < len(wanted):
            job = caller.get("job")
            self.assertNotIn(end_of(job), told)
            told[end_of(job)] = json.loads(job.body)["data"]
            caller.echo(job)
        caller.silent(0.5)
        self.assertEqual(set(told), wanted)
        self.assertEqual({told[f"webhook:group:g-{n}"]["succeeded"] for n in range(15, 30)}, {4})

    def kill_and_count(self, worker, client, jobs):
        """Kills and starts the broker. Returns how many of the jobs have ended."""
        self.kill_and_start(worker)
        states = [client.ask("status", {"id": job}).fields["state"] for job in jobs]
        return states.count("succeeded")

    def test_the_command_line_says_whom_to_tell(self):
        done = subprocess.run([harness.program("lanemq"), "submit", "--broker", self.room.broker.clients, "--service", "echo", "--id",
                               "typed", "--notify", URL, "--no-wait", "x"], capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        worker = self.worker()
        worker.echo(worker.get("job"))
        told = self.caller().get("job")
        self.assertEqual((end_of(told), told.fields["x-webhook-url"]), ("webhook:typed", URL))

    def run_of_six(self, file):
        return self.room.start(harness.Process(harness.program("lanemq"), "run", file, "--broker", self.room.broker.clients, "--service", "echo",
                                               "--group", "six", "--notify", URL, "--window", "2", "--quiet"))

    def killed_run(self):
        """A file of six jobs whose run was killed with two of them at the worker."""
        file = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "lines.jsonl")
        with open(file, "w", encoding="ascii") as lines:
            lines.writelines(f'{{"custom_id":"c{i}","body":{{"n":{i}}}}}\n' for i in range(6))
        worker = self.worker(capacity=8)
        run = self.run_of_six(file)
        held = [worker.get("job"), worker.get("job")]
        run.kill()
        return file, worker, held

    def over(self, caller):
        """What the one webhook of the group says."""
        told = json.loads(caller.get("job").body)["data"]
        self.assertTrue(caller.silent(0.5))
        return {name: told[name] for name in ("group", "jobs", "succeeded", "complete")}

    def test_a_run_that_was_killed_and_is_repeated_tells_one_end(self):
        file, worker, held = self.killed_run()
        for job in held:
            worker.echo(job)
        worker.answered()
        again = self.run_of_six(file)
        for _ in range(4):
            worker.echo(worker.get("job"))
        self.assertEqual(again.wait(harness.PATIENCE), 0)
        # What had ended before is of a life that was left for this one.
        self.assertEqual(self.over(self.caller()), {"group": "six", "jobs": 4, "succeeded": 4, "complete": True})

    def test_a_run_that_is_repeated_while_its_jobs_run_goes_on_with_their_group(self):
        file, worker, held = self.killed_run()
        again = self.run_of_six(file)
        self.room.stats_when(lambda stats: stats["lanes"]["normal"]["duplicates"] == 2, "both jobs are asked for again")
        for job in held:
            worker.echo(job)
        for _ in range(4):
            worker.echo(worker.get("job"))
        self.assertEqual(again.wait(harness.PATIENCE), 0)
        self.assertEqual(self.over(self.caller()), {"group": "six", "jobs": 6, "succeeded": 6, "complete": True})

    def test_only_the_broker_makes_jobs_for_who_calls(self):
        client = self.client()
        client.submit("hook", id="forged", body=b"{}", **{"x-webhook-url": URL})
        self.assert_error(client.get("error"), "forbidden", "webhook_service")

    def test_a_broker_that_lost_the_service_says_how_many_are_told_nothing(self):
        client = self.client()
        for job in ("a", "b"):
            client.submit(id=job, notify=URL, reply="accepted")
            client.get("accepted")
        self.room.broker.stop()
        self.settings = ()
        self.start()
        self.assertRegex(self.room.broker.stderr(), r"webhook\.nobody_told jobs=2\b")

    def test_a_broker_without_the_service_says_which_option_names_it(self):
        self.room.broker.stop()
        self.settings = ()
        self.start()
        client = self.client()
        client.submit(id="a", notify=URL)
        self.assert_error(client.get("error"), "bad_request", "webhook_service")


if __name__ == "__main__":
    unittest.main()
