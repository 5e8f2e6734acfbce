# SPDX-License-Identifier: Apache-2.0
"""What callers may say of a job, and that the package is typed throughout."""

import os
import subprocess
import sys
import unittest
from datetime import timedelta

import support
from lanemq.types import Submit, body_bytes, to_ms

PACKAGE = os.path.join(support.ROOT, "client/python")


class Options(unittest.TestCase):
    def test_they_are_the_fields_of_the_page(self):
        submit = Submit("s", {"lane": "low", "timeout": 1.5, "delay": timedelta(minutes=1), "retain": 0, "attempts_max": 2,
                              "group": "g", "group_size": 3, "notify": "http://h/", "durable": False, "when_limited": "end", "when_spent": "end", "cancel_when_gone": True,
                              "cost": {"input_tokens": 1}, "meta": [1], "extra": {"x-a": 1}, "model": None})
        self.assertEqual(submit.fields, {
            "service": "s", "lane": "low", "timeout_ms": 1500, "delay_ms": 60_000, "retain_ms": 0, "attempts_max": 2,
            "group": "g", "group_size": 3, "notify": "http://h/", "durable": False, "limited": "end", "spent": "end", "orphan": "cancel", "cost": {"input_tokens": 1}, "meta": [1], "x-a": 1})
        self.assertEqual(submit.patience, 61.5)

    def test_defaults_are_left_out(self):
        submit = Submit("s", {"when_limited": "wait", "when_spent": "wait", "cancel_when_gone": False, "when_full": "wait"})
        self.assertEqual((submit.fields, submit.patience), ({"service": "s"}, None))

    def test_durations_are_rounded_up(self):
        self.assertEqual([to_ms("t", each) for each in (0, 0.0001, 1, 0.0011, timedelta(milliseconds=3))], [0, 1, 1000, 2, 3])

    def test_bodies(self):
        self.assertEqual([body_bytes(each) for each in (b"x", "ä", bytearray(b"y"), memoryview(b"z"), {"a": ["ä"]})],
                         [b"x", "ä".encode(), b"y", b"z", '{"a": ["ä"]}'.encode()])


class Types(unittest.TestCase):
    def test_mypy_finds_nothing(self):
        asked = subprocess.run(["mypy", "--python-executable", sys.executable, "--cache-dir", os.devnull, "lanemq"], cwd=PACKAGE,
                               stdout=subprocess.PIPE, text=True)
        self.assertEqual(asked.returncode, 0, asked.stdout)


if __name__ == "__main__":
    unittest.main()
