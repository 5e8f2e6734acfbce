# SPDX-License-Identifier: Apache-2.0
"""What an installation has: `cmake --install` of this build into a folder, and what others do with it. The packages
themselves are for tests/bare/packages."""

import gzip
import http.server
import os
import re
import shutil
import subprocess
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

import harness
from pages import ROOT

CONSUMER = os.path.join(ROOT, "tests/consumer")
with open(os.path.join(ROOT, "VERSION")) as number:
    RELEASE = number.read().strip().removesuffix("-dev")
PATIENCE = 10 * harness.PATIENCE


def done(*command, **how):
    """Runs a command, which has to succeed; tells what it printed."""
    ran = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         timeout=PATIENCE, check=False, **how)
    if ran.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit code {ran.returncode}\n{ran.stdout}")
    return ran.stdout


class Tree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.root = os.path.join(cls.folder, "tree")
        done("cmake", "--install", os.path.dirname(os.environ["LANEMQ_BIN"]), "--prefix", cls.root)
        # It is found where it is now, not where it was made.
        moved = os.path.join(cls.folder, "moved")
        os.rename(cls.root, moved)
        cls.root = moved

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def found(self, name):
        """The one file of that name."""
        paths = [os.path.join(folder, name) for folder, _, names in os.walk(self.root) if name in names]
        self.assertEqual(len(paths), 1, f"{name}: {paths}")
        return paths[0]


class Library(Tree):
    def assert_works(self, program):
        room = harness.Room()
        self.addCleanup(room.close)
        room.start_broker("--store", "memory")
        version = done(self.path("bin/lanemq"), "--version").split()[1]
        self.assertEqual(done(program, room.broker.clients, room.broker.workers), f"{RELEASE} {version} hello!\n")

    def configured(self, wanted):
        build = tempfile.mkdtemp(dir=self.folder)
        done("cmake", "-S", CONSUMER, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.root}", f"-Dwanted={wanted}")
        return build

    def test_cmake_finds_it(self):
        build = self.configured(RELEASE.rpartition(".")[0])

        done("cmake", "--build", build)

        self.assert_works(os.path.join(build, "consumer"))

    def test_pkg_config_finds_it(self):
        folder = os.path.dirname(self.found("lanemq.pc"))
        flags = done("pkg-config", "--cflags", "--libs", "lanemq", env={**os.environ, "PKG_CONFIG_PATH": folder}).split()
        program = os.path.join(self.folder, "consumer")

        done("c++", "-std=c++20", os.path.join(CONSUMER, "main.cpp"), "-o", program, *flags)

        self.assert_works(program)

    def test_another_version_is_not_taken(self):
        with self.assertRaisesRegex(AssertionError, r"(?s)compatible\s+with requested version.*99.0"):
            self.configured("99.0")

    def test_headers_include_nothing_of_others(self):
        headers = os.listdir(self.path("include/lanemq"))

        others = []
        for header in headers:
            with open(self.path("include/lanemq", header)) as file:
                for name in re.findall(r"^#include [<\"](.+)[>\"]", file.read(), re.MULTILINE):
                    own = name.startswith("lanemq/") and name.removeprefix("lanemq/") in headers
                    # In a header for C the standard library's end with .h.
                    if not own and not re.fullmatch(r"[a-z_]+|std[a-z]+\.h", name):
                        others.append(f"{header}: {name}")

        self.assertEqual(others, [])

    def test_plugins_build_with_the_header_alone(self):
        examples = os.path.join(ROOT, "worker/examples/plugins")
        include = "-I" + self.path("include")
        done("cc", "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-shared", "-fPIC", include,
             os.path.join(examples, "c/reverse.c"), "-o", os.path.join(self.folder, "reverse.so"))
        done("c++", "-std=c++20", "-pedantic", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", include,
             os.path.join(examples, "cpp/word_count.cpp"), "-o", os.path.join(self.folder, "word_count.so"))


class Version(Tree):
    """The programs are of one commit, and say so wherever they say a version."""

    def setUp(self):
        program, self.version = done(self.path("bin/lanemq"), "--version").split()
        self.assertEqual(program, "lanemq")
        self.room = harness.Room()
        self.addCleanup(self.room.close)
        self.room.start_broker("--store", "memory", "--http", "127.0.0.1:0")

    def test_it_is_that_of_the_release_or_of_a_commit(self):
        self.assertRegex(self.version, rf"^{re.escape(RELEASE)}(~dev|[~+]git\d{{8}}T\d{{6}}\.[0-9a-f]{{12}}(\.changed)?)?$")
        for program in ("lanemq-broker", "lanemq-worker", "lanemq-gateway"):
            self.assertEqual(done(self.path("bin", program), "--version"), f"{program} {self.version}\n")
        self.assertEqual(done(harness.program("lanemq-upstream"), "--version"), f"lanemq-upstream {self.version}\n")

    def test_metrics_tell_it(self):
        gateway = self.room.start(harness.Process(harness.program("lanemq-gateway"), "--broker", self.room.broker.clients, "--listen", "127.0.0.1:0"))
        worker = self.room.start(harness.Process(harness.program("lanemq-worker"), "--broker", self.room.broker.workers,
                                                 "--service", "echo=echo", "--metrics", "127.0.0.1:0"))
        for metric, address in (("lanemq_build_info", self.room.broker.http),
                                ("lanemq_gateway_build_info", gateway.line().removeprefix("ready ")),
                                ("lanemq_worker_build_info", re.search(r"metrics=(\S+)", worker.line())[1])):
            with self.subTest(metric):
                lines = []
                harness.wait_until(lambda: lines.extend(self.metrics(address)) or lines, "the first sample", pause=0.05)
                self.assertIn(f'{metric}{{version="{self.version}"}} 1', lines)

    def metrics(self, address):
        try:
            with urllib.request.urlopen(f"{address}/metrics", timeout=PATIENCE) as answer:
                return answer.read().decode().splitlines()
        except urllib.error.HTTPError as error:
            self.assertEqual(error.code, 503)  # nothing is sampled yet
            return []

    def test_ping_and_calls_tell_it(self):
        told = []

        class Upstream(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                told.append(self.headers["user-agent"])
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        upstream = http.server.HTTPServer(("127.0.0.1", 0), Upstream)
        self.addCleanup(upstream.server_close)
        threading.Thread(target=upstream.handle_request, daemon=True).start()
        self.room.start(harness.Process(harness.program("lanemq-worker"), "--broker", self.room.broker.workers,
                                        "--service", f"call=http:http://127.0.0.1:{upstream.server_port}")).line()
        client = self.room.client()

        self.assertEqual(client.ask("ping", expect="pong").fields["version"], self.version)
        client.submit("call", b"{}")
        self.assertEqual(client.get().op, "result")
        self.assertEqual(told, [f"lanemq-worker/{self.version}"])


class Texts(Tree):
    def test_manuals_have_no_slip_and_name_each_option(self):
        for program, section in (("lanemq-broker", 8), ("lanemq-worker", 8), ("lanemq-gateway", 8), ("lanemq", 1)):
            with self.subTest(program=program):
                self.assert_manual(f"{program}.{section}", re.findall(r"^  .*(--[\w-]+)", done(self.path("bin", program), "--help"),
                                                                     re.MULTILINE))
        self.assert_manual("lanemq.toml.5", ["clients_endpoint", "http_connect_timeout", "listen", "[[lane]]"])

    def assert_manual(self, name, words):
        path = os.path.join(self.folder, name)
        with gzip.open(self.found(name + ".gz")) as packed, open(path, "wb") as file:
            file.write(packed.read())
        self.assertEqual(done("mandoc", "-T", "lint", "-W", "style", path), "")
        shown = done("mandoc", "-T", "utf8", "-O", "width=200", path)
        shown = re.sub(".\b", "", shown).replace("‐", "-")
        self.assertEqual([word for word in words if word not in shown], [])

    def test_programs_take_the_settings_that_are_installed(self):
        for program, name in (("lanemq-broker", "broker.toml"), ("lanemq-worker", "echo.toml"), ("lanemq-gateway", "gateway.toml")):
            with self.subTest(name):
                path = self.found(name)
                plain = done(self.path("bin", program), "--print-config")
                with open(path) as file:
                    text = file.read()
                # As they stand they change nothing, and each is there to be uncommented.
                if name != "echo.toml":
                    self.assertEqual(done(self.path("bin", program), "--config", path, "--print-config"), plain)
                self.assertEqual(re.sub("^#(?! )", "", text, flags=re.MULTILINE)[:len(plain)], plain)
                lines = [line for line in text.splitlines() if line and not line.startswith("#")]
                self.assertEqual(lines, ["[[service]]", 'name = "echo"', 'handler = "echo"'] if name == "echo.toml" else [])

    def test_what_prometheus_and_others_take_is_there(self):
        monitoring = os.path.join(ROOT, "scripts/monitoring")
        for name in os.listdir(monitoring):
            with open(os.path.join(monitoring, name)) as file, open(self.path("share/lanemq/monitoring", name)) as installed:
                self.assertEqual(installed.read(), file.read(), name)

    def test_units_name_what_is_installed(self):
        for name in ("lanemq-broker.service", "lanemq-worker@.service", "lanemq-gateway.service"):
            with open(self.found(name)) as file:
                program, settings = re.search(r"^ExecStart=(\S+) --config (\S+)", file.read(), re.MULTILINE).groups()
            self.found(os.path.basename(program))
            self.found(os.path.basename(settings).replace("%i", "echo"))


class Completion(Tree):
    """In the real shells: what they offer behind some words."""

    def offered(self, shell, *words):
        script = {"bash": "share/bash-completion/completions/lanemq", "zsh": "share/zsh/vendor-completions/_lanemq",
                  "fish": "share/fish/vendor_completions.d/lanemq.fish"}[shell]
        self.assertTrue(shutil.which(shell), f"{shell} is missing: scripts/deps installs it")
        here = {"cwd": self.empty, "env": {**os.environ, "SCRIPT": self.path(script), "HOME": self.empty}}
        if shell == "fish":
            text = done("fish", "-c", 'source $SCRIPT; complete -C "$argv"', " ".join(["lanemq", *words]), **here)
            return {line.split("\t")[0] for line in text.splitlines()}
        if shell == "bash":
            text = done("bash", "-c", 'compopt() { :; }; source "$SCRIPT"; COMP_WORDS=(lanemq "$@"); COMP_CWORD=$#; _lanemq; '
                        'printf "%s\\n" "${COMPREPLY[@]}"', "bash", *words, **here)
            return set(text.split())
        # What zsh's own functions are given; they match it with what was typed.
        text = done("zsh", "-fc", 'compadd() { shift; print -l -- $@ }; _files() { print -l -- * }; compdef() { : }; '
                    '_describe() { while [[ $1 == -* ]]; do [[ $1 == -t ]] && shift; shift; done; print -l -- ${${(P)2}%%:*} }; '
                    'source $SCRIPT; words=(lanemq "$@"); CURRENT=$#words; _lanemq', "zsh", *words, **here)
        return {word for word in text.split() if word.startswith(words[-1])}

    def setUp(self):
        self.empty = tempfile.mkdtemp(dir=self.folder)
        with open(os.path.join(self.empty, "jobs.jsonl"), "w"):
            pass

    def check(self, shell):
        commands = set(re.findall(r"^  (\w+)  ", done(self.path("bin/lanemq"), "--help").split("Subcommands:")[1], re.MULTILINE))
        self.assertEqual({word for word in self.offered(shell, "") if not word.startswith("-")}, commands)
        self.assertEqual(self.offered(shell, "su"), {"submit"})
        self.assertLessEqual({"--service", "--lane", "--broker"}, self.offered(shell, "submit", "--"))
        self.assertNotIn("--out", self.offered(shell, "submit", "--"))
        self.assertNotIn("--timeout-ms", self.offered(shell, "submit", "--"))  # an old spelling
        self.assertEqual(self.offered(shell, "submit", "--orphan", ""), {"keep", "cancel"})
        self.assertEqual(self.offered(shell, "lanes", "se"), {"set"})
        self.assertEqual(self.offered(shell, "--broker", "x", "run", "--lane", "submit", "job"), {"jobs.jsonl"})
        self.assertEqual(self.offered(shell, "run", "--out", "job"), {"jobs.jsonl"})

    def test_in_bash(self):
        self.check("bash")

    def test_in_zsh(self):
        self.check("zsh")

    def test_in_fish(self):
        self.check("fish")

    def test_an_unknown_shell_is_refused(self):
        refused = subprocess.run([self.path("bin/lanemq"), "completion", "tcsh"], capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("bash,zsh,fish", refused.stderr)


if __name__ == "__main__":
    unittest.main()
