#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gateway under callers that mean no good: requests changed at random bytes, cut and sent in pieces, and connections that are idle or
drip while somebody asks for /healthz.

    tests/integration/bad_http.py [--requests 100000] [--callers 10000] [--seed 1] [--healthz-ms 10]

Exit 1 if the gateway ends, answers wrongly afterwards, keeps anything, or takes longer than that for half of all /healthz.
"""
import argparse
import http.client
import random
import select
import socket
import time

import harness
import test_gateway as gateway

FILES_BESIDE = 100  # of this program, beside one for each caller
WORDS = (b"\r\n", b"\r\n\r\n", b"0\r\n", b"-1", b"\x00", b"\xff" * 9, b"transfer-encoding: chunked\r\n",
         b"content-length: 99999999999999999999\r\n", b"content-length: 3\r\n", b"expect: 100-continue\r\n", b"connection: close\r\n",
         b"HTTP/1.0", b"GET", b"a" * 40000, b'{"model":', b"%2e%2e/", b"ffffffffffffffff\r\n")


def seeds():
    body = gateway.chat(user="caf\u00e9", stream=True).encode()
    head = f"POST {gateway.CHAT} HTTP/1.1\r\nhost: g\r\nx-lanemq-lane: batch\r\nx-lanemq-timeout-ms: 200\r\n".encode()
    yield head + b"content-length: %d\r\n\r\n" % len(body) + body
    yield head + b"transfer-encoding: chunked\r\n\r\n%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    yield head + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    yield head + b"transfer-encoding: chunked\r\n\r\n1;a=b\r\n{\r\n0\r\nx: y\r\nz: " + b"y" * 70000 + b"\r\n\r\n"
    yield b"GET /v1/models/a%2Fb?after=x HTTP/1.1\r\nhost: g\r\n\r\n"
    yield b"DELETE /lane/low/anthropic/v1/responses/r HTTP/1.1\r\nhost: g\r\nanthropic-version: 1\r\n\r\n"


def spoilt(chance, whole):
    noise = bytearray(whole[:chance.randrange(len(whole) + 1)] if chance.random() < 0.6 else whole)
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(noise) + 1)
        if chance.random() < 0.5 and noise:
            noise[min(at, len(noise) - 1)] = chance.randrange(256)
        else:
            noise[at:at] = chance.choice(WORDS)
    return bytes(noise)


class Noise:
    """One spoilt request, which comes in pieces that are cut at random places."""

    def __init__(self, case, whole, chance):
        data = spoilt(chance, chance.choice(whole))
        cuts = sorted({chance.randrange(len(data) + 1) for _ in range(chance.choice((0, 1, 2, 5, 20)))})
        self.pieces = [data[begin:end] for begin, end in zip([0] + cuts, cuts + [len(data)])][::-1]
        self.connection = socket.create_connection(case.address(), timeout=60)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def go_on(self):
        """Sends the next piece; false: there is none, or nobody takes it."""
        try:
            self.connection.sendall(self.pieces.pop())
        except (BrokenPipeError, ConnectionResetError):
            return False
        return bool(self.pieces)

    def end(self, reads):
        try:
            # Now and then somebody reads what comes of it, and some leave at once.
            if reads and select.select([self.connection], [], [], 0.002)[0]:
                self.connection.recv(65536)
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            self.connection.close()


def send_noise(case, count, chance):
    """Some at once, a piece of each in turn: so the pieces of one come apart."""
    whole, running = list(seeds()), []
    for number in range(count):
        running.append(Noise(case, whole, chance))
        while len(running) >= (8 if number + 1 < count else 1):
            for noise in list(running):
                if not noise.go_on():
                    running.remove(noise)
                    noise.end(number % 3 == 0)
        if case.gateway.process.poll() is not None:
            raise AssertionError(f"the gateway ended at request {number}")


def time_healthz(case, callers):
    """Milliseconds for each of some /healthz while so many connections say nothing or half a header, and the bytes that
    the gateway then has for each."""
    idle, before = [], case.gateway.resident_bytes()
    try:
        for number in range(callers):
            connection = socket.create_connection(case.address(), timeout=60)
            if number % 2:
                connection.sendall(b"POST /v1/messages HTTP/1.1\r\nx-slow: ")
            idle.append(connection)
        case.when_metric("lanemq_gateway_connections", callers + 1)
        each = (case.gateway.resident_bytes() - before) // max(callers, 1)
        asker = http.client.HTTPConnection(*case.address(), timeout=60)
        took = []
        for number in range(1000):
            if idle:
                try:  # one of the slow ones drips on
                    idle[(number * 15838 + 1) % len(idle)].sendall(b"x")
                except OSError:
                    pass
            started = time.perf_counter()
            asker.request("GET", "/healthz")
            asker.getresponse().read()
            took.append((time.perf_counter() - started) * 1000)
        asker.close()
        return sorted(took), each
    finally:
        for connection in idle:
            connection.close()


class Stage(gateway.GatewayCase):
    """A gateway with everything behind it, without a test of its own."""

    # All of the idle ones come from one address.
    flags = ("--header-timeout", "1m", "--connections-per-address-max", "16384")

    def runTest(self):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100000)
    parser.add_argument("--callers", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--healthz-ms", type=float, default=10)
    options = parser.parse_args()

    def work():
        send_noise(case, options.requests, random.Random(options.seed))
        case.when_metric("lanemq_gateway_connections", 1)
        case.when_metric("lanemq_gateway_body_bytes", 0)
        case.when_running(0)
        case.assertEqual(case.ask("POST", gateway.CHAT, gateway.chat()).status, 200)
        refused = int(case.metric("lanemq_gateway_http_bad_requests_total"))
        took, each = time_healthz(case, options.callers)
        p50, p99 = took[len(took) // 2], took[len(took) * 99 // 100]
        print(f"requests={options.requests} seed={options.seed} refused_as_http={refused} callers={options.callers} "
              f"healthz_p50_ms={p50:.2f} healthz_p99_ms={p99:.2f} healthz_max_ms={took[-1]:.2f} "
              f"resident_bytes_each={each} resident_mib={case.gateway.resident_bytes() >> 20}")
        case.assertLess(p50, options.healthz_ms)  # what the idle ones cost, each request pays; what others on the machine cost, some do

    case = Stage()
    harness.run_alone(case, work, files=options.callers + FILES_BESIDE)


if __name__ == "__main__":
    main()
