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
import time
import tomllib
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PRESETS = ("release", "asan", "tsan")
# Of a change nobody names: what the commits of the last day touched.
DAY = "24 hours ago"
# Tests of real processes wait more than they compute: one more than the machine has processors.
SIDE_BY_SIDE = (os.cpu_count() or 1) + 1


class Failed(Exception):
    """A step that ended otherwise than it had to; its text says how."""


class Clock:
    """How long something may take. minutes: None for ever."""

    def __init__(self, minutes):
        self.begun, self.minutes = time.monotonic(), minutes

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
    try:
        output, _ = process.communicate(timeout=clock.left_s())
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise Failed(f"does not fit: more than its {clock.minutes:g} minutes; under way was {' '.join(command)[:120]}") from None
        raise
    return process.returncode, output


def folder(preset):
    return ROOT / "build" if preset == "release" else ROOT / "build" / preset


class Build:
    """One preset: its folder, the tests that it knows. more: what CMake is told besides, as NAME=VALUE. log: a file for what Ninja and
    CTest say; None: where this says its own."""

    def __init__(self, preset, kinds=None, more=(), log=None):
        self.preset, self.folder, self.kinds, self.more = preset, folder(preset), kinds, more
        self.said = {} if log is None else {"stdout": log, "stderr": log}

    def configure(self, clock):
        kinds = [] if self.kinds is None else [f"-DLANEMQ_TEST_KINDS={';'.join(self.kinds)}"]
        compiler = [f"-DCMAKE_CXX_COMPILER={os.environ['CXX']}"] if os.environ.get("CXX") else []
        code, output = run(["cmake", "--preset", self.preset, "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache", *compiler, *kinds,
                            *(f"-D{each}" for each in self.more)], clock, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if code:
            raise Failed(f"the build could not be configured\n{output}")

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
        code, _ = run([*command, "--", "--quiet"], clock, **self.said)
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
    """One row of what ran."""

    def __init__(self, name, limit=None):
        self.name, self.clock = name, Clock(limit)
        self.built_s = self.ran_s = 0.0
        self.outcomes, self.wrong, self.left_out = {}, None, None

    def count(self, outcome):
        return sum(1 for was, _, _ in self.outcomes.values() if was == outcome)

    def guard(self, work):
        """Does the part's work; what goes wrong is the part's."""
        self.clock = Clock(self.clock.minutes)
        try:
            work(self)
        except Failed as failed:
            self.wrong = str(failed)
            say(f"== {self.name}: {self.wrong}")

    def check(self, build, choose, everything=False, arguments=()):
        """Builds what the chosen tests need, or everything, and runs them. choose(tests): names; None: those of `arguments`."""
        begun = time.monotonic()
        build.configure(self.clock)
        tests = build.tests(self.clock, arguments if choose is None else ())
        names = sorted(choose(tests)) if choose else sorted(tests)
        if names:
            build.make(None if everything else {file for name in names for file in tests[name][1]}, self.clock)
        self.built_s = time.monotonic() - begun
        if not names and choose:
            self.left_out = "no test that the change needs is in this build"
            return
        begun = time.monotonic()
        try:
            self.outcomes = build.check(None if choose is None else names, self.clock, arguments)
        finally:
            self.ran_s = time.monotonic() - begun


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


def whole(preset="release", arguments=()):
    """Everything that a preset has, once; with arguments of ctest's, what these name, and what it needs."""
    part = Part(preset)
    part.guard(lambda part: part.check(Build(preset), None, everything=not arguments, arguments=arguments))
    return [part]


def for_change(base):
    needs = Needs((ROOT / "tests/needs.toml").read_text())
    paths = changed(base)
    labels, because, everything = needs.asked(paths or ())
    everything |= paths is None
    say(f"== {len(paths or ())} files changed" + ("" if base is None else f" since {base}") +
        ("" if paths else "; nothing is known of a change, so that all of it is looked at, but what is seldom"))
    for label in sorted(labels):
        say(f"   {label:12} asked for by {because[label]}")
    clock, parts = Clock(needs.minutes), []
    for row in needs.parts:
        part = Part(row["name"], row["minutes"])
        parts.append(part)
        if not needs.runs(row, labels, everything):
            part.left_out = f"nothing that was changed asks for it (tests/needs.toml: {row['asked']})"
            continue
        if clock.left_s() == 0:
            part.wrong = f"does not fit: the {needs.minutes:g} minutes of the whole are over"
            continue
        part.clock = Clock(min(row["minutes"], clock.left_s() / 60))
        say(f"== {part.name} ({time.strftime('%T')})")
        part.guard(lambda part, row=row: work_of(part, row, needs, labels, everything))
    seldom = sorted(needs.seldom - labels)
    if seldom:
        parts.append(Part("seldom"))
        parts[-1].left_out = f"nothing that was changed asks for {', '.join(seldom)}"
    return parts


def work_of(part, row, needs, labels, everything):
    if "commands" in row:
        begun = time.monotonic()
        for command in row["commands"]:
            before = time.monotonic()
            code, _ = run(command.split(), part.clock)
            part.outcomes[command] = ("failed" if code else "passed", time.monotonic() - before, "")
        part.ran_s = time.monotonic() - begun
    else:
        part.check(Build(row["preset"]), needs.choose(row, labels, everything))


def in_all_builds():
    """Everything in every build: a night."""
    needs = Needs((ROOT / "tests/needs.toml").read_text())
    parts = []
    for row in needs.parts:
        if "commands" in row:
            part = Part(row["name"])
            part.guard(lambda part, row=row: work_of(part, row, needs, set(), True))
            parts.append(part)
    for preset in PRESETS:
        part = Part(preset)
        say(f"== {preset} ({time.strftime('%T')})")
        part.guard(lambda part, preset=preset: part.check(Build(preset, ["all"]), None, everything=True))
        parts.append(part)
    return parts


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
                how = "" if " " in name or "/" in name else f"; again: scripts/test {part.name} -R '^{name}$'"
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
            parts = whole(preset, rest)
        case []:
            parts = whole()
        case _:
            parts = whole("release", arguments)
    return report(parts, time.monotonic() - begun)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
