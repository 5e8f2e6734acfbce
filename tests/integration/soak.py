#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Everything at once, for long: is each job answered once, and do memory, descriptors and files stay as they are?

    soak.py --seconds 300                   as in CI
    soak.py --seconds 3600 --seed 7         an hour
    soak.py --broker lanemq-broker-leaking  one that must be found out

A broker with its store on disk and keys, four workers, a gateway with TLS and keys, and the double of OpenAI's API. At once:
jobs, bulk jobs, delays, cancels and streams of clients of the broker; chats, streams, jobs that are left, files and batches at the
gateway; slow readers, callers that leave, connections that come and go, wrong keys and strangers; reloads of broker and gateway with
keys that come and go; a worker that is killed or stopped again and again. Broker and gateway are killed and stopped at the beginning,
and killed once more at the end.

The soak counts by itself, from what it sent and got and from what the double saw, whatever a program says: `lost` is a job that was
acknowledged and not answered, `answered twice` a second answer to one submit, or another one than the first, `run twice` a call of the double
that no death explains. Each second it reads from the system what each program holds; between the last restart, with the time that programs
need to be warm, and the last kill this has to be flat (flat.py has the rule). At the end, when all is over, nothing may be left of files.
Exit 1 where one of these is not so, with its name.
"""

import argparse
import concurrent.futures
import contextlib
import functools
import http.client
import json
import os
import random
import signal
import sqlite3
import ssl
import sys
import tempfile
import threading
import time
import urllib.request

import flat
import harness
import soak_callers
import soak_jobs
from ports import free_port
from soak_book import Book
from test_gateway import CHAT, UPSTREAM_KEY, key
from test_peer_keys import Keys
from test_tls import make_certificate

# How long programs keep what is over, how often the slowest of them looks what is to go, the gateway (kSweepEvery), and how long the
# broker keeps answers to its requests without an Idempotency-Key (kUnnamedRetain).
RETAIN_S, SWEEP_S, UNNAMED_RETAIN_S = 20, 60, 120
# After this a program that began under load holds what it holds, since all that is kept has come to its end once; but for what SQLite
# has cached of a store's file, 16 MiB at most (kCacheSize), which it reads bit by bit. After LONG_S that is there, too.
WARM_S, LONG_S = max(RETAIN_S + SWEEP_S, UNNAMED_RETAIN_S) + 10, 600
CACHED_BYTES = 6 * flat.MIB
# When broker and gateway are ended, and how, in seconds from the beginning, or from the end. What lies between is looked at.
ENDS = ((5, "broker", signal.SIGKILL), (10, "gateway", signal.SIGKILL), (15, "broker", signal.SIGTERM), (20, "gateway", signal.SIGTERM))
LAST_ENDS = ((20, "broker", signal.SIGKILL), (10, "gateway", signal.SIGKILL))
REST_S = 10  # behind the time for which all is kept
SAID_MAX = 2000  # bytes of what each program's last life said last, shown where something is wrong
TABLES = {"broker/lanemq.db": ("job", "body", "result", "result_body"), "gateway/gateway.db": ("files", "batches", "answers")}
MORTAL_EVERY_S = 12  # a worker is ended
RELOAD_EVERY_S = 5  # besides those of guests

BROKER = """
secret_key = "file:{keys}/broker.key"
keys_folder = "{keys}/keys.d"
store = "sqlite:{folder}/broker/lanemq.db"
log_level = "warning"
# Whoever runs this may look at what its programs have open.
keep_cores = true
heartbeat = "3s"
drain_timeout = "2s"
retain = "{retain}s"
dead_retain = "{retain}s"
gone_max = 1000
clients_idle_max = 100
# That workers die is what this is about.
crash_max = 1000
attempts_max = 1000
"""
GATEWAY = """
broker_key = "{broker_key}"
secret_key = "file:{keys}/gate.key"
tls_certificate = "{certificate}"
tls_key = "{key}"
state = "{folder}/gateway"
log_level = "warning"
keep_cores = true
retry_grace = "1s"
idempotency_retain = "{retain}s"
batch_keep = "{retain}s"
batch_retain = "{retain}s"
drain_delay = "200ms"
drain_timeout = "2s"
"""


class Answers:
    """What the double answers, as it says when it is asked directly: equal prompts get equal answers."""

    PROMPTS = 25
    STREAMED = {"stream": True, "stream_options": {"include_usage": True}, "max_tokens": 1000}
    # A long one takes seconds.
    KINDS = {"whole": ("gpt-x", {}), "short": ("gpt-x+tokens=40+gap=5", STREAMED), "long": ("gpt-x+tokens=300+gap=5", STREAMED)}

    def __init__(self, upstream):
        chats = [(kind, prompt) for kind in self.KINDS for prompt in range(self.PROMPTS)]
        with concurrent.futures.ThreadPoolExecutor(self.PROMPTS) as pool:
            self.known = dict(zip(chats, pool.map(lambda chat: self.ask(upstream, self.body(*chat)), chats)))

    def body(self, kind, prompt):
        model, fields = self.KINDS[kind]
        return json.dumps({"model": model, "messages": [{"role": "user", "content": f"Tell of number {prompt}."}], **fields}).encode()

    def ask(self, upstream, body):
        request = urllib.request.Request(upstream + CHAT, body, {"authorization": f"Bearer {UPSTREAM_KEY}"})
        with urllib.request.urlopen(request, timeout=harness.PATIENCE) as answer:
            return answer.read()

    def one_of(self, kind, chance):
        prompt = chance.randrange(self.PROMPTS)
        return self.KINDS[kind][0], self.body(kind, prompt), self.known[kind, prompt]

    def whole(self, chance):
        """A chat's model, its body, and its answer."""
        return self.one_of("whole", chance)

    def stream(self, chance, long):
        return self.one_of("long" if long else "short", chance)


class Stage:
    """All programs, each of which can be ended and started again, and what is known of them."""

    retain_ms = RETAIN_S * 1000

    def __init__(self, room, folder, options):
        self.room, self.folder, self.seed, self.broker_program = room, folder, options.seed, options.broker
        self.book, self.processes, self.watched, self.said = Book(), {}, {}, {}
        self.changing = threading.Lock()  # who signals a program, or ends it
        for name in ("broker", "gateway"):
            os.mkdir(f"{folder}/{name}")
        self.make_keys()
        self.endpoints = harness.fixed_endpoints()
        self.gateway_address = "127.0.0.1", free_port()
        self.write("broker.toml", self.broker_config(depth_max=50_000))
        self.write_gateway_config(guest=False, limit=100_000)
        self.start_upstream()
        self.answers = Answers(self.upstream)
        for name in ("broker", "steady-1", "steady-2", "mortal", "gateway"):
            self.watched[name] = flat.Watched(name, f"{folder}/{name}" if name in ("broker", "gateway") else None)
            self.start(name)

    def make_keys(self):
        self.keys = Keys()
        for name, role in (("jobs", "client"), ("gate", "gateway"), ("work", "worker")):
            self.keys.add(name, role)
        for name in ("gate", "work"):
            self.keys.write(f"{name}.key", self.keys.pairs[name][1].decode())
        self.certificate, self.key = make_certificate(self.folder, "gateway")
        self.trust = ssl.create_default_context(cafile=self.certificate)

    # ---- configurations

    def write(self, name, text):
        path = f"{self.folder}/{name}"
        with open(path + ".new", "w") as file:
            file.write(text)
        os.rename(path + ".new", path)

    def broker_config(self, depth_max):
        lanes = "".join(f'[[lane]]\nname = "{name}"\ndepth_max = {depth_max}\ntimeout = "10m"\n{"default = true" if name == "normal" else ""}\n'
                        for name in ("critical", "high", "normal", "low", "batch"))
        return BROKER.format(folder=self.folder, keys=self.keys.room.name, retain=RETAIN_S) + lanes

    def write_gateway_config(self, guest, limit):
        config = GATEWAY.format(folder=self.folder, keys=self.keys.room.name, retain=RETAIN_S, certificate=self.certificate, key=self.key,
                                broker_key=self.keys.broker.decode())
        self.write("gateway.toml", config + key("caller", f"requests_per_minute = {limit}") + (key("guest") if guest else ""))

    # ---- programs

    def start_upstream(self):
        process = self.room.start(harness.Process(harness.program("lanemq-upstream"), "--latency-ms", "5..50", "--keys", UPSTREAM_KEY,
                                                  "--log", f"{self.folder}/calls.jsonl"))
        self.upstream_began = time.time()
        self.upstream = process.line().removeprefix("ready ").strip()
        self.processes["upstream"] = process

    def command(self, name):
        if name == "broker":
            endpoints = (word for kind, endpoint in self.endpoints.items() for word in (f"--{kind}", endpoint))
            return (harness.program(self.broker_program), "--config", f"{self.folder}/broker.toml", *endpoints)
        if name == "gateway":
            return (harness.program("lanemq-gateway"), "--config", f"{self.folder}/gateway.toml", "--broker", self.endpoints["clients"],
                    "--listen", "{}:{}".format(*self.gateway_address))
        return (harness.program("lanemq-worker"), "--broker", self.endpoints["workers"], "--broker-key", self.keys.broker.decode(),
                "--secret-key", f"file:{self.keys.room.name}/work.key", "--name", name, "--capacity", "32", "--drain-timeout", "2s",
                "--keep-cores", "true", "--log-level", "warning", "--service", "echo=echo", "--service", "sleep=echo:50ms",
                "--service", f"openai=openai:{self.upstream}/v1")

    def start(self, name):
        """Waits until it is ready."""
        process = self.room.start(harness.Process(*self.command(name), env={**os.environ, "OPENAI_API_KEY": UPSTREAM_KEY}))
        line = process.line()
        if not line.startswith("ready"):
            process.wait()
            raise AssertionError(f"{name} did not start: {line}{process.stderr()}")
        self.processes[name] = process
        self.watched[name].begins(time.monotonic())

    def end(self, name, number):
        """Kills it, or asks it to stop and looks how it ends."""
        process = self.processes[name]
        self.book.dies(name if name in ("broker", "gateway") else "worker")
        process.signal(number)
        code = process.wait(3 * harness.PATIENCE)
        self.book.count(f"{name} {'killed' if number == signal.SIGKILL else 'stopped'}")
        self.book.dies(name if name in ("broker", "gateway") else "worker")
        if code != (-number if number == signal.SIGKILL else 0):
            self.book.fault("ended", f"{name} with {code}")
        self.said[name] = f"--- {name} said:\n{process.stderr()[-SAID_MAX:]}"
        self.room.processes.remove(process)
        process.close()

    def end_and_start(self, name, number):
        with self.changing:
            self.end(name, number)
            self.start(name)

    def reload(self, name):
        with self.changing:
            self.processes[name].signal(signal.SIGHUP)
        self.book.count(f"{name} reloaded")

    def reload_broker(self):
        self.reload("broker")

    def reload_gateway(self):
        self.reload("gateway")

    def check_alive(self):
        for name, process in self.processes.items():
            if (code := process.process.poll()) is not None:
                raise AssertionError(f"{name} ended by itself with {code}")

    def look(self, now):
        for name, watched in self.watched.items():
            watched.look(self.processes[name].pid, now)

    # ---- for those who make the load

    def https(self, source=""):
        return http.client.HTTPSConnection(*self.gateway_address, timeout=harness.PATIENCE, context=self.trust, source_address=(source, 0))

    def guarded(self, work):
        """What a thread's failure says must not go by unseen."""
        def run(*arguments):
            try:
                work(*arguments)
            except Exception as error:  # whatever it is, the soak has failed
                self.book.fault("the soak itself", f"{threading.current_thread().name}: {error!r}")
                raise
        return run


class Events:
    """What is due when."""

    def __init__(self, stage, began, seconds, restarts):
        self.stage, self.chance = stage, random.Random(f"{stage.seed} events")
        times = [(began + at, *which) for at, *which in ENDS] + [(began + seconds - at, *which) for at, *which in LAST_ENDS]
        self.due = [(at, functools.partial(stage.end_and_start, *which)) for at, *which in times if restarts]
        self.repeat(began, MORTAL_EVERY_S, self.end_worker)
        self.repeat(began, RELOAD_EVERY_S, self.reload)

    def repeat(self, at, every, act):
        def do():
            act()
            self.due.append((time.monotonic() + every * self.chance.uniform(0.7, 1.3), do))
        self.due.append((at + every, do))

    def end_worker(self):
        self.stage.end_and_start("mortal", self.chance.choice((signal.SIGKILL, signal.SIGTERM)))

    def reload(self):
        self.stage.write("broker.toml", self.stage.broker_config(depth_max=self.chance.randrange(40_000, 50_000)))
        self.stage.reload_broker()
        self.stage.reload_gateway()

    def happen(self, now):
        for event in [event for event in self.due if event[0] <= now]:
            self.due.remove(event)
            event[1]()


def soak(stage, options):
    """The load, and what happens meanwhile. Returns between which times all has to be flat."""
    threads = soak_jobs.threads(stage) + soak_callers.threads(stage)
    for thread in threads:
        thread.start()
    began = tick = time.monotonic()
    events = Events(stage, began, options.seconds, options.restarts)
    try:
        while tick < began + options.seconds:
            stage.look(time.monotonic())
            stage.check_alive()
            events.happen(time.monotonic())
            tick = max(tick + 1.0, time.monotonic())
            harness.pace(tick - time.monotonic())
    except BaseException:
        stage.book.given_up.set()
        raise
    finally:
        stage.book.stopping.set()
        for thread in threads:
            thread.join(10 * harness.PATIENCE)
    for thread in threads:
        if thread.is_alive():
            stage.book.fault("the soak itself", f"{thread.name} does not end")
    if not options.restarts:
        return began + options.warm_up, began + options.seconds
    return began + ENDS[-1][0] + options.warm_up, began + options.seconds - LAST_ENDS[0][0]


def come_to_rest(stage):
    """When nobody asks for anything any more, and what was kept has had its time, nothing of it is left on the disk."""
    files, over = f"{stage.folder}/gateway/files", time.monotonic() + UNNAMED_RETAIN_S + REST_S
    try:
        harness.wait_until(lambda: time.monotonic() > over and not os.listdir(files), "the end of all files", UNNAMED_RETAIN_S + SWEEP_S + harness.PATIENCE, pause=0.5)
    except harness.Timeout:
        stage.book.fault("left behind", f"{len(os.listdir(files))} files of the gateway, {UNNAMED_RETAIN_S + SWEEP_S} s after all was over")
    for name in ("gateway", "mortal", "steady-1", "steady-2", "broker", "upstream"):
        stage.end(name, signal.SIGTERM)
    for store, tables in TABLES.items():
        with contextlib.closing(sqlite3.connect(f"file:{stage.folder}/{store}?mode=ro", uri=True)) as database:
            for table in tables:
                if rows := database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]:
                    stage.book.fault("left behind", f"{rows} rows of {table} in {store}, although all was over and no longer kept")


def report(stage, begin, end, cached_bytes):
    """The table; whether all that was looked at is flat."""
    book = stage.book
    for what, count in sorted(book.counts.items()):
        print(f"{count:9}  {what}")
    print(f"\nflat from {begin - stage.began:.0f} s to {end - stage.began:.0f} s?")
    print(f"{'program':9} {'lives':>5} {'figure':11} {'first':>9} {'last':>9} {'peak':>9} {'an hour':>9}  verdict")
    looked_at, growing = 0, []
    for name, watched in stage.watched.items():
        verdicts = watched.verdicts(begin, end, SWEEP_S, cached_bytes if watched.folder else 0)
        if not verdicts:
            print(f"{name:9} {len(watched.lives):5} peaks: " + ", ".join(f"{figure} {shown(figure, peak)}" for figure, peak in watched.peaks.items()))
        for figure, verdict in verdicts.items():
            said = {True: "flat", False: "GROWS", None: f"only {verdict.seconds:.0f} s"}[verdict.flat]
            print(f"{name:9} {len(watched.lives):5} {figure:11} {shown(figure, verdict.first):>9} {shown(figure, verdict.last):>9} "
                  f"{shown(figure, verdict.peak):>9} {shown(figure, 3600 * verdict.slope, '+'):>9}  {said}")
            looked_at += verdict.flat is not None
            if verdict.flat is False:
                growing.append(f"{name} {figure}")
    return looked_at, growing


def write_samples(stage, path):
    with open(path, "w") as file:
        for name, watched in stage.watched.items():
            for number, (_, series) in enumerate(watched.lives, 1):
                for figure, samples in series.items():
                    file.writelines(f"{name} {number} {figure} {at - stage.began:.0f} {value}\n" for at, value in samples)


def shown(figure, value, sign=""):
    unit = flat.TOLERANCES[figure].unit
    return f"{value / unit:{sign}.0f}{'K' if unit == flat.KIB else ''}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--warm-up", type=float, help="seconds behind the first restarts that are not looked at")
    parser.add_argument("--restarts", action=argparse.BooleanOptionalAction, default=True, help="broker and gateway are killed and stopped")
    parser.add_argument("--broker", default="lanemq-broker", metavar="PROGRAM")
    parser.add_argument("--samples", metavar="FILE", help="to write every figure to: program, life, figure, second and value, one a line")
    options = parser.parse_args()
    if options.warm_up is None:
        options.warm_up = LONG_S if options.seconds >= 4 * LONG_S else WARM_S
    room = harness.Room()
    with tempfile.TemporaryDirectory(prefix="lanemq-soak-") as folder:
        try:
            stage = Stage(room, folder, options)
            stage.began = time.monotonic()
            begin, end = soak(stage, options)
            come_to_rest(stage)
            answered = stage.book.check_calls(f"{folder}/calls.jsonl", stage.upstream_began)
        except BaseException:
            room.kill()
            room.show_errors()
            raise
        finally:
            room.close()
    if options.samples:
        write_samples(stage, options.samples)
    looked_at, growing = report(stage, begin, end, CACHED_BYTES if options.warm_up < LONG_S else 0)
    faults = stage.book.faults
    if faults:
        print("\n".join(stage.said.values()), file=sys.stderr)
    print("\n".join(["", *stage.book.told]))
    print(f"acknowledged {stage.book.counts['durable jobs acknowledged']} answered {stage.book.counts['durable jobs answered']} "
          f"lost {faults['lost']} answered_twice {faults['answered twice']} run_twice {faults['run twice']} seen_by_the_double {len(answered)} "
          f"wrong {faults['wrong answer']} failed {faults['failed']} faults {faults.total()} figures {looked_at} "
          f"growing {', '.join(growing) or 'none'} seed {options.seed} seconds {options.seconds:.0f}")
    return 1 if faults or growing or not looked_at else 0


if __name__ == "__main__":
    sys.exit(main())
