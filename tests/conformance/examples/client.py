# SPDX-License-Identifier: Apache-2.0
"""A small client that survives a broker that is gone or silent: client.py [ENDPOINT] reads jobs from its input, a line `SERVICE BODY` each,
and prints a line for each answer. Without batches and streams."""

import sys
import time
import uuid

import zmq
from msgpack import packb, unpackb

ENDPOINT = (sys.argv[1:] or ["tcp://127.0.0.1:5570"])[0]
context, client, heard = zmq.Context(), None, 0.0
jobs = {}  # id, and ref -> the submit, until its terminal message has come
for line in sys.stdin:  # SERVICE BODY
    service, _, body = line.rstrip("\n").partition(" ")
    name = str(uuid.uuid4())
    jobs[name] = packb(["LMQ1", "submit", {"service": service, "id": name, "ref": name}, body.encode()])
while jobs:
    now = time.monotonic()
    if client is None or now - heard > 2:  # silent: all again by a new connection; what is known runs no second time
        if client:
            print("no word from the broker at", ENDPOINT, file=sys.stderr, flush=True)
            client.close(linger=0)
        client = context.socket(zmq.DEALER)
        client.connect(ENDPOINT)
        heard, submitted = now, 0.0
    if now - submitted > 10:  # the first time, and where an answer may be lost
        for submit in jobs.values():
            client.send(submit)
        submitted = now
    if not client.poll(1000):
        client.send(packb(["LMQ1", "ping", {}]))
        continue
    heard = time.monotonic()
    header, *rest = client.recv_multipart()
    try:
        _, op, fields, *inside = unpackb(header)
    except ValueError:
        continue  # what it cannot read it ignores
    if op == "error" and fields["code"] == "unauthorized" and "ref" not in fields:
        sys.exit("the broker does not take this key")
    if op in ("result", "error") and jobs.pop(fields.get("ref"), None):
        body = (inside or rest or [b""])[0]
        print(op, body.decode() if op == "result" else fields["code"], flush=True)
