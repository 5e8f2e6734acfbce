# SPDX-License-Identifier: Apache-2.0
"""`lanemq check`: what it says of real brokers, of one of an older version, and of what is no broker."""

import json
import os
import socket
import tempfile
import threading
import time
import unittest

import zmq
from msgpack import packb, unpackb

import harness

LANEMQ = ("--connect-timeout", "2s")


class OldBroker:
    """A broker of an older version: its statistics lack what later ones tell, and its clock is wrong."""

    STATS = {"version": "0.0.9", "uptime_ms": 1, "lanes": {"normal": {"oldest_ms": 5}}, "workers": {"connected": 1},
             "budgets": {}, "keys": {}, "memory_bytes": 7}

    def __init__(self, context, ahead_ms):
        self.socket = context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.endpoint = f"tcp://127.0.0.1:{self.socket.bind_to_random_port('tcp://127.0.0.1')}"
        self.ahead_ms = ahead_ms
        self.over = False
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while not self.over:
            if not self.socket.poll(20):
                continue
            *envelope, header = self.socket.recv_multipart()
            _, op, fields = unpackb(header)[:3]
            ref = {"ref": fields["ref"]} if "ref" in fields else {}
            answer = {"ping": ["LMQ1", "pong", {"now_ms": int(time.time() * 1000) + self.ahead_ms, "version": "0.0.9", **ref}],
                      "stats": ["LMQ1", "stats", {**self.STATS, **ref}]}.get(op)
            if answer:
                self.socket.send_multipart([*envelope, packb(answer)])

    def close(self):
        self.over = True
        self.thread.join()
        self.socket.close()


class Health(harness.Case):
    def check(self, *arguments, broker=None, workers=None, admin=None):
        room = self.room.broker
        done = self.room.run(harness.program("lanemq"), *LANEMQ, "--broker", broker or room.clients, "--admin", admin or room.admin,
                             "check", "--workers", workers or room.workers, "--json", *arguments)
        self.assertEqual(done.stderr, "")
        document = json.loads(done.stdout)
        self.assertEqual(done.returncode, ("fine", "warning", "critical").index(document["state"]))
        found = {}
        for row in document["checks"]:
            self.assertIn(row["state"], ("fine", "warning", "critical"))
            # Who is told that something is wrong is told what to do.
            self.assertTrue(row["state"] == "fine" or "do" in row, row)
            found.setdefault(row["check"], []).append(row)
        return document["state"], found

    def one(self, name, *arguments, **where):
        state, found = self.check(name, *arguments, **where)
        self.assertEqual(list(found), [name])
        return state, " | ".join(f'{row["says"]}; {row.get("do", "")}' for row in found[name])

    def test_a_healthy_broker_is_fine_in_every_way(self):
        self.room.worker()
        self.room.stats_when(lambda stats: stats["workers"]["connected"] == 1, "the worker")
        state, found = self.check()
        self.assertEqual(state, "fine", found)
        self.assertEqual(list(found), ["ready", "version", "clock", "store", "descriptors", "memory", "services", "upstreams",
                                       "keys", "lanes", "webhooks", "dead"])
        done = self.room.run(harness.program("lanemq"), "--broker", self.room.broker.clients, "check", "lanes", "store")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^fine +store +jobs are in memory.*\nfine +lanes +no job waits")

    def test_jobs_that_nobody_serves_and_old_ones_are_named(self):
        client = self.room.client()
        client.submit(service="nobody")
        self.room.stats_when(lambda stats: stats["unserved"] and stats["lanes"]["normal"]["oldest_ms"] > 20, "a job that waits")
        state, says = self.one("services")
        self.assertEqual(state, "critical")
        self.assertIn("no worker serves nobody (1)", says)
        self.assertIn("--service", says)
        self.assertEqual(self.one("lanes")[0], "fine")
        state, says = self.one("lanes", "--oldest", "10ms")
        self.assertEqual(state, "warning")
        self.assertIn("in normal (", says)

    def test_dead_jobs_count_for_some_time_and_are_all_looked_at(self):
        worker, client = self.room.worker(capacity=64), self.room.client()
        for number in range(150):  # more than a page
            client.submit(id=f"job-{number}")
            worker.hand_in(worker.get("job"), "error", **{"class": "permanent", "code": "bad"}, message="m")
            client.get("error")
        state, says = self.one("dead")
        self.assertEqual(state, "warning")
        self.assertIn("150 died in the last 1h00m; 150 are kept", says)
        self.room.keep_alive(0.02)
        self.assertEqual(self.one("dead", "--dead-within", "1ms")[0], "fine")
        state, says = self.one("dead", admin="tcp://127.0.0.1:1")
        self.assertEqual(state, "fine")
        self.assertIn("told to operators alone", says)

    def test_a_bound_that_is_nearly_reached_is_told_before_it_is(self):
        self.room.broker.stop()
        self.room.start_broker("--set", "memory_max=1MiB", "--set", "client_share=0", *harness.STEADY)
        client = self.room.client()
        self.assertEqual(self.one("memory")[0], "fine")
        for _ in range(17):
            client.submit(service="nobody", body=b"x" * 50_000)
        client.settled()
        state, says = self.one("memory")
        self.assertIn(state, ("warning", "critical"), says)
        self.assertIn("memory_max", says)

    def test_descriptors_are_counted(self):
        files = self.room.stats()["descriptors"]
        held = [self.room.client() for _ in range(40)]
        for client in held:
            client.settled()
        more = self.room.stats_when(lambda stats: stats["descriptors"]["used"] >= files["used"] + 40, "40 connections")
        self.assertEqual(more["descriptors"]["limit"], files["limit"])

    def test_a_store_on_a_disk_tells_its_room(self):
        with tempfile.TemporaryDirectory() as folder:
            self.room.broker.stop()
            self.room.start_broker("--store", f"sqlite:{folder}/store.db")
            room = os.statvfs(folder)
            stats = self.room.stats()["store"]
            self.assertEqual((stats["kind"], stats["state"]), ("sqlite", "good"))
            self.assertLess(abs(stats["disk_free_bytes"] - room.f_bavail * room.f_frsize), 1 << 30)
            self.assertIn("the store is good", self.one("store")[1])
            self.room.broker.stop()

    def test_an_end_that_nobody_was_told_is_named(self):
        self.room.broker.stop()
        self.room.start_broker("--store", "memory", "--set", "webhook_service=ends", "--set", "webhooks_max=1")
        client = self.room.client()
        client.submit(service="nobody", timeout_ms=10, notify="http://127.0.0.1:9/done")
        self.room.stats_when(lambda stats: stats["counters"]["webhooks_made"] == 1, "a webhook that waits")
        self.assertEqual(self.one("webhooks")[0], "fine")
        client.submit(service="nobody", timeout_ms=10, notify="http://127.0.0.1:9/done")
        self.room.stats_when(lambda stats: stats["counters"]["webhooks_refused"] == 1, "a webhook without room")
        state, says = self.one("webhooks")
        self.assertEqual(state, "warning")
        self.assertIn("1 end was told to nobody", says)
        self.assertIn("webhook.refused", says)
        self.room.broker.stop()

    def test_what_is_there_instead_of_a_broker_is_said(self):
        with socket.socket() as web, socket.socket() as nobody:
            web.bind(("127.0.0.1", 0))
            web.listen()
            nobody.bind(("127.0.0.1", 0))  # not listening

            def serve():
                while True:
                    try:
                        connection, _ = web.accept()
                    except OSError:
                        return
                    with connection:
                        connection.recv(1024)
                        connection.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")

            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            http, silent = (f"tcp://127.0.0.1:{port.getsockname()[1]}" for port in (web, nobody))
            state, says = self.one("ready", broker=http, workers=silent)
            web.shutdown(socket.SHUT_RDWR)
        self.assertEqual(state, "critical")
        self.assertIn("an HTTP server answers there", says)
        self.assertIn("nothing listens there; start lanemq-broker", says)
        # The endpoints changed places.
        state, says = self.one("ready", broker=self.room.broker.workers)
        self.assertEqual(state, "critical")
        self.assertIn("it is another endpoint", says)
        # Without a broker the rest is told once, and nothing is made up.
        state, found = self.check("version", "clock", "lanes", "dead", broker="tcp://127.0.0.1:1")
        self.assertEqual((state, list(found)), ("critical", ["version"]))

    def test_an_older_broker_is_checked_as_far_as_it_tells(self):
        old = OldBroker(self.room.context, ahead_ms=90_500)
        self.addCleanup(old.close)
        state, found = self.check("version", "clock", "store", "descriptors", "memory", "services", "lanes", "keys",
                                  broker=old.endpoint)
        self.assertEqual(state, "warning", found)
        worst = {name: rows[0]["state"] for name, rows in found.items()}
        self.assertEqual(worst, {"version": "warning", "clock": "warning", "store": "fine", "descriptors": "fine",
                                 "memory": "fine", "services": "fine", "lanes": "fine", "keys": "fine"})
        self.assertIn("1m30s ahead", found["clock"][0]["says"])
        self.assertIn("does not tell", found["store"][0]["says"])

    def test_what_is_asked_wrongly_is_wrong_usage(self):
        for words in (("check", "nonsense"), ("check", "gateway"), ("check", "--oldest", "soon")):
            done = self.room.run(harness.program("lanemq"), *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertTrue(done.stderr)


if __name__ == "__main__":
    unittest.main()
