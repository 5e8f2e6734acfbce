# SPDX-License-Identifier: Apache-2.0
"""The Python package of client/python against the real broker, with workers of its own and with lanemq-worker.

LANEMQ_TEST_PROMPTS names a file with a JSON object in each line, whose `question`s Killed then asks instead of its own."""

import asyncio
import collections
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import urllib.request

import harness
import zmq
from msgpack import packb, unpackb
from proxy import Proxy
from shards_stage import Shards

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../client/python")
sys.path.insert(0, PACKAGE)
import lanemq  # noqa: E402
from lanemq import Client, Worker  # noqa: E402

LATE_S = harness.PATIENCE / 2  # by which an answer is on its way to a worker, and on to the broker, on a machine that has little time
CANCELLED_WITHIN = harness.PATIENCE  # from Ctrl-C until the broker has no job of it any more; uncancelled they would stay for minutes


def shout(job):
    return job.text.upper()


class SdkCase(harness.Case):
    def connect(self, **arguments):
        client = Client(arguments.pop("broker", None) or self.room.broker.clients, **arguments)
        self.addCleanup(client.close)
        return client

    def serve(self, services, wait=True, **arguments):
        worker = Worker(services, broker=arguments.pop("broker", None) or self.room.broker.workers,
                        **{"capacity": 4, "drain_timeout": 0.1, **arguments})
        worker.start()
        self.addCleanup(worker.wait, harness.PATIENCE)
        self.addCleanup(worker.leave)
        if wait:
            self.assertTrue(worker._welcomed.wait(harness.PATIENCE))
        return worker

    def script(self, text, *arguments):
        """A program that uses the package, in a process of its own."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        path = os.path.join(folder, "program.py")
        with open(path, "w") as file:
            file.write(textwrap.dedent(text))
        environment = {**os.environ, "PYTHONPATH": PACKAGE, "PYTHONDONTWRITEBYTECODE": "1",
                       "LANEMQ_BROKER": self.room.broker.clients, "LANEMQ_WORKER_BROKER": self.room.broker.workers}
        return self.room.start(harness.Process(sys.executable, path, *arguments, env=environment))

    def running(self, count, lane="normal"):
        self.room.stats_when(lambda stats: stats["lanes"][lane]["running"] == count, f"{count} running jobs")

    def jobs(self):
        """What `lanemq jobs` lists."""
        done = subprocess.run([harness.program("lanemq"), "--admin", self.room.broker.admin, "jobs", "--json"], check=True,
                              stdout=subprocess.PIPE, timeout=harness.PATIENCE)
        return json.loads(done.stdout)["jobs"]

    def no_jobs_within(self, seconds):
        harness.wait_until(lambda: not self.jobs(), "an empty list of jobs", patience=seconds)


class Held:
    """A handler whose calls wait until they are released; it tells who came, and who was cancelled."""

    def __init__(self):
        self.came, self.cancelled = [], []
        self.go = threading.Event()

    def __call__(self, job):
        self.came.append(job.id)
        while not self.go.wait(0.01):
            if job.cancelled:
                self.cancelled.append(job.id)
                break
        return job.body


class Methods(SdkCase):
    def test_a_job_is_answered_with_what_the_worker_says_of_it(self):
        self.serve({"shout": lambda job: lanemq.Result(job.text.upper(), usage={"input_tokens": 3})})
        client = self.connect()

        answer = client.submit("shout", "hello", id="first", lane="critical", model="m", client="me",
                               cost={"input_tokens": 1, "output_tokens": 2}, timeout=60, retain=60)

        self.assertEqual((answer.text, answer.id, answer.lane, answer.attempts), ("HELLO", "first", "critical", 1))
        self.assertEqual(dict(answer.usage), {"input_tokens": 3})
        self.assertEqual(client.submit("shout", {"a": 1}).json(), {"A": 1})

    def test_a_handler_gets_what_the_client_said(self):
        calls = []
        self.serve({"a": calls.append, "b": calls.append})

        self.connect().submit("b", b"\x00body", id="i", lane="low", model="m", client="c", timeout=60, meta={"k": [1, 2.5, None]},
                              trace="t", cost={"input_tokens": 7}, extra={"x-tag": "y"})

        call = calls[0]
        self.assertEqual((call.service, call.body, call.id, call.lane, call.model, call.client, call.attempt, call.stream),
                         ("b", b"\x00body", "i", "low", "m", "c", 1, False))
        self.assertEqual((call.meta, call.trace, dict(call.cost), dict(call.extra)),
                         ({"k": [1, 2.5, None]}, "t", {"input_tokens": 7}, {"x-tag": "y"}))
        self.assertTrue(50 < call.time_left <= 60)

    def test_a_job_is_left_and_fetched_by_another_client(self):
        held = Held()
        self.serve({"held": held})
        accepted = self.connect().leave("held", "x", id="left")
        self.assertEqual((accepted.id, accepted.duplicate), ("left", False))
        other = self.connect()

        with self.assertRaises(lanemq.NotOverError) as early:
            other.fetch("left", wait=0.05)
        self.assertIn(early.exception.state, ("queued", "running"))
        held.go.set()

        self.assertEqual(other.fetch("left").body, b"x")
        self.assertEqual(other.status("left").state, "succeeded")

    def test_many_threads_share_a_client(self):
        self.serve({"shout": shout}, capacity=32)
        client, answers = self.connect(), {}

        def ask(number):
            answers[number] = client.submit("shout", f"a{number}").text

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(harness.PATIENCE)
        self.assertEqual(answers, {number: f"A{number}" for number in range(100)})

    def test_map_is_in_order_or_as_answers_come(self):
        gate = threading.Event()

        def first_waits(job):
            if job.body == b"0":
                gate.wait(harness.PATIENCE)
            return job.body

        self.serve({"s": first_waits}, capacity=8)
        client, bodies = self.connect(), [b"%d" % number for number in range(500)]

        came = []
        for answer in client.map("s", bodies, ordered=False, window=8, progress=False):
            came.append(answer.index)
            if len(came) == 499:
                gate.set()
        self.assertEqual((came[-1], sorted(came)), (0, list(range(500))))
        self.assertEqual([answer.body for answer in client.map("s", iter(bodies), progress=False)], bodies)

    def test_map_takes_items_with_ids_and_options_of_their_own(self):
        self.serve({"s": lambda job: f"{job.lane} {job.id} {job.model}"}, capacity=8)
        items = [lanemq.Job("a", id="one", lane="high"), b"b", lanemq.Job("c", model="m")]

        answers = list(self.connect().map("s", items, lane="low", progress=False))

        self.assertEqual(answers[0].text, "high one None")
        self.assertRegex(answers[1].text, "low [0-9a-f]{32} None")
        self.assertRegex(answers[2].text, "low [0-9a-f]{32} m")

    def test_map_returns_errors_or_raises_the_first_and_cancels_the_rest(self):
        held = Held()

        def some_fail(job):
            if job.body == b"bad":
                raise lanemq.Permanent("no")
            return held(job) if job.body == b"slow" else job.body

        self.serve({"s": some_fail}, capacity=8)
        client = self.connect()

        outcomes = list(client.map("s", [b"a", b"bad", b"c"], errors="return", progress=False))
        self.assertEqual([type(outcome) for outcome in outcomes], [lanemq.Answer, lanemq.UpstreamRejectedError, lanemq.Answer])
        self.assertEqual(outcomes[1].index, 1)
        with self.assertRaises(lanemq.UpstreamRejectedError):
            list(client.map("s", [b"slow", b"slow", b"bad"], progress=False))
        self.no_jobs_within(CANCELLED_WITHIN)

    def test_a_stream_is_read_piece_by_piece_beyond_a_window(self):
        def count(job):
            for number in range(1000):
                job.chunk(b"%d" % number)
            return lanemq.Result(b"end", usage={"output_tokens": 1000})

        self.serve({"count": count})
        client = self.connect()
        stream = client.stream("count", id="counted")

        self.assertEqual(list(stream), [b"%d" % number for number in range(1000)])
        self.assertEqual((stream.answer.body, stream.answer.chunks), (b"end", 1000))
        self.assertEqual(b"".join(client.follow("counted", first=998)), b"998999")

    def test_a_slow_reader_holds_its_worker_back(self):
        sent = []

        def endless(job):
            while True:
                job.chunk(b"x" * 1000)
                sent.append(None)

        self.serve({"endless": endless})
        stream = self.connect().stream("endless")
        self.assertEqual(next(stream), b"x" * 1000)
        harness.wait_until(lambda: len(sent) >= 64, "a full window")
        self.assertLessEqual(len(sent), 2 * 64 + 2)  # one window at the worker, one at most between broker and reader
        stream.close()
        self.no_jobs_within(CANCELLED_WITHIN)

    def test_cancel_reaches_the_handler(self):
        held = Held()
        self.serve({"held": held})
        client = self.connect()
        client.leave("held", id="doomed")
        harness.wait_until(lambda: held.came, "the call")

        self.assertEqual(client.cancel("doomed").state, "cancelled")
        harness.wait_until(lambda: held.cancelled == ["doomed"], "the cancel at the handler")
        with self.assertRaises(lanemq.CancelledError):
            client.fetch("doomed")
        self.assertEqual(client.status("nobody").state, "unknown")

    def test_a_handler_says_how_far_it_is(self):
        said, go = threading.Event(), threading.Event()

        def works(job):
            for pct in range(1000):
                job.progress(pct / 10, "å" * 200)
            job.progress(42.7, "half way")
            for pct, note in (("50", b"bytes"), (float("nan"), 5), (True, "\ud800"), (10 ** 400, ["list"])):
                job.progress(pct, note)  # a word that is wrong is no reason to do the work again
            job.progress(42.7, "half way")
            said.set()
            go.wait(harness.PATIENCE)
            return b"done"

        self.serve({"works": works})
        client = self.connect()
        client.leave("works", id="long")
        self.assertTrue(said.wait(harness.PATIENCE))

        harness.wait_until(lambda: client.status("long").note == "half way", "the last word")
        status = client.status("long")
        self.assertEqual((status.state, status.pct), ("running", 42))
        self.assertLess(status.silent, harness.PATIENCE)
        self.assertLess(self.room.stats()["counters"]["progress_in"], 100)
        go.set()
        self.assertEqual(client.fetch("long").body, b"done")
        self.assertEqual((client.status("long").pct, client.status("long").note, client.status("long").silent), (None, "", None))

    def test_explain_says_what_lanemq_explain_says(self):
        held = Held()
        self.serve({"held": held}, capacity=1)
        client = self.connect()
        self.serve({"urgent": Held()}, lanes=["high"], name="urgent")
        for name, service in (("nobody's", "nobody"), ("runs", "held"), ("no lane", "urgent")):
            client.leave(service, id=name)
        harness.wait_until(lambda: held.came, "the call")
        client.leave("held", id="waits", lane="low")
        client.leave("held", id="later", delay=3600)
        client.leave("held", id="doomed")
        client.cancel("doomed")
        self.room.operator().ask("admin", {"do": "drain", "name": "urgent"})
        client.leave("urgent", id="drains", lane="high")
        for name in ("nobody's", "no lane", "drains", "runs", "waits", "doomed", "unknown"):
            with self.subTest(name):
                said = subprocess.run([harness.program("lanemq"), "--broker", self.room.broker.clients, "explain", name],
                                      stdout=subprocess.PIPE, text=True, timeout=harness.PATIENCE).stdout
                self.assertEqual(str(client.explain(name)).strip(), said.strip())
        self.assertIn("delay", client.explain("later").what)
        self.assertIn('no worker serves "urgent" in lane "high" (all that do drain)', client.explain("drains").what)
        held.go.set()

    def test_ping(self):
        pong = self.connect().ping()
        self.assertRegex(pong.version, r"\d+\.\d+")
        self.assertLess(abs(pong.broker_time - time.time()), 5)


class Errors(SdkCase):
    arguments = (*harness.STEADY, "--set", "lane.low.depth_max=1")

    def test_refusals_are_classes(self):
        client = self.connect()
        with self.assertRaisesRegex(lanemq.BadRequestError, "normal"):
            client.submit("s", lane="nowhere")
        with self.assertRaises(lanemq.NotFoundError):
            client.fetch("nobody's")
        client.leave("s", "a", id="taken")
        with self.assertRaises(lanemq.ConflictError) as conflict:
            client.submit("s", "b", id="taken")
        self.assertEqual((conflict.exception.code, conflict.exception.id, conflict.exception.http_status), ("conflict", "taken", 409))
        with self.assertRaises(TimeoutError) as late:
            client.submit("s", timeout=0.05)
        self.assertIsInstance(late.exception, lanemq.DeadlineError)
        self.assertFalse(late.exception.local)

    def test_a_full_lane_raises_or_waits(self):
        held = Held()
        self.serve({"held": held, "shout": shout}, capacity=1)
        client = self.connect()
        begun = time.monotonic()
        while time.monotonic() < begun + 1.5:  # so that the broker knows how fast the lane empties, and does not say 30 s
            client.submit("shout", lane="low")
        client.leave("held", lane="low", id="runs")
        harness.wait_until(lambda: held.came, "the call")
        client.leave("held", lane="low", id="waits")

        with self.assertRaises(lanemq.LaneFullError) as full:
            client.submit("held", lane="low", when_full="raise")
        self.assertGreater(full.exception.retry_after, 0)
        self.assertEqual(full.exception.limiter, "lane.low.depth_max")
        threading.Timer(0.3, held.go.set).start()
        self.assertEqual(client.submit("held", b"third", lane="low").body, b"third")
        self.assertGreater(client.counters["resent"], 0)

    def test_what_no_message_can_say_ends_its_job_alone(self):
        class Silent(Exception):
            def __str__(self):
                raise RuntimeError

        def says(job):
            if job.text == "fraction":
                return lanemq.Result(b"x", usage={"input_tokens": 0.5})
            if job.text == "number":
                return 5
            if job.text == "surrogate":
                raise FileNotFoundError("caf\udce9")
            if job.text == "silent":
                raise Silent()
            return job.body

        self.serve({"s": says}, capacity=1)
        client = self.connect()

        for text in ("fraction", "number", "surrogate", "silent"):
            with self.subTest(text), self.assertLogs("lanemq.worker", "ERROR"), self.assertRaises(lanemq.LaneMQError) as caught:
                client.submit("s", text, attempts_max=1)
            self.assertIn("bad_outcome: ", caught.exception.message)
        self.assertEqual(client.submit("s", "plain").body, b"plain")

    def test_a_handler_s_exceptions_are_the_classes_of_the_protocol(self):
        attempts = collections.Counter()

        def fails(job):
            attempts[job.text] += 1
            if job.text == "retry" and attempts["retry"] == 1:
                raise lanemq.Retry("again", retry_after=0.01)
            if job.text == "limited" and attempts["limited"] == 1:
                raise lanemq.Limited("slowly", retry_after=0.1)
            if job.text == "released" and attempts["released"] == 1:
                raise lanemq.Released("not now")
            if job.text == "permanent":
                raise lanemq.Permanent("bad prompt", code="policy", body=b"why", upstream_status=422)
            if job.text == "bug":
                raise KeyError("a mistake")
            return f"{job.text} {job.attempt}"

        self.serve({"s": fails})
        client = self.connect()
        for name in ("retry", "limited", "released"):
            self.assertEqual(client.submit("s", name).text, f"{name} 2")
        self.assertEqual(client.submit("s", "limited").attempts, 1)
        with self.assertRaisesRegex(lanemq.UpstreamRejectedError, "policy: bad prompt") as failed:
            client.submit("s", "permanent")
        self.assertEqual((failed.exception.body, failed.exception.upstream_status), (b"why", 422))
        with self.assertLogs("lanemq.worker", "ERROR"), self.assertRaisesRegex(lanemq.UpstreamFailedError, "KeyError"):
            client.submit("s", "bug", attempts_max=2)
        self.assertEqual(attempts["bug"], 2)

    def test_what_no_job_can_be_is_refused_before_it_is_sent(self):
        client = self.connect(pending_max=2)
        for options, fault in (({"lane": ""}, "lane has 0 bytes"), ({"timeout": -1}, "timeout is -1"), ({"meta": {1: 2}}, "keys are text"),
                               ({"extra": {"tag": 1}}, "begin with x-"), ({"when_full": "maybe"}, "when_full is one of"),
                               ({"meta": "x" * 20000}, "header_bytes_max"), ({"id": "x" * 129}, "129 bytes")):
            with self.subTest(options), self.assertRaisesRegex(ValueError, fault):
                client.submit("s", **options)
        for options in ({"colour": "red"}, {"durable": 1}, {"body": 3}):
            with self.subTest(options), self.assertRaises(TypeError):
                client.submit("s", **options)
        with self.assertRaises(lanemq.TooLargeError):
            client.submit("s", b"x" * (64 * 1024 * 1024 + 1))
        with self.assertRaisesRegex(ValueError, "no endpoint"):
            Client("nowhere")
        with self.assertRaisesRegex(ValueError, "needs both"):
            Client(broker_key="x" * 40)
        self.assertEqual(client.counters["sent"], 0)

    def test_a_client_that_is_full_raises_or_waits(self):
        held = Held()
        self.serve({"held": held}, capacity=4)
        client = self.connect(pending_max=2)
        threads = [threading.Thread(target=client.submit, args=("held",)) for _ in range(3)]
        for thread in threads:
            thread.start()
        harness.wait_until(lambda: len(held.came) == 2, "two calls")
        with self.assertRaisesRegex(lanemq.ClientFullError, "pending_max"):
            client.submit("held", when_full="raise")
        held.go.set()
        for thread in threads:
            thread.join(harness.PATIENCE)
        self.assertEqual(len(held.came), 3)

    def test_a_worker_that_names_an_unknown_lane_ends_with_the_reason(self):
        worker = Worker({"s": shout}, broker=self.room.broker.workers, lanes=["nowhere"])
        worker.start()
        with self.assertRaisesRegex(lanemq.WorkerRefusedError, "nowhere"):
            worker.wait(harness.PATIENCE)

    def test_a_client_that_is_closed_ends_what_waits(self):
        self.serve({"held": Held()}, capacity=1)
        client, ends = self.connect(), []

        def ask():
            try:
                client.submit("held")
            except lanemq.LaneMQError as error:
                ends.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        self.running(1)
        client.close()
        thread.join(harness.PATIENCE)
        self.assertEqual([(error.code, error.local) for error in ends], [("cancelled", True)])
        self.no_jobs_within(CANCELLED_WITHIN)
        with self.assertRaises(lanemq.CancelledError):
            client.submit("held")


class Asyncio(SdkCase):
    def run_with(self, use):
        async def main():
            async with lanemq.AsyncClient(self.room.broker.clients) as client:
                return await asyncio.wait_for(use(client), harness.PATIENCE)

        return asyncio.run(main())

    def test_each_method(self):
        def handler(job):
            if job.stream:
                for word in job.text.split():
                    job.chunk(word)
                return None
            if job.text == "bad":
                raise lanemq.Permanent("no")
            return job.text.upper()

        self.serve({"s": handler}, capacity=16)

        async def use(client):
            answers = await asyncio.gather(*(client.submit("s", f"a{number}") for number in range(200)))
            self.assertEqual([answer.text for answer in answers], [f"A{number}" for number in range(200)])
            self.assertEqual([answer.text async for answer in client.map("s", ["x", "y"], progress=False)], ["X", "Y"])
            stream = client.stream("s", "one two three", id="words")
            self.assertEqual([piece async for piece in stream], [b"one", b"two", b"three"])
            self.assertEqual(stream.answer.chunks, 3)
            self.assertEqual([piece async for piece in client.follow("words", first=2)], [b"three"])
            await client.leave("s", "left", id="left")
            self.assertEqual((await client.fetch("left")).text, "LEFT")
            self.assertEqual((await client.status("left")).state, "succeeded")
            self.assertIn("has succeeded", (await client.explain("left")).what)
            self.assertEqual((await client.cancel("left")).state, "succeeded")
            self.assertGreater((await client.ping()).round_trip, 0)
            with self.assertRaises(lanemq.UpstreamRejectedError):
                await client.submit("s", "bad")

        self.run_with(use)

    def test_a_task_that_is_cancelled_cancels_its_job(self):
        held = Held()
        self.serve({"held": held}, capacity=8)

        async def use(client):
            when = lambda count: asyncio.to_thread(harness.wait_until, lambda: len(held.came) == count, f"{count} calls")
            one = asyncio.create_task(client.submit("held", id="one"))
            await when(1)
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(one, 0)
            task = asyncio.create_task(self.drained(client.map("held", [b"a", b"b", b"c"], progress=False)))
            await when(4)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self.run_with(use)
        self.no_jobs_within(CANCELLED_WITHIN)
        harness.wait_until(lambda: len(held.cancelled) == 4, "the cancels at the handlers")

    @staticmethod
    async def drained(answers):
        return [answer async for answer in answers]

    def test_many_wait_for_room_without_holding_the_loop(self):
        self.serve({"s": shout}, capacity=16)

        async def main():
            async with lanemq.AsyncClient(self.room.broker.clients, pending_max=4) as client:
                return await asyncio.wait_for(asyncio.gather(*(client.submit("s", f"a{n}") for n in range(100))), harness.PATIENCE)

        self.assertEqual([answer.text for answer in asyncio.run(main())], [f"A{n}" for n in range(100)])


class Watches(SdkCase):
    def test_a_watch_tells_what_becomes_of_jobs(self):
        self.serve({"shout": shout})
        client = self.connect()
        with client.watch(client="me") as events:
            self.assertEqual(next(events).what, "watching")
            client.submit("shout", "x", id="mine", client="me")
            client.submit("shout", "x", id="other", client="them")
            seen = [next(events) for _ in range(3)]
            self.assertEqual([(event.what, event.id, event.seq) for event in seen], [("accepted", "mine", 0), ("started", "mine", 1), ("ended", "mine", 2)])
            self.assertEqual((seen[2].state, seen[2].client, seen[2].attempts, seen[2].over), ("succeeded", "me", 1, True))
            self.assertAlmostEqual(seen[2].at, time.time(), delta=60)
        self.assertEqual(list(events), [])
        client.ping()  # behind the watch's end
        sent = self.room.stats()["counters"]["events_out"]
        self.assertEqual(client.submit("shout", "y", client="me").text, "Y")
        self.assertEqual((sent, self.room.stats()["counters"]["events_out"]), (3, 3))

    def test_close_ends_who_waits(self):
        client = self.connect()
        events = client.watch(client="nobody")
        self.assertEqual(next(events).what, "watching")
        readers = [threading.Thread(target=list, args=(events,), daemon=True) for _ in range(2)]
        for reader in readers:
            reader.start()
        events.close()
        for reader in readers:
            reader.join(harness.PATIENCE)
        self.assertEqual([reader.is_alive() for reader in readers], [False, False])

    def test_aclose_ends_who_waits(self):
        async def follow():
            async with lanemq.AsyncClient(self.room.broker.clients) as client:
                events = client.watch(client="nobody")
                self.assertEqual((await anext(events)).what, "watching")

                begun = asyncio.Event()

                async def read():
                    begun.set()  # and waits, before anybody else has a turn
                    return [event async for event in events]
                reader = asyncio.create_task(read())
                await begun.wait()
                await events.aclose()
                return await asyncio.wait_for(reader, harness.PATIENCE)
        self.assertEqual(asyncio.run(follow()), [])

    def test_a_reader_that_takes_is_told_all_and_one_that_waits_what_it_missed(self):
        self.serve({"shout": shout}, capacity=64)
        client, slow = self.connect(), self.connect().watch()
        self.assertEqual(next(slow).what, "watching")
        ended, ready = [], threading.Event()

        def read():
            for event in client.watch(service="shout"):
                ready.set()
                if event.over:
                    ended.append(event.id)
                if event.gap or len(ended) == 1500:
                    return

        thread = threading.Thread(target=read)
        thread.start()
        self.assertTrue(ready.wait(harness.PATIENCE))
        ids = [answer.id for answer in client.map("shout", ["x"] * 1500, window=32, progress=False)]
        thread.join(3 * harness.PATIENCE)
        self.assertEqual(sorted(ended), sorted(ids))
        over, told, missed = threading.Event(), 0, 0

        def go_on():
            while not over.wait(0.5):
                client.submit("shout", "x")  # what comes behind a gap tells of it

        more = threading.Thread(target=go_on)
        more.start()
        self.addCleanup(more.join)
        self.addCleanup(over.set)
        while told + missed < 4500:
            event = next(slow)
            told, missed = told + 1, missed + event.left_out
        self.assertGreater(missed, 1500)

    def test_a_group_is_over(self):
        self.serve({"shout": shout})
        client = self.connect()
        with client.watch(group="g") as events:
            self.assertEqual(next(events).what, "watching")
            client.submit("shout", "x", group="g")
            client.submit("shout", "x", group="h")
            seen = [next(events) for _ in range(4)]
        self.assertEqual([(event.what, event.group) for event in seen], [(what, "g") for what in ("accepted", "started", "ended", "group_over")])
        self.assertEqual((seen[3].succeeded, seen[3].failed, seen[3].cancelled, seen[3].expired), (1, 0, 0, 0))

    def test_refusals_are_errors_and_a_closed_client_ends_it(self):
        client = self.connect()
        with self.assertRaises(lanemq.BadRequestError):
            next(client.watch(lane="nowhere"))
        for wrong, error in (({"id": ""}, ValueError), ({"lane": 7}, TypeError)):
            with self.assertRaises(error):
                client.watch(**wrong)
        events = client.watch()
        self.assertEqual(next(events).what, "watching")
        client.close()
        with self.assertRaises(lanemq.CancelledError):
            next(events)

    def test_ctrl_c_ends_it(self):
        program = self.script("""
            from lanemq import Client
            with Client() as client:
                try:
                    for event in client.watch():
                        print(event.what, flush=True)
                except KeyboardInterrupt:
                    print(client.ping().version, flush=True)
            """)
        self.assertEqual(program.line(), "watching")
        program.signal(signal.SIGINT)
        self.assertTrue(program.line())
        self.assertEqual(program.wait(), 0)

    def test_asyncio(self):
        self.serve({"shout": shout})

        async def main():
            async with lanemq.AsyncClient(self.room.broker.clients) as client:
                async with client.watch(id="a") as events:
                    self.assertEqual((await anext(events)).what, "watching")
                    await client.submit("shout", "x", id="a")
                    self.assertEqual([(await anext(events)).what for _ in range(3)], ["accepted", "started", "ended"])
                    with self.assertRaises(asyncio.TimeoutError):
                        await asyncio.wait_for(anext(events), 0.2)
                with self.assertRaises(StopAsyncIteration):
                    await anext(events)

        asyncio.run(asyncio.wait_for(main(), harness.PATIENCE))


class Interrupted(SdkCase):
    MAP = """
        import sys
        from lanemq import Client
        client = Client()
        print("begins", flush=True)
        for answer in client.map("held", (str(n) for n in range(1000)), window=64, progress=False):
            pass
    """

    def interrupt(self, text):
        held = Held()
        self.serve({"held": held}, capacity=8)
        program = self.script(text)
        self.assertEqual(program.line(), "begins")
        self.running(8)
        self.assertGreaterEqual(len(self.jobs()), 8)
        harness.wait_until(lambda: len(held.came) == 8, "the jobs at the handlers")
        begun = time.monotonic()
        program.signal(signal.SIGINT)
        self.no_jobs_within(CANCELLED_WITHIN)
        self.assertLess(time.monotonic() - begun, CANCELLED_WITHIN)
        self.assertEqual(program.wait(), -signal.SIGINT)
        self.assertIn("KeyboardInterrupt", program.stderr())
        # In the place of one that was cancelled another may have begun before its own cancel came.
        harness.wait_until(lambda: sorted(held.cancelled) == sorted(held.came), "the cancels at the handlers")

    def test_ctrl_c_in_a_map(self):
        self.interrupt(self.MAP)

    def test_ctrl_c_in_threads_that_submit(self):
        self.interrupt("""
            from concurrent.futures import ThreadPoolExecutor
            from lanemq import Client
            with Client() as client, ThreadPoolExecutor(16) as pool:
                print("begins", flush=True)
                try:
                    list(pool.map(lambda n: client.submit("held"), range(16)))
                except KeyboardInterrupt:
                    client.close()
                    raise
        """)

    def test_ctrl_c_in_asyncio(self):
        self.interrupt("""
            import asyncio
            from lanemq import AsyncClient
            async def main():
                async with AsyncClient() as client:
                    print("begins", flush=True)
                    await asyncio.gather(*(client.submit("held") for _ in range(16)))
            asyncio.run(main())
        """)

    def test_sigterm_ends_it_without_a_word(self):
        self.serve({"held": (held := Held())}, capacity=8)
        self.addCleanup(held.go.set)
        program = self.script(self.MAP)
        program.line()
        self.running(8)
        program.signal(signal.SIGTERM)
        self.assertEqual(program.wait(), -signal.SIGTERM)
        self.assertGreaterEqual(len(self.jobs()), 8)

    def test_sigterm_cancels_where_the_program_ends_by_it(self):
        submit = """
            from lanemq import Client
            with Client() as client:
                print("begins", flush=True)
                client.submit("held")
        """
        together = """
            import asyncio
            from lanemq import AsyncClient
            async def main():
                async with AsyncClient() as client:
                    print("begins", flush=True)
                    await asyncio.gather(*(client.submit("held") for _ in range(8)))
            asyncio.run(main())
        """
        self.serve({"held": Held()}, capacity=8)
        for text in (self.MAP, submit, together):
            with self.subTest(text):
                program = self.script("import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n" + textwrap.dedent(text))
                self.assertEqual(program.line(), "begins")
                harness.wait_until(self.jobs, "a job")
                program.signal(signal.SIGTERM)
                self.assertEqual(program.wait(), 143)
                self.no_jobs_within(CANCELLED_WITHIN)

    def test_a_program_that_ends_cancels_what_it_has_open(self):
        held = Held()
        self.serve({"s": lambda job: job.body if job.body == b"0" else held(job)}, capacity=8)
        program = self.script("""
            from lanemq import Client
            client = Client()
            stream = client.stream("s", "x", id="stream")
            answers = client.map("s", (str(n) for n in range(100)), progress=False)
            print(next(answers).text, flush=True)
        """)
        self.assertEqual(program.line(), "0")
        begun = time.monotonic()
        self.assertEqual(program.wait(), 0)
        self.assertLess(time.monotonic() - begun, harness.PATIENCE / 2)
        self.assertEqual(self.connect().status("stream").state, "cancelled")
        self.assertEqual(self.jobs(), [])

    def test_what_was_left_goes_on(self):
        held = Held()
        self.serve({"held": held}, capacity=8)
        program = self.script("""
            from lanemq import Client
            client = Client()
            client.leave("held", id="left")
            print("begins", flush=True)
            client.submit("held", id="submitted")
        """)
        self.assertEqual(program.line(), "begins")
        self.running(2)
        program.signal(signal.SIGINT)
        program.wait()
        client = self.connect()
        self.assertEqual(client.status("submitted").state, "cancelled")
        held.go.set()
        self.assertEqual(client.fetch("left").body, b"")

    def test_an_iterator_that_is_left_cancels_what_it_submitted(self):
        held = Held()
        self.serve({"s": lambda job: job.body if job.body == b"0" else held(job)}, capacity=8)
        client = self.connect()
        for answer in client.map("s", (b"%d" % number for number in range(100)), progress=False):
            break
        self.assertEqual(answer.body, b"0")
        self.no_jobs_within(CANCELLED_WITHIN)
        with client.stream("s", b"x"):
            self.running(1)
        self.no_jobs_within(CANCELLED_WITHIN)

    def test_a_client_that_is_killed_leaves_nothing_where_it_said_so(self):
        self.serve({"held": Held()}, capacity=8)
        program = self.script("""
            from lanemq import Client
            print("begins", flush=True)
            Client().submit("held", cancel_when_gone=True)
        """)
        self.assertEqual(program.line(), "begins")
        self.running(1)
        program.kill()
        self.no_jobs_within(CANCELLED_WITHIN + harness.PATIENCE)


class Workers(SdkCase):
    arguments = ("--set", "heartbeat=100ms")

    def test_a_handler_that_computes_keeps_its_session(self):
        self.script("""
            import time
            from lanemq import worker

            @worker("compute")
            def compute(job):
                end, number = time.monotonic() + 1.5, 0
                while time.monotonic() < end:
                    number += 1
                return "computed"

            compute.run()
        """)
        client = self.connect()
        self.assertEqual(client.submit("compute").text, "computed")
        self.assertEqual(client.submit("compute").attempts, 1)
        self.assertEqual(self.room.stats()["workers"]["lost"], 0)

    DRAINED = """
        import sys, time
        from lanemq import worker

        @worker("slow", capacity=2, drain_timeout=float(sys.argv[1]))
        def slow(job):
            print("begins", flush=True)
            job.wait_cancelled(float(job.text))
            return "cancelled" if job.cancelled else "finished"

        sys.exit(0 if slow.run() else 3)
    """

    def test_term_finishes_what_runs_and_ends_with_0(self):
        program = self.script(self.DRAINED, "20")
        self.assertRegex(program.line(), r"^ready name=\S+ services=slow capacity=2$")
        client = self.connect()
        for name in ("a", "b", "c"):
            client.leave("slow", "1", id=name)
        self.assertEqual([program.line(), program.line()], ["begins"] * 2)
        program.signal(signal.SIGTERM)
        self.assertEqual(program.wait(), 0)
        self.assertEqual([client.fetch(name).text for name in ("a", "b")], ["finished"] * 2)
        self.assertEqual(client.status("c").state, "queued")
        self.assertEqual(self.room.stats()["workers"]["lost"], 0)

    def test_what_does_not_finish_in_time_goes_to_others_at_no_cost(self):
        program = self.script(self.DRAINED, "0.2")
        program.line()
        client = self.connect()
        client.leave("slow", "60", id="a")
        self.assertEqual(program.line(), "begins")
        program.signal(signal.SIGTERM)
        self.assertEqual(program.wait(), 3)
        self.serve({"slow": lambda job: f"attempts {job.attempt}"})
        self.assertEqual(client.fetch("a").attempts, 1)

    def test_a_second_signal_ends_it_at_once(self):
        program = self.script(self.DRAINED, "60")
        program.line()
        self.connect().leave("slow", "60", id="a")
        self.assertEqual(program.line(), "begins")
        program.signal(signal.SIGTERM)
        self.room.stats_when(lambda stats: stats["workers"]["capacity"] == 1, "the drain")
        program.signal(signal.SIGTERM)
        self.assertEqual(program.wait(), 3)

    def test_an_operator_s_drain_and_resume(self):
        worker = self.serve({"s": shout}, name="drained")
        client, operator = self.connect(), self.room.operator()
        operator.ask("admin", {"do": "drain", "name": "drained"}, expect="admin")
        client.leave("s", "x", id="waits")
        self.assertEqual(client.status("waits").state, "queued")
        operator.ask("admin", {"do": "resume", "what": "worker", "name": "drained"}, expect="admin")
        self.assertEqual(client.fetch("waits").text, "X")
        self.assertEqual(worker._session.running, 0)

    def test_a_connection_that_is_cut_costs_no_attempt(self):
        proxy, held = Proxy(self.room.broker.workers), Held()
        self.addCleanup(proxy.close)
        self.serve({"held": held}, broker=proxy.endpoint)
        client = self.connect()
        client.leave("held", b"x", id="a")
        harness.wait_until(lambda: held.came, "the call")
        for cut in range(3):
            proxy.cut()
            self.room.stats_when(lambda stats: stats["counters"]["workers_returned"] > cut, "the worker's return")
        held.go.set()
        answer = client.fetch("a")
        self.assertEqual((answer.body, answer.attempts, held.came), (b"x", 1, ["a"]))

    def test_a_client_whose_connection_is_cut_asks_again(self):
        proxy, held = Proxy(self.room.broker.clients), Held()
        self.addCleanup(proxy.close)
        self.serve({"held": held})
        client = self.connect(broker=proxy.endpoint)
        threading.Timer(0.5, held.go.set).start()
        threading.Timer(0.2, proxy.cut).start()
        self.assertEqual(client.submit("held", b"x", id="a").body, b"x")
        self.assertEqual(held.came, ["a"])
        self.assertGreaterEqual(client.counters["reconnected"], 1)  # more on a machine that is too busy to answer in time


class SeveralBrokers(SdkCase):
    """Clients and workers that are given several endpoints."""

    def test_an_endpoint_at_which_nobody_listens_costs_no_time(self):
        other = harness.fixed_endpoints()
        self.serve({"shout": shout}, broker=[other["workers"], self.room.broker.workers])

        def took():
            client = self.connect(broker=f"{other['clients']}, {self.room.broker.clients}")
            began = time.monotonic()
            self.assertEqual(client.submit("shout", "a").text, "A")
            return time.monotonic() - began
        self.assertLess(min(took() for _ in range(5)), 0.9)  # a busy machine may hold up some, and the wait for a word would be a second

    def test_one_that_says_nothing_is_left_after_a_second(self):
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as mute:
            silent = f"tcp://127.0.0.1:{mute.getsockname()[1]}"
            self.serve({"shout": shout}, broker=[silent, self.room.broker.workers])
            client = self.connect(broker=[silent, self.room.broker.clients])
            began = time.monotonic()
            self.assertEqual(client.submit("shout", "a").text, "A")
            self.assertTrue(0.9 < time.monotonic() - began < harness.PATIENCE / 2)

    def test_another_broker_goes_on(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        store = ("--store", f"sqlite:{folder}/jobs.db", *harness.STEADY)
        first = self.room.start(harness.Broker(*store))
        second = harness.fixed_endpoints()
        held = Held()
        self.serve({"held": held}, broker=[first.workers, second["workers"]])
        client = self.connect(broker=[first.clients, second["clients"]])
        answers = []
        asks = threading.Thread(target=lambda: answers.append(client.submit("held", b"x", id="a", durable=True)), daemon=True)
        asks.start()
        harness.wait_until(lambda: held.came, "the call")
        first.kill()
        self.room.start(harness.Broker(*store, **second))
        held.go.set()
        asks.join(harness.PATIENCE)
        self.assertEqual([(answer.body, answer.attempts) for answer in answers], [(b"x", 1)])
        self.assertEqual(held.came, ["a"])

    def test_what_is_no_endpoint_is_said_at_once(self):
        here = self.room.broker.clients
        ports = [f"tcp://127.0.0.1:{port}" for port in range(1000, 1017)]
        for broker, why in ((f"{here},nowhere", "'nowhere' is no endpoint"), (f"{here},", "empty entry"), ([here, ""], "empty entry"),
                            (ports, "with 17 endpoints"), ([], "with 0 endpoints"), ("tcp://127.0.0.1:99999", "port"),
                            (f"{here},tcp://127.0.0.1:0", "port"), ("tcp://127.0.0.1", "port")):
            for connects in (lambda broker=broker: Client(broker), lambda broker=broker: Worker({"s": shout}, broker=broker)):
                with self.subTest(broker), self.assertRaisesRegex(ValueError, why):
                    connects()
        for broker in (5, [1], b"tcp://127.0.0.1:5570"):
            with self.subTest(broker), self.assertRaisesRegex(TypeError, "give 1 to 16 endpoints"):
                Client(broker)

    def test_a_client_without_room_is_none(self):
        for bound in ("pending_max", "pending_bytes_max"):
            with self.assertRaisesRegex(ValueError, bound):
                Client(**{bound: 0})

    def test_who_was_given_one_endpoint_goes_where_its_broker_says(self):
        self.serve({"shout": shout})
        asked, context = threading.Event(), zmq.Context()
        self.addCleanup(context.term)
        door = context.socket(zmq.ROUTER)
        port = door.bind_to_random_port("tcp://127.0.0.1")

        def refuse():
            """A broker that may not own its store any more."""
            with door:
                while not asked.is_set():
                    if not door.poll(50):
                        continue
                    peer, header, *_ = door.recv_multipart()
                    _, op, fields, *_ = unpackb(header)
                    if op == "submit":
                        refusal = {"ref": fields["ref"], "code": "not_owner", "retry_after_ms": 60_000, "endpoints": [self.room.broker.clients]}
                        door.send_multipart([peer, packb(["LMQ1", "error", refusal])])

        thread = threading.Thread(target=refuse)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(asked.set)
        client = self.connect(broker=f"tcp://127.0.0.1:{port}")
        self.assertEqual(client.submit("shout", "a", when_full="raise").text, "A")


class SeveralShards(SdkCase):
    """A client that is given the endpoint of one shard, and workers that serve one each."""

    arguments = None
    RULES = {"acme": 'match = { tenant = "acme*" }', "chat": 'match = { service = "chat" }', "rest": ""}

    def setUp(self):
        super().setUp()
        self.shards = Shards(self.room, self.RULES, '[clients.alice]\ntenant = "acme-eu"\n').start()
        self.addCleanup(self.shards.close)

    def at(self, name, **arguments):
        return self.connect(broker=self.shards.endpoints[name]["clients"], **arguments)

    def work(self, name):
        """A worker that says whose it is."""
        self.serve({"chat": lambda job: f"{name} {job.text}", "echo": lambda job: f"{name} {job.text}"},
                   broker=self.shards.endpoints[name]["workers"])

    def accepted(self, name):
        asker = self.shards.client(name)
        try:
            return sum(lane["accepted"] for lane in asker.ask("stats", expect="stats").fields["lanes"].values())
        finally:
            asker.close()

    def test_a_job_goes_to_its_shard(self):
        for name in self.RULES:
            self.work(name)
        client = self.at("rest")
        for _ in range(3):
            self.assertEqual(client.submit("chat", "a").text, "chat a")
            self.assertEqual(client.submit("echo", "b").text, "rest b")
            self.assertEqual(client.submit("chat", "c", client="alice").text, "acme c")
        self.assertEqual([self.accepted(name) for name in self.RULES], [3, 3, 3])
        moved = sum(sum(lane["sent_on"] for lane in self.shards.client(name).ask("stats", expect="stats").fields["lanes"].values())
                    for name in self.RULES)
        self.assertEqual(moved, 2, "each service is learned once")
        self.assertEqual([answer.text for answer in client.map("chat", map(str, range(50)))], [f"chat {n}" for n in range(50)])

    def test_what_is_asked_about_a_job_goes_where_it_is(self):
        first, other = self.at("rest"), self.at("acme")
        first.leave("chat", "x", id="left")
        for client in (first, other):
            self.assertEqual(client.status("left").state, "queued")
        self.assertEqual(other.status("nobodys").state, "unknown")
        with self.assertRaises(lanemq.NotFoundError):
            other.fetch("nobodys", wait=1)
        self.work("chat")
        self.assertEqual(self.at("acme").fetch("left").text, "chat x")
        first.leave("chat", "y", id="cancelled", delay=60)
        self.assertEqual(self.at("rest").cancel("cancelled").state, "cancelled")

    def test_a_pong_says_which_shards_there_are(self):
        pong = self.at("chat").ping()
        self.assertEqual((pong.shard, dict(pong.shards)), ("chat", {name: (self.shards.endpoints[name]["clients"],) for name in self.RULES}))

    def test_a_stream_goes_to_its_shard_and_is_followed_there(self):
        def speak(job):
            for word in ("a", "b"):
                job.chunk(word)
        self.serve({"chat": speak}, broker=self.shards.endpoints["chat"]["workers"])
        self.assertEqual(b"".join(self.at("rest").stream("chat", id="s")), b"ab")
        self.assertEqual(b"".join(self.at("acme").follow("s")), b"ab")

    def test_a_shard_that_is_away_is_waited_for_alone(self):
        self.work("rest")
        client = self.at("rest")
        client.leave("chat", "x", id="chats")
        self.shards.brokers["chat"].kill()
        self.assertEqual(client.submit("echo", "x").text, "rest x")
        client.leave("echo", "x", id="here")
        with self.assertRaises(lanemq.DeadlineError):
            self.at("acme").status("nobodys")
        self.assertIn(self.at("acme").status("here").state, ("queued", "running", "succeeded"))
        waits = threading.Thread(target=lambda: answers.append(client.submit("chat", "y").text), daemon=True)
        answers = []
        waits.start()
        self.shards.start("chat")
        self.work("chat")
        waits.join(harness.PATIENCE)
        self.assertEqual(answers, ["chat y"])

    def test_closing_cancels_at_all_shards(self):
        client = self.at("rest")
        threads = [threading.Thread(target=self.cancelled, args=(client, service), daemon=True) for service in ("chat", "echo")]
        for thread in threads:
            thread.start()
        harness.wait_until(lambda: self.accepted("chat") + self.accepted("rest") == 2, "both jobs")
        client.close()
        for thread in threads:
            thread.join(harness.PATIENCE)
            self.assertFalse(thread.is_alive())
        for name, service in (("chat", "chat"), ("rest", "echo")):
            here = self.shards.client(name)
            harness.wait_until(lambda here=here, service=service: here.status(f"of-{service}")["state"] == "cancelled", service)
            here.close()

    def cancelled(self, client, service):
        with self.assertRaises(lanemq.CancelledError):
            client.submit(service, "x", id=f"of-{service}")


class HomeShard(SdkCase):
    """A client that is given one endpoint of each shard stays with the shard that it found first, also while that is away."""

    arguments = None
    RULES = SeveralShards.RULES

    def setUp(self):
        super().setUp()
        self.shards = Shards(self.room, self.RULES, arguments=("--set", "heartbeat=10s")).start()
        self.addCleanup(self.shards.close)
        self.home = self.shards.brokers["rest"]

    def client(self):
        return self.connect(broker=[self.shards.endpoints[name]["clients"] for name in ("rest", "acme", "chat")])

    def told_that_it_is_away(self):
        """Hears what the package tells people, and waits until that is that it connects again since the broker says nothing: by then
        it would have gone to another one."""
        class Told(logging.Handler):
            heard = threading.Event()

            def emit(self, record):
                if "connecting again" in record.getMessage():
                    self.heard.set()
        told = Told()
        logging.getLogger("lanemq").addHandler(told)
        self.addCleanup(logging.getLogger("lanemq").removeHandler, told)
        return lambda: self.assertTrue(told.heard.wait(harness.PATIENCE), "that it has noticed")

    def in_background(self, act):
        """Runs it on a thread; its outcome comes into the list that is returned."""
        outcomes = []

        def run():
            try:
                outcomes.append(act())
            except Exception as error:
                outcomes.append(error)
        threading.Thread(target=run, daemon=True).start()
        return outcomes

    def wait_for(self, outcomes):
        harness.wait_until(lambda: outcomes, "an outcome")
        return outcomes[0]

    def stream(self, trouble):
        """What a stream's reader gets, whose broker has trouble in its midst."""
        more = threading.Event()

        def words(job):
            for number in range(40):
                job.chunk(b"%d " % number)
            more.wait(harness.PATIENCE)
            for number in range(40, 80):
                job.chunk(b"%d " % number)
        self.serve({"words": words}, broker=self.shards.endpoints["rest"]["workers"])
        client = self.client()
        stream = client.stream("words")
        read = [next(stream) for _ in range(40)]
        rest = self.in_background(lambda: list(stream))
        client.ping()  # behind what the broker is told of the pieces that were taken
        trouble()
        more.set()
        self.assertEqual(b"".join(read + self.wait_for(rest)), b"".join(b"%d " % number for number in range(80)))

    def test_a_stream_comes_whole_through_a_kill(self):
        def trouble():
            noticed = self.told_that_it_is_away()
            self.home.kill()
            noticed()
            self.shards.start("rest")
            operator = self.shards.operator("rest")
            harness.wait_until(lambda: operator.ask("stats", expect="stats").fields["workers"]["connected"] == 1, "the worker's return")
        self.stream(trouble)

    def test_a_stream_comes_whole_through_a_stop(self):
        def trouble():
            noticed = self.told_that_it_is_away()
            self.home.signal(signal.SIGSTOP)
            noticed()
            self.home.signal(signal.SIGCONT)
        self.stream(trouble)

    def test_a_watch_goes_on_at_the_shard(self):
        client = self.client()
        events = client.watch(service="echo")
        self.addCleanup(events.close)
        self.assertEqual(next(events).what, "watching")
        again = self.in_background(lambda: next(events))
        noticed = self.told_that_it_is_away()
        self.home.kill()
        noticed()
        self.assertEqual(again, [], "no other shard is watched instead")
        self.shards.start("rest")
        self.assertEqual((self.wait_for(again).what, again[0].gap), ("watching", True))
        self.at_rest().leave("echo", "x", id="seen")
        event = self.wait_for(self.in_background(lambda: next(events)))
        self.assertEqual((event.what, event.id), ("accepted", "seen"))

    def at_rest(self):
        return self.connect(broker=self.shards.endpoints["rest"]["clients"])

    def test_who_waits_for_the_end_of_a_job_waits_for_its_shard(self):
        self.at_rest().leave("echo", "x", id="left", durable=True)
        self.at_rest().leave("echo", "x", id="streamed", durable=True, stream=True)
        client = self.client()
        client.leave("chat", "x")  # so that it knows of another shard
        noticed = self.told_that_it_is_away()
        self.home.kill()
        fetched = self.in_background(lambda: client.fetch("left").text)
        followed = self.in_background(lambda: b"".join(client.follow("streamed")))
        with self.assertRaisesRegex(lanemq.DeadlineError, "no answer from shard 'rest' within 5 s"):
            client.status("left")
        noticed()
        self.assertEqual((fetched, followed), ([], []))
        self.shards.start("rest")

        def speak(job):
            if job.stream:
                job.chunk(b"streamed")
                return None
            return job.body
        self.serve({"echo": speak}, broker=self.shards.endpoints["rest"]["workers"])
        self.assertEqual((self.wait_for(fetched), self.wait_for(followed)), ("x", b"streamed"))


class RestartCase(SdkCase):
    """A broker that can be killed, and comes back on its store and its ports."""

    arguments = None

    def setUp(self):
        super().setUp()
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.folder, self.endpoints = folder, harness.fixed_endpoints()
        self.start()

    def start(self):
        self.room.start_broker("--store", f"sqlite:{self.folder}/store.db", "--set", "heartbeat=300ms", "--set", "crash_max=100",
                               **self.endpoints)

    def restart(self):
        self.room.broker.kill()
        self.start()


class Restarted(RestartCase):
    def test_a_watch_goes_on_in_the_next_life_and_says_so(self):
        self.serve({"shout": shout})
        client = self.connect()
        with client.watch(service="shout") as events:
            self.assertEqual((next(events).what), "watching")
            client.submit("shout", "x", id="before")
            self.assertEqual([next(events).what for _ in range(3)], ["accepted", "started", "ended"])
            self.restart()
            again = next(events)
            self.assertEqual((again.what, again.gap, again.seq), ("watching", True, 0))
            client.submit("shout", "x", id="after")
            self.assertEqual([(event.what, event.id, event.gap) for event in (next(events) for _ in range(3))],
                             [("accepted", "after", False), ("started", "after", False), ("ended", "after", False)])

    def test_a_submit_gets_its_answer_from_the_next_life(self):
        held = Held()
        self.serve({"held": held})
        client, answers = self.connect(), []
        thread = threading.Thread(target=lambda: answers.append(client.submit("held", b"x")))
        thread.start()
        harness.wait_until(lambda: held.came, "the call")
        self.restart()
        held.go.set()
        thread.join(harness.PATIENCE)
        self.assertEqual([(answer.body, answer.attempts) for answer in answers], [(b"x", 1)])
        self.assertEqual(len(held.came), 1)

    def test_a_stream_goes_on_where_it_was(self):
        more = threading.Event()

        def words(job):
            for number in range(40):
                job.chunk(b"%d " % number)
            more.wait(harness.PATIENCE)
            for number in range(40, 80):
                job.chunk(b"%d " % number)

        self.serve({"words": words})
        stream = self.connect().stream("words")
        read = [next(stream) for _ in range(40)]
        # What the reader took is known before the kill: what the broker forgets after that is nothing that is missing.
        harness.wait_until(lambda: self.room.stats()["counters"]["chunks_out"] >= 40, "the chunks")
        self.restart()
        self.room.stats_when(lambda stats: stats["workers"]["connected"] == 1, "the worker's return")
        more.set()
        read += list(stream)
        self.assertEqual(b"".join(read), b"".join(b"%d " % number for number in range(80)))


class Killed(RestartCase):
    """A `map` of many prompts, while the broker and a worker are killed."""

    CAPACITY = 16
    WORKER = """
        import sys, urllib.request
        from lanemq import Permanent, worker

        @worker("chat", capacity=int(sys.argv[2]))
        def chat(job):
            request = urllib.request.Request(sys.argv[1], job.body, {"content-type": "application/json", "x-lanemq-job": job.id})
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.read()

        chat.run()
    """

    def prompts(self):
        if path := os.environ.get("LANEMQ_TEST_PROMPTS"):
            with open(path) as lines:
                return [json.loads(line)["question"] for line in lines]
        return [f"How much is {number} times {number + 1}?" for number in range(600)]

    def start_double(self):
        self.log = os.path.join(self.folder, "calls.jsonl")
        double = self.room.start(harness.Process(harness.program("lanemq-upstream"), "--latency-ms", "20..100", "--log", self.log))
        self.double = double
        return double.line().removeprefix("ready ").strip() + "/v1/chat/completions"

    def start_python_worker(self, url):
        worker = self.script(self.WORKER, url, str(self.CAPACITY))
        self.assertTrue(worker.line().startswith("ready"), worker.stderr())
        return worker

    def start_worker(self, url):
        worker = self.room.start(harness.Process(
            harness.program("lanemq-worker"), "--broker", self.room.broker.workers, "--service", f"chat=http:{url}",
            "--capacity", str(self.CAPACITY)))
        self.assertTrue(worker.line().startswith("ready"), worker.stderr())
        return worker

    def ask_all(self, start_worker):
        prompts, url = self.prompts(), self.start_double()
        workers = [start_worker(url) for _ in range(2)]
        bodies = [{"model": "gpt-4o-mini", "max_tokens": 16, "messages": [{"role": "user", "content": prompt}]} for prompt in prompts]
        client, answers, kills = self.connect(), [], []
        for answer in client.map("chat", bodies, ordered=False, progress=False):
            answers.append(answer)
            if len(answers) in (len(bodies) // 3, 2 * len(bodies) // 3):
                kills.append(time.time())
                workers.pop(0).kill()
                self.restart()
                workers.append(start_worker(url))
        self.double.signal(signal.SIGTERM)  # its log is whole then
        self.double.wait()
        self.judge(bodies, answers, kills)

    def judge(self, bodies, answers, kills):
        self.assertEqual(sorted(answer.index for answer in answers), list(range(len(bodies))))
        self.assertTrue(all(answer.json()["choices"] for answer in answers))
        with open(self.log) as lines:
            calls = [json.loads(line) for line in lines]
        by_body = collections.defaultdict(list)
        for call in calls:
            by_body[call["body"]].append(call)
        again = [each for each in by_body.values() if len(each) > 1]
        print(f"\n{len(bodies)} prompts, {len(answers)} answers, {len(calls)} calls, {len(again)} prompts called again, "
              f"{len(kills)} kills of broker and worker", file=sys.stderr)
        self.assertEqual(len(by_body), len(bodies))
        self.assertLessEqual(len(calls) - len(bodies), self.CAPACITY * len(kills))
        for each in again:  # all but the last were under way at the killed worker: cut off, or answered to it right before
            for call in sorted(each, key=lambda call: call["ended_unix_ms"])[:-1]:
                self.assertTrue(call["end"] == "hung_up" or
                                any(abs(kill - call["ended_unix_ms"] / 1000) <= LATE_S for kill in kills), each)

    def test_each_prompt_is_answered_once_by_workers_in_python(self):
        self.ask_all(self.start_python_worker)

    def test_each_prompt_is_answered_once_by_lanemq_worker(self):
        self.ask_all(self.start_worker)


class Keys(SdkCase):
    arguments = None

    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        keygen = lambda *words: subprocess.run([harness.program("lanemq"), "keygen", *words], cwd=self.folder, check=True,
                                               capture_output=True, text=True).stdout
        self.broker_key = keygen("--broker").strip()
        os.mkdir(f"{self.folder}/keys.d")
        for name, role in (("alice", "client"), ("hands", "worker"), ("mallory", "client")):
            text = keygen(name, "--role", role)
            if name != "mallory":
                with open(f"{self.folder}/keys.d/{name}.toml", "w") as file:
                    file.write(text)
        self.room.start_broker("--secret-key", f"file:{self.folder}/broker.key", "--keys-folder", f"{self.folder}/keys.d",
                               *harness.STEADY)

    def key(self, name):
        return {"broker_key": self.broker_key, "secret_key": f"file:{self.folder}/{name}.key"}

    def test_both_ends_show_their_keys(self):
        self.serve({"s": shout}, **self.key("hands"))
        self.assertEqual(self.connect(**self.key("alice")).submit("s", "x").text, "X")

    def test_a_key_that_the_broker_does_not_know_is_unauthorized(self):
        for arguments, why in ((self.key("mallory"), "does not take this key"), ({}, "asks for keys")):
            with self.subTest(why), self.assertRaisesRegex(lanemq.UnauthorizedError, why):
                self.connect(**arguments).submit("s", "x")


if __name__ == "__main__":
    unittest.main()
