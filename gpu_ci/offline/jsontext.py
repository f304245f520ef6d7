"""Plain data as JSON, and records as plain data, for the commands with `--json`."""

import json
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from pydantic.alias_generators import to_camel

from fleet.facts.credentials import masked


def document(content: Mapping[str, Any]) -> str:
    """Plain data as the text of a JSON document, with credentials masked."""
    return json.dumps(masked(content), indent=2, ensure_ascii=False)


def fields_of(record: object, *names: str) -> dict[str, Any]:
    """These attributes by their names in camelCase. `policy=rule` is the attribute `rule` by another name."""
    pairs = (name.rpartition("=") for name in names)
    return {key or to_camel(attribute): attrgetter(attribute)(record) for key, _, attribute in pairs}
