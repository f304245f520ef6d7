"""The base class of frozen records, and a key by identity."""

from dataclasses import dataclass, field, fields
from typing import Any, dataclass_transform


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class _Records(type):
    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any) -> Any:
        made = super().__new__(cls, name, bases, body)
        # `dataclass` makes a class anew to give it slots. A text of its own for each class would take a third of that time.
        return made if "__slots__" in body else dataclass(frozen=True, slots=True, repr=False, **options)(made)


class Record(metaclass=_Records):
    """A class that extends it is a frozen dataclass with slots: `class Price(Record)`. `kw_only` and `eq` as of `dataclass`."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"


class Same:
    """A value by its identity, as a key of what was read of it. Nothing may change the value afterwards."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
