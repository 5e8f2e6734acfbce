# SPDX-License-Identifier: Apache-2.0
"""What nobody finds of secrets: a table of kinds of secrets by places where others look.

`Running` plants a secret of each kind in an installation with keys on the wire, uses them all, and reads all that the programs
say and leave. `Misplaced` gives a secret where none belongs. `Memory` looks into the processes. A secret counts as found in
clear, in base64, in hex and percent-encoded.

The test has to find, too: a variable that nothing names stays in the environment (`control`), the upstreams must have seen
each of their keys, and what repeats a key must come back with `[secret]` in its place.
"""

import base64
import contextlib
import hashlib
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest
import urllib.parse

import zmq

import harness

CHAT = "/v1/chat/completions"
DIGITS = "0123456789abcdefABCDEF"


def planted(kind):
    """Shaped as keys of APIs are: long, and like nothing else."""
    return f"sk-{kind}-{DIGITS}{len(kind):02}"


def of_webhook(secret):
    """As it is written for what signs webhooks."""
    return "whsec_" + base64.b64encode(secret.encode()).decode()


def sha256(secret):
    return hashlib.sha256(secret.encode()).hexdigest()


def forms(secret):
    """How a secret may be written."""
    raw = secret.encode()
    encoded = {base64.b64encode(bytes(shift) + raw).decode()[4:-4] for shift in range(3)}
    return {secret, raw.hex(), urllib.parse.quote(secret, safe=""), json.dumps(secret)[1:-1], *encoded}


def found_in(text, secrets):
    """The names of those that can be read there."""
    return [name for name, secret in secrets.items() if any(form in text for form in forms(secret))]


class Finder(unittest.TestCase):
    def test_finds_each_form_and_nothing_else(self):
        secrets = {"one": planted("one"), "other": planted("other")}
        raw = secrets["one"].encode()
        for text in (secrets["one"], raw.hex(), base64.b64encode(raw).decode(), base64.b64encode(b"u:" + raw).decode(),
                     "x" + urllib.parse.quote("a/" + secrets["one"])):
            self.assertEqual(found_in(f"what {text} is", secrets), ["one"], text)
        self.assertEqual(found_in(f"sk-one... [secret] {DIGITS}", secrets), [])


class Hostile(http.server.BaseHTTPRequestHandler):
    """An upstream that repeats the key that it was given, in the way that the body's model names."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        said = self.headers.get("authorization") or self.headers.get("x-api-key") or ""
        key = said.removeprefix("Bearer ")
        self.server.seen.add(key)
        self.server.signatures.add(len((self.headers.get("webhook-signature") or "").split()))
        how = (json.loads(body).get("model") or "refuses").split("@")[0]
        getattr(self, how)(key)

    def answer(self, status, text, kind="application/json", reason=None, **headers):
        body = text.encode()
        self.send_response(status, reason)
        for name, value in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def refusal(self, key, code="invalid_api_key"):
        return json.dumps({"error": {"message": f"This request is odd, it says {key}.", "type": key, "param": key, "code": code}})

    def refuses(self, key):
        self.answer(400, self.refusal(key, "bad"))

    def unknown_key(self, key):
        self.answer(401, self.refusal(key))

    def in_code(self, key):
        self.answer(400, self.refusal(key, key))

    def in_headers(self, key):
        names = ("x_request_id", "retry_after", "www_authenticate", "x_ratelimit_limit_requests", "x_ratelimit_reset_requests",
                 "anthropic_ratelimit_requests_reset", "location", "set_cookie", "openai_organization")
        self.answer(400, self.refusal(key, "bad"), **dict.fromkeys(names, key))

    def limits(self, key):
        self.answer(429, self.refusal(key, "rate_limit_exceeded"), retry_after=key)

    def in_kind(self, key):
        self.answer(400, self.refusal(key, "bad"), kind=f"application/json; charset={key}")

    def redirects(self, key):
        self.answer(302, "", location=f"https://{key}@127.0.0.1:9/{key}?key={key}")

    def in_reason(self, key):
        self.answer(400, self.refusal(key, "bad"), reason=key)

    def in_text(self, key):
        self.answer(500, f"<h1>{key}</h1>", kind="text/html")

    def escaped(self, key):
        self.answer(400, self.refusal("KEY", "bad").replace("KEY", "".join(f"\\u{ord(c):04x}" for c in key)))

    def garbage(self, key):
        self.wfile.write(f"{key} is no HTTP {key}\r\n\r\n".encode())
        self.close_connection = True

    def breaks_off(self, key):
        self.send_response(200)
        self.send_header("content-length", "1000000")
        self.end_headers()
        self.wfile.write(key.encode())
        self.close_connection = True

    def content(self, key):
        self.answer(200, json.dumps({"id": key, "object": "chat.completion", "model": key, "usage": {}, "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": f"Your key is {key}."}}]}))

    def streams(self, key):
        events = [json.dumps({"id": key, "object": "chat.completion.chunk", "choices": [
            {"index": 0, "delta": {"role": "assistant", "content": f"It is {key}."}}]}), "[DONE]"]
        self.answer(200, "".join(f"event: {key}\ndata: {event}\n\n" for event in events), kind="text/event-stream")

    def error_event(self, key):
        first = json.dumps({"choices": [{"index": 0, "delta": {"content": "So"}}]})
        self.answer(200, f": {key}\ndata: {first}\n\ndata: {self.refusal(key, 'bad')}\n\n", kind="text/event-stream")

    def log_message(self, *_):
        pass


WHOLE = ("refuses", "limits", "unknown_key", "in_code", "in_headers", "in_kind", "redirects", "in_reason", "in_text", "escaped", "garbage",
         "breaks_off", "content")
STREAMED = (*WHOLE, "streams", "error_event")


def chat(model, stream=False):
    return {"model": model, "messages": [{"role": "user", "content": "Hi"}], **({"stream": True} if stream else {})}


class Running(harness.Case):
    arguments = None
    log_format = "text"
    KINDS = ("openai", "anthropic", "pooled-variable", "pooled-file", "header-credential", "proxy-password", "caller-variable",
             "caller-file", "caller-credential", "caller-hashed", "wrong-bearer", "wrong-x-api-key", "wrong-basic", "wrong-query",
             "wrong-cookie", "wrong-body", "wrong-operator", "operator", "misplaced-reload", "hook-variable", "hook-file")

    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.secrets = {kind: planted(kind) for kind in self.KINDS}
        self.control = planted("control")
        self.curve = {}
        for name in ("broker", "worker", "proxied", "gateway", "cli", "stranger"):
            self.curve[name], secret = (half.decode() for half in zmq.curve_keypair())
            self.secrets[f"curve-{name}"] = secret
        self.environment = {**os.environ, "XDG_STATE_HOME": self.path("state"), "CREDENTIALS_DIRECTORY": self.path("credentials"),
                            "UNUSED": self.control}
        self.own = set()  # files that hold secrets because the test put them there
        os.mkdir(self.path("keys.d"))
        os.mkdir(self.path("credentials"))
        self.hostile = self.serve_hostile()
        self.start_all()

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        self.own.add(self.path(name))
        return self.path(name)

    def serve_hostile(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
        server.seen, server.signatures, server.daemon_threads = set(), set(), True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def start(self, name, *arguments, **variables):
        """Returns when it is ready; `process.command` is how it was called."""
        command = (harness.program(name), *arguments, "--log-level", "debug", "--log-format", self.log_format)
        environment = {**self.environment, **variables}
        process = self.room.start(harness.Process(*command, env=environment))
        process.command, process.environment, process.ready_line = command, environment, process.line()
        self.assertTrue(process.ready_line.startswith("ready"), process.stderr())
        return process

    def start_all(self):
        secrets = self.secrets
        for role, name in (("worker", "worker"), ("worker", "proxied"), ("gateway", "gateway"), ("gateway", "cli")):
            self.write(f"keys.d/{name}.toml", f'public_key = "{self.curve[name]}"\nrole = "{role}"\n')
        for name in ("worker", "cli"):
            self.write(f"{name}.key", secrets[f"curve-{name}"] + "\n")
        self.start_broker()
        hostile = f"http://127.0.0.1:{self.hostile.server_port}"
        honest = self.room.start(harness.Process(harness.program("lanemq-upstream"), "--latency-ms", "1"))
        honest = honest.line().removeprefix("ready ")
        self.write("pooled", secrets["pooled-file"] + "\n")
        self.write("credentials/header", secrets["header-credential"])
        self.write("hook", of_webhook(secrets["hook-file"]) + "\n")
        of_broker = ("--broker", self.room.broker.workers, "--broker-key", self.curve["broker"])
        worker = self.write("worker.toml", f"""
[[service]]
name = "raw"
handler = "http:{hostile}/raw"
headers = {{ Authorization = "Bearer {{key}}" }}
keys = {{ k1 = "env:POOLED", k2 = "file:{self.path("pooled")}" }}
[[service]]
name = "credential"
handler = "http:{hostile}/credential"
headers = {{ x-api-key = "credential:header" }}
[[service]]
name = "hooks"
handler = "webhook"
hosts = ["{hostile}"]
secrets = ["env:HOOK", "file:{self.path("hook")}"]
""")
        self.worker = self.start(
            "lanemq-worker", *of_broker, "--secret-key", f"file:{self.path('worker.key')}", "--config", worker, "--service",
            f"honest=openai:{honest}/v1", "--service", f"openai=openai:{hostile}/v1", "--service", f"anthropic=anthropic:{hostile}",
            OPENAI_API_KEY=secrets["openai"], ANTHROPIC_API_KEY=secrets["anthropic"], POOLED=secrets["pooled-variable"],
            HOOK=of_webhook(secrets["hook-variable"]))
        self.proxied = self.start(
            "lanemq-worker", *of_broker, "--secret-key", "env:OWN", "--service", f"proxied=http:{hostile}/x", "--http-proxy", "env:PROXY",
            OWN=secrets["curve-proxied"], PROXY=f"http://me:{secrets['proxy-password']}@127.0.0.1:9")
        self.write("caller", secrets["caller-file"])
        self.write("credentials/caller", secrets["caller-credential"])
        self.keys = "\n".join(f'[[key]]\nname = "{name}"\nsecret = "{source}"\nservices = ["*"]\n' for name, source in (
            ("by-variable", "env:CALLER"), ("by-file", f"file:{self.path('caller')}"), ("by-credential", "credential:caller")))
        self.write("gateway.toml", self.keys)
        self.gateway = self.start(
            "lanemq-gateway", "--broker", self.room.broker.clients, "--broker-key", self.curve["broker"], "--secret-key", "env:OWN",
            "--listen", "127.0.0.1:0", "--config", self.path("gateway.toml"), "--access-log",
            OWN=secrets["curve-gateway"], CALLER=secrets["caller-variable"])
        self.address = self.gateway.ready_line.removeprefix("ready http://")
        self.soon = {"x_lanemq_timeout_ms": "500"}  # what is limited waits for that long

    def start_broker(self):
        self.broker_file = """
keys_folder = "keys.d"
secret_key = "env:OWN"
attempts_max = 1
breaker = false
learn_limits = false
[[budget]]
name = "raw"
match = { service = "raw" }
keys = [{ name = "k1" }, { name = "k2" }]
[[http_key]]
name = "operator"
sha256 = "SHA256"
role = "operator"
""".replace("keys.d", self.path("keys.d")).replace("SHA256", sha256(self.secrets["operator"]))
        path = self.write("broker.toml", self.broker_file)
        command = ("--config", path, "--store", f"sqlite:{self.path('jobs.db')}", "--http", "127.0.0.1:0", "--log-level",
                   "debug", "--log-format", self.log_format)
        environment = {**self.environment, "OWN": self.secrets["curve-broker"]}
        broker = self.room.start_broker(*command, env=environment)
        broker.command, broker.environment = (harness.program("lanemq-broker"), *command), environment

    # ---- what the places are: each yields (where, text)

    def ask(self, method, path, body=None, **headers):
        """One request, as `headers` say who asks; the whole answer as a text, head and all."""
        with contextlib.closing(http.client.HTTPConnection(self.address, timeout=harness.PATIENCE)) as connection:
            headers = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body if body is None or isinstance(body, str) else json.dumps(body),
                               {"content-type": "application/json", **headers})
            answer = connection.getresponse()
            self.status = answer.status
            return f"{answer.status} {answer.reason} {answer.getheaders()} {answer.read().decode(errors='replace')}"

    def as_caller(self, kind="caller-variable"):
        return {"authorization": f"Bearer {self.secrets[kind]}"}

    def answers_to_callers(self):
        for kind in ("caller-variable", "caller-file", "caller-credential"):
            yield f"files of {kind}", self.ask("GET", "/v1/files", **self.as_caller(kind))
            self.assertEqual(self.status, 200)
        for stream in (False, True):
            for model in STREAMED if stream else WHOLE:
                yield f"chat {model} {stream}", self.ask("POST", CHAT, chat(model, stream), **self.as_caller(), **self.soon)
                yield f"message {model} {stream}", self.ask(
                    "POST", "/v1/messages", {**chat(model, stream), "max_tokens": 5}, **self.as_caller("caller-file"), **self.soon)
        yield "honest", self.ask("POST", "/service/honest" + CHAT, chat("m"), **self.as_caller())
        left = self.ask("POST", "/v1/jobs", {"id": "left", "request": {"endpoint": CHAT, "body": chat("refuses")}}, **self.as_caller())
        self.assertEqual(self.status, 202, left)
        yield "left", left
        yield "its answer", self.ask("GET", "/v1/jobs/left?wait_ms=20000", **self.as_caller())

    def answers_to_strangers(self):
        wrong = {kind: self.secrets[kind] for kind in self.KINDS if kind.startswith("wrong")}
        basic = base64.b64encode(f"u:{wrong['wrong-basic']}".encode()).decode()
        for what, path, headers in (
                ("bearer", CHAT, {"authorization": f"Bearer {wrong['wrong-bearer']}"}),
                ("x-api-key", "/v1/messages", {"x_api_key": wrong["wrong-x-api-key"]}),
                ("basic", CHAT, {"authorization": f"Basic {basic}"}),
                ("no scheme", CHAT, {"authorization": wrong["wrong-bearer"]}),
                ("query", f"{CHAT}?api_key={wrong['wrong-query']}", {}),
                ("query of a known caller", f"{CHAT}?api_key={wrong['wrong-query']}", self.as_caller()),
                ("cookie", CHAT, {"cookie": f"key={wrong['wrong-cookie']}"}),
                ("bearer of a job", "/v1/jobs", {"authorization": f"Bearer {wrong['wrong-bearer']}"}),
                ("bearer of metrics", "/metrics", {"authorization": f"Bearer {wrong['wrong-bearer']}"})):
            yield f"answer to a wrong {what}", self.ask("POST", path, chat("refuses"), **headers)
        self.ask("POST", CHAT, {**chat("refuses"), "api_key": wrong["wrong-body"]}, **self.as_caller())
        for path in ("/metrics", "/readyz", "/healthz", "/nowhere"):
            yield path, self.ask("GET", path)
        stranger = self.room.client(options=self.as_peer("stranger"))
        stranger.send("ping", {})
        harness.wait_until(lambda: "peer.key_refused" in self.room.broker.stderr(), "the stranger is refused")
        stranger.close()

    def as_peer(self, name):
        return ((zmq.CURVE_SERVERKEY, self.curve["broker"].encode()), (zmq.CURVE_PUBLICKEY, self.curve[name].encode()),
                (zmq.CURVE_SECRETKEY, self.secrets[f"curve-{name}"].encode()))

    def answers_on_the_wire(self):
        client = self.room.client(options=self.as_peer("cli"))
        for service in ("raw", "raw", "credential", "proxied", "openai", "anthropic"):
            for model in WHOLE if service != "proxied" else WHOLE[:1]:
                client.submit(service, json.dumps({**chat(model), "max_tokens": 5}).encode(), id=f"{service}-{model}-{self.room.asked}", timeout_ms=500)
                answer = client.get()
                yield f"wire {service} {model}", f"{answer.fields} {answer.body.decode(errors='replace')}"
                client.settled()
        address = f"http://127.0.0.1:{self.hostile.server_port}"
        for url in (f"{address}/hook", "https://elsewhere.example/hook"):
            client.submit("hooks", json.dumps(chat("refuses")).encode(), timeout_ms=500, **{"x-webhook-url": url})
            answer = client.get()
            yield f"wire hooks {url != f'{address}/hook'}", f"{answer.fields} {answer.body.decode(errors='replace')}"
        operator = self.room.operator()
        yield "wire stats", str(operator.ask("stats").fields)

    def batches(self):
        lines = "\n".join(json.dumps({"custom_id": model, "method": "POST", "url": CHAT, "body": chat(model)}) for model in WHOLE if model != "limits")
        form = ('--XX\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--XX\r\ncontent-disposition: form-data; '
                f'name="file"; filename="in.jsonl"\r\n\r\n{lines}\r\n--XX--\r\n')
        caller = self.as_caller()
        file = self.ask("POST", "/v1/files", form, **{**caller, "content_type": "multipart/form-data; boundary=XX"})
        batch = self.ask("POST", "/v1/batches", {"input_file_id": re.search(r'"id": ?"([^"]+)', file)[1], "endpoint": CHAT,
                                                 "completion_window": "24h"}, **caller)
        name = re.search(r'"id": ?"([^"]+)', batch)[1]

        def over():
            text = self.ask("GET", f"/v1/batches/{name}", **caller)
            return '"completed_at": 1' in text.replace('":1', '": 1') and text

        text = harness.wait_until(over, "the batch's end", pause=0.05, patience=3 * harness.PATIENCE)
        yield "batch", text
        for kind in ("output_file_id", "error_file_id"):
            file = re.search(rf'"{kind}": ?"([^"]+)', text)[1]
            content = self.ask("GET", f"/v1/files/{file}/content", **caller)
            yield kind, content

    def of_the_command_line(self):
        return {**self.environment, "OWN": self.secrets["curve-cli"], "LANEMQ_BROKER": self.room.broker.clients,
                "LANEMQ_ADMIN": self.room.broker.admin, "LANEMQ_BROKER_KEY": self.curve["broker"], "LANEMQ_CLIENT_KEY": "env:OWN"}

    def lanemq(self, *words):
        """What a command says."""
        done = subprocess.run([harness.program("lanemq"), *words], env=self.of_the_command_line(), text=True, capture_output=True,
                              timeout=harness.PATIENCE * 3, cwd=self.folder, check=False)
        self.assertNotIn("COMMAND --help", done.stderr, f"{words} is no command")
        return f"{done.returncode} {done.stdout} {done.stderr}"

    def commands(self):
        """Each command as an operator or a client types it."""
        trace = self.write("trace.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2026-01-01 00:00:00,5,5\n")
        lines = self.write("in.jsonl", "".join(json.dumps(chat(model)) + "\n" for model in WHOLE if model != "limits"))
        body = json.dumps(chat("refuses"))
        return {
            "submit": ("submit --service openai --attempts-max 1 --json", body), "run": (f"run {lines} --service openai --out out.jsonl",),
            "stats": ("stats --json",), "ping": ("ping",), "bench": ("bench --service proxied -n 1 --attempts-max 1 --timeout 2s",),
            "status": ("status left",), "cancel": ("cancel nothing",), "fetch": ("fetch kept",), "explain": ("explain waits",),
            "limits": ("limits --json",), "jobs": ("jobs --json",), "job": ("job kept --json",), "lanes": ("lanes --json",),
            "services": ("services --json",), "workers": ("workers --json",), "clients": ("clients --json",), "dead": ("dead --json",),
            "redrive": ("redrive kept",), "purge": ("purge --all --dry-run",), "pauses": ("pauses",), "pause": ("pause lane low",),
            "resume": ("resume lane low",), "drain": ("drain nobody",), "move": ("move waits low",), "backup": ("backup copy.db",),
            "reload": ("reload",), "config": ("config --json",), "changes": ("changes --json",), "plugin": ("plugin",), "check": (f"check --json --gateway http://{self.address} --workers {self.room.broker.workers}",),
            "cluster": (f"cluster status --json --http {self.room.broker.http}",), "top": ("top --json",), "simulate": (f"simulate --trace {trace}",), "keygen": ("keygen somebody --role client",),
            "completion": ("completion bash",), "help": ("help submit",)}

    def said_by_the_command_line(self):
        commands = self.commands()
        text = self.lanemq("--help")
        listed = re.findall(r"(?m)^  (\w+) ", text[text.index("Subcommands:"):])
        self.assertEqual(sorted([*commands, "watch"]), sorted(listed), "a command is not asked")
        yield "lanemq watch", self.said_by_a_watch()
        for job, service in (("kept", "openai"), ("waits", "nobody")):
            self.lanemq("submit", "--no-wait", "--service", service, "--attempts-max", "1", "--id", job, json.dumps(chat("refuses")))
        for name, (words, *body) in commands.items():
            yield f"lanemq {name}", self.lanemq(*words.split(), *body)
            yield f"lanemq {name} --help", self.lanemq(name, "--help")

    def said_by_a_watch(self):
        """Of a job whose upstream refuses it, to its end."""
        watch = self.room.start(harness.Process(harness.program("lanemq"), "watch", "refused", "--json", "-n", "3",
                                                env=self.of_the_command_line()))
        said = [watch.line()]
        self.lanemq("submit", "--service", "openai", "--attempts-max", "1", "--id", "refused", json.dumps(chat("refuses")))
        said += [watch.line() for _ in range(3)]
        self.assertIn('"ended"', said[-1])
        return "".join(said) + watch.stderr()

    def answers_to_operators(self):
        """The broker's HTTP, to whom it knows and to whom not."""
        address = urllib.parse.urlsplit(self.room.broker.http).netloc
        for kind in ("operator", "wrong-operator"):
            headers = {"authorization": f"Bearer {self.secrets[kind]}", "content-type": "application/json"}
            for method, path in (*(("GET", f"/v1/{what}") for what in ("stats", "config", "changes", "workers", "dead", "openapi.json")),
                                 ("GET", "/"), ("GET", f"/v1/jobs?client={self.secrets['wrong-operator']}&bad=1"),
                                 ("POST", "/v1/reload"), ("POST", "/v1/pause")):
                with contextlib.closing(http.client.HTTPConnection(address, timeout=harness.PATIENCE)) as connection:
                    connection.request(method, path, "{}" if method == "POST" else None, headers)
                    answer = connection.getresponse()
                    text = answer.read().decode(errors="replace")
                    self.assertEqual(answer.status == 401, kind == "wrong-operator" and path != "/", (kind, path, text))
                    yield f"http {path.partition('?')[0]} {kind}", f"{answer.status} {answer.getheaders()} {text}"

    def said_by_a_reload(self):
        """What reloads say: of what changed, and of mistakes with a secret in the wrong place."""
        wrong = self.secrets["misplaced-reload"]
        self.write("broker.toml", self.broker_file.replace('{ name = "k2" }', '{ name = "k2", weight = 3 }'))
        yield "lanemq reload", self.lanemq("reload")
        for line in (f'secret_key = "{wrong}"\n', f'heartbeat = "{wrong}"\n', f'api_key = "{wrong}"\n', f'"{wrong}" = 1\n'):
            text = self.broker_file if "secret_key" not in line else self.broker_file.replace('secret_key = "env:OWN"\n', "")
            self.write("broker.toml", line + text)
            said = self.lanemq("reload")
            self.assertTrue(said.startswith("1 "), said)
            yield f"lanemq reload of {line}", said
        self.write("keys.d/wrong.toml", f'public_key = "{wrong}"\nrole = "client"\n')
        self.write("broker.toml", self.broker_file)
        yield "lanemq reload of a key file", self.lanemq("reload")
        os.remove(self.path("keys.d/wrong.toml"))
        self.signal(self.room.broker, "config.reloaded")
        for extra in (f'[[key]]\nname = "x"\nsecret = "{wrong}"\n', f'[[key]]\nname = "x"\nsha256 = "{wrong}"\n',
                      f'[[model]]\nname = "x"\nkey = "{wrong}"\n'):
            self.write("gateway.toml", self.keys + extra)
            self.signal(self.gateway, "config.reload_failed")
        self.write("gateway.toml", self.keys + f'[[key]]\nname = "hashed"\nsha256 = "{sha256(self.secrets["caller-hashed"])}"\n')
        self.signal(self.gateway, "config.reloaded")
        yield "files of a new key", self.ask("GET", "/v1/files", **self.as_caller("caller-hashed"))
        self.assertEqual(self.status, 200)
        self.secrets["pooled-file-after"] = planted("after")
        self.write("pooled", self.secrets["pooled-file-after"])
        self.secrets["hook-file-after"] = planted("hook-after")
        self.write("hook", of_webhook(self.secrets["hook-file-after"]))
        for worker in (self.worker, self.proxied):
            self.signal(worker, "secrets.read_again")

    def signal(self, process, event):
        before = process.stderr().count(event)
        process.signal(signal.SIGHUP)
        harness.wait_until(lambda: process.stderr().count(event) > before, event)

    def seen_of_the_processes(self):
        for process in (self.room.broker, self.worker, self.proxied, self.gateway):
            name = os.path.basename(process.command[0])
            yield f"log of {name}", process.stderr()
            for pid in (process.pid, *self.children(process.pid)):
                for file in ("environ", "cmdline", "comm"):
                    with open(f"/proc/{pid}/{file}", "rb") as of:
                        yield f"{file} of {name}", of.read().decode(errors="replace")
            for flag in ("--print-config", "--check", "--help", "--version"):
                done = subprocess.run([*process.command, flag], env=process.environment, text=True, capture_output=True,
                                      timeout=harness.PATIENCE, check=False)
                yield f"{name} {flag}", done.stdout + done.stderr

    def children(self, pid):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                yield from map(int, file.read().split())

    def left_in_files(self):
        for folder, _, names in os.walk(self.folder):
            for name in names:
                if (path := os.path.join(folder, name)) not in self.own and os.path.isfile(path):
                    with open(path, "rb") as file:
                        yield f"file {path[len(self.folder):]}", file.read().decode("latin1")

    # ----

    def test_nobody_finds_a_planted_secret(self):
        places = {}
        for source in (self.answers_to_callers, self.answers_to_strangers, self.answers_on_the_wire, self.batches,
                       self.said_by_the_command_line, self.answers_to_operators, self.said_by_a_reload, self.answers_on_the_wire,
                       self.seen_of_the_processes, self.left_in_files):
            for where, text in source():
                places[where] = places.get(where, "") + text
        # Bodies and queries of requests are the callers' own: they go to the upstream, and are on disk where jobs are.
        of_jobs, disks = {"wrong-body", "wrong-query"}, ("file /jobs.db", "file /copy.db")

        leaks = [(kind, where) for where, text in places.items() for kind in found_in(text, self.secrets)
                 if not (kind in of_jobs and where.startswith(disks))]
        self.assertFalse(leaks, "secrets are in the open:\n" + "\n".join(f"{kind:24} {where}" for kind, where in leaks))
        self.assert_it_could_have_been_found(places)

    def assert_it_could_have_been_found(self, places):
        self.assertEqual({where.split()[0] for where in places if self.control in places[where]}, {"environ"})
        keys = ("openai", "anthropic", "pooled-variable", "pooled-file", "header-credential", "pooled-file-after")
        self.assertEqual({kind for kind in keys if self.secrets[kind] not in self.hostile.seen}, set(), "was never sent")
        self.assertIn(2, self.hostile.signatures, "no webhook was signed with two secrets")
        for where in ("chat refuses False", "chat content False", "chat streams True", "message refuses False", "wire raw refuses",
                      "wire credential content", "lanemq submit", "file /out.jsonl", "output_file_id",
                      "error_file_id"):
            self.assertIn("[secret]", places[where], where)
        for event in ("request.answered", "request.refused", "config.reload_failed", "config.keys_added"):
            self.assertIn(event, places["log of lanemq-gateway"])
        for event in ("peer.key_refused", "admin.pause", "config.changed"):
            self.assertIn(event, places["log of lanemq-broker"])


class RunningInJson(Running):
    log_format = "json"


SECRET = planted("misplaced")
CURVE = "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6"
HOOK = ("--service", "h=webhook")
ECHO, CALL = ("--service", "x=echo"), ("--service", "chat=openai:http://127.0.0.1:9")

# Secrets where none belong: the program, its words, its file. {s} is the secret, {f} the file, {d} a folder; the variable K and
# the file {d}/k hold the secret. Names that are shown wherever their thing is (lanes, services, keys' names) are not here.
MISPLACED = (
    ("lanemq-broker", ("--secret-key", "{s}"), ""), ("lanemq-broker", ("--secret-key", "{s}", "--keys-folder", "{d}"), ""),
    ("lanemq-broker", ("--secret-key", "env:K", "--keys-folder", "{d}"), ""),
    ("lanemq-broker", ("--secret-key", "file:{d}/k", "--keys-folder", "{d}"), ""),
    ("lanemq-broker", ("--secret-key", "env:{s}", "--keys-folder", "{d}"), ""),
    ("lanemq-broker", ("--api-key", "{s}"), ""), ("lanemq-broker", ("--api-key={s}",), ""), ("lanemq-broker", ("{s}",), ""),
    ("lanemq-broker", ("--clients", "{s}"), ""), ("lanemq-broker", ("--clients", "tcp://user:{s}@10.0.0.1:1"), ""),
    ("lanemq-broker", ("--store", "{s}"), ""), ("lanemq-broker", ("--log-level", "{s}"), ""),
    ("lanemq-broker", ("--set", "{s}"), ""), ("lanemq-broker", ("--set", "{s}=1"), ""), ("lanemq-broker", ("--set", "heartbeat={s}"), ""),
    ("lanemq-broker", ("--config", "{f}"), 'heartbeat = "{s}"\n'), ("lanemq-broker", ("--config", "{f}"), "secret_key = {s}\n"),
    ("lanemq-broker", ("--config", "{f}"), '"{s}" = 1\n'), ("lanemq-broker", ("--config", "{f}"), "{s}\n"),
    ("lanemq-broker", ("--config", "{f}"), 'api_key = "{s}"\n'),
    ("lanemq-broker", ("--config", "{f}"), '[[budget]]\nname = "a"\nkeys = [{ name = "k", secret = "{s}" }]\n'),
    ("lanemq-broker", ("--config", "{f}"), '[[budget]]\nname = "a"\nkeys = [{ name = "k", weight = "{s}" }]\n'),
    ("lanemq-worker", ("--secret-key", "{s}", *ECHO), ""), ("lanemq-worker", ("--secret-key", "env:K", *ECHO), ""),
    ("lanemq-worker", ("--broker-key", "{s}", "--secret-key", "env:K", "--connect-timeout", "100ms", *ECHO), ""),
    ("lanemq-worker", ("--key", "{s}", *CALL), ""), ("lanemq-worker", ("--key", "chat/{s}", *CALL), ""),
    ("lanemq-worker", ("--key", "{s}=env:K", *CALL), ""), ("lanemq-worker", ("--key", "chat/k1={s}", *CALL), ""),
    ("lanemq-worker", ("--key", "{s}/k1=env:K", *CALL), ""),
    ("lanemq-worker", ("--http-header", "{s}", "--service", "c=http:http://127.0.0.1:9"), ""), ("lanemq-worker", ("--service", "{s}"), ""),
    ("lanemq-worker", ("--http-header", "Authorization: Bearer {s}", "--service", "c=http:http://127.0.0.1:9"), ""),
    ("lanemq-worker", ("--http-header", "Authorization Bearer {s}", "--service", "c=http:http://127.0.0.1:9"), ""),
    ("lanemq-worker", ("--service", "chat={s}"), ""), ("lanemq-worker", ("--service", "chat=openai:{s}"), ""),
    ("lanemq-worker", ("--service", "chat=echo:{s}"), ""), ("lanemq-worker", ("--service", "chat=openai:https://u:{s}@127.0.0.1:9/v1"), ""),
    ("lanemq-worker", ("--service", "chat=openai:https://u:{s}@127.0.0.1:99999/v1"), ""),
    ("lanemq-worker", ("--http-proxy", "http://u:{s}@127.0.0.1:9", *CALL), ""),
    ("lanemq-worker", ("--http-proxy", "http://u:{s}@127.0.0.1:9", "--print-config", *CALL), ""),
    ("lanemq-worker", ("--http-proxy", "env:{s}", *CALL), ""), ("lanemq-worker", ("--capacity", "{s}", *ECHO), ""),
    ("lanemq-worker", ("--timeout", "{s}", *CALL), ""), ("lanemq-worker", ("--timeout", "batch.total={s}", *CALL), ""),
    ("lanemq-worker", ("--broker", "{s}", *ECHO), ""), ("lanemq-worker", ("--broker", "tcp://u:{s}@127.0.0.1:9", *ECHO), ""),
    ("lanemq-worker", ("--webhook", "{s}", *HOOK), ""), ("lanemq-worker", ("--webhook", "h.secrets={s}", *HOOK), ""),
    ("lanemq-worker", ("--webhook", "h.secrets={s}", "--print-config", *HOOK), ""),
    ("lanemq-worker", ("--webhook", "h.secrets=env:K", "--webhook", "h.hosts=h.example", *HOOK), ""),
    ("lanemq-worker", ("--webhook", "h.secrets=file:{d}/k", "--webhook", "h.hosts=h.example", *HOOK), ""),
    ("lanemq-worker", ("--webhook", "h.secrets=env:K", "--webhook", "h.hosts={s}", *HOOK), ""),
    ("lanemq-worker", ("--webhook", "h.secrets=env:K", "--webhook", "h.hosts=https://u:{s}@h.example", *HOOK), ""),
    ("lanemq-worker", ("--config", "{f}"), '[[service]]\nname = "h"\nhandler = "webhook"\nhosts = ["h.example"]\nsecrets = ["{s}"]\n'),
    ("lanemq-worker", ("--config", "{f}"), '[[service]]\nname = "h"\nhandler = "webhook"\nhosts = ["h.example"]\nsecret = "{s}"\n'),
    ("lanemq-worker", ("--config", "{f}"), '[[service]]\nname = "c"\nhandler = "openai:http://127.0.0.1:9"\nkeys = { k1 = "{s}" }\n'),
    ("lanemq-worker", ("--config", "{f}"), '[[service]]\nname = "c"\nhandler = "openai:http://127.0.0.1:9"\nkeys = "{s}"\n'),
    ("lanemq-worker", ("--config", "{f}"), '[[service]]\nname = "c"\nhandler = "openai:http://127.0.0.1:9"\napi_key = "{s}"\n'),
    ("lanemq-worker", ("--config", "{f}"),
     '[[service]]\nname = "c"\nhandler = "openai:http://127.0.0.1:9"\nheaders = { Authorization = "Bearer {s}" }\n'),
    ("lanemq-gateway", ("--config", "{f}"), '[[key]]\nname = "a"\nsecret = "{s}"\n'),
    ("lanemq-gateway", ("--config", "{f}"), '[[key]]\nname = "a"\nsecret = "env:{s}"\n'),
    ("lanemq-gateway", ("--config", "{f}"), '[[key]]\nname = "a"\nsha256 = "{s}"\n'),
    ("lanemq-gateway", ("--config", "{f}"), '[[key]]\nname = "a"\nkey = "{s}"\n'), ("lanemq-gateway", ("--config", "{f}"), 'key = "{s}"\n'),
    ("lanemq-gateway", ("--config", "{f}"), '[[key]]\nname = "{s}"\n'), ("lanemq-gateway", ("--config", "{f}"), '{s} = 1\n'),
    ("lanemq-gateway", ("--config", "{f}"), '[[key]]\nname = "a"\nsecret = "env:K"\nnot_after = "{s}"\n'),
    ("lanemq-gateway", ("--config", "{f}"), '[[key]]\nname = "a"\nsecret = "env:K"\nlanes = ["{s}"]\n'),
    ("lanemq-gateway", ("--listen", "{s}"), ""), ("lanemq-gateway", ("--auth", "{s}"), ""), ("lanemq-gateway", ("--secret-key", "{s}"), ""),
    ("lanemq-gateway", ("--tls-certificate", "{s}", "--tls-key", "{s}"), ""), ("lanemq-gateway", ("--api-key={s}",), ""),
    ("lanemq-gateway", ("{s}",), ""), ("lanemq-gateway", ("--broker", "tcp://u:{s}@127.0.0.1:9"), ""),
    ("lanemq-gateway", ("--public-url", "https://u:{s}@example.com"), ""),
    ("lanemq-gateway", ("--public-url", "https://u:{s}@example.com", "--print-config"), ""),
    ("lanemq", ("--secret-key", "{s}", "ping"), ""), ("lanemq", ("--secret-key", "env:K", "ping"), ""),
    ("lanemq", ("--broker-key", "{s}", "--secret-key", "env:K", "ping"), ""), ("lanemq", ("--broker", "tcp://u:{s}@127.0.0.1:9", "ping"), ""),
    ("lanemq", ("--api-key={s}", "ping"), ""), ("lanemq", ("--api-key", "{s}", "ping"), ""), ("lanemq", ("{s}",), ""),
    ("lanemq", ("ping", "{s}"), ""), ("lanemq", ("submit", "--service", "x", "--api-key", "{s}", "hello"), ""),
    ("lanemq", ("submit", "--service", "x", "--meta", "{s}", "hello"), ""), ("lanemq", ("submit", "--service", "x", "hello", "{s}"), ""),
    ("lanemq", ("submit", "--service", "x", "--timeout", "{s}", "hello"), ""),
    ("lanemq", ("check", "gateway", "--gateway", "http://u:{s}@127.0.0.1:9"), ""),
)


PRINTED = (
    ("lanemq-broker", ("--secret-key", "{s}")), ("lanemq-broker", ("--otlp", "http://u:{s}@127.0.0.1:1/v1")),
    ("lanemq-broker", ("--otlp", "http://127.0.0.1:1/v1?api_key={s}")), ("lanemq-broker", ("--set", 'http_hosts=["http://u:{s}@h"]')),
    ("lanemq-broker", ("--store", "postgres:host=127.0.0.1 port=1 PASSWORD={s}")), 
    ("lanemq-broker", ("--store", "postgres:host=127.0.0.1 port=1 oauth_client_secret={s}")), ("lanemq-broker", ("--http-tls-key", "{s}")),
    ("lanemq-gateway", ("--otlp", "http://u:{s}@127.0.0.1:1/v1")), ("lanemq-gateway", ("--broker", "tcp://u:{s}@h:1")),
    ("lanemq-gateway", ("--public-url", "https://h/?key={s}")),
    ("lanemq-worker", ("--service", "x=http:http://h/x?sig={s}")), ("lanemq-worker", ("--service", "x=echo", "--otlp", "http://h:1/?token={s}")),
)


class Printed(unittest.TestCase):
    def test_a_configuration_is_printed_without_what_stands_in_the_wrong_place(self):
        for program, words in PRINTED:
            with self.subTest(program=program, words=words):
                done = subprocess.run([harness.program(program), *(word.replace("{s}", SECRET) for word in words), "--print-config"],
                                      capture_output=True, text=True, timeout=harness.PATIENCE, env={**os.environ, "LANEMQ_STORE": "memory"})
                self.assertEqual(found_in(done.stdout + done.stderr, {"secret": SECRET}), [], done.stdout + done.stderr)

    def test_names_and_hashes_stay_so_that_it_can_be_read_again(self):
        name = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
        files = {"lanemq-gateway": f'openai_service = "{name}"\n[[key]]\nname = "{name}"\nsha256 = "{sha256("a")}"\nmodels = ["{name}"]\n',
                 "lanemq-broker": f'store = "memory"\n[[lane]]\nname = "{name}"\ndefault = true\n[clients."{name}"]\nweight = 2\n',
                 "lanemq-worker": f'[[service]]\nname = "{name}"\nhandler = "exec"\nargv = ["true", "sha256:{sha256("b")}"]\n'}
        for program, text in files.items():
            with self.subTest(program=program):
                printed = []
                for said in (text, None):
                    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
                        file.write(said or printed[-1])
                        file.flush()
                        done = subprocess.run([harness.program(program), "--config", file.name, "--print-config"], capture_output=True, text=True)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    printed.append(done.stdout)
                self.assertEqual(printed[0], printed[1])
                self.assertIn(name, printed[1])


class Misplaced(unittest.TestCase):
    def test_a_refusal_does_not_repeat_it(self):
        for shape, secret in (("key", SECRET), ("curve", CURVE)):
            for program, words, text in MISPLACED:
                if shape == "curve" and ("'" in text or "@" in "".join(words)):
                    continue
                with self.subTest(program=program, words=words, file=text, shape=shape), tempfile.TemporaryDirectory() as folder:
                    self.assert_refused_in_silence(program, words, text, secret, folder)

    def assert_refused_in_silence(self, program, words, text, secret, folder):
        for name, content in (("f.toml", text.replace("{s}", secret)), ("k", secret)):
            with open(os.path.join(folder, name), "w") as file:
                file.write(content)
        places = {"{s}": secret, "{f}": os.path.join(folder, "f.toml"), "{d}": folder}
        command = [re.sub(r"\{[sfd]\}", lambda found: places[found[0]], word) for word in words]
        done = subprocess.run(
            [harness.program(program), *command], capture_output=True, text=True, timeout=harness.PATIENCE, check=False,
            env={**os.environ, "K": secret, "LANEMQ_CONNECT_TIMEOUT": "100ms", "LANEMQ_STORE": "memory", "XDG_STATE_HOME": folder})
        said = done.stdout + done.stderr
        self.assertNotEqual(done.returncode, 0)
        self.assertTrue(said)
        self.assertEqual(found_in(said, {"secret": secret}), [], said)


class Memory(harness.Case):
    """Programs that run as a user without rights, as services do."""

    arguments = None

    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        os.chmod(self.folder, 0o777)
        # The folder of the build may be closed to that user.
        for name in ("lanemq-broker", "lanemq-worker", "lanemq-gateway"):
            shutil.copy(harness.program(name), self.folder)
        self.user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        self.env = {**os.environ, "HOME": self.folder, "XDG_STATE_HOME": self.folder}

    def start_as_user(self, name, *arguments):
        process = self.room.start(harness.Process(os.path.join(self.folder, name), *arguments, env=self.env, cwd=self.folder,
                                                  **self.user))
        process.words = dict(word.split("=", 1) for word in process.line().split()[1:] if "=" in word)
        return process

    def start_broker_as_user(self, *arguments):
        free = "tcp://127.0.0.1:*"
        return self.start_as_user("lanemq-broker", "--clients", free, "--workers", free, "--admin", free, *arguments)

    def what_its_user_may_read(self, process):
        """Of the process's files: another process of its user tries."""
        look = "import os, sys\nfor name in sys.argv[2:]:\n  try: os.close(os.open(f'/proc/{sys.argv[1]}/{name}', os.O_RDONLY))\n" \
               "  except PermissionError: continue\n  print(name)"
        done = subprocess.run(["/usr/bin/python3", "-c", look, str(process.pid), "environ", "mem", "maps", "fd"], text=True,
                              capture_output=True, check=True, timeout=harness.PATIENCE, cwd="/", **self.user)
        return set(done.stdout.split())

    def core_limit(self, process):
        with open(f"/proc/{process.pid}/limits") as file:
            return next(line.split()[4] for line in file if line.startswith("Max core file size"))

    def test_no_cores_and_no_looks_into_the_memory_unless_they_are_kept(self):
        for kept in (False, True):
            extra = ["--keep-cores"] if kept else []
            broker = self.start_broker_as_user(*extra)
            programs = (broker,
                        self.start_as_user("lanemq-worker", "--broker", broker.words["workers"], "--service", "echo=echo", *extra),
                        self.start_as_user("lanemq-gateway", "--broker", broker.words["clients"], "--listen", "127.0.0.1:0", *extra))
            for process in programs:
                with self.subTest(program=process.process.args[0], kept=kept):
                    # Of processes that may be attached to, Linux may still keep the memory from others (Yama).
                    self.assertEqual(self.what_its_user_may_read(process) - {"mem"}, {"environ", "maps", "fd"} if kept else set())
                    if not kept:
                        self.assertNotIn("mem", self.what_its_user_may_read(process))
                        self.assertEqual(self.core_limit(process), "0")
            for process in programs:
                process.kill()

    def test_the_broker_still_sees_a_workers_process_end(self):
        self.room.broker = broker = self.start_broker_as_user("--set", "worker_grace=10m", "--set", "heartbeat=10m")
        broker.clients = broker.words["clients"]
        worker = self.start_as_user("lanemq-worker", "--broker", broker.words["workers"], "--service", "echo=echo")

        worker.signal(signal.SIGKILL)

        self.room.stats_when(lambda stats: stats["workers"]["connected"] == 0, "the worker's loss")


if __name__ == "__main__":
    unittest.main()
