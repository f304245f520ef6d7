"""The way from the API server to the programs that it asks: webhooks, and servers of other APIs.

The API server finds a ready pod of the Service itself, and asks for a connection to the pod's address with HTTP CONNECT
(apiserver, pkg/server/egressselector). No network has that address here: the other end is the port at which its process listens.
"""

import re
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from threading import Thread

SOCKET = "services"
"""The socket in the folder of a world."""
_CONNECT = re.compile(r"CONNECT (\S+):(\d+) ")
_SECONDS = 5


class _Server(ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False


class _Tunnel(StreamRequestHandler):
    """One connection to a pod."""

    def __init__(self, local: Callable[[str, int], int], *of_server: object) -> None:
        self._local = local
        super().__init__(*of_server)  # type: ignore[arg-type] # as socketserver calls it

    def handle(self) -> None:
        """Connect both sides, and copy until both have ended. Without a process there the answer is 502."""
        asked = _CONNECT.match(self.rfile.readline(300).decode())
        while self.rfile.readline(300).strip():
            pass
        if asked is None:
            return
        try:
            pod = socket.create_connection(("127.0.0.1", self._local(asked[1], int(asked[2]))), _SECONDS)
        except (OSError, KeyError):
            self.wfile.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            return
        with pod:
            pod.settimeout(None)
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            back = Thread(target=_copy, args=(pod, self.connection), daemon=True)
            back.start()
            _copy(self.connection, pod)
            back.join()


def serve(folder: Path, local: Callable[[str, int], int]) -> Callable[[], None]:
    """Serve at the socket in `folder`; returns what stops it. `local` is as `Hands.port`."""
    server = _Server(str(folder / SOCKET), partial(_Tunnel, local))
    Thread(target=server.serve_forever, args=(0.05,), daemon=True, name="services").start()

    def stop() -> None:
        server.shutdown()
        server.server_close()

    return stop


def _copy(source: socket.socket, to: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            to.sendall(data)
    with suppress(OSError):
        to.shutdown(socket.SHUT_WR)
