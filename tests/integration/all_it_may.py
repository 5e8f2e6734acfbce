#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One address takes all that the gateway's bounds let it have, and what the gateway's process then has is compared with their sum.

    tests/integration/all_it_may.py [--connections 400] [--bodies-mib 64] [--answers-mib 32] [--slow 100]
    tests/integration/all_it_may.py --connections 4096 --bodies-mib 512 --answers-mib 512 --slow 500   the defaults, by hand

heads    on each connection as much of a head as there may be
ahead    on each a request that is under way, and as much behind it as is read
bodies   the share of an address of all bodies
answers  answers that nobody reads, more than there may be
slow     so many callers whose bodies drip, while somebody else asks: printed is how long that takes

Exit 1 if the gateway has more than its bounds add up to, or takes what has left for something that is there.
"""
import argparse
import contextlib
import sys
import time

import harness
import test_gateway as gateway

MIB = 1 << 20
HEADER_BYTES_MAX, AHEAD_BYTES_MAX = 32768, 65536
# What a connection costs beside its bytes; the process's own, and what malloc keeps of pieces that it has given out.
BYTES_EACH, BESIDE, KEPT = 8192, 24 * MIB, 1.25
FILES_BESIDE = 500  # of this program
SHARES = 4  # one address may have a quarter of all bodies
OPTIONS = argparse.Namespace()


class AllItMay(gateway.GatewayCase):
    def setUp(self):
        self.flags = ("--connections-per-address-max", str(OPTIONS.connections + 50), "--header-timeout", "10m",
                      "--bodies-bytes-max", f"{OPTIONS.bodies_mib}MiB", "--answers-bytes-max", f"{OPTIONS.answers_mib}MiB",
                      "--body-bytes-per-second-min", "0B", "--write-timeout", "10m")
        super().setUp()
        self.before, self.bounds = self.gateway.resident_bytes(), {}

    def runTest(self):
        for part in (self.heads, self.ahead, self.bodies, self.answers, self.slow):
            with contextlib.ExitStack() as self.held:
                part()
            self.when_metric("lanemq_gateway_connections", 1)
            self.when_metric("lanemq_gateway_body_bytes", 0)
            self.when_metric("lanemq_gateway_answer_bytes", 0)
        print(f"then     resident {(self.gateway.resident_bytes() - self.before) / MIB:7.1f} MiB", file=sys.stderr)

    def peer(self):
        connection = self.raw()
        self.held.callback(connection.close)
        return connection

    def compare(self, name, bytes_of_bounds):
        has = self.gateway.resident_bytes() - self.before
        print(f"{name:8} resident {has / MIB:7.1f} MiB; its bounds {bytes_of_bounds / MIB:7.1f} MiB", file=sys.stderr)
        # What an earlier part has left may be malloc's still. Heads, and what is sent ahead, a connection has in turn.
        place = "ahead" if name in ("heads", "slow") else name
        self.bounds[place] = max(self.bounds.get(place, 0), bytes_of_bounds)
        self.assertLess(has, harness.MEMORY_FACTOR * (sum(self.bounds.values()) * KEPT + BESIDE))

    def heads(self):
        head = b"GET /healthz HTTP/1.1\r\nhost: g\r\n"
        for _ in range(OPTIONS.connections):
            # Fields may be half as long as all of them.
            self.peer().sendall(head + b"".join(b"x-%d: " % n + b"x" * 8000 + b"\r\n" for n in range(4)))
        self.when_metric("lanemq_gateway_connections", OPTIONS.connections + 1)
        self.compare("heads", OPTIONS.connections * (HEADER_BYTES_MAX + BYTES_EACH))

    def ahead(self):
        body = gateway.chat("gpt-x+delay=600000").encode()
        request = b"POST %s HTTP/1.1\r\nhost: g\r\ncontent-length: %d\r\n\r\n" % (gateway.CHAT.encode(), len(body)) + body
        connections, sent = [self.peer() for _ in range(OPTIONS.connections)], []
        for connection in connections:
            connection.sendall(request)
            connection.setblocking(False)
            sent.append(len(request) + connection.send(b"x" * (AHEAD_BYTES_MAX + 20000)))
        self.when_metric("lanemq_gateway_connections", OPTIONS.connections + 1)
        read = lambda: [all - left for all, left in zip(sent, harness.unread(connections))]
        harness.wait_until(lambda: min(read()) >= min(AHEAD_BYTES_MAX, min(sent)), "what is read ahead", pause=0.05)
        self.compare("ahead", OPTIONS.connections * (AHEAD_BYTES_MAX + 2 * BYTES_EACH))

    def bodies(self):
        share = OPTIONS.bodies_mib * MIB // SHARES
        each = min(4 * MIB, share // 4)
        for _ in range(2 * share // each):
            with contextlib.suppress(OSError):  # over the share it is refused
                connection = self.peer()
                connection.sendall(b"POST %s HTTP/1.1\r\nhost: g\r\ncontent-length: %d\r\n\r\n" % (gateway.CHAT.encode(), each)
                                   + b"x" * (each - 1))
        held = self.metric("lanemq_gateway_body_bytes")
        self.assertGreater(held, share / 2)
        self.assertLessEqual(held, share)
        self.compare("bodies", share)

    def answers(self):
        tokens, count = 400_000, max(OPTIONS.answers_mib // 2, 8)
        body = gateway.chat(f"gpt-x+tokens={tokens}", max_tokens=tokens).encode()
        begun = self.calls_begun()
        for _ in range(count):
            self.peer().sendall(b"POST %s HTTP/1.1\r\nhost: g\r\ncontent-length: %d\r\n\r\n" % (gateway.CHAT.encode(), len(body)) + body)
        harness.wait_until(lambda: self.calls_begun() >= begun + count, "all calls")
        self.when_running(0)
        held = self.metric("lanemq_gateway_answer_bytes")
        self.assertLessEqual(held, OPTIONS.answers_mib * MIB)
        print(f"         {count} answers, of which it holds {held / MIB:.1f} MiB", file=sys.stderr)
        self.compare("answers", OPTIONS.answers_mib * MIB)

    def slow(self):
        dripping = []
        for number in range(OPTIONS.slow):
            dripping.append(self.peer())
            dripping[-1].sendall(b"POST %s HTTP/1.1\r\nhost: g\r\ncontent-length: 100000\r\n\r\n{" % gateway.CHAT.encode())
        took = {"/healthz": [], gateway.CHAT: []}
        for number in range(400):
            dripping[number % len(dripping)].sendall(b" ")
            for path, times in took.items():
                began = time.perf_counter()
                answer = self.ask("GET", path) if path == "/healthz" else self.ask("POST", path, gateway.chat())
                times.append(1000 * (time.perf_counter() - began))
                self.assertEqual(answer.status, 200)
        for path, times in took.items():
            times.sort()
            print(f"         {OPTIONS.slow} slow: {path} p50 {times[200]:.1f} ms, p99 {times[396]:.1f} ms", file=sys.stderr)
        self.compare("slow", OPTIONS.slow * BYTES_EACH)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=400)
    parser.add_argument("--bodies-mib", type=int, default=64)
    parser.add_argument("--answers-mib", type=int, default=32)
    parser.add_argument("--slow", type=int, default=100)
    parser.parse_args(namespace=OPTIONS)
    case = AllItMay()
    harness.run_alone(case, case.runTest, files=OPTIONS.connections + FILES_BESIDE)


if __name__ == "__main__":
    main()
