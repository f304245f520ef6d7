"""The base class of frozen records."""

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
