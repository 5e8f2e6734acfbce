# SPDX-License-Identifier: Apache-2.0
"""Types what a page says, in a folder of its own, and compares what comes back.

A block that is marked `console` is run: its lines that begin with `$ ` are commands (`> ` goes on with the one before), and
what stands under a command is what it prints. `...` in a line is any text, alone in a line any number of lines; several
blanks, as between the columns of a table, are any number of them. A comment right before a block says more:

    <!-- stays: NAME -->       its command stays: what it prints is waited for, and it goes on in the background
    <!-- file: NAME -->        not run: it becomes the file of that name
    <!-- not run: NAME -->     not run, for the reason that the test's list has for NAME
    <!-- ctrl-c: NAME -->      in the text: the command that stays under that name is interrupted, and ends with 0

The ports of the pages are replaced by free ones, in the commands and back in what is printed.
"""

import os
import re
import shlex
import signal
import subprocess
import threading

import harness
import pages
from ports import free_port

PORTS = ("5570", "5571", "5573", "8080", "9000")
VARIABLES = {"LANEMQ_BROKER": "5570", "LANEMQ_CLIENTS_ENDPOINT": "5570", "LANEMQ_WORKERS_ENDPOINT": "5571",
             "LANEMQ_WORKER_BROKER": "5571", "LANEMQ_GATEWAY_BROKER": "5570"}
CLOSING = 20  # seconds for a command that stays, where a test has failed
END = "== end of the command, code "


def steps_of(block):
    """Pairs of a command and the lines that it prints."""
    steps = []
    for line in block.lines:
        if line.startswith("$ "):
            steps.append([line[2:], []])
        elif not steps:
            raise AssertionError(f"{block}: a console block begins with a line `$ COMMAND`")
        elif line.startswith("> ") and not steps[-1][1]:
            steps[-1][0] += "\n" + line[2:]
        else:
            steps[-1][1].append(line)
    return steps


def pattern_of(lines):
    """What a page expects, as an expression that has to be found at the beginning of what was printed."""
    parts = []
    for line in lines:
        if line.strip() == "...":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            texts = [re.sub(r"(?:\\ ){2,}", " +", re.escape(text)) for text in line.rstrip().split("...")]
            parts.append(r"[^\n]*?".join(texts) + r"[ \t]*\n")
    return re.compile("".join(parts))


class Desk:
    """A shell, the programs that stay, and their folder. `root`: what is `/` for all of them."""

    in_each_terminal = ":"  # what a reader types before a command that stays

    def __init__(self, case, folder, root=""):
        self.case, self.folder, self.root, self.staying = case, folder, root, {}
        self.transcript = []  # of each command: the name under which it stays or None, its words, and what it printed
        self.ports, self.environment = {}, {}
        self.surround()
        self.shell = self.terminal("exec bash --norc", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        case.addCleanup(self.close)

    def surround(self):
        """Ports that nothing else has, and the environment of a reader."""
        self.ports = {name: str(free_port()) for name in PORTS}
        # A reader's environment says nothing of LaneMQ, of keys or of proxies.
        environment = {name: value for name, value in os.environ.items()
                       if not re.match(r"LANEMQ_(?!CONNECT_TIMEOUT)|XDG_|STATE_DIRECTORY|RUNTIME_DIRECTORY|.*_API_KEY|(?i:.*_proxy)", name)}
        environment |= {name: f"tcp://127.0.0.1:{self.ports[port]}" for name, port in VARIABLES.items()}
        environment |= {"HOME": self.folder, "LANEMQ_BIN": os.path.abspath(harness.PROGRAMS),
                        "LANEMQ_GATEWAY_LISTEN": f"127.0.0.1:{self.ports['8080']}",
                        "PYTHONPATH": os.path.join(pages.ROOT, "client/python"), "PYTHONDONTWRITEBYTECODE": "1",
                        "PATH": f"{os.path.abspath(harness.PROGRAMS)}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
        self.environment = environment

    def terminal(self, command, **files):
        """A process of its own session, in the folder."""
        root = ["chroot", self.root] if self.root else []
        return subprocess.Popen([*root, "bash", "-c", f"cd {shlex.quote(self.folder)} && {command}"], env=self.environment,
                                stderr=subprocess.STDOUT, text=True, start_new_session=True, **files)

    def there(self, text):
        return text if not self.ports else re.sub(rf"(127\.0\.0\.1|localhost):({'|'.join(PORTS)})\b", lambda at: f"{at[1]}:{self.ports[at[2]]}", text)

    def back(self, text):
        for port, number in self.ports.items():
            text = text.replace(f":{number}", f":{port}")
        return text

    def run(self, block, command, expected):
        """A command in the foreground: all that it prints is compared."""
        path = os.path.join(self.folder, ".step")
        with open(self.root + path, "w") as file:
            file.write(self.there(command) + "\n")
        self.shell.stdin.write(f". {shlex.quote(path)} </dev/null\nprintf '\\n{END}%s\\n' $?\n")
        self.shell.stdin.flush()
        clock = threading.Timer(3 * harness.PATIENCE, self.end_shell)
        clock.start()
        printed = ""
        while not printed.endswith("\n") or END not in printed:
            line = self.shell.stdout.readline()
            if not line:
                clock.cancel()
                self.case.fail(f"{block}: the shell ended, or time was over, at `{command}`:\n{printed}")
            printed += line
        clock.cancel()
        printed = self.back(printed[:printed.rindex("\n" + END)])
        printed += "\n" if printed and not printed.endswith("\n") else ""
        self.transcript.append((None, command, printed))
        if not pattern_of(expected).fullmatch(printed):
            self.differs(block, command, expected, printed)

    def start(self, block, name, command, expected):
        """A command that stays: what is expected is waited for, further lines may follow."""
        log = self.root + os.path.join(self.folder, f".{name}.log")
        with open(log, "w") as file:
            process = self.terminal(f"{self.in_each_terminal}; exec " + self.there(command), stdin=subprocess.DEVNULL, stdout=file)
        self.staying[name] = process
        pattern = pattern_of(expected)

        def printed():
            with open(log) as file:
                return self.back(file.read())

        try:
            harness.wait_until(lambda: pattern.match(printed()) or process.poll() is not None, f"{block}: `{command}`")
        except harness.Timeout:
            pass
        self.transcript.append((name, command, printed()))
        if not pattern.match(printed()):
            self.differs(block, command, expected, printed())

    def interrupt(self, name):
        process = self.staying.pop(name)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        self.case.assertEqual(process.wait(harness.PATIENCE), 0, f"{name} ended with another code after Ctrl-C")

    def differs(self, block, command, expected, printed):
        self.case.fail(f"{block}: `{command}` prints something else.\n--- the page\n" + "\n".join(expected) +
                       f"\n--- the program\n{printed}")

    def end_shell(self):
        if self.shell.poll() is None:
            os.killpg(self.shell.pid, signal.SIGKILL)

    def close(self):
        for process in self.staying.values():
            for number in (signal.SIGINT, signal.SIGKILL):  # first so that it can end what it has started itself
                if process.poll() is None:
                    os.killpg(process.pid, number)
                    try:
                        process.wait(CLOSING)
                    except subprocess.TimeoutExpired:
                        continue
            process.wait()
        self.end_shell()
        self.shell.wait()
        self.shell.stdin.close()
        self.shell.stdout.close()
