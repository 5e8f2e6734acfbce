# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/protocol/ as data: the kit knows no field, limit, default or error code from anywhere else."""

import dataclasses
import os
import re
import sys
from functools import reduce

from msgpack import Unpacker, packb, unpackb

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
from pages import ROOT, protocol_text  # noqa: E402

MAGIC = (b"\x93\xa4LMQ1", b"\x94\xa4LMQ1")
INLINE_MAX = 4096
HEADER_BYTES_MAX = 16384
HEADER_DEPTH_MAX = 8
MAP_ENTRIES_MAX = 64
BATCH_INHERITED_BYTES_MAX = 1 << 20
INT_MAX = 2**63 - 1


@dataclasses.dataclass(frozen=True)
class Field:
    name: str
    type: str
    limit: str
    default: str

    @property
    def required(self):
        return self.default == "required"

    @property
    def always(self):
        return self.default in ("required", "always")

    @property
    def bounds(self):
        """The least and the most of an int, of the bytes of a text or of the entries of a list; None: no such bound."""
        if match := re.match(r"(\d+) to (\d+)", self.limit):
            return int(match[1]), int(match[2])
        if match := re.match(r"at least (\d+)", self.limit):
            return int(match[1]), INT_MAX
        if match := re.match(r"up to (\d+)", self.limit):
            return 0, int(match[1])
        return None, None


class Page:
    """The pages of a folder as one."""

    def __init__(self, folder=os.path.join(ROOT, "docs/protocol")):
        text = protocol_text(folder)
        lines = text.split("\n")
        # The programs in Python, by their names.
        self.programs = dict(re.findall(r"<!-- program: (\S+\.py) -->\n```\w+\n(.*?)```", text, re.DOTALL))
        self.sections = []  # headings in their order; an op's with its direction, "Client to broker: submit"
        self.tables = {}  # (direction, op) -> {name: Field}; a direction is a heading such as "Broker to client"
        self.common = {}  # direction -> [(ops, Field)], what stands before its ops; no ops: of each of them
        self.codes = {}  # error code -> whether it says retry_after_ms
        self.verbs = {}  # of operators: what each needs and what it takes
        chapter = section = ""
        in_program = False
        for line in lines:
            in_program ^= line.startswith("```")
            if in_program:
                continue
            if heading := re.match(r"(#+) (.*)", line):
                section = heading[2]
                chapter = section if heading[1] == "##" else chapter
                is_op = " to " in chapter and len(heading[1]) == 3 and section.islower()
                if is_op:
                    self.tables[chapter, section] = {}
                self.sections.append(f"{chapter}: {section}" if is_op else section)
            elif line.startswith("| "):
                self.take_row(chapter, section, [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        for (chapter, op), fields in self.tables.items():
            for ops, field in self.common.get(chapter, []):
                if not ops or op in ops:
                    fields.setdefault(field.name, field)

    def take_row(self, chapter, section, cells):
        name = re.match(r"`([\w-]+)`$", cells[0])
        if len(cells) == 3 and (chapter, section) in self.tables:
            self.tables[chapter, section] |= {field.name: field for field in fields_of(*cells[:2])}
        elif len(cells) == 3 and section == chapter and " to " in chapter:
            ops = re.findall(r"`(\w+)`", re.match(r"of ([^:]*)", cells[2])[1]) if name else []
            self.common.setdefault(chapter, []).extend((ops, field) for field in fields_of(*cells[:2]))
        elif section == "Error codes" and len(cells) == 4 and name:
            self.codes[name[1]] = cells[2] == "yes"
        elif section == "Operating the broker" and len(cells) == 4 and name:
            self.verbs[name[1]] = tuple(re.findall(r"`(\w+)`", cell) for cell in cells[1:3])

    def fields(self, direction, op):
        return self.tables[direction, op]

    def ops(self, direction):
        return [op for chapter, op in self.tables if chapter == direction]

    # ---- judging what the broker says --------------------------------------------------------------------

    def faults(self, direction, frames, default_lane="normal"):
        """What is wrong with a message of the broker, as sentences; nothing for a good one."""
        at = next((i for i, frame in enumerate(frames) if frame[:6] in MAGIC), None)
        if at is None:
            return ["a message has no header"]
        header, behind = frames[at], frames[at + 1 :]
        try:
            whole = strictly_read(header)
        except ValueError as error:
            return [f"a header is malformed: {error}"]
        if len(whole) not in (3, 4) or not isinstance(whole[1], str) or not isinstance(whole[2], (dict, list)):
            return ["a header is not [\"LMQ1\", op, fields] or [\"LMQ1\", op, fields, body]"]
        _, op, fields, *inside = whole
        found = []
        if len(behind) + len(inside) > 1:
            found.append(f"{op} has more than one body")
        body = (inside or behind or [b""])[0]
        if isinstance(fields, list):
            body = b"" if self.is_batch_body(fields, inside, behind) else None
        if not isinstance(body, bytes):
            return found + [f"{op} has a body that is neither a bin nor, of a batch, a list of bin, one for each map"]
        if (direction, op) not in self.tables:
            return found + [f"{op} is no op of the broker on this socket"]
        if body and bool(inside) != (len(body) <= INLINE_MAX):
            found.append(f"{op} has a body of {len(body)} bytes {'inside the header' if inside else 'behind it'}")
        if isinstance(fields, dict) and len(header) - len(body) * bool(inside) > HEADER_BYTES_MAX:
            found.append(f"{op} has a header of over {HEADER_BYTES_MAX} bytes")
        for one, inherited in inheriting(fields) if isinstance(fields, list) else [(fields, {})]:
            # A nil takes an inherited field back.
            said = {name: value for name, value in {**inherited, **one}.items() if value is not None or name not in inherited}
            found += self.field_faults(direction, op, said, default_lane, inherited)
        return found

    @staticmethod
    def is_batch_body(maps, inside, behind):
        bodies = inside[0] if inside else unpackb(behind[0]) if behind else [b""] * len(maps)
        return isinstance(bodies, list) and len(bodies) == len(maps) and all(isinstance(one, bytes) for one in bodies)

    def field_faults(self, direction, op, fields, default_lane, inherited):
        found = []
        for field in self.fields(direction, op).values():
            label = f"{op}.{field.name}"
            if field.name not in fields:
                if field.always:
                    found.append(f"{label} is missing")
                continue
            value = fields[field.name]
            if not is_of_type(value, field.type):
                found.append(f"{label} is {value!r:.60}, and should be {field.type}")
                continue
            least, most = field.bounds
            size = value if is_int(value) else len(value.encode()) if isinstance(value, str) else None
            if least is not None and size is not None and not (field.name == "ref" and is_int(value)):
                if not least <= size <= most:
                    found.append(f"{label} is {value!r:.60}, {size} in all: its limit is {field.limit}")
            # Where the first map of a batch says something else, a later one has to say a default.
            if not field.always and field.name not in inherited and is_default(value, field.default, default_lane):
                found.append(f"{label} is {value!r:.60}, its default, and should be left out")
        if direction == "Broker to client" and op == "error" and (code := fields.get("code")):
            if code not in self.codes:
                found.append(f"error.code is {code!r}, which is no code of the page")
            elif self.codes[code] and "retry_after_ms" not in fields:
                found.append(f"error {code} says no retry_after_ms")
        return found


def fields_of(names, cell):
    """The fields of a row, whose second cell has a type and perhaps a limit and a default: `int, 1 to 9 = 3`, `flag, required`. A name
    is a text of 1 to 128 bytes, and an int without a limit is at least 0."""
    what, default, must = re.match(r"(.*?)(?: = (.*)|, (required|always))?$", cell).groups()
    kind, _, limit = what.partition(", ")
    if kind == "name":
        kind, limit = "text", "1 to 128 bytes"
    limit = limit or ("at least 0" if kind == "int" else "")
    return [Field(name, kind, limit, (default or must or "").strip("`")) for name in re.findall(r"`([\w-]+)`", names)]


def inheriting(maps):
    """Each map of a batch, and what it inherits: from the first all but id, ids, ref and job."""
    common = {name: value for name, value in maps[0].items() if name not in ("id", "ids", "ref", "job")}
    return [(one, common if i else {}) for i, one in enumerate(maps)]


def is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


def is_of_type(value, name):
    """Whether a value is of a type of the page: text, int, flag, map, list, any."""
    if name == "int or text":
        return is_int(value) or isinstance(value, str)
    if name == "list of text":
        return isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    if name == "int":
        return is_int(value) and value <= INT_MAX
    return {"text": str, "flag": bool, "map": dict, "list": list}.get(name) is None or isinstance(
        value, {"text": str, "flag": bool, "map": dict, "list": list}[name]
    )


def is_default(value, default, default_lane):
    if default == "the default lane":
        return value == default_lane
    if default in ("false", "empty"):
        return value is False or value == []
    return default.isdigit() and is_int(value) and value == int(default)


def strictly_read(header):
    """A header as the page wants it: one value, string keys, none twice, UTF-8. Raises ValueError."""

    def pairs(entries):
        keys = [key for key, _ in entries]
        if not all(isinstance(key, str) for key in keys):
            raise ValueError(f"a map has a key that is no string: {keys}")
        if len(set(keys)) != len(keys):
            raise ValueError(f"a map has a key twice: {keys}")
        if len(keys) > MAP_ENTRIES_MAX:
            raise ValueError(f"a map has {len(keys)} entries")
        return dict(entries)

    unpacker = Unpacker(raw=False, strict_map_key=False, object_pairs_hook=pairs, max_buffer_size=0)
    unpacker.feed(header)
    value = unpacker.unpack()
    if unpacker.tell() != len(header):
        raise ValueError(f"{len(header) - unpacker.tell()} bytes behind its end")
    if depth(value) > HEADER_DEPTH_MAX:
        raise ValueError(f"it nests deeper than {HEADER_DEPTH_MAX}")
    return value


def depth(value):
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if entries is None else 1 + max(map(depth, entries), default=0)


# ---- what a peer may get wrong ------------------------------------------------------------------------------


class Raw(bytes):
    """msgpack as it is to stand in a header: for what no library would pack."""


def pack_header(op, fields, *body):
    """A header whose field values may be Raw; `fields` is a dict, or a list of pairs where keys come twice. A list of dicts is a batch."""
    batch = isinstance(fields, list) and fields and isinstance(fields[0], dict)
    packed = bytes([0x90 | len(fields)]) + b"".join(map(pack_map, fields)) if batch else pack_map(fields)
    return bytes([0x93 + bool(body)]) + packb("LMQ1") + packb(op) + packed + b"".join(map(packb, body))


def pack_map(fields):
    pairs = list(fields.items() if isinstance(fields, dict) else fields)
    size = len(pairs)
    head = bytes([0x80 | size]) if size < 16 else b"\xde" + size.to_bytes(2, "big")
    return head + b"".join(as_packed(key) + as_packed(value) for key, value in pairs)


def as_packed(value):
    return bytes(value) if isinstance(value, Raw) else packb(value)


NOT_UTF8 = Raw(b"\xa2\xc3\x28")

# What a broker may pass on, and an older one does: an end reads what stands beside it, and behind it.
ODD_VALUES = {
    "nil in a list": [None],
    "a flag": True,
    "2^64 - 1": 2**64 - 1,
    "-2^63": -(2**63),
    "2^53 + 1": 2**53 + 1,
    "NaN": float("nan"),
    "infinity": float("-inf"),
    "a float of 32 bits": Raw(b"\xca\x3f\x80\x00\x00"),
    "bin": b"\xff\x00",
    "an emoji": "🚀",
    "U+0000": "a\0b",
    "an empty text": "",
    "__proto__": {"__proto__": {"polluted": 1}},
    "constructor": {"constructor": {"prototype": 1}, "toString": None},
    "an empty key": {"": {"": []}},
    "five levels": [[[[[1]]]]],
    "64 entries": {f"k{i}": i for i in range(64)},
    "a timestamp of 3 bytes": Raw(b"\xc7\x03\xffabc"),
    "a timestamp with too many nanoseconds": Raw(b"\xd7\xff" + b"\xff" * 8),
    "a timestamp": Raw(b"\xd6\xff\x00\x00\x00\x01"),
    "ext of type 5": Raw(b"\xd4\x05x"),
    "an empty ext": Raw(b"\xc7\x00\x07"),
    "ext in a map in a list": Raw(b"\x91\x81\xa1k\xd4\x05x"),
    "a text that is no UTF-8": NOT_UTF8,
    "a key that is an int": Raw(b"\x81\x01\x02"),
    "a key that is nil": Raw(b"\x81\xc0\x02"),
    "a key twice": Raw(b"\x82\xa1k\x01\xa1k\x02"),
    "a key that is a float": Raw(b"\x81\xca\x3f\x80\x00\x00\x02"),
    "a key that is bin": Raw(b"\x81\xc4\x01k\x02"),
    "a key that is a list": Raw(b"\x81\x91\x01\x02"),
    "a key that is a map": Raw(b"\x81\x80\x02"),
    "a key that is no UTF-8": Raw(b"\x81\xa2\xc3\x28\x02"),
    "__proto__ twice": Raw(b"\x82\xa9__proto__\x01\xa9__proto__\x80"),
    "__proto__ deep inside": [{"a": {"__proto__": None}}],
    "names that objects have": {"then": 1, "toJSON": 2, "valueOf": 3, "hasOwnProperty": 4, "length": -1},
    "names that Python has": {"__class__": 1, "__dict__": {}, "self": None, "from": 1},
    "keys that are numbers": {"0": "a", "1": "b", "-1": "c", "01": "d"},
    "a key of 200 bytes": {"k" * 200: 1},
    "65 entries": {f"k{i}": i for i in range(65)},
    "400 entries in a list": list(range(400)),
    "seven levels": [[[[[[[1]]]]]]],
    "thirty levels": reduce(lambda inner, _: [inner], range(30), 1),
    "thirty maps": reduce(lambda inner, _: {"k": inner}, range(30), 1),
    "1 in nine bytes": Raw(b"\xd3" + bytes(7) + b"\x01"),
    "-1 in five bytes": Raw(b"\xd2\xff\xff\xff\xff"),
    "2^63": 2**63,
    "-0.0": -0.0,
    "the least float": 5e-324,
    "NaN with a payload": Raw(b"\xcb\x7f\xf0\x00\x00\x00\x00\x00\x01"),
    "an infinity of 32 bits": Raw(b"\xca\x7f\x80\x00\x00"),
    "a text with a long head": Raw(b"\xdb\x00\x00\x00\x02hi"),
    "a list with a long head": Raw(b"\xdd\x00\x00\x00\x01\x01"),
    "a map with a long head": Raw(b"\xdf\x00\x00\x00\x01\xa1k\x01"),
    "a text of 3000 bytes": "x" * 3000,
    "bin of 3000 bytes": b"\xff" * 3000,
    "an overlong NUL": Raw(b"\xa2\xc0\x80"),
    "half a surrogate pair": Raw(b"\xa3\xed\xa0\x80"),
    "beyond U+10FFFF": Raw(b"\xa4\xf4\x90\x80\x80"),
    "half a character": Raw(b"\xa1\xe2"),
    "a byte order mark": "\ufeffx",
    "from right to left": "\u202eabc\u2066",
    "escapes of a terminal": "\x1b[2J\r\n\x07",
    "U+2028": "a\u2028b",
    "U+FFFF": "\uffff",
    "ext of 16 bytes": Raw(b"\xd8\x7f" + b"x" * 16),
    "ext with a long head": Raw(b"\xc9\x00\x00\x00\x01\x05x"),
    "ext of type -128": Raw(b"\xd4\x80x"),
    "a timestamp of 12 bytes": Raw(b"\xc7\x0c\xff" + b"\x00" * 12),
}


def wrong_values(field):
    """Values that a field must not have, by its type and limit on the page: (what is wrong, the value, the name
    that the broker's message has to say)."""
    others = {"a text": "x", "an int": 7, "a float": 1.0, "a flag": True}
    others |= {"bytes": b"x", "a list": [7], "a map": {"a": 1}}
    right = {
        "text": ("a text",),
        "int": ("an int",),
        "flag": ("a flag",),
        "map": ("a map",),
        "list": ("a list",),
        "list of text": ("a list",),
        "int or text": ("a text", "an int"),
    }.get(field.type)
    if right is None:
        return []
    wrong = {what: value for what, value in others.items() if what not in right}
    least, most = field.bounds
    if field.type in ("text", "int or text"):
        wrong |= {"no UTF-8": NOT_UTF8, f"{most + 1} bytes": "x" * (most + 1)}
        if least:
            wrong["empty"] = ""
    elif field.type == "int":
        wrong |= {"below its limit": least - 1, "above its limit": most + 1}
    elif field.type == "list of text":
        wrong |= {"a list with an int": ["x", 7], "a list with an empty name": [""]}
        wrong |= {"a list with a name of 129 bytes": ["x" * 129], f"{most + 1} entries": ["x"] * (most + 1)}
        if least:
            wrong["an empty list"] = []
    elif field.type == "list":
        wrong |= {"no pairs": [7, 7], "singles": [[7]], "an attempt of 0": [[7, 0]], "a text in a pair": [["7", 1]]}
    found = [(what, value, field.name) for what, value in wrong.items()]
    if field.type == "map" and field.limit == "int values":
        inner = {"cost": "input_tokens", "usage": "requests", "limits": "remaining_requests"}[field.name]
        for what, value in (("text", "1"), ("float", 1.0), ("flag", True), ("list", [1])):
            found.append((f"{inner} is a {what}", {inner: value}, inner))
    return found
