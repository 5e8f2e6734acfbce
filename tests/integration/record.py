#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Types what a page says and writes a picture of it that plays by itself: an SVG of a terminal, in which what is typed and what
is printed come one after the other.

    LANEMQ_BIN=build/bin /usr/bin/python3 tests/integration/record.py README.md docs/start/demo.svg
"""

import html
import socket
import sys

import test_pages

COLUMNS, ROWS, OUTPUT_MAX = 112, 26, 9
WIDTH, HEIGHT = 7.9, 18  # of a character, in pixels
TYPING, READING = 0.9, 2.2  # seconds for a command, and for what it printed


def lines_of(terminal, command, printed):
    """What one step adds to the screen: first as typed, then with what was printed. Pairs of a line and its class."""
    where = [(f"# in a terminal of its own: {terminal}", "dim")] if terminal else []
    typed = [("$ " + line if number == 0 else "> " + line, "typed") for number, line in enumerate(command.split("\n"))]
    printed = printed.replace(socket.gethostname(), "host")
    out = printed.rstrip("\n").split("\n") if printed.strip() else []
    if len(out) > OUTPUT_MAX:
        out = [*out[:OUTPUT_MAX - 3], "…", *out[-2:]]
    return where + typed, [(line, "out") for line in out if line.strip()] + [("", "out")]


def cut(line):
    return line if len(line) <= COLUMNS else line[:COLUMNS - 1] + "…"


def frames_of(transcript):
    """Pairs of what is on the screen and for how long."""
    screen, frames = [], []
    for step in transcript:
        typed, printed = lines_of(*step)
        screen = (screen + typed)[-ROWS:]
        frames.append((screen, TYPING))
        screen = (screen + printed)[-ROWS:]
        frames.append((screen, READING))
    return frames[:-1] + [(screen, 3 * READING)]


def svg(frames):
    height, width = (ROWS + 1) * HEIGHT, round((COLUMNS + 2) * WIDTH)
    total, at, steps = sum(seconds for _, seconds in frames), 0.0, []
    for number, (_, seconds) in enumerate(frames):
        steps.append(f"{100 * at / total:.2f}%{{transform:translateY({-number * height}px)}}")
        at += seconds
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
             'role="img" aria-label="A terminal: the commands of the README and what they print">',
             "<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre;fill:#c9d1d9}"
             ".typed{fill:#7ee787}.dim{fill:#8b949e}"
             f"#film{{animation:play {total:.1f}s step-end infinite}}@keyframes play{{{''.join(steps)}}}</style>",
             f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/><g id="film">']
    for number, (screen, _) in enumerate(frames):
        for row, (line, kind) in enumerate(screen):
            if line:
                y = number * height + (row + 1) * HEIGHT
                parts.append(f'<text x="{WIDTH:.0f}" y="{y}" class="{kind}" xml:space="preserve">{html.escape(cut(line))}</text>')
    return "\n".join([*parts, "</g></svg>"]) + "\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    case = test_pages.Commands("test_they_print_what_the_pages_say")
    case.not_run = set()
    try:
        desk = case.follow(sys.argv[1])
        transcript = [(name, command, printed.replace(desk.folder, "/home/you")) for name, command, printed in desk.transcript]
    finally:
        case.doCleanups()
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(svg(frames_of(transcript)))


if __name__ == "__main__":
    main()
