# SPDX-License-Identifier: Apache-2.0
"""Workers on another machine: a network namespace behind a link that delays each packet and loses some.

The link is two TUN devices, one in each namespace, and a process between them that passes each IP packet on after a delay,
or drops it: TCP sees both, as on a real network. Broker and workers have keys (CURVE). The workers' processes are in a process
namespace of their own, so that the broker cannot see them end, as it cannot on another machine.

Asserted is that each job is answered once, with its own answer, while the link is cut for seconds and comes back, and while a
worker is killed; the client counts for itself. Printed is what one worker does in a second, by its places (capacity) and by
how long a job takes, beside a worker on the broker's machine in the same run.

    far_workers.py                                            20 ms there and back, 1 % of the packets lost each way
    far_workers.py --seconds 1 --jobs 300 --cut-seconds 4     as in CI
    far_workers.py --delay-ms 50 --loss 0                     another network

Needs root, or user namespaces and access to /dev/net/tun. Where these are not allowed it says so and ends with 77.
"""

import argparse
import collections
import contextlib
import fcntl
import json
import multiprocessing
import os
import random
import select
import shutil
import signal
import struct
import subprocess
import sys
import time

import harness
from test_peer_keys import Keys

SKIPPED = 77
NEAR, FAR, PREFIX = "10.77.0.1", "10.77.0.2", 30  # in namespaces of their own: nobody else's addresses
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
PACKET_MAX = 1 << 16
PLACES = (1, 4, 16)
WORKS_MS = (0, 200)
WINDOW = 64  # jobs that wait or run, of the client that counts
ALL_IN_S = 60  # after the link is back, or a worker has died
FORK = multiprocessing.get_context("fork")


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


class Link:
    """Two devices, and the process that passes packets between them."""

    def __init__(self, delay, loss, seed):
        self.delay, self.loss, self.seed = delay, loss, seed
        self.fds = [self.make(name) for name in ("near", "far")]
        self.is_cut = FORK.Value("b", 0)
        self.passed, self.lost, self.refused = (FORK.Value("Q", 0) for _ in range(3))
        self.process = FORK.Process(target=self.pass_on, daemon=True)

    def make(self, name):
        try:
            fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
        except OSError as error:
            skip(f"no TUN device can be made ({error})")
        return fd

    def pass_on(self):
        """One delay for all: packets leave in the order in which they came."""
        near, far = self.fds
        chance, waiting = random.Random(self.seed), collections.deque()
        while True:
            left = max(0, waiting[0][0] - time.monotonic()) if waiting else None
            for fd in select.select(self.fds, (), (), left)[0]:
                packet = os.read(fd, PACKET_MAX)
                if self.is_cut.value:
                    self.refused.value += 1
                elif chance.random() < self.loss:
                    self.lost.value += 1
                else:
                    self.passed.value += 1
                    waiting.append((time.monotonic() + self.delay, far if fd == near else near, packet))
            while waiting and waiting[0][0] <= time.monotonic():
                _, fd, packet = waiting.popleft()
                with contextlib.suppress(BlockingIOError):  # a full device drops, as any other
                    os.write(fd, packet)


def ip(*words, inside=()):
    subprocess.run([*inside, "ip", *words], check=True)


class Machines:
    """This namespace, which is the broker's machine, and another one for workers."""

    def __init__(self, link):
        self.holder = subprocess.Popen(["unshare", "--net", "--pid", "--fork", "--kill-child", "sleep", "infinity"])
        self.first = harness.wait_until(lambda: children(self.holder.pid), "the other namespace")[0]
        self.inside = ("nsenter", f"--target={self.first}", "--net", "--pid")
        ip("link", "set", "far", "netns", str(self.first))
        for name, address, inside in (("near", NEAR, ()), ("far", FAR, self.inside)):
            ip("link", "set", "lo", "up", inside=inside)
            ip("address", "add", f"{address}/{PREFIX}", "dev", name, inside=inside)
            ip("link", "set", name, "up", "txqueuelen", "5000", inside=inside)
        link.process.start()

    def close(self):
        self.holder.kill()
        self.holder.wait()


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except FileNotFoundError:
        return []


class Far:
    """A broker with keys, and workers on both machines."""

    def __init__(self, options):
        self.options = options
        self.link = Link(options.delay_ms / 1000, options.loss, options.seed)
        self.machines = Machines(self.link)
        self.room, self.keys = harness.Room(), Keys()
        for name, role in (("alice", "client"), ("work", "worker")):
            self.keys.add(name, role)
            self.keys.write(f"{name}.key", self.keys.pairs[name][1].decode())
        self.broker = self.room.start_broker(*self.keys.arguments(), workers=f"tcp://{NEAR}:*")

    def close(self):
        self.room.close()
        self.link.process.kill()
        self.machines.close()
        self.keys.room.cleanup()

    def of_peer(self, name):
        return ("--broker-key", self.keys.broker.decode(), "--secret-key", f"file:{self.keys.room.name}/{name}.key")

    def worker(self, service, places, work_ms, far):
        worker = self.room.start(harness.Process(
            *(self.machines.inside if far else ()), harness.program("lanemq-worker"), "--broker", self.broker.workers,
            *self.of_peer("work"), "--service", f"{service}=echo:{work_ms}ms", "--capacity", str(places)))
        line = worker.line()
        if not line.startswith("ready"):
            raise AssertionError(f"the worker said {line!r}\n{worker.stderr()}")
        worker.own_pid = children(worker.pid)[0] if far else worker.pid
        return worker

    # ---- figures

    def jobs_per_second(self, places, work_ms, far):
        service = f"{'far' if far else 'near'}-{places}-{work_ms}"
        worker = self.worker(service, places, work_ms, far)
        a_turn = (work_ms + (2 * self.options.delay_ms if far else 0)) / 1000
        # Whole turns of all places, so that none is idle at the end.
        count = places * max(3, int(self.options.seconds / a_turn) if a_turn else int(5000 * self.options.seconds) // places)
        run = self.room.run(harness.program("lanemq"), "--broker", self.broker.clients, *self.of_peer("alice"), "bench", "--json",
                            "--service", service, "--count", str(count), "--window", str(4 * places))
        document = json.loads(run.stdout)
        if document["errors"] or document["round_trips"] != count:
            raise AssertionError(f"{service}: {count} jobs, and {document}")
        os.kill(worker.own_pid, signal.SIGTERM)
        worker.wait()
        return document["per_second"]

    def figures(self):
        print(f"{'a job takes':>12}{'places':>8}{'near jobs/s':>13}{'far jobs/s':>12}{'far/near':>10}{'of what delay allows':>22}")
        for work_ms in WORKS_MS:
            for places in PLACES:
                near, far = (self.jobs_per_second(places, work_ms, far) for far in (False, True))
                bound = 1000 * places / (work_ms + 2 * self.options.delay_ms) if work_ms + self.options.delay_ms else float("inf")
                print(f"{work_ms:>9} ms{places:>8}{near:>13.1f}{far:>12.1f}{far / near:>10.3f}{far / bound:>22.2f}", flush=True)
                # A worker far away cannot be faster than its link, or the link is none.
                if far > 1.05 * bound:
                    raise AssertionError(f"{far} jobs a second, and the delay allows {bound}")

    # ---- nothing is lost

    def nothing_is_lost(self):
        counting = Counting(self)
        workers = [self.worker("counted", 8, 20, far=True) for _ in range(3)]
        count = self.options.jobs
        counting.go_on_to(count // 3)
        print(f"cut: {self.cut(counting)}", flush=True)
        counting.go_on_to(2 * count // 3)
        print(f"kill -9: {self.kill(counting, workers[0])}", flush=True)
        counting.go_on_to(count)
        counting.assert_each_was_answered_once()
        counters = self.room.operator().ask("stats", expect="stats").fields["counters"]
        again, stale = counters["jobs_requeued_worker_lost"], counters["outcomes_stale"] + counters["outcomes_unknown_session"]
        print(f"handed over again since their worker was lost: {again}; outcomes that came too late: {stale}")
        if not again:
            raise AssertionError("no job was taken from the worker that was killed")
        print(f"jobs {len(counting.answers)}: answered once {len(counting.answers)}, lost 0, twice 0, another's answer 0")

    def cut(self, counting):
        before = len(counting.answers)
        self.link.is_cut.value = 1
        began = time.monotonic()
        counting.go_on_for(1)  # what was under way near the broker
        at_rest = len(counting.answers)
        counting.go_on_for(self.options.cut_seconds - 1)
        if len(counting.answers) != at_rest or not self.link.refused.value:
            raise AssertionError("answers came while the link was cut")
        self.link.is_cut.value = 0
        back = time.monotonic()
        counting.go_on_to(at_rest + 1)
        return (f"{back - began:.1f} s, {at_rest - before} answers in its first second and none after; the first one "
                f"{time.monotonic() - back:.1f} s after the link was back")

    def kill(self, counting, worker):
        os.kill(worker.own_pid, signal.SIGKILL)
        worker.wait()
        killed, held = time.monotonic(), set(counting.waiting)
        counting.go_on_until(lambda: not held & set(counting.waiting), "the answers of what was under way")
        return f"all jobs of that moment were answered {time.monotonic() - killed:.1f} s later"


class Counting:
    """A client that keeps a window of jobs under way, and counts for itself what comes."""

    def __init__(self, far):
        self.room = far.room
        self.client = far.room.client(options=far.keys.options("alice"))
        self.limit = far.options.jobs
        self.sent, self.waiting, self.answers = 0, set(), collections.Counter()

    def turn(self):
        while self.sent < self.limit and len(self.waiting) < WINDOW:
            name = f"job-{self.sent}"
            self.sent += 1
            self.waiting.add(name)
            self.client.submit("counted", f"body of {name}".encode(), id=name)
        while self.client.inbox:
            answer = self.client.inbox.popleft()
            name = answer.fields.get("id")
            if answer.op == "accepted":
                continue
            if answer.op != "result" or answer.body != f"body of {name}".encode():
                raise AssertionError(f"{name} came to {answer}")
            self.answers[name] += 1
            self.waiting.discard(name)

    def go_on_until(self, happened, what, patience=ALL_IN_S):
        def turned():
            self.turn()
            return happened()
        self.room.pump(turned, what, patience)

    def go_on_to(self, count):
        self.go_on_until(lambda: len(self.answers) >= count, f"{count} answers")

    def go_on_for(self, seconds):
        with contextlib.suppress(harness.Timeout):
            self.go_on_until(lambda: False, "nothing", seconds)

    def assert_each_was_answered_once(self):
        self.go_on_for(2)  # for a second answer to come
        twice = [name for name, times in self.answers.items() if times > 1]
        missing = [name for name in map("job-{}".format, range(self.limit)) if name not in self.answers]
        if twice or missing:
            raise AssertionError(f"answered twice: {twice}; not answered: {missing}")


def go_into_a_namespace():
    """Starts this program again where it is root of a network of its own."""
    for tool in ("unshare", "nsenter", "ip"):
        if not shutil.which(tool):
            skip(f"{tool} is missing: apt-get install util-linux iproute2")
    command = ["unshare", "--net", *(() if os.geteuid() == 0 else ("--user", "--map-root-user"))]
    tried = subprocess.run([*command, "ip", "link", "set", "lo", "up"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        skip(f"no network namespace can be made ({tried.stderr.strip()})")
    os.execvp(command[0], [*command, sys.executable, *sys.argv, "--inside"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay-ms", type=float, default=10, help="each way")
    parser.add_argument("--loss", type=float, default=0.01, help="share of the packets, each way")
    parser.add_argument("--seconds", type=float, default=5, help="of each figure")
    parser.add_argument("--jobs", type=int, default=3000, help="that are counted")
    parser.add_argument("--cut-seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of what is lost")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        go_into_a_namespace()
    far = Far(options)
    try:
        print(f"link: {options.delay_ms:g} ms each way, {options.loss:.1%} lost each way, seed {options.seed}; CURVE", flush=True)
        far.figures()
        far.nothing_is_lost()
        passed, lost = far.link.passed.value, far.link.lost.value
        print(f"link: {passed} packets passed, {lost} lost ({lost / (passed + lost):.2%}), {far.link.refused.value} while it was cut")
        if options.loss and not 0.5 * options.loss < lost / (passed + lost) < 2 * options.loss:
            raise AssertionError("the link lost another share than it should")
    except AssertionError:
        far.room.show_errors()
        raise
    finally:
        far.close()


if __name__ == "__main__":
    main()
