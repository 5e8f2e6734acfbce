# SPDX-License-Identifier: Apache-2.0
"""What callers may say of a job, and that the package is typed throughout."""

import os
import subprocess
import sys
import unittest
from datetime import timedelta

import support
from lanemq import TooLargeError
from lanemq.types import Submit, body_bytes, to_ms
from msgpack import ExtType, Timestamp

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

    def test_as_many_fields_as_a_submit_and_its_job_may_have(self):
        for options, most in (({}, 58), ({"lane": "l", "model": "m", "meta": 1}, 56), ({"attempts_max": 1, "group": "g", "notify": "http://h/", "retain": 1,
                              "delay": 1, "durable": True, "when_limited": "end", "when_spent": "end"}, 52)):
            Submit("s", {**options, "extra": {f"x-{n}": n for n in range(most)}})
            with self.assertRaisesRegex(TooLargeError, f"{most + 1} fields in extra and {63 - most + 1} others, the limit of both is 64"):
                Submit("s", {**options, "extra": {f"x-{n}": n for n in range(most + 1)}})

    def test_what_cannot_be_sent_is_refused_at_once(self):
        for options in ({"meta": "\udce9"}, {"trace": {"\udce9": 1}}, {"extra": {"x-a": ["\udce9"]}}, {"meta": {1}}, {"meta": object()},
                        {"attempts_max": 2**70}, {"cost": {"input_tokens": 2**70}}, {"meta": Timestamp(1)}, {"extra": {"x-a": ExtType(1, b"")}}):
            with self.assertRaises((TypeError, ValueError)):
                Submit("s", options)

    def test_what_the_caller_changes_later_changes_nothing(self):
        meta = {"a": [1]}
        submit = Submit("s", {"meta": meta, "extra": {"x-a": meta}})
        meta["a"].append(2)
        self.assertEqual((submit.fields["meta"], submit.fields["x-a"]), ({"a": [1]}, {"a": [1]}))

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
