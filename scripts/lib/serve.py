# SPDX-License-Identifier: Apache-2.0
"""`scripts/run --serve`: one of each program, what to type in a second terminal, and what comes back.

What it prints there has the form of the pages' blocks: `$ ` before what is typed, under it what is printed, `...` for what
differs from run to run. A test types it."""
import json
import os
import pathlib
import signal
import subprocess
import sys

from programs import BIN, Programs

PROMPTS = 40
OPENAI = "https://api.openai.com/v1"


def folder_of(options):
    state = os.environ.get("XDG_STATE_HOME") or pathlib.Path.home() / ".local" / "state"
    return pathlib.Path(options.keep or pathlib.Path(state) / "lanemq-serve").resolve()


def write_requests(folder, model):
    """What is typed has the name of a file instead of JSON: a chat, and a file in OpenAI's batch format."""
    chat = {"model": model, "stream": True, "max_tokens": 3, "messages": [{"role": "user", "content": "Hello!"}]}
    (folder / "chat.json").write_text(json.dumps(chat) + "\n")
    with open(folder / "prompts.jsonl", "w") as out:
        for number in range(1, PROMPTS + 1):
            body = {"model": model, "max_tokens": 16,
                    "messages": [{"role": "user", "content": f"What is {number} times {number + 7}?"}]}
            out.write(json.dumps({"custom_id": f"question-{number}", "method": "POST", "url": "/v1/chat/completions",
                                  "body": body}) + "\n")


def upstream_of(programs, options):
    """The base URL that the worker calls, and what it is in words."""
    given = os.environ.get("LANEMQ_UPSTREAM_URL", "").removesuffix("/chat/completions")
    if given or os.environ.get("OPENAI_API_KEY"):
        return given or OPENAI, "a real API"
    base = programs.start("upstream", BIN / "lanemq-upstream", "--listen", "127.0.0.1:0", "--rpm", options.rpm,
                          "--window", "sliding", "--latency-ms", "200..900", "--token-ms", "20")
    return base + "/v1", "a stand-in for OpenAI's API, no key needed"


def start(programs, options, folder):
    """Starts all; the broker's endpoint, the gateway's URL, the upstream in words, and how many jobs were left."""
    base, words = upstream_of(programs, options)
    ports = ["--clients", "tcp://127.0.0.1:*", "--workers", "tcp://127.0.0.1:*", "--admin", "tcp://127.0.0.1:*"]
    ready = programs.start("broker", BIN / "lanemq-broker", *(ports if options.free_ports else ()),
                           "--store", f"sqlite:{folder / 'lanemq.db'}", "--set", "budget.openai.match.service=openai",
                           "--set", f"budget.openai.requests_per_minute={options.rpm}")
    endpoints = dict(part.split("=", 1) for part in ready.split())
    left = left_from_last_time(endpoints["clients"])
    programs.start("worker", BIN / "lanemq-worker", "--broker", endpoints["workers"], "--capacity", "64",
                   "--service", f"openai=openai:{base}", "--service", "echo=echo")
    listen = ["--listen", "127.0.0.1:0"] if options.free_ports else []
    gateway = programs.start("gateway", BIN / "lanemq-gateway", "--broker", endpoints["clients"], *listen,
                             "--state", folder / "gateway")
    return endpoints["clients"], gateway, f"{base} ({words}; {options.rpm} calls a minute)", left


def left_from_last_time(clients):
    """How many jobs the broker found in its store."""
    asked = subprocess.run([BIN / "lanemq", "--broker", clients, "stats", "--json"], capture_output=True, text=True)
    lanes = json.loads(asked.stdout)["lanes"].values() if asked.returncode == 0 else ()
    return sum(lane["queued"] + lane["delayed"] + lane["running"] for lane in lanes)


def lesson(clients, gateway, folder):
    """What to type, and what is printed."""
    elsewhere = clients != os.environ.get("LANEMQ_BROKER", "tcp://127.0.0.1:5570")
    return f"""$ export PATH="{BIN}:$PATH"{f" LANEMQ_BROKER={clients}" if elsewhere else ""}
$ lanemq submit --service echo --lane critical 'hello'
hello
$ curl -sN {gateway}/lane/critical/v1/chat/completions -H 'content-type: application/json' -d @{folder}/chat.json
data: ...
...
data: [DONE]
...
$ lanemq run {folder}/prompts.jsonl --service openai --lane batch --out answers.jsonl
...
lanemq: run: {PROMPTS} lines: {PROMPTS} done, 0 failed; ...; answers in answers.jsonl
$ lanemq stats
...
critical ...
...
batch ...
..."""


def say(programs, options, folder):
    clients, gateway, upstream, left = start(programs, options, folder)
    write_requests(folder, os.environ.get("LANEMQ_MODEL", "gpt-4o-mini"))
    print(f"""LaneMQ runs:

gateway   {gateway}/v1 (base_url of an OpenAI SDK; {gateway} of Anthropic's)
broker    {clients}
worker    services openai and echo, 64 jobs at once
upstream  {upstream}

Type in a second terminal what stands behind $; below it stands what comes back, ... for what differs:

{lesson(clients, gateway, folder)}

{f"Jobs that are left from last time, and go on: {left}." if left else "No jobs are left from last time."}
Jobs, batches and logs are kept in {folder}
To stop: Ctrl-C. Jobs that wait come back with the next start. To start anew, stop and type: rm -r {folder}""", flush=True)


def serve(options):
    folder = folder_of(options)
    folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell started it in the background
    programs = Programs(folder, hint="" if options.free_ports else "--free-ports takes ports that nothing has")
    try:
        say(programs, options, folder)
        name = programs.first_to_end()
        print(f"scripts/run: {name} ended; its log, {folder}/{name}.log:\n{programs.log_of(name)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all are being stopped, within seconds
        print("stopping", file=sys.stderr)
        return 0
    finally:
        programs.stop()
