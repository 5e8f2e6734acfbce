# SPDX-License-Identifier: Apache-2.0
"""Installs coding agents from npm and has each do one task through gateway, broker and worker, before a stand-in for the
model APIs. The task is to write a file: the prompt names the tool and its arguments, the stand-in calls it, the agent runs
it and sends its result, and the stand-in ends the turn with a text.

The agents are configured as docs/guides/coding-agents.md says: its blocks are what is used. They have a HOME of their own
and, where namespaces allow it, no network but the loopback. A line for each says what came of it."""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from programs import BIN, ROOT, Programs

sys.path.insert(0, str(ROOT / "tests/integration"))
import pages  # noqa: E402

GUIDE = "docs/guides/coding-agents.md"
GATEWAY = "http://127.0.0.1:8080"  # as the guide has it
LANE = "high"
WORD = "plum"
NODE_MIN = (22, 19)  # what the newest of these agents asks for
NODE_PACKAGE = "node@24"
TASK_SECONDS = 300
OUTPUT_LINES = 15  # of an agent that failed
# Who has its own user, processes and network; all of them end with it.
CUT_OFF = ["unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
# Beside the guide's: nothing is fetched or reported.
QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
         "PI_OFFLINE": "1", "PI_TELEMETRY": "0", "DO_NOT_TRACK": "1", "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1"}


class Agent:
    """chapter: its heading in the guide. command: what reads its prompt from stdin. tool, arguments: the call that writes
    {file}."""

    def __init__(self, chapter, package, command, tool, /, **arguments):
        self.chapter, self.package, self.command, self.tool, self.arguments = chapter, package, command, tool, arguments

    def prompt(self, file):
        arguments = {name: value.replace("{file}", str(file)) for name, value in self.arguments.items()}
        return f"upstream: call {self.tool} {json.dumps(arguments)}\n"


AGENTS = {
    "claude": Agent("Claude Code", "@anthropic-ai/claude-code", "claude -p --permission-mode acceptEdits", "Write",
                    file_path="{file}", content=WORD),
    # Its own sandbox needs namespaces inside of ours.
    "codex": Agent("Codex", "@openai/codex", "codex exec --skip-git-repo-check --sandbox danger-full-access -", "exec_command",
                   cmd=f"printf {WORD} >{{file}}"),
    "opencode": Agent("opencode", "opencode-ai", "opencode run", "bash", command=f"printf {WORD} >{{file}}",
                      description="Writes a file"),
    "qwen": Agent("Qwen Code", "@qwen-code/qwen-code", "qwen --approval-mode auto-edit", "write_file", file_path="{file}",
                  content=WORD),
    "pi": Agent("pi", "@earendil-works/pi-coding-agent", "pi -p --model lanemq/gpt-5.2", "write", path="{file}", content=WORD),
}


def said_by_the_guide(chapter):
    """The configuration of one agent: the variables that are exported, and the files by their path in HOME."""
    prose, blocks = pages.divided(GUIDE)
    begin = next(number for number, line in prose if line == f"## {chapter}")
    end = next((number for number, line in prose if number > begin and line.startswith("## ")), float("inf"))
    paths = [(number, path[1]) for number, line in prose if (path := re.match(r"`~/([^`]+)`:$", line))]
    exported, files = {}, {}
    for block in (block for block in blocks if begin < block.number < end):
        if block.language == "console":
            exported |= dict(re.findall(r"^\$ export (\w+)=(\S+)", block.text, re.MULTILINE))
        else:
            files[next(path for number, path in reversed(paths) if number < block.number)] = block.text
    return exported, files


class Room:
    """A folder for the agents, and how they are installed there."""

    def __init__(self, folder):
        self.folder = folder
        self.path = os.environ["PATH"]

    def install(self, name, package):
        folder = self.folder / "npm" / name
        folder.mkdir(parents=True)
        (folder / "package.json").write_text('{"private": true}\n')
        ran = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", package], cwd=folder, text=True,
                             env=os.environ | {"PATH": self.path}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if ran.returncode:
            print(f"{name}: failed; npm could not install {package}\n{ran.stdout}", flush=True)
        return ran.returncode == 0

    def install_node(self):
        """Only where the machine's own is too old: npm then also takes older versions of agents."""
        said = subprocess.run(["node", "--version"], stdout=subprocess.PIPE, text=True).stdout
        if tuple(int(part) for part in said.strip().lstrip("v").split(".")[:2]) < NODE_MIN:
            if not self.install("node", NODE_PACKAGE):
                sys.exit(1)
            self.path = f"{self.folder}/npm/node/node_modules/.bin:{self.path}"

    def version(self, name):
        with open(self.folder / "npm" / name / "node_modules" / AGENTS[name].package / "package.json") as file:
            return json.load(file)["version"]


class House:
    """The stand-in, broker, worker and gateway; a key of the gateway for each agent, by the agent's name."""

    def __init__(self, folder, names):
        self.folder, self.programs = folder, Programs(folder, script="scripts/agents")
        settings = "".join(f'[[key]]\nname = "{name}"\nsecret = "env:KEY_{name.upper()}"\nlane = "{LANE}"\n' for name in names)
        (folder / "gateway.toml").write_text(settings)
        self.keys = {name: os.urandom(16).hex() for name in names}

    def start(self):
        upstream = self.programs.start("upstream", BIN / "lanemq-upstream")
        anywhere = [word for door in ("clients", "workers", "admin") for word in (f"--{door}", "tcp://127.0.0.1:*")]
        doors = dict(part.split("=", 1) for part in
                     self.programs.start("broker", BIN / "lanemq-broker", *anywhere, "--store", "memory").split())
        self.programs.start("worker", BIN / "lanemq-worker", "--broker", doors["workers"], "--service",
                            f"openai=openai:{upstream}/v1", "--service", f"anthropic=anthropic:{upstream}")
        secrets = {f"KEY_{name.upper()}": secret for name, secret in self.keys.items()}
        return self.programs.start("gateway", BIN / "lanemq-gateway", "--config", self.folder / "gateway.toml", "--broker",
                                   doors["clients"], "--listen", "127.0.0.1:0", "--state", self.folder / "state", "--access-log",
                                   "true", "--log-format", "json", environment=os.environ | secrets)

    def answered(self, name):
        """What the gateway answered to that key, beside HEAD and GET."""
        with open(self.folder / "gateway.log") as log:
            lines = [json.loads(line) for line in log if '"request.answered"' in line]
        return [line for line in lines if line["key"] == name and line["method"] == "POST"]


def run(name, room, gateway, key):
    """Has an agent do its task: how it ended, what it said, and what is in the file that it was to write."""
    agent = AGENTS[name]
    home, desk = room.folder / "home" / name, room.folder / "desk" / name
    desk.mkdir(parents=True)
    exported, files = said_by_the_guide(agent.chapter)
    for path, text in files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text.replace(GATEWAY, gateway))
    home.mkdir(parents=True, exist_ok=True)
    environment = {variable: value.replace(GATEWAY, gateway).replace("$LANEMQ_KEY", key) for variable, value in exported.items()}
    environment |= QUIET | {"LANEMQ_KEY": key, "HOME": str(home), "TMPDIR": str(home), "TERM": "dumb",
                            "PATH": f"{room.folder}/npm/{name}/node_modules/.bin:{room.path}"}
    file = desk / "written.txt"
    process = subprocess.Popen(agent.command.split(), cwd=desk, env=environment, text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = process.communicate(agent.prompt(file), timeout=TASK_SECONDS)
        ended = f"exit code {process.returncode}" if process.returncode else ""
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        ended = f"no end within {TASK_SECONDS} s"
    return ended, output, file.read_text() if file.exists() else None


def judge(tool, ended, written, answered):
    """What came of it in a few words, and whether the task is done. answered: the lines of the gateway's log."""
    refused = [f"{line['path']} {line['status']}" for line in answered if int(line["status"]) != 200]
    lanes = sorted({line["lane"] for line in answered if line["lane"]})
    wrong = {ended: bool(ended),
             f"{tool} did not run": written != WORD,
             f"answered with {', '.join(sorted(set(refused)))}": bool(refused),
             f"lane {', '.join(lanes) or 'none'} instead of {LANE}": lanes != [LANE],
             "no result of the tool was sent": len(answered) < 2}
    problems = [problem for problem, holds in wrong.items() if holds]
    facts = f"{len(answered)} requests to {', '.join(sorted({line['path'].partition('?')[0] for line in answered})) or 'nothing'}"
    if problems:
        return f"failed: {'; '.join(problems)}; {facts}", False
    return f"done: {facts}, lane {LANE}, {tool} called and run", True


def work(folder, names):
    """Runs all that are installed, one after the other; whether all did their task."""
    room, house = Room(folder), House(folder, names)
    all_done = True
    try:
        gateway = house.start()
        for name in names:
            ended, output, written = run(name, room, gateway, house.keys[name])
            outcome, done = judge(AGENTS[name].tool, ended, written, house.answered(name))
            print(f"{name} {room.version(name)}: {outcome}", flush=True)
            if not done:
                print("\n".join("  " + said for said in output.splitlines()[-OUTPUT_LINES:]), flush=True)
            all_done = all_done and done
    finally:
        house.programs.stop()
    return all_done


def main():
    parser = argparse.ArgumentParser(prog="scripts/agents", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(AGENTS)}; all, where none is named")
    parser.add_argument("--installed", type=pathlib.Path, metavar="DIR", help=argparse.SUPPRESS)  # how it calls itself, cut off
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in AGENTS]:
        parser.error(f"there is no agent {unknown[0]}; there are {', '.join(AGENTS)}")
    names = list(dict.fromkeys(options.names or AGENTS))
    if options.installed:
        return 0 if work(options.installed, names) else 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lanemq-agents-"))
    try:
        room = Room(folder)
        room.install_node()
        installed = [name for name in names if room.install(name, f"{AGENTS[name].package}@latest")]
        os.environ["PATH"] = room.path
        again = [sys.executable, __file__, "--installed", str(folder), *installed]
        up = "ip link set lo up && exec \"$@\""
        cut_off = shutil.which("unshare") and subprocess.run([*CUT_OFF, "true"], stderr=subprocess.DEVNULL).returncode == 0
        if not cut_off:
            print("the agents have the network: no namespaces here", file=sys.stderr)
        command = [*CUT_OFF, "sh", "-c", up, "sh", *again] if cut_off else again
        done = installed and subprocess.run(command).returncode == 0
        return 0 if done and installed == names else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
