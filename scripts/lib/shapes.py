# SPDX-License-Identifier: Apache-2.0
"""What stands in a C++ source: its functions with their lines, its classes with what they have.

The source is laid out by clang-format, so that lines tell what is what: a function of a file begins and ends in the first
column. A class is read by its brackets: what stands inside of them is left out, and what is left are declarations."""
import re

FUNCTION = re.compile(r"^[A-Za-z_].*\(|^[A-Za-z_][\w:<>,&* ]*$")
NAME = re.compile(r"([~\w]+(?:::[~\w]+)*|operator\S+)\(")
NO_FUNCTION = (" ", "#", "/", "}", "namespace", "struct", "class", "enum", "template", "using")

LITERAL = re.compile(r"//[^\n]*|/\*.*?\*/|R\"\(.*?\)\"|\"(?:\\.|[^\"\\\n])*\"|(?<!\w)'(?:\\.|[^'\\\n])+'|^#(?:\\\n|[^\n])*", re.S | re.M)
CLASS = re.compile(r"^ *(?:class|struct) ([\w:]+)(?: final)?(?: *:[^;{}()]*)?\s*\{", re.M)
BRACE = re.compile("[{}]")
# Brackets, the innermost first, and by what they are replaced: then those around them are the innermost.
BLOCKS, ROUND, ANGLES = (re.compile(r"\{[^{}]*\}"), "«", "»"), (re.compile(r"\([^()]*\)"), "‹", "›"), (re.compile(r"<[^<>]*>"), "", "")
OPERATOR = re.compile(r"\boperator\s*(\(\s*\)|[^\s\w(]+)")
LABEL = re.compile(r"\b(?:public|private|protected):")
INITIALISERS = re.compile(r"›(\s*(?:noexcept)?\s*):((?:\s*[\w:]+\s*[‹«]\s*[›»]\s*,?)+)")
BODY = re.compile(r"(›[^;«=]*)«(\s*)»")
TEMPLATE = re.compile(r"^template\s*")
NO_MEMBER = re.compile(r"(?:using|typedef|friend|static_assert|enum|LANEMQ_\w+)\b|(?:struct|class|union)\s+[^»]*(?:«\s*»)?$|$")
METHOD = re.compile(r"(~?\w+)\s*‹\s*›")
STATIC = re.compile(r"(?:inline )?(?:static|constexpr)\b")
MEMBER = re.compile(r"\w_\s*(?:«\s*»)?$")


def functions(text):
    """(name, first line, lines) of each function of a file that ends by a brace in the first column."""
    begin, name = None, None
    for number, line in enumerate(text.splitlines(), 1):
        if begin is None:
            if not line or line.startswith(NO_FUNCTION):
                continue
            if FUNCTION.match(line):
                begin, name = number, None
        if begin is not None:
            if name is None and (found := NAME.search(line)):
                name = found.group(1)
            if line.endswith(";") and not line.startswith(" ") and "{" not in line:
                begin = None
            elif line.startswith("}"):
                if name and not name.isupper():
                    yield name, begin, number - begin + 1
                begin = None
            elif line == "" and name is None:
                begin = None


def lines_alone(found):
    return "\n" * found.group().count("\n")


def emptied(text, brackets):
    pattern, left, right = brackets
    count = 1
    while count:
        text, count = pattern.subn(lambda found: left + lines_alone(found) + right, text)
    return text


def end_of_block(text, begin):
    depth = 0
    for found in BRACE.finditer(text, begin):
        depth += 1 if found.group() == "{" else -1
        if depth == 0:
            return found.start()
    return len(text)


def declarations(body):
    """What a class's body declares: each without what stands in its brackets, and with its lines."""
    body = emptied(OPERATOR.sub("operator_", body), BLOCKS)
    body = LABEL.sub("", emptied(emptied(body, ROUND), ANGLES))
    body = INITIALISERS.sub(lambda found: "›" + lines_alone(found), body)
    for declared in BODY.sub(r"\1\2;", body).split(";"):
        yield TEMPLATE.sub("", declared.lstrip())


def classes(text):
    """(name, methods, members, inner) of each class and struct. Methods: functions that it declares, but deleted ones. Members:
    what is its own, named `so_`; a group of them in a struct without a name is one. Inner: (name, lines) of each function that
    is written down inside of it."""
    text = LITERAL.sub(lines_alone, text)
    for found in CLASS.finditer(text):
        methods = members = 0
        inner = []
        for declared in declarations(text[found.end():end_of_block(text, found.end() - 1)]):
            if NO_MEMBER.match(declared.rstrip()):
                continue
            if method := METHOD.search(declared.split("=")[0]):
                if not re.search(r"=\s*delete", declared):
                    methods += 1
                    inner.append((f"{found.group(1)}::{method.group(1)}", declared.count("\n") + 1))
            elif not STATIC.match(declared):
                members += sum(1 for one in declared.split(",") if MEMBER.search(one.split("=")[0].rstrip()))
        yield found.group(1), methods, members, inner
