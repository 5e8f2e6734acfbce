# SPDX-License-Identifier: Apache-2.0
"""Groups of jobs at real programs: who follows one hears once that it is over, by each way to follow, and after a kill."""

import json
import os
import signal
import subprocess
import tempfile
import unittest
import urllib.request

import zmq

import harness
from test_durable import DurableCase
from test_peer_keys import Keys


def over(event):
    """The counts of a group that is over; None for any other event."""
    if event["what"] != "group_over":
        return None
    return {name: event[name] for name in ("succeeded", "failed", "cancelled", "expired", "died") if event.get(name)}


class Groups(harness.Case):
    arguments = (*harness.STEADY, "--http", "127.0.0.1:0")

    def lanemq(self, *words, to="clients", code=0, stdin=None):
        endpoint = getattr(self.room.broker, to)
        done = subprocess.run([harness.program("lanemq"), *words, "--broker" if to == "clients" else "--admin", endpoint],
                              input=stdin, capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout

    def echoing(self):
        worker = self.room.start(harness.Process(harness.program("lanemq-worker"), "--broker", self.room.broker.workers, "--service",
                                                 "echo=echo", "--capacity", "8"))
        return worker

    def follow(self, *words):
        follower = self.room.start(harness.Process(harness.program("lanemq"), "--broker", self.room.broker.clients, "watch", "--json",
                                                   *words))
        self.assertEqual(json.loads(follower.line())["what"], "watching")
        return follower

    def test_a_file_of_jobs_is_one_group_whatever_is_in_flight_at_once(self):
        follower = self.follow("--group", "file")
        self.echoing()
        file = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "lines.jsonl")
        with open(file, "w", encoding="ascii") as lines:
            for i in range(200):
                lines.write(f'{{"custom_id":"c{i}","body":{{"n":{i}}}}}\n' if i != 100 else '{"custom_id":"broken"}\n')
        self.lanemq("run", file, "--service", "echo", "--group", "file", "--window", "2", "--quiet", code=1)

        ends, last = 0, None
        while last is None:
            event = json.loads(follower.line())
            self.assertEqual(event["group"], "file")
            ends += event["what"] == "ended"
            last = over(event)
        # The line that is no job is none of the group's.
        self.assertEqual((ends, last), (199, {"succeeded": 199}))
        refused = subprocess.run([harness.program("lanemq"), "run", file, "--service", "echo", "--group", "x", "--retries", "1"],
                                 capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(refused.returncode, 2, refused.stderr)

    def test_how_far_a_file_is_stands_in_the_figures(self):
        worker = self.room.worker(services=["chat"], capacity=4)
        run = self.room.start(harness.Process(harness.program("lanemq"), "--broker", self.room.broker.clients, "run", "-", "--out",
                                              "/dev/null", "--service", "chat", "--window", "4", stdin=subprocess.PIPE))
        run.process.stdin.write('{"n":1}\n' * 10)
        run.process.stdin.close()
        jobs = [worker.get("job") for _ in range(4)]
        (name, group), = self.room.stats()["groups"].items()
        self.assertRegex(name, "^stdin-[0-9a-f]{8}$")
        self.assertEqual({**group, "age_ms": 0}, {"size": 10, "open": 4, "succeeded": 0, "failed": 0, "cancelled": 0, "expired": 0, "age_ms": 0})
        worker.hand_in(jobs[0], body=b"{}")
        self.room.stats_when(lambda stats: stats["groups"][name]["succeeded"] == 1, "its end")
        self.assertIn("left_ms", self.room.stats_when(lambda stats: stats["groups"][name]["open"] == 4, "the next job")["groups"][name])
        self.assertIn(name, self.lanemq("stats"))
        self.assertIn(name, self.lanemq("top", to="admin"))
        with urllib.request.urlopen(self.room.broker.http + "/v1/stats", timeout=harness.PATIENCE) as answer:
            self.assertEqual(list(json.load(answer)["groups"]), [name])
        run.signal(signal.SIGINT)
        self.assertEqual(run.wait(), 128 + signal.SIGINT)

    def test_programs_and_people_see_the_group(self):
        for job in ("a", "b"):
            self.lanemq("submit", "--service", "echo", "--no-wait", "--id", job, "--group", "report", "--group-size", "3", "x")
        self.lanemq("submit", "--service", "echo", "--no-wait", "--id", "other", "x")
        self.assertRegex(self.lanemq("status", "a"), r" group=report\b")
        self.assertEqual(json.loads(self.lanemq("status", "a", "--json"))["group"], "report")
        rows = json.loads(self.lanemq("jobs", "--group", "rep*", "--json", to="admin"))["jobs"]
        self.assertEqual(sorted(row["id"] for row in rows), ["a", "b"])
        self.assertEqual({row["group"] for row in rows}, {"report"})
        self.assertEqual(json.loads(self.lanemq("job", "a", "--json", to="admin"))["group"], "report")
        with urllib.request.urlopen(self.room.broker.http + "/v1/jobs?group=report", timeout=harness.PATIENCE) as answer:
            self.assertEqual(len(json.load(answer)["jobs"]), 2)
        done = subprocess.run([harness.program("lanemq"), "submit", "--broker", self.room.broker.clients, "--service", "echo",
                               "--no-wait", "--group", "report", "--group-size", "9", "x"],
                              capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(done.returncode, 1)
        self.assertIn('group "report" has group_size 3, and this job says 9', done.stderr)

        people = self.room.start(harness.Process(harness.program("lanemq"), "--broker", self.room.broker.clients, "watch", "--group",
                                                 "report"))
        stream = urllib.request.urlopen(self.room.broker.http + "/v1/watch?group=report", timeout=harness.PATIENCE)
        self.addCleanup(stream.close)
        self.lanemq("submit", "--service", "echo", "--no-wait", "--id", "c", "--group", "report", "x")
        self.lanemq("cancel", "c")
        self.echoing()
        while True:
            line = stream.readline().decode()
            if line.startswith("data: ") and (counts := over(json.loads(line[6:]))):
                break
        self.assertEqual(counts, {"succeeded": 2, "cancelled": 1})
        while "group_over" not in (line := people.line()):
            pass
        self.assertRegex(line, r"group_over +report succeeded=2 cancelled=1")
        self.assertEqual(self.room.stats()["counters"]["groups_over"], 1)


class DurableGroups(DurableCase):
    def test_a_group_is_over_as_if_its_broker_had_not_been_killed(self):
        client, worker = self.client(), self.worker(capacity=2)
        for number in range(5):
            client.submit(id=f"job-{number}", group="g", group_size=5, reply="accepted")
            client.get("accepted")
        for _ in range(2):
            worker.echo(worker.get("job"))
        harness.wait_until(lambda: client.ask("status", {"id": "job-1"}).fields["state"] == "succeeded", "two ends")
        held = [worker.get("job"), worker.get("job")]
        self.kill_and_start()

        worker.introduce_again()
        worker.say_heartbeat()
        worker.heartbeats = True
        follower = self.client()
        follower.send("watch", {"ref": 1, "group": "g"})
        follower.get("watching")
        for job in held:
            worker.echo(job)
        worker.echo(worker.get("job"))
        while (counts := over(follower.get("event").fields)) is None:
            pass
        self.assertEqual(counts, {"succeeded": 5})
        # Killed right behind the end: whoever missed it hears of it again.
        self.kill_and_start(follower)
        late = self.client()
        late.send("watch", {"ref": 7, "group": "g"})
        late.get("watching")
        self.assertEqual(over(late.get("event").fields), {"succeeded": 5})


class GroupsOfTenants(harness.Case):
    arguments = None

    def test_two_tenants_have_a_group_of_one_name_each(self):
        keys = Keys()
        self.addCleanup(keys.room.cleanup)
        for name in ("acme", "rival"):
            keys.add(name, "client", tenant=f'"{name}"')
            keys.add(f"gate-{name}", "gateway", tenant=f'"{name}"')
        self.room.start_broker(*keys.arguments())
        ours, theirs = (harness.Client(self.room, zmq.DEALER, self.room.broker.clients, keys.options(name)) for name in ("acme", "rival"))
        for peer in (ours, theirs):
            peer.send("watch", {"ref": 1, "group": "g"})
            peer.get("watching")
        ours.submit("nobody", id="a", group="g", reply="accepted")
        events = [ours.get("accepted").fields, ours.get("event").fields]
        self.assertEqual([(events[0]["id"]), events[1]["group"]], ["a", "g"])
        ours.send("cancel", {"id": "a"})
        events = [ours.get("event").fields, ours.get("event").fields]
        self.assertEqual([(event["what"], event["group"]) for event in events], [("ended", "g"), ("group_over", "g")])
        theirs.silent(0.3)
        ours.submit("nobody", id="b", group="h", group_size=2, reply="accepted")
        while ours.get().op != "accepted":
            pass
        seen = {name: list(harness.Client(self.room, zmq.DEALER, self.room.broker.clients, keys.options(f"gate-{name}"))
                           .ask("stats").fields["groups"]) for name in ("acme", "rival")}
        self.assertEqual(seen, {"acme": ["h"], "rival": []})
        self.assertEqual(list(self.room.operator().ask("stats").fields["groups"]), ["@acme/h"])
        for name in ("@acme/g", "g" * 128, "g" * 200):
            theirs.send("submit", {"service": "s", "group": name})
            self.assert_error(theirs.get("error"), "bad_request", "group")


if __name__ == "__main__":
    unittest.main()
