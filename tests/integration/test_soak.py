# SPDX-License-Identifier: Apache-2.0
"""That the soak finds what it looks for: the rule by series that are made up, the readings by a process that leaks, all of it by a broker
that does."""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
import unittest

import flat
import harness
from soak_book import Book

MIB = flat.MIB
MEMORY = flat.TOLERANCES["memory"]
PERIOD = 60
HOUR = 3600


def series(value, seconds=180, seed=1, noise=0.0):
    chance = random.Random(seed)
    return [(second, value(second) + chance.gauss(0, noise)) for second in range(seconds)]


def verdict(value, tolerance=MEMORY, **how):
    return flat.judge(series(value, **how), tolerance, PERIOD)


class Rule(unittest.TestCase):
    def test_what_stays_is_flat_whatever_noise_there_is(self):
        for seed in range(200):
            self.assertTrue(verdict(lambda _: 30 * MIB, seed=seed, noise=3 * MIB).flat, seed)

    def test_what_is_cleaned_up_now_and_then_is_flat_wherever_the_series_begins(self):
        files = flat.TOLERANCES["files"]
        for seconds in (150, 180, 600, HOUR):
            for begin in range(PERIOD):
                self.assertTrue(verdict(lambda second: 10 + (second + begin) % PERIOD, files, seconds=seconds).flat, (seconds, begin))

    def test_a_leak_is_found_beside_noise_and_cleaning(self):
        for seed in range(200):
            leak = lambda second: 30 * MIB + (second % PERIOD) * 10_000 + second * 60_000
            self.assertFalse(verdict(leak, seed=seed, noise=MIB).flat, seed)

    def test_the_longer_it_lasts_the_smaller_are_the_leaks_that_are_found(self):
        least = {}
        for seconds in (150, 300, HOUR):
            least[seconds] = next(rate for rate in range(100, 100_000, 100)
                                  if not verdict(lambda second: 30 * MIB + second * rate, seconds=seconds, noise=MIB / 2).flat)
        self.assertLess(least[150], 30_000)
        self.assertLess(least[300], 15_000)
        self.assertLess(least[HOUR], 1_500)

    def test_one_descriptor_in_ten_seconds_is_found(self):
        found = verdict(lambda second: 40 + second // 10, flat.TOLERANCES["descriptors"])
        self.assertEqual((found.flat, round(found.slope * 10, 1)), (False, 1.0))

    def test_a_file_of_every_second_batch_is_found(self):
        for seed in range(50):  # a soak of 300 s makes a batch in two seconds, and is looked at for 130 s
            self.assertFalse(verdict(lambda second: 30 + second // 4, flat.TOLERANCES["files"], seconds=130, seed=seed, noise=4).flat, seed)

    def test_one_large_moment_is_none(self):
        self.assertTrue(verdict(lambda second: 200 * MIB if 170 < second < 176 else 30 * MIB).flat)

    def test_what_sinks_is_flat(self):
        self.assertTrue(verdict(lambda second: 30 * MIB - second * 60_000).flat)

    def test_too_little_says_nothing(self):
        self.assertIsNone(verdict(lambda _: 1, seconds=flat.SAMPLES_MIN - 1).flat)
        self.assertIsNone(flat.judge([], MEMORY, PERIOD).flat)

    def test_a_life_that_does_not_cover_all_is_not_judged(self):
        watched = flat.Watched("x")
        for began in (0, 50):
            watched.begins(began)
            watched.lives[-1][1]["memory"] = [(began + second, 1) for second in range(50)]
        self.assertEqual(list(watched.verdicts(10, 49, PERIOD)), ["memory"])
        self.assertEqual([list(watched.verdicts(*times, PERIOD)) for times in ((10, 60), (60, 90))], [[], ["memory"]])


LEAKS = """
import os, sys, threading
held = []
for number in range(60):
    held += [os.urandom(100_000), open("/dev/null")]
    with open(os.path.join(sys.argv[1], str(number)), "wb") as file:
        file.write(bytes(400_000))
    if number % 10 == 0:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    print(number, flush=True)
    sys.stdin.readline()
"""


class Readings(unittest.TestCase):
    def test_each_figure_of_a_process_that_leaks_it_grows(self):
        with tempfile.TemporaryDirectory() as folder, subprocess.Popen(
                [sys.executable, "-c", LEAKS, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            watched = flat.Watched("leaking", folder)
            watched.begins(0)
            for second in range(60):  # a second of its own time each
                process.stdout.readline()
                watched.look(process.pid, second)
                if second < 59:
                    process.stdin.write("\n")
                    process.stdin.flush()
            process.kill()
        verdicts = watched.verdicts(0, 59, PERIOD)
        self.assertEqual({figure: verdict.flat for figure, verdict in verdicts.items()}, dict.fromkeys(flat.TOLERANCES, False))


class Account(unittest.TestCase):
    def setUp(self):
        self.book = Book()
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.path = os.path.join(folder, "calls.jsonl")

    def check(self, *calls):
        with open(self.path, "w") as file:
            for job, at in calls:
                file.write(json.dumps({"job": job, "t_ms": 1000 * at, "end": "answered"}) + "\n")
        self.book.check_calls(self.path, 1_000_000)
        return dict(self.book.faults)

    def test_a_second_call_is_one_too_many_where_nobody_died(self):
        self.assertEqual(self.check(("a", 1), ("b", 2), ("a", 9)), {"run twice": 1})

    def test_a_second_call_is_right_where_a_worker_or_the_broker_died(self):
        self.book.deaths = [(1_000_005, "worker"), (1_000_025, "broker"), (1_000_045, "gateway")]
        self.assertEqual(self.check(("a", 1), ("a", 9), ("b", 20), ("b", 29), ("c", 41), ("c", 49)), {"run twice": 1})

    def test_an_answer_that_nobody_made_is_found(self):
        self.book.made_by_the_double("never")
        self.assertEqual(self.check(("a", 1)), {"answered by nobody": 1})

    def test_deaths_excuse_what_they_can_have_broken(self):
        now = time.time()
        self.book.deaths = [(now - 5, "worker"), (now - 5, "gateway")]
        self.assertTrue(self.book.excused(now - 6, "worker"))
        self.assertFalse(self.book.excused(now - 4, "worker"))
        self.assertTrue(self.book.excused(now - 4, "gateway"))
        self.assertFalse(self.book.excused(now - 4, "broker"))


@unittest.skipIf(harness.MEMORY_FACTOR > 1, "a sanitizer's own memory moves by more than this broker leaves behind")
class Planted(unittest.TestCase):
    def test_a_broker_that_leaks_is_found_out(self):
        """It leaves 16 KiB behind with each turn that hands jobs over, and a descriptor with each 25th. The same soak of a broker that
        does not is integration_soak."""
        done = subprocess.run([sys.executable, "soak.py", "--broker", "lanemq-broker-leaking",
                               "--seconds", "200", "--no-restarts"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        growing = done.stdout[done.stdout.rindex("growing "):]
        for figure in ("broker memory", "broker descriptors"):
            self.assertIn(figure, growing, done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
