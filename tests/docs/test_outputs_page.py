"""The tables of docs/outputs.md are made from the types of the outputs and from what a first preview knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NotRequired, TypeVar, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from pulumi import Output

from components import outputs
from gpu_ci.offline.wire import UNKNOWN, Secret
from tests.components.recorded import recorded
from tests.docs.markdown import ROOT, assert_written

PAGE = ROOT / "docs/outputs.md"
STAGING: dict[str, Any] = dict(recorded("staging").outputs)
OKE_PODS: dict[str, Any] = dict(recorded("oke-pods").outputs)
RIGHT_SIZE: dict[str, Any] = dict(recorded("right-size").outputs)
EXISTING: dict[str, Any] = dict(recorded("existing-context").outputs)
USW2, SJC, LAB = STAGING["clusters"]["usw2"], OKE_PODS["clusters"]["sjc"], EXISTING["clusters"]["lab"]
TABLES: Mapping[str, Mapping[str, Any]] = {
    "StackOutputs": STAGING,
    "EksOutputs": RIGHT_SIZE["clusters"]["usw2"] | USW2,
    "OkeOutputs": SJC,
    "KubernetesOutputs": LAB,
    "RunnerSetOutputs": USW2["runnerSets"]["gpu-t4"],
}
"""By TypedDict, an example of it in a first preview."""


def shown(hint: Any, *, many: bool = False) -> str:
    """A type in words."""
    origin, args = get_origin(hint), get_args(hint)
    plural = "s" if many else ""
    if origin is Literal:
        return " or ".join(f'`"{each}"`' for each in args)
    if origin is dict:
        return f"map{plural} of {shown(args[1], many=True)}"
    if origin is list:
        return f"list{plural} of {shown(args[0], many=True)}"
    if is_typeddict(hint) or all(map(is_typeddict, args)):
        return f"object{plural}"
    # The first of what an Input allows is the plain value.
    return f"list{plural} of strings" if get_origin(args[0]) is Sequence else f"string{plural}"


def known(value: object) -> str:
    """Whether a first preview knows a value."""
    found = {each is UNKNOWN for each in leaves(value)}
    return "known" if True not in found else "in part" if False in found else "unknown"


def leaves(value: Any) -> Iterator[object]:
    """The values in maps, lists and secrets."""
    if isinstance(value, Secret):
        yield from leaves(value.reveal())
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from leaves(each)
    else:
        yield value


def text_of(hint: Any) -> str:
    """The text of an annotated type, which may be that of a key which only some clusters have."""
    annotated = get_args(hint)[0] if get_origin(hint) is NotRequired else hint
    text: str = annotated.__metadata__[0]
    return text


def table(name: str, example: Mapping[str, Any]) -> str:
    kind = getattr(outputs, name)
    # `pulumi.Input` has these as text.
    names = {"Output": Output, "T": TypeVar("T")}
    hints = get_type_hints(kind, localns=names)
    annotated = get_type_hints(kind, localns=names, include_extras=True)
    texts = {key: text_of(hint) for key, hint in annotated.items()}
    rows = [f"| `{key}` | {shown(hints[key])} | {known(example[key])} | {texts[key]} |" for key in hints]
    return "\n".join(["", "| key | type | before the first `up` | |", "|---|---|---|---|", *rows, "", ""])


@pytest.mark.parametrize("name", TABLES)
def test_the_page_shows_the_types(name):
    assert_written(PAGE, f"outputs:{name}", table(name, TABLES[name]))
