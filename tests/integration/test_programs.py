# SPDX-License-Identifier: Apache-2.0
"""All programs together: the shared limit as a strict upstream sees it, workers that are killed, `lanemq run`."""

import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import unittest

import harness

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
import shared_limit  # noqa: E402


class SharedLimit(harness.Case):
    arguments = None  # it starts a broker with the upstream's limit

    def test_four_workers_never_overrun_the_upstream_and_use_what_it_allows(self):
        # Over a minute, so that the first burst leaves the upstream's window while calls go on.
        seconds, rpm = 75, 1200

        stats, failed = shared_limit.measure(self.room, seconds, rpm, "sliding")

        self.assertEqual(stats["rejected_429"], 0)
        self.assertEqual(failed, 0)
        self.assertLessEqual(stats["peak_calls_60s"], rpm)
        self.assertGreaterEqual(stats["ok"], 0.95 * rpm * seconds / 60)


class WorkerDeath(harness.Case):
    arguments = ("--set", "heartbeat=200ms", "--set", "crash_max=1000")

    def start_worker(self, *arguments):
        return shared_limit.start_worker(self.room, "echo=echo:2ms", *arguments)

    def test_jobs_of_killed_workers_end_once_and_none_is_lost(self):
        chance = random.Random(7)
        workers = [self.start_worker("--capacity", "8") for _ in range(3)]
        client = self.room.client()
        count, portion = 2000, 200
        answered = {}

        def hear_until(total):
            while len(answered) < total:
                message = client.get("result", patience=max(60, harness.PATIENCE))
                self.assertNotIn(message.fields["id"], answered, "a job was answered twice")
                answered[message.fields["id"]] = message.body

        for start in range(0, count, portion):
            victim = chance.randrange(len(workers))
            if start > 0:
                # It is stopped first, so that it holds jobs when it dies, however fast the others are.
                workers[victim].signal(signal.SIGSTOP)
            for number in range(start, start + portion):
                client.submit(id=f"job-{number}", body=b"%d" % number, lane="batch", attempts_max=1000)
            client.settled()
            if start > 0:
                workers[victim].signal(signal.SIGKILL)
                workers[victim] = self.start_worker("--capacity", "8")
            hear_until(start + portion // 2)
        hear_until(count)
        self.assertEqual(answered, {f"job-{number}": b"%d" % number for number in range(count)})
        self.assertTrue(client.silent(0.3), "an answer too many")
        stats = self.room.stats()
        self.assertEqual(stats["lanes"]["batch"]["succeeded"], count)
        self.assertGreater(stats["counters"]["jobs_requeued_worker_lost"], 0, "no worker died with jobs")

    def test_a_killed_workers_job_keeps_its_place(self):
        worker = self.start_worker("--capacity", "1")
        client = self.room.client()
        for number in range(100):
            client.submit(body=b"%d" % number, lane="batch", ref=number, attempts_max=1000)
        order = []
        while len(order) < 100:
            order.append(client.get("result", patience=max(60, harness.PATIENCE)).fields["ref"])
            if len(order) % 20 == 0 and len(order) < 100:
                worker.signal(signal.SIGKILL)
                # Only a broker that knows of the death can put the job back.
                self.room.stats_when(lambda stats: stats["workers"]["connected"] == 0, "the worker's loss")
                worker = self.start_worker("--capacity", "1")
        self.assertEqual(order, list(range(100)))


class WorkerSignals(harness.Case):
    def start(self):
        return self.room.start(harness.Process(harness.program("lanemq-worker"), "--broker", self.room.broker.workers,
                                               "--service", "echo=echo"))

    def test_a_worker_may_be_told_to_stop_at_any_moment(self):
        chance = random.Random(3)
        for _ in range(20):
            worker = self.start()
            self.room.keep_alive(chance.uniform(0, 0.05))  # wherever it is by then
            worker.signal(signal.SIGTERM)
            # At first the system ends it, then it does so itself, then it says goodbye.
            self.assertIn(worker.wait(), (-signal.SIGTERM, 128 + signal.SIGTERM, 0), worker.stderr())

    def test_a_worker_may_be_told_so_again_and_again(self):
        for number in (signal.SIGTERM, signal.SIGINT) * 5:
            worker = self.start()
            self.assertTrue(worker.line().startswith("ready"))
            while worker.process.poll() is None:
                worker.signal(number)
            self.assertIn(worker.wait(), (0, 128 + number), worker.stderr())


class RunFile(harness.Case):
    # An upstream that fails is replaced by a sound one in these tests: nobody waits until it is tried again.
    arguments = (*harness.Case.arguments, "--set", "breaker=false")

    def setUp(self):
        super().setUp()
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.file, self.out = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out.jsonl")
        self.base = shared_limit.start_upstream(self.room, "--latency-ms", "5..30", "--log", os.path.join(folder, "log"))
        self.log = os.path.join(folder, "log")

    def write(self, count):
        with open(self.file, "w") as out:
            for number in range(count):
                # Odd spacing and escapes: the body must arrive byte for byte.
                body = '{"model":"m",  "messages": [{"role":"user","content":"caf\\u00e9 %d"}] ,"max_tokens":4}' % number
                out.write('{"custom_id": "line-%d", "method": "POST", "url": "/v1/chat/completions", "body": %s}\n' % (number, body))

    def command(self, service="chat", lane="batch", out=None):
        return [harness.program("lanemq"), "--broker", self.room.broker.clients, "run", self.file, "--service", service,
                "--lane", lane, "--window", "8", "--out", out or self.out]

    def lines_written(self):
        if not os.path.exists(self.out):
            return 0
        with open(self.out) as lines:
            return sum(1 for _ in lines)

    def answers(self):
        with open(self.out) as lines:
            return [json.loads(line) for line in lines]

    def test_a_killed_run_is_resumed_and_every_line_is_answered_once(self):
        count = 300
        self.write(count)
        shared_limit.start_worker(self.room, f"chat=http:{self.base}/v1/chat/completions", "--capacity", "8")
        first = self.room.start(harness.Process(*self.command()))
        harness.wait_until(lambda: self.lines_written() > 20, "some answers")
        first.signal(signal.SIGKILL)
        first.wait()
        with open(self.out, "a") as out:
            out.write('{"id":"torn')  # as a machine that lost power leaves it

        second = subprocess.run(self.command(), capture_output=True, text=True, timeout=max(60, harness.PATIENCE))

        self.assertEqual(second.returncode, 0, second.stderr)
        answers = self.answers()
        self.assertEqual(sorted(line["custom_id"] for line in answers), sorted(f"line-{n}" for n in range(count)))
        for line in answers:
            self.assertIsNone(line["error"])
            self.assertEqual(line["response"]["status_code"], 200)
            self.assertIn("choices", line["response"]["body"])
        # What was in flight when the first run died was joined, not paid for twice.
        self.assertLessEqual(shared_limit.upstream_stats(self.base)["ok"], count)

    def test_failed_lines_are_sent_again_by_the_next_run(self):
        self.write(20)
        broken = self.room.start(harness.Process(harness.program("lanemq-upstream"), "--fault-5xx", "1"))
        url = broken.line().removeprefix("ready ").strip() + "/v1/chat/completions"
        worker = shared_limit.start_worker(self.room, f"chat=http:{url}", "--capacity", "8")
        with open(self.file, "a") as out:
            out.write("this is no JSON\n")

        failed = subprocess.run([*self.command(), "--retries", "0"], capture_output=True, text=True, timeout=max(90, harness.PATIENCE))

        self.assertEqual(failed.returncode, 1)
        self.assertTrue(all(line["error"] for line in self.answers()))
        self.assertIn("21", failed.stderr, "the line that is no JSON is not named")
        worker.signal(signal.SIGTERM)
        worker.wait()
        shared_limit.start_worker(self.room, f"chat=http:{self.base}/v1/chat/completions", "--capacity", "8")
        self.write(20)

        good = subprocess.run(self.command(), capture_output=True, text=True, timeout=max(60, harness.PATIENCE))

        self.assertEqual(good.returncode, 0, good.stderr)
        answers = [line for line in self.answers() if line["custom_id"]]
        self.assertEqual(len(answers), 20)
        self.assertTrue(all(line["error"] is None for line in answers))

    def run_file(self, *more, **others):
        return subprocess.run([*self.command(**{"service": "echo", **others}), *more], capture_output=True, text=True, timeout=max(60, harness.PATIENCE))

    def test_answers_to_other_bodies_are_none(self):
        shared_limit.start_worker(self.room, "echo=echo")
        for number, (kind, line) in enumerate((("batch", '{"custom_id": "a", "body": {"day": "%s"}}\n'), ("plain", '{"day": "%s"}\n'))):
            self.out += str(number)
            with self.subTest(kind=kind):
                for day in ("monday", "tuesday"):
                    with open(self.file, "w") as out:
                        out.write(line % day)
                    done = self.run_file()
                    self.assertEqual(done.returncode, 0 if day == "monday" else 2, done.stderr)
                self.assertRegex(done.stderr, "line 1 answers another request than .* line 1: .*another --out")
                self.assertEqual([answer["response"]["body"] for answer in self.answers()], [{"day": "monday"}])
                self.assertEqual(self.run_file(out=self.out + ".tuesday").returncode, 0)
                with open(self.out + ".tuesday") as out:
                    self.assertEqual(json.loads(out.read())["response"]["body"], {"day": "tuesday"})
        self.assertEqual(self.run_file("--model", "m", out=self.out + ".tuesday").returncode, 2)
        self.assertEqual(self.run_file(out=self.out + ".tuesday", service="other").returncode, 2)

    LINES_OF_A_NIGHT = int(os.environ.get("LANEMQ_LINES_OF_A_NIGHT", 400))

    def test_a_file_that_is_written_anew_each_night_gets_the_answers_of_its_night(self):
        count = self.LINES_OF_A_NIGHT
        shared_limit.start_worker(self.room, "echo=echo:10ms", "--capacity", "8")
        for night in ("monday", "tuesday"):
            with open(self.file, "w") as out:
                for number in range(count):
                    out.write(json.dumps({"custom_id": f"line-{number}", "body": {"night": night, "number": number}}) + "\n")
            if night == "tuesday":
                self.assertEqual(self.run_file().returncode, 2, "monday's output is no output of tuesday")
                self.out += night
            for share in (0.2, 0.5):
                run = self.room.start(harness.Process(*self.command("echo")))
                harness.wait_until(lambda least=share * count: self.lines_written() > least, "some answers")
                run.kill()
            done = self.run_file()
            self.assertEqual(done.returncode, 0, done.stderr)
            answers = self.answers()
            self.assertEqual(sorted(answer["response"]["body"]["number"] for answer in answers), list(range(count)))
            self.assertEqual({answer["response"]["body"]["night"] for answer in answers}, {night})
            self.assertTrue(all(answer["custom_id"] == f"line-{answer['response']['body']['number']}" for answer in answers))

    def test_what_can_never_succeed_stops_it_and_is_named_once(self):
        self.write(100)
        shared_limit.start_worker(self.room, "echo=echo")
        refused = self.run_file(lane="bacth")
        self.assertEqual(refused.returncode, 1)
        self.assertEqual(refused.stderr.count("bacth"), 1, refused.stderr)
        self.assertRegex(refused.stderr.splitlines()[0], 'refuses every line.*unknown lane "bacth"; the lanes are critical, high')
        self.assertFalse([path for path in (self.out, self.out + ".run") if os.path.exists(path)])
        # An upstream that knows no such path.
        shared_limit.start_worker(self.room, f"chat=http:{self.base}/nothing/there")
        hopeless = self.run_file(service="chat")
        self.assertEqual(hopeless.returncode, 1)
        # What was under way when it stopped is cancelled, which is said before.
        said = [line for line in hopeless.stderr.splitlines() if "cancelled, as nobody waits" not in line]
        self.assertRegex(said[0], "failed with upstream_rejected, the first of them line .*404")
        self.assertIn("--keep-going", hopeless.stderr)
        self.assertLess(self.lines_written(), 100)
        hopeless = self.run_file("--keep-going", "--json", service="chat")
        self.assertEqual(json.loads(hopeless.stdout)["failed_with"], {"upstream_rejected": 100})
        self.assertNotIn("once more", hopeless.stderr)

    def test_it_says_that_no_worker_serves_its_jobs(self):
        self.write(3)
        run = self.room.start(harness.Process(*self.command("chta")))
        harness.wait_until(lambda: "chta" in run.stderr(), "its word")
        self.assertIn('no worker serves "chta"', run.stderr())

    def test_the_body_reaches_the_worker_byte_for_byte(self):
        self.write(3)
        worker = self.room.worker(services=["chat"], capacity=8)
        run = self.room.start(harness.Process(*self.command()))
        bodies = set()
        for _ in range(3):
            job = worker.get("job")
            bodies.add(job.body)
            worker.hand_in(job, body=b'{"ok":true}')
        worker.answered()
        self.room.pump(lambda: run.process.poll() is not None, "the end of the run")
        self.assertEqual(run.process.returncode, 0, run.stderr())
        self.assertEqual(bodies, {b'{"model":"m",  "messages": [{"role":"user","content":"caf\\u00e9 %d"}] ,"max_tokens":4}' % n
                                  for n in range(3)})


class CommandLine(harness.Case):
    def lanemq(self, *arguments, **options):
        return subprocess.run([harness.program("lanemq"), *arguments], capture_output=True, text=True, timeout=max(60, harness.PATIENCE), **options)

    def test_submit_prints_the_answer_and_errors_exit_with_one(self):
        shared_limit.start_worker(self.room, "echo=echo")
        endpoint = self.room.broker.clients
        good = self.lanemq("--broker", endpoint, "submit", "--service", "echo", "--lane", "critical", "hello")
        self.assertEqual((good.returncode, good.stdout), (0, "hello"))
        piped = self.lanemq("--broker", endpoint, "submit", "--service", "echo", "-", input="from a pipe")
        self.assertEqual((piped.returncode, piped.stdout), (0, "from a pipe"))
        bad = self.lanemq("--broker", endpoint, "submit", "--service", "echo", "--lane", "express", "x")
        self.assertEqual((bad.returncode, bad.stdout), (1, ""))
        self.assertIn("express", bad.stderr)
        late = self.lanemq("--broker", endpoint, "submit", "--service", "nobody", "--timeout", "50ms", "x")
        self.assertEqual(late.returncode, 1)
        self.assertIn("deadline", late.stderr)

    def test_usage_exits_with_two_and_a_broker_that_is_not_there_with_three(self):
        self.assertEqual(self.lanemq("--no-such-flag").returncode, 2)
        gone = self.lanemq("--broker", "tcp://127.0.0.1:9", "--connect-timeout", "300ms", "ping")
        self.assertEqual(gone.returncode, 3)
        self.assertIn("127.0.0.1:9", gone.stderr)

    # What moves the cursor, changes a title, or is half of that in one byte.
    ROWDY = b"\x1b]0;owned\x07 \x1b[2J\x7f \xc2\x9b2J" + "\u202e \u2066 \u200e \u200f \u061c".encode()

    def at_a_terminal(self, *arguments, **options):
        """What a command prints there."""
        reader, writer = os.openpty()
        command = subprocess.Popen([harness.program("lanemq"), *arguments], stdout=writer, stderr=options.get("stderr", writer),
                                   stdin=subprocess.DEVNULL, env={**os.environ, "NO_COLOR": "1"})
        os.close(writer)
        printed = b""
        with contextlib.suppress(OSError):  # its end
            while piece := os.read(reader, 65536):
                printed += piece
        os.close(reader)
        command.wait(harness.PATIENCE)
        return printed

    def assert_harmless(self, printed):
        self.assertRegex(printed, b"owned|rowdy")
        self.assertNotRegex(printed, rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xaa-\xae]|\xe2\x81[\xa6-\xa9]")

    def test_names_of_others_move_nothing_in_lists_whoever_reads_them(self):
        name = "rowdy \u009b2J \u202e \u2066 \u200e \u061c"
        client = self.room.client()
        client.submit(id=name, client=name, service=name, reply="accepted")
        client.get("accepted")
        for command in (("jobs",), ("jobs", "--json"), ("clients",), ("clients", "--json"), ("status", name), ("status", "--json", name)):
            done = subprocess.run([harness.program("lanemq"), "--broker", self.room.broker.clients, "--admin", self.room.broker.admin, *command],
                                  capture_output=True, check=True)
            self.assert_harmless(done.stdout)
            if "--json" in command:
                self.assertIn(name, json.dumps(json.loads(done.stdout), ensure_ascii=False))

    def test_what_others_say_moves_nothing_on_a_terminal(self):
        shared_limit.start_worker(self.room, "echo=echo")
        to = ("--broker", self.room.broker.clients, "--admin", self.room.broker.admin)
        submit = (*to, "submit", "--service", "echo", "--id", "rowdy", self.ROWDY)
        self.assertEqual(subprocess.run([harness.program("lanemq"), *submit], capture_output=True, check=True).stdout, self.ROWDY)
        for command in (submit, (*submit, "--json"), (*submit, "--stream"), (*to, "fetch", "rowdy"), (*to, "fetch", "--json", "rowdy")):
            self.assert_harmless(self.at_a_terminal(*command))
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
            file.write(json.dumps({"text": self.ROWDY.decode()}, ensure_ascii=False).encode() + b"\n")
            file.flush()
            run = (*to, "run", file.name, "--service", "echo", "--out", "-")
            self.assert_harmless(self.at_a_terminal(*run, stderr=subprocess.DEVNULL))
            said = subprocess.run([harness.program("lanemq"), *run], capture_output=True, check=True).stdout
            self.assertEqual(json.loads(said)["response"]["body"]["text"], self.ROWDY.decode())

    def test_what_a_worker_says_of_a_failure_moves_nothing_on_a_terminal(self):
        worker, client = self.room.worker(services=["chat"]), self.room.client()
        client.submit("chat", b"x", id="rowdy")
        worker.hand_in(worker.get("job"), "error", self.ROWDY, **{"class": "permanent"}, message=self.ROWDY.decode(), code="no")
        client.get("error")
        to = ("--broker", self.room.broker.clients, "--admin", self.room.broker.admin)
        for command in ("status", "status --json", "explain", "explain --json", "fetch", "fetch --json", "job", "job --json", "dead",
                        "dead --json"):
            with self.subTest(command=command):
                name, *options = command.split()
                self.assert_harmless(self.at_a_terminal(*to, name, *([] if name == "dead" else ["rowdy"]), *options))

    def test_jobs_say_what_they_cost_and_what_becomes_of_them(self):
        worker = self.room.worker(services=["chat"])
        to = (harness.program("lanemq"), "--broker", self.room.broker.clients)
        submit = self.room.start(harness.Process(*to, "submit", "--service", "chat", "--cost", "800,200", "hello"))
        job = worker.get("job")
        self.assertEqual(job.fields["cost"], {"input_tokens": 800, "output_tokens": 200})
        worker.echo(job)
        self.room.pump(lambda: submit.process.poll() is not None, "its end")
        wrong = subprocess.run([*to, "submit", "--service", "chat", "--cost", "much"], capture_output=True, text=True, check=False)
        self.assertEqual(wrong.returncode, 2)
        self.assertRegex(wrong.stderr, "--cost.*INPUT,OUTPUT.*much")
        left = subprocess.run([*to, "submit", "--service", "nobody", "--no-wait", "--durable", "x"], capture_output=True, text=True, check=True)
        self.assertIn("not on disk", left.stderr)  # in memory nothing is, whatever is asked for

    def test_jobs_of_a_command_that_is_killed_end_or_go_on_as_it_said(self):
        queued = lambda stats: sum(lane["queued"] for lane in stats["lanes"].values())
        to = (harness.program("lanemq"), "--broker", self.room.broker.clients)
        keeps = self.room.start(harness.Process(*to, "submit", "--service", "nobody", "--orphan", "keep", "x"))
        self.room.stats_when(lambda stats: queued(stats) == 1, "its job")
        keeps.kill()
        with tempfile.TemporaryDirectory() as folder:
            cancels = self.room.start(harness.Process(*to, "run", "-", "--service", "nobody", "--orphan", "cancel", "--out",
                                                      os.path.join(folder, "out"), stdin=subprocess.PIPE))
            cancels.process.stdin.write('{"a": 1}\n{"a": 2}\n')
            cancels.process.stdin.close()
            self.room.stats_when(lambda stats: queued(stats) == 3, "its jobs")
            cancels.kill()
            # The first command has been gone for longer.
            self.room.stats_when(lambda stats: queued(stats) == 1, "what is left")

    def test_the_screen_of_top_is_json_too(self):
        top = json.loads(self.lanemq("--admin", self.room.broker.admin, "top", "--json").stdout)
        self.assertEqual(list(top), ["stats", "lanes", "workers", "clients"])
        self.assertEqual(list(top["stats"]["lanes"]), ["critical", "high", "normal", "low", "batch"])

    def test_stats_are_json(self):
        stats = json.loads(self.lanemq("--broker", self.room.broker.clients, "stats", "--json").stdout)
        self.assertEqual(list(stats["lanes"]), ["critical", "high", "normal", "low", "batch"])


if __name__ == "__main__":
    unittest.main()
