"""The way from the API server to programs: pods become ready when they answer, and connections end at their processes."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread

import pytest

from gpu_ci.world.hands import Pod
from gpu_ci.world.processes import Processes
from gpu_ci.world.services import SOCKET, serve
from tests.world.kubelet import Server, plane

POD = "10.0.3.7"


class Shouting(StreamRequestHandler):
    """A program that answers in capitals once it has read everything."""

    def handle(self) -> None:
        self.wfile.write(self.rfile.read().upper())


@pytest.fixture
def program() -> Iterator[int]:
    """The local port of a program that stands for port 9443 of the pod."""
    with ThreadingTCPServer(("127.0.0.1", 0), Shouting) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture
def folder(program: int, tmp_path: Path) -> Iterator[Path]:
    stop = serve(tmp_path, lambda host, port: {(POD, 9443): program, (POD, 1): 1}[host, port])
    yield tmp_path
    stop()


def connection(folder: Path, request: bytes) -> tuple[socket.socket, bytes]:
    """A connection, and the first line of the answer to a request."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    client.connect(str(folder / SOCKET))
    client.sendall(request)
    return client, client.recv(200).partition(b"\r\n")[0]


def connect(to: str) -> bytes:
    return f"CONNECT {to} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def test_a_connection_to_a_pod_is_one_to_its_process(folder: Path) -> None:
    client, answer = connection(folder, connect(f"{POD}:9443"))
    with client:
        assert answer == b"HTTP/1.1 200 OK"
        client.sendall(b"hello " * 50_000)
        client.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert received == b"HELLO " * 50_000, "both ends close as they would without the socket between them"


@pytest.mark.parametrize("to", [f"{POD}:8443", "10.0.3.8:9443", f"{POD}:1"])
def test_without_a_process_there_the_api_server_gets_an_error(folder: Path, to: str) -> None:
    client, answer = connection(folder, connect(to))
    with client:
        assert answer.startswith(b"HTTP/1.1 502")


def test_a_client_that_says_nothing_disturbs_no_other(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(folder / SOCKET))
        test_a_connection_to_a_pod_is_one_to_its_process(folder)
    test_a_connection_to_a_pod_is_one_to_its_process(folder)
    assert "Exception" not in capsys.readouterr().err


def test_kueue_listens_on_free_ports_of_the_loopback_interface_and_keeps_its_settings(tmp_path: Path) -> None:
    config = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nmetrics:\n  enableClusterQueueResources: true\n"
    with Processes(tmp_path) as processes:
        own = Pod(plane(Server(), processes), Server().api, {}, tmp_path)
        moved = json.loads(own.local(config))
    assert {*own.ports} == {8081, 8082, 8443, 9443}
    assert moved == {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "metrics": {"enableClusterQueueResources": True, "bindAddress": f"127.0.0.1:{own.ports[8443]}"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{own.ports[8081]}"},
        "webhook": {"host": "127.0.0.1", "port": own.ports[9443]},
        "visibilityServer": {"bindAddress": "127.0.0.1", "bindPort": own.ports[8082]},
    }
