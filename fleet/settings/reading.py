"""Reads one namespace of a project's parsed config into a settings model.

Each error of pydantic becomes a path, the broken rule, how to fix it, and a value.
"""

import json
import re
import types
import typing
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import Any, Protocol, TypeVar, runtime_checkable

from annotated_types import Ge, Le
from pydantic import BaseModel, Tag, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from fleet.facts.errors import MOST_PROBLEMS, FleetError, Problem, instead, shown
from fleet.facts.remark import said
from fleet.facts.tables import beside, rows
from fleet.settings.existing import CREATED, EXISTS
from fleet.settings.gitops import SECRET_WAYS
from fleet.settings.model import Cpu, Duration, Memory
from fleet.settings.runner import KINDS
from fleet.settings.sharing import STRATEGIES
from fleet.settings.workloads import KINDS as WORKLOAD_KINDS

Settings = TypeVar("Settings", bound=BaseModel)


def read(root: type[Settings], namespace: str, config: Mapping[str, object]) -> Settings:
    """Validate the config of a namespace as settings of type `root`. Keys of `config` have no namespace.

    Raises FleetError with the problems found.
    """
    try:
        return root.model_validate_json(json.dumps(config))
    except ValidationError as error:
        errors = error.errors()
        foreign = {entry["loc"][:-1] for entry in errors if is_foreign_kind(entry)}
        own = [entry for entry in errors if not _shadow(entry, foreign)]
        problems = tuple(_problem(root, namespace, entry) for entry in own[:MOST_PROBLEMS])
        raise FleetError(problems, len(own) - len(problems)) from None


def _shadow(error: ErrorDetails, foreign: Collection[tuple[int | str, ...]]) -> bool:
    """Whether an error is only a consequence of another one.

    Pydantic counts only the valid items of a list, so a list of invalid items is too short as well. `foreign` has the locations
    of runners whose kind their provider does not support: the wrong model reads them and rejects all their keys.
    """
    if error["type"] == "too_short" and len(error["input"]) >= error.get("ctx", {})["min_length"]:
        return True
    heads = (error["loc"][:end] for end in range(len(error["loc"]) + 1))
    return bool(foreign) and not is_foreign_kind(error) and any(head in foreign for head in heads)


_HIDDEN = re.compile("key|secret|token|password|credential|licen[cs]e|^env", re.IGNORECASE)
"""Unknown keys with such names may contain secrets, so errors do not show their values."""
_UNION = {"union_tag_invalid": "provider", "union_tag_not_found": "provider", "gpu_ci_runner_kind": "kind"}
"""The key that selects a model of a union, by the error type if the key is missing or unknown."""


def _problem(root: type[BaseModel], namespace: str, error: ErrorDetails) -> Problem:
    """A pydantic error as path, rule and value.

    A rule of a whole model can point to a value below it with `at`, replace the shown value with `value`, and hide it with
    `private`.
    """
    context = error.get("ctx", {})
    # Pydantic marks a bad key by "[key]" after it; the file has no such key.
    marked = error["loc"][-2:] == (error["input"], "[key]")
    # A missing entry of a list of fixed length has no location, so show the list.
    short = error["type"] == "missing" and isinstance(error["loc"][-1], int)
    located = tuple(map(str, error["loc"][:-1] if marked or short else error["loc"]))
    at = (_UNION[error["type"]],) if error["type"] in _UNION else tuple(context.get("at", ()))
    path = untagged(root, located) + at
    # People may paste the GitHub App's key at or below gitops.secrets.
    pasted = ("gitops", "secrets") in pairwise(path)
    private = context.get("private") or (error["type"] == "extra_forbidden" and _HIDDEN.search(path[-1])) or pasted
    missing, there = (False, context["value"]) if "value" in context else standing(error["input"], at)
    value = "" if private or missing or error["type"] in ("missing", "json_invalid") else shown(there)
    head = f"{namespace}:{path[0]}" if path else namespace
    return Problem((head, *path[1:]), hint(error, root, located), value, error["type"].removeprefix("gpu_ci_"))


def standing(value: Any, at: tuple[str, ...]) -> tuple[bool, Any]:
    """(whether the value is missing, the value) at a path below a value."""
    for step in at:
        try:
            value = value[int(step)] if isinstance(value, list) else value[step]
        except (LookupError, TypeError, ValueError):
            return True, None
    return False, value


_SHORT = "an entry is missing at the end of the list; add it"
_TOLD_BY = dict.fromkeys((*KINDS, *WORKLOAD_KINDS), "kind") | dict.fromkeys(STRATEGIES, "strategy")
_TOLD_BY |= dict.fromkeys(SECRET_WAYS, "by")
"""The key that selects a model of a union, by tag, unless the key is `provider`."""
_ORIGINS = {CREATED: "a cluster that the program creates", EXISTS: "a cluster that exists already"}
"""The two models of a provider by tag, in words."""
_PRIVATE_KEY = re.compile(r"(github)?_?(app)?_?private_?key(pem)?|pem", re.IGNORECASE)
"""Keys under which people write the App's private key."""
KEY_IN_FILE = (
    "a private key must not be in a file in clear text: remove it, replace it with a new one in the GitHub App's settings, and "
    "run pulumi config set --secret gpu-ci:githubPrivateKey < key.pem"
)
_FIXES: dict[str, str] = beside(__file__, "pydantic.toml")
_SAMPLES = [(typing.get_args(kind)[1], text) for kind, text in ((Cpu, "4"), (Memory, "16Gi"), (Duration, "10m"))]
"""The validator of a quantity, and a value that it accepts."""
_ANY = "…"


@runtime_checkable
class Choices(Protocol):
    """Metadata of an annotation that is a union of models. `choices` has the models by tag."""

    @property
    def choices(self) -> Mapping[str, Any]: ...


def is_private_key(key: str, value: object) -> bool:
    """Whether an unknown key is where somebody wrote a private key."""
    return isinstance(value, str) and ("PRIVATE KEY" in value or _PRIVATE_KEY.fullmatch(key) is not None)


def hint(error: ErrorDetails, root: type[BaseModel], path: tuple[str, ...]) -> str:
    """The rule that was broken and how to fix it, for one pydantic error at `path` below `root`."""
    context = error.get("ctx", {})
    kind = error["type"]
    if kind == "gpu_ci_runner_kind" and {"pool", "shapes"} <= error["input"].keys() and "kind" not in error["input"]:
        return "a pod has pool and a machine has shapes; remove one of them, and set kind of a machine to vm or vm-per-job"
    if kind.startswith("gpu_ci_"):
        return str(context.get("message", error["msg"]))
    if kind == "extra_forbidden":
        private = KEY_IN_FILE if is_private_key(path[-1], error["input"]) else ""
        return "unknown key; " + (_elsewhere(root, path) or private or _instead(path[-1], _keys(_model_at(root, path[:-1]))))
    if is_foreign_kind(error):
        return _foreign_kind(str(error["input"]), path[2], _choices(_at(root, path[:2])))
    if kind.startswith("union_tag"):
        context = {"known": ", ".join(_choices(_at(root, path)))}
    if kind in ("missing", "model_type", "dict_type"):
        context = {"write": _write(_field(root, path), _at(root, path))}
    if size := context.get("min_length", context.get("max_length")):
        context = {"entries": f"{size} entry is" if size == 1 else f"{size} entries are"}
    if kind in _FIXES:
        return (_SHORT if kind == "missing" and isinstance(error["loc"][-1], int) else _FIXES[kind]).format(**context)
    return f"{error['msg'][0].lower()}{error['msg'][1:]}; correct the value"


_SLIP = 0.85
"""How similar two spellings of the same key are at least: limits and limit."""


def _spelled(word: str) -> str:
    """A key without what spellings differ in: maxRunners and max_runners are one word."""
    return re.sub("[-_]", "", word).casefold()


_WORDS = {_spelled(row["word"]): row for row in rows("words.csv")}
"""What to write instead of the words of other projects, by the word."""


def _ours(key: str) -> str:
    """What to write instead of a word of another project; empty for any other key."""
    row = _WORDS.get(_spelled(key))
    return f"a word of {row['of']}: {row['instead']}" if row else ""


def _instead(key: str, known: tuple[str, ...]) -> str:
    # A key with one letter too many is a slip, whatever word it is elsewhere.
    return instead(key, known, "", _SLIP) or _ours(key) or instead(key, known, f"known keys: {', '.join(known)}")


def _write(field: FieldInfo, annotation: Any) -> str:
    """What to write as the value of a key: one of its values, its range, or its shape."""
    kind = _required_part(field.annotation)
    items = typing.get_origin(kind) in (tuple, list)
    item = _required_part(typing.get_args(kind)[0]) if items else kind
    if typing.get_origin(item) is typing.Literal:
        return f"write {'a list of some' if items else 'one'} of {', '.join(sorted(map(str, typing.get_args(item))))}"
    if items:
        return "write [one, another]"
    if kind is bool:
        return "write true or false"
    bounds = [f"{word} {bound}" for word, bound in (("at least", _bound(field, Ge)), ("at most", _bound(field, Le))) if bound]
    if bounds:
        return f"write a whole number, {' and '.join(bounds)}"
    if (sample := _sample(field)) in [text for _, text in _SAMPLES]:
        return f"write for example {sample}"
    shape = _shape(annotation)
    return f"write {shape}" if shape else "add it"


def _shape(annotation: Any) -> str:
    """A model in braces with its required keys, or the names of its keys if none is required; a mapping with one entry."""
    if typing.get_origin(kind := _required_part(annotation)) in (dict, Mapping):
        return f"{{<name>: {_shape(typing.get_args(kind)[1]) or _ANY}}}"
    keys = _required(annotation)
    if not keys and (model := _model(annotation)):
        return f"at least one of its keys below it: {', '.join(_keys(model))}"
    return f"{{{', '.join(f'{key}: {sample}' for key, sample in keys.items())}}}" if keys else ""


def _required(annotation: Any) -> dict[str, str]:
    """The required keys of a model with a sample of each. Of a union it has the keys that every model requires."""
    if tagged := _choices(annotation):
        first, *more = map(_required, tagged.values())
        shared = [key for key in first if all(key in keys for keys in more)]
        return {key: first[key] if all(keys.get(key) == first[key] for keys in more) else _ANY for key in shared}
    model = _model(annotation)
    fields = model.model_fields.items() if model else ()
    return {field.alias or name: _sample(field) for name, field in fields if field.is_required()}


def _sample(field: FieldInfo) -> str:
    """A short value of a field, or an ellipsis."""
    kind = _required_part(field.annotation)
    if quantity := [text for mark, text in _SAMPLES if mark in field.metadata]:
        return quantity[0]
    if typing.get_origin(kind) is typing.Literal:
        return str(typing.get_args(kind)[0])
    if typing.get_origin(kind) in (tuple, list):
        return "[…]"
    if typing.get_origin(kind) in (dict, Mapping) or _model(kind) or _choices(field.annotation):
        return "{…}"
    return "true" if kind is bool else str(_bound(field, Ge) or _ANY)


def _bound(field: FieldInfo, kind: type[Ge] | type[Le]) -> Any:
    return next((getattr(mark, kind.__name__.lower()) for mark in field.metadata if isinstance(mark, kind)), None)


def _required_part(annotation: Any) -> Any:
    """An annotation without its metadata, and of an optional one the part that is not None."""
    bare = _bare(annotation)
    return next((_required_part(part) for part in _parts(bare) if part is not type(None)), bare)


def _field(root: type[BaseModel], path: tuple[str, ...]) -> FieldInfo:
    """The field at a location; an item of a mapping or list is a field without a name."""
    model = _model_at(root, path[:-1])
    fields = (field for name, field in model.model_fields.items() if path[-1] in (field.alias, name)) if model else ()
    return next(iter(fields), None) or FieldInfo.from_annotation(_at(root, path))


def _elsewhere(root: type[BaseModel], path: tuple[str, ...]) -> str:
    """Where an unknown key belongs: to another kind of runner or another provider. Empty if nowhere."""
    walked = list(_walk(root, path[:-1]))
    # The nearest union first: a runner's kind before its cluster's provider.
    for index in reversed([index for index, (_, tag, _) in enumerate(walked) if tag]):
        before = walked[index - 1][2]
        # Another provider may have no cluster that exists already, so its models have no such tag.
        steps = [step for step, _, _ in walked[index + 1 :] if step not in _ORIGINS]
        have = [option for option in _choices(before) if path[-1] in _keys(_model_at(root, (*path[:index], option, *steps)))]
        if have and have[0] in _ORIGINS:
            return f"it belongs to {_ORIGINS[have[0]]}; remove it"
        if have:
            selector = _TOLD_BY.get(have[0], "provider")
            change = "" if selector == "provider" else f" or change {selector}"
            return f"it belongs to {selector} {' or '.join(have)}, remove it{change}"
    return ""


def _keys(model: type[BaseModel] | None) -> tuple[str, ...]:
    return tuple(field.alias or name for name, field in model.model_fields.items()) if model else ()


def is_foreign_kind(error: ErrorDetails) -> bool:
    """Whether the provider does not support the runner's kind. The wrong model then reads its other keys."""
    return error["type"] == "literal_error" and error["loc"][-1] == "kind" and error["input"] in KINDS


def _foreign_kind(kind: str, provider: str, providers: Mapping[str, Any]) -> str:
    able = [name for name, settings in providers.items() if kind in _choices(_below(_below(settings, "runners"), ""))]
    return said("machines_elsewhere", provider=provider, kind=kind, able=" or ".join(able))


def untagged(root: type[BaseModel], location: tuple[str, ...]) -> tuple[str, ...]:
    """A location below `root` without the tags of unions, which pydantic adds and the file does not have."""
    return tuple(step for step, tag, _ in _walk(root, location) if not tag)


def _model_at(root: type[BaseModel], location: tuple[str, ...]) -> type[BaseModel] | None:
    """The settings model at a location, or None."""
    return _model(_at(root, location))


def _at(root: type[BaseModel], location: tuple[str, ...]) -> Any:
    """The annotation at a location, or None beyond the models."""
    annotations = [annotation for _, _, annotation in _walk(root, location)]
    return annotations[-1] if annotations else root


def _walk(root: type[BaseModel], location: tuple[str, ...]) -> Iterator[tuple[str, bool, Any]]:
    """(step, whether it is a union's tag, annotation there) for each step; the annotation is None beyond the models."""
    here: Any = root
    for step in location:
        tagged = _choices(here)
        here = tagged[step] if step in tagged else _below(here, step)
        yield step, step in tagged, here


def _choices(annotation: Any) -> dict[str, Any]:
    """The models of a tagged union, by tag: a cluster of each provider, a runner of each kind. Empty for anything else."""
    for mark in getattr(annotation, "__metadata__", ()):
        if isinstance(mark, Choices):
            return dict(mark.choices)
    annotation = _bare(annotation)
    marked = [(mark, part) for part in _parts(annotation) for mark in getattr(part, "__metadata__", ())]
    tagged = {mark.tag: part for mark, part in marked if isinstance(mark, Tag)}
    # An optional union is one part of a union with None.
    return tagged or next((choices for part in _parts(annotation) if (choices := _choices(part))), {})


def _below(annotation: Any, step: str) -> Any:
    """The annotation of a field, of a mapping's values or of a list's items."""
    model, bare = _model(annotation), _bare(annotation)
    if model is not None:
        return next((field.annotation for name, field in model.model_fields.items() if step in (field.alias, name)), None)
    if tagged := _choices(annotation):
        return _below(next(iter(tagged.values())), step)
    arguments = typing.get_args(bare)
    if typing.get_origin(bare) in (dict, Mapping):
        return arguments[1]
    return arguments[0] if typing.get_origin(bare) in (tuple, list) else None


def _bare(annotation: Any) -> Any:
    return typing.get_args(annotation)[0] if typing.get_origin(annotation) is typing.Annotated else annotation


def _parts(annotation: Any) -> tuple[Any, ...]:
    return typing.get_args(annotation) if typing.get_origin(annotation) in (typing.Union, types.UnionType) else ()


def _model(annotation: Any) -> type[BaseModel] | None:
    if (bare := _required_part(annotation)) is Any and (tagged := _choices(annotation)):
        bare = next(iter(tagged.values()))
    return bare if isinstance(bare, type) and issubclass(bare, BaseModel) else None
