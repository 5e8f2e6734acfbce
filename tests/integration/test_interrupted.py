# SPDX-License-Identifier: Apache-2.0
"""Commands that are interrupted: what nobody waits for any more is cancelled, and no call begins for it.

LANEMQ_TEST_MOMENTS says at how many random moments; LANEMQ_TEST_SEED says which."""

import collections
import contextlib
import fcntl
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest

import harness

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
import shared_limit  # noqa: E402

MOMENTS = int(os.environ.get("LANEMQ_TEST_MOMENTS", "20"))
# A few seconds for the broker's word, and 5 s until a client that has gone is gone.
OVER_WITHIN = harness.PATIENCE


def body(model):
    return json.dumps({"model": model, "messages": [{"role": "user", "content": "Say."}], "max_tokens": 4})


class Interrupted(harness.Case):
    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.file, self.out, self.log = (os.path.join(self.folder, name) for name in ("in.jsonl", "out.jsonl", "log"))
        self.upstream = shared_limit.start_upstream(self.room, "--latency-ms", "5..40", "--log", self.log)

    def start_worker(self, capacity):
        shared_limit.start_worker(self.room, f"chat=http:{self.upstream}/v1/chat/completions", "--capacity", str(capacity))

    def lanemq(self, *arguments):
        return [harness.program("lanemq"), "--broker", self.room.broker.clients, "--admin", self.room.broker.admin, *arguments]

    def start(self, *arguments):
        return self.room.start(harness.Process(*self.lanemq(*arguments)))

    def run_command(self, *more):
        return ("run", self.file, "--service", "chat", "--lane", "batch", "--out", self.out, *more)

    def write(self, models):
        with open(self.file, "w", encoding="utf-8") as out:
            out.writelines(json.dumps({"custom_id": model, "method": "POST", "url": "/v1/chat/completions",
                                       "body": json.loads(body(model))}) + "\n" for model in models)

    def answers(self):
        """The whole lines of the output: a run that goes on may have written a part of its last one."""
        with open(self.out, encoding="utf-8") as lines:
            return [json.loads(line) for line in lines if line.endswith("\n")]

    def jobs(self):
        listed = subprocess.run(self.lanemq("jobs", "--json"), capture_output=True, text=True, timeout=harness.PATIENCE, check=True)
        return json.loads(listed.stdout)["jobs"]

    def when_over(self):
        """Waits until no job is left; how long that took."""
        began = time.monotonic()
        harness.wait_until(lambda: not self.jobs(), "no job is left", patience=OVER_WITHIN)
        return time.monotonic() - began

    def begun(self):
        return shared_limit.upstream_stats(self.upstream)["calls"]

    def when_in_flight(self, count):
        harness.wait_until(lambda: shared_limit.upstream_stats(self.upstream)["in_flight"] == count, f"{count} calls under way")

    def calls(self):
        """How the calls for each model ended that are over."""
        ends = collections.defaultdict(list)
        with open(self.log, encoding="utf-8") as lines:
            for call in (json.loads(line) for line in lines if line.endswith("\n")):
                ends[call["model"]].append(call["end"])
        return ends

    def release(self, models):
        for model in models:
            harness.release(self.upstream, model)


class Named(Interrupted):
    def test_jobs_go_under_the_name_that_is_stated(self):
        self.write(["one", "two"])
        bench = ("bench", "--service", "chat", "-n", "2", "--window", "2")
        for command in (self.run_command(), bench):
            with self.subTest(command=command[0]):
                started = self.start(*command, "--client", "nightly")
                harness.wait_until(lambda: len(self.jobs()) == 2, "both jobs wait")
                self.assertEqual([job["client"] for job in self.jobs()], ["nightly", "nightly"])
                started.signal(signal.SIGINT)
                started.wait()
                self.when_over()


class Once(Interrupted):
    QUICK, SLOW = [f"quick-{n}" for n in range(5)], [f"slow-{n}+hold" for n in range(12)]

    def interrupt_in_the_middle(self, *options, number=signal.SIGINT):
        """A run that has had its quick answers, waits for 8 calls and has 4 jobs in the queue."""
        self.write(self.QUICK + self.SLOW)
        self.start_worker(8)
        run = self.start(*self.run_command(*options))
        harness.wait_until(lambda: os.path.exists(self.out) and len(self.answers()) == len(self.QUICK), "the quick answers")
        self.when_in_flight(8)
        run.signal(number)
        self.assertEqual(run.wait(), 128 + number, run.stderr())
        return run.stderr()

    def finish(self):
        self.release(self.SLOW)
        again = subprocess.run(self.lanemq(*self.run_command()), capture_output=True, text=True, timeout=harness.PATIENCE * 2,
                               check=False)
        self.assertEqual(again.returncode, 0, again.stderr)
        answers = self.answers()
        self.assertEqual(sorted(line["custom_id"] for line in answers), sorted(self.QUICK + self.SLOW))
        for line in answers:
            self.assertIsNone(line["error"], line)
            self.assertEqual(line["response"]["status_code"], 200)
        harness.wait_until(lambda: sum(map(len, self.calls().values())) == self.begun(), "every call is logged")
        return self.calls()

    def test_a_run_is_cancelled_and_the_next_sends_what_was_cancelled(self):
        said = self.interrupt_in_the_middle()
        self.assertIn("12 jobs cancelled", said)
        self.when_over()
        self.when_in_flight(0)
        self.assertEqual(self.begun(), len(self.QUICK) + 8)
        calls = self.finish()
        for model in self.QUICK:
            self.assertEqual(len(calls[model]), 1, model)
        for model in self.SLOW:
            self.assertEqual([end for end in calls[model] if end != "hung_up"], calls[model][-1:], model)
        self.assertEqual(self.begun(), len(self.QUICK) + len(self.SLOW) + 8)

    def test_a_run_that_is_interrupted_again_and_again_ends_all_the_same(self):
        self.interrupt_in_the_middle()
        for number in (signal.SIGTERM, signal.SIGHUP):
            self.when_in_flight(0)
            run = self.start(*self.run_command())
            self.when_in_flight(8)
            run.signal(number)
            self.assertEqual(run.wait(), 128 + number, run.stderr())
            self.when_over()
        self.when_in_flight(0)
        self.finish()

    def test_a_run_that_leaves_its_jobs_has_their_answers_next_time(self):
        said = self.interrupt_in_the_middle("--leave")
        self.assertIn("12 jobs are left", said)
        self.assertEqual(len(self.jobs()), 12)
        calls = self.finish()
        self.assertEqual({model: len(ends) for model, ends in calls.items()}, dict.fromkeys(self.QUICK + self.SLOW, 1))

    def test_a_second_interrupt_ends_the_command_at_once(self):
        self.write(self.SLOW)
        run = self.start(*self.run_command())
        harness.wait_until(lambda: len(self.jobs()) == len(self.SLOW), "its jobs")
        self.room.broker.signal(signal.SIGSTOP)  # so that nobody tells it that they are cancelled
        run.signal(signal.SIGINT)
        harness.wait_until(self.noted_attempts, "the first is heard")
        run.signal(signal.SIGINT)
        self.assertEqual(run.wait(), -signal.SIGINT)
        self.room.broker.signal(signal.SIGCONT)

    def noted_attempts(self):
        """Which lines the next run is to send as further attempts."""
        with open(self.out + ".run", encoding="utf-8") as file:
            return file.read().splitlines()[2:]

    def test_a_job_that_somebody_else_knows_is_not_cancelled_by_one_of_two(self):
        both = [self.start("submit", "--service", "chat", "--id", "shared", body("m")) for _ in range(2)]
        harness.wait_until(lambda: self.job("shared").get("waiters"), "the second waits for it, too")
        both[0].signal(signal.SIGINT)
        self.assertEqual(both[0].wait(), 128 + signal.SIGINT)
        self.assertIn("unless somebody else waits", both[0].stderr())
        self.start_worker(1)
        self.assertEqual(both[1].wait(), 0, both[1].stderr())

    def job(self, job_id):
        """What operators see of it."""
        operator = self.room.operator()
        told = operator.ask("admin", {"do": "job", "id": job_id})
        operator.close()
        return told.fields


class Unanswered(Interrupted):
    """Where the broker that was there is gone."""

    def submit_and_lose_the_broker(self, *options):
        asks = self.start("submit", "--service", "chat", *options, body("m"))
        harness.wait_until(lambda: "lanemq explain" in asks.stderr(), "that it has heard of its job, which waits for a worker")
        self.room.broker.kill()
        return asks

    def test_who_waits_is_told_how_long_nobody_answers(self):
        asks = self.submit_and_lose_the_broker()
        harness.wait_until(lambda: "no broker has answered for " in asks.stderr(), "that it says so")
        self.assertIn("Ctrl-C ends it", asks.stderr())
        self.assertIsNone(asks.process.poll())

    def test_no_broker_is_said_to_cancel_a_job_where_none_answers(self):
        for options in (("--id", "mine"), ("--id", "mine", "--stream"), ("--leave",), ()):
            with self.subTest(options=options):
                asks = self.submit_and_lose_the_broker(*options)
                harness.wait_until(lambda: "no word from the broker" in asks.stderr(), "that it has noticed")
                asks.signal(signal.SIGINT)
                self.assertEqual(asks.wait(), 128 + signal.SIGINT)
                self.assertIn("interrupted while no broker answers: ", asks.stderr())
                self.assertNotIn("the broker cancels job", asks.stderr())
                self.assertNotIn("is left with the broker", asks.stderr())
                self.room.start_broker()


class Moments(Interrupted):
    """At random moments of random commands, by each way in which a command is interrupted."""

    COMMANDS = ("submit", "submit --stream", "run", "run -", "bench")

    def command(self, kind):
        slow = body("m+delay=250")
        if kind == "bench":
            return ("bench", "--service", "chat", "-n", "1000000", "--window", "100")
        if kind == "run":
            return self.run_command("--window", "100")
        if kind == "run -":
            return ("run", self.file, "--service", "chat", "--out", "-", "--window", "100")
        return (*kind.split(), "--service", "chat", slow)

    def interrupt(self, kind, way, after):
        """Its exit code, and what it said."""
        reader, writer = os.pipe() if way == "pipe" else os.openpty()

        def take_terminal():
            os.setsid()
            fcntl.ioctl(1, termios.TIOCSCTTY, 0)

        process = subprocess.Popen(self.lanemq(*self.command(kind)), stdin=subprocess.DEVNULL, stdout=writer,
                                   stderr=subprocess.PIPE, preexec_fn=take_terminal if way == "terminal" else None)
        os.close(writer)
        harness.pace(after)  # the moment is what the test is about, and any is right
        if way in ("pipe", "terminal"):
            os.close(reader)
        else:
            process.send_signal(getattr(signal, way))
        try:
            _, said = process.communicate(timeout=harness.PATIENCE)
        finally:
            process.kill()
            process.wait()
        if way not in ("pipe", "terminal"):
            os.close(reader)
        return process.returncode, said.decode(errors="replace")

    def test_leave_no_job_and_no_call_begins_later(self):
        seed = int(os.environ.get("LANEMQ_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
        chance = random.Random(seed)
        self.start_worker(4)
        longest, codes, orphans = 0.0, collections.Counter(), 0
        for moment in range(MOMENTS):
            kind, way = self.COMMANDS[moment % len(self.COMMANDS)], chance.choice(("SIGINT", "SIGINT", "SIGHUP", "terminal", "pipe"))
            after = chance.uniform(0, 0.4)
            with self.subTest(seed=seed, moment=moment, kind=kind, way=way, after=after):
                self.write([f"m-{moment}-{n}" for n in range(300)])
                with contextlib.suppress(FileNotFoundError):
                    os.remove(self.out)
                code, said = self.interrupt(kind, way, after)
                codes[f"{way} {code}"] += 1
                took = self.when_over()
                orphans += took > 1
                longest = max(longest, took)
                self.when_in_flight(0)
                before = self.begun()
                # What had been left would be handed over before this one.
                marker = subprocess.run(self.lanemq("submit", "--service", "chat", "--lane", "batch", body(f"marker-{moment}")),
                                        capture_output=True, text=True, timeout=harness.PATIENCE, check=False)
                self.assertEqual(marker.returncode, 0, marker.stderr)
                self.assertEqual(self.begun(), before + 1, said)
        print(f"\n{MOMENTS} moments, seed {seed}: the last job was over {longest:.1f} s after the command at the latest, "
              f"{orphans} times later than 1 s; exit codes {dict(codes)}", file=sys.stderr)


if __name__ == "__main__":
    unittest.main()
