# SPDX-License-Identifier: Apache-2.0
"""The HTTP front door: gateway, broker, worker and the strict upstream, and callers that speak HTTP by hand."""

import contextlib
import datetime
import gzip
import hashlib
import http.client
import http.server
import json
import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import unittest.mock
import urllib.parse

import harness
from proxy import Proxy

UPSTREAM_KEY, CALLER_KEY = "upstream-secret-0001", "caller-secret-0001"
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
VERSION = {"anthropic-version": "2023-06-01"}
# A fault that ends by itself, long after the test has. What the test ends is `+hold`, see release().
FOREVER = "+delay=600000"
PING = b'event: ping\ndata: {"type": "ping"}\n\n'


def chat(model="gpt-x", **fields):
    return json.dumps({"model": model, "messages": [{"role": "user", "content": "Say something."}], **fields})


def messages(model="claude-x", **fields):
    return chat(model, max_tokens=20, **fields)


class Answer:
    def __init__(self, response):
        self.status, self.body = response.status, response.read()
        self.headers = {name.lower(): value for name, value in response.getheaders()}

    def json(self):
        return json.loads(self.body)


class GatewayCase(harness.Case):
    """`config`: the gateway's file; `flags`: its command line; `settings`: the broker's."""

    config, flags, settings, hosts = "", (), (), "*"
    services = ()  # of the worker, besides the two APIs
    room_arguments = ()  # of the broker, besides its settings

    def setUp(self):
        # No worker dies here, and one that is held up by a busy machine is not to be taken for dead: a call made
        # twice is what these tests look for.
        self.arguments = ("--set", "heartbeat=10s", *(word for setting in self.settings for word in ("--set", setting)), *self.room_arguments)
        super().setUp()
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.folder, self.log = folder, os.path.join(folder, "upstream.log")
        upstream = self.room.start(harness.Process(harness.program("lanemq-upstream"), "--latency-ms", "1", "--log", self.log,
                                                   "--keys", UPSTREAM_KEY))
        self.upstream = self.ready(upstream)
        secrets = {**os.environ, "OPENAI_API_KEY": UPSTREAM_KEY, "ANTHROPIC_API_KEY": UPSTREAM_KEY,
                   "CALLER_SECRET": CALLER_KEY}
        self.worker = worker = self.room.start(harness.Process(
            harness.program("lanemq-worker"), "--broker", self.room.broker.workers, "--capacity", "64",
            "--service", f"openai=openai:{self.upstream}/v1", "--service", f"anthropic=anthropic:{self.upstream}", *self.services,
            env=secrets))
        self.assertTrue(worker.line().startswith("ready"), worker.stderr())
        path = os.path.join(folder, "gateway.toml")
        with open(path, "w") as file:
            file.write(self.config)
        self.gateway = self.room.start(harness.Process(
            harness.program("lanemq-gateway"), "--broker", self.room.broker.clients, "--listen", "127.0.0.1:0",
            "--config", path, "--hosts", self.hosts, *self.flags, env=secrets))
        self.base = self.ready(self.gateway)

    def ready(self, process):
        line = process.line()
        self.assertTrue(line.startswith("ready http://"), line + process.stderr())
        return line.removeprefix("ready ").strip()

    def address(self, base=None):
        url = urllib.parse.urlsplit(base or self.base)
        return url.hostname, url.port

    def connection(self, base=None, source=""):
        return contextlib.closing(http.client.HTTPConnection(*self.address(base), timeout=harness.PATIENCE,
                                                             source_address=(source, 0)))

    def ask(self, method, path, body=None, headers=None, base=None, source=""):
        with self.connection(base, source) as connection:
            connection.request(method, path, body, {"authorization": f"Bearer {CALLER_KEY}", **(headers or {})})
            return Answer(connection.getresponse())

    def directly(self, method, path, body=None, headers=None):
        return self.ask(method, path, body, {"authorization": f"Bearer {UPSTREAM_KEY}", **(headers or {})}, self.upstream)

    def raw(self, base=None):
        connection = socket.create_connection(self.address(base), timeout=harness.PATIENCE)
        self.addCleanup(connection.close)
        return connection

    def send(self, path, body, headers="", key=CALLER_KEY, base=None):
        """A request on a connection of its own, which nobody reads yet."""
        connection = self.raw(base)
        connection.sendall(f"POST {path} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {key}\r\n"
                           f"content-length: {len(body)}\r\n{headers}\r\n{body}".encode())
        return connection

    def send_get(self, path, name):
        connection = self.raw()
        connection.sendall(f"GET {path} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {name}-secret\r\n\r\n".encode())
        return connection

    def answer_of(self, connection):
        response = http.client.HTTPResponse(connection)
        response.begin()
        return Answer(response)

    def metric(self, name, source=""):
        for line in self.ask("GET", "/metrics", source=source).body.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        raise AssertionError(f"there is no metric {name}")

    def read_until(self, connection, happened, seen=None):
        """What has come of an answer, once it is like that. `seen` goes on with what came before."""
        seen = bytearray() if seen is None else seen
        while not happened(seen):
            self.assertTrue(piece := connection.recv(65536), bytes(seen))
            seen += piece
        return seen

    def when_metric(self, name, value):
        harness.wait_until(lambda: self.metric(name) == value, f"{name} of {value}")

    def calls(self):
        """What the upstream has logged: calls that are over."""
        with open(self.log) as lines:
            return [json.loads(line) for line in lines if line.endswith("\n")]

    def calls_begun(self):
        """How many calls the upstream has had: those that it has not logged yet, too."""
        return self.directly("GET", "/stats").json()["calls"]

    def when_called(self, count):
        harness.wait_until(lambda: len(self.calls()) >= count, f"{count} calls")
        return self.calls()

    def when_at_upstream(self, count):
        """Waits until so many calls are open at the upstream: a job that runs may still be on its way there."""
        harness.wait_until(lambda: self.directly("GET", "/stats").json()["in_flight"] == count, f"{count} calls in flight")

    def release(self, model):
        """Has the upstream answer the calls for this model, which it holds."""
        harness.release(self.upstream, model)

    def when_running(self, count):
        """Waits until so many jobs are at the worker."""
        self.room.stats_when(lambda stats: sum(lane["running"] for lane in stats["lanes"].values()) == count, f"{count} jobs that run")


class Answers(GatewayCase):
    def test_answers_are_the_upstreams_byte_for_byte(self):
        for path, body, headers in (
                (CHAT, chat(), {}),
                (CHAT, chat(stream=True, stream_options={"include_usage": True}), {}),
                (CHAT, chat("gpt-x+crlf", stream=True, stream_options={"include_usage": True}), {}),
                ("/v1/completions", json.dumps({"model": "gpt-x", "prompt": "Say"}), {}),
                ("/v1/embeddings", json.dumps({"model": "emb", "input": ["a", "b"]}), {}),
                ("/v1/responses", json.dumps({"model": "gpt-x", "input": "Say"}), {}),
                ("/v1/responses", json.dumps({"model": "gpt-x", "input": "Say", "stream": True}), {}),
                (MESSAGES, messages(), VERSION),
                (MESSAGES, messages(stream=True), VERSION),
                ("/v1/messages/count_tokens", chat("claude-x"), VERSION)):
            with self.subTest(path=path, body=body):
                expected = self.directly("POST", path, body, headers)
                got = self.ask("POST", path, body, headers)
                # Pings are the gateway's own affair: it makes them where they are needed.
                self.assertEqual((got.status, got.body), (200, expected.body))
                self.assertEqual(got.headers["content-type"].split(";")[0], expected.headers["content-type"].split(";")[0])

    def test_every_reply_says_what_became_of_it(self):
        answer = self.ask("POST", CHAT, chat(), {"x-request-id": "mine-1"})
        self.assertEqual(answer.headers["x-request-id"], "mine-1")
        self.assertEqual((answer.headers["x-lanemq-lane"], answer.headers["x-lanemq-attempts"]), ("normal", "1"))
        self.assertRegex(answer.headers["server-timing"], r"^queue;dur=\d+, upstream;dur=\d+, total;dur=\d+$")
        self.assertEqual(self.when_called(1)[0]["job"], answer.headers["x-lanemq-job"])
        self.assertIn("request-id", self.ask("POST", MESSAGES, messages(), VERSION).headers)

    def test_errors_too_say_what_became_of_the_job(self):
        answer = self.ask("POST", CHAT, chat("gpt-x+status=400+delay=300"))
        self.assertEqual((answer.status, answer.headers["x-lanemq-lane"]), (400, "normal"), answer.body)
        self.assertEqual(answer.headers["x-lanemq-attempts"], "1")
        queued, whole = map(int, re.fullmatch(r"queue;dur=(\d+), total;dur=(\d+)", answer.headers["server-timing"]).groups())
        self.assertEqual(queued, int(answer.headers["x-lanemq-queue-ms"]))
        # What it waited for after its hand-over was its upstream.
        self.assertLessEqual(queued, whole - 299)

    def test_models_are_the_upstreams_in_each_apis_form(self):
        listed = self.ask("GET", "/v1/models").json()
        self.assertEqual(listed["object"], "list")
        name = listed["data"][0]["id"]
        self.assertEqual(self.ask("GET", "/v1/models/" + name).json()["id"], name)
        self.assertIn("has_more", self.ask("GET", "/v1/models", headers=VERSION).json())
        self.assertEqual(self.ask("GET", "/anthropic/v1/models", headers=VERSION).status, 200)

    def test_the_lane_is_taken_from_header_path_model_and_tier_in_that_order(self):
        tier, suffix = {"service_tier": "flex"}, "gpt-x@batch"
        for path, body, headers, lane in (
                ("/lane/high" + CHAT, chat(suffix, **tier), {"x-lanemq-lane": "critical"}, "critical"),
                ("/lane/high" + CHAT, chat(suffix, **tier), {}, "high"),
                (CHAT, chat(suffix, **tier), {}, "batch"),
                (CHAT, chat(**tier), {}, "low"),
                (CHAT, chat(), {"x-priority": "high"}, "high"),
                ("/lane/low/anthropic" + MESSAGES, messages(), VERSION, "low")):
            with self.subTest(path=path, lane=lane):
                answer = self.ask("POST", path, body, headers)
                self.assertEqual((answer.status, answer.headers["x-lanemq-lane"]), (200, lane), answer.body)
        # The upstream refuses an @ in a model's name and header fields of ours; it has seen none.
        self.assertTrue(all(call["status"] == 200 for call in self.when_called(6)))

    def test_errors_have_the_shape_of_the_api_and_name_the_field(self):
        for path, body, headers, status, param in (
                (CHAT, "{", {}, 400, None),
                (CHAT, "[]", {}, 400, None),
                (CHAT, "", {}, 400, None),
                (CHAT, '{"messages":[]}', {}, 400, "model"),
                (CHAT, '{"model":"a","model":"b"}', {}, 400, "model"),
                (CHAT, chat(stream="yes"), {}, 400, "stream"),
                (CHAT, chat(), {"x-lanemq-lane": "fast"}, 400, "x-lanemq-lane"),
                (CHAT, chat(), {"x-lanemq-timeout-ms": "soon"}, 400, "x-lanemq-timeout-ms"),
                (CHAT, chat("gpt-x@hihg"), {}, 400, "model"),
                ("/v1/nothing", chat(), {}, 404, None),
                ("/lane/nowhere" + CHAT, chat(), {}, 400, "x-lanemq-lane")):
            with self.subTest(path=path, body=body):
                answer = self.ask("POST", path, body, headers)
                self.assertEqual((answer.status, answer.json()["error"]["param"]), (status, param), answer.body)
                self.assertEqual(answer.headers["x-should-retry"], "false")
        answer = self.ask("POST", MESSAGES, "{", VERSION)
        self.assertEqual((answer.status, answer.json()["type"], answer.json()["error"]["type"]), (400, "error", "invalid_request_error"))
        self.assertEqual(self.ask("GET", CHAT).status, 405)
        self.assertEqual(self.calls(), [])

    def test_what_the_upstream_refuses_is_passed_on(self):
        for path, make, headers in ((CHAT, chat, {}), (MESSAGES, messages, VERSION)):
            for stream in (False, True):
                expected = self.directly("POST", path, make("x+status=404", stream=stream), headers)
                got = self.ask("POST", path, make("x+status=404", stream=stream), headers)
                self.assertEqual(got.status, 404)
                self.assertEqual(set(got.json()["error"]), set(expected.json()["error"]))
                self.assertEqual(got.json()["error"]["message"], expected.json()["error"]["message"])

    def test_a_timeout_is_never_408(self):
        for headers in ({"x-lanemq-timeout-ms": "50"}, {"x-stainless-timeout": "1"}, {"x-stainless-read-timeout": "1.05"}):
            for stream in (False, True):
                answer = self.ask("POST", CHAT, chat("x" + FOREVER, stream=stream), headers)
                # Within 50 ms a busy machine may not have begun the call.
                self.assertIn((answer.status, answer.json()["error"]["code"]), ((504, "timeout"), (503, "queue_timeout")))
                self.assertEqual(answer.headers["x-should-retry"], "false")
        self.assertEqual(self.ask("POST", MESSAGES, messages("x" + FOREVER), {**VERSION, "x-lanemq-timeout-ms": "50"}).status, 504)


class Timeouts(GatewayCase):
    config = '[[model]]\nname = "gpt-nobody"\nmodel = "gpt-x"\nservice = "nobody"\n'

    def test_say_whether_the_request_waited_or_ran(self):
        for headers in ("x-lanemq-timeout-ms: 2000\r\n", "x-stainless-timeout: 2\r\n"):
            for stream in (False, True):
                with self.subTest(headers=headers, stream=stream):
                    runs = self.send(CHAT, chat("gpt-x" + FOREVER, stream=stream), headers)
                    self.when_at_upstream(1)
                    ran = self.answer_of(runs)
                    self.assertEqual((ran.status, ran.json()["error"]["code"]), (504, "timeout"), ran.body)
                    self.assertEqual(ran.headers["x-lanemq-error"], "upstream")
                    self.when_at_upstream(0)
                    waited = self.answer_of(self.send(CHAT, chat("gpt-nobody", stream=stream), headers))
                    self.assertEqual((waited.status, waited.json()["error"]["code"]), (503, "queue_timeout"), waited.body)
                    self.assertEqual(waited.headers["x-lanemq-error"], "queue")


class NoWorker(GatewayCase):
    config = ('[[model]]\nname = "gpt-nobody"\nmodel = "gpt-x"\nservice = "nobody"\n'
              '[[model]]\nname = "claude-nobody"\nmodel = "claude-x"\nservice = "nobody"\napi = "anthropic"\n'
              '[[model]]\nname = "gpt-other"\nmodel = "gpt-x"\nservice = "nobody"\n[[model.fallback]]\nmodel = "gpt-y"\n')
    # Streams would have their status before, if that were not held back.
    flags = ("--no-worker-wait", "400ms", "--commit", "20ms")

    def test_ends_requests_that_nobody_serves_and_nothing_of_them_runs_later(self):
        for path, make, model, headers in ((CHAT, chat, "gpt-nobody", {}), (MESSAGES, messages, "claude-nobody", VERSION)):
            for stream in (False, True):
                with self.subTest(path=path, stream=stream):
                    answer = self.ask("POST", path, make(model, stream=stream), headers)
                    self.assertEqual(answer.status, 503, answer.body)
                    self.assertIn('no worker serves "nobody"', answer.json()["error"]["message"])
                    self.assertEqual((answer.headers["retry-after"], answer.headers["x-should-retry"]), ("10", "true"))
                    self.assertEqual((answer.headers["x-lanemq-error"], answer.headers["x-lanemq-attempts"]), ("queue", "0"))
        self.assertEqual(self.ask("POST", CHAT, chat("gpt-nobody")).json()["error"]["code"], "no_worker")
        reserved = self.room.worker(("nobody",), lanes=["critical"])
        self.assertIn('no worker serves "nobody" in lane "normal"', self.ask("POST", CHAT, chat("gpt-nobody")).json()["error"]["message"])
        reserved.send("bye", {})
        self.assertEqual(self.metric("lanemq_gateway_no_worker_total"), 6)
        self.assertRegex(self.gateway.stderr(), "service.no_worker service=nobody .*lanemq-worker --service nobody=")
        self.room.stats_when(lambda stats: stats["lanes"]["normal"]["queued"] == 0, "no job that waits")
        # What had been left of them would be handed over before this one.
        self.room.start(harness.Process(harness.program("lanemq-worker"), "--broker", self.room.broker.workers, "--service",
                                        f"nobody=openai:{self.upstream}/v1", env={**os.environ, "OPENAI_API_KEY": UPSTREAM_KEY}))
        self.room.stats_when(lambda stats: stats["workers"]["connected"] == 2, "the worker")
        self.assertEqual(self.ask("POST", CHAT, chat("gpt-nobody")).status, 200)
        self.assertEqual(self.calls_begun(), 1)

    def test_spares_requests_whose_worker_is_busy_and_those_with_somewhere_else_to_go(self):
        busy = [self.send(CHAT, chat("gpt-x+hold", stream=stream)) for stream in (False, True)]
        self.when_at_upstream(2)
        # Its step has waited as long as both of them, and begun later.
        served = self.ask("POST", CHAT, chat("gpt-other"))
        self.assertEqual((served.status, served.headers["x-lanemq-served-by"]), (200, "gpt-y"), served.body)
        self.release("gpt-x+hold")
        for connection in busy:
            answer = self.answer_of(connection)
            self.assertEqual((answer.status, b"error" in answer.body), (200, False), answer.body)


NOBODY_THERE = "127.0.0.5:1"


class Failures(GatewayCase):
    settings, services = ("attempts_max=1",), ("--service", f"away=openai:http://{NOBODY_THERE}/v1")
    config = '[[model]]\nname = "gpt-away"\nmodel = "gpt-x"\nservice = "away"\n'

    def test_where_an_upstream_stands_is_for_the_log_and_not_for_callers(self):
        for stream in (False, True):
            answer = self.ask("POST", CHAT, chat("gpt-away", stream=stream))
            self.assertEqual((answer.status, answer.json()["error"]["code"]), (502, "upstream_error"), answer.body)
            self.assertIn(b"no connection to the upstream", answer.body)
            for place in (b"127.0.0", b"port", b"/v1"):
                self.assertNotIn(place, answer.body)
            self.assertNotIn(NOBODY_THERE, str(answer.headers))
        harness.wait_until(lambda: self.worker.stderr().count(f'detail="http://{NOBODY_THERE}/v1: ') == 2, "both in the worker's log")

    def test_an_upstream_that_fails_is_a_bad_gateway_which_sdks_do_not_ask_again(self):
        for path, make, headers in ((CHAT, chat, {}), (MESSAGES, messages, VERSION)):
            answer = self.ask("POST", path, make("x+status=500"), headers)
            self.assertEqual((answer.status, answer.headers["x-should-retry"]), (502, "false"), answer.body)
            self.assertEqual(answer.json()["error"]["upstream"]["status"], 500)

    def test_a_key_that_the_upstream_refuses_is_the_workers_and_nobodys_bill(self):
        self.directly("POST", f"/admin/keys/{UPSTREAM_KEY}", '{"dead": true}')
        for path, make, headers in ((CHAT, chat, {}), (MESSAGES, messages, VERSION)):
            for stream in (False, True):
                answer = self.ask("POST", path, make(stream=stream), headers)
                self.assertEqual((answer.status, answer.headers["x-lanemq-error"]), (502, "upstream"), answer.body)
                self.assertEqual((answer.headers["x-should-retry"], answer.json()["error"]["upstream"]["status"]), ("false", 401))
                self.assertIn("the key of the worker", answer.json()["error"]["message"])
        self.assertEqual(self.ask("POST", CHAT, chat()).json()["error"]["code"], "upstream_auth")
        told = subprocess.run([harness.program("lanemq"), "--broker", self.room.broker.clients, "submit", "--service", "openai",
                               "--id", "refused", chat()], capture_output=True, text=True, timeout=harness.PATIENCE, check=False)
        self.assertEqual(told.returncode, 1)
        self.assertRegex(told.stderr, "upstream_auth: the upstream answered 401(.|\n)*The key is the worker's")
        why = subprocess.run([harness.program("lanemq"), "--broker", self.room.broker.clients, "explain", "refused"],
                             capture_output=True, text=True, timeout=harness.PATIENCE, check=False)
        self.assertIn("The key is the worker's", why.stdout)
        self.directly("POST", f"/admin/keys/{UPSTREAM_KEY}", '{"dead": "quota"}')
        spent = self.ask("POST", CHAT, chat()).json()["error"]
        self.assertEqual((spent["type"], spent["code"]), ("insufficient_quota", "upstream_quota"))

    def test_a_stream_that_breaks_after_content_ends_in_an_error_event(self):
        for path, make, headers, sign in ((CHAT, chat, {}, b'data: {"error":'), (MESSAGES, messages, VERSION, b"event: error\ndata: {")):
            answer = self.ask("POST", path, make("x+tokens=9+eof=3", stream=True), headers)
            self.assertEqual(answer.status, 200)
            self.assertEqual(answer.body.count(sign), 1, answer.body)
            self.assertTrue(answer.body.endswith(b"}\n\n"))


class Streams(GatewayCase):
    flags = ("--commit", "50ms", "--keep-alive", "50ms")

    @staticmethod
    def body_of(seen):
        """The body of an answer that came in chunks."""
        body, rest = b"", bytes(seen).split(b"\r\n\r\n", 1)[1]
        while size := int((parts := rest.split(b"\r\n", 1))[0], 16):
            body, rest = body + parts[1][:size], parts[1][size + 2:]
        return body

    def test_silence_is_filled_with_what_sdks_survive(self):
        for path, make, headers, ping in ((CHAT, chat, "", b": ka\n"),
                                          (MESSAGES, messages, "anthropic-version: 2023-06-01\r\n", PING)):
            for fault in ("+hold", "+pause=1"):
                with self.subTest(path=path, fault=fault):
                    model = f"x{len(headers)}+tokens=3{fault}"
                    options = {} if headers else {"stream_options": {"include_usage": True}}
                    body = make(model, stream=True, **options)
                    connection = self.send(path, body, headers)
                    seen = self.read_until(connection, lambda seen: seen.count(ping) >= 2)
                    self.release(model)
                    self.read_until(connection, lambda seen: seen.endswith(b"0\r\n\r\n"), seen)
                    got = self.body_of(seen)
                    plain = self.directly("POST", path, body, VERSION if headers else {}).body
                    # Only between events.
                    self.assertEqual(got.replace(ping, b""), plain.replace(PING, b""))

    def test_an_error_after_the_commit_comes_inside_the_stream(self):
        connection = self.send(CHAT, chat("x+status=400+hold", stream=True))
        seen = self.read_until(connection, lambda seen: b"\r\n\r\n" in seen)
        self.assertTrue(seen.startswith(b"HTTP/1.1 200 "), seen)
        # How far its job was by then is the machine's to say.
        head = seen.split(b"\r\n\r\n")[0].decode()
        self.assertRegex(head, r"x-lanemq-lane: normal(\r\n|$)")
        self.assertRegex(head, r"x-lanemq-attempts: [01](\r\n|$)")
        self.assertRegex(head, r"x-lanemq-queue-ms: \d+(\r\n|$)")
        self.assertRegex(head, r"server-timing: queue;dur=\d+, total;dur=\d+(\r\n|$)")
        self.release("x+status=400+hold")
        self.read_until(connection, lambda seen: seen.endswith(b"0\r\n\r\n"), seen)
        self.assertIn("x-lanemq-job: " + self.when_called(1)[0]["job"], head)
        event = self.body_of(seen).replace(b": ka\n", b"")
        self.assertEqual(json.loads(event.removeprefix(b"data: "))["error"]["type"] != "", True)

    def test_a_reader_that_is_slow_loses_nothing(self):
        with self.connection() as connection:
            connection.connect()
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
            body = chat("x+tokens=1500", stream=True, max_tokens=2000, stream_options={"include_usage": True})
            connection.request("POST", CHAT, body, {})
            response = connection.getresponse()
            pieces = []
            while piece := response.read1(20000):
                pieces.append(piece)
        self.assertEqual(b"".join(pieces).replace(b": ka\n", b""), self.directly("POST", CHAT, body).body)


class ForwardedHeaders(GatewayCase):
    def test_one_that_is_too_long_is_refused_first(self):
        for path, body in ((MESSAGES, messages()), ("/v1/messages/batches", '{"requests": []}'),
                           ("/v1/jobs", json.dumps({"request": {"endpoint": MESSAGES, "body": json.loads(messages())}}))):
            for size, status in ((1024, None), (1025, 400)):
                answer = self.ask("POST", path, body, {**VERSION, "anthropic-beta": "b" * size})
                told = answer.status == 400 and b"anthropic-beta has over 1024 bytes" in answer.body
                self.assertEqual(told, status == 400, (path, size, answer.body))
            for value in ("a\tb", "\u00e9"):
                answer = self.ask("POST", path, body, {**VERSION, "anthropic-beta": value})
                self.assertEqual(answer.status, 400, answer.body)
                self.assertIn(b"anthropic-beta has characters other than visible ASCII", answer.body)


class BrokerStops(GatewayCase):
    def test_requests_wait_for_its_next_life(self):
        running = self.send(CHAT, chat("x+hold"))
        self.when_running(1)
        old = self.room.broker
        old.signal(signal.SIGTERM)
        before = self.metric("lanemq_gateway_jobs_total")
        waiting = [self.send(CHAT, chat()), self.send(CHAT, chat(stream=True))]
        # Two were refused, and submitted again.
        harness.wait_until(lambda: self.metric("lanemq_gateway_jobs_total") >= before + 4, "a second try of each")
        self.release("x+hold")
        self.assertEqual(self.answer_of(running).status, 200)
        self.assertEqual(old.wait(), 0)
        self.room.start_broker(*self.arguments, clients=old.clients, workers=old.workers, admin=old.admin)
        for connection in waiting:
            answer = self.answer_of(connection)
            self.assertEqual((answer.status, b"error" in answer.body), (200, False), answer.body)
        self.assertEqual(self.calls_begun(), 3)


class BrokerAway(GatewayCase):
    flags = ("--broker-wait", "3s")

    def test_who_waits_and_who_comes_is_told_within_seconds(self):
        waiting = [self.send(CHAT, chat("x+hold")), self.send(CHAT, chat("x+hold", stream=True))]
        self.when_running(2)
        left = self.ask("POST", "/v1/jobs", json.dumps({"service": "none", "body": {}}))
        fetching = self.raw()
        fetching.sendall(f"GET /v1/jobs/{left.json()['id']}?wait_ms=60000 HTTP/1.1\r\nhost: gateway\r\n"
                         f"authorization: Bearer {CALLER_KEY}\r\n\r\n".encode())
        self.room.stats()
        self.room.broker.kill()
        began = time.monotonic()
        for connection in (*waiting, fetching):
            answer = self.answer_of(connection)
            self.assertEqual((answer.status, answer.json()["error"]["code"]), (503, "unavailable"), answer.body)
            self.assertEqual((answer.headers["x-should-retry"], answer.headers["x-lanemq-error"]), ("true", "queue"))
        self.assertLess(time.monotonic() - began, 50, "the fetch waited for its minute")
        began = time.monotonic()
        for method, path, body in (("POST", CHAT, chat()), ("POST", MESSAGES, messages()), ("GET", "/v1/models", None),
                                   ("POST", "/v1/jobs", '{"service": "openai", "body": {}}'), ("GET", "/v1/jobs/x", None),
                                   ("GET", "/v1/jobs/x/events", None), ("DELETE", "/v1/jobs/x", None)):
            answer = self.ask(method, path, body, {"x-lanemq-timeout-ms": "60000"})
            self.assertEqual((answer.status, answer.headers["retry-after"]), (503, "1"), (path, answer.body))
        self.assertLess(time.monotonic() - began, 50, "one of them waited for its minute")

    def test_models_are_answered_in_time_with_when_to_ask_again(self):
        self.assertEqual(self.ask("GET", "/v1/models").status, 200)
        self.room.broker.kill()
        answer = self.ask("GET", "/v1/models", headers={"x-lanemq-timeout-ms": "300"})
        self.assertEqual((answer.status, answer.json()["error"]["code"]), (503, "unavailable"))
        # From then on the broker counts as away, and nobody waits for it.
        harness.wait_until(lambda: b"does not answer" in self.ask("GET", "/v1/models", headers={"x-lanemq-timeout-ms": "300"}).body,
                           "an answer without the broker")
        for headers, kind in (({}, "server_error"), (VERSION, "api_error")):
            with self.subTest(headers=headers):
                answer = self.ask("GET", "/v1/models", headers=headers)
                self.assertEqual((answer.status, answer.json()["error"]["type"]), (503, kind))
                self.assertEqual((answer.headers["retry-after"], answer.headers["x-should-retry"]), ("1", "true"))


class CutOff(GatewayCase):
    """Another gateway, between which and the broker the network fails."""

    def setUp(self):
        super().setUp()
        self.proxy = Proxy(self.room.broker.clients)
        self.addCleanup(self.proxy.close)
        gateway = self.room.start(harness.Process(harness.program("lanemq-gateway"), "--broker", self.proxy.endpoint, "--listen",
                                                  "127.0.0.1:0", "--hosts", "*", "--state", os.path.join(self.folder, "other")))
        self.other = self.ready(gateway)

    def when_connected(self, value):
        line = f"lanemq_gateway_broker_connected {value}"
        harness.wait_until(lambda: line in self.ask("GET", "/metrics", base=self.other).body.decode().splitlines(), line)

    def test_a_caller_that_is_there_has_its_answer_though_the_broker_has_cancelled_its_job(self):
        proxy, base = self.proxy, self.other
        calls = [self.send(CHAT, chat("x+hold"), headers, base=base) for headers in ("", "idempotency-key: once\r\n")]
        begun = self.send(CHAT, chat("x+tokens=9+stall=3", stream=True), base=base)
        seen = self.read_until(begun, lambda seen: b"data:" in seen)
        self.when_running(3)
        proxy.refuse()
        harness.wait_until(lambda: self.room.stats()["counters"]["orphans_cancelled"] == 3, "the end of jobs that nobody wants")
        proxy.heal()
        self.release("x+hold")
        for call in calls:
            answer = self.answer_of(call)
            self.assertEqual(answer.status, 200, answer.body)
        again = self.ask("POST", CHAT, chat("x+hold"), {"idempotency-key": "once"}, base)
        self.assertEqual((again.status, again.headers["idempotency-replayed"]), (200, "true"))
        # Who has a part of its stream hears of the end: another job would say something else.
        self.read_until(begun, lambda seen: b'data: {"error":' in seen, seen)
        self.assertEqual(self.calls_begun(), 5)

    def test_requests_wait_and_it_is_ready_for_longer_than_a_takeover_takes(self):
        self.when_connected(1)
        self.proxy.refuse()
        self.when_connected(0)
        self.assertEqual(self.ask("GET", "/readyz", base=self.other).status, 200)
        waits = self.send(CHAT, chat(), base=self.other)
        self.assertEqual(self.ask("GET", "/healthz", base=self.other).status, 200)  # the other one has been read by now
        self.proxy.heal()
        answer = self.answer_of(waits)
        self.assertEqual(answer.status, 200, answer.body)


class LongStreams(GatewayCase):
    # Its first piece has to come in this time, also on a busy machine.
    settings = ("lane.critical.timeout=4s",)

    def test_a_stream_that_goes_well_outlives_its_lanes_timeout(self):
        started = time.monotonic()
        streams = [self.send("/lane/critical" + CHAT, chat("x+tokens=15+gap=300", stream=True)),
                   self.send("/lane/critical" + MESSAGES, messages("x+tokens=15+gap=300", stream=True),
                             "anthropic-version: 2023-06-01\r\n")]
        silent = self.send("/lane/critical" + CHAT, chat("x" + FOREVER, stream=True))
        for stream in streams:
            answer = self.answer_of(stream)
            self.assertEqual((answer.status, b"error" in answer.body), (200, False), answer.body)
        self.assertGreater(time.monotonic() - started, 4)
        # Before its first piece, and without any, the lane's time counts.
        answer = self.answer_of(silent)
        self.assertEqual((answer.status, answer.json()["error"]["code"]), (504, "timeout"))


class HangUps(GatewayCase):
    def hung_up(self, count):
        return [call for call in self.when_called(count) if call["end"] == "hung_up"]

    def test_a_caller_that_leaves_ends_its_upstream_call(self):
        for number, (path, body, headers) in enumerate((
                (CHAT, chat("x" + FOREVER), ""),
                (CHAT, chat("x+tokens=10000+gap=50", stream=True, max_tokens=20000), ""),
                (MESSAGES, messages("x" + FOREVER, stream=True), "anthropic-version: 2023-06-01\r\n")), 1):
            with self.subTest(path=path, number=number):
                connection = self.send(path, body, headers)
                if "gap" in body:
                    self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 200"))
                else:
                    self.when_at_upstream(1)
                left = time.time() * 1000
                connection.close()
                calls = self.hung_up(number)
                self.assertEqual(len(calls), number)
                self.assertLess(calls[-1]["ended_unix_ms"] - left, 1000 * harness.PATIENCE)
                self.when_running(0)
        self.assertEqual(self.metric("lanemq_gateway_cancelled_total"), 3)

    def test_a_caller_that_has_left_before_its_turn_has_no_job(self):
        self.gateway.signal(signal.SIGSTOP)
        for stream in (False, True):
            self.send(CHAT, chat(stream=stream)).close()
        half = self.send("/v1/jobs", json.dumps({"service": "openai", "id": "left", "body": json.loads(chat())}))
        half.shutdown(socket.SHUT_WR)
        self.gateway.signal(signal.SIGCONT)
        # Who has half closed his may have his answer before that is seen.
        harness.wait_until(lambda: self.metric("lanemq_gateway_hang_ups_total") >= 2, "two who hung up")
        self.assertEqual(self.metric("lanemq_gateway_cancelled_total"), 0)
        # What is left at /v1/jobs needs nobody who waits.
        harness.wait_until(lambda: self.ask("GET", "/v1/jobs/left").json().get("state") == "succeeded", "the job that was left")
        self.assertEqual(len(self.when_called(1)), 1)

    def test_a_caller_that_leaves_while_its_job_waits_costs_no_call(self):
        client = self.room.client()
        fillers = [self.send(CHAT, chat("x" + FOREVER)) for _ in range(64)]
        self.when_at_upstream(64)
        waiting = self.send(CHAT, chat("never"))
        self.room.stats_when(lambda stats: stats["lanes"]["normal"]["queued"] == 1, "the job that waits")
        waiting.close()
        self.room.stats_when(lambda stats: stats["lanes"]["normal"]["queued"] == 0, "its end")
        for filler in fillers:
            filler.close()
        self.when_running(0)
        self.assertNotIn("never", [call["model"] for call in self.when_called(64)])
        client.close()


KEYS = f'''
[[key]]
name = "team"
secret = "env:CALLER_SECRET"
lane = "low"
lanes = ["normal", "low", "batch"]
models = ["gpt-*"]
requests_per_minute = 3
[[key]]
name = "narrow"
sha256 = "{hashlib.sha256(b"narrow-secret").hexdigest()}"
concurrency = 1
tokens_per_minute = 50
[[key]]
name = "payer"
sha256 = "{hashlib.sha256(b"payer-secret").hexdigest()}"
forward_service_tier = true
[[key]]
name = "tools"
sha256 = "{hashlib.sha256(b"tools-secret").hexdigest()}"
services = ["admin", "anthropic"]
'''


class Keys(GatewayCase):
    config = KEYS

    def test_who_has_no_key_is_not_served(self):
        for headers in ({"authorization": "Bearer wrong"}, {"authorization": ""}, {"authorization": "", "x-api-key": "wrong"}):
            answer = self.ask("POST", CHAT, chat(), headers)
            self.assertEqual(answer.status, 401)
        self.assertEqual(self.ask("POST", MESSAGES, messages(), {"authorization": "", "x-api-key": "wrong"}).json()["error"]["type"],
                         "authentication_error")
        self.assertEqual(self.ask("GET", "/healthz", headers={"authorization": ""}).status, 200)

    def test_a_key_bounds_lanes_models_and_requests(self):
        self.assertEqual(self.ask("POST", CHAT, chat(), {"x-lanemq-lane": "critical"}).status, 403)
        self.assertEqual(self.ask("POST", CHAT, chat("o4")).status, 403)
        first = self.ask("POST", CHAT, chat())
        self.assertEqual((first.status, first.headers["x-lanemq-lane"]), (200, "low"))
        self.assertEqual((first.headers["x-ratelimit-limit-requests"], first.headers["x-ratelimit-remaining-requests"]), ("3", "2"))
        # A tier is no demand: what is too high for the key is lowered.
        self.assertEqual(self.ask("POST", CHAT, chat(service_tier="priority")).headers["x-lanemq-lane"], "normal")
        self.assertEqual(self.ask("POST", CHAT, chat()).status, 200)
        refused = self.ask("POST", CHAT, chat())
        self.assertEqual((refused.status, refused.json()["error"]["code"]), (429, "tenant_rpm"))
        self.assertEqual(refused.headers["x-should-retry"], "true")
        self.assertGreater(int(refused.headers["retry-after-ms"]), 1000)
        self.assertEqual(len(self.when_called(3)), 3)

    def test_a_key_reaches_the_services_of_the_apis_alone(self):
        leave = lambda service, key: self.ask("POST", "/v1/jobs", json.dumps({"service": service, "body": {}}),
                                              {"authorization": f"Bearer {key}"})
        refused = leave("admin", "payer-secret")
        self.assertEqual((refused.status, refused.json()["error"]["param"]), (403, "service"), refused.body)
        self.assertEqual(leave("openai", "payer-secret").status, 202)
        self.assertEqual(leave("admin", "tools-secret").status, 202)
        for path, body in ((CHAT, chat()), ("/v1/batches", "{}")):
            refused = self.ask("POST", path, body, {"authorization": "Bearer tools-secret"})
            self.assertEqual((refused.status, refused.json()["error"]["param"]), (403, "service"), refused.body)

    def test_the_tier_goes_on_for_keys_that_may(self):
        for key in (CALLER_KEY, "payer-secret"):
            self.assertEqual(self.ask("POST", CHAT, chat(service_tier="flex"), {"authorization": f"Bearer {key}"}).status, 200)
        self.assertEqual([call.get("service_tier") for call in self.when_called(2)], [None, "flex"])

    def test_a_key_bounds_what_runs_at_once_and_tokens(self):
        narrow = {"authorization": "Bearer narrow-secret"}
        running = self.send(CHAT, chat("x" + FOREVER), key="narrow-secret")
        self.when_running(1)
        self.assertEqual(self.ask("POST", CHAT, chat(), narrow).json()["error"]["code"], "tenant_concurrency")
        running.close()
        self.when_running(0)
        self.assertEqual(self.ask("POST", CHAT, chat("x+tokens=60", max_tokens=100), narrow).status, 200)
        self.assertEqual(self.ask("POST", CHAT, chat(), narrow).json()["error"]["code"], "tenant_tpm")

def bearer(name):
    return {"authorization": f"Bearer {name}-secret"}


def key(name, *lines):
    return "\n".join(("[[key]]", f'name = "{name}"', f'sha256 = "{hashlib.sha256(f"{name}-secret".encode()).hexdigest()}"',
                      *lines)) + "\n"


class Ops(GatewayCase):
    """Each path with keys of each op."""

    PATHS = (("POST", CHAT, "chat"), ("POST", "/v1/completions", "chat"), ("POST", MESSAGES, "chat"),
             ("POST", "/v1/messages/count_tokens", "chat"), ("POST", "/v1/responses", "responses"), ("GET", "/v1/responses/r", "responses"),
             ("POST", "/v1/embeddings", "embeddings"), ("POST", "/v1/jobs", "jobs"), ("GET", "/v1/jobs/x", "jobs"),
             ("GET", "/v1/files", "files"), ("POST", "/v1/files", "files"), ("GET", "/v1/batches", "batches"),
             ("POST", "/v1/messages/batches", "batches"), ("GET", "/v1/models", None), ("POST", "/lane/low" + CHAT, "chat"))
    OPS = ("chat", "responses", "embeddings", "jobs", "files", "batches")

    today = datetime.datetime.now(datetime.timezone.utc).date()
    config = ("".join(key(op, f'ops = ["{op}"]') for op in OPS) + key("all") + key("two", 'ops = ["chat", "files"]')
              + key("late", f"not_after = {today - datetime.timedelta(days=2)}")
              + key("soon", f"not_after = {today + datetime.timedelta(days=1)}"))

    def test_a_key_is_for_its_ops_alone(self):
        may = {**{op: {op} for op in self.OPS}, "all": set(self.OPS), "two": {"chat", "files"}}
        for name, ops in may.items():
            for method, path, op in self.PATHS:
                with self.subTest(key=name, path=path):
                    # Without a body no request is right, but it is not forbidden.
                    answer = self.ask(method, path, "{}" if method == "POST" else None, bearer(name))
                    forbidden = answer.status == 403
                    self.assertEqual(forbidden, op is not None and op not in ops, answer.body)
                    if forbidden:
                        self.assertIn(b"not allowed with this key (ops)", answer.body)
                    if forbidden and path.endswith("messages"):
                        self.assertEqual(answer.json()["error"]["type"], "permission_error")

    def test_a_key_whose_time_is_over_is_told_so(self):
        self.assertEqual(self.ask("POST", CHAT, chat(), bearer("soon")).status, 200)
        for path, body in ((CHAT, chat()), (MESSAGES, messages()), ("/v1/jobs", "{}")):
            answer = self.ask("POST", path, body, bearer("late"))
            self.assertEqual(answer.status, 401)
            self.assertIn(b"counts no more since", answer.body)


class OneBudgetOfTwoGateways(GatewayCase):
    """A key's limit that stands at the broker counts what all gateways ask for with it; who is over it waits."""

    config = key("shared") + key("other")
    settings = ("budget.shared.match.client=shared", "budget.shared.limits.requests_per_day=8",
                "budget.shared.capacity.requests_per_day=4")

    def test_a_keys_budget_at_the_broker_counts_for_all_gateways(self):
        second = self.room.start(harness.Process(
            harness.program("lanemq-gateway"), "--broker", self.room.broker.clients, "--listen", "127.0.0.1:0",
            "--config", os.path.join(self.folder, "gateway.toml")))
        bases = (self.base, self.ready(second))
        for number in range(8):
            self.send("/lane/critical" + CHAT, chat(f"mine-{number}"), key="shared-secret", base=bases[number % 2])
        self.when_called(4)
        self.room.stats_when(lambda stats: sum(lane["queued"] for lane in stats["lanes"].values()) == 4, "4 jobs that wait")
        for base in bases:
            self.assertEqual(self.ask("POST", CHAT, chat("others"), bearer("other"), base).status, 200)
        # The next one is let through three hours behind the first.
        self.assertEqual(sum(call["model"].startswith("mine") for call in self.when_called(6)), 4)
        self.assertEqual(sum(lane["queued"] for lane in self.room.stats()["lanes"].values()), 4)


class AccessLog(GatewayCase):
    config = "access_log = true\n" + key("reader") + key("narrow", 'ops = ["files"]')

    def logged(self, count):
        lines = lambda: [line for line in self.gateway.stderr().splitlines() if " request.answered " in line]
        harness.wait_until(lambda: len(lines()) >= count, f"{count} lines of the access log")
        return lines()

    def test_each_request_has_a_line(self):
        whole = self.ask("POST", CHAT + "?secret=in-the-query", chat("x+tokens=60"), bearer("reader"))
        self.assertEqual(whole.status, 200)
        stream = self.ask("POST", "/lane/low" + CHAT, chat(stream=True), bearer("reader"))
        self.assertEqual(stream.status, 200)
        self.assertEqual(self.ask("POST", CHAT, chat(), bearer("nobody")).status, 401)
        self.assertEqual(self.ask("POST", CHAT, chat(), bearer("narrow")).status, 403)
        self.assertEqual(self.ask("GET", "/v1/nothing;here", headers=bearer("reader")).status, 404)
        lines = self.logged(5)
        first, second, third, fourth, fifth = lines
        for part in (f"id={whole.headers['x-request-id']}", "key=reader", "address=127.0.0.1", "method=POST", f"path={CHAT}", "status=200",
                     "whole=yes", "lane=normal", "output_tokens=60"):
            self.assertIn(part, first)
        self.assertRegex(first, r"model=\S+ .*waited_ms=\d+ ran_ms=\d+ input_tokens=\d+")
        for part in ("lane=low", "key=reader", "status=200"):
            self.assertIn(part, second)
        self.assertIn("status=401", third)
        self.assertIn('key="" ', third)
        self.assertIn("key=narrow", fourth)
        self.assertIn("status=403", fourth)
        self.assertIn("status=404", fifth)
        self.assertIn("path=/v1/nothing;here ", fifth)
        for secret in ("reader-secret", "nobody-secret", "in-the-query"):
            self.assertNotIn(secret, self.gateway.stderr())

    def test_a_caller_that_leaves_has_a_line(self):
        running = self.send(CHAT, chat("x" + FOREVER), key="reader-secret")
        self.when_running(1)
        running.close()
        line = self.logged(1)[0]
        self.assertIn("status=0 whole=no", line)
        self.assertIn("key=reader", line)

    def test_a_flood_does_not_fill_the_log(self):
        with self.connection() as connection:
            for _ in range(3000):
                connection.request("GET", "/healthz")
                connection.getresponse().read()
        asked = 3000

        def all_told():  # what was left out is told with the first line of a later second
            nonlocal asked
            asked += 1
            self.ask("GET", "/healthz")
            lines = self.logged(1)
            return len(lines) + sum(int(line.rsplit("left_out=", 1)[1].split()[0]) for line in lines) == asked and lines
        lines = harness.wait_until(all_told, "a word of each request", pause=0.1)
        self.assertLess(len(lines), 3000)


class KeysHold(GatewayCase):
    """What a key may not do by any way in."""

    config = (key("cheap", 'models = ["cheap*"]') + key("one", "concurrency = 1") + key("poor", "tokens_per_minute = 1000")
              + key("other"))

    def jobs(self, name, model="gpt-x", **fields):
        job = {"request": {"endpoint": CHAT, "body": json.loads(chat(model, **fields))}}
        return self.ask("POST", "/v1/jobs", json.dumps(job), bearer(name))

    def test_models_hold_by_every_way_in(self):
        for path, body in (("/v1/responses", {"prompt": {"id": "pmpt_1"}}),
                           ("/v1/responses", {"previous_response_id": "resp_1", "input": "x"}),
                           (CHAT, {"model": "cheap", "Model": "expensive", "messages": []})):
            refused = self.ask("POST", path, json.dumps(body), bearer("cheap"))
            self.assertEqual((refused.status, refused.json()["error"]["param"]), (400, "model"), refused.body)
        named = ({"fallbacks": ["expensive"]}, {"fallbacks": [{"model": "expensive"}]}, {"models": ["cheap-1", "expensive"]},
                 {"tools": [{"type": "advisor", "name": "a", "model": "expensive"}]})
        for more in named:
            for path, body in ((CHAT, {"model": "cheap", "messages": [], **more}),
                               ("/v1/messages", {"model": "cheap", "max_tokens": 5, "messages": [], **more}),
                               ("/v1/responses", {"model": "cheap", "input": "x", **more})):
                with self.subTest(path=path, more=more):
                    self.assertEqual(self.ask("POST", path, json.dumps(body), bearer("cheap")).status, 403)
            refused = self.jobs("cheap", "cheap", **more)
            self.assertEqual(refused.status, 403)
            self.assertIn("request.body.", refused.json()["error"]["param"])
        for query in ("?model=expensive", "?api-version=1&models=cheap,expensive", "?fallbacks=expensive"):
            self.assertEqual(self.ask("POST", CHAT + query, chat("cheap"), bearer("cheap")).status, 403)
        allowed = json.dumps({**json.loads(chat("cheap")), "fallbacks": ["cheap-2"]})
        # It goes on: the double knows no such member.
        self.assertIn(b"argument supplied: fallbacks", self.ask("POST", CHAT, allowed, bearer("cheap")).body)
        # Nothing is configured here, and the double has models of its own.
        everything = [model["id"] for model in self.ask("GET", "/v1/models", headers=bearer("other")).json()["data"]]
        self.assertTrue(everything)
        self.assertEqual(self.ask("GET", "/v1/models", headers=bearer("cheap")).json()["data"], [])
        self.assertEqual(self.ask("GET", f"/v1/models/{everything[0]}", headers=bearer("cheap")).status, 404)
        self.assertEqual(self.ask("GET", f"/v1/models/{everything[0]}", headers=bearer("other")).status, 200)

    def test_a_stored_response_is_its_callers(self):
        for stream in (False, True):
            made = self.ask("POST", "/v1/responses", json.dumps({"model": "gpt-x", "input": "x", "stream": stream}),
                            bearer("one"))
            self.assertEqual(made.status, 200)
            response_id = re.search(rb'"id":\s*"(resp_[^"]+)"', made.body)[1].decode()
            before = self.calls_begun()
            for method, path in (("GET", ""), ("GET", "/input_items"), ("DELETE", ""), ("POST", "/cancel")):
                refused = self.ask(method, f"/v1/responses/{response_id}{path}", headers=bearer("other"))
                self.assertEqual(refused.status, 404)
                self.assertIn("stored_responses", refused.json()["error"]["message"])
            again = {"model": "gpt-x", "input": "x", "previous_response_id": response_id}
            self.assertEqual(self.ask("POST", "/v1/responses", json.dumps(again), bearer("other")).status, 404)
            item_id = re.search(rb'"id":\s*"(msg_[^"]+)"', made.body)[1].decode()
            refers = {"model": "gpt-x", "input": [{"role": "user", "content": "x"}, {"type": "item_reference", "id": item_id}]}
            refused = self.ask("POST", "/v1/responses", json.dumps(refers), bearer("other"))
            self.assertEqual((refused.status, refused.json()["error"]["param"]), (404, "input[1].id"))
            for body in (again, refers):
                left = {"request": {"endpoint": "/v1/responses", "body": body}}
                self.assertEqual(self.ask("POST", "/v1/jobs", json.dumps(left), bearer("other")).status, 404)
            for conversation in ("conv_1", {"id": "conv_1"}):
                body = {"model": "gpt-x", "input": "x", "conversation": conversation}
                refused = self.ask("POST", "/v1/responses", json.dumps(body), bearer("one"))
                self.assertEqual((refused.status, refused.json()["error"]["param"]), (404, "conversation"))
            self.assertEqual(self.calls_begun(), before)
            self.assertEqual(self.ask("POST", "/v1/responses", json.dumps(refers), bearer("one")).status, 200)
            # The double keeps none: who asks it is told so in its own words.
            self.assertNotIn(b"stored_responses", self.ask("GET", f"/v1/responses/{response_id}", headers=bearer("one")).body)

    def test_jobs_and_what_goes_on_without_a_caller_take_the_places_of_a_key(self):
        left = self.jobs("one", "gpt-x+hold")
        self.assertEqual(left.status, 202, left.body)
        self.when_running(1)
        for refused in (self.jobs("one"), self.ask("POST", CHAT, chat(), bearer("one"))):
            self.assertEqual((refused.status, refused.json()["error"]["code"]), (429, "tenant_concurrency"))
        self.release("gpt-x+hold")
        harness.wait_until(lambda: self.ask("POST", CHAT, chat(), bearer("one")).status == 200, "a place")

        # An SDK that hung up: its call goes on for its next try, which needs no second place.
        body, retry = chat("gpt-y+hold"), "x-stainless-retry-count: {}\r\n"
        first = self.send(CHAT, body, retry.format(0), key="one-secret")
        self.when_running(1)
        first.close()
        self.when_metric("lanemq_gateway_hang_ups_total", 1)
        self.assertEqual(self.ask("POST", CHAT, chat(), bearer("one")).status, 429)
        second = self.send(CHAT, body, retry.format(1), key="one-secret")
        self.when_metric("lanemq_gateway_joined_total", 1)
        self.release("gpt-y+hold")
        self.assertEqual(self.answer_of(second).status, 200)

    def test_tokens_are_paid_whatever_the_end(self):
        streams = self.send(CHAT, chat("gpt-x+tokens=5000+gap=1", stream=True), key="poor-secret")
        self.read_until(streams, lambda seen: seen.count(b"\ndata: ") >= 100)
        streams.close()
        self.when_running(0)
        refused = self.ask("POST", CHAT, chat(), bearer("poor"))
        self.assertEqual((refused.status, refused.json()["error"]["code"]), (429, "tenant_tpm"))

    def test_tokens_of_jobs_are_taken_at_once_and_set_right_at_their_end(self):
        remaining = lambda: int(self.ask("POST", CHAT, chat("gpt-x+tokens=1", max_tokens=1), bearer("poor"))
                                .headers["x-ratelimit-remaining-tokens"])
        full = remaining()
        self.assertEqual(self.jobs("poor", "gpt-x+tokens=10+hold", max_tokens=600).status, 202)
        self.assertLess(remaining(), full - 400)
        self.release("gpt-x+tokens=10+hold")
        harness.wait_until(lambda: remaining() > full - 300, "the rest of what was taken")
        self.assertEqual(self.jobs("poor", "gpt-x+tokens=2000", max_tokens=2000).status, 202)
        self.assertEqual(self.jobs("poor").json()["error"]["code"], "tenant_tpm")

    def test_lines_of_batches_pay_tokens_and_wait_for_them(self):
        lines = "".join(json.dumps({"custom_id": str(n), "method": "POST", "url": CHAT,
                                    "body": json.loads(chat("gpt-x+tokens=2000", max_tokens=2000))}) + "\n" for n in range(3))
        form = ('--X\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--X\r\ncontent-disposition: form-data; '
                f'name="file"; filename="in.jsonl"\r\n\r\n{lines}\r\n--X--\r\n')
        uploaded = self.ask("POST", "/v1/files", form, {**bearer("poor"), "content-type": "multipart/form-data; boundary=X"})
        batch = self.ask("POST", "/v1/batches", json.dumps({"input_file_id": uploaded.json()["id"], "endpoint": CHAT,
                                                            "completion_window": "24h"}), bearer("poor")).json()
        done = lambda: self.ask("GET", f"/v1/batches/{batch['id']}", headers=bearer("poor")).json()["request_counts"]["completed"]
        harness.wait_until(lambda: done() >= 1, "the first line")
        self.assertEqual(self.ask("POST", CHAT, chat(), bearer("poor")).json()["error"]["code"], "tenant_tpm")
        self.assertEqual(self.ask("POST", f"/v1/batches/{batch['id']}/cancel", headers=bearer("poor")).status, 200)
        # While the first one runs, a slow machine may have room for the second; when it has ended it owes what it used.
        self.assertLess(len(self.when_called(1)), 3)


class InTheBackground(GatewayCase):
    """Responses with `background: true`, at an upstream that works on them until it is told."""

    config = 'openai_service = "late"\n' + key("one", "concurrency = 1") + key("poor", "tokens_per_minute = 1000") + key("free")

    def setUp(self):
        case, self.made, self.over = self, [], set()

        class Upstream(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, **document):
                bytes_of = json.dumps({"object": "response", "model": "gpt-x", "output": [], **document}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(bytes_of)))
                self.end_headers()
                self.wfile.write(bytes_of)

            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or "{}")
                if not asked.get("background"):
                    return self.answer(id="resp_now", status="completed", usage={"input_tokens": 1, "output_tokens": 1})
                case.made.append(f"resp_{len(case.made)}")
                self.answer(id=case.made[-1], status="queued", background=True, usage=None)

            def do_GET(self):
                id = self.path.rsplit("/", 1)[1]
                if id not in case.over:
                    return self.answer(id=id, status="in_progress", background=True, usage=None)
                self.answer(id=id, status="completed", background=True, usage={"input_tokens": 5, "output_tokens": 4000})

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.services = ("--service", f"late=openai:http://127.0.0.1:{server.server_port}/v1")
        super().setUp()

    def respond(self, name, **fields):
        return self.ask("POST", "/v1/responses", json.dumps({"model": "gpt-x", "input": "x", **fields}), bearer(name))

    def begun(self, name):
        answer = self.respond(name, background=True)
        self.assertEqual((answer.status, answer.json()["status"]), (200, "queued"), answer.body)
        return answer.json()["id"]

    def status(self, name, id):
        return self.ask("GET", f"/v1/responses/{id}", headers=bearer(name)).json()["status"]

    def test_one_takes_a_place_until_it_is_over(self):
        id = self.begun("one")
        for fields in ({"background": True}, {}):
            refused = self.respond("one", **fields)
            self.assertEqual((refused.status, refused.json()["error"]["code"]), (429, "tenant_concurrency"))
        waits = [self.raw() for _ in range(3)]  # for which it needs no other place, however many
        for connection in waits:
            connection.sendall(f"GET /v1/responses/{id.replace('_', '%5F')} HTTP/1.1\r\nhost: gateway\r\n"
                               "authorization: Bearer one-secret\r\n\r\n".encode())
        self.assertEqual([self.answer_of(connection).json()["status"] for connection in waits], ["in_progress"] * 3)
        self.assertEqual(self.respond("one").status, 429)
        self.over.add(id)
        self.assertEqual(self.status("one", id), "completed")
        self.assertEqual(self.respond("one").status, 200)

    def test_its_tokens_count_when_they_are_known_and_once(self):
        id = self.begun("poor")
        self.over.add(id)
        self.assertEqual(self.respond("poor").status, 200)
        left = lambda answer: int(answer.headers["x-ratelimit-remaining-tokens"])
        self.assertGreater(left(self.respond("poor")), 900)
        self.assertEqual(self.status("poor", id), "completed")
        refused = self.respond("poor")
        self.assertEqual((refused.status, refused.json()["error"]["code"]), (429, "tenant_tpm"))
        wait = int(refused.headers["retry-after-ms"])
        self.assertTrue(150_000 < wait < 240_000, wait)  # 4,005 tokens of 1,000 a minute, once

    def test_what_is_left_is_in_the_background_already(self):
        job = {"request": {"endpoint": "/v1/responses", "body": {"model": "gpt-x", "input": "x", "background": True}}}
        refused = self.ask("POST", "/v1/jobs", json.dumps(job), bearer("free"))
        self.assertEqual((refused.status, refused.json()["error"]["param"]), (400, "request.body.background"))
        for fields in ({"background": 1}, {"Background": True}):
            refused = self.respond("free", **fields)
            self.assertEqual((refused.status, refused.json()["error"]["param"]), (400, "background"))
        self.assertEqual(self.made, [])


class Refused(GatewayCase):
    config = key("team", 'models = ["gpt-*"]')
    flags = ("--proxies", "127.0.0.2,10.0.0.0/8")

    def counted(self, name):
        return {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1])
                for line in self.ask("GET", "/metrics").body.decode().splitlines() if line.startswith(name + "{")}

    def refusals(self):
        return [row for row in self.gateway.stderr().splitlines() if "request.refused" in row]

    def test_a_packed_body_is_refused_before_it_is_read(self):
        for coding, status in (("gzip", 415), ("br, gzip", 415), ("Identity", 200), ("", 200)):
            answer = self.ask("POST", CHAT, chat(), {**bearer("team"), "content-encoding": coding})
            self.assertEqual(answer.status, status, coding)
        packed = self.ask("POST", CHAT, gzip.compress(chat().encode()), {**bearer("team"), "content-encoding": "gzip"})
        self.assertEqual((packed.status, packed.json()["error"]["param"]), (415, "content-encoding"))
        # A number that no reader of ours can hold is the upstream's to judge.
        self.assertEqual(self.ask("POST", CHAT, chat()[:-1] + ', "temperature": 1e400}', bearer("team")).status, 400)

    def test_every_answer_is_counted_by_its_route(self):
        for method, path, body, who in (("POST", CHAT, chat(), "wrong"), ("POST", "/nothing", "{}", "team"),
                                        ("GET", "/v1/models", None, "team"),
                                        ("POST", "/v1/jobs", '{"service": "openai", "body": {}}', "team"),
                                        ("GET", "/v1/jobs/none", None, "team")):
            self.ask(method, path, body, bearer(who))
        left = self.send(CHAT, chat("gpt-x" + FOREVER), key="team-secret")
        self.when_running(1)
        left.close()
        self.when_metric("lanemq_gateway_hang_ups_total", 1)
        counted = self.counted("lanemq_gateway_requests_total")
        for method, route, status in (("POST", CHAT, 401), ("POST", CHAT, 499), ("", "none", 404), ("GET", "/v1/models", 200),
                                      ("POST", "/v1/jobs", 403), ("GET", "/v1/jobs/{id}", 404)):
            self.assertEqual(
                counted.get(f'lanemq_gateway_requests_total{{method="{method}",route="{route}",status="{status}"}}'), 1, counted)

    def test_refusals_are_counted_and_tell_where_they_came_from(self):
        for body, who in ((chat(), "wrong"), (chat("o4"), "team")):
            self.ask("POST", CHAT, body, bearer(who))
        self.ask("POST", CHAT, chat(), {"authorization": ""})
        reasons = {row: count for row, count in self.counted("lanemq_gateway_refused_total").items()}
        for reason in ("unknown_key", "forbidden", "no_key"):
            self.assertEqual(reasons.get(f'lanemq_gateway_refused_total{{reason="{reason}"}}'), 1, reasons)
        rows = self.refusals()
        digits = hashlib.sha256(b"wrong-secret").hexdigest()
        self.assertIn(f"reason=unknown_key address=127.0.0.1 secret_sha256={digits[:6]} ", rows[0])
        self.assertNotIn(digits[:7], rows[0])
        self.assertNotIn("wrong-secret", rows[0])
        # A line a second at most; what is not told is counted.
        self.assertLess(len(rows), 3)

    def test_a_proxys_word_counts_on_where_a_request_comes_from_and_nobody_elses(self):
        def told(own, said):
            rows = len(self.refusals())

            def asked():  # again and again: there is a line a second at most
                with contextlib.closing(http.client.HTTPConnection(*self.address(), source_address=(own, 0))) as connection:
                    connection.request("POST", CHAT, chat(), {**bearer("wrong"), "x-forwarded-for": said})
                    connection.getresponse().read()
                return self.refusals()[rows:]

            return harness.wait_until(asked, "a line of the refusal")[0]

        self.assertIn("address=192.0.2.9 ", told("127.0.0.2", "198.51.100.7, 192.0.2.9, 10.1.2.3"))
        self.assertIn("address=127.0.0.1 ", told("127.0.0.1", "192.0.2.9"))

    def test_with_keys_the_content_type_means_nothing(self):
        headers = {**bearer("team"), "content-type": "application/x-www-form-urlencoded"}
        self.assertEqual(self.ask("POST", CHAT, chat(), headers).status, 200, "as curl -d calls it")

    def test_who_tries_keys_is_slowed_down_and_nobody_else(self):
        began = time.monotonic()
        told = {self.ask("POST", CHAT, chat(), bearer(f"guess-{n}")).status for n in range(20)}
        self.assertEqual(told, {401})
        self.assertGreater(time.monotonic() - began, 0.9)
        waiting = [self.send(CHAT, chat(), key=f"more-{n}") for n in range(20)]
        began = time.monotonic()
        self.assertEqual(self.ask("POST", CHAT, chat(), bearer("team")).status, 200)
        self.assertLess(time.monotonic() - began, 1.5)
        self.assertEqual({self.answer_of(connection).status for connection in waiting}, {401})


class FromElsewhere(GatewayCase):
    """What strangers on the network see where the gateway has keys and nothing stands in front of it."""

    config, hosts = key("team", 'services = ["*"]') + key("watcher", 'ops = ["metrics"]'), "gateway.example"
    flags = ("--proxies", "127.0.0.2")

    def see(self, path, name="", source="127.0.0.2"):
        headers = {"x-forwarded-for": "203.0.113.9", "authorization": f"Bearer {name}-secret"}
        with self.connection(source=source) as connection:
            connection.request("GET", path, headers=headers if name else {"x-forwarded-for": "203.0.113.9"})
            return Answer(connection.getresponse())

    def test_figures_are_for_this_machine_and_for_keys_that_name_them(self):
        seen = {name: self.see("/metrics", name).status for name in ("", "guess", "team", "watcher")}
        self.assertEqual(seen, {"": 401, "guess": 401, "team": 403, "watcher": 200})
        with self.connection() as connection:
            connection.request("GET", "/metrics")
            self.assertEqual(Answer(connection.getresponse()).status, 200, "from this machine")
        with self.connection() as connection:
            connection.request("GET", "/metrics", headers={"host": "rebound.example", "origin": "http://rebound.example"})
            self.assertEqual(Answer(connection.getresponse()).status, 401, "a page at a name that leads here")
        self.assertEqual(self.see("/v1/files", "watcher").status, 403, "and for nothing else")

    def test_who_asks_whether_it_is_ready_learns_that_alone(self):
        left = self.ask("POST", "/v1/jobs", json.dumps({"service": "nobody", "body": {}}), bearer("team"))
        self.assertEqual(left.status, 202, left.body)
        harness.wait_until(lambda: b"nobody" in self.ask("GET", "/readyz").body, "a word of the service without a worker")
        answer = self.see("/readyz")
        self.assertEqual((answer.status, answer.body), (200, b"ready\n"))

    def test_what_is_private_is_kept_in_no_cache(self):
        for path in ("/v1/models", "/v1/files", "/v1/batches", "/v1/jobs/none", "/"):
            answer = self.ask("GET", path, headers=bearer("team"))
            self.assertEqual(answer.headers.get("cache-control"), "no-store", path)


class ReadAgain(GatewayCase):
    config = KEYS

    def read_again(self, config, expected="config.reloaded"):
        before = self.gateway.stderr().count(expected)
        with open(os.path.join(self.folder, "gateway.toml"), "w") as file:
            file.write(config)
        self.gateway.signal(signal.SIGHUP)
        harness.wait_until(lambda: self.gateway.stderr().count(expected) > before, expected)

    def test_keys_models_and_limits_change_while_what_runs_goes_on(self):
        running = self.send(CHAT, chat("gpt-x+tokens=10+pause=1", stream=True))
        self.when_running(1)
        self.assertEqual(self.ask("POST", CHAT, chat()).status, 200)
        # Two of three in this minute are used; now there are two.
        self.read_again(KEYS.replace("requests_per_minute = 3", "requests_per_minute = 2")
                        .replace('lane = "low"', 'lane = "batch"')
                        + '[[model]]\nname = "gpt-alias"\nmodel = "gpt-z"\n')
        self.assertEqual(self.ask("POST", CHAT, chat()).json()["error"]["code"], "tenant_rpm")
        self.read_again(KEYS.replace("requests_per_minute = 3", "").replace('lane = "low"', 'lane = "batch"')
                        + '[[model]]\nname = "gpt-alias"\nmodel = "gpt-z"\n')
        answer = self.ask("POST", CHAT, chat("gpt-alias"))
        self.assertEqual((answer.status, answer.headers["x-lanemq-lane"], answer.json()["model"]), (200, "batch", "gpt-z"))
        # A key that is no more: the stream of who came with it is cut, with an error.
        self.read_again('[[key]]\nname = "other"\nsecret = "env:OPENAI_API_KEY"\n')
        self.assertEqual(self.ask("POST", CHAT, chat()).status, 401)
        self.assertEqual(self.ask("POST", CHAT, chat(), {"authorization": f"Bearer {UPSTREAM_KEY}"}).status, 200)
        cut = self.answer_of(running)
        self.assertEqual((cut.status, b"the key of this call was taken away" in cut.body, b"[DONE]" in cut.body), (200, True, False), cut.body)
        self.when_running(0)

    def test_a_file_that_cannot_be_used_changes_nothing(self):
        for config, reason in (
                (KEYS + "[[key]]\nname = 7\n", "gateway.toml:"),
                (KEYS + "commit = \n", "gateway.toml:"),
                ('commit = "soon"\n' + KEYS, "gateway.toml:1: commit"),
                (KEYS.replace("env:CALLER_SECRET", "file:/nowhere"), "/nowhere"), ('otlp = "ftp://h"\n' + KEYS, "otlp"),
                ("", "gateway.toml is empty"),
                ("# nothing\n", "callers need a key since the start"),
                ('auth = "none"\n', "callers need a key since the start"),
                ('auth = "keys"\n', "auth is \"keys\" and there is none".replace('"', '\\"'))):
            with self.subTest(reason=reason):
                self.read_again(config, "config.reload_failed")
                failed = [row for row in self.gateway.stderr().splitlines() if "config.reload_failed" in row][-1]
                self.assertIn(reason, failed)
                self.assertIn("nothing has changed", failed)
        self.assertEqual(self.ask("POST", CHAT, chat()).headers["x-lanemq-lane"], "low")
        self.assertEqual(self.ask("POST", CHAT, chat(), {"authorization": "Bearer wrong"}).status, 401)

    def test_what_a_reload_does_to_keys_and_models_is_told(self):
        second = key("second", "requests_per_minute = 5")
        self.read_again(KEYS + '[[model]]\nname = "fast"\n' + second, "config.keys_added names=second")
        self.assertIn("config.models_added names=fast", self.gateway.stderr())
        # Cut off in the middle it is sound still, and the key has no limit any more.
        self.read_again(KEYS + '[[model]]\nname = "fast"\n' + second.replace("requests_per_minute = 5", ""),
                        "config.keys_changed names=second")
        self.read_again(KEYS, "config.keys_removed names=second")
        self.assertIn("warning config.models_removed names=fast", self.gateway.stderr())

    def test_what_needs_a_restart_is_named_and_keeps_its_value(self):
        self.read_again('body_bytes_max = "10B"\n' + KEYS, "config.needs_restart")
        self.assertEqual(self.ask("POST", CHAT, chat()).status, 200)


MODELS = '''
[[model]]
name = "fast"
model = "gpt-x+status=500"
[[model.fallback]]
model = "gpt-y+status=400"
[[model.fallback]]
model = "gpt-z"

[[model]]
name = "patient"
model = "gpt-x+delay=600000"
max_wait = "50ms"
on = ["timeout"]
[[model.fallback]]
model = "gpt-z"

[[model]]
name = "limited"
model = "gpt-x+status=429+retry=3000"
on = ["rate"]
[[model.fallback]]
model = "gpt-z"

[[model]]
name = "ours"
model = "claude-x"
api = "anthropic"
'''


class Models(GatewayCase):
    config, settings = MODELS, ("attempts_max=1",)

    def test_names_lead_to_models_and_their_fall_backs(self):
        for stream in (False, True):
            # A 400 is no reason to go on.
            failed = self.ask("POST", CHAT, chat("fast", stream=stream))
            self.assertEqual((failed.status, failed.headers["x-lanemq-served-by"]), (400, "gpt-y+status=400"))
            served = self.ask("POST", CHAT, chat("patient", stream=stream))
            self.assertEqual((served.status, served.headers["x-lanemq-served-by"]), (200, "gpt-z"))
            alone = self.ask("POST", CHAT, chat("fast", stream=stream), {"x-lanemq-no-fallback": "1"})
            self.assertEqual(alone.status, 502)
        self.assertEqual(self.ask("POST", MESSAGES, messages("ours"), VERSION).headers["x-lanemq-served-by"], "claude-x")

    def test_an_upstream_that_is_out_of_its_rate_is_not_waited_for(self):
        for stream in (False, True):
            served = self.ask("POST", CHAT, chat("limited", stream=stream))
            self.assertEqual((served.status, served.headers["x-lanemq-served-by"]), (200, "gpt-z"))

    def test_one_api_is_not_translated_into_the_other(self):
        answer = self.ask("POST", CHAT, chat("ours"))
        self.assertEqual((answer.status, answer.json()["error"]["param"]), (400, "model"))

    def test_those_that_are_configured_are_listed(self):
        self.assertEqual([model["id"] for model in self.ask("GET", "/v1/models").json()["data"]], ["fast", "patient", "limited"])
        self.assertEqual([model["id"] for model in self.ask("GET", "/v1/models", headers=VERSION).json()["data"]], ["ours"])
        self.assertEqual(self.ask("GET", "/v1/models/nothing").json()["error"]["code"], "model_not_found")


class AskedAgain(GatewayCase):
    def test_a_request_with_a_key_of_its_own_runs_once(self):
        for stream in (False, True):
            key = {"idempotency-key": f"order-{stream}"}
            body = chat(stream=stream)
            first, second = self.ask("POST", CHAT, body, key), self.ask("POST", CHAT, body, key)
            self.assertEqual((first.status, second.status), (200, 200), second.body)
            self.assertEqual(first.body, second.body)
            self.assertEqual((first.headers.get("idempotency-replayed"), second.headers["idempotency-replayed"]), (None, "true"))
            conflict = self.ask("POST", CHAT, chat(stream=stream, user="other"), key)
            self.assertEqual((conflict.status, conflict.headers["x-should-retry"]), (409, "false"))
        self.assertEqual(len(self.when_called(2)), 2)

    def on_fixed_endpoints(self, *arguments):
        """Another broker, with a worker and a gateway: what asks, and what has the broker die and come back."""
        endpoints = harness.fixed_endpoints()

        def start():
            self.room.broker.kill()
            self.room.start_broker(*self.arguments, *arguments, **endpoints)
        start()
        worker = self.room.start(harness.Process(
            harness.program("lanemq-worker"), "--broker", endpoints["workers"], "--service", f"openai=openai:{self.upstream}/v1",
            env={**os.environ, "OPENAI_API_KEY": UPSTREAM_KEY}))
        self.assertTrue(worker.line().startswith("ready"), worker.stderr())
        base = self.ready(self.room.start(harness.Process(
            harness.program("lanemq-gateway"), "--broker", endpoints["clients"], "--listen", "127.0.0.1:0",
            "--config", os.path.join(self.folder, "gateway.toml"))))

        def asked(stream=False):
            answer = self.ask("POST", CHAT, chat(stream=stream), {"idempotency-key": f"k-{stream}"}, base=base)
            return answer.status == 200 and answer.headers.get("idempotency-replayed", "no")
        return asked, start

    def test_what_the_broker_has_lost_runs_again_and_is_said_to(self):
        asked, restart = self.on_fixed_endpoints()
        self.assertEqual([asked(), asked()], ["no", "true"])
        restart()
        self.assertEqual(harness.wait_until(asked, "the answer of the next life"), "no")
        self.assertEqual(len(self.when_called(2)), 2)

    def test_a_stream_that_the_broker_keeps_no_more_runs_again(self):
        asked, restart = self.on_fixed_endpoints("--store", f"sqlite:{self.folder}/jobs.db")
        for stream in (False, True):
            self.assertEqual([asked(stream), asked(stream)], ["no", "true"])
        restart()
        self.assertEqual(harness.wait_until(lambda: asked(False), "the answer of the next life"), "true")
        self.assertEqual([asked(True), asked(True)], ["no", "true"])
        self.assertEqual(len(self.when_called(3)), 3)

    def test_a_failure_is_not_what_a_key_brings_back(self):
        key = {"idempotency-key": "k", "x-lanemq-timeout-ms": "200"}
        body = chat("x+hold")
        # Whether the upstream has a call by then is up to the machine.
        self.assertIn(self.ask("POST", CHAT, body, key).status, (503, 504))
        self.release("x+hold")
        again = self.ask("POST", CHAT, body, {"idempotency-key": "k"})
        self.assertEqual((again.status, again.headers.get("idempotency-replayed")), (200, None))

    def another_gateway(self):
        other = self.room.start(harness.Process(
            harness.program("lanemq-gateway"), "--broker", self.room.broker.clients, "--listen", "127.0.0.1:0",
            "--config", os.path.join(self.folder, "gateway.toml"), "--state", tempfile.mkdtemp(dir=self.folder)))
        return self.ready(other)

    def test_the_broker_keeps_for_long_what_somebody_can_ask_for_again(self):
        operator = self.room.operator()
        for headers, most_ms in (({}, 2 * 60_000), ({"idempotency-key": "long"}, 24 * 3_600_000)):
            answer = self.ask("POST", CHAT, chat("x"), headers)
            job = operator.ask("admin", {"do": "job", "id": answer.headers["x-lanemq-job"]}, expect="admin").fields
            self.assertEqual((answer.status, job["state"]), (200, "succeeded"))
            self.assertTrue(most_ms / 2 < job["kept_ms"] <= most_ms, job)

    def test_a_key_is_one_at_every_gateway_and_its_failures_are_brought_back_by_none(self):
        failing, key = chat("x+status=500+first=3"), {"idempotency-key": "flaky"}
        failed = self.ask("POST", CHAT, failing, key)
        self.assertEqual((failed.status, failed.headers["x-lanemq-error"]), (502, "upstream"), failed.body)
        other = self.another_gateway()
        anew = self.ask("POST", CHAT, failing, key, base=other)
        self.assertEqual((anew.status, anew.headers.get("idempotency-replayed")), (200, None), anew.body)
        # The first one has not seen that: it finds out.
        calls = len(self.when_called(4))
        for base in (self.base, other, self.another_gateway()):
            again = self.ask("POST", CHAT, failing, key, base=base)
            self.assertEqual((again.status, again.body, again.headers["idempotency-replayed"]), (200, anew.body, "true"))
        # What the upstream says of the request itself is its answer, wherever it is asked for.
        refused = {self.ask("POST", CHAT, chat("x+status=400"), {"idempotency-key": "no"}, base=base).status
                   for base in (self.base, other)}
        self.assertEqual(refused, {400})
        self.assertEqual(len(self.when_called(calls + 1)), calls + 1)

    def test_an_sdk_that_asks_again_joins_the_job_that_runs(self):
        for stream in (False, True):
            model = f"x-{stream}+hold"
            body = chat(model, stream=stream)
            calls = len(self.calls())
            joined = self.metric("lanemq_gateway_joined_total")
            first = self.send(CHAT, body, "x-stainless-retry-count: 0\r\n")
            self.when_running(1)
            second = self.send(CHAT, body, "x-stainless-retry-count: 1\r\n")
            self.when_metric("lanemq_gateway_joined_total", joined + 1)
            self.release(model)
            one, other = self.answer_of(first), self.answer_of(second)
            self.assertEqual((one.status, one.body), (200, other.body))
            self.assertEqual(len(self.when_called(calls + 1)), calls + 1)


class RetryGrace(GatewayCase):
    flags = ("--retry-grace", "1m")

    def test_an_sdk_whose_time_is_over_joins_its_own_call(self):
        body = chat("x+hold")
        first = self.send(CHAT, body, "x-stainless-retry-count: 0\r\n")
        self.when_at_upstream(1)
        first.close()
        self.when_metric("lanemq_gateway_connections", 1)  # of whoever asks for it
        second = self.send(CHAT, body, "x-stainless-retry-count: 1\r\n")
        self.when_metric("lanemq_gateway_joined_total", 1)
        self.release("x+hold")
        self.assertEqual(self.answer_of(second).status, 200)
        self.assertEqual(len(self.when_called(1)), 1)
        self.assertEqual(self.metric("lanemq_gateway_cancelled_total"), 0)

    def test_an_answer_that_comes_meanwhile_waits(self):
        body = chat("x+hold")
        first = self.send(CHAT, body, "x-stainless-retry-count: 0\r\n")
        self.when_at_upstream(1)
        first.close()
        self.when_metric("lanemq_gateway_connections", 1)
        self.release("x+hold")
        self.when_running(0)
        self.assertEqual(self.ask("POST", CHAT, body, {"x-stainless-retry-count": "1"}).status, 200)
        self.assertEqual(len(self.when_called(1)), 1)

    def test_a_failure_that_comes_meanwhile_does_not(self):
        body = chat("x+hold+first=1+status=500", user="one")
        first = self.send(CHAT, body, "x-stainless-retry-count: 0\r\nx-lanemq-timeout-ms: 300\r\n")
        self.when_at_upstream(1)
        first.close()
        self.when_running(0)
        self.release("x+hold+first=1+status=500")
        # Until the gateway has heard of the end as well, who asks again shares it.
        harness.wait_until(lambda: self.ask("POST", CHAT, body, {"x-stainless-retry-count": "1"}).status == 200, "an answer")

    def test_who_leaves_a_stream_cancels_it_at_once(self):
        stream = self.send(CHAT, chat("x" + FOREVER, stream=True), "x-stainless-retry-count: 0\r\n")
        self.when_at_upstream(1)
        stream.close()
        self.assertEqual([call["end"] for call in self.when_called(1)], ["hung_up"])
        self.assertEqual(self.metric("lanemq_gateway_cancelled_total"), 1)


class RetryGraceIsOver(GatewayCase):
    flags = ("--retry-grace", "50ms")

    def test_nobody_came_again(self):
        first = self.send(CHAT, chat("x" + FOREVER), "x-stainless-retry-count: 0\r\n")
        self.when_at_upstream(1)
        first.close()
        self.assertEqual([call["end"] for call in self.when_called(1)], ["hung_up"])
        self.when_running(0)
        self.assertEqual(self.metric("lanemq_gateway_cancelled_total"), 1)


class Detached(GatewayCase):
    flags = ("--detach", "1m")

    def test_the_next_try_gets_what_the_first_one_ran_for(self):
        for stream in (False, True):
            model = f"x-{stream}+hold"
            body = chat(model, stream=stream, **({"stream_options": {"include_usage": True}} if stream else {}))
            joined, jobs = (self.metric(f"lanemq_gateway_{name}_total") for name in ("joined", "jobs"))
            first = self.send(CHAT, body, "x-stainless-retry-count: 0\r\n")
            self.when_running(1)
            first.close()
            self.when_metric("lanemq_gateway_connections", 1)  # of whoever asks for it
            self.release(model)
            self.when_running(0)
            answer = self.ask("POST", CHAT, body, {"x-stainless-retry-count": "1"})
            self.assertEqual((answer.status, answer.body), (200, self.directly("POST", CHAT, body).body))
            self.assertEqual(self.metric("lanemq_gateway_joined_total"), joined + 1)
            self.assertEqual(self.metric("lanemq_gateway_jobs_total"), jobs + 1)


class Http(GatewayCase):
    flags = ("--body-bytes-max", "5000B", "--header-bytes-max", "2000B", "--job-body-bytes-max", "3000B")

    def test_requests_that_are_sent_ahead_are_answered_in_turn(self):
        connection = self.raw()
        bodies = [chat("gpt-x", user=f"caller-{number}") for number in range(5)]
        connection.sendall(b"".join(
            f"POST {CHAT} HTTP/1.1\r\nhost: g\r\nx-request-id: r{number}\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()
            for number, body in enumerate(bodies)))
        file = connection.makefile("rb")
        for number in range(5):
            length = None
            self.assertEqual(file.readline(), b"HTTP/1.1 200 OK\r\n")
            while (line := file.readline()) != b"\r\n":
                name, value = line.decode().split(": ", 1)
                length = int(value) if name == "content-length" else length
                if name == "x-request-id":
                    self.assertEqual(value.strip(), f"r{number}")
            file.read(length)

    def test_bodies_come_in_chunks_and_after_a_continue(self):
        body = chat()
        connection = self.raw()
        connection.sendall(f"POST {CHAT} HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n".encode())
        self.assertEqual(connection.recv(25, socket.MSG_WAITALL), b"HTTP/1.1 100 Continue\r\n\r\n")
        for at in range(0, len(body), 7):
            piece = body[at:at + 7]
            connection.sendall(f"{len(piece):x}\r\n{piece}\r\n".encode())
        connection.sendall(b"0\r\n\r\n")
        self.assertEqual(self.answer_of(connection).status, 200)

    def test_what_is_too_large_is_refused_before_it_is_read(self):
        self.assertEqual(self.ask("POST", CHAT, chat(user="x" * 5000)).json()["error"]["code"], "too_large")
        # Without a length it is known while it is read.
        connection = self.raw()
        connection.sendall(f"POST {CHAT} HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n".encode() + b"1388\r\n" + b"x" * 5000 + b"\r\n1\r\nx\r\n")
        self.assertEqual(self.answer_of(connection).status, 413)
        self.assertEqual(self.ask("GET", "/healthz", headers={"x-long": "x" * 3000}).status, 431)

    def test_a_job_that_is_left_has_a_bound_of_its_own(self):
        for headers in ({"content-length": "3001"}, {"transfer-encoding": "chunked"}):
            body = "x" * 3001 if "content-length" in headers else "bb9\r\n" + "x" * 3001 + "\r\n0\r\n\r\n"
            refused = self.ask("POST", "/v1/jobs", body, headers)
            self.assertEqual(refused.status, 413, refused.body)
            self.assertIn("3000", refused.json()["error"]["message"])
            self.assertIn("(job_body_bytes_max)", refused.json()["error"]["message"])
        self.assertEqual(self.ask("POST", CHAT, chat(user="x" * 4000)).status, 200)

    def test_methods_and_prefixes_of_plain_http(self):
        head = self.ask("HEAD", "/healthz")
        self.assertEqual((head.status, head.body, head.headers["content-length"]), (200, b"", "3"))
        options = self.ask("OPTIONS", CHAT)
        self.assertEqual((options.status, options.headers["allow"]), (204, "POST, OPTIONS"))
        self.assertEqual(self.ask("DELETE", CHAT).status, 405)
        old = self.raw()
        old.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        self.assertEqual(self.answer_of(old).headers["connection"], "close")

    def test_what_is_no_http_is_refused(self):
        for noise in (b"NONSENSE\r\n\r\n", b"GET / HTTP/1\r\n\r\n", b"POST /v1/messages HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
                      b"POST /v1/messages HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
                      b"GET / HTTP/1.1\r\nbroken header\r\n\r\n"):
            connection = self.raw()
            connection.sendall(noise)
            answer = self.answer_of(connection)
            self.assertEqual((answer.status, answer.headers["connection"]), (400, "close"), noise)

    def test_requests_cut_anywhere_leave_nothing_behind(self):
        chance, body = random.Random(11), chat(user="caf\u00e9")
        whole = (f"POST {CHAT} HTTP/1.1\r\nhost: g\r\ncontent-type: application/json\r\nx-lanemq-lane: batch\r\n"
                 f"content-length: {len(body)}\r\n\r\n{body}").encode()
        for _ in range(400):
            cut = chance.randrange(len(whole))
            noisy = bytearray(whole[:cut])
            if noisy and chance.random() < 0.5:
                noisy[chance.randrange(len(noisy))] = chance.randrange(256)
            with socket.create_connection(self.address()) as connection:
                connection.sendall(noisy)
        self.when_metric("lanemq_gateway_connections", 1)
        self.when_metric("lanemq_gateway_body_bytes", 0)
        self.when_running(0)
        self.assertEqual(self.ask("POST", CHAT, chat()).status, 200)


class SlowCallers(GatewayCase):
    # Who asks is not to be taken for slow when a busy machine holds it up.
    flags = ("--header-timeout", "3s", "--connections-max", "400", "--connections-per-address-max", "400")

    def test_slow_and_idle_callers_hold_up_nobody_and_are_closed(self):
        slow = []
        for number in range(300):
            connection = self.raw()
            connection.sendall(b"POST /v1/messages HTTP/1.1\r\nx-slow:"[:number % 38])
            slow.append(connection)
        with self.connection() as asker:
            for _ in range(20):
                asker.request("GET", "/healthz")
                self.assertEqual(asker.getresponse().read(), b"ok\n")
        for connection in slow:
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(connection.recv(1), b"")
        self.assertGreaterEqual(self.metric("lanemq_gateway_timeouts_total"), 300)


class Ends(GatewayCase):
    flags = ("--drain-timeout", "1m", "--broker-wait", "3s")

    def test_what_runs_is_finished_and_the_rest_refused(self):
        running = self.send(CHAT, chat("x+hold"))
        kept = http.client.HTTPConnection(*self.address(), timeout=harness.PATIENCE)
        self.addCleanup(kept.close)
        kept.request("GET", "/readyz")
        kept.getresponse().read()
        self.when_running(1)
        # Who is in the middle of a body is not cut off.
        held = self.metric("lanemq_gateway_body_bytes")
        coming, body = self.raw(), chat().encode()
        coming.sendall(f"POST {CHAT} HTTP/1.1\r\nhost: gateway\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body[:-1])
        self.when_metric("lanemq_gateway_body_bytes", held + len(body) - 1)
        self.gateway.signal(signal.SIGTERM)
        # Who spreads callers over gateways sees first that this one stops.
        harness.wait_until(lambda: self.ask("GET", "/readyz").status == 503, "no readiness")
        # A port that nobody listens on any more shows that the signal was taken.
        def refused():
            with contextlib.suppress(ConnectionError), socket.create_connection(self.address(), timeout=harness.PATIENCE):
                return False
            return True
        harness.wait_until(refused, "the end of listening")
        kept.request("POST", CHAT, chat())
        answer = Answer(kept.getresponse())
        self.assertEqual((answer.status, answer.json()["error"]["code"], answer.headers["x-should-retry"]), (503, "draining", "true"))
        coming.sendall(body[-1:])
        self.assertEqual(self.answer_of(coming).status, 503)
        self.release("x+hold")
        self.assertEqual(self.answer_of(running).status, 200)
        self.assertEqual(self.gateway.wait(), 0)

    def test_readiness_names_a_service_that_nobody_serves(self):
        client = self.room.client()
        client.submit(id="a", service="nobody", timeout_ms=60_000)
        client.settled()
        ready = harness.wait_until(lambda: b"nobody" in (answer := self.ask("GET", "/readyz")).body and answer, "the service's name")
        self.assertEqual((ready.status, ready.body), (200, b"ready\nno worker serves nobody (queued: 1)\n"))
        client.send("cancel", {"id": "a"})
        harness.wait_until(lambda: self.ask("GET", "/readyz").body == b"ready\n", "readiness alone")

    def test_readiness_is_the_brokers(self):
        harness.wait_until(lambda: self.ask("GET", "/readyz").status == 200, "readiness")
        self.room.broker.kill()
        silent = harness.wait_until(lambda: (answer := self.ask("GET", "/readyz")).status == 503 and answer, "the broker's silence")
        self.assertEqual(silent.body, b"no answer from the broker\n", "whoever asks is not told where it is")
        self.assertEqual(self.ask("GET", "/healthz").status, 200)


class OtherLanes(harness.Case):
    """A broker with lanes that its gateway does not know of."""

    arguments = None

    def test_it_is_not_ready_for_lanes_that_its_broker_has_not(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        for name, text in (("broker", '[[lane]]\nname = "high"\n[[lane]]\nname = "bulk"\ndefault = true\n'), ("gateway", 'batch_lane = "bulk"\n')):
            with open(os.path.join(folder, name + ".toml"), "w") as file:
                file.write(text)
        broker = self.room.start_broker("--config", os.path.join(folder, "broker.toml"))
        file = os.path.join(folder, "gateway.toml")
        gateway = self.room.start(harness.Process(harness.program("lanemq-gateway"), "--broker", broker.clients, "--listen",
                                                  "127.0.0.1:0", "--state", os.path.join(folder, "state"), "--config", file))
        base = urllib.parse.urlsplit(gateway.line().removeprefix("ready ").strip())

        def ready():
            with contextlib.closing(http.client.HTTPConnection(base.hostname, base.port, timeout=harness.PATIENCE)) as connection:
                connection.request("GET", "/readyz")
                answer = connection.getresponse()
                return answer.status, answer.read().decode()

        harness.wait_until(lambda: "normal" in ready()[1], "the broker's lanes")
        status, text = ready()
        self.assertEqual(status, 503)
        self.assertRegex(text, "the broker has no lane normal; it has high, bulk")
        self.assertRegex(gateway.stderr(), 'warning lanes.unknown lanes="normal, critical, low, batch" broker_has="high, bulk"')
        with open(file, "w") as out:
            out.write('lanes = ["high", "bulk"]\nbatch_lane = "bulk"\n')
        gateway.signal(signal.SIGHUP)
        harness.wait_until(lambda: ready() == (200, "ready\n"), "readiness")


class OddUpstream(harness.Case):
    """An upstream that answers as the test says, whatever it is asked."""

    def setUp(self):
        super().setUp()
        case = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                self.rfile.read(int(self.headers.get("content-length") or 0))
                case.answer(self)

            do_GET = do_POST

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        url = f"http://127.0.0.1:{server.server_port}"
        worker = self.room.start(harness.Process(
            harness.program("lanemq-worker"), "--broker", self.room.broker.workers, "--service", f"openai=openai:{url}/v1",
            "--service", f"anthropic=anthropic:{url}", env={**os.environ, "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}))
        self.assertTrue(worker.line().startswith("ready"), worker.stderr())
        gateway = self.room.start(harness.Process(harness.program("lanemq-gateway"), "--broker", self.room.broker.clients,
                                                  "--listen", "127.0.0.1:0"))
        self.base = gateway.line().removeprefix("ready ")

    def say(self, handler, status, body, **headers):
        handler.send_response(status)
        for name, value in {"content_type": "application/json", **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def ask(self, method, path, body=None):
        url = urllib.parse.urlsplit(self.base)
        with contextlib.closing(http.client.HTTPConnection(url.hostname, url.port, timeout=harness.PATIENCE)) as connection:
            connection.request(method, path, body)
            return Answer(connection.getresponse())

    def test_a_stream_that_comes_in_one_piece_is_a_stream(self):
        whole = {"id": "x", "object": "chat.completion", "content": [{"type": "text", "text": "whole"}], "stop_reason": "end_turn",
                 "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "whole"}}]}
        self.answer = lambda handler: self.say(handler, 200, json.dumps(whole).encode())
        for path, body, last in ((CHAT, chat(stream=True), b"data: [DONE]\n\n"),
                                 (MESSAGES, messages(stream=True), b'event: message_stop\ndata: {"type":"message_stop"}\n\n')):
            answer = self.ask("POST", path, body)
            self.assertEqual((answer.status, answer.headers["content-type"]), (200, "text/event-stream; charset=utf-8"))
            self.assertIn(b"whole", answer.body)
            self.assertTrue(answer.body.endswith(last), answer.body)
        # What has no stream is what it is.
        whole = {"data": []}
        answer = self.ask("POST", "/v1/embeddings", json.dumps({"model": "e", "input": "x", "stream": True}))
        self.assertEqual((answer.headers["content-type"], answer.json()), ("application/json", whole))
        answer = self.ask("POST", CHAT, chat(stream=True))
        self.assertEqual((answer.headers["content-type"], answer.json()), ("application/json", whole))

    def test_what_is_read_again_streams(self):
        go_on = threading.Event()
        self.addCleanup(go_on.set)

        def events(handler):
            handler.send_response(200)
            handler.send_header("content-type", "text/event-stream")
            handler.send_header("connection", "close")
            handler.end_headers()
            handler.wfile.write(b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"a"}\n\n')
            go_on.wait(harness.PATIENCE)
            handler.wfile.write(b'event: response.completed\ndata: {"type":"response.completed","response":{"id":"r"}}\n\n')
            handler.close_connection = True

        self.answer = events
        url = urllib.parse.urlsplit(self.base)
        with socket.create_connection((url.hostname, url.port), timeout=harness.PATIENCE) as connection:
            connection.sendall(f"GET /v1/responses/r?stream=true HTTP/1.1\r\nhost: {url.netloc}\r\n\r\n".encode())
            seen = b""
            while b'"delta":"a"' not in seen:  # the rest waits for this
                self.assertTrue(piece := connection.recv(65536), seen)
                seen += piece
            go_on.set()
            while b"response.completed" not in seen:
                self.assertTrue(piece := connection.recv(65536), seen)
                seen += piece

    def test_odd_bodies_are_read_or_refused(self):
        plain = json.dumps({"ok": True}).encode()
        self.answer = lambda handler: self.say(handler, 200, gzip.compress(plain), content_encoding="gzip")
        self.assertEqual(self.ask("POST", CHAT, chat()).body, plain)
        self.answer = lambda handler: self.say(handler, 400, b'{"error":{"message":"' + b"A" * 3_000_000 + b'"}}')
        large = self.ask("POST", CHAT, chat())
        self.assertEqual((large.status, large.headers["x-lanemq-error"]), (400, "upstream"))
        self.assertIn("left out", large.json()["error"]["message"])
        self.answer = lambda handler: self.say(handler, 200, b"")
        empty = self.ask("POST", CHAT, chat())
        self.assertEqual((empty.status, empty.headers["x-lanemq-error"]), (502, "upstream"), empty.body)
        self.assertIn("empty body", empty.json()["error"]["message"])

    def test_who_is_astray_is_told_the_way(self):
        self.answer = lambda handler: self.say(handler, 200, b"{}")
        for path, status, words in (("/", 200, "base_url = http://"), ("/chat/completions", 404, "ends in /v1"),
                                    ("/v1/v1/messages", 404, "has /v1 twice"), ("/v1/moderations", 404, "moderations: not served"),
                                    ("/v1/chat/completions", 405, "stored chat completions"), ("/v2/x", 404, "there is nothing at")):
            answer = self.ask("GET", path)
            self.assertEqual((answer.status, words in answer.body.decode()), (status, True), answer.body)


class Browsers(GatewayCase):
    hosts = "good.example"

    def test_pages_of_others_reach_nothing_without_keys(self):
        for method, path, body, headers, status in (
                ("POST", CHAT, chat(), {}, 200),
                ("POST", CHAT, chat(), {"host": "good.example:8080", "origin": "https://good.example"}, 200),
                ("POST", CHAT, chat(), {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}, 403),
                ("POST", CHAT, chat(), {"sec-fetch-site": "same-site"}, 403),
                ("POST", CHAT, chat(), {"content-type": "text/plain"}, 415),
                ("POST", "/v1/jobs", "{}", {"content-type": "application/x-www-form-urlencoded"}, 415),
                ("POST", CHAT, chat(), {"content-type": "application/json; charset=utf-8"}, 200),
                ("POST", "/v1/files", "", {"origin": "http://evil.example", "content-type": "multipart/form-data; boundary=X"}, 403),
                ("GET", "/v1/models", None, {"host": "evil.example"}, 403),
                ("GET", "/metrics", None, {"host": "evil.example"}, 403)):
            with self.subTest(path=path, headers=headers):
                self.assertEqual(self.ask(method, path, body, headers).status, status)


class Usage(unittest.TestCase):
    def run_gateway(self, *arguments, config=None):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(config or "")
            file.flush()
            process = harness.Process(harness.program("lanemq-gateway"), "--config", file.name, *arguments)
            try:
                return process.wait(), process.stderr()
            finally:
                process.close()

    def test_mistakes_are_named(self):
        for arguments, config, words in (
                (("--listen", "0.0.0.0:0"), "", "without keys"),
                (("--listen", "nowhere"), "", "ADDRESS:PORT"),
                (("--commit", "x"), "", "--commit: must be a whole number with its unit"),
                ((), '[[key]]\nname = "a"\n', "needs either secret or sha256"),
                ((), '[[key]]\nname = "a"\nsecret = "plain"\n', "never the secret itself"),
                ((), '[[key]]\nname = "a"\nsha256 = "00"\n', "64 hexadecimal digits"),
                ((), '[[key]]\nname = "a"\nsecret = "env:SHORT"\n', "16 bytes or more"),
                ((), key("a") + key("b").replace(key("b").splitlines()[2], key("a").splitlines()[2]), "have the same secret"),
                ((), '[[model]]\nname = "a"\non = ["rain"]\n', "there is no reason"),
                ((), 'auth = "maybe"\n', "must be keys or none"),
                ((), 'auth = "none"\n[[key]]\nname = "a"\nsha256 = "' + "0" * 64 + '"\n', "which would mean nothing"),
                (("--proxies", "10.0.0.0/8,proxy.example"), "", 'not "proxy.example"'),
                ((), 'wrong = 1\n', 'unknown key "wrong"')):
            with self.subTest(words=words):
                with unittest.mock.patch.dict(os.environ, SHORT="0123456789abcde"):
                    code, errors = self.run_gateway(*arguments, config=config)
                self.assertEqual(code, 2, errors)
                self.assertIn(words, errors)


if __name__ == "__main__":
    unittest.main()
