# SPDX-License-Identifier: Apache-2.0
"""What the packages for Python and Node have of the protocol's tables is what these are."""

import importlib.machinery
import importlib.util
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
LOADER = importlib.machinery.SourceFileLoader("tables", str(ROOT / "scripts/tables"))
tables = importlib.util.module_from_spec(importlib.util.spec_from_loader("tables", LOADER))
LOADER.exec_module(tables)


class Tables(unittest.TestCase):
    def test_what_is_written_is_up_to_date(self):
        checked = subprocess.run([ROOT / "scripts/tables", "--check"], capture_output=True, text=True)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))

    def test_numbers_are_read_as_the_compiler_reads_them(self):
        self.assertEqual(tables.value_of("a", "std::size_t{16} * 1024"), 16384)
        self.assertEqual(tables.value_of("a", "365LL * 24 * 3600 * 1000"), 31_536_000_000)
        self.assertEqual(tables.value_of("a", "std::size_t{1} << 20"), 1024 * 1024)
        self.assertEqual(tables.value_of("a", "3'600'000"), 3_600_000)

    def test_what_is_no_number_ends_it(self):
        with self.assertRaises(SystemExit):
            tables.value_of("a", "__import__('os')")

    def test_nothing_of_the_tables_is_left_out(self):
        header = (ROOT / "common/protocol/include/lanemq/end_times.hpp").read_text()
        spans, numbers = tables.times()
        self.assertEqual(len(spans) + len(numbers), sum(line.count("{") + line.count(" = ") for line in header.splitlines()
                                                        if line.startswith("inline constexpr")) - header.count("std::size_t{"))
        self.assertEqual((spans["reopen_pause"], spans["reopen_pause_max"], numbers["outcomes_max"]), (100, 3200, 2048))
        self.assertIn("not_owner", tables.refusals())
        self.assertEqual([len(tables.fields()[name]) for name in ("USAGE", "LIMITS")], [5, 15])


if __name__ == "__main__":
    unittest.main()
