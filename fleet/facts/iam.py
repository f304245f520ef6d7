"""Whether IAM documents of one account allow an action: an explicit deny wins, then any allow, else deny.

A condition whose key the request lacks fails, but holds for an operator with Not or IfExists (IAM user guide, policy evaluation
logic and condition operators). moto 5 does not evaluate such conditions (moto/iam/access_control.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

Document = Mapping[str, Any]
Texts = Mapping[str, str]


def allows(documents: Iterable[Document], action: str, arn: str | None, request: Texts, principal: Texts | None = None) -> bool:
    """Whether the documents allow an action. `arn` is None for a trust policy, `request` are the condition keys that it has.

    Raises ValueError for an unknown operator of a condition.
    """
    effects = set()
    for statement in (statement for document in documents for statement in document["Statement"]):
        actions = [pattern.lower() for pattern in listed(statement["Action"])]
        conditions = ((key, of) for key, of in statement.get("Condition", {}).items())
        of_it = statement.get("Principal", "*") in ("*", principal) and _like(action.lower(), actions)
        on_it = arn is None or _like(arn, listed(statement["Resource"]))
        if of_it and on_it and all(_holds(how, request.get(key), listed(of[key])) for how, of in conditions for key in of):
            effects.add(statement["Effect"])
    return effects == {"Allow"}


def _holds(operator: str, found: str | None, asked: Sequence[str]) -> bool:
    equal, like = found in asked, found is not None and _like(found, asked)
    held = dict.fromkeys(("StringEquals", "Bool", "ForAnyValue:StringEquals"), equal) | {"StringNotEquals": not equal}
    held |= dict.fromkeys(("StringLike", "ForAnyValue:StringLike", "ArnEquals"), like) | {"ArnNotEquals": not like}
    held |= {"Null": str(found is None).lower() in asked, "StringEqualsIfExists": equal or found is None}
    if operator not in held:
        raise ValueError(f"condition operator {operator} is not known here; add it")
    return held[operator]


def listed(given: str | Sequence[str]) -> Sequence[str]:
    """A value of a document that may be one text or several."""
    return [given] if isinstance(given, str) else given


def _like(text: str, patterns: Sequence[str]) -> bool:
    """Whether IAM's wildcards match: * is any text, ? is one character."""
    return any(fnmatchcase(text, pattern.replace("[", "[[]")) for pattern in patterns)
