# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus reads the programs under load, and real faults come to a real alertmanager, by the rules of scripts/monitoring/
as they are."""

import contextlib
import http.client
import json
import os
import shutil
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse

import harness
from ports import free_port
from test_gateway import CHAT, GatewayCase, chat
from test_metrics import MONITORING, SERIES_MAX, MetricsCase

PROMETHEUS, ALERTMANAGER = (shutil.which(name) for name in ("prometheus", "prometheus-alertmanager"))
SET_CLOCK = os.path.join(harness.PROGRAMS, "set_clock.so")  # there is none where a sanitizer has to be loaded first
WITHIN_S = 12 * harness.PATIENCE  # from a fault to its alert
# How long all is read under load; 600 by hand.
SCRAPE_S = int(os.environ.get("LANEMQ_SCRAPE_SECONDS", "15"))
CALLERS = 4
MINUTE_S = 60  # the window of what `quantile` means in a metric


def asked(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=harness.PATIENCE)
    try:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError):  # it starts
        return None
    finally:
        connection.close()


def run_beside(case, folder, *command):
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    case.addCleanup(process.wait)
    case.addCleanup(process.kill)


def run_prometheus(case, folder, port):
    """By the file prometheus.yml of the folder."""
    run_beside(case, folder, PROMETHEUS, "--config.file=prometheus.yml", "--storage.tsdb.path=series", f"--web.listen-address=127.0.0.1:{port}")


@unittest.skipUnless(PROMETHEUS, "it is in Debian's package prometheus")
class Scrapes(GatewayCase):
    """Broker, worker and gateway are read once a second while callers call."""

    def setUp(self):
        self.ports = {name: free_port() for name in ("broker", "worker", "prometheus")}
        self.services = ("--service", "echo=echo", "--metrics", f"127.0.0.1:{self.ports['worker']}")
        self.room_arguments = ("--http", f"127.0.0.1:{self.ports['broker']}")
        super().setUp()
        targets = {"broker": f"127.0.0.1:{self.ports['broker']}", "worker": f"127.0.0.1:{self.ports['worker']}",
                   "gateway": ":".join(map(str, self.address()))}
        with open(os.path.join(self.folder, "prometheus.yml"), "w") as file:
            json.dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": [target]}]} for job, target in targets.items()]}, file)
        run_prometheus(self, self.folder, self.ports["prometheus"])
        harness.wait_until(lambda: set(self.ask_for("up").values()) == {1.0} and len(self.ask_for("up")) == 3, "all three are up",
                           pause=0.2, patience=3 * harness.PATIENCE)

    def ask_for(self, query, by="job"):
        """The value of each series that comes of a query, by one of its labels."""
        found = asked(self.ports["prometheus"], "/api/v1/query?query=" + urllib.parse.quote(query)) or {}
        return {row["metric"].get(by, ""): float(row["value"][1]) for row in found.get("data", {}).get("result", ())}

    def test_no_scrape_fails_and_none_grows(self):
        answered, ends = [0] * CALLERS, threading.Event()

        def call(place):
            with self.connection() as connection:
                while not ends.is_set():
                    connection.request("POST", CHAT, chat(), {"authorization": "Bearer caller"})
                    response = connection.getresponse()
                    response.read()
                    answered[place] += response.status == 200
        began = time.monotonic()
        callers = [threading.Thread(target=call, args=(place,)) for place in range(CALLERS)]
        for caller in callers:
            caller.start()
        client, echoed = self.room.client(), 0
        while time.monotonic() < began + SCRAPE_S:
            for _ in range(10):
                client.submit("echo", b"x")
            echoed += sum(client.get("result") is not None for _ in range(10))
        ends.set()
        for caller in callers:
            caller.join()
        within = f"[{int(time.monotonic() - began)}s]"
        jobs, calls = echoed + sum(answered), sum(answered)
        self.assertGreater(min(echoed, calls), 100)
        harness.wait_until(lambda: sum(self.ask_for('lanemq_lane_ended_total{how="succeeded"}', "lane").values()) == jobs,
                           f"{jobs} jobs at Prometheus", pause=0.5)
        harness.wait_until(lambda: sum(self.ask_for("lanemq_worker_calls_succeeded_total", "service").values()) == jobs,
                           f"{jobs} calls at Prometheus", pause=0.5)
        harness.wait_until(lambda: self.ask_for('lanemq_gateway_requests_total{status="200"}', "route").get("/v1/chat/completions") == calls,
                           f"{calls} requests at Prometheus", pause=0.5)

        self.assertEqual(self.ask_for(f"min_over_time(up{within})"), dict.fromkeys(("broker", "worker", "gateway"), 1))
        read = self.ask_for(f"count_over_time(up{within})")
        took = self.ask_for(f"quantile_over_time(0.99, scrape_duration_seconds{within})")
        most = self.ask_for(f"max_over_time(scrape_samples_post_metric_relabeling{within})")
        for job in read:
            self.assertGreater(read[job], 0.9 * SCRAPE_S - 2, job)
            self.assertLessEqual(most[job], SERIES_MAX, job)
        print(f"\n{SCRAPE_S} s, {jobs} jobs: " + ", ".join(
            f"{job} {read[job]:.0f} scrapes, {most[job]:.0f} samples at most, p99 {1000 * took[job]:.0f} ms" for job in sorted(read)))


class AlertsCase(MetricsCase):
    """A broker, Prometheus and an alertmanager. A scrape comes every 2 s in place of 15, since a test has less patience."""
    store = "memory"

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.ports = {name: free_port() for name in ("broker", "prometheus", "alertmanager")}
        self.endpoints = harness.fixed_endpoints()
        self.environment = dict(os.environ)
        self.faults = {}
        super().setUp()
        with open(os.path.join(MONITORING, "prometheus.yml")) as file:
            config = file.read()
        for old, new in (("5573", self.ports["broker"]), ("9093", self.ports["alertmanager"])):
            config = config.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
        config = config.replace("15s", "2s").replace("alerts.yml", os.path.join(MONITORING, "alerts.yml"))
        self.write("prometheus.yml", config)
        self.write("alertmanager.yml", "route: {receiver: nobody, group_wait: 0s}\nreceivers: [{name: nobody}]\n")
        run_beside(self, self.folder, ALERTMANAGER, "--config.file=alertmanager.yml", "--storage.path=alerts", "--cluster.listen-address=",
                   f"--web.listen-address=127.0.0.1:{self.ports['alertmanager']}")
        run_prometheus(self, self.folder, self.ports["prometheus"])
        harness.wait_until(self.scraped, "the first scrape", pause=0.2, patience=3 * harness.PATIENCE)

    def start(self):
        self.room.start_broker("--config", self.file, "--http", f"127.0.0.1:{self.ports['broker']}", store=self.store,
                               env=self.environment, **self.endpoints)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)

    def scraped(self):
        found = asked(self.ports["prometheus"], "/api/v1/query?query=lanemq_uptime_seconds") or {}
        return bool(found.get("data", {}).get("result"))

    def alerts(self):
        return {alert["labels"]["alertname"] for alert in asked(self.ports["alertmanager"], "/api/v2/alerts") or ()}

    def fault(self, *alerts):
        """It begins now, and these have to come of it."""
        self.faults |= dict.fromkeys(alerts, time.monotonic())

    def told(self, meanwhile=lambda: None):
        """Waits until all faults are told."""
        came = {}

        def all_came():
            meanwhile()
            self.room.stats()  # workers say heartbeats while somebody waits for an answer
            for alert in self.alerts() & set(self.faults) - set(came):
                came[alert] = time.monotonic() - self.faults[alert]
            return len(came) == len(self.faults)
        try:
            harness.wait_until(all_came, "alerts", pause=1, patience=WITHIN_S)
        except harness.Timeout as error:
            raise AssertionError(f"not told: {sorted(set(self.faults) - set(came))}") from error
        for alert, seconds in sorted(came.items(), key=lambda row: row[1]):
            print(f"\n{alert}: {seconds:.0f} s after the fault", end="", flush=True)
            self.assertLess(seconds, 120, alert)
        self.faults = {}


@unittest.skipUnless(PROMETHEUS and ALERTMANAGER, "they are in Debian's packages prometheus and prometheus-alertmanager")
class Faults(AlertsCase):
    config = """
[[lane]]
name = "critical"
depth_max = 2
[[lane]]
name = "normal"
default = true
[[lane]]
name = "batch"
[[budget]]
name = "api"
match.service = "ask"
keys = ["k1", "k2"]
"""

    def start(self):
        self.set_clock(0)
        if os.path.exists(SET_CLOCK):
            self.environment |= {"LD_PRELOAD": SET_CLOCK, "SET_CLOCK_FILE": os.path.join(self.folder, "clock")}
        super().start()

    def set_clock(self, seconds):
        """By how much the broker's clock is ahead of the machine's."""
        path = os.path.join(self.folder, "clock")
        with open(path, "r+b" if os.path.exists(path) else "wb") as file:  # in its place, since the broker has mapped it
            file.write(struct.pack("=q", seconds))

    def run_jobs(self, client, worker, count, seconds):
        """So many at once, each of which runs for so long."""
        for _ in range(count):
            client.submit("batch", b"x", lane="batch")
        jobs = [worker.get("job") for _ in range(count)]
        harness.pace(seconds)  # the runs themselves: what is measured is the broker's clock
        for job in jobs:
            worker.hand_in(job, body=b"y")
        for _ in range(count):
            client.get("result")

    def test_what_goes_wrong_is_told(self):
        self.assertEqual(self.alerts(), set())
        client, batch = self.room.client(), self.room.worker(["batch"], 200)
        for _ in range(200):  # one by one: of many at once the last one waits for all others, on a busy machine for long
            self.run_jobs(client, batch, 1, 0)
        usual = time.monotonic()

        gone = self.room.worker(["gone"], 1)
        for _ in range(2):
            client.submit("nobody", b"x", lane="critical")
        client.settled()
        self.fault("LanemqServiceWithoutWorker", "LanemqLaneOld", "LanemqChatWaits", "LanemqLaneRefuses", "LanemqWorkersLost")
        gone.close()  # without a word

        upstream = self.room.worker(["ask", "fails"], 4)
        self.fault("LanemqKeySpent")
        client.submit("ask", b"x", attempts_max=1)
        upstream.hand_in(upstream.get("job"), op="error", **{"class": "quota"}, code="insufficient_quota")
        upstream.hand_in(upstream.get("job"), body=b"by the other key")
        client.get("result")
        self.fault("LanemqUpstreamFails")
        for _ in range(5):
            client.submit("fails", b"x", attempts_max=1)
            upstream.hand_in(upstream.get("job"), op="error", **{"class": "retry"}, code="connect")
            client.get("error")
        if os.path.exists(SET_CLOCK):
            self.fault("LanemqClockSet")
            self.set_clock(-7200)

        def meanwhile():
            client.submit("nobody", b"x", lane="critical")
            client.settled()
            client.inbox.clear()
        self.told(meanwhile)

        harness.wait_until(lambda: time.monotonic() > usual + MINUTE_S, "the usual runs are older than a minute", pause=1,
                           patience=2 * MINUTE_S)
        self.fault("LanemqUpstreamSlow")
        self.run_jobs(client, batch, 40, 1.6)
        self.told()

        self.fault("LanemqRestarted")
        self.room.broker.kill()
        self.start()
        self.told()


@unittest.skipUnless(PROMETHEUS and ALERTMANAGER, "they are in Debian's packages prometheus and prometheus-alertmanager")
class Disk(AlertsCase):
    def setUp(self):
        self.disk = self.enterContext(tempfile.TemporaryDirectory())
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", self.disk], capture_output=True, text=True)
        if mounted.returncode != 0:
            self.skipTest(f"no small disk can be mounted here: {mounted.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "--lazy", self.disk], check=True)
        self.store = f"sqlite:{self.disk}/lanemq.db"
        super().setUp()

    config = 'store_reserve = "2MiB"\n'

    def test_a_full_disk_is_told(self):
        client = self.room.client()
        self.fault("LanemqDiskLow", "LanemqStoreTrouble")
        with open(os.path.join(self.disk, "filler"), "wb") as file, contextlib.suppress(OSError):
            while file.write(bytes(1 << 20)):
                file.flush()

        def meanwhile():
            client.submit("nobody", bytes(3000), durable=True)
            client.settled()
            client.inbox.clear()
        self.told(meanwhile)


if __name__ == "__main__":
    unittest.main()
