# SPDX-License-Identifier: Apache-2.0
"""The Python package and the system around it: forks, and a broker that is away."""

import contextlib
import os
import pickle
import select
import signal
import threading
import time
import unittest

import harness
from test_python_sdk import SdkCase, shout

import lanemq
from lanemq import Client

AWAY = "tcp://127.0.0.1:1"


class ForkedClients(SdkCase):
    """A client that was made before a fork (gunicorn's preload, multiprocessing) and is used behind it."""

    def child(self, does):
        """Has a child of a fork do something, and returns what it says of it."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                os.close(reader)
                try:
                    said = str(does())
                except BaseException as error:
                    said = f"{type(error).__name__}: {error}"
                os.write(writer, said.encode())
            os._exit(0)
        os.close(writer)
        with open(reader, encoding="utf-8") as file:
            if not select.select([file], [], [], harness.PATIENCE)[0]:
                os.kill(child, signal.SIGKILL)
            said = file.read()
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        return said

    def test_each_call_in_the_child_says_what_to_do(self):
        client = self.connect()
        client.ping()
        stream = client.stream("nobody")
        calls = {
            "submit": lambda: client.submit("s", "x", timeout=5),
            "leave": lambda: client.leave("s"),
            "ping": client.ping,
            "fetch": lambda: client.fetch("a"),
            "stream": lambda: client.stream("s"),
            "watch": client.watch,
            "map": lambda: list(client.map("s", ["a"], progress=False)),
            "a stream of before": lambda: next(stream),
        }
        for name, call in calls.items():
            with self.subTest(name):
                self.assertRegex(self.child(call), f"RuntimeError: this client was made in the process {os.getpid()}.* make a client in each")
        self.assertEqual(self.child(client.close), "None")
        client.ping()

    def test_asyncio(self):
        said = self.script("""
            import asyncio, os
            from lanemq import AsyncClient

            async def ask():
                try:
                    await client.ping()
                except RuntimeError as error:
                    print("make a client in each process" in str(error), flush=True)
                await client.close()

            client = AsyncClient()
            child = os.fork()
            if child == 0:
                asyncio.run(ask())
            else:
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), bool(asyncio.run(client.ping())), flush=True)
        """)
        self.assertEqual([said.line(), said.line()], ["True", "0 True"])

    def test_a_client_that_the_child_makes_works_beside_its_parent_s(self):
        self.serve({"shout": shout})
        client, broker = self.connect(), self.room.broker.clients
        client.ping()

        def asks():
            with Client(broker) as own:
                return own.submit("shout", "child").text
        self.assertEqual(self.child(asks), "CHILD")
        self.assertEqual(client.submit("shout", "parent").text, "PARENT")

    def test_a_child_ends_without_waiting_for_what_its_parent_asked(self):
        said = self.script("""
            import os, sys, threading, time
            from lanemq import Client

            client = Client()
            client.ping()
            threading.Thread(target=client.submit, args=["nobody"], daemon=True).start()
            while client.counters["sent"] < 2:
                pass
            began, child = time.monotonic(), os.fork()
            if child == 0:
                sys.exit(7)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            print(code, time.monotonic() - began, client.status("x").state, flush=True)
            os._exit(0)
        """).line().split()
        self.assertEqual((said[0], said[2]), ("7", "unknown"))
        self.assertLess(float(said[1]), 3.0)  # for which a client waits for its broker

    def test_a_client_is_not_sent_to_another_process(self):
        with self.assertRaisesRegex(TypeError, "of the process that made it"):
            pickle.dumps(self.connect())


class Away(SdkCase):
    """Nobody waits for a broker that is not there."""

    def took(self, does):
        began = time.monotonic()
        does()
        return time.monotonic() - began

    def waiting(self, broker):
        """A client with a job that waits."""
        client = self.connect(broker=broker)
        threading.Thread(target=self.ask, args=[client], daemon=True).start()
        harness.wait_until(lambda: client.counters["sent"], "the job, on its way")
        return client

    @staticmethod
    def ask(client):
        with contextlib.suppress(lanemq.LaneMQError):
            client.submit("nobody")

    def test_close(self):
        # A busy machine may hold up some; it was 3.5 s.
        self.assertLess(min(self.took(self.waiting(AWAY).close) for _ in range(3)), 1.5)

    def test_close_with_a_broker_that_has_gone(self):
        broker = self.room.start(harness.Broker(*harness.STEADY))
        clients = [self.waiting(broker.clients) for _ in range(3)]
        broker.kill()
        self.assertLess(min(self.took(client.close) for client in clients), 1.5)

    def test_close_waits_for_a_broker_that_answers(self):
        client = self.waiting(self.room.broker.clients)
        harness.wait_until(lambda: self.jobs(), "the job at the broker")
        client.close()
        self.assertEqual(self.jobs(), [])

    def test_ctrl_c(self):
        programs = [self.script(f"""
            from lanemq import Client

            with Client("{AWAY}") as client:
                client.submit("s")
        """) for _ in range(2)]
        for program in programs:
            harness.wait_until(lambda: "connecting again" in program.stderr(), "that it waits")

        def took(program):
            program.signal(signal.SIGINT)
            return self.took(program.wait)
        self.assertLess(min(took(program) for program in programs), 3.0)  # it was 6.6 s


if __name__ == "__main__":
    unittest.main()
