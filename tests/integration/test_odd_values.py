# SPDX-License-Identifier: Apache-2.0
"""Each odd value, in each place where a stranger's value goes through the broker to somebody else, with eight workers of seven
languages behind it: the broker refuses it by the field's name, or it is delivered; no other job is touched."""

import os
import shlex
import shutil
import sys
import unittest

import harness

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
CONFORMANCE = os.path.join(ROOT, "tests/conformance")
sys.path.insert(0, CONFORMANCE)
from page import ODD_VALUES, Raw, as_packed, pack_header  # noqa: E402

# What the broker passes on, what it keeps or reads itself, and what it does not know.
PASSED_ON = ("meta", "trace", "x-odd")
OF_A_SUBMIT = (*PASSED_ON, "model", "client", "group", "cost", "notify", "news")
OF_A_RESULT = ("usage", "x-odd", "news")
OF_AN_ERROR = ("message", "code", "class", "upstream_status", "retry_after_ms", "usage", "news")


def worker_of(language):
    """The command of the worker in the table of worker/examples."""
    with open(os.path.join(ROOT, "worker/examples/README.md")) as page:
        row = next(line for line in page if line.startswith(f"| {language} |"))
    return shlex.split(row.split("|")[3].strip().strip("`"))


class OddValues(harness.Case):
    arguments = (*harness.STEADY, "--set", "breaker=false")

    def setUp(self):
        super().setUp()
        self.client = self.room.client()

    def answers(self, count):
        return {answer.fields["ref"]: answer for answer in (self.client.get() for _ in range(count))}

    def lost_nothing(self):
        stats = self.room.stats()
        self.assertEqual((stats["counters"]["jobs_requeued_missing"], stats["workers"]["lost"], stats["workers"]["connected"]),
                         (0, 0, 1), "a job got lost on its way to the worker, or the worker was lost")


class Jobs(OddValues):
    """Between two jobs of others in one message: a job with the odd value in one of its fields."""

    def serve(self, *command, folder=CONFORMANCE):
        if shutil.which(command[0]) is None:
            self.skipTest(f"{command[0]} is not installed")
        self.room.start(harness.Process(*command, self.room.broker.workers, cwd=folder))
        self.room.stats_when(lambda stats: stats["workers"]["connected"] == 1, "the worker")
        passed = refused = 0
        for what, value in ODD_VALUES.items():
            for field in OF_A_SUBMIT:
                with self.subTest(what=what, field=field):
                    maps = [{"service": "echo", "ref": 1, "batch": 16}, {"ref": 2, field: Raw(as_packed(value))}, {"ref": 3, field: None}]
                    self.client.send_frames(pack_header("submit", maps, [b"one", b"odd", b"three"]))
                    said = self.answers(3)
                    self.assertEqual([(said[ref].op, said[ref].body) for ref in (1, 3)], [("result", b"one"), ("result", b"three")])
                    if said[2].op == "result":
                        passed += 1
                        self.assertEqual(said[2].body, b"odd")
                    else:
                        refused += 1
                        self.assert_error(said[2], "bad_request", field)
        self.lost_nothing()
        self.assertGreater(passed, len(ODD_VALUES))
        self.assertGreater(refused, len(ODD_VALUES))

    def test_cpp(self):
        self.serve(harness.program("lanemq-worker"), "--service", "echo=echo", "--capacity", "8", "--broker")

    def test_python(self):
        self.serve("/usr/bin/python3", "examples/sdk_worker.py")

    def test_node(self):
        self.serve("node", "examples/sdk_worker.mjs")

    def test_lua(self):
        self.serve(*worker_of("Lua"), folder=os.path.join(ROOT, "worker/examples"))

    def test_perl(self):
        self.serve(*worker_of("Perl"), folder=os.path.join(ROOT, "worker/examples"))

    def test_php(self):
        self.serve(*worker_of("PHP"), folder=os.path.join(ROOT, "worker/examples"))

    def test_ruby(self):
        self.serve(*worker_of("Ruby"), folder=os.path.join(ROOT, "worker/examples"))

    def test_python_without_the_package(self):
        self.serve(*worker_of("Python"), folder=os.path.join(ROOT, "worker/examples"))


class Outcomes(OddValues):
    """Between two outcomes of others in one message: one with the odd value in one of its fields."""

    arguments = (*harness.QUICK, "--set", "breaker=false")  # outcomes are acknowledged with heartbeats

    def look(self, op, fields):
        worker = self.room.worker(capacity=16, batch=16)
        passed = refused = 0
        for what, value in ODD_VALUES.items():
            for field in fields:
                with self.subTest(what=what, field=field):
                    for ref in (1, 2, 3):
                        self.client.submit(ref=ref, body=b"%d" % ref, attempts_max=1)
                    jobs = {int(job.body): job for job in (worker.get("job") for _ in range(3))}
                    failed = {"class": "fatal", "code": "why", "message": "so"} if op == "error" else {}
                    maps = []
                    for ref in (1, 2, 3):
                        own = {**failed, field: Raw(as_packed(value)) if ref == 2 else failed.get(field)}
                        maps.append(worker.outcome(jobs[ref], op, b"", **own)[1])
                    worker.send_frames(pack_header(op, maps, [b"one", b"odd", b"three"]))
                    # The broker answers it, or has told its client of it.
                    self.room.pump(lambda: worker.inbox or len(self.client.inbox) == 3, "an end of the odd outcome")
                    if worker.inbox:
                        refused += 1
                        answer = worker.get("error")
                        self.assert_error(answer, "bad_request", field)
                        self.assertEqual((answer.fields.get("job"), answer.fields.get("attempt")),
                                         (jobs[2].fields["job"], jobs[2].fields["attempt"]))
                        # What a worker does that was told so, as docs/protocol/worker.md says.
                        worker.hand_in(jobs[2], "error", **{"class": "fatal", "code": "bad_outcome", "message": "it cannot be said"})
                    else:
                        passed += 1
                    said = self.answers(3)
                    self.assertEqual([(said[ref].op, said[ref].body) for ref in (1, 3)], [(op, b"one"), (op, b"three")])
                    self.assertIn(said[2].op, ("error", op))
        worker.answered()
        self.lost_nothing()
        self.assertGreater(min(passed, refused), len(ODD_VALUES) // 2)

    def test_results(self):
        self.look("result", OF_A_RESULT)

    def test_errors(self):
        self.look("error", OF_AN_ERROR)


class Table(unittest.TestCase):
    def test_is_as_long_as_it_says(self):
        self.assertGreaterEqual(len(ODD_VALUES), 60)
        self.assertEqual(len(set(map(as_packed, ODD_VALUES.values()))), len(ODD_VALUES))


if __name__ == "__main__":
    unittest.main()
