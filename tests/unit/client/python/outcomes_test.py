# SPDX-License-Identifier: Apache-2.0
import unittest
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import support  # noqa: F401 - the path of the package
from lanemq import JobCancelled, Limited, Overloaded, Permanent, Quota, Released, Result, Retry, outcomes
from msgpack import packb

NAN, INF = float("nan"), float("inf")


class Int64:
    """As numpy's: no int, but one loses nothing by taking it for one."""

    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class Sly(dict):
    def get(self, name, otherwise=None):
        raise KeyError(name)


class Answers(unittest.TestCase):
    def test_a_coroutine_is_none(self):
        async def answer():
            return b"x"

        outcome = outcomes.of_answer(answer())
        self.assertEqual((outcome.fields["class"], outcome.fields["code"]), ("permanent", "bad_outcome"))
        self.assertIn("asyncio.run", outcome.fields["message"])

    def test_what_a_handler_may_return(self):
        for answer, body in ((None, b""), (b"x", b"x"), ("ä", "ä".encode()), ({"a": 1}, b'{"a": 1}'), ([1], b"[1]"), (bytearray(b"y"), b"y"),
                             (Result("z"), b"z"), (Result(None), b"")):
            self.assertEqual(outcomes.of_answer(answer), outcomes.Outcome("result", {}, body))

    def test_whole_numbers_of_any_type_are_numbers(self):
        usage = {"input_tokens": 5.0, "output_tokens": Int64(6), "requests": Fraction(7), "cached_tokens": None, "prompt_tokens_details": {"a": 1}}
        self.assertEqual(outcomes.of_answer(Result(b"x", usage=usage, limits={"reset_tokens_ms": 8.0, "limit_tokens": 2**63 - 1})).fields,
                         {"usage": {"requests": 7, "input_tokens": 5, "output_tokens": 6},
                          "limits": {"limit_tokens": 2**63 - 1, "reset_tokens_ms": 8}})
        self.assertEqual(outcomes.of_answer(Result(b"x", usage={}, limits=None)).fields, {})

    def test_what_cannot_be_said_names_the_field_what_it_was_and_what_is_allowed(self):
        number = "it is a whole number from 0 to 9223372036854775807"
        for odd in (1.5, -1, NAN, INF, 2**63, 10**5000, "5", True, b"5", [5], lambda: 5, Decimal(5), Int64(-1), Int64("5"), Silent()):
            for name in ("input_tokens", "reasoning_tokens"):
                self.bad(Result(b"x", usage={name: odd}), f"usage.{name} is .*; {number}")
            self.bad(Result(b"x", limits={"remaining_tokens": odd}), f"limits.remaining_tokens is .*; {number}")
        for odd in ("text", 5, [("input_tokens", 5)], Silent()):
            self.bad(Result(b"x", usage=odd), "usage is .*; it is a dict")
        self.bad(Result(b"x", usage=Sly()), "cannot be read: KeyError")
        loop = []
        loop.append(loop)
        for odd in (5, 1.5, NAN, lambda: b"x", object(), {"a": {1}}, {"a": NAN}, [INF], "\udce9", {"a": "\udce9"}, loop, Silent(), (b"x",)):
            self.bad(odd, r"the body cannot be sent \(.*\); it is bytes, text, or a dict or list for JSON")
            self.bad(Result(odd), "the body cannot be sent")

    def bad(self, answer, why):
        outcome = outcomes.of_answer(answer)
        self.assertTrue(outcomes.is_bad(outcome))
        self.assertEqual((outcome.op, outcome.fields["class"], outcome.fields["code"], outcome.body), ("error", "permanent", "bad_outcome", b""))
        self.assertRegex(outcome.fields["message"], why)
        self.assertLess(len(packb(outcome.fields)), 4096)


class Faults(unittest.TestCase):
    def test_what_a_handler_may_raise(self):
        self.assertEqual(outcomes.of_fault(Limited("slow", code=429, retry_after=Fraction(3, 2), body="why", upstream_status=429, usage={"requests": 1})),
                         outcomes.Outcome("error", {"class": "limited", "usage": {"requests": 1}, "code": "429", "message": "slow",
                                                    "retry_after_ms": 1500, "upstream_status": 429}, b"why"))
        self.assertEqual(outcomes.of_fault(Retry()).fields, {"class": "retry"})
        self.assertEqual(outcomes.of_fault(JobCancelled("j")).fields["code"], "cancelled")
        self.assertEqual(outcomes.of_fault(ValueError("no")).fields, {"class": "retry", "code": "ValueError", "message": "no"})
        self.assertEqual(outcomes.of_fault(SystemExit(3)).fields, {"class": "retry", "code": "SystemExit", "message": "3"})
        for pause, ms in ((-1, 0), (timedelta(seconds=2), 2000), (10**12, 31_536_000_000), (0.0001, 1)):
            self.assertEqual(outcomes.of_fault(Retry(retry_after=pause)).fields["retry_after_ms"], ms)

    def test_long_texts_for_people_are_cut(self):
        self.assertEqual(len(outcomes.of_fault(Retry("ж" * 5000)).fields["message"]), 1024)
        name = "Ж" * 100
        self.assertEqual(outcomes.of_fault(type(name, (Exception,), {})()).fields["code"], "Ж" * 64)

    def test_what_cannot_be_said_keeps_a_class_that_costs_an_attempt_and_nothing_else(self):
        lone = b"caf\xe9.txt".decode("utf-8", "surrogateescape")
        self.bad("permanent", Quota(code="\u0436" * 65), "code is .* and has 130 bytes; the limit is 128")
        self.bad("overloaded", Overloaded(code=lone), r"code is .*caf\\udce9.txt.*; it is text that UTF-8 has")
        self.bad("permanent", Permanent(lone), r"message is .*caf\\udce9.txt.*; it is text that UTF-8 has")
        self.bad("retry", FileNotFoundError(f"no file {lone}"), r"message is .*no file caf\\udce9.txt.* \(FileNotFoundError\)")
        self.bad("retry", Silent(), r"message is no text: str\(\) of Silent raised RuntimeError")
        self.bad("permanent", Released(Silent()), r"message is no text: str\(\) of Silent")
        for odd in ("teapot", 99, 600, 2**70, 418.5, NAN, True, [418]):
            self.bad("permanent", Permanent(upstream_status=odd), "upstream_status is .*; it is a whole number from 100 to 599")
        for odd in (NAN, INF, "5", [5], True, 10**400, Silent()):
            self.bad("permanent", Limited(retry_after=odd), "retry_after is .*; it is a number of seconds")
        self.bad("retry", Retry(body=5), "the body cannot be sent")
        self.bad("retry", Retry(usage={"requests": 0.5}), "usage.requests is 0.5")

    def test_a_class_of_ones_own_that_is_none_is_a_retry(self):
        for odd in ("\udce9", "x" * 129, Silent()):
            self.bad("retry", type("Odd", (Permanent,), {"error_class": odd})("no"), "error_class is ")

    def bad(self, error_class, fault, why):
        outcome = outcomes.of_fault(fault)
        self.assertEqual({**outcome.fields, "message": ""}, {"class": error_class, "code": "bad_outcome", "message": ""})
        self.assertRegex(outcome.fields["message"], why)
        packb(outcome.fields)


if __name__ == "__main__":
    unittest.main()
