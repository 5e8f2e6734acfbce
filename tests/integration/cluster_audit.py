# SPDX-License-Identifier: Apache-2.0
"""What a store's owners have committed, by the database's word alone: a trigger of the test's writes each change of the owner's
row into a table of its own, in the same transaction. The row's lock lasts to the commit, so the order of the entries is that of
the commits."""

import collections

Entry = collections.namedtuple("Entry", "epoch ticket instance")

MADE = """
CREATE SCHEMA IF NOT EXISTS audit;
CREATE TABLE audit."{schema}" (place bigserial PRIMARY KEY, epoch bigint, ticket bigint, instance text);
CREATE FUNCTION audit."note {schema}"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO audit."{schema}" (epoch, ticket, instance) VALUES (NEW.epoch, NEW.ticket, NEW.instance); RETURN NULL; END $$;
CREATE TRIGGER audit AFTER UPDATE ON "{schema}".owner FOR EACH ROW EXECUTE FUNCTION audit."note {schema}"();
INSERT INTO audit."{schema}" (epoch, ticket, instance) SELECT epoch, ticket, instance FROM "{schema}".owner;
"""


def faults_of(entries):
    """What of this must not be. Each owner's commits are whole and follow one another; nobody's come after those of a later
    owner; who has given the store back commits no more."""
    found = []
    for before, after in zip(entries, entries[1:]):
        next_commit = (after.epoch, after.ticket, after.instance) == (before.epoch, before.ticket + 1, before.instance)
        given_back = (after.epoch, after.ticket, after.instance) == (before.epoch, before.ticket, "")
        taken = (after.epoch, after.ticket) == (before.epoch + 1, 0) and after.instance
        if not (next_commit and before.instance or given_back or taken):
            found.append(f"{tuple(after)} was committed after {tuple(before)}")
    return found


class Audit:
    """Of one schema, whose tables are there. `servers`: what knows the present primary."""

    def __init__(self, servers, schema):
        self.servers, self.schema, self.place = servers, schema, 0
        self.last = None
        self.commits = 0
        servers.primary.psql(MADE.format(schema=schema))

    def faults(self):
        """Of what was committed since the last call."""
        rows = self.servers.primary.value(f'SELECT place, epoch, ticket, instance FROM audit."{self.schema}" '
                                          f"WHERE place > {self.place} ORDER BY place")
        entries = [] if self.last is None else [self.last]
        for row in rows.splitlines():
            place, epoch, ticket, instance = row.split("|")
            self.place = int(place)
            entries.append(Entry(int(epoch), int(ticket), instance))
        self.commits += len(entries)
        self.last = entries[-1]
        return faults_of(entries)
