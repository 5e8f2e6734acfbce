# SPDX-License-Identifier: Apache-2.0
"""The official SDKs from npm, unmodified: against the upstream double, which proves that it is one, and against the
gateway with the double behind it.

    test_sdk.py Double
    test_sdk.py Gateway
    OPENAI_API_KEY=… LANEMQ_OPENAI_MODEL=gpt-4o-mini test_sdk.py Real    by hand: the gateway, and a real provider behind it
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import urllib.request

import harness

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sdk")
# Longer than all its tests together take; what hangs is ended by the tests themselves.
RUN_SECONDS = 500

# Whom gateway.test.mjs calls itself.
KEYS = """
[[key]]
name = "caller"
sha256 = "{caller}"

[[key]]
name = "bulk"
sha256 = "{bulk}"
lane = "batch"
lanes = ["low", "batch"]

[[key]]
name = "limited"
sha256 = "{limited}"
requests_per_minute = 1

[[key]]
name = "indebted"
sha256 = "{indebted}"
tokens_per_minute = 10
"""


def sha256(secret):
    return hashlib.sha256(secret.encode()).hexdigest()


class Sdk(unittest.TestCase):
    def setUp(self):
        self.room = harness.Room()
        self.addCleanup(self.room.close)
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.log = os.path.join(self.folder, "calls.jsonl")

    def serve(self, name, *arguments, **options):
        """Starts a program that says where it listens, and returns its URL."""
        process = self.room.start(harness.Process(harness.program(name), *arguments, **options))
        line = process.line()
        self.assertTrue(line.startswith("ready http"), f"{name} said {line!r}\n{process.stderr()}")
        return line.removeprefix("ready ").strip()

    def start_double(self, *arguments):
        return self.serve("lanemq-upstream", "--latency-ms", "1", "--log", self.log, *arguments)

    def start_gateway(self, openai, anthropic, *arguments, keys=""):
        """A worker that calls these base URLs with the keys of the environment, and the gateway before the broker."""
        worker = self.room.start(harness.Process(
            harness.program("lanemq-worker"), "--broker", self.room.broker.workers, "--capacity", "256", "--service",
            f"openai=openai:{openai}", "--service", f"anthropic=anthropic:{anthropic}"))
        self.assertTrue(worker.line().startswith("ready"), worker.stderr())
        settings = os.path.join(self.folder, "gateway.toml")
        with open(settings, "w") as file:
            file.write(keys)
        return self.serve("lanemq-gateway", "--broker", self.room.broker.clients, "--listen", "127.0.0.1:0", "--config",
                          settings, "--state", os.path.join(self.folder, "state"), *arguments)

    def start_all(self, *arguments, keys="", limits=()):
        """The same with the double behind it. Returns the URLs of both."""
        upstream = self.start_double("--keys", "sk-upstream", *limits)
        with unittest.mock.patch.dict(os.environ, OPENAI_API_KEY="sk-upstream", ANTHROPIC_API_KEY="sk-upstream"):
            return self.start_gateway(f"{upstream}/v1", upstream, *arguments, keys=keys), upstream

    def run_tests(self, files, **variables):
        node = shutil.which("node")
        if node is None:
            self.fail("node is missing: install Node 20 or newer")
        if not os.path.isdir(os.path.join(FOLDER, "node_modules")):
            self.fail(f"{FOLDER}/node_modules is missing: run `npm ci --ignore-scripts` in {FOLDER}")
        # One file after the other: some tests wait until any call is in flight.
        try:
            done = subprocess.run([node, "--test", "--test-concurrency=1", *files], cwd=FOLDER,
                                  env={**os.environ, **variables}, capture_output=True, text=True, timeout=RUN_SECONDS)
        except subprocess.TimeoutExpired as late:
            self.fail(f"not within {RUN_SECONDS} s; so far: {(late.stdout or b'').decode(errors='replace')}")
        told = [line for line in done.stdout.splitlines() if "hang-up" in line or line.startswith(("# tests", "# pass"))]
        print("\n".join(told), file=sys.stderr)
        if done.returncode != 0:
            print(done.stdout, done.stderr, file=sys.stderr)
            for process in self.room.processes:
                print(process.process.args[0], process.process.poll(), process.stderr()[-4000:], file=sys.stderr)
        self.assertEqual(done.returncode, 0)

    def run_all(self, files, url, upstream, via, **variables):
        self.run_tests(files, LANEMQ_SDK_URL=url, LANEMQ_SDK_UPSTREAM=upstream, LANEMQ_SDK_LOG=self.log, LANEMQ_SDK_VIA=via,
                       LANEMQ_OPENAI_MODEL="gpt-any", LANEMQ_ANTHROPIC_MODEL="claude-any", LANEMQ_CALLER_KEY="sk-caller",
                       AI_SDK_LOG_WARNINGS="false", **variables)

    def check_log(self):
        """No call had anything that a gateway must keep to itself."""
        checked = subprocess.run([harness.program("lanemq-upstream"), "--check", self.log], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


FILES = ["openai.test.mjs", "anthropic.test.mjs", "ai.test.mjs", "real.test.mjs"]


class Double(Sdk):
    def test_the_sdks_take_the_double_for_the_real_service(self):
        url = self.start_double("--allow-sdk-headers")
        self.run_all(FILES, url, url, "double")
        self.check_log()


class Gateway(Sdk):
    def check_gateway(self, *arguments, **variables):
        # No service is given up for what the tests make it do wrong.
        self.room.start_broker("--set", "breaker=false")
        url, upstream = self.start_all(*arguments, keys=KEYS.format(
            caller=sha256("sk-caller"), bulk=sha256("sk-bulk"), limited=sha256("sk-limited"), indebted=sha256("sk-indebted")))
        self.run_all([*FILES, "gateway.test.mjs"], url, upstream, "gateway", **variables)
        self.check_log()
        return url

    def test_the_sdks_take_the_gateway_for_the_real_service(self):
        self.check_gateway()

    def test_the_sdks_come_by_tls_as_well(self):
        certificate, key = (os.path.join(self.folder, f"gateway.{end}") for end in ("crt", "key"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                        "-out", certificate, "-days", "30", "-subj", "/CN=gateway", "-addext", "subjectAltName=IP:127.0.0.1"],
                       check=True, capture_output=True)
        url = self.check_gateway("--tls-certificate", certificate, "--tls-key", key, NODE_EXTRA_CA_CERTS=certificate)
        self.assertTrue(url.startswith("https://"))

    def test_the_sdks_survive_silence(self):
        self.room.start_broker()
        url, upstream = self.start_all("--commit", "200ms", "--keep-alive", "200ms")
        self.run_all(["keep_alive.test.mjs"], url, upstream, "gateway")
        self.check_log()

    def test_limits_are_kept_while_streaming(self):
        limits = ("requests_per_minute=600", "tokens_per_minute=100000", "window=bucket", "output=max_tokens")
        self.room.start_broker(*(word for limit in limits for word in ("--set", f"budget.api.{limit}")))
        url, upstream = self.start_all(limits=("--rpm", "600", "--tpm", "100000", "--window", "bucket"))
        self.run_all(["limits.test.mjs"], url, upstream, "gateway")
        self.check_log()
        with urllib.request.urlopen(upstream + "/stats", timeout=harness.PATIENCE) as answer:
            stats = json.load(answer)
        self.assertEqual((stats["rejected_429"], stats["duplicate_jobs"]), (0, 0), stats)


class Real(Sdk):
    """Costs money, and is no part of CI. The environment has the providers' keys (OPENAI_API_KEY, ANTHROPIC_API_KEY), the
    models (LANEMQ_OPENAI_MODEL, LANEMQ_ANTHROPIC_MODEL; those of one provider will do), and other base URLs than the usual
    ones, if need be (LANEMQ_OPENAI_URL, LANEMQ_ANTHROPIC_URL)."""

    def test_the_sdks_reach_a_real_provider_through_the_gateway(self):
        self.room.start_broker()
        url = self.start_gateway(os.environ.get("LANEMQ_OPENAI_URL", "https://api.openai.com/v1"),
                                 os.environ.get("LANEMQ_ANTHROPIC_URL", "https://api.anthropic.com"))
        self.run_tests(["real.test.mjs"], LANEMQ_SDK_URL=url)


if __name__ == "__main__":
    unittest.main()
