"""Fixtures: an API server on the loopback interface, a kubeconfig for it, and scripts that change its objects."""

from __future__ import annotations

import _thread
import json
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_ci.submit import Output, RunOptions, connect
from gpu_ci.submit.cluster import Cluster
from gpu_ci.submit.runs import Timing
from tests.submit.server import NAMESPACE, TOKEN, ApiServer

TIMING = Timing(poll=0.04, first_pause=0.01, longest_pause=0.05, patience=5, remind=60, drain=5)
OPTIONS = RunOptions(stuck_after=0.2, timing=TIMING)


class Told(Output):
    """Remembers what is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.logs: list[str] = []

    def progress(self, who: str, message: str) -> None:
        self.lines.append(f"{who}: {message}")

    def log(self, prefix: str, line: str) -> None:
        self.logs.append(f"{prefix}{line}")

    def logged(self, count: int) -> bool:
        """Whether at least so many log lines were shown."""
        return len(self.logs) >= count

    def has(self, part: str) -> bool:
        """Whether a line of progress contains this text."""
        return any(part in line for line in self.lines)


@pytest.fixture(autouse=True)
def hears_ctrl_c() -> Iterator[None]:
    """Handle SIGINT: a shell starts background processes with SIGINT ignored, and Python keeps that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _no_other_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the kubeconfig, the proxy settings and the pod environment of this machine."""
    for name in (
        "KUBECONFIG",
        "KUBERNETES_SERVICE_HOST",
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as found:
        yield found


def kubeconfig(path: Path, url: str, **user: Any) -> Path:
    """Write a kubeconfig with one context, `here`, with the namespace ml."""
    held = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "loop", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": user or {"token": TOKEN}}],
        "contexts": [{"name": "here", "context": {"cluster": "loop", "user": "me", "namespace": NAMESPACE}}],
    }
    path.write_text(json.dumps(held))
    return path


@pytest.fixture
def config(server: ApiServer, tmp_path: Path) -> Path:
    return kubeconfig(tmp_path / "kubeconfig", server.url)


@pytest.fixture
def cluster(config: Path) -> Iterator[Cluster]:
    found = connect(config)
    found.timeouts = (2, 2)
    yield found
    found.api.close()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def meanwhile() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Run a script in a thread during the test. If the script fails, the test fails."""
    threads: list[threading.Thread] = []
    failed: list[BaseException] = []

    def start(script: Callable[[], None]) -> None:
        def whole() -> None:
            try:
                script()
            except BaseException as error:  # noqa: BLE001 - raised below
                failed.append(error)
                # Otherwise the test would wait forever for the rest of the script.
                _thread.interrupt_main()

        thread = threading.Thread(target=whole, daemon=True)
        threads.append(thread)
        thread.start()

    yield start
    for thread in threads:
        thread.join(15)
        assert not thread.is_alive(), "the script did not end"
    if failed:
        raise failed[0]
