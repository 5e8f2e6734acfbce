# SPDX-License-Identifier: Apache-2.0
"""The programs under a service manager, of which the test is the one: what they tell it, and when they stop to feed its
watchdog."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest
import urllib.request

import harness

# A manager that is told nothing for so long ends the program.
WATCHDOG = 2.0


class Manager:
    """The socket that NOTIFY_SOCKET names."""

    def __init__(self, folder, abstract=False):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.address = f"@lanemq-test-{os.getpid()}-{id(self)}" if abstract else os.path.join(folder, "notify")
        self.socket.bind(self.address.replace("@", "\0", 1))
        self.log = []  # all messages, each as a list of lines

    def environment(self, watchdog=None, **more):
        return {**os.environ, "NOTIFY_SOCKET": self.address, **more,
                **({"WATCHDOG_USEC": str(int(watchdog * 1e6))} if watchdog else {})}

    def next(self, patience=harness.PATIENCE):
        """The lines of the next message."""
        self.socket.settimeout(patience)
        try:
            self.log.append(self.socket.recv(4096).decode().splitlines())
        except TimeoutError as late:
            raise harness.Timeout(f"a message to the manager: not within {patience} s; so far {self.log}") from late
        return self.log[-1]

    def until(self, pattern):
        """The first message with a line that matches whole."""
        while True:
            message = self.next()
            if any(re.fullmatch(pattern, line) for line in message):
                return message

    def read_all(self):
        """What has come meanwhile."""
        self.socket.setblocking(False)
        while True:
            try:
                self.log.append(self.socket.recv(4096).decode().splitlines())
            except BlockingIOError:
                return

    def said(self, start):
        """The lines so far that begin so."""
        self.read_all()
        return [line for message in self.log for line in message if line.startswith(start)]

    def is_fed(self, seconds=harness.PATIENCE):
        """Whether the watchdog is fed within that time."""
        self.read_all()
        before = len(self.said("WATCHDOG=1"))
        try:
            harness.wait_until(lambda: len(self.said("WATCHDOG=1")) > before, "food", seconds)
            return True
        except harness.Timeout:
            return False

    def close(self):
        self.socket.close()


class ServiceCase(harness.Case):
    arguments = None

    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="lanemq-service-"))

    def manager(self, abstract=False):
        manager = Manager(tempfile.mkdtemp(dir=self.folder), abstract)
        self.addCleanup(manager.close)
        return manager

    def start(self, name, *arguments, env, line=True, **options):
        process = self.room.start(harness.Process(harness.program(name), *arguments, env=env, **options))
        if line:
            process.ready_line = process.line()
            self.assertTrue(process.ready_line.startswith("ready"), process.stderr())
        return process

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path + ".new", "w") as file:
            file.write(text)
        os.rename(path + ".new", path)
        return path

    def assert_reload(self, manager, process):
        process.signal(signal.SIGHUP)
        told = manager.until("RELOADING=1")
        self.assertRegex("\n".join(told), r"(?m)^MONOTONIC_USEC=\d+$")
        manager.until("READY=1")

    def assert_stop(self, manager, process, at_least):
        process.signal(signal.SIGTERM)
        told = manager.until("STOPPING=1")
        within = next(int(line.partition("=")[2]) for line in told if line.startswith("EXTEND_TIMEOUT_USEC="))
        self.assertGreaterEqual(within / 1e6, at_least)
        self.assertEqual(process.wait(), 0)
        self.assertEqual(len(manager.said("STOPPING=1")), 1)


class Broker(ServiceCase):
    def test_it_says_each_state_when_it_has_it(self):
        for abstract in (False, True):
            with self.subTest(abstract=abstract):
                manager = self.manager(abstract)
                path = self.write("broker.toml", 'drain_timeout = "50s"\n')
                store = f"sqlite:{self.folder}/{abstract}.db"

                broker = self.room.start_broker("--config", path, store=store, env=manager.environment())
                self.assertEqual(manager.next(), ["EXTEND_TIMEOUT_USEC=120000000", "STATUS=opens the store"])
                self.assertRegex(manager.next()[0], r"^EXTEND_TIMEOUT_USEC=\d+$")
                self.assertEqual(manager.until("READY=1"), ["READY=1", "STATUS=jobs: 0 wait, 0 run; workers: 0"])
                self.room.client().ask("ping", expect="pong")
                self.assert_reload(manager, broker)
                self.assert_stop(manager, broker, 50)

                states = [line for message in manager.log for line in message if line in ("READY=1", "RELOADING=1", "STOPPING=1")]
                self.assertEqual(states, ["READY=1", "RELOADING=1", "READY=1", "STOPPING=1"])
                self.assertEqual(manager.said("WATCHDOG"), [])

    def test_one_that_cannot_bind_is_never_ready(self):
        self.room.start_broker()
        manager = self.manager()

        with self.assertRaises(harness.NotReady) as ended:
            harness.Broker(clients=self.room.broker.clients, env=manager.environment())

        self.assertEqual(ended.exception.exit_code, 3)
        self.assertEqual(manager.said("READY"), [])

    def test_a_restore_asks_for_time_before_it_is_ready(self):
        store = f"sqlite:{self.folder}/lanemq.db"
        self.room.start_broker(store=store)
        client = self.room.client()
        for number in range(3000):
            client.submit("nobody", b"x", id=f"job-{number}", lane="batch", reply="accepted")
        while client.get("accepted").fields["id"] != "job-2999":
            pass
        self.room.broker.signal(signal.SIGKILL)
        self.room.broker.wait()
        manager = self.manager()

        self.room.start_broker(store=store, env=manager.environment())

        told = [line for line in manager.until("READY=1") if line.startswith("STATUS=")]
        self.assertEqual(told, ["STATUS=jobs: 3000 wait, 0 run; workers: 0"])
        self.assertTrue(all(message[0].startswith("EXTEND_TIMEOUT_USEC=") for message in manager.log[:-1]), manager.log)

    def test_the_status_follows_what_happens(self):
        manager = self.manager()
        self.room.start_broker(env=manager.environment())
        self.room.client().submit()

        manager.until("STATUS=jobs: 1 wait, 0 run; workers: 0")
        worker = self.room.worker()
        worker.get("job")
        manager.until("STATUS=jobs: 0 wait, 1 run; workers: 1")

    def test_a_refused_reload_ends_and_is_told(self):
        manager = self.manager()
        path = self.write("broker.toml", "# nothing\n")
        broker = self.room.start_broker("--config", path, env=manager.environment())
        manager.until("READY=1")

        self.write("broker.toml", "nonsense = 1\n")
        self.assert_reload(manager, broker)
        manager.until("STATUS=.*reload was refused.*")
        self.write("broker.toml", "# nothing\n")
        self.assert_reload(manager, broker)
        manager.until("STATUS=jobs: 0 wait, 0 run; workers: 0")

    def test_the_watchdog_starves_while_the_disk_stands_still_and_only_then(self):
        manager = self.manager()
        stall = os.path.join(self.folder, "stall")
        broker = self.room.start_broker(store=f"sqlite:{self.folder}/lanemq.db", binary="lanemq-broker-failing",
                                        env=manager.environment(WATCHDOG, LANEMQ_TEST_DISK_STALLS=stall))
        manager.until("READY=1")
        client = self.room.client()
        self.assertTrue(manager.is_fed(), "an idle broker lives")
        for number in range(20):
            client.ask("submit", {"service": "nobody", "id": f"job-{number}", "lane": "batch", "reply": "accepted"}, b"x",
                       expect="accepted")
        self.assertTrue(manager.is_fed(), "a busy one does")

        open(stall, "w").close()
        client.submit("nobody", b"x", id="stalled", lane="batch", reply="accepted")
        manager.until("STATUS=.*the disk does not answer.*")
        harness.wait_until(lambda: "service.watchdog_withheld" in broker.stderr(), "the log")
        client.ask("ping", expect="pong")
        self.assertFalse(manager.is_fed(WATCHDOG), "its loop turns, its disk does not answer")

        os.unlink(stall)
        client.get("accepted")
        self.assertTrue(manager.is_fed(), "it goes on")

    def state(self, process):
        with open(f"/proc/{process.pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]

    def test_the_watchdog_starves_while_the_loop_stands_still(self):
        manager = self.manager()
        broker = self.room.start_broker(env=manager.environment(WATCHDOG))
        manager.until("READY=1")

        broker.signal(signal.SIGSTOP)
        harness.wait_until(lambda: self.state(broker) == "T", "the stop")
        manager.read_all()
        self.assertFalse(manager.is_fed(WATCHDOG))
        broker.signal(signal.SIGCONT)
        self.assertTrue(manager.is_fed())

    def test_without_a_manager_or_with_a_broken_address_all_works(self):
        for address in ("", "nonsense", "/nowhere/at/all", "@" + "x" * 200):
            with self.subTest(address=address):
                broker = self.room.start_broker(env={**os.environ, "NOTIFY_SOCKET": address, "WATCHDOG_USEC": "soon"})
                self.room.client().ask("ping", expect="pong")
                self.assertEqual("service.unheard" in broker.stderr(), address != "")
                self.assertEqual(broker.stop(), 0)


class Worker(ServiceCase):
    def test_it_is_ready_when_its_broker_has_welcomed_it(self):
        endpoints = harness.fixed_endpoints()
        manager = self.manager()
        worker = self.start("lanemq-worker", "--broker", endpoints["workers"], "--service", "echo=echo", "--drain-timeout", "40s",
                            env=manager.environment(WATCHDOG), line=False)
        waits = f"STATUS=waits for the broker at {endpoints['workers']}"
        self.assertEqual(manager.next(), [waits])
        self.assertTrue(manager.is_fed())
        self.assertEqual(manager.said("READY"), [])

        broker = self.room.start_broker(**endpoints)
        manager.until("READY=1")
        manager.until(f"STATUS=jobs: 0 run; the broker is {re.escape(endpoints['workers'])}")
        self.assert_reload(manager, worker)
        broker.kill()
        manager.until(f"STATUS=jobs: 0 run; waits for the broker at {re.escape(endpoints['workers'])}")
        self.assertTrue(manager.is_fed(), "to wait for a broker is to live")
        self.assert_stop(manager, worker, 40)

    def test_one_that_its_broker_refuses_is_never_ready(self):
        self.room.start_broker()
        manager = self.manager()
        worker = self.start("lanemq-worker", "--broker", self.room.broker.workers, "--service", "echo=echo", "--lanes", "express",
                            env=manager.environment(), line=False)

        self.assertEqual(worker.wait(), 2)
        self.assertEqual(manager.said("READY"), [])

    def test_a_reload_before_it_is_ready_tells_nothing(self):
        manager = self.manager()
        worker = self.start("lanemq-worker", "--broker", harness.fixed_endpoints()["workers"], "--service", "echo=echo",
                            env=manager.environment(), line=False)
        harness.wait_until(lambda: "worker.waiting_for_broker" in worker.stderr(), "the worker's start")

        worker.signal(signal.SIGHUP)
        harness.wait_until(lambda: "secrets.read_again" in worker.stderr(), "the reload")

        self.assertEqual(manager.said("READY") + manager.said("RELOADING"), [])


class Gateway(ServiceCase):
    def test_it_is_ready_when_it_listens_and_says_how_its_broker_is(self):
        endpoints = harness.fixed_endpoints()
        manager = self.manager()
        path = self.write("gateway.toml", 'drain_delay = "0"\ndrain_timeout = "45s"\n')
        gateway = self.start("lanemq-gateway", "--broker", endpoints["clients"], "--listen", "127.0.0.1:0", "--config", path,
                             env=manager.environment(WATCHDOG, XDG_STATE_HOME=self.folder))
        url = gateway.ready_line.removeprefix("ready ")
        self.assertEqual(manager.until("READY=1")[1],
                         f"STATUS=requests: 0 run, by 0 connections to {url}; the broker does not answer")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url + "/healthz", timeout=harness.PATIENCE) as answer:
            self.assertEqual(answer.status, 200)
        self.assertTrue(manager.is_fed())

        self.room.start_broker(**endpoints)
        manager.until("STATUS=.*; the broker answers")
        self.assert_reload(manager, gateway)
        self.write("gateway.toml", "nonsense = 1\n")
        self.assert_reload(manager, gateway)
        self.assert_stop(manager, gateway, 45)

    def test_one_that_cannot_listen_is_never_ready(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            manager = self.manager()
            gateway = self.start("lanemq-gateway", "--listen", f"127.0.0.1:{taken.getsockname()[1]}", line=False,
                                 env=manager.environment(XDG_STATE_HOME=self.folder))
            self.assertEqual(gateway.wait(), 3)
            self.assertEqual(manager.said("READY"), [])


class Units(unittest.TestCase):
    """The units as systemd reads them, on a machine where they are installed; nothing is started."""

    UNITS = pathlib.Path(__file__).resolve().parents[2] / "packaging/systemd"

    def setUp(self):
        self.assertTrue(shutil.which("systemd-analyze"), "systemd-analyze is missing: apt-get install systemd")
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="lanemq-units-"))
        self.folder, self.texts = folder, {}
        for unit in sorted(self.UNITS.glob("*.service")):
            self.texts[unit.name] = unit.read_text()
            name = unit.name.replace("@", "@openai")  # of a template an instance is read
            text = self.texts[unit.name].replace("/usr/bin/lanemq", os.path.join(os.path.abspath(harness.PROGRAMS), "lanemq"))
            pathlib.Path(self.folder, name).write_text(text)
        self.assertEqual(sorted(self.texts), ["lanemq-broker.service", "lanemq-gateway.service", "lanemq-worker@.service"])

    def analyze(self, *words):
        environment = {**os.environ, "SYSTEMD_UNIT_PATH": f"{self.folder}:"}
        done = subprocess.run(["systemd-analyze", *words], env=environment, text=True, capture_output=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def test_systemd_finds_nothing_wrong(self):
        files = [os.path.join(self.folder, name) for name in os.listdir(self.folder)]
        self.assertEqual(self.analyze("verify", "--man=no", *files), (0, ""))

    def test_a_slip_in_a_unit_would_be_found(self):
        file = pathlib.Path(self.folder, "lanemq-broker.service")
        file.write_text(file.read_text().replace("WatchdogSec=", "WatchdogSecs="))
        self.assertIn("WatchdogSecs", self.analyze("verify", "--man=no", str(file))[1])

    def test_the_exposure_is_low(self):
        for name in os.listdir(self.folder):
            with self.subTest(unit=name):
                code, text = self.analyze("security", "--offline=true", "--threshold=12", os.path.join(self.folder, name))
                self.assertEqual(code, 0, text)

    def test_exit_codes_that_another_start_would_not_change_end_the_restarts(self):
        prevents = {name: re.search(r"(?m)^RestartPreventExitStatus=(.*)$", text).group(1) for name, text in self.texts.items()}
        self.assertEqual(prevents, {"lanemq-broker.service": "2 3 4", "lanemq-gateway.service": "2 3", "lanemq-worker@.service": "2"})


if __name__ == "__main__":
    unittest.main()
