"""A stand-in for the generated Python SDK. It declares the components in this process, so that a plan shows their children."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pulumi

from components.component import PackagedComponent
from package.provider import NAME, NAMESPACE, packaged

MODULE = f"{NAMESPACE}_{NAME}".replace("-", "_")
"""Name of the generated Python module."""


def _constructor(kind: type[PackagedComponent[Any]]) -> Any:
    def construct(name: str, opts: pulumi.ResourceOptions | None = None, **args: Any) -> PackagedComponent[Any]:
        return kind(name, args, opts)

    return construct


@contextmanager
def importable() -> Iterator[None]:
    """Programs can import the SDK."""
    sdk = types.ModuleType(MODULE)
    for kind in packaged():
        setattr(sdk, kind.__name__, _constructor(kind))
    # Not `patch.dict`: it would also remove the modules that a program imports.
    sys.modules[MODULE] = sdk
    try:
        yield
    finally:
        del sys.modules[MODULE]
