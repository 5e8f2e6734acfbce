# SPDX-License-Identifier: Apache-2.0
"""The programs of the build as children of a script: each says that it is ready, and all end with the script."""
import os
import pathlib
import signal
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("LANEMQ_BIN") or ROOT / "build" / "bin").resolve()
READY_SECONDS = 20
LOG_LINES = 12  # of a program that ended, shown


class Programs:
    """Children of a script, each with its log in a folder. `hint` is said of one that does not start."""

    def __init__(self, folder, hint="", script="scripts/run"):
        self.folder, self.hint, self.script = folder, hint, script
        self.running = []

    def start(self, name, *command, environment=None):
        """Starts a program and returns its `ready` line."""
        log = open(self.folder / f"{name}.log", "wb")
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=log, text=True,
                                   env=environment, start_new_session=True)  # Ctrl-C is ours: they are stopped in order
        self.running.append((name, process))
        timer = threading.Timer(READY_SECONDS, process.kill)
        timer.start()
        line = process.stdout.readline().strip()
        timer.cancel()
        if not line.startswith("ready"):
            sys.exit(f"{self.script}: {name} did not start; its log:\n{self.log_of(name)}\n{self.hint}".rstrip())
        return line.removeprefix("ready").strip()

    def log_of(self, name):
        """The last lines of a program's log."""
        return "\n".join((self.folder / f"{name}.log").read_text(errors="replace").splitlines()[-LOG_LINES:])

    def first_to_end(self):
        """Waits until a program ends by itself; its name."""
        while not (name := next((name for name, process in self.running if process.poll() is not None), None)):
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        return name

    def stop(self):
        for name, process in reversed(self.running):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.running.clear()
