# SPDX-License-Identifier: Apache-2.0
"""What a client asks and is told: sockets, envelopes, bodies, refs, ids, and requests that are refused."""

import os
import socket
import subprocess
import tempfile
import time
import unittest

import zmq
from msgpack import packb, unpackb

import harness
from proxy import Proxy


class Named(harness.Case):
    """A name that has several addresses, of which a broker is at the last."""

    ADDRESSES = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
    arguments = None

    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="lanemq-hosts-"))
        self.hosts = os.path.join(self.folder, "hosts")
        with open(self.hosts, "w") as file:
            file.writelines(f"{address} brokers\n" for address in self.ADDRESSES)
        if subprocess.run(self.with_hosts("true"), capture_output=True).returncode != 0:
            self.skipTest("this system lets nobody have hosts of their own (unshare)")

    def with_hosts(self, *command):
        """The command, where /etc/hosts is another one."""
        as_root = () if os.geteuid() == 0 else ("--user", "--map-root-user")
        return ["unshare", "--mount", *as_root, "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', self.hosts, *command]

    def test_client_and_worker_find_the_one_that_listens(self):
        listens = f"tcp://{self.ADDRESSES[-1]}:*"
        broker = self.room.start_broker(clients=listens, workers=listens)
        by_name = {kind: endpoint.replace(self.ADDRESSES[-1], "brokers")
                   for kind, endpoint in (("clients", broker.clients), ("workers", broker.workers))}
        self.room.start(harness.Process(*self.with_hosts(
            harness.program("lanemq-worker"), "--broker", by_name["workers"], "--service", "echo=echo")))

        done = subprocess.run(
            self.with_hosts(harness.program("lanemq"), "--broker", by_name["clients"], "--connect-timeout", "20s", "submit",
                            "--service", "echo", "words"), capture_output=True, text=True, timeout=harness.PATIENCE * 2)

        self.assertEqual((done.returncode, done.stdout), (0, "words"), done.stderr)


class Doors(harness.Case):
    """Whoever speaks an older protocol than ZMTP 3 is not heard. To libzmq whatever does not begin with 0xFF is ZMTP 1, and so is
    a browser's POST: its first letter is a length, and its body may hold any message."""

    MESSAGES = {"clients": ("ping", {}), "workers": ("ready", {"services": ["echo"], "capacity": 1}),
                "admin": ("admin", {"do": "pauses", "ref": 1})}

    def hears(self, door, *parts):
        """What that endpoint sends until it answers or ends the connection."""
        host, port = getattr(self.room.broker, door).removeprefix("tcp://").rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=harness.PATIENCE) as connection:
            heard = b""
            try:
                connection.sendall(b"".join(parts))
                while b"LMQ1" not in heard and (read := connection.recv(4096)):
                    heard += read
            except (ConnectionResetError, BrokenPipeError):
                pass
            return heard

    def each(self):
        for door, (op, fields) in self.MESSAGES.items():
            with self.subTest(door=door):
                yield door, packb(["LMQ1", op, fields])

    def test_zmtp_1_is_not_heard(self):
        for door, message in self.each():
            self.assertNotIn(b"LMQ1", self.hears(door, b"\x01\x00", bytes([len(message) + 1, 0]), message))

    def test_zmtp_2_is_not_heard(self):
        for door, message in self.each():
            greeting = b"\xff\0\0\0\0\0\0\0\x01\x7f" + b"\x01" + b"\x05" + b"\0\0"
            self.assertNotIn(b"LMQ1", self.hears(door, greeting, bytes([0, len(message)]), message))

    def test_a_page_of_a_browser_is_not_heard(self):
        for door, message in self.each():
            head = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://page.example\r\nSec-Fetch-Mode: no-cors\r\n\r\n"
            for fill in range(0, 256, 15):  # it does not know where its head's last frame ends
                self.assertNotIn(b"LMQ1", self.hears(door, head, b"A" * fill, bytes([len(message) + 1, 0]), message))


class Answers(harness.Case):
    def setUp(self):
        super().setUp()
        self.worker = self.room.worker(capacity=8)
        self.client = self.room.client()

    def test_a_req_client_gets_its_one_answer(self):
        client = self.room.client(zmq.REQ)

        client.submit(body=b"hello", lane="critical")
        self.worker.echo(self.worker.get("job"))

        answer = client.get("result")
        self.assertEqual(answer.body, b"hello")
        self.assertEqual(answer.fields["lane"], "critical")
        self.assertTrue(answer.fields["id"])

    def test_a_req_client_is_answered_whatever_it_asks(self):
        client = self.room.client(zmq.REQ)

        self.assertEqual(client.ask("ping", expect="pong").fields.keys(), {"now_ms", "version", "default_lane"})
        self.assertEqual(client.ask("status", {"id": "x"}, expect="status").fields["state"], "unknown")
        self.assert_error(client.ask("fetch", {"id": "x"}), "not_found", '"x"')
        self.assert_error(client.ask("submit", {}), "bad_request", "service")
        self.assertEqual(client.ask("submit", {"service": "echo", "reply": "accepted"}).op, "accepted")

    def test_a_req_client_cannot_ask_for_two_answers(self):
        client = self.room.client(zmq.REQ)

        self.assert_error(client.ask("submit", {"service": "echo", "reply": "both"}), "bad_request", "reply")

    def test_the_envelope_comes_back_in_front_of_every_answer(self):
        correlated = self.room.client(zmq.REQ)
        correlated.socket.setsockopt(zmq.REQ_CORRELATE, 1)
        correlated.submit(body=b"a")
        self.worker.echo(self.worker.get("job"))
        self.assertEqual(correlated.get("result").body, b"a")

        hops = [b"hop-1", b"\x00" * 300, b"hop-3", b"", b"hop-5"]
        self.client.send("submit", {"service": "echo", "reply": "both"}, b"b", envelope=hops)
        self.assertEqual(self.client.get("accepted").envelope, hops)
        self.worker.echo(self.worker.get("job"))
        self.assertEqual(self.client.get("result").envelope, hops)
        self.client.send("nonsense", {}, envelope=hops)
        self.assertEqual(self.client.get("error").envelope, hops)

    def test_requests_through_a_proxy_come_back_to_their_clients(self):
        front, back = self.room.context.socket(zmq.ROUTER), self.room.context.socket(zmq.DEALER)
        self.addCleanup(front.close, 0)
        self.addCleanup(back.close, 0)
        port = front.bind_to_random_port("tcp://127.0.0.1")
        back.connect(self.room.broker.clients)
        clients = [harness.Client(self.room, zmq.REQ, f"tcp://127.0.0.1:{port}") for _ in range(2)]
        for number, client in enumerate(clients):
            client.submit(body=b"%d" % number)
            self.forward(front, back)
        for job in [self.worker.get("job") for _ in clients]:
            self.worker.echo(job)
            self.forward(back, front)
        for number, client in enumerate(clients):
            self.assertEqual(client.get("result").body, b"%d" % number)

    def forward(self, source, target):
        self.room.pump(lambda: source.poll(10), "a message at the proxy")
        target.send_multipart(source.recv_multipart())

    def test_too_many_or_too_large_envelope_frames_are_refused(self):
        for envelope in ([b"hop"] * 6, [b"x" * 1100]):
            self.client.send_frames(*envelope, packb(["LMQ1", "ping", {}]))
            self.assert_error(self.client.get(), "bad_request", "frames")

    def test_bodies_travel_inside_the_header_or_behind_it(self):
        for size in (0, 1, 4096, 4097, 1 << 20):
            body = bytes(i % 251 for i in range(min(size, 1000))) * (size // 1000 + 1)
            body = body[:size]
            for inside in (True, False):
                with self.subTest(size=size, inside=inside):
                    self.client.send("submit", {"service": "echo"}, body, inside=inside)
                    job = self.worker.get("job")
                    self.assertEqual(job.body, body)
                    self.worker.held.pop((job.fields["job"], job.fields["attempt"]))
                    self.worker.send(
                        "result", {"job": job.fields["job"], "attempt": job.fields["attempt"]}, body, inside=inside
                    )
                    answer = self.client.get("result")
                    self.assertEqual(answer.body, body)
                    if size:
                        self.assertEqual((job.inside, answer.inside), (size <= 4096, size <= 4096))

    def test_a_body_may_be_left_out(self):
        self.client.send("submit", {"service": "echo"})
        job = self.worker.get("job")
        self.assertEqual(job.body, b"")
        self.worker.hand_in(job)
        self.assertEqual(self.client.get("result").body, b"")

    def test_every_answer_carries_the_ref_of_its_request(self):
        for ref in (0, 7, 2**63, -5, "text", "", "é" * 32):
            with self.subTest(ref=ref):
                same = lambda message: self.assertEqual(message.fields["ref"], ref)
                self.client.send("submit", {"service": "echo", "ref": ref, "reply": "both"}, b"x")
                same(self.client.get("accepted"))
                self.worker.echo(self.worker.get("job"))
                result = self.client.get("result")
                same(result)
                self.assertNotIn("id", result.fields)  # the ref is all the client needs
                same(self.client.ask("ping", {"ref": ref}, expect="pong"))
                same(self.client.ask("stats", {"ref": ref}, expect="stats"))
                same(self.client.ask("status", {"id": "x", "ref": ref}, expect="status"))
                same(self.client.ask("cancel", {"id": "x", "ref": ref}, expect="status"))
                same(self.client.ask("fetch", {"id": "x", "ref": ref}, expect="error"))
                same(self.client.ask("submit", {"ref": ref}, expect="error"))
                same(self.client.ask("nonsense", {"ref": ref}, expect="error"))

    def test_answers_to_many_requests_are_told_apart_by_ref(self):
        for ref in range(8):
            self.client.submit(body=b"%d" % ref, ref=ref)
        jobs = [self.worker.get("job") for _ in range(8)]
        for job in reversed(jobs):
            self.worker.echo(job)

        answers = {(m := self.client.get("result")).fields["ref"]: m.body for _ in range(8)}

        self.assertEqual(answers, {ref: b"%d" % ref for ref in range(8)})

    def test_answers_carry_the_id_that_the_client_gave(self):
        self.client.submit(id="mine", ref=1)
        self.worker.echo(self.worker.get("job"))

        self.assertEqual(self.client.get("result").fields["id"], "mine")

    def test_fields_for_the_worker_pass_through_untouched(self):
        meta = {"a": [1, 1.0, None, True, b"\xff", {"deep": "é"}], "number": 2**63}
        extras = {"x-a": 1, "x-list": [1.5, "t"], "x-": {"k": None}}
        cost = {"input_tokens": 10, "output_tokens": 300}
        self.client.submit(
            meta=meta, trace="00-ab-cd-01", model="m", client="c", cost=cost, timeout_ms=5000, unknown=1, **extras
        )

        fields = self.worker.get("job").fields

        self.assertEqual(fields["meta"], meta)
        self.assertIsInstance(fields["meta"]["a"][1], float)
        self.assertEqual((fields["trace"], fields["model"], fields["client"]), ("00-ab-cd-01", "m", "c"))
        self.assertEqual(fields["cost"], cost)
        self.assertEqual({key: fields[key] for key in fields if key.startswith("x-")}, extras)
        self.assertTrue(0 < fields["timeout_ms"] <= 5000)
        self.assertNotIn("unknown", fields)

    def test_usage_comes_back_to_the_client(self):
        self.client.submit()
        usage = {"requests": 1, "input_tokens": 10, "output_tokens": 20, "cached_tokens": 5, "reasoning_tokens": 1}
        self.worker.hand_in(self.worker.get("job"), usage=usage, limits={"remaining_requests": 5})

        self.assertEqual(self.client.get("result").fields["usage"], usage)

    def test_what_is_refused_names_the_field_and_the_limit(self):
        refused = {
            "service": ("x" * 129, "128"),
            "id": ("", "1 to 128"),
            "lane": ("express", "critical, high, normal, low, batch"),
            "timeout_ms": (0, "at least 1"),
            "attempts_max": (1001, "1000"),
            "retain_ms": (-1, "at least 0"),
            "reply": ("maybe", "result, accepted or both"),
            "orphan": ("adopt", "keep"),
            "durable": ("yes", "true or false"),
            "ref": ("r" * 65, "64"),
            "cost": ([1], "map"),
        }
        for field, (value, part) in refused.items():
            with self.subTest(field=field):
                answer = self.client.ask("submit", {"service": "echo", "id": "mine", field: value})
                self.assert_error(answer, "bad_request", field, part)
                if field != "id":
                    self.assertEqual(answer.fields["id"], "mine")
        self.assertTrue(self.worker.silent(0.05))

    def test_streams_are_for_sockets_that_take_many_answers(self):
        req = self.room.client(zmq.REQ)
        self.assert_error(req.ask("submit", {"service": "echo", "stream": True}), "bad_request", "stream", "REQ")
        self.assert_error(req.ask("fetch", {"id": "x", "from_seq": 0}), "bad_request", "from_seq", "REQ")
        self.assert_error(self.client.ask("seen", {"seq": 1}), "bad_request", '"id"', '"ref"')

    def test_a_store_in_memory_takes_a_wish_for_durability_and_says_no(self):
        self.client.submit(durable=True, reply="both", stream=False, delay_ms=0, orphan="keep", ref=1)
        self.assertFalse(self.client.get("accepted").fields.get("durable", False))
        self.worker.echo(self.worker.get("job"))
        self.client.get("result")

    def test_broken_messages_get_one_answer_and_harm_nobody(self):
        good = {"service": "echo"}
        deep = 0
        for _ in range(7):
            deep = [deep]
        broken = [
            (packb(["LMQ1", "submit", good]) + b"\x00", "bytes behind"),
            (packb(["LMQ1", "submit", good])[:-2], "ends too early"),
            (packb(["LMQ1", "submit", {"service": "echo", "meta": deep}]), "deeper than 8"),
            (b"\x93\xa4LMQ1\xa6submit\x82\xa7service\xa1a\xa7service\xa1b", "duplicate key"),
            (b"\x93\xa4LMQ1\xa6submit\x81\x01\x02", "not a string"),
            (b"\x93\xa4LMQ1\xa6submit\xdf\xff\xff\xff\xff", "entries"),
            (b"\x93\xa4LMQ1\xa6submit\x81\xa7service\xa2\xff\xfe", "UTF-8"),
            (packb(["LMQ1", "submit", {"service": "echo", **{f"k{i}": 1 for i in range(64)}}]), "65 entries"),
            (packb(["LMQ1", "submit", good, "a text"]), "body"),
            (packb(["LMQ1", "sumbit", good]), "unknown op"),
            (packb(["LMQ1", 1, good]), "a header is"),
            (packb(["LMQ1", "submit", None]), "a header is"),
            (packb({"LMQ1": 1}), "no frame is an LMQ1 header"),
            (b"", "no frame is an LMQ1 header"),
            (b"GET / HTTP/1.1", "no frame is an LMQ1 header"),
        ]
        for frame, part in broken:
            with self.subTest(frame=frame[:40]):
                self.client.send_frames(frame)
                self.assert_error(self.client.get(), "bad_request", part)
        self.client.send_frames(packb(["LMQ1", "submit", {"service": "echo", "meta": "m" * 16384}]))
        self.assert_error(self.client.get(), "too_large", "16384")
        self.client.send_frames(packb(["LMQ1", "submit", good, b"body"]), b"another")
        self.assert_error(self.client.get(), "bad_request", "body")
        self.client.send_frames(packb(["LMQ1", "submit", good]), b"body", b"another")
        self.assert_error(self.client.get(), "bad_request", "frames")

        self.client.submit(body=b"still here")
        self.worker.echo(self.worker.get("job"))
        self.assertEqual(self.client.get("result").body, b"still here")
        self.assertEqual(self.room.stats()["counters"]["frames_refused"], len(broken) + 3)

    def test_a_message_that_cannot_be_read_leaves_a_line_with_its_address(self):
        silent = self.room.client(zmq.REQ)
        silent.send_frames(b'{"service": "echo"}')
        self.assertRegex(harness.wait_until(lambda: [line for line in self.room.broker.stderr().splitlines()
                                                     if "peer.unreadable_message" in line], "a line in the log")[0],
                         'door=clients address=127.0.0.1 reason=.*no frame is an LMQ1 header')
        self.client.send_frames(packb(["LMQ1", "submit", {"service": "echo", "ref": 7, "lane": 5}]))
        self.assert_error(self.client.get(), "bad_request", "lane")
        self.assertEqual(self.room.broker.stderr().count("peer.unreadable_message"), 1)

    def test_ids_of_the_broker_are_ulids(self):
        ids = [self.client.ask("submit", {"service": "none", "reply": "accepted"}).fields["id"] for _ in range(50)]

        self.assertEqual(len(set(ids)), 50)
        for job_id in ids:
            self.assertRegex(job_id, r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$")
        self.assertLessEqual(ids[0][:10], ids[-1][:10])  # they begin with the time

    def test_position_counts_the_jobs_before(self):
        for position in range(3):
            answer = self.client.ask("submit", {"service": "none", "reply": "accepted"}, expect="accepted")
            self.assertEqual(answer.fields["position"], position)

    def test_ping_tells_time_and_version(self):
        import time

        pong = self.client.ask("ping", expect="pong").fields

        self.assertLess(abs(pong["now_ms"] - time.time() * 1000), 5000)
        self.assertRegex(pong["version"], r"^\d+\.\d+\.\d+(?:[~+][\w.]+)?$")


class LargeBodies(harness.Case):
    def setUp(self):
        super().setUp()
        self.worker = self.room.worker()
        self.client = self.room.client()

    def test_the_largest_body_is_taken_and_a_larger_one_refused(self):
        largest = 64 * 1024 * 1024
        self.client.submit(body=bytes(largest))
        job = self.worker.get("job")
        self.assertEqual(len(job.body), largest)
        self.worker.hand_in(job, body=b"done")
        self.client.get("result")
        for inside in (True, False):
            self.client.send("submit", {"service": "echo", "id": "big", "ref": 1}, bytes(largest + 1), inside=inside)
            refused = self.client.get("error")
            self.assert_error(refused, "too_large", "body_bytes_max", str(largest))
            self.assertEqual((refused.fields["id"], refused.fields["ref"]), ("big", 1))

    def test_a_frame_far_over_the_limit_ends_its_connection_and_no_other(self):
        self.client.send_frames(packb(["LMQ1", "submit", {"service": "echo"}]), bytes(66 * 1024 * 1024))
        other = self.room.client()

        other.submit(body=b"fine")
        self.worker.echo(self.worker.get("job"))

        self.assertEqual(other.get("result").body, b"fine")


class SlowLinks(harness.Case):
    arguments = ()

    def test_a_body_may_be_on_its_way_for_long(self):
        # Longer than any heartbeat of the transport may be, and than three of the workers'.
        seconds, rate = 6, 200_000
        link = Proxy(self.room.broker.clients)
        self.addCleanup(link.close)
        link.bytes_per_second = rate
        client = harness.Client(self.room, zmq.DEALER, link.endpoint)
        worker = self.room.worker()
        client.submit(body=bytes(seconds * rate), ref="slow")
        job = worker.get("job", patience=harness.PATIENCE + seconds)
        self.assertEqual(len(job.body), seconds * rate)
        worker.hand_in(job, body=b"done")
        self.assertEqual(client.get("result").fields["ref"], "slow")


class SameId(harness.Case):
    def setUp(self):
        super().setUp()
        self.worker = self.room.worker(capacity=8)
        self.client, self.second = self.room.client(), self.room.client()

    def test_the_same_job_runs_once_and_answers_everybody(self):
        self.client.submit(body=b"x", id="mine", ref=1)
        job = self.worker.get("job")
        self.second.submit(body=b"x", id="mine", ref=2, reply="both")
        accepted = self.second.get("accepted").fields
        self.assertEqual((accepted["id"], accepted["duplicate"]), ("mine", True))
        self.second.submit(body=b"x", id="mine", ref=3)
        self.second.settled()
        self.assertEqual(self.room.stats()["lanes"]["normal"]["duplicates"], 2)
        self.worker.echo(job)

        self.assertEqual(self.client.get("result").fields["ref"], 1)
        self.assertEqual({self.second.get("result").fields["ref"] for _ in range(2)}, {2, 3})
        self.second.submit(body=b"x", id="mine", ref=4)
        self.assertEqual(self.second.get("result").fields["ref"], 4)
        self.assertTrue(self.worker.silent(0.05))
        self.assertEqual(self.room.stats()["lanes"]["normal"]["accepted"], 1)

    def test_other_content_is_a_conflict(self):
        self.client.submit(body=b"x", id="mine", model="m")
        job = self.worker.get("job")
        for change in ({"body": b"y"}, {"service": "other"}, {"lane": "high"}, {"model": "n"}):
            with self.subTest(change=change):
                self.second.submit(**{"body": b"x", "id": "mine", "model": "m", **change})
                refused = self.second.get()
                self.assert_error(refused, "conflict", "mine")
                self.assertEqual(refused.fields["id"], "mine")
        self.worker.echo(job)
        self.assertEqual(self.client.get("result").body, b"x")

    def test_a_failed_job_fails_again_without_running(self):
        self.client.submit(id="mine")
        self.worker.hand_in(self.worker.get("job"), "error", **{"class": "permanent"}, message="no")
        self.assert_error(self.client.get(), "upstream_rejected")
        self.client.submit(id="mine")
        self.assert_error(self.client.get(), "upstream_rejected")

    def test_the_id_may_be_used_again_when_the_answer_is_no_longer_kept(self):
        self.client.submit(body=b"x", id="mine", retain_ms=0)
        self.worker.echo(self.worker.get("job"))
        self.client.get("result")
        self.client.submit(body=b"y", id="mine")
        self.worker.echo(self.worker.get("job"))
        self.assertEqual(self.client.get("result").body, b"y")


class Fetching(harness.Case):
    def setUp(self):
        super().setUp()
        self.worker = self.room.worker(capacity=8)
        self.client = self.room.client()

    def test_a_kept_result_is_fetched_as_often_as_asked(self):
        self.client.ask("submit", {"service": "echo", "id": "a", "reply": "accepted"}, b"x", expect="accepted")
        self.worker.echo(self.worker.get("job"))
        for asker in (self.client, self.room.client(), self.room.client(zmq.REQ)):
            answer = asker.ask("fetch", {"id": "a", "wait_ms": 10000}, expect="result")
            self.assertEqual((answer.body, answer.fields["id"]), (b"x", "a"))

    def test_a_fetch_waits_for_the_end(self):
        self.client.ask("submit", {"service": "echo", "id": "a", "reply": "accepted"}, b"x", expect="accepted")
        job = self.worker.get("job")
        waiting = self.room.client(zmq.REQ)
        waiting.send("fetch", {"id": "a", "wait_ms": 60000})
        self.assertTrue(waiting.silent(0.05))
        self.worker.echo(job)
        self.assertEqual(waiting.get("result").body, b"x")

    def test_a_fetch_that_waited_in_vain_tells_the_status(self):
        self.client.ask("submit", {"service": "echo", "id": "a", "reply": "accepted"}, b"x", expect="accepted")
        self.worker.get("job")
        for wait_ms in (0, 50):
            answer = self.client.ask("fetch", {"id": "a", "wait_ms": wait_ms, "ref": wait_ms}, expect="status")
            self.assertEqual((answer.fields["state"], answer.fields["ref"]), ("running", wait_ms))

    def test_a_failure_is_fetched_too(self):
        self.client.ask("submit", {"service": "echo", "id": "a", "reply": "accepted"}, expect="accepted")
        self.worker.hand_in(self.worker.get("job"), "error", b"<html>", **{"class": "permanent"}, code="400", message="no")
        answer = self.client.ask("fetch", {"id": "a", "wait_ms": 10000})
        self.assert_error(answer, "upstream_rejected", "400", "no")
        self.assertEqual(answer.body, b"<html>")
        self.assertEqual(self.client.status("a")["error"]["code"], "upstream_rejected")

    def test_an_answer_is_kept_as_long_as_asked(self):
        self.client.submit(id="a", retain_ms=1)
        self.client.submit(id="b", retain_ms=60000)
        for _ in range(2):
            self.worker.echo(self.worker.get("job"))
            self.client.get("result")
        harness.wait_until(lambda: self.client.status("a")["state"] == "unknown", "the end of a")
        self.assert_error(self.client.ask("fetch", {"id": "a"}), "gone")
        self.assertEqual(self.client.ask("fetch", {"id": "b"}).op, "result")

    def test_too_long_a_wait_is_refused(self):
        self.assert_error(self.client.ask("fetch", {"id": "a", "wait_ms": 60001}), "bad_request", "60000")


class KeptResults(harness.Case):
    arguments = (*harness.Case.arguments, "--set", "results_max=3")

    def test_the_oldest_make_way(self):
        worker, client = self.room.worker(), self.room.client()
        for number in range(5):
            client.submit(id=f"job-{number}")
            worker.echo(worker.get("job"))
            client.get("result")

        known = [client.status(f"job-{number}")["state"] for number in range(5)]

        self.assertEqual(known, ["unknown", "unknown", "succeeded", "succeeded", "succeeded"])


class Absent(harness.Case):
    """Clients that are gone, or do not read."""

    def test_the_answer_of_a_client_that_is_gone_can_be_fetched(self):
        worker, client, other = self.room.worker(), self.room.client(), self.room.client()
        client.submit(id="a", body=b"x")
        job = worker.get("job")
        client.close()
        worker.echo(job)

        # Whether the broker knew by then that nobody was there is up to the network: the answer is kept either way.
        self.assertEqual(other.ask("fetch", {"id": "a", "wait_ms": 10000}, expect="result").body, b"x")

    def test_jobs_of_a_client_that_is_gone_are_cancelled_where_it_asked_for_that(self):
        worker, gone, stays = self.room.worker(), self.room.client(), self.room.client()
        gone.submit(id="runs", orphan="cancel")
        running = worker.get("job").fields
        for client, name, orphan in ((gone, "waits", "cancel"), (gone, "kept", "keep"), (stays, "other", "cancel")):
            client.submit(id=name, orphan=orphan)
        gone.settled()
        gone.close()

        cancel = worker.get("cancel").fields
        self.assertEqual((cancel["job"], cancel["reason"]), (running["job"], "cancelled"))
        states = {name: stays.status(name)["state"] for name in ("runs", "waits", "kept", "other")}
        self.assertEqual(states, {"runs": "cancelled", "waits": "cancelled", "kept": "queued", "other": "queued"})

    def test_a_client_that_does_not_read_harms_nobody_and_loses_nothing(self):
        count, body = 700, bytes(100 * 1024)
        worker, other = self.room.worker(capacity=16), self.room.client()
        lazy = self.room.client(options=((zmq.RCVHWM, 1), (zmq.RCVBUF, 4096)))
        self.room.peers.remove(lazy)  # nobody reads it
        self.addCleanup(lazy.socket.close)
        before = self.room.broker.resident_bytes()

        for number in range(count):
            lazy.submit(id=f"job-{number}", body=body)
            worker.echo(worker.get("job"))

        for _ in range(20):
            other.submit(body=b"quick", lane="critical")
            worker.echo(worker.get("job"))
            self.assertEqual(other.get("result").body, b"quick")
        stats = self.room.stats()
        self.assertGreater(stats["counters"]["sends_dropped_slow"], 0)
        bound = count * len(body) + (64 << 20)
        self.assertLess(self.room.broker.resident_bytes() - before, bound * harness.MEMORY_FACTOR)

        delivered = set()
        while lazy.socket.poll(500):
            delivered.add(unpackb(lazy.socket.recv_multipart()[0])[2]["id"])
        self.assertTrue(0 < len(delivered) < count)
        for number in range(count):
            if f"job-{number}" not in delivered:
                answer = other.ask("fetch", {"id": f"job-{number}"}, expect="result")
                self.assertEqual(len(answer.body), len(body))


class AbsentWithinBounds(harness.Case):
    """What the broker keeps for clients that do not read, or come and go, is what its bounds say: scripts/bench
    slow-reader and churn are the same with more of them."""

    arguments = None
    MIB = 1 << 20

    def start(self, **bounds):
        self.room.start_broker(*(word for name, value in bounds.items() for word in ("--set", f"{name}={value}")))

    def test_answers_for_a_client_that_does_not_read_stay_within_their_bounds(self):
        self.start(results_bytes_max="8MiB", client_large_bytes_max="4MiB", client_backlog_bytes_max="4MiB")
        worker, other = self.room.worker(), self.room.client()
        lazy = self.room.client(options=((zmq.RCVHWM, 1), (zmq.RCVBUF, 4096)))
        self.room.peers.remove(lazy)  # nobody reads it
        self.addCleanup(lazy.socket.close)
        count, body = 1500, bytes(64 << 10)
        before = most = self.room.broker.resident_bytes()

        for number in range(count):
            lazy.submit(body=body)
            worker.echo(worker.get("job"))
            most = max(most, self.room.broker.resident_bytes())
            if number % 50 == 0:
                other.submit(body=b"quick", lane="critical")
                worker.echo(worker.get("job"))
                self.assertEqual(other.get("result").body, b"quick")

        counters = self.room.stats()["counters"]
        self.assertGreater(counters["sends_dropped_slow"], count // 2)
        self.assertTrue(0 < counters["backlog_bytes"] <= 4 * self.MIB, counters)
        bound = ((8 + 4 + 4) + 32) * self.MIB  # of 94 that were for it
        self.assertLess(most - before, bound * harness.MEMORY_FACTOR)

    def test_clients_that_connect_submit_and_leave_leave_nothing(self):
        self.start(results_max=100, gone_max=100, clients_idle_max=100)
        worker = self.room.worker()
        sockets = lambda: len(os.listdir(f"/proc/{self.room.broker.pid}/fd"))
        at_first = sockets()

        def come_and_go(clients):
            for number in range(clients):
                client = self.room.client()
                client.submit(reply="result" if number % 2 else "both")
                if not number % 2:
                    client.get("accepted")
                    client.close()  # without its answer
                worker.echo(worker.get("job"))
                if number % 2:
                    client.get("result")
                    client.close()

        come_and_go(1000)
        before = self.room.broker.resident_bytes()
        come_and_go(2000)

        self.assertLess(self.room.broker.resident_bytes() - before, 2000 * 2048 * harness.MEMORY_FACTOR)
        harness.wait_until(lambda: sockets() <= at_first, "the end of the last connection")


if __name__ == "__main__":
    unittest.main()
