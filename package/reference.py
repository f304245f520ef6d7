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
    content: dict[str, Any] = json.loads(PackageProvider().schema or "{}")
    return content


def schema_text(schema: Mapping[str, Any]) -> str:
    """The content of package/schema.json."""
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def page(text: str, schema: Mapping[str, Any]) -> str:
    """The page docs/components.md with a current reference."""
    reference = "\n".join(_lines(schema))
    return _BLOCK.sub(lambda block: f"{block[1]}{reference}\n{block[2]}", text)


def _lines(schema: Mapping[str, Any]) -> Iterator[str]:
    for token, entry in sorted(schema["resources"].items()):
        yield from ("", f"### {token.rpartition(':')[2]}", "", *entry["description"].splitlines(), "")
        count = f"{len(entry['inputProperties'])} arguments, {len(entry['requiredInputs'])} required"
        yield from _folded(count, _table("argument", entry["inputProperties"], entry["requiredInputs"]))
        yield from ("", *_folded(f"{len(entry['properties'])} outputs", _table("output", entry["properties"])))
    yield from ("", "### Types", "", "Mappings that arguments contain.")
    for token, entry in sorted(schema["types"].items()):
        yield from ("", f"#### {token.rpartition(':')[2]}", "", *entry["description"].splitlines(), "")
        yield from _table("key", entry["properties"], entry.get("required", ()))
    yield ""


def _table(head: str, properties: Mapping[str, Any], required: Any = None) -> Iterator[str]:
    of_arguments = required is not None
    yield f"| {head} | type |{' value |' if of_arguments else ''} description |"
    yield f"|---|---|{'---|' if of_arguments else ''}---|"
    # Required ones first.
    for name in sorted(properties, key=lambda name: (name not in (required or ()), name)):
        entry = properties[name]
        words = ["required"] if name in (required or ()) else []
        value = f" {', '.join([*words, _value(entry)])} |" if of_arguments else ""
        yield f"| `{name}` | {_type(entry)} |{value} {' '.join(entry['description'].split()).replace('|', chr(92) + '|')} |"


def _folded(summary: str, lines: Iterator[str]) -> Iterator[str]:
    yield from (f"<details><summary>{summary}</summary>", "", *lines, "", "</details>")


def _value(entry: Mapping[str, Any]) -> str:
    if not entry.get("plain"):
        return "output allowed"
    inside = entry.get("items") or entry.get("additionalProperties") or entry
    return "plain" if inside.get("plain") else "plain, outputs allowed inside"


def _type(entry: Mapping[str, Any]) -> str:
    if reference := _TYPE.fullmatch(entry.get("$ref", "")):
        return f"[{reference[1]}](#{reference[1].lower()})"
    if "items" in entry:
        return f"list of {_type(entry['items'])}"
    if "additionalProperties" in entry:
        return f"mapping of {_type(entry['additionalProperties'])}"
    return _NAMES[entry["type"]] if "type" in entry else "any value"


if __name__ == "__main__":
    current = schema()
    SCHEMA.write_text(schema_text(current))
    PAGE.write_text(page(PAGE.read_text(), current))
    sys.stderr.write(f"wrote {SCHEMA.relative_to(ROOT)} and {PAGE.relative_to(ROOT)}\n")
