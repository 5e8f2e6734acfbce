# SPDX-License-Identifier: Apache-2.0
"""The official SDKs from npm, unmodified: against the upstream double, which proves that it is one, and against the
gateway with the double behind it.

    test_sdk.py Double | Gateway"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import harness

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sdk")
# Longer than all its tests together take; what hangs is ended by the tests themselves.
RUN_SECONDS = 250

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
"""


def sha256(secret):
    return hashlib.sha256(secret.encode()).hexdigest()


class Sdk(unittest.TestCase):
    def setUp(self):
        self.room = harness.Room()
        self.addCleanup(self.room.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.log = os.path.join(self.folder, "calls.jsonl")

    def serve(self, name, *arguments, **options):
        """Starts a program that says where it listens, and returns its URL."""
        process = self.room.start(harness.Process(harness.program(name), *arguments, **options))
        line = process.line()
        self.assertTrue(line.startswith("ready http"), f"{name} said {line!r}\n{process.stderr()}")
        return line.removeprefix("ready ").strip()

    def start_double(self, *arguments):
        return self.serve("lanemq-upstream", "--latency-ms", "1", "--log", self.log, *arguments)

    def run_tests(self, files, url, upstream, via):
        node = shutil.which("node")
        if node is None:
            self.fail("node is missing: install Node 20 or newer")
        if not os.path.isdir(os.path.join(FOLDER, "node_modules")):
            self.fail(f"{FOLDER}/node_modules is missing: run `npm ci --ignore-scripts` in {FOLDER}")
        environment = {**os.environ, "LANEMQ_SDK_URL": url, "LANEMQ_SDK_UPSTREAM": upstream, "LANEMQ_SDK_LOG": self.log,
                       "LANEMQ_SDK_VIA": via, "LANEMQ_OPENAI_MODEL": "gpt-any", "LANEMQ_ANTHROPIC_MODEL": "claude-any",
                       "LANEMQ_CALLER_KEY": "sk-caller", "AI_SDK_LOG_WARNINGS": "false"}
        done = subprocess.run([node, "--test", *files], cwd=FOLDER, env=environment, capture_output=True, text=True,
                              timeout=RUN_SECONDS)
        told = [line for line in done.stdout.splitlines() if "hang-up" in line or line.startswith(("# tests", "# pass"))]
        print("\n".join(told), file=sys.stderr)
        if done.returncode != 0:
            print(done.stdout, done.stderr, file=sys.stderr)
        self.assertEqual(done.returncode, 0)

    def check_log(self):
        """No call had anything that a gateway must keep to itself."""
        checked = subprocess.run([harness.program("lanemq-upstream"), "--check", self.log], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


FILES = ["openai.test.mjs", "anthropic.test.mjs", "ai.test.mjs", "real.test.mjs"]


class Double(Sdk):
    def test_the_sdks_take_the_double_for_the_real_service(self):
        url = self.start_double("--allow-sdk-headers")
        self.run_tests(FILES, url, url, "double")
        self.check_log()


class Gateway(Sdk):
    def test_the_sdks_take_the_gateway_for_the_real_service(self):
        # No service is given up for what the tests make it do wrong.
        self.room.start_broker("--set", "breaker=false")
        upstream = self.start_double("--keys", "sk-upstream")
        secrets = {"OPENAI_API_KEY": "sk-upstream", "ANTHROPIC_API_KEY": "sk-upstream"}
        self.room.start(harness.Process(
            harness.program("lanemq-worker"), "--broker", self.room.broker.workers, "--service",
            f"openai=openai:{upstream}/v1", "--service", f"anthropic=anthropic:{upstream}", "--capacity", "256",
            env={**os.environ, **secrets}))
        settings = os.path.join(self.folder, "gateway.toml")
        with open(settings, "w") as file:
            file.write(KEYS.format(caller=sha256("sk-caller"), bulk=sha256("sk-bulk"), limited=sha256("sk-limited")))
        url = self.serve("lanemq-gateway", "--broker", self.room.broker.clients, "--listen", "127.0.0.1:0", "--config",
                         settings, cwd=self.folder)
        self.run_tests([*FILES, "gateway.test.mjs"], url, upstream, "gateway")
        self.check_log()


if __name__ == "__main__":
    unittest.main()
