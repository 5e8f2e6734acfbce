# SPDX-License-Identifier: Apache-2.0
"""What scripts/test does once the machine has what it takes: configures, builds what the chosen tests need, runs them, and says at the
end what ran, in which build, how long it took, and what did not run and why. tests/needs.toml says which tests a change needs."""
import fnmatch
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PRESETS = ("release", "asan", "tsan")
# What --all asks of CMake besides: checks that double what the compiler has to do.
NIGHTLY = ("LANEMQ_SANITIZE_BUT=",)
# Groups of processes that run() has started and that have not ended.
STARTED = set()
# Of a change nobody names: what the commits of the last day touched.
DAY = "24 hours ago"
# Tests of real processes wait more than they compute: one more than the machine has processors.
SIDE_BY_SIDE = (os.cpu_count() or 1) + 1


class Failed(Exception):
    """A step that ended otherwise than it had to; its text says how."""


class Clock:
    """How long something may take. minutes: None for ever. of: of how many these are what is left."""

    def __init__(self, minutes, of=None):
        self.begun, self.minutes, self.of = time.monotonic(), minutes, of or minutes

    def spent_s(self):
        return time.monotonic() - self.begun

    def left_s(self):
        return None if self.minutes is None else max(0.0, 60 * self.minutes - self.spent_s())


def say(text):
    print(text, flush=True)


def minutes(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def run(command, clock, **options):
    """Runs a command to its end, and all that it started is gone when its time is over."""
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True, **options)
    STARTED.add(process.pid)
    try:
        output, _ = process.communicate(timeout=clock.left_s())
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise Failed(f"does not fit: more than its {clock.of:g} minutes; under way was {' '.join(command)[:120]}") from None
        raise
    finally:
        STARTED.discard(process.pid)
    return process.returncode, output


def folder(preset):
    return ROOT / "build" if preset == "release" else ROOT / "build" / preset


class Build:
    """One preset: its folder, the tests that it knows. more: what CMake is told besides, as NAME=VALUE. log: a file for what Ninja and
    CTest say; None: where this says its own."""

    def __init__(self, preset, kinds=None, more=(), log=None):
        self.preset, self.folder, self.kinds, self.more = preset, folder(preset), kinds, more
        self.configured = False
        self.said = {} if log is None else {"stdout": log, "stderr": log}

    def configure(self, clock):
        """Once: what is run beside a build must not see its files written again."""
        if self.configured:
            return
        kinds = [] if self.kinds is None else [f"-DLANEMQ_TEST_KINDS={';'.join(self.kinds)}"]
        compiler = [f"-DCMAKE_CXX_COMPILER={os.environ['CXX']}"] if os.environ.get("CXX") else []
        code, output = run(["cmake", "--preset", self.preset, "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache", *compiler, *kinds,
                            *(f"-D{each}" for each in self.more)], clock, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if code:
            raise Failed(f"the build could not be configured\n{output}")
        self.configured = True

    def tests(self, clock, arguments=()):
        """name -> (labels, files that it needs, the folder that it runs in)"""
        code, output = run(["ctest", "--test-dir", str(self.folder), "--show-only=json-v1", *arguments], clock,
                           stdout=subprocess.PIPE, text=True)
        if code:
            raise Failed("ctest does not say what tests there are")
        tests = {}
        for test in json.loads(output)["tests"]:
            properties = {p["name"]: p["value"] for p in test.get("properties", [])}
            tests[test["name"]] = (set(properties.get("LABELS", [])), properties.get("REQUIRED_FILES", []),
                                   properties.get("WORKING_DIRECTORY", ""))
        return tests

    def make(self, targets, clock):
        """targets: files of the build's folder; None: everything."""
        command = ["cmake", "--build", str(self.folder)]
        if targets is not None:
            if not targets:
                return
            command += ["--target", *sorted(str(pathlib.Path(t).relative_to(self.folder)) for t in targets)]
        # No more than there are processors: tests of real processes may be under way beside it.
        code, _ = run([*command, "--parallel", str(os.cpu_count() or 1), "--", "--quiet"], clock, **self.said)
        if code:
            raise Failed("the build failed")

    def check(self, names, clock, arguments=()):
        """Runs tests; {name: (outcome, seconds, why)}."""
        report = self.folder / "Testing/report.xml"
        report.parent.mkdir(exist_ok=True)
        report.unlink(missing_ok=True)
        chosen = ["-R", f"^({'|'.join(map(re.escape, names))})$"] if names is not None else []
        code, _ = run(["ctest", "--preset", self.preset, "--parallel", str(SIDE_BY_SIDE), "--no-tests=error", "--output-junit", str(report),
                       *chosen, *arguments], clock, **self.said)
        if not report.exists():
            raise Failed(f"ctest ended with {code} and said nothing of its tests")
        outcomes = {}
        for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
            status, skipped = case.get("status"), case.find("skipped")
            why = skipped.get("message", "") if skipped is not None else ""
            outcome = "passed" if status == "run" else "skipped" if status == "notrun" and "SKIP" in why.upper() else "failed"
            outcomes[case.get("name")] = (outcome, float(case.get("time", 0)), why)
        for missing in set(names or ()) - set(outcomes):
            outcomes[missing] = ("failed", 0.0, "did not run")
        if code and not any(outcome == "failed" for outcome, _, _ in outcomes.values()):
            raise Failed(f"ctest ended with {code}")
        return outcomes


class Part:
    """One row of what ran. limit: minutes for its building and its running together, None: any. preset: of its tests, if there are such."""

    def __init__(self, name, limit=None, preset=None):
        self.name, self.limit, self.preset = name, limit, preset
        self.built_s = self.ran_s = 0.0
        self.outcomes, self.wrong, self.left_out = {}, None, None
        self.clock = Clock(limit)

    def count(self, outcome):
        return sum(1 for was, _, _ in self.outcomes.values() if was == outcome)

    def guard(self, work, whole=None):
        """Does a step of the part's work; what goes wrong is the part's. Returns how long it lasted. whole: a clock of all parts."""
        left = [whole.left_s() / 60] if whole else []
        if self.limit is not None:
            left.append(self.limit - (self.built_s + self.ran_s) / 60)
        self.clock = Clock(max(0.0, min(left)) if left else None, self.limit)
        try:
            if whole and whole.left_s() == 0:
                raise Failed(f"does not fit: the {whole.minutes:g} minutes of the whole are over")
            work()
        except Failed as failed:
            self.wrong = str(failed)
            say(f"== {self.name}: {self.wrong}")
        return self.clock.spent_s()


class Work:
    """What makes a part: what is built for it, then what is run. Either may be nothing."""

    def __init__(self, part):
        self.part = part

    def build(self):
        pass

    def run(self):
        pass


class Commands(Work):
    """A part of commands; `compiles`: they take their turn among the builds."""

    def __init__(self, part, commands, compiles=False):
        super().__init__(part)
        self.commands, self.compiles = commands, compiles

    def build(self):
        if self.compiles:
            self.each()

    def run(self):
        if not self.compiles:
            self.each()

    def each(self):
        for command in self.commands:
            before = time.monotonic()
            code, _ = run(command.split(), self.part.clock)
            self.part.outcomes[command] = ("failed" if code else "passed", time.monotonic() - before, "")


class Tests(Work):
    """Tests of a build. choose(tests): which of them, with what they need; None: those of ctest's `arguments`. everything: it is built whole."""

    def __init__(self, part, build, choose=None, arguments=(), everything=False):
        super().__init__(part)
        self.of, self.choose, self.arguments, self.everything = build, choose, arguments, everything
        self.names = []

    def build(self):
        self.of.configure(self.part.clock)
        tests = self.of.tests(self.part.clock, self.arguments if self.choose is None else ())
        self.names = sorted(self.choose(tests) if self.choose else tests)
        if not self.names and self.choose:
            self.part.left_out = "no test that the change needs is in this build"
            return
        self.of.make(None if self.everything else {file for name in self.names for file in tests[name][1]}, self.part.clock)

    def run(self):
        if not self.part.left_out:
            self.part.outcomes = self.of.check(self.names if self.choose else None, self.part.clock, self.arguments)


def two_lanes(works, whole=None):
    """Builds one after the other, and beside that runs one after the other what is built: tests of real processes wait more than they
    compute, and a compiler fills the gaps."""
    built = [threading.Event() for _ in works]

    def builds():
        for work, done in zip(works, built):
            work.part.built_s = work.part.guard(work.build, whole)
            done.set()

    builder = threading.Thread(target=builds, daemon=True)
    builder.start()
    try:
        for work, done in zip(works, built):
            done.wait()
            if not work.part.wrong:
                say(f"== {work.part.name} ({time.strftime('%T')})")
                work.part.ran_s = work.part.guard(work.run, whole)
        builder.join()
    except BaseException:
        for group in list(STARTED):
            os.killpg(group, signal.SIGKILL)
        raise


class Needs:
    """tests/needs.toml, and what a change asks for."""

    def __init__(self, text):
        table = tomllib.loads(text)
        self.minutes, self.parts = table["minutes"], table["part"]
        self.seldom, self.rows = set(table["seldom"]), table["needs"]

    def row(self, path):
        matching = [pattern for pattern in self.rows if fnmatch.fnmatchcase(path, pattern)]
        return max(matching, key=len) if matching else None

    def asked(self, paths):
        """(labels that a change asks for, {label: a path that asked for it}, whether it asks for all that is not seldom besides)."""
        labels, because, everything = set(), {}, False
        for path in paths:
            row = self.row(path)
            everything |= row is None
            for label in self.rows[row] if row else ():
                labels.add(label)
                because.setdefault(label, path)
        return labels, because, everything

    def runs(self, part, labels, everything):
        """Whether a part is for such a change."""
        return "asked" not in part or part["asked"] in labels or everything

    def choose(self, part, labels, everything):
        """What of a build's tests a part runs."""
        kinds, never = set(part["kinds"]), set(part.get("never", ()))

        def chosen(tests):
            for name, (has, *_) in tests.items():
                if not has & kinds or has & never or (has & self.seldom) - labels:
                    continue
                if everything or has & labels:
                    yield name
        return chosen


def changed(base):
    """The files of a change: since a revision, or those of the last day's commits; with what is not committed. None: unknown."""
    def git(*words):
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.splitlines() if done.returncode == 0 else None
    if base is not None:
        if git("rev-parse", "--verify", "--quiet", f"{base}^{{commit}}") is None:
            raise SystemExit(f'test: "{base}" is no revision of this repository')
        committed = git("diff", "--name-only", f"{base}...HEAD")
    else:
        committed = git("log", f"--since={DAY}", "--name-only", "--format=")
    if committed is None:
        return None
    loose = [line[3:].split(" -> ")[-1] for line in git("status", "--porcelain") or ()]
    return sorted({path for path in committed + loose if path}) or None


def named(preset, arguments):
    """What arguments of ctest's name in a build, and what it needs; without any, all of it."""
    part = Part(preset, preset=preset)
    two_lanes([Tests(part, Build(preset), arguments=arguments, everything=not arguments)])
    return [part]


def once():
    """Everything once, as it is shipped. Processes begin while what else there is still compiles."""
    build = Build("release")
    real = Tests(Part("processes", preset="release"), build,
                 lambda tests: (name for name, (labels, *_) in tests.items() if "process" in labels))
    others = Tests(Part("all others", preset="release"), build,
                   lambda tests: (name for name, (labels, *_) in tests.items() if "process" not in labels), everything=True)
    two_lanes([real, others])
    return [real.part, others.part]


def part_of(row):
    return Part(row["name"], row["minutes"], row.get("preset"))


def commands_of(row):
    return Commands(part_of(row), row["commands"], row.get("compiles", False))


def for_change(base):
    needs = Needs((ROOT / "tests/needs.toml").read_text())
    paths = changed(base)
    labels, because, everything = needs.asked(paths or ())
    everything |= paths is None
    say(f"== {len(paths or ())} files changed" + ("" if base is None else f" since {base}") +
        ("" if paths else "; nothing is known of a change, so that all of it is looked at, but what is seldom"))
    for label in sorted(labels):
        say(f"   {label:12} asked for by {because[label]}")
    works = [commands_of(row) if "commands" in row else
             Tests(part_of(row), Build(row["preset"]), needs.choose(row, labels, everything)) for row in needs.parts]
    for work, row in zip(works, needs.parts):
        if not needs.runs(row, labels, everything):
            work.part.left_out = f"nothing that was changed asks for it (tests/needs.toml: {row['asked']})"
    two_lanes([work for work in works if not work.part.left_out], Clock(needs.minutes))
    parts = [work.part for work in works]
    seldom = sorted(needs.seldom - labels)
    if seldom:
        parts.append(Part("seldom"))
        parts[-1].left_out = f"nothing that was changed asks for {', '.join(seldom)}"
    return parts


def in_all_builds():
    """Everything in every build: a night."""
    needs = Needs((ROOT / "tests/needs.toml").read_text())
    works = [commands_of(row) for row in needs.parts if "commands" in row]
    works += [Tests(Part(preset, preset=preset), Build(preset, ["all"], more=NIGHTLY), everything=True) for preset in PRESETS]
    two_lanes(works)
    return [work.part for work in works]


def report(parts, took_s):
    """The last lines."""
    say("")
    say(f"{'part':10} {'built':>7} {'ran':>7}  result")
    for part in parts:
        counts = f"{part.count('passed')} passed, {part.count('failed')} failed, {part.count('skipped')} skipped"
        result = part.left_out and f"left out: {part.left_out}" or (counts if not part.wrong else f"{part.wrong}; {counts}")
        say(f"{part.name:10} {minutes(part.built_s):>7} {minutes(part.ran_s):>7}  {result}")
    slowest = sorted(((s, n, p.name) for p in parts for n, (_, s, _) in p.outcomes.items()), reverse=True)[:10]
    if sum(len(part.outcomes) for part in parts) > 10:
        say("slowest: " + ", ".join(f"{name} {seconds:.0f} s ({part})" for seconds, name, part in slowest))
    for part in parts:
        for name, (outcome, _, why) in sorted(part.outcomes.items()):
            if outcome == "skipped":
                say(f"skipped: {name} ({part.name}): {why}")
    for part in parts:
        if part.wrong:
            say(f"failed: {part.name}: {part.wrong}")
        for name, (outcome, _, why) in sorted(part.outcomes.items()):
            if outcome == "failed":
                how = "" if part.preset is None else f"; again: scripts/test {part.preset} -R '^{name}$'"
                say(f"failed: {name} ({part.name}){': ' + why if why else ''}{how}")
    total = {outcome: sum(part.count(outcome) for part in parts) for outcome in ("passed", "failed", "skipped")}
    wrong = sum(part.wrong is not None for part in parts)
    say(f"{minutes(took_s)} minutes in all")
    say(f"{total['passed']} passed, {total['failed'] + wrong} failed, {total['skipped']} skipped")
    return 1 if total["failed"] or wrong or not total["passed"] else 0


def main(arguments):
    begun = time.monotonic()
    if arguments != ["--all"]:  # a night draws anew; else what failed fails again
        os.environ.setdefault("RC_PARAMS", "seed=1")
    match arguments:
        case ["--ci"]:
            parts = for_change(None)
        case ["--ci", base]:
            parts = for_change(base)
        case ["--all"]:
            parts = in_all_builds()
        case [preset, *rest] if preset in PRESETS:
            parts = named(preset, rest)
        case []:
            parts = once()
        case _:
            parts = named("release", arguments)
    return report(parts, time.monotonic() - begun)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
