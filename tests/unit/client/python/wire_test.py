# SPDX-License-Identifier: Apache-2.0
import unittest

import support  # noqa: F401 - the path of the package
from lanemq import unpacking, wire
from msgpack import ExtType, Timestamp, packb


class Wire(unittest.TestCase):
    def test_a_body_is_inside_up_to_4096_bytes_and_a_frame_beyond(self):
        self.assertEqual(len(wire.encode("submit", {}, b"x" * 4096)), 1)
        self.assertEqual(len(wire.encode("submit", {}, b"x" * 4097)), 2)
        for size in (0, 1, 4096, 4097):
            self.assertEqual(unpacking.decode(wire.encode("result", {"ref": 1}, b"x" * size)), ("result", [({"ref": 1}, b"x" * size)]))

    def test_a_header_begins_with_the_bytes_of_the_page(self):
        self.assertEqual(wire.encode("ping", {})[0][:6], bytes.fromhex("93A44C4D5131"))
        self.assertEqual(wire.encode("ping", {}, b"x")[0][:6], bytes.fromhex("94A44C4D5131"))

    def test_differences_are_what_the_other_end_makes_whole_again(self):
        first = {"service": "s", "lane": "low", "meta": {"a": 1}, "timeout_ms": 5}
        for later in ({"service": "s"}, {"service": "s", "lane": "high", "meta": {"a": 1}, "timeout_ms": 5}, {**first, "meta": 1.0}):
            maps = [{**first, "id": "a"}, {**wire.differences(first, later), "id": "b"}]
            self.assertEqual(unpacking.decode([packb(["LMQ1", "submit", maps])])[1][1][0], {**later, "id": "b"})
        self.assertEqual(wire.differences({"meta": 1}, {"meta": 1.0}), {"meta": 1.0})  # equal, and other bytes
        self.assertEqual(wire.differences({"meta": [1]}, {"meta": [1.0]}), {"meta": [1.0]})
        self.assertEqual(wire.differences({"meta": {"a": [1]}}, {"meta": {"a": [1]}}), {})

    def test_a_value_that_would_have_a_message_refused_is_found_before(self):
        deep = leaf = []
        for _ in range(6):
            leaf.append([])
            leaf = leaf[0]
        with self.assertRaisesRegex(ValueError, "header_depth_max"):
            wire.check_value("meta", deep)
        wire.check_value("meta", [[[[[[]]]]]])
        for value, why in (({1: 2}, "keys are text"), ({str(n): n for n in range(65)}, "map_entries_max"), ([2**63], "below 2"),
                           ([ExtType(5, b"")], "ExtType"), (Timestamp(5), "Timestamp")):
            with self.assertRaisesRegex(ValueError, why):
                wire.check_value("meta", value)


if __name__ == "__main__":
    unittest.main()
