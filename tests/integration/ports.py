#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ports of the kernel's choice for programs that are started later, or again, at the same place.

A port that was tried, let go of and noted may be anybody's by the time it is used: the system gives it to whoever connects or
binds next. Here each stays bound, without listening, for as long as this process lives. The kernel then gives it to nobody by
itself, who connects to it is refused, and a program that binds it by its number gets it, as all that set SO_REUSEADDR do:
libzmq, our own servers, PostgreSQL, what is written in Go or for Node.

As a program it is for tests that cannot hold a port themselves: it answers each line of its stdin with a port, and holds them
all until stdin ends.
"""

import socket
import sys


def free_port():
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    port = held.getsockname()[1]
    held.detach()  # it is closed with this process, and by nobody before
    return port


if __name__ == "__main__":
    for _ in sys.stdin:
        print(free_port(), flush=True)
