# SPDX-License-Identifier: Apache-2.0
"""A primary of PostgreSQL and its synchronous standby, which may die, stand still, and be promoted."""

import os
import shutil
import signal
import subprocess

import harness
import postgres


class Server(postgres.Postgres):
    """One of the two. `name` is that by which the other one knows it as its standby."""

    # What a commit of the brokers waits for is the other server's log on its disk, not its being applied there. A standby looks
    # for a new log often, so that it is promoted at once.
    settings = ("autovacuum=off", "wal_retrieve_retry_interval=200ms", "hot_standby_feedback=off", "wal_keep_size=256MB")

    def __init__(self, name, primary=None):
        self.name, self.copied_from = name, primary
        super().__init__()

    def make(self):
        if self.copied_from is None:
            return super().make()
        self.do("pg_basebackup", "-d", f"{self.copied_from.conninfo()} application_name={self.name}", "-D", self.data,
                "--write-recovery-conf", "--checkpoint=fast", "--no-sync", "--no-manifest")

    def copy_again(self, primary):
        """What this server has is gone; it is a standby of `primary`. Requires: it has ended. Can run beside the tests' thread."""
        shutil.rmtree(self.data)
        os.mkdir(self.data)
        os.chmod(self.data, 0o700)
        if postgres.NOBODY:
            subprocess.run(["chown", "nobody:nogroup", self.data], check=True)
        self.copied_from = primary
        self.make()
        self.start()

    def stop(self):
        """Stands still, as a machine that hangs: its connections stay."""
        for process in self.processes():  # the one that starts others is the first
            try:
                os.kill(process, signal.SIGSTOP)
            except ProcessLookupError:
                pass  # a session that has just ended

    def go_on(self):
        for process in reversed(self.processes()):
            try:
                os.kill(process, signal.SIGCONT)
            except ProcessLookupError:
                pass  # it has ended

    def is_primary(self):
        return self.psql("SELECT pg_is_in_recovery()", check=False).stdout.strip() == "f"

    def promote(self):
        """Makes a primary of a standby, which waits for no standby of its own until Pair.join() has given it one. Returns at
        once: is_primary() tells when it is done."""
        self.set("synchronous_standby_names", None)
        self.psql("SELECT pg_promote(false)")


class Pair:
    """Two servers, of which `primary` commits nothing that `standby` has not on its disk."""

    def __init__(self):
        self.primary = Server("db1")
        self.standby = Server("db2", self.primary)
        self.servers = (self.primary, self.standby)
        self.make_synchronous()

    def make_synchronous(self):
        self.primary.set("synchronous_standby_names", "ANY 1 (db1, db2)")
        harness.wait_until(self.is_synchronous, "a synchronous standby", 60, 0.02)

    def is_synchronous(self):
        return self.primary.value("SELECT sync_state FROM pg_stat_replication") == "quorum"

    def is_promoted(self):
        """Whether the standby has become the primary. Requires: Server.promote()."""
        if not self.standby.is_primary():
            return False
        self.primary, self.standby = self.standby, self.primary
        return True

    def join(self):
        """The former primary ends if it has not, and becomes the standby."""
        if self.standby.process.poll() is None:
            self.standby.go_on()
            self.standby.crash()
        self.standby.copy_again(self.primary)
        self.make_synchronous()

    def sessions_that_wait(self, by=None):
        """How many sessions of brokers wait for the standby; `by`: the server's function that is called with each."""
        return self.primary.end_sessions("wait_event = 'SyncRep'", by) if by else int(self.primary.value(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lanemq-broker' AND wait_event = 'SyncRep'"))

    def close(self):
        for server in self.servers:
            server.go_on()
            server.close()
