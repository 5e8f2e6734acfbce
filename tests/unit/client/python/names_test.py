# SPDX-License-Identifier: Apache-2.0
import os
import socket
import threading
import unittest
from unittest import mock

import support  # noqa: F401: where the package is
from lanemq import names

PATIENCE = 60.0


class Dns:
    """In the place of the system's look-ups: a name's answer, an Event until which it has none, or nothing."""

    def __init__(self, **answers):
        self.answers, self.asked = answers, []

    def __call__(self, host, port, **options):
        name = host.decode()
        self.asked.append(name)
        answer = self.answers.get(name.partition(".")[0])
        if isinstance(answer, threading.Event):
            answer.wait(PATIENCE)
            answer = getattr(answer, "then", None)
        if answer is None:
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return [(0, socket.SOCK_STREAM, 0, "", (number, 0)) for number in answer]


class Case(unittest.TestCase):
    def setUp(self):
        self.gates = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for gate in self.gates:
            gate.set()
        for thread in threading.enumerate():
            if thread.name.startswith("lanemq-name-"):
                thread.join(PATIENCE)
        names._forget()

    def resolve(self, **answers):
        dns = Dns(**answers)
        self.enterContext(mock.patch.object(names.socket, "getaddrinfo", dns))
        return dns

    def gate(self, then=None):
        gate = threading.Event()
        gate.then = then
        self.gates.append(gate)
        return gate

    def ask(self, host):
        """A look-up, and what rings when it ends."""
        rung = threading.Event()
        lookup = names.look_up(host, rung.set)
        if lookup.addresses is not None:
            rung.set()
        return lookup, rung


class Endpoints(unittest.TestCase):
    def test_what_is_no_name_is_not_looked_up(self):
        for endpoint in ("tcp://127.0.0.1:5570", "tcp://[::1]:5570", "tcp://::1:5570", "tcp://[fe80::1%eth0]:5570", "ipc:///run/a.b:1",
                         "inproc://name:1", "tcp://eth0;10.0.0.1:5570", "tcp://no name:1", "tcp://:1", "tcp://name", "tcp://name:*"):
            with self.subTest(endpoint):
                self.assertIsNone(names.named(endpoint))

    def test_a_number_takes_the_place_of_the_name(self):
        for endpoint, place in (("tcp://localhost:1", "tcp://[::1]:1"), ("tcp://a-b.c_d.test:5570", "tcp://[::1]:5570"),
                                ("tcp://eth0;broker:7", "tcp://eth0;[::1]:7"), ("tcp://3com:1", "tcp://[::1]:1")):
            with self.subTest(endpoint):
                self.assertEqual(names.named(endpoint).at("[::1]"), place)


class Lookups(Case):
    def test_all_addresses_of_a_name_are_found_and_it_is_asked_anew_each_time(self):
        dns = self.resolve(two=["10.0.0.1", "::1", "10.0.0.1"])
        for _ in range(2):
            lookup, rung = self.ask("two.test")
            self.assertTrue(rung.wait(PATIENCE))
            self.assertEqual(lookup.addresses, ("10.0.0.1", "[::1]"))
        self.assertEqual(dns.asked, ["two.test"] * 2)

    def test_a_name_that_is_none_has_no_address(self):
        self.resolve()
        lookup, rung = self.ask("nobody.test")
        self.assertTrue(rung.wait(PATIENCE))
        self.assertEqual(lookup.addresses, ())

    def test_who_asks_while_a_look_up_is_under_way_shares_it(self):
        gate = self.gate(["10.0.0.1"])
        dns = self.resolve(slow=gate)
        asked = [self.ask("slow.test") for _ in range(100)]
        gate.set()
        for lookup, rung in asked:
            self.assertTrue(rung.wait(PATIENCE))
            self.assertEqual(lookup.addresses, ("10.0.0.1",))
        self.assertEqual(dns.asked, ["slow.test"])

    def test_an_answer_that_comes_late_serves_who_asks_next(self):
        gate = self.gate(["10.0.0.1"])
        dns = self.resolve(late=gate)
        with mock.patch.object(names, "LOOKUP_WITHIN", 0.0):
            _, rung = self.ask("late.test")
            gate.set()
            self.assertTrue(rung.wait(PATIENCE))
        self.assertEqual(self.ask("late.test")[0].addresses, ("10.0.0.1",))
        with mock.patch.object(names, "LATE_KEPT", 0.0):
            self.assertTrue(self.ask("late.test")[1].wait(PATIENCE))
        self.assertEqual(dns.asked, ["late.test"] * 2)

    def test_look_ups_that_hang_are_bounded(self):
        hung = self.gate()
        self.resolve(**{f"n{number}": hung for number in range(names.LOOKUPS_MAX + 5)})
        lookups = [self.ask(f"n{number}.test")[0] for number in range(names.LOOKUPS_MAX + 5)]
        self.assertEqual([lookup.addresses for lookup in lookups], [None] * names.LOOKUPS_MAX + [()] * 5)

    def test_without_a_thread_a_name_has_no_address(self):
        with mock.patch.object(names.threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
            self.assertEqual(self.ask("any.test")[0].addresses, ())

    def test_the_child_of_a_fork_looks_up_by_itself(self):
        gate = self.gate(["10.0.0.1"])
        self.resolve(slow=gate)
        self.ask("slow.test")
        child = os.fork()
        if child == 0:
            gate.set()
            os._exit(0 if self.ask("slow.test")[1].wait(PATIENCE) else 1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)


if __name__ == "__main__":
    unittest.main()
