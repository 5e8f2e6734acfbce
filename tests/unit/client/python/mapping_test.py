# SPDX-License-Identifier: Apache-2.0
import io
import itertools
import unittest

from support import Inbox
from lanemq.errors import ConflictError
from lanemq.mapping import AHEAD, MapRun, Progress
from lanemq.types import Answer, Job


def answer(index):
    return index, Answer(str(index), b"%d" % index, {})


class Run(unittest.TestCase):
    def start(self, bodies, ordered=True, window=4, returns_errors=False):
        ids = itertools.count()
        return MapRun("s", bodies, {}, lambda: f"id-{next(ids)}", Inbox(), ordered=ordered, window=window,
                      returns_errors=returns_errors)

    def taken(self, run):
        return [each.index for each in iter(run.ready, None)]

    def test_the_input_is_read_as_there_is_room(self):
        read = []
        run = self.start((read.append(n) or b"" for n in range(100)))
        self.assertEqual([request.token for request in run.feed()], [0, 1, 2, 3])
        self.assertEqual((read, run.feed()), ([0, 1, 2, 3], []))
        run.take([answer(1), answer(3)])
        self.assertEqual([request.token for request in run.feed()], [4, 5])

    def test_an_ordered_one_waits_for_the_first_and_reads_only_so_far_ahead(self):
        run = self.start(b"" for _ in itertools.count())
        begun = [request.token for request in run.feed()]
        while later := [token for token in begun if token]:
            run.take([answer(token) for token in later])
            begun = [request.token for request in run.feed()]
        self.assertEqual(self.taken(run), [])
        self.assertEqual(run.done, 4 * AHEAD - 1)
        run.take([answer(0)])
        self.assertEqual(self.taken(run), list(range(4 * AHEAD)))

    def test_an_unordered_one_hands_out_what_comes(self):
        run = self.start([b""] * 4, ordered=False)
        run.feed()
        run.take([answer(2), answer(0)])
        self.assertEqual(self.taken(run), [2, 0])

    def test_it_is_over_when_all_was_handed_out(self):
        run = self.start([b"", b""])
        run.feed()
        run.take([answer(0), answer(1)])
        self.assertFalse(run.over)
        self.assertEqual((self.taken(run), run.feed(), run.over), ([0, 1], [], True))
        self.assertTrue((empty := self.start([])).feed() == [] and empty.over)

    def test_errors_are_raised_or_returned_in_their_place(self):
        run = self.start([b""] * 3)
        run.feed()
        with self.assertRaises(ConflictError):
            run.take([(1, ConflictError("m"))])
        self.assertEqual([request.token for request in run.under_way()], [0, 2])
        run = self.start([b""] * 3, returns_errors=True)
        run.feed()
        run.take([(1, ConflictError("m")), answer(0), answer(2)])
        self.assertEqual(self.taken(run), [0, 1, 2])
        self.assertEqual((run.done, run.failed), (3, 1))

    def test_an_id_that_is_none_is_refused_where_it_is_said(self):
        for id in ("\udce9", "", 5, "x" * 129):
            with self.assertRaisesRegex((TypeError, ValueError), "id "):
                self.start([Job(b"", id=id)]).feed()

    def test_a_window_holds_at_least_one(self):
        with self.assertRaisesRegex(ValueError, "window is 0"):
            self.start([], window=0)


class Bar(unittest.TestCase):
    def test_it_is_drawn_on_a_terminal_alone(self):
        run = MapRun("s", [b""] * 4, {}, iter("abcd").__next__, Inbox(), ordered=True, window=4, returns_errors=False)
        run.feed()
        run.take([answer(0)])
        out = io.StringIO()
        Progress(run, None, out).draw()
        self.assertEqual(out.getvalue(), "")
        Progress(run, True, out).draw(last=True)
        self.assertIn("[#######" + " " * 23 + "] 1/4 done, 0 failed", out.getvalue())
        self.assertIn("1/4 done, 0 failed, 2/s, 2 s left", Progress(run, True, out).text(0.5))


if __name__ == "__main__":
    unittest.main()
