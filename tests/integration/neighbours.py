# SPDX-License-Identifier: Apache-2.0
"""Noisy neighbours: one key does whatever it can think of, and the other key's requests are all answered. So do strangers, who
have no key at all (`strangers_`).

Both speak to one gateway, broker, worker and upstream. The noisy key has a bound of what it has under way (`concurrency`), as
keys of a gateway that is shared should have; nothing else is held against it. Asserted is that every request of the quiet key
succeeds; how long they take is printed, beside what they take when nobody else is there. The noisy one is a process of its
own: threads of one Python would make the quiet one wait for them, and not for the gateway.

    neighbours.py --seconds 2             as in CI
    neighbours.py --seconds 60            by hand
    neighbours.py silence flood           some of it
"""

import argparse
import contextlib
import http.client
import json
import math
import multiprocessing
import os
import socket
import sys
import threading
import time
import unittest

import harness
from test_gateway import CHAT, UPSTREAM_KEY, Answer, GatewayCase, bearer, chat, key

PAUSE_S = 25200  # what an upstream may ask for whose limit of a day is used up
QUIET_EVERY_S = 0.01
GIVE_UP_S = 60  # of the quiet key's requests: a service whose breaker is open makes them wait
THREADS = 8
FORK = multiprocessing.get_context("fork")
OF_THREAD = threading.local()  # of the noisy process
BIG_TOKENS = 2_000_000  # 8 MB
ELSEWHERE = "127.0.0.2"  # the address of a noisy one that is on another machine
STRANGERS = "127.0.0.4"
OPERATOR = "127.0.0.3"  # of who reads the metrics: connections of a flood from the quiet one's address may not all be closed yet
PIPELINED = 100
UPLOAD = os.urandom(1 << 20).hex()  # 2 MiB


class Neighbours(GatewayCase):
    config = (key("noisy", "concurrency = 16") + key("quiet")
              + '[[model]]\nname = "gpt-apart"\nmodel = "gpt-quiet"\nservice = "apart"\n')
    settings = ("budget.api.requests_per_minute=600000",)

    def setUp(self):
        apart = harness.Process(harness.program("lanemq-upstream"), "--latency-ms", "1", "--keys", UPSTREAM_KEY)
        self.addCleanup(apart.close)
        self.services = ("--service", f"apart=openai:{self.ready(apart)}/v1")
        super().setUp()

    def leaves_alone(self, name):
        self.keeps = name.endswith("_beside")
        self.acts = FORK.Value("i", 0)  # that came to their end: a noisy one that only fails makes no noise
        # The double makes one answer after the other, and a large one takes it long: that is no doing of ours.
        self.quiet_model = "gpt-apart" if name == "large_answers" else "gpt-quiet"
        before = self.quiet_while(None, SETTINGS.seconds / 2)
        during = self.quiet_while(getattr(self, "do_" + name), SETTINGS.seconds)
        turn = self.metric("lanemq_gateway_loop_longest_turn_seconds", source=OPERATOR) * 1000
        print(f"{name:23} {self.acts.value:6} acts, {len(during.times):6} requests, p99 {during.p99():7.1f} ms; alone {before.p99():7.1f} ms; "
              f"longest turn {turn:5.1f} ms", file=sys.stderr)
        self.assertEqual((before.failures, during.failures), ([], []))
        self.assertGreater(self.acts.value, 0)

    # ---- the quiet one

    def quiet_while(self, act, seconds):
        self.stopping = FORK.Event()
        noisy = FORK.Process(target=self.make_noise, args=(act,)) if act else None
        told, kept = Told(), http.client.HTTPConnection(*self.address(), timeout=GIVE_UP_S)
        if self.keeps:
            kept.connect()
        if noisy:
            noisy.start()
        end = time.monotonic() + seconds
        # For longer where the noisy one has come to nothing yet: both share the machine with others.
        while time.monotonic() < end or (noisy and self.acts.value == 0 and time.monotonic() < end + GIVE_UP_S):
            began = time.monotonic()
            try:
                kept.request("POST", CHAT, chat(self.quiet_model), {**bearer("quiet"), "x-lanemq-timeout-ms": str(1000 * GIVE_UP_S)})
                answer = Answer(kept.getresponse())
                if not self.keeps:
                    kept.close()
                if answer.status != 200:
                    told.failures.append((answer.status, answer.body[:200]))
            except OSError as error:
                told.failures.append(repr(error))
            told.times.append(time.monotonic() - began)
            harness.pace(QUIET_EVERY_S)
        kept.close()
        self.stopping.set()
        if noisy:
            noisy.join(GIVE_UP_S)
            self.assertEqual(noisy.exitcode, 0)
        return told

    # ---- the noisy one

    def make_noise(self, act):
        others = [threading.Thread(target=self.keep_doing, args=(act,)) for _ in range(THREADS)]
        for thread in others:
            thread.start()
        for thread in others:
            thread.join()

    def keep_doing(self, act):
        while not self.stopping.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                act()
                with self.acts:
                    self.acts.value += 1
        if hasattr(OF_THREAD, "connection"):
            OF_THREAD.connection.close()

    def noisy(self, model, **fields):
        self.ask_on("POST", CHAT, chat(model, **fields), {**bearer("noisy"), "x-lanemq-timeout-ms": "2000"})

    def ask_on(self, *request, source=""):
        """On this thread's own connection, as SDKs do: thousands of new ones would use up the ports on which the programs of the
        next act listen."""
        if not hasattr(OF_THREAD, "connection"):
            OF_THREAD.connection = http.client.HTTPConnection(*self.address(), timeout=harness.PATIENCE, source_address=(source, 0))
        try:
            OF_THREAD.connection.request(*request)
            return Answer(OF_THREAD.connection.getresponse())
        except (OSError, http.client.HTTPException):
            OF_THREAD.connection.close()
            raise

    def begun(self, body, times=1, source=ELSEWHERE):
        """Requests whose answers nobody has read."""
        connection = socket.create_connection(self.address(), timeout=5, source_address=(source, 0))
        request = (f"POST {CHAT} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer noisy-secret\r\n"
                   f"content-length: {len(body)}\r\n\r\n{body}")
        connection.sendall(request.encode() * times)
        return connection

    def do_401(self):
        self.noisy("noisy+status=401")

    def do_403(self):
        self.noisy("noisy+status=403")

    def do_404(self):
        self.noisy("noisy+status=404")

    def do_429(self):
        self.noisy(f"noisy+status=429+retry={PAUSE_S}")

    def do_500(self):
        self.noisy("noisy+status=500")

    def do_silence(self):
        self.noisy("noisy+stall=0")

    def do_half(self):
        self.noisy("noisy+half=40")

    def do_large_answers(self):
        self.noisy(f"noisy+tokens={BIG_TOKENS}", max_tokens=BIG_TOKENS)

    def do_hang_up(self):
        self.begun(chat("noisy+delay=500", stream=True)).close()

    def do_flood(self):
        self.flood()

    def do_flood_beside(self):
        """From the quiet one's own address: there nothing tells new connections apart before their heads are read. The quiet
        one keeps its own, as SDKs do."""
        self.flood(source=self.address()[0])

    def do_pipeline(self):
        self.flood(times=PIPELINED, pause=1)

    def flood(self, pause=0, **how):
        with contextlib.ExitStack() as connections:
            for _ in range(50):
                connections.enter_context(self.begun(chat("noisy"), **how))
            self.stopping.wait(pause)

    def do_upload(self):
        form = f'--X\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n{UPLOAD}\r\n--X--\r\n'
        self.ask_on("POST", "/v1/files", form, {**bearer("noisy"), "content-type": "multipart/form-data; boundary=X"})

    def do_fill_lanes(self):
        job = {"service": "openai", "delay_ms": 3_600_000, "lane": "normal", "body": {"model": "noisy"}}
        self.ask_on("POST", "/v1/jobs", json.dumps(job), bearer("noisy"))

    def do_read_nothing(self):
        with self.begun(chat("noisy+tokens=100000+gap=0", stream=True, max_tokens=100000)):
            self.stopping.wait(1)

    # ---- strangers, from an address of their own

    def stranger(self, data=b""):
        connection = socket.create_connection(self.address(), timeout=5, source_address=(STRANGERS, 0))
        connection.sendall(data)
        return connection

    def strangers(self, each, count=50, pause=0.0):
        """Some connections at once, on each of which something is sent; then they are let go of, unread."""
        with contextlib.ExitStack() as connections:
            for number in range(count):
                connections.enter_context(self.stranger(each(number)))
            self.stopping.wait(pause)

    def do_strangers_guess(self):
        """Wrong keys, each another one, and the refusals are waited for: after some these are held back."""
        self.ask_on("POST", CHAT, chat(), bearer("guess-" + os.urandom(8).hex()), source=STRANGERS)

    def do_strangers_guess_on(self):
        """The same without waiting: many guesses on each connection, one behind the other."""
        guess = lambda number: b"".join(asks(chat(), b"authorization: Bearer guess-%d-%d\r\n" % (number, at)) for at in range(PIPELINED))
        self.strangers(guess, pause=0.2)

    def do_strangers_without_key(self):
        self.ask_on("POST", CHAT, chat(), {}, source=STRANGERS)

    def do_strangers_half_heads(self):
        """Heads that never end, as long as they may be."""
        self.strangers(lambda number: HEAD + b"".join(b"x-%d: %s\r\n" % (at, b"x" * 8000) for at in range(3)), pause=0.5)

    def do_strangers_slow_heads(self):
        """Heads that come byte by byte."""
        with contextlib.ExitStack() as connections:
            slow = [connections.enter_context(self.stranger(HEAD + b"x-slow: ")) for _ in range(50)]
            for _ in range(20):
                if self.stopping.wait(0.05):
                    break
                for connection in slow:
                    connection.sendall(b"x")

    def do_strangers_connect(self):
        """Connections that say nothing, as many as are let in, again and again."""
        self.strangers(lambda number: b"")

    def do_strangers_flood(self):
        self.strangers(lambda number: asks(chat()))

    def do_strangers_upload(self):
        """Large bodies without a key, for a chat and for a file."""
        path = (CHAT, "/v1/files")[os.urandom(1)[0] % 2]
        with self.stranger(asks(UPLOAD, b"content-type: multipart/form-data; boundary=X\r\n", path)) as connection:
            connection.recv(65536)

    def do_strangers_no_http(self):
        self.strangers(lambda number: os.urandom(2000))


HEAD = f"POST {CHAT} HTTP/1.1\r\nhost: gateway\r\n".encode()


def asks(body, headers=b"", path=CHAT):
    return b"POST %s HTTP/1.1\r\nhost: gateway\r\n%scontent-length: %d\r\n\r\n%s" % (path.encode(), headers, len(body), body.encode())


# Each act has programs of its own, so that what it leaves behind is no other's.
for name in [name.removeprefix("do_") for name in dir(Neighbours) if name.startswith("do_")]:
    setattr(Neighbours, "test_" + name, lambda self, name=name: self.leaves_alone(name))


class Told:
    def __init__(self):
        self.times, self.failures = [], []

    def p99(self):
        return 1000 * sorted(self.times)[math.ceil(0.99 * len(self.times)) - 1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2, help="of each act")
    parser.add_argument("acts", nargs="*", help="these alone")
    SETTINGS = parser.parse_args()
    unittest.main(argv=[sys.argv[0], *(f"Neighbours.test_{act}" for act in SETTINGS.acts)])
