#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""That scripts/mutants plants what its files say, asks the nearest tests first, and names the case that failed."""
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts/lib"))
import planting  # noqa: E402  (its folder is not a package)
import rooms  # noqa: E402

TWO = """What this is.

# one: the first
a.cpp
-int a = 1;
+int a = lanemq_planted("one") ? 2 : 1;

# two: the second
a.cpp
-int b = 1;
+int b = lanemq_planted("two") ? 2 : 1;
"""
PAGE = "# Page\n\n| bug | found by |\n| --- | --- |\n| a bug | `x` |\n\nMore.\n"
HEAD = "| bug | found by |\n| --- | --- |\n"
TESTS = {name: (set(), [], f"/copy/build/asan/tests/{folder}") for name, folder in {
    "json_test": "unit/common/json", "url_test": "unit/common/url", "lines_test": "unit/common/json/lines", "core_test": "unit/broker/core", "http_test": "http"}.items()}


class Planting(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name)
        (self.root / "a.cpp").write_text("int a = 1;\nint b = 1;\n")

    def bugs(self, text):
        (self.root / "bugs.txt").write_text(text)
        return planting.read(self.root / "bugs.txt")

    def test_two_bugs_of_one_file_are_planted_together(self):
        self.assertEqual(planting.planted_files(self.root, self.bugs(TWO)), {
            "a.cpp": planting.SWITCH + 'int a = lanemq_planted("one") ? 2 : 1;\nint b = lanemq_planted("two") ? 2 : 1;\n'})

    def test_a_bug_without_its_switch_or_its_lines_is_a_problem(self):
        self.assertEqual(planting.problems(self.root, self.bugs(TWO), switched=True), [])
        for wrong in (TWO.replace('planted("two")', 'planted("one")'), TWO.replace("-int b", "-int c")):
            self.assertEqual(len(planting.problems(self.root, self.bugs(wrong), switched=True)), 1)

    def test_a_table_is_read_and_written_also_when_it_is_empty(self):
        page = self.root / "page.md"
        page.write_text(PAGE)
        self.assertEqual(planting.table(page, HEAD), {"a bug": "`x`"})
        planting.write_table(page, HEAD, [])
        self.assertEqual(planting.table(page, HEAD), {})
        planting.write_table(page, HEAD, [("a bug", "`x`")])
        self.assertEqual(page.read_text(), PAGE)


class Order(unittest.TestCase):
    def test_the_nearest_units_go_first_and_what_is_near_nothing_goes_together(self):
        self.assertEqual(rooms.in_order(set(TESTS), TESTS, "common/json/members.cpp"), [["json_test"], ["lines_test"], ["url_test"], ["core_test", "http_test"]])

    def test_who_found_it_before_is_asked_first(self):
        self.assertEqual(rooms.in_order(set(TESTS), TESTS, "common/json/members.cpp", "core_test"),
                         [["core_test"], ["json_test"], ["lines_test"], ["url_test"], ["http_test"]])

    def test_who_found_it_before_is_not_asked_where_the_change_does_not_need_it(self):
        self.assertEqual(rooms.in_order({"json_test"}, TESTS, "common/json/members.cpp", "core_test"), [["json_test"]])


class Case(unittest.TestCase):
    def test_what_failed_is_named(self):
        for said, case in {"[  FAILED  ] Lanes.keeps_order (3 ms)\n": "Lanes.keeps_order", "tests/scenario/retries.txt:12: no\n": "retries",
                           "FAIL: test_it (__main__.It)\n": "test_it", "Segmentation fault\n": None}.items():
            self.assertEqual(rooms.case_of(said), case)


if __name__ == "__main__":
    unittest.main()
