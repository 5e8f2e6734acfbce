# SPDX-License-Identifier: Apache-2.0
"""Looks for the bugs of tests/mutants/rooms.txt with what `scripts/test --ci` runs for a change of each one's file.

All of them are in one copy of the sources, build/mutants/rooms/src, each behind its switch, so that what finds it is built once.
Parts go in their order, but the part that found the bug before is asked first. In a part the units of the bug's own room go
first, the nearest ones before the others, then all else at once, until a test fails. A test that fails with a bug has to
pass without. The commands of a part (layers, formatting) say nothing of what a program does, and do not run. What sanitizers
watch is not optimised: compiling takes most of the time."""
import contextlib
import importlib.util
import os
import re
import time
import xml.etree.ElementTree

import planting

HEAD = "| bug | file | part and test |\n| --- | --- | --- |\n"
QUICK = ("CMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0 -g0",)
MODULES = ("client/node", "tests/integration/node", "tests/integration/sdk", "tests/integration/browser")
# What a failing test says of the case that failed.
CASES = (r"^\[  FAILED  \] (\w+(?:/\w+)*\.\w+(?:/\w+)*)", r"^died in: .*--gtest_filter=(\S+)", r"/(\w+)\.txt:\d+:",
         r"^(?:FAIL|ERROR): (\w+)", r"^\s*not ok \d+ - (.+)", r"^✖ (.+?) \(")


def testing_of(sources):
    """The copy's own scripts/lib/testing.py, which builds and tests what stands around it."""
    spec = importlib.util.spec_from_file_location("testing_of_rooms", sources / "scripts/lib/testing.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def switched_on(name):
    if name is not None:
        os.environ["LANEMQ_PLANTED"] = name
    try:
        yield
    finally:
        os.environ.pop("LANEMQ_PLANTED", None)


def nearness(folder, path):
    """How many folders a unit test, which runs in tests/unit/A/B of a build, shares with a file, and how many it has besides, as
    a negative number."""
    _, found, room = folder.partition("/tests/unit/")
    rooms, shared = room.split("/") if found else [], 0
    for one, other in zip(rooms, path.split("/")[:-1]):
        if one != other:
            break
        shared += 1
    return shared, shared - len(rooms)


def in_order(names, tests, path, known=None):
    """Groups of tests, one after the other."""
    near = {name: nearness(tests[name][2], path) for name in sorted(names)}
    near = sorted((name for name in near if near[name][0] > 0), key=near.get, reverse=True)
    first = [known] if known in names else []
    alone = first + [name for name in near if name not in first]
    rest = sorted(set(names) - set(alone))
    return [[name] for name in alone] + ([rest] if rest else [])


def case_of(said):
    """Which case of a test failed; None: it does not say."""
    for pattern in CASES:
        if found := re.search(pattern, said, re.MULTILINE):
            return found[1]
    return None


class Rooms:
    def __init__(self, root, bugs):
        self.sources = root / "build/mutants/rooms/src"
        planting.copy(root, self.sources, planting.planted_files(root, bugs))
        for folder in MODULES:
            modules, link = root / folder / "node_modules", self.sources / folder / "node_modules"
            if modules.is_dir() and not link.exists():
                link.symlink_to(modules)
        self.testing = testing_of(self.sources)
        self.needs = self.testing.Needs((self.sources / "tests/needs.toml").read_text())
        self.log = (self.sources.parent / "log").open("w")
        self.builds, self.sound = {}, set()

    def build(self, preset):
        """A build and its tests, configured once."""
        if preset not in self.builds:
            build = self.testing.Build(preset, more=() if preset == "release" else QUICK, log=self.log)
            build.configure(self.testing.Clock(None))
            self.builds[preset] = (build, build.tests(self.testing.Clock(None)))
        return self.builds[preset]

    def parts(self, paths):
        """(part, names of its tests) of a change of these files."""
        labels, _, everything = self.needs.asked(paths)
        for part in self.needs.parts:
            if "preset" in part and self.needs.runs(part, labels, everything):
                yield part, lambda part=part: set(self.needs.choose(part, labels, everything)(self.build(part["preset"])[1]))

    def failed(self, preset, names, switch, arguments=()):
        """Builds what these tests need, and runs them; those that fail."""
        build, tests = self.build(preset)
        build.make({file for name in names for file in tests[name][1]}, self.testing.Clock(None))
        with switched_on(switch):
            outcomes = build.check(sorted(names), self.testing.Clock(None), arguments)
        if switch is None:
            self.sound |= {(preset, name) for name, (outcome, _, _) in outcomes.items() if outcome == "passed"}
        red = sorted(name for name, (outcome, _, _) in outcomes.items() if outcome == "failed")
        failed = [name for name in red if self.case(preset, name).get("status") == "fail"]
        if red and not failed:  # what --stop-on-failure left out is red, too, but only behind a failure
            raise self.testing.Failed(f"{', '.join(red)[:200]} did not run")
        return failed

    def case(self, preset, name):
        """What CTest's report says of a test; empty: it was not run."""
        report = self.builds[preset][0].folder / "Testing/report.xml"
        cases = xml.etree.ElementTree.parse(report).getroot().iter("testcase")
        return next((case for case in cases if case.get("name") == name), xml.etree.ElementTree.Element("testcase"))

    def finder(self, bug, known=""):
        """Who finds a bug, as the table says it; None: nobody."""
        before = re.match(r"`(\w+)`: `(\w+)`", known)
        parts = sorted(self.parts([bug.path]), key=lambda each: before is None or each[0]["name"] != before[1])
        for part, names in parts:
            preset = part["preset"]
            for group in in_order(names(), self.build(preset)[1], bug.path, before and before[2]):
                failed = self.failed(preset, group, bug.name, ["--stop-on-failure"])
                if not failed:
                    continue
                name, case = failed[0], case_of(self.case(preset, failed[0]).findtext("system-out", ""))
                if (preset, name) not in self.sound and self.failed(preset, [name], None):
                    raise self.testing.Failed(f"without any bug {name} fails ({part['name']})")
                return f"`{part['name']}`: `{name}`" + (f", `{case}`" if case else "")
        return None

    def baseline(self, bugs):
        """All of it without a bug; what fails."""
        red = []
        for part, names in self.parts([bug.path for bug in bugs]):
            if chosen := names():
                red += [f"without any bug {name} fails ({part['name']})" for name in self.failed(part["preset"], chosen, None)]
        return red


def row_of(bug):
    return f"{bug.what} | `{bug.path}`"


def look_for(root, every_bug, bugs, baseline, write):
    """The exit code of scripts/mutants."""
    os.environ.update({"CCACHE_BASEDIR": "/", "CCACHE_NOHASHDIR": "1"})
    os.environ.setdefault("RC_PARAMS", "seed=1")
    page = root / "tests/mutants/found.md"
    known, found, errors = planting.table(page, HEAD), {}, []
    rooms = Rooms(root, every_bug)
    try:
        errors = rooms.baseline(bugs) if baseline else []
    except rooms.testing.Failed as failed:
        errors = [str(failed)]
    for bug in bugs if not errors else ():
        begun, row = time.monotonic(), row_of(bug)
        try:
            found[row] = rooms.finder(bug, known.get(row, ""))
        except rooms.testing.Failed as failed:
            errors.append(f"{bug.name}: {failed}")
            continue
        print(f"{bug.name}: {bug.path}: {found[row] or 'NOTHING'} ({time.monotonic() - begun:.0f} s)", flush=True)
        if write:  # at once: it takes long, and what is not looked for stays as it is
            rows = {**known, **{seen: finder or "**nothing**" for seen, finder in found.items()}}
            planting.write_table(page, HEAD, [(row_of(each), rows[row_of(each)]) for each in every_bug if row_of(each) in rows])
    for error in errors:
        print(f"error: {error}")
    survivors = sum(finder is None for finder in found.values())
    print(f"\n{len(found)} bugs, {survivors} survive; what was built and run: {rooms.log.name}")
    stale = [row for row, finder in found.items() if finder and known.get(row) != finder and not write]
    for row in stale:
        print(f"tests/mutants/found.md says of \"{row.split(' | ')[0]}\": {known.get(row, 'nothing')}; seen: {found[row]}")
    return 2 if errors else 1 if survivors or stale else 0
