# SPDX-License-Identifier: Apache-2.0
"""TLS of the gateway: what it speaks and what not, how a certificate is renewed, and what strangers do to handshakes."""

import contextlib
import datetime
import hashlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

import harness
import test_gateway
from test_gateway import CALLER_KEY, CHAT, chat

KEYS = '[[key]]\nname = "caller"\nsecret = "env:CALLER_SECRET"\n'


def openssl(*words, **options):
    return subprocess.run(["openssl", *words], capture_output=True, text=True, check=True, timeout=60, **options)


def make_certificate(folder, name, days=90, kind=("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")):
    """A certificate that signs itself, and its key; their paths."""
    certificate, key = (os.path.join(folder, f"{name}.{end}") for end in ("crt", "key"))
    openssl("req", "-x509", *kind, "-nodes", "-keyout", key, "-out", certificate, "-days", str(days), "-subj", f"/CN={name}",
            "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost")
    return certificate, key


class TlsCase(test_gateway.GatewayCase):
    config = KEYS
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")

    def setUp(self):
        made = self.enterContext(tempfile.TemporaryDirectory())
        self.certificates = made
        self.certificate, self.key = make_certificate(made, "one", kind=self.kind)
        self.flags = (*type(self).flags, "--tls-certificate", self.certificate, "--tls-key", self.key)
        super().setUp()

    def ready(self, process):
        line = process.line()
        self.assertTrue(line.startswith("ready http"), line + process.stderr())
        return line.removeprefix("ready ").strip()

    def trust(self, **settings):
        context = ssl.create_default_context(cafile=self.certificate)
        for name, value in settings.items():
            setattr(context, name, value)
        return context

    def connection(self, base=None, source=""):
        if (base or self.base).startswith("http://"):
            return super().connection(base, source)
        return contextlib.closing(http.client.HTTPSConnection(*self.address(base), timeout=harness.PATIENCE, context=self.trust(),
                                                              source_address=(source, 0)))

    def tls(self, context=None):
        connection = (context or self.trust()).wrap_socket(self.raw(), server_hostname="localhost")
        self.addCleanup(connection.close)
        return connection


class Serving(TlsCase):
    def test_requests_streams_and_large_bodies_go_through(self):
        self.assertTrue(self.base.startswith("https://127.0.0.1:"))
        harness.wait_until(lambda: self.ask("GET", "/readyz").status == 200, "the gateway to be ready")
        whole = self.ask("POST", CHAT, chat())
        self.assertEqual(whole.status, 200, whole.body)
        self.assertIn("choices", whole.json())
        stream = self.ask("POST", CHAT, chat("gpt-x+tokens=50", stream=True))
        self.assertTrue(stream.body.endswith(b"data: [DONE]\n\n"), stream.body[-100:])
        self.assertEqual(self.ask("POST", CHAT, chat(), {"authorization": "Bearer wrong"}).status, 401)
        # Megabytes in many records, both ways: what the echo of a job gives back is what was sent.
        text = os.urandom(1_500_000).hex()
        large = self.ask("POST", CHAT, json.dumps({"model": "gpt-x", "messages": [{"role": "user", "content": text}]}))
        self.assertEqual(large.status, 200, large.body[:300])
        self.assertEqual(self.metric("lanemq_gateway_tls_handshakes_failed_total"), 0)
        self.assertGreaterEqual(self.metric("lanemq_gateway_tls_handshakes_total"), 5)

    def test_a_request_may_come_byte_by_byte_and_several_in_one_record(self):
        connection = self.tls()
        request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
        for byte in request:
            connection.sendall(bytes([byte]))
        self.assertIn(b"200 OK", connection.recv(4096))
        connection.sendall(request * 20)
        seen = self.read_until(connection, lambda seen: seen.count(b"\r\n\r\nok\n") == 20)
        self.assertEqual(seen.count(b"HTTP/1.1 200 OK"), 20)
        # More ahead than is read while a request is served: none is lost, none is held up for ever.
        connection.sendall(request * 4000)
        self.read_until(connection, lambda seen: seen.count(b"\r\n\r\nok\n") == 4000)

    def test_a_slow_reader_gets_all_of_a_long_answer(self):
        connection = self.tls()
        body = chat("gpt-x+tokens=20000", stream=True)
        connection.sendall(f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {CALLER_KEY}\r\n"
                           f"connection: close\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
        seen = bytearray()
        while piece := connection.recv(3000):
            seen += piece
            if len(seen) % 7 == 0:
                harness.pace(0.001)  # the reader is slow: that is what is looked at
        self.assertTrue(seen.endswith(b"0\r\n\r\n"), bytes(seen[-80:]))
        self.assertIn(b"data: [DONE]", seen[-200:])

    def test_a_caller_that_closes_tls_has_left(self):
        connection = self.tls()
        body = chat("gpt-x+hold")
        connection.sendall(f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {CALLER_KEY}\r\n"
                           f"content-length: {len(body)}\r\n\r\n{body}".encode())
        self.room.stats_when(lambda stats: stats["lanes"]["normal"]["running"] == 1, "the call")
        with contextlib.suppress(OSError):
            connection.unwrap()
        connection.close()
        self.room.stats_when(lambda stats: stats["lanes"]["normal"]["running"] == 0, "the end of the call")

    def test_http_without_tls_is_told_so_and_anything_else_is_closed(self):
        with super(TlsCase, self).connection(self.base.replace("https", "http")) as connection:
            connection.request("POST", CHAT, "x" * 100_000, {"authorization": f"Bearer {CALLER_KEY}"})
            answer = test_gateway.Answer(connection.getresponse())
        self.assertEqual((answer.status, answer.headers["connection"]), (400, "close"))
        self.assertIn("use https://", answer.json()["error"]["message"])
        for noise in (b"\x00\x01\x02", b"\xff" * 64, b"SSH-2.0-x\r\n", b"get / http\r\n"):
            connection = self.raw()
            connection.sendall(noise)
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(4096):
                    pass
        self.when_metric("lanemq_gateway_tls_handshakes_failed_total", 5)
        self.assertEqual(self.ask("POST", CHAT, chat()).status, 200)

    def test_check_looks_at_what_is_served(self):
        def check(*words, **environment):
            done = subprocess.run([harness.program("lanemq"), "check", *words, "--json"], capture_output=True, text=True,
                                  env={**os.environ, **environment}, timeout=60)
            return done.returncode, {row["check"]: row for row in json.loads(done.stdout)["checks"]}

        code, found = check("gateway", "certificate", "--gateway", self.base, SSL_CERT_FILE=self.certificate)
        self.assertEqual(code, 0, found)
        self.assertRegex(found["certificate"]["says"], "good for (89|90) days")
        code, found = check("gateway", "certificate", "--gateway", self.base)
        self.assertEqual(code, 1, found)
        self.assertIn("does not trust it: self-signed certificate", found["certificate"]["says"])
        code, found = check("gateway", "--gateway", self.base.replace("https", "http"))
        self.assertEqual(code, 2, found)
        self.assertIn("use https://", found["gateway"]["says"])
        code, found = check("gateway", "--gateway", self.base.replace("127.0.0.1", "localhost"), SSL_CERT_FILE=self.certificate)
        self.assertEqual(code, 0, found)
        code, found = check("gateway", "--gateway", self.upstream.replace("http", "https"))
        self.assertEqual(code, 2, found)
        self.assertIn("no TLS is spoken there", found["gateway"]["says"])


class Rules(TlsCase):
    """What `openssl s_client` gets, by version and cipher. `SECLEVEL=0` lets this side offer what nobody should take."""

    # Offer, and the version and cipher that come of it; none: the handshake fails.
    TABLE = (
        (("-tls1_3",), "TLSv1.3", "TLS_AES_"),
        (("-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256"), "TLSv1.3", "TLS_AES_128_GCM_SHA256"),
        (("-tls1_3", "-ciphersuites", "TLS_AES_256_GCM_SHA384"), "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
        (("-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"), "TLSv1.3", "TLS_CHACHA20_POLY1305_SHA256"),
        (("-tls1_3", "-ciphersuites", "TLS_AES_128_CCM_8_SHA256"), None, None),
        (("-tls1_2",), "TLSv1.2", "ECDHE-ECDSA-"),
        (("-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"), "TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (("-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384"), "TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        (("-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"), "TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        (("-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA256"), None, None),  # CBC
        (("-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA"), None, None),
        (("-tls1_2", "-cipher", "AES128-GCM-SHA256"), None, None),  # no forward secrecy
        (("-tls1_2", "-cipher", "DHE-RSA-AES128-GCM-SHA256"), None, None),
        (("-tls1_2", "-cipher", "aNULL:@SECLEVEL=0"), None, None),  # no authentication
        (("-tls1_2", "-cipher", "eNULL:@SECLEVEL=0"), None, None),  # no encryption
        (("-tls1_2", "-cipher", "PSK:@SECLEVEL=0"), None, None),
        (("-tls1_1", "-cipher", "ALL:@SECLEVEL=0"), None, None),
        (("-tls1", "-cipher", "ALL:@SECLEVEL=0"), None, None),
        (("-alpn", "http/1.1"), "TLSv1.3", "TLS_AES_"),
        (("-alpn", "h2,http/1.1"), "TLSv1.3", "TLS_AES_"),
        (("-alpn", "h2"), None, None),
        (("-groups", "X25519"), "TLSv1.3", "TLS_AES_"),
        (("-groups", "P-256"), "TLSv1.3", "TLS_AES_"),
        (("-groups", "P-521"), None, None),
    )

    def handshake(self, *offer):
        done = subprocess.run(["openssl", "s_client", "-connect", "{}:{}".format(*self.address()), *offer], input="", capture_output=True,
                              text=True, timeout=60)
        agreed = re.search(r"^New, (TLSv[\d.]+), Cipher is (\S+)$", done.stdout, re.MULTILINE)
        version, cipher = agreed.groups() if agreed else (None, None)
        if cipher == "(NONE)" or done.returncode != 0:
            version = cipher = None
        alpn = re.search(r"^ALPN protocol: (.*)$", done.stdout, re.MULTILINE)
        return version, cipher, alpn and alpn[1], done.stdout + done.stderr

    def test_versions_and_ciphers_are_those_of_the_table(self):
        for offer, version, cipher in self.TABLE:
            with self.subTest(offer=offer):
                got = self.handshake(*offer)
                self.assertEqual(got[0], version, got[3])
                if cipher:
                    self.assertTrue(got[1].startswith(cipher), got[1])
                if version and "-alpn" in offer:
                    self.assertEqual(got[2], "http/1.1")
        self.assertEqual(self.ask("POST", CHAT, chat()).status, 200)

    def test_a_session_is_resumed_and_not_renegotiated(self):
        path = os.path.join(self.certificates, "session")
        where = ("-connect", "{}:{}".format(*self.address()))
        # The ticket of TLS 1.3 comes behind the handshake, so that an answer is waited for.
        request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        for words, said in ((("-sess_out", path), "New, TLS"), (("-sess_in", path), "Reused, TLS")):
            done = subprocess.run(["openssl", "s_client", *where, "-ign_eof", *words], input=request, capture_output=True, text=True, timeout=60)
            self.assertIn(said, done.stdout)
            self.assertIn("HTTP/1.1 200 OK", done.stdout)
        done = subprocess.run(["openssl", "s_client", *where, "-tls1_2"], input="R\n", capture_output=True, text=True, timeout=60)
        self.assertNotIn("HTTP/1.1", done.stdout)
        self.assertRegex(done.stdout + done.stderr, "(?i)no.renegotiation|renegotiation")


class RulesOfRsa(Rules):
    kind = ("-newkey", "rsa:2048")
    TABLE = (
        (("-tls1_3",), "TLSv1.3", "TLS_AES_"),
        (("-tls1_2",), "TLSv1.2", "ECDHE-RSA-"),
        (("-tls1_2", "-cipher", "ECDHE-RSA-AES256-GCM-SHA384"), "TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384"),
        (("-tls1_2", "-cipher", "AES128-GCM-SHA256"), None, None),  # no forward secrecy
        (("-tls1_2", "-cipher", "DHE-RSA-AES128-GCM-SHA256"), None, None),
        (("-tls1_1", "-cipher", "ALL:@SECLEVEL=0"), None, None),
    )


class Renewal(TlsCase):
    def read_again(self, expected):
        before = self.gateway.stderr().count(expected)
        self.gateway.signal(signal.SIGHUP)
        harness.wait_until(lambda: self.gateway.stderr().count(expected) > before, expected)

    def served(self):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return ssl.DER_cert_to_PEM_cert(self.tls(context).getpeercert(binary_form=True))

    def put(self, *paths):
        for made, place in zip(paths, (self.certificate, self.key)):
            os.replace(made, place)

    def test_a_new_certificate_counts_for_new_connections_and_old_ones_go_on(self):
        running = self.tls()
        first = self.served()
        self.put(*make_certificate(self.certificates, "two", days=10))
        self.read_again("config.reloaded")
        self.assertNotEqual(self.served(), first)
        running.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        self.assertIn(b"200 OK", running.recv(4096))
        self.assertRegex(self.gateway.stderr(), r"warning tls\.certificate ends=.*renew it")
        self.assertEqual(self.ask("POST", CHAT, chat()).status, 200)

    def make_certificate_of_tomorrow(self, request, key):
        """`openssl ca` alone takes the time from which one is valid."""
        place = lambda name: os.path.join(self.certificates, name)
        pathlib.Path(place("index")).touch()
        pathlib.Path(place("ca.cnf")).write_text(
            f"[ca]\ndefault_ca=d\n[d]\ndatabase={place('index')}\nrand_serial=yes\ndefault_md=sha256\npolicy=p\nnew_certs_dir={self.certificates}\n"
            "[p]\ncommonName=supplied\n")
        tomorrow = [(datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)).strftime("%Y%m%d%H%M%SZ") for days in (1, 9)]
        openssl("ca", "-batch", "-config", place("ca.cnf"), "-selfsign", "-keyfile", key, "-in", request, "-out", place("tomorrow.crt"),
                "-startdate", tomorrow[0], "-enddate", tomorrow[1], "-notext")
        return place("tomorrow.crt")

    def test_one_that_cannot_be_used_keeps_the_old(self):
        first = self.served()
        certificate, key = make_certificate(self.certificates, "other")
        ended, ended_key = (os.path.join(self.certificates, name) for name in ("ended.crt", "ended.key"))
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", ended_key, "-subj", "/CN=e",
                "-out", ended + ".csr")
        openssl("x509", "-req", "-in", ended + ".csr", "-signkey", ended_key, "-days", "-1", "-out", ended)
        good, others, over = (pathlib.Path(path).read_text() for path in (self.certificate, certificate, ended))
        for what, words in ((("certificate", "nonsense"), "cannot be used"), (("certificate", good[:-200]), "cannot be used"),
                            (("certificate", ""), "cannot be used"), (("certificate", others), "is not that of|cannot be used"),
                            (("certificate", over), "is not that of|cannot be used"), (("key", "nonsense"), "cannot be used")):
            place, text = what
            path = self.certificate if place == "certificate" else self.key
            with open(path) as file:
                before = file.read()
            with open(path, "w") as file:
                file.write(text)
            with self.subTest(place=place, text=text[:20]):
                self.read_again("config.reload_failed")
                said = [line for line in self.gateway.stderr().splitlines() if "config.reload_failed" in line][-1]
                self.assertRegex(said, words)
                self.assertIn(path, said)
                self.assertEqual(self.served(), first)
            with open(path, "w") as file:
                file.write(before)
        self.put(ended, ended_key)
        self.read_again("config.reload_failed")
        self.assertIn("has ended; renew it", self.gateway.stderr())
        self.put(self.make_certificate_of_tomorrow(ended + ".csr", self.key), self.key)
        self.read_again("config.reload_failed")
        self.assertIn("is not valid yet", self.gateway.stderr())
        self.assertEqual(self.served(), first)
        self.assertNotIn("PRIVATE KEY", self.gateway.stderr())


class Strangers(TlsCase):
    flags = ("--header-timeout", "1500ms", "--connections-max", "3000", "--connections-per-address-max", "2500")

    def hello(self):
        """A whole ClientHello, and nothing after it."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        stream = self.trust().wrap_bio(incoming, outgoing, server_hostname="localhost")
        with contextlib.suppress(ssl.SSLWantReadError):
            stream.do_handshake()
        return outgoing.read()

    def open_many(self, count, first):
        held = []
        for _ in range(count):
            connection = socket.create_connection(self.address(), timeout=harness.PATIENCE)
            self.addCleanup(connection.close)
            if first:
                connection.sendall(first)
            held.append(connection)
        return held

    def test_handshakes_that_are_not_gone_on_with_end_in_time(self):
        hello = self.hello()
        for first in (b"", hello[:1], hello[:40], hello):
            with self.subTest(bytes=len(first)):
                connection = self.open_many(1, first)[0]
                began = time.monotonic()
                with contextlib.suppress(ConnectionResetError):
                    while connection.recv(65536):
                        pass
                self.assertLess(time.monotonic() - began, harness.PATIENCE)
        self.when_metric("lanemq_gateway_tls_handshaking", 0)

    def test_a_thousand_handshakes_that_stop_hold_up_nobody(self):
        before = self.gateway.resident_bytes()
        held = self.open_many(1500, self.hello())
        times = []
        for _ in range(20):
            began = time.monotonic()
            self.assertEqual(self.ask("GET", "/healthz", source="127.0.0.9").status, 200)
            times.append(time.monotonic() - began)
        self.assertLess(sorted(times)[10], 20 if harness.SANITIZED else 2)
        # Of those that were under way at once no more than the bound.
        self.assertLessEqual(self.metric("lanemq_gateway_tls_handshaking", source="127.0.0.9"), 1024)
        self.assertLess(self.gateway.resident_bytes() - before, (200 << 20) * harness.MEMORY_FACTOR)
        for connection in held:
            connection.close()
        harness.wait_until(lambda: self.metric("lanemq_gateway_tls_handshaking", source="127.0.0.9") == 0, "the end of them")


class Starting(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.certificate, self.key = make_certificate(self.folder, "one")
        with open(os.path.join(self.folder, "gateway.toml"), "w") as file:
            file.write(KEYS)

    def run_gateway(self, *words, **environment):
        done = subprocess.run([harness.program("lanemq-gateway"), *words], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "CALLER_SECRET": CALLER_KEY, **environment})
        return done.returncode, done.stdout, done.stderr

    def check(self, *words, **environment):
        return self.run_gateway("--check", "--config", os.path.join(self.folder, "gateway.toml"), *words, **environment)

    def test_beyond_this_machine_keys_and_tls_are_needed_or_insecure_is_said(self):
        tls = ("--tls-certificate", self.certificate, "--tls-key", self.key)
        code, _, said = self.check("--listen", "0.0.0.0:0")
        self.assertEqual(code, 2)
        for words in ("without TLS", "tls_certificate and tls_key", "behind a proxy", "--insecure true"):
            self.assertIn(words, said)
        self.assertEqual(self.check("--listen", "0.0.0.0:0", *tls)[0], 0)
        self.assertEqual(self.check("--listen", "0.0.0.0:0", "--insecure")[0], 0)
        self.assertEqual(self.check("--listen", "127.0.0.1:0")[0], 0)
        code, _, said = self.run_gateway("--check", "--listen", "0.0.0.0:0", *tls)
        self.assertEqual(code, 2)
        self.assertIn("without keys", said)

    def test_files_that_cannot_be_used_are_named(self):
        nowhere = os.path.join(self.folder, "nowhere.pem")
        for words, said in ((("--tls-certificate", self.certificate), "belong together"), (("--tls-key", self.key), "belong together"),
                            (("--tls-certificate", nowhere, "--tls-key", self.key), nowhere),
                            (("--tls-certificate", self.certificate, "--tls-key", nowhere), nowhere),
                            (("--tls-certificate", self.key, "--tls-key", self.key), self.key)):
            with self.subTest(words=words):
                code, _, errors = self.check(*words)
                self.assertEqual(code, 2, errors)
                self.assertIn(said, errors)
        os.rename(self.certificate, os.path.join(self.folder, "c"))
        os.rename(self.key, os.path.join(self.folder, "k"))
        code, _, errors = self.check("--tls-certificate", "credential:c", "--tls-key", "credential:k", CREDENTIALS_DIRECTORY=self.folder)
        self.assertEqual(code, 0, errors)

    def test_a_made_key_is_one_that_the_file_takes_and_its_secret_is_not_in_it(self):
        made = [self.run_gateway("--make-key") for _ in range(2)]
        self.assertEqual([code for code, _, _ in made], [0, 0])
        self.assertNotEqual(made[0][1], made[1][1])
        for _, table, aside in made:
            secret = re.search(r"lanemq-[0-9a-f]{48}", aside)[0]
            self.assertNotIn(secret, table)
            self.assertIn(hashlib.sha256(secret.encode()).hexdigest(), table)
        path = os.path.join(self.folder, "made.toml")
        with open(path, "w") as file:
            file.write(made[0][1] + made[1][1])
        code, _, errors = self.run_gateway("--check", "--config", path)
        self.assertEqual(code, 0, errors)


if __name__ == "__main__":
    unittest.main()
