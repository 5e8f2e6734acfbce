# SPDX-License-Identifier: Apache-2.0
"""Brokers of several shards with one configuration, on ports of their own."""

import os
import tempfile

import harness
import zmq

# Of the brokers' keys: the tenant that each names.
RULES = {"acme": 'match = { tenant = "acme*" }', "audio": 'match = { service = "speech" }', "rest": ""}


class Shards:
    """A broker for each shard. `rules`: the match of each by its name, the last one without. `more`: further lines of
    the configuration; `bank`: as it says it. `seats`: so many brokers may be started of each shard; `endpoints` are those of the
    first. Requires: room.close() ends the brokers."""

    def __init__(self, room, rules=None, more="", arguments=(), bank="", seats=1):
        self.room, self.rules, self.arguments, self.more, self.bank = room, rules or RULES, arguments, more, bank
        self.folder = tempfile.TemporaryDirectory(prefix="lanemq-shards-")
        self.seats = {name: [harness.fixed_endpoints() for _ in range(seats)] for name in self.rules}
        self.endpoints = {name: seats[0] for name, seats in self.seats.items()}
        self.config = os.path.join(self.folder.name, "broker.toml")
        self.write()
        self.brokers = {}

    def write(self, more=None, rules=None, bank=None):
        """None: as before."""
        self.more = self.more if more is None else more
        self.bank = self.bank if bank is None else bank
        def listed(name, kind):
            return kind + " = [" + ", ".join(f'"{seat[kind]}"' for seat in self.seats[name]) + "]\n"
        tables = [f'[[shard]]\nname = "{name}"\n{match}\n{listed(name, "clients")}{listed(name, "workers")}'
                  for name, match in (rules or self.rules).items()]
        top = [f'bank = "{self.bank}"'] if self.bank else []
        with open(self.config, "w") as file:
            file.write("\n".join([*top, *tables, self.more]))

    def store(self, name):
        return f"sqlite:{self.folder.name}/{name}.db"

    def start(self, *names):
        for name in names or self.rules:
            self.brokers[name] = self.room.start(harness.Broker(
                "--config", self.config, "--shard", name, "--store", self.store(name), *self.arguments,
                **self.endpoints[name]))
        return self

    def flags(self, name):
        """The endpoints that the shard's rule names, for a broker that is not kept here."""
        return [word for option, endpoint in self.endpoints[name].items() for word in ("--" + option, endpoint)]

    def client(self, name, kind=zmq.DEALER, options=()):
        return harness.Client(self.room, kind, self.endpoints[name]["clients"], options)

    def operator(self, name):
        return harness.Client(self.room, zmq.DEALER, self.endpoints[name]["admin"])

    def worker(self, name, services=("echo",), capacity=1, **fields):
        worker = harness.Worker(self.room, self.endpoints[name]["workers"], services, capacity, **fields)
        worker.get("welcome")
        return worker

    def close(self):
        self.folder.cleanup()
