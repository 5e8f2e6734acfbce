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
    the configuration. Requires: room.close() ends the brokers."""

    def __init__(self, room, rules=None, more="", arguments=()):
        self.room, self.rules, self.arguments = room, rules or RULES, arguments
        self.folder = tempfile.TemporaryDirectory(prefix="lanemq-shards-")
        self.endpoints = {name: harness.fixed_endpoints() for name in self.rules}
        self.config = os.path.join(self.folder.name, "broker.toml")
        self.write(more)
        self.brokers = {}

    def write(self, more="", rules=None):
        tables = [f'[[shard]]\nname = "{name}"\n{match}\nclients = ["{self.endpoints[name]["clients"]}"]\n'
                  f'workers = ["{self.endpoints[name]["workers"]}"]\n' for name, match in (rules or self.rules).items()]
        with open(self.config, "w") as file:
            file.write("\n".join([*tables, more]))

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
