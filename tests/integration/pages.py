# SPDX-License-Identifier: Apache-2.0
"""The pages as data: which there are, their headings and links, and the blocks that stand in them."""

import os
import re

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
FENCE = re.compile(r"^( *)(```+|~~~+)(.*)$")
MARK = re.compile(r"^ *<!-- (stays|file|not run|ctrl-c|on|off): (.*?) -->$")


def pages():
    """All pages of the project, by their path from its root."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in ("node_modules", ".git", "build") and not name.startswith(".")]
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in files if name.endswith(".md")]
    return sorted(found)


def text_of(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return file.read()


def protocol_text(folder=os.path.join(ROOT, "docs/protocol")):
    """The pages of the protocol as one text, in the order of their names."""
    return "\n".join(text_of(os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if name.endswith(".md"))


class Block:
    """A fenced block: its language, its lines, and the mark in the comment before it."""

    def __init__(self, page, number, language, mark, name):
        self.page, self.number, self.language, self.mark, self.name = page, number, language, mark, name
        self.lines = []

    def __str__(self):
        return f"{self.page}:{self.number}"

    @property
    def text(self):
        return "".join(line + "\n" for line in self.lines)


def divided(page):
    """The page's lines outside of blocks, numbered from 1, and its blocks."""
    prose, blocks, block, fence, mark = [], [], None, None, (None, None)
    for number, line in enumerate(text_of(page).splitlines(), 1):
        edge = FENCE.match(line)
        if block is not None:
            if edge and edge[2].startswith(fence) and not edge[3].strip():
                blocks.append(block)
                block = None
            else:
                block.lines.append(line)
        elif edge:
            block, fence = Block(page, number, edge[3].strip(), *mark), edge[2]
            mark = (None, None)
        else:
            prose.append((number, line))
            if said := MARK.match(line):
                mark = said.groups()
            elif line.strip():
                mark = (None, None)
    if block is not None:
        raise AssertionError(f"{block}: the block has no end")
    return prose, blocks


def in_order(page):
    """What a reader does: the page's blocks, and the names of what is interrupted between them."""
    prose, blocks = divided(page)
    interrupted = [(number, said[2]) for number, line in prose if (said := MARK.match(line)) and said[1] == "ctrl-c"]
    return [what for _, what in sorted([*interrupted, *((block.number, block) for block in blocks)], key=lambda step: step[0])]


def anchor_of(heading):
    """As GitHub makes it: letters, digits, hyphens and underscores in lower case, blanks as hyphens."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(page):
    found, seen = set(), {}
    for _, line in divided(page)[0]:
        if heading := re.match(r"#{1,6} +(.*?) *#*$", line):
            anchor = anchor_of(heading[1])
            count = seen[anchor] = seen.get(anchor, -1) + 1
            found.add(f"{anchor}-{count}" if count else anchor)
        found.update(re.findall(r'<a (?:name|id)="([^"]+)">', line))
    return found


def links(page):
    """Where the page leads to: pairs of a line's number and a target."""
    found = []
    for number, line in divided(page)[0]:
        line = re.sub(r"`[^`]*`", lambda code: re.sub(r"[^`]", "x", code[0]), line)
        found += [(number, target) for target in re.findall(r"\]\(([^)\s]+)[^)]*\)", line)]
        found += [(number, target) for target in re.findall(r'(?:href|src)="([^"]+)"', line)]
        found += [(number, target) for target in re.findall(r"^\[[^\]]+\]: +(\S+)", line)]
    return found
