"""Plain arguments: every Pulumi language can pass them to a component, and the state shows them.

A component declares its arguments as a TypedDict with snake_case keys. A value is plain (a text, number, list or mapping) if it
decides names, counts or the content of templates, and otherwise a `pulumi.Input`. Here the arguments become inputs: the
same values with camelCase keys, as the engine and the settings models have them.
"""

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import pulumi
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from fleet.facts.errors import FleetError, shown
from fleet.settings.reading import read

Settings = TypeVar("Settings", bound=BaseModel)


def inputs_of(component: type[pulumi.ComponentResource], args: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a component from its arguments, without those that are None.

    Whole floats become integers where the TypedDict says `int` or `Any`, because providers get every number as a float. Raises
    InputPropertyError for an unknown or missing argument, and for an output where a plain value is necessary.
    """
    return _mapping("", args, _arguments(component))


def settings(
    model: type[Settings], inputs: Mapping[str, Any], names: Mapping[str, str] = types.MappingProxyType({}), *, at: str = ""
) -> Settings:
    """A settings model from inputs that are plain. Inputs that the model does not have are ignored.

    `names` are the names of inputs by their path in the model (`scale.max`), where they differ. `at` is the path of the inputs.
    The model's own rules apply. Raises InputPropertyError for the first broken one.
    """
    keys = [field.alias or name for name, field in model.model_fields.items()]
    values: dict[str, Any] = {key: inputs[key] for key in keys if key in inputs and key not in names.values()}
    for path, name in names.items():
        if name in inputs:
            *above, last = path.split(".")
            holder = values
            for key in above:
                holder = holder.setdefault(key, {})
            holder[last] = inputs[name]
    try:
        return read(model, "", values)
    except FleetError as error:
        first = error.problems[0]
        steps = (first.path[0].removeprefix(":"), *first.path[1:])
        path = "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in steps).removeprefix(".")
        raise wrong(_below(at, names.get(path, path)), first.message, first.value) from None


def as_inputs(component: type[pulumi.ComponentResource], args: Any, names: Mapping[str, str]) -> dict[str, Any]:
    """The inputs by which a program would pass `args`, for the state. It has no effect on what the component declares.

    `args` is a settings model, or a dataclass with one in `settings` and the values that may be outputs. `names` are those
    of `settings`. What is empty is left out, and what is false by default.
    """
    values = {to_camel(part.name): getattr(args, part.name) for part in fields(args)} if is_dataclass(args) else {}
    model = values.pop("settings", args)
    values = _flat(model, names) | {key: _flat(item, {}) if isinstance(item, BaseModel) else item for key, item in values.items()}
    on = {field.alias for field in type(model).model_fields.values() if field.default is True}
    keys = map(to_camel, _arguments(component).__annotations__)
    return {key: value for key in keys if (value := values.get(key)) or (value is False and key in on)}


def _flat(model: BaseModel, names: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a model as a stack file has them; those at a path of `names` by their name as an input."""
    values = model.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
    for path, name in names.items():
        *above, last = path.split(".")
        holder: Any = values
        for key in above:
            holder = holder.get(key, {})
        if last in holder:
            values[name] = holder.pop(last)
    return values


def _arguments(component: type[pulumi.ComponentResource]) -> Any:
    """The TypedDict of a component's arguments."""
    return inspect.get_annotations(component.__init__)["args"]


def checked(path: str, value: pulumi.Input[str], check: Callable[[str], object], fix: str) -> pulumi.Input[str]:
    """The value, or an output of it that fails unless `check` accepts it: at once if it is known, otherwise when it resolves.

    `check` raises ValueError, or returns a false value, for a wrong text. `fix` is the rule and how to fix it.
    """

    def accept(text: str) -> str:
        # A simulated cloud may return None.
        if text is not None and not check(text):
            raise wrong(path, fix, shown(text))
        return text

    if isinstance(value, str):
        return accept(value)
    later: pulumi.Output[str] = pulumi.Output.from_input(value)
    return later.apply(accept)


def typed(path: str, value: pulumi.Input[str], kind: Any) -> pulumi.Input[str]:
    """The value, checked as `checked` does by the type of a settings field. The type's own message applies."""

    def accept(text: str) -> bool:
        try:
            TypeAdapter(kind).validate_python(text)
        except ValidationError as error:
            raise wrong(path, error.errors()[0]["msg"], shown(text)) from None
        return True

    return checked(path, value, accept, "")


def known(value: Any, instead: str) -> Any:
    """The value with a valid text in place of each output, so that a settings model can check everything else.

    `instead` ends in digits. The outputs of a mapping get different ones, because a model may refuse two equal values.
    """
    if isinstance(value, Mapping):
        return {key: known(entry, f"{instead[:-2]}{number:02d}") for number, (key, entry) in enumerate(value.items())}
    return instead if isinstance(value, pulumi.Output) else value


def require(holds: bool, path: str, rule: str) -> None:
    """Raise InputPropertyError with the rule for an argument, unless the rule holds."""
    if not holds:
        raise wrong(path, rule)


def wrong(path: str, rule: str, value: str = "") -> pulumi.InputPropertyError:
    """The error for an input at a path: the rule with how to fix it, and the wrong value as shown, if any."""
    error = pulumi.InputPropertyError(path, f"{rule}; got {value}" if value else rule)
    # The SDK's class has no text of its own, and a Python program prints the exception.
    error.args = (f"{path}: {error.reason}",)
    return error


def _mapping(path: str, value: Any, kind: Any) -> dict[str, Any]:
    """The values of a TypedDict with camelCase keys."""
    hints = kind.__annotations__  # not `get_type_hints`: it fails at the forward reference in `pulumi.Input`
    if not isinstance(value, Mapping):
        raise wrong(path, f"not a mapping; its keys are {', '.join(hints)}", shown(value))
    for key in value:
        if key not in hints:
            raise wrong(_below(path, key), f"unknown argument; known are {', '.join(hints)}")
    passed = {key: entry for key, entry in value.items() if entry is not None}
    for key in sorted(kind.__required_keys__ - passed.keys()):
        raise wrong(_below(path, to_camel(key)), "required argument is missing; add it")
    return {to_camel(key): _value(_below(path, to_camel(key)), entry, hints[key]) for key, entry in passed.items()}


def _value(path: str, value: Any, hint: Any) -> Any:
    """A value as its type hint allows it: an output only where the hint is an Input."""
    options = _options(hint)
    if isinstance(value, pulumi.Output):
        if any(isinstance(option, typing.ForwardRef) for option in options):
            return value
        raise wrong(path, "must be known when the program runs, because names or counts depend on it; pass a plain value")
    for option in options:
        origin = typing.get_origin(option)
        if typing.is_typeddict(option):
            return _mapping(path, value, option)
        if origin is list and isinstance(value, Sequence) and not isinstance(value, str):
            (item,) = typing.get_args(option)
            return [_value(f"{path}[{index}]", entry, item) for index, entry in enumerate(value)]
        if origin is dict and isinstance(value, Mapping):
            return {key: _value(f"{path}.{key}", entry, typing.get_args(option)[1]) for key, entry in value.items()}
        if option in (int, Any):
            value = _whole(value)
    if Any not in options and not any(inspect.isclass(option) and isinstance(value, option) for option in options):
        raise wrong(path, f"must be {_named(options)}", shown(value))
    return value


def _whole(value: Any) -> Any:
    """A value of any type. Whole floats become integers, also in lists and mappings."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(entry) for entry in value]
    return {key: _whole(entry) for key, entry in value.items()} if isinstance(value, Mapping) else value


def _options(hint: Any) -> list[Any]:
    """The types that a hint allows: NotRequired, Optional and Input are unpacked."""
    origin = typing.get_origin(hint)
    if origin in (typing.NotRequired, typing.Required):
        return _options(typing.get_args(hint)[0])
    if origin in (typing.Union, types.UnionType):
        return [option for kind in typing.get_args(hint) if kind is not types.NoneType for option in _options(kind)]
    return [hint]


def _named(options: Sequence[Any]) -> str:
    names = {str: "a text", int: "a whole number", bool: "true or false", float: "a number"}
    origins = {list: "a list", dict: "a mapping"}
    words = [names.get(kind) or origins.get(typing.get_origin(kind) or kind, "") for kind in options]
    return " or ".join(dict.fromkeys(filter(None, words))) or "another type"


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
