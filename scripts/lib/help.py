# SPDX-License-Identifier: Apache-2.0
"""What the programs say of themselves: their help, as text and in parts. For what is written from them: pages and manuals."""
import os
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("LANEMQ_BIN") or ROOT / "build/bin")
SECOND_COLUMN_MIN = 12  # where it begins at the least
PATIENCE = float(os.environ.get("LANEMQ_TEST_PATIENCE", "20"))
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("LANEMQ_")}


def said(name, *words):
    """What a program prints; nothing of the environment sets anything."""
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([BIN / name, *words], env=ENVIRONMENT | {"HOME": folder}, cwd=folder, check=True, text=True,
                              stdout=subprocess.PIPE, timeout=3 * PATIENCE).stdout


def rows(text, title):
    """The rows of one part of a help (`Options`, `Positionals`, `Subcommands`): pairs of what stands left and right."""
    found = []
    for line in (text.split(f"\n{title}:\n") + [""])[1].split("\n\n")[0].splitlines():
        if row := re.match(r"  (\S.*?)(?:  +(.*))?$", line):
            found.append([row[1], row[2] or ""])
        elif line.strip() and len(line) - len(line.lstrip()) < SECOND_COLUMN_MIN:  # goes on with what stands left
            found[-1][0] += " " + line.strip()
        elif line.strip():  # goes on with the line before
            found[-1][1] = (found[-1][1] + " " + line.strip()).strip()
    return found


def footer(text):
    """What stands below all parts of a help, in lines."""
    return text.rstrip("\n").split("\n\n")[-1].strip().splitlines()


def commands(*path):
    """Each command of `lanemq`, each before its subcommands: (words, its help)."""
    text = said("lanemq", *path, "--help")
    if path:
        yield path, text
    for name, _ in rows(text, "Subcommands"):
        yield from commands(*path, name)
