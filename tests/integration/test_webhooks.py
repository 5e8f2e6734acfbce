# SPDX-License-Identifier: Apache-2.0
"""The worker's handler `webhook` with real programs, and a receiver that checks signatures by itself, as the Standard
Webhooks specification tells: it shares no line with what signs."""

import base64
import hashlib
import hmac
import http.server
import json
import os
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

import harness

URL = "x-webhook-url"
CONTROL = "token-in-a-query"  # in no message and no log


def fresh_secret(size=32):
    return "whsec_" + base64.b64encode(os.urandom(size)).decode()


def is_signed(secret, headers, body):
    """As a receiver finds out; `secret` as the operator wrote it."""
    key = base64.b64decode(secret[len("whsec_"):])
    text = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body))
    wanted = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    said = [word.split(",", 1) for word in headers["webhook-signature"].split(" ")]
    fresh = abs(time.time() - int(headers["webhook-timestamp"])) < 300
    return fresh and ["v1", wanted] in said


class Receiver(http.server.ThreadingHTTPServer):
    """Answers as the path says, and keeps what it was sent."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Hook)
        self.calls = []  # (path, headers, body), whole requests alone
        self.go_on = threading.Event()  # lets the answers go on that wait
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def handle_error(self, *_):
        """Who called has hung up, which is what some tests are about."""

    def url(self, path="/ok", host="127.0.0.1"):
        return f"http://{host}:{self.server_port}{path}"

    def close(self):
        self.go_on.set()
        self.shutdown()
        self.thread.join()
        self.server_close()


class Hook(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.calls.append((self.path, self.headers, body))
        count = sum(path == self.path for path, _, _ in self.server.calls)
        getattr(self, self.path.split("?")[0].strip("/"))(count)

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def ok(self, _):
        self.answer(200, b"received")

    def third(self, count):
        self.answer(500 if count < 3 else 204)

    def silent_once(self, count):
        if count == 1:
            self.server.go_on.wait(harness.PATIENCE)
        self.answer(200)

    def refuses(self, _):
        self.answer(422, b"n" * 5000)

    def gone(self, _):
        self.answer(410)

    def redirects(self, _):
        self.answer(307, location=self.server_url("/ok"))

    def later_once(self, count):
        self.answer(429 if count == 1 else 200, **({"retry_after": "2"} if count == 1 else {}))

    def dribbles(self, _):
        self.send_response(200)
        self.send_header("content-length", "1000")
        self.end_headers()
        self.wfile.write(b"x")
        self.wfile.flush()
        self.server.go_on.wait(harness.PATIENCE)

    def huge(self, _):
        self.send_response(200)
        self.send_header("content-length", str(1 << 40))
        self.end_headers()
        try:
            while True:
                self.wfile.write(bytes(65536))
        except OSError:
            self.server.cut = True
            self.close_connection = True

    def held(self, _):
        self.server.go_on.wait(harness.PATIENCE)
        self.answer(200)

    def server_url(self, path):
        return self.server.url(path)

    def log_message(self, *_):
        pass


class Webhooks(harness.Case):
    arguments = (*harness.STEADY, "--set", "backoff_base=10ms", "--set", "breaker=false")

    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.secret = fresh_secret()
        self.receiver = Receiver()
        self.addCleanup(self.receiver.close)
        self.client = self.room.client()

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def start_worker(self, *hosts, keys="", service="hooks", sources=None, flags=(), **variables):
        sources = sources or [f"file:{self.write('secret', self.secret)}"]
        hosts = hosts or (f"http://127.0.0.1:{self.receiver.server_port}",)
        config = self.write(f"{service}.toml", f'[[service]]\nname = "{service}"\nhandler = "webhook"\nhosts = {json.dumps(hosts)}\n'
                                               f'secrets = {json.dumps(sources)}\n{keys}\n')
        worker = self.room.start(harness.Process(
            harness.program("lanemq-worker"), "--broker", self.room.broker.workers, "--config", config, "--log-level", "debug", *flags,
            env={**os.environ, **variables}))
        self.assertTrue(worker.line().startswith("ready"), worker.stderr())
        return worker

    def submit(self, url, body=b'{"type":"job.ended"}', service="hooks", **fields):
        self.client.submit(service, body, **{URL: url}, **fields)

    def ask(self, url, *arguments, **fields):
        self.submit(url, *arguments, **fields)
        return self.client.get()

    def assert_signed(self, call, secret=None):
        _, headers, body = call
        self.assertTrue(is_signed(secret or self.secret, headers, body), dict(headers))


class Calls(Webhooks):
    def test_a_secret_that_others_may_read_is_said(self):
        path = self.write("guarded", self.secret)
        for mode, said in ((0o600, False), (0o644, True), (0o666, True)):
            with self.subTest(oct(mode)):
                os.chmod(path, mode)
                worker = self.start_worker(sources=[f"file:{path}"])
                worker.signal(signal.SIGTERM)
                worker.wait()
                self.assertEqual("secret.exposed" in worker.stderr(), said, worker.stderr())
                self.assertNotIn(self.secret, worker.stderr())

    def test_a_receiver_gets_the_body_signed(self):
        self.start_worker()

        answer = self.ask(self.receiver.url(f"/ok?key={CONTROL}"), id="report 7.1")

        self.assertEqual(json.loads(answer.body)["status"], 200)
        (path, headers, body), = self.receiver.calls
        self.assertEqual((path, body), (f"/ok?key={CONTROL}", b'{"type":"job.ended"}'))
        self.assertEqual((headers["content-type"], headers["webhook-id"]), ("application/json", "report%207%2E1"))
        self.assert_signed(self.receiver.calls[0])
        self.assertFalse(is_signed(fresh_secret(), headers, body), "any secret would do")
        self.assertFalse(is_signed(self.secret, headers, body + b" "), "any body would do")

    def test_a_failed_call_comes_again_under_the_same_id(self):
        self.start_worker(keys='timeout = "2s"')
        for path, times in (("/third", 3), ("/silent_once", 2)):
            with self.subTest(path):
                self.receiver.calls.clear()
                answer = self.ask(self.receiver.url(path), id=f"of{path}")
                self.assertEqual(answer.op, "result", answer)
                self.assertEqual([headers["webhook-id"] for _, headers, _ in self.receiver.calls], [f"of{path}"] * times)
                for call in self.receiver.calls:
                    self.assert_signed(call)

    def test_what_the_receiver_does_not_want_ends(self):
        self.start_worker()
        for path, code in (("/refuses", "upstream_422"), ("/gone", "upstream_410"), ("/redirects", "upstream_307")):
            with self.subTest(path):
                self.receiver.calls.clear()
                answer = self.ask(self.receiver.url(f"{path}?key={CONTROL}"))
                self.assert_error(answer, "upstream_rejected", f"127.0.0.1:{self.receiver.server_port} answered")
                self.assertIn(code, str(answer.fields))
                self.assertNotIn(CONTROL, str(answer.fields))
                self.assertEqual([called for called, _, _ in self.receiver.calls], [f"{path}?key={CONTROL}"])
                self.assertLessEqual(len(answer.body), 1024)

    def test_retry_after_is_kept(self):
        self.start_worker()
        begun = time.monotonic()
        self.assertEqual(self.ask(self.receiver.url("/later_once")).op, "result")
        self.assertGreaterEqual(time.monotonic() - begun, 1.9)

    def test_the_rest_of_an_answer_costs_nobody_time_or_memory(self):
        self.start_worker(keys='timeout = "3s"')
        self.submit(self.receiver.url("/dribbles"), id="slow")
        self.submit(self.receiver.url("/huge"), id="huge")
        self.submit(self.receiver.url("/ok"), id="ok")
        answers = [self.client.get() for _ in range(3)]
        self.assertEqual([answer.op for answer in answers], ["result"] * 3, answers)
        lasted = {answer.fields["id"]: json.loads(answer.body)["ms"] for answer in answers}
        self.assertGreaterEqual(lasted["slow"], 2900)
        harness.wait_until(lambda: getattr(self.receiver, "cut", False), "the end of the huge answer")

    def test_the_signature_is_good_where_a_body_is_not_small_or_json(self):
        self.start_worker()
        for body in (b"", bytes(range(256)), os.urandom(1 << 20)):
            self.assertEqual(self.ask(self.receiver.url(), body).op, "result")
            self.assertEqual(self.receiver.calls[-1][2], body)
            self.assert_signed(self.receiver.calls[-1])
        self.assert_error(self.ask(self.receiver.url(), bytes((1 << 20) + 1)), "upstream_rejected", "1048577 bytes", "1048576")
        self.assertEqual(len(self.receiver.calls), 3)

    def test_tls_is_checked(self):
        certificate, key = (os.path.join(self.folder, name) for name in ("certificate.pem", "key.pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
                       check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.receiver.socket = context.wrap_socket(self.receiver.socket, server_side=True)
        port = self.receiver.server_port
        keys = "private = true"
        self.start_worker(f"localhost:{port}", f"127.0.0.1:{port}", keys=keys, flags=("--http-ca-file", certificate))
        self.start_worker(f"localhost:{port}", keys=keys, service="strict")

        self.assertEqual(self.ask(f"https://localhost:{port}/ok").op, "result")
        self.assert_signed(self.receiver.calls[0])
        for service, url in (("strict", f"https://localhost:{port}/ok"), ("hooks", f"https://127.0.0.1:{port}/ok")):
            answer = self.ask(url, service=service, attempts_max=1)
            self.assert_error(answer, "upstream_failed", "no TLS")
        self.assertEqual(len(self.receiver.calls), 1)


class Refused(Webhooks):
    def test_calls_go_nowhere_but_to_the_hosts(self):
        self.start_worker("hooks.example.com", "*.corp.example", "http://127.0.0.1:1")
        port = self.receiver.server_port
        for url, part in ((self.receiver.url(f"/ok?key={CONTROL}"), f"do not go to http://127.0.0.1:{port}: no entry of its hosts"),
                          ("https://evil.example/", "do not go to https://evil.example: "),
                          ("https://hooks.example.com.evil.example/", "do not go to"), ("https://hooks.example.com:444/", "do not go to"),
                          ("http://hooks.example.com/", "do not go to http://hooks.example.com"), ("https://corp.example/", "do not go to"),
                          ("https://hooks.example.com@evil.example/", "credentials"), ("https://u:p@hooks.example.com/", "credentials"),
                          ("file:///etc/passwd", "scheme"), ("gopher://hooks.example.com/", "scheme"),
                          ("https://hooks.example.com/\r\nx-a: b", "visible ASCII"), ("https://hooks.example.com\\@evil.example/", "visible ASCII"),
                          ("hooks.example.com", "cannot be called"), ("", "cannot be called"), ("https://h/" + 3000 * "a", "2048"), (7, URL), (None, URL)):
            with self.subTest(url):
                answer = self.ask(url)
                self.assert_error(answer, "upstream_rejected", part)
                self.assertNotIn(CONTROL, str(answer.fields))
        self.assertEqual(self.receiver.calls, [])

    def test_a_name_of_this_machine_is_no_way_in(self):
        named = f"http://localhost:{self.receiver.server_port}"
        self.start_worker(named, f"http://[::1]:{self.receiver.server_port}")
        self.assert_error(self.ask(named + "/ok"), "upstream_rejected", "localhost", "has the address", "private = true")
        self.assertEqual(self.receiver.calls, [])

        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            here = f"http://localhost:{listener.getsockname()[1]}"
            self.start_worker(here, service="silent")
            self.assert_error(self.ask(here, service="silent"), "upstream_rejected", "has the address")
            with self.assertRaises(BlockingIOError, msg="it has connected"):
                listener.accept()

        self.start_worker(named, keys="private = true", service="trusted")
        self.assertEqual(self.ask(named + "/ok", service="trusted").op, "result")
        self.assertEqual(len(self.receiver.calls), 1)

    def test_a_proxy_of_the_environment_is_not_used(self):
        proxy = Receiver()
        self.addCleanup(proxy.close)
        self.start_worker(http_proxy=proxy.url(""), HTTP_PROXY=proxy.url(""), all_proxy=proxy.url(""))
        self.assertEqual(self.ask(self.receiver.url()).op, "result")
        self.assertEqual((len(self.receiver.calls), proxy.calls), (1, []))

    def test_what_cannot_work_is_refused_at_the_start(self):
        source = f"file:{self.write('secret', self.secret)}"
        empty, short, three = (f"file:{self.write(name, text)}" for name, text in (
            ("empty", ""), ("short", fresh_secret(16)), ("three", " ".join(fresh_secret() for _ in range(3)))))
        hosts, secrets = 'hosts = ["h.example"]\n', f'secrets = ["{source}"]\n'
        for keys, part, *flags in ((secrets, "0 hosts"), (hosts, "0 secrets"), (hosts + f'secrets = ["{self.secret}"]', "never the secret itself"),
                                   (hosts + f'secrets = ["{empty}"]', "empty"), (hosts + f'secrets = ["{short}"]', "24..64 bytes"),
                                   (hosts + f'secrets = ["{three}"]', "there are 3"), ('hosts = ["*"]\n' + secrets, "is no host"),
                                   (hosts + secrets, "http_proxy", "--http-proxy", "http://127.0.0.1:9"),
                                   (hosts + secrets + 'argv = ["x"]', "argv is for the handler exec, and this is webhook")):
            with self.subTest(keys):
                config = self.write("bad.toml", f'[[service]]\nname = "h"\nhandler = "webhook"\n{keys}\n')
                done = self.room.run(harness.program("lanemq-worker"), "--config", config, "--check", *flags)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(part, done.stderr)
                for name in ("secret", "short", "three"):
                    with open(os.path.join(self.folder, name)) as file:
                        self.assertFalse([word for word in file.read().split() if word[6:] in done.stderr], "a secret is shown")


class Secrets(Webhooks):
    def test_two_secrets_sign_both_and_change_without_a_stop(self):
        other, third = fresh_secret(24), fresh_secret(64)
        path = self.write("secret", self.secret)
        worker = self.start_worker(sources=[f"file:{path}"])

        def reload(text, says):
            self.write("secret", text)
            before = worker.stderr().count("secrets.read_again")
            worker.signal(signal.SIGHUP)
            harness.wait_until(lambda: worker.stderr().count("secrets.read_again") > before, "the secrets are read again")
            self.assertIn(says, worker.stderr())
            self.assertEqual(self.ask(self.receiver.url()).op, "result")
            _, headers, body = self.receiver.calls[-1]
            self.assertEqual(len(headers["webhook-signature"].split(" ")), len([s for s in (self.secret, other, third) if
                                                                                is_signed(s, headers, body)]))
            return [is_signed(secret, headers, body) for secret in (self.secret, other, third)]

        self.assertEqual(reload(f"{other} {self.secret}\n", "secret.changed"), [True, True, False])
        self.assertEqual(reload(other, "secret.changed"), [False, True, False])
        self.assertEqual(reload("whsec_broken", "secret.kept"), [False, True, False])
        self.assertEqual(reload(third, "secret.changed"), [False, False, True])
        for secret in (self.secret, other, third):
            self.assertNotIn(secret[6:], worker.stderr())

    def test_two_sources_sign_both(self):
        other = fresh_secret()
        path = self.write("secret", self.secret)
        worker = self.start_worker(sources=["env:HOOK", f"file:{path}"], HOOK=other)
        self.assertEqual(self.ask(self.receiver.url()).op, "result")
        for secret in (self.secret, other):
            self.assert_signed(self.receiver.calls[0], secret)
        with open(f"/proc/{worker.pid}/environ") as file:
            self.assertNotIn(other[6:], file.read())


class Killed(Webhooks):
    def test_a_worker_that_is_killed_in_its_call_is_no_lost_webhook(self):
        worker = self.start_worker()
        self.submit(self.receiver.url("/held"), id="once more")
        self.room.pump(lambda: self.receiver.calls, "the call")
        worker.kill()
        self.start_worker()
        self.room.pump(lambda: len(self.receiver.calls) == 2, "the call of another worker", 3 * harness.PATIENCE)
        self.receiver.go_on.set()

        self.assertEqual(self.client.get().op, "result")
        self.assertEqual({headers["webhook-id"] for _, headers, _ in self.receiver.calls}, {"once%20more"})
        for call in self.receiver.calls:
            self.assert_signed(call)

    arguments = (*harness.QUICK, "--set", "backoff_base=10ms")


class Logs(Webhooks):
    def test_no_query_is_in_a_log(self):
        worker = self.start_worker(f"http://127.0.0.1:{self.receiver.server_port}", "http://127.0.0.1:1", "http://localhost:1",
                                   keys='timeout = "300ms"')
        for url in (self.receiver.url("/refuses"), self.receiver.url("/held"), "http://127.0.0.1:1/", "http://localhost:1/", "https://x.example/"):
            answer = self.ask(f"{url}?key={CONTROL}", attempts_max=1)
            self.assertEqual(answer.op, "error", answer)
            self.assertNotIn(CONTROL, str(answer.fields))
        self.assertIn("127.0.0.1:1", worker.stderr())
        for process in (worker, self.room.broker):
            self.assertNotIn(CONTROL, process.stderr())


if __name__ == "__main__":
    unittest.main()
