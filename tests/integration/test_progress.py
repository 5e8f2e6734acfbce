# SPDX-License-Identifier: Apache-2.0
"""Workers that say how far their jobs are: who sees it, and what becomes of one that says no more."""

import itertools
import json
import os
import pathlib
import subprocess
import tempfile
import unittest
import urllib.request

import harness
from test_exec import Exec, ExecWorker

STALL = 1.0  # seconds of the lane `normal` here
# Says how far it is; the first attempt then hangs, with a child of its own. The second waits for the file `go`.
SCRIPT = """\
echo lanemq-progress 10 begins >&2
[ "$LANEMQ_ATTEMPT" = 1 ] && {{ echo $$ >{folder}/hung; sleep 1000; }}
echo a warning >&2
echo lanemq-progress 40 half way >&2
while [ ! -e {folder}/go ]; do echo lanemq-progress 41 >&2; sleep 0.05; done
echo done
"""


class Progress(Exec):
    arguments = (*harness.STEADY, "--set", f"lane.normal.stall_timeout={int(1000 * STALL)}ms", "--http", "127.0.0.1:0")

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "script").write_text(SCRIPT.format(folder=self.folder))

    def worker(self):
        return ExecWorker(self.room, {"train": f'argv = ["sh", "{self.folder}/script"]\ngrace = "100ms"'}, "--capacity", "2")

    def lanemq(self, *words, to="clients"):
        endpoint = getattr(self.room.broker, to)
        done = subprocess.run([harness.program("lanemq"), "--broker" if to == "clients" else "--admin", endpoint, *words], check=True,
                              stdout=subprocess.PIPE, text=True, timeout=harness.PATIENCE)
        return done.stdout

    def status(self, job):
        return json.loads(self.lanemq("status", job, "--json"))

    def test_a_program_that_hangs_loses_its_job_after_stall_timeout(self):
        worker = self.worker()
        watch = self.room.start(harness.Process(harness.program("lanemq"), "--broker", self.room.broker.clients, "watch", "long",
                                                "--json"))
        self.assertEqual(json.loads(watch.line())["what"], "watching")
        self.client.submit("train", id="long", reply="accepted")
        self.client.get("accepted")

        changes = []
        while not changes or changes[-1].get("pct", 0) < 40:
            changes.append(json.loads(watch.line()))
        # Of words that come together only the last one may be sent.
        self.assertEqual([what for what, _ in itertools.groupby(change["what"] for change in changes)],
                         ["accepted", "started", "progress", "requeued", "started", "progress"])
        first, stalled = changes[2], changes[3]
        self.assertEqual((first["pct"], first["note"]), (10, "begins"))
        self.assertEqual((stalled["code"], stalled["state"], stalled["attempts"]), ("stalled", "queued", 1))
        self.assertGreaterEqual(stalled["at_ms"] - first["at_ms"], 1000 * STALL)
        # The one that hung is gone with all that it started, and its worker has the place back.
        hung = (self.folder / "hung").read_text().strip()
        harness.wait_until(lambda: not os.path.exists(f"/proc/{hung}"), "the end of the program that hung")
        harness.wait_until(lambda: len(worker.programs()) <= 2, "the end of what it started")

        status = self.status("long")
        self.assertEqual((status["state"], status["attempts"]), ("running", 2))
        self.assertIn(status["pct"], (40, 41))
        self.assertLess(status["silent_ms"], 1000 * STALL)
        self.assertRegex(self.lanemq("status", "long"), r" pct=4[01] .*silent=")
        (row,) = json.loads(self.lanemq("jobs", "--json", to="admin"))["jobs"]
        self.assertEqual((row["id"], row["pct"] in (40, 41)), ("long", True))
        self.assertRegex(self.lanemq("jobs", to="admin"), r"pct")
        job = json.loads(self.lanemq("job", "long", "--json", to="admin"))
        self.assertEqual([attempt["class"] for attempt in job["history"]], ["stalled"])
        with urllib.request.urlopen(self.room.broker.http + "/v1/jobs/long", timeout=harness.PATIENCE) as answer:
            self.assertIn(json.load(answer)["pct"], (40, 41))

        (self.folder / "go").touch()
        answer = self.client.ask("fetch", {"id": "long", "wait_ms": 20_000})
        self.assertEqual((answer.op, answer.body, answer.fields["attempts"]), ("result", b"done\n", 2))
        self.assertNotIn("pct", self.status("long"))
        counters = self.room.stats()["counters"]
        self.assertEqual(counters["jobs_stalled"], 1)
        self.assertGreaterEqual(counters["progress_in"], 2)  # one of each attempt at the least: words that come together are thinned
        self.nothing_runs(worker)

    def test_the_last_attempt_that_hangs_ends_its_job(self):
        worker = self.worker()
        self.client.submit("train", id="once", attempts_max=1)
        answer = self.client.get()
        self.assert_error(answer, "stalled", "stall_timeout of lane \"normal\"", "attempts_max 1")
        self.assertGreater(answer.fields["retry_after_ms"], 0)
        self.nothing_runs(worker)
        self.assertIn("job.stalled", self.room.broker.stderr())

    def nothing_runs(self, worker):
        harness.wait_until(lambda: not worker.programs(), "the end of all programs")

    def test_a_word_is_said_again_to_a_broker_that_comes_back(self):
        with tempfile.TemporaryDirectory() as store:
            self.room.broker.stop()
            endpoints = {name: getattr(self.room.broker, name) for name in ("clients", "workers", "admin")}
            arguments = ("--set", "heartbeat=200ms", "--store", f"sqlite:{store}/store", "--set", "lane.normal.stall_timeout=1h")
            self.room.start_broker(*arguments, **endpoints)
            client = self.room.client()
            script = "echo lanemq-progress 30 thinks >&2; while [ ! -e go ]; do sleep 0.01; done"
            ExecWorker(self.room, {"slow": f'argv = ["sh", "-c", "{script}"]\ndirectory = "{self.folder}"'})
            client.submit("slow", id="a", reply="accepted")
            client.get("accepted")
            harness.wait_until(lambda: self.status("a").get("pct") == 30, "its progress")
            self.room.broker.kill()
            self.room.start_broker(*arguments, **endpoints)

            harness.wait_until(lambda: self.status("a").get("note") == "thinks", "its progress again")
            (self.folder / "go").touch()
            answer = self.room.client().ask("fetch", {"id": "a", "wait_ms": 20_000})
            self.assertEqual((answer.op, answer.fields.get("attempts", 1)), ("result", 1))


if __name__ == "__main__":
    unittest.main()
