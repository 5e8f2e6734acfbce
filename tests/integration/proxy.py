# SPDX-License-Identifier: Apache-2.0
"""What stands between a worker and its broker, and fails."""

import socket
import threading


class Proxy:
    """Passes bytes between a worker and the broker until it is told to cut all connections."""

    def __init__(self, endpoint):
        host, port = endpoint.removeprefix("tcp://").rsplit(":", 1)
        self.target, self.open = (host, int(port)), []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self.server.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near = self.server.accept()[0]
                far = socket.create_connection(self.target)
            except OSError:
                return
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.open.append((near, far))
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self.pump, args=(source, sink), daemon=True).start()

    @staticmethod
    def pump(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for one in (source, sink):
            one.close()

    def cut(self):
        """Both ends of all connections hear that they are over."""
        for pair in self.open:
            for one in pair:
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        self.open.clear()

    def close(self):
        self.cut()
        self.server.close()
