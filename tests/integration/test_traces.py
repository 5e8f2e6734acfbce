# SPDX-License-Identifier: Apache-2.0
"""Traces: gateway, broker and worker send the spans of each job to a collector that speaks OTLP over HTTP, and pass the
trace on to the upstream. Collector and upstream are the test's own."""

import contextlib
import http.client
import http.server
import json
import os
import re
import socket
import sys
import threading
import time
import unittest
import urllib.parse

import harness

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../client/python"))
from lanemq import Client  # noqa: E402

CHAT = "/v1/chat/completions"
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
# How far two programs' readings of one moment may lie apart while other programs have the machine, in ms.
APART_MS = 250
# What the exporter keeps, as common/trace/exporter.hpp says: waiting, and in the batch that is under way.
WAITING_MAX, BATCH_MAX = 4096, 512


class Http(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        return self.rfile.read(int(self.headers["content-length"]))

    def reply(self, status, body, kind="application/json"):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server:
    """An HTTP server of the test's on a free port, with a thread for each connection."""

    def __init__(self, test, handler):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        thread.start()
        test.addCleanup(self.server.server_close)
        test.addCleanup(thread.join)
        test.addCleanup(self.server.shutdown)


class Collector(Server):
    """Keeps the spans that it is sent. `answer`: how it answers; `held`: set while it answers nobody."""

    def __init__(self, test):
        self.lock, self.spans, self.requests, self.problems = threading.Lock(), [], 0, []
        self.answer, self.open = (200, b"{}"), threading.Event()
        self.open.set()
        collector = self

        class Handler(Http):
            def do_POST(self):
                body = self.body()
                with collector.lock:
                    collector.requests += 1
                collector.open.wait()
                with collector.lock, contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    named = re.fullmatch(r"lanemq-(broker|worker|gateway)/\d+\.\d+\.\d+[\w.~+]*", self.headers["user-agent"] or "")
                    if self.path != "/v1/traces" or self.headers["content-type"] != "application/json" or not named:
                        collector.problems.append((self.path, str(self.headers)))
                    if collector.answer == (200, b"{}"):
                        collector.take(json.loads(body))
                    self.reply(*collector.answer)

        super().__init__(test, Handler)
        test.addCleanup(self.open.set)

    def take(self, request):
        for of_program in request["resourceSpans"]:
            program = {fact["key"]: fact["value"] for fact in of_program["resource"]["attributes"]}
            for scope in of_program["scopeSpans"]:
                for span in scope["spans"]:
                    facts = {fact["key"]: next(iter(fact["value"].values())) for fact in span["attributes"]}
                    self.spans.append({**span, "facts": facts, "program": program["service.name"]["stringValue"],
                                       "begin": int(span["startTimeUnixNano"]), "end": int(span["endTimeUnixNano"])})

    def of(self, trace):
        with self.lock:
            return [span for span in self.spans if span["traceId"] == trace]

    def wait_for(self, trace, **counts):
        """The spans of a trace by their names, once there are so many."""
        def there():
            names = [span["name"].replace(" ", "_") for span in self.of(trace)]
            return {name: names.count(name) for name in set(names)} == counts

        try:
            harness.wait_until(there, f"spans {counts}", pause=0.02)
        except harness.Timeout as timeout:
            raise harness.Timeout(f"{timeout}; there are {[(s['program'], s['name']) for s in self.of(trace)]}") from None
        spans = sorted(self.of(trace), key=lambda span: span["begin"])
        return {name: [span for span in spans if span["name"].replace(" ", "_") == name] for name in counts}


class Upstream(Server):
    """A model's API. A model `retry` fails once; the calls' trace headers are kept by the prompt."""

    def __init__(self, test):
        self.calls, self.failed = [], set()
        upstream = self

        class Handler(Http):
            def do_POST(self):
                request = json.loads(self.body())
                prompt = request["messages"][0]["content"]
                upstream.calls.append((prompt, self.headers["traceparent"], self.headers["tracestate"]))
                if request["model"] == "retry" and prompt not in upstream.failed:
                    upstream.failed.add(prompt)
                    return self.reply(503, b'{"error": {"message": "not now"}}')
                harness.pace(0.05)  # a model takes its time: what is measured below is longer than that
                usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
                if not request.get("stream"):
                    return self.reply(200, json.dumps({"id": "c", "object": "chat.completion", "model": "m", "choices": [
                        {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
                        "usage": usage}).encode())
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                for word in ("a", "b"):
                    chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [
                        {"index": 0, "delta": {"content": word}, "finish_reason": None}]}
                    self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                    self.wfile.flush()
                    harness.pace(0.05)
                last = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [
                    {"index": 0, "delta": {}, "finish_reason": "stop"}]}
                end = {**last, "choices": [], "usage": usage}
                self.wfile.write(f"data: {json.dumps(last)}\n\ndata: {json.dumps(end)}\n\ndata: [DONE]\n\n".encode())
                self.close_connection = True

        super().__init__(test, Handler)

    def headers_of(self, prompt):
        return [(parent, state) for said, parent, state in self.calls if said == prompt]


def ms(span):
    return (span["end"] - span["begin"]) / 1e6


def timing(answer, name):
    return int(re.search(rf"{name};dur=(\d+)", answer.headers["server-timing"])[1])


class TraceCase(harness.Case):
    settings, worker_flags = (), ()
    otlp = True

    def setUp(self):
        self.collector, self.upstream = Collector(self), Upstream(self)
        self.export = ("--otlp", self.collector.url) if self.otlp else ()
        words = [word for setting in ("heartbeat=10s", "backoff_base=10ms", *self.settings) for word in ("--set", setting)]
        self.arguments = (*words, *self.export)
        super().setUp()
        self.worker = self.start_worker(*self.worker_flags)
        self.gateway = self.room.start(harness.Process(
            harness.program("lanemq-gateway"), "--broker", self.room.broker.clients, "--listen", "127.0.0.1:0",
            "--access-log", "true", "--log-format", "json", *self.export))
        line = self.gateway.line()
        self.assertTrue(line.startswith("ready http://"), line + self.gateway.stderr())
        self.base = line.removeprefix("ready ").strip()

    def start_worker(self, *flags):
        worker = self.room.start(harness.Process(
            harness.program("lanemq-worker"), "--broker", self.room.broker.workers, "--capacity", "8",
            "--service", f"openai=openai:{self.upstream.url}/v1", "--service", "echo=echo", "--log-format", "json",
            *self.export, *flags))
        self.assertTrue(worker.line().startswith("ready"), worker.stderr())
        return worker

    def post(self, prompt, headers=None, **fields):
        url = urllib.parse.urlsplit(self.base)
        with contextlib.closing(http.client.HTTPConnection(url.hostname, url.port, timeout=harness.PATIENCE)) as connection:
            body = {"model": "m", "messages": [{"role": "user", "content": prompt}], **fields}
            connection.request("POST", CHAT, json.dumps(body), {"content-type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            answer.text = answer.read().decode()
            return answer

    def metrics(self):
        url = urllib.parse.urlsplit(self.base)
        with contextlib.closing(http.client.HTTPConnection(url.hostname, url.port, timeout=harness.PATIENCE)) as connection:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        return {name: int(value) for name, value in re.findall(r"^lanemq_gateway_(spans_\w+) (\d+)", text, re.M)}

    def log_lines(self, process, event):
        lines = (json.loads(line) for line in process.stderr().splitlines() if line.startswith("{"))
        return [line for line in lines if line["event"] == event]

    def transport(self):
        return self.room.stats()["counters"]

    def parents(self, spans, trace_parent=None):
        """Checks who is whose parent in a job's spans, and which program has made which."""
        (request,) = spans["request"]
        self.assertEqual(request.get("parentSpanId"), trace_parent)
        self.assertEqual((request["program"], request["kind"]), ("lanemq-gateway", 2))
        for span in (*spans.get("queue", ()), *spans.get("call", ())):
            self.assertEqual(span["parentSpanId"], request["spanId"], span)
        self.assertEqual({span["program"] for span in spans.get("queue", ())}, {"lanemq-broker"})
        if "call" in spans:
            self.assertEqual({(span["program"], span["kind"]) for span in spans["call"]}, {("lanemq-worker", 3)})
        everyone = [span["spanId"] for kind in spans.values() for span in kind]
        self.assertEqual(len(set(everyone)), len(everyone))

    def sums(self, spans, answer):
        """Checks the spans' times against what the answer's headers say."""
        queues, calls = spans["queue"], spans["call"]
        queued = (queues[-1]["end"] - queues[0]["begin"]) / 1e6
        self.assertEqual(int(answer.headers["x-lanemq-attempts"]), len(calls))
        # The same two moments, by one program: what the header says in whole ms.
        self.assertAlmostEqual(queued, int(answer.headers["x-lanemq-queue-ms"]), delta=1.5)
        self.assertGreaterEqual(ms(calls[-1]), 50)
        for queue, call in zip(queues, calls, strict=True):
            self.assertAlmostEqual(queue["end"] / 1e6, call["begin"] / 1e6, delta=APART_MS)
        self.assertAlmostEqual(ms(spans["request"][0]), queued + ms(calls[-1]), delta=2 * APART_MS)


class Chat(TraceCase):
    def test_the_spans_of_a_chat_form_one_trace(self):
        answer = self.post("whole", {"traceparent": PARENT, "tracestate": "vendor=1,other=2"})
        self.assertEqual(answer.status, 200, answer.text)
        spans = self.collector.wait_for(TRACE, request=1, queue=1, call=1)
        self.parents(spans, SPAN)
        self.sums(spans, answer)
        (call,), (request,) = spans["call"], spans["request"]
        self.assertAlmostEqual(ms(call), timing(answer, "upstream"), delta=APART_MS)
        self.assertAlmostEqual(ms(request), timing(answer, "total"), delta=APART_MS)
        self.assertEqual(self.upstream.headers_of("whole"), [(f"00-{TRACE}-{call['spanId']}-01", "vendor=1,other=2")])
        self.assertEqual(request["traceState"], "vendor=1,other=2")
        self.assertEqual((request["facts"]["http.response.status_code"], request["facts"]["gen_ai.usage.input_tokens"],
                          call["facts"]["gen_ai.usage.output_tokens"], call["facts"]["lanemq.lane"]), ("200", "7", "3", "normal"))
        self.assertEqual(request["facts"]["lanemq.request"], answer.headers["x-request-id"])
        line = harness.wait_until(lambda: self.log_lines(self.gateway, "request.answered"), "the access log")[0]
        self.assertEqual((line["trace"], line["id"], line["status"]), (TRACE, answer.headers["x-request-id"], 200))
        self.assertFalse(self.collector.problems)
        # No body is in any of it.
        with self.collector.lock:
            self.assertNotIn("yes", [value for span in self.collector.spans for value in span["facts"].values()])

    def test_a_stream_has_a_span_of_its_own(self):
        answer = self.post("stream", {"traceparent": PARENT}, stream=True)
        self.assertIn("[DONE]", answer.text)
        spans = self.collector.wait_for(TRACE, request=1, queue=1, call=1, stream=1)
        self.parents(spans, SPAN)
        self.sums(spans, answer)
        (call,), (stream,) = spans["call"], spans["stream"]
        self.assertEqual(stream["parentSpanId"], call["spanId"])
        self.assertGreaterEqual(stream["begin"], call["begin"])
        self.assertAlmostEqual(stream["end"] / 1e6, call["end"] / 1e6, delta=0.1)
        self.assertGreaterEqual(ms(stream), 50)

    def test_a_retry_has_two_calls(self):
        answer = self.post("twice", {"traceparent": PARENT}, model="retry")
        self.assertEqual(answer.status, 200, answer.text)
        spans = self.collector.wait_for(TRACE, request=1, queue=2, call=2)
        self.parents(spans, SPAN)
        self.sums(spans, answer)
        first, second = spans["call"]
        self.assertEqual((first["status"]["message"], first["facts"]["http.response.status_code"]), ("upstream_503", "503"))
        self.assertNotIn("status", second)
        self.assertEqual([call["facts"]["lanemq.attempt"] for call in spans["call"]], ["1", "2"])
        self.assertEqual([wait["facts"]["lanemq.attempt"] for wait in spans["queue"]], ["1", "2"])
        self.assertEqual([parent.split("-")[2] for parent, _ in self.upstream.headers_of("twice")],
                         [call["spanId"] for call in spans["call"]])
        self.assertEqual(self.log_lines(self.worker, "job.failed")[0]["trace"], TRACE)

    def test_what_is_no_trace_is_dropped_and_a_new_one_begins(self):
        bad = (f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", f"ff-{TRACE}-{SPAN}-01", f"00-{TRACE.upper()}-{SPAN}-01",
               f"00-{TRACE}-{SPAN}-01-more", "00-1-2-3", f"00-{TRACE}-{SPAN}")
        for number, parent in enumerate((None, *bad)):
            with self.subTest(parent=parent):
                prompt = f"new {number}"
                headers = {"traceparent": parent, "tracestate": "vendor=1"} if parent else {}
                self.assertEqual(self.post(prompt, headers).status, 200)
                ((sent, state),) = self.upstream.headers_of(prompt)
                _, trace, span, flags = sent.split("-")
                self.assertNotIn(trace, (TRACE, "0" * 32))
                self.assertEqual((flags, state), ("01", None))
                spans = self.collector.wait_for(trace, request=1, queue=1, call=1)
                self.parents(spans)
                self.assertEqual(spans["call"][0]["spanId"], span)
        self.assertEqual(self.collector.of(TRACE), [])

    def test_a_trace_that_is_not_recorded_goes_on_and_makes_no_spans(self):
        parent = f"00-{TRACE}-{SPAN}-00"
        self.assertEqual(self.post("quiet", {"traceparent": parent, "tracestate": "x" * 513}).status, 200)
        self.assertEqual(self.upstream.headers_of("quiet"), [(parent, None)])
        self.post("loud", {"traceparent": PARENT.replace("4bf9", "5bf9")})
        self.collector.wait_for(TRACE.replace("4bf9", "5bf9"), request=1, queue=1, call=1)
        self.assertEqual(self.collector.of(TRACE), [])

    def test_a_job_of_python_has_its_trace(self):
        with Client(self.room.broker.clients) as client:
            body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "python"}]})
            client.submit("openai", body, trace={"traceparent": PARENT, "tracestate": "a=b"})
        spans = self.collector.wait_for(TRACE, queue=1, call=1)
        for span in (*spans["queue"], *spans["call"]):
            self.assertEqual(span["parentSpanId"], SPAN)
        self.assertEqual(self.upstream.headers_of("python"), [(f"00-{TRACE}-{spans['call'][0]['spanId']}-01", "a=b")])

    def test_strange_trace_fields_break_nothing(self):
        client = self.room.client()
        strange = (7, "text", [], {}, {"traceparent": 1}, {"traceparent": ["x"]},
                   {"tracestate": "a=b"}, {"traceparent": "\r\nx: y"}, b"\xff" * 100, {"traceparent": PARENT, "pad": "x" * 3000})
        for number, trace in enumerate(strange):
            client.submit(ref=number, trace=trace)
            self.assertEqual(client.get("result").fields["ref"], number)
        client.submit(ref="good", trace=PARENT)
        self.assertEqual(client.get("result").fields["ref"], "good")
        self.collector.wait_for(TRACE, queue=1, call=1)


class Budget(TraceCase):
    settings = ("budget.slow.match.service=openai", "budget.slow.requests_per_second=1", "budget.slow.capacity.requests_per_second=1")

    def test_what_a_budget_keeps_waiting_shows(self):
        self.assertEqual(self.post("first").status, 200)
        answer = self.post("second", {"traceparent": PARENT})
        spans = self.collector.wait_for(TRACE, request=1, queue=1, budget_wait=1, call=1)
        (queue,), (wait,) = spans["queue"], spans["budget_wait"]
        self.sums(spans, answer)
        self.assertEqual(wait["parentSpanId"], queue["spanId"])
        self.assertGreaterEqual(wait["begin"], queue["begin"])
        self.assertEqual(wait["end"], queue["end"])
        self.assertGreaterEqual(ms(wait), 200)
        self.assertLessEqual(ms(wait), ms(queue))


class Refused(TraceCase):
    settings = ("lane.normal.depth_max=1",)

    def test_a_refused_job_says_which_bound_it_was(self):
        self.worker.signal(15)
        self.worker.wait()
        client = self.room.client()
        client.submit("openai", reply="both", id="fills")
        client.get("accepted")
        answer = self.post("too many", {"traceparent": PARENT})
        self.assertIn(answer.status, (429, 503))
        spans = self.collector.wait_for(TRACE, request=1, queue=1)
        self.parents(spans, SPAN)
        self.assertEqual(spans["request"][0]["facts"]["http.response.status_code"], str(answer.status))
        (queue,) = spans["queue"]
        self.assertEqual((queue["status"]["message"], queue["facts"]["lanemq.limiter"]), ("lane_full", "lane.normal.depth_max"))
        self.assertEqual(ms(queue), 0)

    def test_a_job_that_ends_in_the_queue_says_why(self):
        self.worker.signal(15)
        self.worker.wait()
        client = self.room.client()
        client.submit("openai", id="late", timeout_ms=50, trace={"traceparent": PARENT})
        self.assertEqual(client.get("error").fields["code"], "deadline")
        (queue,) = self.collector.wait_for(TRACE, queue=1)["queue"]
        self.assertEqual(queue["status"]["message"], "deadline")
        self.assertGreaterEqual(ms(queue), 49)


class Strangers(TraceCase):
    worker_flags = ("--trace-upstreams", "none")

    def test_an_upstream_that_is_to_get_no_trace_gets_none(self):
        self.assertEqual(self.post("private", {"traceparent": PARENT, "tracestate": "a=b"}).status, 200)
        self.assertEqual(self.upstream.headers_of("private"), [(None, None)])
        self.collector.wait_for(TRACE, request=1, queue=1, call=1)


class Off(TraceCase):
    otlp = False

    def test_without_a_collector_a_trace_goes_through_as_it_came(self):
        self.assertEqual(self.post("through", {"traceparent": PARENT, "tracestate": "a=b"}).status, 200)
        self.assertEqual(self.upstream.headers_of("through"), [(PARENT, "a=b")])
        self.assertEqual(self.post("nothing").status, 200)
        self.assertEqual(self.upstream.headers_of("nothing"), [(None, None)])
        lines = harness.wait_until(lambda: len(found := self.log_lines(self.gateway, "request.answered")) == 2 and found,
                                   "the access log")
        self.assertEqual([line.get("trace", "") for line in lines], [TRACE, ""])
        self.assertEqual(self.metrics(), {"spans_sent_total": 0, "spans_lost_total": 0})
        threads = {process.pid: len(os.listdir(f"/proc/{process.pid}/task")) for process in (self.gateway, self.worker)}
        self.assertTrue(all(threads.values()), threads)


class BadCollector(TraceCase):
    """Nobody waits for a collector, and each span is counted as sent or as lost."""

    def chats(self, count):
        """How long the shortest took: a busy machine may hold up some, one that waits for the collector holds up all."""
        took = []
        for number in range(count):
            began = time.monotonic()
            self.assertEqual(self.post(f"chat {number}").status, 200)
            took.append(time.monotonic() - began)
        return min(took)

    def all_lost(self, count):
        harness.wait_until(lambda: self.metrics() == {"spans_sent_total": 0, "spans_lost_total": count}, "lost spans", pause=0.05)
        self.room.stats_when(lambda stats: (stats["counters"]["spans_sent"], stats["counters"]["spans_lost"]) == (0, count),
                             "lost spans of the broker")
        (line,) = self.log_lines(self.gateway, "traces.lost")
        self.assertEqual(line["level"], "warning")

    def test_one_that_is_gone(self):
        self.collector.server.shutdown()
        self.collector.server.server_close()
        self.assertLess(self.chats(4), 1.0)
        self.all_lost(4)

    def test_one_that_refuses(self):
        self.collector.answer = (500, b"no")
        self.chats(4)
        self.all_lost(4)

    def test_one_that_answers_without_end(self):
        self.collector.answer = (200, b"x" * 1_000_000)
        self.chats(4)
        self.all_lost(4)

    def test_garbage_with_a_good_status_is_a_good_status(self):
        self.collector.answer = (200, b'{"partialSuccess": {"rejectedSpans": [')
        self.chats(2)
        harness.wait_until(lambda: self.metrics() == {"spans_sent_total": 2, "spans_lost_total": 0}, "sent spans", pause=0.05)

    def test_one_that_takes_a_part(self):
        self.collector.answer = (200, b'{"partialSuccess": {"rejectedSpans": "1000"}}')
        self.chats(2)
        self.all_lost(2)

    def test_one_that_speaks_no_http(self):
        self.collector.server.shutdown()
        self.collector.server.server_close()
        with socket.create_server(("127.0.0.1", urllib.parse.urlsplit(self.collector.url).port)) as server:
            stopping = threading.Event()

            def babble():
                server.settimeout(0.1)
                while not stopping.is_set():
                    with contextlib.suppress(OSError):
                        connection, _ = server.accept()
                        with connection:
                            connection.recv(100)
                            connection.sendall(b"\x00\xff" * 1000)

            thread = threading.Thread(target=babble)
            thread.start()
            try:
                self.chats(4)
                self.all_lost(4)
            finally:
                stopping.set()
                thread.join()

    def test_one_that_stands_still_has_no_more_than_fits(self):
        self.collector.open.clear()
        took = self.chats(4)
        client = self.room.client()
        before = self.room.broker.resident_bytes()
        count, width = 8192, 256
        for number in range(0, count, width):
            maps = [{"ref": number + i} for i in range(width)]
            maps[0].update(service="echo", trace=PARENT, batch=width)
            client.send_batch("submit", maps, [b""] * width)
            for _ in range(width):
                client.get("result")
        self.assertLess(took, 1.0)
        # All that finds no room is lost at once; what the collector stands still on is lost after a time.
        transport = self.transport()
        self.assertGreaterEqual(transport["spans_lost"], count - WAITING_MAX - 3 * BATCH_MAX)
        self.assertEqual(transport["spans_sent"], 0)
        self.assertLess(self.room.broker.resident_bytes() - before, harness.MEMORY_FACTOR * 64 * 2**20)
        self.collector.open.set()
        stats = self.room.stats_when(
            lambda stats: stats["counters"]["spans_sent"] + stats["counters"]["spans_lost"] == count + 4, "all counted")
        self.assertGreater(stats["counters"]["spans_sent"], 0)

    def test_the_end_does_not_wait_for_it(self):
        self.collector.open.clear()
        self.chats(1)
        harness.wait_until(lambda: self.collector.requests >= 1, "a batch under way")
        for process in (self.worker, self.room.broker):
            began = time.monotonic()
            process.signal(15)
            self.assertEqual(process.wait(), 0)
            self.assertLess(time.monotonic() - began, harness.PATIENCE / 2)


class Mistakes(unittest.TestCase):
    def test_a_collector_that_is_none_is_refused_at_the_start(self):
        for name, more in (("lanemq-broker", ()), ("lanemq-gateway", ()), ("lanemq-worker", ("--service", "a=echo"))):
            for url, says in (("127.0.0.1:4318", "scheme"), ("ftp://a", "http or https"), ("http://u:p@a", "credentials")):
                with self.subTest(program=name, url=url):
                    process = harness.Process(harness.program(name), "--otlp", url, "--check", *more)
                    self.addCleanup(process.close)
                    self.assertEqual(process.wait(), 2, process.stderr())
                    self.assertIn("otlp", process.stderr())


if __name__ == "__main__":
    unittest.main()
