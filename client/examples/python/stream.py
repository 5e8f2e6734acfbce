#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the pieces of a job's answer as they come, a line each.   stream.py [ENDPOINT [SERVICE [BODY]]]"""

import os
import sys
import uuid

import zmq
from msgpack import packb, unpackb

endpoint, service, text = sys.argv[1:] + ["tcp://127.0.0.1:5570", "words", "one two three"][len(sys.argv) - 1 :]
job, taken = uuid.uuid4().hex, 0  # taken: how many pieces have come, which is the number of the next one


def say(op, fields, *body):
    client.send(packb(["LMQ1", op, {"id": job, **fields}, *body]))


def connect():
    """Makes a new connection, and asks by it for the pieces that have not come yet."""
    global client
    client = zmq.Context.instance().socket(zmq.DEALER)
    client.linger = 0
    if key := os.environ.get("LANEMQ_BROKER_KEY"):
        client.curve_serverkey = key.encode()
        client.curve_publickey = os.environ["LANEMQ_PUBLIC_KEY"].encode()
        client.curve_secretkey = os.environ["LANEMQ_SECRET_KEY"].encode()
    client.connect(endpoint)
    if taken:
        say("fetch", {"from_seq": taken, "wait_ms": 1000})
    else:
        say("submit", {"service": service, "stream": True}, text.encode())


connect()
silences = waited = 0  # seconds without any word; without one about the job
while silences < 20:
    lost = False
    if not client.poll(1000):
        silences, waited = silences + 1, waited + 1
        lost = silences % 2 == 0 or waited % 8 == 0
        if not lost:
            say("ping", {})  # the job may take long: is the broker there?
    else:
        silences = 0
        header, *rest = client.recv_multipart()
        try:
            _, op, fields, *inside = unpackb(header)
        except ValueError:
            continue  # what a later version may say
        body = (inside or rest or [b""])[0].decode()
        waited = waited if op == "pong" else 0
        if op == "chunk" and fields["seq"] == taken:
            print(body, flush=True)
            say("seen", {"seq": taken})
            taken += 1
        elif op == "status":  # nothing new for a second; the job goes on
            say("fetch", {"from_seq": taken, "wait_ms": 1000})
        elif op == "chunk":  # behind a gap: this client was too slow for what is missing
            lost = fields["seq"] > taken
        elif op == "result" and (fields.get("chunks") or 0) > taken or op == "error" and fields["code"] == "slow_reader":
            lost = True
        elif op == "result":
            print(body, end="\n" if body else "")
            sys.exit()
        elif op == "error":
            sys.exit(f"{fields['code']}: {fields.get('message') or ''}")
    if lost:
        client.close()
        connect()
print("no answer", file=sys.stderr)
sys.exit(3)
