# SPDX-License-Identifier: Apache-2.0
"""The broker's metrics: what they say, whom they answer, that no client makes them grow, and that alerts, board and autoscalers
name metrics that there are."""

import http.client
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import harness
from test_admin_http import Http, SECRETS

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
MONITORING = os.path.join(ROOT, "scripts/monitoring")
PROMTOOL = shutil.which("promtool")
SERIES_MAX = 500
LANES_MAX = 16
# Names of clients that submit; 100000 by hand.
CLIENTS = int(os.environ.get("LANEMQ_CLIENT_NAMES", "3000"))
SERIES = re.compile(r'^([a-z_]+)(?:\{(.*)\})? (\S+)$')


def series_of(text):
    """The value of each series, by its name and labels."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = SERIES.match(line).groups()
        found[name, frozenset(re.findall(r'(\w+)="([^"]*)"', labels or ""))] = float(value)
    return found


def names_of(text):
    """The names of metrics as they stand in rules, queries and boards."""
    return set(re.findall(r"\blanemq_[a-z0-9_]+", text))


class MetricsCase(harness.Case):
    arguments = None
    config = ""

    def setUp(self):
        super().setUp()
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.file = os.path.join(folder, "broker.toml")
        with open(self.file, "w") as file:
            file.write(self.config)
        self.start()
        self.http = Http(self.room.broker.http)

    def start(self):
        self.room.start_broker("--config", self.file, "--http", "127.0.0.1:0", *harness.STEADY)

    def text(self, **headers):
        answer = []
        harness.wait_until(lambda: answer.append(self.http.ask("GET", "/metrics", **headers)) or answer[-1][0] != 503,
                           "the first sample", pause=0.05)
        status, headers, body = answer[-1]
        self.assertEqual(status, 200, body)
        self.assertTrue(headers["content-type"].startswith("text/plain; version=0.0.4"), headers)
        return body.decode()

    def value(self, name, **labels):
        return series_of(self.text()).get((name, frozenset(labels.items())))

    def when(self, expected, name, **labels):
        """A sample is up to a second old."""
        harness.wait_until(lambda: self.value(name, **labels) == expected, f"{name} {labels} of {expected}", pause=0.05)


class Figures(MetricsCase):
    config = """
[[lane]]
name = "high"
depth_max = 2
[[lane]]
name = "normal"
default = true
[[budget]]
name = "up"
match = { service = "ask" }
limits = { concurrency = 3, requests_per_minute = 6000 }
"""

    def test_they_follow_what_happens(self):
        client, others = self.room.client(), self.room.client()
        for i in range(5):
            client.submit("ask", b"x", id=f"j{i}")
        for i in range(4):
            others.submit("other", b"x", id=f"o{i}", lane="high")
        client.settled()
        others.settled()
        self.when(5, "lanemq_lane_jobs", lane="normal", state="queued")
        self.when(2, "lanemq_lane_refused_total", lane="high", code="lane_full")
        self.assertEqual(self.value("lanemq_service_without_worker", service="ask"), 1)
        self.assertEqual(self.value("lanemq_workers_wanted", service="ask"), 1)
        # A sample of the millisecond in which they came says 0.
        harness.wait_until(lambda: self.value("lanemq_lane_oldest_seconds", lane="normal") > 0, "an age", pause=0.05)

        # The budget feeds three at once.
        worker = self.room.worker(["ask"], 1)
        job = worker.get("job")
        self.when(3, "lanemq_workers_wanted", service="ask")
        self.assertEqual(self.value("lanemq_service_without_worker", service="ask"), 0)
        self.assertEqual(self.value("lanemq_budget_limit", budget="up", limit="concurrency"), 3)
        harness.wait_until(lambda: self.value("lanemq_budget_level", budget="up", limit="concurrency") == 2, "the place", pause=0.05)
        self.assertAlmostEqual(self.value("lanemq_budget_used_ratio", budget="up", limit="concurrency"), 1 / 3)
        worker.hand_in(job)
        client.get("result")
        self.when(1, "lanemq_lane_ended_total", lane="normal", how="succeeded")
        series = series_of(self.text())
        stats, lanes = self.http.get("/v1/stats"), {row["name"]: row for row in self.http.get("/v1/lanes")["lanes"]}
        for lane, row in lanes.items():
            of = frozenset({("lane", lane)})
            for name, key in (("wait", "wait_ms"), ("run", "run_ms")):
                self.assertEqual(series[f"lanemq_lane_{name}_seconds_count", of], row[key]["count"])
                self.assertAlmostEqual(series[f"lanemq_lane_{name}_seconds_sum", of], row[key]["sum"] / 1000)
                for quantile in ("0.5", "0.99"):
                    self.assertAlmostEqual(series[f"lanemq_lane_{name}_seconds", of | {("quantile", quantile)}],
                                           row[key]["minute"]["p" + quantile[2:].ljust(2, "0")] / 1000)
        self.assertEqual(series["lanemq_lane_accepted_total", frozenset({("lane", "normal")})], stats["lanes"]["normal"]["accepted"])
        self.assertEqual(lanes["normal"]["run_ms"]["minute"]["count"], 1)

    def test_each_counter_of_the_statistics_has_a_metric(self):
        with open(os.path.join(ROOT, "broker/http/metrics.cpp")) as file:
            table = file.read()
        missing = [name for name in self.http.get("/v1/stats")["counters"] if f'"counters.{name}"' not in table]
        self.assertEqual(missing, [])

    @unittest.skipUnless(PROMTOOL, "promtool is in Debian's package prometheus")
    def test_they_are_as_prometheus_wants_them(self):
        checked = subprocess.run([PROMTOOL, "check", "metrics"], input=self.text(), text=True, capture_output=True)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))


class Clients(MetricsCase):
    config = "metrics_clients = 2\n"

    def work(self, worker, client, name, tokens):
        client.submit("ask", b"x", client=name)
        worker.hand_in(worker.get("job"), usage={"input_tokens": tokens, "output_tokens": 0})
        client.get("result")

    def shown(self):
        return sorted(dict(key[1])["client"] for key in series_of(self.text()) if key[0] == "lanemq_client_tokens_total")

    def test_those_with_the_most_tokens_have_series_and_no_others(self):
        client, worker = self.room.client(), self.room.worker(["ask"], 1)
        self.assertEqual(self.shown(), [])
        for name, tokens in (("few", 5), ("many", 700), ("some", 30)):
            self.work(worker, client, name, tokens)
        self.when(700, "lanemq_client_tokens_total", client="many")
        self.assertEqual(self.shown(), ["many", "some"])
        client.submit("ask", b"x", client="some")
        client.submit("ask", b"x", client="some")
        worker.get("job")
        self.when(1, "lanemq_client_jobs", client="some", state="running")
        self.when(1, "lanemq_client_jobs", client="some", state="waiting")

    def test_names_that_are_made_up_add_none(self):
        client, worker = self.room.client(), self.room.worker(["ask"], 1)
        for name in ("one", "other"):
            self.work(worker, client, name, 1000)
        self.when(1000, "lanemq_client_tokens_total", client="other")
        before = set(series_of(self.text()))
        for i in range(40):  # more than the broker keeps figures of
            self.work(worker, client, f"made-up-{i}", 1)
        self.when(42, "lanemq_lane_ended_total", lane="normal", how="succeeded")
        self.assertEqual(set(series_of(self.text())), before)


class Bounds(MetricsCase):
    config = "".join(f'[[lane]]\nname = "lane-{i}"\n' for i in range(LANES_MAX - 1)) + '[[lane]]\nname = "last"\ndefault = true\n'

    def test_clients_make_no_series(self):
        client = self.room.client()
        client.submit("ask", b"x", id="first")
        client.settled()
        before = set(series_of(self.text()))
        for begin in range(0, CLIENTS, 500):
            for i in range(begin, min(begin + 500, CLIENTS)):
                client.submit("ask", b"x", client=f"client-{i}")
            client.settled()
            client.inbox.clear()  # refusals: the lane is full
        # What was asked for earlier may be a second old.
        harness.wait_until(lambda: (self.value("lanemq_lane_accepted_total", lane="last") or 0) >= min(CLIENTS, 1000), "the jobs", pause=0.05)
        after = self.text()
        self.assertEqual({key for key in set(series_of(after)) - before if key[0] != "lanemq_lane_refused_total"}, set())
        self.assertNotIn("client-", after)

    def test_as_many_lanes_as_there_may_be_and_as_many_services_as_somebody_names(self):
        plain = series_of(self.text())
        of_lanes = [key for key in plain if dict(key[1]).get("lane")]
        each = len(of_lanes) / LANES_MAX
        print(f"\n{len(plain)} series at {LANES_MAX} lanes, {each:g} a lane")
        self.assertLessEqual(len(plain) + each * (20 - LANES_MAX), SERIES_MAX)
        client = self.room.client()
        for i in range(300):
            client.submit(f"service-{i}", b"x")
        client.settled()
        named = lambda: len([name for name, _ in series_of(self.text()) if name == "lanemq_service_queued"])
        harness.wait_until(lambda: named() == 16, "the services", pause=0.05)
        self.when(300, "lanemq_lane_jobs", lane="last", state="queued")
        self.assertLessEqual(len(series_of(self.text())), SERIES_MAX)
        self.assertEqual(named(), 16)


class Keys(MetricsCase):
    config = "".join(f'[[http_key]]\nname = "{role}"\nsecret = "env:{role.upper()}"\nrole = "{role}"\n' for role in SECRETS)

    def setUp(self):
        for role, secret in SECRETS.items():
            os.environ[role.upper()] = secret
            self.addCleanup(os.environ.pop, role.upper())
        super().setUp()

    def test_a_viewer_may_scrape_and_nobody_without_a_key(self):
        self.assertIn("lanemq_uptime_seconds", self.text(authorization=f"Bearer {SECRETS['viewer']}"))
        self.assertEqual(self.http.ask("GET", "/metrics")[0], 401)
        self.assertEqual(self.http.ask("GET", "/metrics", authorization="Bearer wrong")[0], 401)


class Monitoring(unittest.TestCase):
    """The files of scripts/monitoring/."""

    @staticmethod
    def read(name):
        with open(os.path.join(MONITORING, name)) as file:
            return file.read()

    def known(self):
        """What docs/reference/metrics.md lists, which is written from the programs, and what Prometheus makes of summaries."""
        with open(os.path.join(ROOT, "docs/reference/metrics.md")) as file:
            rows = dict(re.findall(r"^\| `(lanemq_\w+)` \| (\w+) \|", file.read(), re.MULTILINE))
        self.assertGreater(len(rows), 80)
        parts = {"summary": ("_sum", "_count"), "histogram": ("_sum", "_count", "_bucket")}
        return set(rows) | {name + part for name, kind in rows.items() for part in parts.get(kind, ())}

    def test_they_name_metrics_that_there_are(self):
        for name in ("alerts.yml", "alerts_test.yml", "grafana.json", "keda.yaml", "hpa.yaml"):
            named = names_of(self.read(name))
            self.assertTrue(named, name)
            self.assertEqual(named - self.known(), set(), name)

    def test_the_board_can_be_drawn(self):
        board = json.loads(self.read("grafana.json"))
        panels = board["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        taken = set()
        for panel in panels:
            place = panel["gridPos"]
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, panel["title"])
            self.assertTrue(all(x < 24 for x, _ in cells), panel["title"])
            taken |= cells
            self.assertTrue(panel["type"] == "row" or panel["targets"], panel["title"])

    def test_each_alert_has_a_fault_that_raises_it_and_good_times(self):
        alerts = re.findall(r"- alert: (\w+)", self.read("alerts.yml"))
        self.assertGreater(len(alerts), 10)
        tested = re.findall(r"alertname: (\w+)\n\s+exp_alerts:( \[\])?", self.read("alerts_test.yml"))
        self.assertEqual(sorted(tested), sorted((alert, calm) for alert in alerts for calm in ("", " []")))
        with open(os.path.join(ROOT, "docs/operate/monitoring.md")) as file:
            self.assertEqual(re.findall(r"^\| `(Lanemq\w+)` \|", file.read(), re.MULTILINE), alerts)

    @unittest.skipUnless(PROMTOOL, "promtool is in Debian's package prometheus")
    def test_prometheus_takes_them(self):
        for words in (["check", "config", "prometheus.yml"], ["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
            done = subprocess.run([PROMTOOL, *words], cwd=MONITORING, text=True, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
