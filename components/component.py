"""What all components have in common: the type token, and when they register their outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import pulumi

Args = TypeVar("Args")


class Component(pulumi.ComponentResource, ABC, Generic[Args]):
    """A component with the type token `gpu-ci:index:<Class>`. The token is state, so a renamed class replaces the component."""

    def __init__(self, name: str, args: Args, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"gpu-ci:index:{type(self).__name__}", name, {}, opts)
        self._name, self._args = name, args
        self.register_outputs(self.declare(name, args) or {})

    @abstractmethod
    def declare(self, name: str, args: Args) -> dict[str, Any] | None:
        """Declare the children, each with `parent=self` and a logical name that starts with `name`. Returns the outputs."""
