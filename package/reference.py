"""Writes package/schema.json and the reference in docs/components.md from the components: `python -m package.reference`."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from package.provider import NAME, PackageProvider

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "package" / "schema.json"
PAGE = ROOT / "docs" / "components.md"
_BLOCK = re.compile(r"(<!-- reference -->\n).*?(<!-- /reference -->)", re.DOTALL)
_TYPE = re.compile(rf"#/types/{NAME}:index:(\w+)")
_NAMES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "boolean"}


def schema() -> dict[str, Any]:
    """The package's schema, as the SDK infers it from the components."""
    found: dict[str, Any] = json.loads(PackageProvider().schema or "{}")
    return found


def schema_text(schema: Mapping[str, Any]) -> str:
    """The content of package/schema.json."""
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def page(text: str, schema: Mapping[str, Any]) -> str:
    """The page docs/components.md with a current reference."""
    reference = "\n".join(_lines(schema))
    return _BLOCK.sub(lambda found: f"{found[1]}{reference}\n{found[2]}", text)


def _lines(schema: Mapping[str, Any]) -> Iterator[str]:
    for token, found in sorted(schema["resources"].items()):
        yield from ("", f"### {token.rpartition(':')[2]}", "", *found["description"].splitlines(), "")
        yield from _table("argument", found["inputProperties"], found["requiredInputs"])
        yield from ("", *_table("output", found["properties"]))
    yield from ("", "### Types", "", "Mappings that arguments contain.")
    for token, found in sorted(schema["types"].items()):
        yield from ("", f"#### {token.rpartition(':')[2]}", "", *found["description"].splitlines(), "")
        yield from _table("key", found["properties"], found.get("required", ()))
    yield ""


def _table(head: str, properties: Mapping[str, Any], required: Any = None) -> Iterator[str]:
    given = required is not None
    yield f"| {head} | type |{' value |' if given else ''} description |"
    yield f"|---|---|{'---|' if given else ''}---|"
    # Required ones first.
    for name in sorted(properties, key=lambda name: (name not in (required or ()), name)):
        held = properties[name]
        words = ["required"] if name in (required or ()) else []
        value = f" {', '.join([*words, _value(held)])} |" if given else ""
        yield f"| `{name}` | {_type(held)} |{value} {' '.join(held['description'].split()).replace('|', chr(92) + '|')} |"


def _value(held: Mapping[str, Any]) -> str:
    if not held.get("plain"):
        return "output allowed"
    inside = held.get("items") or held.get("additionalProperties") or held
    return "plain" if inside.get("plain") else "plain, outputs allowed inside"


def _type(held: Mapping[str, Any]) -> str:
    if reference := _TYPE.fullmatch(held.get("$ref", "")):
        return f"[{reference[1]}](#{reference[1].lower()})"
    if "items" in held:
        return f"list of {_type(held['items'])}"
    if "additionalProperties" in held:
        return f"mapping of {_type(held['additionalProperties'])}"
    return _NAMES[held["type"]] if "type" in held else "any value"


if __name__ == "__main__":
    current = schema()
    SCHEMA.write_text(schema_text(current))
    PAGE.write_text(page(PAGE.read_text(), current))
    sys.stderr.write(f"wrote {SCHEMA.relative_to(ROOT)} and {PAGE.relative_to(ROOT)}\n")
