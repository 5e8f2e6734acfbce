# SPDX-License-Identifier: Apache-2.0
"""Files, batches and jobs at the front door: the gateway is killed in the middle, and every line is answered once."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import tempfile
import unittest
from unittest import mock

import harness
from test_gateway import CHAT, VERSION, GatewayCase, bearer, key

CHAT = "/v1/chat/completions"
OVER = ("completed", "failed", "expired", "cancelled")


def line(name, model="gpt-x", url=CHAT):
    body = {"model": model, "messages": [{"role": "user", "content": f"Say {name}."}], "max_tokens": 8}
    return json.dumps({"custom_id": name, "method": "POST", "url": url, "body": body})


class BatchCase(GatewayCase):
    @property
    def flags(self):
        return ("--state", os.path.join(self.folder, "state"), "--batch-in-flight-max", "40")

    def restart(self, *more):
        """Kills the gateway and starts another one on what it left."""
        self.gateway.signal(signal.SIGKILL)
        self.gateway.wait()
        self.gateway = self.room.start(harness.Process(
            harness.program("lanemq-gateway"), "--broker", self.room.broker.clients, "--listen", "127.0.0.1:0", *self.flags, *more))
        self.base = self.ready(self.gateway)

    def upload(self, content, purpose="batch", name="in.jsonl", **headers):
        form = (f'--XX\r\ncontent-disposition: form-data; name="purpose"\r\n\r\n{purpose}\r\n'
                f'--XX\r\ncontent-disposition: form-data; name="file"; filename="{name}"\r\n'
                f'content-type: application/octet-stream\r\n\r\n{content}\r\n--XX--\r\n')
        return self.ask("POST", "/v1/files", form, {"content-type": "multipart/form-data; boundary=XX", **headers})

    def create(self, lines, **fields):
        file = self.upload("\n".join(lines)).json()
        answer = self.ask("POST", "/v1/batches", json.dumps(
            {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h", **fields}))
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()["id"]

    def batch(self, batch_id):
        return self.ask("GET", f"/v1/batches/{batch_id}").json()

    def when_batch(self, batch_id, happened, what):
        def look():
            self.batch_now = self.batch(batch_id)
            return happened(self.batch_now)
        harness.wait_until(look, what, pause=0.02)
        return self.batch_now

    def when_over(self, batch_id):
        return self.when_batch(batch_id, lambda batch: batch["status"] in OVER, "the batch's end")

    def content(self, file_id):
        answer = self.ask("GET", f"/v1/files/{file_id}/content")
        self.assertEqual(answer.status, 200)
        return [json.loads(row) for row in answer.body.splitlines()]


class Batches(BatchCase):
    def test_every_line_has_its_answer_and_what_failed_is_apart(self):
        names = [f"line-{number}" for number in range(40)]
        batch = self.when_over(self.create([line(name, "gpt-x+status=400" if name == "line-7" else "gpt-x@low") for name in names]))

        self.assertEqual((batch["status"], batch["request_counts"]), ("completed", {"total": 40, "completed": 39, "failed": 1}))
        output = self.content(batch["output_file_id"])
        self.assertEqual([row["custom_id"] for row in output], [name for name in names if name != "line-7"])
        for row in output:
            self.assertEqual((row["response"]["status_code"], row["error"]), (200, None))
            self.assertEqual(row["response"]["body"]["object"], "chat.completion")
        failed, = self.content(batch["error_file_id"])
        self.assertEqual((failed["custom_id"], failed["response"]["status_code"]), ("line-7", 400))
        calls = self.when_called(40)
        self.assertEqual(len(calls), 40)
        self.assertEqual({call["status"] for call in calls}, {200, 400})
        self.assertFalse(any("leaks" in call for call in calls), "nothing that is meant for the gateway went upstream")

    def test_what_is_wrong_with_a_file_is_named_by_line(self):
        batch = self.when_over(self.create([line("a"), line("b", url="/v1/embeddings"), "nonsense", line("a")]))

        self.assertEqual(batch["status"], "failed")
        self.assertEqual([(error["line"], error["code"]) for error in batch["errors"]["data"]],
                         [(2, "invalid_url"), (3, "invalid_json_line"), (4, "duplicate_custom_id")])
        self.assertEqual(self.calls(), [])

    def test_a_batch_goes_on_after_the_gateway_was_killed(self):
        names = [f"line-{number}" for number in range(300)]
        batch_id = self.create([line(name, "gpt-x+delay=30") for name in names])
        for share in (20, 120, 200):
            self.when_batch(batch_id, lambda batch: batch["request_counts"]["completed"] >= share, f"{share} answers")
            self.restart()
        batch = self.when_over(batch_id)

        self.assertEqual((batch["status"], batch["request_counts"]), ("completed", {"total": 300, "completed": 300, "failed": 0}))
        self.assertEqual([row["custom_id"] for row in self.content(batch["output_file_id"])], names)
        self.assertEqual(len(self.when_called(300)), 300, "no line was paid for twice")
        self.room.stats_when(lambda stats: (stats["lanes"]["batch"]["accepted"], stats["lanes"]["batch"]["succeeded"]) == (300, 300),
                             "300 jobs, each of them once")

    def test_metrics_show_batches_and_what_they_keep(self):
        self.when_over(self.create([line("one"), line("two")]))
        self.when_metric('lanemq_gateway_batches{state="completed"}', 1)
        self.assertEqual(self.metric("lanemq_gateway_files"), 2)
        self.assertGreater(self.metric("lanemq_gateway_store_bytes"), 0)
        for name in ("batch_lines_waiting", "batch_lines_running", "store_refuses", "store_commits_failed_total",
                     "store_commit_failed_timestamp_seconds"):
            self.assertEqual(self.metric("lanemq_gateway_" + name), 0, name)

    def test_a_cancelled_batch_keeps_what_is_done_and_costs_no_more(self):
        batch_id = self.create([line("quick"), *(line(f"slow-{number}", "gpt-x+delay=600000") for number in range(100))])
        self.when_batch(batch_id, lambda batch: batch["request_counts"]["completed"] == 1, "the first answer")
        self.when_running(32)
        self.assertEqual(self.ask("POST", f"/v1/batches/{batch_id}/cancel").json()["status"], "cancelling")
        batch = self.when_over(batch_id)

        self.assertEqual((batch["status"], batch["request_counts"]), ("cancelled", {"total": 101, "completed": 1, "failed": 100}))
        self.assertEqual([row["custom_id"] for row in self.content(batch["output_file_id"])], ["quick"])
        self.when_running(0)
        self.assertEqual(self.ask("POST", f"/v1/batches/{batch_id}/cancel").status, 409)

    def test_batches_of_messages(self):
        requests = [{"custom_id": f"r{number}", "params": {"model": "claude-x+status=400" if number == 3 else "claude-x", "max_tokens": 8,
                                                            "messages": [{"role": "user", "content": "Hello."}]}} for number in range(20)]
        made = self.ask("POST", "/v1/messages/batches", json.dumps({"requests": requests}), VERSION).json()
        self.assertEqual((made["processing_status"], made["results_url"]), ("in_progress", None))
        path = f"/v1/messages/batches/{made['id']}"
        def over():
            self.ended = self.ask("GET", path, headers=VERSION).json()
            return self.ended["processing_status"] == "ended"
        harness.wait_until(over, "the end of the batch", pause=0.02)

        self.assertEqual(self.ended["request_counts"], {"processing": 0, "succeeded": 19, "errored": 1, "canceled": 0, "expired": 0})
        self.assertEqual(self.ended["results_url"], path + "/results")
        results = [json.loads(row) for row in self.ask("GET", path + "/results", headers=VERSION).body.splitlines()]
        self.assertEqual([row["custom_id"] for row in results], [request["custom_id"] for request in requests])
        self.assertEqual(results[0]["result"]["message"]["type"], "message")
        self.assertEqual(results[3]["result"]["error"]["error"]["type"], "invalid_request_error")
        self.assertEqual(self.ask("DELETE", path, headers=VERSION).json(), {"id": made["id"], "type": "message_batch_deleted"})
        self.assertEqual(self.ask("GET", path, headers=VERSION).json()["error"]["type"], "not_found_error")

    def test_files(self):
        file = self.upload("hello", name="a.jsonl").json()
        self.assertEqual((file["object"], file["bytes"], file["filename"], file["purpose"]), ("file", 5, "a.jsonl", "batch"))
        other = self.upload("x" * 1_000_000).json()
        listed = self.ask("GET", "/v1/files?limit=1").json()
        self.assertEqual(([item["id"] for item in listed["data"]], listed["has_more"]), ([other["id"]], True))
        listed = self.ask("GET", f"/v1/files?limit=1&after={other['id']}").json()
        self.assertEqual(([item["id"] for item in listed["data"]], listed["has_more"]), ([file["id"]], False))
        self.restart()
        self.assertEqual(self.ask("GET", f"/v1/files/{other['id']}/content").body, b"x" * 1_000_000)
        self.assertTrue(self.ask("DELETE", f"/v1/files/{file['id']}").json()["deleted"])
        self.assertEqual(self.ask("GET", f"/v1/files/{file['id']}").status, 404)
        listed = self.ask("GET", f"/v1/files?order=asc&after={file['id']}").json()
        self.assertEqual([item["id"] for item in listed["data"]], [other["id"]], "a list goes on behind what is gone")
        self.assertEqual(self.ask("GET", "/v1/files?after=file-1").json()["error"]["param"], "after")

        self.assertIn("purpose", self.upload("x", purpose="vision").json()["error"]["message"])
        self.assertEqual(self.ask("POST", "/v1/files", "no form", {"content-type": "multipart/form-data; boundary=XX"}).status, 400)
        stranger = {"authorization": "Bearer somebody-else"}
        self.assertEqual(self.ask("GET", f"/v1/files/{other['id']}", headers=stranger).status, 404)


    def test_one_that_is_uploaded_again_is_one(self):
        def made(content="hello", boundary="XX", **headers):
            form = "".join(f'--{boundary}\r\ncontent-disposition: form-data; name={name}\r\n\r\n{text}\r\n'
                           for name, text in (('"purpose"', "batch"), ('"file"; filename="a.jsonl"', content)))
            return self.ask("POST", "/v1/files", form + f"--{boundary}--\r\n",
                            {"content-type": f"multipart/form-data; boundary={boundary}",
                             **{name.replace("_", "-"): text for name, text in headers.items()}})
        first = made(idempotency_key="k").json()["id"]
        self.restart()
        self.assertEqual(made(idempotency_key="k", boundary="another").json()["id"], first)  # SDKs make one for each try
        conflict = made("other", idempotency_key="k")
        self.assertEqual((conflict.status, conflict.headers["x-should-retry"]), (409, "false"))
        second = made(x_stainless_retry_count="0").json()["id"]
        self.assertEqual(made(x_stainless_retry_count="1", boundary="third").json()["id"], second)
        third = made(x_stainless_retry_count="0").json()["id"]
        self.assertEqual(len({first, second, third}), 3)
        self.assertEqual(len(self.ask("GET", "/v1/files").json()["data"]), 3)
        self.assertEqual(self.ask("DELETE", f"/v1/files/{first}").status, 200)
        self.assertNotEqual(made(idempotency_key="k").json()["id"], first)


class StoredResponses(BatchCase):
    config = key("maker") + key("other")

    def test_belong_to_who_made_them_after_a_restart_too(self):
        made = {}
        for stream in (False, True):
            answer = self.ask("POST", "/v1/responses", json.dumps({"model": "gpt-x", "input": "x", "stream": stream}), bearer("maker"))
            made[stream] = re.search(rb'"id":\s*"(resp_[^"]+)"', answer.body)[1].decode()
        # Whoever asks the store next is answered behind what was written before.
        self.assertEqual(self.ask("GET", "/v1/files", headers=bearer("maker")).status, 200)
        self.restart("--config", os.path.join(self.folder, "gateway.toml"))
        for response_id in made.values():
            refused = self.ask("GET", f"/v1/responses/{response_id}", headers=bearer("other"))
            self.assertEqual((refused.status, "stored_responses" in refused.json()["error"]["message"]), (404, True))
            # The double keeps none: who asks it is told so in its own words.
            self.assertNotIn(b"stored_responses", self.ask("GET", f"/v1/responses/{response_id}", headers=bearer("maker")).body)


class Shares(BatchCase):
    config = key("small", 'files_bytes_max = "1KiB"') + key("other")

    def test_a_keys_files_have_the_room_that_it_has(self):
        line = '{"a":"' + "x" * 600 + '"}'
        self.assertEqual(self.upload(line, **bearer("small")).status, 200)
        refused = self.upload(line, **bearer("small"))
        self.assertEqual((refused.status, "(files_bytes_max)" in refused.json()["error"]["message"]), (413, True), refused.body)
        for _ in range(2):
            self.assertEqual(self.upload(line, **bearer("other")).status, 200)


class FallBacks(BatchCase):
    config = '''
[[model]]
name = "smart"
model = "gpt-x+status=500"
on = ["5xx"]
[[model.fallback]]
model = "gpt-y"
[[model]]
name = "strict"
model = "gpt-x+status=400"
on = ["5xx"]
[[model.fallback]]
model = "gpt-y"
'''

    def test_lines_take_the_fall_backs_of_their_models(self):
        batch = self.when_over(self.create([line("falls-back", "smart"), line("stays", "strict"), line("plain")]))
        self.assertEqual(batch["request_counts"], {"total": 3, "completed": 2, "failed": 1})
        self.assertEqual([(row["custom_id"], row["response"]["body"]["model"]) for row in self.content(batch["output_file_id"])],
                         [("falls-back", "gpt-y"), ("plain", "gpt-x")])
        failed, = self.content(batch["error_file_id"])
        self.assertEqual((failed["custom_id"], failed["response"]["status_code"]), ("stays", 400))
        jobs = lambda: {call["job"] for call in self.calls() if call["model"] == "gpt-y"}
        harness.wait_until(jobs, "the call's line in the upstream's log")
        self.assertEqual(jobs(), {batch["id"] + ".1-1"})


class Uploads(BatchCase):
    MIB = 1 << 20

    @property
    def flags(self):
        return (*super().flags, "--uploads-bytes-max", "64MiB", "--file-bytes-max", "6MiB")

    def test_uploads_are_on_the_disk_and_bounded_there(self):
        before = self.gateway.resident_bytes()
        held = []
        for _ in range(3):
            connection = self.raw()
            connection.sendall(b"POST /v1/files HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer x\r\n"
                               b"content-type: multipart/form-data; boundary=XX\r\n"
                               b"content-length: %d\r\n\r\n" % (6 * self.MIB) + b"x" * (5 * self.MIB))
            held.append(connection)
        kept = lambda: self.metric("lanemq_gateway_upload_bytes") + self.metric("lanemq_gateway_body_bytes")
        harness.wait_until(lambda: kept() == 15 * self.MIB, "15 MiB of uploads")
        self.assertLess(self.metric("lanemq_gateway_body_bytes"), 4 * self.MIB)
        answer = self.upload("x" * (5 * self.MIB))
        self.assertEqual((answer.status, answer.json()["error"]["code"]), (503, "gateway_full"))
        self.assertEqual(answer.headers["x-should-retry"], "true")
        if harness.MEMORY_FACTOR == 1:  # a sanitizer keeps what was freed, more of it the busier the machine
            self.assertLess(self.gateway.resident_bytes() - before, 12 * self.MIB)
        # Who leaves makes room.
        for connection in held:
            connection.close()
        self.when_metric("lanemq_gateway_upload_bytes", 0)
        self.assertEqual(self.metric("lanemq_gateway_body_bytes"), 0)
        self.assertEqual(self.upload("x" * (5 * self.MIB)).status, 200)


class DiskGone(BatchCase):
    def test_what_the_disk_refuses_is_told_in_words_without_paths(self):
        state = os.path.join(self.folder, "state")
        file = self.upload(line("a")).json()["id"]
        os.rename(os.path.join(state, "files"), os.path.join(self.folder, "away"))
        answers = [self.ask("GET", f"/v1/files/{file}/content"), self.upload("y"), self.upload("y" * (3 << 20)),
                   self.upload("y" * (3 << 20))]
        for answer in answers:
            self.assertIn(answer.status, (500, 503), answer.body)
            self.assertNotIn(self.folder, answer.body.decode())
            self.assertNotRegex(answer.json()["error"]["message"], r"/|No such file")
            self.assertIn("log", answer.json()["error"]["message"])
        self.assertEqual(self.gateway.stderr().count("disk.refuses"), 1)
        self.assertIn(state, self.gateway.stderr())
        batch = self.when_over(self.ask("POST", "/v1/batches", json.dumps(
            {"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"})).json()["id"])
        self.assertEqual((batch["status"], batch["errors"]["data"][0]["code"]), ("failed", "file_unreadable"))
        self.assertNotIn(self.folder, json.dumps(batch))


class Large(BatchCase):
    """What is large holds up nobody: the longest turn of the loop is that of small things."""
    TURN_MS = 200 * harness.MEMORY_FACTOR  # a busy machine holds the loop up, too; with nobody else on it 29 MB were 300 to 800 ms

    def test_large_bodies_and_results_are_read_beside_the_loop(self):
        values = "[" + ",".join(['[1,2,{"a":"\\u00e9"}]'] * 300_000) + "]"
        for path, body in ((CHAT, '{"model":"gpt-x","messages":%s}'),
                           ("/v1/jobs", '{"service":"openai","body":%s}'),
                           ("/v1/jobs", '{"request":{"endpoint":"/v1/chat/completions","body":{"model":"gpt-x","messages":%s}}}')):
            self.assertLess(self.ask("POST", path, body % values).status, 500)
        self.assertEqual(self.upload(values * 4).status, 200)
        self.assertLess(self.metric("lanemq_gateway_loop_longest_turn_seconds") * 1000, self.TURN_MS)


class Jobs(BatchCase):
    def leave(self, **fields):
        answer = self.ask("POST", "/v1/jobs", json.dumps(fields))
        self.assertEqual(answer.status, 202, answer.body)
        return answer.json()

    def chat_job(self, model, **fields):
        body = {"model": model, "messages": [{"role": "user", "content": "Hello."}]}
        return self.leave(request={"endpoint": CHAT, "body": body}, **fields)

    def test_a_job_is_left_and_asked_for_later_at_another_gateway(self):
        left = self.chat_job("gpt-x@high", id="mine")
        self.assertEqual((left["id"], left["lane"], left["duplicate"]), ("mine", "high", False))
        self.restart()
        job = self.ask("GET", "/v1/jobs/mine?wait_ms=60000").json()

        self.assertEqual((job["state"], job["result"]["object"]), ("succeeded", "chat.completion"))
        self.assertTrue(self.chat_job("gpt-x@high", id="mine")["duplicate"])
        self.assertEqual(self.ask("GET", "/v1/jobs/mine", headers={"authorization": "Bearer somebody-else"}).status, 404)
        self.assertEqual(len(self.when_called(1)), 1)

    def test_a_job_that_failed_says_what_the_upstream_said(self):
        job_id = self.chat_job("gpt-x+status=400")["id"]
        job = self.ask("GET", f"/v1/jobs/{job_id}?wait_ms=60000").json()

        self.assertEqual((job["state"], job["error"]["code"], job["error"]["upstream_status"]), ("failed", "upstream_rejected", 400))
        self.assertIn("error", job["error"]["body"])

    def test_events_tell_that_a_job_runs_and_its_end_when_they_happen(self):
        self.chat_job("gpt-x+hold", id="held")
        connection = self.raw()
        connection.sendall(b"GET /v1/jobs/held/events HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer caller-secret-0001\r\n"
                           b"connection: close\r\n\r\n")
        seen = self.read_until(connection, lambda seen: b'"state":"running"' in seen)
        self.assertNotIn(b"event: done", seen)
        self.release("gpt-x+hold")
        self.read_until(connection, lambda seen: b"event: done" in seen and seen.endswith(b"0\r\n\r\n"), seen)
        self.assertIn(b'"state":"succeeded"', seen)

    def test_events_tell_the_states_until_the_end_and_delete_cancels(self):
        self.leave(id="waits", service="nobody", body={"a": 1})
        connection = self.raw()
        connection.sendall(b"GET /v1/jobs/waits/events HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer caller-secret-0001\r\n"
                           b"connection: close\r\n\r\n")
        seen = b""
        while b"event: state" not in seen:
            self.assertTrue(piece := connection.recv(4096), seen)
            seen += piece
        self.assertIn(b"text/event-stream", seen)
        self.assertEqual(self.ask("DELETE", "/v1/jobs/waits").json()["state"], "cancelled")
        while piece := connection.recv(4096):
            seen += piece
        self.assertIn(b"event: done", seen)
        self.assertIn(b'"state":"cancelled"', seen)
        self.assertEqual(self.ask("GET", "/v1/jobs/nothing").status, 404)

    def test_a_service_has_a_name_that_can_be_shown(self):
        for name in (" ", "a\u0000b", "a\nb", "a\u202eb", " a", "a "):
            answer = self.ask("POST", "/v1/jobs", json.dumps({"service": name, "body": {}}))
            self.assertEqual((answer.status, answer.json()["error"]["param"]), (400, "service"), name)

    def test_events_end_with_the_gateway_and_do_not_hold_it_up(self):
        self.leave(id="waits", service="nobody", body={"a": 1})
        connection = self.raw()
        connection.sendall(b"GET /v1/jobs/waits/events HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer caller-secret-0001\r\n\r\n")
        self.read_until(connection, lambda seen: b"event: state" in seen)
        self.gateway.signal(signal.SIGTERM)
        seen = b""
        while piece := connection.recv(4096):
            seen += piece
        self.assertTrue(seen.endswith(b"0\r\n\r\n"), "the answer ends, it is not cut")
        self.assertNotIn(b"event: done", seen)
        self.assertEqual(self.gateway.wait(), 0)

    def test_a_job_that_is_gone_is_named_as_its_caller_knows_it(self):
        answer = self.ask("GET", "/v1/jobs/none/events")
        self.assertEqual(answer.status, 404)
        self.assertEqual(re.findall(r"[0-9a-f]{16}\.", answer.body.decode()), [])


class StoppedKey(BatchCase):
    """`--stop-key` ends what a key has left at the running gateway, and nothing of others."""

    config = key("alpha", "concurrency = 50") + key("bravo") + key("free")

    def stop(self, *names, state=None):
        command = [harness.program("lanemq-gateway"), "--state", state or os.path.join(self.folder, "state")]
        for name in names:
            command += ["--stop-key", name]
        return subprocess.run(command, capture_output=True, text=True, timeout=harness.PATIENCE)

    def post(self, name, path, **fields):
        answer = self.ask("POST", path, json.dumps(fields), bearer(name))
        self.assertIn(answer.status, (200, 202), answer.body)
        return answer.json()["id"]

    def batch_of(self, name):
        form = self.upload("\n".join(line(f"{n}", "gpt-x+hold") for n in range(5)), **bearer(name)).json()
        return self.post(name, "/v1/batches", input_file_id=form["id"], endpoint=CHAT, completion_window="24h")

    def test_it_ends_calls_streams_batches_and_jobs_of_that_key_alone(self):
        batches = {name: self.batch_of(name) for name in ("alpha", "bravo")}
        jobs = {name: self.post(name, "/v1/jobs", service="openai", delay_ms=3600000, body={}) for name in ("alpha", "bravo", "free")}
        body = json.dumps({"model": "gpt-x+hold", "messages": [{"role": "user", "content": "x"}]})
        calls = {name: self.send(CHAT, body, key=f"{name}-secret") for name in ("alpha", "bravo")}
        events = self.send_get(f"/v1/jobs/{jobs['alpha']}/events", "alpha")
        self.read_until(events, lambda seen: b"event: state" in seen)
        self.when_running(12)

        done = self.stop("alpha")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn('key "alpha": ended 1 call, 1 batch, 1 left job and 0 responses in the background', done.stdout)
        self.assertIn("still configured", done.stdout)
        ended = self.answer_of(calls["alpha"])
        self.assertEqual((ended.status, "taken away" in ended.json()["error"]["message"]), (403, True), ended.body)
        self.when_running(6)
        job = self.ask("GET", f"/v1/jobs/{jobs['alpha']}", headers=bearer("alpha")).json()
        self.assertEqual(job["state"], "cancelled")
        self.read_until(events, lambda seen: b"event: done" in seen)
        batch = harness.wait_until(lambda: (now := self.ask("GET", f"/v1/batches/{batches['alpha']}", headers=bearer("alpha")).json())
                                   ["status"] == "cancelled" and now, "the batch's end")
        self.assertEqual(batch["request_counts"]["completed"], 0)
        self.release("gpt-x+hold")
        self.assertEqual(self.answer_of(calls["bravo"]).status, 200)
        harness.wait_until(lambda: self.ask("GET", f"/v1/batches/{batches['bravo']}", headers=bearer("bravo")).json()["status"] == "completed",
                           "the other key's batch")
        self.assertIn("key.stopped name=alpha calls=1 batches=1 jobs=1 responses=0", self.gateway.stderr())

        # What no gateway follows is ended by the command that is named.
        said = self.stop("free", "nobody-of-that-name")
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn('no key "nobody-of-that-name" is configured', said.stdout)
        self.assertEqual(self.stop("").returncode, 2)
        glob = re.search(r"lanemq cancel --ids '([^']+)'", said.stdout)[1]
        lanemq = [harness.program("lanemq"), "--admin", self.room.broker.admin, "cancel", "--ids", glob]
        would = subprocess.run([*lanemq, "--dry-run"], capture_output=True, text=True)
        self.assertEqual((would.returncode, would.stdout), (0, "1 job would be cancelled\n"), would.stderr)
        done = subprocess.run([*lanemq, "--json"], capture_output=True, text=True)
        self.assertEqual((done.returncode, json.loads(done.stdout)), (0, {"cancelled": 1, "refused": 0}), done.stderr)
        states = {name: self.ask("GET", f"/v1/jobs/{jobs[name]}", headers=bearer(name)).json()["state"] for name in ("bravo", "free")}
        self.assertEqual(states, {"bravo": "delayed", "free": "cancelled"})

    def test_without_a_gateway_it_says_so(self):
        with tempfile.TemporaryDirectory() as other:
            done = self.stop("alpha", state=other)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("no gateway runs with the folder", done.stderr)
        self.gateway.signal(signal.SIGKILL)
        self.gateway.wait()
        self.assertIn("no gateway runs", self.stop("alpha").stderr)

    def test_strangers_at_its_socket_change_nothing(self):
        path = os.path.join(self.folder, "state", "control.sock")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        held = []
        for _ in range(12):
            peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.addCleanup(peer.close)
            peer.connect(path)
            held.append(peer)
        # Eight at once; the others are told so.
        self.assertIn(b"try again", held[-1].recv(4096))
        for peer in held:
            peer.close()
        harness.wait_until(lambda: self.stop("alpha").returncode == 0, "room for a command")
        for command in (b"", b"\0" * 4096, b"x" * 65536, "\u202e\x1b[31m".encode()):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
                peer.connect(path)
                peer.send(command)
        self.assertEqual(self.ask("GET", "/v1/models", headers=bearer("alpha")).status, 200)
        said = self.stop("\u202e\x1b[31m").stdout
        self.assertNotRegex(said, "[\u202e\x1b]")


class DurableLane(BatchCase):
    # What a killed broker had committed and not sent yet waits four heartbeats for a worker that has it.
    settings = ("lane.batch.durable=true", "heartbeat=2s")

    def setUp(self):
        store = self.enterContext(tempfile.TemporaryDirectory())
        self.kept = {"store": f"sqlite:{store}/jobs.db", **harness.fixed_endpoints()}
        start = harness.Room.start_broker
        with mock.patch.object(harness.Room, "start_broker", lambda room, *arguments: start(room, *arguments, **self.kept)):
            super().setUp()

    def test_a_batch_goes_on_after_the_broker_and_the_gateway_were_killed(self):
        names = [f"line-{number}" for number in range(200)]
        batch_id = self.create([line(name, "gpt-x+delay=50") for name in names])
        for share in (20, 100):
            self.when_batch(batch_id, lambda batch: batch["request_counts"]["completed"] >= share, f"{share} answers")
            self.room.broker.kill()
            self.restart()
            self.room.start_broker(*self.arguments, **self.kept)
        batch = self.when_over(batch_id)

        self.assertEqual((batch["status"], batch["request_counts"]), ("completed", {"total": 200, "completed": 200, "failed": 0}))
        self.assertEqual([row["custom_id"] for row in self.content(batch["output_file_id"])], names)
        self.assertEqual(len(self.when_called(200)), 200, "no line was paid for twice")


class Folder(BatchCase):
    def test_a_second_gateway_says_that_the_folder_is_taken(self):
        second = self.room.start(harness.Process(harness.program("lanemq-gateway"), "--broker", self.room.broker.clients,
                                                 "--listen", "127.0.0.1:0", *self.flags))
        self.assertEqual(second.wait(), 3)
        self.assertIn("--state", second.stderr())

    def begins_in(self, folder):
        """Whether a gateway does, and what it says if not."""
        gateway = self.room.start(harness.Process(harness.program("lanemq-gateway"), "--broker", self.room.broker.clients,
                                                  "--listen", "127.0.0.1:0", "--state", folder))
        begun = gateway.line().startswith("ready")
        if not begun:
            self.assertEqual(gateway.wait(), 3)
        gateway.kill()
        return begun, gateway.stderr()

    def test_what_is_not_its_own_is_left_alone(self):
        theirs = os.path.join(self.folder, "theirs")
        os.makedirs(os.path.join(theirs, "files"))
        os.chmod(theirs, 0o755)
        with open(os.path.join(theirs, "files", "thesis.tex"), "w") as file:
            file.write("years of work")
        begun, said = self.begins_in(theirs)
        self.assertFalse(begun)
        self.assertIn("no gateway.db", said)
        self.assertEqual(os.listdir(os.path.join(theirs, "files")), ["thesis.tex"])
        self.assertEqual(os.stat(theirs).st_mode & 0o777, 0o755)

    def test_what_it_makes_is_for_its_user_alone_and_files_outlive_a_lost_database(self):
        mine = os.path.join(self.folder, "state")
        self.assertEqual(self.upload("{}").status, 200)
        self.gateway.kill()
        self.gateway.wait()
        for name in ("", "files", "gateway.db"):
            self.assertEqual(os.stat(os.path.join(mine, name)).st_mode & 0o077, 0, name)
        # A note that somebody put beside the uploads stays, and so do they when their database is gone.
        kept = os.path.join(mine, "files", "README")
        with open(kept, "w"):
            pass
        self.assertTrue(self.begins_in(mine)[0])
        files = sorted(os.listdir(os.path.join(mine, "files")))
        self.assertEqual(len(files), 2, files)
        for name in os.listdir(mine):
            if name.startswith("gateway.db"):
                os.rename(os.path.join(mine, name), os.path.join(self.folder, name + ".away"))
        for _ in range(2):
            begun, said = self.begins_in(mine)
            self.assertFalse(begun)
            self.assertIn("lost", said)
        self.assertEqual(sorted(os.listdir(os.path.join(mine, "files"))), files)


if __name__ == "__main__":
    unittest.main(verbosity=2)
