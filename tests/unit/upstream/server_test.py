#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The upstream double as a program: real sockets, real signals, its log and its check.

LANEMQ_UPSTREAM names the program. Needs nothing but Python's standard library.
"""

import http.client
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../integration"))
from waits import PATIENCE, pace, wait_until  # noqa: E402

PROGRAM = os.environ["LANEMQ_UPSTREAM"]
PATH = "/v1/chat/completions"
BODY = json.dumps({"model": "m", "max_tokens": 16, "messages": [{"role": "user", "content": "hello there"}]})


class Upstream:
    """A running double; leaving the block stops it with SIGTERM and expects exit code 0."""

    def __init__(self, *options):
        self.process = subprocess.Popen([PROGRAM, *options], stdout=subprocess.PIPE, text=True)
        word, url = self.process.stdout.readline().split()
        assert word == "ready" and url.startswith("http://127.0.0.1:"), (word, url)
        self.port = int(url.rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.process.send_signal(signal.SIGTERM)
        rest, _ = self.process.communicate(timeout=PATIENCE)
        if kind is None:
            assert self.process.returncode == 0, self.process.returncode
            assert rest == "", "more than one line on stdout: " + rest

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(self, method="POST", path=PATH, body=BODY, headers=None):
        connection = self.connect()
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()

    def stats(self):
        return json.loads(self.ask("GET", "/stats", None)[1])

    def wait_for(self, condition):
        """Polls /stats until the condition holds."""
        return wait_until(lambda: condition(stats := self.stats()) and stats, "what /stats has to say")

    def raw(self, data):
        """Sends bytes on a new connection and returns all that comes back until the end."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as sock:
            sock.sendall(data)
            received = b""
            while chunk := sock.recv(65536):
                received += chunk
            return received


def stream_body(model="m", **fields):
    return json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": "hello there"}], **fields})


def post(body=BODY, extra=""):
    return f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{extra}\r\n{body}".encode()


def read_log(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def check(log, *options):
    return subprocess.run([PROGRAM, "--check", log, *options], capture_output=True, text=True)


class Answers(unittest.TestCase):
    def test_a_connection_carries_many_calls(self):
        with Upstream("--latency-ms", "1", "--rpm", "1000") as upstream:
            connection = upstream.connect()
            for _ in range(20):
                connection.request("POST", PATH, BODY)
                answer = connection.getresponse()
                body = json.loads(answer.read())
                self.assertEqual(answer.status, 200)
                self.assertEqual(body["object"], "chat.completion")
            self.assertEqual(answer.getheader("x-ratelimit-remaining-requests"), "980")
            self.assertEqual(upstream.stats()["connections_peak"], 2)
            connection.close()

    def test_pipelined_requests_are_answered_in_order(self):
        with Upstream("--latency-ms", "20") as upstream:
            received = upstream.raw(post() + post() + post(extra="Connection: close\r\n"))
            self.assertEqual(received.count(b"HTTP/1.1 200 OK"), 3)
            self.assertEqual(upstream.stats()["hung_up"], 0)

    def test_wrong_requests_get_an_error_in_json(self):
        with Upstream("--body-limit", "1000", "--keys", "k") as upstream:
            key = {"Authorization": "Bearer k"}
            for status, asked in [
                (401, upstream.ask()),
                (400, upstream.ask(body="{", headers=key)),
                (400, upstream.ask(body="{}", headers=key)),
                (404, upstream.ask(path="/v1/nothing", headers=key)),
                (405, upstream.ask(method="DELETE", headers=key)),
                (413, upstream.ask(body="x" * 1001, headers=key)),
                (200, upstream.ask(headers=key)),
            ]:
                answer, body = asked
                self.assertEqual(answer.status, status, body)
                self.assertEqual("error" in json.loads(body), status != 200)
            self.assertIn(b"HTTP/1.1 400", upstream.raw(b"nonsense\r\n\r\n"))
            self.assertIn(b"HTTP/1.1 400", upstream.raw(b"GET / HTTP/1.1\r\nx: " + b"y" * 20000))
            stats = upstream.stats()
            self.assertEqual((stats["malformed"], stats["bad_requests"], stats["unauthorized"]), (2, 3, 1))

    def test_a_refused_upload_reads_why(self):
        with Upstream("--body-limit", "1000") as upstream:
            answer, body = upstream.ask(body="x" * 20_000_000)
            self.assertEqual(answer.status, 413)
            self.assertIn("1000 bytes", json.loads(body)["error"]["message"])

    def test_who_asks_before_sending_is_told_to_go_on(self):
        with Upstream("--latency-ms", "1") as upstream:
            received = upstream.raw(post(extra="Expect: 100-continue\r\nConnection: close\r\n"))
            self.assertTrue(received.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"))

    def test_connections_over_the_maximum_are_closed(self):
        with Upstream("--max-connections", "2") as upstream:
            first, second = upstream.connect(), upstream.connect()
            for connection in (first, second):
                connection.request("GET", "/healthz")
                connection.getresponse().read()
            try:
                self.assertEqual(upstream.raw(b"GET /healthz HTTP/1.1\r\n\r\n"), b"")
            except ConnectionError:
                pass
            first.request("GET", "/stats")
            self.assertEqual(json.loads(first.getresponse().read())["connections_refused"], 1)
            first.close()
            second.close()


class Streams(unittest.TestCase):
    def test_a_stream_spells_the_answer_and_leaves_the_connection_open(self):
        with Upstream("--latency-ms", "1") as upstream:
            connection = upstream.connect()
            texts = []
            for _ in range(3):
                connection.request("POST", PATH, stream_body("m+tokens=30"))
                answer = connection.getresponse()
                self.assertTrue(answer.getheader("content-type").startswith("text/event-stream"))
                events = answer.read().decode().split("\n\n")
                self.assertEqual(events[-2:], ["data: [DONE]", ""])
                deltas = [json.loads(event.removeprefix("data: "))["choices"][0]["delta"] for event in events[:-2]]
                texts.append("".join(delta.get("content", "") for delta in deltas))
            connection.request("POST", PATH, json.dumps({**json.loads(stream_body("m+tokens=30")), "stream": False}))
            whole = json.loads(connection.getresponse().read())["choices"][0]["message"]["content"]
            connection.close()
            self.assertEqual(texts, [whole] * 3)
            self.assertEqual(upstream.stats()["deltas"], 90)

    def test_deltas_come_one_by_one_at_their_pace(self):
        with Upstream("--latency-ms", "1", "--token-ms", "30") as upstream:
            connection, began = upstream.connect(), time.monotonic()
            connection.request("POST", PATH, stream_body("m+tokens=6"))
            answer = connection.getresponse()
            lines = []
            while line := answer.readline():
                if b'"content":"' in line and b'"content":""' not in line:
                    lines.append(line)
            connection.close()
            self.assertEqual(len(lines), 6)
            # However late they are seen, the last one was not sent before its time.
            self.assertGreater(time.monotonic() - began, 5 * 0.03)

    def test_all_at_once_or_drop_by_drop_it_is_the_same(self):
        with Upstream("--latency-ms", "1") as upstream:
            bodies = {upstream.ask(body=stream_body("m+tokens=9" + more))[1].replace(more.encode(), b"")
                      for more in ("", "+drip=1", "+drip=100")}
            self.assertEqual(len(bodies), 1)

    def test_a_stream_breaks_where_it_is_told_to(self):
        with Upstream("--latency-ms", "1", "--stall-ms", "100") as upstream:
            head = len(b"\r\n\r\n")
            for model, bytes_sent in (("m+reset=0", 0), ("m+reset=777", 777), ("m+half=1", 1), ("m+half=900", 900)):
                received = b""
                with socket.create_connection(("127.0.0.1", upstream.port), timeout=PATIENCE) as sock:
                    sock.sendall(post(stream_body(model)))
                    try:
                        while chunk := sock.recv(65536):
                            received += chunk
                        self.assertIn("half", model)
                    except ConnectionResetError:
                        self.assertIn("reset", model)
                body = received[received.index(b"\r\n\r\n") + head :]
                sent = b""
                while body:
                    size, body = body.split(b"\r\n", 1)
                    sent, body = sent + body[: int(size, 16)], body[int(size, 16) + 2 :]
                self.assertEqual(len(sent), bytes_sent, model)
            self.assertNotIn(b"[DONE]", upstream.ask(body=stream_body("m+eof=3"))[1])
            self.assertIn(b'data: {"error":', upstream.ask(body=stream_body("m+error-event=3"))[1])
            self.assertEqual(upstream.raw(post(stream_body("m+stall=2"))).count(b"data: "), 3)
            with self.assertRaises((ConnectionResetError, http.client.RemoteDisconnected)):
                upstream.ask(body=stream_body("m+no-answer"))
            faults = upstream.stats()["faults"]
            self.assertEqual([faults[name] for name in ("reset", "half", "eof", "error-event", "stall")], [3, 2, 1, 1, 1])

    def test_what_is_held_or_paused_goes_on_when_its_model_is_released(self):
        with Upstream("--latency-ms", "1") as upstream:
            release = lambda model: upstream.ask(path="/admin/release", body=json.dumps({"model": model}))[0].status
            for body, model in ((stream_body("m+hold"), "m+hold"), (stream_body("m+pause=2"), "m+pause=2"),
                                (stream_body("m+status=400+hold"), "m+status=400+hold"),
                                (json.dumps({**json.loads(BODY), "model": "n+hold"}), "n+hold")):
                held = [socket.create_connection(("127.0.0.1", upstream.port), timeout=PATIENCE) for _ in range(2)]
                for sock in held:
                    sock.sendall(post(body, extra="Connection: close\r\n"))
                upstream.wait_for(lambda stats: stats["in_flight"] == 2)
                if "pause" in model:
                    self.assertTrue(held[0].recv(100).startswith(b"HTTP/1.1 200"))
                held[0].close()
                # Who hangs up is noticed as ever.
                upstream.wait_for(lambda stats: stats["in_flight"] == 1)
                self.assertEqual(release("another"), 200)
                self.assertEqual(upstream.stats()["in_flight"], 1)
                self.assertEqual(release(model), 200)
                received = b""
                while piece := held[1].recv(65536):
                    received += piece
                held[1].close()
                self.assertTrue(received.startswith(b"HTTP/1.1 400" if "status" in model else b"HTTP/1.1 200"), received)
                if "pause" in model:
                    self.assertIn(b"[DONE]", received)
                # Those to come are not held.
                self.assertEqual(upstream.ask(body=body)[0].status, 400 if "status" in model else 200)
            self.assertEqual(upstream.ask(body=json.dumps({**json.loads(BODY), "model": "m+pause=1"}))[0].status, 400)

    def test_a_client_that_hangs_up_in_a_stream_is_noticed_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            log = folder + "/log"
            with Upstream("--latency-ms", "1", "--token-ms", "60000", "--log", log) as upstream:
                sock = socket.create_connection(("127.0.0.1", upstream.port))
                sock.sendall(post(stream_body(), extra="x-lanemq-job: a-1\r\n"))
                seen = b""
                while b'"content":""' not in seen:
                    self.assertTrue(piece := sock.recv(65536), seen)
                    seen += piece
                left = time.time()
                sock.close()
                upstream.wait_for(lambda stats: stats["in_flight"] == 0)
            (record,) = read_log(log)
            self.assertEqual((record["end"], record["status"], record["stream"], record["job"]), ("hung_up", 499, True, "a-1"))
            self.assertLessEqual(record["completion_tokens"], 1)
            self.assertGreater(record["sent"], 100)
            # The time of a turn of its loop is that of the turn's beginning.
            self.assertGreater(record["ended_unix_ms"], left * 1000 - 1000)
            self.assertLess(record["ended_unix_ms"], left * 1000 + 60000, "it took the next delta")

    def test_a_reader_that_is_slow_holds_nothing_up(self):
        with Upstream("--latency-ms", "1") as upstream:
            with socket.create_connection(("127.0.0.1", upstream.port), timeout=PATIENCE) as slow:
                slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                slow.sendall(post(stream_body("m+tokens=4096", max_tokens=5000)) * 20)
                upstream.wait_for(lambda stats: stats["in_flight"] == 1)
                self.assertEqual(upstream.ask()[0].status, 200)
                self.assertEqual(upstream.stats()["in_flight"], 1)

    def test_every_api_streams_and_answers(self):
        user = [{"role": "user", "content": "hi"}]
        anthropic = {"anthropic-version": "2023-06-01", "x-api-key": "k"}
        with Upstream("--latency-ms", "1") as upstream:
            for path, fields, end in (
                ("/v1/completions", {"prompt": "hi"}, b"data: [DONE]\n\n"),
                ("/v1/responses", {"input": "hi"}, b"}\n\n"),
                ("/v1/messages", {"messages": user, "max_tokens": 50}, b'data: {"type":"message_stop"}\n\n'),
            ):
                for stream in (True, False):
                    answer, body = upstream.ask(path=path, body=json.dumps({"model": "m", "stream": stream, **fields}), headers=anthropic)
                    self.assertEqual(answer.status, 200, body)
                    self.assertTrue(body.endswith(end) if stream else json.loads(body)["usage"], body)
            self.assertEqual(len(json.loads(upstream.ask(path="/v1/embeddings", body='{"input":"a"}')[1])["data"][0]["embedding"]), 1536)
            counted = upstream.ask(path="/v1/messages/count_tokens", body=json.dumps({"model": "m", "messages": user}), headers=anthropic)
            self.assertEqual(json.loads(counted[1]), {"input_tokens": 1})
            self.assertEqual(json.loads(upstream.ask("GET", "/v1/models/gpt-4o", None)[1])["object"], "model")
            self.assertEqual(upstream.ask("GET", "/v1/models/nothing", None)[0].status, 404)
            self.assertEqual(json.loads(upstream.ask("GET", "/v1/models", None, anthropic)[1])["has_more"], False)


class Leaks(unittest.TestCase):
    def test_what_a_gateway_must_not_pass_on_is_refused_and_the_check_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            log = folder + "/log"
            with Upstream("--latency-ms", "1", "--log", log) as upstream:
                self.assertEqual(upstream.ask(headers={"x-stainless-lang": "js"})[0].status, 400)
                self.assertEqual(upstream.ask(body=json.dumps({**json.loads(BODY), "lane": "high"}))[0].status, 400)
                self.assertEqual(upstream.ask(headers={"x-lanemq-job": "a", "x-lanemq-attempt": "1"})[0].status, 200)
                self.assertEqual(upstream.stats()["violations"], 2)
            self.assertEqual([record.get("leaks") for record in read_log(log)], [["x-stainless-lang"], ["lane"], None])
            checked = check(log)
            self.assertEqual(checked.returncode, 1)
            self.assertIn("violations 2", checked.stdout)


class Limits(unittest.TestCase):
    def test_the_call_over_the_limit_is_told_when_to_come_back(self):
        with tempfile.TemporaryDirectory() as folder, Upstream(
            "--rpm", "3", "--latency-ms", "1", "--log", folder + "/log"
        ) as upstream:
            statuses = [upstream.ask()[0].status for _ in range(3)]
            answer, body = upstream.ask(headers={"x-lanemq-job": "late"})
            stats = upstream.stats()
            self.assertEqual(statuses, [200, 200, 200])
            self.assertEqual(answer.status, 429)
            self.assertEqual(json.loads(body)["error"]["type"], "requests")
            self.assertLessEqual(int(answer.getheader("retry-after-ms")), 60000)
            self.assertEqual(int(answer.getheader("retry-after")), -(-int(answer.getheader("retry-after-ms")) // 1000))
            self.assertEqual((stats["rejected_429"], stats["peak_calls_60s"]), (1, 3))

    def test_keys_have_limits_of_their_own_and_can_be_killed(self):
        with tempfile.TemporaryDirectory() as folder:
            log = folder + "/log"
            with Upstream("--keys", "k1=one,two", "--rpm", "2", "--latency-ms", "1", "--log", log) as upstream:
                status = lambda secret: upstream.ask(headers={"Authorization": "Bearer " + secret})[0].status
                self.assertEqual([status("one"), status("two"), status("three")], [200, 200, 401])
                self.assertEqual(upstream.ask(path="/admin/keys/k1", body='{"dead":true}')[0].status, 200)
                self.assertEqual([status("one"), status("two"), status("two")], [401, 200, 429])
                self.assertEqual(upstream.ask("GET", "/admin/keys/k1", None)[0].status, 404)
                self.assertEqual({name: key["accepted"] for name, key in upstream.stats()["keys"].items()}, {"k1": 1, "two": 2})
            self.assertEqual([record.get("key") for record in read_log(log)], ["k1", "two", None, "k1", "two", "two"])
            self.assertIn("peak_calls_60s 2", check(log).stdout)

    def test_a_bucket_takes_its_burst_and_then_its_rate(self):
        with Upstream("--rpm", "60", "--window", "bucket", "--burst", "5", "--latency-ms", "0") as upstream:
            accepted = 0
            answer, _ = upstream.ask()
            while answer.status == 200:
                accepted += 1
                self.assertLess(accepted, 1000)
                answer, _ = upstream.ask()
            self.assertEqual(answer.status, 429)
            self.assertGreaterEqual(accepted, 5)
            pace(int(answer.getheader("retry-after-ms")) / 1000)  # the wait that the double itself told
            self.assertEqual(upstream.ask()[0].status, 200)


    def test_the_call_over_the_places_is_refused_until_one_ends(self):
        with Upstream("--at-once", "1", "--latency-ms", "1", "--rpm", "100") as upstream:
            held = socket.create_connection(("127.0.0.1", upstream.port), timeout=PATIENCE)
            held.sendall(post(json.dumps({**json.loads(BODY), "model": "m+hold"})))
            upstream.wait_for(lambda stats: stats["in_flight"] == 1)
            answer, body = upstream.ask()
            self.assertEqual((answer.status, answer.getheader("retry-after")), (429, None))
            self.assertIn("Limit 1, Used 1", json.loads(body)["error"]["message"])
            held.close()
            upstream.wait_for(lambda stats: stats["in_flight"] == 0)
            self.assertEqual(upstream.ask()[0].status, 200)
            self.assertEqual(upstream.stats()["limit_at_once"], 1)

    def test_periods_of_each_kind_of_window_pass_the_check(self):
        with tempfile.TemporaryDirectory() as folder:
            for window in ("sliding", "bucket", "fixed", "clock"):
                log, limits = f"{folder}/{window}", ("--rpm", "5", "--period", "0.2", "--window", window)
                with Upstream(*limits, "--latency-ms", "0", "--log", log) as upstream:
                    while upstream.stats()["accepted"] < 20:
                        upstream.ask()
                    self.assertLessEqual(upstream.stats()["peak_calls_0.2s"], 6)
                self.assertRegex(check(log, *limits).stdout, "peak_calls_0.2s [1-6] ")
                # What it refused is no call too many, and says itself that somebody called too often.
                accepted = [json.dumps(record) + "\n" for record in read_log(log) if record["status"] == 200]
                with open(log, "w", encoding="utf-8") as file:
                    file.writelines(accepted)
                self.assertEqual(check(log, *limits).returncode, 0, check(log, *limits).stdout)

    def test_others_use_the_same_account(self):
        with Upstream("--rpm", "3", "--others", "burst:2/1000s,1/s@9000..", "--latency-ms", "0") as upstream:
            # Theirs come before ours, at the very start.
            self.assertEqual([upstream.ask()[0].status for _ in range(2)], [200, 429])
            self.assertEqual(upstream.stats()["others"], {"granted": 2, "refused": 0, "steps_cut": 0})

    def test_words_are_those_that_it_is_asked_for(self):
        with Upstream("--rpm", "1", "--speaks", "none", "--latency-ms", "0") as upstream:
            upstream.ask()
            answer, body = upstream.ask()
            self.assertEqual((answer.status, body, answer.getheader("retry-after")), (429, b"", None))
        with Upstream("--rpm", "1", "--speaks", "ietf", "--latency-ms", "0") as upstream:
            self.assertEqual(upstream.ask()[0].getheader("ratelimit-policy"), '"requests";q=1;w=60')
        with Upstream("--rpm", "1", "--tells", "retry-after", "--latency-ms", "0") as upstream:
            self.assertIsNone(upstream.ask()[0].getheader("x-ratelimit-limit-requests"))
            answer, body = upstream.ask()
            self.assertTrue(0 < int(answer.getheader("retry-after")) <= 60)
            self.assertIsNone(answer.getheader("retry-after-ms"))
            self.assertNotIn("Limit", json.loads(body)["error"]["message"])


class Faults(unittest.TestCase):
    def test_a_reset_breaks_the_answer_off(self):
        with Upstream("--fault-reset", "1", "--latency-ms", "1") as upstream:
            with self.assertRaises((ConnectionResetError, http.client.IncompleteRead)):
                upstream.ask()
            self.assertEqual(upstream.wait_for(lambda stats: stats["in_flight"] == 0)["faults"]["reset"], 1)

    def test_half_a_body_ends_early(self):
        with Upstream("--fault-half", "1", "--latency-ms", "1") as upstream:
            with self.assertRaises(http.client.IncompleteRead):
                upstream.ask()
            self.assertEqual(upstream.stats()["faults"]["half"], 1)

    def test_a_stall_says_nothing_and_closes(self):
        with Upstream("--fault-stall", "1", "--stall-ms", "150") as upstream:
            begin = time.monotonic()
            with self.assertRaises(http.client.RemoteDisconnected):
                upstream.ask()
            self.assertGreater(time.monotonic() - begin, 0.149)

    def test_server_errors_have_a_body(self):
        with Upstream("--fault-5xx", "1", "--latency-ms", "1") as upstream:
            answers = [upstream.ask() for _ in range(20)]
            self.assertEqual({answer.status for answer, _ in answers}, {500, 502, 503})
            self.assertTrue(all("error" in json.loads(body) for _, body in answers))

    def test_a_client_that_hangs_up_is_noticed_at_once(self):
        with Upstream("--latency-ms", "60000") as upstream:
            sock = socket.create_connection(("127.0.0.1", upstream.port))
            sock.sendall(post())
            upstream.wait_for(lambda stats: stats["in_flight"] == 1)
            sock.close()
            self.assertEqual(upstream.wait_for(lambda stats: stats["in_flight"] == 0)["hung_up"], 1)


class Load(unittest.TestCase):
    def test_a_thousand_calls_in_flight_on_a_thousand_connections(self):
        count = 1000
        with tempfile.TemporaryDirectory() as folder:
            log = folder + "/log"
            with Upstream("--latency-ms", "5000", "--log", log) as upstream:
                ready = selectors.DefaultSelector()
                for number in range(count):
                    sock = socket.create_connection(("127.0.0.1", upstream.port))
                    sock.sendall(post(extra=f"x-lanemq-job: {number}\r\n"))
                    ready.register(sock, selectors.EVENT_READ)
                answered = 0
                while answered < count:
                    events = ready.select(timeout=PATIENCE)
                    self.assertTrue(events)
                    for key, _ in events:
                        self.assertTrue(key.fileobj.recv(65536).startswith(b"HTTP/1.1 200 OK"))
                        ready.unregister(key.fileobj)
                        key.fileobj.close()
                        answered += 1
                stats = upstream.stats()
            self.assertEqual(stats["ok"], count)
            self.assertGreaterEqual(stats["in_flight_peak"], 256)
            self.assertGreaterEqual(stats["connections_peak"], 256)
            self.assertEqual({record["job"] for record in read_log(log)}, {str(n) for n in range(count)})
            self.assertEqual(check(log, "--rpm", str(count)).returncode, 0)
            self.assertEqual(check(log, "--rpm", str(count - 1)).returncode, 1)


class Ends(unittest.TestCase):
    def test_a_stop_writes_even_the_calls_in_flight_to_the_log(self):
        with tempfile.TemporaryDirectory() as folder:
            log = folder + "/log"
            with Upstream("--latency-ms", "60000", "--log", log) as upstream:
                sock = socket.create_connection(("127.0.0.1", upstream.port))
                sock.sendall(post(extra="x-lanemq-job: a-1\r\n"))
                upstream.wait_for(lambda stats: stats["in_flight"] == 1)
            sock.close()
            records = read_log(log)
            self.assertEqual(len(records), 1)
            self.assertEqual((records[0]["status"], records[0]["fault"], records[0]["job"]), (0, "cut", "a-1"))
            self.assertIn("calls 1  accepted 1  ok 0  429s 0  peak_calls_60s 1", check(log).stdout)

    def test_exit_codes_and_messages(self):
        for options, code, words in [
            (["--rpm", "0"], 2, "--rpm"),
            (["--latency-ms", "9..3"], 2, "A..B"),
            (["--window", "wide"], 2, "--window"),
            (["--period", "0"], 2, "--period"),
            (["--rpm", "600,300"], 2, "600,300@30"),
            (["--at-once", "40@5"], 2, "--at-once"),
            (["--slope", "0.5"], 2, "--slope"),
            (["--speaks", "french"], 2, "--speaks"),
            (["--tells", "some"], 2, "--tells"),
            (["--others", "many"], 2, "burst:300/20s"),
            (["--others", "half"], 2, "--rpm"),
            (["--fault-5xx", "0.7", "--fault-half", "0.7"], 2, "more than 1"),
            (["--burst", "5"], 2, "--window bucket"),
            (["--keys", "a=x,b=x"], 2, "each name and secret once"),
            (["--keys", "=x"], 2, "NAME=SECRET"),
            (["--nonsense"], 2, "--nonsense"),
            (["--listen", "somewhere:80"], 3, "127.0.0.1:8080"),
            (["--listen", "192.0.2.1:0"], 3, "192.0.2.1:0"),
            (["--log", "/nowhere/at/all"], 1, "/nowhere/at/all"),
            (["--check", "/nowhere/at/all"], 2, "/nowhere/at/all"),
        ]:
            ended = subprocess.run([PROGRAM, *options], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(ended.returncode, code, (options, ended.stderr))
            self.assertIn(words, ended.stderr)

    def test_a_taken_port_is_exit_code_3(self):
        with Upstream() as upstream:
            ended = subprocess.run([PROGRAM, "--listen", f"127.0.0.1:{upstream.port}"], capture_output=True, timeout=PATIENCE)
            self.assertEqual(ended.returncode, 3)


if __name__ == "__main__":
    unittest.main()
