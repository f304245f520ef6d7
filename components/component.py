"""What all components have in common: the type token, their inputs, and when they register their outputs."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, ParamSpec, Self, TypeVar, cast

import pulumi
from pydantic.alias_generators import to_camel

from components.arguments import as_inputs, inputs_of

Args = TypeVar("Args")
Declared = ParamSpec("Declared")
Resources = Sequence[pulumi.Resource]
"""For example what must exist before a child."""
Parent = pulumi.Resource
Tags = Mapping[str, str]
Opts = pulumi.ResourceOptions | None
Text = pulumi.Input[str]
"""A text, or an output of one."""

_OUTPUTS = ("pulumi.Output", "pulumi.output.Output", "typing.Optional[pulumi.output.Output")
"""Beginnings of the annotations of outputs, as text and as types."""


class Component(pulumi.ComponentResource, ABC, Generic[Declared]):
    """A component with the type token `gpu-ci:index:<Class>`. The token is state, so a renamed class replaces the component.

    A subclass names the types of what its `declare` takes after the name, as in `Component[Chart, Resources]`. Callers pass the
    same after the options.
    """

    _kind = ""
    """The name in the token, if it is not the class's."""

    def __init__(self, name: str, opts: Opts, *args: Declared.args, **kwargs: Declared.kwargs) -> None:
        self._register(name, {}, opts, *args, **kwargs)

    def _register(self, name: str, inputs: dict[str, Any], opts: Opts, *args: Declared.args, **kwargs: Declared.kwargs) -> None:
        super().__init__(f"gpu-ci:index:{self._kind or type(self).__name__}", name, inputs, opts)
        self._name, self._opts = name, opts or pulumi.ResourceOptions()
        self.register_outputs(self.declare(name, *args, **kwargs) or self._outputs)

    @property
    def _outputs(self) -> dict[str, Any]:
        """The outputs that the class annotates, in the spelling of other languages."""
        kinds = inspect.get_annotations(type(self)).items()
        return {to_camel(key): getattr(self, key) for key, kind in kinds if str(kind).startswith(_OUTPUTS)}

    @property
    def _after(self) -> list[pulumi.Resource]:
        """What the component's caller wants to exist before its children: the SDK does not pass `depends_on` on to children."""
        return list(cast("list[pulumi.Resource]", self._opts._depends_on_list()))

    @property
    def _child(self) -> pulumi.ResourceOptions:
        """Options of a child that waits for nothing."""
        return pulumi.ResourceOptions(parent=self)

    def _below(self, *needed: pulumi.Resource, **options: Any) -> pulumi.ResourceOptions:
        """Options of a child that is created after `needed`, with other options."""
        return pulumi.ResourceOptions(parent=self, depends_on=[*needed], **options)

    @abstractmethod
    def declare(self, name: str, *args: Declared.args, **kwargs: Declared.kwargs) -> dict[str, Any] | None:
        """Declare the children, each with `parent=self` and a logical name that starts with `name`. Returns the outputs,
        or None if they are those that the class annotates.
        """


class PackagedComponent(Component[[Args]], Generic[Args]):
    """A component of the package: programs in every Pulumi language create it.

    A subclass has its own `__init__(self, name, args, opts=None)`, whose `args` are a TypedDict of plain arguments and inputs
    (`components.arguments`). `read` converts them to what `declare` needs. It raises InputPropertyError before anything is
    registered. A program in this repository calls `typed` instead, and no mapping is between its settings and the component.
    The children depend on what the component's own option `depends_on` names.
    """

    _paths: ClassVar[Mapping[str, str]] = {}
    """Names of arguments by their path in the settings model, where they differ."""

    def __init__(self, name: str, args: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None) -> None:
        inputs = inputs_of(type(self), args)
        self._register(name, inputs, opts, self.read(inputs))

    @classmethod
    def typed(cls, name: str, args: Args, opts: pulumi.ResourceOptions | None = None) -> Self:
        """The component from settings that are checked already, as `read` returns them. The state shows them as arguments."""
        component = cls.__new__(cls)
        component._register(name, as_inputs(cls, args, cls._paths), opts, args)
        return component

    @classmethod
    @abstractmethod
    def read(cls, inputs: dict[str, Any]) -> Args:
        """Check the inputs and convert them to what `declare` needs. It marks secrets in the inputs."""
