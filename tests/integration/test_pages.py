# SPDX-License-Identifier: Apache-2.0
"""What the pages say: each link leads somewhere, and what README, the pages of docs/start/ and other console blocks
have typed prints what they say, and what is written from the programs is as they are. typed.py says how blocks are marked."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

import typed
from pages import ROOT, anchors, divided, in_order, links, pages, text_of

# A page that is longer than a screen says at its top what is in it.
SCREEN_LINES = 50
# Blocks that are not run, by the name in the mark before them, and why.
NOT_RUN = {
    "apt": "it is for root; scripts/deps has installed the packages",
    "build": "it fetches and builds what is tested here",
    "show": "scripts/run builds; test_programs.py has its programs together",
    "key": "it needs a key of OpenAI's and the internet",
    "python": "it needs openai from PyPI; the same calls in JavaScript are run",
    "npm": "it fetches from npm; the test takes what `npm ci` put beside it",
    "elsewhere": "it needs another machine",
    "package": "it is for root; tests/bare/packages does it on a machine of its own",
    "systemd": "it is for root, on a machine that systemd has booted",
    "proxy": "it is a file for nginx or Caddy",
    "line": "it is one line of a program",
    "agents": "it needs an agent of another maker; scripts/agents has them do a task",
}
NODE_MODULES = os.path.join(ROOT, "tests/integration/sdk/node_modules")
NODE_PACKAGE = os.path.join(ROOT, "client/node")


class Links(unittest.TestCase):
    """Relative links and anchors; what lies elsewhere on the internet is not asked."""

    def test_each_link_leads_to_a_file_and_a_heading(self):
        known, dead = {}, []
        for page in pages():
            for number, target in links(page):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                found = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
                if not os.path.exists(os.path.join(ROOT, found)):
                    dead.append(f"{page}:{number}: {target}: there is no {found}")
                elif anchor and found.endswith(".md"):
                    if anchor not in known.setdefault(found, anchors(found)):
                        dead.append(f"{page}:{number}: {target}: {found} has no heading #{anchor}")
        self.assertEqual(dead, [])

    def test_the_index_names_each_page(self):
        named = {os.path.normpath(os.path.join("docs", target.partition("#")[0])) for _, target in links("docs/README.md")}
        self.assertEqual([page for page in pages() if page.startswith("docs/") and page not in named],
                         ["docs/README.md"])

    def test_a_long_page_has_a_list_of_its_contents(self):
        without = []
        for page in pages():
            prose, _ = divided(page)
            chapters = [line for _, line in prose if line.startswith("## ")]
            named = [target for _, target in links(page) if target.startswith("#")]
            if page.startswith("docs/") and len(text_of(page).splitlines()) > SCREEN_LINES and len(chapters) > 1:
                first = next(number for number, line in prose if line.startswith("## "))
                if sum(number < first for number, target in links(page) if target.startswith("#")) < 2:
                    without.append(page)
        self.assertEqual(without, [])

    def test_each_row_of_a_table_has_the_cells_of_its_head(self):
        broken = []
        for page in pages():
            head, before = None, None
            for number, line in divided(page)[0]:
                if not line.strip().startswith("|"):
                    continue
                cells = len(re.findall(r"(?<!\\)\|", line)) - 1
                if before != number - 1:
                    head = cells
                elif cells != head:
                    broken.append(f"{page}:{number}: {cells} cells, its head has {head}")
                before = number
        self.assertEqual(broken, [])

    def test_what_machines_read_of_the_pages_is_there(self):
        """llms.txt names pages by their paths from the project's root."""
        with open(os.path.join(ROOT, "llms.txt"), encoding="utf-8") as file:
            named = re.findall(r"\]\(([^)]+)\)", file.read())
        self.assertEqual([path for path in named if not os.path.exists(os.path.join(ROOT, path))], [])
        self.assertEqual([page for page in pages() if page.startswith("docs/") and page not in named], ["docs/README.md"])


class Reference(unittest.TestCase):
    """What is written from the programs is as they are now, and what is written by hand leaves nothing out."""

    def test_scripts_pages_would_change_nothing(self):
        environment = os.environ | {"LANEMQ_BIN": os.path.abspath(typed.harness.PROGRAMS)}
        asked = subprocess.run([sys.executable, os.path.join(ROOT, "scripts/pages"), "--check"], env=environment,
                               stderr=subprocess.PIPE, text=True)
        self.assertEqual(asked.returncode, 0, asked.stderr)

    def test_each_key_of_lanes_clients_and_budgets_has_a_row(self):
        """`--print-config` names all of them, those that are not set behind a #."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "broker.toml"), "w") as file:
                file.write('[[budget]]\nname = "b"\nlimits = { concurrency = 1 }\n[clients.x]\nweight = 2\n')
            printed = subprocess.run([typed.harness.program("lanemq-broker"), "--config", file.name, "--print-config"],
                                     check=True, stdout=subprocess.PIPE, text=True).stdout
        keys = {key.removeprefix("match.") for key in re.findall(r"^(?:# )?([\w.]+) = ", printed[printed.index("\n[["):], re.MULTILINE)}
        page = text_of("docs/reference/broker-options.md")
        self.assertIn("boost_after", keys)
        self.assertEqual(sorted(key for key in keys if f"`{key}`" not in page), [])

    def test_install_names_the_packages_of_the_libraries(self):
        """Those that the programs are linked with; what they need in turn apt finds."""
        packages = set()
        for name in ("lanemq-broker", "lanemq-worker", "lanemq-gateway", "lanemq"):
            heard = [subprocess.run([*command, typed.harness.program(name)], check=True, stdout=subprocess.PIPE, text=True).stdout
                     for command in (["objdump", "-p"], ["ldd"])]
            needed, places = re.findall(r"NEEDED +(\S+)", heard[0]), dict(re.findall(r"(\S+) => (\S+)", heard[1]))
            if any(re.match(r"lib(a|t|ub)san", library) for library in needed):
                self.skipTest("built with a sanitizer")
            owners = subprocess.run(["dpkg", "-S", *(os.path.realpath(places[library]) for library in needed if library in places)],
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout  # it does not find some of libc's
            packages.update(owner.partition(":")[0] for owner in owners.splitlines())
        command = re.search(r"^\$ apt install (lib.*\n> .*)$", text_of("docs/start/install.md"), re.MULTILINE)[1]
        self.assertEqual(sorted(re.findall(r"lib\S+", command)),
                         sorted(packages - {"libc6", "libgcc-s1", "libstdc++6"}))  # each Debian has these

    def test_each_error_has_a_chapter_with_its_status(self):
        """The table of the protocol's page is compared with the code elsewhere."""
        table = text_of("docs/protocol/README.md").split("\n## Error codes\n")[1].split("\n## ")[0]
        rows = re.findall(r"^\| `(\w+)` \| (\d+) \| (yes)? ?\|", table, re.MULTILINE)
        page = text_of("docs/reference/errors.md").split("\n## From the gateway\n")[0]
        chapters = re.findall(r"^### (\w+)\n\nHTTP (\d+)(, with `retry_after_ms`)?\.", page, re.MULTILINE)
        self.assertEqual([(code, status, bool(retry)) for code, status, retry in chapters],
                         [(code, status, bool(retry)) for code, status, retry in rows])
        self.assertEqual(re.findall(r"^\| \[`(\w+)`\]", page, re.MULTILINE), [row[0] for row in rows])

    def test_each_event_of_the_log_is_listed_with_its_level(self):
        """What the sources log, by the words in the calls; names that are put together are left to the page."""
        said = set()
        for folder in ("broker", "worker", "client/gateway", "common"):
            for path, _, files in os.walk(os.path.join(ROOT, folder)):
                for name in (name for name in files if name.endswith((".cpp", ".hpp"))):
                    with open(os.path.join(path, name), encoding="utf-8") as file:
                        source = file.read()
                    for call in re.finditer(r"(?:log::event\(|\blog_worker\(|\bLogLine(?: line)?\()(?:[^;{]|\{(?!\{))*", source):
                        level = re.search(r"Level::(\w+)", call[0])
                        events = re.findall(r'"([a-z]+\.[a-z_]+)"', call[0])
                        said.update((event, level[1]) for event in events if level and " ? " not in call[0].split(event)[0])
                        said.update((event, None) for event in events)
        self.assertGreater(len(said), 60)
        listed = {}
        for events, level in re.findall(r"^\| ((?:`[\w.]+`(?:, )?)+) \| ([a-z ]+) \|", text_of("docs/reference/log-events.md"),
                                        re.MULTILINE):
            for event in re.findall(r"`([\w.]+)`", events):
                listed.setdefault(event, set()).add(level)
        missing = sorted(f"{event} {level or ''}" for event, level in said
                         if event not in listed or level and not {level, "as above"} & listed[event])
        self.assertEqual(missing, [])
        put_together = {"admin.VERB"} | {f"config.{what}_{done}" for what in ("keys", "models")
                                         for done in ("added", "changed", "removed")}
        self.assertEqual(set(listed) - {event for event, _ in said} - put_together, set())


class Commands(unittest.TestCase):
    def follow(self, page):
        """Does what a page says, from its first line to its last, and returns the desk at which it did so."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        for part in ("broker", "client", "common", "scripts", "worker"):
            os.symlink(os.path.join(ROOT, part), os.path.join(folder, part))
        desk = typed.Desk(self, folder)
        for what in in_order(page):
            if isinstance(what, str):
                desk.interrupt(what)
            elif what.mark == "not run":
                self.assertIn(what.name, NOT_RUN, f"{what}: NOT_RUN does not say why")
                self.not_run.add(what.name)
            elif what.mark == "file":
                with open(os.path.join(folder, what.name), "w") as file:
                    file.write(desk.there(what.text))
            elif what.language == "console":
                self.type(desk, what)
            else:
                self.assertNotIn(what.language, ("sh", "bash", "shell"), f"{what}: write `console`, or mark it `not run`")
        for name in reversed(list(desk.staying)):
            desk.interrupt(name)
        return desk

    def type(self, desk, block):
        for command, expected in typed.steps_of(block):
            if "node " in command:
                self.give_modules(desk)
            if block.mark == "stays":
                desk.start(block, block.name, command, expected)
            else:
                desk.run(block, command, expected)

    def give_modules(self, desk):
        for place in (NODE_MODULES, os.path.join(NODE_PACKAGE, "node_modules")):
            if not os.path.isdir(place):
                self.fail(f"{place} is missing: run `npm ci --ignore-scripts` in {os.path.dirname(place)}")
        if not os.path.exists(modules := os.path.join(desk.folder, "node_modules")):
            os.mkdir(modules)
            for name in os.listdir(NODE_MODULES):
                os.symlink(os.path.join(NODE_MODULES, name), os.path.join(modules, name))
            os.symlink(NODE_PACKAGE, os.path.join(modules, "lanemq"))

    def test_they_print_what_the_pages_say(self):
        self.not_run = set()
        for page in pages():
            typed_here = any(block.language == "console" for block in divided(page)[1])
            if page == "README.md" or page.startswith("docs/start/") or typed_here:
                with self.subTest(page):
                    self.follow(page)
        self.assertEqual(self.not_run, set(NOT_RUN), "NOT_RUN names what no page has")


if __name__ == "__main__":
    unittest.main()
