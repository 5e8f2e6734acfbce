# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server of a test's own, which can be crashed and started again."""

import contextlib
import glob
import os
import signal
import subprocess
import tempfile

import harness
from ports import free_port

# PostgreSQL does not run as root.
NOBODY = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}


def programs():
    """The folder of the programs of the newest version that is there."""
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    if not found:
        raise RuntimeError("there is no PostgreSQL in /usr/lib/postgresql: install postgresql")
    return os.path.dirname(max(found, key=lambda path: int(path.split("/")[4])))


class Postgres:
    """A server on a socket in a folder, and on a free port of this machine. Everybody who reaches it is let in.

    Without fsync: what a test kills are processes, and what those have written the system keeps. Only a machine's own end
    loses it, which no test here can bring about."""

    settings = ("autovacuum=off",)
    pristine = None  # a data folder that no server has used

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lanemq-postgres-")
        self.programs = programs()
        self.data = os.path.join(self.folder.name, "data")
        self.port = str(free_port())
        self.process = None
        os.mkdir(self.data)
        if NOBODY:
            for path in (self.folder.name, self.data):
                os.chmod(path, 0o700)
                subprocess.run(["chown", "nobody:nogroup", path], check=True)
        self.log = open(os.path.join(self.folder.name, "log"), "ab")
        self.make()
        self.start()

    def make(self):
        """What lies in the data folder before the first start. The first server of this process makes it, others copy it."""
        if Postgres.pristine is None:
            self.do("initdb", "-D", self.data, "-U", "lanemq", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync",
                    "--no-instructions")
            Postgres.pristine = tempfile.TemporaryDirectory(prefix="lanemq-postgres-")
            subprocess.run(["cp", "-a", f"{self.data}/.", Postgres.pristine.name], check=True)
        else:
            subprocess.run(["cp", "-a", f"{Postgres.pristine.name}/.", self.data], check=True)

    def do(self, program, *arguments):
        """Runs one of PostgreSQL's programs to its end."""
        if self.spawn(program, *arguments).wait() != 0:
            raise RuntimeError(f"{program} has failed: {self.said()}")

    def spawn(self, program, *arguments):
        return subprocess.Popen([os.path.join(self.programs, program), *arguments], stdin=subprocess.DEVNULL, stdout=self.log,
                                stderr=self.log, cwd="/", **NOBODY)

    def said(self):
        with open(self.log.name, errors="replace") as file:
            return file.read()

    def conninfo(self, user="lanemq", database="postgres"):
        return f"host={self.data} port={self.port} user={user} dbname={database}"

    def start(self):
        settings = ("listen_addresses=127.0.0.1", "fsync=off", "max_connections=40", "shared_buffers=32MB", *self.settings)
        self.process = self.spawn("postgres", "-D", self.data, "-k", self.data, "-p", self.port,
                                  *(word for setting in settings for word in ("-c", setting)))

        def answers():
            if self.process.poll() is not None:
                raise RuntimeError(f"PostgreSQL does not start: {self.said()}")
            return self.psql("SELECT 1", check=False).returncode == 0
        harness.wait_until(answers, "that PostgreSQL answers", 60, 0.02)

    def psql(self, statements, check=True, **where):
        done = subprocess.run(self.command(**where) + ["-c", statements], capture_output=True, text=True)
        if check and done.returncode != 0:
            raise AssertionError(f"{statements}: {done.stderr}")
        return done

    def command(self, **where):
        return [os.path.join(self.programs, "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", self.conninfo(**where)]

    def value(self, query):
        return self.psql(query).stdout.strip()

    def hold(self, statement):
        """A transaction that has run this statement, open until end() is called."""
        return Held(self.command(), statement)

    def set(self, name, value):
        """A setting of the running server; None: its default again."""
        self.psql(f"ALTER SYSTEM RESET {name}" if value is None else f"ALTER SYSTEM SET {name} = '{value}'")
        self.psql("SELECT pg_reload_conf()")

    def end_sessions(self, condition="true", by="pg_terminate_backend"):
        """How many sessions of brokers were ended."""
        return int(self.value(f"SELECT count({by}(pid)) FROM pg_stat_activity "
                              f"WHERE application_name = 'lanemq-broker' AND {condition}"))

    def processes(self):
        """The server's own, and those of its sessions."""
        found = [self.process.pid]
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(path) as file:
                    words = file.read().rsplit(")", 1)[1].split()
            except OSError:
                continue  # it has ended
            if int(words[1]) == self.process.pid:
                found.append(int(path.split("/")[2]))
        return found

    @contextlib.contextmanager
    def stopped(self):
        """It keeps its connections, and says nothing."""
        stopped = self.processes()
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in reversed(stopped):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

    def crash(self):
        for process in self.processes():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()
        self.log.close()
        self.folder.cleanup()


class Held:
    def __init__(self, command, statement):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True)
        self.process.stdin.write(f"BEGIN;\n{statement};\nSELECT 'held';\n")
        self.process.stdin.flush()
        while (line := self.process.stdout.readline()) != "held\n":
            if not line:
                raise AssertionError(f"{statement} has failed")

    def end(self):
        if self.process.poll() is None:
            self.process.communicate("COMMIT;\n")
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            stream.close()
