#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What scripts/tidy finds, and what it lets pass: each bound is kept by a tree that has just as much, and broken by one more."""
import contextlib
import io
import pathlib
import runpy
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[3]
TIDY = runpy.run_path(str(SOURCE / "scripts/tidy"))


def a_function(lines, name="one"):
    return "\n".join([f"void {name}() {{", *["  work();"] * (lines - 2), "}"])


def a_class(methods=1, members=1, kind="class", inside=""):
    """With what is easily miscounted: comments, initial values with commas, types with brackets, a deleted function."""
    lines = [f"{kind} Much final : public Base<int, 2> {{", " public:", "  Much() : of_0_(1), of_1_{2} {}  // not so; many()",
             "  Much(const Much&) = delete;", "  using Table = std::map<int, std::function<void(int)>>;", "  enum class Odd { a, b };",
             "  struct Row {", "    int a = 0, b = f(1, 2);", "    int sum() const { return a + b; }", "  };", inside]
    lines += [f"  template <class T>\n  bool does_{i}(const T& one,\n      std::array<int, 2> two) const;" for i in range(1, methods)]
    lines += [" private:", "  static constexpr int kNone_ = 0;"]
    lines += [f"  std::function<void(int, int)> of_{i}_ = [](int a, int b) {{ return f(a, b); }};" for i in range(members)]
    return "\n".join([*lines, "};"])


class Tidy(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for folder in ("common", "broker", "worker", "client", "scripts", "tests"):
            (self.root / folder).mkdir()
        self.write("worker/good.cpp", a_function(3) + "\n")
        self.rows("")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def rows(self, text):
        self.write("scripts/tidy.toml", text)

    def git(self, *arguments):
        return subprocess.run(["git", "-c", "user.name=T", "-c", "user.email=t@example.org", *arguments], cwd=self.root, check=True,
                              capture_output=True, text=True).stdout.strip()

    def commit(self, *messages):
        if not (self.root / ".git").exists():
            self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-q", *(word for message in messages for word in ("-m", message)))
        return self.git("rev-parse", "HEAD")

    def found(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = TIDY["main"](self.root)
        lines = said.getvalue().splitlines()
        self.assertEqual(code, 0 if lines[0].startswith("tidy: ") else 1)
        return [] if code == 0 else lines

    def is_red(self, *words):
        found = self.found()
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_a_tree_that_has_as_much_as_it_may_is_in_order(self):
        self.write("worker/much.hpp", a_class(methods=40, members=12))
        self.write("worker/long.cpp", a_function(70) + "\n\n" + a_function(250, "key_table") + "\n")
        for number in range(24):
            self.write(f"client/cli/file_{number}.hpp", "")
        self.write("client/node/lib/many/none.js", "")
        self.assertEqual(self.found(), [])

    def test_a_class_of_41_functions_outside_the_core(self):
        for kind in ("class", "struct"):
            for room in ("worker", "client/library", "broker/core/base"):
                with self.subTest(kind=kind, room=room):
                    self.write(f"{room}/much.hpp", a_class(methods=41, kind=kind))
                    self.is_red(f"{room}/much.hpp: Much has 41 functions and 12 members, more than 40 functions")
                    self.write(f"{room}/much.hpp", "")

    def test_a_class_of_13_members_and_one_inside_of_another(self):
        self.write("worker/much.hpp", "class Outer {\n  " + a_class(members=13).replace("\n", "\n  ") + "\n  int own_;\n};\n")
        self.is_red("worker/much.hpp: Much has 40 functions and 13 members")
        self.write("worker/much.hpp", a_class(members=12, inside="  int more_ = 0,\n      and_one_{1};"))
        self.is_red("worker/much.hpp: Much has 40 functions and 14 members")
        self.write("worker/much.hpp", a_class(members=12, inside="  struct {\n    int a = 0;\n    int b = 0;\n  } group_;"))
        self.is_red("worker/much.hpp: Much has 40 functions and 13 members")

    def test_a_function_of_71_lines(self):
        self.write("worker/long.cpp", a_function(71) + "\n")
        self.is_red("worker/long.cpp: one has 71 lines, more than 70")
        self.write("worker/long.cpp", a_class(inside="  " + a_function(71).replace("\n", "\n  ")))
        self.is_red("worker/long.cpp: Much::one has 71 lines, more than 70")

    def test_a_table_of_251_lines(self):
        self.write("worker/table.cpp", a_function(251, "key_table") + "\n")
        self.is_red("worker/table.cpp: key_table has 251 lines")

    def test_the_25th_file_of_a_folder(self):
        for room in ("client/cli", "common/http/server", "broker/core/base"):
            with self.subTest(room=room):
                for number in range(25):
                    self.write(f"{room}/file_{number}.hpp", "")
                self.is_red(f"{room} has 25 files, more than 24")
                (self.root / room / "file_0.hpp").unlink()

    def test_a_row_allows_what_is_there_and_may_only_shrink(self):
        self.write("worker/much.hpp", a_class(members=14))
        self.rows('[classes]\n"worker/much.hpp: Much" = [40, 14]\n')
        self.assertEqual(self.found(), [])
        self.rows('[classes]\n"worker/much.hpp: Much" = [40, 13]\n')
        self.is_red("worker/much.hpp: Much has 40 functions and 14 members", "allows 40 functions and 13 members")
        self.rows('[classes]\n"worker/much.hpp: Much" = [40, 15]\n')
        self.is_red("worker/much.hpp: Much has become smaller: write [40, 14]")
        self.write("worker/much.hpp", a_class())
        self.is_red("worker/much.hpp: Much is within its bounds, or gone: remove its row")

    def test_a_row_is_raised_or_added_with_a_reason_alone(self):
        self.write("worker/long.cpp", a_function(80) + "\n")
        first = self.commit("first")
        self.rows('[functions]\n"worker/long.cpp: one" = 80\n')
        self.assertIn("worker/long.cpp: one was raised to 80", self.found()[0])
        self.rows('[functions]\n"worker/long.cpp: one" = 80  # it is divided with the room\n')
        self.assertEqual(self.found(), [])
        self.commit("second")
        self.write("worker/long.cpp", a_function(90) + "\n")
        self.rows('[functions]\n"worker/long.cpp: one" = 90\n')
        self.is_red("not committed: worker/long.cpp: one was raised to 90")
        third = self.commit("third")
        self.write("worker/long.cpp", a_function(85) + "\n")
        self.rows('[functions]\n"worker/long.cpp: one" = 85\n')
        self.commit("fourth")
        raised = list(TIDY["raises"](self.root, first))
        self.assertEqual(len(raised), 1, raised)
        self.assertIn(third[:7], raised[0])

    def test_a_commit_of_more_than_pages_and_tests_has_a_body(self):
        first = self.commit("first")
        self.write("docs/page.md", "a page\n")
        self.write("tests/unit/one.py", "pass\n")
        self.commit("docs: a page")
        self.write("worker/good.cpp", a_function(4) + "\n")
        self.commit("worker: work twice", "Once was too seldom.")
        self.assertEqual(list(TIDY["bodies"](self.root, first)), [])
        self.write("worker/good.cpp", a_function(5) + "\n")
        self.write("docs/page.md", "another page\n")
        last = self.commit("worker: work three times")
        told = list(TIDY["bodies"](self.root, first))
        self.assertEqual(len(told), 1, told)
        self.assertTrue(told[0].startswith(last[:7]) and "worker: work three times" in told[0], told)

    def test_history_that_is_not_there_is_not_checked(self):
        self.assertEqual(self.found(), [])
        self.commit("s" * 100)
        self.assertEqual(self.found(), [])
        self.git("clone", "-q", "--depth", "1", f"file://{self.root}", "shallow")
        self.assertEqual(list(TIDY["bodies"](self.root / "shallow")), [])

    def test_a_test_that_waits_for_time(self):
        for name, text in {"tests/a.py": "time.sleep(1)  # 'twas\n", "tests/b.mjs": "await sleep(5)\n", "tests/c": "from time import sleep\nsleep(3)\n",
                           "tests/d.hpp": "void f() { std::this_thread::sleep_for(1'000ms); }\n"}.items():
            with self.subTest(name=name):
                self.write(name, text)
                self.is_red(f"{name} has 1 waits for time")
                self.rows(f'[waits]\n"{name}" = [1, ""]\n')
                self.is_red("has no reason")
                self.rows(f'[waits]\n"{name}" = [1, "it looks again"]\n')
                self.assertEqual(self.found(), [])
                self.rows("")
                (self.root / name).unlink()

    def test_a_program_in_a_text_waits_as_long_as_it_likes(self):
        self.write("tests/a.py", "JOB = 'import time; time.sleep(9)'\nOTHER = \"\"\"\ntime.sleep(1)\n\"\"\"\n# time.sleep(1)\n")
        self.write("tests/b.mjs", "run(`await sleep(1)`)  // sleep(1)\n")
        self.write("tests/c.cpp", 'auto a = run("sleep(1)");  // sleep_for(1)\n')
        self.assertEqual(self.found(), [])

    def test_a_test_that_nobody_builds(self):
        self.write("tests/unit/one_test.cpp", "")
        self.is_red("tests/unit/one_test.cpp: no CMakeLists.txt names it")
        self.write("tests/CMakeLists.txt", "program(unit/one_test.cpp)\n")
        self.assertEqual(self.found(), [])


if __name__ == "__main__":
    unittest.main()
