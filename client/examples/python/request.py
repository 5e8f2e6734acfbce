#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Has one job done and prints its answer.   request.py [ENDPOINT [SERVICE [BODY]]]"""

import os
import sys
import uuid

import zmq
from msgpack import packb, unpackb

endpoint, service, text = sys.argv[1:] + ["tcp://127.0.0.1:5570", "echo", "hello"][len(sys.argv) - 1 :]
submit = packb(["LMQ1", "submit", {"service": service, "id": uuid.uuid4().hex}, text.encode()])
for attempt in range(10):
    client = zmq.Context.instance().socket(zmq.REQ)
    client.linger = 0
    if key := os.environ.get("LANEMQ_BROKER_KEY"):
        client.curve_serverkey = key.encode()
        client.curve_publickey = os.environ["LANEMQ_PUBLIC_KEY"].encode()
        client.curve_secretkey = os.environ["LANEMQ_SECRET_KEY"].encode()
    client.connect(endpoint)
    client.send(submit)
    if client.poll(2000):
        header, *rest = client.recv_multipart()
        _, op, fields, *inside = unpackb(header)
        if op == "error":
            sys.exit(f"{fields['code']}: {fields.get('message') or ''}")
        print((inside or rest or [b""])[0].decode())
        sys.exit()
    client.close()  # Silence: ask again by a new socket. The id is the same, so the work is not done twice.
    print("no answer yet", file=sys.stderr, flush=True)
print("no answer", file=sys.stderr)
sys.exit(3)
