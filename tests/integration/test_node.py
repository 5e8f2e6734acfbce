# SPDX-License-Identifier: Apache-2.0
"""Starts a broker and the tests that are written for Node, which talk to it."""

import os
import shutil
import subprocess
import sys
import unittest

import harness

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "node")


class Node(harness.Case):
    def test_its_own_tests_pass(self):
        node = shutil.which("node")
        if node is None:
            self.fail("node is missing: install Node 18 or newer")
        if not os.path.isdir(os.path.join(FOLDER, "node_modules")):
            self.fail(f"{FOLDER}/node_modules is missing: run `npm ci --ignore-scripts` in {FOLDER}")
        environment = {**os.environ, "LANEMQ_CLIENTS": self.room.broker.clients, "LANEMQ_WORKERS": self.room.broker.workers}
        done = subprocess.run(
            [node, "--test", "test.mjs"], cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=100
        )
        if done.returncode != 0:
            print(done.stdout, done.stderr, file=sys.stderr)
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
