# SPDX-License-Identifier: Apache-2.0
"""Starts a broker and the tests that are written for Node, which talk to it."""

import json
import os
import shutil
import subprocess
import sys
import unittest

import harness
import test_peer_keys

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "node")


class Node(harness.Case):
    def test_its_own_tests_pass(self):
        self.run_tests({})

    def run_tests(self, variables, file="test.mjs"):
        node = shutil.which("node")
        if node is None:
            self.fail("node is missing: install Node 18 or newer")
        if not os.path.isdir(os.path.join(FOLDER, "node_modules")):
            self.fail(f"{FOLDER}/node_modules is missing: run `npm ci --ignore-scripts` in {FOLDER}")
        environment = {**os.environ, "LANEMQ_CLIENTS": self.room.broker.clients, "LANEMQ_WORKERS": self.room.broker.workers, **variables}
        done = subprocess.run(
            [node, "--test", file], cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=100
        )
        if done.returncode != 0:
            print(done.stdout, done.stderr, file=sys.stderr)
        self.assertEqual(done.returncode, 0)


class NodeWithKeys(Node):
    """The same, encrypted, by a broker that asks for keys."""

    def setUp(self):
        self.keys = test_peer_keys.Keys()
        self.addCleanup(self.keys.room.cleanup)
        self.keys.add("client", "gateway")
        self.keys.add("worker", "worker")
        self.arguments = (*harness.Case.arguments, *self.keys.arguments())
        super().setUp()

    def test_its_own_tests_pass(self):
        pairs = {f"LANEMQ_{name.upper()}_KEYS": b" ".join(pair).decode() for name, pair in self.keys.pairs.items()}
        self.run_tests({"LANEMQ_BROKER_KEY": self.keys.broker.decode(), **pairs})


class NodeKeyTable(Node):
    """Each op with each key, from the table that test_peer_keys.py has."""

    def setUp(self):
        self.keys = test_peer_keys.TableKeys()
        self.addCleanup(self.keys.room.cleanup)
        self.arguments = (*harness.STEADY, *self.keys.arguments())
        super().setUp()

    def test_its_own_tests_pass(self):
        self.run_tests({
            "LANEMQ_BROKER_KEY": self.keys.broker.decode(), "LANEMQ_BROKER_PID": str(self.room.broker.pid),
            "LANEMQ_PAIRS": json.dumps({name: b" ".join(pair).decode() for name, pair in self.keys.pairs.items()}),
            "LANEMQ_TAKEN_BACK": json.dumps([self.keys.path(name) for name in self.keys.taken_back]),
        }, "keys.mjs")


if __name__ == "__main__":
    unittest.main()
