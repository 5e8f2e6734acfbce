# SPDX-License-Identifier: Apache-2.0
"""Jobs that are on disk: what a broker knows again after a kill or a stop, one file for one broker, backups, a full
disk. What only many kills show is kill_broker.py's."""

import itertools
import json
import os
import signal
import sqlite3
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

import zmq

import harness

RECONNECT = ((zmq.RECONNECT_IVL, 10),)


class DurableCase(harness.Case):
    """A broker that can be started again on its file and its ports."""

    arguments = None
    settings = ()

    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="lanemq-durable-"))
        self.store = os.path.join(self.folder, "lanemq.db")
        self.endpoints = harness.fixed_endpoints()
        self.start()

    def start(self):
        settings = [word for setting in (f"heartbeat={harness.HEARTBEAT_MS}ms", *self.settings)
                    for word in ("--set", setting)]
        return self.room.start_broker("--store", f"sqlite:{self.store}", *settings, **self.endpoints)

    def kill_and_start(self, *dying_with_it):
        """Those peers are gone when the broker starts again; the one that was killed never learnt of it."""
        self.room.broker.kill()
        for peer in dying_with_it:
            peer.close()
        return self.start()

    def client(self):
        return self.room.client(options=RECONNECT)

    def worker(self, **fields):
        return self.room.worker(options=RECONNECT, **fields)

    def broker_that_ends(self, *arguments):
        done = subprocess.run([harness.program("lanemq-broker"), *arguments], capture_output=True, text=True,
                              timeout=harness.PATIENCE)
        return done.returncode, done.stdout + done.stderr


class Restart(DurableCase):
    def test_jobs_come_back_in_their_order(self):
        client = self.client()
        for number in range(100):
            client.submit(id=f"job-{number}", body=b"%d" % number, reply="accepted")
        for _ in range(100):
            self.assertTrue(client.get("accepted").fields["durable"])

        self.assertNotIn("store.jobs_left", self.room.broker.stderr())
        self.kill_and_start()
        self.assertIn("store.jobs_left jobs=100", self.room.broker.stderr())
        worker, order = self.worker(), []
        for _ in range(100):
            job = worker.get("job")
            order.append(job.fields["id"])
            worker.echo(job)

        self.assertEqual(order, [f"job-{number}" for number in range(100)])
        answer = client.ask("fetch", {"id": "job-99", "wait_ms": 10_000}, expect="result")
        self.assertEqual(answer.body, b"99")

    def test_answers_are_kept_and_ids_still_mean_their_jobs(self):
        client, worker = self.client(), self.worker()
        client.submit(id="a", body=b"x")
        worker.echo(worker.get("job"))
        first = client.get("result")
        worker.answered()

        self.kill_and_start()
        client.submit(id="a", body=b"x", reply="both")

        self.assertTrue(client.get("accepted").fields["duplicate"])
        self.assertEqual(client.get("result")._replace(inside=first.inside), first)
        client.submit(id="a", body=b"y")
        self.assert_error(client.get(), "conflict")

    def test_a_running_job_stays_with_its_worker(self):
        client, worker = self.client(), self.worker()
        client.submit(id="a", body=b"x", reply="accepted")
        client.get("accepted")
        job = worker.get("job")

        self.kill_and_start()
        worker.introduce_again()
        worker.say_heartbeat()
        worker.heartbeats = True
        self.room.stats_when(lambda stats: stats["lanes"]["normal"]["running"] == 1, "the job's adoption")
        worker.echo(job)

        self.assertEqual(client.ask("fetch", {"id": "a", "wait_ms": 10_000}, expect="result").body, b"x")
        worker.answered()
        self.assertEqual((worker.stale, len(worker.inbox)), ([], 0))

    def test_a_running_job_whose_worker_is_gone_too_runs_again_at_no_cost(self):
        client, worker = self.client(), self.worker()
        client.submit(id="a", body=b"x", reply="accepted")
        client.get("accepted")
        worker.get("job")

        self.kill_and_start(worker)
        again = self.worker().get("job")

        self.assertEqual((again.fields["id"], again.fields["attempt"], again.body), ("a", 2, b"x"))
        self.assertEqual(client.status("a")["attempts"], 1)

    def test_time_goes_on_while_there_is_no_broker(self):
        client = self.client()
        client.submit(id="late", service="nobody", timeout_ms=300, reply="accepted")
        client.submit(id="delayed", delay_ms=300, reply="accepted")
        client.get("accepted"), client.get("accepted")

        self.kill_and_start()

        self.assertEqual(self.worker().get("job").fields["id"], "delayed")
        self.assert_error(client.ask("fetch", {"id": "late", "wait_ms": 10_000}), "deadline")

    def test_a_dead_job_can_still_be_run_again(self):
        client, worker = self.client(), self.worker()
        client.submit(id="a", body=b"x")
        worker.hand_in(worker.get("job"), "error", b"no", **{"class": "permanent", "message": "bad prompt"})
        self.assert_error(client.get(), "upstream_rejected", "bad prompt")
        worker.answered()
        worker.close()

        self.kill_and_start()
        operator = self.room.operator()
        rows = operator.ask("admin", {"do": "dead"}, expect="admin").fields["dead"]
        self.assertEqual([row["id"] for row in rows], ["a"])
        operator.ask("admin", {"do": "redrive", "id": "a"}, expect="admin")

        self.assertEqual(self.worker().get("job").body, b"x")


class FilesAreGone(DurableCase):
    """The store's files are removed, or moved, while the broker has them open."""

    def start(self):
        return self.room.start_broker("--store", f"sqlite:{self.store}", "--http", "127.0.0.1:0", *harness.STEADY, **self.endpoints)

    def ready(self):
        try:
            with urllib.request.urlopen(f"{self.room.broker.http}/readyz", timeout=harness.PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def submit(self, client, id, **fields):
        client.submit(id=id, service="nobody", reply="accepted", **fields)
        return client.get()

    def refused(self, client):
        """The refusal; until the broker sees that its files are gone it takes jobs."""
        numbers = itertools.count()
        return harness.wait_until(lambda: (answer := self.submit(client, f"probe-{next(numbers)}")).op == "error" and answer,
                                  "a refusal", pause=0.05)

    def test_no_durable_job_is_taken_and_what_is_open_can_be_saved(self):
        client, saved = self.client(), os.path.join(self.folder, "saved.db")
        self.assertTrue(self.submit(client, "before").fields["durable"])
        for of in ("", "-wal", "-mark"):
            os.remove(self.store + of)

        self.assert_error(self.refused(client), "unavailable", "removed or replaced")

        self.assertRegex(self.room.broker.stderr(), f'error store.gone store=sqlite reason=".*{self.store} is not there any more.*lanemq backup')
        status, text = harness.wait_until(lambda: (answer := self.ready())[0] == 503 and answer, "that it is not ready")
        self.assertIn("store: gone (its files were removed or replaced; lanemq backup", text)
        self.assertEqual(self.submit(client, "in-memory", durable=False).op, "accepted")
        done = self.room.run(harness.program("lanemq"), "--admin", self.room.broker.admin, "backup", saved)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.room.broker.stop(), 0)
        os.rename(saved, self.store)
        self.start()
        self.assertEqual(client.status("before")["state"], "queued")

    def test_it_goes_on_when_they_are_back(self):
        client = self.client()
        self.submit(client, "before")
        os.rename(self.store, self.store + "-away")
        self.refused(client)

        os.rename(self.store + "-away", self.store)

        harness.wait_until(lambda: self.submit(client, "after").op == "accepted", "that jobs are taken", pause=0.05)
        self.assertIn("info store.back store=sqlite", self.room.broker.stderr())
        harness.wait_until(lambda: self.ready()[0] == 200, "that it is ready")
        self.kill_and_start()
        self.assertEqual([client.status(id)["state"] for id in ("before", "after")], ["queued", "queued"])


class Programs(DurableCase):
    """`lanemq run` and `lanemq-worker` by themselves, over brokers that are killed under them."""

    def test_a_file_is_answered_line_by_line_whatever_becomes_of_the_broker(self):
        count, kills = 400, 3
        file, out = os.path.join(self.folder, "in.jsonl"), os.path.join(self.folder, "out.jsonl")
        with open(file, "w") as lines:
            for number in range(count):
                lines.write(json.dumps({"custom_id": f"line-{number}", "method": "POST", "url": "/v1/chat/completions",
                                        "body": {"messages": [{"role": "user", "content": str(number)}]}}) + "\n")
        worker = self.room.start(harness.Process(
            harness.program("lanemq-worker"), "--broker", self.room.broker.workers, "--service", "chat=echo:10ms",
            "--capacity", "8"))
        self.assertTrue(worker.line().startswith("ready"))
        run = self.room.start(harness.Process(
            harness.program("lanemq"), "--broker", self.room.broker.clients, "run", file, "--service", "chat", "--lane",
            "batch", "--window", "16", "--out", out))

        def answers():
            if not os.path.exists(out):
                return []
            with open(out) as lines:
                return [line for line in lines if line.endswith("\n")]

        for kill in range(1, kills + 1):
            harness.wait_until(lambda: len(answers()) >= kill * count // (kills + 2), "some answers")
            self.kill_and_start()

        self.assertEqual(run.wait(max(60, harness.PATIENCE)), 0, run.stderr())
        said = [json.loads(line) for line in answers()]
        self.assertEqual(sorted(line["custom_id"] for line in said), sorted(f"line-{number}" for number in range(count)))
        for line in said:
            self.assertIsNone(line["error"])
            content = line["response"]["body"]["messages"][0]["content"]
            self.assertEqual(line["custom_id"], f"line-{content}")


class Wish(DurableCase):
    def start(self):
        config = os.path.join(self.folder, "broker.toml")
        with open(config, "w") as file:
            file.write('[[lane]]\nname = "fast"\ndurable = false\n[[lane]]\nname = "safe"\ndefault = true\n')
        return self.room.start_broker("--store", f"sqlite:{self.store}", "--config", config, **self.endpoints)

    def test_the_lane_says_what_is_durable_and_a_submit_may_say_otherwise(self):
        client = self.client()
        said = {}
        for lane in ("fast", "safe"):
            for wish in (None, True, False):
                name = f"{lane} {wish}"
                client.submit(id=name, lane=lane, reply="accepted", **({} if wish is None else {"durable": wish}))
                said[name] = client.get("accepted").fields.get("durable", False)
        self.assertEqual(said, {"fast None": False, "fast True": True, "fast False": False,
                                "safe None": True, "safe True": True, "safe False": False})

        self.kill_and_start()

        self.assertEqual({name: client.status(name)["state"] for name in said},
                         {name: "queued" if durable else "unknown" for name, durable in said.items()})


class OneBroker(DurableCase):
    def test_a_second_broker_is_refused_by_the_name_of_the_file(self):
        code, said = self.broker_that_ends("--store", f"sqlite:{self.store}", "--clients", "tcp://127.0.0.1:*",
                                           "--workers", "tcp://127.0.0.1:*", "--admin", "tcp://127.0.0.1:*")

        self.assertEqual(code, 4, said)
        self.assertIn(self.store, said)
        self.assertIn("another process", said)
        client = self.client()  # who was first goes on
        client.submit(id="a", reply="accepted")
        client.get("accepted")
        self.assertEqual(client.status("a")["state"], "queued")

    def test_a_newer_file_is_refused_and_left_as_it_is(self):
        self.client().settled()
        self.assertEqual(self.room.broker.stop(), 0)
        file = sqlite3.connect(self.store)
        version = file.execute("PRAGMA user_version").fetchone()[0]
        file.execute(f"PRAGMA user_version = {version + 1}")
        file.close()

        code, said = self.broker_that_ends("--store", f"sqlite:{self.store}")

        self.assertEqual(code, 4, said)
        self.assertIn(self.store, said)
        self.assertIn(f"a newer version of the broker has written it (schema {version + 1}, this one knows {version})", said)
        self.assertIn("start the newer version, or restore a backup", said)
        file = sqlite3.connect(self.store)
        self.assertEqual(file.execute("PRAGMA user_version").fetchone()[0], version + 1)
        file.close()


class Loss(DurableCase):
    def refused(self):
        """The broker and its check refuse the store, and leave it as it is."""
        def contents():
            return {name: os.path.getsize(os.path.join(self.folder, name)) for name in os.listdir(self.folder)
                    if not name.endswith("-wal")}
        before = contents()
        for arguments in ((), ("--check-store",)):
            code, said = self.broker_that_ends(*arguments, "--store", f"sqlite:{self.store}")
            self.assertEqual(code, 4, said)
            self.assertIn(self.store, said)
        self.assertEqual(contents(), before)

    def test_a_store_that_lost_its_log_or_its_file_is_not_taken_for_a_new_one(self):
        client = self.client()
        client.submit(id="a", reply="accepted")
        client.get("accepted")
        self.room.broker.kill()
        log, aside = self.store + "-wal", os.path.join(self.folder, "aside")
        os.rename(log, aside)
        self.refused()
        open(log, "w").close()
        self.refused()

        os.replace(aside, log)
        self.start()
        self.assertEqual(self.client().status("a")["state"], "queued")

        self.assertEqual(self.room.broker.stop(), 0)
        os.rename(self.store, aside)
        self.refused()
        open(self.store, "w").close()
        self.refused()
        os.replace(aside, self.store)
        self.start()
        self.assertEqual(self.client().status("a")["state"], "queued")


class StandStill(DurableCase):
    def test_a_broker_that_was_stopped_for_long_takes_no_worker_for_dead(self):
        client, worker = self.client(), self.worker(capacity=8)
        for number in range(8):
            client.submit(id=f"job-{number}", body=b"%d" % number)
        jobs = [worker.get("job") for _ in range(8)]

        self.room.broker.signal(signal.SIGSTOP)
        self.room.keep_alive(3.0)
        self.room.broker.signal(signal.SIGCONT)
        # Past the time at which it would have been lost, had the pause counted.
        self.room.keep_alive(4 * harness.HEARTBEAT_MS / 1000)

        stats = self.room.stats()
        self.assertEqual((stats["workers"]["lost"], stats["lanes"]["normal"]["requeued"]), (0, 0))
        self.assertIn("broker.stood_still", self.room.broker.stderr())
        for job in jobs:
            worker.echo(job)
        self.assertEqual({client.get("result").fields["id"] for _ in jobs}, {f"job-{number}" for number in range(8)})
        self.assertEqual(worker.stale, [])


class Backup(DurableCase):
    def backup(self, *arguments):
        return self.room.run(harness.program("lanemq"), "--admin", self.room.broker.admin, "backup", *arguments)

    def test_a_copy_is_made_while_work_goes_on_and_a_broker_goes_on_with_it(self):
        copy = os.path.join(self.folder, "copy.db")
        client, worker = self.client(), self.worker(capacity=4)
        for number in range(20):
            client.submit(id=f"waits-{number}", service="nobody", body=b"%d" % number, reply="accepted")
            client.get("accepted")
        echoed = []

        def echo(message):
            type(worker).take(worker, message)
            if message.op == "job":
                worker.inbox.pop()
                worker.echo(message)
                echoed.append(message.fields["id"])
                client.submit(id=f"more-{len(echoed)}", body=bytes(5000))

        worker.take = echo
        client.submit(id="more-0", body=bytes(5000))
        self.room.pump(lambda: len(echoed) > 20, "work")
        before = len(echoed)

        done = self.backup(copy)

        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"the store is copied to {copy}\n", ""))
        self.room.pump(lambda: len(echoed) > before, "more work")
        code, said = self.broker_that_ends("--check-store", "--store", f"sqlite:{copy}")
        self.assertEqual(code, 0, said)
        self.room.broker.kill()
        restored = self.room.start_broker("--store", f"sqlite:{copy}")
        asker = self.room.client()
        for number in range(20):
            self.assertEqual(asker.status(f"waits-{number}")["state"], "queued")
        for number in range(10):
            self.assertEqual(asker.ask("fetch", {"id": f"more-{number}"}, expect="result").body, bytes(5000))
        self.assertEqual(restored.stop(), 0)

    def test_a_folder_that_is_not_there_is_the_operators_slip(self):
        done = self.backup("/no/such/folder/copy.db")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "bad_request: .*No such file or directory; name a file in a folder")

    def test_no_file_is_replaced_and_the_path_may_be_relative(self):
        copy = os.path.join(self.folder, "copy.db")
        done = self.backup("--json", os.path.relpath(copy))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["path"], copy)

        done = self.backup(copy)

        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("there is such a file", done.stderr)

    def test_memory_cannot_be_copied(self):
        self.room.broker.kill()
        self.room.start_broker()

        done = self.backup(os.path.join(self.folder, "copy.db"))

        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("memory", done.stderr)


class DiskFull(DurableCase):
    settings = ("store_reserve=2MiB",)

    def start(self):
        if not os.path.ismount(self.folder):
            mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", self.folder],
                                     capture_output=True, text=True)
            if mounted.returncode != 0:
                self.skipTest(f"no small disk can be mounted here: {mounted.stderr.strip()}")
            self.addCleanup(subprocess.run, ["umount", "--lazy", self.folder], check=True)
            self.filler = os.path.join(self.folder, "filler")
            with open(self.filler, "wb") as file:
                file.write(bytes(6 << 20))
        return super().start()

    def test_durable_jobs_are_refused_and_what_runs_ends_until_there_is_room(self):
        client, worker = self.client(), self.worker()
        client.submit(id="runs", body=b"x", reply="both")
        client.get("accepted")
        job = worker.get("job")

        accepted = self.fill(client)
        self.assertGreater(accepted, 10)
        worker.hand_in(job, body=bytes(3000))
        self.assertEqual(client.get("result").body, bytes(3000))
        client.submit(id="memory", service="nobody", durable=False, reply="accepted")
        self.assertFalse(client.get("accepted").fields.get("durable", False))
        os.remove(self.filler)
        self.until_accepted(client)

        self.kill_and_start()
        self.assertEqual(client.ask("fetch", {"id": "runs"}, expect="result").body, bytes(3000))
        self.assertEqual({client.status(f"waits-{number}")["state"] for number in range(accepted)}, {"queued"})

    def fill(self, client):
        """Submits until the disk is full; how many were taken."""
        for number in range(1000):
            client.submit(id=f"waits-{number}", service="nobody", body=os.urandom(64 << 10), reply="accepted")
            message = client.get()
            if message.op == "error":
                self.assert_error(message, "store_full", "disk")
                self.assertEqual(message.fields["limiter"], "store_reserve")
                self.assertGreater(message.fields["retry_after_ms"], 0)
                return number
        self.fail("the disk is never full")

    def until_accepted(self, client):
        def again():
            client.submit(id="again", service="nobody", body=bytes(64 << 10), reply="accepted")
            return client.get().op == "accepted"

        harness.wait_until(again, "that jobs are taken again", pause=0.05)


if __name__ == "__main__":
    unittest.main()
