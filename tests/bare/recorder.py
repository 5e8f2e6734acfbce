# SPDX-License-Identifier: Apache-2.0
"""An upstream over HTTP that answers with what it is asked, and writes down each body in the order of the calls:
recorder.py PORT LOG. So it is seen from outside how often each job ran."""

import socket
import sys
import threading


def serve(connection, log, lock):
    reader = connection.makefile("rb", buffering=65536)
    while line := reader.readline():
        size = 0
        while (line := reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                size = int(value)
        body = reader.read(size)
        with lock:
            log.write(body + b"\n")
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


def main():
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=256)
    lock = threading.Lock()
    with open(sys.argv[2], "wb", buffering=0) as log:
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=serve, args=(connection, log, lock), daemon=True).start()


if __name__ == "__main__":
    main()
