# SPDX-License-Identifier: Apache-2.0
"""The programs on the pages of docs/protocol/, and the small ends that they lead to, run as they stand there, but for the ports."""

import os
import re
import shutil
import signal
import sys
import tempfile
import unittest

import harness
from pages import protocol_text, text_of

HERE = os.path.dirname(os.path.abspath(__file__))
SMALL_ENDS = ("client.mjs", "client.py", "small_worker.mjs", "small_worker.py")
NODE_MODULES = os.path.join(HERE, "node/node_modules")


def programs_of_the_pages():
    programs = dict(re.findall(r"<!-- program: (\S+) -->\n```\w+\n(.*?)```", protocol_text(), re.DOTALL))
    return programs | {name: text_of(f"tests/conformance/examples/{name}") for name in SMALL_ENDS}


class Page(harness.Case):
    arguments = None  # its ports are the same when it starts again

    def setUp(self):
        self.endpoints = harness.fixed_endpoints()
        super().setUp()
        self.room.start_broker(*harness.Case.arguments, **self.endpoints)
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        broker = self.room.broker
        for name, text in programs_of_the_pages().items():
            for default, endpoint in (("5570", broker.clients), ("5571", broker.workers)):
                text = text.replace(f"tcp://127.0.0.1:{default}", endpoint)
            with open(os.path.join(self.folder, name), "w") as file:
                file.write(text)

    def run_program(self, name, jobs=""):
        path = os.path.join(self.folder, name)
        with tempfile.TemporaryFile() as read:
            read.write(jobs.encode())
            read.seek(0)
            return self.room.start(harness.Process(*self.interpreter(name), path, stdin=read))

    def interpreter(self, name):
        if name.endswith(".py"):
            return (sys.executable,)
        if not os.path.isdir(NODE_MODULES):
            self.fail(f"{NODE_MODULES} is missing: run `npm ci --ignore-scripts` in {os.path.dirname(NODE_MODULES)}")
        modules = os.path.join(self.folder, "node_modules")
        if not os.path.exists(modules):
            os.symlink(NODE_MODULES, modules)
        return (shutil.which("node") or "node",)

    def test_there_are_so_many(self):
        self.assertEqual(sorted(programs_of_the_pages()),
                         [*SMALL_ENDS, "smallest_client.mjs", "smallest_client.py", "smallest_worker.py"])

    def test_the_smallest(self):
        worker = self.run_program("smallest_worker.py")
        for name in ("smallest_client.py", "smallest_client.mjs"):
            client = self.run_program(name)
            self.assertRegex(client.line(), r"result .*hello'?$")
            self.assertEqual(client.wait(), 0)
        self.room.stats_when(lambda stats: stats["uptime_ms"] > 6 * harness.HEARTBEAT_MS, "six heartbeats")
        self.assertEqual(self.room.stats()["workers"]["lost"], 0)
        self.assertIsNone(worker.process.poll())

    def check_pair(self, worker_name, client_name):
        worker = self.run_program(worker_name)
        self.room.stats_when(lambda stats: stats["workers"]["connected"] == 1, "the worker")
        client = self.run_program(client_name, "echo hello\necho and again\n")
        self.assertEqual(sorted(client.line() for _ in range(2)), ["result and again", "result hello"])
        self.assertEqual(client.wait(), 0)
        return worker

    def test_client_and_worker_in_python(self):
        self.check_pair("small_worker.py", "client.py")

    def test_client_and_worker_in_node(self):
        self.check_pair("small_worker.mjs", "client.mjs")

    def test_client_in_node_and_worker_in_python(self):
        self.check_pair("small_worker.py", "client.mjs")

    def check_that_it_stays(self, worker_name):
        """A small worker lives through many heartbeats, many jobs, and a restart of the broker."""
        self.run_program(worker_name)
        client = self.room.client()
        for number in range(200):
            client.submit(body=b"%d" % number + b"x" * 50 * number, ref=number)
        for _ in range(200):
            answer = client.get("result")
            self.assertTrue(answer.body.startswith(b"%d" % answer.fields["ref"]))
        self.room.stats_when(lambda stats: stats["uptime_ms"] > 6 * harness.HEARTBEAT_MS, "six heartbeats")
        self.assertEqual(self.room.stats()["workers"]["lost"], 0)

        self.room.broker.signal(signal.SIGKILL)
        self.room.broker.wait()
        self.room.start_broker(*harness.Case.arguments, **self.endpoints)
        again = self.room.client()
        again.submit(body=b"after the restart")
        self.assertEqual(again.get("result").body, b"after the restart")

    def test_the_worker_in_python_stays(self):
        self.check_that_it_stays("small_worker.py")

    def test_the_worker_in_node_stays(self):
        self.check_that_it_stays("small_worker.mjs")


if __name__ == "__main__":
    unittest.main()
