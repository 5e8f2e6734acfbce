#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Serves `echo`, whose pieces are lines, and `words` until TERM or Ctrl-C.   worker.py [ENDPOINT]"""

import os
import re
import signal
import sys
import time
from types import SimpleNamespace

import zmq
from msgpack import packb, unpackb

ready = {"services": ["echo", "words"], "capacity": 4, "resumes": True}
worker = None  # the socket
jobs = {}  # (job, attempt) -> what is held until the broker has answered its outcome
interval = 0.8  # seconds; until `welcome` says another
terminated, drained = False, False  # by a signal; by an operator


def say(op, fields, *body):
    worker.send(packb(["LMQ1", op, fields, *body]))


def connect():
    global worker, heard
    if worker:
        worker.close(0)
    worker = zmq.Context.instance().socket(zmq.DEALER)
    worker.linger = 1000
    if key := os.environ.get("LANEMQ_BROKER_KEY"):
        worker.curve_serverkey = key.encode()
        worker.curve_publickey = os.environ["LANEMQ_PUBLIC_KEY"].encode()
        worker.curve_secretkey = os.environ["LANEMQ_SECRET_KEY"].encode()
    worker.connect((sys.argv[1:] or ["tcp://127.0.0.1:5571"])[0])
    heard = time.monotonic()
    introduce()


def introduce():
    """What a broker hears first, and again when it does not know this worker: who it is, and all that it holds."""
    global introduced, welcomed
    introduced, welcomed = time.monotonic(), False
    say("ready", ready)
    beat()
    for job in jobs.values():
        job.sent = job.taken
        go_on(job)


def beat():
    global due
    say("heartbeat", {"jobs": [list(lease) for lease in jobs]})
    due = time.monotonic() + interval


def go_on(job):
    """Says the pieces that the window has room for, and behind the last one the outcome."""
    while job.sent < len(job.pieces):
        under_way = job.pieces[job.taken : job.sent]
        if len(under_way) >= 64 or sum(map(len, under_way)) >= 262144:
            return
        say("chunk", {**job.lease, "seq": job.sent}, job.pieces[job.sent])
        job.sent += 1
    op, fields, body = job.outcome
    say(op, {**job.lease, **fields}, body)


def take(fields, body):
    job = SimpleNamespace(lease={"job": fields["job"], "attempt": fields["attempt"]}, pieces=[], sent=0, taken=0)
    job.outcome = ("result", {}, body)
    if terminated or drained:
        job.outcome = ("error", {"class": "released"}, b"")
    elif fields.get("stream"):
        job.pieces = body.split() if fields.get("service") == "words" else re.findall(rb"[^\n]*\n|[^\n]+", body)
        job.outcome = ("result", {}, b"")
    return job


def hear(op, fields, body):
    global interval, welcomed, drained
    lease = (fields.get("job"), fields.get("attempt"))
    job = jobs.get(lease)
    going_on = job and job.sent < len(job.pieces)
    if op == "welcome":
        ready["session"], interval, welcomed, drained = fields.get("session"), fields["heartbeat_ms"] / 1000, True, False
        beat()
    elif op == "job" and not job:
        for older in [held for held in jobs if held[0] == lease[0]]:
            del jobs[older]  # its attempt is over
        jobs[lease] = take(fields, body)
        go_on(jobs[lease])
    elif op == "window" and job:
        job.taken = max(job.taken, fields["seq"] + 1)
        if going_on:
            go_on(job)
    elif op == "cancel" and going_on:
        job.pieces = job.pieces[: job.sent]
        job.outcome = ("error", {"class": "retry", "code": "cancelled"}, b"")
        go_on(job)
    elif op == "drain":
        drained = True
    elif op == "bye":
        connect()
    elif op == "acked":
        for job, attempt in fields["jobs"]:
            jobs.pop((job, attempt), None)
    elif op == "error" and fields["code"] == "stale":
        jobs.pop(lease, None)
    elif op == "error" and fields["code"] == "unknown_session":
        if welcomed or time.monotonic() > introduced + interval:  # else the answer to `ready` is on its way
            introduce()
    elif op == "error":
        print(f"{fields['code']}: {fields.get('message') or ''}", file=sys.stderr)


def terminate(number, frame):
    global terminated
    terminated = True
    signal.signal(number, signal.SIG_DFL)  # a second one ends it at once


signal.signal(signal.SIGTERM, terminate)
signal.signal(signal.SIGINT, terminate)
connect()
while jobs or not terminated:
    if worker.poll(max(0, 1000 * (due - time.monotonic()))):
        heard = time.monotonic()
        header, *rest = worker.recv_multipart()
        try:
            _, op, fields, *inside = unpackb(header)
        except ValueError:
            continue  # a sign of life that a later version may understand
        hear(op, fields, (inside or rest or [b""])[0])
    if time.monotonic() > heard + 3 * interval:
        print("the broker is silent", file=sys.stderr)
        connect()
    elif time.monotonic() >= due:
        beat() if welcomed else introduce()
say("bye", {})
