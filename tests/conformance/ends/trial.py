# SPDX-License-Identifier: Apache-2.0
"""What rules for ends are written with: the kit in the broker's place at one socket, and the end's process.

A rule is a function that is given a trial, with what docs/protocol/ says, in a sentence, as its docstring. It starts the end, says to
it what a broker may say, and returns when what it heard is right; it raises when not, and calls skip() where the end has not
what the rule is about. Nothing of the product is imported: the page is read by page.py, messages by what stands here.
"""

import collections
import contextlib
import dataclasses
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

import zmq
from msgpack import packb, unpackb

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), path) for path in ("..", "../../integration")]
from page import HEADER_BYTES_MAX, MAGIC, inheriting, is_int, is_of_type, strictly_read  # noqa: E402
from ports import free_port  # noqa: E402

PASS, FAIL, SKIP = "PASS", "FAIL", "SKIP"
# How long an end may take for what it has to do at once, in seconds. A verdict never says that it was too slow by less.
PATIENCE = float(os.environ.get("LANEMQ_TEST_PATIENCE", "10"))
# Within which a wrong endpoint is told.
TELL_S = 3.0
# A turn of the kit that takes so long, or so long a wait of the end for a processor: the machine is busy with others.
STILL_S = 0.4
SAID_MAX = 40  # messages that a failure shows
TRIES = 3  # of a rule during which the kit or the end stood still

Message = collections.namedtuple("Message", "peer envelope op fields body batch at")


@dataclasses.dataclass(frozen=True)
class Rule:
    name: str
    section: str  # a heading of docs/protocol/, an op's with its direction
    text: str
    run: collections.abc.Callable
    slow: bool  # waits for the end's clock: started first


class Rules(list):
    """The rules for one kind of end."""

    def rule(self, section, slow=False):
        def add(run):
            self.append(Rule(run.__name__.replace("_", "-"), section, " ".join(run.__doc__.split()), run, slow))
            return run

        return add


class Skip(Exception):
    pass


class Broken(AssertionError):
    """The end did what no end may do, whatever the rule is about."""


def skip(why):
    raise Skip(why)


def expect(actual, wanted, what):
    if actual != wanted:
        raise AssertionError(f"{what}: expected {shown(wanted)}, got {shown(actual)}")


def expect_that(holds, what):
    if not holds:
        raise AssertionError(what)


def shown(value):
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text)} characters)"


def pack(op, fields=None, body=None, behind=False):
    """The frames of a message. `behind`: the body goes in a frame of its own, of whatever size."""
    fields = {} if fields is None else fields
    if body is None:
        return [packb(["LMQ1", op, fields])]
    if behind:
        return [packb(["LMQ1", op, fields]), body]
    return [packb(["LMQ1", op, fields, body])]


def read(page, direction, frames, at):
    """The messages in the frames of an end, a batch as its items. Raises Broken where the page is broken."""
    peer, *frames = frames
    begin = next((i for i, frame in enumerate(frames) if frame[:6] in MAGIC), None)
    if begin is None:
        raise Broken(f"a message has no header: {shown([frame[:40] for frame in frames])}")
    envelope, header, behind = frames[:begin], frames[begin], frames[begin + 1 :]
    try:
        whole = strictly_read(header)
    except (ValueError, TypeError) as error:
        raise Broken(f"a header is malformed: {error}") from error
    if len(whole) not in (3, 4) or not isinstance(whole[1], str) or not isinstance(whole[2], (dict, list)):
        raise Broken(f'a header is not ["LMQ1", op, fields] or ["LMQ1", op, fields, body]: {shown(whole)}')
    _, op, fields, *inside = whole
    if len(behind) + len(inside) > 1:
        raise Broken(f"{op} has more than one body")
    if (direction, op) not in page.tables:
        raise Broken(f"{op!r} is no op that this end says")
    body = (inside or behind or [None])[0]
    if isinstance(fields, list):
        bodies = body if inside else unpackb(body) if body is not None else [b""] * len(fields)
        if not isinstance(bodies, list) or len(bodies) != len(fields):
            raise Broken(f"a batch of {op} has not one body for each map")
    else:
        bodies = [b"" if body is None else body]
    if not all(isinstance(one, bytes) for one in bodies):
        raise Broken(f"{op} has a body that is no bin")
    if len(header) - sum(map(len, bodies)) * bool(inside) > HEADER_BYTES_MAX:
        raise Broken(f"{op} has a header of over {HEADER_BYTES_MAX} bytes")
    items = [{**inherited, **one} for one, inherited in inheriting(fields)] if isinstance(fields, list) else [fields]
    for item in items:
        check_fields(page, direction, op, item)
    size = len(items) if isinstance(fields, list) else 0
    clean = [{name: value for name, value in item.items() if value is not None} for item in items]
    return [Message(peer, envelope, op, item, one, size, at) for item, one in zip(clean, bodies, strict=True)]


def check_fields(page, direction, op, fields):
    for field in page.fields(direction, op).values():
        value = fields.get(field.name)
        if value is None:
            if field.required:
                raise Broken(f"{op}.{field.name} is missing: {shown(fields)}")
            continue
        if not is_of_type(value, field.type):
            raise Broken(f"{op}.{field.name} is {shown(value)}, and should be {field.type}")
        least, most = field.bounds
        size = value if is_int(value) else len(value.encode()) if isinstance(value, str) else None
        if least is None or size is None or (field.name == "ref" and is_int(value)):
            continue
        if not least <= size <= most:
            raise Broken(f"{op}.{field.name} is {shown(value)}: its limit is {field.limit}")


class Trial:
    """An end at work, and the kit in its broker's place. One thread does everything."""

    direction = None  # of what the end says
    placeholder = None  # in the end's command
    interval = 0.5  # of heartbeats: an end notices silence within a second or two

    def __init__(self, page, context, command):
        self.page, self.context, self.command = page, context, command
        self.socket, self.port = None, free_port()
        self.output = threading.Event()  # the end has said something since the last turn
        self.process, self.lines, self.errors = None, [], b""
        self.readers = []
        self.inbox, self.said = collections.deque(), collections.deque(maxlen=SAID_MAX)
        self.began = time.monotonic()
        self.turn_at, self.stood_still = self.began, False
        self.peer = None
        self.may_end = False
        self.start_s = 0.0
        self.bind()

    # ---- the broker's socket ----------------------------------------------------------------------------

    def bind(self):
        """Also where the broker was before: an end looks for it there."""
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.bind(self.endpoint)

    @property
    def endpoint(self):
        return f"tcp://127.0.0.1:{self.port}"

    def vanish(self):
        """The broker is gone: its connections are cut, and what was under way is lost."""
        monitor = self.socket.get_monitor_socket(zmq.EVENT_CLOSED)
        self.socket.unbind(self.endpoint)
        if not monitor.poll(1000 * PATIENCE):  # libzmq's thread lets go of the port
            raise AssertionError(f"libzmq does not let go of {self.endpoint}")
        self.socket.disable_monitor()
        monitor.close(0)
        self.socket.close()
        self.socket = None
        self.forget_connections()
        self.note("the broker is gone")

    def come_back(self):
        self.bind()
        self.note("the broker is back")

    def forget_connections(self):
        self.peer = None

    # ---- the end ----------------------------------------------------------------------------------------

    def start(self, lines=(), endpoint=None):
        words = [word.replace(self.placeholder, endpoint or self.endpoint) for word in shlex.split(self.command)]
        with tempfile.TemporaryFile() as file:
            file.write("".join(line + "\n" for line in lines).encode())
            file.seek(0)
            try:
                self.process = subprocess.Popen(words, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                                start_new_session=True)
            except OSError as error:
                raise Broken(f"the command cannot be run: {error}") from error
        self.began = self.turn_at = time.monotonic()
        for stream, take in ((self.process.stdout, self.take_line), (self.process.stderr, self.take_error)):
            reader = threading.Thread(target=lambda stream=stream, take=take: [take(line) for line in stream], daemon=True)
            reader.start()
            self.readers.append(reader)

    def take_line(self, line):
        self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))
        self.output.set()

    def take_error(self, line):
        self.errors = (self.errors + line)[-4000:]
        self.output.set()

    def measure_start(self, lines=()):
        """Starts the end to see how long that takes here and now, and ends it again."""
        self.start(lines)
        self.pump(lambda: self.inbox, PATIENCE, "the end's first word")
        self.start_s = time.monotonic() - self.began
        self.end_process()
        self.forget_connections()
        self.inbox.clear()
        self.lines, self.errors = [], b""

    def close(self):
        self.end_process()
        if self.socket is not None:
            self.socket.close()

    def end_process(self):
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            for reader in self.readers:
                reader.join(PATIENCE)
            self.process.stdout.close()
            self.process.stderr.close()
            self.process, self.readers = None, []

    # ---- to and from the end ----------------------------------------------------------------------------

    def say(self, op, fields=None, body=None, behind=False, peer=None, envelope=()):
        self.note(f"-> {op} {shown(fields or {})}{f' + {len(body)} bytes' if body else ''}")
        self.send(pack(op, fields, body, behind), peer, envelope)

    def send(self, frames, peer=None, envelope=()):
        peer = peer or self.peer
        if peer is None:
            raise AssertionError("the end has no connection")
        self.socket.send_multipart([peer, *envelope, *frames])

    def note(self, line):
        self.said.append(f"{time.monotonic() - self.began:6.2f} s  {line}")

    def turn(self, wait):
        """Reads what has come, for at most `wait` seconds."""
        now = time.monotonic()
        self.stood_still = self.stood_still or now - self.turn_at > STILL_S
        self.tick(now)
        if self.socket is None:
            self.output.wait(min(wait, 0.02))
            self.output.clear()
        elif self.socket.poll(1000 * min(wait, 0.02)):
            for _ in range(100):
                try:
                    frames = self.socket.recv_multipart(zmq.DONTWAIT)
                except zmq.Again:
                    break
                for message in read(self.page, self.direction, frames, time.monotonic()):
                    body = f" + {len(message.body)} bytes" if message.body else ""
                    self.note(f"<- {message.op} {shown(message.fields)}{body}")
                    if self.took(message):
                        self.inbox.append(message)
        self.turn_at = time.monotonic()

    def tick(self, now):
        """What the broker says by the clock."""

    def took(self, message):
        """Answers by itself what every rule wants answered; whether the rule is to see the message."""
        return True

    def pump(self, happened, within, what):
        """Until it has happened."""
        deadline = time.monotonic() + within
        while not (value := happened()):
            if self.process is not None and self.process.poll() is not None and not self.may_end and not self.inbox:
                for reader in self.readers:
                    reader.join(0.2)
                if value := happened():
                    return value
                raise AssertionError(f"the end ended with exit code {self.process.returncode}, waited for {what}")
            left = deadline - time.monotonic()
            if left <= 0:
                raise AssertionError(f"{what}: not within {within:g} s")
            self.turn(left)
        return value

    def expect(self, what, which, within=PATIENCE):
        """The next message for which `which` holds; others before it are dropped."""

        def found():
            while self.inbox:
                message = self.inbox.popleft()
                if which(message):
                    return message
            return None

        return self.pump(found, within, what)

    def for_a_while(self, seconds):
        """All that comes within that time, behind what is there."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self.process.poll() is not None and not self.may_end:
                raise AssertionError(f"the end ended with exit code {self.process.returncode}")
            self.turn(left)
        came, self.inbox = list(self.inbox), collections.deque()
        return came

    def told(self):
        """Whether the end has said something to people, or has ended with an exit code that says so."""
        if self.errors or any(not line.startswith("result ") for line in self.lines):
            return True
        return self.process.poll() not in (None, 0)

    def waited_for_a_processor_s(self):
        """How long the threads of the end were ready to run and did not, together; 0 where that is not known."""
        waited = 0.0
        with contextlib.suppress(OSError, AttributeError):  # it has ended, or was not started
            for thread in os.listdir(f"/proc/{self.process.pid}/task"):
                with open(f"/proc/{self.process.pid}/task/{thread}/schedstat") as file:
                    waited += int(file.read().split()[1]) / 1e9
        return waited

    def tells_within(self, seconds, what, told=None):
        """Whether `told` says so, told() where there is none. Counted from its start, with room for what a start takes here, see measure_start(), and for what it waits for a processor."""
        self.may_end = True
        while not (told or self.told)():
            left = self.began + seconds + 2 * self.start_s + self.waited_for_a_processor_s() - time.monotonic()
            if left <= 0:
                raise AssertionError(f"{what}: a word to people, or an exit code: not within {seconds:g} s")
            self.turn(min(left, 0.1))


# ---- verdicts -----------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Verdict:
    rule: Rule
    kind: str
    seen: str = ""
    log: tuple = ()


def judge(rule, make_trial):
    """Again where the kit stood still, since an end may have been right to take its broker for gone; or the end, which may have been late
    for no fault of its own."""
    for _ in range(TRIES):
        trial = make_trial()
        verdict = judge_once(rule, trial)
        if verdict.kind != FAIL or not trial.stood_still:
            return verdict
    return verdict


def judge_once(rule, trial):
    try:
        rule.run(trial)
        return Verdict(rule, PASS)
    except Skip as why:
        return Verdict(rule, SKIP, str(why))
    except AssertionError as error:
        trial.stood_still = trial.stood_still or trial.waited_for_a_processor_s() > STILL_S
        log = [*trial.said]
        if trial.errors:
            log += ["stderr: " + line for line in trial.errors.decode("utf-8", "replace").splitlines()[-8:]]
        return Verdict(rule, FAIL, str(error), tuple(log))
    finally:
        trial.close()


