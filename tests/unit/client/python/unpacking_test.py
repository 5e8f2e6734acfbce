# SPDX-License-Identifier: Apache-2.0
import random
import unittest

import support  # noqa: F401 - the path of the package
from lanemq import BadJob, unpacking, wire
from lanemq.worker import JobCall
from msgpack import ExtType, packb, unpackb

#: What a library of msgpack refuses or changes, and older brokers pass on.
ODD = {
    "a timestamp of one byte": (b"\xd4\xff\x00", ExtType(127, b"")._replace(code=-1, data=b"\x00")),
    "a timestamp that is one": (b"\xd6\xff\x00\x00\x00\x01", ExtType(127, b"")._replace(code=-1, data=b"\x00\x00\x00\x01")),
    "a timestamp of many nanoseconds": (b"\xd7\xff" + b"\xff" * 8, ExtType(127, b"")._replace(code=-1, data=b"\xff" * 8)),
    "a type of ext below 0": (b"\xc7\x02\xfbab", ExtType(127, b"")._replace(code=-5, data=b"ab")),
    "an ext of no bytes": (b"\xc7\x00\x05", ExtType(5, b"")),
    "a str that is no UTF-8": (b"\xa3a\xe9b", "a\udce9b"),
    "a key that is no UTF-8": (b"\x81\xa1\xff\x01", {"\udcff": 1}),
    "keys of JavaScript's objects": (packb({"__proto__": {"a": 1}, "constructor": 2}), {"__proto__": {"a": 1}, "constructor": 2}),
    "a large number": (packb(2**64 - 1), 2**64 - 1),
    "a map in a list in a map": (packb({"a": [{"b": None}]}), {"a": [{"b": None}]}),
}


def header(op, *maps, body=None):
    """A message of maps in which bytes stand for values as they come."""
    packed = [pairs(each) for each in maps]
    head = b"\x93" if body is None else b"\x94"
    fields = packed[0] if len(maps) == 1 else bytes([0xdc, 0, len(maps)]) + b"".join(packed)
    return head + b"\xa4LMQ1" + packb(op) + fields + (b"" if body is None else body)


def pairs(fields):
    return bytes([0x80 + len(fields)]) + b"".join(
        packb(name) + (value if isinstance(value, bytes) else packb(value)) for name, value in fields.items())


def call(fields):
    return JobCall((1, 1), {"service": "s", **fields}, b"", lambda *_: None, lambda *_: None)


class Messages(unittest.TestCase):
    def test_later_maps_of_a_batch_inherit_from_the_first_alone(self):
        maps = [{"id": "a", "ref": 1, "lane": "low", "attempts": 2}, {"id": "b", "attempts": None}, {"id": "c"}]
        for frames in ([packb(["LMQ1", "result", maps, [b"x", b"", b"z"]])], [packb(["LMQ1", "result", maps]), packb([b"x", b"", b"z"])]):
            self.assertEqual(unpacking.decode(frames)[1], [({"id": "a", "ref": 1, "lane": "low", "attempts": 2}, b"x"),
                                                           ({"id": "b", "lane": "low"}, b""),
                                                           ({"id": "c", "lane": "low", "attempts": 2}, b"z")])

    def test_what_is_no_message_is_refused(self):
        for frames in ([b""], [b"\x93\xa4LMQ2"], [b"\x93\xa4LMQ1\xa4ping"], [packb(["LMQ1", "ping", 5])], [packb(["LMQ1", 1, {}])],
                       [packb(["LMQ1", "result", []])], [packb(["LMQ1", "result", [{}], [b"", b""]])], [packb(["LMQ1", "result", [1, {}]])],
                       [packb(["LMQ1", "result", [{}], b"x"])], [packb(["LMQ1", "result", [{}]]), b"\xc1"],
                       [packb(["LMQ1", "result", [{}]]), b"\x91" * 5000], [packb(["LMQ1", "ping", {}]) + b"\x00"],
                       [packb(["LMQ1", "job", {"x-": 1}]) + b"\x00"]):
            with self.subTest(frames), self.assertRaises(unpacking.MalformedError):
                unpacking.decode(frames)

    def test_whatever_comes_is_read_or_refused(self):
        draw = random.Random(7)
        whole = header("job", {"job": 1, "attempt": 1, "meta": b"\xd4\xff\x00", "lane": "low"}, {"job": 2, "x-a": {"b": [1]}}, body=packb([b"x", b"y"]))
        for _ in range(5000):
            frame = bytearray(whole)
            for _ in range(draw.randint(1, 3)):
                frame[draw.randrange(6, len(frame))] = draw.randrange(256)
            try:
                _, items = unpacking.decode([bytes(frame[:draw.randint(7, len(frame))])])
            except unpacking.MalformedError:
                continue
            for fields, body in items:
                self.assertIsInstance(fields, dict)
                self.assertIsInstance(body, bytes)

    def test_what_cannot_be_read_of_one_item_takes_no_other_with_it(self):
        frame = header("result", {"ref": 1, "usage": b"\xd4\xff\x00", "lane": "low"}, {"ref": 2, "usage": None}, {"ref": 3},
                       {"ref": b"\xa1\xff"}, body=packb([b"a", b"b", b"c", b"d"]))
        items = unpacking.decode([frame])[1]
        self.assertEqual(items, [({"ref": 1, "lane": "low"}, b"a"), ({"ref": 2, "lane": "low"}, b"b"), ({"ref": 3, "lane": "low"}, b"c"),
                                 ({"lane": "low"}, b"d")])
        self.assertEqual([list(getattr(fields, "unread", {})) for fields, _ in items], [["usage"], [], ["usage"], ["usage", "ref"]])

    def test_a_body_or_a_map_that_is_none_takes_no_other_with_it(self):
        for bodies in ([b"a", "no", b"c"], [b"a", ExtType(5, b""), b"c"]):
            for frames in ([packb(["LMQ1", "result", [{"ref": 1}, {"ref": 2}, 3], bodies])],
                           [packb(["LMQ1", "result", [{"ref": 1}, {"ref": 2}, 3]]), packb(bodies)]):
                items = unpacking.decode(frames)[1]
                self.assertEqual([fields.get("ref") for fields, _ in items], [1, 2, None])
                self.assertEqual([body for _, body in items], [b"a", b"", b""])
                self.assertEqual(items[1][0].problem, "body cannot be read: it is no bin")
        [(fields, _)] = unpacking.decode([packb(["LMQ1", "result", {"ref": 1}, "no"])])[1]
        self.assertEqual(fields.unread, {"body": "it is no bin"})


class ForWorkers(unittest.TestCase):
    def test_what_is_for_workers_is_kept_as_it_came(self):
        for name in ("meta", "trace", "x-a"):
            for what, (packed, value) in ODD.items():
                with self.subTest(what, name=name):
                    frames = [header("job", {"job": 1, "attempt": 1, name: packed}, {"job": 2}, body=packb([b"a", b"b"]))]
                    items = unpacking.decode(frames)[1]
                    self.assertEqual(items, [({"job": 1, "attempt": 1, name: packed}, b"a"), ({"attempt": 1, "job": 2, name: packed}, b"b")])
                    read = unpacking.unpack(name, items[1][0][name])
                    self.assertEqual((type(read), read), (type(value), value))

    def test_a_nil_resets_it(self):
        items = unpacking.decode([header("job", {"job": 1, "meta": 5, "x-a": 1}, {"job": 2, "meta": None}, {"job": 3, "x-a": None})])[1]
        self.assertEqual([sorted(fields) for fields, _ in items], [["job", "meta", "x-a"], ["job", "x-a"], ["job", "meta"]])

    def test_it_is_read_once_when_the_handler_asks(self):
        [(fields, _)] = unpacking.decode([header("job", {"job": 1, "meta": {"a": [1]}, "trace": "t", "x-a": 2.5})])[1]
        job = call(fields)
        self.assertEqual((job.meta, job.trace, job.extra), ({"a": [1]}, "t", {"x-a": 2.5}))
        self.assertIs(job.meta, job.meta)
        self.assertEqual((call({}).meta, call({}).trace, call({}).extra), (None, None, {}))

    def test_jobs_that_inherit_it_have_their_own(self):
        jobs = [call(fields) for fields, _ in unpacking.decode([header("job", {"job": 1, "meta": {"a": 1}}, {"job": 2})])[1]]
        jobs[0].meta["a"] = 2
        self.assertEqual(jobs[1].meta, {"a": 1})

    def test_what_cannot_be_read_says_so_when_it_is_asked_for(self):
        for packed in (b"\x81\x90\x01", b"\x91" * 900 + b"\xd4\xff\x00"):
            job = call({"meta": unpacking.Packed(packed), "x-a": unpacking.Packed(packed)})
            for ask in (lambda: job.meta, lambda: job.extra):
                with self.assertRaisesRegex(BadJob, "cannot be read") as caught:
                    ask()
                self.assertEqual((caught.exception.error_class, caught.exception.code), ("permanent", "bad_job"))
            self.assertIsNone(job.trace)

    def test_a_body_that_looks_like_it_costs_only_time(self):
        self.assertEqual(unpacking.decode(wire.encode("job", {"job": 1, "lane": "low"}, b"x-\xa4meta"))[1],
                         [({"job": 1, "lane": "low"}, b"x-\xa4meta")])


class Fields(unittest.TestCase):
    def test_what_has_another_type_counts_as_absent(self):
        for odd in (None, "5", 5.0, True, [5], {"a": 5}, -1):
            self.assertEqual(unpacking.whole_number({"a": odd}, "a", 7), 7)
            self.assertIsNone(unpacking.optional_number({"a": odd}, "a"))
            with self.assertRaisesRegex(unpacking.MalformedError, "a is no whole number"):
                unpacking.required_number({"a": odd}, "a")
        self.assertEqual((unpacking.text({"a": 5}, "a", "x"), unpacking.optional_text({"a": 5}, "a")), ("x", None))
        self.assertEqual((unpacking.texts({"a": ["b", 5]}, "a"), unpacking.texts({"a": 5}, "a")), (("b",), ()))


if __name__ == "__main__":
    unittest.main()
