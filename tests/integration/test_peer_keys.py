# SPDX-License-Identifier: Apache-2.0
"""Keys of clients, gateways and workers: who gets in, what each may do, and what tenants see of each other."""

import contextlib
import datetime
import http.client
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import zmq

import harness

HERE = os.path.dirname(os.path.abspath(__file__))


class Keys:
    """A folder of keys, and the pairs of who has them."""

    def __init__(self):
        self.room = tempfile.TemporaryDirectory()
        self.folder = os.path.join(self.room.name, "keys.d")
        os.mkdir(self.folder)
        self.pairs = {}
        self.broker, secret = zmq.curve_keypair()
        self.write("broker.key", secret.decode())

    def write(self, name, text):
        path = os.path.join(self.room.name, name)
        with open(path, "w") as file:
            file.write(text + "\n")
        os.chmod(path, 0o600)  # as keygen leaves it

    def path(self, name):
        return os.path.join(self.folder, name + ".toml")

    def add(self, name, role, **says):
        self.pairs.setdefault(name, zmq.curve_keypair())
        lines = [f'public_key = "{self.pairs[name][0].decode()}"', f'role = "{role}"']
        lines += [f"{key} = {value}" for key, value in says.items()]
        with open(self.path(name) + ".new", "w") as file:
            file.write("\n".join(lines) + "\n")
        os.rename(self.path(name) + ".new", self.path(name))

    def options(self, name, broker=None):
        public, secret = self.pairs[name]
        return ((zmq.CURVE_SERVERKEY, broker or self.broker), (zmq.CURVE_PUBLICKEY, public), (zmq.CURVE_SECRETKEY, secret))

    def arguments(self):
        return ("--secret-key", f"file:{self.room.name}/broker.key", "--keys-folder", self.folder)


def today(days):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)).strftime("%Y-%m-%d")


class TableKeys(Keys):
    """Those of key_table.json."""

    def __init__(self):
        super().__init__()
        with open(os.path.join(HERE, "key_table.json")) as file:
            self.table = json.load(file)
        for name, words in self.table["roles"].items():
            kind, *end = words.split(", ")
            role, _, tenant = kind.partition(" of ")
            says = {"tenant": f'"{tenant}"'} if tenant else {}
            self.add(name, role, **says, **({"not_after": today(-2)} if end == ["expired"] else {}))
        self.taken_back = [name for name, words in self.table["roles"].items() if words.endswith("taken back")]
        self.pairs["stranger"] = zmq.curve_keypair()

    def take_back(self):
        for name in self.taken_back:
            os.remove(self.path(name))


class Table(harness.Case):
    """Each op with each key, at both doors; Node does the same (test_node.py)."""

    def setUp(self):
        self.keys = TableKeys()
        self.addCleanup(self.keys.room.cleanup)
        self.arguments = (*harness.STEADY, *self.keys.arguments())
        super().setUp()
        self.number = 0

    def peer_of(self, who, door):
        if who == "nobody":
            options = ()
        elif who == "wrong broker":
            options = self.keys.options("alice" if door == "clients" else "work", broker=zmq.curve_keypair()[0])
        else:
            options = self.keys.options(who)
        endpoint = {"clients": self.room.broker.clients, "workers": self.room.broker.workers}[door]
        return harness.Client(self.room, zmq.DEALER, endpoint, options)

    def answer(self, peer, expected):
        """What came of an op, in the table's words."""
        if expected == "nothing":
            return "nothing" if self.hears_nothing(peer, 0.05) else peer.inbox[0]
        while (message := peer.get()).op == "heartbeat":
            pass
        states = {job["state"] for job in message.fields.get("jobs", [message.fields]) if "state" in job}
        code = message.fields.get("code")
        if code == "not_found" or states == {"unknown"}:
            return "unknown"
        if code:
            return code
        return "welcome" if message.op == "welcome" else "done"

    def hears_nothing(self, peer, seconds):
        end = time.monotonic() + seconds
        while not peer.silent(max(0, end - time.monotonic())):
            if peer.inbox[0].op != "heartbeat":
                return False
            peer.inbox.popleft()
        return True

    def test_each_op_with_each_key(self):
        owner = self.peer_of("alice", "clients")
        before = [self.peer_of(who, "workers" if "worker" in self.keys.table["roles"][who] else "clients") for who in self.keys.taken_back]
        for peer, said in zip(before, (("submit", {"service": "echo", "reply": "accepted"}), ("ready", {"services": ["none"], "capacity": 1}))):
            peer.ask(*said)
        self.keys.take_back()
        self.room.broker.signal(signal.SIGHUP)
        for peer in before:  # connected before its key was taken back: told so, and then nothing
            while (said := peer.get()).op == "heartbeat":
                pass
            self.assert_error(said, "unauthorized")
        for door in ("clients", "workers"):
            rows, peers = self.keys.table[door]["ops"], self.keys.table[door]["peers"]
            open_peers = {who: self.peer_of(who, door) for who in peers}
            for op, fields, words in rows:
                for who, expected in zip(peers, words.split(), strict=True):
                    with self.subTest(door=door, op=op, fields=fields, who=who):
                        open_peers[who].send(op, self.filled(fields, owner))
                        self.assertEqual(self.answer(open_peers[who], expected), expected)
            for who in self.keys.table[door]["shut"]:
                with self.subTest(door=door, who=who):
                    peer = self.peer_of(who, door)
                    peer.socket.setsockopt(zmq.SNDTIMEO, 0)
                    with contextlib.suppress(zmq.Again):  # libzmq has heard already that the key was refused, and gave up
                        for op, fields, _ in rows:
                            peer.send(op, self.filled(fields, None))
                    self.assertTrue(peer.silent(0.4), peer.inbox)
        for peer, door in zip(before, ("clients", "workers")):
            for op, fields, _ in self.keys.table[door]["ops"]:
                peer.send(op, self.filled(fields, None))
        self.assertTrue(all(self.hears_nothing(peer, 0.2) for peer in before))
        self.assertEqual(owner.ask("ping").op, "pong")

    def filled(self, fields, owner):
        """The fields, with a job of the owner that waits for $ID."""
        text = json.dumps(fields)
        if "$ID" in text and owner is not None:
            self.number += 1
            owner.submit("echo", id=f"waits-{self.number}", reply="accepted")
            owner.get("accepted")
        return json.loads(text.replace("$ID", f"waits-{self.number}"))

    def test_seen_of_another_tenant_moves_no_stream(self):
        worker = self.room.worker(options=self.keys.options("work"))
        alice, bob = (self.peer_of(who, "clients") for who in ("alice", "bob"))
        alice.submit("echo", id="stream", stream=True)
        job = worker.get("job")
        worker.send("chunk", {"job": job.fields["job"], "attempt": job.fields["attempt"], "seq": 0}, b"piece")
        alice.get("chunk")
        unmatched = lambda: self.room.operator().ask("stats").fields["counters"]["seen_unmatched"]
        for who, count in ((bob, 1), (alice, 1)):
            who.send("seen", {"id": "stream", "seq": 0})
            who.ask("ping")
            self.assertEqual(unmatched(), count)


class PeerKeys(harness.Case):
    def setUp(self):
        self.keys = Keys()
        for name, role, says in (
            ("alice", "client", {"tenant": '"acme"'}), ("anna", "client", {"tenant": '"acme"'}),
            ("bob", "client", {"tenant": '"other"'}), ("carl", "client", {}), ("gate", "gateway", {"tenant": '"acme"'}),
            ("work", "worker", {}), ("late", "client", {"tenant": '"acme"', "not_after": today(-2)}),
            ("bound", "client", {"services": '["echo"]', "lanes": '["low"]', "depth_max": 1}),
            ("narrow", "worker", {"services": '["echo"]', "lanes": '["low"]'}),
        ):
            self.keys.add(name, role, **says)
        self.keys.pairs["stranger"] = zmq.curve_keypair()
        self.arguments = (*harness.Case.arguments, *self.keys.arguments())
        super().setUp()
        self.addCleanup(self.keys.room.cleanup)

    def client(self, name, **how):
        return self.room.client(options=self.keys.options(name), **how)

    def worker(self, name="work", **fields):
        return self.room.worker(options=self.keys.options(name), **fields)

    def reload(self):
        """Returns when the broker has read the keys again: it lets in by them from then on."""
        said = lambda: self.room.broker.stderr().count(" config.reload")
        before = said()
        self.room.broker.signal(signal.SIGHUP)
        harness.wait_until(lambda: said() > before, "a reload")

    # ---- tenants

    def test_the_same_id_is_another_job_for_each_tenant(self):
        worker = self.worker(capacity=4)
        peers = {name: self.client(name) for name in ("alice", "bob", "carl")}
        for name, peer in peers.items():
            peer.submit(id="same", body=name.encode())
        seen = {}
        for _ in peers:
            job = worker.get("job")
            seen[job.body.decode()] = (job.fields["id"], job.fields["client"])
            worker.hand_in(job, body=job.body + b"!")
        self.assertEqual(seen, {"alice": ("@acme/same", "@acme/alice"), "bob": ("@other/same", "@other/bob"), "carl": ("same", "carl")})
        for name, peer in peers.items():
            answer = peer.get("result")
            self.assertEqual((answer.fields["id"], answer.body), ("same", name.encode() + b"!"))
        self.assertEqual(self.client("anna").ask("fetch", {"id": "same"}).body, b"alice!")
        self.assertEqual(self.room.operator().ask("status", {"id": "@acme/same"}).fields["state"], "succeeded")

    def test_ids_that_the_broker_makes_are_in_the_tenants_space(self):
        alice = self.client("alice")
        alice.submit(reply="accepted")
        made = alice.get("accepted").fields["id"]
        self.assertEqual(len(made), 26)
        self.assertEqual(alice.status(made)["state"], "queued")
        self.assertEqual(self.client("bob").status(made)["state"], "unknown")

    def test_streams_are_read_by_their_tenant_alone(self):
        worker = self.worker()
        alice, anna, bob = (self.client(name) for name in ("alice", "anna", "bob"))
        alice.submit(id="stream", stream=True)
        job = worker.get("job")
        worker.send("chunk", {"job": job.fields["job"], "attempt": job.fields["attempt"], "seq": 0}, b"piece")
        self.assertEqual(alice.get("chunk").body, b"piece")
        piece = anna.ask("fetch", {"id": "stream", "from_seq": 0, "wait_ms": 1000})
        self.assertEqual((piece.op, piece.fields["id"], piece.body), ("chunk", "stream", b"piece"))
        self.assert_error(bob.ask("fetch", {"id": "stream", "from_seq": 0, "wait_ms": 1000}), "not_found")

    def test_no_peer_can_name_what_is_in_a_tenants_space(self):
        for who in ("carl", "bob"):
            for op, fields in (("status", {"id": "@acme/x"}), ("fetch", {"id": "@acme/x"}), ("cancel", {"id": "@acme/x"}),
                               ("status", {"ids": ["x", "@acme/x"]}), ("submit", {"service": "echo", "id": "@acme/x"}),
                               ("submit", {"service": "echo", "client": "@acme/alice"})):
                with self.subTest(who=who, op=op, fields=fields):
                    self.assert_error(self.client(who).ask(op, fields), "bad_request", "begins with @")

    def test_an_id_and_its_space_fit_a_name(self):
        alice = self.client("alice")
        alice.submit(id="x" * (128 - len("@acme/")), reply="accepted")
        alice.get("accepted")
        alice.submit(id="x" * (129 - len("@acme/")))
        refused = alice.get("error")
        self.assert_error(refused, "bad_request", "more than 122 bytes")
        self.assertEqual(refused.fields["id"], "x" * (129 - len("@acme/")))

    def test_a_refusal_names_the_id_as_its_sender_knows_it(self):
        alice = self.client("alice")
        for fields in ({"client": "other"}, {"group": "g" * 128}):
            with self.subTest(fields=fields):
                alice.submit(id="mine", **fields)
                self.assertEqual(alice.get("error").fields["id"], "mine")
        alice.submit(id="@acme/mine")
        self.assertNotIn("id", alice.get("error").fields)

    def test_a_tenant_takes_turns_as_one_however_many_clients_its_gateway_names(self):
        gate, bob, carl = (self.client(name) for name in ("gate", "bob", "carl"))
        for peer, ids in ((gate, range(12)), (bob, range(3)), (carl, range(3))):
            for number in ids:
                peer.submit(id=f"job-{number}", reply="accepted", **({"client": f"name-{number}"} if peer is gate else {}))
                peer.get("accepted")
        worker, order = self.worker(capacity=1), []
        for _ in range(12):
            job = worker.get("job")
            order.append(job.fields["id"].split("/")[0])
            worker.hand_in(job)
        self.assertEqual({whose: order[:9].count(whose) for whose in ("@acme", "@other")}, {"@acme": 3, "@other": 3})
        self.assertEqual(order[9:], ["@acme"] * 3)

    # ---- what a key allows

    def test_services_lanes_and_bounds_of_a_key(self):
        bound = self.client("bound")
        for fields, why in (({"service": "other", "lane": "low"}, 'service "other"'), ({"service": "echo"}, 'lane "normal"'),
                            ({"service": "echo", "lane": "critical"}, 'lane "critical"')):
            bound.send("submit", fields)
            self.assert_error(bound.get(), "forbidden", 'key "bound" does not allow ' + why)
        bound.submit(lane="low", reply="accepted")
        bound.get("accepted")
        bound.submit(lane="low")
        self.assert_error(bound.get(), "client_full", "depth_max")

    def test_a_workers_key_bounds_what_it_gets(self):
        for fields, why in (({"services": ["other"]}, 'service "other"'), ({"services": ["echo"], "lanes": ["high"]}, 'lane "high"')):
            worker = self.worker("narrow", welcome=False, **fields)
            self.assert_error(worker.get(), "bad_request", why)
        worker = self.worker("narrow", capacity=4)
        carl = self.client("carl")
        carl.submit(lane="normal", reply="accepted")
        carl.submit(lane="low", reply="accepted")
        self.assertEqual(worker.get("job").fields["lane"], "low")
        self.assertTrue(worker.silent(0.2))
        self.assertTrue(self.room.worker(("echo",), welcome=False, options=self.keys.options("carl")).silent(0.4))

    def test_a_worker_of_another_key_does_not_take_over_a_session(self):
        worker = self.worker(capacity=2)
        carl = self.client("carl")
        carl.submit(lane="low", id="held", reply="accepted")
        carl.get("accepted")
        job = worker.get("job")
        session = self.session_of(worker)
        thief = self.worker("narrow", welcome=False, session=session, resumes=True)
        self.assertNotEqual(thief.get("welcome").fields["session"], session)
        worker.hand_in(job, body=b"mine")
        self.assertEqual(carl.ask("fetch", {"id": "held", "wait_ms": 5000}).body, b"mine")

    def session_of(self, worker):
        worker.send("ready", worker.ready)
        return worker.get("welcome").fields["session"]

    def test_a_routing_id_of_ones_own_is_refused(self):
        chosen = self.room.client(options=(*self.keys.options("alice"), (zmq.ROUTING_ID, b"alice")))
        self.assert_error(chosen.ask("ping"), "unauthorized", "ROUTING_ID")

    # ---- taken back

    def test_a_key_that_is_taken_back_is_out_within_a_second(self):
        worker = self.worker(capacity=4)
        alice, anna = self.client("alice"), self.client("anna")
        alice.submit(id="stream", stream=True)
        job = worker.get("job")
        lease = {"job": job.fields["job"], "attempt": job.fields["attempt"]}
        worker.send("chunk", {**lease, "seq": 0}, b"one")
        alice.get("chunk")

        os.remove(self.keys.path("alice"))
        began = time.monotonic()
        self.reload()
        self.assert_error(alice.get(), "unauthorized", "does not count any more")
        self.assertLess(time.monotonic() - began, harness.PATIENCE / 2)  # it is told by itself; within a second where a machine has time
        worker.send("chunk", {**lease, "seq": 1}, b"two")
        alice.send("ping")
        self.assertTrue(alice.silent(0.3))
        worker.hand_in(job, body=b"")
        self.assertEqual(anna.ask("fetch", {"id": "stream", "wait_ms": 5000}).op, "result")
        self.assertTrue(self.client("alice").silent(0.3) and alice.silent(0.1))

        self.keys.add("alice", "client", tenant='"acme"')
        self.reload()
        again = self.client("alice")
        self.assertEqual(again.ask("ping").op, "pong")
        self.assertEqual(alice.ask("ping").op, "pong")

    def test_jobs_of_a_worker_whose_key_is_taken_back_go_to_others(self):
        self.keys.add("other", "worker")
        self.reload()
        worker = self.worker()
        carl = self.client("carl")
        carl.submit(id="moved")
        worker.get("job")
        other = self.worker("other")
        os.remove(self.keys.path("work"))
        self.reload()
        self.assert_error(worker.get(), "unauthorized")
        other.hand_in(other.get("job"), body=b"done")
        self.assertEqual(carl.get("result").body, b"done")

    def test_who_only_fetches_is_out_as_well(self):
        worker = self.worker()
        alice = self.client("alice")
        alice.submit(id="awaited", reply="accepted")
        alice.get("accepted")
        waits = [self.client("anna"), self.client("anna", kind=zmq.REQ)]
        for peer in waits:
            peer.send("fetch", {"id": "awaited", "wait_ms": 20000})
        job = worker.get("job")
        self.assertTrue(all(peer.silent(0.2) for peer in waits))
        os.remove(self.keys.path("anna"))
        self.reload()
        self.assert_error(waits[0].get(), "unauthorized")
        worker.hand_in(job, body=b"secret")
        self.assertEqual(self.client("alice").ask("fetch", {"id": "awaited", "wait_ms": 5000}).body, b"secret")
        self.assertTrue(all(peer.silent(0.2) for peer in waits))

    def test_a_role_that_changes_counts_for_open_connections(self):
        carl = self.client("carl")
        carl.ask("ping")
        worker = self.worker()
        self.keys.add("carl", "worker")
        self.keys.add("work", "client")
        self.reload()
        self.assert_error(worker.get(), "unauthorized")
        worker.send("ready", worker.ready)
        self.assert_error(carl.ask("status", {"id": "x"}), "unauthorized", "another role")
        self.assertTrue(worker.silent(0.2))

    def test_a_worker_whose_key_allows_less_has_to_introduce_itself_again(self):
        worker = self.worker(services=("echo", "other"))
        self.keys.add("work", "worker", services='["echo"]')
        self.reload()
        self.assert_error(worker.get(), "unauthorized")
        worker.say_heartbeat()
        self.assert_error(worker.get(), "unknown_session")
        worker.send("ready", worker.ready)
        self.assert_error(worker.get(), "bad_request", 'service "other"')
        worker.send("ready", {**worker.ready, "services": ["echo"]})
        worker.get("welcome")

    def test_a_key_whose_time_is_over_goes_by_itself(self):
        soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=2)
        self.keys.add("short", "client", not_after=soon.strftime("%Y-%m-%dT%H:%M:%SZ"))
        self.reload()
        short = self.client("short")
        self.assertEqual(short.ask("ping").op, "pong")
        short.submit(id="waits", reply="both")
        short.get("accepted")
        self.assert_error(short.get(), "unauthorized")

    def test_a_folder_that_says_nonsense_changes_nothing(self):
        with open(self.keys.path("broken"), "w") as file:
            file.write('public_key = "short"\nrole = "client"\n')
        os.remove(self.keys.path("carl"))
        carl = self.client("carl")
        carl.ask("ping")
        self.reload()
        self.assertEqual(carl.ask("ping").op, "pong")
        self.assertIn("config.reload_failed", self.errors_until("reload_failed"))
        self.assertEqual(self.client("carl").ask("ping").op, "pong")

    def test_a_folder_that_has_lost_all_keys_changes_nothing(self):
        for name in os.listdir(self.keys.folder):
            os.remove(os.path.join(self.keys.folder, name))
        carl = self.client("carl")
        carl.ask("ping")
        self.reload()
        self.assertIn("has no key any more", self.errors_until("reload_failed"))
        self.assertEqual(carl.ask("ping").op, "pong")
        self.assertEqual(self.client("bob").ask("ping").op, "pong")

    def test_a_change_of_a_key_is_told_by_what_differs(self):
        self.keys.add("carl", "gateway", tenant='"acme"', services='["echo"]')
        self.reload()
        said = self.errors_until("config.reloaded")
        for change in ("key=keys_folder/carl.role from=client to=gateway", "key=keys_folder/carl.tenant", "key=keys_folder/carl.services"):
            self.assertIn(change, said)
        self.assertNotIn("keys_folder/bob", said)
        self.assertNotIn("carl.public_key", said)

    def test_another_secret_of_the_broker_counts_after_a_restart_which_is_told(self):
        self.keys.write("broker.key", zmq.curve_keypair()[1].decode())
        self.reload()
        said = self.errors_until("config.reloaded")
        self.assertIn('config.needs_restart key="secret_key (its content)"', said)
        self.assertNotIn(self.keys.broker.decode(), said)
        self.assertEqual(self.client("carl").ask("ping").op, "pong")

    def errors_until(self, word):
        harness.wait_until(lambda: word in self.room.broker.stderr(), word)
        return self.room.broker.stderr()


class Costs(harness.Case):
    """Whose word on a job's cost counts. A job that costs more than a limit is refused at once."""

    JSON = json.dumps({"model": "m", "prompt": list(range(2000)), "max_tokens": 1}).encode()

    def setUp(self):
        self.keys = Keys()
        self.addCleanup(self.keys.room.cleanup)
        for name, role, says in (("plain", "client", {}), ("sure", "client", {"trust_cost": "true"}), ("gate", "gateway", {})):
            self.keys.add(name, role, **says)
        self.arguments = (*harness.Case.arguments, *self.keys.arguments(), "--set", "budget.api.tokens_per_minute=1000")
        super().setUp()
        self.peers = {name: self.room.client(options=self.keys.options(name)) for name in ("plain", "sure", "gate")}

    def answer(self, name, body=JSON, **more):
        cost = {"input_tokens": 1, "output_tokens": 1, **more}
        asked = {"service": "echo", "reply": "accepted", "cost": cost}
        answer = self.peers[name].ask("submit", asked, body)
        return answer.fields.get("code", answer.op)

    def test_a_client_that_states_too_little_is_estimated(self):
        self.assertEqual(self.answer("plain"), "unsatisfiable")
        self.assertEqual(self.answer("plain", certain=3), "unsatisfiable", "its key does not say so")
        self.assertEqual(self.answer("plain", body=b"what is no JSON"), "accepted")
        self.assertEqual(self.answer("plain", body=b"what is no JSON", input_tokens=2000), "unsatisfiable")

    def test_the_word_of_a_gateway_and_of_a_trusted_key_counts(self):
        self.assertEqual(self.answer("gate"), "accepted")
        self.assertEqual(self.answer("sure"), "accepted")
        self.assertEqual(self.answer("sure", input_tokens=2000), "unsatisfiable")

    def test_a_reload_gives_the_right_to_open_connections(self):
        self.assertEqual(self.answer("plain"), "unsatisfiable")
        self.keys.add("plain", "client", trust_cost="true")
        self.assertEqual(self.room.operator().ask("admin", {"do": "reload"}).op, "admin")
        self.assertEqual(self.answer("plain"), "accepted")


class Adoption(harness.Case):
    """After a restart workers hold on to jobs that they name; those with keys, to jobs that they could have got."""

    arguments = None

    def setUp(self):
        self.keys = Keys()
        self.keys.add("all", "worker")
        self.keys.add("narrow", "worker", services='["echo"]', lanes='["low"]')
        self.keys.add("carl", "client")
        super().setUp()
        self.addCleanup(self.keys.room.cleanup)
        self.endpoints = harness.fixed_endpoints()

    def start(self):
        self.room.start_broker("--store", f"sqlite:{self.keys.room.name}/store.db", "--set", "heartbeat=500ms",
                               *self.keys.arguments(), **self.endpoints)

    def peer(self, name, services=None):
        options = self.keys.options(name)
        return self.room.client(options=options) if services is None else self.room.worker(services, 4, options=options)

    def test_a_worker_adopts_no_job_that_its_key_does_not_allow(self):
        self.start()
        worker, carl = self.peer("all", ("echo", "other")), self.peer("carl")
        leases = {}
        for service, lane in (("other", "low"), ("echo", "normal"), ("echo", "low")):
            carl.submit(service, id=f"{service} {lane}", lane=lane, durable=True, reply="accepted")
            carl.get("accepted")
            job = worker.get("job")
            leases[job.fields["id"]] = {"job": job.fields["job"], "attempt": job.fields["attempt"]}
        self.room.broker.kill()
        worker.close()
        carl.close()
        self.start()
        narrow, carl = self.peer("narrow", ("echo",)), self.peer("carl")
        narrow.say_heartbeat([[lease["job"], lease["attempt"]] for lease in leases.values()])
        for lease in leases.values():
            narrow.send("result", lease, b"an answer")
        self.assertEqual(carl.ask("fetch", {"id": "echo low", "wait_ms": 10000}).body, b"an answer")
        for job in ("other low", "echo normal"):
            self.assertNotEqual(carl.ask("status", {"id": job}).fields["state"], "succeeded", job)


class Programs(harness.Case):
    """The programs show their keys."""

    def setUp(self):
        self.keys = Keys()
        for name, role in (("cli", "client"), ("gate", "gateway"), ("work", "worker")):
            self.keys.add(name, role)
            self.keys.write(f"{name}.key", self.keys.pairs[name][1].decode())
        self.keys.write("stranger.key", zmq.curve_keypair()[1].decode())
        self.arguments = (*harness.Case.arguments, *self.keys.arguments())
        super().setUp()
        self.addCleanup(self.keys.room.cleanup)

    def shown(self, name):
        return ("--broker-key", self.keys.broker.decode(), "--secret-key", f"file:{self.keys.room.name}/{name}.key")

    def start(self, program, *arguments):
        process = self.room.start(harness.Process(harness.program(program), *arguments))
        return process, process.line()

    def run_cli(self, *arguments):
        done = subprocess.run([harness.program("lanemq"), "--broker", self.room.broker.clients, *arguments],
                              capture_output=True, text=True, input="hello")
        return done.returncode, done.stdout, done.stderr

    def test_worker_and_command_line_work_and_say_what_is_wrong(self):
        self.start("lanemq-worker", "--broker", self.room.broker.workers, *self.shown("work"), "--service", "echo=echo")
        self.assertEqual(self.run_cli(*self.shown("cli"), "submit", "--service", "echo", "-"), (0, "hello", ""))
        for arguments, said in (
            (self.shown("stranger"), "does not take this key"), (self.shown("work"), "does not take this key"),
            ((), "asks for keys"), (self.shown("cli")[:2], "needs a secret key"), (self.shown("cli")[2:], "needs the broker's public key"),
        ):
            with self.subTest(arguments=arguments):
                code, _, words = self.run_cli(*arguments, "ping")
                self.assertIn(code, (1, 2))
                self.assertIn(said, words)

    def test_check_shows_its_keys_and_says_what_is_wrong_with_them(self):
        def check(*arguments):
            code, words, errors = self.run_cli(*arguments, "--admin", self.room.broker.admin, "check", "ready", "version", "clock", "--json",
                                               "--workers", self.room.broker.workers)
            return code, {found["says"]: found["state"] for found in json.loads(words)["checks"]} if words else errors

        for name in ("cli", "gate") * 5:  # a look at the workers' endpoint races with the broker
            code, found = check(*self.shown(name))
            self.assertEqual((code, set(found.values()), len(found)), (0, {"fine"}, 5), found)
        code, found = check(*self.shown("stranger"))
        self.assertEqual(code, 2)
        self.assertEqual([severity for says, severity in found.items() if "does not take this key" in says], ["critical"], found)
        code, found = check()  # what it asks is asked of the operators' endpoint
        self.assertEqual((code, set(found.values()), len(found)), (0, {"fine"}, 5), found)
        self.assertTrue(any("asks for keys" in says for says in found), found)
        code, said = check("--broker-key", self.keys.broker.decode(), "--secret-key", "file:/nowhere")
        self.assertEqual(code, 2)
        self.assertIn("/nowhere", said)

    def test_who_has_no_key_asks_as_an_operator_on_the_brokers_machine(self):
        self.assertEqual(self.run_cli(*self.shown("cli"), "submit", "--no-wait", "--id", "j", "--service", "nobody", "-")[0], 0)
        operator = ("--admin", self.room.broker.admin)
        for command, said in (("ping", "pong"), ("stats", "LANE"), ("explain j", "nobody"), ("status j", "j queued"), ("limits", ""),
                              ("cancel j", "j cancelled"), ("check store", "store")):
            with self.subTest(command=command):
                # Named by a variable: typed alone it would be asked all the same.
                done = subprocess.run([harness.program("lanemq"), *command.split()], capture_output=True, text=True,
                                      env={**os.environ, "LANEMQ_BROKER": self.room.broker.clients, "LANEMQ_ADMIN": self.room.broker.admin})
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(said, done.stdout)
                if not command.startswith("check"):
                    self.assertIn(f"asking as an operator at {self.room.broker.admin}", done.stderr)
        # Who shows a key that is not taken hears that.
        code, _, words = self.run_cli(*self.shown("stranger"), *operator, "stats")
        self.assertEqual(code, 1)
        self.assertIn("does not take this key", words)

    def test_a_bench_ends_when_its_key_is_taken_back(self):
        self.start("lanemq-worker", "--broker", self.room.broker.workers, *self.shown("work"), "--service", "echo=echo")
        bench = self.room.start(harness.Process(harness.program("lanemq"), "--broker", self.room.broker.clients, *self.shown("cli"),
                                                "bench", "--service", "echo", "--count", "1000000"))
        asker = self.room.client(options=self.keys.options("gate"))
        harness.wait_until(lambda: asker.ask("stats").fields["lanes"]["normal"]["succeeded"] > 100, "some jobs")
        os.remove(self.keys.path("cli"))
        self.room.broker.signal(signal.SIGHUP)
        self.assertEqual(bench.wait(), 1)

    def test_a_worker_that_is_refused_says_so_and_comes_when_its_key_counts(self):
        public, secret = zmq.curve_keypair()
        self.keys.write("late.key", secret.decode())
        worker = self.room.start(harness.Process(harness.program("lanemq-worker"), "--broker", self.room.broker.workers,
                                                 *self.shown("late"), "--service", "echo=echo"))
        harness.wait_until(lambda: "broker.key_refused" in worker.stderr(), "the worker's complaint")
        self.keys.pairs["late"] = (public, secret)
        self.keys.add("late", "worker")
        self.room.broker.signal(signal.SIGHUP)
        self.assertTrue(worker.line().startswith("ready "))
        self.assertLess(worker.stderr().count("broker.key_refused"), 3)

    def test_a_worker_without_a_key_says_so_at_each_start_and_so_does_the_broker(self):
        for start in range(5):
            with self.subTest(start=start):
                worker = self.room.start(harness.Process(harness.program("lanemq-worker"), "--broker", self.room.broker.workers,
                                                         "--service", "echo=echo"))
                harness.wait_until(lambda: "the broker asks for keys, and this worker has none" in worker.stderr(), "its complaint")
                if start < 4:
                    worker.kill()
        said = harness.wait_until(lambda: [line for line in self.room.broker.stderr().splitlines() if "shows no key" in line],
                                  "the broker's line")
        self.assertRegex(said[0], r'peer.key_refused door=workers address=(127\.0\.0\.1|"local or gone") reason="shows no key"')
        asker = self.room.client(options=self.keys.options("gate"))
        self.assertGreater(asker.ask("stats").fields["counters"]["keys_refused"], 0)

    def test_the_gateways_own_key_is_not_its_callers(self):
        worker = self.room.worker(("openai",), options=self.keys.options("work"))
        for name, status in (("stranger", 503), ("gate", 200)):
            with self.subTest(key=name):
                _, line = self.start("lanemq-gateway", "--broker", self.room.broker.clients, *self.shown(name), "--listen", "127.0.0.1:0")
                port = int(line.rsplit(":", 1)[1].split("/")[0].split()[0])
                answered = []
                thread = threading.Thread(target=lambda: answered.append(self.post(port)))
                thread.start()
                if status == 200:
                    worker.hand_in(worker.get("job"), body=b'{"ok": true}')
                thread.join(harness.PATIENCE)
                self.assertEqual(answered[0][0], status)
                if status == 503:
                    self.assertIn(b"does not take this gateway's key", answered[0][1])

    def post(self, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=harness.PATIENCE)
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
        connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
        response = connection.getresponse()
        answer = response.status, response.read()
        connection.close()
        return answer


class Start(unittest.TestCase):
    """What `--check` says of keys."""

    def check(self, *arguments):
        done = subprocess.run([harness.program("lanemq-broker"), "--store", "memory", "--check", *arguments], capture_output=True, text=True)
        return done.returncode, done.stderr

    def test_mistakes_are_named(self):
        keys = Keys()
        self.addCleanup(keys.room.cleanup)
        secret, folder = keys.arguments()[1], keys.folder
        keys.add("alice", "client")
        public = keys.pairs["alice"][0].decode()
        self.assertEqual(self.check(*keys.arguments(), "--clients", "tcp://0.0.0.0:*"), (0, ""))
        self.assertIn("set them (lanemq keygen makes keys)", self.check("--clients", "tcp://0.0.0.0:*")[1])
        for arguments, said in (
            (("--secret-key", secret), "keys_folder is not"), (("--keys-folder", folder), "secret_key is not"),
            (("--secret-key", "env:NONE", "--keys-folder", folder), "the environment has no NONE"),
            (("--secret-key", f"file:{keys.path('alice')}", "--keys-folder", folder), "control characters"),
            (("--secret-key", secret, "--keys-folder", "/nowhere"), "keys_folder /nowhere cannot be read"),
        ):
            with self.subTest(arguments=arguments):
                code, words = self.check(*arguments)
                self.assertEqual(code, 2)
                self.assertIn(said, words)
                self.assertNotIn(public, words)
        for text, said in (
            ("", "public_key is missing"), ('public_key = "x"', "public_key is no key"),
            (f'public_key = "{public}"\nrole = "client"', 'the public key of key "alice"'),
            (f'public_key = "{public}"', "role is missing"), (f'public_key = "{public}"\nrole = "king"', 'role "king"'),
            (f'public_key = "{public}"\nrole = "client"\ntenant = "a/b"', 'tenant "a/b"'),
            (f'public_key = "{public}"\nrole = "worker"\ntenant = "a"', "workers serve all tenants"),
            (f'public_key = "{public}"\nrole = "client"\nlanes = ["none"]', 'no lane "none"'),
            (f'public_key = "{public}"\nrole = "client"\nnot_after = "2027"', "must be a date, such as 2027-01-31"),
            (f'public_key = "{public}"\nrole = "client"\nservice = "x"', 'services'),
            (f'public_key = "{public}"\nrole = "client"\nservices = []', 'services is empty'),
            ("#" * (64 * 1024), "that is no key"),
            (f'public_key = "{zmq.curve_keypair()[0].decode()}"\nrole = "client"\nlane_max = "none"', 'no lane "none"'),
            (f'public_key = "{zmq.curve_keypair()[0].decode()}"\nrole = "worker"\ndepth_max = 1', "a worker's key has no client"),
            (f'public_key = "{zmq.curve_keypair()[0].decode()}"\nrole = "worker"\ntrust_cost = true', "a worker's key submits no jobs"),
        ):
            with self.subTest(text=text):
                with open(keys.path("zoe"), "w") as file:
                    file.write(text + "\n")
                code, words = self.check(*keys.arguments())
                self.assertEqual(code, 2)
                self.assertIn(said, words)
                if "lane_max" not in text:
                    self.assertIn("zoe.toml", words)
        os.remove(keys.path("zoe"))
        os.mkfifo(keys.path("pipe"))
        self.assertEqual(self.check(*keys.arguments())[0], 2)
        os.remove(keys.path("pipe"))
        for path, mode in ((keys.path("alice"), 0o666), (keys.folder, 0o1777)):
            before = os.stat(path).st_mode
            os.chmod(path, mode)
            code, words = self.check(*keys.arguments())
            self.assertEqual(code, 2)
            self.assertIn(f"{path}: may be written by everybody", words)
            os.chmod(path, before)
        keys.add("ever", "client", not_after="9999-12-31")
        self.assertEqual(self.check(*keys.arguments()), (0, ""))


class NoKeys(harness.Case):
    """A broker without keys."""

    def test_a_worker_with_a_key_says_so_at_each_start_and_so_does_the_broker(self):
        keys = Keys()
        self.addCleanup(keys.room.cleanup)
        keys.write("work.key", zmq.curve_keypair()[1].decode())
        for start in range(5):
            with self.subTest(start=start):
                worker = self.room.start(harness.Process(
                    harness.program("lanemq-worker"), "--broker", self.room.broker.workers, "--broker-key", keys.broker.decode(),
                    "--secret-key", f"file:{keys.room.name}/work.key", "--service", "echo=echo"))
                harness.wait_until(lambda: "the broker asks for no keys, and this worker shows one" in worker.stderr(), "its complaint")
                if start < 4:
                    worker.kill()
        harness.wait_until(lambda: 'reason="shows a key, and the broker has none"' in self.room.broker.stderr(), "the broker's line")


if __name__ == "__main__":
    unittest.main()
