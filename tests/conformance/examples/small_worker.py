# SPDX-License-Identifier: Apache-2.0
"""A small worker that survives a broker that is gone or silent: small_worker.py [ENDPOINT] answers a job of `echo` with its body. Without
batches, streams and sessions, which worker.py has."""

import sys
import time

import zmq
from msgpack import packb, unpackb

ENDPOINT = (sys.argv[1:] or ["tcp://127.0.0.1:5571"])[0]
context, worker = zmq.Context(), None
outcomes, draining = {}, False  # handed in and not answered yet: (job, attempt) -> op, fields, body
interval = None  # of heartbeats, as welcome says

def say(op, fields, *body):
    worker.send(packb(["LMQ1", op, fields, *body]))

def greet():
    say("ready", {"services": ["echo"], "capacity": 4})
    if interval:
        say("heartbeat", {"jobs": [list(lease) for lease in outcomes]})
        for outcome in outcomes.values():
            say(*outcome)

while True:
    if worker is None or time.monotonic() > silent_at:
        if worker:
            print("no word from the broker at", ENDPOINT, file=sys.stderr, flush=True)
            worker.close(linger=0)
        worker = context.socket(zmq.DEALER)
        worker.connect(ENDPOINT)
        greet()
        heartbeat, silent_at = time.monotonic(), time.monotonic() + 3 * (interval or 0.7)
    if interval and time.monotonic() >= heartbeat:
        say("heartbeat", {"jobs": [list(lease) for lease in outcomes]})
        heartbeat = time.monotonic() + interval
    due = min(heartbeat, silent_at) if interval else silent_at
    if not worker.poll(1000 * max(0, due - time.monotonic())):
        continue
    silent_at = time.monotonic() + 3 * (interval or 0.7)
    header, *rest = worker.recv_multipart()
    try:
        _, op, fields, *inside = unpackb(header)
    except ValueError:
        continue  # what it cannot read it ignores
    code = fields["code"] if op == "error" else None
    lease = (fields.get("job"), fields.get("attempt"))
    if op == "welcome":
        interval, draining = fields["heartbeat_ms"] / 1000, False
    elif op == "drain":
        draining = True
    elif op == "job" and lease not in outcomes:
        named = {"job": lease[0], "attempt": lease[1]}
        body = (inside or rest or [b""])[0]
        outcome = ("error", {**named, "class": "released"}) if draining else ("result", named, body)  # the answer is the request
        outcomes[lease] = outcome
        say(*outcome)
    elif op == "acked":
        for job, attempt in fields["jobs"]:
            outcomes.pop((job, attempt), None)
    elif code == "stale":
        outcomes.pop(lease, None)
    elif code == "unknown_session":
        greet()
    elif code == "bad_request" and not interval:
        sys.exit(f"the broker does not take this worker: {fields.get('message')}")
    elif code or op == "bye":  # full or unauthorized, or the broker leaves: ready again later
        silent_at = time.monotonic() + 1
