# SPDX-License-Identifier: Apache-2.0
"""Bugs that scripts/mutants plants: how their files are read, the copies of the sources that they go into, the tables of who finds
each."""
import itertools
import pathlib
import subprocess

SWITCH = '#include "tests/mutants/planted.hpp"\n'


class Bug:
    """One entry: `# name: what it is`, the file, then its lines with `-` before the old and `+` before the new."""

    def __init__(self, name, what, path, old, new):
        self.name, self.what, self.path, self.old, self.new = name, what, path, old, new

    def planted_in(self, text):
        count = text.count(self.old)
        if count != 1:
            raise LookupError(f"{self.name}: its lines are {count} times in {self.path}, and must be there once")
        return text.replace(self.old, self.new)

    def planted(self, root):
        return self.planted_in((root / self.path).read_text())


def read(file):
    bugs, head, path, old, new = [], None, None, [], []

    def finish():
        if head:
            name, _, what = head.partition(":")
            bugs.append(Bug(name.strip(), what.strip(), path, "\n".join(old), "\n".join(new)))

    for line in pathlib.Path(file).read_text().splitlines():
        if line.startswith("# "):
            finish()
            head, path, old, new = line[2:], None, [], []
        elif head and line.startswith("-"):
            old.append(line[1:])
        elif head and line.startswith("+"):
            new.append(line[1:])
        elif head and line.strip() and path is None:
            path = line.strip()
    finish()
    names = [bug.name for bug in bugs]
    assert len(set(names)) == len(names), "two bugs have one name"
    return bugs


def planted_files(root, bugs):
    """path -> text, with all of the bugs, which ask for their switches."""
    texts = {}
    for bug in bugs:
        if f'"{bug.name}"' not in bug.new:
            raise LookupError(f"{bug.name}: its lines do not ask for its switch")
        texts[bug.path] = bug.planted_in(texts.get(bug.path) or (root / bug.path).read_text())
    return {path: SWITCH + text if path.endswith((".cpp", ".hpp")) else text for path, text in texts.items()}


def problems(root, bugs, switched=False):
    """Why these cannot be planted together."""
    try:
        planted_files(root, bugs) if switched else [bug.planted(root) for bug in bugs]
    except (LookupError, OSError) as error:
        return [str(error)]
    return []


def copy(root, to, planted=None):
    """The sources, and what is not committed; planted: path -> another text. What is equal stays as it is, for Ninja."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, check=True, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        source, place = root / name, to / name
        if not source.is_file():
            continue
        content = (planted or {}).get(name)
        content = source.read_bytes() if content is None else content.encode()
        if place.is_file() and place.read_bytes() == content:
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(source.stat().st_mode)


def parted(text, head):
    """What stands before a table's rows, the rows, and what stands behind."""
    before, rest = text.split(head, 1)
    lines = rest.splitlines(keepends=True)
    rows = list(itertools.takewhile(lambda line: line.startswith("|"), lines))
    return before + head, rows, "".join(lines[len(rows):])


def table(page, head):
    """What a table of the page says: who finds each bug."""
    _, rows, _ = parted(page.read_text(), head)
    return dict(row.strip("| \n").rsplit(" | ", 1) for row in rows)


def write_table(page, head, rows):
    """rows: pairs of a bug and who finds it."""
    before, _, behind = parted(page.read_text(), head)
    page.write_text(before + "".join(f"| {what} | {who} |\n" for what, who in rows) + behind)
