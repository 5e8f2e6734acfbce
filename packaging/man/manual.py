#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a manual page, made by scdoc from a program's own help, so that no option is described twice.

    packaging/man/manual.py PAGE       such as lanemq-broker.8

PAGE names one of packaging/man/*.scd, in which `@name@` stands for a part: `@summary@`, `@synopsis@`, `@options@`, `@notes@`
and `@commands@` from the help, `@print-config PROGRAM@` for the settings in force. LANEMQ_BIN names the programs' folder."""
import pathlib
import re
import subprocess
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "scripts/lib"))
from help import commands, footer, rows, said  # noqa: E402

# A literal block goes no further than this column.
CONFIG_COLUMNS = 76
# Nor does text go much further than this one.
TEXT_COLUMNS = 72


def plain(text):
    """Text that scdoc takes as it stands."""
    return re.sub(r"([\\*_#|\[\]+<>])", r"\\\1", text)


def entry(left, right):
    """An option or a command with its sentence."""
    name, _, rest = left.partition(" ")
    shown = f"*{plain(name)}*" + (f" {plain(rest)}" if rest else "")
    sentence = plain(right)
    return f"{shown}\n\t" + ("\\" if sentence.startswith(("-", ".", "'")) else "") + f"{sentence or '…'}\n"


def entries(text, *titles):
    return "\n".join(entry(*row) for title in titles for row in rows(text, title))


def synopsis(text):
    usage = re.search(r"^Usage: (\S+)(.*)$", text, re.MULTILINE)
    return f"*{plain(usage[1])}*{plain(usage[2])}"


def all_commands():
    parts = []
    for words, text in commands():
        usage = re.search(r"^Usage: (.*)$", text, re.MULTILINE)[1]
        parts.append(f"## {' '.join(words)}\n\n*{plain(usage)}*\n\n{plain(text.splitlines()[0])}.\n\n"
                     + entries(text, "Positionals", "Options", "Subcommands"))
    return "\n".join(parts)


def settings(name):
    """What --print-config says, with its comments wrapped."""
    lines = []
    for line in said(name, "--print-config").strip().splitlines():
        lines += textwrap.wrap(line, CONFIG_COLUMNS, subsequent_indent="# ") if line.startswith("# ") and "= {" not in line else [line]
    return "```\n" + "\n".join(lines) + "\n```"


def page(name):
    program = name.rpartition(".")[0]
    text = said(program, "--help") if not name.endswith(".5") else ""
    def part(match):
        word, _, argument = match[1].partition(" ")
        if word == "summary":
            sentence = text.splitlines()[0].split(":")[0].rstrip(".")
            return plain(sentence if sentence.startswith("LaneMQ") else sentence[0].lower() + sentence[1:])
        if word == "notes":
            return "++\n".join(plain(line) for line in footer(text))
        if word == "print-config":
            return settings(argument)
        return {"synopsis": synopsis, "options": lambda text: entries(text, "Options"), "commands": lambda _: all_commands()}[word](text)
    return re.sub(r"@([a-z-]+(?: [a-z-]+)?)@", part, (HERE / f"{name}.scd").read_text())


def short_lines(roff):
    """The same with the title in capitals and text in lines of up to TEXT_COLUMNS, which is how roff is written."""
    as_it_stands, lines = False, []
    for line in roff.splitlines():
        if line in (".nf", ".fi"):
            as_it_stands = line == ".nf"
        if line.startswith(".TH "):
            line = re.sub('"[^"]*"', lambda title: title[0].upper(), line, count=1)
        if as_it_stands or line.startswith((".", "'")):
            lines.append(line)
            continue
        lines.append("")
        for word in re.split(r"(?<!\\) ", line):
            # No line ends with a sentence: roff would set two spaces. None begins with what is a request.
            if len(lines[-1].encode()) + len(word.encode()) >= TEXT_COLUMNS and lines[-1][-1:] not in ".!?)" and word[:1] not in (".", "'", ""):
                lines.append(word)
            else:
                lines[-1] += (" " if lines[-1] else "") + word
    return "\n".join(lines) + "\n"


def manual(text):
    """The page as man reads it, without the paragraphs that scdoc begins and leaves empty."""
    roff = subprocess.run(["scdoc"], input=text, stdout=subprocess.PIPE, check=True, text=True).stdout
    while (fewer := re.sub(r"^\.P\n(?=\.)|(?<=\n)(\.S[HS] .*\n)\.P\n", r"\1", roff, flags=re.MULTILINE)) != roff:
        roff = fewer
    return short_lines(re.sub(r"^\.RE\n(?!\.)", ".RE\n.P\n", roff, flags=re.MULTILINE))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(manual(page(sys.argv[1])), end="")
