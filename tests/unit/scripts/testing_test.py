#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""That scripts/test --ci runs what a change needs, and that what does not fit, does not build or does not run is never green."""
import contextlib
import io
import pathlib
import re
import subprocess
import sys
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts/lib"))
import testing  # noqa: E402  (its folder is not a package)

TABLE = """
minutes = 1
seldom = ["soak"]
[[part]]
name = "quick"
preset = "asan"
kinds = ["units"]
minutes = 1
[[part]]
name = "real"
preset = "release"
kinds = ["process"]
never = ["hostile"]
minutes = 1
[needs]
"broker/*" = ["broker", "process"]
"broker/core/*" = ["broker"]
"docs/*" = []
"tests/soak*" = ["soak"]
"""
TESTS = {"core_test": ({"units", "broker"}, []), "client_test": ({"units", "client"}, []), "gateway": ({"process"}, []),
         "bytes": ({"process", "hostile"}, []), "soak": ({"process", "soak"}, [])}


class Which(unittest.TestCase):
    def chosen(self, *paths):
        needs = testing.Needs(TABLE)
        labels, _, everything = needs.asked(paths)
        return [sorted(needs.choose(part, labels, everything)(TESTS)) for part in needs.parts]

    def test_the_longest_pattern_counts(self):
        self.assertEqual(self.chosen("broker/core/lane.cpp"), [["core_test"], []])
        self.assertEqual(self.chosen("broker/main.cpp"), [["core_test"], ["gateway"]])

    def test_a_file_without_a_row_asks_for_all_that_is_not_seldom(self):
        self.assertEqual(self.chosen("docs/x.md", "CMakeLists.txt"), [["client_test", "core_test"], ["gateway"]])

    def test_what_is_seldom_runs_where_a_row_names_it_alone(self):
        self.assertEqual(self.chosen("tests/soak.py"), [[], ["soak"]])

    def test_a_change_that_needs_nothing_runs_nothing(self):
        self.assertEqual(self.chosen("docs/x.md"), [[], []])


class Table(unittest.TestCase):
    """tests/needs.toml itself."""

    def setUp(self):
        self.needs = testing.Needs((ROOT / "tests/needs.toml").read_text())
        self.builds = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("CMakeLists.txt") if "node_modules" not in path.parts)

    def test_each_row_matches_a_file(self):
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
        files = listed.stdout.splitlines() or [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file()]
        counted = {self.needs.row(file) for file in files}
        self.assertEqual(sorted(set(self.needs.rows) - counted), [])

    def test_each_label_is_one_of_a_test(self):
        used = {label for labels in self.needs.rows.values() for label in labels} | self.needs.seldom
        used |= {kind for part in self.needs.parts for kind in part.get("kinds", [])}
        self.assertEqual(sorted(label for label in used if not re.search(rf"(LABELS|KINDS|set\(kinds)[^)]*\b{label}\b", self.builds)
                                and label not in {part.get("asked") for part in self.needs.parts}
                                and not re.search(rf'^  lanemq_end_test\(.*\b{label}\)$|lanemq_seeds\(\S+ {label} ', self.builds, re.M)), [])

    def test_the_parts_fit_into_the_whole_one_by_one(self):
        for part in self.needs.parts:
            self.assertLessEqual(part["minutes"], self.needs.minutes, part["name"])

    def test_a_change_of_any_product_folder_asks_for_processes(self):
        for path in ("broker/core/broker.cpp", "common/zmq/curve.cpp", "worker/session/session.cpp", "client/gateway/main.cpp"):
            self.assertTrue({"process", "broker", "gateway"} & set(self.needs.rows[self.needs.row(path)]), path)


class Ends(unittest.TestCase):
    """What a run comes to. No build is needed to break one."""

    def report(self, *parts):
        lines = io.StringIO()
        with contextlib.redirect_stdout(lines):
            code = testing.report(list(parts), 0)
        return code, lines.getvalue()

    def ran(self, name="units", **outcomes):
        part = testing.Part(name, preset="release")
        part.outcomes = {test: (outcome, 1.0, "") for test, outcome in outcomes.items()}
        return part

    def guarded(self, work, minutes=None):
        part = testing.Part("planted", minutes)
        with contextlib.redirect_stdout(io.StringIO()):
            part.guard(lambda: work(part))
        return part

    def test_all_passed(self):
        self.assertEqual(self.report(self.ran(a="passed", b="skipped"))[0], 0)

    def test_one_failure_is_named_with_the_command_that_runs_it_again(self):
        code, text = self.report(self.ran(name="processes", a="failed", b="passed"))
        self.assertEqual(code, 1)
        self.assertIn("failed: a (processes); again: scripts/test release -R '^a$'", text)
        self.assertTrue(text.endswith("1 passed, 1 failed, 0 skipped\n"), text)

    def test_nothing_that_ran_is_no_success(self):
        self.assertEqual(self.report(testing.Part("empty"))[0], 1)

    def test_a_part_that_does_not_fit_is_red_and_what_it_started_is_gone(self):
        began = time.monotonic()
        part = self.guarded(lambda part: testing.run(["sh", "-c", "sleep 1000 & sleep 1000"], part.clock), minutes=0.002)
        code, text = self.report(self.ran(a="passed"), part)
        self.assertEqual(code, 1)
        self.assertIn("failed: planted: does not fit: more than its 0.002 minutes", text)
        self.assertLess(time.monotonic() - began, 500)  # half of what it would have slept

    def test_a_part_that_does_not_build_is_red(self):
        def work(_):
            raise testing.Failed("the build failed")
        self.assertEqual(self.report(self.ran(a="passed"), self.guarded(work))[0], 1)

    def test_what_was_left_out_is_said_with_its_reason(self):
        part = testing.Part("tsan")
        part.left_out = "nothing that was changed asks for it"
        code, text = self.report(self.ran(a="passed"), part)
        self.assertEqual(code, 0)
        self.assertRegex(text, r"tsan .*left out: nothing that was changed asks for it")

    def test_the_whole_has_an_end_for_parts_that_have_not_begun(self):
        part = testing.Part("late", 5)
        with contextlib.redirect_stdout(io.StringIO()):
            part.guard(self.fail, testing.Clock(0.0, 85))
        self.assertRegex(part.wrong, "^does not fit: the .* minutes of the whole are over$")

    def test_what_a_part_took_to_build_is_not_there_for_its_run(self):
        part = testing.Part("slow", 5)
        part.built_s = 4 * 60.0
        part.guard(lambda: self.assertLessEqual(part.clock.left_s(), 60.0))


class Step(testing.Work):
    """Work that says what it does."""

    def __init__(self, name, said, wait=None, wrong=None):
        super().__init__(testing.Part(name))
        self.said, self.wait, self.wrong = said, wait, wrong

    def build(self):
        self.said.append(f"{self.part.name} built")
        if self.wrong:
            raise testing.Failed(self.wrong)

    def run(self):
        if self.wait:
            self.wait.wait()
        self.said.append(f"{self.part.name} ran")


class Lanes(unittest.TestCase):
    def test_the_next_part_is_built_while_one_runs(self):
        said, second_built = [], threading.Event()
        first, second = Step("first", said, wait=second_built), Step("second", said)
        second.build = lambda: (said.append("second built"), second_built.set())
        with contextlib.redirect_stdout(io.StringIO()):
            testing.two_lanes([first, second])
        self.assertEqual(said, ["first built", "second built", "first ran", "second ran"])

    def test_a_part_that_does_not_build_is_not_run_and_the_others_are(self):
        said = []
        works = [Step("first", said, wrong="the build failed"), Step("second", said)]
        with contextlib.redirect_stdout(io.StringIO()):
            testing.two_lanes(works)
        self.assertEqual((said, works[0].part.wrong, works[1].part.wrong),
                         (["first built", "second built", "second ran"], "the build failed", None))


if __name__ == "__main__":
    unittest.main()
