# SPDX-License-Identifier: Apache-2.0
"""The worker's handler `exec` with real programs: what comes of a job, what is left of its processes, and what programs
that misbehave cost others."""

import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

import harness
import pages

PR_SET_CHILD_SUBREAPER = 36


def parents():
    """The parent of each process."""
    found = {}
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                found[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                pass
    return found


def descendants(root, left_out=()):
    """All processes below one, dead ones that nobody has reaped included."""
    known, found = parents(), set()
    while more := {child for child, parent in known.items() if parent in found | {root} and child not in found}:
        found |= more
    return found - set(left_out)


def adopt_orphans():
    """Whoever loses its parent becomes a child of this process, and shows up among its descendants."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def reap():
    """Takes in the orphans that have ended; the harness's own processes are left to it."""
    for child, parent in parents().items():
        if parent == os.getpid():
            try:
                if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) and child not in reap.known:
                    os.waitpid(child, 0)
            except ChildProcessError:
                pass


reap.known = set()


class ExecWorker(harness.Process):
    """lanemq-worker with exec services: pairs of a name and the keys of its table."""

    def __init__(self, room, services, *arguments, **options):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".toml")
        for name, keys in services.items():
            self.file.write(f'[[service]]\nname = "{name}"\nhandler = "exec"\n{textwrap.dedent(keys)}\n')
        self.file.flush()
        super().__init__(harness.program("lanemq-worker"), "--broker", room.broker.workers, "--config", self.file.name,
                         *arguments, **options)
        room.start(self)
        reap.known.add(self.pid)
        if not self.line().startswith("ready"):
            raise AssertionError("the worker did not start: " + self.stderr())

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def programs(self):
        """Its descendants but for keeper and guards, which have its own command line."""
        own = pathlib.Path(f"/proc/{self.pid}/cmdline").read_bytes()

        def is_program(process):
            try:
                return pathlib.Path(f"/proc/{process}/cmdline").read_bytes() != own
            except (FileNotFoundError, ProcessLookupError):
                return False

        return {process for process in descendants(self.pid) if is_program(process)}


class Exec(harness.Case):
    arguments = harness.STEADY

    def setUp(self):
        adopt_orphans()
        super().setUp()
        reap.known.add(self.room.broker.pid)
        self.client = self.room.client()

    def ask(self, service, body=b"", **fields):
        return self.client.ask("submit", {"service": service, **fields}, body)

    def nothing_is_left(self):
        """Waits until only the harness's own processes are left: nobody's orphan, no zombie."""
        harness.wait_until(lambda: (reap(), not descendants(os.getpid(), reap.known))[1], "the end of all processes")


class Jobs(Exec):
    def test_a_program_answers(self):
        ExecWorker(self.room, {"up": 'argv = ["tr", "a-z", "A-Z"]', "no": 'argv = ["sh", "-c", "echo why >&2; exit 9"]'})

        self.assertEqual(self.ask("up", b"hello").body, b"HELLO")
        self.assert_error(self.ask("no"), "upstream_rejected", "exit_9", "/sh ended with 9; why")

    def test_transient_ends_are_tried_again(self):
        with tempfile.TemporaryDirectory() as folder:
            script = f"[ -e {folder}/$LANEMQ_ID ] && echo $LANEMQ_ATTEMPT && exit; touch {folder}/$LANEMQ_ID; exit $(cat)"
            ExecWorker(self.room, {"again": f'argv = ["sh", "-c", "{script}"]'})
            for code in (b"75", b"69"):
                self.assertEqual(self.ask("again", code, id=f"a{code.decode()}").body, b"2\n")

    def test_pieces_come_while_the_program_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            script = f"echo one; while [ ! -e {folder}/go ]; do sleep 0.01; done; echo two"
            ExecWorker(self.room, {"s": f'argv = ["sh", "-c", "{script}"]'})
            self.client.submit("s", stream=True)
            self.assertEqual(self.client.get("chunk").body, b"one\n")
            pathlib.Path(folder, "go").touch()
            self.assertEqual(self.client.get("chunk").body, b"two\n")
            self.assertEqual(self.client.get("result").fields["chunks"], 2)

    def test_a_program_that_fails_tells_none_of_its_secrets(self):
        services = {"env": """argv = ["sh", "-c", "env >&2; env; exit 9"]
                              environment = ["TOKEN=env:GIVEN", "API_KEY"]"""}
        services["notes"] = """argv = ["sh", "-c", "echo lanemq-progress 40 reads $TOKEN >&2; sleep 600"]
                                environment = ["TOKEN=env:GIVEN"]"""
        services["pool"] = services["env"].replace("argv", "processes = 1\nargv").replace("env >&2; env", "read job; env")
        worker = ExecWorker(self.room, services, env={**os.environ, "GIVEN": "given-secret-1", "API_KEY": "named-secret-2"})
        failed = self.ask("env", id="a")
        self.assert_error(failed, "upstream_rejected", "exit_9", "TOKEN=[secret]", "API_KEY=[secret]")
        self.assertIn(b"TOKEN=[secret]", failed.body)
        self.client.submit("pool", id="p", attempts_max=1)
        lost = self.client.get("error")
        self.client.submit("notes", id="n")
        harness.wait_until(lambda: self.client.status("n").get("note"), "a note")
        self.assertEqual(self.client.status("n")["note"], "reads [secret]")
        for text in (failed.body.decode(), str(failed.fields), str(lost.fields), lost.body.decode(), worker.stderr()):
            self.assertNotIn("given-secret-1", text)
            self.assertNotIn("named-secret-2", text)

    def test_the_workers_secrets_do_not_reach_a_program(self):
        ExecWorker(self.room, {"env": 'argv = ["env"]\nenvironment = ["NAMED"]'},
                   env={**os.environ, "SECRET": "s3cret", "NAMED": "named", "LANEMQ_WORKER_CAPACITY": "3"})
        said = dict(line.split("=", 1) for line in self.ask("env", id="i", model="m", lane="critical").body.decode().splitlines())
        self.assertNotIn("SECRET", said)
        self.assertNotIn("LANEMQ_WORKER_CAPACITY", said)
        self.assertEqual((said["NAMED"], said["LANEMQ_ID"], said["LANEMQ_MODEL"], said["LANEMQ_LANE"]), ("named", "i", "m", "critical"))

    def test_a_cancelled_job_takes_its_processes_along(self):
        worker = ExecWorker(self.room, {"s": 'argv = ["sh", "-c", "trap \'\' TERM; setsid sleep 1000 & sleep 1000; sleep 1000"]\ngrace = "50ms"'})
        self.client.submit("s", id="c")
        harness.wait_until(lambda: len(worker.programs()) >= 3, "the program's processes")
        self.client.send("cancel", {"id": "c"})
        harness.wait_until(lambda: not worker.programs(), "their end")

    def test_a_stopped_worker_lets_programs_finish(self):
        with tempfile.TemporaryDirectory() as folder:
            script = f"touch {folder}/begun; while [ ! -e {folder}/go ]; do sleep 0.01; done; echo done"
            worker = ExecWorker(self.room, {"s": f'argv = ["sh", "-c", "{script}"]'}, start_new_session=True)
            self.client.submit("s")
            harness.wait_until(lambda: os.path.exists(f"{folder}/begun"), "the start")
            os.killpg(worker.pid, signal.SIGINT)  # as Ctrl-C in a terminal does
            harness.wait_until(lambda: "worker.draining" in worker.stderr(), "the draining")
            pathlib.Path(folder, "go").touch()
            self.assertEqual(self.client.get("result").body, b"done\n")
            self.assertEqual(worker.wait(), 0)
        self.nothing_is_left()

    def test_a_killed_worker_takes_all_along(self):
        keys = 'argv = ["sh", "-c", "trap \'\' TERM; setsid sleep 1000 & sleep 1000"]'
        worker = ExecWorker(self.room, {"s": keys}, "--capacity", "8")
        for _ in range(8):
            self.client.submit("s")
        harness.wait_until(lambda: len(worker.programs()) >= 24, "the programs")
        worker.signal(signal.SIGKILL)
        worker.wait()
        self.nothing_is_left()

    def test_a_program_that_is_not_there_is_told_at_the_start(self):
        for arguments in ((), ("--check",)):
            said = self.room.run(harness.program("lanemq-worker"), "--broker", self.room.broker.workers,
                                 "--service", "x=exec:/no/such", *arguments)
            self.assertEqual((said.returncode, said.stderr),
                             (2, 'lanemq-worker: service "x": program "/no/such" cannot be run: No such file or directory\n'))


class Pool(Exec):
    ECHO = textwrap.dedent("""
        import json, os, sys, time
        def say(op, job, **fields): print(json.dumps({"op": op, "job": job["job"], **fields}), flush=True)
        for line in sys.stdin:
            job = json.loads(line)
            if job["op"] != "job": continue
            if job["body"] == "die": os._exit(1)
            if job["body"] == "hang": say("chunk", job, body="begun"); time.sleep(1000)
            if job.get("stream"): [say("chunk", job, body=word) for word in job["body"].split()]
            say("result", job, body="" if job.get("stream") else job["body"], usage={"output_tokens": 7})
    """)

    def pool(self, more="", *arguments):
        return ExecWorker(self.room, {"p": f"argv = ['/usr/bin/python3', '-c', '''{self.ECHO}''']\nprocesses = 2\n{more}"}, *arguments)

    def test_jobs_are_answered_by_few_processes(self):
        worker = self.pool()
        for i in range(50):
            self.client.submit("p", b"%d" % i, id=f"j{i}")
        answers = {message.fields["id"]: message.body for message in (self.client.get("result") for _ in range(50))}
        self.assertEqual(answers, {f"j{i}": b"%d" % i for i in range(50)})
        self.assertEqual(len(worker.programs()), 2)

    def test_pieces_and_usage(self):
        self.pool()
        self.client.submit("p", b"one two", stream=True)
        self.assertEqual([self.client.get("chunk").body for _ in range(2)], [b"one", b"two"])
        self.assertEqual(self.client.get("result").fields["usage"]["output_tokens"], 7)

    def test_a_process_that_dies_is_replaced(self):
        worker = self.pool()
        self.assert_error(self.ask("p", b"die", attempts_max=1), "upstream_failed", "process_ended", "ended with 1")
        self.assertEqual(self.ask("p", b"x").body, b"x")
        harness.wait_until(lambda: len(worker.programs()) == 2, "the other process")

    def test_a_cancelled_job_does_not_keep_its_process(self):
        worker = self.pool('grace = "50ms"')
        self.client.submit("p", b"hang", id="h", stream=True)
        self.client.get("chunk")  # it has begun in its process
        self.client.send("cancel", {"id": "h"})
        harness.wait_until(lambda: "exec.process_ended" in worker.stderr(), "the process's end")
        self.assertEqual({self.client.get().op for _ in range(2)}, {"status", "error"})
        self.assertEqual(self.ask("p", b"x").body, b"x")

    def test_the_worker_takes_its_pool_along(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            worker = self.pool()
            harness.wait_until(lambda: len(worker.programs()) == 2, "the processes")
            worker.signal(number)
            worker.wait()
            self.nothing_is_left()


class PoolsOfThePage(Exec):
    """The programs that docs/guides/own-handler.md shows, compiled by its commands: where there is the compiler."""

    PAGE = "docs/guides/own-handler.md"

    def counts(self, compiler):
        """A worker whose pool is the page's program, and what the page says of that pool."""
        if not shutil.which(compiler):
            self.skipTest(f"{compiler} is not installed")
        blocks = pages.divided(self.PAGE)[1]
        folder = self.enterContext(tempfile.TemporaryDirectory())
        for block in blocks:
            if block.mark == "file":
                pathlib.Path(folder, block.name).write_text(block.text)
        command, = [line for block in blocks for line in block.lines if line.startswith(compiler + " ")]
        built = subprocess.run(command, shell=True, cwd=folder, env={**os.environ, "GOCACHE": folder + "/cache"}, capture_output=True, text=True)
        self.assertEqual(built.returncode, 0, built.stderr)
        pool = next(block.text for block in blocks if "[[service]]" in block.lines).split('handler = "exec"\n')[1]
        return ExecWorker(self.room, {"count": pool.replace("/usr/local/bin", folder)})

    def judge(self, compiler):
        worker = self.counts(compiler)
        harness.wait_until(lambda: len(worker.programs()) == 2, "the processes")
        processes = worker.programs()
        self.assertEqual(self.ask("count", b"3").body, b"3 steps")
        self.assert_error(self.ask("count", b"x"), "upstream_rejected", "no_number")
        for number in range(4):
            self.client.submit("count", b"1000000", id=f"long {number}")
        for number in range(4):
            harness.wait_until(lambda: "step" in self.client.ask("status", {"id": f"long {number}"}, expect="status").fields.get("note", ""), "its progress")
        for number in range(4):
            self.client.send("cancel", {"id": f"long {number}"})
        self.room.stats_when(lambda stats: stats["workers"]["running"] == 0, "the places")
        harness.wait_until(lambda: worker.stderr().count("code=cancelled") == 4, "an answer to each")
        self.assertEqual(worker.programs(), processes)  # none was killed

    def test_the_one_in_go(self):
        self.judge("go")

    def test_the_one_in_rust(self):
        self.judge("rustc")


class Misbehaving(Exec):
    """Each beside a program that behaves, which must not feel it."""

    def beside(self, keys, code, part, body=b""):
        worker = ExecWorker(self.room, {"good": 'argv = ["cat"]', "bad": keys}, "--capacity", "16")
        self.ask("good", b"warm")
        before = worker.descriptors()
        self.client.submit("bad", body, id="bad", attempts_max=1)
        ended = None
        for i in range(20):
            self.client.submit("good", b"%d" % i, id=f"good-{i}")
        for _ in range(21):
            answer = self.client.get(patience=2 * harness.PATIENCE)
            if answer.fields["id"] == "bad":
                ended = answer
            else:
                self.assertEqual(answer.op, "result", answer)
        if code:
            self.assert_error(ended, code, part)
        else:
            self.assertEqual((ended.op, ended.body), ("result", part))
        harness.wait_until(lambda: not worker.programs(), "the end of the programs")
        # As before, but for the guards: one socket for each program that ran at once.
        harness.wait_until(lambda: worker.descriptors() <= before + 16, "the descriptors")
        self.assertLess(worker.resident_bytes(), harness.MEMORY_FACTOR * (100 << 20))
        worker.signal(signal.SIGTERM)
        self.assertEqual(worker.wait(), 0)
        self.nothing_is_left()

    def test_one_that_writes_a_gigabyte(self):
        self.beside('argv = ["head", "-c", "1G", "/dev/zero"]\noutput_max = "1MiB"', "upstream_rejected", "output_max")

    def test_one_that_writes_a_gigabyte_to_stderr(self):
        self.beside('argv = ["sh", "-c", "head -c 1G /dev/zero >&2"]', None, b"")

    def test_one_that_reads_nothing(self):
        self.beside('argv = ["sleep", "1000"]\ntimeout = "200ms"', "upstream_failed", "timeout", bytes(16 << 20))

    def test_one_that_does_not_listen_to_term(self):
        self.beside('argv = ["sh", "-c", "trap \'\' TERM; while :; do sleep 1000; done"]\ntimeout = "200ms"\ngrace = "100ms"',
                    "upstream_failed", "timeout")

    def test_one_that_leaves_its_stdout_to_others(self):
        self.beside('argv = ["sh", "-c", "setsid sleep 1000 & sleep 1000 & echo here"]', None, b"here\n")

    def test_one_that_forks_on(self):
        # Each of a chain lives just long enough to start the next one in a session of its own. The first ends when there were 20.
        chain = "for number in itertools.count():\n if number < 20: os.write(told, b'.')\n if os.fork(): os._exit(0)\n os.setsid()"
        start = f"import itertools, os\nheard, told = os.pipe()\nif os.fork() == 0:\n exec({chain!r})\nfor _ in range(20): os.read(heard, 1)"
        self.beside(f"argv = [\"/usr/bin/python3\", \"-c\", '''{start}''']", None, b"")

    def test_one_that_multiplies(self):
        grow = "import os, time\nfor _ in range(7): os.fork()\nos.setsid() if os.fork() == 0 else None\ntime.sleep(1000)"
        self.beside(f"argv = [\"/usr/bin/python3\", \"-c\", '''{grow}''']\ntimeout = \"500ms\"\ngrace = \"0s\"",
                    "upstream_failed", "timeout")

    def test_one_that_kills_its_guard(self):
        self.beside('argv = ["sh", "-c", "setsid sleep 1000 & kill -9 $PPID; sleep 1000"]', "upstream_failed", "guard_lost")


if __name__ == "__main__":
    sys.exit(unittest.main())
