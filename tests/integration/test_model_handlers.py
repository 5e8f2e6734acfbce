# SPDX-License-Identifier: Apache-2.0
"""The handlers `openai` and `anthropic` between a real broker and the strict upstream double."""

import collections
import json
import os
import subprocess
import tempfile
import unittest

import harness

MESSAGES = [{"role": "user", "content": "Say something."}]
KEYS = {"OPENAI_API_KEY": "sk-openai-0123456789abcdef", "ANTHROPIC_API_KEY": "sk-anthropic-0123456789abcdef"}
Answer = collections.namedtuple("Answer", "chunks message")


def events(stream):
    """The data of the events of a stream with LF as its line ends."""
    return [line.removeprefix(b"data: ") for line in stream.split(b"\n") if line.startswith(b"data: ")]


class ModelHandlers(harness.Case):
    def setUp(self):
        super().setUp()
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.log = os.path.join(folder, "calls")
        self.upstream = self.room.start(harness.Process(
            harness.program("lanemq-upstream"), "--latency-ms", "1", "--log", self.log,
            "--keys", ",".join(f"{name[:-8].lower()}={secret}" for name, secret in KEYS.items())))
        self.url = self.upstream.line().removeprefix("ready ").strip()
        self.client = self.room.client()
        self.calls_made = 0

    def start_worker(self, *arguments, **variables):
        worker = self.room.start(harness.Process(
            harness.program("lanemq-worker"), "--broker", self.room.broker.workers,
            "--service", f"openai=openai:{self.url}/v1", "--service", f"anthropic=anthropic:{self.url}",
            *arguments, env={**os.environ, **KEYS, **variables}))
        self.assertTrue(worker.line().startswith("ready"), worker.stderr())

    def submit(self, service, model="m", path=None, method=None, headers=None, **fields):
        """Sends a job; what is not of the submit is of the request's body."""
        of_submit = {name: fields.pop(name) for name in ("lane", "attempts_max", "timeout_ms", "id") if name in fields}
        http = {"path": path, "method": method, "headers": headers}
        meta = {"http": {name: value for name, value in http.items() if value is not None}}
        request = {"model": model + "@high", "messages": MESSAGES, "max_tokens": 64, **fields}
        request = {name: value for name, value in request.items() if value is not None}
        body = b"" if method else json.dumps(request).encode()
        self.client.send("submit", {"service": service, "model": model, "meta": meta,
                                    **({"stream": True} if fields.get("stream") else {}), **of_submit}, body)
        self.calls_made += 1

    def answer(self):
        chunks = []
        while (message := self.client.get()).op == "chunk":
            self.assertEqual(message.fields["seq"], len(chunks))
            chunks.append(message.body)
            # Without this the stream stops at a window's end.
            self.client.send("seen", {"id": message.fields["id"], "seq": message.fields["seq"]})
        self.assertEqual(message.fields.get("chunks", 0), len(chunks), message)
        return Answer(chunks, message)

    def ask(self, *arguments, **fields):
        self.submit(*arguments, **fields)
        return self.answer()

    def calls(self, count=None):
        """What the double has logged, once there are so many calls."""
        def logged():
            with open(self.log) as file:
                lines = file.read().splitlines(keepends=True)
            return [json.loads(line) for line in lines if line.endswith("\n")]
        count = self.calls_made if count is None else count
        harness.wait_until(lambda: len(logged()) >= count, f"{count} calls in the log")
        return logged()

    def assert_clean(self):
        """One call a job, none with anything that had to stay here."""
        calls = self.calls()
        self.assertEqual(len(calls), self.calls_made)
        self.assertEqual([call for call in calls if call.get("leaks")], [])

    def test_whole_answers(self):
        self.start_worker()
        for service, part in (("openai", "choices"), ("anthropic", "content")):
            message = self.ask(service, service_tier="flex").message
            self.assertEqual(message.op, "result", message)
            self.assertIn(part, json.loads(message.body))
            self.assertGreater(message.fields["usage"]["output_tokens"], 0)
        embedding = self.ask("openai", path="/embeddings", input="x", messages=None, max_tokens=None).message
        self.assertEqual(json.loads(embedding.body)["object"], "list")
        self.assertGreater(embedding.fields["usage"]["input_tokens"], 0)
        self.assert_clean()
        self.assertEqual([call for call in self.calls() if "service_tier" in call], [])

    def test_streams(self):
        self.start_worker()

        chat = self.ask("openai", stream=True)
        said = events(b"".join(chat.chunks))
        self.assertEqual(said[-1], b"[DONE]")
        self.assertTrue(all(json.loads(event)["choices"] for event in said[:-1]), "the usage was not asked for")
        self.assertEqual((chat.message.op, chat.message.body), ("result", b""))
        self.assertGreater(chat.message.fields["usage"]["output_tokens"], 0)

        asked = self.ask("openai", stream=True, stream_options={"include_usage": True})
        self.assertEqual(json.loads(events(b"".join(asked.chunks))[-2])["choices"], [])

        message = self.ask("anthropic", model="m+pings+comments", stream=True)
        types = [json.loads(event)["type"] for event in events(b"".join(message.chunks))]
        self.assertEqual((types[0], types[-1]), ("message_start", "message_stop"))
        self.assertIn("ping", types)
        self.assertNotIn(b"\n:", b"".join(message.chunks))
        self.assertGreater(message.message.fields["usage"]["input_tokens"], 0)

        for bound, end in ((64, "response.completed"), (4, "response.incomplete")):
            response = self.ask("openai", model="m+tokens=8", path="/responses", messages=None, max_tokens=None,
                                max_output_tokens=bound, input="Say something.", stream=True)
            self.assertEqual(json.loads(events(b"".join(response.chunks))[-1])["type"], end)
            self.assertGreater(response.message.fields["usage"]["output_tokens"], 0)
        self.assert_clean()

    def test_streams_come_untouched_however_they_are_written(self):
        self.start_worker()
        for fault in ("+drip=1", "+drip=7+crlf", "+cr", "+comments+crlf"):
            for service in ("openai", "anthropic"):
                chunks, message = self.ask(service, model="m" + fault, stream=True)
                self.assertEqual(message.op, "result", (fault, service, message))
                text = b"".join(chunks).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
                end = b"[DONE]" if service == "openai" else b'{"type":"message_stop"}'
                self.assertEqual(events(text)[-1].replace(b" ", b""), end, (fault, service))
        self.assert_clean()

    def test_an_error_before_content_is_tried_again_unseen(self):
        self.start_worker()
        for service, fault in (("openai", "+status=503"), ("anthropic", "+error-event=0"), ("openai", "+eof=0"),
                               ("anthropic", "+reset=0"), ("openai", "+no-answer")):
            chunks, message = self.ask(service, model=f"m{fault}+first=1", stream=True)
            self.assertEqual(message.op, "result", (service, fault, message))
            self.assertEqual(message.fields["attempts"], 2, (service, fault, message))
            self.assertGreater(len(chunks), 0)
        self.assertEqual(len(self.calls(2 * self.calls_made)), 2 * self.calls_made)

    def test_an_error_after_content_ends_the_stream(self):
        self.start_worker()
        for service, fault in (("openai", "+error-event=2"), ("anthropic", "+error-event=2"), ("openai", "+eof=2"),
                               ("anthropic", "+eof=2")):
            chunks, message = self.ask(service, model=f"m{fault}", stream=True)
            self.assertEqual(message.op, "error", (service, fault, message))
            self.assertGreater(message.fields["chunks"], 0)
            if "event" in fault:
                self.assertIn("error", json.loads(message.body))
                self.assertGreaterEqual(message.fields["upstream_status"], 400)
        self.assertEqual(len(self.calls()), self.calls_made)

    def test_a_refusal_carries_the_upstreams_words(self):
        self.start_worker()
        for service in ("openai", "anthropic"):
            message = self.ask(service, model="m+status=413+code=too_much", stream=True).message
            self.assert_error(message, "upstream_rejected")
            self.assertEqual(message.fields["upstream_status"], 413)
            self.assertIn("error", json.loads(message.body))
        self.assert_clean()

    def test_a_base_url_without_its_version_is_told_in_the_log_where_nothing_is(self):
        worker = self.room.start(harness.Process(
            harness.program("lanemq-worker"), "--broker", self.room.broker.workers, "--service", f"openai=openai:{self.url}",
            "--service", f"versioned=openai:{self.url}/v2", env={**os.environ, **KEYS}))
        worker.line()
        for service, detail in (("openai", f"{self.url}/chat/completions; OpenAI's base URLs end in /v1"),
                                ("versioned", f"{self.url}/v2/chat/completions")):
            for stream in (None, True):
                with self.subTest(service=service, stream=stream):
                    self.submit(service, stream=stream)
                    refused = self.client.get("error")
                    self.assertEqual(refused.fields["upstream_status"], 404)
                    self.assertNotIn("127.0.0.1", refused.fields["message"])
                    harness.wait_until(lambda detail=detail: f' detail="{detail}"' in worker.stderr() or f" detail={detail}" in worker.stderr(),
                                       "the URL in the log")

    def test_a_silent_stream_ends_in_time(self):
        self.start_worker("--timeout", "critical.first-token-ms=150", "--timeout", "high.between-tokens-ms=150")
        before = self.ask("openai", model="m+stall=0", lane="critical", stream=True, attempts_max=1)
        self.assert_error(before.message, "upstream_failed", "did not begin within 150 ms")
        self.assertEqual(before.chunks, [])

        after = self.ask("anthropic", model="m+stall=2", lane="high", stream=True)
        self.assertEqual(after.message.op, "error")
        self.assertIn("said nothing more for 150 ms", after.message.fields["message"])
        self.assertGreater(len(after.chunks), 0)

    def test_a_cancelled_stream_hangs_up_at_once(self):
        self.start_worker()
        self.submit("openai", model="m+gap=3600000+tokens=60", stream=True, id="long")
        self.client.get("chunk")

        self.client.send("cancel", {"id": "long"})

        # Not with the next delta, which comes in an hour.
        call = self.calls()[0]
        self.assertEqual(call["end"], "hung_up", call)

    def test_a_slow_reader_holds_up_its_upstream_and_gets_everything(self):
        self.start_worker()
        self.submit("openai", model="m+tokens=3000", max_tokens=4000, stream=True, id="slow")
        chunks, total, seen = [], 0, -1
        while (message := self.client.get()).op == "chunk":
            self.assertEqual(message.fields["seq"], len(chunks))
            chunks.append(message.body)
            # Only when the window is used up: the stream stops and goes on many times.
            if len(chunks) - 1 - seen >= 64 or sum(map(len, chunks[seen + 1:])) >= 200 * 1024:
                seen = len(chunks) - 1
                self.client.send("seen", {"id": "slow", "seq": seen})
        self.assertEqual(message.op, "result", message)
        said = events(b"".join(chunks))
        self.assertEqual(said[-1], b"[DONE]")
        self.assertEqual(self.calls()[0]["completion_tokens"], message.fields["usage"]["output_tokens"])

    def test_models_and_other_calls(self):
        self.start_worker()
        models = self.ask("openai", path="/models", method="GET").message
        self.assertEqual(json.loads(models.body)["object"], "list")
        models = self.ask("anthropic", path="/v1/models?limit=1", method="GET",
                          headers={"anthropic-version": "2023-06-01"}).message
        self.assertIn("has_more", json.loads(models.body))
        message = self.ask("openai", path="/../admin/keys/openai", method="DELETE").message
        self.assert_error(message, "upstream_rejected", "segment")

    def test_lines_of_a_batch_file_go_where_their_urls_say(self):
        self.start_worker()
        lines = [{"custom_id": "chat", "method": "POST", "url": "/v1/chat/completions",
                  "body": {"model": "m", "messages": MESSAGES, "max_tokens": 4}},
                 {"custom_id": "embed", "method": "POST", "url": "/v1/embeddings", "body": {"model": "m", "input": "a"}}]
        run = subprocess.run([harness.program("lanemq"), "--broker", self.room.broker.clients, "run", "-", "--service", "openai",
                              "--out", "-"], input="".join(json.dumps(line) + "\n" for line in lines), capture_output=True,
                             text=True, timeout=harness.PATIENCE, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        answered = {line["custom_id"]: line["response"]["body"]["object"] for line in map(json.loads, run.stdout.splitlines())}
        self.assertEqual(answered, {"chat": "chat.completion", "embed": "list"})

    def test_without_a_key_the_upstream_is_asked_without_one(self):
        self.start_worker(OPENAI_API_KEY="")
        message = self.ask("openai").message
        self.assertEqual(message.fields.get("upstream_status"), 401, message)


if __name__ == "__main__":
    unittest.main()
