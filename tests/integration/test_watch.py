# SPDX-License-Identifier: Apache-2.0
"""Who watches jobs: the events are all there and agree with the ends that clients saw, whoever is slow, killed or too many."""

import collections
import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import unittest
from urllib.parse import urlsplit

import zmq

import harness
from test_peer_keys import Keys

WINDOW = 1024  # docs/protocol/README.md, limits: watch_events_max
# What may stand behind each event in the life of one id.
NEXT = {
    "accepted": {"started", "moved", "ended", "queued"},
    "queued": {"started", "moved", "ended"},
    "started": {"requeued", "ended"},
    "adopted": {"requeued", "ended"},
    "requeued": {"queued", "started", "moved", "ended"},
    "moved": {"queued", "started", "moved", "ended"},
    "ended": {"redriven"},
    "redriven": {"started", "moved", "ended"},
}


class Follower:
    """One watch of a client of the harness, that confirms what it takes where it is told to."""

    def __init__(self, client, /, ref=1, confirms=True, **fields):
        self.client, self.ref, self.confirms, self.events, self.ended = client, ref, confirms, [], 0
        client.send("watch", {"ref": ref, **fields})
        answer = client.get("watching")
        assert answer.fields == {"seq": 0, "ref": ref}, answer

    def take(self):
        """Takes what is there, in order and without a hole."""
        while self.client.inbox:
            message = self.client.inbox.popleft()
            assert message.op == "event" and message.fields["ref"] == self.ref, message
            event = message.fields
            assert event["seq"] == len(self.events), (event, len(self.events))
            self.events.append(event)
            self.ended += event["what"] == "ended"
            if self.confirms and event["seq"] % 256 == 255:
                self.confirm()

    def confirm(self):
        self.client.send("seen", {"ref": self.ref, "seq": len(self.events) - 1})

    def until(self, happened, what):
        def looked():
            self.take()
            return happened()

        self.client.room.pump(looked, what)

    def of(self, job):
        return [event for event in self.events if event["id"] == job]


def legal(events):
    """Whether events of one id are a life of a job, or what is left of it."""
    whats = [event["what"] for event in events]
    return all(after in NEXT[before] for before, after in zip(whats, whats[1:]))


class Watch(harness.Case):
    arguments = (*harness.STEADY, "--set", "backoff_base=1ms", "--set", "backoff_max=5ms")

    def test_events_are_the_ends_that_clients_saw(self):
        follower = Follower(self.room.client())
        clients = [self.room.client() for _ in range(3)]
        workers = [self.room.worker(["echo"], 8, name=f"w-{i}") for i in range(3)]
        doomed = workers[-1]
        jobs = [f"job-{i}" for i in range(600)]
        unsent = collections.deque(enumerate(jobs))
        ends = {}
        handed = collections.Counter()

        def work():
            # A follower that is a window behind misses some: the jobs are less than 100 ahead of it.
            while unsent and len(jobs) - len(unsent) < follower.ended + 100:
                i, job = unsent.popleft()
                clients[i % 3].submit("echo", b"x", id=job, client=f"client-{i % 3}", lane=("high", "normal", "low")[i % 3])
            for worker in list(workers):
                while worker.inbox:
                    message = worker.inbox.popleft()
                    if message.op != "job":
                        continue
                    handed[message.fields["id"]] += 1
                    if worker is doomed and len(ends) > 100:
                        continue  # it dies with them
                    number = int(message.fields["id"].split("-")[1])
                    if number % 7 == 3:
                        worker.hand_in(message, "error", b"", **{"class": "permanent", "code": "400", "message": "no"})
                    elif number % 7 == 5 and message.fields["attempt"] < 2:
                        worker.hand_in(message, "error", b"", **{"class": "retry", "code": "500", "message": "again"})
                    else:
                        worker.echo(message)
            if len(ends) > 200 and doomed in workers and doomed.held:
                workers.remove(doomed)
                doomed.close()  # as if it had been killed: its jobs go to others
            for client in clients:
                while client.inbox:
                    message = client.inbox.popleft()
                    assert message.fields["id"] not in ends, message
                    ends[message.fields["id"]] = message
            follower.take()
            return len(ends) == len(jobs)

        self.room.pump(work, "the ends of all jobs", patience=3 * harness.PATIENCE)
        follower.until(lambda: follower.ended == len(jobs), "their events")
        lost = 0
        for i, job in enumerate(jobs):
            events = follower.of(job)
            self.assertTrue(legal(events), events)
            self.assertEqual(events[0]["what"], "accepted")
            self.assertEqual(sum(event["what"] == "ended" for event in events), 1)
            self.assertEqual((events[-1]["client"], events[-1]["lane"]), (f"client-{i % 3}", ("high", "normal", "low")[i % 3]))
            said = ends[job]
            end = {"result": "succeeded", "error": "failed"}[said.op]
            self.assertEqual((events[-1]["state"], events[-1].get("code")), (end, said.fields.get("code")), said)
            self.assertEqual(events[-1].get("attempts", 0), said.fields.get("attempts", 1))
            started = sum(event["what"] == "started" for event in events)
            self.assertGreaterEqual(started, handed[job])
            lost += sum(event.get("code") == "worker_lost" for event in events if event["what"] == "requeued")
        self.assertGreater(lost, 0, "no job was at the worker that died")
        self.assertEqual(sum(event.get("left_out", 0) for event in follower.events), 0)

    def test_what_is_followed(self):
        room = self.room
        watches = {
            "all": Follower(room.client()),
            "id": Follower(room.client(), id="b"),
            "client": Follower(room.client(), client="team"),
            "lane": Follower(room.client(), lane="low"),
            "service": Follower(room.client(), service="other"),
            "operator": Follower(room.operator(), client="team", lane="low"),
        }
        client, operator = room.client(), room.operator()
        for job, fields in (("a", {"client": "team"}), ("b", {"lane": "low"}), ("c", {"service": "other"}), ("d", {"client": "team", "lane": "low"})):
            client.send("submit", {"service": "echo", "id": job, "reply": "accepted", **fields})
            client.get("accepted")
        operator.ask("admin", {"do": "move", "id": "b", "lane": "high"}, expect="admin")
        for job in "abcd":
            client.ask("cancel", {"id": job}, expect="status")
        expected = {
            "all": "abcdbabcd", "id": "bbb", "client": "adad", "lane": "bdbd", "service": "cc", "operator": "dd",
        }
        for name, follower in watches.items():
            follower.until(lambda: len(follower.events) >= len(expected[name]), name)
            self.assertEqual("".join(event["id"] for event in follower.events), expected[name], name)
        moved = next(event for event in watches["lane"].events if event["what"] == "moved")
        self.assertEqual((moved["from_lane"], moved["lane"], moved["state"]), ("low", "high", "queued"))

    def test_a_slow_one_gets_a_gap_and_costs_no_more(self):
        slow = Follower(self.room.client(), confirms=False)
        quick = Follower(self.room.client())
        client = self.room.client()
        jobs, each = 3000, 2
        for i in range(jobs):
            client.send("submit", {"service": "none", "id": f"j{i}", "reply": "accepted"})
            client.send("cancel", {"id": f"j{i}"})
            if i % 100 == 99:
                quick.until(lambda: len(quick.events) >= each * (i - 99), "the quick one")
        quick.until(lambda: len(quick.events) == each * jobs, "all events of the quick one")
        self.assertEqual(sum(event.get("left_out", 0) for event in quick.events), 0)
        slow.until(lambda: len(slow.events) == WINDOW, "a window of the slow one")
        self.assertTrue(slow.client.silent(0.1), "more than a window")
        self.assertFalse(any(event.get("gap") for event in slow.events))
        slow.confirm()
        slow.client.settled()
        client.send("submit", {"service": "none", "id": "after", "reply": "accepted"})
        slow.until(lambda: len(slow.events) == WINDOW + 1, "the first event after the gap")
        first = slow.events[-1]
        self.assertEqual((first["id"], first["gap"], first["left_out"]), ("after", True, each * jobs - WINDOW))
        client.send("cancel", {"id": "after"})
        slow.until(lambda: len(slow.events) == WINDOW + 2, "the one behind it")
        self.assertNotIn("gap", slow.events[-1])
        counters = self.room.stats()["counters"]
        self.assertEqual(counters["events_left_out"], each * jobs - WINDOW)

    def test_ten_thousand_are_refused_beyond_the_bound(self):
        clients = [self.room.client() for _ in range(20)]
        for i, client in enumerate(clients):
            for ref in range(500):
                client.send("watch", {"ref": ref, "id": f"job-{i}-{ref}"})
            self.room.pump(lambda: len(client.inbox) == 500, "its answers")
        answers = [message for client in clients for message in client.inbox]
        self.assertEqual(sum(message.op == "watching" for message in answers), 256)
        refused = [message for message in answers if message.op == "error"]
        self.assertEqual(len(refused), 10_000 - 256)
        for message in refused:
            self.assert_error(message, "bytes_full", "256", "watchers_max")
            self.assertEqual((message.fields["limiter"], message.fields["retry_after_ms"]), ("watchers_max", 1000))
        # Whoever goes leaves room for another.
        clients[0].close()
        other = self.room.client()
        harness.wait_until(lambda: other.ask("watch", {"ref": 1}).op == "watching", "room")
        # Operators have their own.
        Follower(self.room.operator())

    def test_a_killed_follower_is_forgotten(self):
        self.room.kill()
        self.room.start_broker(*self.arguments, "--set", "watchers_max=1")
        process = subprocess.Popen(
            [harness.program("lanemq"), "--broker", self.room.broker.clients, "watch", "--json"], stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(json.loads(process.stdout.readline()), {"what": "watching", "seq": 0})
        other = self.room.client()
        self.assert_error(other.ask("watch", {"ref": 1}), "bytes_full", "watchers_max")
        other.submit("none", id="a", reply="accepted")
        other.get("accepted")
        event = json.loads(process.stdout.readline())
        self.assertEqual((event["what"], event["id"], event["state"], event["lane"]), ("accepted", "a", "queued", "normal"))
        process.kill()
        harness.wait_until(lambda: other.ask("watch", {"ref": 1}).op == "watching", "the room that it had")

    def test_the_command_prints_each_change_once(self):
        room = self.room
        command = [harness.program("lanemq"), "--broker", room.broker.clients, "watch", "--service", "echo", "-n", "3"]
        processes = [subprocess.Popen([*command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for more in ((), ("--json",))]
        for process in processes:
            self.addCleanup(process.communicate)
            self.addCleanup(process.kill)
        self.assertEqual(processes[0].stderr.readline(), "lanemq: watching\n")
        self.assertEqual(json.loads(processes[1].stdout.readline())["what"], "watching")
        client, worker = room.client(), room.worker(name="w")
        client.submit("none", id="other", reply="accepted")
        client.submit("echo", b"x", id="a")
        worker.echo(worker.get("job"))
        lines = []
        for process in processes:
            output, errors = process.communicate(timeout=harness.PATIENCE)
            self.assertEqual(process.returncode, 0, errors)
            lines.append(output.splitlines())
        self.assertEqual([line.split()[1:4] for line in lines[0]], [["accepted", "a", "queued"], ["started", "a", "running"], ["ended", "a", "succeeded"]])
        self.assertIn("worker=w", lines[0][1])
        self.assertEqual([json.loads(line)["what"] for line in lines[1]], ["accepted", "started", "ended"])
        wrong = room.run(harness.program("lanemq"), "--broker", room.broker.clients, "watch", "--lane", "none")
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("unknown lane", wrong.stderr)


class Durable(harness.Case):
    arguments = None

    def test_a_restart_is_told_and_what_runs_is_adopted(self):
        endpoints = harness.fixed_endpoints()
        with tempfile.TemporaryDirectory() as folder:
            how = (*harness.QUICK, "--store", f"sqlite:{folder}/jobs.db")
            self.room.start_broker(*how, **endpoints)
            process = subprocess.Popen(
                [harness.program("lanemq"), "--broker", endpoints["clients"], "watch", "--json"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )
            self.addCleanup(process.communicate)
            self.addCleanup(process.kill)
            line = lambda: json.loads(process.stdout.readline())
            self.assertEqual(line()["what"], "watching")
            client, worker = self.room.client(), self.room.worker(capacity=1)
            client.submit("echo", b"x", id="a", reply="accepted")
            job = worker.get("job")
            self.assertEqual([line()["what"] for _ in range(2)], ["accepted", "started"])
            self.room.broker.kill()
            self.room.start_broker(*how, **endpoints)
            again = line()
            self.assertEqual((again["what"], again["gap"], again["seq"]), ("watching", True, 0))
            worker.introduce_again()
            worker.heartbeats = True
            worker.say_heartbeat()
            worker.echo(job)
            events = [line() for _ in range(2)]
            self.assertEqual([(event["what"], event["state"]) for event in events], [("adopted", "running"), ("ended", "succeeded")])


class Tenants(harness.Case):
    def setUp(self):
        self.keys = Keys()
        self.addCleanup(self.keys.room.cleanup)
        for name, role, tenant in (("alice", "client", "red"), ("bob", "gateway", "red"), ("carol", "client", "blue"), ("dave", "client", "")):
            self.keys.add(name, role, **({"tenant": f'"{tenant}"'} if tenant else {}))
        self.arguments = (*harness.STEADY, *self.keys.arguments(), "--set", "watchers_max=12")
        super().setUp()

    def client(self, name):
        return harness.Client(self.room, zmq.DEALER, self.room.broker.clients, self.keys.options(name))

    def test_a_key_sees_its_own_name_space_alone(self):
        seen = {name: Follower(self.client(name)) for name in ("alice", "bob", "carol", "dave")}
        named = Follower(self.client("carol"), id="job")
        others = Follower(self.client("bob"), client="alice")
        operator = Follower(self.room.operator())
        for name in ("alice", "carol", "dave"):
            client = self.client(name)
            client.send("submit", {"service": "echo", "id": "job", "reply": "accepted"})
            client.get("accepted")
        operator.until(lambda: len(operator.events) == 3, "all of them")
        self.assertEqual(
            [(event["id"], event["client"]) for event in operator.events],
            [("@red/job", "@red/alice"), ("@blue/job", "@blue/carol"), ("job", "dave")],
        )
        for name, who in (("alice", "alice"), ("bob", "alice"), ("carol", "carol"), ("dave", "dave")):
            seen[name].until(lambda: seen[name].events, "an event")
            seen[name].client.settled()
            seen[name].take()
            self.assertEqual([(event["id"], event["client"]) for event in seen[name].events], [("job", who)], name)
        for follower, who in ((named, "carol"), (others, "alice")):
            follower.until(lambda: follower.events, "an event")
            self.assertEqual([(event["id"], event["client"]) for event in follower.events], [("job", who)])
        for field in ("id", "client"):
            self.assert_error(seen["dave"].client.ask("watch", {"ref": 2, field: "@red/job"}), "bad_request", "@")
        # A tenant has a quarter of the watches at most.
        self.assert_error(self.client("alice").ask("watch", {"ref": 1}), "client_full", "tenant")

    def test_a_key_that_is_taken_back_watches_no_more(self):
        carol = Follower(self.client("carol"))
        operator = Follower(self.room.operator())
        os.remove(self.keys.path("carol"))
        self.room.broker.signal(signal.SIGHUP)
        message = carol.client.get("error")
        self.assertEqual(message.fields["code"], "unauthorized")
        client = self.client("alice")
        client.send("submit", {"service": "echo", "id": "x", "reply": "accepted"})
        client.get("accepted")
        operator.until(lambda: operator.events, "the job's event")
        self.assertTrue(carol.client.silent(0.1))


class Events:
    """A reader of server-sent events."""

    def __init__(self, url, path, status=200, **headers):
        at = urlsplit(url)
        self.connection = http.client.HTTPConnection(at.hostname, at.port, timeout=harness.PATIENCE)
        self.connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        self.answer = self.connection.getresponse()
        assert self.answer.status == status, (self.answer.status, self.answer.read())

    def next(self):
        """The next event's id, kind and data."""
        said = {}
        while True:
            line = self.answer.readline().decode().rstrip("\n")
            if not line and "data" in said:
                return said.get("id"), said.get("event"), json.loads(said["data"])
            if ": " in line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                said[name] = value

    def close(self):
        self.answer.close()
        self.connection.close()


class Http(harness.Case):
    arguments = ("--http", "127.0.0.1:0", *harness.STEADY)

    def test_changes_come_as_server_sent_events(self):
        events = Events(self.room.broker.http, "/v1/watch?service=echo&client=team")
        self.addCleanup(events.close)
        self.assertEqual(events.answer.getheader("content-type"), "text/event-stream")
        client, worker = self.room.client(), self.room.worker(name="w")
        client.submit("none", id="other", client="team", reply="accepted")
        client.submit("echo", b"x", id="a", client="team")
        worker.echo(worker.get("job"))
        got = [events.next() for _ in range(3)]
        self.assertEqual([(number, kind) for number, kind, _ in got], [("0", "job"), ("1", "job"), ("2", "job")])
        self.assertEqual([(data["what"], data["id"]) for _, _, data in got], [("accepted", "a"), ("started", "a"), ("ended", "a")])
        self.assertNotIn("ref", got[0][2])

    def test_who_comes_back_is_told_what_is_missing(self):
        events = Events(self.room.broker.http, "/v1/watch", last_event_id="41")
        self.addCleanup(events.close)
        _, kind, data = events.next()
        self.assertEqual((kind, data["after"]), ("gap", "41"))
        self.room.client().submit("echo", b"x", id="a")
        self.assertEqual(events.next()[2]["id"], "a")

    def test_what_is_wrong_is_refused_and_readers_are_bounded(self):
        for path, said in (("/v1/watch?lane=none", "unknown lane"), ("/v1/watch?color=red", "color"), (f"/v1/watch?id={'x' * 200}", "id")):
            refused = Events(self.room.broker.http, path, status=400)
            self.assertIn(said, json.loads(refused.answer.read())["error"]["message"])
            refused.close()
        readers = [Events(self.room.broker.http, "/v1/watch") for _ in range(32)]
        refused = Events(self.room.broker.http, "/v1/watch", status=503)
        self.assertIn("32", json.loads(refused.answer.read())["error"]["message"])
        refused.close()
        for reader in readers:
            reader.close()

        def another():
            try:
                Events(self.room.broker.http, "/v1/watch").close()
                return True
            except AssertionError:
                return False

        harness.wait_until(another, "room for a reader")

    def test_a_reader_that_does_not_read_holds_nobody_up(self):
        at = urlsplit(self.room.broker.http)
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect((at.hostname, at.port))
        slow.settimeout(harness.PATIENCE)
        self.addCleanup(slow.close)
        slow.sendall(b"GET /v1/watch HTTP/1.1\r\nHost: localhost\r\n\r\n")
        text = b""
        while b"retry:" not in text:
            text += slow.recv(1024)
        quick = Events(self.room.broker.http, "/v1/watch")
        self.addCleanup(quick.close)
        client, jobs = self.room.client(), 6_000
        for i in range(jobs):
            client.send("submit", {"service": "none", "id": f"{i:0120}", "reply": "accepted"})
            if i % 500 == 499:
                for number in range(i - 499, i + 1):
                    _, kind, data = quick.next()
                    self.assertEqual((kind, data["id"], data.get("left_out")), ("job", f"{number:0120}", None))
        seen, text = [], b""

        def read_all(until):
            nonlocal text
            while True:
                *whole, text = text.split(b"\n")
                seen.extend(json.loads(line[6:]) for line in whole if line.startswith(b"data: "))
                if until(seen):
                    return
                try:
                    text += slow.recv(1 << 20)
                except TimeoutError:
                    return

        slow.settimeout(1)  # for what comes no more: nothing tells of it
        read_all(lambda seen: False)
        self.assertLess(len(seen), jobs)
        self.assertFalse(any("gap" in data for data in seen))
        slow.settimeout(harness.PATIENCE)
        client.send("submit", {"service": "none", "id": "last", "reply": "accepted"})
        read_all(lambda seen: seen[-1]["id"] == "last")
        self.assertEqual((seen[-1]["gap"], seen[-1]["left_out"]), (True, jobs + 1 - len(seen)))


if __name__ == "__main__":
    unittest.main()
