"""IAM policy documents: JSON in a string property. Reading one never raises for invalid JSON."""

from collections.abc import Iterator

from .read import Data, Later, items, keys, parsed, text, walk


def statements(document: Data, later: Later) -> Iterator[tuple[str, Data]]:
    """Path ("Statement[0]") and body of each statement with effect Allow. A single statement needs no list."""
    body = walk(parsed(document) if isinstance(document, str) else document, "Statement")
    single = [(0, body)] if keys(body) else []
    for index, statement in single or items(body, later):
        if text(walk(statement, "Effect")) == "Allow":
            yield f"Statement[{index}]", statement


def listed(value: Data, later: Later) -> tuple[str, ...]:
    """The strings of a value that is a string or a list of strings: IAM accepts both."""
    if isinstance(value, str):
        return (value,)
    return tuple(text(item) for _, item in items(value, later))
