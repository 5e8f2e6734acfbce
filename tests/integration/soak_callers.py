# SPDX-License-Identifier: Apache-2.0
"""Those of the soak who call the gateway: chats whole and streamed, jobs that are left and fetched, files, batches, strangers."""

import contextlib
import http.client
import json
import os
import random
import socket
import threading
import time

import harness
from soak_book import BACK_S
from test_gateway import CHAT, Answer, bearer

LINES = 20  # of a batch
PART = 2048  # bytes that a slow reader takes at a time
# What a caller may hear while a broker or a gateway that died is not back.
AWAY = (429, 500, 502, 503, 504)


class Caller(threading.Thread):
    """Does one thing after the other, at the pace of `every` seconds, on a connection that it keeps for a while."""

    every, key = 0.1, "caller"

    def __init__(self, stage, number):
        super().__init__(target=stage.guarded(self.go_on), name=f"{type(self).__name__} {number}")
        self.stage, self.book = stage, stage.book
        self.chance = random.Random(f"{stage.seed} {self.name}")
        self.connection, self.left, self.made = None, 0, 0

    def go_on(self):
        due = time.monotonic()
        while not self.book.stopping.wait(max(0.0, due - time.monotonic())):
            due = max(due + self.every * self.chance.uniform(0.5, 1.5), time.monotonic())
            self.act()
        self.hang_up()

    def made_name(self):
        self.made += 1
        return f"{self.name.replace(' ', '-')}-{self.stage.seed}-{self.made}"

    # ---- HTTP

    def connect(self):
        if self.connection is None or self.left == 0:
            self.hang_up()
            self.connection, self.left = self.stage.https(), self.chance.randrange(1, 50)
        self.left -= 1
        return self.connection

    def hang_up(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def begin(self, method, path, body=None, headers=None):
        """The response, its body not read yet. Raises OSError or HTTPException, and lets go of the connection."""
        try:
            connection = self.connect()
            connection.request(method, path, body, {**bearer(self.key), **(headers or {})})
            return connection.getresponse()
        except (OSError, http.client.HTTPException):
            self.hang_up()
            raise

    def once(self, method, path, body=None, headers=None):
        """The answer, or None where one who had to do with it has died."""
        began = time.time()
        try:
            answer = Answer(self.begin(method, path, body, headers))
            if answer.status not in AWAY:
                return answer
            what = f"{answer.status} {answer.body[:200]}"
        except (OSError, http.client.HTTPException) as error:
            self.hang_up()
            what = repr(error)
        if not self.book.excused(began, "broker", "gateway"):
            self.book.fault("failed", f"{self.name}: {method} {path}: {what}")
        self.book.count("callers refused for now")
        return None

    def insist(self, method, path, body=None, headers=None):
        """The answer, asked for until there is one; None where none comes for long."""
        deadline = time.monotonic() + 4 * BACK_S
        while (answer := self.once(method, path, body, headers)) is None:
            if self.book.given_up.is_set():
                return None
            if time.monotonic() > deadline:
                self.book.fault("failed", f"{self.name}: {method} {path}: no answer within {4 * BACK_S} s")
                return None
            harness.pace(0.2)  # as an SDK does
        return answer

    def wrong(self, what, answer):
        self.book.fault("wrong answer", f"{self.name}: {what}: {answer.status} {answer.body[:300]}")


class Chats(Caller):
    every = 0.15

    def act(self):
        prompt, body, wanted = self.stage.answers.whole(self.chance)
        headers = {"idempotency-key": self.made_name()} if self.chance.random() < 0.3 else {}
        answer = self.insist("POST", CHAT, body, headers)
        if answer is None:
            return
        if (answer.status, answer.body) != (200, wanted):
            return self.wrong(f"prompt {prompt}", answer)
        self.book.count("chats")
        self.book.made_by_the_double(answer.headers["x-lanemq-job"])


class Streams(Caller):
    """Some are read slowly, and some are left in the middle."""

    every = 0.3

    def act(self):
        how = self.chance.choices(("all", "slowly", "left"), (8, 1, 2))[0]
        _, body, wanted = self.stage.answers.stream(self.chance, long=how != "all")
        began = time.time()
        try:
            response = self.begin("POST", CHAT, body)
            if response.status in AWAY:
                response.read()
                raise http.client.HTTPException(f"status {response.status}")
            seen = self.read(response, how)
        except (OSError, http.client.HTTPException) as error:
            self.hang_up()
            if not self.book.excused(began, "broker", "gateway", "worker"):
                self.book.fault("failed", f"{self.name}: a stream that is read {how}: {error!r}")
            return self.book.count("streams that a death broke")
        if how == "left":
            self.hang_up()
            return self.book.count("streams left in the middle")
        if (response.status, seen) == (200, wanted):
            self.book.made_by_the_double(response.getheader("x-lanemq-job"))
            return self.book.count(f"streams read {how}")
        if self.book.excused(began, "broker", "gateway", "worker"):
            return self.book.count("streams that a death broke")
        self.book.fault("wrong answer", f"{self.name}: a stream that is read {how}: {response.status}, {len(seen)} bytes for "
                                        f"{len(wanted)}: {seen[-300:]}")

    def read(self, response, how):
        if how == "all":
            return response.read()
        seen = b""
        while piece := response.read1(PART):
            seen += piece
            if how == "left" and len(seen) > 3 * PART:
                break
            self.book.stopping.wait(0.02)
        return seen


class Left(Caller):
    """Jobs that are left, and fetched twice; some are cancelled."""

    every = 0.4

    def act(self):
        name, cancels = self.made_name(), self.chance.random() < 0.2
        prompt, body, wanted = self.stage.answers.whole(self.chance)
        body = json.loads(body)
        if cancels:
            body["model"] += "+delay=3000"
        job = {"id": name, "lane": "low", "retain_ms": self.stage.retain_ms, "request": {"endpoint": CHAT, "body": body}}
        answer = self.insist("POST", "/v1/jobs", json.dumps(job))
        if answer is None:
            return
        if answer.status != 202 or not answer.json()["durable"]:
            return self.wrong(f"a job is left (prompt {prompt})", answer)
        self.book.count("durable jobs acknowledged")
        if cancels:
            harness.pace(self.chance.uniform(0, 0.3))
            self.insist("DELETE", f"/v1/jobs/{name}")
        states = [state for _ in range(2) if (state := self.fetch(name, None if cancels else json.loads(wanted)))]
        if len(states) == 2 and states[0] != states[1]:
            self.book.fault("answered twice", f"{name}: {states[0]}, then {states[1]}")
        if states:
            self.book.count("durable jobs answered")
            self.book.count(f"jobs left that {states[0]}")

    def fetch(self, name, wanted):
        deadline = time.monotonic() + 4 * BACK_S
        while (answer := self.insist("GET", f"/v1/jobs/{name}?wait_ms=5000")) is not None:
            if answer.status == 404:
                return self.book.fault("lost", f"{name}: it was acknowledged, and is not known")
            job = answer.json()
            if job.get("state") in ("succeeded", "cancelled", "failed", "expired"):
                if wanted is not None and (job["state"], job.get("result")) != ("succeeded", wanted):
                    self.wrong(f"the job {name}", answer)
                return job["state"]
            if time.monotonic() > deadline:
                return self.book.fault("lost", f"{name}: it has not ended within {4 * BACK_S} s: {job}")
        return None


class Batches(Caller):
    """Files come and go; batches of chats run to their end, or are cancelled in the middle."""

    every = 2.0

    def act(self):
        if self.chance.random() < 0.4:
            return self.keep_a_file()
        prompts = [self.stage.answers.whole(self.chance) for _ in range(LINES)]
        lines = {f"line-{number}": wanted for number, (_, _, wanted) in enumerate(prompts)}
        file = self.upload("\n".join(json.dumps({"custom_id": name, "method": "POST", "url": CHAT, "body": json.loads(body)})
                                     for name, (_, body, _) in zip(lines, prompts)))
        if file is None:
            return
        made = self.insist("POST", "/v1/batches", json.dumps({"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"}))
        if made is None:
            return
        if made.status != 200:
            return self.wrong("a batch is made", made)
        batch, cancels = made.json(), self.chance.random() < 0.15
        if cancels:
            self.insist("POST", f"/v1/batches/{batch['id']}/cancel")
        batch = self.when_over(batch["id"])
        if batch is not None:
            self.check(batch, lines, cancels)
            self.delete(file)

    def upload(self, content):
        form = (f'--XX\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
                f'--XX\r\ncontent-disposition: form-data; name="file"; filename="in.jsonl"\r\n\r\n{content}\r\n--XX--\r\n')
        answer = self.insist("POST", "/v1/files", form, {"content-type": "multipart/form-data; boundary=XX"})
        if answer is not None and answer.status != 200:
            return self.wrong("an upload", answer)
        return answer and answer.json()["id"]

    def delete(self, file):
        """Some are left to their time."""
        if self.chance.random() < 0.5:
            self.insist("DELETE", f"/v1/files/{file}")

    def keep_a_file(self):
        content = os.urandom(self.chance.choice((500, 20_000, 530_000))).hex()
        if file := self.upload(content):
            answer = self.insist("GET", f"/v1/files/{file}/content")
            if answer is not None and (answer.status, answer.body) != (200, content.encode()):
                self.wrong(f"a file of {len(content)} bytes", answer)
            self.book.count("files")
            self.delete(file)

    def when_over(self, name):
        deadline = time.monotonic() + 4 * BACK_S
        while (answer := self.insist("GET", f"/v1/batches/{name}")) is not None:
            if answer.status != 200:
                return self.book.fault("lost", f"{name}: {answer.status} {answer.body[:200]}")
            batch = answer.json()
            if batch["status"] in ("completed", "failed", "expired", "cancelled"):
                return batch
            if time.monotonic() > deadline:
                return self.book.fault("lost", f"{name} has not ended within {4 * BACK_S} s: {batch}")
            harness.pace(0.1)  # as a caller does that asks now and then
        return None

    def check(self, batch, lines, cancels):
        rows = [row for kind in ("output_file_id", "error_file_id") if batch.get(kind) for row in self.rows(batch[kind])]
        names = [row["custom_id"] for row in rows]
        for name in lines:
            if names.count(name) != 1:
                self.book.fault("lost" if name not in names else "answered twice", f"{batch['id']}: {name} has {names.count(name)} answers")
        for row in rows:
            answered = row["response"] is not None and row["response"]["status_code"] == 200
            if answered and row["response"]["body"] != json.loads(lines[row["custom_id"]]):
                self.book.fault("wrong answer", f"{batch['id']}: {row['custom_id']}: {row}")
            if not answered and not (cancels and row["error"]["code"] == "batch_cancelled"):
                self.book.fault("failed", f"{batch['id']}: {row}")
            self.book.count("lines of batches answered" if answered else "lines of batches cancelled")
        self.book.count("batches cancelled" if cancels else "batches")

    def rows(self, file):
        answer = self.insist("GET", f"/v1/files/{file}/content")
        self.delete(file)
        if answer is None:
            return []
        if answer.status != 200:
            self.wrong(f"the file {file}", answer)
            return []
        return [json.loads(line) for line in answer.body.splitlines()]


class Guest(Caller):
    """Its key comes with a reload of the gateway, and goes with the next one."""

    every, key = 6.0, "guest"

    def act(self):
        for there in (True, False):
            began = time.time()
            self.stage.write_gateway_config(guest=there, limit=self.chance.randrange(100_000, 200_000))
            self.stage.reload_gateway()
            try:
                harness.wait_until(lambda: (answer := self.once("GET", "/v1/files")) and answer.status == (200 if there else 401),
                                   "the guest", pause=0.1)
                self.book.count("guests let in" if there else "guests put out")
            except harness.Timeout:
                if not self.book.excused(began, "gateway", "broker"):
                    self.book.fault("failed", f"the gateway did not {'let a guest in' if there else 'put a guest out'} after a reload")


class Strangers(Caller):
    """Wrong keys, no TLS, half requests and connections that say nothing, from an address of their own."""

    every = 0.2
    ELSEWHERE = "127.0.0.2"

    def act(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.chance.choice((self.guess, self.talk_nonsense, self.say_half, self.say_nothing))()
            self.book.count("strangers at the gateway")

    def guess(self):
        with contextlib.closing(self.stage.https(self.ELSEWHERE)) as connection:
            connection.request("POST", CHAT, "{}", bearer(f"guess-{self.chance.random()}"))
            answer = Answer(connection.getresponse())
            if answer.status != 401:
                self.book.fault("let in", f"a wrong key: {answer.status} {answer.body[:200]}")

    def raw(self):
        return socket.create_connection(self.stage.gateway_address, timeout=5, source_address=(self.ELSEWHERE, 0))

    def talk_nonsense(self):
        with self.raw() as connection:
            connection.sendall(self.chance.randbytes(200))
            connection.recv(4096)

    def say_half(self):
        with self.raw() as plain, self.stage.trust.wrap_socket(plain, server_hostname="localhost") as connection:
            connection.sendall(f"POST {CHAT} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bea".encode())
            self.book.stopping.wait(0.5)

    def say_nothing(self):
        with self.raw():
            self.book.stopping.wait(0.5)


# How many of each there are at once.
CALLERS = ((Chats, 3), (Streams, 4), (Left, 2), (Batches, 2), (Guest, 1), (Strangers, 2))


def threads(stage):
    return [kind(stage, number) for kind, count in CALLERS for number in range(count)]
