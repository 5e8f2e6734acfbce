# SPDX-License-Identifier: Apache-2.0
"""The judge of scripts/costs, without counting anything: what is red, what it asks for, and that the tree's numbers and
slow-downs are in order."""
import contextlib
import io
import os
import pathlib
import runpy
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
COSTS = runpy.run_path(str(ROOT / "scripts/costs"), run_name="costs")

DUMP = """\
version: 1
creator: callgrind-3.19.0
events: Ir

ob=(1) /usr/lib/libc.so.6
fl=(1) ???
fn=(1) malloc
0 1000

ob=(2) /build/bin/costs
fl=(2)
fn=(2) decode
0 70
cob=(1)
cfi=(1)
cfn=(1)
calls=5 0
0 1000
0 7
fn=(3) read
0 23

ob=(1)
fn=(4) free
0 500

ob=(2)
fn=(2)
0 900
"""


def file_with(costs, raised=(), versions=None):
    return COSTS["written"]({"versions": versions or {}, "costs": dict(costs), "raised": list(raised)})


def wrong_of(counted, costs):
    return {row: wrong for row, *_, wrong in COSTS["judge"](counted, costs)}


class Judging(unittest.TestCase):
    def test_three_percent_more_is_red_and_two_are_not(self):
        wrong = wrong_of({"a": 1030, "b": 1020, "c": 1000}, {"a": 1000, "b": 1000, "c": 1000})

        self.assertIn("+3.0 %", wrong["a"])
        self.assertIn("--reason", wrong["a"])
        self.assertEqual((wrong["b"], wrong["c"]), ("", ""))

    def test_three_percent_less_asks_for_the_line_to_be_lowered(self):
        wrong = wrong_of({"a": 970.4, "b": 98.04, "c": 99.0}, {"a": 1000, "b": 101, "c": 100})

        self.assertTrue(wrong["a"].endswith('lower its line to   "a" = 970.4'), wrong["a"])
        self.assertTrue(wrong["b"].endswith('"b" = 98.0'), wrong["b"])
        self.assertEqual(wrong["c"], "")

    def test_a_row_that_only_one_side_knows_is_red(self):
        wrong = wrong_of({"new": 12345.6}, {"old": 5})

        self.assertTrue(wrong["new"].endswith('"new" = 12346'), wrong["new"])
        self.assertIn("take its line out", wrong["old"])

    def test_rows_that_nobody_asked_for_are_not_judged(self):
        self.assertEqual(COSTS["judge"]({"a": 1}, {"a": 1, "b": 1}, lambda row: row == "a"), [("a", 1, 1, 0.0, "")])


class Raises(unittest.TestCase):
    reason = {"row": "a", "from": 100, "to": 110, "reason": "results keep their traces"}

    def wrong(self, *files):
        return COSTS["rises_without_reason"](files)

    def test_a_number_that_rises_needs_a_line(self):
        self.assertIn('"a" rose from 100 to 110', self.wrong(file_with({"a": 100}), file_with({"a": 110}))[0])
        self.assertEqual(self.wrong(file_with({"a": 100}), file_with({"a": 110}, [self.reason])), [])

    def test_a_line_without_a_reason_is_none(self):
        for text in ("", "slower now"):
            line = {**self.reason, "reason": text}
            self.assertTrue(self.wrong(file_with({"a": 100}), file_with({"a": 110}, [line])))

    def test_the_line_of_another_row_or_number_does_not_count(self):
        for line in ({**self.reason, "row": "b"}, {**self.reason, "to": 105}):
            self.assertTrue(self.wrong(file_with({"a": 100}), file_with({"a": 110}, [line])))

    def test_a_rise_some_commits_ago_still_needs_its_line(self):
        risen = file_with({"a": 100}), file_with({"a": 110}), file_with({"a": 110, "b": 1})
        self.assertTrue(self.wrong(*risen))
        self.assertEqual(self.wrong(*risen, file_with({"a": 110, "b": 1}, [self.reason])), [])

    def test_what_falls_and_what_is_new_needs_none(self):
        self.assertEqual(self.wrong(file_with({"a": 100}), file_with({"a": 90, "b": 5})), [])


class Versions(unittest.TestCase):
    def check(self, versions, counted):
        """The exit code of --check, and what it says, for a file that stands alone."""
        judged = COSTS["judge"](counted, {"a": 100})
        data = {"versions": versions, "costs": {"a": 100}, "raised": []}
        said = io.StringIO()
        here = COSTS["check"].__globals__
        before = here["versions"], here["versions_of_file"]
        here["versions"], here["versions_of_file"] = lambda: {"g++": "12.2.0"}, lambda: [file_with({"a": 100})]
        try:
            with contextlib.redirect_stdout(said):
                code = COSTS["check"](judged, data)
        finally:
            here["versions"], here["versions_of_file"] = before
        return code, said.getvalue()

    def test_the_same_versions_make_it_red(self):
        code, said = self.check({"g++": "12.2.0"}, {"a": 103})
        self.assertEqual((code, said[:7]), (1, "error: "))
        self.assertEqual(self.check({"g++": "12.2.0"}, {"a": 101}), (0, ""))

    def test_other_versions_make_it_a_warning(self):
        code, said = self.check({"g++": "13.1.0"}, {"a": 103})
        self.assertEqual(code, 0)
        self.assertIn("g++ 12.2.0, not 13.1.0", said)
        self.assertIn("warning: a: +3.0 %", said)


class Writing(unittest.TestCase):
    def write(self, counted, costs, reason=""):
        """The exit code of --write and the file that it leaves."""
        data = {"versions": COSTS["versions"](), "costs": dict(costs), "raised": []}
        here = COSTS["write"].__globals__
        root = here["ROOT"]
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            (pathlib.Path(folder) / "tests").mkdir()
            here["ROOT"] = pathlib.Path(folder)
            try:
                code = COSTS["write"](COSTS["judge"](counted, costs), data, reason)
                return code, COSTS["read_file"]((pathlib.Path(folder) / COSTS["FILE"]).read_text())
            finally:
                here["ROOT"] = root

    def test_lowers_what_is_asked_for_and_leaves_the_rest(self):
        code, data = self.write({"a": 900, "b": 990}, {"a": 1000, "b": 1000})
        self.assertEqual((code, data["costs"]), (0, {"a": 900, "b": 1000}))

    def test_raises_nothing_without_a_reason(self):
        code, data = self.write({"a": 1100, "b": 900}, {"a": 1000, "b": 1000})
        self.assertEqual((code, data["costs"], data["raised"]), (1, {"a": 1000, "b": 900}, []))

    def test_raises_with_a_line_that_says_why(self):
        code, data = self.write({"a": 1100}, {"a": 1000}, 'a "quoted" reason')
        self.assertEqual((code, data["costs"]), (0, {"a": 1100}))
        self.assertEqual(data["raised"], [{"row": "a", "from": 1000, "to": 1100, "reason": 'a "quoted" reason'}])

    def test_knows_new_rows_and_forgets_old_ones(self):
        self.assertEqual(self.write({"new": 5}, {"old": 7})[1]["costs"], {"new": 5})


class Counting(unittest.TestCase):
    def test_counts_one_object_and_not_what_it_calls(self):
        self.assertEqual(COSTS["own_instructions"](DUMP, "/build/bin/costs"), 70 + 7 + 23 + 900)
        self.assertEqual(COSTS["own_instructions"](DUMP, "/usr/lib/libc.so.6"), 1500)

    def test_a_command_that_compiles_becomes_one_that_preprocesses(self):
        line = "ccache /usr/bin/c++ -DX -I/a -O2 -MD -MT o/x.o -MF o/x.o.d -o common/CMakeFiles/x.dir/x.o -c /a/x.cpp"
        self.assertEqual(COSTS["preprocessing"](line), ("common", "/usr/bin/c++ -DX -I/a -O2 /a/x.cpp -E -P".split(), None))
        self.assertIsNone(COSTS["preprocessing"](": && /usr/bin/c++ -O2 a.o -o bin/a && :"))

    def test_a_precompiled_header_is_known(self):
        line = "/usr/bin/c++ -Winvalid-pch -include /b/cmake_pch.hxx -o broker/x.o -c /a/x.cpp"
        self.assertEqual(COSTS["preprocessing"](line)[2], "/b/cmake_pch.hxx")
        itself = "/usr/bin/c++ -x c++-header -include /b/cmake_pch.hxx -o broker/cmake_pch.hxx.gch -c /b/cmake_pch.hxx.cxx"
        self.assertIsNone(COSTS["preprocessing"](itself)[2])


class Tree(unittest.TestCase):
    def setUp(self):
        self.text = (ROOT / COSTS["FILE"]).read_text()
        self.data = COSTS["read_file"](self.text)

    def test_the_file_is_as_it_is_written(self):
        self.assertEqual(COSTS["written"](self.data), self.text)

    def test_each_number_that_rose_says_why(self):
        self.assertEqual(COSTS["rises_without_reason"](COSTS["versions_of_file"]()), [])

    def test_each_slow_down_can_be_planted_and_each_path_has_one(self):
        plants, texts = COSTS["read_plants"](), {}
        for plant in plants:
            text = texts.setdefault(plant.path, (ROOT / plant.path).read_text())
            self.assertEqual(text.count(plant.old), 1, f"{plant.row}: its lines in {plant.path}")
            self.assertIn("lanemq_slower(", plant.new)
            texts[plant.path] = text.replace(plant.old, plant.new)
        for row in self.data["costs"]:
            if COSTS["kind_of"](row) == "instructions":
                self.assertTrue(any(plant.reaches(row) for plant in plants), row)


if __name__ == "__main__":
    os.chdir(ROOT)
    unittest.main()
