# SPDX-License-Identifier: Apache-2.0
"""`scripts/run --serve`: what it says to type prints what it says, with the stand-in and with a key; it stops, goes on with
the jobs that waited, and begins anew."""

import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import unittest
import urllib.request

import harness
import typed
from pages import ROOT

KEY = "sk-of-the-test"


class Lesson:
    """What it said to type, as a block of a page."""

    def __init__(self, printed):
        self.lines = re.search(r"^(\$ .*?)\n\n", printed, re.DOTALL | re.MULTILINE)[1].split("\n")

    def __str__(self):
        return "scripts/run --serve"


class Serve(unittest.TestCase):
    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.home = folder
        self.desk = typed.Desk(self, self.home)

    def start(self, *arguments, **environment):
        """Starts it in a session of its own, and returns the process and what it printed."""
        environment = {"PATH": os.environ["PATH"], "HOME": self.home, "LC_ALL": "C.UTF-8",
                       "LANEMQ_BIN": os.path.abspath(harness.PROGRAMS)} | environment
        run = harness.Process(os.path.join(ROOT, "scripts/run"), "--serve", *arguments, env=environment,
                              start_new_session=True)
        self.addCleanup(run.close)
        self.addCleanup(self.stop, run)
        printed = ""
        while line := run.process.stdout.readline():
            printed += line
            if line.startswith("To stop: "):
                break
        return run, printed

    def stop(self, run):
        """Ctrl-C, as a terminal sends it."""
        if run.process.poll() is None:
            os.killpg(run.pid, signal.SIGINT)
        return run.wait(2 * harness.PATIENCE)

    def follow(self, printed):
        lesson = Lesson(printed)
        steps = typed.steps_of(lesson)
        for command, expected in steps:
            self.desk.run(lesson, command, expected)
        return [command for command, _ in steps]

    def test_what_it_says_to_type_prints_what_it_says(self):
        run, printed = self.start("--free-ports")

        commands = self.follow(printed)

        self.assertEqual([re.search(r"lanemq \w+|curl|export", command)[0] for command in commands],
                         ["export", "lanemq submit", "curl", "lanemq run", "lanemq stats"])
        self.assertEqual(self.stop(run), 0, run.stderr())
        for command in ("lanemq ping --connect-timeout 200ms", commands[2]):
            self.desk.run("after Ctrl-C", f"{command} >/dev/null 2>&1 || echo gone", ["gone"])

    def test_jobs_come_back_until_their_folder_is_removed(self):
        run, printed = self.start("--free-ports")
        self.assertIn("No jobs are left from last time.", printed)
        self.desk.run("the first start", Lesson(printed).lines[0].removeprefix("$ "), [])
        self.desk.run("the first start", "lanemq submit --no-wait --id later --service nobody x", ["later"])
        self.assertEqual(self.stop(run), 0, run.stderr())

        run, printed = self.start("--free-ports")
        self.assertIn("Jobs that are left from last time, and go on: 1.", printed)
        self.assertEqual(self.stop(run), 0, run.stderr())
        self.desk.run("the second start", re.search(r"^To stop: .*type: (.*)$", printed, re.MULTILINE)[1], [])

        _, printed = self.start("--free-ports")
        self.assertIn("No jobs are left from last time.", printed)

    def test_with_a_key_the_worker_calls_the_url_of_the_environment(self):
        upstream = harness.Process(harness.program("lanemq-upstream"), "--keys", KEY, "--latency-ms", "5")
        self.addCleanup(upstream.close)
        url = upstream.line().removeprefix("ready ")

        _, printed = self.start("--free-ports", OPENAI_API_KEY=KEY, LANEMQ_UPSTREAM_URL=url + "/v1")

        self.assertIn(f"upstream  {url}/v1 (a real API", printed)
        self.assertNotIn(KEY, printed)
        self.follow(printed)
        with urllib.request.urlopen(url + "/stats", timeout=harness.PATIENCE) as answer:
            self.assertEqual(json.load(answer)["ok"], 41)

    def test_a_port_that_is_taken_is_named_and_nothing_is_left(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]

            run, printed = self.start(LANEMQ_CLIENTS_ENDPOINT=f"tcp://127.0.0.1:{port}")

            self.assertEqual((run.wait(), printed), (1, ""))
        self.assertIn(str(port), run.stderr())
        self.assertIn("--free-ports takes ports that nothing has", run.stderr())
        left = subprocess.run(["pgrep", "-f", self.home], stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual(left, "")


if __name__ == "__main__":
    unittest.main()
