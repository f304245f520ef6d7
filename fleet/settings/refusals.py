"""How settings refuse a value: the problem of a rule, whose words are in refusals.toml, and validators that raise one."""

import math
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, model_validator
from pydantic_core import CoreSchema, PydanticCustomError

from fleet.facts.cloud_limits import limit
from fleet.facts.record import Record
from fleet.facts.tables import beside

if TYPE_CHECKING:  # not needed for a plan
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

_REFUSALS: dict[str, str] = beside(__file__, "refusals.toml")
_TOLD = frozenset(("at", "value", "private"))


def words(rule: str, **context: object) -> str:
    """What a row of refusals.toml says, with its fields filled in."""
    return _REFUSALS[rule].format(**context)


def problem(rule: str, message: str = "", /, **context: object) -> PydanticCustomError:
    """The error of a settings rule: `rule` is its short name, and what is wrong and how to fix it is its row in refusals.toml.

    `context` fills in the row. `message` is instead of a row, for a rule whose words depend on its caller. `at` is the path of
    the wrong value below the model; default: the model itself. The error line shows what the stack file has there. `value` is
    shown instead, and `private=True` shows nothing.
    """
    told = {"message": message or words(rule, **context)} | {key: context[key] for key in _TOLD & context.keys()}
    return PydanticCustomError(f"gpu_ci_{rule.partition('__')[0]}", "{message}", told)


def refuse_if(rule: str, broken: object, /, **context: object) -> None:
    """Raise the problem of a rule, a row of refusals.toml, if `broken` is true. `context` as of `problem`."""
    if broken:
        raise problem(rule, **context)


def refuse(*at: str, **broken: object) -> None:
    """Raise the problem of the rule, a row of refusals.toml, whose condition is true: `refuse("max", scale=low > high)`."""
    for rule, holds in broken.items():
        if holds:
            raise problem(rule, at=at) if at else problem(rule)


def refusal(check: Callable[[Any], None]) -> Any:
    """A validator of a whole model from a method that only raises settings problems."""

    @wraps(check)
    def validator(self: Any) -> Any:
        check(self)
        return self

    return model_validator(mode="after")(validator)


def refuses(check: Callable[[Any], None]) -> AfterValidator:
    """A validator of a value from a function that only raises settings problems."""

    def validator(value: Any) -> Any:
        check(value)
        return value

    return AfterValidator(validator)


def accepted(rule: str, accepts: Callable[[Any], object], **context: object) -> AfterValidator:
    """A validator that refuses what `accepts` does not take. `context` as of `problem`."""

    return refuses(lambda value: refuse_if(rule, not accepts(value), **context))


_LEAST_REASON, _MOST_REASON = 20, 200


def _reason(text: str) -> str:
    reason = text.strip()
    fits = _LEAST_REASON <= len(reason) <= _MOST_REASON and reason.isprintable()
    refuse_if("reason", not fits, least=_LEAST_REASON, most=_MOST_REASON)
    return reason


Reason = Annotated[str, AfterValidator(_reason)]
"""Why a person accepts something, in words. The plan prints it."""


class Form(Record):
    """How a JSON Schema describes a value that a validator checks: `rule` says in words what the validator allows.

    `title` names the kind of value, `pattern` is a regular expression of the whole text, `types` are the JSON types. `values`
    returns the allowed values.
    """

    title: str
    rule: str
    pattern: str = ""
    most: int | None = None
    types: tuple[str, ...] = ("string",)
    values: Callable[[], Iterable[str]] | None = None

    def keywords(self) -> "JsonSchemaValue":
        """The keywords of this form. Editors show `patternErrorMessage`, which is not a keyword of JSON Schema."""
        kind = {"type": self.types[0] if len(self.types) == 1 else list(self.types), "title": self.title}
        pattern = {"pattern": f"^({self.pattern})$"} if self.pattern else {}
        most = {} if self.most is None else {"maxLength": self.most}
        values = {} if self.values is None else {"enum": list(self.values())}
        return {**kind, **pattern, **most, **values, "patternErrorMessage": self.rule}

    def __get_pydantic_json_schema__(self, source: CoreSchema, handler: "GetJsonSchemaHandler") -> "JsonSchemaValue":
        """The schema of the value with these keywords."""
        return {**handler(source), **self.keywords()}


@dataclass(frozen=True, slots=True)
class _Described(AfterValidator):
    """A validator with the keywords that it adds to the JSON Schema of its value."""

    keywords: "Callable[[], JsonSchemaValue]"

    def __get_pydantic_json_schema__(self, source: CoreSchema, handler: "GetJsonSchemaHandler") -> "JsonSchemaValue":
        return {**handler(source), **self.keywords()}


def matching(rule: str, pattern: str, *, most: int | None = None, form: Form | None = None, **context: object) -> AfterValidator:
    """A validator that refuses a text unless the whole of it matches `pattern` and it has at most `most` characters.

    `form` replaces what the JSON Schema says of it, where a pattern of Python has another meaning in JavaScript. `context` as of
    `problem`.
    """
    compiled, title = re.compile(pattern), rule.partition("__")[0].replace("_", " ")

    def check(text: str) -> str:
        if (most is not None and len(text) > most) or not compiled.fullmatch(text):
            raise problem(rule, **context)
        return text

    return _Described(check, (form or Form(title, words(rule, **context), pattern, most)).keywords)


def limited(of: str, path: str, kind: str = "") -> AfterValidator:
    """A validator that refuses what a row of `fleet.facts.cloud_limits` refuses, which the policy `cloud-limits` judges too."""
    row = limit(of, path, kind)

    def check(value: Any) -> Any:
        items = value if isinstance(value, tuple) else ()
        plain = [entry.model_dump() if isinstance(entry, BaseModel) else entry for entry in items]
        if (fault := row.fault(plain if isinstance(value, tuple) else value)) is not None:
            raise problem("cloud_limit", fault)
        return value

    def keywords() -> "JsonSchemaValue":
        """The least and most of a number, the words of a text."""
        if row.kind == "whole" and not row.words:
            return {"minimum": row.least, "maximum": row.most}
        return {"enum": list(row.words)} if row.kind == "words" else {}

    return _Described(check, keywords)


def between(rule: str, least: int, most: float = math.inf, *, step: int = 1, **context: object) -> AfterValidator:
    """A validator that refuses a number below `least` or above `most`, and one that `step` does not divide.

    `context` as of `problem`.
    """

    return accepted(rule, lambda number: least <= number <= most and not number % step, **context)


def require_once(rule: str, values: Collection[object], *, at: tuple[str, ...]) -> None:
    """Refuse a list that has a value twice. Raises a settings problem."""
    refuse_if(rule, len(set(values)) < len(values), at=at)
