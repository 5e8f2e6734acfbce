# SPDX-License-Identifier: Apache-2.0
"""The second part of the show: what an AI SDK sees. A user's answers stream through lanemq-gateway while a batch of
prompts, uploaded as to OpenAI's Batch API, runs behind them on what is left of the same limit."""
import http.client
import itertools
import json
import statistics
import time
import urllib.request

LANE = "critical"  # of the user who reads along
TOKENS = 40        # of each answer that is read along
SUBJECTS = ("eggs", "bolts of cloth", "houses", "sprints", "cups of feed", "glasses", "sheep", "gigabytes", "kilometres",
            "bananas", "lessons", "tickets", "pages")


def prompts_of(path):
    """The `question` of each line of a JSONL file."""
    with open(path) as lines:
        return [json.loads(line)["question"] for line in lines if line.strip()]


def made_up_prompts(count):
    return [f"There are {7 + number % 83} {subject}. A third of them and {number % 11} more are sold each day. "
            f"How many {subject} are left after {2 + number % 5} days?"
            for number, subject in zip(range(count), itertools.cycle(SUBJECTS))]


def batch_file(prompts, model):
    """The prompts in OpenAI's batch format."""
    return "".join(json.dumps({"custom_id": f"prompt-{number}", "method": "POST", "url": "/v1/chat/completions",
                               "body": {"model": model, "max_tokens": 64,
                                        "messages": [{"role": "user", "content": prompt}]}}) + "\n"
                   for number, prompt in enumerate(prompts)).encode()


class FrontDoor:
    """A client of the gateway, as an SDK is one: nothing but HTTP."""

    def __init__(self, url, model):
        self.url, self.model = url, model

    def call(self, method, path, body=None, content_type="application/json"):
        request = urllib.request.Request(self.url + path, method=method, data=body,
                                         headers={"content-type": content_type, "authorization": "Bearer sk-show"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()

    def upload(self, content):
        edge = "lanemq-show"
        body = b"".join((f'--{edge}\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'.encode(),
                         f'--{edge}\r\ncontent-disposition: form-data; name="file"; filename="prompts.jsonl"\r\n'
                         "content-type: application/jsonl\r\n\r\n".encode(), content, f"\r\n--{edge}--\r\n".encode()))
        return json.loads(self.call("POST", "/v1/files", body, f"multipart/form-data; boundary={edge}"))["id"]

    def start_batch(self, content):
        wanted = {"input_file_id": self.upload(content), "endpoint": "/v1/chat/completions",
                  "completion_window": "24h"}
        return json.loads(self.call("POST", "/v1/batches", json.dumps(wanted).encode()))["id"]

    def batch(self, batch_id):
        return json.loads(self.call("GET", f"/v1/batches/{batch_id}"))

    def answers(self, batch):
        """How many lines of the batch were answered well."""
        if not batch.get("output_file_id"):
            return 0
        lines = self.call("GET", f"/v1/files/{batch['output_file_id']}/content").splitlines()
        return sum(json.loads(line)["response"]["status_code"] == 200 for line in lines)

    def read_along(self, question):
        """Streams one answer; seconds to its first word, and between its words."""
        body = json.dumps({"model": self.model, "stream": True, "max_tokens": TOKENS,
                           "messages": [{"role": "user", "content": question}]})
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=60)
        asked = time.monotonic()
        connection.request("POST", f"/lane/{LANE}/v1/chat/completions", body,
                           {"content-type": "application/json", "authorization": "Bearer sk-show"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(f"a stream was refused with {answer.status}: {answer.read().decode()}")
        words, whole = [], False
        while line := answer.readline():
            whole = whole or line.startswith(b"data: [DONE]")
            if line.startswith(b"data: {") and has_content(json.loads(line[6:])):
                words.append(time.monotonic())
        connection.close()
        if not whole or not words:
            raise RuntimeError(f"a stream broke off after {len(words)} words")
        return words[0] - asked, [later - earlier for earlier, later in zip(words, words[1:])]


def has_content(event):
    choices = event.get("choices") or [{}]
    return bool(choices[0].get("delta", {}).get("content"))


def at(values, share):
    ordered = sorted(values)
    return ordered[int(share * (len(ordered) - 1))]


def show(url, model, prompts, patience=300):
    """Runs it and prints what was seen; what went wrong, in sentences."""
    door = FrontDoor(url, model)
    print(f"\nthrough the front door ({url}/v1, lane {LANE} by /lane/{LANE}/v1): one answer after the other is read along "
          f"while a batch of {len(prompts)} prompts runs behind", flush=True)
    begun = time.monotonic()
    batch_id = door.start_batch(batch_file(prompts, model))
    first, gaps = [], []
    state = door.batch(batch_id)
    while state["status"] in ("validating", "in_progress", "finalizing") and time.monotonic() < begun + patience:
        to_first, between = door.read_along(f"Question {len(first)} of a user who reads along.")
        first.append(to_first)
        gaps += between
        state = door.batch(batch_id)
    good = door.answers(state)
    print(f"streams   {len(first)} of about {TOKENS} words each: first word p50 {1000 * statistics.median(first):.0f} ms, "
          f"max {1000 * max(first):.0f} ms; between words p50 {1000 * at(gaps, 0.5):.1f} ms, p99 {1000 * at(gaps, 0.99):.1f} ms,"
          f" max {1000 * max(gaps):.1f} ms")
    print(f"batch     {state['status']}, {good} of {len(prompts)} answered in {time.monotonic() - begun:.1f} s")
    problems = []
    if state["status"] != "completed" or good != len(prompts):
        problems.append(f"the batch is {state['status']} with {good} of {len(prompts)} answers")
    return problems
