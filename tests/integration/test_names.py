# SPDX-License-Identifier: Apache-2.0
"""Endpoints with names: `lanemq`, the worker and the gateway look them up apart from all else, and follow what they say."""

import os
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import harness

NO_ANSWER_S = 90  # as set_names.c has it


def at(name, endpoint):
    """The same port at a name."""
    return f"tcp://{name}:{endpoint.rpartition(':')[2]}"


class Case(harness.Case):
    def setUp(self):
        super().setUp()
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.names = os.path.join(folder, "names")
        self.env = {**os.environ, "LD_PRELOAD": harness.program("set_names.so"), "SET_NAMES_FILE": self.names}
        self.name()

    def name(self, *lines):
        """What names mean from now on, as set_names.c has it."""
        with open(self.names + ".new", "w") as file:
            file.writelines(f"{line}\n" for line in lines)
        os.replace(self.names + ".new", self.names)

    def work(self, endpoints):
        return self.room.start(harness.Process(harness.program("lanemq-worker"), "--broker", endpoints, "--service", "echo=echo",
                                               env=self.env))

    def submit(self, endpoints, *words):
        return self.room.start(harness.Process(harness.program("lanemq"), "--broker", endpoints, "submit", *words, "--service", "echo",
                                               "a", env=self.env))

    def both_find_nobody(self, name):
        """A worker and a submit that know the broker by a name, and do not get there."""
        broker = self.room.broker
        worker, submit = self.work(at(name, broker.workers)), self.submit(at(name, broker.clients))
        harness.wait_until(lambda: "worker.waiting_for_broker" in worker.stderr() and "no broker listens" in submit.stderr(),
                           "both to find nobody")
        return worker, submit

    def answer(self, program):
        code = program.wait()
        self.assertEqual((code, program.line()), (0, "a"), program.stderr())

    def serves(self, gateway):
        try:
            with urllib.request.urlopen(f"{gateway}/readyz", timeout=NO_ANSWER_S) as ready:
                return ready.status == 200
        except urllib.error.HTTPError:
            return False

    def is_ready(self, program):
        line = program.line()
        self.assertTrue(line.startswith("ready "), f"{line} {program.stderr()}")


class Names(Case):
    def test_where_the_first_has_no_answer_the_next_is_asked_after_a_second(self):
        self.name("- dead.test", "- gone.test", "127.0.0.1 known.test")
        broker = self.room.broker
        brokers = lambda endpoint: ",".join(at(f"{name}.test", endpoint) for name in ("dead", "gone", "known"))
        began = time.monotonic()
        worker, submit = self.work(brokers(broker.workers)), self.submit(brokers(broker.clients))
        gateway = self.room.start(harness.Process(harness.program("lanemq-gateway"), "--broker", brokers(broker.clients), "--listen",
                                                  "127.0.0.1:0", env=self.env))
        self.is_ready(worker)
        self.answer(submit)
        url = gateway.line().removeprefix("ready ")
        harness.wait_until(lambda: self.serves(url), "the gateway to reach the broker", pause=0.05)
        self.assertLess(time.monotonic() - began, NO_ANSWER_S - 5)
        began = time.monotonic()
        for program in self.room.processes[1:]:
            program.signal(signal.SIGTERM)
        for program in self.room.processes[1:]:
            program.wait()
        self.assertLess(time.monotonic() - began, NO_ANSWER_S - 5, "nobody waits for a look-up")

    def test_an_unknown_first_costs_nothing(self):
        self.name("! dead.test", "127.0.0.1 known.test")
        broker = self.room.broker
        self.is_ready(self.work(f"{at('dead.test', broker.workers)},{at('known.test', broker.workers)}"))
        self.answer(self.submit(f"{at('dead.test', broker.clients)},{broker.clients}"))

    def test_a_server_that_answers_the_next_question_is_asked_again(self):
        self.name("- slow.test")
        began = time.monotonic()
        worker, submit = self.both_find_nobody("slow.test")
        self.name("127.0.0.1 slow.test")
        self.is_ready(worker)
        self.answer(submit)
        self.assertLess(time.monotonic() - began, NO_ANSWER_S - 5)

    def test_who_asks_once_is_told_that_nobody_answers(self):
        self.name("- dead.test")
        began = time.monotonic()
        asked = subprocess.run([harness.program("lanemq"), "--broker", at("dead.test", self.room.broker.clients), "--connect-timeout", "1s",
                                "ping"], env=self.env, capture_output=True, text=True)
        self.assertEqual(asked.returncode, 3, asked.stderr)
        self.assertIn('which address the host "dead.test" has', asked.stderr)
        self.assertLess(time.monotonic() - began, NO_ANSWER_S - 5)

    def test_its_addresses_are_tried_in_turn(self):
        self.name("127.0.0.2 broker.test", "::1 broker.test", "127.0.0.1 broker.test")  # nobody listens at the first two
        broker = self.room.broker
        self.is_ready(self.work(at("broker.test", broker.workers)))
        self.answer(self.submit(at("broker.test", broker.clients)))

    def test_one_that_comes_up_later_is_found(self):
        self.name("! broker.test")
        worker, submit = self.both_find_nobody("broker.test")
        self.name("127.0.0.1 broker.test")
        self.is_ready(worker)
        self.answer(submit)

    def test_one_that_moves_is_followed(self):
        """As where a container is made anew, and has another address."""
        self.name("127.0.0.1 broker.test")
        port = harness.fixed_endpoints()
        first = self.room.start(harness.Broker(**port))
        worker = self.work(at("broker.test", first.workers))
        self.is_ready(worker)
        held = self.submit(at("broker.test", first.clients), "--delay", "3600s", "--id", "held")
        asker = lambda: subprocess.run([harness.program("lanemq"), "--broker", first.clients, "status", "held"], capture_output=True, text=True)
        harness.wait_until(lambda: asker().returncode == 0, "the job to be taken")
        first.kill()
        harness.wait_until(lambda: "connecting again" in held.stderr(), "the client to find nobody")
        moved = self.room.start(harness.Broker(**{name: endpoint.replace("127.0.0.1", "127.0.0.2") for name, endpoint in port.items()}))
        self.name("127.0.0.2 broker.test")
        self.answer(self.submit(at("broker.test", moved.clients)))
        harness.wait_until(lambda: f"the broker at {moved.clients} answers" in held.stderr(), "the client to find the other")


if __name__ == "__main__":
    harness.unittest.main()
