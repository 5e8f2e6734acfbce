# SPDX-License-Identifier: Apache-2.0
"""Reads the transcripts of tests/ends and plays them: what they mean is in tests/ends/README.md. Knows no session."""

import pathlib
import re
import shlex

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "ends"
LISTS = ("status", "heartbeat", "states", "acked")  # lines that name many


class Line:
    """What stands behind `>`, `<` or alone: words, and fields that are `key=value`."""

    def __init__(self, number, words, fields):
        self.number, self.words, self.fields = number, words, fields

    def __str__(self):
        return " ".join([*self.words, *(f"{key}={value}" for key, value in sorted(self.fields.items()))])

    def milliseconds(self, word):
        amount, unit = re.fullmatch(r"(\d+)(ms|s|min)", word).groups()
        return int(amount) * {"ms": 1, "s": 1000, "min": 60_000}[unit]


class Step:
    """Something that happens, and what the end says and tells because of it."""

    def __init__(self, happens):
        self.happens, self.expected = happens, []


class Transcript:
    def __init__(self, place, name):
        self.place, self.name, self.rule, self.of, self.excepted, self.steps = place, name, "", None, {}, []


def spread(text):
    """`j1-j3` as j1, j2, j3; anything else as it is."""
    match = re.fullmatch(r"([a-z]*)(\d+)-\1(\d+)", text)
    return [f"{match[1]}{n}" for n in range(int(match[2]), int(match[3]) + 1)] if match else [text]


def parse(number, text):
    """The lines that one line stands for: a range of names or numbers is a line for each, or many names in one."""
    parts = [part for part in shlex.split(text, comments=False)]
    words = [part for part in parts if not re.match(r"[a-z_0-9]+=", part)]
    fields = dict(part.split("=", 1) for part in parts if part not in words)
    if any(word in LISTS for word in words[:2]):
        return [Line(number, [each for word in words for each in spread(word)], fields)]
    lines = [Line(number, words, fields)]
    for at, word in enumerate(words):
        if len(many := spread(word)) > 1:
            lines = [Line(number, words[:at] + [one] + words[at + 1:], fields) for one in many]
    if "seq" in fields and len(many := spread(fields["seq"])) > 1:
        lines = [Line(number, words, {**fields, "seq": one}) for one in many]
    return lines


def read(which):
    """All transcripts for clients, or for workers."""
    found = []
    for path in sorted(FOLDER.glob("*.txt")):
        current = None
        for number, source in enumerate(path.read_text().splitlines(), 1):
            text = source.split(" # ")[0].strip()
            if not text or text.startswith("#"):
                continue
            sign, _, rest = text.partition(" ")
            if sign == "==":
                current = Transcript(f"tests/ends/{path.name}:{number}", rest)
                found.append(current)
            elif sign == "rule":
                current.rule = rest
            elif sign in ("client", "worker"):
                current.of = parse(number, text)[0]
            elif sign == "except":
                end, _, why = rest.partition(" ")
                current.excepted[end] = why
            elif sign == "<":
                current.steps[-1].expected += parse(number, rest)
            else:
                current.steps.append(Step(parse(number, text if sign != ">" else rest)))
    for each in found:
        assert each.rule and each.of and each.steps, f"{each.place} {each.name}: it has no rule, no end or no step"
    return [each for each in found if each.of.words[0] == which]


def _fits(expected, got):
    """Words in brackets may be there or not; `*` stands for any value."""
    if str(expected) == got:
        return True
    wanted = re.sub(r"([.+?^${}|\[\]\\])", r"\\\1", str(expected)).replace("*", r"\S+")
    return re.fullmatch(re.sub(r" ?\((.*?)\)", r"(?: ?\1)?", wanted), got) is not None


def compare(expected, got):
    """The first line that is not as expected: a pair, or None. A whole line in brackets may be there or not."""
    rest = list(got)
    for line in expected:
        optional = str(line).startswith("(") and str(line).endswith(")")
        if rest and (str(line)[1:-1] == rest[0] if optional else _fits(line, rest[0])):
            rest.pop(0)
        elif not optional:
            return line, rest[0] if rest else "nothing"
    return (None, rest[0]) if rest else None


def play(transcript, end):
    """Plays a transcript against an end: `happens(line)` is told what happens, and returns two lists of lines, what the end has said
    and what it has told. Raises AssertionError with the place, what was expected and what came."""
    for step in transcript.steps:
        said, told = end.happens(step.happens)
        for got, kind in ((said, False), (told, True)):
            wrong = compare([line for line in step.expected if (line.words[0].strip("(") == "told") == kind], got)
            if wrong is not None:
                line, came = wrong
                number = line.number if line else step.happens[0].number
                raise AssertionError(f"{transcript.place.split(':')[0]}:{number} {transcript.name}\n  rule: {transcript.rule}\n"
                                     f"  after    > {step.happens[0]}\n  expected < {line or 'nothing more'}\n  got      < {came}")


def items_of(fields, inside):
    """The maps of a message, each with what it inherits, and its body."""
    if isinstance(fields, dict):
        return [(fields, inside or b"")]
    first = {key: value for key, value in fields[0].items() if key not in ("id", "ids", "ref", "job")}
    maps = [fields[0]] + [{key: value for key, value in {**first, **each}.items() if value is not None} for each in fields[1:]]
    return list(zip(maps, inside or [b""] * len(maps)))


def wakeups(session, now, end):
    """The times until `end` at which the session has work, and the end."""
    for _ in range(100_000):
        wakeup = session.next_wakeup()
        if wakeup is None or wakeup > end + 1e-6:  # sums of seconds are not exact
            break
        now = max(now, wakeup)
        yield now
    yield max(now, end)


def cases(which, make, name):
    """A test case for each transcript of `which`, played against `make(transcript.of)`."""
    import unittest

    class Ends(unittest.TestCase):
        pass

    def test_of(transcript):
        def test(self):
            if name in transcript.excepted:
                self.skipTest(f"{transcript.name}: {transcript.excepted[name]}")
            play(transcript, make(transcript.of))
        return test

    for transcript in read(which):
        assert not hasattr(Ends, f"test_{transcript.name}"), f"{transcript.place}: a second {transcript.name}"
        setattr(Ends, f"test_{transcript.name}", test_of(transcript))
    return Ends
