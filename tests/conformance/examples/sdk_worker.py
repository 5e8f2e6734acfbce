#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package's worker as the kit wants it: sdk_worker.py ENDPOINT serves `echo` and `wait`."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../client/python"))
from lanemq import Worker, WorkerRefusedError  # noqa: E402


def echo(job):
    if not job.stream:
        return job.body
    for line in job.body.splitlines(keepends=True):
        job.chunk(line)


def wait(job):
    job.wait_cancelled(3)
    job.check()
    return job.body


try:
    Worker({"echo": echo, "wait": wait}, broker=sys.argv[1], capacity=8).run()
except WorkerRefusedError as error:
    sys.exit(f"sdk_worker: {error.message}")
