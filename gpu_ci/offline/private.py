"""What the recorder and the judge use of asyncio and of Pulumi's SDKs that no manual documents.

No other module of this folder uses such a name that begins with an underscore. `tests/offline/test_private.py` has every such
name, and looks for each in the newest SDK.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from pulumi.runtime import resource as registration, settings
from pulumi.runtime.proto import source_pb2


def no_stack_traces() -> AbstractContextManager[object]:
    """Registrations without a stack trace: it takes a fifth of the SDK's time, and only the engine's messages use it."""
    return patch.object(registration, "_get_stack_trace", source_pb2.StackTrace)


def forget() -> None:
    """Let the SDK drop the settings of a recording, and with them its memory."""
    # The SDK's context properties keep the first value that they get as a process-wide default. Setting None twice (over the
    # value, then over None) clears that default, and frees the memory of the recording.
    for name in ("monitor", "engine", "project", "stack", "dry_run", "organization", "root_directory", "callbacks"):
        setattr(settings.SETTINGS, name, None)
        setattr(settings.SETTINGS, name, None)


class Loop(asyncio.SelectorEventLoop):
    """An event loop that runs executor jobs at once, in the caller's thread, and registers resources while the program runs.

    The SDK alone starts the registrations when the program has returned. All of them then wait at the same time: a fleet of 250
    pools takes 494 MiB instead of 331. This loop interrupts the program after a batch of new tasks, and runs the tasks until each
    is done or waits for the program. So an `apply` callback can run before the program ends.
    """

    program: asyncio.Task[Any] | None = None
    """The task of the program while the program runs."""
    _BATCH = 200  # about 15 resources
    _new = 0

    def create_task(self, *args: Any, **options: Any) -> asyncio.Task[Any]:
        task = super().create_task(*args, **options)
        if self.program is not None and asyncio.current_task(self) is self.program:
            self._new += 1
            if self._new >= self._BATCH:
                self._new = 0
                self._run_tasks(self.program)
        return task

    def _run_tasks(self, program: asyncio.Task[Any]) -> None:
        loop: Any = self
        # The documented way ("Extending" in asyncio's manual) to let another task run inside a task.
        asyncio.tasks._leave_task(self, program)
        try:
            while loop._ready:
                loop._run_once()
        finally:
            asyncio.tasks._enter_task(self, program)

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: object) -> asyncio.Future[Any]:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - awaiting the future raises it
            future.set_exception(error)
        return future
