#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package's client as the kit wants it: sdk_client.py ENDPOINT reads jobs from stdin and prints a line for each."""

import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../client/python"))
from lanemq import Client, LaneMQError, UnauthorizedError  # noqa: E402


printing = threading.Lock()


def ask(client, what, body):
    try:
        if what == "stream":
            with client.stream("echo", body) as stream:
                answer = b"".join(stream) + stream.answer.body
        else:
            answer = client.submit("echo", body).body
        line = f"result {answer.decode()}"
    except UnauthorizedError as error:
        print(f"sdk_client: {error}", file=sys.stderr)
        os._exit(1)
    except LaneMQError as error:
        line = f"error {error.code}"
    with printing:
        print(line, flush=True)


with Client(sys.argv[1]) as client:
    jobs = [line.rstrip("\n").split(" ", 1) for line in sys.stdin]
    threads = [threading.Thread(target=ask, args=(client, what, body)) for what, body in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
