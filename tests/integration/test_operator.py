# SPDX-License-Identifier: Apache-2.0
"""What an operator asks of `lanemq`: what if (simulate), what a job waits for (explain), what is left (limits)."""

import json
import os
import random
import subprocess
import tempfile
import unittest

import harness

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


def lanemq(*arguments, **options):
    return subprocess.run([harness.program("lanemq"), *arguments], capture_output=True, text=True, timeout=max(harness.PATIENCE, 60), **options)


class Simulate(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", newline="") as out:
            out.write(text)
        return path

    def trace(self, *rows, header=HEADER):
        return self.write("trace.csv", "\r\n".join([header, *rows]) + "\r\n")

    def busy_trace(self, requests=2000, seconds=300):
        chance = random.Random(5)
        times = sorted(chance.uniform(0, seconds) for _ in range(requests))
        lanes = ("", "critical", "batch")
        return self.trace(*(f"2023-11-16 18:{15 + int(t) // 60}:{t % 60:010.7f},{chance.randrange(1000)},"
                            f"{chance.randrange(300)},{chance.choice(lanes)},client-{chance.randrange(3)}" for t in times),
                          header=HEADER + ",LANE,CLIENT")

    def simulate(self, *arguments, **options):
        return lanemq("simulate", *arguments, **options)

    def facts(self, *arguments):
        run = self.simulate(*arguments, "--json")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertEqual(run.stdout.count("\n"), 1)
        return json.loads(run.stdout)

    def test_prints_a_line_for_each_lane_and_each_limit(self):
        config = self.write("b.toml", '[[budget]]\nname = "api"\nlimits = { requests_per_minute = 300, concurrency = 50 }\n')
        run = self.simulate("--config", config, "--trace", self.busy_trace())
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        lines = run.stdout.splitlines()
        self.assertTrue(lines[0].startswith("2,000 requests of 3 clients"), lines[0])
        for start in ("critical ", "normal ", "batch "):
            self.assertEqual(sum(line.startswith(start) for line in lines), 1, run.stdout)
        self.assertFalse(any(line.startswith(("high ", "low ")) for line in lines), run.stdout)
        limits = [line.split()[:2] for line in lines if line.startswith("api ")]
        self.assertEqual(limits, [["api", "requests_per_minute"], ["api", "concurrency"]])
        self.assertEqual(sum(line.startswith("fairness 0.") or line.startswith("fairness 1.000") for line in lines), 1)

    def test_json_has_the_same_facts(self):
        facts = self.facts("--set", "budget.api.requests_per_minute=300", "--set", "budget.api.concurrency=50",
                           "--trace", self.busy_trace())
        self.assertEqual((facts["requests"], facts["clients"]), (2000, 3))
        self.assertEqual(list(facts["lanes"]), ["critical", "normal", "batch"])
        self.assertEqual(sum(lane["jobs"] for lane in facts["lanes"].values()), 2000)
        for lane in facts["lanes"].values():
            self.assertEqual(lane["jobs"], lane["succeeded"] + lane["refused"] + lane["expired"])
            self.assertLessEqual(lane["wait_ms"]["p50"], lane["wait_ms"]["p99"])
            self.assertLessEqual(lane["wait_ms"]["p99"], lane["wait_ms"]["max"])
        self.assertLess(facts["lanes"]["critical"]["wait_ms"]["p99"], facts["lanes"]["batch"]["wait_ms"]["p50"])
        self.assertEqual(set(facts["budgets"]["api"]), {"requests_per_minute", "concurrency"})
        self.assertTrue(0 < facts["fairness"] <= 1)

    def test_no_window_sees_more_than_the_limit(self):
        trace = self.busy_trace()
        for limit in (60, 240, 333):
            for speed in (1, 2, 10):
                facts = self.facts("--set", f"budget.api.requests_per_minute={limit}", "--trace", trace, "--speed", str(speed))
                api = facts["budgets"]["api"]["requests_per_minute"]
                self.assertLessEqual(api["peak"], limit)
                self.assertGreater(api["percent"], 90, "it is overloaded: the limit is what is used")
                # Each was sent once; what expired while it ran was sent too.
                succeeded = sum(lane["succeeded"] for lane in facts["lanes"].values())
                refused = sum(lane["refused"] for lane in facts["lanes"].values())
                self.assertTrue(succeeded <= api["used"] <= facts["requests"] - refused, facts)

    def test_the_same_input_prints_the_same_bytes(self):
        arguments = ("--set", "budget.api.requests_per_minute=300", "--set", "budget.api.tokens_per_minute=100000",
                     "--trace", self.busy_trace())
        for form in ((), ("--json",)):
            first = self.simulate(*arguments, *form)
            # What the environment says to a broker says nothing here.
            second = self.simulate(*arguments, *form, env={**os.environ, "LANEMQ_JOBS_MAX": "7"})
            self.assertEqual((first.returncode, first.stdout), (0, second.stdout))

    def test_a_trace_comes_from_a_pipe_too(self):
        with open(self.busy_trace()) as trace:
            text = trace.read()
        piped = self.simulate("--trace", "-", input=text)
        named = self.simulate("--trace", self.busy_trace())
        self.assertEqual((piped.returncode, piped.stdout), (0, named.stdout))

    def test_the_model_of_the_workers_is_the_operators(self):
        trace = self.trace("0,10,100", "0,10,100")
        plain = self.facts("--trace", trace)
        self.assertEqual(plain["ran_ms"], 2500)
        slow = self.facts("--trace", trace, "--places", "1", "--first-token", "0", "--tokens-per-second", "10")
        self.assertEqual((slow["ran_ms"], slow["lanes"]["normal"]["wait_ms"]["max"]), (20_000, 10_000))
        at_once = self.facts("--trace", trace, "--first-token", "0", "--tokens-per-second", "0")
        self.assertEqual(at_once["ran_ms"], 0)

    def test_one_client_is_served_evenly(self):
        run = self.simulate("--set", "budget.api.requests_per_minute=1", "--trace", self.trace("0,1,1", "9,1,1", "1,1,1"))
        self.assertIn("\nfairness 1.000 ", run.stdout)
        self.assertIn("put in order", run.stderr)

    def test_what_is_refused_is_counted_and_explained(self):
        trace = self.trace(*["0,10,0"] * 5, "1,90000,0")
        facts = self.facts("--set", "lane.normal.depth_max=3", "--set", "budget.api.tokens_per_minute=50000", "--trace", trace)
        self.assertEqual({code: refusal["count"] for code, refusal in facts["refused"].items()},
                         {"lane_full": 2, "unsatisfiable": 1})
        self.assertEqual(facts["lanes"]["normal"]["refused"], 3)
        text = self.simulate("--set", "lane.normal.depth_max=3", "--trace", trace).stdout
        self.assertIn("refused with lane_full: 2, the first because lane \"normal\" holds 3 jobs", text)

    def assert_refused(self, run, *parts):
        self.assertEqual((run.returncode, run.stdout), (2, ""), run)
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        for part in parts:
            self.assertIn(part, run.stderr)

    def test_bad_input_is_one_line_that_says_what_to_write(self):
        good = self.trace("0,1,1")
        self.assert_refused(self.simulate(), "--trace")
        self.assert_refused(self.simulate("--trace", os.path.join(self.folder, "none.csv")), "none.csv", "No such file")
        self.assert_refused(self.simulate("--trace", self.folder), "cannot be read")
        self.assert_refused(self.simulate("--trace", "-", input=""), "the standard input is empty", HEADER)
        self.assert_refused(self.simulate("--trace", good, "--speed", "0"), "--speed")
        self.assert_refused(self.simulate("--trace", good, "--speed", "nan"), "--speed")
        self.assert_refused(self.simulate("--trace", good, "--places", "0"), "--places", "1 to 100000")
        self.assert_refused(self.simulate("--trace", good, "--set", "lanes=7"), "--set lanes=7", "did you mean")
        self.assert_refused(self.simulate("--trace", good, "--set", "budget.api.window=sliding"), "has no limits")
        config = self.write("b.toml", 'drain_timeout = "7"\n')
        self.assert_refused(self.simulate("--trace", good, "--config", config), "b.toml:1: drain_timeout", "30s")
        self.assert_refused(self.simulate("--trace", self.trace()), "no requests")
        bad = self.trace("0,1,1", "soon,1,1")
        self.assert_refused(self.simulate("--trace", bad), "trace.csv:3: TIMESTAMP \"soon\"", "2023-11-16 18:15:46.68")
        bad = self.trace("0,1,1,express", header=HEADER + ",LANE")
        self.assert_refused(self.simulate("--trace", bad), "trace.csv:2: LANE \"express\"", "critical, high, normal")
        bad = self.trace("0,one,1")
        self.assert_refused(self.simulate("--trace", bad), "trace.csv:2: ContextTokens \"one\"", "whole number")


class Explain(harness.Case):
    arguments = (*harness.Case.arguments, "--set", "budget.api.requests_per_minute=1", "--set",
                 "budget.api.match.service=dear")

    def explain(self, *arguments):
        return self.room.run(harness.program("lanemq"), "--broker", self.room.broker.clients, "explain", *arguments)

    def test_names_the_one_thing_that_a_job_waits_for(self):
        client = self.room.client()
        client.submit(service="nobody", id="lonely")
        client.status("lonely")
        run = self.explain("lonely")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertIn('Job lonely waits because no worker serves "nobody".\n', run.stdout)
        self.assertIn("lanemq-worker --service nobody=", run.stdout)

    def test_names_the_budget_and_when_there_may_be_room(self):
        worker = self.room.worker(services=["dear"], capacity=4)
        client = self.room.client()
        client.submit(service="dear", id="first")
        client.submit(service="dear", id="second")
        client.settled()
        worker.get("job")
        run = self.explain("second")
        self.assertEqual(run.returncode, 0)
        self.assertIn('waits for budget "api": not enough is left of its requests_per_minute; there may be in', run.stdout)
        facts = json.loads(self.explain("second", "--json").stdout)
        self.assertEqual((facts["state"], facts["blocked_by"]), ("queued", "budget api requests_per_minute"))
        self.assertGreater(facts["eta_ms"], 0)
        self.assertIn("first runs", self.explain("first").stdout)

    def test_a_job_that_nobody_knows_and_a_broker_that_is_not_there(self):
        run = self.explain("ghost")
        self.assertEqual(run.returncode, 1)
        self.assertIn("Job ghost is not known", run.stdout)
        gone = lanemq("--broker", "tcp://127.0.0.1:9", "--connect-timeout", "300ms", "explain", "ghost")
        self.assertEqual((gone.returncode, gone.stdout), (3, ""))
        self.assertEqual(lanemq("explain").returncode, 2)


class Durations(harness.Case):
    def test_they_carry_a_unit_and_the_old_spelling_says_the_new_one(self):
        nobody = ["--broker", "tcp://127.0.0.1:9"]
        old = lanemq(*nobody, "--connect-timeout-ms", "300", "ping")
        self.assertEqual(old.returncode, 3)
        self.assertIn("--connect-timeout-ms N is an old spelling; write --connect-timeout 300ms\n", old.stderr)
        self.assertIn("within 300ms", old.stderr)
        for wrong, why in (("10", "a whole number with its unit"), ("900d", "1ms..365d"), ("-1s", "unit"), ("0", "1ms..365d")):
            run = lanemq(*nobody, "submit", "--service", "echo", f"--timeout={wrong}", "x")
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn("--timeout: must be ", run.stderr)
            self.assertIn(why, run.stderr)


class Status(harness.Case):
    def does(self, *arguments):
        run = self.room.run(harness.program("lanemq"), "--broker", self.room.broker.clients, *arguments)
        self.assertEqual(run.stderr, "")
        return run.returncode, run.stdout

    def facts(self, *arguments):
        code, text = self.does(arguments[0], "--json", *arguments[1:])
        self.assertEqual(text.count("\n"), 1, text)
        document = json.loads(text)
        self.queued_ms = document.pop("queued_ms", 0)
        return code, document

    def test_is_a_line_for_people_or_json_by_the_names_of_the_protocol(self):
        worker, client = self.room.worker(name="anna"), self.room.client()
        for name, service in (("runs", "echo"), ("waits", "nobody")):
            client.submit(service=service, id=name)
        client.settled()
        worker.get("job")

        def told(name):
            # How long it has waited by then is another figure each time.
            said = {field: value for field, value in client.status(name).items() if field not in ("ref", "queued_ms")}
            return {"attempts": 0, **said}

        self.assertEqual(self.facts("status", "runs"), (0, told("runs")))
        waited = [client.status("waits").get("queued_ms", 0)]
        waits = self.facts("status", "waits")
        waited += [self.queued_ms, client.status("waits").get("queued_ms", 0)]
        self.assertEqual(waited, sorted(waited))
        self.assertEqual(waits, (0, told("waits")))
        self.assertEqual((waits[1]["state"], waits[1]["blocked_by"]), ("queued", "no worker nobody"))
        self.assertRegex(self.does("status", "waits")[1], '^waits queued .*blocked_by="no worker nobody"\n$')
        self.assertEqual(self.facts("cancel", "waits"), (0, told("waits")))
        self.assertEqual(told("waits")["error"]["code"], "cancelled")
        self.assertEqual(self.facts("status", "ghost"), (1, {"id": "ghost", "state": "unknown", "attempts": 0}))
        self.assertEqual(self.facts("cancel", "ghost"), (1, {"id": "ghost", "state": "unknown", "attempts": 0}))

    def test_takes_any_id_and_writes_it_in_one_line(self):
        client = self.room.client()
        for job, shown in ((".", "."), ("..", ".."), ("a/b", "a/b"), ("-a", "-a"), ("a\nb \x1b[31m", "a\\x0ab \\x1b[31m")):
            client.submit(service="nobody", id=job)
            client.settled()
            self.assertEqual(self.facts("status", "--", job)[1]["id"], job)
            self.assertEqual(self.does("status", "--", job), (0, shown + ' queued blocked_by="no worker nobody"\n'))
            self.assertTrue(self.does("cancel", "--", job)[1].startswith(shown + " cancelled "))


class Json(harness.Case):
    """One line for a program, whatever happened."""

    def setUp(self):
        super().setUp()
        worker = self.room.start(harness.Process(harness.program("lanemq-worker"), "--broker", self.room.broker.workers,
                                                 "--service", "echo=echo"))
        self.assertTrue(worker.line().startswith("ready"), worker.stderr())

    def asked(self, *arguments, code=0, **options):
        run = lanemq("--broker", self.room.broker.clients, *arguments, **options)
        self.assertEqual((run.returncode, run.stdout.count("\n")), (code, 1), run.stdout + run.stderr)
        return json.loads(run.stdout)

    def test_what_becomes_of_a_job(self):
        self.assertGreater(self.asked("ping", "--json")["round_trip_ms"], 0)
        submitted = self.asked("submit", "--json", "--service", "echo", "--id", "a", '{"x": 1}')
        self.assertEqual((submitted["id"], submitted["state"], submitted["result"]), ("a", "succeeded", {"x": 1}))
        self.assertEqual(self.asked("fetch", "--json", "a"), submitted)
        left = self.asked("submit", "--json", "--no-wait", "--service", "echo", "--id", "b")
        self.assertEqual((left["id"], "lane" in left), ("b", False), "the default lane is said by leaving it out")
        self.assertEqual(self.asked("submit", "--json", "--no-wait", "--service", "echo", "--lane", "high")["lane"], "high")
        refused = self.asked("submit", "--json", "--no-wait", "--service", "echo", "--lane", "nowhere", code=1)
        self.assertEqual(refused["error"]["code"], "bad_request")
        self.assertEqual(self.asked("fetch", "--json", "none", code=1)["error"]["code"], "not_found")

    def test_that_no_broker_answers(self):
        body = '{"a": 1}'
        for words in (("ping",), ("submit", "--service", "echo", body), ("submit", "--no-wait", "--service", "echo", body),
                      ("fetch", "a"), ("run", "-", "--service", "echo", "--out", "/dev/null"), ("status", "a"), ("cancel", "a"),
                      ("explain", "a"), ("limits",), ("stats",), ("bench", "--service", "echo", "-n", "1"),
                      ("--admin", "tcp://127.0.0.1:9", "lanes"), ("--admin", "tcp://127.0.0.1:9", "limits", "--model", "gpt")):
            gone = lanemq("--broker", "tcp://127.0.0.1:9", "--connect-timeout", "100ms", *words, "--json", input=body + "\n")
            self.assertEqual((gone.returncode, gone.stdout.count("\n")), (3, 1), gone.stdout + gone.stderr)
            error = json.loads(gone.stdout)["error"]
            self.assertEqual(error["code"], "unreachable")
            self.assertIn("127.0.0.1:9", error["message"])

    def test_how_a_run_of_the_standard_input_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out.jsonl")
            for before in (0, 2):
                ended = self.asked("run", "-", "--json", "--quiet", "--service", "echo", "--out", out, input='{"a": 1}\n{"a": 2}\n')
                self.assertEqual(ended, {"total": 2, "answered": 2, "before": before, "failed": 0, "failed_with": {}, "out": out})
            with open(out) as lines:
                self.assertEqual(sorted(json.loads(line)["line"] for line in lines), [1, 2])

    def test_a_run_that_cannot_say_how_it_ended_has_failed(self):
        with tempfile.TemporaryDirectory() as folder, open("/dev/full", "w") as full:
            out = os.path.join(folder, "out.jsonl")
            run = subprocess.run([harness.program("lanemq"), "--broker", self.room.broker.clients, "run", "-", "--json", "--service",
                                  "echo", "--out", out], input='{"a": 1}\n', stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertIn("cannot write to the standard output", run.stderr)
            with open(out) as lines:
                self.assertEqual([json.loads(line)["error"] for line in lines], [None])


class ManyLimits(harness.Case):
    arguments = [word for i in range(100) for word in (
        "--set", f"budget.number-{i}.requests_per_minute={i + 1}", "--set", f"budget.number-{i}.keys=a,b,c")]

    def test_come_in_as_many_answers_as_they_need(self):
        run = lanemq("--broker", self.room.broker.clients, "limits", "--json")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        document = json.loads(run.stdout)
        limits = {name: budget["requests_per_minute"]["limit"] for name, budget in document["budgets"].items()}
        self.assertEqual(limits, {f"number-{i}": i + 1 for i in range(100)})
        self.assertEqual({name: sorted(keys) for name, keys in document["keys"].items()},
                         {name: ["a", "b", "c"] for name in limits})


class Limits(harness.Case):
    arguments = (*harness.QUICK, "--set", "budget.api.requests_per_minute=600", "--set",
                 "budget.api.concurrency=4")

    def limits(self, *arguments):
        return self.room.run(harness.program("lanemq"), "--broker", self.room.broker.clients, "limits", *arguments)

    def test_shows_what_is_left_and_what_is_in_use(self):
        worker = self.room.worker(capacity=4)
        self.room.client().submit()
        worker.get("job")
        run = self.limits()
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        rows = [line.split() for line in run.stdout.splitlines()]
        self.assertEqual([row[:2] for row in rows[1:]], [["api", "requests_per_minute"], ["api", "concurrency"]])
        self.assertEqual(rows[2][2:], ["4", "3", "-", "1", "-"])
        self.assertEqual(json.loads(self.limits("--json").stdout)["budgets"]["api"]["concurrency"]["level"], 3)

    def test_a_pause_is_shown(self):
        worker = self.room.worker(capacity=4)
        self.room.client().submit()
        worker.hand_in(worker.get("job"), op="error", **{"class": "limited", "retry_after_ms": 3_600_000})
        worker.answered()
        rows = [line.split() for line in self.limits().stdout.splitlines()]
        self.assertRegex(rows[1][-1], r"^(59m\d\ds|1h00m)$")

    def test_a_model_that_is_paused_alone_is_shown(self):
        worker = self.room.worker(capacity=4)
        self.room.client().submit(model="limit")
        worker.hand_in(worker.get("job"), op="error", **{"class": "limited", "retry_after_ms": 3_600_000})
        worker.answered()
        said = self.limits().stdout
        rows = [line.split() for line in said.splitlines()]
        self.assertEqual([row[:2] for row in rows[1:4]],
                         [["api", "requests_per_minute"], ["api", "concurrency"], ["api", "model=limit"]])
        self.assertRegex(rows[3][-1], r"^(59m\d\ds|1h00m)$")
        self.assertRegex(said, r"\napi requests_per_minute: \d+ as refusals showed \S+ ago\n$")
        self.assertGreater(json.loads(self.limits("--json").stdout)["budgets"]["api"]["paused_models_ms"]["limit"], 3_500_000)

    def test_exit_codes(self):
        gone = lanemq("--broker", "tcp://127.0.0.1:9", "--connect-timeout", "300ms", "limits")
        self.assertEqual((gone.returncode, gone.stdout), (3, ""))


if __name__ == "__main__":
    unittest.main()
