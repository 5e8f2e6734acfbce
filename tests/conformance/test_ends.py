# SPDX-License-Identifier: Apache-2.0
"""A check that cannot fail proves nothing: each mutant of a good worker or client is found by the kit, by the rules that are
about what it does wrong. What a mutant changes is its text in mutants.txt."""

import concurrent.futures
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import zmq

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "ends"))

import ends
from kit import harness
from page import Page
from trial import FAIL, PASS, TELL_S

AT_ONCE = 6  # mutants, which mostly wait
PAGE = Page()


def source_of(kind):
    """The good ends: the worker and the client of the examples."""
    with open(os.path.join(HERE, f"examples/{kind}.py"), encoding="utf-8") as file:
        return file.read()


def read_mutants():
    """`# kind name: what it does wrong | rules that find it`, then lines with `-` before the old and `+` before the new; a `-` behind
    a `+` begins another change."""
    mutants = []
    with open(os.path.join(HERE, "mutants.txt"), encoding="utf-8") as file:
        for line in file.read().splitlines():
            if head := re.match(r"# (worker|client) ([\w-]+): .* \| ([\w -]+)$", line):
                mutants.append((head[1], head[2], head[3].split(), []))
            elif mutants and line[:1] in ("-", "+"):
                changes = mutants[-1][3]
                if line[0] == "-" and (not changes or changes[-1][1]):
                    changes.append(([], []))
                changes[-1][line[0] == "+"].append(line[1:])
    return mutants


def planted(kind, changes):
    text = source_of(kind)
    for old, new in (map("\n".join, change) for change in changes):
        if text.count(old) != 1:
            raise AssertionError(f"its lines are {text.count(old)} times in the {kind}, and must be there once: {old}")
        text = text.replace(old, new)
    return text


class Mutants(unittest.TestCase):
    def verdicts(self, kind, text, names):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, f"{kind}.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            command = f"{shlex.quote(sys.executable)} {shlex.quote(path)} {{{kind}s}}"
            rules = [rule for rule in ends.KINDS[kind][0] if rule.name in names]
            self.assertEqual(sorted(rule.name for rule in rules), sorted(names))
            return {verdict.rule.name: verdict for verdict in ends.verdicts(PAGE, kind, command, rules)}

    def test_the_good_ends_pass_where_mutants_fail(self):
        for kind in ends.KINDS:
            names = {name for of, _, rules, _ in read_mutants() if of == kind for name in rules}
            for name, verdict in self.verdicts(kind, source_of(kind), names).items():
                self.assertEqual(verdict.kind, PASS, f"{kind}.{name}: {verdict.seen}\n" + "\n".join(verdict.log))

    def test_each_mutant_is_found(self):
        mutants = read_mutants()
        self.assertGreaterEqual(len(mutants), 16)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            judged = [pool.submit(self.verdicts, kind, planted(kind, changes), rules) for kind, _, rules, changes in mutants]
        for (kind, name, *_), verdicts in zip(mutants, judged, strict=True):
            with self.subTest(mutant=f"{kind} {name}"):
                for rule, verdict in verdicts.result().items():
                    self.assertEqual(verdict.kind, FAIL, f"{rule} takes it for a good {kind}")
                    print(f"{kind} {name}: {rule}: {verdict.seen}", file=sys.stderr)


class WrongEndpoints(unittest.TestCase):
    """The kit itself, pointed at what is no broker: told within 3 s from when it says that it asks."""

    def told(self, clients, workers):
        command = [sys.executable, os.path.join(HERE, "run"), "--clients", clients, "--workers", workers]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            self.assertIn("asking the broker at", process.stderr.readline())
            began = time.monotonic()
            said = process.stderr.read()
            self.assertLess(time.monotonic() - began, TELL_S)
        self.assertEqual(process.returncode, 2, said)
        return said

    def test_nobody_is_there(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            free = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        self.assertRegex(self.told(free, free), "--clients: nobody answers the op ping there within")

    def test_a_socket_that_says_nothing(self):
        with zmq.Context() as context, context.socket(zmq.ROUTER) as silent:
            port = silent.bind_to_random_port("tcp://127.0.0.1")
            self.assertRegex(self.told(f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port}"), "--clients: nobody answers")

    def test_endpoints_that_are_mixed_up(self):
        broker = harness.Broker()
        self.addCleanup(broker.close)
        self.assertRegex(self.told(broker.workers, broker.clients), "--clients: what is there answers the op ping with error .*bad_request")
        self.assertRegex(self.told(broker.clients, broker.clients), "--workers: what is there answers the op heartbeat with error")

    def test_a_command_that_takes_no_endpoint(self):
        done = subprocess.run([sys.executable, os.path.join(HERE, "run"), "--worker", "true"], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("{workers}", done.stderr)


if __name__ == "__main__":
    unittest.main()
