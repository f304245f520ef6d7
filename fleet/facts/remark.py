"""Remarks of a plan: what the reader should know, although no setting is wrong."""

from functools import cache
from typing import Literal, Self

from fleet.facts.tables import beside

Kind = Literal["fact", "cost", "cannot-work"]
FACT: Kind = "fact"
COST: Kind = "cost"
CANNOT_WORK: Kind = "cannot-work"
"""The kind of what no edit breaks and no cloud does, such as nodes of a reservation that is over."""


class Remark(str):
    """A remark is its text. Plain text is a fact that needs no action.

    `act`: the reader should do something. `parts` are the entries of the stack file that cannot work: "usw2" or "usw2/t4-spot".
    """

    __slots__ = ("act", "kind", "parts")
    kind: Kind
    act: bool
    parts: tuple[str, ...]

    def __new__(cls, text: str, kind: Kind = FACT, *, act: bool = False, parts: tuple[str, ...] = ()) -> Self:
        remark = super().__new__(cls, text)
        remark.kind, remark.act, remark.parts = kind, act or kind == CANNOT_WORK, parts
        return remark


@cache
def _words() -> dict[str, str]:
    return beside(__file__, "remarks.toml")


def said(key: str, /, **fields: object) -> str:
    """The text of a row of remarks.toml, with its fields filled in."""
    return _words()[key].format(**fields)


def todo(text: str) -> Remark:
    """A fact that the reader should act on."""
    return Remark(text, act=True)


def costs(text: str, *, act: bool = False) -> Remark:
    """A remark on money."""
    return Remark(text, COST, act=act)


def kind_of(text: str) -> Kind:
    """The kind of a remark."""
    return text.kind if isinstance(text, Remark) else FACT


def below(where: str, text: str, part: str | None = None) -> Remark:
    """A remark of a part, with the name of that part before it. `part` is the entry of the stack file that cannot work."""
    if not isinstance(text, Remark):
        return Remark(f"{where}: {text}")
    return Remark(f"{where}: {text}", text.kind, act=text.act, parts=text.parts if part is None else (part,))


def of_cluster(cluster: str, text: str) -> Remark:
    """A remark that a cluster's settings make, which do not know the cluster's name. The part "" is the cluster itself."""
    remark = below(cluster, text)
    parts = tuple(f"{cluster}/{part}" if part else cluster for part in remark.parts)
    return Remark(remark, remark.kind, act=remark.act, parts=parts)
