"""A Prometheus on loopback with given samples. It ends with the test, and after two minutes in any case."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("prometheus", "promtool", "timeout")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]


class Server:
    """A running Prometheus. Queries are answered as of `at`, seconds since 1970."""

    def __init__(self, port: int, at: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.at = at

    def query(self, text: str) -> list[tuple[dict[str, str], float]]:
        """(labels, value) of each series that a query returns."""
        parameters = urllib.parse.urlencode({"query": text, "time": self.at})
        try:
            answer = self.get(f"/api/v1/query?{parameters}")
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{text}: {error.read().decode()}") from error
        data: dict[str, Any] = json.loads(answer)["data"]
        assert data["resultType"] == "vector", text
        return [(each["metric"], float(each["value"][1])) for each in data["result"]]

    def get(self, path: str) -> bytes:
        """The body of an answer."""
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:  # noqa: S310 - loopback
            body: bytes = answer.read()
        return body


def free_port() -> int:
    """A port of loopback that nothing uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@contextmanager
def serving(samples: str, at: int, folder: Path) -> Iterator[Server]:
    """A server with these samples, which are OpenMetrics with times. `folder` is an empty folder for its data."""
    (folder / "samples").write_text(samples)
    (folder / "prometheus.yml").write_text("global: {}\n")
    made = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(folder / "samples"), str(folder / "data")]
    subprocess.run(made, check=True, capture_output=True)
    port = free_port()
    options = {
        "config.file": folder / "prometheus.yml",
        "storage.tsdb.path": folder / "data",
        "storage.tsdb.retention.time": "100y",
        "web.listen-address": f"127.0.0.1:{port}",
    }
    command = ["timeout", "120", "prometheus", *(f"--{name}={value}" for name, value in options.items())]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            server = Server(port, at)
            waiting(server, process, folder / "log")
            yield server
        finally:
            process.terminate()
            process.wait()


def waiting(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until the server is ready."""
    for _ in range(300):
        assert process.poll() is None, log.read_text()
        try:
            server.get("/-/ready")
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"not ready after 30 s: {log.read_text()}")
