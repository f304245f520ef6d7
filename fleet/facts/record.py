"""The base class of frozen records."""

from dataclasses import dataclass, field
from typing import Any, dataclass_transform


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class _Records(type):
    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any) -> Any:
        made = super().__new__(cls, name, bases, body)
        # `dataclass` makes a class anew to give it slots.
        return made if "__slots__" in body else dataclass(frozen=True, slots=True, **options)(made)


class Record(metaclass=_Records):
    """A class that extends it is a frozen dataclass with slots: `class Price(Record)`. `kw_only` and `eq` as of `dataclass`."""

    __slots__ = ()
