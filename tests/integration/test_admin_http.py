# SPDX-License-Identifier: Apache-2.0
"""The broker's HTTP for operators: what it serves, whom it refuses, and that neither strangers nor readers hold the broker up."""

import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import tempfile
import time
import unittest
from urllib.parse import urlsplit

import harness
from pages import text_of
from test_tls import make_certificate

SECRETS = {"viewer": "a-viewer-of-the-tests", "operator": "an-operator-of-the-tests"}


class Http:
    """At an http:// or https:// address; `certificate` is then the one that is trusted."""

    def __init__(self, url, certificate=None):
        self.at, self.certificate = urlsplit(url), certificate

    def connection(self):
        if self.at.scheme == "http":
            return http.client.HTTPConnection(self.at.hostname, self.at.port, timeout=harness.PATIENCE)
        trust = ssl.create_default_context(cafile=self.certificate)
        return http.client.HTTPSConnection(self.at.hostname, self.at.port, timeout=harness.PATIENCE, context=trust)

    def ask(self, method, path, body=None, **headers):
        """Status, header and body."""
        connection = self.connection()
        try:
            if isinstance(body, dict):
                body = json.dumps(body)
                headers.setdefault("content-type", "application/json")
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def get(self, path, status=200, **headers):
        found, _, body = self.ask("GET", path, **headers)
        assert found == status, (found, body)
        return json.loads(body)

    def post(self, path, body=None, status=200, **headers):
        found, _, text = self.ask("POST", path, body or {}, **headers)
        assert found == status, (found, text)
        return json.loads(text)

    def events(self, read=True):
        """A connection that follows the events."""
        connection = socket.create_connection((self.at.hostname, self.at.port), harness.PATIENCE)
        connection.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return connection


def next_sample(connection, rest=b""):
    """The next sample of a stream, and what came behind it."""
    while True:
        at = rest.find(b"data: ")
        end = rest.find(b"\n\n", at) if at >= 0 else -1
        if end >= 0:
            return json.loads(rest[at + 6 : end]), rest[end + 2 :]
        piece = connection.recv(65536)
        assert piece, "the stream has ended"
        rest += piece


class Open(harness.Case):
    arguments = ("--http", "127.0.0.1:0", *harness.STEADY)

    def setUp(self):
        super().setUp()
        self.http = Http(self.room.broker.http)

    def test_each_list_is_what_an_operator_gets(self):
        client, worker = self.room.client(), self.room.worker(["echo"], 1)
        client.send("submit", {"service": "echo", "id": "runs/1"}, b"x")
        worker.get("job")
        client.submit("nobody", b"y", id="waits")
        client.settled()
        operator = self.room.operator()
        volatile = {"age_ms", "heard_ms", "for_ms", "uptime_ms", "ran_ms", "queued_ms", "retain_ms", "deadline_ms"}

        def steady(value):
            if isinstance(value, dict):
                return {name: steady(one) for name, one in value.items() if name not in volatile}
            return [steady(one) for one in value] if isinstance(value, list) else value

        for verb in ("jobs", "lanes", "services", "workers", "clients", "budgets", "dead", "pauses", "config"):
            expected = operator.ask("admin", {"do": verb, "limit": 2}, expect="admin").fields
            self.assertEqual(steady(self.http.get(f"/v1/{verb}?limit=2")), steady(expected), verb)
        self.assertEqual(self.http.get("/v1/jobs/runs/1")["state"], "running")
        self.assertEqual(self.http.get("/v1/jobs/runs%2F1")["id"], "runs/1")
        self.assertEqual([job["id"] for job in self.http.get("/v1/jobs?service=nobody")["jobs"]], ["waits"])
        self.assertEqual(self.http.get("/v1/stats")["lanes"]["normal"]["queued"], 1)
        self.assertEqual(self.http.get("/v1/jobs/none", 404)["error"]["code"], "not_found")
        place = {row["key"]: row["from"] for row in self.http.get("/v1/config?limit=20")["config"]}
        self.assertEqual((place["http"], place["store_reserve"]), ("--http", "default"))

    def test_changes_go_by_the_verbs(self):
        self.assertTrue(self.http.post("/v1/pause", {"what": "lane", "name": "batch", "reason": "<b>"})["changed"])
        self.assertEqual(self.http.get("/v1/pauses")["pauses"][0]["reason"], "<b>")
        dry = self.http.post("/v1/resume", {"what": "lane", "name": "batch", "dry_run": True})
        self.assertEqual((dry["changed"], dry["dry_run"]), (True, True))
        self.assertTrue(self.http.post("/v1/resume", {"what": "lane", "name": "batch"})["changed"])
        client = self.room.client()
        client.submit("echo", b"x", id="one")
        client.settled()
        self.assertEqual(self.http.post("/v1/cancel", {"id": "one"})["state"], "cancelled")
        self.assertTrue(self.http.post("/v1/lane", {"name": "low", "setting": "depth_max", "value": "7"})["changed"])
        rows = {row["key"]: row for row in self.all_rows("config")}
        self.assertEqual((rows["lane.low.depth_max"]["value"], rows["lane.low.depth_max"]["from"]), ("7", "operator"))
        harness.wait_until(lambda: 'by="http 127.0.0.1"' in self.room.broker.stderr(), "who it was in the log")

    def all_rows(self, verb):
        rows, more = [], 0
        while more is not None:
            page = self.http.get(f"/v1/{verb}?from={more}")
            rows, more = rows + page[verb], page.get("next")
        return rows

    def test_what_is_wrong_is_refused_with_its_name(self):
        for path, body, said in (
            ("/v1/pause", {"what": "lane"}, "name"),
            ("/v1/pause", {"what": "lane", "name": 7}, "name"),
            ("/v1/pause", {"what": "lane", "name": "batch", "lane": "x"}, "lane"),
            ("/v1/pause", {"what": "lane", "name": "x" * 200}, "name"),
            ("/v1/redrive", {"limit": "7"}, "limit"),
            ("/v1/redrive", {"limit": 2**70}, "limit"),
            ("/v1/redrive", {"dry_run": 1}, "dry_run"),
            ("/v1/purge", {"do": "purge"}, "do"),
        ):
            error = self.http.post(path, body, 400)["error"]
            self.assertEqual(error["code"], "bad_request")
            self.assertIn(f'"{said}"', error["message"])
        for query, said in (("limit=x", "limit"), ("limit=0", "limit"), ("from=-1", "from"), ("what=lane", "what"), ("lane=a&lane=b", "lane")):
            self.assertIn(f'"{said}"', self.http.get(f"/v1/jobs?{query}", 400)["error"]["message"])
        for body in ("[1]", "{", '"x"', "{\"what\":\"\\ud800\"}", "[" * 10000):
            self.assertEqual(self.http.ask("POST", "/v1/pause", body, content_type="application/json")[0], 400, body[:20])
        self.assertEqual(self.http.ask("POST", "/v1/pause", "x" * 100000, content_type="application/json")[0], 413)
        self.assertEqual(self.http.ask("GET", "/v1/pause")[0], 405)
        self.assertEqual(self.http.ask("GET", "/lane/x/v1/jobs")[0], 404)

    def test_pages_of_others_and_other_names_are_refused(self):
        port = self.http.at.port
        for headers in (
            {"Host": "evil.example"},
            {"Host": f"evil.example:{port}"},
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
        ):
            for method, path in (("GET", "/v1/stats"), ("POST", "/v1/pause"), ("GET", "/v1/events")):
                self.assertEqual(self.http.ask(method, path, **headers)[0], 403, headers)
        for form in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            status = self.http.ask("POST", "/v1/pause", '{"what":"lane","name":"batch"}', content_type=form)[0]
            self.assertEqual(status, 415)
        self.assertEqual(self.http.get("/v1/pauses")["pauses"], [])
        own = self.http.ask("GET", "/v1/stats", Origin=f"http://127.0.0.1:{port}")
        self.assertEqual(own[0], 200)
        self.assertNotIn("access-control-allow-origin", {name.lower() for name in own[1]})

    def test_probes_tell_reasons(self):
        harness.wait_until(lambda: self.http.ask("GET", "/readyz")[0] == 200, "the first sample")
        self.http.post("/v1/pause", {"what": "lane", "name": "batch"})
        harness.wait_until(lambda: b"paused: lane batch" in self.http.ask("GET", "/readyz")[2], "the pause")
        worker, client = self.room.worker(["echo"], 1), self.room.client()
        client.send("submit", {"service": "echo"}, b"x")
        worker.get("job")
        self.room.broker.signal(signal.SIGTERM)
        harness.wait_until(lambda: b"draining" in self.http.ask("GET", "/readyz")[2], "the drain")
        self.assertEqual(self.http.ask("GET", "/readyz")[0], 503)
        self.assertEqual(self.http.ask("GET", "/healthz")[::2], (200, b"ok\n"))

    def test_samples_come_each_second_and_followers_may_die(self):
        followers = [self.http.events() for _ in range(20)]
        first, rest = next_sample(followers[0])
        second, rest = next_sample(followers[0], rest)
        self.assertEqual(second["number"], first["number"] + 1)
        self.assertTrue(700 <= second["at_ms"] - first["at_ms"] <= 1000 * harness.PATIENCE)
        self.assertEqual(second["stats"]["state"], "ready")
        for follower in followers[1:]:
            follower.close()
        third, rest = next_sample(followers[0], rest)
        self.assertGreater(third["number"], second["number"])
        stalled = [self.http.events() for _ in range(40)]  # they read nothing
        next_sample(followers[0], rest)
        self.assertEqual(self.http.ask("GET", "/healthz")[0], 200)
        for follower in stalled + followers[:1]:
            follower.close()

    def test_followers_have_a_bound(self):
        def one():
            follower = self.http.events()
            self.addCleanup(follower.close)
            return follower.recv(12)

        # An address has a quarter of the connections, which are as many: those beyond are closed, or refused.
        said = []
        for _ in range(70):
            try:
                said.append(one())
            except OSError:
                said.append(b"")
        self.assertLessEqual(sum(one.startswith(b"HTTP/1.1 200") for one in said), 64)
        self.assertEqual(self.room.client().ask("ping", {}, expect="pong").op, "pong")

    def test_strangers_cost_themselves(self):
        started = time.monotonic()
        for piece in (b"\0" * 1000, b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET /" + b"a" * 100000, b"LMQ1", b"POST /v1/pause HTTP/1.1\r\n"):
            with socket.create_connection((self.http.at.hostname, self.http.at.port), harness.PATIENCE) as stranger:
                try:
                    stranger.sendall(piece)
                    stranger.settimeout(0.2)
                    stranger.recv(1000)
                except OSError:
                    pass
        self.assertEqual(self.room.client().ask("ping", {}, expect="pong").op, "pong")
        self.assertEqual(self.http.ask("GET", "/healthz")[0], 200)
        self.assertLess(time.monotonic() - started, 3 * harness.PATIENCE)

    def test_the_description_has_what_there_is(self):
        described = self.http.get("/v1/openapi.json")
        harness.wait_until(lambda: self.http.ask("GET", "/metrics")[0] == 200, "the first sample")
        rows = text_of("docs/protocol/operating.md").split("| verb | needs | takes | meaning |")[1].split("\n\n")[0].splitlines()[2:]
        verbs = {row.split("|")[1].strip(" `"): row.split("|")[2:4] for row in rows}
        for verb, (needs, takes) in verbs.items():
            schema = described["paths"][f"/v1/{verb}"]["post"]["requestBody"]["content"]["application/json"]["schema"]
            names = lambda cell: {name.strip(" `") for name in cell.split(",")} - {""}
            self.assertEqual(set(schema.get("required", [])), names(needs), verb)
            self.assertEqual(set(schema["properties"]), names(needs) | names(takes), verb)
        for path, methods in described["paths"].items():
            if "get" not in methods or "{" in path:
                continue
            answer = methods["get"]["responses"]["200"]["content"]
            if "text/event-stream" in answer:
                continue  # it has no end
            status, header, body = self.http.ask("GET", path)
            self.assertTrue(header["content-type"].startswith(next(iter(answer))), path)
            if "application/json" not in answer:
                continue
            schema, document = answer["application/json"]["schema"], json.loads(body)
            self.assertIsInstance(document, dict)
            for name in schema.get("required", []):
                self.assertIn(name, document, path)
            kinds = {"array": list, "integer": int, "string": str, "object": dict}
            for name, value in schema.get("properties", {}).items():
                if name in document:
                    self.assertIsInstance(document[name], kinds[value["type"]], (path, name))


class ManyBudgets(harness.Case):
    arguments = None

    def test_a_sample_has_the_budgets_and_keys_of_all_pages(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            for budget in range(30):
                names = ", ".join(f'"key-{budget}-{key}"' for key in range(7))
                file.write(f'[[budget]]\nname = "budget-{budget}"\nmatch = {{ service = "s{budget}" }}\n')
                file.write(f"limits = {{ requests_per_minute = 100, tokens_per_minute = 1000 }}\nkeys = [{names}]\n")
            file.flush()
            self.room.start_broker("--config", file.name, "--http", "127.0.0.1:0", *harness.STEADY)
        http = Http(self.room.broker.http)
        self.assertIn("next", http.get("/v1/stats"))
        with http.events() as follower:
            stats = next_sample(follower)[0]["stats"]
        self.assertNotIn("next", stats)
        self.assertEqual(set(stats["budgets"]), {f"budget-{budget}" for budget in range(30)})
        for budget in range(30):
            self.assertEqual(set(stats["keys"][f"budget-{budget}"]), {f"key-{budget}-{key}" for key in range(7)})


class Keys(harness.Case):
    arguments = None

    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.file = os.path.join(self.folder, "broker.toml")
        self.write("viewer", "operator")
        self.http = self.begin()

    def begin(self):
        self.room.start_broker("--config", self.file, "--http", "127.0.0.1:0", *harness.STEADY)
        return Http(self.room.broker.http)

    def write(self, *roles, ends=""):
        with open(self.file, "w") as file:
            for role in roles:
                digest = hashlib.sha256(SECRETS[role].encode()).hexdigest()
                file.write(f'[[http_key]]\nname = "{role}-1"\nsha256 = "{digest}"\nrole = "{role}"\n{ends}')

    def key(self, role):
        return {"authorization": f"Bearer {SECRETS[role]}"}

    def test_a_role_is_what_its_key_may_do(self):
        pause = {"what": "lane", "name": "batch"}
        for headers in ({}, {"authorization": "Bearer wrong-wrong-wrong"}, {"authorization": "Basic eDp5"}):
            self.assertEqual(self.http.get("/v1/stats", 401, **headers)["error"]["code"], "unauthorized")
            self.http.post("/v1/pause", pause, 401, **headers)
            self.assertEqual(self.http.ask("GET", "/v1/events", **headers)[0], 401)
        self.assertEqual(self.http.get("/v1/pauses", **self.key("viewer"))["pauses"], [])
        for path, body in (("/v1/pause", pause), ("/v1/cancel", {"id": "x"}), ("/v1/reload", {}), ("/v1/purge", {"dry_run": True})):
            self.assertEqual(self.http.post(path, body, 403, **self.key("viewer"))["error"]["code"], "forbidden")
        self.assertTrue(self.http.post("/v1/pause", pause, **self.key("operator"))["changed"])
        self.assertEqual(self.http.ask("GET", "/healthz")[0], 200)
        harness.wait_until(lambda: "http key operator-1, 127.0.0.1" in self.room.broker.stderr(), "who it was in the log")
        self.assertNotIn(SECRETS["operator"], self.room.broker.stderr())

    def test_a_reload_takes_a_key_back(self):
        self.write("viewer")
        self.assertTrue(self.http.post("/v1/reload", {"dry_run": True}, **self.key("operator"))["changed"])
        self.http.get("/v1/stats", **self.key("operator"))
        self.http.post("/v1/reload", **self.key("operator"))
        harness.wait_until(lambda: self.http.ask("GET", "/v1/stats", **self.key("operator"))[0] == 401, "the key is out")
        self.http.get("/v1/stats", **self.key("viewer"))
        self.write("viewer", ends='not_after = "2020-01-01"\n')
        self.room.broker.signal(signal.SIGHUP)
        harness.wait_until(lambda: self.http.ask("GET", "/v1/stats", **self.key("viewer"))[0] == 401, "the key is over")


class Image(harness.Case):
    arguments = None

    def test_its_health_check_needs_no_key(self):
        dockerfile = pathlib.Path(__file__).parents[2].joinpath("Dockerfile").read_text()
        command = json.loads(re.search(r"^HEALTHCHECK .* CMD (.*)$", dockerfile, re.MULTILINE)[1])
        self.assertIn('"--http", "127.0.0.1:5573"', dockerfile)
        file = self.enterContext(tempfile.NamedTemporaryFile("w", suffix=".toml"))
        file.write('[[http_key]]\nname = "a"\nsha256 = "%s"\nrole = "viewer"\n' % hashlib.sha256(b"secret").hexdigest())
        file.flush()
        self.room.start_broker("--config", file.name, "--http", "127.0.0.1:0", *harness.STEADY)
        port = urlsplit(self.room.broker.http).port
        command = [word.replace("127.0.0.1/5573", f"127.0.0.1/{port}") for word in command]
        self.assertEqual(self.room.run(*command).returncode, 0)
        self.room.broker.kill()
        self.assertNotEqual(self.room.run(*command).returncode, 0)


class Encrypted(Keys):
    """The same by HTTPS, at an address that other machines reach."""

    def begin(self):
        self.certificate, key = make_certificate(self.folder, "served")
        self.room.start_broker("--config", self.file, "--http", "0.0.0.0:0", "--http-tls-certificate", self.certificate,
                               "--http-tls-key", key, *harness.STEADY)
        self.assertTrue(self.room.broker.http.startswith("https://"), self.room.broker.http)
        return Http(self.room.broker.http.replace("0.0.0.0", "127.0.0.1"), self.certificate)

    def test_http_in_the_clear_is_told_so(self):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.http.at.port, timeout=harness.PATIENCE)) as clear:
            clear.request("GET", "/v1/stats", headers=self.key("viewer"))
            answer = clear.getresponse()
            self.assertEqual(answer.status, 400)
            self.assertIn(b"https", answer.read())

    def test_a_reload_takes_a_new_certificate_and_keeps_the_old_one_where_it_is_none(self):
        old = pathlib.Path(self.certificate).read_text()
        new, _ = make_certificate(self.folder, "served")  # over it, and its key
        self.http.certificate = new
        self.room.broker.signal(signal.SIGHUP)
        harness.wait_until(lambda: self.trusts(), "the new certificate")
        self.assertNotEqual(pathlib.Path(new).read_text(), old)
        good = os.path.join(self.folder, "good.crt")
        shutil.copy(new, good)
        pathlib.Path(new).write_text("no certificate")
        self.room.broker.signal(signal.SIGHUP)
        harness.wait_until(lambda: "reload_failed" in self.room.broker.stderr(), "the refusal")
        self.http.certificate = good
        self.http.get("/v1/stats", **self.key("viewer"))

    def trusts(self):
        try:
            return self.http.ask("GET", "/healthz")[0] == 200
        except ssl.SSLError:
            return False


class Starts(unittest.TestCase):
    def refused(self, *arguments):
        room = harness.Room()
        self.addCleanup(room.close)
        with self.assertRaises(harness.NotReady) as refused:
            room.start_broker(*arguments)
        return refused.exception.exit_code, str(refused.exception)

    def test_strangers_are_not_let_in_by_mistake(self):
        code, text = self.refused("--http", "0.0.0.0:0")
        self.assertEqual(code, 2)
        self.assertIn("[[http_key]]", text)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            code, text = self.refused("--http", f"127.0.0.1:{taken.getsockname()[1]}")
        self.assertEqual(code, 3)
        self.assertIn("--http", text)
        code, text = self.refused("--http", "nonsense")
        self.assertEqual(code, 2)
        self.assertIn("ADDRESS:PORT", text)


if __name__ == "__main__":
    unittest.main()
