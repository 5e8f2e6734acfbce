# SPDX-License-Identifier: Apache-2.0
"""One key at two gateways: what both let through together, as the upstream counts it."""

import os
import select
import signal
import threading
import time
import unittest

import harness
from test_gateway import CHAT, GatewayCase, bearer, chat, key

SECONDS = 3
CALLERS = 3  # at each gateway


class TwoGateways(GatewayCase):
    """`self.bases`: the two. Both have the same file, and the same broker."""

    def setUp(self):
        super().setUp()
        self.second = self.another()
        self.bases = (self.base, self.ready(self.second))

    def another(self):
        return self.room.start(harness.Process(
            harness.program("lanemq-gateway"), "--broker", self.room.broker.clients, "--listen", "127.0.0.1:0",
            "--config", os.path.join(self.folder, "gateway.toml")))

    def hammer(self, name, model, seconds=SECONDS, refused_by=0):
        """Callers at both gateways ask all the time, and until so many gateways have refused something. What they were answered, and
        how long that took from the first to the last."""
        answers, refused, began, lock = [], set(), time.monotonic(), threading.Lock()

        def calls(base):
            while (passed := time.monotonic() - began) < seconds or (len(refused) < refused_by and passed < seconds + harness.PATIENCE):
                answer = self.ask("POST", CHAT, chat(model), bearer(name), base)
                with lock:
                    answers.append((base, answer))
                if answer.status != 200:
                    refused.add(base)
                    harness.pace(0.02)  # a caller that does not wait as long as it is told to

        threads = [threading.Thread(target=calls, args=(base,)) for base in self.bases for _ in range(CALLERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers, time.monotonic() - began

    def code(self, answer):
        return answer.json()["error"]["code"]

    def only_refused_for(self, answers, code):
        refused = [answer for _, answer in answers if answer.status != 200]
        self.assertEqual({(answer.status, self.code(answer)) for answer in refused}, {(429, code)})
        return refused


class Rates(TwoGateways):
    config = (key("many", "requests_per_minute = 240") + key("few", "requests_per_minute = 6")
              + key("tokens", "tokens_per_minute = 3000") + key("free"))

    def test_requests_of_both_are_one_keys(self):
        for name, limit in (("many", 240), ("few", 6)):
            with self.subTest(key=name):
                before = self.calls_begun()
                answers, passed = self.hammer(name, "gpt-x", refused_by=2)
                called = self.calls_begun() - before
                allowed = limit + limit * passed / 60
                self.assertLessEqual(called, allowed)
                self.assertGreater(called, 0.9 * limit - 1)
                self.assertEqual(called, sum(answer.status == 200 for _, answer in answers))
                for refused in self.only_refused_for(answers, "tenant_rpm"):
                    self.assertGreater(int(refused.headers["retry-after-ms"]), 0)
                if name == "many":  # of six requests the gateway that was quicker may have had all
                    self.assertEqual({base for base, answer in answers if answer.status == 200}, set(self.bases))

    def test_tokens_of_both_are_one_keys(self):
        answers, passed = self.hammer("tokens", "gpt-x+tokens=50", refused_by=2)
        used = [sum(answer.json()["usage"][what] for what in ("prompt_tokens", "completion_tokens"))
                for _, answer in answers if answer.status == 200]
        # A call's tokens are known at its end: those that run then may make a debt.
        self.assertLessEqual(sum(used), 3000 + 3000 * passed / 60 + 2 * CALLERS * max(used))
        self.assertGreater(sum(used), 0.9 * 3000)
        self.only_refused_for(answers, "tenant_tpm")

    def test_what_a_gateway_does_not_use_goes_to_the_other(self):
        self.assertEqual(self.ask("POST", CHAT, chat(), bearer("many"), self.bases[0]).status, 200)
        before, began = self.calls_begun(), time.monotonic()
        harness.wait_until(lambda: self.ask("POST", CHAT, chat(), bearer("many"), self.bases[1]).status == 429
                           and time.monotonic() > began + 2, "the end of the minute's worth")
        called = self.calls_begun() - before
        self.assertGreater(called, 239)  # all but the first gateway's one, and what came meanwhile
        self.assertLessEqual(called, 239 + 4 * (time.monotonic() - began))

    def test_replies_say_what_is_left_for_both(self):
        left = lambda base: int(self.ask("POST", CHAT, chat(), bearer("few"), base).headers["x-ratelimit-remaining-requests"])
        self.assertEqual([left(base) for base in self.bases * 2], [5, 4, 3, 2])

    def test_the_limit_outlives_the_brokers_restart_without_a_stop(self):
        broker = self.room.broker
        endpoints = {"clients": broker.clients, "workers": broker.workers, "admin": broker.admin}
        self.assertEqual(self.ask("POST", CHAT, chat(), bearer("few")).status, 200)
        broker.kill()
        self.room.start_broker(*self.arguments, **endpoints)
        answers = lambda: [self.ask("POST", CHAT, chat(), bearer("few"), base).status for base in self.bases]
        harness.wait_until(lambda: answers() == [200, 200], "both gateways after the restart")
        harness.wait_until(lambda: answers() == [429, 429], "the end of the minute's worth")

    def test_without_a_broker_a_call_is_refused_and_not_let_through(self):
        self.assertEqual(self.ask("POST", CHAT, chat(), bearer("few")).status, 200)
        self.room.broker.signal(signal.SIGSTOP)
        try:
            began = time.monotonic()
            self.assertEqual(self.ask("POST", CHAT, chat(), bearer("few")).status, 503)
            self.assertLess(time.monotonic() - began, harness.PATIENCE / 2, "it waited for as long as its lane lets it")
        finally:
            self.room.broker.signal(signal.SIGCONT)
        harness.wait_until(lambda: self.ask("POST", CHAT, chat(), bearer("few")).status == 200, "the broker's word")


class Places(TwoGateways):
    config = key("three", "concurrency = 3") + key("forty", "concurrency = 40")

    def peak(self):
        return self.directly("GET", "/stats").json()["in_flight_peak"]

    def hold_another(self, name, base, count):
        """A call that is held beside `count - 1` others. What the other gateway has ahead is there when it has not used it for a second."""
        at_upstream = lambda: self.directly("GET", "/stats").json()["in_flight"]
        deadline = time.monotonic() + harness.PATIENCE
        while time.monotonic() < deadline:
            [connection] = self.hold(name, base, 1)
            harness.wait_until(lambda: at_upstream() == count or select.select([connection], [], [], 0)[0], "a word of the gateway")
            if at_upstream() == count:
                return connection
            self.assertEqual(self.code(self.answer_of(connection)), "tenant_concurrency")
            connection.close()
        self.fail("no place")

    def hold(self, name, base, count):
        return [self.send(CHAT, chat(f"gpt-{name}+hold"), key=f"{name}-secret", base=base) for _ in range(count)]

    def test_places_of_both_are_one_keys(self):
        for name, limit in (("three", 3), ("forty", 40)):
            with self.subTest(key=name):
                answers, _ = self.hammer(name, "gpt-x+delay=20", 1)
                self.assertTrue(any(answer.status == 200 for _, answer in answers))
                held = [self.hold_another(name, self.bases[0], count) for count in range(1, limit)]
                held.append(self.hold_another(name, self.bases[1], limit))
                for base in self.bases:
                    refused = self.ask("POST", CHAT, chat(), bearer(name), base)
                    self.assertEqual((refused.status, self.code(refused)), (429, "tenant_concurrency"))
                self.assertEqual(self.peak(), limit)
                self.release(f"gpt-{name}+hold")
                self.assertEqual({self.answer_of(one).status for one in held}, {200})
                for base in self.bases:
                    harness.wait_until(lambda: self.ask("POST", CHAT, chat(), bearer(name), base).status == 200, "a place")
                self.assertLessEqual(self.peak(), limit)

    def test_places_of_a_gateway_that_died_come_back(self):
        self.hold("three", self.bases[1], 3)
        self.when_at_upstream(3)
        began = time.monotonic()
        self.second.kill()
        refused = self.ask("POST", CHAT, chat(), bearer("three"))
        self.assertEqual((refused.status, self.code(refused)), (429, "tenant_concurrency"))
        harness.wait_until(lambda: self.ask("POST", CHAT, chat(), bearer("three")).status == 200, "the places of the dead", pause=0.05)
        self.assertGreater(time.monotonic() - began, 2)  # the broker waits 5 s for a word; the last was some before its death
        self.assertEqual(self.peak(), 3)
        # A gateway that is started again takes part as any other.
        base = self.ready(self.another())
        self.assertEqual(self.ask("POST", CHAT, chat(), bearer("three"), base).status, 200)


if __name__ == "__main__":
    unittest.main()
