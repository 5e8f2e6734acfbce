# SPDX-License-Identifier: Apache-2.0
"""The classes of errors are the table of docs/protocol/README.md, and those of failures the classes of docs/protocol/worker.md."""

import os
import re
import sys
import unittest

import support
import lanemq
from lanemq import errors, failures

sys.path.insert(0, os.path.join(support.ROOT, "tests/integration"))
from pages import protocol_text  # noqa: E402

PAGE = protocol_text()


class Table(unittest.TestCase):
    def rows(self):
        table = PAGE.split("\n## Error codes\n")[1].split("\n## ")[0]
        return re.findall(r"^\| `(\w+)` \| (\d+) \| (yes)? ?\| (.*) \|$", table, re.MULTILINE)

    def test_each_code_of_the_page_has_a_class_and_no_other(self):
        self.assertGreater(len(self.rows()), 20)
        self.assertEqual([(code, row.http_status, row.says_when_to_retry) for code, row in errors.BY_CODE.items()],
                         [(code, int(status), bool(retry)) for code, status, retry, _ in self.rows()])

    def test_each_class_says_what_the_page_says(self):
        for code, _, _, meaning in self.rows():
            said = " ".join(errors.BY_CODE[code].__doc__.split())
            meaning = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", meaning)
            self.assertEqual(said, meaning[0].upper() + meaning[1:] + ".")

    def test_each_class_is_of_the_package(self):
        for row in errors.BY_CODE.values():
            self.assertIs(getattr(lanemq, row.__name__), row)
            self.assertIn(row.__name__, lanemq.__all__)

    def test_an_unknown_code_is_internal_and_keeps_its_word(self):
        error = errors.error_of("from_tomorrow", "m", id="a")
        self.assertEqual((type(error), error.code, str(error)), (lanemq.InternalError, "from_tomorrow", "from_tomorrow: m (job a)"))
        self.assertEqual(lanemq.InternalError.code, "internal")

    def test_failures_are_the_classes_of_the_page(self):
        table = PAGE.split("\n| class | what the broker does |\n")[1].split("\n\n")[0]
        named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
        classes = [each.error_class for each in failures.Failure.__subclasses__()]
        self.assertEqual(sorted(classes), sorted(named))


if __name__ == "__main__":
    unittest.main()
