"""Steps of a cluster's life, for scripts that run in parallel to a follower."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from tests.submit.objects import ended, pod, true
from tests.submit.server import ApiServer


def ctrl_c() -> None:
    """Send SIGINT to the process, as a terminal does. A signal that a thread raises for itself ends no wait of another thread.

    A signal just before a system call does not end that call, so the main thread gets time to begin its wait.
    """
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)


def until(condition: Callable[[], bool]) -> None:
    """Wait for the follower to have come so far."""
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("the follower did not come so far")


def ready(server: ApiServer, name: str = "train", followers: int = 1) -> dict[str, Any]:
    """Wait until each follower has looked; gives the Job."""
    server.wait("list", "pods", 2 * followers - 1)
    return server.get("jobs", name)


def polled(server: ApiServer) -> None:
    """Wait until a follower has seen and shown the objects as they are now."""
    server.wait("list", "pods", len(server.asked("list", "pods")) + 2)


def show(server: ApiServer, of: dict[str, Any], name: str, status: dict[str, Any], **spec: Any) -> None:
    """Put a pod, or change it."""
    server.put("pods", pod(of, name, status, **spec))


def finish(server: ApiServer, *conditions: dict[str, Any], name: str = "train", **more: Any) -> None:
    """The Job ends with these conditions."""
    server.put("jobs", server.get("jobs", name) | {"status": {"conditions": list(conditions), **more}})


def complete(server: ApiServer, name: str = "train") -> None:
    """The Job has done its work."""
    finish(server, true("Complete", "CompletionsReached"), name=name, succeeded=1)


def fail(
    server: ApiServer, reason: str = "BackoffLimitExceeded", message: str = "Job has reached the specified backoff limit"
) -> None:
    """The Job has failed."""
    finish(server, true("Failed", reason, message), failed=1)


def work(server: ApiServer, *lines: str, name: str = "train") -> None:
    """A whole good life of a Job that is followed: one pod, these lines of log."""
    made = ready(server, name)
    server.write(f"{name}-a", *lines)
    show(server, made, f"{name}-a", ended(0))
    complete(server, name)
