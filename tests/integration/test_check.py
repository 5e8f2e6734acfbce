#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--check of the broker, the worker and the gateway: it refuses what a start refuses, with the same exit code, and leaves
everything as it was. And the spellings that all three share."""
import contextlib
import fcntl
import os
import pty
import re
import sqlite3
import struct
import subprocess
import tempfile
import termios
import unittest

import harness

FOREIGN = "192.0.2.1"  # of a documentation network: nobody has it
BASE = {"lanemq-broker": ("--store", "memory", "--clients", "tcp://127.0.0.1:*", "--workers", "tcp://127.0.0.1:*"),
        "lanemq-worker": ("--service", "e=echo"),
        "lanemq-gateway": ("--listen", "127.0.0.1:0")}


def run(program, *arguments, **environment):
    done = subprocess.run([harness.program(program), *BASE[program], *arguments], capture_output=True, text=True,
                          timeout=harness.PATIENCE * 10, check=False, env={**os.environ, **environment})
    return done.returncode, done.stdout, done.stderr


class Check(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def everything(self):
        return sorted((root, folders, [(name, os.stat(os.path.join(root, name)).st_mtime_ns) for name in names])
                      for root, folders, names in os.walk(self.folder))

    def assert_passes(self, program, *arguments):
        before = self.everything()
        self.assertEqual(run(program, *arguments, "--check"), (0, "", ""))
        self.assertEqual(self.everything(), before)

    def assert_refused(self, code, program, *arguments, words):
        """A start goes last: it may make folders before it finds what is wrong."""
        with self.subTest(program=program, arguments=arguments):
            before = self.everything()
            checked = run(program, *arguments, "--check")
            self.assertEqual(self.everything(), before)
            self.assertEqual(checked[:2], (code, ""), checked[2])
            self.assertIn(words, checked[2])
            started = run(program, *arguments)
            self.assertEqual(started[:2], (code, ""), started[2])

    def test_what_can_start_passes_and_nothing_is_made(self):
        self.assert_passes("lanemq-broker", "--store", "sqlite:" + self.path("new.db"))
        self.assert_passes("lanemq-worker")
        self.assert_passes("lanemq-gateway", "--state", self.path("a", "new", "folder"))

    def test_beside_what_runs_it_passes(self):
        room = harness.Room()
        self.addCleanup(room.close)
        store = "sqlite:" + self.path("jobs.db")
        broker = room.start_broker("--store", store)
        gateway = room.start(harness.Process(harness.program("lanemq-gateway"), "--broker", broker.clients, "--listen",
                                             "127.0.0.1:0", "--state", self.path("state")))
        address = gateway.line().split("http://")[1]
        self.assertEqual(run("lanemq-broker", "--store", store, "--clients", broker.clients, "--workers", broker.workers,
                             "--check"), (0, "", ""))
        self.assertEqual(run("lanemq-gateway", "--listen", address, "--state", self.path("state"), "--check"), (0, "", ""))

    def test_what_goes_to_another_machine_in_clear_is_meant(self):
        for program in BASE:
            self.assert_refused(2, program, "--otlp", "http://collector:4318", words="otlp_in_clear")
        for program in ("lanemq-worker", "lanemq-gateway"):
            for fine in ("https://collector:4318", "http://localhost:4318"):
                self.assert_passes(program, "--otlp", fine)
            self.assert_passes(program, "--otlp", "http://collector:4318", "--otlp-in-clear")
        path, service = self.path("worker.toml"), '[[service]]\nname = "a"\nhandler = "openai:HTTP://models.example/v1"\n'
        with open(self.path("key"), "w") as file:
            file.write("sk-test-0123456789")
        os.chmod(self.path("key"), 0o600)
        service += f'keys = {{ k = "file:{self.path("key")}" }}\n'
        near = service.replace("models.example", "127.0.0.1:9")
        with open(path, "w") as file:
            file.write(near)
        self.assertEqual(run("lanemq-worker", "--config", path, "--check")[0], 0)
        self.assertEqual(run("lanemq-worker", "--config", path, "--http-proxy", f"http://{FOREIGN}:3128", "--check")[0], 2)
        for more, code in (("", 2), ("in_clear = true\n", 0)):
            with open(path, "w") as file:
                file.write(service + more)
            done = run("lanemq-worker", "--config", path, "--check")
            self.assertEqual((done[0], "in_clear = true" in done[2]), (code, code != 0), done[2])

    def test_the_broker_refuses_endpoints(self):
        for code, endpoint, words in ((3, "tcp://localhost:*", "cannot bind"), (2, "tcp://0.0.0.0:*", "--insecure"),
                                      (2, "tcp://127.0.0.1:99999", "names no port"), (2, "smoke://signal", "tcp://HOST:PORT"),
                                      (3, "ipc://" + self.path("none", "socket"), "cannot bind")):
            self.assert_refused(code, "lanemq-broker", "--clients", endpoint, words=words)
        for host in ("no-such-host", FOREIGN):
            self.assert_refused(3, "lanemq-broker", "--insecure", "--clients", f"tcp://{host}:5570", words="cannot bind")

    def test_the_broker_refuses_stores(self):
        with open(self.path("text.db"), "w", encoding="utf-8") as file:
            file.write("no database" * 100)
        other = sqlite3.connect(self.path("other.db"))
        other.executescript("PRAGMA application_id = 7; CREATE TABLE t(a); INSERT INTO t VALUES (1);")
        other.close()
        for name in ("text.db", "other.db", os.path.join("none", "x.db"), "."):
            self.assert_refused(4, "lanemq-broker", "--store", "sqlite:" + self.path(name), words="cannot be used")
        self.assert_refused(2, "lanemq-broker", "--store", "floppy", words="sqlite:PATH")

    def test_the_worker_refuses_secrets_and_endpoints(self):
        chat = ("--service", "c=openai:https://h/v1")
        self.assert_refused(2, "lanemq-worker", *chat, "--key", "c/k1=file:/nowhere", words="/nowhere")
        self.assert_refused(2, "lanemq-worker", *chat, "--http-proxy", "env:NOWHERE", words="NOWHERE")
        self.assert_refused(2, "lanemq-worker", "--broker", "nonsense", words="tcp://HOST:PORT")
        self.assert_refused(2, "lanemq-worker", "--broker", "tcp://127.0.0.1:99999", words="names no port")

    def test_the_gateway_refuses_addresses_folders_and_secrets(self):
        for address in ("nohost", FOREIGN):
            self.assert_refused(3, "lanemq-gateway", "--insecure", "--listen", address + ":8080", words="cannot listen")
        os.mkdir(self.path("foreign"))
        with open(self.path("foreign", "letter"), "w", encoding="utf-8"):
            pass
        self.assert_refused(3, "lanemq-gateway", "--state", self.path("foreign"), words='holds "letter" and no gateway.db')
        self.assert_refused(3, "lanemq-gateway", "--state", self.path("foreign", "letter"), words="cannot be used")
        gateway = subprocess.Popen([harness.program("lanemq-gateway"), *BASE["lanemq-gateway"], "--state", self.path("newer")],
                                   stdout=subprocess.PIPE)
        gateway.stdout.readline()
        gateway.terminate()
        self.assertEqual(gateway.wait(harness.PATIENCE), 0)
        gateway.stdout.close()
        database = sqlite3.connect(self.path("newer", "gateway.db"))
        database.execute("PRAGMA user_version = 99")
        database.close()
        self.assert_refused(3, "lanemq-gateway", "--state", self.path("newer"), words="written by a newer gateway (version 99)")
        with open(self.path("keys.toml"), "w", encoding="utf-8") as file:
            file.write('[[key]]\nname = "a"\nsecret = "file:/nowhere"\n')
        self.assert_refused(2, "lanemq-gateway", "--config", self.path("keys.toml"), words="keys.toml:1: [[key]]: secret")

    def test_credentials_that_the_service_alone_sees_are_taken_as_given(self):
        os.mkdir(self.path("keys"))
        files = {"broker": 'secret_key = "credential:curve"\nkeys_folder = "' + self.path("keys") + '"\nhttp = "127.0.0.1:0"\n'
                           'http_tls_certificate = "credential:cert"\nhttp_tls_key = "credential:tls"\n'
                           '[[http_key]]\nname = "a"\nsecret = "credential:page"\n',
                 "worker": f'broker_key = "{"0" * 40}"\nsecret_key = "credential:curve"\n[[service]]\nname = "c"\n'
                           'handler = "openai:https://h/v1"\nkeys = { one = "credential:one", two = "credential:two" }\n'
                           '[[service]]\nname = "hooks"\nhandler = "webhook"\nsecrets = ["credential:sign"]\nhosts = ["h"]\n',
                 "gateway": f'broker_key = "{"0" * 40}"\nsecret_key = "credential:curve"\ntls_certificate = "credential:cert"\n'
                            'tls_key = "credential:tls"\n[[key]]\nname = "a"\nsecret = "credential:a"\n[[key]]\nname = "b"\n'
                            'secret = "credential:b"\n'}
        for name, text in files.items():
            with self.subTest(name):
                file = self.path(f"no-such-unit-{name}.toml")
                with open(file, "w", encoding="utf-8") as written:
                    written.write(text)
                code, out, errors = run(f"lanemq-{name}", "--config", file, "--check")
                self.assertEqual((code, out), (0, ""), errors)
                for credential in re.findall("credential:([a-z]+)", text):
                    self.assertIn(f"lanemq-{name}: credential:{credential} is taken as given", errors)
                code, _, errors = run(f"lanemq-{name}", "--config", file)
                self.assertEqual(code, 2)
                self.assertIn("needs CREDENTIALS_DIRECTORY", errors)
                # Where a credential can be seen it is looked at.
                code, _, errors = run(f"lanemq-{name}", "--config", file, "--check", CREDENTIALS_DIRECTORY=self.folder)
                self.assertEqual(code, 2)
                self.assertIn("cannot be read: No such file or directory", errors)


class Help(unittest.TestCase):
    """Each help keeps within the terminal, and within 80 columns where there is none."""

    USUAL = 80

    def said(self, *words):
        done = subprocess.run(words, capture_output=True, text=True, timeout=harness.PATIENCE, check=True)
        return done.stdout

    def said_on_a_terminal(self, columns, *words):
        master, slave = pty.openpty()
        with open(master, "rb", buffering=0) as terminal:
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
            with subprocess.Popen(words, stdout=slave, stdin=subprocess.DEVNULL) as program:
                os.close(slave)
                text = b""
                with contextlib.suppress(OSError):  # EIO: nobody has the other end any more
                    while piece := terminal.read(1 << 16):
                        text += piece
            self.assertEqual(program.returncode, 0)
        return text.decode().replace("\r\n", "\n")

    def commands(self, *path):
        text = self.said(harness.program("lanemq"), *path, "--help")
        yield path, text
        for name in re.findall(r"(?m)^  (\w+)  ", (text.split("Subcommands:\n") + [""])[1].split("\n\n")[0]):
            yield from self.commands(*path, name)

    def test_it_keeps_within_eighty_columns(self):
        helps = {name: self.said(harness.program(name), "--help")
                 for name in ("lanemq-broker", "lanemq-worker", "lanemq-gateway", "lanemq-upstream")}
        helps |= {" ".join(("lanemq", *path)): text for path, text in self.commands()}
        self.assertGreater(len(helps), 40)
        for name, text in helps.items():
            with self.subTest(name):
                self.assertLessEqual(max(map(len, text.splitlines())), self.USUAL)

    def test_it_is_as_wide_as_the_terminal(self):
        for columns in (60, 132):
            with self.subTest(columns=columns):
                text = self.said_on_a_terminal(columns, harness.program("lanemq"), "--help")
                widest = max(map(len, text.splitlines()))
                self.assertTrue(columns - 20 < widest <= columns, text)

    def test_the_command_help_prints_it(self):
        lanemq = harness.program("lanemq")
        for path in ((), ("submit",), ("limits", "set")):
            self.assertEqual(self.said(lanemq, "help", *path), self.said(lanemq, *path, "--help"))


class Spellings(unittest.TestCase):
    def test_units_and_levels_are_the_same_in_all_three(self):
        for program in BASE:
            with self.subTest(program=program):
                code, printed, errors = run(program, "--log-level", "warning", "--drain-timeout", "10s", "--body-bytes-max",
                                            "64MiB", "--print-config")
                self.assertEqual((code, errors), (0, ""))
                for line in ('log_level = "warning"', 'drain_timeout = "10s"', 'body_bytes_max = "64MiB"'):
                    self.assertIn(f"\n{line}\n", printed)
                with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
                    file.write(printed)
                    file.flush()
                    again = subprocess.run([harness.program(program), "--config", file.name, "--print-config"],
                                           capture_output=True, text=True, check=False)
                    self.assertEqual((again.returncode, again.stdout, again.stderr), (0, printed, ""))

    def test_the_old_level_is_told(self):
        for program in BASE:
            code, _, errors = run(program, "--log-level", "warn", "--print-config")
            self.assertEqual(code, 0)
            self.assertIn('config.old_spelling place=--log-level write="--log-level warning"', errors)

    def test_a_flag_that_there_is_not_is_told_with_the_one_that_was_meant(self):
        for program in BASE:
            code, _, errors = run(program, "--drain-timeuot", "10s")
            self.assertEqual(code, 2)
            self.assertIn('did you mean "--drain-timeout"?', errors)


if __name__ == "__main__":
    unittest.main()
