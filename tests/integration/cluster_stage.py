# SPDX-License-Identifier: Apache-2.0
"""Two brokers on one pair of servers, with all that talks to them: what the troubles of cluster_troubles.py are brought upon.

Each broker reaches the servers by proxies of its own, and has its own address. Clients and workers follow the owner when it is
ready, as a load balancer leads them; where the former owner is alive, a client and a worker stay with it until it ends."""

import os
import random
import re
import shutil
import signal
import tempfile
import threading
import time

import zmq

import harness
import kill_broker
import test_cluster
from cluster_audit import Audit
from proxy import Proxy

CLIENTS, WORKERS = 4, 3
# Of all clients together, new jobs a second: brokers, servers and proxies share the machine with those who count.
JOBS_PER_SECOND = 400
HEARTBEAT_MS = test_cluster.HEARTBEAT_MS
# How long anything may take that a table does not bound.
PATIENCE = max(40.0, 2 * harness.PATIENCE)
PARKED_AT_ONCE = 256


class Machine:
    """Where a broker runs: its name, its endpoints, its ways to the servers, and the broker while there is one."""

    def __init__(self, name, address, ports, servers):
        self.name = name
        self.endpoints = {kind: endpoint.replace("127.0.0.1", address) for kind, endpoint in ports.items()}
        self.ways = [Proxy(f"tcp://127.0.0.1:{server.port}") for server in servers]
        self.member, self.fresh = None, False

    @property
    def conninfo(self):
        hosts, ports = ",".join("127.0.0.1" for _ in self.ways), ",".join(way.port for way in self.ways)
        return f"host={hosts} port={ports} user=lanemq dbname=postgres"

    def has_become_owner(self):
        return self.fresh and not self.member.has_ended() and self.member.is_ready()

    def cut(self, how):
        """"refuse", or the directions in which nothing goes on."""
        for way in self.ways:
            if how == "refuse":
                way.refuse()
            else:
                way.swallow(*how.split())

    def heal(self):
        for way in self.ways:
            way.heal()

    def close(self):
        for way in self.ways:
            way.close()


class Book(test_cluster.Book):
    """Knows as well when the owner at each machine has last given an answer of a durable job that was not known."""

    def __init__(self, seed):
        super().__init__(seed)
        self.speaker, self.answered_by, self.attempts = None, {}, {}

    def take_answer(self, job, op, code, body):
        first = super().take_answer(job, op, code, body)
        if first and job.durable:
            self.answered_by[self.speaker] = time.monotonic()
        return first


    def take_lease(self, message):
        """A broker that stood still sends when it wakes what it had committed before. The new owner knows of that, so that its own
        hand-over is a later attempt; what a former owner decides when it wakes would be the same one twice."""
        name, attempt = message.fields.get("id"), message.fields["attempt"]
        if attempt < self.attempts.get(name, 0) and (message.fields["job"], attempt) not in self.leases:
            self.leases.add((message.fields["job"], attempt))
            self.counts["late"] += 1
            return
        self.attempts[name] = attempt
        super().take_lease(message)


class Follower:
    """A peer that is led to the owner. What a broker that stands still does not take is dropped, as by a network: clients ask
    again, and workers say all they have when they come to the next owner."""

    at, kind = None, None

    def send_frames(self, *frames):
        try:
            self.socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.Again:
            pass

    def follow(self, machine):
        if machine is self.at:
            return
        self.socket.disconnect(self.at.endpoints[self.kind])
        self.socket.connect(machine.endpoints[self.kind])
        self.at = machine


class Submitter(Follower, kill_broker.Submitter):
    kind = "clients"

    def __init__(self, stage, number):
        self.at = stage.owner
        super().__init__(stage.room, stage.book, number, batch=64 if number % 2 else 0, jobs_per_second=JOBS_PER_SECOND / CLIENTS)

    def take(self, message):
        self.book.speaker = self.at
        # Nothing was taken by a broker that does not own the store, or whose store promises too little now: ask again.
        if message.op == "error" and message.fields.get("code") in ("not_owner", "unavailable"):
            return
        super().take(message)


class Echo(Follower, kill_broker.Echo):
    kind = "workers"

    def __init__(self, stage, number):
        self.at = stage.owner
        super().__init__(stage.room, stage.book, batch=64 if number % 2 else 0)

    def follow(self, machine):
        moves = machine is not self.at
        super().follow(machine)
        if moves:
            self.introduce()


class Taker(kill_broker.Echo):
    """Takes the jobs that have waited all the time."""

    def __init__(self, stage):
        self.book, self.waiting, self.taken, self.names = stage.book, [], set(), {}
        self.introduced_at = 0.0
        harness.Worker.__init__(self, stage.room, stage.room.broker.workers, ("parked",), 1000, options=kill_broker.RECONNECT,
                                batch=PARKED_AT_ONCE)

    def take(self, message):
        if message.op == "error" and message.fields["code"] == "unknown_session":
            return self.introduce()  # it was silent for too long: the machine is busy
        harness.Worker.take(self, message)
        if message.op == "job":
            name = message.fields["id"]
            if name in self.taken:
                self.book.fault("duplicated", f"{name} was handed out after its outcome was taken")
            if message.body != b"body of " + name.encode():
                self.book.fault("unexpected", f"{name} was handed out with {message.body[:60]!r}")
            self.names[message.fields["job"], message.fields["attempt"]] = name
            self.waiting.append(message)
        elif message.op == "acked":
            self.taken.update(self.names[tuple(lease)] for lease in message.fields["jobs"])
        self.inbox.clear()

    def on_idle(self, now):
        jobs, self.waiting = self.waiting[:PARKED_AT_ONCE], self.waiting[PARKED_AT_ONCE:]
        if jobs:
            self.hand_in_all(jobs)
        wake = harness.Worker.on_idle(self, now)
        return now if self.waiting else wake


class Stage:
    """`options`: lease, queued, log of the campaign's command line."""

    def __init__(self, pair, number, seed, options):
        self.pair, self.options, self.number = pair, options, number
        self.book, self.room = Book(seed), harness.Room()
        self.random = random.Random(seed)  # of the troubles alone: how many others draw depends on the machine
        self.schema = f"act {number}"
        self.folder = tempfile.TemporaryDirectory(prefix="lanemq-campaign-")
        self.config = os.path.join(self.folder.name, "broker.toml")
        with open(self.config, "w") as file:
            file.write(kill_broker.CONFIG.format(heartbeat_ms=HEARTBEAT_MS))
        ports = harness.fixed_endpoints()
        self.machines = [Machine(name, address, ports, pair.servers)
                         for name, address in (("a", "127.0.0.1"), ("b", "127.0.0.2"))]
        self.owner, self.parked, self.peers, self.starts = self.machines[0], set(), [], 0
        self.times = []  # (what, seconds, bound or None) of this act

    def begin(self):
        self.start(self.owner)
        self.room.pump(self.owner.has_become_owner, "the first owner", PATIENCE)
        self.owner.fresh, self.room.broker = False, self.owner.member
        self.audit = Audit(self.pair, self.schema)
        self.start(self.candidate)
        self.waits(self.candidate)
        self.park()
        self.submitters = [Submitter(self, number) for number in range(CLIENTS)]
        self.echoes = [Echo(self, number) for number in range(WORKERS)]
        self.peers = [*self.submitters, *self.echoes]
        for submitter in self.submitters:
            submitter.going = True
        self.goes_on()

    @property
    def candidate(self):
        return next(machine for machine in self.machines if machine is not self.owner)

    # ---- brokers ----

    def start(self, machine):
        arguments = ("--config", self.config, "--store", f"postgres:{machine.conninfo}", "--set", f"store_schema={self.schema}",
                     "--set", f"store_lease={self.options.lease:g}s", "--set", "lane.batch.depth_max=1000000",
                     "--set", "store_replication=none")  # a standby that was promoted has none until its former primary is one
        machine.member = self.room.start(test_cluster.Member(machine.name, arguments, machine.endpoints))
        machine.fresh = True

    def waits(self, machine):
        self.room.pump(machine.member.waits, f"that {machine.name} waits", PATIENCE)

    def ends(self, machine, code, patience=PATIENCE):
        """Waits for the end of a broker, which must be so."""
        member = machine.member
        self.room.pump(member.has_ended, f"the end of {machine.name}", patience)
        if member.process.returncode != code:
            self.book.fault("unexpected", f"{machine.name} ended with {member.process.returncode}, and {code} was expected\n"
                            + member.stderr()[-3000:])
        self.starts += 1
        if self.options.log:
            with open(os.path.join(self.options.log, f"{self.number}-{self.starts}-{machine.name}.log"), "w") as file:
                file.write(member.stderr())
        self.room.processes.remove(member)
        member.close()
        machine.member, machine.fresh = None, False

    def kill(self, machine):
        machine.member.kill()
        self.ends(machine, -signal.SIGKILL)

    # ---- those who talk to them ----

    def loses_its_owner(self):
        """What clients know only as sent is in doubt from now on. Returns the time."""
        self.book.ended("kills")
        return time.monotonic()

    def follow(self, machine):
        """All go to a new owner, but for one of each who stay with a former one that is alive."""
        former = self.owner
        self.owner, machine.fresh, self.room.broker = machine, False, machine.member
        stay = (self.submitters[-1], self.echoes[-1]) if former is not machine and former.member is not None else ()
        for peer in self.peers:
            if peer not in stay:
                peer.follow(machine)

    def gather(self):
        """Nobody stays elsewhere."""
        for peer in self.peers:
            peer.follow(self.owner)

    def answered_by_another(self):
        """Waits until a broker has become the owner and has answered a durable job. Returns when."""
        def happened():
            if (machine := next((machine for machine in self.machines if machine.has_become_owner()), None)) is None:
                return False
            self.follow(machine)
            return True
        self.room.pump(happened, "a new owner", PATIENCE)
        return self.answered(time.monotonic())

    def load_seconds(self):
        """How long the owner has loaded the jobs."""
        return int(re.findall(r"store.restored .*took_ms=(\d+)", self.owner.member.stderr())[-1]) / 1000

    def answered(self, since):
        """Waits until the owner has answered a durable job after `since`. Returns when."""
        def happened():
            if self.owner.member.has_ended():
                raise AssertionError(f"the owner has ended, with {self.owner.member.process.returncode}")
            return self.book.answered_by.get(self.owner, 0) > since
        self.room.pump(happened, "an answer by the owner", PATIENCE)
        return self.book.answered_by[self.owner]

    def newest(self):
        """Of each client: its number, and how many jobs it has submitted."""
        return [(submitter.number, submitter.made) for submitter in self.submitters]

    def goes_on(self):
        """Waits until each client has the answer of a job that it submits from now on."""
        newest = self.newest()

        def happened():
            return all((job := self.book.jobs.get(f"{number}-{made + 1}")) and job.answer for number, made in newest)
        self.room.pump(happened, "the answers of new jobs", PATIENCE)

    def beside(self, work):
        """Runs what waits for a server while messages are read."""
        failed = []

        def guarded():
            try:
                work()
            except BaseException as error:  # of the thread; raised again below
                failed.append(error)
        thread = threading.Thread(target=guarded)
        thread.start()
        self.room.pump(lambda: not thread.is_alive(), "the database", 3 * PATIENCE)
        if failed:
            raise failed[0]

    # ---- jobs that wait all the time ----

    def park(self):
        """Durable jobs of a service that nobody serves yet."""
        self.parked = {f"parked-{number}" for number in range(self.options.queued)}
        client, left = self.room.client(options=kill_broker.RECONNECT), sorted(self.parked)
        fields = {"service": "parked", "lane": "batch", "reply": "accepted", "batch": PARKED_AT_ONCE}
        part, left = left[:1], left[1:]  # the first one says which batches are wanted
        while part:
            maps = [{**({} if at else fields), "id": name} for at, name in enumerate(part)]  # others inherit from the first one
            client.send_batch("submit", maps, [b"body of " + name.encode() for name in part])
            for _ in part:
                client.get("accepted", PATIENCE)
            part, left = left[:PARKED_AT_ONCE], left[PARKED_AT_ONCE:]
        client.close()

    def take_parked(self):
        """Each of them is handed out, as it was submitted, and never after its outcome was taken."""
        if not self.parked:
            return
        taker = Taker(self)
        done = -1
        while done < len(taker.taken) < len(self.parked):  # for as long as it goes on, however slow the machine is
            done = len(taker.taken)
            try:
                self.room.pump(lambda: len(taker.taken) >= len(self.parked), "the jobs that have waited all the time", PATIENCE)
            except harness.Timeout:
                pass  # each that is missing is told below
        for name in self.parked - taker.taken:
            self.book.fault("lost", f"{name} has waited all the time, and is not over: {self.submitters[0].status(name)}")
        taker.close()

    # ---- the ends ----

    def end_round(self):
        """Both brokers are there and nothing is wrong, by the word of clients, workers and database."""
        for machine in self.machines:
            machine.heal()
            if machine.member is None:
                self.start(machine)
        self.waits(self.candidate)
        self.gather()
        self.goes_on()
        for text in self.audit.faults():
            self.book.fault("audit", text)

    def finish(self):
        """Everything is answered as it must be, once, and is kept so."""
        for submitter in self.submitters:
            submitter.going = False
        try:
            self.room.pump(lambda: self.book.open == 0, "the answer of every job", max(60, PATIENCE))
        except harness.Timeout:
            pass  # each that is missing is told below
        for job in self.book.jobs.values():
            if job.answer is None and job.durable and job.acked:
                self.book.lose(job, f"it has not ended: {self.submitters[0].status(job.id)}")
            elif job.answer is None:
                self.book.fault("unexpected", f"{job.id} in lane {job.lane} got no answer")
        self.take_parked()
        kill_broker.check_balance(self.book, self.room)
        kept = kill_broker.fetch_all(self.book, self.room, self.submitters)
        for machine in (self.candidate, self.owner):
            machine.member.signal(signal.SIGTERM)
            self.ends(machine, 0)
        for text in self.audit.faults():
            self.book.fault("audit", text)
        return kept

    def show(self):
        """What the brokers have said, where something was wrong."""
        for machine in self.machines:
            if machine.member is not None:
                text = machine.member.stderr()
                print(f"--- {machine.name}:\n{text[-4000:]}", flush=True)
                if self.options.log:
                    with open(os.path.join(self.options.log, f"{self.number}-last-{machine.name}.log"), "w") as file:
                        file.write(text)
        if self.options.log:
            for server in self.pair.servers:
                shutil.copy(server.log.name, os.path.join(self.options.log, f"{self.number}-{server.name}.log"))

    def close(self):
        for machine in self.machines:
            if machine.member is not None:
                machine.member.signal(signal.SIGCONT)  # of one that stands still
        self.room.close()
        for machine in self.machines:
            machine.close()
        self.folder.cleanup()
