"""The table of messages: the rules say each row, with all of its fields."""

from __future__ import annotations

import ast
import re
import tomllib
from string import Formatter

from policies.rules import rule
from tests.builders import ROOT
from tests.sources import parsed

RULES = ROOT / "policies" / "rules"
MESSAGES: dict[str, str] = tomllib.loads((RULES / "messages.toml").read_text(encoding="utf-8"))


def test_every_row_is_said_with_its_fields() -> None:
    """A row without one of its fields would say the field's name in place of its value."""
    calls = [node for path in RULES.glob("*.py") for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)]
    said = [call for call in calls if ast.unparse(call.func) == "said"]
    rows = [str(ast.literal_eval(call.args[0])) for call in said]
    assert sorted(rows) == sorted(MESSAGES), "each row once"
    for row, call in zip(rows, said, strict=True):
        parts = [(name, how) for _, name, how, _ in Formatter().parse(MESSAGES[row]) if name is not None]
        fields = {re.split(r"[.\[]", name)[0] for name, how in parts if how not in ("setting", "stack_file")}
        assert {keyword.arg for keyword in call.keywords} == fields, row
        assert fields.isdisjoint(name for name, how in parts if how in ("setting", "stack_file")), (
            "a field would hide the setting"
        )


def test_a_row_says_its_fields_as_it_asks() -> None:
    row, path = "few_zones", rule.stack_file("clusters.<cluster>.pools.<pool>.zones")
    assert rule.said(row, path="zones", has="1 zone", minimum=2, fix="add one") == (
        f"zones has 1 zone: a spot GPU pool needs 2 zones or more; add one ({path})"
    )
    assert rule.said("monitor_namespaces") == MESSAGES["monitor_namespaces"]
    large = rule.said("large_claim", path="spec", total=9, most=8)
    assert (
        large == f"spec.devices.requests ask for 9 GPUs in all: a claim has at most 8 ({rule.setting('maxCount')}); ask for fewer"
    )
    assert rule.said("provider_key", name="token").startswith("token is set: ")
    assert rule.said("newest_release", release=None).startswith("releaseVersion is not set: ")
