# SPDX-License-Identifier: Apache-2.0
"""The Python package and the system around it: forks, signals, threads that are not to be had, a stdout that nobody reads, a broker
that is away."""

import contextlib
import ctypes
import os
import pickle
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest
from unittest import mock

import harness
from test_python_sdk import PACKAGE, Held, SdkCase, shout

import lanemq
from lanemq import Client, Worker

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

    def test_neither_a_client_nor_a_worker_is_sent_to_another_process(self):
        for what in (self.connect(), self.serve({"shout": shout})):
            with self.assertRaisesRegex(TypeError, "of the process that made it"):
                pickle.dumps(what)

    def test_a_worker_of_before_the_fork_says_what_to_do(self):
        worker = self.serve({"shout": shout})
        idle = Worker({"shout": shout}, broker=self.room.broker.workers)
        for ends in (lambda: idle.wait(harness.PATIENCE), idle.leave, idle.start):  # in the reverse order
            self.addCleanup(ends)
        for call in (idle.run, idle.start, worker.wait):
            self.assertRegex(self.child(call), f"RuntimeError: this worker was made in the process {os.getpid()}")


class Handlers(SdkCase):
    WORKER = """
        import multiprocessing, os, sys, time
        from lanemq import worker

        fork = multiprocessing.get_context("fork")

        @worker("forks")
        def forks(job):
            child = os.fork()
            if child == 0:
                exec(job.body)
                return b"from the child"
            return str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

        @worker("terminates")
        def terminates(job):
            reader, writer = fork.Pipe(duplex=False)
            def lives():
                writer.send("lives")
                while True:
                    time.sleep(60)
            child = fork.Process(target=lives)
            child.start()
            reader.recv()
            os.kill(child.pid, int(job.text))
            child.join()
            return str(child.exitcode)

        from lanemq import Worker
        Worker([forks, terminates], drain_timeout=1).run()
    """

    def test_a_child_that_comes_back_from_the_handler_ends(self):
        worker, client = self.script(self.WORKER), self.connect()
        self.assertTrue(worker.line().startswith("ready"))
        for what, code in (("sys.exit(5)", "5"), ("sys.exit()", "0"), ("sys.exit('no')", "1"), ("1 / 0", "1"), ("pass", "0"),
                           ("os._exit(3)", "3")):
            with self.subTest(what):
                answer = client.submit("forks", what, timeout=harness.PATIENCE)
                self.assertEqual((answer.text, answer.attempts), (code, 1))
        self.assertIn("ZeroDivisionError", worker.stderr())
        worker.signal(signal.SIGTERM)
        self.assertEqual(worker.wait(), 0)

    def test_a_child_ends_by_a_signal(self):
        worker, client = self.script(self.WORKER), self.connect()
        self.assertTrue(worker.line().startswith("ready"))
        self.assertEqual(client.submit("terminates", "15", timeout=harness.PATIENCE).text, "-15")
        self.assertEqual(client.submit("terminates", "2", timeout=harness.PATIENCE).text, "1")  # KeyboardInterrupt
        worker.signal(signal.SIGTERM)
        self.assertEqual(worker.wait(), 0)

    def test_what_no_thread_can_run_is_refused_at_once(self):
        async def coroutine(job):
            return b""

        async def async_generator(job):
            yield b""

        def generator(job):
            yield b""

        class Called:
            async def __call__(self, job):
                return b""

        for handler, why in ((coroutine, "async"), (async_generator, "async"), (Called(), "async"), (generator, "job.chunk"),
                             (None, "is None"), (b"x", "is a function")):
            with self.subTest(handler):
                with self.assertRaisesRegex(TypeError, why):
                    lanemq.worker("s")(handler)
                with self.assertRaisesRegex(TypeError, why):
                    Worker({"s": handler})

    def test_a_coroutine_that_is_returned_ends_its_job_with_the_reason(self):
        async def coroutine(job):
            return b""

        self.serve({"s": lambda job: coroutine(job)})
        with self.assertRaisesRegex(lanemq.UpstreamRejectedError, "returned a coroutine"):
            self.connect().submit("s")

    def test_an_exception_that_comes_when_the_handler_is_over_takes_no_other_job(self):
        """As of a time limit that raises into the thread of a handler."""
        threads = []
        worker, client = self.serve({"s": lambda job: threads.append(threading.get_ident()) or job.body}, capacity=1), self.connect()
        client.submit("s", b"a")
        for _ in range(3):
            harness.wait_until(lambda: worker._busy == 0, "a thread whose handler is over")
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threads[-1]), ctypes.py_object(TimeoutError))
            answer = client.submit("s", b"b", timeout=harness.PATIENCE)
            self.assertEqual((answer.body, answer.attempts), (b"b", 1))

    def test_a_job_that_gets_no_thread_is_handed_back_and_its_place_with_it(self):
        real, refused = threading.Thread.start, []

        def start(thread):
            if thread.name == "lanemq-handler-2":
                refused.append(thread)
                raise RuntimeError("can't start new thread")
            real(thread)

        held = Held()
        with mock.patch.object(threading.Thread, "start", start):
            self.serve({"held": held}, capacity=4)
            client = self.connect()
            client.leave("held", id="a")
            harness.wait_until(lambda: held.came, "the first call")
            client.leave("held", id="b")
            harness.wait_until(lambda: refused, "a job without a thread")
            # It has nowhere else to go.
            harness.wait_until(lambda: client.status("b").state == "queued", "the job, back in its lane")
            self.serve({"held": shout}, capacity=1)
            self.assertEqual(client.fetch("b").attempts, 1)
            held.go.set()
            self.assertEqual(client.fetch("a").attempts, 1)
        self.assertEqual(self.room.stats()["workers"]["lost"], 0)


class Stdout(SdkCase):
    def test_a_worker_whose_stdout_nobody_reads_goes_on(self):
        for closes in (False, True):
            with self.subTest(closes=closes):
                reader, writer = os.pipe()
                os.close(reader)
                program = textwrap.dedent(f"""
                    import sys
                    from lanemq import Worker
                    if {closes}:
                        sys.stdout.close()
                    Worker({{"shout": lambda job: job.text.upper()}}, drain_timeout=1).run()
                """)
                worker = subprocess.Popen([sys.executable, "-B", "-c", program], stdout=writer, stderr=subprocess.PIPE, text=True, env={
                    **os.environ, "PYTHONPATH": PACKAGE, "LANEMQ_WORKER_BROKER": self.room.broker.workers})
                os.close(writer)
                self.addCleanup(worker.kill)
                self.assertEqual(self.connect().submit("shout", "a", timeout=harness.PATIENCE).text, "A")
                worker.send_signal(signal.SIGTERM)
                self.assertEqual((worker.communicate(timeout=harness.PATIENCE)[1], worker.returncode), ("", 0))


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
