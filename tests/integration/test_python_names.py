# SPDX-License-Identifier: Apache-2.0
"""The Python package where endpoints have names: a DNS server that says nothing, or late, and names whose addresses change.

The system's look-up is a double in the process of the test, so that no server of names is needed."""

import socket
import threading
import time
import unittest
from unittest import mock

import harness
import test_python_sdk
from test_python_sdk import Held, SdkCase, shout

import lanemq
from lanemq import names


class Names:
    """What names mean: addresses; an Event, until which there is no answer, and then none; nothing: there is no such name."""

    def __init__(self):
        self.known, self.asked, self._real = {}, [], socket.getaddrinfo

    def __call__(self, host, port, **options):
        name = host.decode()
        if not name.endswith(".test"):
            return self._real(host, port, **options)
        self.asked.append(name)
        addresses = self.known.get(name, [])
        if isinstance(addresses, threading.Event):
            addresses.wait(harness.PATIENCE)
            addresses = []
        if not addresses:
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return [(0, socket.SOCK_STREAM, 0, "", (address, 0)) for address in addresses]


class NamesCase(SdkCase):
    def setUp(self):
        super().setUp()
        self.names = Names()
        self.enterContext(mock.patch.object(names.socket, "getaddrinfo", self.names))

    def hangs(self, name):
        """A name whose look-up has no answer until the test ends."""
        self.names.known[name] = gate = threading.Event()
        self.addCleanup(gate.set)

    def by(self, name, endpoint):
        """The same port at a name."""
        return f"tcp://{name}:{endpoint.rpartition(':')[2]}"


class OneName(NamesCase):
    def test_it_leads_to_the_broker(self):
        self.names.known["broker.test"] = ["127.0.0.1"]
        self.serve({"shout": shout}, broker=self.by("broker.test", self.room.broker.workers))
        self.assertEqual(self.connect(broker=self.by("broker.test", self.room.broker.clients)).submit("shout", "a").text, "A")

    def test_its_addresses_are_tried_in_turn(self):
        self.names.known["broker.test"] = ["127.0.0.2", "::1", "127.0.0.1"]  # nobody listens at the first two
        self.serve({"shout": shout}, broker=self.by("broker.test", self.room.broker.workers))
        self.assertEqual(self.connect(broker=self.by("broker.test", self.room.broker.clients)).submit("shout", "a").text, "A")

    def test_it_is_followed_to_another_address(self):
        self.names.known["broker.test"] = ["127.0.0.1"]
        held, port = Held(), harness.fixed_endpoints()
        first = self.room.start(harness.Broker(**port))
        moved = {name: endpoint.replace("127.0.0.1", "127.0.0.2") for name, endpoint in port.items()}
        self.serve({"held": held}, broker=self.by("broker.test", first.workers))
        client = self.connect(broker=self.by("broker.test", first.clients))
        answers = []
        asks = threading.Thread(target=lambda: answers.append(client.submit("held", b"x", id="a").body), daemon=True)
        asks.start()
        harness.wait_until(lambda: held.came, "the call")
        held.go.set()
        first.kill()

        harness.wait_until(lambda: len(self.names.asked) > 4, "both to look it up again")
        self.names.known["broker.test"] = ["127.0.0.2"]
        self.room.start(harness.Broker(**moved))

        asks.join(harness.PATIENCE)
        self.assertEqual(answers, [b"x"])

    def test_one_that_comes_up_later_is_found(self):
        self.serve({"shout": shout}, wait=False, broker=self.by("broker.test", self.room.broker.workers))
        client, answers = self.connect(broker=self.by("broker.test", self.room.broker.clients)), []
        asks = threading.Thread(target=lambda: answers.append(client.submit("shout", "a").text), daemon=True)
        asks.start()
        harness.wait_until(lambda: len(self.names.asked) > 4, "both to look it up again")
        self.names.known["broker.test"] = ["127.0.0.1"]
        asks.join(harness.PATIENCE)
        self.assertEqual(answers, ["A"])

    def test_one_whose_answer_comes_late_is_used(self):
        self.serve({"shout": shout})
        answers = threading.Event()  # as where the first DNS server is dead: when who asked has given up
        self.addCleanup(answers.set)

        def slow(host, port, **options):
            answers.wait(harness.PATIENCE)
            return [(0, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 0))]

        with mock.patch.object(names.socket, "getaddrinfo", slow), mock.patch.object(names, "LOOKUP_WITHIN", 0.05):
            client = self.connect(broker=[self.by("slow.test", self.room.broker.clients), "tcp://127.0.0.1:1"])
            harness.wait_until(lambda: client.counters["reconnected"] > 2, "turns that find nobody")
            answers.set()
            self.assertEqual(client.submit("shout", "a").text, "A")

    def test_a_server_that_answers_the_next_question_is_asked_again(self):
        self.serve({"shout": shout})
        self.hangs("slow.test")
        with mock.patch.object(names, "LOOKUP_WITHIN", 0.05), mock.patch.object(names, "AGAIN_AFTER", 0.2):
            client = self.connect(broker=self.by("slow.test", self.room.broker.clients))
            harness.wait_until(lambda: client.counters["reconnected"] > 2, "turns that find nobody")
            self.names.known["slow.test"] = ["127.0.0.1"]
            self.assertEqual(client.submit("shout", "a").text, "A")
        self.assertEqual([one for one in names._late if one.addresses is not None], [])

    def test_what_is_written_like_none_is_said_at_once(self):
        for broker in ("tcp://no name:5570", "tcp://-a:5570", "tcp://a:5570x", f"{self.room.broker.clients},tcp://a b:1"):
            with self.subTest(broker), self.assertRaises(ValueError):
                lanemq.Client(broker)


class SeveralEndpoints(NamesCase):
    def took(self, endpoint):
        """Seconds until a job at these endpoints has its answer."""
        client = self.connect(broker=endpoint)
        began = time.monotonic()
        self.assertEqual(client.submit("shout", "a").text, "A")
        return time.monotonic() - began

    def test_a_name_without_an_answer_is_left_after_a_second(self):
        self.hangs("dead.test")
        self.serve({"shout": shout}, broker=[self.by("dead.test", self.room.broker.workers), self.room.broker.workers])
        took = [self.took([self.by("dead.test", self.room.broker.clients), self.room.broker.clients]) for _ in range(3)]
        self.assertGreater(min(took), 0.9)
        self.assertLess(min(took), 2.0)  # a busy machine may hold up some
        self.assertEqual(self.names.asked.count("dead.test"), 1)

    def test_a_name_that_is_none_costs_no_time(self):
        self.serve({"shout": shout}, broker=[self.by("none.test", self.room.broker.workers), self.room.broker.workers])
        self.assertLess(min(self.took([self.by("none.test", self.room.broker.clients), self.room.broker.clients]) for _ in range(5)), 0.9)

    def test_a_connection_does_not_notice_that_another_one_s_name_hangs(self):
        """All sockets of a client have one thread of libzmq's."""
        self.hangs("dead.test")
        self.serve({"shout": shout})
        client = self.connect(broker=[self.room.broker.clients, self.by("dead.test", self.room.broker.clients)])
        self.assertEqual(client.submit("shout", "a").text, "A")

    def test_close_does_not_wait_for_a_name(self):
        self.hangs("dead.test")
        client = self.connect(broker=self.by("dead.test", self.room.broker.clients))
        harness.wait_until(lambda: self.names.asked, "the look-up")
        client.close()
        self.assertFalse(client._engine._driver.alive())


class OfAProcess(SdkCase):
    def test_a_look_up_that_hangs_does_not_keep_it_from_ending(self):
        program = self.script("""
            import socket, threading
            from lanemq import Client

            asked = threading.Event()

            def hangs(*arguments, **options):
                asked.set()
                threading.Event().wait()

            socket.getaddrinfo = hangs
            client = Client("tcp://dead.test:5570")
            asked.wait()
            print("ends", flush=True)
        """)
        self.assertEqual(program.line(), "ends")
        self.assertEqual(program.wait(), 0)


class Keys(test_python_sdk.Keys):
    """All that is shown to a broker at a number is shown to it at a name."""

    test_a_key_that_the_broker_does_not_know_is_unauthorized = None

    def test_both_ends_show_their_keys(self):
        workers, clients = (endpoint.replace("127.0.0.1", "localhost") for endpoint in (self.room.broker.workers, self.room.broker.clients))
        self.serve({"s": shout}, broker=workers, **self.key("hands"))
        self.assertEqual(self.connect(broker=clients, **self.key("alice")).submit("s", "x").text, "X")
        with self.assertRaises(lanemq.UnauthorizedError):
            self.connect(broker=clients, **self.key("mallory")).submit("s", "x")


if __name__ == "__main__":
    unittest.main()
