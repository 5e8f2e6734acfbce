# SPDX-License-Identifier: Apache-2.0
"""Noisy neighbours: one key does whatever it can think of, and the other key's requests are all answered.

Both speak to one gateway, broker, worker and upstream. The noisy key has a bound of what it has under way (`concurrency`), as
keys of a gateway that is shared should have; nothing else is held against it. Asserted is that every request of the quiet key
succeeds; how long they take is printed, beside what they take when nobody else is there.

    neighbours.py --seconds 2             as in CI
    neighbours.py --seconds 60            by hand
    neighbours.py silence flood           some of it
"""

import argparse
import contextlib
import http.client
import json
import math
import os
import socket
import sys
import threading
import time
import unittest

from test_gateway import CHAT, GatewayCase, bearer, chat, key

PAUSE_S = 25200  # what an upstream may ask for whose limit of a day is used up
QUIET_EVERY_S = 0.01
GIVE_UP_S = 60  # of the quiet key's requests: a service whose breaker is open makes them wait
THREADS = 8
BIG_TOKENS = 2_000_000  # about 30 MB as a stream
UPLOAD = os.urandom(1 << 20).hex()  # 2 MiB


class Neighbours(GatewayCase):
    config = key("noisy", "concurrency = 16") + key("quiet")
    settings = ("budget.api.requests_per_minute=600000",)

    def leaves_alone(self, name):
        before = self.quiet_while(None, SETTINGS.seconds / 2)
        during = self.quiet_while(getattr(self, "do_" + name), SETTINGS.seconds)
        print(f"{name:14} {len(during.times):6} requests, p99 {during.p99():7.1f} ms; alone {before.p99():7.1f} ms",
              file=sys.stderr)
        self.assertEqual((before.failures, during.failures), ([], []))

    # ---- the quiet one

    def quiet_while(self, act, seconds):
        self.stopping = threading.Event()
        others = [threading.Thread(target=self.keep_doing, args=(act,)) for _ in range(THREADS if act else 0)]
        for thread in others:
            thread.start()
        told = Told()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.monotonic()
            try:
                answer = self.ask("POST", CHAT, chat("gpt-quiet"), {**bearer("quiet"), "x-lanemq-timeout-ms": str(1000 * GIVE_UP_S)})
                if answer.status != 200:
                    told.failures.append((answer.status, answer.body[:200]))
            except OSError as error:
                told.failures.append(repr(error))
            told.times.append(time.monotonic() - began)
            time.sleep(QUIET_EVERY_S)
        self.stopping.set()
        for thread in others:
            thread.join(GIVE_UP_S)
        return told

    # ---- the noisy one

    def keep_doing(self, act):
        while not self.stopping.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                act()

    def noisy(self, model, **fields):
        self.ask("POST", CHAT, chat(model, **fields), {**bearer("noisy"), "x-lanemq-timeout-ms": "2000"})

    def begun(self, body):
        """A request whose answer nobody has read."""
        connection = socket.create_connection(self.address(), timeout=5)
        connection.sendall(f"POST {CHAT} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer noisy-secret\r\n"
                           f"content-length: {len(body)}\r\n\r\n{body}".encode())
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
        with contextlib.ExitStack() as connections:
            for _ in range(50):
                connections.enter_context(self.begun(chat("noisy")))

    def do_upload(self):
        form = f'--X\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n{UPLOAD}\r\n--X--\r\n'
        self.ask("POST", "/v1/files", form, {**bearer("noisy"), "content-type": "multipart/form-data; boundary=X"})

    def do_fill_lanes(self):
        job = {"service": "openai", "delay_ms": 3_600_000, "lane": "normal", "body": {"model": "noisy"}}
        self.ask("POST", "/v1/jobs", json.dumps(job), bearer("noisy"))

    def do_read_nothing(self):
        with self.begun(chat("noisy+tokens=100000+gap=0", stream=True, max_tokens=100000)):
            self.stopping.wait(1)


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
