# SPDX-License-Identifier: Apache-2.0
"""Types what docs/guides/second-broker.md says under "Set it up", each block on the machines that the mark before it names, from empty machines
to an answer after the owner was switched off, and another one after the database's primary was.

A machine is a set of namespaces: it has its own name, network, processes, and files over those of this one. Switched off, all its
processes are gone at once and nothing on the network says so. Marks of a block:

    <!-- on: NAME NAME -->            its commands are typed there, on one machine after the other
    <!-- on: NAME NAME, stays -->     the same; the command goes on in the background
    <!-- off: NAME -->                the machine is switched off

Needs root and overlays in mount namespaces. Where these are not allowed it says so and ends with 77."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import harness
import test_cluster
from pages import MARK, divided

PAGE, CHAPTER = "docs/guides/second-broker.md", "## Set it up"
COMMANDS_MAX = 24  # to the first survived loss
NETWORK = "10.77.0."  # in namespaces of its own: nobody else's
SERVERS, BROKERS, OTHERS = ("db1", "db2", "db3"), ("broker-1", "broker-2"), ("app",)
NAMES = (*SERVERS, *BROKERS, *OTHERS)
COMMAND_SECONDS = 90
SKIPPED = 77
# What `apt-get install postgresql` leaves on an empty machine, and what `sudo` does for root.
MADE = """
set -e
mount --make-rprivate /
mount -t tmpfs machine {files}
mkdir {files}/over {files}/work {files}/root
mount -t overlay machine -o lowerdir=/,upperdir={files}/over,workdir={files}/work {files}/root
cd {files}/root
mount --rbind /dev dev
mount -t proc proc proc
mkdir -p opt/lanemq
mount --bind {programs} opt/lanemq
mkdir -p etc/lanemq
for empty in tmp run root etc/lanemq etc/postgresql var/lib/postgresql; do mount -t tmpfs machine $empty; done
printf '#!/bin/sh\\nuser=$2\\nshift 2\\nexec runuser -u "$user" -- "$@"\\n' > usr/local/bin/sudo
chmod 755 usr/local/bin/sudo
cp {hosts} etc/hosts
install -m 755 {systemctl} usr/local/bin/systemctl
mkdir run/postgresql
chown postgres:postgres etc/postgresql var/lib/postgresql run/postgresql
hostname {name}
echo made
exec chroot . /bin/sleep infinity
"""
# What systemd does with the unit of the packages: it hands over what the drop-ins load, and starts the broker.
SYSTEMCTL = """#!/bin/bash
[ "$1" = restart ] || exit 0
credentials=/run/credentials/lanemq-broker.service
mkdir -p $credentials
sed -n 's/^LoadCredential=//p' /etc/systemd/system/lanemq-broker.service.d/*.conf | while IFS=: read -r name path; do
  install -m 400 "$path" "$credentials/$name"
done
setsid lanemq-broker --config /etc/lanemq/broker.toml < /dev/null > /run/broker.log 2>&1 &
"""
INSTALLED = "make-ssl-cert generate-default-snakeoil && pg_createcluster 15 main --start"


def setUpModule():
    test_cluster.skip_without_postgres()
    if os.geteuid() != 0:
        raise unittest.SkipTest("machines of namespaces are for root")


class Machine:
    """`number`: of its address."""

    def __init__(self, wire, name, number, folder, hosts, systemctl):
        files = os.path.join(folder, name)
        os.mkdir(files)
        made = MADE.format(files=files, programs=os.path.abspath(harness.PROGRAMS), hosts=hosts, systemctl=systemctl, name=name)
        self.name, self.staying = name, []
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "bash", "-c", made],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, text=True)
        if self.process.stdout.readline() != "made\n":
            self.process.wait()
            self.log.seek(0)
            raise unittest.SkipTest(f"no machine can be made of namespaces: {self.log.read().decode()}")
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            self.first = int(file.read())  # the machine's process 1
        wire.join(self.first, number)

    def command(self, text):
        path = "PATH=/opt/lanemq:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        within = ["nsenter", f"--target={self.first}", "--mount", "--net", "--uts", "--ipc", "--pid", "--root", "--wd"]
        return [*within, "env", "-i", path, "HOME=/root", "LC_ALL=C.UTF-8", "bash", "-c", text]

    def run(self, text):
        return subprocess.run(self.command(text), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=COMMAND_SECONDS)

    def stay(self, text):
        log = tempfile.TemporaryFile()
        self.staying.append((subprocess.Popen(self.command("exec " + text), stdin=subprocess.DEVNULL, stdout=log, stderr=log), log))

    def said(self):
        """What the command that was last left running has printed, or the broker that systemd has started."""
        if not self.staying:
            return self.run("cat /run/broker.log").stdout
        log = self.staying[-1][1].fileno()
        return os.pread(log, os.fstat(log).st_size, 0).decode()

    def switch_off(self):
        for process in (self.first, self.process.pid):
            try:
                os.kill(process, signal.SIGKILL)  # the end of process 1 is that of all others
            except ProcessLookupError:
                pass
        self.process.wait()
        for process, _ in self.staying:
            process.wait()

    def close(self):
        self.switch_off()
        self.process.stdout.close()
        self.log.close()
        for _, log in self.staying:
            log.close()


class Wire:
    """A bridge in a network namespace of its own, to which each machine has a cable."""

    def __init__(self):
        self.process = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL)
        own = os.readlink("/proc/self/ns/net")
        harness.wait_until(lambda: os.readlink(f"/proc/{self.process.pid}/ns/net") != own or self.process.poll() is not None,
                           "a network namespace")
        try:
            self.within(self.process.pid, "ip link add wire type bridge", "ip link set wire up")
        except subprocess.CalledProcessError as error:
            self.close()
            raise unittest.SkipTest(f"no network can be made of namespaces: {error.stderr}")

    @staticmethod
    def within(process, *commands):
        for command in commands:
            subprocess.run(["nsenter", f"--target={process}", "--net", *command.split()], check=True, capture_output=True,
                           text=True)

    def join(self, process, number):
        self.within(self.process.pid, f"ip link add cable{number} type veth peer name eth0 netns {process}",
                    f"ip link set cable{number} master wire", f"ip link set cable{number} up")
        self.within(process, f"ip addr add {NETWORK}{number}/24 dev eth0", "ip link set eth0 up", "ip link set lo up")

    def close(self):
        self.process.kill()
        self.process.wait()


def steps():
    """What the chapter has to be done, in its order: pairs of `off` and a machine's name, or of `on` and a block."""
    prose, blocks = divided(PAGE)
    begin = next(number for number, line in prose if line == CHAPTER)
    end = next(number for number, line in prose if number > begin and line.startswith("## "))
    found = [(number, "off", said[2]) for number, line in prose if (said := MARK.match(line)) and said[1] == "off"]
    found += [(block.number, "on", block) for block in blocks if block.mark == "on"]
    found.sort(key=lambda step: step[0])
    unmarked = [str(block) for block in blocks if begin < block.number < end and block.mark != "on"]
    return [step[1:] for step in found if begin < step[0] < end], unmarked


def commands_of(block):
    """Its commands: a line, with what belongs to it by a backslash or a here-document."""
    found, lines = [], list(block.lines)
    while lines:
        command = [lines.pop(0)]
        while command[-1].endswith("\\"):
            command.append(lines.pop(0))
        if word := re.search(r"<<'?(\w+)", command[-1]):
            while command[-1] != word[1]:
                command.append(lines.pop(0))
        found.append("\n".join(command))
    return found


class Walk(unittest.TestCase):
    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="lanemq-walk-"))
        hosts = os.path.join(folder, "hosts")
        with open(hosts, "w") as file:
            file.write("127.0.0.1 localhost\n" + "".join(f"{NETWORK}{number} {name}\n" for number, name in enumerate(NAMES, 1)))
        systemctl = os.path.join(folder, "systemctl")
        with open(systemctl, "w") as file:
            file.write(SYSTEMCTL)
        self.wire = Wire()
        self.addCleanup(self.wire.close)
        self.machines = {}
        for number, name in enumerate(NAMES, 1):
            self.machines[name] = machine = Machine(self.wire, name, number, folder, hosts, systemctl)
            self.addCleanup(machine.close)
        for name in SERVERS:
            done = self.machines[name].run(INSTALLED)
            self.assertEqual(done.returncode, 0, done.stdout)
        self.typed, self.typed_to_the_first_loss, self.printed = 0, None, []

    def type(self, block):
        names, _, how = block.name.partition(", ")
        for name in names.split():
            machine = self.machines[name]
            for command in commands_of(block):
                self.typed += 1
                if how == "stays":
                    machine.stay(command)
                    self.follow(machine)
                    continue
                began = time.monotonic()
                done = machine.run(command)
                self.printed.append((name, command, done.stdout, time.monotonic() - began))
                if done.returncode == 0 and "systemctl restart" in command:
                    self.follow(machine)
                if done.returncode != 0:
                    others = "\n".join(f"{other.name}: {other.said()}" for other in self.machines.values() if other.staying or other.name in BROKERS)
                    self.fail(f"{block}: on {name}, `{command}` ended with {done.returncode}:\n{done.stdout}\n{others}")

    def follow(self, machine):
        """A program that stays has said that it works: the first broker serves, the second one waits."""
        said = "store.waits" if machine.name == BROKERS[1] else "^ready "
        harness.wait_until(lambda: re.search(said, machine.said(), re.MULTILINE), f"{machine.name} says {said}: {machine.said()}")

    def test_from_empty_machines_to_survived_losses(self):
        what_to_do, unmarked = steps()
        self.assertEqual(unmarked, [], "each block of this chapter says where it is typed")
        for how, what in what_to_do:
            if how == "off":
                self.machines[what].switch_off()
                self.typed += 1
            else:
                self.type(what)
            if how == "on" and " fetch " in what.text:
                self.typed_to_the_first_loss = self.typed

        listed = next(text for _, command, text, _ in self.printed if "pg_stat_replication" in command)
        self.assertEqual(re.findall(r"(db\d) *\| streaming \| quorum", listed), ["db2", "db3"])
        answers = [(name, command, text) for name, command, text, _ in self.printed if name == "app"]
        self.assertEqual([text.splitlines()[-1] for _, _, text in answers], ["order-1", "hello", "again"])
        self.assertEqual([off for how, off in what_to_do if how == "off"], ["broker-1", "db1"])
        self.assertLessEqual(self.typed_to_the_first_loss, COMMANDS_MAX)
        for name, command, _, seconds in self.printed:
            if " fetch " in command or "again" in command:
                print(f"{name}: `{command.split(' ', 3)[-1]}` took {seconds:.1f} s", flush=True)
        print(f"{self.typed_to_the_first_loss} commands to the first survived loss", flush=True)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    sys.exit(SKIPPED if result.wasSuccessful() and result.skipped else not result.wasSuccessful())
